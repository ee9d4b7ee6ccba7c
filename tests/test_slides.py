"""make slides: one message a slide, cut from chapters that ran. tests/browser measures that nothing overflows."""

from __future__ import annotations

import base64
import importlib
import io
import re
import struct
import sys
import tomllib

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_book import MAKERS, MODULES, QUESTION, course_with

from exercises_tests.tools.chapters import ROOT, ChapterError, chapters, find, solved


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


ASK = new_markdown_cell("- A list.\n\n**Predict.** Four hands pick. How many apples?\n\nMore text.", id="ask")
FIELD = new_code_cell("guess = None", id="guess", metadata={"tags": ["prediction"]})
MEASURED = "no guess   measured 7 apples\n"


def test_the_guess_is_a_slide_of_its_own_whose_title_is_the_question(docs, root):
    guess = cut(docs, root, ASK, FIELD)[-1]
    assert (guess.kind, guess.title, guess.body) == ("guess", "How many apples?", "<p>Four hands pick.</p>\n")


def test_the_answer_stands_on_no_slide_before_its_own(docs, root):
    *before, answer = cut(docs, root, ASK, FIELD, printed(f"{MEASURED}and 2 pears\n"))
    assert (answer.kind, answer.over, answer.title) == ("answer", "How many apples?", "Measured: 7 apples")
    assert answer.body == '<pre class="lines"><span>and 2 pears</span></pre>'
    assert not any("7" in slide.title + slide.body + slide.spoken for slide in before)


def test_what_is_compared_without_a_guess_stands_under_no_question(docs, root):
    more = printed("no guess   happened deadlock\n")
    more["id"] = "more"
    slides = cut(docs, root, ASK, FIELD, printed(MEASURED), more)
    assert [slide.over for slide in slides[-2:]] == ["How many apples?", "Words"]


def test_what_leads_to_a_question_stands_on_the_slide_before_it(docs, root):
    text = "A tree bears 7. The next cell counts.\n\n**Predict.** Two trees. How many?"
    before, guess = cut(docs, root, new_markdown_cell(text, id="ask"), FIELD)[-2:]
    assert guess.body == "<p>Two trees.</p>\n" and before.body == "<p>A tree bears 7.</p>\n"


def test_a_few_words_are_not_left_alone_on_a_slide(docs, root):
    ask = new_markdown_cell("A tree bears 7.\n\n**Predict.** Two trees. How many?", id="ask")
    picture, guess = cut(docs, root, drawn(), ask, FIELD)[-2:]
    assert (picture.kind, guess.body) == ("picture", "<p>A tree bears 7.</p>\n<p>Two trees.</p>\n")


def test_an_answer_has_the_digits_that_one_says(docs, root):
    for exact, said in (("41.41 times", "41 times"), ("5.025 a second", "5.0 a second"), ("1.065 times", "1.06 times"),
                        ("1 times", "1.0 times"), ("0.665 s", "0.665 s"), ("3,231 places", "3,231 places")):
        assert cut(docs, root, printed(f"no guess   measured {exact}\n"))[-1].title == f"Measured: {said}"


def test_slides_of_one_title_say_what_each_is_about(docs, root):
    text = "It begins.\n\n- In **one** list.\n\nThen\n\n- in another."
    slides = cut(docs, root, new_markdown_cell(text, id="text"))[-2:]
    assert [re.sub("<.*?>", "", slide.title) for slide in slides] == ["Words · one", "Words · 2/2"]


def test_a_comment_for_a_notebook_stands_on_no_slide(docs, root):
    shown = printed("10\n", "import a  # not found? Run this: %pip install -e ..\nshow()")
    assert cut(docs, root, shown)[-1].code == "import a\nshow()"


def test_a_guess_says_nothing_of_cells(docs, root):
    ask = new_markdown_cell("**Predict.** Trees grow. How many? Put it in, and run both cells.", id="ask")
    assert cut(docs, root, ask, FIELD)[-1].body == "<p>Trees grow.</p>\n"


def test_a_table_after_the_question_makes_no_second_guess(docs, root):
    ask = new_markdown_cell("**Predict.** Trees grow. How many?\n\n| a |\n|---|", id="ask")
    assert [slide.kind for slide in cut(docs, root, ask, FIELD)].count("guess") == 1


def test_a_text_that_asks_for_a_guess_without_saying_so_has_its_slide_too(docs, root):
    ask = new_markdown_cell("One. Two. How many apples?\n\nMore text.", id="ask")
    guess, answer = cut(docs, root, ask, FIELD, printed("2 pears\nno guess   by the table 15.3 µs\n"))[-2:]
    assert (guess.kind, guess.title, guess.body) == ("guess", "How many apples?", "<p>One. Two.</p>\n")
    assert answer.title == "By the table: 15.3 µs"


def png(high: float = 1) -> str:
    from course_lib.plots import canvas, png_files

    return base64.b64encode(png_files.png(canvas.new_axes(None, high).figure)).decode()


def drawn(caption: str = "", high: float = 1):
    page = f"<figcaption>{caption}</figcaption>" if caption else ""
    page += f'<img alt="lines; more" src="data:image/png;base64,{png(high)}">'
    return new_code_cell("draw()", id="drawn", outputs=[new_output("display_data", data={"text/html": page})])


def test_a_pictures_own_title_is_the_title_of_its_slide(docs, root):
    assert cut(docs, root, drawn("All is well"))[-1].title == "All is well"


def test_a_picture_without_a_title_has_that_of_its_section(docs, root):
    text = new_markdown_cell("A sentence of the text. Another one?", id="text")
    slide = cut(docs, root, text, drawn())[-1]
    assert (slide.kind, slide.title) == ("picture", "Words")


def test_a_tall_picture_is_not_cut(docs, root):
    from PIL import Image

    slide = cut(docs, root, drawn(high=8))[-1]
    assert slide.body.count("<img") == 1 and slide.steps == []
    image = Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", slide.body)[1])))
    assert image.size == Image.open(io.BytesIO(base64.b64decode(png(8)))).size


def test_a_picture_brings_its_twin_on_dark_paper(docs, root):
    from course_lib.plots import canvas, png_files

    figure = canvas.new_axes(None, 1).figure
    page = canvas.as_html(png_files.png(figure), "lines", png_files.png(figure, dark=True))
    slide = cut(docs, root, new_code_cell("draw()", id="drawn", outputs=[
        new_output("display_data", data={"text/html": page})]))[-1]
    assert re.findall(r'<img alt="(.*?)" class="(.*?)"', slide.body) == [("lines", "day"), ("", "night")]


def sheet_of(texts: int):
    from course_lib.plots import canvas

    ax = canvas.sheet(6, 1, texts)
    for place in range(texts):
        ax.text(0.5, place + 0.5, "words", va="center")
    return ax.figure


def lowered(docs, figure) -> float:
    """Return how high the picture for a slide is, as a part of its width."""
    image, dark = docs("slide_pictures").for_slides(figure).values()
    assert base64.b64decode(dark)[16:24] == base64.b64decode(image)[16:24] and dark != image
    wide, high = struct.unpack(">II", base64.b64decode(image)[16:24])
    return high / wide


def test_for_a_slide_a_high_picture_is_drawn_lower(docs):
    figure = sheet_of(5)
    assert lowered(docs, figure) < 0.52 and figure.get_figheight() == 6


def test_a_picture_stays_as_high_as_its_letters_need(docs):
    assert lowered(docs, sheet_of(33)) > 0.55


def test_a_text_stays_in_its_box(docs):
    from course_lib.plots import canvas

    ax = canvas.sheet(6, 1, 6)
    canvas.box(ax, 0, 0, 1, 0.4, "white", "two\nlines")
    assert lowered(docs, ax.figure) > 0.55


def seen(image: str):
    from PIL import Image

    return Image.open(io.BytesIO(base64.b64decode(image))).convert("L")


@pytest.mark.parametrize("axis, end", [("x", 0.5), ("y", 2.5)])
def test_a_step_of_a_picture_hides_what_lies_behind_a_place_on_an_axis_and_nothing_moves(docs, axis, end):
    figure, pictures = sheet_of(5), docs("slide_pictures")
    whole, _ = pictures.images(figure)
    step, dark = pictures.built(figure, axis, end)
    assert step != whole == pictures.images(figure)[0] and seen(step).size == seen(whole).size == seen(dark).size
    inks = [sum(seen(image).histogram()[:128]) for image in (step, whole)]
    assert inks[0] < inks[1]


