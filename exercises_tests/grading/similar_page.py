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
from collections.abc import Iterator, Mapping
from pathlib import Path

from exercises_tests.grading.gradebook import read_json, write_whole
from exercises_tests.grading.sheet import page
from exercises_tests.grading.similar import BROKEN, MOST_TEXT, SHORT, Similarity, answers_in, of_class
from exercises_tests.tools.chapters import ROOT
from exercises_tests.tools.untrusted import plain

NAME = "similar.html"
SECONDS = 120.0  # that comparing a class may take
MOST_SHOWN = 30  # pairs whose texts are on the page
STYLE = """body{max-width:76rem}.lead{max-width:56rem}.told ul{margin:.3rem 0;padding-left:1.2rem}
.two{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 1rem}h3{margin-top:.8rem}
.two .code{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.8rem}mark{background:#ffd54a66;color:inherit}
.two .code>*{display:block;padding-left:4ch;text-indent:-4ch}
td{vertical-align:top}td.n{padding-right:1.5rem}.part{line-height:1.4}td.who{white-space:nowrap;width:1%}a{color:var(--told)}
h2,h3,.two,td{overflow-wrap:anywhere}@media (max-width:48rem){.two{grid-template-columns:minmax(0,1fr)}
thead{display:none}tr{display:block;margin:.6rem 0}td,td.who,td.n{display:inline;white-space:normal}
.part{white-space:normal}td.n::after{content:" bits"}td:last-child{display:block}}
@media print{.two{break-inside:avoid}}"""
ABOUT = """<section class="card told lead"><h3>A list to look at, not a verdict</h3><ul>
<li>Two learners are listed where their answers are more alike than those of other pairs of this class. Names, layout,
comments and everything that the course gives out are taken away before.</li>
<li><strong>Bits</strong> say how much more: one bit for each halving of the pairs that are as alike, added up over the
exercises. A per cent says how much of what is rare in the shorter answer is in both.</li>
<li>Open those at the top that stand far above the rest. There is always a first pair, also in a class that copied
nothing.</li>
<li>People who worked together are alike, too, and so are two who asked the same person or the same program.</li>
<li>Whoever copied from the course's solution is in the last list only. A copy that was rewritten, statement by
statement, is not found.</li></ul></section>"""


def write(path: Path, found: Similarity, answers: Mapping[str, Mapping[str, str]]) -> None:
    """Write the page: the list of pairs, then the texts of the first of them side by side. For the instructor only."""
    body = ["<h1>Answers that are alike</h1>", ABOUT, *_list(found)]
    for place, pair in enumerate(found.pairs[:MOST_SHOWN]):
        body.append(f'<h2 id="p{place}">{_name(pair.first)}, {_name(pair.second)}</h2>')
        for one in pair.matches:
            sides = [_side(name, answers.get(name, {}).get(one.exercise, ""), lines)
                     for name, lines in zip((pair.first, pair.second), one.lines, strict=True)]  # fmt: skip
            body.append(f'<section><h3><code>{_name(one.exercise)}</code></h3><div class="two">{"".join(sides)}</div>'
                        "</section>")  # fmt: skip
    body.append("<h2>Nothing can be said of these</h2><ul>")
    for exercise, learners in found.unsaid.items():
        for why in (SHORT, BROKEN):
            names = ", ".join(_name(learner) for learner, reason in learners.items() if reason == why)
            body += [f"<li><code>{_name(exercise)}</code>, {why}: {names}</li>"] if names else []
    body.append("</ul><h2>As in the course's own solution</h2><p>The course's hints lead there, so many are. With a "
                "private variant of the course, look here first.</p><ul>")
    for exercise, shares in found.as_course.items():
        told = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        names = ", ".join(f"{_name(name)} {share:.0%}" for name, share in told)
        body.append(f"<li><code>{_name(exercise)}</code>: {names}</li>")
    write_whole(path, page("Answers that are alike", [*body, "</ul>"], STYLE) + _mark(answers))


def _list(found: Similarity) -> Iterator[str]:
    if not found.pairs:
        yield "<p>No two answers are alike beyond what all of them share.</p>"
        return
    yield "<table><thead><tr><th>learners</th><th>bits</th><th>exercises</th></tr></thead><tbody>"
    for place, pair in enumerate(found.pairs):
        names = f"{_name(pair.first)}, {_name(pair.second)}"
        linked = f'<a href="#p{place}">{names}</a>' if place < MOST_SHOWN else names
        alike = " ".join(f'<span class="part">{_name(one.exercise)} {one.share:.0%}</span>' for one in pair.matches)
        yield f'<tr><td class="who">{linked}</td><td class="n">{pair.bits:.1f}</td><td>{alike}</td></tr>'
    yield "</tbody></table>"


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
    files = (Path(__file__).with_name(name) for name in ("similar_page.py", "similar.py", "sheet.py"))
    code = [file.read_text(encoding="utf-8") for file in files]
    told = json.dumps([code, answers], sort_keys=True)
    return f"<!-- of {hashlib.sha256(told.encode('utf-8', 'replace')).hexdigest()} -->\n"


def _marked(path: Path, answers: Mapping[str, Mapping[str, str]]) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").endswith(_mark(answers))
    except OSError:
        return False  # it is not there yet


def _name(text: str) -> str:
    return html.escape(plain(text, 60))


def _side(name: str, text: str, lines: frozenset[int]) -> str:
    """Return a learner's text as data, with the lines marked that are in both."""
    shown = [html.escape(plain(line, 300, kept="\t")) for line in text[:MOST_TEXT].split("\n")]
    tags = ("mark" if number in lines else "span" for number in range(1, len(shown) + 1))
    marked = [f"<{tag}>{line or ' '}</{tag}>" for tag, line in zip(tags, shown, strict=True)]
    return f'<div><span class="soft">{_name(name)}</span><pre class="code">{"".join(marked)}</pre></div>'


if __name__ == "__main__":
    folder, root = map(Path, sys.argv[1:])
    submissions = read_json(folder / "grades.json")["submissions"]
    write(folder / NAME, of_class(submissions, root), answers_in(submissions))
