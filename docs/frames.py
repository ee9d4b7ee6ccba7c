"""Runs inside a chapter's kernel while the book is made: draws what a page needs in place of widgets.

A page has no kernel, so `explore` draws its picture at many values beforehand; the page shows one of them (frames.js).
And a picture whose message is one title comes without it: the page writes the message as text above, where it can be
searched, and read on a phone. `docs/executed.py` calls `install` by path, because a kernel does not find docs/.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import io
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from course_lib.plots import canvas
from course_lib.plots.sliders import values_of

FRAMES = "application/vnd.course.frames+json"
MOST = 90  # pictures drawn for one panel: some 25 s of a core, 1.5 MB
LONG = 6  # values of a range of numbers that are drawn, where it has more and not everything fits


def install() -> None:
    """Let the pictures and the sliders of this kernel draw for a page."""
    import course_lib.plots as plots
    from course_lib.plots import sliders

    plots.explore = sliders.explore = explore
    canvas.Picture._repr_html_ = figure_html


def explore(picture: Callable, at: dict[str, Any] | None = None, /, **ranges: Sequence) -> None:
    """Show `picture(**values)` as frames, for the names and values that `course_lib.plots.explore` takes."""
    from IPython.display import display

    choices = {name: values_of(name, given) for name, given in ranges.items()}
    first = {name: values[(len(values) - 1) // 2] for name, values in choices.items()} | (at or {})
    panel = drawn(picture, choices, first)
    start = panel["frames"][key(panel["start"])]
    display({FRAMES: panel, "text/html": start["html"], "text/plain": start["text"] or start["words"]}, raw=True)


def drawn(picture: Callable, choices: dict[str, list], first: dict[str, Any]) -> dict[str, Any]:
    """Return everything that a page needs of a panel, as plain data: the controls and a frame for each combination."""
    choices, free = bounded(choices, first)
    start = [values.index(first[name]) for name, values in choices.items()]
    frames, images = {}, {}
    for place in places([len(values) for values in choices.values()], start, free):
        values = {name: values[index] for (name, values), index in zip(choices.items(), place, strict=True)}
        frames[key(place)] = frame(picture, values, images)
    controls = [{"name": name.replace("_", " "), "values": [short(value) for value in values],
                 "ordered": all(isinstance(value, int | float) for value in values)}
                for name, values in choices.items()]
    return {"controls": controls, "start": start, "free": free, "frames": frames, "images": images}


def bounded(choices: dict[str, list], first: dict[str, Any]) -> tuple[dict[str, list], list[int]]:
    """Return the values that are drawn of each control, and which controls move together.

    Controls move together as far as MOST allows, the first named first: they matter most to whoever wrote the cell.
    Each other one moves alone, while the rest stand where they began.
    """
    sizes = 1
    for values in choices.values():
        sizes *= len(values)
    if sizes > MOST:
        choices = {name: thinned(values, first[name]) for name, values in choices.items()}
    alone = sum(len(values) - 1 for values in choices.values())
    free, together = [], 1
    for place, values in enumerate(choices.values()):
        if together * len(values) + alone - (len(values) - 1) <= MOST:
            free.append(place)
            together *= len(values)
            alone -= len(values) - 1
    return choices, free


def thinned(values: list, start: Any) -> list:
    """Return at most about LONG values of a long range of numbers: the ends, the start, and evenly between."""
    if len(values) <= LONG or not all(isinstance(value, int | float) for value in values):
        return values
    kept = {round(place * (len(values) - 1) / (LONG - 1)) for place in range(LONG)} | {values.index(start)}
    return [values[place] for place in sorted(kept)]


def places(sizes: list[int], start: list[int], free: list[int]) -> Iterable[tuple[int, ...]]:
    """Return the combinations that are drawn, as places in each control's values."""
    together = product(*(range(size) if index in free else [start[index]] for index, size in enumerate(sizes)))
    alone = [tuple(place if other == index else start[other] for other in range(len(sizes)))
             for index, size in enumerate(sizes) for place in range(size)]
    return dict.fromkeys([*together, *alone])


def key(place: Iterable[int]) -> str:
    return ",".join(map(str, place))


def frame(picture: Callable, values: dict[str, Any], images: dict[str, str]) -> dict[str, Any]:
    """Draw one frame: its title, words, and what was printed or raised; the image goes to `images` by its name."""
    printed, before = io.StringIO(), set(plt.get_fignums())
    found: dict[str, Any] = {"title": "", "words": "", "image": "", "html": ""}
    try:
        with contextlib.redirect_stdout(printed):
            returned = picture(**values)
        figure = getattr(returned, "figure", None) or (returned if hasattr(returned, "savefig") else None)
        if figure is not None:
            title, words, image = pulled_apart(figure)
            name = hashlib.sha256(image).hexdigest()[:16]
            images[name] = base64.b64encode(image).decode()
            found = {"title": title, "words": words, "image": name, "html": ""}
        elif returned is not None:
            print(returned, file=printed)
    except Exception as error:  # a combination that makes no sense is a sentence, as under the sliders
        print(f"{type(error).__name__}: {error}", file=printed)
    for number in set(plt.get_fignums()) - before:  # or the notebook would show it as well
        plt.close(number)
    return {**found, "text": printed.getvalue().rstrip()}


def figure_html(figure: Figure) -> str:
    """Return a figure as HTML: its message as a caption, and the image with alternative text."""
    title, words, image = pulled_apart(figure)
    caption = f"<figcaption>{html.escape(title)}</figcaption>" if title else ""
    return f'<figure class="picture">{caption}{canvas.as_html(image, words)}</figure>'


def pulled_apart(figure: Figure) -> tuple[str, str, bytes]:
    """Return a figure's message, the figure in words, and its image; the message is then not in the image."""
    words = canvas.words_of(figure)
    seen = [ax for ax in figure.axes if ax.get_visible()]
    if figure.get_suptitle():
        titles = [figure._suptitle]
    elif len(seen) == 1:  # several axes have a title each, and none speaks for all
        titles = [ax_title for ax_title in (seen[0]._left_title, seen[0].title, seen[0]._right_title)
                  if ax_title.get_text()]
    else:
        titles = []
    said = [title.get_text() for title in titles]
    if len(said) != 1 or "$" in said[0]:
        return "", words, canvas.png(figure)
    titles[0].set_text("")
    try:
        return " ".join(said[0].split()), words, canvas.png(figure)
    finally:
        titles[0].set_text(said[0])


def short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
