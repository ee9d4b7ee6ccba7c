"""The schedules side by side: what each costs on the same model, the same ranks and the same micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from course_lib.schedules import orders
from course_lib.schedules.actions import Schedule
from course_lib.schedules.replay import play

BATCHES = 10  # of an asynchronous schedule: batches follow each other without a flush


def comparison(
    ranks: int,
    microbatches: int,
    chunks: int = 2,
    *,
    costs: Sequence[float] = (1.0, 1.0, 1.0),
    communication: float = 0.0,
) -> dict[str, dict[str, Any]]:
    """Return a row for each schedule: bubble, span_bubble, weights, activations, cuts and synchronous.

    Every schedule trains the same model on `ranks` ranks; `costs` are the seconds of F, I and W for a rank's share of
    it, `communication` those of a message. `bubble` is idle
    time as a share of all time until the last rank is done, `span_bubble` that of the rank which takes longest from
    its own first action to its last; `weights` are copies of its share that a rank keeps, `activations` those of its
    share for one micro-batch, both of the rank with most; `cuts` are the messages of a micro-batch in one
    direction. Schedules that cannot take these numbers are left out.
    """
    makers: dict[str, Callable] = {
        "GPipe": orders.gpipe,
        "1F1B": orders.one_f_one_b,
        "interleaved": lambda ranks, microbatches: orders.interleaved(ranks, microbatches, chunks),
        "ZB-H1": orders.zb_h1,
        "ZB-H2": orders.zb_h2,
        "ZB-V": orders.zb_v,
        "DualPipe-V": orders.dual_pipe_v,
        "Chimera": orders.chimera,
        "PipeDream": lambda ranks, microbatches: orders.pipedream(ranks, BATCHES * microbatches),
    }
    rows = {}
    for name, make in makers.items():
        try:
            schedule = make(ranks, microbatches)
        except ValueError:
            continue
        rows[name] = row_of(schedule, costs, communication)
    return rows


def row_of(schedule: Schedule, costs: Sequence[float] = (1.0, 1.0, 1.0), communication: float = 0.0) -> dict[str, Any]:
    """Return one schedule's row of `comparison`."""
    share = len(schedule) / schedule.stages  # of a rank's layers in one stage
    played = play(schedule, *(share * cost for cost in costs), communication)
    ranks_of = [schedule.where[stage, 0][0] for stage in range(schedule.stages)]
    return {
        "bubble": played.bubble_share,
        "span_bubble": played.bubble_of_longest_span,
        "weights": max(played.weight_copies),
        "activations": max(played.peak_memory),
        "cuts": sum(here != there for here, there in pairwise(ranks_of)),
        "synchronous": schedule.synchronous,
    }


def comparison_text(rows: dict[str, dict[str, Any]]) -> str:
    """Return `comparison` as a text table."""
    lines = [f"{'':<12} {'bubble':>7} {'of own span':>12} {'weights':>8} {'activations':>12} {'cuts':>5}  synchronous"]
    for name, row in rows.items():
        lines.append(
            f"{name:<12} {row['bubble']:>7.1%} {row['span_bubble']:>12.1%} {row['weights']:>8g} "
            f"{row['activations']:>12g} {row['cuts']:>5}  "
            f"{'yes' if row['synchronous'] else 'no'}"
        )
    return "\n".join(lines)
