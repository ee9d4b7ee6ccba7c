"""How long it takes: compute (matmul, roofline, training days, MFU), collectives, and failures. No torch."""

from __future__ import annotations

from course_lib.costs.collectives import (
    ALGORITHMS,
    algorithm_bandwidth,
    bus_bandwidth,
    collective_bytes,
    collective_seconds,
    crossover_bytes,
    hierarchical_all_reduce_seconds,
    tree_rounds,
)
from course_lib.costs.compute import (
    DAY,
    RECOMPUTE,
    check_positive,
    forward_flops,
    matmul_bytes,
    matmul_flops,
    matmul_intensity,
    ridge_point,
    roofline_flops,
    roofline_seconds,
    step_flops,
    training_days,
    training_flops,
    utilization,
)
from course_lib.costs.interruptions import (
    LLAMA_3,
    LLAMA_3_DAYS,
    LLAMA_3_GPUS,
    RSC_1,
    expected_goodput,
    mean_hours_between_failures,
    spares_for,
    young_interval,
)
from course_lib.costs.nccl import nccl_seconds
from course_lib.costs.protocols import fastest_protocol, one_shot_seconds, protocol_changes, protocol_seconds
from course_lib.costs.rails import rails_seconds
from course_lib.costs.two_trees import best_chunks, pipelined_tree_seconds

__all__ = [
    "ALGORITHMS",
    "DAY",
    "LLAMA_3",
    "LLAMA_3_DAYS",
    "LLAMA_3_GPUS",
    "RECOMPUTE",
    "RSC_1",
    "algorithm_bandwidth",
    "best_chunks",
    "bus_bandwidth",
    "check_positive",
    "collective_bytes",
    "collective_seconds",
    "crossover_bytes",
    "expected_goodput",
    "fastest_protocol",
    "forward_flops",
    "hierarchical_all_reduce_seconds",
    "matmul_bytes",
    "matmul_flops",
    "matmul_intensity",
    "mean_hours_between_failures",
    "nccl_seconds",
    "one_shot_seconds",
    "pipelined_tree_seconds",
    "protocol_changes",
    "protocol_seconds",
    "rails_seconds",
    "ridge_point",
    "roofline_flops",
    "roofline_seconds",
    "spares_for",
    "step_flops",
    "training_days",
    "training_flops",
    "tree_rounds",
    "utilization",
    "young_interval",
]
