"""How much longer than predicted published runs with context ranks took, beside nearest runs without them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.planning import Published
from course_lib.planning.room import parameters
from course_lib.plots.canvas import INK, SKY, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.layouts import took
from course_lib.plots.mesh import CONTEXT

SOFTWARE = {"2407": "Meta", "docs": "NeMo", "NVID": "Megatron-Bridge", "pyto": "torchtitan"}  # by its source
GATHER = "Meta", "torchtitan"  # whose context ranks gather all keys
Row = tuple[str, str, str]  # software, GPU, and the number format of the layers' products


class Pair(NamedTuple):
    """A run with context ranks, and the nearest one without of the same source, GPU and number format."""

    row: Row
    ring: Published
    dot: Published

    @property
    def late(self) -> float:
        """Return the run's measured over predicted time, divided by the same ratio of the one without context ranks."""
        return took(self.ring) / took(self.dot)

    @property
    def later(self) -> float:
        """Return by how many percent the run with context ranks took longer, if the other took as long as it did."""
        return 100 * (self.late - 1)

    @property
    def gathers(self) -> bool:
        """Whether the context ranks gather all keys at once; if not, the keys go round a ring, as the planner says."""
        return self.row[0] in GATHER

    @property
    def larger(self) -> bool:
        """Whether the run with context ranks has a larger model; if not, it has longer sequences."""
        return _apart(self.ring, self.dot) > math.log(1.5)


def rows_of(runs: Sequence[Published]) -> dict[Row, tuple[list[Published], list[Published]]]:
    """Return each source's dense runs without and with context ranks, on one kind of GPU in one number format."""
    found: dict[Row, tuple[list[Published], list[Published]]] = {}
    for run in runs:
        software = next((name for begin, name in SOFTWARE.items() if run.source.startswith(begin)), "")
        if software and not run.shape.experts:
            row = software, run.node.gpu.name.split()[0], run.recipe.dtype
            found.setdefault(row, ([], []))[run.layout.cp > 1].append(run)
    return {row: both for row, both in found.items() if both[1]}


def _apart(one: Published, other: Published) -> float:
    sizes = [sum(parameters(run.shape, 1, 1, 1, 1)) for run in (one, other)]
    return abs(math.log(sizes[0] / sizes[1]))


def pairs_of(runs: Sequence[Published]) -> list[Pair]:
    """Return each run with context ranks beside its source's nearest: first in size, then in tokens, then in GPUs."""
    found = []
    for row, (without, with_them) in rows_of(runs).items():
        for ring in with_them:
            dot = min(without, key=lambda one: (round(_apart(ring, one), 1),  # noqa: B023
                                                abs(math.log(one.sequence / ring.sequence)),  # noqa: B023
                                                abs(math.log(one.layout.ranks / ring.layout.ranks))))  # noqa: B023  # fmt: skip
            found.append(Pair(row, ring, dot))
    return found


def _named(run: Published) -> str:
    return f"{run.shape.name.split('-')[-1]} {run.sequence // 1024}k"


def late_runs(runs: Sequence[Published], leads: tuple[float, float] = (3, 9), ax: Axes | None = None) -> Axes:
    """Draw for each run whose keys go round a ring by how many percent it took longer than its nearest without.

    Both are compared with what was predicted for them. Two strips end where a layout's lead is gone. A full dot is a
    ring through the ports of its nodes, an empty one a ring inside nodes.
    """
    pairs = sorted((pair for pair in pairs_of(runs) if not pair.gathers), key=lambda pair: pair.late)
    ax = new_axes(ax, 1.5 + 0.45 * len(pairs))
    ax.axvline(0, color=INK, linewidth=0.9, zorder=1)
    for begin, end, strong in zip((0, leads[0]), leads, (0.4, 0.2), strict=True):
        ax.axvspan(begin, end, color=SKY, alpha=strong, linewidth=0)
    below = [sum(pair.later < lead for pair in pairs) for lead in leads]
    ax.text(leads[1] + 0.8, -0.62, f"dark strip: the lead of tp8-cp2, {leads[0]} %; both: of tp4-cp4, {leads[1]} %",
            va="center", fontsize=SMALLEST)  # fmt: skip
    told, names = [], []
    for y, pair in enumerate(pairs):
        ports = pair.ring.layout.tp * pair.ring.layout.cp > pair.ring.node.gpus
        ax.plot([0, pair.later], [y, y], color=CONTEXT, linewidth=1.6, zorder=2)
        ax.scatter([pair.later], [y], s=70, facecolor=CONTEXT if ports else "white", edgecolor=CONTEXT, linewidths=1.8,
                   zorder=3)  # fmt: skip
        ax.text(max(leads[1], pair.later) + 0.8, y, f"{pair.later:.0f} %, beside {_named(pair.dot)}", va="center",
                fontsize=SMALLEST)  # fmt: skip
        software, gpu, dtype = pair.row
        names.append(f"{software}, {_named(pair.ring)}")
        shares = f"{took(pair.ring):.2f} / {took(pair.dot):.2f}"  # of the predicted time
        told.append(f"{names[-1]}, {pair.ring.layout.cp} context ranks ({gpu}, {dtype}, "
                    f"{'through the ports' if ports else 'inside a node'}), beside {_named(pair.dot)} without: "
                    f"{shares}, {pair.later:.0f} % longer")  # fmt: skip
    ax.set_yticks(range(len(pairs)), names, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.spines["left"].set_visible(False)
    ax.set(xlim=(-1, 30), ylim=(len(pairs) - 0.4, -1.0))
    ax.set_xticks(range(0, 21, 5), [f"{percent} %" for percent in range(0, 21, 5)])
    ax.set_xlabel("longer than the formula said, beside a run without context ranks", fontsize=SMALLEST)
    dots = [Line2D([], [], marker="o", linestyle="", markersize=8, markerfacecolor=face, markeredgecolor=CONTEXT,
                   markeredgewidth=1.6, label=name)
            for face, name in ((CONTEXT, "keys go through the ports"), ("white", "keys stay in a node"))]  # fmt: skip
    legend_below(ax, dots, 2)
    ax.set_title(f"Of {len(pairs)} rings, {below[1]} took less than {leads[1]} % longer, and {below[0]} less than "
                 f"{leads[0]} %", fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(told))
    return ax
