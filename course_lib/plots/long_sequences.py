"""Attention over a sequence that no rank holds whole: keys in a ring, an online softmax, and shares of causal work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_lib.plots.canvas import (
    COMPUTE,
    FACES,
    GREY,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    box,
    new_axes,
    say,
    sheet,
)
from course_lib.plots.mesh import CONTEXT, LLAMA


def ring_of_keys(ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw, round by round, whose keys and values each rank has, and which of them its tokens may not see."""
    ax = sheet(0.75 + 0.66 * ranks, 100, 12.5 * ranks + 9, ax)
    ax.set_ylim(4, 12.5 * ranks + 9)
    wide, high, told = 14.5, 6.2, []
    left = [18 + rank * 21 for rank in range(ranks)]
    for rank in range(ranks):
        ax.text(left[rank] + wide / 2, 12.5 * ranks + 5.5, f"rank {rank}: queries {rank}", ha="center", va="center",
                fontsize=SMALLEST, weight="bold")  # fmt: skip
    for step in range(ranks):
        y = 12.5 * (ranks - step) - 7
        ax.text(0, y + high / 2, f"round {step}", va="center", fontsize=SMALLEST, weight="bold")
        words = []
        for rank in range(ranks):
            source, x = (rank - step) % ranks, left[rank]
            sees = source <= rank
            if source == rank:  # a token sees those before it: of its own piece, a triangle
                box(ax, x, y, wide, high, WAITING)
                corners = [(x, y), (x + wide, y), (x, y + high)]
                ax.add_patch(Polygon(corners, facecolor=FACES[source], edgecolor=INK, linewidth=0.8))
                ax.text(x + 0.5, y + high * 0.27, f"keys {source}", va="center", fontsize=SMALLEST)
            else:
                box(ax, x, y, wide, high, FACES[source] if sees else WAITING, f"keys {source}" if sees else
                    f"{source}: future")  # fmt: skip
            half = ", of which each token sees those before it" if source == rank else ""
            words.append(f"rank {rank} has keys {source}{half if sees else ', all in the future'}")
            if step < ranks - 1 and rank < ranks - 1:
                arrow(ax, (x + wide - 1, y - 0.2), (left[rank + 1] + 1, y - 6.1), colour=CONTEXT, line=1.6)
        if step < ranks - 1:  # once round: out on the right, in on the left
            arrow(ax, (left[-1] + wide - 1, y - 0.2), (left[-1] + wide + 3.5, y - 6.1), colour=CONTEXT, line=1.6)
            arrow(ax, (left[0] - 4.5, y - 0.2), (left[0] + 1, y - 6.1), colour=CONTEXT, line=1.6)
            ax.text(left[-1] + wide + 3.7, y + 2, "to\nrank 0", ha="center", va="center", fontsize=SMALLEST)
            ax.text(left[0] - 5, y - 3.6, f"from\nrank {ranks - 1}", ha="right", va="center", fontsize=SMALLEST)
        told.append(f"round {step}: {'; '.join(words)}")
    ax.set_title("Keys and values go round, queries stay; grey keys lie in the future of the rank's queries",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(told))
    return ax


def shrinking_sum(first: Sequence[float] = (1, 0), second: Sequence[float] = (3, 2)) -> list[Axes]:
    """Draw the terms of one query's softmax after a first block of scores, and after a second with a larger maximum."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.0), sharey=True, layout="constrained", FigureClass=Picture,
                                width_ratios=(1, 1.45))  # fmt: skip
    old, new = max(first), max(*first, *second)
    shrink = math.exp(old - new)
    blocks = [(score, FACES[0], 0) for score in first] + [(score, FACES[1], 1) for score in second]
    for ax, most, shown in ((axes[0], old, blocks[: len(first)]), (axes[1], new, blocks)):
        new_axes(ax, 0)
        for place, (score, colour, block) in enumerate(shown):
            size = math.exp(score - most)
            if ax is axes[1] and not block:
                ax.bar(place, math.exp(score - old), 0.7, color="none", edgecolor=INK, linestyle=":", linewidth=1.2)
            ax.bar(place, size, 0.7, color=colour, edgecolor=INK, linewidth=0.8)
            ax.text(place, size + 0.025, f"{size:.2f}", ha="center", fontsize=SMALLEST,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
        ax.set_xticks(range(len(shown)), [f"score {score:g}" for score, *_ in shown])
        ax.set(ylim=(0, 1.2), xlim=(-0.6, len(shown) - 0.4), yticks=[0, 0.5, 1])
        total = sum(math.exp(score - most) for score, *_ in shown)
        ax.set_title(f"{'before' if ax is axes[0] else 'after'}: maximum {most:g}, sum {total:.2f}", fontsize=SMALLEST,
                     loc="left")  # fmt: skip
    axes[0].set_ylabel("exp(score − maximum)", fontsize=SMALLEST)
    axes[1].tick_params(left=False)
    for place, score in enumerate(first):
        height = math.exp(score - old)
        arrow(axes[1], (place, height), (place, height * shrink + 0.11), colour=LIMIT, line=2)
    axes[1].text(0.45, 0.6, f"both × {shrink:.3f}\n= exp({old:g} − {new:g})", fontsize=SMALLEST, color=LIMIT)
    figure.suptitle("A larger score arrives: the old terms shrink, all by the same factor", fontsize=TITLE, x=0.01,
                    ha="left")  # fmt: skip
    say(axes[0], f"scores {first} with maximum {old:g}")
    say(axes[1], f"scores {second} come with maximum {new:g}; the old sum is multiplied by {shrink:.3f}")
    return list(axes)


def _hatch(rank: int) -> str:
    """Return the hatch of a rank's colour: from the fifth on the same four colours come again, hatched."""
    return "////" if rank % 8 > 3 else ""


