"""Pictures of chapter 13: a day of failures, what broke, when to save, how to save, and who is to blame."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import plots
from course_lib.costs import LLAMA_3, expected_goodput, young_interval
from course_lib.lessons.recorder import dumps_of_64, healthy
from course_lib.plots import words_of

MTBF, SAVE, RESTART = 3.09 * 3600, 120, 600
TAU = young_interval(MTBF, SAVE)
POINTS = {factor * TAU: expected_goodput(factor * TAU, MTBF, SAVE, RESTART) for factor in (0.25, 0.5, 1, 2, 4)}
ENDS = {"over the old one": ["", "not-synced", ""] * 70, "yours": [""] * 216}
DRAWN = {
    "failing_day": plots.failing_day,
    "interruptions": plots.interruptions,
    "goodput_over_interval": lambda: plots.goodput_over_interval(MTBF, SAVE, RESTART, POINTS),
    "two_phases": plots.two_phases,
    "crash_points": lambda: plots.crash_points(ENDS),
    "recorder_dumps": lambda: plots.recorder_dumps(dumps_of_64(), [37], ranks=[0, 36, 37, 38]),
    "recorder_dumps, nobody waits": lambda: plots.recorder_dumps(healthy(4, 9), title="All is well"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


def test_the_day_says_what_each_habit_keeps():
    said = words_of(plots.failing_day().figure)
    assert "saved every 27 min: 79% of the day is training that lasts" in said and "saved every 3 h: " in said


def test_every_cause_stands_in_the_picture_with_its_number():
    said = words_of(plots.interruptions().figure)
    assert all(f"{name}: {count}" in said for name, count in LLAMA_3.items()) and "268 of 419" in said


def test_the_optimum_is_told_and_is_the_highest_point():
    said = words_of(DRAWN["goodput_over_interval"]().figure)
    assert "27.2 min: 81.5% simulated" in said
    assert max(POINTS, key=POINTS.get) == TAU


def test_lost_checkpoints_are_counted():
    said = words_of(DRAWN["crash_points"]().figure)
    assert "over the old one: 70 of 210" in said and "yours: 0 of 216" in said


def test_the_absent_rank_is_named():
    ax = DRAWN["recorder_dumps"]()
    assert "rank 37 never came to 412" in words_of(ax.figure)
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["absent"]
