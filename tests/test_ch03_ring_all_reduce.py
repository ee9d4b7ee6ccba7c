"""Chapter 3: numbers that no check may fall for, lines to see a mistake, and what the chapter shows of the ring."""

from __future__ import annotations

import re

import pytest
import torch
from wrong_answers.ch03_ring_all_reduce import WRONG

from course_lib import Cluster, RankFailed, each, run
from course_lib.costs import nccl_seconds
from course_lib.hardware import DGX_H100
from course_lib.lessons import ring
from exercises_tests import ch03_ring_all_reduce as checks
from exercises_tests.judging import CheckFailed
from exercises_tests.tools.chapters import find, tagged
from solutions import ch03_ring_all_reduce as solutions


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def test_a_ring_that_calls_an_unwritten_phase_is_told_which():
    def all_gather_ring(dist, tensor):
        raise NotImplementedError

    def ring_all_reduce(dist, tensor):
        all_gather_ring(dist, tensor)

    outcome = judged("ring_all_reduce", ring_all_reduce)
    assert (outcome.code, outcome.sentence) == ("needs", "needs all_gather_ring: write it, or borrow it")


def test_a_nan_in_the_result_does_not_pass():
    def ring_with_nan(dist, tensor):
        solutions.ring_all_reduce(dist, tensor)
        tensor.fill_(float("nan"))

    assert judged("ring_all_reduce", ring_with_nan).code == "value"


def test_zeroing_the_input_does_not_change_what_is_expected():
    assert judged("ring_all_reduce", lambda dist, tensor: tensor.zero_()).code == "value"


def test_the_verdicts_do_not_depend_on_the_secret_numbers(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "2024")
    outcome = checks.check_ring_all_reduce.outcome(solutions.ring_all_reduce)
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)
    for wrong in WRONG:
        if wrong.code in ("other-chunk", "not-in-place", "rest-dropped", "mean"):
            outcome = judged(wrong.exercise, wrong.answer)
            assert (outcome.code, outcome.earned) == (wrong.code, wrong.earned), str(outcome)
            assert [words for words in wrong.words if words not in outcome.sentence] == [], str(outcome)


