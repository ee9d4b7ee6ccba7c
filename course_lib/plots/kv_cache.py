"""The KV cache: which tokens pass through the model in which step, and where their keys and values lie in memory."""

from __future__ import annotations

import random
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    COMPUTE,
    FACES,
    FORWARD,
    GREY,
    INK,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    say,
)


def token_passes(prompt: int = 6, new: int = 6) -> list[Axes]:
    """Draw which tokens pass in each step, without and with a KV cache: a column a token, a row a step."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), layout="constrained", FigureClass=Picture)
    plain = sum(prompt + step for step in range(new))
    cached = prompt + new - 1
    for ax, kept, words in ((axes[0], False, f"without a cache: {plain} token passes"),
                            (axes[1], True, f"with a cache: {cached}")):
        for step in range(new):
            for token in range(prompt + step):
                old = kept and step > 0 and token < prompt + step - 1
                new_one, kept_one = (FORWARD, "#D3E9F7") if token < prompt else (COMPUTE, "#C5E6DC")
                colour = kept_one if old else new_one
                ax.add_patch(plt.Rectangle((token, step), 0.92, 0.86, facecolor=colour, linewidth=0))
        ax.axvline(prompt - 0.04, color=INK, linewidth=1, linestyle=":")
        ax.set_xlim(-0.1, prompt + new - 1)
        ax.set_ylim(new, -0.1)
        ax.set_yticks([step + 0.43 for step in range(new)], [f"step {step + 1}" for step in range(new)])
        ax.set_xticks([prompt / 2, prompt + (new - 1) / 2], ["the prompt", "the answer so far"])
        ax.tick_params(length=0, labelsize=SMALLEST)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_title(words, fontsize=TITLE, loc="left")
    axes[1].set_xlabel("faint: keys and values are kept, and only looked up", fontsize=SMALLEST)
    axes[0].set_xlabel("every cell is computed, again in each step", fontsize=SMALLEST)
    say(axes[0], f"to make {new} tokens after a prompt of {prompt}, {prompt}, {prompt + 1}, … tokens pass: "
                 f"{plain} in all")
    say(axes[1], f"the prompt of {prompt} passes once and then one token in each step: {cached} in all; the keys and "
                 "values of earlier tokens are looked up")
    return list(axes)


def block_tables(answers: Sequence[int] = (19, 7, 12), size: int = 4, longest: int = 24, seed: int = 3) -> list[Axes]:
    """Draw the same requests with room reserved for the longest answer, and with blocks handed out as needed."""
    figure, (top, low) = plt.subplots(2, 1, figsize=(WIDTH, 4.4), layout="constrained", FigureClass=Picture,
                                      height_ratios=(2.3, 4))
    used, names = sum(answers), "ABCDEFG"
    for row, tokens in enumerate(answers):
        for place in range(longest):
            top.add_patch(plt.Rectangle((place, row), 0.92, 0.8, linewidth=0,
                                        facecolor=FACES[row] if place < tokens else WAITING))
        top.text(-0.4, row + 0.4, names[row], ha="right", va="center", fontsize=SMALLEST, weight="bold")
    top.set_xlim(-1, longest)
    top.set_ylim(len(answers), -0.1)
    reserved = longest * len(answers)
    top.set_title(f"Reserved for the longest answer: {reserved - used} of {reserved} places are taken but empty",
                  fontsize=TITLE, loc="left")

    needs = [-(-tokens // size) for tokens in answers]
    total, wide = 18, 9
    places = random.Random(seed).sample(range(total), sum(needs))
    starts = [sum(needs[:row]) for row in range(len(needs))]
    tables = [places[start : start + need] for start, need in zip(starts, needs, strict=True)]
    owner = {block: (row, n) for row, table in enumerate(tables) for n, block in enumerate(table)}
    for block in range(total):
        row, n = owner.get(block, (None, 0))
        _block(low, block, _corner(block, wide, size), size, row, n, 0 if row is None else answers[row])
    low.set_xlim(-0.6, wide * (size + 0.55))
    low.set_ylim(4.9, -0.55)
    written = "    ".join(f"{names[row]}: {', '.join(map(str, table))}" for row, table in enumerate(tables))
    _tables(low, tables)
    low.set_title(f"The same {total * size} places in blocks of {size}: {size * sum(needs) - used} are taken but "
                  f"empty, {total - sum(needs)} blocks are free", fontsize=TITLE, loc="left")
    for ax in (top, low):
        ax.axis("off")
    say(top, ", ".join(f"request {names[row]} uses {tokens} of {longest} places"
                       for row, tokens in enumerate(answers)))
    say(low, f"{total} blocks of {size} tokens; tables {written}")
    return [top, low]


def _corner(block: int, wide: int, size: int) -> tuple[float, float]:
    return (block % wide) * (size + 0.55), block // wide * 1.75


def _block(
    ax: Axes, block: int, at: tuple[float, float], size: int, row: int | None, place: int, tokens: int
) -> None:
    """Draw one block below its number: whose tokens lie in it, and which; white where it is nobody's."""
    (x, y), filled = at, min(size, tokens - place * size)
    for cell in range(0 if row is None else size):
        look = {"facecolor": FACES[row] if cell < filled else WAITING, "linewidth": 0}
        wide = 1.0 if cell < filled - 1 else 0.94  # no gaps where words stand
        ax.add_patch(plt.Rectangle((x + cell, y), wide, 0.95, **look))
    if row is None:
        ax.add_patch(plt.Rectangle((x, y), size - 0.06, 0.95, facecolor="white", edgecolor=GREY, linewidth=0.8))
    ax.text(x + size / 2, y - 0.22, str(block), ha="center", va="center", fontsize=SMALLEST, color=INK)
    if row is not None:
        first, last = place * size + 1, place * size + filled
        words = f"{'ABCDEFG'[row]}\n{first}–{last}" if last > first else f"{'ABCDEFG'[row]}\n{first}"
        ax.text(x + filled / 2, y + 0.47, words, ha="center", va="center", fontsize=SMALLEST, weight="bold",
                linespacing=0.95)


def _tables(ax: Axes, tables: Sequence[Sequence[int]]) -> None:
    """Draw each request's table below the blocks, in its colour."""
    x, y = 0.0, 3.4
    for row, table in enumerate(tables):
        ax.text(x, y + 0.5, f"table of {'ABCDEFG'[row]}:", va="center", fontsize=SMALLEST, weight="bold")
        x += 5.8
        for block in table:
            ax.add_patch(plt.Rectangle((x, y), 1.5, 1.0, facecolor=FACES[row], edgecolor=INK, linewidth=0.8))
            ax.text(x + 0.75, y + 0.5, str(block), ha="center", va="center", fontsize=SMALLEST, weight="bold")
            x += 1.5
        x += 1.2
