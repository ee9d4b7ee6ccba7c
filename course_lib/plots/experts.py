"""A mixture of experts: a layer whose router sends each token to a few of its MLPs."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.models import ModelShape, attention_parameters, mlp_weights
from course_lib.plots.canvas import ACTIVATIONS, INK, SMALLEST, TITLE, arrow, box, say, sheet


def expert_layer(shape: ModelShape, chosen: tuple[int, ...] = (2, 5), ax: Axes | None = None) -> Axes:
    """Draw one layer of a mixture like Mixtral: attention, router and experts with their parameters; `chosen` work."""
    ax = sheet(2.7, 40, 13.2, ax)
    ax.set_title(f"All {shape.experts} experts are in memory; each token is computed by {len(chosen)}", fontsize=TITLE,
                 loc="left")
    attention, expert = attention_parameters(shape) / 1e6, mlp_weights(shape, shape.expert_ffn) / 1e6
    ax.text(0.1, 6.0, "one\ntoken", fontsize=SMALLEST, va="center")
    box(ax, 4.2, 4.6, 6.6, 2.8, ACTIVATIONS, f"attention\n{attention:.0f} million")
    box(ax, 13.2, 4.6, 5.4, 2.8, ACTIVATIONS, "router")
    arrow(ax, (2.8, 6.0), (4.1, 6.0), line=1.6)
    arrow(ax, (10.9, 6.0), (13.1, 6.0), line=1.6)
    for number in range(shape.experts):
        y = 11.0 - 1.55 * number
        works = number in chosen
        words = f"expert {number + 1}: {expert:.0f} million"
        box(ax, 23.2, y, 10.6, 1.3, ACTIVATIONS if works else "white", words, weight="bold" if works else "normal")
        if works:
            arrow(ax, (18.7, 6.0), (23.1, y + 0.65), line=1.6)
            arrow(ax, (33.9, y + 0.65), (36.8, 6.0), line=1.6)
    ax.text(37.0, 6.0, "sum of\nthe two" if len(chosen) == 2 else "sum", fontsize=SMALLEST, va="center", color=INK)
    say(ax, f"a token goes through attention ({attention:.0f} million parameters) to the router, which sends it to "
            f"{len(chosen)} of {shape.experts} experts ({expert:.0f} million each); their results are added")
    return ax
