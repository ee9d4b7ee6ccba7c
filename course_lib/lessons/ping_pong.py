"""Ping-pong: how long a real message between two ranks takes, measured there and back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import Any

import torch


def ping_pong(dist: Any, sizes: Iterable[int], times: int = 20) -> dict[int, float]:
    """Return, for messages of each size in bytes, half of the median seconds that two ranks need there and back."""
    rank, typical = dist.get_rank(), {}
    for size in sizes:
        tensor, seconds = torch.ones(size // 4), []
        for _ in range(times):
            begin = time.perf_counter()
            for sender in (0, 1):
                if rank == sender:
                    dist.send(tensor, 1 - rank)
                else:
                    dist.recv(tensor, 1 - rank)
            seconds.append((time.perf_counter() - begin) / 2)
        typical[size] = statistics.median(seconds)
    return typical
