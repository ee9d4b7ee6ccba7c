"""Wrong answers to chapter 5 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives and words that the sentence holds.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn.functional import gelu

from solutions.ch05_tensor_parallel import CopyToRanks, ReduceFromRanks
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# matmul_row_split


@wrong("matmul_row_split", "misfit", "columns of x that meet them")
def multiplies_all_of_x(x, shards):
    return sum(x @ shard for shard in shards)


@wrong("matmul_row_split", "side-by-side", "the result is their sum")
def concatenates_summands(x, shards):
    parts = np.split(x, len(shards), axis=1)
    return np.concatenate([part @ shard for part, shard in zip(parts, shards, strict=True)], axis=1)


@wrong("matmul_row_split", "same-part", "the r-th part")
def takes_the_first_columns(x, shards):
    return sum(x[:, : len(shard)] @ shard for shard in shards)


@wrong("matmul_row_split", "joined", "1 product", "one product for each shard")
def joins_the_row_shards(x, shards):
    return x @ np.concatenate(shards)


@right("matmul_row_split")
def counts_rows(x, shards):
    y, first = 0, 0
    for shard in shards:
        y = y + x[:, first : first + len(shard)] @ shard
        first += len(shard)
    return y


@right("matmul_row_split")
def multiplies_stacks(x, shards):
    return (np.stack(np.split(x, len(shards), axis=1)) @ np.stack(shards)).sum(0)


# activation_that_hides_it


@wrong("activation_that_hides_it", "shows-it", "f(2) + f(-1) = ")
def relu():
    return lambda x: np.maximum(x, 0)


@wrong("activation_that_hides_it", "shows-it", "f(2) + f(-1) = ")
def shifted():
    return lambda x: x + 1


@wrong("activation_that_hides_it", "zero", "no activation")
def nothing():
    return lambda x: 0 * x


@wrong("activation_that_hides_it", "form", "return a function")
def a_number():
    return 2


for _function_of_torch in (gelu, torch.relu, math.tanh):

    def _of_others(function=_function_of_torch):
        return function

    _of_others.__name__ = f"returns_{_function_of_torch.__name__}"
    wrong("activation_that_hides_it", "form", "with a numpy array", "TypeError", "takes numpy arrays")(_of_others)


@wrong("activation_that_hides_it", "form", "gives another shape")
def adds_everything_up():
    return np.sum


@right("activation_that_hides_it")
def identity():
    return lambda x: x


# shard_layer


def _shards(dist, layer, *, flip=(), whole=(), take=None, keep=torch.clone, b2=torch.clone):
    ranks, rank, mine = dist.get_world_size(), dist.get_rank(), {}
    for name, tensor in layer.items():
        dim = int(name in ("wq", "wk", "wv", "w1"))
        dim = 1 - dim if name in flip else dim
        part = tensor if name in whole else (take or (lambda t, d: t.chunk(ranks, d)[rank]))(tensor, dim)
        mine[name] = b2(tensor) if name == "b2" else keep(part)
    return mine


@wrong("shard_layer", "other-way", "wq on rank 0 is cut by rows", "whole heads", earned=0)
def cuts_all_by_rows(dist, layer):
    return _shards(dist, layer, flip=("wq", "wk", "wv", "w1"))


@wrong("shard_layer", "other-way", "w2 on rank 0 is cut by columns", "which meet the columns", earned=0)
def cuts_w2_by_columns(dist, layer):
    return _shards(dist, layer, flip=("w2",))


@wrong("shard_layer", "not-cut", "is all of b1", "this rank's numbers", earned=0)
def leaves_b1_whole(dist, layer):
    return _shards(dist, layer, whole=("b1",))


@wrong("shard_layer", "every-nth", "has every 2-th of the columns", "neighbours", earned=0)
def takes_every_nth(dist, layer):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    return _shards(dist, layer, take=lambda t, d: t[:, rank::ranks] if d else t[rank::ranks])


@wrong("shard_layer", "same-shard", "wq on rank 1 is that of rank 0", earned=0)
def gives_all_the_first(dist, layer):
    return _shards(dist, layer, take=lambda t, d: t.chunk(dist.get_world_size(), d)[0])


@wrong("shard_layer", "b2-cut", "b2 on rank 0 is cut", "after the sum", earned=0)
def cuts_b2(dist, layer):
    return _shards(dist, layer, b2=lambda t: t.chunk(dist.get_world_size())[dist.get_rank()].clone())


@wrong("shard_layer", "b2-divided", "divided by 2", "as it is", earned=0)
def divides_b2(dist, layer):
    return _shards(dist, layer, b2=lambda t: t / dist.get_world_size())


@wrong("shard_layer", "view", "wq on rank 0 keeps 128 bytes alive", "view of the whole weight", earned=2)
def keeps_views_of_a_layer(dist, layer):
    return _shards(dist, layer, keep=lambda t: t)


@wrong("shard_layer", "view", "wo on rank 0", "copies only what needs it", earned=2)
def makes_a_layer_contiguous(dist, layer):
    return _shards(dist, layer, keep=lambda t: t.contiguous())


@wrong("shard_layer", "form", "has no tensor b1, b2", earned=0)
def forgets_the_biases(dist, layer):
    return {name: tensor for name, tensor in _shards(dist, layer).items() if name[0] == "w"}


@wrong("shard_layer", "form", "return a dict of tensors", earned=0)
def returns_a_list(dist, layer):
    return list(_shards(dist, layer).values())


@right("shard_layer")
def slices_a_layer(dist, layer):
    def mine(size):
        n = size // dist.get_world_size()
        return slice(n * dist.get_rank(), n * (dist.get_rank() + 1))

    heads, ffn, kv = (mine(layer[name].shape[1]) for name in ("wq", "w1", "wk"))
    shards = {"wq": layer["wq"][:, heads], "wk": layer["wk"][:, kv], "wv": layer["wv"][:, kv], "wo": layer["wo"][heads]}
    shards |= {"w1": layer["w1"][:, ffn], "b1": layer["b1"][ffn], "w2": layer["w2"][ffn]}
    return {name: torch.nn.Parameter(shard.clone()) for name, shard in shards.items()} | {"b2": layer["b2"]}


# CopyToRanks and ReduceFromRanks


def _function(name, forward_sums, backward_sums, *, clone=True, contiguous=True, own=True, gradients=2):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            ctx.dist = dist
            if not forward_sums:
                return x.view_as(x)
            y = x.clone() if clone else x.detach()
            dist.all_reduce(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            if backward_sums:
                layout = torch.contiguous_format if contiguous else torch.preserve_format
                grad = grad.clone(memory_format=layout) if own else grad.contiguous()
                ctx.dist.all_reduce(grad)
            return (grad, None)[:gradients]

    Function.__name__ = name
    return Function


for _args in (
    ("CopyToRanks", "swapped", _function("g_for_f", True, False), "f and g are swapped"),
    ("CopyToRanks", "no-sum-in-backward", _function("no_sum", False, False), "sum over all of them"),
    ("CopyToRanks", "swapped", _function("sums_both_ways", True, True), "should return its input"),
    ("CopyToRanks", "raised", _function("any_layout", False, True, contiguous=False), "not contiguous"),
    ("CopyToRanks", "gradient-changed", _function("in_place", False, True, own=False), "give it a clone"),
    ("CopyToRanks", "raised", _function("one_gradient", False, True, gradients=1), "that of dist is None"),
    ("ReduceFromRanks", "raised", _function("one_gradient", True, False, gradients=1), "that of dist is None"),
    ("ReduceFromRanks", "swapped", _function("f_for_g", False, True), "f and g are swapped"),
    ("ReduceFromRanks", "backward-sums", _function("sums_twice", True, True), "return it as it is"),
    ("ReduceFromRanks", "input-changed", _function("in_place", True, False, clone=False), "give it a clone"),
):
    wrong(_args[0], _args[1], *_args[3:])(_args[2])


@wrong("CopyToRanks", "backward", "all_reduce returns nothing")
class ReturnsWhatAllReduceReturns(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dist):
        ctx.dist = dist
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.dist.all_reduce(grad.clone()), None


def _through(total):
    """Return f and g whose sum over ranks is `total(dist, tensor)`."""

    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            ctx.dist = dist
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return total(ctx.dist, grad.clone(memory_format=torch.contiguous_format)), None

    class G(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            return total(dist, x.clone(memory_format=torch.contiguous_format))

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    F.__name__, G.__name__ = (f"{name}_by_{total.__name__}" for name in "fg")
    return F, G


def _gathering(dist, tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return sum(parts)


def _reducing(dist, tensor):
    dist.reduce(tensor, 0)
    return tensor


for _name, _gathers, _reduces in zip(
    ("CopyToRanks", "ReduceFromRanks"), _through(_gathering), _through(_reducing), strict=True
):
    wrong(_name, "too-many-bytes", "sent 192 bytes", "all_reduce sends 96", "copies", earned=3)(_gathers)
    wrong(_name, "only-one-rank", "only rank 0 has the sum", "all_reduce")(_reduces)


@wrong("ReduceFromRanks", "forward", "divided by 2")
class TakesTheMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dist):
        y = x.clone()
        dist.all_reduce(y)
        return y / dist.get_world_size()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def _through_single_precision(name, module):
    """Return f or g whose forward rounds what it is given."""

    class Rounding(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            return module.forward(ctx, x.half().float(), dist).to(x.dtype)

        @staticmethod
        def backward(ctx, grad):
            return module.backward(ctx, grad)

    Rounding.__name__ = name
    return Rounding


wrong("CopyToRanks", "digits", "numbers of float32", "lost digits", earned=0)(
    _through_single_precision("f_of_few_digits", CopyToRanks)
)
wrong("ReduceFromRanks", "digits", "numbers of float32", "lost digits", earned=0)(
    _through_single_precision("g_of_few_digits", ReduceFromRanks)
)


@right("CopyToRanks")
class OnceDifferentiable(torch.autograd.Function):
    """With torch's own decorator, which names a module that cannot be imported."""

    @staticmethod
    def forward(ctx, x, dist):
        ctx.dist = dist
        return x.view_as(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        ctx.dist.all_reduce(grad)
        return grad, None


@right("CopyToRanks")
class ClonesForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dist):
        ctx.dist = dist
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        total = grad.contiguous().clone()
        ctx.dist.all_reduce(total)
        return total, None


