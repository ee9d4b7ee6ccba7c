"""What the ranks did in the failing case goes with the verdict: bounded, the learner's own ranks only, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import attacked_course
import numpy as np
import pytest

from course_lib.engine.outcome import Deadlocked
from course_lib.engine.processes import launcher
from course_lib.events import Event
from exercises_tests.grading import grader, sandbox, trail, verdicts
from exercises_tests.judging import Case, Refused, expect

WHY_NOT = sandbox.why_not(str(Path(grader.__file__).parents[2]))
RESULT = {"exercise": "total", "earned": 0, "marks": "", "parts": {"value": False}, "code": "value", "sentence": "no",
          "see": "", "borrowed": False, "events": []}  # fmt: skip
SEND = [0, "send", 0.0, 1.0, "to 1"]
CHECKS = '''
from exercises_tests.judging import Case, check
from exercises_tests.values import integers
from course_lib.ranks import each, run
from course_lib import Cluster


def total_of(dist, answer, mine):
    return answer(dist, mine)


def beside(dist, mine):
    dist.all_reduce(mine)
    return mine


@check(value=1, bytes=1)
def check_total(answer, part):
    part("value")
    for ranks in (2, 3):
        numbers = integers(ranks, (4,))
        case, other = Case(ranks, on=Cluster(1.0, 1.0)), Case(ranks, "on real ranks", real=True)
        trace = case.run(total_of, answer, each(numbers))
        run(beside, each(numbers), ranks=ranks, on=Cluster())  # something of the check's own
        other.expect(len(trace) == ranks, "is odd", "odd")
        case.also("the total").same(trace[0], sum(numbers[1:], numbers[0]), "on rank 0")
    part("bytes")
    case.at_most(max(trace.bytes_sent), 32, "sent {seen}", "bytes")
    return "sums"


@check(value=1)
def check_double(answer, part):
    part("value")
    Case(0, "double").same(answer([1.0]), [2.0], "of 1")
    return "doubles"
'''


# Read from the judge's clock


def world(ranks=2, transfers=(), events=(), failure=None):
    """A simulation that is over, as far as a trail looks at it."""
    clock = SimpleNamespace(ranks=[SimpleNamespace(now=2.0 * rank) for rank in range(ranks)],
                            transfers=np.array(transfers, dtype=float).tobytes())
    return SimpleNamespace(clock=clock, events=list(events), failure=failure)


def test_a_message_is_one_event_of_its_sender_and_one_of_its_receiver():
    assert trail.of(world(transfers=[(0, 1, 0, 0, 0.5, 1.5, 4096)])) == [
        [0, "send", 0.5, 1.5, "to 1 · 4,096 B"], [1, "recv", 0.5, 1.5, "from 0 · 4,096 B"]]


def test_ranks_that_wait_for_ever_wait_until_the_end_of_the_run_with_what_they_wait_for():
    stuck = Deadlocked([(0, "to receive from rank 1", []), (1, "to receive from rank 0", [])], [0, 1, 0], [])
    found = trail.of(world(events=[Event(0, "work", 0.0, 5.0, 0.0)], failure=stuck))
    assert found == [[0, "work", 0.0, 5.0, ""], [0, "wait", 0.0, 5.0, "to receive from rank 1"],
                     [1, "wait", 2.0, 5.0, "to receive from rank 0"]]


def test_of_a_long_run_the_earliest_are_kept_and_whoever_waits_for_ever():
    many = [(0, 1, 0, 0, float(1000 - number), 1001.0, 4) for number in range(1000)]
    stuck = Deadlocked([(1, "to receive from rank 0", [])], [], [0])
    found = trail.of(world(transfers=many, failure=stuck))
    assert len(found) == verdicts.MOST_EVENTS and found[-1][1] == "wait"
    assert [event[2] for event in found[:4]] == [1.0, 1.0, 2.0, 2.0]


def test_whatever_a_trail_holds_a_verdict_may_say():
    found = trail.of(world(ranks=3, transfers=[(0, 1, 0, 0, 1 / 3, 2 / 3, 1e12)] * 300,
                           events=[Event(2, "reduce_scatter", 0.1, 0.7, 0.0)] * 300,
                           failure=Deadlocked([(2, "in all_gather for ranks " + "1, " * 40, [])], [], [])))
    assert verdicts.events(found) == found
    line = json.dumps(RESULT | {"events": found, "sentence": "\U0001f600" * 4000, "see": "\u2713" * 4000}).encode()
    assert len(line) < verdicts.MOST_LINE and verdicts.believed(line, {"total": 2})["events"] == found


# Believed by the grader


@pytest.mark.parametrize(
    "events",
    [[SEND] * 401, [SEND[:4]], ["send"], [None], [{}], [[0.0, *SEND[1:]]], [[True, *SEND[1:]]], [[-1, *SEND[1:]]],
     [[4096, *SEND[1:]]], [[0, "explode", 0, 1, ""]], [[0, ["send"], 0, 1, ""]], [[0, "send", 2, 1, ""]],
     [[0, "send", -1, 1, ""]], [[0, "send", float("nan"), 1, ""]], [[0, "send", 0, float("inf"), ""]],
     [[0, "send", 0, 10**40, ""]], [[0, "send", False, True, ""]], [[0, "send", "0", "1", ""]],
     [[0, "send", 0, 1, None]], [[0, "send", 0, 1, ["<b>"]]], "send", {}, None],
    ids=lambda events: json.dumps(events)[:40],
)  # fmt: skip
def test_a_judge_that_was_taken_over_can_draw_nothing_else_than_a_run(events):
    with pytest.raises(ValueError):
        verdicts.believed(json.dumps(RESULT | {"events": events}).encode(), {"total": 2})


@pytest.mark.parametrize("change", [{"code": ""}, {"borrowed": True}], ids=str)
def test_no_run_is_drawn_of_what_is_right_or_borrowed(change):
    with pytest.raises(ValueError):
        verdicts.believed(json.dumps(RESULT | {"events": [SEND]} | change).encode(), {"total": 2})


def test_labels_are_cut_and_cleaned():
    said = RESULT | {"events": [[0, "send", 0, 1, "\x1b[2J\u202e" + "x" * 100]]}
    ((_, _, _, _, label),) = verdicts.believed(json.dumps(said).encode(), {"total": 2})["events"]
    assert len(label) == verdicts.MOST_LABEL and label.startswith("\ufffd[2J\ufffdxxx") and label.isprintable()


# Kept by a case


def test_a_case_with_more_words_keeps_the_run_that_it_was_made_after():
    case = Case(4)
    case.trail[:] = [SEND]
    later = case.also("after 2 steps")
    case.trail[:] = []
    with pytest.raises(Refused) as wrong:
        later.refuse("it is wrong", "value")
    assert wrong.value.trail == [SEND] and case.trail == []


def test_a_refusal_without_a_case_has_no_run():
    with pytest.raises(Refused) as wrong:
        expect(False, "it is wrong", "value")
    assert wrong.value.trail == ()


def test_in_a_notebook_nothing_is_kept():
    assert launcher.LAUNCHER.trail == ()


# Judged


ANSWERS = {
    "waits in a circle": "def total(dist, mine):\n    dist.recv(mine, 1 - dist.get_rank() % 2)\n    return mine\n",
    "keeps its own": "def total(dist, mine):\n    if dist.get_rank() < 2:\n"
    "        dist.send(mine, 1) if dist.get_rank() == 0 else dist.recv(mine.clone(), 0)\n    return mine\n",
    "sums twice": attacked_course.TOTAL.replace("def total", "def once")
    + "def total(dist, mine):\n    once(dist, mine)\n    return once(dist, mine)\n",
    "right": attacked_course.TOTAL,
    "raises": "def total(dist, mine):\n    dist.send(mine, 1) if dist.get_rank() == 0 else dist.recv(mine, 0)\n"
    "    raise ValueError('enough')\n",
    "beside a borrowed one": "def total(dist, mine):\n    double([1.0])\n"
    "    dist.send(mine, 1) if dist.get_rank() == 0 else dist.recv(mine, 0)\n    return mine\n",
    "is not written": "def total(dist, mine):\n    dist.barrier()\n    raise NotImplementedError\n",
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The result of `total` for each answer, judged as in class."""
    root = attacked_course.make(tmp_path_factory.mktemp("course"))
    (root / "exercises_tests" / f"{attacked_course.NAME}.py").write_text(CHECKS)
    group = grader.Grading(root, "any", 20, unprotected=bool(WHY_NOT))
    judge, found = group.sandbox(), {}
    try:
        for name, cell in ANSWERS.items():
            cells = attacked_course.RIGHT | {"total": cell}
            cells |= {"double": 'double = borrow("double")\n'} if "borrowed" in name else {}
            handed_in = grader.Submission(name, Path(), group.known[attacked_course.NAME], cells, [], 0.0)
            found[name] = group.ask(judge, group.request(handed_in)).results[0]
    finally:
        judge.close()
        group.close()
    return found


