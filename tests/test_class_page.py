"""The page for the class: every figure counted, what to do first computed, and nobody's name on it."""

from __future__ import annotations

import re

import pytest
from made_up_records import ABOUT, CHAPTER, CODE, EXERCISES, class_of, record
from test_feedback import HOSTILE, Tags, words

from exercises_tests.grading import anonymous, class_page, standing

NAMES = ["Ann Smith", "bob_müller", "chloë07", "Dmitri", "Eve", "li", "ann"]


def class_in(*groups: tuple[int, list[str]], name: str = "learner{:02d}") -> list[dict]:
    """Return a class of groups: so many learners, whose exercises ended with these codes."""
    codes = [codes for count, codes in groups for _ in range(count)]
    return [record(name.format(place), one) for place, one in enumerate(codes)]


def nothing(count: int) -> list[dict]:
    return [record(f"absent{place}", []) | {"chapter": "", "remark": "no notebook"} for place in range(count)]


# Counted


def test_at_each_exercise_a_learner_stands_in_one_place():
    found = standing.standing(class_in((3, ["", "", "", ""]), (2, ["mean", "whole-tensor", "not-written", "borrowed"])))
    assert [place.exercise for place in found.places] == list(EXERCISES)
    assert [place.counts for place in found.places] == [
        {"passed": 3, "partly": 0, "wrong": 2, "borrowed": 0, "open": 0},
        {"passed": 3, "partly": 2, "wrong": 0, "borrowed": 0, "open": 0},
        {"passed": 3, "partly": 0, "wrong": 0, "borrowed": 0, "open": 2},
        {"passed": 3, "partly": 0, "wrong": 0, "borrowed": 2, "open": 0}]
    assert [(place.earned, place.points, place.stuck) for place in found.places] == [
        (15, 25, 2), (19, 25, 2), (15, 25, 0), (9, 15, 0)]


def test_points_by_hand_count_and_what_was_not_graded_does_not():
    records = class_in((3, ["mean"]))
    records[0]["results"][0]["by_hand"] = {"points": 5, "comment": ""}
    records[1]["results"][0]["graded"] = False
    (place,) = standing.standing(records).places
    assert (place.counts["passed"], place.counts["wrong"], place.ungraded, place.earned) == (1, 1, 1, 5)


def test_mistakes_are_counted_by_learner_and_the_most_frequent_comes_first():
    found = standing.standing(class_in((3, ["mean", "raised"]), (4, ["deadlock", ""])))
    assert [(one.exercise, one.code, len(one)) for one in found.mistakes] == [
        ("reduce_scatter_ring", "deadlock", 4), ("all_gather_ring", "raised NameError", 3),
        ("reduce_scatter_ring", "mean", 3)]


def test_a_class_of_exceptions_of_a_learners_own_is_not_named():
    records = class_in((2, ["raised"]))
    for one in records:
        one["results"][0]["sentence"] = "on 2 ranks rank 0 raised AnnSmithError: hello"
    assert [one.code for one in standing.standing(records).mistakes] == ["raised"]


def test_a_sentence_is_that_of_most_whatever_their_numbers():
    records = class_in((3, ["mean"]))
    for place, one in enumerate(records):
        one["results"][0]["sentence"] = f"the tensor is {place}, not {place + 1}" if place else "something else"
    (mistake,) = standing.standing(records).mistakes
    assert mistake.sentence == "the tensor is 1, not 2"
    records[2]["results"][0]["sentence"] = "I am Ann"
    (mistake,) = standing.standing(records).mistakes
    assert mistake.sentence == ""


CIRCLE = ("on {0} ranks a deadlock: no rank can go on, and none of them ever will:\n"
          "  rank 0 waits to receive from rank 1\n    line 3 of cell exchange, in exchange: dist.recv({1}, peer)\n"
          "They wait in a circle: 0 -> 1 -> 0.")


