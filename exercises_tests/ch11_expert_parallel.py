"""Checks of chapter 11: routes and capacity, rows to experts and back, a layer with its gradients, and even loads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from course_lib import Cluster, RankFailed, Results, each, run
from course_lib.costs import combine_bytes, expert_bytes
from course_lib.models import MODELS
from course_lib.served import SERVED
from exercises_tests.judging import Case, Hint, Mistake, alone, called, check
from exercises_tests.seeds import course_seed, drawn
from exercises_tests.values import close, count, draw, equal, is_number, near, plain, shown, versus

EXACT = 1e-9  # the sums here are of few float64 numbers, and their order is free
LEAVES_EARLY = Hint(
    "waits in all_to_all",
    "a rank went on without the others, which wait for it for ever. Every rank takes part in each all-to-all, also one "
    "that has nothing to send or to compute: its pieces are empty",
    "leaves-early",
)


def in_turn(dist: Any, answer: Any, drives: list, cases: list) -> list:
    """Beside the answer: one case after another; nobody begins the next before all are done with one."""
    found = []
    for drive, case in zip(drives, cases, strict=True):
        found.append(drive(dist, answer, *case))
        dist.barrier()
    return found


class Turns:
    """Runs of an answer on simulated ranks, of which all that have equally many ranks are one.

    Where submissions are graded, each process of each run takes a second. A run that fails is taken apart: then each of
    its cases runs by itself when it is judged, so that the one that fails is told, and no other.
    """

    def __init__(self, answer: Any, cases: dict[Any, tuple[Callable, Sequence[tuple]]]) -> None:
        """`cases`: by any name, what runs beside the answer, and what each rank gives it."""
        self._answer, self._cases, self._found = answer, cases, {}

    def of(self, name: Any, case: Case) -> Results:
        """Return what every rank returned in the case of this name."""
        if name not in self._found:
            self._found |= self._together(case.ranks)
        drive, given = self._cases[name]
        columns = [each(list(column)) for column in zip(*given, strict=True)]
        return self._found[name] or case.run(drive, self._answer, *columns, hints=[LEAVES_EARLY])

    def _together(self, ranks: int) -> dict[Any, Results | None]:
        """Return the results of all cases on so many ranks, or None for each where their run fails."""
        mine = {name: case for name, case in self._cases.items() if len(case[1]) == ranks}
        drives, given = [drive for drive, _ in mine.values()], zip(*(given for _, given in mine.values()), strict=True)
        try:
            trace = run(in_turn, self._answer, drives, each(list(map(list, given))), ranks=ranks, on=Cluster())
        except RankFailed:
            return dict.fromkeys(mine)
        ends = [[barrier.end for barrier in trace.of(rank, "barrier")] for rank in range(ranks)]
        if any(len(found) != len(mine) for found in ends):  # the answer has barriers of its own
            return dict.fromkeys(mine)
        events: list[list] = [[] for _ in mine]
        for event in trace.events:
            if event.kind != "barrier":
                events[min(len(mine) - 1, sum(event.posted >= end for end in ends[event.rank]))].append(event)
        return {name: Results([found[place] for found in trace], trace.seconds, events[place], [], True)
                for place, name in enumerate(mine)}  # fmt: skip


def _tensors(got: Any, number: int) -> bool:
    return isinstance(got, (list, tuple)) and len(got) == number and all(isinstance(one, torch.Tensor) for one in got)


# route_tokens


def routed(answer: Any, cases: list) -> list:
    """Beside the answer: what it returns for each case, the gradient of the scores, and the scores afterwards."""
    found = []
    for scores, k, capacity, probe in cases:
        leaf = scores.clone().requires_grad_()
        given = leaf * 1
        got = answer(given, k, capacity)
        if not isinstance(got, (list, tuple)) or not all(isinstance(one, torch.Tensor) for one in got):
            found.append(type(got).__name__)
            continue
        gradient = None
        if len(got) == 3 and got[1].requires_grad and got[1].shape == probe.shape:
            (got[1] * probe).sum().backward()
            gradient = leaf.grad
        found.append(([one.detach() for one in got], gradient, given.detach()))
    return found


def _scores(tokens: int, experts: int, seed: int = 0) -> torch.Tensor:
    """Return scores above 0, no two of a token alike, of which the first experts get more than their share."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(tokens, experts, dtype=torch.float64, generator=generator)
    return (logits + torch.linspace(1.5, -0.5, experts, dtype=torch.float64)).softmax(-1)


def _routes(got: Any, scores: torch.Tensor, k: int, capacity: float, probe: torch.Tensor, part: str) -> None:
    """Judge one part of what came back for these scores."""
    tokens, experts = scores.shape
    see = f"route_tokens(torch.rand({tokens}, {experts}), {k}, {str(capacity).replace('inf', 'math.inf')})"
    case = Case(label=f"with {tokens} tokens, {experts} experts, k = {k} and capacity {capacity}:", see=see)
    form = "return three tensors of tokens x k: experts, weights, kept"
    what = got if isinstance(got, str) else f"{len(got[0])} tensors"
    case.expect(not isinstance(got, str) and len(got[0]) == 3, f"it returned {what}: {form}", "form")
    (chosen, weights, kept), gradient, after = got
    shapes = ", ".join(str(list(one.shape)) for one in got[0])
    case.expect(all(one.shape == (tokens, k) for one in got[0]), f"the shapes are {shapes}: {form}", "form")
    case.expect(equal(after, scores), "the scores that it was given are changed: work on a copy", "changed")
    whole = not chosen.is_floating_point() and chosen.dtype != torch.bool
    case.expect(whole, f"the experts are {str(chosen.dtype)[6:]}: return whole numbers", "form")
    if part == "choice":
        rows = list(zip(scores.tolist(), chosen.tolist(), strict=True))
        for token, (row, mine) in enumerate(rows):
            best = sorted(range(experts), key=row.__getitem__)[::-1][:k]
            says = f"token {token} chose experts {mine}; its best {k} are {best}, the best first"
            lowest = sorted(range(experts), key=row.__getitem__)[:k]
            case.expect(mine != lowest or mine == best, f"{says}: you took the lowest scores", "lowest")
            case.expect(mine == best, says, "order" if sorted(mine) == sorted(best) else "choice")
        return
    values = scores.gather(1, chosen)
    share = values / values.sum(1, keepdim=True)
    if part == "weights":
        served = torch.where(kept, values, 0.0)
        alone_among_kept = torch.nan_to_num(served / served.sum(1, keepdim=True))
        mistakes = [
            Mistake("not-normalized", values, "are the scores themselves: divide by the sum of the k chosen ones"),
            Mistake("softmax-again", values.softmax(1), "are a softmax of scores, which come out of a softmax already: "
                    "divide by their sum"),
            Mistake("after-drop", torch.where(kept, alone_among_kept, 0.0), "share out what a dropped pair would have "
                    "had: a weight does not depend on who came first"),
            Mistake("after-drop", alone_among_kept, "share out what a dropped pair would have had: a weight does not "
                    "depend on who came first"),
            Mistake("zeroed", torch.where(kept, share, 0.0), "are 0 where a pair is dropped: `kept` says that already"),
        ]  # fmt: skip
        lost = weights.isnan() & ~kept.bool().any(1, keepdim=True)  # 0 / 0, where a token has no seat at all
        weights = torch.where(lost, 0.0, weights)
        case.same(weights, share, "the weights", *mistakes, says="they should be", tolerance=EXACT)
        leaf = scores.clone().requires_grad_()
        mine = leaf.gather(1, chosen)
        (mine / mine.sum(1, keepdim=True) * probe).sum().backward()
        none = "the weights have no gradient, so the router would never learn: don't detach them, nor copy numbers out"
        case.expect(gradient is not None, none, "no-gradient")
        case.same(gradient, leaf.grad, "the gradient of the scores", says="it should be", tolerance=EXACT)
        return
    case.expect(kept.dtype == torch.bool, f"kept is {str(kept.dtype)[6:]}: return True and False", "form")
    _served(case, scores, chosen, kept, capacity)


