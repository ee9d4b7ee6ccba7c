"""Pictures that only the slides of chapter 10 have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import cos, pi, sin

import kit
from kit import ACROSS, BIG, GREY_WORDS, LETTERS, MONO, PALE, axes, bar, bars, box, frame, sheet, span, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib import costs
from course_lib.hardware import DGX_A100, DGX_H100, H100
from course_lib.measured import all_reduce_dgx
from course_lib.models import MODELS, parameter_count
from course_lib.plots import canvas
from course_lib.plots.port_rates import pair_rate

line = partial(kit.line, solid_joinstyle="miter", zorder=0.6)  # below what it joins

SWITCH, WHITE = "#E3E3E3", "#FFFFFF"
FAULT, NETWORK, NVLINK, INK = canvas.LIMIT, canvas.NETWORK, canvas.NVLINK, canvas.INK
ORANGE_WORDS = "#A86E00"  # as dark as letters on white must be
GREEK = {"family": "DejaVu Sans", "style": "italic"}
LINK, PORT = DGX_A100.gpu.link.bandwidth / 1e9, DGX_A100.nic.bandwidth / 1e9  # GB/s of the chapter's first cluster
FOUND = {1: 11, 2: 22, 4: 44, 8: 60}  # GB/s of the cluster with faults, by pairs of GPUs
MODEL, LAYERS, NODES = MODELS["Llama-3-8B"], 32, (8, 16, 32, 64, 128, 256)
LAYER = 2 * parameter_count(MODEL) / LAYERS  # bytes
COMPUTING = costs.step_flops(MODEL, 1, 2048) / (0.4 * H100.peak("bf16"))  # seconds of a step
FAST = H100.link.protocol("LL128")
SHORT, LONG = 256 * 7, 255  # hops of a ring through 256 nodes, inside them and between
HOP = (SHORT * FAST.latency + LONG * 4.0e-6) / (SHORT + LONG)  # seconds of one on average


def _measured(gpus: int, per_node: int, size: int = 2**26) -> float:
    return next(row.seconds for row in all_reduce_dgx("a100_dgx", gpus, per_node) if row.bytes == size)


def _gather(nodes: int, per_node: int, size: float) -> float:
    return min(costs.nccl_seconds(DGX_H100, nodes, per_node, size, "all_gather").values())


def _messages(unit: int) -> float:
    """Return the seconds of a step's collectives on 256 nodes with so many layers in a unit."""
    return 3 * LAYERS / unit * _gather(256, 8, unit * LAYER)


def _ends(unit: int) -> float:
    """Return the seconds of a step's first gather and last reduce-scatter, which nothing hides."""
    return 2 * _gather(256, 8, unit * LAYER)


# Sections 1 and 2: how long two nodes take


def near_and_far() -> Figure:
    """The same sum inside one machine and between two, and what both took."""
    near, far = _measured(2, 2), _measured(2, 1)
    ax = sheet(36, 30)
    words(ax, 18, 28.6, "an all-reduce of 64 MiB on two GPUs", ha="center", weight="bold")
    frame(ax, 8, 20.4, 20, 6)
    line(ax, (13, 23.4), (23, 23.4), colour=NVLINK, wide=16)
    for x in (10, 21):
        box(ax, x, 21.6, 5, 3.6, canvas.FACES[0], "GPU")
    for x, gpu, colour in ((1.5, 3.5, 0), (23.5, 25.5, 1)):
        frame(ax, x, 5.6, 11, 6)
        box(ax, gpu + 0.9, 6.8, 5, 3.6, canvas.FACES[colour], "GPU")
    line(ax, (9.4, 8.6), (26.4, 8.6), colour=NETWORK, wide=2)
    for y, taken, colour, name in ((16.2, near, NVLINK, "one machine"), (1.4, far, NETWORK, "two machines")):
        bar(ax, 1, y, 34 * taken / far, 2.8, colour)
        inside = taken == far
        words(ax, 34 if inside else 3.2, y + 1.4, f"{name}: {1e3 * taken:.3g} ms", size=BIG, weight="bold",
              ha="right" if inside else "left", colour="white" if inside else INK)
    return ax.figure


@steps(range(3))
def way_out(step: int) -> Figure:
    """The way of a byte inside a node, out by a port, and through the network, as thick as each piece is wide."""
    ax, point = sheet(65, 27, (6.5, 2.7)), 40 / LINK  # points of line for each GB/s
    for x, number, colour in ((1, 0, 0), (38, 1, 1)):
        side = 1 - number
        frame(ax, x, 1, 26, 25.4)
        words(ax, x + (1 if side else 25), 3, f"node {number}", weight="bold", ha="left" if side else "right")
        xs = x + 6, x + 20
        for gpu in xs:
            line(ax, (gpu, 15), (gpu, 22), colour=NVLINK, wide=LINK * point)
        box(ax, x + 1.5, 21, 23, 4, SWITCH, "NVSwitch")
        for gpu in xs:
            box(ax, gpu - 3.6, 12.6, 7.2, 4, canvas.FACES[colour], "GPU")
        words(ax, x + 13, 18.8, f"NVLink\n{LINK:.0f} GB/s", ha="center", colour=NVLINK, weight="bold")
        port = xs[side]
        if step:
            line(ax, (port, 5), (port, 12.6), colour=INK, wide=32 * point)
            words(ax, port + (-1 if side else 1), 10, "PCIe\n32 GB/s", ha="right" if side else "left")
            box(ax, port - 3.6, 3.4, 7.2, 4, WHITE, "port", edge=NETWORK, line=2)
    if step == 2:
        way = (24.6, 5.4), (30, 5.4), (32.5, 14.4), (35, 5.4), (40.4, 5.4)
        line(ax, *way, colour=NETWORK, wide=PORT * point)
        for x, y, wide, name in ((30, 5.4, 4.2, "leaf"), (35, 5.4, 4.2, "leaf"), (32.5, 14.4, 5, "spine")):
            box(ax, x - wide / 2, y - 1.8, wide, 3.6, SWITCH, name)
        words(ax, 32.5, 18, "switches", ha="center")
        words(ax, 32.5, 1.8, f"{PORT:.0f} GB/s", ha="center", colour=NETWORK, weight="bold")
    return ax.figure


def which_sizes() -> Figure:
    """The largest sum inside a node and between two, and two smaller ones that nobody has timed yet."""
    ax = sheet(36, 30)
    for row, name in enumerate(("64 MiB", "1 MiB", "2 KiB")):
        y = 20.4 - 10 * row
        words(ax, 7.4, y + 4, name, ha="right", weight="bold", size=BIG)
        for level, share, colour in ((y + 4.2, _measured(2, 2) / _measured(2, 1), NVLINK), (y, 1, NETWORK)):
            wide = 26 * (1 if row else share)
            bar(ax, 8.6, level, wide, 3.6, "none" if row else colour, edgecolor=colour, linewidth=1.6,
                 linestyle="--" if row else "-")
            if row:
                words(ax, 8.6 + wide / 2, level + 1.8, "?", ha="center", colour=colour, weight="bold", size=BIG)
        if not row:
            words(ax, 10.4, y + 6, "inside a node", colour=NVLINK, weight="bold")
            words(ax, 33.8, y + 1.8, "between two nodes", colour="white", weight="bold", ha="right")
    return ax.figure


def big_and_small() -> Figure:
    """The two tensors, as large as they are."""
    ax = sheet(36, 30)
    ax.set_aspect("equal")
    side = 27
    bar(ax, 1, 1.5, side, side, canvas.FACES[4])
    words(ax, 1 + side / 2, 16.5, "64 MiB", size=20, ha="center", weight="bold")
    words(ax, 1 + side / 2, 13, f"{1e3 * _measured(2, 1):.3g} ms", size=BIG, ha="center")
    small = side / 32768**0.5
    bar(ax, 31.5, 1.5, small, small, INK)
    ax.add_patch(Circle((31.5 + small / 2, 1.5 + small / 2), 1.4, fill=False, color=FAULT, linewidth=2))
    words(ax, 32, 11.8, "2 KiB", ha="center", weight="bold", size=BIG)
    words(ax, 32, 9.2, "to scale", ha="center")
    words(ax, 32, 6.6, "? µs", size=BIG, ha="center")
    canvas.arrow(ax, (31.9, 5.4), (31.7, 3.2))
    return ax.figure


