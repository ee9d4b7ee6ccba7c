"""Times of collectives that others have measured on real clusters, as data: what the formulas are compared with."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).with_name("data")


class Measured(NamedTuple):
    """One all-reduce: how many GPUs, how many of them in each node, the bytes of the tensor and the seconds it took."""

    machine: str
    gpus: int
    per_node: int
    bytes: int
    seconds: float

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self.gpus // self.per_node


class DeepEP(NamedTuple):
    """DeepEP's low-latency kernels on H800s: seconds to send 128 tokens to their experts, and to bring them back."""

    ranks: int
    dispatch: float
    combine: float


class Decode(NamedTuple):
    """A served model: seconds between two tokens of a request, with `batch` requests at once on `tp` GPUs."""

    tp: int
    batch: int
    seconds: float


BUS_BANDWIDTHS = {8: 430e9, 32: 320e9}
"""Bytes/s that an owner of DGX H100s printed by nccl-tests, by GPUs (eight in a node): NVIDIA/nccl issue 1221."""

RING_BUS_BANDWIDTH = 330e9
"""The same owner's bytes/s on eight GPUs of one node with NCCL_NVLS_ENABLE=0, where a ring does the sum."""


def all_reduce_dgx(machine: str | None = None, gpus: int | None = None, per_node: int | None = None) -> list[Measured]:
    """Return the medians of NCCL's all-reduce on "a100_dgx" and "h100_dgx", all or those asked for, in order of size.

    Agrawal et al., Vidur, MLSys 2024: microsoft/vidur, data/profiling/network, commit 7d475135 (MIT).
    """
    with (DATA / "all_reduce_dgx.csv").open() as file:
        rows = [
            Measured(row["machine"], int(row["gpus"]), int(row["gpus_per_node"]), int(row["bytes"]),
                     float(row["median_ms"]) / 1e3)
            for row in csv.DictReader(file)
        ]  # fmt: skip
    asked = (machine, gpus, per_node)
    found = [row for row in rows if all(want in (None, have) for want, have in zip(asked, row[:3], strict=True))]
    if not found:
        known = sorted({row[:3] for row in rows})
        raise ValueError(f"{asked}: measured are (machine, gpus, per_node) = {', '.join(map(str, known))}")
    return found


def all_reduce_h100(what: str, gpus: int) -> list[tuple[int, float]]:
    """Return (bytes, seconds) on 2, 4 or 8 H100s of one node: by "nccl" (2.29.2), or "one-shot" (vLLM 0.24.0).

    aiconfigurator-core 0.12.0 (Apache-2.0), systems/data/h100_sxm/comm. Its sizes are numbers of 16-bit elements: read
    as bytes, the largest would stay at half of the bandwidth that NCCL reaches. One-shot inside a CUDA graph, up to the
    size from which on vLLM takes two steps: the last row of 4 and of 8 GPUs is of the two-step kernel already.
    """
    with (DATA / "all_reduce_h100.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found = [
        (int(row["bytes"]), float(row["microseconds"]) / 1e6)
        for row in rows
        if (row["what"], row["gpus"]) == (what, str(gpus))
    ]
    if not found:
        raise ValueError(f"what = {what!r}, gpus = {gpus!r}: measured are 'nccl' and 'one-shot' on 2, 4 and 8")
    return found


# deepseek-ai/DeepEP, docs/legacy.md: 128 tokens a rank, hidden 7168, 8 experts a token, fp8 there and bf16 back
DEEPEP = [
    DeepEP(8, 77e-6, 114e-6),
    DeepEP(16, 118e-6, 195e-6),
    DeepEP(32, 155e-6, 273e-6),
    DeepEP(64, 173e-6, 314e-6),
    DeepEP(128, 192e-6, 369e-6),
    DeepEP(256, 194e-6, 360e-6),
]
# aiconfigurator-core 0.12.0 (Apache-2.0), systems/silicon_sample.csv: TensorRT-LLM 1.0.0rc3, fp8, prompts of 1,024
# tokens and answers of 128
QWEN3_32B_H100 = [Decode(1, 8, 18.65e-3), Decode(2, 8, 11.87e-3), Decode(4, 8, 8.57e-3), Decode(8, 8, 7.03e-3)]
