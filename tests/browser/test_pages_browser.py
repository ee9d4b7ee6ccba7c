"""The pages of grading in a browser: light, dark, on a phone, on a projector and on paper, with nothing cut off."""

from __future__ import annotations

import sys

import pytest
from opened import PROJECTOR, SEEN

from exercises_tests.grading import class_page, feedback, similar, similar_page, watch, workshop
from exercises_tests.tools.chapters import ROOT, find

sys.path.insert(0, str(ROOT / "tests"))

from made_up_folder import STATES, save  # noqa: E402
from made_up_records import ABOUT, class_of, record  # noqa: E402

PHONE = {"width": 390, "height": 844}
NOW = 1_800_000_000.0
CUT_OFF = """() => [...document.querySelectorAll("body *")].filter(part => !part.closest(".scroll, svg, pre, .bar")
    && part.getBoundingClientRect().right > innerWidth + 1).map(part => part.outerHTML.slice(0, 80))"""
# Of each piece of text in the page (not on coloured bars and squares, whose letters are dark): its contrast.
FAINT = """() => {
    const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(part => { const x = part / 255;
        return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ground = part => { for (; part; part = part.parentElement) {
        const found = getComputedStyle(part).backgroundColor; if (!found.endsWith(", 0)")) return found; }
        return "rgb(255, 255, 255)"; };
    return [...document.querySelectorAll("p, h1, h2, h3, li, td, th, pre, figcaption, pre span")].filter(part =>
        part.textContent.trim() && !part.matches(".c")).map(part => {
            const [a, b] = [getComputedStyle(part).color, ground(part)].map(light).sort((x, y) => x - y);
            return [(b + 0.05) / (a + 0.05), part.outerHTML.slice(0, 80)]; })
        .filter(([contrast]) => contrast < 4.5);
}"""


def pages() -> dict[str, str]:
    """Return the pages of a made-up class by name."""
    one = record("Ann O'Neil", ["deadlock", "whole-tensor", "", "borrowed"], attempt=2, attempts=2, late_hours=26.0)
    two = record("Ann O'Neil", ["raised", "mean", "not-written", ""], chapter="ch02_collectives")
    return {
        "feedback": feedback.feedback("Ann O'Neil", [one, two], [one | {"attempt": 1}, one], ABOUT["graded with"]),
        "class": class_page.class_page(class_of(40), ABOUT),
    }


def alike(path) -> None:
    """Write the page of answers that are alike, for two learners with long names and long lines among eight others."""
    names = "Bartholomew Featherstonehaugh", "Wilhelmina_von_Hohenfels"
    long = "\n".join(["def hierarchical_all_reduce(sizes, cap):",
                      "    found = sum(each * 2 for each in sizes)" + " + cap" * 20, "    print(cap, found - 7)",
                      "    return [found // one for one in range(cap)]"])
    answers = {name: {"hierarchical_all_reduce": long} for name in names}
    answers |= {f"other {place}": {"hierarchical_all_reduce": "def f(a):\n    while a:\n        a -= len(str(a)) + 1\n"
                                   "    return {a: [a, a]}"} for place in range(8)}  # fmt: skip
    similar_page.write(path, similar.compare(answers, {}), answers)
    assert names[0] in path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder with the pages."""
    folder = tmp_path_factory.mktemp("pages")
    chapter = find("ch03")
    names = [exercise.id for exercise in chapter.exercises]
    for place in range(40):
        done = ["passed"] * (place % 4) + [STATES[place % 5]]
        states = dict(zip(names, done, strict=False))
        save(folder / "class", f"Learner Number{place:02d}", chapter, states, NOW - 90 * place)
    watched = workshop.Workshop(folder / "class", {chapter.name: chapter})
    watched.look()
    made = pages() | {"live": watch.live_page(watched, NOW), "live_names": watch.live_page(watched, NOW, names=True)}
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    alike(folder / "similar.html")
    return folder


@pytest.mark.parametrize("screen", [PROJECTOR, PHONE], ids=["projector", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["feedback", "class", "live", "live_names", "similar"])
def test_a_page_can_be_read_on_every_screen(browser, written, request, name, scheme, screen):
    context = browser.new_context(viewport=screen, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto((written / f"{name}.html").as_uri())
    if request.config.getoption("--screenshots"):
        SEEN.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SEEN / f"grading_{name}_{scheme}_{screen['width']}.png", full_page=True)
    assert faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(FAINT) == []
    context.close()


@pytest.mark.parametrize("name", ["feedback", "class", "live", "similar"])
def test_a_page_can_be_printed_from_a_dark_screen(browser, written, request, name):
    context = browser.new_context(viewport=PROJECTOR, color_scheme="dark")
    page = context.new_page()
    page.goto((written / f"{name}.html").as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(34, 34, 34)"
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF") and 1 <= printed.count(b"/Type /Page\n") <= 12
    if request.config.getoption("--screenshots"):
        (SEEN / f"grading_{name}.pdf").write_bytes(printed)
    context.close()