def test_a_sentence_goes_on_to_its_last_line_without_the_lines_of_somebodys_code():
    records = class_in((3, ["mean"]))
    for place, one in enumerate(records):
        one["results"][0]["sentence"] = CIRCLE.format(place + 2, f"box{'x' * place}")
    page = words(class_page.class_page(records, ABOUT))
    assert "On 2 ranks a deadlock: no rank can go on, and none of them ever will:" in page
    assert "rank 0 waits to receive from rank 1" in page and "They wait in a circle: 0 -> 1 -> 0." in page
    assert "and none of them ever will”. Begin there." in page and "dist.recv(box" not in page


def test_where_only_the_first_lines_are_alike_nothing_is_announced_that_does_not_follow():
    records = class_in((2, ["mean"]))
    for one, rest in zip(records, ("ranks wait", "rank 3 has returned"), strict=True):
        one["results"][0]["sentence"] = f"a deadlock: no rank can go on:\n  {rest}"
    (mistake,) = standing.standing(records).mistakes
    assert mistake.sentence == "a deadlock: no rank can go on"


def test_the_shares_are_of_what_was_handed_in():
    found = standing.standing([*class_in((1, ["", "", "", ""]), (1, ["mean", "mean", "mean", ""])), *nothing(3)])
    assert (found.shares, found.empty, len(found.learners)) == ([1.0, 3 / 18], 3, 5)


# What to do first


def test_the_first_sentence_says_how_many_are_at_the_same_place():
    records = [*class_in((12, ["deadlock", "", "", ""]), (3, ["mean", "", "", ""]), (25, ["", "", "", ""]))]
    first, *rest = standing.standing(records).advice()
    assert first.startswith("12 of 40 are at the same place, reduce_scatter_ring in Chapter 3: ring all reduce (dead")
    assert "wait in a circle" in first and first.endswith("Begin there.") and not any("Then" in said for said in rest)


def test_a_second_place_is_named_if_it_is_worth_it():
    records = class_in((12, ["deadlock", ""]), (5, ["", "mean"]), (23, ["", ""]))
    assert "Then all_gather_ring (mean), 5 of 40." in standing.standing(records).advice()


def test_where_nobody_is_at_the_same_place_it_says_so():
    assert standing.standing(class_in((3, ["mean"]), (37, [""]))).advice() == [
        "No mistake is made by 4 or more of 40: nothing needs the whole room."]


def test_that_time_and_not_words_are_missing_is_said():
    records = [*class_in((4, ["mean", "not-written"]), (16, ["", "not-written"])), *nothing(2)]
    found = standing.standing(records).advice()
    assert found[1] == ("Time is missing, not words: 20 of the 20 who handed in Chapter 3: ring all reduce have not "
                        "written all_gather_ring; make catch-up CHAPTER=ch03 takes them along.")
    assert found[2] == "2 learners of 22 handed in nothing that could be graded."


@pytest.mark.parametrize(("records", "said"), [([], "Nothing has been handed in yet."),
                                              (nothing(1), "1 learner of 1 handed in nothing that could be graded.")],
                         ids=["nobody", "nothing"])  # fmt: skip
def test_a_class_of_nothing_has_a_page(records, said):
    assert said in words(class_page.class_page(records, ABOUT))


@pytest.mark.parametrize(("groups", "tries", "at_fault"), [
    (((9, ["mean"]), (1, ["deadlock"])), 1, True),
    (((6, ["mean"]), (5, ["deadlock"])), 1, False),  # not one mistake
    (((7, ["mean"]),), 1, False),  # few tries
    (((7, ["mean"]),), 2, True),
    (((9, ["mean"]), (21, [""])), 1, False),  # most got through
], ids=str)  # fmt: skip
def test_the_text_may_be_at_fault_where_many_tries_end_in_one_mistake(groups, tries, at_fault):
    records = class_in(*groups)
    attempts = [one | {"cells": {"reduce_scatter_ring": f"try {place}"}} for one in records for place in range(tries)]
    (place,) = standing.standing(records, attempts).places
    assert place.text_may_be_at_fault is at_fault
    page = words(class_page.class_page(records, ABOUT | {"attempts": attempts}))
    assert ("whose text may be at fault" in page) is at_fault