def test_a_picture_that_is_built_up_is_one_slide_and_its_last_step_is_the_whole_picture(docs, root):
    cell = drawn("All wait")
    cell.outputs[0].data[docs("slide_pictures").BUILD] = [[png(2), png(2)], [png(3), png(3)]]
    cell.metadata["course"] = {"build": {"at": {"x": [1, 2]}, "say": ["One waits.", "Two wait.", "All wait."]}}
    slide = cut(docs, root, cell)[-1]
    heights = [re.search(r'height="(\d+)"', part)[1] for part in (slide.body, *slide.steps)]
    assert heights == [str(seen(png(high)).size[1]) for high in (2, 3, 1)]
    assert "<li>One waits.</li>\n<li>Two wait.</li>\n<li>All wait.</li>" in slide.spoken


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_what_is_built_up_has_a_sentence_for_each_step_and_for_the_whole(docs, chapter):
    for cell in chapter.notebook.cells:
        if build := docs("executed").build(cell):
            ((axis, ends),) = build["at"].items()
            assert axis in ("x", "y") and ends == sorted(ends) and len(build["say"]) == len(ends) + 1, cell["id"]


def test_a_slide_shows_the_lower_picture(docs, root):
    cell = drawn(high=8)
    cell.outputs[0].data[docs("slide_pictures").LOWER] = png(2)
    slide = cut(docs, root, cell)[-1]
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", slide.body)[1])))
    assert image.size == Image.open(io.BytesIO(base64.b64decode(png(2)))).size


def test_a_panel_of_steps_is_one_slide_that_shows_them_in_turn(docs, root):
    from course_lib.plots.sliders import FRAMES

    frames = {str(step): {"src": f"data:image/png;base64,{png()}", "words": f"step {step}"} for step in range(3)}
    panel = new_code_cell("explore(...)", id="panel", outputs=[
        new_output("display_data", data={FRAMES: {"controls": [{}], "start": [0], "frames": frames}})])
    slide = cut(docs, root, panel)[-1]
    assert [re.search('alt="(.*?)"', part)[1] for part in (slide.body, *slide.steps)] == ["step 0", "step 1", "step 2"]


def test_a_progress_bar_leaves_nothing_on_a_slide(docs, root):
    bar = new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}, "text/plain": "0%|"})
    cell = printed("10\n")
    cell.outputs.insert(0, bar)
    assert cut(docs, root, cell)[-1].body == '<pre class="lines"><span>10</span></pre>'


def test_under_what_was_printed_stand_the_whole_sentences_that_say_what_was_seen(docs, root):
    seen = new_markdown_cell("The sum is right, because nobody waits. Why? The next cell draws it.", id="seen")
    slide = cut(docs, root, printed("10\n"), seen)[-1]
    assert slide.title == "Words" and slide.code == "show()"
    assert slide.body.endswith("</pre><p>The sum is right, because nobody waits. Why?</p>\n")
    assert "The next cell draws it." not in slide.spoken


def test_no_sentence_stands_on_two_slides(docs, root):
    for text, where in (("The sum is right. Such plans hold:", 1), ("The sum is right. It is 10.", 0)):
        seen = new_markdown_cell(f"{text}\n\n- wait;\n- go on.", id="seen")
        slides = cut(docs, root, printed("10\n"), seen)[-2:]
        assert ["The sum is right." in slide.body for slide in slides] == [where == 0, where == 1]


def test_a_wide_table_that_was_printed_loses_what_is_blank(docs):
    wide = [f"{name:40}{value:>50}" for name, value in (("a", 1), ("bcd", 20))]
    assert docs("deck").narrow(wide) == ["a     1", "bcd  20"]


def test_a_formula_keeps_its_whole_sentence(docs, root):
    text = new_markdown_cell("Ranks would wait for\n\n$$x = 48$$\n\nof the time. Then they go on.", id="text")
    slide = cut(docs, root, text)[-1]
    words = re.sub(r"<math.*?</math>", "48", slide.body, flags=re.DOTALL)
    assert re.sub(r"<[^>]*>|\s+", " ", words).split() == ["Ranks", "would", "wait", "for", "48", "of", "the", "time."]


def test_a_table_of_the_text_is_a_table_under_what_leads_to_it(docs, root):
    slide = cut(docs, root, new_markdown_cell("Who waits:\n\n| a | b |\n|---|---|\n| 1 | 2 |", id="text"))[-1]
    assert slide.title == "Words" and slide.body.startswith("<p>Who waits:</p>\n<table>")


def test_a_listing_of_the_text_keeps_its_lines(docs, root):
    slide = cut(docs, root, new_markdown_cell("A schedule:\n\n```\nF0 B0\nF1 B1\n```", id="text"))[-1]
    assert slide.title == "Words" and "<pre><code>F0 B0\nF1 B1\n</code></pre>" in slide.body


def test_two_sentences_in_bold_are_one_slide(docs, root):
    text = new_markdown_cell("**Same samples: sum activations.**\n\n**Same weights: average gradients.**", id="text")
    assert cut(docs, root, text)[-1].title == "Same samples: sum activations. Same weights: average gradients."


def test_a_sentence_in_bold_is_a_slide(docs, root):
    slide = cut(docs, root, new_markdown_cell("So learn this: **the sum goes over the fastest link.**", id="text"))[-1]
    assert (slide.kind, slide.title) == ("rule", "The sum goes over the fastest link.")
    assert "So learn this:" in slide.spoken


EXERCISE = """### Exercise: `total`

*core · 4 points · 10 min*

Return the sum, such that

- every rank has it;
- nobody waits.

| key | value |
|---|---|
| a | 1 |
"""


def exercise(docs, root):
    fold = "<details><summary>Hint</summary>\n\nsecret\n\n</details>\n\n## After\n\nIt goes on."
    stub = new_code_cell("def total(dist):\n    return 'the answer'", id="total", metadata={"tags": ["exercise"]})
    return cut(docs, root, new_markdown_cell(EXERCISE, id="text"), stub, new_markdown_cell(fold, id="hints"))


def test_an_exercise_shows_in_few_words_what_it_asks_for_and_the_whole_task_is_spoken(docs, root):
    (slide,) = [slide for slide in exercise(docs, root) if slide.kind == "exercise"]
    assert slide.title == "Exercise: <code>total</code>" and slide.exercise == "total"
    parts = ("10 min", '<pre class="signature">def total(', "The whole task stands in your notebook.")
    places = [slide.body.index(part) for part in parts]
    assert places == sorted(places) and "Return the sum" not in slide.body
    assert re.findall(r"<(ul|li|table|tbody)", slide.spoken) == ["ul", "li", "li", "table", "tbody"]


def test_an_exercise_shows_what_its_docstring_promises_and_a_small_example(docs):
    talk = docs("talk")
    assert talk.promised(f'def total(dist):\n    """Return the sum. On\n    every rank. {"Long " * 40}."""\n'
                         ) == "Return the sum. On every rank."
    assert talk.example(["It is long.", "| `a` | for example |", "On 8 ranks it might be `3`. More."]
                        ) == "On 8 ranks it might be `3`."


def test_the_notes_of_an_exercise_say_when_to_stop_and_its_first_hint(docs, root):
    (slide,) = [slide for slide in exercise(docs, root) if slide.kind == "exercise"]
    assert slide.hint == "secret" and "First hint" in slide.spoken
    core = docs("talk").first(docs("deck").Slide("exercise", "", exercise="even_to_odd"), chapters()[0])
    assert core[0].startswith("**10 minutes, then stop**") and "make catch-up CHAPTER=ch00" in core[0]


