"""Grading a class in which many attack: each gets what it earned, nobody else is touched, nothing is left."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attacked_course
import pytest
from attacks import DOUBLE, TOTAL

from exercises_tests import apart, grader, judge, remote, sandbox
from exercises_tests.chapters import ChapterError

UNUSUAL = {
    "a callable object": (
        attacked_course.TOTAL + "\nclass Total:\n    def __call__(self, *args):\n        return adds(*args)\n"
        "adds, total = total, Total()\n"
    ),
    "decorated, with star arguments": (
        "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def g(*args, **more):\n"
        "        return f(*args, **more)\n    return g\n" + attacked_course.TOTAL + "total = loud(total)\n"
    ),
    "with a helper inside the cell and a magic": "%time 1\n" + attacked_course.TOTAL.replace("def total", "def helper")
    + "\ntotal = lambda dist, mine: helper(dist, mine)\n",
    "a view, and shell settings": "get_ipython().run_line_magic('matplotlib', 'inline')\n"
    + attacked_course.TOTAL.replace("return result", "return torch.stack([result, result])[0]"),
}
WHY_NOT = sandbox.why_not(str(Path(judge.__file__).parent.parent))
needs_sandbox = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
SECONDS = 8  # that one run may take; a right answer needs a small part of one, also on a busy machine
ALSO_ITS_OWN = {"exits while the cell runs", "patches what is sent back"}
"""Attacks that run with the cells and so spoil the submission's other answer too; nobody else's."""
FILES = {
    "invalid JSON": "{nope",
    "no notebook": "[]",
    "not UTF-8": b"\xff\xfe\x00",
    "another course": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
}
NAMES = ["=cmd()", "<b>bold<i>", "a,b;\"c\"", "..evil", "ünïcödé"]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, graded once: records by learner, and the folder of the grade book."""
    top = tmp_path_factory.mktemp("class")
    root, folder, out = attacked_course.make(top / "course"), top / "submissions", top / "grades"
    for name, cell in TOTAL.items() if not WHY_NOT else ():  # they must never run outside a sandbox
        attacked_course.submit(folder, name, {"total": cell})
    if not WHY_NOT:
        attacked_course.submit(folder, "hangs twice", {"total": TOTAL["loops"], "double": DOUBLE["never returns"]})
    for name, cell in DOUBLE.items():
        attacked_course.submit(folder, name, {"double": cell})
    for name, cell in UNUSUAL.items():
        attacked_course.submit(folder, name, {"total": cell})
    for name, contents in FILES.items():
        attacked_course.submit(folder, name, contents)
    for name in NAMES:
        attacked_course.submit(folder, name, {})
    whole = attacked_course.notebook(attacked_course.RIGHT)
    edited = json.loads(json.dumps(whole))
    edited["cells"] = [c for c in edited["cells"] if not c["id"].startswith("check")]
    attacked_course.submit(folder, "deleted checks", json.dumps(edited))
    stub = "def {}(*args):\n    raise NotImplementedError\n"
    lazy = attacked_course.notebook({name: stub.format(name) for name in ("total", "double")})
    attacked_course.submit(folder, "empty", json.dumps(lazy))
    for cell in lazy["cells"]:
        if cell["id"].startswith("check"):
            cell["source"] = "print('✓')"
    attacked_course.submit(folder, "edited checks", json.dumps(lazy))
    helper = json.loads(json.dumps(whole))
    helper["cells"][1]["source"] = "def total(dist, mine):\n    return adds(dist, mine)\n"
    adds = attacked_course.TOTAL.replace("total", "adds")
    helper["cells"].append(helper["cells"][0] | {"id": "mine", "source": adds})
    attacked_course.submit(folder, "helper elsewhere", json.dumps(helper))
    (folder / "linked").mkdir()
    (folder / "linked" / "chapter.ipynb").symlink_to(folder / "empty" / "chapter.ipynb")
    records = grader.grade_class(folder, out, jobs=2, seed="class", seconds=SECONDS, root=root, sandboxed=not WHY_NOT)
    return {record["learner"]: record for record in records}, out


def of(graded, learner, exercise):
    return next(r for r in graded[0][learner]["results"] if r["exercise"] == exercise)



@needs_sandbox
@pytest.mark.parametrize("attack", TOTAL)
def test_an_attack_on_a_messaging_exercise_earns_nothing_and_costs_nothing_else(graded, attack):
    assert of(graded, attack, "total")["earned"] == 0, of(graded, attack, "total")["sentence"]
    assert of(graded, attack, "double")["earned"] == (0 if attack in ALSO_ITS_OWN else 1)


@pytest.mark.parametrize("attack", DOUBLE)
def test_an_attack_on_a_plain_exercise_earns_nothing_and_costs_nothing_else(graded, attack):
    assert of(graded, attack, "double")["earned"] == 0
    assert of(graded, attack, "total")["earned"] == 2


@pytest.mark.parametrize("learner", [*UNUSUAL, *NAMES, "deleted checks"])
def test_a_right_answer_however_written_gets_full_marks(graded, learner):
    assert graded[0][learner]["earned"] == 3, graded[0][learner]["results"]


