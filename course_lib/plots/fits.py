"""Whether a model fits: what it takes to store it, to serve it and to train it, against the memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

from course_lib.hardware import H100
from course_lib.memory import activation_bytes, kv_cache_bytes, training_memory
from course_lib.models import MODELS, ModelShape, parameter_count
from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, new_axes, say
from course_lib.plots.memory import PARTS

GIGA = 1e9
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # under words that a line would run through


def store_serve_train(name: str = "Llama-3-8B", *, answer: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the bytes of a model's bf16 file, of serving it and of training it on 1,024 tokens, against an H100.

    Serving is for 8 users of 8,192 tokens each; training keeps everything in fp32, as torch.autocast does. Without
    `answer` the bar of training is a question mark.
    """
    shape = MODELS[name]
    weights = 2 * parameter_count(shape)
    training = training_memory(shape, 1, 1024, precision="fp32", fused=True, gpu=H100)
    rows = {
        "the file": {"weights": weights},
        "to serve it\nto 8 users": {"weights": weights, "KV cache": 8 * kv_cache_bytes(shape, 8192)},
        "to train it": training.moments[training.peak_moment] if answer else {},
    }
    totals = [sum(parts.values()) / GIGA for parts in rows.values()]
    limit, state = H100.memory / GIGA, training.parts["optimizer"] / GIGA
    ax = new_axes(ax, 3.0 if answer else 2.5)
    low = 2.3 if answer else 2.45  # behind the bars, and not below the last
    ax.plot([limit, limit], [-0.75, low], color=LIMIT, linestyle="--", linewidth=1.6, zorder=0)
    for place, parts in enumerate(rows.values()):
        _named_bar(ax, place, parts)
        more = ", with the KV cache" if "KV cache" in parts else ""
        ax.text(totals[place] + 1.2, place, f"{totals[place]:.0f} GB{more}" if parts else "", va="center",
                fontsize=SMALLEST, weight="bold", bbox=PAPER)
        if not parts:
            look = {"arrowstyle": "-|>", "linestyle": "--", "color": INK}
            ax.annotate("", (100, place), (0.4, place), arrowprops=look)  # to the edge: no word on how far it goes
            ax.text(50, place, "?", va="center", ha="center", fontsize=TITLE + 4, weight="bold", bbox=PAPER)
    ax.text(limit - 1, -0.58, f"an H100 has {limit:g} GB", color=LIMIT, fontsize=SMALLEST, ha="right", va="center")
    ax.set_xlim(0, 150 if answer else 100)
    ax.set_ylim(2.9 if answer else 2.45, -0.75)
    ax.set_yticks(range(3), list(rows))
    ax.set_xlabel("GB of memory", fontsize=SMALLEST)
    title = f"The file of {name} has {totals[0]:.0f} GB, the GPU {limit:g}: is that enough to train it?"
    if answer:
        title = f"Training takes {totals[2]:.0f} GB: four numbers of four bytes for each weight"
        left = (training.parts["weights"] + training.parts["gradients"]) / GIGA
        ax.plot([left + 0.6, left + 0.6, left + state - 0.6, left + state - 0.6], [2.42, 2.5, 2.5, 2.42], color=INK,
                linewidth=1)
        ax.text(left + state / 2, 2.7, f"optimizer: {state:.0f} GB", ha="center", va="center", fontsize=SMALLEST,
                bbox=PAPER)
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = [f"{' '.join(row.split())}: " + (f"{total:.0f} GB, of it " + ", ".join(
                f"{part} {size / GIGA:.1f}" for part, size in parts.items() if size) if parts else "a question mark")
            for (row, parts), total in zip(rows.items(), totals, strict=True)]
    say(ax, "\n".join([*told, f"a line at {limit:g} GB, all that an H100 has"]))
    return ax


def _named_bar(ax: Axes, place: int, parts: dict[str, float]) -> None:
    """Draw a bar of parts with their names inside; the optimizer is two equal pieces, its moments."""
    looks = PARTS | {"KV cache": (FACES[7], "")}
    names = {"KV cache": "KV", "optimizer": ("moment m", "moment v")}
    left = 0.0
    for part, size in ((part, size) for part, size in parts.items() if size):
        colour, hatch = looks[part]
        given = names.get(part, part)
        pieces = given if isinstance(given, tuple) else (given,)
        for words in pieces:
            wide = size / GIGA / len(pieces)
            ax.barh(place, wide, 0.66, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.9)
            ink = "white" if part == "weights" else INK
            number = f"\n{wide:.0f}" if len(parts) > 2 and words else ""
            ax.text(left + wide / 2, place, words + number, ha="center", va="center", fontsize=SMALLEST, color=ink,
                    linespacing=1.05)
            left += wide


