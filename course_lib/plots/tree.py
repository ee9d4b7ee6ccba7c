"""Trees, round by round: a reduce that brings all parts to rank 0, a broadcast that spreads what it has."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, GREY, INK, SENT, SMALLEST, TITLE, WIDTH, arrow, box, say, sheet

HIGH = 0.62  # inches of a round
LEFT, GAP = 0.68, 0.82  # inches: the rounds' names, on the left of each half


def tree_rounds(ranks: int = 8) -> Axes:
    """Draw a reduce to rank 0 and a broadcast from it by binomial trees: a column a rank, a row a round.

    Of the reduce, ranks that still have work are filled, of the broadcast those that have the tensor. The messages are
    those of the simulator's `dist.reduce` and `dist.broadcast`: in round k of a broadcast rank r sends to rank
    r + 2^(k-1), and a reduce is the same with the arrows turned round.
    """
    rounds = (ranks - 1).bit_length()
    high = HIGH * rounds + 0.75
    ax = sheet(high + 0.45, WIDTH, high)
    half = (WIDTH - LEFT - GAP) / 2
    grown = [min(2**done, ranks) for done in range(rounds + 1)]  # who has the tensor after each round
    steps = [[(rank, rank + 2**done) for rank in range(2**done) if rank + 2**done < ranks] for done in range(rounds)]
    inward = [[(other, one) for one, other in pairs] for pairs in reversed(steps)]
    told = [*_draw(ax, LEFT, half, high, "reduce: receivers add", grown[::-1], inward, ranks),
            *_draw(ax, LEFT + half + GAP, half, high, "broadcast: the sum spreads", grown, steps, ranks)]
    for done in range(rounds + 1):
        y = high - 0.55 - HIGH * done
        for x, before in ((LEFT, 0), (LEFT + half + GAP, rounds)):
            name = f"round {before + done}" if done else "then" if before else "at first"
            ax.text(x - 0.1, y, name, ha="right", va="center", fontsize=SMALLEST, color=INK)
    title = f"A tree: {rounds} rounds up add {ranks} tensors, {rounds} rounds down hand the sum out"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _draw(ax: Axes, left: float, wide: float, high: float, name: str, have: list, steps: list, ranks: int) -> list[str]:
    """Draw one tree and return its words; `have[k]` ranks, the first ones, are filled after round k."""
    place = wide / ranks
    ax.text(left, high - 0.2, name, fontsize=SMALLEST, weight="bold", color=INK)
    told = []
    for done, filled in enumerate(have):
        y = high - 0.55 - HIGH * done
        for rank in range(ranks):
            there = rank < filled
            look = {"colour": FACES[0] if there else "white", "edge": INK if there else GREY}
            box(ax, left + place * rank, y - 0.16, place * 0.78, 0.32, text=str(rank), **look)
        pairs = steps[done - 1] if done else []
        for rank in range(min(filled, have[done - 1]) if done else 0):  # keeps its tensor
            x = left + place * (rank + 0.39)
            ax.plot([x, x], [y + 0.16, y + HIGH - 0.16], color=GREY, linewidth=1.0, zorder=0)
        for sender, receiver in pairs:
            start, end = (left + place * (rank + 0.39) for rank in (sender, receiver))
            arrow(ax, (start, y + HIGH - 0.16), (end, y + 0.16), colour=SENT, line=1.8)
        told.append(f"{name.partition(':')[0]} round {done}: " * bool(done)
                    + f"{filled} of {ranks} {'hold sums' if name.startswith('reduce') else 'have the tensor'}"
                    + "".join(f", {one} sends to {other}" for one, other in pairs))  # fmt: skip
    return told