def test_a_slide_shows_the_first_paragraph_of_a_hint_and_the_speaker_has_all(docs, root):
    stub = new_code_cell("def total(dist):\n    return 1", id="total", metadata={"tags": ["exercise"]})
    hint = "<details><summary>Hint</summary>\n\nAn idea.\n\nTo see it, draw.\n\n</details>"
    text = new_markdown_cell(EXERCISE, id="text")
    (slide,) = [one for one in cut(docs, root, text, stub, new_markdown_cell(hint, id="hints"))
                if one.kind == "exercise"]
    assert slide.idea.strip() == "<p>An idea.</p>" and "To see it, draw." in slide.spoken


def test_no_slide_shows_an_answer_before_the_one_after_the_exercise(docs, root):
    *before, shown, after = exercise(docs, root)
    assert shown.kind == "debrief" and "return &#x27;the answer&#x27;" in shown.body and "secret" in shown.spoken
    assert not any("the answer" in slide.body or "secret" in slide.body for slide in before)
    assert "It goes on." in after.body


def test_a_stub_without_its_answer_has_no_slide_after_the_exercise(docs):
    deck, talk = docs("deck"), docs("talk")
    assert len(talk.debriefed([deck.Slide("exercise", "", exercise="total")])) == 1


def test_of_a_long_answer_a_slide_shows_the_lines_that_carry_the_idea_and_all_of_it_is_folded(docs):
    deck, talk = docs("deck"), docs("talk")
    long = "def fill_row():\n    \"\"\"Return it.\"\"\"\n" + "    x = 1\n" * 20 + "    piece = 0\n" + "    y = 1\n" * 20
    shown = talk.debriefed([deck.Slide("exercise", "", exercise="fill_row", answer=long)])[1]
    assert shown.body.startswith("<p>First each running answer takes one place")
    assert '<span class=key>    piece = 0</span>' in shown.body and talk.REST in shown.body
    assert shown.body.count("<span") == talk.BODY + 3  # its head, a gap, and where the rest stands
    assert "Return it." not in shown.code and shown.code.count("x = 1") == 20


def test_of_a_long_class_the_method_that_counts_is_shown_from_its_first_line(docs):
    method = ["    def b(self):", *["        y = 1"] * 4, "        key = 1", *["        z = 1"] * 9]
    lines = ["class A:", *["    x = 1"] * 12, *method]
    shown = [line for line, _ in docs("talk").around([(line, "key" in line) for line in lines])]
    assert shown[:3] == ["class A:", "    ...", "    def b(self):"] and "        key = 1" in shown


def test_a_long_line_of_an_answer_is_broken_between_its_parts_and_all_of_it_carries_the_idea(docs):
    long = f"def f(xs):\n    pair = f(xs[{'1' * 33}]), f(xs[{'2' * 33}])\n    return pair"
    lines = docs("talk").broken(long, ["pair ="])
    assert [line.strip() for line, key in lines if key] == [
        "pair = (", f"f(xs[{'1' * 33}]),", f"f(xs[{'2' * 33}]),", ")"]
    assert lines[-1] == ("    return pair", False)


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_each_core_exercise_has_its_idea_and_the_lines_that_carry_it_are_shown(docs, chapter):
    talk = docs("talk")
    told, core = tomllib.loads(talk.DEBRIEFS.read_text(encoding="utf-8")), {
        exercise.id for exercise in chapter.exercises if exercise.level == "core"}
    for cell in [cell for cell in solved(chapter).cells if cell["id"] in core]:
        keys, code = told[cell["id"]]["key"], talk.code_alone(cell.source)
        shown = [line for line, key in talk.around(talk.broken(code, keys)) if key]
        carried = [line for line, key in talk.broken(code, keys) if key]
        assert shown == carried and all(any(key in line for line in code.splitlines()) for key in keys), cell["id"]


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_on_the_short_path_of_every_deck_a_question_has_its_answer(docs, chapter, tmp_path):
    executed, slides = docs("executed"), docs("deck").as_slides
    deck = slides(chapter, executed.kept(chapter) or chapter.notebook, tmp_path)
    brief = [slide for slide in deck if slide.brief]
    asked = {slide.asked for slide in deck if slide.asked}
    alone = [slide.title for slide in brief if slide.kind == "guess" and slide.title in asked
             and slide.title not in [one.asked for one in brief]]
    assert alone == [] and {slide.asked for slide in brief if slide.asked} & {
        slide.title for slide in deck if slide.kind == "guess" and not slide.brief} == set()


def decks(docs, chapter, tmp_path):
    return docs("deck").as_slides(chapter, docs("executed").kept(chapter) or chapter.notebook, tmp_path)


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_every_deck_has_60_slides_at_most_before_those_for_which_there_may_be_no_time(docs, chapter, tmp_path):
    slides, talk = decks(docs, chapter, tmp_path), docs("talk")
    titles = [*(slide.title for slide in slides), talk.LATER]
    main = slides[:titles.index(talk.LATER)]
    assert len(main) <= talk.MOST and main[-1].kind == "summary"
    assert not any(slide.minutes or slide.brief for slide in slides[len(main):])


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_no_slide_of_a_deck_is_nearly_empty(docs, chapter, tmp_path):
    if docs("executed").kept(chapter) is None:
        pytest.skip("its pictures and answers are known after make book")
    few = [slide.title for slide in decks(docs, chapter, tmp_path)
           if slide.kind in ("said", "text", "part", "rule") and not slide.asked
           and not re.search("<(?:img|math|pre|table|li|code)", slide.body + slide.above)
           and len(re.sub("<[^>]*>", " ", slide.body).split()) < 12]
    assert few == []


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_a_guess_has_the_minute_of_its_countdown_an_answer_half_of_it_and_no_notes_end_with_a_colon(
        docs, chapter, tmp_path):
    least = docs("talk").LEAST
    for slide in decks(docs, chapter, tmp_path):
        kind = "answer" if slide.asked else slide.kind
        needed = max(0.3 * least.get(kind, 0), {"guess": 0.5, "answer": 0.25}.get(kind, 0))
        assert slide.minutes >= needed or slide.exercise, slide.title  # a talk can be shorter than its guesses
        assert not re.sub("<[^>]*>", "", slide.spoken).rstrip().endswith(":"), slide.title


def test_a_lone_sentence_in_bold_stands_on_the_slide_before_it_unless_it_answers_a_question(docs):
    deck, talk = docs("deck"), docs("talk")
    task, rule = deck.Slide("debrief", "One way", "<p>So.</p>"), deck.Slide("rule", "All wait for one.")
    (both,) = talk.kept_company([task, rule])
    assert both.body == '<p>So.</p><p class="rule">All wait for one.</p>'
    rule.over = "Who waits?"
    assert talk.kept_company([task, rule]) == [task, rule]
    picture, rule.over = deck.Slide("picture", "One", '<img alt="" width="1640" height="800">', lines=["It waits."]), ""
    assert talk.kept_company([picture, rule]) == [picture] and picture.lines == ["All wait for one."]


def test_the_short_path_has_all_of_what_is_counted_and_the_formulas_of_what_it_shows(docs):
    deck, talk = docs("deck"), docs("talk")
    slides = [deck.Slide("section", "1 · One"), deck.Slide("said", "First remedy"), deck.Slide("formula", "So much"),
              deck.Slide("said", "Also"), deck.Slide("said", "Second remedy"), deck.Slide("section", "2 · Two"),
              deck.Slide("formula", "Unseen"), deck.Slide("summary", "End")]
    slides[1].brief = True
    talk.complete(slides)
    assert [slide.title for slide in slides if slide.brief] == ["First remedy", "So much", "Second remedy"]


COINCIDENCES = {"ch10": ["24: ", "60: "]}  # numbers that a question gives, by the beginnings of what is found


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_no_slide_shows_the_answer_to_a_guess_that_comes_later(docs, chapter, tmp_path):
    allowed = tuple(COINCIDENCES.get(chapter.name[:4], ()))
    found = docs("talk").spoilers(decks(docs, chapter, tmp_path))
    assert [one for one in found if not one.startswith(allowed or "none")] == []


def test_a_number_that_is_shown_before_it_is_guessed_is_found_unless_the_guess_names_it(docs):
    deck, talk = docs("deck"), docs("talk")
    early, answer = deck.Slide("text", "It takes 41 s"), deck.Slide("answer", "Measured: 41 s", over="How long?")
    guess = deck.Slide("guess", "How long?", over=talk.YOURS)
    assert talk.spoilers([early, guess, answer]) == ["41: It takes 41 s"]
    guess.body = "<p>The other takes 41 s.</p>"
    assert talk.spoilers([early, guess, answer]) == []


