"""Answers to the exercises of chapter 12."""

import itertools
import math

import torch
from torch.nn.functional import gelu

from course_lib import planning
from course_lib.lessons.mesh import copy_to, reduce_from


def mesh_groups(ranks, **axes):
    """Walk outwards: neighbours along an axis are as far apart as the product of the axes inside it."""
    if math.prod(axes.values()) != ranks:
        raise ValueError(f"{axes} make {math.prod(axes.values())} ranks, and there are {ranks}")
    groups, stride = {}, 1
    for axis, size in axes.items():
        firsts = [rank for rank in range(ranks) if rank // stride % size == 0]
        groups[axis] = [[first + place * stride for place in range(size)] for first in firsts]
        stride *= size
    return groups


def place_axes(sizes, traffic, per_node):
    """There are few orders of few axes, so price each: one hop out of a node makes an axis as slow as a port."""

    def seconds(order):
        total, stride = 0, 1
        for axis in order:
            leaves = False
            for rank in range(math.prod(sizes.values())):
                place = rank // stride % sizes[axis]
                there = rank + ((place + 1) % sizes[axis] - place) * stride
                leaves = leaves or rank // per_node != there // per_node
            total += traffic[axis] / (50 if leaves else 370)
            stride *= sizes[axis]
        return total

    return list(min(itertools.permutations(sizes), key=seconds))


def ring_attention(dist, q, k, v):
    """Keys and values go round; each block corrects the maximum, the sum and the output of those before."""
    rank, ranks, block = dist.get_rank(), dist.get_world_size(), torch.stack([k, v])
    mine = q.reshape(len(k), -1, q.shape[2])  # the query heads that share keys, one below the other
    most, total, out = mine.new_full(mine.shape[:2], -math.inf), mine.new_zeros(mine.shape[:2]), torch.zeros_like(mine)
    for step in range(ranks):
        source = (rank - step) % ranks
        if step < ranks - 1:
            sending, arriving = dist.isend(block, (rank + 1) % ranks), torch.empty_like(block)
        if source <= rank:
            keys, values = block
            scores = mine @ keys.transpose(1, 2) / q.shape[2] ** 0.5
            if source == rank:
                future = q.new_full((q.shape[1], q.shape[1]), -math.inf).triu(1)
                scores += future.repeat(len(q) // len(k), 1)
            highest = torch.maximum(most, scores.amax(2))
            weights, shrink = (scores - highest[..., None]).exp(), (most - highest).exp()
            total = total * shrink + weights.sum(2)
            out = out * shrink[..., None] + weights @ values
            most = highest
        if step < ranks - 1:
            dist.recv(arriving, (rank - 1) % ranks)
            sending.wait()
            block = arriving
    return (out / total[..., None]).reshape(q.shape)


def train_step_2d(dist, groups, layers, x, targets, rate):
    """Tensor ranks sum activations in forward and backward, data ranks average the gradients of their own pieces."""
    for w1, w2 in layers:
        inner = gelu(copy_to(x, dist, groups["tp"]) @ w1)
        x = x + reduce_from(inner @ w2, dist, groups["tp"])
    loss = (x - targets).square().mean()
    weights = [weight for pair in layers for weight in pair]
    copies = dist.get_world_size(group=groups["dp"])
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=groups["dp"])
        weight.data -= rate * gradient / copies
    loss = loss.detach()
    dist.all_reduce(loss, group=groups["dp"])
    return loss.item() / copies


def plan(shape, node, gpus, batch, sequence):
    """Try everything; what cannot be cut is passed over, what does not fit is remembered for the refusal."""
    sizes = [size for size in range(1, gpus + 1) if gpus % size == 0]
    best, least = None, math.inf
    for tp, pp in itertools.product([size for size in sizes if size <= node.gpus], sizes):
        if gpus % (tp * pp):
            continue
        for micro, zero, kind in itertools.product((1, 2, 4), (1, 3), ("none", "full")):
            layout = planning.Layout(tp, 1, pp, gpus // (tp * pp), micro=micro, zero=zero, recompute=kind)
            try:
                seconds = planning.layout_time(shape, layout, node, batch, sequence).seconds
            except ValueError:
                continue
            size = planning.layout_memory(shape, layout, batch, sequence).total
            least = min(least, size)
            if size <= node.gpu.memory and (best is None or seconds < best[0]):
                best = seconds, layout
    if best is None:
        raise ValueError(f"nothing fits: {least / 1e9:.1f} GB at least, of {node.gpu.memory / 1e9:.1f} GB")
    return best[1]


def zigzag(length, ranks):
    """Cut into twice as many chunks as ranks; each rank takes one from the front and one from the back."""
    size = length // (2 * ranks)
    chunks = [list(range(start, start + size)) for start in range(0, length, size)]
    return [chunks[rank] + chunks[-1 - rank] for rank in range(ranks)]


def ulysses_attention(dist, q, k, v):
    """Swap: from all heads of some tokens to all tokens of some heads, attend as on one device, and swap back."""
    def swap(tensor, cut, join):
        pieces = [piece.contiguous() for piece in tensor.chunk(dist.get_world_size(), cut)]
        found = [torch.empty_like(piece) for piece in pieces]
        dist.all_to_all(found, pieces)
        return torch.cat(found, join)

    q, k, v = (swap(tensor, 0, 1) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    future = torch.full((q.shape[1], q.shape[1]), -math.inf, dtype=q.dtype).triu(1)
    scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5 + future
    return swap(scores.softmax(2) @ v, 1, 0)


def step_seconds(microbatches, pp, chunks, compute, tensor, gradients):
    """The pipeline takes m + (p - 1) / v micro-batches; gradients hide behind two thirds of the last one."""
    pipeline = (microbatches + (pp - 1) / chunks) * (compute + tensor)
    return pipeline + max(0.0, gradients - 2 / 3 * (compute + tensor))


def rank_memory(weights, activations, tp, cp, pp, chunks, microbatches, zero):
    """Tensor and pipeline ranks share all three parts, context ranks the activations of what is under way, too."""
    under_way = min(microbatches, pp + (pp - 1) / chunks)
    gradients = 2 * weights if zero == 1 else 0
    return (weights + gradients) / (tp * pp) + under_way * activations / (tp * cp * pp)
