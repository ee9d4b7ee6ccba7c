"""Wrong answers to chapter 7 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives and words that the sentence holds.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from course_lib.costs import collective_bytes
from solutions.ch07_fsdp import fully_sharded_step as solved_step
from solutions.ch07_fsdp import shard, unshard
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# shard


@wrong("shard", "not-flat", "one dimension", "Flatten")
def cuts_rows(tensor, rank, ranks):
    rows = -(-len(tensor) // ranks) if tensor.dim() else 1
    return torch.atleast_1d(tensor)[rank * rows : (rank + 1) * rows].clone()


@wrong("shard", "uneven", "4, 3, 3, 3", "equal")
def pads_nothing(tensor, rank, ranks):
    return tensor.flatten().tensor_split(ranks)[rank].clone()


@wrong("shard", "uneven", "4, 4, 4, 1", "equal")
def pads_all_but_the_last(tensor, rank, ranks):
    size = -(-tensor.numel() // ranks)
    return tensor.flatten()[rank * size : (rank + 1) * size].clone()


@wrong("shard", "lost", "rounded up")
def rounds_down(tensor, rank, ranks):
    size = tensor.numel() // ranks
    return tensor.flatten()[rank * size : (rank + 1) * size].clone()


@wrong("shard", "view", "alive", "copy")
def shares_the_whole(tensor, rank, ranks):
    flat = tensor.flatten()
    return torch.nn.functional.pad(flat, (0, -len(flat) % ranks)).chunk(ranks)[rank]


@wrong("shard", "padding", "zeros")
def pads_with_the_first_elements(tensor, rank, ranks):
    flat = tensor.flatten()
    size = -(-len(flat) // ranks)
    return flat[torch.arange(rank * size, (rank + 1) * size) % len(flat)]


@wrong("shard", "order", "neighbours")
def deals_out_elements(tensor, rank, ranks):
    flat = tensor.flatten()
    return torch.nn.functional.pad(flat, (0, -len(flat) % ranks))[rank::ranks].clone()


@wrong("shard", "order", "at the end")
def pads_in_front(tensor, rank, ranks):
    flat = tensor.flatten()
    return torch.nn.functional.pad(flat, (-len(flat) % ranks, 0)).chunk(ranks)[rank].clone()


@wrong("shard", "form", "float64", "float32")
def forgets_the_dtype(tensor, rank, ranks):
    return shard(tensor, rank, ranks).float()


@wrong("shard", "form", "bfloat16", "float32", "padding")
def pads_with_zeros_of_the_usual_dtype(tensor, rank, ranks):
    flat = tensor.flatten()
    flat = torch.cat([flat, torch.zeros(-len(flat) % ranks)])
    return flat.view(ranks, -1)[rank].clone()


@wrong("shard", "digits", "float32 tensor have lost digits", earned=1)
def cuts_in_half_precision(tensor, rank, ranks):
    return shard(tensor.half(), rank, ranks).to(tensor.dtype) if tensor.dtype != torch.bfloat16 else shard(
        tensor, rank, ranks)  # fmt: skip


@right("shard")
def pads_and_copies(tensor, rank, ranks):
    flat = torch.nn.functional.pad(tensor.flatten(), (0, -tensor.numel() % ranks))
    return flat.view(ranks, -1)[rank].clone()


# unshard


def pieces_of(dist, mine):
    pieces = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, mine)
    return pieces


@wrong("unshard", "raised", "on 3 ranks with shape (4,)", "drops the padding", "invalid", earned=2)
def keeps_the_padding(dist, shard, shape):
    return torch.cat(pieces_of(dist, shard)).view(shape)


@wrong("unshard", "one-tensor", "rank 3's shard 4 times", "4 names of one tensor", earned=0)
def gathers_into_one_tensor(dist, shard, shape):
    pieces = [shard] * dist.get_world_size()
    dist.all_gather(pieces, shard)
    return torch.cat(pieces)[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "one-tensor", "names of one tensor", earned=0)
def gathers_into_one_new_tensor(dist, shard, shape):
    pieces = [torch.empty_like(shard)] * dist.get_world_size()
    dist.all_gather(pieces, shard)
    return torch.cat(pieces)[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "padding", "end")
def drops_the_front(dist, shard, shape):
    flat = torch.cat(pieces_of(dist, shard))
    return flat[len(flat) - torch.Size(shape).numel() :].view(shape)


@wrong("unshard", "raised", "on 4 ranks", "exactly as many elements", "invalid")
def drops_zeros(dist, shard, shape):
    flat = torch.cat(pieces_of(dist, shard))
    return flat[flat != 0].view(shape)


@wrong("unshard", "shape", "(2, 6)", "(12,)")
def forgets_the_shape(dist, shard, shape):
    return torch.cat(pieces_of(dist, shard))[: torch.Size(shape).numel()]


@wrong("unshard", "own-part-only", "own")
def asks_nobody(dist, shard, shape):
    return shard.repeat(dist.get_world_size())[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "only-on-rank-0", "rank 1", "every rank")
def gathers_on_rank_0(dist, shard, shape):
    pieces = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.gather(shard, pieces if dist.get_rank() == 0 else None, 0)
    return torch.cat(pieces)[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "too-many-bytes", "all_gather")
def sums_zeros(dist, shard, shape):
    whole = shard.new_zeros(dist.get_world_size(), len(shard))
    whole[dist.get_rank()] = shard
    dist.all_reduce(whole)
    return whole.flatten()[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "too-many-collectives", "calls broadcast 4 times", "one dist.all_gather", earned=3)
def broadcasts_each_shard(dist, shard, shape):
    pieces = [shard.clone() for _ in range(dist.get_world_size())]
    for rank, piece in enumerate(pieces):
        dist.broadcast(piece, rank)
    return torch.cat(pieces)[: torch.Size(shape).numel()].view(shape)


@wrong("unshard", "value", "the result on rank 0", earned=0)
def gathers_in_single_precision(dist, shard, shape):
    return unshard(dist, shard.float(), shape).to(shard.dtype)


@right("unshard")
def joins_pieces(dist, shard, shape):
    return torch.cat(pieces_of(dist, shard))[: torch.Size(shape).numel()].view(shape)


@right("unshard")
def passes_pieces_around(dist, shard, shape):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = shard.new_empty(ranks, len(shard))
    whole[rank] = shard
    for step in range(ranks - 1):
        send = dist.isend(whole[(rank - step) % ranks], (rank + 1) % ranks)
        dist.irecv(whole[(rank - step - 1) % ranks], (rank - 1) % ranks).wait()
        send.wait()
    return whole.view(-1)[: torch.Size(shape).numel()].reshape(shape)


# sharded_adamw_step


def mean_shard(dist, grad, scale=None):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [shard(grad, r, ranks) for r in range(ranks)]
    mine = torch.empty_like(pieces[rank])
    dist.reduce_scatter(mine, pieces)
    return mine / ranks if scale is None else mine * scale


def my_part(dist, tensor):
    return shard(tensor, dist.get_rank(), dist.get_world_size())


@wrong("sharded_adamw_step", "not-sharded", "plain data parallelism", "shard")
def data_parallelism(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        dist.all_reduce(parameter.grad)
        adamw(parameter.data, parameter.grad / dist.get_world_size(), state)


@wrong("sharded_adamw_step", "not-sharded", "plain data parallelism")
def data_parallelism_in_disguise(dist, parameters, states, adamw):
    ranks = dist.get_world_size()
    for parameter, state in zip(parameters, states, strict=True):
        dist.all_reduce(parameter.grad)
        for r in range(ranks):
            mine = shard(parameter, r, ranks)
            adamw(mine, shard(parameter.grad, r, ranks) / ranks, state.setdefault(r, {}))
            size = len(mine)
            part = parameter.data.view(-1)[r * size : (r + 1) * size]
            part.copy_(mine[: len(part)])


@wrong("sharded_adamw_step", "sum", "divide by the number of ranks")
def steps_with_the_sum(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad, scale=1), state)
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "alone", "its own gradient")
def steps_with_its_own_gradient(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, my_part(dist, parameter.grad), state)
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "not-gathered", "other ranks", "gather")
def never_gathers(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), state)
        part = parameter.data.view(-1)[dist.get_rank() * len(mine) :][: len(mine)]
        part.copy_(mine[: len(part)])


@wrong("sharded_adamw_step", "unchanged", "in place")
def steps_a_copy(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        adamw(my_part(dist, parameter), mean_shard(dist, parameter.grad), state)


@wrong("sharded_adamw_step", "forgets-moments", "states")
def begins_anew(dist, parameters, states, adamw):
    for parameter in parameters:
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), {})
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "padding", "do not divide", "after the last element")
def leaks_the_padding(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), state)
        flat = torch.cat(pieces_of(dist, mine))
        parameter.data.copy_(flat[len(flat) - parameter.numel() :].view_as(parameter))


@wrong("sharded_adamw_step", "leaf", "parameter.data", "autograd watches", earned=0)
def writes_into_the_parameter(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), state)
        parameter.copy_(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "raised", "may still have its padding", "parameter.numel()", earned=0)
def keeps_the_padding_of_a_parameter(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), state)
        parameter.data.view(-1).copy_(torch.cat(pieces_of(dist, mine)))


@wrong("sharded_adamw_step", "too-much-at-once", "one parameter after the other")
def flattens_everything(dist, parameters, states, adamw):
    weights = torch.cat([parameter.data.flatten() for parameter in parameters])
    grads = torch.cat([parameter.grad.flatten() for parameter in parameters])
    mine = my_part(dist, weights)
    adamw(mine, mean_shard(dist, grads), states[0])
    whole = unshard(dist, mine, weights.shape)
    for parameter, part in zip(parameters, whole.split([p.numel() for p in parameters]), strict=True):
        parameter.data.copy_(part.view_as(parameter))


@wrong("sharded_adamw_step", "too-many-bytes", "all_gather")
def sums_weights_instead_of_gathering(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        dist.all_reduce(parameter.grad)
        mine = my_part(dist, parameter)
        adamw(mine, my_part(dist, parameter.grad) / dist.get_world_size(), state)
        flat = mine.new_zeros(dist.get_world_size(), len(mine))
        flat[dist.get_rank()] = mine
        dist.all_reduce(flat)
        parameter.data.copy_(flat.flatten()[: parameter.numel()].view_as(parameter))


@wrong("sharded_adamw_step", "unchanged", "in place")
def puts_new_parameters_into_the_list(dist, parameters, states, adamw):
    for place, (parameter, state) in enumerate(zip(list(parameters), states, strict=True)):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(dist, parameter.grad), state)
        parameters[place] = torch.nn.Parameter(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "whole-parameters", "moments of whole parameters", "cut every parameter")
def deals_out_whole_parameters(dist, parameters, states, adamw):
    for place, (parameter, state) in enumerate(zip(parameters, states, strict=True)):
        owner = place % dist.get_world_size()
        dist.reduce(parameter.grad, owner)
        if dist.get_rank() == owner:
            adamw(parameter.data, parameter.grad / dist.get_world_size(), state)
        dist.broadcast(parameter.data, owner)


@wrong("sharded_adamw_step", "all-reduce", "the whole gradient", "dist.reduce_scatter", earned=4)
def all_reduces_and_gathers(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        dist.all_reduce(parameter.grad)
        mine = my_part(dist, parameter)
        adamw(mine, my_part(dist, parameter.grad) / dist.get_world_size(), state)
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


@wrong("sharded_adamw_step", "too-many-collectives", "30 times a step", "one dist.reduce_scatter", earned=4)
def reduces_each_piece_to_its_owner(dist, parameters, states, adamw):
    for parameter, state in zip(parameters, states, strict=True):
        mine = my_part(dist, parameter)
        adamw(mine, mean_shard(PieceByPiece(dist), parameter.grad), state)
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


@right("sharded_adamw_step")
def in_three_loops(dist, parameters, states, adamw):
    grads = [mean_shard(dist, parameter.grad) for parameter in parameters]
    weights = [my_part(dist, parameter) for parameter in parameters]
    for mine, grad, state in zip(weights, grads, states, strict=True):
        adamw(mine, grad, state)
    for parameter, mine in zip(parameters, weights, strict=True):
        parameter.data = unshard(dist, mine, parameter.shape).clone()


# reduce_scatter_gradients


def hooked(dist, model, hook):
    """Return a finish() over hooks that keep what `hook(parameter)` returns."""
    kept = {}

    def keep(parameter):
        kept[parameter] = hook(parameter)

    def finish():
        mine = [kept[parameter] for parameter in model.parameters()]
        kept.clear()
        return mine

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(keep)
    return finish


@wrong("reduce_scatter_gradients", "after-backward", "hook", "while it runs")
def reduces_after_backward(dist, model):
    def finish():
        mine = []
        for parameter in model.parameters():
            mine.append(mean_shard(dist, parameter.grad))
            parameter.grad = None
        return mine

    return finish


@wrong("reduce_scatter_gradients", "too-much-held", "whole gradients", "drop")
def reduces_most_after_backward(dist, model):
    parameters = list(model.parameters())
    first = []

    def early(parameter):
        first.append(mean_shard(dist, parameter.grad))
        parameter.grad = None

    def finish():
        mine = [mean_shard(dist, parameter.grad) for parameter in parameters[:-1]] + [first.pop()]
        for parameter in parameters:
            parameter.grad = None
        return mine

    parameters[-1].register_post_accumulate_grad_hook(early)
    return finish


@wrong("reduce_scatter_gradients", "not-sharded", "plain data parallelism", "shard")
def averages_whole_gradients(dist, model):
    def average(parameter):
        dist.all_reduce(parameter.grad)
        return parameter.grad / dist.get_world_size()

    return hooked(dist, model, average)


@wrong("reduce_scatter_gradients", "all-reduce", "twice", "reduce_scatter")
def all_reduces_and_keeps_its_part(dist, model):
    def keep(parameter):
        dist.all_reduce(parameter.grad)
        mine = my_part(dist, parameter.grad) / dist.get_world_size()
        parameter.grad = None
        return mine

    return hooked(dist, model, keep)


@wrong("reduce_scatter_gradients", "sum", "divide by the number of ranks")
def sums_gradients(dist, model):
    def keep(parameter):
        mine, parameter.grad = mean_shard(dist, parameter.grad, scale=1), None
        return mine

    return hooked(dist, model, keep)


@wrong("reduce_scatter_gradients", "too-much-held", "whole gradients pile up", earned=3)
def keeps_whole_gradients_in_buffers_made_before(dist, model):
    whole = {parameter: torch.zeros_like(parameter.detach()) for parameter in model.parameters()}

    def reduce(parameter):
        whole[parameter].copy_(parameter.grad)
        parameter.grad = None
        return mean_shard(dist, whole[parameter])

    return hooked(dist, model, reduce)


@wrong("reduce_scatter_gradients", "kept-whole", "parameter.grad = None")
def keeps_the_whole_gradient(dist, model):
    return hooked(dist, model, lambda parameter: mean_shard(dist, parameter.grad))


@wrong("reduce_scatter_gradients", "view", "storage")
def keeps_a_view(dist, model):
    def keep(parameter):
        ranks = dist.get_world_size()
        pieces = list(torch.stack([shard(parameter.grad, r, ranks) for r in range(ranks)]))
        parameter.grad = None
        dist.reduce_scatter(pieces[dist.get_rank()], [piece.clone() for piece in pieces])
        return pieces[dist.get_rank()].div_(ranks)

    return hooked(dist, model, keep)


@wrong("reduce_scatter_gradients", "alone", "its own gradient")
def reduces_nothing(dist, model):
    def keep(parameter):
        mine, parameter.grad = my_part(dist, parameter.grad), None
        return mine

    return hooked(dist, model, keep)


@wrong("reduce_scatter_gradients", "not-cleared", "second step", "forget")
def never_clears(dist, model):
    kept = []

    def keep(parameter):
        kept.insert(0, mean_shard(dist, parameter.grad))
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(keep)
    return lambda: list(kept)


@wrong("reduce_scatter_gradients", "no-function", "return")
def returns_nothing(dist, model):
    hooked(dist, model, lambda parameter: mean_shard(dist, parameter.grad))


@wrong("reduce_scatter_gradients", "order", "model.parameters()")
def in_the_order_of_backward(dist, model):
    kept = []

    def keep(parameter):
        kept.append(mean_shard(dist, parameter.grad))
        parameter.grad = None

    def finish():
        mine = list(kept)
        kept.clear()
        return mine

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(keep)
    return finish


@wrong("reduce_scatter_gradients", "too-much-held", "whole gradients")
def waits_for_all_at_the_end(dist, model):
    return one_in_flight(dist, model, patience=1000)


@wrong("reduce_scatter_gradients", "too-many-collectives", "calls reduce 48 times", "reduce_scatter", earned=5)
def reduces_piece_by_piece(dist, model):
    def keep(parameter):
        mine, parameter.grad = mean_shard(PieceByPiece(dist), parameter.grad), None
        return mine

    return hooked(dist, model, keep)


@wrong("reduce_scatter_gradients", "raised", "on 1 rank", "IndexError", earned=0)
def takes_its_pattern_from_the_second_piece(dist, model):
    def keep(parameter):
        pieces = [shard(parameter.grad, rank, dist.get_world_size()) for rank in range(dist.get_world_size())]
        parameter.grad, mine = None, torch.empty_like(pieces[1])
        dist.reduce_scatter(mine, pieces)
        return mine / len(pieces)

    return hooked(dist, model, keep)


@right("reduce_scatter_gradients")
def one_in_flight(dist, model, patience=1):
    """Begin each reduce-scatter in its hook and wait for it in the next one."""
    rank, ranks, flying, kept = dist.get_rank(), dist.get_world_size(), [], {}

    def land(still=0):
        while len(flying) > still:
            parameter, mine, pieces, handle = flying.pop(0)
            handle.wait()
            pieces.clear()
            kept[parameter] = mine / ranks

    def begin(parameter):
        land(patience - 1)
        pieces = [shard(parameter.grad, r, ranks) for r in range(ranks)]
        parameter.grad = None
        mine = torch.empty_like(pieces[rank])
        flying.append((parameter, mine, pieces, dist.reduce_scatter(mine, pieces, async_op=True)))

    def finish():
        land()
        mine = [kept[parameter] for parameter in model.parameters()]
        kept.clear()
        return mine

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(begin)
    return finish


# sharded_forward


@wrong("sharded_forward", "kept", "while unit 1 is gathered", "unit 0 is still alive", "del", earned=2)
def keeps_a_name_until_the_next_gather(dist, units, shards, x):
    inputs = []
    with torch.no_grad():
        for (forward, shape), mine in zip(units, shards, strict=True):
            inputs.append(x)
            weight = unshard(dist, mine, shape)
            x = forward(weight, x)
    return x, inputs


@wrong("sharded_forward", "kept", "unit 0 is still alive", "no_grad", earned=2)
def forwards_with_autograd(dist, units, shards, x):
    inputs = []
    for (forward, shape), mine in zip(units, shards, strict=True):
        inputs.append(x)
        x = forward(unshard(dist, mine, shape).requires_grad_(), x)
    return x, inputs


@wrong("sharded_forward", "gathered-early", "plain data parallelism", earned=2)
def gathers_all_units_first(dist, units, shards, x):
    inputs = []
    with torch.no_grad():
        wholes = [unshard(dist, mine, shape) for (_, shape), mine in zip(units, shards, strict=True)]
        for (forward, _), whole in zip(units, wholes, strict=True):
            inputs.append(x)
            x = forward(whole, x)
    return x, inputs


@wrong("sharded_forward", "too-much-held", "gathered before its turn", earned=2)
def gathers_one_ahead(dist, units, shards, x):
    inputs, ahead = [], unshard(dist, shards[0], units[0][1])
    with torch.no_grad():
        for place, (forward, _) in enumerate(units):
            whole, ahead = ahead, None
            if place + 1 < len(units):
                ahead = unshard(dist, shards[place + 1], units[place + 1][1])
            inputs.append(x)
            x = forward(whole, x)
            del whole
    return x, inputs


@wrong("sharded_forward", "outputs", "output of unit 0", "before it computes", earned=0)
def keeps_outputs(dist, units, shards, x):
    _, inputs = forward_by_hand(dist, units, shards, x)
    output = forward_by_hand(dist, units, shards, x)[0]
    return output, [*inputs[1:], output]


@wrong("sharded_forward", "one-too-many", "7 inputs for 6 units", earned=0)
def keeps_one_too_many(dist, units, shards, x):
    output, inputs = forward_by_hand(dist, units, shards, x)
    return output, [*inputs, output]


@wrong("sharded_forward", "form", "two things", earned=0)
def returns_the_output_only(dist, units, shards, x):
    return forward_by_hand(dist, units, shards, x)[0]


@wrong("sharded_forward", "own-part", "part of the weights", "gather the whole", earned=0)
def computes_with_its_shard_only(dist, units, shards, x):
    """As if a rank computed its part: what the others hold is taken for zeros."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs = []
    with torch.no_grad():
        for (forward, shape), mine in zip(units, shards, strict=True):
            inputs.append(x)
            rows = mine.new_zeros(ranks, len(mine))
            rows[rank] = mine
            x = forward(rows.flatten()[: torch.Size(shape).numel()].view(shape), x)
    return x, inputs


