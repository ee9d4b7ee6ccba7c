"""Checks of chapter 3: a ring is told by its bytes and its steps, not by its sum."""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from course_lib import algorithms
from course_lib.checks import check, close, code_of, equal, expect, integers
from course_lib.ranks import Deadlock, RankFailed, Results, each, run
from course_lib.simulator import Cluster

STEPS = Cluster(latency=1.0, bandwidth=math.inf)  # each message takes one second: virtual seconds count the steps
WIRE = Cluster(latency=0.0, bandwidth=1.0)  # each byte takes one second: virtual seconds count bytes in a row
SIMULATED = Cluster()
EMPTY = -100  # what ranks hold before an all-gather where others' chunks will be
MOST_DIGITS = 9  # ranks that the digits of a number can tell apart
SIZES = ((4, (8,)), (2, (6,)), (1, (5,)), (3, (7,)), (7, (16,)), (4, (2, 5)), (5, (3,)), (3, (0,)))
EVEN = ((3, (6,)),)  # for other dtypes


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def in_place(dist: Any, answer: Any, mine: torch.Tensor) -> tuple:
    returned = answer(dist, mine)
    return mine, returned if isinstance(returned, torch.Tensor) else None


def _case(ranks: int, shape: tuple) -> str:
    elements = math.prod(shape)
    return (
        f"on {ranks} {'rank' if ranks == 1 else 'ranks'} with {elements} {'element' if elements == 1 else 'elements'}"
    )


def _see(name: str, ranks: int, shape: tuple, dtype: str = "float32", picture: bool = False) -> str:
    """Return a line that shows the tensors of a case as the check saw them; with `picture` also whose parts are in."""
    own = ", only_own=True" if name == "all_gather_ring" else ""
    kind = f', dtype="{dtype}"' if dtype != "float32" else ""
    see = f"tensors_after({name}, ranks={ranks}, shape={shape}{kind}{own})"
    if picture and ranks <= MOST_DIGITS:
        return f"print({see}); shards(steps_of({name}, ranks={ranks}{own})[-1])"
    return see


def _run(name: str, answer: Any, before: list, shape: tuple, dtype: str = "float32", on: Any = SIMULATED) -> Results:
    """Run an answer on tensors; a run that fails is a wrong answer, told with its case."""
    ranks = len(before)
    case, see = _case(ranks, shape), _see(name, ranks, shape, dtype)
    case += "" if dtype == "float32" else f" of {dtype}"
    try:
        return run(in_place, answer, each(before), ranks=ranks, on=on, timeout=20)
    except Deadlock as stuck:
        tip = "\nStart the send with isend, receive, then wait." if "wait in a circle" in str(stuck) else ""
        expect(False, f"{case} a deadlock: {stuck}{tip}", "deadlock", see)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        case = case if on is not None else case.replace("ranks", "real ranks")
        expect(False, f"{case} {failure}", code_of(failure), see)


def _no_builtin(trace: Results) -> None:
    used = {kind for kinds in trace.collectives for kind in kinds if kind != "barrier"}
    names = ", ".join(f"dist.{kind}" for kind in sorted(used))
    expect(not used, f"it calls {names}: use only send, recv, isend and irecv", "built-in")


