"""make book and make slides: pages that need no network, from chapters that ran."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from small_course import ANSWER, NAME, cells, code, make_course, save

from exercises_tests.tools.chapters import ROOT, ChapterError, chapters, find

CHAPTERS = chapters()
LINKS = "[Next](ch99_more.ipynb#title), [other](a.ipynb)"
QUESTION = new_markdown_cell(f"# Sums\n\n**What is a sum?**\n\n{LINKS}", id="title")
SETUP = "keep = check_total = check_Counter = lambda answer: answer"


def module(name: str):
    def fresh(monkeypatch):
        monkeypatch.syspath_prepend(str(ROOT / "docs"))
        yield importlib.import_module(name)
        for loaded in ("book", "slides", "contents"):
            sys.modules.pop(loaded, None)

    return pytest.fixture(fresh, name=name)


book = module("book")
slides = module("slides")


def course_with(tmp_path, *more, setup=SETUP):
    """Return a course whose chapter runs, once solved."""
    root = make_course(tmp_path)
    kept = [cell for cell in cells() if cell.id in ("total", "check_total", "Counter", "check_Counter")]
    save(root / "notebooks" / f"{NAME}.ipynb", [QUESTION, code("imports", setup, "imports"), *kept, *more])
    return root


def picture(*parts):
    """Return a cell that shows a picture as a widget with a still form, and writes a progress bar."""
    source = ("from IPython.display import display\nprint('  0%|   |\\r 50%|#  |\\r      \\rdone')\n"
              "display({'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}, 'image/png': 'QUJD', "
              "'text/plain': 'a = 1'}, raw=True)")
    return code("picture", source, *parts)


def test_the_book_of_a_small_course(book, tmp_path, capsys):
    root = course_with(tmp_path, picture())
    save(root / "notebooks" / "ch99_more.ipynb", [QUESTION, code("x", "print(1)")], name="ch99_more")
    (root / "solutions" / "ch99_more.py").write_text("")
    folder = root / "book"
    assert book.write_book([], folder, root=root) == []
    text = (folder / f"{NAME}.html").read_text()
    assert not re.search(r"<script|<link|src=\"http|url\(http", text)  # what a browser would fetch or run
    assert 'src="data:image/png;base64,QUJD"' in text and 'type="application/vnd.jupyter.widget' not in text
    assert "<pre>with a = 1</pre>" in text  # where the sliders stood, and what was printed
    assert "<pre>done\n" in text  # and not what the progress bar wrote before
    stub, answer = text.index("raise"), text.index("get_world_size")
    assert stub < text.index("<summary>An answer</summary>") < answer
    assert 'href="ch99_more.html#title"' in text and 'href="a.ipynb"' in text
    assert re.search(r'href="ch99_more.html">\s*Sums', text) and 'href="index.html"' in text
    contents = (folder / "index.html").read_text()
    assert re.search(rf'href="{NAME}.html">\s*98 · Sums', contents)
    assert "What is a sum?" in contents and "<td>20</td>" in contents


def test_without_answers_a_page_shows_stubs_only(book, tmp_path):
    root = course_with(tmp_path)
    assert book.write_book(["ch98"], root / "book", answers=False, root=root) == []
    text = (root / "book" / f"{NAME}.html").read_text()
    assert "get_world_size" not in text and "An answer" not in text and "NotImplementedError" in text


def test_a_cell_that_fails_is_a_sentence_which_takes_the_place_of_the_old_page(book, tmp_path):
    root = course_with(tmp_path, code("boom", "1 / 0", "needs-total", "raises-exception"))
    (root / "book").mkdir()
    (root / "book" / f"{NAME}.html").write_text("old")
    failed = book.write_book(["98"], root / "book", root=root)
    assert failed == [f"{NAME} was not written: its cell boom failed (ZeroDivisionError: division by zero)."]
    text = (root / "book" / f"{NAME}.html").read_text()
    assert "its cell boom failed (ZeroDivisionError: division by zero)." in text and "old" not in text.split("<body")[1]


def test_a_check_that_fails_is_a_failure_though_it_may_raise(book, tmp_path):
    root = course_with(tmp_path, setup=f"{SETUP}\ndef check_total(answer):\n    raise ValueError('wrong')")
    with pytest.raises(ChapterError, match="its cell check_total failed .ValueError: wrong"):
        book.executed(find(NAME, root), root)


def test_a_kernel_that_dies_is_a_sentence(book, tmp_path):
    root = course_with(tmp_path, code("end", "import os; os._exit(3)"))
    with pytest.raises(ChapterError, match="its kernel died in the cell end"):
        book.executed(find(NAME, root), root)


def test_a_chapter_that_is_not_there_is_a_sentence(book, tmp_path, capsys):
    assert book.main(["ch77", "--to", str(tmp_path / "book")]) == 2
    assert "There is no chapter 'ch77'" in capsys.readouterr().err


def test_warnings_are_named(book):
    loud = new_code_cell("x", id="loud", outputs=[new_output("stream", name="stderr", text="UserWarning")])
    quiet = new_code_cell("x", id="quiet", outputs=[new_output("stream", name="stdout", text="fine")])
    assert book.complaints(type("Notebook", (), {"cells": [loud, quiet]})) == ["loud"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_link_to_a_chapter_leads_on_a_page_to_one_that_exists(book, chapter):
    names = {f"{known.name}.html" for known in CHAPTERS}
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown":
            text = book.to_pages(cell.source)
            relative = [to for to in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"https?:|#", to)]
            assert {to.partition("#")[0] for to in relative} <= names, cell.id


def test_a_progress_bar_that_comes_in_pieces_is_left_out_too(book):
    pieces = [new_output("stream", name="stdout", text=text) for text in ("  0%|  |", "\r      \rdone\n")]
    made = book.for_reading(CHAPTERS[0], new_notebook(cells=[new_code_cell("x", outputs=pieces)]))
    assert [output.text for output in made.cells[0].outputs] == ["done\n"]


# Slides


def test_slides_start_at_headings_and_leave_out_hints_and_imports(slides, tmp_path):
    root = course_with(tmp_path, new_markdown_cell('total = borrow("total")', id="hints"), picture(),
                       new_markdown_cell("Text\n\n## Next\n\nMore\n```\n# no heading\n```", id="next"))
    chapter = find(NAME, root)
    notebook = slides.for_reading(chapter, slides.executed(chapter, root), answers=False)
    made = slides.as_slides(notebook)
    kinds = [(cell.id, cell.metadata["slideshow"]["slide_type"]) for cell in made.cells if cell.cell_type == "markdown"]
    assert kinds == [("title", "slide"), ("next", "subslide"), ("next-1", "slide")]
    assert {"hints", "imports"}.isdisjoint(cell.id for cell in made.cells)
    text = slides.page(made)
    assert ANSWER.splitlines()[1] not in text and "Reveal.initialize" in text


def test_what_follows_the_folded_hints_of_an_exercise_is_on_a_slide(slides, tmp_path):
    hints = '<details><summary>Hint 1: an idea</summary>\n\n`total = borrow("total")`\n\n</details>\n\nWhat follows'
    root = course_with(tmp_path, new_markdown_cell(hints, id="hints"), picture())
    chapter = find(NAME, root)
    made = slides.as_slides(slides.for_reading(chapter, slides.executed(chapter, root), answers=False))
    assert [cell.source.strip() for cell in made.cells if cell.id == "hints"] == ["What follows"]


def test_slides_hold_reveal_where_it_is_installed_and_else_load_it(slides, tmp_path, monkeypatch):
    root = course_with(tmp_path)
    chapter = find(NAME, root)
    notebook = slides.as_slides(slides.for_reading(chapter, slides.executed(chapter, root)))
    monkeypatch.setattr(slides, "reveal", lambda: None)
    assert re.findall(r'src="(http[^"]*)"', slides.page(notebook))[0].endswith("/dist/reveal.js")
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("reset.css", "reveal.css", "reveal.js"):
        (dist / name).write_text(f"/* the file {name} */")
    monkeypatch.setattr(slides, "reveal", lambda: dist)
    text = slides.page(notebook)
    assert "the file reveal.js" in text and "the file reset.css" in text
    assert not re.search(r"src=\"http|<link|url\(http", text)
