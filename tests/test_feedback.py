"""A learner's feedback page: their code, points and runs, as data and never as markup; readable in every light."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from made_up_records import ABOUT, COLLECTIVE, DEADLOCK, LINE, RING, record, result

from course_lib.plots import canvas
from course_lib.plots import time as drawn
from exercises_tests.grading import feedback, lanes, sheet, verdicts

HOSTILE = [
    "<script>alert(1)</script>", "</style><img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "' onmouseover='x",
    "a\u202eb\x1b[2J\x00", "&lt;b&gt;", "</pre></section><h1>18 of 18 points</h1>", "]]><!--", "\ud800", "{{x}}%s{0}",
]  # fmt: skip


class Tags(HTMLParser):
    """The elements of a page, whether all are closed, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.found, self.open, self.text = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(records, learner="ann", **about) -> str:
    return feedback.feedback(learner, records, about.get("attempts", []), ABOUT["graded with"])


def words(page: str) -> str:
    return " ".join("".join(Tags(page).text).split())


# What is on it


def test_each_exercise_has_its_points_parts_sentence_code_and_picture():
    page = page_of([record("ann", ["whole-tensor", "", "", ""])])
    assert "all_gather_ring · 5 of 5 points" in words(page) and "reduce_scatter_ring · 2 of 5 points" in words(page)
    assert "✓ value✓ any P✗ bytes– steps" in words(page)
    assert "You are passing the whole tensor on" in words(page) and "# ann wrote this" in words(page)
    assert page.count("<figure>") == 1 and page.count('<pre class="code">') == 4


def test_points_and_a_comment_by_hand_stand_beside_those_of_the_check():
    given = record("ann", ["mean"])
    given["results"][0]["by_hand"] = {"points": 4, "comment": "Nearly:\nlook at <b>step</b>."}
    page = page_of([given])
    assert "4 of 5 points, by hand; the check: 0 of 5 points" in words(page)
    assert "Your instructor: Nearly:" in words(page) and "&lt;b&gt;step&lt;/b&gt;" in page


def test_a_comment_by_hand_may_come_without_points():
    given = record("ann", ["mean"])
    given["results"][0]["by_hand"] = {"points": None, "comment": "Nearly."}
    page = words(page_of([given]))
    assert "reduce_scatter_ring · 0 of 5 points" in page and "Your instructor: Nearly." in page


def test_what_the_policy_made_of_the_points_is_said():
    given = record("ann", ["", "", "", ""], counted=14.4, possible=18.0, late_hours=26.0, attempt=2, attempts=3)
    assert "18 of 18 points; counted as 14.4 of 18; handed in 26 hours late; attempt 2 of 3 counts" in words(
        page_of([given]))


@pytest.mark.parametrize(("hours", "said"), [(0.01, "1 minute"), (0.5, "30 minutes"), (1.2, "1 hour"), (72, "3 days")])
def test_late_is_told_in_a_unit_that_one_thinks_in(hours, said):
    assert f"handed in {said} late" in words(page_of([record("ann", [""], late_hours=hours)]))


def test_attempts_are_listed_with_the_one_that_counts():
    tries = [record("ann", ["mean", "", "", ""], attempt=1), record("ann", ["", "", "", ""], attempt=2)]
    page = words(page_of([tries[1] | {"attempts": 2}], attempts=tries))
    assert "1 13 of 18Monday 23 November 2026, 09:30 UTC" in page.replace("113 of", "1 13 of")
    assert page.count("this one counts") == 1


def test_an_exercise_that_does_not_count_says_so():
    given = record("ann", ["mean"])
    given["results"][0]["counts"] = False
    assert "0 of 5 points, which do not count" in words(page_of([given]))


@pytest.mark.parametrize("code", ["not-written", "borrowed"])
def test_what_was_not_answered_is_no_mistake_and_its_text_is_not_shown(code):
    page = page_of([record("ann", [code])])
    assert '<section class="card long ">' in page and '<pre class="code">' not in page


def test_a_record_of_an_earlier_version_of_the_course_has_a_page():
    old = record("ann", ["mean", ""])
    for name in ("cells", "attempt", "attempts", "handed_in"):
        del old[name]
    for one in old["results"]:
        for name in ("events", "by_hand", "counts"):
            del one[name]
    assert "holds the mean, not the sum" in words(page_of([old]))


def test_a_page_that_is_there_already_is_not_made_again(tmp_path):
    path, records = tmp_path / "ann.html", [record("ann", ["mean"])]
    feedback.write_page(path, "ann", records, ABOUT)
    first = path.stat().st_mtime_ns, path.stat().st_ino
    feedback.write_page(path, "ann", records, ABOUT)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == first
    feedback.write_page(path, "ann", [record("ann", [""])], ABOUT)
    assert path.stat().st_ino != first[1] and "holds the mean" not in path.read_text()


# Whose it is


@pytest.mark.parametrize("words_", HOSTILE, ids=ascii)
def test_nothing_of_a_learner_becomes_markup(words_):
    given = record(words_, ["deadlock", "mean"], remark=words_, chapter=words_)
    for one in given["results"]:
        one |= {"sentence": f"{words_}\n{words_}", "see": words_, "code": words_,
                "by_hand": {"points": 1, "comment": words_},
                "events": [[0, "send", 0.0, 1.0, words_[:40]], [1, "wait", 1.0, 1.0, words_[:40]]]}  # fmt: skip
    given["cells"] = dict.fromkeys(given["cells"], f"x = 1  # {words_}\n{words_}\n")
    given["handed_in"] = words_
    page = page_of([given], words_, attempts=[given, given])
    plain = page_of([record("ann", ["deadlock", "mean"])])
    tags = Tags(page)
    assert tags.open == [] and {tag for tag, _ in tags.found} <= {tag for tag, _ in Tags(plain).found} | {
        "table", "thead", "tbody", "tr", "th", "td", "br", "strong", "div"}
    assert not any(name.startswith("on") or name == "src" for _, attrs in tags.found for name in attrs)
    assert "\x1b" not in page and "\u202e" not in page and "\x00" not in page
    page.encode("utf-8")


