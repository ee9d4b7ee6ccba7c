"""What holds for all tests: no progress is recorded, pictures need no screen, how workers share files, how they end.

A polite request to end (SIGTERM, as from a CI that cancels) does what Ctrl-C does, in the workers as well: without that
pytest is gone at once, and what its workers have started runs on.
"""

import ctypes
import os
import re
import shutil
import signal
import sys

import pytest
from hypothesis import settings

os.environ["COURSE_PROGRESS"] = "off"
os.environ["COURSE_DARK"] = "off"  # each picture once; test_plots_dark.py draws the twins
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each kernel, rank and judge compiles the whole course again
sys.dont_write_bytecode = False
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: more threads wait for each other, and spin
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ and sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
settings.register_profile("course", deadline=None, derandomize=True)  # a busy machine, or luck, fails no test
settings.load_profile("course")

BY_CHAPTER = ("test_answers.py", "test_judge.py", "test_notebooks.py")  # their ids begin with chNN


def share(nodeid):
    """Return what one worker gets as a whole: a file, for its fixtures; where that holds all chapters, a chapter."""
    file = nodeid.partition("::")[0]
    chapter = re.search(r"\[(ch\d\d)", nodeid) if file.rpartition("/")[2] in BY_CHAPTER else None
    return file + (chapter[1] if chapter else "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return share(nodeid)

    return Shares(config, log)


INSTALL = {"bubblewrap": "apt install bubblewrap", "bwrap": "apt install bubblewrap", "SmolLM2": "make"}


def pytest_terminal_summary(terminalreporter):
    """Say in one line each what was skipped, and what would have to be installed for it."""
    reasons = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        reasons.setdefault(reason.removeprefix("Skipped: "), []).append(report)
    for reason, reports in sorted(reasons.items()):
        wanted = next((how for word, how in INSTALL.items() if word in reason), "")
        how = f"; to run them: {wanted}" if wanted else ""
        terminalreporter.write_line(f"skipped {len(reports)}: {reason}{how}")
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        terminalreporter.write_line("not run: tests/browser; to run them: apt install chromium, then make test-browser")


@pytest.fixture(autouse=True)
def closed():
    """Pictures that a test has drawn are closed after it; matplotlib keeps each of them otherwise."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
