"""Pictures of memory and of the roofline: bars as long as their bytes, lines where the formulas say."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import pytest

from course_lib.hardware import A100, H100
from course_lib.lessons.memory_step import MeasuredStep
from course_lib.memory import training_memory
from course_lib.models import MODELS
from course_lib.plots import memory_bars, memory_timeline, memory_timelines, roofline, words_of
from course_lib.plots.memory import PARTS, unit_of
from course_lib.plots.roofs import flops_text

matplotlib.use("Agg")


def words(ax) -> str:
    return " | ".join(text.get_text() for text in ax.texts)


def lengths(ax) -> list[float]:
    """Return the length of each row of bars."""
    rows: dict[float, float] = {}
    for bar in ax.patches:
        row = bar.get_y()
        rows[row] = max(rows.get(row, 0), bar.get_x() + bar.get_width())
    return [rows[row] for row in sorted(rows)]


def step() -> MeasuredStep:
    alive = {part: [0, 0, 0, 0, 0] for part in PARTS}
    alive |= {"weights": [4000] * 5, "activations": [0, 2000, 0, 0, 0], "gradients": [0, 0, 4000, 4000, 0]}
    return MeasuredStep(alive, {"forward": 1, "backward": 2, "step": 3, "zero_grad": 4})


def test_a_bar_is_as_long_as_its_peak_and_the_line_stands_at_the_capacity():
    found = [training_memory(MODELS[name], 1, 1024, gpu=H100) for name in ("Granite-3.0-2B", "Llama-3-8B")]
    ax = memory_bars(found, title="one GPU")
    assert lengths(ax) == pytest.approx([breakdown.peak / 1e9 for breakdown in found])
    assert ax.lines[0].get_xdata()[0] == 80
    assert "H100 SXM: 80 GB" in words(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Granite-3.0-2B", "Llama-3-8B"]
    assert ax.get_title("left") == "one GPU"


def test_measured_and_predicted_stand_side_by_side_without_a_line():
    ax = memory_bars({"measured": step(), "predicted": training_memory(MODELS["tiny GPT"], 1, 8)})
    assert len(lengths(ax)) == 2
    assert not ax.lines


def test_breakdowns_of_different_gpus_have_no_common_line():
    found = {gpu.name: training_memory(MODELS["GPT-2"], 1, 64, gpu=gpu) for gpu in (A100, replace(A100, name="half"))}
    assert not memory_bars(found).lines
    assert memory_bars(found, capacity=40e9).lines[0].get_xdata()[0] == 40


def test_plans_of_any_size_share_an_axis_that_ends_where_it_is_told_to():
    plans = [training_memory(MODELS[name], 1, 4096, gpu=H100) for name in ("Granite-3.0-2B", "Llama-3-70B")]
    alone, both = memory_bars(plans[:1], until=240e9), memory_bars(plans, until=240e9)
    assert alone.get_xlim() == both.get_xlim() == (0, 288)
    assert f"{plans[1].peak / 1e9:,.0f} GB →" in words(both) and "→" not in words(alone)
    assert len(alone.figure.legends[0].get_texts()) == len(both.figure.legends[0].get_texts()) == 6


def test_the_timeline_reaches_its_peak_and_names_the_phases():
    ax = memory_timeline(step(), title="a step")
    (outline,) = (line for line in ax.lines if line.get_drawstyle() == "steps-post")
    assert max(outline.get_ydata()) == 8
    assert words(ax) == "forward | backward | optimizer | zero\ngrad | weights | gradients | activations | most: 8 kB"
    assert ax.get_title("left") == "a step"
    assert "measured: at most 8 kB, inside backward" in words_of(ax.figure)


def test_forward_backward_and_step_are_drawn_equally_wide():
    ax = memory_timeline(step())
    assert sorted({line.get_xdata()[0] for line in ax.lines} - {0}) == [1, 2, 3]
    assert ax.get_xlim() == (0, 3.42)


def test_each_layer_is_a_stair_with_its_number():
    assert "layer 1 | layer 2 | layer 3" in words(memory_timeline(step(), stairs=3))


def test_two_steps_share_an_axis_with_the_floor_and_the_growth_of_the_peak():
    higher = replace(step(), alive=step().alive | {"optimizer": [2000] * 5})
    left, right = memory_timelines(step(), higher)
    assert left.get_ylim() == right.get_ylim()
    assert "floor: 4.00 kB that stay" in words(right) and "+25%" in words(right)


def test_a_roof_bends_at_its_ridge():
    ax = roofline(100.0, 10.0, {"less": 1.0, "more": 40.0}, title="machine")
    roof = ax.lines[0]
    assert list(roof.get_ydata()) == [pytest.approx(roof.get_xdata()[0] * 10), 100, 100]
    assert roof.get_xdata()[1] == 10
    assert "at 10 FLOPs per byte" in words_of(ax.figure)


@pytest.mark.parametrize(("size", "unit"), [(0, "bytes"), (999, "bytes"), (1e3, "kB"), (8e10, "GB"), (2e12, "TB")])
def test_sizes_have_decimal_units(size, unit):
    assert unit_of(size)[1] == unit


@pytest.mark.parametrize(("rate", "text"), [(9.89e14, "989 TFLOP/s"), (1e15, "1 PFLOP/s"), (5.0, "5 FLOP/s")])
def test_rates_are_written_short(rate, text):
    assert flops_text(rate) == text


def test_colours_of_parts_are_told_apart():
    assert len(set(PARTS.values())) == len(PARTS)


def test_pictures_draw_into_given_axes():
    _, axes = plt.subplots(3)
    assert memory_bars([training_memory(MODELS["GPT-2"], 1, 64)], ax=axes[0]) is axes[0]
    assert memory_timeline(step(), ax=axes[1]) is axes[1]
    assert roofline(100.0, 10.0, {"some": 1.0}, title="", ax=axes[2]) is axes[2]
