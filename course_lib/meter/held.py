"""How many bytes of tensors a rank holds, read from their storages and only when asked for."""

from __future__ import annotations

import gc
import sys
from typing import Any

import torch


def bytes_held(*things: Any) -> int:
    """Return the bytes of storage that `things` keep alive; without arguments, that all tensors of this process do.

    Things are tensors, modules, optimizers, and lists, tuples, sets or dicts of them. A storage that several views
    share counts once and in full, one that was resized counts as it is now, and a freed one counts nothing. Raises
    RuntimeError without arguments on a simulated rank, whose process holds the tensors of all ranks.
    """
    if not things:
        world = sys.modules.get("course_lib.simulator.world")
        if world is not None and world.CURRENT is not None:
            raise RuntimeError(
                "bytes_held() on a simulated rank would count the tensors of all ranks, which share one process: "
                "say whose bytes you mean, as in bytes_held(model, optimizer)"
            )
        things = tuple(thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor))
    return sum(storages_of(*things).values())


def storages_of(*things: Any) -> dict[int, int]:
    """Return the bytes of every storage that `things` keep alive, by the storage's own number."""
    storages: dict[int, int] = {}
    seen: set[int] = set()

    def visit(thing: Any) -> None:
        if id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            mine = getattr(thing, "_local_tensor", thing)  # a DTensor's own storage is one in name only
            if mine.layout is torch.strided and mine.device.type != "meta":
                storage = mine.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
            if thing.is_leaf and thing.grad is not None:
                visit(thing.grad)
        elif isinstance(thing, torch.nn.Module):
            for child in (*thing.parameters(), *thing.buffers()):
                visit(child)
        elif isinstance(thing, torch.optim.Optimizer):
            visit(dict(thing.state))
        elif isinstance(thing, dict):
            for child in thing.values():
                visit(child)
        elif isinstance(thing, (list, tuple, set, frozenset)):
            for child in thing:
                visit(child)

    for thing in things:
        visit(thing)
    return storages
