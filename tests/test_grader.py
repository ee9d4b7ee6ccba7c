"""Grading a class in which many attack: each gets what it earned, nobody else is touched, nothing is left."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import attacked_course
import pytest
from attacks import DEADLY, DOUBLE, LAZY, LEFT_BEHIND, TOTAL

from course_lib.engine.processes import launcher as base
from exercises_tests.grading import commands, grader, judge, namespaces, room, sandbox
from exercises_tests.grading.gradebook import read_json
from exercises_tests.grading.submissions import submissions, why_none
from exercises_tests.tools.chapters import ChapterError, find

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
DEMOS = {
    "checks": "check_total(total)\ncheck_double(double)\n",
    "runs what is no answer": "run(print)\n",
    "keeps a run": "r = run(total, torch.arange(8.), ranks=4)\nprint(r[0], max(r.bytes_sent))\nlast = r[-1]\n",
    "draws": "timeline(run(total, torch.ones(4), on=Cluster()));\n",
    "imports what acts": "from course_lib.ranks import run\nfrom course_lib.plots.sliders import explore\n"
    "import course_lib.ranks as more\nrun(print)\nmore.run(total, torch.ones(4))\nexplore(print)\n",
    "measures": "from course_lib.lessons.running_table import CLUSTERS, measure\n"
    "table = [measure(print) for _ in CLUSTERS]\n"
    "best = max(table)\n",
    "fails": "total(None, torch.ones(4))\nassert double([1]) == 3\n",
    "awaits": "import asyncio\nawait asyncio.sleep(0)\n",
    "lists runs": "seen = {n: run(total, torch.ones(n), ranks=n) for n in (2, 4)}\nfor n, r in seen.items():\n"
    "    print(n, f'{r.seconds:.3f}')\n",
}
"""Lines that learners leave below (or above) their answer: they say nothing about it."""
for what, lines in DEMOS.items():
    UNUSUAL[f"a demo that {what}"] = attacked_course.TOTAL + lines
UNUSUAL["a demo on top"] = "run(print)\n" + attacked_course.TOTAL
for magic in ("%%time", "%%timeit -n 1", "%%capture\n%%time", "\n%%time"):
    UNUSUAL[f"{magic.strip()!r} on top"] = f"{magic}\n" + attacked_course.TOTAL
UNUSUAL["a value of the course that it needs"] = (
    "from course_lib.models import TINY_GPT, parameters_by_part\nZERO = parameters_by_part(TINY_GPT)['router']\n"
    + attacked_course.TOTAL.replace("return result", "return result + ZERO")
)
UNUSUAL["what acts, when it is called"] = "from course_lib.notebook import compare\n" + attacked_course.TOTAL.replace(
    "return result", "compare(1, 2)\n    return result"
)
WHY_NOT = sandbox.why_not(str(Path(grader.__file__).parents[2]))
needs_sandbox = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
SECONDS = 6  # that one run may take; a right answer needs a small part of one, also on a busy machine
FILES = {
    "a chapter that is a list": json.dumps(
        {"cells": [], "metadata": {"course": {"chapter": []}}, "nbformat": 4, "nbformat_minor": 5}
    ),
    "invalid JSON": "{nope",
    "no notebook": "[]",
    "not UTF-8": b"\xff\xfe\x00",
    "another course": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
}
TOLD = {
    "awaits its answer": ("total = await make()\n", "await outside of a function: a notebook runs that"),
    "is made by a demo": ("total = run(print)\n", "run does nothing while an exercise cell is loaded"),
    "nests deeply": (attacked_course.TOTAL + f"x = print({3000 * '-'}1)\n", "RecursionError"),
    "patches the loading": (
        "from exercises_tests.grading import answer, loading\nanswer.load = answer._run = None\n"
        "loading.Loading.refuse = lambda *words: None\nrun(print)\n" + LAZY, "on 2 ranks the total is not"
    ),
    "breaks below a demo": (
        "run(print)\n" + attacked_course.TOTAL.replace("mine):", "mine, more=1 / 0):"), "ZeroDivisionError"
    ),
    "misses a package": (
        "import nosuchthing\n" + attacked_course.TOTAL.replace("mine.clone()", "nosuchthing.copy(mine)"),
        "only the packages that the course needs are there",
    ),
    "misses a name": (
        "ZERO = 1 / 0\n" + attacked_course.TOTAL.replace("return result", "return result + ZERO"), "ZeroDivisionError"
    ),
    "loops below": (attacked_course.TOTAL + "while True:\n    pass\n", "the simulation was still going on after"),
}
"""Cells that cannot earn their points, and words of the reason that is given."""
NAMES = ["=cmd()", "<b>bold<i>", "a,b;\"c\"", "..evil", "ünïcödé"]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, graded once: records by learner, and the folder of the grade book."""
    top = tmp_path_factory.mktemp("class")
    root, folder, out = attacked_course.make(top / "course"), top / "submissions", top / "grades"
    for name, cell in TOTAL.items() if not WHY_NOT else ():  # they must never run outside a sandbox
        attacked_course.submit(folder, name, {"total": cell})
    if not WHY_NOT:
        attacked_course.submit(folder, "hangs twice", {"total": TOTAL["sleeps"], "double": DOUBLE["never wakes up"]})
    for name, cell in DOUBLE.items():
        if not (WHY_NOT and name in DEADLY):
            attacked_course.submit(folder, name, {"double": cell})
    for name, cell in UNUSUAL.items():
        attacked_course.submit(folder, name, {"total": cell})
    for name, cell in TOLD.items():
        attacked_course.submit(folder, name, {"total": cell[0]})
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
    attacked_course.submit(folder, "cy/inner", {}, file="x.ipynb")
    for name in ("di", ".git", "linked"):
        (folder / name).mkdir()
    (folder / "linked" / "chapter.ipynb").symlink_to(folder / "empty" / "chapter.ipynb")
    records = grader.grade_class(
        folder, out, jobs=2, seed="class", seconds=SECONDS, root=root, unprotected=bool(WHY_NOT)
    )
    return {record["learner"]: record for record in records}, out


