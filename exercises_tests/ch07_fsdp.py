"""Checks of chapter 7: weights of one device from parts, the bytes alive at named moments, and few collectives."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import math
import os
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, RankFailed, Results, bytes_held, each, run, work
from course_lib.engine.storages import Alive, Watched
from course_lib.lessons.torch_wrappers import bytes_whole
from course_lib.training import adamw
from exercises_tests.judging import alone, check, code_of, expect
from exercises_tests.values import close, equal, integers, near

PRELOAD = (  # what answers want: once, not in every rank
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
)
REAL_SECONDS = 20  # after which a run on real ranks counts as hung
SLOW = Cluster(latency=0.1, bandwidth=math.inf)
EPSILON = 0.1  # of AdamW: with its usual 1e-8 a gradient N times too large would give the same step
STEPS = 10
BYTES = 8  # of a float64


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


class Mark(torch.autograd.Function):
    """Passes on what it gets, and calls `note` when backward comes by."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, note: Any) -> torch.Tensor:
        ctx.note = note
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        ctx.note()
        return grad, None


def _plain(thing: Any) -> Any:
    return thing.detach() if isinstance(thing, torch.Tensor) else None


def _copy(thing: Any) -> Any:
    return thing.detach().clone() if isinstance(thing, torch.Tensor) else None


def cut(answer: Any, tensor: torch.Tensor, ranks: int) -> list:
    pieces = [answer(tensor, rank, ranks) for rank in range(ranks)]
    return [[_plain(piece), bytes_held(piece)] for piece in pieces]


def gathered(dist: Any, answer: Any, mine: torch.Tensor, shape: tuple) -> Any:
    return _plain(answer(dist, mine, shape))


def _looking(dist: Any, watch: bool) -> tuple:
    """Return who counts the bytes alive, under what the answer runs, and the dist that it gets."""
    alive = Alive()
    return (alive, alive, alive.beside(dist)) if watch else (alive, contextlib.nullcontext(), dist)


def stepped(
    dist: Any, answer: Any, weights: list, grads: list, changes: list, steps: int, watch: bool
) -> dict[str, Any]:
    parameters = [nn.Parameter(weight.clone()) for weight in weights]
    states: list = [{} for _ in parameters]
    (alive, looking, dist), moments = _looking(dist, watch), []

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
    (alive, looking, dist), moments, found = _looking(dist, watch), [], []

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
        found.append([_copy(grad) for grad in mine])
        whole = bytes_held([p.grad for p in parameters if p.grad is not None])
        held = {"whole": whole, "shards": bytes_held(list(mine)), "moments": list(moments)}
        held["all"] = alive.bytes(parameters, list(mine))
        del mine
    return {"grads": found, **held}


