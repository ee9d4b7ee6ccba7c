"""A few layouts beside each other in one table: what a rank holds, and what a step's seconds are made of."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.hardware import Node
from course_lib.models import ModelShape
from course_lib.planning import Layout, layout_memory, layout_time

COLUMNS = "GB", "computing", "bubble", "tensor", "rest", "step"


def candidates(shape: ModelShape, layouts: Mapping[str, Layout], node: Node, batch: int, sequence: int) -> str:
    """Return the table; its seconds are rounded so that each row adds up."""
    wide = max(map(len, layouts)) + 2
    lines = [" " * wide + "".join(f"{name:>11}" for name in COLUMNS)]
    for name, layout in layouts.items():
        step = layout_time(shape, layout, node, batch, sequence)
        parts = [round(one, 2) for one in (step.products + step.attention + step.memory, step.bubble, step.tensor)]
        whole = round(step.seconds, 2)
        gigabytes = layout_memory(shape, layout, batch, sequence).total / 1e9
        seconds = "".join(f"{one:9.2f} s" for one in (*parts, abs(whole - sum(parts)), whole))
        lines.append(f"{name:{wide}}{gigabytes:11.1f}{seconds}")
    return "\n".join(lines)
