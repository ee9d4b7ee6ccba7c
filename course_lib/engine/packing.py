"""Serialises a function, its arguments and its results; tensors are copied as plain bytes, not put in shared memory.

Functions and classes of a notebook or script are pickled by value (cloudpickle), so a rank never imports the script.
Why not torch's own reducers (torch.multiprocessing)? They share memory, and a write on one rank would show on another.
Why not torch.save and torch.load(weights_only=True)? A call holds functions as well. What untrusted code sends is never
unpickled, not even with names restricted: see plain.py.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterable
from types import CodeType, ModuleType
from typing import Any

import cloudpickle
import torch

from course_lib.engine.libraries import is_library, part_of_package


def tensor_from_bytes(dtype: str, shape: tuple[int, ...], data: bytes, requires_grad: bool) -> torch.Tensor:
    """Rebuild a tensor on this process's default device."""
    kind = getattr(torch, dtype)
    if data:
        cpu = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(kind).reshape(shape)
    else:
        cpu = torch.empty(shape, dtype=kind, device="cpu")
    return cpu.to(torch.get_default_device()).requires_grad_(requires_grad)


def _tensor_bytes(tensor: torch.Tensor) -> tuple:
    cpu = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    flat = cpu.reshape(-1).view(torch.uint8) if cpu.numel() else torch.empty(0, dtype=torch.uint8)
    dtype = str(cpu.dtype).removeprefix("torch.")
    return dtype, tuple(cpu.shape), flat.numpy().tobytes(), tensor.requires_grad and tensor.is_leaf


class _Packer(cloudpickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is torch.Tensor and thing.layout is torch.strided and not thing.is_quantized:
            return tensor_from_bytes, _tensor_bytes(thing)
        if isinstance(thing, ModuleType) and _is_part(thing):
            return part_of_package, (thing.__name__,)
        return super().reducer_override(thing)


def _is_part(module: ModuleType) -> bool:
    """Return whether a module is only an attribute of a package, as torch._C._functions is, and cannot be imported.

    torch's own `once_differentiable` names that one; by value, as cloudpickle would send it, it does not arrive whole.
    """
    if module.__name__ in sys.modules or module.__name__.partition(".")[0] not in sys.modules:
        return False
    try:
        return part_of_package(module.__name__) is module
    except (AttributeError, ImportError):
        return False


def submodules(code: CodeType, values: Iterable[Any]) -> list[ModuleType]:
    """Return the imported submodules of those modules that a function may reach by the names in its code.

    It stands in for cloudpickle's own, which goes through all of sys.modules for each module that a function names: a
    millisecond a function once torch is there. This one looks up the names of the code instead.
    """
    found = []
    for value in values:
        packages = [value.__name__] if isinstance(value, ModuleType) and getattr(value, "__package__", None) else []
        for package in packages:  # which grows
            names = [name for name in (f"{package}.{name}" for name in code.co_names) if name in sys.modules]
            found += [sys.modules[name] for name in names]
            packages += names
    return found


cloudpickle.cloudpickle._find_imported_submodules = submodules


def pack(thing: Any) -> bytes:
    """Return `thing` as bytes. Raises whatever the pickling of `thing` raises."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Rebuild what `pack` packed."""
    return pickle.loads(data)


def pack_call(fn: Any, args: tuple) -> bytes:
    """Return a call as bytes, the learner's own modules by value. Raises TypeError that names what cannot travel."""
    own = {module for module in map(_module_of, (fn, *args)) if module is not None}
    registered = cloudpickle.list_registry_pickle_by_value()
    own = [module for module in own if module.__name__ not in registered]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        return pack((fn, args))
    except Exception as error:
        raise TypeError(_what_cannot_travel(fn, args, error)) from None
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _module_of(thing: Any) -> ModuleType | None:
    """Return the learner's module that a function or class comes from, or None if it need not travel by value."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    filename = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or filename is None or is_library(filename):
        return None
    return module


def _what_cannot_travel(fn: Any, args: tuple, error: Exception) -> str:
    """Name the smallest part of a call that cannot be packed."""
    name = getattr(fn, "__name__", repr(fn))
    reason = f"{type(error).__name__}: {error}"
    for place, argument in enumerate(args):
        if not _can_travel(argument):
            return f"argument {place + 1} of {name}, a {type(argument).__name__}, cannot be sent to a rank ({reason})"
    code = getattr(fn, "__code__", None)
    if code is not None:
        cells = dict(zip(code.co_freevars, (cell.cell_contents for cell in fn.__closure__ or ()), strict=False))
        used = {key: fn.__globals__[key] for key in code.co_names if key in fn.__globals__} | cells
        for key, value in used.items():
            if not _can_travel(value):
                return (
                    f"{name} uses {key}, a {type(value).__name__}, which cannot be sent to a rank ({reason}); "
                    f"make {key} inside {name} instead"
                )
    return f"{name} cannot be sent to a rank ({reason})"


def _can_travel(thing: Any) -> bool:
    try:
        pack(thing)
    except Exception:
        return False
    return True
