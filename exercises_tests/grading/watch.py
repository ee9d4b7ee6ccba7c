"""Who is at which exercise, during a workshop: make watch SUBMISSIONS=dir writes a page that renews itself.

No server is needed, and no name is shown unless asked for. Nothing is graded here.

Why not a watcher of the file system? Folders that several machines fill (NFS, synced drives) tell of no changes, and a
look at the times of a hundred files takes a millisecond.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from exercises_tests.grading.gradebook import write_whole
from exercises_tests.grading.sheet import INK, STATES, chapter, keys, page, several, stack, text
from exercises_tests.grading.workshop import Copy, Workshop
from exercises_tests.tools import untrusted
from exercises_tests.tools.chapters import ROOT, ChapterError, chapters
from exercises_tests.tools.parsing import Parser

EVERY, RENEW = 2.0, 5  # seconds from look to look, and until a browser reads the page again
MOST_NAMED = 8  # of those who have been somewhere for long
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


def live_page(seen: Workshop, now: float, names: bool = False, over: bool = False) -> str:
    """Return the page at a time, in seconds since 1970; `over`: nobody looks any more, so it does not renew itself."""
    latest = {copy.chapter: copy.changed for copy in sorted(seen.copies.values(), key=lambda copy: copy.changed)}
    last = max(0.0, min(now, max(latest.values(), default=now)))  # a file may say that it is of any year
    told = f"last change {datetime.fromtimestamp(last):%H:%M}" if latest else "nothing has been handed in yet"
    body = [f"<h1>Who is where <small>{several(len(seen.numbers), 'learner')} · {told}"
            f"{' · no longer watched' if over else ''}</small></h1>"]  # fmt: skip
    body += _for_long(seen, now, names)
    used = {state for copy in seen.copies.values() for state in copy.states.values()}
    body.append(keys(used) if used else "")
    for name in sorted(latest, key=lambda name: -latest[name]):
        body += _grid(seen, name, now, names)
    if seen.numbers:
        body.append('<p class="soft">A frame: somebody is there; a thick red one: for long. '
                    "As the notebooks' own checks say; nothing is graded here.</p>")  # fmt: skip
    return page("Who is where", body, STYLE, 0 if over else RENEW)


def _who(seen: Workshop, learner: str, names: bool) -> str:
    return text(untrusted.plain(learner, 24)) if names else str(seen.numbers[learner])


def _for_long(seen: Workshop, now: float, names: bool) -> list[str]:
    long = [(seen.minutes_at(copy, now), learner, copy) for learner, copy in seen.newest().items()]
    long = sorted((one for one in long if one[0]), key=lambda one: (-one[0], seen.numbers[one[1]]))
    if not long:
        return []
    rows = "".join(f"<li><strong>{_who(seen, learner, names)}</strong> <code>{text(copy.at, 60)}</code>, "
                   f"{minutes:,} minutes, {STATES[copy.states[copy.at]][2].partition(',')[0]}</li>"
                   for minutes, learner, copy in long[:MOST_NAMED])  # fmt: skip
    more = f"<p class='soft'>and {len(long) - MOST_NAMED} more</p>" if len(long) > MOST_NAMED else ""
    verb = "has" if len(long) == 1 else "have"
    head = f"<h3>{several(len(long), 'learner')} {verb} been at one exercise for long</h3>"
    return [f'<section class="card wrong">{head}<ul class="long">{rows}</ul>{more}</section>']


def _grid(seen: Workshop, name: str, now: float, names: bool) -> list[str]:
    own = {learner: copy for (learner, of), copy in seen.copies.items() if of == name}
    order = sorted(own, key=seen.numbers.__getitem__)
    newest = seen.newest()
    heads = "".join(f'<th class="who"><span>{_who(seen, one, names)}</span></th>' if names else
                    f'<th class="who">{_who(seen, one, names)}</th>' for one in order)  # fmt: skip
    rows = []
    for exercise in seen.minutes[name]:
        counts = {state: sum(copy.states[exercise] == state for copy in own.values()) for state in STATES}
        cells = "".join(_cell(seen, own[one], exercise, now, newest[one] is own[one]) for one in order)
        rows.append(f'<tr><td class="what"><code>{text(exercise, 60)}</code></td>'
                    f'<td class="how">{stack(counts)}</td>{cells}</tr>')  # fmt: skip
    table = f'<table class="grid"><tr><th></th><th></th>{heads}</tr>{"".join(rows)}</table>'
    return [f'<h2>{text(chapter(name))}</h2><div class="scroll">{table}</div>']


def _cell(seen: Workshop, copy: Copy, exercise: str, now: float, here: bool) -> str:
    state = copy.states[exercise]
    at = here and copy.at == exercise
    look = " at" * at + " long" * (at and seen.minutes_at(copy, now) > 0)
    return f'<td class="c {state}{look}">{STATES[state][0]}</td>'


# The command


def run(
    folder: Path, path: Path, names: bool = False, every: float = EVERY, root: Path = ROOT,
    wait: Callable[[float], Any] | None = None, clock: Callable[[], float] = time.time,
) -> Workshop:  # fmt: skip
    """Write the page whenever it has changed, until Ctrl-C; return what was seen. `wait` sleeps so many seconds."""
    if not folder.is_dir():
        raise ChapterError(f"{folder} is not a folder; give one in which each learner has a folder for notebooks.")
    seen, shown = Workshop(folder, {one.name: one for one in chapters(root)}), ""
    wait = wait or threading.Event().wait
    try:
        while True:
            seen.look()
            if (now := live_page(seen, clock(), names)) != shown:
                write_whole(path, shown := now)
            wait(every)
    except KeyboardInterrupt:
        write_whole(path, live_page(seen, clock(), names, over=True))
    return seen


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
    seen = run(Path(options.folder), path, options.names, options.every, root)
    print(f"\nWatched {several(len(seen.numbers), 'learner')}; {path} stays as it is now.")
    return 0
