"""A chapter: how it is found and read, its exercises, and the answers that go into it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from nbformat.v4 import new_markdown_cell
from small_course import ANSWER, NAME, cells, code, make_course, save

from exercises_tests.__main__ import main
from exercises_tests.tools.chapters import ROOT, ChapterError, answers_of, find, overlay, read, solved


@pytest.fixture
def course(tmp_path):
    return make_course(tmp_path)


def test_a_chapter_is_known_by_its_metadata_not_by_its_file_name(tmp_path):
    chapter = read(save(tmp_path / "renamed by me.ipynb", cells()))
    assert (chapter.name, chapter.title, chapter.version) == (NAME, "Sums", 1)


def test_exercises_come_in_order_with_points_minutes_and_level(course):
    total, counter = find(NAME, course).exercises
    assert (total.id, total.points, total.minutes, total.level) == ("total", 5, 20, "core")
    assert (counter.id, counter.level) == ("Counter", "extra")


def test_an_exercise_without_a_check_cell_is_named(course):
    save(course / "notebooks" / f"{NAME}.ipynb", [c for c in cells() if c.id != "check_total"])
    with pytest.raises(ChapterError, match="the exercise total has no cell check_total"):
        find(NAME, course).exercises  # noqa: B018


@pytest.mark.parametrize("asked", [NAME, "ch98", "98", " Ch98", "chapter 98", "chap98", f"notebooks/{NAME}.ipynb"])
def test_a_chapter_is_found_by_name_number_and_path(course, asked):
    assert find(asked, course).name == NAME


@pytest.mark.parametrize(("asked", "meant"), [("fdsp", "ch07_fsdp"), ("ch3x", "ch03_ring_all_reduce"), ("ring", "ch03"),
                                              ("memroy", "ch01"), ("ch05_tensor_paralel", "ch05"), ("serv", "ch08")])
def test_a_chapter_with_a_slip_of_the_pen_is_guessed(asked, meant):
    with pytest.raises(ChapterError, match=f"did you mean {meant}"):
        find(asked)


@pytest.mark.parametrize(("typed", "said"), [
    ("labb", "There is no command 'labb'; did you mean lab?"), ("catchup ch03", "did you mean catch-up?"),
    ("", "Name a command: lab, "), ("catch-up", "catch-up needs a chapter, for instance ch03."),
    ("script ch03 --frce", "script does not take --frce; did you mean --force?"), ("grade", "grade needs a folder."),
    ("grade x --sed 3", "did you mean --seed?"), ("submit ch03 now", "submit does not take now"),
    ("grade x --jobs two", "argument --jobs: invalid int value: 'two'.")])
def test_a_command_with_a_slip_of_the_pen_gets_one_sentence(capsys, typed, said):
    assert main(typed.split()) == 2
    told = capsys.readouterr().err.strip()
    assert said in told and len(told.splitlines()) == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(("typed", "said"), [("catchup", "make catch-up?"), ("labb", "make lab?"), ("zzz", "lists")])
def test_make_guesses_which_command_was_meant(typed, said):
    done = subprocess.run(["make", f"PYTHON={sys.executable}", typed], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr.splitlines()[0]


@pytest.mark.parametrize(("asked", "words"), [("ch99", "no chapter 'ch99'; this course has ch98_sums"),
                                              ("", "Name a chapter")])
def test_a_chapter_that_does_not_exist_is_named_with_those_that_do(course, asked, words):
    with pytest.raises(ChapterError, match=words):
        find(asked, course)


@pytest.mark.parametrize(("content", "words"), [
    (b"not json", "is not JSON"), (b"\xff\xfe", "not text in UTF-8"), (b"[1]", "holds no list of cells"),
    (b'{"cells": []}', "metadata name no chapter"), (b'{"cells": [], "metadata": {"course": 3}}', "name no chapter"),
    (b"[" * 100_000, "is not JSON"), (b"", "is not JSON")])
def test_a_file_that_is_no_chapter_is_described(tmp_path, content, words):
    (tmp_path / "x.ipynb").write_bytes(content)
    with pytest.raises(ChapterError, match=words):
        read(tmp_path / "x.ipynb")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ChapterError, match=r"gone.ipynb cannot be read: No such file"):
        read(tmp_path / "gone.ipynb")


def test_overlay_replaces_exercise_cells_and_nothing_else(course):
    chapter = find(NAME, course)
    notebook = overlay(chapter, {"total": ANSWER})
    changed = [c.id for c, before in zip(notebook.cells, chapter.notebook.cells, strict=True) if c != before]
    assert changed == ["total"]


def test_overlay_leaves_the_chapter_as_it_was(course):
    chapter = find(NAME, course)
    overlay(chapter, {"total": ANSWER})
    assert chapter.notebook == find(NAME, course).notebook


def test_overlay_refuses_a_cell_that_is_no_exercise(course):
    with pytest.raises(ValueError, match="has no exercise check_total; it has total, Counter"):
        overlay(find(NAME, course), {"check_total": "print('5 of 5 points')"})


def test_a_solved_chapter_holds_the_solutions_with_decorators_and_docstrings(course):
    found = answers_of(solved(find(NAME, course), course))
    assert found["total"].startswith('@keep\ndef total(dist, value):\n    """Why')
    assert found["Counter"] == "class Counter:\n    seen = 0"


def test_a_missing_solution_is_named(course):
    (course / "solutions" / f"{NAME}.py").write_text("def total():\n    pass\n")
    with pytest.raises(ChapterError, match="no function or class Counter"):
        solved(find(NAME, course), course)


def test_answers_are_read_by_id(course):
    assert answers_of(overlay(find(NAME, course), {"total": ANSWER}))["total"] == ANSWER


def test_answers_are_found_after_the_tags_are_lost(course):
    notebook = overlay(find(NAME, course), {"total": ANSWER})
    for cell in notebook.cells:
        cell.metadata = {}
    assert answers_of(notebook, ["total"]) == {"total": ANSWER}


def test_answers_are_found_by_definition_after_the_ids_are_lost(course):
    notebook = overlay(find(NAME, course), {"total": ANSWER})
    for cell in notebook.cells:
        del cell["id"]
    assert answers_of(notebook, ["total"]) == {"total": ANSWER}


def test_of_two_cells_with_one_id_the_last_counts(course):
    notebook = find(NAME, course).notebook
    notebook.cells.append(code("total", ANSWER, "exercise"))
    assert answers_of(notebook)["total"] == ANSWER


def test_a_text_cell_with_the_id_of_an_exercise_is_no_answer(course):
    notebook = find(NAME, course).notebook
    notebook.cells = [new_markdown_cell(ANSWER, id="total")]
    assert answers_of(notebook, ["total"]) == {}


def test_answers_of_a_damaged_notebook_are_what_is_left(tmp_path):
    damaged = {"metadata": {"course": {"chapter": NAME}}, "cells": [
        None, 3, {"cell_type": "code"}, {"cell_type": "code", "id": ["x"], "source": {"a": 1}, "metadata": []},
        {"cell_type": "code", "id": "total", "source": ["def total():\n", 5, "    pass"], "metadata": {"tags": "no"}}]}
    (tmp_path / "x.ipynb").write_text(json.dumps(damaged))
    assert answers_of(read(tmp_path / "x.ipynb").notebook, ["total"]) == {"total": "def total():\n    pass"}
