"""The engine of one replica: in every iteration one prompt is read, or every running request gets one more token.

The same code serves a real model and a cost model: a worker does an iteration and says how many seconds it took, and
the engine's clock is the sum of those. Nobody sleeps: with nothing to do the clock jumps to the next arrival.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from course_lib.events import Event
from course_lib.serving.caches import BlockManager, blocks_for
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request

GONE = "its user went away"
MOST_SHOWN = 256  # waiting requests that a scheduler is shown: the first in the queue


class Engine:
    """Serves requests on a virtual clock; invariant: running requests hold `slots` slots and `blocks` blocks at most.

    `scheduler` as in `schedulers`; `window`: seconds that an idle engine waits for a batch to fill up; `manager` makes
    the block manager; `record` keeps Events for `timeline`, a row per slot: iterations without a pause are one, unless
    `record` is "steps".
    """

    def __init__(
        self, worker: Any, scheduler: Callable, *, slots: int, blocks: int, block_size: int = 16, context: int = 8192,
        window: float = 0.0, manager: Callable = BlockManager, record: bool | str = False,
    ) -> None:  # fmt: skip
        self.worker, self.scheduler, self.manager = worker, scheduler, manager(blocks, block_size)
        self.slots, self.blocks, self.size, self.context, self.window = slots, blocks, block_size, context, window
        self.clock = self.busy = 0.0
        self.steps = self.passes = 0  # iterations that decoded, and all
        self.held = 0  # tokens in the cache of all running requests
        self.arriving: deque[Request] = deque()
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self.tables: dict[int, list[int]] = {}
        self.seen: list[Request] = []
        self._since: dict[int, int] = {}  # step at which a request joined: one token each since then
        self._token: dict[int, float] = {}  # when a request got its newest token before that step
        self._ticks: list[float] = []  # when each step ended: everybody who runs has a token then
        self._ends: dict[int, list[int]] = defaultdict(list)  # who makes the last token at which step
        self._grow: list[dict[int, None]] = [{} for _ in range(block_size)]  # who needs a block at which step mod size
        self._leaving: list[tuple[float, int, Request]] = []
        self._changed = self._last = False
        self._slot: dict[int, int] = {}
        self._newest: dict[int, int] = {}  # the place of each slot's last event
        self._events: list[Event] | None = [] if record else None
        self._apart = record == "steps"

    @property
    def load(self) -> int:
        """Return the requests that are here and not done."""
        return len(self.arriving) + len(self.waiting) + len(self.running)

    def run(self, requests: Iterable[Request]) -> Served:
        """Serve copies of these requests to the end and return what became of them."""
        for request in sorted(requests, key=lambda request: request.arrival):
            self.submit(replace(request))
        self.advance()
        return self.served()

    def submit(self, request: Request) -> None:
        """Take a request, not before those submitted earlier; what cannot be served is refused with a reason."""
        self.seen.append(request)
        room = self.context - request.prompt
        need = blocks_for(request.prompt + min(request.limit, room), self.size)
        if request.prompt < 1:
            self._refuse(request, "the prompt is empty")
        elif request.limit and room < 1:
            words = "tokens, and prompt and answer together may have"
            self._refuse(request, f"the prompt has {request.prompt:,} {words} {self.context:,}")
        elif request.limit and need > self.blocks:
            self._refuse(request, f"it may need {need:,} blocks of {self.size} tokens; the cache has {self.blocks:,}")
        elif not min(request.limit, request.output):
            request.state, request.end = "done", request.arrival
        elif request.cancel <= request.arrival:
            request.state, request.end, request.reason = "cancelled", request.arrival, GONE
        else:
            if request.limit > room:
                request.limit, request.reason = room, f"cut at the context of {self.context:,} tokens"
            request.state = "waiting"
            self.arriving.append(request)
            if request.cancel < math.inf:
                heapq.heappush(self._leaving, (request.cancel, request.id, request))

    def advance(self, until: float = math.inf) -> None:
        """Work until the clock is at `until` or nothing is left to do; an iteration under way is finished."""
        self._last = until == math.inf  # nobody comes after those that are here
        while self.clock < until and self.load:
            self._arrive()
            started = self._admit()
            for request in started:
                self._prefill(request)
            if self.running and not started:
                self._decode()
            elif not started and not self._idle(until):
                return

    def served(self) -> Served:
        """Return what became of the requests so far."""
        found = self._events or []
        return Served(self.seen, self.clock, self.busy, self.slots, found, self.worker.simulated, self.passes)

    # One iteration

    def _arrive(self) -> None:
        while self.arriving and self.arriving[0].arrival <= self.clock:
            self.waiting.append(self.arriving.popleft())
            self._changed = True
        while self._leaving and self._leaving[0][0] <= self.clock:
            request = heapq.heappop(self._leaving)[2]
            if request.state == "running":
                self._leave(request)
            elif request.state == "waiting":
                self.waiting.remove(request)
            if request.state in ("waiting", "running"):
                request.state, request.end, request.reason = "cancelled", request.cancel, GONE
                self._changed = True

    def _admit(self) -> list[Request]:
        if not self.waiting or not self._changed or (not self.running and self._opens() > self.clock):
            return []
        line, running = list(islice(self.waiting, MOST_SHOWN)), list(self.running.values())
        started = self.scheduler(line, running, self.slots, self.blocks, self.size)
        self._changed = bool(started)  # whoever starts one at a time is asked again
        if not started and not self.running:
            first = self.waiting[0]
            raise ValueError(f"the scheduler starts nobody, though nobody runs and request {first.id} waits")
        if len(self.running) + len(started) > self.slots:
            beside = f"{len(started)} beside {len(self.running)} that run"
            raise ValueError(f"the scheduler starts {beside}, and there are {self.slots} slots")
        for request in started:
            if request.state != "waiting":
                raise ValueError(f"the scheduler starts request {request.id}, which is {request.state}")
            if request is self.waiting[0]:
                self.waiting.popleft()
            else:
                self.waiting.remove(request)
            request.state = "running"
        return started

    def _opens(self) -> float:
        """Return when an idle engine starts a batch: when it is full, or its first request has waited `window`."""
        if len(self.waiting) >= self.slots or (self._last and not self.arriving):
            return self.clock
        return self.waiting[0].arrival + self.window

    def _prefill(self, request: Request) -> None:
        tokens = request.prompt + request.made
        table = self.manager.allocate(request.id, tokens)
        if table is None:
            raise ValueError(f"request {request.id} is started, and too few of the {self.blocks:,} blocks are left")
        self.tables[request.id], request.blocks = table, len(table)
        seconds, ended = self.worker.prefill(request, table)
        self._spend(seconds, "prefill", [request])
        self.held += tokens
        self.running[request.id] = request
        request.made += 1
        if math.isnan(request.first):
            request.first = self.clock
        else:  # it was preempted, and gets on only now
            request.gap = max(request.gap, self.clock - self._token[request.id])
        self._since[request.id], self._token[request.id] = self.steps, self.clock
        left = min(request.output, request.limit) - request.made
        if left <= 0 or ended:
            self._finish(request)
            return
        self._ends[self.steps + left].append(request.id)
        self._grow[(self.steps + 1 - tokens) % self.size][request.id] = None

    def _decode(self) -> None:
        for number in list(self._grow[(self.steps + 1) % self.size]):
            while number in self.running:
                table = self.manager.append(number, self.size)
                if table is not None:
                    self.tables[number], self.running[number].blocks = table, len(table)
                    break
                self._preempt(next(reversed(self.running.values())))
        running = self.running.values()
        seconds, ended = self.worker.decode(running, self.held, self.tables)
        self._spend(seconds, "decode", running)
        self.steps += 1
        self._ticks.append(self.clock)
        self.held += len(running)
        for number in (*self._ends.pop(self.steps, ()), *ended):
            request = self.running.get(number)
            if request is not None and (number in ended or self._made(request) >= min(request.output, request.limit)):
                self._finish(request)

    def _idle(self, until: float) -> bool:
        """Jump to what happens next, at most to `until`; return whether anything does."""
        times = [self.arriving[0].arrival] if self.arriving else []
        times += [self._opens()] if self.waiting else []
        times += [self._leaving[0][0]] if self._leaving and self.waiting else []
        self.clock = max(self.clock, min([*times, until]))
        self._changed = True
        return bool(times) and min(times) <= until

    # Coming and going

    def _made(self, request: Request) -> int:
        return request.made + self.steps - self._since[request.id]

    def _leave(self, request: Request) -> None:
        """Take a running request out: count what it made, free its slot and its blocks."""
        number = request.id
        self.held -= request.prompt + self._made(request) - 1
        for group in self._grow:
            group.pop(number, None)
        times = [self._token[number], *self._ticks[self._since[number] : self.steps]]
        request.gap = max([request.gap, *map(operator.sub, times[1:], times)])
        self._token[number] = times[-1]
        request.made, request.blocks = self._made(request), 0
        del self.running[number], self.tables[number], self._since[number]
        self.manager.free(number)
        self._slot.pop(number, None)
        self._changed = True

    def _finish(self, request: Request) -> None:
        self._leave(request)
        request.state, request.end = "done", self.clock

    def _preempt(self, request: Request) -> None:
        self._leave(request)
        request.state = "waiting"
        request.preempted += 1
        self.waiting.appendleft(request)

    def _refuse(self, request: Request, reason: str) -> None:
        request.state, request.end, request.reason = "refused", request.arrival, reason

    def _spend(self, seconds: float, kind: str, requests: Iterable[Request]) -> None:
        start, self.clock = self.clock, self.clock + seconds
        self.busy, self.passes = self.busy + seconds, self.passes + 1
        if self._events is not None:
            for request in requests:
                slot = self._slot.get(request.id)
                if slot is None:
                    slot = min(set(range(self.slots)) - set(self._slot.values()))
                    self._slot[request.id] = slot
                event = Event(slot, kind, start, self.clock, start, label=str(request.id))
                before = self._events[self._newest[slot]] if slot in self._newest and not self._apart else None
                if before is not None and (before.kind, before.end, before.label) == (kind, start, event.label):
                    self._events[self._newest[slot]] = before._replace(end=self.clock)  # the same bar goes on
                else:
                    self._newest[slot] = len(self._events)
                    self._events.append(event)