def _look_at(name: str, ranks: int, shape: tuple, trace: Results, want: list, before: list) -> None:
    """Judge the values; `want` holds for each rank a tensor, or (piece, chunk number) where only a chunk counts."""
    case, see = _case(ranks, shape), _see(name, ranks, shape, str(before[0].dtype).removeprefix("torch."))
    elements = math.prod(shape)
    got = [_chunk(mine, place, ranks) for (mine, _), (_, place) in zip(trace, want, strict=True)]
    given = [_chunk(mine, place, ranks) for mine, (_, place) in zip(before, want, strict=True)]
    wrong = [rank for rank in range(ranks) if not equal(got[rank], want[rank][0])]
    if not wrong:
        return
    rank = wrong[0]
    piece, place = want[rank]
    untouched = all(map(equal, got, given)) and all(map(equal, (mine for mine, _ in trace), before))
    expect(
        not (untouched and any(not equal(a, b) for a, (b, _) in zip(given, want, strict=True))),
        f"{case} the tensors that the ranks were given are unchanged: write into them (copy_, +=); "
        "making or returning a new tensor is not in place",
        "not-in-place", see,
    )  # fmt: skip
    expect(
        ranks == 1 or not got[rank].is_floating_point() or not equal(got[rank] * ranks, piece),
        f"{case} rank {rank} holds the mean, not the sum: do not divide by {ranks}",
        "mean", see,
    )  # fmt: skip
    if elements % ranks and name == "ring_all_reduce":  # which may cut its chunks as it likes
        _look_at_rest(case, see, ranks, elements, got, want, given)
    if place is not None:
        _look_for_another_chunk(case, _see(name, ranks, shape, picture=True), ranks, trace, want)
        _look_for_one_part(case, _see(name, ranks, shape, picture=True), ranks, rank, got, want, before)
    what = "the tensor" if place is None else f"chunk {place}"
    expect(
        elements % ranks == 0 or name == "ring_all_reduce",
        f"{case} {what} on rank {rank} is {_short(got[rank])}; it should be {_short(piece)}. {ranks} does not divide "
        f"{elements}: let chunk r be tensor.view(-1).tensor_split({ranks})[r]",
        "uneven-chunks", see,
    )  # fmt: skip
    correct = ""
    if place is None and elements and elements % ranks == 0:
        pairs = zip(got[rank].view(-1).tensor_split(ranks), piece.view(-1).tensor_split(ranks), strict=True)
        chunks = [str(chunk) for chunk, pair in enumerate(pairs) if equal(*pair)]
        correct = f" (correct so far: {'chunk ' + ', '.join(chunks) if chunks else 'none of the chunks'})"
    if elements % ranks == 0:
        see = _see(name, ranks, shape, str(before[0].dtype).removeprefix("torch."), picture=True)
    expect(
        False,
        f"{case} {what} on rank {rank} is {_short(got[rank])}; it should be {_short(piece)}{correct}",
        "value", see,
    )  # fmt: skip


def _chunk(tensor: torch.Tensor, place: int | None, ranks: int) -> torch.Tensor:
    return tensor if place is None else tensor.view(-1).tensor_split(ranks)[place]


def _look_at_rest(case: str, see: str, ranks: int, elements: int, got: list, want: list, given: list) -> None:
    """Refuse a sum that is right but for what is left over where `ranks` does not divide `elements`."""
    rest = elements % ranks
    whole = elements - rest
    front = [equal(a.view(-1)[:whole], b.view(-1)[:whole]) for a, (b, _) in zip(got, want, strict=True)]
    back = [equal(a.view(-1)[whole:], b.view(-1)[whole:]) for a, b in zip(got, given, strict=True)]
    expect(
        not (all(front) and all(back)),
        f"{case} the last {rest} {'stays' if rest == 1 else 'stay'} as given: {ranks} does not divide {elements}, "
        "and what is left over belongs to some chunk too",
        "rest-dropped", see,
    )  # fmt: skip


def _look_for_another_chunk(case: str, see: str, ranks: int, trace: Results, want: list) -> None:
    """Refuse a reduce-scatter that is right but leaves each sum one rank away from where it belongs."""
    for shift in range(1, ranks):
        others = [want[(rank + shift) % ranks] for rank in range(ranks)]
        pairs = zip(trace, others, strict=True)
        expect(
            not all(equal(_chunk(mine, place, ranks), piece) for (mine, _), (piece, place) in pairs),
            f"{case} rank 0 ends with the sum of chunk {shift % ranks}, rank 1 with that of chunk "
            f"{(1 + shift) % ranks}: rank r must end with chunk r, so start with another chunk",
            "other-chunk", see,
        )  # fmt: skip


def _look_for_one_part(case: str, see: str, ranks: int, rank: int, got: list, want: list, before: list) -> None:
    """Refuse a reduce-scatter that passes chunks on without adding."""
    piece, place = want[rank]
    parts = [_chunk(tensor, place, ranks) for tensor in before]
    expect(
        not got[rank].numel() or not any(equal(got[rank], part) for part in parts),
        f"{case} chunk {place} on rank {rank} is {_short(got[rank])}, which is a single rank's part: nothing was "
        f"added; it should be {_short(piece)}",
        "not-added", see,
    )  # fmt: skip


