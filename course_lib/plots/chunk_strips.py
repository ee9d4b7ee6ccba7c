"""All steps of an all-reduce beside one another: what each chunk on each rank holds after each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import FACES, INK, SENT, SMALLEST, TITLE, WIDTH, legend_below, say, sheet

LEFT, HEAD, UNDER = 0.5, 0.28, 0.5  # inches: the ranks' names, the name of a row of steps, that of each step
CELL = 0.29  # inches high
DIGITS = 0.11  # inches that a rank's part must be wide to bear its number


def chunk_strips(runs: Mapping[str, Sequence], per_row: int = 6, title: str = "") -> Axes:
    """Draw every step of one or several runs, `per_row` beside one another.

    `runs[name][step][rank][chunk]` are the ranks whose part is in it, as `ring_steps` and `steps_of` of
    `course_lib.lessons.ring` return them; step 0 is what ranks begin with and not drawn. What has come in in a step has
    a pink frame, what is complete a black one. Only the text twin says what each rank receives, in tensors: a reader of
    the picture counts frames.
    """
    first = next(iter(runs.values()))
    ranks, chunks = len(first[0]), len(first[0][0])
    rows = [(name if start == 1 else "", steps, range(start, min(start + per_row, len(steps))))
            for name, steps in runs.items() for start in range(1, len(steps), per_row)]  # fmt: skip
    heights = [(HEAD if name else 0) + UNDER + CELL * ranks + 0.12 for name, _, _ in rows]
    ax = sheet(sum(heights) + (0.75 if title else 0.4), WIDTH, sum(heights))
    wide = (WIDTH - LEFT) / per_row
    top, told = sum(heights), []
    for (name, steps, shown), height in zip(rows, heights, strict=True):
        y = top
        if name:
            ax.text(0, y - 0.15, name, fontsize=SMALLEST, va="center", weight="bold", color=INK)
            told.append(f"{name}: each rank receives {_received(steps) / chunks:g} tensors")
            y -= HEAD
        for rank in range(ranks):
            middle = y - UNDER - CELL * (rank + 0.5)
            ax.text(LEFT - 0.07, middle, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
        for place, step in enumerate(shown):
            x = LEFT + place * wide
            how = "add" if _grows(steps, step) else "copy"
            ax.text(x, y - 0.2, f"step {step}: {how}", fontsize=SMALLEST, weight="bold", color=INK)
            for chunk in range(chunks):
                middle = x + (wide - 0.14) / chunks * (chunk + 0.5) - 0.03
                words = f"chunk {chunk}" if chunk == 0 and wide / chunks > 0.6 else str(chunk)
                ax.text(middle, y - UNDER + 0.1, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
            _panel(ax, x, y - UNDER, (wide - 0.14) / chunks, steps[step], steps[step - 1])
            done = sum(_complete(cell, ranks) for row in steps[step] for cell in row)
            told.append(f"step {step}: {how}; {done} of {ranks * chunks} chunks are complete")
        top -= height
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    keys = [Patch(facecolor=FACES[rank], edgecolor=INK, label=f"rank {rank}") for rank in range(ranks)]
    frames = [Patch(facecolor="white", edgecolor=colour, linewidth=2.2, label=label)
              for colour, label in ((SENT, "just came in"), (INK, "complete"))]  # fmt: skip
    legend_below(ax, keys + frames)
    say(ax, "\n".join(told))
    return ax


def _panel(ax: Axes, x: float, y: float, wide: float, held: Sequence, before: Sequence) -> None:
    """Draw a step with its upper left corner at (x, y): a row for each rank, a column for each chunk."""
    ranks = len(held)
    gap, part = 0.08, (wide - 0.08) / ranks
    frames = []
    for rank, row in enumerate(held):
        for chunk, cell in enumerate(row):
            left, low = x + chunk * wide, y - (rank + 1) * CELL + gap / 2
            ax.add_patch(Rectangle((left, low), part * ranks, CELL - gap, facecolor="white", edgecolor="#CCCCCC"))
            for other in cell:
                ax.add_patch(Rectangle((left + other * part, low), part, CELL - gap, facecolor=FACES[other]))
                if part >= DIGITS:
                    ax.text(left + (other + 0.5) * part, low + (CELL - gap) / 2 - 0.005, str(other), ha="center",
                            va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
            corner = (left, low), part * ranks, CELL - gap
            if _complete(cell, ranks):
                frames.append((INK, 1.8, corner))
            if cell != before[rank][chunk]:  # around the black one
                outer = (left - 0.028, low - 0.028), part * ranks + 0.056, CELL - gap + 0.056
                frames.append((SENT, 2.2, outer))
    for colour, line, corner in sorted(frames, key=lambda frame: frame[0] == INK):  # black over pink
        ax.add_patch(Rectangle(*corner, facecolor="none", edgecolor=colour, linewidth=line))


def _complete(cell: Sequence, ranks: int) -> bool:
    return len(set(cell)) == ranks > 1


def _received(steps: Sequence) -> int:
    """Return how many chunks come in at rank 0 in all steps."""
    return sum(now != was for step in range(1, len(steps))
               for now, was in zip(steps[step][0], steps[step - 1][0], strict=True))  # fmt: skip


def _grows(steps: Sequence, step: int) -> bool:
    """Return whether some chunk that came in a step is a sum that its sender did not hold."""
    held, before = steps[step], steps[step - 1]
    came = [(rank, chunk) for rank, row in enumerate(held) for chunk, cell in enumerate(row)
            if cell != before[rank][chunk]]  # fmt: skip
    return any(held[rank][chunk] not in [row[chunk] for row in before] for rank, chunk in came)
