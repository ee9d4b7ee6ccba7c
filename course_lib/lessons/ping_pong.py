"""Ping-pong: how long a real message between two ranks takes, measured there and back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import torch

WARM, TIMED = 2, 5  # exchanges in a turn: the first open the connection, wake both processes, and touch the memory


def ping_pong(dist: Any, sizes: Iterable[int], times: int = 20) -> dict[int, float]:
    """Return, for messages of each size in bytes, half of the least seconds that two ranks need there and back.

    The least, because whatever else the machine does can only make a message slower. The sizes take turns, so that a
    machine that is busy for a while disturbs all of them alike, and the first exchanges of a turn are not timed.
    """
    tensors = {size: torch.ones(size // 4) for size in sizes}
    least = dict.fromkeys(tensors, float("inf"))
    for _ in range(times):
        for size, tensor in tensors.items():
            for _ in range(WARM):
                _there_and_back(dist, tensor)
            for _ in range(TIMED):
                begin = time.perf_counter()
                _there_and_back(dist, tensor)
                least[size] = min(least[size], (time.perf_counter() - begin) / 2)
    return least


def _there_and_back(dist: Any, tensor: torch.Tensor) -> None:
    rank = dist.get_rank()
    for sender in (0, 1):
        if rank == sender:
            dist.send(tensor, 1 - rank)
        else:
            dist.recv(tensor, 1 - rank)
