"""A training run that fails at random: what each hour of it is spent on, and how much of it lasts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.costs import expected_goodput, young_interval

KINDS = ("training", "saving", "lost", "restarting")


class Piece(NamedTuple):
    """What the whole job did from one second to another."""

    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class FailingRun:
    """A simulated run: its pieces in order of time."""

    pieces: list[Piece]
    failures: int

    def seconds(self, kind: str) -> float:
        return sum(piece.end - piece.start for piece in self.pieces if piece.kind == kind)

    @property
    def goodput(self) -> float:
        """The share of the time that is training which lasts."""
        return self.seconds("training") / self.pieces[-1].end


def failing_run(
    interval: float, mtbf: float, save: float, restart: float, days: float = 54.0, seed: int = 0, write: float = 0.0
) -> FailingRun:
    """Return a run that saves after every `interval` seconds of training and fails on average every `mtbf` seconds.

    Failures come at a constant rate, also while a save or a restart is under way. What was trained since the last
    safe save is lost; a save is safe `write` seconds after its end. The last piece ends with the first after `days`.
    """
    for name, value in {"interval": interval, "mtbf": mtbf, "days": days}.items():
        if not value > 0:
            raise ValueError(f"{name} = {value!r}: give a number above 0")
    for name, value in {"save": save, "restart": restart, "write": write}.items():
        if not value >= 0:
            raise ValueError(f"{name} = {value!r}: give seconds, 0 or more")
    if interval < write:
        raise ValueError(f"interval = {interval!r}: a copy is written for {write!r} s, and the next one has to wait")
    draw, until = random.Random(seed), days * 86_400
    pieces, failures = list[Piece](), 0
    now, fails = 0.0, draw.expovariate(1 / mtbf)
    while now < until:
        steps = [("training", interval), ("saving", save)]
        ended = list(_until(now, steps, fails))
        if len(ended) == len(steps):
            pieces += ended
            now = ended[-1].end
            continue
        if pieces and pieces[-1].kind == "saving" and pieces[-1].end + write > fails:  # its copy is not yet written
            del pieces[-2:]
        begun = pieces[-1].end if pieces else 0.0
        pieces.append(Piece("lost", begun, fails))  # training since the save before, and a save that was not finished
        failures, now = failures + 1, fails
        fails = now + draw.expovariate(1 / mtbf)
        while now + restart > fails:  # it fails again before it is back
            pieces.append(Piece("restarting", now, fails))
            failures, now = failures + 1, fails
            fails = now + draw.expovariate(1 / mtbf)
        pieces.append(Piece("restarting", now, now + restart))
        now += restart
    return FailingRun(pieces, failures)


def _until(now: float, steps: list[tuple[str, float]], fails: float) -> Iterator[Piece]:
    """Yield the steps that end before the failure."""
    for kind, seconds in steps:
        if now + seconds > fails:
            return
        yield Piece(kind, now, now + seconds)
        now += seconds


def expected_shares(
    interval: float, mtbf: float, save: float, restart: float, write: float = 0.0
) -> dict[str, float]:
    """Return for each of KINDS the share of the time that it takes on average; together they are 1.

    Outside restarts the job fails once in `mtbf`, and a restart that may itself fail takes mtbf (e^(restart/mtbf) - 1).
    """
    training = expected_goodput(interval, mtbf, save, restart, write)
    saving, up = training * save / interval, math.exp(-restart / mtbf)
    return dict(zip(KINDS, (training, saving, up - training - saving, 1 - up), strict=True))


def best_shares(mtbf: float, save: float, restart: float, write: float = 0.0) -> dict[str, float]:
    """Return what the time goes into if one saves as often as is best and possible, all in seconds."""
    tries = [max(write, young_interval(mtbf, save) * 2 ** (step / 20)) for step in range(-40, 21)]
    best = max(tries, key=lambda interval: expected_goodput(interval, mtbf, save, restart, write))
    return expected_shares(best, mtbf, save, restart, write)


def mean_goodput(
    interval: float, mtbf: float, save: float, restart: float, runs: int = 20, days: float = 54.0, write: float = 0.0
) -> float:
    """Return the mean goodput of several runs, which differ in when they fail."""
    ended = [failing_run(interval, mtbf, save, restart, days, seed, write) for seed in range(runs)]
    return sum(one.goodput for one in ended) / runs
