"""The history of attempts: their order, which of them counts, and that none is lost; no sandbox is needed."""

from __future__ import annotations

import json
import os

import made_up_class as made_up
import pytest

from exercises_tests.__main__ import main
from exercises_tests.grading import grader
from exercises_tests.grading.attempts import Attempts
from exercises_tests.grading.policy import Policy
from exercises_tests.tools.chapters import ROOT, ChapterError, overlay

KEY = "ann", made_up.NAMES["ch01"]
DAY = 24 * 3600


class Desk:
    """A class of one learner (or more), graded by a judge that believes the answers' comments."""

    def __init__(self, folder) -> None:
        self.folder, self.out, self.asked = folder / "submissions", folder / "grades", []

    def hand_in(self, learner="ann", day=1.0, file="a.ipynb", chapter="ch01", other="", **earned) -> None:
        earned = dict.fromkeys(made_up.POINTS[chapter], 0) | earned
        cells = {name: f"# earns {points}{other}" for name, points in earned.items()}
        path = self.folder / learner / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(overlay(made_up.CHAPTERS[chapter], cells)))
        os.utime(path, (made_up.FIRST.timestamp() + DAY * day,) * 2)

    def grade(self, policy="", **more) -> list[dict]:
        (self.folder / "course.toml").write_text(policy)
        judge = made_up.Judge()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grader.Grading, "sandbox", lambda self, core=None: judge)
            records = grader.grade_class(self.folder, self.out, 1, "s", root=ROOT, unprotected=True, **more)
        self.asked = [request for request in judge.asked if "# earns" in json.dumps(request["cells"])]
        return records

    def book(self) -> dict:
        return json.loads((self.out / "grades.json").read_text())

    def attempts(self) -> list[tuple[int, int]]:
        return [(one["attempt"], one["earned"]) for one in self.book()["attempts"]]


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


BEST = '[attempts]\ncount = "best"'


def test_improved_files_append_attempts_and_the_last_counts(desk):
    for day in (1, 2, 3):
        desk.hand_in(day=day, parameter_count=day)
        (record,) = desk.grade()
    assert desk.attempts() == [(1, 1), (2, 2), (3, 3)]
    assert (record["earned"], record["attempt"], record["attempts"], record["remark"]) == (3, 3, 3, "")
    assert record["cells"]["parameter_count"] == "# earns 3"
    assert record["handed_in"] == "2027-03-04T10:00:00.000+00:00"


def test_the_best_counts_by_policy_and_the_remark_says_which(desk):
    for day, points in ((1, 4), (2, 1)):
        desk.hand_in(day=day, parameter_count=points)
        desk.grade()
    (record,) = desk.grade(BEST)
    assert (record["earned"], record["remark"], desk.asked) == (4, "attempt 1 of 2 counts, the best", [])


def test_of_two_that_are_equally_good_the_later_counts(desk):
    for day in (1, 2):
        desk.hand_in(day=day, parameter_count=4, other=f" {day}")
        (record,) = desk.grade(BEST)
    assert (record["attempt"], record["remark"]) == (2, "")


def test_the_best_is_the_best_after_the_late_penalty(desk):
    policy = BEST + "\n[deadline]\nall = 2027-03-03T00:00:00Z\n[late]\nshare_per_day = 0.5"
    for day, points in ((1, 3), (3, 5)):
        desk.hand_in(day=day, parameter_count=points)
        (record,) = desk.grade(policy)
    assert (record["attempt"], record["counted"], record["late_hours"]) == (1, 3, 0)
    (record,) = desk.grade(policy.replace("best", "last"))
    assert (record["attempt"], record["counted"], record["late_hours"]) == (2, 0, 34)
    assert record["remark"] == "34.0 h late: 100 % off"


def test_more_attempts_than_can_count_are_kept_and_said(desk):
    for day in (1, 2, 3):
        desk.hand_in(day=day, parameter_count=day)
        (record,) = desk.grade("[attempts]\nmost = 2")
    assert (record["earned"], len(desk.attempts())) == (2, 3)
    assert record["remark"] == "attempt 2 of 3 counts: the last of the first 2, more do not count"


