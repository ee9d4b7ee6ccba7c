"""A learner's feedback: one page, fit to be mailed, with their own code, what is right in it, and what their ranks did.

Code is coloured by pygments, token by token: it parses nothing and runs nothing. Its expressions
take a time that grows with the square of some lines, so what no person would write is shown as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pygments
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer

from exercises_tests.grading import lanes, sheet
from exercises_tests.grading.gradebook import write_whole
from exercises_tests.grading.sheet import chapter, moment, number, page, several, text
from exercises_tests.tools.untrusted import plain

MOST_COLOURED, LONGEST_LINE = 8000, 400  # characters of a cell, and of one of its lines, that are coloured
MOST_CODE = 20_000  # characters of a cell
LOOKS = {"✓": "right", "✗": "wrong", "–": ""}
OPEN = {"missing", "not-written", "borrowed"}  # codes of what was not answered; its text says nothing
DIGEST = "<!-- of "
_LEXER = PythonLexer(stripnl=False, ensurenl=False)


def write_page(path: Path, learner: str, records: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write a learner's page, unless it is there already, made of the same records.

    `records` are the learner's own of grades.json; `about` is the rest of it, whose "attempts" are those of everybody.
    """
    earlier = [one for one in about.get("attempts", []) if one.get("learner") == learner]
    made_of = json.dumps([_look(), learner, records, earlier, about["graded with"]], sort_keys=True)
    mark = f"{DIGEST}{hashlib.sha256(made_of.encode('utf-8', 'replace')).hexdigest()} -->\n"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            if file.readline() == mark:
                return
    except OSError:
        pass  # it is not there yet
    write_whole(path, mark + feedback(learner, records, earlier, about["graded with"]))


def feedback(learner: str, records: list[dict], earlier: list[dict], graded_with: str) -> str:
    """Return the page; `earlier` are all attempts of the learner, the oldest first."""
    body = [f'<h1>{text(plain(learner, 100))}</h1><p class="soft">What the checks found in what you handed in.</p>']
    for place, record in enumerate(records):
        body += _chapter(place, record, [one for one in earlier if one.get("chapter") == record["chapter"]])
    body.append(f"<footer><p>{text(graded_with)}</p></footer>")
    return page(f"Feedback for {plain(learner, 100)}", body, code_style())


def _chapter(place: int, record: dict[str, Any], attempts: list[dict]) -> Iterator[str]:
    yield f"<h2>{text(chapter(record['chapter']) if record['chapter'] else plain(record['file'], 100))}</h2>"
    yield f'<p class="score">{"; ".join(_score(record))}</p>'
    if record["remark"]:
        yield f"<p>{text(record['remark'])}</p>"
    if record.get("handed_in"):
        yield f'<p class="soft">Handed in on {text(moment(record["handed_in"]), 60)}.</p>'
    if len(attempts) > 1:
        yield _attempts(attempts, record)
    cells = record.get("cells") or {}
    for which, result in enumerate(record["results"]):
        yield exercise(result, cells.get(result["exercise"], ""), f"p{place}-{which}")


def _score(record: dict[str, Any]) -> Iterator[str]:
    """Yield what a chapter earned: by the checks, and where it differs by the policy."""
    yield f"{number(record['earned'])} of {number(record['points'])} points"
    counted, possible, late = (record.get(name) for name in ("counted", "possible", "late_hours"))
    if counted is not None and (counted, possible) != (record["earned"], record["points"]):
        yield f"counted as {number(float(counted))} of {number(float(possible or 0))}"
    if late:
        yield f"handed in {_hours(late)} late"
    if record.get("attempts", 1) > 1:
        yield f"attempt {record.get('attempt', '?')} of {record['attempts']} counts"


def _hours(hours: float) -> str:
    if hours < 1:
        return several(max(1, round(60 * hours)), "minute")
    return several(round(hours), "hour") if hours < 48 else several(round(hours / 24), "day")


def _attempts(attempts: list[dict], counts: dict) -> str:
    rows = []
    for one in attempts:
        here = " · this one counts" if one.get("attempt") == counts.get("attempt") else ""
        score = f"{number(one['earned'])} of {number(one['points'])}"
        when = text(moment(one.get("handed_in", "")), 60)
        rows.append(f'<tr><td class="n">{text(one.get("attempt", ""), 9)}</td><td class="n">{score}</td>'
                    f"<td>{when}{here}</td></tr>")  # fmt: skip
    head = "<thead><tr><th>attempt</th><th>points</th><th>handed in</th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def exercise(result: dict[str, Any], code: str, name: str) -> str:
    """Return one exercise: points, parts, the sentence, a comment by hand, the picture, and the learner's own code."""
    graded = result["graded"]
    sign = "–" if not graded or result["code"] in OPEN else "✗" if result["code"] else "✓"
    score = f"{number(result['earned'])} of {number(result['points'])} points" if graded else "not graded"
    by_hand = result.get("by_hand") or {}
    if by_hand.get("points") is not None:  # there may be a comment only
        score = f"{number(by_hand['points'])} of {number(result['points'])} points, by hand; the check: {score}"
    if result.get("counts") is False:
        score += ", which do not count"
    first, _, rest = result["sentence"].partition("\n")
    pieces = [
        f'<h3><span class="sign">{sign}</span> {text(result["exercise"], 60)} · {score}</h3>',
        _parts(result),
        f"<p>{text(first)}</p>" if first else "",
        f"<pre>{text(rest)}</pre>" if rest else "",
        f"<p>See it: <code>{text(result['see'])}</code></p>" if result["see"] else "",
    ]
    if by_hand.get("comment"):
        said = text(by_hand["comment"], 4000).replace("\n", "<br>")
        pieces.append(f'<div class="card told"><p><strong>Your instructor:</strong> {said}</p></div>')
    if result.get("events"):
        pieces.append(lanes.figure(result["events"], name))
    if code.strip() and result["code"] not in OPEN:
        pieces.append(f'<pre class="code">{coloured(code)}</pre>')
    return f'<section class="card long {LOOKS[sign]}">{"".join(pieces)}</section>'


def _parts(result: dict[str, Any]) -> str:
    """Return the parts as marks, read from their line, which knows also those that were not tried."""
    found = re.findall(r"(\S.*?) ([✓✗–])(?= |$)", result["marks"])
    marks = "".join(f'<span class="part {LOOKS[sign]}"><b>{sign}</b> {text(part, 60)}</span>' for part, sign in found)
    return f"<p>{marks}</p>" if marks else ""


def coloured(code: str) -> str:
    """Return code as markup: coloured, or, where that might take long, as it is."""
    code = plain(code, MOST_CODE, "\n\t").rstrip()
    if len(code) > MOST_COLOURED or max(map(len, code.splitlines()), default=0) > LONGEST_LINE:
        return text(code, MOST_CODE)
    return pygments.highlight(code, _LEXER, HtmlFormatter(nowrap=True))


@cache
def _look() -> str:
    """Return what changes when pages would look different: the files that make them."""
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in (__file__, lanes.__file__, sheet.__file__))
                          ).hexdigest()


@cache
def code_style() -> str:
    """Return the colours of code: on paper and on a light page, and on a dark one; all can be told from the ground."""
    media = {"print,(prefers-color-scheme:light)": "default", "screen and (prefers-color-scheme:dark)": "native"}
    found = []
    for where, name in media.items():
        rules = HtmlFormatter(style=name).get_style_defs(".code").splitlines()
        tokens = "".join(rule.partition(" /*")[0] for rule in rules if rule.startswith(".code ."))
        found.append(f"@media {where}{{{tokens}}}")
    return "".join(found)
