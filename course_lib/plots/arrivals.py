"""What comes in at one rank, step by step: of which chunk, and whose parts are in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, SMALLEST, TITLE, WIDTH, say, sheet

LEFT, HEAD, UNDER, CELL = 0.75, 0.3, 0.28, 0.3  # inches: chunks' names, a run's name, the steps' names, a row's height


def arrivals(runs: Mapping[str, Sequence], rank: int = 0, title: str = "") -> Axes:
    """Draw every chunk that comes in at `rank`: a column a step, a row a chunk, filled with the parts that are in it.

    `runs[name][step][rank][chunk]` are the ranks whose part is in it, as `ring_steps` and `steps_of` of
    `course_lib.lessons.ring` return them; step 0 is what ranks begin with. A thick frame is a complete sum. All runs
    have columns of one width, so that the longer run is longer to look at.
    """
    ranks = len(next(iter(runs.values()))[0])
    high = HEAD + UNDER + CELL * ranks + 0.2
    longest = max(len(steps) for steps in runs.values()) - 1
    ax = sheet(high * len(runs) + 0.4, WIDTH, high * len(runs))
    wide, told = (WIDTH - LEFT) / longest, []
    for place, (name, steps) in enumerate(runs.items()):
        top = high * (len(runs) - place)
        ax.text(0, top - 0.15, name, fontsize=SMALLEST, va="center", weight="bold", color=INK)
        for chunk in range(ranks):
            y = top - HEAD - UNDER - CELL * (chunk + 0.5)
            ax.text(LEFT - 0.1, y, f"chunk {chunk}", ha="right", va="center", fontsize=SMALLEST, color=INK)
        told.append(name)
        for step in range(1, len(steps)):
            x = LEFT + wide * (step - 1)
            ax.text(x, top - HEAD - 0.14, f"step {step}", fontsize=SMALLEST, va="center", color=INK)
            came = {chunk: parts for chunk in range(ranks) if (parts := _came(steps, step, rank, chunk))}
            for chunk in range(ranks):
                low = top - HEAD - UNDER - CELL * (chunk + 1) + 0.03
                _cell(ax, x, low, wide - 0.16, came.get(chunk, []), ranks)
            told.append(f"step {step}: " + ", ".join(
                f"chunk {chunk} with the parts of {'+'.join(map(str, parts))}" for chunk, parts in came.items()))
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _came(steps: Sequence, step: int, rank: int, chunk: int) -> list[int]:
    """Return the parts in a chunk that comes in: all of them where somebody held the same, else those that are new."""
    now, was = steps[step][rank][chunk], steps[step - 1][rank][chunk]
    if now == was:
        return []
    copied = now in [row[chunk] for row in steps[step - 1]]
    return list(now) if copied else [part for part in now if part not in was]


def _cell(ax: Axes, x: float, low: float, wide: float, parts: Sequence[int], ranks: int) -> None:
    """Draw the place of a chunk, empty and pale where none comes in."""
    part, high = wide / ranks, CELL - 0.06
    for rank in parts:
        ax.add_patch(Rectangle((x + rank * part, low), part, high, facecolor=FACES[rank]))
        ax.text(x + (rank + 0.5) * part, low + high / 2, str(rank), ha="center", va="center", fontsize=SMALLEST,
                color=INK)  # fmt: skip
    look = (INK, 2.4 if len(parts) == ranks else 1.0) if parts else ("#DDDDDD", 0.6)
    ax.add_patch(Rectangle((x, low), wide, high, facecolor="none", edgecolor=look[0], linewidth=look[1]))
