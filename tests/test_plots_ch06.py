"""Pictures of pipelines: what they show, their words, and that every letter is large enough and inside."""

from __future__ import annotations

import math

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
from legible import assert_legible
from matplotlib.colors import to_hex

from course_lib import plots
from course_lib.plots import BACKWARD, COMPUTE, FORWARD, SENT, WAITING, words_of
from course_lib.schedules import gpipe, interleaved, one_f_one_b, play

SLOW = {"communication": 0.5}
LOOP = play(interleaved(4, 4, 2), 0.5, 0.5, 0.5)


def on_one_axis(**more):
    return plots.on_one_axis({"GPipe": play(gpipe(4, 8)), "1F1B": play(one_f_one_b(4, 8))}, "33 s and 33 s", **more)


def held(order="GPipe", **more):
    return plots.held_over_time({order: play(gpipe(4, 8)), "1F1B": play(one_f_one_b(4, 8))}, "memory", gigabytes=5,
                                limit=30, **more)  # fmt: skip


PICTURES = {
    "cut_model": lambda: plots.cut_model()[0],
    "price_of_cuts": lambda: plots.price_of_cuts({"compute": 132.0, "tensor parallel": 150.3, "a cut": 5.4}, "prices"),
    "pipeline_of_nodes": lambda: plots.pipeline_of_nodes([7] + 14 * [8] + [7], 8, 128, "one copy"),
    "one_cut": plots.one_cut,
    "on_one_axis": lambda: on_one_axis(held=True)[0],
    "count_waiting": plots.count_waiting,
    "held_over_time": held,
    "round_trip": lambda: plots.round_trip(play(one_f_one_b(4, 12), **SLOW), "a trip", microbatch=4),
    "pale chunks": lambda: plots.timelines({"v = 2": LOOP}, tints=True)[0],
    "ends": lambda: held(ends=True),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_says_something(name):
    assert len(words_of(PICTURES[name]().figure)) > 60


def spans(ax, colour: str) -> list[tuple[float, float, float]]:
    """Return (row, start, end) of the bars of a colour."""
    bars = [bar for bar in ax.patches if to_hex(bar.get_facecolor()) == colour.lower()]
    return [(round(bar.get_y() + 0.4), bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]


def test_the_first_picture_times_one_batch_as_a_replay_does():
    _, below = plots.cut_model()
    played = play([[("F", 0), ("B", 0)]] * 4)
    for kind, colour in (("F", FORWARD), ("B", BACKWARD)):
        want = [(event.rank, event.start, event.end) for event in played.events if event.kind == kind]
        assert sorted(spans(below, colour)) == sorted(want)
    assert len(spans(below, WAITING)) == 4


@pytest.mark.parametrize(("p", "m"), [(4, 4), (3, 5), (2, 1)])
def test_waiting_is_counted_as_a_replay_has_it(p, m):
    ax, played = plots.count_waiting(p, m), play(gpipe(p, m))
    for kind, colour in (("F", FORWARD), ("B", BACKWARD)):
        want = [(event.rank, event.start, event.end) for event in played.events if event.kind == kind]
        assert sorted(spans(ax, colour)) == sorted(want)
    assert [text.get_text() for text in ax.texts].count(f"= {p - 1} (F + B)") == p


def test_of_four_ranks_each_gap_has_its_length():
    words = words_of(plots.count_waiting().figure)
    assert "rank 0 waits 3 F + 3 B; rank 1 waits F and 2 F + 2 B and B" in words
    assert words.endswith("rank 3 waits 3 F and 3 B")


def test_schedules_on_one_axis_have_one_scale_one_key_and_what_they_hold():
    axes = on_one_axis(held=True)
    assert axes[0].get_xlim() == axes[1].get_xlim() == (0, 33)
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["F", "B", "idle"]
    assert [text.get_text() for text in axes[1].texts if text.get_weight() == "bold"] == ["4", "3", "2", "1"]
    assert "1F1B: 33 s" in words_of(axes[0].figure)
    assert "rank 0 holds 4, rank 1 holds 3" in words_of(axes[0].figure)


def test_under_a_slider_the_picture_keeps_its_height():
    heights = {
        plots.on_one_axis({"1F1B": play(one_f_one_b(stages, 4))}, "t", rows=8)[0].figure.get_figheight()
        for stages in (1, 3, 8)
    }
    assert len(heights) == 1


def test_gpipe_is_a_mountain_and_1f1b_a_plateau():
    ax = held()
    mountain, plateau = (list(line.get_ydata()) for line in ax.lines[:2])
    assert max(mountain) == 8 * 5 and max(plateau) == 4 * 5
    assert mountain[-1] == plateau[-1] == 0
    assert plateau.count(20) >= 4 and min(plateau[3:-4]) == 20  # a forward fills at once what a backward has freed
    assert words_of(ax.figure).endswith("GPipe: at most 40 GB, in a step of 33 s; 1F1B: at most 20 GB, in a step of "
                                        "33 s; 30 GB are free")  # fmt: skip


def test_a_round_trip_in_the_middle_of_a_step_has_its_work_and_its_waiting():
    ax = plots.round_trip(play(one_f_one_b(4, 12), **SLOW), "a trip", microbatch=4)
    words = words_of(ax.figure)
    assert "micro-batch 4 goes down the ranks and back in 15 s, from 15 to 30 s; then micro-batch 8 enters" in words
    assert "meanwhile rank 0 has 4 F and 4 B, 12 s of work for 4 micro-batches and 3 s of waiting" in words
    seen = [patch for patch in ax.patches if patch.get_hatch() and 15 <= patch.get_x() < 30]
    of_rank_0 = [(patch.get_x(), patch.get_width()) for patch in seen if patch.get_y() == -0.4]
    assert of_rank_0 == [(19, 1), (23, 1), (27, 1)]
    assert {patch.get_y() + 0.4 for patch in seen} == {0, 1, 2, 3}  # as in the picture before, every rank's is hatched
    assert ax.get_xlim() == (12, 33)
    ax.figure.canvas.draw()
    assert set(ax.get_xticks()) >= {12, 15, 30}


def test_without_messages_rank_0_works_through_the_whole_round_trip():
    ax = plots.round_trip(play(one_f_one_b(4, 12)), "a trip", microbatch=4)
    assert "12 s of work for 4 micro-batches" in words_of(ax.figure) and "of waiting" not in words_of(ax.figure)
    assert not [patch for patch in ax.patches if patch.get_hatch()]


def test_a_real_run_is_drawn_with_all_its_gpus():
    ax = plots.pipeline_of_nodes([7] + 14 * [8] + [7], 8, 128, "one copy")
    squares = [patch for patch in ax.patches if isinstance(patch, plt.Rectangle)]
    assert len(squares) == 16 * 8 + 3  # and the sheets that they and the other copies stand on
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("8") == 14 and {"E+7", "7+H"} <= set(texts)
    assert any("126 layers in 16 stages" in text for text in texts)
    assert len(ax.texts) - len([text for text in texts if text]) == 2 * 14 + 2 * 8 + 3 + 16  # arrows, and empty boxes


def test_prices_stand_beside_their_bars():
    ax = PICTURES["price_of_cuts"]()
    assert [text.get_text() for text in ax.texts] == ["132 ms", "150 ms", "5.4 ms"]


def test_nvlink_and_network_have_colours_of_their_own():
    ax = plots.price_of_cuts({"compute": 132.0, "tensor parallel (NVLink)": 17.0, "the same (network)": 150.0}, "t")
    assert len({to_hex(bar.get_facecolor()) for bar in ax.patches}) == 3
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches][::2] == [COMPUTE.lower(), SENT.lower()]
    (legend,) = ax.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["computing", "sent over NVLink", "sent over the network"]


def test_the_steps_at_a_cut_are_numbered():
    assert {str(step) for step in range(1, 10)} <= {text.get_text() for text in plots.one_cut().texts}


def test_a_second_chunk_is_pale_and_nothing_crosses_its_number():
    (ax,) = plots.timelines({"v = 2": LOOP}, tints=True)
    bars = {bars.get_label(): bars for bars in ax.collections}
    assert not any(bar.get_hatch() for bar in [*bars.values(), *ax.figure.legends[0].legend_handles])
    assert sum(bars["F chunk 1"].get_facecolor()[0]) > sum(bars["F"].get_facecolor()[0])
    assert not any(text.get_path_effects() for text in ax.texts)


def test_memory_over_time_may_say_when_each_step_ends():
    assert "GPipe: 40 GB, ends at 33 s" in [text.get_text() for text in held(ends=True).texts]
    assert "GPipe: 40 GB" in [text.get_text() for text in held().texts]


def test_waiting_between_turns_is_hatched_and_told():
    slow = play(one_f_one_b(4, 8), **SLOW)
    axes = plots.on_one_axis({"1F1B": play(one_f_one_b(4, 8)), "slow": slow}, "t", middle=True, note=(3, "is\nlast"))
    hatched = [[patch for patch in ax.patches if patch.get_hatch()] for ax in axes]
    assert not hatched[0] and len(hatched[1]) == 14
    assert "rank 0 waits 2 between its turns" in words_of(axes[0].figure)
    assert "rank 3 is last" in words_of(axes[0].figure)


def test_one_micro_batch_is_framed_where_it_enters_and_leaves_memory():
    axes = on_one_axis(framed=0)
    frames = [[(bar.get_x(), bar.get_width()) for bar in ax.patches if not bar.get_fill()] for ax in axes]
    assert frames == [[(0, 1), (31, 2)], [(0, 1), (10, 2)]]


def test_above_each_timeline_stands_how_long_one_micro_batch_is_in_flight():
    axes = on_one_axis(framed=0)
    words = [f"micro-batch 0 in flight: {seconds} s" for seconds in (33, 12)]
    for ax, said in zip(axes, words, strict=True):
        assert said in [text.get_text() for text in ax.texts] and f"rank 0 has {said}" in words_of(axes[0].figure)


def test_a_dashed_outline_is_drawn_only_above_the_others():
    dashed, solid = held(outlined="GPipe").lines[:2]
    corners = [(x, y) for x, y in dashed.get_xydata() if not math.isnan(y)]
    assert max(y for _, y in corners) == 40 and corners[0] == (4, 20)  # where 1F1B stops rising
    assert max(solid.get_ydata()) == 20
    seen = [(x, y) for x, y in corners if y > 20]
    assert min(x for x, _ in seen) == 4


def test_nodes_tell_both_bandwidths():
    words = words_of(plots.pipeline_of_nodes([7, 7], 8, 2, "two nodes", gigabytes=(450, 50)).figure)
    assert "NVLink (450 GB/s each)" in words and "network (50 GB/s a GPU)" in words
