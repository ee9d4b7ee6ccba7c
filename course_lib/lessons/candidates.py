"""A few layouts beside each other in one table: what a rank holds, and what a step's seconds are made of."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.hardware import Node
from course_lib.models import ModelShape
from course_lib.planning import Layout, layout_memory, layout_time

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
