"""The judge gives the course's own solutions full marks: every check works on an answer that lives elsewhere."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest

from course_lib.lessons.ring import three_meters
from exercises_tests import ch03_ring_all_reduce
from exercises_tests.grading import grader, room, sandbox
from exercises_tests.tools.chapters import ROOT, chapters, solutions, tagged

WHY_NOT = sandbox.why_not(str(ROOT))


CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
CORE = CORES[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(CORES)]


@pytest.fixture(scope="module")
def asked():
    """One judge for all chapters, and how to put a request to it."""
    group = grader.Grading(ROOT, "reference", unprotected=bool(WHY_NOT))
    judge = group.sandbox(CORE)
    yield judge, group
    judge.close()
    group.close()


def handed_in(chapter, cells):
    return grader.Submission("somebody", Path(), chapter, cells, [], 0.0)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_the_solutions_of_a_chapter_get_full_marks_from_the_judge(asked, chapter):
    judge, group = asked
    found = group.ask(judge, group.request(handed_in(chapter, solutions(chapter))))
    assert found.ended == ""
    assert {r["exercise"]: r["sentence"] for r in found.results if r["code"]} == {}
    assert sum(r["earned"] for r in found.results) == sum(exercise.points for exercise in chapter.exercises)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_meters_that_a_check_knows_by_formula_are_those_that_are_measured(ranks):
    by_formula = ch03_ring_all_reduce._same_meters(ranks, 24 * ranks, "CAB")
    assert by_formula == three_meters(ranks, 24 * ranks, "CAB")


@pytest.mark.skipif(CORE is None, reason="this system does not tell a process's cores")
def test_a_judge_keeps_to_its_core(asked):
    judge, group = asked
    group.ask(judge, group.request(handed_in(chapters()[0], {})))
    pids, cores = {judge.process.pid}, []
    while new := {int(pid) for one in pids for pid in _children(one)} - pids:  # the sandbox, and the template in it
        pids |= new
    cores = [os.sched_getaffinity(pid) for pid in pids if "template" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert {CORE} in cores


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_modules_of_the_imports_cell_are_imported_before_a_process_is_forked_for_an_answer(chapter):
    cell = "\n".join(cell.source for cell in tagged(chapter.notebook, "imports"))
    namespace = {}
    exec(cell, namespace)  # the course's own cell
    wanted = {value.__name__ for value in namespace.values() if inspect.ismodule(value)}
    assert wanted <= set(room.imported(cell)) | set(sys.builtin_module_names)