@wrong("sharded_forward", "too-many-collectives", "12 times", "6 gathers", earned=5)
def gathers_each_unit_twice(dist, units, shards, x):
    inputs = []
    with torch.no_grad():
        for (forward, shape), mine in zip(units, shards, strict=True):
            inputs.append(x)
            unshard(dist, mine, shape)
            x = forward(unshard(dist, mine, shape), x)
    return x, inputs


@right("sharded_forward")
def forward_by_hand(dist, units, shards, x):
    """Without no_grad: nothing here asks for a gradient, and every name is deleted."""
    given = {}
    for place, (forward, shape) in enumerate(units):
        given[place] = x
        whole = torch.cat(pieces_of(dist, shards[place]))[: torch.Size(shape).numel()].view(shape)
        x = forward(whole, x)
        del whole
    return [x, tuple(given.values())]


# fully_sharded_step


@wrong("fully_sharded_step", "kept", "while unit 1 is gathered", "unit 0 is still alive", "del", earned=3)
def keeps_a_name_in_the_forward_loop(dist, units, shards, x, loss):
    output, inputs = keeps_a_name_until_the_next_gather(dist, units, shards, x)
    return by_hand(dist, units, shards, x, loss, names=False, went=(output, inputs))


@wrong("fully_sharded_step", "gathered-early", "plain data parallelism", "only when")
def gathers_everything_first(dist, units, shards, x, loss):
    wholes = [unshard(dist, mine, shape).requires_grad_() for (_, shape), mine in zip(units, shards, strict=True)]
    for (forward, _), whole in zip(units, wholes, strict=True):
        x = forward(whole, x)
    value = loss(x)
    value.backward()
    for whole in wholes:
        dist.all_reduce(whole.grad)
    return value.detach(), [my_part(dist, whole.grad) / dist.get_world_size() for whole in wholes]


