"""Requests, blocks, schedulers, engines and a load balancer: one engine code, on a real model or on a cost model."""

from course_lib.serving.caches import BlockManager, blocks_for
from course_lib.serving.chunked import PaddedEngine, RowEngine, chunked
from course_lib.serving.engine import Engine
from course_lib.serving.metrics import Served, table
from course_lib.serving.requests import Request, synthetic_trace
from course_lib.serving.scheduling import (
    continuous,
    least_loaded,
    on_demand,
    round_robin,
    serve_fleet,
    static_batches,
)
from course_lib.serving.workers import Fitted, Roofline

__all__ = [
    "BlockManager",
    "Engine",
    "Fitted",
    "PaddedEngine",
    "Request",
    "Roofline",
    "RowEngine",
    "Served",
    "blocks_for",
    "chunked",
    "continuous",
    "least_loaded",
    "on_demand",
    "round_robin",
    "serve_fleet",
    "static_batches",
    "synthetic_trace",
    "table",
]
