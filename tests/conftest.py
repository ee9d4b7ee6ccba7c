"""What holds for all tests: nobody's progress is recorded, pictures need no screen, and how workers share the files."""

import os
import re

import pytest

os.environ["COURSE_PROGRESS"] = "off"
os.environ.setdefault("MPLBACKEND", "Agg")

BY_CHAPTER = ("test_answers.py", "test_judge.py", "test_notebooks.py")  # their ids begin with chNN


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Keep a file's tests in one worker, for its fixtures; but where all chapters are in one file, each chapter's."""
    for item in items:
        share = item.path.name
        if share in BY_CHAPTER and (chapter := re.search(r"\[(ch\d\d)", item.name)):
            share += chapter[1]
        item.add_marker(pytest.mark.xdist_group(share))
