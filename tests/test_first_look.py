"""The page that shows the first third of a chapter is what the chapter shows when it runs."""

from __future__ import annotations

import importlib.util
import re

import pytest

from exercises_tests.tools.chapters import ROOT

pytest.importorskip("nbclient")
SPEC = importlib.util.spec_from_file_location("first_look", ROOT / "docs" / "first_look.py")
first_look = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(first_look)
PAGE = (ROOT / "docs" / first_look.PAGE).read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / first_look.PICTURES


def test_its_texts_code_and_outputs_are_what_the_notebook_shows_now():
    text, pictures = first_look.page(first_look.ran())
    assert text == PAGE, "run: python docs/first_look.py"
    assert sorted(pictures) == sorted(path.name for path in PICTURES.iterdir())


def test_its_pictures_are_there_and_take_less_than_a_megabyte():
    named = re.findall(r'(?:src|srcset)="([^"]+)"', PAGE)
    assert len(named) == 8 and sum((ROOT / "docs" / name).stat().st_size for name in named) < 1e6
