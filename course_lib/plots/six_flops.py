"""The rule of six: what one weight and one token cost in forward and in backward."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import BACKWARD, FORWARD, INK, SMALLEST, TITLE, WEIGHTS, arrow, box, say, sheet


def six_flops(ax: Axes | None = None) -> Axes:
    """Draw the three products in which a matrix W takes part, each with what one of its weights does there."""
    ax = sheet(2.6, 36, 11, ax)
    ax.set_title("One weight and one token: 2 FLOPs in forward, 4 in backward", fontsize=TITLE, loc="left")
    pale, rows = "#DCE9F3", (
        ("forward:  y = x W", "x", "y", True, "w times its x, added to its y"),
        ("backward:  gradient of x", "dx", "dy", False, "w times its dy, added to its dx"),
        ("backward:  gradient of W", "x", "dy", None, "its x times its dy, added to dw"),
    )  # fmt: skip

    def tint(name: str) -> str:
        return BACKWARD if name.startswith("d") else FORWARD

    for place, (name, down, along, forward, words) in enumerate(rows):
        left = 12.2 * place + 0.3
        ax.text(left + 0.2, 10.0, name, fontsize=SMALLEST, weight="bold", va="center")
        for row in range(4):
            chosen = row == 1
            box(ax, left + 0.6, 7.4 - 1.5 * row, 1.7, 1.2, tint(down) if chosen else "white", down if chosen else "")
            for column in range(4):
                here = chosen and column == 2
                fill = WEIGHTS if here and forward is not None else BACKWARD if here else pale
                box(ax, left + 3.4 + 1.5 * column, 7.4 - 1.5 * row, 1.2, 1.2, fill)
        ax.text(left + 3.4 + 3.0 + 0.6, 6.5, "w" if forward is not None else "dw", color="white" if forward is not None
                else INK, ha="center", va="center", fontsize=SMALLEST)  # fmt: skip
        for column in range(4):
            name_of = along if column == 2 else ""
            box(ax, left + 3.4 + 1.5 * column, 1.3, 1.2, 1.2, tint(along) if name_of else "white", name_of)
        end = left + 3.4 + 3.0 + 0.6
        ways = {True: [((left + 2.3, 6.5), (end - 0.7, 6.5)), ((end, 5.8), (end, 2.6))],
                False: [((end, 2.6), (end, 5.8)), ((end - 0.7, 6.5), (left + 2.4, 6.5))],
                None: [((left + 2.3, 6.5), (end - 0.7, 6.5)), ((end, 2.6), (end, 5.8))]}  # fmt: skip
        for start, stop in ways[forward]:
            arrow(ax, start, stop, line=1.6)
        ax.text(left + 0.2, 0.4, f"{words}: 2", fontsize=SMALLEST, va="center")
    say(ax, "\n".join(f"{name}: {words}, 2 FLOPs" for name, _, _, _, words in rows))
    return ax
