"""The grader holds: nothing of a submission's runs in, reads from or breaks what grades it, and no row is missing."""

from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import attacked_course
import pytest
from later_attacks import FORGED
from walls import ANYWHERE, NOT_ON_REAL

from course_lib import Cluster
from course_lib.engine import current
from course_lib.engine.simulated import clock
from course_lib.engine.simulated.messages import Posting
from exercises_tests.grading import commands, grader, room, sandbox, verdicts
from exercises_tests.grading.gradebook import cell, pages
from exercises_tests.grading.judge import needed_cells
from exercises_tests.tools import untrusted
from exercises_tests.tools.chapters import ChapterError

WHY_NOT = sandbox.why_not(str(Path(grader.__file__).parents[2]))
needs_sandbox = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
SECONDS = 6
DEEP = b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NOTEBOOK = json.dumps(attacked_course.notebook(attacked_course.RIGHT))


def with_chapter(chapter) -> bytes:
    found = json.loads(NOTEBOOK)
    found["metadata"]["course"]["chapter"] = chapter
    return json.dumps(found).encode()


FILES = {
    "a list for a chapter": with_chapter([]),
    "a dict for a chapter": with_chapter({}),
    "a number for a chapter": with_chapter(5),
    "a chapter of five megabytes": with_chapter("x" * 5_000_000),
    "a formula for a chapter": with_chapter("x;=HYPERLINK(1);y"),
    "twenty megabytes of braces": b'{"cells": [], "x": [' + b"{}," * 6_000_000 + b"{}]}",
    "depth": DEEP,
    "a number of a million digits": b'{"cells": [], "x": ' + b"1" * 1_000_000 + b"}",
    "quotes without an end": b'{"cells": ["' + b'\\"' * 1_000_000,
    "no text": b"\xff\xfe\x00\x01" * 100,
    "nothing": b"",
    "null": b"null",
    "cells that are numbers": b'{"cells": [1, 2, null], "metadata": {"course": {"chapter": "ch97_attacked"}}}',
}
"""Files that hold no chapter, or nothing of it: all are worth nothing, and cost nobody else anything."""
NAMES = ["a b", "a_b-c8687a08", "A B", "eve\nvictor                   ch97_attacked            14 of 14", "\x1b[2Jesc",
         "x;=HYPERLINK(1);y", "\u202eturned", b"\xff\xfe".decode("utf-8", "surrogateescape"), "＝cmd()"]  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class in which all attacks and odd files stand beside honest learners, graded once by the command."""
    top = tmp_path_factory.mktemp("a class with spaces")
    root, folder, out = attacked_course.make(top / "the course"), top / "hand ins", top / "grades"
    for name, text in FORGED.items() if not WHY_NOT else ():
        attacked_course.submit(folder, name, {"total": text})
    for name, contents in FILES.items():
        attacked_course.submit(folder, name, contents)
    for name in [*NAMES, "honest 1", "honest 2", "z honest 3"]:
        attacked_course.submit(folder, name, {})
    attacked_course.submit(folder, "byte order mark", b"\xef\xbb\xbf" + NOTEBOOK.encode())
    marked = json.loads(NOTEBOOK)
    for one in marked["cells"]:
        one["source"] = "\ufeff" + one["source"]
    attacked_course.submit(folder, "marks in cells", json.dumps(marked))
    attacked_course.submit(folder, "two", {"double": "double = 5\n"}, file="old.ipynb")
    attacked_course.submit(folder, "two", {}, file="new.ipynb")
    os.utime(folder / "two" / "old.ipynb", (1, 1))
    attacked_course.submit(folder, "borrows", {"double": 'double = borrow("double")\n', "total": (
        "import sys\ndef total(dist, mine):\n    frame, seen = sys._getframe(), double([0]) and ''\n    while frame:\n"
        "        seen += str(dict(frame.f_locals).get('cells', ''))\n        frame = frame.f_back\n"
        "    raise ValueError('leaked: ' + seen)\n")})  # fmt: skip
    (folder / "a pipe").mkdir()
    os.mkfifo(folder / "a pipe" / "chapter.ipynb")
    (folder / "hidden").mkdir()
    attacked_course.submit(folder, "hidden", {})
    os.chmod(folder / "hidden" / "chapter.ipynb", 0)
    words = ["--out", str(out), "--seed", "s", "--seconds", str(SECONDS)] + (["--unprotected"] if WHY_NOT else [])
    script = (
        "import sys; from pathlib import Path; from exercises_tests.grading import commands\n"
        f"commands.ROOT = Path({str(root)!r}); sys.exit(commands.main(['grade', {str(folder)!r}, *{words!r}]))"
    )
    environ = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=900, env=environ)
    os.chmod(folder / "hidden" / "chapter.ipynb", 0o644)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    records = json.loads((out / "grades.json").read_text())["submissions"]
    return {record["learner"]: record for record in records}, out, done.stdout.decode()


@needs_sandbox
@pytest.mark.parametrize("attack", FORGED)
def test_a_forged_message_earns_nothing_and_costs_nothing_else(graded, attack):
    total, double = graded[0][attack]["results"]
    assert (total["earned"], double["earned"]) == (0, 1), total["sentence"]
    assert total["graded"] and total["code"] not in ("check-failed", "ended-the-judge"), total["sentence"]


@pytest.mark.parametrize("name", FILES)
def test_an_odd_file_is_told_in_a_short_sentence(graded, name):
    record = graded[0][name]
    assert record["earned"] == 0 and not record.get("fault")
    assert 0 < len(record["remark"]) <= 300 or record["results"]


@pytest.mark.parametrize("name", [*NAMES, "honest 1", "honest 2", "z honest 3", "byte order mark", "marks in cells"])
def test_an_honest_learner_beside_them_keeps_every_point(graded, name):
    assert graded[0][name]["earned"] == 3, graded[0][name]


def test_nobody_is_missing(graded):
    records, out, said = graded
    with open(out / "grades.csv", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + len(records)
    assert len(list((out / "feedback").iterdir())) == len(records)


def test_no_name_steers_the_terminal_or_forges_a_row(graded):
    records, _, said = graded
    assert "\x1b" not in said and "\u202e" not in said
    assert sum(line.startswith("victor") for line in said.splitlines()) == 0
    assert len(said.splitlines()) == len(records) + 1 + bool(WHY_NOT)


def test_two_notebooks_of_a_chapter_are_one_row_with_a_remark(graded):
    record = graded[0]["two"]
    assert (record["file"], record["earned"]) == ("new.ipynb", 3)
    assert record["remark"] == "2 notebooks of this chapter: new.ipynb, changed last, counts; old.ipynb not"


def test_a_borrowed_solution_is_not_repeated_on_the_feedback_page(graded):
    records, out, _ = graded
    total, double = records["borrows"]["results"]
    assert (total["earned"], double["code"]) == (0, "borrowed")
    assert total["sentence"].startswith("wrong (raised); what else was found is left out here")
    assert "2 * number" not in (out / "feedback" / "borrows.html").read_text()


def test_what_may_not_be_read_is_told(graded):
    remark = graded[0]["hidden"]["remark"]
    assert remark == ("" if os.getuid() == 0 else "chapter.ipynb cannot be read: Permission denied.")
    assert graded[0]["a pipe"]["remark"] == "chapter.ipynb is not a plain file."


def test_nothing_was_written_outside(graded):
    assert not os.path.exists("/var/tmp/pwned") and not os.path.exists("/tmp/pwned")


# Walls

WALLS = '''
import json
from exercises_tests.judging import alone, check, expect
from course_lib.ranks import run
from course_lib import Cluster


def seen(answer):
    return answer()


def on_ranks(dist, answer):
    return answer()


@check(value=1)
def check_probe(answer, part):
    part("value")
    found = [alone(seen, answer), run(on_ranks, answer, ranks=1, on=Cluster())[0], run(on_ranks, answer, ranks=1)[0]]
    expect(False, json.dumps(found), "told")
'''
PROBE = """
STATEMENTS = {statements!r}

