"""The page of a workshop under way: what the notebooks in a folder say of themselves, while they are being written."""

from __future__ import annotations

import json
import os
import re

import pytest
from made_up_folder import printed, save
from test_feedback import HOSTILE, Tags, words

from exercises_tests import __main__ as command
from exercises_tests.grading import watch, workshop
from exercises_tests.judging import check, expect
from exercises_tests.tools.chapters import ROOT, ChapterError, chapters, parse


def helper(number):
    raise NotImplementedError


NOW = 1_800_000_000.0
KNOWN = {chapter.name: chapter for chapter in chapters(ROOT)}
CHAPTER = KNOWN["ch03_ring_all_reduce"]
FIRST, SECOND, THIRD, FOURTH = (exercise.id for exercise in CHAPTER.exercises)


@pytest.fixture
def seen(tmp_path):
    """What is known of a folder, before the first look."""
    (tmp_path / "class").mkdir()
    return workshop.Workshop(tmp_path / "class", KNOWN)


def copy_of(seen, learner="ann"):
    return seen.copies[learner, CHAPTER.name]


# What a notebook says


@pytest.mark.parametrize("state", ["open", "written", "wrong", "passed", "borrowed"])
def test_an_exercise_stands_where_its_cells_say(seen, state):
    save(seen.folder, "ann", CHAPTER, {SECOND: state}, NOW)
    seen.look()
    assert copy_of(seen).states == dict.fromkeys([FIRST, SECOND, THIRD, FOURTH], "open") | {SECOND: state}


def test_the_lines_that_are_looked_for_are_those_that_checks_print(capsys):
    @check(value=1)
    def check_twice(answer, part):
        part("value")
        expect(answer(1) == 2, "twice 1 is 2", "value")
        return "doubles"

    check_twice(lambda number: 2 * number)
    assert capsys.readouterr().out.startswith("✓ twice ")
    assert str(check_twice.outcome(lambda number: number)).startswith("✗ twice ")

    def twice(number):
        raise NotImplementedError

    assert str(check_twice.outcome(twice)).startswith("✗ twice   Not written yet")
    assert str(check_twice.outcome(lambda number: helper(number))).startswith("✗ twice   Needs helper")


@pytest.mark.parametrize("outputs", [None, "x", {}, [None], [[]], [{"text": None}], [{"text": {}}], [{"data": []}],
                                     [{"data": {"text/plain": [1, None]}}], [{"evalue": 5}]], ids=str)  # fmt: skip
def test_outputs_of_another_form_say_nothing(seen, outputs):
    path = save(seen.folder, "ann", CHAPTER, {FIRST: "written"}, NOW)
    notebook = json.loads(path.read_text())
    next(cell for cell in notebook["cells"] if cell.get("id") == f"check_{FIRST}")["outputs"] = outputs
    assert workshop.states_of(parse(path, json.dumps(notebook).encode()), CHAPTER)[FIRST] == "written"


def test_a_learner_is_at_the_last_exercise_that_is_begun_and_not_right():
    states = {FIRST: "passed", SECOND: "wrong", THIRD: "written", FOURTH: "open"}
    assert workshop.Copy("", states, 0, 0).at == THIRD
    assert workshop.Copy("", states | {THIRD: "passed", SECOND: "borrowed"}, 0, 0).at == FOURTH
    assert workshop.Copy("", dict.fromkeys(states, "passed"), 0, 0).at == ""


# A folder that fills


def test_who_comes_later_has_a_later_number_and_keeps_it(seen):
    seen.look()
    for learner in ("mia", "zoe", "ann"):
        save(seen.folder, learner, CHAPTER, {}, NOW)
        seen.look()
    assert seen.numbers == {"mia": 1, "zoe": 2, "ann": 3}


def test_a_notebook_that_is_half_written_is_skipped_and_read_the_next_time(seen):
    path = save(seen.folder, "ann", CHAPTER, {FIRST: "wrong"}, NOW)
    seen.look()
    whole = path.read_text()
    path.write_text(whole[:1000])
    seen.look()
    assert copy_of(seen).states[FIRST] == "wrong"
    save(seen.folder, "ann", CHAPTER, {FIRST: "passed"}, NOW + 10)
    seen.look()
    assert copy_of(seen).states[FIRST] == "passed"


