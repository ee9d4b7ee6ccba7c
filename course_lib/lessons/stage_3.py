"""Stage 3 on a small model of six units, and the bytes that a rank has alive at each moment of a step."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, bytes_held, each, run
from course_lib.engine.storages import Alive, Watched
from course_lib.lessons.sample_data import integers
from course_lib.training import adamw

UNITS = [(13, 47), (47, 45), (45, 46), (46, 47), (47, 43), (43, 45)]  # tokens to vectors, then matrices
EPSILON = 0.1  # of AdamW: with its usual 1e-8 a gradient N times too large would give the same step


def during(answer: Any, ranks: int = 4) -> Curve:
    """Return the bytes that rank 0 has alive over a step of stage 3, on a small model of six units."""
    _, shards, xs, ys = six_units(ranks)
    told = run(fully, answer, shards, UNITS, each(xs), each(ys), 2, True, ranks=ranks, on=Cluster())[0]
    return _curve(told, ranks)


def during_forward(answer: Any, ranks: int = 4) -> Curve:
    """Return the bytes that rank 0 has alive over a forward of stage 3, on a small model of six units."""
    _, shards, xs, _ = six_units(ranks)
    return _curve(run(forwarded, answer, shards, UNITS, each(xs), True, ranks=ranks, on=Cluster())[0], ranks)


@dataclass(frozen=True, repr=False)
class Curve:
    """The bytes that a rank has alive over a run: print it, or draw it with `sawtooth_measured`."""

    samples: list[tuple[str, int, int]]
    """Before and after every operation of torch's: "forward" or "backward", the unit at work, and the bytes alive."""
    moments: list[tuple[str, int]]
    """The same when a unit is about to be gathered, computes, or is reached by backward."""
    floor: int
    """The bytes of what a rank keeps before anything is gathered."""
    units: list[int]
    """The bytes of each unit's whole weight."""
    doing: list[str]
    """What the rank does at each of the samples: "gather", "compute", "gradient", "reduce-scatter" or "free"."""
    shards: list[int]
    """The bytes of a rank's shard of each unit."""

    def __str__(self) -> str:
        head = f"whole units have {', '.join(f'{size:,}' for size in self.units)} bytes"
        return "\n".join([head, *(f"{when:<22}{alive:>8,} bytes alive" for when, alive in self.moments)])

    __repr__ = __str__


def _curve(told: dict, ranks: int) -> Curve:
    if "moments" not in told:
        got = told.get("form", "something else than its text asks for")
        raise ValueError(f"the function returned {got}: let the first part of its check pass")
    moments, seen = named(told["moments"]), set()
    at = [("forward", moments[0][0])]
    for place, doing, *_ in moments:
        if doing == "is gathered" and place in seen or "again" in doing or "back" in doing:
            at.append(("backward", place))
        else:
            at.append((at[-1][0], place))
        seen |= {place} if doing == "computes" else set()
    samples = [(*at[number], held) for number, held in told["samples"]]
    sizes = [8 * math.prod(shape) for shape in UNITS]
    lines = [(f"unit {place} {doing}", held) for place, doing, held, _ in moments]
    shards = [8 * shard_size(shape, ranks) for shape in UNITS]
    return Curve(samples, lines, samples[0][2], sizes, _doing(samples, told["turns"], sizes), shards)


def _doing(samples: list, turns: list, sizes: list[int]) -> list[str]:
    """Return what is done at each sample; a unit is free as soon as more than half of it is gone again."""
    begins, doing, base = dict(turns), [], samples[0][2]
    now = "free"
    for number, (_, unit, held) in enumerate(samples):
        if begins.get(number) == "gather" and now == "free" and number:
            base = samples[number - 1][2]
        now = begins.get(number, now)
        if now not in ("gather", "free") and held < base + sizes[unit] / 2:
            now = "free"
        doing.append(now)
    return doing


def named(moments: list) -> list:
    """Return the moments, each gather with the place of the unit that computes next."""
    places = [place for place, *_ in moments]
    after = [next((one for one in places[at:] if one is not None), len(UNITS)) for at in range(len(places))]
    return [[place, *more] for place, (_, *more) in zip(after, moments, strict=True)]


