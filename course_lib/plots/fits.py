"""Whether a model fits: what it takes to store it, to serve it and to train it, against the memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from course_lib.hardware import H100
from course_lib.memory import activation_bytes, kv_cache_bytes, training_memory
from course_lib.models import MODELS, ModelShape, parameter_count
from course_lib.plots.canvas import (
    ACTIVATIONS,
    INK,
    LIMIT,
    SERIES,
    SMALLEST,
    TITLE,
    legend_below,
    new_axes,
    say,
)
from course_lib.plots.memory import PARTS

GIGA = 1e9


def store_serve_train(name: str = "Llama-3-8B", *, answer: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the bytes of a model's bf16 file, of serving it and of training it on 1,024 tokens, against an H100.

    Serving is for 8 users of 8,192 tokens each. Without `answer` the bar of training is a question mark.
    """
    shape = MODELS[name]
    weights = 2 * parameter_count(shape)
    training = training_memory(shape, 1, 1024, gpu=H100)
    rows = {
        "the file": {"weights": weights},
        "to serve it\nto 8 users": {"weights": weights, "KV cache": 8 * kv_cache_bytes(shape, 8192)},
        "to train it": training.moments[training.peak_moment] if answer else {},
    }
    looks = PARTS | {"KV cache": (ACTIVATIONS, "...")}
    totals = [sum(parts.values()) / GIGA for parts in rows.values()]
    ax = new_axes(ax, 2.9)
    for place, parts in enumerate(rows.values()):
        left = 0.0
        for part, size in parts.items():
            colour, hatch = looks[part]
            pieces = 3 if part == "optimizer" else 1  # a copy of the weights, and two moments: equally large
            for piece in range(pieces):
                begin, wide = left + piece * size / GIGA / pieces, size / GIGA / pieces
                ax.barh(place, wide, 0.62, begin, color=colour, hatch=hatch, edgecolor="white", linewidth=0.9)
                if wide > 10:
                    of = ("copy ", "m ", "v ")[piece] if pieces == 3 else ""
                    ax.text(begin + wide / 2, place, f"{of}{wide:.0f}", ha="center", va="center", fontsize=SMALLEST,
                            color="white" if part == "weights" else INK)
            left += size / GIGA
        if not parts:
            ax.barh(place, 200, 0.62, color="white", edgecolor=INK, linestyle="--", linewidth=1)
        ax.text(left + 1.5 if parts else 45, place, f"{left:.0f} GB" if parts else "?", va="center",
                fontsize=SMALLEST if parts else TITLE, weight="normal" if parts else "bold")
    limit = H100.memory / GIGA
    ax.axvline(limit, color=LIMIT, linestyle="--", linewidth=1.6)
    words = f"all that an H100 has: {limit:g} GB"
    ax.text(limit + 1, 0, words, color=LIMIT, fontsize=SMALLEST, va="center")
    ax.set_xlim(0, 150)
    ax.set_ylim(2.55, -0.55)
    ax.set_yticks(range(3), list(rows))
    ax.set_xlabel("GB of memory", fontsize=SMALLEST)
    title = f"training it takes {totals[2]:.0f}" if answer else f"the GPU has {limit:g}: is that enough to train it?"
    ax.set_title(f"The file of {name} has {totals[0]:.0f} GB; {title}", fontsize=TITLE, loc="left")
    used = [part for part in looks if any(parts.get(part) for parts in rows.values())]
    legend_below(ax, [Patch(facecolor=looks[part][0], hatch=looks[part][1] or None, edgecolor="white", label=part)
                      for part in used])
    told = [f"{' '.join(row.split())}: " + (f"{total:.0f} GB, of it " + ", ".join(
                f"{part} {size / GIGA:.1f}" for part, size in parts.items() if size) if parts else "a question mark")
            for (row, parts), total in zip(rows.items(), totals, strict=True)]
    say(ax, "\n".join([*told, f"a line at {limit:g} GB, all that an {H100.name} has"]))
    return ax


def activation_growth(shape: ModelShape, lengths: Iterable[int], limit: float, ax: Axes | None = None) -> Axes:
    """Draw the bytes kept for backward over the length of one sequence, for each choice of what is recomputed."""
    lengths = list(lengths)
    ax = new_axes(ax, 3.6)
    told = []
    choices = {"none": "none is recomputed", "selective": "selective: all but the scores",
               "full": "full: layers' inputs,\nand one layer at a time"}  # fmt: skip
    for (name, words), colour in zip(choices.items(), SERIES, strict=False):
        again = 1 / shape.layers if name == "full" else 0  # of one layer everything comes back while it is redone
        sizes = [(activation_bytes(shape, 1, length, name)
                  + again * activation_bytes(shape, 1, length, "selective")) / GIGA for length in lengths]
        ax.plot(lengths, sizes, "o-", color=colour)
        ax.text(lengths[-1] * 1.08, sizes[-1], f"{words}:\n{sizes[-1]:,.3g} GB", color=INK, fontsize=SMALLEST,
                va="center")
        growth = sizes[-1] / sizes[-2]
        ax.text((lengths[-1] * lengths[-2]) ** 0.5, (sizes[-1] * sizes[-2]) ** 0.5 * 1.5, f"×{growth:.2g}", ha="right",
                fontsize=SMALLEST, color=INK)
        told.append(f"{' '.join(words.split())}: " + ", ".join(f"{size:.3g} GB at {length:,}" for length, size in
                                             zip(lengths, sizes, strict=True)))
    ax.plot([lengths[0], lengths[-1]], [limit / GIGA] * 2, color=LIMIT, linestyle="--", linewidth=1.4)
    ax.text(lengths[0], limit / GIGA * 1.15, f"all that the GPU has: {limit / GIGA:g} GB", color=LIMIT,
            fontsize=SMALLEST)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(lengths, [f"{length:,}" for length in lengths])
    ax.set_xlim(lengths[0] / 1.2, lengths[-1] * 4.5)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("tokens in the sequence", fontsize=SMALLEST)
    ax.set_ylabel("GB of activations", fontsize=SMALLEST)
    ax.set_title(f"{shape.name}: twice the tokens, up to four times the bytes", fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, f"a line at {limit / GIGA:g} GB"]))
    return ax
