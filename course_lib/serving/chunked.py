"""Chunked prefill: every step makes a token for each running request, and reads a piece of a prompt beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from course_lib.events import Event
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request
from course_lib.serving.workers import Roofline


def chunked(worker: Roofline, requests: Iterable[Request], budget: int) -> Served:
    """Serve copies of requests, each in a slot of its own, with at most `budget` tokens in a step.

    Tokens being made come first; what is left of the budget reads the prompt of whoever is first in line. Events are
    recorded step by step.
    """
    line = [replace(request) for request in sorted(requests, key=lambda request: request.arrival)]
    if not 1 <= len(line) < budget:
        raise ValueError(f"budget = {budget}: must be above the {len(line)} requests, and there must be one")
    slots = {r.id: place for place, r in enumerate(line)}
    read = dict.fromkeys(slots, 0)  # tokens of each prompt
    clock = busy = 0.0
    events: list[Event] = []
    while left := [r for r in line if math.isnan(r.end)]:
        makers = [r for r in left if r.made]
        reader = next((r for r in left if not r.made and r.arrival <= clock), None)
        if not makers and reader is None:
            clock = min(r.arrival for r in left)
            continue
        held = sum(r.prompt + r.made for r in makers)
        piece = 0 if reader is None else min(budget - len(makers), reader.prompt - read[reader.id])
        before = read[reader.id] if piece else 0
        pairs = held + piece * before + piece * (piece + 1) // 2
        seconds = worker.seconds(len(makers) + piece, pairs, held + before)
        start, clock, busy = clock, clock + seconds, busy + seconds
        for r in makers:
            r.made += 1
            events.append(Event(slots[r.id], "decode", start, clock, start, label=str(r.id)))
        if piece:
            read[reader.id] += piece
            events.append(Event(slots[reader.id], "prefill", start, clock, start, label=str(reader.id)))
            if read[reader.id] == reader.prompt:
                reader.made, reader.first = 1, clock
        for r in left:
            if r.made >= r.output:
                r.state, r.end = "done", clock
    return Served(line, clock, busy, len(line), events)
