"""A table of GPUs, links and nodes: what their data sheets promise, each row with its source.

Units: FLOP/s, bytes, bytes per second in *one* direction, seconds. GB = 1e9 bytes; a NIC of 400 Gb/s carries 50 GB/s.
"""

from __future__ import annotations

from course_lib.hardware.gpus import (
    A100,
    A6000,
    B200,
    B300,
    GB200,
    GB300,
    GPUS,
    H100,
    H100_PCIE,
    H200,
    L40S,
    MI355X,
    TPU7X,
    TPU_V5P,
    TPU_V6E,
    V100,
)
from course_lib.hardware.kinds import DTYPES, GPU, Link, Node, Protocol
from course_lib.hardware.links import EDR, HDR, NDR, XDR
from course_lib.hardware.nodes import (
    DGX_1,
    DGX_A100,
    DGX_B200,
    DGX_B300,
    DGX_H100,
    DGX_H200,
    GB200_NVL72,
    GB300_NVL72,
    NODES,
)

LINKS = {link.name: link for link in (*(gpu.link for gpu in GPUS.values()), EDR, HDR, NDR, XDR)}

__all__ = [
    "A100",
    "A6000",
    "B200",
    "B300",
    "DGX_1",
    "DGX_A100",
    "DGX_B200",
    "DGX_B300",
    "DGX_H100",
    "DGX_H200",
    "DTYPES",
    "EDR",
    "GB200",
    "GB200_NVL72",
    "GB300",
    "GB300_NVL72",
    "GPU",
    "GPUS",
    "H100",
    "H100_PCIE",
    "H200",
    "HDR",
    "L40S",
    "LINKS",
    "Link",
    "MI355X",
    "NDR",
    "NODES",
    "Node",
    "Protocol",
    "TPU7X",
    "TPU_V5P",
    "TPU_V6E",
    "V100",
    "XDR",
]
