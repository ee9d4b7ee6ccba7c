"""Checks of chapter 2: what collectives return, in how many rounds, with how many bytes, and through whom."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch

from course_lib import Cluster, Deadlock, RankFailed, Results, each, run
from course_lib.lessons.clinic import FAULTS, patient
from exercises_tests.judging import SECONDS, STEPS, Case, Hint, Mistake, Refused, check, expect
from exercises_tests.values import (
    all_digits,
    different,
    equal,
    numbers,
    on_ranks,
    rounded,
    same,
    versus,
)

DTYPES = ("float32", "int64", "float64", "bfloat16")

# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def in_place(dist: Any, answer: Any, mine: torch.Tensor, *more: Any) -> Any:
    returned = answer(dist, mine, *more)
    return mine, returned if isinstance(returned, torch.Tensor) else None


def returned(dist: Any, answer: Any, given: Any) -> Any:
    return answer(dist, given)


def with_given(dist: Any, answer: Any, given: Any) -> Any:
    return answer(dist, given), given


class _Noting:
    """A `dist` that notes to whom its rank sends, in the order in which it starts to."""

    def __init__(self, dist: Any) -> None:
        self._dist, self.sent_to = dist, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dist, name)

    def send(self, tensor: torch.Tensor, dst: Any = None, *args: Any, **more: Any) -> Any:
        self.sent_to.append(more.get("group_dst") if dst is None else dst)
        return self._dist.send(tensor, dst, *args, **more)

    def isend(self, tensor: torch.Tensor, dst: Any = None, *args: Any, **more: Any) -> Any:
        self.sent_to.append(more.get("group_dst") if dst is None else dst)
        return self._dist.isend(tensor, dst, *args, **more)

    def batch_isend_irecv(self, ops: list) -> Any:
        self.sent_to += [op.group_peer if op.peer is None else op.peer for op in ops if op.name == "isend"]
        return self._dist.batch_isend_irecv(ops)


def sent_to(dist: Any, answer: Any, given: Any) -> list:
    noting = _Noting(dist)
    answer(noting, given)
    return noting.sent_to


def refused(dist: Any, answer: Any, tensor: torch.Tensor, root: int) -> str:
    try:
        answer(dist, tensor, root)
    except Exception as error:
        return type(error).__name__
    return "no error"


def members_of(dist: Any, answer: Any, per_node: int) -> Any:
    group = answer(dist, per_node)
    return None if group is None else dist.get_process_group_ranks(group)


def with_group(dist: Any, answer: Any, mine: torch.Tensor, per_node: int) -> Any:
    group = answer(dist, per_node)
    if group is None:
        return None
    members = dist.get_process_group_ranks(group)
    if dist.get_rank() in members:
        dist.all_reduce(mine, group=group)
    return members, mine


def one_snippet(dist: Any, answer: Any, name: str, arguments: tuple) -> Any:
    return getattr(answer, name)(dist, *arguments)


def every_snippet(dist: Any, answer: Any, given: dict) -> dict:
    return {name: getattr(answer, name)(dist, *arguments) for name, arguments in given.items()}


# Lines with which a learner sees a wrong value: whose number is where


KNOWN = ("float32", "int64")  # dtypes that torch.full makes of a number without being told
LOST = "Digits were lost: send {dtype} as it is"
WHOSE, WHICH = "rank r has r", "rank r has 10 r + i for rank i"  # the numbers of such a line, which are not the check's


def _see(call: str, ranks: int, real: bool = False, has: str = WHOSE) -> str:
    return f"run(lambda dist: {call}, ranks={ranks}{'' if real else ', on=Cluster()'})  # where {has}"


def _full(shape: tuple, dtype: str, chunk: bool = False) -> str:
    """Return the source of a tensor that shows whose it is, and of a list's place i; whole or not as its dtype."""
    point, kind = ("" if dtype == "int64" else ".0"), ("" if dtype in KNOWN else f", dtype=torch.{dtype}")
    number = f"10{point} * dist.get_rank() + i" if chunk else f"1{point} * dist.get_rank()"
    return f"torch.full({shape}, {number}{kind})"


