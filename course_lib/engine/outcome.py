"""How a rank or a simulation ended: Returned, Failed, Simulated or Deadlocked, as plain data that crosses processes.

Why not pickle the exception itself, as concurrent.futures does? A class defined in a notebook cell may not unpickle, a
traceback never does, and unpickling runs code, which a grader must not let the learner's process choose. So an outcome
is a name and fields of text, numbers and bytes, which can also travel as plain data (plain.py).
"""

from __future__ import annotations

import builtins
import time
import traceback
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from course_lib.engine import packing

Frame = tuple[str, int, str]  # file, line, function
MOST_BEHIND = 10  # exceptions in a chain of causes that are kept


@dataclass
class Returned:
    """A rank's function returned. `value` is packed; times are time.monotonic() of the rank, in seconds."""

    value: bytes
    begin: float = 0.0
    end: float = 0.0
    events: list[tuple] = field(default_factory=list)
    printed: str = ""
    """Under torchrun only: elsewhere output arrives through a pipe."""
    imported: list[str] = field(default_factory=list)
    """Slow modules that the rank had to import, for the fork server to import next time."""


@dataclass
class Failed:
    """A rank, or a simulation, raised."""

    error: str
    """The name of the exception's class."""
    message: str
    frames: list[Frame]
    """The learner's own lines, outermost first."""
    rank: int | None
    when: float = 0.0
    behind: list[tuple[str, str]] = field(default_factory=list)
    """Class and message of each exception in its chain of __cause__ and __context__."""
    other: tuple[int, str, list[Frame]] | None = None
    """Of a mismatched message: the rank at the other side, what it waits for, and its lines."""
    printed: list[str] = field(default_factory=list)
    """What each simulated rank printed."""
    imported: list[str] = field(default_factory=list)


@dataclass
class Simulated:
    """A simulation in which every rank returned. `values` are packed; each message is 7 doubles of `transfers`."""

    values: list[bytes]
    seconds: float
    events: list[tuple]
    transfers: bytes
    printed: list[str]
    left: str | None = None
    """What it left behind in its process, "" for nothing; None if not checked."""
    imported: list[str] = field(default_factory=list)


@dataclass
class Deadlocked:
    """A simulation in which no rank can ever go on."""

    waiting: list[tuple[int, str, list[Frame]]]
    """Each waiting rank, what it waits for in words, and its lines."""
    cycle: list[int]
    """A cycle of waiting ranks, the first one again at the end; empty if there is none."""
    returned: list[int]
    unreceived: list[tuple[int, int]] = field(default_factory=list)
    """Sender and receiver of each isend that a waiting rank has started and no rank receives."""
    printed: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)


@dataclass
class Unfinished:
    """The state of a simulation at its timeout: whose turn it is, and that rank's lines."""

    rank: int
    frames: list[Frame]
    printed: list[str]


Outcome = Returned | Failed | Simulated | Deadlocked
_KINDS = {kind.__name__: kind for kind in (Returned, Failed, Simulated, Deadlocked, Unfinished)}


def returned(value: Any, rank: int | None, packs: Any = packing) -> Returned | Failed:
    """Return the outcome of a rank that returned `value`: Failed, if `packs`, packing or plain, cannot pack that."""
    try:
        return Returned(packs.pack(value))
    except Exception as error:
        message = f"a returned {type(value).__name__} cannot be sent back ({type(error).__name__}: {error})"
        return failed(TypeError(f"{message}; return tensors, numbers, text, lists or dicts"), rank)


class Told(Exception):  # noqa: N818
    """Carries a Failed outcome that was made in another process."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failed(error: BaseException, rank: int | None) -> Failed:
    """Return the outcome of a rank that raised: what, when, and on which of the learner's own lines."""
    if isinstance(error, Told):
        return error.failure
    frames = [
        (frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not packing.is_library(frame.filename)
    ]
    if isinstance(error, SyntaxError) and error.filename and not packing.is_library(error.filename):
        frames.append((error.filename, error.lineno or 0, ""))
    other = getattr(error, "other", None)
    said = str(error).strip() + _meant(error)
    if said.startswith("Default process group has not been initialized"):  # and advises to make one
        said = "torch.distributed knows no ranks here: call dist, the argument of your function"
    return Failed(type(error).__name__, said, frames, rank, time.monotonic(), _behind(error), other)


def _meant(error: BaseException) -> str:
    """Return what a name, or an attribute of dist or of a tensor, was meant to be: "; did you mean send?"."""
    if isinstance(error, NameError) and isinstance(error.name, str) and error.__traceback__:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        here = [name for name in (*frame.f_locals, *frame.f_globals, *dir(builtins)) if not name.startswith("_")]
        near = get_close_matches(error.name, [name for name in here if name != error.name], 1, 0.7)
        return f"; did you mean {near[0]}?" if near else ""
    if not isinstance(error, AttributeError) or not isinstance(error.name, str) or "did you mean" in str(error).lower():
        return ""
    known = error.obj if isinstance(error.obj, ModuleType) else type(error.obj)
    home = getattr(known, "__module__" if isinstance(known, type) else "__name__", "") or ""
    if home.partition(".")[0] not in ("torch", "course_lib"):
        return ""
    near = get_close_matches(error.name, [name for name in dir(known) if not name.startswith("_")], 1, 0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _behind(error: BaseException) -> list[tuple[str, str]]:
    behind: list[tuple[str, str]] = []
    while (error := error.__cause__ or error.__context__) is not None and len(behind) < MOST_BEHIND:
        behind.append((type(error).__name__, str(error)))
    return behind


def pack(outcome: Outcome | Unfinished, packs: Any = packing) -> bytes:
    """Return an outcome as bytes: the name of its class and its fields, which are plain data."""
    return packs.pack((type(outcome).__name__, vars(outcome)))


def unpack(data: bytes) -> Outcome | Unfinished:
    """Rebuild an outcome. Raises any exception for malformed bytes."""
    kind, fields = packing.unpack(data)
    return _KINDS[kind](**fields)
