"""The commands that grade: python -m exercises_tests grade DIR | submit CHAPTER."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from exercises_tests.grading.gradebook import read_json
from exercises_tests.grading.grader import SECONDS, Grading, empty_record, grade_class
from exercises_tests.grading.sheet import several
from exercises_tests.tools.chapters import ROOT, ChapterError, find
from exercises_tests.tools.parsing import Parser
from exercises_tests.tools.untrusted import plain


def show(record: dict[str, Any]) -> str:
    """Return one submission's result as text."""
    lines = [f"{record['chapter'] or record['file']}   {record['earned']} of {record['points']} points"]
    if record["remark"]:
        lines.append(f"  {record['remark']}")
    for result in record["results"]:
        mark = "✓" if not result["code"] else "✗"
        lines.append(f"{mark} {result['exercise']:<28} {result['earned']} of {result['points']}   {result['sentence']}")
        if result["see"]:
            lines.append(f"    See it: {result['see']}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Run `grade DIR` or `submit CHAPTER`; return the exit code."""
    top = Parser(prog="python -m exercises_tests")
    commands = top.add_subparsers(dest="command", required=True)
    grade = commands.add_parser("grade", help="grade DIR/<learner>/*.ipynb and write a grade book")
    grade.add_argument("folder")
    grade.add_argument("--out", type=Path, default=Path("grades"), help="where the grade book goes (default: grades)")
    grade.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="judges at work at once (default: cores)")
    grade.add_argument("--seed", help="draw the same numbers as an earlier grading (default: kept in grades.json)")
    grade.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"most that one run may take (default: {SECONDS:g})"
    )
    grade.add_argument("--again", action="append", default=[], metavar="LEARNER", help="grade this one anew")
    grade.add_argument(
        "--again-exercise", action="append", default=[], metavar="NAME", help="judge this exercise of all anew"
    )
    grade.add_argument(
        "--policy", type=Path, help="what counts (default: course.toml in DIR if there is one, else the course's)"
    )
    grade.add_argument("--roster", type=Path, help="ids for canvas.csv, moodle.csv (default: roster.csv in DIR)")
    grade.add_argument("--unprotected", action="store_true", help="without a sandbox: answers have your own rights")
    submit = commands.add_parser("submit", help="grade your own copy in work/ as an instructor would")
    submit.add_argument("chapter")
    options = top.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names of folders may be no text
    try:
        if options.command == "grade":
            return _grade(options)
        return _submit(options.chapter)
    except KeyboardInterrupt:
        print("\ninterrupted: what is graded is kept; the same command goes on from there", file=sys.stderr)
        return 130


def _grade(options: argparse.Namespace) -> int:
    if not options.folder:  # make grade without SUBMISSIONS=
        raise ChapterError("Name the folder with the submissions: make grade SUBMISSIONS=dir")
    if not options.seconds > 0:
        raise ChapterError(f"--seconds {options.seconds:g}: give the seconds that one run of an answer may take.")
    if options.jobs < 1:
        raise ChapterError(f"--jobs {options.jobs}: at least 1 judge is needed.")
    folder, out = Path(options.folder), options.out
    records = grade_class(
        folder, out, options.jobs, options.seed, options.seconds, ROOT, options.unprotected, options.again,
        options.again_exercise, options.policy, options.roster,
    )  # fmt: skip
    for record in records:
        remark = f"   {record['remark']}" if record["remark"] else ""
        counts = (record["counted"], record["possible"]) != (record["earned"], record["points"]) and record["chapter"]
        remark = f"   counts {record['counted']:g} of {record['possible']:g}{remark}" if counts else remark
        learner, of = plain(record["learner"], 60), f"{record['earned']:>3} of {record['points']}"
        print(f"{learner:<24} {record['chapter']:<24} {of}{remark}")
    about = read_json(out / "grades.json")
    for note in about["notes"]:
        print(note, file=sys.stderr)
    faults = sum(record.get("fault", False) for record in records)
    print(f"{several(len(records), 'notebook')}. Open {out}/class.html first; points are in grades.csv, each "
          f"learner's page is in feedback/. {about['graded with']}")
    if faults:
        print(f"{faults} of them could not be graded, see the remarks: run the command again.", file=sys.stderr)
    return 1 if faults else 0


def _submit(name: str) -> int:
    chapter = find(name)
    path = ROOT / "work" / f"{chapter.name}.ipynb"
    if not path.exists():
        raise ChapterError(f"There is no {path.relative_to(ROOT)} yet: make lab copies the chapters there.")
    group = Grading(ROOT, "submit", own=True)
    group.has_solutions = (ROOT / "solutions").is_dir()  # a handout has none
    judge = group.sandbox()
    try:
        record = group.grade(judge, group.look("you", path))
    except ChapterError as error:
        record = empty_record("you", path, str(error))
    finally:
        judge.close()
        group.close()
    print(show(record))
    if group.reason:
        print(
            f"Graded without a sandbox ({group.reason}). In class there may be one, without network and files: an "
            "answer that needs them earns its points here only."
        )
    return 0
