"""A model that comes apart: its loss beside the right one, and how far two ranks' copies of a weight are apart."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_lib.plots.canvas import GREY, INK, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say


def drift(right: Sequence[float], wrong: Sequence[float], apart: Sequence[float]) -> list[Axes]:
    """Draw the right and the wrong loss of each step, and beside them how far apart two copies are after it."""
    figure, both = plt.subplots(1, 2, figsize=(WIDTH, 3.0), layout="constrained", FigureClass=Picture)
    losses, copies = (new_axes(ax, 0) for ax in both)
    steps = range(1, len(right) + 1)
    losses.plot(steps, right, color=GREY, linewidth=2.4, marker="o", label="right")
    losses.plot(steps, wrong, color=LIMIT, linewidth=2, marker="o", markersize=4, label="without f's sum")
    losses.legend(frameon=False, fontsize=SMALLEST)
    copies.plot(range(len(apart) + 1), [0, *apart], color=INK, linewidth=2.4, marker="o")
    copies.set_ylim(bottom=0)
    names = "loss, right and without f's sum", "rank 0's embedding and rank 1's: largest difference"
    for ax, name in zip((losses, copies), names, strict=True):
        ax.set_title(name, fontsize=SMALLEST, loc="left")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    losses.set_xlabel("step", fontsize=SMALLEST)
    copies.set_xlabel("after step", fontsize=SMALLEST)
    off = max(abs(other / one - 1) for one, other in zip(right, wrong, strict=True))
    title = f"The loss is at most {off:.1%} off, and the copies of one weight come {apart[-1]:.2g} apart"
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    pairs = zip(steps, right, wrong, strict=True)
    say(losses, "\n".join(f"step {step}: {one:.3f}, without f's sum {other:.3f}" for step, one, other in pairs))
    say(copies, "\n".join(f"after step {step}: {gap:.2g}" for step, gap in zip(steps, apart, strict=True)))
    return [losses, copies]
