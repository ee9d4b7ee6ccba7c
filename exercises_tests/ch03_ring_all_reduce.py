"""Checks of chapter 3: a ring is told by its bytes and its steps, not by its sum."""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from course_lib.checks import check, close, equal, expect, integers
from course_lib.ranks import Results, run
from course_lib.simulator import Cluster

STEPS = Cluster(latency=1.0, bandwidth=math.inf)  # each message takes one second: virtual seconds count the steps
WIRE = Cluster(latency=0.0, bandwidth=1.0)  # each byte takes one second: virtual seconds count bytes in a row
SIZES = ((4, (8,)), (2, (6,)), (1, (5,)), (3, (7,)), (7, (16,)), (4, (2, 5)), (5, (3,)), (3, (0,)))


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def in_place(dist: Any, answer: Any, tensors: list) -> tuple:
    mine = tensors[dist.get_rank()]
    returned = answer(dist, mine)
    return mine, returned if isinstance(returned, torch.Tensor) else None


def _case(ranks: int, shape: tuple) -> str:
    elements = math.prod(shape)
    return f"on {ranks} {'rank' if ranks == 1 else 'ranks'} with {elements} {'element' if elements == 1 else 'elements'}"


def _see(name: str, ranks: int, shape: tuple) -> str:
    return f"run({name}, torch.arange({math.prod(shape)}.), ranks={ranks}, on=Cluster())"


def _no_builtin(trace: Results) -> None:
    used = {kind for kinds in trace.collectives for kind in kinds if kind != "barrier"}
    names = ", ".join(f"dist.{kind}" for kind in sorted(used))
    expect(not used, f"it calls {names}: use only send, recv, isend and irecv", "built-in")


def _look_at(name: str, ranks: int, shape: tuple, trace: Results, want: list, before: list) -> None:
    """Judge the values; `want` holds for each rank a tensor, or (piece, chunk number) where only a chunk counts."""
    case, see = _case(ranks, shape), _see(name, ranks, shape)
    for rank, (mine, returned) in enumerate(trace):
        piece, place = want[rank]
        got = mine if place is None else mine.view(-1).tensor_split(ranks)[place]
        what = "the tensor" if place is None else f"chunk {place}"
        if equal(got, piece):
            continue
        start = before[rank] if place is None else before[rank].view(-1).tensor_split(ranks)[place]
        expect(
            not (equal(got, start) and returned is not None),
            f"{case} the tensor that rank {rank} was given is unchanged: write into it, "
            "returning a new one is not in place",
            "not-in-place", see,
        )  # fmt: skip
        expect(
            ranks == 1 or not got.is_floating_point() or not equal(got * ranks, piece),
            f"{case} rank {rank} holds the mean, not the sum: do not divide by {ranks}",
            "mean", see,
        )  # fmt: skip
        wrong = (got != piece).view(-1).nonzero().view(-1).tolist() if got.shape == piece.shape else []
        tail = math.prod(shape) % ranks
        if place is None and wrong and tail and min(wrong) >= math.prod(shape) - tail:
            sentence = f"{case} the last {len(wrong)} stay without their sum: {ranks} does not divide {math.prod(shape)}, "
            expect(False, sentence + "and the rest belongs to some chunk too", "rest-dropped", see)
        expect(
            False,
            f"{case} {what} on rank {rank} is {_short(got)}; the sum is {_short(piece)}",
            "value", see,
        )  # fmt: skip


def _short(tensor: torch.Tensor) -> str:
    values = tensor.flatten().tolist()
    return "[" + ", ".join(f"{value:g}" for value in values[:8]) + (", ...]" if len(values) > 8 else "]")


def _values(name: str, answer: Any, cases: Any, wanted: Any, given: Any, dtype: str = "float32") -> None:
    for ranks, shape in cases:
        before = given(integers(ranks, shape, dtype))
        want = wanted(before)
        trace = run(in_place, answer, before, ranks=ranks, on=Cluster())
        _look_at(name, ranks, shape, trace, want, before)
        _no_builtin(trace)


