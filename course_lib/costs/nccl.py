"""What NCCL itself reckons that a collective takes, by every algorithm and protocol: the table it chooses from.

NCCL 2.30.7 (commit 5067397c), src/graph/tuning.cc: ncclTopoTuneModel and ncclTopoGetAlgoTime, for NVIDIA's nodes and
racks. Microseconds and GB/s as there. Left out: CollNet (SHARP between nodes) and PAT, caps per channel (they do not
bind on these machines), and the latency of a network plugin. It is a model for choosing, not a forecast: measured times
are in `course_lib.measured`.
"""

from __future__ import annotations

from course_lib.hardware import Node, Protocol
from course_lib.models import check_choice, check_whole

PROTOCOLS = ("LL", "LL128", "Simple")
START = {"Ring": (6.6, 14.0, 8.4), "Tree": (6.8, 14.0, 8.4)}  # baseLatencies
INSIDE = {"Ring": (0.6, 1.9, 3.4), "Tree": (0.6, 1.25, 4.0)}  # hwLatencies, NVLink
BETWEEN = {"Ring": (2.7, 4.0, 14.0), "Tree": (5.0, 8.5, 14.0)}  # hwLatencies, network
NVLS, NVLS_TREE = 25.0, 20.9
NVLS_EFFICIENCY = {4: 0.85, 5: 0.74}
LL_INSIDE = {2: 39.0, 3: 87.7, 4: 141.0, 5: 282.0}  # llMaxBws on one node: by generation of NVLink; else by the CPU
LL_BETWEEN = {"Intel": (39.0, 20.4), "AMD": (22.5, 19.0)}  # on two nodes, on more
CPU = {"DGX A100": "AMD"}  # the others count as Intel, as in NCCL
OVERHEAD = {"Intel": 1.0, "AMD": 2.0}
CHANNELS = 16  # of a Hopper's NVLS and rings
TREE_IS_SLOWER = {  # treeCorrectionFactor, by powers of two from 64 bytes on
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7) + 6 * (0.6,) + (0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": 7 * (0.9,) + (0.8, 0.7, 0.6, 0.6) + 4 * (0.5,) + (0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
}


def nccl_seconds(
    node: Node, nodes: int, per_node: int, size: float, kind: str = "all_reduce"
) -> dict[tuple[str, str], float]:
    """Return NCCL's seconds by (algorithm, protocol) for `per_node` GPUs on each of `nodes` such nodes.

    `kind`: all_reduce, all_gather or reduce_scatter, of `size` bytes as in `collective_seconds`. The smallest is NCCL's
    choice: `min(table, key=table.get)`. Raises ValueError for more GPUs than a node has, and nodes without NVLink.
    """
    check_whole(nodes=nodes, per_node=per_node)
    check_choice("kind", kind, ("all_reduce", "all_gather", "reduce_scatter"))
    if per_node > node.gpus:
        raise ValueError(f"per_node = {per_node}: a {node.name} has {node.gpus} GPUs")
    if not size >= 0:
        raise ValueError(f"size = {size!r}: must be 0 or more")
    if not node.gpu.link.name.startswith("NVLink"):
        raise ValueError(f"node = {node.name!r}: NCCL's figures are for nodes with NVLink")
    ranks = nodes * per_node
    if ranks == 1:
        return {("Ring", "LL"): 0.0}
    found = {("Ring", name): _ring(node, nodes, per_node, size, kind, place) for place, name in enumerate(PROTOCOLS)}
    if kind == "all_reduce":
        trees = {("Tree", name): _tree(node, nodes, per_node, size, place) for place, name in enumerate(PROTOCOLS)}
        found |= trees
    generation = _generation(node)
    if generation in NVLS_EFFICIENCY and per_node > 1 and (nodes == 1 or kind == "all_reduce"):
        found["NVLS" if nodes == 1 else "NVLSTree", "Simple"] = _nvls(node, nodes, per_node, size, kind)
    return {which: micro / 1e6 for which, micro in found.items()}


