"""Checks of chapter 3: a ring is told by its bytes and its steps, not by its sum."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from course_lib import Cluster, RankFailed, Results, each, run
from course_lib.lessons.ring import EMPTY, MOST_DIGITS, in_place, only_own_chunk, own_chunks, watch
from exercises_tests.judging import STEPS, WIRE, Case, Hint, Mistake, Refused, check
from exercises_tests.seeds import drawn
from exercises_tests.values import all_digits, close, count, equal, integers, plain, ring_bytes, rounded, shown, versus

DTYPES = ("float32", "int64", "float64", "bfloat16")
SIZES = ((4, (8,)), (2, (6,)), (1, (5,)), (3, (7,)), (7, (16,)), (4, (2, 5)), (5, (3,)), (3, (0,)))
MISFIT = re.compile(r"(?P<raised>rank \d+) raised ValueError: rank (?P<sender>\d+) sends \w+\[(?P<sent>[\d, ]*)\], "
                    r"but rank (?P<receiver>\d+) receives into \w+\[(?P<into>[\d, ]*)\]")
CIRCLE = [
    Hint("waits to send", "Start the send with isend, receive, then wait."),
    Hint(
        re.compile(r"(?s)rank 0 waits to receive from rank 1\b.*no rank receives: 0 -> 1\b"),
        "All ranks send to the right and also wait for the right-hand neighbour: "
        "receive from the left, (rank - 1) % P.",
    ),
    Hint(
        re.compile(r"(?s)rank 0 waits to receive from rank (?!1\b)(\d+)\b.*no rank receives: 0 -> \1\b"),
        "All ranks send to the left and also wait for the left-hand neighbour: "
        "receive from the right, or send to the right, (rank + 1) % P.",
    ),
    Hint(
        re.compile(r"(?s)\A(?!.*(to send|no rank receives)).*to receive from rank.*wait in a circle"),
        "Every rank receives and none has sent: start the send with isend before you receive.",
    ),
]
CLOSED = Hint(
    "no such rank",
    "The ring is closed: on the right of rank r stands rank (r + 1) % P, on its left rank (r - 1) % P.",
)
ALONE = Hint("itself", "A phase takes P-1 steps, so none on one rank.")
UNEVEN = Hint("is invalid for input of size",
              "The ranks do not divide the elements, so chunks differ in length: tensor.view(-1).tensor_split(ranks).")


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


class _FirstSent:
    """A `dist` that keeps a copy of the first tensor that its rank sends."""

    def __init__(self, dist: Any) -> None:
        self._dist, self.first = dist, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dist, name)

    def send(self, tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
        self.first = tensor.tolist() if self.first is None else self.first
        return self._dist.send(tensor, *args, **more)

    def isend(self, tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
        self.first = tensor.tolist() if self.first is None else self.first
        return self._dist.isend(tensor, *args, **more)


def _watch_first(dist: Any, answer: Any, tensor: torch.Tensor) -> Any:
    watched = _FirstSent(dist)
    answer(watched, tensor)
    return watched.first


# What ranks are given, and what they must hold: one tensor for each rank


def _as_given(tensors: list) -> list:
    return tensors


def _sum_everywhere(tensors: list) -> list:
    return [torch.stack(tensors).sum(0).to(tensors[0].dtype)] * len(tensors)


def _all_chunks(given: list) -> list:
    return [torch.cat(own_chunks(given)).view(given[0].shape)] * len(given)


@dataclass
class Ring:
    """An answer to one of the three exercises: what it is given, what ranks must hold, how often a chunk goes round."""

    name: str
    answer: Any
    wanted: Callable
    given: Callable = _as_given
    rounds: int = 1

    def judge(self, part: Any) -> None:
        part("value")
        self.judge_values(*SIZES[0])
        self.judge_values(*SIZES[0], real=True)
        part("any P")
        for ranks, shape in SIZES[1:]:
            self.judge_values(ranks, shape)
        self.judge_values(3, (6,), "int64")
        for dtype in DTYPES:
            self.judge_values(3, (6,), dtype, digits=True)
        part("bytes")
        for ranks, elements in ((4, 1024), (3, 100)):
            self.judge_bytes(ranks, elements)
        self.judge_bytes(4, 1024, "bfloat16")
        part("steps")
        self.judge_steps(4, 1024)

    def judge_values(
        self, ranks: int, shape: tuple, dtype: str = "float32", real: bool = False, digits: bool = False
    ) -> None:
        kind, of = (f', dtype="{dtype}"', f" of {dtype}") if dtype != "float32" or digits else ("", "")
        kind += ", digits=True" if digits else ""
        own = ", only_own=True" if self.name == "all_gather_ring" else ""
        see = f"tensors_after({self.name}, ranks={ranks}, shape={shape}{kind}{own})"
        where = "own" if self.name == "reduce_scatter_ring" else "all"
        picture = f'print({see}); shards(steps_of({self.name}, ranks={ranks}{own})[-1], complete="{where}");'
        case = Case(ranks, f"with {count(math.prod(shape), 'element')}{of}", real, see=see)
        before = self.given((all_digits if digits else integers)(ranks, shape, dtype))
        want = self.wanted(before)
        trace = self.run(case, before)
        for rank, (mine, right) in enumerate(zip(self.counted(trace), self.counted(want), strict=True)):
            if not equal(mine, right):
                what = f"chunk {rank}" if self.name == "reduce_scatter_ring" else "the tensor"
                mistakes = self.mistakes(rank, trace, want, before, picture if ranks <= MOST_DIGITS else see)
                case.same(mine, right, f"{what} on rank {rank}", *mistakes)
        if not real:
            case.no_builtin(trace)

    def run(self, case: Case, before: list) -> Any:
        """Run the answer; where a message does not fit its buffer, say first on which rank, and how long chunks are."""
        try:
            return case.run(in_place, self.answer, each(before), hints=[*CIRCLE, UNEVEN, CLOSED, ALONE])
        except Refused as refused:
            if not (found := MISFIT.search(str(refused))):
                raise
            sent, into = (math.prod(map(int, re.findall(r"\d+", found[side]))) for side in ("sent", "into"))
            sizes = [chunk.numel() for chunk in before[0].view(-1).tensor_split(len(before))]
            sender, receiver = f"rank {found['sender']}", f"rank {found['receiver']}"
            if sent == into:
                first, _, rest = str(refused).partition("\n")
                said = f"{first}. Make the buffer by torch.empty_like(that chunk): its dtype is the same"
                raise Refused(f"{said}\n{rest}", refused.code, refused.see, refused.trail) from None
            if into in sizes and sent not in sizes:
                said = f"{sender} sends {count(sent, 'element')}, and {receiver} waits for {into}: send one chunk"
            else:
                said = f"{receiver} receives into {count(into, 'element')}, but {sender} sends it {sent}: make the "
                said += "buffer as long as the chunk that comes, as torch.empty_like(that chunk) does"
            said += f". Here chunks 0 to {len(sizes) - 1} have {', '.join(map(str, sizes))} elements"
            lines = str(refused)[found.end():].partition("\n")[2]
            case.refuse(f"{said}\n  {found['raised']} stopped\n{lines}", "wrong-length")

    def counted(self, tensors: Any) -> list:
        """Return what counts of each rank's tensor: all of it, or its own chunk."""
        return own_chunks(tensors) if self.name == "reduce_scatter_ring" else list(tensors)

    def mistakes(self, rank: int, results: Results, want: list, before: list, picture: str) -> Iterator[Mistake]:
        """Yield what may be wrong with the tensor of a rank; `picture` is a line that draws whose parts are in it."""
        trace = list(results)
        ranks, elements = len(before), before[0].numel()
        rest = elements % ranks
        mine, right, given = (self.counted(tensors)[rank] for tensors in (trace, want, before))
        differs = versus(mine, "it should be", right)
        dtype = str(given.dtype)[6:]
        yield Mistake("digits", rounded(mine, right), f"{differs}. Digits were lost: send and sum in {dtype}, as the "
            "tensor is")
        if self.name == "all_gather_ring" and elements >= ranks:
            yield from self.mistakes_of_gathering(rank, trace, right, given, differs, picture)
        yield Mistake("not-in-place", equal(trace, before),
            "and all others are unchanged: write into them (copy_, +=); making or returning a new tensor is not in "
            "place")
        yield Mistake("mean", right / ranks, f"holds the mean, not the sum: do not divide by {ranks}")
        if rest and self.name == "ring_all_reduce":  # which may cut its chunks as it likes
            yield Mistake("rest-dropped",
                torch.cat([right.view(-1)[:-rest], given.view(-1)[-rest:]]).view(right.shape),
                f"is the sum, but the last {rest} {'stays' if rest == 1 else 'stay'} as given: {ranks} does not divide "
                f"{elements}, and what is left over belongs to some chunk too")
        if self.name == "ring_all_reduce":
            alone = any(equal(own_chunks(trace, shift), [ranks * chunk for chunk in own_chunks(before, shift)])
                        for shift in range(ranks))
            yield Mistake("phases-swapped", alone and elements >= ranks,
                f"{differs}. Each chunk holds one rank's part several times: it was handed out before it was added up, "
                "so let the reduce-scatter come first, then the all-gather", picture)
            sent = sum(event.kind == "send" for event in results.events)
            for shift in range(ranks) if sent == ranks * (ranks - 1) else ():
                chunk = f"(r + {shift}) % {ranks}" if shift else "r"
                yield Mistake("no-all-gather", equal(own_chunks(trace, shift), own_chunks(want, shift)),
                    f"{differs}. Rank r holds only chunk {chunk} complete: the all-gather is missing", picture)
        if self.name == "reduce_scatter_ring":
            for shift in range(1, ranks):
                yield Mistake("other-chunk", equal(own_chunks(trace, shift), own_chunks(want, shift)),
                    f"is not the sum. Rank 0 ends with the sum of chunk {shift}, and rank 1 with that of chunk "
                    f"{(shift + 1) % ranks}. Rank r must end with chunk r, so start with another chunk", picture)
            for step, side in ((-1, "left"), (1, "right")) if ranks > 2 else ():
                waits = own_chunks(trace, -step)[(rank + step) % ranks]
                others = sum(own_chunks(before, rank - other)[other] for other in range(ranks) if other != rank)
                said = f"is its own part alone, and rank {(rank + step) % ranks} on its {side} holds the sum of all "
                said += "others' parts: it takes P-1 steps, so one step more"
                yield Mistake("one-step-short", equal(mine, given) and equal(waits, others), said, picture)
            mixed = _mixed(self.answer, ranks)
            yield Mistake("mixed-chunks", bool(mixed), f"{differs}. {mixed}")  # a picture of ranks' parts looks right
            whole = given.element_size() * elements
            sent = {event.sent for event in results.events if event.kind == "send"}
            yield Mistake("whole-tensor", sent == {whole},
                f"{differs}. Each message carried the whole tensor, and with it what was added before: send one chunk "
                "in each step, and add what arrives to the chunk of the same number", picture)
            for other in range(ranks):
                part = own_chunks(before, rank - other)[other]
                yield Mistake("not-added", part, f"{differs}. It is a single rank's part: nothing was added", picture)
        yield Mistake("not-flattened", self.cut_into_rows(trace, want, before), f"{differs}. {self.name} gets a tensor "
            f"of shape {tuple(before[0].shape)} here, and without view(-1) tensor_split cuts it between its rows: let "
            f"chunk r be tensor.view(-1).tensor_split({ranks})[r]")
        if rest and self.name != "ring_all_reduce":
            cut = f"let chunk r be tensor.view(-1).tensor_split({ranks})[r]"
            yield Mistake("uneven-chunks", True, f"{differs}. {ranks} does not divide {elements}: {cut}")
        if not rest and self.name != "reduce_scatter_ring":
            pairs = zip(mine.view(-1).tensor_split(ranks), right.view(-1).tensor_split(ranks), strict=True)
            chunks = [str(chunk) for chunk, pair in enumerate(pairs) if equal(*pair)]
            correct = f"chunk {', '.join(chunks)}" if chunks else "none of the chunks"
            step = ""
            if self.name == "ring_all_reduce" and equal(trace[0], want[0]):
                step = f". Rank 0 has the sum, so let it reach rank {rank}, too"
            elif self.name == "ring_all_reduce" and not chunks:
                step = ". Look at the first phase alone: check_reduce_scatter_ring(reduce_scatter_ring) judges it"
            yield Mistake("value", True, f"{differs} (correct so far: {correct}){step}", picture)
        yield Mistake("value", True, differs, None if rest else picture)

    def cut_into_rows(self, trace: list, want: list, before: list) -> bool:
        """Return whether a tensor of several rows was cut between them, and each piece then treated as a chunk."""
        ranks = len(before)
        if before[0].dim() < 2 or self.name == "ring_all_reduce":
            return False
        if self.name == "reduce_scatter_ring":
            return all(equal(*(one[rank].tensor_split(ranks)[rank] for one in (trace, want))) for rank in range(ranks))
        gathered = torch.cat([tensor.tensor_split(ranks)[rank] for rank, tensor in enumerate(before)])
        return all(equal(tensor, gathered) for tensor in trace)

    def mistakes_of_gathering(
        self, rank: int, trace: list, right: Any, given: Any, differs: str, see: str
    ) -> Iterator[Mistake]:
        """Yield those of an all-gather: to add to what is there, to send the own chunk again and again, to start with a
        chunk which the rank does not hold, to stop too early."""
        mine, ranks = trace[rank], len(trace)
        pieces = zip(*(tensor.view(-1).tensor_split(ranks) for tensor in (mine, right, given)), strict=True)
        off = [(chunk, equal(one, old)) for chunk, (one, new, old) in enumerate(pieces) if not equal(one, new)]
        said = f"lacks chunk {off[0][0]} alone, which is as it was: it takes P-1 steps, so one step more" if off else ""
        yield Mistake("one-step-short", ranks > 2 and len(off) == 1 and off[0][1], said, see)
        added = (mine - right).flatten().tolist() if mine.shape == right.shape else [0]
        twice = all(number % EMPTY == 0 for number in added) and min(added) < EMPTY
        yield Mistake("added", twice, f"{differs}: the old contents were added: replace them", see)
        first = _first_sent(self.answer, ranks)
        shifts = {(chunk - rank) % ranks for rank, chunk in enumerate(first) if chunk is not None}
        said = f"is not complete. Rank 0 sent chunk {first[0]} first, which it does not hold: start with your own chunk"
        yield Mistake("not-own-chunk", len(shifts) == 1 and shifts != {0}, said, see)
        places = [chunk for place, chunk in enumerate(own_chunks([mine] * ranks)) if place != rank]
        for side, other in (("left", (rank - 1) % ranks), ("right", (rank + 1) % ranks)) if ranks > 2 else ():
            theirs = own_chunks(trace)[other]
            yield Mistake("own-each-time", all(equal(chunk, theirs) for chunk in places),
                f"holds the chunk of rank {other}, on its {side}, in every other place: each rank sent its own chunk "
                "in every step, so from the second step on pass on the chunk that came last", see)

    def judge_bytes(self, ranks: int, elements: int, dtype: str = "float32") -> None:
        """Judge what each rank sends: at most one chunk in each step."""
        kind, of = (f", dtype=torch.{dtype}", f" of {dtype}") if dtype != "float32" else ("", "")
        see = f"run({self.name}, torch.ones({elements}{kind}), ranks={ranks}, on=Cluster()).bytes_sent"
        case = Case(ranks, f"with {elements:,} elements{of}", see=see)
        given = integers(ranks, (elements,), dtype)
        trace = case.run(in_place, self.answer, each(given), hints=[CIRCLE])
        size = given[0].element_size()
        sent, bound = trace.bytes_sent, ring_bytes(ranks, elements, self.rounds, size)
        if max(sent) <= bound:
            return
        moved = list(map(sum, zip(sent, trace.bytes_received, strict=True)))
        *_, second, most = sorted(moved)
        busiest, least = moved.index(most), moved.index(min(moved))
        out = sent[busiest] >= trace.bytes_received[busiest]
        did, does, told = ("sent", "sends", sent) if out else ("received", "receives", trace.bytes_received)
        case.expect(ranks < 4 or most < 2 * second,
            f"rank {busiest} {did} {told[busiest]:,} bytes and rank {least} {told[least]:,}; in a ring each {does} "
            f"{bound:,}. Everything goes through rank {busiest}: let each rank send to its right-hand neighbour only",
            "through-one-rank")
        head = f"rank {sent.index(max(sent))} sent {{seen}} bytes; a ring sends {{bound}}"
        if max(event.sent for event in trace.events) >= size * elements:
            whole = f"{head}. You are passing the whole tensor on: pass one chunk"
            case.at_most(max(sent), bound, whole, "whole-tensor")
        case.at_most(max(sent), bound, head + (f": send {dtype} as it is" if of else ""), "too-many-bytes")

    def judge_steps(self, ranks: int, elements: int) -> None:
        """Judge the longest chain of messages in virtual time, whether all links are busy at once, and the peers."""
        see = f"timeline(run({self.name}, torch.ones({elements}), ranks={ranks}, on=Cluster()))"
        case = Case(ranks, on=STEPS, see=see)
        given = each(integers(ranks, (elements,)))
        want = self.rounds * (ranks - 1)
        trace = case.run(in_place, self.answer, given, hints=[CIRCLE])
        twice = "; a rank that sends and only then receives makes two steps of one" if trace.seconds == 2 * want else ""
        case.at_most(trace.seconds, want,
            "it took {seen} messages one after the other; a ring takes {bound}: in every step all ranks send to the "
            f"right and receive from the left at the same time{twice}", "too-many-steps")
        case.at_most(replace(case, on=WIRE).run(in_place, self.answer, given, hints=[CIRCLE]).seconds,
            ring_bytes(ranks, elements, self.rounds),
            "the bytes took as long as {seen} bytes in a row; a ring needs {bound}: links stand idle while others "
            "work", "idle-links")
        for rank, peer in [(event.rank, event.peer) for event in trace.events if event.kind == "send"]:
            case.expect((peer - rank) % ranks in (1, ranks - 1),
                f"rank {rank} sends to rank {peer}: in a ring each rank talks to its neighbours only, so that one link "
                "a rank is enough", "not-a-ring")


