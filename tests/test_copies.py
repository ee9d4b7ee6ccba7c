"""A learner's copies: the commands lab and update."""

from __future__ import annotations

import os

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_course import ANSWER, NAME, STUB, cells, edit, make_course, new_version, save, sources

from exercises_tests.__main__ import main
from exercises_tests.tools.chapters import find


@pytest.fixture
def course(tmp_path):
    return make_course(tmp_path)


@pytest.fixture
def working(tmp_path):
    """A course after `make lab`, and the learner's copy of its chapter."""
    course = make_course(tmp_path)
    assert main(["lab", "--copy-only"], course) == 0
    return course, course / "work" / f"{NAME}.ipynb"


def test_lab_copies_the_chapters(working):
    course, copy = working
    assert sources(copy) == {cell.id: cell.source for cell in find(NAME, course).notebook.cells}


def test_lab_never_overwrites(working):
    course, copy = working
    edit(copy, total=ANSWER)
    before = copy.read_bytes()
    main(["lab", "--copy-only"], course)
    assert copy.read_bytes() == before


def test_lab_does_not_copy_a_chapter_that_the_learner_has_renamed(working):
    course, copy = working
    copy.rename(copy.with_name("mine.ipynb"))
    main(["lab", "--copy-only"], course)
    assert not copy.exists()


def test_lab_says_that_a_newer_version_exists(working, capsys):
    course, _ = working
    new_version(course)
    main(["lab", "--copy-only"], course)
    assert "ch98_sums.ipynb is from an older version of the chapter: make update" in capsys.readouterr().out


def test_lab_notices_a_change_without_a_new_version_number(working, capsys):
    course, _ = working
    new_version(course, version=1)
    main(["lab", "--copy-only"], course)
    assert "make update" in capsys.readouterr().out


def test_a_new_slide_makes_no_copy_older(working, capsys):
    course, _ = working
    path = course / "notebooks" / f"{NAME}.ipynb"
    changed = nbformat.read(path, as_version=4)
    changed.cells[0].metadata["course"] = {"slide": "Short."}
    nbformat.write(changed, path)
    main(["lab", "--copy-only"], course)
    assert "make update" not in capsys.readouterr().out


def test_lab_leaves_a_broken_copy_alone_and_says_so(working, capsys):
    course, copy = working
    copy.write_text("{broken")
    assert main(["lab", "--copy-only"], course) == 0
    assert copy.read_text() == "{broken"
    assert "is not JSON" in capsys.readouterr().out


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
    assert "Your own cells came along: aa11 (scratch = 1)." in said
    assert "Only in that backup, what you changed elsewhere: imports (import os, sys)." in said


def test_update_puts_a_learners_own_cells_where_they_stood(working):
    course, copy = working
    notebook = nbformat.read(copy, as_version=4)
    own = [new_markdown_cell("mine, on top", id="top"), new_code_cell("a = 1", id="first"),
           new_code_cell("b = 2", id="second", metadata={"tags": ["exercise"]}, execution_count=3)]
    place = next(place for place, cell in enumerate(notebook.cells) if cell.id == "imports")
    notebook.cells[place + 1:place + 1] = own[1:]
    notebook.cells.insert(0, own[0])
    nbformat.write(notebook, copy)
    new_version(course, new_code_cell("new = 1", id="new"))
    main(["update"], course)
    after = nbformat.read(copy, as_version=4)
    assert [cell.id for cell in after.cells][:5] == ["top", "title", "imports", "first", "second"]
    assert "new" in sources(copy) and after.cells[4].metadata == {} and after.cells[4].execution_count is None
    new_version(course, version=3)
    main(["update"], course)  # and again, with the next version
    assert [name for name in sources(copy) if name in ("top", "first", "second")] == ["top", "first", "second"]