@right("ReduceFromRanks")
class SumsByHandle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dist):
        y = x.detach().contiguous().clone()
        dist.all_reduce(y, async_op=True).wait()
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


# tensor_parallel_mlp


@wrong("tensor_parallel_mlp", "sum-before-gelu", "added up before GELU")
def sums_before_gelu(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(ReduceFromRanks.apply(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard, dist))
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "sum-before-gelu", "they are other columns", "until after w2", earned=0)
def sums_before_b1(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(ReduceFromRanks.apply(CopyToRanks.apply(x, dist) @ w1_shard, dist) + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "sum-before-gelu", "they are other columns", "until after w2", earned=0)
def sums_only_before_gelu(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = CopyToRanks.apply(x, dist) @ w1_shard
    dist.all_reduce(hidden)
    return gelu(hidden + b1_shard) @ w2_shard + b2


@wrong("tensor_parallel_mlp", "sum-before-w2", "Multiply first, then sum")
def sums_before_w2(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden, dist) @ w2_shard + b2


@wrong("tensor_parallel_mlp", "no-b1", "b1_shard was not added")
def forgets_b1(dist, x, w1_shard, b1_shard, w2_shard, b2):
    return ReduceFromRanks.apply(gelu(CopyToRanks.apply(x, dist) @ w1_shard) @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "divided-bias", "1/2 of one device's", "after the sum")
def divides_the_bias(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard + b2 / dist.get_world_size(), dist)


@wrong("tensor_parallel_mlp", "value", "one device returns")
def takes_relu(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = torch.relu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "row-then-column", "w1 is cut by columns")
def row_then_column(dist, x, w1_shard, b1_shard, w2_shard, b2):
    mine = x.chunk(dist.get_world_size(), -1)[dist.get_rank()]
    hidden = gelu(ReduceFromRanks.apply(mine @ w1_shard, dist) + b1_shard)
    return hidden @ w2_shard + b2


@wrong("tensor_parallel_mlp", "bias-on-every-rank", "2 times in all")
def bias_before_the_sum(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard + b2, dist)


@wrong("tensor_parallel_mlp", "swapped", "f and g are swapped")
def swaps_f_and_g(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(ReduceFromRanks.apply(x, dist) @ w1_shard + b1_shard)
    return CopyToRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "transposed", "nn.Linear stores it")
def transposes(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard.T + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard.T, dist) + b2


@wrong("tensor_parallel_mlp", "no-sum", "sum them over the ranks")
def never_sums(dist, x, w1_shard, b1_shard, w2_shard, b2):
    return gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard + b2


@wrong("tensor_parallel_mlp", "no-f", "let x pass through CopyToRanks")
def forgets_f(dist, x, w1_shard, b1_shard, w2_shard, b2):
    return ReduceFromRanks.apply(gelu(x @ w1_shard + b1_shard) @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "sums-twice", "must not sum again")
def sums_the_gradient_again(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return CopyToRanks.apply(ReduceFromRanks.apply(hidden @ w2_shard, dist), dist) + b2


@wrong("tensor_parallel_mlp", "f-on-b2", "b2 went through CopyToRanks", "2 times too large", earned=2)
def sends_b2_through_f(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + CopyToRanks.apply(b2, dist)


@wrong("tensor_parallel_mlp", "f-twice", "x went through CopyToRanks twice", "2 times too large", earned=2)
def sends_x_through_f_twice(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = gelu(CopyToRanks.apply(CopyToRanks.apply(x, dist), dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "f-too-late", "of other columns", "CopyToRanks goes around x", earned=2)
def sends_the_inner_vector_through_f(dist, x, w1_shard, b1_shard, w2_shard, b2):
    inner = CopyToRanks.apply(x @ w1_shard + b1_shard, dist)
    return ReduceFromRanks.apply(gelu(inner) @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "no-gradient", "w1_shard has no gradient on rank 0", "detached from autograd", earned=2)
def sums_a_detached_copy(dist, x, w1_shard, b1_shard, w2_shard, b2):
    y = (gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard).detach()
    dist.all_reduce(y)
    return y + b2


@wrong("tensor_parallel_mlp", "no-gradient", "b2 has no gradient on rank 1", "on every rank", earned=2)
def adds_b2_on_rank_0_only(dist, x, w1_shard, b1_shard, w2_shard, b2):
    y = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard
    return ReduceFromRanks.apply(y + b2 if dist.get_rank() == 0 else y, dist)


@wrong("tensor_parallel_mlp", "no-gelu", "GELU is missing", earned=0)
def forgets_gelu(dist, x, w1_shard, b1_shard, w2_shard, b2):
    return ReduceFromRanks.apply((CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "collectives", "one all-reduce each is enough")
def gathers_the_weights(dist, x, w1_shard, b1_shard, w2_shard, b2):
    for shard in (w1_shard, w2_shard):
        dist.all_gather([torch.empty_like(shard) for _ in range(dist.get_world_size())], shard.detach())
    hidden = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard)
    return ReduceFromRanks.apply(hidden @ w2_shard, dist) + b2


@wrong("tensor_parallel_mlp", "untold", "right by luck", "ReduceFromRanks", earned=2)
def sums_without_telling_autograd(dist, x, w1_shard, b1_shard, w2_shard, b2):
    y = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard
    dist.all_reduce(y)
    return y + b2


@right("tensor_parallel_mlp")
def adds_what_the_others_have(dist, x, w1_shard, b1_shard, w2_shard, b2):
    mine = gelu(CopyToRanks.apply(x, dist) @ w1_shard + b1_shard) @ w2_shard
    total = mine.detach().clone()
    dist.all_reduce(total)
    return mine + (total - mine.detach()) + b2


@right("tensor_parallel_mlp")
def bias_on_rank_0(dist, x, w1_shard, b1_shard, w2_shard, b2):
    hidden = torch.addmm(b1_shard, CopyToRanks.apply(x, dist), w1_shard)
    return b2 + ReduceFromRanks.apply(torch.matmul(gelu(hidden), w2_shard), dist)


# column_shard


@wrong("column_shard", "seeded-alike", "every shard was seeded alike")
def seeds_every_shard_alike(dist, seed, rows, columns):
    torch.manual_seed(seed)
    return torch.randn(rows, columns // dist.get_world_size())


@wrong("column_shard", "view", "view of the whole weight")
def keeps_a_view(dist, seed, rows, columns):
    torch.manual_seed(seed)
    return torch.randn(rows, columns).chunk(dist.get_world_size(), 1)[dist.get_rank()]


@wrong("column_shard", "view", "copies only what needs it")
def makes_it_contiguous_perhaps(dist, seed, rows, columns):
    torch.manual_seed(seed)
    return torch.randn(rows, columns).chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()


@wrong("column_shard", "value", "should be")
def takes_every_nth_column(dist, seed, rows, columns):
    torch.manual_seed(seed)
    return torch.randn(rows, columns)[:, dist.get_rank() :: dist.get_world_size()].clone()


@wrong("column_shard", "seeded-apart", "from the one seed")
def seeds_by_rank(dist, seed, rows, columns):
    torch.manual_seed(seed + dist.get_rank())
    return torch.randn(rows, columns // dist.get_world_size())


@wrong("column_shard", "shape", "its columns have shape")
def takes_rows(dist, seed, rows, columns):
    torch.manual_seed(seed)
    return torch.randn(rows, columns).tensor_split(dist.get_world_size(), 0)[dist.get_rank()].clone()


_kept = []


@wrong("column_shard", "kept", "keeps the whole weight", "72 bytes", "24 bytes", earned=1)
def keeps_the_whole_in_a_list(dist, seed, rows, columns):
    torch.manual_seed(seed)
    _kept.append(torch.randn(rows, columns))
    return _kept[-1].chunk(dist.get_world_size(), 1)[dist.get_rank()].clone()


@right("column_shard")
def makes_it_contiguous(dist, seed, rows, columns):
    generator, width = torch.Generator().manual_seed(seed), columns // dist.get_world_size()
    whole = torch.randn(rows, columns, generator=generator)
    mine = torch.empty(rows, width)
    return mine.copy_(whole[:, dist.get_rank() * width : (dist.get_rank() + 1) * width])


# tensor_parallel_attention


def _attention(dist, x, wq, wk, wv, wo, size, *, f=True, g=True, refuse=True, mask=True, scale=None, shares=None):
    if refuse and (wq.shape[1] % size or wk.shape[1] % size):
        raise ValueError(f"{wq.shape[1]} columns are no whole heads of {size}")
    x = CopyToRanks.apply(x, dist) if f else x
    q, k, v = ((x @ w)[..., : w.shape[1] // size * size].unflatten(-1, (-1, size)).mT for w in (wq, wk, wv))
    q, k, v = (t.permute(0, 3, 1, 2) for t in (q, k, v))
    times = q.shape[1] // k.shape[1]
    k, v = (shares(t, times) if shares else t.repeat_interleave(times, 1) for t in (k, v))
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=mask, scale=scale)
    y = y.transpose(1, 2).flatten(2)
    y = y @ wo[: y.shape[-1]]
    return ReduceFromRanks.apply(y, dist) if g else y


@wrong("tensor_parallel_attention", "heads-cut", "cut a head in the middle")
def cuts_heads_in_the_middle(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, refuse=False)


@wrong("tensor_parallel_attention", "no-sum", "part of its own heads")
def attends_alone(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, g=False)


@wrong("tensor_parallel_attention", "untold", "right by luck", "ReduceFromRanks", earned=2)
def attends_without_telling_autograd(dist, x, wq, wk, wv, wo, head_size):
    y = _attention(dist, x, wq, wk, wv, wo, head_size, g=False)
    dist.all_reduce(y)
    return y


@wrong("tensor_parallel_attention", "no-f", "let x pass through CopyToRanks")
def attends_without_f(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, f=False)


@wrong("tensor_parallel_attention", "f-twice", "x went through CopyToRanks twice", earned=2)
def attends_with_f_twice(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, CopyToRanks.apply(x, dist), wq, wk, wv, wo, head_size)


@wrong("tensor_parallel_attention", "no-gradient", "wk has no gradient on rank 0", "detached", earned=2)
def detaches_wk(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk.detach(), wv, wo, head_size)


@wrong("tensor_parallel_attention", "no-gradient", "wv has no gradient on rank 0", earned=2)
def detaches_wv(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv.detach(), wo, head_size)


@wrong("tensor_parallel_attention", "no-gradient", "wo has no gradient on rank 0", earned=2)
def detaches_wo(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo.detach(), head_size)


@wrong("tensor_parallel_attention", "gradient", "the gradient of wv on rank 0", "its own heads have", earned=2)
def sums_the_gradient_of_wv(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, CopyToRanks.apply(wv, dist), wo, head_size)


@wrong("tensor_parallel_attention", "no-gradient", "2 key/value heads", "wk has no gradient", earned=3)
def detaches_wk_where_heads_are_shared(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk.detach() if wk.shape != wq.shape else wk, wv, wo, head_size)


@wrong("tensor_parallel_attention", "gradient", "2 key/value heads", "the gradient of wk", earned=3)
def lets_only_the_first_sharer_learn(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, shares=lambda t, times: torch.stack(
        [t, *[t.detach()] * (times - 1)], 2).flatten(1, 2))  # fmt: skip


@wrong("tensor_parallel_attention", "kv-order", "8 query heads and 4 key/value heads", "repeat_interleave")
def tiles_kv_heads(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, shares=lambda t, times: t.repeat(1, times, 1, 1))


@wrong("tensor_parallel_attention", "no-mask", "the tokens after it")
def sees_the_future(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, mask=False)


@wrong("tensor_parallel_attention", "no-scale", "root of head_size")
def does_not_scale(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size, scale=1.0)


@wrong("tensor_parallel_attention", "value", "[..., ", "one device returns")
def changes_the_last_token(dist, x, wq, wk, wv, wo, head_size):
    y = _attention(dist, x, wq, wk, wv, wo, head_size).clone()
    y[:, -1] *= 2
    return y


def _mixed(dist, x, wq, wk, wv, wo, heads):
    x = CopyToRanks.apply(x, dist)
    q, k, v = (heads(x @ w) for w in (wq, wk, wv))
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return ReduceFromRanks.apply(y.transpose(1, 2).flatten(2) @ wo, dist)


@wrong("tensor_parallel_attention", "heads-mixed", "heads are cut in the middle")
def cuts_heads_across_rows(dist, x, wq, wk, wv, wo, head_size):
    return _mixed(dist, x, wq, wk, wv, wo, lambda t: t.view(len(t), -1, t.shape[1], head_size))


@wrong("tensor_parallel_attention", "heads-mixed", "neighbouring columns")
def takes_every_nth_column_as_a_head(dist, x, wq, wk, wv, wo, head_size):
    return _mixed(dist, x, wq, wk, wv, wo, lambda t: t.unflatten(-1, (head_size, -1)).permute(0, 3, 1, 2))


@wrong("tensor_parallel_attention", "heads-cut", "RuntimeError", "raise a ValueError with a sentence")
def lets_torch_refuse(dist, x, wq, wk, wv, wo, head_size):
    (x @ wq).unflatten(-1, (-1, head_size)), (x @ wk).unflatten(-1, (-1, head_size))
    return _attention(dist, x, wq, wk, wv, wo, head_size)


@wrong("tensor_parallel_attention", "heads-cut", "it raised ValueError. 3 heads")
def refuses_without_words(dist, x, wq, wk, wv, wo, head_size):
    if wq.shape[1] % head_size or wk.shape[1] % head_size:
        raise ValueError
    return _attention(dist, x, wq, wk, wv, wo, head_size)


@right("tensor_parallel_attention")
def attends_by_sdpa(dist, x, wq, wk, wv, wo, head_size):
    return _attention(dist, x, wq, wk, wv, wo, head_size)


# vocabulary_parallel_cross_entropy


@wrong("vocabulary_parallel_cross_entropy", "gathers-logits", "do not gather the logits")
def gathers(dist, logits, targets):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    parts = [torch.empty_like(logits) for _ in range(ranks)]
    dist.all_gather(parts, logits.detach())
    parts[rank] = logits
    return torch.nn.functional.cross_entropy(torch.cat(parts, 1), targets)


@wrong("vocabulary_parallel_cross_entropy", "own-words", "over its own words")
def sums_its_own_words(dist, logits, targets):
    width, rank = logits.shape[1], dist.get_rank()
    mine = (targets >= rank * width) & (targets < (rank + 1) * width)
    picked = logits.gather(1, (targets - rank * width).clamp(0, width - 1)[:, None])[:, 0] * mine
    return (logits.logsumexp(-1) - ReduceFromRanks.apply(picked, dist)).mean()


@wrong("vocabulary_parallel_cross_entropy", "value", "logits of up to 1,000", "exp overflows")
def overflows(dist, logits, targets):
    width, rank = logits.shape[1], dist.get_rank()
    mine = (targets >= rank * width) & (targets < (rank + 1) * width)
    picked = logits.gather(1, (targets - rank * width).clamp(0, width - 1)[:, None])[:, 0] * mine
    total = ReduceFromRanks.apply(logits.exp().sum(-1), dist)
    return (total.log() - ReduceFromRanks.apply(picked, dist)).mean()


def _untold(x, dist):
    dist.all_reduce(x)
    return x


def _loss(dist, logits, targets, *, over_ranks=True, masked=True, mean=True, detach=True, g=ReduceFromRanks.apply,
          each_token=True, op="MAX"):  # fmt: skip
    width, rank = logits.shape[1], dist.get_rank()
    most = (logits.detach() if detach else logits).amax(-1)
    most = most if each_token else most.max() * torch.ones_like(most)
    if over_ranks:
        dist.all_reduce(most, op=getattr(dist.ReduceOp, op))
    total = g((logits - most[:, None]).exp().sum(-1), dist)
    local = targets - rank * width
    mine = (local >= 0) & (local < width) if masked else 1
    picked = (logits.gather(1, local.clamp(0, width - 1)[:, None])[:, 0] - most) * mine
    loss = total.log() - g(picked, dist)
    return loss.mean() if mean else loss.sum()


@wrong("vocabulary_parallel_cross_entropy", "own-maximum", "ReduceOp.MAX")
def subtracts_its_own_maximum(dist, logits, targets):
    return _loss(dist, logits, targets, over_ranks=False)


@wrong("vocabulary_parallel_cross_entropy", "target-everywhere", "the others add 0")
def takes_a_target_everywhere(dist, logits, targets):
    return _loss(dist, logits, targets, masked=False)


@wrong("vocabulary_parallel_cross_entropy", "sum", "the loss is their mean")
def sums_over_tokens(dist, logits, targets):
    return _loss(dist, logits, targets, mean=False)


@wrong("vocabulary_parallel_cross_entropy", "untold", "right by luck", "ReduceFromRanks", earned=2)
def sums_the_loss_without_telling_autograd(dist, logits, targets):
    return _loss(dist, logits, targets, g=_untold)


@wrong("vocabulary_parallel_cross_entropy", "raised", "inplace", "the maximum of logits.detach()")
def takes_the_maximum_with_its_graph(dist, logits, targets):
    return _loss(dist, logits, targets, detach=False)


@wrong("vocabulary_parallel_cross_entropy", "raised", "out of bounds", "begin at rank")
def takes_torchs_loss(dist, logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets)


@wrong("vocabulary_parallel_cross_entropy", "raised", "index", "begin at rank")
def forgets_the_offset(dist, logits, targets):
    total = ReduceFromRanks.apply(logits.exp().sum(-1), dist)
    return (total.log() - ReduceFromRanks.apply(logits.gather(1, targets[:, None])[:, 0], dist)).mean()


@wrong("vocabulary_parallel_cross_entropy", "one-maximum", "1,000 above", "Each token has its own maximum", earned=3)
def takes_one_maximum_for_all_tokens(dist, logits, targets):
    return _loss(dist, logits, targets, each_token=False)


@wrong("vocabulary_parallel_cross_entropy", "value", "900 above", "exp overflows", earned=3)
def takes_the_smallest_maximum(dist, logits, targets):
    return _loss(dist, logits, targets, op="MIN")


@wrong("vocabulary_parallel_cross_entropy", "form", "rank 0 returned float", "a tensor", earned=0)
def returns_a_number(dist, logits, targets):
    return _loss(dist, logits, targets).item()


@right("vocabulary_parallel_cross_entropy")
def adds_logsumexps(dist, logits, targets):
    width, first = logits.shape[1], dist.get_rank() * logits.shape[1]
    most = logits.detach().amax(1)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    one_hot = (targets[:, None] == torch.arange(first, first + width)).to(logits.dtype)
    both = torch.stack([(logits - most[:, None]).exp().sum(1), (logits * one_hot).sum(1)])
    total, picked = ReduceFromRanks.apply(both, dist)
    return (most + total.log() - picked).mean()


# sequence_parallel_bytes


@wrong("sequence_parallel_bytes", "wrong-held", "its part of the tokens")
def holds_everything(tokens, hidden, element, ranks):
    return tokens * hidden * element, 8 * (ranks - 1) / ranks * tokens * hidden * element


@wrong("sequence_parallel_bytes", "half", "reduce-scatter and an all-gather")
def counts_half(tokens, hidden, element, ranks):
    whole = tokens * hidden * element
    return whole / ranks, 4 * (ranks - 1) / ranks * whole


@wrong("sequence_parallel_bytes", "wrong-sent", "not 29,360,128")
def counts_one_sum(tokens, hidden, element, ranks):
    whole = tokens * hidden * element
    return whole / ranks, 2 * (ranks - 1) / ranks * whole


@wrong("sequence_parallel_bytes", "form", "(bytes held, bytes sent)")
def returns_one_number(tokens, hidden, element, ranks):
    return tokens * hidden * element / ranks


@right("sequence_parallel_bytes")
def in_numbers_of_numpy(tokens, hidden, element, ranks):
    whole = np.int64(tokens * hidden * element)
    return whole // ranks, 8 * (ranks - 1) * whole // ranks


@right("sequence_parallel_bytes")
def in_an_array(tokens, hidden, element, ranks):
    return np.array([1, 8 * (ranks - 1)]) * (tokens * hidden * element / ranks)


@right("sequence_parallel_bytes")
def counts_one_by_one(tokens, hidden, element, ranks):
    share = tokens * hidden * element / ranks
    return [share, sum((ranks - 1) * share for _ in range(8))]
