"""The look of every page that grading writes: one file without scripts, light or dark as one likes, and on paper.

Texts of learners are data: whoever puts one on a page gives it to `text`, and the page's own policy refuses scripts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from exercises_tests.tools.untrusted import plain

# The colours of course_lib.plots.canvas, one meaning each. Not imported: that needs matplotlib, which takes longer to
# start than a class that has not changed takes to grade; tests/test_sheet.py compares them.
GREEN, ORANGE, RED, SKY, YELLOW, GREY = "#009E73", "#E69F00", "#D55E00", "#56B4E9", "#F0E442", "#999999"
SENT, RECEIVED, COLLECTIVE, WAITING, INK = "#CC79A7", "#E6BBD3", "#B55D95", "#DDDDDD", "#222222"
STATES = {
    "passed": ("✓", GREEN, "passed"),
    "partly": ("◐", ORANGE, "some of the points"),
    "wrong": ("✗", RED, "tried, not right yet"),
    "borrowed": ("↓", SKY, "borrowed"),
    "written": ("…", YELLOW, "written, not checked yet"),
    "open": ("–", "var(--idle)", "not begun"),
}
"""Of each state of an exercise its sign, its colour and its words; the sign is for whoever cannot tell the colours."""

LIGHT = (f"--ink:{INK};--soft:#5a5a5a;--paper:#fff;--tint:#f5f6f8;--line:#d5d8dd;--idle:{WAITING};"
         "--right:#1c7a4b;--wrong:#b93a1c;--told:#1f6feb")
DARK = ("--ink:#e6e6e6;--soft:#a9adb3;--paper:#16181c;--tint:#202329;--line:#3b4048;--idle:#4a4f57;"
        "--right:#4cc38a;--wrong:#ff8a65;--told:#6ea8fe")
STYLE = f""":root{{color-scheme:light dark;{LIGHT}}}
@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}
*{{box-sizing:border-box}}
body{{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;color:var(--ink);
background:var(--paper);max-width:56rem;margin:2rem auto;padding:0 1rem;overflow-wrap:break-word}}
h1{{font-size:1.7rem;line-height:1.25;margin:0 0 .3rem}}h2{{font-size:1.3rem;margin:2.2rem 0 .2rem}}
h3{{font-size:1.05rem;margin:0 0 .2rem}}p{{margin:.3rem 0}}code,pre{{font-family:ui-monospace,"DejaVu Sans Mono",
Menlo,Consolas,monospace;font-size:.86rem}}pre{{white-space:pre-wrap;margin:.3rem 0;line-height:1.45}}
.soft,footer{{color:var(--soft)}}footer{{margin-top:3rem;font-size:.85rem;border-top:1px solid var(--line)}}
.score{{font-weight:600}}.card{{border-left:4px solid var(--mark,var(--line));background:var(--tint);
border-radius:4px;padding:.6rem .9rem;margin:.8rem 0}}.card.right{{--mark:var(--right)}}
.card.wrong{{--mark:var(--wrong)}}.card.told{{--mark:var(--told)}}.sign{{color:var(--mark);font-weight:700}}
.part{{display:inline-block;border:1px solid var(--line);border-radius:.8em;padding:0 .6em;margin:.1em .3em .1em 0;
font-size:.9rem;white-space:nowrap}}.part.right{{border-color:var(--right)}}.part.wrong{{border-color:var(--wrong)}}
.part.right b{{color:var(--right)}}.part.wrong b{{color:var(--wrong)}}
.code{{background:var(--paper);border:1px solid var(--line);border-radius:4px;padding:.5rem .7rem;
white-space:pre;overflow-x:auto}}
.bar{{display:flex;height:.9rem;min-width:6rem;border-radius:3px;overflow:hidden;outline:1px solid var(--line);gap:1px}}
.bar i{{display:block;flex:0 0 auto}}table{{border-collapse:collapse;width:100%}}
th,td{{text-align:left;font-weight:400;padding:.15rem .8rem .15rem 0;vertical-align:baseline}}
thead th{{white-space:nowrap;
color:var(--soft);font-size:.85rem}}td.n{{text-align:right;white-space:nowrap;width:1%}}td.wide{{width:45%}}
figure{{margin:.7rem 0 .3rem}}figcaption{{font-weight:600;margin-bottom:.2rem}}.scroll{{overflow-x:auto}}
.key{{display:inline-block;margin-right:1rem;font-size:.85rem;white-space:nowrap}}
.key i{{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.35em;vertical-align:-.1em}}
@page{{margin:16mm}}@media print{{body{{max-width:none;margin:0;padding:0;font-size:11pt}}
*{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}.card,figure,tr{{break-inside:avoid}}
.card.long{{break-inside:auto}}h2,h3{{break-after:avoid}}.code{{white-space:pre-wrap}}.scroll{{overflow:visible}}}}
@media (max-width:34rem){{body{{margin:1rem auto;padding:0 .7rem}}td.wide{{width:35%}}th,td{{padding-right:.4rem}}}}"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def text(words: Any, most: int = 4000) -> str:
    """Return words, whoever's they are, for a page: bounded, escaped, without what turns the direction of text."""
    return html.escape(plain(str(words), most, "\n\t"))


def page(title: str, body: Iterable[str], style: str = "", refresh: int = 0) -> str:
    """Return a whole page that renews itself every `refresh` seconds; `body` and `style` are markup already."""
    head = [
        f'<meta charset="utf-8"><title>{text(title, 200)}</title>',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f'<meta http-equiv="refresh" content="{refresh}">' if refresh else "",
        f"<style>{STYLE}{style}</style>",
    ]
    return f'<!doctype html><html lang="en"><head>{"".join(head)}</head><body>{"".join(body)}</body></html>\n'


def stack(counts: dict[str, int], of: int = 0) -> str:
    """Return a bar whose pieces are as long as the counts of the states are large; `of` is what all of it would be."""
    whole = max(of, sum(counts.values()), 1)
    said = ", ".join(f"{count} {STATES[state][2]}" for state, count in counts.items() if count) or "nothing"
    pieces = "".join(
        f'<i style="width:{100 * count / whole:.4g}%;background:{STATES[state][1]}"></i>'
        for state, count in counts.items() if count
    )  # fmt: skip
    return f'<span class="bar" role="img" aria-label="{said}">{pieces}</span>'


def keys(states: Iterable[str]) -> str:
    """Return what the colours of some states mean."""
    return "<p>" + "".join(
        f'<span class="key"><i style="background:{colour}"></i>{sign} {words}</span>'
        for sign, colour, words in (STATES[state] for state in STATES if state in set(states))
    ) + "</p>"  # fmt: skip


def chapter(name: str) -> str:
    """Return a chapter's name as people say it: Chapter 3: ring all reduce. Not yet escaped."""
    known = re.fullmatch(r"ch0*(\d+)_(\w+)", name)
    return f"Chapter {known[1]}: {known[2].replace('_', ' ')}" if known else name


def number(points: Any) -> str:
    """Return points as short as they are exact enough: 4, 8.5, 10.25."""
    return f"{points:.2f}".rstrip("0").rstrip(".") if isinstance(points, float) else str(points)


def several(count: int, thing: str) -> str:
    """Return a count with its noun: 1 learner, 12 learners."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def moment(when: Any) -> str:
    """Return a time in ISO format as people read it, with its zone; what is none as it is."""
    try:
        return f"{datetime.fromisoformat(when):%A %d %B %Y, %H:%M %Z}".strip()
    except (TypeError, ValueError):
        return str(when)
