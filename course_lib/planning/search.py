"""Every layout of a cluster that fits, with its memory and its seconds, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from course_lib.hardware import Node
from course_lib.models import ModelShape, check_whole
from course_lib.planning.layout import Layout
from course_lib.planning.recipe import Recipe
from course_lib.planning.room import Room, layout_memory
from course_lib.planning.step import Step, _step, layout_time

KEPT_FREE = 0.06
"""Of a GPU's memory: for the CUDA context, communication buffers and gaps of the allocator, which no formula counts."""
SHORTEST = 512  # tokens of a sequence on one context rank


class NothingFits(ValueError):
    """No layout fits: the sentence says by how much, and what would make one fit."""


class Planned(NamedTuple):
    """A layout that fits, with what it holds and how long it takes."""

    layout: Layout
    room: Room
    step: Step

    @property
    def seconds(self) -> float:
        """Return the seconds of a step."""
        return self.step.seconds


@dataclass(frozen=True)
class Plan:
    """All layouts that fit, the fastest first."""

    shape: ModelShape
    node: Node
    batch: int
    sequence: int
    recipe: Recipe
    fitting: list[Planned]
    tried: int

    @property
    def best(self) -> Planned:
        """Return the fastest layout that fits."""
        return self.fitting[0]

    @cached_property
    def pareto(self) -> list[Planned]:
        """Return the layouts than which no other is both faster and smaller, the fastest first."""
        line: list[Planned] = []
        for one in self.fitting:
            if not line or one.room.total < line[-1].room.total:
                line.append(one)
        return line

    def of(self, layout: Layout) -> Planned:
        """Return memory and seconds of any layout, whether it fits or not."""
        settings = (self.batch, self.sequence, self.recipe)
        step = layout_time(self.shape, layout, self.node, *settings)
        return Planned(layout, layout_memory(self.shape, layout, *settings), step)

    def place(self, layout: Layout) -> int:
        """Return the place that a layout has, or would have, in the list: 1 is the fastest."""
        seconds = self.of(layout).seconds * (1 - 1e-9)
        return 1 + sum(one.seconds < seconds for one in self.fitting)


def plan(
    shape: ModelShape,
    node: Node,
    gpus: int,
    batch: int,
    sequence: int,
    recipe: Recipe = Recipe(),  # noqa: B008 - frozen
    recompute: tuple[str, ...] = ("none", "full"),
    micro: tuple[int, ...] = (1, 2, 4, 8),
    memory: float | None = None,
    zero: tuple[int, ...] = (1, 2, 3),
) -> Plan:
    """Return all layouts of `gpus` GPUs that fit, with seconds and memory, by exhaustive search.

    Tried are all products tp x cp x pp x dp = gpus with tp up to a node's GPUs, sequences of at least 512 tokens on a
    context rank, chunks that the layers can be dealt out to, micro-batches of `micro` sequences, the stages of `zero`
    and the kinds of `recompute`; for a mixture of experts ep as large as the ranks of a stage allow, or as a node.
    A layout fits if it needs at most 94 % of a GPU's memory: of `memory` bytes, such as nvidia-smi shows, or of what
    its data sheet says. Raises NothingFits, which says by how much and what would help,
    and ValueError for a batch that no layout can cut.
    """
    check_whole(gpus=gpus, batch=batch, sequence=sequence)
    if memory is not None:
        node = replace(node, gpu=replace(node.gpu, memory=memory))
    limit, tried, smallest, fitting = (1 - KEPT_FREE) * node.gpu.memory, 0, None, []
    for layout in layouts(shape, node, gpus, batch, sequence, recompute, micro, zero):
        tried += 1
        room = layout_memory(shape, layout, batch, sequence, recipe)
        if smallest is None or room.total < smallest[1].total:
            smallest = (layout, room)
        if room.total <= limit:
            fitting.append(Planned(layout, room, _step(shape, layout, node, batch, sequence, recipe)))
    if smallest is None:
        raise ValueError(
            f"batch = {batch}: no layout of {gpus:,} GPUs can use it: it must be a multiple of dp, with at least pp "
            f"micro-batches for each pipeline; {gpus} sequences always do"
        )
    if not fitting:
        raise NothingFits(_refusal(shape, node, gpus, limit, *smallest))
    fitting.sort(key=lambda one: (one.seconds, one.room.total))
    return Plan(shape, node, batch, sequence, recipe, fitting, tried)


def _refusal(shape: ModelShape, node: Node, gpus: int, limit: float, layout: Layout, room: Room) -> str:
    state = room.weights + room.gradients + room.optimizer
    rest = room.total - state
    told = f"{shape.name} does not fit on {gpus:,} x {node.gpu.name}: the smallest layout ({layout}) needs "
    told += f"{room.total / 1e9:.1f} GB of {limit / 1e9:.1f} GB on each, {(room.total - limit) / 1e9:.1f} GB too much. "
    if rest < limit:
        nodes = -(-gpus * state / (limit - rest) // node.gpus)
        told += f"Weights, gradients and optimizer are {state / 1e9:.1f} GB of it, so that at least "
        return f"{told}{nodes * node.gpus:,.0f} GPUs are needed, and a number that can be dealt out evenly"
    told += f"{rest / 1e9:.1f} GB of it are activations"
    return f"{told}, which more data ranks do not cut: use shorter sequences, or more tp, cp or pp"


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, in order."""
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def layouts(
    shape: ModelShape,
    node: Node,
    gpus: int,
    batch: int,
    sequence: int,
    recompute: tuple[str, ...],
    micro: tuple[int, ...],
    zero: tuple[int, ...] = (1, 2, 3),
) -> Iterator[Layout]:
    """Yield every layout that `plan` tries: each can be run, whether it fits or not."""
    for tp in (one for one in divisors(gpus) if one <= node.gpus and shape.heads % one == 0):
        for cp in (one for one in divisors(gpus // tp) if one == 1 or sequence % (2 * one) == 0):
            if sequence // cp < SHORTEST and cp > 1:
                continue
            for pp in (one for one in divisors(gpus // tp // cp) if one <= shape.layers):
                dp = gpus // tp // cp // pp
                if batch % dp:
                    continue
                for ep in _spreads(shape, node, tp * cp * dp):
                    yield from _variants(shape, Layout(tp, cp, pp, dp, ep), batch, sequence, recompute, micro, zero)


def _spreads(shape: ModelShape, node: Node, ranks: int) -> list[int]:
    if not shape.experts:
        return [1]
    return [one for one in divisors(ranks) if shape.experts % one == 0] or [1]


def _variants(
    shape: ModelShape,
    layout: Layout,
    batch: int,
    sequence: int,
    recompute: tuple[str, ...],
    micro: tuple[int, ...],
    zero: tuple[int, ...],
) -> Iterator[Layout]:
    base = (layout.tp, layout.cp, layout.pp, layout.dp, layout.ep)
    for size in micro:
        count, rest = divmod(batch, layout.dp * size)
        if rest or count < layout.pp:
            continue
        chunks = [1]
        if layout.pp > 1 and count % layout.pp == 0:
            most = (shape.layers + 2) // layout.pp
            chunks += [one for one in range(2, most + 1) if _even(shape.layers, one * layout.pp)]
        for number in chunks:
            for stage in zero if layout.shards > 1 else (1,):
                for kind in recompute:
                    yield Layout(*base, number, size, stage, kind)


def _even(layers: int, slots: int) -> bool:
    """Return whether layers, alone or with the embedding and the head, can be dealt out evenly."""
    return layers % slots == 0 or (layers + 2) % slots == 0
