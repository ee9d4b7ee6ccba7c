"""A chapter opened in JupyterLab: what a learner does with it, and what they see."""

from __future__ import annotations

import re
from pathlib import Path

from exercises_tests.tools.chapters import ROOT

SEEN = ROOT / "build" / "screenshots"
PROJECTOR = {"width": 1280, "height": 720}
RUN_SECONDS = 600  # two cores that others use, too
CURRENT = "window.jupyterapp?.shell?.currentWidget"
READY = f"{CURRENT}?.context?.isReady && {CURRENT}.sessionContext?.session?.kernel?.status === 'idle'"
# A cell that was run in vain, for an earlier one failed, has no number; while it runs it has none either.
DONE = f"""ids => {CURRENT}.content.widgets.filter(cell => ids.includes(cell.model.id))
    .every(cell => cell.model.executionCount !== null && cell.model.executionState !== 'running')"""
STARTED = f"""([id, before]) => {{
    const {{model}} = {CURRENT}.content.widgets.find(cell => cell.model.id === id);
    return model.executionState === 'running' || model.executionCount !== before;
}}"""
FIND = f"""async id => {{
    const notebook = {CURRENT}.content, place = notebook.widgets.findIndex(cell => cell.model.id === id);
    notebook.activeCellIndex = place;
    await notebook.scrollToItem(place, 'auto');
    notebook.widgets[place].node.dataset.course = id;
}}"""
# The letters below 12 pixels inside an element, of its text and of drawings.
SMALL = """root => {
    const small = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        const parent = node.parentElement, text = node.textContent.trim();
        if (!text || !parent.getClientRects().length || !parent.checkVisibility({visibilityProperty: true})
            || parent.closest("script, style, math, .visually-hidden")) continue;
        const scale = parent.closest("svg") && parent.getScreenCTM ? parent.getScreenCTM().a : 1;
        const size = parseFloat(getComputedStyle(parent).fontSize) * scale;
        if (size < 11.95) small.push(`${size.toFixed(1)} ${text.slice(0, 40)}`);
    }
    return small;
}"""
# Twice, because JupyterLab takes the first choice only as the end of following the system.
THEME = """async theme => {
    for (const _ of [1, 2]) await jupyterapp.commands.execute('apputils:change-theme', {theme});
}"""
# After two frames all cells are marked.
ANSWERS = f"""async () => {{
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
    for (const cell of {CURRENT}.content.widgets) cell.node.querySelector(".course-first button")?.click();
}}"""
CONTROLS = "[role=slider], select, input, textarea, button"


class Opened:
    """One notebook in the page's JupyterLab. Cells are named by their ids."""

    def __init__(self, page, lab: tuple[str, str], path: str):
        """Open the notebook (its path in work/) and wait until its kernel is idle."""
        address, token = lab
        self.page = page
        page.goto(f"{address}lab/workspaces/{Path(path).stem}/tree/{path}?reset&token={token}")
        page.wait_for_function(READY, timeout=120_000)

    def cells(self) -> dict[str, dict]:
        """Return the code cells by id, as they would be saved."""
        saved = self.page.evaluate(f"{CURRENT}.content.widgets.map(cell => cell.model.toJSON())")
        return {cell["id"]: cell for cell in saved if cell["cell_type"] == "code"}

    def run_all(self) -> None:
        """Choose Run All Cells from the menu, and wait until every cell has run."""
        ids = [name for name, cell in self.cells().items() if "".join(cell["source"]).strip()]
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.wait(ids)

    def show_answers(self) -> None:
        """Click on every button that shows an answer without a guess."""
        self.page.evaluate(ANSWERS)

    def wait(self, ids: list[str]) -> None:
        self.page.wait_for_function(DONE, arg=ids, timeout=RUN_SECONDS * 1000)

    def find(self, name: str):
        """Scroll to a cell, make it the active one, and return it."""
        self.page.evaluate(FIND, name)
        cell = self.page.locator(f'[data-course="{name}"]')
        cell.scroll_into_view_if_needed()
        return cell

    def type_into(self, name: str, source: str) -> None:
        """Replace a cell's source at the keyboard."""
        self.find(name).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def start(self, name: str) -> None:
        """Run a cell with Control and Enter, without waiting."""
        before = self.cells()[name]["execution_count"]
        code = self.find(name).locator(".cm-content")
        if code.is_visible():
            code.click()
        else:  # it is folded, and a click would open it
            self.page.evaluate(f"{CURRENT}.content.activate()")
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(STARTED, arg=[name, before])

    def run(self, name: str) -> None:
        self.start(name)
        self.wait([name])

    def shown(self, name: str) -> str:
        """Return the text that is seen below a cell."""
        return self.find(name).locator(".jp-Cell-outputWrapper").inner_text()

    def pictures(self, name: str) -> list[dict]:
        """Return the pictures below a cell, once they are loaded: their alt text, drawn width and own width."""
        images = self.find(name).locator(".jp-OutputArea-output img:visible")  # each has a twin for the other theme
        images.first.wait_for()
        self.page.wait_for_function(
            "id => [...document.querySelectorAll(`[data-course='${id}'] .jp-OutputArea-output img`)]"
            ".every(image => image.complete && image.naturalWidth)", arg=name)
        return images.evaluate_all(
            "all => all.map(image => ({alt: image.alt, width: image.clientWidth, own: image.naturalWidth}))")

    def controls(self, name: str):
        """Return the controls of a cell's widgets, once they are there."""
        widgets = self.find(name).locator(".course-player")
        widgets.first.wait_for()
        widgets.locator(CONTROLS).first.wait_for()
        return widgets.locator(CONTROLS)

    def theme(self, name: str) -> None:
        """Change JupyterLab's colours to "JupyterLab Light" or "JupyterLab Dark"."""
        self.page.evaluate(THEME, name)
        light = str(name.endswith("Light")).lower()
        self.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")

    def screen(self, width: int, height: int, scale: float = 1.0) -> None:
        """Change the size of the page, and how many pixels of the screen one of its own takes."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.context.new_cdp_session(self.page).send("Emulation.setDeviceMetricsOverride", size)

    def sidebar(self, shown: bool) -> None:
        """Show the list of files, or give its room to the notebook."""
        self.page.evaluate("shown => shown ? jupyterapp.shell.expandLeft() : jupyterapp.shell.collapseLeft()", shown)

    def close(self) -> None:
        """End the kernel, so that the next chapter has the machine for itself."""
        self.page.evaluate(f"{CURRENT}.sessionContext.shutdown()")


def outputs(cell: dict, kind: str) -> list[dict]:
    return [output for output in cell["outputs"] if output["output_type"] == kind]


def data(cell: dict) -> list[dict]:
    """Return the bundles that a cell has displayed."""
    return [output["data"] for output in cell["outputs"] if "data" in output]


def plain(text: str) -> str:
    """Return a text without the codes that colour it."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