def nearly_all_latency() -> Figure:
    """What the bytes of the smallest sum take beside all of it."""
    small, size = _measured(2, 1, 2048), 2048
    sends = size * _measured(2, 1) / 2**26
    return bars(["the whole sum of 2 KiB", "its bytes at 5.9 GB/s"], [small, sends],
                [f"{1e6 * small:.0f} µs", f"{1e6 * sends:.2f} µs"], [canvas.GREY, NETWORK])


def two_parts() -> Figure:
    """Latency and bytes of four sums as one bar each."""
    alpha, beta = _measured(2, 1, 2048), _measured(2, 1) / 2**26
    sizes = {"2 kB": 2e3, "64 kB": 6.4e4, "250 kB": 2.5e5, "1 MB": 1e6}
    ax = sheet(36, 30)
    longest = alpha + beta * 1e6
    for row, (name, size) in enumerate(sizes.items()):
        y, wide = 19.6 - 6.1 * row, 27.5 * alpha / longest
        words(ax, 7.4, y + 1.7, name, ha="right")
        bar(ax, 8, y, wide, 3.4, canvas.GREY)
        bar(ax, 8 + wide, y, 27.5 * beta * size / longest, 3.4, NETWORK)
    words(ax, 8, 25.6, "α", size=20, **GREEK)
    words(ax, 10.4, 25.4, "latency", weight="bold", size=BIG)
    words(ax, 19.4, 25.6, "S/B", size=20, colour=NETWORK, **GREEK)
    words(ax, 25.4, 25.4, "bytes", weight="bold", colour=NETWORK, size=BIG)
    canvas.say(ax, f"a latency of {1e6 * alpha:.0f} µs stands before the bytes of each sum: with 2 kB the bytes can't "
                   "be seen, with 250 kB they take as long as the latency, with 1 MB four times as long")
    return ax.figure


def shared_or_own() -> Figure:
    """Four GPUs that share one slow way, and four with a way each."""
    ax = sheet(36, 30)
    for y, name in ((17, "something shared?"), (2, "a way for each?")):
        words(ax, 18, y + 11.2, name, ha="center", weight="bold", size=BIG)
        for place in range(4):
            x, level = 3, y + 8 - 2.6 * place
            for left, colour in ((x, 0), (28, 1)):
                box(ax, left, level - 1, 5, 2, canvas.FACES[colour], "GPU" if place in (0,) else "")
            if y > 10:
                middle = y + 8 - 2.6 * 1.5
                line(ax, (8, level), (14, middle), (22, middle), (28, level), colour=NETWORK, wide=2)
            else:
                line(ax, (8, level), (28, level), colour=NETWORK, wide=2)
    return ax.figure


def four_pairs() -> Figure:
    """One pair of GPUs and the time that was measured, and below four pairs."""
    ax = sheet(36, 30)
    for y, pairs, told in ((16.5, 1, f"{1e3 * _measured(2, 1):.3g} ms"), (1, 4, "? ms")):
        for x, colour in ((1, 0), (25, 1)):
            frame(ax, x, y, 10, 12.6)
            for place in range(4):
                used = place < pairs
                box(ax, x + 2, y + 9.6 - 2.9 * place, 6, 2.3, canvas.FACES[colour] if used else WHITE,
                    "GPU" if used else "", edge=INK if used else canvas.GREY)
        for place in range(pairs):
            level = y + 10.75 - 2.9 * place
            line(ax, (9, level), (27, level), colour=NETWORK, wide=3)
        words(ax, 18, y + (6 if pairs == 1 else 13), told, size=20, weight="bold", ha="center")
    return ax.figure


ORDERS = (0, 1, 2, 3), (2, 3, 0, 1)  # in which order two rings pass the GPUs of a node


@steps(range(3))
def rings_by_ports(step: int) -> Figure:
    """What one pair and four pairs took, and below two rings that leave a node by different ports."""
    ax = sheet(36, 30)
    one, four = _measured(2, 1), _measured(8, 4)
    for y, name, taken in ((27.2, "1 + 1", one), (23.8, "4 + 4", four)):
        words(ax, 0, y + 1.2, name)
        bar(ax, 5.4, y, 30 * taken / one, 2.6, NETWORK)
        words(ax, 4.8 + 30 * taken / one, y + 1.3, f"{1e3 * taken:.3g} ms", ha="right", colour="white", weight="bold")
    for ring, order in enumerate(ORDERS):
        left = 0.3 + 18.4 * ring
        words(ax, left + 8.5, 21.2, ("first quarter", "second quarter")[ring], ha="center", weight="bold")
        _ring(ax, left, order, sends=step > ring)
    return ax.figure


def _ring(ax: Axes, left: float, order: Sequence[int], sends: bool = True) -> None:
    """Draw a ring through two nodes of four GPUs, 17 units wide: each arrow that leaves a node is the network's."""
    xs = [left + 2.4 + 4.1 * place for place in range(4)]
    rows = 14.2, 2.2
    for node, y in enumerate(rows):
        frame(ax, left, y - 1.6 - 0.4 * node, 17, 6.4)
        for place, x in enumerate(xs):
            box(ax, x - 1.5, y, 3, 2.8, canvas.FACES[node] if sends else WHITE, str(4 * node + place))
    if not sends:  # its nodes alone
        return
    for node, way in enumerate((order, order[::-1])):
        y = rows[node]
        for here, there in zip(way, way[1:], strict=False):
            if abs(here - there) == 1:
                side = 1.5 if there > here else -1.5
                canvas.arrow(ax, (xs[here] + side, y + 1.4), (xs[there] - side, y + 1.4), colour=NVLINK, line=2)
            else:
                edge, high = (y + 2.8, y + 4.2) if not node else (y, y - 1.1)
                line(ax, (xs[here], edge), (xs[here], high), (xs[there], high), colour=NVLINK, wide=2)
                canvas.arrow(ax, (xs[there], high), (xs[there], edge), colour=NVLINK, line=2)
    for place, ends in ((order[-1], (14.2, 5.2)), (order[0], (5.2, 14.2))):
        canvas.arrow(ax, (xs[place], ends[0]), (xs[place], ends[1]), colour=NETWORK, line=4)


def out_of_a_node() -> Figure:
    """A ring with the one arrow that leaves its node, and the rates of one pair and of four."""
    ax = sheet(36, 30)
    _ring(ax, 0.3, ORDERS[0])
    words(ax, 18, 10.9, "each arrow of a ring\ncarries so many bytes,", size=BIG)
    words(ax, 18, 4.6, "and only one\nleaves node 0", colour=NETWORK, weight="bold", size=BIG)
    rates = ((25.6, "1 pair", 2**26 / _measured(2, 1) / 1e9, PORT),
             (21.4, "4 pairs", 1.75 * 2**26 / _measured(8, 4) / 1e9, 4 * PORT))
    for y, name, rate, all_of in rates:
        words(ax, 0, y + 1.5, name)
        bar(ax, 6.5, y, 18 * all_of / 100, 3, canvas.FACES[5])
        bar(ax, 6.5, y, 18 * rate / 100, 3, NETWORK)
        words(ax, 7.1 + 18 * all_of / 100, y + 1.5, f"{rate:.3g} of {all_of:.0f} GB/s", weight="bold")
    return ax.figure


