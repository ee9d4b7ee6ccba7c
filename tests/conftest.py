"""What holds for all tests: nobody's progress is recorded, pictures need no screen, and how workers share the files."""

import os
import re
import signal

import pytest
from hypothesis import settings

os.environ["COURSE_PROGRESS"] = "off"
os.environ.setdefault("MPLBACKEND", "Agg")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