def test_an_older_file_than_the_one_graded_is_kept_in_its_order_and_said(desk):
    desk.hand_in(day=2, parameter_count=2)
    desk.grade()
    desk.hand_in(day=1, parameter_count=5)
    (record,) = desk.grade()
    assert desk.attempts() == [(1, 5), (2, 2)] and record["earned"] == 2
    assert record["remark"] == ("the notebook there is attempt 1, of 2027-03-02 10:00 UTC, older than attempt 2, of "
                                "2027-03-03 10:00 UTC; attempt 2 of 2 counts")
    assert desk.grade()[0]["remark"] == record["remark"] and desk.asked == []


def test_who_goes_back_to_an_earlier_version_has_a_new_attempt_that_is_not_judged_again(desk):
    for day, points in ((1, 4), (2, 1), (3, 4)):
        desk.hand_in(day=day, parameter_count=points)
        (record,) = desk.grade()
    assert desk.attempts() == [(1, 4), (2, 1), (3, 4)] and desk.asked == []
    assert (record["attempt"], record["handed_in"][:10]) == (3, "2027-03-04")


def test_the_same_answers_with_a_new_date_are_no_new_attempt_and_keep_the_earlier_one(desk):
    for day in (2, 3, 1):
        desk.hand_in(day=day, parameter_count=4)
        (record,) = desk.grade()
    assert desk.attempts() == [(1, 4)]
    assert (record["handed_in"][:10], record["late_hours"]) == ("2027-03-02", 0)


def test_a_notebook_or_a_learner_who_is_gone_keeps_what_was_judged_and_it_is_said(desk):
    desk.hand_in(parameter_count=4)
    desk.hand_in("bob", parameter_count=3)
    desk.grade()
    (desk.folder / "ann" / "a.ipynb").unlink()
    records = desk.grade()
    assert [(one["learner"], one["earned"]) for one in records] == [("ann", 0), ("ann", 4), ("bob", 3)]
    assert records[1]["remark"] == "no notebook of this chapter there any more; attempt 1 of 1 counts"
    (desk.folder / "ann").rmdir()
    assert [(one["learner"], one["earned"]) for one in desk.grade()] == [("ann", 4), ("bob", 3)]


def test_a_learner_is_judged_anew_by_force_as_the_same_attempt(desk):
    desk.hand_in(parameter_count=4)
    desk.grade()
    desk.grade(again=["ann"])
    assert len(desk.asked) == 1 and desk.attempts() == [(1, 4)]


def test_an_exercise_judged_anew_leaves_the_others_also_where_the_check_has_changed(desk, monkeypatch):
    desk.hand_in(parameter_count=4, training_days=2)
    desk.hand_in("bob", chapter="ch00", exchange=2)
    desk.grade()
    monkeypatch.setattr(grader.room, "digest", lambda *words: "another check")
    desk.grade(exercises=["training_days"])
    assert [list(request["exercises"]) for request in desk.asked] == [["training_days"]]
    ann = desk.book()["submissions"][0]
    earned = {one["exercise"]: one["earned"] for one in ann["results"] if one["earned"]}
    assert earned == {"parameter_count": 4, "training_days": 2} and ann["earned"] == 6
    desk.grade()
    assert [request["chapter"] for request in desk.asked] == [made_up.NAMES["ch00"]]  # whose check has changed, too


def test_an_exercise_that_is_not_there_is_refused_with_what_was_meant(desk):
    desk.hand_in()
    with pytest.raises(ChapterError, match="--again-exercise training_day: .* did you mean training_days?"):
        desk.grade(exercises=["training_day"])


def test_a_grade_book_of_an_earlier_version_is_read_and_nothing_of_it_lost(desk):
    desk.hand_in(parameter_count=4)
    desk.grade()
    book = desk.book()
    new = ("handed_in", "attempt", "cells", "answers", "judge", "attempts", "late_hours", "counted", "possible")
    old = [{name: value for name, value in one.items() if name not in new} for one in book["submissions"]]
    for one in old:
        one["results"] = [{name: value for name, value in result.items() if name not in ("by_hand", "counts", "events")}
                          for result in one["results"]]  # fmt: skip
    plain = {name: book[name] for name in ("graded with", "judge", "class seed")}
    (desk.out / "grades.json").write_text(json.dumps(plain | {"submissions": old}))
    (record,) = desk.grade()
    assert desk.asked == [] and desk.book()["attempts"] == book["attempts"] and record == book["submissions"][0]
    (desk.out / "grades.json").write_text(json.dumps(plain | {"submissions": old}))
    desk.hand_in(day=2, parameter_count=5)
    desk.grade()
    assert desk.attempts() == [(1, 4), (2, 5)]


