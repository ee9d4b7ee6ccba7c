"""Answers that are alike: copied pairs of a made-up class of 40 are found, and no honest pair stands above them."""

from __future__ import annotations

import json
import random

import made_up_answers
import pytest

from exercises_tests.grading import sheet, similar, similar_page
from exercises_tests.grading.attempts import empty_record
from exercises_tests.tools.chapters import chapters, find, solutions

WAYS = ["renamed", "reformatted", "one line changed", "all of it"]


def a_class(name: str, seed: int) -> tuple[dict, dict, dict[tuple[str, str], str]]:
    """Return the answers of 40 learners, the course's texts, and who has copied in which way: four of them."""
    chapter = find(name)
    texts, known = made_up_answers.pool(chapter), similar.known(chapter)
    learners = [f"learner {number:02d}" for number in range(40)]
    random.Random(seed).shuffle(learners)
    answers = made_up_answers.honest(texts, learners, seed)
    unsaid = similar.compare(answers, known).unsaid
    tells = {one: sum(one not in unsaid[exercise] for exercise in texts) for one in learners}
    copied_from = [one for one in learners if tells[one] >= 3][: len(WAYS)]  # of what the course wrote, nobody can tell
    copiers = [one for one in learners if one not in copied_from][: len(WAYS)]
    planted = {}
    for way, one, other in zip(WAYS, copied_from, copiers, strict=True):
        answers[other] = made_up_answers.copied(answers[one], way, other)
        planted[min(one, other), max(one, other)] = way
    return answers, known, planted


@pytest.mark.parametrize(("chapter", "seed"), [("ch04", 0), ("ch06", 1), ("ch07", 2)])
def test_the_copied_pairs_are_found_and_no_other_pair_stands_above_them(chapter, seed):
    answers, known, planted = a_class(chapter, seed)
    first = similar.pairs(answers, known)[: len(planted)]
    assert {(pair.first, pair.second) for pair in first} == set(planted)


def test_where_a_chapter_has_four_short_exercises_the_copied_pairs_are_among_the_first_ten():
    for seed in (0, 4):  # with 4 an honest pair that had drawn two texts in common is the fourth
        answers, known, planted = a_class("ch03", seed)
        assert set(planted) <= {(pair.first, pair.second) for pair in similar.pairs(answers, known)[:10]}


def test_what_the_order_of_learners_is_changes_nothing():
    answers, known, _ = a_class("ch06", 0)
    turned = dict(reversed(answers.items()))
    assert similar.pairs(answers, known) == similar.pairs(turned, known)


LONG = """def plan(sizes, cap):
    found, room = [], cap
    for place in range(len(sizes) - 1, -1, -1):
        if not found or sizes[place] > room:
            found.append([])
            room = cap
        found[-1].append(place)
        room = room - sizes[place]
    return [group for group in found if group]
"""
OTHER = """def plan(sizes, cap):
    out = {}
    total = 0
    while sizes:
        total += sizes.pop()
        out.setdefault(total // cap, []).append(len(sizes))
    return sorted(out.values(), reverse=True)
"""


def two(first: str, second: str, known: list[str] | None = None) -> similar.Similarity:
    """Compare two learners' answers beside eight others that all wrote one thing."""
    others = {f"other {number}": {"plan": OTHER} for number in range(8)}
    return similar.compare({"ada": {"plan": first}, "bob": {"plan": second}} | others, {"plan": known or [""]})


def of_ada_and_bob(found: similar.Similarity) -> float:
    both = [pair.matches[0].share for pair in found.pairs if (pair.first, pair.second) == ("ada", "bob")]
    return max(both, default=0)


@pytest.mark.parametrize("change", [
    lambda text: made_up_answers.renamed(text, "x"),
    lambda text: made_up_answers.reformatted(text, "x"),
    lambda text: text.replace("def plan(sizes, cap)", "def plan(sizes: list[int], cap: int = 4) -> list"),
    lambda text: text.replace("    found, room", '    """What I do here."""\n    found, room'),
    lambda text: text.replace("range(len(sizes) - 1, -1, -1)", "range((len(sizes) - 1),\n        -1, (-1))"),
    lambda text: text.replace("room = cap", "room: int = cap"),
    lambda text: "%%time\n" + text + "!ls\n",
], ids=["names", "comments", "types", "docstring", "brackets", "annotation", "magics"])  # fmt: skip
def test_what_a_copier_changes_without_understanding_does_not_hide_it(change):
    assert change(LONG) != LONG
    assert of_ada_and_bob(two(LONG, change(LONG))) > 0.75


def test_a_changed_line_hides_that_line_only():
    assert 0.4 < of_ada_and_bob(two(LONG, LONG.replace("room = room - sizes[place]", "print(max(found))"))) < 1


def test_two_answers_that_differ_are_not_listed():
    assert of_ada_and_bob(two(LONG, OTHER.replace("sorted", "list"))) == 0


def test_what_everybody_wrote_says_nothing():
    found = two(LONG, LONG.replace("found", "got"))
    assert found.pairs[0].first == "ada" and found.pairs[0].bits > 1
    assert all(pair.bits < 1 for pair in found.pairs[1:])


