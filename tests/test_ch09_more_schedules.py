"""Chapter 9: what a learner is told to run shows the mistake, and its numbers are those of the replay."""

from __future__ import annotations

import pytest

from course_lib import schedules
from course_lib.schedules import comparison, play
from exercises_tests import ch09_more_schedules as checks
from solutions import ch09_more_schedules as solutions


def test_what_a_learner_is_told_to_run_for_chimera_runs():
    from course_lib.schedules import ScheduleError, both_ways, validate

    def chimera(stages, microbatches):
        return [row[:-2] for row in solutions.chimera(stages, microbatches)]

    see = checks.check_chimera.outcome(chimera).see
    with pytest.raises(ScheduleError, match="sum them"):
        eval(see, {"validate": validate, "both_ways": both_ways, "chimera": chimera})


def test_a_short_warm_up_is_named_because_the_text_is_about_the_long_one():
    from wrong_answers.ch09_more_schedules import with_a_shorter_warm_up

    assert "short warm-up" in str(checks.check_interleaved.outcome(with_a_shorter_warm_up))
    assert "short warm-up" not in str(checks.check_interleaved.outcome(solutions.interleaved))


def text_of_the_chapter() -> str:
    from exercises_tests.tools.chapters import chapters

    (chapter,) = (one for one in chapters() if one.name.startswith("ch09"))
    return "\n".join(cell.source for cell in chapter.notebook.cells if cell.cell_type == "markdown")


def test_with_a_short_w_zb_h2_wins_and_zb_v_is_ahead_of_zb_h1():
    told = text_of_the_chapter()
    h1, h2 = (play(make(4, 8), 1, 1, 0.5).bubble_share for make in (schedules.zb_h1, schedules.zb_h2))
    assert f"which is {100 * h1:.1f} % of the step" in told and f"which is {100 * h2:.1f} %." in told
    llama = play(schedules.zb_v(16, 16), 0.5, 0.5, 0.25), play(schedules.zb_h1(16, 16), 1, 1, 0.5)
    assert llama[0].bubble_share < llama[1].bubble_share and "With W = F/2 ZB-V is ahead of ZB-H1" in told
    even = play(schedules.zb_v(16, 16), 0.5, 0.5, 0.5), play(schedules.zb_h1(16, 16))
    assert even[0].bubble_share == pytest.approx(even[1].bubble_share)


@pytest.mark.parametrize(("forward", "backward", "weight"), [(1, 1, 1), (1, 0.5, 0.5), (1, 0.5, 0.9), (0.5, 1, 0.75)])
def test_the_formula_of_zb_h1_holds_for_w_no_longer_than_f_and_i(forward, backward, weight):
    seconds = play(schedules.zb_h1(4, 8), forward, backward, weight).seconds
    formula = 8 * (forward + backward + weight) + 3 * (forward + backward - weight)
    assert (seconds == pytest.approx(formula)) == (weight <= min(forward, backward))
    assert "as long as a W takes no longer than an F and no longer than an I" in text_of_the_chapter()


def test_micro_batch_7_comes_back_as_the_text_follows_it():
    """When rank 3 sends it back, when it is done with its Is, and when the step ends."""
    order, told = schedules.zb_h1(4, 8), text_of_the_chapter()
    slow, fast = play(schedules.one_f_one_b(4, 8)), play(order)

    def ends(done, rank, kind):
        return next(e.end for e in done.events if (e.rank, e.action.kind, e.action.microbatch) == (rank, kind, 7))

    assert (ends(slow, 3, "B"), slow.seconds) == (27, 33) and "back | after 27 s | after 23 s |" in told
    assert (ends(fast, 3, "I"), ends(fast, 0, "I"), fast.seconds) == (23, 26, 27)
    assert "So ZB-H1 saves 4 + 3 − 1 = 6 s" in told and slow.seconds - fast.seconds == 6
    assert "2, 1 and 0 | after 33 s | after 26 s |" in told and "ends | after 33 s | after 27 s |" in told


def seconds_of(done) -> list[list[str]]:
    """What each rank does in each second of a replay, as the text's tables show it."""
    rows = [["·"] * int(done.seconds) for _ in range(2)]
    for event in done.events:
        for second in range(int(event.start), int(event.end)):
            rows[event.rank][second] = f"{event.action.kind}{event.action.microbatch}"
    return rows


@pytest.mark.parametrize("make", [schedules.one_f_one_b, schedules.zb_h1, schedules.zb_h2])
def test_the_small_case_is_shown_second_by_second_as_it_is_replayed(make):
    rows = [f"rank {rank} {' '.join(row)}" for rank, row in enumerate(seconds_of(play(make(2, 3))))]
    assert " ".join(rows) in " ".join(text_of_the_chapter().split())


def test_two_steps_of_zb_h2_join_without_a_wait():
    rank_0, rank_1 = seconds_of(play(schedules.zb_h2(2, 3)))
    assert rank_0.index("·") == 9 and rank_1.count("·") == 1 and len(rank_1) == 10
    told = text_of_the_chapter()
    assert "begin the next step in second 10" in told and "each further step takes only 9 s" in told


def test_rank_0_of_zb_h1_pauses_for_3_s_and_zb_h2_holds_one_less_than_2p():
    done = play(schedules.zb_h1(4, 8))
    clock, paused = 0.0, []
    for event in sorted((event for event in done.events if event.rank == 0), key=lambda event: event.start):
        if event.start > clock:
            paused.append((event.start - clock, event.action.kind, event.action.microbatch))
        clock = event.end
    assert paused == [(3, "I", 0)] and "for seven micro-batches instead of four" in text_of_the_chapter()
    most = max(play(schedules.zb_h2(4, 8)).peak_memory)
    assert most == 2 * 4 - 1 and "holds 7 micro-batches, on p ranks 2p − 1" in text_of_the_chapter()


def test_zb_h2_and_zb_v_are_equal_at_messages_of_0_15_f():
    equal, dearer = (comparison(4, 8, communication=seconds) for seconds in (0.15, 0.16))
    assert equal["ZB-V"]["bubble"] == pytest.approx(equal["ZB-H2"]["bubble"])
    assert dearer["ZB-V"]["bubble"] > dearer["ZB-H2"]["bubble"] and "more than 0.15 of F" in text_of_the_chapter()


def test_the_last_table_tells_its_threshold_and_what_is_held():
    p, v = 16, 8
    assert play(schedules.one_f_one_b(p, 8 * p)).bubble_share < 1 / 9
    chunks = schedules.interleaved(p, 2 * p, v)
    split = schedules.split_backward(chunks, range(p))
    for order in (chunks, split):
        assert max(play(order, 1 / v, 1 / v, 1 / v).peak_memory) == pytest.approx(p + (p - 1) / v)
    for make, most in ((schedules.zb_v, p), (schedules.dual_pipe_v, p + 0.5)):
        assert max(play(make(p, 2 * p), 0.5, 0.5, 0.5).peak_memory) == pytest.approx(most)
    rows = [line for line in text_of_the_chapter().splitlines() if line.startswith("|")]
    told = {"1F1B": "p", "split chunks": "p + (p − 1)/v", "ZB-V": "p", "paired F and B": "p + 1/2"}
    for choice, most in told.items():
        assert any(f"| {choice} | {most} |" in line for line in rows), choice