# broadcast_tree

TREE = "run(broadcast_tree, torch.ones(4), {root}, ranks={ranks}, on=Cluster())"


def _broadcast(
    answer: Any,
    ranks: int,
    root: int,
    shape: tuple = (4,),
    dtype: str = "float32",
    digits: bool = False,
    **on: Any,
) -> Results:
    see = _see(f"(t := {_full(shape, dtype)}, broadcast_tree(dist, t, {root}))[0]", ranks, on.get("real", False))
    case = Case(ranks, f"from root {root}{f' with {dtype}' if digits else ''}", see=see, **on)
    given = (all_digits if digits else different)(ranks, shape, dtype)
    trace = case.run(in_place, answer, each(given), root)
    for rank, (mine, back) in enumerate(trace):
        differs = versus(mine, "the root had", given[root])
        elsewhere = "is as before, and the function returned the right one: receive into the tensor it was given"
        mistakes = [
            Mistake("not-in-place", equal(mine, given[rank]) and equal(back, given[root]), elsewhere),
            Mistake(
                "root-ignored", given[0], f"{differs}. This is rank 0's: count places from the root, (rank - root) % P"
            ),
            Mistake("not-reached", given[rank], f"{differs}. It is as before: nothing reached this rank"),
            Mistake("digits", rounded(mine, given[root]), f"{differs}. {LOST.format(dtype=dtype)}"),
        ]
        case.same(mine, given[root], f"the tensor on rank {rank}", *mistakes, says="the root had")
    case.no_builtin(trace)
    return trace


@check(value=2, any_root_any_P=1, rounds=2, messages=1)
def check_broadcast_tree(answer: Any, part: Any) -> str:
    part("value")
    for ranks in (2, 4, 8):
        _broadcast(answer, ranks, 0)
    _broadcast(answer, 4, 0, real=True)
    part("any root any P")
    for ranks, root in ((1, 0), (4, 2), (3, 1), (5, 4), (7, 3), (6, 5)):
        _broadcast(answer, ranks, root)
    _broadcast(answer, 3, 1, (0,))
    _broadcast(answer, 3, 2, (2, 2), "int64")
    for dtype in DTYPES:
        _broadcast(answer, 3, 2, (4,), dtype, digits=True)
    for root in (4, -1):
        _refuses(answer, root)
    part("rounds")
    for ranks, root in ((4, 0), (8, 3), (7, 6)):
        trace = _broadcast(answer, ranks, root, on=STEPS)
        code, why = "rounds", "in each round everyone who has the tensor sends it"
        if trace.messages_sent[root] == ranks - 1:
            code, why = "linear", f"the root sends all {ranks - 1} of them, and whoever has the tensor can send too"
        elif max(trace.messages_sent) == 1:
            code, why = "chain", "every rank sends only once, so the tensor goes along a chain; send in every round"
        Case(ranks, f"from root {root}", see=f"timeline({TREE.format(ranks=ranks, root=root)})").at_most(
            trace.seconds,
            math.ceil(math.log2(ranks)),
            f"it took {{seen}} messages one after the other; a tree takes {{bound}}: {why}",
            code,
        )
    part("messages")
    for ranks, root in ((4, 1), (7, 0)):
        _sends_what_it_has(_broadcast(answer, ranks, root), ranks, root)
    return "any root, 1 to 8 ranks · ceil(log2 P) rounds · P-1 messages · sends only what it has"


