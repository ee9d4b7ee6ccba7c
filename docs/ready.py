"""Tells whether a book can be made: exit 2 for a chapter that is not there, 1 where packages are missing."""

from __future__ import annotations

import importlib.util
import sys

from exercises_tests.tools.chapters import ChapterError, find

PACKAGES = ("furo", "math_core", "mdit_py_plugins", "myst_nb", "sphinx", "sphinx_revealjs")  # the extra `book`

if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            find(name)
    except ChapterError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(any(importlib.util.find_spec(package) is None for package in PACKAGES))