def _served(case: Case, scores: torch.Tensor, chosen: torch.Tensor, kept: torch.Tensor, capacity: float) -> None:
    """Judge who is kept: of each expert's pairs the first ones, in the order of tokens."""
    tokens, k = chosen.shape
    for expert in range(scores.shape[1]):
        pairs = [(token, place) for token in range(tokens) for place in range(k) if chosen[token, place] == expert]
        has = [bool(kept[pair]) for pair in pairs]
        if has == [number < capacity for number in range(len(pairs))]:
            continue
        first = [token for token, _ in pairs][: len(pairs) if capacity == math.inf else int(capacity)]
        mine = [token for (token, _), one in zip(pairs, has, strict=True) if one]
        told = f"expert {expert} serves tokens {mine}; {count(len(pairs), 'token')} chose it, and the first "
        told += f"{len(first)} are {first}"
        by_place = [token for token, _ in sorted(pairs, key=lambda pair: (pair[1], pair[0]))[: len(first)]]
        by_score = [token for token, _ in sorted(pairs, key=lambda pair: -scores[pair[0], expert].item())[: len(first)]]
        last = [token for token, _ in pairs][-len(first) :] if first else []
        code, why = "kept", ""
        split = any(bool(line.any()) != bool(line.all()) for line in kept)  # no token is served by some of its experts
        if k > 1 and not split and not kept.all():
            code, why = "whole-token", ": a token that one expert has no room for is still served by its others"
        elif len(mine) == len(first) + 1 and mine[:-1] == first:
            code, why = "one-more", ": one more than its capacity"
        elif len(mine) == len(first) - 1 and mine == first[:-1]:
            code, why = "one-less", ": one less than its capacity"
        elif mine == sorted(by_place):
            code, why = "by-choice", ": a second choice of an early token comes before the first choice of a later one"
        elif mine == sorted(by_score):
            code, why = "by-score", ": who comes first is served, whatever the score"
        elif mine == sorted(last):
            code, why = "last-come", ": these are the last"
        case.expect(False, told + why, code)


@check(choice=1, weights=2, capacity=2)
def check_route_tokens(answer: Any, part: Any) -> str:
    cases = [(12, 4, 2, 3), (40, 8, 3, 14), (16, 16, 1, 2), (9, 4, 2, math.inf), (7, 3, 3, 0), (0, 4, 2, 3)]
    asked = []
    for seed, (tokens, experts, k, capacity) in enumerate(cases):
        asked.append((_scores(tokens, experts, seed), k, capacity, draw((tokens, k), seed)))
    found = alone(routed, answer, [tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in case)
                                   for case in asked])  # fmt: skip
    for name in ("choice", "weights", "capacity"):
        part(name)
        for case, got in zip(asked, found, strict=True):
            _routes(got, *case, name)
    return "k best experts, weights that add up to 1 and can learn, first come first served; also without tokens"


# dispatch and combine: rows of ranks, and the experts they go to


FLOATS = (1, 3)  # the seeds of rows that have float32


class World(NamedTuple):
    """The rows of each rank, and the expert of each row; every rank has `per_rank` experts."""

    per_rank: int
    rows: list[torch.Tensor]
    experts: list[torch.Tensor]

    @property
    def given(self) -> list[tuple]:
        """What each rank is given to dispatch."""
        return [(*mine, self.per_rank) for mine in zip(self.rows, self.experts, strict=True)]

    def case(self, label: str = "", **on: Any) -> Case:
        told = f"with {count(self.per_rank, 'expert')} each and {', '.join(str(len(one)) for one in self.rows)} rows"
        return Case(len(self.rows), label or told, **on)


def _world(ranks: int, per_rank: int, sizes: list[int], seed: int = 0, width: int = 3) -> World:
    """Return rows whose numbers say where they are from, and experts, of which some get none."""
    generator = torch.Generator().manual_seed(seed)
    every, dtype = ranks * per_rank, torch.float32 if seed in FLOATS else torch.float64
    liked = torch.rand(every, generator=generator)
    liked[generator.initial_seed() % every] = 0.0  # nobody chooses this one
    liked = liked if float(liked.sum()) else torch.ones(every)
    experts = [torch.multinomial(liked, size, replacement=True, generator=generator) if size else
               torch.zeros(0, dtype=torch.int64) for size in sizes[:ranks]]  # fmt: skip
    rows = [
        ((100.0 * rank + torch.arange(size)[:, None] + torch.arange(width) / 8).double() / 7).to(dtype)
        for rank, size in enumerate(sizes[:ranks])
    ]
    return World(per_rank, rows, experts)


def _counts(experts: list, per_rank: int) -> list:
    """Return of each rank how many rows it sends, ranks x per_rank."""
    ranks = len(experts)
    return [torch.tensor([[int((mine == rank * per_rank + one).sum()) for one in range(per_rank)]
                          for rank in range(ranks)]).view(ranks, per_rank) for mine in experts]  # fmt: skip


def sent_off(dist: Any, answer: Any, rows: torch.Tensor, experts: torch.Tensor, per_rank: int) -> Any:
    leaf = rows.clone().requires_grad_()
    got = answer(dist, leaf, experts.clone(), per_rank)
    if not isinstance(got, (list, tuple)) or len(got) != 2 or not isinstance(got[0], (list, tuple)):
        return type(got).__name__
    arrived, trip = got
    if not all(isinstance(one, torch.Tensor) for one in arrived):
        return "other things"
    follows = [one.requires_grad for one in arrived]
    trip = list(trip) if isinstance(trip, (list, tuple)) else trip
    return [one.detach() for one in arrived], trip, follows


