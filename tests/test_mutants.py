"""`make mutants` changes answers as its list says, judges every change, and ends whatever does not end by itself."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from pathlib import Path

import mutants as command
import pytest
from mutations import Mutant, mutants

from exercises_tests.tools.chapters import ROOT, ChapterError, chapters


def changes(*body, name="f", head="def f(dist, tensor):"):
    text = "\n    ".join([head, *body])
    return {f"{mutant.mutation}: {mutant.change.partition(' -> ')[2]}" for mutant in mutants(text, name)}


# The list


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("return n < 3", "another comparison: return n <= 3"),
        ("return n < 3", "another comparison: return n > 3"),
        ("return n == 3", "another comparison: return n != 3"),
        ("return a in b", "another comparison: return a not in b"),
        ("return a and b", "and, or exchanged: return a or b"),
        ("return a and b", "a condition dropped: return b"),
        ("return not a", "not dropped: return a"),
        ("return a + b", "another operation: return a - b"),
        ("return a * b", "another operation: return a / b"),
        ("return a // b", "another operation: return a / b"),
        ("return a % b", "left side alone: return a"),
        ("a += b", "assigned, not added to: a = b"),
        ("a += b", "copy instead of in place: a = anew(a) + b"),
        ("a += b", "another operation: a -= b"),
        ("return a[2:5]", "number +1: return a[3:5]"),
        ("return a[2:5]", "number -1: return a[2:4]"),
        ("return a[:b]", "slice ends earlier: return a[:b - 1]"),
        ("return a[:b]", "upper of slice dropped: return a[:]"),
        ("return a[::-1]", "step of slice dropped: return a[:]"),
        ("return a[0]", "first, last exchanged: return a[-1]"),
        ("return a[-1]", "first, last exchanged: return a[0]"),
        ("return a.chunk(4, dim=1)", "number -1: return a.chunk(4, dim=0)"),
        ("return a.chunk(4, dim=1)", "dim dropped: return a.chunk(4)"),
        ("return pow(a, b)", "arguments exchanged: return pow(b, a)"),
        ("return a.sum()", "sum, mean exchanged: return a.mean()"),
        ("return max(a)", "max, min exchanged: return min(a)"),
        ("return a if c else b", "always: return a"),
        ("return a, b", "returned in another order: return (b, a)"),
        ("return a", "nothing returned: return None"),
        ("if a: b()", "if turned: if not a:"),
        ("for i in a: b(i)", "loop backwards: for i in list(a)[::-1]:"),
        ("for i in a: b(i)", "loop without its last: for i in list(a)[:-1]:"),
        ("return range(n)", "one round less: return range(n - 1)"),
        ("a.append(1)", "put first, not last: a.insert(0, 1)"),
        ("a()", "line twice: a()"),
        ("a()", "line dropped: pass"),
        ("x = 'F', 'B'", "another text: x = ('B', 'B')"),
    ],
)
def test_a_general_change_is_made(line, change):
    assert change in changes(line)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("r = dist.get_rank()", "get_rank, get_world_size exchanged: r = dist.get_world_size()"),
        ("r = dist.get_rank()", "rank +1: r = dist.get_rank() + 1"),
        ("return rank", "rank -1: return rank - 1"),
        ("h = dist.isend(tensor, 1)", "send instead of isend: h = Done(dist.send(tensor, 1))"),
        ("dist.send(tensor, 1)", "isend not waited for: dist.isend(tensor, 1)"),
        ("dist.send(tensor, 1)", "send through float16: dist.send(through(tensor, 'float16'), 1)"),
        ("dist.recv(tensor, 1)", "irecv not waited for: dist.irecv(tensor, 1)"),
        ("dist.irecv(tensor, 1).wait()", "wait dropped: dist.irecv(tensor, 1)"),
        ("dist.all_reduce(tensor)", "async_op set, not waited for: dist.all_reduce(tensor, async_op=True)"),
        ("h = dist.all_reduce(tensor, async_op=True)", "async_op not set: h = Done(dist.all_reduce(tensor))"),
        ("dist.all_reduce(tensor)", "op MAX: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)"),
        ("dist.all_reduce(tensor)", "result on rank 0 only: dist.reduce(tensor, 0)"),
        ("dist.all_reduce(tensor)", "all_reduce in_two: in_two(dist, tensor)"),
        ("dist.all_reduce(tensor, group=g)", "group dropped: dist.all_reduce(tensor)"),
        ("dist.reduce(a, 0, op=dist.ReduceOp.MAX)", "MAX, SUM exchanged: dist.reduce(a, 0, op=dist.ReduceOp.SUM)"),
        ("dist.all_gather(a, tensor)", "pieces in reverse: dist.all_gather(list(a)[::-1], tensor)"),
        ("dist.reduce_scatter(a, b)", "pieces in reverse: dist.reduce_scatter(a, list(b)[::-1])"),
        ("dist.reduce_scatter(a, b)", "reduce_scatter by an all-reduce: reduce_scatter_by_all_reduce(dist, a, b)"),
        ("a += tensor", "sums through float16: a += through(tensor, 'float16')"),
        ("return tensor.detach()", "detach dropped: return tensor"),
        ("return tensor.clone()", "clone dropped: return tensor"),
        ("return tensor", "result of float64: return widened(tensor)"),
        ("a = torch.empty_like(tensor)", "buffer of float64: a = torch.empty_like(tensor).double()"),
        ("tensor.copy_(a)", "a name set, nothing written: tensor = a"),
    ],
)  # fmt: skip
def test_a_change_of_ranks_is_made(line, change):
    assert change in changes(line)


def test_lines_that_belong_together_are_exchanged_and_others_not():
    assert any(change.startswith("lines exchanged") for change in changes("dist.recv(a, 1)", "tensor += a"))
    assert not any(change.startswith("lines exchanged") for change in changes("a = 1", "b = 2"))


def test_docstrings_and_messages_of_errors_are_left_alone():
    assert changes('"""Take 1."""', "if tensor: raise ValueError('1 is wrong')") == {
        "always: if True:", "never: if False:", "if turned: if not tensor:", "line dropped: (nothing)",
        "line dropped: pass"}  # fmt: skip


def test_no_two_mutants_are_told_alike_and_a_second_list_is_the_same():
    text = (ROOT / "solutions" / "ch03_ring_all_reduce.py").read_text()
    told = [str(mutant) for mutant in mutants(text, "reduce_scatter_ring")]
    assert len(told) == len(set(told)) > 100
    assert told == [str(mutant) for mutant in mutants(text, "reduce_scatter_ring")]


def test_deep_changes_also_what_the_answer_calls():
    text = "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x + 1"
    assert "number +1: return x + 1 -> return x + 2" not in {f"{m.mutation}: {m.change}" for m in mutants(text, "f")}
    assert "number +1: return x + 1 -> return x + 2" in {f"{m.mutation}: {m.change}" for m in mutants(text, "f", True)}


# Judging

CHECKS = '''
import torch

from exercises_tests.judging import Case, check, expect


def total(dist, answer):
    tensor = torch.ones(2)
    answer(dist, tensor)
    return tensor


@check(value=1)
def check_total(answer, part):
    part("value")
    case = Case(3)
    for got in case.run(total, answer):
        case.same(got, torch.full((2,), 3.0), "the sum")
    return "right"


@check(value=1)
def check_weak(answer, part):
    part("value")
    expect(answer(0) == 0, "not 0", "value")  # and of no other number
    return "right"


@check(value=1)
def check_down(answer, part):
    part("value")
    expect(answer(3) == 0, "not 0", "value")
    return "right"


@check(value=1)
def check_same(answer, part):
    part("value")
    expect(answer(1) == 1, "not 1", "value")
    return "right"
'''
ANSWERS = '''
def weak(x):
    return x * 2


def same(n):
    return n


def total(dist, tensor):
    dist.all_reduce(tensor)
'''


@pytest.fixture(scope="module", autouse=True)
def checks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks_of_mutants")
    (folder / "checks_of_mutants.py").write_text(CHECKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(scope="module")
def surveyed(checks):
    return command.survey(ANSWERS, ["weak", "same", "total"], "checks_of_mutants", 2)


def codes(surveyed, exercise):
    found = [(mutant, verdict) for mutant, verdict in surveyed if mutant.exercise == exercise]
    return {f"{mutant.mutation}: {mutant.change.rpartition(' -> ')[2]}": verdict.code for mutant, verdict in found}


def test_a_change_that_a_weak_check_does_not_see_is_reported(surveyed):
    assert codes(surveyed, "weak")["number +1: return x * 3"] == "survived"
    assert codes(surveyed, "weak")["nothing returned: return None"] == "value"
    assert "weak: number +1: return x * 2 -> return x * 3" in command.report(surveyed, {})[1]


def test_a_change_that_is_known_to_be_equivalent_is_not_reported(surveyed):
    survivor = "weak: number +1: return x * 2 -> return x * 3"
    (before, *_), (after, *_) = (
        [line.split()[1:5] for line in command.report(surveyed, same)[0] if line.startswith("weak")]
        for same in ({}, {survivor: "because"})
    )
    assert survivor not in command.report(surveyed, {survivor: "because"})[1]
    assert [int(a) - int(b) for a, b in zip(after, before, strict=True)] == [0, 0, 1, -1]


def test_an_endless_mutant_ends_and_the_next_is_judged():
    sources = "while n > 0: pass\n    return n", "while n > 0: n = n - 1\n    return n"
    todo = [Mutant("down", "none", "", f"def down(n):\n    {source}") for source in sources]
    worker = command.Worker("checks_of_mutants")
    try:
        found = dict(command.verdicts([worker], todo, [1.0, 60.0]))
    finally:
        worker.end()
    assert [found[0].code, found[1].code] == ["timeout", "survived"]


def test_mutants_run_on_ranks(surveyed):
    found = codes(surveyed, "total")
    assert found["op MAX: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)"] == "value"
    assert found["all_reduce in_two: in_two(dist, tensor)"] == "survived"  # nobody looks at the bytes
    assert found["line twice: dist.all_reduce(tensor)"] == "value"


def test_a_check_that_raises_is_told_from_one_that_refuses():
    class Check:
        def outcome(answer):
            raise IndexError("in the check itself")

    verdict = command.judge(Check, Mutant("f", "none", "", "def f(): pass"))
    assert verdict.code == command.BROKE
    assert "in the check itself" in verdict.sentence


def test_rounding_what_is_no_tensor_is_not_counted(surveyed):
    assert codes(surveyed, "same")["result through float16: return through(n, 'float16')"] == command.UNSUITED
    assert [line.split()[1] for line in command.report(surveyed, {})[0] if line.startswith("same")] == ["1"]


def test_no_process_is_left(surveyed):
    assert multiprocessing.active_children() == []
    ended = time.monotonic() + 10  # a fork server sees that its notebook is gone, and ends
    while time.monotonic() < ended and (left := _fork_servers_of_nobody()):
        time.sleep(0.1)
    assert left == []


def _fork_servers_of_nobody():
    """Return the processes that were started with this test's folder in their path and have lost their parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if b"checks_of_mutants" in (folder / "environ").read_bytes() and state[0] != "Z":
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def test_an_answer_that_its_check_refuses_is_told(monkeypatch):
    monkeypatch.setattr(command, "verdicts", lambda *_: [(0, command.Verdict("value", "not 0", 0.0))])
    with pytest.raises(ChapterError, match=r"The answer to weak itself is refused: not 0"):
        command.survey("def weak(x):\n    return 1", ["weak"], "checks_of_mutants", 0)


def test_every_mutant_that_is_listed_as_equivalent_is_there_and_has_a_reason():
    listed = command.equivalent()
    told = {str(mutant)
            for chapter in chapters()
            for exercise in {name.partition(":")[0] for name in listed} & {one.id for one in chapter.exercises}
            for mutant in mutants((ROOT / "solutions" / f"{chapter.name}.py").read_text(), exercise)}
    assert sorted(listed.keys() - told) == []
    assert [mutant for mutant, because in listed.items() if len(because.split()) < 4] == []