SHAPES = [
    (["batch   1:   221 tokens/s in all", "batch 256: 17,659 tokens/s in all"],
     [["", "tokens/s in all"], ["batch 1", "221"], ["batch 256", "17,659"]]),
    (["EP16:  62 requests in a step of 36 ms", "EP32: 120 requests in a step of 48 ms"],
     [["", "requests", "in a step of"], ["EP16", "62", "36 ms"], ["EP32", "120", "48 ms"]]),
    (["budget   512: 100% kept at 10 a second", "budget 8,192:  74% kept at 10 a second"],
     [["", "kept at 10 a second"], ["budget 512", "100%"], ["budget 8,192", "74%"]]),
    (["        in all  by rule", "a          1.5        2", "b         11.0        3"],
     [["", "in all", "by rule"], ["a", "1.5", "2"], ["b", "11.0", "3"]]),
    (["a moment of q    64 MiB", "a moment of all 224 MiB"],
     [["a moment of q", "64 MiB"], ["a moment of all", "224 MiB"]]),
]


@pytest.mark.parametrize("lines, rows", SHAPES)
def test_printed_lines_of_one_shape_become_a_table(docs, lines, rows):
    table = re.sub(r'<td class="bar">.*?</td>', "", docs("columns").as_columns(lines))
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", table)]
    assert found == rows and '<td class=digits>' in table


@pytest.mark.parametrize("written, wide", [
    (["510 µs", "1.02 ms"], [50, 100]), (["3%", "12%"], [25, 100]), (["7.00 MB", "7.01 MB"], []),
    (["3 s", "4 MB"], []), (["1 s", "500 ms"], [100, 50]), (["2", "3 k"], [])])
def test_numbers_of_one_unit_have_bars_to_one_scale_unless_they_are_nearly_equal(docs, written, wide):
    found = [float(re.search(r"width: ([\d.]+)%", bar)[1]) for bar in docs("columns").bars(written)]
    assert found == wide


@pytest.mark.parametrize("lines", [
    ["rank 0: Timed out waiting 2000ms", "rank 1: Timed out waiting 2000ms"], ["a [1, 2]", "b [3, 4]"],
    ["rank 0 returned None", "rank 1 returned 9"], ["all wait", "it takes 3 s", "and 4 MB"]])
def test_logs_lists_and_lines_of_no_shape_stay_as_they_were_printed(docs, lines):
    assert docs("columns").as_columns(lines) == ""


def test_a_number_that_was_printed_alone_stands_in_large_letters(docs, root):
    body = cut(docs, root, printed("largest difference: 4.5e-08\n"))[-1].body
    assert body == '<p class="big">4.5 × 10<sup>−8</sup></p><p>Largest difference</p>'
    assert docs("columns").big("rank 0 waits for rank 1") == docs("columns").big("dist: [1, 2]") == ""


def test_of_wrong_guesses_three_are_rebutted_and_those_of_one_reason_together(docs):
    said = {"1": "That is the latency alone.", "2": "That is the latency.", "3": "Bytes.", "4": "Hm?", "5": "Y"}
    told = docs("talk").rebuttals(said)
    assert told == ["- Who says **1** or **2**: That is the latency alone.", "- Who says **3**: Bytes.",
                    "- Who says **4**: Hm?"]


def test_a_slides_minutes_are_those_of_its_notes_and_of_looking_at_it(docs):
    deck, talk = docs("deck"), docs("talk")
    picture = deck.Slide("picture", "", steps=["", ""], notes=["word " * 70])
    assert talk.weight(picture) == pytest.approx(0.5 + 20 / 60 + 0.3)
    assert talk.weight(deck.Slide("formula", "", notes=["word " * 70])) == pytest.approx(0.75)


def test_notes_end_with_a_whole_sentence_before_they_are_too_long_to_be_said(docs):
    deck = docs("deck")
    said = deck.Slide("said", "One", notes=["It is so. " * 20, "And it goes on. " * 10]).spoken
    assert len(re.sub("<.*?>", " ", said).split()) == 80 and said.count("And it goes on.") == 5


def test_the_notes_of_a_section_stand_at_its_own_slide(docs, root):
    both = own("It ends, and that was all.\n\n## Next\n\nIt begins anew.", "## End\n\nAll.\n---\n## Next\n\nA start.")
    end, begun = cut(docs, root, both)[-2:]
    assert end.notes == ["It ends, and that was all."] and begun.notes == ["It begins anew."]


def test_the_summary_can_end_with_its_numbers(docs, root):
    end = new_markdown_cell("## What we learned\n\n- Why a sum is one.", id="end",
                            metadata={"course": {"slide": "... **Two of ten.**"}})
    body = cut(docs, root, end)[-1].body
    assert "Why a sum is one." in body and body.endswith("<p><strong>Two of ten.</strong></p>\n")


GUESSED = new_code_cell("guess = None  # your choice: 1 own way, 2 shared", id="guess",
                        metadata={"tags": ["prediction"]})


def test_a_choice_has_its_words_on_the_slide_of_the_guess_and_in_the_answer(docs, root):
    guess, answer = cut(docs, root, ASK, GUESSED, printed("no guess   these rates fit 2\n"))[-2:]
    assert guess.choices == {"1": "own way", "2": "shared"} and answer.title == "These rates fit: shared"
    page = docs("slides").as_page(find("ch98", root), [guess])
    assert '<li value="1">own way</li><li value="2">shared</li>' in page and "Write it down, then hands up." in page


def test_two_choices_that_are_one_number_are_told_as_two(docs, root):
    field = new_code_cell("guess = None  # your suspects: 2, or 14 for 1 and 4", id="guess",
                          metadata={"tags": ["prediction"]})
    answer = cut(docs, root, ASK, field, printed("no guess   these rates fit 13\n"))[-1]
    assert answer.title == "These rates fit: 1 and 3"


def test_numbers_that_have_no_words_of_their_own_have_no_list(docs):
    options = docs("talk").options
    for told in ("your number: the suspect, 1 to 3", "your number: 1, 2, 3, 4 or 5", "your number"):
        assert options(f"guess = None  # {told}") == {}
    assert options("guess = None  # your number: 0 to 1 for a rank, 2 for the network") == {
        "0": "rank 0", "1": "rank 1", "2": "the network"}


def test_a_guess_that_needs_the_table_before_it_shows_it_once_more(docs, root):
    table = new_markdown_cell("Rates:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n**Predict.** Which is it?", id="ask")
    assert "<table>" in cut(docs, root, table, FIELD)[-1].body


def test_a_guess_says_how_to_ask_and_its_answer_what_to_reply(docs, root):
    talk, one = docs("talk"), docs("deck").Slide
    slide = one("guess", "", over=talk.YOURS, replies={"45": "Bytes alone."}, minutes=2.2)
    assert talk.first(slide, chapters()[0]) == [
        "**Write it down, then hands up.** About 2 minutes; T counts a minute for writing."]
    asked = one("guess", "How many?", over=talk.YOURS, replies={"45": "Bytes alone."}, choices={"45": "both"})
    slides = talk.ready([one("title", "T"), one("section", "1"), asked, one("answer", "9 s", over="How many?"),
                         one("summary", "End")], chapters()[0])
    assert [slide.last for slide in slides if slide.last] == [["- Who says **both**: Bytes alone."]]
    assert slides[3].last and "Bytes alone" in slides[3].spoken
    found = talk.replies(next(chapter.notebook for chapter in chapters() if chapter.name.startswith("ch03")))
    assert set(found) == {f"guess_{name}" for name in ("growth", "bytes", "norms", "different", "crossover")}
    assert all(all(words.values()) and words for words in found.values())


def test_notes_begin_with_what_to_do_and_a_few_sentences_and_the_rest_comes_below(docs, root):
    text = new_markdown_cell(f"It begins. Then it goes on. It ends. {'And so on. ' * 30}", id="text")
    said = cut(docs, root, drawn(), text)[-1].spoken
    do, rest = said.split('<div class="rest">')
    assert do.startswith("<p><strong>Let them look") and do.endswith("It ends.</p>\n") and "And so on." in rest


