"""The chapters in a real JupyterLab and a real browser, as a learner meets them: make test-browser."""

from __future__ import annotations

import colorsys
import copy
import io
import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest
from opened import CURRENT, PROJECTOR, RUN_SECONDS, SEEN, SMALL, Opened, data, outputs, plain
from PIL import Image

from course_lib.plots.canvas import SMALLEST
from course_lib.plots.png_files import SHARP
from exercises_tests.tools.chapters import chapters, solutions, solved, tags
from exercises_tests.tools.copies import write

CHAPTERS = {chapter.name: chapter for chapter in chapters()}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
# Width, height, and pixels of the screen for one of the page: what a browser enlarged to 150 % has on a projector.
SCREENS = {"projector": (1280, 720, 1.0), "1024": (1024, 768, 1.0), "150": (853, 480, 1.5), "phone": (390, 844, 2.0)}
# What an unsolved chapter may say: a check, why it fails; a cell that needs an exercise, which one, or that an earlier
# cell, which needs it too, has not given it a value.
UNSOLVED = {"check": re.compile(r"✗ \w+ "),
            "needs": re.compile(r"needs \w+: write it, or borrow it|NameError: name '\w+' is not defined")}  # fmt: skip
TWO_FRAMES = 2000 / 60  # milliseconds
WIDGET = "application/vnd.jupyter.widget-view+json"
TRACES = ("Traceback", "---->", "site-packages", "course_lib/", "exercises_tests/")
HANG = "import time\nwhile True:\n    time.sleep(0.01)"


def pytest_generate_tests(metafunc):
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", list(CHAPTERS))
        metafunc.parametrize("state", ["as_given", "with_answers"])


@pytest.fixture
def keep_pictures(request) -> str | None:
    return request.config.getoption("--screenshots")


# Every chapter --------------------------------------------------------------------------------------------------------


def test_a_chapter_runs_and_shows_its_pictures_and_widgets(page, lab, course, chapter, state, keep_pictures):
    """It opens, runs from top to bottom, and shows every picture with words and every widget with names."""
    path = f"{chapter}.ipynb"  # the copy that the course's own command has made
    if state == "with_answers":
        path = f"solved_{path}"
        write(course / "work" / path, solved(CHAPTERS[chapter]))
    with closing(Opened(page, lab, path)) as notebook:
        notebook.run_all()
        folder = SEEN / f"{chapter}_{state}" if keep_pictures else None
        look_at(notebook, state == "with_answers", folder, keep_pictures)
    assert page.faults == []
    assert page.locator(".jp-Dialog").count() == 0


def look_at(notebook: Opened, answered: bool, folder: Path | None, kept: str | None) -> None:
    """Assert what every chapter must show once it has run."""
    cells = notebook.cells()
    notebook.show_answers()

    others = {name: said for name, cell in cells.items() for said in errors(cell)
              if answered or not expected(cell, said)}  # fmt: skip
    assert others == {}, "errors beside those of unsolved exercises"
    assert {name: said for name, cell in cells.items() for said in warnings(cell)} == {}, "warnings"

    pictures = [name for name, cell in cells.items() if any("image/png" in bundle for bundle in data(cell))]
    widgets = [name for name, cell in cells.items() if "explore(" in "".join(cell["source"]) and not errors(cell)]
    assert pictures or not answered, "no picture"
    assert [name for name in widgets if not any(WIDGET in bundle for bundle in data(cells[name]))] == [], "no widget"
    for name in pictures:
        for picture in notebook.pictures(name):
            assert picture["alt"], f"{name}: a picture without words"
            letters = SMALLEST / 72 * SHARP * picture["width"] / picture["own"]  # pixels on the page
            assert letters >= 12, f"{name}: letters of {letters:.1f} pixels"
    for name in widgets:
        nameless = notebook.controls(name).evaluate_all(NAMELESS)
        assert nameless == [], f"{name}: controls without an accessible name"
        values = notebook.find(name).locator("input[type=range]").evaluate_all(VALUES)
        assert [told for told, shown in values] == [shown for told, shown in values], f"{name}: the sliders' values"
    delays = {name: follow(notebook, name) for name in widgets if answered}
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "delays.json").write_text(json.dumps(delays, indent=1))
        if kept == "all":
            keep(notebook, pictures, folder)
        keep_screens(notebook, [*widgets, *cards(cells)[:4]], folder)