def _first_sent(answer: Any, ranks: int) -> list[int | None]:
    """Return the number of the chunk that each rank sends first; None where that was not one chunk."""
    try:
        seen = run(_watch_first, answer, torch.arange(ranks).repeat_interleave(2), ranks=ranks, on=Cluster())
    except RankFailed:
        return [None] * ranks
    return [one[0] if isinstance(one, list) and len(one) == 2 and one[0] == one[1] else None for one in seen]


def _mixed(answer: Any, ranks: int) -> str:
    """Return which chunk rank 0 added to one of another number in its first step; "" where it did not."""
    given = (16 ** torch.arange(ranks)).repeat_interleave(2)  # a chunk's number is that of its hexadecimal digit
    try:
        seen = run(watch, answer, given, ranks=ranks, on=Cluster())
    except RankFailed:
        return ""
    peers = [event.peer for event in seen.events if (event.rank, event.kind) == (0, "recv")]
    if ranks < 3 or len(seen[0]) < 2 or not peers:
        return ""
    side = {1: ", on its right,", ranks - 1: ", on its left,"}.get(peers[0], "")
    for place, (now, was) in enumerate(zip(seen[0][1][::2], seen[0][0][::2], strict=True)):
        for chunk in range(ranks):
            if chunk != place and now - was == 16**chunk:
                return (f"Chunks of different numbers were added: what arrives first at rank 0, from rank {peers[0]}"
                        f"{side} is chunk {chunk}, and it was added to chunk {place}. Add each chunk to the one of the "
                        "same number")  # fmt: skip
    return ""


