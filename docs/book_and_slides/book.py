"""Makes the book from the chapters: python docs/book_and_slides/book.py [ch03 ...] [--to book]

Each chapter is solved and run (executed.py) and turned into a page (chapter_page.py), and Sphinx makes the pages: they
need no network and no server. A chapter whose code has not changed is not run again.
"""

from __future__ import annotations

import argparse
import copy
import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import nbformat
from chapter_page import PICTURES, Book, page
from executed import KEPT, complaints, fresh, kept
from landing import SHOWN, advertised, counted, landing, nearby, slides_page
from letters import STYLES, font
from nbformat.v4 import new_markdown_cell, new_notebook
from packages import require
from reference_pages import carried, definitions, exercises, exercises_of, glossary, linked_texts
from search_texts import search_texts, term_texts
from slides import write_slides
from tqdm import tqdm

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, chapters, find
from exercises_tests.tools.copies import write
from exercises_tests.tools.course_map import number

LOOK = Path(__file__).with_name("look")
STATIC = ("book.css", "guess.js", "book.js", "search.js", "STIXTwoMath.woff", "STIXTwoMath.LICENSE.txt", "Iosevka.woff",
          "Iosevka.LICENSE.txt")
TITLE = "Distributed training and serving of large language models"
LEFT_OUT = ("_sources", "objects.inv", ".buildinfo")  # of what Sphinx makes: nobody who reads needs it
TITLE_LINE = re.compile(r"^(# .*)$", re.MULTILINE)
OURS = ".course-book"  # stands in a folder that this command wrote


def write_book(names: list[str], folder: Path, answers: bool = True, root: Path = ROOT, jobs: int = 1) -> list[str]:
    """Write the book with these chapters (default: all) and those that have run already; return what failed.

    `jobs` chapters run at a time: two keep two cores busy, because much of a chapter waits for its own ranks. A cell
    that measures on the clock is alone all the same (executed.py).
    """
    known, failed = chapters(root), []
    wanted = [find(name, root).name for name in names] or [chapter.name for chapter in known]
    require()
    claim(folder)
    place = folder_of_runs(root)

    def ran(chapter: Chapter) -> nbformat.NotebookNode | None:
        try:
            return fresh(chapter, root, place) if chapter.name in wanted else kept(chapter, root, place)
        except ChapterError as error:
            failed.append(str(error))  # a page that says so, where the chapter was asked for
            said = f"# {chapter.title}\n\n{html.escape(str(error))}"
            return new_notebook(cells=[new_markdown_cell(said, id="failed")])

    if jobs == 1:  # in this thread, which Ctrl-C stops
        run = {chapter.name: ran(chapter) for chapter in known}
    else:
        with ThreadPoolExecutor(jobs) as pool:
            back = known[::-1]  # the last chapters take longest: beside them, short ones fill the time
            run = dict(zip((chapter.name for chapter in back), pool.map(ran, back), strict=True))
    there = [chapter for chapter in known if run[chapter.name] is not None]
    source = place.parent / ("source" if answers else "source-without-answers")
    book = Book(there, source, known)
    for chapter in there:
        if wrote := complaints(run[chapter.name]):
            print(f"{chapter.name}: warnings stand in the output of {', '.join(wrote)}.", file=sys.stderr)
    whole = [chapter for chapter in there if run[chapter.name].cells[0].get("id") != "failed"]
    pages = written(book, run, answers, whole)
    lay_out(source, pages)
    with pool_of(jobs) as pool:  # beside Sphinx, which keeps one core busy
        runs = [run[chapter.name] for chapter in whole]
        decks = pool.map(write_slides, whole, runs, repeat(source.with_name("slides")), repeat(source / PICTURES))
        made = sphinx(source)
        write(made / "_static" / "texts.js", search_texts(made))
        write(made / "_static" / "terms.js", term_texts(made))
        mirrored(made, folder)
        slides = {}
        for chapter, deck in zip(tqdm(whole, "slides", unit="chapter"), decks, strict=True):
            shutil.copyfile(deck, folder / deck.name)
            slides[chapter.name] = deck.read_text(encoding="utf-8").count("<section")
    write(folder / "slides.html", counted((folder / "slides.html").read_text(encoding="utf-8"), slides))
    return failed


@contextmanager
def pool_of(jobs: int) -> Iterator[Executor]:
    """Give work to other processes, or with one job to a thread; what has not begun when something fails is dropped."""
    pool = ProcessPoolExecutor(jobs, get_context("spawn")) if jobs > 1 else ThreadPoolExecutor(1)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def folder_of_runs(root: Path) -> Path:
    return KEPT if root == ROOT else root / "build" / "book" / "executed"


