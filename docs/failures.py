"""Prints the tables of chapter 13: crash points, goodput by simulation and formula, and failures over the size.

    python docs/failures.py
"""

from __future__ import annotations

from collections import Counter

from course_lib.costs import (
    LLAMA_3,
    LLAMA_3_DAYS,
    expected_goodput,
    mean_hours_between_failures,
    young_interval,
)
from course_lib.lessons.careless import CARELESS, crash_everywhere
from course_lib.lessons.failing_run import mean_goodput

MTBF, SAVE, RESTART = LLAMA_3_DAYS * 86_400 / sum(LLAMA_3.values()), 120.0, 600.0


def goodput() -> None:
    tau = young_interval(MTBF, SAVE)
    print(f"Fails every {MTBF / 3600:.2f} h, saves of {SAVE:g} s, restarts of {RESTART:g} s; tau = {tau / 60:.1f} min")
    for factor in (0.25, 0.5, 1, 2, 4):
        simulated = mean_goodput(factor * tau, MTBF, SAVE, RESTART)
        formula = expected_goodput(factor * tau, MTBF, SAVE, RESTART)
        print(f"  tau x {factor:<4}  simulated {simulated:.4f}   formula {formula:.4f}   {simulated - formula:+.4f}")


def sizes() -> None:
    print("Hours between failures of a job, 1 / (nodes x 6.5 per 1,000 node-days), and as reported (2410.21680)")
    for gpus, reported in ((1_024, "7.9 measured"), (16_384, "1.8 projected"), (131_072, "0.23 projected")):
        print(f"  {gpus:>7,} GPUs  {mean_hours_between_failures(gpus):6.2f}   {reported}")


def crashes() -> None:
    from solutions.ch13_when_things_break import save_sharded

    print("Crashes of a save on 4 ranks, and what is wrong after them")
    for name, save in (CARELESS | {"the solution": save_sharded}).items():
        found = crash_everywhere(save)
        lost = Counter(code for code in found if code)
        print(f"  {name:<18} {len(found)} crashes, {sum(lost.values())} lost  {dict(lost) or ''}")


if __name__ == "__main__":
    goodput()
    sizes()
    crashes()