@wrong("fully_sharded_step", "kept", "whole weight of unit 0", "unit 1", "no_grad")
def leaves_weights_to_autograd(dist, units, shards, x, loss):
    wholes = []
    for (forward, shape), mine in zip(units, shards, strict=True):
        wholes.append(unshard(dist, mine, shape).requires_grad_())
        x = forward(wholes[-1], x)
    value = loss(x)
    value.backward()
    return value.detach(), [mean_shard(dist, whole.grad) for whole in wholes]


class Gather(torch.autograd.Function):
    """unshard in forward, the mean gradient's shard in backward."""

    @staticmethod
    def forward(ctx, mine, dist, shape):
        ctx.dist = dist
        return unshard(dist, mine, shape)

    @staticmethod
    def backward(ctx, grad):
        return mean_shard(ctx.dist, grad), None, None


def by_autograd(dist, units, shards, x, loss, keep=None):
    leaves = [mine.detach().requires_grad_() for mine in shards]
    for (forward, shape), mine in zip(units, leaves, strict=True):

        def compute(mine, x, forward=forward, shape=shape):
            whole = Gather.apply(mine, dist, shape)
            if keep is not None:
                keep.append(whole.detach().view(-1)[:1])
            return forward(whole, x)

        x = checkpoint(compute, mine, x, use_reentrant=False)
    value = loss(x)
    value.backward()
    return value.detach(), [mine.grad for mine in leaves]


