"""Who talks to whom: the messages of a collective as arrows between ranks, each with the number of its round."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from course_lib import algorithms
from course_lib.plots.canvas import BLUE, FACES, GREY, INK, LIMIT, SENT, SMALLEST, TITLE, WIDTH, arrow, box, say, sheet

INCH = 5.0  # units of a drawing: a circle of radius 1 has 0.4 inches across
ROUNDS = (BLUE, "#B06000", "#00785A")  # of rounds 1, 2 and 3: dark enough for their numbers
CORNERS = ((-1, 1), (1, 1), (1, -1), (-1, -1))  # of ranks 0 to 3, clockwise, so that a ring is drawn as one


def rounds_of(kind: str, ranks: int) -> list[tuple[int, int, int]]:
    """Return (round from 1, sender, receiver) of every message of a built-in collective with root 0, in order.

    A rank sends one message and receives one at a time, so a message's round is the first in which both are free and
    all that either did before is done.
    """
    todo = {rank: [list(step) for step in algorithms.messages(kind, rank, ranks, 1, 1)] for rank in range(ranks)}
    found, now = [], 0
    while any(todo.values()):
        now += 1
        first = {rank: steps[0] for rank, steps in todo.items() if steps}
        moving = [(rank, peer) for rank, step in first.items() for way, peer, _ in step if way == "send"
                  and any(one[:2] == ("recv", rank) for one in first.get(peer, []))]
        found += [(now, sender, receiver) for sender, receiver in moving]
        for rank in {rank for pair in moving for rank in pair}:
            todo[rank].pop(0)
    return found


def who_talks(ax: Axes | None = None) -> Axes:
    """Draw four ranks in a broadcast, a gather, an all-gather and an all-to-all: an arrow a message, by rounds.

    Below each stands what large models use it for.
    """
    ax = _sheet(3.6, ax)
    ax.set_title("Arrows are messages, numbers are rounds: every collective has a pattern of its own", fontsize=TITLE,
                 loc="left")  # fmt: skip
    panels = {
        "broadcast": "whoever has it\nsends it on", "gather": "rank 0 receives one\nat a time: a queue",
        "all_gather": "in every round: pass on\nwhat you just received",
        "all_to_all": "everybody has some-\nthing for everybody",
    }  # fmt: skip
    uses = {"broadcast": "equal weights when\ntraining starts", "gather": "all ranks' losses,\nfor the log",
            "all_gather": "a layer's weights,\nwhich lie in parts",
            "all_to_all": "tokens to the experts\nin DeepSeek-V3"}  # fmt: skip
    for place, (kind, words) in enumerate(panels.items()):
        middle = 5.1 + 10.25 * place
        moves = rounds_of(kind, 4)
        ax.text(middle, 17.2, kind, ha="center", va="top", fontsize=TITLE, color=INK, weight="bold")
        _corners(ax, (middle, 11.5), 3.1, moves)
        count = f"{len(moves)} messages, {max(one for one, _, _ in moves)} rounds"
        ax.text(middle, 6.9, count, ha="center", va="top", fontsize=SMALLEST, color=INK)
        ax.text(middle, 5.6, words, ha="center", va="top", fontsize=SMALLEST, color=INK)
        ax.text(middle, 3.4, f"used for:\n{uses[kind]}", ha="center", va="top", fontsize=SMALLEST, color=INK,
                style="italic")  # fmt: skip
    told = {kind: f"{' '.join(words.split())}. Used for: {' '.join(uses[kind].split())}".replace("- ", "")
            for kind, words in panels.items()}  # fmt: skip
    say(ax, "\n".join(f"{kind}: {_in_words(rounds_of(kind, 4))}. {told[kind]}" for kind in panels))
    return ax


def doubling(ranks: int = 8, ax: Axes | None = None) -> Axes:
    """Draw a broadcast from rank 0 as a tree: a column after each round, filled circles for those that have it."""
    moves = rounds_of("broadcast", ranks)
    last = max(one for one, _, _ in moves)
    high = 2.4 * ranks + 4.4
    ax = _sheet(high / INCH, ax)
    known, held = {0}, []
    columns = [4.5 + (41 - 9) / last * step for step in range(last + 1)]
    height = [high - 3.6 - 2.4 * rank for rank in range(ranks)]
    for step, x in enumerate(columns):
        new = {receiver for one, _, receiver in moves if one == step}
        if step:
            before = columns[step - 1]
            for rank in known:
                ax.plot([before + 1, x - 1], [height[rank]] * 2, color=FACES[0], linewidth=3, zorder=0)
            for one, sender, receiver in moves:
                if one == step:
                    arrow(ax, (before + 0.9, height[sender] - 0.5), (x - 1.0, height[receiver] + 0.25), colour=SENT,
                          line=2.2)  # fmt: skip
        known |= new
        held.append(len(known))
        for rank in range(ranks):
            _rank(ax, x, height[rank], str(rank), FACES[0] if rank in known else "white", 2.4 if rank in new else 0.9)
        ax.text(x, high - 1.5, f"after round {step}" if step else "before", ha="center", fontsize=SMALLEST, color=INK)
        have = f"{len(known)} {'rank has' if len(known) == 1 else 'ranks have'} it"
        ax.text(x, 0.1, have, ha="center", fontsize=SMALLEST, color=INK, weight="bold")
    ax.set_title(f"Whoever has the tensor sends it on: {', '.join(map(str, held))}", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, f"rank 0 begins. {_in_words(moves)}")
    return ax


def owners(ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw the chunks of all ranks as a grid, and to which rank each column of it has to go to be added up."""
    side, gap, left = 2.0, 3.4, 8.6
    high = side * ranks + 5.8
    ax = _sheet(high / INCH, ax)
    ax.set_title(f"Every rank keeps one of its {ranks} chunks and sends the others, one to each owner", fontsize=TITLE,
                 loc="left")  # fmt: skip
    top = high - 1.9
    for rank in range(ranks):
        y = top - side * (rank + 1)
        ax.text(left - 0.7, y + side / 2, f"rank {rank} has", ha="right", va="center", fontsize=SMALLEST, color=INK)
        for chunk in range(ranks):
            own = rank == chunk
            x = left + (side + gap) * chunk
            ax.add_patch(Rectangle((x, y + 0.1), side, side - 0.2, facecolor=FACES[rank],
                                   edgecolor=INK if own else GREY, linewidth=2.4 if own else 0.8))  # fmt: skip
            ax.text(x + side / 2, y + side / 2, f"{10 * rank + chunk}", ha="center", va="center", fontsize=SMALLEST,
                    color=INK, weight="bold" if own else "normal")  # fmt: skip
    for chunk in range(ranks):
        x = left + (side + gap) * chunk
        ax.add_patch(Rectangle((x - 0.3, top - side * ranks - 0.25), side + 0.6, side * ranks + 0.5, facecolor="none",
                               edgecolor=SENT, linewidth=2.0))  # fmt: skip
        total = sum(10 * rank + chunk for rank in range(ranks))
        arrow(ax, (x + side / 2, top - side * ranks - 0.25), (x + side / 2, 1.75), colour=SENT, line=2.2)
        box(ax, x - 1.45, 0.15, side + 2.9, 1.5, "white", f"rank {chunk}: {total}", line=1.8, weight="bold")
        ax.text(x + side / 2, top + 0.6, f"chunk {chunk}", ha="center", fontsize=SMALLEST, color=INK)
    beside = left + (side + gap) * ranks - 2.4
    for rank in range(ranks):
        ax.text(beside, top - side * (rank + 0.5), f"keeps chunk {rank}, sends {ranks - 1}", va="center",
                fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.text(left - 1.9, 0.9, "added up on", ha="right", va="center", fontsize=SMALLEST, color=INK)
    say(ax, f"A grid of {ranks} ranks and their {ranks} chunks each. "
            + "; ".join(f"chunk {chunk} of every rank goes to rank {chunk}, which ends with "
                        f"{sum(10 * rank + chunk for rank in range(ranks))}" for chunk in range(ranks))
            + f". Each rank's own chunk of that number stays where it is, it sends the other {ranks - 1}")  # fmt: skip
    return ax


def call_order(calls: list[list[str]], ax: Axes | None = None) -> Axes:
    """Draw which call of one rank meets which of another: `calls[rank]` names its tensors in the order of the calls."""
    count = max(map(len, calls))
    high = 1.9 * len(calls) + 4.6
    ax = _sheet(high / INCH, ax)
    ax.set_title("A call has no name: everybody's first call meets everybody's first call", fontsize=TITLE, loc="left")
    kinds = list(dict.fromkeys(name for order in calls for name in order))
    told = []
    for call in range(count):
        x = 9.0 + 18.5 * call
        met = [order[call] for order in calls if call < len(order)]
        right = len(set(met)) == 1 and len(met) == len(calls)
        ax.add_patch(Rectangle((x - 0.6, 2.3), 9.2, high - 3.9, facecolor="none", linewidth=2.2,
                               edgecolor=INK if right else LIMIT))  # fmt: skip
        ax.text(x + 4, high - 1.1, f"call {call + 1}", ha="center", fontsize=SMALLEST, color=INK, weight="bold")
        for rank, order in enumerate(calls):
            y = high - 3.7 - 1.9 * rank
            if not call:
                ax.text(x - 1.2, y + 0.65, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
            if call < len(order):
                box(ax, x, y, 8.0, 1.35, FACES[kinds.index(order[call])], order[call])
        parts = [_whose(name, [rank for rank, order in enumerate(calls) if order[call:call + 1] == [name]])
                 for name in kinds if name in met]  # fmt: skip
        ax.text(x + 4, 0.1, f"{parts[0]}\n" + "\n".join(f"+ {part}" for part in parts[1:]), ha="center",
                fontsize=SMALLEST, color=INK)  # fmt: skip
        told.append(f"call {call + 1} adds up the {' and the '.join(parts)}")
    say(ax, "; ".join(told))
    return ax


def _whose(name: str, ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"{name} of rank {ranks[0]}"
    return f"{name}{'es' if name.endswith('s') else 's'} of ranks {', '.join(map(str, ranks))}"


def _sheet(height: float, ax: Axes | None) -> Axes:
    ax = sheet(height, WIDTH * INCH, height * INCH, ax)
    ax.set_aspect("equal")
    return ax


def _rank(ax: Axes, x: float, y: float, name: str, colour: str, line: float = 0.9, radius: float = 0.95) -> None:
    ax.add_patch(Circle((x, y), radius, facecolor=colour, edgecolor=INK, linewidth=line, zorder=2))
    ax.text(x, y, name, ha="center", va="center", fontsize=SMALLEST, color=INK, zorder=3)


def _corners(ax: Axes, middle: tuple[float, float], reach: float, moves: list[tuple[int, int, int]]) -> None:
    """Draw four ranks at the corners of a square, and an arrow for each message with the numbers of its rounds."""
    at = [(middle[0] + reach * x, middle[1] + reach * y) for x, y in CORNERS]
    pairs: dict[tuple[int, int], list[int]] = {}
    for one, sender, receiver in moves:
        pairs.setdefault((sender, receiver), []).append(one)
    for (sender, receiver), rounds in pairs.items():
        (x0, y0), (x1, y1) = at[sender], at[receiver]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        along = ((x1 - x0) / length, (y1 - y0) / length)
        back = pairs.get((receiver, sender))
        mutual = back == rounds
        if mutual and sender > receiver:
            continue  # drawn with the other direction, as one line with two heads
        beside = 0.42 if back and not mutual else 0.0  # two that face each other keep to the left
        away = 1.5 if mutual else 1.2
        colour = ROUNDS[(rounds[0] - 1) % len(ROUNDS)] if len(rounds) == 1 else INK
        shift = (-along[1] * beside, along[0] * beside)
        start = (x0 + along[0] * away + shift[0], y0 + along[1] * away + shift[1])
        end = (x1 - along[0] * away + shift[0], y1 - along[1] * away + shift[1])
        arrow(ax, start, end, "<|-|>" if mutual else "-|>", colour=colour, line=1.7)
        part = 0.5 if abs(sender - receiver) != 2 else 0.28  # diagonals cross in the middle: their numbers stand aside
        words = " ".join(map(str, rounds))
        spot = (start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))
        look = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        ax.text(*spot, words, ha="center", va="center", fontsize=SMALLEST, color=INK if len(rounds) > 1 else colour,
                weight="bold", bbox=look, zorder=4)  # fmt: skip
    for rank, (x, y) in enumerate(at):
        _rank(ax, x, y, str(rank), FACES[rank])


def _in_words(moves: list[tuple[int, int, int]]) -> str:
    told = []
    for one in sorted({one for one, _, _ in moves}):
        pairs = ", ".join(f"{sender} to {receiver}" for at, sender, receiver in moves if at == one)
        told.append(f"round {one}: {pairs}")
    return "; ".join(told)
