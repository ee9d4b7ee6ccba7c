"""The process that grades one submission: it runs the checks, never anything of a learner's, and has no rights.

Forked by template.py, in a place of its own, which ends with it. It reads one request, a file of JSON, and writes a
line of JSON for each exercise as soon as that is judged (verdicts.py). Each call of an answer and each of its ranks is
a process that the Keeper of the place forks; what these send is plain data (course_lib/engine/plain.py), or refused.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import re
import resource
import socket
import time
from collections.abc import Iterator
from typing import Any

from course_lib import RankFailed, results
from course_lib.engine import failures, outcome, plain
from course_lib.engine.processes import launcher
from course_lib.engine.processes.watch import Child
from exercises_tests.grading import broker
from exercises_tests.grading.answer import Answer
from exercises_tests.grading.cells import CELL, borrows, names_defined, needed, statements, without_magic
from exercises_tests.grading.namespaces import MOST_TOGETHER, PROCESSES
from exercises_tests.grading.verdicts import MOST_TEXT
from exercises_tests.judging import Outcome

MEMORY = {"real": 3 << 30, "alone": 4 << 30}  # bytes of address space of one process; torch alone takes over 1
MOST_MEMORY = 6 << 30  # bytes of address space of the judge itself, which has about 2 in use
SPINNING, LOADING = 0.25, 0.05  # of the seconds of a run: so much processor time ends it, too, and more a process
FILE_BYTES, OPEN_FILES = 64 << 20, 1024
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class GradingLauncher(launcher.Launcher):
    """A launcher whose processes the Keeper of a place forks, each with limits and an environment that says nothing."""

    most_bytes = broker.MOST_MESSAGE

    def __init__(self, control: socket.socket, folder: str, seconds: float, processes: int) -> None:
        super().__init__()
        self._control, self._ready, self._owner = control, True, os.getpid()
        self._folder, self._processes = folder, processes
        self.seconds = seconds
        """The most that one run may take; a submission that has used it up once gets half of it afterwards."""
        self.waits_fully = True
        """Whether no run of the submission has hung yet."""
        self.lasted = 0.0
        """Seconds after which the last run was ended, if it was."""
        self._began = 0.0
        self._spun = 0.0
        """Seconds of processor time that all processes of this run have taken, as far as the Keeper has told."""
        self._most_spinning = 1.0
        """How many such seconds end the run."""
        self._full = False
        """Whether the processes of this run held too much memory together."""
        self.trail: list = []

    def _start(self, interrupts: Any) -> None:
        if self._control is None:
            raise self._gone()

    def simulate(self, job: dict[str, Any], timeout: float) -> Child:
        return broker.simulate(self, job, min(timeout, self.seconds))

    def outcome(self, body: bytes, child: Child) -> outcome.Outcome:
        return broker.believed(body, None if child.kind == "alone" else child.index)

    def unpack(self, data: bytes) -> Any:
        return plain.unpack(data)

    def run(
        self, jobs: list[dict[str, Any]], timeout: float, meet: bool = False, live: Any = None, broker: Any = None
    ) -> list:
        limits = [
            (resource.RLIMIT_AS, MEMORY.get(jobs[0]["kind"], 3 << 30)),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_NPROC, self._processes),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, int(2 * self.seconds)),
        ]
        environ = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        environ |= {"HOME": self._folder, "TMPDIR": self._folder}
        confined = {"folder": self._folder, "environ": environ, "argv": [""], "limits": limits, "plain": True}
        self.trail = []
        limit, self._spun, self._full, self._began = min(timeout, self.seconds), 0.0, False, time.monotonic()
        self._most_spinning = self.seconds * (SPINNING + LOADING * len(jobs))
        try:
            children = super().run([job | confined for job in jobs], limit, meet, broker=broker)
        finally:
            took = time.monotonic() - self._began
            self.lasted = float(round(took)) if self.enough() else limit
            if self.waits_fully and (self.enough() or took >= limit):
                self.waits_fully, self.seconds = False, self.seconds / 2
        if self._full:
            most = f"{MOST_TOGETHER >> 30} GiB"
            raise RankFailed(f"its processes held more than {most} of memory together and were ended", None, "memory")
        if broker is None:  # here it is known how long a run that hung was waited for
            kind, debug = jobs[0]["kind"], jobs[0].get("debug", False)
            failures.raise_first_failure(children, self.lasted, alone=kind == "alone", debug=debug)
        return children

    def enough(self) -> bool:
        """Return whether the processes of the run have spun for so long that nothing is to be hoped for."""
        return self._spun >= self._most_spinning

    def _hear(self) -> list[dict[str, Any]]:
        notices = super()._hear()
        self._spun = max([self._spun, *(notice["spent"] for notice in notices if "spent" in notice)])
        self._full = self._full or any("overfull" in notice for notice in notices)
        return notices


def main(control: socket.socket, request: int, verdicts: int, folder: str, apart: bool) -> None:
    """Judge the submission in the file `request`; `control` leads to the Keeper, `verdicts` to the grader."""
    if apart:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with os.fdopen(request, "rb") as file:
        asked = json.loads(file.read())
    results.source_line = _line_of_a_cell
    launcher.LAUNCHER = GradingLauncher(control, folder, asked["seconds"], PROCESSES if apart else 4 * PROCESSES)
    with os.fdopen(verdicts, "wb", 0) as pipe:
        for result in grade(asked):
            pipe.write(json.dumps(result).encode() + b"\n")


def _line_of_a_cell(filename: str, number: int) -> str:
    """Return a line of the learner's own cells and of no other file, whatever file a failure claims to be in."""
    return linecache.getline(filename, number) if filename.startswith(CELL) else ""


