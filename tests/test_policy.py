"""The policy: what course.toml says, what it does to points, and a sentence for each thing that it cannot mean."""

from __future__ import annotations

import pytest

from exercises_tests.grading.policy import Policy, read_policy, when
from exercises_tests.tools.chapters import ROOT, ChapterError, chapters

KNOWN = chapters()
CH00, CH01 = (chapter.name for chapter in KNOWN[:2])
ON_TIME, LATE = "2027-03-05T16:59:59.000+00:00", "2027-03-05T17:00:01.000+00:00"
DEADLINE = "2027-03-05T18:00:00+01:00"


def policy(tmp_path, text: str) -> Policy:
    path = tmp_path / "course.toml"
    path.write_text(text)
    return read_policy(path, KNOWN)


def record(chapter=CH01, handed_in=ON_TIME, **earned) -> dict:
    """Return the record of an attempt that earns full points, but for those that are said."""
    (found,) = [one for one in KNOWN if one.name == chapter]
    results = [{"exercise": one.id, "points": one.points, "earned": earned.get(one.id, one.points), "graded": True}
               for one in found.exercises]  # fmt: skip
    return {"learner": "ann", "chapter": chapter, "handed_in": handed_in, "results": results}


def counted(policy: Policy, record: dict, by_hand=()) -> tuple[float, float, float]:
    found = policy.applied(record, dict(by_hand))
    return found["counted"], found["possible"], found["late_hours"]


def test_the_policy_that_is_shipped_is_the_one_without_any():
    shipped = read_policy(ROOT / "course.toml", KNOWN)
    assert shipped.plain() | {"from": "defaults"} == read_policy(None, KNOWN).plain()
    assert counted(shipped, record(parameter_count=1)) == (19, 23, 0)


