"""The book and the slides in a browser, opened from disk: nothing is fetched, nothing overflows, panels follow."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from opened import SEEN, SMALL
from PIL import Image, ImageStat

from exercises_tests.tools.chapters import ROOT, chapters, find, tags

for package in ("furo", "math_core", "myst_nb", "sphinx_revealjs"):
    pytest.importorskip(package, reason="what makes the book is not installed: make book brings it")

CHAPTERS = chapters()
NAMES = [chapter.name for chapter in CHAPTERS]
MOVED = [chapter.name for chapter in CHAPTERS if any("explore(" in cell.source for cell in chapter.notebook.cells)]
SIZES = {"wide": (1400, 900), "projector": (1280, 720), "narrow": (1024, 768), "phone": (390, 844),
         "small phone": (360, 740), "laptop": (1440, 900)}
SECONDS = 1800  # to run and make all chapters on a busy machine

OVERFLOW = """() => Reveal.getSlides().map((slide, place) => {
    Reveal.slide(place);
    const room = slide.getBoundingClientRect(), out = [], share = room.width / 1280;
    for (const part of slide.querySelectorAll("h1, h2, p, pre, li, table, td, img, math, summary, .body")) {
        if (part.closest(".notes") || part.parentElement.closest("details")) continue;
        const box = part.getBoundingClientRect();
        if (box.bottom > room.bottom + 1 || box.right > room.right + 1 || box.left < room.left - 1
            || box.top < room.top - 1 || (part.matches(".body, pre, p") && part.scrollWidth > part.clientWidth + 2)
            || (part.matches(".body, pre") && part.scrollHeight > part.clientHeight + 2)) {
            out.push(`${part.tagName} leaves the slide`);
        }
        const small = part.closest(".exercise .body, pre, .printed") ? 20 : 28;  // a task and a line stay whole
        if (part.matches("p, pre, li, td, h2, code") && parseFloat(getComputedStyle(part).fontSize) < small) {
            out.push(`${part.tagName} has letters of ${getComputedStyle(part).fontSize}`);
        }
    }
    const image = slide.querySelector("img");
    if (image && image.getBoundingClientRect().height < 380 * share) out.push("the picture is small");
    const title = slide.querySelector("h1, h2");
    if (!title || !title.textContent.trim()) out.push("no title");
    return [place + 1, out];
}).filter(([, out]) => out.length)"""

PANEL = ".course-page .course-player[role=group]"
# Moves every control over all its values, twice; of each move the milliseconds until its picture is there (the fewer of
# both, because a busy machine adds its own), and by how much the panel has jumped.
FOLLOWED = """async (panel) => {
    const taken = new Map(), moves = [], next = () => new Promise((done) => requestAnimationFrame(done));
    for (const control of panel.querySelectorAll("input[type=range], select, input[type=radio]")) {
        const values = control.options ? [...control.options].map((one) => one.value)
            : control.type === "range" ? [...Array(Number(control.max) + 1).keys()].map(String) : [null];
        for (const value of values) moves.push(() => {
            if (value === null) return control.click();
            control.value = value;
            control.dispatchEvent(new Event(control.options ? "change" : "input"));
        });
    }
    for (const move of [...moves, ...moves]) {
        const high = panel.getBoundingClientRect().height, before = panel.dataset.shown, start = performance.now();
        move();
        while (panel.dataset.shown === before && performance.now() - start < 400) await next();
        await next();
        const moved = panel.dataset.shown !== before;  // else it stood there already
        const [fewest, jump] = taken.get(move) || [Infinity, 0];
        if (moved) taken.set(move, [Math.min(fewest, performance.now() - start),
                                    Math.max(jump, Math.abs(panel.getBoundingClientRect().height - high))]);
    }
    return [...taken.values()];
}"""

# What is wider than its place and does not move, or moves and is not marked.
CUT = """() => [...document.querySelectorAll("article *")].filter((part) => {
    if (part.closest("math, svg") || part.scrollWidth <= part.clientWidth + 1 || !part.clientWidth) return false;
    const moves = getComputedStyle(part).overflowX, known = ".wider, .told, .course-picture, pre:not(.cell_output pre)";
    return moves !== "visible" && !(moves === "auto" && part.matches(known));
}).map((part) => `${part.tagName} ${part.className} ${part.clientWidth} < ${part.scrollWidth}`)"""

LETTERS = """() => {
    const counts = [];
    for (const text of document.querySelectorAll("article section > p")) {
        if (text.textContent.length < 200 || text.querySelector("math, code")) continue;
        counts.push(text.textContent.length / Math.round(text.getBoundingClientRect().height
                                                         / parseFloat(getComputedStyle(text).lineHeight)));
    }
    return counts;
}"""


@pytest.fixture(scope="session")
def book(tmp_path_factory) -> Path:
    """The book of all chapters; runs that are kept in build/ are not run again."""
    folder = tmp_path_factory.mktemp("book") / "book"
    drawn = {name: value for name, value in os.environ.items() if name not in ("COURSE_DARK", "MPLBACKEND")}
    done = subprocess.run([sys.executable, "docs/book_and_slides/book.py", "--to", str(folder)], cwd=ROOT,
                          capture_output=True, text=True, timeout=SECONDS, env=drawn)  # with pictures, as for readers
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[-2000:]
    return folder


@pytest.fixture
def opened(browser, book, request):
    """Opens a page of the book from disk, and fails at the end where it fetched something or a script failed."""
    faults, contexts = [], []

    def open_page(name: str, size: str = "wide", scheme: str = "light", zoom: float = 1):
        wide, high = SIZES[size]
        context = browser.new_context(viewport={"width": int(wide / zoom), "height": int(high / zoom)},
                                      color_scheme=scheme, device_scale_factor=zoom)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"error of a script: {error}"))
        page.on("requestfailed", lambda asked: asked.failure == "net::ERR_ABORTED"  # a test went on to another page
                or faults.append(f"not there: {asked.url[-100:]}"))
        page.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
        page.goto((book / name).as_uri())
        page.wait_for_load_state("load")
        return page

    yield open_page
    if request.config.getoption("--screenshots"):
        for place, context in enumerate(contexts):
            SEEN.mkdir(parents=True, exist_ok=True)
            context.pages[0].screenshot(path=SEEN / f"{request.node.name.replace('/', '_')}-{place}.png")
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize("name", ["index", "exercises", "glossary", "slides", *NAMES,
                                  *(f"{name}_exercises" for name in NAMES)])
def test_no_page_is_wider_than_its_window(opened, name):
    page = opened(f"{name}.html")
    for wide, high in SIZES.values():
        page.set_viewport_size({"width": wide, "height": high})
        assert page.evaluate("document.documentElement.scrollWidth") <= wide


def test_no_page_is_wider_than_its_window_enlarged_by_half(opened):
    for name in ("index.html", f"{NAMES[0]}.html"):
        page = opened(name, "projector", zoom=1.5)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", ["index", "exercises", "glossary", "slides", *NAMES])
def test_on_a_phone_letters_have_12_pixels_and_pictures_are_whole_and_say_that_a_tap_enlarges_them(opened, name):
    page = opened(f"{name}.html", "phone")
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    page.locator("img").evaluate_all("all => Promise.all(all.map(one => (one.loading = 'eager', one.decode())))")
    assert page.locator("body").evaluate(SMALL) == []
    pictures = page.locator(":is(figure.picture, .course-picture) img:visible").evaluate_all(
        """all => all.map((one) => {
            const told = one.closest(".told"), {left, right} = one.getBoundingClientRect();
            return [10 * 100 / 72 * one.clientWidth / one.naturalWidth * 2, left, right,
                    told && getComputedStyle(told, "::after").content];
        })""")
    for letters, left, right, said in pictures:
        assert letters > 5.5 and left >= 0 and right <= 390 and (letters > 8.9 or "Tap to enlarge" in said)


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_text_has_about_seventy_five_letters(opened, name):
    counts = opened(f"{name}.html").evaluate(LETTERS)
    assert 60 < sum(counts) / len(counts) < 80


def test_every_link_inside_the_book_leads_to_a_place_that_exists(book):
    texts = {path.name: re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
             for path in book.glob("*.html")}
    places = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in texts.items()}
    gone = []
    for name, text in texts.items():
        for to in re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text):
            file, _, place = html.unescape(to).partition("#")
            if ":" not in file and (file or place):
                there = (book / (file or name)).exists() and (not place or unquote(place) in places[file or name])
                gone += [] if there else [f"{name}: {to}"]
    assert len(texts) > 3 * len(CHAPTERS) and gone == []


def test_the_search_finds_a_word_from_disk(opened):
    page = opened("index.html")
    page.fill(".sidebar-search", "bandwidth")
    page.press(".sidebar-search", "Enter")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li").count() > 3


def test_a_result_of_the_search_shows_the_text_around_the_words_and_leads_to_their_section(opened):
    page = opened("search.html")
    page.goto(page.url + "?q=latencies")  # the book says latency nearly always
    first = page.locator("#search-results li:has(p.context a)").first
    first.wait_for()
    assert "latency" in {mark.lower() for mark in page.locator("p.context mark").all_inner_texts()}
    assert len(first.locator("p.context").first.inner_text()) > 100
    with page.expect_navigation():
        first.locator("p.context a").first.click()
    assert page.evaluate("document.getElementById(location.hash.slice(1)).textContent").lower().count("latenc") > 0


def test_enter_opens_the_first_result_of_the_search_and_the_arrows_go_through_them(opened):
    page = opened("search.html")
    page.goto(page.url + "?q=bandwidth")
    links = page.locator("#search-results ul.search a")
    page.wait_for_function("() => /^\\d+ results?\\./.test(document.querySelector('.search-summary')?.textContent)")
    page.focus(".sidebar-search")
    for key, place in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        assert links.nth(place).evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowUp")
    first = links.first.evaluate("one => one.href")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.split("?")[0].split("#")[0] == first.split("?")[0].split("#")[0]


def test_a_term_is_found_in_the_glossary_once_and_with_its_sentence(opened):
    page = opened("search.html")
    page.goto(page.url + "?q=deadlock")
    page.wait_for_function("() => document.querySelectorAll('#search-results li').length > 3")
    found = page.locator("#search-results li", has_text="Glossary")
    assert found.count() == 1 and found.locator("p.context mark").first.inner_text() == "deadlock"


@pytest.mark.parametrize("asked, said", [("bubbles", "In the glossary: bubble."), ("zero", "In the glossary: ZeRO."),
                                         ("bubles", "No page has “bubles”: these are for “bubble”."),
                                         ("all reduse", "No page has “all reduse”: these are for “all-reduce”."),
                                         ("xqzzy", "Try fewer words, or look in the glossary or the contents.")])
def test_the_search_knows_several_of_a_term_and_a_slip_of_the_finger(opened, asked, said):
    page = opened("search.html")
    page.goto(f"{page.url}?q={asked}")
    page.wait_for_function("said => document.querySelector('.search-summary')?.textContent.endsWith(said)", arg=said)


@pytest.mark.parametrize("asked, page_of", [
    ("ring", "ch03"), ("hang", "ch13"), ("fsdp memory", "ch07"), ("tensor parallel gelu", "ch05"),
    ("batch size", "ch04"), ("NCCL_ALGO", "ch10")])
def test_what_a_learner_would_type_is_among_the_first_three_results(opened, asked, page_of):
    page = opened("search.html")
    page.goto(f"{page.url}?q={asked}")
    page.wait_for_function("() => /^\\d+ results?\\./.test(document.querySelector('.search-summary')?.textContent)")
    first = page.locator("#search-results li > a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")[:3]
    assert any(to.startswith(page_of) for to in first)


TERM_LINK = 'article a[href$="#term-stage"]'


def test_a_term_shows_what_it_means_to_the_mouse_and_to_the_keyboard(opened):
    page = opened("ch06_pipeline_parallel.html")
    note, link = page.locator("#meaning"), page.locator(TERM_LINK)
    link.hover()
    assert note.is_visible() and note.inner_text().startswith("A stage is the part of a model")
    page.mouse.move(0, 0)
    assert not note.is_visible()
    link.focus()
    assert note.is_visible() and link.get_attribute("aria-describedby") == "meaning"
    page.keyboard.press("Escape")
    assert not note.is_visible()


def test_a_finger_sees_what_a_term_means_first_and_then_follows_its_link(browser, book):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((book / "ch06_pipeline_parallel.html").as_uri())
    page.locator(TERM_LINK).tap()
    assert page.locator("#meaning").is_visible()
    box = page.locator("#meaning").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    with page.expect_navigation():
        page.locator(TERM_LINK).tap()
    assert page.url.endswith("glossary.html#term-stage")
    context.close()


LINKS = {  # a page, and a link in it that leads far down into a chapter
    "glossary": ("glossary.html", 'dl.glossary a[href$="#ch08-in-goodput-text"]'),
    "search": ("search.html?q=deadlock", 'p.context a[href*="ch00"]'),
    "in the page": ("ch08_serving.html", '.toc-tree a[href="#ch08-at-stall-text-0"]'),
}
OPEN = "document.querySelectorAll('details.further').forEach((one) => { one.open = true; })"
TOP = "document.getElementById(location.hash.slice(1)).getBoundingClientRect().top"


@pytest.mark.parametrize("size", ["laptop", "phone"])
@pytest.mark.parametrize("where", LINKS)
def test_a_link_into_a_chapter_leads_to_its_place_and_stays_there(opened, where, size):
    page = opened("index.html", size)
    start, link = LINKS[where]
    page.goto(page.url.replace("index.html", start))
    page.locator(link).first.wait_for(state="attached")
    with page.expect_navigation():
        page.locator(link).first.evaluate("link => link.click()")  # on a phone some are behind a button
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # boxes are marked
    assert 0 <= page.evaluate(TOP) < 100
    page.evaluate("for (const one of document.images) one.loading = 'eager'")
    page.wait_for_function("[...document.images].every((one) => one.complete)")
    assert 0 <= page.evaluate(TOP) < 100


def test_the_place_to_which_a_link_leads_stays_while_what_is_above_it_grows_until_the_reader_moves(opened):
    page = opened("ch08_serving.html")
    page.goto("about:blank")
    page.goto(opened("ch08_serving.html").url + "#ch08-at-further-prefix-0")
    page.add_style_tag(content="html { overflow-anchor: none } h1 { padding-top: 500px !important }")
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(frames)
    assert 0 <= page.evaluate(TOP) < 100
    page.mouse.wheel(0, 10)
    page.add_style_tag(content="h1 { padding-top: 900px !important }")
    page.evaluate(frames)
    assert page.evaluate(TOP) > 300


def test_the_map_is_whole_on_every_screen_but_a_phone_which_has_a_list_of_the_chapters(opened):
    page = opened("index.html")
    for wide in (1024, 1280, 1440):
        page.set_viewport_size({"width": wide, "height": 900})
        assert page.locator(".map").evaluate("map => map.scrollWidth <= map.clientWidth"), wide
        assert page.locator(".map").evaluate(SMALL) == []
        assert not page.locator(".in-order").is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert not page.locator(".map").is_visible() and not page.locator(".arrows").is_visible()
    assert page.locator(".in-order a:visible").count() == len(NAMES)


@pytest.mark.parametrize("size", ["laptop", "projector", "narrow", "phone"])
def test_the_picture_of_the_first_page_is_on_the_first_screen(opened, size):
    box = opened("index.html", size).locator(".first-picture img:visible").bounding_box()
    assert box["y"] + box["height"] <= SIZES[size][1]


def test_the_button_of_the_first_page_goes_on_with_the_chapter_read_last_whose_box_says_you_are_here(opened):
    page = opened("ch03_ring_all_reduce.html", "laptop")
    page.goto(page.url.replace("ch03_ring_all_reduce", "index"))
    button = page.locator(".begin .button")
    assert button.inner_text() == "Continue with chapter 3"
    assert button.get_attribute("href") == "ch03_ring_all_reduce.html"
    assert page.locator(".map a", has_text="you are here").get_attribute("href") == "ch03_ring_all_reduce.html"


def test_what_goes_further_is_a_line_for_each_section_that_a_link_or_paper_opens(opened):
    page = opened("ch10_the_network.html", "laptop")
    folds = page.locator("details.further")
    assert folds.count() > 8 and page.locator("details.further[open]").count() == 0
    assert page.locator(".further > summary > span code", has_text="nodes").count() == 1  # takes: `nodes` nodes
    title, lead = folds.first.inner_text().split("\n")
    assert title == "What is in a hop?" and lead.startswith("When eight H100s serve") and lead.endswith("16\xa0KiB.")
    assert page.locator(".toc-tree a", has_text="Going further").locator("xpath=following-sibling::ul").count() == 0
    page.evaluate("() => { location.hash = 'ch10-choose-protocol'; }")
    page.wait_for_function("() => document.querySelector('details.further[open]')")
    assert "choose_protocol" in page.locator("details.further[open] > summary").inner_text()
    page.emulate_media(media="print")
    seen = folds.locator("p").evaluate_all(
        "all => all.map((one) => one.checkVisibility({contentVisibilityAuto: true}))")
    assert seen.count(True) > len(seen) / 2


def test_the_contents_give_an_exercise_its_name_alone_and_break_none(opened):
    page = opened("ch10_the_network.html", "laptop")
    names = page.locator(".toc-tree a:has(code)")
    assert names.all_inner_texts() == ["diagnose", "hierarchical_all_reduce"]
    assert page.locator(".toc-tree code").evaluate_all("all => all.map((one) => one.getClientRects().length)") == [1, 1]


def test_the_search_gives_what_a_title_names_before_what_only_speaks_of_it(opened):
    page = opened("search.html")
    page.goto(page.url + "?q=ring")
    page.wait_for_function("() => /^\\d+ results?\\./.test(document.querySelector('.search-summary')?.textContent)")
    found = page.locator("#search-results li", has=page.locator("> a[href^='ch03']")).locator("p.context a")
    assert found.all_inner_texts()[0] == "At its beginning" and all("ing" in one for one in found.all_inner_texts())


def test_a_guess_of_nothing_is_told_what_it_would_mean(opened):
    page = opened("ch10_the_network.html")
    field = page.locator(".guess input").first
    field.fill("0")
    field.press("Enter")
    assert page.locator(".guessed").inner_text().startswith("Your guess is 0. That would take no time at all. The")


@pytest.mark.parametrize("size", ["laptop", "narrow"])
def test_the_picture_of_the_first_page_is_whole_and_its_letters_have_11_pixels(opened, size):
    page = opened("index.html", size)
    wide, own, right = page.locator(".first-picture img:visible").evaluate(
        "one => [one.clientWidth, parseFloat(one.style.getPropertyValue('--own')), one.getBoundingClientRect().right]")
    assert wide / own * 100 * 10 / 72 >= 11  # course_lib.plots.canvas: 10 points, 100 pixels an inch
    assert right <= SIZES[size][0]


def test_on_a_phone_the_list_of_chapters_marks_the_one_that_was_read_last(opened):
    page = opened(f"{NAMES[-1]}.html", "phone")
    page.goto(page.url.replace(NAMES[-1], "index"))
    assert page.locator(".in-order a.here").get_attribute("href") == f"{NAMES[-1]}.html"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_what_is_too_wide_moves_in_a_box_that_says_so(opened, name):
    page = opened(f"{name}.html", "phone")
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    for size in ("phone", "narrow", "projector"):
        page.set_viewport_size(dict(zip(("width", "height"), SIZES[size], strict=True)))
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate(CUT) == [], size


def test_a_link_to_the_text_behind_a_veil_stops_at_the_guess_and_says_so(opened):
    page = opened(f"{NAMES[0]}.html")
    address, said = page.url, page.locator(".guessed", has_text="The place you look for is behind this guess")
    inside = page.locator("details.veil:not([open]) [id^=ch00-in]").first.get_attribute("id")
    page.evaluate("to => location.hash = to", inside)
    said.wait_for()
    page.goto("about:blank")
    page.goto(f"{address}#{inside}")
    page.wait_for_timeout(500)  # a browser would open the fold after the page has loaded
    assert said.evaluate("({nextElementSibling, offsetTop}) => [nextElementSibling.open, scrollY > 0]") == [False, True]
    page.locator(f"details.veil:has([id='{inside}']) > summary").first.click()
    assert said.count() == 0 and page.locator(f"details.veil[open] [id='{inside}']").count() == 1


@pytest.mark.parametrize("name", NAMES)
def test_before_a_guess_no_veil_shows_what_it_holds_and_no_comparison_is_seen(opened, name):
    page = opened(f"{name}.html")
    seen = page.evaluate("""() => [...document.querySelectorAll("details.veil")].flatMap((veil) => {
        const open = [...veil.children].filter((one) => one.localName !== "summary" && one.checkVisibility());
        return veil.open || open.length ? [veil.dataset.guess] : [];
    })""")
    assert seen == [] and page.locator("details.veil").count() >= 5
    compared = page.locator("div.cell_input pre").evaluate_all(
        "all => all.filter((one) => one.checkVisibility() && /compare\\(guess/.test(one.textContent)).length")
    assert compared == 0


def test_a_veil_is_opened_by_the_keyboard_and_stays_open_when_the_page_is_opened_again(opened):
    page = opened(f"{NAMES[0]}.html")
    page.locator("details.veil > summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.veil[open]").count() == 1
    page.reload()
    assert page.locator("details.veil[open]").count() == 1


def test_on_paper_a_rule_and_the_word_answer_part_a_question_from_what_was_measured(opened):
    page = opened(f"{NAMES[0]}.html")
    page.emulate_media(media="print")
    rule = page.locator("details.veil > summary").first
    assert rule.evaluate("one => getComputedStyle(one, '::after').content") == '"Answer"' and rule.inner_text() == ""
    assert rule.evaluate("one => getComputedStyle(one).borderTopWidth") == "1px"


def test_the_answer_is_said_once_by_the_line_of_a_guess_or_without_one_by_what_was_measured(opened):
    page = opened("ch03_ring_all_reduce.html")
    answer = page.locator("details.veil .compared").first
    page.locator("details.veil > summary").first.click()
    assert answer.is_visible()
    page.locator(".guess input").first.fill("16")
    page.locator(".guess button").first.click()
    assert "The answer, simulated: 21 times as long." in page.locator(".guessed").inner_text()
    assert not answer.is_visible()


def test_the_words_that_take_the_marks_of_a_search_away_say_so(opened):
    page = opened("search.html")
    page.evaluate("localStorage.setItem('sphinx_highlight_terms', 'bandwidth')")
    page.goto(page.url.replace("search", "ch03_ring_all_reduce"))
    page.locator(".highlight-link a", has_text="Clear highlights").click()
    assert page.locator(".highlighted").count() == 0


def test_a_hit_of_the_search_behind_a_veil_tells_nothing_and_leads_to_the_guess(opened):
    page = opened("search.html")
    page.goto(page.url + "?q=spreads")
    link = page.locator('p.context a[href="ch03_ring_all_reduce.html#ch03-at-ring-timeline-text-0"]')
    link.wait_for()
    assert link.locator("xpath=..").inner_text().endswith(": behind a guess, which you make first.")
    with page.expect_navigation():
        link.click()
    page.locator(".guessed", has_text="The place you look for is behind this guess").wait_for()
    assert page.locator("details.veil[open]").count() == 0


def test_no_punctuation_after_a_formula_begins_a_line(opened):
    page = opened("ch03_ring_all_reduce.html")
    assert page.locator(".together").count() > 5
    apart = page.evaluate("""() => [...document.querySelectorAll("article math")].filter((one) =>
        /^[.,;:)]/.test(one.nextSibling?.data || "") && !one.closest(".together, .formula")).length""")
    assert apart == 0


def test_who_only_reads_shows_all_answers_on_every_page_at_once(opened):
    page = opened(f"{NAMES[0]}.html")
    page.get_by_label("Hide answers until I guess").uncheck()
    assert page.locator("details.veil:not([open])").count() == 0
    page.goto(page.url.replace(NAMES[0], NAMES[1]))
    assert page.locator("details.veil:not([open])").count() == 0
    assert not page.locator("details.veil > summary").first.is_visible()
    page.get_by_label("Hide answers until I guess").check()
    assert page.locator("details.veil[open]").count() == 0


def test_without_scripts_all_is_seen(browser, book):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((book / f"{NAMES[0]}.html").as_uri())
    assert page.locator("details.veil:not([open])").count() == 0
    assert not page.locator("details.veil > summary").first.is_visible()
    context.close()


def test_a_choice_is_made_by_a_button_and_compared_in_its_words(opened):
    page = opened("ch02_collectives.html")
    page.locator("details.veil[data-guess=guess_trace] > summary").click()
    box = page.locator("fieldset.guess:has([name=guess_late])")
    box.get_by_role("button", name="Compare").click()
    assert box.get_by_role("status").inner_text() == "Choose one first."
    assert page.locator("details.veil[open]").count() == 1
    box.get_by_label("the network").check()
    box.get_by_role("button", name="Compare").click()
    assert page.locator(".guessed:has(+ details.veil[data-guess=guess_late])").inner_text() == (
        "Not the network. A slow network makes the bars long on every rank. But one rank has short ones, so the calls "
        "themselves are quick. The answer: rank 2.")


def test_on_a_laptop_choices_and_compare_are_on_one_line_where_they_fit(opened):
    page = opened("ch10_the_network.html", "laptop")
    page.evaluate("document.querySelectorAll('details.veil').forEach((one) => one.open = true)")
    high = page.locator("fieldset.guess:has([name=guess_limit])").bounding_box()["height"]
    assert high < 70


def test_a_guess_that_is_refused_takes_away_what_was_said_of_the_guess_before(opened):
    page = opened(f"{NAMES[0]}.html")
    for guess, said in (("8", 1), ("abc", 0), ("1", 1)):
        page.fill("input[name=guess_notes]", guess)
        page.press("input[name=guess_notes]", "Enter")
        assert page.locator(".guessed").count() == said


def test_the_contents_mark_the_section_that_begins_in_the_upper_third_and_not_one_that_begins_below(opened):
    page = opened("ch08_serving.html", "laptop")
    links = page.locator(".toc-tree a[href^='#']").evaluate_all("all => all.map((one) => one.hash).filter(Boolean)")
    moved = """([to, top]) => {
        const section = document.getElementById(to.slice(1)).closest("section");
        scrollBy(0, section.querySelector("h2, h3").getBoundingClientRect().top - top);
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
            done(document.querySelector(".toc-tree li.here > a").hash))));
    }"""
    for before, to in zip(links[:6], links[1:7], strict=True):
        assert page.evaluate(moved, [to, 20]) == to
        assert page.evaluate(moved, [before, -20]) == before
    assert page.evaluate(moved, [links[1], 150]) == links[1] and page.evaluate(moved, [links[1], 600]) == links[0]


def test_the_contents_mark_the_section_to_which_a_link_has_led_also_at_the_end_of_a_page(opened):
    page = opened("ch08_serving.html", "laptop")
    links = page.locator(".toc-tree a[href^='#']")
    for place in range(links.count() - 4, links.count()):
        links.nth(place).click()
        page.wait_for_function("to => document.querySelector('.toc-tree li.here > a')?.hash === to",
                               arg=links.nth(place).get_attribute("href"))


def test_a_frame_encloses_the_heading_the_stub_the_check_and_the_hints_of_an_exercise(opened):
    page = opened("ch03_ring_all_reduce.html", "laptop")
    frame = page.locator("h3:has-text('reduce_scatter_ring') + .exercise").first
    held = frame.inner_text()
    assert held.startswith("core · 5 points") and "raise NotImplementedError" in held and "An answer" in held
    title = frame.evaluate("one => [one, one.previousElementSibling].map((it) => it.getBoundingClientRect().toJSON())")
    assert abs(title[0]["left"] - title[1]["left"]) < 1 and abs(title[0]["right"] - title[1]["right"]) < 1
    assert abs(title[1]["bottom"] - title[0]["top"]) < 1
    assert frame.evaluate("one => getComputedStyle(one).borderLeftWidth") == "3px"


def test_plain_text_has_no_colours_and_its_columns_are_in_line(opened):
    page = opened("ch10_the_network.html")
    drawing = page.locator("pre", has_text="NCCL INFO").first
    assert drawing.locator(".err, .n, .mi").count() == 0
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('14px Iosevka'))")
    assert drawing.evaluate("one => getComputedStyle(one).fontFamily").startswith("Iosevka")


def test_a_formula_is_drawn_with_the_books_own_font(opened):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    assert page.locator(".formula math mfrac").count() > 2
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px \"STIX Two Math\"'))")


def test_in_the_dark_no_line_under_a_name_hides_its_underscores(opened):
    page = opened(f"{NAMES[0]}.html", scheme="dark")
    lines = page.locator("pre span").evaluate_all("all => all.map((one) => getComputedStyle(one).textDecorationLine)")
    assert set(lines) == {"none"}


def test_in_the_dark_pages_and_pictures_are_dark(opened):
    page = opened(f"{NAMES[0]}.html", scheme="dark")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(light[:3]) < 60
    picture = page.locator("figure.picture img:visible").first
    assert "course-dark" in picture.get_attribute("class")
    picture.scroll_into_view_if_needed()
    picture.evaluate("one => one.decode()")
    shades = Image.open(io.BytesIO(picture.screenshot())).convert("L")
    assert ImageStat.Stat(shades).median[0] < 40


@pytest.mark.parametrize("name", MOVED)
def test_the_picture_of_a_panel_follows_the_hand_within_a_tenth_of_a_second(opened, name):
    page = opened(f"{name}.html")
    assert page.locator(PANEL).count()
    for place in range(page.locator(PANEL).count()):
        panel = page.locator(PANEL).nth(place)
        panel.scroll_into_view_if_needed()
        page.wait_for_timeout(1500)  # every frame is fetched from disk as soon as the page is idle
        taken = panel.evaluate(FOLLOWED)
        seconds = sorted(milliseconds / 1000 for milliseconds, _ in taken)
        print(f"{name}: {len(taken)} moves, median {seconds[len(seconds) // 2]:.3f} s, slowest {seconds[-1]:.3f} s")
        assert len(taken) > 3 and seconds[len(seconds) // 2] < 0.1
        assert all(jump < 60 for _, jump in taken), "the panel jumps"


def test_a_panel_whose_slider_is_a_step_plays_to_its_end(opened):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    panel = page.locator(PANEL).first
    panel.get_by_role("button", name="play").click()
    last = panel.locator("input").get_attribute("max")
    page.wait_for_function("([panel, last]) => panel.dataset.shown === last", arg=[panel.element_handle(), last],
                           timeout=20_000)
    assert panel.locator("img").get_attribute("alt").startswith(f"step {last}")


def test_the_arrows_move_the_steps_of_the_picture_in_view_and_no_other_and_nothing_moves_by_itself(opened):
    page = opened("ch03_ring_all_reduce.html")
    panel = page.locator(PANEL).first
    begun = panel.get_attribute("data-shown")
    page.keyboard.press("ArrowRight")
    panel.scroll_into_view_if_needed()
    page.wait_for_timeout(1200)  # longer than a beat of a picture that plays
    assert panel.get_attribute("data-shown") == begun
    page.keyboard.press("ArrowRight")
    page.wait_for_function("([panel, shown]) => panel.dataset.shown === shown",
                           arg=[panel.element_handle(), str(int(begun) + 1)])
    assert panel.locator("button:visible").count() == 1


def test_code_that_only_draws_is_a_line_below_its_picture_and_opens_there(opened):
    page = opened("ch03_ring_all_reduce.html")
    cell = page.locator(".cell.tag_quiet:has(.course-player)").first
    line = cell.locator("summary")
    assert line.inner_text().strip() == "Code of this picture" and not cell.locator("pre").first.is_visible()
    assert line.bounding_box()["y"] > cell.locator(".course-player img").bounding_box()["y"]
    line.click()
    assert "explore(" in cell.locator("pre").first.inner_text()


def test_enter_opens_what_was_measured_and_a_guess_is_answered_there(opened):
    page = opened(f"{NAMES[0]}.html")
    field = page.locator("input[name=guess_notes]")
    far = "Your guess of 8 is 8 times the answer. The answer, measured: 1. Four lines in"
    for guess, said in (("8", far), ("1", "Your guess of 1 is exact.")):
        field.fill(guess)
        field.press("Enter")
        page.wait_for_function("() => document.querySelector('p.guessed')")
        assert page.locator(".guessed").first.inner_text().startswith(said)


def test_letters_are_answered_too(opened):
    page = opened(f"{NAMES[0]}.html")
    page.evaluate(OPEN)
    page.locator("input[name=guess_traces]").fill("tpdmf")
    page.locator("input[name=guess_traces]").press("Enter")
    assert page.locator("p.guessed").inner_text() == "Your guess of tpdmf is right."


def test_a_guess_that_is_not_a_number_is_refused_in_a_sentence(opened):
    page = opened(f"{NAMES[0]}.html")
    field = page.locator("input[name=guess_million]")
    field.fill("abc")
    field.press("Enter")
    assert page.locator(".guess [role=status]").inner_text().startswith("“abc” is not a number: write one such as 12, ")
    assert page.locator("details.veil[open]").count() == 0
    field.fill("1,000")
    field.press("Enter")
    assert page.locator(".guess [role=status]").count() == 0


def test_a_guess_below_zero_is_refused_where_there_can_only_be_more(opened):
    page = opened(f"{NAMES[0]}.html")
    page.fill("input[name=guess_million]", "-3")
    page.press("input[name=guess_million]", "Enter")
    said = "“-3” is less than nothing, and this can only be more."
    assert page.locator(".guess [role=status]").inner_text() == said
    assert page.locator("details.veil[open]").count() == 0


ASKED = {  # what a box says, and the unit of its answer
    "MB": "MB that all eight ranks send", "GB/s": "in GB/s", "µs": "in µs: 64 ranks", "times as long": "time / time",
    "places": "places of 10,000 that differ", "requests a second": "requests a second, of 30 that arrive",
    "": "idle time as a share of all time", "%": "in %", "days": "in days"}


@pytest.fixture(scope="module")
def reader(browser):
    """Returns what guess.js makes of a guess: its value and words, or the sentence that refuses it."""
    page = browser.new_page()
    page.add_script_tag(path=ROOT / "docs/book_and_slides/look/guess.js")
    yield lambda said, unit: page.evaluate("([said, unit, asked]) => readGuess(said, {unit, asked})",
                                           [said, unit, ASKED[unit]])
    page.close()


@pytest.mark.parametrize("said, unit, words", [
    ("56 MB", "MB", "56 MB"), ("56mb", "MB", "56mb"), ("56000 kB", "MB", "56000 kB (56 MB)"),
    ("0.5 GiB", "MB", "0.5 GiB (536.871 MB)"), ("448 Mb", "MB", "448 Mb (56 MB)"),
    ("480 Gb/s", "GB/s", "480 Gb/s (60 GB/s)"), ("480 Gbps", "GB/s", "480 Gbps (60 GB/s)"),
    ("60 GB per second", "GB/s", "60 GB per second"), ("0.63 ms", "µs", "0.63 ms (630 µs)"), ("630us", "µs", "630us"),
    ("48 h", "days", "48 h (2 days)"), ("64/4", "times as long", "64/4 (16 times)"), ("1/2", "", "1/2 (0.5)"),
    ("2 x 7", "MB", "2 x 7 (14 MB)"), ("2x", "times as long", "2x"), ("2 times", "times as long", "2 times"),
    ("2 times as long", "times as long", "2 times as long"), ("30 %", "", "30 % (0.3)"), ("100%", "", "100% (1)"),
    ("30 %", "%", "30 %"), ("10k", "places", "10k (10,000 places)"), ("1 000 000", "MB", "1 000 000"),
    ("9,999 of 10,000 places", "places", "9,999 of 10,000 places"), ("about 4", "requests a second", "about 4"),
    ("4 requests per second", "requests a second", "4 requests per second")])
def test_a_guess_is_taken_in_the_unit_of_the_question_its_relatives_or_as_a_fraction(reader, said, unit, words):
    assert reader(said, unit).get("words") == words


@pytest.mark.parametrize("said, unit, why", [
    ("56 s", "MB", "is a time, but the question asks for MB: write 56 or 56 MB"),
    ("60 GB", "GB/s", "is a number of bytes, but the question asks for GB/s: write 60 or 60 GB/s"),
    ("2 times", "MB", "is a ratio, but the question asks for MB: write the number itself, in MB"),
    ("100%", "places", "is a share, but the question asks for places: write 10,000"),
    ("40 seconds", "requests a second", "is a time, but the question asks for requests a second: write 40 or 40 "
                                        "requests a second"),
    ("3 s", "", "is a time, but the question asks for a share, such as 0.3 or 30 %: write it as a share"),
    ("10,001", "places", "is more than all 10,000: write a number from 0 to 10,000"),
    ("31 requests", "requests a second", "is more than all 30: write a number from 0 to 30"),
    ("3 apples", "MB", "ends in “apples”, but the question asks for MB: write 3 or 3 MB"),
    ("16 ranks", "µs", "ends in “ranks”, but the question asks for µs: write 16 or 16 µs"),
    ("1 6", "MB", "is two numbers: write one, such as 16 or 1.6"),
    ("12, 13", "MB", "is two numbers: write one, such as 12"),
    ("20-25", "MB", "is a range: write one number, such as 22.5"),
    ("20 MB to 30 MB", "MB", "is a range: write one number, such as 25"),
    ("1,5", "MB", "is not a number here: write 1.5"),
    ("1/0", "MB", "is not a number: write one such as 12, 1.5e3, 3/4 or 12 MB"),
    ("x", "places", "is not a number: write one such as 12, 1.5e3, 3/4 or 12 places"),
    ("x", "", "is not a number: write one such as 0.3, 3/10 or 30 %")])
def test_a_guess_that_cannot_be_taken_is_told_in_one_sentence_what_to_write(reader, said, unit, why):
    assert reader(said, unit) == {"refused": f"“{said}” {why}."}


@pytest.mark.parametrize("name, guess, said", [
    ("crossover", "400 kB", "Your guess of 400 kB (400,000 bytes) is 45 % of the answer. The answer, by formula: 897"),
    ("crossover", "~898000", "Your guess of ~898000 is exact. The answer, by formula: 897"),
    ("crossover", "9000000", "Your guess of 9000000 is 10 times the answer."),
    ("crossover", "898", "Your guess is 898. In kB? That is 898,000 bytes, exact."),
    ("crossover", "9000", "Your guess of 9000 is 1/100 of the answer."),
    ("crossover", "350 ns", "“350 ns” is a time, but the question asks for bytes: write 350 or 350 bytes."),
    ("bytes", "56,000,000", "Your guess is 56,000,000. In bytes? That is 56 MB, exact."),
    ("bytes", "56 s", "“56 s” is a time, but the question asks for MB: write 56 or 56 MB."),
    ("bytes", "112", "Your guess of 112 is twice the answer. The answer: 56 MB."),
    ("growth", "2x", "Your guess of 2x is 1/11 of the answer. The answer, simulated: 21 times as long.")])
def test_a_guess_is_answered_beside_the_number_in_the_unit_that_was_asked_for(opened, name, guess, said):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    page.evaluate(OPEN)
    page.fill(f"input[name=guess_{name}]", guess)
    page.press(f"input[name=guess_{name}]", "Enter")
    assert any(one.startswith(said) for one in page.locator(".guessed, .refused").all_inner_texts())


@pytest.mark.parametrize("guess, kind", [("800 kB", "right"), ("500 kB", "near"), ("100 kB", "far")])
def test_a_guess_within_a_quarter_is_green_and_one_within_a_factor_of_two_amber(opened, guess, kind):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    page.evaluate(OPEN)
    page.fill("input[name=guess_crossover]", guess)
    page.press("input[name=guess_crossover]", "Enter")
    assert page.locator(".guessed").get_attribute("class") == f"guessed {kind}"
    assert ("close: " in page.locator(".guessed").inner_text()) is (kind == "right")


def test_a_veil_says_what_it_hides_and_where_its_guess_stands_when_that_is_in_another_section(opened):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    said = page.locator("details.veil[data-guess=guess_bytes] > summary")
    assert re.search(r"show what follows: (?:a|\d+) paragraphs?.* The guess stands in 2 · ", said.inner_text())
    assert page.locator(said.get_by_role("link").get_attribute("href")).locator("[name=guess_bytes]").count() == 1


def test_a_guess_that_is_answered_in_a_later_section_says_at_once_where(opened):
    page = opened(f"{next(name for name in NAMES if name.startswith('ch03'))}.html")
    page.fill("input[name=guess_bytes]", "32")
    page.press("input[name=guess_bytes]", "Enter")
    told = page.locator(".guess:has([name=guess_bytes]) [role=status]")
    told.wait_for()
    assert told.inner_text() == "Your guess is kept. It is answered in 3 · What your ring costs."
    assert page.locator(told.get_by_role("link").get_attribute("href")).count() == 1


def test_a_guess_and_what_it_opened_are_there_again_when_the_page_is(opened):
    page = opened(f"{NAMES[0]}.html")
    page.fill("input[name=guess_notes]", "8")
    page.press("input[name=guess_notes]", "Enter")
    page.wait_for_function("() => document.querySelector('p.guessed')")
    page.reload()
    page.wait_for_function("() => document.querySelector('p.guessed')")
    assert page.input_value("input[name=guess_notes]") == "8"
    assert page.locator("details.veil[open]").count() == 1


@pytest.mark.parametrize("size", ["laptop", "narrow", "phone"])
def test_the_first_page_has_one_left_and_one_right_edge_and_two_sizes_of_text(opened, size):
    page = opened("index.html", size)
    edges = """all => all.map((one) => one.getBoundingClientRect())
        .map(({left, right}) => [Math.round(left), Math.round(right)])"""
    rows = page.locator("section > h1, .pair, .cards").evaluate_all(edges)
    beside = page.locator(".first-picture, .pair > :last-child, .card:nth-child(3n + 2)").evaluate_all(edges)
    assert len(rows) > 4 and len(set(map(tuple, rows))) == 1
    assert size != "laptop" or len({left for left, _ in beside}) == 1  # the second of three columns
    sizes = page.evaluate("""() => new Set([...document.querySelectorAll("article :is(p:not(.begin), li, .card > *)")]
        .filter((one) => one.checkVisibility()).map((one) => getComputedStyle(one).fontSize)).size""")
    assert sizes == 2


@pytest.mark.parametrize("size", ["laptop", "narrow", "phone"])
@pytest.mark.parametrize("name", NAMES)
def test_all_begins_at_one_edge_and_boxes_end_at_one_beyond_which_no_text_goes(opened, name, size):
    page = opened(f"{name}.html", size)
    page.evaluate("document.querySelectorAll('details:is(.veil, .further)').forEach((one) => one.open = true)")
    edges = page.evaluate("""() => [...document.querySelectorAll("article section > p, .veil > p, div.cell_input, "
        + ".cell_output pre, figure.picture, .course-page, .table-wrapper, .guess, .course-card")]
        .filter((one) => one.checkVisibility() && one.clientWidth)
        .filter((one) => !one.closest("li, details:not(.veil, .hide, .further)"))
        .filter((one) => innerWidth > 736 || !one.matches("figure.picture, .course-page"))  // a phone's are wider
        .map((one) => [one, one.getBoundingClientRect()])
        .map(([one, {left, right}]) => [one.matches("p"), Math.round(left), Math.round(right)])""")
    texts, boxes = ({tuple(edge) for is_text, *edge in edges if is_text is kind} for kind in (True, False))
    ((left, right),) = boxes
    assert len(edges) > 20 and all(edge[0] == left and right - 110 < edge[1] <= right for edge in texts)


def test_on_a_laptop_the_links_below_a_title_are_on_one_line(opened):
    page = opened("ch06_pipeline_parallel.html", "laptop")
    tops = page.locator(".nearby a").evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    assert len(tops) == 2 and len(set(tops)) == 1 and page.locator(".nearby").bounding_box()["height"] < 40


def test_on_a_phone_nothing_stands_over_the_text_and_tables_of_exercises_are_whole(opened):
    page = opened("exercises.html", "phone")
    page.mouse.wheel(0, 3000)
    page.mouse.wheel(0, -500)
    assert not page.locator(".back-to-top").is_visible()
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".table-wrapper").evaluate_all(cut) <= 1


def test_on_a_phone_a_formula_has_smaller_letters_down_to_80_percent_and_then_moves(opened):
    page = opened("ch08_serving.html", "phone")
    fits = page.locator(".formula").evaluate_all(
        "all => all.map((one) => [Number(one.style.getPropertyValue('--fit') || 1), one.matches('.wider')])")
    assert any(.8 < fit < 1 for fit, _ in fits) and all(fit == .8 for fit, moves in fits if moves)


def test_on_a_phone_long_names_in_tables_are_broken_and_a_flag_is_not(opened):
    page = opened("ch03_ring_all_reduce.html", "phone")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.locator("article .table-wrapper").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)") == []
    page.goto(page.url.replace("ch03_ring_all_reduce", "ch08_serving"))
    flags = page.locator("td code .pre", has_text="--max-num-batched")
    assert flags.evaluate_all("all => all.map((one) => one.getClientRects().length)") == [1]


@pytest.mark.parametrize("size", ["laptop", "phone"])
def test_many_rows_of_columns_are_not_broken_and_lines_of_code_only_where_they_hang(opened, size):
    page = opened("ch01_memory_math.html", size)
    broken = page.evaluate("""() => [...document.querySelectorAll(".cell_input pre, pre.columns")].filter((one) =>
        one.checkVisibility() && !one.matches(".wrapped") && getComputedStyle(one).whiteSpace !== "pre")""")
    table = page.locator("pre.columns", has_text="GB on each of 8 GPUs")
    assert broken == [] and table.count() == 1
    cut = page.locator(".cell_input pre.wider:visible").count()
    assert size == "laptop" or page.locator("pre.wrapped > .line").count() > 5 and cut == 0
    assert table.evaluate("one => one.classList.contains('wider')") is (size == "phone")


@pytest.mark.parametrize("name", NAMES)
def test_on_a_laptop_code_has_letters_of_17_pixels_and_no_line_of_110_letters_is_cut(opened, name):
    page = opened(f"{name}.html", "laptop")
    cut = page.locator("div.highlight > pre").evaluate_all(
        "all => all.filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)"
        ".map((one) => one.textContent)")
    assert [text for text in cut if max(map(len, text.split("\n"))) <= 110] == []
    sizes = page.locator(".cell_input pre").evaluate_all("all => all.map((one) => getComputedStyle(one).fontSize)")
    assert set(sizes) == {"17px"}


def test_on_paper_nothing_is_cut_and_nothing_stands_over_the_text(opened):
    page = opened("ch06_pipeline_parallel.html", scheme="dark")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 1000})  # A4 with margins
    boxes = page.locator("article :is(pre, img, figure)")
    assert boxes.evaluate_all("""all => all.filter((one) => one.checkVisibility()
        && Math.max(one.scrollWidth - one.clientWidth - 1, one.getBoundingClientRect().right - innerWidth) > 0)
        .map((one) => one.outerHTML.slice(0, 200))""") == []
    assert not page.locator(".skip-to-content").is_visible() and not page.locator(".back-to-top").is_visible()
    assert page.locator("img.course-light:visible").count() and not page.locator("img.course-dark:visible").count()


def test_on_paper_what_was_measured_and_hints_are_open_and_answers_and_empty_guesses_are_left_out(opened):
    page = opened("ch06_pipeline_parallel.html")
    page.locator(".guess input").first.fill("16")
    page.emulate_media(media="print")
    seen = "all => all.map((one) => one.checkVisibility({contentVisibilityAuto: true}))"
    assert set(page.locator("details.veil .cell_output").evaluate_all(seen)) == {True}
    assert set(page.locator("summary:has-text('Hint 1') ~ p").evaluate_all(seen)) == {True}
    assert set(page.locator("details.answer").evaluate_all(seen)) == {False}
    boxes = page.locator(".guess").evaluate_all(seen)
    assert boxes[0] and not any(boxes[1:])


def test_on_paper_text_is_as_wide_as_the_sheet_and_code_and_output_are_not_cut_in_two(opened):
    page = opened("ch06_pipeline_parallel.html")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 1000})
    wide = page.locator("article section > p:not(.guessed)").evaluate_all("all => all.map((one) => one.clientWidth)")
    assert max(wide) - min(width for width in wide if width) < 20 and max(wide) > 600
    kept = page.locator("div.cell, figure.picture").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).breakInside)")
    assert set(kept) == {"avoid"}


def test_a_wide_picture_that_is_tapped_on_a_phone_is_turned_and_fills_the_screen_until_it_is_tapped_again(opened):
    page = opened("ch10_the_network.html", "phone")
    picture = page.locator("figure.picture img:visible").first
    picture.scroll_into_view_if_needed()
    picture.evaluate("one => one.decode()")
    picture.click(position={"x": 50, "y": 50})
    dialog, large = page.locator("dialog.whole"), page.locator("dialog.whole img")
    assert dialog.evaluate("one => one.open") and large.get_attribute("alt") == picture.get_attribute("alt")
    assert large.bounding_box()["height"] == 844 and large.bounding_box()["x"] >= 0
    assert page.locator("figure.picture figcaption").first.inner_text() in dialog.inner_text()
    assert dialog.evaluate("one => one.scrollHeight <= 844 && one.scrollWidth <= 390")
    dialog.click(position={"x": 50, "y": 420})
    assert not dialog.evaluate("one => one.open")


def test_a_picture_that_is_clicked_on_a_laptop_is_as_wide_as_the_window_below_its_title(opened):
    page = opened("ch10_the_network.html", "laptop")
    page.locator("figure.picture img:visible").first.click()
    large, title = page.locator("dialog.whole img").bounding_box(), page.locator("dialog.whole p")
    assert title.inner_text() == page.locator("figure.picture figcaption").first.inner_text()
    above, below = title.bounding_box()["y"], 900 - large["y"] - large["height"]
    assert large["width"] == 1440 and abs(above - below) <= 1 and title.bounding_box()["height"] < 60


@pytest.mark.parametrize("size", ["laptop", "phone"])
def test_the_field_of_a_guess_its_unit_and_its_button_are_on_one_line(opened, size):
    page = opened("ch03_ring_all_reduce.html", size)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    boxes = page.locator("div.guess").evaluate_all("""all => all.map((one) => [".unit", "button"].map((part) =>
        one.querySelector(part).getBoundingClientRect().top < one.querySelector("input").getBoundingClientRect().bottom
        && one.querySelector(part).getBoundingClientRect().right < innerWidth))""")
    assert len(boxes) > 3 and all(all(box) for box in boxes)
    assert page.locator("div.guess:has([name=guess_crossover]) .unit").inner_text() == "bytes"


def test_on_a_phone_what_a_finger_taps_is_44_pixels_high_and_guesses_have_the_keys_of_numbers(opened):
    page = opened("ch03_ring_all_reduce.html", "phone")
    page.evaluate("document.querySelectorAll('details.veil').forEach((one) => one.open = true)")
    taps = "article :is(summary, .guess button, .guess input, .copy, .setting, .course-play button):visible"
    high = page.locator(taps).evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
    assert len(high) > 10 and min(high) >= 43.9
    assert set(page.locator(".guess input").evaluate_all("all => all.map((one) => one.inputMode)")) == {"decimal"}


def test_on_a_phone_choices_under_a_picture_begin_at_one_edge(opened):
    page = opened("ch10_the_network.html", "phone")
    page.evaluate("document.querySelectorAll('details.veil').forEach((one) => one.open = true)")
    left = page.locator(".course-page .course-group").evaluate_all(
        "all => all.map((one) => Math.round(one.getBoundingClientRect().left))")
    assert len(left) > 3 and len(set(left)) == 1


def test_on_a_phone_choices_that_do_not_fit_side_by_side_have_a_line_each(opened):
    page = opened("ch10_the_network.html", "phone")
    page.evaluate("document.querySelectorAll('details.veil').forEach((one) => one.open = true)")
    for name, lines in (("guess_limit", 4), ("guess_unit", 1)):  # of detour, card, cable and uplink, and of 1, 4 and 8
        tops = page.locator(f"fieldset.guess:has([name={name}]) label").evaluate_all(
            "all => all.map((one) => Math.round(one.getBoundingClientRect().top))")
        assert len(tops) > 2 and len(set(tops)) == lines


@pytest.mark.parametrize("size", ["laptop", "phone"])
def test_a_panel_that_was_made_large_keeps_its_controls_and_gives_them_back(opened, size):
    page = opened("ch03_ring_all_reduce.html", size)
    page.locator(f"{PANEL} img").first.click(position={"x": 50, "y": 50})
    dialog = page.locator("dialog.whole")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('dialog.whole img').alt.startsWith('step 2')")
    assert dialog.evaluate("one => one.open")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelectorAll('.whole .course-controls').length === 0")
    assert page.locator(f"{PANEL} > .course-controls").count() == page.locator(PANEL).count()


def test_imports_checks_and_calls_that_draw_are_seen_once_all_code_is_asked_for_and_on_the_next_page(opened):
    page = opened(f"{NAMES[0]}.html")
    folds = page.locator(".tag_plumbing > :is(.cell_input, details.hide)")
    seen = "all => new Set(all.map((one) => one.checkVisibility())).size + Number(all[0].checkVisibility())"
    assert folds.count() > 5 and folds.evaluate_all(seen) == 1
    page.get_by_label("Show all code").check()
    assert page.locator(".tag_plumbing details.above-input:not([open])").count() == 0
    page.goto(page.url.replace(NAMES[0], NAMES[1]))
    assert page.locator(".tag_plumbing.tag_imports pre").first.is_visible()
    page.get_by_label("Show all code").uncheck()
    assert not page.locator(".tag_plumbing.tag_imports pre").first.is_visible()


def test_a_wrapped_line_of_code_goes_on_two_letters_right_of_its_beginning(opened):
    page = opened("ch08_serving.html", "laptop")
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    page.wait_for_function("() => document.querySelector('pre.wrapped > .line')")
    begun = page.locator("pre.wrapped > .line").evaluate_all("""all => all.map((one) => {
        const text = new Range(), letter = one.style.getPropertyValue("--in"), edge = one.parentElement;
        text.selectNodeContents(one);
        const lefts = [...text.getClientRects()].filter(({width}) => width > 1).map(({left}) => left);
        return one.clientHeight > 30 && [Math.min(...lefts) >= edge.getBoundingClientRect().left, Number(letter)];
    }).filter(Boolean)""")
    assert begun and all(inside for inside, _ in begun)
    hang = page.locator("pre.wrapped > .line").first.evaluate("one => [getComputedStyle(one).paddingLeft, "
                                                              "getComputedStyle(one).textIndent].map(parseFloat)")
    assert hang[0] > 10 and hang[0] == -hang[1]


def test_on_a_phone_a_line_of_code_that_is_set_in_far_begins_eight_letters_in(opened):
    page = opened("ch10_the_network.html", "phone")
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    line = page.locator("pre.wrapped > .line", has_text="node1:48:97").last
    inside, begins = line.evaluate("""one => {
        const text = [...one.querySelectorAll("*")].find(({textContent}) => textContent.trim());
        const [first] = text.getClientRects(), size = parseFloat(getComputedStyle(one).fontSize);
        return [Number(one.style.getPropertyValue("--in")), (first.left - one.getBoundingClientRect().left) / size * 2];
    }""")
    assert inside > 20 and begins == pytest.approx(8, abs=0.5)  # a letter is half as wide as high


def test_the_meaning_of_a_term_stands_above_it_where_there_is_room_and_else_leaves_the_next_line_free(opened):
    page = opened("ch06_pipeline_parallel.html")
    note, link = page.locator("#meaning"), page.locator(TERM_LINK).first
    for top, above in ((500, True), (60, False)):
        page.evaluate("document.activeElement.blur()")
        link.evaluate("(one, top) => scrollBy(0, one.getBoundingClientRect().top - top)", top)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        link.evaluate("one => one.focus({preventScroll: true})")
        box, at = note.bounding_box(), link.bounding_box()
        assert box["y"] + box["height"] <= at["y"] if above else box["y"] > at["y"] + 1.9 * at["height"]


def test_a_heading_that_a_link_has_led_to_is_marked_for_two_seconds(opened):
    page = opened("ch08_serving.html", "laptop")
    page.locator(".toc-tree a[href^='#']").nth(3).click()
    mark, heading = page.locator(".arrived"), page.locator(":target > :is(h2, h3)")
    wide = heading.evaluate("one => { const words = new Range(); words.selectNodeContents(one.firstChild); "
                            "return words.getBoundingClientRect().width; }")
    assert mark.bounding_box()["width"] <= wide + 1 < heading.bounding_box()["width"] / 2
    assert mark.evaluate("one => getComputedStyle(one).backgroundColor") != "rgba(0, 0, 0, 0)"
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    page.wait_for_function("() => !document.querySelector('.arrived')")


def test_the_search_counts_what_it_lists_in_the_column_of_all_pages(opened):
    page = opened("ch03_ring_all_reduce.html", "laptop")
    left = page.locator("article").bounding_box()["x"]
    page.goto(page.url.replace("ch03_ring_all_reduce.html", "search.html?q=bandwidth"))
    page.wait_for_function("() => /^\\d+ results?\\./.test(document.querySelector('.search-summary')?.textContent)")
    many = page.locator("#search-results li").count()
    assert page.locator(".search-summary").inner_text().startswith(f"{many} results.")
    assert page.locator("article").bounding_box()["x"] == left


def test_numbers_their_units_and_the_sign_between_them_and_an_option_are_not_broken(opened):
    page = opened("ch08_serving.html")
    texts = page.locator("article p, article li, article td").evaluate_all(
        "all => all.filter((one) => !one.closest('.cell_output, .guess')).map((one) => one.innerHTML)")
    parted = re.compile(r"\d (?:[·×→] \d|%|[kMGT]B|[µmn]?s\b)")
    assert not [text for text in texts if parted.search(re.sub("<code.*?</code>", "", text))]
    options = page.locator("code.option .pre").evaluate_all("all => all.map((one) => getComputedStyle(one).whiteSpace)")
    assert options and set(options) == {"nowrap"}


def test_enter_on_a_picture_opens_it_and_does_not_close_it_at_once(opened):
    page = opened(f"{NAMES[0]}.html")
    page.locator("figure.picture img:visible").first.press("Enter")
    assert page.locator("dialog.whole").evaluate("one => one.open")


def test_on_a_phone_the_contents_go_when_they_have_led_somewhere(opened):
    page = opened(f"{NAMES[0]}.html", "phone")
    page.locator("label.toc-header-icon").click()
    page.locator(".toc-drawer a").nth(2).click()
    assert not page.locator("#__toc").is_checked()


@pytest.mark.parametrize("name", NAMES)
def test_on_slides_nothing_is_cut_no_letter_is_small_and_each_guess_has_its_slide(opened, name):
    page = opened(f"{name}.slides.html", "projector")
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    assert page.evaluate(OVERFLOW) == []
    cells = find(name).notebook.cells
    summary = next(place for place, cell in enumerate(cells) if "## What we learned" in cell.source)
    guesses = sum("prediction" in tags(cell) for cell in cells[:summary])
    assert page.locator("section.guess:not(.goes-on)").count() >= guesses > 0  # questions of the text are asked, too
    assert 25 <= page.evaluate("Reveal.getTotalSlides()") <= 80
    last = page.locator("section.summary + section h2").last  # after the summary comes what the talk can do without
    assert last.count() == 0 or last.text_content() == "If there is time"


def test_the_speakers_notes_open_and_hold_the_text(opened):
    page = opened(f"{NAMES[0]}.slides.html", "projector")
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    with page.context.expect_page() as window:
        page.keyboard.press("s")
    notes = window.value
    first = notes.locator("#said").inner_text()
    page.keyboard.press("ArrowRight")
    second = notes.locator("#said").inner_text()
    assert "On the slide" in first and second != first and len(second) > 300
    assert notes.locator("#now").inner_text() == page.locator("section.present h2").inner_text()