# Activations, over the length of a sequence


def activation_growth(shape: ModelShape, lengths: Iterable[int], limit: float, ax: Axes | None = None) -> Axes:
    """Draw what one text keeps for backward as a bar a length: layers' inputs, all else, attention's scores.

    Under the last bar stands which of the three each choice of recomputation keeps, and beside it how the sum has
    grown from the first bar to the last but one.
    """
    lengths = list(lengths)
    kept = {name: [activation_bytes(shape, 1, length, name) / GIGA for length in lengths]
            for name in ("full", "selective", "none")}  # fmt: skip
    ax = new_axes(ax, 1.9 + 0.52 * len(lengths))
    most, last = kept["none"][-1], len(lengths) - 1
    ax.plot([limit / GIGA] * 2, [-0.45, last + 0.38], color=LIMIT, linestyle="--", linewidth=1.6, zorder=0)
    short = {size: f"{size:.1f} GB" if size < 10 else f"{size:.0f} GB" for sizes in kept.values() for size in sizes}
    growth = f"{kept['none'][-2] / kept['none'][0]:.1f} times the {short[kept['none'][0]]} of {lengths[0]:,} tokens"
    for row in range(len(lengths)):
        left = 0.0
        for name, words, (colour, hatch) in (("full", "", (INK, "")),
                                             ("selective", "black and blue", PARTS["activations"]),
                                             ("none", "attention scores", ("#C4E3F5", "///"))):
            wide = kept[name][row] - left
            ax.barh(row, wide, 0.6, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
            if row >= last - 1 and wide > 0.1 * most:
                paper = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
                size = kept[name][row] if name == "selective" else wide  # all but the scores: the black piece, too
                middle = size / 2 if name == "selective" and row < last else left + wide / 2
                ax.text(middle, row, f"{words}: {size:.0f}" if row == last else f"{size:.0f}", ha="center",
                        va="center", fontsize=SMALLEST, bbox=paper if hatch else None)
            left = kept[name][row]
        crosses = left < limit / GIGA < left + 0.12 * most  # then the number stands behind the line
        beside = (limit / GIGA if crosses else left) + 0.006 * most
        ax.text(beside, row, short[left], va="center", fontsize=SMALLEST, weight="bold", bbox=PAPER)
        if row == last - 1:
            ax.text(max(beside + 0.12 * most, limit / GIGA + 0.012 * most), row, growth, va="center", fontsize=SMALLEST)
    keeps = {"full": " (black), the layers' inputs", "selective": ", all except the scores", "none": ""}
    for step, name in enumerate(kept):
        y, end = last + 0.55 + 0.42 * step, kept[name][-1]
        ax.annotate("", (end, y), (0, y), arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": INK,
                                                      "shrinkA": 0, "shrinkB": 0})  # fmt: skip
        words = f"recompute “{name}”: {short[end]}{keeps[name]}"
        place = {"va": "center", "fontsize": SMALLEST, "bbox": PAPER}
        if name == "none":  # its bracket ends where the picture does
            ax.text(end / 2, y, words, ha="center", **place)
        else:
            ax.text(end + 0.012 * most, y, words, **place)
    all_of_it = f"an H100 has {limit / GIGA:g} GB,\nfor these and the state together"
    ax.text(limit / GIGA + 0.01 * most, 0, all_of_it, color=LIMIT, fontsize=SMALLEST, va="center")
    ax.set_xlim(0, 1.2 * most)
    ax.set_ylim(last + 1.85, -0.5)
    ax.set_yticks(range(len(lengths)), [f"{length:,} tokens" for length in lengths])
    ax.set_xlabel(f"GB of activations of one text, {shape.name}", fontsize=SMALLEST)
    ax.set_title("Twice the tokens: the scores take four times as much, all else twice", fontsize=TITLE, loc="left")
    told = [f"{name}: " + ", ".join(f"{size:.3g} GB at {length:,}" for length, size in zip(lengths, sizes, strict=True))
            for name, sizes in kept.items()]
    say(ax, "\n".join([f"GB of activations kept by one text of {shape.name}, by what is recomputed", *told,
                       f"a line at {limit / GIGA:g} GB"]))
    return ax
