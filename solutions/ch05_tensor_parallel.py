"""Answers to the exercises of chapter 5."""

import numpy as np
import torch
from torch.nn.functional import gelu


def matmul_row_split(x, shards):
    """Rank r needs only the columns of x that meet its rows of w; the products are summands of the whole."""
    pieces = np.split(x, np.cumsum([len(shard) for shard in shards])[:-1], axis=-1)
    return sum(piece @ shard for piece, shard in zip(pieces, shards, strict=True))


def activation_that_hides_it():
    """A linear function is the same on summands and on their sum, so tests with it say nothing."""
    return lambda x: 2 * x


def shard_layer(dist, layer):
    """Columns of what reads x, rows of what reads the result; b2 is added after the sum, so it stays whole."""
    dims = {"wq": 1, "wk": 1, "wv": 1, "wo": 0, "w1": 1, "b1": 0, "w2": 0}
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mine = {name: layer[name].chunk(ranks, dim)[rank].clone() for name, dim in dims.items()}
    return mine | {"b2": layer["b2"].clone()}


class CopyToRanks(torch.autograd.Function):
    """f: every rank gets the same x, so the gradients that ranks have for it are summands."""

    @staticmethod
    def forward(ctx, x, dist):
        ctx.dist = dist
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        ctx.dist.all_reduce(grad)
        return grad, None


class ReduceFromRanks(torch.autograd.Function):
    """g: y is the sum of the ranks' parts, so each part has the gradient of y, which every rank has already."""

    @staticmethod
    def forward(ctx, x, dist):
        y = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def tensor_parallel_mlp(dist, x, w1_shard, b1_shard, w2_shard, b2):
    """Columns, GELU on what is complete, rows, one sum; the bias comes after the sum, so it is added once."""
    inner = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(inner @ w2_shard, dist) + b2


def column_shard(dist, seed, rows, columns):
    """Draw the whole weight, as one process would, and keep a copy of one's own columns; the whole is freed."""
    torch.manual_seed(seed)
    return torch.randn(rows, columns).chunk(dist.get_world_size(), 1)[dist.get_rank()].clone()


def tensor_parallel_attention(dist, x, wq, wk, wv, wo, head_size):
    """A head needs nothing of another head: each rank computes its own, and the output matrix sums over heads."""
    if wq.shape[1] % head_size or wk.shape[1] % head_size or wk.shape[1] == 0:
        raise ValueError(
            f"{wq.shape[1]} and {wk.shape[1]} columns are no whole heads of {head_size}: cut between heads"
        )
    x = CopyToRanks.apply(x, dist)
    q, k, v = ((x @ w).unflatten(-1, (-1, head_size)).transpose(1, 2) for w in (wq, wk, wv))
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    future = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype).triu(1)
    weights = (q @ k.transpose(-2, -1) / head_size**0.5 + future).softmax(-1)
    return ReduceFromRanks.apply((weights @ v).transpose(1, 2).flatten(2) @ wo, dist)


def vocabulary_parallel_cross_entropy(dist, logits, targets):
    """Three numbers a token stand for all logits: the maximum, the sum of exps, the target's logit."""
    width = logits.shape[-1]
    first = dist.get_rank() * width
    most = logits.detach().amax(-1)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    total = ReduceFromRanks.apply((logits - most[:, None]).exp().sum(-1), dist)
    mine = (targets >= first) & (targets < first + width)
    local = (targets - first).clamp(0, width - 1)
    picked = (logits.gather(-1, local[:, None])[:, 0] - most) * mine
    return (total.log() - ReduceFromRanks.apply(picked, dist)).mean()


def sequence_parallel_bytes(tokens, hidden, element, ranks):
    """A rank holds its tokens' part; an all-reduce is a reduce-scatter and an all-gather anyway, so as much is sent."""
    whole = tokens * hidden * element
    return whole / ranks, 4 * 2 * (ranks - 1) / ranks * whole