def of(graded, learner, exercise):
    return next(r for r in graded[0][learner]["results"] if r["exercise"] == exercise)



@needs_sandbox
@pytest.mark.parametrize("attack", TOTAL)
def test_an_attack_on_a_messaging_exercise_earns_nothing_and_costs_nothing_else(graded, attack):
    assert of(graded, attack, "total")["earned"] == 0, of(graded, attack, "total")["sentence"]
    assert of(graded, attack, "double")["earned"] == 1


@pytest.mark.parametrize("attack", [pytest.param(a, marks=needs_sandbox if a in DEADLY else ()) for a in DOUBLE])
def test_an_attack_on_a_plain_exercise_earns_nothing_and_costs_nothing_else(graded, attack):
    assert of(graded, attack, "double")["earned"] == 0
    assert of(graded, attack, "total")["earned"] == 2


@pytest.mark.parametrize("learner", [*UNUSUAL, *NAMES, "deleted checks"])
def test_a_right_answer_however_written_gets_full_marks(graded, learner):
    assert graded[0][learner]["earned"] == 3, graded[0][learner]["results"]


@pytest.mark.parametrize("learner", TOLD)
def test_a_cell_that_cannot_be_loaded_loses_its_own_points_only_and_says_why(graded, learner):
    assert TOLD[learner][1] in of(graded, learner, "total")["sentence"]
    assert (of(graded, learner, "total")["earned"], of(graded, learner, "double")["earned"]) == (0, 1)


@pytest.mark.parametrize("learner", ["empty", "edited checks"])
def test_unwritten_exercises_earn_nothing_and_say_so(graded, learner):
    assert graded[0][learner]["earned"] == 0
    assert of(graded, learner, "total")["code"] == "not-written"


@pytest.mark.parametrize("learner", FILES)
def test_a_file_that_is_no_chapter_is_told_in_a_sentence(graded, learner):
    assert graded[0][learner]["earned"] == 0
    assert graded[0][learner]["remark"].startswith("chapter.ipynb ")


def test_a_learner_without_a_notebook_has_a_row_and_a_page_that_say_so(graded):
    records, out = graded
    told = {name: (records[name]["earned"], records[name]["remark"]) for name in ("cy", "di")}
    assert told == {"cy": (0, "no notebook in cy/ (cy/inner/ holds x.ipynb)"), "di": (0, "no notebook in di/")}
    with open(out / "grades.csv", newline="") as file:
        rows = [row[0] for row in csv.reader(file)]
    assert rows.count("cy") == rows.count("di") == 1 and ".git" not in rows
    assert "no notebook in di/" in (out / "feedback" / "di.html").read_text()


