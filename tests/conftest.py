"""What holds for all tests: nobody's progress is recorded, pictures need no screen, and how workers share the files."""

import os
import re

import pytest

os.environ["COURSE_PROGRESS"] = "off"
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Keep a file's tests in one worker, for its fixtures; but each chapter's notebook is a share of its own."""
    for item in items:
        share = item.path.name
        if share in ("test_notebooks.py", "test_judge.py") and (chapter := re.search(r"\[(ch\d\d)", item.name)):
            share += chapter[1]
        item.add_marker(pytest.mark.xdist_group(share))
