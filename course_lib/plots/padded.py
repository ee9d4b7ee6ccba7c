"""How a weight is dealt out: its rows end to end, zeros behind them, and equal pieces for the ranks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, SMALLEST, TITLE, WAITING, arrow, say, sheet

CELL = 2.0


def padded_shards(rows: int = 2, columns: int = 5, ranks: int = 4) -> Axes:
    """Draw the shards of a weight of rows × columns numbers: the weight, its flat and padded form, and the shards."""
    numbers = rows * columns
    size = -(-numbers // ranks)
    padding = size * ranks - numbers
    ax = sheet(3.5, 40, 17.0)
    flat = 20 - CELL * size * ranks / 2 + 3
    left = flat + CELL * (size * ranks - columns) / 2
    for number in range(numbers):
        row, column = divmod(number, columns)
        _cell(ax, left + CELL * column, 14.8 - CELL * row, FACES[number // size], str(number))
        _cell(ax, flat + CELL * number, 8.2, FACES[number // size], str(number))
    for number in range(numbers, size * ranks):
        _cell(ax, flat + CELL * number, 8.2, WAITING, "0", hatch="///")
    step = (CELL * size * ranks + 6) / ranks
    for rank in range(ranks):
        x = flat - 3 + step * rank + (step - CELL * size) / 2
        for place in range(size):
            number = rank * size + place
            there = number < numbers
            _cell(ax, x + CELL * place, 2.6, FACES[rank] if there else WAITING, str(number) if there else "0",
                  hatch="" if there else "///")
        _text(ax, x + CELL * size / 2, 1.2, f"rank {rank}")
        arrow(ax, (flat + CELL * size * (rank + 0.5), 7.9), (x + CELL * size / 2, 5.0))
    arrow(ax, (left + CELL * columns / 2, 12.5), (left + CELL * columns / 2, 10.5))
    _text(ax, 0, 14.8, f"a weight of\n{rows} rows × {columns}", ha="left")
    _text(ax, 0, 9.2, "flattened\nand padded", ha="left")
    _text(ax, 0, 3.6, "cut", ha="left")
    _text(ax, flat + CELL * (numbers + padding / 2), 11.2, f"padding: {padding} zeros")
    title = f"Rows end to end, zeros until it divides, then {ranks} equal pieces: {numbers} numbers, {size} a rank"
    ax.set_title(title, fontsize=TITLE, loc="left")
    pieces = [[str(n) if n < numbers else "0 (padding)" for n in range(rank * size, (rank + 1) * size)]
              for rank in range(ranks)]  # fmt: skip
    say(ax, f"A weight of {rows} rows of {columns} numbers, 0 to {numbers - 1}, is flattened and padded with {padding} "
            "zeros.\n" + "; ".join(f"rank {rank} gets {', '.join(piece)}" for rank, piece in enumerate(pieces)))
    return ax


def _cell(ax: Axes, x: float, y: float, colour: str, words: str, hatch: str = "") -> None:
    ax.add_patch(Rectangle((x, y), CELL, CELL, facecolor=colour, edgecolor=INK if not hatch else "white", linewidth=0.9,
                           hatch=hatch or None))
    if hatch:
        ax.add_patch(Rectangle((x, y), CELL, CELL, facecolor="none", edgecolor=INK, linewidth=0.9))
    paper = {"facecolor": colour, "edgecolor": "none", "pad": 1} if hatch else None
    _text(ax, x + CELL / 2, y + CELL / 2, words, bbox=paper)


def _text(ax: Axes, x: float, y: float, words: str, **more) -> None:
    ax.text(x, y, words, **({"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK} | more))
