"""The worker with a real model: it makes tokens, keeps their keys and values in blocks, and measures its seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import torch

from course_lib.serving.caches import BlockPool
from course_lib.serving.requests import Request


def now() -> float:
    """Return a clock's seconds: with one thread CPU time, in which other programs on this machine do not count."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


class ModelWorker:
    """Greedy decoding of a Llama over a pool of blocks. `answers[id]` are the tokens made for a request.

    `stop` ends an answer (None: nothing does); `on_token(id, token)` is called as each token comes.
    """

    simulated = False

    def __init__(
        self, model: torch.nn.Module, blocks: int, block_size: int = 16, *, stop: int | None = None,
        on_token: Callable | None = None,
    ) -> None:  # fmt: skip
        self.model, self.pool = model, BlockPool(model.shape, blocks, block_size)
        self.stop, self.on_token, self.answers = stop, on_token, {}

    def prefill(self, request: Request, table: list[int]) -> tuple[float, bool]:
        """Read a prompt (and what was made before a preemption); return seconds, and whether the answer has ended."""
        begin = now()
        answer = self.answers.setdefault(request.id, [])
        logits = self.model(torch.tensor([request.tokens + answer]), self.pool.of([table], [0]), last=True)
        ended = self._made(request.id, int(logits[0, -1].argmax()))
        return now() - begin, ended

    def decode(self, running: Collection[Request], held: int, tables: dict) -> tuple[float, list[int]]:
        """Make one token for every running request; return seconds, and whose answer has ended."""
        begin = now()
        numbers = [request.id for request in running]
        lengths = [len(request.tokens) + len(self.answers[request.id]) - 1 for request in running]
        cache = self.pool.of([tables[number] for number in numbers], lengths)
        logits = self.model(torch.tensor([self.answers[number][-1:] for number in numbers]), cache)
        made = logits[:, -1].argmax(-1).tolist()
        ended = [number for number, token in zip(numbers, made, strict=True) if self._made(number, token)]
        return now() - begin, ended

    def _made(self, number: int, token: int) -> bool:
        if token == self.stop:
            return True
        self.answers[number].append(token)
        if self.on_token:
            self.on_token(number, token)
        return False