def test_a_deadlock_comes_with_who_waits_for_whom(judged):
    assert judged["waits in a circle"]["code"] == "deadlock"
    assert [event[:2] + event[4:] for event in judged["waits in a circle"]["events"]] == [
        [0, "wait", "to receive from rank 1"], [1, "wait", "to receive from rank 0"]]


def test_a_wrong_value_comes_with_the_messages_of_its_own_case_and_not_of_a_run_between(judged):
    assert judged["keeps its own"]["code"] == "value"
    assert judged["keeps its own"]["events"] == [
        [0, "send", 0.0, 17.0, "to 1 · 16 B"], [1, "recv", 0.0, 17.0, "from 0 · 16 B"]]


def test_too_many_bytes_come_with_the_run_that_sent_them(judged):
    assert judged["sums twice"]["code"] == "bytes" and len(judged["sums twice"]["events"]) == 2 * 12
    assert {event[0] for event in judged["sums twice"]["events"]} == {0, 1, 2}


def test_a_run_in_which_a_rank_raised_is_drawn_up_to_there(judged):
    assert judged["raises"]["code"] == "raised"
    assert {event[1] for event in judged["raises"]["events"]} == {"send", "recv"}


@pytest.mark.parametrize("name", ["right", "is not written"])
def test_what_is_right_or_not_written_has_no_picture(judged, name):
    assert judged[name]["events"] == []


def test_beside_a_borrowed_answer_nothing_is_drawn(judged):
    assert judged["beside a borrowed one"]["code"] and judged["beside a borrowed one"]["events"] == []
