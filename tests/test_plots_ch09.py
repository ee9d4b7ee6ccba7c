"""Chapter 9's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.text import Text

from course_lib import plots, schedules
from course_lib.schedules import play


def played() -> dict:
    return {"1F1B": play(schedules.one_f_one_b(4, 8)), "ZB-V": play(schedules.zb_v(4, 8), 0.5, 0.5, 0.5)}


PICTURES = {
    "timelines": lambda: plots.timelines(played())[0],
    "without numbers": lambda: plots.timelines(played(), numbers=False, title="both")[0],
    "routes": lambda: plots.stage_routes({"V": (4, [[0, 1, 2, 3, 3, 2, 1, 0]]),
                                          "two copies": (4, [[0, 1, 2, 3], [3, 2, 1, 0]])})[0],
    "one route": lambda: plots.stage_routes({"loop": (2, [[0, 1, 0, 1]])})[0],
    "split": plots.split_backward,
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", PICTURES)
def test_letters_are_large_enough_and_no_picture_is_wider_than_the_page(name):
    figure = PICTURES[name]().figure
    figure.canvas.draw()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in shown) >= plots.SMALLEST
    assert figure.get_tightbbox().width <= 1.03 * plots.WIDTH


def test_timelines_share_one_axis_and_say_seconds_idle_share_and_gain():
    first, second = plots.timelines(played())
    assert first.get_xlim() == second.get_xlim() == (0, 33)
    assert first.get_title("left") == "1F1B: 33 s, 27% of it idle"
    assert second.get_title("left") == "ZB-V: 25.5 s, 6% of it idle, 1.29 times as fast"


def test_timelines_have_one_legend_for_all_without_what_takes_no_time():
    both = {"one": played()["1F1B"], "two": play(schedules.chimera(4, 4), place=schedules.both_ways(4))}
    (legend,) = plots.timelines(both)[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["F", "B", "F chunk 1", "B chunk 1", "idle"]


def test_without_numbers_no_bar_bears_one():
    assert [ax.texts[:] for ax in plots.timelines(played(), numbers=False)] == [[], []]


def test_a_route_tells_which_rank_holds_which_stage():
    words = plots.words_of(PICTURES["routes"]().figure)
    assert "stages 0 to 7 on ranks 0, 1, 2, 3, 3, 2, 1, 0" in words
    assert "stages 0 to 3 on ranks 0, 1, 2, 3; a second copy of the model: stages 0 to 3 on ranks 3, 2, 1, 0" in words
