"""Grades a folder of submissions, several at once, and goes on where an interrupted grading stopped.

Takes only the exercise cells out of each notebook, by id, and has a judge (exercises_tests/judge.py) check them. What
grading protects against, and what it does not, stands in docs/grading.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from exercises_tests import judge, sandbox
from exercises_tests.chapters import ROOT, Chapter, ChapterError, answers_of, chapters, parse, solutions, tagged
from exercises_tests.gradebook import read_json, slug, write_csv, write_json, write_page
from exercises_tests.submissions import submissions, why_none

MOST_BYTES = 20 << 20  # of one notebook
SECONDS = 20.0  # that one run of an answer may take
TELL_EVERY = 10  # notebooks
MOST_RUNS = 12  # as long as so many runs that all hang, one submission may take
IN_A_SANDBOX = (
    "Graded by the judge: answers ran as text in a bubblewrap sandbox, one for each submission and one within it for "
    "each simulated rank; the clock, the bytes and the expected values stayed outside."
)
WITH_LIMITS = (
    "Graded by the judge without a sandbox ({reason}): answers ran as text in processes of their own, with limits on "
    "time, memory, files and output, but under the grader's user. Not protected against: code that reads or changes "
    "that user's files or ends that user's processes, or ranks that pass data through files."
)


class Judge:
    """One judge process; started anew when it dies or takes too long. It keeps to `core`, with all it runs, or to all.

    It and the answers take turns, so a second core only costs them wake-ups; and what spins there slows no other judge.
    """

    def __init__(self, environ: dict[str, str], core: int | None = None) -> None:
        self._environ, self._process = environ, None
        self._words = [] if core is None else [str(core)]

    def ask(self, request: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return the results for a submission, or None when the judge died or ran out of time."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "exercises_tests.judge", *self._words],
                env=self._environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd="/", start_new_session=True,
            )  # fmt: skip
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            ready, _, _ = select.select([self._process.stdout], [], [], MOST_RUNS * request["seconds"])
            line = self._process.stdout.readline() if ready else b""
            return json.loads(line) if line else self.close()
        except (OSError, ValueError):
            return self.close()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.stdin.close()
            process.stdout.close()
            process.wait()


class Class:
    """Some judges that share the work of grading, and what has been graded so far."""

    def __init__(
        self, root: Path, seed: str, seconds: float = SECONDS, sandboxed: bool | None = None, own: bool = False
    ) -> None:
        """`sandboxed` None: where there is a sandbox. `own` answers may have one's own rights, also those of root."""
        self.root, self.seed, self.seconds = root, seed, seconds
        self.known = {chapter.name: chapter for chapter in chapters(root)}
        self._environ = judge.room(root)
        try:
            self.reason = "not asked for" if sandboxed is False else sandbox.why_not(self._environ["PYTHONPATH"])
        except BaseException:
            self.close()
            raise
        if self.reason and (sandboxed or (sandboxed is None and not own and os.getuid() == 0)):
            self.close()
            raise ChapterError(
                f"There is no sandbox to grade in: {self.reason}. Without one, answers would run with all rights of "
                "the grader's user, and root has every right: install bubblewrap, grade as another user, or, if you "
                "trust every answer, add --without-sandbox."
            )
        self.has_solutions = True
        self._reference: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        shutil.rmtree(self._environ["PYTHONPATH"], ignore_errors=True)

    @property
    def graded_with(self) -> str:
        """Say how answers are run, and what that does not protect against."""
        return WITH_LIMITS.format(reason=self.reason) if self.reason else IN_A_SANDBOX

    @property
    def judge(self) -> str:
        """Say it in a word or two, for each row of the CSV."""
        return "without a sandbox" if self.reason else "in a sandbox"

    def request(self, chapter: Chapter, cells: dict[str, str], others: list[str], learner: str) -> dict[str, Any]:
        digest = hashlib.sha256(f"{self.seed}/{learner}/{chapter.name}".encode("utf-8", "replace")).hexdigest()
        return {
            "chapter": chapter.name,
            "exercises": {exercise.id: exercise.points for exercise in chapter.exercises},
            "cells": cells,
            "others": others,
            "solutions": solutions(chapter, self.root) if self.has_solutions else {},
            "imports": "\n".join(cell.source for cell in tagged(chapter.notebook, "imports")),
            "seed": int(digest[:8], 16),
            "seconds": self.seconds,
            "sandbox": not self.reason,
        }

    def reference(self, judge_: Judge, chapter: Chapter) -> dict[str, str]:
        """Return which exercises cannot be graded here, with the reason: those whose own solution does not pass."""
        if not self.has_solutions:
            return {}
        with self._lock:
            if chapter.name not in self._reference:
                request = self.request(chapter, solutions(chapter, self.root), [], "the course's own solutions")
                results = judge_.ask(request)
                if results is None:
                    faults = {exercise.id: "the judge died" for exercise in chapter.exercises}
                else:
                    faults = {r["exercise"]: r["sentence"] for r in results if not r["graded"] or r["code"]}
                self._reference[chapter.name] = faults
            return self._reference[chapter.name]

    def grade(self, judge_: Judge, learner: str, path: Path) -> dict[str, Any]:
        """Return the record of one notebook: points, parts, codes, and a remark where something was odd."""
        record = _empty_record(learner, path)
        try:
            if path.name == learner and path.is_dir():
                raise ChapterError(why_none(path))
            if path.is_symlink() or not path.is_file():
                raise ChapterError(f"{path.name} is not a plain file.")
            if path.stat().st_size > MOST_BYTES:
                raise ChapterError(
                    f"{path.name} has {path.stat().st_size:,} bytes; a chapter has less than {MOST_BYTES:,}."
                )
            notebook = parse(path)
            name = notebook.metadata.get("course", {}).get("chapter") if _has_course(notebook) else None
            if not isinstance(name, str) or name not in self.known:
                raise ChapterError(f"{path.name} is no chapter of this course: its metadata name {name!r}.")
        except ChapterError as error:
            return record | {"remark": str(error).replace(str(path.parent) + os.sep, ""), "seed": None, "digest": ""}
        chapter = self.known[name]
        names = [exercise.id for exercise in chapter.exercises]
        cells = answers_of(notebook, names)
        others = [c.source for c in notebook.cells if c.cell_type == "code" and c.source not in cells.values()]
        faults = self.reference(judge_, chapter)
        request = self.request(chapter, cells, others, learner)
        results = judge_.ask(request)
        remark = ""
        if results is None:
            results, remark = (
                [_nothing(exercise) for exercise in chapter.exercises],
                "grading it ended the judge itself",
            )
        for result in results:
            if result["exercise"] in faults:
                reason = f"not graded: the course's own solution does not pass here ({faults[result['exercise']]})"
                result.update(graded=False, earned=0, sentence=reason)
        return record | {
            "chapter": chapter.name,
            "version": chapter.version,
            "earned": sum(result["earned"] for result in results),
            "points": sum(exercise.points for exercise in chapter.exercises),
            "results": results,
            "remark": remark,
            "seed": request["seed"],
            "digest": _digest(request),
        }


