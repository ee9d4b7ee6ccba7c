"""Chapter 9: every check accepts the solution and other right answers, and names what is wrong with wrong ones."""

from __future__ import annotations

from collections import Counter

import pytest
from wrong_answers.ch09_more_schedules import RIGHT, WRONG, Wrong

from exercises_tests import ch09_more_schedules as checks
from solutions import ch09_more_schedules as solutions

EXERCISES = ("interleaved", "zero_bubble", "chimera", "read_the_table")


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


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.answer.__name__)
def test_a_wrong_answer_is_told_which_mistake_it_is(wrong: Wrong):
    outcome = judged(wrong.exercise, wrong.answer)
    assert (outcome.code, outcome.earned) == (wrong.code, wrong.earned), str(outcome)
    for words in wrong.words:
        assert words in outcome.sentence


def test_each_check_has_three_wrong_answers_and_a_right_one_written_differently():
    assert all(Counter(wrong.exercise for wrong in WRONG)[exercise] >= 3 for exercise in EXERCISES)
    assert {exercise for exercise, _ in RIGHT} == set(EXERCISES)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_stub_is_not_written_yet(exercise):
    def answer(*_):
        raise NotImplementedError

    answer.__name__ = answer.__qualname__ = exercise
    answer.__code__ = answer.__code__.replace(co_name=exercise, co_qualname=exercise)
    outcome = judged(exercise, answer)
    assert (outcome.code, outcome.sentence, outcome.earned) == ("not-written", "not written yet", 0)


def test_what_a_learner_is_told_to_run_for_chimera_runs():
    from course_lib.schedules import ScheduleError, both_ways, validate

    def chimera(stages, microbatches):
        return [row[:-2] for row in solutions.chimera(stages, microbatches)]

    see = judged("chimera", chimera).see
    with pytest.raises(ScheduleError, match="sum them"):
        eval(see, {"validate": validate, "both_ways": both_ways, "chimera": chimera})
