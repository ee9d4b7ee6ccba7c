"""A class of 40 graded on three days: every figure of the grade book is what a few lines of arithmetic say."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from math import ceil

import made_up_class as made_up
import pytest

from exercises_tests.grading import grader
from exercises_tests.tools.chapters import ROOT

HAND_INS = made_up.hand_ins()
DEADLINE = {"ch00": 2, "ch01": 31}  # hours after the first hour: 12:00 UTC, and 18:00 where it is 17:00 UTC


def grade(folder, out, judge, **more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grader.Grading, "sandbox", lambda self, core=None: judge)
        return grader.grade_class(folder, out, 2, "seed", root=ROOT, unprotected=True, **more)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class after three days: the folder, the grade book's folder, and how many were judged on each day."""
    folder, out = (tmp_path_factory.mktemp("class") / name for name in ("submissions", "grades"))
    out.mkdir()
    (out / "by_hand.csv").write_text(made_up.BY_HAND)
    judged = []
    for day in (1, 2, 3):
        made_up.write(folder, day)
        judge = made_up.Judge()
        grade(folder, out, judge)
        judged.append(made_up.learners_asked(judge))
    return folder, out, judged


@pytest.fixture
def again(graded, tmp_path):
    """A copy of the class, to be graded once more."""
    for source, name in zip(graded[:2], ("submissions", "grades"), strict=True):
        shutil.copytree(source, tmp_path / name)
    return tmp_path / "submissions", tmp_path / "grades"