# What assistive technology would call each control, without those that have a name.
NAMELESS = """all => all.filter(control => {
    const by = (control.getAttribute('aria-labelledby') || '').split(' ').map(id => document.getElementById(id));
    const labels = [...(control.labels || []), ...by].map(label => label?.textContent.trim());
    const own = control.matches('button') ? control.innerText : control.getAttribute('aria-label');
    return ![own?.trim(), ...labels].some(Boolean);
}).map(control => control.outerHTML.slice(0, 200))"""


# What is told of each slider, and what is shown beside it.
VALUES = """all => all.map(slider => [slider.getAttribute('aria-valuetext'), slider.nextElementSibling.textContent])"""


def errors(cell: dict) -> list[str]:
    """Return the errors below a cell as they are shown."""
    refused = [shown["text/plain"] for shown in data(cell) if str(shown.get("text/plain", "")).startswith("✗ ")]
    return refused + [plain("\n".join(output["traceback"])) for output in outputs(cell, "error")]


def expected(cell: dict, said: str) -> bool:
    kinds = {tag.partition("-")[0] for tag in cell["metadata"].get("tags", [])}
    return any(kind in kinds and words.search(said) for kind, words in UNSOLVED.items())


def warnings(cell: dict) -> list[str]:
    """Return what a cell wrote to stderr, and warnings that went elsewhere."""
    streams = outputs(cell, "stream")
    return ["".join(output["text"]) for output in streams
            if output["name"] == "stderr" or "Warning:" in "".join(output["text"])]  # fmt: skip


def follow(notebook: Opened, name: str) -> dict[str, dict[str, list[int]]]:
    """Move every control of a cell's widget through its values; return how many ms each picture took to come.

    All frames must be drawn ahead: then it is at most a tenth of a second, and nothing below the picture moves.
    """
    cell = notebook.find(name)
    cell.locator(".course-player[data-ready=true]").wait_for(timeout=RUN_SECONDS * 1000)
    found = cell.evaluate(MOVED)
    for control, (took, still, heights) in found.items():
        late = max(0, median(still) - TWO_FRAMES)  # a busy machine draws even an unchanged page that much more slowly
        assert median(took) - late <= 100, f"{name}: {control} is followed after {took} ms, two frames take {still}"
        assert len(set(heights)) == 1, f"{name}: {control} changes its height: {heights}"
    return {control: {"followed after ms": list(map(round, took)), "two frames take ms": list(map(round, still))}
            for control, (took, still, _) in found.items()}


def keep(notebook: Opened, names: list[str], folder: Path) -> None:
    """Take every picture as it is seen on a projector, in both themes."""
    for theme, title in THEMES.items():
        notebook.theme(title)
        for name in names:
            notebook.pictures(name)
            shown = notebook.find(name).locator(".jp-Cell-outputWrapper")
            shown.screenshot(path=folder / f"{name}_{theme}.png")
    notebook.theme(THEMES["light"])


def cards(cells: dict[str, dict]) -> list[str]:
    """Return the cells that show a card, of each kind of card one."""
    kinds = {}
    for name, cell in cells.items():
        for bundle in data(cell):
            if found := re.search(r'class="course-card course-(\w+)"', "".join(bundle.get("text/html", ""))):
                kinds.setdefault((found[1], name.partition("_")[0]), name)
    return list(kinds.values())


