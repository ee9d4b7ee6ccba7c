"""Schedules as data: every published makespan and formula under its convention, and the sentence for each broken rule.

Convention (i): F = I = W = 1, so a whole backward takes 2. Convention (ii): a forward and a whole backward alike.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import schedules
from course_lib.schedules import (
    Action,
    ScheduleError,
    as_schedule,
    both_ways,
    chimera,
    comparison,
    comparison_text,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    pipedream,
    play,
    row_of,
    split_backward,
    v_shaped,
    validate,
    whole_backward,
    zb_h1,
    zb_h2,
    zb_v,
)

HALVES = {"forward": 1, "backward": 0.5, "weight": 0.5}  # convention (ii)
LINE = {"gpipe": gpipe, "one_f_one_b": one_f_one_b, "zb_h1": zb_h1, "zb_h2": zb_h2, "zb_v": zb_v}
# Published in 2401.10241 (tables of profiled times and of bubble rates): p, m, F, B, W and communication in ms, then
# the bubble rate of 1F1B, ZB-H1 and ZB-H2.
PUBLISHED = [
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559),
    (8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672),
    (16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516),
    (16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266),
    (32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0641),
    (32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490),
    (32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0257),
]  # fmt: skip


# Published numbers


@pytest.mark.parametrize(
    ("schedule", "makespan", "span", "busy"),
    [
        (gpipe(4, 8), 33, 33, 24),
        (one_f_one_b(4, 8), 33, 33, 24),
        (interleaved(4, 8, 2), 57, 57, 48),
        (zb_h1(4, 8), 27, 27, 24),
        (zb_h2(4, 8), 27, 24, 24),
        (zb_v(4, 8), 51, 48, 48),
        (dual_pipe_v(4, 8), 54, 54, 48),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_makespans_with_equal_parts_of_the_backward(schedule, makespan, span, busy):
    played = play(schedule, overlapped=3)
    assert (played.seconds, played.longest_span, set(played.busy)) == (makespan, span, {busy})


def test_the_two_bubbles_have_two_names():
    for schedule in (gpipe(4, 8), one_f_one_b(4, 8)):
        played = play(schedule)
        assert played.bubble_share == pytest.approx(3 / 11, abs=1e-12)
        assert played.bubble_to_ideal == pytest.approx(3 / 8, abs=1e-12)


@given(p=st.integers(1, 7), m=st.integers(1, 20), f=st.integers(1, 9), b=st.integers(1, 9), w=st.integers(0, 9))
def test_gpipe_and_1f1b_idle_p_minus_1_rounds(p, m, f, b, w):
    for order in (gpipe, one_f_one_b):
        played = play(order(p, m), f, b, w)
        assert played.seconds == (m + p - 1) * (f + b + w)
        assert played.bubble_share == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)


@given(p=st.integers(1, 6), groups=st.integers(1, 4), v=st.integers(1, 4), f=st.integers(1, 9), b=st.integers(1, 9))
def test_interleaving_divides_the_bubble_by_the_chunks(p, groups, v, f, b):
    played = play(interleaved(p, groups * p, v), f, b, 0)
    assert played.seconds == groups * p * v * (f + b) + (p - 1) * (f + b)
    assert played.bubble_to_ideal == pytest.approx((p - 1) / (v * groups * p), abs=1e-12)


@given(p=st.integers(2, 6), v=st.integers(2, 4), groups=st.integers(2, 4))
def test_interleaving_costs_memory(p, v, groups):
    played = play(interleaved(p, groups * p, v))
    assert played.peak_memory[0] == pytest.approx(p * (1 + (p - 1) / (p * v)))  # 2205.05198 §4.2.3


@given(p=st.integers(1, 7), extra=st.integers(0, 10), f=st.integers(5, 9), b=st.integers(5, 9), w=st.integers(0, 5))
def test_zb_h1_and_zb_h2_idle_as_published(p, extra, f, b, w):
    m = 2 * p + extra
    h1, h2 = play(zb_h1(p, m), f, b, w), play(zb_h2(p, m), f, b, w)
    assert h1.seconds - m * (f + b + w) == (p - 1) * (f + b - w)
    assert h1.peak_activations == [p] * p
    if 2 * w <= f + b:
        assert h2.longest_span - m * (f + b + w) == (p - 1) * (f + b - 2 * w)
        assert h2.peak_activations == [2 * p - 1] * p


@pytest.mark.parametrize(("p", "m", "f", "b", "w", "c", "line", "h1", "h2"), PUBLISHED)
def test_published_bubble_rates_come_out_of_their_measured_costs(p, m, f, b, w, c, line, h1, h2):
    assert play(one_f_one_b(p, m), f, b, w, c).bubble_share == pytest.approx(line, abs=6e-5)
    assert play(zb_h1(p, m), f, b, w, c).bubble_share == pytest.approx(h1, abs=6e-5)
    assert play(zb_h2(p, m), f, b, w, c).bubble_of_longest_span == pytest.approx(h2, abs=6e-5)
    bubble = (p - 1) * (f + b + w + 2 * c)  # a closed form that pays communication only on the way in and out
    assert bubble / (m * (f + b + w) + bubble) < line - 0.005


@pytest.mark.parametrize("d", [2, 4, 6, 8])
def test_chimeras_row_of_its_table(d):
    played = play(chimera(d, d), **HALVES)
    assert played.bubble_share == pytest.approx((d - 2) / (2 * d + d - 2), abs=1e-12)
    assert (min(played.peak_memory), max(played.peak_memory)) == (d / 2 + 1, d)
    assert set(played.weight_copies) == {2}
    assert play(chimera(d, d)).bubble_share == pytest.approx((d - 2) / (1.5 * d + d - 2), abs=1e-12)


@pytest.mark.parametrize("units", [2, 3, 5])
def test_chimeras_units_follow_each_other_without_a_gap(units):
    for d in (4, 6):
        played = play(chimera(d, units * d), **HALVES)
        assert played.bubble_share == pytest.approx((d - 2) / (2 * units * d + d - 2), abs=1e-12)
        assert max(played.peak_memory) == d


def test_the_rest_of_chimeras_table():
    d, n = 4, 8
    both = {order.__name__: play(order(d, n), **HALVES) for order in (gpipe, one_f_one_b, pipedream)}
    for name in ("gpipe", "one_f_one_b"):
        assert both[name].bubble_share == pytest.approx((d - 1) / (n + d - 1))
        assert set(both[name].weight_copies) == {1}
    assert both["gpipe"].peak_memory == [n] * d
    assert both["one_f_one_b"].peak_memory == [4, 3, 2, 1]
    assert both["pipedream"].weight_copies == [4, 3, 2, 1]
    assert not pipedream(d, n).synchronous
    assert play(pipedream(d, 1000), **HALVES).bubble_share < 0.004  # no flush: only the very first and last rounds idle


@pytest.mark.parametrize(("ranks", "overlapped"), [(2, 3), (3, 3), (4, 3), (4, 2.5), (5, 3), (6, 2)])
def test_dual_pipe_vs_bubble_is_the_published_one(ranks, overlapped):
    stages = 2 * ranks
    played = play(dual_pipe_v(ranks, 2 * stages), overlapped=overlapped)
    worst = max(played.seconds - busy for busy in played.busy)
    assert worst == pytest.approx((stages / 2 - 1) * (overlapped + 2 - 3 * 1), abs=1e-9)
    assert set(play(dual_pipe_v(ranks, 2 * stages)).peak_memory) == {ranks + 0.5}


@given(p=st.integers(1, 6), extra=st.integers(0, 9))
def test_zb_v_has_no_idle_span_and_the_memory_of_1f1b(p, extra):
    m = 2 * p + extra
    played = play(zb_v(p, m))
    assert (played.longest_span, played.seconds) == (6 * m, 6 * m + p - 1)
    assert played.peak_memory == [p] * p


def test_costs_may_differ_from_stage_to_stage():
    played = play(gpipe(2, 3), forward=[1, 5], backward=[0, 0], weight=[2, 10])
    assert played.seconds == 1 + 3 * 15 + 2
    assert played.busy == [9, 45]
    for costs in ([1], [1, 2, 3], -1, [1, float("nan")], "ab"):
        with pytest.raises(ValueError, match="forward"):
            play(gpipe(2, 3), forward=costs)


def test_what_a_rank_hands_to_itself_needs_no_communication():
    assert play(zb_v(1, 1), communication=100).seconds == 6
    assert play(one_f_one_b(2, 1), communication=100).seconds == 206


def test_the_fused_block_takes_what_it_is_said_to_take():
    assert play(dual_pipe_v(1, 4)).seconds == play(dual_pipe_v(1, 4), overlapped=3).seconds
    assert play(dual_pipe_v(1, 4), overlapped=2).seconds < play(dual_pipe_v(1, 4)).seconds


@pytest.mark.parametrize("order", [gpipe, one_f_one_b, zb_h2])
def test_64_stages_and_512_microbatches_are_replayed_at_once(order):
    schedule = order(64, 512)
    seconds = []
    for _ in range(3):  # the best of three: a busy machine slows some of them
        begin = time.process_time()
        play(schedule)
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 2  # 0.4 to 0.7 s where this was written


def test_schedules_import_neither_torch_nor_numpy():
    code = "import sys, course_lib.schedules; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Properties of every order


@settings(max_examples=60)
@given(p=st.integers(1, 6), m=st.integers(1, 14))
def test_every_order_keeps_the_rules(p, m):
    for schedule in [order(p, m) for order in (*LINE.values(), pipedream)] + [interleaved(p, p * m, 3)]:
        assert validate(schedule) is schedule
    validate(dual_pipe_v(p, 2 * p + m))
    validate(chimera(2 * p, 2 * p * (1 + m % 3)))


@settings(max_examples=40)
@given(
    p=st.integers(1, 5), m=st.integers(1, 10), c=st.floats(0, 3),
    costs=st.lists(st.floats(0.1, 5), min_size=15, max_size=15),
)  # fmt: skip
def test_a_replay_keeps_every_dependency(p, m, c, costs):
    schedule = zb_h1(p, m)
    played = play(schedule, costs[:p], costs[5 : 5 + p], costs[10 : 10 + p], c)
    end = {(event.rank, event.kind, event.action.microbatch): event.end for event in played.events}
    before = [0.0] * p
    for event in played.events:
        needs = {"F": ("F", event.rank - 1), "I": ("I", event.rank + 1)}.get(event.kind)
        assert event.posted == before[event.rank] <= event.start
        ready = 0.0
        if needs and 0 <= needs[1] < p:
            ready = end[needs[1], needs[0], event.action.microbatch] + c
        assert event.start == max(ready, event.posted)  # never early, and never later than it could
        before[event.rank] = event.end
    assert played.seconds >= max(played.busy)


@pytest.mark.parametrize("name", LINE)
def test_with_one_stage_there_is_no_bubble(name):
    assert play(LINE[name](1, 5)).bubble_share == 0


def test_fewer_microbatches_than_stages():
    for order in LINE.values():
        played = play(order(6, 2))
        assert played.seconds >= 2 * 3 and max(played.peak_activations) <= 2 * len(played.schedule.place[0])
    assert play(one_f_one_b(6, 2)).seconds == (2 + 5) * 3


def test_a_schedule_without_its_weight_parts_is_one_of_whole_backwards():
    rows = whole_backward(zb_h1(3, 4).actions)
    assert {action.kind for row in rows for action in row} == {"F", "B"}
    assert validate(rows)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gpipe(0, 4), "stages = 0"),
        (lambda: one_f_one_b(4, 0), "microbatches = 0"),
        (lambda: gpipe(2.0, 4), "stages = 2.0"),
        (lambda: one_f_one_b(True, 4), "stages = True"),
        (lambda: interleaved(4, 8, 0), "chunks = 0"),
        (lambda: interleaved(4, 6, 2), "microbatches = 6"),
        (lambda: chimera(3, 3), "stages = 3"),
        (lambda: chimera(4, 6), "microbatches = 6"),
        (lambda: dual_pipe_v(4, 7), "microbatches = 7"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# The rules


def rows_of(schedule) -> list:
    return [list(row) for row in schedule.actions]


def code_of(rows, **more) -> tuple[str, str]:
    with pytest.raises(ScheduleError) as caught:
        validate(rows, **more)
    return caught.value.code, str(caught.value)


def without(rows, rank, *action):
    return [[a for a in row if r != rank or a != Action(*action)] for r, row in enumerate(rows)]


def swapped(rows, rank, one, other):
    row = rows[rank]
    i, j = row.index(Action(*one)), row.index(Action(*other))
    row[i], row[j] = row[j], row[i]
    return rows


LINES = rows_of(one_f_one_b(3, 4))
SPLIT = rows_of(zb_h1(3, 4))
TWO = rows_of(interleaved(2, 4, 2))
BOTH = rows_of(chimera(2, 2))


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        (7, "form", "7"),
        ([], "form", "one list"),
        ([[], []], "form", "no rank does anything"),
        ([["F", 0]], "form", "rank 0"),
        ([[("F",)]], "form", r"('F',)"),
        ([[("F", -1)]], "form", "-1"),
        ([[("F", 0, 0.5)]], "form", "0.5"),
        ([[("Forward", 0)]], "kind", "'Forward'"),
        ([[("FB", 0, 0)]], "form", "FB"),
        (without(LINES, 1, "F", 2), "forward-missing", "rank 1 never runs F(2)"),
        (without(LINES, 2, "B", 3), "backward-missing", "micro-batch 3 is lost"),
        (swapped(rows_of(one_f_one_b(3, 4)), 2, ("F", 1), ("B", 1)), "backward-before-forward", "B(1) before F(1)"),
        (swapped(rows_of(one_f_one_b(3, 4)), 2, ("F", 0), ("B", 0)), "backward-before-forward", "rank 2 runs B(0)"),
        ([row + [row[0]] for row in LINES], "twice", "twice"),
        (without(SPLIT, 1, "W", 2), "weight-missing", "never W(2)"),
        (swapped(rows_of(zb_h1(3, 4)), 1, ("W", 0), ("I", 0)), "weight-before-input", "before I(0)"),
        ([row + [Action("B", 0)] for row in SPLIT], "twice", "both B(0)"),
        (without(TWO, 1, "B", 1, 1), "backward-missing", "B(1) of chunk 1"),
        (without(TWO, 1, "F", 1, 1), "forward-missing", "rank 1 never runs F(1) of chunk 1"),
    ],
)
def test_each_broken_rule_has_its_sentence(rows, code, words):
    got, sentence = code_of(rows)
    assert got == code and words in sentence, (got, sentence)


def test_a_circle_of_waiting_ranks_is_named():
    rows = [[("F", 0), ("B", 0), ("F", 1), ("B", 1)], [("F", 0), ("F", 1), ("B", 0), ("B", 1)]]
    code, sentence = code_of(rows)
    assert code == "deadlock"
    assert "rank 0 stands at B(0), which needs B(0) of rank 1" in sentence
    assert "rank 1 stands at F(1), which needs F(1) of rank 0" in sentence


def test_two_copies_have_to_share_the_work_and_sum_their_gradients():
    place = both_ways(2)
    assert code_of(without(BOTH, 1, "SYNC", None, 0), place=place)[0] == "sync-missing"
    early = [[row[-1], *row[:-1]] for row in BOTH]
    assert code_of(early, place=place)[0] == "sync-early"
    one_way = [[a for a in row if a.kind != "SYNC"] for row in BOTH]
    assert code_of(one_way, place=place)[0] == "sync-missing"
    twice = [[*row, ("F", 0, 1), ("B", 0, 1)] for row in one_way]
    assert code_of(twice, place=place)[0] == "copies"


def test_plain_lists_may_say_where_stages_stand():
    rows = [[(a.kind, a.microbatch, a.chunk) for a in row] for row in zb_v(2, 4).actions]
    assert play(rows, place=v_shaped(2)).seconds == play(zb_v(2, 4)).seconds
    assert code_of(rows)[0] == "deadlock"  # looped, these orders do not fit
    assert code_of([[("F", 0), ("B", 0)]], place=v_shaped(2))[0] == "form"
    assert code_of([[("F", 0, 1), ("B", 0, 1)]], place=[[(0, 0)]])[0] == "chunk"
    assert code_of([[("F", 0), ("B", 0)]], microbatches=2)[0] == "forward-missing"
    assert code_of([[("F", 2), ("B", 2)]], microbatches=2)[0] == "microbatch"


@settings(max_examples=60)
@given(p=st.integers(2, 4), m=st.integers(2, 5), data=st.data())
def test_an_action_taken_out_of_any_order_is_missed(p, m, data):
    rows = rows_of(data.draw(st.sampled_from([gpipe, one_f_one_b, zb_h1, zb_h2]))(p, m))
    rank = data.draw(st.integers(0, p - 1))
    gone = data.draw(st.integers(0, len(rows[rank]) - 1))
    del rows[rank][gone]
    with pytest.raises(ScheduleError):
        validate(rows, microbatches=m)


def test_a_schedule_and_a_replay_read_as_text():
    assert repr(one_f_one_b(2, 2)).splitlines()[1:] == ["rank 0 | F0 F1 B0 B1", "rank 1 | F0 B0 F1 B1"]
    assert "F0'" in repr(interleaved(2, 2, 2)) and "&B" in repr(dual_pipe_v(2, 5))
    first, *ranks = repr(play(gpipe(2, 2))).splitlines()
    assert first == "GPipe: 9 s, 33.3% of it idle (50.0% on top of the time worked)"
    assert ranks[1] == "rank 1 | busy 6 s, first to last action 6 s, at most 2 activations held"
    assert as_schedule([[("F", 0), ("B", 0)]]).name == "schedule"


# Side by side, and drawn


def test_the_comparison_counts_all_schedules_on_the_same_model():
    rows = comparison(4, 8)
    assert len(rows) == 9 and [name for name, row in rows.items() if not row["synchronous"]] == ["PipeDream"]
    assert rows["interleaved"]["activations"] == 5.5 and rows["Chimera"]["weights"] == 2
    assert rows["ZB-V"]["bubble"] == pytest.approx(1 / 17)
    assert rows["ZB-V"]["span_bubble"] == pytest.approx(0, abs=1e-12)
    assert {name: row["activations"] for name, row in rows.items() if name.startswith("ZB")} == {
        "ZB-H1": 4, "ZB-H2": 7, "ZB-V": 4
    }  # fmt: skip
    assert comparison_text(rows).splitlines()[1].split() == ["GPipe", "27.3%", "27.3%", "1", "8", "3", "yes"]
    assert (rows["interleaved"]["cuts"], rows["ZB-V"]["cuts"], rows["Chimera"]["cuts"]) == (7, 6, 3)


def test_a_short_warm_up_holds_less_and_is_slower_where_messages_take_time():
    usual, short = (play(interleaved(4, 8, 2, short=short), 0.5, 0.5, 0.5, 0.1) for short in (False, True))
    assert (usual.peak_memory[0], short.peak_memory[0]) == (5.5, 4)
    assert short.seconds == pytest.approx(31.5) and usual.seconds == pytest.approx(29.9)


def test_the_comparison_takes_other_costs_and_messages_that_take_time():
    fast, slow = (comparison(4, 8, costs=(1.2, 1.2, 0.6), communication=seconds) for seconds in (0, 0.3))
    assert fast["interleaved"]["bubble"] < fast["ZB-H1"]["bubble"]
    assert fast["ZB-V"]["bubble"] < fast["ZB-H2"]["bubble"] and slow["ZB-H2"]["bubble"] < slow["ZB-V"]["bubble"]


def test_two_split_chunks_are_as_good_as_zb_v_while_f_i_and_w_are_equal_and_messages_free():
    chunks = split_backward(interleaved(4, 8, 2, short=True), range(4))
    row, prices = row_of(chunks), comparison(4, 8)
    assert row["bubble"] == pytest.approx(prices["ZB-V"]["bubble"]) and row["activations"] == 4
    real = (1.2, 1.2, 0.6), 0.04
    assert row_of(chunks, *real)["bubble"] > comparison(4, 8, costs=real[0], communication=0.04)["ZB-V"]["bubble"]


def test_a_split_saves_the_way_back_and_putting_weight_parts_off_saves_as_much_again():
    """What chapter 9's small table tells of 4 ranks and 8 micro-batches."""
    line = one_f_one_b(4, 8)
    assert play(line).seconds == 33
    assert play(split_backward(line, [0] * 4)).seconds == 30
    assert play(split_backward(line, range(4))).seconds == play(zb_h1(4, 8)).seconds == 27


