"""How requests share a step: in a padded rectangle, in one row under a mask, and in rows of at most so many tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import (
    COMPUTE,
    FACES,
    FORWARD,
    GREY,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    legend_below,
    new_axes,
    say,
)

NAMES = "ABCDEFGHIJKL"
KEYS = ((FORWARD, "a prompt's token"), (COMPUTE, "an answer's token"), (WAITING, "padding"))


def padded_batch(requests: Sequence[tuple[int, int]], newcomer: int = 5) -> list[Axes]:
    """Draw a batch of (prompt, answer) tokens as a padded rectangle; beside it, one that a newcomer's prompt joins."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.5), layout="constrained", FigureClass=Picture,
                                width_ratios=(max(p for p, _ in requests) + max(a for _, a in requests), newcomer + 5))
    longest, most = max(prompt for prompt, _ in requests), max(answer for _, answer in requests)
    for row, (prompt, answer) in enumerate(requests):
        kinds = [WAITING] * (longest - prompt) + [FORWARD] * prompt + [COMPUTE] * answer + [WAITING] * (most - answer)
        _cells(axes[0], row, kinds)
    used, places = sum(map(sum, requests)), len(requests) * (longest + most)
    axes[0].set_title(f"A batch as a rectangle: {used} of {places} places are used", fontsize=TITLE, loc="left")
    for row in range(len(requests)):
        _cells(axes[1], row, [FORWARD] * newcomer if row == 0 else [WAITING] * (newcomer - 1) + [COMPUTE])
    grey, names = (len(requests) - 1) * (newcomer - 1), NAMES[: len(requests)]
    axes[1].set_title(f"E takes A's place: {grey} padded", fontsize=TITLE, loc="left")
    for ax, labels, wide in ((axes[0], names, longest + most), (axes[1], f"E{names[1:]}", newcomer)):
        ax.set(xlim=(-0.1, wide), ylim=(len(requests), -0.1), xticks=[])
        ax.set_yticks([row + 0.43 for row in range(len(labels))], list(labels))
        ax.tick_params(length=0, labelsize=SMALLEST)
        for spine in ax.spines.values():
            spine.set_visible(False)
    axes[0].set_xlabel("all steps of the batch, laid side by side", fontsize=SMALLEST)
    axes[1].set_xlabel("a single step", fontsize=SMALLEST)
    legend_below(axes[0], [Patch(facecolor=colour, label=words) for colour, words in KEYS])
    say(axes[0], ", ".join(f"{name} has a prompt of {p} tokens and an answer of {a}"
                           for name, (p, a) in zip(names, requests, strict=False)))
    say(axes[1], f"E brings a prompt of {newcomer} tokens, each of the others one token and {newcomer - 1} of padding")
    return list(axes)


def _cells(ax: Axes, row: int, kinds: Sequence[str], words: Sequence[str] = ()) -> None:
    for place, colour in enumerate(kinds):
        ax.add_patch(Rectangle((place, row), 0.92, 0.86, facecolor=colour, linewidth=0))
        if words:
            ax.text(place + 0.46, row + 0.44, words[place], ha="center", va="center", fontsize=SMALLEST, color=INK)


def row_mask(pieces: Mapping[str, tuple[int, int]] | None = None) -> Axes:
    """Draw who sees whom in one row of tokens: `pieces[request]` = tokens in the cache, and new ones in the row."""
    pieces = pieces or {"A": (3, 1), "B": (5, 1), "C": (0, 4)}
    columns = [(name, n) for name, (kept, new) in pieces.items() for n in range(1, kept + new + 1)]
    rows = [(name, n) for name, (kept, new) in pieces.items() for n in range(kept + 1, kept + new + 1)]
    faces = dict(zip(pieces, FACES, strict=False))
    ax = new_axes(None, 3.1)
    for y, (mine, place) in enumerate(rows):
        for x, (other, n) in enumerate(columns):
            sees = mine == other and n <= place
            ax.add_patch(Rectangle((x, y), 0.94, 0.9, facecolor=faces[mine] if sees else "white",
                                   edgecolor=INK if sees else "#DDDDDD", linewidth=0.8))
    for x, (name, n) in enumerate(columns):
        new = n > pieces[name][0]
        ax.text(x + 0.47, -0.42, f"{name}{n}", ha="center", va="center", fontsize=SMALLEST, color=INK if new else GREY,
                weight="bold" if new else "normal")
    left = 0
    for name, (kept, new) in pieces.items():
        words = "prompt, just come" if not kept else f"{kept} in the cache, {new} new"
        ax.text(left + (kept + new) / 2, -1.15, f"{name}: {words}", ha="center", va="center", fontsize=SMALLEST)
        left += kept + new
    ax.set(xlim=(-0.2, len(columns)), ylim=(len(rows), -1.6), xticks=[])
    ax.set_yticks([y + 0.45 for y in range(len(rows))], [f"{name}{n} sees" for name, n in rows])
    ax.tick_params(length=0, labelsize=SMALLEST)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(f"One row of {len(rows)} tokens, none of them padding: each sees only its own request",
                 fontsize=TITLE, loc="left")
    say(ax, "; ".join(f"{name}{place} sees {name}1 to {name}{place}" for name, place in rows))
    return ax


