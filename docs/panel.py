"""Writes a panel of frames for a page: controls over a picture, which templates/pages/book.js moves.

Without scripts the panel shows the frame at which it begins.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable

MANY = 4  # values that are buttons; more of them are a slider, or a list where they have no order


def panel(drawn: dict, keep: Callable[[bytes], str]) -> str:
    """Return a panel as HTML; `keep` keeps a picture and returns its address."""
    files, sizes = {}, {}
    for name, image in drawn["images"].items():
        png = base64.b64decode(image)
        files[name] = keep(png)
        sizes[name] = [int.from_bytes(png[16:20], "big") // 2, int.from_bytes(png[20:24], "big") // 2]
    frames = {place: [files.get(frame["image"], ""), sizes.get(frame["image"], [0, 0])[0], frame["title"],
                      frame["words"], frame["text"]] for place, frame in drawn["frames"].items()}
    wide = max([size[0] for size in sizes.values()], default=1)
    high = max([size[1] for size in sizes.values()], default=1)
    start = frames[",".join(map(str, drawn["start"]))]
    many = len(drawn["controls"])
    controls = "".join(control(place, told, drawn["start"][place], many)
                       for place, told in enumerate(drawn["controls"]))
    data = json.dumps({"start": drawn["start"], "free": drawn["free"], "frames": frames, "wide": wide})
    data = data.replace("</", r"<\/")  # or a title could end the script
    lines = max(len(frame[4].splitlines()) for frame in frames.values())
    room = f"min-height: {1.4 * lines:.1f}em"
    printed = f'<pre class="said" style="{room}">{html.escape(start[4])}</pre>' if lines else ""
    return (
        f'<figure class="picture frames"><div class="controls">{controls}</div>'
        f'<p class="note" role="status" hidden></p>{printed}<figcaption>{html.escape(start[2])}</figcaption>'
        f'<div class="stage"><div style="aspect-ratio: {wide} / {high}; max-width: {wide}px">'
        f'<img alt="{html.escape(start[3])}" src="{start[0]}" style="width: {100 * start[1] / wide:.2f}%"></div></div>'
        f'<script type="application/json">{data}</script></figure>')


def control(place: int, told: dict, start: int, many: int) -> str:
    """Return one of `many` controls: buttons for few values, a slider for ordered ones, else a list.

    A slider that is alone can play. Where there are many controls lists take the place of buttons, so that the picture
    stays in sight.
    """
    name, values = html.escape(told["name"]), [html.escape(value) for value in told["values"]]
    if len(values) <= (MANY if many <= MANY + 1 else 2):
        buttons = "".join(f'<button type="button" aria-pressed="{str(index == start).lower()}" value="{index}">{value}'
                          "</button>" for index, value in enumerate(values))
        return (f'<div class="control" data-place="{place}" role="group" aria-label="{name}"><span>{name}</span>'
                f"{buttons}</div>")
    if told["ordered"] and len(values) > MANY:
        spoken = html.escape(json.dumps(told["values"]))
        play = f'<button type="button" class="play" aria-label="Play {name}">&#9654;</button>' if many == 1 else ""
        return (f'<div class="control" data-place="{place}" data-values="{spoken}">'
                f'<span aria-hidden="true">{name}</span>'
                f'<input type="range" aria-label="{name}" aria-valuetext="{values[start]}" min="0" '
                f'max="{len(values) - 1}" value="{start}"><output>{values[start]}</output>{play}</div>')
    options = "".join(f'<option value="{index}"{" selected" * (index == start)}>{value}</option>'
                      for index, value in enumerate(values))
    return f'<label class="control" data-place="{place}"><span>{name}</span><select>{options}</select></label>'
