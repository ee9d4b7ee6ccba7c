"""Runs the solved chapters and writes them as a book of pages: python docs/book.py [ch03 ...] [--to book]

A page is one HTML file that needs no network and no server: its pictures are inside it, an exercise shows its stub and
folds the answer. nbclient runs the chapters, nbconvert writes the pages (docs/templates/page).
"""

from __future__ import annotations

import argparse
import html
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from contents import minutes, question
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from tqdm import tqdm
from traitlets.config import Config

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, chapters, find, solved, tagged, tags
from exercises_tests.tools.copies import write

TEMPLATES = Path(__file__).with_name("templates")
WIDGET = "application/vnd.jupyter.widget-view+json"
SECONDS = 300  # for one cell


def executed(chapter: Chapter, root: Path = ROOT) -> NotebookNode:
    """Return the solved chapter with its outputs. Raises ChapterError for a cell that fails, also a check."""
    notebook = solved(chapter, root)
    for cell in notebook.cells:
        if any(tag == "check" or tag.startswith("needs-") for tag in tags(cell)):
            cell.metadata["tags"] = [tag for tag in tags(cell) if tag != "raises-exception"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    running = None

    def started(cell: NotebookNode, cell_index: int) -> None:
        nonlocal running
        running = cell["id"]

    with tempfile.TemporaryDirectory() as folder, tqdm(total=len(code), desc=chapter.name, unit="cell") as bar:
        private = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})  # no ports on the machine
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", store_widget_state=False, config=private,
            resources={"metadata": {"path": folder}}, on_cell_start=started,
            on_cell_executed=lambda cell, cell_index, execute_reply: bar.update())
        try:
            client.execute()
        except CellExecutionError as error:
            said = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
            raise ChapterError(f"{chapter.name} was not written: its cell {running} failed ({said}).") from None
        except CellTimeoutError:
            raise ChapterError(f"{chapter.name} was not written: its cell {running} ran over {SECONDS} s.") from None
        except DeadKernelError:
            raise ChapterError(f"{chapter.name} was not written: its kernel died in the cell {running}.") from None
        except RuntimeError as error:
            raise ChapterError(f"{chapter.name} was not written: its kernel did not start ({error}).") from None
    return notebook


def for_reading(chapter: Chapter, notebook: NotebookNode, answers: bool = True) -> NotebookNode:
    """Make an executed chapter readable without a kernel: still pictures, links to pages, stubs; returns it."""
    stubs = {cell["id"]: cell.source for cell in tagged(chapter.notebook, "exercise")}
    notebook.metadata["title"] = chapter.title
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell["source"] = to_pages(cell.source)
        if cell.cell_type == "code":
            cell["outputs"] = together(cell.outputs)
        for output in cell.get("outputs", []):
            if "text" in output:  # a progress bar goes back to the beginning of its line
                output["text"] = re.sub(r"^.*\r(?!\n)", "", output["text"], flags=re.MULTILINE)
            data = output.get("data", {})
            if (png := data.get("image/png")) and "text/html" not in data:
                drawn = f"Picture drawn by {cell.source.strip().splitlines()[-1]}"
                data["text/html"] = f'<img alt="{html.escape(drawn)}" src="data:image/png;base64,{png}">'
            if data.pop(WIDGET, None) and "text/html" in data:  # what is left is a still picture, and what was printed
                still = f"<pre>with {html.escape(data.get('text/plain', ''))}</pre>"
                data["text/html"] = still + data["text/html"]
        if cell.get("id") in stubs:
            cell.metadata["stub"] = stubs[cell["id"]]
            cell["source"] = cell.source if answers else stubs[cell["id"]]
    return notebook


def together(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs in which what was written to one stream without a picture between is in one piece."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and "text" in output and joined[-1].get("name") == output.name:
            joined[-1]["text"] += output.text
        else:
            joined.append(output)
    return joined


def to_pages(text: str) -> str:
    """Return a text whose links to chapters lead to pages."""
    return re.sub(r"\]\((?:\./|\.\./\w+/)?(ch\d\d\w*)\.(?:ipynb|html)(#[^)]*)?\)",
                  lambda link: f"]({link[1]}.html{link[2] or ''})", text)


def complaints(notebook: NotebookNode) -> list[str]:
    """Return the cells that wrote to stderr: a reader should see no warning."""
    return [cell["id"] for cell in notebook.cells
            if any(output.get("name") == "stderr" for output in cell.get("outputs", []))]


def page(notebook: NotebookNode, before: Chapter | None = None, after: Chapter | None = None,
         inside: bool = True) -> str:
    """Return a notebook as one HTML page with links to its neighbours."""
    exporter = HTMLExporter(template_name="page", extra_template_basedirs=[str(TEMPLATES)],
                            exclude_input_prompt=True, exclude_output_prompt=True)
    text, _ = exporter.from_notebook_node(notebook, {"before": before, "after": after, "inside": inside})
    return text


def contents(known: list[Chapter], folder: Path) -> str:
    """Return the page that lists all chapters; a chapter without a page in `folder` has no link."""
    rows = ["# Distributed training and serving of large language models", "",
            "| chapter | question | core exercises, minutes (estimated) |", "|---|---|---|"]
    for chapter in known:
        there = (folder / f"{chapter.name}.html").exists()
        title = f"{int(chapter.name[2:4])} · {chapter.title}"  # as texts call it: chapter 3
        title = f"[{title}]({chapter.name}.html)" if there else title
        rows.append(f"| {title} | {question(chapter)} | {minutes(chapter)} |")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("\n".join(rows))])
    notebook.metadata["title"] = "Contents"
    return page(notebook, inside=False)


def write_book(names: list[str], folder: Path, answers: bool = True, root: Path = ROOT) -> list[str]:
    """Write the pages of these chapters (default: all) and the contents; return a sentence for each that failed."""
    known, failed = chapters(root), []
    wanted = [find(name, root).name for name in names] or [chapter.name for chapter in known]
    folder.mkdir(parents=True, exist_ok=True)
    linked = [chapter for chapter in known if chapter.name in wanted or (folder / f"{chapter.name}.html").exists()]
    for before, chapter, after in zip([None, *linked], linked, [*linked[1:], None], strict=False):
        if chapter.name not in wanted:
            continue
        target = folder / f"{chapter.name}.html"
        try:
            notebook = executed(chapter, root)
        except ChapterError as error:
            failed.append(str(error))  # a page that says so, since its neighbours lead to it
            excuse = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(html.escape(str(error)))])
            excuse.metadata["title"] = chapter.title
            write(target, page(excuse, before, after))
            continue
        if wrote := complaints(notebook):
            print(f"{chapter.name}: warnings stand in the output of {', '.join(wrote)}.", file=sys.stderr)
        write(target, page(for_reading(chapter, notebook, answers), before, after))
    write(folder / "index.html", contents(known, folder))
    return failed


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python docs/book.py", description="Write the chapters as a book of pages.")
    parser.add_argument("chapters", nargs="*", help="ch03 ... (default: all)")
    parser.add_argument("--to", type=Path, default=ROOT / "book", help="the folder to write to (default: book/)")
    parser.add_argument("--without-answers", action="store_true", help="show the stubs only")
    options = parser.parse_args(argv)
    try:
        failed = write_book(options.chapters, options.to, not options.without_answers)
    except ChapterError as error:
        failed = [str(error)]
    for sentence in failed:
        print(sentence, file=sys.stderr)
    if (options.to / "index.html").exists():
        print(f"Contents: {options.to / 'index.html'}")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
