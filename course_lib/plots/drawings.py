"""Drawings that explain words; what a run has measured is drawn by `plots`."""

from __future__ import annotations

from typing import Any

from course_lib.plots.canvas import INK, SMALLEST, TITLE, arrow, box, say, sheet

PROCESS, GPU, NIC, NODE = "#9ecae1", "#fdd08a", "#c7e0b4", "#f4f4f4"


def machine_room(ax: Any = None) -> Any:
    """Draw kernel, ranks, GPUs, nodes and NICs: what runs here, and what the same function meets in a data centre."""
    ax = sheet(4.1, 22, 9.2, ax)

    box(ax, 0.2, 1.6, 6.6, 6.4, NODE, "")
    ax.text(3.5, 8.3, "here: one node, no GPU", ha="center", fontsize=TITLE, color=INK)
    box(ax, 1.2, 6.0, 4.6, 1.7, PROCESS, "kernel (a process):\nthis notebook; run\nstarts four processes")
    for rank in range(4):
        x = 0.5 + 1.55 * rank
        arrow(ax, (3.5, 6.0), (x + 0.7, 4.9))
        box(ax, x, 3.7, 1.4, 1.2, PROCESS, f"rank {rank}")
    ax.plot([0.9, 6.1], [2.75, 2.75], color=INK, linewidth=2)
    for rank in range(4):
        arrow(ax, (1.2 + 1.55 * rank, 3.7), (1.2 + 1.55 * rank, 2.75), "<|-|>")
    ax.text(3.5, 2.1, "gloo: bytes through the CPU", ha="center", fontsize=SMALLEST, color=INK)

    for node in range(2):
        left = 8.2 + 7.1 * node
        box(ax, left, 1.6, 6.6, 6.4, NODE, "")
        ax.text(left + 3.3, 8.3, f"data centre: node {node}", ha="center", fontsize=TITLE, color=INK)
        for place in range(2):
            x = left + 0.5 + 3.0 * place
            box(ax, x, 6.2, 2.6, 1.2, PROCESS, f"rank {2 * node + place}\n(a process)")
            arrow(ax, (x + 1.3, 6.2), (x + 1.3, 5.5), "<|-|>")
            box(ax, x, 4.3, 2.6, 1.2, GPU, f"GPU {place}")
            arrow(ax, (x + 1.3, 4.3), (left + 2.6 + 1.4 * place, 3.2), "<|-|>")
        arrow(ax, (left + 3.1, 4.9), (left + 3.5, 4.9), "<|-|>")
        box(ax, left + 2.0, 2.1, 2.6, 1.1, NIC, "NIC")
        arrow(ax, (left + 3.3, 2.1), (left + 3.3, 0.75), "<|-|>")
    ax.plot([9.2, 20.9], [0.75, 0.75], color=INK, linewidth=2)
    ax.text(15.05, 0.15, "network between nodes: slower than inside one", ha="center", fontsize=SMALLEST, color=INK)
    ax.text(15.05, 1.05, "NCCL: bytes from GPU to GPU", ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "Here, one node without a GPU: the kernel, a process with this notebook, starts four processes, ranks 0 to "
            "3, which exchange bytes through the CPU with gloo.\n"
            "In a data centre, two nodes: on each, two ranks, each a process with a GPU of its own. GPUs of one node "
            "are linked; each node's NIC leads to the network between nodes, slower than inside one; bytes go from GPU "
            "to GPU with NCCL.")
    return ax