def fully(
    dist: Any, answer: Any, shards: list, shapes: list, x: torch.Tensor, y: torch.Tensor, steps: int, watch: bool
) -> dict[str, Any]:
    (alive, looking, dist), moments, watched = _looking(dist, watch), [], {}
    states: list = [{} for _ in shards]

    def note(place: int, doing: str) -> None:
        if watch:
            others = {other for other, seen in watched.items() if other != place and any(w.nbytes for w in seen)}
            moments.append([place, doing, alive.bytes(shards, states), sorted(others)])

    def compute(place: int, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        again = place in watched
        watched.setdefault(place, []).append(Watched(weight))
        note(place, "computes again" if again else "computes")
        y = torch.tanh(x @ weight) if x.is_floating_point() else weight[x]
        return Mark.apply(y, functools.partial(note, place, "goes back"))

    units = [(functools.partial(compute, place), shape) for place, shape in enumerate(shapes)]
    losses, first = [], None
    for _ in range(steps):
        moments.clear(), watched.clear()
        if watch:
            gc.collect()  # what a cycle of references keeps is not kept on purpose
        before = [mine.clone() for mine in shards]
        with looking:
            got = answer(dist, units, list(shards), x, lambda out: nn.functional.mse_loss(out, y))
        pair = isinstance(got, (list, tuple)) and len(got) == 2 and isinstance(got[1], (list, tuple))
        if not pair:
            return {"form": type(got).__name__}
        if not all(map(torch.equal, shards, before)):
            return {"changed": True}
        loss, grads = got
        sizes = [list(grad.shape) if isinstance(grad, torch.Tensor) else None for grad in grads]
        losses.append(loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss)
        first = first or [_copy(grad) for grad in grads]
        if sizes != [list(mine.shape) for mine in shards]:
            return {"sizes": sizes, "grads": first}
        for mine, grad, state in zip(shards, grads, states, strict=True):
            adamw(mine, grad, state, epsilon=EPSILON)
        seen = {"moments": list(moments), "views": bytes_held(list(grads)), "grads": first}
        seen["held"] = alive.bytes(shards, states)
        seen["graph"] = isinstance(loss, torch.Tensor) and loss.requires_grad
        del got, loss, grads, grad
    seen["kept"] = alive.bytes(shards, states)
    numbers = [float(loss) if isinstance(loss, (int, float)) else None for loss in losses]
    return {"weights": shards, "losses": numbers, **seen}


def clipped(dist: Any, answer: Any, grads: list, max_norm: float) -> list:
    norm = answer(dist, list(grads), max_norm)
    norm = norm.item() if isinstance(norm, torch.Tensor) and norm.numel() == 1 else norm
    return [norm if isinstance(norm, (int, float)) else repr(norm)[:100], grads]


# What several checks of this chapter ask


MEANS = {  # what torch says, where it sends a reader to the wrong line
    "grad can be implicitly created only for scalar outputs": "backward of a unit needs the gradient of its output: "
    "the x.grad of the unit after it, which is None if that one's kept input had no requires_grad_()",
    "does not require grad and does not have a grad_fn": "what was computed under torch.no_grad() has no graph: "
    "requires_grad_() the last output before the loss, and the weight and kept input before a unit computes again",
}


def _run(case: str, *call: Any, ranks: int, real: bool = False, on: Any = None) -> Results:
    """Run; a run that fails is a wrong answer, told with its case."""
    try:
        return run(*call, ranks=ranks, on=None if real else on or Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        means = "".join(f"{meant}. " for said, meant in MEANS.items() if said in str(failure))
        expect(False, f"{case}: {means}{failure}", code_of(failure))


def _on(ranks: int, real: bool = False) -> str:
    return f"on {ranks} {'real ' if real else ''}{'rank' if ranks == 1 else 'ranks'}"


def _numbers(tensor: Any) -> str:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor)
    values = tensor.flatten().tolist()
    return "[" + ", ".join(f"{value:.4g}" for value in values[:6]) + (", ...]" if len(values) > 6 else "]")


def _versus(got: Any, says: str, want: torch.Tensor) -> str:
    """Return what came and what was wanted: type, dtype or shape, or numbers from the first on that differs."""
    mine = type(got).__name__
    if type(got) is type(want):
        if got.dtype != want.dtype:
            return f"is {str(got.dtype)[6:]}; {says} {str(want.dtype)[6:]}"
        if got.shape != want.shape:
            return f"has shape {list(got.shape)}; {says} {list(want.shape)}"
        off = (got.double() - want.double()).abs().flatten()
        first = next((place for place, much in enumerate(off.tolist()) if not much <= 1e-9), 0)
        begins = f"is, from element {first} on," if first else "begins"
        pair = [_numbers(tensor.flatten()[first:]) for tensor in (got, want)]
        if pair[0] == pair[1]:  # they differ in later digits
            pair = [f"[{tensor.flatten()[first].item():.12g}, ...]" for tensor in (got, want)]
        return f"{begins} {pair[0]}; {says} {pair[1]}"
    return f"is a {mine}; {says} a {type(want).__name__}"


def _size(shape: tuple, ranks: int) -> int:
    """Return the elements of one shard, padding counted."""
    return -(-math.prod(shape) // ranks)


def _grid(shape: tuple, ranks: int, seed: int = 0, padding: float = 0.0, dtype: str = "float64") -> torch.Tensor:
    """Return numbers laid out as shards, a row for each rank: the elements of a tensor of `shape`, then padding."""
    grid = integers(1 + seed, (ranks, _size(shape, ranks)), dtype)[seed]
    grid.view(-1)[math.prod(shape) :] = padding
    return grid


def _joined(rows: Any, shape: tuple) -> torch.Tensor:
    """Return the tensor that these shards, one for each rank, are the parts of."""
    return torch.cat(list(rows))[: math.prod(shape)].reshape(shape)


def _draw(shape: tuple, seed: int) -> torch.Tensor:
    return integers(1 + seed, shape, "float64")[seed] / 8 + 0.01 * (seed + 1)


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


def _expect_gradients(case: str, got: list, own: list, names: list, order: str) -> None:
    """Judge gradient shards, `got[rank][place]`, against each rank's whole gradients, `own[rank][place]`."""
    ranks, count = len(own), len(own[0])
    shapes = [tuple(grad.shape) for grad in own[0]]
    for rank, grads in enumerate(got):
        expect(
            len(grads) == count and all(isinstance(grad, torch.Tensor) for grad in grads),
            f"{case} rank {rank} returned {len(grads)} gradients"
            + ("" if len(grads) != count else ", not all of them tensors")
            + f"; there are {count}, one for each of {order}",
            "form",
        )
    sizes = [grad.numel() for grad in got[0]]
    wanted = [_size(shape, ranks) for shape in shapes]
    expect(
        sizes != [math.prod(shape) for shape in shapes] or sizes == wanted,
        f"{case} the gradient of {names[0]} that rank 0 returned has all of its {sizes[0]:,} elements: that is plain "
        f"data parallelism. Its shard has {wanted[0]:,}",
        "not-sharded",
    )
    for rank, grads in enumerate(got):
        shaped = [list(grad.shape) for grad in grads]
        expect(
            shaped == [[size] for size in wanted],
            f"{case} the gradients on rank {rank} have shapes {shaped[:3]} and so on; the shards have "
            f"{[[size] for size in wanted][:3]}"
            + (f": return them in the order of {order}" if sorted(shaped) == sorted([s] for s in wanted) else ""),
            "order" if sorted(shaped) == sorted([s] for s in wanted) else "shape",
        )
    for place, shape in enumerate(shapes):
        rows = [grads[place] for grads in got]
        want = sum(grads[place] for grads in own) / ranks
        mine = _joined(rows, shape)
        if near(mine, want, 1e-9):
            padding = torch.cat(rows)[math.prod(shape) :]
            expect(
                near(padding, torch.zeros_like(padding), 1e-12),
                f"{case} the padding of the gradient of {names[place]} holds {_numbers(padding)}; it must stay zeros, "
                "or clipping by the norm would count it",
                "padding",
            )
            continue
        expect(
            not near(mine, want * ranks, 1e-9),
            f"{case} the gradient of {names[place]} is the sum over ranks: divide by the number of ranks, {ranks}",
            "sum",
        )
        size = wanted[place]
        flat = [grads[place].flatten() for grads in own]
        flat = [whole[rank * size : (rank + 1) * size] for rank, whole in enumerate(flat)]
        parts = [
            near(row[: len(part)], part, 1e-9) or near(row[: len(part)] * ranks, part, 1e-9)
            for row, part in zip(rows, flat, strict=True)
        ]
        expect(
            not all(parts),
            f"{case} each rank holds a part of its own gradient of {names[place]}; it needs the mean over ranks",
            "alone",
        )
        expect(
            False,
            f"{case} the gradient of {names[place]}, its shards joined, "
            f"{_versus(mine, 'the mean over ranks is', want)}",
            "value",
        )


def _expect_few(what: str, collectives: list, steps: int, count: int, of: str) -> None:
    """Judge that so many gradients took no more collectives; `collectives` are those of each rank in these steps."""
    called = max(collectives, key=len)
    expect(
        len(called) <= steps * count,
        f"{what} calls {' and '.join(sorted(set(called)))} {len(called) / steps:g} times; {count} {of} need at "
        f"most {count} reduce-scatters: one dist.reduce_scatter hands every rank its piece",
        "too-many-collectives",
    )


# shard


@check(value=1, padding=1, owned=1)
def check_shard(answer: Any, part: Any) -> str:
    see = "[shard(torch.arange(13.0), rank, 4) for rank in range(4)]"
    cases = [((6,), 3), ((4, 6), 4), ((2, 3, 2), 1), ((13,), 4), ((7, 3), 4), ((3,), 4), ((), 2)]

    def judge(shape: tuple, ranks: int, dtype: str = "float64") -> list:
        tensor = integers(1, shape, dtype)[0].abs() + 1  # no zero that could be taken for padding
        flat, count, size = tensor.flatten(), tensor.numel(), _size(shape, ranks)
        case = f"with shape {shape} on {_on(ranks)[3:]}"
        got = alone(cut, answer, tensor.clone(), ranks)
        pieces = [piece for piece, _ in got]
        for rank, piece in enumerate(pieces):
            expect(isinstance(piece, torch.Tensor), f"{case} rank {rank} has no tensor", "form", see)
            expect(
                piece.dtype == tensor.dtype,
                f"{case} the shard of a {dtype} tensor is {str(piece.dtype)[6:]}: keep the dtype, the padding's too",
                "form", f"shard(torch.arange(13.0, dtype=torch.{dtype}), 3, 4)",
            )  # fmt: skip
            expect(
                piece.dim() == 1,
                f"{case} rank {rank}'s shard has shape {tuple(piece.shape)}: it should have one dimension. Flatten "
                "first, so that any shape can be cut",
                "not-flat", see,
            )  # fmt: skip
        lengths = [len(piece) for piece in pieces]
        expect(
            len(set(lengths)) == 1,
            f"{case} the shards have {', '.join(map(str, lengths))} elements; collectives need equal pieces: pad the "
            f"last ones to {size}",
            "uneven", see,
        )  # fmt: skip
        expect(
            sum(lengths) >= count,
            f"{case} the {ranks} shards have {lengths[0]} elements each, {sum(lengths)} in all, and {count} are there: "
            "the size of a shard is rounded up",
            "lost", see,
        )  # fmt: skip
        expect(
            lengths[0] == size,
            f"{case} a shard has {lengths[0]} elements; {size} are enough",
            "too-long", see,
        )  # fmt: skip
        joined = torch.cat(pieces)
        misplaced = sorted(joined.tolist()) == sorted([*flat.tolist(), *[0.0] * (len(joined) - count)])
        expect(
            near(joined[:count], flat, 0) or not misplaced or len(joined) == count,
            f"{case} the shards are {_numbers(joined)} one after the other; the tensor is {_numbers(flat)}: rank 0 has "
            "the first elements, neighbours stay together, and zeros come at the end",
            "order", see,
        )  # fmt: skip
        expect(
            near(joined[:count], flat, 0),
            f"{case} the shards are {_numbers(joined)} one after the other; the tensor is {_numbers(flat)}: rank 0 has "
            "the first elements, and neighbours stay together",
            "order", see,
        )  # fmt: skip
        expect(
            near(joined[count:], joined.new_zeros(len(joined) - count), 0),
            f"{case} the padding holds {_numbers(joined[count:])}; fill it with zeros",
            "padding", see,
        )  # fmt: skip
        return got

    part("value")
    for case in cases[:3]:
        judge(*case)
    part("padding")
    found = [judge(*case) for case in cases[3:]]
    judge((13,), 4, "bfloat16")
    part("owned")
    for (shape, ranks), got in zip(cases[3:], found, strict=True):
        size = _size(shape, ranks)
        for rank, (_, held) in enumerate(got):
            expect(
                held <= BYTES * size,
                f"with shape {shape} on {ranks} ranks rank {rank}'s shard has {BYTES * size} bytes and keeps {held} "
                "alive: a view keeps the whole storage it looks into. Return a copy",
                "view", "shard(torch.arange(13.0), 0, 4).untyped_storage().nbytes()",
            )  # fmt: skip
    return "equal parts of any shape on 1 to 4 ranks · zeros at the end · nothing else kept alive"


# unshard


@check(value=2, padding=1, bytes=1)
def check_unshard(answer: Any, part: Any) -> str:
    def judge(shape: tuple, ranks: int, real: bool = False, dtype: str = "float64", padding: float = 0.0) -> Results:
        grid = _grid(shape, ranks, padding=padding, dtype=dtype)
        if math.prod(shape) and not padding:
            grid.view(-1)[math.prod(shape) - 1] = 0  # a zero that is no padding
        want = _joined(grid, shape)
        case = f"{_on(ranks, real)} with shape {shape}"
        if padding:
            case += f" and padding of {padding:g}"
        got = _run(case, gathered, answer, each(list(grid.clone())), shape, ranks=ranks, real=real)
        for rank, mine in enumerate(got):
            if isinstance(mine, torch.Tensor) and equal(mine, want):
                continue
            expect(isinstance(mine, torch.Tensor), f"{case} rank {rank} got no tensor", "form")
            expect(
                rank == 0 or not equal(got[0], want),
                f"{case} rank 0 has the whole tensor and rank {rank} has not: every rank needs it",
                "only-on-rank-0",
            )
            expect(
                mine.shape == want.shape,
                f"{case} the result has shape {tuple(mine.shape)}; it should be {tuple(want.shape)}",
                "shape",
            )
            alone_ = grid[rank].repeat(ranks)[: want.numel()].view(shape)
            expect(
                ranks == 1 or not equal(mine, alone_),
                f"{case} rank {rank} has its own shard over and over: the others' come by a collective",
                "own-part-only",
            )
            front = grid.view(-1)[grid.numel() - want.numel() :].view(shape)
            expect(
                not equal(mine, front),
                f"{case} the result is {_numbers(mine)}: elements were dropped in front. The padding is at the end",
                "padding",
            )
            expect(
                False,
                f"{case} the result on rank {rank} {_versus(mine, 'it should be', want)}",
                "value",
            )
        return got

    part("value")
    trace = judge((2, 6), 4)
    judge((3, 2), 1)
    judge((4,), 2, real=True, dtype="float32")
    part("padding")
    judge((4,), 3)
    judge((5, 3), 4, padding=7.0)
    judge((), 2)
    judge((3, 3), 2, real=True, padding=7.0)
    part("bytes")
    trace = judge((50, 7), 4)
    size = BYTES * _size((50, 7), 4)
    most = max(trace.bytes_sent)
    expect(
        most <= 3 * size,
        f"on 4 ranks with shards of {size} bytes a rank sent {most:,} bytes; a ring sends {3 * size:,}: call "
        "dist.all_gather once",
        "too-many-bytes",
    )
    return "the whole tensor on every rank, without the padding · (P-1)·shard bytes sent"


# sharded_adamw_step


SHAPES = [(37, 29), (29,), (29, 31), (31,), (23, 37), (12, 5)]  # only the last is divided by 2, 3 and 4


def _stage_1(ranks: int) -> tuple[list, list, list]:
    weights = [_draw(shape, seed) for seed, shape in enumerate(SHAPES)]
    drawn = [integers(2 * ranks, shape, "float64") for shape in SHAPES]
    grads = [[tensors[rank] / 8 for tensors in drawn] for rank in range(ranks)]
    changes = [[tensors[ranks + rank] / 16 for tensors in drawn] for rank in range(ranks)]
    return weights, grads, changes


@check(value=3, memory=2, bytes=1)
def check_sharded_adamw_step(answer: Any, part: Any) -> str:
    part("value")
    traces = {}
    for ranks, real in ((2, False), (3, False), (4, False), (2, True)):
        weights, grads, changes = _stage_1(ranks)
        steps, case = STEPS, _on(ranks, real)

        def gradient(members: list, scale: float, grads: list = grads, changes: list = changes) -> Any:
            """Return the gradients that AdamW would see from these ranks: their sum times `scale`."""
            return lambda step, _: [
                sum(grads[r][place] + step * changes[r][place] for r in members) * scale for place in range(len(SHAPES))
            ]

        everyone = list(range(ranks))
        want = _adamw_of(weights, steps, gradient(everyone, 1 / ranks))
        summed = _adamw_of(weights, steps, gradient(everyone, 1.0))
        forgot = _adamw_of(weights, steps, gradient(everyone, 1 / ranks), fresh=True)
        own = [_adamw_of(weights, steps, gradient([rank], 1.0)) for rank in range(ranks)]
        patched = [torch.cat([own[rank][index].flatten()[rank * size :][:size] for rank in range(ranks)]).view(shape)
                   for index, shape in enumerate(SHAPES) for size in [_size(shape, ranks)]]  # fmt: skip
        got = _run(
            case, stepped, answer, weights, each(grads), each(changes), steps, False, ranks=ranks, real=real
        )  # fmt: skip
        here = f"{case} after {steps} steps"
        for rank, told in enumerate(got):
            mine = told["weights"]
            if near(mine, want, 1e-9):
                continue
            expect(
                not near(mine, weights, 1e-12),
                f"{here} no weight has changed: change parameter.data in place",
                "unchanged",
            )
            words = [
                (summed, "are those of summed gradients: divide by the number of ranks", "sum"),
                (forgot, "are those of an AdamW that begins anew in every step: its moments live in `states`",
                 "forgets-moments"),
                (own[rank], "are those of training alone: the rank stepped with its own gradient", "alone"),
            ]  # fmt: skip
            for other, said, code in words:
                expect(not near(mine, other, 1e-9), f"{here} the weights on rank {rank} {said}", code)
            expect(
                not near(mine, patched, 1e-9),
                f"{here} each part of the weights was stepped with its own gradient on the rank that holds it: it "
                "needs the mean over ranks, by a reduce-scatter",
                "alone",
            )
            starts = [rank * _size(shape, ranks) for shape in SHAPES]
            parts = [slice(start, start + _size(shape, ranks)) for start, shape in zip(starts, SHAPES, strict=True)]
            stepped_own = all(
                near(m.flatten()[p], w.flatten()[p], 1e-9) for m, w, p in zip(mine, want, parts, strict=True)
            )
            still = all(
                near(torch.cat([m.flatten()[: p.start], m.flatten()[p.stop :]]),
                     torch.cat([w.flatten()[: p.start], w.flatten()[p.stop :]]), 1e-12)
                for m, w, p in zip(mine, weights, parts, strict=True)
            )  # fmt: skip
            expect(
                not (stepped_own and still),
                f"{here} rank {rank} has stepped its own part, and the parts of other ranks are as they were: gather "
                "them",
                "not-gathered",
            )
            place = next(place for place in range(len(want)) if not near(mine[place], want[place], 1e-9))
            expect(
                not near(mine[-1], want[-1], 1e-9),
                f"{here} the parameter of shape {SHAPES[-1]} is right on rank {rank}, and the one of shape "
                f"{SHAPES[place]}, whose elements {ranks} ranks do not divide, is not: padding got into it. Drop what "
                "stands after the last element",
                "padding",
            )
            expect(
                False,
                f"{here} parameter {place} on rank {rank} {_versus(mine[place], 'on one device it is', want[place])}",
                "value",
            )
        traces[ranks, real] = got
    part("memory")
    ranks = 4
    weights, grads, changes = _stage_1(ranks)
    case = f"{_on(ranks)} with {sum(map(math.prod, SHAPES)):,} parameters in float64"
    got = _run(case, stepped, answer, weights, each(grads), each(changes), 2, True, ranks=ranks)
    whole = BYTES * sum(map(math.prod, SHAPES))
    mine = BYTES * sum(_size(shape, ranks) for shape in SHAPES)
    largest = BYTES * max(map(math.prod, SHAPES))
    for rank, told in enumerate(got):
        state = max(told["states"], told["held"] - 2 * whole)
        code, why = "kept", ": nothing else may stay alive"
        if close(state, 2 * whole, 0.1):
            code = "not-sharded"
            why = ". With moments of all the weights this is plain data parallelism: let a rank step only its shard"
        elif told["moments"] and {count for _, count in told["moments"]} <= set(map(math.prod, SHAPES)):
            code = "whole-parameters"
            why = ". It has moments of whole parameters, and parameters are not equally large: cut every parameter"
        expect(
            state <= 1.02 * 2 * mine,
            f"{case} rank {rank} keeps {state:,} bytes beside weights and gradients; two moments of its shards are "
            f"{2 * mine:,}{why}",
            code,
        )
        most = max((held for held, _ in told["moments"]), default=0)
        bound = 2 * whole + 4 * mine + largest
        expect(
            most <= 1.02 * bound,
            f"{case} rank {rank} had {most:,} bytes alive inside the step; weights, gradients, moments, shards of "
            f"weights and gradients and the largest parameter are {bound:,}: go through one parameter after the other",
            "too-much-at-once",
        )
    part("bytes")
    sent, cost = max(traces[4, False].bytes_sent) / STEPS, 3 * mine
    expect(
        sent <= 1.02 * 3 * cost,
        f"on 4 ranks a rank sent {sent:,.0f} bytes a step; a reduce-scatter and an all_gather send "
        f"{2 * cost:,}, an all_reduce and an all_gather {3 * cost:,}: gather weights with dist.all_gather",
        "too-many-bytes",
    )
    told = "2Ψ(N-1)/N sent, as by data parallelism"
    if sent > 1.02 * 2 * cost:
        told = "3Ψ(N-1)/N sent: the all-reduce brings whole gradients, a reduce-scatter and a gather would send 2Ψ"
    return f"the weights of one AdamW after {STEPS} steps on 2, 3 and 4 ranks · moments of its shard only · {told}"


# reduce_scatter_gradients


WIDTHS = (11, 23, 23, 23, 23, 23, 23)


def _stage_2(ranks: int) -> tuple[list, list, list]:
    shapes = [shape for into, out in zip(WIDTHS, WIDTHS[1:], strict=False) for shape in ((out, into), (out,))]
    weights = [_draw(shape, seed) / 8 for seed, shape in enumerate(shapes)]
    rows = integers(2 * ranks, (2, WIDTHS[-1]), "float64")
    return weights, [row[:, : WIDTHS[0]] / 8 for row in rows[:ranks]], [row / 8 for row in rows[ranks:]]


def _own_gradients(weights: list, x: torch.Tensor, y: torch.Tensor) -> list:
    model = Chain(weights, lambda place: None)
    nn.functional.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


@check(value=2, order=1, memory=2, bytes=1)
def check_reduce_scatter_gradients(answer: Any, part: Any) -> str:
    part("value")
    steps, traces = 3, {}
    for ranks, real in ((2, False), (3, False), (4, False), (2, True)):
        weights, xs, ys = _stage_2(ranks)
        names = [f"layer {place // 2}'s {'bias' if place % 2 else 'weight'}" for place in range(len(weights))]
        own = [[_own_gradients([weight * (1 + step / 4) for weight in weights], x, y)
                for x, y in zip(xs, ys, strict=True)] for step in range(steps)]  # fmt: skip
        case = _on(ranks, real)
        on = SLOW if ranks == 4 else None
        got = _run(
            case, scattered, answer, weights, each(xs), each(ys), steps, 0.0 if real else 1.0, False, ranks=ranks,
            real=real, on=on,
        )  # fmt: skip
        for told in got:
            expect(
                "form" not in told,
                f"reduce_scatter_gradients returned {told.get('form')}: return a function without arguments that "
                "returns the list of gradient shards",
                "no-function",
            )
        for step in range(steps):
            found = [told["grads"][step] for told in got]
            expect(
                step == 0 or len(found[0]) != (step + 1) * len(weights),
                f"{case} the second step returned {len(found[0])} gradients for {len(weights)} parameters: forget "
                "those of a step when they have been handed out",
                "not-cleared",
            )
            _expect_gradients(f"{case} in step {step + 1}", found, own[step], names, "model.parameters()")
        traces[ranks, real] = got
    part("order")
    ranks, trace = 4, traces[4, False]
    calls = [event for event in trace.of(0) if event.charged or event.kind in ("send", "recv")]
    ended = sorted(event.end for event in trace.of(0, "work"))[len(WIDTHS) - 3]  # of the first step
    first = min((event.posted for event in calls), default=math.inf)
    expect(
        first < ended,
        f"{_on(ranks)} backward ended at {ended:.3g} s and the first collective began at {first:.3g} s: reduce each "
        "gradient in a hook, when backward has just made it, and while it runs on to earlier layers",
        "after-backward",
    )
    part("memory")
    weights, xs, ys = _stage_2(ranks)
    got = _run(_on(ranks), scattered, answer, weights, each(xs), each(ys), 2, 0.0, True, ranks=ranks)
    counts = [weight.numel() for weight in weights]
    whole, largest = BYTES * sum(counts), BYTES * max(counts)
    mine = BYTES * sum(_size(weight.shape, ranks) for weight in weights)
    case = f"{_on(ranks)} with {whole:,} bytes of gradients in all"
    for rank, told in enumerate(got):
        expect(
            told["whole"] == 0,
            f"{case} rank {rank} still holds {told['whole']:,} bytes in parameter.grad after backward: set "
            "parameter.grad = None once its shard is there",
            "kept-whole",
        )
        expect(
            told["shards"] <= 1.02 * mine,
            f"{case} the shards on rank {rank} have {mine:,} bytes and keep {told['shards']:,} alive: they are views "
            "into a larger storage, which lives as long as they do. Copy",
            "view",
        )
        place, most = max(told["moments"], key=lambda moment: moment[1])
        bound = whole + mine + 1.5 * largest  # the half is for activations
        expect(
            most <= bound,
            f"{case} rank {rank} held {most - whole:,} bytes beside the weights when backward reached layer "
            f"{place - 1}; its shards and the largest whole gradient are {mine + largest:,}: whole gradients pile up. "
            "Reduce each in its own hook, drop it, and have no more than one on its way",
            "too-much-held",
        )
        expect(
            told["all"] <= whole + 1.02 * mine + 0.1 * largest,
            f"{case} rank {rank} holds {told['all'] - whole:,} bytes beside the weights after backward; its shards are "
            f"{mine:,}",
            "kept",
        )
    part("bytes")
    _expect_few(f"{_on(ranks)} a backward", trace.collectives, steps, len(counts), "gradients")
    sent = max(trace.bytes_sent) / steps
    cost = 3 * mine
    expect(
        sent <= 1.02 * cost,
        f"{_on(ranks)} a rank sent {sent:,.0f} bytes a backward; a reduce-scatter sends {cost:,}"
        + (", an all-reduce twice that: use dist.reduce_scatter" if close(sent, 2 * cost, 0.1) else ""),
        "all-reduce" if close(sent, 2 * cost, 0.1) else "too-many-bytes",
    )
    return "mean gradient shards on 2, 3 and 4 ranks · during backward · one whole gradient at a time · Ψ(N-1)/N sent"


# fully_sharded_step


UNITS = [(13, 47), (47, 45), (45, 46), (46, 47), (47, 43), (43, 45)]  # tokens to vectors, then matrices


def _stage_3(ranks: int) -> tuple[list, each, list, list]:
    """Return the whole weights, each rank's shards of them, and each rank's tokens and targets."""
    grids = [_grid(shape, ranks, seed) / 16 for seed, shape in enumerate(UNITS)]
    weights = [_joined(grid, shape) for grid, shape in zip(grids, UNITS, strict=True)]
    shards = each([[grid[rank].clone() for grid in grids] for rank in range(ranks)])
    tokens = [values.long().abs() for values in integers(ranks, (2,), "float64")]
    return weights, shards, tokens, [values / 8 for values in integers(ranks, (2, UNITS[-1][1]), "float64")]


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


def during(answer: Any, ranks: int = 4) -> list[tuple[str, int]]:
    """Return what rank 0 does in a step of stage 3, and the bytes it has alive at each of these moments."""
    _, shards, xs, ys = _stage_3(ranks)
    told = run(fully, answer, shards, UNITS, each(xs), each(ys), 2, True, ranks=ranks, on=Cluster())[0]
    return [(f"unit {place} {doing}", held) for place, doing, held, _ in told["moments"]]


@check(value=3, memory=3, collectives=1, bytes=1)
def check_fully_sharded_step(answer: Any, part: Any) -> str:
    part("value")
    names = [f"unit {place}" for place in range(len(UNITS))]
    traces = {}
    see = "from exercises_tests.ch07_fsdp import during; during(fully_sharded_step)"
    for ranks, real in ((2, False), (3, False), (4, False), (2, True)):
        start, shards, xs, ys = _stage_3(ranks)
        own = _own_unit_gradients(start, xs, ys)
        first_losses = [loss.item() for loss in _losses(start, xs, ys)]

        def gradient(step: int, weights: list, xs: list = xs, ys: list = ys) -> list:
            own = _own_unit_gradients([weight.detach() for weight in weights], xs, ys)
            return [sum(grads) / len(grads) for grads in zip(*own, strict=True)]

        want = _adamw_of(start, STEPS, gradient)
        case = _on(ranks, real)
        got = _run(case, fully, answer, shards, UNITS, each(xs), each(ys), STEPS, False, ranks=ranks, real=real)
        for told in got:
            expect(
                "form" not in told,
                f"{case} fully_sharded_step returned {told.get('form')}: return the loss and the list of gradient "
                "shards",
                "form",
            )
            expect(
                "changed" not in told,
                f"{case} the shards of weights themselves have changed: return gradients, and leave the step to AdamW",
                "steps",
            )
        _expect_gradients(f"{case} in step 1", [told["grads"] for told in got], own, names, "units")
        for rank, told in enumerate(got):
            expect(
                isinstance(told["losses"][0], float) and close(told["losses"][0], first_losses[rank], 1e-9, 1e-9),
                f"{case} the loss on rank {rank} is {told['losses'][0]}; that of its rows is {first_losses[rank]:.6g}",
                "loss",
            )
        for place, shape in enumerate(UNITS):
            mine = _joined([told["weights"][place] for told in got], shape)
            expect(
                near(mine, want[place], 1e-9),
                f"{case} after {STEPS} steps the weight of unit {place} {_versus(mine, 'on one device', want[place])}",
                "value",
            )
        traces[ranks, real] = got
    part("memory")
    ranks = 4
    _, shards, xs, ys = _stage_3(ranks)
    counts = [math.prod(shape) for shape in UNITS]
    mine = BYTES * sum(_size(shape, ranks) for shape in UNITS)
    largest = BYTES * max(counts)
    case = f"{_on(ranks)} with {BYTES * sum(counts):,} bytes of weights in all"
    got = _run(case, fully, answer, shards, UNITS, each(xs), each(ys), 2, True, ranks=ranks)
    keepers = (
        "What may hold it: its name, also one left over from the forward loop (del), or the name of the unit's output, "
        "whose graph has it",
        "Autograd keeps what it needs for backward (compute forward under torch.no_grad())",
    )
    for rank, told in enumerate(got):
        bound = 4 * mine + largest  # weights, gradients, two moments; and one whole unit
        place, _, held, _ = told["moments"][0]
        expect(
            held <= bound + largest / 2,  # the half is for activations
            f"{case} rank {rank} had {held:,} bytes alive when unit {place} began; its shards and the largest unit are "
            f"{bound:,}. With all weights whole this is plain data parallelism: gather a unit only when its turn comes",
            "gathered-early", see,
        )  # fmt: skip
        for place, doing, held, others in told["moments"]:
            expect(
                not others,
                f"{case} while unit {place} {doing}, the whole weight of unit {others[0] if others else ''} is still "
                f"alive: free it before the next gather. {keepers[doing == 'computes']}. A view keeps all of its "
                "storage",
                "kept", see,
            )  # fmt: skip
            expect(
                held <= bound + largest / 2,
                f"{case} while unit {place} {doing}, rank {rank} has {held:,} bytes alive; shards of weights, "
                f"gradients and moments and the largest unit are {bound:,}: something whole is kept",
                "too-much-held", see,
            )  # fmt: skip
        expect(
            told["views"] <= 1.02 * mine,
            f"{case} the gradient shards on rank {rank} have {mine:,} bytes and keep {told['views']:,} alive: they are "
            "views into a larger storage. Copy",
            "view", see,
        )  # fmt: skip
        expect(
            told["held"] <= 1.02 * 4 * mine and told["kept"] <= 1.02 * 3 * mine,
            f"{case} rank {rank} holds {told['held']:,} bytes between steps; shards of weights, gradients and moments "
            f"are {4 * mine:,}"
            + (". The loss was returned with its graph, which keeps the output: detach it" if told["graph"] else ""),
            "kept-after-step", see,
        )  # fmt: skip
    part("collectives")
    calls = traces[4, False].collectives
    gathers, most = calls[0].count("all_gather") / STEPS, 2 * len(UNITS)
    expect(
        gathers <= most,
        f"on {ranks} ranks a step gathers {gathers:g} times; {len(UNITS)} units need {most}: each is gathered twice, "
        "for forward and for backward",
        "too-many-collectives",
    )
    others = [[kind for kind in mine if kind != "all_gather"] for mine in calls]
    _expect_few(f"on {ranks} ranks a step, beside gathers,", others, STEPS, len(UNITS), "units")
    part("bytes")
    sent, cost = max(traces[4, False].bytes_sent) / STEPS, 3 * mine
    expect(
        sent <= 1.02 * 3 * cost,
        f"on {ranks} ranks a rank sent {sent:,.0f} bytes a step; two gathers and a reduce-scatter send {3 * cost:,}"
        + (", with an all_reduce of gradients it is a third more: use dist.reduce_scatter"
           if close(sent, 4 * cost, 0.1) else ""),
        "all-reduce" if close(sent, 4 * cost, 0.1) else "too-many-bytes",
    )  # fmt: skip
    return f"the weights of one AdamW after {STEPS} steps on 2, 3 and 4 ranks · one whole unit at a time · 3Ψ(N-1)/N"


# communication_bytes


@check(stages=2, hybrid=1)
def check_communication_bytes(answer: Any, part: Any) -> str:
    def judge(got: Any, want: float, case: str, mistakes: list) -> None:
        number = isinstance(got, (int, float)) and not isinstance(got, bool)
        expect(number, f"{case} it returned {got!r}: return a number of bytes", "form")
        if close(got, want, 1e-6, 1):
            return
        for other, said, code in mistakes:
            expect(close(other, want, 1e-6, 1) or not close(got, other, 1e-6, 1), f"{case} {got:,.0f}: {said}", code)
        expect(False, f"{case} {got:,.0f} bytes; it should be {want:,.0f}", "value")

    part("stages")
    for stage, parameters, ranks, element in ((0, 1e9, 4, 8), (1, 6e9, 8, 8), (2, 7.5e9, 64, 8), (3, 7.5e9, 64, 2),
                                              (3, 1000, 3, 4), (2, 1000, 1, 4)):  # fmt: skip
        tensors = {0: 2, 1: 2, 2: 2, 3: 3}[stage]
        want = tensors * (ranks - 1) / ranks * parameters * element
        case = f"at stage {stage} with {parameters:,.0f} parameters of {element} bytes on {_on(ranks)[3:]}:"
        judge(answer(stage, parameters, ranks, element), want, case, [
            (tensors * parameters * element, "a ring sends (N-1)/N of a tensor, its own part it has", "factor"),
            (want / element, "elements, not bytes: times element_bytes", "elements"),
            (want / element * 2, f"2 bytes an element, and element_bytes is {element}", "fixed-bytes"),
            (want / tensors, "once around the ring only. An all-reduce goes twice: a reduce-scatter, and a gather",
             "once"),
            (want * ranks, "the bytes of all ranks; asked is what one rank sends", "all-ranks"),
            ((ranks - 1) / ranks * parameters * element * 3,
             f"stage {stage} takes two tensors: the reduce-scatter of gradients and the all-gather of weights that an "
             "all-reduce is made of", "stage-2"),
            ((ranks - 1) / ranks * parameters * element * 2,
             "stage 3 takes three tensors: weights are gathered twice, for forward and for backward, and gradients "
             "reduce-scattered", "stage-3"),
        ])  # fmt: skip
    part("hybrid")
    for parameters, ranks, element, nodes in ((8e9, 16, 2, 2), (7.5e9, 64, 2, 8)):
        inside, size = ranks // nodes, parameters * element
        within, across = 3 * (inside - 1) / inside * size, 2 * (nodes - 1) / nodes * size
        case = f"at stage 3 with {parameters:,.0f} parameters of {element} bytes on {nodes} nodes of {inside} ranks:"
        judge(answer(3, parameters, ranks, element, nodes), within + across / inside, case, [
            (3 * (ranks - 1) / ranks * size, "weights are sharded over all ranks; shard them inside a node only",
             "not-hybrid"),
            (within, "nothing is said between nodes: each rank has to all-reduce its gradient shard with those of "
             "other nodes", "nothing-across"),
            (within + across, "whole gradients between nodes; a rank has only a shard left to all-reduce there",
             "whole-across"),
        ])  # fmt: skip
    return "2, 2, 2 and 3 tensors times (N-1)/N · hybrid: inside a node, and a shard across"


# clip_by_global_norm


@check(value=2, small=1, collectives=1)
def check_clip_by_global_norm(answer: Any, part: Any) -> str:
    def judge(ranks: int, scale: float, real: bool = False) -> Results:
        drawn = [integers(ranks, shape, "float64") for shape in ((7,), (12,), (3,))]
        grads = [[tensors[rank] * (rank + 1) * 0.5 for tensors in drawn] for rank in range(ranks)]
        squares = [[tensor.square().sum().item() for tensor in row] for row in grads]
        norm = math.sqrt(sum(map(sum, squares)))
        norms = [math.sqrt(sum(row)) for row in squares]
        limit = scale * norm
        factor = min(1.0, limit / norm)
        want = [[tensor * factor for tensor in row] for row in grads]
        case = f"{_on(ranks, real)} with a global norm of {norm:.4g} and a limit of {limit:.4g}"
        given = each([[tensor.clone() for tensor in row] for row in grads])
        got = _run(case, clipped, answer, given, limit, ranks=ranks, real=real)
        for rank, (told, _) in enumerate(got):
            said = [
                (norms[rank], "its own shards only: sum the squares over ranks", "local-norm"),
                (sum(norms), "a sum of norms: add the squares, and take the root at the end", "sum-of-norms"),
                (norm**2, "the square of the norm: take the square root", "no-root"),
            ]
            for other, words, code in said:
                expect(
                    close(other, norm, 1e-5) or not close(told, other, 1e-5),
                    f"{case} the norm on rank {rank} is {told:.6g}, that of {words}" if isinstance(told, float) else "",
                    code,
                )
            expect(
                close(told, norm, 1e-5),
                f"{case} it returned {told} on rank {rank}: return the global norm before clipping",
                "norm",
            )
        scaled = [mine for _, mine in got]
        if near(scaled, want, 1e-4):
            return got
        expect(
            not near(scaled, grads, 1e-12),
            f"{case} the gradients are what they were: scale them in place, do not put new ones into the list",
            "not-in-place",
        )
        factors = []
        for rank, (mine, was) in enumerate(zip(scaled, grads, strict=True)):
            for one, other in zip(mine, was, strict=True):
                expect(one.shape == other.shape, f"{case} a gradient on rank {rank} has another shape", "shape")
                ratios = (one / other)[other != 0]
                expect(
                    near(ratios, ratios[:1].expand(len(ratios)), 1e-3),
                    f"{case} a gradient on rank {rank} was {_numbers(other)} and is {_numbers(one)}: do not limit each "
                    "element by itself, but scale all by the same factor",
                    "per-element",
                )
            sums = [(one.abs().sum().item(), other.abs().sum().item()) for one, other in zip(mine, was, strict=True)]
            ratios = [round(now / before, 6) for now, before in sums if before]
            expect(
                max(ratios) - min(ratios) <= 1e-3,
                f"{case} rank {rank} scaled its gradients by different factors, {ratios}: not each tensor by its own "
                "norm, but all by the same factor",
                "per-tensor",
            )
            factors.append(ratios[0])
        expect(
            scale < 1 or max(factors) <= 1.001,
            f"{case} the gradients were scaled up, by {max(factors)}: below the limit they stay as they are",
            "scales-up",
        )
        least, most = (factors.index(one) for one in (min(factors), max(factors)))
        expect(
            factors[most] - factors[least] <= 1e-3,
            f"{case} rank {least} scaled its gradients by {factors[least]} and rank {most} by {factors[most]}: every "
            f"rank scales by the same factor, max_norm divided by the global norm, {factor:.6g}",
            "own-factor",
        )
        expect(False, f"{case} the gradients were scaled by {factors[0]}; it should be {factor:.6g}", "value")
        return got

    part("value")
    trace = judge(4, 0.25)
    judge(3, 0.5)
    judge(2, 0.1, real=True)
    part("small")
    judge(4, 3.0)
    part("collectives")
    calls = trace.collectives[0]
    expect(
        len(calls) <= 1,
        f"on 4 ranks with 3 tensors it took {len(calls)} collectives ({', '.join(calls)}); add the squares of all "
        "tensors first, then one all_reduce of one number",
        "too-many-collectives",
    )
    return "one factor for all shards of all ranks, from one all-reduce of one number"


# Checkpoints: files are plain bytes by name, so that ranks need no common disk


def packed(thing: Any) -> bytes:
    """Return what torch.save would write."""
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def _pieces(tensor: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """Return the flat pieces that the ranks hold, the last ones padded with zeros."""
    flat = torch.zeros(ranks * _size(tensor.shape, ranks), dtype=tensor.dtype)
    flat[: tensor.numel()] = tensor.flatten()
    return list(flat.view(ranks, -1))


def _held(state: dict, ranks: int) -> list[dict[str, torch.Tensor]]:
    """Return what each rank holds of a state: a piece of every tensor."""
    cut = {name: _pieces(tensor, ranks) for name, tensor in state.items()}
    return [{name: cut[name][rank].clone() for name in cut} for rank in range(ranks)]


def _shapes(state: dict) -> dict[str, tuple]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def _extra() -> dict[str, Any]:
    """Return what a checkpoint holds beside tensors of the model and its optimizer."""
    return {"step": 7, "random": integers(1, (16,), "uint8")[0]}


def _state(wide: int = 5) -> dict[str, torch.Tensor]:
    """Return the tensors of a small model and its optimizer: shapes that neither 2, 3 nor 4 divides."""
    shapes = {"up.weight": (wide, 3), "up.bias": (wide,), "down.weight": (2, 57, 9)}
    state = {}
    for number, (name, shape) in enumerate(shapes.items()):
        state[name] = integers(1, shape)[0] + 20 * number
        state[f"{name} exp_avg"] = integers(1, shape)[0] / 8 + 20 * number + 10
    return state


def saved(dist: Any, answer: Any, shards: dict, shapes: dict, extra: dict) -> Any:
    rank, ranks, views = dist.get_rank(), dist.get_world_size(), {}
    for name, shard in shards.items():  # as training has them: a view into the buffer that was gathered
        room = torch.zeros(ranks * shard.numel(), dtype=shard.dtype)
        views[name] = room[rank * shard.numel() : (rank + 1) * shard.numel()]
        views[name].copy_(shard)
    files = answer(dist, views, shapes, extra)
    if isinstance(files, dict) and all(isinstance(data, bytes) for data in files.values()):
        return {str(name): data for name, data in files.items()}
    return f"{type(files).__name__} {files!r}"[:80]


def opened(dist: Any, files: dict) -> dict:
    """Read files apart from whoever wrote them."""
    contents = {}
    for name, data in files.items():
        try:
            contents[name] = torch.load(io.BytesIO(data), weights_only=True)
        except Exception as error:
            contents[name] = f"{type(error).__name__}: {error}"[:200]
    return contents


def loaded(dist: Any, answer: Any, files: dict, shards: dict, shapes: dict) -> tuple:
    kind = sentence = ""
    extra = None
    try:
        extra = answer(dist, files, dict(shards), shapes)
    except NotImplementedError:
        raise
    except Exception as error:
        kind, sentence = type(error).__name__, str(error)
    return kind, sentence, shards, extra


def _same_shapes(got: Any, want: dict) -> bool:
    if not isinstance(got, dict) or list(map(str, got)) != list(want):
        return False
    return all(isinstance(shape, (tuple, list)) and tuple(shape) == want[name] for name, shape in got.items())


@check(files=1, value=2, size=1)
def check_save_sharded(answer: Any, part: Any) -> str:
    ranks, state, extra = 4, _state(), _extra()
    shapes, shards = _shapes(state), _held(state, ranks)
    whole, mine = (sum(t.nbytes for t in held.values()) for held in (state, shards[0]))
    wanted = [f"shard-{rank}.pt" for rank in range(ranks)]
    case = f"on {ranks} ranks"

    part("files")
    got = _run(case, saved, answer, each(shards), dict(shapes), dict(extra), ranks=ranks)
    folder: dict[str, bytes] = {}
    for rank, files in enumerate(got):
        expect(
            isinstance(files, dict),
            f"{case} rank {rank} returned {files}: return {{file name: bytes}}, the files that this rank writes",
            "form",
        )
        twice = sorted(set(files) & set(folder))
        expect(
            not twice,
            f"{case} rank {rank} writes {twice[:1]}, and so does a rank before it: in one folder the last one wins. "
            "Name a file after its rank; only rank 0 writes manifest.pt",
            "one-name",
        )
        folder |= files
    writers = [rank for rank, files in enumerate(got) if files]
    expect(
        writers != [0] or len(folder.get(wanted[0], b"")) > 0.9 * whole or wanted[1] in folder,
        f"{case} only rank 0 writes: {sorted(folder)}. It holds {mine:,} of {whole:,} bytes, so "
        f"{1 - mine / whole:.0%} of the training is lost. Every rank writes what it holds",
        "rank-0-shard",
    )
    missing = [name for name in (*wanted, "manifest.pt") if name not in folder]
    expect(not missing, f"{case} the files are {sorted(folder)}: {', '.join(missing)} missing", "missing-file")
    expect(
        set(folder) == {*wanted, "manifest.pt"},
        f"{case} the files are {sorted(folder)}; wanted are {', '.join(wanted)} and manifest.pt",
        "more-files",
    )
    part("value")
    try:
        contents = run(opened, folder, ranks=1, on=Cluster())[0]
    except RankFailed as failure:
        expect(False, f"{case} the files cannot be read back: {failure}", "unreadable")
    for rank, name in enumerate(wanted):
        found = contents[name]
        expect(
            isinstance(found, dict),
            f"{case} {name} read back with torch.load(..., weights_only=True) is {str(found)[:100]}: write the dict of "
            "shards with torch.save",
            "unreadable",
        )
        lost = [key for key in shapes if key not in found]
        expect(not lost, f"{case} {name} does not hold {lost[:1]}: write every shard under its own name", "lost")
        for key, shard in shards[rank].items():
            expect(
                not (rank and equal(found[key], shards[0][key]) and not equal(shard, shards[0][key])),
                f"{case} {name} holds rank 0's shard of {key}: write what this rank holds",
                "rank-0-shard",
            )
            expect(
                equal(found[key], shard),
                f"{case} {key} in {name} {_versus(found[key], f'what rank {rank} holds is', shard)}",
                "value",
            )
    manifest = contents["manifest.pt"]
    expect(
        isinstance(manifest, dict) and {"ranks", "shapes", "extra"} <= set(manifest),
        f"{case} manifest.pt is {str(manifest)[:100]}: write a dict of ranks, shapes and extra",
        "manifest",
    )
    expect(
        manifest["ranks"] == ranks and _same_shapes(manifest["shapes"], shapes),
        f"{case} the manifest says ranks = {manifest['ranks']!r} and shapes = {str(manifest['shapes'])[:80]}; there "
        f"are {ranks} ranks, and `shapes` are those of the whole tensors",
        "manifest",
    )
    expect(
        equal(manifest["extra"], extra),
        f"{case} the manifest's extra is {str(manifest['extra'])[:80]}: write the one that was given, or training "
        "begins again at the first batch",
        "extra",
    )
    _run("on 2 real ranks", saved, answer, each(shards[:2]), shapes, extra, ranks=2, real=True)
    part("size")
    most = max(len(folder[name]) for name in wanted)
    allowed = mine + 1024 * (len(shapes) + 2)
    expect(
        most <= allowed,
        f"{case} a rank's file has {most:,} bytes; its shards have {mine:,}, the whole state {whole:,}. A shard is a "
        "view, and torch.save writes the whole storage under a view: clone it first",
        "whole-storage",
        "torch.arange(1000)[:10].untyped_storage().nbytes()",
    )
    sent = max(got.bytes_sent)
    expect(
        sent <= 4096,
        f"{case} a rank sent {sent:,} bytes: nothing need be gathered, every rank writes its own file",
        "gathered",
    )
    return "a file a rank, with its shard and nothing else · a manifest · nothing gathered"


def _folder(state: dict, ranks: int, extra: dict) -> dict[str, bytes]:
    """Return the files of a checkpoint that `ranks` ranks have saved."""
    files = {f"shard-{rank}.pt": packed(shards) for rank, shards in enumerate(_held(state, ranks))}
    return files | {"manifest.pt": packed({"ranks": ranks, "shapes": _shapes(state), "extra": extra})}


def _blank(shapes: dict, ranks: int) -> list[dict[str, torch.Tensor]]:
    """Return what each rank holds before: shards of a model that was just made."""
    return [
        {name: torch.full((_size(shape, ranks),), 90.0 + rank) for name, shape in shapes.items()}
        for rank in range(ranks)
    ]


def _loads(answer: Any, state: dict, before: int, ranks: int, real: bool = False) -> None:
    shapes, extra = _shapes(state), _extra()
    files = _folder(state, before, extra)
    old = {name: torch.cat(_pieces(tensor, before)) for name, tensor in state.items()}
    want = {name: _pieces(tensor, ranks) for name, tensor in state.items()}
    case = f"saved on {before} ranks and loaded on {ranks}{' real ones' if real else ''}"
    start, given = _blank(shapes, ranks), each(_blank(shapes, ranks))
    got = _run(case, loaded, answer, files, given, dict(shapes), ranks=ranks, real=real)
    for rank, (kind, sentence, mine, _) in reversed(list(enumerate(got))):
        expect(not kind, f"{case}: rank {rank} raised {kind}: {sentence}", "raised")
        for name, tensor in state.items():
            size = want[name][0].numel()
            here = max(0, min(size, tensor.numel() - rank * size))  # without padding, which may hold anything
            right, seen = want[name][rank][:here], mine[name]
            if isinstance(seen, torch.Tensor) and seen.shape == (size,) and equal(seen[:here], right):
                continue
            expect(
                not equal(seen, start[rank][name]),
                f"{case} {name} on rank {rank} is what it was: copy into the tensors of `shards`, do not make new ones",
                "unchanged",
            )
            split, file = old[name].tensor_split(ranks)[rank], old[name].view(before, -1)[rank % before]
            wrong = [
                (split, "the padding of the old shards was counted when the joined pieces were cut anew: rank r's part "
                 "begins at r times the length of its shard", "padding"),
                (file, f"that is what shard-{rank}.pt holds: with another number of ranks a rank's part lies in other "
                 "files", "own-file"),
            ]  # fmt: skip
            for other, said, code in wrong:
                count = min(here, len(other))
                expect(
                    before == ranks or count == 0 or equal(other[:count], right[:count]) or rank >= before
                    or not equal(seen[:count], other[:count]),
                    f"{case} {name} on rank {rank} begins {_numbers(seen[:here])}; it must be {_numbers(right)}: "
                    + said,
                    code,
                )  # fmt: skip
            expect(False, f"{case} {name} on rank {rank} {_versus(seen[:here], 'it must be', right)}", "value")
    for rank, (*_, found) in enumerate(got):
        expect(
            equal(found, extra),
            f"{case} rank {rank} returned {str(found)[:60]}: return the manifest's extra, or training begins again at "
            "the first batch",
            "extra",
        )


def _refuses(answer: Any, what: str, files: dict, shapes: dict, culprit: str, *others: str, ranks: int = 2) -> None:
    """Judge that a damaged checkpoint is refused on every rank, and that nothing has changed anywhere.

    The sentence has to name the culprit, or what else is as good a name of it.
    """
    before = _blank(shapes, ranks)
    got = _run(what, loaded, answer, files, each(_blank(shapes, ranks)), dict(shapes), ranks=ranks)
    refused = [rank for rank, (kind, *_) in enumerate(got) if kind]
    expect(
        bool(refused),
        f"{what}: it was loaded as if all were well. Raise ValueError with a sentence that names {culprit}",
        "not-refused",
    )
    went_on = [rank for rank in range(ranks) if rank not in refused]
    expect(
        not went_on,
        f"{what}: rank {refused[0]} refused and rank {went_on[0] if went_on else 0} went on: every rank must look at "
        "every file, or ask the others, before it changes anything",
        "some-ranks",
    )
    for rank, (_, _, shards, _) in enumerate(got):
        for name, shard in shards.items():
            expect(
                equal(shard, before[rank][name]),
                f"{what}: rank {rank} refused, but {name} is already changed: a model half loaded is worse than none. "
                "Read and judge everything first, and copy only then",
                "half-loaded",
            )
    for rank, (kind, sentence, _, _) in enumerate(got):
        expect(
            kind == "ValueError" and len(sentence.split()) >= 3 and "\n" not in sentence.strip(),
            f"{what}: rank {rank} raised {kind}: {sentence[:80]!r}. Raise ValueError with one sentence that says what "
            "is wrong",
            "no-sentence",
        )
        expect(
            any(name in sentence for name in (culprit, *others)),
            f"{what}: rank {rank} says {sentence[:100]!r}, which does not name {culprit}",
            "no-culprit",
        )


@check(value=2, refuses=3)
def check_load_resharded(answer: Any, part: Any) -> str:
    state = _state()
    shapes, files = _shapes(state), _folder(state, 4, _extra())
    part("value")
    for before, ranks in ((4, 4), (4, 2), (2, 3), (3, 1)):
        _loads(answer, state, before, ranks)
    _loads(answer, state, 4, 2, real=True)
    part("refuses")
    last, first = "shard-3.pt", "shard-0.pt"
    _refuses(answer, f"{last} is missing", {n: d for n, d in files.items() if n != last}, shapes, last)
    _refuses(answer, f"{last} ends in the middle", files | {last: files[last][: len(files[last]) // 2]}, shapes, last)
    _refuses(answer, f"{first} is empty", files | {first: b""}, shapes, first)
    gone = {name: data for name, data in files.items() if name != "manifest.pt"}
    _refuses(answer, "the manifest is missing", gone, shapes, "manifest.pt")
    turned = shapes | {"down.weight": (57, 2, 9)}
    words = "the checkpoint is of another model, whose {} has {}, and this one's {}"
    _refuses(answer, words.format("down.weight", (2, 57, 9), (57, 2, 9)), files, turned, "down.weight")
    _refuses(answer, words.format("up.weight", (5, 3), (7, 3)), files, _shapes(_state(7)), "up.")
    more = shapes | {"head.weight": (4, 4)}
    _refuses(answer, "the model has head.weight, which the checkpoint has not", files, more, "head.weight")
    fewer = {name: shape for name, shape in shapes.items() if not name.startswith("down")}
    _refuses(answer, "the checkpoint has down.weight, which the model has not", files, fewer, "down.weight")
    rest = {name: piece for name, piece in _held(state, 4)[3].items() if name != "up.bias"}
    _refuses(answer, f"{last} has no up.bias", files | {last: packed(rest)}, shapes, last, "up.bias")
    later = {name: data for name, data in _folder(state, 2, _extra()).items() if name != "manifest.pt"}
    words = "shard-0.pt and shard-1.pt are of a later save by 2 ranks, the manifest and the others of one by 4"
    _refuses(answer, words, files | later, shapes, first, "shard-1.pt", *shapes)
    return "any number of ranks before and after · data order back · damaged or foreign: refused, nothing changed"


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


def scripted(dist: Any, answer: Any, seed: int, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int) -> tuple:
    model = Stream(seed)
    got = answer(dist, model, list(zip(x, y, strict=True)), epochs, batch)
    if isinstance(got, dict):
        plain = {str(name): getattr(value, "_local_tensor", value) for name, value in got.items()}
        got = {name: t.detach().clone() for name, t in plain.items() if isinstance(t, torch.Tensor)}
    else:
        got = type(got).__name__
    return got, model.rows, max(model.whole, default=-1), sorted(set(model.dtypes))


def _script_reference(seed: int, x: torch.Tensor, y: torch.Tensor, rows: list, scale: float) -> dict:
    """Return the weights after the steps in which rank r sees `rows[r][step]`: computed in bf16, kept in fp32.

    `scale`: what the gradients are multiplied with while their norm is clipped.
    """
    model = Stream(seed)
    weights = [p.detach().clone() for p in model.parameters()]
    for step in range(len(rows[0])):
        total = [torch.zeros_like(w) for w in weights]
        for mine in rows:
            half = [w.bfloat16().requires_grad_() for w in weights]
            named = dict(zip(dict(model.named_parameters()), half, strict=True))
            out = torch.func.functional_call(model, named, (x[mine[step]].bfloat16(),))
            nn.functional.mse_loss(out.float(), y[mine[step]]).backward()
            total = [t + h.grad.float() / len(rows) for t, h in zip(total, half, strict=True)]
        norm = scale * math.sqrt(sum(float((t * t).sum()) for t in total))
        weights = [w - RATE * t * min(1.0, CLIP / norm) for w, t in zip(weights, total, strict=True)]
    return dict(zip(dict(model.named_parameters()), weights, strict=True))


@check(wrapped=1, optimizer=1, scaler=1, checkpoint=1, sampler=1)
def check_fix_this_script(answer: Any, part: Any) -> str:
    ranks, seed = 4, 3
    generator = torch.Generator().manual_seed(int(os.environ.get("COURSE_SEED", "0")) + 1)
    x = torch.randn(ROWS, 17, generator=generator)
    x[:, 0] = torch.arange(ROWS)
    y = 8 * torch.randn(ROWS, 4, generator=generator)  # far off, so that every gradient is clipped
    start = {name: p.detach() for name, p in Stream(seed).named_parameters()}
    total, unit = sum(4 * p.numel() for p in start.values()), 4 * start["blocks.0.weight"].numel()
    root, steps = 4 * start["head.weight"].numel(), EPOCHS * ROWS // ranks // BATCH
    case = f"on {ranks} real ranks"
    got = _run(case, scripted, answer, seed, x.clone(), y.clone(), EPOCHS, BATCH, ranks=ranks, real=True)
    part("wrapped")
    whole, dtypes = max(peak for _, _, peak, _ in got), got[0][3]
    expect(whole >= 0, f"{case} the model was never called: train it", "not-trained")
    half = dtypes == ["bfloat16"]
    allowed = (unit + root) // (2 if half else 1)
    expect(
        whole < total // (2 if half else 1),
        f"{case} all {whole:,} bytes of weights were whole on a rank at once; one block and what belongs to no block "
        f"are {allowed:,}. fully_shard was not called, or for the root only, which gathers the whole model as one "
        "unit: call it for each block of model.blocks first, and then for the model",
        "root-only",
    )
    expect(
        whole <= allowed,
        f"{case} {whole:,} bytes of weights were whole on a rank at once; one block and what belongs to no block are "
        f"{allowed:,}: let each block be freed after its forward",
        "not-freed",
    )
    expect(
        half,
        f"{case} the blocks compute in {', '.join(dtypes)}: give fully_shard a MixedPrecisionPolicy with "
        "param_dtype=torch.bfloat16, for every block and for the root",
        "not-bf16",
    )
    rows = [mine for _, mine, _, _ in got]
    final = got[0][0]
    expect(
        isinstance(final, dict) and set(final) == set(start),
        f"{case} rank 0 returned {sorted(final) if isinstance(final, dict) else final}; the weights by name are asked "
        f"for: {', '.join(start)}",
        "form",
    )
    have = sum(tensor.numel() for tensor in final.values())
    part("optimizer")
    same = all(equal(final[name].flatten(), start[name].flatten()[: final[name].numel()]) for name in start)
    expect(
        not same,
        f"{case} no weight has changed: fully_shard puts new parameters into the model, and an optimizer that was "
        "built before holds the old ones. Build it after sharding",
        "optimizer-first",
    )
    part("scaler")
    if any(len(mine) != len(rows[0]) or any(not one for one in mine) for mine in rows):
        taken = [len(mine) for mine in rows]
        expect(False, f"{case} the ranks took {taken} steps with rows: all must take equally many", "steps")
    right, scaled = (_script_reference(seed, x, y, rows, scale) for scale in (1.0, 2.0**16))
    moved = math.sqrt(sum(float(((right[name] - start[name]) ** 2).sum()) for name in start))

    def far(want: dict) -> float:
        """Return how far rank 0's weights, or as much of them as it returned, are from these, as a share of the way."""
        pairs = [(final[name].flatten().float(), want[name].flatten()) for name in start]
        return math.sqrt(sum(float(((a - b[: len(a)]) ** 2).sum()) for a, b in pairs)) / moved

    away, little = far(right), far(start)
    expect(
        not little < 0.05 or little > 0.5 * have / sum(p.numel() for p in start.values()),
        f"{case} after {steps} steps the weights have moved {little * moved:.2g}; without a scaler they move "
        f"{moved:.2g}. A gradient scaler multiplies the loss by {2**16:,}, and clipping sees gradients that are as "
        "much too large. bf16 has the range of fp32 and needs no scaler",
        "scaler",
    )
    expect(
        away < 0.05,
        f"{case} after {steps} steps the weights are {away:.0%} of the way off those of gradient descent on the rows "
        f"seen, with learning rate {RATE} and the global norm clipped to {CLIP:g}: take the mean squared error of "
        "model(x).float(), clip, step, and clear the gradients in every step",
        "value",
    )
    part("checkpoint")
    expect(
        have == sum(p.numel() for p in start.values()),
        f"{case} what rank 0 returned has {have:,} of {sum(p.numel() for p in start.values()):,} numbers: rank 0's "
        "shard only. Gather the full state dict, with all ranks taking part",
        "rank-0-shard",
    )
    expect(
        all(equal(list(final[name].shape), list(start[name].shape)) for name in start),
        f"{case} the weights that rank 0 returned have other shapes than the model's",
        "shape",
    )
    part("sampler")
    epochs = [
        [[row for one in mine[e * len(mine) // EPOCHS : (e + 1) * len(mine) // EPOCHS] for row in one] for mine in rows]
        for e in range(EPOCHS)
    ]
    for number, dealt in enumerate(epochs):
        seen = sorted(row for mine in dealt for row in mine)
        missed = sorted(set(range(ROWS)) - set(seen))
        expect(
            not missed,
            f"{case} in epoch {number} rows {missed[:4]}{' and more' if len(missed) > 4 else ''} of {ROWS} were seen "
            "by no rank and others twice: each rank shuffled in another order. The sampler's seed must be the same on "
            "every rank",
            "sampler-seed",
        )
        expect(len(seen) == ROWS, f"{case} in epoch {number} {len(seen)} rows were seen, of {ROWS}", "rows")
    expect(
        epochs[0] != epochs[1] or epochs[0] != epochs[2],
        f"{case} every epoch deals the rows out in the same order: call sampler.set_epoch(epoch)",
        "same-order",
    )
    return "a block at a time · weights that move, as they must · all of them saved · every row once an epoch"