class Watch:
    """Units as an answer gets them, its `dist`, and what was alive whenever one was gathered, computed or gone back to.

    Each of `moments` is (place of the unit, what it does, bytes alive, places of other units whose weights are whole);
    at a gather nobody has said yet whose it is: the place is None, and `others` are all units that are whole.
    """

    def __init__(self, dist: Any, shapes: list, kept: list, watching: bool) -> None:
        self.kept, self.watching, self.moments, self.samples = kept, watching, [], []
        self.turns: list[tuple[int, str]] = []  # at which sample something else begins, for a picture of them
        self._seen: dict[int, list[Watched]] = {}
        self.alive = _Sampling(self.sample)
        self.looking = self.alive if watching else contextlib.nullcontext()
        self.dist = _Gate(self.alive.beside(dist), self._gathers) if watching else dist
        self.units = [(functools.partial(self._compute, place), shape) for place, shape in enumerate(shapes)]

    def begin(self) -> None:
        self.moments.clear(), self.samples.clear(), self.turns.clear(), self._seen.clear()
        if self.watching:
            gc.collect()  # what a cycle of references keeps is not kept on purpose
            self.sample()

    def whole(self) -> list[int]:
        """Return the places of the units whose weights are whole now."""
        return sorted(place for place, seen in self._seen.items() if any(w.nbytes for w in seen))

    def bytes(self) -> int:
        return self.alive.bytes(*self.kept)

    def sample(self) -> None:
        self.samples.append((len(self.moments), self.bytes()))

    def _gathers(self) -> None:
        self.moments.append([None, "is gathered", now := self.bytes(), self.whole()])
        begin = len(self.samples)
        while begin and self.samples[begin - 1][1] == now:  # what was allocated for this gather belongs to it
            begin -= 1
            self.samples[begin] = (len(self.moments), now)
        self._turn("gather", begin)

    def _note(self, place: int, doing: str) -> None:
        if self.watching:
            self.moments.append([place, doing, self.bytes(), [other for other in self.whole() if other != place]])
            self._turn("gradient" if doing == "goes back" else "compute")

    def _turn(self, doing: str, sample: int | None = None) -> None:
        self.turns.append((len(self.samples) if sample is None else sample, doing))

    def _compute(self, place: int, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        again = place in self._seen
        self._seen.setdefault(place, []).append(Watched(weight))
        if self.watching and weight.requires_grad and weight.is_leaf:  # what follows its gradient is the exchange
            weight.register_post_accumulate_grad_hook(lambda _: self._turn("reduce-scatter"))
        self._note(place, "computes again" if again else "computes")
        y = torch.tanh(x @ weight) if x.is_floating_point() else weight[x]
        return Mark.apply(y, functools.partial(self._note, place, "goes back"))


class _Sampling(Alive):
    """Alive, which calls `sample` before and after every operation that it watches."""

    def __init__(self, sample: Any) -> None:
        super().__init__()
        self._sample = sample

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if not self._away:
            self._sample()
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if not self._away:
            self._sample()
        return out


class _Gate:
    """A dist that calls `note` before every gather."""

    def __init__(self, dist: Any, note: Any) -> None:
        self._dist, self._note = dist, note

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._dist, name)
        if not name.startswith("all_gather"):
            return found

        def gather(*args: Any, **kwargs: Any) -> Any:
            self._note()
            return found(*args, **kwargs)

        return gather


def forwarded(dist: Any, answer: Any, shards: list, shapes: list, x: torch.Tensor, watching: bool) -> dict[str, Any]:
    watch, before = Watch(dist, shapes, [shards], watching), [mine.clone() for mine in shards]
    watch.begin()
    with watch.looking:
        got = answer(watch.dist, watch.units, list(shards), x)
    watch.sample()
    if not (isinstance(got, (list, tuple)) and len(got) == 2 and isinstance(got[1], (list, tuple))):
        return {"form": type(got).__name__}
    output, inputs = got
    found = {"output": copy_of(output), "inputs": [copy_of(one) for one in inputs]}
    found["graph"] = any(isinstance(one, torch.Tensor) and one.requires_grad for one in (output, *inputs))
    found |= {"changed": not all(map(torch.equal, shards, before)), "whole": watch.whole()}
    return found | {"moments": watch.moments, "samples": watch.samples, "turns": watch.turns}


def fully(
    dist: Any, answer: Any, shards: list, shapes: list, x: torch.Tensor, y: torch.Tensor, steps: int, watching: bool
) -> dict[str, Any]:
    states: list = [{} for _ in shards]
    watch, losses, first = Watch(dist, shapes, [shards, states], watching), [], None
    for _ in range(steps):
        watch.begin()
        before = [mine.clone() for mine in shards]
        with watch.looking:
            got = answer(watch.dist, watch.units, list(shards), x, lambda out: nn.functional.mse_loss(out, y))
        watch.sample()
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
        if watching:
            gc.collect()  # a function that calls itself is such a cycle
        seen = {"moments": list(watch.moments), "views": bytes_held(list(grads)), "grads": first}
        seen |= {"samples": list(watch.samples), "turns": list(watch.turns), "held": watch.bytes()}
        seen["graph"] = isinstance(loss, torch.Tensor) and loss.requires_grad
        del got, loss, grads, grad
    seen["kept"] = watch.bytes()
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
