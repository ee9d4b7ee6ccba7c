"""The README says what is true of the notebooks."""

from __future__ import annotations

import importlib.util
import re

import pytest

from exercises_tests.ch03_ring_all_reduce import check_ring_all_reduce
from exercises_tests.judging import CheckFailed
from exercises_tests.tools.chapters import ROOT
from solutions.ch00_start_here import sum_on_every_rank

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_list_of_chapters_is_what_the_notebooks_say():
    spec = importlib.util.spec_from_file_location("contents", ROOT / "docs" / "contents.py")
    contents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(contents)
    assert contents.in_place(README) == README, "run: python docs/contents.py"


def test_every_picture_and_page_that_the_readme_names_is_there():
    names = [one or two for one, two in re.findall(r'\]\((?!http)([^)]+)\)|src(?:set)?="([^"]+)"', README)]
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_every_picture_has_a_twin_for_dark_pages_and_words():
    pictures = re.findall(r"<picture>.*?</picture>", README, re.DOTALL)
    assert len(pictures) == README.count("<img") == 3
    for picture in pictures:
        assert '(prefers-color-scheme: dark)" srcset="' in picture and 'alt="' in picture


def test_a_wide_picture_has_a_narrow_one_for_phones():
    for picture in re.findall(r"<picture>.*?</picture>", README, re.DOTALL):
        wide, name = re.search(r'<img width="(\d+)" src="docs/(\w+)\.png"', picture).groups()
        phone = [f'<source media="(max-width: 600px){also}" srcset="docs/{name}_narrow{theme}.png">'
                 for also, theme in ((" and (prefers-color-scheme: dark)", "_dark"), ("", ""))]
        assert int(wide) < 600 or picture.split("\n")[1:3] == phone  # the first source that fits is taken


def test_every_command_can_be_typed_as_it_is_printed_and_fits_a_phone():
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    commands = [line for language, block in blocks if not language for line in block.splitlines()]
    assert {"make lab", "make test"} <= set(commands)
    assert [line for line in commands if not line.startswith("make ") or "<" in line or len(line) > 38] == []


def test_what_one_can_do_at_the_end_comes_first_then_a_picture_a_refused_answer_and_the_commands():
    before, _, after = README.partition("<picture>")
    assert len(before.split()) < 180  # so that the picture begins on the first screen
    assert before.index("At the end you can") < before.index("What is different here")
    assert after.index("docs/refused.png") < after.index("\nmake lab\n") < after.index("## Start")
    assert "*Download ZIP*" in after.partition("## Start")[0]


def test_no_line_of_code_is_cut_where_the_readme_is_read_in_a_window_of_600_pixels():
    code = re.findall(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert code and [line for block in code for line in block.splitlines() if len(line) > 62] == []


def test_the_check_says_what_the_readme_shows(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "off")

    def through_rank_0(dist, tensor):
        tensor.copy_(sum_on_every_rank(dist, tensor))

    with pytest.raises(CheckFailed) as failed:
        check_ring_all_reduce(through_rank_0)
    shown = README[README.index("✗ ring_all_reduce"):].partition('"')[0]
    assert " ".join(str(failed.value).split()).startswith(" ".join(shown.split()))
