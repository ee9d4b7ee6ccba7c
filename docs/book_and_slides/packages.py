"""Tells whether a book can be made: exit 2 for a chapter that is not there, 1 where packages are missing."""

from __future__ import annotations

import importlib.util
import sys

from exercises_tests.tools.chapters import ChapterError, find

# What the extra `book` brings.
NEEDED = ("furo", "markdown_it", "math_core", "mdit_py_plugins", "myst_nb", "ruff", "sphinx", "sphinx_revealjs")


def missing() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def require() -> None:
    """Raise ChapterError, which says what brings them, where packages are missing."""
    if missing():
        raise ChapterError(f"Not installed: {', '.join(missing())}. What makes the book comes with: "
                           'python -m pip install -c constraints.txt -e ".[book]"')


if __name__ == "__main__":
    try:
        for chapter in sys.argv[1:]:
            find(chapter)
    except ChapterError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(bool(missing()))
