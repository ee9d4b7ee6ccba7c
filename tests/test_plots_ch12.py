"""Pictures of chapter 12: the mesh, attention in a ring, layouts, the parts of a step and published runs."""

from __future__ import annotations

import math

import matplotlib
import pytest

matplotlib.use("Agg")

import numpy as np
from legible import assert_legible

from course_lib import plots, schedules
from course_lib.hardware import DGX_H100
from course_lib.models import MODELS
from course_lib.planning import Layout, layout_time, plan, published_runs
from course_lib.plots import words_of
from course_lib.plots.late_runs import pairs_of, rows_of
from course_lib.plots.layouts import KINDS, kind_of, took
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, META, PIPELINE, TENSOR
from solutions import ch12_mesh_and_plan as solutions

SMALL = plan(MODELS["Llama-3-8B"], DGX_H100, 64, 128, 8192)
OTHER = Layout(tp=8, dp=8)
BIG = layout_time(LLAMA, META, DGX_H100, 2048, 8192)
BETS = {"tp8": META, "tp8-cp2": Layout(tp=8, cp=2, pp=16, dp=64, chunks=8, zero=1),
        "tp4-cp4": Layout(tp=4, cp=4, pp=16, dp=64, chunks=8, zero=1)}  # fmt: skip
LEADS = {"tp8-cp2": 3.0, "tp4-cp4": 7.1}  # percent


def estimates():
    """Return what the smallest of 400 estimates in each of 300 lists promises, and what that one takes."""
    true = 60 + np.arange(400) / 10
    found = true * (1 + 0.05 * np.random.default_rng(12).standard_normal((300, 400)))
    return found.min(1), true[found.argmin(1)]


def two_chunks(pp, microbatches):
    """Return an interleaved step as the chapter plays it."""
    return schedules.play(schedules.interleaved(pp, microbatches, 2), 1, 1, 1)


DRAWN = {
    "mesh_of_ranks": plots.mesh_of_ranks,
    "ring_of_keys": plots.ring_of_keys,
    "shrinking_sum": lambda: plots.shrinking_sum()[0],
    "causal_work": lambda: plots.causal_work()[0],
    "zigzag_blocks": plots.zigzag_blocks,
    "hidden_rounds": plots.hidden_rounds,
    "slices": plots.slices,
    "typed_layout": lambda: plots.typed_layout(16384, tp=4, cp=4, pp=16, chunks=8, zero=1)[0],
    "exposed_gradients": plots.exposed_gradients,
    "fullest_moment": lambda: plots.fullest_moment(two_chunks(4, 8)),
    "late_runs": lambda: plots.late_runs(published_runs(), LEADS),
    "flattered": lambda: plots.flattered(*estimates(), 60)[0],
    "under_way": plots.under_way,
    "step_parts": lambda: plots.step_parts({"the best": SMALL.best.step, "another": SMALL.of(OTHER).step}, "two"),
    "step_parts_on_top": lambda: plots.step_parts({"16,384": BIG, "8": SMALL.of(OTHER).step}, "two", on_top=True),
    "predicted_and_measured": lambda: plots.predicted_and_measured(published_runs()),
}


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


def test_the_mesh_says_one_ranks_digits_and_its_links():
    ax = plots.mesh_of_ranks()
    said, words = " ".join(texts(ax)), words_of(ax.figure)
    assert "8 x 16 x 128 = 16,384 ranks" in words and "NVLink, about 370 GB/s" in said and "ports of 50 GB/s" in said
    assert "GPU 2 + 8 · (node 15 + 16 · copy 9)" in said and 2 + 8 * (15 + 16 * 9) == 1274
    assert "1/8 of each of the node's 7 layers" in said  # the last node has a layer less
    assert "1/8 of each of the node's 8 layers" in " ".join(texts(plots.mesh_of_ranks(rank=1266)))
    groups = plots.mesh_of_ranks(rank=16383)
    assert "GPU 7 + 8 · (node 15 + 16 · copy 127)" in " ".join(texts(groups))


