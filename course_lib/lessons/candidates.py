"""What the planner says of layouts: of a few in one table, and of one that a learner types."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.hardware import Node
from course_lib.models import ModelShape
from course_lib.planning import Layout, Plan, layout_memory, layout_time
from course_lib.planning.search import KEPT_FREE

COLUMNS = "GB", "computing", "bubble", "tensor", "rest", "step"


def candidates(shape: ModelShape, layouts: Mapping[str, Layout], node: Node, batch: int, sequence: int) -> str:
    """Return the table; each number is rounded by itself, so a row may miss its sum by 0.01 s."""
    wide = max(map(len, layouts)) + 2
    lines = [" " * wide + "".join(f"{name:>11}" for name in COLUMNS)]
    for name, layout in layouts.items():
        step = layout_time(shape, layout, node, batch, sequence)
        parts = step.products + step.attention + step.memory, step.bubble, step.tensor
        gigabytes = layout_memory(shape, layout, batch, sequence).total / 1e9
        seconds = "".join(f"{one:9.2f} s" for one in (*parts, step.seconds - sum(parts), step.seconds))
        lines.append(f"{name:{wide}}{gigabytes:11.1f}{seconds}")
    return "\n".join(lines)


def attempt(listed: Plan, gpus: int, *, tp: int, cp: int, pp: int, chunks: int, zero: int) -> str:
    """Return in words what the planner says of a layout; dp is what remains of `gpus`."""
    try:
        layout = Layout.filling(gpus, tp=tp, cp=cp, pp=pp, chunks=chunks, zero=zero)
        tried = listed.of(layout)
    except ValueError as refused:
        return f"this can't be cut: {refused}"
    held, room = tried.room.total, (1 - KEPT_FREE) * listed.node.gpu.memory
    said = f"{layout} takes {tried.seconds:.2f} s and"
    if held > room:
        return f"{said} needs {(held - room) / 1e9:.1f} GB too many"
    return f"{said} is number {listed.place(layout)} of {len(listed.fitting):,} that fit"
