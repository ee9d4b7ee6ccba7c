"""How long each rank of a pipeline must keep one micro-batch, schedule beside schedule on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import ACTIVATIONS, INK, SMALLEST, TITLE, WIDTH, Picture, say

HIGH = 0.78  # of a whole stage's bar, in rows; a chunk's is as much thinner as the chunk is smaller
PALE = "#AAD9F4"  # a second chunk, as timelines tint it


def kept(result: Any, microbatch: int) -> list[dict[int, tuple[float, float]]]:
    """Return for each rank the time from forward to the end of backward of one micro-batch, by chunk."""
    found: list[dict[int, tuple[float, float]]] = [{} for _ in range(len(result))]
    for event in result.events:
        if event.action.microbatch == microbatch and event.action.kind in ("F", "B", "I", "W"):
            begin, end = found[event.rank].get(event.action.chunk, (event.start, event.end))
            found[event.rank][event.action.chunk] = min(begin, event.start), max(end, event.end)
    return found


def lifetimes(results: Mapping[str, Any], title: str, microbatch: int = 0) -> list[Axes]:
    """Draw for each of `results` when its ranks keep one micro-batch, a bar for each chunk, on one axis of time.

    A chunk's bar is as thick as its share of the rank's layers, so areas are memory times time; the sum stands beside.
    """
    rows = {name: kept(result, microbatch) for name, result in results.items()}
    longest = max(end for each in rows.values() for row in each for _, end in row.values())
    figure, axes = plt.subplots(
        1, len(results), figsize=(WIDTH, 3.2), layout="constrained", FigureClass=Picture, sharey=True, squeeze=False
    )
    for ax, (name, ranks) in zip(axes.flat, rows.items(), strict=True):
        told = []
        for rank, chunks in enumerate(ranks):
            for chunk, (begin, end) in chunks.items():
                high = HIGH / len(chunks)
                middle = rank + high * (chunk - (len(chunks) - 1) / 2)
                ax.barh(middle, end - begin, 0.94 * high, begin, color=PALE if chunk else ACTIVATIONS)
                if len(chunks) > 1 and rank == len(ranks) - 1:  # named once, where both bars are wide
                    ax.text((begin + end) / 2, middle, f"chunk {chunk}", ha="center", va="center", fontsize=SMALLEST)
                told.append(f"rank {rank} keeps chunk {chunk} for {end - begin:g} s")
            lengths = [f"{end - begin:g}" for begin, end in chunks.values()]
            share = "" if len(chunks) == 1 else f"({' + '.join(lengths)}) / {len(chunks)} = "
            total = sum(end - begin for begin, end in chunks.values()) / len(chunks)
            ax.text(max(end for _, end in chunks.values()) + 0.03 * longest, rank, f"{share}{total:g} s", va="center",
                    fontsize=SMALLEST, color=INK)  # fmt: skip
        ax.set(xlim=(0, 1.62 * longest), ylim=(len(ranks) - 0.45, -0.55), yticks=range(len(ranks)))
        ax.set_yticklabels([f"rank {rank}" for rank in range(len(ranks))], fontsize=SMALLEST)
        ax.set_xticks([0, 4, 8, 12])
        ax.tick_params(axis="x", labelsize=SMALLEST)
        ax.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.set_xlabel("virtual time in s", fontsize=SMALLEST, loc="left")
        ax.set_title(name, fontsize=TITLE - 1, loc="left")
        say(ax, f"{name}: " + ", ".join(told))
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return list(axes.flat)
