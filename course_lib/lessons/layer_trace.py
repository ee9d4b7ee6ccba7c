"""One layer of a real model under tensor parallelism: the seconds of its products and all-reduces, and its trace."""

from __future__ import annotations

from typing import Any

import torch

from course_lib import Cluster, Results, run, work
from course_lib.costs import collective_seconds
from course_lib.hardware import GPU, Link
from course_lib.models import ModelShape, attention_weights, mlp_weights

REACHED = 0.5  # the share of its peak that a GPU is taken to reach in the matrix products
SMALLER = 1000  # the trace sends so many times fewer bytes over links that are as many times slower


def layer_seconds(shape: ModelShape, tokens: int, ranks: int, gpu: GPU, link: Link) -> tuple[float, float]:
    """Return the seconds of one layer's matrix products and of its four all-reduces, forward and backward, in bf16.

    2 FLOPs a weight and token forward, 4 backward, at half of the GPU's peak; attention's scores are left out. The
    all-reduces are rings over `link`, and nothing overlaps.
    """
    weights = attention_weights(shape) + mlp_weights(shape)
    compute = 6 * weights * tokens / ranks / (REACHED * gpu.peak("bf16"))
    size = 2 * tokens * shape.hidden
    return compute, 4 * collective_seconds("all_reduce", ranks, size, link.latency, link.bandwidth)


def layer_trace(shape: ModelShape, tokens: int, ranks: int, gpu: GPU, link: Link) -> Results:
    """Return a simulated layer, forward and backward, of which every second is that of `layer_seconds`.

    The all-reduces are labelled with what they are: g in forward, f in backward.
    """
    parts = {"attention": attention_weights(shape), "MLP": mlp_weights(shape)}
    forward = [2 * weights * tokens / ranks / (REACHED * gpu.peak("bf16")) for weights in parts.values()]
    backward = [2 * seconds for seconds in reversed(forward)]
    wire = Cluster(bandwidth=link.bandwidth / SMALLER, latency=link.latency)
    trace = run(_layer, [*forward, *backward], tokens * shape.hidden // SMALLER, ranks=ranks, on=wire)
    names = [("forward", "att"), ("forward", "MLP"), ("backward", "MLP"), ("backward", "att")]
    events = []
    for rank in range(ranks):
        steps, ends = iter(names), iter("ggff")
        for event in trace.of(rank):
            kind, label = next(steps) if event.kind == "work" else (event.kind, next(ends))
            events.append(event._replace(kind=kind, label=label))
    return Results(list(trace), trace.seconds, events, list(trace.printed), simulated=True)


def _layer(dist: Any, seconds: list[float], numbers: int) -> None:
    message = torch.zeros(numbers, dtype=torch.bfloat16)
    for part in seconds:
        work(part)
        dist.all_reduce(message)
