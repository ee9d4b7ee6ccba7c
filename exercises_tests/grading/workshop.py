"""What the notebooks of a workshop say of themselves while they are written: who is at which exercise, and since when.

No code is run: an exercise stands where its own cells say, the check's saved outputs among them. That can be forged, as
it can in a notebook. What cannot be read, because it is half written, is read the next time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from exercises_tests.grading.submissions import submissions
from exercises_tests.tools import untrusted
from exercises_tests.tools.chapters import Chapter, ChapterError, answers_of, parse, tagged

LONG, LEAST = 2, 10  # times its estimated minutes, and minutes, after which somebody has been at an exercise for long
MOST_SAID = 20_000  # characters of a check's output that are looked at
UNJUDGED = re.compile(r"^✗ \w+ +(Not written yet|Needs \w)", re.MULTILINE)
BORROWS = re.compile(r"^[ \t]*\w+\s*=\s*borrow\(", re.MULTILINE)


@dataclass
class Copy:
    """A learner's notebook as it was last seen."""

    chapter: str
    states: dict[str, str]
    """Of each exercise, a word of sheet.STATES."""
    changed: float
    since: float
    """Since when, in seconds, the learner has been at the same exercise."""

    @property
    def at(self) -> str:
        """The exercise that the learner is at: the last that is not right yet, else the next; "" once all are done."""
        begun = [name for name, state in self.states.items() if state in ("wrong", "written")]
        return begun[-1] if begun else next((name for name, state in self.states.items() if state == "open"), "")

    @property
    def done(self) -> int:
        return sum(state in ("passed", "borrowed") for state in self.states.values())


@dataclass
class Workshop:
    """What is known of a folder that fills."""

    folder: Path
    known: dict[str, Chapter]
    copies: dict[tuple[str, str], Copy] = field(default_factory=dict)
    """By learner and chapter."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Of each learner, as they came: the names on the page."""
    minutes: dict[str, dict[str, int]] = field(init=False)
    """That each exercise is estimated to take, by chapter."""
    _stamps: dict[Path, tuple] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.minutes = {one.name: {each.id: each.minutes for each in one.exercises} for one in self.known.values()}

    def look(self) -> None:
        """Read what has changed since the last look; what cannot be read, half-written perhaps, is as it was before."""
        try:
            found = submissions(self.folder)
        except (ChapterError, OSError):
            return  # nobody has anything yet, or no more
        for learner, paths in found:
            for path in paths:
                try:
                    facts = path.stat()
                except OSError:
                    continue
                stamp = facts.st_mtime_ns, facts.st_size
                if path.is_dir() or self._stamps.get(path) == stamp:
                    continue
                self._stamps[path] = stamp  # taken before it is read: what is written meanwhile is read the next time
                self._read(learner, path, facts.st_mtime)

    def _read(self, learner: str, path: Path, changed: float) -> None:
        try:
            notebook = parse(path, untrusted.read(path))
        except (ChapterError, ValueError, OSError):
            return
        course = notebook.metadata.get("course")
        name = course.get("chapter") if isinstance(course, dict) else None
        if not isinstance(name, str) or name not in self.known:
            return
        before = self.copies.get((learner, name))
        if before is not None and before.changed > changed:
            return  # an older copy of the same chapter
        copy = Copy(name, states_of(notebook, self.known[name]), changed, changed)
        if before is not None and (before.at, before.done) == (copy.at, copy.done):
            copy.since = before.since
        self.copies[learner, name] = copy
        self.numbers.setdefault(learner, len(self.numbers) + 1)

    def minutes_at(self, copy: Copy, now: float) -> int:
        """Return for how many minutes a learner has been at the same exercise, if that is long; else 0."""
        spent = int((now - copy.since) / 60)
        return spent if copy.at and spent >= max(LEAST, LONG * self.minutes[copy.chapter][copy.at]) else 0

    def newest(self) -> dict[str, Copy]:
        """Return of each learner the copy that changed last: the chapter that they are in."""
        return {learner: copy for (learner, _), copy in sorted(self.copies.items(), key=lambda item: item[1].changed)}


def states_of(notebook: NotebookNode, pristine: Chapter) -> dict[str, str]:
    """Return where each exercise of a learner's notebook stands, as its own cells say: a word of sheet.STATES."""
    names = [cell["id"] for cell in tagged(pristine.notebook, "exercise")]
    written, stubs = answers_of(notebook, names), answers_of(pristine.notebook, names)
    checks = {cell.get("id"): cell for cell in notebook.cells if cell.cell_type == "code"}
    return {
        name: _state(name, written.get(name, ""), stubs.get(name, ""), checks.get(f"check_{name}")) for name in names
    }


def _state(name: str, source: str, stub: str, check: NotebookNode | None) -> str:
    if not source.strip() or source.strip() == stub.strip():
        return "open"
    if BORROWS.search(source):
        return "borrowed"
    said = said_by(check) if check else ""
    if f"✓ {name} " in said:
        return "passed"
    return "wrong" if f"✗ {name} " in said and not UNJUDGED.search(said) else "written"


def said_by(cell: NotebookNode) -> str:
    """Return what a cell's saved outputs say, as text; whatever else they hold is passed over."""
    outputs, found = cell.get("outputs"), []
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            data = output["data"] if isinstance(output.get("data"), dict) else {}
            for piece in (output.get("text"), output.get("evalue"), data.get("text/plain")):
                lines = piece if isinstance(piece, list) else [piece]
                found += [line for line in lines[:1000] if isinstance(line, str)]
    return "".join(found)[:MOST_SAID]
