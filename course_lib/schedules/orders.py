"""The orders that papers have proposed, each as a Schedule. Every function raises ValueError for what it cannot do."""

from __future__ import annotations

from course_lib.schedules.actions import Action, Schedule, both_ways, looped, v_shaped


def _whole(least: int = 1, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} = {value!r}: must be a whole number, at least {least}")


def gpipe(stages: int, microbatches: int) -> Schedule:
    """Return GPipe (1811.06965 §2.3): all forwards, then all backwards, the last micro-batch first."""
    _whole(stages=stages, microbatches=microbatches)
    row = [Action("F", i) for i in range(microbatches)] + [Action("B", i) for i in reversed(range(microbatches))]
    return Schedule("GPipe", [list(row) for _ in range(stages)], looped(stages), microbatches)


def one_f_one_b(stages: int, microbatches: int) -> Schedule:
    """Return 1F1B (PipeDream-Flush, DAPPLE): rank r runs stages-1-r forwards ahead, then one forward, one backward."""
    _whole(stages=stages, microbatches=microbatches)
    rows = []
    for rank in range(stages):
        ahead = min(microbatches, stages - 1 - rank)
        row = [Action("F", i) for i in range(ahead)]
        for i in range(microbatches):
            row += [Action("F", ahead + i)] if ahead + i < microbatches else []
            row += [Action("B", i)]
        rows.append(row)
    return Schedule("1F1B", rows, looped(stages), microbatches)


def pipedream(stages: int, microbatches: int) -> Schedule:
    """Return PipeDream (1806.03377): the order of 1F1B without end, weights updated after every backward."""
    endless = one_f_one_b(stages, microbatches)
    return Schedule("PipeDream", endless.actions, endless.place, microbatches, synchronous=False)


def interleaved(stages: int, microbatches: int, chunks: int, *, short: bool = False) -> Schedule:
    """Return interleaved 1F1B (Narayanan 2021 §2.2) on `stages` ranks, each with `chunks` of stages·chunks stages.

    Rank r runs 2(stages-1-r) + (chunks-1)·stages forwards ahead, with `short` only stages-1-r in place of the first.

    ValueError unless `stages` divides `microbatches`: the ranks take micro-batches in groups of `stages`.
    """
    _whole(stages=stages, microbatches=microbatches, chunks=chunks)
    if microbatches % stages:
        raise ValueError(f"microbatches = {microbatches}: interleaving needs a multiple of the {stages} ranks")
    total = microbatches * chunks

    def turn(k: int) -> tuple[int, int]:
        """Return (micro-batch, chunk) of the k-th forward: a group of them through one chunk, then the next."""
        group, within = divmod(k, stages * chunks)
        return group * stages + within % stages, within // stages

    def back(k: int) -> Action:
        micro, chunk = turn(k)
        return Action("B", micro, chunks - 1 - chunk)

    rows = []
    for rank in range(stages):
        steps = 1 if short or chunks == 1 else 2
        ahead = min(steps * (stages - 1 - rank) + (chunks - 1) * stages, total)
        row = [Action("F", *turn(k)) for k in range(ahead)]
        for k in range(total):
            row += [Action("F", *turn(ahead + k))] if ahead + k < total else []
            row += [back(k)]
        rows.append(row)
    return Schedule("interleaved 1F1B", rows, looped(stages, chunks), microbatches)


def _zero_bubble(name: str, stages: int, microbatches: int, ahead: int) -> Schedule:
    """Return 1F1B with the backward split: rank r runs (stages-1-r)·ahead forwards first; W starts when memory is full.

    Memory is full when a rank holds (stages-1)·ahead + 1 micro-batches, as many as rank 0 needs in any case.
    """
    _whole(stages=stages, microbatches=microbatches)
    full = (stages - 1) * ahead + 1
    rows = []
    for rank in range(stages):
        first = min((stages - 1 - rank) * ahead, microbatches)
        row = [Action("F", i) for i in range(first)]
        forwards, weights = first, 0
        for i in range(microbatches):
            if forwards < microbatches:
                row.append(Action("F", forwards))
                forwards += 1
            row.append(Action("I", i))
            if first + i + 1 >= full:
                row.append(Action("W", weights))
                weights += 1
        row += [Action("W", i) for i in range(weights, microbatches)]
        rows.append(row)
    return Schedule(name, rows, looped(stages), microbatches)


def zb_h1(stages: int, microbatches: int) -> Schedule:
    """Return ZB-H1 (2401.10241 §2.1): the memory of 1F1B, a third of its bubble where F = I = W."""
    return _zero_bubble("ZB-H1", stages, microbatches, 1)


def zb_h2(stages: int, microbatches: int) -> Schedule:
    """Return ZB-H2 (2401.10241 §2.2): 2·stages-1 micro-batches in memory; no rank pauses where F = I = W."""
    return _zero_bubble("ZB-H2", stages, microbatches, 2)


