"""Runs a solved chapter and writes it as slides for a workshop: python docs/slides.py ch03 [--to book]

Headings start slides; each text below one starts a slide further down. An exercise shows its stub; hints and imports
are left out. reveal.js is put inside the file where the package sphinx-revealjs is installed (`make slides` tries to),
and such slides need no network; otherwise they load reveal.js from it.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from pathlib import Path

from book import TEMPLATES, executed, for_reading
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from exercises_tests.tools.chapters import ROOT, ChapterError, find, tags
from exercises_tests.tools.copies import write

FULL, PICTURE = 28, 20  # lines of a slide, and those that a picture takes


def reveal() -> Path | None:
    """Return the folder of an installed reveal.js: the one in the package sphinx-revealjs."""
    package = importlib.util.find_spec("sphinx_revealjs")
    places = package.submodule_search_locations if package else []
    return next((folder for place in places for folder in Path(place).rglob("reveal*/dist")
                 if (folder / "reveal.js").exists()), None)


def pieces(text: str) -> list[str]:
    """Return a text cut before each heading."""
    parts, inside = [""], False
    for line in text.splitlines(keepends=True):
        inside ^= line.startswith("```")
        if re.match(r"#{1,3} ", line) and not inside and parts[-1].strip():
            parts.append("")
        parts[-1] += line
    return parts


def lines(cell: NotebookNode) -> int:
    """Return about how many lines of a slide a cell takes."""
    if cell.cell_type == "markdown":
        return sum(2 + len(line) // 120 for line in cell.source.splitlines() if line.strip())
    count = 1 + cell.source.count("\n") + 1
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        text = "".join(output.get("text", data.get("text/plain", "")))
        count += PICTURE if "<img" in "".join(data.get("text/html", "")) else 1 + text.count("\n")
    return count


def as_slides(notebook: NotebookNode) -> NotebookNode:
    """Cut an executed notebook into slides: at headings, at texts, and where a slide is full. Returns it."""
    cells, filled = [], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            shown = cell.source
            if 'borrow("' in shown:  # the hints of an exercise: what follows them is kept
                shown = shown.rpartition("</details>")[2] if "</details>" in shown else ""
            if not shown.strip():
                continue
            for number, text in enumerate(pieces(shown)):
                kind = "slide" if re.match(r"#{1,2} ", text.lstrip()) else "subslide"
                piece = new_markdown_cell(text, id=f"{cell['id']}-{number}" if number else cell["id"])
                piece.metadata["slideshow"] = {"slide_type": kind}
                filled = lines(piece)
                cells.append(piece)
        elif "imports" not in tags(cell):
            filled += lines(cell)
            if filled > FULL:
                cell.metadata["slideshow"] = {"slide_type": "subslide"}
                filled = lines(cell)
            cells.append(cell)
    notebook["cells"] = cells
    return notebook


def page(notebook: NotebookNode) -> str:
    """Return slides as one HTML page."""
    folder = reveal()
    if folder:
        styles = "\n".join((folder / name).read_text(encoding="utf-8") for name in ("reset.css", "reveal.css"))
        script = (folder / "reveal.js").read_text(encoding="utf-8").replace("</script", r"<\/script")
        parts = {"reveal_head": f"<style>{styles}</style>", "reveal_script": f"<script>{script}</script>"}
    else:
        place = SlidesExporter().reveal_url_prefix + "/dist"
        links = [f'<link rel="stylesheet" href="{place}/{name}.css">' for name in ("reset", "reveal")]
        parts = {"reveal_head": "\n".join(links), "reveal_script": f'<script src="{place}/reveal.js"></script>'}
    exporter = SlidesExporter(template_name="slides", extra_template_basedirs=[str(TEMPLATES)],
                              exclude_input_prompt=True, exclude_output_prompt=True)
    text, _ = exporter.from_notebook_node(notebook, parts)
    return text


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python docs/slides.py", description="Write a chapter as slides.")
    parser.add_argument("chapter", nargs="?", default="", help="for instance ch03")
    parser.add_argument("--installed", action="store_true", help="only tell if reveal.js is here: exit 1 if not")
    parser.add_argument("--to", type=Path, default=ROOT / "book", help="the folder to write to (default: book/)")
    options = parser.parse_args(argv)
    try:
        chapter = find(options.chapter)
        if options.installed:
            return reveal() is None
        notebook = for_reading(chapter, executed(chapter), answers=False)
        options.to.mkdir(parents=True, exist_ok=True)
        target = options.to / f"{chapter.name}.slides.html"
        write(target, page(as_slides(notebook)))
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Slides: {target}. Arrow keys move, F fills the screen, Escape shows all.")
    if reveal() is None:
        print("They load reveal.js from the network when they are shown, as sphinx-revealjs is not installed here.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
