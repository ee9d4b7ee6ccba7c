"""A ring all-reduce step by step: what each chunk holds when, and the meters of three programs with one result."""

from __future__ import annotations

from typing import Any

import torch

from course_lib import Cluster, Results, algorithms, each, run
from course_lib.events import Event
from course_lib.lessons.sample_data import all_digits, integers

EMPTY = -100  # what ranks hold before an all-gather where others' chunks will be
MOST_DIGITS = 9  # ranks that the digits of a number can tell apart


# Step by step: held[step][rank][chunk] are the ranks whose part is in it


def ring_steps(ranks: int) -> list[list[list[list[int]]]]:
    """Return what each chunk on each rank holds before and after every step of the built-in ring.

    Replays the messages that a simulated `dist.all_reduce` is made of. Chunk c has c + 1 bytes, so that a message's
    size tells which chunk it carries.
    """
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    steps = [_as_lists(held)]
    for rounds in zip(*(algorithms.all_reduce(rank, list(range(1, ranks + 1))) for rank in range(ranks)), strict=True):
        before = [[set(cell) for cell in row] for row in held]
        for rank, messages in enumerate(rounds):
            for kind, peer, size in messages:
                if kind == "send":
                    held[peer][size - 1] |= before[rank][size - 1]
        steps.append(_as_lists(held))
    return steps


def _as_lists(held: list) -> list:
    return [[sorted(cell) for cell in row] for row in held]


class _Watched:
    """A `dist` that keeps a copy of a tensor each time its rank begins to send."""

    def __init__(self, dist: Any, tensor: torch.Tensor) -> None:
        self._dist, self._tensor, self.copies = dist, tensor, []

    def __getattr__(self, name: str) -> Any:
        if name in ("send", "isend", "batch_isend_irecv", "all_reduce"):
            self.copies.append(self._tensor.tolist())
        return getattr(self._dist, name)


def watch(dist: Any, answer: Any, mine: torch.Tensor) -> list:
    """Return what a rank's tensor held each time that rank began to send, and at the end."""
    watched = _Watched(dist, mine)
    answer(watched, mine)
    return [*watched.copies, mine.tolist()]


def steps_of(answer: Any, ranks: int = 4, only_own: bool = False) -> list[list[list[list[int] | str]]]:
    """Return what each chunk on each rank holds each time that rank begins to send, and at the end, by a simulated run.

    Rank r brings 10^r for every chunk, so the digits of a sum count what is in it: 1101 holds ranks 0, 2 and 3. With
    `only_own` each rank begins with chunk r complete and the others empty, as an all-gather does.
    """
    if not 1 <= ranks <= MOST_DIGITS:
        raise ValueError(f"ranks={ranks}: the digits of a number tell 1 to {MOST_DIGITS} ranks apart")
    tensors = [torch.full((ranks,), 10**rank) for rank in range(ranks)]
    if only_own:
        everyone = sum(10**rank for rank in range(ranks))
        tensors = [torch.where(torch.arange(ranks) == rank, everyone, 0) for rank in range(ranks)]
    seen = list(run(watch, answer, each(tensors), ranks=ranks, on=Cluster()))
    count = max(map(len, seen))
    padded = [copies + copies[-1:] * (count - len(copies)) for copies in seen]
    return [[[_parts_in(value, ranks) for value in copies[step]] for copies in padded] for step in range(count)]


def _parts_in(value: int, ranks: int) -> list[int] | str:
    """Return the ranks whose parts a sum of powers of ten holds, as often as it holds them."""
    if not 0 <= value < 10**ranks:
        return "?"
    return [rank for rank, digit in enumerate(reversed(str(value))) for _ in range(int(digit))]


# On the timeline: which chunk each message carries


