"""What a framework does beside the layout: number format, attention kernel, overlap; and one calibrated number.

`REACHED` is the only calibrated figure of the planner: the share of its peak that a GPU of one generation reaches in
matrix products. Each was set on the one row of `course_lib/data/published_runs.csv` that is marked so.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.hardware import GPU
from course_lib.models import check_choice

REACHED = {"Ampere": 0.61, "Hopper": 0.52, "Blackwell": 0.48}
GENERATIONS = {"A100": "Ampere", "H100": "Hopper", "H200": "Hopper", "B200": "Blackwell", "GB200": "Blackwell",
               "B300": "Blackwell", "GB300": "Blackwell"}  # fmt: skip
PASSES = 5
"""How often a saved activation passes through memory in a step: written and read in forward, read in backward, and its
gradient written and read."""


@dataclass(frozen=True)
class Recipe:
    """How the software works. `dtype`: of the layers' matrix products ("bf16", "fp8"); attention stays in 16 bits.

    `flash`: attention in one kernel, which skips the masked half and keeps no scores; else they pass through memory.
    `sequence_parallel`: what tensor parallelism does not split is split along the sequence (2205.05198).
    `overlap_tp`: its collectives run beside the matrix products, in as many pieces as there are ranks.
    `overlap_dp`: gradients and weights travel during backward and forward. `gradient_bytes`: of a gradient that is
    kept and summed. `dropout`: masks of a byte. `fused_mlp`: a gated MLP keeps three wide tensors, not its SiLU too.
    `attention_share`: the share of the peak that the attention kernel reaches, where it was published (FlashAttention-2
    on Hopper: 0.35, abstract of 2407.08608); 0: as much as a matrix product.
    """

    dtype: str = "bf16"
    flash: bool = True
    sequence_parallel: bool = True
    overlap_tp: bool = False
    overlap_dp: bool = True
    gradient_bytes: int = 4
    dropout: bool = False
    fused_mlp: bool = True
    attention_share: float = 0.0

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("bf16", "fp16", "fp8", "fp4"))
        check_choice("gradient_bytes", self.gradient_bytes, (2, 4))


def reached(gpu: GPU) -> float:
    """Return the share of its peak that this GPU reaches in matrix products; ValueError where nobody measured it."""
    for word in gpu.name.split():
        if word in GENERATIONS:
            return REACHED[GENERATIONS[word]]
    raise ValueError(f"gpu = {gpu.name!r}: the planner is calibrated for {', '.join(GENERATIONS)}")