def test_each_axis_has_a_colour_of_its_own():
    assert len({TENSOR, PIPELINE, CONTEXT, DATA}) == 4


def test_the_ring_brings_every_block_to_every_rank():
    said = texts(plots.ring_of_keys(4))
    for block in range(4):
        seen = said.count(f"keys {block}") + said.count(f"{block}: future")
        assert seen == 4 and said.count(f"keys {block}") == 4 - block


def test_zigzag_makes_the_work_the_same():
    left, right = plots.causal_work(4)
    assert "1.750 times the mean" in left.get_title("left")
    assert "all ranks have the same work" in right.get_title("left")
    assert "rank 0: 6.2%, rank 1: 18.8%, rank 2: 31.2%, rank 3: 43.8%" in words_of(left.figure)
    left, right = plots.causal_work()
    below = plots.zigzag_blocks()
    assert {"0.125", "1.875"} <= set(texts(left)) and all(texts(right).count(f"rank {rank}") == 2 for rank in range(7))
    assert "hatched:\nranks 4 to 7" in texts(right) and "hatched:\nranks 4 to 7" not in texts(left)
    assert {"queries 3", "queries 12", "keys 1", "keys 14", "the keys of rank 5 arrive"} <= set(texts(below))
    words = words_of(below.figure)
    assert "of rank 1, with keys 1 and 14: queries 3 see keys 1, queries 12 see keys 1" in words
    assert "of rank 5, with keys 5 and 10: queries 12 see keys 5, queries 12 see keys 10" in words


def test_the_shrinking_sum_ends_as_if_all_scores_had_come_at_once():
    left, right = plots.shrinking_sum((1, 0), (3, 2))
    both = sum(math.exp(score - 3) for score in (1, 0, 3, 2))
    assert f"sum {both:.2f}" in right.get_title("left") and "sum 1.37" in left.get_title("left")
    assert sum(bar.get_height() for bar in right.patches if bar.get_linestyle() != ":") == pytest.approx(both)


def test_the_parts_of_a_step_add_up_to_it():
    ax = plots.step_parts({"the best": SMALL.best.step}, "a step")
    drawn = sum(bar.get_width() for bars in ax.containers for bar in bars)
    assert drawn == pytest.approx(SMALL.best.seconds, abs=0.05)


def test_on_top_of_computing_the_whole_step_stands_beside_its_bar():
    step = BIG
    ax = plots.step_parts({"Meta's": step}, "on top", on_top=True)
    drawn = sum(bar.get_width() for bars in ax.containers for bar in bars)
    assert drawn == pytest.approx(step.seconds - step.products - step.attention - step.memory, abs=0.01)
    assert {"0.65", "0.69", "0.03 + 0.04", " 6.62 s"} <= set(texts(ax))
    assert "5.22" not in texts(ax) and [one.get_text() for one in ax.get_yticklabels()] == ["Meta's"]
    assert ax.get_xlim()[1] < 1.4 * drawn  # with room for the sum
    assert ax.get_xlabel() == "seconds on top of the computing, 5.22 s"
    named = [one.get_text() for one in ax.figure.legends[0].get_texts()]
    assert named == ["tensor", "bubble", "gradients", "new weights and pipeline"]


def test_the_published_runs_name_the_worst():
    ax = plots.predicted_and_measured(published_runs())
    words = words_of(ax.figure)
    assert ax.get_title("left") == "Of 58 predicted runs, half are off by more than 10 %"
    assert "worst: Qwen3-30B-A3B, 3.2 times as long as predicted" in words


def test_what_is_too_narrow_for_its_number_has_it_above():
    step = layout_time(LLAMA, META, DGX_H100, 2048, 8192)
    said = texts(plots.step_parts({"Meta's": step}, "a step"))
    assert {"5.22", "0.65", "0.69", "0.07", " 6.62 s"} <= set(said)


def test_eight_ranks_have_eight_faces():
    left, _ = plots.causal_work()
    assert len({(patch.get_facecolor(), patch.get_hatch()) for patch in left.patches[:16]}) == 8


