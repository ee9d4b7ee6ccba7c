"""What the messages of one training step take by each way, as bars below the time of its computing."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import COLLECTIVE, COMPUTE, INK, RECEIVED, SMALLEST, TITLE, WAITING, new_axes, say


def passes_and_computing(
    computing: float, ways: Mapping[str, Mapping[str, float] | float], model: str,
    others: Mapping[str, str] | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw `computing` seconds and, on the same axis, the seconds of each of the `ways` to send a step's messages.

    A way is a number, or seconds by the part of the way that they belong to, one after the other. `others` says of a
    way on other GPUs which they are.
    """
    ax = new_axes(ax, 0.9 + 0.38 * (1 + len(ways)))
    ax.barh(0, computing, 0.66, color=COMPUTE)
    ax.text(computing / 2, 0, f"{computing:.1f} s, {model}", ha="center", va="center", fontsize=SMALLEST,
            weight="bold", color="white")  # fmt: skip
    told = [f"computing: {computing:.1f} s"]
    totals = [sum(taken.values()) if isinstance(taken, Mapping) else taken for taken in ways.values()]
    waits = totals[0] - computing
    if waits > 0:  # for the messages of the first way, although all of the computing hides some of them
        ax.barh(0, waits, 0.66, computing, color=WAITING)
        ax.text(computing + waits / 2, 0, f"waiting for one port: {waits:.1f} s", ha="center", va="center",
                fontsize=SMALLEST)  # fmt: skip
        ax.plot([computing] * 2, [-0.4, 1.45], color=INK, linewidth=0.9, linestyle=":")
        told.append(f"with the first way the GPUs wait for {waits:.1f} s more")
    for row, (name, taken) in enumerate(ways.items(), start=1):
        parts = taken if isinstance(taken, Mapping) else {"": taken}
        left = 0.0
        colours = (RECEIVED, COLLECTIVE) if len(parts) > 1 else (COLLECTIVE,)
        for seconds, colour in zip(parts.values(), colours, strict=True):
            ax.barh(row, seconds, 0.66, left, color=colour)
            left += seconds
        inside = " + ".join(f"{part} {seconds:.2f} ({shade})" for shade, (part, seconds) in
                            zip(("pale", "dark"), parts.items(), strict=False))
        inside = f" = {inside}" if len(parts) > 1 else ""
        share = f", {others[name]}" if name in (others or {}) else ""
        ax.text(left + 0.12, row, f"{left:.2f} s{share}{inside}", va="center", fontsize=SMALLEST,
                weight="normal" if share else "bold", color=INK)  # fmt: skip
        told.append(f"{name}: {left:.2f} s{inside}{share}")
    ax.set_yticks(range(1 + len(ways)), ["GPU", *ways])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.12 * max(computing, *totals)), ylim=(len(ways) + 0.5, -0.5))
    ax.set_xlabel("seconds of one step", fontsize=SMALLEST)
    more = totals[1] - computing
    title = f"With one port the GPUs wait {waits:.1f} s in each step; with all, " if waits > 0 else "With all ports "
    title += f"{more:.1f} s" if more > 0 else "messages can hide"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
