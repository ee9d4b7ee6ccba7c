"""Measures the real model on this machine: seconds of prefill and decode, bytes per second, a whole trace served."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

from course_lib.serving.blocks import BlockManager
from course_lib.serving.caches import KVCache
from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served
from course_lib.serving.real import ModelWorker, now
from course_lib.serving.requests import Request


def prefill_seconds(model: torch.nn.Module, tokens: int, repeat: int = 3) -> float:
    """Return the seconds to read a prompt of random tokens, the median of `repeat` tries."""
    return _median(lambda: model(_random(model, 1, tokens), KVCache(), last=True), repeat)


def decode_seconds(model: torch.nn.Module, batch: int, held: int, repeat: int = 3) -> float:
    """Return the seconds of one token for each of `batch` sequences that together hold `held` tokens."""
    cache = KVCache()
    model(_random(model, batch, held // batch), cache, last=True)
    return _median(lambda: model(_random(model, batch, 1), cache), repeat)


def read_bandwidth(bytes_read: int = 256_000_000, repeat: int = 3) -> float:
    """Return the bytes per second at which torch, with the threads it has, reads more than the caches hold."""
    numbers = torch.ones(bytes_read // 4)
    return bytes_read / _median(numbers.sum, repeat)


def serve_for_real(
    model: torch.nn.Module, requests: Sequence[Request], scheduler: Callable, manager: Callable = BlockManager, *,
    slots: int = 8, blocks: int = 32, block_size: int = 16,
) -> tuple[Served, dict[int, list[int]]]:  # fmt: skip
    """Serve requests with a real model under a progress bar; return what became of them, and each one's tokens."""
    from tqdm.auto import tqdm

    with tqdm(total=sum(request.output for request in requests), unit="token") as bar:
        worker = ModelWorker(model, blocks, block_size, on_token=lambda request, token: bar.update())
        engine = Engine(
            worker, scheduler, slots=slots, blocks=blocks, block_size=block_size, context=model.context,
            manager=manager, record=True,
        )  # fmt: skip
        return engine.run(requests), worker.answers


def _random(model: torch.nn.Module, batch: int, tokens: int) -> torch.Tensor:
    return torch.randint(model.shape.vocabulary, (batch, tokens), generator=torch.Generator().manual_seed(0))


def _median(work: Callable, repeat: int) -> float:
    found = []
    for _ in range(repeat):
        begin = now()
        work()
        found.append(now() - begin)
    return statistics.median(found)