def grade(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one result for each exercise of a submission.

    The request names the chapter's module, the exercises in order with their points, the learner's `cells` by exercise,
    `others` (the rest of the notebook's code cells, only read, to say where a missing helper is), the solutions of
    borrowed exercises, the chapter's imports, and the seed of the numbers that checks draw.
    """
    os.environ["COURSE_SEED"] = str(request["seed"])
    checks = importlib.import_module(f"exercises_tests.{request['chapter']}")
    written = {name: without_magic(text) for name, text in request["cells"].items()}
    borrowed = {name for name, text in written.items() if borrows(name, text)}
    cells = written | {name: request["solutions"].get(name, written[name]) for name in borrowed}
    for name in request["exercises"]:
        yield _grade_one(name, checks, cells, borrowed, request)


def _grade_one(name: str, checks: Any, cells: dict, borrowed: set, request: dict) -> dict[str, Any]:
    check = getattr(checks, f"check_{name}")
    found = Outcome(name, check.points)
    if name not in cells:
        found.sentence, found.code = "the exercise cell is not in the notebook", "missing"
    elif name in borrowed:
        found.sentence, found.code, found.borrowed = "borrowed", "borrowed", True
    else:
        own = needed_cells(name, cells)
        try:
            found = check.outcome(Answer(name, own, request["imports"]))
        except MemoryError:
            found.sentence, found.code = "what it sends does not fit into the memory of the judge", "too-much-memory"
        except Exception as error:  # the check passes the course's own answer here: it is this one that it cannot take
            found.sentence, found.code = f"the check cannot judge it: {type(error).__name__}: {error}", "check-failed"
        found.sentence += _helper_elsewhere(found, cells, request["others"]) + _module_missing(found)
        if found.code and borrowed & own.keys():
            found.sentence, found.trail = BESIDE_BORROWED.format(code=found.code), []
    return _result(found)


BESIDE_BORROWED = (
    "wrong ({code}); what else was found is left out here, because borrowed solutions ran beside this answer and it "
    "could repeat them: the check in your notebook shows it"
)


def needed_cells(name: str, cells: dict[str, str]) -> dict[str, str]:
    """Return the cells that an answer needs, in order: its processes are told of no others."""
    parsed = {}
    for cell, text in cells.items():
        try:
            parsed[cell] = statements(cell, text)
        except Exception:  # SyntaxError, mostly; if it is the answer's own, its process will say what is wrong
            if cell == name:
                return {name: text}
    chosen, _ = needed(name, parsed)
    return {cell: text for cell, text in cells.items() if cell in chosen}


def _result(found: Outcome) -> dict[str, Any]:
    return {
        "exercise": found.exercise, "earned": found.earned, "marks": found.marks,
        "parts": {part: part in found.passed for part in found.points},
        "code": found.code, "sentence": found.sentence[:MOST_TEXT], "see": found.see[:MOST_TEXT],
        "borrowed": found.borrowed, "events": found.trail,
    }  # fmt: skip


def _helper_elsewhere(found: Outcome, cells: dict[str, str], others: list[str]) -> str:
    """Say so when the answer misses a name that another cell of the learner's notebook defines."""
    missing = re.search(r"NameError: name '(\w+)' is not defined", found.sentence)
    if found.code and missing and any(missing[1] in names_defined(text) for text in others):
        return (
            f"\n    {missing[1]} is defined in another cell of your notebook; only exercise cells are graded: "
            f"put it into the cell {found.exercise}"
        )
    return ""


def _module_missing(found: Outcome) -> str:
    """Say so when the answer imports what is not there."""
    missing = re.search(r"No module named '([\w.]+)'", found.sentence)
    if not found.code or not missing:
        return ""
    return f"\n    only the packages that the course needs are there where answers are graded; {missing[1]} is not"
