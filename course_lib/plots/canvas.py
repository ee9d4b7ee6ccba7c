"""What all pictures share: sizes, colours that everybody can tell apart, axes and legends."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.words import Picture

WIDTH = 8.2  # inches of 100 pixels: with a margin as wide as a notebook cell on a projector of 1280 pixels
SMALLEST = 9  # points: no smaller letter is drawn

# Okabe and Ito's colours, told apart with every kind of colour vision; a hatch makes a second kind of each.
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999",
)  # fmt: skip
SERIES = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW, GREY)


def new_axes(ax: Axes | None, height: float, width: float = WIDTH) -> Axes:
    """Return `ax`, or axes of a new figure of this size in inches, without lines above and to the right."""
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained", FigureClass=Picture)
    for name in ("top", "right"):
        ax.spines[name].set_visible(False)
    ax.tick_params(labelsize=SMALLEST)
    return ax


def legend_below(ax: Axes, handles: list, columns: int = 6) -> None:
    """Put a legend below the picture, or inside where the figure is not ours to lay out."""
    if handles and ax.figure.get_layout_engine() is not None:
        rows = -(-len(handles) // columns)
        columns = -(-len(handles) // rows)  # equally many in each row, and none alone
        ax.figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=SMALLEST, frameon=False)
    elif handles:
        ax.legend(handles=handles, fontsize=SMALLEST)
