"""Wrong answers to chapter 12 as learners write them, and right ones written differently."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch.nn.functional import gelu

from course_lib.lessons.mesh import copy_to, reduce_from
from course_lib.planning import Layout, layout_memory, layout_time
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# mesh_groups


@right("mesh_groups")
def right_groups_by_reshape(ranks, **axes):
    """Right: an array of all ranks, in which an axis is a dimension; the last dimension is the innermost."""
    if math.prod(axes.values()) != ranks:
        raise ValueError("no")
    mesh = np.arange(ranks).reshape(*reversed(axes.values()))
    places = {axis: len(axes) - 1 - place for place, axis in enumerate(axes)}
    return {axis: np.moveaxis(mesh, places[axis], -1).reshape(-1, size).tolist() for axis, size in axes.items()}


@right("mesh_groups")
def right_groups_by_coordinates(ranks, **axes):
    """Right: who agrees in all coordinates but one, as tuples."""
    if math.prod(axes.values()) != ranks:
        raise ValueError(f"{axes} are not {ranks} ranks")
    found = {}
    for axis in axes:
        every = {}
        for rank in range(ranks):
            rest, place = rank, []
            for name, size in axes.items():
                rest, coordinate = divmod(rest, size)
                place += [coordinate] if name != axis else []
            every.setdefault(tuple(place), []).append(rank)
        found[axis] = tuple(map(tuple, every.values()))
    return found


@wrong("mesh_groups", "outermost-first", "the groups of tp", "innermost", earned=0)
def groups_outermost_first(ranks, **axes):
    return right_groups_by_reshape(ranks, **dict(reversed(axes.items())))


@wrong("mesh_groups", "blocks", "ranks next to each other", "product of the axes before it", earned=0)
def groups_of_neighbours(ranks, **axes):
    return {axis: [list(range(first, first + size)) for first in range(0, ranks, size)] for axis, size in axes.items()}


@wrong("mesh_groups", "one-group", "are too few", earned=0)
def groups_of_rank_0(ranks, **axes):
    return {axis: every[:1] for axis, every in right_groups_by_reshape(ranks, **axes).items()}


@wrong("mesh_groups", "no-refusal", "whose product is 12", "raise ValueError", earned=3)
def groups_without_refusal(ranks, **axes):
    groups, stride = {}, 1
    for axis, size in axes.items():
        firsts = [rank for rank in range(ranks) if rank // stride % size == 0]
        groups[axis] = [[first + place * stride for place in range(size)] for first in firsts]
        stride *= size
    return groups


@wrong("mesh_groups", "form", "return a dict", earned=0)
def groups_as_a_list(ranks, **axes):
    return list(right_groups_by_reshape(ranks, **axes).values())


# place_axes


def priced(order, sizes, traffic, per_node, price):
    """Return the price of an order: `price` gets an axis's GB and which of its messages leave their node."""
    mesh = np.arange(math.prod(sizes.values())).reshape([sizes[axis] for axis in reversed(order)])
    total = 0
    for place, axis in enumerate(reversed(order)):
        there = np.roll(mesh, -1, axis=place)
        total += price(traffic[axis], mesh // per_node != there // per_node)
    return total


def slowest_hop(gigabytes, leaves):
    return gigabytes / (50 if leaves.any() else 370)


@right("place_axes")
def right_place_by_arrays(sizes, traffic, per_node):
    """Right: the ring of an axis is a roll of the array of ranks; a tuple."""
    every = itertools.permutations(sizes)
    return min(every, key=lambda order: priced(order, sizes, traffic, per_node, slowest_hop))


@right("place_axes")
def right_place_recursive(sizes, traffic, per_node):
    """Right: the innermost axis first, then the best of the rest."""

    def best(chosen):
        rest = [axis for axis in sizes if axis not in chosen]
        if not rest:
            return priced(chosen, sizes, traffic, per_node, slowest_hop), chosen
        return min((best([*chosen, axis]) for axis in rest), key=lambda found: found[0])

    return best([])[1]


@wrong("place_axes", "by-traffic", "larger than a node", "takes 0.380 s", earned=2)
def place_by_traffic(sizes, traffic, per_node):
    return sorted(sizes, key=traffic.get, reverse=True)


@wrong("place_axes", "by-share", "don't divide an axis's bytes by its ranks", earned=2)
def place_by_traffic_over_size(sizes, traffic, per_node):
    return sorted(sizes, key=lambda axis: -traffic[axis] / sizes[axis])


@wrong("place_axes", "fewest-bytes", "as slow as its slowest hop", "16 of 128 hops of cp", earned=2)
def place_by_bytes_out(sizes, traffic, per_node):
    """Sums the bytes that leave their node over all ranks, as if hops inside a node helped those out of it."""
    every = itertools.permutations(sizes)
    return min(every, key=lambda order: priced(order, sizes, traffic, per_node, lambda one, out: one * out.sum()))


@wrong("place_axes", "by-traffic", "drives out an axis that would fit", earned=2)
def place_by_the_mean_hop(sizes, traffic, per_node):
    """Averages the speeds of an axis's hops."""
    every = itertools.permutations(sizes)
    return min(every, key=lambda order: priced(order, sizes, traffic, per_node,
                                               lambda one, out: one / (370 - 320 * out.mean())))  # fmt: skip


@wrong("place_axes", "no-room", "reach into the next node", earned=2)
def place_by_the_group_of_rank_0(sizes, traffic, per_node):
    """Looks at rank 0's groups only, which begin where a node begins."""

    def slow(order):
        total, distance = 0, 1
        for axis in order:
            leaves = (sizes[axis] - 1) * distance >= per_node
            total += traffic[axis] / (50 if leaves else 370)
            distance *= sizes[axis]
        return total

    return min(itertools.permutations(sizes), key=slow)


@wrong("place_axes", "together", "more bytes together", earned=2)
def place_the_heaviest_that_fills_evenly(sizes, traffic, per_node):
    """Adds to the node the heaviest axis that still fits evenly, as long as there is one."""
    order, rest, apart = [], set(sizes), 1
    while rest:
        even = [axis for axis in rest if per_node % (apart * sizes[axis]) == 0]
        order.append(max(even or rest, key=traffic.get))
        rest.remove(order[-1])
        apart *= sizes[order[-1]]
    return order


@wrong("place_axes", "outermost-first", "the same order backwards", earned=0)
def place_backwards(sizes, traffic, per_node):
    return list(right_place_by_arrays(sizes, traffic, per_node))[::-1]


@wrong("place_axes", "by-size", "the smallest axis need not", earned=0)
def place_by_size(sizes, traffic, per_node):
    return sorted(sizes, key=sizes.get)


@wrong("place_axes", "value", "takes", earned=0)
def place_by_name(sizes, traffic, per_node):
    return sorted(sizes, reverse=True)


@wrong("place_axes", "form", "the innermost first", earned=0)
def place_the_heaviest_only(sizes, traffic, per_node):
    return [max(sizes, key=traffic.get)]


# ring_attention


def block(q, k, v, causal):
    """Return the maximum, the sum of exps and the weighted values of one block of keys."""
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -math.inf)
    most = scores.amax(-1, keepdim=True)
    weights = (scores - most).exp()
    return most, weights.sum(-1, keepdim=True), weights @ v


