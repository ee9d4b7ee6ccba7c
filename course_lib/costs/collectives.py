"""How long collectives take and what each rank sends: alpha-beta formulas, and bandwidth as nccl-tests reports it.

A message of n bytes takes latency + n / bandwidth: alpha and 1 / beta of the alpha-beta model (Hockney 1994). A rank
sends one message and receives one message at a time; all links are equal. `size` is the S of nccl-tests, in bytes: the
whole tensor of a broadcast, a reduce or an all-reduce, what all-gather has gathered at its end, what each rank brings
to a reduce-scatter or an all-to-all. Formulas that cut the tensor take the pieces for equal, as they are when the
number of ranks divides it.
"""

from __future__ import annotations

from course_lib.hardware import Link
from course_lib.models import check_choice, check_whole

ALGORITHMS = {
    "all_reduce": ("ring", "naive", "tree", "halving_doubling", "hierarchical", "in_network"),
    "all_gather": ("ring", "halving_doubling", "in_network"),
    "reduce_scatter": ("ring", "halving_doubling", "in_network"),
    "broadcast": ("tree", "naive"),
    "reduce": ("tree", "naive"),
    "all_to_all": ("pairwise",),
}
"""The algorithms of each collective; the first is the one that the simulator uses for the built-in one."""


def tree_rounds(ranks: int) -> int:
    """Return the rounds of a binomial tree, in which the number of ranks that have the tensor doubles: ceil(log2 P)."""
    check_whole(ranks=ranks)
    return (ranks - 1).bit_length()


def collective_seconds(
    kind: str,
    ranks: int,
    size: float,
    latency: float,
    bandwidth: float,
    algorithm: str | None = None,
    per_node: int | None = None,
) -> float:
    """Return the seconds a collective takes on equal links, in the alpha-beta model.

    `algorithm` is one of ALGORITHMS[kind] (the first unless given); "hierarchical" needs `per_node`. Sources: Thakur,
    Rabenseifner and Gropp 2005; for the ring Patarasuk and Yuan 2009. Raises ValueError for what makes no sense.

    "in_network": a switch adds (NVLS, SHARP). Each rank sends its tensor once, the sum streams back meanwhile: an
    all-reduce takes latency + S/B, so that `bus_bandwidth` comes out above the link's, by up to 2(P-1)/P. Of a GPU that
    reads its own piece back from the switch too, as NVLS does, (P+1)/P of that is asked (nccl-tests, PERFORMANCE.md).
    """
    _check(size=size, latency=latency)
    if not bandwidth > 0:
        raise ValueError(f"bandwidth = {bandwidth!r}: must be above 0, in bytes per second")
    rounds = _rounds(kind, ranks, size, algorithm, per_node)
    return sum(count * (latency + nbytes / bandwidth) for count, nbytes in rounds)


def collective_bytes(
    kind: str, ranks: int, size: float, algorithm: str | None = None, per_node: int | None = None
) -> list[float]:
    """Return the bytes that each rank sends in a collective; where there is a root, it is rank 0."""
    _check(size=size)
    rounds = _rounds(kind, ranks, size, algorithm, per_node)
    algorithm = algorithm or ALGORITHMS[kind][0]
    down = [size * _children(rank, ranks) for rank in range(ranks)]  # a tree's broadcast
    up = [0.0] + [float(size)] * (ranks - 1)
    if algorithm == "naive":
        down = [float(size) * (ranks - 1)] + [0.0] * (ranks - 1)
    if algorithm in ("naive", "tree"):
        return {"broadcast": down, "reduce": up}.get(kind) or [a + b for a, b in zip(up, down, strict=True)]
    if kind == "all_reduce" and algorithm == "halving_doubling":
        core = 1 << (ranks.bit_length() - 1)
        exchange, extra = 2 * (core - 1) / core * size, ranks - core
        return [exchange + size * (rank < extra) if rank < core else float(size) for rank in range(ranks)]
    if kind == "all_gather" and algorithm == "in_network":
        return [size / ranks * (ranks > 1)] * ranks
    return [sum(count * nbytes for count, nbytes in rounds)] * ranks