def test_schedules_that_cannot_take_the_numbers_are_left_out():
    assert set(comparison(3, 5)) == {"GPipe", "1F1B", "ZB-H1", "ZB-H2", "ZB-V", "PipeDream"}


def test_a_replay_is_drawn_by_the_timeline_with_a_bar_for_each_action_and_idle_time_behind_each_row():
    import matplotlib

    matplotlib.use("Agg")
    from course_lib.plots import timeline

    for schedule in (one_f_one_b(3, 4), interleaved(2, 4, 3), dual_pipe_v(2, 5), chimera(2, 2)):
        played = play(schedule)
        ax = timeline(played, ranks=range(len(played)))
        bars = {found.get_label(): len(found.get_paths()) for found in ax.collections}
        assert bars.pop("idle") == len(played)
        assert sum(bars.values()) == len(played.events)
        matplotlib.pyplot.close(ax.figure)


@pytest.mark.parametrize("most", [[0] * 4, range(4), [4] * 4, [99] * 4])
def test_any_order_can_have_its_backwards_split_and_keeps_the_rules(most):
    whole = schedules.interleaved(4, 8, 2)
    split = schedules.split_backward(whole, most)
    schedules.validate(split)
    assert [Counter(a.kind for a in row) for row in split.actions] == [Counter(F=16, I=16, W=16)] * 4
    for row, waiting in zip(split.actions, most, strict=True):
        last = max(place for place, action in enumerate(row) if action.kind == "I")
        waits = itertools.accumulate({"I": 1, "W": -1}.get(action.kind, 0) for action in row[: last + 1])
        assert max(waits) <= waiting + 1


def test_split_backwards_that_wait_a_little_idle_less_than_whole_ones():
    whole = schedules.interleaved(16, 16, 8)
    shares = [schedules.play(one, 1, 1, 1).bubble_share for one in (whole, schedules.split_backward(whole, range(16)))]
    assert shares == pytest.approx([15 / 143, 0.0376], abs=1e-4)
