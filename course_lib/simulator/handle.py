"""What an operation under way returns: its results appear at wait(), and its buffers must stay untouched until then."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.simulator.engine import copy
from course_lib.simulator.runners import Agent, Posting


class Handle:
    """The handle of an isend, an irecv or a built-in collective of one simulated rank."""

    __slots__ = ("_dist", "_thing", "name", "_buffers")

    def __init__(self, dist: Any, thing: Posting | Agent, name: str, buffers: list[tuple]) -> None:
        self._dist, self._thing, self.name = dist, thing, name
        self._buffers = [(tensor, version(tensor), before) for tensor, before in buffers]
        dist.open_handles[id(self)] = self

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        if self._dist is None:
            return True
        dist, thing = self._dist, self._thing
        dist.engine.wait(dist.me, thing)
        for tensor, was, before in self._buffers:
            if version(tensor) != was and not _same_bits(tensor, before):
                changed = f"the buffer of {self.name} was changed before its wait()"
                raise RuntimeError(f"{changed}: wait first, then change it")
        del dist.open_handles[id(self)]
        self._dist, self._buffers = None, []
        self._finish()
        return True

    def _finish(self) -> None:
        if self._thing.kind == "recv":
            copy(self._thing.tensor, self._thing.data)

    def is_completed(self) -> bool:
        """Return whether the operation has ended by this rank's clock; results still need `wait`."""
        return self._dist is None or self._dist.engine.poll(self._dist.me, self._thing)


class CollectiveHandle(Handle):
    """The handle of a built-in collective; `finish` fills the results in."""

    __slots__ = ("_fill",)

    def __init__(self, dist: Any, agent: Agent, buffers: list[tuple], finish: Any) -> None:
        super().__init__(dist, agent, agent.name, buffers)
        self._fill = finish

    def _finish(self) -> None:
        self._fill()


def version(tensor: torch.Tensor) -> int:
    """Return torch's count of in-place changes, which all views of one tensor share."""
    return -1 if tensor.is_inference() else tensor._version


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if torch.equal(one, other):
        return True
    one, other = (tensor.detach().contiguous().view(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(one, other)  # NaN equals itself here
