"""The bytes of each part by itself: weights, gradients, optimizer, saved activations, logits, the KV cache.

Pure functions of a `ModelShape` and plain numbers; every result is in bytes, on one rank.
"""

from __future__ import annotations

from typing import NamedTuple

from course_lib.costs import RECOMPUTE, check_positive
from course_lib.models import (
    ModelShape,
    attention_parameters,
    check_choice,
    check_whole,
    mlp_parameters,
    norm_parameters,
)


class Precision(NamedTuple):
    """Bytes per parameter: weights, gradients, fp32 master weights, each moment of the optimizer; per activation."""

    weights: int
    gradients: int
    master: int
    moment: int
    activation: int


PRECISIONS = {
    "fp32": Precision(4, 4, 0, 4, 4),
    "bf16 mixed": Precision(2, 2, 4, 4, 2),  # 2 + 2 + 12 bytes with Adam
    "fp16 mixed": Precision(2, 2, 4, 4, 2),  # the same: ZeRO, 1910.02054, section 3.1
    "bf16 mixed, fp32 gradients": Precision(2, 4, 4, 4, 2),  # Megatron in bf16: 18 bytes
    "fp16 mixed, fp32 gradients": Precision(2, 6, 4, 4, 2),  # Megatron in fp16: both gradients, 20 bytes
    "bf16 pure": Precision(2, 2, 0, 2, 2),  # model.to(bfloat16): small, and small updates are rounded away
}
OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # moments kept per parameter
LOGIT_BYTES = 4  # the loss is computed in fp32 at every precision


def model_state_bytes(
    parameters: float, precision: str = "bf16 mixed", optimizer: str = "adamw", zero: int = 0, ranks: int = 1
) -> dict[str, float]:
    """Return the bytes of "weights", "gradients" and "optimizer" on each of `ranks` data-parallel ranks.

    `zero` shards the optimizer (1), the gradients too (2), the weights too (3): ZeRO, 1910.02054, section 5. Master
    weights count as optimizer.
    """
    check_choice("precision", precision, PRECISIONS)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_choice("zero", zero, range(4))
    check_whole(ranks=ranks)
    if not parameters >= 0:
        raise ValueError(f"parameters = {parameters!r}: must be 0 or more")
    kind = PRECISIONS[precision]
    return {
        "weights": parameters * kind.weights / (ranks if zero == 3 else 1),
        "gradients": parameters * kind.gradients / (ranks if zero >= 2 else 1),
        "optimizer": parameters * (kind.master + kind.moment * OPTIMIZERS[optimizer]) / (ranks if zero >= 1 else 1),
    }


def layer_activation_bytes(
    shape: ModelShape,
    batch: int,
    sequence: int,
    recompute: str = "none",
    *,
    element: int = 2,
    mask: int = 0,
    tp: int = 1,
    sequence_parallel: bool = False,
    moe: bool = False,
) -> dict[str, float]:
    """Return the bytes one layer saves for its backward, in "attention", "scores" and "mlp", for one micro-batch.

    Korthikanti 2022 (2205.05198), section 4, for any shape. `element`: bytes per activation. `mask`: bytes per element
    of a dropout mask: 0 without dropout, which makes their formula sbh(32 + 2as/h); 1 on GPUs, which gives their
    sbh(34 + 5as/h): two masks of the stream, and for each score a mask and the dropped-out copy; 4 on CPUs in fp32.
    recompute="selective" saves no scores, and neither does FlashAttention; "full" saves the layer's input only. The
    norms' statistics are left out, as in the paper (0.3 % at hidden size 64). `moe`: experts, tokens spread evenly.
    """
    check_whole(batch=batch, sequence=sequence, tp=tp)
    check_choice("recompute", recompute, RECOMPUTE)
    tokens, h = batch * sequence, shape.hidden
    stream = tp if sequence_parallel else 1  # what every tensor-parallel rank holds whole, unless sequences are split
    if recompute == "full":
        return {"attention": tokens * element * h / stream, "scores": 0, "mlp": 0}
    queries = shape.heads * (shape.head_size + shape.value_size) / tp  # queries, and what the output matrix reads
    keys = max(shape.kv_heads / tp, 1) * (shape.head_size + shape.value_size)
    low_rank = 2 * (shape.latent.q_rank + shape.latent.kv_rank) if shape.latent else 0
    score = element + (mask + element if mask else 0)
    inner = 4 if shape.gated else 2  # SwiGLU saves gate, its SiLU, up and their product; GELU its input and output
    if moe:
        used, shared = shape.experts_per_token, shape.shared_experts
        mlp = 2 * h / stream + used * 2 * h / stream + inner * (used + shared) * shape.expert_ffn / tp
    else:
        mlp = 2 * h / stream + inner * shape.ffn / tp
    return {
        "attention": tokens * (element * (2 * h / stream + low_rank + queries + keys) + mask * h / stream),
        "scores": 0 if recompute == "selective" else tokens * score * shape.heads * sequence / tp,
        "mlp": tokens * (element * mlp + mask * h / stream),
    }


