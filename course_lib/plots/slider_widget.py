"""How a panel is shown: as a widget that asks the kernel for frames, or as a page that holds all of them."""

from __future__ import annotations

import hashlib
import html
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.plots.slider_frames import Panel, as_data

BEGUN = 4  # frames that are kept half drawn
DATA = Path(__file__).resolve().parent.parent / "data"
# The frames live as long as the widget's model: JupyterLab takes a cell out of the page when it is scrolled away.
WIDGET = """
const players = new WeakMap();
export default {
  render({model, el}) {
    const data = players.get(model) || structuredClone(model.get("data"));
    players.set(model, data);
    const player = coursePlayer(el, data, (key, ahead, dark) => model.send({want: key, ahead, dark}));
    const got = (told, buffers) => {
      const {key, dark, ...frame} = told;
      if (frame.begun) return player.begun();
      const kind = dark ? "dark" : "src";
      if (buffers.length) frame[kind] = URL.createObjectURL(new Blob([buffers[0]], {type: "image/png"}));
      data.frames[key] = {...data.frames[key], ...frame};
      player.got(key, frame);
    };
    model.on("msg:custom", got);
    return () => { player.stop(); data.start = [...player.place]; model.off("msg:custom", got); };
  },
};
"""
# A widget that runs takes the place of the still picture above it; one that is gone would be an error, and is not seen.
STILL = """<style>
.jp-OutputArea-child:has(.course-still):has(+ * .course-player) { display: none; }
.jp-OutputArea-child:has(.course-still) + :not(:has(.course-player)) { display: none; }
.jp-OutputArea-output:has(> .course-still) > :is(img, pre, p) {
  margin-left: 6px; max-width: calc(100% - 12px) !important; }
</style>"""
ASLEEP = "This picture is from an earlier session: run this cell, and its controls come back."


def script() -> str:
    """Return the player's source, in JavaScript."""
    return (DATA / "player.js").read_text(encoding="utf-8")


def looks() -> str:
    """Return the player's style sheet."""
    return (DATA / "player.css").read_text(encoding="utf-8")


def widget(panel: Panel, data: dict[str, Any]) -> Any:
    """Return a widget that shows the frames in `data` and draws others as they are wanted; None without anywidget.

    A frame that is wanted ahead is drawn one step a message: a kernel cannot stop what it does, so whoever touches a
    control meanwhile waits for a step, and not for a frame that nobody looks at.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        return None

    class Player(anywidget.AnyWidget):
        _esm, _css = script() + WIDGET, looks()
        data = traitlets.Dict().tag(sync=True)

    begun: dict[tuple[str, bool], Any] = {}

    def wanted(shown: Any, message: dict[str, Any], _: list) -> None:
        key, dark = message["want"], bool(message.get("dark"))
        drawing = begun.pop((key, dark), None) or panel.drawing(tuple(map(int, key.split(","))), dark=[dark])
        try:
            next(drawing)
            while not message.get("ahead"):
                next(drawing)
        except StopIteration as end:
            image = end.value.dark if dark else end.value.image
            shown.send({"key": key, "dark": dark, **end.value.told()}, [image] if image else [])
        else:
            begun[key, dark] = drawing
            while len(begun) > BEGUN:
                begun.pop(next(iter(begun)))
            shown.send({"key": key, "begun": True})

    made = Player(data=data)
    made.on_msg(wanted)
    made.comm.handle_msg = _beside_no_cell(made.comm.handle_msg)
    return made


def _beside_no_cell(act: Callable) -> Callable:
    """Return `act` as it is called from any thread: on the one that runs cells, while none runs.

    JupyterLab sends a widget's messages to a thread of its own, and after each of them matplotlib shows the figures
    that are there: also one that a cell has only half drawn. Of two that are drawn at the same time it puts the letters
    of one into the other.
    """

    def told(*given: Any) -> None:
        ipython = sys.modules.get("IPython")
        loop = getattr(getattr(ipython and ipython.get_ipython(), "kernel", None), "io_loop", None)
        if loop is None or threading.current_thread() is threading.main_thread():
            act(*given)
        else:
            loop.add_callback(act, *given)

    return told


def still(picture: str, said: str) -> str:
    """Return what stands in the place of a widget that is gone: how to wake it, its picture in HTML, and its print."""
    printed = f"<pre>{html.escape(said)}</pre>" if said else ""
    return f'<p class="course-still">{ASLEEP}</p>{picture}{printed}{STILL}'


def page(panel: Panel) -> tuple[str, dict[str, Any]]:
    """Return a panel as HTML that plays without a kernel or a network, and the plain data in it."""
    data = panel.data()
    return player(data), data


def player(data: dict[str, Any], files: dict[str, dict[str, str]] | None = None) -> str:
    """Return HTML that plays the frames in `data`, as Panel.data returns it; without scripts it shows the first one.

    `files` has the addresses of each frame by its key, for "src" and "dark", where the images are not to stand in the
    page itself.
    """
    if files:
        data = data | {"frames": {key: frame | files[key] for key, frame in data["frames"].items()}}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # which cannot end the script
    name = "course-" + hashlib.sha256(text.encode()).hexdigest()[:12]
    first = data["frames"][",".join(map(str, data["start"]))]
    still = f'<img alt="{html.escape(first["words"])}" width="{first["width"]}" src="{html.escape(first["src"])}">'
    rest = "" if not data["fixed"] else (
        f'<p class="course-rest">Here {html.escape(data["fixed"])}; in the notebook you can move these too.</p>')
    return (
        f"<style>{looks()}</style>"
        f'<div class="course-page"><div id="{name}" class="course-player"><div class="course-picture">{still}</div>'
        f"<pre>{html.escape(first['said'])}</pre></div>"
        f'<div class="course-player">{rest}</div></div>'
        f"<script>(() => {{\n{script()}\ncoursePlayer(document.getElementById({name!r}), {text});\n}})();</script>"
    )


def first_frame(panel: Panel) -> tuple[dict[str, Any], Any]:
    """Draw the frame at which the controls start; return the data of a player that has no other, and the frame.

    Raises what the picture raises.
    """
    frame = panel.frame(panel.start, strict=True)
    return panel.look() | {"frames": {",".join(map(str, panel.start)): as_data(frame)}}, frame
