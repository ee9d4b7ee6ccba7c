"""The same function on simulated ranks with a virtual clock: same names, same results, and exact costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.meter import Event
from course_lib.ranks.results import Deadlock

__all__ = ["Cluster", "Deadlock", "Event"]


@dataclass(frozen=True)
class Cluster:
    """Ranks whose every pair is joined by an equal, full-duplex link.

    `bandwidth` is in bytes per second and direction, `latency` in seconds per message, `flops` in floating-point
    operations per second (what `work(flops=...)` divides by). The cost model stands in `course_lib.simulator.engine`.
    """

    bandwidth: float = 50e9
    latency: float = 5e-6
    flops: float = 1e12

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth={self.bandwidth}: give bytes per second, more than 0 (math.inf is allowed)")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency={self.latency}: give seconds, 0 or more")
        if not 0 < self.flops < math.inf:
            raise ValueError(f"flops={self.flops}: give floating-point operations per second, more than 0")

    def link(self, src: int, dst: int) -> tuple[float, float]:
        """Return (latency in seconds, bandwidth in bytes per second) from one rank to another."""
        return self.latency, self.bandwidth

    def check(self, ranks: int) -> None:
        """Raise ValueError when this cluster cannot hold so many ranks. Equal links hold any number."""

    def describe(self) -> dict[str, float]:
        """Return the cluster as plain numbers, for the process that simulates it."""
        return {"bandwidth": self.bandwidth, "latency": self.latency, "flops": self.flops}
