"""A pytest plugin: makes `pytest --nbval-lax` judge a chapter of the course cell by cell, mending faults of nbval 0.11.

Installed with the course, so plain pytest loads it. It touches only chapters (and says in a sentence which notebooks
are not JSON, as nbval would in twenty frames). A chapter is known by its metadata, its file name or its exercises:

- what runs is the pristine chapter with the notebook's exercise cells put in, as the grader takes them: deleted check
  cells, other tags, no metadata or raw cells change nothing;
- a check cell must also have printed the line of a right answer: an answer may have kept it from running.
  It cannot be known who printed that line, since the answer runs in the same kernel. Grade in the sandbox to know;
- a check cell, or one that needs an exercise, fails when it raises, whatever its `raises-exception` tag says;
- an error counts also where nbval cannot see it (nbval reads iopub only; here the execute reply counts too);
- a kernel that dies while it starts, as one does whose port another process took, is started again;
- a dead kernel is noticed within a second, not after the cell timeout of 2,000 s;
- a cell whose timeout fired fails, also when it swallowed the interrupt;
- after a dead kernel or a timeout each remaining cell fails with a sentence that says why;
- the kernel starts without PYTEST_CURRENT_TEST (with it ipykernel hides what ranks print), with COURSE_PROGRESS=off
  and COURSE_DISPLAY=text;
- the test is named after the cell's id; `user_properties` holds `cell_id`, `tags`, and for a failed cell `error` (the
  exception's class) and `sentence` (its message).
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from queue import Empty

import pytest

from exercises_tests.tools.chapters import Chapter, ChapterError, answers_of, chapters, overlay, parse
from exercises_tests.tools.untrusted import loads

try:
    from nbval import __version__ as nbval_version
    from nbval.kernel import RunningKernel
    from nbval.plugin import IPyNbCell, IPyNbFile, find_comment_markers, find_metadata_tags
except ImportError as missing:  # said when a chapter is collected: other people's tests must go on
    nbval_version, import_error = None, missing
    RunningKernel, IPyNbFile, IPyNbCell = object, pytest.File, pytest.Item

POLL_SECONDS = 0.5
BESIDE = (
    "{} ran beside the answers that it checks, which could fool it: where points count, grade in the sandbox instead, "
    "with python -m exercises_tests grade DIR (docs/grading.md)"
)
STARTS = 3  # of a kernel: ports are chosen before it uses them, and another process may take one in between
INTERNALS = {
    IPyNbFile: ("setup", "collect", "teardown", "get_kernel_message"),
    IPyNbCell: ("setup", "runtest", "raise_cell_error"),
    RunningKernel: ("execute_cell_input", "await_reply", "get_message", "interrupt", "is_alive", "stop"),
}


def cannot_judge() -> str | None:
    """Return the sentence that says why this nbval cannot run chapters, or None if it can."""
    advice = 'Install the version this plugin was written for: pip install "nbval>=0.11,<0.12".'
    if nbval_version is None:
        return f"Chapters need nbval, which does not import ({import_error}). {advice}"
    moved = [f"{owner.__name__}.{name}" for owner, names in INTERNALS.items() for name in names
             if not callable(getattr(owner, name, None))]
    return f"nbval {nbval_version} has no {', '.join(moved)}. {advice}" if moved else None


def pytest_addoption(parser: pytest.Parser) -> None:
    if importlib.util.find_spec("nbval") is None:  # so that the sentence is ours, not "unrecognized arguments"
        for flag in ("--nbval", "--nbval-lax"):
            parser.addoption(flag, action="store_true", help="run notebooks; needs the package nbval, which is absent")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    collectors = yield
    options = parent.config.option
    wanted = getattr(options, "nbval", False) or getattr(options, "nbval_lax", False)
    if not wanted or file_path.suffix != ".ipynb":
        return collectors
    if why := why_broken(file_path):
        return [Refused.from_parent(parent, path=file_path, why=why)]
    try:
        notebook = parse(file_path)
    except ChapterError:  # another format, which nbval may know
        return collectors
    chapter = chapter_of(file_path, notebook)
    if chapter is None and not is_chapter(notebook):
        return collectors
    theirs = [c for c in collectors if not isinstance(c, IPyNbFile)] if nbval_version else collectors
    if why := cannot_judge():
        return [*theirs, Refused.from_parent(parent, path=file_path, why=why)]
    return [*theirs, CourseNotebook.from_parent(parent, path=file_path, notebook=notebook, chapter=chapter)]


def pytest_terminal_summary(terminalreporter) -> None:
    """Say what this judgement cannot be used for."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    names = {report.nodeid.partition("::")[0] for report in reports if _of_a_cell(report)}
    if names:
        terminalreporter.write_line(BESIDE.format(", ".join(sorted(names))))