def merged(one, other):
    most = torch.maximum(one[0], other[0])
    a, b = (one[0] - most).exp(), (other[0] - most).exp()
    return most, one[1] * a + other[1] * b, one[2] * a + other[2] * b


@right("ring_attention")
def right_ring_apart(dist, q, k, v):
    """Right: keys and values as two messages, the rank's own block first, blocks merged by a function."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = block(q, k, v, True)
    for step in range(1, ranks):
        handles = [dist.isend(tensor.contiguous(), (rank + 1) % ranks) for tensor in (k, v)]
        arrived = [torch.empty_like(k), torch.empty_like(v)]
        for tensor in arrived:
            dist.recv(tensor, (rank - 1) % ranks)
        [handle.wait() for handle in handles]
        k, v = arrived
        if (rank - step) % ranks < rank:
            found = merged(found, block(q, k, v, False))
    return found[2] / found[1]


@right("ring_attention")
def right_ring_logsumexp(dist, q, k, v):
    """Right: outputs of blocks averaged with weights from their log-sum-exp."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    both = torch.cat([k, v])
    out, log = torch.zeros_like(q), q.new_full((*q.shape[:2], 1), -math.inf)
    for step in range(ranks):
        sender = (rank - step) % ranks
        if sender <= rank:
            most, total, sums = block(q, *both.chunk(2), sender == rank)
            here = most + total.log()
            new = torch.logaddexp(log, here)
            out, log = out * (log - new).exp() + sums / total * (here - new).exp(), new
        if step + 1 < ranks:
            handle = dist.isend(both, (rank + 1) % ranks)
            there = torch.empty_like(both)
            dist.recv(there, (rank - 1) % ranks)
            handle.wait()
            both = there
    return out


def going_round(dist, q, k, v, use):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    both = torch.stack([k, v])
    for step in range(ranks):
        use((rank - step) % ranks, *both)
        if step + 1 < ranks:
            handle, there = dist.isend(both, (rank + 1) % ranks), torch.empty_like(both)
            dist.recv(there, (rank - 1) % ranks)
            handle.wait()
            both = there


