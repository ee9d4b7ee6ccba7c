"""The rules that every rank must keep by itself, and the sentence that names the first one it breaks."""

from __future__ import annotations

from course_lib.schedules.actions import Action, Schedule, ScheduleError, parts


def name_of(kind: str, micro: int | None, chunk: int, chunks: int) -> str:
    """Return an action in words: B(3), or B(3) of chunk 1 where a rank has several chunks."""
    text = kind if micro is None else f"{kind}({micro})"
    return f"{text} of chunk {chunk}" if chunks > 1 else text


def check_ranks(schedule: Schedule) -> None:
    """Raise ScheduleError unless every rank does its part, once, and in an order that it could follow alone."""
    _check_place(schedule)
    taken = _taken_by_copy(schedule)
    for rank, row in enumerate(schedule.actions):
        chunks = schedule.place[rank]
        done: dict[tuple[str, int | None, int], int] = {}
        for action in row:
            for part in parts(action):
                _check_part(schedule, rank, part, done, taken)
                done[part] = len(done)
        for chunk, (_, copy) in enumerate(chunks):
            for micro in sorted(taken[copy]):
                _check_whole(rank, micro, chunk, len(chunks), done)
            if schedule.copies > 1 and ("SYNC", None, chunk) not in done:
                text = f"rank {rank} never runs SYNC of chunk {chunk}: its other copy has gradients too, sum them"
                raise ScheduleError(text, "sync-missing")


def _check_place(schedule: Schedule) -> None:
    if len(schedule.place) != len(schedule):
        raise ScheduleError(f"{len(schedule)} ranks have actions and {len(schedule.place)} have stages", "form")
    wanted = {(stage, copy) for copy in range(schedule.copies) for stage in range(schedule.stages)}
    if set(schedule.where) != wanted or len(schedule.where) != sum(map(len, schedule.place)):
        raise ScheduleError(f"every stage stands on one rank; this places {sorted(schedule.where)}", "form")


def _taken_by_copy(schedule: Schedule) -> list[set[int]]:
    """Return for each copy of the model the micro-batches that its first stage takes."""
    everything = set(range(schedule.microbatches))
    if schedule.copies == 1:
        return [everything]
    taken = []
    for copy in range(schedule.copies):
        rank, chunk = schedule.where[0, copy]
        found = [part[1] for action in schedule[rank] for part in parts(action) if part[0] == "F" and part[2] == chunk]
        taken.append(set(found))
    for micro in everything:
        holders = [copy for copy, micros in enumerate(taken) if micro in micros]
        if len(holders) != 1:
            text = f"micro-batch {micro} enters {len(holders)} copies of the model ({holders}); it has to enter one"
            raise ScheduleError(text, "copies")
    return taken


def _check_part(schedule: Schedule, rank: int, part: tuple, done: dict, taken: list[set[int]]) -> None:
    kind, micro, chunk = part
    chunks = schedule.place[rank]

    def name() -> str:
        return name_of(kind, micro, chunk, len(chunks))

    if chunk >= len(chunks):
        held = "one chunk, 0" if len(chunks) == 1 else f"{len(chunks)} chunks, 0 to {len(chunks) - 1}"
        raise ScheduleError(f"rank {rank} runs {kind}({micro}) of chunk {chunk}, and it has {held}", "chunk")
    if part in done:
        raise ScheduleError(f"rank {rank} runs {name()} twice", "twice")
    if kind == "SYNC":
        late = [p for action in _after(schedule[rank], chunk) for p in parts(action) if p[2] == chunk and p[0] in "BIW"]
        if late:
            raise ScheduleError(
                f"rank {rank} runs {name()} before {name_of(*late[0], len(chunks))}: "
                "sum gradients once all of them are there", "sync-early",
            )  # fmt: skip
        return
    if micro not in taken[chunks[chunk][1]]:
        if micro >= schedule.microbatches:
            text = f"rank {rank} runs {name()}; micro-batches are 0 to {schedule.microbatches - 1}"
            raise ScheduleError(text, "microbatch")
        raise ScheduleError(f"rank {rank} runs {name()}, and micro-batch {micro} went into the other copy", "copies")
    if kind in "BI" and ("F", micro, chunk) not in done:
        if not any(("F", micro, chunk) in parts(action) for action in schedule[rank]):
            _check_whole(rank, micro, chunk, len(chunks), done)
        text = f"rank {rank} runs {name()} before F({micro}): there is nothing to go back through yet"
        raise ScheduleError(text, "backward-before-forward")
    if kind == "W" and ("I", micro, chunk) not in done:
        raise ScheduleError(
            f"rank {rank} runs {name()} before I({micro}): the weight part needs what the input part leaves behind",
            "weight-before-input",
        )
    if kind in "BI" and ("B" if kind == "I" else "I", micro, chunk) in done:
        text = f"rank {rank} runs both B({micro}), the whole backward, and I({micro}), a part of it"
        raise ScheduleError(text, "twice")


def _after(row: list[Action], chunk: int) -> list[Action]:
    """Return what follows the SYNC of a chunk."""
    return row[row.index(Action("SYNC", None, chunk)) + 1 :]


def _check_whole(rank: int, micro: int, chunk: int, chunks: int, done: dict) -> None:
    """Check that one micro-batch went forward, back, and (where the backward is split) into the weights."""
    of = f" of chunk {chunk}" if chunks > 1 else ""
    if ("F", micro, chunk) not in done:
        raise ScheduleError(f"rank {rank} never runs F({micro}){of}", "forward-missing")
    if ("B", micro, chunk) in done:
        return
    if ("I", micro, chunk) not in done:
        text = f"rank {rank} never runs B({micro}){of}: the gradient of micro-batch {micro} is lost"
        raise ScheduleError(text, "backward-missing")
    if ("W", micro, chunk) not in done:
        text = f"rank {rank} runs I({micro}){of} and never W({micro}): these weights get no gradient"
        raise ScheduleError(text, "weight-missing")
