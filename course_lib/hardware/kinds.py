"""What a link, a protocol, a GPU and a node are: the sizes that their rows state, and the units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")


@dataclass(frozen=True)
class Protocol:
    """One way in which a library sends over a link: `start` seconds once a call, `latency` seconds at every step.

    `bandwidth` is in bytes/s and direction. An impossible figure is a ValueError.
    """

    name: str
    latency: float
    bandwidth: float
    start: float = 0.0

    def __post_init__(self) -> None:
        for field in ("latency", "start"):
            value = getattr(self, field)
            if not (isinstance(value, Real) and 0 <= value < math.inf):
                raise ValueError(f"protocol {self.name}: {field} = {value!r}: must be seconds, 0 or more")
        if not (isinstance(self.bandwidth, Real) and self.bandwidth > 0):
            raise ValueError(f"protocol {self.name}: bandwidth = {self.bandwidth!r}: must be bytes/s, more than 0")


@dataclass(frozen=True)
class Link:
    """A connection between GPUs or between nodes: `bandwidth` in bytes/s per direction, `latency` in seconds.

    `protocols` are the ways in which NCCL sends over it in a ring; empty where we know of no such figures.
    """

    name: str
    bandwidth: float
    latency: float
    source: str
    protocols: tuple[Protocol, ...] = ()

    def protocol(self, name: str) -> Protocol:
        """Return the protocol of that name; ValueError where this link has none."""
        for protocol in self.protocols:
            if protocol.name == name:
                return protocol
        known = ", ".join(repr(protocol.name) for protocol in self.protocols) or "none"
        raise ValueError(f"protocol = {name!r}: {self.name} has {known}")


@dataclass(frozen=True)
class GPU:
    """One accelerator: memory in bytes and bytes/s, its link, dense peaks in FLOP/s (None: it has no such unit)."""

    name: str
    memory: float
    memory_bandwidth: float
    link: Link
    source: str
    fp32: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None

    def peak(self, dtype: str = "bf16") -> float:
        """Return the dense peak in FLOP/s for `dtype`; ValueError where this GPU has none."""
        peak = getattr(self, dtype) if dtype in DTYPES else None
        if peak is None:
            raise ValueError(f"dtype = {dtype!r}: {self.name} computes in {', '.join(self.dtypes)}")
        return peak

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the names of the dtypes this GPU has a peak for."""
        return tuple(dtype for dtype in DTYPES if getattr(self, dtype))


@dataclass(frozen=True)
class Node:
    """One machine or rack: `gpus` GPUs joined by their own link, and `nics` ports of kind `nic` to the other nodes."""

    name: str
    gpu: GPU
    gpus: int
    nic: Link
    nics: int
    source: str

    @property
    def bandwidth_per_gpu(self) -> float:
        """Return the bytes/s that each GPU may send out of the node when all of them send."""
        return self.nic.bandwidth * self.nics / self.gpus