@wrong("fully_sharded_step", "kept", "view", "whole weight of unit 0")
def keeps_one_element_of_each(dist, units, shards, x, loss):
    return by_autograd(dist, units, shards, x, loss, keep=[])


@wrong("fully_sharded_step", "kept", "whole weight of unit 0")
def keeps_what_it_gathered(dist, units, shards, x, loss):
    kept = {}

    class Cached:
        def __getattr__(self, name):
            return getattr(dist, name)

        def all_gather(self, into, mine):
            if id(mine) not in kept:
                dist.all_gather(into, mine)
                kept[id(mine)] = into
            for target, source in zip(into, kept[id(mine)], strict=True):
                target.copy_(source)

    return solved_step(Cached(), units, shards, x, loss)


def by_hand(dist, units, shards, x, loss, names=True, graph=False, inputs_with_gradients=True, went=None):
    """The solution in other words; `names`: the weight and the output of a unit keep theirs into the next turn."""
    grads, held = [], []
    x, inputs = went or forward_by_hand(dist, units, shards, x)
    value = loss(x.requires_grad_())
    value.backward()
    grad = x.grad
    for place in reversed(range(len(units))):
        (forward, shape), x = units[place], inputs[place]
        if place and inputs_with_gradients:
            x = x.detach().requires_grad_()
        whole = unshard(dist, shards[place], shape).requires_grad_()
        out = forward(whole, x)
        out.backward(grad)
        grad = x.grad
        grads.append(mean_shard(dist, whole.grad))
        held = [out] if names else held
        del whole, out
    return value if graph else value.detach(), grads[::-1]