def _refuses(answer: Any, root: int) -> None:
    """Judge that a root that is no rank raises ValueError, and on every rank."""
    case = Case(4, f"with root={root}", see=TREE.format(ranks=4, root=root))
    some, code = "only some ranks refuse it, and every rank has to check", "not-on-every-rank"
    try:
        got = list(run(refused, answer, torch.ones(4), root, ranks=4, on=Cluster(), timeout=SECONDS))
    except Deadlock:  # also where one rank refuses and the others wait for it
        got = case.run(in_place, answer, torch.ones(4), root, hints=[Hint("raised ValueError", some, code)])
    except RankFailed as failure:
        case.failed(failure)
    raised = [name == "ValueError" for name in got]
    case.expect(all(raised) or not any(raised), some, code)
    other = next((name for name in got if name not in ("ValueError", "no error")), None)
    case.expect(other is None, f"it raised {other}; it should be ValueError", "other-error")
    told = "there is no such rank, and a caller who does not hear of it goes on with wrong data"
    case.expect(all(raised), f"it raised no ValueError: {told}", "root-not-refused")


def _sends_what_it_has(trace: Results, ranks: int, root: int) -> None:
    case = Case(ranks, f"from root {root}", see=f"timeline({TREE.format(ranks=ranks, root=root)})")
    for rank in set(range(ranks)) - {root}:
        arrived = [event.end for event in trace.of(rank, "recv")] or [math.inf]
        for event in trace.of(rank, "send"):
            told = f"rank {rank} sends to rank {event.peer} before the tensor has reached it"
            case.expect(event.start >= arrived[0], told, "sends-too-early")
    told = "it took {seen} messages; each of the other {bound} ranks needs the tensor once"
    case.at_most(sum(trace.messages_sent), ranks - 1, told, "too-many-messages")


# reduce_scatter_by_hand, all_gather_by_hand, all_to_all_by_hand