def _look_at_gathering(answer: Any, ranks: int, shape: tuple, trace: Results, want: list, before: list) -> None:
    """Refuse an all-gather that adds to what is there, or that starts with a chunk which its rank does not hold."""
    if all(equal(mine, whole) for (mine, _), (whole, _) in zip(trace, want, strict=True)) or math.prod(shape) < ranks:
        return
    case, see = _case(ranks, shape), _see("all_gather_ring", ranks, shape, picture=True)
    mine, whole = trace[0][0], want[0][0]
    if mine.shape == whole.shape:
        added = (mine - whole).flatten().tolist()
        expect(
            not (all(number % EMPTY == 0 for number in added) and min(added) < EMPTY),
            f"{case} the tensor on rank 0 is {_short(mine)}; it should be {_short(whole)}: the old contents were "
            "added: replace them",
            "added", see,
        )  # fmt: skip
    first = _first_sent(answer, ranks)
    shifts = {(chunk - rank) % ranks for rank, chunk in enumerate(first) if chunk is not None}
    expect(
        len(shifts) != 1 or shifts == {0},
        f"{case} rank 0 sent chunk {first[0]} first, which it does not hold: start with your own chunk",
        "not-own-chunk", see,
    )  # fmt: skip


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


def _first_sent(answer: Any, ranks: int) -> list[int | None]:
    """Return the number of the chunk that each rank sends first; None where that was not one chunk."""
    try:
        seen = run(_watch_first, answer, torch.arange(ranks).repeat_interleave(2), ranks=ranks, on=Cluster())
    except RankFailed:
        return [None] * ranks
    return [one[0] if isinstance(one, list) and len(one) == 2 and one[0] == one[1] else None for one in seen]


def _short(tensor: torch.Tensor) -> str:
    values = tensor.flatten().tolist()
    return "[" + ", ".join(f"{value:g}" for value in values[:8]) + (", ...]" if len(values) > 8 else "]")


def _values(name: str, answer: Any, cases: Any, wanted: Any, given: Any, dtype: str = "float32") -> None:
    for ranks, shape in cases:
        before = given(integers(ranks, shape, dtype))
        want = wanted(before)
        trace = _run(name, answer, before, shape, dtype)
        if name == "all_gather_ring":
            _look_at_gathering(answer, ranks, shape, trace, want, before)
        _look_at(name, ranks, shape, trace, want, before)
        _no_builtin(trace)


def _real(name: str, answer: Any, wanted: Any, given: Any, ranks: int = 4, shape: tuple = (8,)) -> None:
    before = given(integers(ranks, shape))
    want = wanted(before)
    _look_at(name, ranks, shape, _run(name, answer, before, shape, on=None), want, before)


def _few_bytes(name: str, answer: Any, rounds: int) -> None:
    """Judge what each rank sends: at most one chunk in each of `rounds` times P-1 steps."""
    for ranks, elements in ((4, 1024), (3, 100)):
        tensors = integers(ranks, (elements,))
        whole = 4 * elements
        bound = rounds * (ranks - 1) * 4 * math.ceil(elements / ranks)
        trace = _run(name, answer, tensors, (elements,))
        sent, moved = trace.bytes_sent, list(map(sum, zip(trace.bytes_sent, trace.bytes_received, strict=True)))
        if max(sent) <= bound:
            continue
        see = f"run({name}, torch.ones({elements}), ranks={ranks}, on=Cluster()).bytes_sent"
        least, second, most = moved.index(min(moved)), *sorted(moved)[-2:]
        busiest = moved.index(most)
        expect(
            ranks < 4 or most < 2 * second,
            f"on {ranks} ranks rank {busiest} sent and received {most:,} bytes and rank {least} {moved[least]:,}; in a "
            f"ring each sends {bound:,} and receives as much. Everything goes through rank {busiest}: "
            "let each rank send to its right-hand neighbour only",
            "through-one-rank", see,
        )  # fmt: skip
        head = f"on {ranks} ranks with {elements:,} elements rank {sent.index(max(sent))} sent {max(sent):,} bytes"
        expect(
            max(event.sent for event in trace.events) < whole,
            f"{head}; a ring sends {bound:,}. You are passing the whole tensor on: pass one chunk",
            "whole-tensor", see,
        )  # fmt: skip
        expect(False, f"{head}; a ring sends {bound:,}", "too-many-bytes", see)


