"""Chunked prefill: every step makes a token for each running request, and reads pieces of prompts beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from course_lib.events import Event
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request


def fill_row(running: Sequence[tuple[int, int, int]], budget: int) -> list[int]:
    """Return how many tokens each of the running requests, (prompt, read, made), brings to the next row."""
    room, row = budget - sum(made > 0 for _, _, made in running), []
    for prompt, read, made in running:
        piece = 0 if made else min(room, prompt - read)
        room -= piece
        row.append(1 if made else piece)
    return row


class RowEngine:
    """Serves copies of requests, at most `slots` at once (0: all), with at most `budget` tokens in a step.

    Tokens being made come first; what is left of the budget reads prompts, first come, first served. A function
    `fill` may do this otherwise. `worker.row` does a step. Blocks are not counted. `record` keeps Events: steps without
    a pause are one, unless it is "steps".
    """

    def __init__(
        self, worker: Any, requests: Iterable[Request], budget: int, slots: int = 0, record: bool | str = False,
        fill: Callable = fill_row,
    ) -> None:  # fmt: skip
        self.queue = deque(replace(request) for request in sorted(requests, key=lambda request: request.arrival))
        self.worker, self.budget, self.slots = worker, budget, slots or len(self.queue)
        if not 1 <= self.slots < budget:
            raise ValueError(f"budget = {budget}: must be above the {self.slots} requests at once, of which one is due")
        self.everyone = list(self.queue)
        self.running: dict[int, Request] = {}  # by slot, in order of arrival
        self.read: dict[int, int] = {}  # tokens of each prompt that are in the cache
        self.token: dict[int, float] = {}  # when each slot got its newest token, in seconds
        self.clock = self.busy = 0.0
        self.passes = 0
        self.record, self.fill = record, fill
        self._events: list[Event] = []
        self._newest: dict[int, int] = {}  # the place of each slot's last event

    @property
    def load(self) -> int:
        """Return the requests that are not done."""
        return len(self.queue) + len(self.running)

    def run(self) -> Served:
        """Serve all to the end and return what became of them."""
        while self.load:
            self.step()
        return self.served()

    def served(self) -> Served:
        """Return what became of the requests so far."""
        return Served(self.everyone, self.clock, self.busy, self.slots, self._events, self.worker.simulated,
                      self.passes)

    def step(self) -> None:
        """Do one step, or go on to the next arrival where nobody is here."""
        self._admit()
        if not self.running:
            self.clock = self.queue[0].arrival
            return
        makers = [slot for slot, request in self.running.items() if request.made]
        filled = self.fill([(one.prompt, self.read[slot], one.made) for slot, one in self.running.items()], self.budget)
        pieces = {slot: n for (slot, one), n in zip(self.running.items(), filled, strict=True) if n and not one.made}
        if not (makers or pieces):
            raise ValueError(f"an empty row, though {len(self.running)} requests are running")
        row = [(self.running[slot], 1, self.running[slot].prompt + self.running[slot].made - 1) for slot in makers]
        row += [(self.running[slot], piece, self.read[slot]) for slot, piece in pieces.items()]
        start, seconds = self.clock, self.worker.row(row)
        self.clock, self.busy, self.passes = start + seconds, self.busy + seconds, self.passes + 1
        for slot, piece in pieces.items():
            self.read[slot] += piece
        for kind, slots in (("decode", makers), ("prefill", pieces)) if self.record else ():
            for slot in slots:
                self._note(Event(slot, kind, start, self.clock, start, label=str(self.running[slot].id)))
        for slot, request in list(self.running.items()):
            if self.read[slot] == request.prompt:
                request.made += 1
                if request.made == 1:
                    request.first = self.clock
                else:
                    request.gap = max(request.gap, self.clock - self.token[slot])
                self.token[slot] = self.clock
                if request.made >= request.output:
                    request.state, request.end = "done", self.clock
                    del self.running[slot]

    def _admit(self) -> None:
        while self.queue and len(self.running) < self.slots and self.queue[0].arrival <= self.clock:
            slot = min(set(range(self.slots)) - self.running.keys())
            self.running[slot], self.read[slot] = self.queue.popleft(), 0

    def _note(self, event: Event) -> None:
        place = self._newest.get(event.rank)
        before = self._events[place] if place is not None and self.record != "steps" else None
        if before is not None and (before.kind, before.end, before.label) == (event.kind, event.start, event.label):
            self._events[place] = before._replace(end=event.end)  # the same bar goes on
        else:
            self._newest[event.rank] = len(self._events)
            self._events.append(event)


class PaddedEngine(RowEngine):
    """Serves static batches: `slots` requests begin together, all prompts in one step, and nobody joins before the end.

    Its worker, a `PaddedModel`, fills each step up to a rectangle.
    """

    def __init__(self, worker: Any, requests: Sequence[Request], slots: int, record: bool | str = False) -> None:
        most = sum(request.prompt for request in requests) + slots  # every step has room for all prompts of its batch
        super().__init__(worker, requests, most, slots, record)

    def _admit(self) -> None:
        if not self.running:
            super()._admit()


def chunked(
    worker: Any, requests: Iterable[Request], budget: int, slots: int = 0, record: bool | str = False,
    fill: Callable = fill_row,
) -> Served:  # fmt: skip
    """Serve requests in rows of at most `budget` tokens, to the end: see RowEngine."""
    return RowEngine(worker, requests, budget, slots, record, fill).run()