def probe():
    won = []
    for number, statement in enumerate(STATEMENTS):
        space = {{"won": False}}
        try:
            exec(statement, space)
        except BaseException as error:
            continue
        if space["won"]:
            won.append(number)
    return won
"""
STATEMENTS = [*ANYWHERE.values(), *NOT_ON_REAL.values()]


@pytest.fixture(scope="module")
def walls(tmp_path_factory):
    """The statements that won: in a process alone, on a simulated rank and on a real one."""
    root = attacked_course.make(tmp_path_factory.mktemp("walls") / "course")
    (root / "exercises_tests" / f"{attacked_course.NAME}.py").write_text(WALLS)
    group = grader.Grading(root, "s")
    judge = group.sandbox()
    try:
        request = {"chapter": attacked_course.NAME, "exercises": {"probe": 1}, "others": [], "solutions": {},
                   "cells": {"probe": PROBE.format(statements=STATEMENTS)}, "imports": "", "seed": 1, "seconds": 20}
        (result,) = group.ask(judge, request).results
    finally:
        judge.close()
        group.close()
    assert result["code"] == "told", result["sentence"]
    return json.loads(result["sentence"])


@needs_sandbox
@pytest.mark.parametrize("wall", ANYWHERE)
def test_no_process_of_an_answer_has(walls, wall):
    assert [STATEMENTS.index(ANYWHERE[wall]) in won for won in walls] == [False] * 3


@needs_sandbox
@pytest.mark.parametrize("wall", NOT_ON_REAL)
def test_only_a_real_rank_has(walls, wall):
    assert [STATEMENTS.index(NOT_ON_REAL[wall]) in won for won in walls[:2]] == [False] * 2


# The judge


def request_of(group, cells, learner="somebody"):
    chapter = group.known[attacked_course.NAME]
    return group.request(grader.Submission(learner, Path(), chapter, attacked_course.RIGHT | cells, [], 0.0))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = attacked_course.make(tmp_path_factory.mktemp("small") / "course")
    group = grader.Grading(root, "s", SECONDS, unprotected=bool(WHY_NOT))
    judge = group.sandbox()
    yield group, judge
    judge.close()
    group.close()


def inside(pid: int) -> list[int]:
    """Return the processes of a sandbox below its template, the judge's among them."""
    pids = [pid]
    for one in pids:  # which grows
        try:
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
    return pids