@check(value=2, any_P=1, bytes=1, steps=1)
def check_reduce_scatter_ring(answer: Any, part: Any) -> str:
    Ring("reduce_scatter_ring", answer, _sum_everywhere).judge(part)
    return "rank r ends with the sum of chunk r on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_all_gather_ring(answer: Any, part: Any) -> str:
    Ring("all_gather_ring", answer, _all_chunks, only_own_chunk).judge(part)
    return "every rank ends with every chunk on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_ring_all_reduce(answer: Any, part: Any) -> str:
    Ring("ring_all_reduce", answer, _sum_everywhere, rounds=2).judge(part)
    return "sums correctly on 1, 2, 3, 4, 5 and 7 ranks · 2(P-1)/P·S bytes per rank · 2(P-1) steps"


# Three all-reduces with equal answers, told apart by their meters


def _same_meters(ranks: int, elements: int, names: str) -> dict[str, dict[str, Any]]:
    """Return what `three_meters` returns, by formula: a check runs no ranks for what it knows."""
    whole, chunk = 4 * elements, 4 * elements // ranks
    sent = [
        ([2 * (ranks - 1) * chunk] * ranks, [2 * (ranks - 1)] * ranks),
        ([(ranks - 1) * whole] + [whole] * (ranks - 1), [ranks - 1] + [1] * (ranks - 1)),
        ([(ranks - 1) * whole] * ranks, [ranks - 1] * ranks),
    ]
    pairs = sorted(zip(names, sent, strict=True))
    return {name: {"bytes": whole, "sent": one, "messages": messages} for name, (one, messages) in pairs}


