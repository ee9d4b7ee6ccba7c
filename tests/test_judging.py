"""The vocabulary of checks: a case runs or refuses, tells which mistake a value is, and bounds what was sent."""

from __future__ import annotations

import math

import pytest
import torch

from course_lib import each
from exercises_tests.judging import Case, Hint, Mistake, check
from exercises_tests.values import integers, near, numbers, ring_bytes, same, versus

CASE = Case(4, "with shape (2,)", see="show()")
CIRCLE = Hint("wait in a circle", "Start the send with isend, receive, then wait.")


def refused(act, *args, **more):
    """Return the Outcome of a check that does only this."""

    @check(value=1)
    def check_it(answer, part):
        part("value")
        act(*args, **more)
        return "right"

    return check_it.outcome(print)


def in_place(dist, answer, mine):
    answer(dist, mine)
    return mine


@check(value=2, bytes=1)
def check_sum(answer, part):
    """The example of CONTRIBUTING.md."""
    part("value")
    case = Case(4, "with 8 elements")
    tensors = integers(4, (8,))
    want = sum(tensors)
    trace = case.run(in_place, answer, each(tensors), hints=[CIRCLE])
    for rank, got in enumerate(trace):
        case.same(got, want, f"the tensor on rank {rank}",
            Mistake("mean", want / 4, "holds the mean, not the sum: do not divide by 4"),
            Mistake("not-in-place", tensors[rank], "is as it was: write into it (copy_, +=)"))
    part("bytes")
    most, bound = max(trace.bytes_sent), ring_bytes(4, 8)
    case.at_most(most, bound, "a rank sent {seen} bytes; a ring sends {bound}", "too-many-bytes")
    return "sums"


def through_rank_0(dist, tensor):
    dist.reduce(tensor, 0)
    for other in range(1, 4):
        if dist.get_rank() in (0, other):
            dist.send(tensor, other) if dist.get_rank() == 0 else dist.recv(tensor, 0)


SUMS = {
    "": (lambda dist, tensor: dist.all_reduce(tensor), 3, "sums"),
    "mean": (lambda dist, tensor: (dist.all_reduce(tensor), tensor.div_(4)), 0, "on 4 ranks with 8 elements the tensor "
             "on rank 0 holds the mean, not the sum: do not divide by 4"),
    "not-in-place": (lambda dist, tensor: tensor + 0, 0, "the tensor on rank 0 is as it was: write into it"),
    "value": (lambda dist, tensor: tensor.fill_(math.nan), 0, "the tensor on rank 0 is [nan, nan, nan, nan, nan, nan, "
              "nan, nan]; it should be ["),
    "deadlock": (lambda dist, tensor: dist.send(tensor, (dist.get_rank() + 1) % 4), 0, "on 4 ranks with 8 elements a "
                 "deadlock. Start the send with isend, receive, then wait.\nNo rank can go on"),
    "raised": (lambda dist, tensor: [][dist.get_rank()], 0, "on 4 ranks with 8 elements rank 0 raised IndexError"),
    "too-many-bytes": (through_rank_0, 2, "a rank sent 96 bytes; a ring sends 48"),
}


@pytest.mark.parametrize("code", SUMS)
def test_an_answer_is_told_by_its_run_its_value_or_its_bytes(code):
    answer, earned, words = SUMS[code]
    outcome = check_sum.outcome(answer)
    assert (outcome.code, outcome.earned) == (code, earned), str(outcome)
    assert words in outcome.sentence
    assert (CIRCLE.says in outcome.sentence) == (code == "deadlock")


def test_a_stub_inside_a_run_is_told_as_such():
    def needed(dist):
        raise NotImplementedError

    assert check_sum.outcome(lambda dist, tensor: needed(dist)).sentence == "needs needed: write it, or borrow it"


