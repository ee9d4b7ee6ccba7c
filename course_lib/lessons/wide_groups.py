"""Tokens per second of a served mixture, by the width of its group: the batch that fits, and the time of a step."""

from __future__ import annotations

from course_lib.costs import expert_bytes
from course_lib.hardware import GPU
from course_lib.measured import DEEPEP, DeepEP
from course_lib.memory import kv_cache_bytes
from course_lib.models import ModelShape, attention_weights, parameter_count

__all__ = ["DEEPEP", "room_and_step"]
STARTS = 44e-6 + 65e-6  # of dispatch and combine: fitted to DeepEP's six times


def room_and_step(shape: ModelShape, gpu: GPU, row: DeepEP, context: int) -> tuple[int, dict[str, float]]:
    """Return the requests of `context` tokens that fit on a GPU of the group, and a step's seconds, part by part.

    Weights are fp8, the cache is bf16; attention and all else but the routed experts is on every GPU. A layer reads its
    experts (or computes, if that takes longer), attention's weights, the shared expert and the cache of all requests
    (or attends, if that takes longer: in latent attention's absorbed form), and makes two trips. Their times are
    DeepEP's for 128 tokens: beyond the start they grow with the batch. Nothing is hidden; speeds are the data sheet's.
    """
    one = 3 * shape.hidden * shape.expert_ffn
    held = expert_bytes(shape, row.ranks, width=1)
    other = parameter_count(shape) - expert_bytes(shape, 1, width=1)
    request = kv_cache_bytes(shape, context)
    requests = max(0, int((gpu.memory - other - held) // request))
    arithmetic = requests * shape.experts_per_token * 2 * one / gpu.peak("fp8")
    experts = max(held / shape.moe_layers / gpu.memory_bandwidth, arithmetic)
    everywhere = (attention_weights(shape) + shape.shared_experts * one) / gpu.memory_bandwidth
    latent = shape.latent
    attended = 2 * shape.heads * (2 * latent.kv_rank + latent.rotary) * context / gpu.peak("bf16")
    cache = requests * max(request / shape.layers / gpu.memory_bandwidth, attended)
    trips = STARTS + (row.dispatch + row.combine - STARTS) * requests / 128
    layer = {"weights": experts + everywhere, "caches": cache, "trips": trips}
    return requests, {part: shape.layers * seconds for part, seconds in layer.items()}