@wrong("fully_sharded_step", "kept", "unit 4 is gathered", "whole weight of unit 5", "output", "del")
def keeps_the_name_of_an_output(dist, units, shards, x, loss):
    return by_hand(dist, units, shards, x, loss)


@wrong("fully_sharded_step", "kept-after-step", "graph", "detach")
def returns_the_loss_with_its_graph(dist, units, shards, x, loss):
    return by_hand(dist, units, shards, x, loss, names=False, graph=True)


@wrong("fully_sharded_step", "raised", "implicitly created", "kept input had no requires_grad_()", "x.grad")
def asks_no_gradient_of_the_inputs(dist, units, shards, x, loss):
    return by_hand(dist, units, shards, x, loss, names=False, inputs_with_gradients=False)


class Scaled:
    """A dist whose sums are `ranks` times as large, so that the solution forgets its division."""

    def __init__(self, dist):
        self._dist = dist

    def __getattr__(self, name):
        return getattr(self._dist, name)

    def reduce_scatter(self, into, pieces):
        self._dist.reduce_scatter(into, pieces)
        into *= self._dist.get_world_size()


@wrong("fully_sharded_step", "sum", "divide by the number of ranks")
def sums_over_ranks(dist, units, shards, x, loss):
    return solved_step(Scaled(dist), units, shards, x, loss)


class Lonely(Scaled):
    def reduce_scatter(self, into, pieces):
        into.copy_(pieces[self._dist.get_rank()]).mul_(self._dist.get_world_size())


@wrong("fully_sharded_step", "alone", "its own gradient")
def reduces_no_gradient(dist, units, shards, x, loss):
    return solved_step(Lonely(dist), units, shards, x, loss)


class AllReducing(Scaled):
    def reduce_scatter(self, into, pieces):
        whole = torch.cat(pieces)
        self._dist.all_reduce(whole)
        into.copy_(whole.view(len(pieces), -1)[self._dist.get_rank()])


@wrong("fully_sharded_step", "all-reduce", "all_reduce", "reduce_scatter")
def all_reduces_gradients(dist, units, shards, x, loss):
    return solved_step(AllReducing(dist), units, shards, x, loss)


class PieceByPiece(Scaled):
    """A dist whose reduce_scatter is one reduce for each rank."""

    def reduce_scatter(self, into, pieces):
        for rank, piece in enumerate(pieces):
            self._dist.reduce(piece, rank)
        into.copy_(pieces[self._dist.get_rank()])


@wrong("fully_sharded_step", "too-many-collectives", "calls reduce 24 times", "reduce_scatter")
def reduces_each_piece_to_its_rank(dist, units, shards, x, loss):
    return solved_step(PieceByPiece(dist), units, shards, x, loss)


@wrong("fully_sharded_step", "too-many-collectives", "twice")
def gathers_three_times(dist, units, shards, x, loss):
    for (_, shape), mine in zip(units, shards, strict=True):
        unshard(dist, mine, shape)
    return solved_step(dist, units, shards, x, loss)


