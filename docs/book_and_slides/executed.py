"""Runs solved chapters for the book and the slides, and keeps what they put out until their code changes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from tqdm import tqdm
from traitlets.config import Config

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, solved, tags
from exercises_tests.tools.copies import write

KEPT = ROOT / "build" / "book" / "executed"
HERE = Path(__file__).parent  # where a kernel finds what it imports first
HOOKS = ("captions.py", "slide_pictures.py", "figures.py", "letters.py")
FRAMES = 72  # drawn for one panel at most: some 12 s of a core, 1.2 MB
SECONDS = 300  # for one cell
DEFINED = re.compile(r"^(def|class) (\w+)(?:.*\n)(?:(?:[ )].*)?\n)*", re.MULTILINE)
CLOCK = re.compile(r"\bperf_counter\(")  # time.time() only stamps the lines of a demonstration


class Room:
    """Where cells run: several at a time, but one that measures on the clock is alone."""

    def __init__(self) -> None:
        self._changed, self._inside, self._alone, self._waiting = threading.Condition(), 0, False, 0

    @contextmanager
    def held(self, alone: bool):
        with self._changed:
            self._waiting += alone
            self._changed.wait_for(lambda: not self._alone and not (self._inside if alone else self._waiting))
            self._waiting -= alone
            self._inside, self._alone = self._inside + 1, alone
        try:
            yield
        finally:
            with self._changed:
                self._inside, self._alone = self._inside - 1, False
                self._changed.notify_all()


ROOM = Room()


def timed(notebook: NotebookNode, root: Path) -> set[str]:
    """Return the ids of the cells that measure seconds, or call what does, here or in the library."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and "imports" not in tags(cell)]
    library = [path.read_text(encoding="utf-8") for path in (root / "course_lib").rglob("*.py")]
    names = set().union(*map(clocked, [source for source in library if CLOCK.search(source)]))
    names |= clocked("\n".join(cell.source for cell in cells), names)
    return {cell["id"] for cell in cells if CLOCK.search(cell.source) or calls(cell.source, names)}


def clocked(source: str, known: Iterable[str] = ()) -> set[str]:
    """Return the functions and classes of a source that look at the clock, or call one that does."""
    blocks = {block[2]: block[0] for block in DEFINED.finditer(source)}
    found = {name for name, block in blocks.items() if CLOCK.search(block) or calls(block, known)}
    while more := {name for name, block in blocks.items() if name not in found and calls(block, found)}:
        found |= more
    return found - {"main"}


def calls(source: str, names: Iterable[str]) -> bool:
    """Return whether one of these names is called in a source, or handed on as an argument."""
    return bool(names) and re.search(rf"\b(?<!def )(?<!class )(?:{'|'.join(names)})\b(?=[(,)])", source) is not None


def executed(chapter: Chapter, root: Path = ROOT) -> NotebookNode:
    """Return the solved chapter with its outputs. Raises ChapterError for a cell that fails, also a check."""
    notebook = solved(chapter, root)
    for cell in notebook.cells:
        if any(tag == "check" or tag.startswith("needs-") for tag in tags(cell)):
            cell.metadata["tags"] = [tag for tag in tags(cell) if tag != "raises-exception"]
    builds = {cell.source.strip(): build(cell)["at"] for cell in notebook.cells if build(cell)}
    unseen = {cell.source.strip() for cell in notebook.cells if cell["id"] in off_slides(notebook)}
    hook = (f"__import__('sys').path.append({str(HERE)!r}); __import__('captions').install(); "
            f"__import__('slide_pictures').install({builds!r}, {unseen!r})")
    notebook.cells.insert(0, new_code_cell(hook, id="captions"))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    alone, running, held = timed(notebook, root), None, ExitStack()

    def started(cell: NotebookNode, cell_index: int) -> None:
        nonlocal running
        if cell.cell_type == "code" and cell.source.strip():  # others start, too, and never end
            running = cell["id"]
            held.enter_context(ROOM.held(running in alone))

    def ended(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        held.close()
        bar.update()

    with tempfile.TemporaryDirectory() as folder, tqdm(total=len(code), desc=chapter.name, unit="cell") as bar, held:
        private = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})  # no ports on the machine
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", store_widget_state=False, config=private,
            resources={"metadata": {"path": folder}}, on_cell_start=started,
            on_cell_executed=ended)
        try:
            client.execute(env={**os.environ, "COURSE_FRAMES": str(FRAMES)})
        except CellExecutionError as error:
            said = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
            raise ChapterError(f"{chapter.name} was not written: its cell {running} failed ({said}).") from None
        except CellTimeoutError:
            raise ChapterError(f"{chapter.name} was not written: its cell {running} ran over {SECONDS} s.") from None
        except DeadKernelError:
            raise ChapterError(f"{chapter.name} was not written: its kernel died in the cell {running}.") from None
        except RuntimeError as error:
            raise ChapterError(f"{chapter.name} was not written: its kernel did not start ({error}).") from None
    del notebook.cells[0]
    return notebook


