"""How long rings take on a link with protocols, which of them is the fastest, and the one-shot all-reduce of inference.

NCCL's model (src/graph/tuning.cc, ncclTopoGetAlgoTime): for each protocol start + steps x latency + bytes / bandwidth,
and the smallest wins. The same ring as `collective_seconds`, on three lines instead of one.
"""

from __future__ import annotations

from course_lib.costs.collectives import collective_seconds
from course_lib.hardware import Link, Protocol
from course_lib.models import check_choice

RINGS = ("all_reduce", "all_gather", "reduce_scatter")


def protocol_seconds(kind: str, ranks: int, size: float, link: Link, protocol: str | None = None) -> float:
    """Return the seconds of a ring over `link` by the protocol of that name; by the fastest unless one is named.

    `kind` is one of RINGS, `size` in bytes as in `collective_seconds`. One rank takes 0. Raises ValueError for a link
    that has no such protocol, and for what `collective_seconds` refuses.
    """
    if protocol is None:
        return min(_seconds(kind, ranks, size, one) for one in _protocols(link))
    return _seconds(kind, ranks, size, link.protocol(protocol))


def fastest_protocol(kind: str, ranks: int, size: float, link: Link) -> Protocol:
    """Return the protocol of `link` by which a ring is the fastest; the one of lower latency among equals."""
    return min(_protocols(link), key=lambda one: (_seconds(kind, ranks, size, one), one.latency))


def protocol_changes(kind: str, ranks: int, link: Link) -> list[tuple[float, Protocol]]:
    """Return the lower envelope: (bytes, protocol), from which size on each is the fastest; the first from 0 on."""
    found, size = [(0.0, fastest_protocol(kind, ranks, 0, link))], 0.0
    while True:
        now = found[-1][1]
        meets = [(_meeting(kind, ranks, now, one), one) for one in _protocols(link) if one.bandwidth > now.bandwidth]
        later = [(place, -one.bandwidth, one) for place, one in meets if place >= size]
        if ranks == 1 or not later:
            return found
        size, _, protocol = min(later, key=lambda entry: entry[:2])
        found.append((size, protocol))


def one_shot_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    """Return the seconds of an all-reduce in which each rank reads the tensors of all others and adds: one latency.

    latency + (P-1) S/B, 0 for one rank: one step and many bytes, for the tiny tensors of inference. vLLM takes it up
    to 512 KiB on 4 GPUs and 256 KiB on 8.
    """
    return collective_seconds("all_gather", ranks, ranks * size, 0, bandwidth) + latency * (ranks > 1)


def _protocols(link: Link) -> tuple[Protocol, ...]:
    if not link.protocols:
        raise ValueError(f"link = {link.name!r}: no protocols are known for it; use collective_seconds")
    return link.protocols


def _seconds(kind: str, ranks: int, size: float, protocol: Protocol) -> float:
    check_choice("kind", kind, RINGS)
    ring = collective_seconds(kind, ranks, size, protocol.latency, protocol.bandwidth)
    return ring + protocol.start * (ranks > 1)


def _meeting(kind: str, ranks: int, slow: Protocol, fast: Protocol) -> float:
    """Return the size at which two protocols take equally long."""
    late = _seconds(kind, ranks, 0, fast) - _seconds(kind, ranks, 0, slow)
    share = collective_seconds(kind, ranks, 1, 0, 1)  # of a tensor's bytes, how many follow one another
    return late / share / (1 / slow.bandwidth - 1 / fast.bandwidth) if share else float("inf")