def test_an_answer_is_moved_to_its_guess_when_an_exercise_stands_between(docs):
    deck, talk = docs("deck"), docs("talk")
    ask, task = deck.Slide("guess", "How?", over=talk.YOURS), deck.Slide("exercise", "Task")
    picture, answer = deck.Slide("picture", "One"), deck.Slide("answer", "So", over="How?")
    assert talk.answered([ask, task, picture, answer]) == [task, ask, answer, picture]


def test_a_picture_between_a_guess_and_its_answer_has_the_question_under_it(docs):
    deck, talk = docs("deck"), docs("talk")
    picture = deck.Slide("picture", "One", '<img alt="" width="1640" height="800">')
    talk.answered([deck.Slide("guess", "How?", over=talk.YOURS), picture, deck.Slide("answer", "So", over="How?")])
    assert picture.lines == ["How?"]


def test_a_rule_ends_the_slide_before_it_where_both_have_room(docs, root):
    slides = cut(docs, root, own("Long.", "## One\n\nIt waits.\n---\n**All of them wait for one.**"))
    assert slides[-1].title == "One" and '<p class="rule">All of them wait for one.</p>' in slides[-1].body


def test_no_note_asks_the_question_of_the_next_slide_or_speaks_of_imports(docs, root):
    text = new_markdown_cell("It begins.\n\nThe next cell imports what is needed. It is so.", id="text")
    said = cut(docs, root, text, ASK, FIELD)
    assert "imports" not in "".join(slide.spoken for slide in said) and "It is so." in said[-3].spoken + said[-2].spoken
    assert docs("talk").without("It grows. How many apples?", ["Four pick. How many apples?"]) == "It grows."
    assert docs("talk").without("- Four.\n- Five.", ["How many apples?"]) == "- Four.\n- Five."


def test_a_long_output_is_folded_and_a_short_one_is_shown(docs, root):
    for lines, folded in ((10, False), (11, True)):
        body = cut(docs, root, printed("a line\n" * lines))[-1].body
        assert body.startswith('<details class="output">') == folded
    assert "<details" in cut(docs, root, printed(f"{'wide ' * 22}\n" * 3))[-1].body


def test_what_is_said_after_a_picture_is_a_line_under_it_and_needs_no_slide(docs, root):
    after = own("Long.", "## One waits\n\nFirst.\n---\n**All of them wait for one.**\n---\n"
                "## Two\n\n$$x$$\n---\n## Three\n\nLast.")
    picture, *rest = cut(docs, root, drawn(), after)[-3:]
    assert (picture.kind, picture.lines) == ("picture", ["One waits", "All of them wait for one."])
    assert [(slide.kind, slide.title) for slide in rest] == [("formula", "Two"), ("said", "Three")]
    assert "First." in picture.spoken and "Long." in picture.spoken


def test_a_picture_has_one_line_of_its_own_words_and_the_speaker_has_all(docs, root):
    picture = cut(docs, root, drawn(), own("Long.", f"... All wait. {'And so on. ' * 9}"))[-1]
    assert picture.lines == ["All wait."] and "<p>" not in picture.body and "And so on." in picture.spoken


def test_what_is_too_long_for_a_line_has_a_slide_of_its_own(docs, root):
    said = cut(docs, root, drawn(), own("Long.", f"## {'A word and ' * 17}\n\n{'First. ' * 24}"))[-1]
    assert said.kind == "said" and said.body.startswith("<p>First.")


def test_a_table_below_a_picture_has_a_slide_of_its_own(docs, root):
    picture, table = cut(docs, root, drawn("Who waits"), own("Long.", "... | a |\n|---|\n| 1 |"))[-2:]
    assert (picture.lines, table.kind) == ([], "text") and "<table>" in table.body and "Who waits" in table.title


def test_a_rule_too_long_for_a_line_is_two_where_it_has_a_colon(docs):
    cut_up, long = docs("talk").cut_up, "a sentence of so many words that both are longer than a line has room for"
    assert cut_up(f"All wait: {long}.") == ["All wait.", f"A{long[1:]}."]
    assert cut_up("It is so: yes.") == ["It is so: yes."]


def test_a_high_picture_has_no_line_and_one_that_nobody_can_read_is_named(docs, root):
    slides, talk = docs("slides"), docs("talk")
    for high, lines, named in ((talk.LOW, 1, 0), (talk.LOW + 1, 0, 0), (talk.HIGHEST + 1, 0, 1)):
        picture = docs("deck").Slide("picture", "One", f'<img alt="" width="1640" height="{high}"><p>All wait.</p>')
        (slide,) = talk.under_pictures([picture])
        assert (len(slide.lines), len(slides.too_high([slide]))) == (lines, named)


def test_a_line_that_has_no_room_under_a_picture_is_named(docs, root, tmp_path, capsys):
    chapter, long = find("ch98", root), f"All {'wait and ' * 10}wait for one."
    cells = [QUESTION, new_markdown_cell("## Words", id="words"), drawn(), own("Long.", f"... {long}")]
    docs("slides").write_slides(chapter, new_notebook(cells=cells), tmp_path, tmp_path)
    assert f"No room under a picture of {chapter.name}: {long}\n" in capsys.readouterr().err


def test_an_answer_stands_under_the_title_of_its_question(docs, root):
    answer = cut(docs, root, ASK, FIELD, printed(MEASURED))[-1]
    page = docs("slides").as_page(find("ch98", root), [answer])
    assert "<h2>How many apples?</h2>" in page and '<p class="found">7 apples</p>' in page
    assert '<p class="measured">Measured</p>' in page


def test_a_few_words_before_a_picture_stand_above_a_low_one_and_under_another_and_a_table_does_not(docs, root):
    table = own("Long.", "## Two\n\n| a |\n|---|\n| 1 |")
    table["id"] = "table"
    for high, above in ((1, True), (3, False)):
        picture, after = cut(docs, root, own("Long.", "## One\n\nFirst."), drawn("Who waits", high), table)[-2:]
        assert (picture.title, bool(picture.above), picture.lines) == ("Who waits", above, ["First."] * (not above))
        assert "One" in picture.spoken and "Long." in picture.spoken and after.kind == "text"


def test_an_author_shows_the_picture_of_a_cell_later_with_what_is_said_of_it(docs, root):
    shown, said = drawn("Who waits"), own("Grey waits.", "")
    shown.metadata["course"], said["id"] = {"slide": ""}, "said"
    later = own("Long.", "## One\n\n- a\n---\n## All of it\n\n[picture of drawn]")
    first, picture = cut(docs, root, shown, said, later)[-2:]
    assert (first.title, picture.kind, picture.title) == ("One", "picture", "All of it")
    assert picture.notes == ["Grey waits."]


def test_a_picture_without_notes_has_the_paragraph_beside_it_that_is_about_it(docs):
    deck, talk = docs("deck"), docs("talk")
    about = "The upper pears wait for seven green apples, and nobody else waits."
    after = deck.Slide("text", "Next", notes=[about, "It goes on."])
    picture = deck.Slide("picture", "Pears wait", '<img alt="Pears wait; seven green apples are upper">')
    talk.told([deck.Slide("said", "One"), picture, after])
    assert picture.notes == [about] and after.notes == ["It goes on."]


def test_a_picture_that_no_paragraph_is_about_has_the_chapters_first_words_behind_it(docs, root):
    after = own("Seven wait. All else goes on. And more.\n\n## Next\n\nIt begins.", "## Next\n\nA start.")
    assert next(slide for slide in cut(docs, root, drawn("Pears wait"), after) if slide.kind == "picture"
                ).behind == "Seven wait. All else goes on."
    deck, talk = docs("deck"), docs("talk")
    picture = deck.Slide("picture", "Pears wait", '<img alt="Pears wait; rank 0: 4 pears">', behind="Seven wait.")
    talk.told([deck.Slide("said", "One"), picture, deck.Slide("said", "Next", notes=["All else."])])
    assert picture.notes == ["Seven wait."]