def _shares(ax: Axes, work: Sequence[float]) -> None:
    """Write each rank's work over the mean at the end of its band."""
    for rank, amount in enumerate(work):
        ax.text(2 * rank + 2.3, 2 * rank + 1, f"{amount * len(work) / sum(work):.3f}", va="center", fontsize=SMALLEST)
    ax.text(5.3, 1, "times the mean work", va="center", fontsize=SMALLEST)


def zigzag_blocks(rank: int = 3, others: Sequence[int] = (1, 5), ranks: int = 8, ax: Axes | None = None) -> Axes:
    """Draw what a rank's early and late piece of queries see of the two pieces of keys of a lower and a higher rank."""
    ax = sheet(1.9, 29.5, 4.6, ax)
    own, told = (rank, 2 * ranks - 1 - rank), []
    for left, other in zip((5.4, 14.9), others, strict=True):
        keys = other, 2 * ranks - 1 - other
        ax.text(left + 3, -0.4, f"the keys of rank {other} arrive", ha="center", va="center", fontsize=SMALLEST,
                weight="bold")  # fmt: skip
        for row, mine in enumerate(own):
            for column, piece in enumerate(keys):
                ax.add_patch(Rectangle((left + 3 * column, row), 3, 1, facecolor=COMPUTE if piece < mine else WAITING,
                                       edgecolor="white", linewidth=1.5))  # fmt: skip
        for place, piece in enumerate(keys):
            ax.text(left + 3 * place + 1.5, 2.3, f"keys {piece}", ha="center", va="center", fontsize=SMALLEST)
        seen = ", ".join(f"queries {mine} see keys {piece}" for mine in own for piece in keys if piece < mine)
        told.append(f"of rank {other}, with keys {keys[0]} and {keys[1]}: {seen}")
    for place, piece in enumerate(own):
        ax.text(5.2, place + 0.5, f"queries {piece}", ha="right", va="center", fontsize=SMALLEST)
    for y, face, words in ((0.2, COMPUTE, "computed"), (1.2, WAITING, "future: skipped")):
        ax.add_patch(Rectangle((22.3, y), 0.9, 0.6, facecolor=face))
        ax.text(23.5, y + 0.3, words, va="center", fontsize=SMALLEST)
    ax.text(5.4, 3.2, f"{2 * ranks} pieces, numbered from the front: rank {rank} of {ranks} has {own[0]} and {own[1]}",
            va="center", fontsize=SMALLEST)  # fmt: skip
    ax.set(xlim=(0, 29.5), ylim=(3.6, -0.8))
    ax.set_title(f"Rank {rank} computes two of four boxes, whoever sends the keys", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


BAND = 1510, 2120  # tokens at which both are equal with the latency of NCCL's protocols, LL and Simple


def hidden_rounds(
    tokens: Sequence[int] = (1024, 2048, 4096, 8192), tp: int = 8, reached: float = 0.52 * 989e12, port: float = 50e9,
    ax: Axes | None = None,
) -> Axes:
    """Draw a round's message and the half block of scores that should hide it, over the tokens on a rank."""
    ax = new_axes(ax, 3.4)
    message = [1e6 * count * 2 * LLAMA.kv_heads / tp * LLAMA.head_size * 2 / port for count in tokens]
    half = [1e6 * 2 * count**2 * LLAMA.head_size * LLAMA.heads / tp / reached for count in tokens]
    equal = tokens[0] * message[0] / half[0]
    lines = ((half, COMPUTE, "computing half a block", True), (message, CONTEXT, "message", False))
    for sizes, colour, name, up in lines:
        ax.plot(tokens, sizes, color=colour, linewidth=2.6, marker="o", markersize=7)
        for count, size in zip(tokens, sizes, strict=True):
            above = up == (count > equal)
            ax.annotate(f"{size:.0f}", (count, size), (0, 8 if above else -8), textcoords="offset points", ha="center",
                        va="bottom" if above else "top", fontsize=SMALLEST)  # fmt: skip
        ax.annotate(name, (tokens[-2] * 1.42, sizes[-2] * (2 if up else 1.42)), (-10 if up else 0, 16 if up else -14),
                    textcoords="offset points", ha="right" if up else "left", va="center", fontsize=SMALLEST,
                    weight="bold", color=colour)  # fmt: skip
    ax.axvspan(*BAND, color=GREY, alpha=0.3, linewidth=0, zorder=0)
    ax.text(math.sqrt(BAND[0] * BAND[1]), 230, "crossing\nwith latency", ha="center", va="top", fontsize=SMALLEST)
    ax.axvline(equal, color=LIMIT, linestyle="--", linewidth=1.6)
    ax.text(equal * 0.97, half[-1] * 1.1, "the message\ntakes longer", color=LIMIT, ha="right", va="top",
            fontsize=SMALLEST)  # fmt: skip
    ax.text(BAND[1] * 1.04, half[-1] * 1.1, "it hides", color=LIMIT, va="top", fontsize=SMALLEST)
    ax.text(equal * 1.03, 4.4, f"{round(equal, -1):,.0f} tokens", color=LIMIT, va="bottom", fontsize=SMALLEST)
    ax.set(xscale="log", yscale="log", xlim=(tokens[0] / 1.25, tokens[-1] * 1.25), ylim=(4, 1200))
    ax.set_xticks([*tokens], [f"{count:,}" for count in tokens])
    ax.set_yticks([10, 100, 1000], ["10", "100", "1,000"])
    ax.minorticks_off()
    ax.set_xlabel(f"tokens on a context rank, which is one of {tp} tensor ranks, too", fontsize=SMALLEST)
    ax.set_ylabel("µs of one round (logarithmic)", fontsize=SMALLEST)
    ax.set_title("Half the tokens: half the message, but only a quarter of the work", fontsize=TITLE, loc="left")
    told = (f"{count:,} tokens: message {one:.0f} µs, half a block {other:.0f} µs"
            for count, one, other in zip(tokens, message, half, strict=True))  # fmt: skip
    say(ax, "\n".join([*told, f"equal at {equal:,.0f} tokens, with up to {LLAMA.kv_heads} tensor ranks, "
                       f"and with latency between {BAND[0]:,} and {BAND[1]:,}"]))
    return ax


def causal_work(ranks: int = 8) -> list[Axes]:
    """Draw the scores below the diagonal, coloured by the rank that computes them, dealt out in two ways."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 4.3), layout="constrained", FigureClass=Picture)
    deals = {"contiguous": [[2 * rank, 2 * rank + 1] for rank in range(ranks)],
             "zigzag": [[rank, 2 * ranks - 1 - rank] for rank in range(ranks)]}  # fmt: skip
    side = 2 * ranks
    for ax, (name, deal) in zip(axes, deals.items(), strict=True):
        work = []
        for rank, chunks in enumerate(deal):
            for row in chunks:
                corners = [(0, row), (row, row), (row + 0.94, row + 0.94), (0, row + 0.94)]
                ax.add_patch(Polygon(corners, facecolor=FACES[rank % 4], hatch=_hatch(rank), edgecolor="white",
                                     linewidth=0))  # fmt: skip
            named = [sum(chunks) / 2] if chunks[1] == chunks[0] + 1 else chunks  # two neighbours have one name
            for row in named:
                ax.text(-0.3, row + 0.5, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST)
            work.append(sum(row + 0.5 for row in chunks))
        mean = sum(work) / ranks
        if name == "contiguous":
            _shares(ax, work)
        ratio = max(work) / mean
        ax.set(xlim=(-3.6, side + 3.2), ylim=(side + 1.4, -1.7), aspect="equal")
        ax.axis("off")
        ax.text(-0.3, -0.6, "queries ↓", ha="right", va="center", fontsize=SMALLEST)
        ax.text(0, side + 0.9, "keys, from the first token to the last →", va="center", fontsize=SMALLEST)
        same = "zigzag: all ranks have the same work"
        told = f"{name}: rank {ranks - 1} has {ratio:.3f} times the mean" if ratio > 1.01 else same
        ax.set_title(f"{told}", fontsize=SMALLEST, loc="left", color=INK, weight="bold")
        if ranks > 4 and name == "zigzag":
            ax.text(side, 1.2, "hatched:\nranks 4 to 7", ha="right", va="center", fontsize=SMALLEST)
        shares = ", ".join(f"rank {rank}: {amount / sum(work):.1%}" for rank, amount in enumerate(work))
        say(ax, f"chunks of each rank: {deal}; share of the work: {shares}")
    figure.suptitle("Late queries see more keys. Zigzag gives every rank early and late ones", fontsize=TITLE, x=0.01,
                    ha="left")  # fmt: skip
    return list(axes)
