"""The event: one thing one rank did, and what it moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Event(NamedTuple):
    """One thing one rank did. Times are seconds since the run began: measured, or virtual on a simulated cluster."""

    rank: int
    kind: str
    """"send", "recv", "work", or the name of a built-in collective."""
    start: float
    end: float
    posted: float
    """When the rank asked for it: between `posted` and `start` it waited for the other side or for a busy link."""
    sent: int = 0
    """Bytes this rank sent: measured for "send", charged by the documented algorithm for a built-in collective."""
    received: int = 0
    messages: int = 0
    """Messages this rank sent."""
    peer: int | None = None
    charged: bool = False
    """True where `sent`, `received` and `messages` follow from the algorithm and were not counted on the way."""
    label: str = ""


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def describe(tensor: torch.Tensor) -> str:
    """Return a tensor's dtype and shape as people write them: float32[4, 2]."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