@pytest.mark.parametrize("learner", ["empty", "edited checks"])
def test_unwritten_exercises_earn_nothing_and_say_so(graded, learner):
    assert graded[0][learner]["earned"] == 0
    assert of(graded, learner, "total")["code"] == "not-written"


@pytest.mark.parametrize("learner", FILES)
def test_a_file_that_is_no_chapter_is_told_in_a_sentence(graded, learner):
    assert graded[0][learner]["earned"] == 0
    assert graded[0][learner]["remark"].startswith("chapter.ipynb ")


def test_a_link_is_not_followed(graded):
    assert "not a plain file" in graded[0]["linked"]["remark"]


def test_a_helper_in_another_cell_is_named(graded):
    assert "adds is defined in another cell of your notebook" in of(graded, "helper elsewhere", "total")["sentence"]


def test_a_borrowed_answer_is_marked_and_scores_nothing(graded):
    assert of(graded, "is borrowed", "double")["code"] == "borrowed"


@needs_sandbox
def test_the_feedback_says_why(graded):
    assert f"still going on after {SECONDS} s" in of(graded, "loops", "total")["sentence"]
    assert "exit code 0" in of(graded, "exits quietly", "total")["sentence"]
    assert "more than 1,000,000 parts" in of(graded, "returns a list that holds itself", "total")["sentence"]
    assert "256 MiB are under way" in of(graded, "holds the judge's memory", "total")["sentence"]
    assert "Operation not permitted" in of(graded, "takes memory that belongs to no process", "total")["sentence"]
    assert "No module named 'solutions'" in of(graded, "imports the solutions", "total")["sentence"]


@needs_sandbox
def test_the_memory_of_all_processes_of_a_submission_together_is_limited(tmp_path):
    root, folder, out = small_class(tmp_path)
    attacked_course.submit(folder, "many", {"total": TOTAL["eats memory in many processes"]})
    records = grader.grade_class(folder, out, jobs=1, seconds=100, root=root)  # filling it takes long on a busy machine
    (many,) = (record for record in records if record["learner"] == "many")
    assert "held more than 3 GiB of memory together" in of(({"many": many}, out), "many", "total")["sentence"]


@needs_sandbox
def test_a_submission_that_hung_once_is_given_half_the_time_afterwards(graded):
    assert f"still going on after {SECONDS} s" in of(graded, "hangs twice", "total")["sentence"]
    assert f"after {SECONDS // 2} s" in of(graded, "hangs twice", "double")["sentence"]


@needs_sandbox
def test_the_processes_of_all_ranks_of_a_submission_are_limited_together(graded):
    count = re.search(r"(\d+) processes", of(graded, "counts the processes it may have", "total")["sentence"])
    assert 1 < int(count[1]) <= apart.PROCESSES


@needs_sandbox
def test_a_judge_stays_small_whatever_an_answer_sends(tmp_path):
    root = attacked_course.make(tmp_path / "course")
    group = grader.Class(root, "class", SECONDS)
    judge_ = grader.Judge(group._environ)
    try:
        chapter = group.known[attacked_course.NAME]
        names = "returns a gigabyte", "holds the judge's memory", "sends a list that has no end", "posts without end"
        for name in names:
            (result, _) = judge_.ask(group.request(chapter, attacked_course.RIGHT | {"total": TOTAL[name]}, [], name))
            assert result["earned"] == 0
        status, limits = (Path(f"/proc/{judge_._process.pid}/{file}").read_text() for file in ("status", "limits"))
    finally:
        judge_.close()
        group.close()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 < 2 << 30
    assert int(re.search(r"Max address space\s+(\d+)", limits)[1]) == judge.MOST_MEMORY


def test_plain_data_is_taken_if_whoever_walks_through_it_comes_to_an_end():
    endless: list = []
    endless.append(endless)
    twice: list = []
    for _ in range(40):
        twice = [twice, twice]
    for thing in (endless, twice, [0] * remote.MOST_PARTS, {"a": 10**5000}):
        with pytest.raises(ValueError, match="at most|more than"):
            remote.check_size(thing)
    plain = {"a": [1.5, "text", (None, True)] * 100_000, "b": {10**3000}}
    assert remote.check_size(plain) is plain


@needs_sandbox
def test_no_line_of_a_file_outside_the_answer_is_shown(graded):
    assert "root:" not in json.dumps(graded[0]["claims lines of files it cannot read"])


def test_the_csv_has_one_row_a_notebook_and_no_formula(graded):
    records, out = graded
    with open(out / "grades.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1 + len(records)
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)
    assert "'=cmd()" in [row[0] for row in rows]


def test_the_pages_hold_no_markup_of_learners_and_stay_in_their_folder(graded):
    records, out = graded
    pages = list((out / "feedback").iterdir())
    assert len(pages) == len(records)
    text = "".join(page.read_text() for page in pages)
    assert "<script>" not in text and "<img" not in text and "<b>bold" not in text
    assert sorted(path.name for path in out.iterdir()) == ["feedback", "grades.csv", "grades.json"]