@dataclass
class ByHand:
    """An answer to one of the three exercises."""

    name: str
    answer: Any
    why: str
    """Why P-1 tensors are enough for each rank to send."""

    def __post_init__(self) -> None:
        self.sums, self.gathers, self.exchanges = (
            self.name.startswith(f"{kind}_by_hand") for kind in ("reduce_scatter", "all_gather", "all_to_all")
        )

    def given(self, ranks: int, shape: tuple = (4,), dtype: str = "float32", draw: Any = different) -> list:
        """Return for each rank a tensor, or a list of one chunk for every rank; all are different."""
        if self.gathers:
            return draw(ranks, shape, dtype)
        flat = draw(ranks * ranks, shape, dtype)
        return [flat[rank * ranks : (rank + 1) * ranks] for rank in range(ranks)]

    def wanted(self, given: list) -> list:
        """Return what each rank must return."""
        if self.gathers:
            return [given] * len(given)
        columns = [list(chunks) for chunks in zip(*given, strict=True)]
        return [sum(chunks) for chunks in columns] if self.sums else columns

    def given_as_typed(self, ranks: int, shape: tuple = (4,), dtype: str = "float32") -> str:
        """Return the source of what a rank is given in a line that shows whose number is where."""
        one = _full(shape, dtype, chunk=not self.gathers)
        return one if self.gathers else f"[{one} for i in range({ranks})]"

    def see_run(self, ranks: int, dtype: str = "float32") -> str:
        """Return a line to count bytes or messages with: every tensor may hold the same."""
        one = f"torch.ones(64{'' if dtype in KNOWN else f', dtype=torch.{dtype}'})"
        given = one if self.gathers else f"[{one}] * {ranks}"
        return f"run({self.name}, {given}, ranks={ranks}, on=Cluster())"

    def run(
        self, ranks: int, shape: tuple = (4,), dtype: str = "float32", digits: bool = False, **on: Any
    ) -> Results:
        """Run the answer and judge what every rank returns."""
        call = f"{self.name}(dist, {self.given_as_typed(ranks, shape, dtype)})"
        see = _see(call, ranks, on.get("real", False), WHOSE if self.gathers else WHICH)
        case = Case(ranks, f"with {dtype}" if digits else "", see=see, **on)
        given = self.given(ranks, shape, dtype, all_digits if digits else different)
        want = self.wanted(given)
        trace = case.run(returned, self.answer, each(given))
        for rank, got in enumerate(trace):
            (_judge_sum if self.sums else _judge_list)(case, rank, got, want, given[rank])
        case.no_builtin(trace)
        return trace

    def judge_parts(self, part: Any) -> None:
        part("value")
        for ranks in (2, 4):
            self.run(ranks)
        self.run(3, real=True)
        if self.sums:
            part("chunks kept")
            self.judge_chunks_kept(4)
        part("any P")
        for ranks in (1, 3, 7):
            self.run(ranks)
        self.run(3, (0,))
        self.run(3, (2, 2), "int64")
        self.run(3, (2, 2), "int32")
        for dtype in DTYPES:
            self.run(3, (4,), dtype, digits=True)
        part("bytes")
        self.judge_bytes(4, 64)
        self.judge_bytes(4, 64, "float16")
        if self.exchanges:
            part("no hot spot")
            self.judge_hot_spot(self.run(6, on=STEPS), Case(6, see=f"timeline({self.see_run(6)})"))
        part("rounds")
        for ranks, most in ((4, 3), (6, 5)) if self.exchanges else ((5, 8),):
            self.judge_rounds(ranks, most)

    def judge_chunks_kept(self, ranks: int) -> None:
        call = f"(given := {self.given_as_typed(ranks)}, {self.name}(dist, given))[0]"
        case, before = Case(ranks, see=_see(call, ranks, has=WHICH)), self.given(ranks)
        for rank, (_, after) in enumerate(case.run(with_given, self.answer, each(before))):
            here = f"rank {rank} changed the chunks that its caller passed:"
            leave = "Leave them as they are, and add up in a copy: clone()"
            for now, then in zip(after, before[rank], strict=False) if isinstance(after, list) else ():
                told = f"{here} one held {numbers(then)} and holds {numbers(now)}. {leave}"
                case.expect(equal(now, then), told, "changes-chunks")
            case.expect(equal(after, before[rank]), f"{here} the list is another one. {leave}", "changes-chunks")

    def judge_bytes(self, ranks: int, elements: int, dtype: str = "float32") -> None:
        """Judge what each rank sends and receives; where one alone does more than P-1 pieces, all goes through it."""
        nbytes = elements * getattr(torch, dtype).itemsize
        of = "" if dtype == "float32" else f" of {dtype}"
        case = Case(ranks, f"with tensors{of} of {nbytes} bytes", see=self.see_run(ranks, dtype))
        trace, bound = self.run(ranks, (elements,), dtype), (ranks - 1) * nbytes
        if self.sums and min(trace.bytes_sent) >= ranks * bound:
            told = "each rank sent {seen} bytes, all its chunks to everyone; {bound} will do: send each rank only the "
            told += "chunk that it adds up"
            case.at_most(max(trace.bytes_sent), bound, told, "gathers-everything", f"{case.see}.bytes_sent")
        for word, amounts in (("received", trace.bytes_received), ("sent", trace.bytes_sent)):
            if sum(amount > bound for amount in amounts) == 1:
                told = f"rank {amounts.index(max(amounts))} {word} {{seen}} bytes, and no other rank that many: "
                told += f"everything goes through it. {{bound}} bytes will do on every rank: {self.why}"
                case.at_most(max(amounts), bound, told, "through-one-rank", f"{case.see}.bytes_{word}")
        most = max(*trace.bytes_sent, *trace.bytes_received)
        case.at_most(most, bound, f"a rank sent {{seen}} bytes; {{bound}} will do: {self.why}", "too-many-bytes")

    def judge_rounds(self, ranks: int, most: int) -> None:
        """Judge the longest chain of messages: P-1 will do, and up to `most` pass where the ranks take turns."""
        trace, case = self.run(ranks, on=STEPS), Case(ranks, see=f"timeline({self.see_run(ranks)})")
        if trace.seconds <= ranks - 1 or self.posts_rounds(trace, case):
            return
        told = f"it took {{seen}} messages one after the other; {ranks - 1} will do: in each round every rank sends "
        told += "one chunk and receives one, and waits before the next round"
        case.at_most(trace.seconds, most, told, "too-many-rounds")
        self.judge_hot_spot(trace, case)

    def orders(self, case: Case) -> list[list[int]]:
        """Return to whom each rank sends, in the order in which it starts to."""
        return list(case.run(sent_to, self.answer, each(self.given(case.ranks))))

    def posts_rounds(self, trace: Results, case: Case) -> bool:
        """Return whether all ranks start all their sends at once, in such an order that nobody is sent two in a round.

        The simulator serves messages that are ready at the same time in the order of ranks; a network need not, and so
        the order in which they were started counts, not what became of it.
        """
        if any(len({event.posted for event in trace.of(rank, "send")}) > 1 for rank in range(case.ranks)):
            return False
        rounds = zip(*self.orders(case), strict=False)
        return all(len(set(targets)) == case.ranks for targets in rounds)

    def judge_hot_spot(self, trace: Results, case: Case) -> None:
        """Judge to whom each rank sends first: not most of them to the same one."""
        if self.posts_rounds(trace, case):
            return
        firsts = [order[0] for order in self.orders(case) if order]
        target = max(set(firsts), key=firsts.count)
        told = f"{{seen}} of them send to rank {target} first and stand in line there, while the other ranks receive "
        told += f"nothing; it took {trace.seconds:g} messages one after the other, and {case.ranks - 1} will do. In "
        told += "step s send to the rank s places to the right"
        case.at_most(firsts.count(target), case.ranks // 2, told, "hot-spot")


def _judge_sum(case: Case, rank: int, got: Any, sums: list, given: list) -> None:
    """Refuse what is not the sum of all ranks' chunk `rank`."""
    want, what = sums[rank], f"the sum of all ranks' chunk {rank}"
    case.expect(isinstance(got, torch.Tensor), f"rank {rank} returned {numbers(got)}: return a tensor, {what}", "form")
    mine, theirs = (str(tensor.dtype).removeprefix("torch.") for tensor in (got, want))
    told = f"rank {rank} returned {mine}; the chunks are {theirs}: keep their dtype"
    alike = not got.is_complex() and equal(got.double(), want.double())
    case.expect(mine == theirs or not alike, told, "dtype")
    other = f"is {numbers(got)}, the sum of chunk {{}}; rank {rank} is to get chunk {rank}"
    mistakes = [
        Mistake("own-chunk", given[rank], f"{versus(got, f'{what} is', want)}. It is its own chunk {rank}"),
        Mistake("digits", rounded(got, want), f"{versus(got, f'{what} is', want)}. {LOST.format(dtype=theirs)}"),
        Mistake(
            "mean", want / len(sums), f"{versus(got, f'{what} is', want)}. It is the mean: do not divide by {len(sums)}"
        ),
        *(Mistake("wrong-chunk", value, other.format(place)) for place, value in enumerate(sums)),
    ]
    case.same(got, want, f"what rank {rank} returned", *mistakes)


def _judge_list(case: Case, rank: int, got: Any, wanted: list, given: Any) -> None:
    """Refuse what is not the list of what all ranks had for `rank`, place by place."""
    want, here = wanted[rank], f"rank {rank} returned"
    told = f"{here} {numbers(got)}: return a list of {len(want)} tensors, in the order of ranks"
    case.expect(isinstance(got, (list, tuple)), told, "form")
    case.expect(len(got) == len(want), f"{here} {len(got)} tensors; there are {len(want)} ranks", "form")
    told = f"{here} its own chunks; place i of what it returns is to be the chunk that rank i had for it"
    case.expect(equal(got, want) or not equal(got, given), told, "own-chunks")
    reordered = all(any(equal(one, other) for other in want) for one in got)
    for place, (one, right) in enumerate(zip(got, want, strict=True)):
        whose = f"chunk {rank} of rank {place} is" if isinstance(given, list) else f"the tensor of rank {place} is"
        told = f"{versus(one, whose, right)}: these are the right tensors in another order or some of them twice"
        dtype, exchange = str(right.dtype)[6:], isinstance(given, list)
        left = place == rank and all(equal(got[other], want[other]) for other in range(len(want)) if other != rank)
        own = f"is {numbers(one)}, and all others are right: this place is for its own "
        own += f"{'chunk' if exchange else 'tensor'}, which no message brings: put it there"
        lost = f"{versus(one, whose, right)}. {LOST.format(dtype=dtype)}"
        mistakes = [
            Mistake("order", reordered, told),
            Mistake("digits", rounded(one, right), lost),
            Mistake("own-missing", left, own),
        ]
        case.same(one, right, f"place {place} of what {here}", *mistakes, says=whose)


@check(value=1, chunks_kept=1, any_P=1, bytes=1, rounds=1)
def check_reduce_scatter_by_hand(answer: Any, part: Any) -> str:
    why = "each rank needs P-1 chunks, one from every other"
    ByHand("reduce_scatter_by_hand", answer, why).judge_parts(part)
    return "sums on 1, 2, 3, 4 and 7 ranks · P-1 chunks sent by each"


@check(value=2, any_P=1, bytes=1, rounds=1)
def check_all_gather_by_hand(answer: Any, part: Any) -> str:
    why = "each rank lacks P-1 tensors, and each of them is sent on once"
    ByHand("all_gather_by_hand", answer, why).judge_parts(part)
    return "all tensors in order on 1, 2, 3, 4 and 7 ranks · P-1 tensors sent by each"


@check(value=2, any_P=1, bytes=1, no_hot_spot=1, rounds=1)
def check_all_to_all_by_hand(answer: Any, part: Any) -> str:
    why = "each chunk goes straight to the one rank that needs it"
    ByHand("all_to_all_by_hand", answer, why).judge_parts(part)
    return "every chunk arrives on 1, 2, 3, 4 and 7 ranks · P-1 rounds · no hot spot"


# my_node_group

SUM_OF_GROUP = "run(lambda dist: dist.all_reduce(torch.ones(1), group=my_node_group(dist, {})), ranks={}, on=Cluster())"
GROUP = "run(lambda dist: dist.get_process_group_ranks(my_node_group(dist, {})), ranks={}, on=Cluster())"


def _grouped(answer: Any, ranks: int, per_node: int, real: bool = False) -> None:
    tensors = different(ranks, (2,))
    nodes = [list(range(first, min(first + per_node, ranks))) for first in range(0, ranks, per_node)]
    own = [nodes[rank // per_node] for rank in range(ranks)]
    sums = [sum(tensors[member] for member in members) for members in own]
    case = Case(ranks, f"with {per_node} on each node", real, see=GROUP.format(per_node, ranks))
    try:
        on = None if real else Cluster()
        trace = case.ran(run(with_group, answer, each(tensors), per_node, ranks=ranks, on=on, timeout=SECONDS))
    except RankFailed as failure:
        said, stuck = str(failure), isinstance(failure, Deadlock)
        case.expect(
            "new_group" not in said or not (" called " in said or stuck),
            f"{said.split(': all ranks of a group')[0]}. Every rank of the world calls new_group for every group, in "
            "the same order, also for groups that it is not in",
            "members-only",
        )
        if stuck and "in all_reduce" in said:
            _judge_members(case, replace(case, trail=[]).run(members_of, answer, per_node), own)  # another run
            case.refuse(
                f"ranks {own[0][0]} and {own[0][-1]} hold different groups with the same ranks, so that none meets the "
                "other in a collective; make each node's group once",
                "several-groups",
                SUM_OF_GROUP.format(per_node, ranks),
            )
        smaller = Hint("ValueError: new_group", f"The last node may hold fewer: here ranks {nodes[-1]}")
        case.failed(failure, [smaller] if len(nodes[-1]) < len(nodes[0]) else [], answer)
    _judge_members(case, [None if got is None else got[0] for got in trace], own)
    for rank, (_, total) in enumerate(trace):
        case.same(total, sums[rank], f"the sum over the group of rank {rank}", says="over its node it is")


def _judge_members(case: Case, found: Any, own: list) -> None:
    """Judge of which ranks each rank's group is."""
    inside = [rank for rank, members in enumerate(found) if members is not None and rank in members]
    which = ", not the last one made" if inside == own[-1] else ", not the first one made" if inside == own[0] else ""
    for rank, members in enumerate(found):
        case.expect(members is not None, f"rank {rank} returned None: return the group of its node", "none")
        told = f"rank {rank} returned a group that it is not in; its node is {own[rank]}: keep the group of your own "
        told += "node"
        case.expect(rank in members, f"{told}{which}", "not-a-member")
        told = f"rank {rank} returned the group of ranks {members}; its node is {own[rank]}"
        case.expect(members == own[rank], told, "wrong-members")


@check(value=2, any_P=1)
def check_my_node_group(answer: Any, part: Any) -> str:
    part("value")
    for ranks, per_node in ((4, 2), (6, 3)):
        _grouped(answer, ranks, per_node)
    _grouped(answer, 4, 2, real=True)
    part("any P")
    for ranks, per_node in ((1, 1), (8, 4), (5, 2), (3, 4), (4, 1)):
        _grouped(answer, ranks, per_node)
    return "the group of its node on 1 to 8 ranks, also of a smaller last one · made by all ranks"


# The clinic: snippets of the notebook, what each is given, and what a repaired one returns

HEADS = {
    name: f"def {name}(dist, {'loss, gradient' if name == 'sum_both' else 'loss' if '_0' in name else 'tensor'})"
    for name in FAULTS
}
MEND = "To mend: "


def _judge_snippet(answer: Any, name: str, ranks: int, more: float = 0.0) -> None:
    case = Case(ranks, see=f"diagnose(clinic.{name}, ranks={ranks})", words=f"{name} {on_ranks(ranks)}")
    given, want = patient(name, ranks, more)
    try:
        trace = case.ran(run(one_snippet, answer, name, each(given), ranks=ranks, on=Cluster(), timeout=SECONDS))
    except RankFailed as failure:
        expect(failure.error != "NotImplementedError", f"{name} is not repaired yet", "not-written", case.see)
        missing = failure.error == "AttributeError" and f"attribute '{name}'" in str(failure)
        expect(not missing, f"{name} is missing in the class", "missing", case.see)
        case.failed(failure, _hints(name, failure))
    for rank, (got, right) in enumerate(zip(trace, want, strict=True)):
        told = f"returned {numbers(got)}; right is {numbers(right)}"
        known = [Mistake("value", value, f"{told}: {why}") for value, why in _mistakes(name, rank, given, want)]
        lost = bool(more) and same(_plain(got), _plain(right), 1e-3)
        known.append(Mistake("digits", lost, "has lost digits: its tensors are float32, so send and return float32"))
        case.same(_plain(got), _plain(right), f"rank {rank}", *known, Mistake("value", True, told))
    if name in ("swap_with_neighbour", "pass_right"):
        told = "a rank sent {seen} bytes; its tensor has {bound}, and it goes to one rank"
        case.at_most(max(trace.bytes_sent), 12, told, "too-many-bytes")


def _hints(name: str, failure: RankFailed) -> list[Hint]:
    """Return what a snippet that raised or hangs is told: the known fault only where it is that one."""
    said, stuck = str(failure), isinstance(failure, Deadlock)
    known = {
        "sum_for_rank_0": stuck and "in all_reduce for rank" in said,
        "swap_with_neighbour": stuck and "to send " in said and " to receive " not in said,
        "sum_in_node": "is not in this group" in said,
    }
    hints = [Hint(f"{name}() ", f"the five take no self: {HEADS[name]}", "signature")]
    if known.get(name):
        hints.append(Hint("", f"{MEND}{FAULTS[name]}"))
    elif name == "sum_in_node" and " called " in said:
        hints.append(Hint("new_group", f"{MEND}every rank makes every group, in the same order"))
    return hints  # a dropped handle tells its mistake itself


def _mistakes(name: str, rank: int, given: list, want: list) -> list[tuple]:
    """Return what known mistakes in a snippet lead to on a rank, and words for each."""
    own = (given[rank][0], "that is its own tensor")
    if name == "sum_both":  # mixed where rank 0 brought its loss to the others' gradients, and the other way round
        (loss, gradient), (mine, other) = want[0], given[0]
        mixed = [gradient - other + mine, loss - mine + other]
        return [([gradient, loss], "the results are swapped"), (mixed, FAULTS[name]), (mixed[::-1], FAULTS[name])]
    if name == "sum_for_rank_0":
        return [(want[0], "only rank 0 returns it")]
    if name == "pass_right":
        left = given[(rank + 1) % len(given)][0]
        return [(left, "it passes to the left; send to rank + 1 and receive from rank - 1"), own]
    return [own] if name == "swap_with_neighbour" else []


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@check(sum_both=1, sum_for_rank_0=1, swap_with_neighbour=1, sum_in_node=1, pass_right=1)
def check_clinic(answer: Any, part: Any) -> str:
    faults = {}
    for name in FAULTS:  # each is judged whatever becomes of the others
        try:
            for ranks in (4, 6, 2):
                _judge_snippet(answer, name, ranks)
            _judge_snippet(answer, name, 2, more=2**-12)  # float16 cannot hold it, and sums in float32 are exact
        except Refused as wrong:
            faults[name] = wrong
    cured = [name for name in FAULTS if name not in faults]
    if cured:
        patients = {name: patient(name, 4) for name in cured}
        case = Case(4, real=True)
        given = each([{name: patients[name][0][rank] for name in cured} for rank in range(4)])
        for rank, got in enumerate(case.run(every_snippet, answer, given)):
            for name in cured:
                right = _plain(patients[name][1][rank])
                expect(
                    isinstance(got, dict) and equal(_plain(got.get(name)), right),
                    f"{name} {case} rank {rank} did not return {numbers(right)}",
                    "value-on-real-ranks",
                    f"diagnose(clinic.{name})",
                )
    for name in cured:
        part(name.replace("_", " "))
    for name in faults:
        part(name.replace("_", " "))
        part.drop()
    for wrong in faults.values():
        expect(False, str(wrong) if len(faults) == 1 else _all_told(faults), wrong.code, wrong.see)
    return "all five are right on 2, 4 and 6 simulated ranks and on 4 real ones"


def _all_told(faults: dict) -> str:
    """Return one line for each part that is not right."""
    if all(wrong.code == "not-written" for wrong in faults.values()) and len(faults) == len(FAULTS):
        return "none of the five is repaired yet"
    told = [f"{len(faults)} of the five are judged not right:"]
    for wrong in faults.values():
        first, *rest = str(wrong).split("\n")
        waits = [line.strip() for line in rest if line.startswith("  rank ") and " waits " in line]
        first, _, mend = first.partition(f". {MEND}")  # which comes first where ranks wait for each other
        head = ": ".join([f"    ✗ {first.split(': no rank can')[0]}", *filter(None, [", ".join(waits[:2])])])
        told.append(". ".join([head, *(line for line in [mend and MEND + mend, *rest] if MEND in line)]))
    return "\n".join(told)


# What moved to another chapter: a copy of an earlier version still imports its checks from here

MOVED = ("fit_alpha_beta", "collective_seconds", "crossover_bytes", "hierarchical_all_reduce")


def __getattr__(name: str) -> Any:
    if name.removeprefix("check_") in MOVED:
        return getattr(import_module("exercises_tests.ch10_the_network"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
