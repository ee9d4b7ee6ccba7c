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
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from tqdm import tqdm

from exercises_tests.grading import attempts, room, sandbox, verdicts
from exercises_tests.grading.attempts import Attempts, empty_record, kept_of
from exercises_tests.grading.gradebook import read_json
from exercises_tests.grading.submissions import submissions, why_none
from exercises_tests.grading.tables import meant
from exercises_tests.grading.verdicts import Verdicts
from exercises_tests.grading.whole_class import Class, Job, read_rules
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

    @property
    def key(self) -> attempts.Key:
        """The learner and the chapter."""
        return self.learner, self.chapter.name


class Grading:
    """What all judges of a grading share: the chapters, the seed, and which exercises cannot be graded here."""

    def __init__(
        self, root: Path, seed: str, seconds: float = SECONDS, unprotected: bool = False, own: bool = False,
        probe: bool = True,
    ) -> None:
        """`own` answers run in a sandbox where there is one; others nowhere else, unless `unprotected` is said.

        Without `probe` it is not looked whether there is one: whoever wants to judge something calls `probe()` first.
        """
        self.root, self.seed, self.seconds = root, seed, seconds
        self.known = {chapter.name: chapter for chapter in chapters(root)}
        self._homes = {one.id: chapter.name for chapter in self.known.values() for one in chapter.exercises}
        self.environ = room.make(root)
        self.reason = "as was asked" if unprotected else ""
        """Why there is no sandbox; empty if there is one, or nobody has looked yet."""
        self.has_solutions = True
        self._floor, self._lock = Floor(), threading.Lock()
        self._reference: dict[str, dict[str, str]] = {}
        self._digests: dict[str, str] = {}
        if probe:
            self.probe(own)

    def probe(self, own: bool = False) -> None:
        """Look for a sandbox. Raises ChapterError where there is none, unless answers are one's own."""
        if self.reason:
            return
        try:
            self.reason = sandbox.why_not(self.environ["PYTHONPATH"])
            if self.reason and not own:
                raise ChapterError(
                    f"There is no sandbox to grade in: {self.reason}. Without one answers run with all rights of yours "
                    "and can change your files and the grades of others: install bubblewrap, or, if you trust every "
                    "answer, add --unprotected."
                )
        except BaseException:
            self.close()
            raise

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
        homes = {exercise: home for exercise, home in self._homes.items() if home != chapter.name}
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

    def grade(self, judge: sandbox.Sandbox, handed_in: Submission, kept: Collection[dict] = ()) -> dict[str, Any]:
        """Return the record of one notebook: points, parts, codes, and a remark where something was odd.

        The results in `kept`, of an earlier grading of these answers, stay as they are and are not judged.
        """
        chapter = handed_in.chapter
        faults = self.reference(judge, chapter)
        request = self.request(handed_in)
        known = {result["exercise"]: result for result in kept}
        todo = {name: points for name, points in request["exercises"].items() if name not in known}
        found = self.ask(judge, request | {"exercises": todo})
        new, remark = {result["exercise"]: result for result in found.results}, handed_in.remark
        late = found.ended == verdicts.LATE
        if found.ended:
            remark = f"{remark} {'its time was up' if late else 'its judge died twice'}, see the exercises".strip()
        new = {name: new.get(name) or _nothing(name, points, late, self.seconds) for name, points in todo.items()}
        for result in new.values():
            if result["exercise"] in faults:
                reason = f"not graded: the course's own solution does not pass here ({faults[result['exercise']]})"
                result.update(graded=False, earned=0, sentence=reason)
        results = [(known | new)[exercise.id] for exercise in chapter.exercises]
        return empty_record(handed_in.learner, handed_in.path, remark) | {
            "chapter": chapter.name,
            "version": chapter.version,
            "earned": sum(result["earned"] for result in results),
            "points": sum(exercise.points for exercise in chapter.exercises),
            "results": [{"by_hand": None, "events": []} | result for result in results],
            "seed": request["seed"],
            "digest": "" if found.ended and not late else self.digest(request),  # the next run tries it again
            "judge": self.judge,
        } | kept_of(handed_in)  # fmt: skip

    # One learner

    def handed_in(self, learner: str, paths: list[Path]) -> Iterator[Submission | dict[str, Any]]:
        """Yield what a learner hands in: a submission for each chapter, and a record for each file that is none."""
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
            yield last


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


