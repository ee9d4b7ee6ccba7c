"""Wrong answers to chapter 11 as learners write them, and right ones written differently."""

from __future__ import annotations

import torch

from course_lib.lessons.exchange import exchange
from solutions import ch11_expert_parallel as course
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()
CHOOSE = course.route_tokens

# route_tokens


@wrong("route_tokens", "lowest", "token 0 chose experts", "you took the lowest scores", earned=0)
def route_lowest(scores, k, capacity):
    return CHOOSE(-scores, k, capacity)


@wrong("route_tokens", "order", "the best first", earned=0)
def route_backwards(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    return chosen.flip(1), weights.flip(1), kept.flip(1)


@wrong("route_tokens", "not-normalized", "are the scores themselves", "divide by the sum", earned=1)
def route_without_division(scores, k, capacity):
    chosen, _, kept = CHOOSE(scores, k, capacity)
    return chosen, scores.gather(1, chosen), kept


@wrong("route_tokens", "softmax-again", "a softmax of scores", earned=1)
def route_softmax_again(scores, k, capacity):
    chosen, _, kept = CHOOSE(scores, k, capacity)
    return chosen, scores.gather(1, chosen).softmax(1), kept


@wrong("route_tokens", "after-drop", "does not depend on who came first", earned=1)
def route_shares_out_what_is_dropped(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    left = weights * kept
    return chosen, torch.nan_to_num(left / left.sum(1, keepdim=True)), kept


@wrong("route_tokens", "zeroed", "`kept` says that already", earned=1)
def route_zeroes_what_is_dropped(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    return chosen, weights * kept, kept


@wrong("route_tokens", "no-gradient", "the router would never learn", earned=1)
def route_detached(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    return chosen, weights.detach(), kept


@wrong("route_tokens", "one-less", "one less than its capacity", earned=3)
def route_one_less(scores, k, capacity):
    return CHOOSE(scores, k, capacity - 1)


@wrong("route_tokens", "one-more", "one more than its capacity", earned=3)
def route_one_more(scores, k, capacity):
    return CHOOSE(scores, k, capacity + 1)


@wrong("route_tokens", "by-choice", "comes before the first choice of a later one", earned=3)
def route_first_choices_first(scores, k, capacity):
    """As GShard does: all first choices stand before the second ones."""
    chosen, weights, _ = CHOOSE(scores, k, capacity)
    kept, load = torch.zeros_like(chosen, dtype=torch.bool), [0] * scores.shape[1]
    for place in range(k):
        for token in range(len(scores)):
            expert = int(chosen[token, place])
            kept[token, place] = load[expert] < capacity
            load[expert] += 1
    return chosen, weights, kept


@wrong("route_tokens", "by-score", "who comes first is served", earned=3)
def route_highest_scores(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    kept = torch.zeros_like(kept)
    for expert in range(scores.shape[1]):
        pairs = (chosen == expert).nonzero().tolist()
        for token, place in sorted(pairs, key=lambda pair: -scores[pair[0], expert].item())[: int(min(capacity, 999))]:
            kept[token, place] = True
    return chosen, weights, kept


@wrong("route_tokens", "whole-token", "still served by its others", earned=3)
def route_drops_whole_tokens(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores, k, capacity)
    return chosen, weights, kept.all(1, keepdim=True).expand_as(kept).clone()


@wrong("route_tokens", "last-come", "these are the last", earned=3)
def route_serves_the_last(scores, k, capacity):
    chosen, weights, kept = CHOOSE(scores.flip(0), k, capacity)
    return chosen.flip(0), weights.flip(0), kept.flip(0)


@wrong("route_tokens", "changed", "work on a copy", earned=0)
def route_in_place(scores, k, capacity):
    found = CHOOSE(scores.clone(), k, capacity)
    scores.mul_(2)
    return found


@wrong("route_tokens", "form", "return three tensors", earned=0)
def route_two_things(scores, k, capacity):
    return CHOOSE(scores, k, capacity)[:2]


@right("route_tokens")
def route_by_loop(scores, k, capacity):
    chosen = scores.argsort(dim=1, descending=True)[:, :k]
    values = torch.stack([scores[token, mine] for token, mine in enumerate(chosen)]) if len(scores) else scores[:, :k]
    weights, kept, load = values / values.sum(1, keepdim=True), torch.zeros(chosen.shape).bool(), {}
    for token, mine in enumerate(chosen.tolist()):
        for place, expert in enumerate(mine):
            load[expert] = load.get(expert, 0) + 1
            kept[token, place] = load[expert] <= capacity
    return [chosen, weights, kept]


@right("route_tokens")
def route_by_mask(scores, k, capacity):
    chosen = scores.topk(k, dim=1)[1]
    wanted = torch.zeros_like(scores).scatter(1, chosen, 1.0)
    place = wanted.cumsum(0) - wanted
    return chosen, torch.softmax(scores.log().gather(1, chosen), 1), place.gather(1, chosen) < capacity


# dispatch


def _sorted(dist, rows, experts, per_rank, owner=None):
    """What most dispatches share."""
    order = experts.argsort(stable=True)
    sent = torch.bincount(experts, minlength=dist.get_world_size() * per_rank).view(-1, per_rank)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    return order, sent, received


@wrong("dispatch", "not-regrouped", "it is sorted by rank first", earned=0)
def dispatch_not_regrouped(dist, rows, experts, per_rank):
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    came = exchange(dist, rows[order], sent.sum(1).tolist(), received.sum(1).tolist())
    return list(came.split(received.sum(0).tolist())), (order, sent, received)


@wrong("dispatch", "value", "the rows for expert", earned=0)
def dispatch_unsorted(dist, rows, experts, per_rank):
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    came = exchange(dist, rows, sent.sum(1).tolist(), received.sum(1).tolist())
    pieces = came.split(received.flatten().tolist())
    return [torch.cat(pieces[one::per_rank]) for one in range(per_rank)], (order, sent, received)


@wrong("dispatch", "owner", "the owner of e is e // per_rank", earned=0)
def dispatch_round_robin(dist, rows, experts, per_rank):
    ranks = dist.get_world_size()
    return course.dispatch(dist, rows, experts % ranks * per_rank + experts // ranks, per_rank)


@wrong("dispatch", "order", "in another order", earned=0)
def dispatch_backwards(dist, rows, experts, per_rank):
    arrived, trip = course.dispatch(dist, rows.flip(0), experts.flip(0), per_rank)
    return arrived, trip


@wrong("dispatch", "own-rows", "are only its own", earned=0)
def dispatch_stays_at_home(dist, rows, experts, per_rank):
    _, trip = course.dispatch(dist, rows, experts, per_rank)
    first = dist.get_rank() * per_rank
    return [rows[experts == first + one] for one in range(per_rank)], trip


@wrong("dispatch", "form", "one for each of its 3 experts", earned=0)
def dispatch_in_one_tensor(dist, rows, experts, per_rank):
    arrived, trip = course.dispatch(dist, rows, experts, per_rank)
    return [torch.cat(arrived)], trip


@wrong("dispatch", "leaves-early", "also one that has nothing to send", earned=2)
def dispatch_leaves_without_rows(dist, rows, experts, per_rank):
    if not len(rows):
        nothing = torch.zeros(dist.get_world_size(), per_rank, dtype=torch.int64)
        return [rows] * per_rank, (experts, nothing, nothing)
    return course.dispatch(dist, rows, experts, per_rank)


@wrong("dispatch", "swapped", "sent and received are exchanged", earned=3)
def dispatch_trip_exchanged(dist, rows, experts, per_rank):
    arrived, (order, sent, received) = course.dispatch(dist, rows, experts, per_rank)
    return arrived, (order, received, sent)


@wrong("dispatch", "summed", "a column for each of its experts", earned=3)
def dispatch_counts_of_ranks(dist, rows, experts, per_rank):
    arrived, (order, sent, received) = course.dispatch(dist, rows, experts, per_rank)
    return arrived, (order, sent.sum(1), received.sum(1))


@wrong("dispatch", "order", "rows[order] should be the rows as they were sent", earned=3)
def dispatch_inverse_order(dist, rows, experts, per_rank):
    arrived, (order, sent, received) = course.dispatch(dist, rows, experts, per_rank)
    return arrived, (order.argsort(), sent, received)


@wrong("dispatch", "too-many-bytes", "Send only the rows themselves", earned=4)
def dispatch_padded(dist, rows, experts, per_rank):
    """Every piece as large as the largest, as with a fixed capacity."""
    ranks = dist.get_world_size()
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    most = torch.stack([sent.max(), received.max()]).max()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    most = int(most)
    padded = rows.new_zeros(ranks * per_rank, most, rows.shape[1])
    padded = torch.stack([
        torch.cat([piece, piece.new_zeros(most - len(piece), rows.shape[1])])
        for piece in rows[order].split(sent.flatten().tolist())
    ]) if most else padded  # fmt: skip
    came = exchange(dist, padded.flatten(0, 1), [most * per_rank] * ranks, [most * per_rank] * ranks)
    came = came.view(ranks, per_rank, most, rows.shape[1])
    arrived = [torch.cat([came[rank, one, : int(received[rank, one])] for rank in range(ranks)])
               for one in range(per_rank)]  # fmt: skip
    return arrived, (order, sent, received)


@wrong("dispatch", "too-many-bytes", "a rank sent", earned=4)
def dispatch_gathers_all(dist, rows, experts, per_rank):
    """Everybody gets every row and picks its own."""
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    ranks, first = dist.get_world_size(), dist.get_rank() * per_rank
    size = [torch.zeros(1, dtype=torch.int64) for _ in range(ranks)]
    dist.all_gather(size, torch.tensor([len(rows)]))
    sizes = [int(one) for one in size]
    whole = exchange(dist, rows.repeat(ranks, 1), [len(rows)] * ranks, sizes)
    chosen = exchange(dist, experts.repeat(ranks)[:, None].double(), [len(rows)] * ranks, sizes)[:, 0]
    return [whole[chosen == first + one] for one in range(per_rank)], (order, sent, received)


@wrong("dispatch", "no-gradient", "send rows with `exchange`", earned=5)
def dispatch_detached(dist, rows, experts, per_rank):
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    came = rows.new_empty(int(received.sum()), rows.shape[1])
    dist.all_to_all_single(came, rows[order].detach(), received.sum(1).tolist(), sent.sum(1).tolist())
    pieces = came.split(received.flatten().tolist())
    return [torch.cat(pieces[one::per_rank]) for one in range(per_rank)], (order, sent, received)


@right("dispatch")
def dispatch_piece_by_piece(dist, rows, experts, per_rank):
    """Counts as a list of tensors, and a gather of indices in place of a sort."""
    ranks = dist.get_world_size()
    places = [torch.nonzero(experts == expert)[:, 0] for expert in range(ranks * per_rank)]
    sent = torch.tensor([len(place) for place in places]).reshape(ranks, per_rank)
    received = [torch.zeros(per_rank, dtype=torch.int64) for _ in range(ranks)]
    dist.all_to_all(received, list(sent))
    received, order = torch.stack(received), torch.cat(places)
    came = exchange(dist, rows.index_select(0, order), sent.sum(1), received.sum(1))
    arrived, begin = [[] for _ in range(per_rank)], 0
    for counts in received.tolist():
        for one, number in enumerate(counts):
            arrived[one].append(came[begin : begin + number])
            begin += number
    return tuple(torch.cat(parts) for parts in arrived), [order, sent, received]


@right("dispatch")
def dispatch_by_index(dist, rows, experts, per_rank):
    """Regroups what came by sorting the numbers of the experts it is for."""
    order, sent, received = _sorted(dist, rows, experts, per_rank)
    came = exchange(dist, rows[order], sent.sum(1).tolist(), received.sum(1).tolist())
    of = torch.arange(per_rank).repeat(len(received)).repeat_interleave(received.flatten())
    came = came[of.argsort(stable=True)]
    return list(came.split(received.sum(0).tolist())), (order, sent, received)


# combine


def _rows(results, received):
    pieces = [part.split(counts.tolist()) for part, counts in zip(results, received.T, strict=True)]
    return torch.cat([piece for of_one_rank in zip(*pieces, strict=True) for piece in of_one_rank])


@wrong("combine", "not-home", "row i of what comes back is row order[i]", earned=0)
def combine_stays_sorted(dist, results, trip):
    order, sent, received = trip
    return exchange(dist, _rows(results, received), received.sum(1).tolist(), sent.sum(1).tolist())


@wrong("combine", "inverse", "what undoes it is its inverse", earned=0)
def combine_orders_twice(dist, results, trip):
    return combine_stays_sorted(dist, results, trip)[trip[0]]


@wrong("combine", "mixed", "expert by expert", earned=0)
def combine_not_regrouped(dist, results, trip):
    order, sent, received = trip
    back = exchange(dist, torch.cat(list(results)), received.sum(1).tolist(), sent.sum(1).tolist())
    return back[order.argsort()]


@wrong("combine", "raised", "sums to", earned=0)
def combine_sizes_as_before(dist, results, trip):
    order, sent, received = trip
    back = exchange(dist, _rows(results, received), sent.sum(1).tolist(), received.sum(1).tolist())
    return back[order.argsort()]


@wrong("combine", "leaves-early", "Every rank takes part in each all-to-all", earned=2)
def combine_leaves_without_rows(dist, results, trip):
    """A rank that sent nothing does not wait for anything."""
    if not trip[1].sum():
        return results[0][:0]
    return course.combine(dist, results, trip)


@wrong("combine", "too-many-bytes", "send rows and nothing else", earned=3)
def combine_of_fixed_pieces(dist, results, trip):
    """Every piece as large as the largest."""
    order, sent, received = trip
    most = torch.stack([sent.sum(1).max(), received.sum(1).max()]).max()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    most, ranks = int(most), dist.get_world_size()
    pieces = _rows(results, received).split(received.sum(1).tolist())
    padded = [torch.cat([piece, piece.new_zeros(most - len(piece), piece.shape[1])]) for piece in pieces]
    came = exchange(dist, torch.cat(padded), [most] * ranks, [most] * ranks).view(ranks, most, -1 if most else 3)
    back = torch.cat([piece[:number] for piece, number in zip(came, sent.sum(1).tolist(), strict=True)])
    return back[order.argsort()]


@wrong("combine", "no-gradient", "send rows with `exchange`", earned=4)
def combine_detached(dist, results, trip):
    return course.combine(dist, [one.detach() for one in results], trip)


@wrong("combine", "form", "return a tensor of rows", earned=0)
def combine_in_pieces(dist, results, trip):
    return list(course.combine(dist, results, trip))


@right("combine")
def combine_by_filling(dist, results, trip):
    order, sent, received = trip
    pieces = []
    begins = [0] * len(results)
    for counts in received.tolist():
        for one, number in enumerate(counts):
            pieces.append(results[one][begins[one] : begins[one] + number])
            begins[one] += number
    came = exchange(dist, torch.cat(pieces), received.sum(1), sent.sum(1))
    return torch.zeros_like(came).index_copy(0, order, came)


@right("combine")
def combine_by_index(dist, results, trip):
    order, sent, received = trip
    ranks, per_rank = received.shape
    source = torch.cat([torch.arange(ranks).repeat_interleave(received[:, one]) for one in range(per_rank)])
    rows = torch.cat(list(results))[source.argsort(stable=True)]
    back = exchange(dist, rows, received.sum(1).tolist(), sent.sum(1).tolist())
    return back[order.sort().indices]


# expert_parallel_layer


def _parts(dist, x, router, experts, k, capacity):
    chosen, weights, kept = CHOOSE((x @ router).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]
    arrived, trip = course.dispatch(dist, x[tokens], chosen[kept], len(experts))
    back = course.combine(dist, [expert(rows) for expert, rows in zip(experts, arrived, strict=True)], trip)
    return weights, kept, tokens, back


@wrong("expert_parallel_layer", "unweighted", "without the weights", earned=0)
def layer_without_weights(dist, x, router, experts, k, capacity):
    _, _, tokens, back = _parts(dist, x, router, experts, k, capacity)
    return torch.zeros_like(x).index_add(0, tokens, back)


@wrong("expert_parallel_layer", "logits", "scores are its softmax", earned=0)
def layer_without_softmax(dist, x, router, experts, k, capacity):
    chosen, weights, kept = CHOOSE(x @ router, k, capacity)
    tokens = kept.nonzero()[:, 0]
    arrived, trip = course.dispatch(dist, x[tokens], chosen[kept], len(experts))
    back = course.combine(dist, [expert(rows) for expert, rows in zip(experts, arrived, strict=True)], trip)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[kept][:, None])


@wrong("expert_parallel_layer", "overwrites", "keeps only the last one: index_add adds them up", earned=0)
def layer_overwrites(dist, x, router, experts, k, capacity):
    """y[tokens] = ... keeps one of a token's experts."""
    weights, kept, tokens, back = _parts(dist, x, router, experts, k, capacity)
    y = torch.zeros_like(x)
    y[tokens] = back * weights[kept][:, None]
    return y


@wrong("expert_parallel_layer", "weighs-first", "weighted before the experts", earned=0)
def layer_weighs_before(dist, x, router, experts, k, capacity):
    """An expert is no linear function: weights have to come after it."""
    chosen, weights, kept = CHOOSE((x @ router).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]
    arrived, trip = course.dispatch(dist, x[tokens] * weights[kept][:, None], chosen[kept], len(experts))
    back = course.combine(dist, [expert(rows) for expert, rows in zip(experts, arrived, strict=True)], trip)
    return torch.zeros_like(x).index_add(0, tokens, back)


@wrong("expert_parallel_layer", "renormalized", "what is dropped adds nothing", earned=2)
def layer_renormalizes(dist, x, router, experts, k, capacity):
    weights, kept, tokens, back = _parts(dist, x, router, experts, k, capacity)
    weights = weights * kept
    weights = torch.nan_to_num(weights / weights.sum(1, keepdim=True))
    return torch.zeros_like(x).index_add(0, tokens, back * weights[kept][:, None])


@wrong("expert_parallel_layer", "rows", "were kept for it", earned=2)
def layer_without_capacity(dist, x, router, experts, k, capacity):
    return course.expert_parallel_layer(dist, x, router, experts, k, 10**6)


@wrong("expert_parallel_layer", "residual", "the block adds x anyway", earned=2)
def layer_passes_dropped_tokens(dist, x, router, experts, k, capacity):
    weights, kept, tokens, back = _parts(dist, x, router, experts, k, capacity)
    lost = ~kept.any(1)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[kept][:, None]) + lost[:, None] * x


@wrong("expert_parallel_layer", "no-router-gradient", "it would never learn", earned=4)
def layer_detaches_scores(dist, x, router, experts, k, capacity):
    """The scores are taken without gradient, as if only the choice mattered."""
    chosen, weights, kept = CHOOSE((x.detach() @ router.detach()).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]
    arrived, trip = course.dispatch(dist, x[tokens], chosen[kept], len(experts))
    back = course.combine(dist, [expert(rows) for expert, rows in zip(experts, arrived, strict=True)], trip)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[kept][:, None]) + 0 * x


@wrong("expert_parallel_layer", "calls", "give it all of its rows at once", earned=0)
def layer_row_by_row(dist, x, router, experts, k, capacity):
    def one_by_one(expert):
        return lambda rows: torch.cat([expert(row[None]) for row in rows]) if len(rows) else expert(rows)

    return course.expert_parallel_layer(dist, x, router, [one_by_one(expert) for expert in experts], k, capacity)


@wrong("expert_parallel_layer", "too-many-bytes", "Send no pair that is dropped", earned=6)
def layer_sends_what_it_drops(dist, x, router, experts, k, capacity):
    """Every pair travels, and the experts' rank is told as an own column to leave some out."""
    chosen, weights, kept = CHOOSE((x @ router).softmax(-1), k, capacity)
    tokens = torch.arange(len(x)).repeat_interleave(k)
    marked = torch.cat([x[tokens], kept.flatten()[:, None].to(x.dtype)], 1)
    arrived, trip = course.dispatch(dist, marked, chosen.flatten(), len(experts))
    results = []
    for expert, rows in zip(experts, arrived, strict=True):
        served = rows[:, -1] > 0
        out = torch.zeros_like(rows[:, :-1])
        out[served] = expert(rows[served][:, :-1])
        results.append(out)
    back = course.combine(dist, results, trip) * (weights * kept).flatten()[:, None]
    return torch.zeros_like(x).index_add(0, tokens, back)


@wrong("expert_parallel_layer", "leaves-early", "its pieces are empty", earned=3)
def layer_leaves_without_tokens(dist, x, router, experts, k, capacity):
    """A rank without tokens returns at once."""
    if not len(x):
        return torch.zeros_like(x)
    return course.expert_parallel_layer(dist, x, router, experts, k, capacity)


@wrong("expert_parallel_layer", "leaves-early", "its pieces are empty", earned=3)
def layer_leaves_without_kept_pairs(dist, x, router, experts, k, capacity):
    """A rank that has nothing to send skips both all-to-alls, though rows of other ranks may come."""
    chosen, weights, kept = CHOOSE((x @ router).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]
    if len(tokens) == 0:
        return torch.zeros_like(x)
    arrived, trip = course.dispatch(dist, x[tokens], chosen[kept], len(experts))
    back = course.combine(dist, [expert(rows) for expert, rows in zip(experts, arrived, strict=True)], trip)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[kept][:, None])


@wrong("expert_parallel_layer", "leaves-early", "its pieces are empty", earned=3)
def layer_is_constant_without_tokens(dist, x, router, experts, k, capacity):
    """A rank without tokens takes part in forward, and returns zeros of its own, so that it is missing in backward."""
    y = course.expert_parallel_layer(dist, x, router, experts, k, capacity)
    return y if len(x) else torch.zeros_like(x)


@wrong("expert_parallel_layer", "raised", "expected a non-empty", earned=3)
def layer_without_empty_experts(dist, x, router, experts, k, capacity):
    """Asks only experts that have rows, and joins what they return."""
    chosen, weights, kept = CHOOSE((x @ router).softmax(-1), k, capacity)
    tokens = kept.nonzero()[:, 0]
    arrived, trip = course.dispatch(dist, x[tokens], chosen[kept], len(experts))
    results = torch.cat([expert(rows) for expert, rows in zip(experts, arrived, strict=True) if len(rows)])
    back = course.combine(dist, results.split([len(rows) for rows in arrived]), trip) * weights[kept][:, None]
    return torch.zeros_like(x).index_add(0, tokens, back)


@right("expert_parallel_layer")
def layer_by_matrix(dist, x, router, experts, k, capacity):
    """Weights in a matrix of tokens x experts, and copies picked from it by its non-zero places."""
    chosen, weights, kept = CHOOSE(torch.softmax(torch.matmul(x, router), dim=1), k, capacity)
    token, place = torch.where(kept)
    arrived, trip = course.dispatch(dist, x.index_select(0, token), chosen[token, place], len(experts))
    back = course.combine(dist, [one(rows) for one, rows in zip(experts, arrived, strict=True)], trip)
    y = torch.zeros(len(x), k, x.shape[1], dtype=x.dtype)
    y[token, place] = back
    return (y * (weights * kept)[..., None]).sum(1)


@right("expert_parallel_layer")
def layer_by_scatter(dist, x, router, experts, k, capacity):
    weights, kept, tokens, back = _parts(dist, x, router, experts, k, capacity)
    weighted = back * weights[kept].unsqueeze(1)
    return x.new_zeros(x.shape).scatter_add(0, tokens[:, None].expand_as(weighted), weighted)


# balance_bias


@wrong("balance_bias", "sign", "goes the wrong way", earned=0)
def bias_wrong_way(bias, load, speed):
    load = load.double()
    return bias + speed * torch.sign(load - load.mean())


@wrong("balance_bias", "proportional", "the rule takes the sign alone", earned=0)
def bias_proportional(bias, load, speed):
    load = load.double()
    return bias + speed * (load.mean() - load)


@wrong("balance_bias", "relative", "take the sign alone", earned=0)
def bias_relative(bias, load, speed):
    load = load.double()
    return bias + speed * (1 - load / load.mean())


@wrong("balance_bias", "changed", "return a new one", earned=0)
def bias_in_place(bias, load, speed):
    load = load.double()
    return bias.add_(speed * torch.sign(load.mean() - load))


@wrong("balance_bias", "median", "not the mean", earned=0)
def bias_median(bias, load, speed):
    load = load.double()
    return bias + speed * torch.sign(load.median() - load)


@wrong("balance_bias", "only-up", "overloaded experts go down", earned=0)
def bias_only_up(bias, load, speed):
    load = load.double()
    return bias + speed * (load < load.mean())


@wrong("balance_bias", "never-still", "their bias stays", earned=0)
def bias_never_still(bias, load, speed):
    return torch.where(load < load.double().mean(), bias + speed, bias - speed)


@wrong("balance_bias", "forgets", "add it to the bias", earned=0)
def bias_of_this_step(bias, load, speed):
    load = load.double()
    return speed * torch.sign(load.mean() - load)


@wrong("balance_bias", "raised", "mean", earned=0)
def bias_of_whole_numbers(bias, load, speed):
    """The mean of a tensor of whole numbers is an error."""
    return bias + speed * torch.sign(load.mean() - load)


@wrong("balance_bias", "dtype", "the bias became float64; it was float32", earned=2)
def bias_in_double(bias, load, speed):
    return bias + speed * torch.sign(load.double().mean() - load)


@right("balance_bias")
def bias_by_comparing(bias, load, speed):
    mean = load.sum() / len(load)
    return bias + speed * (load < mean).to(bias.dtype) - speed * (load > mean).to(bias.dtype)


@right("balance_bias")
def bias_by_loop(bias, load, speed):
    mean, moved = float(load.sum()) / len(load), bias.clone()
    for expert, one in enumerate(load.tolist()):
        moved[expert] += speed if one < mean else -speed if one > mean else 0
    return moved


# auxiliary_loss


@wrong("auxiliary_loss", "no-e", "multiply by the number of experts", earned=0)
def loss_without_experts(scores, chosen):
    return course.auxiliary_loss(scores, chosen) / scores.shape[1]


@wrong("auxiliary_loss", "per-token", "share of all pairs", earned=0)
def loss_of_tokens(scores, chosen):
    return course.auxiliary_loss(scores, chosen) * chosen.shape[1]


@wrong("auxiliary_loss", "sum-of-scores", "P is their mean", earned=0)
def loss_of_sums(scores, chosen):
    return course.auxiliary_loss(scores, chosen) * len(scores)


@wrong("auxiliary_loss", "squared-load", "a count has no gradient", earned=0)
def loss_of_loads(scores, chosen):
    share = torch.bincount(chosen.flatten(), minlength=scores.shape[1]).double() / chosen.numel()
    return scores.shape[1] * (share**2).sum()


@wrong("auxiliary_loss", "squared-score", "the scores alone", earned=0)
def loss_of_scores(scores, chosen):
    return scores.shape[1] * (scores.mean(0) ** 2).sum()


@wrong("auxiliary_loss", "no-gradient", "nothing would change", earned=2)
def loss_detached(scores, chosen):
    return course.auxiliary_loss(scores, chosen).detach()


@right("auxiliary_loss")
def loss_by_one_hot(scores, chosen):
    experts = scores.shape[1]
    share = torch.nn.functional.one_hot(chosen, experts).sum((0, 1)).to(scores.dtype) / chosen.numel()
    return experts * torch.dot(share, scores.sum(0) / len(scores))


# node_limited_routing


@wrong("node_limited_routing", "too-many-nodes", "at most 2", earned=0)
def nodes_without_limit(scores, k, nodes, most):
    return scores.topk(k).indices


@wrong("node_limited_routing", "by-all", "compared by all of their experts", earned=0)
def nodes_by_all(scores, k, nodes, most):
    best = scores.view(len(scores), nodes, -1).sum(-1).topk(most).indices
    return _of_nodes(scores, best, k, nodes)


@wrong("node_limited_routing", "by-first", "their single best expert", earned=0)
def nodes_by_first(scores, k, nodes, most):
    best = scores.view(len(scores), nodes, -1).amax(-1).topk(most).indices
    return _of_nodes(scores, best, k, nodes)


@wrong("node_limited_routing", "value", "the best first", earned=0)
def nodes_in_order_of_numbers(scores, k, nodes, most):
    return course.node_limited_routing(scores, k, nodes, most).sort().values


def _of_nodes(scores, best, k, nodes):
    allowed = torch.zeros(len(scores), nodes).scatter(1, best, 1.0)
    return (scores * allowed.repeat_interleave(scores.shape[1] // nodes, 1)).topk(k).indices


@right("node_limited_routing")
def nodes_token_by_token(scores, k, nodes, most):
    chosen = []
    for row in scores:
        parts = row.chunk(nodes)
        size = len(parts[0])
        worth = [float(part.sort(descending=True).values[: max(1, k // most)].sum()) for part in parts]
        best = sorted(range(nodes), key=lambda node: -worth[node])[:most]
        allowed = [expert for expert in range(len(row)) if expert // size in best]
        chosen.append(sorted(allowed, key=lambda expert: -float(row[expert]))[:k])
    return torch.tensor(chosen)


# all_to_all_bytes


def _numbers(shape):
    return shape.moe_layers * shape.experts_per_token * shape.hidden


@wrong("all_to_all_bytes", "one-way", "only one of the two ways", earned=0)
def bytes_one_way(shape, ranks, there, back):
    return _numbers(shape) * there * (ranks - 1) / ranks


@wrong("all_to_all_bytes", "all-stay", "stay on their own rank", earned=2)
def bytes_of_all(shape, ranks, there, back):
    return _numbers(shape) * (there + back)


@wrong("all_to_all_bytes", "all-layers", "shape.moe_layers", earned=0)
def bytes_of_all_layers(shape, ranks, there, back):
    return course.all_to_all_bytes(shape, ranks, there, back) * shape.layers / shape.moe_layers


@wrong("all_to_all_bytes", "one-copy", "there are k", earned=0)
def bytes_of_one_copy(shape, ranks, there, back):
    return course.all_to_all_bytes(shape, ranks, there, back) / shape.experts_per_token


@right("all_to_all_bytes")
def bytes_by_layers(shape, ranks, there, back):
    copies = shape.experts_per_token * (1 - 1 / ranks)
    return sum(copies * shape.hidden * (there + back) for _ in range(shape.layers - shape.dense_layers))


# which_layout


@wrong("which_layout", "not-the-fewest", "are enough", earned=0)
def layout_of_all(shape, gpus, memory, parameter_bytes):
    return max(ranks for ranks in range(1, gpus + 1) if gpus % ranks == 0 and shape.experts % ranks == 0)


@wrong("which_layout", "experts", "experts do not divide by it", earned=0)
def layout_of_divisors_of_gpus(shape, gpus, memory, parameter_bytes):
    every = shape.moe_layers * shape.experts * 3 * shape.hidden * shape.expert_ffn * parameter_bytes
    return next(ranks for ranks in range(1, gpus + 1) if gpus % ranks == 0 and every / ranks <= memory)


@wrong("which_layout", "too-large", "a rank would hold", earned=0)
def layout_of_two_matrices(shape, gpus, memory, parameter_bytes):
    """Forgets that an expert has three matrices."""
    return course.which_layout(shape, gpus, memory * 3 / 2, parameter_bytes)


@wrong("which_layout", "fits-nowhere", "raise ValueError", earned=2)
def layout_or_none(shape, gpus, memory, parameter_bytes):
    try:
        return course.which_layout(shape, gpus, memory, parameter_bytes)
    except ValueError:
        return None


@wrong("which_layout", "fits-nowhere", "it returned (", "raise ValueError", earned=2)
def layout_or_the_words(shape, gpus, memory, parameter_bytes):
    """Hands out what it should raise."""
    try:
        return course.which_layout(shape, gpus, memory, parameter_bytes)
    except ValueError as error:
        return "ValueError", str(error)


@wrong("which_layout", "refused", "8 ranks there is room", "it raised ValueError", earned=0)
def layout_with_room_to_spare(shape, gpus, memory, parameter_bytes):
    """Refuses where the experts fill the memory."""
    return course.which_layout(shape, gpus, memory * 0.9, parameter_bytes)


@right("which_layout")
def layout_from_the_top(shape, gpus, memory, parameter_bytes):
    one = shape.moe_layers * 3 * shape.hidden * shape.expert_ffn * parameter_bytes
    found = [each for each in range(1, shape.experts + 1) if shape.experts % each == 0 and one * each <= memory
             and gpus % (shape.experts // each) == 0]  # fmt: skip
    if not found:
        raise ValueError("no room")
    return shape.experts // max(found)