def test_only_what_changed_is_read(seen, monkeypatch):
    for learner in ("ann", "bob"):
        save(seen.folder, learner, CHAPTER, {}, NOW)
    read, real = [], workshop.untrusted.read
    monkeypatch.setattr(workshop.untrusted, "read", lambda path: read.append(path.parent.name) or real(path))
    seen.look()
    seen.look()
    save(seen.folder, "bob", CHAPTER, {FIRST: "passed"}, NOW + 1)
    seen.look()
    assert read == ["ann", "bob", "bob"]


@pytest.mark.parametrize(
    "contents", ["", "{", "[]", '{"cells": []}', "\x00" * 100,
                 '{"cells": [1], "metadata": {"course": {"chapter": []}}}',
                 '{"cells": [], "metadata": {"course": {"chapter": "../../etc"}}}'], ids=ascii,
)  # fmt: skip
def test_what_is_no_chapter_is_passed_over(seen, contents):
    (seen.folder / "ann").mkdir()
    (seen.folder / "ann" / "x.ipynb").write_text(contents)
    save(seen.folder, "bob", CHAPTER, {}, NOW)
    seen.look()
    assert list(seen.numbers) == ["bob"]


def test_links_pipes_and_folders_are_not_read(seen):
    path = save(seen.folder, "bob", CHAPTER, {}, NOW)
    (seen.folder / "ann").mkdir()
    (seen.folder / "ann" / "a.ipynb").symlink_to(path)
    os.mkfifo(seen.folder / "ann" / "b.ipynb")
    (seen.folder / "ann" / "c.ipynb").mkdir()
    seen.look()
    assert list(seen.numbers) == ["bob"]


def test_an_older_copy_of_the_same_chapter_does_not_count(seen):
    save(seen.folder, "ann", CHAPTER, {FIRST: "passed"}, NOW)
    old = save(seen.folder, "old", CHAPTER, {}, NOW - 60)
    os.rename(old, seen.folder / "ann" / "z.ipynb")
    (seen.folder / "old").rmdir()
    seen.look()
    assert copy_of(seen).states[FIRST] == "passed"


def test_a_folder_that_is_gone_leaves_what_was_seen(seen):
    path = save(seen.folder, "ann", CHAPTER, {FIRST: "passed"}, NOW)
    seen.look()
    path.unlink()
    path.parent.rmdir()
    seen.folder.rmdir()
    seen.look()
    assert copy_of(seen).states[FIRST] == "passed"


# For long


def test_who_has_been_at_an_exercise_for_twice_its_minutes_has_been_there_for_long(seen):
    minutes = {exercise.id: exercise.minutes for exercise in CHAPTER.exercises}[FIRST]
    save(seen.folder, "ann", CHAPTER, {FIRST: "wrong"}, NOW)
    seen.look()
    assert seen.minutes_at(copy_of(seen), NOW + 120 * minutes - 1) == 0
    assert seen.minutes_at(copy_of(seen), NOW + 120 * minutes) == 2 * minutes
    page = words(watch.live_page(seen, NOW + 120 * minutes))
    assert f"1 learner has been at one exercise for long1 {FIRST}, {2 * minutes} minutes, tried" in page


def test_another_try_at_the_same_exercise_does_not_start_the_time_anew_and_the_next_exercise_does(seen):
    for later, states in ((0, {FIRST: "written"}), (600, {FIRST: "wrong"}), (900, {FIRST: "passed"})):
        save(seen.folder, "ann", CHAPTER, states, NOW + later)
        seen.look()
        assert copy_of(seen).since == NOW + (900 if later == 900 else 0)


def test_who_is_done_is_nowhere_for_long(seen):
    save(seen.folder, "ann", CHAPTER, dict.fromkeys([FIRST, SECOND, THIRD, FOURTH], "passed"), NOW)
    seen.look()
    assert "at one exercise" not in words(watch.live_page(seen, NOW + 1e6))


@pytest.mark.parametrize("changed", [-1e17, 1e17])
def test_a_file_of_any_time_has_a_place_on_the_page(seen, changed):
    save(seen.folder, "ann", CHAPTER, {FIRST: "wrong"}, NOW)
    seen.look()
    copy_of(seen).changed = copy_of(seen).since = changed
    assert "1 learner · last change" in words(watch.live_page(seen, NOW))


# The page