@steps(range(4))
def factors(step: int) -> Figure:
    """What the links promise, and what port and NVLink gave of it, to one scale: three factors make 27."""
    ax = sheet(65, 28, (6.5, 2.8))
    size = 2**26 / 1e9
    inside, outside = size / _measured(2, 2), size / _measured(2, 1)
    scale = 46 / LINK
    rows = ((23.8, "NVLink", LINK, canvas.FACES[0], f"{LINK:.0f} GB/s", 0),
            (18.6, "a port", PORT, canvas.FACES[5], f"{PORT:.0f} GB/s", 0),
            (11.6, "this way out gave", outside, NETWORK, f"{outside:.2g} GB/s", 1),
            (6.4, "this NVLink gave", inside, NVLINK, f"{inside:.0f} GB/s", 2))
    for y, name, rate, colour, told, first in rows:
        words(ax, 11.6, y + 2, name, ha="right", size=LETTERS)
        if first:  # what the link promises, which this one was to give
            bar(ax, 12.4, y, scale * (PORT, LINK)[first - 1], 4, PALE, edgecolor=canvas.WAITING)
        if step < first:
            continue
        bar(ax, 12.4, y, scale * rate, 4, colour)
        words(ax, 13.2 + scale * max(rate, PORT), y + 2, told, weight="bold")
    notes = ((28, 20.6, "12 times as narrow", NETWORK), (28, 13.6, "4.3 times less than a port should give", FAULT),
             (46, 8.4, "1.9 times less", NVLINK))
    for x, y, told, colour in notes[:step + 1]:
        words(ax, x, y, told, colour=colour, weight="bold", size=BIG)
    if step == 3:
        words(ax, 12.4, 2.4, f"12 · 4.3 / 1.9 = {inside / outside:.0f}", size=20, weight="bold")
    return ax.figure


def eight_ports() -> Figure:
    """Two nodes of eight GPUs with a port each, and the rates of their links."""
    ax = sheet(36, 30)
    for x, colour in ((0.5, 0), (22.5, 1)):
        frame(ax, x, 4.6, 13, 24.6)
        bar(ax, x + (1 if not colour else 10.4), 6, 1.6, 21.8, NVLINK)
        for place in range(8):
            y = 25.3 - 2.75 * place
            box(ax, x + 4, y, 5, 2.3, canvas.FACES[colour], "GPU")
            line(ax, *((x + 2, y + 1.15), (x + 4, y + 1.15)) if not colour else
                  ((x + 9, y + 1.15), (x + 11, y + 1.15)), colour=NVLINK, wide=4)
    for place in range(8):
        y = 26.45 - 2.75 * place
        line(ax, (9.5, y), (26.5, y), colour=NETWORK, wide=1.8)
    words(ax, 7, 2.2, f"NVLink: {LINK:.0f}", ha="center", colour=NVLINK, weight="bold")
    words(ax, 22, 2.2, f"a port: {PORT:.0f} GB/s", ha="left", colour=NETWORK, weight="bold")
    return ax.figure


def link_or_ports() -> Figure:
    """What holds a sum up on one node and on two, as wide as it is."""
    return bars(["NVLink of a GPU: one node", "eight ports: two nodes"], [LINK, 8 * PORT],
                [f"{LINK:.0f} GB/s", f"8 · {PORT:.0f} = {8 * PORT:.0f} GB/s"], [NVLINK, NETWORK])


def times_as_long() -> Figure:
    """How many times as long a sum takes between nodes: measured on the first cluster, and by the links' rates."""
    by_rates = LINK / (8 * PORT) * 1.875 / 1.75
    rows = (("1 + 1 GPUs", _measured(2, 1), _measured(2, 2), LINK / PORT),
            ("8 + 8 GPUs", _measured(16, 8), _measured(8, 8), by_rates))
    ax = sheet(65, 26, (6.5, 2.6))
    for row, (name, far, near, allowed) in enumerate(rows):
        top, measured = 25 - 13 * row, far / near
        words(ax, 10.4, top - 5, name, ha="right", weight="bold", size=BIG)
        took = f"measured here: {1e3 * far:.3g} / {1e3 * near:.2g} ms"
        for y, times, colour, told in ((top - 4.6, measured, FAULT, took),
                                       (top - 9.6, allowed, NETWORK, "by the links' rates")):
            wide = 52 * times * rows[0][2] / rows[0][1]
            bar(ax, 11.4, y, wide, 4.2, colour)
            inside = wide > 40
            words(ax, 11.4 + wide + (-0.8 if inside else 0.8), y + 2.1, f"{times:.2g} times, {told}", weight="bold",
                  ha="right" if inside else "left", colour="white" if inside else INK)
    return ax.figure


# Section 3: what slows a network down


def found_rates() -> Figure:
    """What a healthy cluster and the one with faults send, over the pairs that send at the same time."""
    ax = axes()
    pairs = list(FOUND)
    ax.plot(pairs, [pair_rate(one)[0] for one in pairs], "s:", color=INK, linewidth=1.6)
    ax.plot(pairs, list(FOUND.values()), "o", color=NETWORK, markersize=10)
    ax.annotate("healthy", (6.1, 146), (-12, 0), textcoords="offset points", ha="right", fontsize=BIG)
    ax.annotate("found", (6.4, 64), ha="center", fontsize=BIG, color=NETWORK, weight="bold")
    for one, rate in FOUND.items():
        ax.annotate(f"{rate}", (one, rate), (0, -17), textcoords="offset points", ha="center", fontsize=LETTERS,
                    color=NETWORK, weight="bold")
    ax.set(xticks=pairs, xlim=(0.4, 8.6), ylim=(-24, 200), yticks=(0, 96, 192))
    ax.set_xlabel("pairs of GPUs that send", fontsize=LETTERS)
    ax.set_title("GB/s out of a node", fontsize=LETTERS, loc="left")
    canvas.say(ax, "1, 2, 4 and 8 pairs: 24, 48, 96 and 192 GB/s if the cluster is healthy; found: 11, 22, 44 and 60")
    return ax.figure


def _node(ax: Axes, area: tuple[float, float, float, float], *faults: str, found: int = 8, named: bool = True) -> None:
    """Draw the ways of a node's bytes from left to right in the area (x, y, wide, high), and mark its faults: GPUs, the
    CPU's memory below their ways, the cards that were found and those that weren't, the switch and its uplink."""
    x, y, wide, high = area
    row, side = high / 9.6, 0.09 * wide
    gpus, cards, switch, end = x + 0.02 * wide, x + 0.46 * wide, x + 0.76 * wide, x + wide
    out, into, memory = x + 0.16 * wide, x + 0.4 * wide, (y + 0.1 * row, 1.4 * row)
    levels = [y + high - row * (place + 0.5) for place in range(8)]
    detour, narrow = "detour" in faults, "uplink" in faults
    frame(ax, x, y - 0.5, 0.58 * wide, high + 1)
    box(ax, out + 0.05 * wide, memory[0], 0.14 * wide, memory[1], canvas.FACES[3] if detour else WHITE,
        "CPU" if high > 10 else "", edge=FAULT if detour else canvas.GREY)
    if detour:
        low = memory[0] + memory[1] / 2
        line(ax, (out, levels[0]), (out, low), colour=FAULT, wide=3)
        canvas.arrow(ax, (out, low), (out + 0.05 * wide, low), colour=FAULT, line=3)
        line(ax, (out + 0.19 * wide, low), (into, low), (into, levels[0]), colour=FAULT, wide=3)
    for place, level in enumerate(levels):
        there, bad = place < found, "cable" in faults and place == 6
        box(ax, gpus, level - 0.36 * row, side, 0.72 * row, canvas.FACES[0])
        box(ax, cards, level - 0.36 * row, side, 0.72 * row, SWITCH if there else WHITE, edge=INK if there else FAULT)
        if detour:
            line(ax, (gpus + side, level), (out, level), colour=FAULT, wide=2)
        elif there:
            line(ax, (gpus + side, level), (cards, level), wide=2)
        else:
            line(ax, (gpus + side, level), (into, level), (into, levels[0]), colour=FAULT, wide=2)
        if detour and there:
            line(ax, (into, level), (cards, level), colour=FAULT, wide=2)
        if not there:
            ax.plot(cards + side / 2, level, "x", color=FAULT, markersize=min(7, 4 * row), markeredgewidth=1.6)
        line(ax, (cards + side, level), (switch, level), wide=3, linestyle=(0, (1.2, 0.8)) if bad else "-",
             colour=FAULT if bad else NETWORK if there else canvas.WAITING)
        if bad:
            ax.plot((cards + side + switch) / 2, level, "x", color=FAULT, markersize=min(14, 8 * row),
                    markeredgewidth=3)
    box(ax, switch, y, side, high, SWITCH)
    middle = y + high / 2
    line(ax, (switch + side, middle), (end, middle), colour=FAULT if narrow else NETWORK, wide=2 if narrow else 14)
    for left, name in ((gpus, "GPUs"), (cards, "cards"), (switch, "switch")) if named else ():
        words(ax, left + side / 2, y + high + 1.8, name, ha="center")


