"""The matrices of a transformer's layer in the order in which a token's vector meets them; area is parameters."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.models import ModelShape, parameters_by_part
from course_lib.plots.canvas import INK, SMALLEST, TITLE, WIDTH, arrow, say, sheet

ATTENTION, MLP, TABLES = "#8FBCDD", "#CFE3F2", "#E4E4E4"  # tints of WEIGHTS, which is what they are; tables pale
HIGH, GAP = 10.0, 1.7  # units: of a matrix as high as `ffn`; between two matrices that an arrow joins


def matrices(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """Return (width of what goes in, width of what comes out) of each matrix of one layer without experts."""
    h, kv = shape.hidden, shape.kv_heads * shape.head_size
    found = {"q": (h, h), "k": (h, kv), "v": (h, kv), "out": (h, h)}
    return found | ({"gate": (h, shape.ffn)} if shape.gated else {}) | {"up": (h, shape.ffn), "down": (shape.ffn, h)}


def layer_matrices(shape: ModelShape, ax: Axes | None = None) -> Axes:
    """Draw a layer's matrices from left to right as a token's vector goes through them, and the whole model below.

    A matrix is as wide as what goes in and as high as what comes out, so its area is its number of parameters.
    """
    found = matrices(shape)
    count = {name: into * out for name, (into, out) in found.items()}
    total, of_mlp = sum(count.values()), sum(count[name] for name in ("gate", "up", "down") if name in count)
    scale = HIGH / shape.ffn
    narrow, middle = shape.hidden * scale, 4.4 + HIGH / 2
    wides = [narrow, narrow, narrow * (1 + shape.gated) + 0.4 * shape.gated, HIGH]
    wide = 3.2 + sum(wides) + 3 * GAP + 0.7 + 2.2
    ax = sheet(WIDTH * (HIGH + 6.8) / wide, wide, HIGH + 6.8, ax)
    ax.set_title(f"One layer of {shape.name}: {total / 1e6:,.0f} million parameters, "
                 f"{of_mlp / total:.0%} of them in the MLP", fontsize=TITLE, loc="left")

    sides = "each matrix as wide as what goes in, as high as what comes out"
    ax.text(0.1, HIGH + 6.3, sides, va="center", fontsize=SMALLEST)

    def draw(name: str, x: float, y: float, colour: str) -> None:
        into, out = found[name]
        ax.add_patch(plt.Rectangle((x, y), into * scale, out * scale, facecolor=colour, edgecolor=INK))
        size = f"{into:,}\n×\n{out:,}" if into * scale < 6 and out > 10_000 else (
            f"{into:,}\n× {out:,}") if into * scale < 6 else f"{into:,} in × {out:,} out"
        low = out * scale < 1.9
        ax.text(x + into * scale / 2, y + out * scale / 2, name if low else f"{name}\n{size}", ha="center", va="center",
                fontsize=SMALLEST)  # fmt: skip

    x = 0.1
    ax.text(x, middle, f"vector of\na token:\n{shape.hidden:,}\nnumbers", fontsize=SMALLEST, va="center")
    x += 3.1
    first = [name for name in ("v", "k", "q")]
    heights = [found[name][1] * scale for name in first]
    y = middle - (sum(heights) + 0.6) / 2
    for name, high in zip(first, heights, strict=True):
        draw(name, x, y, ATTENTION)
        y += high + 0.3
    if heights[0] < 1.9:  # too low for its numbers
        kv = f"k, v: {shape.hidden:,}\n× {found['k'][1]:,} each"
        ax.text(x + narrow / 2, middle - (sum(heights) + 0.6) / 2 - 0.25, kv, ha="center", va="top", fontsize=SMALLEST)
    arrow(ax, (x - 0.5, middle), (x - 0.05, middle))
    begin, x = x, x + narrow
    arrow(ax, (x + 0.15, middle), (x + GAP - 0.15, middle))
    ax.text(x + GAP / 2, middle + 0.35, "look\nback", ha="center", va="bottom", fontsize=SMALLEST)
    x += GAP
    draw("out", x, middle - narrow / 2, ATTENTION)
    x += narrow
    _over(ax, begin, x, HIGH + 4.9, "attention", f"{(total - of_mlp) / 1e6:,.0f} million")
    arrow(ax, (x + 0.15, middle), (x + GAP - 0.15, middle))
    x += GAP
    begin = x
    for name in (name for name in ("gate", "up") if name in found):
        draw(name, x, 4.4, MLP)
        x += narrow + 0.4
    x -= 0.4
    arrow(ax, (x + 0.15, middle), (x + GAP - 0.15, middle))
    if shape.gated:
        ax.text((begin + x) / 2, 4.2, "SiLU(gate) × up", ha="center", va="top", fontsize=SMALLEST)
    else:
        ax.text(x + GAP / 2, middle + 0.35, "GELU", ha="center", va="bottom", fontsize=SMALLEST)
    x += GAP
    draw("down", x, middle - narrow / 2, MLP)
    x += HIGH
    _over(ax, begin, x, HIGH + 4.9, "MLP", f"{of_mlp / 1e6:,.0f} million")
    arrow(ax, (x + 0.15, middle), (x + 1.2, middle))
    told = _whole(ax, shape, total, of_mlp, wide)
    drawn = "; ".join(f"{name} {into:,} by {out:,}" for name, (into, out) in found.items())
    say(ax, f"from left to right: {drawn}; the whole model: {told}")
    return ax


def _over(ax: Axes, begin: float, end: float, y: float, name: str, size: str) -> None:
    ax.plot([begin, end], [y, y], color=INK, linewidth=1)
    ax.text((begin + end) / 2, y + 0.25, f"{name}: {size}", ha="center", va="bottom", fontsize=SMALLEST, weight="bold")


def _whole(ax: Axes, shape: ModelShape, total: int, of_mlp: int, wide: float) -> str:
    """Draw all parameters of the model as one bar: its MLPs, its attention, its two ends."""
    rest = parameters_by_part(shape)
    ends = rest["token embedding"] + rest["position embedding"] + rest["head"]
    parts = {"MLPs": (shape.layers * of_mlp, MLP), "attention": (shape.layers * (total - of_mlp), ATTENTION),
             "ends": (ends, TABLES)}  # fmt: skip
    everything, long = sum(size for size, _ in parts.values()), wide - 0.4
    unit, word = (1e9, "billion") if everything > 1e9 else (1e6, "million")
    x = 0.1
    for name, (size, colour) in parts.items():
        part = long * size / everything
        ax.add_patch(plt.Rectangle((x, 0.1), part, 1.7, facecolor=colour, edgecolor=INK))
        ax.text(x + part / 2, 0.95, f"{name} {size / unit:.2f}", ha="center", va="center", fontsize=SMALLEST)
        x += part
    told = (f"All {shape.layers} layers and, at the ends, token table and output matrix: "
            f"{everything / unit:,.2f} {word} parameters")
    ax.text(0.1, 2.1, told, fontsize=SMALLEST, va="bottom", weight="bold")
    return told + ", " + ", ".join(f"{name} {size / unit:.2f}" for name, (size, _) in parts.items())
