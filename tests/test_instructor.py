"""The instructor's page: its agendas say what the notebooks say, and every day can be held."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from exercises_tests.tools.chapters import ROOT


@pytest.fixture
def agenda(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("agenda")
    for name in ("agenda", "timetable"):
        sys.modules.pop(name, None)


def test_the_agendas_are_what_the_notebooks_say(agenda):
    text = agenda.PAGE.read_text(encoding="utf-8")
    assert agenda.agendas() in text, "run: python docs/agenda.py"
    assert agenda.in_place(text) == text


def test_every_day_has_its_blocks_ends_in_time_and_has_a_lunch(agenda):
    tables = re.findall(r"### (.*?)\n\n(\|.*?)(?=\n\n|\Z)", agenda.agendas(), flags=re.DOTALL)
    assert [name for name, _ in tables] == ["Half a day", *(f"Four days: day {day}" for day in (1, 2, 3, 4))]
    for name, table in tables:
        hours, minutes = re.findall(r"(\d\d):(\d\d)", table)[-1]
        assert int(hours) * 60 + int(minutes) <= (13 * 60 if name == "Half a day" else 17 * 60), name
        assert table.count("lunch") == (name != "Half a day" and table.count("make catch-up") > 2) or "day 4" in name
        assert table.count("introduction") == table.count("make catch-up") >= (1 if "day 4" in name else 2)


def test_a_block_takes_as_long_as_its_text_and_its_core_exercises_and_catching_up(agenda):
    timetable = sys.modules["timetable"]
    for chapter in agenda.chapters():
        core = [exercise.minutes for exercise in chapter.exercises if exercise.level == "core"]
        block = timetable.block(chapter)
        assert [part.minutes for part in block if part.exercise] == core
        assert sum(part.minutes for part in block if not part.exercise) == timetable.at_pace(chapter, timetable.WORDS_A_MINUTE)
        assert sum(part.minutes for part in agenda.rows(chapter)) == timetable.whole(chapter)


def test_every_core_exercise_is_in_the_four_days(agenda):
    text = agenda.agendas().partition("### Four days")[2]
    for chapter in agenda.chapters():
        for exercise in chapter.exercises:
            assert (f"`{exercise.id}` {exercise.minutes}" in text) == (exercise.level == "core"), exercise


def test_every_page_that_the_instructors_page_names_is_there():
    text = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    assert all((ROOT / "docs" / name).exists() for name in re.findall(r"\]\(([^)]+)\)", text))


def test_every_command_that_the_instructors_page_names_exists():
    text = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+): ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
