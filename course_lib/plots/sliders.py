"""Controls with names over a picture that follows the hand, and a still picture where no widget runs."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.plots import slider_widget
from course_lib.plots.canvas import as_html
from course_lib.plots.slider_frames import Panel, as_text, panel_of

FRAMES = "application/vnd.course.frames+json"


def explore(
    picture: Callable, at: dict[str, Any] | None = None, /, *, fixed: Sequence[str] | None = None, **ranges: Sequence
) -> Any:
    """Show `picture(**values)` under one control for each name in `ranges`; they start in the middle, or at `at`.

    A range is (first, last) or (first, last, step) of numbers, or a list of choices. Two values become buttons, more
    names a list to choose from, a range called step can be played, and any other is a slider. The picture follows at
    once, because frames are drawn while the kernel has nothing else to do. What `picture` prints stands below it.

    The axes stay the same while the controls in `fixed` move: all of them where there are few frames, else none.

    Where there are no widgets (no anywidget, a page printed from the notebook) the first picture is shown instead; with
    COURSE_FRAMES=100 in the environment, a player of up to 100 frames that needs no kernel. Returns the Axes outside
    notebooks, else None.
    """
    panel = panel_of(picture, at, fixed, ranges)
    display = _display()
    if display is None:
        return picture(**panel.values(panel.start))
    for forms in bundles(panel, int(os.environ.get("COURSE_FRAMES") or 0)):
        display(forms, raw=True)
    return None


def bundles(panel: Panel, most: int = 0) -> list[dict[str, Any]]:
    """Return what a panel displays: a still picture, and after it the widget that takes its place while a kernel runs.

    The picture is an output of its own, because JupyterLab shows an error, and no other form of the same output, where
    a notebook is opened again and the widget is gone. With `most` it is a page's player of at most so many frames.
    """
    data, first = slider_widget.first_frame(panel)
    values = as_text(panel.values(panel.start))
    still: dict[str, Any] = {"text/plain": "\n".join(filter(None, [values, first.said])) if first.image else first.said}
    if first.image:
        still |= {"image/png": base64.b64encode(first.image).decode()}
        still |= {"text/html": as_html(first.image, first.words, first.dark)}
    if most:
        still["text/html"], still[FRAMES] = slider_widget.page(panel.thinned(most))
    elif (made := slider_widget.widget(panel, data)) is not None:
        still["text/html"] = slider_widget.still(still.get("text/html", ""), first.said)
        live = {kind: form for kind, form in made._repr_mimebundle_()[0].items() if kind != "text/plain"}
        return [still, live]
    return [still]


def _display() -> Callable | None:
    """Return IPython's display inside a notebook's kernel, else None."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if getattr(get_ipython(), "kernel", None) is not None else None
