"""An all-reduce by two pipelined trees, out of isend and irecv; `course_lib.costs.pipelined_tree_seconds` counts it."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.costs.two_trees import broadcast_steps


def pipelined_tree(dist: Any, tensor: torch.Tensor, chunks: int) -> None:
    """Sum `tensor` over all ranks, in place, in so many chunks: a reduce to rank 0, then a broadcast.

    The reduce is the broadcast backwards: what would be sent is received and added. `chunks`: at least 1.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = list(tensor.view(-1).tensor_split(chunks))
    steps = list(broadcast_steps(rank, ranks, chunks))
    for step in reversed(steps):
        arrived = [torch.empty_like(pieces[chunk]) for _, _, chunk in step]
        handles = [
            dist.irecv(into, peer) if kind == "send" else dist.isend(pieces[chunk], peer)
            for (kind, peer, chunk), into in zip(step, arrived, strict=True)
        ]
        for handle in handles:
            handle.wait()
        for (kind, _, chunk), into in zip(step, arrived, strict=True):
            if kind == "send":
                pieces[chunk] += into
    for step in steps:
        handles = [getattr(dist, f"i{kind}")(pieces[chunk], peer) for kind, peer, chunk in step]
        for handle in handles:
            handle.wait()
