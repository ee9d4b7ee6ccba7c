"""Chapters, a learner's copies of them, and the commands lab, update, script, solved."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from exercises_tests import chapters, copies
from exercises_tests.__main__ import main
from exercises_tests.chapters import ChapterError, answers_of, find, overlay, read, solved

NAME = "ch98_sums"
STUB = 'def total(dist, value):\n    """Return the total."""\n    raise NotImplementedError'
ANSWER = "def total(dist, value):\n    return value * dist.get_world_size()"
SOLUTIONS = '''"""Solutions."""
from functools import wraps


def keep(function):
    return function


@keep
def total(dist, value):
    """Why: every rank has the same value."""
    return value * dist.get_world_size()


class Counter:
    seen = 0
'''


def code(name: str, source: str, *tags: str, **course):
    cell = new_code_cell(source, id=name)
    cell.metadata["tags"] = list(tags)
    if course:
        cell.metadata["course"] = course
    return cell


def cells() -> list:
    return [
        new_markdown_cell("# Sums", id="title"),
        code("imports", "import os", "imports"),
        code("guess_total", "guess_total = None  # your number, in bytes", "prediction"),
        code("total", STUB, "exercise"),
        code("check_total", "check_total(total)", "check", "raises-exception", points=5, minutes=20, level="core"),
        code("demo", 'text = """first\nsecond"""\ntotal(os, ranks=6)', "script", "needs-total", "raises-exception"),
        code("Counter", "class Counter:\n    def add(self):\n        raise NotImplementedError", "exercise"),
        code("check_Counter", "check_Counter(Counter)", "check", points=2, minutes=5, level="extra"),
    ]


def save(path, notebook_cells, version: int = 1, name: str = NAME):
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=notebook_cells, metadata={
        "course": {"chapter": name, "title": "Sums", "version": version}}), path)
    return path


@pytest.fixture
def course(tmp_path):
    """A course of one chapter with its solutions."""
    save(tmp_path / "notebooks" / f"{NAME}.ipynb", cells())
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{NAME}.py").write_text(SOLUTIONS)
    return tmp_path


@pytest.fixture
def working(course):
    """The same course after `make lab`, with the learner's copy."""
    assert main(["lab", "--no-open"], course) == 0
    return course, course / "work" / f"{NAME}.ipynb"


