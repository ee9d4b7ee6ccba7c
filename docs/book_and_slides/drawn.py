"""Draws the pictures that only slides have: a function of sketches/<chapter>.py each, by day and for a dark room."""

from __future__ import annotations

import base64
import html
import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
from letters import of_slides

from course_lib.plots import canvas
from course_lib.plots.png_files import drawn, in_few_colours

SKETCHES = Path(__file__).with_name("sketches")


def drawings(chapter: str, name: str) -> list[tuple[str, str, str]]:
    """Return the steps of a picture: of each the words, the image in base64, and its twin on dark paper.

    Raises AttributeError where the chapter has no such picture.
    """
    found = importlib.util.spec_from_file_location(f"sketches_of_{chapter}", SKETCHES / f"{chapter}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with of_slides():
        made = getattr(module, name)()
        figures = made if isinstance(made, list) else [made]
        try:
            return [(html.escape(canvas.words_of(figure)), *(
                base64.b64encode(in_few_colours(drawn(figure, dark=dark))).decode() for dark in (False, True)))
                for figure in figures]
        finally:
            for figure in figures:
                plt.close(figure)
