"""Pictures of chapter 12: the mesh, bytes along axes, the ring of keys, causal work, layouts and published runs."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import plots
from course_lib.hardware import DGX_H100
from course_lib.models import MODELS
from course_lib.planning import Layout, plan, published_runs
from course_lib.plots import words_of
from course_lib.plots.mesh import META, traffic

SMALL = plan(MODELS["Llama-3-8B"], DGX_H100, 64, 128, 8192)
OTHER = Layout(tp=8, dp=8)
DRAWN = {
    "mesh_of_ranks": plots.mesh_of_ranks,
    "axis_traffic": plots.axis_traffic,
    "axis_traffic, with context": lambda: plots.axis_traffic(Layout(4, 8, 16, 32, chunks=8)),
    "ring_of_keys": plots.ring_of_keys,
    "causal_work": lambda: plots.causal_work()[0],
    "plan_picture": lambda: plots.plan_picture(SMALL, {"another": OTHER}),
    "step_parts": lambda: plots.step_parts({"the best": SMALL.best.step, "another": SMALL.of(OTHER).step}),
    "predicted_and_measured": lambda: plots.predicted_and_measured(published_runs()),
}


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


def test_the_mesh_says_its_product_and_its_links():
    said = " ".join(texts(plots.mesh_of_ranks()))
    assert "8 x 16 x 128 = 16,384 ranks" in said and "NVLink, 450 GB/s" in said and "50 GB/s" in said


def test_tensor_ranks_send_ten_times_as_much_as_data_ranks():
    sent = traffic()
    assert sent["tp"] / sent["dp"] > 10 and sent["cp"] == 0
    count = 16 * 8 * 8 * 7 / 8 * 8192 * 16384 * 2  # micro-batches, layers, collectives, share, bytes
    assert sent["tp"] == pytest.approx(count)
    assert sent["pp"] == pytest.approx(16 * 8 * 2 * 8192 * 16384 * 2 / 8)
    assert META.ranks == 16384


def test_the_ring_brings_every_block_to_every_rank():
    said = texts(plots.ring_of_keys(4))
    for block in range(4):
        seen = said.count(f"keys {block}") + said.count(f"{block}: future")
        assert seen == 4 and said.count(f"keys {block}") == 4 - block


def test_zigzag_makes_the_work_the_same():
    left, right = plots.causal_work(4)
    assert "1.75 times the mean" in left.get_title("left") and "all the same" in right.get_title("left")
    assert "rank 0: 6.2%, rank 1: 18.8%, rank 2: 31.2%, rank 3: 43.8%" in words_of(left.figure)


def test_the_plan_marks_the_best_and_the_named_layout():
    ax = plots.plan_picture(SMALL, {"another": OTHER})
    words = words_of(ax.figure)
    assert f"the best: {SMALL.best.layout}" in words and f"another: {OTHER}" in words
    assert f"{len(SMALL.fitting):,} layouts fit" in words


def test_the_parts_of_a_step_add_up_to_it():
    ax = plots.step_parts({"the best": SMALL.best.step})
    drawn = sum(bar.get_width() for bars in ax.containers for bar in bars)
    assert drawn == pytest.approx(SMALL.best.seconds, abs=0.05)


def test_the_published_runs_name_the_worst():
    words = words_of(plots.predicted_and_measured(published_runs()).figure)
    assert "Qwen3-30B-A3B is the worst with -69%" in words and "61 published runs" in words