def _of_a_cell(report) -> bool:
    return any(name == "cell_id" for name, _ in getattr(report, "user_properties", ()))


def is_chapter(notebook) -> bool:
    """Return whether a notebook carries the course's metadata."""
    course = notebook.metadata.get("course")
    return isinstance(course, dict) and bool(course.get("chapter"))


@cache
def pristine() -> dict[str, Chapter]:
    """Return the chapters of this course by name; none where it is installed without them."""
    return {chapter.name: chapter for chapter in chapters()}


def chapter_of(path, notebook) -> Chapter | None:
    """Return the chapter that a notebook is a copy of, by what is hardest to lose: any one of three things will do."""
    course = notebook.metadata.get("course")
    name = course.get("chapter") if isinstance(course, dict) else None
    number = re.match(r"ch\d\d", path.stem)
    for chapter in pristine().values():
        if name == chapter.name or (number and number[0] == chapter.name[:4]):
            return chapter
    if name:
        return None  # of another course
    found = {}
    for chapter in pristine().values():
        ids = [exercise.id for exercise in chapter.exercises]
        found[chapter.name] = len(answers_of(notebook, ids)) / max(1, len(ids))
    best = max(found, key=found.get, default=None)
    return pristine()[best] if best and found[best] >= 0.5 else None


def why_broken(path) -> str:
    """Return why a file holds no notebook at all, in a sentence; empty if it may hold one."""
    try:
        whole = loads(path.read_bytes())
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}."
    except UnicodeDecodeError:
        return f"{path.name} is not a notebook: it is not text in UTF-8."
    except (ValueError, RecursionError) as error:
        return f"{path.name} is not a notebook: it is not JSON ({error})."
    return "" if isinstance(whole, dict) else f"{path.name} is not a notebook: it holds no cells."


class Refused(pytest.File):
    """A file that cannot be judged: fails with the reason when it is collected."""

    def __init__(self, *, why: str, **kwargs):
        super().__init__(**kwargs)
        self.why = why

    def collect(self):
        raise self.CollectError(self.why)


class KernelDied(Exception):
    """The kernel ended while a cell ran."""


