"""make slides: one message a slide, cut from chapters that ran. tests/browser measures that nothing overflows."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_book import MAKERS, MODULES, QUESTION, course_with

from exercises_tests.tools.chapters import find


@pytest.fixture(autouse=True)
def docs(monkeypatch):
    monkeypatch.syspath_prepend(str(MAKERS))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def printed(text: str, source: str = "show()"):
    return new_code_cell(source, id="printed", outputs=[new_output("stream", name="stdout", text=text)])


def cut(docs, root, *cells):
    """Return the slides of these cells, after a chapter's first."""
    words = new_markdown_cell("## Words", id="words")
    return docs("deck").as_slides(find("ch98", root), new_notebook(cells=[QUESTION, words, *cells]), root / "pictures")


@pytest.fixture
def root(tmp_path):
    return course_with(tmp_path)


def test_the_guess_is_a_slide_of_its_own_before_the_answer_whose_title_is_the_number(docs, root):
    ask = new_markdown_cell("Some text.\n\n**Predict.** How many apples?\n\nMore text.", id="ask")
    field = new_code_cell("guess = None", id="guess", metadata={"tags": ["prediction"]})
    slides = cut(docs, root, ask, field, printed("no guess   measured 7 apples\nand 2 pears\n"))
    guess, answer = slides[-2:]
    assert (guess.title, guess.body, guess.over) == ("How many apples?", "<p>Some text.</p>", "Words · Your guess")
    assert "Some text." in guess.spoken
    assert (answer.title, answer.body) == ("Measured: 7 apples", "<pre><span>and 2 pears</span></pre>")


def test_a_text_that_asks_for_a_guess_without_saying_so_has_its_slide_too(docs, root):
    ask = new_markdown_cell("One. Two. Three. How many apples?\n\n| a |\n|---|", id="ask")
    field = new_code_cell("guess = None", id="guess", metadata={"tags": ["prediction"]})
    guess, answer = cut(docs, root, ask, field, printed("2 pears\nno guess   by the table 15.3 µs\n"))[-2:]
    assert (guess.kind, guess.title, guess.body) == ("guess", "How many apples?", "<p>Two. Three.</p>")
    assert (answer.title, answer.body) == ("By the table: 15.3 µs", "<pre><span>2 pears</span></pre>")


def test_a_panel_of_steps_is_one_slide_that_shows_them_in_turn_under_one_question(docs, root):
    import base64

    from course_lib.plots import canvas
    from course_lib.plots.sliders import FRAMES

    png = base64.b64encode(canvas.png(canvas.new_axes(None, 1).figure)).decode()
    frames = {str(step): {"src": f"data:image/png;base64,{png}", "words": f"step {step}"} for step in range(3)}
    panel = new_code_cell("explore(...)", id="panel", outputs=[
        new_output("display_data", data={FRAMES: {"controls": [{}], "start": [0], "frames": frames}})])
    slide = cut(docs, root, new_markdown_cell("Who sends what to whom?", id="text"), panel)[-1]
    assert slide.title == "Who sends what to whom?"
    assert [re.search('alt="(.*?)"', part)[1] for part in (slide.body, *slide.parts)] == ["step 0", "step 1", "step 2"]


def test_a_progress_bar_leaves_nothing_on_a_slide(docs, root):
    bar = new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}, "text/plain": "0%|"})
    cell = printed("10\n")
    cell.outputs.insert(0, bar)
    seen = new_markdown_cell("The sum is right on every rank.", id="seen")
    assert cut(docs, root, cell, seen)[-1].body == "<pre><span>10</span></pre>"


def test_what_was_seen_is_the_title_and_the_text_is_spoken(docs, root):
    seen = new_markdown_cell("The sum is right on every rank. Why is that so?", id="seen")
    slide = cut(docs, root, printed("10\n"), seen)[-1]
    assert slide.title == "The sum is right on every rank" and "Why is that so?" in slide.spoken
    assert slide.over == "Words" and slide.code == "show()"


def test_what_was_printed_goes_into_the_notes_where_no_sentence_says_what_it_means(docs, root):
    slides = cut(docs, root, printed("10\n"), new_markdown_cell("The next cell draws it.", id="next"))
    assert [slide.kind for slide in slides] == ["title"]
    assert "<span>10</span>" in slides[0].spoken and "The next cell draws it." in slides[0].spoken


def test_a_title_is_a_whole_sentence_of_the_text_or_its_bold_one(docs):
    deck = docs("deck")
    assert deck.message("For 4 ranks that makes") == deck.message("In the table above it is 4.") == ""
    assert deck.message("All ranks hold the sum, because nobody waits. Why?") == (
        "All ranks hold the sum, because nobody waits")
    assert deck.told(["**Every rank sends each chunk once.** Then they wait.", "| a table |"]) == (
        "Every rank sends each chunk once")
    assert deck.told(["Nobody waits for rank 0. It is"]) == "Nobody waits for rank 0"