SUSPECTS = (("detour", "Bytes go through the CPU's\nmemory, in each pair."),
            ("card", "Only one was found, and all\npairs share its 24 GB/s."),
            ("cable", "One of the last four is bad:\nall eight rings wait for it."),
            ("uplink", "It is too narrow,\nand all pairs share it."))


@steps(range(5))
def suspects(step: int) -> Figure:
    """The node in good health, and then with each of the four suspects marked."""
    ax = sheet(65, 30, ACROSS)
    name = SUSPECTS[step - 1][0] if step else ""
    _node(ax, (0.4, 1, 36, 25), name, found=1 if name == "card" else 8)
    words(ax, 36.4, 17 if name != "uplink" else 15.6, "uplink", ha="right", colour=FAULT if name == "uplink" else INK)
    for place, (title, told) in enumerate(SUSPECTS[:step]):
        y, now = 28.2 - 7.4 * place, place == step - 1
        words(ax, 39.5, y, f"{place + 1}  {title}", size=BIG, weight="bold", colour=FAULT if now else INK)
        words(ax, 41.6, y - 3.2, told)
    return ax.figure


def four_suspects() -> Figure:
    """The four suspects in small, with their names."""
    ax = sheet(36, 30)
    for place, (name, _) in enumerate(SUSPECTS):
        x, y = 0.5 + 18.4 * (place % 2), 17 - 15.5 * (place // 2)
        words(ax, x, y + 11.4, f"{place + 1}  {name}", weight="bold", size=BIG)
        _node(ax, (x, y, 16.6, 9.4), name, found=1 if name == "card" else 8, named=False)
    return ax.figure


def cable_or_uplink() -> Figure:
    """A node once with each of the suspects that are left."""
    ax = sheet(36, 30)
    for y, name in ((17, "cable"), (1.4, "uplink")):
        words(ax, 0.5, y + 11.6, f"the {name}?", weight="bold", size=BIG, colour=FAULT)
        _node(ax, (0.5, y, 35, 9.4), name, named=False)
    return ax.figure


FITS = ((("card",), "card", (8.4, 24), FAULT), (("detour",), "detour", (8.4, 88), FAULT),
        (("detour", "cable"), "detour\nand cable,\nor detour\nand uplink", (8.4, 58), INK))


@steps(range(1, 4))
def fits(shown: int) -> Figure:
    """What was found, and the rates that one group of suspects after the other would give."""
    ax = axes()
    pairs, told = list(FOUND), []
    ax.plot(pairs, list(FOUND.values()), "o", color=NETWORK, markersize=13)
    for place, (faults, name, (x, y), colour) in enumerate(FITS[:shown]):
        rates = [pair_rate(one, faults)[0] for one in pairs]
        now = place == shown - 1
        ax.plot(pairs, rates, "s-", color=colour if now else canvas.GREY, linewidth=2.5 if now else 1.6,
                markersize=6 if now else 4, zorder=4 if now else 1)
        ax.text(x, y, name, fontsize=LETTERS, color=colour if now else GREY_WORDS, weight="bold", va="center")
        told.append(f"{name.replace(chr(10), ' ')} gives {', '.join(f'{rate:g}' for rate in rates)} GB/s")
    ax.set(xticks=pairs, xlim=(0.4, 11.2), ylim=(0, 100), yticks=(0, 24, 44, 60, 88))
    ax.set_xlabel("pairs of GPUs that send", fontsize=LETTERS, x=0.4)
    ax.set_title("GB/s out of a node; dots: found", fontsize=LETTERS, loc="left")
    canvas.say(ax, f"1, 2, 4 and 8 pairs: {'; '.join(told)}")
    return ax.figure


def four_pairs_tell() -> Figure:
    """What one, four and eight pairs get with a bad cable and with a narrow uplink."""
    ax = axes()
    for place, pairs in enumerate((1, 4, 8)):
        for side, fault, colour in ((-0.2, "cable", canvas.GREY), (0.2, "uplink", NETWORK)):
            rate = pair_rate(pairs, [fault])[0]
            ax.bar(place + side, rate, 0.38, color=colour)
            ax.text(place + side, rate + 2, f"{rate:.0f}", ha="center", fontsize=BIG, weight="bold")
    ax.set(xticks=range(3), xticklabels=["1 pair", "4 pairs", "8 pairs"], ylim=(0, 134), yticks=())
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="x", length=0, labelsize=BIG)
    ax.text(-0.4, 127, "GB/s if a cable is bad", fontsize=BIG, color=GREY_WORDS, weight="bold", va="center")
    ax.text(-0.4, 116, "GB/s if the uplink is narrow", fontsize=BIG, color=NETWORK, weight="bold", va="center")
    canvas.say(ax, "with the cable 1, 4 and 8 pairs get 24, 96 and 60 GB/s, with the uplink 24, 60 and 60")
    return ax.figure


@steps(range(2))
def first_cluster(step: int) -> Figure:
    """What the real cluster sent, over its pairs, beside one card, and then beside a limit for each pair."""
    ax = axes((6.5, 2.8))
    pairs = {1: _measured(2, 1), 2: _measured(4, 2), 4: _measured(8, 4), 8: _measured(16, 8)}
    rates = [costs.bus_bandwidth("all_reduce", 2 * one, 2**26, taken) / 1e9 for one, taken in pairs.items()]
    ax.axhline(24, color=INK, linestyle="--", linewidth=1.6)
    ax.text(9.6, 24.8, "one card: 24", fontsize=BIG, ha="right", va="bottom")
    if step:
        ax.plot((0.4, 4.6), (0.4 * rates[0], 4.6 * rates[0]), ":", color=FAULT, linewidth=2)
        ax.text(2.5, 11.6, "a limit for each pair,\nsuch as the detour", fontsize=BIG, va="center", color=FAULT)
        ax.text(7.8, 12.6, "something else", fontsize=BIG, ha="center", va="center", color=FAULT)
    ax.plot(list(pairs), rates, "o", color=NETWORK, markersize=13, clip_on=False)
    ax.set(xticks=list(pairs), xlim=(0.4, 9.6), ylim=(0, 30), yticks=(0, 12, 24))
    ax.set_xlabel("pairs of GPUs that send", fontsize=LETTERS)
    ax.set_title("GB/s out of a node", fontsize=LETTERS, loc="left")
    canvas.say(ax, f"1, 2, 4 and 8 pairs: {', '.join(f'{rate:.1f}' for rate in rates)} GB/s; one card carries 24")
    return ax.figure


# Section 4: the log and the benchmark

def log_and_benchmark() -> Figure:
    """What each of both tools shows of a node: a way, and a rate."""
    ax = sheet(36, 30)
    words(ax, 1, 28, "the log: which way", weight="bold", size=BIG)
    for x, name, colour in ((1, "GPU", canvas.FACES[0]), (14.5, "card", SWITCH), (28, "switch", SWITCH)):
        box(ax, x, 20, 7, 4.6, colour, name)
    for x in (8, 21.5):
        canvas.arrow(ax, (x + 0.3, 22.3), (x + 6.2, 22.3), colour=NETWORK, line=3)
    words(ax, 1, 12, "the benchmark: how many GB/s", weight="bold", size=BIG)
    for place in range(60):
        share = place / 59
        angle = pi * (1 - share)
        line(ax, (18 + 7.2 * cos(angle), 1.6 + 7.2 * sin(angle)), (18 + 8.6 * cos(angle), 1.6 + 8.6 * sin(angle)),
              colour=FAULT if share < 0.33 else NETWORK, wide=3)
    canvas.arrow(ax, (18, 1.6), (18 + 6.4 * cos(2.2), 1.6 + 6.4 * sin(2.2)), line=3)
    return ax.figure


