"""Detects state that a simulation leaves behind in its process; if there is any, the next one gets a new process.

A simulation takes 6 to 11 ms and starting its process several times as long, so the cases of a check share a process.
Each gets its own copy of the function, its globals and arguments, fresh random numbers, the job's environment and
working directory. What could still leak is compared here: threads, child processes, open files, settings of torch and
numpy, functions and classes of loaded modules. Why not fork each case from a process that has loaded everything? That
is what a run does already: most of its cost is the copy of the page tables.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import torch

OWN = ("course_lib", "exercises_tests")
WATCHED = ("builtins", "math", "os", "random", "time", "itertools", "functools", "numpy", "numpy.random", "torch",
           "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.distributed", "torch.optim", "torch.autograd",
           "torch.linalg", "torch.utils.checkpoint")
CLASSES = (torch.Tensor, torch.nn.Module, torch.nn.Linear, torch.nn.Parameter, torch.optim.Optimizer,
           torch.autograd.Function)


class Baseline:
    """The state of a process before its first simulation."""

    taken = False

    def take(self) -> None:
        """Record what must not change from now on."""
        self.taken = True
        self._settings, self._files = _settings(), _open_files()
        self._names: dict[str, dict[str, Any]] = {}
        self._classes = {kind: dict(vars(kind)) for kind in CLASSES}
        self._learn()

    def _learn(self) -> None:
        """Record watched modules that have been imported since."""
        for name in [*WATCHED, *(name for name in list(sys.modules) if name.partition(".")[0] in OWN)]:
            if name not in self._names and name in sys.modules:
                self._names[name] = dict(vars(sys.modules[name]))

    def changed(self) -> str:
        """Return the first difference in words, "" if there is none. Newly imported modules are no difference."""
        if threading.active_count() > 1:
            return "a thread is still running"
        if _children():
            return "a child process is still running"
        if _open_files() != self._files:
            return "a file was left open"
        for name, value in _settings().items():
            if value != self._settings[name]:
                return f"{name} is {value}, and was {self._settings[name]}"
        for name, before in self._names.items():
            if (other := _other(before, vars(sys.modules[name]))) is not None:
                return f"{name}.{other} was changed"
        for kind, before in self._classes.items():
            if (other := _other(before, vars(kind))) is not None:
                return f"{kind.__name__}.{other} was changed"
        self._learn()
        return ""


def _other(before: dict[str, Any], now: Any) -> str | None:
    """Return a name that is bound to another object than before; newly imported submodules do not count."""
    for name, value in now.items():
        if before.get(name, ...) is not value and not isinstance(value, ModuleType) and name != "__warningregistry__":
            return name
    return next((name for name in before if name not in now), None)


def _settings() -> dict[str, Any]:
    """Return the process-wide settings that a function could change for later ones."""
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "the use of deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "the precision of float32 products": torch.get_float32_matmul_precision(),
        "the detection of anomalies": torch.is_anomaly_enabled(),
        "torch's print options": str(vars(torch._tensor_str.PRINT_OPTS)),
        "numpy's error handling": str(np.geterr()),
        "numpy's print options": str(np.get_printoptions()),
        "the recursion limit": sys.getrecursionlimit(),
        "the filters of warnings": len(warnings.filters),
        "the trace function": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
    }


def _children() -> str:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return file.read()
    except OSError:  # no such file outside Linux
        return ""


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
