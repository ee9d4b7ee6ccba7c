"""The pictures of chapter 7: the sawtooth, quarters on four ranks, two streams; their numbers, words and letters."""

from __future__ import annotations

from itertools import groupby

import pytest
from legible import assert_legible

from course_lib import run, work
from course_lib.costs import collective_seconds
from course_lib.lessons.fsdp_trace import in_order, traced_step
from course_lib.lessons.prefetch import gathers_of
from course_lib.lessons.stage_3 import UNITS, during, during_forward
from course_lib.memory import model_state_bytes, training_memory
from course_lib.models import MODELS, parameter_count
from course_lib.plots import (
    comb,
    cut_all_reduce,
    gather_use_free,
    peaks,
    plans_that_fit,
    sawtooth,
    sawtooth_measured,
    streams,
    words_of,
)
from solutions import ch07_fsdp as solutions

STEPS = [([10 * rank + quarter for quarter in range(4)], 60 + 4 * rank, 85 - rank, [85, 84, 83, 82])
         for rank in range(4)]  # fmt: skip


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


def two_plans():
    shape = MODELS["Llama-3-70B"]
    return {f"ZeRO-{stage}": training_memory(shape, 1, 8192, recompute="full", flash=True, zero=stage, dp=256)
            for stage in (2, 3)}  # fmt: skip


ROOTS = {"whole": [("kept", 4e9), ("embedding", 2e9), ("gradient", 2e9)], "cut": [("kept", 4e9), ("layer", 1.7e9)]}


NAMES = ["FSDP::pre_forward (embed)", "FSDP::all_gather (embed)", "aten::embedding", "FSDP::pre_forward (blocks.0)",
         "FSDP::all_gather (blocks.0)", "aten::mm", "aten::gelu", "aten::mm", "FSDP::pre_backward (blocks.0)",
         "FSDP::all_gather (blocks.0)", "FSDP::all_gather (embed)", "aten::mm", "FSDP::post_backward_reduce (blocks.0)",
         "FSDP::pre_backward (embed)", "aten::embedding_dense_backward"]  # fmt: skip


