"""Who takes turns: ranks, and their parts in built-in collectives."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from course_lib.algorithms import Round


class Runner:
    """Something with a clock that can wait: a rank, or one rank's part in a built-in collective."""

    def __init__(self, index: int, clock: float = 0.0) -> None:
        self.index, self.clock = index, clock
        self.missing = 0
        """How many of the things it waits for have no end yet."""
        self.entry = 0
        """The number of its one entry in the engine's `ready` that counts."""


class Rank(Runner):
    """A rank: a thread that runs the learner's function while it holds the baton."""

    def __init__(self, index: int, engine: Any) -> None:
        super().__init__(index)
        self.engine = engine
        self.open_handles: dict[Any, None] = {}
        """The operations it has begun and not waited for, in order."""
        self.asked: set[Any] = set()
        """What it has asked about, and was told that it has not ended, since it last did anything else."""
        self.vain = 0
        """How often since then it was told so because nobody could run."""
        self.noes, self.noes_at = 0, 0.0
        """How often it was told so at the time `noes_at`."""
        self.alarm = 0.0
        """While it asks: when the first of its operations ends, as far as that is known."""
        self.gate = threading.Lock()
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.waits_for: Any = None
        self.finished = False
        self.state: torch.Tensor | None = None
        """The state of torch's generator when this rank last gave the baton away."""
        self.python: random.Random | None = None
        self.legacy: np.random.RandomState | None = None

    def acts(self) -> None:
        """Note that it does something else than ask."""
        self.asked.clear()
        self.vain = 0


class Agent(Runner):
    """One rank's part in one built-in collective: posts a round of messages, waits for them, posts the next."""

    def __init__(
        self, index: int, posted: float, name: str, rounds: Iterator[Round], ranks: tuple[int, ...], meeting: Any,
    ) -> None:  # fmt: skip
        super().__init__(index, posted)
        self.posted, self.name, self.rounds = posted, name, rounds
        self.ranks, self.meeting = ranks, meeting
        self.queue: tuple = ()
        self.begin: float | None = None
        self.end: float | None = None
        self.waiter: Runner | None = None
