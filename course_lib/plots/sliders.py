"""Labelled sliders over a picture, and a still picture where no widget runs."""

from __future__ import annotations

import base64
import contextlib
import io
import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt

from course_lib.plots.canvas import as_html, png, words_of

# ipywidgets gives a slider's handle no accessible name, and for its value its place in the list. This runs in the
# browser, where `element` is in the panel.
NAMES: dict[str, Any] = {
    "output_type": "display_data", "metadata": {}, "data": {"application/javascript": """
const named = (tries) => {
    const panel = element.closest(".widget-vbox"), sliders = panel ? panel.querySelectorAll(".widget-slider") : [];
    for (const slider of sliders) {
        const handle = slider.querySelector("[role=slider]"), value = slider.querySelector(".widget-readout");
        const tell = () => handle.setAttribute("aria-valuetext", value.textContent);
        handle.setAttribute("aria-label", slider.querySelector("label").textContent);
        new MutationObserver(tell).observe(value, {childList: true, characterData: true, subtree: true});
        tell();
    }
    if (!sliders.length && tries) setTimeout(named, 100, tries - 1);  // the panel is not in the page yet
};
named(100);
"""}}  # fmt: skip


def explore(picture: Callable, at: dict[str, Any] | None = None, /, **ranges: Sequence) -> Any:
    """Show `picture(**values)` under one slider for each name in `ranges`; sliders start in the middle, or at `at`.

    A range is (first, last) or (first, last, step) of numbers, or a list of choices. Where there are no widgets (no
    notebook, no ipywidgets, a page printed from the notebook) the picture at the first values is shown instead.
    What `picture` prints or raises appears below the sliders. Returns the Axes outside notebooks, else None.
    """
    choices = {name: values_of(name, given) for name, given in ranges.items()}
    first = {name: values[(len(values) - 1) // 2] for name, values in choices.items()} | (at or {})
    display = _display()
    if display is None:
        return picture(**first)
    outputs = draw(picture, first)
    panel = sliders(picture, choices, first, outputs)
    still = {key: value for output in outputs if "data" in output for key, value in output["data"].items()}
    told = [still.pop("text/plain", _as_text(first)), *(output["text"] for output in outputs if "text" in output)]
    if panel is None:
        for output in outputs:
            print(output["text"], end="") if "text" in output else display(output["data"], raw=True)
        return None
    # One bundle for all: JupyterLab shows the widget, a page that has no widgets the picture.
    display({**panel._repr_mimebundle_(), "text/plain": "\n".join(told).rstrip(), **still}, raw=True)
    return None


def values_of(name: str, given: Sequence) -> list:
    """Return the values that a slider runs through. Raises ValueError for a range that is none."""
    if isinstance(given, (list, range)):
        values = list(given)
    elif isinstance(given, tuple) and len(given) in (2, 3) and all(isinstance(part, (int, float)) for part in given):
        first, last = given[:2]
        whole = all(isinstance(part, int) for part in given)
        step = given[2] if len(given) == 3 else 1 if whole else (last - first) / 20
        if not step > 0 or not math.isfinite(last - first):
            raise ValueError(f"{name}={given!r}: the step must be above 0 and the ends finite")
        values = [first + place * step for place in range(math.floor((last - first) / step + 1e-9) + 1)]
    else:
        raise ValueError(f"{name}={given!r}: give (first, last), (first, last, step) or a list of choices")
    if not values:
        raise ValueError(f"{name}={given!r} holds no value")
    return values


def draw(picture: Callable, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Call a picture and return what it prints, draws or raises as the outputs of a notebook cell."""
    printed, figure = io.StringIO(), None
    outputs: list[dict[str, Any]] = []
    before = set(plt.get_fignums())
    try:
        with contextlib.redirect_stdout(printed):
            returned = picture(**values)
        figure = getattr(returned, "figure", None) or (returned if hasattr(returned, "savefig") else None)
        if figure is not None:
            image = png(figure)
            data = {
                "image/png": base64.b64encode(image).decode(), "text/plain": _as_text(values),
                "text/html": as_html(image, words_of(figure)),
            }  # fmt: skip
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        elif returned is not None:
            outputs.append({"output_type": "display_data", "data": {"text/plain": str(returned)}, "metadata": {}})
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}\n    line {frame.lineno}, in {frame.name}: {frame.line}\n"
        outputs.append({"output_type": "stream", "name": "stderr", "text": f"with {_as_text(values)}: {said}"})
    for number in set(plt.get_fignums()) - before:  # or the notebook would show it a second time
        plt.close(number)
    if printed.getvalue():
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    return outputs


def sliders(picture: Callable, choices: dict[str, list], start: dict[str, Any], outputs: list) -> Any:
    """Return the sliders above their picture as one widget, or None without ipywidgets."""
    try:
        import ipywidgets
    except ImportError:
        return None
    wide = ipywidgets.Layout(width="32em")
    names = f"{1 + 0.6 * max(map(len, choices)):.0f}em"  # room for the longest, so that the sliders stand in columns
    controls = {
        name: ipywidgets.SelectionSlider(
            options=[(_short(value), value) for value in values], value=start[name], description=name.replace("_", " "),
            continuous_update=False, style={"description_width": names}, layout=wide,
        )
        for name, values in choices.items()
    }  # fmt: skip
    shown = ipywidgets.Output(outputs=tuple(outputs))

    def redraw(_: Any) -> None:
        shown.outputs = tuple(draw(picture, {name: control.value for name, control in controls.items()}))

    for control in controls.values():
        control.observe(redraw, names="value")
    beside = ipywidgets.Box([*controls.values()], layout={"flex_flow": "row wrap"})  # a projector is wider than high
    return ipywidgets.VBox([beside, shown, ipywidgets.Output(outputs=(NAMES,), layout={"display": "none"})])


def _display() -> Callable | None:
    """Return IPython's display inside a notebook's kernel, else None."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if getattr(get_ipython(), "kernel", None) is not None else None


def _short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _as_text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} = {_short(value)}" for name, value in values.items())