def _few_steps(name: str, answer: Any, rounds: int, ranks: int = 4, elements: int = 1024) -> None:
    """Judge the longest chain of messages, counted in virtual time, that all links are busy at once, and the peers."""
    tensors = integers(ranks, (elements,))
    want = rounds * (ranks - 1)
    trace = _run(name, answer, tensors, (elements,), on=STEPS)
    steps = trace.seconds
    see = f"timeline(run({name}, torch.ones({elements}), ranks={ranks}, on=Cluster()))"
    twice = "; a rank that sends and only then receives makes two steps of one" if steps == 2 * want else ""
    expect(
        steps <= want,
        f"on {ranks} ranks it took {steps:g} messages one after the other; a ring takes {want}: in every step all "
        f"ranks send to the right and receive from the left at the same time{twice}",
        "too-many-steps", see,
    )  # fmt: skip
    busy = _run(name, answer, tensors, (elements,), on=WIRE).seconds
    bound = want * 4 * math.ceil(elements / ranks)
    expect(
        busy <= bound,
        f"on {ranks} ranks the bytes took as long as {busy:,.0f} bytes in a row; a ring needs {bound:,}: links stand "
        "idle while others work",
        "idle-links", see,
    )  # fmt: skip
    pairs = [(event.rank, event.peer) for event in trace.events if event.kind == "send"]
    far = [(rank, peer) for rank, peer in pairs if (peer - rank) % ranks not in (1, ranks - 1)]
    expect(
        not far,
        f"rank {far[0][0] if far else 0} sends to rank {far[0][1] if far else 0}: in a ring each rank talks to its "
        "neighbours only, so that one link a rank is enough",
        "not-a-ring", see,
    )  # fmt: skip


def _as_given(tensors: list) -> list:
    return tensors


def _sum_everywhere(tensors: list) -> list:
    return [(torch.stack(tensors).sum(0).to(tensors[0].dtype), None)] * len(tensors)


def _sum_of_own_chunk(tensors: list) -> list:
    total, _ = _sum_everywhere(tensors)[0]
    return list(zip(total.view(-1).tensor_split(len(tensors)), range(len(tensors)), strict=True))


def _only_own_chunk(tensors: list) -> list:
    """Return what ranks hold before an all-gather: their own chunk, and EMPTY where others' will be."""
    given = []
    for rank, tensor in enumerate(tensors):
        mine = torch.full_like(tensor, EMPTY)
        mine.view(-1).tensor_split(len(tensors))[rank].copy_(tensor.view(-1).tensor_split(len(tensors))[rank])
        given.append(mine)
    return given


def _all_chunks(given: list) -> list:
    pieces = [tensor.view(-1).tensor_split(len(given))[rank] for rank, tensor in enumerate(given)]
    return [(torch.cat(pieces).view(given[0].shape), None)] * len(given)


