"""Ranks: many copies of one program, the memory that each has for itself, and who sends to whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    FACES,
    GREY,
    INK,
    LIMIT,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    arrow,
    box,
    new_axes,
    say,
    sheet,
)

PAPER, NOTEBOOK, CARD = "#F4F4F4", "#FFFFFF", "#FFFFFF"


def many_copies(ax: Any = None) -> Axes:
    """Draw the ranks of a notebook on a laptop, and those of a run on 16,384 GPUs, each with its own memory."""
    ax = sheet(4.7, 22, 12.4, ax)
    ax.set_title("Many copies of one program: each has its own memory, and messages are all they share",
                 fontsize=TITLE, loc="left")  # fmt: skip
    _laptop(ax)
    for bottom, node, first in ((7.0, "node 0", 0), (0.3, "node 2,047", 16376)):
        _node(ax, 9.2, bottom, node, first, up=bottom < 5)
    ax.plot([9.6, 21.6], [6.0, 6.0], color=SENT, linewidth=5, solid_capstyle="round")
    words = "network: 50 GB/s for each GPU"
    ax.text(15.6, 6.0, words, ha="center", va="center", fontsize=SMALLEST, color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})  # fmt: skip
    say(ax, "Left, your laptop, which is one node: the notebook's process calls run, which starts four processes, "
            "ranks 0 to 3. Each holds a variable called mine in its own memory, with values 1, 2, 3 and 4, and they "
            "exchange messages through the CPU with gloo.\n"
            "Right, a large run: node 0 holds ranks 0 to 7 and node 2,047 holds ranks 16,376 to 16,383, each rank a "
            "process that drives one GPU. Inside a node the GPUs are joined by NVLink with 450 GB/s each; each node's "
            "network cards lead to the network between the nodes, 50 GB/s for each GPU.")
    return ax


def _laptop(ax: Axes) -> None:
    box(ax, 0.1, 0.3, 8.0, 11.3, PAPER)
    ax.text(4.1, 10.95, "your laptop: one node", ha="center", va="center", fontsize=TITLE, color=INK)
    box(ax, 1.5, 8.5, 5.2, 1.75, NOTEBOOK, "this notebook's process\nrun(total, ranks=4)")
    for rank in range(4):
        x = 0.4 + 1.87 * rank
        arrow(ax, (4.1, 8.5), (x + 0.88, 7.3))
        box(ax, x, 3.4, 1.76, 3.9, FACES[rank])
        _name(ax, x + 0.88, 6.7, f"rank {rank}")
        ax.text(x + 0.88, 5.8, "memory", ha="center", va="center", fontsize=SMALLEST, color=INK)
        box(ax, x + 0.1, 3.6, 1.56, 1.75, CARD, f"mine\n= {rank + 1}", line=0.6)
        arrow(ax, (x + 0.88, 3.4), (x + 0.88, 2.15), "<|-|>", colour=SENT, line=2)
    ax.plot([0.6, 7.6], [2.05, 2.05], color=SENT, linewidth=5, solid_capstyle="round")
    ax.text(4.1, 1.15, "messages through the CPU (gloo)", ha="center", va="center", fontsize=SMALLEST, color=INK)


def _node(ax: Axes, left: float, bottom: float, name: str, first: int, up: bool) -> None:
    """Draw a node of eight GPUs, with its way to the network above it or below."""
    box(ax, left, bottom, 12.7, 4.6, PAPER)
    _name(ax, left + 6.35, bottom + 3.95, f"{name}: eight ranks, each a process with one GPU")
    for place in range(8):
        x = left + 0.25 + 1.53 * place
        box(ax, x, bottom + 1.75, 1.45, 1.5, FACES[place], f"rank\n{first + place:,}")
    ax.plot([left + 0.5, left + 12.2], [bottom + 1.2, bottom + 1.2], color=SENT, linewidth=5, solid_capstyle="round")
    words = "NVLink inside the node: 450 GB/s for each GPU (NCCL)"
    ax.text(left + 6.35, bottom + 0.55, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
    for place in (0, 7):  # its network cards; those between are left out
        x = left + (0.7 if place == 0 else 12.0)
        edge = bottom + (4.6 if up else 0)
        arrow(ax, (x, edge), (x, 6.15 if not up else 5.85), "<|-|>", colour=SENT, line=2)


def _name(ax: Axes, x: float, y: float, words: str) -> None:
    ax.text(x, y, words, ha="center", va="center", fontsize=SMALLEST, weight="bold", color=INK)


def separate_memories(here: Any, there: Sequence, name: str = "notes", ax: Any = None) -> Axes:
    """Draw what a variable holds in the notebook's process and in that of each rank, at most four of them."""
    ranks = len(there)
    if not 1 <= ranks <= 4:
        raise ValueError(f"{ranks} ranks: separate_memories draws 1 to 4")
    ax = sheet(2.75, 22, 7.0, ax)
    count = ("two", "three", "four", "five")[ranks - 1]
    ax.set_title(f"{count.capitalize()} processes, {count} lists called {name}: no rank can reach the notebook's",
                 fontsize=TITLE, loc="left")  # fmt: skip
    box(ax, 7.2, 4.4, 7.6, 2.3, PAPER)
    _name(ax, 11, 6.15, "the notebook's process")
    box(ax, 7.6, 4.7, 6.8, 0.95, CARD, f"{name} = {here!r}", line=0.6)
    wide = (22 - 0.3 * (ranks + 1)) / ranks
    for rank, value in enumerate(there):
        x = 0.3 + rank * (wide + 0.3)
        arrow(ax, (11, 4.4), (x + wide / 2, 3.1))
        box(ax, x, 0.2, wide, 2.9, FACES[rank])
        _name(ax, x + wide / 2, 2.55, f"rank {rank}")
        lines = repr(value).replace(f"rank {rank} ", f"rank {rank}\n ")
        box(ax, x + 0.15, 0.35, wide - 0.3, 1.8, CARD, f"{name} =\n{lines}", line=0.6)
    ax.text(17.4, 4.05, "a copy each,\nwhen the run starts", ha="left", va="center", fontsize=SMALLEST, color=INK)
    say(ax, f"In the notebook's process {name} = {here!r}.\nEach rank was given a copy when the run started. "
            + "Afterwards " + ", ".join(f"on rank {rank} {name} = {value!r}" for rank, value in enumerate(there)))
    return ax


