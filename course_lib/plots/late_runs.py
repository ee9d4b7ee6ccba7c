"""How much longer than predicted published runs with context ranks took, beside nearest runs without them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from matplotlib.axes import Axes

from course_lib.planning import Published
from course_lib.planning.room import parameters
from course_lib.planning.step import layout_time
from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, new_axes, say
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

    def late_if(self, hidden: float) -> float:
        """Return `late` as it is if a share of the tensor messages that a flag can hide was hidden in both runs."""
        return self.ring.measured / seconds_if(self.ring, hidden) / (self.dot.measured / seconds_if(self.dot, hidden))

    @property
    def later(self) -> float:
        """Return by how many percent the run with context ranks took longer, if the other took as long as it did."""
        return 100 * (self.late - 1)

    @property
    def gathers(self) -> bool:
        """Whether the context ranks gather all keys at once; if not, the keys go round a ring, as the planner says."""
        return self.row[0] in GATHER

    @property
    def ports(self) -> bool:
        """Whether the keys leave their node: it has fewer GPUs than tensor and context ranks."""
        return self.ring.layout.tp * self.ring.layout.cp > self.ring.node.gpus

    @property
    def larger(self) -> bool:
        """Whether the run with context ranks has a larger model; if not, it has longer sequences."""
        return _apart(self.ring, self.dot) > math.log(1.5)


def seconds_if(run: Published, hidden: float) -> float:
    """Return the predicted seconds of a step if a share of what overlap of tensor messages can hide is hidden."""
    plain, flagged = (layout_time(run.shape, run.layout, run.node, run.batch, run.sequence,
                                  replace(run.recipe, overlap_tp=flag)).seconds for flag in (False, True))  # fmt: skip
    return plain + hidden * (flagged - plain)


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


def late_runs(
    runs: Sequence[Published], leads: Mapping[str, float], hidden: float = 0.25, ax: Axes | None = None
) -> Axes:
    """Draw how much later than predicted runs with a ring of keys were than their neighbours without context ranks.

    A dot assumes that a share of the tensor messages was `hidden`, and its line goes from none of them to all that a
    flag can hide. `leads[name]` percent is by how much a layout with context ranks may be late, before it has lost.
    """
    pairs = sorted((pair for pair in pairs_of(runs) if not pair.gathers), key=lambda pair: pair.late_if(hidden))
    ax = new_axes(ax, 1.3 + 0.5 * len(pairs))
    told, names = [], []
    for row, pair in enumerate(pairs):
        none, late, most = (100 * (pair.late_if(share) - 1) for share in (0, hidden, 1))
        ax.plot([none, most], [row, row], color=CONTEXT, linewidth=2.4, alpha=0.5, zorder=2)
        ax.plot([late], [row], "o", markersize=10, markeredgewidth=1.8, color=CONTEXT, zorder=4,
                markerfacecolor=CONTEXT if pair.ports else "white")  # fmt: skip
        ax.text(18.4, row, f"{late:.0f} %, beside {_named(pair.dot)}", va="center", fontsize=SMALLEST)
        names.append(f"{pair.row[0]}, {_named(pair.ring)}, {pair.row[1]}\n"
                     f"ring {'through the ports' if pair.ports else 'inside a node'}")  # fmt: skip
        told.append(f"{names[-1]}, beside {_named(pair.dot)} without context ranks: {late:.0f} % late, {none:.0f} if "
                    f"nothing was hidden, {most:.0f} if all that the flag can")  # fmt: skip
    for name, lead in leads.items():
        ax.axvline(lead, color=LIMIT, linestyle="--", linewidth=1.6)
        ax.text(lead + 0.15, -0.72, f"{name}:\n{lead:.0f} %", va="center", fontsize=SMALLEST, color=LIMIT)
        told.append(f"{name} may be {lead:.0f} % late")
    ax.axvline(0, color=INK, linewidth=0.9, zorder=1)
    ax.set_yticks(range(len(pairs)), names, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.spines["left"].set_visible(False)
    ax.text(max(leads.values()) + 3.4, -0.72, "later than this, and tp8 wins", va="center", fontsize=SMALLEST,
            color=LIMIT)  # fmt: skip
    ax.set(xlim=(-0.8, 26), ylim=(len(pairs) - 0.5, -1.15))
    ax.set_xticks(range(0, 21, 5), [f"{percent} %" for percent in range(0, 21, 5)])
    ax.set_xlabel("later than the formula says; line: from nothing hidden to all that the flag can", fontsize=SMALLEST)
    most = max(leads.values())
    late = [pair for pair in pairs if 100 * (pair.late_if(hidden) - 1) > most]
    which = "; the one through the ports is not" if [pair.ports for pair in late] == [True] else ""
    ax.set_title(f"{len(pairs) - len(late)} of {len(pairs)} rings are early enough for {max(leads, key=leads.get)} to "
                 f"win{which}", fontsize=TITLE, loc="left", x=-0.3)  # fmt: skip
    say(ax, "\n".join(told))
    return ax