class _Rank:
    """Writes one rank's list; `f(chunk)` appends the chunk's next forward, `b`, `i` and `w` likewise."""

    def __init__(self, microbatches: int) -> None:
        self.row: list[Action] = []
        self.most, self.forwards, self.backwards = microbatches, [0, 0], [0, 0]
        self.owed: list[tuple[int, int]] = []  # (micro-batch, chunk) whose weight part is still to come

    def _next(self, counts: list[int], chunk: int) -> int:
        counts[chunk] += 1
        return counts[chunk] - 1

    def f(self, chunk: int) -> None:
        self.row.append(Action("F", self._next(self.forwards, chunk), chunk))

    def b(self, chunk: int, split: bool = False) -> None:
        micro = self._next(self.backwards, chunk)
        self.row.append(Action("I" if split else "B", micro, chunk))
        if split:
            self.owed.append((micro, chunk))

    def w(self, chunk: int | None = None) -> None:
        """Append the oldest weight part that is still to come, of one chunk if given; nothing when there is none."""
        owed = [place for place, (_, held) in enumerate(self.owed) if chunk in (None, held)]
        if owed:
            self.row.append(Action("W", *self.owed.pop(owed[0])))

    def fb(self, forward: int, backward: int) -> None:
        micro, back = self._next(self.forwards, forward), self._next(self.backwards, backward)
        self.row.append(Action("FB", micro, forward, (back, backward)))


def zb_v(stages: int, microbatches: int) -> Schedule:
    """Return ZB-V (2401.10241 §6) on `stages` ranks with two stages each, down the ranks and up again.

    With fewer than 2·stages-1 micro-batches it is the schedule of 2·stages-1, without the others.
    """
    _whole(stages=stages, microbatches=microbatches)
    planned = max(microbatches, 2 * stages - 1)
    rows = []
    for rank in range(stages):
        me, later = _Rank(planned), stages - rank
        for _ in range(2 * later - 1):
            me.f(0)
        for _ in range(rank):
            me.f(1)
            me.f(0)
        for _ in range(later):
            me.f(1)
            me.b(1, split=True)
            me.w()
        while me.forwards[1] < planned:
            if me.forwards[0] < planned:
                me.f(0)
            me.b(0, split=True)
            me.w()
            me.f(1)
            me.b(1, split=True)
            me.w()
        for _ in range(rank):
            me.b(0, split=True)
            me.b(1, split=True)
        for _ in range(later):
            me.b(0, split=True)
            me.w(0)
        while me.owed:
            me.w(1 if any(chunk for _, chunk in me.owed) else 0)
        rows.append([action for action in me.row if action.microbatch < microbatches])
    return Schedule("ZB-V", rows, v_shaped(stages), microbatches)


def dual_pipe_v(stages: int, microbatches: int) -> Schedule:
    """Return DualPipe-V (deepseek-ai/DualPipe) on `stages` ranks with two stages each, down the ranks and up again.

    In its middle a forward and a whole backward run as one overlapped block, FB. ValueError with fewer than 2·stages
    micro-batches.
    """
    _whole(stages=stages, microbatches=microbatches)
    if microbatches < 2 * stages:
        raise ValueError(f"microbatches = {microbatches}: DualPipe-V needs at least 2·{stages} = {2 * stages}")
    rows = []
    for rank in range(stages):
        me, later = _Rank(microbatches), stages - 1 - rank
        for _ in range(2 * later):
            me.f(0)
        for _ in range(rank + 1):
            me.f(0)
            me.f(1)
        for _ in range(later):
            me.b(1, split=True)
            me.w()
            me.f(1)
        for step in range(microbatches - 2 * stages + rank + 1):
            if step == 0 and rank == stages - 1:
                me.f(0)
                me.b(1)
            else:
                me.fb(0, 1)
            me.fb(1, 0)
        for _ in range(later):
            me.b(1)
            me.fb(1, 0)
        first_split = 2 * ((rank + 1) // 2) + (1 - rank % 2)  # from here on, backwards are split
        for step in range(2 * (rank + 1)):
            me.b(1 - step % 2, split=step >= first_split)
        for _ in range(later):
            me.w()
            me.b(0, split=True)
        while me.owed:
            me.w()
        rows.append(me.row)
    return Schedule("DualPipe-V", rows, v_shaped(stages), microbatches)


def chimera(stages: int, microbatches: int) -> Schedule:
    """Return Chimera (2107.06925 §3.1): two copies of the model, one down the ranks and one up, half the work each.

    ValueError unless `stages` is even and divides `microbatches`; units of `stages` micro-batches follow each other.
    """
    _whole(stages=stages, microbatches=microbatches)
    if stages % 2:
        raise ValueError(f"stages = {stages}: Chimera needs an even number, so that both ways meet in the middle")
    if microbatches % stages:
        raise ValueError(f"microbatches = {microbatches}: Chimera takes them in units of {stages}, as many as stages")
    rows = []
    for rank in range(stages):
        timed = []  # (slot, action) where a forward and a whole backward take one slot each
        for chunk, stage in enumerate((rank, stages - 1 - rank)):
            for i in range(microbatches // 2):
                unit, within = divmod(i, stages // 2)
                micro, begin = unit * stages + chunk * stages // 2 + within, 2 * stages * unit + 2 * within
                timed.append((begin + stage, Action("F", micro, chunk)))
                timed.append((begin + 2 * stages - 1 - stage, Action("B", micro, chunk)))
        row = [action for _, action in sorted(timed)]
        order = (0, 1) if rank < stages // 2 else (1, 0)  # the lower stage first, so that both of its ranks meet there
        rows.append(row + [Action("SYNC", None, chunk) for chunk in order])
    return Schedule("Chimera", rows, both_ways(stages), microbatches)
