"""make handout: what learners get, and what they do not."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import pytest

from exercises_tests.tools.chapters import ROOT, ChapterError, chapters


@pytest.fixture
def handout(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("handout")
    sys.modules.pop("handout", None)


def test_a_handout_has_no_solutions_no_tests_and_nothing_that_make_wrote(handout, tmp_path):
    copied = handout.write_handout(tmp_path / "out")
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert there == set(copied)
    tops = {path.split("/")[0] for path in copied}
    assert tops <= {"README.md", "LICENSE", "Makefile", "pyproject.toml", "constraints.txt", "environment.yml",
                    "postBuild", ".gitignore", ".dockerignore", "notebooks", "exercises_tests", "course_lib", "docs"}
    assert not [path for path in copied if any(word in path for word in ("instructor", "attacks", "grade-workflow"))]
    assert not any("__pycache__" in path or "checkpoint" in path for path in copied)


def test_a_learner_starts_from_a_handout(handout, tmp_path):
    handout.write_handout(tmp_path / "out")
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "out"), "COURSE_PROGRESS": "off"}
    lab = [sys.executable, "-P", "-m", "exercises_tests", "lab", "--copy-only"]
    done = subprocess.run(lab, cwd=tmp_path / "out", env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "work").glob("*.ipynb"))) == len(chapters())
    use = ("import course_lib, exercises_tests\nfrom course_lib.notebook import borrow\n"
           "print(course_lib.__file__, exercises_tests.__file__)\nborrow('exchange')")
    done = subprocess.run([sys.executable, "-P", "-c", use], cwd=tmp_path / "out", env=environ, capture_output=True,
                          text=True, timeout=600)
    assert done.stdout.count(str(tmp_path / "out")) == 2
    assert "the solutions are not here" in done.stderr


def test_a_learner_can_submit_from_a_handout(handout, tmp_path):
    out = tmp_path / "out"
    handout.write_handout(out)
    environ = os.environ | {"PYTHONPATH": str(out), "COURSE_PROGRESS": "off"}
    done = [subprocess.run([sys.executable, "-P", "-m", "exercises_tests", *words], cwd=out, env=environ, text=True,
                           capture_output=True, timeout=600) for words in (["lab", "--copy-only"], ["submit", "ch00"])]
    assert done[1].returncode == 0, done[1].stderr
    assert "0 of 14 points" in done[1].stdout and "not written yet" in done[1].stdout


def test_a_handout_has_a_readme_of_its_own_whose_links_lead_somewhere(handout, tmp_path):
    handout.write_handout(tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    names = [one or two for one, two in re.findall(r'\]\(([^)]+)\)|src(?:set)?="([^"]+)"', text)]
    assert names and [name for name in names if not (tmp_path / "out" / name).exists()] == []
    assert "This is a learner's copy" in text and "make lab" in text
    for word in ("make test", "make grade", "make book", "instructor.md", "CONTRIBUTING.md", "<!--", "The answers are"):
        assert word not in text


def test_what_the_readme_leaves_out_of_a_handout_is_marked_in_pairs():
    text = (ROOT / "README.md").read_text()
    marks = re.findall(r"<!-- (not in a handout|end) -->", text)
    assert len(marks) >= 4 and marks == ["not in a handout", "end"] * (len(marks) // 2)


def test_a_handout_opens_jupyterlab_with_the_courses_settings(handout, tmp_path):
    copied = handout.write_handout(tmp_path / "out")
    assert "exercises_tests/tools/jupyter/labconfig/default_setting_overrides.json" in copied
    assert "exercises_tests/tools/jupyter/labextensions/course-cells/static/cells.css" in copied
    assert os.access(tmp_path / "out" / "docs" / "hub" / "start", os.X_OK)


def test_a_folder_that_holds_something_is_refused_until_it_is_forced(handout, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ChapterError, match="is not empty: name another folder, or overwrite"):
        handout.write_handout(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    handout.write_handout(tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine" and (tmp_path / "Makefile").exists()


def test_an_empty_folder_is_taken(handout, tmp_path):
    handout.write_handout(tmp_path)
    assert (tmp_path / "Makefile").exists()


def test_the_course_itself_is_refused(handout):
    with pytest.raises(ChapterError, match="is the course itself"):
        handout.write_handout(ROOT, force=True)


@pytest.mark.parametrize("argument, words", [("", "Name the folder to write to: make handout OUT=dir"),
                                             ("a file", "is a file")])
def test_what_is_wrong_with_the_folder_is_one_sentence(handout, tmp_path, monkeypatch, capsys, argument, words):
    (tmp_path / "a file").touch()
    monkeypatch.chdir(tmp_path)
    assert handout.main([argument]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_what_a_handout_does_not_have_make_says_in_a_sentence(handout, tmp_path):
    handout.write_handout(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".course-installed").touch()  # as if it were set up
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    for target, missing in (("book", "docs/book_and_slides"), ("handout", "docs/handout.py"), ("bench", "bench")):
        done = subprocess.run(["make", target], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=600)
        assert done.returncode == 2
        assert f"This copy of the course has no {missing}: it is a handout for learners." in done.stderr
