"""What a check is made of: named parts with points, one line when right, one sentence when wrong, no traceback of ours.

How a check is written so that it cannot be fooled stands in CONTRIBUTING.md; in short: work out what is expected before
calling the answer, judge only plain data that came back, and write every comparison so that NaN fails.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import sys
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.ranks import packing
from course_lib.ranks.launcher import LAUNCHER
from course_lib.ranks.results import Deadlock, Interrupted, RankFailed, lines_of

SOLUTIONS = Path(__file__).resolve().parent.parent / "solutions"
_BORROWED: dict[Path, ModuleType] = {}
"""Modules of solutions that were borrowed from. They are not in sys.modules, so that what they define travels to ranks
by value, also inside a learner's function: a rank, like a learner's kernel in work/, cannot import solutions."""
PROGRESS = ".progress.json"
WIDTH = 104


@dataclass
class Outcome:
    """What a check found: points by part, and for a wrong answer the sentence, a stable code, and how to see it."""

    exercise: str
    points: dict[str, int]
    passed: list[str] = field(default_factory=list)
    sentence: str = ""
    code: str = ""
    """Empty when all is right; else the stable name of the mistake."""
    see: str = ""
    borrowed: bool = False

    @property
    def earned(self) -> int:
        return 0 if self.borrowed else sum(self.points[part] for part in self.passed)

    @property
    def total(self) -> int:
        return sum(self.points.values())

    @property
    def marks(self) -> str:
        """Return each part with its mark: passed, failed, or not tried."""
        marks, failed = [], bool(self.code)
        for part in self.points:
            if part in self.passed:
                marks.append(f"{part} ✓")
            else:
                marks.append(f"{part} {'✗' if failed else '–'}")
                failed = False
        return " ".join(marks)

    def __str__(self) -> str:
        score = f"{self.earned} of {self.total} points"
        if self.borrowed:
            score += " (borrowed)"
        elif self.code:
            score += f" ({self.marks})"
        head = f"{'✗' if self.code else '✓'} {self.exercise}   "
        first, *rest = self.sentence.split("\n")
        lines = textwrap.wrap(first, WIDTH, initial_indent=head, subsequent_indent="    ") + rest
        if len(lines) == 1 and not self.code and len(lines[0]) + len(score) + 10 <= WIDTH:
            return f"{lines[0]}          {score}"
        lines.append(f"    {score}")
        if self.see:
            lines.append(f"    See it: {self.see}")
        return "\n".join(lines)


class CheckFailed(AssertionError):
    """A wrong answer, shown as one sentence. `outcome` has the parts earned and the code of the mistake."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class _Wrong(Exception):  # noqa: N818
    def __init__(self, sentence: str, code: str, see: str) -> None:
        super().__init__(sentence)
        self.code, self.see = code, see


def expect(condition: Any, sentence: str, code: str, see: str = "") -> None:
    """Refuse the answer with `sentence` unless `condition` is True (NumPy's counts, anything else does not).

    `code` names the mistake for good; `see` is a line the learner can run to see it.
    """
    numpys = type(condition).__module__ == "numpy" and type(condition).__name__ in ("bool", "bool_")
    if not ((type(condition) is bool or numpys) and condition):
        raise _Wrong(sentence, code, see)


def equal(got: Any, want: Any) -> bool:
    """Return whether two pieces of plain data have the same type, shape and value. NaN equals nothing."""
    import torch

    if type(got) is not type(want):
        return False
    if isinstance(want, torch.Tensor):
        return got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(map(equal, got, want))
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(equal(got[key], want[key]) for key in want)
    return bool(got == want)


