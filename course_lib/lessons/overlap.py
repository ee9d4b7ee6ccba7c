"""How long a step takes in which collectives overlap with computing: gradients summed in buckets, weights gathered."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.costs import collective_seconds


def step_seconds(
    sizes: Sequence[int], seconds: Sequence[float], cap_bytes: float, ranks: int, latency: float, bandwidth: float
) -> float:
    """Return the seconds from the beginning of backward until the last bucket is summed.

    `sizes[i]` is the bytes of parameter i, `seconds[i]` the time its gradient takes; the last parameter's comes first.
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


def forward_seconds(layers: int, gather: float, compute: float, prefetch: bool) -> float:
    """Return the seconds of a forward that gathers each layer's weights before it computes the layer.

    `gather` and `compute` are the seconds of one layer. With `prefetch` the next layer's weights are on their way while
    this one computes: then only the first gathering is waited for, as long as gathering is the shorter.
    """
    if layers < 1:
        raise ValueError(f"layers = {layers!r}: must be at least 1")
    if not prefetch:
        return layers * (gather + compute)
    return gather + (layers - 1) * max(gather, compute) + compute