def hierarchical_all_reduce_seconds(
    nodes: int, gpus_per_node: int, size: float, inside: Link, between: Link, nics: int | None = None
) -> float:
    """Return the seconds of a reduce-scatter in each node, an all-reduce across them and an all-gather, all by rings.

    The r-th ranks of all nodes reduce the r-th piece among themselves. `nics` ports of a node carry its `gpus_per_node`
    rings (one port each unless given), and a ring that shares its port waits for the others at every step.
    """
    check_whole(nodes=nodes, gpus_per_node=gpus_per_node, nics=nics or gpus_per_node)
    sharing = -(-gpus_per_node // (nics or gpus_per_node))
    step = between.latency + size / gpus_per_node / nodes / between.bandwidth
    within = collective_seconds("all_gather", gpus_per_node, size, inside.latency, inside.bandwidth)
    return 2 * within + 2 * (nodes - 1) * sharing * step


def crossover_bytes(ranks: int, latency: float, bandwidth: float) -> float:
    """Return the size from which on a ring all-reduce is faster than a tree's; 0 where it always is (up to 3 ranks).

    Solves 2 L (a + S/B) = 2 (P-1) (a + S/PB) for S, with L = ceil(log2 P).
    """
    _check(latency=latency)
    rounds = tree_rounds(ranks)
    if ranks - 1 <= rounds:
        return 0.0
    return latency * bandwidth * (ranks - 1 - rounds) / (rounds - (ranks - 1) / ranks)


def algorithm_bandwidth(size: float, seconds: float) -> float:
    """Return algbw of nccl-tests, bytes of the collective per second: S / t."""
    return size / seconds


def bus_bandwidth(kind: str, ranks: int, size: float, seconds: float) -> float:
    """Return busbw of nccl-tests: algbw times a factor that makes it the rate of the busiest link (doc/PERFORMANCE.md).

    The factor is 2(P-1)/P for all-reduce, (P-1)/P for all-gather, reduce-scatter and all-to-all, else 1. It counts what
    messages between ranks carry: where a switch adds, busbw can be above what any link carries.
    """
    check_whole(ranks=ranks)
    check_choice("kind", kind, tuple(ALGORITHMS))
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0}.get(kind, (ranks - 1) / ranks)
    return factor * algorithm_bandwidth(size, seconds)


def _check(**fields: float) -> None:
    for field, value in fields.items():
        if not value >= 0:
            raise ValueError(f"{field} = {value!r}: must be 0 or more")


def _children(rank: int, ranks: int) -> int:
    """Return to how many ranks this one sends in a binomial tree from rank 0."""
    return sum(1 for level in range(rank.bit_length(), (ranks - 1).bit_length()) if rank + (1 << level) < ranks)


def _rounds(kind: str, ranks: int, size: float, algorithm: str | None, per_node: int | None) -> list[tuple[int, float]]:
    """Return (how many, bytes) of the messages that follow one another on the longest path."""
    check_whole(ranks=ranks)
    check_choice("kind", kind, tuple(ALGORITHMS))
    algorithm = algorithm or ALGORITHMS[kind][0]
    check_choice("algorithm", algorithm, ALGORITHMS[kind])
    if ranks == 1:
        return []
    both = 2 if kind == "all_reduce" else 1  # an all-reduce is a reduce or reduce-scatter, and then its way back
    if algorithm == "naive":
        return [(both * (ranks - 1), size)]
    if algorithm == "tree":
        return [(both * tree_rounds(ranks), size)]
    if algorithm == "in_network":
        return [(1, size if kind == "all_reduce" else (ranks - 1) / ranks * size)]
    if algorithm in ("ring", "pairwise"):
        return [(both * (ranks - 1), size / ranks)]
    if algorithm == "halving_doubling":
        return _halving_doubling(kind, ranks, size, both)
    if per_node is None or per_node < 1 or ranks % per_node:
        raise ValueError(f"per_node = {per_node!r}: nodes must hold equally many of the {ranks} ranks")
    nodes = ranks // per_node
    return [(2 * (per_node - 1), size / per_node), (2 * (nodes - 1), size / per_node / nodes)]


def _halving_doubling(kind: str, ranks: int, size: float, both: int) -> list[tuple[int, float]]:
    """Rabenseifner's: exchange half with the rank at half the distance, then a quarter, ... and back.

    Where ranks are no power of two, those beyond the last power first give their tensor to one of the others and get
    the result at the end; all-gather and reduce-scatter are refused then.
    """
    core = 1 << (ranks.bit_length() - 1)
    rounds = [(both, size / 2**level) for level in range(1, core.bit_length())]
    if core == ranks:
        return rounds
    if kind != "all_reduce":
        raise ValueError(f"ranks = {ranks}: {kind} by halving_doubling needs a power of two; use ring")
    return [(2, size), *rounds]
