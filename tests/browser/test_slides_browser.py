"""Slides in a browser: what is too long goes on on the next slide, in its form, and a print cuts nothing."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from exercises_tests.tools.chapters import ROOT, chapters

for package in ("markdown_it", "math_core", "sphinx_revealjs"):
    pytest.importorskip(package, reason="what makes the slides is not installed: make slides brings it")

MAKERS = ROOT / "docs" / "book_and_slides"
BODIES = "all => all.map(one => one.querySelector('.body').textContent)"
CUT = """pages => pages.flatMap((page, place) => {
    const room = page.getBoundingClientRect();
    return [...page.querySelectorAll("h1, h2, p, pre, li, td, img, .body")].filter((part) => {
        const box = part.getBoundingClientRect();
        return !part.closest(".notes, details") && (box.bottom > room.bottom + 1 || box.right > room.right + 1
            || box.top < room.top + 8 || box.left < room.left + 8);
    }).map((part) => `${part.tagName} on page ${place + 1}`);
})"""


@pytest.fixture
def opened(page, tmp_path, monkeypatch):
    """Opens slides, each a kind, a title, a body and what else is known of it."""
    monkeypatch.syspath_prepend(str(MAKERS))
    deck, slides = importlib.import_module("deck"), importlib.import_module("slides")

    def open_slides(*made: tuple, steps: int = 0, how: str = "", code: str = "",
                    notes: list[str] | None = None):
        path = tmp_path / "slides.html"
        every = [deck.Slide(kind, title, deck.as_html(body), **more[0] if more else {})
                 for kind, title, body, *more in made]
        every[0].code, every[0].notes = code, notes or []
        every[-1].steps = ['<img alt="">'] * steps
        path.write_text(slides.as_page(chapters()[0], every), encoding="utf-8")
        page.goto(path.as_uri() + how)
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        return page

    yield open_slides
    assert page.faults == []
    for path in MAKERS.glob("*.py"):
        sys.modules.pop(path.stem, None)


LIST = "\n".join(f"- item {number}" for number in range(40))
TABLE = "| name | value |\n|---|---|\n" + "\n".join(f"| row {number} | {number} |" for number in range(40))


def test_a_long_list_goes_on_as_a_list_and_loses_no_item(opened):
    page = opened(("text", "Task", f"Such that\n\n{LIST}"))
    assert page.locator("section").count() > 2
    assert page.locator("li").all_text_contents() == [f"item {number}" for number in range(40)]
    assert page.locator("section li").count() == page.locator("section > .body > ul > li").count() == 40


def test_a_long_table_goes_on_under_its_head(opened):
    page = opened(("text", "Task", TABLE))
    tables = page.locator("table").count()
    assert tables == page.locator("section").count() == page.locator("thead").count() > 1
    assert page.locator("tbody tr").count() == 40


def test_a_slide_that_goes_on_says_so_once(opened):
    titles = opened(("text", "Task", TABLE)).locator("h2").all_text_contents()
    assert titles[0] == "Task" and set(titles[1:]) == {"Task (continued)"}


def test_what_leads_to_a_list_is_not_left_alone(opened):
    filler = "\n\n".join(f"Sentence {number}." for number in range(10))
    for body in opened(("text", "Task", f"{filler}\n\nSuch that:\n\n{LIST}")).locator("section").evaluate_all(BODIES):
        assert not body.strip().endswith(":")


def test_a_table_with_long_code_stays_on_its_slide(opened):
    code = "`--parallelism.data_parallel_replicate_degree`"
    page = opened(("text", "Task", f"| a | b | c |\n|---|---|---|\n| {code} | {code} | some more words |"))
    assert page.locator("table").evaluate("one => one.getBoundingClientRect().right") <= 1280 - 40


PICTURE = ('<img alt="a line" class="day" width="1660" height="800" '
           'src="data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 1660 800%22/%3E">')
LETTERS = """one => {  // of 10 points, in a picture of 200 pixels an inch
    const box = one.getBoundingClientRect(), scale = Math.min(box.width / one.getAttribute("width"),
                                                              box.height / one.getAttribute("height"));
    return 10 / 72 * 200 * scale;
}"""
SHAPE = "one => { const box = one.getBoundingClientRect(); return Math.min(box.width, box.height * 1660 / 800); }"


def test_a_picture_has_nearly_all_of_its_slide_also_above_a_line(opened):
    page = opened(("picture", "One", PICTURE, {"lines": ["It waits."]}))
    assert page.locator("img").evaluate(SHAPE) >= 0.8 * 1280
    assert page.locator(".slides").evaluate_all(CUT) == []


def test_the_letters_of_the_highest_pictures_have_18_pixels_on_a_projector_of_1920(opened):
    talk = importlib.import_module("talk")
    for high, lines in ((talk.LOW, ["It waits."]), (talk.HIGHEST, [])):
        page = opened(("picture", "One", PICTURE.replace('"800"', f'"{high}"'), {"lines": lines}))
        page.set_viewport_size({"width": 1920, "height": 1080})
        page.wait_for_function("Reveal.getScale() == 1.5")
        assert page.locator("img").evaluate(LETTERS) >= 18
        page.set_viewport_size({"width": 1280, "height": 720})


def test_both_lines_under_a_picture_stand_there_at_once(opened):
    page = opened(("picture", "One", PICTURE, {"lines": ["It waits.", "It goes on."]}))
    assert [line.is_visible() for line in page.locator(".under p").all()] == [True, True]


FACES = ("title", "section", "rule", "guess")  # in the middle of a ground of their own


def test_every_title_above_a_body_has_the_same_place_and_size(opened):
    titles, kinds = ("One", "Many words " * 9), [kind for kind in KINDS if kind not in FACES]
    page = opened(*((kind, title, "A sentence.") for kind in kinds for title in titles))
    frames = page.locator(".slides > section").evaluate_all("""all => all.map((one, place) => {
        Reveal.slide(place);
        const title = one.querySelector("h1, h2"), box = title.getBoundingClientRect();
        const below = one.querySelector(".body").getBoundingClientRect();
        return [box.x, box.y, box.height, getComputedStyle(title).fontSize, below.y].join(" ");
    })""")
    assert len(set(frames)) == 1, sorted(set(frames))


@pytest.mark.parametrize("kind", [kind for kind in FACES if kind != "title"])
def test_a_few_words_stand_with_their_title_in_the_middle(opened, kind):
    page = opened((kind, "One", "A sentence."))
    title, said = page.locator("h2").bounding_box(), page.locator(".body").bounding_box()
    above, below = title["y"], 720 - said["y"] - said["height"]
    assert said["y"] - title["y"] - title["height"] < 30 and abs(above - below) < 100


def test_letters_have_one_size_wherever_they_fit(opened):
    kinds = [kind for kind in KINDS if kind != "title"]
    page = opened(*((kind, "One", "A sentence.") for kind in kinds))
    assert set(page.locator(".body").evaluate_all("all => all.map(one => one.style.fontSize)")) == {"40px"}


def test_the_number_of_an_answer_is_three_times_as_large_as_its_reason(opened):
    page = opened(("answer", "Simulated: 21 times as long", "Because.", {"over": "How many?"}))
    found, why = (page.locator(part).evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
                  for part in (".found", ".body > p:last-child"))
    assert page.locator(".found").inner_text() == "21 times as long" and found > 3 * why


def test_an_answer_in_code_never_goes_on_on_the_next_slide(opened):
    code = "".join(f"<span>{'x = 1; ' * 14}</span>" for _ in range(14))
    idea = f"<p>The idea has so many words. {'It is so. ' * 6}</p>"
    page = opened(("debrief", "One way", f'{idea}<pre class="lines">{code}</pre>'))
    assert page.locator("section").count() == 1


def test_a_low_picture_stands_below_the_words_that_it_shows_at_the_left_edge(opened):
    low = PICTURE.replace('"800"', '"500"')
    page = opened(("picture", "Two", low, {"above": "<p>A sentence.</p>", "lines": ["It waits."]}))
    title, said, picture, line = (page.locator(one).bounding_box() for one in ("h2", ".above p", "img", ".under p"))
    assert said["y"] + said["height"] <= picture["y"] and picture["width"] > 1152
    assert title["x"] == said["x"] == line["x"] and 50 < picture["x"] < title["x"]


def test_a_picture_begins_right_below_its_title_of_one_line_or_of_two(opened):
    page = opened(("picture", "One", PICTURE), ("picture", "Many words " * 9, PICTURE))
    gaps = page.locator("img").evaluate_all("""all => all.map((one, place) => {
        Reveal.slide(place);
        const title = one.closest("section").querySelector("h2").getBoundingClientRect();
        return [one.getBoundingClientRect().top - title.bottom, title.height];
    })""")
    assert gaps[0][0] == gaps[1][0] < 10 and gaps[0][1] < 0.7 * gaps[1][1]


def test_the_band_of_a_question_is_as_high_as_its_lines_and_what_is_said_begins_below_its_title(opened):
    page = opened(("answer", "So: 7", "Because.", {"over": "How many?"}),
                  ("answer", "So: 7", "Because.", {"over": "How many words " * 5 + "?"}),
                  ("said", "One", "A sentence."), ("said", "One", "A sentence.\n\n" * 6))
    bands = page.locator(".asked h2").evaluate_all("all => all.map(one => one.offsetHeight)")
    tops = page.locator(".said .body > p:first-child").evaluate_all("all => all.map(one => one.offsetTop)")
    assert bands[0] < 100 < bands[1] and tops[0] == tops[1]


def test_a_title_asks_until_the_last_step(opened):
    page = opened(("picture", "Who waits?", PICTURE, {"late": "All wait"}), steps=2)
    for shown in (False, False, True):
        assert page.locator(".late").evaluate("one => getComputedStyle(one).visibility == 'visible'") == shown
        page.keyboard.press("ArrowRight")


def test_the_code_of_an_answer_has_26_pixels_and_breaks_where_it_is_too_wide(opened):
    code = "".join(f"<span>    {'word = 1; ' * 9}</span>" for _ in range(6))
    page = opened(("debrief", "One way", f'<p>The idea.</p><pre class="lines">{code}</pre>'))
    assert page.locator(".lines").evaluate("one => parseFloat(getComputedStyle(one).fontSize)") >= 26
    assert page.locator(".slides").evaluate_all(CUT) == []


def test_code_gets_smaller_before_it_breaks(opened):
    page = opened(("guess", "Which?", f"<pre><code>{'via NET/IB ' * 5}</code></pre>"))
    assert page.locator(".wrapped").count() == 0


def test_no_letters_of_a_table_are_hard_to_read_on_a_section(opened):
    page = opened(("section", "One", TABLE))
    colours = page.locator("th, td").evaluate_all("all => all.map(one => getComputedStyle(one).color)")
    assert set(colours) == {"rgb(255, 255, 255)"}


def test_a_key_takes_the_short_path_and_back(opened):
    page = opened(("text", "One", "a", {"brief": True}), ("text", "Two", "b"), ("text", "Three", "c", {"brief": True}))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("q")
    assert page.locator(".present h2").inner_text() == "One" and page.evaluate("Reveal.getTotalSlides()") == 2
    assert page.locator(".chapter").evaluate("one => getComputedStyle(one, '::after').content") == '" · short path"'
    page.keyboard.press("ArrowRight")
    page.keyboard.press("q")
    assert page.locator(".present h2").inner_text() == "Three" and page.evaluate("Reveal.getTotalSlides()") == 3


def test_the_list_of_keys_has_few_lines_in_our_words_and_goes_away(opened):
    page = opened(("text", "One", "a"))
    for key in ("Shift+Slash", "Escape"):
        page.keyboard.press("Shift+Slash")
        assert page.locator("#keys dt").count() < 10 and page.locator(".r-overlay, .overlay").count() == 0
        for words in ("short path", "pause", "Dark"):
            assert page.locator("#keys dd").get_by_text(words).count() == 1
        page.keyboard.press(key)
        assert page.locator("#keys, #overview").count() == 0


def test_the_overview_counts_all_slides_and_those_of_the_short_path(opened):
    page = opened(("text", "One", "a", {"brief": True, "minutes": 3}), ("text", "Two", "b", {"minutes": 10}),
                  ("text", "Three", "c", {"brief": True, "minutes": 1}))
    page.keyboard.press("o")
    assert page.locator("#overview p").inner_text() == (
        "3 slides, 14 min with the exercises; the short path (key Q, marked •): 2 slides, 4 min")


def test_a_key_starts_the_countdown_pauses_it_and_lets_it_go_on(opened):
    page = opened(("exercise", "Task", "*core · 10 min*", {"exercise": "total"}))
    button = page.locator(".countdown")
    assert button.inner_text() == "▶ 10:00"
    page.keyboard.press("t")
    page.get_by_text("9:58").wait_for()
    page.keyboard.press("t")
    paused = button.inner_text()
    assert paused.startswith("▶ 9:5")
    page.keyboard.press("t")
    assert button.inner_text() == paused.removeprefix("▶ ")


def test_a_key_with_shift_or_a_double_click_begins_the_countdown_anew(opened):
    page = opened(("exercise", "Task", "*core · 10 min*", {"exercise": "total"}))
    button = page.locator(".countdown")
    for again in (lambda: page.keyboard.press("Shift+T"), button.dblclick):
        page.keyboard.press("t")
        page.get_by_text("9:59").wait_for()
        again()
        assert button.inner_text() == "▶ 10:00"


def test_a_guess_has_a_minute_which_ends_when_one_leaves(opened):
    page = opened(("guess", "How?", ""), ("text", "Two", "a"))
    assert page.locator(".hands").is_visible()
    page.keyboard.press("t")
    page.get_by_text("0:59").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator(".countdown").text_content() == "▶ 1:00"


def test_a_guess_with_less_than_a_minute_counts_down_what_it_has(opened):
    assert opened(("guess", "How?", "", {"minutes": 0.5})).locator(".countdown").inner_text() == "▶ 0:30"


ABOVE = """(all, other) => all.at(-1).getBoundingClientRect().bottom
    <= document.querySelector(other).getBoundingClientRect().top"""


def test_the_choices_of_a_guess_end_above_what_says_hands_up(opened):
    many = {str(one): f"rank {one} waits for rank {one + 1}" for one in range(6)}
    page = opened(("guess", "Which rank makes it slow?", "Who waits?", {"choices": many, "beside": [PICTURE]}))
    assert page.locator("section").count() == 1 and page.locator(".choices li").evaluate_all(ABOVE, ".hands")


def test_a_hint_leaves_the_task_above_it_in_sight(opened):
    page = opened(("exercise", "Task", "\n\n".join(["It returns a sum. " * 5] * 3),
                   {"exercise": "total", "idea": f"<p>{'Walk the journey backwards. ' * 10}</p>"}))
    assert page.locator("section").count() == 1 and page.locator(".body > p").evaluate_all(ABOVE, ".hint")


def test_a_countdown_that_is_over_stays_left_of_the_picture(page, opened):
    page.clock.install()
    opened(("guess", "How?", "", {"beside": [PICTURE]}))
    page.keyboard.press("t")
    page.clock.run_for(72_000)
    button, card = page.locator(".countdown"), page.locator(".beside")
    assert button.inner_text().startswith("+0:1") and "over-time" in button.get_attribute("class")
    page.keyboard.press("t")
    assert button.bounding_box()["x"] + button.bounding_box()["width"] <= card.bounding_box()["x"]


def test_a_print_shows_the_whole_of_a_picture_that_is_built_up(opened):
    page = opened(("picture", "One", '<img alt="">', {"built": ["One.", "Two.", "All."]}), steps=2)
    page.emulate_media(media="print")
    seen = page.locator(".fragment").evaluate_all("all => all.map(one => getComputedStyle(one).opacity)")
    assert seen == ["1", "1"]


def test_the_number_of_a_section_is_as_small_as_its_title_in_the_list_of_all_slides(opened):
    page = opened(("title", "Sums", ""), ("section", "1 · One", ""))
    page.keyboard.press("o")
    assert page.locator("#overview .number").evaluate(
        "one => getComputedStyle(one).fontSize == getComputedStyle(one.parentElement).fontSize")


def test_a_printed_table_has_its_numbers_in_columns_and_no_letter_below_22_pixels_under_an_answer(opened):
    table = '<table class="printed"><tbody>' + "<tr><td>a</td><td class=digits>1 s</td></tr>" * 6 + "</tbody></table>"
    page = opened(("answer", "Measured: 3 s", table, {"over": "How long?"}))
    looks = page.locator(".digits").first.evaluate(
        "one => [getComputedStyle(one).textAlign, parseFloat(getComputedStyle(one).fontSize) >= 22]")
    assert looks == ["right", True] and page.locator("section").count() == 1


def test_no_letter_gets_smaller_than_28_pixels(opened):
    page = opened(("text", "Task", f"{LIST}\n\n{TABLE}"))
    assert min(page.locator("li, td").evaluate_all("all => all.map(one => parseFloat(getComputedStyle(one).fontSize))")
               ) == 28


def test_a_print_has_a_page_for_each_slide_and_cuts_nothing(opened):
    slides = [("title", "One", "A question?"), ("section", "Two", ""), ("text", "Three", TABLE),
              ("guess", "How?", "So."), ("picture", "Four", '<img alt="">')]
    shown = opened(*slides, steps=2).locator("section").count()
    page = opened(*slides, steps=2, how="?print-pdf")
    pages = page.locator(".pdf-page")
    assert pages.count() == shown and pages.evaluate_all(CUT) == []
    numbers = page.locator(".slide-number-pdf").evaluate_all(
        "all => all.map(one => [getComputedStyle(one).fontSize, getComputedStyle(one).color == 'rgb(255, 255, 255)'])")
    assert numbers == [["22px", kind in ("title", "section")] for kind in pages.evaluate_all(
        "all => all.map(one => one.querySelector('section').classList[0])")]


def test_what_goes_on_leaves_no_row_alone(opened):
    for rows in range(12, 24):
        table = "\n".join(TABLE.splitlines()[:rows])
        counts = opened(("text", "Task", table)).locator("section").evaluate_all(
            "all => all.map(one => one.querySelectorAll('tbody tr').length)")
        assert len(counts) == 1 or abs(counts[0] - counts[1]) <= 1


def test_printed_columns_get_smaller_before_they_break(opened):
    lines = f"<span>{'12345  ' * 13}</span>" * 3
    page = opened(("printed", "Printed", f'<pre class="lines">{lines}</pre>'))
    size = page.locator(".lines").evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert 20 <= size < 28 and page.locator(".wrapped").count() == 0


def test_opened_code_stands_below_the_title_in_place_of_what_it_put_out(opened):
    page = opened(("printed", "Printed", '<pre class="lines"><span>10</span></pre>'), code="show()\n" * 40)
    page.locator("summary").click()
    title, code = page.locator("h2").bounding_box(), page.locator("details").bounding_box()
    assert title["y"] + title["height"] <= code["y"] and code["y"] + code["height"] <= 720


def test_a_speaker_without_notes_reads_what_the_slide_says_and_shows(opened):
    page = opened(("text", "One", "a"), ("text", "Two", "Look."), notes=["Say this."])
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    assert popup.value.locator("#said").inner_text() == "Say this."
    page.keyboard.press("ArrowRight")
    popup.value.get_by_text("On the slide:").wait_for()
    assert re.sub(r"\s+", " ", popup.value.locator("#said").inner_text()) == "On the slide: Look."


def test_the_speaker_sees_the_minutes_that_were_planned_until_here(opened):
    page = opened(("exercise", "One", "", {"minutes": 10}), ("text", "Two", TABLE, {"minutes": 15}),
                  ("text", "End", "a"))
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    for minutes in (0, 10, 25, 25, 25):  # a slide that goes on has no minutes more
        popup.value.get_by_text(f"(planned {minutes} min)").wait_for()
        page.keyboard.press("ArrowRight")


def test_an_overview_lists_slides_under_their_sections_and_leads_to_them(opened):
    page = opened(("title", "Sums", ""), ("section", "One", ""), ("text", "Ring", "a"), ("section", "Two", ""))
    page.keyboard.press("o")
    parts = page.locator("#overview div div")
    assert [" ".join(part.split()) for part in parts.all_inner_texts()] == ["1 Sums", "2 One 3 Ring", "4 Two"]
    page.get_by_text("Ring").last.click()
    assert page.locator("#overview").count() == 0 and page.evaluate("Reveal.getIndices().h") == 2
    page.keyboard.press("Escape")
    assert page.locator("#overview").count() == 1


def test_a_plain_print_has_a_page_for_each_slide(opened, tmp_path):
    page = opened(("section", "One", ""), ("text", "Two", TABLE), ("picture", "Three", '<img alt="">'), steps=2)
    slides = page.locator(".slides > section").count()
    page.pdf(path=tmp_path / "print.pdf", prefer_css_page_size=True)
    pages = re.findall(rb"/MediaBox ?\[([\d. ]+)\]", (tmp_path / "print.pdf").read_bytes())
    assert pages == [b"0 0 960 540"] * slides
    page.emulate_media(media="print")
    colours = page.locator(".section h2").evaluate(
        "one => [getComputedStyle(one).color, getComputedStyle(one.parentElement).backgroundColor]")
    assert colours == ["rgb(255, 255, 255)", "rgb(10, 58, 99)"]


def test_an_upright_phone_shows_a_whole_slide_in_letters_that_can_be_read(opened):
    opened(("text", "One", "A sentence.")).set_viewport_size({"width": 390, "height": 780})
    page = opened(("exercise", "Task", f"Such that\n\n{LIST}"))
    shown = page.locator(".present p").evaluate(
        "one => parseFloat(getComputedStyle(one).fontSize) * Reveal.getScale()")
    box = page.locator("section.present").bounding_box()
    assert shown >= 15 and box["x"] >= 0 and box["x"] + box["width"] <= 391


def test_the_speaker_sees_the_next_picture_and_the_step(opened):
    page = opened(("text", "One", "A sentence."), ("picture", "Two", '<img alt="next">'), steps=2)
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    assert popup.value.locator("#ahead img").get_attribute("alt") == "next"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    popup.value.get_by_text("2 of 2, step 2 of 3").wait_for()
    assert popup.value.locator("#next").inner_text() == "step 3"


KINDS = ("title", "section", "text", "said", "rule", "guess", "answer", "printed", "formula", "exercise", "summary")
SEEN = """() => {
    const parse = (colour) => colour.match(/[\\d.]+/g).map(Number), slide = document.querySelector("section.present");
    const bright = (colour) => parse(colour).slice(0, 3).reduce((sum, part) => sum + part) / 3;
    const paper = getComputedStyle(slide).backgroundColor, number = document.querySelector(".slide-number");
    return [parse(paper)[3] ?? 1, bright(paper), bright(getComputedStyle(number).color)];
}"""


def test_every_kind_of_slide_has_its_own_paper_in_light_and_in_dark(opened):
    page = opened(*((kind, "One", "A sentence.") for kind in KINDS))
    for dark in (False, True):
        page.keyboard.press("d") if dark else None
        for place, kind in enumerate(KINDS):
            page.evaluate(f"Reveal.slide({place})")
            opaque, paper, number = page.evaluate(SEEN)
            assert opaque == 1 and (paper < 80) == (dark or kind in ("title", "section")), (kind, dark, paper)
            assert abs(number - paper) > 90, f"the page number cannot be read: {kind}, dark {dark}"
    assert not page.locator(".backgrounds").is_visible()


def test_in_the_dark_a_picture_gives_way_to_its_twin(opened):
    page = opened(("picture", "One", '<img alt="a" class="day"><img alt="" class="night">'))
    for key in ("", "d"):
        page.keyboard.press(key) if key else None
        shown = page.locator("img").evaluate_all("all => all.map(one => getComputedStyle(one).display != 'none')")
        assert shown == [not key, bool(key)]


def test_a_title_of_two_lines_leaves_no_word_alone(opened):
    page = opened(("picture", "A title of a picture that is a word too long to stand in a line of this slide", "a"))
    assert page.locator("h2").evaluate("one => getComputedStyle(one).textWrap || getComputedStyle(one).textWrapStyle"
                                       ).startswith("balance")