def filled_rows(requests: Sequence[tuple[int, int, int]], budget: int) -> list[list[tuple[int, str]]]:
    """Return the tokens of each step as (request, "answer" or "prompt"); requests are (first step, prompt, answer).

    Every answer that is being made takes a place, in order of arrival; the rest of `budget` reads prompts.
    """
    read, made, steps = [0] * len(requests), [0] * len(requests), []
    while any(made[n] < answer for n, (_, _, answer) in enumerate(requests)):
        here = [n for n, (begin, _, answer) in enumerate(requests) if begin <= len(steps) + 1 and made[n] < answer]
        row = [(n, "answer") for n in here if made[n]]
        for n in here:
            piece = min(budget - len(row), requests[n][1] - read[n])
            row += [(n, "prompt")] * piece
            read[n] += piece
        for n in here:
            made[n] += read[n] == requests[n][1]
        steps.append(row)
    return steps


def rows_of_steps(
    requests: Sequence[tuple[int, int, int]] = ((1, 5, 4), (1, 6, 3), (2, 3, 5), (2, 7, 2), (4, 9, 3), (5, 6, 2)),
    budget: int = 8,
) -> Axes:
    """Draw the row of each step, a letter for each token's request; beside it stands who has joined and who leaves."""
    steps = filled_rows(requests, budget)
    ax, told = new_axes(None, 0.95 + 0.34 * len(steps)), []
    for y, row in enumerate(steps):
        colours = [COMPUTE if kind == "answer" else FORWARD for _, kind in row] + [WAITING] * (budget - len(row))
        _cells(ax, y, colours, [NAMES[n] for n, _ in row] + [""] * (budget - len(row)))
        seen = {n for later in steps[:y] for n, _ in later}
        joins = [NAMES[n] for n in dict(row) if n not in seen]
        leaves = [NAMES[n] for n in dict(row) if not any(n in dict(later) for later in steps[y + 1 :])]
        words = ", ".join([f"{' and '.join(names)} {verb}{'s' * (len(names) == 1)}"
                           for names, verb in ((joins, "join"), (leaves, "leave")) if names])
        ax.text(budget + 0.35, y + 0.43, words, va="center", fontsize=SMALLEST, color=INK)
        told.append(f"step {y + 1}: {''.join(NAMES[n] for n, _ in row)}, {words}".removesuffix(", "))
    ax.plot([budget + 0.05] * 2, [-0.1, len(steps)], color=LIMIT, linestyle="--", linewidth=1.4)
    ax.text(budget + 0.05, -0.25, f"budget: {budget} tokens", ha="center", va="bottom", fontsize=SMALLEST, color=LIMIT)
    ax.set(xlim=(-0.1, 1.5 * budget), ylim=(len(steps), -0.9), xticks=[])
    ax.set_yticks([y + 0.43 for y in range(len(steps))], [f"step {y + 1}" for y in range(len(steps))])
    ax.tick_params(length=0, labelsize=SMALLEST)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title("Every step has a row of its own, filled up to the budget", fontsize=TITLE, loc="left")
    legend_below(ax, [Patch(facecolor=colour, label=words) for colour, words in (*KEYS[:2], (WAITING, "unused"))])
    say(ax, "\n".join(told))
    return ax
