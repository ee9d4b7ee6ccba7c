"""The messages that each built-in collective is made of, rank by rank and round by round.

The simulator replays these messages on its links and the meter adds up their bytes, so a built-in collective
costs exactly what the same algorithm costs when it is written with send and recv.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

Round = list[tuple[str, int, int]]
"""What one rank does at the same time: ("send" or "recv", peer, bytes). A round ends when all of it has ended."""


SWITCH = -1
"""The peer of a message that goes to a switch which adds, and of the one that comes back from it."""
IN_NETWORK = ("all_reduce", "all_gather", "reduce_scatter")
"""The collectives that such a switch does."""


def split_sizes(total: int, parts: int) -> list[int]:
    """Return the sizes of `parts` pieces of `total` elements, as equal as they can be, larger ones first."""
    small, larger = divmod(total, parts)
    return [small + 1] * larger + [small] * (parts - larger)


def _ring(rank: int, sizes: list[int], first: int) -> Iterator[Round]:
    """Once around the ring: in step s send piece `first - s` to the right, receive piece `first - s - 1`."""
    ranks = len(sizes)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(ranks - 1):
        yield [
            ("send", right, sizes[(first - step) % ranks]),
            ("recv", left, sizes[(first - step - 1) % ranks]),
        ]


def reduce_scatter(rank: int, sizes: list[int]) -> Iterator[Round]:
    """Ring; rank r ends with piece r."""
    yield from _ring(rank, sizes, first=rank - 1)


def all_gather(rank: int, sizes: list[int]) -> Iterator[Round]:
    """Ring; rank r starts with piece r."""
    yield from _ring(rank, sizes, first=rank)


def all_reduce(rank: int, sizes: list[int]) -> Iterator[Round]:
    """Ring: a reduce-scatter and then an all-gather (Patarasuk and Yuan 2009)."""
    yield from reduce_scatter(rank, sizes)
    yield from all_gather(rank, sizes)


def broadcast(rank: int, ranks: int, nbytes: int, root: int) -> Iterator[Round]:
    """Binomial tree: in each round everyone who has the tensor sends it to one who does not."""
    place = (rank - root) % ranks
    if place:
        distance = 1 << (place.bit_length() - 1)
        yield [("recv", (rank - distance) % ranks, nbytes)]
    distance = 1 << place.bit_length()
    while place + distance < ranks:
        yield [("send", (rank + distance) % ranks, nbytes)]
        distance *= 2


def reduce(rank: int, ranks: int, nbytes: int, root: int) -> Iterator[Round]:
    """The binomial tree of `broadcast`, backwards."""
    for messages in reversed(list(broadcast(rank, ranks, nbytes, root))):
        yield [("recv" if kind == "send" else "send", peer, size) for kind, peer, size in messages]


def scatter(rank: int, ranks: int, nbytes: int, root: int) -> Iterator[Round]:
    """The root sends each rank its piece, one after the other."""
    if rank != root:
        yield [("recv", root, nbytes)]
    else:
        for other in range(ranks):
            if other != root:
                yield [("send", other, nbytes)]


def gather(rank: int, ranks: int, nbytes: int, root: int) -> Iterator[Round]:
    """Every rank sends its piece to the root, which takes one after the other."""
    for messages in scatter(rank, ranks, nbytes, root):
        yield [("recv" if kind == "send" else "send", peer, size) for kind, peer, size in messages]


def all_to_all(rank: int, sends: list[int], receives: list[int]) -> Iterator[Round]:
    """Pairwise: in round s send to the rank s places to the right, receive from the one s places to the left."""
    ranks = len(sends)
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        yield [("send", to, sends[to]), ("recv", source, receives[source])]


def barrier(rank: int, ranks: int) -> Iterator[Round]:
    """Dissemination: after round k every rank has heard of 2^k others (Hensgen, Finkel and Manber 1988)."""
    distance = 1
    while distance < ranks:
        yield [("send", (rank + distance) % ranks, 0), ("recv", (rank - distance) % ranks, 0)]
        distance *= 2


def in_network(kind: str, ranks: int, nbytes: int) -> Iterator[Round]:
    """One round through a switch that adds (NVLS, SHARP): what a rank sends up to it, and what comes down.

    `nbytes` are those of an all-reduce's tensor, else of one rank's piece; a rank's own piece need not travel.
    """
    if ranks > 1:
        rest = (ranks - 1) * nbytes
        up = rest if kind == "reduce_scatter" else nbytes
        down = rest if kind == "all_gather" else nbytes
        yield [("send", SWITCH, up), ("recv", SWITCH, down)]


def messages(kind: str, rank: int, ranks: int, elements: int, itemsize: int, root: int = 0) -> Iterator[Round]:
    """Yield what `rank` of `ranks` does in a built-in collective over `elements` elements of `itemsize` bytes.

    `elements` counts what torch's list forms bring: the whole tensor of a broadcast, reduce or all-reduce, and one
    rank's piece of all the others (all-to-all pieces of equal size; uneven ones call `all_to_all`).
    """
    nbytes = elements * itemsize
    if kind == "all_reduce":
        return all_reduce(rank, [size * itemsize for size in split_sizes(elements, ranks)])
    if kind in ("all_gather", "reduce_scatter"):
        return {"all_gather": all_gather, "reduce_scatter": reduce_scatter}[kind](rank, [nbytes] * ranks)
    if kind == "all_to_all":
        return all_to_all(rank, [nbytes] * ranks, [nbytes] * ranks)
    if kind == "barrier":
        return barrier(rank, ranks)
    rooted = {"broadcast": broadcast, "reduce": reduce, "scatter": scatter, "gather": gather}
    return rooted[kind](rank, ranks, nbytes, root)


def total(rounds: Iterator[Round]) -> tuple[int, int, int]:
    """Return (bytes sent, bytes received, messages sent) over all rounds of one rank."""
    sent = received = count = 0
    for messages_ in rounds:
        for kind, _, size in messages_:
            if kind == "send":
                sent, count = sent + size, count + 1
            else:
                received += size
    return sent, received, count


@lru_cache(maxsize=4096)
def charge(kind: str, rank: int, ranks: int, elements: int, itemsize: int, root: int = 0) -> tuple[int, int, int]:
    """Return (bytes sent, bytes received, messages sent) that one rank is charged for a built-in collective."""
    return total(messages(kind, rank, ranks, elements, itemsize, root))
