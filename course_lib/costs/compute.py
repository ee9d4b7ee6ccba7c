"""How long it takes: FLOPs and bytes of a matmul, the roofline, FLOPs and days of a training run, MFU.

Pure functions of plain numbers: FLOPs, bytes, seconds, FLOP/s, bytes/s. A multiply and an add are two FLOPs.
"""

from __future__ import annotations

from course_lib.hardware import GPU
from course_lib.models import ModelShape, attention_weights, check_choice, check_whole, mlp_weights

DAY = 86400.0
RECOMPUTE = ("none", "selective", "full")


def check_positive(**fields: float) -> None:
    """Raises ValueError for the first field that is not above 0 (so also for NaN)."""
    for field, value in fields.items():
        if not value > 0:
            raise ValueError(f"{field} = {value!r}: must be above 0")


# One matmul, and the roofline (Williams et al. 2009)


def matmul_flops(m: int, k: int, n: int) -> int:
    """Return the FLOPs of (m, k) times (k, n): 2mkn."""
    check_whole(m=m, k=k, n=n)
    return 2 * m * k * n


def matmul_bytes(m: int, k: int, n: int, dtype_bytes: float = 2) -> float:
    """Return the least bytes that (m, k) times (k, n) moves to and from memory: each of three matrices once."""
    check_whole(m=m, k=k, n=n)
    check_positive(dtype_bytes=dtype_bytes)
    return dtype_bytes * (m * k + k * n + m * n)


def matmul_intensity(m: int, k: int, n: int, dtype_bytes: float = 2) -> float:
    """Return the arithmetic intensity of a matmul, in FLOPs per byte moved."""
    return matmul_flops(m, k, n) / matmul_bytes(m, k, n, dtype_bytes)


def ridge_point(gpu: GPU, dtype: str = "bf16") -> float:
    """Return the FLOPs per byte from which on `gpu` is limited by its compute, not by its memory."""
    return gpu.peak(dtype) / gpu.memory_bandwidth


def roofline_flops(intensity: float, gpu: GPU, dtype: str = "bf16") -> float:
    """Return the FLOP/s that work of this arithmetic intensity can reach at most: min(peak, intensity x bandwidth)."""
    check_positive(intensity=intensity)
    return min(gpu.peak(dtype), intensity * gpu.memory_bandwidth)


def roofline_seconds(flops: float, moved_bytes: float, gpu: GPU, dtype: str = "bf16") -> float:
    """Return the least seconds for this work on `gpu`: computing and moving overlap perfectly, the slower counts."""
    return max(flops / gpu.peak(dtype), moved_bytes / gpu.memory_bandwidth)


# A training run


def training_flops(parameters: float, tokens: float, recompute: str = "none") -> float:
    """Return the FLOPs of a training run by the rule of thumb: 6 per parameter and token, 8 with full recomputation.

    Forward 2, backward 4, the repeated forward 2 (Kaplan 2001.08361, section 2.1). Attention's scores and the lookup of
    embeddings are ignored. For a mixture of experts `parameters` are the active ones.
    """
    check_positive(parameters=parameters, tokens=tokens)
    check_choice("recompute", recompute, ("none", "full"))
    return (8 if recompute == "full" else 6) * parameters * tokens


def training_days(
    parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float = 1.0, recompute: str = "none"
) -> float:
    """Return the days a training run takes on `gpus` GPUs of `peak_flops` FLOP/s each, of which it reaches `mfu`.

    With recompute="full" this is 8TP/(nX) of Narayanan 2021 (2104.04473, section 5.1); their X, which counts the
    repeated forward as work done, is then `mfu` x `peak_flops`. ValueError for what is not positive, and `mfu` above 1.
    """
    check_whole(gpus=gpus)
    check_positive(peak_flops=peak_flops)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu = {mfu!r}: must be above 0 and at most 1")
    return training_flops(parameters, tokens, recompute) / (gpus * peak_flops * mfu) / DAY


def forward_flops(shape: ModelShape, batch: int, sequence: int, causal: bool = False) -> dict[str, float]:
    """Return the FLOPs of one forward pass: the "layers"' matrices, attention's two products ("scores"), the "head".

    Every matmul is counted and nothing else; FlopCounterMode counts the same. `causal` halves the scores, as Megatron
    does today; Narayanan 2021, PaLM and FlopCounterMode count the full square.
    """
    check_whole(batch=batch, sequence=sequence)
    tokens, moe = batch * sequence, shape.moe_layers
    expert = mlp_weights(shape, shape.expert_ffn)
    weights = shape.layers * attention_weights(shape) + (shape.layers - moe) * mlp_weights(shape)
    weights += moe * (shape.hidden * shape.experts + (shape.experts_per_token + shape.shared_experts) * expert)
    scores = 2 * tokens * sequence * shape.layers * shape.heads * (shape.head_size + shape.value_size)
    return {
        "layers": 2 * tokens * weights,
        "scores": scores / 2 if causal else scores,
        "head": 2 * tokens * shape.hidden * shape.vocabulary,
    }


def step_flops(shape: ModelShape, batch: int, sequence: int, *, causal: bool = False, recompute: str = "none") -> float:
    """Return the FLOPs of forward and backward over one batch: three forwards, plus what is computed again.

    `recompute`: "full" repeats the layers (not the head), "selective" only the scores. With "full" and an MLP four
    times as wide this is Narayanan 2021, appendix: 96Bslh²(1 + s/6h + V/16lh).
    """
    check_choice("recompute", recompute, RECOMPUTE)
    parts = forward_flops(shape, batch, sequence, causal)
    again = {"none": 0, "selective": parts["scores"], "full": parts["layers"] + parts["scores"]}[recompute]
    return 3 * sum(parts.values()) + again


def utilization(flops: float, seconds: float, gpus: int, peak_flops: float) -> float:
    """Return the share of the GPUs' peak that `flops` in `seconds` amount to.

    MFU when `flops` = step_flops(...) without recomputation, HFU when they include it (PaLM, 2204.02311, appendix B).
    """
    check_whole(gpus=gpus)
    check_positive(flops=flops, seconds=seconds, peak_flops=peak_flops)
    return flops / (seconds * gpus * peak_flops)
