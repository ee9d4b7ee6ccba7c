"""What a learner calls beside the checks: compare a guess, borrow or show a solution, and see the progress."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib import cards, chapter_names, short_errors
from course_lib.results import duration
from course_lib.short_errors import near
from course_lib.slips import BYTES, SECONDS, SHARES, Unread, meant, refused

SOLUTIONS = Path(__file__).resolve().parent.parent / "solutions"
_BORROWED: dict[Path, ModuleType] = {}
"""Modules of solutions that were borrowed from. They are not in sys.modules, so that what they define travels to ranks
by value, also inside a learner's function: a rank, like a learner's kernel in work/, cannot import solutions."""
PROGRESS, AHEAD = ".progress.json", ".next.json"  # exercises_tests/tools/start_page.py writes the second
TEMPTING = Path(__file__).with_name("data") / "tempting.toml"
ABOVE = "Your guess cannot be read yet: see above. Run this cell again to see the answer anyway."
WAITS = "The answer is not shown yet. Run this cell again to see it, or first write {} and run your guess."


# Predictions


def compare(
    guess: float | None, measured: float, unit: str = "", *, by: str = "measured",
    because: Mapping[float, str] | str = "", choice: bool = False,
) -> None:  # fmt: skip
    """Print a guess beside the measured number, and how far off it is; a tempting wrong guess gets its reason.

    `by` says where the number comes from when nothing was measured: by="by formula". `because` has a sentence for each
    number that somebody might well think of, said when the guess is within 2 % of it: why one would think so, and what
    is missed. A text such as "ch03.seconds" names such sentences in course_lib/data/tempting.toml, where nobody reads
    them before the guess; LookupError if they are not there. A guess is exact when it is the number; for a number that
    is not whole, when it is the number rounded to the three or more digits that were typed, or to those shown: three
    where it was measured, else four; or when it has so many that it is nearer than a hundred thousandth.

    With `choice` the number is a name, as that of a row in a picture: it is right or not, and nothing is near it.

    None is no guess, and the number is shown. What is no number is refused, and in a notebook the cell ends there,
    unless it is the same again, so that nothing below the call tells the answer.
    """
    if not hasattr(measured, "__float__"):
        raise TypeError(f"compare your guess with a number, not with {measured!r}: compare(guess, measured)")
    unit = f" {unit}" if unit else ""
    digits = 3 if by == "measured" else 4
    known = _with_unit(measured, unit, digits)
    if guess is None:
        _show_guess("no guess", "", None, by, known, measured)
    elif slip := refused(guess, measured, unit, choice):
        above = _TOLD.get(_as_typed(guess), "")  # what stands below the guess
        slip = above or slip
        hold_back(f"{because} {unit} {by}", slip, above=bool(above))
        _show_guess(slip, "", None, by, known, measured)
    else:
        judged = ("right" if guess == measured else "not that one") if choice else _distance(guess, measured, digits)
        reasons = _reasons(because) if isinstance(because, str) else because
        near_by = [number for number in reasons if math.isclose(guess, number, rel_tol=0.0 if choice else 0.02)]
        reason = reasons[min(near_by, key=lambda number: abs(guess - number))] if near_by else ""
        if judged == "exact":
            reason = ""
        elif not reason and not choice:
            noisy = by == "measured" and isinstance(measured, float)
            judged = f"close: {judged}" if noisy and _close(guess, measured) else judged
            judged = "right" if _right(guess, measured) else judged
        drawn = None if choice else guess
        _show_guess("guess", _with_unit(guess, unit), drawn, by, known, measured, judged, reason)


def hold_back(asked: str, slip: str, wanted: str = "a number", above: bool = False) -> None:
    """End a notebook's cell whose guess cannot be read, unless the learner runs the same again to see the answer.

    What is told `above`, below the guess itself, is not told again.
    """
    if cards.in_notebook() and _HELD_BACK.get(asked) != slip:
        _HELD_BACK[asked] = slip
        raise Waits(ABOVE if above else f"{slip}\n{WAITS.format(wanted)}")


_HELD_BACK: dict[str, str] = {}
"""By what is asked, the slip for which the answer was held back last."""
_TOLD: dict[str, str] = {}
"""By a guess that cannot be read, as it was typed, what was told of it below its own cell."""


def _as_typed(guess: Any) -> str:
    return guess.text if isinstance(guess, Unread) else repr(guess)


class Waits(cards.Told):
    """The answer is not shown yet."""

    def card(self) -> str:
        return cards.card(cards.OPEN, *map(cards.paragraph, str(self).splitlines()))


def _show_guess(
    head: str, said: str, guess: float | None, by: str, known: str, measured: float, judged: str = "", reason: str = ""
) -> None:
    """Show a guess and a number, as bars where both have a length, then how far apart they are, and why."""
    line = "   ".join(filter(None, [f"{head} {said}".strip(), f"{by} {known}", judged]))

    def html() -> str:
        refused = "" if said or head == "no guess" else head
        rows = [(by, measured, known)] if refused else [(head, guess, said), (by, measured, known)]
        longest = max(abs(measured), abs(guess or 0))
        bars = guess is not None and longest > 0 and guess >= 0 and measured >= 0
        cells = [[escape(name), *([cards.bar(value / longest)] if bars else []), f"<b>{escape(text)}</b>"]
                 for name, value, text in rows]
        told = [cards.paragraph(text) for text in (judged, reason) if text]
        kind = cards.RIGHT if judged in ("exact", "right") else cards.OPEN if not judged else cards.TOLD
        return cards.card(kind, refused and cards.paragraph(refused), cards.table(cells), *told)

    cards.show("\n".join(filter(None, [line, reason])), html)


def _reasons(name: str) -> dict[float, str]:
    """Return the sentences that tempting.toml has under a name, by the number that they answer."""
    chapter, _, guess = name.partition(".")
    known = tomllib.loads(TEMPTING.read_text(encoding="utf-8"))
    if name and guess not in known.get(chapter, {}):
        raise LookupError(f"because={name!r}: {TEMPTING.name} has nothing under this name")
    return {float(number): words for number, words in known.get(chapter, {}).get(guess, {}).items()}


def _exact(guess: float, measured: float, shown: int) -> bool:
    if guess != round(guess) and math.isclose(guess, measured, rel_tol=1e-5):
        return True
    if isinstance(measured, int) or shown == 3 and measured == round(measured):
        return guess == measured
    typed = len(f"{guess:.15g}".partition("e")[0].replace("-", "").replace(".", "").strip("0"))
    digits = typed if typed >= 3 else shown
    return math.isclose(guess, float(f"{measured:.{digits}g}"), rel_tol=1e-9)


def _right(guess: float, measured: float) -> bool:
    """Return whether a guess is the number to the two or more digits that were typed, or within 2 % of it.

    A small count is right only when it is exact: one more or one less is another number.
    """
    if isinstance(measured, int) and abs(measured) < 100:
        return False
    typed = len(f"{guess:.15g}".partition("e")[0].replace("-", "").replace(".", "").strip("0"))
    rounded = typed >= 2 and guess == float(f"{measured:.{typed}g}")
    return rounded or math.isclose(guess, measured, rel_tol=0.02)


def _close(guess: float, measured: float) -> bool:
    """Return whether a guess is within 20 % of a number, which another run may measure as well."""
    return abs(guess - measured) <= 0.2 * abs(measured)


def _distance(guess: float, measured: float, digits: int) -> str:
    """Return in words how far a guess is from the number: exact, 4 % too low, half as high, 9 million times as high."""
    if _exact(guess, measured, digits):
        return "exact"
    if guess * measured <= 0:
        return "too low" if guess < measured else "too high"
    way = "low" if guess < measured else "high"
    ratio = max(guess / measured, measured / guess)
    if ratio < 1.5:
        return f"{100 * abs(guess - measured) / abs(measured):.2g} % too {way}"
    scales = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (1, ""))
    scale, word = next(one for one in scales if ratio >= one[0])
    times = f"{float(f'{ratio / scale:.3g}'):,.15g}"
    if times + word == "2":
        return "half as high" if way == "low" else "twice as high"
    return f"{times}{word} times as high" if way == "high" else f"the answer is {times}{word} times as high"


def _with_unit(value: float, unit: str, digits: int = 4) -> str:
    """Return a number with its unit as one says it: 20 µs for 2e-05 s, "as long" for 1 times as long."""
    if unit == " s" and 0 < value < 1e-3:
        return duration(value)
    if value == 1 and unit.startswith(" times"):
        return unit.removeprefix(" times").strip() or "once"
    return f"{_number(value, digits)}{unit}"


def _number(value: float, digits: int = 4) -> str:
    """Return a number with few digits; a whole one with all."""
    if isinstance(value, int):
        return f"{value:,}"
    few = digits == 3 and math.isfinite(value) and value != round(value)
    return f"{float(f'{value:.3g}'):,.15g}" if few else f"{value:,.4g}"


def heed_guesses(result: Any) -> None:
    """Say below a guess at once why it cannot be read; forget that of a cell that failed. IPython calls this.

    An older guess than the one that failed is not what the learner thinks.
    """
    if result.info is None:
        return
    names = sys.modules["IPython"].get_ipython().user_ns
    for name, text in re.findall(r"^(guess_\w+) *=([^#\n]*)", result.info.raw_cell, re.MULTILINE):
        if not result.success:
            names[name] = Unread(text.strip())
        asked = chapter_names.source_of(name) or result.info.raw_cell
        slip = "" if names.get(name) is None or "in quotes" in asked else _slip(names[name], asked)
        if slip and (result.success or isinstance(result.error_before_exec, SyntaxError)):
            told = f"{slip}. Then run this cell again."
            _TOLD[_as_typed(names[name])] = slip
            cards.show(told, lambda told=told: cards.card(cards.OPEN, cards.paragraph(told)))


def _slip(guess: Any, asked: str) -> str:
    """Return why a guess cannot be read, where only the comment in its cell tells what is asked; "" where it can."""
    named = re.search(r"number[,:] (?:in )?([^\W\d]+|%)(?![^#]* / )", asked)  # a ratio of bytes is no number of bytes
    unit = named[1] if named and named[1] in SECONDS | BYTES | SHARES else "of some kind"
    if isinstance(guess, Unread):
        wanted = meant(guess.text, unit)
        return wanted and f"{guess.text} is {wanted}"
    slip = refused(guess, -1, unit, choice="your choice" in asked)  # the answer may be negative
    return slip if "rite " in slip else slip and f"{slip}: write one"


# Solutions


def _find(name: str) -> Path:
    """Return the file in solutions/ that holds an exercise's answer."""
    if not isinstance(name, str):
        known = getattr(name, "__name__", "exchange")
        raise TypeError(f"an exercise is named in quotes, as in borrow({known!r})")
    if not SOLUTIONS.is_dir():
        raise LookupError(f"the solutions are not here, so {name} cannot be borrowed")
    known = []
    for path in sorted(SOLUTIONS.glob("ch*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name")]
        if name in names:
            return path
        known += names
        if re.fullmatch(rf"{path.stem}|{path.stem[:4]}|{int(path.stem[2:4])}", name):
            raise LookupError(f"{name!r} is a chapter: borrow one of its exercises, {', '.join(names)}")
    rest = "it is the name of the function to write, which stands above its cell"
    raise LookupError(f"there is no exercise {name!r}; {near(name, known) or rest}")


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