def test_every_published_run_has_its_strip():
    rows = published_runs()
    assert {kind_of(row) for row in rows} == set(KINDS)
    points = plots.predicted_and_measured(rows).collections
    assert sum(len(found.get_offsets()) for found in points) >= len(rows) == 61


def test_more_pipeline_ranks_have_fewer_layers_and_more_micro_batches_on_as_many_gb():
    ax = plots.under_way()
    wide = [[bar.get_width() for bar in bars] for bars in ax.containers]
    assert [len(bars) for bars in wide] == [1, 1, 4, 1, 16, 1]  # micro-batches, then the rest
    assert [round(sum(bars)) for bars in wide] == [67, 105, 68, 32, 68, 8]
    words = words_of(ax.figure)
    assert "1 pipeline rank: 126 layers × 1 micro-batch, 67 GB of activations and 105 GB of weights" in words
    assert "16 pipeline ranks: 8 layers × 16 micro-batches, 68 GB of activations and 8 GB of weights" in words
    assert "80.4 GB can be used" in texts(ax)


def test_every_run_with_context_ranks_stands_beside_those_of_its_source():
    runs = published_runs()
    rows = rows_of(runs)
    named = [run for _, with_them in rows.values() for run in with_them]
    assert sorted(map(took, named)) == sorted(took(run) for run in runs if run.layout.cp > 1) and len(named) == 11
    for without, with_them in rows.values():
        assert len({run.source for run in without + with_them}) == 1 and all(run.layout.cp == 1 for run in without)
    pairs = pairs_of(runs)
    rings = [pair for pair in pairs if not pair.gathers]
    assert len(pairs) == 11 and len(rings) == 4 and sum(pair.ports for pair in rings) == 1
    ax = plots.late_runs(runs, LEADS)
    assert {"10 %, beside 70B 8k", "7 %, beside 7B 4k", "tp4-cp4:\n7 %"} <= set(texts(ax))
    words = words_of(ax.figure)
    assert "through the ports, beside 70B 8k without context ranks: 10 % late, 8 if nothing" in words
    assert "3 of 4 rings are early enough for tp4-cp4 to win" in words
    assert all(pair.ring.layout.cp > 1 == pair.dot.layout.cp and pair.ring.node == pair.dot.node for pair in pairs)


def test_slices_are_half_as_wide_and_so_is_the_waiting():
    ax = plots.slices()
    wide = [[bar.get_width() for bar in bars] for bars in ax.containers]
    thick, thin = wide[:8], wide[8:]  # for each rank its waiting, then its slices
    assert [len(bars) for bars in thick + thin] == 4 * [2, 4] + 4 * [2, 8]
    assert all(sum(bars) == pytest.approx(1) for bars in thick[1::2] + thin[1::2])
    assert all(sum(bars) == pytest.approx(3 / 4) for bars in thick[::2])
    assert all(sum(bars) == pytest.approx(3 / 8) for bars in thin[::2])
    words = ("1 context rank: 4 sequences. A rank waits for 3 thick slices",
             "2 context ranks, half as many copies: 8 half sequences. A rank waits for 3 thin slices")  # fmt: skip
    assert all(one in texts(ax) and one in words_of(ax.figure) for one in words)
    assert BIG.bubble == pytest.approx(0.69, abs=0.005)


def test_what_a_step_waits_for_adds_up_to_its_seconds():
    ax = plots.exposed_gradients()
    end = ax.get_xticks()[-1]
    assert end == solutions.step_seconds(4, 3, 2, 2, 1, 3) == 16
    assert ax.get_xticks()[-2] == 15 and "1 s are exposed" in words_of(ax.figure)
    assert "0 s are exposed" in words_of(plots.exposed_gradients(gradients=2).figure)


