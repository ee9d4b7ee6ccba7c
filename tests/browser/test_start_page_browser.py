"""The start page in JupyterLab, as a newcomer meets it: at the printed address, at every width, and one click on."""

from __future__ import annotations

import json

import pytest
from opened import CURRENT, READY, SEEN, THEME

from exercises_tests.tools.chapters import chapters

PAGE = ".jp-MarkdownViewer"
WIDTHS = {"projector": (1280, 720, 1), "1024": (1024, 720, 1), "150_percent": (853, 480, 1.5), "phone": (390, 844, 2),
          "sliver": (200, 720, 1)}  # fmt: skip
# How far what is in the page reaches beyond it, in pixels.
OVERFLOW = """selector => {
    const box = document.querySelector(selector), right = box.getBoundingClientRect().right;
    return Math.max(...[...box.querySelectorAll('*')].map(one => one.getBoundingClientRect().right - right));
}"""
SHUT = "() => window.jupyterapp.shell.collapseLeft()"


@pytest.fixture
def opened(page, lab):
    """The page as the printed address opens it, in a workspace that nobody has used."""
    address, token = lab
    page.goto(f"{address}?token={token}")
    page.locator(f"{PAGE} h1").wait_for(timeout=90_000)
    return page


@pytest.fixture
def fresh(course):
    """Whatever a test here leaves of progress is taken away."""
    yield course / "work"
    (course / "work" / ".progress.json").unlink(missing_ok=True)


def test_the_printed_address_opens_the_map_with_every_chapter_and_nothing_over_it(opened):
    assert opened.url.rstrip("/").endswith("/lab/tree/start.md")
    links = opened.locator(f"{PAGE} a")
    shown = [link.split(" · ")[-1] for link in links.all_inner_texts()]
    assert [chapter.title for chapter in chapters() if chapter.title not in shown] == []
    opened.wait_for_timeout(1_000)
    assert opened.locator(".jp-Dialog, .Toastify__toast").count() == 0
    assert opened.faults == []


def test_one_click_leads_to_the_first_chapter_and_one_key_to_its_picture(opened):
    opened.locator(f"{PAGE} a", has_text="Begin with chapter 0").click()
    opened.wait_for_function(READY, timeout=120_000)
    assert opened.evaluate(f"{CURRENT}.context.path") == f"{chapters()[0].name}.ipynb"
    assert opened.locator(".jp-NotebookPanel h1", has_text="What is a rank?").is_visible()
    opened.keyboard.press("Shift+Enter")
    opened.locator(".jp-NotebookPanel .jp-OutputArea-output img").first.wait_for(timeout=120_000)
    opened.evaluate(f"{CURRENT}.sessionContext.shutdown()")


def test_coming_back_to_the_page_shows_what_has_passed_and_progress_leads_on(opened, fresh):
    first, second = chapters()[:2]
    found = {exercise.id: {"state": "passed", "earned": 1, "points": 1} for exercise in first.exercises}
    (fresh / ".progress.json").write_text(json.dumps({first.name: found}))
    source = "from course_lib import progress\nfrom exercises_tests.tools.start_page import renew\nrenew()\nprogress()"
    cell = {"cell_type": "code", "id": "go_on", "metadata": {}, "outputs": [], "source": source}
    cell["execution_count"] = None
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (fresh / "go_on.ipynb").write_text(json.dumps(
        {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    opened.evaluate("() => void window.jupyterapp.commands.execute('docmanager:open', {path: 'go_on.ipynb'})")
    opened.wait_for_function(READY, timeout=120_000)
    opened.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-cell')")
    link = opened.locator(".jp-OutputArea-output a", has_text=second.title)
    link.wait_for(timeout=60_000)
    opened.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="start.md").click()
    opened.locator(f"{PAGE} a", has_text=f"Continue with chapter 1: {second.title}").wait_for(timeout=30_000)
    assert f"{len(first.exercises)} of {len(first.exercises)} core passed" in opened.locator(PAGE).inner_text()
    opened.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="go_on").click()
    link.click()
    opened.wait_for_function(f"{CURRENT}?.context?.path === '{second.name}.ipynb'", timeout=60_000)
    opened.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


@pytest.mark.parametrize("width", list(WIDTHS))
def test_the_map_fits_every_width_in_light_and_dark(browser, lab, width, request):
    address, token = lab
    wide, high, scale = WIDTHS[width]
    context = browser.new_context(viewport={"width": wide, "height": high}, device_scale_factor=scale)
    page = context.new_page()
    page.goto(f"{address}lab/workspaces/width_{width}/tree/start.md?reset&token={token}")
    page.locator(f"{PAGE} h1").wait_for(state="attached", timeout=90_000)
    if width in ("phone", "sliver"):
        page.evaluate(SHUT)  # as a tap on the folder does
    page.locator(f"{PAGE} h1").wait_for()
    assert page.evaluate(OVERFLOW, PAGE) <= 0
    for theme in ("Light", "Dark"):
        page.evaluate(THEME, f"JupyterLab {theme}")
        page.locator(f"body[data-jp-theme-light='{str(theme == 'Light').lower()}']").wait_for(state="attached")
        if request.config.getoption("--screenshots"):
            SEEN.mkdir(parents=True, exist_ok=True)
            page.wait_for_timeout(500)
            page.screenshot(path=SEEN / f"start_{width}_{theme.lower()}.png")
    context.close()
