"""How much longer than predicted published runs with context ranks took, beside nearest runs without them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.planning import Published
from course_lib.planning.room import parameters
from course_lib.planning.step import layout_time
from course_lib.plots.canvas import INK, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.layouts import took
from course_lib.plots.mesh import CONTEXT

SOFTWARE = {"2407": "Meta", "docs": "NeMo", "NVID": "Megatron-Bridge", "pyto": "torchtitan"}  # by its source
GATHER = "Meta", "torchtitan"  # whose context ranks gather all keys
WORDS = {0: "nothing", 0.25: "a quarter", 1: "all that\nthe flag can"}
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
        return self.ring.measured / _seconds(self.ring, hidden) / (self.dot.measured / _seconds(self.dot, hidden))

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


def _seconds(run: Published, hidden: float) -> float:
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


def late_runs(runs: Sequence[Published], leads: Mapping[float, float], ax: Axes | None = None) -> Axes:
    """Draw how much longer than predicted runs with a ring of keys took than their neighbours without context ranks.

    A row assumes that a share of the tensor messages was hidden, and `leads[share]` percent is by how much context
    ranks may be late then before a layout without them wins: a strip. A full dot's keys go through the ports.
    """
    pairs = sorted((pair for pair in pairs_of(runs) if not pair.gathers), key=lambda pair: pair.late)
    ax = new_axes(ax, 1.3 + 0.62 * len(leads))
    told, shapes = [], "os^D"
    for row, (hidden, lead) in enumerate(leads.items()):
        ax.barh(row, lead, 0.8, color=CONTEXT, alpha=0.22, linewidth=0)
        ax.text(lead, row + 0.43, f"{lead:.0f} % ", ha="right", va="bottom", fontsize=SMALLEST)
        late = [100 * (pair.late_if(hidden) - 1) for pair in pairs]
        for x, pair, shape in zip(late, pairs, shapes, strict=True):
            ax.plot([x], [row], shape, markersize=9, markeredgewidth=1.8, color=CONTEXT, zorder=4,
                    markerfacecolor=CONTEXT if pair.ports else "white")  # fmt: skip
        told.append(f"{WORDS[hidden]}: a lead of {lead:.0f} %; late by " + ", ".join(f"{one:.0f} %" for one in late))
    ax.axvline(0, color=INK, linewidth=0.9, zorder=1)
    ax.set_yticks(range(len(leads)), [WORDS[hidden] for hidden in leads])
    ax.tick_params(axis="y", length=0, pad=6)
    ax.spines["left"].set_visible(False)
    ax.set(xlim=(-1.5, 20), ylim=(len(leads) - 0.4, -0.6))
    ax.set_xticks(range(0, 21, 5), [f"{percent} %" for percent in range(0, 21, 5)])
    ax.set_xlabel("context ranks are later than the formula says by", fontsize=SMALLEST)
    ax.set_ylabel("hidden of\ntensor messages", fontsize=SMALLEST)
    names = [f"{pair.row[0]}, {_named(pair.ring)}, {pair.row[1]}{', by the ports' if pair.ports else ''}"
             for pair in pairs]  # fmt: skip
    marks = [Line2D([], [], marker=shape, linestyle="", markersize=8, markeredgecolor=CONTEXT, markeredgewidth=1.6,
                    markerfacecolor=CONTEXT if pair.ports else "white", label=name)
             for pair, shape, name in zip(pairs, shapes, names, strict=True)]  # fmt: skip
    legend_below(ax, marks, 2)
    ax.set_title("A run in the strip lets tp4-cp4 win, a run beyond it lets tp8", fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, "runs in this order: " + "; ".join(
        f"{name}, beside {_named(pair.dot)} without context ranks" for pair, name in zip(pairs, names, strict=True))]))
    return ax