class Leaky(Scaled):
    def reduce_scatter(self, into, pieces):
        self._dist.reduce_scatter(into, pieces)
        if pieces[-1][-1] == 0 and self._dist.get_rank() == len(pieces) - 1:
            into[-1] = 1.0


@wrong("fully_sharded_step", "padding", "zeros")
def leaves_something_in_the_padding(dist, units, shards, x, loss):
    return solved_step(Leaky(dist), units, shards, x, loss)


@wrong("fully_sharded_step", "view", "storage")
def returns_views(dist, units, shards, x, loss):
    value, grads = solved_step(dist, units, shards, x, loss)
    ranks = dist.get_world_size()
    return value, [grad.repeat(ranks)[: len(grad)] for grad in grads]


@wrong("fully_sharded_step", "form", "loss", "gradient")
def returns_the_loss_only(dist, units, shards, x, loss):
    return solved_step(dist, units, shards, x, loss)[0]


@wrong("fully_sharded_step", "raised", "floating point")
def differentiates_tokens(dist, units, shards, x, loss):
    x.requires_grad_()
    return solved_step(dist, units, shards, x, loss)


@wrong("fully_sharded_step", "order", "in the order of units")
def returns_gradients_backwards(dist, units, shards, x, loss):
    value, grads = solved_step(dist, units, shards, x, loss)
    return value, grads[::-1]


@wrong("fully_sharded_step", "steps", "shards of weights themselves", "return gradients")
def steps_the_shards_itself(dist, units, shards, x, loss):
    value, grads = solved_step(dist, units, shards, x, loss)
    for mine, grad in zip(shards, grads, strict=True):
        mine -= 1e-6 * grad
    return value, grads


@wrong("fully_sharded_step", "value", "unit 3", "from element 7 on")
def is_a_little_off_in_one_gradient(dist, units, shards, x, loss):
    value, grads = solved_step(dist, units, shards, x, loss)
    if dist.get_rank() == 0:
        grads[3][7] += 1e-5
    return value, grads


@wrong("fully_sharded_step", "kept", "while unit 4 is gathered", "unit 5 is still alive", "del", earned=3)
def deletes_no_whole_weight(dist, units, shards, x, loss):
    grads, (output, inputs) = [], forward_by_hand(dist, units, shards, x)
    value = loss(output.requires_grad_())
    value.backward()
    grad = output.grad
    for (forward, shape), mine, given in reversed(list(zip(units, shards, inputs, strict=True))):
        given = given.detach().requires_grad_() if given.is_floating_point() else given
        whole = unshard(dist, mine, shape).requires_grad_()
        forward(whole, given).backward(grad)
        grads.insert(0, mean_shard(dist, whole.grad))
        grad = given.grad
    return value.detach(), grads


@right("fully_sharded_step")
def goes_back_by_calling_itself(dist, units, shards, x, loss):
    """A function that calls itself refers to itself, so what it has is freed only when Python looks for cycles."""
    grads, (output, inputs) = [None] * len(units), forward_by_hand(dist, units, shards, x)
    value = loss(output.requires_grad_())
    value.backward()

    def back(place, grad):
        if place < 0:
            return
        (forward, shape), given = units[place], inputs[place]
        given = given.detach().requires_grad_() if given.is_floating_point() else given
        whole = unshard(dist, shards[place], shape).requires_grad_()
        forward(whole, given).backward(grad)
        grads[place] = mean_shard(dist, whole.grad)
        del whole
        back(place - 1, given.grad)

    back(len(units) - 1, output.grad)
    return value.detach(), grads


@right("fully_sharded_step")
def gathers_by_autograd(dist, units, shards, x, loss):
    return by_autograd(dist, units, shards, x, loss)


@right("fully_sharded_step")
def empties_and_fills_storages(dist, units, shards, x, loss):
    """As FSDP does it: autograd keeps the weight, whose storage is emptied in between; the last unit keeps its own."""
    wholes = []
    for (forward, shape), mine in zip(units, shards, strict=True):
        if wholes:
            wholes[-1].untyped_storage().resize_(0)
        wholes.append(unshard(dist, mine, shape).clone().requires_grad_())
        x = forward(wholes[-1], x)
        if len(wholes) < len(units):
            last = len(wholes) - 1
            x.register_hook(lambda _, place=last: refill(dist, units, shards, wholes, place))
    grads = [None] * len(units)

    def keep(place):
        def hook(whole):
            grads[place] = mean_shard(dist, whole.grad)
            whole.grad = None
            whole.data.untyped_storage().resize_(0)

        return hook

    for place, whole in enumerate(wholes):
        whole.register_post_accumulate_grad_hook(keep(place))
    value = loss(x)
    value.backward()
    return value.detach(), grads


def refill(dist, units, shards, wholes, place):
    whole = wholes[place]
    fresh = unshard(dist, shards[place], units[place][1])
    whole.untyped_storage().resize_(whole.numel() * whole.element_size())
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(whole):
        whole.copy_(fresh)


# communication_bytes


