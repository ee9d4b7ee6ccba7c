"""The pictures of data parallelism: what is drawn, its words, no small letter, and nothing outside the picture."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import pytest

from course_lib import Event, plots
from course_lib.lessons.overlap import traced_step
from course_lib.plots.lanes import backward_with_sums
from course_lib.plots.staleness import served

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


LATE = [Event(0, "forward", 0.0, 1.0, 0.0), Event(0, "backward", 1.0, 3.0, 1.0), Event(0, "all_reduce", 3.0, 5.0, 3.0)]
EARLY = [*LATE[:2], Event(0, "all_reduce", 2.0, 3.0, 2.0), Event(0, "all_reduce", 3.0, 4.0, 3.0)]
PATHS = [[(0.0, 0.0), (1.0, -0.5)], [(0.5, 0.2), (1.5, -0.3)]]
PICTURES = {
    "replicas": plots.replicas,
    "row_weights": lambda: plots.row_weights((3, 1)),
    "replica_paths": lambda: plots.replica_paths(PATHS, (2, -1), "never meet"),
    "loss_curves": lambda: plots.loss_curves([[5.0, 4.0, 3.0], [5.0, 4.4, 3.2]], {"unigram": 3.04}, "one model"),
    "gradients_leave": plots.gradients_leave,
    "lanes": lambda: plots.lanes({"late": LATE, "early": EARLY}, title="earlier is shorter"),
    "bucket_packing": plots.bucket_packing,
    "launch_order": plots.launch_order,
    "stale_gradient": plots.stale_gradient,
}


def axes_of(drawn) -> list:
    return drawn if isinstance(drawn, list) else [drawn]


@pytest.mark.parametrize("name", PICTURES)
def test_no_letter_is_small_and_all_of_them_are_inside(name):
    figure = axes_of(PICTURES[name]())[0].figure
    figure.canvas.draw()
    whole = figure.get_tightbbox().padded(0.01)
    texts = [text for ax in figure.axes for text in (*ax.texts, ax._left_title, ax.xaxis.label) if text.get_text()]
    assert min(text.get_fontsize() for text in texts) >= plots.SMALLEST
    for text in texts:
        box = text.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, text.get_text()
    assert whole.width <= plots.WIDTH + 0.4


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_has_a_message_and_words(name):
    drawn = axes_of(PICTURES[name]())
    figure = drawn[0].figure
    assert figure.get_suptitle() or drawn[0].get_title("left")
    assert len(plots.words_of(figure)) > 60


def test_replicas_say_who_gets_which_rows_and_that_no_weight_is_sent():
    words = plots.words_of(plots.replicas(4, 32).figure)
    assert "rank 3 gets rows 24 to 31" in words and "none of them was sent" in words


def test_a_row_of_the_short_rank_counts_more_in_a_mean_of_means():
    wrong, right = plots.row_weights((3, 1))
    assert [bar.get_height() for bar in wrong.patches] == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert [bar.get_height() for bar in right.patches] == pytest.approx([1 / 4] * 4)


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
    assert "the weights change 5 times" in plots.words_of(plots.stale_gradient().figure)
