"""The losses of several runs on the same batches: smoothed, or of two optimizers with a fault and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, GREEN, LIMIT, SERIES, SMALLEST, TITLE, new_axes, say


def smoothed(losses: Sequence[float], window: int) -> tuple[range, list[float]]:
    """Return the batches in the middle of each `window` neighbours, and the mean of those neighbours."""
    values = [float(loss) for loss in losses]
    means = [sum(values[first : first + window]) / window for first in range(len(values) - window + 1)]
    return range(window // 2, window // 2 + len(means)), means


def smoothed_losses(runs: Mapping[str, Sequence[float]], title: str, window: int = 11, ax: Axes | None = None) -> Axes:
    """Draw the loss of each of `runs` over its batches, a mean of `window` neighbours in front of the losses."""
    ax = new_axes(ax, 3.4)
    for (name, losses), colour in zip(runs.items(), SERIES, strict=False):
        ax.plot(range(len(losses)), losses, color=colour, alpha=0.25, linewidth=1)
        places, means = smoothed(losses, window)
        end = sum(float(loss) for loss in losses[-20:]) / len(losses[-20:])
        ax.plot(places, means, color=colour, linewidth=2, label=f"{name}: {end:.3f} over the last 20 batches")
    ax.set_xlabel(f"batch (strong lines: means over {window} batches)", fontsize=SMALLEST)
    ax.set_ylabel("loss", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(frameon=False, fontsize=SMALLEST)
    return ax


def fault_losses(
    runs: Mapping[str, Sequence[Sequence[float]]], right: str, fault: str, ax: Axes | None = None
) -> Axes:
    """Draw for each optimizer the losses of a right run, as a broad line, and of one with a fault, dashed over it.

    `right` and `fault` name the two runs, as in "divided" and "not divided". The title says what the losses show.
    """
    ax = new_axes(ax, 3.4)
    shows, told = [], []
    for (name, (good, bad)), colour in zip(runs.items(), (BLUE, GREEN), strict=False):
        same = list(good) == list(bad)
        ax.plot(range(len(good)), good, color=colour, linewidth=5, alpha=0.4, solid_capstyle="round")
        ax.plot(range(len(bad)), bad, "--", color=LIMIT, linewidth=1.6)
        last = len(good) - 0.8
        label = f"{name}, {right}" + (f"\nand {fault}" if same else "")
        ax.text(last, good[-1], label, va="center", fontsize=SMALLEST, color=colour)
        if not same:
            ax.text(last, bad[-1], f"{name}, {fault}", va="center", fontsize=SMALLEST, color=LIMIT)
        ends = f"ends at {bad[-1] / good[-1]:,.0f} times the loss"
        shows.append(f"{name} " + ("has the same losses" if same else ends))
        told.append(f"{name}: from {good[0]:.2g} to {good[-1]:.2g}, {fault} to {bad[-1]:.2g}"
                    + (", the same in every step" if same else ""))  # fmt: skip
    ax.set_yscale("log")
    ax.set_xlim(-0.3, 1.25 * len(good))
    ax.set_xticks(range(0, len(good), 2))
    ax.set_xlabel("step", fontsize=SMALLEST)
    ax.set_ylabel("loss (logarithmic)", fontsize=SMALLEST)
    ax.set_title(f"{fault.capitalize()}: {', '.join(shows)}", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
