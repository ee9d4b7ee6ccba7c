"""A chapter just opened in JupyterLab: what its cells are for, what waits for a guess, and how it fits its window."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from opened import CURRENT, Opened

from exercises_tests.tools.copies import write

CHAPTER = "ch03_ring_all_reduce"
MARKS = "cell => [getComputedStyle(cell, '::before').content, getComputedStyle(cell).getPropertyValue('--course-kind')]"
COMMENT = """() => {
    const all = [...document.querySelectorAll(".cm-line span")].filter(one => one.textContent.startsWith("# "));
    return [all[0], all[0].closest(".jp-InputArea-editor")].map((one, place) =>
        getComputedStyle(one)[place ? "backgroundColor" : "color"].match(/[0-9.]+/g).slice(0, 3).map(Number));
}"""


@pytest.fixture
def opened(page, lab):
    """A chapter as `make lab` has copied it, just opened."""
    with closing(Opened(page, lab, f"{CHAPTER}.ipynb")) as notebook:
        page.locator("[data-course-kind=guess]").first.wait_for(state="attached")
        yield notebook


@pytest.fixture
def guess(page, lab, course):
    """A guess, the cell that compares it, and two texts that tell its answer, of which the last begins a section."""
    made = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_code_cell("guess_six = None  # your number", id="guess_six", metadata={"tags": ["prediction"]}),
        nbformat.v4.new_code_cell("from course_lib import compare\n\ncompare(guess_six, 6, 's')", id="six"),
        nbformat.v4.new_markdown_cell("Why six?", id="why"), nbformat.v4.new_code_cell("2 * 3", id="product"),
        nbformat.v4.new_markdown_cell("Because.\n\n## 2 · On\n\nNow.", id="because")])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    write(course / "work" / "waits.ipynb", made)
    with closing(Opened(page, lab, "waits.ipynb")) as notebook:
        page.locator("[data-course-waits]").nth(1).wait_for()
        yield notebook


def text(page, words: str):
    return page.locator(".jp-MarkdownOutput > *", has_text=words)


def test_a_guess_an_exercise_and_a_check_say_what_they_are(opened):
    seen = {name: opened.find(name).evaluate(MARKS) for name in ("guess_growth", "ring_all_reduce",
                                                                "check_ring_all_reduce", "summed")}
    words = {name: said.strip('"') for name, (said, _) in seen.items()}
    assert words.pop("summed") == "none"
    assert words.pop("guess_growth") == "your guess" and words.pop("check_ring_all_reduce") == "check"
    assert re.fullmatch(r"exercise · core · \d points", words["ring_all_reduce"])
    assert len({colour for _, colour in seen.values()}) == 4


def test_a_chapter_that_was_only_opened_has_nothing_to_save(opened):
    opened.page.wait_for_timeout(1_000)
    assert opened.page.evaluate(f"{CURRENT}.context.model.dirty") is False


def test_a_text_that_tells_the_answer_waits_until_the_guess_has_run(guess, page):
    assert [text(page, words).is_visible() for words in ("Why six?", "Because", "On", "Now")] == [0, 0, 1, 1]
    guess.type_into("guess_six", "guess_six = 5")
    guess.run("guess_six")
    assert not text(page, "Why six?").is_visible()
    guess.run("six")
    text(page, "Why six?").wait_for()
    assert "exact" not in guess.shown("six") and not page.locator(".course-first:visible").count()


@pytest.mark.parametrize(("source", "said", "where"), [("None", "Guess first", 0), ('"six"', "Show the answer", 1)],
                         ids=["a click at the answer", "a click at the text"])
def test_without_a_guess_that_can_be_read_the_answer_and_its_text_wait_for_one_or_a_click(
        guess, page, source, said, where):
    guess.type_into("guess_six", f"guess_six = {source}")
    guess.run("guess_six")
    guess.run("six")
    asked = page.locator(".course-first:visible")
    asked.nth(1).wait_for()  # at the answer, whose card is also that of the text right below, and at the second text
    assert asked.count() == 2
    assert said in asked.first.inner_text() and "waits for your guess above" in asked.nth(1).inner_text()
    assert "measured" not in guess.shown("six") and not text(page, "Why six?").is_visible()
    asked.nth(where).get_by_role("button", name="Show the answer without a guess").click()
    text(page, "Because").wait_for()
    page.locator(".jp-OutputArea-output", has_text="measured").wait_for()
    assert text(page, "Why six?").is_visible() and asked.count() == 0


def test_a_text_below_a_later_output_does_not_wait_because_it_explains_what_is_seen(guess, page):
    guess.run_all()
    text(page, "Because").wait_for()
    assert "6" in guess.shown("product") and not text(page, "Why six?").is_visible()


def test_it_waits_on_while_the_cell_that_compares_ends_in_an_error(guess, page):
    guess.type_into("six", "from course_lib import compare\n\ncompare(guess_six, 6, 's')\n1 / 0")
    guess.type_into("guess_six", "guess_six = 5")
    guess.run("guess_six")
    guess.run("six")
    assert "ZeroDivisionError" in guess.shown("six") and not text(page, "Why six?").is_visible()


def test_what_was_seen_once_stays_in_sight_where_its_cell_fails_later_until_the_guess_is_another_one(guess, page):
    guess.type_into("guess_six", "guess_six = 5")
    guess.run("guess_six")
    guess.run("six")
    text(page, "Why six?").wait_for()
    guess.type_into("six", "compare(guess_six, 6, 's')\n1 / 0")
    guess.run("six")
    assert "ZeroDivisionError" in guess.shown("six") and text(page, "Why six?").is_visible()
    guess.type_into("guess_six", "guess_six = 4")
    guess.run("guess_six")
    text(page, "Why six?").wait_for(state="hidden")


def test_the_card_stands_in_the_place_of_what_waits_above_the_rest_of_its_cell(guess, page):
    asks, rest = page.locator(".course-first:visible", has_text="waits").last, text(page, "Now")
    assert asks.bounding_box()["y"] < rest.bounding_box()["y"]


def test_it_waits_on_while_the_guess_cannot_be_read(guess, page):
    guess.type_into("guess_six", 'guess_six = "six"')
    guess.run("guess_six")
    guess.run("six")
    assert "'six' is a word: write 6" in guess.shown("six") and not text(page, "Why six?").is_visible()
    guess.type_into("guess_six", "guess_six = 6")
    guess.run("guess_six")
    guess.run("six")
    text(page, "Why six?").wait_for()


def test_a_guess_that_was_run_as_none_is_told_so_at_once_below_its_own_cell(guess, page):
    guess.run("guess_six")
    card = guess.find("guess_six").locator(".course-first")
    assert "no guess yet: write yours in the place of None" in card.inner_text() and card.locator("button").count() == 0
    guess.run("six")
    card.wait_for(state="detached")
    assert page.locator(".course-first:visible").count() == 2  # at the answer, and at the text below the next output


def test_one_click_shows_all_texts_that_wait_for_the_same_guess(guess, page):
    page.get_by_role("button", name="Show the answer without a guess").first.click()
    text(page, "Why six?").wait_for()
    assert text(page, "Because").is_visible()


@pytest.mark.parametrize(("theme", "paper"), [("Light", 255), ("Dark", 17)])
def test_the_letters_of_an_error_stand_out_from_its_ground(guess, theme, paper):
    guess.theme(f"JupyterLab {theme}")
    guess.type_into("product", "if True\n    2")
    guess.run("product")
    colours = guess.find("product").locator("[data-mime-type$=stderr]").evaluate("""box => {
        const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
        const letters = [...box.querySelectorAll("span[class^=ansi]")].map(one => numbers(getComputedStyle(one).color));
        return [letters, [...numbers(getComputedStyle(box).backgroundColor), 1].slice(0, 4)];
    }""")
    letters, (*ground, share) = colours
    below = [share * part + (1 - share) * paper for part in ground]
    shades = [sorted((luminance(colour), luminance(below))) for colour in letters]
    assert len(shades) >= 3 and min((high + 0.05) / (low + 0.05) for low, high in shades) > 6


def test_folded_code_says_how_to_run_it_and_runs(opened):
    opened.run("imports")
    cell = opened.find("false_ring")
    assert not cell.locator(".cm-content").is_visible()
    hint = cell.locator(".jp-Placeholder-contentContainer").evaluate("box => getComputedStyle(box, '::after').content")
    assert "Shift+Enter runs it" in hint
    opened.start("false_ring")  # what it needs has not run, and it says so
    opened.wait(["false_ring"])
    assert not cell.locator(".cm-content").is_visible()


def test_a_line_of_an_error_that_is_too_long_goes_on_further_in(guess, page):
    page.set_viewport_size({"width": 600, "height": 900})
    guess.run("six")  # imports the course
    guess.type_into("product", f"from course_lib import Cluster; Cluster(bandwith=1e9)  # {'long ' * 30}")
    guess.run("product")
    line = guess.find("product").locator(".course-line").nth(1)
    assert "line 1 of cell" in line.inner_text()
    lefts = line.evaluate("""one => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return [...range.getClientRects()].map(({left}) => left - one.getBoundingClientRect().left);
    }""")
    assert len(lefts) > 2 and min(lefts[1:]) > 30 and guess.shown("product").count("\n") == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_follows_the_system_and_comments_are_legible_in_it(browser, lab, environment, theme):
    chosen = Path(environment["HOME"], ".jupyter/lab/user-settings/@jupyterlab/apputils-extension")
    (chosen / "themes.jupyterlab-settings").unlink(missing_ok=True)  # by a test before
    context = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme=theme)
    with closing(Opened(context.new_page(), lab, f"{CHAPTER}.ipynb")) as notebook:
        assert notebook.page.evaluate("document.body.dataset.jpThemeLight") == str(theme == "light").lower()
        high, low = sorted(map(luminance, notebook.page.evaluate(COMMENT)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5
    context.close()


def luminance(colour: list[float]) -> float:
    parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def test_a_narrow_window_begins_without_the_files_and_its_labels_stand_at_the_edge(browser, lab):
    context = browser.new_context(viewport={"width": 600, "height": 900})
    with closing(Opened(context.new_page(), lab, f"{CHAPTER}.ipynb")) as notebook:
        assert not notebook.page.locator("#jp-left-stack").is_visible()
        notebook.page.locator("[data-course-kind]").first.wait_for(state="attached")
        assert notebook.find("guess_growth").evaluate(
            "cell => parseFloat(getComputedStyle(cell, '::before').marginLeft)") < 20
    context.close()


def test_in_a_wide_window_no_line_of_code_is_cut_and_the_column_stands_in_the_middle(guess, page):
    page.set_viewport_size({"width": 1440, "height": 900})
    guess.type_into("product", "2 * 3  # " + 40 * "long ")
    cut = "box => box.scrollWidth - box.clientWidth"
    assert guess.find("product").locator(".cm-scroller").evaluate(cut) <= 0
    left, right = guess.find("product").evaluate("""cell => {
        const [one, all] = [cell, cell.closest('.jp-Notebook')].map(node => node.getBoundingClientRect());
        return [one.left - all.left, all.right - one.right];
    }""")
    assert left > 20 and abs(left - right) < 20


def test_a_full_stop_stays_with_the_formula_before_it_which_has_the_letters_size(opened, page):
    opened.find("star_formula_text")
    page.get_by_role("button", name="Show the answer without a guess").first.click()
    joined = page.locator(".course-joined", has_text=".").first
    joined.wait_for()
    assert joined.evaluate("""whole => [getComputedStyle(whole).whiteSpace,
        getComputedStyle(whole.firstChild).fontSize === getComputedStyle(whole).fontSize]""") == ["nowrap", True]


@pytest.mark.parametrize("width", [1440, 600])
def test_text_code_and_answers_have_one_right_edge(guess, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    guess.type_into("guess_six", "guess_six = 5")
    guess.run("guess_six")
    guess.run("six")
    right = "all => all.map(one => Math.round(one.getBoundingClientRect().right))"
    kinds = ".jp-MarkdownOutput:visible, .jp-InputArea-editor:visible, .course-card:visible"
    edges = page.locator(kinds).evaluate_all(right)
    assert len(edges) >= 6 and max(edges) - min(edges) <= 2


@pytest.mark.parametrize("width", [1440, 600])
def test_a_picture_that_is_clicked_fits_the_window_a_second_click_makes_it_large_and_a_cross_ends_it(
        browser, lab, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    with closing(Opened(context.new_page(), lab, f"{CHAPTER}.ipynb")) as notebook:
        page = notebook.page
        notebook.run("ring_drawing")
        (picture,) = notebook.pictures("ring_drawing")
        assert picture["width"] <= min(width, picture["own"] / 2)
        assert picture["width"] >= 440  # seen whole, also in a narrow window
        page.locator(".course-drawn:visible").first.click()
        large = page.locator("dialog.course-whole img")
        large.wait_for()
        size = "image => [image.clientWidth, image.clientHeight]"
        wide, high = large.evaluate(size)
        assert picture["width"] < wide <= width and high <= 900
        large.click()
        assert large.evaluate(size)[0] >= max(picture["own"] // 2, 1.3 * width - 1)
        page.get_by_role("button", name="Close").click()
        page.wait_for_function("() => !document.querySelector('dialog')")
    context.close()


def test_in_a_narrow_window_the_picture_of_a_slider_is_seen_whole(opened, page):
    page.set_viewport_size({"width": 600, "height": 900})
    opened.run("imports")
    opened.run("ring_picture")
    opened.controls("ring_picture")
    cut = "box => [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight]"
    picture = opened.find("ring_picture").locator(".course-picture:has(img)")
    picture.wait_for()
    assert picture.evaluate(cut) == [0, 0]


def test_beside_the_list_of_files_no_line_of_code_is_cut(opened, page):
    page.set_viewport_size({"width": 1024, "height": 768})
    opened.sidebar(shown=True)
    cut = "box => box.scrollWidth - box.clientWidth"
    page.wait_for_function("() => document.querySelector('.jp-Notebook').clientWidth < 760")
    assert opened.find("growth").locator(".cm-scroller").evaluate(cut) <= 0