def test_the_page_has_a_row_an_exercise_a_column_a_learner_and_no_name(seen):
    save(seen.folder, "Ann Smith", CHAPTER, {FIRST: "passed", SECOND: "wrong"}, NOW)
    save(seen.folder, "bob", CHAPTER, {FIRST: "borrowed"}, NOW)
    seen.look()
    page = watch.live_page(seen, NOW + 1)
    assert "Ann" not in page and "bob" not in page
    assert re.findall(r'<td class="c ([a-z ]+)">(.)</td>', page) == [
        ("passed", "✓"), ("borrowed", "↓"), ("wrong at", "✗"), ("open at", "–"), ("open", "–"), ("open", "–"),
        ("open", "–"), ("open", "–")]
    assert 'aria-label="1 passed, 1 borrowed"' in page and '<meta http-equiv="refresh" content="5">' in page
    named = watch.live_page(seen, NOW + 1, names=True)
    assert "Ann Smith" in named and "bob" in named


def test_the_chapter_that_changed_last_is_on_top(seen):
    save(seen.folder, "ann", KNOWN["ch02_collectives"], {}, NOW - 5)
    save(seen.folder, "ann", CHAPTER, {}, NOW)
    seen.look()
    page = words(watch.live_page(seen, NOW))
    assert page.index("Chapter 3") < page.index("Chapter 2")


@pytest.mark.parametrize("name", [re.sub("[/\x00\ud800]", "_", name) for name in HOSTILE], ids=ascii)
def test_names_of_folders_are_text_on_the_page(seen, name):
    path = save(seen.folder, name, CHAPTER, {FIRST: "wrong"}, NOW)
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell.get("id") == f"check_{FIRST}":
            cell["outputs"] = [{"text": f"✓ {FIRST} {name}"}, *printed(FIRST, "wrong")]
    path.write_text(json.dumps(notebook))
    seen.look()
    tags = Tags(watch.live_page(seen, NOW + 1e6, names=True))
    assert tags.open == [] and not {"script", "img", "svg"} & {tag for tag, _ in tags.found}
    assert not any(key.startswith("on") for _, attrs in tags.found for key in attrs)


# The command


class Waits:
    """Counts how often it is waited, does something each time, and ends like Ctrl-C."""

    def __init__(self, *deeds):
        self.deeds, self.seconds = list(deeds), []

    def __call__(self, seconds):
        self.seconds.append(seconds)
        if not self.deeds:
            raise KeyboardInterrupt
        self.deeds.pop(0)()


def test_the_page_is_written_when_something_changed_and_only_then(tmp_path):
    folder, path, written = tmp_path / "class", tmp_path / "grades" / "live.html", []
    folder.mkdir()

    def note():
        written.append(path.stat().st_ino)

    def hand_in():
        save(folder, "ann", CHAPTER, {}, NOW)

    waits = Waits(note, note, hand_in, note, note)
    found = watch.run(folder, path, every=3.0, wait=waits, clock=lambda: NOW)
    assert waits.seconds == [3.0] * 6 and list(found.numbers) == ["ann"]
    assert written[0] == written[1] != written[2] == written[3]
    assert "no longer watched" in path.read_text() and "refresh" not in path.read_text()


def test_ctrl_c_ends_it_with_one_sentence(tmp_path, monkeypatch, capsys):
    save(tmp_path / "class", "ann", CHAPTER, {}, NOW)
    monkeypatch.setattr(watch.threading, "Event", lambda: type("", (), {"wait": Waits()}))
    assert command.main(["watch", str(tmp_path / "class"), "--out", str(tmp_path / "grades")]) == 0
    first, empty, last = capsys.readouterr().out.splitlines()
    assert "Ctrl-C ends it" in first and last == f"Watched 1 learner; {tmp_path}/grades/live.html stays as it is now."


@pytest.mark.parametrize(("argv", "said"), [
    (["nowhere"], "nowhere is not a folder"), ([""], "make watch SUBMISSIONS=dir"), ([], "watch needs a folder."),
    ([".", "--every", "0"], "--every 0: give the seconds"), ([".", "--every", "nan"], "--every nan: give the seconds"),
    ([".", "--nobody"], "watch does not take --nobody"),
], ids=str)  # fmt: skip
def test_a_request_that_cannot_be_meant_is_told_in_a_sentence(argv, said, capsys, monkeypatch):
    monkeypatch.setattr(watch.threading, "Event", lambda: type("", (), {"wait": Waits()}))
    assert command.main(["watch", *argv]) == 2
    told = capsys.readouterr().err
    assert said in told and len(told.splitlines()) == 1


def test_a_folder_without_anybody_has_a_page(seen):
    seen.look()
    assert "0 learners · nothing has been handed in yet" in words(watch.live_page(seen, NOW))
    with pytest.raises(ChapterError):
        watch.run(seen.folder / "no", seen.folder / "live.html")