def test_a_link_is_not_followed(graded):
    assert "not a plain file" in graded[0]["linked"]["remark"]


def test_a_helper_in_another_cell_is_named(graded):
    assert "adds is defined in another cell of your notebook" in of(graded, "helper elsewhere", "total")["sentence"]


def test_a_borrowed_answer_is_marked_and_scores_nothing(graded):
    assert of(graded, "is borrowed", "double")["code"] == "borrowed"


@needs_sandbox
def test_the_feedback_says_why(graded):
    assert f"still going on after {SECONDS} s" in of(graded, "sleeps", "total")["sentence"]
    assert "exit code 0" in of(graded, "exits quietly", "total")["sentence"]
    assert "one that holds itself" in of(graded, "returns a list that holds itself", "total")["sentence"]
    held = of(graded, "holds the judge's memory", "total")["sentence"]
    assert "256 MiB are under way" in held or "still going on" in held  # on a machine too busy to send so much
    assert "Operation not permitted" in of(graded, "takes memory that belongs to no process", "total")["sentence"]
    assert "No module named 'solutions'" in of(graded, "imports the solutions", "total")["sentence"]


@needs_sandbox
def test_a_submission_that_hung_once_is_given_half_the_time_afterwards(graded):
    assert f"still going on after {SECONDS} s" in of(graded, "hangs twice", "total")["sentence"]
    assert f"after {SECONDS // 2} s" in of(graded, "hangs twice", "double")["sentence"]


@needs_sandbox
@pytest.mark.parametrize("attack", ["loops", "loops in a process of its own", "loops, and yields the processor"])
def test_a_loop_is_told_with_the_time_that_it_was_given_and_its_line(graded, attack):
    sentence = of(graded, attack, "total")["sentence"]
    assert 1 <= int(re.search(r"still going on after (\d+) s: rank \d was at\n +line \d", sentence)[1]) <= SECONDS
    assert of(graded, attack, "total")["code"] == "timeout"


def test_the_processor_time_of_a_process_is_known_until_it_is_gone():
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        patience = time.monotonic() + 60
        while namespaces.processor_seconds(child.pid) < 0.1:
            assert time.monotonic() < patience
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
    assert namespaces.processor_seconds(child.pid) == 0.0


def test_a_run_has_had_enough_once_the_keeper_tells_of_so_much_processor_time(monkeypatch):
    told = iter([[{"spent": 1.0}, {"spent": 5.0}], [{"dead": 1, "status": 0}], [{"spent": 6.0}]])
    monkeypatch.setattr(base.Launcher, "_hear", lambda self: next(told))
    monkeypatch.setattr(base.Launcher, "run", lambda self, *words, **more: self.heard())
    launcher = judge.GradingLauncher(None, "/", 20.0, 1)
    launcher.heard = lambda: [(launcher._hear(), launcher.enough())[1] for _ in range(3)]
    assert launcher.run([{"kind": "alone"}], 20.0, broker=1) == [False, False, True]  # 20 * (0.25 + 0.05) seconds
    assert not launcher.waits_fully and launcher.seconds == 10.0
    launcher.heard = launcher.enough
    assert not launcher.run([{"kind": "alone"}], 20.0, broker=1)


@needs_sandbox
def test_the_processes_of_each_rank_are_limited_by_themselves(graded):
    count = re.search(r"(\d+) processes", of(graded, "counts the processes it may have", "total")["sentence"])
    assert int(count[1]) == namespaces.PROCESSES - 1  # and the rank itself


@needs_sandbox
def test_what_all_processes_of_a_submission_hold_together_is_limited(staying):
    group, judge_ = staying
    group.seconds = 100  # filling the memory takes long on a busy machine
    try:
        found = group.ask(judge_, request(group, "eats memory in many processes"))
    finally:
        group.seconds = SECONDS
    assert "held more than 3 GiB of memory together" in found.results[0]["sentence"]
    assert [result["earned"] for result in found.results] == [0, 1]


@needs_sandbox
@pytest.mark.parametrize(
    "attack",
    ["returns a gigabyte", "holds the judge's memory", "sends a list that has no end", "posts without end"],
)
def test_the_sandbox_stays_small_whatever_an_answer_sends(staying, attack):
    group, judge_ = staying
    asked, peak = request(group, attack), 0
    thread = threading.Thread(target=group.ask, args=(judge_, asked))
    thread.start()
    while thread.is_alive():
        peak = max(peak, held(judge_.process.pid))
        thread.join(0.1)
    assert 0 < peak < 4 << 30


