"""The losses of several runs on the same batches: each batch faintly, and over it the mean of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import SERIES, SMALLEST, TITLE, new_axes


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
    ax.set_xlabel("batch", fontsize=SMALLEST)
    ax.set_ylabel(f"loss, and its mean over {window} batches", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(frameon=False, fontsize=SMALLEST)
    return ax
