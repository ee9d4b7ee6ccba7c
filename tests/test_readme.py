"""The README says what is true of the notebooks."""

from __future__ import annotations

import importlib.util

from exercises_tests.tools.chapters import ROOT


def test_the_table_of_chapters_is_what_the_notebooks_say():
    spec = importlib.util.spec_from_file_location("contents", ROOT / "docs" / "contents.py")
    contents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(contents)
    text = (ROOT / "README.md").read_text()
    assert contents.in_place(text) == text, "run: python docs/contents.py"


def test_every_picture_and_page_that_the_readme_names_is_there():
    import re

    names = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert names
    assert all((ROOT / name).exists() for name in names)