def close(got: Any, want: float, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    """Return whether a number is as near to `want` as asked. NaN, infinity and anything that is no number are not."""
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return abs(got - want) <= max(relative * abs(want), absolute)


def near(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether two tensors, or lists of them, have equal shapes and differ by at most `tolerance`; NaN: no."""
    import torch

    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(
            near(one, other, tolerance) for one, other in zip(got, want, strict=True)
        )  # fmt: skip
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return want.numel() == 0 or bool((got.double() - want.double()).abs().max() <= tolerance)


def integers(ranks: int, shape: Any, dtype: str = "float32") -> list:
    """Return one tensor for each rank, of small whole numbers that differ from rank to rank.

    Any order of addition of so small numbers gives the same bits, in every dtype, so results can be compared exactly.
    COURSE_SEED chooses other numbers: a grader sets it, so that no answer can know them.
    """
    import torch

    generator = torch.Generator().manual_seed(int(os.environ.get("COURSE_SEED", "0")))
    return [
        torch.randint(-9, 10, torch.Size(shape), generator=generator).to(getattr(torch, dtype)) for _ in range(ranks)
    ]


class Parts:
    """Hands out the parts of a check in order: `part("bytes")` says that what follows is judged as that part."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._current = outcome, None

    def __call__(self, name: str) -> None:
        assert name in self._outcome.points, f"{name} is no part of check_{self._outcome.exercise}"
        self.close()
        self._current = name

    def close(self) -> None:
        if self._current is not None:
            self._outcome.passed.append(self._current)
            self._current = None


def check(**points: int) -> Callable:
    """Make a check out of `def check_exercise(answer, part) -> str`, whose parts have these points.

    The function calls `part(name)` before each part (underscores in names read as spaces), `expect` for each demand,
    and returns the sentence for a right answer. Called as `check_exercise(answer)` it prints that line or raises
    CheckFailed; `check_exercise.outcome(answer)` returns the Outcome and neither prints nor records.
    """

    def wrap(judge: Callable) -> Callable:
        exercise = judge.__name__.removeprefix("check_")
        worth = {name.replace("_", " "): value for name, value in points.items()}

        def outcome(*answers: Any) -> Outcome:
            found = Outcome(exercise, worth, borrowed=any(getattr(a, "__borrowed__", False) for a in answers))
            part = Parts(found)
            try:
                for answer in answers:
                    expect(callable(answer), f"{exercise} is {answer!r}, not a function", "not-callable")
                with LAUNCHER.sharing():
                    found.sentence = judge(*answers, part)
                part.close()
                missing = [name for name in worth if name not in found.passed]
                assert not missing, f"check_{exercise} never judged {missing}"
            except _Wrong as wrong:
                found.sentence, found.code, found.see = str(wrong), wrong.code, wrong.see
            except RankFailed as failure:
                found.sentence, found.code = _of_failure(failure, exercise)
            except NotImplementedError as error:
                name = _raiser(error)
                found.sentence, found.code = _unwritten(name, exercise)
            except Exception as error:
                frames = _learner_frames(error)
                if not frames:
                    raise  # a fault of the check, not of the answer
                found.sentence = f"raised {type(error).__name__}: {error}" + lines_of(frames)
                found.code = "raised"
            return found

        @functools.wraps(judge)
        def checked(*answers: Any) -> None:
            try:
                found = outcome(*answers)
            except KeyboardInterrupt as error:
                if isinstance(error, Interrupted):
                    raise
                raise Interrupted(f"check_{exercise} was interrupted") from None
            _record(judge.__module__.rsplit(".", 1)[-1], found)
            if found.code:
                raise CheckFailed(found)
            print(found)

        checked.outcome, checked.exercise, checked.points = outcome, exercise, worth
        return checked

    return wrap


def _unwritten(name: str, exercise: str) -> tuple[str, str]:
    if name == exercise:
        return "not written yet", "not-written"
    return f"needs {name}: write it, or borrow it", "needs"


def _of_failure(failure: RankFailed, exercise: str) -> tuple[str, str]:
    if failure.error == "NotImplementedError" and not isinstance(failure, Deadlock):
        return _unwritten(failure.message or exercise, exercise)
    words = f"deadlock: {failure}" if isinstance(failure, Deadlock) else str(failure)
    return words, code_of(failure)


def code_of(failure: RankFailed) -> str:
    """Return the code of the mistake that made a run fail: deadlock, timeout, died or raised."""
    kinds = {"deadlock": "deadlock", "timeout": "timeout", "exit": "died", "signal": "died"}
    return kinds.get(failure.error, "raised")


def _learner_frames(error: BaseException) -> list[tuple[str, int, str]]:
    stack = traceback.extract_tb(error.__traceback__)
    return [(f.filename, f.lineno or 0, f.name) for f in stack if not packing.is_library(f.filename)]


def _raiser(error: BaseException) -> str:
    """Return the learner's function or class in which an exception was raised."""
    code = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [
        c.co_qualname.rpartition("<locals>.")[2].partition(".")[0]
        for c in code
        if not packing.is_library(c.co_filename)
    ]
    return names[-1] if names else ""


def alone(drive: Callable, answer: Any, *data: Any) -> Any:
    """Return `drive(answer, *data)`, worked out where the learner's code lives: here, or elsewhere when it is graded.

    For answers that are classes or that hand out objects: `drive` is a function of the check's module that uses the
    answer and returns plain data. It runs beside the learner's code, so it must know nothing of what is expected.
    """
    elsewhere = getattr(answer, "__alone__", None)
    return drive(answer, *data) if elsewhere is None else elsewhere(drive, *data)


# Predictions


def compare(guess: float | None, measured: float, unit: str = "", *, by: str = "measured") -> None:
    """Print a guess, the measured number and their ratio ("exact" where they are equal); without a guess no ratio.

    `by` says where the number comes from when nothing was measured: by="by formula".
    """
    unit = f" {unit}" if unit else ""
    known = f"{by} {_number(measured)}{unit}"
    if guess is None:
        print(f"no guess   {known}")
    elif isinstance(guess, bool) or not isinstance(guess, (int, float)):
        print(f"{guess!r} is not a number   {known}")
    else:
        ratio = f"{by} / guess {measured / guess:.3g}" if guess else f"{by} / guess –"
        print(f"guess {_number(guess)}{unit}   {known}   {'exact' if guess == measured else ratio}")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


# Solutions


def _find(name: str) -> Path:
    """Return the file in solutions/ that holds an exercise's answer."""
    if not SOLUTIONS.is_dir():
        raise LookupError(f"the solutions are not here, so {name} cannot be borrowed")
    known = []
    for path in sorted(SOLUTIONS.glob("ch*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name")]
        if name in names:
            return path
        known += names
    raise LookupError(f"there is no exercise {name!r}; there are {', '.join(known)}")


def borrow(name: str) -> Callable:
    """Return the solution of an exercise, so that the chapter can go on; it counts as borrowed, 0 points."""
    path = _find(name)
    if path not in _BORROWED:
        spec = importlib.util.spec_from_file_location(f"borrowed.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _BORROWED[path] = module
    answer = getattr(_BORROWED[path], name)
    answer.__borrowed__ = True
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank borrows, and one says so
        print(f"borrowed {name}: the chapter goes on, its points stay open")
    return answer


class _Source(str):
    """Source text that a notebook shows as code."""

    def _repr_markdown_(self) -> str:
        return f"```python\n{self}\n```"

    def __repr__(self) -> str:
        return str(self)


def solution(name: str) -> str:
    """Return the source of an exercise's solution; a notebook shows it as code."""
    text = _find(name).read_text()
    node = next(node for node in ast.parse(text).body if getattr(node, "name", None) == name)
    return _Source(ast.get_source_segment(text, node))


# Progress: one small file, beside the notebooks that the learner works in


def _record(chapter: str, found: Outcome) -> None:
    if os.environ.get("COURSE_PROGRESS") == "off":
        return
    path = Path(PROGRESS)
    state = "borrowed" if found.borrowed else "passed" if not found.code else "tried"
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError):
        known = {}
    best = known.setdefault(chapter, {}).get(found.exercise, {})
    if best.get("state") == "passed" and state != "passed":
        return
    known[chapter][found.exercise] = {"state": state, "earned": found.earned, "points": found.total}
    new = path.with_name(f"{PROGRESS}.{os.getpid()}")
    try:
        new.write_text(json.dumps(known, indent=1))
        os.replace(new, path)
    except OSError as error:
        print(f"(progress not saved: {error.strerror} in {Path.cwd()})")


def progress() -> None:
    """Print which exercises of which chapter have passed, were tried, or were borrowed."""
    try:
        known = json.loads(Path(PROGRESS).read_text())
    except FileNotFoundError:
        known = {}
    except ValueError:
        print(f"{PROGRESS} is damaged: delete it, and the checks will write a new one")
        return
    if not known:
        print("no check has run in this folder yet")
    for chapter, exercises in sorted(known.items()):
        earned, points = (sum(found[key] for found in exercises.values()) for key in ("earned", "points"))
        print(f"{chapter}   {earned} of {points} points tried")
        for exercise, found in exercises.items():
            mark = {"passed": "✓", "borrowed": "b"}.get(found["state"], "✗")
            print(f"  {mark} {exercise:<28} {found['earned']} of {found['points']}   {found['state']}")


def _show_unwritten(shell: Any, kind: type, error: BaseException, stack: Any, tb_offset: Any = None) -> list[str]:
    name = _raiser(error)
    if str(error) or not name or name.startswith("<"):
        shell.showtraceback((kind, error, stack), tb_offset=tb_offset)
        return []
    print_as = f"NotImplementedError: needs {name}: write it, or borrow it"
    shell._showtraceback(kind, error, [print_as])
    return [print_as]


def _teach_notebook() -> None:
    """In a notebook, let the stub of an unsolved exercise say what is needed instead of showing a traceback."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.set_custom_exc((NotImplementedError,), _show_unwritten)


_teach_notebook()
