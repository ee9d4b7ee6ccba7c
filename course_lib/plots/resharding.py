"""A tensor in the pieces of many files, and what ranks of another number have of it when a file is missing."""

from __future__ import annotations

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, WAITING, say, sheet


def resharded(
    numbers: int = 15, saved: int = 4, ranks: int = 2, lost: Collection[int] = (), ax: Axes | None = None
) -> Axes:
    """Draw the pieces of `saved` files above and the parts of `ranks` below; what comes from a lost file is white."""
    piece, part = -(-numbers // saved), -(-numbers // ranks)
    wide = max(piece * saved + 0.8 * saved, part * ranks + 0.8 * ranks)
    ax = sheet(3.0, wide + 3.6, 9.4, ax)
    filled = sum(place // piece not in lost for place in range(numbers))
    words = f"A loader that copies as it reads: {filled} of {numbers} numbers are replaced before the error"
    ax.set_title(words if lost else "The pieces in order are the tensor, then padding", fontsize=TITLE, loc="left")
    rows = ((6.0, saved, piece, "files"), (1.6, ranks, part, "model"))
    middles: list[list[float]] = []
    for y, count, size, name in rows:
        ax.text(0.1, y + 0.7, name, va="center", fontsize=SMALLEST, weight="bold")
        middles.append([])
        for owner in range(count):
            x = 3.4 + owner * (wide / count)
            for place in range(owner * size, (owner + 1) * size):
                source, left = place // piece, x + place - owner * size
                gone, empty = source in lost, place >= numbers
                colour = WAITING if empty else "#FFFFFF" if gone else FACES[source % len(FACES)]
                ax.add_patch(Rectangle((left, y), 1.0, 1.4, facecolor=colour, edgecolor=INK, linewidth=0.8))
                text = "0" if empty else "old" if gone else str(place)
                text = "" if (gone if name == "files" else empty) else text
                ax.text(left + 0.5, y + 0.7, text, ha="center", va="center", fontsize=SMALLEST)
                middles[-1].append(left + 0.5)
            missing = name == "files" and owner in lost
            title = f"shard {owner}" + (": missing" if missing else "") if name == "files" else f"rank {owner}"
            ax.text(x + size / 2, y + 2.0, title, ha="center", va="center", fontsize=SMALLEST,
                    color=LIMIT if missing else INK, weight="bold" if missing else "normal")  # fmt: skip
    for place in range(0, min(map(len, middles)), piece):
        if place // piece not in lost:
            ends = [sum(row[place : place + piece]) / len(row[place : place + piece]) for row in middles]
            ax.annotate("", (ends[1], 4.2), (ends[0], 5.8), arrowprops={"arrowstyle": "-|>", "color": INK})
    ax.add_patch(Rectangle((3.4, 0.1), 0.8, 0.8, facecolor=WAITING, edgecolor=INK, linewidth=0.8))
    ax.text(4.5, 0.5, "padding, which does not count", va="center", fontsize=SMALLEST)
    say(ax, f"{numbers} numbers in {saved} pieces of {piece}, loaded into {ranks} parts of {part}; "
            + (f"of the files {sorted(lost)} are missing, so {numbers - filled} numbers stay old" if lost else
               "the rest is padding"))  # fmt: skip
    return ax