def keep_screens(notebook: Opened, names: list[str], folder: Path) -> None:
    """Take the first screen, and the cells with these names, as they are seen on screens of several sizes."""
    for screen, (width, height, scale) in SCREENS.items():
        notebook.screen(width, height, scale)
        notebook.sidebar(width > 600)
        for theme, title in THEMES.items():
            if theme == "dark" and screen != "projector":
                continue
            notebook.theme(title)
            notebook.page.evaluate("jupyterapp.shell.currentWidget.content.node.querySelector('.jp-WindowedPanel-outer')"
                                   "?.scrollTo(0, 0)")  # fmt: skip
            notebook.page.wait_for_timeout(500)
            notebook.page.screenshot(path=folder / f"first_screen_{screen}_{theme}.png")
            for name in names:
                notebook.find(name).locator(".jp-Cell-outputWrapper").evaluate("node => node.scrollIntoView()")
                notebook.page.wait_for_timeout(300)
                notebook.page.screenshot(path=folder / f"{name}_{screen}_{theme}.png")
        notebook.theme(THEMES["light"])
    notebook.screen(*PROJECTOR.values())


# One chapter in full --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ring(browser, lab, course):
    """Chapter 3, opened and run from top to bottom; the tests below use it one after another."""
    path = course / "work" / "in_full.ipynb"
    shutil.copy(course / "notebooks" / "ch03_ring_all_reduce.ipynb", path)
    context = browser.new_context(viewport=PROJECTOR)
    context.set_default_timeout(30_000)
    with closing(Opened(context.new_page(), lab, path.name)) as notebook:
        notebook.run_all()
        yield notebook
    context.close()


def test_run_all_goes_on_past_an_unsolved_exercise(ring):
    cells = ring.cells()
    assert errors(cells["check_reduce_scatter_ring"])
    assert "crossover" in cells and not errors(cells["crossover"])
    assert cells["crossover"]["execution_count"] > cells["check_reduce_scatter_ring"]["execution_count"]
    assert outputs(cells["how_far"], "stream") or data(cells["how_far"])


def test_a_check_that_fails_shows_one_sentence_and_no_traceback(ring):
    said = ring.shown("check_reduce_scatter_ring")
    assert "✗ reduce_scatter_ring   Not written yet" in said
    assert not [trace for trace in TRACES if trace in said]
    assert len(said.strip().splitlines()) <= 3
    assert not outputs(ring.cells()["check_reduce_scatter_ring"], "error")  # a card, and nothing twice
    failed = ring.page.evaluate(FAILED, "check_reduce_scatter_ring")
    assert "course-open" in failed


def test_a_cell_that_needs_an_exercise_says_which(ring):
    said = ring.shown("ring_timeline")
    assert "needs ring_all_reduce: write it, or borrow it" in said
    assert not [trace for trace in TRACES if trace in said]


def test_a_wrong_answer_is_told_its_mistake(ring):
    ring.type_into("ring_all_reduce", "def ring_all_reduce(dist, tensor):\n    through_rank_0(dist, tensor)")
    ring.run("ring_all_reduce")
    ring.run("check_ring_all_reduce")
    said = ring.shown("check_ring_all_reduce")
    assert "✗ ring_all_reduce" in said and "rank 0" in said
    assert not [trace for trace in TRACES if trace in said]


def test_an_answer_that_is_typed_in_passes_its_check(ring):
    for name, source in solutions(CHAPTERS["ch03_ring_all_reduce"]).items():
        ring.type_into(name, source)
        ring.run(name)
        assert errors(ring.cells()[name]) == []
    for name in ("reduce_scatter_ring", "all_gather_ring", "ring_all_reduce"):
        ring.run(f"check_{name}")
        assert f"✓ {name}" in ring.shown(f"check_{name}")
    ring.run("ring_timeline")
    assert ring.pictures("ring_timeline")


