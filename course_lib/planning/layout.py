"""A layout: how many ranks each kind of parallelism gets, in which order, and which link each of them travels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from course_lib.hardware import Link, Node
from course_lib.models import ModelShape, check_choice, check_whole

AXES = ("tp", "cp", "pp", "dp")
NAMES = {"tp": "tensor", "cp": "context", "pp": "pipeline", "dp": "data"}
RECOMPUTE = ("none", "selective", "half", "full")


@dataclass(frozen=True)
class Layout:
    """Who does what on tp x cp x pp x dp ranks. Experts are spread over `ep` of the ranks of a
    pipeline stage, and each of them is whole.

    `order`: the axes from the innermost, whose ranks are neighbours, to the outermost; Llama 3's is the default
    (2407.21783, section 3.3.2). `chunks`: stages that each pipeline rank holds. `micro`: sequences in a micro-batch.
    `recompute`: what backward computes again: nothing, the scores, every second matrix product, or the whole layer.
    `zero`: what is sharded over the data and context ranks (1 optimizer, 2 gradients too, 3 weights too). Raises
    ValueError for a field that is no whole number of at least 1, and for an unknown order or kind of recomputation.
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    chunks: int = 1
    micro: int = 1
    zero: int = 1
    recompute: str = "none"
    order: tuple[str, ...] = AXES

    def __post_init__(self) -> None:
        check_whole(tp=self.tp, cp=self.cp, pp=self.pp, dp=self.dp, ep=self.ep, chunks=self.chunks, micro=self.micro)
        check_choice("zero", self.zero, range(4))
        check_choice("recompute", self.recompute, RECOMPUTE)
        if sorted(self.order) != sorted(AXES):
            raise ValueError(f"order = {self.order!r}: must hold each of {', '.join(AXES)} once, innermost first")

    @classmethod
    def filling(cls, gpus: int, *, tp: int, cp: int, pp: int, chunks: int, zero: int) -> Layout:
        """Return the layout whose data ranks are what the other axes leave of `gpus`; ValueError if any remain over."""
        check_whole(gpus=gpus, tp=tp, cp=cp, pp=pp)
        copy = tp * cp * pp
        if gpus % copy:
            raise ValueError(f"tp x cp x pp = {copy:,} ranks for a copy don't divide {gpus:,} GPUs")
        return cls(tp=tp, cp=cp, pp=pp, dp=gpus // copy, chunks=chunks, zero=zero)

    @property
    def ranks(self) -> int:
        """Return the number of ranks: the product of the axes."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def shards(self) -> int:
        """Return over how many ranks the same weights are repeated, and may be sharded: data x context."""
        return self.dp * self.cp

    def stride(self, axis: str) -> int:
        """Return how far apart two neighbours along an axis are: the product of the axes inside it."""
        return math.prod(getattr(self, inner) for inner in self.order[: self.order.index(axis)])

    def span(self, axis: str, per_node: int) -> tuple[int, int]:
        """Return (nodes, ranks in each) of a group along one axis, for nodes of `per_node` ranks."""
        return span(getattr(self, axis), self.stride(axis), per_node)

    def link(self, axis: str, node: Node) -> Link:
        """Return the slowest link that a group along one axis has to use."""
        return node.nic if self.span(axis, node.gpus)[0] > 1 else node.gpu.link

    def __str__(self) -> str:
        parts = [f"TP {self.tp}"]
        parts += [f"CP {self.cp}"] if self.cp > 1 else []
        parts += [f"PP {self.pp}" + (f" x {self.chunks}" if self.chunks > 1 else "")] if self.pp > 1 else []
        parts += [f"DP {self.dp}"] if self.dp > 1 else []
        parts += [f"EP {self.ep}"] if self.ep > 1 else []
        parts += [f"ZeRO-{self.zero}"] if self.shards > 1 and self.zero else []
        parts += [f"micro-batch {self.micro}"] if self.micro > 1 else []
        parts += [f"{self.recompute} recomputation"] if self.recompute != "none" else []
        return " · ".join(parts)


@cache
def span(size: int, stride: int, per_node: int) -> tuple[int, int]:
    """Return (nodes, ranks in each) of a group of `size` ranks that are `stride` apart."""
    if stride >= per_node:
        return size, 1
    inside = min(size, max(1, per_node // stride))
    while size % inside:
        inside -= 1
    return size // inside, inside


def check_fits_model(layout: Layout, shape: ModelShape, batch: int, sequence: int, ranks: int | None = None) -> None:
    """Raise ValueError, a sentence with the numbers, for the first thing that does not divide, or is too few.

    `batch`: sequences in a step, over all ranks. The embedding and the head count as a layer each where layers are
    dealt out to pipeline chunks, so that 126 layers may be 16 x 8 chunks, as in Llama 3.
    """
    check_whole(batch=batch, sequence=sequence, ranks=ranks)
    if ranks is not None and layout.ranks != ranks:
        product = " x ".join(f"{axis} {getattr(layout, axis)}" for axis in AXES)
        told = f"{product} = {layout.ranks:,} ranks: there are {ranks:,}"
        raise ValueError(f"{told}; the product of the axes must be that")
    if shape.heads % layout.tp:
        raise ValueError(f"tp = {layout.tp}: must divide the {shape.heads} attention heads of {shape.name}")
    slots = layout.pp * layout.chunks
    if slots > shape.layers + 2 or (layout.chunks > 1 and layout.pp == 1):
        raise ValueError(
            f"pp = {layout.pp}, chunks = {layout.chunks}: {shape.name} has {shape.layers} layers, an embedding and a "
            f"head to deal out to {slots} chunks, and chunks need pp > 1"
        )
    if sequence % (2 * layout.cp if layout.cp > 1 else 1):
        raise ValueError(f"cp = {layout.cp}: sequences of {sequence:,} tokens must be cut into 2 x cp equal pieces")
    if batch % (layout.dp * layout.micro):
        raise ValueError(
            f"dp = {layout.dp}, micro = {layout.micro}: a batch of {batch} sequences must be cut into dp x micro = "
            f"{layout.dp * layout.micro} equal parts"
        )
    if microbatches(layout, batch) < layout.pp:
        raise ValueError(
            f"batch = {batch}: too small for this pipeline: pp = {layout.pp} ranks share {microbatches(layout, batch)} "
            f"micro-batches; give at least {layout.pp * layout.dp * layout.micro} sequences, or a smaller dp or pp"
        )
    if layout.chunks > 1 and microbatches(layout, batch) % layout.pp:
        raise ValueError(
            f"pp = {layout.pp} with chunks: {microbatches(layout, batch)} micro-batches must be a multiple of pp"
        )
    if layout.ep > 1 and (not shape.experts or shape.experts % layout.ep or layout.ranks // layout.pp % layout.ep):
        raise ValueError(
            f"ep = {layout.ep}: must divide the {shape.experts} experts of {shape.name} and "
            f"tp x cp x dp = {layout.ranks // layout.pp}"
        )


def microbatches(layout: Layout, batch: int) -> int:
    """Return the micro-batches that each pipeline works on in a step."""
    return batch // (layout.dp * layout.micro)


def groups(ranks: int, sizes: Sequence[tuple[str, int]]) -> dict[str, list[list[int]]]:
    """Return for each axis its groups of ranks; `sizes` are (axis, size), innermost first.

    Ranks that differ in one coordinate only are a group: rank = c0 + size0 (c1 + size1 (c2 + ...)).
    """
    product = math.prod(size for _, size in sizes)
    if product != ranks:
        told = " x ".join(f"{axis} {size}" for axis, size in sizes)
        raise ValueError(f"{told} = {product} ranks: there are {ranks}; the product of the axes must be that")
    found, stride = {}, 1
    for axis, size in sizes:
        firsts = [rank for rank in range(ranks) if rank // stride % size == 0]
        found[axis] = [[first + place * stride for place in range(size)] for first in firsts]
        stride *= size
    return found
