"""Who is at which exercise, during a workshop: make watch SUBMISSIONS=dir writes a page that renews itself.

No code is run, no server is needed, and no name is shown unless asked for: the notebooks in the folder are read, with
what their own checks printed. That can be forged, as it can in a notebook; nothing is graded here.

Why not a watcher of the file system? Folders that several machines fill (NFS, synced drives) tell of no changes, and a
look at the times of a hundred files takes a millisecond.
"""

from __future__ import annotations

import argparse
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from exercises_tests.grading.gradebook import write_whole
from exercises_tests.grading.sheet import INK, STATES, chapter, keys, page, several, stack, text
from exercises_tests.grading.submissions import submissions
from exercises_tests.tools import untrusted
from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, answers_of, chapters, parse, tagged
from exercises_tests.tools.parsing import Parser

EVERY, RENEW = 2.0, 5  # seconds from look to look, and until a browser reads the page again
LONG, LEAST = 2, 10  # times its estimated minutes, and minutes, after which somebody has been at an exercise for long
MOST_NAMED = 8  # of those who have been somewhere for long
MOST_SAID = 20_000  # characters of a check's output that are looked at
UNJUDGED = re.compile(r"^✗ \w+ +(not written yet|needs \w)", re.MULTILINE)
BORROWS = re.compile(r"^[ \t]*\w+\s*=\s*borrow\(", re.MULTILINE)
STYLE = f"""body{{max-width:84rem}}h1 small{{font-weight:400;font-size:1rem;color:var(--soft)}}
ul.long{{columns:24rem;margin:.2rem 0;padding-left:1.2rem}}.grid{{width:auto;border-collapse:separate;
border-spacing:3px}}.grid td.c.open{{color:var(--soft)}}
.grid td,.grid th{{padding:0}}.grid .what{{padding-right:.8rem;white-space:nowrap}}.grid .how{{min-width:9rem;
padding-right:.6rem;vertical-align:middle}}.grid th.who{{text-align:center;font-size:.75rem;color:var(--soft);
vertical-align:bottom}}.grid th.who span{{writing-mode:vertical-rl;transform:rotate(180deg);max-height:9rem;
overflow:hidden;white-space:nowrap}}.grid td.c{{width:1.2rem;min-width:1.2rem;height:1.3rem;text-align:center;
font-size:.8rem;line-height:1;color:{INK};vertical-align:middle}}.grid td.at{{outline:2px solid var(--ink)}}
.grid td.at.long{{outline:3px solid var(--wrong)}}@page{{size:landscape}}@media print{{.grid{{border-spacing:2px}}
.grid td.c{{width:.95rem;min-width:.95rem;font-size:7pt}}.grid th.who{{font-size:6pt}}.grid .how{{min-width:5rem}}}}
{"".join(f".c.{state}{{background:{colour}}}" for state, (_, colour, _) in STATES.items())}"""


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
class Watch:
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


# The page


def live_page(watch: Watch, now: float, names: bool = False, over: bool = False) -> str:
    """Return the page at a time, in seconds since 1970; `over`: nobody looks any more, so it does not renew itself."""
    latest = {copy.chapter: copy.changed for copy in sorted(watch.copies.values(), key=lambda copy: copy.changed)}
    last = max(latest.values(), default=None)
    told = "nothing has been handed in yet" if last is None else f"last change {datetime.fromtimestamp(last):%H:%M}"
    body = [f"<h1>Who is where <small>{several(len(watch.numbers), 'learner')} · {told}"
            f"{' · no longer watched' if over else ''}</small></h1>"]  # fmt: skip
    body += _for_long(watch, now, names)
    used = {state for copy in watch.copies.values() for state in copy.states.values()}
    body.append(keys(used) if used else "")
    for name in sorted(latest, key=lambda name: -latest[name]):
        body += _grid(watch, name, now, names)
    if watch.numbers:
        body.append('<p class="soft">A frame: somebody is there; a thick red one: for long. '
                    "As the notebooks' own checks say; nothing is graded here.</p>")  # fmt: skip
    return page("Who is where", body, STYLE, 0 if over else RENEW)


def _who(watch: Watch, learner: str, names: bool) -> str:
    return text(untrusted.plain(learner, 24)) if names else str(watch.numbers[learner])


def minutes_at(watch: Watch, copy: Copy, now: float) -> int:
    """Return for how many minutes a learner has been at the same exercise, if that is long; else 0."""
    estimated = watch.minutes[copy.chapter]
    spent = int((now - copy.since) / 60)
    return spent if copy.at and spent >= max(LEAST, LONG * estimated[copy.at]) else 0


def _newest(watch: Watch) -> dict[str, Copy]:
    """Return of each learner the copy that changed last: the chapter that they are in."""
    return {learner: copy for (learner, _), copy in sorted(watch.copies.items(), key=lambda item: item[1].changed)}