def killing(judge, times: int):
    """Kill the youngest process of a sandbox so many times as a judge and its answers come up in it."""
    killed = 0
    calm = len(inside(judge.process.pid)) if judge.process else 0
    while killed < times:
        if judge.process is None:
            continue
        pids = inside(judge.process.pid)
        if len(pids) > max(3, calm):
            for pid in pids[-1:0:-1][:2]:
                try:
                    os.kill(pid, 9)
                except OSError:
                    continue
            killed += 1


SLOW = attacked_course.TOTAL.replace("return result", "__import__('time').sleep(0.2)\n    return result")


@needs_sandbox
def test_a_judge_that_is_killed_from_outside_is_tried_once_more(small, monkeypatch):
    group, judge = small
    group.ask(judge, request_of(group, {}))  # it is warm
    asked, ask = [], judge.ask

    def killed_once(*words):
        asked.append(words)
        if len(asked) == 1:
            threading.Thread(target=killing, args=(judge, 1)).start()
        return ask(*words)

    monkeypatch.setattr(judge, "ask", killed_once)
    found = group.ask(judge, request_of(group, {"total": SLOW}))
    assert (found.ended, [result["earned"] for result in found.results]) == ("", [2, 1])


class Dying:
    """A sandbox whose judge dies whatever it is asked."""

    asked = 0

    def ask(self, *words):
        self.asked += 1
        return verdicts.Verdicts([], verdicts.DIED)

    def close(self):
        pass


