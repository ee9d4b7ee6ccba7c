"""make book: pages that need no network and no server, from chapters that ran."""

from __future__ import annotations

import base64
import copy
import importlib
import io
import json
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image
from small_course import NAME, cells, code, make_course, save

from exercises_tests.tools.chapters import ROOT, ChapterError, chapters, find, solved

for package in ("furo", "math_core", "mdit_py_plugins", "myst_nb", "sphinx_revealjs"):
    pytest.importorskip(package, reason="what makes the book is not installed: make book brings it")

CHAPTERS = chapters()
MAKERS = ROOT / "docs" / "book_and_slides"
MODULES = [path.stem for path in MAKERS.glob("*.py")]
QUESTION = new_markdown_cell("# Sums\n\n**What is a sum?** The answer is in chapter 99, at [its start]"
                             "(ch99_more.ipynb#title).\n\n## Words\n\n"
                             "A **total** is the sum of what all ranks bring, $S = \\sum_i x_i$. **Not** this.",
                             id="title")
SETUP = "keep = check_total = check_Counter = lambda answer: answer"
DRAW = """from course_lib.plots import explore, canvas
def draw(size, colour):
    ax = canvas.new_axes(None, 2)
    ax.plot([0, size], [0, 1], color=colour, label="line")
    ax.set_title(f"A line of length {size}")
    print("size", size)
    return ax
explore(draw, {"size": 2}, size=(1, 3), colour=["red", "blue"])"""