@check(ring=2, cost=1)
def check_which_is_the_ring(answer: Any, part: Any) -> str:
    shuffle = random.Random(len("which_is_the_ring"))
    cases = []
    for ranks in (4, 2, 3, 8):
        for _ in range(2):
            names = "".join(shuffle.sample("ABC", 3))
            meters = _same_meters(ranks, 24 * ranks, names)
            cases.append((Case(ranks, see=f"which_is_the_ring({meters!r})"), meters, names[0]))
    own = drawn("which_is_the_ring")
    ranks, names = own.randint(5, 7), "".join(own.sample("ABC", 3))
    meters = _same_meters(ranks, ranks * own.randint(3, 60), names)
    cases.append((Case(ranks, see=f"which_is_the_ring({meters!r})"), meters, names[0]))
    answers = [plain(answer(meters)) for _, meters, _ in cases]
    for (case, _, _), got in zip(cases, answers, strict=True):
        case.expect(isinstance(got, tuple) and len(got) == 2,
            f"it returned {shown(got)}: return the ring's name and a dict of costs, as in ('B', {{'A': 3.0, ...}})",
            "form")
    wrong_costs = None
    part("cost")  # earned also beside a wrong name
    try:
        _judge_costs(cases, answers)
    except Refused as refused:
        wrong_costs = refused
        part.drop()
    part("ring")
    for (case, meters, ring), got in zip(cases, answers, strict=True):
        sent = "; ".join(f"{name}: sent {m['sent'][:4]}, messages {m['messages'][:4]}" for name, m in meters.items())
        case.expect(equal(got[0], ring),
            f"the ring was {ring!r}, not {shown(got[0])} ({sent}): look at bytes and messages together", "wrong-ring")
    part.close()
    if wrong_costs is not None:
        raise wrong_costs
    return "finds the ring on 2, 3, 4 and 8 ranks from what was sent, and what each costs its busiest rank"


def _judge_costs(cases: list, answers: list) -> None:
    for (case, meters, _), (_, got) in zip(cases, answers, strict=True):
        case.expect(isinstance(got, dict) and got.keys() == meters.keys(),
            f"give a cost for each of 'A', 'B' and 'C', not {shown(got)}", "form")
        for name, meter in meters.items():
            want = max(meter["sent"]) / meter["bytes"]
            case.expect(close(got[name], want, 1e-6),
                f"the busiest rank of {name!r} sent {want:.4g} times the tensor, not {shown(got[name])}", "wrong-cost")