def test_a_slider_moves_by_keyboard_and_the_picture_follows(ring):
    ring.controls("ring_picture")
    slider = ring.find("ring_picture").get_by_role("slider", name="step")
    before = ring.pictures("ring_picture")
    slider.focus()
    ring.page.keyboard.press("ArrowRight")
    ring.find("ring_picture").locator(".course-picture img[alt^='step 2 of']").wait_for()
    assert ring.find("ring_picture").locator(".course-value").inner_text() == "2"
    assert slider.get_attribute("aria-valuetext") == "2"
    assert ring.pictures("ring_picture") != before
    assert ring.page.evaluate("document.activeElement.type") == "range"  # the next press moves on


@pytest.mark.parametrize("name", ["crossover", "ring_picture"])
def test_in_the_dark_theme_a_picture_has_dark_paper_and_colours_of_the_same_hue(ring, name):
    seen = {}
    for theme, title in THEMES.items():
        ring.theme(title)
        picture = ring.find(name).locator(".jp-Cell-outputWrapper img:visible")
        assert picture.count() == 1
        ring.page.wait_for_function("name => !document.querySelector(`[data-course='${name}'] .course-late`)", arg=name)
        ring.page.wait_for_timeout(300)
        shown = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
        counts = sorted(shown.getcolors(1 << 24), reverse=True)
        seen[theme] = [colour for _, colour in counts if max(colour) - min(colour) > 60][0], counts[0][1]
    ring.theme(THEMES["light"])
    light, dark = (colorsys.rgb_to_hsv(*seen[theme][0])[0] for theme in THEMES)
    assert abs(light - dark) < 0.02
    assert seen["light"][1] == (255, 255, 255) and seen["dark"][1] == (17, 17, 17)


def test_steps_play_by_themselves_and_stop_at_the_end(ring):
    cell = ring.find("ring_picture")
    slider = cell.get_by_role("slider", name="step")
    slider.focus()
    ring.page.keyboard.press("End")
    cell.get_by_role("button", name="one step back").click()
    cell.get_by_role("button", name="play").click()
    cell.locator(".course-picture img[alt^='step 6 of']").wait_for()
    cell.get_by_role("button", name="play").wait_for()  # it pauses itself
    cell.get_by_role("button", name="play").click()
    cell.locator(".course-picture img[alt^='step 1 of']").wait_for()  # and begins again
    cell.get_by_role("button", name="pause").click()


@pytest.mark.parametrize("screen", ["1024", "150"])
def test_every_picture_beside_the_files_is_whole_or_keeps_550_pixels_and_scrolls_on_an_enlarged_page(ring, screen):
    try:
        ring.screen(*SCREENS[screen])
        ring.sidebar(True)
        ring.page.wait_for_timeout(1000)
        for name in ("crossover", "ring_picture"):
            pictures = ring.find(name).locator(".jp-Cell-outputWrapper img:visible")
            ends = """all => all.map((one) => one.getBoundingClientRect().right
                - one.closest(".jp-OutputArea").getBoundingClientRect().right)"""
            widths = pictures.evaluate_all("all => all.map((one) => one.clientWidth)")
            assert widths and (max(pictures.evaluate_all(ends)) <= 1 or screen == "150" and set(widths) == {550}), name
    finally:
        ring.screen(*PROJECTOR.values())


def test_no_letter_of_a_result_is_small_on_a_phone(ring):
    try:
        ring.screen(*SCREENS["phone"])
        ring.sidebar(False)
        ring.page.wait_for_timeout(1000)
        for name in ("check_reduce_scatter_ring", "growth", "how_far"):
            shown = ring.find(name).locator(".jp-Cell-outputWrapper")
            ring.page.wait_for_timeout(300)
            assert shown.evaluate(SMALL) == [], name
    finally:
        ring.screen(*PROJECTOR.values())
        ring.sidebar(True)


