"""Pictures of chapter 13: a day of failures, what broke, when to save, how to save, and who is to blame."""

from __future__ import annotations

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import Cluster, plots, run, work
from course_lib.costs import LLAMA_3, expected_goodput, young_interval
from course_lib.lessons.careless import End
from course_lib.lessons.recorder import dumps_of_64, healthy
from course_lib.plots import LIMIT, words_of
from course_lib.plots.agents import ENDED

MTBF, SAVE, RESTART = 3.09 * 3600, 120, 600
TAU = young_interval(MTBF, SAVE)
POINTS = {factor * TAU: expected_goodput(factor * TAU, MTBF, SAVE, RESTART) for factor in (0.25, 0.5, 1, 2, 4)}
ENDS = {"manifest in place": [End(None, place, False, "" if place % 3 else "not-synced") for place in range(210)],
        "yours": [End(rank, place, power, "") for rank in (None, 0, 1) for place in range(36) for power in (0, 1)]}
EVEN = run(lambda dist: [(work(0.1), dist.all_reduce(torch.ones(9))) for _ in range(2)] and None, ranks=4, on=Cluster())
DRAWN = {
    "failing_day": plots.failing_day,
    "interruptions": plots.interruptions,
    "goodput_over_interval": lambda: plots.goodput_over_interval(MTBF, SAVE, RESTART, POINTS),
    "two_phases": plots.two_phases,
    "save_beside": plots.save_beside,
    "resharded": lambda: plots.resharded(15, saved=4, ranks=2, lost=[3]),
    "float_bits": lambda: plots.float_bits(-0.0305),
    "float_bits with losses": lambda: plots.float_bits(-0.0305, [2.0] * 30 + [2.5, 2.0]),
    "agents_and_workers": plots.agents_and_workers,
    "float_bits of a large weight": lambda: plots.float_bits(3.0),
    "straggler_trace": lambda: plots.straggler_trace({"last week": EVEN, "now": EVEN}, 2, [0, 2, 3]),
    "crash_points": lambda: plots.crash_points(ENDS),
    "recorder_dumps": lambda: plots.recorder_dumps(dumps_of_64(), [37], ranks=[0, 36, 37, 38]),
    "recorder_dumps, nobody waits": lambda: plots.recorder_dumps(healthy(4, 9), title="All is well"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


def test_the_day_is_an_average_one():
    said = words_of(plots.failing_day().figure)
    assert expected_goodput(1800, MTBF, SAVE, RESTART) == pytest.approx(0.81, abs=0.01)
    assert expected_goodput(3 * 3600, MTBF, SAVE, RESTART) == pytest.approx(0.55, abs=0.01)
    assert "saved every 3 hours: 8 failures, 55% of the day is training that lasts" in said
    assert "saved every 30 minutes: 8 failures, 81% of the day is training that lasts" in said


def test_every_cause_stands_in_the_picture_with_its_number():
    said = words_of(plots.interruptions().figure)
    assert all(f"{name}: {count}" in said for name, count in LLAMA_3.items()) and "268 of 419" in said


def test_the_optimum_is_told_and_is_the_highest_point():
    said = words_of(DRAWN["goodput_over_interval"]().figure)
    assert "27.2 min: 81.5% simulated" in said
    assert max(POINTS, key=POINTS.get) == TAU


def test_lost_checkpoints_are_counted():
    said = words_of(DRAWN["crash_points"]().figure)
    assert "manifest in place: 70 of 210" in said and "yours: 0 of 216" in said


def test_a_copy_is_safe_only_when_the_disk_is_done():
    ax = plots.save_beside()
    places = [text.get_position()[0] for text in ax.texts if text.get_text() == "safe from here"]
    assert len(places) == 2 and places[1] > places[0]  # the asynchronous one later: behind the end of its write
    assert "until then a failure goes back to the save before" in words_of(ax.figure)


def test_what_a_missing_file_leaves_old_is_drawn_and_counted():
    ax = DRAWN["resharded"]()
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("old") == 3 and "shard 3: missing" in texts
    assert texts.count("0") == 2  # the number 0, above and below
    assert "12 of 15 numbers are replaced" in words_of(ax.figure)


def test_each_part_of_a_save_is_named_with_the_crashes_that_it_does_not_survive():
    doing = ["write\nshards", "sync", "rename", "return"]
    ends = [End(None, place, power, "x" * (place == 2 and power), doing[place])
            for place in range(4) for power in (False, True)]  # fmt: skip
    texts = [text.get_text() for text in plots.crash_points({"save": ends}).texts]
    assert [words for words in texts if words in doing] == doing and texts.count("power cut") == 1
    assert "lost by 0 of 4 kills, 1 of 4 power cuts" in texts


def test_a_safe_save_is_drawn_with_the_same_late_rank_and_its_vote():
    unsafe = [End(2, 0, False, "", "write\nshards"), End(2, 1, False, "too-early", "rename")]
    safe = [End(rank, 0, False, "", f"of {rank}|vote") for rank in (None, 1, 2)]
    texts = [text.get_text() for text in plots.crash_points({"unsafe": unsafe, "safe": safe}).texts]
    assert texts.count("(drawn: rank 2 is late)") == 2 and texts.index("of 2") < texts.index("vote")


def test_what_a_kill_loses_is_lost_by_a_power_cut_too():
    ends = [End(None, 0, False, "", "write\nshards"), End(None, 1, False, "too-early", "rename")]
    texts = [text.get_text() for text in plots.crash_points({"save": ends}).texts]
    assert texts.count("killed or\npower cut") == 1


def test_who_dies_is_crossed_out_and_who_is_new_is_named():
    ax = plots.agents_and_workers()
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("new worker,\nrank 0") == 2 and texts.count("new worker,\nrank 1") == 1
    assert sum(line.get_color() == LIMIT for line in ax.lines) == 2 * 3  # a worker; an agent and its worker
    assert sum(line.get_color() == ENDED for line in ax.lines) == 2 * 2  # the healthy workers end, too


def test_the_loss_that_is_felt_is_marked():
    texts = {text.get_text(): text.get_color() for text in DRAWN["float_bits with losses"]().texts}
    assert texts["2.50"] == LIMIT != texts["same"]


def test_the_flip_that_makes_a_small_weight_enormous_is_marked():
    texts = {text.get_text(): text.get_color() for text in plots.float_bits(-0.0305).texts}
    assert texts["2$^{128}$"] == LIMIT != texts["2$^{-64}$"]
    assert LIMIT not in {text.get_color() for text in plots.float_bits(3.0).texts}


def test_the_absent_rank_is_named():
    ax = DRAWN["recorder_dumps"]()
    assert "rank 37 never came to 412" in words_of(ax.figure)
    assert [text.get_text() for text in ax.texts if text.get_text() != "\u22ee"] == ["absent"]
    named = {text.get_text().partition(":")[0] for text in ax.figure.legends[0].get_texts()}
    assert {one["state"] for found in dumps_of_64().values() for one in found} < named  # the record's own words
