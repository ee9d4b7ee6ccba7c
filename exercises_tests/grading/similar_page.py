"""The page of answers that are alike, texts side by side: grades/similar.html, for the instructor only.

    python -m exercises_tests.grading.similar_page grades .

Learners' texts are parsed for it, which no limit of ours makes safe for the process that parses: one of hostile depth
can end Python itself. So grading starts a process for this page, when the grade book is written, and waits for a while.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from exercises_tests.grading.gradebook import read_json, write_whole
from exercises_tests.grading.similar import BROKEN, MOST_TEXT, SHORT, Match, Similarity, answers_in, of_class
from exercises_tests.tools.chapters import ROOT
from exercises_tests.tools.untrusted import plain

NAME = "similar.html"
SECONDS = 120.0  # that comparing a class may take
MOST_SHOWN = 30  # pairs whose texts are on the page
STYLE = """:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem}
table{border-collapse:collapse}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
.two{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.8rem;margin:.2rem 0}
mark{background:#ffd54a66;color:inherit;display:block;print-color-adjust:exact}
small{opacity:.75}section{break-inside:avoid}"""
ABOUT = """A list to look at, not a verdict. Two answers are here because they are more alike than those of other pairs
of this class, after names, layout, comments and everything that the course has given out are taken away. Bits say how
much more: one bit for each halving of the pairs that are as alike, added up over exercises. Open those at the top that
stand far above the rest; there is always a first pair, also in a class that copied nothing. People who worked together,
or who asked the same person or the same program, are alike, too; two who copied from the course's solution are not
found here, but in the last list. Who rewrote a copy, statement by statement, is not found at all."""


COLUMN = "exercises, and how much of what is rare in the shorter answer is in both"


def write(path: Path, found: Similarity, answers: Mapping[str, Mapping[str, str]]) -> None:
    """Write the page: the list of pairs, then the texts of the first of them side by side. For the instructor only."""
    body = [f"<h1>Alike</h1><p>{ABOUT}</p>"]
    if found.pairs:
        body.append(f"<table><tr><th>learners<th>bits<th>{COLUMN}")
    for place, pair in enumerate(found.pairs):
        names, alike = f"{_name(pair.first)}, {_name(pair.second)}", ", ".join(map(_told, pair.matches))
        linked = f"<a href=#p{place}>{names}</a>" if place < MOST_SHOWN else names
        body.append(f"<tr><td>{linked}<td>{pair.bits:.1f}<td>{alike}")
    body.append("</table>" if found.pairs else "<p>No two answers are alike beyond what all of them share.</p>")
    for place, pair in enumerate(found.pairs[:MOST_SHOWN]):
        body.append(f"<h2 id=p{place}>{_name(pair.first)}, {_name(pair.second)}</h2>")
        for one in pair.matches:
            sides = [_side(name, answers.get(name, {}).get(one.exercise, ""), lines)
                     for name, lines in zip((pair.first, pair.second), one.lines, strict=True)]  # fmt: skip
            body.append(f"<section><h3>{_name(one.exercise)}</h3><div class=two>{''.join(sides)}</div></section>")
    body.append("<h2>Of which nothing can be said</h2><ul>")
    for exercise, learners in found.unsaid.items():
        for why in (SHORT, BROKEN):
            names = ", ".join(_name(learner) for learner, reason in learners.items() if reason == why)
            body += [f"<li>{_name(exercise)}, {why}: {names}"] if names else []
    body.append("</ul><h2>As in the course's own solution</h2><p>Its hints lead there, so many are; who graded with a "
                "private variant of the course looks here first.</p><ul>")
    for exercise, shares in found.as_course.items():
        told = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        body.append(f"<li>{_name(exercise)}: {', '.join(f'{_name(name)} {share:.0%}' for name, share in told)}")
    page = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    whole = f"{page}<title>Alike</title><style>{STYLE}</style>{''.join(body)}</ul></html>\n"
    write_whole(path, whole + _mark(answers))


def renew(out: Path, records: list[dict], root: Path = ROOT) -> str:
    """Write the page of a grade book anew if its answers have changed; return a sentence if that failed."""
    answers = answers_in(records)
    if len(answers) < 2 or _marked(out / NAME, answers):
        return ""
    command = [sys.executable, "-m", "exercises_tests.grading.similar_page", str(out), str(root)]
    try:
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=SECONDS, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL)  # fmt: skip
        why = f"its process ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"it took more than {SECONDS:g} s"
    return f"{NAME} was not written: {why}." if why else ""


def _mark(answers: Mapping[str, Mapping[str, str]]) -> str:
    """Return a last line that tells the page of these answers, written by this code, from another one."""
    code = [path.read_text(encoding="utf-8") for path in (Path(__file__), Path(__file__).with_name("similar.py"))]
    told = json.dumps([code, answers], sort_keys=True)
    return f"<!-- of {hashlib.sha256(told.encode('utf-8', 'replace')).hexdigest()} -->\n"


def _marked(path: Path, answers: Mapping[str, Mapping[str, str]]) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").endswith(_mark(answers))
    except OSError:
        return False  # it is not there yet


def _name(text: str) -> str:
    return html.escape(plain(text, 60))


def _told(match: Match) -> str:
    return f"{_name(match.exercise)} {match.share:.0%}"


def _side(name: str, text: str, lines: frozenset[int]) -> str:
    """Return a learner's text as data, with the lines marked that are in both."""
    shown = [html.escape(plain(line, 300, kept="\t")) for line in text[:MOST_TEXT].split("\n")]
    marked = [f"<mark>{line or ' '}</mark>" if number in lines else f"{line}\n" for number, line in enumerate(shown, 1)]
    return f"<div><small>{_name(name)}</small><pre>{''.join(marked)}</pre></div>"


if __name__ == "__main__":
    folder, root = map(Path, sys.argv[1:])
    submissions = read_json(folder / "grades.json")["submissions"]
    write(folder / NAME, of_class(submissions, root), answers_in(submissions))
