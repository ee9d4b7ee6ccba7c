"""The current rank: the one global that says which rank this code runs on.

It is the process's `Meter` on a real rank, the `World` on simulated ones, a `RemoteDist` under grading, and None in a
notebook or script. It is for code without a `dist`: `work`, `bytes_held`, the executor of pipelines. Why not pass
`dist` there too? Learners call these deep inside layers and hooks. Why not a threading.local, one value per simulated
rank? A thread that a learner's function starts would see none, and the World knows whose turn it is anyway.
"""

from __future__ import annotations

import math
from typing import Protocol


class AtWork(Protocol):
    """The interface of the current rank."""

    simulated: bool

    def now(self) -> float:
        """Return seconds since its start: virtual time on a simulated rank."""

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Spend time as if computing: give seconds or flops."""


def seconds_of(seconds: float | None, flops: float | None, speed: float) -> float:
    """Return how long `work` takes. Raises ValueError for what would turn a clock back, stop it or send it to infinity.

    Checked where the clock is, not only where it is asked for: a rank that is graded asks by a message of its own.
    """
    amount = seconds if seconds is not None else flops
    if isinstance(amount, str) or not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"work was given {amount}: it takes a finite number that is not negative")
    return float(amount) if seconds is not None else float(amount) / speed


_rank: AtWork | None = None


def rank() -> AtWork | None:
    """Return the current rank, None outside of ranks."""
    return _rank


def set_rank(at_work: AtWork | None) -> None:
    """Set the current rank of this process."""
    global _rank
    _rank = at_work
