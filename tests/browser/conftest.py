"""A browser, and a JupyterLab set up as `make lab` does, in a copy of the course. One of each for all tests."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from opened import PROJECTOR, SEEN

from exercises_tests.tools.chapters import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NOT_COPIED = (".*", "build", "work", "tests", "wheelhouse", "submissions", "grades", "*.egg-info", "__pycache__")
MARK = "COURSE_BROWSER_TESTS"  # in the environment of every process that these tests start
START_SECONDS, END_SECONDS = 90, 30


def pytest_addoption(parser):
    parser.addoption("--screenshots", nargs="?", const="all", choices=("all", "screens"),
                     help=f"keep every picture in {SEEN.relative_to(ROOT)}/, or only screens of several sizes")


def until(condition: Callable, seconds: float, what: str):
    """Return what `condition` returns as soon as that is true; fail after so many seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            pytest.fail(f"after {seconds:g} s: {what}")
        time.sleep(0.1)
    return found


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that carry the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue
    return found


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment of every process: nobody's settings, and a mark by which what is left behind is found."""
    home, mark = tmp_path_factory.mktemp("home"), secrets.token_hex(8)
    unwanted = ("COURSE_", "MPL", "PYTEST_", "JUPYTER", "IPYTHON")
    yield {
        **{name: value for name, value in os.environ.items() if not name.startswith(unwanted)},
        "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"), MARK: mark,
    }  # fmt: skip
    end = time.monotonic() + END_SECONDS
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    told = [" ".join(process.cmdline())[:200] for process in left]
    for process in left:
        process.kill()
    assert not told, f"left behind: {told}"


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Path:
    """A copy of the course."""
    root = tmp_path_factory.mktemp("course") / "course"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return root


@pytest.fixture(scope="session")
def lab(course, environment, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The address and the token of a JupyterLab that the course's own command has started."""
    token, log = secrets.token_hex(16), tmp_path_factory.mktemp("log") / "jupyterlab.txt"
    options = ["--no-browser", "--port=0", f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    runtime = Path(environment["JUPYTER_RUNTIME_DIR"])
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "exercises_tests", "lab", *options], cwd=course, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, env=environment | {"PYTHONPATH": str(course)},
        )  # fmt: skip
    try:
        def running() -> dict | None:
            assert server.poll() is None, log.read_text()
            found = next(runtime.glob("jpserver-*.json"), None)
            return json.loads(found.read_text() or "null") if found else None

        yield until(running, START_SECONDS, "JupyterLab does not run")["url"], token
    finally:
        server.terminate()  # it ends its kernels
        try:
            server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()


@pytest.fixture(scope="session")
def browser(environment):
    """Chromium; without one the tests are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason='no playwright: pip install -e ".[browser]"')
    path = os.environ.get("COURSE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no browser: install chromium (apt install chromium), or name one in COURSE_CHROMIUM")
    alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=alone, env=environment)
        yield found
        found.close()


@pytest.fixture
def page(browser):
    """A fresh page, as wide as a projector shows. `page.faults` lists the errors of its scripts, and its dialogs."""
    context = browser.new_context(viewport=PROJECTOR)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(f"error of a script: {error}"))
    page.on("dialog", lambda dialog: (page.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    context.close()