def claim(folder: Path) -> None:
    """Make the folder for the book. Raises ChapterError for one that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise ChapterError(f"{folder} is a file: name a folder, OUT=dir.")
    if folder.exists() and any(folder.iterdir()) and not (folder / OURS).exists():
        raise ChapterError(f"{folder} holds something that is not a book of this course: name another folder, OUT=dir, "
                           "or empty this one.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OURS).touch()
    (folder / ".nojekyll").touch()  # GitHub Pages leaves out folders that begin with _ unless this file is there


def written(book: Book, run: dict[str, nbformat.NotebookNode], answers: bool, slides: list[Chapter]) -> dict[str, str]:
    """Return the text of every page by the name of its file; `slides` are the chapters that have slides."""
    picture = ""
    pages = {"exercises.md": exercises(book), "glossary.md": glossary(book), "slides.md": slides_page(slides),
             "conf.py": (LOOK / "conf.py").read_text(encoding="utf-8")}
    defined = definitions(book.chapters, book.course)
    for chapter in book.chapters:
        made = page(chapter, copy.deepcopy(run[chapter.name]), book, answers)
        terms = [known.term for known in defined if known.chapter is chapter]
        earlier = carried(defined, chapter, book.course)
        if number(chapter) == SHOWN:
            picture = advertised(made, chapter)
        top = made.cells[0]
        top["source"] = TITLE_LINE.sub(rf"\1\n\n{nearby(chapter, chapter in slides)}", top.source, 1)
        texts = [cell for cell in made.cells if cell.cell_type == "markdown"]
        for cell, said in zip(texts, linked_texts([cell.source for cell in texts], terms, earlier), strict=True):
            cell["source"] = said
        pages[f"{chapter.name}.ipynb"] = nbformat.writes(made)
        if chapter.exercises:
            pages[f"{chapter.name}_exercises.md"] = exercises_of(chapter, book)
    pages["index.md"] = landing(book, TITLE, slides=True, picture=picture)
    return pages


def lay_out(source: Path, pages: dict[str, str]) -> None:
    """Write the pages for Sphinx; a page that has not changed keeps its time, and is not made again."""
    static = source / "_static"
    static.mkdir(parents=True, exist_ok=True)
    for name in STATIC:
        shutil.copy2(LOOK / name, static / name)
    for style in STYLES:
        shutil.copy2(font(style, "woff"), static)
    for name, said in pages.items():
        path = source / name
        if not path.exists() or path.read_text(encoding="utf-8") != said:
            write(path, said)
    for path in source.iterdir():
        if path.is_file() and path.name not in pages:
            path.unlink()
    shown = "".join(said for name, said in pages.items() if name.endswith(".ipynb"))
    for picture in (source / PICTURES).glob("*"):
        if picture.name not in shown:
            picture.unlink()


def sphinx(source: Path) -> Path:
    """Let Sphinx make the pages; return their folder. Raises ChapterError with what it said where it does not."""
    work = source.with_name(f"{source.name}-made")  # not the book itself: beside its pages Sphinx leaves what it needs
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--doctree-dir", str(work / "doctrees"),
               str(source), str(work / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env={
        **os.environ, "COURSE_DOCS": str(Path(__file__).parent), "COURSE_TITLE": "Distributed LLMs"})
    if said := done.stderr.strip():
        print(said, file=sys.stderr)
    if done.returncode:
        raise ChapterError(f"Sphinx did not make the book (exit {done.returncode}).")
    made = work / "html"
    pages = {"search", *(path.stem for path in source.iterdir())}
    for path in made.glob("*.html"):
        if path.stem not in pages:  # of a chapter that an earlier book had
            path.unlink()
    return made


def mirrored(made: Path, folder: Path) -> None:
    """Bring the folder of the book in step with the pages that were made before slides are added."""
    files = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    files = {path for path in files if path.parts[0] not in LEFT_OUT}
    for path in files:
        target = folder / path
        if not target.exists() or target.read_bytes() != (made / path).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made / path, target)
    for path in folder.rglob("*"):
        here = path.relative_to(folder)
        if path.is_file() and here not in files and here.name not in (OURS, ".nojekyll"):
            path.unlink()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="book.py", description="Make the book from the chapters.")
    parser.add_argument("chapters", nargs="*", help="ch03 ... (default: all)")
    parser.add_argument("--to", type=Path, default=ROOT / "book", help="the folder to write to (default: book/)")
    parser.add_argument("--without-answers", action="store_true", help="show the stubs only")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1),
                        help="chapters that run at a time, but for cells that measure seconds (default: 2)")
    options = parser.parse_args(argv)
    try:
        failed = write_book(options.chapters, options.to, not options.without_answers, jobs=max(1, options.jobs))
    except ChapterError as error:
        failed = [str(error)]
    for sentence in failed:
        print(sentence, file=sys.stderr)
    if (options.to / "index.html").exists():
        print(f"The book: {options.to / 'index.html'}")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
