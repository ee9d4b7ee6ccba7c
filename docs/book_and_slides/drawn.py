"""Draws the pictures that only slides have: a function of sketches/<chapter>.py each, by day and for a dark room.

They are kept, as the runs of chapters are, until something changes that they are drawn with.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
import os
from pathlib import Path

import matplotlib
from letters import of_pages
from matplotlib.figure import Figure

from course_lib.plots import canvas
from course_lib.plots.png_files import drawn, in_few_colours
from exercises_tests.tools.chapters import ROOT, ChapterError
from exercises_tests.tools.copies import write

HERE = Path(__file__).parent
PLAIN = os.environ.get("COURSE_DARK") == "off"  # for who makes decks that nobody looks at: few pixels, and no twin
SHARP = 50 if PLAIN else 280  # pixels an inch: as many as a projector of 1920 shows
SKETCHES, KEPT = HERE / "sketches", ROOT / "build" / "book" / "drawn"


def drawings(chapter: str, name: str) -> list[list[tuple[str, str, str]]]:
    """Return the steps of a picture, each one frame or several that are played: of a frame its words, the image in
    base64, and its twin on dark paper.

    Raises ChapterError where the chapter has no such picture.
    """
    sketches = SKETCHES / f"{chapter}.py"
    if not sketches.exists() or f"\ndef {name}(" not in sketches.read_text(encoding="utf-8"):
        raise ChapterError(f"A slide of {chapter} asks for [drawn {name}], and sketches/{sketches.name} has no such "
                           "function.")
    kept = KEPT / f"{chapter}-{name}-{_told(chapter)}.json"
    if kept.exists():
        return [[tuple(frame) for frame in step] for step in json.loads(kept.read_text(encoding="utf-8"))]
    made = _drawn(chapter, name)
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in KEPT.glob(f"{chapter}-{name}-*.json"):
        old.unlink(missing_ok=True)
    write(kept, json.dumps(made))
    return made


def _told(chapter: str) -> str:
    """Return what tells apart all that the pictures of a chapter are drawn with."""
    told = hashlib.sha256(f"{matplotlib.__version__} {PLAIN}".encode())
    for path in (SKETCHES / f"{chapter}.py", *(HERE / f"{name}.py" for name in ("drawn", "kit", "letters")),
                 *sorted((ROOT / "course_lib").glob("**/*.py"))):
        told.update(path.read_bytes())
    return told.hexdigest()[:16]


def _drawn(chapter: str, name: str) -> list[list[tuple[str, str, str]]]:
    found = importlib.util.spec_from_file_location(f"sketches_of_{chapter}", SKETCHES / f"{chapter}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with of_pages():
        made = getattr(module, name)()
        steps = [step if isinstance(step, list) else [step] for step in (made if isinstance(made, list) else [made])]
        return [[_frame(figure) for figure in step] for step in steps]


def _frame(figure: Figure) -> tuple[str, str, str]:
    light, dark = (base64.b64encode(in_few_colours(drawn(figure, dark, placed=dark, sharp=SHARP))).decode()
                   if not (dark and PLAIN) else "" for dark in (False, True))
    return html.escape(canvas.words_of(figure)), light, dark