def test_the_grade_book_says_how_it_was_graded(graded):
    about = json.loads((graded[1] / "grades.json").read_text())
    assert about["graded with"].startswith("Graded by the judge")
    assert about["class seed"] == "class"


def test_nothing_ran_where_the_grader_runs(graded):
    assert not os.path.exists("/var/tmp/pwned") and not os.path.exists("/tmp/pwned")


def test_nothing_is_left_running(graded):
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "# left behind" not in commands


def small_class(tmp_path):
    root, folder = attacked_course.make(tmp_path / "course"), tmp_path / "submissions"
    for name in ("ann", "bob"):
        attacked_course.submit(folder, name, {})
    return root, folder, tmp_path / "grades"


def test_an_unchanged_notebook_is_not_graded_again_and_a_changed_one_is(tmp_path, monkeypatch):
    root, folder, out = small_class(tmp_path)
    first = grader.grade_class(folder, out, jobs=2, seconds=20, root=root, sandboxed=not WHY_NOT)
    attacked_course.submit(folder, "bob", {"double": "double = 5\n"})
    asked = []
    ask = grader.Judge.ask
    monkeypatch.setattr(grader.Judge, "ask", lambda self, request: asked.append(request) or ask(self, request))
    again = grader.grade_class(folder, out, jobs=2, seconds=20, root=root, sandboxed=not WHY_NOT)
    assert [record["earned"] for record in first] == [3, 3]
    assert [record["earned"] for record in again] == [3, 2]
    assert [request["cells"]["double"] for request in asked[-1:]] == ["double = 5\n"]
    assert len(asked) == 2  # the reference, and bob


def test_a_second_interruption_loses_nothing_that_the_first_run_graded(tmp_path):
    root, folder, out = small_class(tmp_path)
    todo = grader.submissions(folder)
    done = {(learner, path.name): {"learner": learner, "results": []} for learner, path in todo}
    grader._save(out, {}, done, {}, todo, final=False)
    kept = json.loads((out / "grades.json").read_text())["submissions"]
    assert [record["learner"] for record in kept] == ["ann", "bob"]


def test_an_exercise_whose_own_solution_fails_is_not_graded(tmp_path):
    root, folder, out = small_class(tmp_path)
    (root / "solutions" / f"{attacked_course.NAME}.py").write_text(
        "def total(dist, mine):\n    return mine\n\n\n" + attacked_course.DOUBLE
    )
    records = grader.grade_class(folder, out, jobs=1, seconds=20, root=root, sandboxed=not WHY_NOT)
    total, double = records[0]["results"]
    assert (total["graded"], double["graded"], double["earned"]) == (False, True, 1)
    assert "not graded" in (out / "grades.csv").read_text()


def test_killed_halfway_a_class_is_graded_to_the_end_by_the_same_command(tmp_path):
    root, folder, out = small_class(tmp_path)
    attacked_course.submit(folder, "cy", {"total": TOTAL["returns NaN"]})
    script = (
        "import sys; from pathlib import Path; from exercises_tests import grader\n"
        f"grader.grade_class(Path({str(folder)!r}), Path({str(out)!r}), 1, 's', 30, Path({str(root)!r}), {not WHY_NOT})"
    )
    running = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    try:
        while running.poll() is None:
            if len(grader._load(out / "grades.json").get("submissions", [])) >= 1:
                break
    finally:
        running.kill()
        running.wait()
    records = grader.grade_class(folder, out, jobs=2, seconds=30, root=root, sandboxed=not WHY_NOT)
    assert {record["learner"]: record["earned"] for record in records} == {"ann": 3, "bob": 3, "cy": 1}


def test_root_does_not_grade_without_a_sandbox(tmp_path, monkeypatch):
    root, folder, out = small_class(tmp_path)
    monkeypatch.setattr(grader.sandbox, "why_not", lambda room: "none here")
    monkeypatch.setattr(grader.os, "getuid", lambda: 0)
    with pytest.raises(ChapterError, match="There is no sandbox to grade in: none here"):
        grader.grade_class(folder, out, jobs=1, root=root)


def test_without_a_sandbox_the_grade_book_says_what_is_not_protected(tmp_path):
    root, folder, out = small_class(tmp_path)
    records = grader.grade_class(folder, out, jobs=1, seconds=20, root=root, sandboxed=False)
    assert [record["earned"] for record in records] == [3, 3]
    assert "without a sandbox (not asked for)" in json.loads((out / "grades.json").read_text())["graded with"]


@pytest.mark.parametrize(
    ("make", "words"), [("nothing", "is not a folder"), ("empty", "holds no"), ("other", "holds no")]
)
def test_a_folder_without_submissions_is_told_in_a_sentence(tmp_path, make, words):
    folder = tmp_path / "submissions"
    if make != "nothing":
        folder.mkdir()
    if make == "other":
        (folder / "readme.txt").write_text("hello")
    with pytest.raises(ChapterError, match=words):
        grader.grade_class(folder, tmp_path / "grades", jobs=1)