def test_what_the_shipped_file_shows_in_its_comments_can_be_said(tmp_path):
    lines = (ROOT / "course.toml").read_text().splitlines()
    said = policy(tmp_path, "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines))
    assert said.deadlines["ch03_ring_all_reduce"].isoformat() == "2027-03-12T18:00:00+01:00"
    assert said.without == {"training_days"} and said.weights["which_is_the_ring"] == 0.5


@pytest.mark.parametrize(
    ("hours", "share"),
    [(-1, 0), (0, 0), (0.001, 0.1), (24, 0.1), (24.001, 0.2), (47, 0.2), (71, 0.3), (1000, 0.35)],
)
def test_each_day_begun_costs_its_share_up_to_the_most(tmp_path, hours, share):
    said = policy(tmp_path, f"[deadline]\nall = {DEADLINE}\n[late]\nshare_per_day = 0.1\nmost = 0.35")
    handed_in = when(said.deadlines["all"].timestamp() + 3600 * hours)
    assert counted(said, record(handed_in=handed_in)) == (
        pytest.approx(23 * (1 - share)), 23, pytest.approx(max(0, hours), abs=0.01))


def test_the_zone_of_a_deadline_counts_and_a_chapters_own_goes_before_that_of_all(tmp_path):
    said = policy(tmp_path, f"[deadline]\nall = {DEADLINE}\nch00 = 2027-03-05T18:00:00-08:00")
    assert [said.late_seconds(CH01, one) for one in (ON_TIME, LATE, "")] == [0, 1, 0]
    assert said.late_seconds(CH00, LATE) == 0


@pytest.mark.parametrize(
    ("text", "points"),
    [("", (23, 23)), ('extra = "bonus"', (23, 12)), ('extra = "not"', (12, 12)),
     ('without = ["training_days", "is_memory_bound"]', (17, 17)), ('chapters = ["ch00"]', (0, 0)),
     ('chapters = ["ch01_memory_math"]', (23, 23)), ("[weights]\nch01 = 2\ntraining_days = 0.5", (43, 43)),
     ("[weights]\ntraining_days = 0", (20, 20))],
)  # fmt: skip
def test_what_counts_and_what_it_weighs(tmp_path, text, points):
    said = policy(tmp_path, f"[counts]\n{text}")
    assert counted(said, record())[:2] == points
    assert said.possible(KNOWN[1]) == points[1]


def test_points_by_hand_take_the_place_of_those_judged_weigh_and_are_late_like_them(tmp_path):
    said = policy(tmp_path, f"[deadline]\nall = {DEADLINE}\n[late]\nshare_per_day = 0.1\n[weights]\ntraining_days = 2")
    given = {("ann", CH01, "training_days"): {"points": 1.5, "comment": "half"},
             ("ann", CH01, "parameter_count"): {"points": None, "comment": "well done"}}  # fmt: skip
    assert counted(said, record(handed_in=LATE), given)[:2] == (pytest.approx((20 + 3) * 0.9), 26)


def test_what_could_not_be_graded_is_not_possible_unless_a_person_gives_points_for_it():
    attempt = record()
    (result,) = [one for one in attempt["results"] if one["exercise"] == "parameter_count"]
    result |= {"graded": False, "earned": 0}
    assert counted(Policy(), attempt)[:2] == (18, 18)
    assert counted(Policy(), attempt, {("ann", CH01, "parameter_count"): {"points": 4, "comment": ""}})[:2] == (22, 23)


REFUSED = {
    "a deadline without a zone": (
        "[deadline]\nall = 2027-03-05T18:00:00",
        "deadline.all = 2027-03-05T18:00:00 has no time zone: write 2027-03-05T18:00:00+01:00 where the clock is one "
        "hour ahead of UTC then, 2027-03-05T18:00:00Z for UTC itself."),
    "a day": ("[deadline]\nall = 2027-03-05", "2027-03-05 is no point in time: write 2027-03-05T18:00:00+01:00, bare"),
    "quotes": ('[deadline]\nall = "2027-03-05T18:00:00+01:00"', "in quotes is no point in time: write"),
    "a clock": ("[deadline]\nall = 18:00:00", "18:00:00 is no point in time"),
    "an unknown table": ("[deadlines]\n", "there is no 'deadlines' in a policy; did you mean deadline?"),
    "an unknown key": ("[late]\nshare_pro_day = 1", "[late] has no 'share_pro_day'; did you mean share_per_day?"),
    "no table": ("late = 0.1", "late is a table: write [late] on a line, and its keys below"),
    "an unknown chapter": ("[deadline]\nfsdp = 2027-03-05T18:00:00Z", "no chapter 'fsdp'; did you mean ch07_fsdp?"),
    "a chapter by a slip": ('[counts]\nchapters = ["ch1_memory_math"]', "did you mean ch01_memory_math?"),
    "an unknown exercise": ('[counts]\nwithout = ["training_day"]', "'training_day'; did you mean training_days?"),
    "an unknown weight": ("[weights]\nParameter_count = 2", "did you mean parameter_count?"),
    "a weight that is none": ('[weights]\nch01 = "2"', 'weights.ch01 = "2": give a number, 0 or more.'),
    "a negative weight": ("[weights]\nch01 = -1", "weights.ch01 = -1: give a number, 0 or more."),
    "an endless weight": ("[weights]\nch01 = inf", "weights.ch01 = inf: give a number"),
    "a share in percent": ("[late]\nshare_per_day = 10", "share_per_day = 10: give a share between 0 and 1; 0.1 is a"),
    "half an attempt": ("[attempts]\nmost = 1.5", "attempts.most = 1.5: give a whole number, 0 or more."),
    "a truth": ("[attempts]\nmost = true", "attempts.most = True: give a whole number"),
    "the first attempt": ('[attempts]\ncount = "first"', 'attempts.count = "first": give "last" or "best".'),
    "extras by half": ('[counts]\nextra = 0.5', 'counts.extra = 0.5: give "full" or "bonus" or "not".'),
    "a list that is none": ('[counts]\nchapters = "ch00"', 'counts.chapters = "ch00": give a list of names'),
    "no TOML": ("[deadline]\nall = 18 o'clock", "is not TOML:"),
    "an escape": ('[counts]\nwithout = ["\\u001b[2J"]', "there is no exercise '\ufffd[2J'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_policy_cannot_mean_is_refused_in_a_sentence(tmp_path, what):
    text, words = REFUSED[what]
    with pytest.raises(ChapterError) as refused:
        policy(tmp_path, text)
    assert words in str(refused.value) and "course.toml: " in str(refused.value) or "is not TOML" in words


def test_a_policy_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ChapterError, match="nowhere.toml cannot be read: No such file"):
        read_policy(tmp_path / "nowhere.toml", KNOWN)


@pytest.mark.parametrize("seconds", [-1e20, 1e20, float("nan"), float("inf")])
def test_a_time_of_change_that_no_calendar_holds_is_bounded(seconds):
    assert when(seconds)[:4] in ("1970", "2100")