def test_a_hint_with_a_code_is_said_first():
    hint = Hint("index out of range", "the list is empty", "empty")
    outcome = refused(Case(2, "with a list,").run, lambda dist: [][0], hints=[CIRCLE, hint])
    assert outcome.code == "empty"
    assert outcome.sentence.startswith("on 2 ranks with a list: the list is empty. Rank 0 raised IndexError")
    whole = refused(Case(2, "with a list,").run, lambda dist: [][0], hints=[hint._replace(says="The list is empty.")])
    assert "The list is empty. Rank 0 raised" in whole.sentence, "a hint that is a sentence gets no second full stop"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(4), "on 4 ranks"),
        (Case(1, real=True), "on 1 real rank"),
        (Case(2, "with shape (7,)").also("after 3 steps"), "on 2 ranks with shape (7,) after 3 steps"),
        (Case(label="with 3 layers"), "with 3 layers"),
        (Case(2, words="the manifest is missing:"), "the manifest is missing:"),
    ],
)
def test_the_words_of_a_case(case, words):
    assert str(case) == words
    assert refused(case.refuse, "it failed", "code").sentence == f"{words} it failed"


def test_what_is_the_same_is_not_refused():
    assert refused(CASE.same, torch.ones(2), torch.ones(2), "it", Mistake("any", True, "is wrong")).code == ""


def test_the_first_mistake_that_fits_is_told_with_its_line_or_the_cases():
    mistakes = [Mistake("other", False, "no"), Mistake("double", 2 * torch.ones(2), "is doubled", "look()"),
                Mistake("seen", True, "is seen")]
    outcome = refused(CASE.same, torch.full((2,), 2.0), torch.ones(2), "it", *mistakes)
    assert (outcome.code, outcome.see) == ("double", "look()")
    assert outcome.sentence == "on 4 ranks with shape (2,) it is doubled"
    outcome = refused(CASE.same, torch.full((2,), 3.0), torch.ones(2), "it", *mistakes)
    assert (outcome.code, outcome.see) == ("seen", "show()")


def test_a_mistake_that_would_be_right_is_none():
    mistake = Mistake("mean", torch.ones(2) / 1, "is the mean")
    assert refused(CASE.same, torch.ones(2) + 1e-6, torch.ones(2), "it", mistake, tolerance=1e-9).code == "value"


@pytest.mark.parametrize("got", [None, torch.full((2,), math.nan), torch.ones(1, 2), [1.0, 1.0], "ones", math.nan])
@pytest.mark.parametrize("tolerance", [0.0, 1e-9])
def test_what_is_not_the_same_is_refused_whatever_it_is(got, tolerance):
    outcome = refused(CASE.same, got, torch.ones(2), "it", Mistake("nan", got, "is itself"), tolerance=tolerance)
    assert outcome.code in ("value", "nan") and outcome.sentence.startswith("on 4 ranks with shape (2,) it ")


@pytest.mark.parametrize("seen", [math.nan, 49, 48.1, None, True, "3"])
def test_more_than_the_bound_and_what_is_no_number_is_refused(seen):
    assert refused(CASE.at_most, seen, 48, "{seen}; {bound} {other}", "much").sentence.endswith("; 48 {other}")


def test_a_bound_may_have_slack():
    assert refused(CASE.at_most, 49, 48, "", "much", slack=1.05).code == ""


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (None, torch.ones(2), "is None; it should be [1, 1]"),
        (torch.ones(2), torch.ones(2).bool(), "is float32; it should be bool"),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2), "is a Parameter; it should be a Tensor"),
        (torch.ones(2, 1), torch.ones(2), "has shape [2, 1]; it should be [2]"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001]), "is [1, 2]; it should be [1, 2.00001]"),
        (torch.arange(12), torch.arange(12) + (torch.arange(12) == 9),
         "is [..., 9, 10, 11] from element 9 on; it should be [..., 10, 10, 11]"),
        (6144, 3072, "is 6,144; it should be 3,072"),
        (1.00001, 1.0, "is 1.00001; it should be 1.0"),
        ([torch.ones(1)], [torch.zeros(1)], "is [[1]]; it should be [[0]]"),
    ],
)
def test_what_differs_is_said(got, want, words):
    assert versus(got, "it should be", want) == words


def test_numbers_of_a_large_tensor_are_cut():
    assert numbers(torch.arange(20.0)) == "[0, 1, 2, 3, 4, 5, 6, 7, ...]"


def test_arrays_are_compared_as_tensors_are():
    ones = torch.ones(3).numpy()
    assert near(ones[::-1], ones, 0.0) and same(ones, ones + 1e-12, 1e-9)
    assert not near(ones * math.nan, ones, 1.0) and not near(ones, torch.ones(2), 1.0)
