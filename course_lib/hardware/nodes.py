"""Nodes: how many GPUs their own link joins, and by how many ports they reach the other nodes, each with its source."""

from __future__ import annotations

from course_lib.hardware.gpus import A100, B200, B300, GB200, GB300, H100, H200, V100
from course_lib.hardware.kinds import Node
from course_lib.hardware.links import EDR, HDR, NDR, XDR

DGX_1 = Node("DGX-1 V100", V100, 8, EDR, 4, "NVIDIA DGX-1 data sheet (2019): four EDR ports")
DGX_A100 = Node("DGX A100", A100, 8, HDR, 8, "NVIDIA DGX A100 data sheet (2021): eight ports for compute")
DGX_H100 = Node("DGX H100", H100, 8, NDR, 8, "NVIDIA DGX H100 data sheet (2023): eight ConnectX-7 ports")
DGX_H200 = Node("DGX H200", H200, 8, NDR, 8, "NVIDIA DGX H200 data sheet (2024): eight ConnectX-7 ports")
DGX_B200 = Node("DGX B200", B200, 8, NDR, 8, "NVIDIA DGX B200 data sheet (2024): eight ConnectX-7 ports")
DGX_B300 = Node("DGX B300", B300, 8, XDR, 8, "NVIDIA DGX B300 data sheet (2025): eight ConnectX-8 ports")
GB200_NVL72 = Node("GB200 NVL72", GB200, 72, NDR, 72, "NVIDIA DGX GB200 data sheet (2024): 72 ConnectX-7 ports")
GB300_NVL72 = Node("GB300 NVL72", GB300, 72, XDR, 72, "NVIDIA DGX GB300 data sheet (2025): 72 ConnectX-8 ports")

_ALL = (DGX_1, DGX_A100, DGX_H100, DGX_H200, DGX_B200, DGX_B300, GB200_NVL72, GB300_NVL72)
NODES = {node.name: node for node in _ALL}
