"""A rank that comes late: how a barrier hears of it, and how its fault shows in the traces of all others."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import algorithms
from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
    FORWARD,
    GREY,
    INK,
    LIMIT,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    new_axes,
    say,
    sheet,
)

NAME = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def barrier_messages(arrivals: Sequence[float], latency: float) -> list[tuple[int, int, int, float, float]]:
    """Return (round, sender, receiver, start, end) of a barrier's messages; each starts when both sides are ready."""
    ranks = len(arrivals)
    rounds = [list(algorithms.messages("barrier", rank, ranks, 1, 0)) for rank in range(ranks)]
    ready, found = list(arrivals), []
    for one in range(len(rounds[0])):
        pairs = [(rank, peer) for rank in range(ranks) for kind, peer, _ in rounds[rank][one] if kind == "send"]
        starts = {pair: max(ready[pair[0]], ready[pair[1]]) for pair in pairs}
        found += [(one + 1, *pair, start, start + latency) for pair, start in starts.items()]
        ready = [max(start + latency for pair, start in starts.items() if rank in pair) for rank in range(ranks)]
    return found


def late_barrier(arrivals: Sequence[float] = (0, 40, 80, 120), latency: float = 5) -> Axes:
    """Draw a barrier, in µs: who waits how long, and below, enlarged, the messages after the last rank has come."""
    moves = barrier_messages(arrivals, latency)
    ranks, come, end = len(arrivals), max(arrivals), max(move[-1] for move in moves)
    last = list(arrivals).index(come)
    _, (whole, near) = plt.subplots(2, 1, figsize=(WIDTH, 4.5), layout="constrained", FigureClass=Picture,
                                    height_ratios=[1, 1.35])  # fmt: skip
    for ax, first in ((new_axes(whole, 0), 0.0), (new_axes(near, 0), come - latency)):
        for rank, came in enumerate(arrivals):
            if ax is whole:
                ax.add_patch(Rectangle((0, rank - 0.38), came, 0.76, facecolor=COMPUTE))
                ax.add_patch(Rectangle((came, rank - 0.38), end - came, 0.76, facecolor=WAITING))
                if came > 0.15 * end:
                    ax.text(came / 2, rank, f"works {came:g} µs", ha="center", va="center", fontsize=SMALLEST,
                            color="white", weight="bold")  # fmt: skip
                room = end - came > 0.15 * end  # else the words stand beside the bar
                ax.text((came + end) / 2 if room else 1.01 * end, rank, f"waits {end - came:g} µs",
                        ha="center" if room else "left", va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
            else:
                ax.plot([max(came, first), end], [rank, rank], color=WAITING, linewidth=9, zorder=0)
                if came > first:
                    ax.plot([first, came], [rank, rank], color=COMPUTE, linewidth=9, zorder=0, solid_capstyle="butt")
        ax.set(xlim=(first, end + (0.16 * end if ax is whole else 0.35)),
               ylim=(ranks - (0.45 if ax is whole else 0.05), -0.55))
        ax.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    told = []
    for one, sender, receiver, start, stop in moves:
        if start >= come:
            to_last = receiver == last
            arrow(near, (start, sender), (stop, receiver), colour=SENT if to_last else GREY, line=2.6 if to_last else 1)
            if to_last:
                heard = [(sender - step) % ranks for step in range(2 ** (one - 1))]
                who = f"rank{'s' if len(heard) > 1 else ''} {' and '.join(map(str, sorted(heard)))}"
                near.text(stop, last + 0.5, f"round {one}: hears of {who}", ha="right", va="center",
                          fontsize=SMALLEST, color=INK)  # fmt: skip
                if len(heard) > 1:  # why one message can bring the news of two
                    near.text(come - 0.95 * latency, sender, f"already knows of {who}", ha="left", va="center",
                              fontsize=SMALLEST, color=INK, zorder=4)  # fmt: skip
                told.append(f"round {one}: rank {sender} tells rank {last} from {start:g} to {stop:g} µs who has come")
    for ax in (whole, near):
        ax.set_xlabel("virtual time in µs", fontsize=SMALLEST)
    titles = {whole: f"All wait for rank {last}, and even rank {last} waits {end - come:g} µs",
              near: f"The last {end - come + latency:g} µs: what rank {last} has to hear (pink)"}  # fmt: skip
    for ax, title in titles.items():
        ax.set_title(title, fontsize=TITLE, loc="left")
    say(whole, "; ".join(f"rank {rank} waits for {end - came:g} µs" for rank, came in enumerate(arrivals)))
    say(near, "\n".join(told))
    return whole


SUMS = 4  # all-reduces: those of two layers of a tensor-parallel model
SUM = 0.45  # how long one takes; the unit is what a rank usually computes between two of them
SLOW = {0: 0.94, 1: 1.0, 2: 1.75, 3: 1.03}  # how long each rank computes


def slow_rank() -> int:
    """Return the rank that computes for longest."""
    return max(SLOW, key=SLOW.get)


def four_ranks(ax: Axes | None = None) -> Axes:
    """Draw NCCL's kernels of four ranks, one of which is slow, without telling which."""
    return late_rank(cause=False, ax=ax)


def late_rank(cause: bool = False, ax: Axes | None = None) -> Axes:
    """Draw the same all-reduces in the traces of four ranks, one of which is slow; with `cause`, what is waiting."""
    ax = sheet(2.6, WIDTH * 5, 12.2, ax)
    top = 9.8
    slowest = max(SLOW.values())
    late = slow_rank()
    scale = (WIDTH * 5 - 5.2) / (SUMS * (slowest + SUM))
    told = []
    for row, (rank, busy) in enumerate(SLOW.items()):
        y = top - 2.4 * row
        ax.text(4.2, y + 0.9, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK,
                weight="bold" if cause and rank == late else "normal")  # fmt: skip
        for one in range(SUMS):
            x = 4.7 + one * (slowest + SUM) * scale
            if cause:
                _bar(ax, x, y, busy * scale, FORWARD, "compute", LIMIT if rank == late else "white")
            waits = (slowest - busy) * scale
            if cause and waits:
                _bar(ax, x + busy * scale, y, waits, WAITING, "waits")
                _bar(ax, x + slowest * scale, y, SUM * scale, COLLECTIVE, "sum")
            else:
                _bar(ax, x + busy * scale, y, waits + SUM * scale, COLLECTIVE, "sum" if cause else "")
        told.append(f"rank {rank}: each of {SUMS} times it "
                    + (f"computes {busy:g}, waits {slowest - busy:.3g}, adds up {SUM:g}" if cause else
                       f"stands in AllReduce for {slowest - busy + SUM:.3g}"))
    if cause:
        title = f"Rank {late} is late, and its AllReduce is the shortest: the others wait inside theirs"
        second = sorted(SLOW.values())[-2]
        share = 1 - (second + SUM) / (slowest + SUM)
        told += [f"rank {late} is late; without it the same work would take {share:.0%} less"]
        ax.text(4.7, 0.7, "A trace shows waiting (grey) and adding up (sum) as one bar, AllReduce.\n"
                f"Without the late rank (framed) it would take {share:.0%} less: "
                f"{second} + {SUM} instead of {slowest} + {SUM}.", va="center", fontsize=SMALLEST,
                color=INK)  # fmt: skip
    else:
        title = "Four ranks in the same AllReduce calls"
        ax.text(4.7, 0.9, f"every bar: {NAME}", va="center", fontsize=SMALLEST, color=INK)
        arrow(ax, (WIDTH * 5 - 7, 0.1), (WIDTH * 5 - 0.3, 0.1), colour=INK)
        ax.text(WIDTH * 5 - 7.3, 0.1, "time", ha="right", va="center", fontsize=SMALLEST, color=INK)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _bar(ax: Axes, x: float, y: float, width: float, colour: str, text: str = "", edge: str = "white") -> None:
    line, above = (2.2, 3) if edge == LIMIT else (0.8, 2)
    ax.add_patch(Rectangle((x, y), width, 1.8, facecolor=colour, edgecolor=edge, linewidth=line, zorder=above))
    if width > 0.45 * len(text):
        ax.text(x + width / 2, y + 0.9, text, ha="center", va="center", fontsize=SMALLEST, zorder=4,
                color="white" if colour == COLLECTIVE else INK)  # fmt: skip
