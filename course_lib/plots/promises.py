"""Whose the blocks of a cache are at one moment: those that hold something, and those that are only promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from course_lib.plots.canvas import FACES, INK, SMALLEST, TITLE, WAITING, new_axes, say


def promised_blocks(servers: Mapping[str, Sequence[tuple[int, int]]], blocks: int, *, title: str) -> Axes:
    """Draw all blocks of each server's cache as one bar; `servers[name]` holds (used, reserved) of each request.

    What a request uses is coloured; what it only reserves is grey.
    """
    ax, told = new_axes(None, 0.95 + 0.85 * len(servers)), []
    for row, (name, requests) in enumerate(servers.items()):
        ax.barh(row, blocks, 0.6, color="white", edgecolor=INK, linewidth=0.8)
        left = 0
        for used, reserved in requests:
            ax.barh(row, used, 0.6, left, color=FACES[1], edgecolor=INK, linewidth=0.6)
            ax.barh(row, reserved - used, 0.6, left + used, color=WAITING, edgecolor=INK, linewidth=0.6)
            if reserved - used > 0.11 * blocks:
                ax.text(left + (used + reserved) / 2, row, "promised,\nempty", ha="center", va="center",
                        fontsize=SMALLEST)
            left += reserved
        if blocks - left > 0.04 * blocks:
            ax.text((left + blocks) / 2, row, "free", ha="center", va="center", fontsize=SMALLEST)
        words = f"{len(requests)} requests run, {sum(used for used, _ in requests) / blocks:.0%} of the cache is used"
        ax.text(0, row - 0.36, f"{name}: {words}", va="bottom", fontsize=SMALLEST, weight="bold")
        told.append(f"{name}: {words}, {left:,} of {blocks:,} blocks are taken")
    ax.set_xlim(0, blocks)
    ax.set_ylim(len(servers) - 0.6, -0.75)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("blocks of the cache; a coloured piece is what one request uses", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
