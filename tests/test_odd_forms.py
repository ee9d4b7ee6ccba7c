"""What an answer returns may be anything: a check says in one sentence what is wrong with it, and never raises."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest
import torch

from course_lib import one_process
from exercises_tests.tools.chapters import chapters

ODD = [
    None, True, -1, 10**400, math.nan, math.inf, 1j, "", "text", b"\0", [], (), {}, [[0, 1]], [None, None], (1, 2, 3),
    ("a", "b"), {"weights": None}, {1: 2}, [[]], [{}], np.zeros(0), np.array([1.0, math.nan]), np.array("x"),
    torch.zeros(()), torch.zeros(0), torch.zeros(2, 3, dtype=torch.bool), [torch.zeros(1)] * 3, (torch.zeros(2), None),
    torch.tensor(math.nan), torch.zeros(2, dtype=torch.complex64), range(3), print, object,
]  # fmt: skip
CLASSES = ("clinic", "CopyToRanks", "ReduceFromRanks", "BlockManager", "SharingBlockManager")
FUNCTIONS = [
    pytest.param(chapter.name, exercise.id, id=f"{chapter.name[:4]}-{exercise.id}")
    for chapter in chapters()
    for exercise in chapter.exercises
    if exercise.id not in CLASSES
]


@pytest.mark.parametrize(("chapter", "exercise"), FUNCTIONS)
def test_whatever_an_answer_returns_is_refused_in_a_sentence(chapter, exercise):
    check = getattr(import_module(f"exercises_tests.{chapter}"), f"check_{exercise}")
    with one_process():
        for value in ODD + [10**5000] * (exercise != "plan_buckets"):  # which shows whatever it was given
            outcome = check.outcome(lambda *_, value=value: value)
            assert outcome.code, f"{value!r} got all points"
            assert outcome.sentence and "exercises_tests" not in outcome.sentence, f"{value!r}: {outcome.sentence}"


@pytest.mark.parametrize(("chapter", "exercise"), FUNCTIONS)
def test_an_answer_with_other_parameters_is_told_so(chapter, exercise):
    check = getattr(import_module(f"exercises_tests.{chapter}"), f"check_{exercise}")

    def answer(one, two, three, four, five, six, seven, eight, nine):
        return None

    with one_process():
        for other in (answer, lambda: None)[: 1 if exercise == "activation_that_hides_it" else 2]:  # it takes none
            outcome = check.outcome(other)
            assert outcome.code == "parameters", str(outcome)
            assert "the parameters of the stub" in outcome.sentence
