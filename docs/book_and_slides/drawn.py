"""Draws the pictures that only slides have: a function of sketches/<chapter>.py each, by day and for a dark room.

They are kept, as the runs of chapters are, until something changes that they are drawn with.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from letters import of_pages

from course_lib.plots import canvas
from course_lib.plots.png_files import drawn, in_few_colours
from exercises_tests.tools.chapters import ROOT
from exercises_tests.tools.copies import write

HERE = Path(__file__).parent
SKETCHES, KEPT = HERE / "sketches", ROOT / "build" / "book" / "drawn"


def drawings(chapter: str, name: str) -> list[tuple[str, str, str]]:
    """Return the steps of a picture: of each the words, the image in base64, and its twin on dark paper.

    Raises AttributeError where the chapter has no such picture.
    """
    kept = KEPT / f"{chapter}-{name}-{_told(chapter)}.json"
    if kept.exists():
        return [tuple(step) for step in json.loads(kept.read_text(encoding="utf-8"))]
    made = _drawn(chapter, name)
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in KEPT.glob(f"{chapter}-{name}-*.json"):
        old.unlink(missing_ok=True)
    write(kept, json.dumps(made))
    return made


def _told(chapter: str) -> str:
    """Return what tells apart all that the pictures of a chapter are drawn with."""
    told = hashlib.sha256(matplotlib.__version__.encode())
    for path in (SKETCHES / f"{chapter}.py", *(HERE / f"{name}.py" for name in ("drawn", "kit", "letters")),
                 *sorted((ROOT / "course_lib").glob("**/*.py"))):
        told.update(path.read_bytes())
    return told.hexdigest()[:16]


def _drawn(chapter: str, name: str) -> list[tuple[str, str, str]]:
    found = importlib.util.spec_from_file_location(f"sketches_of_{chapter}", SKETCHES / f"{chapter}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with of_pages():
        made = getattr(module, name)()
        figures = made if isinstance(made, list) else [made]
        try:
            return [(html.escape(canvas.words_of(figure)), *(
                base64.b64encode(in_few_colours(drawn(figure, dark=dark))).decode() for dark in (False, True)))
                for figure in figures]
        finally:
            for figure in figures:
                plt.close(figure)
