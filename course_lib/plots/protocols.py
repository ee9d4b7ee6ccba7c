"""NCCL's three protocols: where their flags are, and what a ring costs by each of them over the size of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from course_lib.costs import protocol_changes, protocol_seconds
from course_lib.hardware import H100, Link
from course_lib.plots.canvas import (
    BLUE,
    GREEN,
    INK,
    LIMIT,
    NVLINK,
    ORANGE,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    new_axes,
    say,
    sheet,
)
from course_lib.plots.collectives import bytes_text

NO_RING = 2**21 * 0.75  # bytes, between the last size with a ring and the first with NVLS: nccl-tests issue 309
FASTER = "on grey: probably\nnot by a ring"
PALE = {"facecolor": ORANGE, "alpha": 0.35, "edgecolor": "none", "pad": 1.5}  # words on a line that is too bright
COLOURS = dict(zip(("LL", "LL128", "Simple"), (ORANGE, GREEN, BLUE), strict=True))
FLAGS = {"LL": 4 / 4, "LL128": 8 / 120, "Simple": 0.0}  # for each byte of data; Simple's one flag can't be seen
REST = "#B9D3E8"  # what else makes a protocol's bytes slow, as a cap in NCCL's source
HOPS_OF = {"16 KiB": 2**14, "64 MiB": 2**26}
DATA = 120  # bytes, as many as a line of LL128 carries
FULL = 0.74  # of the picture's width, for the longest hop of a panel


def flags_beside_data(ax: Axes | None = None) -> Axes:
    """Draw what each protocol writes to send the same data, in order, and from when on the receiver may read."""
    high, left, unit = 15.6, 5.0, 23.0 / (2 * DATA)  # sheet units of a byte: LL's strip is the longest
    ax = sheet(high / 5, WIDTH * 5, high, ax)
    ax.set_title(f"To send {DATA} bytes: a flag beside the data needs no fence, but it takes room", fontsize=TITLE,
                 loc="left")  # fmt: skip
    tall, small = 1.5, 1.2  # of a strip; wide, of Simple's flag
    rows = (("LL", 11.2, 4, 4), ("LL128", 7.0, 120, 8), ("Simple", 2.8, DATA, 0))
    told = []
    for name, y, data, flag in rows:
        ax.text(left - 0.4, y + tall / 2, name, fontsize=SMALLEST, weight="bold", ha="right", va="center")
        x = left
        for _ in range(DATA // data):
            ax.add_patch(Rectangle((x, y), data * unit, tall, facecolor=NVLINK))
            x += data * unit
            if not flag:
                continue
            ax.add_patch(Rectangle((x, y), flag * unit, tall, facecolor=LIMIT))
            x += flag * unit
            _may_read(ax, x, y)
        ax.add_patch(Rectangle((left, y), x - left, tall, facecolor="none", edgecolor=INK, linewidth=1))
        if not flag:
            ax.add_patch(Rectangle((x, y), 9.0, tall, facecolor=WAITING, edgecolor=INK, linewidth=1, linestyle="--"))
            ax.text(x + 4.5, y + tall / 2, "fence: wait", fontsize=SMALLEST, ha="center", va="center")
            x += 9.0
            ax.add_patch(Rectangle((x, y), small, tall, facecolor=LIMIT, edgecolor=INK, linewidth=1))
            x += small
            _may_read(ax, x, y)
        beside = {"LL": f"{DATA // 4} words of 8 bytes:\n{2 * DATA} bytes to send",
                  "LL128": f"1 line: {DATA + 8} bytes",
                  "Simple": f"{DATA} bytes, then\na fence and one flag"}[name]  # fmt: skip
        ax.text(x + 0.6, y + tall / 2, beside, fontsize=SMALLEST, va="center")
        told.append(f"{name}: {' '.join(beside.split())}")
    x = left
    for colour, words, wide in ((NVLINK, "data", 3.6), (LIMIT, "flag", 3.6), (WAITING, "waiting", 5.0)):
        ax.add_patch(Rectangle((x, 14.2), 0.9, 0.9, facecolor=colour))
        ax.text(x + 1.2, 14.65, words, fontsize=SMALLEST, va="center")
        x += wide
    ax.plot([x + 0.3], [14.65], "^", color=INK, markersize=7)
    ax.text(x + 1.0, 14.65, "from here on the receiver may read what stands before it", fontsize=SMALLEST, va="center")
    ax.text(left, 0.3, "bytes to scale; the fence is a time; real blocks of Simple are far larger", fontsize=SMALLEST,
            va="center")  # fmt: skip
    say(ax, "\n".join(["LL: 4 bytes of data and 4 of flag in turn; the receiver may read after each 8",
                       "LL128: 120 bytes of data, then 8 of flag; the receiver may read after each 128",
                       "Simple: a block of data, a fence to wait at, one flag; only then may the receiver read",
                       *told]))  # fmt: skip
    return ax


def _may_read(ax: Axes, x: float, y: float) -> None:
    ax.plot([x], [y - 0.6], "^", color=INK, markersize=4 if y > 10 else 7)


def protocol_flags(link: Link = H100.link, ranks: int = 8, ax: Axes | None = None) -> Axes:
    """Draw one hop of a ring by each protocol for a small and a large tensor: latency, data and flags, to scale."""
    ax = new_axes(ax, 3.9)
    told, y = [], 0.0
    for words, size in HOPS_OF.items():
        piece, unit = size / ranks, 2**20 if size >= 2**20 else 2**10
        hops = {name: (1e6 * link.protocol(name).latency, 1e6 * piece / link.protocol(name).bandwidth)
                 for name in COLOURS}  # fmt: skip
        longest, quickest = (end(hops, key=lambda name: sum(hops[name])) for end in (max, min))
        scale = FULL / sum(hops[longest])
        ax.text(0, y, f"An all-reduce of {words}: one hop sends {piece / unit:g} {words[-3:]} (latency + bytes)",
                fontsize=SMALLEST, va="center", weight="bold")  # fmt: skip
        for row, (name, (waits, sends)) in enumerate(hops.items(), start=1):
            data = 1e6 * piece / link.protocol("Simple").bandwidth
            left, flags = 0.0, data * FLAGS[name]
            rest = max(0.0, sends - data - flags)
            for long, colour in ((waits, WAITING), (data, NVLINK), (flags, LIMIT), (rest, REST)):
                ax.barh(y + row, long * scale, 0.7, left, color=colour)
                left += long * scale
            digits = 3 if sends < 0.1 else 1  # else a short part would be nothing, or vanish in the sum
            total = f"{waits:.1f} + {sends:.{digits}f} = {waits + sends:.{digits}f} µs"
            best = ", the fastest" if name == quickest else ""
            ax.text(-0.01, y + row, name, fontsize=SMALLEST, va="center", ha="right")
            ax.text(left + 0.01, y + row, total + best, fontsize=SMALLEST, va="center",
                    weight="bold" if best else "normal")  # fmt: skip
            told.append(f"{words}, {name}: latency {waits:.1f} µs, sends for {sends:.3g} µs, of which flags "
                        f"{flags:.3g} and not reached by NCCL {rest:.3g}{best}")  # fmt: skip
        y += 4.4
    for x, colour, words in ((0, WAITING, "latency"), (0.14, NVLINK, "data"), (0.25, LIMIT, "flags"),
                             (0.37, REST, "not reached by NCCL")):  # fmt: skip
        ax.add_patch(Rectangle((x, y - 0.25), 0.02, 0.5, facecolor=colour))
        ax.text(x + 0.03, y, words, va="center", fontsize=SMALLEST)
    ax.text(0.62, y, "to scale in each half; by NCCL's table", va="center", fontsize=SMALLEST)
    ax.set(xlim=(-0.09, 1.0), ylim=(y + 0.5, -0.6))
    ax.axis("off")
    ax.set_title("Small sums pay for latency, large ones for bytes", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def protocol_lines(
    measured: Mapping[float, float] | None = None, ranks: int = 8, link: Link = H100.link, ax: Axes | None = None
) -> Axes:
    """Draw what NCCL reckons a ring all-reduce takes by each protocol, broad where it is the fastest; and what was
    `measured[bytes]`, in seconds; if that has sizes for which NCCL leaves the ring, below once more as a share."""
    sizes = [512 * 2 ** (step / 4) for step in range(81)]
    below, no_ring = None, bool(measured) and max(measured) > NO_RING
    if no_ring and ax is None:
        _, (ax, below) = plt.subplots(2, 1, figsize=(WIDTH, 4.7), layout="constrained", sharex=True,
                                      height_ratios=(3, 1), FigureClass=Picture)  # fmt: skip
    ax = new_axes(ax, 4.0)
    told = []
    changes = protocol_changes("all_reduce", ranks, link)
    ends = [size for size, _ in changes[1:]] + [sizes[-1]]
    for protocol in link.protocols:
        seconds = [protocol_seconds("all_reduce", ranks, size, link, protocol.name) for size in sizes]
        ax.plot(sizes, [1e6 * one for one in seconds], color=COLOURS[protocol.name], linewidth=1.3, label=protocol.name)
        told.append(f"{protocol.name}: {1e6 * seconds[0]:.1f} µs at {bytes_text(sizes[0])}, "
                    f"{1e6 * seconds[-1]:,.0f} µs at {bytes_text(sizes[-1])}")  # fmt: skip
    for (start, protocol), end in zip(changes, ends, strict=True):
        kept = [max(start, sizes[0]), *(size for size in sizes if start < size < end), end]
        taken = [1e6 * protocol_seconds("all_reduce", ranks, size, link, protocol.name) for size in kept]
        ax.plot(kept, taken, color=COLOURS[protocol.name], linewidth=6, alpha=0.55, solid_capstyle="butt")
        told.append(f"{protocol.name} is the fastest from {bytes_text(start)} on")
        if start:
            ax.axvline(start, color=INK, linewidth=0.8, linestyle=":")
            ax.text(start * 1.06, 9.2, f"from {bytes_text(start)}\n{protocol.name}", fontsize=SMALLEST, va="bottom")
    for name, height, side in (("LL", 17.5, "bottom"), ("LL128", 39, "top"), ("Simple", 58, "bottom")):
        ax.text(600, height, f"{name}: {told[list(COLOURS).index(name)].split(': ')[1].split(' at')[0]}",
                fontsize=SMALLEST, color=INK if name == "LL" else COLOURS[name], weight="bold", va=side,
                bbox=PALE if name == "LL" else None)  # fmt: skip
    if measured:
        ax.plot(list(measured), [1e6 * one for one in measured.values()], "o", color=INK, markersize=4.5, zorder=5)
        place = sorted(measured)[len(measured) // 2]
        words = "measured" if no_ring else f"measured, up to {bytes_text(max(measured))}"
        ax.annotate(words, (place, 1e6 * measured[place]), (place, 10.5), fontsize=SMALLEST, ha="center",
                    weight="bold", arrowprops={"arrowstyle": "-", "linewidth": 0.8})  # fmt: skip
        told += [f"measured: {1e6 * measured[size]:.4g} µs at {bytes_text(size)}" for size in (min(measured), place,
                 max(measured))]  # fmt: skip
    if no_ring:
        for panel in filter(None, (ax, below)):
            panel.axvspan(NO_RING, 1.25 * sizes[-1], color="#F0F0F0", zorder=-1)
        told.append(f"from {bytes_text(NO_RING)} on {' '.join(FASTER.split())}")
    ax.set(xscale="log", yscale="log", xlim=(0.8 * sizes[0], 1.25 * sizes[-1]), ylim=(8, None))
    ax.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:.0f} µs" if us < 1e3 else f"{us / 1e3:.0f} ms"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    if below is None:
        ax.set_xlabel("size of the tensor", fontsize=SMALLEST)
    else:
        below.text(1.15 * NO_RING, 1.34, FASTER, fontsize=SMALLEST, va="top")
        _shares(below, {size: taken / protocol_seconds("all_reduce", ranks, size, link) for size, taken in
                        measured.items()})  # fmt: skip
    ax.set_ylabel("time", fontsize=SMALLEST)
    seen = "; large tensors were faster than the table's rings" if no_ring else ", and NCCL takes the lowest line"
    ax.set_title(f"Each protocol has its sizes{seen}", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _shares(ax: Axes, shares: Mapping[float, float]) -> None:
    """Draw what was measured over the lowest line, a dot for each size, and name the farthest."""
    new_axes(ax, 1.0)
    ax.axhline(1, color=INK, linewidth=1.2)
    ax.plot(list(shares), list(shares.values()), "o", color=INK, markersize=4.5)
    told = []
    most = max(shares, key=shares.get)
    off = f"{shares[most] - 1:.0%} above"
    ax.annotate(off, (most, shares[most]), (-9, 0), textcoords="offset points", fontsize=SMALLEST, ha="right",
                va="center")  # fmt: skip
    told.append(f"measured at {bytes_text(most)}: {off} the lowest line")
    ax.set(ylim=(0.62, 1.38), yticks=[0.75, 1, 1.25])
    ax.set_ylabel("measured /\nlowest line", fontsize=SMALLEST)
    ax.set_xlabel("size of the tensor", fontsize=SMALLEST)
    say(ax, "\n".join(told))


def one_shot_times(
    nccl: Mapping[float, float], one_shot: Mapping[float, float], mark: float = 16384, ax: Axes | None = None
) -> Axes:
    """Draw the microseconds of NCCL's all-reduce and of a one-shot kernel over small sizes; both are told at `mark`."""
    ax = new_axes(ax, 3.0)
    told = []
    for name, series, colour, above in (("NCCL", nccl, BLUE, True), ("one-shot", one_shot, ORANGE, False)):
        sizes = sorted(size for size in series if size <= 2**19)
        ax.plot(sizes, [1e6 * series[size] for size in sizes], "o-", color=colour, linewidth=1.6, markersize=5)
        shown = name if above else f"{name}, in a CUDA graph"
        ax.text(560, 1e6 * series[512] + (0.7 if above else 1.6), shown, fontsize=SMALLEST, weight="bold",
                color=colour if above else INK, va="bottom", bbox=None if above else PALE)  # fmt: skip
        ax.annotate(f"{1e6 * series[mark]:.1f} µs", (mark, 1e6 * series[mark]),
                    (mark * 1.12, 1e6 * series[mark] + (1.1 if above else -1.0)), fontsize=SMALLEST,
                    va="bottom" if above else "top")  # fmt: skip
        told.append(f"{name}: " + ", ".join(f"{1e6 * series[size]:.1f} µs at {bytes_text(size)}" for size in sizes))
    ax.axvline(mark, color=INK, linewidth=0.8, linestyle=":", zorder=0)
    top = 1.32e6 * max(nccl[size] for size in nccl if size <= 2**19)
    ax.text(mark * 1.12, 0.98 * top, "one token of Llama-3-70B: 16 KiB", fontsize=SMALLEST, va="top")
    ax.set(xscale="log", ylim=(0, top))
    ax.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("time, µs (measured)", fontsize=SMALLEST)
    ax.set_xlabel("size of the tensor", fontsize=SMALLEST)
    ax.set_title(f"One-shot takes {1e6 * one_shot[mark]:.0f} µs where NCCL, with its launch, takes "
                 f"{1e6 * nccl[mark]:.0f} (eight H100s)", fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(told))
    return ax