def test_one_that_dies_twice_is_told_and_graded_anew_the_next_time(small):
    group, _ = small
    group._reference[attacked_course.NAME] = {}
    chapter, judge = group.known[attacked_course.NAME], Dying()
    record = group.grade(judge, grader.Submission("x", Path("x.ipynb"), chapter, attacked_course.RIGHT, [], 0.0))
    assert judge.asked == 2 and record["digest"] == ""
    assert {result["code"] for result in record["results"]} == {"ended-the-judge"}
    assert record["remark"] == "its judge died twice, see the exercises"


def test_nobody_works_beside_one_that_works_alone():
    floor, order, inside_ = grader.Floor(), [], threading.Event()

    def alone():
        with floor.held(alone=True):
            order.append("alone")

    with floor.held(alone=False), floor.held(alone=False):
        thread = threading.Thread(target=alone)
        thread.start()
        order.append("beside")
    thread.join(10)
    assert order == ["beside", "alone"] and not inside_.is_set()


@needs_sandbox
def test_a_judge_is_dead_with_all_it_started_before_the_next_begins(small):
    group, judge = small
    group.ask(judge, request_of(group, {}))
    calm = inside(judge.process.pid)
    forks = "import os\ndef total(dist, mine):\n    os.fork()\n    return mine\n"
    group.ask(judge, request_of(group, {"total": forks}))
    assert inside(judge.process.pid) == calm


def test_a_learner_who_borrows_gives_only_that_solution_to_the_judge(small):
    group, _ = small
    assert request_of(group, {})["solutions"] == {}
    asked = request_of(group, {"double": 'x = "\\n"\ndouble = borrow("double")\n'})
    assert list(asked["solutions"]) == ["double"]


def test_the_process_of_an_answer_is_told_of_the_cells_that_it_needs_and_no_others():
    cells = {"a": "def a(): return b()", "b": "def b(): return 1", "c": "secret = 1"}
    assert list(needed_cells("a", cells)) == ["a", "b"]
    assert list(needed_cells("a", cells | {"a": "def a("})) == ["a"]


def test_a_cell_of_a_megabyte_is_not_judged(small, tmp_path):
    group, _ = small
    path = attacked_course.submit(tmp_path, "ann", {"total": "x = 1\n" * 200_000})
    handed_in = group.look("ann", path)
    assert "at most 200,000 count" in handed_in.cells["total"] and len(handed_in.cells["total"]) < 200


# What a judge may say

RESULT = {"exercise": "total", "earned": 2, "marks": "", "parts": {"value": True}, "code": "", "sentence": "sums",
          "see": "", "borrowed": False, "events": []}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"earned": 3}, {"earned": -1}, {"earned": 1.5}, {"earned": True}, {"earned": "2"}, {"exercise": "double"},
     {"exercise": []}, {"parts": []}, {"parts": {"value": 1}}, {"sentence": 5}, {"more": 1}, {"borrowed": True},
     {"sentence": "x" * 200_000}, {"parts": {"x": {"y": []}}}, {"graded": False}],
    ids=str,
)  # fmt: skip
def test_a_judge_that_was_taken_over_can_say_no_more_than_a_verdict(change):
    line = json.dumps(RESULT | change).encode()
    if "sentence" in change and isinstance(change["sentence"], str):
        assert len(verdicts.believed(line, {"total": 2})["sentence"]) == verdicts.MOST_TEXT
        return
    with pytest.raises(ValueError):
        verdicts.believed(line, {"total": 2})


