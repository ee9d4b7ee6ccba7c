"""Measures the real model on this machine: seconds of prefill and decode, bytes per second, whole traces served."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from course_lib.serving.caches import BlockManager, KVCache
from course_lib.serving.chunked import PaddedEngine, RowEngine, fill_row
from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request
from course_lib.serving.workers import ModelWorker, PaddedModel, RowModel, now


def prefill_seconds(model: torch.nn.Module, tokens: int, repeat: int = 3) -> float:
    """Return the seconds to read a prompt of random tokens, the median of `repeat` tries."""
    return _medians([_prefill(model, tokens)], repeat)[0]


def decode_seconds(model: torch.nn.Module, batch: int, held: int, repeat: int = 3) -> float:
    """Return the seconds of one token for each of `batch` sequences that together hold `held` tokens."""
    return _medians([_decode(model, batch, held)], repeat)[0]


def iteration_seconds(
    model: torch.nn.Module, prefill: Sequence[int], decode: Sequence[int], context: int, repeat: int = 5
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the seconds of reading a prompt, by its tokens, and of a decoding step, by its batch of such contexts.

    All are measured in turns, so that a change of the machine's speed meets each of them.
    """
    works = [_prefill(model, tokens) for tokens in prefill]
    works += [_decode(model, batch, batch * context) for batch in decode]
    found = _medians(works, repeat)
    return dict(zip(prefill, found, strict=False)), dict(zip(decode, found[len(prefill) :], strict=True))


def read_bandwidth(bytes_read: int = 256_000_000, repeat: int = 3) -> float:
    """Return the bytes per second at which torch, with the threads it has, reads more than the caches hold."""
    numbers = torch.ones(bytes_read // 4)
    return bytes_read / _medians([numbers.sum], repeat)[0]


def serve_for_real(
    model: torch.nn.Module, requests: Sequence[Request], scheduler: Callable, manager: Callable = BlockManager, *,
    slots: int = 8, blocks: int = 32, block_size: int = 16,
) -> tuple[Served, dict[int, list[int]]]:  # fmt: skip
    """Serve requests with a real model under a progress bar; return what became of them, and each one's tokens."""
    (found,) = serve_in_turns(
        model, requests, {"": scheduler}, manager, slots=slots, blocks=blocks, block_size=block_size
    ).values()
    return found


def serve_in_turns(
    model: torch.nn.Module, requests: Sequence[Request], schedulers: Mapping[str, Callable],
    manager: Callable = BlockManager, *, slots: int = 8, blocks: int = 32, block_size: int = 16, budget: int = 0,
    fill: Callable = fill_row,
) -> dict[str, tuple[Served, dict[int, list[int]]]]:  # fmt: skip
    """Serve the same requests with each scheduler, as `serve_for_real` does with one; return the results by name.

    `PaddedEngine` in a scheduler's place serves padded static batches, and needs no blocks.
    With a `budget` one more server, "in chunks", sends rows of at most so many tokens, filled by `fill`,
    through the model.

    The engines take turns, an iteration each time of the one that has made the fewest tokens: where the machine's speed
    changes, it changes for all of them, and their ratio stays.
    """
    from tqdm.auto import tqdm

    runs = len(schedulers) + bool(budget)
    with tqdm(total=runs * sum(request.output for request in requests), unit="token") as bar:
        engines: dict[str, Engine | RowEngine] = {}
        for name, scheduler in schedulers.items():
            if scheduler is PaddedEngine:
                worker = PaddedModel(model, on_token=lambda request, token: bar.update())
                engines[name] = PaddedEngine(worker, requests, slots, record=True)
                continue
            worker = ModelWorker(model, blocks, block_size, on_token=lambda request, token: bar.update())
            engines[name] = Engine(
                worker, scheduler, slots=slots, blocks=blocks, block_size=block_size, context=model.context,
                manager=manager, record=True,
            )  # fmt: skip
            for request in sorted(requests, key=lambda request: request.arrival):
                engines[name].submit(replace(request))
        if budget:
            worker = RowModel(model, on_token=lambda request, token: bar.update())
            engines["in chunks"] = RowEngine(worker, requests, budget, slots, record=True, fill=fill)
        while unfinished := [engine for engine in engines.values() if engine.load]:
            engine = min(unfinished, key=lambda engine: sum(map(len, engine.worker.answers.values())))
            if isinstance(engine, RowEngine):
                engine.step()
            else:
                engine.advance(math.nextafter(engine.clock, math.inf))
    return {name: (engine.served(), engine.worker.answers) for name, engine in engines.items()}


def _random(model: torch.nn.Module, batch: int, tokens: int) -> torch.Tensor:
    return torch.randint(model.shape.vocabulary, (batch, tokens), generator=torch.Generator().manual_seed(0))


def _prefill(model: torch.nn.Module, tokens: int) -> Callable:
    return lambda: model(_random(model, 1, tokens), KVCache(), last=True)


def _decode(model: torch.nn.Module, batch: int, held: int) -> Callable:
    cache = KVCache()
    model(_random(model, batch, held // batch), cache, last=True)
    return lambda: model(_random(model, batch, 1), cache)


def _medians(works: Sequence[Callable], repeat: int) -> list[float]:
    found: list[list[float]] = [[] for _ in works]
    for _ in range(repeat):
        for work, seconds in zip(works, found, strict=True):
            begin = now()
            work()
            seconds.append(now() - begin)
    return [statistics.median(seconds) for seconds in found]
