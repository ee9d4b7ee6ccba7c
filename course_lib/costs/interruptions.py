"""How often a large run is interrupted, and how much of its time is left for training.

Failures are taken to come at a constant rate and independently of each other, so that the time to the next one does not
depend on how long the run has been well (an exponential distribution). Real failures come in bursts as well, when a
switch or a bad deployment takes many nodes at once.
"""

from __future__ import annotations

import math
from numbers import Real

LLAMA_3_DAYS, LLAMA_3_GPUS = 54, 16_384
LLAMA_3 = {
    "faulty GPU": 148, "GPU memory (HBM3)": 72, "software bug": 54, "network switch or cable": 35,
    "host maintenance, unplanned": 32, "GPU SRAM": 19, "GPU system processor": 17, "network card": 7,
    "watchdog timeout": 7, "silent data corruption": 6, "GPU thermal": 6, "SSD": 3, "power supply": 3,
    "five kinds with 2 each": 10,
}  # fmt: skip
"""Unplanned interruptions in 54 days of pre-training, by cause: The Llama 3 Herd of Models (2407.21783), table 5.

With 47 planned ones there were 466. The paper prints 30.1 % for the first row; 148 of 419 are 35.3 %."""

RSC_1 = 6.5e-3
"""Failures per day and node of eight A100s in Meta's cluster RSC-1, as reported for 2410.21680."""


def mean_hours_between_failures(gpus: int, per_node_day: float = RSC_1, gpus_per_node: int = 8) -> float:
    """Return the mean hours between two failures of a job: 1 / (nodes x rate of a node) (2410.21680)."""
    _positive(gpus=gpus, per_node_day=per_node_day, gpus_per_node=gpus_per_node)
    return 24 / (gpus / gpus_per_node * per_node_day)


def young_interval(mtbf: float, save: float) -> float:
    """Return the seconds of training between two saves that lose least: sqrt(2 x save x mtbf) (Young, CACM 1974)."""
    _positive(mtbf=mtbf, save=save)
    return math.sqrt(2 * save * mtbf)


def expected_goodput(interval: float, mtbf: float, save: float, restart: float, write: float = 0.0) -> float:
    """Return the share of time that is training which lasts, exactly, for failures at a constant rate.

    An interval counts when training and its save have ended: on average after mtbf (e^((interval + save)/mtbf) - 1)
    seconds, times e^(restart/mtbf) for restarts that may fail themselves (Daly, FGCS 22, 2006, equation 14).

    `save` stops training. `write` is how long a copy is written afterwards, beside training, until it is safe. A life
    of the job of X seconds keeps the n intervals with n (interval + save) + write <= X, so the write costs as much as
    a restart that is longer by it. Only one copy is written at a time, so `interval` must not be shorter.
    """
    _positive(interval=interval, mtbf=mtbf)
    _not_negative(save=save, restart=restart, write=write)
    if interval < write:
        raise ValueError(f"interval = {interval!r}: a copy is written for {write!r} s, and the next one has to wait")
    try:
        taken = mtbf * math.exp((restart + write) / mtbf) * math.expm1((interval + save) / mtbf)
    except OverflowError:
        return 0.0
    return interval / taken


def spares_for(nodes: int, failures_per_node_day: float, repair_days: float, surely: float) -> int:
    """Return the fewest spare nodes that are enough with this probability, in the long run.

    How many of the nodes are being repaired at one moment follows a Poisson distribution with the mean nodes x rate x
    repair, whatever the distribution of the repair times (Palm's theorem).
    """
    _positive(nodes=nodes)
    _not_negative(failures_per_node_day=failures_per_node_day, repair_days=repair_days)
    if not 0 <= surely < 1:
        raise ValueError(f"surely = {surely}: give a probability below 1, such as 0.99; no number of spares is certain")
    mean = nodes * failures_per_node_day * repair_days
    if mean > 700:
        raise ValueError(f"{mean:,.0f} nodes would be in repair at once: this formula adds up at most 700")
    term = total = math.exp(-mean)
    spares = 0
    while total < surely:
        spares += 1
        term *= mean / spares
        total += term
    return spares


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not isinstance(value, Real) or not 0 < value < math.inf:
            raise ValueError(f"{name} = {value!r}: give a number above 0")


def _not_negative(**numbers: float) -> None:
    for name, value in numbers.items():
        if not isinstance(value, Real) or not 0 <= value < math.inf:
            raise ValueError(f"{name} = {value!r}: give a number, 0 or more")
