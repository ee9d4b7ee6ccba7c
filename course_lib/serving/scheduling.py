"""Who is served next, and where: schedulers that an engine asks, and a load balancer in front of several engines.

An engine asks its scheduler whenever a request has come or gone. Each takes the first waiting requests in order of
arrival, the running ones, how many may run at once (`slots`), and the blocks of the KV cache; it returns the requests
to start, in order. It may look at a request's `prompt`, `limit`, `made` and `blocks`; its `output` nobody knows
beforehand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from course_lib.serving.caches import blocks_for
from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request

# Schedulers


def static_batches(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start a new batch only when the last one is done, whole: first come, first served."""
    return [] if running else continuous(waiting, running, slots, blocks, block_size)


def continuous(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start whoever is first in the queue as soon as there is a slot, and blocks for the longest answer allowed."""
    room = blocks - sum(blocks_for(request.prompt + request.limit, block_size) for request in running)
    return _in_line(waiting, slots - len(running), room, lambda r: blocks_for(r.prompt + r.limit, block_size))


def on_demand(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start whoever is first in the queue as soon as there is a slot, and blocks for its next token.

    Blocks may run out later: the engine then puts the youngest request back into the queue and computes it again.
    """
    room = blocks - sum(request.blocks for request in running)
    return _in_line(waiting, slots - len(running), room, lambda r: blocks_for(r.prompt + r.made + 1, block_size))


def _in_line(waiting: Iterable[Request], slots: int, room: int, need) -> list[Request]:
    started: list[Request] = []
    for request in waiting:
        room -= need(request)
        if len(started) == slots or room < 0:
            break  # nobody overtakes: a long prompt that has to wait would wait forever
        started.append(request)
    return started


# The load balancer: every request goes to one of several engines when it arrives


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