def rows(path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def expected(learner: str, chapter: str) -> dict:
    """Return, by arithmetic of its own, what the grade book must say of a learner's chapter."""
    tries = sorted((one for one in HAND_INS if (one.learner, one.chapter) == (learner, chapter)), key=lambda o: o.hours)
    scored = []
    for number, one in enumerate(tries[:2], 1):
        total = Fraction(0)
        for name, earned in one.earned.items():
            if name == "even_to_odd":
                continue
            points = Fraction(9, 2) if (learner, name) == ("learner05", "parameter_count") else earned
            total += points * (2 if chapter == "ch01" else 1) * (Fraction(1, 2) if name == "training_days" else 1)
        late = max(Fraction(0), Fraction(one.hours).limit_denominator(10**6) - DEADLINE[chapter])
        kept = 1 - min(Fraction(15, 100), Fraction(ceil(late / 24), 10))
        scored.append((total * kept, number, late, sum(one.earned.values())))
    counted, number, late, earned = max(scored)
    possible = {"ch00": 5 + 5, "ch01": 2 * (5 + 4) + 3}[chapter]
    return {"counted": float(counted), "possible": possible, "attempt": number, "attempts": len(tries),
            "late hours": round(float(late), 2), "earned": earned, "points": {"ch00": 14, "ch01": 23}[chapter]}


def test_every_figure_of_the_grade_book_is_explained(graded):
    found = {(row["learner"], row["chapter"][:4]): row for row in rows(graded[1] / "grades.csv") if row["chapter"]}
    assert set(found) == {(one.learner, one.chapter) for one in HAND_INS}
    for key, row in found.items():
        want = expected(*key)
        assert {name: float(row[name]) for name in want} == pytest.approx(want), key


def test_forty_learners_have_a_row_and_the_empty_ones_say_so(graded):
    found = rows(graded[1] / "grades.csv")
    assert {row["learner"] for row in found} == set(made_up.LEARNERS)
    assert [row["remark"] for row in found if row["learner"] in made_up.EMPTY] == [
        "no notebook in learner38/", "no notebook in learner39/"]


def test_on_each_day_only_what_is_new_is_judged(graded):
    assert graded[2] == [sum(one.day == day for one in HAND_INS) for day in (1, 2, 3)]


def test_each_attempt_is_kept_oldest_first(graded):
    attempts = json.loads((graded[1] / "grades.json").read_text())["attempts"]
    assert len(attempts) == len(HAND_INS)
    assert [one["handed_in"] for one in attempts] == sorted(one["handed_in"] for one in attempts)


def test_an_attempt_older_than_the_one_graded_takes_its_place_and_says_so(graded):
    row = next(row for row in rows(graded[1] / "grades.csv") if row["learner"] == made_up.OLDER)
    assert row["remark"].startswith("attempt 2 of 3 counts: the best of the first 2, more do not count")
    book = json.loads((graded[1] / "grades.json").read_text())
    tries = [one["earned"] for one in book["attempts"] if one["learner"] == made_up.OLDER and one["points"] == 23]
    assert tries[:2] == [0, 23] and 0 < tries[2] < 23


def test_points_by_hand_and_their_comment_stay_over_each_grading(graded):
    book = json.loads((graded[1] / "grades.json").read_text())
    (record,) = [one for one in book["submissions"] if (one["learner"], one["points"]) == ("learner05", 23)]
    (result,) = [one for one in record["results"] if one["exercise"] == "parameter_count"]
    assert result["by_hand"] == {"points": 4.5, "comment": "right but for a slip"}
    assert (graded[1] / "by_hand.csv").read_text() == made_up.BY_HAND


def test_copied_answers_count_as_those_they_are_copied_from(graded):
    found = {(row["learner"], row["chapter"]): row["counted"] for row in rows(graded[1] / "grades.csv")}
    for copier, source in made_up.COPIED.items():
        for chapter in made_up.NAMES.values():
            assert found[copier, chapter] == found[source, chapter]


def test_the_exports_say_what_the_grade_book_says(graded):
    out = graded[1]
    counted = {(row["learner"], row["chapter"][:4]): float(row["counted"]) for row in rows(out / "grades.csv")}
    titles = {short: f"{short} {chapter.title}" for short, chapter in made_up.CHAPTERS.items()}
    canvas, moodle, plain = (rows(out / name) for name in ("canvas.csv", "moodle.csv", "roster_grades.csv"))
    assert [float(canvas[0][title]) for title in titles.values()] == [10, 21]
    for table, column in ((canvas[1:], "SIS User ID"), (moodle, "ID number"), (plain[:37], "id")):
        assert len(table) == 37  # without learner07, whom the roster does not know, and the two who handed in nothing
        for row in table:
            learner = f"learner{row[column][2:]}"
            if learner not in made_up.EMPTY:
                assert [float(row[title]) for title in titles.values()] == [counted[learner, ch] for ch in titles]
    notes = json.loads((out / "grades.json").read_text())["notes"]
    assert notes == ["1 not in the roster, so in no export: learner07.",
                     "3 of the roster handed in nothing: Person 38, Person 0, Person 2."]


def test_nothing_new_is_judged_again_with_nothing_imported_for_it_and_in_no_time(again, graded):
    folder, out = again
    before = (out / "grades.csv").read_bytes(), json.loads((out / "grades.json").read_text())
    script = (
        "import resource, sys\nfrom exercises_tests.grading import commands, sandbox\n"
        "sandbox.why_not = sandbox.Sandbox._begin = None\n"
        f"assert commands.main(['grade', {str(folder)!r}, '--out', {str(out)!r}, '--unprotected']) == 0\n"
        "assert 'torch' not in sys.modules and 'IPython' not in sys.modules\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\nprint(used.ru_utime + used.ru_stime)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 2  # of the processor, with all imports: what else runs here does not count
    assert ((out / "grades.csv").read_bytes(), json.loads((out / "grades.json").read_text())) == before


def test_with_three_changed_only_these_are_judged(again):
    folder, out = again
    for learner in ("learner01", "learner02", "learner03"):
        path = folder / learner / "ch00.ipynb"
        path.write_text(path.read_text().replace("# earns", "# better, earns").replace("better, earns", "earns 4, "))
        os.utime(path, (made_up.FIRST.timestamp() + 7200, made_up.FIRST.timestamp() + 7200))
    judge = made_up.Judge()
    grade(folder, out, judge)
    assert made_up.learners_asked(judge) == 3


def test_another_policy_judges_nothing_and_counts_anew(again):
    folder, out = again
    judge = made_up.Judge()
    (folder / "course.toml").write_text('[attempts]\ncount = "last"\n')
    records = grade(folder, out, judge)
    assert judge.asked == []
    last = {(one.learner, one.chapter): one for one in sorted(HAND_INS, key=lambda one: one.hours)}
    by_hand = {("learner05", "ch01"): 4.5 - last["learner05", "ch01"].earned["parameter_count"]}
    for record in records:
        if record["chapter"]:
            key = record["learner"], record["chapter"][:4]
            assert record["counted"] == sum(last[key].earned.values()) + by_hand.get(key, 0)
            assert record["possible"] == record["points"] and record["late_hours"] == 0


def test_one_exercise_of_all_is_judged_anew_and_nothing_else_changes(again):
    folder, out = again
    before = {one["learner"]: one for one in json.loads((out / "grades.json").read_text())["attempts"]}

    class Generous(made_up.Judge):
        def result(self, name, points, request):
            return super().result(name, points, request) | {"earned": points}

    judge = Generous()
    records = grade(folder, out, judge, exercises=["exchange"])
    asked = [set(request["exercises"]) for request in judge.asked if "# earns" in json.dumps(request["cells"])]
    assert asked == [{"exchange"}] * len({one.learner for one in HAND_INS})
    learner = next(one for one in records if one["learner"] == "learner01" and one["points"] == 14)
    hand_in = next(one for one in HAND_INS if (one.learner, one.chapter) == ("learner01", "ch00"))
    assert {one["exercise"]: one["earned"] for one in learner["results"]} == hand_in.earned | {"exchange": 5}
    assert before["learner01"]["attempt"] == 1 and learner["attempts"] == 1
