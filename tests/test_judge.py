"""The judge gives the course's own solutions full marks: every check works on an answer that lives elsewhere."""

from __future__ import annotations

import os

import pytest

from course_lib.lessons.ring import three_meters
from exercises_tests import ch03_ring_all_reduce
from exercises_tests.grading import grader, sandbox
from exercises_tests.tools.chapters import ROOT, chapters, solutions

WHY_NOT = sandbox.why_not(str(ROOT))


CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
CORE = CORES[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(CORES)]


@pytest.fixture(scope="module")
def asked():
    """One judge for all chapters, and how to put a request to it."""
    group = grader.Grading(ROOT, "reference", sandboxed=not WHY_NOT)
    judge = grader.Judge(group._environ, CORE)
    yield judge, group.request
    judge.close()
    group.close()


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_the_solutions_of_a_chapter_get_full_marks_from_the_judge(asked, chapter):
    judge, request = asked
    results = judge.ask(request(chapter, solutions(chapter), [], "the course"))
    assert results is not None, "the judge died"
    assert {r["exercise"]: r["sentence"] for r in results if not r["graded"] or r["code"]} == {}
    assert sum(r["earned"] for r in results) == sum(exercise.points for exercise in chapter.exercises)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_meters_that_a_check_knows_by_formula_are_those_that_are_measured(ranks):
    by_formula = ch03_ring_all_reduce._same_meters(ranks, 24 * ranks, "CAB")
    assert by_formula == three_meters(ranks, 24 * ranks, "CAB")


@pytest.mark.skipif(CORE is None, reason="this system does not tell a process's cores")
def test_a_judge_keeps_to_its_core(asked):
    judge, request = asked
    judge.ask(request(chapters()[0], {}, [], "nobody"))
    assert os.sched_getaffinity(judge._process.pid) == {CORE}
