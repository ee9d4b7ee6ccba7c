"""Takes the README's pictures of a notebook again, in chromium, light and dark: python docs/readme_notebook.py

A guess and what it is told, an answer and its check, and the card of an answer that is refused, as JupyterLab shows
them in a copy of the course.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs"), str(ROOT / "tests" / "browser")]

from handout import write_handout  # noqa: E402
from opened import Opened  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SIZE = {"width": 1000, "height": 900}
NARROW = {"width": 560, "height": 900}  # so that a phone shows the card nearly as large
PHONE = {"width": 480, "height": 900}
GUESS = "guess_million = 1000  # your number: how many times as long 4,000,000 bytes take as 4 bytes"
ANSWER = '''\
def sum_on_every_rank(dist, value):
    """Return the sum of all ranks' values on every rank, by messages to and from rank 0."""
    if dist.get_rank() != 0:
        dist.send(value, 0)
        dist.recv(value, 0)
        return value
    total, arrived = value.clone(), torch.empty_like(value)
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total'''
THROUGH_RANK_0 = "ring_all_reduce = through_rank_0  # the star of section 1"
ENDS = {"JupyterLab Light": ".png", "JupyterLab Dark": "_dark.png"}


def pictures(page, address: str, token: str) -> dict[str, list[Image.Image]]:
    """Run the cells of chapter 0 that the picture shows; return a picture of each, by the theme."""
    opened = Opened(page, (address, token), "ch00_start_here.ipynb")
    opened.sidebar(False)
    opened.run("room")
    opened.run("imports")
    opened.type_into("guess_million", GUESS)
    opened.type_into("sum_on_every_rank", ANSWER)
    cells = ["guess_million", "ping_pong_times", "sum_on_every_rank", "check_sum_on_every_rank"]
    for name in cells:
        opened.run(name)
    opened.find("real_sum")  # no cell of the picture is the active one
    taken = {}
    for theme in ENDS:
        opened.theme(theme)
        page.wait_for_timeout(500)  # for its style sheet
        taken[theme] = [page.locator(f'[data-course="{name}"]').screenshot() for name in cells]
    opened.close()
    return {theme: [Image.open(io.BytesIO(image)).convert("RGB") for image in found] for theme, found in taken.items()}


def refused(page, address: str, token: str) -> dict[str, list[Image.Image]]:
    """Have chapter 3 judge a star that is called a ring; return a picture of the card, by the theme."""
    opened = Opened(page, (address, token), "ch03_ring_all_reduce.ipynb")
    opened.sidebar(False)
    opened.type_into("ring_all_reduce", THROUGH_RANK_0)
    for name in ("imports", "through_rank_0", "ring_all_reduce", "check_ring_all_reduce"):
        opened.run(name)
    card, taken = opened.find("check_ring_all_reduce").locator(".course-card"), {}
    for theme in ENDS:
        opened.theme(theme)
        page.wait_for_timeout(500)  # for its style sheet
        taken[theme] = [Image.open(io.BytesIO(card.screenshot())).convert("RGB")]
    opened.close()
    return taken


def below_each_other(parts: list[Image.Image]) -> Image.Image:
    size = max(part.width for part in parts), sum(part.height for part in parts)
    whole = Image.new("RGB", size, parts[0].getpixel((0, 0)))
    for place, part in enumerate(parts):
        whole.paste(part, (0, sum(above.height for above in parts[:place])))
    return whole.quantize(192, dither=Image.Dither.NONE)  # with fewer a label turns grey


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        course, home = Path(folder, "course"), Path(folder, "home")
        write_handout(course)
        runtime = home / "runtime"
        environment = os.environ | {"HOME": str(home), "JUPYTER_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(course)}
        runtime.mkdir(parents=True)
        options = ["--no-browser", "--port=0", "--IdentityProvider.token=picture", "--allow-root",
                   "--LabApp.expose_app_in_browser=True"]  # fmt: skip
        server = subprocess.Popen([sys.executable, "-m", "exercises_tests", "lab", *options], cwd=course,
                                  env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (found := [path for path in runtime.glob("jpserver-*.json") if path.stat().st_size]):
                if server.poll() is not None:
                    raise SystemExit(f"JupyterLab ended with exit code {server.returncode} before it answered")
                time.sleep(0.2)
            address = json.loads(found[0].read_text())["url"]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                taken = {}
                for name, take, size in (("notebook", pictures, SIZE), ("notebook_narrow", pictures, PHONE),
                                         ("refused", refused, SIZE), ("refused_narrow", refused, NARROW)):
                    page = browser.new_context(viewport=size, device_scale_factor=2).new_page()
                    taken |= {f"{name}{ENDS[theme]}": found for theme, found in take(page, address, "picture").items()}
                browser.close()
        finally:
            server.terminate()
            server.wait(30)
    for name, parts in taken.items():
        below_each_other(parts).save(ROOT / "docs" / name, optimize=True)


if __name__ == "__main__":
    main()
