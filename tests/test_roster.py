"""The roster, and what other systems take: tables as spreadsheets write them, ids, names that two learners share."""

from __future__ import annotations

import csv

import pytest

from exercises_tests.grading import exports
from exercises_tests.grading.attempts import NO_ATTEMPT, empty_record
from exercises_tests.grading.policy import Policy
from exercises_tests.grading.roster import Person, differences, matched, read_roster
from exercises_tests.tools.chapters import ChapterError, chapters

KNOWN = chapters()
HEADER = "id,name,folder,email\n"
PLAIN = HEADER + 'a1,Ann Müller,ann,ann@x.org\nb2,"Lee, Bob",,bob@x.org\n'
ENCODED = {
    "plain": PLAIN.encode(),
    "with a mark": PLAIN.encode("utf-8-sig"),
    "of Excel's Unicode text": PLAIN.replace('"Lee, Bob"', "Lee, Bob").replace("Lee, Bob", "Lee; Bob").replace(
        ",", "\t").replace("Lee; Bob", "Lee, Bob").encode("utf-16"),
    "with semicolons": PLAIN.replace('"Lee, Bob"', "LeeBob").replace(",", ";").replace("LeeBob", "Lee, Bob").encode(),
    "with ends of lines of Windows": PLAIN.replace("\n", "\r\n").encode(),
    "with other columns, in another order": (
        b'email,Section,FOLDER,Name,Id,Notes\nann@x.org,,ann,"Ann M\xc3\xbcller",a1,"likes ; and\ttabs"\n'
        b'\nbob@x.org,,,"Lee, Bob",b2\n'),
}  # fmt: skip


def read(tmp_path, data: bytes | str) -> list[Person]:
    path = tmp_path / "roster.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_roster(path)


@pytest.mark.parametrize("how", ENCODED)
def test_a_roster_is_read_however_a_spreadsheet_writes_it(tmp_path, how):
    ann, bob = read(tmp_path, ENCODED[how])
    assert (ann.id, ann.name, ann.folder, ann.email) == ("a1", "Ann Müller", "ann", "ann@x.org")
    assert (bob.id, bob.name, bob.folder, bob.email) == ("b2", "Lee, Bob", "", "bob@x.org")


@pytest.mark.parametrize(
    ("data", "words"),
    [("", "is empty; its first line names the columns: id, name"),
     ("number,name\n1,Ann\n", "has no column 'id': its first line is number, name; there is number, name."),
     (HEADER + ",Ann,ann,\n", "line 2: Ann has no id."),
     (HEADER + "1,Ann,a,\n1,Bob,b,\n", "lines 2 and 3 have the same id, '1': each learner needs one of their own."),
     (HEADER + "1,Ann,x,\n2,Bob,X,\n", "lines 2 and 3 have the same folder, 'X'"),
     ("id,name,id\n", "has two columns 'id': keep one."),
     (HEADER.encode() + b"1,M\xfcller,,\n", 'is not text in UTF-8 (byte 24 is 0xfc): in Excel, save it as "CSV UTF-8"'),
     (HEADER + '1,"Ann,,\n2,Bob,,\n', "line 3: this is no table of cells (unexpected end of data)")],
    ids=lambda value: "",
)  # fmt: skip
def test_a_roster_that_cannot_be_read_is_told_in_a_sentence(tmp_path, data, words):
    with pytest.raises(ChapterError) as refused:
        read(tmp_path, data)
    assert words in str(refused.value) and len(str(refused.value)) < 400


