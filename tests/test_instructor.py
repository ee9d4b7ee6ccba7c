"""The instructor's pages: the agendas say what the notebooks say, and every day can be held."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from exercises_tests.tools.chapters import ROOT, tags
from exercises_tests.tools.course_map import words

AGENDAS, INSTRUCTOR = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("agendas.md", "instructor.md"))


@pytest.fixture
def agenda(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("agenda")
    for name in ("agenda", "timetable"):
        sys.modules.pop(name, None)


def clock(time: str) -> int:
    return 60 * int(time[:2]) + int(time[3:])


def days(page: str) -> dict[str, list[tuple[int, str, str]]]:
    """Return of each day of the workshops its rows: when they begin, of which chapter, and what."""
    found: dict[str, list] = {}
    for line in page.partition("## A semester")[0].splitlines():
        if line.startswith("##"):
            heading = line.lstrip("# ")
        elif row := re.match(r"\| (\d\d:\d\d) \| (.*?) \| (.*?) \|", line):
            found.setdefault(heading, []).append((clock(row[1]), row[2].strip(), row[3]))
    return found


def test_the_agendas_are_what_the_notebooks_say(agenda):
    assert agenda.page() == AGENDAS, "run: python docs/agenda.py"


def test_there_are_agendas_from_half_a_day_to_a_semester():
    assert list(days(AGENDAS)) == ["Half a day", "One day", *(f"Two days: day {day}" for day in (1, 2)),
                                         *(f"Five days: day {day}" for day in (1, 2, 3, 4, 5))]
    assert "## A semester\n" in AGENDAS


def test_nobody_sits_for_more_than_50_minutes():
    for name, rows in days(AGENDAS).items():
        for (begin, chapter, what), (end, _, after) in zip(rows, rows[1:], strict=False):
            assert not chapter or (end - begin <= 50 and after in ("pause", "in hand")), (name, what)


def test_lunch_is_at_lunch_time_and_a_day_ends_by_five():
    for name, rows in days(AGENDAS).items():
        lunch, end = [begin for begin, _, what in rows if what == "lunch"], rows[-1][0]
        assert end <= 17 * 60, name
        assert all(11 * 60 + 30 <= begin <= 12 * 60 + 45 for begin in lunch) and len(lunch) == (end > 13 * 60), name


def test_every_half_of_a_day_ends_with_minutes_in_hand():
    for name, rows in days(AGENDAS).items():
        words = [what for _, _, what in rows]
        assert all(words[place - 1] == "in hand" for place, what in enumerate(words) if what in ("lunch", "end")), name


def test_a_block_takes_as_long_as_its_text_and_its_core_exercises_and_catching_up(agenda):
    timetable = sys.modules["timetable"]
    for chapter in agenda.chapters():
        core = [exercise.minutes for exercise in chapter.exercises if exercise.level == "core"]
        block = timetable.block(chapter)
        assert [part.minutes for part in block if part.exercise] == core
        cells = chapter.notebook.cells
        told = cells[:next((at for at, cell in enumerate(cells) if cell.source.startswith("## Going further")), None)]
        talk = sum(words(cell.source) / timetable.WORDS_A_MINUTE if cell.cell_type == "markdown"
                   else timetable.GUESS * ("prediction" in tags(cell)) for cell in told)
        assert sum(part.minutes for part in block if not part.exercise) == pytest.approx(talk, abs=1)
        assert agenda.joined(agenda.units(chapter)).minutes == timetable.whole(chapter)


def test_every_core_exercise_is_in_the_five_days_and_in_the_semester_and_no_other(agenda):
    for text in AGENDAS.partition("## Five days")[2].split("## A semester"):
        table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
        for chapter in agenda.chapters():
            for exercise in chapter.exercises:
                assert (f"`{exercise.id}` {exercise.minutes}" in table) == (exercise.level == "core"), exercise


def test_every_day_names_what_to_drop_when_it_is_late(agenda):
    core = {exercise.id for chapter in agenda.chapters() for exercise in chapter.exercises if exercise.level == "core"}
    assert set(agenda.DROPPED_FIRST) <= core
    told = re.findall(r"drop in this order: (.*?)\. That gives (\d+) minutes", AGENDAS.replace("\n", " "))
    assert len(told) == len(days(AGENDAS)) + 1
    for names, minutes in told:
        assert sum(map(int, re.findall(r"` (\d+)", names))) == int(minutes) >= 15


def test_a_semester_is_a_chapter_a_week_in_two_lessons_with_time_in_hand():
    rows = re.findall(r"^\| (\d+), (first|second) \| (\d+) .*\| (\d+) \|$", AGENDAS, flags=re.MULTILINE)
    assert [(int(week), half) for week, half, *_ in rows] == [
        (week, half) for week in range(1, 15) for half in ("first", "second")]
    assert all(int(week) == int(chapter) + 1 and int(in_hand) >= 10 for week, _, chapter, in_hand in rows)


def test_the_chapters_that_share_a_week_fit_into_a_lesson_each(agenda):
    for chapter in agenda.chapters():
        if agenda.number(chapter) in agenda.SHARED:
            assert agenda.lesson(agenda.units(chapter)).minutes <= agenda.LESSON


def test_every_page_and_every_section_that_the_instructors_page_names_is_there():
    for name, section in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", INSTRUCTOR):
        page = ROOT / "docs" / (name or "instructor.md")
        assert page.exists(), name
        headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE) if section else []
        assert not section or section in [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings]


def test_the_first_screen_leads_to_every_part_of_the_work_in_its_order():
    first, *parts = INSTRUCTOR.split("\n## ")
    assert first.count("\n") <= 14
    titles = [part.partition("\n")[0] for part in parts if "Changing" not in part]
    assert titles == ["A week before", "The day before", "The morning", "When something fails", "After class"]
    places = [first.index(f"(#{title.lower().replace(' ', '-')})") for title in titles]
    assert places == sorted(places)


def test_each_part_but_the_troubles_begins_with_a_list_to_tick_off():
    for part in INSTRUCTOR.split("\n## ")[1:]:
        title, _, text = part.partition("\n\n")
        assert text.startswith("- [ ] ") or title in ("When something fails", "Changing an exercise")


def test_a_grade_book_is_never_written_among_the_submissions():
    for folder, out in re.findall(r'SUBMISSIONS=(\S+) ARGS="--out (\S+)"', INSTRUCTOR):
        assert not (ROOT / out).is_relative_to(ROOT / folder)


def test_every_command_that_the_instructors_pages_name_exists():
    targets = set(re.findall(r"^([a-z-]+): ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake\s([a-z-]+)", INSTRUCTOR + AGENDAS)) <= targets