class _Numbered:
    """A `dist` that notes which chunk each message of its rank carries, as the message's own numbers tell it."""

    def __init__(self, dist: Any, size: int) -> None:
        self._dist, self._size, self.chunks = dist, size, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dist, name)

    def _note(self, tensor: torch.Tensor) -> None:
        count, total = tensor.flatten()[:2].tolist() if tensor.numel() == self._size else (0, 0)
        self.chunks.append(f"{total / count:.0f}" if count else "")

    def send(self, tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
        self._note(tensor)
        return self._dist.send(tensor, *args, **more)

    def isend(self, tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
        self._note(tensor)
        return self._dist.isend(tensor, *args, **more)

    def batch_isend_irecv(self, ops: list) -> Any:
        for op in ops:
            if op.name == "isend":
                self._note(op.tensor)
        return self._dist.batch_isend_irecv(ops)


def _numbered(dist: Any, answer: Any, mine: torch.Tensor) -> list[str]:
    watched = _Numbered(dist, len(mine) // dist.get_world_size())
    answer(watched, mine)
    return watched.chunks


def with_chunk_numbers(answer: Any, elements: int, ranks: int = 4, on: Cluster | None = None) -> Results:
    """Return a simulated run of an all-reduce whose sends and receives have the number of their chunk as a label.

    Chunk c begins with the numbers 1 and c on every rank. Whatever is added on the way, the second number of a chunk
    over its first is c. `elements` must be a multiple of `ranks`; a message of another size than a chunk has no label.
    """
    tensor = torch.zeros(ranks, elements // ranks)
    tensor[:, 0], tensor[:, 1] = 1, torch.arange(ranks)
    trace = run(_numbered, answer, tensor.flatten(), ranks=ranks, on=on or Cluster())
    carried: dict[tuple, list[str]] = {}  # of each pair of ranks, the labels of its messages in order
    sends = [iter(labels) for labels in trace]
    for event in trace.events:
        if event.kind == "send":
            carried.setdefault((event.rank, event.peer), []).append(next(sends[event.rank], ""))
    left = {(kind, *pair): iter(labels) for pair, labels in carried.items() for kind in ("send", "recv")}

    def labelled(event: Event) -> Event:
        pair = (event.rank, event.peer) if event.kind == "send" else (event.peer, event.rank)
        return event._replace(label=next(left.get((event.kind, *pair), iter(())), ""))

    events = [labelled(event) for event in trace.events]
    return Results([None] * ranks, trace.seconds, events, trace.printed, simulated=True)


def with_partners(trace: Results) -> Results:
    """Return a run whose sends and receives say with whom, as in "to 2" or "from 0"."""
    words = {"send": "to", "recv": "from"}
    events = [event._replace(label=f"{words[event.kind]} {event.peer}") if event.kind in words else event
              for event in trace.events]  # fmt: skip
    return Results(list(trace), trace.seconds, events, trace.printed, simulated=trace.simulated)


# The tensors themselves


def in_place(dist: Any, answer: Any, mine: torch.Tensor) -> torch.Tensor:
    answer(dist, mine)
    return mine


def tensors_after(
    answer: Any,
    ranks: int = 4,
    shape: tuple = (8,),
    dtype: str = "float32",
    only_own: bool = False,
    digits: bool = False,
) -> Results:
    """Return each rank's tensor after an in-place answer, simulated on the tensors that its check gives it.

    With `only_own` each rank begins with chunk r and -100 elsewhere, as the check of an all-gather lets it; with
    `digits` the numbers are such that their sums need all digits of `dtype`.
    """
    before = (all_digits if digits else integers)(ranks, shape, dtype)
    return run(in_place, answer, each(only_own_chunk(before) if only_own else before), ranks=ranks, on=Cluster())


def only_own_chunk(tensors: list) -> list:
    """Return what ranks hold before an all-gather: their own chunk, and EMPTY where others' will be."""
    given = [torch.full_like(tensor, EMPTY) for tensor in tensors]
    for mine, chunk in zip(own_chunks(given), own_chunks(tensors), strict=True):
        mine.copy_(chunk)
    return given


def own_chunks(tensors: list, shift: int = 0) -> list:
    """Return chunk r of rank r's tensor, or of the tensor of each rank the chunk so many places further."""
    ranks = len(tensors)
    return [tensor.view(-1).tensor_split(ranks)[(rank + shift) % ranks] for rank, tensor in enumerate(tensors)]


# All-reduces with equal answers


def ring_to_the_right(dist: Any, tensor: torch.Tensor) -> None:
    """Sum a tensor over all ranks, in place, by the messages of the built-in ring; chunk c is added from c + 1 on."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step, messages in enumerate(algorithms.all_reduce(rank, list(range(1, ranks + 1)))):  # sizes tell the chunks
        (_, right, going), (_, left, coming) = messages
        mine = chunks[coming - 1]
        arrived = torch.empty_like(mine)
        sending = dist.isend(chunks[going - 1], right)
        dist.recv(arrived, left)
        mine.copy_(arrived if step >= ranks - 1 else mine + arrived)
        sending.wait()


def _ring(dist: Any, tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)


def _star(dist: Any, tensor: torch.Tensor) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    arrived = torch.empty_like(tensor)
    for other in range(1, ranks):
        dist.recv(arrived, other)
        tensor += arrived
    for other in range(1, ranks):
        dist.send(tensor, other)


def whole_tensors_around(dist: Any, tensor: torch.Tensor) -> None:
    """Sum a tensor over all ranks, in place, as a false ring: every rank's whole tensor visits all ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone()
    for _ in range(ranks - 1):
        arrived = torch.empty_like(passing)
        sending = dist.isend(passing, (rank + 1) % ranks)
        dist.recv(arrived, (rank - 1) % ranks)
        sending.wait()
        passing = arrived
        tensor += passing


def three_meters(ranks: int, elements: int, names: str = "ABC") -> dict[str, dict[str, Any]]:
    """Return the meter readings of three all-reduces under shuffled names: per rank bytes and messages sent.

    One is a ring, one goes through rank 0, one passes the whole tensor around. All give the same sums.
    """
    readings = {}
    for name, kind in zip(names, (_ring, _star, whole_tensors_around), strict=True):
        trace = run(kind, torch.ones(elements), ranks=ranks, on=Cluster())
        readings[name] = {"bytes": 4 * elements, "sent": trace.bytes_sent, "messages": trace.messages_sent}
    return dict(sorted(readings.items()))
