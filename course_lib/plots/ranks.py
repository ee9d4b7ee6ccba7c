"""Ranks: many copies of one program, the memory that each has for itself, and who sends to whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    FACES,
    GREY,
    INK,
    LIMIT,
    SENT,
    SERIES,
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
NETWORK, MIDDLE = (7.3, 8.4), 16.7  # where the network lies in the first picture; the middle of what it leaves out


def many_copies(ax: Any = None) -> Axes:
    """Draw the ranks of a notebook on a laptop, and those of a run on 16,384 GPUs, each with its own memory."""
    ax = sheet(5.7, 22, 15.2, ax)
    ax.set_title("Many copies of one program: each has its own memory, and messages are all they share",
                 fontsize=TITLE, loc="left")  # fmt: skip
    _laptop(ax)
    low, high = NETWORK
    box(ax, 9.5, low, 12, high - low, CARD, "network (NCCL): 50 GB/s for each GPU", edge=SENT, line=1.8)
    _node(ax, 9.3, "node 0: eight GPUs, eight ranks", (0, 1, 7), up=True)
    _node(ax, 0.2, "node 2,047: the last eight of 16,384 ranks", (16376, 16377, 16383), up=False)
    ax.text(MIDDLE, low - 0.7, "⋮  nodes 1 to 2,046  ⋮", ha="center", va="center", fontsize=SMALLEST, color=INK)
    say(ax, "Left, your laptop, which is one node: the notebook's process calls run, which starts four processes, "
            "ranks 0 to 3. Each holds a variable called mine in its own memory, with values 1, 2, 3 and 4, and they "
            "exchange messages through the CPU with gloo.\n"
            "Right, a large run: node 0 holds ranks 0 to 7 and node 2,047 holds ranks 16,376 to 16,383, each rank a "
            "process that drives one GPU and has its own memory; the nodes between them are left out. Inside a node "
            "broad lines join the GPUs: NVLink, 450 GB/s each. A thin line leads from each GPU through its network "
            "card (NIC) to the network between the nodes, 50 GB/s for each GPU.")  # fmt: skip
    return ax


def _laptop(ax: Axes) -> None:
    box(ax, 0.1, 0.2, 8.6, 14.6, PAPER)
    _name(ax, 4.4, 14.1, "your laptop: one node")
    box(ax, 1.8, 11.5, 5.2, 1.75, NOTEBOOK, "this notebook's process\nrun(function, ranks=4)")
    for rank in range(4):
        x = 0.3 + 2.07 * rank
        arrow(ax, (4.4, 11.5), (x + 1.0, 9.0))
        box(ax, x, 4.0, 1.99, 5.0, FACES[rank])
        _name(ax, x + 1.0, 8.3, f"rank {rank}")
        ax.text(x + 1.0, 7.0, "memory", ha="center", va="center", fontsize=SMALLEST, color=INK)
        box(ax, x + 0.15, 4.25, 1.69, 2.1, CARD, f"mine\n= {rank + 1}", line=0.6)
        arrow(ax, (x + 1.0, 4.0), (x + 1.0, 2.5), "<|-|>", colour=SENT, line=2)
    ax.text(4.4, 10.1, "starts", ha="center", va="center", fontsize=SMALLEST, color=INK,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1})  # fmt: skip
    ax.plot([0.6, 8.2], [2.4, 2.4], color=SENT, linewidth=5, solid_capstyle="round")
    ax.text(4.4, 1.35, "messages through the CPU (gloo)", ha="center", va="center", fontsize=SMALLEST, color=INK)


def _node(ax: Axes, bottom: float, name: str, ranks: Sequence[int], up: bool) -> None:
    """Draw a node: three of its ranks, NVLink that joins them, and each GPU's line through its card to the network.

    `up` is a node above the network: its cards are on its lower edge. The others are on its upper edge.
    """
    left, wide, high = 9.25, 12.55, 5.5
    box(ax, left, bottom, wide, high, PAPER)
    flip = (lambda y: bottom + y) if up else (lambda y: bottom + high - y)  # y is counted from the edge of the cards
    _name(ax, left + wide / 2, bottom + high - 0.55 if up else bottom + 0.55, name)
    rail = flip(3.95)
    ax.plot([left + 0.4, left + wide - 0.4], [rail, rail], color=SENT, linewidth=11, solid_capstyle="round")
    ax.text(MIDDLE, flip(2.55), "NVLink (NCCL):\n450 GB/s for each GPU", ha="center", va="center",
            fontsize=SMALLEST, color=INK)  # fmt: skip
    between = f"… ranks {ranks[1] + 1:,} to {ranks[2] - 1:,} …" if up else "…"
    ax.text(MIDDLE, flip(1.45), between, ha="center", va="center", fontsize=SMALLEST, color=INK)
    for place, rank in enumerate(ranks):
        x = (left + 0.3, left + 2.75, left + wide - 2.6)[place]
        middle, (foot, top) = x + 1.15, sorted((flip(1.0), flip(3.2)))
        ax.plot([middle, middle], [flip(3.2), rail], color=SENT, linewidth=11, solid_capstyle="butt")
        for start, end in ((flip(1.0), flip(0.4)), (flip(-0.4), NETWORK[up])):  # from the GPU to its card, and on
            ax.plot([middle, middle], [start, end], color=SENT, linewidth=1.8)
        box(ax, x, foot, 2.3, top - foot, FACES[rank % 8])
        _name(ax, middle, top - 0.45, f"rank {rank:,}" if rank < 8 else f"{rank:,}")
        box(ax, x + 0.12, foot + 0.12, 2.06, 1.3, CARD, "GPU,\nmemory", line=0.6)
        box(ax, middle - 0.55, flip(0) - 0.4, 1.1, 0.8, CARD, "NIC")


def _name(ax: Axes, x: float, y: float, words: str) -> None:
    ax.text(x, y, words, ha="center", va="center", fontsize=SMALLEST, weight="bold", color=INK)


def separate_memories(here: Any, there: Sequence, name: str = "notes", ended: int = 0, ax: Any = None) -> Axes:
    """Draw what a variable holds in the notebook's process and in that of each rank, at most four of them.

    `ended` ranks of an earlier run are drawn in grey and crossed out.
    """
    ranks = len(there)
    if not 1 <= ranks <= 4:
        raise ValueError(f"{ranks} ranks: separate_memories draws 1 to 4")
    ax = sheet(2.75, 22, 7.0, ax)
    count = ("two", "three", "four", "five")[ranks - 1]
    ax.set_title(f"{count.capitalize()} processes, {count} lists called {name}: each rank writes into its own copy",
                 fontsize=TITLE, loc="left")  # fmt: skip
    box(ax, 5.5, 4.4, 11, 2.3, PAPER)
    _name(ax, 11, 6.15, "the notebook's process, before and after")
    box(ax, 7.6, 4.7, 6.8, 0.95, CARD, f"{name} = {here!r}", line=0.6)
    for rank in range(ended):
        x = 0.3 + 1.2 * rank
        ax.add_patch(Rectangle((x, 4.5), 1.0, 0.95, facecolor=WAITING, edgecolor="none"))
        paper = {"facecolor": WAITING, "edgecolor": "none", "pad": 1}  # or the cross lies on the digit
        ax.text(x + 0.5, 4.98, f"{rank}", ha="center", va="center", fontsize=SMALLEST, color=INK, bbox=paper, zorder=3)
        ax.plot([x, x + 1.0], [4.5, 5.45], color=INK, linewidth=1)
        ax.plot([x, x + 1.0], [5.45, 4.5], color=INK, linewidth=1)
    if ended:
        ax.text(0.3, 6.15, "first run: its ranks\nhave ended, lists and all", va="center", fontsize=SMALLEST, color=INK)
    wide = (22 - 0.3 * (ranks + 1)) / ranks
    for rank, value in enumerate(there):
        x = 0.3 + rank * (wide + 0.3)
        arrow(ax, (11, 4.4), (x + wide / 2, 3.1))
        box(ax, x, 0.2, wide, 2.9, FACES[rank])
        _name(ax, x + wide / 2, 2.55, f"rank {rank}, at the end")
        box(ax, x + 0.15, 0.35, wide - 0.3, 1.8, CARD, f"{name} =\n{value!r}", line=0.6)
    begin = "second run: when it\nstarts, a copy for each" if ended else "when the run starts:\na copy for each"
    ax.text(17.4, 4.1, begin, ha="left", va="center", fontsize=SMALLEST, color=INK)
    say(ax, f"In the notebook's process {name} = {here!r}.\nEach rank was given a copy when the run started. "
            + (f"The {ended} ranks of the first run have ended, and their lists with them. " if ended else "")
            + "Afterwards " + ", ".join(f"on rank {rank} {name} = {value!r}" for rank, value in enumerate(there)))
    return ax


def who_to_whom(
    steps: Mapping[str, Sequence[tuple]], ranks: int, *, title: str | None = None, star: bool = False,
    under: Mapping[int, str] | None = None, stuck: Collection[str] = (), ax: Any = None,
) -> Axes:  # fmt: skip
    """Draw the messages (source, destination) of each named step as arrows between the ranks, step beside step.

    A message (source, destination, words) has its words written on the arrow, as what it carries.
    The ranks stand in a row, or with `star=True` rank 0 above the others. `under` has words to write under some ranks.
    The messages of a step that is in `stuck` never start: their arrows are dashed, and their ranks wait.
    """
    wide = 22 / len(steps)
    carried = {name: {tuple(pair[:2]): "".join(pair[2:]) for pair in pairs} for name, pairs in steps.items()}
    far = not star and any(abs(a - b) > 1 for pairs in carried.values() for a, b in pairs)
    below = 0.75 * max((words.count("\n") + 1 for words in (under or {}).values()), default=0)
    high = (5.3 if star else 1.8) + 0.9 * any(steps) + below + 1.6 * far
    ax = sheet(0.36 * high + 0.3, 22, high, ax)
    ax.set_title(title or "", fontsize=TITLE, loc="left", pad=12 if any(steps) else None)
    floor = 0.8 + below + 0.8 * far
    told = []
    for place, (name, pairs) in enumerate(carried.items()):
        spots = _spots(ranks, wide * place, wide, floor, star)
        busy = set() if name in stuck else {rank for pair in pairs for rank in pair}
        for rank, (x, y) in spots.items():
            colour, edge = (FACES[rank % len(FACES)], INK) if rank in busy else (WAITING, GREY)
            box(ax, x - 0.95, y - 0.55, 1.9, 1.1, colour, f"rank {rank}", edge=edge)
            if under and rank in under:
                ax.text(x, y - 0.95, under[rank], ha="center", va="top", fontsize=SMALLEST, color=INK)
        for (source, target), words in pairs.items():
            back, skips = (target, source) in pairs, abs(source - target) > 1
            _between(ax, spots[source], spots[target], back, skips, name in stuck, words)
        _name(ax, wide * (place + 0.5), high - 0.4, name)
        verb = "waits to send" if name in stuck else "sends"
        said = ", ".join(f"rank {source} {verb} {words + ' ' if words else ''}to rank {target}"
                         for (source, target), words in pairs.items())  # fmt: skip
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


def _between(
    ax: Axes, start: tuple, end: tuple, there_and_back: bool, far: bool, stuck: bool, words: str
) -> None:  # fmt: skip
    """Draw a message from box to box, and on it what it carries; of two that face each other each has its own side."""
    (x0, y0), (x1, y1) = start, end
    way = 1 if x1 > x0 else -1
    if y0 == y1 and far:  # over or under the ranks between them
        ends, bend = ((x0, y0 + 0.58 * way), (x1, y1 + 0.58 * way)), -1.5 / abs(x1 - x0)
    elif y0 == y1:
        lift = 0.25 * way if there_and_back else 0.0
        ends, bend = ((x0 + 0.98 * way, y0 + lift), (x1 - 0.98 * way, y1 + lift)), 0.0
    else:
        up = 1 if y1 > y0 else -1
        hub = 0.12 * (x0 - x1)  # messages to and from the middle end and begin side by side
        shift = (0.0, hub) if up > 0 else (-hub, 0.0)
        ends, bend = ((x0 + shift[0], y0 + 0.58 * up), (x1 + shift[1], y1 - 0.58 * up)), 0.0
    look = {"arrowstyle": "-|>", "color": LIMIT if stuck else SENT, "linewidth": 2.4, "shrinkA": 0, "shrinkB": 0,
            "linestyle": (0, (2, 1.5)) if stuck else "solid", "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", ends[1], ends[0], arrowprops=look)
    if words:
        middle = [(a + b) / 2 for a, b in zip(*ends, strict=True)]
        middle[1] += 0.45 if y0 == y1 else 0.0
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if y0 != y1 else None
        ax.text(*middle, words, ha="center", va="center", fontsize=SMALLEST, color=INK, weight="bold", bbox=paper)


def one_model(
    alone: Sequence[Sequence[float]], together: Sequence[Sequence[float]], *, goal: float | None = None, ax: Any = None
) -> Axes:
    """Draw the weight of each rank over the steps of two runs: one in which nobody talks, one with the sum.

    `goal` is the weight that the data were made with: a dashed line.
    """
    ax = new_axes(ax, 3.6)
    steps, last = len(together[0]) - 1, together[0][-1]
    ends = {weights[-1]: rank for rank, weights in enumerate(alone)}
    for rank, weights in enumerate(alone):
        ax.plot(range(steps + 1), weights, color=SERIES[rank], linewidth=1.5)
    for weights in together:
        ax.plot(range(steps + 1), weights, color=SENT, linewidth=4)
    if goal is not None:
        ax.plot([0, steps], [goal, goal], color=INK, linewidth=1.2, linestyle="--")
        words = f"dashed: the weight that made the data, {goal:g}"
        ax.text(steps, goal - 0.13, words, ha="right", va="top", fontsize=SMALLEST, color=INK)
    top = max([*ends, last])
    apart = 0.095 * (top - min(0.0, *ends))
    ax.text(steps * 1.055, last, f"all {len(together)}, with your sum: {last:.2f}", va="center", fontsize=SMALLEST,
            color=INK, weight="bold")  # fmt: skip
    for side in (1, -1):  # above that name and below it, each name at its line or pushed away from the last one
        place = last
        for end in sorted((end for end in ends if (end - last) * side > 0), key=lambda end: abs(end - last)):
            place = side * max(side * end, side * place + apart)
            name = f"rank {ends[end]} alone: {end:.2f}"
            ax.plot([steps, steps * 1.045], [end, place], color=GREY, linewidth=0.8)
            ax.text(steps * 1.055, place, name, va="center", fontsize=SMALLEST, color=INK)
    ax.set_xlim(0, steps * 1.5)
    ax.set_ylim(top=1.17 * top)
    ax.spines["bottom"].set_bounds(0, steps)
    ax.set_xticks(range(0, steps + 1, 5))
    ax.set_xlabel("training step", fontsize=SMALLEST, x=1 / 3)
    ax.set_ylabel("weight", fontsize=SMALLEST)
    ax.set_title("Alone, four ranks learn four models; with your sum they keep one", fontsize=TITLE, loc="left")
    say(ax, f"Weight after {steps} training steps: " + ", ".join(
        f"rank {rank} alone {weights[-1]:.2f}" for rank, weights in enumerate(alone))
        + f"; with the sum every rank has {last:.2f}"
        + (f"; the data were made with {goal:g}" if goal is not None else ""))  # fmt: skip
    return ax