def _real(name: str, answer: Any, wanted: Any, given: Any) -> None:
    before = given(integers(3, (7,)))
    want = wanted(before)
    _look_at(name, 3, (7,), run(in_place, answer, before, ranks=3, timeout=20), want, before)


def _few_bytes(name: str, answer: Any, rounds: int, ranks: int = 4, elements: int = 1024) -> None:
    """Judge what each rank sends: at most one chunk in each of `rounds` times P-1 steps."""
    tensors = integers(ranks, (elements,))
    whole = 4 * elements
    bound = rounds * (ranks - 1) * 4 * math.ceil(elements / ranks)
    sent = run(in_place, answer, tensors, ranks=ranks, on=Cluster()).bytes_sent
    see = f"run({name}, torch.arange({elements}.), ranks={ranks}, on=Cluster()).bytes_sent"
    most, least = max(sent), min(sent)
    head = f"on {ranks} ranks rank {sent.index(most)} sent {most:,} bytes and rank {sent.index(least)} {least:,}"
    expect(
        most <= bound or most < 2 * least,
        f"{head}; in a ring each sends {bound:,}. Everything goes through rank {sent.index(most)}: "
        "send each chunk to the right-hand neighbour only",
        "through-one-rank", see,
    )  # fmt: skip
    expect(
        most <= bound or most < (ranks - 1) * whole,
        f"on {ranks} ranks each rank sent {most:,} bytes; a ring sends {bound:,}. "
        "You are passing the whole tensor on at every step: pass one chunk",
        "whole-tensor", see,
    )  # fmt: skip
    expect(most <= bound, f"on {ranks} ranks a rank sent {most:,} bytes; a ring sends {bound:,}", "too-many-bytes", see)


def _few_steps(name: str, answer: Any, rounds: int, ranks: int = 4, elements: int = 1024) -> None:
    """Judge the longest chain of messages, counted in virtual time, and that all links are busy at once."""
    tensors = integers(ranks, (elements,))
    want = rounds * (ranks - 1)
    steps = run(in_place, answer, tensors, ranks=ranks, on=STEPS).seconds
    expect(
        steps <= want,
        f"on {ranks} ranks it took {steps:g} messages one after the other; a ring takes {want}: in every step all ranks "
        "send to the right and receive from the left at the same time",
        "too-many-steps", f"timeline(run({name}, torch.arange({elements}.), ranks={ranks}, on=Cluster()))",
    )  # fmt: skip
    busy = run(in_place, answer, tensors, ranks=ranks, on=WIRE).seconds
    bound = want * 4 * math.ceil(elements / ranks)
    expect(
        busy <= bound,
        f"on {ranks} ranks the bytes took as long as {busy:,.0f} bytes in a row; a ring needs {bound:,}: links stand idle",
        "idle-links",
    )  # fmt: skip


def _as_given(tensors: list) -> list:
    return tensors


def _sum_everywhere(tensors: list) -> list:
    return [(torch.stack(tensors).sum(0).to(tensors[0].dtype), None)] * len(tensors)


def _sum_of_own_chunk(tensors: list) -> list:
    total, _ = _sum_everywhere(tensors)[0]
    return list(zip(total.view(-1).tensor_split(len(tensors)), range(len(tensors)), strict=True))


