"""Chunked prefill: every step makes a token for each running request, and reads pieces of prompts beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from course_lib.events import Event
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request
from course_lib.serving.workers import Roofline


def chunked(worker: Roofline, requests: Iterable[Request], budget: int, slots: int = 0, record: bool = False) -> Served:
    """Serve copies of requests, at most `slots` at once (0: all), with at most `budget` tokens in a step.

    Tokens being made come first; what is left of the budget reads prompts, first come, first served. `record` keeps
    Events, step by step. Blocks are not counted.
    """
    line = deque(replace(request) for request in sorted(requests, key=lambda request: request.arrival))
    everyone, slots = list(line), slots or len(line)
    if not 1 <= slots < budget:
        raise ValueError(f"budget = {budget}: must be above the {slots} requests at once, and there must be one")
    running: dict[int, Request] = {}  # by slot, in order of arrival
    read: dict[int, int] = {}  # tokens of each prompt that are in the cache
    clock = busy = 0.0
    events: list[Event] = []
    while line or running:
        while line and len(running) < slots and line[0].arrival <= clock:
            slot = min(set(range(slots)) - running.keys())
            running[slot], read[slot] = line.popleft(), 0
        if not running:
            clock = line[0].arrival
            continue
        makers = {slot: request for slot, request in running.items() if request.made}
        kept = pairs = sum(request.prompt + request.made for request in makers.values())
        new = scored = len(makers)
        pieces: dict[int, int] = {}
        for slot, request in running.items():
            piece = min(budget - new, request.prompt - read[slot])
            if not request.made and piece:
                pieces[slot] = piece
                kept, pairs = kept + read[slot], pairs + piece * read[slot] + piece * (piece + 1) // 2
                read[slot], new = read[slot] + piece, new + piece
                scored += read[slot] == request.prompt
        seconds = worker.seconds(new, pairs, kept, scored)
        start, clock, busy = clock, clock + seconds, busy + seconds
        for kind, slots_of_kind in (("decode", makers), ("prefill", pieces)) if record else ():
            events += [Event(s, kind, start, clock, start, label=str(running[s].id)) for s in slots_of_kind]
        for slot, request in list(running.items()):
            if read[slot] == request.prompt:
                request.made += 1
                request.first = clock if request.made == 1 else request.first
                if request.made >= request.output:
                    request.state, request.end = "done", clock
                    del running[slot]
    return Served(everyone, clock, busy, slots, events)