def test_a_folder_is_found_by_its_own_column_then_by_id_email_and_name(tmp_path):
    persons = read(tmp_path, HEADER + "1,Ann,x1,\n2,Bob,,\n3,Cy,,cy@x.org\n4,Di  Müller,,\n5,Ann,,\n")
    whose = matched(persons, ["x1", "2", "CY@x.org", "di mu\u0308ller", "Ann", "nobody"], tmp_path)
    assert {name: person.id for name, person in whose.items()} == {
        "x1": "1", "2": "2", "CY@x.org": "3", "di mu\u0308ller": "4", "Ann": "5"}  # fmt: skip
    assert differences(persons, whose, [*whose, "nobody"], ["x1", "2"]) == [
        "1 not in the roster, so in no export: nobody.", "3 of the roster handed in nothing: Cy, Di  Müller, Ann."]


def test_two_learners_of_one_name_are_told_apart_by_their_ids(tmp_path):
    persons = read(tmp_path, HEADER + "7,Kim Lee,,\n8,Kim Lee,,\n")
    assert {name: one.id for name, one in matched(persons, ["7", "8"], tmp_path).items()} == {"7": "7", "8": "8"}


def test_a_folder_that_could_be_of_two_learners_is_refused_in_a_sentence(tmp_path):
    persons = read(tmp_path, HEADER + "7,Kim Lee,,\n8,Kim Lee,,\n")
    with pytest.raises(ChapterError, match="lines 2 and 3 are two learners called 'Kim Lee', and the folder 'kim lee'"):
        matched(persons, ["kim lee"], tmp_path)


def test_two_folders_of_one_learner_are_refused_unless_one_is_gone(tmp_path):
    persons = read(tmp_path, HEADER + "7,Kim Lee,,\n")
    with pytest.raises(ChapterError, match="the folders '7' and 'Kim Lee' are both of Kim Lee .7.: put all"):
        matched(persons, ["7", "Kim Lee"], tmp_path)
    assert list(matched(persons, ["7"], tmp_path, gone=["Kim Lee"])) == ["7"]


def record(learner: str, chapter: str, counted: float) -> dict:
    return empty_record(learner, exports.Path("x"), "") | NO_ATTEMPT | {"chapter": chapter, "counted": counted}


def table(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture
def exported(tmp_path):
    persons = read(tmp_path, "id,name,folder,email,login,section\n1,=cmd(),ann,a@x.org,annie,A\n2,Bob,,,,\n3,Cy,,,,\n")
    records = [record("ann", KNOWN[0].name, 12.5), record("ann", KNOWN[1].name, 3.0), record("Bob", KNOWN[0].name, 14),
               record("eve", KNOWN[0].name, 1)]  # fmt: skip
    whose = matched(persons, ["ann", "Bob", "eve"], tmp_path)
    exports.write(tmp_path, records, persons, whose, KNOWN, Policy())
    return tmp_path


TITLES = [f"ch00 {KNOWN[0].title}", f"ch01 {KNOWN[1].title}"]


def test_canvas_gets_its_columns_in_order_the_points_possible_and_no_unknown_learner(exported):
    assert table(exported / "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *TITLES],
        ["    Points Possible", "", "", "", "", "14", "23"],
        ["'=cmd()", "", "1", "annie", "A", "12.5", "3"],
        ["Bob", "", "2", "", "", "14", ""]]  # fmt: skip


def test_moodle_gets_an_id_an_address_and_a_dash_for_no_grade(exported):
    assert table(exported / "moodle.csv") == [
        ["ID number", "Email address", *TITLES], ["1", "a@x.org", "12.5", "3"], ["2", "", "14", "-"]]


def test_the_plain_roster_lists_everybody_also_who_is_missing_or_unknown(exported):
    assert table(exported / "roster_grades.csv") == [
        ["id", "name", "folder", "email", *TITLES, "counted", "possible", "remark"],
        ["1", "'=cmd()", "ann", "a@x.org", "12.5", "3", "15.5", "37", ""],
        ["2", "Bob", "Bob", "", "14", "", "14", "37", ""],
        ["3", "Cy", "", "", "", "", "0", "37", "nothing handed in"],
        ["", "", "eve", "", "1", "", "1", "37", "not in the roster"]]  # fmt: skip
