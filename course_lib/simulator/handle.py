"""What a built-in collective under way returns: its results appear at wait(), and its buffers must stay untouched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.simulator.posting import same_bits, version
from course_lib.simulator.runners import Agent, Rank


class CollectiveHandle:
    """The handle of a built-in collective: `buffers` are tensors and what was in them, `fill` puts results in."""

    def __init__(
        self, rank: Rank, agent: Agent, buffers: list[tuple[torch.Tensor, torch.Tensor]], fill: Callable[[], None]
    ) -> None:
        self.rank, self.name = rank, agent.name
        self._agent: Agent | None = agent
        self._fill: Callable[[], None] | None = fill
        self._buffers = [(tensor, version(tensor), before) for tensor, before in buffers]
        rank.open_handles[self] = None

    @property
    def end(self) -> float | None:
        """When the operation ends, as far as that is known."""
        return self._agent.end

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        if self not in self.rank.open_handles:
            return True
        self.rank.engine.wait(self.rank, self._agent)
        if any(version(tensor) != was and not same_bits(tensor, before) for tensor, was, before in self._buffers):
            raise RuntimeError(f"the buffer of {self.name} was changed before its wait(): wait first, then change it")
        del self.rank.open_handles[self]
        self._agent = None
        fill, self._fill, self._buffers = self._fill, None, []
        fill()
        return True

    def is_completed(self) -> bool:
        """Return whether the operation has ended by this rank's clock; results still need `wait`."""
        return self not in self.rank.open_handles or self.rank.engine.poll(self.rank, self._agent)