@check(value=2, any_P=1, bytes=1, steps=1)
def check_reduce_scatter_ring(answer: Any, part: Any) -> str:
    name = "reduce_scatter_ring"
    part("value")
    _values(name, answer, SIZES[:1], _sum_of_own_chunk, _as_given)
    _real(name, answer, _sum_of_own_chunk, _as_given)
    part("any P")
    _values(name, answer, SIZES[1:], _sum_of_own_chunk, _as_given)
    _values(name, answer, EVEN, _sum_of_own_chunk, _as_given, "int64")
    part("bytes")
    _few_bytes(name, answer, rounds=1)
    part("steps")
    _few_steps(name, answer, rounds=1)
    return "rank r ends with the sum of chunk r on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_all_gather_ring(answer: Any, part: Any) -> str:
    name = "all_gather_ring"
    part("value")
    _values(name, answer, SIZES[:1], _all_chunks, _only_own_chunk)
    _real(name, answer, _all_chunks, _only_own_chunk)
    part("any P")
    _values(name, answer, SIZES[1:], _all_chunks, _only_own_chunk)
    _values(name, answer, EVEN, _all_chunks, _only_own_chunk, "int64")
    part("bytes")
    _few_bytes(name, answer, rounds=1)
    part("steps")
    _few_steps(name, answer, rounds=1)
    return "every rank ends with every chunk on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_ring_all_reduce(answer: Any, part: Any) -> str:
    name = "ring_all_reduce"
    part("value")
    _values(name, answer, SIZES[:1], _sum_everywhere, _as_given)
    _real(name, answer, _sum_everywhere, _as_given)
    part("any P")
    _values(name, answer, SIZES[1:], _sum_everywhere, _as_given)
    for dtype in ("int64", "float64", "bfloat16"):
        _values(name, answer, EVEN, _sum_everywhere, _as_given, dtype)
    part("bytes")
    _few_bytes(name, answer, rounds=2)
    part("steps")
    _few_steps(name, answer, rounds=2)
    return "sums correctly on 1, 2, 3, 4, 5 and 7 ranks · 2(P-1)/P·S bytes per rank · 2(P-1) steps"


# The ring step by step, for the chapter's pictures: held[step][rank][chunk] are the ranks whose part is in it


def ring_steps(ranks: int) -> list[list[list[list[int]]]]:
    """Return what each chunk on each rank holds before and after every step of the built-in ring.

    Replays the messages that a simulated `dist.all_reduce` is made of. Chunk c has c + 1 bytes, so that a message's
    size tells which chunk it carries.
    """
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    steps = [_as_lists(held)]
    for rounds in zip(*(algorithms.all_reduce(rank, list(range(1, ranks + 1))) for rank in range(ranks)), strict=True):
        sent = [(peer, size - 1, set(held[rank][size - 1])) for rank, messages in enumerate(rounds)
                for kind, peer, size in messages if kind == "send"]  # fmt: skip
        for peer, chunk, what in sent:
            held[peer][chunk] |= what
        steps.append(_as_lists(held))
    return steps


def _as_lists(held: list) -> list:
    return [[sorted(cell) for cell in row] for row in held]


class _Watched:
    """A `dist` that keeps a copy of a tensor each time its rank begins to send."""

    def __init__(self, dist: Any, tensor: torch.Tensor) -> None:
        self._dist, self._tensor, self.copies = dist, tensor, []

    def __getattr__(self, name: str) -> Any:
        if name in ("send", "isend", "batch_isend_irecv", "all_reduce"):
            self.copies.append(self._tensor.tolist())
        return getattr(self._dist, name)


def _watch(dist: Any, answer: Any, mine: torch.Tensor) -> list:
    watched = _Watched(dist, mine)
    answer(watched, mine)
    return [*watched.copies, mine.tolist()]


def steps_of(answer: Any, ranks: int = 4, only_own: bool = False) -> list[list[list[list[int] | str]]]:
    """Return what each chunk on each rank holds each time that rank begins to send, and at the end, by a simulated run.

    Rank r brings 10^r for every chunk, so the digits of a sum count what is in it: 1101 holds ranks 0, 2 and 3. With
    `only_own` each rank begins with chunk r complete and the others empty, as an all-gather does.
    """
    if not 1 <= ranks <= MOST_DIGITS:
        raise ValueError(f"ranks={ranks}: the digits of a number tell 1 to {MOST_DIGITS} ranks apart")
    tensors = [torch.full((ranks,), 10**rank) for rank in range(ranks)]
    if only_own:
        everyone = sum(10**rank for rank in range(ranks))
        tensors = [torch.where(torch.arange(ranks) == rank, everyone, 0) for rank in range(ranks)]
    seen = list(run(_watch, answer, each(tensors), ranks=ranks, on=Cluster()))
    count = max(map(len, seen))
    padded = [copies + copies[-1:] * (count - len(copies)) for copies in seen]
    return [[[_parts_in(value, ranks) for value in copies[step]] for copies in padded] for step in range(count)]


