"""What a rank does in a pipeline, one action after the other, and where each stage of the model stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

KINDS = ("F", "B", "I", "W", "FB", "SYNC")
Place = list[list[tuple[int, int]]]


class ScheduleError(ValueError):
    """A schedule that breaks a rule, in one sentence. `code` is the stable name of the rule."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code

    def _render_traceback_(self) -> list[str]:
        return [f"ScheduleError: {self}"]


class Action(NamedTuple):
    """One thing that a rank does for one micro-batch with one of its chunks (a chunk is a stage that the rank holds).

    Kinds, with torch's letters: F forward; B the whole backward; I its input part, which the stage before waits for;
    W its weight part, which nobody waits for; FB a forward of `microbatch` and `chunk` overlapped with the whole
    backward of `back` = (micro-batch, chunk); SYNC sums the gradients of a chunk with its copies on other ranks.
    Papers on zero bubbles write B for what is I here.
    """

    kind: str
    microbatch: int | None
    chunk: int = 0
    back: tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.kind == "FB":
            return f"{_short('F', self.microbatch, self.chunk)}&{_short('B', *self.back)}"
        return _short(self.kind, self.microbatch, self.chunk)


def _short(kind: str, microbatch: int | None, chunk: int) -> str:
    """Return F3, or F3' for chunk 1, F3'' for chunk 2."""
    return f"{kind}{'' if microbatch is None else microbatch}{chr(39) * chunk}"


def parts(action: Action) -> list[tuple[str, int | None, int]]:
    """Return the (kind, micro-batch, chunk) that an action consists of: two for FB, else one."""
    if action.kind == "FB":
        return [("F", action.microbatch, action.chunk), ("B", *action.back)]
    return [(action.kind, action.microbatch, action.chunk)]


def looped(ranks: int, chunks: int = 1) -> Place:
    """Return stages dealt around the ranks: chunk c of rank r is stage c·ranks + r."""
    return [[(chunk * ranks + rank, 0) for chunk in range(chunks)] for rank in range(ranks)]


def v_shaped(ranks: int) -> Place:
    """Return two stages a rank, down the ranks and up again: rank 0 holds the first stage and the last."""
    return [[(rank, 0), (2 * ranks - 1 - rank, 0)] for rank in range(ranks)]


def both_ways(ranks: int) -> Place:
    """Return two copies of the model: chunk 0 down the ranks (copy 0), chunk 1 up the ranks (copy 1)."""
    return [[(rank, 0), (ranks - 1 - rank, 1)] for rank in range(ranks)]


@dataclass(frozen=True)
class Schedule:
    """The actions of every rank, in order, and `place[rank][chunk]` = (stage, copy of the model) of every chunk.

    `synchronous` is False where weights change after every backward, without waiting for the other micro-batches.
    """

    name: str
    actions: list[list[Action]]
    place: Place
    microbatches: int
    synchronous: bool = True

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, rank: int) -> list[Action]:
        return self.actions[rank]

    @cached_property
    def stages(self) -> int:
        """The number of stages of one copy of the model."""
        return 1 + max(stage for chunks in self.place for stage, _ in chunks)

    @cached_property
    def copies(self) -> int:
        """The number of copies of the model (2 in Chimera)."""
        return 1 + max(copy for chunks in self.place for _, copy in chunks)

    @cached_property
    def where(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The (rank, chunk) that holds each (stage, copy)."""
        return {at: (rank, chunk) for rank, chunks in enumerate(self.place) for chunk, at in enumerate(chunks)}

    def __repr__(self) -> str:
        width = len(str(len(self) - 1))
        lines = [f"{self.name}: {len(self)} ranks, {self.stages} stages, {self.microbatches} micro-batches"]
        lines += [f"rank {rank:>{width}} | " + " ".join(map(str, row)) for rank, row in enumerate(self.actions)]
        return "\n".join(lines)


def as_schedule(
    actions: Any, place: Place | None = None, microbatches: int | None = None, name: str = "schedule"
) -> Schedule:
    """Return plain lists as a Schedule: one list a rank, of tuples (kind, micro-batch) or (kind, micro-batch, chunk).

    `place` is `looped` unless given; `microbatches` is one more than the highest micro-batch. Raises ScheduleError
    (code "form") for what is not such lists. A Schedule is returned as it is.
    """
    if isinstance(actions, Schedule):
        return actions
    if not isinstance(actions, (list, tuple)) or not actions:
        text = f"a schedule is a list with one list of actions for each rank, not {_shown(actions)}"
        raise ScheduleError(text, "form")
    rows = []
    for rank, row in enumerate(actions):
        if not isinstance(row, (list, tuple)) or (row and isinstance(row[0], str)):
            text = f"rank {rank} has {_shown(row)}: give a list of actions such as [('F', 0), ('B', 0)]"
            raise ScheduleError(text, "form")
        rows.append([_action(rank, given) for given in row])
    if not any(rows):
        raise ScheduleError("no rank does anything: give actions such as ('F', 0)", "form")
    every = [part for row in rows for action in row for part in parts(action)]
    chunks = 1 + max(chunk for _, _, chunk in every)
    count = 1 + max((micro for _, micro, _ in every if micro is not None), default=0)
    return Schedule(name, rows, place or looped(len(rows), chunks), microbatches or count)


def _action(rank: int, given: Any) -> Action:
    example = "write ('F', 0), or ('F', 0, 1) for chunk 1"
    if not isinstance(given, (tuple, list)) or not 2 <= len(given) <= 4:
        raise ScheduleError(f"rank {rank} has the action {_shown(given)}: {example}", "form")
    action = Action(*given)
    if action.kind not in KINDS:
        text = f"rank {rank} has an action of kind {_shown(action.kind)}; kinds are {', '.join(KINDS)}"
        raise ScheduleError(text, "kind")
    if (action.kind == "FB") != (action.back is not None) or action.back is not None and not _two(action.back):
        raise ScheduleError(f"rank {rank} has {_shown(given)}: FB, and only FB, ends in (micro-batch, chunk)", "form")
    for kind, micro, chunk in parts(action):
        if not _whole(chunk) or not (_whole(micro) or kind == "SYNC" and micro is None):
            raise ScheduleError(f"rank {rank} has the action {_shown(given)}: {example}", "form")
    return action


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _two(back: Any) -> bool:
    return isinstance(back, (tuple, list)) and len(back) == 2


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 60 else text[:57] + "..."


def split_backward(order: Schedule, most: Sequence[int]) -> Schedule:
    """Return an order in which every B is I and W: rank r lets at most `most[r]` of its Ws wait, then does the oldest.

    So a split order can be made of any other. It need not be the best one: nothing looks for gaps.
    """
    rows = []
    for row, waiting in zip(order.actions, most, strict=True):
        split, later = [], []
        for action in row:
            split.append(action._replace(kind="I") if action.kind == "B" else action)
            later += [action._replace(kind="W")] if action.kind == "B" else []
            split += later[: max(0, len(later) - waiting)]
            del later[: max(0, len(later) - waiting)]
        rows.append(split + later)
    return replace(order, name=f"{order.name}, split", actions=rows)


def whole_backward(rows: Sequence[Sequence[Action]]) -> list[list[Action]]:
    """Return actions in which every I becomes a whole backward B and every W is left out."""
    return [[a._replace(kind="B") if a.kind == "I" else a for a in row if a.kind != "W"] for row in rows]
