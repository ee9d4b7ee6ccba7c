"""Chapter 9's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")


from legible import assert_legible

from course_lib import plots, schedules
from course_lib.plots.marks import pauses
from course_lib.schedules import play


def played() -> dict:
    return {"1F1B": play(schedules.one_f_one_b(4, 8)), "ZB-V": play(schedules.zb_v(4, 8), 0.5, 0.5, 0.5)}


def marked():
    line = played()["ZB-V"]
    ax = plots.timelines({"ZB-V": line})[0]
    return plots.mark_way(plots.mark_span(plots.mark_idle(ax, line, 3), line, 0), line)


PICTURES = {
    "timelines": lambda: plots.timelines(played())[0],
    "without numbers": lambda: plots.timelines(played(), numbers=False, title="both")[0],
    "routes": lambda: plots.stage_routes({"V": (4, [[0, 1, 2, 3, 3, 2, 1, 0]]),
                                          "two copies": (4, [[0, 1, 2, 3], [3, 2, 1, 0]])})[0],
    "one route": lambda: plots.stage_routes({"loop": (2, [[0, 1, 0, 1]])})[0],
    "split": plots.split_backward,
    "block": plots.overlapped_block,
    "losses": lambda: plots.smoothed_losses({"a": [3.0] * 30, "b": [4.0] * 30}, "Losses"),
    "marks": marked,
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


def test_timelines_share_one_axis_and_say_seconds_idle_share_and_gain():
    first, second = plots.timelines(played())
    assert first.get_xlim() == second.get_xlim() == (0, 33)
    assert first.get_title("left") == "1F1B: 33 s, 27% of it idle"
    assert second.get_title("left") == "ZB-V: 25.5 s, 6% of it idle, 1.29 times as fast"


def test_timelines_have_one_legend_for_all_without_what_takes_no_time():
    both = {"one": played()["1F1B"], "two": play(schedules.chimera(4, 4), place=schedules.both_ways(4))}
    (legend,) = plots.timelines(both)[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["F", "B", "F chunk 1", "B chunk 1", "idle"]


def test_without_numbers_no_bar_bears_one():
    assert [ax.texts[:] for ax in plots.timelines(played(), numbers=False)] == [[], []]


def test_a_block_names_its_steps_and_the_split_says_what_is_kept():
    told = [text.get_text() for text in plots.overlapped_block().texts]
    assert [told.count(f"{kind}\n{step}") for kind in ("F9", "B5") for step in ("attention", "dispatch")] == [2] * 4
    assert "x must be kept\nfor step W" in [text.get_text() for text in plots.split_backward().texts]


def test_a_route_tells_which_rank_holds_which_stage():
    words = plots.words_of(PICTURES["routes"]().figure)
    assert "stages 0 to 7 on ranks 0, 1, 2, 3, 3, 2, 1, 0" in words
    assert "stages 0 to 3 on ranks 0, 1, 2, 3; a second copy of the model: stages 0 to 3 on ranks 3, 2, 1, 0" in words


def test_a_gain_of_nothing_is_not_told_and_a_kind_may_have_a_name_of_its_own():
    both = {"H1": play(schedules.zb_h1(4, 8)), "H2": play(schedules.zb_h2(4, 8))}
    assert "times as fast" not in plots.timelines(both)[1].get_title("left")
    up = plots.timelines({"V": play(schedules.zb_v(2, 4))}, names={"F chunk 1": "F going up"})
    assert "F going up" in [text.get_text() for text in up[0].figure.legends[0].get_texts()]


def test_all_boxes_of_routes_are_equally_wide():
    figure = plots.stage_routes({"one": (2, [[0, 1]]), "two": (2, [[0, 1, 0, 1]])})[0].figure
    figure.canvas.draw()
    widths = [patch.get_window_extent().width for ax in figure.axes for patch in ax.patches]
    assert max(widths) <= 1.03 * min(widths)


def test_idle_times_are_framed_and_told_in_seconds():
    line = play(schedules.one_f_one_b(4, 8))
    ax = plots.mark_idle(plots.timelines({"1F1B": line})[0], line, 0)
    assert [text.get_text() for text in ax.texts if " s" in text.get_text()] == ["6 s", "1 s", "1 s", "1 s"]
    assert len(ax.patches) == 4


@pytest.mark.parametrize(
    ("order", "words"), [(schedules.zb_h1, "27 s, 3 s of it idle"), (schedules.zb_h2, "24 s, no pause")]
)
def test_a_span_is_told_with_its_pauses(order, words):
    done = play(order(4, 8))
    ax = plots.mark_span(plots.timelines({"": done})[0], done, 0)
    assert ax.texts[-1].get_text() == f"rank 0's own span: {words}"


@pytest.mark.parametrize(("schedule", "points"), [
    (schedules.interleaved(4, 8, 2), 16), (schedules.zb_v(4, 8), 16), (schedules.dual_pipe_v(4, 8), 16),
])  # fmt: skip
def test_the_way_of_a_micro_batch_passes_every_stage_down_and_up(schedule, points):
    done = play(schedule)
    dots = plots.mark_way(plots.timelines({"": done})[0], done, 2).lines[0]
    times = dots.get_xdata()
    assert len(times) == points and sorted(times) == list(times)


def test_only_the_way_back_can_be_drawn():
    done = play(schedules.one_f_one_b(4, 8))
    dots = plots.mark_way(plots.timelines({"": done})[0], done, 7, back=True).lines[0]
    assert list(dots.get_xdata()) == [26, 28, 30, 32]


def test_the_stairs_outside_all_spans_are_framed():
    done = play(schedules.zb_h2(4, 8))
    ax = plots.mark_stairs(plots.timelines({"": done})[0], done)
    assert sorted((frame.get_x(), frame.get_width()) for frame in ax.patches) == [
        (0, 1), (0, 2), (0, 3), (24, 3), (25, 2), (26, 1),
    ]  # fmt: skip


def test_rank_r_of_zb_h1_has_r_and_one_weight_parts_left_after_its_last_i():
    done = play(schedules.zb_h1(4, 8))
    ax = plots.mark_put_off(plots.timelines({"1F1B": play(schedules.one_f_one_b(4, 8)), "": done})[1], done)
    assert_legible(ax.figure)
    assert [frame.get_width() for frame in ax.patches] == [1, 2, 3, 4]
    left = [text.get_text() for text in ax.texts if "left" in text.get_text()]
    assert left == [f"{n} left" for n in (1, 2, 3, 4)]


def test_a_way_is_strong_between_neighbours_and_only_its_own_numbers_stand_before_it():
    done = play(schedules.interleaved(4, 4, 2), 0.5, 0.5, 0.5)
    ax = plots.mark_way(plots.timelines({"": done}, tints=True)[0], done)
    strong, thin = ([line for line in ax.lines[1:] if (line.get_linewidth() > 1) == wanted] for wanted in (True, False))
    assert (len(strong), len(thin)) == (13, 2)  # once round forward and once backward
    numbers = [text for text in ax.texts if text.get_text().isdigit()]
    raised = [text for text in numbers if text.get_zorder() > max(line.get_zorder() for line in strong)]
    assert {text.get_text() for text in raised} == {"0"} and len(raised) == 16
    assert max(line.get_zorder() for line in thin) < min(text.get_zorder() for text in numbers)


def test_the_way_leaves_a_postponed_weight_part_alone():
    done = play(schedules.zb_v(4, 4), 0.5, 0.5, 0.5)
    ax = plots.mark_way(plots.timelines({"": done})[0], done)
    assert len([text for text in ax.texts if text.get_zorder() == 7]) == 16


def lives():
    return plots.lifetimes(played(), "A title")


def test_lifetimes_reach_from_forward_to_backward_and_sum_chunks_by_their_share():
    first, second = lives()
    assert_legible(first.figure)
    assert [text.get_text() for text in first.texts] == ["12 s", "9 s", "6 s", "3 s"]
    told = [text.get_text() for text in second.texts]
    assert "(11 + 1.5) / 2 = 6.25 s" in told and "(6.5 + 4.5) / 2 = 5.5 s" in told and "chunk 1" in told
    assert first.get_xlim() == second.get_xlim()
    bar = second.patches[0]
    assert (bar.get_x(), bar.get_width()) == (0, 11)
    words = plots.words_of(first.figure)
    assert "rank 3 keeps chunk 1 for 4.5 s" in words and "rank 0 keeps chunk 0 for 12 s" in words


def test_all_work_can_look_alike_and_goes_on_until_a_pause():
    done = play(schedules.interleaved(4, 4, 2), 0.5, 0.5, 0.5)
    (ax,) = plots.timelines({"": done}, kinds=False, until=20)
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["work", "idle"]
    assert ax.get_xlim() == (0, 20) and any(event.kind == "F chunk 1" for event in done.events) and not ax.texts
    bars = {one.get_label(): one.get_paths() for one in ax.collections}
    inside = sum(len(pauses(done, rank, ends=False)) for rank in range(4))
    assert len(bars["work"]) == 4 + inside


def test_a_way_can_leave_no_other_numbers():
    done = play(schedules.zb_v(4, 8), 0.5, 0.5, 0.5)
    ax = plots.mark_way(plots.timelines({"": done})[0], done, alone=True)
    assert [text.get_text() for text in ax.texts] == ["0"] * 16


def test_losses_are_smoothed_around_their_middle():
    from course_lib.plots.losses import smoothed

    places, means = smoothed([0, 1, 2, 3, 4], 3)
    assert list(places) == [1, 2, 3] and means == [1, 2, 3]
    ax = plots.smoothed_losses({"run": [0.0, 1.0, 2.0, 3.0, 4.0]}, "a title", window=3)
    assert len(ax.lines) == 2 and "run: 2.000 over the last 20 batches" in ax.get_legend().get_texts()[0].get_text()


def test_ways_can_have_heads_above_their_own_columns():
    routes = {"two": (4, [[0, 1, 2, 3], [3, 2, 1, 0]])}
    (ax,) = plots.stage_routes(routes, heads=["down", "up"])
    assert_legible(ax.figure)
    heads = {text.get_text(): text.get_position()[0] for text in ax.texts if text.get_text() in ("down", "up")}
    stages = {text.get_position()[0] for text in ax.texts if text.get_text().startswith("stage")}
    assert list(heads) == ["down", "up"] and sorted(stages) == pytest.approx(sorted(heads.values()))


def test_a_pause_too_narrow_for_its_seconds_has_them_below_the_last_row():
    done = play(schedules.dual_pipe_v(4, 8), 0.5, 0.5, 0.5, overlapped=1.5)
    ax = plots.mark_idle(plots.timelines({"DualPipe-V": done})[0], done, 3)
    assert_legible(ax.figure)
    told = [text for text in ax.texts if text.get_text().endswith(" s")]
    assert [text.get_text() for text in told] == ["1.5 s", "0.5 s", "0.5 s", "0.5 s"]
    assert all(text.get_position()[1] > 3.4 for text in told[1:])