@wrong("communication_bytes", "factor", "(P-1)/P")
def forgets_the_factor(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (3 if stage == 3 else 2) * parameters * element_bytes


@wrong("communication_bytes", "stage-2", "reduce-scatter", "all-gather")
def thinks_stage_2_costs_more(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (2, 2, 3, 3)[stage] * (ranks - 1) / ranks * parameters * element_bytes


@wrong("communication_bytes", "stage-3", "twice")
def takes_stage_3_for_an_all_reduce(stage, parameters, ranks, element_bytes=2, nodes=1):
    return 2 * (ranks - 1) / ranks * parameters * element_bytes


@wrong("communication_bytes", "elements", "element_bytes")
def counts_elements(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (3 if stage == 3 else 2) * (ranks - 1) / ranks * parameters


@wrong("communication_bytes", "once", "once around the ring", "twice", earned=0)
def counts_an_all_reduce_as_one_tensor(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (1, 2, 2, 3)[stage] * (ranks - 1) / ranks * parameters * element_bytes


@wrong("communication_bytes", "fixed-bytes", "element_bytes", "8")
def counts_two_bytes_whatever_it_is_told(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (3 if stage == 3 else 2) * (ranks - 1) / ranks * parameters * 2


@wrong("communication_bytes", "all-ranks", "one rank")
def counts_all_ranks(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (3 if stage == 3 else 2) * (ranks - 1) * parameters * element_bytes


@wrong("communication_bytes", "not-hybrid", "inside a node")
def knows_no_nodes(stage, parameters, ranks, element_bytes=2, nodes=1):
    return (3 if stage == 3 else 2) * (ranks - 1) / ranks * parameters * element_bytes


@wrong("communication_bytes", "whole-across", "shard")
def reduces_whole_gradients_across_nodes(stage, parameters, ranks, element_bytes=2, nodes=1):
    inside = ranks // nodes
    across = 2 * (nodes - 1) / nodes * parameters * element_bytes
    return (3 if stage == 3 else 2) * (inside - 1) / inside * parameters * element_bytes + across


@wrong("communication_bytes", "nothing-across", "between nodes")
def lets_nodes_drift_apart(stage, parameters, ranks, element_bytes=2, nodes=1):
    inside = ranks // nodes
    return (3 if stage == 3 else 2) * (inside - 1) / inside * parameters * element_bytes


@wrong("communication_bytes", "inside-only", "at stage 0", "2 nodes of 8 ranks", "only stage 3 is hybrid", earned=2)
def stays_inside_a_node_at_every_stage(stage, parameters, ranks, element_bytes=2, nodes=1):
    inside = ranks // nodes
    across = 2 * (nodes - 1) / nodes / inside if stage == 3 else 0
    return ((3 if stage == 3 else 2) * (inside - 1) / inside + across) * parameters * element_bytes


@wrong("communication_bytes", "form", "it returned None", earned=0)
def returns_nothing_of_it(stage, parameters, ranks, element_bytes=2, nodes=1):
    pass


@right("communication_bytes")
def in_numbers_of_numpy(stage, parameters, ranks, element_bytes=2, nodes=1):
    return np.int64(round(asks_the_library(stage, parameters, ranks, element_bytes, nodes)))


@right("communication_bytes")
def asks_the_library(stage, parameters, ranks, element_bytes=2, nodes=1):
    size, inside = parameters * element_bytes, ranks // nodes
    once = collective_bytes("all_gather", inside, size)[0]
    return once * (3 if stage == 3 else 2) + collective_bytes("all_reduce", nodes, size / inside)[0]


# clip_by_global_norm


@wrong("clip_by_global_norm", "local-norm", "its own shards")
def clips_by_its_own_norm(dist, grads, max_norm):
    return _clip(grads, _norm(grads), max_norm)


def _norm(grads):
    return sum(grad.square().sum() for grad in grads).sqrt().item()


def _clip(grads, norm, max_norm):
    if norm > max_norm:
        for grad in grads:
            grad *= max_norm / norm
    return norm


@wrong("clip_by_global_norm", "sum-of-norms", "squares")
def adds_norms(dist, grads, max_norm):
    total = torch.tensor([_norm(grads)], dtype=torch.float64)
    dist.all_reduce(total)
    return _clip(grads, total.item(), max_norm)


@wrong("clip_by_global_norm", "no-root", "square root")
def forgets_the_root(dist, grads, max_norm):
    total = torch.tensor([_norm(grads) ** 2], dtype=torch.float64)
    dist.all_reduce(total)
    return _clip(grads, total.item(), max_norm)


@wrong("clip_by_global_norm", "scales-up", "below")
def always_scales(dist, grads, max_norm):
    total = torch.tensor([_norm(grads) ** 2], dtype=torch.float64)
    dist.all_reduce(total)
    norm = total.sqrt().item()
    for grad in grads:
        grad *= max_norm / norm
    return norm


@wrong("clip_by_global_norm", "not-in-place", "in place")
def scales_copies(dist, grads, max_norm):
    return asks_once([grad.clone() for grad in grads], max_norm, dist)


def asks_once(grads, max_norm, dist):
    total = torch.tensor([_norm(grads) ** 2], dtype=torch.float64)
    dist.all_reduce(total)
    return _clip(grads, total.sqrt().item(), max_norm)


@wrong("clip_by_global_norm", "per-tensor", "each tensor")
def clips_each_tensor(dist, grads, max_norm):
    norms = [asks_once([grad], max_norm, dist) for grad in grads]
    return sum(norm**2 for norm in norms) ** 0.5


@wrong("clip_by_global_norm", "too-many-collectives", "one all_reduce")
def asks_for_each_tensor(dist, grads, max_norm):
    total = 0.0
    for grad in grads:
        part = torch.tensor([_norm([grad]) ** 2], dtype=torch.float64)
        dist.all_reduce(part)
        total += part.item()
    return _clip(grads, total**0.5, max_norm)


@wrong("clip_by_global_norm", "not-in-place", "in place", "do not put new ones into the list")
def puts_new_tensors_into_the_list(dist, grads, max_norm):
    norm = asks_once([grad.clone() for grad in grads], math.inf, dist)
    for place, grad in enumerate(grads):
        grads[place] = grad * min(1.0, max_norm / norm)
    return norm


@wrong("clip_by_global_norm", "own-factor", "rank 3 scaled", "rank 0", "global norm")
def returns_the_global_norm_and_scales_by_its_own(dist, grads, max_norm):
    own, norm = _norm(grads), asks_once([grad.clone() for grad in grads], math.inf, dist)
    _clip(grads, own, max_norm)
    return norm


@wrong("clip_by_global_norm", "per-element", "each element by itself", "same factor")
def clamps_each_element(dist, grads, max_norm):
    norm = asks_once([grad.clone() for grad in grads], math.inf, dist)
    for grad in grads:
        grad.clamp_(-max_norm / 10, max_norm / 10)
    return norm


@wrong("clip_by_global_norm", "too-many-bytes", "all_reduce of one number", "no shard has to travel", earned=3)
def gathers_all_shards(dist, grads, max_norm):
    flat = torch.cat([grad.flatten() for grad in grads])
    every = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(every, flat)
    return _clip(grads, torch.cat(every).norm().item(), max_norm)


@right("clip_by_global_norm")
def gathers_one_number_from_each(dist, grads, max_norm):
    mine = torch.tensor([_norm(grads) ** 2], dtype=torch.float64)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return _clip(grads, torch.cat(every).sum().sqrt().item(), max_norm)


@right("clip_by_global_norm")
def as_torch_does(dist, grads, max_norm):
    squares = torch.stack([grad.norm() ** 2 for grad in grads]).sum()
    dist.all_reduce(squares)
    norm = squares.sqrt()
    for grad in grads:
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


# fix_this_script


def _script(
    dist, model, data, epochs, batch, *, units=True, low=True, early=False, scaler=False, shards=False, seed=0,
    anew=True, reduce=torch.float32, clear=True, shuffle=True, late=False, low_loss=False,
):  # fmt: skip
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.manual_seed(0)
    how = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),))}
    if low:
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for block in list(model.blocks)[0 if units is True else 1 :] if units else ():
        fully_shard(block, **how)
    fully_shard(model, **how)
    if not early:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = torch.amp.GradScaler("cpu", enabled=scaler)
    seed = dist.get_rank() if seed is None else seed
    sampler = torch.utils.data.DistributedSampler(data, dist.get_world_size(), dist.get_rank(), shuffle, seed)
    for epoch in range(epochs):
        if anew and not late:
            sampler.set_epoch(epoch)
        for x, y in torch.utils.data.DataLoader(data, batch, sampler=sampler):
            if clear:
                optimizer.zero_grad()
                model.zero_grad()
            pair = (model(x), y.bfloat16()) if low_loss else (model(x).float(), y)
            scale.scale(torch.nn.functional.mse_loss(*pair)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scale.step(optimizer)
            scale.update()
        if late:
            sampler.set_epoch(epoch)
    if shards:
        return model.state_dict() if dist.get_rank() == 0 else {}
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


@wrong("fix_this_script", "root-only", "gathers the whole model as one unit")
def wraps_only_the_root(*data):
    return _script(*data, units=False)


@wrong("fix_this_script", "root-only", "was not called")
def does_not_shard(dist, model, data, epochs, batch):
    for rows in range(0, len(data), batch):
        x, y = (torch.stack(part) for part in zip(*data[rows : rows + batch], strict=True))
        torch.nn.functional.mse_loss(model(x), y).backward()
    return model.state_dict()


@wrong("fix_this_script", "not-bf16", "MixedPrecisionPolicy")
def computes_in_fp32(*data):
    return _script(*data, low=False)


@wrong("fix_this_script", "optimizer-first", "Build it after sharding")
def builds_the_optimizer_first(*data):
    return _script(*data, early=True)


@wrong("fix_this_script", "scaler", "needs no scaler", "65,536")
def scales_the_loss(*data):
    return _script(*data, scaler=True)


@wrong("fix_this_script", "rank-0-shard", "of 832 numbers", "rank 0's shard only")
def saves_rank_0s_shard(*data):
    return _script(*data, shards=True)


@wrong("fix_this_script", "sampler-seed", "were seen by no rank")
def seeds_each_sampler_with_its_rank(*data):
    return _script(*data, seed=None)


@wrong("fix_this_script", "same-order", "set_epoch")
def never_shuffles_again(*data):
    return _script(*data, anew=False)


@wrong("fix_this_script", "same-order", "epochs 0 and 1", "before the batches", earned=4)
def sets_the_epoch_too_late(*data):
    return _script(*data, late=True)


@wrong("fix_this_script", "not-shuffled", "in the order of the data", "shuffle=False", earned=4)
def never_shuffles(*data):
    return _script(*data, shuffle=False)


@wrong("fix_this_script", "low-loss", "a loss in bf16", "model(x).float()", earned=2)
def takes_the_loss_in_bf16(*data):
    return _script(*data, low_loss=True)


@wrong("fix_this_script", "not-cleared", "add up from step to step", "zero_grad", earned=2)
def never_clears_gradients(*data):
    return _script(*data, clear=False)


@wrong("fix_this_script", "reduce-dtype", "reduced in bfloat16", "reduce_dtype=torch.float32", earned=0)
def reduces_in_bf16(*data):
    return _script(*data, reduce=torch.bfloat16)


@wrong("fix_this_script", "reduce-dtype", "reduced in bfloat16", earned=0)
def reduces_in_what_it_computes_in(*data):
    return _script(*data, reduce=None)


@wrong("fix_this_script", "batch", "took 4 rows at a time", "`batch` is 2", earned=4)
def takes_twice_the_batch(dist, model, data, epochs, batch):
    return _script(dist, model, data, epochs, 2 * batch)


@wrong("fix_this_script", "not-each-block", "block [0]", "for each of them", earned=0)
def forgets_the_first_block(*data):
    return _script(*data, units="but the first")


@right("fix_this_script")
def gathers_by_hand(dist, model, data, epochs, batch):
    """Rows dealt out by hand, in another order; the weights gathered tensor by tensor."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh, low = init_device_mesh("cpu", (ranks,)), MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh, mp_policy=low)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).view(-1, ranks)[:, rank]
        for rows in order.split(batch):
            x, y = (torch.stack([data[row][place] for row in rows.tolist()]) for place in range(2))
            torch.nn.functional.mse_loss(model(x).float(), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return {name: parameter.full_tensor() for name, parameter in model.named_parameters()}