@wrong("ring_attention", "not-causal", "looks into the future", earned=0)
def ring_not_causal(dist, q, k, v):
    found = []
    going_round(dist, q, k, v, lambda sender, keys, values: found.append(block(q, keys, values, False)))
    most, total, sums = found[0]
    for one in found[1:]:
        most, total, sums = merged((most, total, sums), one)
    return sums / total


@wrong("ring_attention", "unscaled", "square root", earned=0)
def ring_unscaled(dist, q, k, v):
    return right_ring_apart(dist, q * math.sqrt(q.shape[-1]), k, v)


@wrong("ring_attention", "own-block", "own keys only", earned=0)
def ring_own_block(dist, q, k, v):
    _, total, sums = block(q, k, v, True)
    return sums / total


@wrong("ring_attention", "value", "the output on rank", earned=0)
def ring_without_correction(dist, q, k, v):
    """Averages the outputs of the blocks, as if each had the same sum."""
    rank, found = dist.get_rank(), []

    def use(sender, keys, values):
        if sender <= rank:
            _, total, sums = block(q, keys, values, sender == rank)
            found.append(sums / total)

    going_round(dist, q, k, v, use)
    return sum(found) / len(found)


def online(dist, q, k, v, shrink_total=True, shrink_out=True, skip=True):
    """Attend online, and leave out one of the corrections, or do not skip blocks of later ranks."""
    rank, most, total, out = dist.get_rank(), torch.tensor(-math.inf, dtype=q.dtype), 0.0, 0.0

    def use(sender, keys, values):
        nonlocal most, total, out
        if sender <= rank or not skip:
            here, sums, weighted = block(q, keys, values, sender == rank)
            highest = torch.maximum(most, here)
            old, new = (most - highest).exp(), (here - highest).exp()
            total = total * (old if shrink_total else 1) + sums * new
            out = out * (old if shrink_out else 1) + weighted * new
            most = highest

    going_round(dist, q, k, v, use)
    return out / total


@wrong("ring_attention", "not-shrunk", "not shrunk when a larger score came", "exp(old maximum", earned=0)
def ring_that_shrinks_nothing(dist, q, k, v):
    return online(dist, q, k, v, shrink_total=False, shrink_out=False)


@wrong("ring_attention", "out-not-shrunk", "the same factor belongs to both", earned=0)
def ring_that_shrinks_the_sum_only(dist, q, k, v):
    return online(dist, q, k, v, shrink_out=False)


@wrong("ring_attention", "sum-not-shrunk", "the same factor belongs to both", earned=0)
def ring_that_shrinks_the_output_only(dist, q, k, v):
    return online(dist, q, k, v, shrink_total=False)


@wrong("ring_attention", "future-blocks", "has seen keys 1 to 1", "skip a block", earned=0)
def ring_that_skips_nothing(dist, q, k, v):
    return online(dist, q, k, v, skip=False)


@wrong("ring_attention", "nan", "-inf - -inf", earned=0)
def ring_of_masked_blocks(dist, q, k, v):
    """Masks blocks of later ranks whole, in place of skipping them, and starts with the wrong one."""
    rank, found = dist.get_rank(), []

    def use(sender, keys, values):
        if sender <= rank:
            found.append(block(q, keys, values, sender == rank))
        else:
            most, total, sums = block(q, keys, values, False)
            hidden = torch.full_like(most, -math.inf)
            found.append((hidden, total * (hidden - hidden).exp(), sums))

    going_round(dist, q, k, v, use)
    most, total, sums = found[0]
    for one in found[1:]:
        most, total, sums = merged((most, total, sums), one)
    return sums / total


@wrong("ring_attention", "built-in", "so each rank holds the keys of the whole sequence", earned=4)
def ring_by_all_gather(dist, q, k, v):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    every = [torch.empty_like(torch.stack([k, v])) for _ in range(ranks)]
    dist.all_gather(every, torch.stack([k, v]))
    keys, values = (torch.cat([one[place] for one in every[: rank + 1]], 1) for place in (0, 1))
    keys, values = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (keys, values))
    scores = q @ keys.transpose(1, 2) / math.sqrt(q.shape[-1])
    future = torch.full((q.shape[1], keys.shape[1]), -math.inf, dtype=q.dtype).triu(1 + rank * q.shape[1])
    return (scores + future).softmax(-1) @ values


@wrong("ring_attention", "too-many-bytes", "as they came", "You repeated k and v before sending", earned=4)
def ring_of_repeated_heads(dist, q, k, v):
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    return right_ring_apart(dist, q, k, v)


@wrong("ring_attention", "holds-all", "pass it on and let it go", earned=5)
def ring_that_collects(dist, q, k, v):
    rank, kept = dist.get_rank(), []
    going_round(dist, q, k, v, lambda sender, keys, values: kept.append((sender, keys.clone(), values.clone())))
    found = None
    for sender, keys, values in kept:
        if sender <= rank:
            one = block(q, keys, values, sender == rank)
            found = one if found is None else merged(found, one)
    return found[2] / found[1]


