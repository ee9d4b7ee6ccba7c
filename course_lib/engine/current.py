"""Which rank the code at work belongs to: the one place that knows.

On a real rank it is the process's `Meter`; on simulated ones the `World`, which knows whose turn it is; where answers
are graded the rank's link to its judge. In a notebook and in a plain script it is None. Whoever makes a rank sets it;
it is asked by what has no `dist` at hand: `work`, `bytes_held`, the executor of pipelines. An argument would be the
obvious way, but learners call these deep inside layers and hooks, where nobody passes `dist`.
"""

from __future__ import annotations

from typing import Protocol


class AtWork(Protocol):
    """What is asked of a rank by code that has no `dist`."""

    simulated: bool

    def now(self) -> float:
        """Return its time in seconds: virtual on a simulated rank."""

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Spend time as if computing."""


_rank: AtWork | None = None


def rank() -> AtWork | None:
    """Return the rank at work, None outside of ranks."""
    return _rank


def set_rank(at_work: AtWork | None) -> None:
    """Say who is at work in this process from now on."""
    global _rank
    _rank = at_work
