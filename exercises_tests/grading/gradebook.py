"""The files that grading writes: grades.csv and grades.json; each page, too, in one step and under a safe name.

Only the grader writes them, each in one step. Names and texts of learners are data in all of them: they cannot add a
column, start a formula, leave the folder or become part of a page's markup.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from exercises_tests.tools.chapters import ChapterError
from exercises_tests.tools.untrusted import plain

FORMULA = ("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}", "\N{MINUS SIGN}")
MOST_TEXT = 500  # characters of a cell


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:  # also Ctrl-C
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


def pages(learners: list[str]) -> dict[str, str]:
    """Return the file name of each learner's page: no two alike, also where capitals and small letters count the same.

    What is plain of the name; with a mark (and a sign that no plain name has) where something was not, or was taken.
    """
    taken: set[str] = set()
    found = {}
    for learner in learners:
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", learner)[:60].strip("_")
        if name != learner or name.lower() in taken:
            mark = hashlib.sha256(learner.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            name = f"{name or 'learner'}~{mark}"
        taken.add(name.lower())
        found[learner] = f"{name}.html"
    return found


def cell(value: Any) -> Any:
    """Return a value for the CSV: one short line, without what parts cells or starts a formula, whatever parts them."""
    if isinstance(value, str):
        value = plain(value, MOST_TEXT).replace(";", ",")
        if value.lstrip().startswith(FORMULA):
            return f"'{value}"
    return value


def number(value: Any) -> Any:
    """Return a number without a fraction that is none: 3.0 points are 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def write_csv(path: Path, records: list[dict[str, Any]], judge: str) -> None:
    """Write one row a submission: what was judged, what counts of it, one column an exercise, a remark, and the judge.

    Where a person gave points for an exercise, these stand in its column.
    """
    exercises = list(dict.fromkeys(result["exercise"] for record in records for result in record["results"]))
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["learner", "chapter", "earned", "points", *COUNTED, *exercises, "remark", "judge"])
    for record in records:
        by_name = {result["exercise"]: result for result in record["results"]}
        columns = [record[name] for name in ("learner", "chapter", "earned", "points", *COUNTED.values())]
        columns += [_score(by_name.get(name)) for name in exercises]
        writer.writerow([cell(number(value)) for value in [*columns, record["remark"], record["judge"] or judge]])
    write_whole(path, text.getvalue())


COUNTED = {"counted": "counted", "possible": "possible", "attempt": "attempt", "attempts": "attempts",
           "handed in": "handed_in", "late hours": "late_hours"}  # fmt: skip
"""Columns of what the policy makes of a submission, and where they stand in its record."""


def _score(result: dict[str, Any] | None) -> Any:
    if result is None:
        return ""
    given = result.get("by_hand")
    if given and given["points"] is not None:
        return given["points"]
    return result["earned"] if result["graded"] else "not graded"


def write_json(path: Path, about: dict[str, Any], submissions: list[dict], attempts: list[dict]) -> None:
    """Write everything that is known: how it was graded, what counts of each submission, and each attempt."""
    book = {**about, "submissions": submissions, "attempts": attempts}
    write_whole(path, json.dumps(book, indent=1, ensure_ascii=True) + "\n")


RECORD = {"learner": str, "file": str, "chapter": str, "earned": int, "points": int, "remark": str, "results": list}
RESULT = {"exercise": str, "graded": bool, "earned": int, "points": int, "marks": str, "code": str, "sentence": str}
RESULT |= {"see": str}
SINCE = {"handed_in": str, "attempt": int, "cells": dict, "answers": str, "judge": str, "digest": str}
"""What a record of an earlier version may lack, but must not have damaged."""


def read_json(path: Path) -> dict[str, Any]:
    """Return what `write_json` wrote; nothing where there is no such file.

    Raises ChapterError for anything else: taken for nothing, it would be written over, and earlier grades be lost.
    """
    try:
        known = json.loads(path.read_bytes().decode("utf-8"))
        _demand(known, {"class seed": str, "submissions": list})
        attempts = known.get("attempts", [])
        _demand({"attempts": attempts}, {"attempts": list})
        for record in [*known["submissions"], *attempts]:
            _demand(record, RECORD)
            _demand(record, {name: kind for name, kind in SINCE.items() if name in record})
            if record.get("handed_in") and not datetime.fromisoformat(record["handed_in"]).tzinfo:
                raise ValueError(f"a time without a zone, {record['handed_in']}")
            for result in record["results"]:
                _demand(result, RESULT)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ChapterError(f"{path} cannot be read ({reason}): move it away to grade anew.") from None
    return known


def _demand(thing: Any, kinds: dict[str, type]) -> None:
    """Raise ValueError unless this is a dict that holds values of these kinds."""
    if not isinstance(thing, dict):
        raise ValueError(f"{json.dumps(thing)[:40]} stands where a record should be")
    for name, kind in kinds.items():
        if not isinstance(thing.get(name), kind):
            raise ValueError(f"a record without {name!r}" if name not in thing else f"a record with a damaged {name!r}")