@wrong("ring_attention", "rounds", "passes on at the same time", earned=6)
def ring_one_after_the_other(dist, q, k, v):
    """Rank 0 sends first, and the others only when they have received: a chain in place of a circle."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    both, found = torch.stack([k, v]), block(q, k, v, True)
    for step in range(1, ranks):
        there = torch.empty_like(both)
        if rank == 0:
            dist.send(both, 1)
            dist.recv(there, ranks - 1)
        else:
            dist.recv(there, rank - 1)
            dist.send(both, (rank + 1) % ranks)
        both = there
        if (rank - step) % ranks < rank:
            found = merged(found, block(q, *both, False))
    return found[2] / found[1]


# train_step_2d


def forward_of(dist, groups, layers, x):
    for w1, w2 in layers:
        x = x + reduce_from(gelu(copy_to(x, dist, groups["tp"]) @ w1) @ w2, dist, groups["tp"])
    return x


@right("train_step_2d")
def right_step_by_backward(dist, groups, layers, x, targets, rate):
    """Right: loss.backward(), and a step under no_grad; the loss as a tensor."""
    loss = torch.nn.functional.mse_loss(forward_of(dist, groups, layers, x), targets)
    loss.backward()
    count = dist.get_world_size(group=groups["dp"])
    with torch.no_grad():
        for pair in layers:
            for weight in pair:
                grad = weight.grad.contiguous() / count
                dist.all_reduce(grad, group=groups["dp"])
                weight.sub_(rate * grad)
        mean = loss.detach() / count
        dist.all_reduce(mean, group=groups["dp"])
    return mean


@right("train_step_2d")
def right_step_in_one_message(dist, groups, layers, x, targets, rate):
    """Right: all gradients and the loss in one all-reduce."""
    loss = (forward_of(dist, groups, layers, x) - targets).pow(2).mean()
    weights = [weight for pair in layers for weight in pair]
    grads = torch.autograd.grad(loss, weights)
    flat = torch.cat([*(grad.flatten() for grad in grads), loss.detach()[None]])
    dist.all_reduce(flat, group=groups["dp"])
    flat /= dist.get_world_size(group=groups["dp"])
    for weight, grad in zip(weights, flat[:-1].split([weight.numel() for weight in weights]), strict=True):
        weight.data.add_(grad.view_as(weight), alpha=-rate)
    return float(flat[-1])


def stepped(dist, groups, layers, x, targets, rate, group="dp", scale=None, forward=forward_of, mean=True):
    loss = (forward(dist, groups, layers, x) - targets).square().mean()
    loss.backward()
    count = dist.get_world_size(group=groups["dp"])
    for pair in layers:
        for weight in pair:
            grad = weight.grad.contiguous()
            if group:
                dist.all_reduce(grad, group=groups[group] if group != "world" else None)
            weight.data -= rate * grad / (count if scale is None else scale)
    loss = loss.detach()
    if mean:
        dist.all_reduce(loss, group=groups["dp"])
        loss /= count
    return loss.item()


@wrong("train_step_2d", "own-loss", "the rank's own samples", earned=0)
def step_own_loss(dist, groups, layers, x, targets, rate):
    return stepped(dist, groups, layers, x, targets, rate, mean=False)


@wrong("train_step_2d", "own-gradient", "gradient of the rank's own samples", earned=1)
def step_own_gradient(dist, groups, layers, x, targets, rate):
    return stepped(dist, groups, layers, x, targets, rate, group=None, scale=1)


@wrong("train_step_2d", "summed", "the sum of the gradients", earned=1)
def step_summed(dist, groups, layers, x, targets, rate):
    return stepped(dist, groups, layers, x, targets, rate, scale=1)


@wrong("train_step_2d", "world-mean", "not of all ranks", earned=1)
def step_world_mean(dist, groups, layers, x, targets, rate):
    return stepped(dist, groups, layers, x, targets, rate, scale=dist.get_world_size())


@wrong("train_step_2d", "all-ranks", "was stepped with the sum over all ranks", earned=1)
def step_over_all_ranks(dist, groups, layers, x, targets, rate):
    """Sums gradients over all ranks: pieces of different columns are added up."""
    return stepped(dist, groups, layers, x, targets, rate, group="world", scale=dist.get_world_size())


@wrong("train_step_2d", "tensor-ranks", "not in groups['tp']", earned=1)
def step_over_tensor_ranks(dist, groups, layers, x, targets, rate):
    """Sums weight gradients in the group that sums activations."""
    count = dist.get_world_size(group=groups["dp"])
    return stepped(dist, groups, layers, x, targets, rate, group="tp", scale=count)


@wrong("train_step_2d", "first-layer-only", "copy_to(x, dist, groups['tp'])", earned=1)
def step_without_copy_to(dist, groups, layers, x, targets, rate):
    def forward(dist, groups, layers, x):
        for w1, w2 in layers:
            x = x + reduce_from(gelu(x @ w1) @ w2, dist, groups["tp"])
        return x

    return stepped(dist, groups, layers, x, targets, rate, forward=forward)


@wrong("train_step_2d", "not-reduced", "the loss on rank", "by reduce_from", earned=0)
def step_without_reduce(dist, groups, layers, x, targets, rate):
    def forward(dist, groups, layers, x):
        for w1, w2 in layers:
            x = x + gelu(copy_to(x, dist, groups["tp"]) @ w1) @ w2
        return x

    return stepped(dist, groups, layers, x, targets, rate, forward=forward)


@wrong("train_step_2d", "wrong-way", "went up the slope", earned=1)
def step_up_the_slope(dist, groups, layers, x, targets, rate):
    return stepped(dist, groups, layers, x, targets, -rate)


@wrong("train_step_2d", "not-stepped", "is as it was", earned=1)
def step_of_copies(dist, groups, layers, x, targets, rate):
    copies = [tuple(weight.detach().clone().requires_grad_() for weight in pair) for pair in layers]
    return stepped(dist, groups, copies, x, targets, rate)


@wrong("train_step_2d", "too-many-bytes", "sum activations among tensor ranks", earned=4)
def step_summed_twice(dist, groups, layers, x, targets, rate):
    """Averages the losses of all ranks by handing everybody all of them, and activations twice."""

    def forward(dist, groups, layers, x):
        count = dist.get_world_size(group=groups["tp"])
        for w1, w2 in layers:
            part = reduce_from(gelu(copy_to(x, dist, groups["tp"]) @ w1) @ w2, dist, groups["tp"])
            again = part.detach().clone() / count
            dist.all_reduce(again, group=groups["tp"])
            x = x + part
        return x

    return stepped(dist, groups, layers, x, targets, rate, forward=forward)


# plan


def tried(shape, node, gpus, batch, sequence, micros=(1, 2, 4), zeros=(1, 3), kinds=("none", "full")):
    for tp in (1, 2, 3, 4, 6, 8):
        for pp in range(1, gpus + 1):
            if gpus % (tp * pp):
                continue
            for micro, zero, kind in itertools.product(micros, zeros, kinds):
                layout = Layout(tp=tp, pp=pp, dp=gpus // tp // pp, micro=micro, zero=zero, recompute=kind)
                try:
                    step = layout_time(shape, layout, node, batch, sequence)
                except ValueError:
                    continue
                yield step.seconds, layout_memory(shape, layout, batch, sequence).total, layout


@right("plan")
def right_plan_sorted(shape, node, gpus, batch, sequence):
    """Right: all of them, sorted; the first that fits."""
    every = sorted(tried(shape, node, gpus, batch, sequence), key=lambda one: one[0])
    for _, size, layout in every:
        if size <= node.gpu.memory:
            return layout
    raise ValueError(f"the smallest layout needs {min(size for _, size, _ in every) / 1e9:.1f} GB")


@right("plan")
def right_plan_by_two_lists(shape, node, gpus, batch, sequence):
    """Right: a dict of those that fit, and a minimum of the sizes of all."""
    fits, sizes = {}, []
    for seconds, size, layout in tried(shape, node, gpus, batch, sequence):
        sizes.append(size)
        if not size > node.gpu.memory:
            fits[layout] = seconds
    if not fits:
        raise ValueError(f"{min(sizes) / 1e9:,.1f} GB are needed on each GPU, which has {node.gpu.memory / 1e9:.0f}")
    return min(fits, key=fits.get)


@wrong("plan", "does-not-fit", "and a GPU has 80", earned=0)
def plan_whatever_it_holds(shape, node, gpus, batch, sequence):
    return min(tried(shape, node, gpus, batch, sequence), key=lambda one: one[0])[2]


@wrong("plan", "smallest", "smallest that fits, not the fastest", earned=1)
def plan_the_smallest(shape, node, gpus, batch, sequence):
    return min(tried(shape, node, gpus, batch, sequence), key=lambda one: one[1])[2]


@wrong("plan", "slower", "fits, too, and takes", earned=1)
def plan_micro_batches_of_one(shape, node, gpus, batch, sequence):
    fitting = [one for one in tried(shape, node, gpus, batch, sequence, micros=(1,), kinds=("full",))
               if one[1] <= node.gpu.memory]  # fmt: skip
    return min(fitting, key=lambda one: one[0])[2]


@wrong("plan", "no-reason", "say how many GB", earned=3)
def plan_without_reason(shape, node, gpus, batch, sequence):
    try:
        return right_plan_sorted(shape, node, gpus, batch, sequence)
    except ValueError:
        raise ValueError("nothing fits") from None


@wrong("plan", "no-refusal", "where nothing fits", earned=3)
def plan_anything(shape, node, gpus, batch, sequence):
    try:
        return right_plan_sorted(shape, node, gpus, batch, sequence)
    except ValueError:
        return plan_the_smallest(shape, node, gpus, batch, sequence)


@wrong("plan", "ranks", "ranks", earned=0)
def plan_without_data_ranks(shape, node, gpus, batch, sequence):
    return Layout(tp=8, recompute="full")


@wrong("plan", "not-tried", "none of those to try", earned=0)
def plan_of_other_stages(shape, node, gpus, batch, sequence):
    return Layout(tp=8, dp=gpus // 8, zero=2, recompute="full")


# zigzag


@right("zigzag")
def right_zigzag_by_tensors(length, ranks):
    """Right: chunks of a tensor."""
    chunks = torch.arange(length).chunk(2 * ranks)
    return [torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]]).tolist() for rank in range(ranks)]


@wrong("zigzag", "contiguous", "times the mean work", earned=1)
def zigzag_contiguous(length, ranks):
    return [list(range(rank * length // ranks, (rank + 1) * length // ranks)) for rank in range(ranks)]


@wrong("zigzag", "striped", "times the mean work", earned=1)
def zigzag_striped(length, ranks):
    return [list(range(rank, length, ranks)) for rank in range(ranks)]


@wrong("zigzag", "places", "exactly one rank", earned=0)
def zigzag_twice(length, ranks):
    size = length // ranks
    return [list(range(rank * size, (rank + 1) * size))[: size // 2] * 2 for rank in range(ranks)]


@wrong("zigzag", "many-pieces", "pieces of the sequence; two will do", earned=1)
def zigzag_of_single_tokens(length, ranks):
    """Balanced, but token by token."""
    pairs = [(place, length - 1 - place) for place in range(length // 2)]
    return [sorted(place for pair in pairs[rank::ranks] for place in pair) for rank in range(ranks)]


# ulysses_attention


def swapped(dist, tensor, cut, join):
    parts = [part.contiguous() for part in tensor.chunk(dist.get_world_size(), cut)]
    there = [torch.empty_like(part) for part in parts]
    dist.all_to_all(there, parts)
    return torch.cat(there, join)


def whole_attention(q, k, v, causal=True, scale=True):
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    scores = q @ k.transpose(1, 2) / (math.sqrt(q.shape[-1]) if scale else 1)
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


@right("ulysses_attention")
def right_ulysses_by_library(dist, q, k, v):
    """Right: torch's attention in the middle."""
    q, k, v = (swapped(dist, tensor, 0, 1) for tensor in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
    return swapped(dist, out[0], 1, 0)


@wrong("ulysses_attention", "not-causal", "looks into the future", earned=0)
def ulysses_not_causal(dist, q, k, v):
    q, k, v = (swapped(dist, tensor, 0, 1) for tensor in (q, k, v))
    return swapped(dist, whole_attention(q, k, v, causal=False), 1, 0)


@wrong("ulysses_attention", "value", "has shape", earned=0)
def ulysses_one_way(dist, q, k, v):
    return whole_attention(*(swapped(dist, tensor, 0, 1) for tensor in (q, k, v)))


@wrong("ulysses_attention", "own-block", "own keys only", earned=0)
def ulysses_without_swap(dist, q, k, v):
    return whole_attention(q, k, v)


@wrong("ulysses_attention", "too-many-bytes", "before they are repeated", earned=2)
def ulysses_repeated(dist, q, k, v):
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    q, k, v = (swapped(dist, tensor, 0, 1) for tensor in (q, k, v))
    return swapped(dist, whole_attention(q, k, v), 1, 0)


# step_seconds


@right("step_seconds")
def right_step_by_parts(microbatches, pp, chunks, compute, tensor, gradients):
    """Right: a busy part, a bubble and what is left of the gradients."""
    one = compute + tensor
    busy, bubble, window = microbatches * one, (pp - 1) * one / chunks, one * 2 / 3
    return busy + bubble + (gradients - window if gradients > window else 0)


@wrong("step_seconds", "no-bubble", "fill and to drain", earned=0)
def step_without_bubble(microbatches, pp, chunks, compute, tensor, gradients):
    return right_step_by_parts(microbatches, 1, 1, compute, tensor, gradients)


@wrong("step_seconds", "chunks", "the bubble is a v-th", earned=0)
def step_without_chunks(microbatches, pp, chunks, compute, tensor, gradients):
    return right_step_by_parts(microbatches, pp, 1, compute, tensor, gradients)


@wrong("step_seconds", "all-divided", "only the waiting gets shorter", earned=0)
def step_divided_by_the_chunks(microbatches, pp, chunks, compute, tensor, gradients):
    """Divides the micro-batches by the chunks, too."""
    left = right_step_by_parts(microbatches, pp, chunks, compute, tensor, gradients)
    left -= (microbatches + (pp - 1) / chunks) * (compute + tensor)
    return left + (microbatches + pp - 1) / chunks * (compute + tensor)


@wrong("step_seconds", "tensor-hidden", "messages out", earned=0)
def step_without_tensor(microbatches, pp, chunks, compute, tensor, gradients):
    return right_step_by_parts(microbatches, pp, chunks, compute, 0, gradients)


@wrong("step_seconds", "bubble-tensor", "bubble of compute only", earned=0)
def step_with_a_bubble_of_compute(microbatches, pp, chunks, compute, tensor, gradients):
    step = right_step_by_parts(microbatches, pp, chunks, compute, tensor, gradients)
    return step - (pp - 1) / chunks * tensor


@wrong("step_seconds", "not-hidden", "adds all of the gradients' time", earned=0)
def step_with_all_gradients(microbatches, pp, chunks, compute, tensor, gradients):
    return right_step_by_parts(microbatches, pp, chunks, compute, tensor, 0) + gradients


@wrong("step_seconds", "all-hidden", "one micro-batch only", earned=2)
def step_with_hidden_gradients(microbatches, pp, chunks, compute, tensor, gradients):
    return right_step_by_parts(microbatches, pp, chunks, compute, tensor, 0)


@wrong("ring_attention", "overflow", "exp(1000) is infinite", "largest score", earned=0)
def ring_without_maximum(dist, q, k, v):
    """Sums exp(score) as it is, which is infinite for scores of a thousand."""
    rank, total, out = dist.get_rank(), 0.0, 0.0

    def use(sender, keys, values):
        nonlocal total, out
        if sender <= rank:
            most, sums, weighted = block(q, keys, values, sender == rank)
            total, out = total + sums * most.exp(), out + weighted * most.exp()

    going_round(dist, q, k, v, use)
    return out / total


@wrong("ring_attention", "dtype", "keep the dtype of q", earned=0)
def ring_in_float64(dist, q, k, v):
    return right_ring_apart(dist, q.double(), k.double(), v.double())


@wrong("ulysses_attention", "dtype", "bfloat16", "keep the dtype of q", earned=0)
def ulysses_masked_in_float32(dist, q, k, v):
    """Adds a mask as torch makes it, of float32, which widens scores of 16 bits."""
    q, k, v = (swapped(dist, tensor, 0, 1) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    weights = (scores + torch.full(scores.shape[1:], -math.inf).triu(1)).softmax(-1)
    return swapped(dist, weights @ v.to(weights.dtype), 1, 0)


@wrong("train_step_2d", "value", "on rank", earned=1)
def step_with_gradients_in_float32(dist, groups, layers, x, targets, rate):
    """Exchanges gradients in float32, whatever the dtype of the weights."""
    loss = (forward_of(dist, groups, layers, x) - targets).square().mean()
    loss.backward()
    count = dist.get_world_size(group=groups["dp"])
    for pair in layers:
        for weight in pair:
            grad = weight.grad.float().contiguous()
            dist.all_reduce(grad, group=groups["dp"])
            weight.data -= rate * grad / count
    mean = loss.detach() / count
    dist.all_reduce(mean, group=groups["dp"])
    return mean.item()


@wrong("zigzag", "places", "exactly one rank", earned=0)
def zigzag_without_the_last_token(length, ranks):
    """Lets the last chunk begin before the last token, which chunks of one token do not."""
    size = length // (2 * ranks)
    chunks = [list(range(start, start + size)) for start in range(0, length - 1, size)]
    return [chunks[rank] + chunks[-1 - rank] for rank in range(ranks)]


@wrong("plan", "slower", "fits, too, and takes", earned=1)
def plan_by_divisors_of_the_batch(shape, node, gpus, batch, sequence):
    """Asks tensor and pipeline ranks to divide the batch, as only data ranks must."""
    every = [one for one in tried(shape, node, gpus, batch, sequence) if not (batch % one[2].tp or batch % one[2].pp)]
    fitting = [one for one in every if one[1] <= node.gpu.memory]
    if not fitting:
        raise ValueError(f"{min(size for _, size, _ in every) / 1e9:.1f} GB" if every else "no layout")
    return min(fitting, key=lambda one: one[0])[2]


@wrong("ring_attention", "overflow", "only with such scores", "shrink the old sums", earned=0)
def ring_of_plain_exps(dist, q, k, v):
    """Skips blocks of the future, masks its own, and takes exp of the scores as they are."""
    rank, total, out = dist.get_rank(), 0.0, 0.0

    def use(sender, keys, values):
        nonlocal total, out
        if sender <= rank:
            keys, values = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (keys, values))
            weights = (q @ keys.transpose(1, 2) / math.sqrt(q.shape[-1])).exp()
            weights = weights.tril() if sender == rank else weights
            total, out = total + weights.sum(-1, keepdim=True), out + weights @ values

    going_round(dist, q, k, v, use)
    return out / total


@wrong("place_axes", "no-room", "evenly", "reach into the next node", earned=2)
def place_the_heaviest_that_fits(sizes, traffic, per_node):
    """The heaviest axis first among those that are no larger than a node; the larger ones come last."""
    return sorted(sizes, key=lambda axis: (sizes[axis] > per_node, -traffic[axis]))


@wrong("step_seconds", "window", "waits for its tensor messages as well", earned=2)
def step_hidden_behind_compute(microbatches, pp, chunks, compute, tensor, gradients):
    """Gradients travel behind two thirds of the computing, and not while a backward waits for tensor messages."""
    pipeline = (microbatches + (pp - 1) / chunks) * (compute + tensor)
    return pipeline + max(0.0, gradients - 2 / 3 * compute)


# rank_memory


@right("rank_memory")
def right_memory_in_chunks(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    """Right: counts chunks under way, and what one chunk of one micro-batch leaves."""
    visits = min(microbatches * chunks, pp * chunks + pp - 1)
    one = activations / pp / chunks / tp / cp
    held = weights / tp / pp
    return held * (3 if zero < 2 else 1) + visits * one


def sized(weights, activations, tp, cp, pp, chunks, microbatches, zero, *, gradient=2.0, under_way=None):
    """Return the sum of the three parts, with other gradients or another number of micro-batches under way."""
    most = min(microbatches, pp + (pp - 1) / chunks) if under_way is None else under_way
    return (1 + gradient * (zero == 1)) * weights / (tp * pp) + most * activations / (tp * cp * pp)


@wrong("rank_memory", "no-gradients", "leaves the gradients out", earned=0)
def memory_without_gradients(*case):
    return sized(*case, gradient=0)


@wrong("rank_memory", "gradients-of-2", "they have 4", earned=0)
def memory_with_gradients_of_2_bytes(*case):
    return sized(*case, gradient=1)


@wrong("rank_memory", "whole-gradients", "the data ranks share them", earned=0)
def memory_with_whole_gradients(*case):
    return sized(*case[:-1], 1)


@wrong("rank_memory", "whole-gradients", "they count 0", earned=0)
def memory_with_zero_turned(*case):
    return sized(*case[:-1], 3 - case[-1])


@wrong("rank_memory", "weights-by-cp", "they hold the same weights", earned=0)
def memory_divided_by_all(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    """Divides the weights by the context ranks, too."""
    return sized(weights / cp, activations, tp, cp, pp, chunks, microbatches, zero)


@wrong("rank_memory", "weights-by-tp", "a pp-th of the layers", earned=0)
def memory_of_whole_stages(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    return sized(weights * pp, activations, tp, cp, pp, chunks, microbatches, zero)


@wrong("rank_memory", "all-under-way", "has all 8 micro-batches under way", "= 5.5", earned=2)
def memory_of_all_micro_batches(*case):
    return sized(*case, under_way=case[6])


@wrong("rank_memory", "no-minimum", "there are only 16", earned=2)
def memory_without_a_minimum(*case):
    return sized(*case, under_way=case[4] + (case[4] - 1) / case[5])


@wrong("rank_memory", "full-only", "starts pp - 1 chunks more", earned=2)
def memory_of_a_full_pipeline(*case):
    return sized(*case, under_way=min(case[6], case[4]))


@wrong("rank_memory", "not-in-chunks", "pp - 1 chunks", "so 5.5 are", earned=2)
def memory_with_whole_micro_batches_ahead(*case):
    return sized(*case, under_way=min(case[6], 2 * case[4] - 1))


@wrong("rank_memory", "one-under-way", "several are under way", earned=2)
def memory_of_one_micro_batch(*case):
    return sized(*case, under_way=1)


@wrong("rank_memory", "layers-whole", "each has a pp-th of the layers", earned=2)
def memory_of_all_layers(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    return sized(weights, activations * pp, tp, cp, pp, chunks, microbatches, zero)


@wrong("rank_memory", "whole-sequence", "each has a cp-th of the tokens", earned=2)
def memory_of_whole_sequences(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    return sized(weights, activations * cp, tp, cp, pp, chunks, microbatches, zero)


@wrong("rank_memory", "form", "return bytes", earned=0)
def memory_as_text(*case):
    return f"{sized(*case) / 1e9:.1f} GB"
