"""A load balancer in front of replicas: every request goes to one of several engines when it arrives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request


def round_robin() -> Callable:
    """Return a choice that takes the replicas in turn, whatever they have to do."""
    turn = itertools.count()
    return lambda engines, request: next(turn) % len(engines)


def least_loaded(engines: Sequence[Engine], request: Request) -> int:
    """Return the replica with the fewest requests that are not done; the first of several."""
    return min(range(len(engines)), key=lambda place: engines[place].load)


def serve_fleet(requests: Iterable[Request], engines: Sequence[Engine], choose: Callable) -> Served:
    """Serve copies of requests on several replicas; `choose(engines, request)` says where each goes as it arrives."""
    for request in sorted(requests, key=lambda request: request.arrival):
        for engine in engines:
            engine.advance(request.arrival)
        place = choose(engines, request)
        engines[place].submit(replace(request, replica=place))
    for engine in engines:
        engine.advance()
    seen = sorted((request for engine in engines for request in engine.seen), key=lambda request: request.arrival)
    clock, busy = max(engine.clock for engine in engines), sum(engine.busy for engine in engines)
    return Served(seen, clock, busy, sum(engine.slots for engine in engines), [], engines[0].served().simulated)