def _after(dist: Any, answer: Any, mine: torch.Tensor) -> torch.Tensor:
    answer(dist, mine)
    return mine


def tensors_after(
    answer: Any, ranks: int = 4, shape: tuple = (8,), dtype: str = "float32", only_own: bool = False
) -> Results:
    """Return each rank's tensor after an in-place answer, simulated on the tensors that its check gives it.

    With `only_own` each rank begins with chunk r and -100 elsewhere, as the check of an all-gather lets it.
    """
    before = integers(ranks, shape, dtype)
    return run(_after, answer, each(_only_own_chunk(before) if only_own else before), ranks=ranks, on=SIMULATED)


def _parts_in(value: int, ranks: int) -> list[int] | str:
    """Return the ranks whose parts a sum of powers of ten holds, as often as it holds them."""
    if not 0 <= value < 10**ranks:
        return "?"
    return [rank for rank, digit in enumerate(reversed(str(value))) for _ in range(int(digit))]


# Three all-reduces with equal answers, told apart by their meters


def _ring(dist: Any, tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def _star(dist: Any, tensor: torch.Tensor) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    arrived = torch.empty_like(tensor)
    for other in range(1, ranks):
        dist.recv(arrived, other)
        tensor += arrived
    for other in range(1, ranks):
        dist.send(tensor, other)


def _relay(dist: Any, tensor: torch.Tensor) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone()
    for _ in range(ranks - 1):
        arrived = torch.empty_like(passing)
        sending = dist.isend(passing, (rank + 1) % ranks)
        dist.recv(arrived, (rank - 1) % ranks)
        sending.wait()
        passing = arrived
        tensor += passing


def three_meters(ranks: int, elements: int, names: str = "ABC") -> dict[str, dict[str, Any]]:
    """Return the meter readings of three all-reduces under shuffled names: per rank bytes and messages sent.

    One is a ring, one goes through rank 0, one passes the whole tensor around. All give the same sums.
    """
    readings = {}
    for name, kind in zip(names, (_ring, _star, _relay), strict=True):
        trace = run(kind, torch.ones(elements), ranks=ranks, on=Cluster())
        readings[name] = {"bytes": 4 * elements, "sent": trace.bytes_sent, "messages": trace.messages_sent}
    return dict(sorted(readings.items()))


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
            costs = {name: max(meter["sent"]) / meter["bytes"] for name, meter in meters.items()}
            cases.append((ranks, meters, names[0], costs))
    answers = [answer(meters) for _, meters, _, _ in cases]
    part("ring")
    for (ranks, meters, ring, _), got in zip(cases, answers, strict=True):
        see = f"which_is_the_ring({meters!r})"
        expect(
            isinstance(got, tuple) and len(got) == 2,
            f"it returned {got!r}: return the ring's name and a dict of costs, as in ('B', {{'A': 3.0, ...}})",
            "form", see,
        )  # fmt: skip
        readings = "; ".join(
            f"{name}: sent {m['sent'][:4]}, messages {m['messages'][:4]}" for name, m in meters.items()
        )
        expect(
            equal(got[0], ring),
            f"on {ranks} ranks the ring was {ring!r}, not {got[0]!r} ({readings}): in a ring every rank sends "
            f"{2 * (ranks - 1)} messages of 1/{ranks} of the tensor",
            "wrong-ring", see,
        )  # fmt: skip
    part("cost")
    for (ranks, meters, _, costs), (_, got) in zip(cases, answers, strict=True):
        see = f"which_is_the_ring({meters!r})"
        expect(
            isinstance(got, dict) and got.keys() == costs.keys(),
            f"give a cost for each of 'A', 'B' and 'C', not {got!r}",
            "form", see,
        )  # fmt: skip
        for name, want in costs.items():
            expect(
                close(got[name], want, 1e-6),
                f"on {ranks} ranks the busiest rank of {name!r} sent {want:.4g} times the tensor, not {got[name]!r}",
                "wrong-cost", see,
            )  # fmt: skip
    return "finds the ring on 2, 3, 4 and 8 ranks from what was sent, and what each costs its busiest rank"
