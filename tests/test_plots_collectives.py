"""Pictures of collectives: what they show, and their twins in text."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
import torch

from course_lib.plots import before_after, before_after_text, seconds_over_size

GATHERED = [(torch.tensor([0.0, 1.0]), []), (torch.tensor([10.0, 11.0]), torch.tensor([0.0, 10.0]))]
SUMMED = [(torch.tensor([0.0]), torch.tensor([10.0])), (torch.tensor([10.0]), torch.tensor([10.0]))]


def numbers(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_every_number_before_and_after_stands_in_the_picture():
    assert numbers(before_after({"gather": GATHERED})) == ["0", "1", "10", "11", "0", "10"]


def test_the_text_twin_has_a_line_for_each_rank():
    assert before_after_text({"gather": GATHERED}) == "gather\n  rank 0 | 0 1   -> –\n  rank 1 | 10 11 -> 0 10"


def test_a_number_has_the_colour_of_the_rank_it_comes_from_and_a_computed_one_is_white_in_a_frame():
    ax = before_after({"one": [([1.0], [2.0]), ([2.0], [3.0])]})
    faces = [box.get_facecolor() for box in ax.patches if isinstance(box, plt.Rectangle)]
    frames = [box.get_linewidth() for box in ax.patches if isinstance(box, plt.Rectangle)]
    assert faces[1] == faces[2] != faces[0]  # rank 0 has rank 1's number
    assert faces[3] == matplotlib.colors.to_rgba("white")
    assert frames[3] > max(frames[:3])


def test_four_collectives_take_two_lines_of_panels():
    ax = before_after({f"c{place}": SUMMED for place in range(4)})
    shown = [panel for panel in ax.figure.axes if panel.get_visible()]
    assert [panel.get_title(loc="left") for panel in shown] == ["c0", "c1", "c2", "c3"]
    assert len({round(panel.get_position().y0, 2) for panel in shown}) == 2


def test_points_and_models_are_drawn_on_logarithmic_axes():
    ax = seconds_over_size({"measured": {8: 1e-5, 1e6: 1e-3}}, {"model": lambda size: 1e-5 + 1e-9 * size}, title="t")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    points, model = ax.lines
    assert list(points.get_ydata()) == [1e-5, 1e-3]
    assert (min(model.get_xdata()), max(model.get_xdata())) == (8, pytest.approx(1e6))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["measured", "model"]
