"""The parts together: what one GPU holds while it trains, when that is most, and which model still fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.hardware import GPU
from course_lib.memory.parts import (
    OPTIMIZERS,
    PRECISIONS,
    activation_bytes,
    check_layout,
    layer_activation_bytes,
    layers_of_stage,
    logit_bytes,
    model_state_bytes,
    parameters_on_rank,
)
from course_lib.models import (
    MODELS,
    ModelShape,
    attention_parameters,
    check_choice,
    mlp_parameters,
    parameter_count,
)


def readable(size: float) -> str:
    """Return bytes as a short decimal text: readable(1.5e10) is "15.00 GB"."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size:.0f} B"


@dataclass(frozen=True, repr=False)
class Breakdown:
    """What one GPU holds in training: print it, or draw `parts`, or each of `moments`, as a bar against `capacity`.

    `parts`: the bytes of each part at its own largest, in order. `moments`: the bytes of each part at three moments of
    a step, where "working" is what one operation needs. The peak is the largest moment and not the sum of the parts:
    unless gradients are accumulated, they appear while activations go.
    """

    title: str
    shape: ModelShape
    parts: dict[str, float]
    moments: dict[str, dict[str, float]]
    gpu: GPU | None = None

    @property
    def total(self) -> float:
        """Return the sum of the parts in bytes."""
        return _sum(self.parts)

    @property
    def peak_moment(self) -> str:
        """Return the name of the moment at which most bytes are alive, the last of several."""
        return max(reversed(self.moments), key=lambda moment: _sum(self.moments[moment]))

    @property
    def peak(self) -> float:
        """Return the most bytes alive at once."""
        return _sum(self.moments[self.peak_moment])

    @property
    def capacity(self) -> float | None:
        """Return the GPU's memory in bytes, None where no GPU was named."""
        return self.gpu.memory if self.gpu else None

    @property
    def fits(self) -> bool | None:
        """Return whether the peak is at most the capacity, None where no GPU was named."""
        return self.peak <= self.gpu.memory if self.gpu else None

    def __str__(self) -> str:
        lines = [self.title]
        lines += [f"  {part:<14}{readable(size):>12}{size / self.total:>7.0%}" for part, size in self.parts.items()]
        lines += [
            f"  {'together':<14}{readable(self.total):>12}",
            f"  most at once: {readable(self.peak)}, {self.peak_moment}",
        ]
        if self.gpu:
            room = self.gpu.memory - self.peak
            verdict = f"fits, {readable(room)} to spare" if room >= 0 else f"does not fit, {readable(-room)} too much"
            lines.append(f"  {self.gpu.name} with {readable(self.gpu.memory)}: {verdict}")
        return "\n".join(lines)

    __repr__ = __str__


