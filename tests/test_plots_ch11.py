"""Pictures of chapter 11: the trip of tokens, uneven pieces, seats, loads over time, and what real models cost."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
from legible import assert_legible

from course_lib import plots
from course_lib.lessons.balance import recorded
from course_lib.measured import DEEPEP
from course_lib.models import MODELS
from course_lib.plots import words_of
from course_lib.plots.trips import ROUTES
from course_lib.served import SERVED

SHAPES = [MODELS["Mixtral-8x7B"], MODELS["DeepSeek-V3"], SERVED["Kimi-K2"]]
TIMES = [(row.ranks, row.dispatch) for row in DEEPEP]
DRAWN = {
    "token_trips": plots.token_trips,
    "uneven_pieces": plots.uneven_pieces,
    "once_per_node": plots.once_per_node,
    "total_and_active": lambda: plots.total_and_active(SHAPES),
    "seats": lambda: plots.seats([3, 9, 4, 0], 4),
    "rows_between_ranks": lambda: plots.rows_between_ranks([[1, 20], [300, 4]]),
    "load_maps": lambda: plots.load_maps({rule: recorded(rule, 0)[0] for rule in ("none", "bias")})[0],
    "mixture_losses": lambda: plots.mixture_losses(recorded()),
    "times_over_ranks": lambda: plots.times_over_ranks(TIMES, [(ranks, 1.02 * time) for ranks, time in TIMES], 44e-6),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible_and_has_words(name):
    figure = DRAWN[name]().figure
    assert_legible(figure)
    assert len(words_of(figure)) > 80


def test_every_token_has_two_lines_out_and_two_arrows_home():
    ax = plots.token_trips()
    assert len(ax.lines) == 2 * len(ROUTES)
    assert len([text for text in ax.texts if getattr(text, "arrow_patch", None)]) == 2 * len(ROUTES)
    marks = [patch for patch in ax.patches if type(patch).__name__ == "Rectangle"]
    assert len(marks) == 2 * len(ROUTES)
    assert "expert 9 is wanted by 4 of the 8 tokens" in words_of(ax.figure)


def test_the_seats_count_who_finds_none():
    ax = plots.seats([3, 9, 4, 0], 4)
    assert ax.get_title("left") == "5 of 16 pairs find no seat (red), while 5 seats stay empty (grey)"
    assert [bar.get_height() for bar in ax.containers[2]] == [0, 5, 0, 0]


def test_rows_between_ranks_adds_up_what_each_receives():
    words = [text.get_text() for text in plots.rows_between_ranks([[1, 20], [300, 4]]).texts]
    assert words == ["1", "20", "300", "4", "301", "24", "in all"]


def test_shares_of_active_parameters_are_those_of_the_library():
    words = words_of(plots.total_and_active(SHAPES).figure)
    assert "DeepSeek-V3 37.6 of 671 billion: 5.6%" in words and "Mixtral-8x7B 12.9 of 47 billion: 27.6%" in words


def test_times_have_their_errors():
    ax = DRAWN["times_over_ranks"]()
    assert sum("(+2.0%)" in text.get_text() for text in ax.texts) == len(DEEPEP)


def test_a_map_says_how_busy_the_busiest_expert_is():
    run = recorded("none", 0)[0]
    title = plots.load_maps({"no balancing": run})[0].get_title("left")
    assert f"{run.imbalance[-1]:.1f} times the mean" in title and f"{run.unused} of 16 have nothing" in title
