"""The collectives of torch.distributed as functions of a row of numbers, for pictures of what each rank holds after."""

from __future__ import annotations

from collections.abc import Callable

import torch


def seen(dist, collective: Callable, size: int, root: int | None = None) -> tuple[torch.Tensor | list, list]:
    """Call `collective` on a row of `size` numbers and return (row before, row after); rank 2 brings 20, 21, ...

    With `root` only that rank brings anything, and the row before is an empty list elsewhere.
    """
    row = 10.0 * dist.get_rank() + torch.arange(size)
    before = row.clone() if root in (None, dist.get_rank()) else []
    after = collective(dist, row)
    return before, row if after is None else after


# One rank is the root, here rank 1


def broadcast(dist, row):
    dist.broadcast(row, src=1)


def scatter(dist, row):
    chunk = torch.empty(1)
    dist.scatter(chunk, list(row.split(1)) if dist.get_rank() == 1 else None, src=1)
    return chunk


def reduce(dist, row):
    dist.reduce(row, dst=1)
    return row if dist.get_rank() == 1 else []


def gather(dist, chunk):
    chunks = _room(dist) if dist.get_rank() == 1 else []
    dist.gather(chunk, chunks, dst=1)
    return [chunk.item() for chunk in chunks]


# All ranks bring, and all get


def all_reduce(dist, row):
    dist.all_reduce(row)


def all_gather(dist, chunk):
    chunks = _room(dist)
    dist.all_gather(chunks, chunk)
    return torch.cat(chunks)


def reduce_scatter(dist, row):
    mine = torch.empty(1)
    dist.reduce_scatter(mine, list(row.split(1)))
    return mine


def all_to_all(dist, row):
    chunks = _room(dist)
    dist.all_to_all(chunks, list(row.split(1)))
    return torch.cat(chunks)


def _room(dist) -> list[torch.Tensor]:
    """Return empty room for one number from every rank."""
    return [torch.empty(1) for _ in range(dist.get_world_size())]
