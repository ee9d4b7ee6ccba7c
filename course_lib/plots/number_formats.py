"""Number formats: which bits of a number are its sign, its exponent and its digits."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, SMALLEST, TITLE, box, say, sheet

FORMATS = {  # bits of the exponent, of the digits
    "fp32": (8, 23), "tf32": (8, 10), "bf16": (8, 7), "fp16": (5, 10), "fp8 e4m3": (4, 3), "fp8 e5m2": (5, 2),
}  # fmt: skip
SIGN, EXPONENT, DIGITS = "#9A9A9A", "#D3C6A6", "#EDE7D8"  # no colour that means something elsewhere


def largest(name: str) -> float:
    """Return the largest number of a format. e4m3 gives up only one pattern to NaN (2209.05433); others a whole row."""
    exponent, digits = FORMATS[name]
    if name == "fp8 e4m3":
        return 2.0**8 * 1.75
    return 2.0 ** (2 ** (exponent - 1) - 1) * (2 - 2.0**-digits)


def number_formats(ax: Axes | None = None) -> Axes:
    """Draw each format as a row of bits, with the largest number it holds and the step from 1 to the next one."""
    ax = sheet(3.3, 48, 8.4, ax)
    ax.set_title("The exponent buys range, the digits buy precision", fontsize=TITLE, loc="left")
    for x, text in ((0, "format"), (31, "smallest"), (36.6, "largest"), (42, "step next to 1")):
        ax.text(x, 7.6, text, fontsize=SMALLEST, va="center", weight="bold")
    told = []
    for row, (name, (exponent, digits)) in enumerate(FORMATS.items()):
        y = 6.2 - 1.2 * row
        ax.text(0, y + 0.4, name, fontsize=SMALLEST, va="center")
        left = 5.2
        for bits, colour in ((1, SIGN), (exponent, EXPONENT), (digits, DIGITS)):
            words = str(bits) if bits > 1 else ""
            box(ax, left, y, 0.76 * bits, 0.85, colour, words)
            left += 0.76 * bits
        step = 2.0**-digits
        smallest = 2.0 ** (2 - 2 ** (exponent - 1) - digits)
        ax.text(31, y + 0.4, f"{smallest:.0e}".replace("e-0", "e-"), fontsize=SMALLEST, va="center")
        ax.text(36.6, y + 0.4, _number(largest(name)), fontsize=SMALLEST, va="center")
        ax.text(42, y + 0.4, f"1/{2**digits:,}", fontsize=SMALLEST, va="center")
        told.append(f"{name}: 1 sign bit, {exponent} bits of exponent, {digits} of digits; from {smallest:.1g} to "
                    f"{largest(name):.3g}, {step:.2g} from 1 to the next number")
    for x, words in ((4.4, "sign"), (7.0, "exponent: how large"), (16.4, "digits: how exact")):
        ax.text(x, 7.6, words, fontsize=SMALLEST, va="center", color=INK)
    say(ax, "\n".join(told))
    return ax


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else f"{value:.2g}".replace("e+", "e")