def training_memory(
    shape: ModelShape,
    batch: int,
    sequence: int,
    *,
    precision: str = "bf16 mixed",
    optimizer: str = "adamw",
    fused: bool = False,
    recompute: str = "none",
    flash: bool = False,
    dropout: bool = False,
    zero: int = 0,
    dp: int = 1,
    tp: int = 1,
    sequence_parallel: bool = False,
    pp: int = 1,
    stage: int = 0,
    chunks: int = 1,
    ep: int = 1,
    microbatches: int | None = None,
    gpu: GPU | None = None,
) -> Breakdown:
    """Return what one GPU of dp x tp x pp holds while it trains on micro-batches of `batch` x `sequence` tokens.

    `zero` 0 to 3 shards over `dp`; experts are spread over `ep` of the dp ranks, then sharded over dp/ep. `pp`,
    `stage`, `chunks`: 1F1B, or interleaved where a GPU holds several chunks. Stage i holds the activations of p - i
    micro-batches: the first as much as the whole model for one, whatever p is, and 1 + (p-1)/(p·chunks) times that
    interleaved (2205.05198, section 4.2.3). `microbatches` per step: None is enough to fill the pipeline (one where
    there is none); with more than one, gradients stay alive from the first backward on. `dropout`: masks of one byte,
    as on GPUs. `flash`: a layer that is computed again in backward stores no attention scores either, as FlashAttention
    does it (2205.14135). `fused`: Adam's step in one kernel, which needs no temporary tensors; else it takes one matrix
    at a time and two temporaries of its size. Not counted: the tokens, gaps of the allocator, NCCL's buffers, and
    copies as large as the weights in AdamW's step on GPUs (`foreach`, as torch documents it). ValueError names the
    field and what is allowed.
    """
    check_layout(
        shape, batch, sequence, dp=dp, tp=tp, pp=pp, stage=stage, chunks=chunks, ep=ep, microbatches=microbatches
    )
    check_choice("precision", precision, PRECISIONS)
    kind = PRECISIONS[precision]
    place = {"tp": tp, "pp": pp, "stage": stage, "chunks": chunks}
    count = parameters_on_rank(shape, ep=ep, **place)
    shared = model_state_bytes(count["shared"], precision, optimizer, zero, dp)
    experts = model_state_bytes(count["experts"], precision, optimizer, zero, dp // ep)
    saved = {"element": kind.activation, "mask": int(dropout), "sequence_parallel": sequence_parallel}
    forward = activation_bytes(shape, batch, sequence, recompute, **saved, **place)
    parts = {part: shared[part] + experts[part] for part in shared} | {
        "activations": forward * forwards_in_flight(pp, stage, chunks, microbatches),
        "logits": logit_bytes(shape, batch, sequence, tp) if stage == pp - 1 else 0,
    }

    # What is there only for a moment: gradients of log-probabilities and logits, or what one layer's backward needs;
    # weights that ZeRO-3 gathered, fresh gradients before ZeRO-2 scatters them; the two temporaries of Adam's step.
    moe = layers_of_stage(shape, pp, stage, chunks)[1] > 0
    layer = _inside_layer(shape, batch, sequence, recompute, flash, moe=moe, tp=tp, **saved)
    unit, matrix = _largest(shape, moe, stage in (0, pp - 1), tp, ep)
    gathered = unit * kind.weights if zero == 3 and dp > 1 else 0
    temporaries = 2 if OPTIMIZERS[optimizer] == 2 and not fused else 0
    adam = temporaries * matrix * kind.moment / (dp if zero else 1)
    kept = (microbatches or pp) > 1
    fresh = 0 if kept and zero < 2 else unit * kind.gradients
    before = parts | {"gradients": parts["gradients"] if kept else 0}
    starts = before | {"working": 2 * parts["logits"] + gathered}
    later = before | {"logits": 0, "working": layer + gathered + fresh}
    ended = parts | {"activations": 0, "logits": 0, "working": 0}
    moments = {
        "at the end of forward": before | {"working": gathered},
        "inside backward": max(starts, later, ended, key=_sum),
        "in the optimizer step": ended | {"working": adam},
    }
    where = f"each of {dp * tp * pp:,} GPUs" if dp * tp * pp > 1 else "one GPU"
    where += f", ZeRO stage {zero}" if zero else ""
    title = f"{shape.name}, {precision}, {optimizer}, micro-batch {batch} x {sequence:,} tokens, on {where}"
    return Breakdown(title, shape, parts, moments, gpu)


def forwards_in_flight(pp: int, stage: int = 0, chunks: int = 1, microbatches: int | None = None) -> float:
    """Return the micro-batches whose activations a stage holds at once, counted in forwards of the whole stage.

    1F1B: p - i. Interleaved: 2(p - i - 1) + (v - 1)p warm-up chunks and the one under way, as in Megatron (2104.04473,
    section 2.2). At most `microbatches`; None is as many as the schedule wants.
    """
    wanted = pp - stage if chunks == 1 else (2 * (pp - stage - 1) + (chunks - 1) * pp + 1) / chunks
    return min(wanted, microbatches or wanted)


def _inside_layer(shape: ModelShape, batch: int, sequence: int, recompute: str, flash: bool, **saved) -> float:
    """Return the bytes a layer's backward needs beside what forward saved: what it computes again, and two gradients
    of the scores, which come when the MLP's bytes are free again."""
    kept = layer_activation_bytes(shape, batch, sequence, recompute, **saved)
    again = "selective" if flash else "none"
    whole = layer_activation_bytes(shape, batch, sequence, again, **saved) if recompute == "full" else kept
    scores = saved["element"] * batch * sequence**2 * shape.heads / saved["tp"] if whole["scores"] else 0
    return _sum(whole) - _sum(kept) + max(2 * scores - whole["mlp"], 0)


def _largest(shape: ModelShape, moe: bool, holds_table: bool, tp: int, ep: int) -> tuple[float, float]:
    """Return the parameters of a stage's largest unit (a layer, or the embedding), and of its largest matrix."""
    table = shape.vocabulary * shape.hidden / tp if holds_table else 0
    mlp, width = mlp_parameters(shape), shape.ffn
    if moe:
        width = shape.expert_ffn
        mlp = mlp_parameters(shape, width) * (shape.experts / ep + shape.shared_experts)
    return max((attention_parameters(shape) + mlp) / tp, table), max(shape.hidden * width / tp, table)


def _sum(parts: dict[str, float]) -> float:
    return sum(parts.values())


def largest_model_that_fits(
    gpu: GPU, batch: int, sequence: int, shapes: Iterable[ModelShape] = MODELS.values(), **settings
) -> Breakdown | None:
    """Return the Breakdown of the largest of `shapes` whose peak fits `gpu`, None where none does.

    `settings` as in `training_memory`. A shape that they cannot split (heads, layers, positions) is passed over; where
    they suit no shape at all, the first ValueError is raised.
    """
    refused, tried = None, 0
    for shape in sorted(shapes, key=parameter_count, reverse=True):
        try:
            breakdown = training_memory(shape, batch, sequence, gpu=gpu, **settings)
        except ValueError as error:
            refused = refused or error
            continue
        tried += 1
        if breakdown.fits:
            return breakdown
    if refused and not tried:
        raise refused
    return None
