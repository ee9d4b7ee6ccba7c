"""What expert parallelism costs: bytes to the experts and back, seconds of the two all-to-alls, memory of the experts.

Of one mixture layer: every token is sent to its k experts (**dispatch**), and k results come back (**combine**). Ranks
hold equally many experts each. All formulas take the router for uniform, unless they say otherwise.
"""

from __future__ import annotations

import math

from course_lib.hardware import Link
from course_lib.models import ModelShape, check_choice, check_whole, mlp_parameters

ALGORITHMS = ("at_once", "pairwise")
FP8_BLOCK, SCALE = 128, 4  # DeepSeek-V3 (2412.19437, 3.3.2): a scale of four bytes for every 128 numbers of one byte


def dispatch_bytes(shape: ModelShape, width: int = 2, scales: bool = False) -> int:
    """Return the bytes that one token sends to its experts in one mixture layer: k copies of its vector.

    `width`: bytes a number (2: bf16, 1: fp8). `scales`: with fp8's scales, 4 bytes for every 128 numbers. A copy that
    stays on its own rank is counted: a share of 1/P with P ranks does not travel. DeepSeek-V3: 59,136 (fp8).
    """
    vector = shape.hidden * width + (math.ceil(shape.hidden / FP8_BLOCK) * SCALE if scales else 0)
    return _mixture(shape).experts_per_token * vector


def combine_bytes(shape: ModelShape, width: int = 2) -> int:
    """Return the bytes that come back for one token in one mixture layer: k vectors (DeepSeek-V3: 114,688 in bf16).

    Backward sends the same ways reversed: a gradient to the experts (as many bytes as here), and one back for each
    copy that was dispatched. So a training step in one dtype sends four times this for each token and layer.
    """
    return _mixture(shape).experts_per_token * shape.hidden * width


def all_to_all_seconds(
    ranks: int, per_node: int, size: float, fast: Link, slow: Link, algorithm: str = "at_once", start: float = 0.0
) -> float:
    """Return the seconds of an all-to-all of equal pieces: each rank brings `size` bytes, 1/ranks of them for each.

    Every rank has a port of its own (`slow`) out of its node. "at_once": all messages fly together, as in kernels made
    for experts (DeepEP); bytes inside the node and out of it overlap, and one latency is paid:

        start + max(alpha_fast + near / B_fast, alpha_slow + away / B_slow)

    with near = (per_node - 1) / ranks of `size` and away = (ranks - per_node) / ranks. "pairwise": the simulator's
    P - 1 rounds, one partner after the other; where there are several nodes, somebody's partner of every round is in
    another node and all keep step with it, so a round costs alpha_slow + size / P / B_slow. Equal to the simulator
    (tests/test_experts.py). With start = 44e-6, links of 0 latency, 200 and 50 GB/s, DeepEP's six published times
    of dispatch come out within 3.2 %. On one rank 0.
    """
    check_whole(ranks=ranks, per_node=per_node)
    check_choice("algorithm", algorithm, ALGORITHMS)
    if not size >= 0:
        raise ValueError(f"size = {size!r}: must be 0 or more, in bytes")
    if ranks > per_node and ranks % per_node:
        raise ValueError(f"ranks = {ranks}: must fill nodes of per_node = {per_node}")
    inside = min(ranks, per_node)
    if ranks == 1:
        return 0.0
    if algorithm == "pairwise":
        link = slow if ranks > inside else fast
        return start + (ranks - 1) * (link.latency + size / ranks / link.bandwidth)
    near = fast.latency + size * (inside - 1) / ranks / fast.bandwidth if inside > 1 else 0.0
    away = slow.latency + size * (ranks - inside) / ranks / slow.bandwidth if ranks > inside else 0.0
    return start + max(near, away)


def experts_per_rank(shape: ModelShape, ranks: int) -> int:
    """Return the experts of each layer that one of `ranks` ranks holds; ValueError where they do not divide evenly."""
    check_whole(ranks=ranks)
    experts = _mixture(shape).experts
    if experts % ranks:
        raise ValueError(
            f"ranks = {ranks}: must divide the {experts} experts of {shape.name}, so that all hold as many"
        )
    return experts // ranks


def expert_parameters(shape: ModelShape, ranks: int = 1) -> int:
    """Return the parameters of the routed experts that one rank holds, in all mixture layers (biases counted).

    What is not in it (attention, router, shared experts, embeddings) is on every rank: parameter_count(shape) -
    expert_parameters(shape). Gradients of experts are summed over the ranks that hold the *same* experts only.
    """
    return shape.moe_layers * experts_per_rank(shape, ranks) * mlp_parameters(shape, shape.expert_ffn)


def expert_bytes(shape: ModelShape, ranks: int = 1, width: float = 2) -> float:
    """Return the bytes of the routed experts on one rank: `width` bytes each (bf16: 2; in training 16)."""
    return expert_parameters(shape, ranks) * width


def nodes_reached(experts: int, per_token: int, nodes: int, most: int | None = None) -> float:
    """Return the expected number of nodes that hold one of a token's experts: N (1 - C(E - E/N, k) / C(E, k)).

    Each set of k experts is equally likely. `most`: node-limited routing, a router may use so many nodes only (then the
    k experts are any of that many nodes' experts). 8 of 256 on 8 nodes: 5.29; at most 4 nodes: 3.63.
    """
    check_whole(experts=experts, per_token=per_token, nodes=nodes, most=most)
    if experts % nodes:
        raise ValueError(f"nodes = {nodes}: must divide experts = {experts}, so that all hold as many")
    each = experts // nodes
    nodes = min(nodes, most or nodes)
    experts = each * nodes
    if per_token > experts:
        raise ValueError(f"per_token = {per_token}: at most the {experts} experts that a token may use")
    return nodes * (1 - math.comb(experts - each, per_token) / math.comb(experts, per_token))


def dropped_share(mean: float, factor: float) -> float:
    """Return the share of (token, expert) pairs over capacity where a uniform router sends `mean` tokens an expert.

    Capacity is factor * mean (rounded down), and an expert's load is Poisson's with that mean, as it is where there are
    many experts: E[max(load - capacity, 0)] / mean. Mean 64: 4.98 % at a factor of 1, 0.13 % at 1.25.
    """
    if not (mean > 0 and factor >= 0):
        raise ValueError(f"mean = {mean!r}, factor = {factor!r}: must be above 0, and 0 or more")
    capacity = math.floor(factor * mean)
    kept = chance = math.exp(-mean)  # chance of `load` tokens; kept: of any load up to it
    held = 0.0  # expected min(load, capacity)
    for load in range(capacity):
        held += 1 - kept
        chance *= mean / (load + 1)
        kept += chance
    return 1 - held / mean


def _mixture(shape: ModelShape) -> ModelShape:
    if not shape.experts:
        raise ValueError(f"shape = {shape.name!r}: has no experts")
    return shape
