"""A few minutes of chat traffic for Llama-3-8B on one simulated H100: by server, requests a second and slots."""

from __future__ import annotations

import functools
from collections.abc import Callable

from course_lib.hardware import H100
from course_lib.models import MODELS
from course_lib.serving.chunked import chunked, fill_row
from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served
from course_lib.serving.requests import Request, synthetic_trace
from course_lib.serving.workers import Roofline

REQUESTS = 2000


def arrivals(rate: float) -> list[Request]:
    """Return the requests of the chat trace, stretched in time until exactly `rate` arrive a second."""
    trace = synthetic_trace("chat", REQUESTS, 1, rate)
    stretch = REQUESTS / trace[-1].arrival / rate
    for request in trace:
        request.arrival *= stretch
    return trace


@functools.cache
def traffic(
    way: Callable | int, rate: float, slots: int = 256, record: bool | str = False, fill: Callable = fill_row
) -> Served:
    """Return what became of those requests; simulated once, also when it is asked for again.

    `way` is the scheduler of an `Engine`, which has as many blocks as fit beside the weights; or the
    budget of rows, which `fill` fills.
    """
    worker = Roofline(MODELS["Llama-3-8B"], H100)
    if isinstance(way, int):
        return chunked(worker, arrivals(rate), way, slots, record, fill)
    return Engine(worker, way, slots=slots, blocks=worker.blocks(), record=record).run(arrivals(rate))
