"""make catch-up: what a learner has not written is borrowed, what they have is kept."""

from __future__ import annotations

import ast

import pytest
from small_course import ANSWER, NAME, edit, make_course, sources

from exercises_tests.__main__ import main
from exercises_tests.grading.cells import borrows


@pytest.fixture
def working(tmp_path):
    course = make_course(tmp_path)
    assert main(["lab", "--copy-only"], course) == 0
    return course, course / "work" / f"{NAME}.ipynb"


def test_a_stub_is_borrowed_and_kept_as_a_comment(working, capsys):
    course, copy = working
    before = copy.read_text()
    assert main(["catch-up", "ch98"], course) == 0
    cell = sources(copy)["total"]
    assert borrows("total", cell) and len(ast.parse(cell).body) == 1
    assert "# def total(dist, value):\n" in cell and "#     raise NotImplementedError" in cell
    said = capsys.readouterr().out
    assert "borrowed total" in said and "reload it from disk" in said
    (backup,) = (course / "work" / "backups").iterdir()
    assert backup.read_text() == before


def test_an_answer_and_an_extra_exercise_are_left_alone(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    before = copy.read_text()
    assert main(["catch-up", "ch98"], course) == 0
    assert copy.read_text() == before
    assert "no core exercise is left to borrow" in capsys.readouterr().out


def test_twice_is_as_good_as_once(working):
    course, copy = working
    main(["catch-up", "ch98"], course)
    once = copy.read_text()
    assert main(["catch-up", "ch98"], course) == 0
    assert copy.read_text() == once


def test_after_catching_up_the_demo_can_be_written_as_a_script(working):
    course, _ = working
    main(["catch-up", "ch98"], course)
    assert main(["script", "ch98"], course) == 0


def test_without_solutions_the_instructor_is_named(working, capsys):
    course, copy = working
    (course / "solutions" / f"{NAME}.py").unlink()
    before = copy.read_text()
    assert main(["catch-up", "ch98"], course) == 2
    assert copy.read_text() == before
    assert "to borrow from: ask your instructor" in capsys.readouterr().err
