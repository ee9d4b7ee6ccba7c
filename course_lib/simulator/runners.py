"""What the engine moves: ranks, their parts in built-in collectives, and the two sides of each message."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from course_lib.algorithms import Round


class Posting:
    """One side of a point-to-point transfer; `end` is None until the other side has posted too."""

    __slots__ = (
        "kind", "rank", "peer", "tag", "group", "nbytes", "tensor", "time", "end", "waiter", "data", "blocking",
    )  # fmt: skip

    def __init__(self, kind, rank, peer, tag, group, nbytes, tensor, time, blocking=False, data=None) -> None:
        self.kind, self.rank, self.peer, self.tag, self.group = kind, rank, peer, tag, group
        self.nbytes, self.time, self.blocking = nbytes, time, blocking
        self.tensor = tensor
        """The learner's tensor; None in a collective, whose values travel in its Meeting."""
        self.data = data
        """What was in the tensor when it was posted without blocking; for an irecv, later, what has arrived."""
        self.end = self.waiter = None


class Runner:
    """Something with a clock that can wait: a rank, or one rank's part in a built-in collective."""

    def __init__(self, index: int, clock: float = 0.0) -> None:
        self.index, self.clock = index, clock
        self.missing = 0
        """How many of the things it waits for have no end yet."""


class Rank(Runner):
    """A rank: a thread that runs the learner's function while it holds the baton."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.gate = threading.Lock()
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.waits_for: Any = None
        self.finished = False
        self.state: torch.Tensor | None = None
        """The state of torch's generator when this rank last gave the baton away."""
        self.python: random.Random | None = None
        self.legacy: np.random.RandomState | None = None


class Agent(Runner):
    """One rank's part in one built-in collective: posts a round of messages, waits for them, posts the next."""

    def __init__(
        self, index: int, posted: float, name: str, rounds: Iterator[Round], ranks: tuple[int, ...], key: tuple,
        meeting: Any,
    ) -> None:  # fmt: skip
        super().__init__(index, posted)
        self.posted, self.name, self.rounds = posted, name, rounds
        self.ranks, self.key, self.meeting = ranks, key, meeting
        self.queue: tuple = ()
        self.begin: float | None = None
        self.end: float | None = None
        self.waiter: Runner | None = None
