"""Chapter 8: every check accepts the solution and other right answers, and names what is wrong with wrong ones."""

from __future__ import annotations

from collections import Counter

import pytest
from wrong_answers.ch08_serving import RIGHT, WRONG, Wrong

from course_lib import serving
from course_lib.costs import ridge_point
from course_lib.hardware import GPUS
from course_lib.models import MODELS, parameter_count
from exercises_tests import ch08_serving as checks
from exercises_tests.chapters import find
from solutions import ch08_serving as solutions

FUNCTIONS = (
    "kv_cache_bytes", "generate_with_cache", "decode_lower_bound", "continuous_batches", "adaptive_batches",
)  # fmt: skip
EXERCISES = (*FUNCTIONS, "BlockManager", "SharingBlockManager")


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


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_stub_is_not_written_yet(exercise):
    def answer(*_):
        raise NotImplementedError

    answer.__name__ = answer.__qualname__ = exercise
    answer.__code__ = answer.__code__.replace(co_name=exercise, co_qualname=exercise)
    outcome = judged(exercise, answer)
    assert (outcome.code, outcome.sentence, outcome.earned) == ("not-written", "not written yet", 0)


def test_the_stubs_of_classes_are_not_written_yet():
    class BlockManager:
        def __init__(self, blocks, size):
            raise NotImplementedError

    class SharingBlockManager(serving.BlockManager):
        def fork(self, parent, child):
            raise NotImplementedError

    for stub in (BlockManager, SharingBlockManager):
        outcome = judged(stub.__name__, stub)
        assert (outcome.code, outcome.sentence, outcome.earned) == ("not-written", "not written yet", 0)


def test_a_class_without_a_method_is_told_which():
    class BlockManager:
        def __init__(self, blocks, size):
            pass

    outcome = judged("BlockManager", BlockManager)
    assert (outcome.code, outcome.earned) == ("raised", 0)
    assert "has no attribute 'allocate'" in outcome.sentence


def test_a_scheduler_that_returns_nothing_is_told_what_to_return():
    outcome = judged("continuous_batches", lambda waiting, running, slots, blocks, block_size: None)
    assert outcome.code == "form" and "return a list" in outcome.sentence


def test_a_scheduler_that_changes_requests_changes_nothing_that_is_judged():
    def cheating(waiting, running, slots, blocks, block_size):
        for request in waiting:
            request.limit = request.prompt = 1
        return solutions.continuous_batches(waiting, running, slots, blocks, block_size)

    assert judged("continuous_batches", cheating).code.startswith("above-")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_check_holds_for_other_seeds(exercise, monkeypatch):
    monkeypatch.setattr(checks, "SEED", 4711)
    outcome = judged(exercise, getattr(solutions, exercise))
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


# The numbers that the text states


def text_of_the_chapter() -> str:
    return "\n".join(cell.source for cell in find("ch08_serving").notebook.cells if cell.cell_type == "markdown")


def test_numbers_in_the_text_and_in_the_paper_problems_are_right():
    llama, h100, text = MODELS["Llama-3-8B"], GPUS["H100 SXM"], text_of_the_chapter()
    small, large = (solutions.kv_cache_bytes(MODELS[name], 1) for name in ("Llama-3-8B", "Llama-2-7B"))
    kept = solutions.kv_cache_bytes(llama, 8000)
    read = parameter_count(llama) - llama.vocabulary * llama.hidden
    scores = 4 * llama.layers * llama.hidden * 8000
    intensity = (2 * read + scores) / kept
    assert f"Llama-3-8B keeps {small:,} bytes a token" in text
    assert f"Llama-2-7B keeps {large:,} bytes a token, Llama-3-8B {small:,}" in text
    assert f"a factor of {large // small}." in text
    assert f"from about {ridge_point(h100):.0f} sequences on" in text
    assert f"weights (about {2 * read / 1e9:.0f} for Llama-3-8B)" in text
    assert f"reads {kept / 1e9:.2f} GB of keys and values" in text
    assert f"2 · {read / 1e9:.1f} billion FLOPs" in text
    assert f"= {scores / 1e9:.1f} billion: {intensity:.0f} FLOPs per byte" in text
    promised, used = (serving.blocks_for(1000 + tokens, 16) for tokens in (4096, 130))
    assert f"= {promised} promised" in text and f"= {used} used" in text
