"""Collectives on Python objects, for both engines: collectives on their pickled bytes, as torch makes them."""

from __future__ import annotations

import pickle
from typing import Any

import torch


def _to_tensor(thing: Any) -> torch.Tensor:
    data = torch.frombuffer(bytearray(pickle.dumps(thing)), dtype=torch.uint8)
    return data.to(torch.get_default_device())


def _from_tensor(data: torch.Tensor) -> Any:
    return pickle.loads(data.cpu().numpy().tobytes())


class Objects:
    """The part of `dist` that sends Python objects around, in terms of its collectives on tensors."""

    def all_gather_object(self, object_list, obj, group=None) -> None:
        """Fill `object_list` with every rank's `obj`, in rank order."""
        sizes, padded = self._padded(obj, group)
        pieces = [torch.empty_like(padded) for _ in sizes]
        self.all_gather(pieces, padded, group)
        for place, (size, piece) in enumerate(zip(sizes, pieces, strict=True)):
            object_list[place] = _from_tensor(piece[:size])

    def gather_object(self, obj, object_gather_list=None, dst=None, group=None, group_dst=None) -> None:
        """Fill the root's `object_gather_list` with every rank's `obj`, in rank order."""
        sizes, padded = self._padded(obj, group)
        pieces = [torch.empty_like(padded) for _ in sizes] if self._is_root(dst, group, group_dst) else None
        self.gather(padded, pieces, dst, group, group_dst=group_dst)
        for place, piece in enumerate(pieces or ()):
            object_gather_list[place] = _from_tensor(piece[: sizes[place]])

    def broadcast_object_list(self, object_list, src=None, group=None, device=None, group_src=None) -> None:
        """Replace the objects of every rank's list by the root's."""
        mine = self._is_root(src, group, group_src)
        data = _to_tensor(list(object_list)) if mine else None
        size = torch.tensor([len(data) if mine else 0])
        self.broadcast(size, src, group, group_src=group_src)
        buffer = data if mine else torch.empty(int(size), dtype=torch.uint8)
        self.broadcast(buffer, src, group, group_src=group_src)
        if not mine:
            object_list[:] = _from_tensor(buffer)

    def _padded(self, thing: Any, group: Any) -> tuple[list[int], torch.Tensor]:
        """Return the bytes each rank brings, and this rank's, made as long as the longest."""
        data = _to_tensor(thing)
        counts = [torch.zeros(1, dtype=torch.long) for _ in range(self.get_world_size(group))]
        self.all_gather(counts, torch.tensor([len(data)]), group)
        sizes = [int(count) for count in counts]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(data)] = data
        return sizes, padded

    def _is_root(self, root: int | None, group: Any, place: int | None) -> bool:
        return self.get_rank(group) == place if place is not None else self.get_rank() == (root or 0)