def sent_and_back(dist: Any, answer: Any, rows: torch.Tensor, experts: torch.Tensor, per_rank: int) -> Any:
    """The gradient of rows where each arrived row is multiplied by the number of this rank plus 2."""
    leaf = rows.clone().requires_grad_()
    arrived, _ = answer(dist, leaf, experts.clone(), per_rank)
    if any(one.requires_grad for one in arrived):  # if not, that is judged already
        sum((dist.get_rank() + 2) * one.sum() for one in arrived).backward()
    return leaf.grad


def _sent(case: Case, world: World, trace: Results, part: str) -> None:
    """Judge what came back from sending off these rows: the rows that arrived, or the trip."""
    per_rank, rows, experts = world
    counts = _counts(experts, per_rank)
    for rank, got in enumerate(trace):
        if isinstance(got, str):
            case.expect(False, f"it returned {got} on rank {rank}: return (arrived, trip), arrived a list of tensors",
                        "form")  # fmt: skip
        arrived, trip, _ = got
        want = [
            torch.cat([mine[theirs == rank * per_rank + one] for mine, theirs in zip(rows, experts, strict=True)])
            for one in range(per_rank)
        ]
        if part == "trip":
            _trip(case, trip, rank, experts[rank], counts)
            continue
        case.expect(len(arrived) == per_rank, f"arrived has {count(len(arrived), 'tensor')} on rank {rank}: one for "
                    f"each of its {count(per_rank, 'expert')}", "form")  # fmt: skip
        for one, (mine, right) in enumerate(zip(arrived, want, strict=True)):
            expert = rank * per_rank + one
            what = f"the rows for expert {expert}, on rank {rank},"
            case.same(mine, right, what, *_astray(mine, right, rows, experts, rank, one, per_rank),
                      says="they should be, in the order of ranks and rows,")  # fmt: skip


def _astray(
    mine: torch.Tensor, right: torch.Tensor, rows: list, experts: list, rank: int, one: int, per_rank: int
) -> list[Mistake]:
    """Return the mistakes that bring other rows than the expert's, or these in another order."""
    ranks, expert = len(rows), rank * per_rank + one
    round_robin = [mine[theirs == one * ranks + rank] for mine, theirs in zip(rows, experts, strict=True)]
    came = torch.cat([
        mine[(theirs >= rank * per_rank) & (theirs < (rank + 1) * per_rank)][
            theirs[(theirs >= rank * per_rank) & (theirs < (rank + 1) * per_rank)].argsort(stable=True)]
        for mine, theirs in zip(rows, experts, strict=True)
    ])  # fmt: skip
    loads = [sum(int((theirs == rank * per_rank + other).sum()) for theirs in experts) for other in range(per_rank)]
    own = rows[rank][experts[rank] == expert]
    alike = mine.shape == right.shape and equal(
        mine[mine[:, 0].argsort()] if mine.ndim == 2 else mine, right[right[:, 0].argsort()])  # fmt: skip
    return [
        Mistake("own-rows", own, "are only its own: send rows to the ranks of their experts"),
        Mistake("not-regrouped", came.split(loads)[one], "are cut as if what came were sorted by expert; it is sorted "
                "by rank first, and within each rank's piece by expert"),
        Mistake("owner", torch.cat(round_robin), f"are those of expert {one * ranks + rank}: rank r holds experts "
                "r · per_rank and those that follow, so the owner of e is e // per_rank"),
        Mistake("order", alike, "are the right ones in another order: "
                f"{versus(mine, 'in the order of ranks and rows', right)}"),
    ]  # fmt: skip


def _trip(case: Case, trip: Any, rank: int, experts: torch.Tensor, counts: list) -> None:
    case.expect(_tensors(trip, 3), f"trip is {shown(trip)[:80]}: three tensors, (order, sent, received)", "form")
    order, sent, received = trip
    right_sent, right_received = counts[rank], torch.stack([one[rank] for one in counts])
    swapped = equal(sent, right_received) and equal(received, right_sent) and not equal(right_sent, right_received)
    case.expect(not swapped, f"sent and received are exchanged in trip on rank {rank}", "swapped")
    for name, got, want in (("sent", sent, right_sent), ("received", received, right_received)):
        says = "has one number for each rank: keep a row for each rank and a column for each of its experts"
        case.same(got, want, f"`{name}` of the trip on rank {rank}", Mistake("summed", want.sum(1), says))
    size = len(experts)
    valid = order.shape == (size,) and sorted(order.tolist()) == list(range(size))
    along = experts[order].tolist() if valid else []
    case.expect(valid and all(a <= b for a, b in pairwise(along)), f"`order` of the trip on rank {rank} is "
                f"{shown(order.tolist())[:80]}; rows[order] should be the rows as they were sent, expert by expert",
                "order")  # fmt: skip


SIZES = [7, 0, 12, 5, 9, 3, 8, 4, 6, 1, 0, 2, 10, 11, 5, 7]
PADDED = (
    "a rank sent {seen} bytes; rows that stay at home do not travel, and the others and their counts take {bound}. "
    "Send only the rows themselves, in pieces of any size"
)


