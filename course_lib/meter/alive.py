"""The bytes alive at any moment of what some code made, whoever holds them: a variable, a view, autograd."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.meter.held import storages_of


class Alive(TorchDispatchMode):
    """Notes every storage that is made under `with alive:`, without keeping it; `bytes()` says what is left of them.

    A storage counts once and in full for as long as anything holds it, also autograd or a view of one element, and with
    the size that it has now. What a collective itself makes does not count where the code calls `alive.beside(dist)`.
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
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.device.type != "meta":
                watched = Watched(tensor)
                self._seen.setdefault(watched.number, watched)
        return out

    def bytes(self, *things: Any) -> int:
        """Return the bytes that are alive now, together with those of `things` (as in `bytes_held`), each once."""
        self._seen = {number: watched for number, watched in self._seen.items() if watched.nbytes is not None}
        alive = {number: watched.nbytes for number, watched in self._seen.items()}
        return sum((alive | storages_of(*things)).values())


class _Beside:
    """Passes every call on, and lets `alive` look away meanwhile."""

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
    """A tensor's storage, looked at without being kept."""

    _free = staticmethod(torch.UntypedStorage._free_weak_ref)  # at the end of a process `torch` may be gone first

    def __init__(self, tensor: torch.Tensor) -> None:
        self.number = tensor.untyped_storage()._weak_ref()  # nothing else gets this number while the reference lives

    @property
    def nbytes(self) -> int | None:
        """The bytes it has now, None once nobody holds it."""
        if torch.UntypedStorage._expired(self.number):
            return None
        return torch.UntypedStorage._new_with_weak_ptr(self.number).nbytes()

    def __del__(self) -> None:
        self._free(self.number)
