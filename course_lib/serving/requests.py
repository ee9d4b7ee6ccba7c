"""Requests, and seeded traces of them whose arrivals and lengths have the statistics of real ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

# Azure LLM inference traces 2023 (Splitwise, 2311.18677): requests per second, variation of the time between arrivals
# (standard deviation / mean), and p50 and p99 of prompt and answer, in tokens.
TRACES = {
    "chat": {"rate": 5.53, "variation": 1.09, "prompt": (1020, 4142), "output": (129, 601)},
    "code": {"rate": 2.45, "variation": 13.2, "prompt": (1469, 7436), "output": (13, 252)},
}
P99 = 2.3263478740408408  # standard deviations from the median to the 99th percentile of a normal distribution


@dataclass(slots=True)
class Request:
    """One question to a server: what its user asks for, and (below) what became of it. Times are in seconds."""

    id: int
    arrival: float
    prompt: int
    """Tokens of the prompt."""
    output: int
    """Tokens that the answer will have. The engine learns it when the last one is made; a scheduler must not look."""
    limit: int = -1
    """Most tokens the user allows (max_tokens); as many as the answer has, unless given."""
    cancel: float = math.inf
    """When the user goes away."""
    tokens: list[int] | None = None
    """The prompt itself, for an engine with a real model."""

    state: str = field(default="new", kw_only=True)
    """new, waiting, running, done, refused or cancelled."""
    reason: str = field(default="", kw_only=True)
    """Why it was refused or ended early, in a sentence."""
    made: int = field(default=0, kw_only=True)
    blocks: int = field(default=0, kw_only=True)
    """Blocks of the KV cache it holds now."""
    first: float = field(default=math.nan, kw_only=True)
    """When its first token came."""
    gap: float = field(default=0.0, kw_only=True)
    """The longest time between two of its tokens, one after the other; 0 with fewer than two."""
    end: float = field(default=math.nan, kw_only=True)
    preempted: int = field(default=0, kw_only=True)
    replica: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if self.limit < 0:
            self.limit = self.output

    @property
    def ttft(self) -> float:
        """Return the seconds from arrival to the first token."""
        return self.first - self.arrival

    @property
    def latency(self) -> float:
        """Return the seconds from arrival to the last token."""
        return self.end - self.arrival

    @property
    def tpot(self) -> float:
        """Return the seconds per output token after the first, as in vLLM's benchmark; 0 with fewer than two."""
        return (self.end - self.first) / (self.made - 1) if self.made > 1 else 0.0


def synthetic_trace(
    kind: str, requests: int, seed: int = 0, rate: float | None = None, limit: int | None = None, context: int = 8192
) -> list[Request]:
    """Return so many requests in order of arrival, with the statistics of a row of TRACES.

    Lengths are log-normal through the published p50 and p99, cut so that prompt and answer fit `context`; times between
    arrivals are gamma distributed. `rate` (per second) replaces the trace's own; `limit` is the max_tokens that every
    user sends (default: what the answer will have). The same seed gives the same trace.
    """
    if kind not in TRACES:
        raise ValueError(f"kind = {kind!r}: must be one of {', '.join(map(repr, TRACES))}")
    row, draw = TRACES[kind], np.random.default_rng(seed)
    shape = row["variation"] ** -2
    gaps = draw.gamma(shape, 1 / (shape * (rate or row["rate"])), requests)
    prompts, outputs = (_lengths(draw, *row[part], requests, context // 2) for part in ("prompt", "output"))
    arrivals = np.cumsum(gaps)
    return [
        Request(number, arrival, prompt, min(output, limit or output), limit or -1)
        for number, (arrival, prompt, output) in enumerate(
            zip((arrivals - arrivals[:1]).tolist(), prompts.tolist(), outputs.tolist(), strict=True)
        )
    ]


def _lengths(draw: np.random.Generator, median: float, p99: float, count: int, most: int) -> np.ndarray:
    sigma = math.log(p99 / median) / P99
    return np.clip(np.round(draw.lognormal(math.log(median), sigma, count)), 1, most).astype(int)
