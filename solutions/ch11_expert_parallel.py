"""Answers to the exercises of chapter 11."""

import torch
from torch.nn.functional import one_hot

from course_lib.lessons.exchange import exchange


def route_tokens(scores, k, capacity):
    """Each token takes its k best; an expert then serves whoever comes first, up to its capacity."""
    best, chosen = scores.topk(k, dim=-1)
    weights = best / best.sum(-1, keepdim=True)
    queue = one_hot(chosen.flatten(), scores.shape[-1]).cumsum(0)  # how many want each expert, up to each pair
    place = queue.gather(1, chosen.flatten()[:, None]).view_as(chosen)
    return chosen, weights, place <= capacity


def dispatch(dist, rows, experts, per_rank):
    """Sort by expert, so that what goes to one rank lies together; tell the counts first, then send the rows."""
    order = experts.argsort(stable=True)
    sent = torch.bincount(experts, minlength=dist.get_world_size() * per_rank).view(-1, per_rank)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    came = exchange(dist, rows[order], sent.sum(1).tolist(), received.sum(1).tolist())
    pieces = came.split(received.flatten().tolist())  # from rank 0 for my first expert, for my second, ..., from rank 1
    return [torch.cat(pieces[mine::per_rank]) for mine in range(per_rank)], (order, sent, received)


def combine(dist, results, trip):
    """The same way back: cut each expert's results by where they came from, send, and undo the sorting."""
    order, sent, received = trip
    pieces = [part.split(counts.tolist()) for part, counts in zip(results, received.T, strict=True)]
    rows = torch.cat([piece for of_one_rank in zip(*pieces, strict=True) for piece in of_one_rank])
    back = exchange(dist, rows, received.sum(1).tolist(), sent.sum(1).tolist())
    return back[order.argsort()]


def expert_parallel_layer(dist, x, router, experts, k, capacity):
    """Route here, compute there, add up here; what was dropped adds nothing."""
    chosen, weights, kept = route_tokens((x @ router).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]  # whose copy each kept pair is
    arrived, trip = dispatch(dist, x[tokens], chosen[kept], len(experts))
    results = [expert(rows) for expert, rows in zip(experts, arrived, strict=True)]
    back = combine(dist, results, trip) * weights[kept][:, None]
    return torch.zeros_like(x).index_add(0, tokens, back)


def balance_bias(bias, load, speed):
    """Up by a fixed step for experts with less than the mean load, down for those with more."""
    load = load.double()
    return bias + speed * torch.sign(load.mean() - load).to(bias.dtype)


def auxiliary_loss(scores, chosen):
    """Smallest where both the choices and the scores are even; the choices have no gradient, the scores have."""
    tokens, experts = scores.shape
    share = torch.bincount(chosen.flatten(), minlength=experts) / chosen.numel()
    return experts * (share * scores.mean(0)).sum()


def node_limited_routing(scores, k, nodes, most):
    """The best nodes by their best experts, then the best experts of those nodes alone."""
    tokens, experts = scores.shape
    grouped = scores.view(tokens, nodes, -1)
    best = grouped.topk(max(1, k // most), -1).values.sum(-1).topk(most, -1).indices
    allowed = torch.zeros(tokens, nodes, dtype=torch.bool).scatter(1, best, True)
    masked = grouped.masked_fill(~allowed[..., None], float("-inf"))
    return masked.view(tokens, experts).topk(k, -1).indices


def all_to_all_bytes(shape, ranks, there, back):
    """Each of k copies goes and comes, and one of `ranks` of them has not far to go."""
    numbers = shape.moe_layers * shape.experts_per_token * shape.hidden
    return numbers * (there + back) * (ranks - 1) / ranks


def which_layout(shape, gpus, memory, parameter_bytes):
    """The fewest ranks over which the experts fit: the smaller the group, the less its messages leave a node."""
    experts = shape.moe_layers * shape.experts * 3 * shape.hidden * shape.expert_ffn * parameter_bytes
    for ranks in range(1, gpus + 1):
        if gpus % ranks == 0 and shape.experts % ranks == 0 and experts / ranks <= memory:
            return ranks
    raise ValueError(f"the experts take {experts:,} bytes, and do not fit on {gpus} GPUs with {memory:,} bytes each")