def who_to_whom(
    steps: Mapping[str, Sequence[tuple[int, int]]], ranks: int, *, title: str | None = None, star: bool = False,
    under: Mapping[int, str] | None = None, stuck: Collection[str] = (), ax: Any = None,
) -> Axes:  # fmt: skip
    """Draw the messages (source, destination) of each named step as arrows between the ranks, step beside step.

    The ranks stand in a row, or with `star=True` rank 0 above the others. `under` has words to write under some ranks.
    The messages of a step that is in `stuck` never start: their arrows are dashed, and their ranks wait.
    """
    wide = 22 / len(steps)
    far = not star and any(abs(a - b) > 1 for pairs in steps.values() for a, b in pairs)
    below = 0.75 * max((words.count("\n") + 1 for words in (under or {}).values()), default=0)
    high = (5.3 if star else 1.8) + 0.9 * any(steps) + below + 1.6 * far
    ax = sheet(0.36 * high + 0.3, 22, high, ax)
    ax.set_title(title or "", fontsize=TITLE, loc="left")
    floor = 0.8 + below + 0.8 * far
    told = []
    for place, (name, pairs) in enumerate(steps.items()):
        spots = _spots(ranks, wide * place, wide, floor, star)
        busy = set() if name in stuck else {rank for pair in pairs for rank in pair}
        for rank, (x, y) in spots.items():
            colour, edge = (FACES[rank % len(FACES)], INK) if rank in busy else (WAITING, GREY)
            box(ax, x - 0.95, y - 0.55, 1.9, 1.1, colour, f"rank {rank}", edge=edge)
            if under and rank in under:
                ax.text(x, y - 0.95, under[rank], ha="center", va="top", fontsize=SMALLEST, color=INK)
        for source, target in pairs:
            back, skips = (target, source) in pairs, abs(source - target) > 1
            _between(ax, spots[source], spots[target], back, skips, name in stuck)
        _name(ax, wide * (place + 0.5), high - 0.4, name)
        verb = "waits to send" if name in stuck else "sends"
        said = ", ".join(f"rank {source} {verb} to rank {target}" for source, target in pairs)
        told.append(f"{name}: {said}" if name else said)
    told += [f"under rank {rank}: {', '.join(words.splitlines())}" for rank, words in (under or {}).items()]
    say(ax, "\n".join(told))
    return ax


