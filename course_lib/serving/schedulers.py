"""Which of the waiting requests start now: functions that an engine asks whenever a request has come or gone.

Each takes the first waiting requests in order of arrival, the running ones, how many may run at once (`slots`), and the
blocks of the KV cache; it returns the requests to start, in order. It may look at a request's `prompt`, `limit`, `made`
and `blocks`; its `output` nobody knows beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from course_lib.serving.blocks import blocks_for
from course_lib.serving.requests import Request


def static_batches(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start a new batch only when the last one is done, whole: first come, first served."""
    return [] if running else continuous(waiting, running, slots, blocks, block_size)


def continuous(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start whoever is first in line as soon as there is a slot, and blocks for the longest answer its user allows."""
    room = blocks - sum(blocks_for(request.prompt + request.limit, block_size) for request in running)
    return _in_line(waiting, slots - len(running), room, lambda r: blocks_for(r.prompt + r.limit, block_size))


def on_demand(
    waiting: Iterable[Request], running: Collection[Request], slots: int, blocks: int, block_size: int
) -> list[Request]:
    """Start whoever is first in line as soon as there is a slot, and blocks for its next token.

    Blocks may run out later: the engine then puts the youngest request back in line and computes it again.
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
