"""Links between GPUs and between nodes: what data sheets promise, and the three protocols of NCCL on each.

A **protocol** of NCCL is how a receiver notices that data has arrived. LL sends a flag with every 4 bytes, so half of
what it sends is flags, and nothing has to wait; LL128 sends 8 bytes of flag with 120; Simple sends a block, waits until
all of it is visible and then sets a flag. NCCL reckons with (start + steps x latency + bytes / bandwidth) for each and
takes the fastest. The figures are those of NCCL 2.30.7 (commit 5067397c): src/graph/tuning.cc, baseLatencies,
hwLatencies and llMaxBws for a ring, and src/graph/topo.h for what one NVLink carries, less than in the data sheet.
"""

from __future__ import annotations

from course_lib.hardware.kinds import Link, Protocol

TERA, GIGA, MICRO = 1e12, 1e9, 1e-6
NCCL = "latency: NCCL's own model, src/graph/tuning.cc, hwLat, ring, Simple protocol"

START = {"LL": 6.6, "LL128": 14.0, "Simple": 8.4}  # µs: baseLatencies, ring
STEP = {  # µs: hwLatencies, ring
    "nvlink": {"LL": 0.6, "LL128": 1.9, "Simple": 3.4},
    "pcie": {"LL": 1.0, "Simple": 5.7},  # LL128 is on by default over NVLink and networks only
    "net": {"LL": 2.7, "LL128": 4.0, "Simple": 14.0},
}
LL_AT_MOST = {2: 39.0, 3: 87.7, 4: 141.0, 5: 282.0}  # GB/s on one node: llMaxBws, by generation of NVLink


def ring_protocols(kind: str, gigabytes: float, ll_at_most: float = float("inf")) -> tuple[Protocol, ...]:
    """Return NCCL's protocols for rings over links of `kind` that it takes to carry so many GB/s."""
    carries = {"LL": min(gigabytes / 2, ll_at_most), "LL128": 0.92 * gigabytes, "Simple": gigabytes}
    return tuple(
        Protocol(name, step * MICRO, carries[name] * GIGA, START[name] * MICRO) for name, step in STEP[kind].items()
    )


def nvlink(generation: int, gigabytes: float, source: str, nccl: float) -> Link:
    """Return a NVLink of so many GB/s in one direction; `nccl`: the GB/s with which NCCL reckons (links x topo.h)."""
    return Link(
        f"NVLink {generation}, {gigabytes:g} GB/s",
        gigabytes * GIGA,
        3.4 * MICRO,
        f"{source}; half of the total; {NCCL}",
        ring_protocols("nvlink", nccl, LL_AT_MOST[generation]),
    )


def pcie(generation: int, gigabytes: float) -> Link:
    """Return a PCIe of 16 lanes; NCCL reckons with three quarters of the data sheet's figure (kvDictPciGen)."""
    source = f"PCI-SIG, PCIe {generation}.0 x16, as NVIDIA's data sheets quote it; half of the total"
    protocols = ring_protocols("pcie", 0.75 * gigabytes)
    name = f"PCIe {generation} x16, {gigabytes:g} GB/s"
    return Link(name, gigabytes * GIGA, 5.7 * MICRO, f"{source}; {NCCL}", protocols)


def nic(name: str, gigabits: float, source: str) -> Link:
    """Return a port of so many Gb/s."""
    carried = gigabits / 8
    protocols = ring_protocols("net", carried)
    return Link(f"{name}, {gigabits:g} Gb/s", carried * GIGA, 14 * MICRO, f"{source}; {NCCL}", protocols)


EDR = nic("InfiniBand EDR", 100, "NVIDIA DGX-1 data sheet")
HDR = nic("InfiniBand HDR", 200, "NVIDIA DGX A100 data sheet")
NDR = nic("InfiniBand NDR", 400, "NVIDIA DGX H100 data sheet")
XDR = nic("InfiniBand XDR", 800, "NVIDIA ConnectX-8, as in DGX B300 and GB300 NVL72 (2025)")