def remember(chapter: str, exercise: str, state: str, earned: int, points: int) -> bool:
    """Note what a check found last, one of STATES, and return whether it is news; what is handed in is the last."""
    if os.environ.get("COURSE_PROGRESS") == "off":
        return False
    path = Path(PROGRESS)
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError):
        known = {}
    now = {"state": state, "earned": earned, "points": points}
    if known.setdefault(chapter, {}).get(exercise) == now:
        return False
    known[chapter] = known.pop(chapter) | {exercise: now}  # the chapter that was worked on last stands last
    new = path.with_name(f"{PROGRESS}.{os.getpid()}")
    try:
        new.write_text(json.dumps(known, indent=1))
        os.replace(new, path)
    except OSError as error:
        print(f"(progress not saved: {error.strerror} in {Path.cwd()})")
        return False
    return True


def progress() -> None:
    """Print of each chapter that was begun which exercises have passed, were tried or borrowed, and which are left."""
    try:
        known = json.loads(Path(PROGRESS).read_text())
    except FileNotFoundError:
        known = {}
    except ValueError:
        print(f"{PROGRESS} is damaged: delete it, and the checks will write a new one")
        return
    if not known:
        print("no check has run in this folder yet")
        return
    lines, pieces, ahead = [], [], _ahead()
    for chapter, found_here in sorted(known.items()):
        exercises = _untried(ahead.get("points"), chapter) | found_here
        earned, points = (sum(found[key] for found in exercises.values()) for key in ("earned", "points"))
        extra = ahead.get("extra", {}).get(chapter, [])
        done, core = _passed(found for name, found in exercises.items() if name not in extra)
        more, others = _passed(found for name, found in exercises.items() if name in extra)
        several = f"{core}{' core' * bool(ahead)} exercise{'s' * (core != 1)}"
        head = f"{chapter}   {earned} of {points} points, {done} of {several} passed"
        head += f", {more} of {others} extra" if others else ""
        lines.append(head)
        rows = []
        for exercise, found in exercises.items():
            mark, state, kind = STATES.get(found["state"], STATES["tried"])
            score = f"{found['earned']} of {found['points']}"
            exercise += " (extra)" * (exercise in extra)
            lines.append(f"  {mark} {exercise:<32} {score}   {state}")
            share = found["earned"] / max(1, found["points"])
            tint = cards.PART if 0 < share < 1 else kind
            rows.append([f"{cards.mark(kind, mark)} {escape(exercise)}", cards.bar(share, tint), score, escape(state)])
        kind = cards.RIGHT if done == core else cards.TOLD
        pieces.append(cards.card(kind, f"<p><strong>{escape(head)}</strong></p>", cards.table(rows)))
    if ahead:
        where = f" {ahead['next']} ({ahead['path']})" if ahead["path"] else ""
        lines.append(ahead["told"] + where)
        link = f' <a href="{escape(ahead["path"])}">{escape(ahead["next"])}</a>' if ahead["path"] else ""
        pieces.append(cards.card(cards.TOLD, f"<p>{escape(ahead['told'])}{link}</p>"))
    cards.show("\n".join(lines), lambda: "".join(pieces))


