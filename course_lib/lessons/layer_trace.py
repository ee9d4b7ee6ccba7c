"""One layer of a real model under tensor parallelism: the seconds of its products and of its all-reduces."""

from __future__ import annotations

from course_lib.costs import collective_seconds
from course_lib.hardware import GPU, Link
from course_lib.models import ModelShape, attention_weights, mlp_weights

REACHED = 0.5  # the share of its peak that a GPU is taken to reach in the matrix products


def layer_seconds(shape: ModelShape, tokens: int, ranks: int, gpu: GPU, link: Link) -> tuple[float, float]:
    """Return the seconds of one layer's matrix products and of its four all-reduces, forward and backward, in bf16.

    2 FLOPs a weight and token forward, 4 backward, at half of the GPU's peak; attention's scores are left out. The
    all-reduces are rings over `link`, and nothing overlaps.
    """
    weights = attention_weights(shape) + mlp_weights(shape)
    compute = 6 * weights * tokens / ranks / (REACHED * gpu.peak("bf16"))
    size = 2 * tokens * shape.hidden
    return compute, 4 * collective_seconds("all_reduce", ranks, size, link.latency, link.bandwidth)