def test_the_same_text_handed_in_again_is_no_other_try():
    records = class_in((2, ["mean"]))
    assert standing.standing(records, records * 3).places[0].tries.total() == 2


# Nobody's name


def test_an_example_is_shown_only_of_a_mistake_that_five_made():
    four, five = (class_page.class_page(class_in((count, ["mean"])), ABOUT) for count in (4, 5))
    assert "As one of them wrote it" not in four and "4 of 4: reduce_scatter_ring" in words(four)
    assert "As one of them wrote it" in five and "<figure>" in five


def test_no_name_is_on_the_page_however_it_got_into_code_and_sentences():
    records = []
    for learner in NAMES:
        one = record(learner, ["mean"])
        plain = re.sub(r"\W", "_", learner)
        one["cells"]["reduce_scatter_ring"] = (
            f"# {learner}\ndef reduce_scatter_ring(dist, tensor):\n    '''By {learner}'''\n    {plain}_sum = 1\n"
            f"    print('{learner} was here')\n    {plain} = sum_of_{plain.lower()}  # {learner}\n")
        one["results"][0]["sentence"] = "name 'Ann' of Dmitri's is not defined, says bob müller, 1"
        records.append(one)
    page = words(class_page.class_page(records, ABOUT))
    for name in ("ann", "smith", "bob", "müller", "muller", "chloë", "dmitri", "eve"):
        assert not re.search(rf"(?<![a-z]){name}(?![a-z])", page.casefold()), name


@pytest.mark.parametrize(("text", "said"), [
    ("ann_sum + annSum + ANN2 + an", "… + … + … + an"),
    ("planned annex channel", "planned annex channel"),
    ("bobMüller, bob, BOB_MULLER", "…, …, …"),
    ("total li light", "total … light"),
    ("ＡＮＮ", "…"),
], ids=ascii)  # fmt: skip
def test_identifiers_that_are_a_name_or_have_one_as_a_part_are_replaced(text, said):
    assert anonymous.without_names(text, anonymous.names_in(NAMES)) == said


def test_comments_docstrings_and_long_texts_are_left_out_of_an_example():
    code = 'def f(x):\n    """By me."""\n    # mine\n    y = "ok", "my mother\'s maiden name"  # really\n    return y\n'
    assert anonymous.example(code, set()) == 'def f(x):\n    y = "ok", "…"\n    return y'


@pytest.mark.parametrize("code", ["", "x = " + "1 + " * 1000, "x = 1\n" * 1000], ids=["empty", "wide", "long"])
def test_what_cannot_be_read_from_the_back_row_is_no_example(code):
    assert anonymous.example(code, set()) == ""


@pytest.mark.parametrize("words_", HOSTILE, ids=ascii)
def test_nothing_of_a_learner_becomes_markup_on_the_page_for_all(words_):
    records = [record(f"{words_}{place}", ["mean", "raised"], chapter=words_) for place in range(6)]
    for one in records:
        one["cells"] = dict.fromkeys(one["cells"], f"x = 1\n{words_}\ny = '{words_}'\n")
        for each in one["results"]:
            each |= {"sentence": words_, "code": words_, "exercise": words_}
    tags = Tags(class_page.class_page(records, ABOUT))
    known = {tag for tag, _ in Tags(class_page.class_page(class_of(40), ABOUT)).found}
    assert tags.open == [] and {tag for tag, _ in tags.found} <= known | {"ul", "li"}
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in tags.found for name in attrs)


def test_a_class_of_forty_has_its_figures_on_the_page():
    records = class_of(40)
    found, page = standing.standing(records), words(class_page.class_page(records, ABOUT))
    assert len(found.learners) == 40 and found.empty == 2
    assert "38 of 40 handed it in" in page and "2 learners of 40 handed in nothing" in page
    for mistake in found.mistakes[:3]:
        assert f"{len(mistake)} of 40: {mistake.exercise}, {mistake.code}" in page
    for place in found.places:
        assert sum(place.counts.values()) == 38
        assert f"{place.counts['passed']} passed" in class_page.class_page(records, ABOUT)
    assert CHAPTER not in page and CODE[:20] not in page and "learner0" not in page
