"""Checks of chapter 2: what collectives return, in how many rounds, with how many bytes, and through whom."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np
import torch

from course_lib import Cluster, Deadlock, RankFailed, Results, each, run
from course_lib.costs import collective_seconds as library_seconds
from course_lib.costs import crossover_bytes as library_crossover
from exercises_tests.judging import check, code_of, expect
from exercises_tests.values import close, equal, integers

REAL_SECONDS = 20  # after which a run on real ranks counts as hung
STEPS = Cluster(latency=1.0, bandwidth=math.inf)  # each message takes one second: virtual seconds count rounds
WIRE = Cluster(latency=0.0, bandwidth=1.0)  # each byte takes one second: virtual seconds count bytes in a row

# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def in_place(dist: Any, answer: Any, mine: torch.Tensor, *more: Any) -> Any:
    returned = answer(dist, mine, *more)
    return mine, returned if isinstance(returned, torch.Tensor) else None


def returned(dist: Any, answer: Any, given: Any) -> Any:
    return answer(dist, given)


def with_given(dist: Any, answer: Any, given: Any) -> Any:
    return answer(dist, given), given


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


def called_with(dist: Any, answer: Any, arguments: tuple) -> Any:
    return answer(dist, *arguments)


# What the checks of this chapter ask of every answer


def _on(ranks: int, real: bool = False) -> str:
    return f"on {ranks} {'real ' if real else ''}{'rank' if ranks == 1 else 'ranks'}"


def _run(see: str, *call: Any, ranks: int, on: Any = None, real: bool = False) -> Results:
    """Run on simulated or on real ranks; a run that fails is a wrong answer, told with its number of ranks."""
    try:
        return run(*call, ranks=ranks, on=None if real else on or Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        _failed(failure, _on(ranks, real), see)


def _failed(failure: RankFailed, case: str, see: str) -> None:
    if failure.error == "NotImplementedError":
        raise failure
    expect(False, _told(failure, case), code_of(failure), see)


def _told(failure: RankFailed, case: str, more: str = "") -> str:
    """Return one failed run as sentences: the case, what happened with its lines, and what the check adds."""
    first, _, rest = str(failure).partition("\n")
    more = _sentence_case(more)
    if isinstance(failure, Deadlock):
        head = f"{case}: deadlock. {first[:1].upper()}{first[1:]}"
    else:
        head, more = f"{case} {first}" + (f". {more}" if more else ""), ""
    return "\n".join(part for part in (head, rest, more) if part)


def _no_builtin(trace: Results, case: str) -> None:
    used = sorted({kind for kinds in trace.collectives for kind in kinds if kind != "barrier"})
    names = ", ".join(f"dist.{kind}" for kind in used)
    expect(not used, f"{case} it calls {names}: use only send, recv, isend and irecv", "built-in")


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        more = ", ..." if len(value) > 4 else ""
        return "[" + ", ".join(map(_text, value[:4])) + more + "]"
    if not isinstance(value, torch.Tensor):
        return repr(value)
    numbers = [f"{number:g}" for number in value.flatten().tolist()[:6]]
    return "[" + ", ".join(numbers + ["..."] * (value.numel() > 6)) + "]"


def _percent(part: float) -> str:
    """Return a part of 1 in percent, with two digits that count."""
    return f"{float(f'{100 * part:.2g}'):,.9g} %"


def _plain_number(value: Any) -> Any:
    """Return a number of NumPy's as Python's own; anything else as it is."""
    return float(value) if isinstance(value, float) else value


def _different(count: int, shape: tuple, dtype: str = "float32") -> list:
    """Return small whole numbers, in every tensor others than in all before it."""
    return [tensor + 20 * (place + 1) for place, tensor in enumerate(integers(count, shape, dtype))]


def _chunks(ranks: int, shape: tuple, dtype: str = "float32") -> list:
    """Return for each rank a list of one chunk for every rank, all different."""
    flat = _different(ranks * ranks, shape, dtype)
    return [flat[rank * ranks : (rank + 1) * ranks] for rank in range(ranks)]


def _at_most(trace: Results, bound: int, case: str, why: str, see: str) -> None:
    """Judge the bytes that each rank sends and receives; where one rank alone does more, all goes through it."""
    for word, amounts in (("received", trace.bytes_received), ("sent", trace.bytes_sent)):
        most = max(amounts)
        busiest = amounts.index(most)
        alone = sum(amount > bound for amount in amounts) == 1
        expect(
            most <= bound or not alone,
            f"{case} rank {busiest} {word} {most:,} bytes, and no other rank that many: everything goes through it. "
            f"{bound:,} bytes will do on every rank: {why}",
            "through-one-rank", see + f".bytes_{word}",
        )  # fmt: skip
    most = max(*trace.bytes_sent, *trace.bytes_received)
    expect(most <= bound, f"{case} a rank sent {most:,} bytes; {bound:,} will do: {why}", "too-many-bytes", see)


# broadcast_tree

TREE = "run(broadcast_tree, torch.ones(4), {root}, ranks={ranks}, on=Cluster())"


def _numbered(shape: tuple, dtype: str, chunk: bool = False) -> str:
    """Return the source of a tensor that shows whose it is, and of a list's place i; whole or not as its dtype."""
    point = "" if dtype == "int64" else ".0"
    number = f"10{point} * dist.get_rank() + i" if chunk else f"1{point} * dist.get_rank()"
    return f"torch.full({shape}, {number})"


def _see_in_place(call: str, ranks: int, shape: tuple, dtype: str, real: bool) -> str:
    """Return a line that shows what every rank's tensor holds after a call that works in place."""
    on = "" if real else ", on=Cluster()"
    return f"run(lambda dist: (t := {_numbered(shape, dtype)}, {call})[0], ranks={ranks}{on})"