def activation_bytes(
    shape: ModelShape,
    batch: int,
    sequence: int,
    recompute: str = "none",
    *,
    element: int = 2,
    mask: int = 0,
    tp: int = 1,
    sequence_parallel: bool = False,
    pp: int = 1,
    stage: int = 0,
    chunks: int = 1,
) -> float:
    """Return the bytes that one micro-batch's forward saves for its backward on one stage, the logits not counted.

    Its layers; on the last stage the inputs of the last norm and of the head; on the first, where there is dropout, the
    mask after the embedding. Keyword arguments as in `layer_activation_bytes`; ValueError as in `check_layout`.
    """
    check_layout(shape, batch, sequence, tp=tp, pp=pp, stage=stage, chunks=chunks)
    settings = {"element": element, "mask": mask, "tp": tp, "sequence_parallel": sequence_parallel}
    layers, moe = layers_of_stage(shape, pp, stage, chunks)
    dense = sum(layer_activation_bytes(shape, batch, sequence, recompute, **settings).values())
    expert = sum(layer_activation_bytes(shape, batch, sequence, recompute, moe=True, **settings).values())
    ends = 2 * element * (stage == pp - 1) + mask * (stage == 0)
    return (
        (layers - moe) * dense
        + moe * expert
        + ends * batch * sequence * shape.hidden / (tp if sequence_parallel else 1)
    )


def logit_bytes(shape: ModelShape, batch: int, sequence: int, tp: int = 1) -> float:
    """Return the bytes the loss saves: log-probabilities of every token over the whole vocabulary, in fp32."""
    return LOGIT_BYTES * batch * sequence * shape.vocabulary / tp


def kv_cache_bytes(shape: ModelShape, tokens: int, dtype_bytes: float = 2, tp: int = 1) -> float:
    """Return the bytes of keys and values kept for `tokens` tokens, per tensor-parallel rank (KV heads count).

    Latent attention keeps one compressed vector and one rotary key per token, on every rank (2405.04434, section 2.1).
    A layer with a window keeps its last `window` tokens: the tokens are those of one request.
    """
    check_whole(tokens=tokens, tp=tp)
    check_positive(dtype_bytes=dtype_bytes)
    if shape.latent:
        return shape.layers * (shape.latent.kv_rank + shape.latent.rotary) * tokens * dtype_bytes
    kept = shape.layers * tokens
    if shape.window:
        kept = shape.full_layers * tokens + (shape.layers - shape.full_layers) * min(tokens, shape.window)
    return 2 * kept * max(shape.kv_heads / tp, 1) * shape.head_size * dtype_bytes


def check_layout(
    shape: ModelShape, batch=1, sequence=1, *, dp=1, tp=1, pp=1, stage=0, chunks=1, microbatches=None, ep=1
) -> None:
    """Raise ValueError for the first field of a layout that this shape cannot have."""
    check_whole(batch=batch, sequence=sequence, dp=dp, tp=tp, pp=pp, chunks=chunks, microbatches=microbatches, ep=ep)
    if shape.positions and sequence > shape.positions:
        raise ValueError(f"sequence = {sequence}: {shape.name} has positions for at most {shape.positions} tokens")
    if shape.heads % tp:
        raise ValueError(f"tp = {tp}: must divide heads = {shape.heads}")
    if pp * chunks > shape.layers or (chunks > 1 and pp == 1):
        raise ValueError(
            f"pp = {pp}, chunks = {chunks}: pp x chunks at most layers = {shape.layers}, chunks need pp > 1"
        )
    if not 0 <= stage < pp:
        raise ValueError(f"stage = {stage}: must be from 0 to pp - 1 = {pp - 1}")
    if ep > 1 and (not shape.experts or shape.experts % ep or dp % ep):
        raise ValueError(f"ep = {ep}: must divide experts = {shape.experts} and dp = {dp}")


def parameters_on_rank(
    shape: ModelShape, *, tp: int = 1, pp: int = 1, stage: int = 0, chunks: int = 1, ep: int = 1
) -> dict[str, float]:
    """Return the parameters one rank holds, "shared" (all but the experts) and "experts", before ZeRO shards anything.

    `tp` splits the matrices, the embedding and the head by vocabulary, and heads; norms and the biases of row-split
    matrices stay whole, and so do KV heads where there are fewer than ranks. A tied head is a copy where pp > 1.
    """
    layers, moe = layers_of_stage(shape, pp, stage, chunks)
    mlp, experts = mlp_parameters(shape), mlp_parameters(shape, shape.expert_ffn) if shape.experts else 0
    whole = shape.hidden * ((shape.bias == "all") + (shape.bias in ("mlp", "all") and not shape.experts))
    whole += 2 * shape.head_size * shape.qk_norm
    copied = 2 * max(1 - shape.kv_heads / tp, 0) * shape.hidden * shape.head_size if not shape.latent else 0
    split = layers * attention_parameters(shape) + (layers - moe) * mlp + moe * shape.shared_experts * experts
    count = (split - layers * whole) / tp + layers * (whole + copied + shape.layer_norms * norm_parameters(shape))
    count += moe * shape.experts * (shape.hidden + shape.router_bias)
    if stage == 0:
        count += shape.vocabulary * shape.hidden / tp + shape.positions * shape.hidden
    if stage == pp - 1:
        count += norm_parameters(shape) + (0 if shape.tied and pp == 1 else shape.vocabulary * shape.hidden / tp)
    return {"shared": count, "experts": moe * shape.experts * experts / tp / ep}


def layers_of_stage(shape: ModelShape, pp: int, stage: int, chunks: int) -> tuple[int, int]:
    """Return how many layers a pipeline stage holds, and how many of those hold experts.

    Layer i is in chunk i·pp·chunks // layers, and chunk c on stage c mod pp; no stage holds more than the first.
    """
    mine = [layer for layer in range(shape.layers) if layer * pp * chunks // shape.layers % pp == stage]
    return len(mine), sum(shape.experts > 0 and layer >= shape.dense_layers for layer in mine)
