"""Every check gives right answers written differently all points, and says what is wrong with wrong ones.

That the solutions get all points is seen in test_notebooks.py, where each chapter runs with them, and in test_judge.py.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import Counter
from functools import cache
from importlib import import_module

import pytest
from wrong_answers import Wrong

from course_lib import one_process
from exercises_tests.tools.chapters import chapters

CHAPTERS = chapters()


SPIN_SECONDS = 2  # in the place of 10: trying every cut would take hours


@pytest.fixture(autouse=True)
def spin_less(monkeypatch):
    monkeypatch.setattr("exercises_tests.ch06_pipeline_parallel.SPLIT_SECONDS", SPIN_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def sharing():
    """Let the simulations of all checks share a process, as those of one check do anyway."""
    with one_process():
        yield


def of(chapter, folder):
    """Return a chapter's module in a folder."""
    return import_module(f"{folder}.{chapter.name}")


def solved(chapter):
    return [(exercise.id, getattr(of(chapter, "solutions"), exercise.id)) for exercise in chapter.exercises]


def functions(chapter):
    return [(exercise, answer) for exercise, answer in solved(chapter) if not isinstance(answer, type)]


def right_ones(chapter):
    return of(chapter, "wrong_answers").RIGHT


def wrong_ones(chapter):
    return [(wrong.exercise, wrong) for wrong in of(chapter, "wrong_answers").WRONG]


def each(name, cases):
    """Parametrize a test by `check` and the case for it called `name`; ids begin with chNN, as conftest.py expects."""
    found = []
    for chapter in CHAPTERS:
        for exercise, thing in cases(chapter):
            answer = thing.answer if isinstance(thing, Wrong) else thing
            names = dict.fromkeys([chapter.name[:4], exercise, answer.__name__])  # a solution has the exercise's name
            check = getattr(of(chapter, "exercises_tests"), f"check_{exercise}")
            found.append(pytest.param(check, thing, id="-".join(names)))
    return pytest.mark.parametrize(("check", name), found)


def bound(tree):
    """Return the names that some code binds anywhere in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@cache
def names_of_the_notebook(chapter):
    """Return the names that a learner has who ran the chapter from its top."""
    (found,) = [one for one in CHAPTERS if one.name == chapter]
    cells = [cell.source for cell in found.notebook.cells if cell.cell_type == "code"]
    return set().union(*(bound(ast.parse("\n".join(line for line in cell.splitlines() if line[:1] not in "%!")))
                         for cell in cells))  # fmt: skip


def unknown_names(see, chapter):
    """Return the names of a line that would raise a NameError in the chapter's notebook."""
    tree = ast.parse(see)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used - bound(tree) - names_of_the_notebook(chapter) - set(dir(builtins))


@each("answer", right_ones)
def test_a_right_answer_written_differently_earns_all_points(check, answer):
    outcome = check.outcome(answer)
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


@each("wrong", wrong_ones)
def test_a_wrong_answer_is_told_which_mistake_it_is(check, wrong):
    assert isinstance(wrong.words, tuple), "words in one string would be looked for letter by letter"
    outcome = check.outcome(wrong.answer)
    assert outcome.code == wrong.code, str(outcome)
    assert [words for words in wrong.words if words not in outcome.sentence] == [], str(outcome)
    assert outcome.earned < outcome.total, str(outcome)
    assert wrong.earned in (None, outcome.earned), str(outcome)
    assert not unknown_names(outcome.see, check.__module__.rpartition(".")[2]), outcome.see


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_each_check_has_three_wrong_answers_and_a_right_one_written_differently(chapter):
    names = vars(of(chapter, "exercises_tests"))
    checks = {name.removeprefix("check_") for name in names if name.startswith("check_")}
    wrongs = Counter(exercise for exercise, _ in wrong_ones(chapter))
    assert checks >= {exercise.id for exercise in chapter.exercises}
    assert {exercise for exercise, count in wrongs.items() if count >= 3} == checks
    assert {exercise for exercise, _ in right_ones(chapter)} == checks


@each("answer", functions)
def test_a_stub_is_not_written_yet(check, answer):
    def stub(*_, **__):
        raise NotImplementedError

    stub.__name__ = stub.__qualname__ = check.exercise
    stub.__code__ = stub.__code__.replace(co_name=check.exercise, co_qualname=check.exercise)
    outcome = check.outcome(stub)
    assert (outcome.sentence, outcome.code, outcome.earned) == ("not written yet", "not-written", 0)


class Elsewhere:
    """An answer that runs in another process, as in the grader: it counts how often it is asked there."""

    def __init__(self, answer):
        self.answer, self.asked, self.__name__ = answer, 0, answer.__name__

    def __call__(self, *_):
        raise AssertionError("called by itself: a process for one call")

    def __alone__(self, drive, *data):
        self.asked += 1
        return drive(self.answer, *data)


def plain_ones(chapter):
    """Return the answers that no rank runs, from chapter 10 on."""
    return [(exercise, answer) for exercise, answer in functions(chapter)
            if chapter.name >= "ch10" and next(iter(inspect.signature(answer).parameters)) != "dist"]  # fmt: skip


@each("answer", plain_ones)
def test_all_cases_of_a_plain_answer_are_asked_in_one_process(check, answer):
    """A process for each call takes a second where submissions are graded."""
    answer = Elsewhere(answer)
    assert check.outcome(answer).code == "" and answer.asked == 1
