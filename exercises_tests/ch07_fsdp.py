"""Checks of chapter 7: weights of one device from parts, the bytes alive at named moments, and few collectives."""

from __future__ import annotations

import functools
import gc
import math
import os
from importlib import import_module
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, Results, bytes_held, each, work
from course_lib.lessons.stage_3 import (
    EPSILON,
    UNITS,
    Mark,
    copy_of,
    forwarded,
    fully,
    in_rows,
    looking_on,
    named,
    rejoined,
    shard_size,
    six_units,
)
from course_lib.lessons.torch_wrappers import bytes_whole
from course_lib.training import adamw
from exercises_tests.judging import Case, Hint, Mistake, alone, check
from exercises_tests.seeds import drawn
from exercises_tests.values import (
    all_digits,
    amount,
    close,
    count,
    draw,
    equal,
    integers,
    is_number,
    near,
    numbers,
    plain,
    ring_bytes,
    rounded,
    shown,
)

PRELOAD = (  # what answers want: once, not in every rank
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
)
SLOW = Cluster(latency=0.1, bandwidth=math.inf)
RUNS = ((2, False), (3, False), (4, False), (2, True))  # ranks, and whether they are real
STEPS = 10
BYTES = 8  # of a float64
EXACT = 1e-9  # sums of a few dozen float64 of about 1 in another order differ by less
SLACK = 1.02  # for a few numbers beside the tensors
MEANS = (  # where torch's words send a reader to the wrong line
    Hint("grad can be implicitly created only for scalar outputs",
        "backward of a unit needs the gradient of its output: the x.grad of the unit after it, which is None if that "
        "one's kept input had no requires_grad_()", "raised"),
    Hint("does not require grad and does not have a grad_fn",
        "what was computed under torch.no_grad() has no graph: requires_grad_() the last output before the loss, and "
        "the weight and kept input before a unit computes again", "raised"),
    Hint("a leaf Variable that requires grad",
        "a parameter is a leaf, which autograd watches: write into parameter.data", "leaf"),
    Hint("must match the size of tensor",
        "two tensors of different sizes meet here: one of them may still have its padding. Keep the first "
        "parameter.numel() elements", "raised"),
)
SIZES = Hint("is invalid for input of size",
    "view needs exactly as many elements as the shape has: keep the first torch.Size(shape).numel() of what was "
    "gathered, which drops the padding, and nothing else", "raised")


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def _plain(thing: Any) -> Any:
    return thing.detach() if isinstance(thing, torch.Tensor) else None


def cut(answer: Any, tensor: torch.Tensor, ranks: int) -> list:
    pieces = [answer(tensor, rank, ranks) for rank in range(ranks)]
    return [[_plain(piece), bytes_held(piece)] for piece in pieces]


def gathered(dist: Any, answer: Any, mine: torch.Tensor, shape: tuple) -> Any:
    return _plain(answer(dist, mine, shape))


def stepped(
    dist: Any, answer: Any, weights: list, grads: list, changes: list, steps: int, watch: bool
) -> dict[str, Any]:
    parameters = [nn.Parameter(weight.clone()) for weight in weights]
    states: list = [{} for _ in parameters]
    (alive, looking, dist), moments = looking_on(dist, watch), []

    def step(weight: torch.Tensor, grad: torch.Tensor, state: dict, **more: Any) -> None:
        adamw(weight, grad, state, epsilon=EPSILON, **more)
        if watch:
            moments.append([alive.bytes(parameters, states), weight.numel()])

    for number in range(steps):
        for parameter, grad, change in zip(parameters, grads, changes, strict=True):
            parameter.grad = grad + number * change
        with looking:
            answer(dist, list(parameters), states, step)
    return {
        "weights": [parameter.detach() for parameter in parameters],
        "states": bytes_held(states),
        "held": alive.bytes(parameters, states),
        "moments": moments,
    }


