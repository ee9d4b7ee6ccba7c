"""Pipelined trees: two binary trees that carry a tensor in chunks, as fast as a ring in bytes and a tree in latency.

A tree that passes on whole tensors sends all bytes in each of its log2 P rounds. Cut into chunks, the second chunk
leaves while the first is still on its way down. In one binary tree half of the ranks are leaves, which receive and
never send; so there are two, and a leaf of one is an inner rank of the other (Sanders, Speck and Traeff 2009; NCCL's
double binary tree). Time goes in slots of one chunk. Every edge has a colour, 0 or 1, and carries chunks only in slots
of that parity: the two colours at which a rank sends differ, and so do those at which it receives, so that no port is
asked twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from course_lib.costs.collectives import collective_seconds
from course_lib.models import check_whole

Edge = tuple[int, int]
"""(tree, rank): the edge by which that tree reaches that rank from its parent."""
Step = tuple[str, int, int]
"""("send" or "recv", peer, chunk)."""


def pipelined_tree_seconds(ranks: int, size: float, chunks: int, latency: float, bandwidth: float) -> float:
    """Return the seconds of an all-reduce of `size` bytes by two trees in equal chunks: a reduce, then a broadcast.

    2 (chunks + 2 log2 P - 2) (latency + S / chunks / B) where P is a power of two; the simulator takes as long. For
    other numbers of ranks the slots are counted (`broadcast_slots`). Raises ValueError for what makes no sense.
    """
    check_whole(chunks=chunks)
    one = collective_seconds("broadcast", 2, size / chunks, latency, bandwidth)
    return 2 * broadcast_slots(ranks, chunks) * one


def best_chunks(ranks: int, size: float, latency: float, bandwidth: float) -> int:
    """Return the number of chunks, at least 1, with which the two trees are the fastest.

    Near the root of (2 log2 P - 2) S / latency / B: as many chunks as make the way down and the queue cost the same.
    """
    pipelined_tree_seconds(ranks, size, 1, latency, bandwidth)  # refuses what makes no sense
    depth = broadcast_slots(ranks, 2) - 2 if ranks > 1 else 0
    if not latency or not size or math.isinf(bandwidth):
        raise ValueError(f"latency = {latency!r}, size = {size!r}: more chunks cost nothing, or bring nothing")
    near = math.sqrt(max(depth, 0) * size / latency / bandwidth)
    tried = {max(1, round(near) + shift) for shift in (-2, -1, 0, 1, 2)}
    return min(sorted(tried), key=lambda chunks: pipelined_tree_seconds(ranks, size, chunks, latency, bandwidth))


def broadcast_slots(ranks: int, chunks: int) -> int:
    """Return the slots until rank 0's chunks have reached all, even ones by the first tree, odd ones by the second."""
    check_whole(ranks=ranks, chunks=chunks)
    if ranks == 1:
        return 0
    first, second = (max(when for (tree, _), when in _arrivals(ranks).items() if tree == one) for one in (0, 1))
    if (ranks, chunks) == (3, 1):
        return 2  # its second slot is kept free for a chunk that does not come
    return max(first + 2 * ((chunks + 1) // 2 - 1), second + 2 * (chunks // 2 - 1) if chunks > 1 else 0) + 1


def broadcast_steps(rank: int, ranks: int, chunks: int) -> Iterator[list[Step]]:
    """Yield what a rank sends and receives in each slot of the broadcast; backwards and mirrored it is the reduce."""
    if ranks == 1:
        return
    arrivals, parents = _arrivals(ranks), _two_trees(ranks)
    slots: dict[int, list[Step]] = {}
    for (tree, one), when in arrivals.items():
        above = parents[tree][one]
        for chunk in range(tree, chunks, 2):
            slot = when + 2 * (chunk // 2)
            if one == rank:
                slots.setdefault(slot, []).append(("recv", above, chunk))
            elif above == rank:
                slots.setdefault(slot, []).append(("send", one, chunk))
    yield from (slots[slot] for slot in sorted(slots))


def first_chunks(ranks: int, tree: int) -> dict[int, tuple[int, int]]:
    """Return for each rank but 0 its parent in the first (0) or second (1) tree, and the slot of its first chunk."""
    return {rank: (above, _arrivals(ranks)[tree, rank] + 1) for rank, above in _two_trees(ranks)[tree].items()}


@lru_cache(maxsize=64)
def _two_trees(ranks: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent of each rank but 0, in both trees; the two trees' roots hang below rank 0."""
    last = ranks - 1
    one = {}
    for rank in range(1, ranks):
        low = rank & -rank  # in a binary tree in order, a rank's height is the number of its trailing zeros
        above = rank ^ low | low << 1
        one[rank] = above if above <= last else rank ^ low
    move = (lambda rank: rank % last + 1) if last % 2 else (lambda rank: ranks - rank)
    other = {move(rank): move(above) if above else 0 for rank, above in one.items()}
    return one, other


@lru_cache(maxsize=64)
def _colours(ranks: int) -> dict[Edge, int]:
    """Return each edge's parity. Every edge has at most two others that it must differ from, so two colours do."""
    trees = _two_trees(ranks)
    differ: dict[Edge, list[Edge]] = {(tree, rank): [(1 - tree, rank)] for tree in (0, 1) for rank in trees[0]}
    sends: dict[tuple, list[Edge]] = {}
    for tree, rank in differ:
        above = trees[tree][rank]
        sends.setdefault((tree if above else 0, above), []).append((tree, rank))
    for pair in sends.values():
        for edge in pair:
            differ[edge] += [other for other in pair if other != edge]
    first = next(edge for edge in sends[0, 0] if edge[0] == 0)
    colours: dict[Edge, int] = {}
    for begin in (first, *differ):
        todo = [] if begin in colours else [(begin, 0)]
        while todo:
            edge, colour = todo.pop()
            if edge not in colours:
                colours[edge] = colour
                todo += [(other, 1 - colour) for other in differ[edge]]
    return colours


@lru_cache(maxsize=64)
def _arrivals(ranks: int) -> dict[Edge, int]:
    """Return the slot in which each rank gets the first chunk of each tree."""
    trees, colours = _two_trees(ranks), _colours(ranks)
    found: dict[Edge, int] = {}

    def when(tree: int, rank: int) -> int:
        if (tree, rank) not in found:
            above, colour = trees[tree][rank], colours[tree, rank]
            wait = 2 if above and colours[tree, above] == colour else 1  # the slot between is another edge's
            found[tree, rank] = when(tree, above) + wait if above else colour
        return found[tree, rank]

    for edge in colours:
        when(*edge)
    return found