def _broadcast(answer: Any, ranks: int, root: int, shape: tuple = (4,), dtype: str = "float32", **on: Any) -> Results:
    tensors = _different(ranks, shape, dtype)
    want = [tensor.clone() for tensor in tensors]
    real = on.get("real", False)
    see = _see_in_place(f"broadcast_tree(dist, t, {root})", ranks, shape, dtype, real)
    trace = _run(see, in_place, answer, each(tensors), root, ranks=ranks, **on)
    case = f"{_on(ranks, real)} from root {root}"
    for rank, (mine, back) in enumerate(trace):
        here = f"{case} rank {rank} holds {_text(mine)}"
        if equal(mine, want[root]):
            continue
        expect(
            not (equal(mine, want[rank]) and equal(back, want[root])),
            f"{here}, as before; the function returned the right tensor instead: receive into the tensor it was given",
            "not-in-place", see,
        )  # fmt: skip
        expect(
            root == 0 or not equal(mine, want[0]),
            f"{here}, the tensor of rank 0; the root had {_text(want[root])}: count places from the root, "
            "(rank - root) % P",
            "root-ignored", see,
        )  # fmt: skip
        expect(
            not equal(mine, want[rank]),
            f"{here}, as before; the root had {_text(want[root])}: nothing reached this rank",
            "not-reached", see,
        )  # fmt: skip
        expect(False, f"{here}; the root had {_text(want[root])}", "value", see)
    _no_builtin(trace, case)
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
    for root in (4, -1):
        _refuses(answer, root)
    part("rounds")
    for ranks, root in ((4, 0), (8, 3), (7, 6)):
        trace = _broadcast(answer, ranks, root, on=STEPS)
        rounds, sent = math.ceil(math.log2(ranks)), trace.messages_sent
        case = f"{_on(ranks)} from root {root} it took {trace.seconds:g} messages one after the other; "
        see = f"timeline({TREE.format(ranks=ranks, root=root)})"
        slow = trace.seconds > rounds
        expect(
            not (slow and sent[root] == ranks - 1),
            f"{case}a tree takes {rounds}. The root sends all {ranks - 1} of them: whoever has the tensor can send too",
            "linear", see,
        )  # fmt: skip
        expect(
            not (slow and max(sent) == 1),
            f"{case}a tree takes {rounds}. Every rank sends only once, so the tensor goes along a chain: go on sending "
            "in every round",
            "chain", see,
        )  # fmt: skip
        expect(
            not slow, f"{case}a tree takes {rounds}: in each round everyone who has the tensor sends it", "rounds", see
        )
    part("messages")
    for ranks, root in ((4, 1), (7, 0)):
        trace = _broadcast(answer, ranks, root)
        _sends_what_it_has(trace, ranks, root)
    return "any root, 1 to 8 ranks · ceil(log2 P) rounds · P-1 messages · sends only what it has"


def _refuses(answer: Any, root: int) -> None:
    """Judge that a root that is no rank raises ValueError, and on every rank."""
    case, see = f"on 4 ranks with root={root}", TREE.format(ranks=4, root=root)
    try:
        got = list(run(refused, answer, torch.ones(4), root, ranks=4, on=Cluster(), timeout=REAL_SECONDS))
    except Deadlock as failure:
        got = _raised_by_one(answer, root)
        if got is None:
            _failed(failure, case, see)
    except RankFailed as failure:
        _failed(failure, case, see)
    raised = [rank for rank, name in enumerate(got) if name == "ValueError"]
    expect(
        len(raised) in (0, len(got)),
        f"{case} {_ranks_text(raised)} raised ValueError, the others did not: every rank has to check",
        "not-on-every-rank", see,
    )  # fmt: skip
    other = next((name for name in got if name not in ("ValueError", "no error")), None)
    expect(other is None, f"{case} it raised {other}; it should be ValueError", "other-error", see)
    expect(
        bool(raised),
        f"{case} it raised no ValueError: there is no such rank, and a caller who does not hear of it goes on with "
        "wrong data",
        "root-not-refused", see,
    )  # fmt: skip


