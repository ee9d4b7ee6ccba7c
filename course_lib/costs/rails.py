"""How long collectives take on nodes with several ports: a ring on every rail, and a ring in every node.

A **rail** is what the GPUs at the same place of all nodes share: they talk through their own port, at the same time as
the other rails, so that a node's ports all carry bytes at once.
"""

from __future__ import annotations

from course_lib.costs.collectives import collective_seconds
from course_lib.hardware import Link
from course_lib.models import check_choice, check_whole

KINDS = ("all_reduce", "all_gather", "reduce_scatter")


def rails_seconds(
    nodes: int,
    per_node: int,
    size: float,
    fast: Link,
    slow: Link,
    kind: str = "all_reduce",
    nics: int | None = None,
    algorithm: str = "ring",
) -> float:
    """Return the seconds of a collective on two levels: over the rails by `slow`, in the nodes by `fast`.

    An all-gather gathers over the rails and then in each node, so that every piece crosses between nodes once for each
    rail; a reduce-scatter does the same backwards; an all-reduce reduces and scatters in the nodes, sums over the
    rails and gathers in the nodes. `size` is in bytes as in `collective_seconds`. Where a node has fewer `nics` than
    GPUs, the rails of a port take turns at every step. `algorithm`: "ring", or "in_network" where switches add at both
    levels. Raises ValueError for rails that do not divide evenly, and for what `collective_seconds` refuses.
    """
    check_whole(nodes=nodes, per_node=per_node, nics=nics)
    check_choice("kind", kind, KINDS)
    check_choice("algorithm", algorithm, ("ring", "in_network"))
    nics = nics or per_node
    if per_node % nics:
        raise ValueError(f"nics = {nics}: must divide per_node = {per_node}, so that each port has as many rails")
    inside = collective_seconds("all_gather", per_node, size, fast.latency, fast.bandwidth, algorithm)
    across = collective_seconds(kind, nodes, size / per_node, slow.latency, slow.bandwidth, algorithm)
    return (2 if kind == "all_reduce" else 1) * inside + per_node // nics * across