def test_update_of_a_copy_made_by_hand_leaves_own_cells_in_the_backup(course, capsys):
    """It cannot tell a learner's cell from one that an older version of the chapter had."""
    (course / "work").mkdir()
    copy = save(course / "work" / f"{NAME}.ipynb", [*cells(), new_code_cell("mine = 1", id="mine")])
    new_version(course)
    main(["update"], course)
    assert "mine" not in sources(copy)
    assert "what you changed elsewhere: " in (said := capsys.readouterr().out) and "mine (mine = 1)" in said


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


LATER = "ch99_more_sums"


def moved_to_a_later_chapter(course):
    """Release a course whose first chapter no longer asks for `total`; a later one does."""
    there = cells()
    moved = [cell for cell in there if cell.id in ("total", "check_total")]
    save(course / "notebooks" / f"{NAME}.ipynb", [cell for cell in there if cell not in moved], version=2)
    save(course / "notebooks" / f"{LATER}.ipynb", [there[0], there[1], *moved], name=LATER)
    return course / "work" / f"{LATER}.ipynb"


def test_update_moves_an_answer_along_to_the_chapter_that_asks_for_it_now(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    later = moved_to_a_later_chapter(course)
    assert main(["update"], course) == 0
    assert sources(later)["total"] == ANSWER and "total" not in sources(copy)
    said = capsys.readouterr().out
    assert f"Moved to work/{LATER}.ipynb, which asks for it now: total." in said
    assert "cells of your own" not in said
    assert main(["update"], course) == 0
    assert f"work/{LATER}.ipynb is up to date." in capsys.readouterr().out


def test_update_moves_an_answer_into_a_copy_that_is_there_and_keeps_that_one_too(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    later = moved_to_a_later_chapter(course)
    main(["lab", "--copy-only"], course)
    edit(later, imports="import os, sys")
    main(["update"], course)
    assert sources(later)["total"] == ANSWER and sources(later)["imports"] == "import os, sys"
    assert len(list((course / "work" / "backups").iterdir())) == 2
    assert "Moved to" in capsys.readouterr().out


def test_update_never_replaces_an_answer_by_one_that_moved(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    later = moved_to_a_later_chapter(course)
    main(["lab", "--copy-only"], course)
    edit(later, total="def total(dist, value):\n    return 7")
    main(["update"], course)
    assert sources(later)["total"].endswith("return 7")
    assert "has an answer of its own or is older: total." in capsys.readouterr().out


def test_update_leaves_an_answer_that_takes_other_parameters_in_the_backup(working, capsys):
    course, copy = working
    edit(copy, total=ANSWER)
    later = moved_to_a_later_chapter(course)
    there = nbformat.read(course / "notebooks" / f"{LATER}.ipynb", as_version=4)
    stub = next(cell for cell in there.cells if cell.id == "total")
    stub.source = stub.source.replace("value", "folder, value", 1)
    assert stub.source != STUB
    nbformat.write(there, course / "notebooks" / f"{LATER}.ipynb")
    assert main(["update"], course) == 0
    assert not later.exists()
    said = capsys.readouterr().out
    assert f"Only in that backup, because {LATER} asks for it with other parameters: total." in said
    assert any(ANSWER in sources(path).values() for path in (course / "work" / "backups").iterdir())


def test_update_moves_an_answer_that_does_not_parse_along_only_to_a_stub_like_it(working):
    course, copy = working
    edit(copy, total="def total(dist, value:\n    return")
    later = moved_to_a_later_chapter(course)
    assert main(["update"], course) == 0
    assert not later.exists()


def test_update_moves_no_stub_along(working):
    course, _ = working
    later = moved_to_a_later_chapter(course)
    main(["update"], course)
    assert not later.exists()


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
    there = sorted(path.name for path in copy.parent.iterdir())
    assert there == [".next.json", "backups", copy.name, "start.md"]  # and no half-written file


def test_a_copy_says_of_its_language_what_a_kernel_says_so_that_opening_it_changes_nothing(working):
    _, copy = working
    assert nbformat.read(copy, 4).metadata["language_info"] == IPythonKernel.language_info