def _for_long(watch: Watch, now: float, names: bool) -> list[str]:
    long = [(minutes_at(watch, copy, now), learner, copy) for learner, copy in _newest(watch).items()]
    long = sorted((one for one in long if one[0]), key=lambda one: (-one[0], watch.numbers[one[1]]))
    if not long:
        return []
    rows = "".join(f"<li><strong>{_who(watch, learner, names)}</strong> <code>{text(copy.at, 60)}</code>, "
                   f"{minutes:,} minutes, {STATES[copy.states[copy.at]][2].partition(',')[0]}</li>"
                   for minutes, learner, copy in long[:MOST_NAMED])  # fmt: skip
    more = f"<p class='soft'>and {len(long) - MOST_NAMED} more</p>" if len(long) > MOST_NAMED else ""
    verb = "has" if len(long) == 1 else "have"
    head = f"<h3>{several(len(long), 'learner')} {verb} been at one exercise for long</h3>"
    return [f'<section class="card wrong">{head}<ul class="long">{rows}</ul>{more}</section>']


def _grid(watch: Watch, name: str, now: float, names: bool) -> list[str]:
    own = {learner: copy for (learner, of), copy in watch.copies.items() if of == name}
    order = sorted(own, key=watch.numbers.__getitem__)
    newest = _newest(watch)
    heads = "".join(f'<th class="who"><span>{_who(watch, one, names)}</span></th>' if names else
                    f'<th class="who">{_who(watch, one, names)}</th>' for one in order)  # fmt: skip
    rows = []
    for exercise in watch.minutes[name]:
        counts = {state: sum(copy.states[exercise] == state for copy in own.values()) for state in STATES}
        cells = "".join(_cell(watch, own[one], exercise, now, newest[one] is own[one]) for one in order)
        rows.append(f'<tr><td class="what"><code>{text(exercise, 60)}</code></td>'
                    f'<td class="how">{stack(counts)}</td>{cells}</tr>')  # fmt: skip
    table = f'<table class="grid"><tr><th></th><th></th>{heads}</tr>{"".join(rows)}</table>'
    return [f'<h2>{text(chapter(name))}</h2><div class="scroll">{table}</div>']


def _cell(watch: Watch, copy: Copy, exercise: str, now: float, here: bool) -> str:
    state = copy.states[exercise]
    at = here and copy.at == exercise
    look = " at" * at + " long" * (at and minutes_at(watch, copy, now) > 0)
    return f'<td class="c {state}{look}">{STATES[state][0]}</td>'


# The command


def run(
    folder: Path, path: Path, names: bool = False, every: float = EVERY, root: Path = ROOT,
    wait: Callable[[float], Any] | None = None, clock: Callable[[], float] = time.time,
) -> Watch:  # fmt: skip
    """Write the page whenever it has changed, until Ctrl-C; return what was seen. `wait` sleeps so many seconds."""
    if not folder.is_dir():
        raise ChapterError(f"{folder} is not a folder; give one in which each learner has a folder for notebooks.")
    watch, shown = Watch(folder, {one.name: one for one in chapters(root)}), ""
    wait = wait or threading.Event().wait
    try:
        while True:
            watch.look()
            if (now := live_page(watch, clock(), names)) != shown:
                write_whole(path, shown := now)
            wait(every)
    except KeyboardInterrupt:
        write_whole(path, live_page(watch, clock(), names, over=True))
    return watch


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run `watch DIR`; return the exit code, 0 after Ctrl-C, which is how it ends."""
    top = Parser(prog="python -m exercises_tests")
    parser = top.add_subparsers(dest="command", required=True).add_parser("watch", help="show who is at which exercise")
    parser.add_argument("folder", help="DIR/<learner>/*.ipynb, a folder that fills during the workshop")
    parser.add_argument("--out", type=Path, default=Path("grades"), help="where live.html goes (default: grades)")
    parser.add_argument("--names", action="store_true", help="show the names of the folders: only if all agreed")
    parser.add_argument("--every", type=float, default=EVERY, help=f"seconds from look to look (default: {EVERY:g})")
    options: argparse.Namespace = top.parse_args(argv)
    if not options.folder:  # make watch without SUBMISSIONS=
        raise ChapterError("Name the folder that fills: make watch SUBMISSIONS=dir")
    if not 0.1 <= options.every <= 3600:
        raise ChapterError(f"--every {options.every:g}: give the seconds from look to look, from 0.1 to 3600.")
    path = options.out / "live.html"
    print(f"Open {path} in a browser: it shows {options.folder} and renews itself. Ctrl-C ends it.", flush=True)
    watch = run(Path(options.folder), path, options.names, options.every, root)
    print(f"\nWatched {several(len(watch.numbers), 'learner')}; {path} stays as it is now.")
    return 0
