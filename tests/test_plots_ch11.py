"""Pictures of chapter 11: the trip of tokens, uneven pieces, seats, loads over time, and what real models cost."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
import torch
from legible import assert_legible

from course_lib import Cluster, plots, run, work
from course_lib.lessons.balance import recorded
from course_lib.models import MODELS
from course_lib.plots import words_of
from course_lib.plots.trips import ROUTES
from course_lib.served import SERVED

SHAPES = [MODELS["Mixtral-8x7B"], MODELS["DeepSeek-V3"], SERVED["Kimi-K2"]]
WIDTHS = [(8, 421e-6, 46e-6, 77e-6, 114e-6), (32, 105e-6, 46e-6, 155e-6, 273e-6), (256, 13e-6, 46e-6, 194e-6, 360e-6)]
LINES = {"EP16": [(1000, 300, 0.06), (2000, 150, 0.05), (3000, 60, 0.04)],
         "EP32": [(1000, 450, 0.1), (2000, 300, 0.08), (3000, 120, 0.06)],
         "EP64": [(1000, 600, 0.15), (2000, 350, 0.1), (3000, 150, 0.05)]}  # fmt: skip


def a_layer(dist, sizes):
    """Every rank sends sizes[r] rows to rank r, which takes a second for each."""
    mine = torch.empty(sum(sizes), 8)
    came = torch.empty(sizes[dist.get_rank()] * len(sizes), 8)
    received = [sizes[dist.get_rank()]] * len(sizes)
    dist.all_to_all_single(came, mine, received, sizes)
    work(seconds=1e-9 * len(came))
    dist.all_to_all_single(mine, came, sizes, received)


DRAWN = {
    "token_trips": plots.token_trips,
    "uneven_pieces": plots.uneven_pieces,
    "once_per_node": plots.once_per_node,
    "total_and_active": lambda: plots.total_and_active(SHAPES)[0],
    "seats": lambda: plots.seats([3, 9, 4, 0], 4),
    "layer_by_width": lambda: plots.layer_by_width(WIDTHS, [0, 120, 171]),
    "busiest_rank": lambda: plots.busiest_rank({
        name: run(a_layer, sizes, ranks=4, on=Cluster(latency=0.0))
        for name, sizes in (("fair", [4] * 4), ("hot", [10, 2, 2, 2]))})[0],
    "rates_by_length": lambda: plots.rates_by_length(LINES, 128),
    "load_maps": lambda: plots.load_maps({rule: recorded(rule, 0)[0] for rule in ("none", "bias")})[0],
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible_and_has_words(name):
    figure = DRAWN[name]().figure
    assert_legible(figure)
    assert len(words_of(figure)) > 80


def test_every_token_has_two_lines_out_and_two_arrows_home():
    ax = plots.token_trips()
    assert len(ax.lines) == 2 * len(ROUTES)
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 2 * len(ROUTES)
    marks = [patch for patch in ax.patches if type(patch).__name__ == "Rectangle"]
    assert len(marks) == 2 * len(ROUTES)
    written = [text.get_text() for text in ax.texts]
    assert all(written.count(f"t{token}") == 4 for token in range(len(ROUTES)))  # here, at two experts, and back
    assert "expert 9 is wanted by 4 of the 8 tokens" in words_of(ax.figure)


def test_a_rank_with_more_rows_lets_the_others_wait():
    even, hot = (run(a_layer, sizes, ranks=3, on=Cluster(latency=0.0)) for sizes in ([4, 4, 4], [10, 1, 1]))
    upper, lower = plots.busiest_rank({"fair": even, "hot": hot})
    assert "waits" not in words_of(upper.figure).partition("hot:")[0]
    waits = [text.get_text() for text in lower.texts if "waits for rank 0" in text.get_text()]
    assert len(waits) == 2 and "times as long" in lower.get_title("left")


def test_only_the_longer_of_reading_and_arithmetic_counts():
    ax = plots.layer_by_width(WIDTHS, [0, 120, 171])
    words = words_of(ax.figure)
    assert "EP8: reading 421, dispatch 77, combine 114, together 612 µs, but none fit;" in words
    assert "EP32: reading 105, dispatch 155, combine 273, together 533 µs, but 120 fit" in words
    assert "EP256: arithmetic 46, dispatch 194, combine 360, together 600 µs" in words and "171 fit" not in words
    assert [bar.get_alpha() for bar in ax.patches] == [0.35] * 6 + [1.0] * 3


def test_the_seats_count_who_finds_none():
    ax = plots.seats([3, 9, 4, 0], 4)
    assert ax.get_title("left") == "5 of 16 pairs find no seat, while 5 seats stay empty"
    assert [bar.get_height() for bar in ax.containers[2]] == [0, 5, 0, 0]


def test_a_line_is_dashed_where_more_requests_fit_than_were_measured_and_the_crossings_are_marked():
    ax = plots.rates_by_length(LINES, 128)
    dashed = [list(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [[1000, 2000], [1000, 2000], [1000, 2000, 3000]]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [1500, 2500]
    words = words_of(ax.figure)
    assert words.startswith("Short requests favour EP16, long ones EP64")
    assert "between 1,000 and 2,000, EP32 overtakes EP16" in words and "EP16 writes 5,000 at 1,000" in words


def test_shares_of_active_parameters_are_those_of_the_library():
    words = words_of(plots.total_and_active(SHAPES)[0].figure)
    assert "DeepSeek-V3 37.6 of 671 billion: 5.6%" in words and "Mixtral-8x7B 12.9 of 47 billion: 27.6%" in words


def test_a_map_says_how_busy_the_busiest_expert_is():
    run = recorded("none", 0)[0]
    title = plots.load_maps({"no balancing": run})[0].get_title("left")
    assert f"{run.imbalance[-1]:.1f} times the mean" in title and f"{run.unused} of 16 have nothing" in title
