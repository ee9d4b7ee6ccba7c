"""A step of stage 3 on a small model of six units, and the bytes that a rank has alive at each of its moments."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, bytes_held, each, run
from course_lib.engine.storages import Alive, Watched
from course_lib.lessons.sample_data import integers
from course_lib.training import adamw

UNITS = [(13, 47), (47, 45), (45, 46), (46, 47), (47, 43), (43, 45)]  # tokens to vectors, then matrices
EPSILON = 0.1  # of AdamW: with its usual 1e-8 a gradient N times too large would give the same step


def during(answer: Any, ranks: int = 4) -> list[tuple[str, int]]:
    """Return what rank 0 does in a step of stage 3, and the bytes it has alive at each of these moments."""
    _, shards, xs, ys = six_units(ranks)
    told = run(fully, answer, shards, UNITS, each(xs), each(ys), 2, True, ranks=ranks, on=Cluster())[0]
    return [(f"unit {place} {doing}", held) for place, doing, held, _ in told["moments"]]


def fully(
    dist: Any, answer: Any, shards: list, shapes: list, x: torch.Tensor, y: torch.Tensor, steps: int, watch: bool
) -> dict[str, Any]:
    (alive, looking, dist), moments, watched = looking_on(dist, watch), [], {}
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
        first = first or [copy_of(grad) for grad in grads]
        if sizes != [list(mine.shape) for mine in shards]:
            return {"sizes": sizes, "grads": first}
        for mine, grad, state in zip(shards, grads, states, strict=True):
            adamw(mine, grad, state, epsilon=EPSILON)
        seen = {"moments": list(moments), "views": bytes_held(list(grads)), "grads": first}
        seen["held"] = alive.bytes(shards, states)
        seen["graph"] = isinstance(loss, torch.Tensor) and loss.requires_grad
        del got, loss, grads, grad
    seen["kept"] = alive.bytes(shards, states)
    losses = [float(loss) if isinstance(loss, (int, float)) else None for loss in losses]
    return {"weights": shards, "losses": losses, **seen}


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


def looking_on(dist: Any, watch: bool) -> tuple:
    """Return who counts the bytes alive, under what the answer runs, and the dist that it gets."""
    alive = Alive()
    return (alive, alive, alive.beside(dist)) if watch else (alive, contextlib.nullcontext(), dist)


def copy_of(thing: Any) -> Any:
    return thing.detach().clone() if isinstance(thing, torch.Tensor) else None


# Its weights, dealt out


def six_units(ranks: int) -> tuple[list, each, list, list]:
    """Return the whole weights, each rank's shards of them, and each rank's tokens and targets."""
    grids = [in_rows(shape, ranks, seed) / 16 for seed, shape in enumerate(UNITS)]
    weights = [rejoined(grid, shape) for grid, shape in zip(grids, UNITS, strict=True)]
    shards = each([[grid[rank].clone() for grid in grids] for rank in range(ranks)])
    tokens = [values.long().abs() for values in integers(ranks, (2,), "float64")]
    return weights, shards, tokens, [values / 8 for values in integers(ranks, (2, UNITS[-1][1]), "float64")]


def in_rows(shape: tuple, ranks: int, seed: int = 0, padding: float = 0.0, dtype: str = "float64") -> torch.Tensor:
    """Return numbers laid out as shards, a row for each rank: the elements of a tensor of `shape`, then padding."""
    grid = integers(1 + seed, (ranks, shard_size(shape, ranks)), dtype)[seed]
    grid.view(-1)[math.prod(shape) :] = padding
    return grid


def rejoined(rows: Any, shape: tuple) -> torch.Tensor:
    """Return the tensor that these shards, one for each rank, are the parts of."""
    return torch.cat(list(rows))[: math.prod(shape)].reshape(shape)


def shard_size(shape: tuple, ranks: int) -> int:
    """Return the elements of one shard, padding counted."""
    return -(-math.prod(shape) // ranks)