def request(group, attack: str) -> dict:
    chapter = group.known[attacked_course.NAME]
    cells = attacked_course.RIGHT | {"total": TOTAL[attack]}
    return group.request(grader.Submission(attack, Path(), chapter, cells, [], 0.0))


def held(pid: int) -> int:
    """Return the bytes that a process and all below it hold."""
    pids, size = [pid], 0
    for one in pids:  # which grows
        try:
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
            size += 1024 * int(re.search(r"Pss: +(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text())[1])
        except (OSError, TypeError):
            continue
    return size


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
    assert sorted(path.name for path in out.iterdir()) == [
        "class.html", "feedback", "grades.csv", "grades.json", "similar.html"]


def test_the_grade_book_says_how_it_was_graded(graded):
    about = json.loads((graded[1] / "grades.json").read_text())
    assert about["graded with"].startswith("Graded UNPROTECTED" if WHY_NOT else "Graded in a sandbox")
    assert about["class seed"] == "class"


def test_nothing_ran_where_the_grader_runs(graded):
    assert not os.path.exists("/var/tmp/pwned") and not os.path.exists("/tmp/pwned")


def test_nothing_is_left_running(graded):
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert LEFT_BEHIND not in commands


@pytest.fixture(scope="module")
def staying(tmp_path_factory):
    """A sandbox for the small course that stays from test to test, with its grading: to start one takes seconds."""
    root = attacked_course.make(tmp_path_factory.mktemp("staying"))
    group = grader.Grading(root, "any", SECONDS, unprotected=bool(WHY_NOT))
    judge_ = group.sandbox()
    yield group, judge_
    judge_.close()
    group.close()


@pytest.fixture
def one_judge(staying, monkeypatch):
    """Put every request to the sandbox that stays. That the others end as they should is seen in the class above."""
    group, judge_ = staying

    class Staying:
        process = judge_.process

        def ask(self, *words):
            return judge_.ask(*words)

        def close(self):
            pass

    new = grader.Grading.sandbox
    alike = lambda self: bool(self.reason) == bool(group.reason)  # noqa: E731
    monkeypatch.setattr(grader.Grading, "sandbox", lambda self, *core: Staying() if alike(self) else new(self, *core))


def small_class(tmp_path):
    root, folder = attacked_course.make(tmp_path / "course"), tmp_path / "submissions"
    for name in ("ann", "bob"):
        attacked_course.submit(folder, name, {})
    return root, folder, tmp_path / "grades"


@pytest.mark.usefixtures("one_judge")
def test_an_unchanged_notebook_is_not_graded_again_and_a_changed_one_is(tmp_path, monkeypatch, staying):
    root, folder, out = small_class(tmp_path)
    first = grader.grade_class(folder, out, jobs=1, seconds=20, root=root, unprotected=bool(WHY_NOT))
    attacked_course.submit(folder, "bob", {"double": "double = 5\n"})
    asked = []
    ask = staying[1].ask
    monkeypatch.setattr(staying[1], "ask", lambda request, *more: asked.append(request) or ask(request, *more))
    again = grader.grade_class(folder, out, jobs=1, seconds=20, root=root, unprotected=bool(WHY_NOT))
    assert [record["earned"] for record in first] == [3, 3]
    assert [record["earned"] for record in again] == [3, 2]
    assert [request["cells"]["double"] for request in asked[-1:]] == ["double = 5\n"]
    assert len(asked) == 2  # the reference, and bob


@pytest.mark.usefixtures("one_judge")
def test_what_the_grader_fails_at_is_told_costs_nobody_else_and_is_no_success(tmp_path, monkeypatch, capsys):
    root, folder, out = small_class(tmp_path)
    answers_of = grader.answers_of

    def fail_once(notebook, names):
        if "bob" in notebook.metadata:
            raise KeyError("bob")
        return answers_of(notebook, names)

    path = next((folder / "bob").glob("*.ipynb"))
    whole = json.loads(path.read_text())
    whole["metadata"]["bob"] = 1
    path.write_text(json.dumps(whole))
    monkeypatch.setattr(grader, "answers_of", fail_once)
    monkeypatch.setattr("exercises_tests.grading.commands.ROOT", root)
    words = ["grade", str(folder), "--out", str(out), "--jobs", "1"]
    assert commands.main(words + (["--unprotected"] if WHY_NOT else [])) == 1
    said = capsys.readouterr()
    assert "1 of them could not be graded" in said.err and "Traceback" not in said.err + said.out
    ann, bob = json.loads((out / "grades.json").read_text())["submissions"]
    assert (ann["earned"], bob["earned"]) == (3, 0)
    assert bob["remark"] == "not graded: the grader failed (KeyError: 'bob')"


def test_a_class_is_not_graded_in_a_handout(tmp_path):
    root, folder, out = small_class(tmp_path)
    shutil.rmtree(root / "solutions")
    with pytest.raises(ChapterError, match="There is no solutions/ here, so this is a handout"):
        grader.grade_class(folder, out, jobs=1, root=root, unprotected=bool(WHY_NOT))


def test_a_second_interruption_loses_nothing_that_the_first_run_graded(tmp_path):
    root, folder, out = small_class(tmp_path)
    record = grader.empty_record("", Path("x.ipynb"), "") | {"chapter": attacked_course.NAME}
    done = [record | {"learner": learner} for learner, _ in submissions(folder)]
    grader.Class(["ann", "bob"], grader.Attempts(done)).save(out, {}, final=False)
    kept = json.loads((out / "grades.json").read_text())["submissions"]
    assert [record["learner"] for record in kept] == ["ann", "bob"]


@pytest.mark.usefixtures("one_judge")
def test_an_exercise_whose_own_solution_fails_is_not_graded(tmp_path):
    root, folder, out = small_class(tmp_path)
    (root / "solutions" / f"{attacked_course.NAME}.py").write_text(
        "def total(dist, mine):\n    return mine\n\n\n" + attacked_course.DOUBLE
    )
    records = grader.grade_class(folder, out, jobs=1, seconds=20, root=root, unprotected=bool(WHY_NOT))
    total, double = records[0]["results"]
    assert (total["graded"], double["graded"], double["earned"]) == (False, True, 1)
    assert "not graded" in (out / "grades.csv").read_text()


SLOW = attacked_course.TOTAL.replace("return result", "__import__('time').sleep(0.3)\n    return result")


@pytest.mark.usefixtures("one_judge")
@pytest.mark.parametrize("end", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_ended_halfway_a_class_is_graded_to_the_end_by_the_same_command(tmp_path, end):
    root, folder, out = small_class(tmp_path)
    attacked_course.submit(folder, "bob", {"total": SLOW})
    attacked_course.submit(folder, "cy", {"total": TOTAL["returns NaN"]})
    script = (
        "import sys; from pathlib import Path; from exercises_tests.grading import grader\n"
        f"words = Path({str(folder)!r}), Path({str(out)!r}), 1, 's', 30, Path({str(root)!r}), {bool(WHY_NOT)}\n"
        "grader.grade_class(*words)"
    )
    running = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while running.poll() is None:
            if len(read_json(out / "grades.json").get("submissions", [])) >= 1:
                break
            time.sleep(0.05)
        if end == "SIGTERM":
            running.terminate()
        else:  # the whole group, as a terminal does
            os.killpg(running.pid, getattr(signal, end))
        running.wait(30)
    finally:
        running.kill()
        running.wait()
    if end != "SIGKILL":
        assert (out / "grades.csv").exists() and (out / "feedback" / "ann.html").exists()
        assert list(Path("/var/tmp").glob(f"{room.ROOM}{running.pid}-*")) == []
    records = grader.grade_class(folder, out, jobs=1, seconds=30, root=root, unprotected=bool(WHY_NOT))
    assert {record["learner"]: record["earned"] for record in records} == {"ann": 3, "bob": 3, "cy": 1}


DAMAGED = ["[]", "{nope", "\udcff", '{"class seed": 7}', '{"class seed": "s", "submissions": 3}',
           '{"class seed": "s", "submissions": [{"learner": "ann"}]}', '{"class seed": "s", "submissions": [[]]}']


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_grade_book_is_told_in_a_sentence_and_left_as_it_is(tmp_path, text):
    root, folder, out = small_class(tmp_path)
    out.mkdir()
    (out / "grades.json").write_text(text, errors="surrogateescape")
    with pytest.raises(ChapterError, match="grades.json cannot be read .*: move it away to grade anew"):
        grader.grade_class(folder, out, jobs=1, root=root)
    assert [path.name for path in out.iterdir()] == ["grades.json"]
    assert (out / "grades.json").read_text(errors="surrogateescape") == text


def test_a_damaged_grade_book_ends_the_command_with_one_line_and_a_code(tmp_path):
    root, folder, out = small_class(tmp_path)
    out.mkdir()
    (out / "grades.json").write_text("{nope")
    command = [sys.executable, "-m", "exercises_tests", "grade", folder, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_a_notebook_is_known_in_small_letters_and_capitals(tmp_path):
    path = attacked_course.submit(tmp_path, "ann", {}, file="A.IPYNB")
    assert submissions(tmp_path) == [("ann", [path])]


def test_a_link_in_the_place_of_a_learners_folder_is_told(tmp_path):
    attacked_course.submit(tmp_path, "ann", {})
    (tmp_path / "bob").symlink_to("ann")
    assert submissions(tmp_path)[1:] == [("bob", [tmp_path / "bob"])]
    assert why_none(tmp_path / "bob") == "bob is a link, not a folder."


@pytest.mark.usefixtures("one_judge")
def test_the_first_line_the_last_the_csv_and_the_grade_book_say_which_judge_graded(tmp_path, monkeypatch, capsys):
    root, folder, out = small_class(tmp_path)
    monkeypatch.setattr(commands, "ROOT", root)
    assert commands.main(["grade", str(folder), "--out", str(out), "--jobs", "1", "--unprotected"]) == 0
    said = capsys.readouterr()
    for line in (said.out.splitlines()[0], said.out.splitlines()[-1]):
        assert "Graded UNPROTECTED (as was asked)" in line and "Code in them could" in line
    with open(out / "grades.csv", newline="") as file:
        assert [row["judge"] for row in csv.DictReader(file)] == ["unprotected"] * 2
    book = json.loads((out / "grades.json").read_text())
    assert "UNPROTECTED (as was asked)" in book["graded with"]
    assert [record["earned"] for record in book["submissions"]] == [3, 3]
    assert "2 of 2 notebooks" in said.err  # no terminal: lines in the place of a bar


def test_about_each_tenth_notebook_is_told_where_there_is_no_terminal(capsys):
    told = 0
    for count in (1, 9, 10, 11, 19, 24, 24, 25, 25):
        told = grader._tell(told, count, 25)
    assert capsys.readouterr().err.split(" of 25 notebooks\n") == ["10", "24", "25", ""]


@pytest.mark.usefixtures("one_judge")
@pytest.mark.parametrize("sandboxed", [pytest.param(True, marks=needs_sandbox), False])
def test_a_learner_is_judged_in_a_sandbox_where_there_is_one_and_told_where_not(
    tmp_path, monkeypatch, capsys, sandboxed
):
    root = attacked_course.make(tmp_path / "course")
    needs_files = attacked_course.TOTAL.replace("return result", "open('/etc/passwd')\n    return result")
    work = attacked_course.submit(root, "work", {"total": needs_files}, file=f"{attacked_course.NAME}.ipynb")
    if not sandboxed:
        monkeypatch.setattr(grader.sandbox, "why_not", lambda room: "none here")
    monkeypatch.setattr(commands, "ROOT", root)
    monkeypatch.setattr(commands, "find", lambda name: find(name, root))
    assert commands.main(["submit", work.stem]) == 0
    said = capsys.readouterr().out
    assert ("1 of 3 points" if sandboxed else "3 of 3 points") in said
    assert ("Graded without a sandbox (none here)" in said) == (not sandboxed)


def test_the_folder_one_is_in_can_be_graded_and_none_cannot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ChapterError, match="holds no .*<learner>/.*ipynb to grade"):
        commands.main(["grade", "."])
    with pytest.raises(ChapterError, match="Name the folder"):
        commands.main(["grade", ""])


@pytest.mark.parametrize("user", [0, 1000])
def test_nobody_grades_without_a_sandbox_unless_it_is_said(tmp_path, monkeypatch, user):
    root, folder, out = small_class(tmp_path)
    monkeypatch.setattr(grader.sandbox, "why_not", lambda room: "none here")
    monkeypatch.setattr(grader.os, "getuid", lambda: user)
    with pytest.raises(ChapterError, match="There is no sandbox to grade in: none here"):
        grader.grade_class(folder, out, jobs=1, root=root)


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
