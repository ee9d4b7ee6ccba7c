"""A data-parallel step of a real model, by formula: when its gradients are ready, and when its buckets are summed."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib import Event
from course_lib.costs import forward_flops, hierarchical_all_reduce_seconds
from course_lib.hardware import DGX_H100, Node
from course_lib.lessons.overlap import bucket_times
from course_lib.models import ModelShape, parameter_count

MIB = 2**20
DDP_BUCKET = 25 * MIB
"""The bytes of a bucket of torch's DistributedDataParallel, unless told otherwise (its first one has 1 MiB)."""
MFU = 0.4  # the share of a GPU's peak that training reaches, where nothing better is known


def megatron_bucket(ranks: int, dtype_bytes: int = 2) -> int:
    """Return the bytes of a bucket of Megatron-Core: max(40 million, 1 million a data-parallel rank) gradients."""
    return dtype_bytes * max(40_000_000, 1_000_000 * ranks)


@dataclass(frozen=True)
class ModelStep:
    """One step of one rank, by formula. Seconds; `sums` is from when to when each bucket's all-reduce runs."""

    forward: float
    backward: float
    all_reduce: float
    """One all-reduce of all gradients, if nothing else ran."""
    sums: list[tuple[float, float]]
    gradient_bytes: int

    @property
    def seconds(self) -> float:
        """Return the length of the step: until backward and the last all-reduce have ended."""
        return max(self.forward + self.backward, self.sums[-1][1])

    @property
    def exposed(self) -> float:
        """Return how long the GPU waits at the end."""
        return self.seconds - self.forward - self.backward

    @property
    def events(self) -> list[Event]:
        """Return the step as events of rank 0, to be drawn."""
        ends = self.forward, self.forward + self.backward
        return [
            Event(0, "forward", 0.0, ends[0], 0.0),
            Event(0, "backward", *ends, ends[0]),
            *(Event(0, "all_reduce", begin, end, begin) for begin, end in self.sums),
        ]


def tensors(shape: ModelShape) -> list[tuple[int, float]]:
    """Return (parameters, share of forward's FLOPs) of each tensor of a Llama, in the order of model.parameters()."""
    others = shape.head_width or shape.qk_norm or shape.layer_norms != 2
    if shape.layer_norm or shape.bias != "none" or shape.experts or shape.latent or shape.positions or others:
        raise ValueError(f"shape = {shape.name!r}: must be of Llama's kind")
    h, kv = shape.hidden, shape.kv_heads * shape.head_size
    flops = forward_flops(shape, 1, 8192, causal=True)
    score = flops["scores"] / shape.layers / (2 * 8192)  # what attention costs beyond its matrices, as parameters
    layer = [(h * h, h * h), (h * kv, h * kv), (h * kv, h * kv + score), (h * h, h * h)]
    layer += 3 * [(h * shape.ffn, h * shape.ffn)] + 2 * [(h, 0)]
    words = shape.vocabulary * h
    found = [(words, words if shape.tied else 0), *(shape.layers * layer), (h, 0)]
    found += [] if shape.tied else [(words, words)]
    assert sum(count for count, _ in found) == parameter_count(shape)
    whole = sum(cost for _, cost in found)
    return [(count, cost / whole) for count, cost in found]


def model_step(
    shape: ModelShape,
    nodes: int = 1,
    cap_bytes: float = DDP_BUCKET,
    tokens: int = 8192,
    node: Node = DGX_H100,
    dtype_bytes: int = 2,
    mfu: float = MFU,
) -> ModelStep:
    """Return the step of one of the ranks on `nodes` machines, each with `tokens` tokens in sequences of 8,192.

    Gradients have `dtype_bytes`; the all-reduce goes machine by machine (see hierarchical_all_reduce_seconds), on links
    as fast as their data sheets say, so communication is a lower bound. A bucket is closed when it is full, as
    those of torch's DDP and of Megatron-Core.
    """
    forward = sum(forward_flops(shape, 1, 8192, causal=True).values()) * tokens / 8192 / (mfu * node.gpu.peak("bf16"))
    sizes, shares = zip(*((dtype_bytes * count, share) for count, share in tensors(shape)), strict=True)

    def all_reduce(size: float) -> float:
        return hierarchical_all_reduce_seconds(nodes, node.gpus, size, node.gpu.link, node.nic, node.nics)

    times = bucket_times(sizes, [2 * forward * share for share in shares], cap_bytes, all_reduce, until_full=True)
    sums = [(forward + begin, forward + end) for begin, end in times]
    return ModelStep(forward, 2 * forward, all_reduce(sum(sizes)), sums, sum(sizes))