@pytest.mark.parametrize("screen", ["1024", "phone"])
def test_on_a_narrow_screen_names_and_scores_stay_inside_their_card_and_on_their_lines(ring, screen):
    try:
        ring.screen(*SCREENS[screen])
        ring.sidebar(screen != "phone")
        ring.page.wait_for_timeout(1000)
        rows = ring.find("how_far").locator(".course-card:has(.course-bar) tr")
        told = rows.evaluate_all("""all => all.map(row => {
            const cells = [...row.children].filter(one => one.checkVisibility());
            const right = Math.max(...cells.map(one => one.getBoundingClientRect().right));
            const high = Math.max(...cells.map(one => one.getBoundingClientRect().height));
            return [right - row.closest(".course-card").getBoundingClientRect().right, high];
        })""")
        assert told and max(over for over, _ in told) <= 0 and max(high for _, high in told) < 36
    finally:
        ring.screen(*PROJECTOR.values())
        ring.sidebar(True)


def test_an_interrupted_cell_ends_and_the_next_one_runs(ring):
    for name, hang in (("guess_different", HANG), ("guess_crossover", f"def forever(dist):\n{indented(HANG)}\n\n\n"
                                                                     "run(forever, ranks=2)")):
        ring.type_into(name, hang)
        ring.start(name)
        running = ring.find(name).locator(".jp-InputPrompt", has_text="[*]:")
        running.wait_for()
        ring.page.keyboard.press("Escape")
        ring.page.get_by_role("menuitem", name="Kernel", exact=True).click()
        ring.page.get_by_role("menuitem", name="Interrupt Kernel").click()
        ring.wait([name])
        assert any("KeyboardInterrupt" in said for said in errors(ring.cells()[name]))
        ring.run("through_rank_0")
        ring.run("summed")
        assert errors(ring.cells()["summed"]) == []
        assert "10." in ring.shown("summed")


# A panel without its kernel -------------------------------------------------------------------------------------------


def test_a_notebook_opened_again_shows_a_still_picture_where_its_sliders_were(page, lab, course):
    chapter = solved(CHAPTERS["ch03_ring_all_reduce"])
    chapter.cells = [cell for cell in chapter.cells if cell["id"] in ("imports", "ring_picture")]
    write(course / "work" / "again.ipynb", chapter)
    with closing(Opened(page, lab, "again.ipynb")) as notebook:
        notebook.run_all()
        notebook.controls("ring_picture")
        assert len(notebook.pictures("ring_picture")) == 1  # the still one makes room
        page.evaluate(f"{CURRENT}.context.save()")
    later = page.context.new_page()
    with closing(Opened(later, lab, "again.ipynb")) as notebook:
        (picture,) = notebook.pictures("ring_picture")
        said = notebook.shown("ring_picture")
        assert picture["alt"].startswith("step 1 of") and "run this cell to move them" in said and "rror" not in said
        notebook.run_all()
        notebook.controls("ring_picture")
        assert len(notebook.pictures("ring_picture")) == 1


# A picture after a panel ----------------------------------------------------------------------------------------------


def test_a_picture_that_is_drawn_while_the_controls_above_ask_for_frames_is_the_one_drawn_without_them(
    page, lab, course
):
    chapter = solved(CHAPTERS["ch03_ring_all_reduce"])
    cells = {cell["id"]: cell for cell in chapter.cells}
    alone = copy.deepcopy(cells["ring_strip"])
    alone["id"], alone["source"] = "alone", f"steps = ring_steps(4)\n{alone['source']}"
    chapter.cells = [cells["imports"], alone, cells["ring_picture"], cells["ring_strip"]]
    write(course / "work" / "after.ipynb", chapter)
    with closing(Opened(page, lab, "after.ipynb")) as notebook:
        notebook.run("imports")
        notebook.run("alone")
        (drawn,) = data(notebook.cells()["alone"])
        for _ in range(5):
            notebook.run("ring_picture")
            notebook.controls("ring_picture")
            notebook.run("ring_strip")
            (found,) = data(notebook.cells()["ring_strip"])
            assert found == drawn


# A panel that is touched while its frames are drawn -------------------------------------------------------------------


