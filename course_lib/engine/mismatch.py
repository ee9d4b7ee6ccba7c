"""Finds mismatched messages and collectives before gloo sees them, for debug=True.

Each side of a message publishes its dtype and shape in the TCPStore, then looks for the other side's. The second one
sees both, so a mismatch never reaches gloo, which would fill the buffer in part or abort the process. The first rank to
call a collective publishes its call, and all others compare theirs with it. Why not TORCH_DISTRIBUTED_DEBUG=DETAIL
alone? It is on as well, but covers collectives only. Why is this not always on? Each message costs two or three round
trips to the store.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib.events import describe


class MatchCheck:
    """Counts this rank's messages by pair and its collectives by group, and compares each with the other side."""

    def __init__(self) -> None:
        self._count: dict[Any, int] = {}
        self._store = torch_dist.distributed_c10d._get_default_store()

    def sending(self, tensor: torch.Tensor, dst: int, tag: int) -> None:
        """Compare with the receive of `dst`, if that is posted already. Raises ValueError."""
        theirs = self._exchange("send", torch_dist.get_rank(), dst, tag, describe(tensor))
        if theirs is not None and not _fits(describe(tensor), theirs):
            raise ValueError(_misfit(torch_dist.get_rank(), describe(tensor), dst, theirs))

    def receiving(self, tensor: torch.Tensor, src: int | None, tag: int) -> None:
        """Compare with the send of `src`, if that is posted already. Raises ValueError."""
        if src is None:
            return
        theirs = self._exchange("recv", src, torch_dist.get_rank(), tag, describe(tensor))
        if theirs is not None and not _fits(describe(tensor), theirs):
            raise ValueError(_misfit(src, theirs, torch_dist.get_rank(), describe(tensor)))

    def calling(self, call: str, group: torch_dist.ProcessGroup) -> None:
        """Compare a collective with the call of the first rank of the group. Raises RuntimeError."""
        number = self._count[group.group_name] = self._count.get(group.group_name, 0) + 1
        me = torch_dist.get_rank()
        key = f"course/collective/{group.group_name}/{number}"
        first, _, theirs = self._store.compare_set(key, "", f"{me} {call}").decode().partition(" ")
        if theirs != call:
            raise RuntimeError(
                f"rank {me} calls {call}, but rank {first} called {theirs} as the same collective "
                f"(number {number} of their group): all ranks of a group make the same calls in the same order"
            )

    def _exchange(self, side: str, src: int, dst: int, tag: int, mine: str) -> str | None:
        pair = (side, src, dst, tag)
        count = self._count[pair] = self._count.get(pair, 0) + 1
        sides = (side, "recv" if side == "send" else "send")
        key, other = (f"course/{name}/{src}/{dst}/{tag}/{count}" for name in sides)
        self._store.set(key, mine)
        return self._store.get(other).decode() if self._store.check([other]) else None


def _fits(one: str, other: str) -> bool:
    """Return whether two described tensors have the same dtype and number of elements."""
    return _size(one) == _size(other)


def _size(described: str) -> tuple[str, int]:
    dtype, _, shape = described.partition("[")
    return dtype, int(torch.Size(int(n) for n in shape.rstrip("]").split(",") if n).numel())


def _misfit(src: int, sent: str, dst: int, into: str) -> str:
    return f"rank {src} sends {sent}, but rank {dst} receives into {into}: both sides need the same dtype and size"
