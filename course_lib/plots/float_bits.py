"""The bits of one weight, and what flipping each of them does to it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, box, say, sheet
from course_lib.plots.number_formats import DIGITS, EXPONENT, SIGN

LARGE = 13  # so that what is raised above the line is as large as other letters


def bits_of(value: float) -> str:
    """Return the 32 bits of a float32, the sign first."""
    return f"{struct.unpack('>I', struct.pack('>f', value))[0]:032b}"


def float_bits(weight: float, losses: Sequence[float] = (), ax: Axes | None = None) -> Axes:
    """Draw a float32's sign and exponent bit by bit, its fraction as one box, and what each flip multiplies it by.

    With the loss after each flip, bit 0 first, these stand below.
    """
    ax = sheet(2.9, 41.0, 11.4, ax)
    ax.set_ylim(-2.0, 11.0)
    bits, power = bits_of(weight), int(bits_of(weight)[1:9], 2) - 127
    ax.set_title("One flip makes the weight enormous; the others leave it small", fontsize=TITLE, loc="left")
    fraction = f"{abs(weight) / 2.0**power:.4g}"
    words = (f"weight {weight:+.4g}  =  {'-' if weight < 0 else '+'}{fraction} \u00d7 2$^{{{power}}}$:  the exponent's "
             f"bits are {power + 127}, and {power + 127} - 127 = {power}; the fraction says {fraction}")  # fmt: skip
    ax.text(0.1, 9.9, words.replace("-", "\u2212"), va="center", fontsize=SMALLEST)
    left, wide, told = 4.6, 3.0, []
    for place, bit in enumerate(bits[:9]):
        x, number = left + wide * place, 31 - place
        factor = "other\nsign" if place == 0 else f"2$^{{{(1 if bit == '0' else -1) * 2 ** (number - 23)}}}$"
        huge = place == 1 and bit == "0"
        box(ax, x, 5.0, wide - 0.25, 2.4, SIGN if place == 0 else EXPONENT, bit, edge=LIMIT if huge else INK,
            line=2.5 if huge else 1.0, weight="bold")  # fmt: skip
        ax.text(x + wide / 2 - 0.12, 4.1, str(number), ha="center", va="center", fontsize=SMALLEST)
        ax.text(x + wide / 2 - 0.12, 2.0, factor, ha="center", va="center", fontsize=LARGE if place else SMALLEST,
                color=LIMIT if huge else INK)  # fmt: skip
        if losses:
            felt = abs(losses[number] / losses[0] - 1) > 0.01
            ax.text(x + wide / 2 - 0.12, 0.1, f"{losses[number]:.2f}" if felt else "same", ha="center", va="center",
                    fontsize=SMALLEST, color=LIMIT if felt else INK, weight="bold" if felt else "normal")  # fmt: skip
        told.append(f"bit {number} is {bit}" + (f" (flipped: loss {losses[number]:.4f})" if losses else ""))
    last, width = left + 9 * wide, 9.2
    box(ax, last, 5.0, width, 2.4, DIGITS, "23 bits of the fraction")
    ax.text(last + width / 2, 4.1, "22 to 0", ha="center", va="center", fontsize=SMALLEST)
    ax.text(last + width / 2, 2.0, "between half\nand twice", ha="center", va="center", fontsize=SMALLEST)
    for x, words in ((left + wide / 2, "sign"), (left + 5 * wide, "exponent")):
        ax.text(x, 8.1, words, ha="center", va="center", fontsize=SMALLEST)
    if losses:
        some = {"same" if abs(loss / losses[0] - 1) <= 0.01 else f"{loss:.2f}" for loss in losses[:23]}
        ax.text(last + width / 2, 0.1, " or ".join(sorted(some)), ha="center", va="center", fontsize=SMALLEST)
    rows = [(6.2, "its value"), (4.1, "bit"), (2.0, "a flip:\nweight \u00d7")]
    for y, words in [*rows, (0.1, "loss then")] if losses else rows:
        ax.text(0.1, y, words, va="center", fontsize=SMALLEST, weight="bold")
    if losses:
        ax.text(left, -1.4, f"same: within 1 % of the {losses[0]:.2f} before", va="center", fontsize=SMALLEST)
    say(ax, f"the weight {weight:.9g}: " + ", ".join(told) + "; a flip from 0 to 1 in the exponent makes it larger, "
            "one from 1 to 0 smaller")  # fmt: skip
    return ax