def _ranks_text(ranks: list) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _raised_by_one(answer: Any, root: int) -> list | None:
    """Return what the ranks did where one raised ValueError and another waited; None if that was not it."""
    try:
        run(answer, torch.ones(4), root, ranks=4, on=Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "ValueError" and failure.rank is not None:
            return ["ValueError" if rank == failure.rank else "no error" for rank in range(4)]
    return None


def _sends_what_it_has(trace: Results, ranks: int, root: int) -> None:
    case, see = f"{_on(ranks)} from root {root}", f"timeline({TREE.format(ranks=ranks, root=root)})"
    for rank in range(ranks):
        got, gave = trace.of(rank, "recv"), trace.of(rank, "send")
        arrived = math.inf if not got else got[0].end
        early = [event for event in gave if rank != root and event.start < arrived]
        expect(
            not early,
            f"{case} rank {rank} sends to rank {early[0].peer if early else None} before the tensor has reached it",
            "sends-too-early", see,
        )  # fmt: skip
    total = sum(trace.messages_sent)
    expect(
        total <= ranks - 1,
        f"{case} it took {total} messages; each of the other {ranks - 1} ranks needs the tensor once",
        "too-many-messages", see,
    )  # fmt: skip


# reduce_scatter_by_hand, all_gather_by_hand, all_to_all_by_hand

CALLS = {
    "reduce_scatter_by_hand": "[torch.ones(64)] * {}",
    "all_gather_by_hand": "torch.ones(64)",
    "all_to_all_by_hand": "[torch.ones(64)] * {}",
}


def _see(name: str, ranks: int) -> str:
    """Return a line to count bytes or messages with: every tensor may hold the same."""
    return f"run({name}, {CALLS[name].format(ranks)}, ranks={ranks}, on=Cluster())"


def _see_values(name: str, ranks: int, shape: tuple, dtype: str, real: bool, kept: bool = False) -> str:
    """Return a line that shows what every rank returns, or keeps of its chunks; all tensors differ."""
    given = _numbered(shape, dtype)
    if name != "all_gather_by_hand":
        given = f"[{_numbered(shape, dtype, chunk=True)} for i in range({ranks})]"
    call = f"(given := {given}, {name}(dist, given))[0]" if kept else f"{name}(dist, {given})"
    return f"run(lambda dist: {call}, ranks={ranks}{'' if real else ', on=Cluster()'})"


def _reduced(answer: Any, ranks: int, shape: tuple = (4,), dtype: str = "float32", **on: Any) -> Results:
    given = _chunks(ranks, shape, dtype)
    sums = [sum(chunks[place] for chunks in given) for place in range(ranks)]
    own, real = [given[rank][rank].clone() for rank in range(ranks)], on.get("real", False)
    see = _see_values("reduce_scatter_by_hand", ranks, shape, dtype, real)
    trace = _run(see, returned, answer, each(given), ranks=ranks, **on)
    case = _on(ranks, real)
    for rank, got in enumerate(trace):
        here = f"{case} rank {rank} returned {_text(got)}"
        if equal(got, sums[rank]):
            continue
        tensor = isinstance(got, torch.Tensor)
        expect(tensor, f"{here}: return a tensor, the sum of all ranks' chunk {rank}", "form", see)
        expect(
            got.dtype == sums[rank].dtype or not equal(got.double(), sums[rank].double()),
            f"{case} rank {rank} returned {str(got.dtype).removeprefix('torch.')}; the chunks are {dtype}: keep their "
            "dtype",
            "dtype", see,
        )  # fmt: skip
        expect(
            not equal(got, own[rank]),
            f"{here}, its own chunk {rank}; the sum over all ranks is {_text(sums[rank])}",
            "own-chunk", see,
        )  # fmt: skip
        expect(
            not equal((got * ranks).double(), sums[rank].double()),
            f"{here}, the mean; the sum is {_text(sums[rank])}: do not divide by {ranks}",
            "mean", see,
        )  # fmt: skip
        others = [place for place in range(ranks) if equal(got, sums[place])]
        expect(not others, f"{here}, the sum of chunk {others}; rank {rank} is to get chunk {rank}", "wrong-chunk", see)
        expect(False, f"{here}; the sum of all ranks' chunk {rank} is {_text(sums[rank])}", "value", see)
    _no_builtin(trace, case)
    return trace


def _keeps_its_chunks(answer: Any, ranks: int) -> None:
    """Judge that the caller's chunks are after the call what they were before it."""
    given = _chunks(ranks, (4,))
    before = [[chunk.clone() for chunk in chunks] for chunks in given]
    see = _see_values("reduce_scatter_by_hand", ranks, (4,), "float32", False, kept=True)
    for rank, (_, after) in enumerate(_run(see, with_given, answer, each(given), ranks=ranks)):
        if equal(after, before[rank]):
            continue
        same = isinstance(after, list) and len(after) == ranks
        changed = [place for place in range(ranks) if same and not equal(after[place], before[rank][place])]
        place = changed[0] if changed else 0
        told = f"chunk {place} held {_text(before[rank][place])} and holds {_text(after[place])}" if changed else ""
        expect(
            False,
            f"{_on(ranks)} rank {rank} changed the chunks that its caller passed: {told or 'the list is another one'}. "
            "Leave them as they are, and add up in a copy: clone()",
            "changes-chunks", see,
        )  # fmt: skip


@check(value=1, chunks_kept=1, any_P=1, bytes=1, rounds=1)
def check_reduce_scatter_by_hand(answer: Any, part: Any) -> str:
    name = "reduce_scatter_by_hand"
    part("value")
    for ranks in (2, 4):
        _reduced(answer, ranks)
    _reduced(answer, 3, real=True)
    part("chunks kept")
    _keeps_its_chunks(answer, 4)
    part("any P")
    for ranks in (1, 3, 7):
        _reduced(answer, ranks)
    _reduced(answer, 3, (0,))
    _reduced(answer, 3, (2, 2), "int64")
    part("bytes")
    ranks, elements = 4, 64
    trace, size = _reduced(answer, ranks, (elements,)), 4 * elements
    sent = max(trace.bytes_sent)
    expect(
        min(trace.bytes_sent) < (ranks - 1) * ranks * size,
        f"{_on(ranks)} with chunks of {size} bytes each rank sent {sent:,} bytes, all its chunks to everyone; "
        f"{(ranks - 1) * size:,} will do: send each rank only the chunk that it adds up",
        "gathers-everything", _see(name, ranks) + ".bytes_sent",
    )  # fmt: skip
    _at_most(trace, (ranks - 1) * size, f"{_on(ranks)} with chunks of {size} bytes",
             "each rank needs P-1 chunks, one from every other", _see(name, ranks))  # fmt: skip
    part("rounds")
    _few_rounds(name, _reduced(answer, 5, on=STEPS), 5)
    return "sums on 1, 2, 3, 4 and 7 ranks · P-1 chunks sent by each"


def _few_rounds(name: str, trace: Results, ranks: int) -> None:
    """Judge the longest chain of messages, up to twice the P-1 that a ring takes, so that other orders pass too."""
    expect(
        trace.seconds <= 2 * (ranks - 1),
        f"{_on(ranks)} it took {trace.seconds:g} messages one after the other; {ranks - 1} will do: in each round "
        "every rank sends one chunk and receives one, and waits",
        "too-many-rounds", f"timeline({_see(name, ranks)})",
    )  # fmt: skip
    if trace.seconds > ranks - 1:
        _no_hot_spot(name, trace, ranks)


def _no_hot_spot(name: str, trace: Results, ranks: int) -> None:
    """Judge to whom each rank sends first: not most of them to the same one."""
    firsts = [trace.of(rank, "send")[0].peer for rank in range(ranks)]
    target = max(set(firsts), key=firsts.count)
    crowd = firsts.count(target)
    expect(
        crowd <= ranks // 2,
        f"{_on(ranks)} {crowd} of them send to rank {target} first and stand in line there, while the other "
        f"ranks receive nothing; it took {trace.seconds:g} messages one after the other, and {ranks - 1} will do. In "
        "step s send to the rank s places to the right, and wait before the next step",
        "hot-spot", f"timeline({_see(name, ranks)})",
    )  # fmt: skip


def _gathered(answer: Any, ranks: int, shape: tuple = (4,), dtype: str = "float32", **on: Any) -> Results:
    given = _different(ranks, shape, dtype)
    want = [tensor.clone() for tensor in given]
    real = on.get("real", False)
    see = _see_values("all_gather_by_hand", ranks, shape, dtype, real)
    trace = _run(see, returned, answer, each(given), ranks=ranks, **on)
    case = _on(ranks, real)
    for rank, got in enumerate(trace):
        _list_of(got, want, f"{case} rank {rank}", see, "the tensor of rank {}")
    _no_builtin(trace, case)
    return trace


def _list_of(got: Any, want: list, here: str, see: str, what: str) -> None:
    """Judge a returned list of tensors, place by place."""
    expect(
        isinstance(got, (list, tuple)),
        f"{here} returned {_text(got)}: return a list of {len(want)} tensors, in the order of ranks",
        "form", see,
    )  # fmt: skip
    expect(len(got) == len(want), f"{here} returned {len(got)} tensors; there are {len(want)} ranks", "form", see)
    if not equal(list(got), want):
        reordered = all(any(equal(one, other) for other in want) for one in got)
        wrong = next(place for place in range(len(want)) if not equal(got[place], want[place]))
        expect(
            not reordered,
            f"{here} returned the right tensors in another order or some of them twice: place {wrong} holds "
            f"{_text(got[wrong])}, and {what.format(wrong)} is {_text(want[wrong])}",
            "order", see,
        )  # fmt: skip
        expect(
            False,
            f"{here} returned {_text(got[wrong])} at place {wrong}; {what.format(wrong)} is {_text(want[wrong])}",
            "value", see,
        )  # fmt: skip


@check(value=2, any_P=1, bytes=1, rounds=1)
def check_all_gather_by_hand(answer: Any, part: Any) -> str:
    name = "all_gather_by_hand"
    part("value")
    for ranks in (2, 4):
        _gathered(answer, ranks)
    _gathered(answer, 3, real=True)
    part("any P")
    for ranks in (1, 3, 7):
        _gathered(answer, ranks)
    _gathered(answer, 3, (0,))
    _gathered(answer, 3, (2, 2), "int64")
    part("bytes")
    ranks, elements = 4, 64
    trace, size = _gathered(answer, ranks, (elements,)), 4 * elements
    _at_most(trace, (ranks - 1) * size, f"{_on(ranks)} with {size} bytes each", "each rank lacks P-1 tensors, and each "
             "of them is sent on once", _see(name, ranks))  # fmt: skip
    part("rounds")
    _few_rounds(name, _gathered(answer, 5, on=STEPS), 5)
    return "all tensors in order on 1, 2, 3, 4 and 7 ranks · P-1 tensors sent by each"


def _exchanged(answer: Any, ranks: int, shape: tuple = (4,), dtype: str = "float32", **on: Any) -> Results:
    given = _chunks(ranks, shape, dtype)
    want = [[given[source][rank].clone() for source in range(ranks)] for rank in range(ranks)]
    before = [[chunk.clone() for chunk in chunks] for chunks in given]
    real = on.get("real", False)
    see = _see_values("all_to_all_by_hand", ranks, shape, dtype, real)
    trace = _run(see, returned, answer, each(given), ranks=ranks, **on)
    case = _on(ranks, real)
    for rank, got in enumerate(trace):
        expect(
            not equal(got, before[rank]) or equal(got, want[rank]),
            f"{case} rank {rank} returned its own chunks; place i of what it returns is to be the chunk that rank i "
            "had for it",
            "own-chunks", see,
        )  # fmt: skip
        _list_of(got, want[rank], f"{case} rank {rank}", see, f"chunk {rank} of rank {{}}")
    _no_builtin(trace, case)
    return trace


@check(value=2, any_P=1, bytes=1, no_hot_spot=1, rounds=1)
def check_all_to_all_by_hand(answer: Any, part: Any) -> str:
    name = "all_to_all_by_hand"
    part("value")
    for ranks in (2, 4):
        _exchanged(answer, ranks)
    _exchanged(answer, 3, real=True)
    part("any P")
    for ranks in (1, 3, 7):
        _exchanged(answer, ranks)
    _exchanged(answer, 3, (0,))
    _exchanged(answer, 3, (2, 2), "int64")
    part("bytes")
    ranks, elements = 4, 64
    trace, size = _exchanged(answer, ranks, (elements,)), 4 * elements
    _at_most(trace, (ranks - 1) * size, f"{_on(ranks)} with chunks of {size} bytes",
             "each chunk goes straight to the one rank that needs it", _see(name, ranks))  # fmt: skip
    part("no hot spot")
    ranks = 6
    trace = _exchanged(answer, ranks, on=STEPS)
    _no_hot_spot(name, trace, ranks)
    part("rounds")
    for ranks in (4, 6):
        trace = _exchanged(answer, ranks, on=STEPS)
        expect(
            trace.seconds <= ranks - 1,
            f"{_on(ranks)} it took {trace.seconds:g} messages one after the other; {ranks - 1} will do when in each "
            "round every rank sends to one rank and receives from one, and waits before the next round",
            "too-many-rounds", f"timeline({_see(name, ranks)})",
        )  # fmt: skip
    return "every chunk arrives on 1, 2, 3, 4 and 7 ranks · P-1 rounds · no hot spot"


# my_node_group

SUM_OF_GROUP = (
    "run(lambda dist: dist.all_reduce(torch.ones(1), group=my_node_group(dist, {})), ranks={}, on=Cluster())"
)
GROUP = "run(lambda dist: dist.get_process_group_ranks(my_node_group(dist, {})), ranks={}, on=Cluster())"


def _grouped(answer: Any, ranks: int, per_node: int, real: bool = False) -> None:
    tensors = _different(ranks, (2,))
    nodes = [list(range(first, min(first + per_node, ranks))) for first in range(0, ranks, per_node)]
    own = [nodes[rank // per_node] for rank in range(ranks)]
    sums = [sum(tensors[rank] for rank in own[place]) for place in range(ranks)]
    see, case = GROUP.format(per_node, ranks), f"{_on(ranks, real)} with {per_node} on each node"
    try:
        on = None if real else Cluster()
        trace = run(with_group, answer, each(tensors), per_node, ranks=ranks, on=on, timeout=REAL_SECONDS)
    except RankFailed as failure:
        said = str(failure)
        expect(
            "new_group" not in said or not (" called " in said or isinstance(failure, Deadlock)),
            f"{case} {said.split(': all ranks of a group')[0]}. Every rank of the world calls new_group for every "
            "group, in the same order, also for groups that it is not in",
            "members-only", see,
        )  # fmt: skip
        if isinstance(failure, Deadlock) and "in all_reduce" in said:
            listed = _run(see, members_of, answer, per_node, ranks=ranks)
            _right_members(listed, own, case, see)
            expect(
                False,
                f"{case} ranks {own[0][0]} and {own[0][-1]} hold different groups with the same ranks, so that none "
                "meets the other in a collective; make each node's group once",
                "several-groups", SUM_OF_GROUP.format(per_node, ranks),
            )  # fmt: skip
        smaller = len(nodes[-1]) < len(nodes[0]) and "new_group" in said and failure.error == "ValueError"
        expect(
            not smaller,
            _told(failure, case, f"The last node may hold fewer: here ranks {nodes[-1]}"),
            "raised", see,
        )  # fmt: skip
        _failed(failure, case, see)
    _right_members([None if got is None else got[0] for got in trace], own, case, see)
    for rank, (_, total) in enumerate(trace):
        expect(
            equal(total, sums[rank]),
            f"{case} rank {rank}: the sum over its group is {_text(total)}; over its node it is {_text(sums[rank])}",
            "value", see,
        )  # fmt: skip


def _right_members(found: Any, own: list, case: str, see: str) -> None:
    """Judge of which ranks each rank's group is."""
    for rank, members in enumerate(found):
        here = f"{case} rank {rank}"
        expect(members is not None, f"{here} returned None: return the group of its node", "none", see)
        expect(
            rank in members,
            f"{here} returned a group that it is not in, that of ranks {members}; its node is {own[rank]}: keep the "
            "group of your own node, not the last one made",
            "not-a-member", see,
        )  # fmt: skip
        expect(
            members == own[rank],
            f"{here} returned the group of ranks {members}; its node is {own[rank]}",
            "wrong-members", see,
        )  # fmt: skip


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


# fit_alpha_beta

SIZES = [8 * 2**power for power in range(28)]  # 8 B to 1 GiB
LINKS = ((5e-6, 1 / 50e9), (30e-6, 1 / 1.2e9), (1.5e-6, 1 / 400e9), (1e-3, 1 / 12e6))


def measured_times(alpha: float, beta: float, noise: float, seed: int, sizes: list | None = None) -> list:
    """Return made-up measurements of alpha + beta * size, each off by a factor near 1: `noise` is its deviation."""
    draw = random.Random(seed)
    return [(alpha + beta * size) * draw.gauss(1, noise) for size in sizes or SIZES]


def _pair(got: Any) -> tuple[float, float] | None:
    """Return two finite numbers as Python's own, out of a list, a tuple, an array or a tensor; else None."""
    if isinstance(got, (np.ndarray, torch.Tensor)):
        got = got.tolist()
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        return None
    single = [
        one.item() if isinstance(one, np.generic) or isinstance(one, (np.ndarray, torch.Tensor)) and one.size == 1
        else one for one in (x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in got)
    ]  # fmt: skip
    return tuple(map(float, single)) if all(close(x, x) for x in single) else None


def _fits(answer: Any, alpha: float, beta: float, seconds: list, sizes: list, within: float, told: str) -> None:
    got = answer(list(sizes), list(seconds))
    case = f"{told} (alpha = {alpha:g} s, beta = {beta:.3g} s/byte)"
    pair = _pair(got)
    expect(pair is not None, f"{case} it returned {got!r}: return two numbers, (alpha, beta)", "form")
    a, b = pair
    expect(not (close(a, beta, 0.2) and close(b, alpha, 0.2)), f"{case} it returned (beta, alpha)", "swapped")
    expect(
        not close(b * beta, 1, 0.2),
        f"{case} it returned {b:g} for beta, the bandwidth: beta is its inverse, in seconds per byte",
        "bandwidth",
    )
    off_a, off_b = abs(a / alpha - 1), abs(b / beta - 1)
    told_a = f"{case} alpha came out as {a:.6g} s, {_percent(off_a)} off"
    told_b = f"{case} beta came out as {b:.6g} s/byte, {_percent(off_b)} off"
    expect(
        close(a, alpha, within) or sizes == sorted(sizes) or not close(a, seconds[0], 0.05),
        f"{told_a}: it is the first of the times, and the sizes are not sorted",
        "not-sorted",
    )
    if told == EXACT:
        exact = "; exact times have an exact fit"
        expect(close(a, alpha, within), told_a + exact, "alpha")
        expect(close(b, beta, within), told_b + exact, "beta")
    few = ": a few of the times decide it. Give every size the same say: divide by the measured seconds"
    expect(
        close(a, alpha, within) or not close(b, beta, 3 * within) or off_a < 4 * within,
        f"{told_a}, while beta is nearly right: the largest sizes take thousands of times longer, and their errors "
        "drown the latency. Weigh by relative error: divide by the measured seconds",
        "largest-drown",
    )
    small = off_a < 4 * within and off_b < 4 * within
    expect(close(a, alpha, within), told_a + few * small, "few-points" if small else "alpha")
    expect(close(b, beta, within), told_b + few * small, "few-points" if small else "beta")


EXACT = "without noise"


@check(exact=1, noise=3)
def check_fit_alpha_beta(answer: Any, part: Any) -> str:
    part("exact")
    for place, (alpha, beta) in enumerate(LINKS):
        sizes = SIZES[::-1] if place % 2 else SIZES
        _fits(answer, alpha, beta, measured_times(alpha, beta, 0.0, place, sizes), sizes, 1e-4, EXACT)
    part("noise")
    seed = 100 * int(os.environ.get("COURSE_SEED", "0"))
    for place, (alpha, beta) in enumerate(LINKS * 2):
        sizes = SIZES[::-1] if place % 2 else SIZES
        seconds = measured_times(alpha, beta, 0.02, seed + place, sizes)
        _fits(answer, alpha, beta, seconds, sizes, 0.05, "with 2 % noise")
    for place, (alpha, beta) in enumerate(LINKS):
        seconds, most = measured_times(alpha, beta, 0.01, seed + 50 + place), len(SIZES) - 4
        for far in range(4):  # as far off as every hundredth time is
            seconds[far] = 1.06 * (alpha + beta * SIZES[far])
            seconds[most + far] = 0.94 * (alpha + beta * SIZES[most + far])
        _fits(answer, alpha, beta, seconds, SIZES, 0.05, "with the 4 smallest and 4 largest times 6 % off")
    return "exact without noise, within 5 % with it, 8 B to 1 GiB, on four kinds of link"


# collective_seconds, crossover_bytes

ELEMENTS = 420  # divisible by every number of ranks that is asked for
ASKED = {
    "naive": (("broadcast", "naive"), ("all_reduce", "naive")),
    "tree": (("broadcast", "tree"), ("all_reduce", "tree")),
    "ring": (("all_gather", "ring"), ("reduce_scatter", "ring"), ("all_reduce", "ring")),
    "pairwise": (("all_to_all", "pairwise"),),
}


def program(dist: Any, kind: str, algorithm: str) -> None:
    """Run one collective over a tensor of ELEMENTS floats by the algorithm that is asked for."""
    rank, ranks, tensor = dist.get_rank(), dist.get_world_size(), torch.ones(ELEMENTS)
    pieces = list(tensor.chunk(ranks))
    if algorithm == "naive":
        others = range(1, ranks)
        if kind == "all_reduce":
            [dist.recv(tensor.clone(), other) for other in others] if rank == 0 else dist.send(tensor, 0)
        [dist.send(tensor, other) for other in others] if rank == 0 else dist.recv(tensor, 0)
    elif algorithm == "tree":
        if kind == "all_reduce":
            dist.reduce(tensor, 0)
        dist.broadcast(tensor, 0)
    elif kind == "all_reduce":
        dist.all_reduce(tensor)
    elif kind == "all_to_all":
        dist.all_to_all([torch.empty_like(piece) for piece in pieces], pieces)
    elif kind == "all_gather":
        dist.all_gather(pieces, pieces[rank].clone())
    else:
        dist.reduce_scatter(torch.empty_like(pieces[0]), pieces)


def _costs(answer: Any, kind: str, algorithm: str, ranks: int) -> None:
    size = 4 * ELEMENTS
    alpha, beta = 5e-6, 1e-9
    case = f"{kind} by {algorithm} {_on(ranks)}"
    for a, b in ((1.0, 0.0), (0.0, 1.0), (alpha, beta)):
        want = library_seconds(kind, ranks, size, a, 1 / b if b else math.inf, algorithm)
        if a == alpha and ranks == 7:
            want = run(program, kind, algorithm, ranks=ranks, on=Cluster(latency=alpha, bandwidth=1 / beta)).seconds
        got = _plain_number(answer(kind, ranks, size, a, b, algorithm))
        see = f"collective_seconds({kind!r}, {ranks}, {size}, {a!r}, {b!r}, {algorithm!r})"
        if close(got, want, 1e-9, 1e-15):
            continue
        if b == 0:
            head = f"{case} counts {got!r} messages one after the other (alpha = 1, beta = 0); it takes {want:g}"
            below = math.floor(math.log2(ranks)) * (2 if kind == "all_reduce" else 1)
            both = kind == "all_reduce" and close(got, want / 2)
            expect(not both, f"{head}: an all-reduce adds up and then hands the sum back", "one-way", see)
            floor = algorithm == "tree" and isinstance(got, (int, float)) and below <= got < want
            expect(not floor, f"{head}: ceil(log2 P) rounds, where P is no power of two one more", "floor", see)
            expect(False, head, "messages", see)
        if a == 0:
            given = f"S = {size:,}, alpha = 0, beta = 1"
            head = f"{case} counts {got!r} bytes one after the other ({given}); it takes {want:g}"
            whole = algorithm in ("ring", "pairwise") and close(got, want * ranks)
            expect(not whole, f"{head}: each message carries one piece, S / P", "whole-tensor", see)
            expect(False, head, "bytes", see)
        expect(False, f"{case} takes {got!r} s; in the simulator it took {want:.6g} s", "value", see)


@check(naive=1, tree=1, ring=1, pairwise=1)
def check_collective_seconds(answer: Any, part: Any) -> str:
    for name, cases in ASKED.items():
        part(name)
        for kind, algorithm in cases:
            for ranks in (4, 7, 1):
                _costs(answer, kind, algorithm, ranks)
    return "equal to the simulator on 1, 4 and 7 ranks, for eight collectives"


@check(value=2, few_ranks=1)
def check_crossover_bytes(answer: Any, part: Any) -> str:
    part("value")
    links = ((8, 5e-6, 1 / 50e9), (64, 3e-6, 1e-9), (4, 1.0, 1.0), (7, 2e-6, 4e-9), (1000, 1e-5, 1e-8))
    for ranks, alpha, beta in links:
        want = library_crossover(ranks, alpha, 1 / beta)
        got = _plain_number(answer(ranks, alpha, beta))
        see = f"crossover_bytes({ranks}, {alpha!r}, {beta!r})"
        number = isinstance(got, (int, float)) and not isinstance(got, bool) and 0 <= got < math.inf
        expect(number, f"{_on(ranks)} it returned {got!r}: return a number of bytes", "form", see)
        tree, ring = (library_seconds("all_reduce", ranks, got, alpha, 1 / beta, name) for name in ("tree", "ring"))
        expect(
            close(got, want, 1e-6),
            f"{_on(ranks)} with alpha = {alpha:g} and beta = {beta:.3g} it returned {got:,.6g} bytes, for which a tree "
            f"takes {tree:.4g} s and a ring {ring:.4g} s: at the crossover both take the same",
            "value", see,
        )  # fmt: skip
    part("few ranks")
    for ranks in (1, 2, 3):
        got = _plain_number(answer(ranks, 5e-6, 1e-9))
        expect(
            close(got, 0.0),
            f"{_on(ranks)} it returned {got!r}: a ring takes no more messages than a tree there, so it is never slower "
            "and the crossover is 0",
            "few-ranks", f"crossover_bytes({ranks}, 5e-6, 1e-9)",
        )  # fmt: skip
    return "tree and ring take the same time on 4 to 1,000 ranks · 0 on up to three"


# hierarchical_all_reduce

EDGE = (
    "run(hierarchical_all_reduce, torch.ones({elements}), {per_node}, ranks={ranks}, on=Cluster(nodes={nodes}, "
    "gpus_per_node={per_node}, bandwidth=math.inf, latency=0, nic_bandwidth=1, nic_latency=0, nics={nics})).seconds"
)


def _nodes(ranks: int, per_node: int, nics: int) -> Cluster:
    """Return nodes inside which everything is free; a byte takes one second through a network port."""
    return Cluster(
        nodes=ranks // per_node, gpus_per_node=per_node, bandwidth=math.inf, latency=0.0,
        nic_bandwidth=1.0, nic_latency=0.0, nics=nics,
    )  # fmt: skip


def _summed(answer: Any, ranks: int, per_node: int, elements: int, dtype: str = "float32", **on: Any) -> Results:
    tensors = _different(ranks, (elements,), dtype)
    total, own = sum(tensors), [tensor.clone() for tensor in tensors]
    call = f"hierarchical_all_reduce(dist, t, {per_node})"
    see = _see_in_place(call, ranks, (elements,), dtype, on.get("real", False))
    trace = _run(see, in_place, answer, each(tensors), per_node, ranks=ranks, **on)
    case = f"{_on(ranks, on.get('real', False))} with {per_node} on each node"
    for rank, (mine, back) in enumerate(trace):
        if equal(mine, total):
            continue
        here = f"{case} rank {rank} holds {_text(mine)}; the sum over all ranks is {_text(total)}"
        first = rank // per_node * per_node
        node = sum(own[first : first + per_node])
        expect(
            not (equal(mine, own[rank]) and equal(back, total)),
            f"{here}. It returned the sum and left the tensor as it was: write into the tensor",
            "not-in-place", see,
        )  # fmt: skip
        expect(not equal(mine, node), f"{here}. It holds the sum over its own node", "only-the-node", see)
        expect(
            not equal(mine, sum(own[rank % per_node :: per_node])),
            f"{here}. It holds the sum over the ranks at its place in each node",
            "only-across", see,
        )  # fmt: skip
        expect(False, here, "value", see)
    return trace


@check(value=2, any_nodes=1, node_edge=1, every_port=1)
def check_hierarchical_all_reduce(answer: Any, part: Any) -> str:
    part("value")
    for ranks, per_node in ((4, 2), (6, 3)):
        _summed(answer, ranks, per_node, 12)
    _summed(answer, 4, 2, 8, real=True)
    part("any nodes")
    for ranks, per_node in ((1, 1), (3, 3), (4, 1), (6, 2)):
        _summed(answer, ranks, per_node, 24)
    _summed(answer, 4, 2, 4, "int64")
    ranks, per_node, elements = 8, 4, 64
    size = 4 * elements
    given = {"elements": elements, "per_node": per_node, "ranks": ranks, "nodes": ranks // per_node}
    part("node edge")
    crossed = _summed(answer, ranks, per_node, elements, on=_nodes(ranks, per_node, nics=1)).seconds
    expect(
        crossed <= 1.1 * size,
        f"{_on(ranks)} on two nodes with a tensor of {size} bytes, {crossed:,.0f} bytes went one after the other "
        f"through the one port of a node; {size} will do: add up inside each node before anything leaves it",
        "node-edge", EDGE.format(**given, nics=1),
    )  # fmt: skip
    part("every port")
    busiest = _summed(answer, ranks, per_node, elements, on=_nodes(ranks, per_node, nics=per_node)).seconds
    expect(
        busiest <= 1.1 * size / per_node,
        f"{_on(ranks)} on two nodes with a port for each rank, {busiest:,.0f} bytes went through the busiest port; "
        f"{size // per_node} will do: reduce-scatter inside the node, so that each of its {per_node} ranks carries a "
        f"{per_node}th of the sum to the other node",
        "one-port", EDGE.format(**given, nics=per_node),
    )  # fmt: skip
    return "sums on 1 to 8 ranks · one tensor per node leaves it, by all its ports"


# The clinic: snippets of the notebook, what each is given, and what a repaired one returns

FAULTS = {
    "sum_both": "every rank calls the same collectives in the same order",
    "sum_for_rank_0": "every rank calls a collective, also one that does not need the result",
    "swap_with_neighbour": "two blocking sends that face each other wait forever: isend, recv, then wait()",
    "sum_in_node": "use the group of this rank's own node, not the last one made",
    "pass_right": "keep the handle that isend returns and wait() for it",
}
HEADS = {
    name: f"def {name}(dist, {'loss, gradient' if name == 'sum_both' else 'loss' if '_0' in name else 'tensor'})"
    for name in FAULTS
}


def _patient(name: str, ranks: int) -> tuple[list, list]:
    """Return what each rank passes to a snippet, and what a right one returns there."""
    mine = _different(ranks, (3,))
    total = sum(mine)
    if name == "sum_both":
        other = [tensor + 100 for tensor in mine]
        return list(zip(mine, other, strict=True)), [(total, sum(other))] * ranks
    want = {
        "sum_for_rank_0": [total] + [None] * (ranks - 1),
        "swap_with_neighbour": [mine[rank ^ 1] for rank in range(ranks)],
        "sum_in_node": [mine[rank // 2 * 2] + mine[rank // 2 * 2 + 1] for rank in range(ranks)],
        "pass_right": [mine[rank - 1] for rank in range(ranks)],
    }
    return [(tensor,) for tensor in mine], [_copy(value) for value in want[name]]


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


OUTCOMES = ("wrong numbers", "deadlock", "error", "right")


def diagnose(snippet: Any, guess: str | None = None, ranks: int = 4) -> None:
    """Run a snippet of the clinic on simulated ranks and print the guess beside what happened.

    It happens one of: "right", "wrong numbers", "deadlock", "error". The number of ranks is even.
    """
    name = getattr(snippet, "__name__", "")
    if name not in FAULTS:
        print(f"diagnose takes a snippet of the clinic ({', '.join(FAULTS)}), not {snippet!r}")
        return
    if ranks < 2 or ranks % 2:
        print(f"ranks={ranks}: two ranks make a pair or a node here, so give an even number")
        return
    given, want = _patient(name, ranks)
    try:
        got = list(run(called_with, snippet, each(given), ranks=ranks, on=Cluster()))
    except RankFailed as failure:
        seen = "deadlock" if isinstance(failure, Deadlock) else "error"
        lines = [str(failure)]
    else:
        seen = "right" if equal(got, want) else "wrong numbers"
        lines = [f"rank {rank} returned {_text(got[rank])}; right is {_text(want[rank])}" for rank in range(ranks)]
    print(_guessed(guess, seen))
    print("\n".join(lines))


def _guessed(guess: Any, seen: str) -> str:
    if guess is None:
        return f"no guess   happened: {seen}"
    if guess == seen:
        return f"guess: {guess} - as you said"
    if guess in OUTCOMES:
        return f"guess: {guess}   happened: {seen}"
    return f"guess: {guess!r} is not one of the four: {', '.join(OUTCOMES)}   happened: {seen}"


def _repaired(answer: Any, name: str, ranks: int) -> tuple[str, str, str]:
    """Return what is wrong with one repaired snippet as (sentence, code, see); ("", "", "") if it is right."""
    given, want = _patient(name, ranks)
    see = f"diagnose(clinic.{name}, ranks={ranks})"
    case = f"{name} {_on(ranks)}"
    try:
        trace = run(one_snippet, answer, name, each(given), ranks=ranks, on=Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        return *_collapsed(failure, name, case), see
    first = [_copy(arguments[0]) for arguments in _patient(name, ranks)[0]]
    for rank, got in enumerate(trace):
        got = list(got) if isinstance(got, (list, tuple)) else got
        if not equal(got, _plain(want[rank])):
            told = f"{case} rank {rank} returned {_text(got)}; right is {_text(want[rank])}"
            why = _mistake(name, rank, got, want, first)
            return f"{told}: {why}" if why else told, "value", see
    most = max(trace.bytes_sent)
    if name in ("swap_with_neighbour", "pass_right") and most > 12:
        told = f"{case} a rank sent {most} bytes; its tensor has 12, and it goes to one rank"
        return told, "too-many-bytes", see
    return "", "", ""


def _collapsed(failure: RankFailed, name: str, case: str) -> tuple[str, str]:
    """Return the sentence and the code of a snippet that raised or hangs; the known fault only where it is that one."""
    said = str(failure)
    if failure.error == "NotImplementedError":
        return f"{name} is not repaired yet", "not-written"
    if failure.error == "AttributeError" and f"attribute '{name}'" in said:
        return f"{name} is missing in the class", "missing"
    if failure.error == "TypeError" and f"{name}() " in said and "positional argument" in said:
        return f"{case} {said}\nThe five take no self: {HEADS[name]}", "signature"
    if isinstance(failure, Deadlock):
        original = {"sum_for_rank_0": "in all_reduce for rank", "swap_with_neighbour": "to send "}.get(name)
        circle = name != "swap_with_neighbour" or " to receive " not in said
        fault = f"{FAULTS[name]}." if original and original in said and circle else ""
        return _told(failure, case, fault), "deadlock"
    if name == "sum_in_node" and "is not in this group" in said:
        return _told(failure, case, FAULTS[name]), "raised"
    if name == "sum_in_node" and "new_group" in said and " called " in said:
        return _told(failure, case, "every rank makes every group, in the same order"), "raised"
    return _told(failure, case), "raised"  # a dropped handle tells its mistake itself


def _mistake(name: str, rank: int, got: Any, want: list, first: list) -> str:
    """Return which mistake a wrong value is, if it is a known one."""
    ranks = len(want)
    if name == "sum_both":
        if equal(got, list(want[rank])[::-1]):
            return "the results are swapped"
        (loss, gradient), given = want[0], _patient(name, ranks)[0]
        begin = given[0]  # rank 0 brought its loss where the others brought their gradients, or the other way round
        mixed = [gradient - begin[1] + begin[0], loss - begin[0] + begin[1]]
        mine = isinstance(got, list) and len(got) == 2
        return FAULTS[name] if mine and (equal(got, mixed) or equal(got, mixed[::-1])) else ""
    if name == "sum_for_rank_0":
        return "only rank 0 returns it" if rank and equal(got, want[0]) else ""
    if name == "pass_right" and equal(got, first[(rank + 1) % ranks]):
        return "it passes to the left; send to rank + 1 and receive from rank - 1"
    if name in ("pass_right", "swap_with_neighbour") and equal(got, first[rank]):
        return "that is its own tensor"
    return ""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@check(sum_both=1, sum_for_rank_0=1, swap_with_neighbour=1, sum_in_node=1, pass_right=1)
def check_clinic(answer: Any, part: Any) -> str:
    faults = {}
    for name in FAULTS:  # each is judged whatever becomes of the others
        sick = [found for ranks in (4, 6, 2) if (found := _repaired(answer, name, ranks))[0]]
        if sick:
            faults[name] = sick[0]
    cured = [name for name in FAULTS if name not in faults]
    if cured:
        patients = {name: _patient(name, 4) for name in cured}
        given = [{name: patients[name][0][rank] for name in cured} for rank in range(4)]
        want = [{name: _plain(patients[name][1][rank]) for name in cured} for rank in range(4)]
        trace = _run("", every_snippet, answer, each(given), ranks=4, real=True)
        for rank, got in enumerate(trace):
            for name in cured:
                right = isinstance(got, dict) and equal(_plain(got.get(name)), want[rank][name])
                told = f"{name} {_on(4, True)} rank {rank} did not return {_text(want[rank][name])}"
                expect(right, told, "value-on-real-ranks", f"diagnose(clinic.{name})")
    for name in cured:
        part(name.replace("_", " "))
    if faults:
        name, (sentence, code, see) = next(iter(faults.items()))
        part(name.replace("_", " "))
        expect(False, sentence if len(faults) == 1 else _all_told(faults), code, see)
    return "all five are right on 2, 4 and 6 simulated ranks and on 4 real ones"


def _all_told(faults: dict) -> str:
    """Return one line for each part that is not right: all have been judged, though one mark alone shows it."""
    if all(code == "not-written" for _, code, _ in faults.values()) and len(faults) == len(FAULTS):
        return "none of the five is repaired yet"
    lines = []
    for sentence, code, _ in faults.values():
        first, *rest = sentence.split("\n")
        if code == "deadlock":
            known = [line for line in rest[-1:] if line.rstrip(".") in map(_sentence_case, FAULTS.values())]
            first = ". ".join([first.partition(". No rank")[0], *known])
        lines.append(f"    ✗ {first}")
    return "\n".join([f"{len(faults)} of the five are judged not right:", *lines])


def _sentence_case(words: str) -> str:
    return words[:1].upper() + words[1:]