PICTURES = {
    "comb": lambda: comb(in_order(NAMES)),
    "sawtooth": sawtooth,
    "another model": lambda: sawtooth("Llama-3-405B", 1024),
    "measured": lambda: sawtooth_measured(during(solutions.fully_sharded_step)),
    "measured forward": lambda: sawtooth_measured(during_forward(solutions.sharded_forward)),
    "cut": lambda: cut_all_reduce(STEPS),
    "gather": gather_use_free,
    "units": lambda: peaks(ROOTS, "A sentence."),
    "plans": lambda: plans_that_fit(two_plans(), 80e9, "A sentence.")[0],
    "streams": lambda: streams(two_runs(), title="A sentence.")[0],
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


def test_the_sawtooth_stands_on_what_a_rank_keeps():
    ax = sawtooth("Llama-3-70B", 256)
    kept = sum(model_state_bytes(parameter_count(MODELS["Llama-3-70B"]), zero=3, ranks=256).values()) / 1e9
    layer = 855_654_400 * 2 / 1e9
    done = [box for box in ax.patches if hasattr(box, "get_y")]
    assert max(box.get_y() + box.get_height() for box in done) == pytest.approx(kept + 2 * layer, rel=0.01)
    assert len(done) == 2 * 5 + 5 * 5  # gather and compute; gather, and twice layer and gradient
    words = words_of(ax.figure)
    assert "would be 1,129 GB high" in words and "+1.7 GB" in words and "At most 7.8 GB" in words


def test_what_a_rank_always_keeps_and_a_layer_are_as_the_text_beside_the_sawtooth_says():
    kept = model_state_bytes(parameter_count(MODELS["Llama-3-70B"]), zero=3, ranks=256)
    assert round((kept["weights"] + kept["optimizer"]) / 1e9, 1) == 3.9
    assert (round(855_654_400 / 1e9, 2), round(2 * 855_654_400 / 1e9, 1)) == (0.86, 1.7)


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


def test_the_measured_sawtooth_knows_what_is_done_when():
    curve = during(solutions.fully_sharded_step)
    order = [name for name, _ in groupby((*sample[:2], doing) for sample, doing in zip(curve.samples, curve.doing,
                                                                                       strict=True))]  # fmt: skip
    backward = ["gather", "compute", "gradient", "reduce-scatter", "free"]
    assert [doing for way, unit, doing in order if way == "backward"] == 6 * backward
    assert [doing for way, unit, doing in order if way == "forward"] == ["free", *6 * ["gather", "compute", "free"]]
    assert sum(curve.shards) == during_forward(solutions.sharded_forward).floor
    words = [text.get_text() for text in sawtooth_measured(curve).texts]
    assert {"FORWARD, unit 0 to 5", "BACKWARD, unit 5 to 0", "gather again", "reduce-scatter"} <= set(words)


def test_a_trace_becomes_what_is_done_to_which_unit():
    order = in_order(NAMES)
    assert order[:4] == [("forward", "gather", "embed"), ("forward", "compute", "embed"),
                         ("forward", "gather", "blocks.0"), ("forward", "compute", "blocks.0")]  # fmt: skip
    assert order[-1] == ("backward", "compute", "embed") and len(order) == 9
    ax = comb(order)
    assert "backward: gather 0, gather E, compute 0, reduce-scatter 0, compute E" in words_of(ax.figure)


def test_torchs_own_step_gathers_one_unit_ahead_in_backward():
    """What the chapter says of its real trace: forward in turns, and in backward each gather a unit early."""
    order = run(traced_step, ranks=2)[0]
    forward = [(doing, unit) for way, doing, unit in order if way == "forward"]
    assert [doing for doing, _ in forward] == 6 * ["gather", "compute"]
    backward = [(doing, unit) for way, doing, unit in order if way == "backward"]
    units = [unit for _, unit in forward[::-2]]
    assert [unit for doing, unit in backward if doing == "gather"] == units[1:]  # the last one was not freed
    assert [unit for doing, unit in backward if doing == "reduce-scatter"] == units
    for ahead, unit in zip(units[1:], units, strict=False):
        assert backward.index(("gather", ahead)) < backward.index(("compute", unit))


def test_a_step_that_frees_nothing_is_drawn_all_the_same():
    def greedy(dist, units, shards, x):
        inputs, weights = [], []
        for (call, shape), mine in zip(units, shards, strict=True):
            inputs.append(x)
            weights.append(solutions.unshard(dist, mine, shape))
            x = call(weights[-1], x)
        return x, inputs

    curve = during_forward(greedy)
    assert set(curve.doing[2:-1]) == {"gather", "compute"}  # nothing is free before it returns
    assert_legible(sawtooth_measured(curve).figure)


def test_gradients_differ_by_rank_until_they_are_summed():
    ax = gather_use_free()
    hatched = [box for box in ax.patches if getattr(box, "get_hatch", lambda: "")()]
    assert len(hatched) == 16 and len({box.get_hatch() for box in hatched}) == 4


def test_a_peak_is_the_sum_of_its_parts():
    ax = peaks(ROOTS, "A sentence.")
    assert [round(bar.get_width(), 6) for bar in ax.patches] == [4, 2, 2, 4, 1.7]
    assert "whole: kept 4.0, embedding 2.0, gradient 2.0, in all 8.0 GB" in words_of(ax.figure)
    assert {"8.0 GB", "5.7 GB"} <= {text.get_text() for text in ax.texts}


def test_the_plans_that_fit_are_drawn_twice():
    above, below = plans_that_fit(two_plans(), 80e9, "A sentence.")
    assert [label.get_text() for label in below.get_yticklabels()] == ["ZeRO-3"]
    assert above.lines[0].get_xdata()[0] == 80 and len(above.containers) == 2 * len(below.containers)
    assert "ZeRO-2: 168 GB (at the loss), of it weights 141.1" in words_of(above.figure)
    assert above.get_xlabel() == "GB on one GPU at the worst moment of a step"
    _, below = plans_that_fit(two_plans(), 80e9, "A sentence.", enlarged="Another.")
    assert below.get_title(loc="left") == "Another."


def test_a_function_that_returns_something_else_has_no_curve():
    with pytest.raises(ValueError, match="returned int"):
        during_forward(lambda dist, units, shards, x: 3)


def test_the_cut_all_reduce_shows_every_number_and_says_it():
    ax = cut_all_reduce(STEPS)
    shown = [text.get_text() for text in ax.texts]
    assert shown.count("84") == 1 + 4 and {"23", "64", "step"} <= set(shown)
    assert "gradients 20, 21, 22, 23, then the sum 68 of its quarter, then the stepped weight 83" in words_of(ax.figure)


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
