"""What other systems take: canvas.csv, moodle.csv and roster_grades.csv, a row for each learner of the roster.

Canvas wants the columns Student, ID, SIS User ID, SIS Login ID and Section, in this order and before those of the
assignments, finds a learner by the first of them that it knows, and takes "Points Possible" from a row of that name
("How do I import grades in the Gradebook?", community.canvaslms.com; lib/gradebook_importer.rb of canvas-lms). The
column ID is Canvas's own number, which we do not know: it stays empty, and the roster's id is the SIS User ID.

Moodle asks which column tells the user, "ID number" or "Email address", and to which grade item each other column goes
(docs.moodle.org/en/Grade_import). It refuses the whole file for one user whom it does not know, and takes "-" for no
grade (grade/import/csv/classes/load_data.php of moodle).

Who handed in nothing at all is in roster_grades.csv only: an import should not take away what stands there already.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exercises_tests.grading.gradebook import cell, number, write_whole
from exercises_tests.grading.policy import Policy
from exercises_tests.grading.roster import Person
from exercises_tests.tools.chapters import Chapter

FILES = ("canvas.csv", "moodle.csv", "roster_grades.csv")


def write(
    folder: Path, records: Sequence[dict[str, Any]], persons: Sequence[Person], whose: Mapping[str, Person],
    chapters: Sequence[Chapter], policy: Policy,
) -> None:
    """Write the three files. Their columns are the chapters that count and that somebody handed in."""
    points = {(record["learner"], record["chapter"]): record["counted"] for record in records if record["chapter"]}
    seen = {chapter for _, chapter in points}
    columns = [one for one in chapters if one.name in seen and (policy.chapters is None or one.name in policy.chapters)]
    titles = [f"{one.name.partition('_')[0]} {one.title}" for one in columns]
    folders = {person: learner for learner, person in whose.items()}
    tried = {learner for learner, _ in points}
    there = [person for person in persons if folders.get(person) in tried]

    def row(learner: str, nothing: str) -> list[Any]:
        return [number(points.get((learner, one.name), nothing)) for one in columns]

    def total(learner: str) -> list[Any]:
        return [number(sum(points.get((learner, one.name), 0) for one in columns)), number(sum(possible))]

    possible = [number(policy.possible(one)) for one in columns]
    _table(folder / "canvas.csv", [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles],
        ["    Points Possible", "", "", "", "", *possible],
        *([one.name, "", one.id, one.login, one.section, *row(folders[one], "")] for one in there),
    ])  # fmt: skip
    _table(folder / "moodle.csv", [
        ["ID number", "Email address", *titles],
        *([one.id, one.email, *row(folders[one], "-")] for one in there),
    ])  # fmt: skip
    unknown = [name for name in dict.fromkeys(record["learner"] for record in records) if name not in whose]
    _table(folder / "roster_grades.csv", [
        ["id", "name", "folder", "email", *titles, "counted", "possible", "remark"],
        *([one.id, one.name, folders.get(one, ""), one.email, *row(folders.get(one, ""), ""),
           *total(folders.get(one, "")), "" if one in there else "nothing handed in"] for one in persons),
        *(["", "", name, "", *row(name, ""), *total(name), "not in the roster"] for name in unknown),
    ])  # fmt: skip


def _table(path: Path, rows: list[list[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerows([[_bare(value) for value in row] for row in rows])
    write_whole(path, text.getvalue())


def _bare(value: Any) -> Any:
    """Return a value for a cell; a lone "-" is Moodle's word for no grade, and no formula."""
    return value if value == "-" else cell(value)