class WatchedKernel:
    """nbval's kernel, which keeps the last execute reply and raises KernelDied when the process has ended."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.reply: dict = {}

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def execute_cell_input(self, *args, **kwargs):
        self.reply = {}
        return self.kernel.execute_cell_input(*args, **kwargs)

    def get_message(self, stream, timeout):
        """Return the next message; raise Empty after `timeout` seconds, KernelDied soon after the kernel's death."""
        deadline = time.monotonic() + timeout
        while True:
            alive = self.kernel.is_alive()  # asked first: a message sent before the death is still read
            left = deadline - time.monotonic()
            try:
                return self.kernel.get_message(stream, timeout=max(0.0, min(POLL_SECONDS, left)))
            except Empty:
                if not alive:
                    raise KernelDied from None
                if left <= POLL_SECONDS:
                    raise

    def await_reply(self, msg_id, timeout):
        deadline = time.monotonic() + timeout
        while True:
            message = self.get_message("shell", max(0.0, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") == msg_id:
                self.reply = message["content"]
                return


class CourseNotebook(IPyNbFile):
    """A chapter: one kernel, and `ended`, the sentence why no further cell can run."""

    ended: str | None = None
    drain_until: float | None = None

    def __init__(self, *, notebook, chapter: Chapter | None, **kwargs):
        super().__init__(**kwargs)
        self.chapter = chapter
        """The pristine chapter that is judged; None where only the notebook itself is known."""
        self.nb = notebook
        if chapter is not None:
            self.nb = overlay(chapter, answers_of(notebook, [exercise.id for exercise in chapter.exercises]))

    def setup(self):
        with environment(COURSE_PROGRESS="off", COURSE_DISPLAY="text", PYTEST_CURRENT_TEST=None):
            for start in range(1, STARTS + 1):
                try:
                    super().setup()
                    break
                except RuntimeError as error:
                    if start == STARTS or "died" not in str(error):
                        raise
        self.kernel = WatchedKernel(self.kernel)

    def collect(self):
        for number, cell in enumerate(cell for cell in self.nb.cells if cell.cell_type == "code"):
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)
            options = defaultdict(bool, find_metadata_tags(cell.metadata)) | dict(find_comment_markers(cell.source))
            options.setdefault("check", self.compare_outputs)
            yield CourseCell.from_parent(
                self, name=cell.get("id") or f"Cell {number}", cell_num=number, cell=cell, options=options)

    def get_kernel_message(self, timeout=None, stream="iopub"):
        """After a timeout stop reading in time, even if the cell ignores the interrupt and prints without end."""
        if self.timed_out:
            self.drain_until = self.drain_until or time.monotonic() + timeout
            timeout = self.drain_until - time.monotonic()
            if timeout <= 0:
                raise Empty
        return self.kernel.get_message(stream, timeout)

    def teardown(self):
        if self.kernel is not None and self.kernel.is_alive():
            super().teardown()
        elif hasattr(self.kernel, "km"):  # nbval leaves a dead kernel's sockets and connection file behind
            self.kernel.stop()


class CourseCell(IPyNbCell):
    """A cell of a chapter, named after its id."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        tags = self.cell.metadata.get("tags", [])
        self.tags = [str(tag) for tag in tags] if isinstance(tags, list) else []
        if any(tag in ("exercise", "check") or tag.startswith("needs-") for tag in self.tags):
            self.options["check_exception"] = self.options["skip"] = False
        self.user_properties += [("cell_id", self.cell.get("id", "")), ("tags", self.tags)]

    def setup(self):
        """Do not mark the cell xfail after a timeout, as nbval does: runtest fails it."""

    def runtest(self):
        notebook = self.parent
        if notebook.ended is None and not notebook.kernel.is_alive():
            notebook.ended = "the kernel died after the cell before it"
        if notebook.ended is not None:
            self.fail("NotRun", f"not run: {notebook.ended}")
        try:
            super().runtest()
        except KernelDied:
            notebook.ended = f"the kernel died in cell {self.name}"
            self.fail("KernelDied", "the kernel died in this cell (os._exit, a crash, or out of memory)")
        except Exception as error:
            if notebook.timed_out:
                self.fail_timed_out(error)
            reply = notebook.kernel.reply
            self.note(reply.get("ename") or type(error).__name__, reply.get("evalue") or str(error))
            raise
        if notebook.timed_out:
            self.fail_timed_out()
        reply = notebook.kernel.reply
        if reply.get("status") != "ok" and not self.options["check_exception"]:
            self.fail(reply.get("ename", reply.get("status")), reply.get("evalue", ""))
        exercise = self.name.removeprefix("check_")
        if notebook.chapter is not None and "check" in self.tags and not re.search(f"[✓◐] {exercise} ", self.printed()):
            self.fail("NotChecked", f"the cell ended, but the check has not said that {exercise} is right")

    def printed(self) -> str:
        return "".join(out.get("text", "") for out in self.test_outputs or () if out.output_type == "stream")

    def fail_timed_out(self, error: Exception | None = None):
        """Fail this cell: it did not end in time, or (then it has a reply) what it printed did not arrive."""
        limit = self.config.option.nbval_cell_timeout
        why = "ended, but its output did not" if self.parent.kernel.reply else f"did not end within {limit:g} s"
        self.parent.ended = f"cell {self.name} {why}"
        self.fail("TimedOut", why, getattr(error, "inner_traceback", None))

    def fail(self, kind: str, sentence: str, traceback: str | None = None):
        self.note(kind, sentence)
        self.raise_cell_error(f"{kind}: {sentence}", traceback)

    def note(self, kind: str, sentence: str) -> None:
        self.user_properties += [("error", kind), ("sentence", sentence or kind)]

    def reportinfo(self):
        return self.path, None, self.name


@contextmanager
def environment(**variables: str | None) -> Iterator[None]:
    """Set variables of this process (None deletes) for the duration of a block."""
    before = {name: os.environ.get(name) for name in variables}
    change_environment(variables)
    try:
        yield
    finally:
        change_environment(before)


def change_environment(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