def test_what_to_do_is_said_at_the_first_slide_of_a_kind_and_of_rows_only_above_tables(docs, root):
    table = own("Long.", "## Two\n\n| a |\n|---|\n| 1 |")
    listed, last = own("Long.", "- a\n- b"), drawn("Three")
    listed["id"], last["id"] = "listed", "last"
    slides = cut(docs, root, drawn("One"), listed, table, last)
    told = ["".join(slide.first) for slide in slides if slide.kind in ("picture", "text")]
    assert [words[:12] for words in told] == ["**Let them l", "", "**Read one r", ""]


def test_a_title_can_ask_until_the_last_step_of_a_picture(docs, root):
    from course_lib.plots.sliders import FRAMES

    frames = {str(step): {"src": f"data:image/png;base64,{png()}", "words": ""} for step in range(3)}
    panel = new_code_cell("explore(...)", id="panel", outputs=[
        new_output("display_data", data={FRAMES: {"controls": [{}], "start": [0], "frames": frames}})])
    slide = cut(docs, root, panel, own("Long.", "## Who waits?\n## All wait\n\n..."))[-1]
    page = docs("slides").as_page(find("ch98", root), [slide])
    assert (slide.title, slide.late) == ("Who waits?", "All wait")
    assert '<span class="late fragment" data-fragment-index="1">All wait</span>' in page


def test_a_step_of_a_picture_names_its_panels_and_keeps_what_they_found_for_the_last(docs, monkeypatch):
    pictures, figure, seen_then = docs("slide_pictures"), sheet_of(5), []
    figure.axes[0].set_title("The star: 510 µs", loc="left")
    monkeypatch.setattr(pictures, "images", lambda one: seen_then.append(one.axes[0].get_title("left")))
    pictures.built(figure, "x", 0.5)
    assert seen_then == ["The star"] and figure.axes[0].get_title("left") == "The star: 510 µs"


def test_for_a_slide_a_picture_is_drawn_as_small_as_its_letters_allow(docs):
    pictures, figure = docs("slide_pictures"), sheet_of(2)
    least = pictures.slide_size(figure, pictures.places(figure))
    pictures.canvas.box(figure.axes[0], 0, 0, 0.5, 0.3, "white", "a box of words that has no room for larger letters")
    assert least[0] < pictures.slide_size(figure, pictures.places(figure))[0] <= pictures.canvas.WIDTH


def test_a_choice_between_numbers_has_its_list(docs):
    assert docs("talk").options("guess = None  # your choice: 1, 4 or 8") == {"1": "1", "4": "4", "8": "8"}


def test_the_short_path_has_what_a_section_that_asks_prints_first(docs):
    deck, talk = docs("deck"), docs("talk")
    slides = [deck.Slide("section", "1 · One", "<p>How long?</p>"), deck.Slide("printed", "So long"),
              deck.Slide("said", "More"), deck.Slide("rule", "End")]
    talk.paired(slides)
    assert [slide.title for slide in slides if slide.brief] == ["So long", "End"]


def test_only_a_section_has_the_full_colour(docs, root):
    text = new_markdown_cell("## 1 · Whole\n\nIt begins.\n\n### A part\n\nIt goes on.\n\n### Empty", id="text")
    kinds = [(slide.kind, slide.title) for slide in cut(docs, root, text, drawn())[-3:]]
    assert kinds == [("section", "1 · Whole"), ("part", "A part"), ("picture", "Empty")]


def test_a_slide_of_what_was_learned_has_five_points_at_most_each_a_sentence(docs, root):
    points = "\n".join(f"- Point {place}. And more of it." for place in range(8))
    end = new_markdown_cell(f"## What we learned\n\nYou know:\n\n{points}", id="end")
    first, second = cut(docs, root, end)[-2:]
    assert [slide.body.count("<li>") for slide in (first, second)] == [4, 4] and first.kind == second.kind == "summary"
    assert [slide.shown.count('<li class="fragment">') for slide in (first, second)] == [4, 4]
    assert "more of it" not in first.body + second.body and "more of it" in first.spoken


def test_no_picture_is_drawn_for_slides_that_do_not_show_it(docs, monkeypatch):
    said = {"held": "", "gone": "## A\n\n[printed]", "shown": "[picture]", "later": "[picture of held]"}
    cells = [new_code_cell("x", id=name, metadata={"course": {"slide": text}}) for name, text in said.items()]
    found = docs("executed").off_slides(new_notebook(cells=[*cells, new_code_cell("x", id="cut")]))
    assert found == {"gone", "later"}
    pictures = docs("slide_pictures")
    shell = type("Shell", (), {"user_ns": {"In": ["plots.gone();"]}})()
    monkeypatch.setattr(pictures, "get_ipython", lambda: shell)
    monkeypatch.setattr(pictures, "UNSEEN", {"plots.gone();"})
    assert pictures.for_slides(sheet_of(2)) == {}


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_slides_take_the_minutes_of_the_timetable(docs, chapter, tmp_path):
    slides = docs("deck").as_slides(chapter, chapter.notebook, tmp_path)
    core = {exercise.id: exercise.minutes for exercise in chapter.exercises if exercise.level == "core"}
    assert all(slide.minutes >= core.get(slide.exercise, 0) for slide in slides)
    paths = [sum(slide.minutes for slide in slides if slide.brief or not short or slide.exercise in core)
             for short in (True, False)]
    assert paths[0] == pytest.approx(sys.modules["timetable"].whole(chapter)) and paths[0] <= paths[1]


def test_the_short_path_has_the_question_pictures_guesses_and_results(docs, root):
    slides = cut(docs, root, ASK, FIELD, printed(MEASURED), drawn(), own("Long.", "## More\n\nOf it."))
    begun = next(place for place, slide in enumerate(slides) if slide.kind == "section")
    assert all(slide.brief for slide in slides[:begun])
    assert [slide.kind for slide in slides[begun:] if slide.brief] == [
        "section", "text", "guess", "answer", "picture"]


def test_the_short_path_leaves_out_a_section_of_which_it_has_nothing_else(docs, root):
    text = new_markdown_cell("## One\n\nIt begins.\n\n- a\n\n## Two\n\nA **pear** is.\n\n## Three\n\nEnd.", id="text")
    brief = {slide.title: slide.brief for slide in cut(docs, root, text, drawn("A pear")) if slide.kind != "title"}
    assert not brief["One"] and brief["Three"] and brief["A pear"]


def test_the_short_path_has_the_first_term_that_a_section_defines_and_what_begins_a_part(docs):
    deck, talk = docs("deck"), docs("talk")
    kinds = [("section", "", ""), ("said", "", "<strong>pear</strong>"), ("said", "", "<strong>plum</strong>"),
             ("part", "First", ""), ("text", "First", "a"), ("text", "More", "b")]
    slides = talk.ready([deck.Slide(kind, title, body) for kind, title, body in kinds], chapters()[0])
    assert [slide.brief for slide in slides] == [True, True, False, True, False]


def test_the_first_slide_asks_the_chapters_question_and_each_section_has_one(docs, root):
    slides = exercise(docs, root)
    assert slides[0].kind == "title" and "What is a sum?" in slides[0].body
    assert [slide.title for slide in slides if slide.kind == "section"] == ["Words", "Words", "After"]


def test_the_summary_is_the_last_slide(docs, root):
    end = new_markdown_cell("## What we learned\n\nYou can now explain:\n\n- why a sum is a sum, and what it costs.\n\n"
                            "## Going further\n\nMore of it.", id="end")
    slide = cut(docs, root, end, drawn())[-1]
    assert (slide.kind, slide.title) == ("summary", "What we learned")
    assert "why a sum is a sum" in slide.body and "More of it" not in slide.body


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


def test_the_chapters_opening_stands_on_slides_before_its_question_is_worked_on(docs, root):
    opening = "# 98 · Sums\n\nYou pick 7 apples. Then the cart is full.\n\n**What is a sum?**\n\nYou need a cart."
    notebook = new_notebook(cells=[new_markdown_cell(opening, id="opening"), drawn(high=8)])
    slides = docs("deck").as_slides(find("ch98", root), notebook, root / "pictures")
    more = '<span class="more">· '
    assert [(slide.kind, slide.title) for slide in slides] == [
        ("title", "98 · Sums"), ("said", f"Sums {more}1/2</span>"), ("picture", f"Sums {more}2/2</span>")]
    assert slides[1].body == "<p>You pick 7 apples. Then the cart is full.</p>\n"
    assert not any("You need a cart." in slide.body for slide in slides)


