"""A table of GPUs, links and nodes: what their data sheets promise, each row with its source.

Units: FLOP/s, bytes, bytes per second in *one* direction, seconds. GB = 1e9 bytes; a NIC of 400 Gb/s carries 50 GB/s.
Peaks are dense: where a data sheet says "1,979 TFLOPS with sparsity", the matrices of training get at most half.
Memory is the data sheet's figure read as decimal GB; drivers report up to 7 % more, and take some of it for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

TERA, GIGA, MICRO = 1e12, 1e9, 1e-6
DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8")
NCCL = "latency: NCCL's own model, src/graph/tuning.cc, hwLat, ring, Simple protocol"


@dataclass(frozen=True)
class Link:
    """A connection between GPUs or between nodes: `bandwidth` in bytes/s per direction, `latency` in seconds."""

    name: str
    bandwidth: float
    latency: float
    source: str


@dataclass(frozen=True)
class GPU:
    """One accelerator: memory in bytes and bytes/s, its link, dense peaks in FLOP/s (None: it has no such unit)."""

    name: str
    memory: float
    memory_bandwidth: float
    link: Link
    source: str
    fp32: float
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None

    def peak(self, dtype: str = "bf16") -> float:
        """Return the dense peak in FLOP/s for `dtype`; ValueError where this GPU has none."""
        peak = getattr(self, dtype) if dtype in DTYPES else None
        if peak is None:
            raise ValueError(f"dtype = {dtype!r}: {self.name} computes in {', '.join(self.dtypes)}")
        return peak

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the names of the dtypes this GPU has a peak for."""
        return tuple(dtype for dtype in DTYPES if getattr(self, dtype))


@dataclass(frozen=True)
class Node:
    """One machine: `gpus` GPUs joined by their own link, and `nics` network ports of kind `nic` to the other nodes."""

    name: str
    gpu: GPU
    gpus: int
    nic: Link
    nics: int
    source: str

    @property
    def bandwidth_per_gpu(self) -> float:
        """Return the bytes/s that each GPU may send out of the node when all of them send."""
        return self.nic.bandwidth * self.nics / self.gpus


def _nvlink(generation: int, gigabytes: float, source: str) -> Link:
    return Link(
        f"NVLink {generation}, {gigabytes:g} GB/s",
        gigabytes * GIGA,
        3.4 * MICRO,
        f"{source}; half of the total; {NCCL}",
    )


def _pcie(generation: int, gigabytes: float) -> Link:
    source = f"PCI-SIG, PCIe {generation}.0 x16, as NVIDIA's data sheets quote it; half of the total"
    return Link(f"PCIe {generation} x16, {gigabytes:g} GB/s", gigabytes * GIGA, 5.7 * MICRO, f"{source}; {NCCL}")


def _nic(name: str, gigabits: float, source: str) -> Link:
    return Link(f"{name}, {gigabits:g} Gb/s", gigabits / 8 * GIGA, 14 * MICRO, f"{source}; {NCCL}")


