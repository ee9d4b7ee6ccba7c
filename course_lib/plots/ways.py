"""The way from GPU to GPU: inside a machine, out of it by one port or by all of them, and up to a switch that adds."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.hardware import DGX_A100, L40S, Node
from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
    FACES,
    GREY,
    INK,
    LIMIT,
    SENT,
    SMALLEST,
    TITLE,
    WIDTH,
    arrow,
    box,
    say,
    sheet,
)

GIGA = 1e9
PCIE = L40S.link.bandwidth  # the course's PCIe
INCH = 5.0  # units of these sheets
PALE = "#F4F4F4"
SWITCH = "#E3E3E3"


def way_between_gpus(
    near: float = 0.43e-3, far: float = 11.44e-3, node: Node = DGX_A100, ax: Axes | None = None
) -> Axes:
    """Draw two nodes and the way between their GPUs, each piece as thick as it is wide, and what two sums took.

    `near` and `far` are seconds that two GPUs of one node, and of two nodes, needed for the same all-reduce.
    """
    wide, port = node.gpu.link.bandwidth / GIGA, node.nic.bandwidth / GIGA
    high = 19.0
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title(f"Between two nodes the same sum takes {far / near:.0f} times as long", fontsize=TITLE, loc="left")
    for left, number in ((0.3, 0), (25.7, 1)):
        _node(ax, left, number, node)
    _cable(ax, [(14.4, 9.1), (17.2, 9.1), (20.3, 12.2), (23.4, 9.1), (26.2, 9.1)], port, wide, LIMIT)
    for x, words in ((16.1, "leaf\nswitch"), (21.9, "leaf\nswitch")):
        box(ax, x, 8.0, 2.6, 2.2, SWITCH, words)
    box(ax, 18.9, 11.4, 2.8, 2.2, SWITCH, "spine\nswitch")
    ax.text(20.3, 7.0, f"by one port: {port:g} GB/s", ha="center", va="center", fontsize=SMALLEST, color=LIMIT,
            weight="bold")  # fmt: skip
    ax.text(20.3, 15.6, "the network", ha="center", va="center", fontsize=SMALLEST)
    longest = max(near, far)
    rows = ((3.4, near, COMPUTE, "two GPUs of one node"), (1.2, far, LIMIT, "one GPU of each of two nodes"))
    for y, taken, colour, words in rows:
        ax.text(11.4, y + 0.65, words, ha="right", va="center", fontsize=SMALLEST)
        ax.add_patch(Rectangle((11.8, y), 17 * taken / longest, 1.3, facecolor=colour))
        ratio = f", {taken / near:.0f} times as long" if taken > near else ""
        ax.text(12.2 + 17 * taken / longest, y + 0.65, f"{1e3 * taken:.3g} ms{ratio}", va="center",
                fontsize=SMALLEST, weight="bold")  # fmt: skip
    ax.text(11.8, 5.25, "measured: an all-reduce of 64 MiB", fontsize=SMALLEST)
    say(ax, f"two nodes with GPUs below an NVSwitch: {wide:g} GB/s from each GPU; from a GPU by PCIe, "
            f"{PCIE / GIGA:g} GB/s, to its network port, one of {node.nics}, {port:g} GB/s, "
            f"then by a leaf switch, perhaps a spine switch, and a leaf "
            f"switch to the port, PCIe and GPU of the other node; dashed, a detour from the GPU by the CPU's memory to "
            f"the port. Measured for 64 MiB: {1e3 * near:.3g} ms between two GPUs of one node, {1e3 * far:.3g} ms "
            f"between one GPU of each of two nodes, {far / near:.0f} times as long")
    return ax


def _node(ax: Axes, left: float, number: int, node: Node) -> None:
    wide, pcie = node.gpu.link.bandwidth / GIGA, PCIE / GIGA
    ax.add_patch(FancyBboxPatch((left, 6.6), 14.6, 11.4, boxstyle="round,pad=0,rounding_size=0.4", facecolor=PALE,
                                edgecolor=INK, linewidth=1, zorder=0))  # fmt: skip
    outer = left + (0.5 if number else 10.3)  # where the port is: on the side of the other node
    inner = left + (10.0 if number else 1.2)
    first, second = (inner, outer + 0.2) if not number else (outer + 0.2, inner)
    for x in (first + 1.7, second + 1.7):
        _cable(ax, [(x, 13.0), (x, 15.6)], wide, wide, COMPUTE)
    _cable(ax, [(outer + 1.9, 9.6), (outer + 1.9, 11.6)], pcie, wide, LIMIT)
    port = outer - (0 if number else 0.6)
    memory = left + (7.4 if number else 1.4)
    beside = (outer + 3.6, memory + 1.8, memory, port + 4.4) if number else (outer + 0.2, memory + 4.0, memory + 5.8,
                                                                             port)  # fmt: skip
    for way in (((beside[0], 12.3), (beside[1], 12.3), (beside[1], 9.9)), ((beside[2], 8.6), (beside[3], 8.6))):
        ax.plot(*zip(*way, strict=True), color=LIMIT, linewidth=1.5, linestyle=(0, (3, 2)), zorder=0.5)
    box(ax, memory, 7.5, 5.8, 2.4, "white", "detour through\nCPU memory")
    box(ax, left + 0.8, 15.0, 13.0, 1.6, SWITCH, f"NVSwitch for {node.gpus} GPUs (2 are drawn)")
    for x in (first, second):
        box(ax, x, 11.5, 3.4, 1.6, FACES[0], "GPU")
    box(ax, port, 7.5, 4.4, 2.4, SWITCH, f"port, one\nof {node.nics}")
    middle = left + 7.3
    ax.text(middle, 14.0, f"NVLink: {wide:g} GB/s", ha="center", va="center", fontsize=SMALLEST, color=COMPUTE,
            weight="bold")  # fmt: skip
    ax.text(outer + (2.2 if number else 1.6), 10.7, f"PCIe: {pcie:g} GB/s", ha="left" if number else "right",
            va="center", fontsize=SMALLEST)  # fmt: skip
    ax.text(left + (14.1 if number else 0.5), 17.2, f"node {number}", ha="right" if number else "left", va="center",
            fontsize=SMALLEST, weight="bold")  # fmt: skip


def _cable(ax: Axes, points: list[tuple[float, float]], carries: float, widest: float, colour: str) -> None:
    xs, ys = zip(*points, strict=True)
    ax.plot(xs, ys, color=colour, linewidth=max(1.5, 15 * carries / widest), solid_capstyle="butt", zorder=0.5)


ROUNDS = ((0, 1, 2, 3), (2, 3, 0, 1))  # in which order two rings pass the GPUs of node 0; those of node 1 backwards
NODES = FACES[0], FACES[1]  # of two nodes' GPUs


def rings_and_ports(ax: Axes | None = None) -> Axes:
    """Draw one ring through two nodes of four GPUs as a strip, and two rings of half a tensor: what leaves a node."""
    high = 15.4
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Two rings send as many bytes out of a node as one, but by two ports", fontsize=TITLE, loc="left")
    told = []
    for name, y, rings, each in (("one ring sums the whole tensor", 13.4, 1, 1.75),
                                 ("two rings sum a half each, at the same time", 7.8, 2, 0.875)):  # fmt: skip
        ax.text(0.3, y, f"{name}: each arrow carries {each:g} S", fontsize=SMALLEST, weight="bold", va="center")
        for ring, order in enumerate(ROUNDS[:rings]):
            _strip(ax, y - 2.6 - 3.1 * ring, order)
        for node, (left, right) in enumerate(((0.0, 3), (4, 7))):
            ends = 0.2 + 3.9 * left + 1.6 * node, 2.8 + 3.9 * right + 1.6 * node
            low = y - 2.9 - 3.1 * (rings - 1)
            ax.add_patch(Rectangle((ends[0], low), ends[1] - ends[0], y - 0.6 - low, facecolor=PALE, zorder=0))
        ports = " and ".join(f"{order[-1]}" for order in ROUNDS[:rings])
        sums = f"{rings} · {each:g} S = 1.75 S" if rings > 1 else f"{each:g} S"
        ax.text(34.4, y - 1.75 - 1.55 * (rings - 1), f"leaves node 0:\n{sums}\nby port{'s' * (rings > 1)} {ports}",
                fontsize=SMALLEST, va="center", weight="bold", color=LIMIT)  # fmt: skip
        told.append(f"{name}: every arrow carries {each:g} S, so {sums} leaves node 0 by port {ports}")
    orders = "; ".join(" ".join(str(one) for one in _round(order)) for order in ROUNDS)
    for x, colour, words in ((2.0, NODES[0], "node 0"), (7.0, NODES[1], "node 1")):
        ax.add_patch(Rectangle((x - 1.6, 0.1), 1.2, 1.0, facecolor=colour, edgecolor=INK, linewidth=0.8))
        ax.text(x, 0.6, words, fontsize=SMALLEST, va="center")
    ax.text(11.4, 0.6, "grey: ports. Node 1 runs backwards, so that equal ports are joined", fontsize=SMALLEST,
            va="center")  # fmt: skip
    say(ax, "\n".join([f"the rings pass the GPUs {orders}, and go back to their first", *told]))
    return ax


def _round(order: tuple[int, ...]) -> tuple[int, ...]:
    return order + tuple(4 + place for place in order[::-1])


def _strip(ax: Axes, y: float, order: tuple[int, ...]) -> None:
    """Draw a ring as eight boxes in its order, the arrows that leave a node in orange, and the way back below."""
    xs = [0.4 + 3.9 * place + 1.6 * (place > 3) for place in range(8)]
    for place, (x, gpu) in enumerate(zip(xs, _round(order), strict=True)):
        box(ax, x, y, 2.2, 1.7, NODES[gpu > 3], f"{gpu}")
        if place == 7:
            break
        leaves = place == 3
        ports = 1.05 * leaves  # room for one at each end of the arrow
        arrow(ax, (x + 2.3 + ports, y + 0.85), (xs[place + 1] - 0.1 - ports, y + 0.85),
              colour=LIMIT if leaves else COLLECTIVE, line=3.4 if leaves else 1.8)  # fmt: skip
    low, first, last = y - 0.55, xs[0] + 1.1, xs[7] + 1.1
    ax.plot([last, last, first], [y, low, low], color=LIMIT, linewidth=1.8, zorder=0.8)
    for middle, port in ((y + 0.85, order[3]), (low, order[0])):  # the same number at both ends of a cable
        for left in (xs[3] + 2.3, xs[4] - 1.1):
            box(ax, left, middle - 0.5, 1.0, 1.0, SWITCH, f"{port}")
    arrow(ax, (first, low), (first, y), colour=LIMIT, line=1.8)


# What the steps of a sum take on 8 nodes of 8, in turn, in µs by NCCL's table (LL128): how many, seconds, and where.
RING_STEPS = 14 * ((8, 1.9, COMPUTE), (1, 4.0, LIMIT))
LEVEL_STEPS = (7, 1.9, COMPUTE), (14, 8.5, LIMIT), (7, 1.9, COMPUTE)
TURNS = ("a ring through all 64 GPUs", RING_STEPS), ("two levels", LEVEL_STEPS)


def rails(ax: Axes | None = None) -> Axes:
    """Draw the rails of two nodes of four GPUs, and below, on one axis, the steps of a small sum on 8 x 8 in turn."""
    high, upper, lower = 22.4, 17.8, 10.4  # the lowest line of the boxes of each node
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Rail r joins GPU r of every node; two levels need fewer steps", fontsize=TITLE,
                 loc="left")  # fmt: skip
    xs = [9.5 + 6.6 * place for place in range(4)]
    for node, y in enumerate((upper, lower)):
        ax.add_patch(FancyBboxPatch((5.6, y - (0.5, 2.0)[node]), 27.6, 4.2, boxstyle="round,pad=0,rounding_size=0.3",
                                    facecolor=PALE, edgecolor=INK, linewidth=1))  # fmt: skip
        ax.text(5.1, y + 0.85, f"node {node}", fontsize=SMALLEST, va="center", ha="right", weight="bold")
        bar = y + (2.2, -1.6)[node]
        box(ax, xs[0] - 1.6, bar, xs[3] - xs[0] + 3.2, 1.2, SWITCH, "NVSwitch")
        for place, x in enumerate(xs):
            ax.plot([x, x], [y + 1.7, bar] if not node else [bar + 1.2, y], color=COMPUTE, linewidth=5)
            box(ax, x - 1.4, y, 2.8, 1.7, "white", f"{4 * node + place}")
    for place, x in enumerate(xs):
        ax.plot([x, x], [upper, lower + 1.7], color=LIMIT, linewidth=3, zorder=0.8)
        box(ax, x - 2.5, 14.0, 5.0, 1.5, SWITCH, "leaf switch")
        ax.text(x + 0.4, 16.3, f"rail {place}", fontsize=SMALLEST, va="center")
    ax.text(33.9, upper + 0.85, "phases 1 and 3:\ninside, by NVLink", fontsize=SMALLEST, va="center", color=COMPUTE,
            weight="bold")  # fmt: skip
    ax.text(33.9, 14.75, "phase 2: across,\neach by its port", fontsize=SMALLEST, va="center", color=LIMIT,
            weight="bold")  # fmt: skip
    ax.text(33.9, lower + 0.1, "drawn: 2 nodes of 4\nGPUs; counted below:\n8 nodes of 8", fontsize=SMALLEST,
            va="center")  # fmt: skip
    ax.text(0.3, 7.1, "one step after another on 8 nodes of 8, by NCCL's table (LL128); starts and bytes come on top",
            fontsize=SMALLEST, weight="bold", va="center")  # fmt: skip
    told, unit = [], 18.0 / sum(count * micro for count, micro, _ in RING_STEPS)
    for row, (name, turns) in enumerate(TURNS):
        y, x = 4.5 - 2.5 * row, 11.8
        ax.text(11.4, y + 0.7, name, fontsize=SMALLEST, ha="right", va="center")
        for phase, (count, micro, colour) in enumerate(turns, start=1):
            ax.add_patch(Rectangle((x, y), count * micro * unit, 1.4, facecolor=colour))
            for _ in range(count):  # a fine line at the end of each step, where there is room for it
                x += micro * unit
                if colour == LIMIT:
                    ax.plot([x, x], [y, y + 1.4], color="white", linewidth=0.8)
            if len(turns) == 3:
                ax.text(x - count * micro * unit / 2, y - 0.9, f"phase {phase}", fontsize=SMALLEST, ha="center",
                        va="center")  # fmt: skip
        inside, across = (sum(count for count, _, one in turns if one == colour) for colour in (COMPUTE, LIMIT))
        micros = sum(count * micro for count, micro, _ in turns)
        words = f"{inside} inside + {across} across"
        ax.text(x + 0.4, y + 0.7, f"{words}\n= {inside + across} steps: {micros:.0f} µs", fontsize=SMALLEST,
                va="center", weight="bold")  # fmt: skip
        told.append(f"{name}: {words} = {inside + across} steps one after another, {micros:.0f} µs")
    say(ax, "\n".join(["two nodes of four GPUs: NVSwitch joins the GPUs of a node, rail 0 joins GPUs 0 and 4 by their "
                       "ports and a leaf switch, rail 1 GPUs 1 and 5, and so on. Phases 1 and 3 go over NVLink, "
                       "phase 2 over the rails", *told]))  # fmt: skip
    return ax


def switch_adds(ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw a ring beside a switch that adds: what goes over each GPU's link for a tensor of S bytes."""
    high = 11.0
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("How much does each GPU send for a tensor of S bytes?", fontsize=TITLE, loc="left")
    xs = [2.0 + 4.4 * place for place in range(ranks)]
    for left, adds in ((0.0, False), (21.4, True)):
        name = "the switch adds" if adds else "the GPUs add: a ring"
        ax.text(left + 0.4, 10.2, name, fontsize=SMALLEST, weight="bold")
        box(ax, left + 0.8, 6.4, 17.8, 3.2, FACES[5] if adds else SWITCH,
            "switch:  a + b + c + d" if adds else "switch: passes each message on")  # fmt: skip
        for place, x in enumerate(xs):
            box(ax, left + x - 1.2, 1.7, 3.8, 1.7, FACES[place], f"GPU {place}: {'abcd'[place]}")
            if adds:
                arrow(ax, (left + x + 0.1, 3.5), (left + x + 0.1, 6.3), colour=SENT, line=2.2)
                arrow(ax, (left + x + 1.1, 6.3), (left + x + 1.1, 3.5), colour=COMPUTE, line=2.2)
                for beside, side in ((-0.2, "right"), (1.4, "left")):
                    ax.text(left + x + beside, 4.9, "S", ha=side, va="center", fontsize=SMALLEST)
            else:
                goes, comes = left + x + 1.1, left + x + 0.1
                arrow(ax, (goes, 3.5), (goes, 6.3), colour=SENT, line=2.2)
                arrow(ax, (comes, 6.3), (comes, 3.5), colour=SENT, line=2.2)
                ax.text(goes + 0.3, 4.9, f"{2 * (ranks - 1)} · S/{ranks}", va="center", fontsize=SMALLEST)
                if place < ranks - 1:  # through the switch to the neighbour
                    ax.plot([goes, goes, goes + 3.4, goes + 3.4], [6.3, 6.8, 6.8, 6.3], color=SENT, linewidth=2.2)
                else:
                    ax.plot([goes, goes, left + xs[0] + 0.1, left + xs[0] + 0.1], [6.3, 7.2, 7.2, 6.3], color=SENT,
                            linewidth=2.2)  # fmt: skip
        words = "pink: S goes up; green: the sum comes down" if adds else "3 steps add, 3 hand on the sums: S/4 in each"
        ax.text(left + 0.8, 0.5, words, fontsize=SMALLEST)
    ax.plot([20.4, 20.4], [0.3, 10.2], color=GREY, linewidth=0.8)
    say(ax, f"left, a ring: the switch only passes messages on, the GPUs add, and each of {ranks} GPUs sends "
            f"S/{ranks} in each of {2 * (ranks - 1)} steps. Right, the switch adds: each GPU sends its "
            "tensor S up once, and the sum of all comes down at the same time")
    return ax
