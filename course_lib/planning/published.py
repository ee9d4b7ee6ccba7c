"""Training runs that others have published, with layout and speed, and what the planner says of each."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.costs import step_flops
from course_lib.hardware import DGX_H100, H100, NODES, Node
from course_lib.models import MODELS, ModelShape
from course_lib.planning.layout import Layout
from course_lib.planning.recipe import Recipe
from course_lib.planning.room import Room, layout_memory
from course_lib.planning.step import Step, layout_time
from course_lib.served import SERVED

DATA = Path(__file__).parents[1] / "data" / "published_runs.csv"


def _gpt(name: str, hidden: int, layers: int, heads: int, vocabulary: int = 51200) -> ModelShape:
    source = "2104.04473, Table 1; 2205.05198, Table 3"
    sizes = (name, hidden, 4 * hidden, layers, heads, heads, vocabulary, source, 2048)
    return ModelShape(*sizes, bias="all", layer_norm=True, gated=False, tied=True)


# 2104.04473, Table 1, and 2205.05198, Table 3 (its GPT-3 has 96 layers)
MEGATRON = {
    shape.name: shape
    for shape in (
        _gpt("GPT 1.7B", 2304, 24, 24),
        _gpt("GPT 3.6B", 3072, 30, 32),
        _gpt("GPT 7.5B", 4096, 36, 32),
        _gpt("GPT 18.4B", 6144, 40, 48),
        _gpt("GPT 22B", 6144, 48, 64),
        _gpt("GPT 39.1B", 8192, 48, 64),
        _gpt("GPT 76.1B", 10240, 60, 80),
        _gpt("GPT 145.6B", 12288, 80, 96),
        _gpt("GPT 175B", 12288, 96, 96),
        _gpt("GPT 310.1B", 16384, 96, 128),
        _gpt("GPT 529.6B", 20480, 105, 128),
        _gpt("GPT 1008B", 25600, 128, 160),
        _gpt("GPT 175B 64k", 12288, 96, 128, 64000),  # 2402.15627, Table 1 and section 6.1
    )
}
SHAPES = MODELS | SERVED | MEGATRON
# torchtitan's H100s: "96GB HBM2e with 2.4 TB/sec", 500 W (benchmarks/llama3_h100_202412_torchtitan.md)
TITAN = replace(DGX_H100, name="H100 HBM2e", gpu=replace(H100, memory=96e9, memory_bandwidth=2.4e12))
MACHINES = {node.name: node for node in (*NODES.values(), TITAN)}
_2021 = Recipe("fp16", flash=False, sequence_parallel=False, overlap_dp=False, gradient_bytes=2, dropout=True)
_TITAN = Recipe("bf16", fused_mlp=False, attention_share=0.35)  # torch's attention on Hopper then: FlashAttention-2
RECIPES = {
    "Megatron-LM 2021": _2021,
    "Megatron-LM 2022": replace(_2021, sequence_parallel=True),
    "Megatron-LM 2024": Recipe("bf16"),
    "Llama 3": Recipe("bf16"),
    "NeMo": Recipe("fp8", overlap_tp=True, gradient_bytes=2),
    "NeMo bf16": Recipe("bf16", overlap_tp=True, gradient_bytes=2),
    "torchtitan": _TITAN,
    "torchtitan fp8": replace(_TITAN, dtype="fp8"),
    "torchtitan fp8, async": replace(_TITAN, dtype="fp8", overlap_tp=True),
}


@dataclass(frozen=True)
class Published:
    """One row: what was run, and how fast it was. `value` is in the unit of `metric`, as it was printed."""

    source: str
    shape: ModelShape
    node: Node
    recipe: Recipe
    layout: Layout
    sequence: int
    batch: int
    metric: str
    value: float
    gib: float | None
    calibrates: bool

    @property
    def measured(self) -> float:
        """Return the seconds of a step that the printed figure amounts to, by its own convention of FLOPs."""
        work = (self.shape, self.batch, self.sequence)
        gpus = self.layout.ranks
        if self.metric == "seconds":
            return self.value
        if self.metric == "tokens/s":  # of one GPU
            return self.batch * self.sequence / gpus / self.value
        if self.metric == "hardware TFLOP/s":  # 2104.04473: full squares, and what is computed again counts
            return step_flops(*work, recompute="full") / gpus / self.value / 1e12
        if self.metric == "model TFLOP/s":  # causal: half of the squares
            return step_flops(*work, causal=True) / gpus / self.value / 1e12
        return step_flops(*work) / gpus / (self.value / 100 * self.node.gpu.peak("bf16"))  # MFU %, full squares

    @property
    def predicted(self) -> Step:
        """Return the planner's step."""
        return layout_time(self.shape, self.layout, self.node, self.batch, self.sequence, self.recipe)

    @property
    def room(self) -> Room:
        """Return the planner's memory."""
        return layout_memory(self.shape, self.layout, self.batch, self.sequence, self.recipe)

    @property
    def error(self) -> float:
        """Return predicted / measured - 1."""
        return self.predicted.seconds / self.measured - 1


def published_runs() -> list[Published]:
    """Return the rows of course_lib/data/published_runs.csv, whose first column says where each is from."""
    found = []
    with DATA.open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            tp, cp, pp, chunks, ep, micro, zero, gpus = (
                int(row[name]) for name in ("tp", "cp", "pp", "chunks", "ep", "micro", "zero", "gpus")
            )
            layout = Layout(tp, cp, pp, gpus // (tp * cp * pp), ep, chunks, micro, zero, row["recompute"])
            found.append(
                Published(
                    *(row["source"], SHAPES[row["model"]], MACHINES[row["machine"]], RECIPES[row["recipe"]], layout),
                    *(int(row["sequence"]), int(row["batch"]), row["metric"], float(row["value"])),
                    float(row["gib"]) if row["gib"] else None,
                    bool(row["calibrates"]),
                )
            )
    return found
