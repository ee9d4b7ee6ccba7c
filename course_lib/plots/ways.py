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
    SERIES,
    SMALLEST,
    TITLE,
    WAITING,
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
    box(ax, memory, 7.5, 5.8, 2.4, "white", "a detour by the\nCPU's memory")
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


RAILS = (  # of each panel: its name, and what to see in it
    ("one ring", "uses port 3 out, port 0 in"),
    ("two rings", "leave by different ports"),
    ("a ring on every rail", "black: NVLink inside a node"),
)
ROUNDS = ((0, 1, 2, 3), (2, 3, 0, 1))  # in which order two rings pass the GPUs of node 0; those of node 1 backwards


def rails(ax: Axes | None = None) -> Axes:
    """Draw two nodes of four GPUs three times: one ring through all, two rings, and a ring on every rail."""
    high, upper, lower = 19.4, 11.9, 3.4  # the lowest line of the boxes of each node
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("One ring leaves by one port; several rings, or rails, use them all", fontsize=TITLE, loc="left")
    for panel, (name, words) in enumerate(RAILS):
        left = 0.3 + 13.75 * panel
        xs = [left + 1.65 + 3.05 * place for place in range(4)]
        ax.text(left, 18.2, name, fontsize=SMALLEST, weight="bold")
        ax.text(left, 17.1, words, fontsize=SMALLEST)
        for node, y in enumerate((upper, lower)):
            ax.add_patch(FancyBboxPatch((left, y - (0.5, 3.0)[node]), 12.8, 5.2,
                                        boxstyle="round,pad=0,rounding_size=0.3", facecolor=PALE, edgecolor=INK,
                                        linewidth=1))  # fmt: skip
            ax.text(left + 0.3, y + (4.0, -2.3)[node], f"node {node}", fontsize=SMALLEST, va="center")
            for place, x in enumerate(xs):
                box(ax, x - 1.0, y, 2.0, 1.7, "white", f"{4 * node + place}")
        (_on_rails if panel == 2 else _in_rings)(ax, xs, upper, lower, 1 + panel)
    say(ax, "three panels with two nodes of four GPUs, each GPU with a port of its own. Left: one ring through all "
            "GPUs leaves node 0 by port 3 and comes back by port 0; ports 1 and 2 stand idle. Middle: a second "
            "ring passes the GPUs of node 0 in the order 2, 3, 0, 1, leaves by port 1 and comes back by port 2, so no "
            "port is idle. Right: NVLink joins the GPUs of a node, a rail those at one place of all nodes, and a ring "
            "goes round each rail by a leaf switch of its own, so that every port carries a part")  # fmt: skip
    return ax


def _in_rings(ax: Axes, xs: list[float], upper: float, lower: float, rings: int) -> None:
    """Draw the first rings of ROUNDS: along the boxes of a node or, if it is the second, on a line beside them."""
    colours = dict.fromkeys(range(4), WAITING)
    for ring, order in enumerate(ROUNDS[:rings]):
        colour = (COLLECTIVE, SERIES[0])[ring]
        first, last = order[0], order[-1]
        colours |= {first: colour, last: colour}
        for start, end in zip(order, order[1:], strict=False):
            for node, y in enumerate((upper, lower)):
                here, there = (start, end) if not node else (end, start)
                if ring == 0:
                    side = 1.0 if there > here else -1.0
                    arrow(ax, (xs[here] + side, y + 0.85), (xs[there] - side, y + 0.85), colour=colour, line=2)
                    continue
                back = abs(end - start) > 1  # over all others
                edge, turn = y + (1.75, -0.05)[node], y + (1.75, -0.05)[node] + (1, -1)[node] * (1.4 if back else 0.9)
                inset = (0.4 if there > here else -0.4) * (-1 if back else 1)
                ax.plot([xs[here] + inset] * 2 + [xs[there] - inset], [edge, turn, turn], color=colour, linewidth=2)
                arrow(ax, (xs[there] - inset, turn), (xs[there] - inset, edge), colour=colour, line=2)
        for place, goes_out in ((last, True), (first, False)):
            ends = (xs[place], upper - 1.3), (xs[place], lower + 3.0)
            arrow(ax, *(ends if goes_out else ends[::-1]), colour=colour, line=2)
            ax.text(xs[place] + (0.3 if place < 2 else -0.3), 8.5, "out" if goes_out else "in", fontsize=SMALLEST,
                    ha="left" if place < 2 else "right", va="center")  # fmt: skip
    for place, colour in colours.items():
        _port(ax, xs[place], upper, lower, colour)
    if rings == 1:
        ax.text((xs[1] + xs[2]) / 2, 8.5, "ports 1, 2\nare idle", ha="center", va="center", fontsize=SMALLEST)


def _on_rails(ax: Axes, xs: list[float], upper: float, lower: float, _: int) -> None:
    for place, x in enumerate(xs):
        if place < 3:  # NVLink, over which the pieces are shared out and gathered
            for y in (upper, lower):
                ax.plot([x + 1.0, xs[place + 1] - 1.0], [y + 0.85] * 2, color=INK, linewidth=3)
        _port(ax, x, upper, lower, SERIES[place])
        box(ax, x - 1.35, 7.5, 2.7, 2.0, SWITCH, "leaf\nswitch")
        for start, end in ((upper - 1.3, 9.6), (7.4, lower + 3.0)):
            ax.plot([x, x], [start, end], color=SERIES[place], linewidth=3)
        ax.text(x, upper + 2.5, f"rail {place}", fontsize=SMALLEST, va="center", ha="center")


def _port(ax: Axes, x: float, upper: float, lower: float, colour: str) -> None:
    for y in (upper - 1.2, lower + 2.3):
        ax.add_patch(Rectangle((x - 0.7, y), 1.4, 0.6, facecolor=colour, edgecolor=INK, linewidth=0.8))


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
