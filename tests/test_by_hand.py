"""Points and comments by hand: read, never written, kept over regrading; a sentence for each line that cannot stand."""

from __future__ import annotations

import pytest

from exercises_tests.grading.by_hand import not_used, read_by_hand
from exercises_tests.tools.chapters import ChapterError, chapters

KNOWN = chapters()
CH01 = KNOWN[1].name
HEADER = "learner,chapter,exercise,points,comment\n"


def read(tmp_path, text: str, header: str = HEADER):
    path = tmp_path / "by_hand.csv"
    path.write_bytes((header + text).encode() if isinstance(text, str) else text)
    return read_by_hand(path, KNOWN)


def test_nothing_is_given_where_there_is_no_file(tmp_path):
    assert read_by_hand(tmp_path / "by_hand.csv", KNOWN) == ({}, [])


def test_a_line_gives_points_and_a_comment_by_the_chapters_name_or_number(tmp_path):
    given, told = read(tmp_path, f'ann,ch01,parameter_count,4,"right, but slow"\nbob,{CH01},training_days,,see me\n')
    assert given == {("ann", CH01, "parameter_count"): {"points": 4, "comment": "right, but slow"},
                     ("bob", CH01, "training_days"): {"points": None, "comment": "see me"}}  # fmt: skip
    assert told == []


def test_a_spreadsheet_with_semicolons_writes_a_decimal_comma(tmp_path):
    given, _ = read(tmp_path, "ann;ch01;parameter_count;4,5;\n", HEADER.replace(",", ";"))
    assert given["ann", CH01, "parameter_count"]["points"] == 4.5


@pytest.mark.parametrize(
    ("line", "words"),
    [("ann,ch01,parameter_count,6,", "line 2: parameter_count of ann cannot have 6 points: at most 5."),
     ("ann,ch01,parameter_count,-1,", "line 2: '-1' are no points: give a number from 0 to 5."),
     ("ann,ch01,parameter_count,nan,", "'nan' are no points"), ("ann,ch01,parameter_count,inf,", "'inf' are no points"),
     ("ann,ch01,parameter_count,many,", "'many' are no points"),
     ("ann,ch01,parameter_count,1,\nann,ch01,parameter_count,2,", "lines 2 and 3 both give parameter_count of ann")],
)  # fmt: skip
def test_points_that_cannot_be_are_refused_in_a_sentence(tmp_path, line, words):
    with pytest.raises(ChapterError) as refused:
        read(tmp_path, line + "\n")
    assert words in str(refused.value)


def test_an_exercise_or_a_chapter_that_is_not_there_any_more_is_told_and_its_line_kept(tmp_path):
    text = "ann,ch01,parameter_counts,1,\nann,ch77,x,1,\nann,ch01,training_days,1,\n"
    given, told = read(tmp_path, text)
    assert list(given) == [("ann", CH01, "training_days")]
    assert told[0] == (f"by_hand.csv, line 2: {CH01} has no exercise 'parameter_counts'; did you mean parameter_count? "
                       "The line is kept.")  # fmt: skip
    assert told[1].startswith("by_hand.csv, line 3: there is no chapter 'ch77'; ")
    assert (tmp_path / "by_hand.csv").read_text() == HEADER + text


def test_a_learner_who_is_not_there_or_has_handed_in_nothing_is_told():
    given = {("anne", CH01, "training_days"): {}, ("bob", CH01, "training_days"): {}, ("cy", CH01, "training_days"): {}}
    assert not_used(given, {("cy", CH01)}, ["ann", "bob", "cy"]) == [
        "by_hand.csv: there is no learner 'anne'; did you mean ann? The line is kept.",
        f"by_hand.csv: bob has handed in no {CH01}; the points of training_days wait for it."]


def test_a_missing_column_is_told_with_those_that_there_are(tmp_path):
    with pytest.raises(ChapterError, match="no column 'exercise': its first line is learner, chapter, exercize; did"):
        read(tmp_path, "", "learner,chapter,exercize\n")
