"""Grades a folder of submissions, several at once, and goes on where an interrupted grading stopped.

Takes only the exercise cells out of each notebook, by id, and has a judge (judge.py) check them. What grading protects
against, and what it does not, stands in docs/grading.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from tqdm import tqdm

from exercises_tests.grading import room, sandbox, verdicts
from exercises_tests.grading.feedback import write_page
from exercises_tests.grading.gradebook import pages, read_json, write_csv, write_json
from exercises_tests.grading.submissions import submissions, why_none
from exercises_tests.grading.verdicts import Verdicts
from exercises_tests.tools import untrusted
from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, answers_of, chapters, parse, solutions, tagged

SECONDS = 20.0  # that one run of an answer may take
TELL_EVERY = 10  # notebooks
MOST_RUNS = 12  # as long as so many runs that all hang, one submission may take
MOST_CELL, MOST_OTHERS = 200_000, 1_000_000  # characters of an exercise cell; of all other cells, which are only read
IN_A_SANDBOX = (
    "Graded in a sandbox: each submission by a judge of its own, without rights, and each simulated rank by itself; "
    "the clock, the bytes and the expected values stayed with the judge."
)
UNPROTECTED = (
    "Graded UNPROTECTED ({reason}): answers ran as text in processes of their own, with limits on time, memory, files "
    "and output, but under the grader's user. Code in them could read or change that user's files, the solutions and "
    "this grade book, end that user's processes, or pass data between ranks through files."
)
BORROW = re.compile(r"^[ \t]*(\w+)\s*=\s*borrow\(\s*[\"'](\w+)[\"']\s*\)", re.MULTILINE)


class Floor:
    """Lets judges work side by side, or one of them alone."""

    def __init__(self) -> None:
        self._changed, self._busy = threading.Condition(), 0

    @contextlib.contextmanager
    def held(self, alone: bool) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0 if alone else self._busy >= 0)
            self._busy += -1 if alone else 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= -1 if alone else 1
                self._changed.notify_all()


@dataclass
class Submission:
    """A learner's notebook of one chapter."""

    learner: str
    path: Path
    chapter: Chapter
    cells: dict[str, str]
    others: list[str]
    changed: float
    """When, in seconds."""
    remark: str = ""


