"""The pictures of data parallelism: what is drawn, its words, no small letter, and nothing outside the picture."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import pytest
from legible import assert_legible

from course_lib import Event, plots
from course_lib.lessons.overlap import traced_step
from course_lib.plots.lanes import backward_with_sums
from course_lib.plots.launches import AS_PLANNED, AS_READY, FIRST, SUM, meetings
from course_lib.plots.staleness import served, under_way

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


LATE = [Event(0, "forward", 0.0, 1.0, 0.0), Event(0, "backward", 1.0, 3.0, 1.0), Event(0, "all_reduce", 3.0, 5.0, 3.0)]
EARLY = [*LATE[:2], Event(0, "all_reduce", 2.0, 3.0, 2.0), Event(0, "all_reduce", 3.0, 4.0, 3.0)]
HELD = {"small": {"weights": 5e9, "gradients": 5e9, "optimizer": 30e9},
        "large": {"weights": 16e9, "gradients": 16e9, "optimizer": 96e9}}  # fmt: skip
LOSSES = {"SGD": ([4.0, 1.0, 0.1], [4.0, 9.0, 80.0]), "AdamW": ([4.0, 3.0, 1.0], [4.0, 3.0, 1.0])}
PICTURES = {
    "replicas": plots.replicas,
    "copies_on_gpus": lambda: plots.copies_on_gpus(HELD, 80e9, title="one fits and one does not"),
    "fault_losses": lambda: plots.fault_losses(LOSSES, "divided", "not divided"),
    "bucket_plan": plots.bucket_plan,
    "gradients_leave": plots.gradients_leave,
    "hook_lanes": lambda: plots.hook_lanes({"late": LATE, "early": EARLY}),
    "lanes": lambda: plots.lanes({"late": LATE, "early": EARLY}, title="earlier is shorter"),
    "launch_order": plots.launch_order,
    "stale_gradient": plots.stale_gradient,
}


def axes_of(drawn) -> list:
    return drawn if isinstance(drawn, list) else [drawn]


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(axes_of(PICTURES[name]())[0].figure)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_has_a_message_and_words(name):
    drawn = axes_of(PICTURES[name]())
    figure = drawn[0].figure
    assert figure.get_suptitle() or drawn[0].get_title("left")
    assert len(plots.words_of(figure)) > 60


def test_replicas_say_who_gets_which_rows_and_that_the_weights_are_the_same_again():
    ax = plots.replicas(4, 32)
    words = plots.words_of(ax.figure)
    assert "rank 3 gets rows 24 to 31" in words and "no weight is sent" in words
    assert "the same\nweights again" in [text.get_text() for text in ax.texts]


def test_lanes_tell_what_overlaps_how_long_it_takes_and_how_much_shorter_that_is():
    ax = plots.lanes({"late": LATE, "early": EARLY})
    told = [text.get_text() for text in ax.texts]
    assert "5 s" in told and "4 s (80%)" in told
    assert "forward" in told and "backward" in told and "waits" in told
    assert "1 all-reduce" in told and "2 all-reduces" in told
    words = plots.words_of(ax.figure)
    assert "2 all-reduces from 2 to 4, for 1 while computing, the rank waits for 1: 4 s in all" in words


def test_lanes_take_the_results_of_a_run():
    ax = plots.lanes({"no communication": traced_step(lambda dist, model: lambda: None, ranks=2)})
    assert "nothing is sent" in plots.words_of(ax.figure)


def test_in_the_drawing_all_but_one_all_reduce_fit_behind_backward():
    early, late = (backward_with_sums(4, 1.0, 2.0, 1.6, at_once) for at_once in (True, False))
    assert max(event.end for event in early) == pytest.approx(12 + 1.6)
    assert max(event.end for event in late) == pytest.approx(12 + 4 * 1.6)


def test_a_slow_workers_gradient_meets_weights_that_fast_ones_have_changed():
    done = served((2.0, 2.4, 6.0), 6.3)
    assert [met - fetched for *_, fetched, met in done] == [0, 1, 1, 1, 1, 5]
    ax = plots.stale_gradient()
    assert "the weights change 5 times" in plots.words_of(ax.figure)
    told = [text.get_text() for text in ax.texts]
    assert [f"v{version}" for version in range(7)] == [words for words in told if len(words) == 2]
    assert "v0 → v5\n5 stale" in told


def test_a_bar_of_a_gradient_has_the_colour_of_the_version_that_it_was_computed_with():
    ax = plots.stale_gradient()
    bars = [patch.get_facecolor() for patch in ax.patches if hasattr(patch, "get_width")]
    server, workers = bars[:7], bars[7:]
    assert len(set(server)) == 7
    done, begun = served((2.0, 2.7, 6.8), 7.6), under_way((2.0, 2.7, 6.8), 7.6)
    assert workers == [server[fetched] for *_, fetched, _ in done] + [server[fetched] for *_, fetched in begun]


def test_no_worker_stops_before_the_picture_ends():
    assert under_way((2.0, 2.7, 6.8), 7.6) == [(0, 6.0, 5), (1, 5.4, 4), (2, 6.8, 6)]


def test_many_all_reduces_are_all_drawn_as_hairlines_at_their_own_time():
    many = [*LATE[:2], *(Event(0, "all_reduce", 1 + i / 64, 1 + (i + 0.1) / 64, 1.0) for i in range(128))]
    ax = plots.lanes({"many": many}, notes={"many": "the last is short"})
    assert "128 all-reduces\nthe last is short" in [text.get_text() for text in ax.texts]
    assert "128 all-reduces" in plots.words_of(ax.figure)
    lines = [patch for patch in ax.patches if patch.get_width() < 0.01]
    assert [line.get_x() for line in lines] == [event.start for event in many[2:]]
    assert all(line.get_linewidth() == 0 for line in lines)


def test_a_wait_that_is_too_short_for_its_name_is_said_behind_the_lane():
    short = [*LATE[:2], Event(0, "all_reduce", 2.0, 3.1, 2.0)]
    told = [text.get_text() for text in plots.lanes({"late": LATE, "short": short}).texts]
    assert "5 s" in told and "3.1 s (62%), waits 0.1" in told


def test_losses_of_a_fault_that_an_optimizer_hides_lie_on_those_of_the_right_run():
    ax = plots.fault_losses(LOSSES, "divided", "not divided")
    told = [text.get_text() for text in ax.texts]
    assert told == ["SGD, divided", "SGD, not divided", "AdamW, divided\nand not divided"]
    assert ax.get_title(loc="left") == "Not divided: SGD ends at 800 times the loss, AdamW has the same losses"
    words = plots.words_of(ax.figure)
    assert "SGD: from 4 to 0.1, not divided to 80" in words
    assert "AdamW: from 4 to 1, not divided to 1, the same in every step" in words


def test_every_gpu_has_a_column_of_all_parts_and_what_is_too_much_is_said():
    ax = plots.copies_on_gpus(HELD, 80e9, gpus=64)
    assert len(ax.patches) == 2 * 5 * 3
    told = [text.get_text() for text in ax.texts]
    assert "40 GB on every GPU" in told and "128 GB on every GPU: 48 GB too much" in told and told.count("63") == 2
    words = plots.words_of(ax.figure)
    assert "each of 64 GPUs holds of large 128.0 GB: weights 16.0 GB" in words and "a line at 80 GB" in words


def test_the_plan_in_the_picture_is_that_of_the_exercise():
    words = plots.words_of(plots.bucket_plan().figure)
    assert "bucket 0 holds parameters 3 and 2, 60 bytes; bucket 1 holds parameters 1, 80 bytes" in words


def test_in_the_picture_of_launches_the_second_rank_waits_with_a_complete_bucket_for_the_order_of_the_plan():
    assert [start.bucket for start in FIRST] == [start.bucket for start in AS_PLANNED] == [0, 1]
    assert [start.bucket for start in AS_READY] == [1, 0]
    assert [start.at for start in AS_PLANNED] == [start.at for start in AS_READY]
    for second in (AS_READY, AS_PLANNED):  # no all-reduce runs before both ranks have started it, nor two at a time
        meet = meetings(FIRST, second)
        assert all(at >= max(mine.at, yours.at) for at, mine, yours in zip(meet, FIRST, second, strict=True))
        assert meet[1] >= meet[0] + SUM
    told = [text.get_text() for text in plots.launch_order().texts]
    assert any(words.startswith("time: backward goes from the last layer to the first") for words in told)
