"""One answer of a language model in time: what its user sees, and what the GPU's two halves do meanwhile."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.hardware import H100
from course_lib.memory import kv_cache_bytes
from course_lib.models import MODELS, parameter_count
from course_lib.plots.canvas import (
    COMPUTE,
    FORWARD,
    INK,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    new_axes,
    say,
)


def one_answer(
    name: str = "Llama-3-8B", *, prompt: int = 2000, tokens: int = 9, inside: bool = False, ax: Axes | None = None
) -> Axes:
    """Draw the first tokens of an answer at the roofline: when each comes; `inside`, what arithmetic and memory do.

    Seconds are the least that bytes over bandwidth and FLOPs over peak allow, as in `course_lib.serving.Roofline`.
    """
    shape, gpu = MODELS[name], H100
    weights, lookup = 2 * parameter_count(shape), 2 * shape.vocabulary * shape.hidden  # of the table one row is read
    token = kv_cache_bytes(shape, 1)
    passes = [(prompt, prompt * (prompt + 1) // 2, 0)] + [(1, prompt + n, prompt + n) for n in range(1, tokens)]
    score = 4 * shape.layers * shape.heads * shape.head_size  # FLOPs of one pair of tokens
    work = [new * (weights - lookup) - (new - 1) * lookup for new, _, _ in passes]  # only the last token needs logits
    flops = [1e3 * (done + pairs * score) / gpu.peak() for done, (_, pairs, _) in zip(work, passes, strict=True)]
    moved = [1e3 * (weights - lookup + (kept + new) * token) / gpu.memory_bandwidth for new, _, kept in passes]
    spans = [max(both) for both in zip(flops, moved, strict=True)]
    ends = [sum(spans[: n + 1]) for n in range(len(spans))]
    ax = new_axes(ax, 3.1 if inside else 2.3)
    rows = {"arithmetic": flops, "memory": moved} if inside else {"GPU": spans}
    for row, busy in enumerate(rows.values(), start=1):
        ax.barh(row, ends[-1], 0.6, color=WAITING if inside else "white")
        for n, seconds in enumerate(busy):
            colour = (FORWARD if n == 0 else COMPUTE) if row == 1 else WEIGHTS
            if seconds < 0.05 * spans[n]:  # a hairline, wider than it is, or nobody sees it
                ax.plot([ends[n] - spans[n]] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=1.5)
            else:
                ax.barh(row, seconds, 0.6, ends[n] - spans[n], color=colour, edgecolor="white", linewidth=0.8)
    for n, end in enumerate(ends):
        ax.plot([end], [0], "o", color=INK, markersize=5)
        if n in (0, len(ends) - 1) or not inside:
            ax.text(end, -0.3, f"{n + 1}", ha="center", fontsize=SMALLEST)
    step, read = spans[1], moved[1] * gpu.memory_bandwidth / 1e3
    share = flops[1] / spans[1]
    if inside:
        middle = (ends[0] + ends[-1]) / 2
        _note(ax, ends[0] / 2, 1, "computing the prompt", INK)
        _note(ax, middle, 0.52, f"busy {share:.1%} of the time: green, drawn wider", INK)
        _note(ax, middle, 2.48, f"weights, keys and values: {read / 1e9:.0f} GB for every token", INK)
        ax.text(0.3, 2.48, "weights: once for the whole prompt", va="center", fontsize=SMALLEST, color=INK)
        _note(ax, (moved[0] + ends[0]) / 2, 2, "idle", INK)
        title = "While tokens are made, the GPU's arithmetic waits for its memory"
    else:
        _note(ax, ends[0] / 2, 1, f"prefill: a prompt of {prompt:,} tokens", INK)
        _bracket(ax, ends[0], ends[-1], 1.38)
        _note(ax, (ends[0] + ends[-1]) / 2, 1.75, f"decode: a step of {step:.1f} ms for each token", INK)
        title = "An answer comes at two speeds"
    names = ["tokens at\nthe user", *({"arithmetic": "arithmetic", "memory": "memory"} if inside else ["GPU"])]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(rows) + (0.7 if inside else 0.95), -0.55)
    ax.set_xlim(0, ends[-1] * 1.02)
    kind = "schematic: the times of all layers added up" if inside else "a lower bound"
    ax.set_xlabel(f"ms after Enter ({shape.name} on one {gpu.name}; {kind})", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = [f"the prompt of {prompt:,} tokens takes {spans[0]:.1f} ms, then a token comes every {step:.2f} ms"]
    if inside:
        told += [f"the prompt keeps the arithmetic busy {flops[0] / spans[0]:.0%} of the time",
                 f"for a token the memory is busy {moved[1] / spans[1]:.0%} of the time, arithmetic {share:.1%}"]
    say(ax, "\n".join(told))
    return ax


def _bracket(ax: Axes, left: float, right: float, y: float) -> None:
    """Draw a brace's flat sister below a bar, from the first step to the last."""
    gap = 0.01 * (right - left)
    xs = [left + gap, left + gap, right - gap, right - gap]
    ax.plot(xs, [y, y + 0.1, y + 0.1, y], color=INK, linewidth=1)


def _note(ax: Axes, x: float, y: float, words: str, colour: str) -> None:
    ax.text(x, y, words, ha="center", va="center", fontsize=SMALLEST, color=colour)

