"""The matrices of a transformer's layer, drawn so that area is the number of parameters."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.models import ModelShape, parameters_by_part
from course_lib.plots.canvas import INK, SMALLEST, TITLE, say, sheet

ATTENTION, MLP = "#8FBCDD", "#CFE3F2"  # tints of WEIGHTS, which is what they are


def matrices(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """Return (width of what goes in, width of what comes out) of each matrix of one dense layer."""
    h, kv = shape.hidden, shape.kv_heads * shape.head_size
    found = {"q": (h, h), "k": (h, kv), "v": (h, kv), "out": (h, h)}
    return found | ({"gate": (h, shape.ffn)} if shape.gated else {}) | {"up": (h, shape.ffn), "down": (shape.ffn, h)}


def layer_matrices(shape: ModelShape, ax: Axes | None = None) -> Axes:
    """Draw a layer's matrices, attention above and MLP below; each area is as large as its number of parameters."""
    found = matrices(shape)
    count = {name: rows * columns for name, (rows, columns) in found.items()}
    total = sum(count.values())
    scale = 10 / shape.ffn  # units a number
    high = shape.hidden * scale
    ax = sheet(2.9, 31.6, 2 * high + 2.9, ax)
    ax.set_aspect("equal")
    of_mlp = sum(size for name, size in count.items() if name in ("gate", "up", "down"))
    ax.set_title(f"One layer of {shape.name}: {total / 1e6:,.0f} million parameters, "
                 f"{of_mlp / total:.0%} of them in the MLP", fontsize=TITLE, loc="left")
    for y, title, names, colour in ((high + 1.7, "attention", ("q", "k", "v", "out"), ATTENTION),
                                    (0.1, "MLP", ("gate", "up", "down"), MLP)):
        x = 0.2
        ax.text(x, y + high + 0.25, title, fontsize=SMALLEST, weight="bold", va="bottom")
        for name in (name for name in names if name in found):
            rows, columns = found[name]
            wide = (columns if rows == shape.hidden else rows) * scale  # down is drawn lying down
            ax.add_patch(plt.Rectangle((x, y), wide, high, facecolor=colour, edgecolor=INK))
            words = f"{name}\n{rows:,} × {columns:,}" if wide > 5 else f"{name}\n{rows:,}\n×\n{columns:,}"
            words = words if wide > 2 else name
            ax.text(x + wide / 2, y + high / 2, words, ha="center", va="center", fontsize=SMALLEST)
            x += wide + 0.35
    rest = parameters_by_part(shape)
    ends = rest["token embedding"] + rest["position embedding"] + rest["head"]
    times = (f"× {shape.layers} layers = {shape.layers * total / 1e9:.2f} billion,\n"
             f"and {ends / 1e9:.2f} billion in the token table and the output matrix")
    ax.text(12.6, 1.5 * high + 1.7, times, fontsize=SMALLEST, va="center")
    drawn = "; ".join(f"{name} {rows:,} by {columns:,}" for name, (rows, columns) in found.items())
    say(ax, f"{drawn}; {times}")
    return ax
