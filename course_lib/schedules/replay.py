"""A replay of a schedule: every rank takes its actions in order, each as soon as what it needs has arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from course_lib.schedules.actions import KINDS, Action, Place, Schedule, ScheduleError, as_schedule, parts
from course_lib.schedules.rules import check_ranks, name_of


class Span(NamedTuple):
    """One action of one rank in time, with the fields of `course_lib.events.Event` that a timeline draws.

    `posted` is when the rank had finished what came before: between `posted` and `start` it waited.
    """

    rank: int
    kind: str
    start: float
    end: float
    posted: float
    label: str
    action: Action


def validate(schedule: Any, place: Place | None = None, microbatches: int | None = None) -> Schedule:
    """Return the schedule, or raise ScheduleError that names the first rule it breaks.

    Plain lists of (kind, micro-batch[, chunk]) are read as by `as_schedule`. The codes: form, kind, chunk, microbatch,
    twice, forward-missing, backward-before-forward, backward-missing, weight-before-input, weight-missing,
    copies, sync-missing, sync-early, deadlock.
    """
    schedule = as_schedule(schedule, place, microbatches)
    check_ranks(schedule)
    nothing = [0.0] * schedule.stages
    follow(schedule, {kind: nothing for kind in KINDS})
    return schedule


def play(
    schedule: Any,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 1.0,
    weight: float | Sequence[float] = 1.0,
    communication: float = 0.0,
    *,
    overlapped: float | None = None,
    synchronization: float = 0.0,
    place: Place | None = None,
) -> Played:
    """Return when every action of a schedule starts and ends, and what follows from it.

    Seconds of one micro-batch through one stage: `forward`, `backward` (the input part alone) and `weight`, each one
    number or one per stage; a whole backward takes `backward + weight`. `communication` passes between the end of an
    action and the start of the one on another rank that needs its result; ranks go on meanwhile. `overlapped` is the
    time of one FB (default: no gain, the sum of its parts), `synchronization` that of one SYNC. Raises ScheduleError
    as `validate` does, ValueError for costs that are negative or do not fit the stages.
    """
    schedule = as_schedule(schedule, place)
    check_ranks(schedule)
    f = _per_stage("forward", forward, schedule.stages)
    i = _per_stage("backward", backward, schedule.stages)
    w = _per_stage("weight", weight, schedule.stages)
    (c,) = _per_stage("communication", communication, 1)
    (s,) = _per_stage("synchronization", synchronization, 1)
    times = {"F": f, "I": i, "W": w, "B": [x + y for x, y in zip(i, w, strict=True)], "SYNC": [s] * schedule.stages}
    spans = follow(schedule, times, c, overlapped)
    return Played(schedule, spans)


def _per_stage(name: str, cost: Any, stages: int) -> list[float]:
    costs = [cost] * stages if isinstance(cost, (int, float)) else list(cost)
    if len(costs) != stages:
        raise ValueError(f"{name} has {len(costs)} costs; {stages} stages need {stages}, or one number for all")
    for value in costs:
        if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise ValueError(f"{name} = {value!r}: a cost is a number of seconds, 0 or more")
    return costs


def follow(
    schedule: Schedule,
    seconds: Mapping[str, Sequence[float]],
    travel: float = 0.0,
    overlapped: float | None = None,
) -> list[Span]:
    """Return the span of every action, which takes `seconds[kind][stage]`; a result needs `travel` to another rank.

    Raises ScheduleError (code "deadlock") when no rank can go on.

    Invariant: a rank is in `ready`, or waits in `waiting` for one result that does not exist yet, or is at its end.
    """
    last = schedule.stages - 1
    ends: dict[tuple, float] = {}  # (F or B, stage, copy, micro-batch): when it ended; SYNC: when it came
    clocks, places = [0.0] * len(schedule), [0] * len(schedule)
    waiting: dict[tuple, list[int]] = {}
    ready, spans = list(range(len(schedule)))[::-1], []
    ranks_of = {at: rank for at, (rank, _) in schedule.where.items()}

    def need_of(kind: str, stage: int, copy: int, micro: int | None) -> tuple | None:
        if kind == "F":
            return ("F", stage - 1, copy, micro) if stage else None
        if kind == "SYNC":
            return ("SYNC", stage, 1 - copy)
        return ("B", stage + 1, copy, micro) if kind != "W" and stage < last else None

    while ready:
        rank = ready.pop()
        row, held = schedule.actions[rank], schedule.place[rank]
        while places[rank] < len(row):
            action = row[places[rank]]
            steps = [(kind, *held[chunk], micro) for kind, micro, chunk in parts(action)]
            if action.kind == "SYNC":
                _arrive(ends, ("SYNC", *steps[0][1:3]), clocks[rank], waiting, ready)
            start = clocks[rank]
            for step in steps:
                need = need_of(*step)
                if need is not None:
                    if need not in ends:
                        break
                    at = ends[need]
                    if need[0] != "SYNC" and ranks_of[need[1:3]] != rank:
                        at += travel
                    if at > start:
                        start = at
            else:
                if action.kind == "FB" and overlapped is not None:
                    end = start + overlapped
                else:
                    end = start + sum([seconds[kind][stage] for kind, stage, _, _ in steps])
                spans.append(Span(rank, _kind(action), start, end, clocks[rank], _label(action), action))
                clocks[rank] = end
                places[rank] += 1
                for kind, stage, copy, micro in steps:
                    if kind in "FBI":
                        _arrive(ends, ("F" if kind == "F" else "B", stage, copy, micro), end, waiting, ready)
                continue
            waiting.setdefault(need, []).append(rank)
            break
    if len(spans) < sum(map(len, schedule.actions)):
        raise ScheduleError(_deadlock(schedule, places, waiting, ranks_of), "deadlock")
    return spans


def _arrive(ends: dict, key: tuple, time: float, waiting: dict, ready: list) -> None:
    ends.setdefault(key, time)
    if key in waiting:
        ready.extend(waiting.pop(key))


def _kind(action: Action) -> str:
    return action.kind if not action.chunk or action.kind in ("FB", "SYNC") else f"{action.kind} chunk {action.chunk}"


def _label(action: Action) -> str:
    if action.kind == "FB":
        return f"{action.microbatch}&{action.back[0]}"
    return "" if action.microbatch is None else str(action.microbatch)


def _deadlock(schedule: Schedule, places: list, waiting: dict, ranks_of: dict) -> str:
    """Return who waits for whom, along the circle if there is one."""
    wants = {rank: need for need, ranks in waiting.items() for rank in ranks}
    rank, path = min(wants), []
    while rank in wants and rank not in path:
        path.append(rank)
        rank = ranks_of[wants[rank][1:3]]
    path = path[path.index(rank) :] if rank in path else path
    told = []
    for rank in path[:3]:
        action, need = schedule[rank][places[rank]], wants[rank]
        other, chunk = schedule.where[need[1:3]]
        names = [name_of(*part, len(schedule.place[rank])) for part in parts(action)]
        kinds = {part[0] for act in schedule[other] for part in parts(act)}
        kind = "I" if need[0] == "B" and "I" in kinds else need[0]
        missing = name_of(kind, need[3] if len(need) > 3 else None, chunk, len(schedule.place[other]))
        told.append(f"rank {rank} stands at {' & '.join(names)}, which needs {missing} of rank {other}")
    more = f"; and {len(path) - 3} more ranks in the circle" if len(path) > 3 else ""
    return "no rank can go on: " + "; ".join(told) + more


class Played:
    """What a schedule came to, replayed or measured. All times in seconds; all lists have one entry a rank.

    Two things are called bubble, here under two names. `bubble_share`: idle time as a share of all ranks' time until
    the end. `bubble_to_ideal`: idle time relative to the time that is worked. And two things are called the end:
    `seconds`, when the last rank is done, and `longest_span`, the longest that one rank took from its own first action
    to its own last one (papers on zero bubbles mean this one).
    """

    def __init__(self, schedule: Schedule, events: list[Span], simulated: bool = True) -> None:
        self.schedule, self.events, self.simulated = schedule, events, simulated
        ranks = range(len(schedule))
        by_rank: list[list[Span]] = [[] for _ in ranks]
        for event in events:
            by_rank[event.rank].append(event)
        self.seconds = max((event.end for event in events), default=0.0)
        self.busy = [sum(event.end - event.start for event in row) for row in by_rank]
        self.spans = [max(e.end for e in row) - min(e.start for e in row) if row else 0.0 for row in by_rank]
        self.peak_activations = [_peak([event.action for event in row]) for row in by_rank]
        share = len(schedule) / schedule.stages  # of a rank's layers that one chunk holds, were the model there once
        self.peak_memory = [peak * share for peak in self.peak_activations]
        self.weight_copies = [
            len(chunks) * share if schedule.synchronous else peak * share
            for chunks, peak in zip(schedule.place, self.peak_activations, strict=True)
        ]

    @property
    def longest_span(self) -> float:
        """The longest time from a rank's own first action to its own last one."""
        return max(self.spans)

    @property
    def bubble_share(self) -> float:
        """Idle time as a share of the total: (p-1)/(m+p-1) for GPipe and 1F1B with equal stages."""
        return 1 - sum(self.busy) / (len(self) * self.seconds) if self.seconds else 0.0

    @property
    def bubble_to_ideal(self) -> float:
        """Idle time relative to the time worked: (p-1)/m for GPipe and 1F1B with equal stages."""
        return len(self) * self.seconds / sum(self.busy) - 1 if sum(self.busy) else 0.0

    @property
    def bubble_of_longest_span(self) -> float:
        """Idle time of the rank with the longest span as a share of that span: the bubble rate of 2401.10241."""
        rank = self.spans.index(self.longest_span)
        return 1 - self.busy[rank] / self.longest_span if self.longest_span else 0.0

    def __len__(self) -> int:
        return len(self.schedule)

    def __repr__(self) -> str:
        name, width = self.schedule.name, len(str(len(self) - 1))
        lines = [
            f"{name}: {self.seconds:,.4g} s, {self.bubble_share:.1%} of it idle "
            f"({self.bubble_to_ideal:.1%} on top of the time worked)"
        ]
        for rank, most in enumerate(self.peak_activations):
            lines.append(
                f"rank {rank:>{width}} | busy {self.busy[rank]:,.4g} s, first to last action "
                f"{self.spans[rank]:,.4g} s, at most {most} activation{'' if most == 1 else 's'} held"
            )
        return "\n".join(lines)


def _peak(actions: list[Action]) -> int:
    """Return how many forwards' activations a rank holds at most: each from its F until its B, or its W if split."""
    held = most = 0
    for action in actions:
        held += action.kind in ("F", "FB")
        most = max(most, held)
        held -= action.kind in ("B", "W", "FB")
    return most


def measured(reports: Sequence[dict], schedule: Any, place: Place | None = None) -> Played:
    """Return what really happened as a `Played`, from what `run_pipeline` returned on every rank, in rank order."""
    schedule = as_schedule(schedule, place)
    late = [report.get("begin", 0.0) for report in reports]  # processes do not start at the same moment
    begin = min(late[rank] + start for rank, report in enumerate(reports) for _, start, _ in report["spans"])
    events = []
    for rank, report in enumerate(reports):
        clock = 0.0
        for number, *span in report["spans"]:
            action = schedule[rank][number]
            start, end = (late[rank] + time - begin for time in span)
            events.append(Span(rank, _kind(action), start, end, clock, _label(action), action))
            clock = end
    simulated = any(report["simulated"] for report in reports)
    return Played(schedule, events, simulated)
