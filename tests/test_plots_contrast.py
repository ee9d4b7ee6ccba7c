"""On a dark page every stroke, mark, frame and letter in ink, white or grey can be seen where it can on a light one."""

from __future__ import annotations

import importlib

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Polygon, Rectangle
from seen_in_dark import lost

from course_lib.plots import FACES, INK, ORANGE, Picture, new_axes, sheet

CHAPTERS = {
    "ch01": "PICTURES", "ch02": "DRAWN", "ch04": "PICTURES", "ch05": "DRAWINGS", "ch06": "PICTURES", "fsdp": "PICTURES",
    "ch08": "PICTURES", "ch09": "PICTURES", "ch10": "DRAWN", "ch12": "DRAWN", "ch13": "DRAWN",
}  # fmt: skip


SEEN = {  # what is measured as lost there and can be seen well
    "ch08, passes": "stroke",  # dots between a fill and the paper, on both of which they are half as clear as on one
    "ch09, marks": "face",  # dots on a white line with a dark edge
}


def pictures() -> dict:
    found = {}
    for chapter, name in CHAPTERS.items():
        drawn = getattr(importlib.import_module(f"test_plots_{chapter}"), name)
        found |= {f"{chapter}, {words}": draw for words, draw in drawn.items()}
    return found


PICTURES = pictures()


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_clear_on_a_light_page_is_clear_on_a_dark_one(name):
    ax = np.ravel(np.asarray(PICTURES[name](), dtype=object))[0]
    plt.close("all")
    assert [one for one in lost(ax.figure) if one.split()[0] != SEEN.get(name)] == []


def label(ax):
    ax.text(1, 1, "MMMM", bbox={"facecolor": ORANGE, "alpha": 0.35, "edgecolor": "none"}, color=INK, size=20)


def frame(ax):
    ax.add_patch(Rectangle((2, 2), 5, 5, facecolor=FACES[0]))
    ax.add_patch(Rectangle((2, 2), 5, 5, facecolor="none", edgecolor=INK, linewidth=5))


def on_a_line(ax):
    ax.plot([0, 10], [5, 5], color=ORANGE, linewidth=4)


def head(ax):
    on_a_line(ax)
    ax.add_patch(Polygon([(5, 4.6), (5, 5.4), (5.3, 5)], facecolor=INK))


def dots(ax):
    on_a_line(ax)
    ax.plot(range(2, 9), [5] * 7, "o", color=INK)


def ring(ax):
    on_a_line(ax)
    ax.plot([5], [5], "o", markersize=14, markerfacecolor="none", markeredgecolor=INK)


def dashes(ax):
    on_a_line(ax)
    ax.plot([0, 10], [5, 5], "--", color=INK)


def crossing(ax):
    ax.add_patch(Rectangle((1, 3), 8, 4, facecolor=FACES[1]))
    ax.plot([0, 10], [5, 5], color=INK, linewidth=3)


@pytest.mark.parametrize("draw", [crossing, label, frame, head, dots, ring, dashes])
def test_ink_on_a_line_a_frame_or_a_pale_box_is_seen(draw):
    ax = sheet(2, 10, 10)
    draw(ax)
    assert lost(ax.figure) == []


def test_cells_without_a_value_are_paper():
    from course_lib.plots.png_files import drawn

    ax = new_axes(None, 2)
    ax.imshow([[0.0]], cmap=plt.get_cmap("viridis").with_extremes(under="white"), vmin=1, vmax=2)
    seen = np.asarray(drawn(ax.figure, dark=True).convert("RGB"))
    assert isinstance(ax.figure, Picture) and tuple(seen[seen.shape[0] // 2, seen.shape[1] // 2]) == (17, 17, 17)
