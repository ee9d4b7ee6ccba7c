"""How a price changes from one case to another: a line for each name, and who has overtaken whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, SERIES, SMALLEST, TITLE, new_axes, say

PALE = "#AAAAAA"
GAP = 0.045  # of the height: the least distance of two labels


def price_moves(
    first: Mapping[str, float], second: Mapping[str, float], cases: tuple[str, str], title: str, *,
    strong: Sequence[str] | None = (), ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw shares by name as lines from their value in one case to that in another; `strong` ones have a colour.

    `strong=None` means those that another name has overtaken: it was no better in the first case, and now is.

    Every name stands at the right, beside its second value; a first value stands at the left with all who share it.
    """
    ax = new_axes(ax, 4.6)
    strong = [name for name in first if _overtaken(name, first, second)] if strong is None else strong
    top = 1.08 * max(*first.values(), *second.values())
    colours = dict(zip(strong, SERIES, strict=False))
    for name, here in first.items():
        look = {"color": colours.get(name, PALE), "linewidth": 2.6 if name in colours else 1.3}
        ax.plot([0, 1], [here, second[name]], marker="o", markersize=5, zorder=3 if name in colours else 2, **look)
    for name, place in spread(second, GAP * top).items():
        ax.plot([1.01, 1.045], [second[name], place], color=PALE, linewidth=0.8)
        look = {"color": INK, "weight": "bold" if name in colours else "normal"}
        ax.text(1.055, place, f"{second[name]:.1%}  {name}", va="center", fontsize=SMALLEST, **look)
    alike: dict[str, list[str]] = {}
    for name, share in first.items():
        alike.setdefault(f"{share:.1%}", []).append(name)
    for words, names in alike.items():
        ax.text(-0.03, first[names[0]], f"{', '.join(names)}  {words}", ha="right", va="center", fontsize=SMALLEST)
    ax.set(xlim=(-0.55, 1.45), ylim=(0, top), yticks=[])
    ax.set_xticks([0, 1], cases, fontsize=SMALLEST)
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: {first[name]:.1%}, then {second[name]:.1%}" for name in first))
    return ax


def _overtaken(name: str, first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Return whether some other price was at least as high in the first case and is lower in the second."""
    return any(first[other] >= first[name] - 1e-9 and second[other] < second[name] - 1e-9 for other in first)


def spread(values: Mapping[str, float], least: float) -> dict[str, float]:
    """Return places in the order of the values, each as near to its value as a distance of `least` allows."""
    groups: list[tuple[list[str], float]] = []  # names from low to high, and the middle of their places
    for name in sorted(values, key=values.get):
        names, middle = [name], values[name]
        while groups:
            others, centre = groups[-1]
            if middle - (len(names) - 1) / 2 * least >= centre + (len(others) - 1) / 2 * least + least:
                break
            groups.pop()
            names = [*others, *names]
            middle = sum(values[each] for each in names) / len(names)
        groups.append((names, middle))
    return {
        name: middle + (place - (len(names) - 1) / 2) * least
        for names, middle in groups for place, name in enumerate(names)
    }  # fmt: skip
