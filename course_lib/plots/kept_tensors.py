"""What one token leaves in one layer until backward: a box for each tensor, as wide as the numbers it holds."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.models import ModelShape
from course_lib.plots.canvas import ACTIVATIONS, INK, SMALLEST, TITLE, WIDTH, say, sheet


def kept_tensors(shape: ModelShape, sequence: int, ax: Axes | None = None) -> Axes:
    """Draw the tensors that a layer keeps of one token of a sequence; what is recomputed by choice stands out."""
    h, kv = shape.hidden, shape.kv_heads * shape.head_size
    inner = ("gate", "its SiLU", "up", "product") if shape.gated else ("before GELU", "after GELU")
    rows = {
        "attention": [("norm's\ninput", h), ("input of\nq, k, v", h), ("q", h), ("k", kv), ("v", kv),
                      ("scores", shape.heads * sequence), ("input\nof out", h)],
        "MLP": [("norm's\ninput", h), ("input of\nthe MLP", h), *((name, shape.ffn) for name in inner)],
    }  # fmt: skip
    most = max(sum(size for _, size in row) for row in rows.values())
    unit, told = 42 / most, []
    ax = sheet(3.4, 46, 46 * 3.4 / WIDTH, ax)
    ax.set_title(f"One layer of {shape.name} keeps {sum(size for row in rows.values() for _, size in row):,} "
                 f"numbers for each of {sequence:,} tokens", fontsize=TITLE, loc="left")
    for y, (part, row) in zip((11.9, 3.3), rows.items(), strict=True):
        ax.text(0.1, y + 5.4, part, fontsize=SMALLEST, weight="bold", va="center")
        x = 0.1
        for place, (name, size) in enumerate(row):
            wide = size * unit
            scores, first = name == "scores", part == "attention" and not place
            ax.add_patch(Rectangle((x, y), wide, 2.2, facecolor=INK if first else "#C4E3F5" if scores else ACTIVATIONS,
                                   hatch="///" if scores else None, edgecolor="white" if scores else INK))  # fmt: skip
            if scores:  # a hatch has the colour of the edge, so the frame is drawn by itself
                ax.add_patch(Rectangle((x, y), wide, 2.2, facecolor="none", edgecolor=INK))
            if wide > 4 and not scores:
                ax.text(x + wide / 2, y + 1.1, f"{name}\n{size:,}", ha="center", va="center", fontsize=SMALLEST)
            elif scores:
                words = f"attention scores\n{shape.heads} heads × {sequence:,}"
                ax.text(x + wide / 2, y + 1.1, words, ha="center", va="center", fontsize=SMALLEST,
                        bbox={"facecolor": "#C4E3F5", "edgecolor": "none", "pad": 1})  # fmt: skip
            else:
                ax.text(x + wide / 2, y + 2.4, name, ha="center", va="bottom", fontsize=SMALLEST)
                if size == h and wide > 0.45 * len(f"{size:,}"):
                    ax.text(x + wide / 2, y - 0.3, f"{size:,}", ha="center", va="top", fontsize=SMALLEST)
            if name == "v" and kv < h:
                ax.text(x - 0.45, y - 0.3, f"each\n{kv:,}", ha="center", va="top", fontsize=SMALLEST)
            told.append(f"{part}, {' '.join(name.split())}: {size:,}")
            x += max(wide + (0.9 if wide < 3 else 0.35), 3.5 if "\n" in name else 0)
    ax.text(0.1, 0.4, "black: all that full recomputation keeps; hatched: what selective recomputation drops",
            fontsize=SMALLEST, va="center")
    say(ax, "\n".join([*told, "full recomputation keeps only the first, selective everything except the scores"]))
    return ax
