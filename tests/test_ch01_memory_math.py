"""Chapter 1: verdicts do not hang on the numbers, junk is refused, and one mistake is told as one."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from wrong_answers.ch01_memory_math import RIGHT, WRONG

from course_lib import memory, models
from course_lib.models import MODELS
from exercises_tests import ch01_memory_math as checks
from exercises_tests.judging import CheckFailed
from solutions import ch01_memory_math as solutions

EXERCISES = (
    "parameter_count", "model_state_bytes", "training_days", "activation_bytes", "total_and_active", "is_memory_bound",
)  # fmt: skip


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


@pytest.mark.parametrize("seed", ["20250131", "7", "8", "9"])
@pytest.mark.parametrize("exercise", EXERCISES)
def test_another_seed_changes_no_verdict(exercise, seed, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", seed)
    for name, answer in [(exercise, getattr(solutions, exercise)), *RIGHT]:
        assert name != exercise or judged(exercise, answer).code == "", answer.__name__
    for wrong in WRONG:
        if wrong.exercise == exercise:
            outcome = judged(exercise, wrong.answer)
            assert (outcome.code, outcome.earned) == (wrong.code, wrong.earned), (wrong.answer.__name__, str(outcome))


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize("junk", [None, "many", float("nan"), float("inf"), [], {}, -1.0, 0])
def test_junk_is_refused_in_a_sentence(exercise, junk):
    outcome = judged(exercise, lambda *data: junk)
    assert outcome.code and outcome.earned == 0 and len(outcome.sentence) > 20


def test_learners_get_plain_data():
    """Only numbers, text and None go to an answer, so that they can cross to another process."""
    seen = []

    def look(*data):
        seen.extend(data)
        raise ValueError("looked")

    for exercise in EXERCISES:
        assert judged(exercise, look).code == "raised"
    kinds = {type(value) for thing in seen for value in (thing.values() if isinstance(thing, dict) else [thing])}
    assert kinds <= {int, float, str, bool, type(None)}


def test_answers_agree_with_the_library_on_every_dense_model_of_the_table():
    for shape in MODELS.values():
        if not shape.experts:
            assert solutions.parameter_count(asdict(shape)) == models.parameter_count(shape), shape.name
            layers = shape.layers * sum(memory.layer_activation_bytes(shape, 2, 100).values())
            assert solutions.activation_bytes(asdict(shape), 2, 100, "none") == layers, shape.name


def test_one_cause_that_explains_a_number_is_told_alone():
    """A learner who makes one mistake must not be sent after two."""
    alone = ("forgets_", "takes_", "gives_", "counts_", "in_", "router_", "experts_as", "scores_", "half_", "two_wide")
    for wrong in WRONG:
        if wrong.answer.__name__.startswith(alone):
            assert "; and " not in judged(wrong.exercise, wrong.answer).sentence, wrong.answer.__name__


def test_what_to_run_shows_more_than_the_answer_told_just_now():
    for wrong in WRONG:
        assert not judged(wrong.exercise, wrong.answer).see.startswith(wrong.exercise), wrong.answer.__name__


def test_a_wrong_answer_reads_as_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckFailed, match="1 of 5 points"):
        checks.check_parameter_count(next(w.answer for w in WRONG if w.answer.__name__ == "takes_kv_heads_as_heads"))
    assert capsys.readouterr().out == ""