def test_a_section_begins_with_its_first_sentences(docs, root):
    slides = cut(docs, root, new_markdown_cell("Tests compare sums. The next cell does it.", id="text"), drawn())
    assert (slides[-2].kind, slides[-2].body) == ("section", "<p>Tests compare sums.</p>\n")


def test_a_term_is_defined_on_a_slide_before_the_one_that_uses_it(docs, root):
    text = new_markdown_cell("It begins.\n\nThe rest is long, and stays in the notes for all who speak about it. "
                             "All grey time together, on all of the ranks and in all steps, is called the "
                             "pipeline's **bubble**.", id="text")
    said, picture = cut(docs, root, text, drawn())[-2:]
    assert (said.kind, said.title, picture.kind) == ("section", "Words", "picture")
    assert "<p>All grey time" in said.body and "<strong>bubble</strong>" in said.body
    assert "stays in the notes" in said.spoken


def test_a_short_definition_has_the_sentence_beside_it(docs):
    beside = docs("deck").beside
    assert beside("This is **it**.", "First. This is **it**. It waits. More.") == "This is **it**. It waits."
    assert beside("This is **it**.", "First. Then. This is **it**.") == "Then. This is **it**."


def test_of_two_definitions_the_first_stands_once(docs, root):
    text = "It begins.\n\nIn the **ring** everybody sends at once. The way home is the **combine**."
    assert cut(docs, root, new_markdown_cell(text, id="text"), drawn())[-2].body.count("everybody sends") == 1


def test_a_term_that_its_own_guess_defines_needs_no_slide_more(docs, root):
    text = "It begins.\n\nThe order is called **GPipe**.\n\n**Predict.** GPipe runs. How long?"
    slides = cut(docs, root, new_markdown_cell(text, id="text"), FIELD)
    assert [slide.kind for slide in slides[-2:]] == ["section", "guess"]
    assert slides[-2].body.count("<strong>GPipe</strong>") == 1


def test_few_words_share_a_slide_and_many_do_not(docs, root):
    for words, slides in ((20, 1), (40, 2)):
        deck = docs("deck").Deck(root, "A question?")
        deck.owed = [("word " * words, []), ("word " * words, [])]
        deck.pay()
        assert [slide.kind for slide in deck.slides] == ["said"] * slides


def test_a_question_that_the_next_picture_answers_is_asked_before_it(docs, root):
    text = new_markdown_cell("It begins.\n\nThree versions run. Which is which? Look at the next picture.", id="text")
    asked, picture = cut(docs, root, text, drawn())[-2:]
    assert (asked.over, asked.title, asked.body) == ("A question", "Which is which?", "<p>Three versions run.</p>\n")
    assert picture.kind == "picture"


def test_a_question_to_look_for_does_not_take_the_place_of_the_guess(docs, root):
    more = new_markdown_cell("Who waits?", id="more")
    assert cut(docs, root, ASK, FIELD, more, drawn(), printed(MEASURED))[-1].over == "How many apples?"


def test_what_points_to_the_next_picture_is_spoken_there(docs, root):
    text = new_markdown_cell("It begins.\n\nThe sum is right. The next picture shows why.", id="text")
    before, picture = cut(docs, root, text, drawn())[-2:]
    assert "The sum is right." in before.spoken and "shows why" not in before.spoken
    assert "The next picture shows why." in picture.spoken


def test_a_sentence_in_bold_has_what_it_points_to(docs, root):
    text = new_markdown_cell("It begins.\n\nA message takes 10 µs. **Pieces this short hardly hide it.**", id="text")
    assert cut(docs, root, text)[-1].body == "<p>A message takes 10\N{NO-BREAK SPACE}µs.</p>\n"


def test_notes_do_not_tell_to_move_a_slider(docs, root):
    text = new_markdown_cell("It begins.\n\nA tree bears 7. Move the slider and see. It grows.", id="text")
    spoken = cut(docs, root, text)[-1].spoken
    assert "It grows." in spoken and "slider" not in spoken


def test_a_number_stays_with_its_unit(docs):
    assert "6\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}85\N{NO-BREAK SPACE}µs" in docs("deck").as_html("It is 6 × 85 µs.")


def own(text: str, slide: str):
    return new_markdown_cell(text, id="own", metadata={"course": {"slide": slide}})


def test_what_an_author_wrote_stands_on_the_slides_and_the_text_is_spoken(docs, root):
    text = "A **total** is the sum. It is long."
    said, listed = cut(docs, root, own(text, "In short: *sum*.\n---\n## Who\n\n- all"))[-2:]
    assert (said.kind, said.title, said.body) == ("said", "Words", "<p>In short: <em>sum</em>.</p>\n")
    assert (listed.kind, listed.title) == ("text", "Who") and "<li>all</li>" in listed.body
    assert "It is long." in said.spoken and listed.notes == []


def test_an_empty_slide_leaves_the_text_to_the_notes(docs, root):
    last = cut(docs, root, own("**A sentence in bold, all of it.** More.", ""))[-1]
    assert (last.kind, last.body) == ("section", "") and "More." in last.spoken


def test_what_begins_with_dots_stands_below_what_the_slide_before_shows(docs, root):
    slides = cut(docs, root, printed("10\n"), own("## Next\n\nIt goes on.", "... Four ranks."))
    assert (slides[-1].title, slides[-1].body) == ("Next", "<p>Four ranks.</p>\n")
    assert cut(docs, root, printed("10\n"), own("Long.", "... Ten."))[-1].body.endswith("</pre><p>Ten.</p>\n")


def test_a_heading_of_the_cell_stands_where_the_author_puts_it(docs, root):
    said, section = cut(docs, root, own("It ends.\n\n## Next\n\nMore.", "An end.\n---\n## Next\n\nA start."))[-2:]
    assert (said.title, said.body) == ("Words", "<p>An end.</p>\n")
    assert (section.kind, section.title, section.body) == ("section", "Next", "<p>A start.</p>\n")


def test_an_author_asks_the_chapters_question_in_fewer_words(docs, root):
    title = cut(docs, root, own("# 3 · Sums\n\nLong.", "# 3 · Sums\n\n**What is it?**\n\nA sum."))[-1]
    assert (title.kind, title.body) == ("title", '<p class="question">What is it?</p><p>A sum.</p>\n')


def test_an_author_words_a_guess_and_its_answer_stands_under_it(docs, root):
    guess, answer = cut(docs, root, own(ASK.source, "**Predict.** Four pick. How many?"), FIELD, printed(MEASURED))[-2:]
    assert (guess.kind, guess.title, guess.body) == ("guess", "How many?", "<p>Four pick.</p>\n")
    assert answer.over == "How many?"


def test_a_guess_that_the_author_leaves_alone_is_cut_from_the_text(docs, root):
    guess = cut(docs, root, own(ASK.source, "Apples grow."), FIELD)[-1]
    assert (guess.kind, guess.title) == ("guess", "How many apples?")


def test_what_answers_a_question_stands_below_it(docs, root):
    text = new_markdown_cell("It begins.\n\nThree versions run. Which is which?", id="text")
    assert (cut(docs, root, text, drawn("All differ"))[-1].over) == "Which is which?"
    nameless = cut(docs, root, text, printed("10\n"))[-1]
    assert (nameless.over, nameless.title) == ("The answer", "Which is which?")


def test_a_later_section_answers_no_question(docs, root):
    asked = own("Long.", "## Which is which?\n\nThree run.")
    assert cut(docs, root, asked, new_markdown_cell("## Next", id="next"), drawn("All differ"))[-1].over == ""


def test_an_author_says_in_a_title_what_was_seen(docs, root):
    asked = own("Long.", "## Which is which?\n\nThree run.")
    said = own("Long.", "## Ten is\n\n... Because of **ten**.")
    said["id"] = "said"
    slide = cut(docs, root, asked, printed("10\n"), said)[-1]
    assert (slide.over, slide.title) == ("Which is which?", "Ten is")
    assert slide.body.endswith("</pre><p>Because of <strong>ten</strong>.</p>\n")