def _fault(learner: str, path: Path, error: Exception) -> dict[str, Any]:
    """Return the record of a notebook that the grader itself, not the answer, failed to grade."""
    remark = f"not graded: the grader failed ({type(error).__name__}: {error})"
    return _empty_record(learner, path) | {"remark": remark, "seed": None, "digest": "", "fault": True}


def _empty_record(learner: str, path: Path) -> dict[str, Any]:
    return {"learner": learner, "file": path.name, "chapter": "", "earned": 0, "points": 0, "results": []}


def _has_course(notebook: Any) -> bool:
    return isinstance(notebook.metadata.get("course"), dict)


def _nothing(exercise: Any) -> dict[str, Any]:
    return {
        "exercise": exercise.id, "graded": True, "earned": 0, "points": exercise.points, "parts": {}, "marks": "",
        "code": "ended-the-judge", "sentence": "the answer ended the process that grades", "see": "", "borrowed": False,
    }  # fmt: skip


def _digest(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


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
    sandboxed: bool | None = None,
) -> list[dict[str, Any]]:
    """Grade all submissions and write the grade book; what an earlier, interrupted run graded is not graded again."""
    todo = submissions(folder)
    if not (root / "solutions").is_dir():
        raise ChapterError(
            "There is no solutions/ here, so this is a handout for learners: grade a class in the whole course, and "
            "your own chapter with make submit CHAPTER=ch03."
        )
    kept = read_json(out / "grades.json")
    seed = seed or kept.get("class seed") or secrets.token_hex(8)
    done = {(record["learner"], record["file"]): record for record in kept.get("submissions", [])}
    group = Class(root, seed, seconds, sandboxed)
    records: dict[tuple[str, str], dict[str, Any]] = {}
    waiting: queue.Queue = queue.Queue()
    for item in todo:
        waiting.put(item)
    stop = threading.Event()

    def work(core: int | None) -> None:
        judge_ = Judge(group._environ, core)
        try:
            while not stop.is_set():
                learner, path = waiting.get_nowait()
                try:
                    record = _unchanged(group, done, learner, path) or group.grade(judge_, learner, path)
                except Exception as error:  # nobody else's grade depends on what one submission holds
                    record = _fault(learner, path, error)
                records[learner, path.name] = record
                progress.update()
        except queue.Empty:
            pass
        finally:
            judge_.close()

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    places = [cores[number % len(cores)] for number in range(min(jobs, len(todo)))]
    threads = [threading.Thread(target=work, args=(core,), daemon=True) for core in places]
    about = {"graded with": group.graded_with, "judge": group.judge, "class seed": seed}
    told = 0
    try:
        with tqdm(total=len(todo), unit="notebook", disable=None) as progress:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.5)
                _save(out, about, done, records, todo, final=False)
                told = _tell(told, len(records), len(todo)) if progress.disable else 0
    finally:
        stop.set()
        _save(out, about, done, records, todo, final=True)
        group.close()
    return _ordered(records, todo)


