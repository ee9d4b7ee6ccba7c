"""Collectives that overlap with computing: gradients summed during backward, and weights gathered ahead."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, Results, each, run, text
from course_lib.costs import collective_seconds
from course_lib.gpt import next_token_loss
from course_lib.lessons.layers import Chain
from course_lib.lessons.running_table import ONE_NODE, Computing, mine_of
from course_lib.lessons.sample_data import integers
from course_lib.training import new_model

SLOW = Cluster(latency=0.25, bandwidth=math.inf)  # an all-reduce on 2 ranks takes half a second, whatever its size
RATE = 0.1
SQUARE = (5, 5, 5, 5, 5)  # the widths of a chain of 4 layers


def step_seconds(
    sizes: Sequence[int], seconds: Sequence[float], cap_bytes: float, ranks: int, latency: float, bandwidth: float
) -> float:
    """Return the seconds from the beginning of backward until the last bucket is summed.

    `sizes[i]` is the bytes of parameter i, `seconds[i]` the time its gradient takes; the last parameter's comes first.
    Buckets hold neighbours up to `cap_bytes` (a larger parameter is alone); their all-reduces run one after the other.
    """
    def all_reduce(size: float) -> float:
        return collective_seconds("all_reduce", ranks, size, latency, bandwidth)

    return max(sum(seconds), bucket_times(sizes, seconds, cap_bytes, all_reduce)[-1][1])


def bucket_times(
    sizes: Sequence[int], seconds: Sequence[float], cap_bytes: float, all_reduce: Callable[[float], float], *,
    until_full: bool = False,
) -> list[tuple[float, float]]:  # fmt: skip
    """Return from when to when each bucket's all-reduce runs, in seconds since backward began.

    As `step_seconds`, with `all_reduce(size)` telling how long that of so many bytes takes. With `until_full` a bucket
    is closed when it holds `cap_bytes` or more, and not before it would hold more: so do torch's DDP (reducer.cpp) and
    Megatron-Core (param_and_grad_buffer.py).
    """
    if len(sizes) != len(seconds):
        raise ValueError(f"{len(sizes)} sizes and {len(seconds)} seconds: give one of each for every parameter")
    now = bucket = 0.0
    ready: list[tuple[float, float]] = []  # of each bucket: when its last gradient is there, and its bytes
    for size, spent in zip(reversed(sizes), reversed(seconds), strict=True):
        if bucket and (bucket >= cap_bytes if until_full else bucket + size > cap_bytes):
            ready.append((now, bucket))
            bucket = 0.0
        now += spent
        bucket += size
    times, free = [], 0.0
    for begin, size in [*ready, (now, bucket)]:
        free = max(begin, free) + all_reduce(size)
        times.append((max(begin, free - all_reduce(size)), free))
    return times


# A simulated step of the tiny GPT, whatever sums the gradients


def traced_step(prepare: Callable, ranks: int = 4, on: Cluster = ONE_NODE) -> Results:
    """Return one simulated step; `prepare(dist, model)` returns what follows backward.

    Of its events, those that compute are told apart: "forward" and "backward" in place of "work".
    """
    trace = run(_step, prepare, ranks=ranks, on=on)
    left, events = list(trace), []
    for event in trace.events:
        kind = event.kind
        if kind == "work":
            kind = "forward" if left[event.rank] > 0 else "backward"
            left[event.rank] -= 1
        events.append(event._replace(kind=kind))
    return Results(list(trace), trace.seconds, events, trace.printed, simulated=True)


def _step(dist: Any, prepare: Callable) -> int:
    """Run one step on this rank's rows; return how many matrix products its forward has."""
    model = new_model()
    finish = prepare(dist, model)
    tokens, targets = (mine_of(dist, whole) for whole in text.batch(0))
    with Computing() as computing:
        loss = next_token_loss(model(tokens), targets)
        forward = computing.products
        loss.backward()
    finish()
    return forward


# A simulated step of a chain of 4 layers, a second of backward between each two


def overlap(answer: Any, *more: Any, ranks: int = 2, steps: int = 1) -> Results:
    """Return simulated steps: backward takes 3 s, one between each two of 4 layers, and an all-reduce 0.5 s."""
    built = {"widths": SQUARE, "seed": 5, "seconds": 1.0}
    x, y = draw_data(8, SQUARE[0], SQUARE[-1])
    data = more, dealt(x, ranks), dealt(y, ranks)
    return run(trained, answer, *data, built, steps, ranks=ranks, on=SLOW, timeout=20)


def trained(
    dist: Any, answer: Any, more: tuple, rows: Any, wanted: Any, built: dict, steps: int, zeroed: bool = False
) -> tuple | str:
    """Return this rank's weights after some steps of gradient descent, and whether hooks come before `.grad`.

    A step begins with gradients of None, as torch's `zero_grad` has it, or with `zeroed` ones.
    """
    model = Chain(**built)
    finish = answer(dist, model, *more)
    if not callable(finish):
        return "no function"
    early = any(parameter._backward_hooks for parameter in model.parameters())  # those of register_hook
    for _ in range(steps):
        model.zero_grad(set_to_none=not zeroed)
        nn.functional.mse_loss(model(rows), wanted).backward()
        finish()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return [parameter.detach() for parameter in model.parameters()], early


def draw_data(rows: int, into: int, out: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = integers(2, (rows, max(into, out)), "float64")
    return x[:, :into] / 8, y[:, :out] / 8


def dealt(whole: torch.Tensor, ranks: int) -> each:
    """Return for each rank its rows, as tensors of their own: a view would show the others' too."""
    return each([rows.clone() for rows in whole.tensor_split(ranks)])
