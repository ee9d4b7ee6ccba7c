"""What an operation under way returns: its results appear at wait(), and its buffers must stay untouched until then."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.simulator.engine import copy
from course_lib.simulator.runners import Agent, Posting


class Handle:
    """The handle of an isend or an irecv of one simulated rank; `before` is what was in the tensor at the start."""

    __slots__ = ("_dist", "_thing", "_tensor", "_version", "_before")

    def __init__(self, dist: Any, thing: Posting, tensor: torch.Tensor, before: torch.Tensor) -> None:
        self._dist, self._thing = dist, thing
        self._tensor, self._version, self._before = tensor, version(tensor), before
        dist.open_handles[self] = None

    @property
    def name(self) -> str:
        """The operation as a sentence names it."""
        kind, peer = self._thing.kind, self._thing.peer
        return f"i{kind}" if peer is None else f"i{kind} {'to' if kind == 'send' else 'from'} rank {peer}"

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        if self._dist is None:
            return True
        dist, thing = self._dist, self._thing
        dist.engine.wait(dist.me, thing)
        if self._touched():
            raise RuntimeError(f"the buffer of {self.name} was changed before its wait(): wait first, then change it")
        del dist.open_handles[self]
        self._finish()
        self._dist = self._tensor = self._before = None
        return True

    def _touched(self) -> bool:
        return version(self._tensor) != self._version and not _same_bits(self._tensor, self._before)

    def _finish(self) -> None:
        if self._thing.kind == "recv":
            copy(self._thing.tensor, self._thing.data)

    def is_completed(self) -> bool:
        """Return whether the operation has ended by this rank's clock; results still need `wait`."""
        return self._dist is None or self._dist.engine.poll(self._dist.me, self._thing)


class CollectiveHandle(Handle):
    """The handle of a built-in collective: `buffers` are tensors and what was in them, `finish` fills results in."""

    __slots__ = ("_buffers", "_fill")

    def __init__(self, dist: Any, agent: Agent, buffers: list[tuple], finish: Any) -> None:
        self._dist, self._thing, self._fill = dist, agent, finish
        self._buffers = [(tensor, version(tensor), before) for tensor, before in buffers]
        dist.open_handles[self] = None

    @property
    def name(self) -> str:
        return self._thing.name

    def _touched(self) -> bool:
        return any(version(tensor) != was and not _same_bits(tensor, before) for tensor, was, before in self._buffers)

    def _finish(self) -> None:
        self._buffers = []
        self._fill()


def version(tensor: torch.Tensor) -> int:
    """Return torch's count of in-place changes, which all views of one tensor share."""
    return -1 if tensor.is_inference() else tensor._version


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if torch.equal(one, other):
        return True
    one, other = (tensor.detach().contiguous().view(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(one, other)  # NaN equals itself here
