"""Writes what the first third of chapter 3 looks like once it has run: python docs/first_look.py

The page is for whoever has installed nothing yet. Its texts, code and outputs are the notebook's own, run here with one
guess that many make; a picture has its twin for dark pages. What a notebook shows as a card stands here as its words.
"""

from __future__ import annotations

import base64
import html
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
CHAPTER, LAST, GUESS = "ch03_ring_all_reduce", "ring_strip", ("guess_growth = None", "guess_growth = 16")
PAGE, PICTURES = "first_look.md", "first_look"
FIRST = """\
*This is the first third of [chapter 3](../notebooks/ch03_ring_all_reduce.ipynb), as the notebook shows it after a run.
Here somebody has guessed 16, and a picture stands still that a slider moves in the notebook.*

"""
END = """**From here on you write the ring yourself**, with a check below each function that has seen every byte it
sent. `make lab` opens the chapter: see [the README](../README.md).
"""
IMAGE = re.compile(r'<img (?:class="[^"]*" )?alt="([^"]*)"[^>]*src="data:image/png;base64,([^"]+)"')
DARK = re.compile(r'<img class="course-drawn course-dark" src="data:image/png;base64,([^"]+)"')


def ran() -> NotebookNode:
    """Return the cells of the page with their outputs."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{CHAPTER}.ipynb", as_version=4)
    last = next(place for place, cell in enumerate(notebook.cells) if cell["id"] == LAST)
    notebook.cells = notebook.cells[: last + 1]
    for cell in notebook.cells:
        cell.source = cell.source.replace(*GUESS)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("COURSE_", "MPL"))}
    environment = {**plain, "PYTHONPATH": path, "COURSE_PROGRESS": "off"}
    with tempfile.TemporaryDirectory() as folder:
        private = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})  # no ports on the machine
        NotebookClient(notebook, timeout=300, kernel_name="python3", config=private).execute(env=environment)
    return notebook


def page(notebook: NotebookNode) -> tuple[str, dict[str, bytes]]:
    """Return the page as Markdown, and its pictures by the names of their files."""
    pieces, pictures = [], {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            pieces.append(f"{cell.source}\n")
            continue
        pieces.append(f"```python\n{cell.source}\n```\n")
        for output in cell.outputs:
            told, drawn = shown(cell["id"], output)
            pieces.append(told)
            pictures |= drawn
    return FIRST + "\n".join([*filter(None, pieces), END]), pictures


def shown(name: str, output: NotebookNode) -> tuple[str, dict[str, bytes]]:
    """Return an output in Markdown, and the pictures in it."""
    data = output.get("data", {})
    rich = data.get("text/html", "")
    if (light := IMAGE.search(rich)) is None:
        words = (output.get("text") or data.get("text/plain", "")).rstrip()
        seen = words and "application/vnd.jupyter.widget-view+json" not in data
        return (f"```\n{words}\n```\n" if seen else ""), {}
    found = {f"{name}.png": base64.b64decode(light[2])}
    source = ""
    if dark := DARK.search(rich):
        found[f"{name}_dark.png"] = base64.b64decode(dark[1])
        source = f'<source media="(prefers-color-scheme: dark)" srcset="{PICTURES}/{name}_dark.png">\n'
    words = html.escape(" ".join(html.unescape(light[1]).split()))
    return f'<picture>\n{source}<img width="830" src="{PICTURES}/{name}.png" alt="{words}">\n</picture>\n', found


def main() -> None:
    text, pictures = page(ran())
    folder = ROOT / "docs" / PICTURES
    folder.mkdir(exist_ok=True)
    for name, image in pictures.items():
        (folder / name).write_bytes(image)
    (ROOT / "docs" / PAGE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
