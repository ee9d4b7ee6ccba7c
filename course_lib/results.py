"""What a run returns, and what it raises: one line a rank, and sentences in place of tracebacks."""

from __future__ import annotations

import contextlib
import html
import linecache
import re
import reprlib
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from course_lib import cards
from course_lib.events import Event

MOST_SHOWN = 16  # ranks shown before a repr is shortened
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 300
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 20


class Results(Sequence):
    """The values that a function returned on each rank, in rank order, with the events that were recorded.

    `seconds` runs from the first rank's start to the last one's end: wall time on real ranks, virtual time on a
    simulated cluster. Per rank: `bytes_sent`, `bytes_received`, `messages_sent` (point-to-point messages measured,
    built-in collectives charged by their algorithm) and `printed`.
    """

    def __init__(
        self, values: list, seconds: float, events: Any, printed: list[str], simulated: bool = False, shown: bool = True
    ) -> None:
        self._values, self._events, self._shown = list(values), events, shown
        self.seconds, self.printed, self.simulated = seconds, printed, simulated

    def __getitem__(self, rank: Any) -> Any:
        try:
            return self._values[rank]
        except TypeError:
            raise TypeError(f"{rank!r} is no rank: give its number, from 0 to {len(self) - 1}") from None
        except IndexError:
            raise IndexError(f"rank {rank} of {len(self)}: ranks are numbered from 0 to {len(self) - 1}") from None

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator:
        return iter(self._values)

    @cached_property
    def events(self) -> list[Event]:
        """Every `Event` of every rank, in order of time."""
        events = self._events() if callable(self._events) else self._events
        return sorted(events, key=lambda event: (event.start, event.end, event.rank))

    def of(self, rank: int, kind: str | None = None) -> list[Event]:
        """Return one rank's events in order of time, of one kind if given."""
        return [event for event in self.events if event.rank == rank and kind in (None, event.kind)]

    def _sum(self, field: str, charged: bool | None = None) -> list[int]:
        totals = [0] * len(self)
        for event in self.events:
            if charged is None or event.charged == charged:
                totals[event.rank] += getattr(event, field)
        return totals

    @cached_property
    def bytes_sent(self) -> list[int]:
        """Bytes each rank sent."""
        return self._sum("sent")

    @cached_property
    def bytes_received(self) -> list[int]:
        """Bytes each rank received."""
        return self._sum("received")

    @cached_property
    def bytes_charged(self) -> list[int]:
        """The part of `bytes_sent` that built-in collectives were charged by their documented algorithm."""
        return self._sum("sent", charged=True)

    @cached_property
    def messages_sent(self) -> list[int]:
        """Messages each rank sent."""
        return self._sum("messages")

    @cached_property
    def collectives(self) -> list[list[str]]:
        """The built-in collectives each rank called, in order."""
        return [[event.kind for event in self.of(rank) if event.charged] for rank in range(len(self))]

    def __repr__(self) -> str:
        if not self._shown:  # under torchrun every rank has the results, and rank 0 shows them
            return ""
        ranks = range(len(self))
        shown = [*ranks[: MOST_SHOWN // 2], *ranks[-MOST_SHOWN // 2 :]] if len(self) > MOST_SHOWN else list(ranks)
        width = len(str(len(self) - 1))
        lines = []
        for previous, rank in zip([-1, *shown], shown, strict=False):
            if rank != previous + 1:
                lines.append(f"... {rank - previous - 1} more ranks ...")
            lines.append(f"rank {rank:>{width}} returned {short(self[rank])}")
        if self.simulated:
            lines.append(f"simulated: {duration(self.seconds)} of virtual time")
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        if not self._shown or not cards.in_notebook():
            return None
        rows, told = [], []
        for line in repr(self).split("\n"):
            rank, returned, value = line.partition(" returned ")
            if not told and returned:
                rows.append([html.escape(rank), "returned", f"<code>{html.escape(value)}</code>"])
            elif not told and line.startswith("..."):
                rows.append([html.escape(line)])
            else:
                told.append(cards.paragraph(line))
        return cards.card(cards.TOLD, cards.table(rows), *told)


class RankFailed(Exception):  # noqa: N818 - it reads as what happened
    """A run that failed, in one sentence with the learner's own lines."""

    def __init__(self, sentence: str, rank: int | None = None, error: str = "", message: str = "") -> None:
        super().__init__(sentence)
        self.rank = rank
        self.error = error
        """The name of the exception's class on that rank, or "exit", "signal", "timeout", "deadlock"."""
        self.message = message

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Interrupted(KeyboardInterrupt):
    """A run that was interrupted by hand: one sentence with the line of each rank; `printed` is what each printed."""

    def __init__(self, sentence: str, printed: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.printed = list(printed)

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class Misfit(RankFailed, TypeError):
    """Arguments that the function does not take; no rank was started."""


class Deadlock(RankFailed):
    """Simulated ranks that wait for each other, so that none can ever go on."""


@contextlib.contextmanager
def in_a_sentence() -> Iterator[None]:
    """Have a notebook show what is refused under `with` as one sentence, without lines of this course."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        said = [f"{type(error).__name__}: {error}"]
        error._render_traceback_ = lambda: said
        raise


def duration(seconds: float) -> str:
    """Return a time with the unit that keeps its digits few: 3.2 ms."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def short(value: Any) -> str:
    """Return a value as one line of moderate length."""
    import torch

    if isinstance(value, torch.Tensor) and value.numel() > 32:
        return f"a tensor {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return re.sub(r"\s+", " ", _REPR.repr(value))


source_line = linecache.getline
"""Looks up a source line. The grader replaces it: file names in a submission's failures are untrusted."""


def cell_of(filename: str) -> str:
    """Return how to name a source file to a learner: the number of the cell, or the file's name."""
    try:
        from IPython import get_ipython

        shell = get_ipython()
        number = shell.compile._filename_map.get(filename) if shell else None
    except (ImportError, AttributeError):
        number = None
    if number is not None:
        return f"cell [{number}]"  # as the notebook numbers it, not the n-th from the top
    return "this cell" if re.search(r"ipykernel_\d+", filename) else filename.rsplit("/", 1)[-1]


def line_of(filename: str, number: int, function: str) -> str:
    """Return one frame as a learner reads it."""
    source = source_line(filename, number).strip()
    place = f"line {number} of {cell_of(filename)}"
    if function and function != "<module>":
        place += f", in {function}"
    return f"{place}: {source}" if source else place


def lines_of(frames: Sequence[tuple[str, int, str]], most: int = 4) -> str:
    """Return the last frames of a stack, outermost first, one a line and indented."""
    return "".join(f"\n    {line_of(*frame)}" for frame in list(frames)[-most:])


def instead(message: str, frames: Sequence[tuple[str, int, str]]) -> str:
    """Return what to write where the last line puts something into a place of a tuple, as ": ..."; else ""."""
    if message != "'tuple' object does not support item assignment" or not frames:
        return ""
    source = source_line(*frames[-1][:2]).strip()
    found = re.search(r"(?:^|[:;] *)((\w+)\[[^=]+\])\s*([+-]?)=\s*([^=#].*?)\s*(?:#.*)?$", source)
    if not found:
        return ": the places of a tuple stay as they are, so change in place what stands there"
    place, name, sign, value = found.groups()
    call = {"+": "add_", "-": "sub_", "": "copy_"}[sign]
    mine = f"mine {sign}= {value}" if sign else f"mine[:] = {value}"
    return (f": the places of the tuple {name} stay as they are, so change the tensor that stands there: "
            f"{place}.{call}({value}), or mine = {place}; {mine}")  # fmt: skip


def print_ranks(printed: Sequence[str], shown: str = "") -> None:
    """Print the ranks' output in rank order; `shown` is the part of rank 0's that is printed already.

    In one write, because under torchrun other processes write to the same terminal.
    """
    width, lines = len(str(len(printed) - 1)), []
    for rank, text in enumerate(printed):
        rest = text[len(shown) :] if rank == 0 else text
        for line in rest.splitlines():
            lines.append(f"rank {rank:>{width}} | {line}\n")
    sys.stdout.write("".join(lines))