@_ended_as_interrupted()
def grade_class(
    folder: Path, out: Path, jobs: int, seed: str | None = None, seconds: float = SECONDS, root: Path = ROOT,
    unprotected: bool = False, again: Collection[str] = (), exercises: Collection[str] = (),
    policy: Path | None = None, roster: Path | None = None,
) -> list[dict[str, Any]]:
    """Grade all submissions and write the grade book; what an earlier run graded is not graded again.

    Unless a learner is named in `again`, or an exercise in `exercises`: then this one of all learners, and nothing else
    of answers that were judged before. `policy` and `roster` are files to take in the place of those in the folder, or
    in the course. Returns the submissions. Raises ChapterError when somebody is missing in the end.
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
    group = Grading(root, seed, seconds, unprotected, probe=False)
    try:
        known = list(group.known.values())
        names = [exercise.id for chapter in known for exercise in chapter.exercises]
        if unknown := set(exercises) - set(names):
            told = f"--again-exercise {untrusted.plain(min(unknown))}: the course has no such exercise"
            raise ChapterError(told + meant(min(unknown), names))
        earlier = Attempts(kept.get("attempts", kept.get("submissions", ())))
        whole = Class([learner for learner, _ in todo], earlier, read_rules(folder, out, known, root, policy, roster),
                      known, root)  # fmt: skip
        whole.whose()  # which refuses what it cannot tell apart before anything is judged
        waiting = _planned(whole, group, todo, again, exercises)
        if waiting:
            group.probe()
        if group.reason:
            print(group.graded_with, flush=True)
        about = {"graded with": group.graded_with, "judge": group.judge, "class seed": seed}
        try:
            _judge(whole, group, waiting, jobs, out, about)
        finally:
            whole.save(out, about, final=True)
    finally:
        group.close()
    if missing := whole.missing():
        names = ", ".join(untrusted.plain(name, 60) for name in missing[:10])
        raise ChapterError(f"{len(missing)} learners have no row in {out}/grades.csv: {names}. Run the command again.")
    return whole.ordered()


def _planned(whole: Class, group: Grading, todo: list, again: Collection[str], exercises: Collection[str]) -> list[Job]:
    """Look at everything that lies there; return what is to be judged. All else is in the class's record then."""
    jobs = []
    for learner, paths in todo:
        for thing in group.handed_in(learner, paths):
            if isinstance(thing, dict):
                whole.others.setdefault(learner, []).append(thing)
                continue
            whole.attempts.waiting.add(thing.key)
            try:
                if job := whole.plan(group, thing, learner in again, exercises):
                    jobs.append(job)
            except Exception as error:  # nobody else's grade depends on what one submission holds
                whole.others.setdefault(learner, []).append(_fault(learner, thing.path, error))
    return jobs


def _judge(whole: Class, group: Grading, todo: list[Job], jobs: int, out: Path, about: dict[str, Any]) -> None:
    """Judge all that is to be judged, several at once, and write what is known again and again."""
    waiting: queue.Queue = queue.Queue()
    for job in todo:
        waiting.put(job)
    stop, done = threading.Event(), []

    def work(core: int | None) -> None:
        judge = group.sandbox(core)
        try:
            while not stop.is_set():
                job = waiting.get_nowait()
                learner, path = job.handed_in.learner, job.handed_in.path
                try:
                    whole.attempts.put(group.grade(judge, job.handed_in, job.kept), job.attempt)
                except Exception as error:  # nobody else's grade depends on what one submission holds
                    whole.others.setdefault(learner, []).append(_fault(learner, path, error))
                done.append(path)
                progress.update(1)
        except queue.Empty:
            pass
        finally:
            judge.close()

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    places = [cores[number % len(cores)] for number in range(min(jobs, len(todo)))]
    threads = [threading.Thread(target=work, args=(core,), daemon=True) for core in places]
    told, rest = 0, 0.5
    try:
        with tqdm(total=len(todo), unit="notebook", disable=None if todo else True) as progress:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(rest / len(threads))
                began = time.monotonic()
                whole.save(out, about, final=False)
                rest = max(0.5, 10 * (time.monotonic() - began))  # a long history is not written all the time
                told = _tell(told, len(done), len(todo)) if progress.disable else 0
    finally:
        stop.set()


def _tell(told: int, count: int, total: int) -> int:
    """Where no progress bar can be drawn, print about each tenth notebook, and the last; return what was told."""
    if count - told < TELL_EVERY and (count < total or count == told):
        return told
    print(f"{count} of {total} notebooks", file=sys.stderr, flush=True)
    return count