def _travel(experts: list, per_rank: int, width: int, itemsize: int = 8) -> list[int]:
    """Return the bytes of each rank's rows that go to other ranks."""
    return [
        sum(int(expert) // per_rank != rank for expert in mine) * width * itemsize for rank, mine in enumerate(experts)
    ]


EMPTY = ((4, 2, [0, 3, 1, 0]), (4, 1, [0, 0, 0, 0]), (2, 4, [1, 0]))


def _worlds(seeds: Sequence[int], many: Sequence[tuple[int, int]]) -> dict[str, list[World]]:
    """Return the worlds of each part: those of its name's seed, empty pieces, many bytes on `many` ranks, gradients."""
    first = ((2, 1), (4, 1), (4, 3), (1, 4))
    return {
        "value": [_world(*place, [7, 6, 12, 5], seed) for seed, place in zip(seeds, first, strict=True)],
        "empty pieces": [_world(*place, 5) for place in EMPTY],
        "bytes": [_world(*place, [4 * size for size in SIZES], 9, width=64) for place in many],
        "gradient": [_world(4, 2, [5, 0, 3, 4], 10)],
    }


@check(value=2, empty_pieces=1, trip=1, bytes=1, gradient=1)
def check_dispatch(answer: Any, part: Any) -> str:
    worlds = _worlds(range(4), ((2, 8), (4, 4), (8, 1)))
    worlds["trip"] = [_world(*place, SIZES, seed) for seed, place in ((6, (4, 2)), (7, (4, 3)), (8, (2, 1)))]
    cases = {(name, place): (sent_off, world.given) for name in worlds for place, world in enumerate(worlds[name])}
    (last,) = worlds["gradient"]
    turns = Turns(answer, cases | {"backward": (sent_and_back, last.given)})
    part("value")
    for place, world in enumerate(worlds["value"]):
        _sent(world.case(), world, turns.of(("value", place), world.case()), "value")
    world = _world(3, 2, [4, 3, 5], 4)
    case = world.case(real=True)
    more = each(world.rows), each(world.experts), world.per_rank
    _sent(case, world, case.run(sent_off, answer, *more, hints=[LEAVES_EARLY]), "value")
    for name, what in (("empty pieces", "value"), ("trip", "trip")):
        part(name)
        for place, world in enumerate(worlds[name]):
            _sent(world.case(), world, turns.of((name, place), world.case()), what)
    part("bytes")
    for place, world in enumerate(worlds["bytes"]):
        ranks, per_rank = len(world.rows), world.per_rank
        case = world.case(f"with {count(per_rank, 'expert')} each and rows of 64 numbers")
        trace = turns.of(("bytes", place), case)
        counts = 2 * (ranks - 1) * 8 * per_rank  # twice: somebody may also send the sums
        for seen, rows_sent in zip(trace.bytes_sent, _travel(world.experts, per_rank, 64), strict=True):
            case.at_most(seen, rows_sent + counts, PADDED, "too-many-bytes")
    part("gradient")
    case = last.case("with 2 experts each, in backward")
    detached = "what arrived has no gradient: send rows with `exchange`, through which autograd finds its way back"
    follow = turns.of(("gradient", 0), case)
    case.expect(all(any(got[2]) or not any(map(len, got[0])) for got in follow), detached, "no-gradient")
    for rank, got in enumerate(turns.of("backward", case)):
        want = (last.experts[rank] // 2 + 2).double()[:, None].expand(-1, 3)
        case.same(got, want, f"the gradient of the rows on rank {rank}", says="it should be", tolerance=EXACT)
    return "every row reaches its expert, on 1 to 8 ranks · pieces of any size · only rows and counts travel"


def brought_back(dist: Any, answer: Any, results: list, trip: tuple) -> Any:
    leaves = [one.clone().requires_grad_() for one in results]
    got = answer(dist, leaves, tuple(one.clone() for one in trip))
    if not isinstance(got, torch.Tensor):
        return type(got).__name__
    gradients = None
    if got.requires_grad:
        ((dist.get_rank() + 2) * got).sum().backward()
        gradients = [leaf.grad for leaf in leaves]
    return got.detach(), gradients


def _trips(world: World) -> list[tuple]:
    """Return what each rank is given to combine: the rows as they are at its experts, and the trip."""
    per_rank, rows, experts = world
    counts = _counts(experts, per_rank)
    return [
        ([torch.cat([mine[theirs == rank * per_rank + one] for mine, theirs in zip(rows, experts, strict=True)])
          for one in range(per_rank)],
         (experts[rank].argsort(stable=True), counts[rank], torch.stack([one[rank] for one in counts])))
        for rank in range(len(rows))
    ]  # fmt: skip


def _back(case: Case, world: World, trace: Results) -> None:
    """Judge the rows that came back."""
    rows, orders = world.rows, [mine.argsort(stable=True) for mine in world.experts]
    for rank, got in enumerate(trace):
        case.expect(not isinstance(got, str), f"it returned {got} on rank {rank}: return a tensor of rows", "form")
        want, order = rows[rank], orders[rank]
        everything = torch.cat(rows).tolist()
        alike = got[0].shape == want.shape and all(row in everything for row in got[0].tolist())
        mistakes = [
            Mistake("not-home", want[order], "are still sorted by expert: row i of what comes back is row order[i]"),
            Mistake("inverse", want[order][order], "were moved by `order` once more; what undoes it is its inverse: "
                    "row i of what comes back is row order[i]"),
            Mistake("mixed", alike, "are rows of others, or at wrong places: each rank gets back its piece of every "
                    "expert, expert by expert"),
        ]  # fmt: skip
        case.same(got[0], want, f"the rows on rank {rank}", *mistakes, says="as they were before they left they are")


@check(value=2, empty_pieces=1, bytes=1, gradient=1)
def check_combine(answer: Any, part: Any) -> str:
    worlds = _worlds(range(4), ((4, 4), (8, 1)))
    turns = Turns(answer, {(name, place): (brought_back, _trips(world))
                           for name in worlds for place, world in enumerate(worlds[name])})  # fmt: skip

    def back(name: str, place: int, world: World) -> Results:
        trace = turns.of((name, place), world.case())
        _back(world.case(), world, trace)
        return trace

    part("value")
    for place, world in enumerate(worlds["value"]):
        back("value", place, world)
    world = _world(3, 2, [4, 3, 5], 4)
    case = world.case(real=True)
    results, trips = map(each, map(list, zip(*_trips(world), strict=True)))
    _back(case, world, case.run(brought_back, answer, results, trips, hints=[LEAVES_EARLY]))
    part("empty pieces")
    for place, world in enumerate(worlds["empty pieces"]):
        back("empty pieces", place, world)
    part("bytes")
    for place, world in enumerate(worlds["bytes"]):
        trace, case = back("bytes", place, world), world.case()
        per_rank, rows, experts = world
        ranks = len(rows)
        for rank, seen in enumerate(trace.bytes_sent):
            away = sum(int((mine // per_rank == rank).sum()) for place, mine in enumerate(experts) if place != rank)
            most = away * 64 * 8 + (ranks - 1) * 8 * per_rank + 64
            backward = sum(int(expert) // per_rank != rank for expert in experts[rank]) * 64 * 8
            told = "a rank sent {seen} bytes forward and backward; its results and gradients take {bound}. The trip "
            told += "says how many rows go where, so send rows and nothing else"
            case.at_most(seen, most + backward, told, "too-many-bytes")
    part("gradient")
    (world,) = worlds["gradient"]
    case, experts = world.case(), world.experts
    for rank, (_, gradients) in enumerate(back("gradient", 0, world)):
        none = f"on rank {rank} what came back has no gradient: send rows with `exchange`"
        case.expect(gradients is not None, none, "no-gradient")
        for one, mine in enumerate(gradients):
            want = [(source + 2.0) * torch.ones(int((theirs == rank * 2 + one).sum()), 3).double()
                    for source, theirs in enumerate(experts)]  # fmt: skip
            what = f"the gradient of the results of expert {rank * 2 + one}"
            mine = torch.zeros_like(torch.cat(want)) if mine is None and not len(torch.cat(want)) else mine
            case.same(mine, torch.cat(want), what, says="it should be", tolerance=EXACT)
    return "every result returns to its row, on 1 to 8 ranks · pieces of any size · nothing else travels"


# expert_parallel_layer


class Expert:
    """tanh(rows @ w1) @ w2, which counts the rows that it is given."""

    def __init__(self, weights: list) -> None:
        self.weights, self.calls = weights, []

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        self.calls.append(len(rows))
        return torch.tanh(rows @ self.weights[0]) @ self.weights[1]


def layered(
    dist: Any, answer: Any, x: torch.Tensor, router: torch.Tensor, mine: list, k: int, capacity: float, grad: Any
) -> Any:
    x, router = (one.clone().requires_grad_() for one in (x, router))
    experts = [Expert([one.clone().requires_grad_() for one in weights]) for weights in mine]
    y = answer(dist, x, router, list(experts), k, capacity)
    if not isinstance(y, torch.Tensor):
        return type(y).__name__
    if y.requires_grad and y.shape == grad.shape:
        y.backward(grad)
    gradients = [x.grad, router.grad, *(one.grad for expert in experts for one in expert.weights)]
    return y.detach(), gradients, [expert.calls for expert in experts]


class Layer(NamedTuple):
    """A layer on some ranks: of each its tokens, its experts' weights and what backward begins with; one router."""

    per_rank: int
    k: int
    capacity: float
    xs: list[torch.Tensor]
    grads: list[torch.Tensor]
    router: torch.Tensor
    weights: list[list[torch.Tensor]]

    @property
    def given(self) -> list[tuple]:
        """What each rank is given."""
        return [(x, self.router, self.weights[rank * self.per_rank : (rank + 1) * self.per_rank], self.k, self.capacity,
                 grad) for rank, (x, grad) in enumerate(zip(self.xs, self.grads, strict=True))]  # fmt: skip

    def case(self, **on: Any) -> Case:
        sizes = [len(x) for x in self.xs]
        tokens = str(sizes[0]) if len(set(sizes)) == 1 else " and ".join(map(str, sizes))
        told = f"with {count(self.per_rank, 'expert')} each, {tokens} tokens, k = {self.k} and capacity"
        return Case(len(self.xs), f"{told} {self.capacity}:", **on)


def _random_layer(ranks: int, per_rank: int, tokens: int | tuple[int, ...], k: int, capacity: float, seed: int,
                  hidden: int = 6, inner: int = 5) -> Layer:  # fmt: skip
    """Return a layer with `tokens` on every rank, or so many on each."""
    sizes = [tokens] * ranks if isinstance(tokens, int) else tokens
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    every = ranks * per_rank
    xs, grads = ([random(size, hidden) for size in sizes] for _ in range(2))
    router, weights = random(hidden, every), [[random(hidden, inner), random(inner, hidden)] for _ in range(every)]
    return Layer(per_rank, k, capacity, xs, grads, router, weights)


def _layer(case: Case, layer: Layer, trace: Results, part: str) -> None:
    """Judge what a layer returned, or the gradients that backward left."""
    per_rank = layer.per_rank
    want = _one_device(layer.xs, layer.router, layer.weights, layer.k, layer.capacity, layer.grads)
    for rank, got in enumerate(trace):
        case.expect(not isinstance(got, str), f"it returned {got} on rank {rank}: return a tensor", "form")
        y, gradients, calls = got
        if part != "gradients":
            for one, rows in enumerate(calls):
                expert, right = rank * per_rank + one, want["rows"][rank * per_rank + one]
                said = f"expert {expert} computed {sum(rows)} rows; {right} were kept for it"
                case.expect(sum(rows) == right, said, "rows")
                case.expect(len(rows) <= 1, f"expert {expert} was called {len(rows)} times: give it all of its rows at "
                            "once", "calls")  # fmt: skip
            wrong = [Mistake(code, values[rank], says) for code, values, says in want["mistakes"]]
            case.same(y, want["y"][rank], f"the result on rank {rank}", *wrong, says="one device returns",
                      tolerance=EXACT)  # fmt: skip
            continue
        _gradients(case, gradients, rank, per_rank, want)


def _gradients(case: Case, gradients: list, rank: int, per_rank: int, want: dict) -> None:
    """Judge what backward left on a rank: of x, of its own part of the router's, and of its experts."""
    of_x, of_router, *of_experts = gradients
    case.expect(of_x is not None, f"x has no gradient on rank {rank}", "no-gradient")
    none = f"the router has no gradient on rank {rank}, so it would never learn: its scores are the weights of the sum"
    case.expect(of_router is not None, none, "no-router-gradient")
    case.same(of_x, want["x"][rank], f"the gradient of x on rank {rank}", says="one device has", tolerance=EXACT)
    case.same(of_router, want["routers"][rank], f"the gradient of the router on rank {rank}",
              says="one device has from this rank's tokens", tolerance=EXACT)  # fmt: skip
    for place, got in enumerate(of_experts):
        right = want["experts"][rank * per_rank + place // 2][place % 2]
        got = torch.zeros_like(right) if got is None else got
        what = f"the gradient of expert {rank * per_rank + place // 2} on rank {rank}"
        case.same(got, right, what, says="one device has", tolerance=EXACT)


def _one_device(xs: list, router: torch.Tensor, weights: list, k: int, capacity: float, grads: list) -> dict:
    """Return what one device has: every expert on all tokens, and a matrix of who counts for how much, group by group.

    The groups of a capacity are the ranks' own tokens.
    """
    leaves = [one.clone().requires_grad_() for one in xs]
    routers = [router.clone().requires_grad_() for _ in xs]
    experts = [[one.clone().requires_grad_() for one in pair] for pair in weights]
    found: dict = {"y": [], "rows": [0] * len(weights)}
    others: dict = {"unweighted": [], "renormalized": [], "residual": [], "all-kept": [], "logits": [],
                    "overwrites": [], "weighs-first": []}  # fmt: skip
    for x, its in zip(leaves, routers, strict=True):
        logits = x @ its
        scores = logits.softmax(-1)
        least = scores.sort(descending=True).values[:, k - 1 : k]
        wanted = scores >= least
        shares = torch.where(wanted, scores, 0.0)
        shares = shares / shares.sum(1, keepdim=True)
        kept = wanted & (wanted.cumsum(0) <= capacity)
        found["rows"] = [a + b for a, b in zip(found["rows"], kept.sum(0).tolist(), strict=True)]
        outs = torch.stack([torch.tanh(x @ one) @ other for one, other in experts], 1)
        found["y"].append((torch.where(kept, shares, 0.0)[..., None] * outs).sum(1))
        some = torch.where(kept, shares, 0.0)
        raw = torch.where(wanted, logits, 0.0)
        last = torch.where(kept, shares, math.inf).min(1, keepdim=True).values  # of a token's kept pairs
        variants = {
            "unweighted": torch.where(kept, 1.0, 0.0),
            "renormalized": torch.nan_to_num(some / some.sum(1, keepdim=True)),
            "all-kept": shares,
            "logits": torch.where(kept, raw / raw.sum(1, keepdim=True), 0.0),
            "overwrites": torch.where(kept & (shares == last), shares, 0.0),
        }
        for code, matrix in variants.items():
            others[code].append((matrix[..., None].double() * outs).sum(1).detach())
        before = [torch.tanh((some[:, place, None] * x) @ one) @ other for place, (one, other) in enumerate(experts)]
        others["weighs-first"].append(sum(before).detach())
        others["residual"].append((found["y"][-1] + (~kept.any(1))[:, None] * x).detach())
    torch.autograd.backward(found["y"], grads)
    told = {
        "unweighted": "adds up what the experts return without the weights",
        "renormalized": "shares out the weights of dropped pairs among the others: what is dropped adds nothing",
        "all-kept": "has the dropped pairs in it, too: send only those that are kept",
        "logits": "is weighted by shares of x @ router itself: scores are its softmax",
        "residual": "has x for a token of which everything was dropped: it gets 0 here, and the block adds x anyway",
        "overwrites": "has one term of each token's sum, as after y[tokens] = ..., which keeps only the last one: "
        "index_add adds them up",
        "weighs-first": "is of rows that were weighted before the experts: an expert is no linear function, so weigh "
        "what it returns",
    }
    return {
        "y": [one.detach() for one in found["y"]],
        "rows": found["rows"],
        "x": [one.grad for one in leaves],
        "routers": [one.grad for one in routers],
        "router": sum(one.grad for one in routers),
        "experts": [[one.grad for one in pair] for pair in experts],
        "mistakes": [(code, others[code], told[code]) for code in others],
    }


LAYERS = {  # ranks, experts of each, tokens (of each rank, where they differ), k, capacity and seed
    "value": ((1, 4, 8, 2, math.inf, 0), (4, 1, 8, 2, math.inf, 1), (4, 4, 8, 2, math.inf, 2),
              (2, 3, 8, 1, math.inf, 3)),
    "capacity": ((1, 4, 10, 2, 3, 4), (4, 2, 10, 2, 2, 5), (2, 4, 10, 2, 1, 6)),
    "empty": ((4, 4, 1, 1, math.inf, 7), (2, 2, 0, 2, 3, 8), (2, 2, (0, 5), 2, math.inf, 14)),
    "gradients": ((1, 4, 8, 2, math.inf, 9), (4, 4, 8, 2, math.inf, 10), (4, 2, 8, 2, 2, 11)),
}  # fmt: skip


@check(value=2, capacity=1, empty=1, gradients=2, bytes=1)
def check_expert_parallel_layer(answer: Any, part: Any) -> str:
    layers = {name: [_random_layer(*place) for place in places] for name, places in LAYERS.items()}
    float32, frugal = _float32(), _random_layer(4, 2, 24, 2, 2, 13, hidden=32, inner=2)
    cases = {(name, place): layer for name, found in layers.items() for place, layer in enumerate(found)}
    turns = Turns(answer, {name: (layered, layer.given) for name, layer in
                           (cases | {"float32": float32, "frugal": frugal}).items()})  # fmt: skip
    for name, found in layers.items():
        part(name)
        for place, layer in enumerate(found):
            what = "gradients" if name == "gradients" else "value"
            _layer(layer.case(), layer, turns.of((name, place), layer.case()), what)
        if name == "value":
            _in_float32(turns)
    layer = _random_layer(2, 2, 6, 2, 4, 12)
    case = layer.case(real=True)
    given = [each(list(column)) for column in zip(*layer.given, strict=True)]
    _layer(case, layer, case.run(layered, answer, *given, hints=[LEAVES_EARLY]), "gradients")
    part("bytes")
    _frugal(turns, frugal)
    return "output and all gradients equal to one device within 1e-9, on 1 to 4 ranks · kept rows travel, and no others"


def _float32() -> Layer:
    x, router, pair = torch.eye(3, 4), torch.zeros(4, 2), [torch.ones(4, 2) / 4, torch.ones(2, 4)]
    router[0, 0] = router[1, 1] = router[2, 0] = 1.0  # both experts have rows
    return Layer(1, 1, math.inf, [x, x], [torch.ones(3, 4)] * 2, router, [pair, pair])


def _in_float32(turns: Turns) -> None:
    """Judge the dtype of what comes back for tokens of float32."""
    case = Case(2, "with 1 expert each and 3 tokens in float32")
    for rank, got in enumerate(turns.of("float32", case)):
        case.expect(not isinstance(got, str), f"it returned {got} on rank {rank}: return a tensor", "form")
        kind = str(got[0].dtype)[6:]
        case.expect(kind == "float32", f"the result on rank {rank} is {kind}; x is float32", "dtype")


def _frugal(turns: Turns, layer: Layer) -> None:
    """Judge the bytes of a layer of 32 numbers a token, of which most pairs are dropped."""
    (tokens, hidden), ranks = layer.xs[0].shape, len(layer.xs)
    per_rank, k, capacity = layer[:3]
    away = [[0] * ranks for _ in range(ranks)]  # kept pairs from rank to rank
    for rank, x in enumerate(layer.xs):
        scores = x @ layer.router
        wanted = scores >= scores.sort(descending=True).values[:, k - 1 : k]
        kept = (wanted & (wanted.cumsum(0) <= capacity)).sum(0)
        for expert, rows in enumerate(kept.tolist()):
            away[rank][expert // per_rank] += rows
    case = Case(ranks, f"with {tokens} tokens of {hidden} numbers, k = {k} and capacity {capacity}, both ways,")
    trace = turns.of("frugal", case)
    for rank, seen in enumerate(trace.bytes_sent):
        out = sum(rows for other, rows in enumerate(away[rank]) if other != rank)
        home = sum(line[rank] for other, line in enumerate(away) if other != rank)
        most = 2 * (out + home) * hidden * 8 + 2 * (ranks - 1) * per_rank * 8
        told = "a rank sent {seen} bytes; the rows that are kept take {bound}, there and back, forward and backward. "
        case.at_most(seen, most, told + "Send no pair that is dropped", "too-many-bytes")


# balance_bias


def balanced(answer: Any, cases: list) -> list:
    """Beside the answer: the new bias, and what it was given, afterwards."""
    found = []
    for bias, load, speed in cases:
        got = answer(bias, load, speed)
        found.append((got.detach() if isinstance(got, torch.Tensor) else got, bias, load))
    return found


@check(value=2, forms=1)
def check_balance_bias(answer: Any, part: Any) -> str:
    loads = ([6, 2, 4, 4], [1, 1, 1, 9], [0, 0, 7, 1, 1, 0], [5, 5, 5], [100, 99, 101, 3], [2, 3])
    speeds = (0.25, 0.001, 0.5, 0.125, 0.01, 1.0)
    cases = [(draw((len(load),), seed), torch.tensor(load), speed)
             for seed, (load, speed) in enumerate(zip(loads, speeds, strict=True))]  # fmt: skip
    forms = [(torch.zeros(3), torch.tensor([3.0, 1.0, 2.0]), 0.5), (torch.zeros(2), torch.tensor([0, 8]), 0.5)]
    asked = cases + forms
    found = alone(balanced, answer, [(bias.clone(), load.clone(), speed) for bias, load, speed in asked])
    part("value")
    for place, ((bias, load, speed), (got, *after)) in enumerate(zip(asked, found, strict=True)):
        if place == len(cases):
            part("forms")
        case = Case(label=f"with load {load.tolist()} and speed {speed}",
                    see=f"balance_bias(torch.zeros({len(load)}), torch.tensor({load.tolist()}), {speed})")  # fmt: skip
        case.expect(isinstance(got, torch.Tensor), f"it returned {shown(got)}: return a tensor", "form")
        case.expect(equal(after[0], bias), "the bias that it was given is changed: return a new one", "changed")
        mean, median = sum(load.tolist()) / len(load), load.double().median()
        step = torch.tensor([(mean > one) - (mean < one) for one in load.tolist()])
        off = mean - load.double()
        mistakes = [
            Mistake("sign", bias - speed * step, "goes the wrong way: an expert with too much load has to lose bias"),
            Mistake("proportional", bias + speed * off, "moves by the error itself: the rule takes the sign alone"),
            Mistake("relative", bias + speed * off / max(mean, 1e-9), "moves in proportion to the error: take "
                    "the sign alone"),
            Mistake("median", bias + speed * torch.sign(median - load.double()), "compares with the median load, not "
                    "the mean"),
            Mistake("only-up", bias + speed * step.clamp(min=0), "only moves up: overloaded experts go down"),
            Mistake("forgets", speed * step.to(bias.dtype), "is the step alone: add it to the bias"),
            Mistake("never-still", bias + speed * torch.where(load < mean, 1.0, -1.0).to(bias.dtype), "moves experts "
                    "that have exactly the mean load: their bias stays"),
        ]  # fmt: skip
        right = bias + speed * step.to(bias.dtype)
        says = "it should be"
        if near(got, right, 1e-6) and got.dtype != bias.dtype:
            case.expect(False, f"the bias became {str(got.dtype)[6:]}; it was {str(bias.dtype)[6:]}", "dtype")
        few = 1e-12 if bias.dtype == torch.float64 else 1e-6  # of the digits that the bias came with
        case.same(got, right, "the bias", *mistakes, says=says, tolerance=few)
    return "a fixed step up below the mean load, down above it; whole and broken loads"


# auxiliary_loss


def losses(answer: Any, cases: list) -> list:
    """Beside the answer: the loss, and the gradient of the scores."""
    found = []
    for scores, chosen in cases:
        leaf = scores.clone().requires_grad_()
        got = answer(leaf * 1, chosen)
        gradient = None
        if isinstance(got, torch.Tensor) and got.requires_grad and got.numel() == 1:
            got.backward()
            gradient = leaf.grad
        found.append((got.detach() if isinstance(got, torch.Tensor) else got, gradient))
    return found


@check(value=2, gradient=1)
def check_auxiliary_loss(answer: Any, part: Any) -> str:
    cases = []
    for seed, (tokens, experts, k) in enumerate(((12, 4, 2), (30, 8, 1), (9, 5, 3))):
        scores = _scores(tokens, experts, 20 + seed)
        cases.append((scores, scores.topk(k).indices))
    cases.append((torch.full((8, 4), 0.25, dtype=torch.float64), torch.arange(16).view(8, 2) % 4))
    found = alone(losses, answer, [(scores.clone(), chosen.clone()) for scores, chosen in cases])
    judged = list(zip(cases, found, strict=True))
    part("value")
    for (scores, chosen), (got, _) in judged:
        tokens, experts = scores.shape
        case = Case(label=f"with {tokens} tokens, {experts} experts and k = {chosen.shape[1]}")
        share = torch.tensor([float((chosen == one).sum()) for one in range(experts)]) / chosen.numel()
        mean = scores.mean(0)
        want = experts * float((share.double() * mean).sum())
        got = plain(got)
        case.expect(is_number(got), f"it returned {shown(got)}: return a tensor that is one number", "form")
        mistakes = [
            Mistake("no-e", want / experts, "is E times too small: multiply by the number of experts, so that an even "
                    "load gives 1"),
            Mistake("per-token", want * chosen.shape[1], "is k times too large: f is the share of all pairs, which "
                    "adds up to 1"),
            Mistake("sum-of-scores", want * tokens, "adds up the scores of all tokens: P is their mean"),
            Mistake("squared-load", experts * float((share**2).sum()), "is made of the loads alone, and a count has no "
                    "gradient: multiply each by the mean score"),
            Mistake("squared-score", experts * float((mean**2).sum()), "is made of the scores alone: multiply each by "
                    "the share of pairs that came"),
        ]  # fmt: skip
        case.same(got, want, "the loss", *mistakes, says="it should be", tolerance=1e-6)
    part("gradient")
    for (scores, chosen), (_, gradient) in judged:
        tokens, experts = scores.shape
        case = Case(label=f"with {tokens} tokens, {experts} experts and k = {chosen.shape[1]}")
        share = torch.tensor([float((chosen == one).sum()) for one in range(experts)]) / chosen.numel()
        want = (experts * share / tokens).double().expand(tokens, experts)
        none = "the loss has no gradient, so nothing would change: keep the scores as a tensor that autograd follows"
        case.expect(gradient is not None, none, "no-gradient")
        case.same(gradient, want, "the gradient of the scores", says="it should be", tolerance=1e-6)
    return "1 for an even load; the scores of crowded experts are pushed down"


# node_limited_routing


def _within(row: list, worth: list, most: int, k: int) -> list:
    """Return a token's k best experts on the `most` nodes that are worth most."""
    size = len(row) // len(worth)
    nodes = sorted(range(len(worth)), key=worth.__getitem__)[-most:]
    return sorted((expert for node in nodes for expert in range(node * size, (node + 1) * size)),
                  key=lambda expert: -row[expert])[:k]  # fmt: skip


def _limited(scores: torch.Tensor, got: Any, k: int, nodes: int, most: int) -> None:
    tokens, experts = scores.shape
    each_node, per_node = experts // nodes, max(1, k // most)
    case = Case(label=f"with {experts} experts on {nodes} nodes, k = {k} and at most {most}:")
    form = isinstance(got, torch.Tensor) and got.shape == (tokens, k) and not got.is_floating_point()
    case.expect(form, f"it returned {shown(got)[:80]}: return the experts, a tensor of {tokens} x {k}", "form")
    for token, (row, mine) in enumerate(zip(scores.tolist(), got.tolist(), strict=True)):
        said = f"token {token} goes to experts {mine}"
        case.expect(len(set(mine)) == k, f"{said}: take {k} different ones", "twice")
        used = sorted({expert // each_node for expert in mine})
        case.expect(len(used) <= most, f"{said}, on nodes {used}: at most {most}", "too-many-nodes")
        by_node = [sorted(row[node * each_node : (node + 1) * each_node])[::-1] for node in range(nodes)]

        right = _within(row, [sum(best[:per_node]) for best in by_node], most, k)
        others = (
            ("by-all", list(map(sum, by_node)), "compared by all of their experts, which most tokens never use"),
            ("by-first", [best[0] for best in by_node], "compared by their single best expert"),
        )
        for code, worth, why in others:
            made = sorted(mine) == sorted(_within(row, worth, most, k)) and sorted(mine) != sorted(right)
            told = f"{said}; it should be {right}: the nodes were {why}. Add up the {per_node} best of each"
            case.expect(not made, told, code)
        case.expect(mine == right, f"{said}; it should be {right}, the best first", "value")


@check(value=2, shapes=1)
def check_node_limited_routing(answer: Any, part: Any) -> str:
    cases = [(_scores(30, 32, 31), 4, 8, 2), (_scores(20, 64, 32), 8, 8, 4)]
    shapes = [(_scores(9, 8, 33), 2, 4, 1), (_scores(9, 12, 34), 4, 3, 3), (_scores(9, 8, 35), 2, 8, 2)]
    shapes += [(_scores(20, 16, 36), 2, 4, 2), (_scores(20, 12, 37), 2, 4, 3)]
    shapes.append((_scores(20, 16, 1000 + course_seed()), 4, 4, 2))
    mixed = []
    for scores, k, nodes, most in cases + shapes:  # experts of any node may be liked
        order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(k + nodes))
        mixed.append((scores[:, order], k, nodes, most))
    found = alone(called, answer, [(scores.clone(), *more) for scores, *more in mixed])
    part("value")
    for place, (case, got) in enumerate(zip(mixed, found, strict=True)):
        if place == len(cases):
            part("shapes")
        _limited(case[0], got, *case[1:])
    return "k experts on at most so many nodes, chosen by their best; also one node, and all of them"


# all_to_all_bytes, which_layout

MIXTURES = [MODELS["Mixtral-8x7B"], MODELS["DeepSeek-V3"], SERVED["Qwen3-235B-A22B"]]


@check(value=2, away=1)
def check_all_to_all_bytes(answer: Any, part: Any) -> str:
    whole = [(shape, 10**9, there, back) for shape, there, back in zip(MIXTURES, (2, 1, 1), (4, 2, 4), strict=True)]
    away = [(shape, ranks, 2, 2) for shape, ranks in zip(MIXTURES, (8, 4, 1), strict=True)]
    away.append((MIXTURES[1], drawn("all_to_all_bytes").randint(5, 60), 1, 2))
    found = alone(called, answer, whole + away)
    part("value")
    for place, ((shape, ranks, there, back), got) in enumerate(zip(whole + away, found, strict=True)):
        if place == len(whole):
            part("away")
        got = plain(got)
        far = (ranks - 1) / ranks
        one_way = shape.moe_layers * combine_bytes(shape, 1)
        want = one_way * (there + back) * far
        case = Case(label=f"{shape.name} on {ranks:,} rank{'s' * (ranks > 1)}, {there} and {back} bytes a number:")
        case.expect(is_number(got), f"it returned {shown(got)}: return a number of bytes", "form")
        few = 1e-6  # 10**9 ranks stand for very many
        mistakes = [
            Mistake("one-way", close(got, one_way * there * far, few) or close(got, one_way * back * far, few),
                    "has only one of the two ways"),
            Mistake("all-stay", close(got, one_way * (there + back), 1e-9) and far < 0.999, "counts copies that stay "
                    "on their own rank: one of P"),
            Mistake("all-layers", shape.dense_layers and close(got, want / shape.moe_layers * shape.layers, few),
                    "counts the dense layers, too: `shape.moe_layers`"),
            Mistake("one-copy", close(got, want / shape.experts_per_token, few), "counts one copy of the token: there "
                    "are k"),
            Mistake("one-layer", close(got, want / shape.moe_layers, few), "is that of one layer"),
        ]  # fmt: skip
        told = got if close(got, want, few) else f"{got:,.6g}"
        for mistake in mistakes:
            case.expect(not mistake.value or close(got, want, few), f"{told} {mistake.says}; it should be {want:,.6g}",
                        mistake.code)  # fmt: skip
        case.expect(close(got, want, few), f"it returned {told}; it should be {want:,.6g}", "value")
    return "there and back, k copies, all mixture layers; without what stays at home"


def laid_out(answer: Any, cases: list) -> list:
    """Beside the answer, for each case: "returned" and what it returns, or the kind and the words of what it raised."""
    found = []
    for case in cases:
        try:
            found.append(("returned", answer(*case)))
        except (NotImplementedError, TypeError):  # not written, or other parameters: so in all cases
            raise
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@check(value=2, nothing_fits=1)
def check_which_layout(answer: Any, part: Any) -> str:
    mixtral, v3, qwen = MIXTURES
    fits = [(v3, 2048, 60e9, 2), (v3, 320, 40e9, 1), (mixtral, 64, 80e9, 2), (qwen, 96, 20e9, 2), (mixtral, 8, 1e12, 2),
            (qwen, 24, 100e9, 2), (mixtral, 8, expert_bytes(mixtral, 8, 2), 2)]  # fmt: skip
    own = drawn("which_layout")
    fits.append((v3, own.choice((64, 128, 256)), own.randint(800, 1500) * 1e8, 1))
    none = [(v3, 8, 40e9, 2), (mixtral, 3, 20e9, 2), (mixtral, 6, 30e9, 2)]
    found = alone(laid_out, answer, fits + none)
    part("value")
    for (shape, gpus, memory, size), (how, got) in zip(fits, found, strict=False):
        case = Case(label=f"{shape.name} on {gpus} GPUs with room for {memory / 1e9:g} GB, {size} bytes a parameter:")
        every = expert_bytes(shape, 1, size)
        good = [ranks for ranks in range(1, gpus + 1) if gpus % ranks == 0 and shape.experts % ranks == 0]
        want = min(ranks for ranks in good if every / ranks <= memory)
        words = "" if how == "returned" else got
        case.expect(how == "returned", f"on {want} ranks there is room, and it raised {how}: {words}", "refused")
        got = plain(got)
        form = isinstance(got, int) and not isinstance(got, bool) and 0 < got <= gpus
        case.expect(form, f"it returned {shown(got)}: return a whole number of ranks, at most {gpus}", "form")
        held = f"it returned {got}: a rank would hold {every / got / 1e9:.1f} GB"
        case.expect(every / got <= memory, held, "too-large")
        case.expect(shape.experts % got == 0, f"it returned {got}, and {shape.experts} experts do not divide by it",
                    "experts")  # fmt: skip
        case.expect(gpus % got == 0, f"it returned {got}, and {gpus} GPUs do not divide by it", "gpus")
        case.expect(got == want, f"it returned {got}; {want} are enough", "not-the-fewest")
    part("nothing fits")
    for (shape, gpus, memory, size), (how, got) in zip(none, found[len(fits) :], strict=True):
        case = Case(label=f"{shape.name} on {gpus} GPUs with room for {memory / 1e9:g} GB, {size} bytes a parameter:")
        did = f"it returned {shown(got)}" if how == "returned" else f"it raised {how}"
        case.expect(how == "ValueError", f"{did}, and nothing fits: raise ValueError", "fits-nowhere")
        case.expect(len(got) > 0, "the ValueError says nothing: say what does not fit", "says-nothing")
    return "the fewest ranks that divide GPUs and experts and have room; a ValueError where none has"