@pytest.mark.parametrize("said", [b"x" * 1_000_000 + b"\n", b"{}\n", b"\n" * 5, b'{"a": ' + b"[" * 50_000, b""])
def test_what_is_no_verdict_ends_the_reading(said):
    read, write = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(write, said[:60_000]), os.close(write)))
    thread.start()
    found = verdicts.read(read, {"total": 2}, 10)
    thread.join(10)
    os.close(read)
    assert found == verdicts.Verdicts([], verdicts.DIED)


def test_a_judge_that_says_nothing_is_waited_for_no_longer_than_its_time():
    read, write = os.pipe()
    assert verdicts.read(read, {"total": 2}, 0.05).ended == verdicts.LATE
    os.close(read)
    os.close(write)


def test_what_steers_a_terminal_is_taken_out_of_a_verdict():
    line = json.dumps(RESULT | {"sentence": "a\x1b[2J\u202eb\nc", "code": "x\ny"}).encode()
    said = verdicts.believed(line, {"total": 2})
    assert (said["sentence"], said["code"]) == ("a\ufffd[2J\ufffdb\nc", "x\ufffdy")


# The grade book


def test_no_two_learners_share_a_page():
    names = ["a b", "a_b-c8687a08", "a_b", "A_B", "a_b~0", "x" * 70, "x" * 71, "..", "/", "ann", "Ann"]
    found = pages(names)
    assert len({page.lower() for page in found.values()}) == len(names)
    assert found["ann"] == "ann.html" and not any("/" in page or page.startswith(".") for page in found.values())


@pytest.mark.parametrize("text", ["=1", " =1", "x;=1", "a\n=1", "\t=1", "+1", "@x", "-1", "＝1", "y" * 5000])
def test_no_cell_of_the_csv_is_a_formula_or_long_whatever_parts_cells(text):
    found = cell(text)
    assert not any(part.lstrip().startswith(("=", "+", "-", "@", "＝")) for part in found.replace("\n", ";").split(";"))
    assert len(found) <= 501 and ";" not in found


def test_a_changed_check_library_or_chapter_is_graded_anew(tmp_path):
    root = attacked_course.make(tmp_path / "course")
    check = root / "exercises_tests" / f"{attacked_course.NAME}.py"
    chapter = root / "notebooks" / f"{attacked_course.NAME}.ipynb"

    def digest() -> str:
        group = grader.Grading(root, "s", unprotected=True)
        try:
            return group.digest(request_of(group, {}))
        finally:
            group.close()

    first = digest()
    assert digest() == first
    check.write_text(check.read_text() + "\n# changed\n")
    second = digest()
    chapter.write_text(chapter.read_text().replace("Attacked", "Attacked again"))
    assert len({first, second, digest()}) == 3


def test_another_library_has_another_digest(tmp_path):
    environ = room.make()
    folder = Path(environ["PYTHONPATH"])
    try:
        first = room.digest(str(folder), "ch03_ring_all_reduce")
        (folder / "exercises_tests" / "ch04_data_parallel.py").write_text("")  # another chapter's check
        assert room.digest(str(folder), "ch03_ring_all_reduce") == first
        (folder / "course_lib" / "events.py").write_text("")
        assert room.digest(str(folder), "ch03_ring_all_reduce") != first
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


@pytest.fixture
def instant(monkeypatch):
    """Grade by a judge that gives full marks at once; return the learners it was asked about."""
    seen = []

    class Full(Dying):
        def ask(self, request, *more):
            seen.append(request["seed"])
            results = [RESULT | {"exercise": name, "earned": points, "points": points, "graded": True}
                       for name, points in request["exercises"].items()]
            return verdicts.Verdicts(results)

    monkeypatch.setattr(grader.Grading, "sandbox", lambda self, core=None: Full())
    return seen


def class_of(tmp_path, *learners):
    root, folder = attacked_course.make(tmp_path / "course"), tmp_path / "submissions"
    for name in learners:
        attacked_course.submit(folder, name, {})
    return folder, tmp_path / "grades", root


