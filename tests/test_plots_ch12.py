"""Pictures of chapter 12: the mesh, attention in a ring, layouts, the parts of a step and published runs."""

from __future__ import annotations

import math

import matplotlib
import pytest

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import plots
from course_lib.hardware import DGX_H100
from course_lib.models import MODELS
from course_lib.planning import Layout, plan, published_runs, step_seconds
from course_lib.plots import words_of
from course_lib.plots.layouts import KINDS, kind_of
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, META, PIPELINE, TENSOR

SMALL = plan(MODELS["Llama-3-8B"], DGX_H100, 64, 128, 8192)
OTHER = Layout(tp=8, dp=8)
DRAWN = {
    "mesh_of_ranks": plots.mesh_of_ranks,
    "two_axes": plots.two_axes,
    "ring_of_keys": plots.ring_of_keys,
    "shrinking_sum": lambda: plots.shrinking_sum()[0],
    "causal_work": lambda: plots.causal_work()[0],
    "plan_picture": lambda: plots.plan_picture(SMALL, {"another": OTHER}),
    "under_way": plots.under_way,
    "step_parts": lambda: plots.step_parts({"the best": SMALL.best.step, "another": SMALL.of(OTHER).step}, "two"),
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
    assert "8 x 16 x 128 = 16,384 ranks" in words and "NVLink of 450 GB/s" in said and "ports of 50 GB/s" in said
    assert "GPU 2 + 8 · (node 15 + 16 · copy 9)" in said and 2 + 8 * (15 + 16 * 9) == 1274
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
    assert "1.750 times the mean" in left.get_title("left") and "all the same" in right.get_title("left")
    assert "rank 0: 6.2%, rank 1: 18.8%, rank 2: 31.2%, rank 3: 43.8%" in words_of(left.figure)
    left, right = plots.causal_work()
    assert {"0.125", "1.875"} <= set(texts(left)) and texts(right).count("1.000") == 8


def test_the_shrinking_sum_ends_as_if_all_scores_had_come_at_once():
    left, right = plots.shrinking_sum((1, 0), (3, 2))
    both = sum(math.exp(score - 3) for score in (1, 0, 3, 2))
    assert f"sum {both:.2f}" in right.get_title("left") and "sum 1.37" in left.get_title("left")
    assert sum(bar.get_height() for bar in right.patches if bar.get_linestyle() != ":") == pytest.approx(both)


def test_the_plan_marks_the_best_and_the_named_layout():
    ax = plots.plan_picture(SMALL, {"another": OTHER})
    words = words_of(ax.figure)
    assert "the fastest (place 1): " in words and f"({SMALL.best.layout})" in words
    assert f"another (place {SMALL.place(OTHER):,}): " in words and f"({OTHER})" in words
    ahead = [one for one in SMALL.fitting if one.seconds < SMALL.of(OTHER).seconds]
    assert f"{len(SMALL.fitting):,} layouts fit; another is number {len(ahead) + 1}" in words


def test_the_parts_of_a_step_add_up_to_it():
    ax = plots.step_parts({"the best": SMALL.best.step}, "a step")
    drawn = sum(bar.get_width() for bars in ax.containers for bar in bars)
    assert drawn == pytest.approx(SMALL.best.seconds, abs=0.05)


def test_the_published_runs_name_the_worst():
    words = words_of(plots.predicted_and_measured(published_runs()).figure)
    assert "worst: Qwen3-30B-A3B, −69 %" in words and "61 published runs" in words


def test_what_is_too_narrow_for_its_number_has_it_above():
    step = step_seconds(LLAMA, META, DGX_H100, 2048, 8192)
    said = texts(plots.step_parts({"Meta's": step}, "a step"))
    assert {"5.22", "0.65", "0.69", "0.07", " 6.62 s"} <= set(said)


def test_the_plan_draws_a_line_at_the_first_that_is_marked():
    ax = plots.plan_picture(SMALL, {"another": OTHER})
    assert "as fast as another" in texts(ax)
    assert any(line.get_ydata()[0] == SMALL.of(OTHER).seconds for line in ax.lines if line.get_linestyle() == ":")


def test_eight_ranks_have_eight_faces():
    left, _ = plots.causal_work()
    assert len({(patch.get_facecolor(), patch.get_hatch()) for patch in left.patches[:16]}) == 8


def test_every_published_run_has_its_strip():
    rows = published_runs()
    assert {kind_of(row) for row in rows} == set(KINDS)
    points = plots.predicted_and_measured(rows).collections
    assert sum(len(found.get_offsets()) for found in points) >= len(rows) == 61


def test_two_axes_name_who_sums_what():
    said, words = texts(plots.two_axes()), words_of(plots.two_axes().figure)
    assert said.count("tp: activations") == said.count("dp: gradients") == 2
    assert said.count("samples A") == said.count("half 0 of w") == 2
    assert "rank 3 has samples B and half 1" in words and "ranks 0 and 2, and 1 and 3, average gradients" in words


def test_more_stages_have_fewer_layers_and_more_micro_batches_on_the_same_area():
    ax = plots.under_way()
    areas = [layers * pp for layers, pp in ((126, 1), (32, 4), (8, 16))]
    assert sum(one.get_width() * one.get_height() for one in ax.patches) == sum(areas) == 382
    words = words_of(ax.figure)
    assert "1 stage: 126 layers × 1 micro-batch 67 GB of activations 105 GB of weights etc" in words
    assert "16 stages: 8 layers × 16 micro-batches 68 GB of activations 8 GB of weights etc" in words


def test_the_plan_is_coloured_by_context_ranks():
    words = words_of(plots.plan_picture(SMALL, {"another": OTHER}).figure)
    for ranks in (2, 4, 8, 16):
        assert f"{sum(one.layout.cp == ranks for one in SMALL.fitting):,} have {ranks} context ranks" in words


def test_the_line_joins_one_model_on_more_and_more_context_ranks():
    ax = plots.predicted_and_measured(published_runs())
    line = max(ax.lines, key=lambda one: len(one.get_xdata()))
    assert [round(x) for x in line.get_xdata()] == [-24, -37, -38, -47] and len(set(line.get_ydata())) == 1
    assert "405B, context ranks 8, 4, 2, 1" in texts(ax)
