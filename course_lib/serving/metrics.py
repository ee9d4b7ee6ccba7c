"""What users and owners of a server measure: time to the first token, time per token, percentiles, goodput."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.serving.requests import Request


@dataclass
class Served:
    """Requests after an engine has served them. Print it; `timeline` draws its events, a row per slot."""

    requests: list[Request]
    seconds: float
    """When the last iteration ended."""
    busy: float
    """Seconds of those in which the engine computed."""
    slots: int
    events: list
    simulated: bool = True
    passes: int = 0
    """How often the model was called: once for each prompt or step."""

    def __len__(self) -> int:
        return self.slots

    @property
    def done(self) -> list[Request]:
        """Return the requests that were answered to the end."""
        return [request for request in self.requests if request.state == "done"]

    @property
    def tokens(self) -> int:
        """Return the tokens made for requests that were answered to the end."""
        return sum(request.made for request in self.done)

    @property
    def duration(self) -> float:
        """Return the seconds from the first arrival to the last token."""
        ends = [request.end for request in self.requests if not math.isnan(request.end)]
        return max(ends) - min(request.arrival for request in self.requests) if ends else 0.0

    @property
    def throughput(self) -> float:
        """Return output tokens per second."""
        return self.tokens / self.duration if self.duration else 0.0

    def values(self, name: str) -> np.ndarray:
        """Return "ttft", "tpot", "gap" or "latency" of every answered request, in seconds.

        TPOT is a mean, a gap the longest of an answer; both are there from two tokens on.
        """
        least = {"ttft": 1, "tpot": 2, "gap": 2, "latency": 0}[name]
        return np.array([getattr(request, name) for request in self.done if request.made >= least])

    def percentile(self, name: str, percent: float) -> float:
        """Return a percentile of "ttft", "tpot", "gap" or "latency" in seconds, NaN where nobody was answered."""
        values = self.values(name)
        return float(np.percentile(values, percent)) if len(values) else math.nan

    def goodput(self, **most: float) -> float:
        """Return requests per second that meet *all* objectives, such as goodput(ttft=0.5, tpot=0.05), in seconds."""
        return self._good(most) / self.duration if self.duration else 0.0

    def share(self, **most: float) -> float:
        """Return the share of all requests that meet *all* objectives, such as share(ttft=0.5, gap=0.05).

        A mean such as `tpot` does not see an answer that freezes in the middle; `gap`, the longest wait, does.
        """
        return self._good(most) / len(self.requests) if self.requests else 0.0

    @property
    def carried(self) -> float:
        """Return the requests answered per second in the middle half of all, between the start and the last few."""
        ends = sorted(request.end for request in self.done)
        first, last = len(ends) // 4, 3 * len(ends) // 4
        return (last - first) / (ends[last] - ends[first]) if last > first else 0.0

    def _good(self, most: Mapping[str, float]) -> int:
        if unknown := set(most) - {"ttft", "tpot", "gap", "latency"}:
            raise ValueError(f"{', '.join(sorted(unknown))}: objectives are ttft, tpot, gap and latency")
        return sum(all(getattr(r, name) <= limit for name, limit in most.items()) for r in self.done if r.made)

    def row(self) -> dict[str, Any]:
        """Return the numbers of `print(served)` by name: counts, tokens/s, seconds."""
        row = {"answered": len(self.done), "tokens": self.tokens, "seconds": self.duration, "tokens/s": self.throughput}
        for name in ("ttft", "tpot", "latency"):
            row |= {f"{name} p{percent}": self.percentile(name, percent) for percent in (50, 99)}
        return row

    def __str__(self) -> str:
        row = self.row()
        others = len(self.requests) - row["answered"]
        answered = f"{row['answered']:,} requests answered" + (f", {others:,} not" if others else "")
        lines = [f"{answered}: {row['tokens']:,} tokens in {row['seconds']:,.1f} s, {row['tokens/s']:,.1f} tokens/s"]
        for name, words in (("ttft", "first token"), ("tpot", "per token"), ("latency", "whole answer")):
            half, most = row[f"{name} p50"], row[f"{name} p99"]
            lines.append(f"  {words:<13} p50 {_time(half):>9}   p99 {_time(most):>9}")
        return "\n".join(lines)

    __repr__ = __str__


def table(served: Mapping[str, Served], **most: float) -> str:
    """Return one line for each engine: throughput, p50 and p99, and goodput where objectives are given (in seconds)."""
    width, names = max(map(len, served)), ("ttft", "tpot", "latency")
    heads = "".join(f"{head:>22}" for head in ("first token p50, p99", "per token p50, p99", "whole answer p50, p99"))
    lines = [f"{'':<{width}}{'tokens/s':>10}{heads}" + (f"{'good':>8}" if most else "")]
    for name, one in served.items():
        row = one.row()
        times = "".join(f"{_time(row[f'{what} p50']):>11}{_time(row[f'{what} p99']):>11}" for what in names)
        good = f"{one.goodput(**most):>8.2f}" if most else ""
        lines.append(f"{name:<{width}}{row['tokens/s']:>10,.0f}{times}{good}")
    if most:
        objectives = " and ".join(f"{name} <= {seconds:g} s" for name, seconds in most.items())
        lines.append(f"good: {objectives}; requests per second")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