def test_a_failed_check_shows_the_sentence_the_parts_and_a_line_that_runs(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    odd_and_even = next(wrong.answer for wrong in WRONG if wrong.answer.__name__ == "odd_and_even")
    with pytest.raises(CheckFailed) as failed:
        checks.check_ring_all_reduce(odd_and_even)
    shown = str(failed.value)
    assert "4 of 5 points (value ✓ any P ✓ bytes ✓ steps ✗)" in shown
    assert "See it: timeline(run(ring_all_reduce, torch.ones(1024), ranks=4, on=Cluster()))" in shown


SHOWN = {  # what the line to see it prints or raises; a picture beside it is of the same answer
    "scatter_textbook": "rank 0 returned tensor",
    "scatter_overwrites": r"rank 0 returned tensor\(\[ 0., -5.",
    "scatter_rest_dropped": r"rank 0 returned tensor\(\[ +13., +1., -17.",
    "gather_adds": r"-296., -308.",
    "gather_starts_left": r"-100., -100.",
    "gather_torch_chunks": r"\[ +6., +-5., +-9., +4., +-8., -100., +1.\]",
    "gather_blocking": "They wait in a circle",
    "rest_dropped": "rank 2 returned",
    "averages": r"0.7500, +-4.0000",
    "not_in_place": r"rank 0 returned tensor",
    "forgets_to_wait": "without wait",
    "floats_only": r"sends int64\[2\], but rank . receives into float32\[2\]",
    "four_ranks_only": "there is no such rank",
    "whole_when_uneven": r"\[800, 800, 800\]",
    "least_traffic": "'A'",
}


def test_chunks_added_to_others_are_shown_in_numbers_because_a_picture_of_ranks_parts_looks_right():
    wrong = next(wrong for wrong in WRONG if wrong.code == "mixed-chunks")
    see = judged(wrong.exercise, wrong.answer).see
    assert see == "tensors_after(reduce_scatter_ring, ranks=4, shape=(8,))"
    assert all(ring.steps_of(wrong.answer)[-1][rank][rank] == [0, 1, 2, 3] for rank in range(4))


@pytest.mark.parametrize("name", SHOWN)
def test_a_line_to_see_it_shows_the_mistake(name, capsys):
    wrong = next(wrong for wrong in WRONG if wrong.answer.__name__ == name)
    see = judged(wrong.exercise, wrong.answer).see
    names = {wrong.exercise: wrong.answer}
    for cell in tagged(find("ch03").notebook, "imports"):  # what a learner's notebook knows
        exec(cell.source, names)
    first, _, picture = see.partition("; ")
    try:
        shown = repr(eval(first.removeprefix("print"), names))
    except RankFailed as failure:
        shown = str(failure)
    assert re.search(SHOWN[name], shown), f"{see}\n{shown}"
    assert not picture or eval(picture.rstrip(";"), names).texts


# What the chapter shows


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_the_solution_goes_through_the_same_steps_as_the_built_in_ring(ranks):
    assert ring.steps_of(solutions.ring_all_reduce, ranks) == ring.ring_steps(ranks)


def test_after_the_first_half_of_the_ring_rank_r_holds_all_of_chunk_r_and_at_the_end_everything():
    steps = ring.ring_steps(4)
    assert len(steps) == 7
    assert all(steps[3][rank][rank] == [0, 1, 2, 3] for rank in range(4))
    assert steps[6] == [[[0, 1, 2, 3]] * 4] * 4


def test_tensors_after_are_those_that_the_check_sees():
    after = ring.tensors_after(solutions.all_gather_ring, ranks=3, shape=(7,), dtype="int64", only_own=True)
    given = ring.only_own_chunk(checks.integers(3, (7,), "int64"))
    assert all(torch.equal(tensor, checks._all_chunks(given)[0]) for tensor in after)
    alone = ring.tensors_after(lambda dist, tensor: None, ranks=1, shape=(2, 2))
    assert torch.equal(alone[0], checks.integers(1, (2, 2))[0])


def test_what_was_added_twice_stands_there_twice():
    def twice(dist, tensor):
        tensor += tensor

    assert ring.steps_of(twice, 2)[-1] == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


def test_a_value_that_is_no_sum_of_parts_is_a_question_mark():
    assert ring.steps_of(lambda dist, tensor: tensor.fill_(-3), 2)[-1] == [["?", "?"], ["?", "?"]]


def test_an_all_gather_is_watched_from_complete_chunks():
    steps = ring.steps_of(solutions.all_gather_ring, 3, only_own=True)
    assert steps[0] == [[[0, 1, 2] if chunk == rank else [] for chunk in range(3)] for rank in range(3)]
    assert steps[-1] == [[[0, 1, 2]] * 3] * 3


def test_more_ranks_than_digits_are_refused():
    with pytest.raises(ValueError, match="ranks=10: the digits of a number tell 1 to 9 ranks apart"):
        ring.steps_of(solutions.ring_all_reduce, 10)


def test_three_meters_hold_one_ring_one_star_and_one_relay():
    meters = ring.three_meters(4, 96, "CAB")
    assert list(meters) == ["A", "B", "C"]
    assert meters["C"] == {"bytes": 384, "sent": [576] * 4, "messages": [6] * 4}
    assert meters["A"]["sent"] == [1152, 384, 384, 384]
    assert meters["B"]["messages"] == [3] * 4


def test_the_ring_agrees_with_the_built_in_one_on_virtual_time_and_bytes():
    cluster = Cluster(bandwidth=7e9, latency=3e-6)
    mine = run(solutions.ring_all_reduce, torch.zeros(1000), ranks=6, on=cluster)
    built_in = run(lambda dist, tensor: dist.all_reduce(tensor), torch.zeros(1000), ranks=6, on=cluster)
    assert mine.seconds == pytest.approx(built_in.seconds, rel=1e-9)
    assert mine.bytes_sent == built_in.bytes_sent


def test_the_course_s_ring_runs_to_the_right_and_adds_as_the_solution_does():
    assert ring.steps_of(ring.ring_to_the_right, 4) == ring.ring_steps(4)
    tensors = [torch.randn(103, generator=torch.Generator().manual_seed(rank)) for rank in range(4)]
    sums = [run(ring.in_place, answer, each(tensors), ranks=4, on=Cluster())[3]
            for answer in (ring.ring_to_the_right, solutions.ring_all_reduce)]  # fmt: skip
    assert torch.equal(*sums)


def test_latencies_on_1024_gpus_are_what_the_text_says():
    """Of 128 DGX H100, whose CPUs are Intel's; with AMD's the model counts more, and the text says up to what."""

    def seconds(size, protocol):
        return nccl_seconds(DGX_H100, 128, 8, size)["Ring", protocol]

    large = 2 * seconds(2**31, "Simple") - seconds(2**32, "Simple")  # at zero bytes, on the line of large tensors
    assert (round(1e3 * large, 1), round(1e3 * seconds(0, "LL"), 1)) == (13.5, 2.5)
    text = " ".join(cell.source for cell in find("ch03").notebook.cells if cell.cell_type == "markdown")
    assert "13 to 20 ms of latency for large chunks and with 2.5 to 4.3 ms for tiny ones" in text


@pytest.mark.parametrize("ranks, border, said", [(1024, 28.1e6, "On 1,024 ranks the ring is faster from 28 MB on"),
                                                 (16, 0.898e6, "and on 16 from 0.9 MB on")])
def test_the_ring_is_faster_than_the_tree_from_the_size_that_the_text_says(ranks, border, said):
    def tree_over_ring(size):
        rounds, hops = 2 * (ranks - 1).bit_length(), 2 * (ranks - 1)
        return rounds * (5e-6 + size / 50e9) / (hops * (5e-6 + size / ranks / 50e9))

    assert tree_over_ring(0.99 * border) < 1 < tree_over_ring(1.01 * border)
    assert any(said in " ".join(cell.source.split()) for cell in find("ch03").notebook.cells)
