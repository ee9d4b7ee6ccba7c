"""What the milliseconds of one answer were spent on, read from what an engine has recorded step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request


def ordinary(requests: Sequence[Request], prompt: tuple[int, int], output: tuple[int, int]) -> Request:
    """Return the request with the median latency among those whose prompt and answer lie within these bounds."""
    alike = [r for r in requests if prompt[0] < r.prompt < prompt[1] and output[0] < r.output < output[1]]
    return sorted(alike, key=lambda request: request.latency)[len(alike) // 2]


def spent(served: Served, number: int, alone: float) -> dict[str, float]:
    """Return on what the seconds of request `number` were spent; `alone`: what its tokens take without other users."""
    request, mine = served.requests[number], _mine(served, number)
    own = {kind: sum(e.end - e.start for e in mine if e.kind == kind) for kind in ("prefill", "decode")}
    parts = {"until the first token": mine[0].start - request.arrival + own["prefill"],
             "own tokens": alone, "others in its steps": own["decode"] - alone}
    return parts | {"others' prompts": request.latency - sum(parts.values())}  # between its steps others were served


def steps(served: Served, number: int) -> list[tuple[float, float]]:
    """Return the beginning and end of each step that gave request `number` a token after its first."""
    return [(event.start, event.end) for event in _mine(served, number) if event.kind == "decode"]


def company(served: Served, number: int) -> float:
    """Return how many requests, itself included, got a token in a step of request `number`, on average."""
    together = Counter(event.start for event in served.events if event.kind == "decode")
    own = [together[start] for start, _ in steps(served, number)]
    return sum(own) / len(own)


def _mine(served: Served, number: int) -> list:
    return [event for event in served.events if event.label == str(number)]