def test_the_printed_parts_add_up_to_the_step_within_a_hundredth():
    for name, layout in (("tp8", META), ("tp8-cp2", Layout(tp=8, cp=2, pp=16, dp=64, chunks=8, zero=1))):
        step = layout_time(LLAMA, layout, DGX_H100, 2048, 8192)
        said = texts(plots.step_parts({name: step}, "a step"))
        parts, whole = [float(one) for one in said if not one.endswith("s")], said[-1]
        assert sum(parts) == pytest.approx(step.seconds, abs=0.011) and whole == f" {step.seconds:.2f} s"


@pytest.mark.parametrize(("typed", "said"), [
    ((8, 1, 16, 8, 2), "Fits, and a step takes 6.62 s: as long as Meta's"),
    ((4, 4, 16, 8, 1), "Fits, and a step takes 6.09 s: 8 % less than Meta's"),
    ((8, 1, 8, 16, 2), "Needs 82.9 of 80.4 GB: it would stop in its first step"),
])  # fmt: skip
def test_a_typed_layout_is_told_whether_it_fits_and_beats_metas(typed, said):
    named = dict(zip(("tp", "cp", "pp", "chunks", "zero"), typed, strict=True))
    assert plots.typed_layout(16384, **named)[0].get_title("left") == said


@pytest.mark.parametrize(("pp", "said"), [(16, "too small for this pipeline"), (3, "don't divide 16,384 GPUs"),
                                          (0, "pp = 0")])  # fmt: skip
def test_a_layout_that_cannot_be_cut_is_told_why(pp, said, capsys):
    assert plots.typed_layout(16384, tp=4, cp=1, pp=pp, chunks=8, zero=2) is None
    assert said in capsys.readouterr().out


def test_a_short_piece_does_not_hide_its_message():
    ax = plots.hidden_rounds()
    words = words_of(ax.figure)
    assert "1,024 tokens: message 10 µs, half a block 8 µs" in words
    assert "8,192 tokens: message 84 µs, half a block 534 µs" in words and "equal at 1,286 tokens" in words
    assert "1,290 tokens" in texts(ax) and "with latency between 1,510 and 2,120" in words
    under = [one.get_text() for one in ax.get_xticklabels()]
    assert under == ["1,024", "2,048", "4,096", "8,192"]
    half, message = (line.get_ydata() for line in ax.lines[:2])
    assert half[1] == pytest.approx(4 * half[0]) and message[1] == pytest.approx(2 * message[0])  # as the title says
    assert half[0] < message[0] and half[1] > message[1]


def test_at_the_fullest_moment_the_first_rank_has_eleven_chunks_under_way():
    ax = plots.fullest_moment(two_chunks(4, 8))
    said = texts(ax)
    assert (said.count("4 chunks"), said.count("3, one a hop")) == (2, 1)
    assert {"0, hop 1", "0, hop 2", "0, hop 3"} <= set(said)
    assert {"= 11, or 5.5 micro-batches", "waits for 0", "no more may start"} <= set(said) and 4 + 3 / 2 == 5.5
    assert "4 + 4 + 3 = 11 chunks" in words_of(ax.figure)
    assert "starts 3 chunks more" in ax.get_title("left")
    assert "= 8, or 4 micro-batches" in texts(plots.fullest_moment(two_chunks(3, 6)))


def test_a_promise_lies_below_the_fastest_and_what_is_taken_above():
    promised, taken = estimates()
    above, below = plots.flattered(promised, taken, 60)
    means = [float(text.split()[1]) for ax in (above, below) for text in texts(ax) if text.startswith("mean")]
    assert means == pytest.approx([promised.mean(), taken.mean()], abs=0.05) and means[0] < 60 < means[1]
    words = words_of(above.figure)
    assert "what the formula promises:" in words and "what the run then takes:" in words


def test_the_line_joins_one_model_on_more_and_more_context_ranks():
    ax = plots.predicted_and_measured(published_runs())
    line = max(ax.lines, key=lambda one: len(one.get_xdata()))
    assert [round(x, 2) for x in line.get_xdata()] == [1.32, 1.6, 1.61, 1.87]
    assert line.get_ydata()[2] > line.get_ydata()[1]  # the two rings do not touch
    assert "405B, context ranks 1, 2, 4, 8" in texts(ax)