@steps(range(1, 6))
def ways_in_the_log(step: int) -> Figure:
    """The ways that bytes can take out of a GPU, each with its line of the log."""
    ax = sheet(65, 28, (6.5, 2.8))
    frame(ax, 0.5, 6.4, 45.6, 21.2)
    box(ax, 2.4, 20.6, 7, 4.4, canvas.FACES[0], "GPU 0")
    box(ax, 21.6, 20.6, 7, 4.4, canvas.FACES[0], "GPU 7")
    box(ax, 21.6, 8, 7, 4.4, SWITCH, "card")
    box(ax, 2.4, 13.2, 7, 5, WHITE, "CPU's\nmemory")
    canvas.arrow(ax, (21.4, 23.6), (9.6, 23.6), colour=NVLINK, line=4)
    words(ax, 15.4, 25.6, "via P2P/…", colour=NVLINK, ha="center", **MONO)
    if step > 1:
        canvas.arrow(ax, (25.4, 20.4), (25.4, 12.6), colour=NETWORK, line=4)
        words(ax, 26.5, 18.2, "via NET/IB/0/GDRDMA", colour=NETWORK, **MONO)
        words(ax, 26.7, 15.4, "GPUDirect RDMA", weight="bold")
        words(ax, 29.6, 10.2, "reads the GPU's\nmemory by itself")
        line(ax, (25.4, 8), (25.4, 3.2), colour=NETWORK, wide=4)
        words(ax, 26.7, 3.8, "InfiniBand or RoCE")
    if step > 2:
        line(ax, (21.6, 21.4), (20.4, 21.4), (20.4, 16.9), colour=FAULT, wide=2.5)
        canvas.arrow(ax, (20.4, 16.9), (9.6, 16.9), colour=FAULT, line=2.5)
        line(ax, (9.4, 14.6), (20.4, 14.6), (20.4, 10.2), colour=FAULT, wide=2.5)
        canvas.arrow(ax, (20.4, 10.2), (21.4, 10.2), colour=FAULT, line=2.5)
        words(ax, 10.4, 18.4, "detour", colour=FAULT, weight="bold")
        words(ax, 9.9, 12.6, "via NET/IB", colour=FAULT, **MONO)
    if step > 3:
        canvas.arrow(ax, (6, 13), (6, 3.4), colour=FAULT, line=2.5)
        words(ax, 0.6, 1.7, "via NET/Socket", colour=FAULT, **MONO)
        words(ax, 15.2, 1.7, "TCP, a few GB/s", weight="bold", colour=FAULT)
    if step > 4:
        words(ax, 48, 26, "Using [0]mlx5_0 …", colour=INK, **MONO)
        for place in range(8):
            box(ax, 48.2 + 4.2 * (place % 4), 18.6 - 5 * (place // 4), 3.6, 4.2, SWITCH, f"[{place}]")
        words(ax, 48, 9.2, "Count the cards: a\nhealthy node finds\nall eight.", weight="bold")
    return ax.figure


LOG = ((28.2, "NET/IB : Using", ""), (25.8, " ", "[0]mlx5_0:1/IB [1]mlx5_1:1/IB"),
       (22.4, "0[0] -> 7[7] via P2P/CUMEM", ""), (19, "7[7] -> 15[7] via ", "NET/IB/1"))  # last what convicts


def _log(ax: Axes, colour: str) -> None:
    """Write three lines of a log in large letters, and in this colour what convicts."""
    for y, told, convicts in LOG:
        words(ax, 0.3, y, told, size=BIG, **MONO)
        words(ax, 0.3, y, " " * len(told) + convicts, size=BIG, colour=colour, **MONO)


def lines_of_a_log() -> Figure:
    """Three lines of a log in large letters, and for comparison the ways of a node in good health."""
    ax = sheet(36, 30)
    _log(ax, INK)
    words(ax, 0.5, 14.8, "for comparison, a healthy node:", weight="bold")
    _node(ax, (0.5, 0.8, 35, 9.4))
    return ax.figure


def convicted() -> Figure:
    """The lines of the log, and below the node with the detour and the two cards that they name."""
    ax = sheet(36, 30)
    _log(ax, FAULT)
    words(ax, 35.8, 28.2, "only two cards", weight="bold", colour=FAULT, ha="right")
    words(ax, 35.8, 16.7, "no GDRDMA", weight="bold", colour=FAULT, ha="right")
    _node(ax, (0.5, 0.8, 35, 11.6), "detour", found=2)
    return ax.figure


@steps(range(2))
def each_then_all(step: int) -> Figure:
    """The rates of eight pairs alone, of which one has a bad cable, and then that of all sixteen GPUs."""
    ax, share = sheet(36, 30), pair_rate(8, ["cable"])[0] / pair_rate(8)[0]  # as bad a cable as in section 3
    words(ax, 1, 28.4, "first each pair alone", weight="bold", size=BIG)
    for place in range(8):
        bad = place == 5
        bar(ax, 1 + 4.35 * place, 16, 3.6, 10 * share if bad else 10, FAULT if bad else NETWORK)
        words(ax, 2.8 + 4.35 * place, 14.6, str(place), ha="center")
    words(ax, 24.6, 21.6, "the\ncable", ha="center", colour=FAULT, weight="bold")
    if step:
        words(ax, 1, 10.6, "then all sixteen GPUs", weight="bold", size=BIG)
        narrow, healthy = REPAIRS[2][2], REPAIRS[3][2]
        bar(ax, 1, 5.6, 34, 3.4, NETWORK, "healthy")
        bar(ax, 1, 1.4, 34 * narrow / healthy, 3.4, FAULT, "the uplink")
    return ax.figure


REPAIRS = (("as found", 31, 31, "detour"), ("detour cured", 47, 47, "card (missing ports)"),
           ("all cards found", 47, 190, "uplink (shared links)"), ("uplink cured", 47, 368, "healthy"))  # GB/s


@steps(range(1, 5))
def one_after_the_other(step: int) -> Figure:
    """The slowest pair and all sixteen GPUs of a cluster before and after each of three repairs."""
    ax = sheet(65, 27, (6.5, 2.7))
    healthy = 14 + 26 * 0.8
    words(ax, 14, 26, "slowest pair, of 50 GB/s", colour=GREY_WORDS, weight="bold")
    words(ax, 14, 24, "all sixteen, of 400 GB/s", colour=NETWORK, weight="bold")
    words(ax, healthy, 25, "healthy: 40 and 320")
    line(ax, (healthy, 0.2), (healthy, 23.6), colour=INK, wide=1.4, linestyle=":", zorder=3)
    for row, (name, pair, sixteen, told) in enumerate(REPAIRS):
        y = 18 - 5.9 * row
        words(ax, 12.8, y + 2.2, name, ha="right")
        for level, rate, carries, colour in ((y + 2.3, pair, 50, canvas.GREY), (y, sixteen, 400, NETWORK)):
            bar(ax, 14, level, 26, 2.1, PALE)
            if row < step:
                bar(ax, 14, level, 26 * rate / carries, 2.1, colour)
                words(ax, 40.6, level + 1, f"{rate}", colour=GREY_WORDS if carries == 50 else NETWORK, weight="bold")
        if row < step:
            words(ax, 45, y + 2.2, told, size=BIG, weight="bold", colour=canvas.GREEN if told == "healthy" else FAULT)
    return ax.figure


# Section 5: many nodes


def longer_ring() -> Figure:
    """The ring through 8 nodes beside that through 256, as long as they are."""
    ax = sheet(36, 30)
    ax.set_aspect("equal")
    ax.add_patch(Circle((21.5, 14.6), 13.4, fill=False, color=NETWORK, linewidth=4))
    ax.add_patch(Circle((3, 14.6), 13.4 * 8 / 256, fill=False, color=NETWORK, linewidth=3))
    words(ax, 3, 19.6, "8 nodes", ha="center", weight="bold")
    words(ax, 3, 17.6, "64 GPUs", ha="center")
    words(ax, 21.5, 16.2, "256 nodes", ha="center", weight="bold", size=20)
    words(ax, 21.5, 12.8, "2,048 GPUs in one ring", ha="center", size=BIG)
    return ax.figure


def work_of_a_step() -> Figure:
    """What a GPU does in a step: 32 layers with three collectives each, of which it knows latency and rate."""
    ax = sheet(36, 30)
    for layer in range(LAYERS):
        bar(ax, 1 + 34 * layer / LAYERS, 24, 0.82, 3.4, canvas.FACES[0], edgecolor=INK, linewidth=0.6)
    words(ax, 1, 21.8, f"{LAYERS} layers, each gathered twice and")
    words(ax, 1, 19.6, f"scattered once: {3 * LAYERS} collectives", weight="bold")
    wide = 15
    bar(ax, 1, 13.4, wide, 3.4, canvas.COMPUTE)
    words(ax, 1 + wide / 2, 15.1, "computing", ha="center", colour="white", weight="bold")
    words(ax, 2 + wide, 15.1, "0.25 s", weight="bold")
    bar(ax, 1, 9.2, wide, 3.4, "none", edgecolor=NETWORK, linewidth=2, linestyle="--")
    words(ax, 1 + wide / 2, 10.9, "messages", ha="center", colour=NETWORK, weight="bold")
    words(ax, 2 + wide, 10.9, "? ms", weight="bold", size=BIG)
    frame(ax, 0.6, 0.4, 34.8, 7.4)
    words(ax, 1.6, 6, "NCCL's table estimates", weight="bold")
    words(ax, 1.6, 3.8, f"a hop, from a GPU to the next: {1e6 * HOP:.2f} µs")
    words(ax, 1.6, 1.6, f"the rate of a ring: {FAST.bandwidth / 1e9:.0f} GB/s")
    return ax.figure


def beside_computing() -> Figure:
    """The computing of a step beside its messages, and what of them are bytes."""
    messages = _messages(1)
    sends = 3 * LAYERS * LAYER * 2047 / 2048 / FAST.bandwidth
    ax, hops = sheet(36, 26, (3.6, 2.6)), 3 * LAYERS * (SHORT + LONG) * HOP
    for y, name, taken, colour in ((16, "computing", COMPUTING, canvas.COMPUTE),
                                   (5.6, "messages", messages, canvas.WAITING)):
        words(ax, 0.6, y + 7, name, weight="bold", size=BIG)
        bar(ax, 0.6, y, 34.8 * taken / messages, 5, colour)
    bar(ax, 0.6, 5.6, 34.8 * sends / messages, 5, NETWORK)
    words(ax, 1.4, 18.5, f"{1e3 * COMPUTING:.0f} ms", colour="white", weight="bold", size=BIG)
    words(ax, 0.6, 3, f"bytes {1e3 * sends:.0f} ms", colour=NETWORK, weight="bold", size=BIG)
    words(ax, 35.4, 3, f"+ hops {1e3 * hops:.0f} ms", weight="bold", ha="right", size=BIG)
    return ax.figure


@steps(range(4))
def walk(step: int) -> Figure:
    """A piece's way round all nodes: its hops inside them, those between them, and its bytes, on one bar."""
    ax = sheet(65, 28, (6.5, 2.8))
    inside, between = 1e3 * SHORT * FAST.latency, 1e3 * LONG * 4.0e-6  # ms
    total = 1e3 * _gather(256, 8, LAYER)
    line(ax, (0.5, 8.8), (64.5, 8.8), colour=canvas.WAITING, wide=1)
    for left, name in ((0.5, "node 0"), (20.6, "node 1"), (46.5, "node 255")):
        frame(ax, left, 14.4, 18, 12.4)
        words(ax, left + 0.7, 25, name, weight="bold")
        for gpu in range(8):
            x = left + 0.8 + 2.08 * gpu
            box(ax, x, 16, 1.85, 3.4, canvas.YELLOW if not gpu and not left > 1 else canvas.FACES[0], str(gpu))
            if step and gpu < 7:
                canvas.arrow(ax, (x + 1, 19.5), (x + 2.9, 19.5), colour=NVLINK, line=2, bend=-0.8)
    words(ax, 42.8, 17.7, "…", size=20, ha="center", weight="bold")
    if step:
        words(ax, 18, 23, "7 short hops", colour=NVLINK, weight="bold", ha="right")
    if step > 1:
        for start, end in ((18.6, 20.5), (38.7, 41.2), (44.2, 46.4)):
            canvas.arrow(ax, (start, 17.7), (end, 17.7), colour=NETWORK, line=4)
        words(ax, 19.6, 12.6, "1 long hop", colour=NETWORK, weight="bold", ha="center")
    x = 0.5
    parts = ((inside, NVLINK, f"{SHORT:,} short hops"), (between, NETWORK, f"{LONG} long hops"),
             (total - inside - between, canvas.YELLOW, "bytes"))
    for taken, colour, told in parts[:step]:
        bar(ax, x, 4.4, 63.6 * taken / total, 4.2, colour, told)
        x += 63.6 * taken / total
    if step > 1:
        span(ax, 0.5, 0.5 + 63.6 * (inside + between) / total, 3, up=-1.7, told=f"{inside + between:.1f} ms")
    if step > 2:
        span(ax, x - 63.6 * parts[2][0] / total, x, 3, up=-1.7, told=f"{parts[2][0]:.1f} ms")
    return ax.figure


def one_link() -> Figure:
    """When one link of the ring carries a piece and when it waits, with the letters of the formula."""
    ax = sheet(36, 30)
    sends, hop = 1e6 * LAYER / 2048 / FAST.bandwidth, 1e6 * HOP
    box(ax, 1, 23.4, 7.4, 4.6, canvas.FACES[0], "GPU")
    box(ax, 27.6, 23.4, 7.4, 4.6, canvas.FACES[0], "GPU")
    line(ax, (8.4, 25.7), (27.6, 25.7), colour=NVLINK, wide=6)
    box(ax, 15.6, 24.3, 4.8, 2.8, canvas.YELLOW, "")
    words(ax, 18, 28.6, "a piece: S / P bytes", ha="center", size=BIG)
    words(ax, 18, 22.4, "B bytes per second", ha="center", size=BIG)
    unit = 34 / (3 * (sends + hop))
    for turn in range(3):
        x = 1 + unit * turn * (sends + hop)
        bar(ax, x, 10.6, unit * sends, 5, canvas.YELLOW)
        bar(ax, x + unit * sends, 10.6, unit * hop, 5, canvas.WAITING)
    words(ax, 1, 17.4, "this link, over time", weight="bold")
    words(ax, 1, 8.4, f"it carries the piece: S / (P · B) = {sends:.1f} µs", weight="bold", size=BIG)
    words(ax, 1, 5, f"it waits for the next: $\\alpha_\\mathrm{{hop}}$ = {hop:.2f} µs", size=BIG)
    words(ax, 1, 1.6, f"busy {100 * sends / (sends + hop):.0f} % of the time", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


# Section 6: fewer hops


def three_ideas() -> Figure:
    """Messages that stick out beside the computing, and three ideas in small: compute longer, send less often, and
    not so far."""
    ax = sheet(36, 30)
    for row, name in enumerate(("compute longer?", "send less often?", "send less far?")):
        y = 20.6 - 10 * row
        words(ax, 0.6, y + 6.6, name, weight="bold", size=BIG)
        if row == 0:
            bar(ax, 0.6, y + 2.4, 13, 2.2, canvas.COMPUTE)
            bar(ax, 13.6, y + 2.4, 20, 2.2, "none", edgecolor=canvas.COMPUTE, linewidth=2, linestyle="--")
            bar(ax, 0.6, y - 0.4, 33, 2.2, NETWORK)
        elif row == 1:
            for place in range(12):
                bar(ax, 0.6 + 1.4 * place, y + 0.6, 1, 3.4, NETWORK)
            canvas.arrow(ax, (18, y + 2.3), (22, y + 2.3), line=2)
            for place in range(3):
                bar(ax, 23 + 4 * place, y + 0.6, 3.4, 3.4, NETWORK)
        else:
            for place in range(4):
                box(ax, 0.6 + 8.6 * place, y + 0.4, 7, 4, PALE)
                for gpu in range(4):
                    bar(ax, 1.3 + 8.6 * place + 1.5 * gpu, y + 1.4, 1.1, 2, canvas.FACES[0], edgecolor=INK,
                         linewidth=0.6)
                line(ax, (1.3 + 8.6 * place, y - 0.6), (6.9 + 8.6 * place, y - 0.6), colour=NVLINK, wide=5)
                if place:
                    words(ax, 8.6 * place - 0.2, y + 2.4, "×", colour=FAULT, ha="center", weight="bold", zorder=6)
    return ax.figure


@steps(range(1, 4))
def remedies(step: int) -> Figure:
    """Three remedies in one form: what each does, computing and messages of a step, and its price."""
    ax = sheet(65, 30, ACROSS)
    rings = _messages(1)
    levels = max(3 * _gather(1, 8, LAYER), _gather(1, 8, LAYER) + min(
        costs.nccl_seconds(DGX_H100, 256, 1, LAYER / 8).values())) * LAYERS
    columns = (("More tokens", "a step computes longer", rings, rings, "price: a larger batch"),
               ("Larger units", "8 layers in one gather", COMPUTING, _messages(8), "price: up to 12 GB\nfor a moment"),
               ("Two levels", "gathers stay in the node", COMPUTING, levels, "price: 16 GB on each\nGPU, all the time"))
    for place, (name, told, computing, messages, price) in enumerate(columns):
        x = 0.5 + 22.2 * place
        words(ax, x, 28.6, name, size=14, weight="bold")
        words(ax, x, 26, told)
        bar(ax, x, 7.2, 19.6, 3, canvas.WAITING)  # what the messages took before
        if place >= step:
            words(ax, x + 0.5, 8.7, "messages before")
            continue
        (_tokens, _units, _levels)[place](ax, x)
        bar(ax, x, 10.6, 19.6 * computing / rings, 3, canvas.COMPUTE, "computing")
        bar(ax, x, 7.2, 19.6 * messages / rings, 3, NETWORK)
        inside = messages > 0.5 * rings
        words(ax, x + 19.6 * (messages / rings if not inside else 0) + 0.5, 8.7, "messages", weight="bold",
              colour="white" if inside else INK)
        words(ax, x, 3, price, colour=FAULT, weight="bold")
    return ax.figure


def _tokens(ax: Axes, x: float) -> None:
    for row, wide in enumerate((19.6 * COMPUTING / _messages(1), 19.6)):
        bar(ax, x, 20 - 4 * row, wide, 3.2, canvas.FACES[2], ("tokens", "more tokens on each GPU")[row], edgecolor=INK,
            linewidth=0.8)


def _units(ax: Axes, x: float) -> None:
    for place in range(16):
        left = x + 1.18 * place + 0.56 * (place // 8)
        bar(ax, left, 16, 0.98, 4.4, canvas.FACES[0], edgecolor=INK, linewidth=0.8)
    for unit in range(2):
        left = x + 10 * unit
        line(ax, (left, 21.2), (left, 22), (left + 9.4, 22), (left + 9.4, 21.2), colour=NETWORK, wide=2)
        words(ax, left + 4.7, 23.4, "one unit", ha="center", colour=NETWORK, weight="bold")


def _levels(ax: Axes, x: float) -> None:
    for node in range(2):
        left = x + 11 * node
        frame(ax, left, 15.6, 8.6, 8)
        for gpu in range(4):
            box(ax, left + 0.7 + 1.9 * gpu, 20, 1.6, 2.6, canvas.FACES[node])
            line(ax, (left + 1.5 + 1.9 * gpu, 20), (left + 1.5 + 1.9 * gpu, 17), colour=NVLINK, wide=4)
        line(ax, (left + 1.2, 17), (left + 7.5, 17), colour=NVLINK, wide=6)
    line(ax, (x + 8.6, 21.3), (x + 11, 21.3), colour=NETWORK, wide=3)


PHASES = (("1  inside: reduce-scatter", NVLINK, "Each GPU keeps a piece\nof its node's sum."),
          ("2  on each rail: all-reduce", NETWORK, "Only pieces cross,\neach by its own port."),
          ("3  inside: all-gather", NVLINK, "All have all pieces."))


@steps(range(4))
def phases(phase: int) -> Figure:
    """What each GPU of two nodes holds before a sum on two levels and after each of its three phases."""
    ax = sheet(65, 30, ACROSS)
    xs = [2.6 + 8.4 * place for place in range(4)]
    for node, y in enumerate((17.2, 2.2)):
        frame(ax, 0.6, y - 1.4, 34.2, 12.4)
        for place, x in enumerate(xs):
            for piece in range(4):
                _piece(ax, x, y + 7.8 - 2 * piece, place, piece, phase, node)
            bar(ax, x, y + 1.8, 5, 8, "none", edgecolor=INK, linewidth=1.4)
        if phase in (1, 3):
            for here in xs[:-1]:
                canvas.arrow(ax, (here + 5.2, y + 5.8), (here + 8.2, y + 5.8), "<|-|>", colour=NVLINK, line=3)
        words(ax, 17.7, y + 0.1, f"node {node}", ha="center", weight="bold")
    if phase == 2:
        for place, x in enumerate(xs):
            canvas.arrow(ax, (x + 2.5, 19), (x + 2.5, 12.2), "<|-|>", colour=NETWORK, line=3)
            words(ax, x + 3.2, 14.6, f"rail {place}", colour=NETWORK, weight="bold")
    if not phase:
        words(ax, 37, 27.4, "before: each GPU has\na whole tensor of its own", weight="bold")
    for place, (name, colour, told) in enumerate(PHASES[:phase]):
        y = 28.4 - 7.2 * place
        now = place == phase - 1
        words(ax, 37, y, name, size=BIG, weight="bold", colour=colour if now else INK)
        words(ax, 39.2, y - 1.5, told, va="top")
    if phase == 3:
        words(ax, 37, 5.4, "these two nodes: 3 + 2 + 3 = 8 hops", weight="bold", size=BIG)
        words(ax, 37, 2.2, "a ring through all eight GPUs: 14", size=BIG)
    return ax.figure


def _piece(ax: Axes, x: float, y: float, place: int, piece: int, phase: int, node: int) -> None:
    """Draw a piece of a GPU's tensor: pale what it brought, hatched its node's sum, strong the sum of both nodes."""
    look = {"facecolor": "white", "edgecolor": canvas.GREY}
    strong = canvas.SERIES[piece]
    if phase in (0, 3) or piece == place:
        look["facecolor"] = canvas.FACES[piece] if phase < 2 else strong
        if phase == 1:
            look |= {"hatch": ("////", "\\\\\\\\")[node], "edgecolor": strong}
    ax.add_patch(Rectangle((x, y), 5, 2, linewidth=0.6, **look))


def ring_or_levels() -> Figure:
    """The hops of a sum of 4 MiB by a ring through eight nodes and on two levels, each as wide as the time it takes."""
    size, rail = 4 * 2**20, costs.rail_protocol(DGX_H100, 8, "LL128")
    ring = costs.nccl_seconds(DGX_H100, 8, 8, size)["Ring", "LL128"]
    inside = FAST.start + costs.rails_seconds(1, 8, size, FAST, rail) / 2
    across = FAST.start + costs.rails_seconds(8, 1, size / 8, FAST, rail)
    ax, unit = sheet(65, 24, (6.5, 2.4)), 63 / ring
    for y, name, parts in (
            (15, "a ring through all 64 GPUs: 126 hops", [(ring, 126, GREY_WORDS, "126 inside and between nodes")]),
            (3.2, "two levels: 28 hops", [(inside, 7, NVLINK, "7 inside"), (across, 14, NETWORK, "14 on a rail"),
                                          (inside, 7, NVLINK, "7 inside")])):
        x, start = 1, unit * FAST.start
        words(ax, 1, y + 7.2, f"{name}, {1e6 * sum(taken for taken, *_ in parts):.0f} µs", weight="bold", size=BIG)
        words(ax, x, y - 1.8, "start" if len(parts) == 1 else "")
        for taken, hops, colour, told in parts:
            bar(ax, x, y, start, 5, canvas.WAITING)
            wide = (unit * taken - start) / hops
            for hop in range(hops):
                bar(ax, x + start + wide * hop, y, 0.8 * wide, 5, colour)
            words(ax, x + start + hops * wide / 2, y - 1.8, told, ha="center", colour=colour, weight="bold")
            x += unit * taken
    return ax.figure


# Section 7: tokens and memory


def where_the_model_is() -> Figure:
    """One copy of the model over all nodes, and below a copy in each."""
    ax = sheet(36, 30)
    state = 16 * parameter_count(MODEL) / 1e9
    for y, name, kept in ((17, "FSDP: one copy over 256 nodes", state / 2048),
                          (1.6, "HSDP: a copy in each node", state / 8)):
        words(ax, 0.6, y + 11.6, name, weight="bold", size=BIG)
        for x in (0.6, 12.6, 24.6):
            frame(ax, x, y, 10.6, 9)
            for gpu in range(8):
                left, low = x + 0.8 + 2.3 * (gpu % 4), y + 4.9 - 4 * (gpu // 4)
                bar(ax, left, low, 2, 3.3, "white", edgecolor=INK, linewidth=0.8)
                bar(ax, left, low, 2, 3.3 if kept > 1 else 0.25, canvas.WEIGHTS)
        words(ax, 35.4, y + 11.6, f"{kept:.1g} GB" if kept < 1 else f"{kept:.0f} GB", size=BIG, ha="right",
              colour=canvas.WEIGHTS, weight="bold")
    return ax.figure


def units() -> Figure:
    """The 32 layers of the model in units of one, four and eight."""
    ax = sheet(36, 30)
    for row, unit in enumerate((1, 4, 8)):
        y = 21.4 - 10 * row
        told = f"{unit} layer{'s' * (unit > 1)} in one gather: {3 * LAYERS // unit} collectives"
        words(ax, 0.8, y + 6, told, weight="bold", size=BIG)
        for layer in range(LAYERS):
            gap = 0.9 * (layer // unit) if unit > 1 else 0
            wide = (34.4 - 0.9 * (LAYERS // unit - 1 if unit > 1 else 0)) / LAYERS
            bar(ax, 0.8 + gap + wide * layer, y, wide * (0.72 if unit == 1 else 0.94), 3.8, canvas.FACES[0],
                 edgecolor=INK, linewidth=0.6)
    return ax.figure


def steps_by_unit() -> Figure:
    """How long a step takes with one, four and eight layers in a unit, and what of it is not computing."""
    ax = sheet(36, 26, (3.6, 2.6))
    for row, unit in enumerate((1, 4, 8)):
        y, step = 18.4 - 8.6 * row, max(_messages(unit), COMPUTING + _ends(unit))
        scale = 34.6 / _messages(1)
        words(ax, 0.6, y + 5.6, f"{unit} layer{'s' * (unit > 1)}: {step:.2f} s", weight="bold", size=BIG)
        bar(ax, 0.6, y, scale * COMPUTING, 3.8, canvas.COMPUTE)
        bar(ax, 0.6 + scale * COMPUTING, y, scale * (step - COMPUTING), 3.8, NETWORK)
        inside = unit == 1
        told = "waits for messages" if inside else "never hides"
        words(ax, 0.6 + scale * (COMPUTING if inside else step) + 0.6, y + 1.9, told, weight="bold",
              colour="white" if inside else NETWORK)
        words(ax, 1.4, y + 1.9, "computing", colour="white")
    return ax.figure


def _rates() -> Mapping[str, list[float]]:
    """Return a GPU's tokens per second over NODES, by the way of a step."""
    found: dict[str, list[float]] = {"1 layer in a unit": [], "4 layers": [], "two levels": []}
    for count in NODES:
        for name, unit in zip(found, (1, 4), strict=False):
            each = _gather(count, 8, unit * LAYER)
            found[name].append(2048 / max(3 * LAYERS / unit * each, COMPUTING + 2 * each))
        inside, rails = _gather(1, 8, LAYER), min(costs.nccl_seconds(DGX_H100, count, 1, LAYER / 8).values())
        messages = LAYERS * (inside + max(2 * inside, rails))
        found["two levels"].append(2048 / max(messages, COMPUTING + 2 * inside + rails))
    return found


LOOKS = {"1 layer in a unit": (INK, "o"), "4 layers": (NVLINK, "^"), "two levels": (ORANGE_WORDS, "s")}


@steps(range(1, 4))
def tokens(shown: int) -> Figure:
    """A GPU's tokens per second over the nodes: with one layer in a unit, then with four, and then on two levels."""
    figure = canvas.Picture(figsize=(6.5, 2.8), layout="constrained")
    alone, places = 2048 / COMPUTING, range(len(NODES))
    for place, (ax, name) in enumerate(zip(figure.subplots(1, 3, sharey=True), LOOKS, strict=True)):
        colour, marker = LOOKS[name]
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=LETTERS)
        ax.set_title(name, fontsize=BIG, weight="bold", color=colour)
        ax.axhline(alone, color=canvas.COMPUTE, linewidth=2.5)
        ax.set(xlim=(-0.3, 5.3), ylim=(0, 9600), yticks=(0, 4000, 8000), xticks=(0, 3, 5))
        ax.set_xticklabels([str(NODES[tick]) for tick in (0, 3, 5)])
        ax.set_yticklabels(["0", "4,000", "8,000"])
        if place < shown:
            rates = _rates()[name]
            ax.fill_between(places, rates, alone, color=canvas.WAITING, linewidth=0)
            ax.plot(places, rates, f"{marker}-", color=colour, linewidth=2.6, markersize=6, clip_on=False)
            ax.text(5.2, rates[-1] - 500, f"{round(rates[-1], -2):,.0f}", fontsize=BIG, color=colour, weight="bold",
                    ha="right", va="top")
        if place == 0:
            ax.text(-0.1, alone + 300, "computing alone", fontsize=LETTERS, weight="bold", color=canvas.COMPUTE)
            ax.set_ylabel("tokens/s of a GPU", fontsize=LETTERS)
        if place == 1:
            ax.set_xlabel("nodes of eight H100s", fontsize=LETTERS)
    return figure


def memory_and_tokens() -> Figure:
    """The tokens per second that each way gives on 256 nodes, and the memory that it takes for good or for a moment."""
    ax, rates = sheet(36, 30), _rates()
    state, gather = 16 * parameter_count(MODEL) / 1e9, 3 * LAYER / 1e9  # two units of weights and one of gradients
    words(ax, 0.5, 28.6, "tokens/s", weight="bold")
    words(ax, 10, 28.6, "GB all the time", weight="bold", colour=canvas.WEIGHTS)
    words(ax, 22.4, 28.6, "+ for a moment", weight="bold")
    ways = (state / 8, 1), (state / 2048, 4), (state / 2048, 1)
    for row, (name, (kept, unit)) in enumerate(zip(reversed(LOOKS), ways, strict=True)):
        y, scale, moment = 18 - 8.8 * row, 25.5 / (state / 8 + gather), unit * gather
        words(ax, 0.5, y + 6, name, weight="bold", size=BIG, colour=LOOKS[name][0])
        held = f"{kept:.{2 if kept > 1 else 1}g} + {moment:.2g} GB"
        words(ax, 35.5, y + 6, held, weight="bold", size=BIG, ha="right")
        words(ax, 0.5, y + 2, f"{round(rates[name][-1], -2):,.0f}", weight="bold", size=BIG)
        bar(ax, 10, y, scale * kept, 4, canvas.WEIGHTS)
        bar(ax, 10 + scale * kept, y, scale * moment, 4, canvas.FACES[0])
    return ax.figure