def rail_protocol(node: Node, nodes: int, name: str) -> Protocol:
    """Return what a ring on a rail pays by a protocol: seconds of a start and of a step, and bytes/s of a port.

    A rail has one GPU of each of `nodes` nodes. `name`: "LL" or "LL128" (for Simple, NCCL's latency depends on the
    size). A step costs more here than in a ring through all GPUs: with one GPU in a node, NCCL takes its latencies as
    fully exposed. Raises ValueError for another name, and for what is no whole number of nodes.
    """
    check_whole(nodes=nodes)
    check_choice("name", name, ("LL", "LL128"))
    place = PROTOCOLS.index(name)
    port = _ring_bus(node, max(nodes, 2), 1, place)  # also of a rail that has a single GPU yet
    return Protocol(name, BETWEEN["Tree"][place] / 1e6, port * 1e9, START["Ring"][place] / 1e6)


def _generation(node: Node) -> int:
    return int(node.gpu.link.name.split()[1].rstrip(","))


def _inside(node: Node) -> float:
    return node.gpu.link.protocol("Simple").bandwidth / 1e9


def _ports(node: Node, per_node: int) -> float:
    return node.nic.bandwidth / 1e9 * max(1, node.nics * per_node // node.gpus)


def _bus(node: Node, nodes: int, per_node: int) -> float:
    inside = _inside(node) if per_node > 1 else float("inf")
    return min(inside, _ports(node, per_node)) if nodes > 1 else inside


def _ll_at_most(node: Node, nodes: int) -> float:
    return LL_INSIDE[_generation(node)] if nodes == 1 else LL_BETWEEN[CPU.get(node.name, "Intel")][nodes > 2]


def _ring_bus(node: Node, nodes: int, per_node: int, place: int) -> float:
    bus = _bus(node, nodes, per_node)
    return (min(_ll_at_most(node, nodes), bus / 2), 0.92 * bus, bus)[place]


def _ring(node: Node, nodes: int, per_node: int, size: float, kind: str, place: int) -> float:
    ranks, both = nodes * per_node, 2 if kind == "all_reduce" else 1
    steps, crossing = both * (ranks - 1), both * (nodes - 1) if nodes > 1 else 0
    bus = _ring_bus(node, nodes, per_node, place)
    overhead = OVERHEAD[CPU.get(node.name, "Intel")] * (3 if PROTOCOLS[place] == "Simple" else 1) if nodes > 1 else 0.0
    between = BETWEEN["Tree" if per_node == 1 else "Ring"][place]
    latency = START["Ring"][place]
    latency += (steps - crossing) * max(INSIDE["Ring"][place], overhead) + crossing * between
    if PROTOCOLS[place] == "Simple" and nodes > 1 and kind == "all_reduce" and size / (CHANNELS * ranks) >= 64:
        latency *= 1.9 if _generation(node) < 3 else 1.4
    return latency + size / 1e3 * steps / ranks / bus


def _tree(node: Node, nodes: int, per_node: int, size: float, place: int) -> float:
    bus = 0.92 * _bus(node, nodes, per_node)
    bus = (min(bus / 3.8, _ll_at_most(node, nodes)), bus * (7 / 9 if nodes == 1 else 120 / 128), bus)[place]
    power = int(size // 64).bit_length() - 1
    if 0 <= power < 23:
        bus *= TREE_IS_SLOWER[PROTOCOLS[place]][power]
    down = (per_node - 1) * INSIDE["Tree"][place] + (nodes.bit_length() - 1) * BETWEEN["Tree"][place]
    return START["Tree"][place] + 2 * down + size / 1e3 / (bus / 2)


def _nvls(node: Node, nodes: int, per_node: int, size: float, kind: str) -> float:
    ranks = nodes * per_node
    inside = _inside(node) * NVLS_EFFICIENCY[_generation(node)] * (CHANNELS - 1) / CHANNELS
    if kind != "all_reduce":
        return NVLS + size / 1e3 / (inside * (per_node - 1) / per_node)
    bus = 2 * inside
    if nodes > 1:
        bus = min(bus, _ports(node, per_node) * (2 if nodes == 2 else 1))
    crossing = 2 * (nodes.bit_length() - 1) * NVLS_TREE
    return NVLS + crossing + size / 1e3 * 2 * (ranks - 1) / ranks / bus