@pytest.fixture(autouse=True)
def docs(monkeypatch):
    """Lets tests import what makes the book, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(MAKERS))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def course_with(tmp_path: Path, *more, setup=SETUP) -> Path:
    """Return a course whose chapter runs, once solved."""
    root = make_course(tmp_path)
    kept = [cell for cell in cells() if cell.id in ("total", "check_total", "Counter", "check_Counter")]
    save(root / "notebooks" / f"{NAME}.ipynb", [QUESTION, code("imports", setup, "imports"), *kept, *more])
    return root


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> Path:
    """A course of two chapters that have run: one with a panel, a guess and a progress bar, and a short one."""
    tmp_path = tmp_path_factory.mktemp("course")
    bar = code("bar", "print('  0%|   |\\r 50%|#  |\\r      \\rdone')")
    guess = code("guess", "guess_sum = None  # your number, apples", "prediction")
    told = code("told", "def compare(guess, seen):\n    print('no guess   measured', seen)\n\n\ncompare(guess_sum, 7)")
    seen = new_markdown_cell("Seven, because six were eaten.\n\nSo much for apples.", id="seen")
    root = course_with(tmp_path, bar, guess, told, seen, code("panel", DRAW))
    save(root / "notebooks" / "ch99_more.ipynb", [
        new_markdown_cell("# More\n\n**What more?** You need chapter 98 and its `total`.", id="title"),
        code("x", "print(1)")], name="ch99_more")
    (root / "solutions" / "ch99_more.py").write_text("")
    sys.path.insert(0, str(MAKERS))
    try:
        executed = importlib.import_module("executed")
        for chapter in chapters(root):
            executed.fresh(chapter, root, root / "build" / "book" / "executed")
    finally:
        sys.path.remove(str(MAKERS))
        for name in MODULES:
            sys.modules.pop(name, None)
    return root


@pytest.fixture
def small(ran, tmp_path) -> Path:
    """A copy of that course, with its runs."""
    return Path(shutil.copytree(ran, tmp_path / "course"))


@pytest.fixture(scope="module")
def made(ran, tmp_path_factory) -> Path:
    """The book of that course."""
    root = Path(shutil.copytree(ran, tmp_path_factory.mktemp("made") / "course"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(MAKERS))
        importlib.import_module("book").write_book([], root / "book", root=root)
    for name in MODULES:
        sys.modules.pop(name, None)
    return root / "book"


def test_the_book_of_a_small_course(docs, small, capfd):
    folder = small / "book"
    assert docs("book").write_book([], folder, root=small, jobs=2) == []
    assert "WARNING" not in capfd.readouterr().err
    text = (folder / f"{NAME}.html").read_text()
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//[^\"]*\.(?:js|css|woff)|url\(http", text)  # nothing to fetch
    stub, answer = text.index("NotImplementedError"), text.index("get_world_size")
    assert stub < text.index("<summary>An answer</summary>") < answer
    assert '<a class="reference internal" href="ch99_more.html#ch99"' in text  # its link, and the words chapter 99
    assert text.count('href="ch99_more.html#ch99"') == 2
    assert "<math" in text and "<msub>" in text and "sum_i" not in text
    assert re.search(r"<pre>(?:<span></span>)?done\n", text)  # and not what the progress bar wrote before
    assert 'inputmode="decimal" name="guess_sum"></label> <span>apples</span>' in text
    assert re.search(r"<pre>(?:<span></span>)?measured 7\n", text) and "show what follows" in text
    more = (folder / "ch99_more.html").read_text()
    assert f'href="{NAME}.html#ch98-total"' in more and f'href="{NAME}.html#ch98"' in more
    assert f'href="{NAME}.html"' in (folder / "index.html").read_text()


def test_all_that_follows_a_guess_is_in_a_veil_that_stands_open_without_scripts(made):
    soup = BeautifulSoup((made / f"{NAME}.html").read_text(), "html.parser")
    (veil,) = soup.select("details.veil")
    assert veil.has_attr("open") and veil["data-guess"] == "guess_sum" and veil["data-known"] == "7"
    for told in ("compare(", "measured 7", "Seven, because", "So much for apples"):
        assert told in veil.text
    assert not veil.select(".guess") and veil.find_previous(class_="guess")
    (fold,) = [fold for fold in veil.select("details.hide") if "compare(" in fold.text]
    assert not fold.has_attr("open") and "measured 7" not in fold.text


def guessed(docs, *texts):
    """Return the cells of a page in which these texts follow a guess."""
    made = docs("veils").Veils()
    made.ask(new_code_cell("x", id="asked"), ["guess_a = None  # your number, in GB"])
    for place, said in enumerate(texts):
        made.text(said, f"text-{place}")
    made.end()
    return [cell.source for cell in made.cells]


def test_a_veil_ends_before_the_next_heading_and_its_labels(docs):
    _, veil, first, rest, end, heading = guessed(docs, "One.", "(here)=\nTwo.\n\n(a)=\n(b)=\n## Three\n\nFour.")
    assert veil.startswith('<details class="veil" open data-guess="guess_a">') and first == "One."
    assert (rest, end, heading) == ("(here)=\nTwo.\n\n", "</details>", "(a)=\n(b)=\n## Three\n\nFour.")


def test_a_guess_that_a_heading_follows_at_once_has_no_veil(docs):
    assert guessed(docs, "(here)=\n(there)=\n### Three")[1:] == ["(here)=\n(there)=\n### Three"]


def test_a_guess_that_is_answered_after_a_heading_is_veiled_there(docs):
    made = docs("veils").Veils()
    made.ask(new_code_cell("x", id="asked"), ["guess_a = None"])
    made.text("(b)=\n## Meanwhile", "text")
    told = new_code_cell("compare(guess_a, 3)", outputs=[new_output("stream", text="no guess   counted 3")])
    made.answer(told, {"guess_a"})
    made.add(told)
    assert [cell.source for cell in made.cells][2:] == [
        docs("veils").VEIL.format("guess_a", ' data-known="3" data-told="The answer, counted: 3."'),
        "compare(guess_a, 3)"]


@pytest.mark.parametrize("comment, options", [
    ("your choice: 1 own way, 2 shared, 3 both", [("1", "own way"), ("2", "shared"), ("3", "both")]),
    ("your choice: \"Meta's\", \"halfway\" or \"bold\"", [(one, one) for one in ("Meta's", "halfway", "bold")]),
    ("your number: 1, 2 or 3", [("1", "1"), ("2", "2"), ("3", "3")]),
    ("your number: the suspect, 1 to 2", [("1", "1"), ("2", "2")]),
    ("your number: 0 to 1 for a rank, 2 for the network", [("0", "rank 0"), ("1", "rank 1"), ("2", "the network")]),
    ("your number, of 15", []), ("your number, in seconds for 8 micro-batches", []), ("your number, a ratio", []),
])
def test_a_guess_among_few_choices_is_made_by_buttons_with_their_words(docs, comment, options):
    field = BeautifulSoup(docs("veils").guess(f"guess_a = None  # {comment}"), "html.parser")
    buttons = [(one["value"], one.parent.text.strip()) for one in field.select('input[type="radio"][name="guess_a"]')]
    assert buttons == options and len(field.select("input")) == max(1, len(options))


@pytest.mark.parametrize("asked, unit", [
    ("in bytes", "bytes"), ("in µs: 64 ranks", "µs"), ("in virtual seconds: the same", "seconds"), ("in GB/s", None),
    ("GB at most on a GPU", "GB"), ("seconds of ZB-V over seconds of DualPipe-V", None), ("tokens per GPU", None),
    ("bytes sent at stage 3 / bytes sent by data parallelism", None), ("idle time as a share of all time", "share")])
def test_a_field_for_a_guess_knows_the_unit_that_is_asked_for(docs, asked, unit):
    field = BeautifulSoup(docs("veils").guess(f"guess = None  # your number, {asked}"), "html.parser").div
    assert field.get("data-unit") == unit


@pytest.mark.parametrize("comment, question, beside", [
    ("in MB that each of two ranks sends", "How many MB does each of the two ranks send?", ""),
    ("MB that all send (section 3 answers)", "How many MB do all send?", "section 3 answers"),
    ("in MB: the most at once", "How many MB are alive?", "in MB: the most at once"),
])
def test_beside_the_field_of_a_guess_stands_only_what_its_question_has_not_said(docs, comment, question, beside):
    field = docs("veils").guess(f"guess_x = None  # your number, {comment}", "", f"**Predict.** {question}")
    assert BeautifulSoup(field, "html.parser").select_one(".guess > span").text == beside


def test_a_guess_that_may_name_two_of_a_list_has_boxes_with_the_words_of_the_list(docs):
    said = "Three suspects:\n\n1. **A detour.** Bytes go round.\n2. **A cable** is bad.\n3. **A card:** it is shared."
    line = "guess_a = None  # your suspects: 2, or 13 for 1 and 3"
    field = BeautifulSoup(docs("veils").guess(line, said), "html.parser")
    boxes = [(one["value"], one.parent.text.strip()) for one in field.select('input[type="checkbox"][name="guess_a"]')]
    assert boxes == [("1", "1 · A detour"), ("2", "2 · A cable"), ("3", "3 · A card")]


def test_two_choices_are_answered_in_their_words(docs):
    made = docs("veils").Veils()
    made.ask(new_code_cell("x", id="asked"), ["guess_a = None  # 2, or 12 for 1 and 2"], said="1. **A**\n2. **B**")
    told = new_code_cell("compare(guess_a, 12, choice=True)", outputs=[
        new_output("display_data", data={"text/html": "<th>no guess</th><b>12</b>", "text/plain": "no guess   12"})])
    made.answer(told, {"guess_a"})
    assert "<b>1 · A and 2 · B</b>" in told.outputs[0].data["text/html"]


def test_a_text_before_code_that_is_hidden_does_not_call_it_the_code_below(docs):
    chapter_page = docs("chapter_page")
    chapter = next(one for one in CHAPTERS if one.name.startswith("ch07"))
    notebook = copy.deepcopy(chapter.notebook)
    for cell in notebook.cells:
        cell["outputs"] = [new_output("stream", text="x")] if cell.cell_type == "code" else None
    unseen = chapter_page.before_plumbing(notebook, chapter_page.plot_names(notebook), set())
    assert "comb_text" in unseen and "tokens_why" not in unseen


def test_a_choice_is_answered_in_its_words(docs):
    made, page = docs("veils").Veils(), "<table><tr><th>no guess</th><td></td></tr><tr><td><b>2</b></td></tr></table>"
    made.ask(new_code_cell("x", id="asked"), ["guess_a = None  # your choice: 1 own way, 2 shared"])
    told = new_code_cell("compare(guess_a, 2, choice=True)", outputs=[
        new_output("display_data", data={"text/html": page, "text/plain": "no guess   it is 2"})])
    made.answer(told, {"guess_a"})
    assert "<b>shared</b>" in told.outputs[0].data["text/html"] and 'data-known="2"' in made.cells[1].source


def test_what_says_the_answer_is_marked_for_the_page_to_hide_it_once_it_has_answered_a_guess(docs):
    made, page = docs("veils").Veils(), '<div class="course-card course-open"><th>no guess</th></div>'
    made.ask(new_code_cell("x", id="asked"), ["guess_a = None  # your number"])
    told = new_code_cell("compare(guess_a, 2)", outputs=[
        new_output("display_data", data={"text/html": html, "text/plain": "no guess   2"}) for html in (page, "<p>")])
    made.answer(told, {"guess_a"})
    assert [output.data["text/html"].count("compared") for output in told.outputs] == [1, 0]


def test_a_bet_inside_of_other_code_becomes_a_guess_and_leaves_the_code(docs):
    chapter_page = docs("chapter_page")
    chapter = next(one for one in CHAPTERS if any("  # your choice: " in cell.source and "prediction" not in
                   cell.metadata.get("tags", []) for cell in one.notebook.cells))
    made = chapter_page.page(chapter, copy.deepcopy(chapter.notebook), chapter_page.Book(CHAPTERS, Path("nowhere")))
    text = "\n".join(cell.source for cell in made.cells)
    assert 'type="radio" name="bet"' in text and "bet = None" not in text


def test_where_a_question_is_about_the_next_cell_its_code_stands_before_the_veil(docs):
    cell = new_code_cell("notes = []\n\n# look\ncompare(guess_a, len(notes))\nprint(notes)", id="told")
    shown = docs("chapter_page").before(cell, {"guess_a"})
    assert shown.source.startswith("notes = []") and cell.source == "compare(guess_a, len(notes))\nprint(notes)"


def test_what_a_question_says_of_the_picture_that_answers_it_waits_for_the_picture(docs):
    later = docs("chapter_page").told_later
    assert later("So.\n\n**Predict.** How many?\n\nThe picture also shows when.") == (
        "So.\n\n**Predict.** How many?", "The picture also shows when.")
    assert later("The picture shows when.\n\nSo.") == ("The picture shows when.\n\nSo.", "")


def test_an_answer_stands_below_the_hints(docs):
    chapter_page = docs("chapter_page")
    page = chapter_page.page(CHAPTERS[0], copy.deepcopy(CHAPTERS[0].notebook), chapter_page.Book(CHAPTERS, Path("x")))
    text = "\n".join(cell.source for cell in page.cells)
    first = [text.index(f"<summary>{word}") for word in ("Hint 1", "Hint 2", "An answer")]
    assert first == sorted(first) and text.count("<summary>An answer") == len(CHAPTERS[0].exercises)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_one_frame_holds_an_exercise_from_its_task_to_its_answer_and_nothing_else(docs, chapter):
    chapter_page = docs("chapter_page")
    page = chapter_page.page(chapter, copy.deepcopy(chapter.notebook), chapter_page.Book(CHAPTERS, Path("x")))
    frames, inside = {}, None
    for cell in page.cells:
        if cell.source == chapter_page.FRAME:
            assert inside is None
            frames[cell["id"]] = inside = []
        elif cell.source == "</div>":
            inside = None
        elif inside is not None:
            inside.append(cell)
    assert inside is None and len(frames) == len(chapter.exercises)
    for held, exercise in zip(frames.values(), chapter.exercises, strict=True):
        names = [cell["id"] for cell in held]
        assert names.index(exercise.id) < names.index(f"check_{exercise.id}") < names.index(f"{exercise.id}-answer")
        assert names[-1] == f"{exercise.id}-answer"
        assert not any(re.search(r"^#", cell.source, re.MULTILINE) for cell in held if cell.cell_type == "markdown"
                       and "```" not in cell.source)


@pytest.mark.parametrize("source, folded", [
    ("from course_lib.plots import race\n\nrace();", True),
    ("plots.rings(4);", True),
    ("print(total)", True),
    ("steps = 4\nrace(steps)", False),
    ("steps = 4\nrace(steps,\n     names=True,\n     title='4')", True),
    ("run(total, ranks=4)", False),
    ("first = {\n" + "1: 2,\n" * 8 + "}\nprint(first)", True),
    ("def f():\n" + "    pass\n" * 9, False),
    ("def f():\n" + "    pass\n" * 30, True),
])
def test_code_that_only_shows_or_is_long_is_folded(docs, source, folded):
    cell = new_code_cell(source, outputs=[new_output("stream", text="4")])
    assert docs("chapter_page").only_shows(cell, {"race"}) is folded
    cell.metadata["tags"] = ["exercise"]
    assert not docs("chapter_page").only_shows(cell, {"race"})


PANEL = {"label": "", "controls": [], "start": [0], "fixed": "", "frames": {
    "0": {"words": "", "width": 8, "height": 8, "src": "", "said": ""}}}
FIGURE = {"text/html": '<figure class="picture"><img src="x"></figure>'}


@pytest.mark.parametrize("source, later, folded", [
    ("steps = moves(4)\nexplore(lambda step: ring(steps, step), step=(0, 6))", "race(steps)", True),
    ("steps = moves(4)\nring(steps);", "total = len(steps)", False),
    ("steps = moves(4)\nring(steps);", "def f():\n    steps = 1\n    return steps", True),
    ("def line(size):\n    return size / 2\n\n\nlines = {4: line(4)}\nring(lines);", "", True),
    ("def step(size):\n    size += 1\n    return size\n\n\nring(step(4));", "", False),
    ("def one(step):\n    steps = moves(step)\n    return ring(steps)[0]\n\n\nexplore(one, step=(0, 6))", "", True),
    ("sums = {'yours': answer(4), 'star': 4}\nring(sums);", "", False),
    ("ring(4)\nmoves(4)", "", False),
])
def test_code_only_draws_if_open_code_needs_nothing_of_it_and_nothing_in_it_teaches(docs, source, later, folded):
    drawing, last = (new_code_cell(one, outputs=[new_output("display_data", data=FIGURE)]) for one in (source, later))
    exercise = new_code_cell("def answer(size):\n    return size", id="answer", metadata={"tags": ["exercise"]})
    notebook = new_notebook(cells=[exercise, drawing, last])
    assert (drawing["id"] in docs("chapter_page").only_draw(notebook, {"ring", "race", "explore"})) is folded


@pytest.mark.parametrize("source, one", [("from course_lib.plots import ring\n\nring(4, step=2);", True),
                                         ("explore(lambda step: ring(4, step), step=(0, 6))", True),
                                         ("steps = moves(4)\nring(steps);", False)])
def test_a_page_leaves_out_code_of_a_picture_that_is_one_call_and_what_it_imports(docs, source, one):
    assert docs("chapter_page").one_call(new_code_cell(source)) is one


def test_a_picture_right_below_a_panel_is_folded_because_it_shows_all_steps_at_once(docs):
    chapter_page = docs("chapter_page")
    chapter = find("ch03")
    notebook = copy.deepcopy(chapter.notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            drawn = {chapter_page.FRAMES: PANEL} if "explore(" in cell.source else FIGURE
            cell["outputs"] = [new_output("display_data", data=drawn)]
    page = chapter_page.page(chapter, notebook, chapter_page.Book(CHAPTERS, Path("nowhere")))
    place = next(at for at, cell in enumerate(page.cells) if cell["id"] == "ring_strip")
    before, _, after = (cell.source for cell in page.cells[place - 1:place + 2])
    assert before == "<details><summary>All steps at once</summary>" and after == "</details>"
    assert sum("All steps at once" in cell.source for cell in page.cells) == 1


def test_code_that_prints_beside_its_picture_is_no_code_that_only_draws(docs):
    outputs = [new_output("display_data", data=FIGURE), new_output("stream", text="4")]
    cell = new_code_cell("ring(4);", outputs=outputs)
    assert docs("chapter_page").only_draw(new_notebook(cells=[cell]), {"ring"}) == set()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_code_that_is_folded_in_jupyterlab_only_draws(docs, chapter):
    notebook, pages = copy.deepcopy(chapter.notebook), docs("chapter_page")
    folded = [cell for cell in notebook.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    for cell in folded:
        cell["outputs"] = [new_output("display_data", data={"image/png": ""})]
    assert {cell["id"] for cell in folded} <= pages.only_draw(notebook, pages.plot_names(notebook))


def test_the_first_page_has_the_map_before_the_chapters_and_says_once_that_minutes_are_estimated(docs):
    landing = docs("landing")
    text = landing.landing(docs("chapter_page").Book(CHAPTERS, Path("nowhere")), "T", slides=True)
    assert text.index("<svg") < text.index('class="tracks"') < text.index('class="cards"') and "<details" not in text
    assert text.count("estimated") == 1


def test_the_list_for_phones_has_every_chapter_with_its_minutes_and_what_it_comes_after(docs):
    book = docs("chapter_page").Book(CHAPTERS, Path("nowhere"))
    listed = BeautifulSoup(docs("landing").chapter_list(book), "html.parser")
    rows = [" ".join(one.text.split()) for one in listed("li")]
    assert len(rows) == len(CHAPTERS) and re.fullmatch(r"3 · Ring all-reduce \d+ min, after 2", rows[3])


def test_a_track_is_one_line_with_all_that_its_last_chapter_needs(docs):
    book = docs("chapter_page").Book(CHAPTERS, Path("nowhere"))
    rows = [one.text for one in BeautifulSoup(docs("landing").tracks(book), "html.parser").select("li")]
    assert "Half a day: 0 → 3, 3 hours" in rows and any(row.startswith("Only serving: 0 → 1 → 2 ") for row in rows)
    few = docs("chapter_page").Book(CHAPTERS[:4], Path("nowhere"))
    assert len(BeautifulSoup(docs("landing").tracks(few), "html.parser").select("li")) == 1


def test_the_page_of_slides_says_how_many_there_are_and_how_long_they_take(docs):
    landing = docs("landing")
    page = landing.counted(landing.slides_page(CHAPTERS[:1]), {CHAPTERS[0].name: 60})
    assert f'id="{CHAPTERS[0].name[:4]}-many">60 slides,</span> 72 minutes' in page  # as in the agenda


def test_the_list_of_exercises_has_the_first_sentence_of_each_docstring(docs):
    reference_pages = docs("reference_pages")
    for chapter in CHAPTERS:
        for exercise in chapter.exercises:
            said = reference_pages.sentence(chapter, exercise)
            assert said[-1] in ".?!" and f"<br>{said} |" in reference_pages.table([chapter])


def test_a_fence_without_a_language_is_plain_text(made, docs):
    text = (MAKERS / "look" / "conf.py").read_text()
    assert 'highlight_language = "none"' in text
    assert "highlight-ipython3" in (made / f"{NAME}.html").read_text() or "highlight-python" in (
        made / f"{NAME}.html").read_text()


@pytest.mark.parametrize("said, source, known", [
    ("no guess   by formula 1,052.5 tokens a second", "compare(guess, x)",
     'data-known="1052.5" data-told="The answer, by formula: 1,050 tokens a second." '
     'data-unit="tokens a second"'),
    ("no guess   then 60 GB/s", "compare(guess, x)",
     'data-known="60" data-told="The answer: 60 GB/s." data-unit="GB/s"'),
    ("no guess   counted 5 of 32", "compare(guess, x, choice=True)", 'data-known="5" data-choice="yes"'),
    ("drawn\nno guess   it is TPDMF\n", "judge_letters(guess)", 'data-known="TPDMF"'),
    ("a line of another cell", "plot(guess)", ""),
])
def test_a_fold_knows_the_number_that_was_measured(docs, said, source, known):
    cell = new_code_cell(source, outputs=[new_output("stream", text=said)])
    assert docs("veils").measured(cell).strip() == known


def test_a_fold_knows_why_one_would_think_of_a_wrong_number(docs):
    cell = new_code_cell('compare(guess_notes, n, because="ch00.notes")', outputs=[
        new_output("stream", text="no guess   measured 1")])
    (fold,) = BeautifulSoup(f"<details{docs('veils').measured(cell)}>", "html.parser").find_all("details")
    assert json.loads(fold["data-reasons"])["8"].startswith("Four lines in each of two runs")


@pytest.mark.parametrize("said, short", [
    ("measured 41.41 times", "measured 41.4 times"), ("5.025 requests", "5.03 requests"),
    ("1 times as long", "just as long"), ("21 times, 897,959 bytes", "21 times, 897,959 bytes")])
def test_a_verdict_has_decimals_of_three_digits(docs, said, short):
    assert docs("veils").rounded(said) == short


@pytest.mark.parametrize("said, read", [
    ("Which one? The cell takes about ten seconds.", "Which one?"),
    ("It pays (a few seconds), as you see.", "It pays, as you see."),
    ("Look up. The next cell imports what the chapter needs, which takes some seconds.", "Look up."),
    ("Who failed? The cell takes another 15 seconds; its picture shows both.", "Who failed? Its picture shows both."),
    ("<details><summary>Hint 3: code</summary>\n\nx\n\n</details>\n\n<details><summary>Hint 4: borrow it</summary>\n\n"
     "`f = borrow('f')`\n\n</details>", "<details><summary>Hint 3: code</summary>\n\nx\n\n</details>\n\n"),
])
def test_a_page_says_nothing_of_how_long_a_cell_takes_nor_how_to_borrow_an_answer(docs, said, read):
    assert docs("chapter_page").reworded(said) == read


def test_a_page_has_no_words_about_working_in_a_notebook(docs):
    chapter_page = docs("chapter_page")
    book = chapter_page.Book(CHAPTERS, Path("nowhere"))
    for chapter in CHAPTERS:
        made = chapter_page.page(chapter, copy.deepcopy(chapter.notebook), book)
        for cell in made.cells:
            assert not re.search(r"Shift\+Enter|%pip|guess_\.\.\. = None|^progress\(\)$", cell.source), cell.source
            if cell.cell_type == "markdown":
                assert not re.search(r"\bthis notebook|Then run the check|picture after it", cell.source), cell.source
                told = re.search(r"\b(?:next|last|the|this|new|both) cells?\b(?! in full)|\brun (?:it|the code)[:.]",
                                 cell.source)
                assert not told, cell.source


@pytest.mark.parametrize("said, read", [
    ("The next cell draws both. In the next cell eight ranks meet.",
     "The picture below shows both. In the code below eight ranks meet."),
    ("The next cells do it, and the cell above did.", "The lines below do it, and the code above did."),
    ("Count the cells in full colour. The cell's last line counts.",
     "Count the cells in full colour. The code's last line counts."),
])
def test_what_a_notebook_calls_a_cell_is_the_code_on_a_page(docs, said, read):
    assert docs("chapter_page").reworded(said) == read


def test_a_picture_keeps_its_room_before_it_is_fetched(docs, tmp_path):
    chapter_page, png = docs("chapter_page"), io.BytesIO()
    Image.new("RGB", (600, 200)).save(png, "PNG")
    drawn = new_output("display_data", data={"image/png": base64.b64encode(png.getvalue()).decode()})
    page = chapter_page.shown(drawn, chapter_page.Book([], tmp_path)).data["text/html"]
    image = BeautifulSoup(page, "html.parser").img
    assert (image["width"], image["height"], image["loading"]) == ("300", "100", "lazy")


def test_what_a_check_said_below_a_stub_is_folded_as_that_of_a_right_answer(made):
    soup = BeautifulSoup((made / f"{NAME}.html").read_text(), "html.parser")
    prompts = [fold.summary.text.strip() for fold in soup.select("details.below-input")]
    assert prompts and {" ".join(dict.fromkeys(prompt.split("\n"))) for prompt in prompts} == {
        "What the check says of a right answer"}


def test_the_search_has_the_text_of_each_section_and_no_folded_answer(made):
    written = (made / "_static" / "texts.js").read_text()
    texts = json.loads(written.removeprefix("const courseTexts = ").removesuffix(";\n"))
    (words,) = [one for one in texts[NAME] if one[1] == "Words"]
    assert words[2].startswith("A total is the sum of what all ranks bring") and words[0] == "ch98-at-title-1"
    assert "get_world_size" not in written and "measured 7" not in written and "So much for apples" in written
    assert "texts.js" in (made / "search.html").read_text()
    assert "texts.js" not in (made / "index.html").read_text()


def test_the_words_of_the_glossary_are_sections_of_the_search_and_do_not_run_together(docs):
    page = ('<article><section id=g><h1>Glossary</h1><p>All.</p><dl class="glossary"><dt id=t>KV cache</dt>'
            "<dd><p>The keys.</p><p>And values.</p></dd></dl></section></article>")
    assert docs("search_texts").sections(page) == [
        ["g", "Glossary", "All.", "", ""], ["t", "KV cache", "The keys. And values.", "", ""]]


def test_the_cells_of_a_table_are_parted_by_commas_in_the_text_of_the_search(docs):
    rows = "<tr><td><p>a</p>\n</td><td>b</td></tr>\n<tr><td>c</td><td>d</td></tr>"
    page = f"<article><section id=a><h2>T</h2><table>{rows}</table></section></article>"
    assert docs("search_texts").sections(page) == [["a", "T", "a, b; c, d;", "", ""]]


def test_what_waits_behind_a_guess_is_a_part_of_its_own_in_the_text_of_the_search(docs):
    veil = '<details class="veil"><p>It is 12.</p><details class="veil">So 3.</details></details>'
    page = f"<article><section id=a><h2>T</h2><p>How many?</p>{veil}<p>Now on.</p></section></article>"
    assert docs("search_texts").sections(page) == [["a", "T", "How many? Now on.", "", "It is 12. So 3."]]


def test_a_break_and_the_end_of_a_caption_part_words_in_the_text_of_the_search(docs):
    page = "<article><section id=a><h2>T</h2><figcaption>A ring</figcaption><p>f<br/>Add up.</p></section></article>"
    assert docs("search_texts").sections(page) == [["a", "T", "A ring. f Add up.", "", ""]]


def test_a_fraction_in_the_text_of_the_search_has_its_line(docs):
    page = "<section id=a><h2>T</h2><p>Is <math><mfrac><mi>S</mi><mi>B</mi></mfrac></math>.</p></section>"
    assert docs("search_texts").sections(f"<article>{page}</article>") == [["a", "T", "Is S/B.", "", ""]]
    flat = docs("formulas").mathml(r"2\,\frac{P-1}{P}\,S + \frac{S}{PB}")  # whose parts do not run together
    page = f"<article><section id=a><h2>T</h2><p>{flat}</p></section></article>"
    assert docs("search_texts").sections(page) == [["a", "T", "2 (P−1)/P S+S/(PB)", "", ""]]


def test_six_columns_of_the_map_fit_beside_the_list_of_chapters_on_a_small_screen(docs):
    landing = docs("landing")
    wide = max(landing.columns(CHAPTERS).values()) * (landing.BOX + landing.GAP) + landing.BOX + 4
    assert wide <= 720  # pixels: a page's text in a window of 1024


def test_the_map_has_a_line_from_each_chapter_that_is_needed_and_not_by_way_of_another(docs):
    def chapter(number, text):
        return type("Chapter", (), {"name": f"ch0{number}_x", "notebook": new_notebook(
            cells=[new_markdown_cell(f"# T\n\n{text}")], metadata={"course": {}})})()

    landing = docs("landing")
    known = [chapter(0, "You need no other chapter."), chapter(1, "You need chapter 0."),
             chapter(2, "You need [chapter 1](a.ipynb) and chapter 0; chapter 9 comes later.")]
    assert [landing.needs(one) for one in known] == [[], [0], [0, 1]]
    assert landing.lines_of(known) == {0: [], 1: [0], 2: [1]}
    assert landing.columns(known) == {0: 0, 1: 1, 2: 2}
    known.append(chapter(3, "You need no other chapter."))
    known.append(chapter(4, "You need chapters 2 and 3."))
    assert landing.columns(known) == {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}  # 3 stands beside what builds on it


def test_the_map_of_one_chapter_is_as_large_as_a_box(docs):
    landing = docs("landing")
    book = docs("chapter_page").Book(CHAPTERS[:1], Path("nowhere"))
    (most,) = re.findall(r"max-width: ([\d.]+)px", landing.chapter_map(book))
    assert float(most) < 1.5 * landing.BOX


@pytest.mark.parametrize("minutes, said", [(40, "40 minutes"), (55, "an hour"), (85, "an hour"), (700, "12 hours")])
def test_minutes_are_said_in_words(docs, minutes, said):
    assert docs("landing").duration(minutes) == said


def test_the_first_page_begins_with_the_first_chapter_that_the_book_has(docs):
    book = docs("chapter_page").Book(CHAPTERS[2:4], Path("nowhere"))
    assert "Begin with chapter 2<" in docs("landing").landing(book, "T", slides=True)


def test_what_the_first_page_says_of_a_wrong_answer_is_what_its_check_says(docs):
    from course_lib.lessons import ring
    from exercises_tests import ch03_ring_all_reduce as checks

    name, said = docs("landing").REFUSED
    with pytest.raises(AssertionError) as refused:
        getattr(checks, f"check_{name}")(ring.whole_tensors_around)
    assert said in " ".join(str(refused.value).split())


def test_the_first_page_shows_the_first_slider_of_a_chapter_and_a_page_without_one_gives_none(docs):
    advertised, chapter = docs("landing").advertised, CHAPTERS[3]
    drawn = [new_output("display_data", data={"text/html": f"<{one}</div>"})
             for one in ("figure>0", 'div class="course-player">1', 'div class="course-player">2')]
    shown = advertised(new_notebook(cells=[new_markdown_cell("x"), new_code_cell("x", outputs=drawn)]), chapter)
    assert ">1<" in shown and ">0<" not in shown and ">2<" not in shown and f'href="{chapter.name}.html"' in shown
    assert advertised(new_notebook(cells=[new_code_cell("x")]), chapter) == ""


def test_the_first_page_says_where_the_course_is_by_its_address_where_github_makes_the_book(docs, monkeypatch):
    source = docs("landing").source
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    assert source() == "get a copy of the course from where you found this book,"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/course")
    assert source() == 'get the course from <a href="https://github.com/a/course">a/course</a>'


def test_a_page_leads_to_its_exercises_slides_and_words(made):
    text = (made / f"{NAME}.html").read_text()
    near = BeautifulSoup(text, "html.parser").select_one(".nearby")
    assert near.text == "Exercises · Slides"
    assert [link["href"] for link in near("a")] == [f"{NAME}_exercises.html", f"{NAME}.slides.html"]
    assert 'href="glossary.html#term-total"' in text


def test_a_line_of_the_map_past_a_column_runs_through_a_gap_between_its_boxes(docs):
    landing = docs("landing")
    step = landing.BOX + landing.GAP
    spots = {0: (0, 0), 1: (step, 0), 2: (step, landing.ROW), 3: (2 * step, 0)}
    line = landing.Lines(spots, {3: [0]}).line(0, 3, 0)
    gap = (landing.ROW - landing.HIGH) / 2
    level = float(re.search(rf"V(-?[\d.]+) H{step + landing.BOX:g}\b", line)[1])
    assert level in (-gap, landing.HIGH + gap) and 'class="head"' in line


def test_no_two_chapters_have_a_line_of_the_map_in_one_place(docs):
    drawn = BeautifulSoup(docs("landing").chapter_map(docs("chapter_page").Book(CHAPTERS, Path("x"))), "html.parser")
    pieces = {}  # of whose lines, by where they run
    for group in drawn.select(".needs > g"):
        start, *moves = re.findall(r"[MHV][-\d. ]+", group.path["d"])
        x, y = map(float, start[1:].split())
        source = (x, y)
        for move in moves:
            to = float(move[1:])
            along, across, low, high = ("V", x, y, to) if move[0] == "V" else ("H", y, x, to)
            pieces.setdefault((along, across), []).append((*sorted((low, high)), source))
            x, y = (x, to) if move[0] == "V" else (to, y)
    for runs in pieces.values():
        for low, high, source in runs:
            assert not [one for one in runs if one[2] != source and one[0] < high and low < one[1]]


def test_a_term_in_bold_that_a_sentence_defines_is_in_the_glossary_and_a_stressed_word_is_not(docs, small):
    folder = small / "book"
    docs("book").write_book(["ch99"], folder, root=small)
    docs("book").write_book([], folder, root=small)
    text = (folder / "glossary.html").read_text()
    assert 'id="term-total"' in text and "is the sum of what all ranks bring" in text
    assert 'id="term-Not"' not in text and f'href="{NAME}.html#ch98-in-title"' in text


@pytest.mark.parametrize("sentence, term, is_one", [
    ("A **node** is one computer.", "node", True),
    ("In a **tree** each round halves the number of ranks that still hold a part.", "tree", True),
    ("**Optimizer step**: the optimizer moves each weight a little against its gradient.", "Optimizer step", True),
    ("**QLoRA** ([a paper](https://a.org)) also stores the frozen matrices in 4 bits.", "QLoRA", True),
    ("Work with fewer of them than its ridge point is **memory-bound**: it waits for bytes.", "memory-bound", True),
    ("**FSDP** when weights and gradients no longer fit, and each GPU has many tokens.", "FSDP", False),
    ("**Sequence parallelism** removes this rest, and nothing else does so.", "Sequence parallelism", False),
    ("- **trips**: a dispatch takes about 45 µs to start, and a combine takes 65.", "trips", False),
    ("Each parameter becomes a **DTensor**:", "DTensor", False),
    ("In backward, GPU 1 sends back the gradient of x, called **x.grad**.", "x.grad", False),
])
def test_a_bold_word_is_in_the_glossary_only_where_the_sentence_says_what_it_is(docs, sentence, term, is_one):
    assert docs("reference_pages").defines(sentence, term) is is_one


def test_between_two_sentences_in_bold_there_is_no_word(docs):
    text = "**A pair has only one port, and so it took far longer** **It needn't be so, where all eight are used**"
    assert docs("reference_pages").TERM.findall(text) == []


def test_every_entry_of_the_glossary_stands_alone(docs):
    openings = re.compile(r"(?:So|Then|Its|But|This|It|Others|Each|Here|These|All their)\b")
    assert [one.sentence for one in docs("reference_pages").definitions(CHAPTERS) if openings.match(one.sentence)] == []


def test_each_definition_that_is_written_for_the_glossary_is_of_a_term_that_a_chapter_uses(docs):
    reference_pages = docs("reference_pages")
    known = {one.term.lower() for one in reference_pages.definitions(CHAPTERS)}
    for term, sentence in reference_pages.standing_alone().items():
        assert term in known and sentence.endswith("."), term


def test_a_term_leads_to_the_glossary_where_it_first_stands_in_bold(docs):
    terms = ["KV cache", "rank"]
    text = "```\n**KV cache**\n```\n\nA **KV cache** and a **`KV cache`**."
    assert docs("reference_pages").linked_to_glossary(text, terms) == (
        "```\n**KV cache**\n```\n\nA **{term}`KV cache <KV cache>`** and a **`KV cache`**.")
    assert terms == ["rank"]


def test_a_term_that_is_nowhere_in_bold_leads_to_the_glossary_but_not_from_what_is_no_text(docs):
    linked = docs("reference_pages").linked_to_glossary
    held = "# A micro-batch\n\n$$\nmicro-batch\n$$\n\n`micro-batch` and [a micro-batch](x.html)"
    assert linked(f"{held}. Two micro-batches.", ["micro-batch"]) == (
        f"{held}. Two {{term}}`micro-batches <micro-batch>`.")
    assert linked("<label>a micro-batch</label>", ["micro-batch"]) == "<label>a micro-batch</label>"


HINTS = {
    0: "process, rank, node, NIC, gloo, NCCL, world size, SPMD, batch, gradient, collective, latency, bandwidth, star, "
       "data parallelism, ring, blocking, handle, overlap, peer, deadlock, full duplex, torchrun, profiler, trace",
    3: "port, all-gather, tree, protocols",
    8: "prefill, prompt, step, query, key, value, KV cache, grouped-query attention, roofline, throughput, "
       "paged attention, table, static batching, mask, continuous batching, budget, chunked prefill, slots, TTFT, ITL, "
       "goodput, speculative decoding, copy on write, scheduler, preemption",
}


@pytest.mark.parametrize("place", HINTS)
def test_a_chapter_has_hints_for_the_terms_that_it_brings_also_where_the_book_has_no_other_chapter(docs, place):
    chapter, pages = CHAPTERS[place], docs("reference_pages")
    texts = [cell.source for cell in chapter.notebook.cells if cell.cell_type == "markdown"]
    linked = pages.linked_texts(texts, [one.term for one in pages.definitions([chapter], CHAPTERS)])
    assert ", ".join(re.findall(r"{term}`[^<`]*<(.*?)>`", "".join(linked))) == HINTS[place]


def test_before_a_term_is_defined_in_bold_the_same_word_has_no_hint(docs):
    linked = docs("reference_pages").linked_texts
    assert linked(["A table of numbers.", "The **table** of blocks."], ["table"]) == [
        "A table of numbers.", "The **{term}`table <table>`** of blocks."]


def test_a_later_chapter_has_a_hint_for_a_term_where_it_first_uses_it_unless_that_is_an_ordinary_word(docs):
    pages = docs("reference_pages")
    known, texts = pages.definitions(CHAPTERS), ["# The ring\n\n<details>A ring.</details>\n\nOne ring, two rings."]
    assert pages.linked_texts(texts, [], pages.carried(known, CHAPTERS[6], CHAPTERS)) == [
        "# The ring\n\n<details>A ring.</details>\n\nOne {term}`ring <ring>`, two rings."]
    assert not {"ring", "all-reduce"} & set(pages.carried(known, CHAPTERS[0], CHAPTERS))
    assert "all-reduce" in (last := pages.carried(known, CHAPTERS[-1], CHAPTERS)) and "table" not in last


@pytest.mark.parametrize("term", ["1F1B", "micro-batch", "ZeRO", "gradient accumulation", "warm-up", "prefill", "TTFT",
                                  "DDP", "learning rate", "bf16", "RDMA", "vocabulary"])
def test_the_glossary_has_the_words_of_the_field_that_chapters_use(docs, term):
    found = {one.term: one.sentence for one in docs("reference_pages").definitions(CHAPTERS)}
    assert f"**{term.lower()}**" in found[term].lower()


def test_each_chapter_of_the_course_defines_terms_that_the_glossary_finds(docs):
    found = docs("reference_pages").definitions(CHAPTERS)
    assert {"rank", "all-reduce", "bucket", "schedule", "kv cache"} <= {one.term.lower() for one in found}
    assert len({one.term.lower() for one in found}) == len(found) > 60


def test_the_list_of_exercises_holds_each_with_its_stub_and_hints_and_no_answer(docs):
    reference_pages, chapter_page = docs("reference_pages"), docs("chapter_page")
    book = chapter_page.Book(CHAPTERS, Path("nowhere"))
    for chapter in CHAPTERS:
        text = reference_pages.exercises_of(chapter, book)
        assert f"`work/{chapter.name}.ipynb`" in text  # where they are written
        for exercise in chapter.exercises:
            assert f"## [`{exercise.id}`](#{chapter_page.label(chapter, exercise.id)})" in text
        assert text.count("<summary>The stub</summary>") == len(chapter.exercises)
        assert text.count("<details>") >= 2 * len(chapter.exercises)


def test_a_list_of_exercises_leads_to_the_log_that_only_the_chapter_shows(docs):
    elsewhere = docs("reference_pages").elsewhere
    assert elsewhere("The log above.", "ch10-x") == "*The log: see the chapter, [above the exercise](#ch10-x).*"
    assert elsewhere("Return the size above which the ring is faster.", "ch10-x") == ""


def test_every_formula_of_the_course_can_be_typeset(docs):
    formulas, chapter_page = docs("formulas"), docs("chapter_page")
    for chapter in CHAPTERS:
        for cell in chapter.notebook.cells:
            if cell.cell_type == "markdown":
                prose = re.sub(r"`[^`\n]*`", "", chapter_page.FENCE.sub("", cell.source))
                for formula in chapter_page.MATH.findall(prose):
                    assert formulas.mathml(formula.strip("$"), formula.startswith("$$")).startswith("<math"), formula


def test_a_formula_that_cannot_be_read_is_a_sentence(docs):
    with pytest.raises(ValueError, match=r"^The formula .*frac\{a' cannot be read: .+[^.]\.$"):
        docs("formulas").mathml(r"\frac{a")


def test_the_font_of_formulas_has_every_letter_that_the_course_needs(docs):
    from fontTools.ttLib import TTFont

    known = set(TTFont(MAKERS / "look" / "STIXTwoMath.woff").getBestCmap())
    formulas, chapter_page = docs("formulas"), docs("chapter_page")
    used = "".join(formulas.mathml(formula.strip("$")) for chapter in CHAPTERS for cell in chapter.notebook.cells
                   if cell.cell_type == "markdown" for formula in chapter_page.MATH.findall(
                       re.sub(r"`[^`\n]*`", "", chapter_page.FENCE.sub("", cell.source))))
    seen = re.sub(r"<[^>]*>|&\w+;|&#\w+;|\s", "", used)
    assert {letter for letter in seen if ord(letter) not in known} == set()


def test_text_may_change_without_a_new_run_and_code_may_not(docs, small):
    executed = docs("executed")
    place = small / "build" / "book" / "executed"
    first = executed.fresh(find(NAME, small), small, place)
    path = small / "notebooks" / f"{NAME}.ipynb"
    path.write_text(path.read_text().replace("What is a sum?", "What was a sum?"))
    again = executed.kept(find(NAME, small), small, place)
    assert "What was" in again.cells[0].source
    assert [cell.get("outputs") for cell in again.cells] == [cell.get("outputs") for cell in first.cells]
    path.write_text(path.read_text().replace("size=(1, 3)", "size=(1, 2)"))
    assert executed.kept(find(NAME, small), small, place) is None


def test_a_cell_that_measures_seconds_is_alone_and_others_run_together(docs):
    room, inside, seen = docs("executed").Room(), [], []

    def run(name, alone):
        with room.held(alone):
            inside.append(name)
            time.sleep(0.02)
            seen.append((name, sorted(inside)))
            inside.remove(name)

    with ThreadPoolExecutor(4) as pool:
        for place in range(24):
            pool.submit(run, f"{'alone' if place % 6 == 5 else 'other'} {place}", place % 6 == 5)
    assert all(beside == [name] for name, beside in seen if name.startswith("alone")) and len(seen) == 24
    assert any(len(beside) > 1 for _, beside in seen)


def test_the_cells_that_measure_seconds_are_found_by_the_clock_that_they_or_what_they_call_look_at(docs):
    timed = docs("executed").timed
    found = {chapter.name[:4]: timed(solved(chapter), ROOT) for chapter in CHAPTERS}
    assert "ping_pong_times" in found["ch00"] and "race" in found["ch03"] and "measure" in found["ch10"]
    assert not found["ch01"] and sum(map(len, found.values())) < 20  # or little would run at the same time


def test_a_figure_is_drawn_once_for_a_page(docs, monkeypatch):
    from matplotlib.figure import Figure
    from matplotlib_inline.config import InlineBackend

    from course_lib.plots import canvas, slider_frames

    captions = docs("captions")
    monkeypatch.setattr(slider_frames, "drawn", slider_frames.drawn)
    for drawn in (Figure, canvas.Picture):
        monkeypatch.setattr(drawn, "_repr_html_", None)
        monkeypatch.setattr(drawn, "_repr_mimebundle_", None, raising=False)
    backend = type("Backend", (), {"figure_formats": {"png"}})()
    monkeypatch.setattr(InlineBackend, "instance", lambda: backend)
    captions.install()
    assert backend.figure_formats == set()
    assert Figure._repr_html_ is canvas.Picture._repr_html_ is captions.figure_html


def test_a_page_that_has_not_changed_is_not_written_again(docs, small):
    folder = small / "book"
    docs("book").write_book([], folder, root=small)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("ch*.html") if "slides" not in path.name}
    assert docs("book").write_book([], folder, root=small) == []
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_page_of_a_chapter_that_is_no_longer_in_the_book_goes(docs, small):
    folder = small / "book"
    docs("book").write_book([], folder, root=small)
    shutil.rmtree(small / "build" / "book" / "executed")
    docs("book").write_book(["ch98"], folder, root=small)
    assert [path.name for path in folder.glob("ch99*.html")] == []


def test_a_folder_that_holds_something_else_is_not_touched(docs, small, capsys):
    (small / "mine").mkdir()
    (small / "mine" / "thesis.txt").write_text("x")
    assert docs("book").main(["--to", str(small / "mine")]) == 2
    assert "holds something that is not a book of this course" in capsys.readouterr().err
    assert [path.name for path in (small / "mine").iterdir()] == ["thesis.txt"]


def test_without_answers_a_page_shows_stubs_only(docs, small):
    assert docs("book").write_book(["ch98"], small / "book", answers=False, root=small) == []
    text = (small / "book" / f"{NAME}.html").read_text()
    assert "get_world_size" not in text and "An answer" not in text and "NotImplementedError" in text


def test_a_cell_that_fails_is_a_sentence_which_takes_the_place_of_the_page(docs, tmp_path):
    root = course_with(tmp_path, code("boom", "1 / 0", "needs-total", "raises-exception"))
    failed = docs("book").write_book(["98"], root / "book", root=root)
    assert failed == [f"{NAME} was not written: its cell boom failed (ZeroDivisionError: division by zero)."]
    assert "its cell boom failed (ZeroDivisionError: division by zero)." in (root / "book" / f"{NAME}.html").read_text()


def test_a_check_that_fails_is_a_failure_though_it_may_raise(docs, tmp_path):
    root = course_with(tmp_path, setup=f"{SETUP}\ndef check_total(answer):\n    raise ValueError('wrong')")
    with pytest.raises(ChapterError, match="its cell check_total failed .ValueError: wrong"):
        docs("executed").executed(find(NAME, root), root)


def test_a_kernel_that_dies_is_a_sentence(docs, tmp_path):
    root = course_with(tmp_path, code("end", "import os; os._exit(3)"))
    with pytest.raises(ChapterError, match="its kernel died in the cell end"):
        docs("executed").executed(find(NAME, root), root)


def test_a_chapter_that_is_not_there_is_a_sentence(docs, tmp_path, capsys):
    assert docs("book").main(["ch77", "--to", str(tmp_path / "book")]) == 2
    assert "There is no chapter 'ch77'" in capsys.readouterr().err


def test_warnings_are_named(docs):
    loud = new_code_cell("x", id="loud", outputs=[new_output("stream", name="stderr", text="UserWarning")])
    quiet = new_code_cell("x", id="quiet", outputs=[new_output("stream", name="stdout", text="fine")])
    assert docs("executed").complaints(new_notebook(cells=[loud, quiet])) == ["loud"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_link_to_a_chapter_leads_to_one_that_exists(chapter):
    names = {f"{known.name}.ipynb" for known in CHAPTERS}
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown":
            relative = [to for to in re.findall(r"\]\(([^)\s]+)\)", cell.source) if not re.match(r"https?:|#", to)]
            assert {to.partition("#")[0] for to in relative} <= names, cell.id


# Pictures


def test_a_panel_plays_from_files_and_holds_every_frame(docs, small):
    folder = small / "book"
    docs("book").write_book(["ch98"], folder, root=small)
    text = (folder / f"{NAME}.html").read_text()
    (data,) = re.findall(r'coursePlayer\(document.getElementById\(.*?\), (\{"controls.*\})\);', text)
    drawn = json.loads(data)
    assert drawn["start"] == [1, 0] and len(drawn["frames"]) == 6
    frame = drawn["frames"]["2,1"]
    assert frame["said"] == "size 3" and frame["words"].startswith("A line of length 3")
    assert all((folder / frame["src"]).exists() for frame in drawn["frames"].values())
    assert "data:image" not in text


def test_the_message_of_a_picture_is_text_above_it_and_no_longer_in_it(docs):
    from course_lib.plots import canvas

    figures = docs("figures")
    ax = canvas.new_axes(None, 2)
    ax.set_title("All is well")
    title, words, image, dark = figures.pulled_apart(ax.figure)
    assert title == "All is well" and words.startswith("All is well") and ax.get_title() == "All is well"
    ax.set_title("")
    assert (image, dark) == figures.pulled_apart(ax.figure)[2:] and image != dark


# The workflow


def test_the_workflow_makes_the_book_with_the_readmes_command_and_only_its_last_job_may_publish():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))
    assert "workflow_dispatch" in workflow[True]  # YAML reads the key `on` as true
    make, publish = workflow["jobs"]["make"], workflow["jobs"]["publish"]
    assert workflow["permissions"] == {} and make["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"pages": "write", "id-token": "write"} and publish["needs"] == "make"
    (command,) = [step["run"] for step in make["steps"] if "run" in step]
    assert command.startswith("make book OUT=site ") and "${{" not in command
    (upload,) = [step for step in make["steps"] if "upload-pages-artifact" in step.get("uses", "")]
    assert upload["with"]["path"] == "site"
    assert any("deploy-pages" in step["uses"] for step in publish["steps"])
    assert {step["uses"].partition("@")[2] for job in (make, publish) for step in job["steps"] if "uses" in step} <= {
        "v3", "v4", "v5"}