def test_again_grades_one_learner_anew(tmp_path, instant):
    folder, out, root = class_of(tmp_path, "ann", "bob")
    grader.grade_class(folder, out, 1, "s", root=root, unprotected=True)
    before = len(instant)
    grader.grade_class(folder, out, 1, "s", root=root, unprotected=True)
    assert len(instant) == before
    grader.grade_class(folder, out, 1, "s", root=root, unprotected=True, again=["ann"])
    assert len(instant) == before + 2  # the reference, and ann
    with pytest.raises(ChapterError, match="--again eve: .* has no such learner"):
        grader.grade_class(folder, out, 1, "s", root=root, unprotected=True, again=["eve"])


def test_a_missing_row_ends_the_command_with_a_code(tmp_path, instant, monkeypatch):
    folder, out, root = class_of(tmp_path, "ann", "bob")
    handed_in = grader.Grading.handed_in

    def lost(self, learner, *more):
        return iter(()) if learner == "bob" else handed_in(self, learner, *more)

    monkeypatch.setattr(grader.Grading, "handed_in", lost)
    with pytest.raises(ChapterError, match="1 learners have no row in .*: bob. Run the command again."):
        grader.grade_class(folder, out, 1, "s", root=root, unprotected=True)


def test_a_sandbox_that_does_not_start_is_nobodys_zero(tmp_path, monkeypatch, capsys):
    folder, out, root = class_of(tmp_path, "ann")

    class Cold(Dying):
        def ask(self, *words):
            raise ConnectionError("no sandbox: why")

    monkeypatch.setattr(grader.Grading, "sandbox", lambda self, core=None: Cold())
    monkeypatch.setattr(commands, "ROOT", root)
    assert commands.main(["grade", str(folder), "--out", str(out), "--unprotected"]) == 1
    (record,) = json.loads((out / "grades.json").read_text())["submissions"]
    assert record["remark"] == "not graded: the grader failed (ConnectionError: no sandbox: why)"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_folder_that_nobody_may_read_is_a_row_with_a_remark(tmp_path, instant, mode):
    folder, out, root = class_of(tmp_path, "ann", "bob")
    os.chmod(folder / "ann", mode)
    try:
        records = grader.grade_class(folder, out, 1, "s", root=root, unprotected=True)
    finally:
        os.chmod(folder / "ann", stat.S_IRWXU)
    assert [record["earned"] for record in records] == [0, 3] and "read" in records[0]["remark"]


def test_text_is_bounded_before_it_is_parsed():
    for data, words in ((b"[" * 100, "deep"), (b"[" + b"1," * 600_000 + b"1]", "parts")):
        with pytest.raises(ValueError, match=words):
            untrusted.loads(data)
    signs = b'\xef\xbb\xbf{"a": "[[[[,,,,\\\\\\"{{"}'
    assert untrusted.loads(signs, most_parts=2, most_depth=1) == {"a": '[[[[,,,,\\"{{'}


# Clocks and counts


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf"), -1, "1"])
@pytest.mark.parametrize("what", ["seconds", "flops"])
def test_work_takes_a_finite_number_that_is_not_negative(amount, what):
    with pytest.raises(ValueError, match="it takes a finite number that is not negative"):
        current.seconds_of(*((amount, None) if what == "seconds" else (None, amount)), 1e12)


@pytest.mark.parametrize(("tag", "named", "counted"), [(0, True, 0), (5, True, 8), (0, False, 8)])
def test_an_empty_message_counts_for_the_grader_if_its_tag_or_sender_tells_something(tag, named, counted):
    import torch

    clock_ = clock.Clock(2, Cluster().link)
    clock_.hint = 8
    for rank, kind, way in ((1, "recv", (0 if named else None, 1)), (0, "send", (0, 1))):
        posting = Posting(clock_.ranks[rank], kind, clock_.channel(*way, tag, 0), 0, 0.0, torch.empty(0))
        clock_.post(posting)
    assert clock._packed(0, 1, 0.0, 0.0, 0.0, posting.end, counted) == bytes(clock_.transfers)