@pytest.mark.parametrize("said", [
    new_markdown_cell("Because hands pick.", id="said"), own("Because hands pick.", "## Hands\n\nMany."),
    own("Long.", "... Because hands pick.\n---\nMany.")], ids=["text", "text beside slides", "slide"])
def test_an_answer_has_its_reason_although_a_picture_stands_between(docs, root, said):
    slides = cut(docs, root, ASK, FIELD, printed(MEASURED), drawn("Hands"), said)
    (answer,) = [slide for slide in slides if slide.kind == "answer"]
    assert answer.body == "<p>Because hands pick.</p>\n"


def test_an_output_can_have_no_slide(docs, root):
    shown = printed("10\n")
    shown.metadata["course"] = {"slide": ""}
    assert cut(docs, root, shown)[-1].kind == "section"


def test_an_author_keeps_parts_of_an_output_and_writes_between_them(docs, root):
    shown = printed(MEASURED)
    shown.outputs += drawn("All is well").outputs
    shown.metadata["course"] = {"slide": "[printed]\n---\n... They fell.\n---\n[picture]"}
    answer, picture = cut(docs, root, ASK, FIELD, shown)[-2:]
    assert (answer.title, answer.body, answer.code) == ("Measured: 7 apples", "<p>They fell.</p>\n", shown.source)
    assert (picture.kind, picture.title) == ("picture", "All is well")
    shown.metadata["course"] = {"slide": "## Seven\n\n[printed]\n---\n## All of it\n[picture]"}
    kinds = [(slide.kind, slide.title, slide.over) for slide in cut(docs, root, ASK, FIELD, shown)[-2:]]
    assert kinds == [("answer", "Seven", "How many apples?"), ("picture", "All of it", "")]


def test_an_exercise_keeps_its_slide_whatever_an_author_wrote_for_its_cell(docs, root):
    stub = new_code_cell("def total(dist):\n    ...", id="total", metadata={"tags": ["exercise"]})
    said, task, _ = cut(docs, root, own(f"A long story.\n\n{EXERCISE}", "A story."), stub)[-3:]
    assert said.body == "<p>A story.</p>\n" and "A long story." in said.spoken
    assert task.title == "Exercise: <code>total</code>" and "def total(" in task.body
    assert task.body == cut(docs, root, new_markdown_cell(EXERCISE, id="text"), stub)[-2].body


def test_what_follows_an_exercise_does_not_stand_on_its_slide(docs, root):
    stub = new_code_cell("def total(dist):\n    ...", id="total", metadata={"tags": ["exercise"]})
    task, after = cut(docs, root, new_markdown_cell(EXERCISE, id="text"), stub, own("Long.", "... It was B."))[-2:]
    assert "It was B." not in task.body and after.body == "<p>It was B.</p>\n"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_what_authors_wrote_fits_its_slides(docs, chapter):
    deck = docs("deck")
    for cell in chapter.notebook.cells:
        for part in deck.written(deck.authored(cell) or ""):
            shown, told = deck.OWN.sub("", part), " ".join(deck.OWN.findall(part))
            assert len(shown) <= 420 and shown.count("\n") <= 14, f"too long for a slide, cell {cell['id']}: {part}"
            assert len(told.split()) <= 80, f"too long to be said, cell {cell['id']}: {told}"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_a_title_fits_in_two_lines(docs, chapter, tmp_path):
    for slide in docs("deck").as_slides(chapter, chapter.notebook, tmp_path):
        assert sys.modules["talk"].letters(slide.head) <= 104, slide.head


SKETCH = """from kit import sheet, words


def said():
    \"\"\"A word.\"\"\"
    ax = sheet(1, 1)
    words(ax, 0, 0.5, "WORD")
    return ax.figure
"""


def test_a_picture_that_only_slides_have_is_drawn_anew_when_its_sketch_has_changed(docs, tmp_path, monkeypatch):
    drawn = docs("drawn")
    monkeypatch.setattr(drawn, "SKETCHES", tmp_path)
    monkeypatch.setattr(drawn, "KEPT", tmp_path / "kept")
    seen = []
    for word in ("one", "one", "three"):
        (tmp_path / "ch98.py").write_text(SKETCH.replace("WORD", word), encoding="utf-8")
        seen.append(drawn.drawings("ch98", "said"))
    assert [words for (((words, _, _),),) in seen] == ["one", "one", "three"] and seen[0] == seen[1] != seen[2]
    assert len(list((tmp_path / "kept").iterdir())) == 1


def sketched(docs, root, monkeypatch, text, *steps):
    """Return the last slide of an author's text, for which pictures of so many steps and frames are drawn."""
    frames = [[(f"step {step}, frame {frame}", png(), png()) for frame in range(many)]
              for step, many in enumerate(steps)]
    monkeypatch.setattr(docs("deck"), "drawings", lambda chapter, name: frames)
    return cut(docs, root, own("A long text.", text))[-1]


def test_a_picture_of_an_authors_own_stands_beside_the_words_or_alone_under_a_title(docs, root, monkeypatch):
    beside = sketched(docs, root, monkeypatch, "## Rank 0 waits\n\nIt has one port.\n\n[drawn port]", 1)
    assert (beside.kind, beside.title, len(beside.beside)) == ("said", "Rank 0 waits", 1) and "port." in beside.body
    alone = sketched(docs, root, monkeypatch, "## Who waits?\n\n## Rank 0 waits\n\n[drawn port]", 1, 1)
    assert (alone.kind, alone.title, alone.late, len(alone.steps)) == ("picture", "Who waits?", "Rank 0 waits", 1)


def test_a_step_of_several_frames_is_played(docs, root, monkeypatch):
    slide = sketched(docs, root, monkeypatch, "## It moves\n\n[drawn port]", 1, 3)
    assert slide.body.count("frame") == 1 and slide.steps[0].count('<span class="frame">') == 3


def test_paragraphs_come_with_the_steps_beside_them_if_there_are_as_many(docs, root, monkeypatch):
    for steps, late in ((2, 1), (3, 0)):
        slide = sketched(docs, root, monkeypatch, "## So\n\nFirst.\n\nThen.\n\n[drawn port]", *[1] * steps)
        assert slide.body.count('<p class="fragment"') == late


def test_an_author_says_what_is_spoken_and_what_the_short_path_leaves_out(docs, root):
    said = "## One\n\n- a\n\n> Say this.\n> And this.\n---\n## Two\n\n- b\n\n[long]"
    slides = cut(docs, root, own("A long text.", said))
    one, two = slides[-2:]
    assert "Say this. And this." in one.spoken and "A long text." not in one.spoken and "Say" not in one.body
    assert one.brief and not two.brief and "long" not in two.body


def test_beside_a_picture_an_answer_has_no_printed_lines(docs, root, monkeypatch):
    monkeypatch.setattr(docs("deck"), "drawings", lambda chapter, name: [[("drawn", png(), png())]])
    said = own("So.", "... For this.\n\n[drawn port]")
    for more in ("one  1 s\ntwo  3 s", "one: a 1, b 3 s; two: a 1, b 3 s"):
        slide = cut(docs, root, ASK, FIELD, printed(f"{MEASURED}\n{more}"), said)[-1]
        assert slide.beside and "3 s" not in slide.body and "For this." in slide.body


def test_a_picture_that_nobody_has_drawn_is_named_and_each_that_is_drawn_is_shown(docs, tmp_path, monkeypatch):
    drawn = docs("drawn")
    for path in drawn.SKETCHES.glob("*.py"):
        asked = set(re.findall(r"\[drawn (\w+)\]", (ROOT / "notebooks" / f"{path.stem}.ipynb").read_text()))
        pictures = re.findall(r"^(?:@.*\ndef|def(?= \w+\(\))) ([a-z]\w*)", path.read_text(), re.MULTILINE)
        assert asked == set(pictures), path.stem
    monkeypatch.setattr(drawn, "KEPT", tmp_path)
    with pytest.raises(ChapterError, match=r"ch98 asks for \[drawn port\], and sketches/ch98.py has no such function"):
        drawn.drawings("ch98", "port")