def edit(path, **sources: str):
    """Change the sources of a copy's cells, as a learner would."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    nbformat.write(notebook, path)


def new_version(course, *extra, version: int = 2):
    """Release a chapter with another title and other cells added."""
    changed = cells()
    changed[0].source = "# Sums, again"
    save(course / "notebooks" / f"{NAME}.ipynb", [*changed, *extra], version)


def sources(path) -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}


# A chapter ------------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("asked", [NAME, "ch98", "98"])
def test_a_chapter_is_found_by_name_and_by_number(course, asked):
    assert find(asked, course).name == NAME


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


# Answers --------------------------------------------------------------------------------------------------------------

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


# lab ------------------------------------------------------------------------------------------------------------------

def test_lab_copies_the_chapters(working):
    course, copy = working
    assert sources(copy) == {cell.id: cell.source for cell in find(NAME, course).notebook.cells}


def test_lab_never_overwrites(working):
    course, copy = working
    edit(copy, total=ANSWER)
    before = copy.read_bytes()
    main(["lab", "--no-open"], course)
    assert copy.read_bytes() == before


def test_lab_does_not_copy_a_chapter_that_the_learner_has_renamed(working):
    course, copy = working
    copy.rename(copy.with_name("mine.ipynb"))
    main(["lab", "--no-open"], course)
    assert not copy.exists()


def test_lab_says_that_a_newer_version_exists(working, capsys):
    course, _ = working
    new_version(course)
    main(["lab", "--no-open"], course)
    assert "ch98_sums.ipynb is from an older version of the chapter: make update" in capsys.readouterr().out


def test_lab_notices_a_change_without_a_new_version_number(working, capsys):
    course, _ = working
    new_version(course, version=1)
    main(["lab", "--no-open"], course)
    assert "make update" in capsys.readouterr().out


def test_lab_leaves_a_broken_copy_alone_and_says_so(working, capsys):
    course, copy = working
    copy.write_text("{broken")
    assert main(["lab", "--no-open"], course) == 0
    assert copy.read_text() == "{broken"
    assert "is not JSON" in capsys.readouterr().out


def test_lab_opens_the_first_chapter(course, monkeypatch):
    started = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: started.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    main(["lab", "--port=9999"], course)
    assert started == [[sys.executable, "-m", "jupyterlab", f"work/{NAME}.ipynb", "--port=9999"]]


# update ---------------------------------------------------------------------------------------------------------------

def test_update_carries_answers_and_predictions_over(working):
    course, copy = working
    edit(copy, total=ANSWER, guess_total="guess_total = 12")
    new_version(course)
    assert main(["update"], course) == 0
    assert sources(copy)["title"] == "# Sums, again"
    assert sources(copy)["total"] == ANSWER
    assert sources(copy)["guess_total"] == "guess_total = 12"


def test_update_takes_the_new_stub_where_nothing_was_written(working):
    course, copy = working
    new_version(course)
    changed = nbformat.read(course / "notebooks" / f"{NAME}.ipynb", as_version=4)
    changed.cells[3].source = STUB.replace("the total", "the sum")
    nbformat.write(changed, course / "notebooks" / f"{NAME}.ipynb")
    main(["update"], course)
    assert "Return the sum" in sources(copy)["total"]


def test_update_keeps_the_old_file_byte_for_byte(working):
    course, copy = working
    edit(copy, total=ANSWER)
    before = copy.read_bytes()
    new_version(course)
    main(["update"], course)
    assert [path.read_bytes() for path in (course / "work" / "backups").iterdir()] == [before]


def test_two_updates_in_one_second_keep_two_backups(working):
    course, _ = working
    new_version(course)
    main(["update"], course)
    new_version(course, version=3)
    main(["update"], course)
    assert len(list((course / "work" / "backups").iterdir())) == 2


def test_update_says_what_it_carried_and_what_stays_in_the_backup(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER, imports="import os, sys")
    notebook = nbformat.read(copy, as_version=4)
    notebook.cells.append(new_code_cell("scratch = 1", id="aa11"))
    nbformat.write(notebook, copy)
    new_version(course)
    main(["update"], course)
    said = capsys.readouterr().out
    assert "carried over: total." in said
    assert "cells of your own: imports (import os, sys); aa11 (scratch = 1)." in said


def test_update_does_nothing_to_a_chapter_that_is_up_to_date(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    before = copy.read_bytes()
    assert main(["update"], course) == 0
    assert copy.read_bytes() == before
    assert not (course / "work" / "backups").exists()
    assert f"work/{NAME}.ipynb is up to date." in capsys.readouterr().out


def test_update_twice_does_nothing_the_second_time(working, capsys):
    course, _ = working
    new_version(course)
    main(["update"], course)
    capsys.readouterr()
    main(["update"], course)
    assert capsys.readouterr().out == f"work/{NAME}.ipynb is up to date.\n"


def test_update_leaves_a_copy_of_a_later_version_alone(working):
    course, copy = working
    new_version(course, version=3)
    main(["update"], course)
    new_version(course, version=2)
    before = copy.read_bytes()
    main(["update"], course)
    assert copy.read_bytes() == before


def test_update_works_on_a_copy_made_by_hand(course):
    copy = save(course / "work" / "mine.ipynb", cells())
    edit(copy, total=ANSWER)
    new_version(course)
    main(["update"], course)
    assert sources(copy)["total"] == ANSWER
    assert sources(copy)["guess_total"].startswith("guess_total = None")


def test_update_of_a_broken_copy_says_so_and_goes_on_with_the_rest(working, capsys):
    course, copy = working
    (course / "work" / "a.ipynb").write_text("{broken")
    new_version(course)
    assert main(["update"], course) == 2
    assert sources(copy)["title"] == "# Sums, again"
    assert "a.ipynb is not a notebook" in capsys.readouterr().out


def test_a_failed_write_leaves_the_old_file(working, monkeypatch):
    course, copy = working
    before = copy.read_bytes()
    new_version(course)

    def refuse(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["update"], course) == 2
    assert copy.read_bytes() == before
    assert sorted(path.name for path in copy.parent.iterdir()) == ["backups", copy.name]


# script ---------------------------------------------------------------------------------------------------------------

def solve(copy):
    edit(copy, total=ANSWER)


def test_script_holds_imports_answers_and_the_demo_under_a_main_guard(working):
    course, copy = working
    solve(copy)
    assert main(["script", "ch98"], course) == 0
    text = (course / "work" / f"{NAME}.py").read_text()
    ast.parse(text)
    assert "import os" in text and ANSWER in text
    demo = text.split('if __name__ == "__main__":\n')[1]
    assert demo == '    text = """first\nsecond"""\n    print_once(total(os, ranks=6))\n'


def test_the_slurm_file_is_bash_and_asks_for_as_many_ranks_as_the_demo(working):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    path = course / "work" / f"{NAME}.slurm"
    assert subprocess.run(["bash", "-n", str(path)], timeout=60).returncode == 0
    text = path.read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "#SBATCH --nodes=2\n" in text and "--nproc-per-node=3" in text and "--rdzv-endpoint" in text


def test_script_writes_its_own_files_again(working):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    edit(copy, total=ANSWER + "  # better")
    assert main(["script", "ch98"], course) == 0
    assert "# better" in (course / "work" / f"{NAME}.py").read_text()


@pytest.mark.parametrize("suffix", ["py", "slurm"])
def test_script_refuses_to_overwrite_a_file_that_was_edited(working, capsys, suffix):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    written = course / "work" / f"{NAME}.{suffix}"
    written.write_text(written.read_text() + "# mine\n")
    assert main(["script", "ch98"], course) == 2
    assert written.read_text().endswith("# mine\n")
    assert "was edited or not written by make script" in capsys.readouterr().err


def test_script_overwrites_by_force(working):
    course, copy = working
    solve(copy)
    (course / "work" / f"{NAME}.py").write_text("mine")
    assert main(["script", "ch98", "--force"], course) == 0
    assert ANSWER in (course / "work" / f"{NAME}.py").read_text()


def test_script_names_the_stub_that_its_demo_needs(working, capsys):
    course, _ = working
    assert main(["script", "ch98"], course) == 2
    assert f"The demo of {NAME} needs total: write it in work/{NAME}.ipynb" in capsys.readouterr().err


def test_script_names_a_stub_that_another_answer_uses(working, capsys):
    course, copy = working
    edit(copy, total="def total(dist, value):\n    return Counter().add()")
    assert main(["script", "ch98"], course) == 2
    assert "needs Counter" in capsys.readouterr().err


def test_script_names_a_cell_that_is_not_plain_python(working, capsys):
    course, copy = working
    edit(copy, total="%%time\n" + ANSWER)
    assert main(["script", "ch98"], course) == 2
    assert "cell total, line 1 is not plain Python" in capsys.readouterr().err


def test_script_of_a_chapter_without_a_demo_says_so(course, capsys):
    save(course / "notebooks" / f"{NAME}.ipynb", [c for c in cells() if c.id != "demo"])
    main(["lab", "--no-open"], course)
    assert main(["script", "ch98"], course) == 2
    assert "has no cell tagged script" in capsys.readouterr().err


def test_script_before_lab_says_what_is_missing(course, capsys):
    assert main(["script", "ch98"], course) == 2
    assert capsys.readouterr().err == f"work/ has no copy of {NAME}: make lab makes one.\n"


# Commands -------------------------------------------------------------------------------------------------------------

def test_solved_writes_the_solved_chapter(course):
    assert main(["solved", "ch98", str(course / "out.ipynb")], course) == 0
    assert "return value * dist" in sources(course / "out.ipynb")["total"]


@pytest.mark.parametrize("command", [["lab", "--no-open"], ["update"], ["script", "ch98"]])
def test_a_pristine_chapter_that_is_not_json_is_one_sentence_and_exit_code_2(course, capsys, command):
    (course / "notebooks" / f"{NAME}.ipynb").write_text("{broken")
    assert main(command, course) == 2
    said = capsys.readouterr().err
    assert "is not a notebook: it is not JSON" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", [["lab", "--no-open"], ["update"], ["script", "ch98"]])
def test_a_work_folder_that_cannot_be_used_is_one_sentence_and_exit_code_2(course, capsys, command):
    (course / "work").write_text("a file")
    assert main(command, course) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_a_read_only_work_folder_is_one_sentence(course, capsys):
    (course / "work").mkdir(mode=0o555)
    assert main(["lab", "--no-open"], course) == 2
    assert "cannot be written: Permission denied" in capsys.readouterr().err


def test_a_write_that_is_refused_is_one_sentence_and_exit_code_2(course, capsys, monkeypatch):
    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(copies.tempfile, "NamedTemporaryFile", lambda *a, **options: refuse(**options))
    assert main(["lab", "--no-open"], course) == 2
    assert capsys.readouterr().err == f"{course}/work/{NAME}.ipynb cannot be written: Permission denied.\n"


def test_the_commands_run_as_a_module(course):
    shutil.copytree(chapters.ROOT / "exercises_tests", course / "exercises_tests",
                    ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-m", "exercises_tests", "lab", "--no-open"], cwd=course,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"Copied {NAME} to work/{NAME}.ipynb.\n")
