"""Random numbers of simulated ranks: each rank draws from its own generators, as a process of its own would.

torch has one CPU generator for all threads, so its state is copied out and in whenever the turn passes to another rank,
1 µs of the 20 that a turn takes. Why not copy only when a rank has drawn? Comparing two states with torch.equal costs
four times as much as copying one out and one in, and peeking at the generator's memory through ctypes was no faster.
`random` and `numpy.random` need no copies: their functions look up the generator of the rank at work.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from course_lib.engine.simulated.turns import Rank


class RandomNumbers:
    """The generators of all ranks, seeded as `engine.seeds.seed` does."""

    def __init__(self, ranks: list[Rank], current: Callable[[], Rank]) -> None:
        self.generator = torch.default_generator
        fresh = self.generator.get_state()
        for rank in ranks:
            rank.state = fresh
            rank.python, rank.legacy = random.Random(rank.index), np.random.RandomState(rank.index)
        self._own: list[tuple[Any, str, Any]] = []
        self._forward(random, random._inst, lambda: current().python)
        self._forward(np.random, np.random.mtrand._rand, lambda: current().legacy)
        for name, method in (("seed", "seed"), ("ranf", "random_sample"), ("sample", "random_sample")):
            self._replace(np.random, name, _ask(lambda: current().legacy, method))  # functions, not methods of _rand

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
        """Keep torch's state for the rank whose turn ends."""
        rank.state = self.generator.get_state()

    def load(self, rank: Rank) -> None:
        """Restore torch's state for the rank whose turn begins."""
        self.generator.set_state(rank.state)


def _ask(generator: Callable[[], Any], name: str) -> Callable:
    def draw(*args: Any, **kwargs: Any) -> Any:
        return getattr(generator(), name)(*args, **kwargs)

    return draw
