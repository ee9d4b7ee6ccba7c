"""The way from GPU to GPU: inside a machine, out of it by one port or by all of them, and up to a switch that adds."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.hardware import DGX_A100, L40S, Node
from course_lib.plots.canvas import (
    FACES,
    GREY,
    INK,
    LIMIT,
    NETWORK,
    NVLINK,
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
    _cable(ax, [(14.4, 9.1), (17.2, 9.1), (20.3, 12.2), (23.4, 9.1), (26.2, 9.1)], port, wide, NETWORK)
    for x, words in ((16.1, "leaf\nswitch"), (21.9, "leaf\nswitch")):
        box(ax, x, 8.0, 2.6, 2.2, SWITCH, words)
    box(ax, 18.9, 11.4, 2.8, 2.2, SWITCH, "spine\nswitch")
    ax.text(20.3, 7.0, f"by one port: {port:g} GB/s", ha="center", va="center", fontsize=SMALLEST,
            color=NETWORK, weight="bold")  # fmt: skip
    ax.text(20.3, 15.6, "the network", ha="center", va="center", fontsize=SMALLEST)
    longest = max(near, far)
    rows = ((3.4, near, NVLINK, "two GPUs of one node"), (1.2, far, NETWORK, "one GPU of each of two nodes"))
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
        _cable(ax, [(x, 13.0), (x, 15.6)], wide, wide, NVLINK)
    _cable(ax, [(outer + 1.9, 9.6), (outer + 1.9, 11.6)], pcie, wide, NETWORK)
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
    ax.text(middle, 14.0, f"NVLink: {wide:g} GB/s", ha="center", va="center", fontsize=SMALLEST, color=NVLINK,
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
    """Draw two of four rings, each with a quarter of a tensor, and by which port each leaves a node of four GPUs."""
    high = 19.8
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Two of the four rings: each leaves by another port, all at the same time", fontsize=TITLE, loc="left")
    for node, y in enumerate((14.0, 5.0)):
        ax.text(3.0, y, f"node {node}", fontsize=SMALLEST, weight="bold", ha="right", va="center")
    told = []
    for left, name, order in ((3.5, "ring A", ROUNDS[0]), (23.0, "ring B", ROUNDS[1])):
        out, back = order[-1], order[0]
        ax.text(left, 19.0, f"{name} sums a quarter of the tensor", fontsize=SMALLEST, weight="bold", va="center")
        ax.text(left, 17.7, f"out by port {out}, back by port {back}", fontsize=SMALLEST, weight="bold", va="center",
                color=NETWORK)  # fmt: skip
        _ring(ax, left, order)
        told.append(f"{name} passes the GPUs {' '.join(str(one) for one in _round(order))} and goes back to its first: "
                    f"out of node 0 by port {out} and back by port {back}, and every arrow carries 0.44 S")
    ax.text(3.5, 1.4, "Two more rings run the other way round, out by ports 0 and 2. Each arrow carries 0.44 S,",
            fontsize=SMALLEST, va="center", weight="bold")  # fmt: skip
    ax.text(3.5, 0.2, "so 4 · 0.44 S = 1.75 S leave node 0 by four ports. A single ring would send as much by one.",
            fontsize=SMALLEST, va="center", weight="bold")  # fmt: skip
    say(ax, "\n".join([*told, "two more rings run the other way round, out by ports 0 and 2; so 1.75 S leave node 0 by "
                       "four ports, and a single ring would send as much by one"]))
    return ax


def _round(order: tuple[int, ...]) -> tuple[int, ...]:
    return order + tuple(4 + place for place in order[::-1])


def _ring(ax: Axes, left: float, order: tuple[int, ...]) -> None:
    """Draw a ring through both nodes: GPUs and ports in their places, and arrows in the order of the ring."""
    xs = [left + 2.2 + 4.3 * place for place in range(4)]
    gpus, ports = (13.2, 4.2), (11.2, 6.6)  # the lowest lines of their boxes in both nodes
    for node, bottom in enumerate((11.8, 2.4)):
        ax.add_patch(FancyBboxPatch((left, bottom), 17.3, 4.8, boxstyle="round,pad=0,rounding_size=0.4",
                                    facecolor=PALE, edgecolor=INK, linewidth=1, zorder=0))  # fmt: skip
        for place, x in enumerate(xs):
            box(ax, x - 1.3, gpus[node], 2.6, 1.6, NODES[node], str(4 * node + place))
            used = place in (order[0], order[-1])
            box(ax, x - 1.5, ports[node], 3.0, 1.2, "white" if used else SWITCH, f"port {place}",
                edge=NETWORK if used else GREY, line=2.0 if used else 0.8)  # fmt: skip
    for node, way in enumerate((order, order[::-1])):
        y, up = gpus[node], 1 - 2 * node
        for here, there in zip(way, way[1:], strict=False):
            if abs(here - there) == 1:
                side = 1.4 if there > here else -1.4
                arrow(ax, (xs[here] + side, y + 0.8), (xs[there] - side, y + 0.8), colour=NVLINK, line=2.2)
            else:  # over or under the others
                edge = y + (1.6 if not node else 0)
                high = edge + 0.9 * up
                ax.plot([xs[here]] * 2 + [xs[there]], [edge, high, high], color=NVLINK, linewidth=2.2, zorder=0.8)
                arrow(ax, (xs[there], high), (xs[there], edge), colour=NVLINK, line=2.2)
    for place, (start, end) in ((order[-1], (11.1, 7.8)), (order[0], (7.9, 11.2))):
        arrow(ax, (xs[place], start), (xs[place], end), colour=NETWORK, line=4)
        for low, top in ((12.4, 13.2), (5.8, 6.6)):
            ax.plot([xs[place]] * 2, [low, top], color=NETWORK, linewidth=4, solid_capstyle="butt", zorder=0.8)


# What the hops of a sum take on 8 nodes of 8, in turn, in µs by NCCL's table (LL128): how many, seconds, and where.
RING_HOPS = 14 * ((8, 1.9, NVLINK), (1, 4.0, NETWORK))
LEVEL_HOPS = (7, 1.9, NVLINK), (14, 8.5, NETWORK), (7, 1.9, NVLINK)
TURNS = ("a ring through all 64 GPUs", RING_HOPS), ("two levels", LEVEL_HOPS)


def rails(ax: Axes | None = None) -> Axes:
    """Draw 8 nodes of 8 GPUs with their rails, and below, on one axis, the hops of a small sum in turn."""
    high, rows = 24.0, {0: 17.9, 1: 14.0, 7: 8.7}  # the lowest line of each node that is drawn
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Rail r joins GPU r of every node; two levels need fewer hops", fontsize=TITLE, loc="left")
    xs = [5.8 + 3.3 * place for place in range(8)]
    for x, place in zip(xs, range(8), strict=True):
        box(ax, x - 1.45, 22.2, 2.9, 1.3, SWITCH, f"rail {place}")
        aside = x + 1.3  # beside the GPUs, so that none seems to send through another
        for top, low, dashes in ((22.2, 13.6, "-"), (13.6, 12.0, ":"), (12.0, rows[7] + 1.9, "-")):
            ax.plot([aside, aside], [top, low], color=NETWORK, linewidth=2.6, linestyle=dashes, zorder=0.6)
        for y in rows.values():
            ax.plot([x, aside], [y + 1.9, y + 1.9], color=NETWORK, linewidth=2.6, zorder=0.6)
    for node, y in rows.items():
        ax.add_patch(FancyBboxPatch((xs[0] - 1.8, y), xs[-1] - xs[0] + 3.6, 3.1, facecolor=PALE, edgecolor=INK,
                                    boxstyle="round,pad=0,rounding_size=0.3", linewidth=1, zorder=0.5))  # fmt: skip
        ax.text(xs[0] - 2.2, y + 1.9, f"node {node}", fontsize=SMALLEST, va="center", ha="right", weight="bold")
        ax.plot([xs[0], xs[-1]], [y + 0.55] * 2, color=NVLINK, linewidth=5, zorder=0.7)
        for place, x in enumerate(xs):
            ax.plot([x, x], [y + 0.55, y + 1.2], color=NVLINK, linewidth=5, zorder=0.7)
            box(ax, x - 1.0, y + 1.15, 2.0, 1.5, "white", f"{8 * node + place}")
    beside = xs[-1] + 2.4
    for y, words, colour in ((22.85, "grey: leaf switches", INK),
                             (19.4, "phases 1 and 3: inside\neach node, by NVLink", NVLINK),
                             (15.5, "phase 2: on each rail,\neach GPU by its port", NETWORK),
                             (10.2, "8 nodes of 8 GPUs;\nthree are drawn", INK)):  # fmt: skip
        ax.text(beside, y, words, fontsize=SMALLEST, va="center", color=colour,
                weight="normal" if colour == INK else "bold")  # fmt: skip
    ax.text(0.3, 7.0, "one hop after another, by NCCL's table (LL128); starts and bytes come on top",
            fontsize=SMALLEST, weight="bold", va="center")  # fmt: skip
    told, unit = [], 18.0 / sum(count * micro for count, micro, _ in RING_HOPS)
    for row, (name, turns) in enumerate(TURNS):
        y, x = 4.5 - 2.5 * row, 11.8
        ax.text(11.4, y + 0.7, name, fontsize=SMALLEST, ha="right", va="center")
        for phase, (count, micro, colour) in enumerate(turns, start=1):
            ax.add_patch(Rectangle((x, y), count * micro * unit, 1.4, facecolor=colour))
            for _ in range(count):  # a fine line at the end of each hop, where there is room for it
                x += micro * unit
                if colour == NETWORK:
                    ax.plot([x, x], [y, y + 1.4], color="white", linewidth=0.8)
            if len(turns) == 3:
                ax.text(x - count * micro * unit / 2, y - 0.9, f"phase {phase}", fontsize=SMALLEST, ha="center",
                        va="center", color=colour, weight="bold")  # fmt: skip
        inside, across = (sum(count for count, _, one in turns if one == colour) for colour in (NVLINK, NETWORK))
        micros = sum(count * micro for count, micro, _ in turns)
        each = {colour: micro for _, micro, colour in turns}
        words = f"{inside} · {each[NVLINK]:g} + {across} · {each[NETWORK]:g} µs"
        ax.text(x + 0.4, y + 0.7, f"{inside + across} hops: {micros:.0f} µs\n= {words}", fontsize=SMALLEST,
                va="center", weight="bold")  # fmt: skip
        told.append(f"{name}: {inside + across} hops one after another, {words} = {micros:.0f} µs")
    say(ax, "\n".join(["eight nodes of eight GPUs: NVLink joins the GPUs of a node, rail 0 joins GPUs 0, 8 and so on "
                       "to 56 by their ports and a leaf switch, rail 1 GPUs 1, 9 to 57, and so on. Phases 1 and 3 go "
                       "over NVLink, phase 2 over the rails", *told]))  # fmt: skip
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
        box(ax, left + 0.8, 6.4, 17.8, 3.2, FACES[6] if adds else SWITCH,
            "switch:  a + b + c + d" if adds else "switch: passes each message on")  # fmt: skip
        for place, x in enumerate(xs):
            box(ax, left + x - 1.2, 1.7, 3.8, 1.7, FACES[place], f"GPU {place}: {'abcd'[place]}")
            if adds:
                arrow(ax, (left + x + 0.1, 3.5), (left + x + 0.1, 6.3), colour=NVLINK, line=2.2)
                arrow(ax, (left + x + 1.1, 6.3), (left + x + 1.1, 3.5), colour=NVLINK, line=2.2)
                for beside, side in ((-0.2, "right"), (1.4, "left")):
                    ax.text(left + x + beside, 4.9, "S", ha=side, va="center", fontsize=SMALLEST)
            else:
                goes, comes = left + x + 1.1, left + x + 0.1
                arrow(ax, (goes, 3.5), (goes, 6.3), colour=NVLINK, line=2.2)
                arrow(ax, (comes, 6.3), (comes, 3.5), colour=NVLINK, line=2.2)
                ax.text(goes + 0.3, 4.9, f"{2 * (ranks - 1)} · S/{ranks}", va="center", fontsize=SMALLEST)
                if place < ranks - 1:  # through the switch to the neighbour
                    ax.plot([goes, goes, goes + 3.4, goes + 3.4], [6.3, 6.8, 6.8, 6.3], color=NVLINK, linewidth=2.2)
                else:
                    ax.plot([goes, goes, left + xs[0] + 0.1, left + xs[0] + 0.1], [6.3, 7.2, 7.2, 6.3], color=NVLINK,
                            linewidth=2.2)  # fmt: skip
        words = ("S goes up, and the sum comes down at the same time" if adds
                 else f"{ranks - 1} hops add, {ranks - 1} hand on the sums: S/{ranks} in each")  # fmt: skip
        ax.text(left + 0.8, 0.5, words, fontsize=SMALLEST)
    ax.plot([20.4, 20.4], [0.3, 10.2], color=GREY, linewidth=0.8)
    say(ax, f"left, a ring: the switch only passes messages on, the GPUs add, and each of {ranks} GPUs sends "
            f"S/{ranks} in each of {2 * (ranks - 1)} hops. Right, the switch adds: each GPU sends its "
            "tensor S up once, and the sum of all comes down at the same time")
    return ax