V100 = GPU(
    "V100 SXM2 32GB",
    memory=32 * GIGA,
    memory_bandwidth=0.9 * TERA,
    link=_nvlink(2, 150, "V100 data sheet: 300 GB/s"),
    source="NVIDIA V100 data sheet (2020): 125 TFLOPS of tensor performance (fp16), 15.7 single precision",
    fp32=15.7 * TERA,
    fp16=125 * TERA,
)
A100 = GPU(
    "A100 SXM 80GB",
    memory=80 * GIGA,
    memory_bandwidth=2.039 * TERA,
    link=_nvlink(3, 300, "A100 data sheet: 600 GB/s"),
    source="NVIDIA A100 data sheet (2021), columns without sparsity",
    fp32=19.5 * TERA,
    tf32=156 * TERA,
    bf16=312 * TERA,
    fp16=312 * TERA,
)
H100 = GPU(
    "H100 SXM",
    memory=80 * GIGA,
    memory_bandwidth=3.35 * TERA,
    link=_nvlink(4, 450, "H100 data sheet: 900 GB/s"),
    source="NVIDIA H100 data sheet (2023): 1,979 TFLOPS bf16 with sparsity, half of that dense; fp32 67",
    fp32=67 * TERA,
    tf32=494.5 * TERA,
    bf16=989 * TERA,
    fp16=989 * TERA,
    fp8=1979 * TERA,
)
H100_PCIE = GPU(
    "H100 PCIe",
    memory=80 * GIGA,
    memory_bandwidth=2.0 * TERA,
    link=_pcie(5, 64),
    source="NVIDIA H100 data sheet (2022), PCIe column: 1,513 TFLOPS bf16 with sparsity, half of that dense; fp32 51",
    fp32=51 * TERA,
    tf32=378 * TERA,
    bf16=756 * TERA,
    fp16=756 * TERA,
    fp8=1513 * TERA,
)
H200 = GPU(
    "H200 SXM",
    memory=141 * GIGA,
    memory_bandwidth=4.8 * TERA,
    link=_nvlink(4, 450, "H200 data sheet: 900 GB/s"),
    source="NVIDIA H200 data sheet (2024): the compute of an H100 SXM, halved from the figures with sparsity",
    fp32=67 * TERA,
    tf32=494.5 * TERA,
    bf16=989 * TERA,
    fp16=989 * TERA,
    fp8=1979 * TERA,
)
B200 = GPU(
    "B200 SXM",
    memory=180 * GIGA,
    memory_bandwidth=8 * TERA,
    link=_nvlink(5, 900, "DGX B200 data sheet: 14.4 TB/s for 8 GPUs"),
    source="NVIDIA Blackwell architecture brief (2024), HGX B200: 4,500 TFLOPS bf16 with sparsity, half of that dense; "
    "DGX B200 data sheet: 1,440 GB and 64 TB/s for 8 GPUs",
    fp32=80 * TERA,
    tf32=1100 * TERA,
    bf16=2250 * TERA,
    fp16=2250 * TERA,
    fp8=4500 * TERA,
)
L40S = GPU(
    "L40S",
    memory=48 * GIGA,
    memory_bandwidth=0.864 * TERA,
    link=_pcie(4, 32),
    source="NVIDIA L40S data sheet (2023): 362.05 TFLOPS bf16, 733 with sparsity; fp32 91.6; no NVLink",
    fp32=91.6 * TERA,
    tf32=183 * TERA,
    bf16=362 * TERA,
    fp16=362 * TERA,
    fp8=733 * TERA,
)
A6000 = GPU(
    "RTX A6000",
    memory=48 * GIGA,
    memory_bandwidth=0.768 * TERA,
    link=_nvlink(3, 56.25, "RTX A6000 data sheet: 112.5 GB/s, a bridge between two cards"),
    source="NVIDIA RTX A6000 data sheet (2020): 309.7 TFLOPS tensor performance with sparsity, half of that dense",
    fp32=38.7 * TERA,
    tf32=77.4 * TERA,
    bf16=154.8 * TERA,
    fp16=154.8 * TERA,
)
GPUS = {gpu.name: gpu for gpu in (V100, A100, H100_PCIE, H100, H200, B200, L40S, A6000)}

EDR = _nic("InfiniBand EDR", 100, "NVIDIA DGX-1 data sheet")
HDR = _nic("InfiniBand HDR", 200, "NVIDIA DGX A100 data sheet")
NDR = _nic("InfiniBand NDR", 400, "NVIDIA DGX H100 data sheet")
DGX_1 = Node("DGX-1 V100", V100, 8, EDR, 4, "NVIDIA DGX-1 data sheet (2019): four EDR ports")
DGX_A100 = Node("DGX A100", A100, 8, HDR, 8, "NVIDIA DGX A100 data sheet (2021): eight ports for compute")
DGX_H100 = Node("DGX H100", H100, 8, NDR, 8, "NVIDIA DGX H100 data sheet (2023): eight ConnectX-7 ports")
DGX_H200 = Node("DGX H200", H200, 8, NDR, 8, "NVIDIA DGX H200 data sheet (2024): eight ConnectX-7 ports")
DGX_B200 = Node("DGX B200", B200, 8, NDR, 8, "NVIDIA DGX B200 data sheet (2024): eight ConnectX-7 ports")
NODES = {node.name: node for node in (DGX_1, DGX_A100, DGX_H100, DGX_H200, DGX_B200)}
LINKS = {link.name: link for link in (*(gpu.link for gpu in GPUS.values()), EDR, HDR, NDR)}
