"""Random numbers of simulated ranks: each rank draws from its own generators, as a process of its own would.

torch has one generator for all threads, so its state is saved and restored as the baton passes. The functions of
`random` and `numpy.random` ask, at each call, for the generator of the rank that has the baton.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from course_lib.simulator.runners import Rank

HEAD = 256  # bytes; a whole generator has 2.5 kB


class RandomNumbers:
    """The generators of all ranks, seeded as `ranks.worker.seed` does. Ranks that drew nothing share one torch state.

    Invariant: whenever the baton passes, `_loaded` is what torch's generator holds. Copying the state at every turn
    would cost as much as the turn itself, so for a rank that has not drawn yet the first bytes of the generator tell
    whether it has now: its count of numbers left and the first words of its state, which no draw from a fresh seed
    leaves alone.
    """

    def __init__(self, ranks: list[Rank], current: Callable[[], Rank]) -> None:
        self.generator = torch.default_generator
        self._fresh = self._loaded = self.generator.get_state()
        self._now = memoryview((ctypes.c_ubyte * HEAD).from_address(self.generator._cdata)).cast("B")
        self._head = self._learn_head()
        for rank in ranks:
            rank.state = self._fresh
            rank.python, rank.legacy = random.Random(rank.index), np.random.RandomState(rank.index)
        self._own: list[tuple[Any, str, Any]] = []
        self._forward(random, random._inst, lambda: current().python)
        self._forward(np.random, np.random.mtrand._rand, lambda: current().legacy)
        for name, method in (("seed", "seed"), ("ranf", "random_sample"), ("sample", "random_sample")):
            self._replace(np.random, name, _ask(lambda: current().legacy, method))  # functions, not methods of _rand

    def _learn_head(self) -> bytes:
        """Return the first bytes of the generator in its fresh state; none if they do not tell draws on this torch."""
        head, tells = bytes(self._now), True
        for draws in (1, 2, 624, 1248):  # a generator refills its state after 624 numbers
            torch.rand(draws, device="cpu")
            tells = tells and self._now != head
            self.generator.set_state(self._fresh)
            tells = tells and self._now == head
        return head if tells else b""

    def _forward(self, module: Any, owner: Any, generator: Callable[[], Any]) -> None:
        for name, value in list(vars(module).items()):
            if getattr(value, "__self__", None) is owner:
                self._replace(module, name, _ask(generator, name))

    def _replace(self, module: Any, name: str, function: Callable) -> None:
        self._own.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def close(self) -> None:
        """Give `random` and `numpy.random` their own functions back."""
        for module, name, function in self._own:
            setattr(module, name, function)

    def save(self, rank: Rank) -> None:
        """Keep what the rank that gives the baton away has made of torch's state."""
        if self._loaded is self._fresh and self._head and self._now.tobytes() == self._head:
            return
        state = self.generator.get_state()
        if not torch.equal(state, self._loaded):
            rank.state = self._loaded = state

    def load(self, rank: Rank) -> None:
        """Restore torch's state for the rank that gets the baton."""
        if rank.state is not self._loaded:
            self.generator.set_state(rank.state)
            self._loaded = rank.state


def _ask(generator: Callable[[], Any], name: str) -> Callable:
    def draw(*args: Any, **kwargs: Any) -> Any:
        return getattr(generator(), name)(*args, **kwargs)

    return draw
