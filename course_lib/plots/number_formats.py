"""Number formats: which bits of a number are its sign, its exponent and its digits."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, SMALLEST, TITLE, box, say, sheet

FORMATS = {  # bits of the exponent, of the digits
    "fp32": (8, 23), "tf32": (8, 10), "bf16": (8, 7), "fp16": (5, 10), "fp8 e4m3": (4, 3), "fp8 e5m2": (5, 2),
}  # fmt: skip
BIT = 0.71  # how wide a bit is drawn
SIGN, EXPONENT, DIGITS = "#9A9A9A", "#D3C6A6", "#EDE7D8"  # no colour that means something elsewhere


def largest(name: str) -> float:
    """Return the largest number of a format. e4m3 gives up only one pattern to NaN (2209.05433); others a whole row."""
    exponent, digits = FORMATS[name]
    if name == "fp8 e4m3":
        return 2.0**8 * 1.75
    return 2.0 ** (2 ** (exponent - 1) - 1) * (2 - 2.0**-digits)


def number_formats(ax: Axes | None = None) -> Axes:
    """Draw each format as a row of bits, with the largest number it holds and the step from 1 to the next one.

    bf16, in which models are kept, stands out.
    """
    ax = sheet(3.5, 48, 8.9, ax)
    ax.set_title("The exponent buys range, the digits buy precision", fontsize=TITLE, loc="left")
    for x, text in ((0, "format"), (5.2, "bits"), (31.3, "smallest\n(subnormal)"), (38.1, "largest"),
                    (42.5, "from 1 to\nthe next")):  # fmt: skip
        ax.text(x, 8.1, text, fontsize=SMALLEST, va="center", weight="bold")
    told = []
    for row, (name, (exponent, digits)) in enumerate(FORMATS.items()):
        y = 6.2 - 1.2 * row
        bold = "bold" if name == "bf16" else "normal"
        if bold == "bold":
            ax.axhspan(y - 0.17, y + 1.03, color="#FFF3C4", linewidth=0, zorder=0)
        left = 8.2
        for bits, colour, words in ((1, SIGN, ""), (exponent, EXPONENT, "exponent: range"),
                                    (digits, DIGITS, "digits: precision")):  # fmt: skip
            words = f"{bits} {words}" if row == 0 and words else str(bits) if words else ""
            words = words if bits > 8 else words.replace("exponent: ", "bits: ")
            box(ax, left, y, BIT * bits, 0.85, colour, words)
            left += BIT * bits
        if name == "tf32":
            ax.text(left + 0.4, y + 0.4, "only to compute", fontsize=SMALLEST, va="center")
        step, smallest = 2.0**-digits, 2.0 ** (2 - 2 ** (exponent - 1) - digits)
        wide = 1 + exponent + digits
        for x, words in ((0, name), (5.4, str(wide)), (32.0, f"{smallest:.0e}".replace("e-0", "e-")),
                         (38.1, _number(largest(name))), (42.5, f"1/{2**digits:,}")):  # fmt: skip
            ax.text(x, y + 0.4, words, fontsize=SMALLEST, va="center", weight=bold)
        told.append(f"{name}: {wide} bits: 1 sign, {exponent} of exponent, {digits} of digits; from {smallest:.1g} to "
                    f"{largest(name):.3g}, {step:.2g} from 1 to the next number")
    ax.text(8.2 + BIT / 2, 8.1, "sign", fontsize=SMALLEST, ha="center", va="center", color=INK)
    ax.annotate("", (8.2 + BIT / 2, 7.1), (8.2 + BIT / 2, 7.75), arrowprops={"arrowstyle": "-|>", "color": INK})
    say(ax, "\n".join(told))
    return ax


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else f"{value:.2g}".replace("e+", "e")
