"""Rows on their way to experts in other nodes: a copy for every expert, or one for every node that NVLink passes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_lib import Cluster, run
from course_lib.hardware import H100


def copies(dist: Any, chosen: Sequence[torch.Tensor], experts: int, per_node: int, row: int, once: bool) -> int:
    """Send every token of this rank to its experts; return the bytes that left this rank's node.

    `chosen[rank]`: the experts of that rank's tokens (tokens x k); `row`: the bytes of a token. With `once` a token
    goes to each node once, over its own rail, and from there to the ranks of its experts.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    nodes, per_rank = ranks // per_node, experts // ranks
    node, place = divmod(rank, per_node)
    owners = [mine // per_rank for mine in chosen]
    if not once:
        pairs = torch.stack([torch.bincount(mine.flatten(), minlength=ranks) for mine in owners])
        _exchange(dist, (row * pairs[rank]).tolist(), (row * pairs[:, rank]).tolist(), None)
        return row * int(pairs[rank].sum() - pairs[rank, node * per_node : (node + 1) * per_node].sum())
    rails = [dist.new_group(list(range(start, ranks, per_node))) for start in range(per_node)]
    inside = [dist.new_group(list(range(start, start + per_node))) for start in range(0, ranks, per_node)]
    visits = torch.stack([  # of each rank, how many of its tokens visit each node
        torch.stack([(mine // per_node == other).any(1).sum() for other in range(nodes)]) for mine in owners
    ])  # fmt: skip
    on_rail = visits[place::per_node]
    _exchange(dist, (row * visits[rank]).tolist(), (row * on_rail[:, node]).tolist(), rails[place])
    passed = [sum((owners[source] == node * per_node + to).sum() for source in range(start, ranks, per_node))
              for start in range(per_node) for to in range(per_node)]  # fmt: skip
    table = row * torch.tensor(passed).view(per_node, per_node)
    _exchange(dist, table[place].tolist(), table[:, place].tolist(), inside[node])
    return row * int(visits[rank].sum() - visits[rank, node])


def _exchange(dist: Any, sent: list[int], received: list[int], group: Any) -> None:
    pieces = [torch.empty(size, dtype=torch.uint8) for size in sent]
    dist.all_to_all([torch.empty(size, dtype=torch.uint8) for size in received], pieces, group=group)


def limited(scores: torch.Tensor, k: int, nodes: int, most: int) -> torch.Tensor:
    """Return each token's k best experts (tokens x k) of those in its `most` best nodes, as DeepSeek-V3 chooses them.

    A node is worth the sum of its k // most best scores; `scores` (tokens x experts) are above 0.
    """
    by_node = scores.view(len(scores), nodes, -1)
    best = by_node.topk(k // most).values.sum(-1).topk(most).indices
    allowed = torch.zeros(len(scores), nodes).scatter(1, best, 1.0)
    return (by_node * allowed[..., None]).flatten(1).topk(k).indices


def crossing(
    chosen: Sequence[torch.Tensor], nodes: int, per_node: int, experts: int = 256, row: int = 7168, once: bool = True
) -> tuple[float, float]:
    """Return (copies of a token that leave its node, seconds), simulated on nodes of H100s with a port for every GPU.

    Latencies are left out: kernels for experts pay them once, not once a round. `row`: 7,168 bytes are DeepSeek-V3's
    vector in fp8. Raises ValueError where ranks do not divide the experts.
    """
    ranks = nodes * per_node
    if experts % ranks:
        raise ValueError(f"experts = {experts}: must be divisible by the {ranks} ranks, so that all hold as many")
    if len(chosen) != ranks:
        raise ValueError(f"chosen has {len(chosen)} tensors: must be one for each of the {ranks} ranks")
    on = Cluster(nodes=nodes, gpus_per_node=per_node, gpu=H100, nics=per_node, latency=0.0, nic_latency=0.0)
    trace = run(copies, list(chosen), experts, per_node, row, once, ranks=ranks, on=on)
    return sum(trace) / row / sum(map(len, chosen)), trace.seconds
