"""What is the learner's own, and what a library's. No torch is imported here, so that no picture waits for it."""

from __future__ import annotations

import functools
import importlib
import site
import sysconfig
from pathlib import Path
from typing import Any

_LIBRARIES = tuple(
    str(Path(folder).resolve())
    for folder in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
        Path(__file__).parent.parent,
        Path(__file__).parent.parent.parent / "exercises_tests",
    }
)


def is_library(filename: str) -> bool:
    """Return whether a source file belongs to Python, an installed package or this course, not to the learner."""
    return filename.startswith("<frozen") or str(Path(filename).resolve()).startswith(_LIBRARIES)


def part_of_package(name: str) -> Any:
    """Return what a dotted name means: a package that is imported, and from it on attributes."""
    package, *names = name.split(".")
    return functools.reduce(getattr, names, importlib.import_module(package))
