"""The pictures of chapter 7: the sawtooth, quarters on four ranks, two streams; their numbers, words and letters."""

from __future__ import annotations

import pytest
from matplotlib.text import Text

from course_lib import run, work
from course_lib.costs import collective_seconds
from course_lib.lessons.prefetch import gathers_of
from course_lib.lessons.stage_3 import UNITS, during, during_forward
from course_lib.memory import model_state_bytes
from course_lib.models import MODELS, parameter_count
from course_lib.plots import (
    SMALLEST,
    cut_all_reduce,
    gather_use_free,
    sawtooth,
    sawtooth_measured,
    streams,
    words_of,
)
from solutions import ch07_fsdp as solutions


def letters_are_fine(figure) -> None:
    """No letter is below SMALLEST, and none is outside the picture."""
    figure.canvas.draw()
    everything = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    assert min(text.get_fontsize() for text in everything) >= SMALLEST
    ticks = {label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels()}
    low, high = figure.bbox.min - 1, figure.bbox.max + 1
    for text in everything:
        if text not in ticks:  # some of which lie beyond the axis and are not drawn
            box = text.get_window_extent()
            assert (box.min >= low).all() and (box.max <= high).all(), text.get_text()


STEPS = [([10 * rank + quarter for quarter in range(4)], 60 + 4 * rank, [60, 64, 68, 72]) for rank in range(4)]


def forward(dist, start_gather, seconds):
    coming = start_gather(dist)
    for layer in range(4):
        coming.wait()
        coming = start_gather(dist) if layer < 3 else None
        work(seconds)


def two_runs():
    start_gather, cluster = gathers_of(1.6e9, 16, 400e9, 14e-6)
    each = {"a": 0.001, "b": 0.1}
    return {name: run(forward, start_gather, seconds, ranks=16, on=cluster) for name, seconds in each.items()}


PICTURES = {
    "sawtooth": sawtooth,
    "another model": lambda: sawtooth("Llama-3-405B", 1024),
    "measured": lambda: sawtooth_measured(during(solutions.fully_sharded_step)),
    "measured forward": lambda: sawtooth_measured(during_forward(solutions.sharded_forward)),
    "cut": lambda: cut_all_reduce(STEPS),
    "gather": gather_use_free,
    "streams": lambda: streams(two_runs(), title="A sentence.")[0],
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_letter_is_too_small_or_outside(name):
    letters_are_fine(PICTURES[name]().figure)


def test_the_sawtooth_stands_on_what_a_rank_keeps():
    ax = sawtooth("Llama-3-70B", 256)
    kept = sum(model_state_bytes(parameter_count(MODELS["Llama-3-70B"]), zero=3, ranks=256).values()) / 1e9
    layer = 855_654_400 * 2 / 1e9
    tops = [box.get_y() + box.get_height() for box in ax.patches if hasattr(box, "get_y")]
    assert max(tops) == pytest.approx(kept + 2 * layer, rel=0.01)
    assert len([box for box in ax.patches if hasattr(box, "get_y")]) == 5 + 2 * 5  # backward has gradients, too
    words = words_of(ax.figure)
    assert "1,129 GB on every GPU" in words and "+1.7 GB" in words and "At most 7.8 GB" in words


def test_the_measured_sawtooth_is_flat_but_for_one_unit():
    curve = during_forward(solutions.sharded_forward)
    assert max(held for *_, held in curve.samples) < curve.floor + 1.5 * max(curve.units)
    assert {way for way, *_ in curve.samples} == {"forward"}
    curve = during(solutions.fully_sharded_step)
    assert [8 * rows * columns for rows, columns in UNITS] == curve.units
    assert {(way, unit) for way, unit, _ in curve.samples} == {(way, unit) for way in ("forward", "backward")
                                                               for unit in range(6)}  # fmt: skip
    assert "forward of unit 3" in words_of(sawtooth_measured(curve).figure)
    assert "unit 5 computes again" in str(curve)


def test_a_function_that_returns_something_else_has_no_curve():
    with pytest.raises(ValueError, match="returned int"):
        during_forward(lambda dist, units, shards, x: 3)


def test_the_cut_all_reduce_shows_every_number_and_says_it():
    ax = cut_all_reduce(STEPS)
    shown = [text.get_text() for text in ax.texts]
    assert shown.count("64") == 1 + 4 and "23" in shown
    assert "rank 2: 20, 21, 22, 23, then 68, then 60, 64, 68, 72" in words_of(ax.figure)


def test_a_stand_in_gather_takes_as_long_as_the_layer_would():
    trace = two_runs()["a"]
    first = trace.of(0, "all_gather")[0]
    want = collective_seconds("all_gather", 16, 1.6e9, 14e-6, 400e9)
    assert first.end - first.start == pytest.approx(want, rel=1e-3)


def test_streams_tell_computing_from_waiting():
    runs = two_runs()
    axes = streams(runs)
    for ax, (name, trace), computing in zip(axes, runs.items(), (0.004, 0.4), strict=True):
        assert f"{trace.seconds / computing:.2f} × the computing" in ax.get_title("left")
        assert name in words_of(ax.figure)