def test_what_the_grader_fails_at_costs_no_earlier_attempt(desk, monkeypatch):
    desk.hand_in(parameter_count=4)
    desk.grade()
    desk.hand_in(day=2, parameter_count=5)

    def failing(*words):
        raise OSError("no sandbox today")

    with monkeypatch.context() as patch:
        patch.setattr(made_up.Judge, "ask", failing)
        fault, earlier = desk.grade()
    assert fault["fault"] and fault["remark"].startswith("not graded: the grader failed (OSError: no sandbox today")
    assert (earlier["earned"], earlier["remark"]) == (
        4, "the notebook there is not graded yet; attempt 1 of 1 counts: run the command again")
    assert [one["earned"] for one in desk.grade()] == [5]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [("submissions/course.toml", "[deadline]\nall = 2027-03-05T18:00:00", "has no time zone"),
     ("submissions/roster.csv", "id,name\n1,ann\n2,Ann\n", "could be of either"),
     ("grades/by_hand.csv", "learner,chapter,exercise,points,comment\nann,ch01,training_days,9,", "at most 3")],
)  # fmt: skip
def test_what_is_refused_is_one_sentence_on_the_command_line_and_changes_nothing(desk, capsys, file, text, words):
    desk.hand_in(parameter_count=4)
    desk.grade()
    before = {path.name: path.read_bytes() for path in desk.out.iterdir() if path.is_file()}
    (desk.out.parent / file).write_text(text)
    assert main(["grade", str(desk.folder), "--out", str(desk.out), "--unprotected", "--again", "ann"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert words in said[-1] and not said[-1].startswith("Traceback")
    after = {path.name: path.read_bytes() for path in desk.out.iterdir() if path.is_file()}
    assert before.items() <= after.items()


def test_notes_are_printed_and_kept_in_the_grade_book(desk, capsys, monkeypatch):
    desk.hand_in(parameter_count=4)
    desk.out.mkdir()
    (desk.out / "by_hand.csv").write_text("learner,chapter,exercise,points,comment\nbob,ch01,training_days,1,\n")
    monkeypatch.setattr(grader.Grading, "sandbox", lambda self, core=None: made_up.Judge())
    assert main(["grade", str(desk.folder), "--out", str(desk.out), "--unprotected"]) == 0
    note = "by_hand.csv: there is no learner 'bob'; there is ann. The line is kept."
    assert note in capsys.readouterr().err.splitlines() and desk.book()["notes"] == [note]


@pytest.mark.parametrize("change", [{"handed_in": "yesterday"}, {"handed_in": "2027-03-05T18:00:00"}, {"cells": []}])
def test_a_damaged_attempt_is_refused_and_left(desk, change):
    desk.hand_in()
    desk.grade()
    book = desk.book()
    book["attempts"][0] |= change
    text = json.dumps(book)
    (desk.out / "grades.json").write_text(text)
    with pytest.raises(ChapterError, match="grades.json cannot be read"):
        desk.grade()
    assert (desk.out / "grades.json").read_text() == text


def test_a_long_cell_is_cut_in_the_record_only(desk):
    desk.hand_in(parameter_count=4, other="#" * 30_000)
    desk.grade()
    assert len(desk.asked[0]["cells"]["parameter_count"]) > 30_000
    assert len(desk.book()["attempts"][0]["cells"]["parameter_count"]) == 20_000


def test_while_a_notebook_waits_for_its_judge_the_earlier_attempt_stands_and_says_so(desk):
    desk.hand_in(parameter_count=4)
    desk.grade()
    known = Attempts(desk.book()["attempts"])
    known.waiting.add(KEY)
    record = known.counting(KEY, Policy(), {})
    assert record["remark"] == "the notebook there is not graded yet; attempt 1 of 1 counts: run the command again"