def drawn(high: float = 1, caption: str = "All is well"):
    import base64

    from course_lib.plots import canvas

    ax = canvas.new_axes(None, high)
    ax.axis("off")
    ax.axhspan(0.1, 0.3)
    ax.axhspan(0.7, 0.9)
    png = base64.b64encode(canvas.png(ax.figure)).decode()
    page = f'<figcaption>{caption}</figcaption><img alt="lines; more" src="data:image/png;base64,{png}">'
    return new_code_cell("draw()", id="drawn", outputs=[new_output("display_data", data={"text/html": page})])


def test_a_number_alone_comes_on_the_slide_of_its_guess_and_has_none_of_its_own(docs, root):
    ask = new_markdown_cell("**Predict.** How many apples?", id="ask")
    field = new_code_cell("guess = None", id="guess", metadata={"tags": ["prediction"]})
    slides = cut(docs, root, ask, field, printed("no guess   measured 7 apples\n"), drawn())
    assert [(slide.title, slide.answer) for slide in slides[-2:]] == [
        ("How many apples?", "Measured: 7 apples"), ("All is well", "")]
    page = docs("slides").as_page(find("ch98", root), slides)
    assert '<p class="answer fragment">Measured: 7 apples</p>' in page


def test_a_tall_picture_is_shown_whole_and_then_in_halves(docs, root):
    assert cut(docs, root, drawn(2))[-1].parts == []
    assert len(cut(docs, root, drawn(8))[-1].parts) == 2


def test_a_picture_without_a_message_takes_the_first_words_that_describe_it(docs, root):
    cell = drawn()
    cell.outputs[0].data["text/html"] = cell.outputs[0].data["text/html"].replace("lines;", "Two lines of a figure;")
    cell.outputs[0].data["text/html"] = cell.outputs[0].data["text/html"].partition("</figcaption>")[2]
    assert cut(docs, root, cell)[-1].title == "Two lines of a figure"


def test_what_follows_the_summary_stays_in_the_book(docs, root):
    end = new_markdown_cell("## What we learned\n\nYou can now explain:\n\n- why a sum is a sum, and what it costs.\n\n"
                            "## Going further\n\nMore of it.", id="end")
    slides = cut(docs, root, end, drawn())
    assert [slide.kind for slide in slides] == ["title", "list"] and "why a sum is a sum" in slides[-1].body


def test_long_printed_text_goes_on_and_a_wide_table_loses_what_is_blank(docs):
    fitting = docs("fitting")
    size, parts = fitting.pages([f"line {number}" for number in range(30)])
    assert size == 28 and len(parts) == 3 and all(part.count("\n") < 12 for part in parts)
    assert fitting.pages(["short"])[0] == 44
    wide = [f"{name:40}{value:>40}" for name, value in (("a", 1), ("bcd", 20))]
    assert fitting.narrow(wide) == ["a    1", "bcd 20"]


def test_hints_imports_and_checks_are_left_out_and_an_exercise_shows_its_first_line(docs, root):
    chapter = find("ch98", root)
    text = new_markdown_cell("### Exercise: `total`\n\n*core · 4 points*\n\nYou add up.\n\n| a | b |\n|---|---|",
                             id="text")
    fold = "<details><summary>Hint</summary>\n\nsecret\n\n</details>\n\n## After\n\nIt goes on."
    hints = new_markdown_cell(fold, id="hints")
    stub = new_code_cell("def total(dist):\n    return 'the answer'", id="total", metadata={"tags": ["exercise"]})
    slides = docs("deck").as_slides(chapter, new_notebook(cells=[QUESTION, text, stub, hints]), root)
    page = docs("slides").as_page(chapter, slides).partition("<body>")[2].partition("<script>")[0]
    (exercise,) = [slide for slide in slides if slide.kind == "exercise"]
    assert "core · 4 points" in exercise.body and "You add up." in exercise.body and "<pre" in exercise.body
    assert "the answer" not in page and "secret" not in page and "It goes on." in page
    assert "What is a sum?" in slides[0].body and "A <strong>total</strong>" in slides[0].spoken


def test_slides_are_one_file_that_loads_nothing(docs, root):
    chapter = find("ch98", root)
    text = docs("slides").as_page(chapter, cut(docs, root, printed("10\n")))
    assert not re.search(r'<link|(?:src|href)="(?:https?:)?//', text.replace(" ", " "))
    assert "Reveal.initialize" in text and "What is a sum?" in text and 'class="notes"' in text


@pytest.mark.parametrize("command", ["book", "slides"])
def test_without_its_packages_a_command_names_what_brings_them(docs, monkeypatch, capsys, tmp_path, command):
    making, packages = docs(command), docs("packages")
    monkeypatch.setattr(packages, "missing", lambda: ["furo"])
    assert making.main(["ch03", "--to", str(tmp_path / "book")]) == 2
    said = capsys.readouterr().err
    assert said == ("Not installed: furo. What makes the book comes with: "
                    'python -m pip install -c constraints.txt -e ".[book]"\n')
    assert not (tmp_path / "book").exists()
