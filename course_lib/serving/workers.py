"""Who does an iteration, and how many seconds it takes: a cost model, a machine that was measured, or a real model."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Collection
from typing import Any

import torch

from course_lib.costs import collective_seconds, one_shot_seconds, protocol_seconds, roofline_seconds
from course_lib.hardware import GPU
from course_lib.memory import kv_cache_bytes, parameters_on_rank
from course_lib.models import ModelShape
from course_lib.serving.caches import BlockPool, RowCache
from course_lib.serving.requests import Request

ONE_SHOT_LATENCY, ONE_SHOT_SHARE = 4.6e-6, 0.655  # fitted to H100s: course_lib.measured.all_reduce_h100("one-shot", 8)
ONE_SHOT_BYTES = {2: 2**23, 4: 2**19, 8: 2**18}  # vLLM's limits; it offers 6 GPUs as well


class Roofline:
    """The least seconds of a step on `tp` GPUs: matrix products, then attention, each as long as its bytes or FLOPs.

    `tp` > 1 adds two all-reduces per layer over the GPUs' link: rings by the fastest of NCCL's protocols, or by the
    link's one latency where it has none or its latency is not that of Simple (somebody has set another).
    `one_shot=True`: as vLLM does for small tensors, everybody reads everybody's. No kernel reaches the roofline; ratios
    survive. Of a model with windows all tokens count as if every layer kept them.
    """

    simulated = True

    def __init__(
        self, shape: ModelShape, gpu: GPU, tp: int = 1, dtype_bytes: float = 2, one_shot: bool = False
    ) -> None:
        self.shape, self.gpu, self.tp, self.dtype_bytes, self.one_shot = shape, gpu, tp, dtype_bytes, one_shot
        held = parameters_on_rank(shape, tp=tp)
        lookup = 0 if shape.tied else shape.vocabulary * shape.hidden / tp  # the embedding: one row a token is read
        self.weight_bytes = held["shared"] * dtype_bytes
        self.read_bytes = self.weight_bytes - lookup * dtype_bytes
        self.token_bytes = kv_cache_bytes(shape, 1, dtype_bytes, tp)
        self.token_flops = 2 * self.read_bytes / dtype_bytes
        self.logit_flops = 2 * shape.vocabulary * shape.hidden / tp  # of those: only a token with a successor to choose
        self.score_flops = 2 * shape.layers * shape.heads * (shape.head_size + shape.value_size) / tp  # a pair

    def blocks(self, size: int = 16, share: float = 0.9) -> int:
        """Return the KV blocks that fit beside the weights in `share` of a GPU's memory. ValueError where none does."""
        room = share * self.gpu.memory - self.weight_bytes
        if room < size * self.token_bytes:
            raise ValueError(f"{self.shape.name} on {self.tp} x {self.gpu.name}: no room for keys and values")
        return int(room // (size * self.token_bytes))

    def seconds(self, new: int, pairs: int, kept: int, scored: int | None = None) -> float:
        """Return the seconds for `new` tokens that look at `pairs` pairs of tokens and read `kept` tokens of cache.

        `scored` of the new tokens, all unless given, need logits: of a prompt only the last one does.
        """
        unscored = 0 if scored is None else new - scored
        products = roofline_seconds(new * self.token_flops - unscored * self.logit_flops, self.read_bytes, self.gpu)
        attention = roofline_seconds(pairs * self.score_flops, (kept + new) * self.token_bytes, self.gpu)
        step = products + attention  # one kernel after the other: products of prompts don't hide reading of the cache
        if self.tp > 1:
            step += 2 * self.shape.layers * self.all_reduce_seconds(new * self.shape.hidden * self.dtype_bytes)
        return step

    def token_seconds(self, users: int, context: int, guesses: int = 0) -> float:
        """Return the seconds of a decoding step: a token for each of `users`, who hold `context` tokens each.

        With `guesses` it also checks so many guessed tokens of each user.
        """
        new = users * (1 + guesses)
        return self.seconds(new, new * context, users * context)

    def prompt_seconds(self, tokens: int, cached: int = 0) -> float:
        """Return the seconds to read a prompt of `tokens`, which stands behind `cached` tokens that are kept."""
        return self.seconds(tokens, tokens * cached + tokens * (tokens + 1) // 2, cached, 1)

    def all_reduce_seconds(self, size: float) -> float:
        """Return the seconds of one all-reduce of `size` bytes among the `tp` GPUs."""
        link = self.gpu.link
        if link.protocols and link.latency == link.protocol("Simple").latency:
            ring = protocol_seconds("all_reduce", self.tp, size, link)
        else:
            ring = collective_seconds("all_reduce", self.tp, size, link.latency, link.bandwidth)
        if not self.one_shot or size > ONE_SHOT_BYTES.get(self.tp, 0):
            return ring
        return min(ring, one_shot_seconds(self.tp, size, ONE_SHOT_LATENCY, ONE_SHOT_SHARE * link.bandwidth))

    def prefill(self, request: Request, table: list[int]) -> tuple[float, bool]:
        """Return the seconds to read a prompt (what was made before a preemption included), and False: it goes on."""
        tokens = request.prompt + request.made
        return self.seconds(tokens, tokens * (tokens + 1) // 2, 0, 1), False

    def decode(self, running: Collection[Request], held: int, tables: Any) -> tuple[float, tuple]:
        """Return the seconds of one token for every running request, which hold `held` tokens; nobody ends early."""
        return self.seconds(len(running), held, held), ()

    def row(self, parts: Collection[tuple[Request, int, int]]) -> float:
        """Return the seconds of one row of (request, its new tokens, its tokens in the cache)."""
        new, kept = sum(more for _, more, _ in parts), sum(held for _, _, held in parts)
        pairs = sum(more * held + more * (more + 1) // 2 for _, more, held in parts)
        scored = sum(held + more >= request.prompt for request, more, held in parts)
        return self.seconds(new, pairs, kept, scored)


class Fitted:
    """Seconds between measured ones: prefill by tokens, decode by the size of the batch. For contexts of one length."""

    simulated = True

    def __init__(self, prefill: dict[int, float], decode: dict[int, float]) -> None:
        """`prefill[tokens]` and `decode[batch]` are measured seconds; beyond the last two of them a line goes on."""
        self.measured = {"prefill": sorted(prefill.items()), "decode": sorted(decode.items())}

    def seconds(self, kind: str, size: int) -> float:
        """Return the seconds on the line through the two measured points around `size`."""
        points = self.measured[kind]
        if len(points) == 1:
            return points[0][1]
        place = min(max(bisect.bisect([x for x, _ in points], size), 1), len(points) - 1)
        (left, low), (right, high) = points[place - 1], points[place]
        return max(low + (high - low) * (size - left) / (right - left), 0.0)

    def prefill(self, request: Request, table: list[int]) -> tuple[float, bool]:
        return self.seconds("prefill", request.prompt + request.made), False

    def decode(self, running: Collection[Request], held: int, tables: Any) -> tuple[float, tuple]:
        return self.seconds("decode", len(running)), ()


# The real one: it makes tokens, keeps their keys and values in blocks, and measures its seconds


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


class RowModel:
    """Greedy decoding of a Llama, all tokens of a step in one row. `answers[id]` are the tokens made for a request."""

    simulated = False

    def __init__(self, model: torch.nn.Module, on_token: Callable | None = None) -> None:
        self.model, self.cache, self.on_token, self.answers = model, RowCache(), on_token, {}

    def row(self, parts: Collection[tuple[Request, int, int]]) -> float:
        """Send (request, its new tokens, its tokens in the cache) through the model as one row; return seconds."""
        begin = now()
        tokens, owners, last = [], [], {}
        for request, more, held in parts:
            known = request.tokens + self.answers.setdefault(request.id, [])
            tokens += known[held : held + more]
            owners += [request.id] * more
            if held + more == len(known):
                last[request.id] = len(tokens) - 1
        nobody = self.padding(parts)
        tokens, owners = tokens + [0] * len(nobody), owners + nobody
        scores = self.model(torch.tensor([tokens]), self.cache.of(owners))[0]
        for number, place in last.items():
            self.answers[number].append(int(scores[place].argmax()))
            if self.on_token:
                self.on_token(number, self.answers[number][-1])
        return now() - begin

    def padding(self, parts: Collection[tuple[Request, int, int]]) -> list[int]:
        """Return an owner, who is no request, for each place of the row that is computed for nobody: here none."""
        return []


class PaddedModel(RowModel):
    """The same in rectangles: a line for each request that began together, until all are done; the rest is padding."""

    def __init__(self, model: torch.nn.Module, on_token: Callable | None = None) -> None:
        super().__init__(model, on_token)
        self.lines = self.padded = 0

    def padding(self, parts: Collection[tuple[Request, int, int]]) -> list[int]:
        """Return the owners of what fills the rectangle up, which is as wide as its widest line."""
        if not any(held for _, _, held in parts):
            self.lines = len(parts)  # a new batch begins
        more = [new for _, new, _ in parts]
        places = self.lines * max(more) - sum(more)
        self.padded += places
        return list(range(-self.padded, places - self.padded))  # each its own: it sees nobody, and nobody sees it
