"""Chapter 5: every check accepts the solution and other right answers, and names what is wrong with wrong ones."""

from __future__ import annotations

import pytest
import torch
from wrong_answers.ch05_tensor_parallel import RIGHT, WRONG, Wrong

from exercises_tests import ch05_tensor_parallel as checks
from solutions import ch05_tensor_parallel as solutions

EXERCISES = tuple(name.removeprefix("check_") for name in vars(checks) if name.startswith("check_"))


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_earns_all_points(exercise):
    outcome = judged(exercise, getattr(solutions, exercise))
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


@pytest.mark.parametrize(("exercise", "answer"), RIGHT, ids=lambda thing: getattr(thing, "__name__", thing))
def test_a_right_answer_written_differently_earns_all_points(exercise, answer):
    outcome = judged(exercise, answer)
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.exercise}-{wrong.answer.__name__}")
def test_a_wrong_answer_is_told_which_mistake_it_is(wrong: Wrong):
    outcome = judged(wrong.exercise, wrong.answer)
    assert outcome.code == wrong.code, str(outcome)
    assert [word for word in wrong.words if word not in outcome.sentence] == [], str(outcome)
    assert outcome.earned < outcome.total


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_check_knows_three_wrong_answers_and_another_right_one(exercise):
    assert sum(wrong.exercise == exercise for wrong in WRONG) >= 3
    assert any(name == exercise for name, _ in RIGHT)


FUNCTIONS = [name for name in EXERCISES if name[0].islower()]


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_stub_is_not_written_yet(exercise):
    def stub(*data):
        raise NotImplementedError

    stub.__code__ = stub.__code__.replace(co_name=exercise, co_qualname=exercise)
    outcome = judged(exercise, stub)
    assert (outcome.sentence, outcome.code, outcome.earned) == ("not written yet", "not-written", 0)


@pytest.mark.parametrize("exercise", ["CopyToRanks", "ReduceFromRanks"])
def test_a_stub_of_a_class_is_not_written_yet(exercise):
    class Stub(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            raise NotImplementedError

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

    outcome = judged(exercise, Stub)
    assert (outcome.sentence, outcome.code, outcome.earned) == ("not written yet", "not-written", 0)