def _tell(told: int, count: int, total: int) -> int:
    """Where no progress bar can be drawn, print about each tenth notebook, and the last; return what was told."""
    if count - told < TELL_EVERY and (count < total or count == told):
        return told
    print(f"{count} of {total} notebooks", file=sys.stderr, flush=True)
    return count


def _unchanged(group: Class, done: dict, learner: str, path: Path) -> dict[str, Any] | None:
    """Return an earlier record of the same answers to the same chapter with the same seed, if there is one."""
    earlier = done.get((learner, path.name))
    if not earlier or not earlier.get("digest") or any(not result["graded"] for result in earlier["results"]):
        return None
    try:
        chapter = group.known[earlier["chapter"]]
        notebook = parse(path)
    except (ChapterError, KeyError):
        return None
    cells = answers_of(notebook, [exercise.id for exercise in chapter.exercises])
    others = [c.source for c in notebook.cells if c.cell_type == "code" and c.source not in cells.values()]
    return earlier if _digest(group.request(chapter, cells, others, learner)) == earlier["digest"] else None


def _ordered(records: dict, todo: list[tuple[str, Path]]) -> list[dict[str, Any]]:
    return [records[learner, path.name] for learner, path in todo if (learner, path.name) in records]


def _save(out: Path, about: dict, done: dict, records: dict, todo: list, final: bool) -> None:
    """Write what is known; what an earlier run graded stays in the JSON until this one has come to it."""
    ordered = _ordered(dict(records), todo)
    write_json(out / "grades.json", about, _ordered(done | records, todo))
    if not final:
        return
    write_csv(out / "grades.csv", ordered, about["judge"])
    for learner in dict.fromkeys(record["learner"] for record in ordered):
        own = [record for record in ordered if record["learner"] == learner]
        write_page(out / "feedback" / f"{slug(learner)}.html", learner, own, about)