def _only_own_chunk(tensors: list) -> list:
    """Return what ranks hold before an all-gather: their own chunk, and -100 where others' will be."""
    given = []
    for rank, tensor in enumerate(tensors):
        mine = torch.full_like(tensor, -100)
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
    _values(name, answer, SIZES[:2], _sum_of_own_chunk, _as_given)
    _real(name, answer, _sum_of_own_chunk, _as_given)
    part("any P")
    _values(name, answer, SIZES[2:], _sum_of_own_chunk, _as_given)
    _values(name, answer, SIZES[3:4], _sum_of_own_chunk, _as_given, "int64")
    part("bytes")
    _few_bytes(name, answer, rounds=1)
    part("steps")
    _few_steps(name, answer, rounds=1)
    return "rank r ends with the sum of chunk r on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_all_gather_ring(answer: Any, part: Any) -> str:
    name = "all_gather_ring"
    part("value")
    _values(name, answer, SIZES[:2], _all_chunks, _only_own_chunk)
    _real(name, answer, _all_chunks, _only_own_chunk)
    part("any P")
    _values(name, answer, SIZES[2:], _all_chunks, _only_own_chunk)
    _values(name, answer, SIZES[3:4], _all_chunks, _only_own_chunk, "int64")
    part("bytes")
    _few_bytes(name, answer, rounds=1)
    part("steps")
    _few_steps(name, answer, rounds=1)
    return "every rank ends with every chunk on 1, 2, 3, 4, 5 and 7 ranks · (P-1)/P·S bytes per rank · P-1 steps"


@check(value=2, any_P=1, bytes=1, steps=1)
def check_ring_all_reduce(answer: Any, part: Any) -> str:
    name = "ring_all_reduce"
    part("value")
    _values(name, answer, SIZES[:2], _sum_everywhere, _as_given)
    _real(name, answer, _sum_everywhere, _as_given)
    part("any P")
    _values(name, answer, SIZES[2:], _sum_everywhere, _as_given)
    for dtype in ("int64", "float64", "bfloat16"):
        _values(name, answer, SIZES[3:4], _sum_everywhere, _as_given, dtype)
    part("bytes")
    _few_bytes(name, answer, rounds=2)
    part("steps")
    _few_steps(name, answer, rounds=2)
    return "sums correctly on 1, 2, 3, 4, 5 and 7 ranks · 2(P-1)/P·S bytes per rank · 2(P-1) steps"


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


@check(ring=2, cost=1)
def check_which_is_the_ring(answer: Any, part: Any) -> str:
    shuffle = random.Random(len("which_is_the_ring"))
    cases = []
    for ranks in (4, 2, 3, 8):
        for _ in range(2):
            names = "".join(shuffle.sample("ABC", 3))
            meters = three_meters(ranks, 24 * ranks, names)
            costs = {name: max(meter["sent"]) / meter["bytes"] for name, meter in meters.items()}
            cases.append((ranks, meters, names[0], costs))
    answers = [answer(meters) for _, meters, _, _ in cases]
    part("ring")
    for (ranks, meters, ring, _), got in zip(cases, answers, strict=True):
        expect(
            isinstance(got, tuple) and len(got) == 2,
            f"it returned {got!r}: return the ring's name and a dict of costs, as in ('B', {{'A': 3.0, ...}})",
            "form",
        )
        readings = "; ".join(f"{name}: sent {m['sent'][:4]}, messages {m['messages'][:4]}" for name, m in meters.items())
        expect(
            equal(got[0], ring),
            f"on {ranks} ranks the ring was {ring}, not {got[0]!r} ({readings}): in a ring every rank sends "
            f"{2 * (ranks - 1)} messages of 1/{ranks} of the tensor",
            "wrong-ring",
        )
    part("cost")
    for (ranks, _, _, costs), (_, got) in zip(cases, answers, strict=True):
        expect(isinstance(got, dict) and got.keys() == costs.keys(), f"give a cost for each of A, B and C, not {got!r}", "form")
        for name, want in costs.items():
            expect(
                close(got[name], want, 1e-6),
                f"on {ranks} ranks the busiest rank of {name} sent {want:.4g} times the tensor, not {got[name]!r}",
                "wrong-cost",
            )
    return "finds the ring on 2, 3, 4 and 8 ranks from what was sent, and what each costs its busiest rank"
