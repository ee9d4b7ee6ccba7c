"""How long a step takes in which gradients are summed in buckets while backward is still computing others."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.costs import collective_seconds


def step_seconds(
    sizes: Sequence[int], seconds: Sequence[float], cap_bytes: float, ranks: int, latency: float, bandwidth: float
) -> float:
    """Return the seconds from the beginning of backward until the last bucket is summed.

    `sizes[i]` is the bytes of parameter i, `seconds[i]` the time its gradient takes to compute, last parameter first.
    Buckets hold neighbours up to `cap_bytes` (a larger parameter is alone); their all-reduces run one after the other.
    """
    if len(sizes) != len(seconds):
        raise ValueError(f"{len(sizes)} sizes and {len(seconds)} seconds: give one of each for every parameter")
    now = free = bucket = 0.0
    for size, spent in zip(reversed(sizes), reversed(seconds), strict=True):
        if bucket and bucket + size > cap_bytes:
            free = max(now, free) + collective_seconds("all_reduce", ranks, bucket, latency, bandwidth)
            bucket = 0.0
        now += spent
        bucket += size
    return max(now, free) + collective_seconds("all_reduce", ranks, bucket, latency, bandwidth)
