"""The process that grades one submission after another: it runs the checks, and never anything of a learner's.

Reads one request a line on standard input and writes one reply a line on what was standard output. Everything of the
learner's runs in processes that the fork server forks, with limits on time, memory, processes, files and output, in an
empty folder, without `solutions/` and `tests/` on the module path; what comes back is plain data or it is refused.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import linecache
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from course_lib import results
from course_lib.engine import failures, outcome, packing
from course_lib.engine.processes import launcher
from course_lib.engine.processes.fork_server import PR_SET_PDEATHSIG, prctl
from course_lib.engine.processes.watch import Child
from exercises_tests.grading import remote, sandbox
from exercises_tests.grading.answer import Answer
from exercises_tests.grading.cells import CELL, borrows, names_defined, without_magic
from exercises_tests.grading.namespaces import PROCESSES, SCRATCH
from exercises_tests.judging import Outcome

MEMORY = {"real": 3 << 30, "alone": 4 << 30}  # bytes of address space of one process; torch alone takes over 1
MOST_MEMORY = 6 << 30  # bytes of address space of the judge itself, which has about 2 in use
SPINNING, LOADING = 0.25, 0.05  # of the seconds of a run: so much processor time ends it, too, and more a process
ROOM = "course-room-"
MOST_TEXT = 4000  # characters of one sentence in a grade book
FILE_BYTES, OPEN_FILES = 64 << 20, 1024
THEIR_SIDE = ("exercises_tests.grading.answer", "exercises_tests.grading.remote")
"""What every process of an answer needs of the course."""
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class GradingLauncher(sandbox.SandboxLauncher):
    """A launcher whose every process has limits, an empty folder, and an environment that says nothing.

    With `apart` its fork server lives in a sandbox, and each process of an answer in a place of its own within that.
    """

    most_bytes = remote.MOST_MESSAGE
    apart = False
    folder = "/"
    waits_fully = True
    """Whether no run of the submission has hung yet."""
    seconds = 20.0
    """The most that one run may take; a submission that has used it up once gets half of it afterwards."""
    lasted = 0.0
    """Seconds after which the last run was ended, if it was."""
    _began = 0.0
    """When the sandbox was ready for this run."""
    _spun = 0.0
    """Seconds of processor time that all processes of this run have taken, as far as the sandbox has told."""
    _most_spinning = 1.0
    """How many such seconds end the run."""

    def _start_fork_server(self) -> None:
        start = sandbox.SandboxLauncher if self.apart else launcher.Launcher
        start._start_fork_server(self)

    def command(self, fd: str) -> list[str]:
        return [*super().command(fd), *self.preload]

    def simulate(self, job: dict[str, Any], timeout: float) -> Child:
        return remote.simulate(self, job, min(timeout, self.seconds))

    def outcome(self, body: bytes, child: Child) -> outcome.Outcome:
        return remote.believed(body, None if child.kind == "alone" else child.index)

    def unpack(self, data: bytes) -> Any:
        """Rebuild plain data of a bounded size; refuse all else."""
        return remote.check_size(packing.unpack_plain(data))

    def run(
        self, jobs: list[dict[str, Any]], timeout: float, meet: bool = False, live: Any = None, broker: Any = None
    ) -> list:
        limits = [
            (resource.RLIMIT_AS, MEMORY.get(jobs[0]["kind"], 3 << 30)),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_NPROC, PROCESSES),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, int(2 * self.seconds)),
        ]
        environ = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        environ |= {"HOME": self.folder, "TMPDIR": self.folder}
        confined = {"folder": self.folder, "environ": environ, "argv": [""], "limits": limits}
        limit, self._spun, self._began = min(timeout, self.seconds), 0.0, time.monotonic()
        self._most_spinning = self.seconds * (SPINNING + LOADING * len(jobs))
        try:
            children = super().run([job | confined for job in jobs], limit, meet, broker=broker)
        finally:
            took = time.monotonic() - self._began
            self.lasted = float(round(took)) if self.enough() else limit
            if self.waits_fully and (self.enough() or took >= limit):
                self.waits_fully, self.seconds = False, self.seconds / 2
        if broker is None:  # here it is known how long a run that hung was waited for
            kind, debug = jobs[0]["kind"], jobs[0].get("debug", False)
            failures.raise_first_failure(children, self.lasted, alone=kind == "alone", debug=debug)
        return children

    def _start(self, interrupts: Any) -> None:
        super()._start(interrupts)
        self._began = time.monotonic()

    def enough(self) -> bool:
        """Return whether the processes of the run have spun for so long that nothing is to be hoped for."""
        return self._spun >= self._most_spinning

    def _hear(self) -> list[dict[str, Any]]:
        notices = super()._hear()
        self._spun = max([self._spun, *(notice["spent"] for notice in notices if "spent" in notice)])
        return notices


def main() -> None:
    """Serve requests until standard input ends; on the one core that the first argument names, if there is one."""
    if sys.argv[1:]:
        os.sched_setaffinity(0, {int(sys.argv[1])})
    replies = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as this process lives
    os.environ["COURSE_PROGRESS"] = "off"
    results.source_line = _line_of_a_cell
    launcher.LAUNCHER = GradingLauncher()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a judge whose grader is gone has nobody to tell
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryDirectory(prefix="submission-", dir=launcher.LAUNCHER.room or None) as folder:
            launcher.LAUNCHER.apart, launcher.LAUNCHER.seconds = request["sandbox"], request["seconds"]
            launcher.LAUNCHER.waits_fully = True
            launcher.LAUNCHER.preload = _preload(request["chapter"], request["imports"])
            launcher.LAUNCHER.folder = SCRATCH if request["sandbox"] else folder
            found = grade(request)
            launcher.LAUNCHER.stop()  # nothing passes from one submission to the next
        replies.write(json.dumps(found) + "\n")
        replies.flush()


def _imported(cell: str) -> tuple[str, ...]:
    """Return the modules that the chapter's own imports cell names."""
    nodes = list(ast.walk(ast.parse(cell)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return (*names, *(node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module))


def _preload(chapter: str, imports: str) -> tuple[str, ...]:
    """Return all modules that processes of an answer will want: also its checks, whose functions drive it."""
    checks = f"exercises_tests.{chapter}"
    more = getattr(importlib.import_module(checks), "PRELOAD", ())
    return *THEIR_SIDE, *_imported(imports), checks, *more


def _line_of_a_cell(filename: str, number: int) -> str:
    """Return a line of the learner's own cells and of no other file, whatever file a failure claims to be in."""
    return linecache.getline(filename, number) if filename.startswith(CELL) else ""


def grade(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one result for each exercise of a submission.

    The request names the chapter's module, the exercises in order with their points, the learner's `cells` by exercise,
    `others` (the rest of the notebook's code cells, only read, to say where a missing helper is), the solutions of
    borrowed exercises, the chapter's imports, and the seed of the numbers that checks draw.
    """
    os.environ["COURSE_SEED"] = str(request["seed"])
    checks = importlib.import_module(f"exercises_tests.{request['chapter']}")
    written = {name: without_magic(text) for name, text in request["cells"].items()}
    borrowed = {name for name, text in written.items() if borrows(name, text)}
    cells = written | {name: request["solutions"].get(name, written[name]) for name in borrowed}
    return [_grade_one(name, points, checks, cells, borrowed, request) for name, points in request["exercises"].items()]


def _grade_one(name: str, points: int, checks: Any, cells: dict, borrowed: set, request: dict) -> dict[str, Any]:
    check = getattr(checks, f"check_{name}")
    found = Outcome(name, check.points)
    if name not in cells:
        found.sentence, found.code = "the exercise cell is not in the notebook", "missing"
    elif name in borrowed:
        found.sentence, found.code, found.borrowed = "borrowed", "borrowed", True
    else:
        try:
            found = check.outcome(Answer(name, cells, request["imports"]))
        except MemoryError:
            found.sentence, found.code = "what it sends does not fit into the memory of the judge", "too-much-memory"
        except Exception as error:  # of the check's own making: nobody's points depend on it
            return _result(found) | {"graded": False, "sentence": f"not graded: {type(error).__name__}: {error}"}
        found.sentence += _helper_elsewhere(found, cells, request["others"]) + _module_missing(found)
    return _result(found)


def _result(found: Outcome) -> dict[str, Any]:
    marks = {part: part in found.passed for part in found.points}
    return {
        "exercise": found.exercise, "graded": True, "earned": found.earned, "points": found.total, "parts": marks,
        "marks": found.marks, "code": found.code, "sentence": found.sentence[:MOST_TEXT], "see": found.see,
        "borrowed": found.borrowed,
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


def room(root: Path | None = None) -> dict[str, str]:
    """Return the environment of a judge: copies of the two packages on the module path, and nothing beside them.

    The folder stands in PYTHONPATH; whoever asked for it deletes it. The checks of a course elsewhere are in
    `root/exercises_tests`.
    """
    base = "/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()  # a sandbox puts a new /tmp in place
    _tidy(Path(base))
    folder = tempfile.mkdtemp(prefix=f"{ROOM}{os.getpid()}-", dir=base)
    here = Path(__file__).resolve().parents[2]
    for package in ("course_lib", "exercises_tests"):
        shutil.copytree(here / package, Path(folder, package), ignore=shutil.ignore_patterns("__pycache__"))
    for check in (root / "exercises_tests").glob("ch*.py") if root else ():
        shutil.copy(check, Path(folder, "exercises_tests"))
    os.chmod(folder, 0o755)  # a sandbox reads it as another user
    return os.environ | {"PYTHONPATH": folder, "PYTHONSAFEPATH": "1", "MALLOC_ARENA_MAX": "2"}


def _tidy(base: Path) -> None:
    """Delete the rooms of graders that were killed and could not do so themselves."""
    for folder in base.glob(f"{ROOM}*-*"):
        with contextlib.suppress(OSError, ValueError):
            owner = int(folder.name.removeprefix(ROOM).partition("-")[0])
            if folder.stat().st_uid == os.getuid() and not _alive(owner):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    main()