def build(cell: NotebookNode) -> dict:
    """Return how slides build up the picture of a cell, as its metadata says it; nothing where it is shown whole."""
    return cell.metadata.get("course", {}).get("build", {})


def off_slides(notebook: NotebookNode) -> set[str]:
    """Return the ids of the cells whose pictures are on no slide, because its author has written other slides."""
    said = {cell["id"]: cell.metadata.get("course", {}).get("slide") for cell in notebook.cells}
    asked = " ".join(text for text in said.values() if text)
    return {name for name, text in said.items()
            if text is not None and "[picture]" not in text and f"[picture of {name}]" not in asked}


def kept(chapter: Chapter, root: Path = ROOT, folder: Path = KEPT) -> NotebookNode | None:
    """Return the chapter as it is now with the outputs of its last run, or None where its code has changed since."""
    path = _place(chapter, root, folder)
    if not path.exists():
        return None
    outputs = {cell["id"]: cell.outputs for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"}
    notebook = solved(chapter, root)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell["outputs"] = outputs[cell["id"]]
    return notebook


def fresh(chapter: Chapter, root: Path = ROOT, folder: Path = KEPT) -> NotebookNode:
    """Return the chapter with its outputs: kept ones where nothing has changed, else those of a run now."""
    found = kept(chapter, root, folder)
    if found is not None:
        return found
    notebook = executed(chapter, root)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{chapter.name}-*.ipynb"):
        old.unlink()
    write(_place(chapter, root, folder), nbformat.writes(notebook))
    return kept(chapter, root, folder)


def _place(chapter: Chapter, root: Path, folder: Path) -> Path:
    """Return the file of a run: its name holds everything that a run depends on. Text may change without a new run."""
    notebook = solved(chapter, root)
    unseen = off_slides(notebook)
    code = [(cell["id"], cell.source, tags(cell), cell["id"] in unseen, *([build(cell)["at"]] if build(cell) else []))
            for cell in notebook.cells if cell.cell_type == "code"]
    told = hashlib.sha256(json.dumps(code).encode())
    others = {path.stem for path in (root / "notebooks").glob("*.ipynb")} - {chapter.name}
    borrows = any(re.search(r"\b(borrow|solution)\(", source) for _, source, *_ in code)
    patterns = ["course_lib/**/*.py", "course_lib/data/*", "exercises_tests/*.py", *["solutions/*.py"] * borrows]
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not (pattern.startswith("exercises_tests") and path.stem in others):
                told.update(str(path.relative_to(root)).encode() + path.read_bytes())
    told.update(b"".join((HERE / name).read_bytes() for name in HOOKS) + f"{FRAMES} {sys.version}".encode())
    told.update(" ".join(importlib.metadata.version(name) for name in ("torch", "numpy", "matplotlib")).encode())
    return folder / f"{chapter.name}-{told.hexdigest()[:16]}.ipynb"


def complaints(notebook: NotebookNode) -> list[str]:
    """Return the cells that wrote to stderr: a reader should see no warning."""
    return [cell["id"] for cell in notebook.cells
            if any(output.get("name") == "stderr" for output in cell.get("outputs", []))]