def _passed(exercises: Iterable[dict]) -> tuple[int, int]:
    """Return how many of how many exercises have passed."""
    states = [found["state"] == "passed" for found in exercises]
    return sum(states), len(states)


def _untried(points: Any, chapter: str) -> dict[str, dict]:
    """Return all exercises of a chapter as if none had been tried, in order; nothing where they are not known."""
    known = points.get(chapter) if isinstance(points, dict) else None
    if not isinstance(known, dict):
        return {}
    return {name: {"state": "open", "earned": 0, "points": int(most)} for name, most in known.items()}


def _ahead() -> dict[str, Any]:
    """Return what stands beside the notebooks about the whole course, and the chapter to go on with."""
    try:
        known = json.loads(Path(AHEAD).read_text(encoding="utf-8"))
        told, after = f"{known['passed']} of {known['of']} core exercises of the course passed.", known["next"]
        if known.get("task"):
            after = f"{known['task']} in chapter {known['chapter']}"
        return {"told": f"{told} Continue with:" if after else told, "next": after,
                "path": known["path"], "points": known.get("points"), "extra": dict(known.get("extra", {}))}
    except (OSError, ValueError, TypeError, KeyError):
        return {}  # there is none outside of work/


STATES = {
    "passed": ("✓", "passed", cards.RIGHT), "borrowed": ("◐", "borrowed", cards.TOLD),
    "unwritten": ("–", "not written yet", cards.OPEN), "tried": ("✗", "not right yet", cards.WRONG),
    "open": ("○", "not tried yet", cards.OPEN),
}  # fmt: skip
"""By the state of an exercise: its mark, its words, and its colour."""


if short_errors.install():
    sys.modules["IPython"].get_ipython().events.register("post_run_cell", heed_guesses)
