"""Counts the bytes of tensors that a rank holds: of given objects, or of everything allocated under `with Alive()`.

Why not tracemalloc or the process's resident memory? The first does not see tensors, the second counts torch itself and
what malloc keeps. Why count storages and not tensors? Views share one; and FSDP2 frees a parameter by resizing its
storage to 0, so a counter of allocations alone said 1.50 MiB where 0.50 were held.
"""

from __future__ import annotations

import functools
import gc
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.engine import current


def bytes_held(*things: Any) -> int:
    """Return the bytes of storage that `things` keep alive; without arguments, that all tensors of this process do.

    Things are tensors, modules, optimizers, and lists, tuples, sets or dicts of them. A storage that several views
    share counts once and in full, one that was resized counts as it is now, and a freed one counts nothing. Raises
    RuntimeError without arguments on a simulated rank, whose process holds the tensors of all ranks.
    """
    if not things:
        if (rank := current.rank()) is not None and rank.simulated:
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
        if isinstance(thing, (int, float)) or id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            mine = getattr(thing, "_local_tensor", thing)  # a DTensor's own storage is one in name only
            if mine.layout is torch.strided and not mine.is_meta:
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


class Alive(TorchDispatchMode):
    """Keeps a weak reference to every storage allocated under `with alive:`; `bytes()` adds up those still alive.

    A storage counts once and in full as long as anything holds it, autograd or a view of one element included, with its
    current size. What a collective allocates does not count if the code calls it through `alive.beside(dist)`.
    On real ranks gloo's threads hold the tensors of a collective for a moment longer than it takes: simulate.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, Watched] = {}
        self._away = 0

    def beside(self, dist: Any) -> Any:
        """Return a `dist` with the same names, whose calls are not watched."""
        return _Beside(dist, self)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in () if self._away else tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_meta:
                watched = Watched(tensor)
                self._seen.setdefault(watched.number, watched)
        return out

    def bytes(self, *things: Any) -> int:
        """Return the bytes that are alive now, together with those of `things` (as in `bytes_held`), each once."""
        sizes = {number: watched.nbytes for number, watched in self._seen.items()}
        alive = {number: size for number, size in sizes.items() if size is not None}
        if len(alive) < len(sizes):
            self._seen = {number: self._seen[number] for number in alive}
        return sum((alive | storages_of(*things)).values())


class _Beside:
    """A proxy that forwards every call, and suspends `alive` meanwhile."""

    def __init__(self, thing: Any, alive: Alive) -> None:
        self._thing, self._alive = thing, alive

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if isinstance(found, type) or not callable(found):
            return found

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._alive._away += 1
            try:
                result = found(*args, **kwargs)
            finally:
                self._alive._away -= 1
            return _Beside(result, self._alive) if hasattr(result, "wait") else result

        return call


class Watched:
    """A weak reference to a tensor's storage."""

    _free = staticmethod(torch.UntypedStorage._free_weak_ref)  # at the end of a process `torch` may be gone first

    def __init__(self, tensor: torch.Tensor) -> None:
        self.number = tensor.untyped_storage()._weak_ref()  # unique as long as the weak reference exists

    @property
    def nbytes(self) -> int | None:
        """Its current size, None once it is freed."""
        if torch.UntypedStorage._expired(self.number):
            return None
        return torch.UntypedStorage._new_with_weak_ptr(self.number).nbytes()

    def __del__(self) -> None:
        self._free(self.number)
