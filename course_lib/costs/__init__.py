"""How long it takes: compute (matmul, roofline, training days, MFU) and collectives (alpha-beta, busbw). No torch."""

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
from course_lib.costs.experts import (
    all_to_all_seconds,
    combine_bytes,
    dispatch_bytes,
    dropped_share,
    expert_bytes,
    expert_parameters,
    experts_per_rank,
    nodes_reached,
)
from course_lib.costs.nccl import nccl_seconds
from course_lib.costs.protocols import fastest_protocol, one_shot_seconds, protocol_changes, protocol_seconds
from course_lib.costs.rails import rails_seconds
from course_lib.costs.two_trees import best_chunks, pipelined_tree_seconds

__all__ = [
    "ALGORITHMS",
    "DAY",
    "RECOMPUTE",
    "algorithm_bandwidth",
    "all_to_all_seconds",
    "best_chunks",
    "bus_bandwidth",
    "check_positive",
    "collective_bytes",
    "collective_seconds",
    "combine_bytes",
    "crossover_bytes",
    "dispatch_bytes",
    "dropped_share",
    "expert_bytes",
    "expert_parameters",
    "experts_per_rank",
    "fastest_protocol",
    "forward_flops",
    "hierarchical_all_reduce_seconds",
    "matmul_bytes",
    "matmul_flops",
    "matmul_intensity",
    "nccl_seconds",
    "nodes_reached",
    "one_shot_seconds",
    "pipelined_tree_seconds",
    "protocol_changes",
    "protocol_seconds",
    "rails_seconds",
    "ridge_point",
    "roofline_flops",
    "roofline_seconds",
    "step_flops",
    "training_days",
    "training_flops",
    "tree_rounds",
    "utilization",
]
