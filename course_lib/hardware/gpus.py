"""GPUs and other accelerators: what their data sheets promise, each row with its source.

Peaks are dense: where a data sheet says "1,979 TFLOPS with sparsity", the matrices of training get at most half.
Memory is the data sheet's figure read as decimal GB; drivers report up to 7 % more, and take some of it for themselves.
"""

from __future__ import annotations

from course_lib.hardware.kinds import GPU, Link
from course_lib.hardware.links import GIGA, MICRO, TERA, nvlink, pcie

# GB/s of NVLink with which NCCL reckons: links of a GPU times what topo.h has for one
NCCL_V100, NCCL_A100, NCCL_HOPPER, NCCL_BLACKWELL, NCCL_A6000 = 6 * 20.0, 12 * 20.0, 18 * 20.6, 18 * 40.1, 4 * 12.0

V100 = GPU(
    "V100 SXM2 32GB",
    memory=32 * GIGA,
    memory_bandwidth=0.9 * TERA,
    link=nvlink(2, 150, "V100 data sheet: 300 GB/s", NCCL_V100),
    source="NVIDIA V100 data sheet (2020): 125 TFLOPS of tensor performance (fp16), 15.7 single precision",
    fp32=15.7 * TERA,
    fp16=125 * TERA,
)
A100 = GPU(
    "A100 SXM 80GB",
    memory=80 * GIGA,
    memory_bandwidth=2.039 * TERA,
    link=nvlink(3, 300, "A100 data sheet: 600 GB/s", NCCL_A100),
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
    link=nvlink(4, 450, "H100 data sheet: 900 GB/s", NCCL_HOPPER),
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
    link=pcie(5, 64),
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
    link=nvlink(4, 450, "H200 data sheet: 900 GB/s", NCCL_HOPPER),
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
    link=nvlink(5, 900, "DGX B200 data sheet: 14.4 TB/s for 8 GPUs", NCCL_BLACKWELL),
    source="NVIDIA Blackwell architecture brief (2024), HGX B200: 4,500 TFLOPS bf16 with sparsity, half of that dense; "
    "DGX B200 data sheet: 1,440 GB and 64 TB/s for 8 GPUs",
    fp32=80 * TERA,
    tf32=1100 * TERA,
    bf16=2250 * TERA,
    fp16=2250 * TERA,
    fp8=4500 * TERA,
    fp4=9000 * TERA,
)
L40S = GPU(
    "L40S",
    memory=48 * GIGA,
    memory_bandwidth=0.864 * TERA,
    link=pcie(4, 32),
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
    link=nvlink(3, 56.25, "RTX A6000 data sheet: 112.5 GB/s, a bridge between two cards", NCCL_A6000),
    source="NVIDIA RTX A6000 data sheet (2020): 309.7 TFLOPS tensor performance with sparsity, half of that dense",
    fp32=38.7 * TERA,
    tf32=77.4 * TERA,
    bf16=154.8 * TERA,
    fp16=154.8 * TERA,
)
_ULTRA = "NVIDIA's dense figures of Blackwell and Blackwell Ultra as verda.com/blog/gb300-nvl72-architecture has them; "
_ULTRA += "memory bandwidth and peaks also in aiconfigurator-core 0.12.0, systems/*.yaml (both read November 2026)"
_NVLINK_5 = nvlink(5, 900, "NVIDIA GB200 NVL72 data sheet: 1.8 TB/s for a GPU", NCCL_BLACKWELL)
GB200 = GPU(
    "GB200",
    memory=186 * GIGA,
    memory_bandwidth=8 * TERA,
    link=_NVLINK_5,
    source="NVIDIA GB200 NVL72 data sheet (2024): 13.4 TB, 576 TB/s, 1,440 PFLOPS fp4 and 720 fp8 with sparsity for 72 "
    "GPUs; 'B200, 1,200 W' in the Blackwell architecture brief: dense half of that, fp32 90",
    fp32=90 * TERA,
    tf32=1250 * TERA,
    bf16=2500 * TERA,
    fp16=2500 * TERA,
    fp8=5000 * TERA,
    fp4=10000 * TERA,
)
B300 = GPU(
    "B300 SXM",
    memory=270 * GIGA,
    memory_bandwidth=7.7 * TERA,
    link=_NVLINK_5,
    source=_ULTRA,
    fp32=75 * TERA,
    tf32=1100 * TERA,
    bf16=2250 * TERA,
    fp16=2250 * TERA,
    fp8=4500 * TERA,
    fp4=14000 * TERA,
)
GB300 = GPU(
    "GB300",
    memory=279 * GIGA,
    memory_bandwidth=8 * TERA,
    link=_NVLINK_5,
    source=_ULTRA,
    fp32=80 * TERA,
    tf32=1250 * TERA,
    bf16=2500 * TERA,
    fp16=2500 * TERA,
    fp8=5000 * TERA,
    fp4=15000 * TERA,
)
MI355X = GPU(
    "MI355X",
    memory=288 * GIGA,
    memory_bandwidth=8 * TERA,
    link=Link(
        "Infinity Fabric 4, 7 links of 76.8 GB/s",
        7 * 76.8 * GIGA,
        2.7 * MICRO,
        "AMD: seven links of 153.6 GB/s to seven neighbours, half of it one way; latency: RCCL's src/graph/tuning.cc "
        "(commit 0023b9b0), hwLat, ring, Simple",
    ),
    source="AMD at ISSCC 2026: 256 units of 8,192 fp8 FLOPs a clock, at 2.4 GHz (Hot Chips 2025): 5.03 PFLOPS, dense; "
    "fp16 half of it, fp4 twice; 288 GB, 8 TB/s. Its fp32 peak is left out: no source was at hand",
    bf16=2516.6 * TERA,
    fp16=2516.6 * TERA,
    fp8=5033 * TERA,
    fp4=10066 * TERA,
)
_TPUS = "docs.cloud.google.com/tpu/docs/tpu7x, read November 2026"


def _tpu(name: str, chips: int, memory: int, bandwidth: int, ici: int, **peaks: float) -> GPU:
    """Return one chip; `ici` is what Google states, GB/s into and out of a chip together, over all its neighbours."""
    link = Link(
        f"ICI of {name}, {ici // 2} GB/s",
        ici / 2 * GIGA,
        1 * MICRO,
        f"{_TPUS}, both ways and all neighbours of the torus together: half is one way; latency: about 1 microsecond a "
        "hop, jax-ml.github.io/scaling-book",
    )
    source = f"{_TPUS}: pods of {chips:,} chips; no peak for fp32 or fp4 is given"
    peaks = {dtype: flops * TERA for dtype, flops in peaks.items()}
    return GPU(name, memory * GIGA, bandwidth * GIGA, link, source, **peaks)


TPU_V5P = _tpu("TPU v5p", 8960, 95, 2765, 1200, bf16=459)  # its fp8 figure, and v6e's, is that of bf16: no fp8 units
TPU_V6E = _tpu("TPU v6e", 256, 32, 1638, 800, bf16=918)
TPU7X = _tpu("TPU7x", 9216, 192, 7380, 1200, bf16=2307, fp8=4614)

_ALL = (V100, A100, H100_PCIE, H100, H200, B200, L40S, A6000, GB200, B300, GB300, MI355X, TPU_V5P, TPU_V6E, TPU7X)
GPUS = {gpu.name: gpu for gpu in _ALL}