class Chain(nn.Module):
    """Linear layers; `note` is called before each but the first one's input gets its gradient."""

    def __init__(self, weights: list, note: Any) -> None:
        super().__init__()
        self.layers, self.note = nn.ModuleList(), note
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
            layer.weight.data, layer.bias.data = weight.clone(), bias.clone()
            self.layers.append(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place, layer in enumerate(self.layers):
            x = layer(Mark.apply(x, functools.partial(self.note, place)) if place else x)
        return x


def scattered(
    dist: Any, answer: Any, weights: list, x: torch.Tensor, y: torch.Tensor, steps: int, seconds: float, watch: bool
) -> dict[str, Any]:
    (alive, looking, dist), moments, found = looking_on(dist, watch), [], []

    def note(place: int) -> None:
        if watch:
            moments.append([place, alive.bytes(parameters)])
        work(seconds)

    model = Chain(weights, note)
    parameters = list(model.parameters())
    finish = answer(dist, model)
    if not callable(finish):
        return {"form": f"{finish!r}"[:100]}
    for number in range(steps):
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.data = weight * (1 + number / 4)
        model.zero_grad()
        moments.clear()
        if watch:
            gc.collect()  # what a cycle of references keeps is not kept on purpose
        with looking:
            nn.functional.mse_loss(model(x), y).backward()
            mine = finish()
        if not isinstance(mine, (list, tuple)):
            return {"form": f"a function that returns {type(mine).__name__}"}
        found.append([copy_of(grad) for grad in mine])
        whole = bytes_held([p.grad for p in parameters if p.grad is not None])
        held = {"whole": whole, "shards": bytes_held(list(mine)), "moments": list(moments)}
        held["all"] = alive.bytes(parameters, list(mine))
        del mine
    return {"grads": found, **held}


def clipped(dist: Any, answer: Any, grads: list, max_norm: float) -> list:
    norm = answer(dist, list(grads), max_norm)
    norm = norm.item() if isinstance(norm, torch.Tensor) and norm.numel() == 1 else norm
    return [norm if isinstance(norm, (int, float)) else repr(norm)[:100], grads]


# What several checks of this chapter ask


def _pieces(tensor: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """Return the flat pieces that the ranks hold, the last ones padded with zeros."""
    flat = torch.zeros(ranks * shard_size(tensor.shape, ranks), dtype=tensor.dtype)
    flat[: tensor.numel()] = tensor.flatten()
    return list(flat.view(ranks, -1))


def _bytes_of(shapes: list, ranks: int) -> tuple[int, int, int]:
    """Return the bytes of all tensors of these shapes, of a rank's shards of them, and of the largest."""
    sizes = [BYTES * math.prod(shape) for shape in shapes]
    return sum(sizes), BYTES * sum(shard_size(shape, ranks) for shape in shapes), max(sizes)


def _patched(tensors: list) -> torch.Tensor:
    """Return the tensor of which each rank's part is that of its own tensor in the list."""
    pieces = [_pieces(tensor, len(tensors))[rank] for rank, tensor in enumerate(tensors)]
    return rejoined(pieces, tensors[0].shape)


def _adamw_of(weights: list, steps: int, gradient: Any, fresh: bool = False) -> list:
    """Return the weights after AdamW's steps on one device; `gradient(step, weights)` returns one for each."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    options = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1, "eps": EPSILON}
    optimizer = torch.optim.AdamW(leaves, **options)
    for step in range(steps):
        optimizer = torch.optim.AdamW(leaves, **options) if fresh else optimizer
        for leaf, grad in zip(leaves, gradient(step, leaves), strict=True):
            leaf.grad = grad
        optimizer.step()
    return [leaf.detach() for leaf in leaves]


def _expect_gradients(case: Case, got: list, own: list, names: list, order: str) -> None:
    """Judge gradient shards, `got[rank][place]`, against each rank's whole gradients, `own[rank][place]`."""
    ranks, shapes = len(own), [tuple(grad.shape) for grad in own[0]]
    sizes = [[shard_size(shape, ranks)] for shape in shapes]
    for rank, grads in enumerate(got):
        case.expect(len(grads) == len(shapes) and all(isinstance(grad, torch.Tensor) for grad in grads),
            f"rank {rank} returned {len(grads)} gradients; there are {len(shapes)}, each a tensor, one for each of "
            f"{order}", "form")
        whole = [grad.numel() for grad in grads] == list(map(math.prod, shapes))
        case.expect(ranks == 1 or not whole,
            f"the gradient of {names[0]} that rank {rank} returned has all of its {grads[0].numel():,} elements: that "
            f"is plain data parallelism. Its shard has {sizes[0][0]:,}", "not-sharded")
        shaped = [list(grad.shape) for grad in grads]
        said = f"the gradients on rank {rank} have shapes {shaped[:3]} and so on; the shards have {sizes[:3]}"
        right = shaped == sizes
        case.expect(right or sorted(shaped) != sorted(sizes), f"{said}: return them in the order of {order}", "order")
        case.expect(right, said, "shape")
    for place, shape in enumerate(shapes):
        rows, whole = [grads[place] for grads in got], [grads[place] for grads in own]
        want, parts = sum(whole) / ranks, _patched(whole)
        says = "is on each rank a part of its own gradient; it needs the mean over ranks"
        case.same(rejoined(rows, shape), want, f"the gradient of {names[place]}, its shards joined,",
            Mistake("sum", want * ranks, f"is the sum over ranks: divide by the number of ranks, {ranks}"),
            *(Mistake("alone", own_part, says) for own_part in (parts, parts / ranks)), says="the mean over ranks is",
            tolerance=EXACT)
        padding = torch.cat(rows)[math.prod(shape) :]
        case.expect(near(padding, torch.zeros_like(padding), 1e-12),
            f"the padding of the gradient of {names[place]} holds {numbers(padding)}; it must stay zeros, or clipping "
            "by the norm would count it", "padding")


def _expect_few(case: Case, collectives: list, steps: int, most: int, of: str) -> None:
    """Judge that so many gradients took no more collectives; `collectives` are those of each rank in these steps."""
    called = max(collectives, key=len)
    case.at_most(len(called) / steps, most,
        f"calls {' and '.join(sorted(set(called)))} {{seen}} times; {{bound}} {of} need at most {{bound}} "
        "reduce-scatters: one dist.reduce_scatter hands every rank its piece", "too-many-collectives")


# shard


def _judge_shards(answer: Any, shape: tuple, ranks: int, dtype: str = "float64", digits: bool = False) -> list[int]:
    """Return the bytes that each shard keeps alive."""
    tensor = integers(1, shape, dtype)[0].abs() + 1  # no zero that could be taken for padding
    tensor = all_digits(1, shape, dtype)[0] if digits else tensor
    flat, elements, size = tensor.flatten(), tensor.numel(), shard_size(shape, ranks)
    see = "[shard(torch.arange(13.0), rank, 4) for rank in range(4)]"
    case = Case(label=f"with shape {shape} on {count(ranks, 'rank')}", see=see)
    pieces, held = zip(*alone(cut, answer, tensor.clone(), ranks), strict=True)
    for rank, piece in enumerate(pieces):
        case.expect(isinstance(piece, torch.Tensor), f"rank {rank} has no tensor", "form")
        case.expect(piece.dtype == tensor.dtype,
            f"the shard of a {dtype} tensor is {str(piece.dtype)[6:]}: keep the dtype, the padding's too", "form",
            see=f"shard(torch.arange(13.0, dtype=torch.{dtype}), 3, 4)")
        case.expect(piece.dim() == 1,
            f"rank {rank}'s shard has shape {tuple(piece.shape)}: it should have one dimension. Flatten first, so that "
            "any shape can be cut", "not-flat")
    lengths = [len(piece) for piece in pieces]
    case.expect(len(set(lengths)) == 1,
        f"the shards have {', '.join(map(str, lengths))} elements; collectives need equal pieces: pad the last ones to "
        f"{size}", "uneven")
    case.expect(sum(lengths) >= elements,
        f"the {ranks} shards have {lengths[0]} elements each, {sum(lengths)} in all, and {elements} are there: the "
        "size of a shard is rounded up", "lost")
    case.at_most(lengths[0], size, "a shard has {seen} elements; {bound} are enough", "too-long")
    joined = torch.cat(pieces)
    case.expect(not (digits and rounded(joined[:elements], flat)),
        f"the numbers of a {dtype} tensor have lost digits: they went through a dtype of fewer", "digits", see="")
    case.expect(near(joined[:elements], flat, 0),
        f"the shards are {numbers(joined)} one after the other; the tensor is {numbers(flat)}: rank 0 has the first "
        "elements, neighbours stay together, and zeros come at the end", "order")
    padding = joined[elements:]
    zeros = near(padding, torch.zeros_like(padding), 0)
    case.expect(zeros, f"the padding holds {numbers(padding)}; fill it with zeros", "padding")
    return list(held)


@check(value=1, padding=1, owned=1)
def check_shard(answer: Any, part: Any) -> str:
    cases = [((6,), 3), ((4, 6), 4), ((2, 3, 2), 1), ((13,), 4), ((7, 3), 4), ((3,), 4), ((), 2)]
    part("value")
    for shape, ranks in cases[:3]:
        _judge_shards(answer, shape, ranks)
    part("padding")
    found = [_judge_shards(answer, shape, ranks) for shape, ranks in cases[3:]]
    _judge_shards(answer, (13,), 4, "bfloat16")
    for dtype in ("float32", "float64"):
        _judge_shards(answer, (13,), 4, dtype, digits=True)
    part("owned")
    for (shape, ranks), held in zip(cases[3:], found, strict=True):
        for rank, kept in enumerate(held):
            Case(label=f"with shape {shape} on {ranks} ranks").at_most(kept, BYTES * shard_size(shape, ranks),
                f"rank {rank}'s shard has {{bound}} bytes and keeps {{seen}} alive: a view keeps the whole storage it "
                "looks into. Return a copy", "view", see="shard(torch.arange(13.0), 0, 4).untyped_storage().nbytes()")
    return "equal parts of any shape on 1 to 4 ranks · zeros at the end · nothing else kept alive"


# unshard


def _judge_whole(
    answer: Any, shape: tuple, ranks: int, real: bool = False, dtype: str = "float64", padding: float = 0.0,
    digits: bool = False,
) -> Results:  # fmt: skip
    grid = in_rows(shape, ranks, padding=padding, dtype=dtype)
    grid = all_digits(1, tuple(grid.shape), dtype)[0] if digits else grid
    if math.prod(shape) and not padding:
        grid.view(-1)[math.prod(shape) - 1] = 0  # a zero that is no padding
    want = rejoined(grid, shape)
    case = Case(ranks, f"with shape {shape}" + (f" and padding of {padding:g}" if padding else ""), real)
    got = case.run(gathered, answer, each(list(grid.clone())), shape, hints=[SIZES])
    for rank, mine in enumerate(got):
        case.expect(isinstance(mine, torch.Tensor), f"rank {rank} got no tensor", "form")
        front = grid.view(-1)[grid.numel() - want.numel() :].view(shape)
        case.same(mine, want, f"the result on rank {rank}",
            Mistake("only-on-rank-0", equal(got[0], want),
                "is not the whole tensor that rank 0 has: every rank needs it"),
            Mistake("shape", mine.shape != want.shape, f"has shape {tuple(mine.shape)}; it should be {shape}"),
            Mistake("one-tensor", ranks > 1 and rank < ranks - 1
                and equal(mine, grid[-1].repeat(ranks)[: want.numel()].view(shape)),
                f"is rank {ranks - 1}'s shard {ranks} times over: your list is {ranks} names of one tensor, and the "
                "last shard that came is left in it. Make as many tensors as there are ranks"),
            Mistake("own-part-only", grid[rank].repeat(ranks)[: want.numel()].view(shape),
                "is its own shard over and over: the others' come by a collective"),
            Mistake("padding", front, f"is {numbers(mine)}: elements were dropped in front. The padding is at the end"))
    return got


@check(value=2, padding=1, bytes=1)
def check_unshard(answer: Any, part: Any) -> str:
    part("value")
    _judge_whole(answer, (2, 6), 4)
    _judge_whole(answer, (3, 2), 1)
    _judge_whole(answer, (4,), 2, real=True, dtype="float32")
    for dtype in ("float32", "float64"):
        _judge_whole(answer, (2, 6), 2, dtype=dtype, digits=True)
    part("padding")
    _judge_whole(answer, (4,), 3)
    _judge_whole(answer, (5, 3), 4, padding=7.0)
    _judge_whole(answer, (), 2)
    _judge_whole(answer, (3, 3), 2, real=True, padding=7.0)
    part("bytes")
    trace = _judge_whole(answer, (50, 7), 4)
    Case(4, f"with shards of {BYTES * shard_size((50, 7), 4)} bytes").at_most(max(trace.bytes_sent),
        ring_bytes(4, 50 * 7, 1, BYTES), "a rank sent {seen} bytes; a ring sends {bound}: call dist.all_gather once",
        "too-many-bytes")
    calls = trace.collectives[0]
    Case(4).at_most(len(calls), 1,
        f"it calls {' and '.join(sorted(set(calls)))} {{seen}} times: one dist.all_gather brings the shards of all "
        "ranks at once", "too-many-collectives")
    return "the whole tensor on every rank, without the padding · (P-1)·shard bytes sent"


# sharded_adamw_step


SHAPES = [(37, 29), (29,), (29, 31), (31,), (23, 37), (12, 5)]  # only the last is divided by 2, 3 and 4


def _stage_1(ranks: int) -> tuple[list, list, list]:
    weights = [draw(shape, seed) for seed, shape in enumerate(SHAPES)]
    drawn = [integers(2 * ranks, shape, "float64") for shape in SHAPES]
    grads = [[tensors[rank] / 8 for tensors in drawn] for rank in range(ranks)]
    changes = [[tensors[ranks + rank] / 16 for tensors in drawn] for rank in range(ranks)]
    return weights, grads, changes


def _stage_1_by(members: list, scale: float, ranks: int, fresh: bool = False) -> list:
    """Return the weights after AdamW's steps with the gradients of some of the ranks, added up and scaled."""
    weights, grads, changes = _stage_1(ranks)

    def gradient(step: int, _: list) -> list:
        return [
            sum(grads[r][place] + step * changes[r][place] for r in members) * scale for place in range(len(SHAPES))
        ]

    return _adamw_of(weights, STEPS, gradient, fresh)


def _judge_stage_1(answer: Any, ranks: int, real: bool) -> Results:
    weights, grads, changes = _stage_1(ranks)
    everyone = list(range(ranks))
    want, summed = _stage_1_by(everyone, 1 / ranks, ranks), _stage_1_by(everyone, 1.0, ranks)
    forgot = _stage_1_by(everyone, 1 / ranks, ranks, fresh=True)
    own = [_stage_1_by([rank], 1.0, ranks) for rank in everyone]
    case = Case(ranks, real=real)
    got = case.run(stepped, answer, weights, each(grads), each(changes), STEPS, False, hints=MEANS)
    for rank, told in enumerate(got):
        mine = told["weights"]
        for place, shape in enumerate(SHAPES):
            patched = _patched([steps[place] for steps in own])
            here = [want[place] if one == rank else weights[place] for one in everyone]
            case.also(f"after {STEPS} steps").same(mine[place], want[place], f"parameter {place} on rank {rank}",
                Mistake("unchanged", weights[place], "has not changed: change parameter.data in place"),
                Mistake("sum", summed[place], "is that of summed gradients: divide by the number of ranks"),
                Mistake("forgets-moments", forgot[place],
                    "is that of an AdamW that begins anew in every step: its moments live in `states`"),
                Mistake("alone", own[rank][place], "is that of training alone: the rank stepped with its own gradient"),
                Mistake("alone", patched,
                    "was stepped in parts, each with its own gradient on the rank that holds it: it needs the mean "
                    "over ranks, by a reduce-scatter"),
                Mistake("not-gathered", _patched(here),
                    "has this rank's part stepped, and the parts of other ranks are as they were: gather them"),
                Mistake("padding", near(mine[-1], want[-1], EXACT),
                    f"is wrong, and the one of shape {SHAPES[-1]} is right: {ranks} ranks do not divide the elements "
                    f"of shape {shape}, and padding got into it. Drop what stands after the last element"),
                says="on one device it is", tolerance=EXACT)
    return got


@check(value=2, memory=2, bytes=2)
def check_sharded_adamw_step(answer: Any, part: Any) -> str:
    part("value")
    traces = {where: _judge_stage_1(answer, *where) for where in RUNS}
    part("memory")
    ranks = 4
    weights, grads, changes = _stage_1(ranks)
    whole, mine, largest = _bytes_of(SHAPES, ranks)
    case = Case(ranks, f"with {whole // BYTES:,} parameters in float64")
    for rank, told in enumerate(case.run(stepped, answer, weights, each(grads), each(changes), 2, True, hints=MEANS)):
        state = max(told["states"], told["held"] - 2 * whole)
        code, why = "kept", ": nothing else may stay alive"
        if close(state, 2 * whole, 0.1):
            code = "not-sharded"
            why = ". With moments of all the weights this is plain data parallelism: let a rank step only its shard"
        elif told["moments"] and {elements for _, elements in told["moments"]} <= set(map(math.prod, SHAPES)):
            code = "whole-parameters"
            why = ". It has moments of whole parameters, and parameters are not equally large: cut every parameter"
        keeps = f"rank {rank} keeps {{seen}} bytes beside weights and gradients; two moments of its shards are"
        case.at_most(state, 2 * mine, f"{keeps} {{bound}}{why}", code, slack=SLACK)
        case.at_most(max((held for held, _ in told["moments"]), default=0), 2 * whole + 4 * mine + largest,
            f"rank {rank} had {{seen}} bytes alive inside the step; weights, gradients, moments, shards of weights and "
            "gradients and the largest parameter are {bound}: go through one parameter after the other",
            "too-much-at-once", slack=SLACK)
    part("bytes")
    called = max(traces[4, False].collectives, key=len)
    if "all_reduce" in called and "all_gather" in called:
        code, why = "all-reduce", (
            ". An all_reduce brings every rank the whole gradient, and the rank then uses one part of it: let "
            "dist.reduce_scatter bring that part only")
    else:
        code, why = "too-many-bytes", ": gather weights with dist.all_gather"
    Case(ranks).at_most(max(traces[4, False].bytes_sent) / STEPS, 6 * mine,
        f"a rank sent {{seen}} bytes a step; a reduce-scatter and an all_gather send {{bound}}{why}", code, slack=SLACK)
    Case(ranks).at_most(len(called) / STEPS, 2 * len(SHAPES),
        f"calls {' and '.join(sorted(set(called)))} {{seen}} times a step; {len(SHAPES)} parameters need {{bound}} "
        "collectives: one dist.reduce_scatter and one dist.all_gather each", "too-many-collectives")
    told = "2Ψ(P-1)/P sent, as by data parallelism"
    return f"the weights of one AdamW after {STEPS} steps on 2, 3 and 4 ranks · moments of its shard only · {told}"


# reduce_scatter_gradients


WIDTHS = (11, 23, 23, 23, 23, 23, 23)
NAMES = [f"layer {layer}'s {kind}" for layer in range(len(WIDTHS) - 1) for kind in ("weight", "bias")]


def _stage_2(ranks: int) -> tuple[list, list, list]:
    shapes = [shape for into, out in zip(WIDTHS, WIDTHS[1:], strict=False) for shape in ((out, into), (out,))]
    weights = [draw(shape, seed) / 8 for seed, shape in enumerate(shapes)]
    rows = integers(2 * ranks, (2, WIDTHS[-1]), "float64")
    return weights, [row[:, : WIDTHS[0]] / 8 for row in rows[:ranks]], [row / 8 for row in rows[ranks:]]


def _own_gradients(weights: list, x: torch.Tensor, y: torch.Tensor) -> list:
    model = Chain(weights, lambda place: None)
    nn.functional.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


def _judge_stage_2(answer: Any, ranks: int, real: bool) -> Results:
    steps, (weights, xs, ys) = 3, _stage_2(ranks)
    case = Case(ranks, real=real, on=SLOW if ranks == 4 else None)
    data = weights, each(xs), each(ys), steps, 0.0 if real else 1.0, False
    got = case.run(scattered, answer, *data, hints=MEANS)
    for told in got:
        case.expect("form" not in told,
            f"reduce_scatter_gradients returned {told.get('form')}: return a function without arguments that returns "
            "the list of gradient shards", "no-function")
    for step in range(steps):
        found = [told["grads"][step] for told in got]
        case.expect(step == 0 or len(found[0]) != (step + 1) * len(weights),
            f"the second step returned {len(found[0])} gradients for {len(weights)} parameters: forget those of a step "
            "when they have been handed out", "not-cleared")
        stepped_weights = [weight * (1 + step / 4) for weight in weights]
        own = [_own_gradients(stepped_weights, x, y) for x, y in zip(xs, ys, strict=True)]
        _expect_gradients(case.also(f"in step {step + 1}"), found, own, NAMES, "model.parameters()")
    return got


@check(value=2, order=1, memory=2, bytes=1)
def check_reduce_scatter_gradients(answer: Any, part: Any) -> str:
    part("value")
    trace = {where: _judge_stage_2(answer, *where) for where in (*RUNS, (1, False))}[4, False]
    part("order")
    ranks, steps = 4, 3
    calls = [event for event in trace.of(0) if event.charged or event.kind in ("send", "recv")]
    ended = sorted(event.end for event in trace.of(0, "work"))[len(WIDTHS) - 3]  # of the first step
    first = min((event.posted for event in calls), default=math.inf)
    Case(ranks).expect(first < ended,
        f"backward ended at {ended:.3g} s and the first collective began at {first:.3g} s: reduce each gradient in a "
        "hook, when backward has just made it, and while it runs on to earlier layers", "after-backward")
    part("memory")
    weights, xs, ys = _stage_2(ranks)
    whole, mine, largest = _bytes_of([weight.shape for weight in weights], ranks)
    case = Case(ranks, f"with {whole:,} bytes of gradients in all")
    for rank, told in enumerate(case.run(scattered, answer, weights, each(xs), each(ys), 2, 0.0, True, hints=MEANS)):
        case.at_most(told["whole"], 0,
            f"rank {rank} still holds {{seen}} bytes in parameter.grad after backward: set parameter.grad = None once "
            "its shard is there", "kept-whole")
        case.at_most(told["shards"], mine,
            f"the shards on rank {rank} have {{bound}} bytes and keep {{seen}} alive: they are views into a larger "
            "storage, which lives as long as they do. Copy", "view", slack=SLACK)
        place, most = max(told["moments"], key=lambda moment: moment[1])
        bound = mine + 1.5 * largest  # the half is for activations
        case.at_most(most - whole, bound,
            f"rank {rank} held {{seen}} bytes beside the weights when backward reached layer {place - 1}; its shards "
            f"and the largest whole gradient are {mine + largest:,}: whole gradients pile up. Reduce each in its own "
            "hook, drop it, and have no more than one on its way", "too-much-held")
        case.at_most(told["all"] - whole, SLACK * mine + 0.1 * largest,
            f"rank {rank} holds {{seen}} bytes beside the weights after backward; its shards are {mine:,}", "kept")
    part("bytes")
    _expect_few(Case(ranks, "a backward"), trace.collectives, steps, len(weights), "gradients")
    sent, cost = max(trace.bytes_sent) / steps, 3 * mine
    reduced = close(sent, 2 * cost, 0.1)
    more = ", an all-reduce twice that: use dist.reduce_scatter" if reduced else ""
    said = f"a rank sent {{seen}} bytes a backward; a reduce-scatter sends {{bound}}{more}"
    Case(ranks).at_most(sent, cost, said, "all-reduce" if reduced else "too-many-bytes", slack=SLACK)
    return "mean gradient shards on 2, 3 and 4 ranks · during backward · one whole gradient at a time · Ψ(P-1)/P sent"


# fully_sharded_step


def _forward(weights: list, x: torch.Tensor) -> torch.Tensor:
    x = weights[0][x]
    for weight in weights[1:]:
        x = torch.tanh(x @ weight)
    return x


def _losses(weights: list, xs: list, ys: list) -> list:
    return [nn.functional.mse_loss(_forward(weights, x), y) for x, y in zip(xs, ys, strict=True)]


def _own_unit_gradients(weights: list, xs: list, ys: list) -> list:
    leaves = [weight.clone().requires_grad_() for weight in weights]
    return [list(torch.autograd.grad(loss, leaves)) for loss in _losses(leaves, xs, ys)]


def _judge_stage_3(answer: Any, ranks: int, real: bool) -> Results:
    start, shards, xs, ys = six_units(ranks)
    own = _own_unit_gradients(start, xs, ys)
    first_losses = [loss.item() for loss in _losses(start, xs, ys)]

    def gradient(step: int, weights: list) -> list:
        own = _own_unit_gradients([weight.detach() for weight in weights], xs, ys)
        return [sum(grads) / len(grads) for grads in zip(*own, strict=True)]

    want = _adamw_of(start, STEPS, gradient)
    case = Case(ranks, real=real)
    got = case.run(fully, answer, shards, UNITS, each(xs), each(ys), STEPS, False, hints=MEANS)
    for told in got:
        case.expect("form" not in told,
            f"fully_sharded_step returned {told.get('form')}: return the loss and the list of gradient shards", "form")
        case.expect("changed" not in told,
            "the shards of weights themselves have changed: return gradients, and leave the step to AdamW", "steps")
    names = [f"unit {place}" for place in range(len(UNITS))]
    _expect_gradients(case.also("in step 1"), [told["grads"] for told in got], own, names, "units")
    for rank, told in enumerate(got):
        says, loss = "that of its rows is", told["losses"][0]
        case.same(loss, first_losses[rank], f"the loss on rank {rank}", says=says, code="loss", tolerance=EXACT)
    for place, shape in enumerate(UNITS):
        mine = rejoined([told["weights"][place] for told in got], shape)
        what = f"the weight of {names[place]}"
        case.also(f"after {STEPS} steps").same(mine, want[place], what, says="on one device it is", tolerance=EXACT)
    return got


KEEPERS = {
    "forward": "Autograd keeps what it needs for backward (compute forward under torch.no_grad()), and a list keeps "
        "what is put into it",
    "backward": "What may hold it: its name (del), or the name of the unit's output, whose graph has it",
    "name": "A name that the loop gives it holds it until the next gather has ended: `del` it when the unit has "
        "computed, or hand unshard(...) straight to forward",
}  # fmt: skip


def _expect_one_whole(case: Case, moments: list) -> None:
    """Judge that no unit's weight is whole while another is gathered, computes, or is gone back to."""
    moments = named(moments)
    for number, (place, doing, _, others) in enumerate(moments):
        if not others:
            continue
        seen = {one for one, does, *_ in moments[:number] if does == "computes"}
        way = "forward" if len(seen) < len(UNITS) and "again" not in doing else "backward"
        later = next((held for _, does, _, held in moments[number:] if does != "is gathered"), others)
        if way == "forward" and others[0] not in later:
            way = "name"  # it is gone as soon as the next weight has its name
        case.refuse(
            f"while unit {place} {doing}, the whole weight of unit {others[0]} is still alive: free it before the next "
            f"gather. {KEEPERS[way]}. A view keeps all of its storage", "kept")


def _unit_inputs(weights: list, x: torch.Tensor) -> list[torch.Tensor]:
    """Return what each unit is given, and at last the output."""
    found = [x]
    for weight in weights:
        x = torch.tanh(x @ weight) if x.is_floating_point() else weight[x]
        found.append(x)
    return found


def _only_of(rank: int, weight: torch.Tensor, ranks: int) -> torch.Tensor:
    """Return a weight of which all but one rank's part is zero."""
    return rejoined([piece * (other == rank) for other, piece in enumerate(_pieces(weight, ranks))], weight.shape)


def _judge_forward(answer: Any, ranks: int, real: bool) -> Results:
    weights, shards, xs, _ = six_units(ranks)
    went = [_unit_inputs(weights, x) for x in xs]
    inputs, wants = [every[:-1] for every in went], [every[-1] for every in went]
    alone = [[_only_of(rank, weight, ranks) for weight in weights] for rank in range(ranks)]
    case = Case(ranks, real=real)
    got = case.run(forwarded, answer, shards, UNITS, each(xs), False, hints=MEANS)
    for rank, told in enumerate(got):
        case.expect("form" not in told,
            f"sharded_forward returned {told.get('form')}: return two things, the output of the last unit and the list "
            "of what each unit was given", "form")
        case.expect(not told["changed"], "the shards have changed: forward only reads them", "steps")
        case.same(told["output"], wants[rank], f"the output on rank {rank}",
            Mistake("first-input", inputs[rank][0], "is what the first unit was given: hand each unit's output on"),
            Mistake("own-part", _unit_inputs(alone[rank], xs[rank])[-1],
                "is what this rank's part of the weights gives, with zeros for the rest: gather the whole weight"),
            says="that of its tokens is", tolerance=EXACT)
        mine, many = told["inputs"], len(UNITS)
        case.expect(len(mine) == many or not (len(mine) == many + 1 and near(mine[-1], wants[rank], EXACT)),
            f"rank {rank} returned {len(mine)} inputs for {many} units: the last one is the output of the last unit, "
            "which is no unit's input", "one-too-many")
        case.expect(len(mine) == many, f"rank {rank} returned {len(mine)} inputs; there are {many} units", "form")
        outputs = [*inputs[rank][1:], wants[rank]]
        for place in range(many):
            case.same(mine[place], inputs[rank][place], f"input {place} on rank {rank}",
                Mistake("outputs", outputs[place],
                    f"is the output of unit {place}: keep what it was given, before it computes"),
                says="that unit was given", tolerance=EXACT if place else 0.0)
    return got


@check(value=2, memory=3, collectives=1)
def check_sharded_forward(answer: Any, part: Any) -> str:
    part("value")
    trace = {where: _judge_forward(answer, *where) for where in RUNS}[4, False]
    part("memory")
    ranks = 4
    _, shards, xs, _ = six_units(ranks)
    whole, mine, largest = _bytes_of(UNITS, ranks)
    bound = mine + 1.5 * largest  # the half is for activations
    case = Case(ranks, f"with {whole:,} bytes of weights in all", see="during_forward(sharded_forward)")
    for rank, told in enumerate(case.run(forwarded, answer, shards, UNITS, each(xs), True, hints=MEANS)):
        moments = told["moments"]
        early = next((held for _, doing, held, _ in moments if doing == "computes"), 0)
        case.at_most(early, bound,
            f"rank {rank} had {{seen}} bytes alive when unit 0 began; its shards and the largest unit are "
            f"{mine + largest:,}. With all weights whole this is plain data parallelism: gather a unit only when its "
            "turn comes", "gathered-early")
        _expect_one_whole(case, moments)
        most = max(held for *_, held, _ in moments)
        case.at_most(most, bound,
            f"rank {rank} had {{seen}} bytes alive; its shards and the largest unit are {mine + largest:,}: something "
            "whole is kept, or was gathered before its turn", "too-much-held")
        case.expect(not told["whole"],
            f"when sharded_forward returns, rank {rank} still has the whole weight of unit "
            f"{told['whole'][0] if told['whole'] else ''}: what it returns must not hold it. {KEEPERS['forward']}",
            "kept-after")
        case.expect(not told["graph"],
            "what sharded_forward returns carries autograd's graph: compute under torch.no_grad()", "graph")
    part("collectives")
    calls = trace.collectives[0]
    Case(ranks).at_most(len(calls), len(UNITS),
        f"a forward calls {' and '.join(sorted(set(calls)))} {{seen}} times; {len(UNITS)} units need {{bound}} gathers",
        "too-many-collectives")
    return "the outputs of one device on 2, 3 and 4 ranks · one whole unit at a time · one gather a unit"


@check(value=3, memory=3, collectives=1, bytes=1)
def check_fully_sharded_step(answer: Any, part: Any) -> str:
    part("value")
    trace = {where: _judge_stage_3(answer, *where) for where in RUNS}[4, False]
    part("memory")
    ranks = 4
    _, shards, xs, ys = six_units(ranks)
    whole, mine, largest = _bytes_of(UNITS, ranks)
    needed = 4 * mine + largest  # weights, gradients, two moments; and one whole unit
    bound = needed + largest / 2  # the half is for activations
    see = "during(fully_sharded_step)"
    case = Case(ranks, f"with {whole:,} bytes of weights in all", see=see)
    got = case.run(fully, answer, shards, UNITS, each(xs), each(ys), 2, True, hints=MEANS)
    for rank, told in enumerate(got):
        place, held = next((place, held) for place, doing, held, _ in told["moments"] if doing != "is gathered")
        case.at_most(held, bound,
            f"rank {rank} had {{seen}} bytes alive when unit {place} began; its shards and the largest unit are "
            f"{needed:,}. With all weights whole this is plain data parallelism: gather a unit only when its turn "
            "comes", "gathered-early")
        _expect_one_whole(case, told["moments"])
        for place, doing, held, _ in told["moments"]:
            if doing != "is gathered":
                case.at_most(held, bound,
                    f"while unit {place} {doing}, rank {rank} has {{seen}} bytes alive; shards of weights, gradients "
                    f"and moments and the largest unit are {needed:,}: something whole is kept, perhaps by the name of "
                    "the list that was sent", "too-much-held")
        case.at_most(told["views"], mine,
            f"the gradient shards on rank {rank} have {{bound}} bytes and keep {{seen}} alive: they are views into a "
            "larger storage. Copy", "view", slack=SLACK)
        why = ". The loss was returned with its graph, which keeps the output: detach it" if told["graph"] else ""
        case.expect(told["held"] <= SLACK * 4 * mine and told["kept"] <= SLACK * 3 * mine,
            f"rank {rank} holds {told['held']:,} bytes between steps; shards of weights, gradients and moments are "
            f"{4 * mine:,}{why}", "kept-after-step")
    part("collectives")
    case, calls = Case(ranks), trace.collectives
    case.at_most(calls[0].count("all_gather") / STEPS, 2 * len(UNITS),
        f"a step gathers {{seen}} times; {len(UNITS)} units need {{bound}}: each is gathered twice, for forward and "
        "for backward", "too-many-collectives")
    others = [[kind for kind in mine if kind != "all_gather"] for mine in calls]
    _expect_few(case.also("a step, beside gathers,"), others, STEPS, len(UNITS), "units")
    part("bytes")
    sent, cost = max(trace.bytes_sent) / STEPS, 3 * mine
    reduced = close(sent, 4 * cost, 0.1)
    more = ", with an all_reduce of gradients it is a third more: use dist.reduce_scatter" if reduced else ""
    said = f"a rank sent {{seen}} bytes a step; two gathers and a reduce-scatter send {{bound}}{more}"
    case.at_most(sent, 3 * cost, said, "all-reduce" if reduced else "too-many-bytes", slack=SLACK)
    return f"the weights of one AdamW after {STEPS} steps on 2, 3 and 4 ranks · one whole unit at a time · 3Ψ(P-1)/P"


# communication_bytes


def _judge_bytes(case: Case, got: Any, want: float, *mistakes: Mistake) -> None:
    got = plain(got)
    case.expect(is_number(got), f"it returned {shown(got)}: return a number of bytes", "form")
    known = [mistake._replace(says=f"is {got:,.0f}: {mistake.says}") for mistake in mistakes]
    case.same(float(got), want, "the number of bytes", *known, tolerance=max(1.0, 1e-6 * want))


def _own_nodes() -> tuple[int, int, int, int]:
    """Return parameters, ranks, bytes of an element and nodes that are drawn for the learner."""
    own = drawn("communication_bytes on nodes")
    nodes = own.randint(3, 9)
    return own.randint(10**6, 10**9), nodes * own.randint(3, 9), 2, nodes


@check(stages=2, hybrid=1)
def check_communication_bytes(answer: Any, part: Any) -> str:
    part("stages")
    cases = [(0, 1e9, 4, 8), (1, 6e9, 8, 8), (2, 7.5e9, 64, 8), (3, 7.5e9, 64, 2), (3, 1000, 3, 4), (2, 1000, 1, 4)]
    own = drawn("communication_bytes")
    cases += [(stage, own.randint(10**6, 10**9), own.randint(2, 60), own.choice((1, 2, 4))) for stage in range(4)]
    for stage, parameters, ranks, element in cases:
        tensors = {0: 2, 1: 2, 2: 2, 3: 3}[stage]
        once = (ranks - 1) / ranks * parameters * element
        want = tensors * once
        label = f"at stage {stage} with {parameters:,.0f} parameters of {element} bytes on {count(ranks, 'rank')}"
        _judge_bytes(Case(label=label), answer(stage, parameters, ranks, element), want,
            Mistake("factor", tensors * parameters * element, "a ring sends (P-1)/P of a tensor, its own part it has"),
            Mistake("elements", want / element, "elements, not bytes: times element_bytes"),
            Mistake("fixed-bytes", want / element * 2, f"2 bytes an element, and element_bytes is {element}"),
            Mistake("once", once,
                "once around the ring only. An all-reduce goes twice: a reduce-scatter, and a gather"),
            Mistake("all-ranks", want * ranks, "the bytes of all ranks; asked is what one rank sends"),
            Mistake("stage-2", 3 * once,
                f"stage {stage} takes two tensors: the reduce-scatter of gradients and the all-gather of weights that "
                "an all-reduce is made of"),
            Mistake("stage-3", 2 * once,
                "stage 3 takes three tensors: weights are gathered twice, for forward and for backward, and gradients "
                "reduce-scattered"))
    part("hybrid")
    for parameters, ranks, element, nodes in ((8e9, 16, 2, 2), (7.5e9, 64, 2, 8), _own_nodes()):
        inside, size = ranks // nodes, parameters * element
        within, across = 3 * (inside - 1) / inside * size, 2 * (nodes - 1) / nodes * size
        label = f"at stage 3 with {parameters:,.0f} parameters of {element} bytes on {nodes} nodes of {inside} ranks"
        want = within + across / inside
        _judge_bytes(Case(label=label), answer(3, parameters, ranks, element, nodes), want,
            Mistake("not-hybrid", 3 * (ranks - 1) / ranks * size,
                "weights are sharded over all ranks; shard them inside a node only"),
            Mistake("nothing-across", within,
                "nothing is said between nodes: each rank has to all-reduce its gradient shard with those of other "
                "nodes"),
            Mistake("whole-across", within + across,
                "whole gradients between nodes; a rank has only a shard left to all-reduce there"))
    for stage, parameters, ranks, element, nodes in ((0, 8e9, 16, 2, 2), (1, 7.5e9, 64, 2, 8), (2, 1e9, 24, 4, 3)):
        inside, size = ranks // nodes, parameters * element
        where = f"on {nodes} nodes of {inside} ranks"
        case = Case(label=f"at stage {stage} with {parameters:,.0f} parameters of {element} bytes {where}")
        known = "only stage 3 is hybrid. Below it a ring goes through the ranks of all nodes"
        _judge_bytes(case, answer(stage, parameters, ranks, element, nodes), 2 * (ranks - 1) / ranks * size,
            Mistake("inside-only", 2 * (inside - 1) / inside * size, f"a ring inside a node, and {known}"),
            Mistake("hybrid", True, known))
    return "2, 2, 2 and 3 tensors times (P-1)/P · hybrid: inside a node, and a shard across"


# clip_by_global_norm


def _judge_clipping(answer: Any, ranks: int, scale: float, real: bool = False) -> Results:
    drawn = [integers(ranks, shape, "float64") for shape in ((7,), (12,), (3,))]
    grads = [[tensors[rank] * (rank + 1) * 0.5 for tensors in drawn] for rank in range(ranks)]
    norms = [math.sqrt(sum(tensor.square().sum().item() for tensor in row)) for row in grads]
    norm = math.hypot(*norms)
    limit, factor = scale * norm, min(1.0, scale)
    case = Case(ranks, f"with a global norm of {norm:.4g} and a limit of {limit:.4g}", real)
    got = case.run(clipped, answer, each([[tensor.clone() for tensor in row] for row in grads]), limit)
    for rank, (told, _) in enumerate(got):
        seen = f"is {amount(told)}"
        case.same(told, norm, f"the norm on rank {rank}",
            Mistake("local-norm", norms[rank], f"{seen}, that of its own shards only: sum the squares over ranks"),
            Mistake("sum-of-norms", sum(norms),
                f"{seen}, a sum of norms: add the squares, and take the root at the end"),
            Mistake("no-root", norm**2, f"{seen}, the square of the norm: take the square root"),
            says="return the global norm before clipping,", code="norm", tolerance=1e-5 * norm)
    scaled = [mine for _, mine in got]
    if near(scaled, [[tensor * factor for tensor in row] for row in grads], 1e-4):
        return got
    still = near(scaled, grads, 1e-12)
    case.expect(not still, "the gradients are what they were: scale them in place, do not put new ones into the list",
        "not-in-place")
    factors = [_one_factor(case, rank, mine, grads[rank]) for rank, mine in enumerate(scaled)]
    case.expect(scale < 1 or max(factors) <= 1.001,
        f"the gradients were scaled up, by {max(factors)}: below the limit they stay as they are", "scales-up")
    least, most = (factors.index(one) for one in (min(factors), max(factors)))
    case.expect(factors[most] - factors[least] <= 1e-3,
        f"rank {least} scaled its gradients by {factors[least]} and rank {most} by {factors[most]}: every rank scales "
        f"by the same factor, max_norm divided by the global norm, {factor:.6g}", "own-factor")
    case.refuse(f"the gradients were scaled by {factors[0]}; it should be {factor:.6g}", "value")


def _one_factor(case: Case, rank: int, mine: list, were: list) -> float:
    """Return by what a rank has scaled its gradients; refuse different factors."""
    factors = []
    for now, before in zip(mine, were, strict=True):
        case.expect(now.shape == before.shape, f"a gradient on rank {rank} has another shape", "shape")
        ratios = (now / before)[before != 0]
        case.expect(near(ratios, ratios[:1].expand(len(ratios)), 1e-3),
            f"a gradient on rank {rank} was {numbers(before)} and is {numbers(now)}: do not limit each element by "
            "itself, but scale all by the same factor", "per-element")
        factors += [round(ratio, 6) for ratio in ratios[:1].tolist()]
    case.expect(max(factors) - min(factors) <= 1e-3,
        f"rank {rank} scaled its gradients by different factors, {factors}: not each tensor by its own norm, but all "
        "by the same factor", "per-tensor")
    return factors[0]


@check(value=2, small=1, collectives=1)
def check_clip_by_global_norm(answer: Any, part: Any) -> str:
    part("value")
    trace = _judge_clipping(answer, 4, 0.25)
    _judge_clipping(answer, 3, 0.5)
    _judge_clipping(answer, 2, 0.1, real=True)
    part("small")
    _judge_clipping(answer, 4, 3.0)
    part("collectives")
    calls = trace.collectives[0]
    Case(4, "with 3 tensors").at_most(len(calls), 1,
        f"it took {{seen}} collectives ({', '.join(calls)}); add the squares of all tensors first, then one all_reduce "
        "of one number", "too-many-collectives")
    Case(4, "with 3 tensors").at_most(max(trace.bytes_sent), ring_bytes(4, 1, size=8),
        "a rank sent {seen} bytes; an all_reduce of one number sends {bound} at most: no shard has to travel, only the "
        "sum of its squares", "too-many-bytes")
    return "one factor for all shards of all ranks, from one all-reduce of one number"


# fix_this_script: torch's own fully_shard, on real ranks


class Stream(nn.Module):
    """Blocks that add to a stream; it writes down which rows it is given, in what dtype, and which weights are whole.

    The first number of a row is the row's own number, which no layer reads.
    """

    def __init__(self, seed: int, width: int = 16, blocks: int = 3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.blocks = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(blocks))
        self.head = nn.Linear(width, 4, bias=False)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) / width**0.5
        self.rows: list = []
        self.whole: list = []
        self.dtypes: list = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.append(x[:, 0].long().tolist())
        stream = x[:, 1:]
        for block in self.blocks:
            stream = stream + torch.tanh(block(stream))
            self.whole.append(bytes_whole(self))
        self.dtypes.append(str(stream.dtype).removeprefix("torch."))
        return self.head(stream)


ROWS, BATCH, EPOCHS, CLIP, RATE = 16, 2, 3, 1.0, 0.1
SCRIPT = 0.03  # of the way that weights move: bf16 sums in another order are off by less, gradients that add up by 0.06


def scripted(dist: Any, answer: Any, seed: int, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int) -> tuple:
    model = Stream(seed)
    got = answer(dist, model, list(zip(x, y, strict=True)), epochs, batch)
    policies = [_policy_of(unit) for unit in (*model.blocks, model)]
    if isinstance(got, dict):
        plain = {str(name): getattr(value, "_local_tensor", value) for name, value in got.items()}
        got = {name: t.detach().clone() for name, t in plain.items() if isinstance(t, torch.Tensor)}
    else:
        got = type(got).__name__
    return got, model.rows, max(model.whole, default=-1), sorted(set(model.dtypes)), policies


def _policy_of(unit: nn.Module) -> str:
    """Return the dtype in which fully_shard reduces a unit's gradients; "" where it is no unit."""
    state = getattr(unit, "_get_fsdp_state", lambda: None)()
    policy = getattr(state, "_mp_policy", None)
    return "" if policy is None else str(policy.reduce_dtype or policy.param_dtype).removeprefix("torch.")


def _script_reference(
    seed: int, x: torch.Tensor, y: torch.Tensor, rows: list, clear: bool = True, half: bool = False
) -> dict:
    """Return the weights after the steps in which rank r sees `rows[r][step]`: computed in bf16, kept in fp32.

    Unless they are cleared, clipped gradients stay and the next ones are added to them; with `half` the
    loss is in bf16, too.
    """
    model = Stream(seed)
    weights = [p.detach().clone() for p in model.parameters()]
    total = [torch.zeros_like(w) for w in weights]
    for step in range(len(rows[0])):
        total = [t * 0 for t in total] if clear else total
        for mine in rows:
            low = [w.bfloat16().requires_grad_() for w in weights]
            named = dict(zip(dict(model.named_parameters()), low, strict=True))
            out = torch.func.functional_call(model, named, (x[mine[step]].bfloat16(),))
            pair = (out, y[mine[step]].bfloat16()) if half else (out.float(), y[mine[step]])
            nn.functional.mse_loss(*pair).backward()
            total = [t + h.grad.float() / len(rows) for t, h in zip(total, low, strict=True)]
        norm = math.sqrt(sum(float((t * t).sum()) for t in total))
        total = [t * min(1.0, CLIP / norm) for t in total]
        weights = [w - RATE * t for w, t in zip(weights, total, strict=True)]
    return dict(zip(dict(model.named_parameters()), weights, strict=True))


@check(wrapped=1, optimizer=1, scaler=1, checkpoint=1, sampler=1)
def check_fix_this_script(answer: Any, part: Any) -> str:
    seed, generator = 3, torch.Generator().manual_seed(int(os.environ.get("COURSE_SEED", "0")) + 1)
    x = torch.randn(ROWS, 17, generator=generator)
    x[:, 0] = torch.arange(ROWS)
    y = torch.randn(ROWS, 4, generator=generator)  # so far off that gradients are clipped, each to its own side
    start = {name: p.detach() for name, p in Stream(seed).named_parameters()}
    case = Case(4, real=True)
    got = case.run(scripted, answer, seed, x.clone(), y.clone(), EPOCHS, BATCH)
    final, rows = got[0][0], [mine for _, mine, *_ in got]
    part("wrapped")
    _judge_wrapping(case, start, max(peak for _, _, peak, *_ in got), *got[0][3:])
    case.expect(isinstance(final, dict) and set(final) == set(start),
        f"rank 0 returned {sorted(final) if isinstance(final, dict) else final}; the weights by name are asked for: "
        f"{', '.join(start)}", "form")
    have, total = (sum(tensor.numel() for tensor in weights.values()) for weights in (final, start))
    part("optimizer")
    same = all(equal(final[name].flatten(), start[name].flatten()[: final[name].numel()]) for name in start)
    case.expect(not same,
        "no weight has changed: fully_shard puts new parameters into the model, and an optimizer that was built before "
        "holds the old ones. Build it after sharding", "optimizer-first")
    part("scaler")
    taken = [sum(map(bool, mine)) for mine in rows]
    equally = all(len(mine) == taken[0] == steps for mine, steps in zip(rows, taken, strict=True))
    case.expect(equally, f"the ranks took {taken} steps with rows: all must take equally many", "steps")
    right = _script_reference(seed, x, y, rows)
    moved = _distance(right, start)
    away, little = _distance(final, right) / moved, _distance(final, start) / moved
    after = case.also(f"after {EPOCHS * ROWS // 4 // BATCH} steps")
    after.expect(not little < 0.05 or little > 0.5 * have / total,
        f"the weights have moved {little * moved:.2g}; without a scaler they move {moved:.2g}. A gradient scaler "
        f"multiplies the loss by {2**16:,}, and clipping sees gradients that are as much too large. bf16 has the range "
        "of fp32 and needs no scaler", "scaler")
    piled = _distance(final, _script_reference(seed, x, y, rows, clear=False)) / moved
    after.expect(not piled < min(away, SCRIPT),
        "the weights are those of gradients that add up from step to step: clear them in every step, with "
        "optimizer.zero_grad()", "not-cleared")
    low = _distance(final, _script_reference(seed, x, y, rows, half=True)) / moved
    after.expect(not 5 * low < away,
        "the weights are those of a loss in bf16, which rounds the differences: take the mean squared error of "
        "model(x).float() and y", "low-loss")
    after.expect(away < SCRIPT,
        f"the weights are {away:.0%} of the way off those of gradient descent on the rows seen, with learning rate "
        f"{RATE} and the global norm clipped to {CLIP:g}: take the mean squared error of model(x).float(), clip, step, "
        "and clear the gradients in every step", "value")
    part("checkpoint")
    case.expect(have == total,
        f"what rank 0 returned has {have:,} of {total:,} numbers: rank 0's shard only. Gather the full state dict, "
        "with all ranks taking part", "rank-0-shard")
    case.expect(all(final[name].shape == start[name].shape for name in start),
        "the weights that rank 0 returned have other shapes than the model's", "shape")
    part("sampler")
    _judge_sampling(case, rows)
    return "a block at a time · weights that move, as they must · all of them saved · every row once an epoch"


def _distance(weights: dict, others: dict) -> float:
    """Return how far weights, or as much of them as there is, are from others."""
    pairs = [(weights[name].flatten().float(), other.flatten()) for name, other in others.items()]
    return math.sqrt(sum(float(((one - other[: len(one)]) ** 2).sum()) for one, other in pairs))


def _judge_wrapping(case: Case, start: dict, whole: int, dtypes: list, policies: list) -> None:
    """Judge the bytes of weights that were whole on a rank at once, and the dtypes of computing and of reducing."""
    half = dtypes == ["bfloat16"]
    size = 2 if half else 4
    allowed = size * (start["blocks.0.weight"].numel() + start["head.weight"].numel())
    case.expect(whole >= 0, "the model was never called: train it", "not-trained")
    case.expect(whole < size * sum(p.numel() for p in start.values()),
        f"all {whole:,} bytes of weights were whole on a rank at once; one block and what belongs to no block are "
        f"{allowed:,}. fully_shard was not called, or for the root only, which gathers the whole model as one unit: "
        "call it for each block of model.blocks first, and then for the model", "root-only")
    case.at_most(whole, allowed,
        "{seen} bytes of weights were whole on a rank at once; one block and what belongs to no block are {bound}: let "
        "each block be freed after its forward", "not-freed")
    case.expect(half,
        f"the blocks compute in {', '.join(dtypes)}: give fully_shard a MixedPrecisionPolicy with "
        "param_dtype=torch.bfloat16, for every block and for the root", "not-bf16")
    bare = [place for place, dtype in enumerate(policies[:-1]) if not dtype]
    case.expect(not bare, f"block {bare[:1]} of model.blocks is no unit of its own: call fully_shard for each of them, "
        "and then for the model", "not-each-block")
    case.expect(set(policies) <= {"float32", ""},
        f"gradients are reduced in {', '.join(sorted({*policies} - {'float32', ''}))}: reduce_dtype=torch.float32, for "
        "every block and for the root; a sum in bf16 loses what small gradients add", "reduce-dtype")


def _judge_sampling(case: Case, rows: list) -> None:
    """Judge which rows each rank was given in each step."""
    cuts = [epoch * len(rows[0]) // EPOCHS for epoch in range(EPOCHS + 1)]
    epochs = [[sum(mine[begin:end], []) for mine in rows] for begin, end in zip(cuts, cuts[1:], strict=False)]
    for number, dealt in enumerate(epochs):
        seen = sum(dealt, [])
        missed = sorted(set(range(ROWS)) - set(seen))
        case.expect(not missed,
            f"in epoch {number} rows {missed[:4]}{' and more' if len(missed) > 4 else ''} of {ROWS} were seen by no "
            "rank and others twice: each rank shuffled in another order. The sampler's seed must be the same on every "
            "rank", "sampler-seed")
        case.expect(len(seen) == ROWS, f"in epoch {number} {len(seen)} rows were seen, of {ROWS}", "rows")
    most = max(len(batch) for mine in rows for batch in mine)
    case.expect(most == BATCH, f"a rank took {most} rows at a time; `batch` is {BATCH}", "batch")
    ranks = len(rows)
    sorted_rows = [list(range(rank, ROWS, ranks)) for rank in range(ranks)]
    case.expect(any(dealt != sorted_rows for dealt in epochs),
        "every epoch deals the rows out in the order of the data: a sampler shuffles them unless it is told "
        "shuffle=False", "not-shuffled")
    same = next(((a, b) for a in range(EPOCHS) for b in range(a) if epochs[a] == epochs[b]), None)
    case.expect(same is None,
        f"epochs {same[1] if same else 0} and {same[0] if same else 1} deal the rows out in the same order: call "
        "sampler.set_epoch(epoch) before the batches of each epoch", "same-order")


# Exercises that have moved to another chapter: an earlier copy of this one still finds their checks

MOVED = ("save_sharded", "load_resharded")


def __getattr__(name: str) -> Any:
    if name.removeprefix("check_") in MOVED:
        return getattr(import_module("exercises_tests.ch13_when_things_break"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
