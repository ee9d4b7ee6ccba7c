"""Which names the cells of a chapter make, for a learner who runs one cell before another."""

from __future__ import annotations

import json
import re
import symtable
import sys
from functools import cache
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def binds(source: str) -> set[str] | None:
    """Return the names that a cell gives a value at top level; None where it does not parse."""
    try:
        symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    except (SyntaxError, ValueError, RecursionError):
        return None
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def made_before(name: str, cell: str) -> str:
    """Return the cell above this one that makes the name, in the chapter that is open; "" in an exercise's cell.

    Cells are ids. `cell` is one, too; without one, or with one that the learner has added, every cell counts.
    """
    chapters = [chapter for chapter in _chapters() if _is_open(chapter)] or _chapters()
    for chapter in chapters:
        cells = _cells(chapter)
        ids = [one for one, _, _ in cells]
        place = ids.index(cell) if cell in ids else len(cells)
        if place < len(cells) and cells[place][1]:
            continue
        makers = [one for one, _, made in cells[:place] if name in made]
        if makers and (cell in ids or len(chapters) == 1):
            return makers[0]
    return ""


def source_of(cell: str) -> str:
    """Return what stands in a cell of code of the chapters, before anybody has changed it; "" where there is none."""
    return "\n".join(_sources(chapter).get(cell, "") for chapter in _chapters())


@cache
def _sources(chapter: Path) -> dict[str, str]:
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    return {cell.get("id", ""): "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


def _chapters() -> list[Path]:
    return sorted(NOTEBOOKS.glob("ch*.ipynb"))


def _is_open(chapter: Path) -> bool:
    """Return whether the cell that imports a chapter's checks has run here."""
    return f"exercises_tests.{chapter.stem}" in sys.modules


@cache
def _cells(chapter: Path) -> list[tuple[str, bool, frozenset[str]]]:
    """Return of each cell of code its id, whether it is an exercise, and the names that it makes."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    return [
        (cell.get("id", ""), "exercise" in cell["metadata"].get("tags", []),
         frozenset(binds(re.sub(r"^[%!].*", "", "".join(cell["source"]), flags=re.MULTILINE)) or ()))
        for cell in cells if cell["cell_type"] == "code"
    ]  # fmt: skip