def test_what_the_course_gave_out_is_taken_away_and_told():
    found = two(LONG, LONG, known=[LONG.replace("room", "left")])
    assert of_ada_and_bob(found) == 0
    assert found.unsaid["plan"]["ada"] == similar.SHORT
    assert found.as_course["plan"] == {"ada": 1.0, "bob": 1.0}


def test_hints_and_stubs_of_every_chapter_are_taken_away():
    for chapter in chapters():
        known = similar.known(chapter)
        answers = {"ada": solutions(chapter), "bob": solutions(chapter),
                   "cy": {name: f'{name} = borrow("{name}")' for name in known},
                   "di": {name: texts[1] for name, texts in known.items()}}
        assert similar.pairs(answers, known) == []


def test_an_answer_that_is_too_short_or_no_code_is_said_to_be():
    found = two("def plan(a, b):\n    return 7", "def plan(:")
    assert found.unsaid["plan"] == {"ada": similar.SHORT, "bob": similar.BROKEN}


HOSTILE = ["-" * 19_000 + "1", "a" + ".b" * 9_000, "1if 1 else " * 1_500 + "1", "\0", "(" * 9_000, "\ud800", "",
           "x = 0x" + "f" * 19_000, "x = " + "+".join("1" * 9_000)]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_ends_the_comparison(text, capfd):
    assert two(text, LONG).unsaid["plan"]["ada"] in (similar.SHORT, similar.BROKEN)
    assert capfd.readouterr() == ("", "")


def test_one_learner_alone_has_no_pair():
    assert similar.pairs({"ada": {"plan": LONG}}, {}) == [] == similar.pairs({}, {})


def test_the_records_of_a_grade_book_are_compared_and_older_ones_without_answers_are_passed_over():
    chapter = find("ch06")
    answers, _, planted = a_class("ch06", 0)
    records = [{"learner": name, "chapter": chapter.name, "cells": cells} for name, cells in answers.items()]
    found = similar.of_class([*records, {"learner": "old", "chapter": chapter.name}])
    assert {(pair.first, pair.second) for pair in found.pairs[:4]} == set(planted)


def test_the_page_shows_both_texts_with_what_is_in_both_marked(tmp_path):
    found = two(LONG, LONG.replace("found", "got") + "\nprint(plan)\n")
    answers = {"ada": {"plan": LONG}, "bob": {"plan": LONG.replace("found", "got") + "\nprint(plan)\n"}}
    similar_page.write(tmp_path / "similar.html", found, answers)
    page = (tmp_path / "similar.html").read_text()
    assert "ada, bob" in page and "plan 100%" in page and "not a verdict" in page
    assert sheet.STYLE in page and sheet.POLICY in page  # it looks like the other pages, and loads nothing
    assert "<mark>    found, room = [], cap</mark>" in page and "<mark>    got, room = [], cap</mark>" in page
    assert "<mark>print(plan)" not in page and "print(plan)" in page


def test_names_and_texts_are_data_on_the_page(tmp_path):
    evil = LONG + "\n# <script>alert(1)</script>\x1b[2J\n"
    answers = {"<b>ada": {"plan": evil}, "bob\u202e": {"plan": evil}} | {f"o{n}": {"plan": OTHER} for n in range(5)}
    found = similar.compare(answers, {})
    similar_page.write(tmp_path / "similar.html", found, answers)
    page = (tmp_path / "similar.html").read_text()
    assert len(found.pairs) and "&lt;b&gt;ada" in page and "&lt;script&gt;" in page
    assert not any(sign in page for sign in ("<b>", "<script", "\x1b", "\u202e"))


@pytest.fixture
def book(tmp_path):
    """Return a grade book's records of chapter 6, and its folder."""
    chapter = find("ch06").name
    records = [empty_record(name, tmp_path / "a.ipynb", "") | {"chapter": chapter, "cells": {"gpipe": text}}
               for name, text in (("ada", LONG), ("bob", LONG.replace("found", "got")), ("eve", OTHER))]  # fmt: skip
    (tmp_path / "grades.json").write_text(json.dumps({"class seed": "", "submissions": records}))
    return records, tmp_path


def test_the_page_is_written_by_a_process_of_its_own_and_again_only_if_an_answer_changed(book, monkeypatch):
    records, folder = book
    assert similar_page.renew(folder, records) == ""
    assert "ada, bob" in (folder / "similar.html").read_text()
    monkeypatch.setattr(similar_page.sys, "executable", "/bin/false")
    assert similar_page.renew(folder, records) == ""
    records[0]["cells"]["gpipe"] += "x = 1\n"
    assert similar_page.renew(folder, records) == "similar.html was not written: its process ended with 1."


def test_comparing_that_takes_too_long_is_given_up_with_a_sentence(book, monkeypatch):
    records, folder = book
    monkeypatch.setattr(similar_page, "SECONDS", 0.001)
    assert similar_page.renew(folder, records) == "similar.html was not written: it took more than 0.001 s."
    assert not (folder / "similar.html").exists()


def test_a_class_of_one_has_no_such_page(book):
    records, folder = book
    assert similar_page.renew(folder, records[:1]) == "" and not (folder / "similar.html").exists()
