"""Process groups of simulated ranks, and Meeting: the shared state of one collective call of a group.

Calls are matched by count, as in torch: the n-th call of every member is the same collective. Why not by name and
shape? Then two ranks that call different collectives would each wait for ever. So the calls are matched first and
compared then, and a difference is an error that names both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib.engine.simulated.messages import Channel

ReduceOp = torch_dist.ReduceOp


class Group:
    """A process group as one rank sees it. Number 0 is the world."""

    __slots__ = ("ranks", "number", "me", "places")

    def __init__(self, ranks: tuple[int, ...], number: int, me: int, places: dict[int, int]) -> None:
        self.ranks, self.number, self.me = ranks, number, me
        self.places = places
        """Each member's place; all members of a group share this one dictionary."""

    def rank(self) -> int:
        """Return this rank's place in the group, or -1 outside it."""
        return self.places.get(self.me, -1)

    def size(self) -> int:
        return len(self.ranks)

    def place_of(self, rank: int) -> int:
        if rank not in self.places:
            raise ValueError(f"rank {rank} is not in this group; its ranks are {self.text()}")
        return self.places[rank]

    def text(self) -> str:
        """Return the ranks for a sentence: "0 to 7", "1, 3"."""
        if self.number == 0:
            return f"0 to {len(self.ranks) - 1}"
        return ", ".join(map(str, self.ranks))


@dataclass
class Arrival:
    """A rank waiting in new_group for the others."""

    name: str
    meeting: Meeting
    end: float | None = None
    waiter: Any = None
    kind = "arrival"


@dataclass
class Meeting:
    """The n-th collective of a group: the inputs of the ranks that have called it."""

    group: Group
    number: int
    signatures: dict[int, str] = field(default_factory=dict)
    inputs: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    channels: dict[tuple[int, int], Channel] = field(default_factory=dict)
    """Channels of its messages, by source and destination."""
    at_switch: list[tuple] = field(default_factory=list)
    """Who has brought a tensor to a switch that adds: its agent, the bytes up and the bytes down."""
    created: Any = None
    """For new_group: members, number and places of the new group."""
    left: int = 0
    """Number of members that have their results."""
    _reduced: list[torch.Tensor] | None = None

    def arrive(self, rank: int, signature: str) -> None:
        """Register a rank's call. Raises RuntimeError when it differs from the calls of ranks before it."""
        for other, theirs in self.signatures.items():
            if theirs != signature:
                raise RuntimeError(
                    f"rank {rank} calls {signature}, but rank {other} called {theirs} as the same collective "
                    f"(number {self.number} of their group): all ranks of a group make the same calls in the same order"
                )
            break  # the others have been compared with this first one
        self.signatures[rank] = signature

    def complete(self) -> bool:
        """Return whether all members have come."""
        return len(self.signatures) == self.group.size()

    def absent(self) -> list[int]:
        """Return the members that have not come yet."""
        return [rank for rank in self.group.ranks if rank not in self.signatures]

    def reduced(self, op: Any) -> list[torch.Tensor]:
        """Return the inputs of all members reduced in rank order, computed once."""
        if self._reduced is None:
            brought = [self.inputs[rank] for rank in self.group.ranks]
            self._reduced = [reduction(op, [tensors[i] for tensors in brought]) for i in range(len(brought[0]))]
        return self._reduced


_STEPS = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}


def name_of(op: Any) -> str:
    """Return a reduction's name: SUM, MAX. Raises ValueError for one that is not simulated."""
    op = getattr(op, "op", op)
    if op not in _STEPS:
        raise ValueError(f"op={op}: simulated are {', '.join(str(known).split('.')[-1] for known in _STEPS)}")
    return str(op).split(".")[-1]


def reduction(op: Any, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the tensors combined in order."""
    op = getattr(op, "op", op)
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result = _STEPS[op](result, tensor)
    return result / len(tensors) if op == ReduceOp.AVG else result