def _spots(ranks: int, left: float, wide: float, floor: float, star: bool) -> dict[int, tuple[float, float]]:
    """Return the middle of each rank's box: in a row, or in a star with rank 0 above the others."""
    if star:
        others = ranks - 1
        below = {rank: (left + wide * (rank - 0.5) / others, floor) for rank in range(1, ranks)}
        return {0: (left + wide / 2, floor + 3.5)} | below
    return {rank: (left + wide * (rank + 0.5) / ranks, floor) for rank in range(ranks)}


def _between(ax: Axes, start: tuple, end: tuple, there_and_back: bool, far: bool, stuck: bool) -> None:
    """Draw a message from box to box; of two that face each other each has its own side."""
    (x0, y0), (x1, y1) = start, end
    way = 1 if x1 > x0 else -1
    if y0 == y1 and far:  # over or under the ranks between them
        ends, bend = ((x0, y0 + 0.58 * way), (x1, y1 + 0.58 * way)), -1.5 / abs(x1 - x0)
    elif y0 == y1:
        lift = 0.25 * way if there_and_back else 0.0
        ends, bend = ((x0 + 0.98 * way, y0 + lift), (x1 - 0.98 * way, y1 + lift)), 0.0
    else:
        up = 1 if y1 > y0 else -1
        ends, bend = ((x0, y0 + 0.58 * up), (x1 + 0.35 * (x0 - x1) / 3, y1 - 0.58 * up)), 0.0
    look = {"arrowstyle": "-|>", "color": LIMIT if stuck else SENT, "linewidth": 2.4, "shrinkA": 0, "shrinkB": 0,
            "linestyle": (0, (2, 1.5)) if stuck else "solid", "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", ends[1], ends[0], arrowprops=look)


def one_model(alone: Sequence[Sequence[float]], together: Sequence[Sequence[float]], ax: Any = None) -> Axes:
    """Draw the weight of each rank over the steps of two runs: one in which nobody talks, one with the sum."""
    ax = new_axes(ax, 3.4)
    steps = len(together[0]) - 1
    last = together[0][-1]
    names = {weights[-1]: f"rank {rank} alone: {weights[-1]:.2f}" for rank, weights in enumerate(alone)}
    names[last] = f"all {len(together)}, with your sum: {last:.2f}"
    for weights in alone:
        ax.plot(range(steps + 1), weights, color=GREY, linewidth=1.5)
    for weights in together:
        ax.plot(range(steps + 1), weights, color=SENT, linewidth=3)
    apart, places = 0.085 * (max(names) - min(0.0, *names)), []
    for end in sorted(names):  # no name on top of another
        places.append(max(end, places[-1] + apart) if places else end)
    shift = sum(places) / len(places) - sum(names) / len(names)
    for y, (end, name) in zip((place - shift for place in places), sorted(names.items()), strict=True):
        ax.text(steps * 1.01, y, name, va="center", fontsize=SMALLEST, color=INK,
                weight="bold" if end == last else "normal")  # fmt: skip
    ax.set_xlim(0, steps * 1.45)
    ax.set_ylim(top=1.12 * max(names))
    ax.set_xticks(range(0, steps + 1, 5))
    ax.set_xlabel("training step", fontsize=SMALLEST)
    ax.set_ylabel("weight", fontsize=SMALLEST)
    ax.set_title("Alone, four ranks learn four models; with your sum they keep one", fontsize=TITLE, loc="left")
    say(ax, f"Weight after {steps} training steps: " + ", ".join(
        f"rank {rank} alone {weights[-1]:.2f}" for rank, weights in enumerate(alone))
        + f"; with the sum every rank has {last:.2f}")
    return ax
