"""A mesh of ranks: tensor ranks inside a machine, a pipeline of machines, many pipelines; and what each axis sends."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.hardware import DGX_H100
from course_lib.models import MODELS
from course_lib.planning import Layout, microbatches
from course_lib.planning.room import layers_on_rank, parameters
from course_lib.planning.step import scatters_of
from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    GRADIENTS,
    INK,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    arrow,
    box,
    new_axes,
    say,
    sheet,
)

META = Layout(tp=8, pp=16, dp=128, chunks=8, zero=2)
LLAMA = MODELS["Llama-3-405B"]


def mesh_of_ranks(layout: Layout = META, ax: Axes | None = None) -> Axes:
    """Draw one machine of tensor ranks, the row of machines of its pipeline, and the many rows of the data ranks."""
    ax = sheet(3.6, 100, 49, ax)
    ax.set_ylim(4, 49)
    rows = ((33, "1st"), (26, "2nd"), (11, f"{layout.dp}th"))
    shown = 7
    for y, name in rows:
        for place in range(shown):
            x = 27 + place * 7.6
            if place == shown - 2:
                ax.text(x + 2.6, y + 2.2, "…", ha="center", va="center", fontsize=TITLE)
                continue
            number = layout.pp - 1 if place == shown - 1 else place
            box(ax, x, y, 5.4, 4.4, FACES[0] if name == "1st" and place == 0 else FACES[4], str(number))
            if name != "1st":
                arrow(ax, (x + 2.7, y + 4.5), (x + 2.7, 32.8 if name == "2nd" else 25.8), "<|-|>", colour=GRADIENTS)
            if place < shown - 3:
                arrow(ax, (x + 5.4, y + 2.2), (x + 7.5, y + 2.2), colour=SENT)
        ax.text(80.5, y + 2.2, f"{name} copy", va="center", fontsize=SMALLEST)
    ax.text(80.5, 21, "⋮", ha="center", va="center", fontsize=TITLE + 4)
    ax.add_patch(Rectangle((1, 20.5), 20, 18.6, facecolor="white", edgecolor=INK, linewidth=1.2))
    for place in range(layout.tp):
        box(ax, 2.6 + place % 4 * 4.5, 31.2 - place // 4 * 5.4, 3.6, 4.2, FACES[0], str(place))
    ax.text(11, 23.2, "one layer, cut in 8", ha="center", va="center", fontsize=SMALLEST)
    ax.plot([21, 27], [39, 37.4], color=INK, linewidth=0.8)
    ax.plot([21, 27], [20.5, 33], color=INK, linewidth=0.8)
    heads = (
        (11, 44.6, f"tensor: {layout.tp} ranks", "NVLink, 450 GB/s", COLLECTIVE),
        (51, 44.6, f"pipeline: {layout.pp} machines in a row", "a port of 50 GB/s for each GPU", SENT),
        (88, 44.6, f"data: {layout.dp} copies", "the same ports", GRADIENTS),
    )
    for x, y, name, link, colour in heads:
        ax.text(x, y, name, ha="center", va="center", fontsize=SMALLEST, weight="bold")
        ax.text(x, y - 3.1, link, ha="center", va="center", fontsize=SMALLEST, color=INK)
        ax.plot([x - 8, x + 8], [y - 4.9, y - 4.9], color=colour, linewidth=3)
    ranks = f"{layout.tp} x {layout.pp} x {layout.dp} = {layout.ranks:,} ranks"
    ax.text(51, 6.5, f"{ranks}; each belongs to one group of each kind", ha="center", va="center", fontsize=SMALLEST)
    ax.set_title("A rank has a place along each axis, and talks along the axes only", fontsize=TITLE, loc="left")
    say(ax, f"{ranks}. Eight tensor ranks share a machine and its NVLink of 450 GB/s; {layout.pp} machines in a row "
        f"are a pipeline; {layout.dp} such rows are copies of the model; both use ports of 50 GB/s")  # fmt: skip
    return ax


def traffic(layout: Layout = META, batch: int = 2048, sequence: int = 8192) -> dict[str, float]:
    """Return the bytes that a rank of Llama-3-405B sends along each axis in one step, received ones not counted."""
    count, layers = microbatches(layout, batch), layers_on_rank(LLAMA.layers, layout.pp, layout.chunks)
    stream = layout.micro * sequence // layout.cp * LLAMA.hidden * 2  # one micro-batch between two layers
    own = parameters(LLAMA, layout.tp, layout.pp, layout.chunks, 1)[0]
    share = (layout.shards - 1) / layout.shards
    keys = layout.micro * sequence // layout.cp * 2 * LLAMA.head_size * max(LLAMA.kv_heads / layout.tp, 1) * 2
    return {
        "tp": count * layers * 8 * (layout.tp - 1) / layout.tp * stream,  # two gathers, two scatters, and backward
        "cp": count * layers * 3 * (layout.cp - 1) * keys,
        "pp": count * layout.chunks * 2 * stream / layout.tp if layout.pp > 1 else 0.0,
        "dp": share * own * (2 + 4 * scatters_of(layout, count)),
    }


def axis_traffic(layout: Layout = META, ax: Axes | None = None) -> Axes:
    """Draw the gigabytes that a rank sends along each axis in a step, as bars, with the link of each."""
    sent = {axis: size / 1e9 for axis, size in traffic(layout).items() if size}
    ax = new_axes(ax, 2.3)
    colours = {"tp": COLLECTIVE, "cp": WAITING, "pp": SENT, "dp": GRADIENTS}
    names = {"tp": f"tensor, {layout.tp} ranks", "pp": f"pipeline, {layout.pp}", "dp": f"data, {layout.dp}",
             "cp": f"context, {layout.cp}"}  # fmt: skip
    most = max(sent.values())
    for place, (axis, size) in enumerate(sent.items()):
        link = layout.link(axis, DGX_H100)
        ax.barh(place, size, 0.62, color=colours[axis])
        told = f"{size:,.0f} GB: {size * 1e9 / link.bandwidth:.2f} s over {link.bandwidth / 1e9:.0f} GB/s"
        ax.text(size + 0.01 * most, place, told, va="center", fontsize=SMALLEST)
    ax.set(xlim=(0, 1.85 * most), ylim=(len(sent) - 0.5, -0.6))
    ax.set_yticks(range(len(sent)), [names[axis] for axis in sent])
    ax.set_xlabel("GB that one rank sends in a step", fontsize=SMALLEST)
    ax.set_title("Tensor ranks send most, so they get the fastest link", fontsize=TITLE, loc="left")
    say(ax, "; ".join(f"{names[axis]}: {size:,.0f} GB on {layout.link(axis, DGX_H100).name}"
                      for axis, size in sent.items()))  # fmt: skip
    return ax