def test_a_control_touched_before_its_frames_are_drawn_waits_for_one_frame_and_not_for_a_queue(page, lab, course):
    chapter = solved(CHAPTERS["ch06_pipeline_parallel"])
    needed = {"imports", "exercise"}
    chapter.cells = [cell for cell in chapter.cells if cell["id"] == "widget" or needed & set(tags(cell))]
    write(course / "work" / "touched.ipynb", chapter)
    with closing(Opened(page, lab, "touched.ipynb")) as notebook:
        notebook.run_all()
        notebook.controls("widget")
        cell = notebook.find("widget")
        touched = cell.evaluate(TOUCHED, False)
        alone = cell.evaluate(TOUCHED, True)  # out of sight nothing is drawn ahead: what one frame takes
    print(f"touched {[round(one) for one in touched]} ms, alone {[round(one) for one in alone]} ms")
    assert len(touched) >= 5 and len(alone) >= 5
    assert median(touched) <= 1.75 * median(alone)


# Moves one control after the other to a value far away; returns how long each frame took that was not there yet.
TOUCHED = """async (cell, hidden) => {
    const player = cell.querySelector('.course-player'), took = [];
    const all = [...player.querySelectorAll('.course-control')];
    const rest = (time) => new Promise(done => setTimeout(done, time));
    cell.style.display = hidden ? 'none' : '';
    await rest(1500);
    for (let round = 0; took.length < 8 && round < 30; round++) {
        const control = all[round % all.length], select = control.querySelector('select, input[type=range]');
        const before = player.dataset.shown, start = performance.now();
        if (select) {
            const many = select.options ? select.options.length : Number(select.max) + 1;
            select.value = String((Number(select.value) + Math.ceil(many / 2)) % many);
            select.dispatchEvent(new Event(select.options ? 'change' : 'input', {bubbles: true}));
        } else [...control.querySelectorAll('input')].filter(one => !one.checked).at(-1).click();
        while (player.dataset.shown === before && performance.now() - start < 20000) await rest(5);
        const seconds = performance.now() - start;
        if (seconds > 60) took.push(seconds);  // else it was there
        await rest(400 + 37 * round);
    }
    cell.style.display = '';
    return took;
}"""


# Moves each control of a cell through its values and back; how long each picture took to come and two frames without a
# change take, and the heights.
MOVED = """async cell => {
    const player = cell.querySelector('.course-player'), found = {};
    const next = () => new Promise(requestAnimationFrame);
    const move = async (act, took, still, heights) => {
        const idle = performance.now();
        await next();
        await next();
        still.push(performance.now() - idle);
        const before = player.dataset.shown, start = performance.now();
        act();
        while (player.dataset.shown === before) {
            await next();
            if (performance.now() - start > 10000) break;
        }
        await next();
        took.push(performance.now() - start);
        heights.push(player.offsetHeight);
    };
    for (const control of player.querySelectorAll('.course-control')) {
        const told = found[control.querySelector('.course-name').textContent] = [[], [], []];
        const one = control.querySelector('input[type=range], select');
        if (one) {
            const all = one.options ? [...one.options].map(option => option.value)
                : [...Array(Number(one.max) + 1).keys()].map(String), start = one.value;
            for (const value of [...all, start]) {
                if (one.value === value) continue;
                await move(() => {
                    one.value = value;
                    one.dispatchEvent(new Event(one.options ? 'change' : 'input', {bubbles: true}));
                }, ...told);
            }
        } else {
            const radios = [...control.querySelectorAll('input[type=radio]')], start = radios.find(one => one.checked);
            for (const radio of [...radios, start]) if (!radio.checked) await move(() => radio.click(), ...told);
        }
    }
    return found;
}"""
FAILED = "id => document.querySelector(`[data-course='${id}'] .course-card`).className"


def indented(source: str) -> str:
    return "\n".join(f"    {line}" for line in source.splitlines())