def test_a_page_needs_no_script_and_nothing_from_elsewhere():
    page = page_of([record("ann", ["deadlock"])])
    assert "<script" not in page and not re.search(r"(?:src|href)=|url\((?!#)|https?://|@import", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    "code", ["match " + " " * 100_000, "(" * 100_000, 'f"{' * 5000, "x = 1\n" * 50_000, "\t" * 7999],
    ids=lambda code: ascii(code[:6]),
)  # fmt: skip
def test_code_that_nobody_would_write_is_not_coloured_for_long(code):
    began = time.process_time()
    assert len(feedback.coloured(code)) < 10 * feedback.MOST_CODE
    assert time.process_time() - began < 5


def test_code_has_the_colours_of_a_light_and_of_a_dark_page():
    style = feedback.code_style()
    assert style.count("{.code .") == 2 and "(prefers-color-scheme:dark)" in style and style.startswith("@media print,")


# The picture


@pytest.mark.parametrize(
    ("events", "said"),
    [(DEADLOCK, "Rank 0 waits for ever to send 8 bytes to rank 1, and 3 other ranks wait too: nobody can go on."),
     (DEADLOCK[:1], "Rank 0 waits for ever to send 8 bytes to rank 1: nobody can go on."),
     (RING, "Your 4 ranks: 12 messages in 6 s of virtual time."),
     (LINE, "Your 4 ranks: 3 messages in 6 s of virtual time; rank 0 is idle for 67% of it."),
     (COLLECTIVE[:2], "Your 1 rank: 1 × all_reduce, 1 × all_gather in 2 s."),
     ([[0, "barrier", 0.0, 0.0, ""]], "What your 1 rank did took no time."),
     ([[0, "work", 0.0, 2e-6, ""]] * 400, "Your 1 rank: 400 × work in 2 µs (the first 400 things that they did).")],
    ids=["deadlock", "one waits", "ring", "line", "collectives", "no time", "many"],
)  # fmt: skip
def test_a_picture_has_a_sentence_that_says_what_is_to_be_seen(events, said):
    assert lanes.sentence(events, "Your") == said


def test_a_picture_is_told_in_words_to_whoever_cannot_see_it():
    assert lanes.words(LINE[:2]) == (
        "The 2 ranks: 1 message in 2 s of virtual time. rank 0: send to 1 · 4,096 B from 0 to 2 s; "
        "rank 1: recv from 0 · 4,096 B from 0 to 2 s.")
    assert f"<title>{lanes.words(RING)}</title>" in lanes.drawing(RING, "p")


@pytest.mark.parametrize(
    "events",
    [DEADLOCK, RING, LINE, COLLECTIVE, DEADLOCK + RING, [], [[0, "send", 0.0, 1e15, ""]],
     [[rank, "work", 0.0, 1e-300, "x" * 40] for rank in range(400)]],
    ids=len,
)  # fmt: skip
def test_every_run_that_a_verdict_may_bring_can_be_drawn_inside_the_picture(events):
    drawing = lanes.drawing(verdicts.events(events), "p")
    tags = Tags(drawing)
    assert tags.open == []
    wide, high = map(float, tags.found[0][1]["viewbox"].split()[2:])
    for tag, look in tags.found:
        if tag == "rect":
            assert 0 <= float(look["x"]) <= float(look["x"]) + float(look["width"]) <= wide + 1
            assert 0 <= float(look["y"]) <= float(look["y"]) + float(look["height"]) <= high
    assert drawing.count(">rank ") <= lanes.MOST_ROWS


def test_what_overlaps_on_a_rank_lies_in_lanes():
    assert [(lane, of) for _, lane, of in lanes.in_lanes(RING[:2])] == [(0, 2), (1, 2)]
    assert [(lane, of) for _, lane, of in lanes.in_lanes([LINE[0], LINE[2]])] == [(0, 1), (0, 1)]


def test_colours_have_the_meaning_that_they_have_in_the_course():
    assert {kind: look for kind, look in lanes.LOOKS.items() if kind != "wait"} == {
        kind: drawn.KINDS[kind] for kind in lanes.LOOKS if kind != "wait"}
    names = ("GREEN", "ORANGE", "RED", "SKY", "YELLOW", "GREY", "SENT", "RECEIVED", "COLLECTIVE", "WAITING", "INK")
    assert {name: getattr(sheet, name) for name in names} == {name: getattr(canvas, name) for name in names}
    assert lanes.LOOKS.keys() == verdicts.KINDS




def test_a_result_that_the_grader_made_up_for_a_dead_judge_can_be_shown():
    dead = result("ring_all_reduce", code="too-late", sentence="the submission took more than 240 s", marks="")
    del dead["events"]
    assert "took more than 240 s" in feedback.exercise(dead, "x = 1", "p")


@pytest.mark.parametrize(("points", "said"), [(4, "4"), (8.5, "8.5"), (10.25, "10.25"), (7.0, "7"), (20.0, "20")])
def test_points_are_as_short_as_they_are_exact(points, said):
    assert sheet.number(points) == said