class Grading:
    """What all judges of a grading share: the chapters, the seed, and which exercises cannot be graded here."""

    def __init__(
        self, root: Path, seed: str, seconds: float = SECONDS, unprotected: bool = False, own: bool = False
    ) -> None:
        """`own` answers run in a sandbox where there is one; others nowhere else, unless `unprotected` is said."""
        self.root, self.seed, self.seconds = root, seed, seconds
        self.known = {chapter.name: chapter for chapter in chapters(root)}
        self.environ = room.make(root)
        try:
            self.reason = "as was asked" if unprotected else sandbox.why_not(self.environ["PYTHONPATH"])
            if self.reason and not (unprotected or own):
                raise ChapterError(
                    f"There is no sandbox to grade in: {self.reason}. Without one answers run with all rights of yours "
                    "and can change your files and the grades of others: install bubblewrap, or, if you trust every "
                    "answer, add --unprotected."
                )
        except BaseException:
            self.close()
            raise
        self.has_solutions = True
        self._floor, self._lock = Floor(), threading.Lock()
        self._reference: dict[str, dict[str, str]] = {}
        self._digests: dict[str, str] = {}

    def close(self) -> None:
        shutil.rmtree(self.environ["PYTHONPATH"], ignore_errors=True)

    def sandbox(self, core: int | None = None) -> sandbox.Sandbox:
        """Return one, still cold, for one worker."""
        return sandbox.Sandbox(self.environ, core, apart=not self.reason)

    @property
    def graded_with(self) -> str:
        """Say how answers are run, and what that does not protect against."""
        return UNPROTECTED.format(reason=self.reason) if self.reason else IN_A_SANDBOX

    @property
    def judge(self) -> str:
        """Say it in a word or two, for each row of the CSV."""
        return "unprotected" if self.reason else "in a sandbox"

    # One notebook

    def look(self, learner: str, path: Path) -> Submission:
        """Return what a notebook hands in. Raises ChapterError for one that is no chapter of this course."""
        try:
            data = untrusted.read(path)
            changed = path.stat().st_mtime
        except OSError as error:
            raise ChapterError(f"{path.name} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise ChapterError(f"{path.name} {error}.") from None
        try:
            notebook = parse(path, data)
        except ChapterError as error:
            raise ChapterError(str(error).replace(str(path.parent) + os.sep, "")) from None
        course = notebook.metadata.get("course")
        name = course.get("chapter") if isinstance(course, dict) else None
        if not isinstance(name, str) or name not in self.known:
            told = untrusted.plain(repr(name)[:100], 60)
            raise ChapterError(f"{path.name} is no chapter of this course: its metadata name {told}.")
        chapter = self.known[name]
        cells = answers_of(notebook, [exercise.id for exercise in chapter.exercises])
        others = [c.source for c in notebook.cells if c.cell_type == "code" and c.source not in cells.values()]
        for exercise, text in cells.items():
            if len(text) > MOST_CELL:
                cells[exercise] = f"raise ValueError('a cell of {len(text):,} characters; at most {MOST_CELL:,} count')"
        while sum(map(len, others)) > MOST_OTHERS:
            others.remove(max(others, key=len))
        return Submission(learner, path, chapter, cells, others, changed, self.moved(notebook, chapter))

    def moved(self, notebook: NotebookNode, chapter: Chapter) -> str:
        """Say which answers in a copy of an earlier version belong to another chapter now, where they are graded."""
        homes = {e.id: other.name for other in self.known.values() if other is not chapter for e in other.exercises}
        here = {exercise.id for exercise in chapter.exercises}
        asked = [cell["id"] for cell in tagged(notebook, "exercise") if cell.get("id") in homes]
        given = answers_of(notebook, [name for name in asked if name not in here])
        gone = [name for name, source in given.items() if "raise NotImplementedError" not in source]
        told = ", ".join(f"{name} is an exercise of {homes[name]} now" for name in gone)
        return f"{told}: not graded here; make update moves the answer there" if told else ""

    def request(self, handed_in: Submission) -> dict[str, Any]:
        """Return what the judge is told: of the solutions only those that are borrowed."""
        chapter, cells = handed_in.chapter, handed_in.cells
        digest = hashlib.sha256(f"{self.seed}/{handed_in.learner}/{chapter.name}".encode("utf-8", "replace"))
        borrowed = {a for name in cells for a, b in BORROW.findall(cells[name]) if a == b == name}
        known = solutions(chapter, self.root) if borrowed and self.has_solutions else {}
        return {
            "chapter": chapter.name,
            "exercises": {exercise.id: exercise.points for exercise in chapter.exercises},
            "cells": cells,
            "others": handed_in.others,
            "solutions": {name: known[name] for name in sorted(borrowed & known.keys())},
            "imports": "\n".join(cell.source for cell in tagged(chapter.notebook, "imports")),
            "seed": int(digest.hexdigest()[:8], 16),
            "seconds": self.seconds,
        }

    def digest(self, request: dict[str, Any]) -> str:
        """Return what tells this grading from another one: answers, seed, chapter, check and library."""
        name = request["chapter"]
        if name not in self._digests:
            chapter = hashlib.sha256(self.known[name].path.read_bytes()).hexdigest()
            self._digests[name] = chapter + room.digest(self.environ["PYTHONPATH"], name)
        told = json.dumps([self._digests[name], self.judge, request], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def ask(self, judge: sandbox.Sandbox, request: dict[str, Any]) -> Verdicts:
        """Return the verdicts on a submission. One whose judge died is tried once more, with nobody beside it."""
        modules = [f"exercises_tests.{request['chapter']}", *room.imported(request["imports"])]
        seconds = MOST_RUNS * request["seconds"]
        with self._floor.held(alone=False):
            found = judge.ask(request, modules, seconds)
        if not found.ended or found.ended == verdicts.LATE:
            return found
        judge.close()
        with self._floor.held(alone=True):
            return judge.ask(request, modules, seconds)

    def reference(self, judge: sandbox.Sandbox, chapter: Chapter) -> dict[str, str]:
        """Return which exercises cannot be graded here, with the reason: those whose own solution does not pass."""
        if not self.has_solutions:
            return {}
        with self._lock:
            if chapter.name not in self._reference:
                own = Submission("the course's own solutions", Path(), chapter, solutions(chapter, self.root), [], 0.0)
                found = self.ask(judge, self.request(own))
                faults = {exercise.id: found.ended for exercise in chapter.exercises}
                for result in found.results:
                    del faults[result["exercise"]]
                    if result["code"]:
                        faults[result["exercise"]] = result["sentence"]
                self._reference[chapter.name] = faults
            return self._reference[chapter.name]

    def grade(self, judge: sandbox.Sandbox, handed_in: Submission) -> dict[str, Any]:
        """Return the record of one notebook: points, parts, codes, and a remark where something was odd."""
        chapter = handed_in.chapter
        faults = self.reference(judge, chapter)
        request = self.request(handed_in)
        found = self.ask(judge, request)
        results, remark = {result["exercise"]: result for result in found.results}, handed_in.remark
        late = found.ended == verdicts.LATE
        if found.ended:
            remark = f"{remark} {'its time was up' if late else 'its judge died twice'}, see the exercises".strip()
        results = [results.get(e.id) or _nothing(e.id, e.points, late, self.seconds) for e in chapter.exercises]
        for result in results:
            if result["exercise"] in faults:
                reason = f"not graded: the course's own solution does not pass here ({faults[result['exercise']]})"
                result.update(graded=False, earned=0, sentence=reason)
        return empty_record(handed_in.learner, handed_in.path, remark) | {
            "chapter": chapter.name,
            "version": chapter.version,
            "earned": sum(result["earned"] for result in results),
            "points": sum(exercise.points for exercise in chapter.exercises),
            "results": results,
            "seed": request["seed"],
            "digest": "" if found.ended and not late else self.digest(request),  # the next run tries it again
        }

    # One learner

    def of_learner(self, learner: str, paths: list[Path], done: dict, judge: sandbox.Sandbox) -> Iterator[dict]:
        """Yield the records of a learner, one for each chapter and each file that is none; `done` are earlier ones."""
        if not paths:
            return
        found: dict[str, list[Submission]] = {}
        for path in paths:
            try:
                if path.name == learner and os.path.isdir(path):
                    raise ChapterError(why_none(path))
                handed_in = self.look(learner, path)
                found.setdefault(handed_in.chapter.name, []).append(handed_in)
            except ChapterError as error:
                yield empty_record(learner, path, untrusted.plain(str(error), 300))
            except Exception as error:
                yield _fault(learner, path, error)
        for several in found.values():
            last = max(several, key=lambda one: (one.changed, one.path.name))
            if len(several) > 1:
                names = ", ".join(untrusted.plain(one.path.name, 60) for one in several[:5] if one is not last)
                told = f"{len(several)} notebooks of this chapter: {last.path.name}, changed last, counts; {names} not"
                last.remark = untrusted.plain(f"{told}. {last.remark}" if last.remark else told, 300)
            try:
                yield self._unchanged(done, last) or self.grade(judge, last)
            except Exception as error:  # nobody else's grade depends on what one submission holds
                yield _fault(learner, last.path, error)

    def _unchanged(self, done: dict, handed_in: Submission) -> dict[str, Any] | None:
        """Return an earlier record of the same answers, chapter, check, library and seed, if there is one."""
        earlier = done.get((handed_in.learner, handed_in.path.name))
        if not earlier or not earlier.get("digest") or any(not result["graded"] for result in earlier["results"]):
            return None
        same = self.digest(self.request(handed_in)) == earlier["digest"]
        return earlier | {"remark": handed_in.remark or earlier["remark"]} if same else None


def empty_record(learner: str, path: Path, remark: str) -> dict[str, Any]:
    """Return the record of what earns nothing."""
    return {"learner": learner, "file": path.name, "chapter": "", "earned": 0, "points": 0, "results": [],
            "remark": remark, "seed": None, "digest": ""}  # fmt: skip


def _fault(learner: str, path: Path, error: Exception) -> dict[str, Any]:
    """Return the record of a notebook that the grader itself, not the answer, failed to grade."""
    remark = untrusted.plain(f"not graded: the grader failed ({type(error).__name__}: {error})", 300)
    return empty_record(learner, path, remark) | {"fault": True}


def _nothing(exercise: str, points: int, late: bool, seconds: float) -> dict[str, Any]:
    too_late = f"the submission took more than {MOST_RUNS * seconds:g} s"
    why = too_late if late else "the process that judges it died, twice"
    return {
        "exercise": exercise, "graded": True, "earned": 0, "points": points, "parts": {}, "marks": "",
        "code": "too-late" if late else "ended-the-judge", "sentence": why, "see": "", "borrowed": False,
    }  # fmt: skip


@contextlib.contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Let a polite request to end (SIGTERM) do what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class Class:
    """The state of grading a class: what is to be done, what an earlier run did, and what is known by now."""

    folder: Path
    todo: list[tuple[str, list[Path]]]
    done: dict[tuple[str, str], dict[str, Any]]
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By learner, once all of the learner's notebooks are graded."""

    def ordered(self) -> list[dict[str, Any]]:
        return [record for learner, _ in self.todo for record in self.records.get(learner, [])]

    def missing(self) -> list[str]:
        """Return the learners of whom nothing is known."""
        return [learner for learner, _ in self.todo if not self.records.get(learner)]

    def save(self, out: Path, about: dict, final: bool) -> None:
        """Write what is known; what an earlier run graded stays in the JSON until this one has come to it."""
        earlier = {learner: [r for (name, _), r in self.done.items() if name == learner] for learner, _ in self.todo}
        known = earlier | dict(self.records)
        write_json(out / "grades.json", about, [record for learner, _ in self.todo for record in known[learner]])
        if not final:
            return
        ordered = self.ordered()
        write_csv(out / "grades.csv", ordered, about["judge"])
        names = pages([learner for learner, _ in self.todo])
        for learner in dict.fromkeys(record["learner"] for record in ordered):
            own = [record for record in ordered if record["learner"] == learner]
            write_page(out / "feedback" / names[learner], learner, own, about)


@_ended_as_interrupted()
def grade_class(
    folder: Path, out: Path, jobs: int, seed: str | None = None, seconds: float = SECONDS, root: Path = ROOT,
    unprotected: bool = False, again: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Grade all submissions and write the grade book; what an earlier run graded is not graded again.

    Unless a learner is named in `again`. Raises ChapterError when somebody is missing in the end.
    """
    todo = submissions(folder)
    if unknown := set(again) - {learner for learner, _ in todo}:
        raise ChapterError(f"--again {untrusted.plain(min(unknown))}: {folder} has no such learner.")
    if not (root / "solutions").is_dir():
        raise ChapterError(
            "There is no solutions/ here, so this is a handout for learners: grade a class in the whole course, and "
            "your own chapter with make submit CHAPTER=ch03."
        )
    kept = read_json(out / "grades.json")
    seed = seed or kept.get("class seed") or secrets.token_hex(8)
    done = {(record["learner"], record["file"]): record for record in kept.get("submissions", [])}
    whole = Class(folder, todo, done)
    group = Grading(root, seed, seconds, unprotected)
    if group.reason:
        print(group.graded_with, flush=True)
    waiting: queue.Queue = queue.Queue()
    for item in todo:
        waiting.put(item)
    stop = threading.Event()

    def work(core: int | None) -> None:
        judge = group.sandbox(core)
        try:
            while not stop.is_set():
                learner, paths = waiting.get_nowait()
                try:
                    earlier = {} if learner in again else done
                    found = list(group.of_learner(learner, paths, earlier, judge))
                except Exception as error:
                    found = [_fault(learner, folder / learner, error)]
                whole.records[learner] = found
                progress.update(len(paths))
        except queue.Empty:
            pass
        finally:
            judge.close()

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    places = [cores[number % len(cores)] for number in range(min(jobs, len(todo)))]
    threads = [threading.Thread(target=work, args=(core,), daemon=True) for core in places]
    about = {"graded with": group.graded_with, "judge": group.judge, "class seed": seed}
    told, total = 0, sum(len(paths) for _, paths in todo)
    try:
        with tqdm(total=total, unit="notebook", disable=None) as progress:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.5)
                whole.save(out, about, final=False)
                graded = sum(len(paths) for learner, paths in todo if learner in whole.records)
                told = _tell(told, graded, total) if progress.disable else 0
    finally:
        stop.set()
        whole.save(out, about, final=True)
        group.close()
    if missing := whole.missing():
        names = ", ".join(untrusted.plain(name, 60) for name in missing[:10])
        raise ChapterError(f"{len(missing)} learners have no row in {out}/grades.csv: {names}. Run the command again.")
    return whole.ordered()


def _tell(told: int, count: int, total: int) -> int:
    """Where no progress bar can be drawn, print about each tenth notebook, and the last; return what was told."""
    if count - told < TELL_EVERY and (count < total or count == told):
        return told
    print(f"{count} of {total} notebooks", file=sys.stderr, flush=True)
    return count
