"""A private variant: its own answers pass, the public ones have other names, and its numbers are others."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

from exercises_tests.tools.chapters import ROOT, chapters, find, read, solutions

JUDGED = """
import importlib
from exercises_tests import seeds
from exercises_tests.tools.chapters import find
chapter = find("{chapter}")
checks, answers = (importlib.import_module(f"{{home}}.{{chapter.name}}") for home in ("exercises_tests", "solutions"))
for exercise in chapter.exercises:
    found = getattr(checks, f"check_{{exercise.id}}").outcome(getattr(answers, exercise.id))
    print(exercise.id, found.earned == found.total and not found.code, found.sentence, sep="|")
print("drawn", seeds.drawn("x").random(), "", sep="|")
"""


@pytest.fixture(scope="module")
def variant(tmp_path_factory):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        module = importlib.import_module("variant")
        folder = tmp_path_factory.mktemp("variant") / "course"
        yield module, folder, module.write_variant(folder, "hush")
    finally:
        sys.path.remove(str(ROOT / "docs"))
        for name in ("variant", "handout"):
            sys.modules.pop(name, None)


def rows(folder, chapter: str) -> list[list[str]]:
    done = subprocess.run([sys.executable, "-c", JUDGED.format(chapter=chapter)], cwd=folder, capture_output=True,
                          text=True, timeout=600, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line.split("|") for line in done.stdout.splitlines() if line.count("|") >= 2]


@pytest.mark.parametrize("chapter", ["ch02", "ch09"])
def test_a_variant_passes_its_own_answers_under_their_new_names(variant, chapter):
    _, folder, names = variant
    *judged, drawn = rows(folder, chapter)
    assert [name for name, *_ in judged] == [names[find(chapter).name].get(e.id, e.id) for e in find(chapter).exercises]
    assert all(right == "True" for _, right, *_ in judged), judged
    assert drawn[1] != rows(ROOT, "ch09")[-1][1]


def test_no_name_that_was_changed_is_left_in_a_notebook_its_checks_or_its_solutions(variant):
    module, folder, names = variant
    for chapter in chapters():
        notebook = json.loads((folder / "notebooks" / chapter.path.name).read_text())
        for cell in notebook["cells"]:
            ids = {cell["id"], *cell["metadata"].get("tags", [])}
            parts = ("", "check_", "needs-", "hints_")
            assert not ids & {f"{part}{old}" for old in names[chapter.name] for part in parts}
        ids = {exercise.id for exercise in read(folder / "notebooks" / chapter.path.name).exercises}
        assert ids == {names[chapter.name].get(exercise.id, exercise.id) for exercise in chapter.exercises}
        assert set(solutions(read(folder / "notebooks" / chapter.path.name), folder)) == ids


def test_every_check_and_solution_of_a_variant_is_python(variant):
    _, folder, names = variant
    for place in ("exercises_tests", "solutions"):
        for path in (folder / place).glob("ch*.py"):
            compile(path.read_text(), str(path), "exec")
    assert sum(map(len, names.values())) > 60


def test_the_same_seed_makes_the_same_names_and_another_one_others(variant):
    module, _, names = variant
    chapter = find("ch03")
    assert module.new_names(chapter, "hush") == names[chapter.name] != module.new_names(chapter, "other")


def test_a_name_of_the_library_stays(variant):
    module, *_ = variant
    names = {"one_f_one_b": "one_f_one_b_x"}
    assert module.in_python("schedules.one_f_one_b(4, 8)\none_f_one_b(4)\n", names) == (
        "schedules.one_f_one_b(4, 8)\none_f_one_b_x(4)\n")
    text = 'from course_lib.schedules import one_f_one_b\nsay = f"one_f_one_b: {one_f_one_b(4)}"\n'
    assert module.in_python(text, names) == text.replace('f"one_f_one_b:', 'f"one_f_one_b_x:')


def test_no_tests_and_no_folder_of_learners_go_with_it(variant):
    _, folder, _ = variant
    assert (folder / "solutions").is_dir() and (folder / "docs" / "handout.py").exists()
    assert not (folder / "tests").exists() and not (folder / "work").exists()


def test_the_policy_goes_with_it_and_an_earlier_variant_is_overwritten_only_by_force(variant):
    module, folder, _ = variant
    assert (folder / "course.toml").read_bytes() == (ROOT / "course.toml").read_bytes()
    with pytest.raises(module.ChapterError, match="--force"):
        module.write_variant(folder, "hush")
    (folder / "course.toml").unlink()
    module.write_variant(folder, "hush", force=True)
    assert (folder / "course.toml").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["", "--seed", "x"], "make variant OUT=dir"),
    (["{new}"], "needs a secret"),
    (["{full}", "--seed", "x"], "not empty"),
])
def test_what_is_missing_is_a_sentence(tmp_path, arguments, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    given = [text.format(new=tmp_path / "new", full=tmp_path / "full") for text in arguments]
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "variant.py"), *given], capture_output=True, text=True,
                          timeout=600)  # fmt: skip
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()
