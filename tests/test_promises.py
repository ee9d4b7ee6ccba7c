"""Every promise of an exercise's text has a case that tests it: tests/promises/chNN.toml lists both.

Each promise has its words, `text` that stands in the exercise's text word for word, and the id of a `case` of
test_answers.py (or several): a wrong answer that breaks the promise, or a right one that makes use of it.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from exercises_tests.tools.chapters import chapters

FOLDER = Path(__file__).parent / "promises"
CHAPTERS = {chapter.name[:4]: chapter for chapter in chapters()}


def promised(number):
    """Return the promises of a chapter as {exercise: [{"promise": ..., "text": ..., "case": ...}]}."""
    return tomllib.loads((FOLDER / f"{number}.toml").read_text(encoding="utf-8"))


def text_of(chapter, exercise):
    """Return what a notebook says of an exercise: from its heading to the end of the cell, or to the next heading."""
    heading = re.compile(rf"^### Exercise: `{exercise}`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
    found = (heading.search(cell.source) for cell in chapter.notebook.cells if cell.cell_type == "markdown")
    return next(match[1] for match in found if match)


def cases(number):
    """Return the ids of the wrong and the right answers of a chapter, as test_answers.py gives them."""
    answers = import_module(f"wrong_answers.{CHAPTERS[number].name}")
    found = [(wrong.exercise, wrong.answer) for wrong in answers.WRONG] + list(answers.RIGHT)
    return {"-".join(dict.fromkeys([number, exercise, answer.__name__])) for exercise, answer in found}


def cases_of(promise):
    return [promise["case"]] if isinstance(promise["case"], str) else promise["case"]


@pytest.mark.parametrize("number", CHAPTERS)
def test_every_exercise_has_its_promises_listed(number):
    assert sorted(promised(number)) == sorted(exercise.id for exercise in CHAPTERS[number].exercises)
    for exercise, promises in promised(number).items():
        assert promises, f"{exercise} promises nothing"
        for promise in promises:
            assert promise.keys() == {"promise", "text", "case"}, f"{exercise}: {promise}"


@pytest.mark.parametrize("number", CHAPTERS)
def test_what_is_promised_stands_in_the_text_of_the_exercise(number):
    for exercise, promises in promised(number).items():
        text = text_of(CHAPTERS[number], exercise)
        missing = [promise["text"] for promise in promises if promise["text"] not in text]
        assert not missing, f"{exercise} no longer says this: mend the list, and ask whether its case is still right"


@pytest.mark.parametrize("number", CHAPTERS)
def test_every_promise_has_a_case(number):
    known = cases(number)
    for exercise, promises in promised(number).items():
        named = [case for promise in promises for case in cases_of(promise)]
        assert all(case.startswith(f"{number}-{exercise}-") for case in named), f"{exercise}: {named}"
        assert not set(named) - known, f"{exercise}: no answer in tests/wrong_answers has these ids"
