"""The way of a micro-batch through the ranks, where a rank holds more than one stage of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    ACTIVATIONS,
    BACKWARD,
    FACES,
    FORWARD,
    INK,
    SMALLEST,
    TITLE,
    WIDTH,
    Picture,
    arrow,
    box,
    say,
    sheet,
)
from course_lib.plots.time import PIPELINE

BAND = "#F4F4F4"  # pale, of a product that nobody waits for
Ways = Sequence[Sequence[int]]


def stage_routes(ways: Mapping[str, tuple[int, Ways]], *, heads: Sequence[str] = ()) -> list[Axes]:
    """Draw, for each name, ranks as rows with their stages in them, and arrows along each way; `heads` names the ways.

    `ways[name]` is (ranks, routes): a route is the list of ranks that hold stage 0, 1, 2, ... on one way. Stages that
    one way visits a second time stand one column further right; every way has its own columns.
    """
    count = len(ways)
    columns = [sum(max(route.count(rank) for rank in route) for route in routes) for _, routes in ways.values()]
    _, axes = plt.subplots(
        1, count, figsize=(WIDTH, 3.1), layout="constrained", FigureClass=Picture, width_ratios=columns
    )  # one width of a box in all
    axes = [axes] if count == 1 else list(axes)
    for ax, (name, (ranks, routes)) in zip(axes, ways.items(), strict=True):
        column, told = 0, []
        for number, route in enumerate(routes):
            place, visits = {}, dict.fromkeys(range(ranks), 0)
            for stage, rank in enumerate(route):
                place[stage] = (column + visits[rank], rank)
                visits[rank] += 1
            wide = max(visits.values())
            for stage, (x, y) in place.items():
                face = FACES[stage if len(routes) > 1 else y]  # of several copies: one colour a stage
                box(ax, 1.9 * x + 0.1, ranks - 1 - y + 0.2, 1.2, 0.6, face, f"stage {stage}")
            for stage in range(len(route) - 1):
                _step(ax, place[stage], place[stage + 1], ranks)
            if heads:
                middle = 1.9 * column + 0.95 * (wide - 1) + 0.7
                ax.text(middle, ranks + 0.12, heads[number], ha="center", va="center", fontsize=SMALLEST)
            column += wide
            told.append(f"stages 0 to {len(route) - 1} on ranks {', '.join(map(str, route))}")
            if number < len(routes) - 1:
                ax.axvline(1.9 * column - 0.3, color=INK, linewidth=0.8, linestyle=":")
        ax.set_xlim(-0.3, 1.9 * column - 0.3)
        ax.set_ylim(-0.15, ranks + (0.4 if heads else 0.05))
        ax.set_yticks([ranks - 1 - rank + 0.5 for rank in range(ranks)], [f"rank {rank}" for rank in range(ranks)])
        ax.set_xticks([])
        ax.tick_params(length=0, labelsize=SMALLEST)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_title(name, fontsize=TITLE)
        say(ax, "; a second copy of the model: ".join(told))
    return axes


def _step(ax: Axes, here: tuple[int, int], there: tuple[int, int], ranks: int) -> None:
    (x0, y0), (x1, y1) = here, there
    a, b = 1.9 * x0 + 0.7, 1.9 * x1 + 0.7
    low, high = ranks - 1 - y0 + 0.5, ranks - 1 - y1 + 0.5
    if x0 == x1:
        way = 0.3 if high > low else -0.3
        arrow(ax, (a, low + way), (b, high - way), colour=FORWARD, line=2)
    elif y0 == y1:
        arrow(ax, (a + 0.6, low), (b - 0.6, high), colour=FORWARD, line=2)
    else:
        arrow(ax, (a + 0.6, low), (b - 0.6, high), colour=FORWARD, line=2)


def split_backward(ax: Axes | None = None) -> Axes:
    """Draw one linear layer's forward and the two halves of its backward, and who waits for each half."""
    ax = sheet(2.9, 24, 8.2, ax)
    ax.set_title("Of a backward's two products, only one has somebody waiting for it", fontsize=TITLE, loc="left")
    box(ax, 9.6, 5.6, 4.8, 1.5, FORWARD, "F:  y = x Wᵀ")
    box(ax, 9.6, 3.1, 4.8, 1.5, PIPELINE["I"], "I:  ∇x = ∇y W")
    box(ax, 9.6, 0.6, 4.8, 1.5, PIPELINE["W"], "W:  ∇W = ∇yᵀ x")
    arrow(ax, (5.6, 6.35), (9.6, 6.35))
    arrow(ax, (14.4, 6.35), (18.4, 6.35))
    arrow(ax, (18.4, 3.85), (14.4, 3.85), colour=BACKWARD, line=2)
    arrow(ax, (9.6, 3.85), (5.6, 3.85), colour=BACKWARD, line=2)
    arrow(ax, (18.4, 3.6), (14.4, 1.5), colour=BACKWARD, line=2)
    arrow(ax, (9.6, 0.95), (7.9, 0.95), colour=BACKWARD, line=2)
    box(ax, 5.9, 0.3, 1.9, 1.3, BAND, "∇W")
    ax.plot([8.6, 8.6], [6.35, 1.75], color=ACTIVATIONS, linewidth=2, linestyle="--", zorder=0)
    arrow(ax, (8.6, 1.75), (9.6, 1.75), colour=ACTIVATIONS, line=2)
    for x, y, words, side in (
        (5.4, 6.35, "x from the rank before", "right"), (18.6, 6.35, "y to the next rank", "left"),
        (18.6, 3.75, "∇y from the next rank", "left"), (5.4, 3.85, "the rank before\nis waiting for ∇x", "right"),
        (5.6, 0.95, "kept on this rank\nfor the optimizer", "right"),
        (8.3, 5.1, "x must be kept\nfor step W", "right"),
        (17.2, 2.3, "∇y, too", "left"),
    ):  # fmt: skip
        ax.text(x, y, words, ha=side, va="center", fontsize=SMALLEST)
    say(ax, "forward F: x from the rank before gives y for the next rank; backward, input part I: the gradient of y "
            "gives the gradient of x, for which the rank before is waiting; weight part W: it gives the gradient of "
            "the weights, which nobody needs before the optimizer's step; x and the gradient of y are kept for it")
    return ax
