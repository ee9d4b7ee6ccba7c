"""How many requests a second a server answers well, over how many arrive."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import GREY, INK, SERIES, SMALLEST, TITLE, new_axes, say


def goodput_over_rate(good: Mapping[str, Mapping[float, float]], *, title: str, promise: str = "") -> Axes:
    """Draw the requests that met their objectives over those that arrived, both per second, a line for each server.

    A grey diagonal is where every request would be answered well. A box names the most of each; `promise` says what
    "well" is.
    """
    ax = new_axes(None, 3.6)
    last = max(rate for found in good.values() for rate in found)
    ax.plot([0, last], [0, last], color=GREY, linewidth=1.2, linestyle="--", zorder=4)
    ax.text(0.22 * last, 0.25 * last, "everybody is answered as promised", rotation=45, transform_rotates_text=True,
            rotation_mode="anchor", fontsize=SMALLEST, color=INK)
    told, lows = [], 0
    for (name, found), colour, marker in zip(good.items(), SERIES, "os^D", strict=False):
        rates, served = list(found), list(found.values())
        ax.plot(rates, served, color=colour, marker=marker, markersize=6, linewidth=1.8, clip_on=False)
        at = max(found, key=found.get)
        low = found[at] < 0.2 * last  # no room on the line: beside the other lines
        side = -1 if at > 0.7 * last else 1  # inside the axes
        right, high = (0.04, -0.3) if side > 0 else (-0.07, 0.06)  # below its cliff, or above the diagonal
        beside = at + right * last, found[at] + high * last
        place = (0.45 * last, (0.12 + 0.12 * lows) * last) if low else beside
        lows += low
        ax.annotate(f"{name}: at most {found[at]:.1f}", (at, found[at]), place, va="bottom",
                    ha="left" if low else "right", fontsize=SMALLEST, color=INK, weight="bold",
                    arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 1.2},
                    bbox={"facecolor": "white", "edgecolor": colour, "pad": 2.0})
        told.append(f"{name}: " + ", ".join(f"{one:.3g} at {rate:.3g}" for rate, one in found.items()))
    ax.set_xlim(0, 1.02 * last)
    ax.set_ylim(0, 1.08 * last)
    words = f" (the promise: {promise})" if promise else ""
    ax.set_xlabel("requests that arrive per second" + words, fontsize=SMALLEST)
    ax.set_ylabel("answered as promised, per second", fontsize=SMALLEST)
    ax.grid(True, color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(["requests per second that meet all objectives, over those that arrive", *told]))
    return ax
