"""Writes work/start.md, where JupyterLab opens: a card for each chapter, what has passed, and what comes next.

Why Markdown and not a notebook or a page of our own: JupyterLab renders it without a kernel, in its own colours and at
any width, a link opens a chapter beside it, and no extension has to be installed. But it takes drawings out: there is
no map, as in the book, and each card says which chapters it needs. The page is written anew by `make lab` and whenever
a check finds something new, and jupyter/labextensions/ makes an open one follow. What comes next, and all that there is
to pass, also stands in a small file, from which `progress()` at the end of a chapter tells it at once.
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from urllib.parse import quote

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, Exercise, chapters
from exercises_tests.tools.copies import copies, digest, is_copy_of, shown, write
from exercises_tests.tools.course_map import builds, minutes, needs, number, question, reading

NAME = "start.md"
TITLE = "Distributed training and serving of large language models"
PROGRESS, AHEAD = ".progress.json", ".next.json"  # beside the notebooks; course_lib.notebook writes the one, reads both
MARK = "<!-- The course writes this page; once you have edited it, it is yours (digest {}). -->\n"
PASSED, NEXT, OPEN = "rgb(46, 139, 87)", "rgb(31, 111, 235)", "rgba(128, 128, 128, 0.45)"
BORROWED, STARTED = "rgb(191, 135, 0)", "rgba(31, 111, 235, 0.45)"
LINE = "520px"  # some 75 letters
BEGUN = ("passed", "borrowed", "tried")  # a check of a stub, as in Run All, has begun nothing
# JupyterLab keeps these styles and takes others out. The greys are half transparent: they fit a light and a dark page.
CARD = ("border: 1px solid rgba(128, 128, 128, 0.35); border-left: 5px solid {}; border-radius: 6px; "
        "padding: 10px 14px; background-color: rgba(128, 128, 128, {}); display: flex; flex-direction: column")
BUTTON = (f"display: inline-block; max-width: 100%; box-sizing: border-box; background-color: {NEXT}; "
          "color: rgb(255, 255, 255); border-radius: 6px; padding: 8px 18px; font-weight: 600; text-decoration: none")


def lanes(until: int, *ranks: list[int]) -> str:
    """Return a named lane a rank in HTML, of the page's width for `until` steps: pink where it sends, else grey."""
    rows = "".join(
        f'<div style="display: flex; align-items: center"><div style="width: 56px; flex: none">rank {rank}</div>'
        f'<div style="flex: 1"><div style="display: flex; width: {100 * len(busy) / until:.4g}%">'
        + "".join(f'<div style="flex: 1; height: 13px; margin-right: 1px; background-color: {SENT if one else IDLE}">'
                  "</div>" for one in busy) + "</div></div></div>" for rank, busy in enumerate(ranks))
    return f'<div style="margin: 2px 0 8px 0">{rows}<div style="margin-left: 56px">time →</div></div>'


INTRODUCTION = """\
You know some PyTorch, and you want to know what happens between the GPUs when a large language model is trained or
served. In each chapter you guess a number, run real processes that send each other messages, write the function that
does it better, and are told in one sentence whether it is right. Your laptop is enough."""
SENT, IDLE = "rgb(204, 121, 167)", "rgba(128, 128, 128, 0.3)"
STAR = [[1] * 24] + [[int(step // 4 in (rank, rank + 3)) for step in range(24)] for rank in range(3)]
# In a narrow window start.js takes it away, so that the chapters are near.
PICTURE = f"""<div class="course-start-picture" style="flex: 1 1 380px; max-width: 560px; font-size: 90%">
<div>Four ranks sum through rank 0: three of them mostly wait (grey).</div>
{lanes(24, *STAR)}
<div>The same sum round a ring: nobody waits, and it takes a quarter of the time.</div>
{lanes(24, *[[1] * 6] * 4)}
</div>"""


def write_start(root: Path = ROOT) -> list[str]:
    """Write the page, unless a learner has made it theirs; return a sentence for what a learner should know."""
    path = root / "work" / NAME
    draw(path, root)
    return [] if untouched(path) else [
        f"{shown(path, root)} was edited and is left alone: delete it, and make lab writes a new one."]


def renew() -> None:
    """Write anew what stands beside the notebook that calls this, if that is in work/; never complain."""
    try:
        if Path.cwd() == (ROOT / "work").resolve():  # on a hub it may be a link into the learner's home
            draw(ROOT / "work" / NAME, ROOT)
    except (ChapterError, OSError, ValueError):
        pass  # a check must not fail because its map could not be drawn


def draw(path: Path, root: Path) -> None:
    """Write the page, unless somebody has edited it, and beside it what comes next."""
    known, found = chapters(root), found_so_far(path.parent)
    ahead, where = next_of(known, found), {chapter.name: file_of(chapter, root) for chapter in known}
    passed, of, _, _ = in_all(known, found)
    task = next_in(ahead, here) if ahead and is_begun(here := found.get(ahead.name, {})) else None
    if not path.exists() or untouched(path):
        write(path, page(known, where, found))
    write(path.with_name(AHEAD), json.dumps({
        "passed": passed, "of": of,
        "next": f"{number(ahead)} · {ahead.title}" if ahead else "", "path": where[ahead.name] if ahead else "",
        "task": task.id if task else "", "chapter": number(ahead) if ahead else "",
        "points": {chapter.name: {one.id: one.points for one in chapter.exercises} for chapter in known},
        "extra": {chapter.name: [one.id for one in chapter.exercises if one.level != "core"] for chapter in known}}))


def file_of(chapter: Chapter, root: Path) -> str:
    """Return the name of the learner's copy of a chapter, who may have given it another one."""
    usual = f"{chapter.name}.ipynb"
    if (root / "work" / usual).exists():
        return usual
    return next((path.name for path in copies(root) if is_copy_of(path, chapter)), usual)


def next_of(known: list[Chapter], found: dict) -> Chapter | None:
    """Return the chapter to continue with: the one worked on last or, if that is done, a later one that was begun, or
    else the next that is not done.

    Done is a chapter whose core exercises have passed or are borrowed. Behind the last chapter comes the first again.
    """
    names = [chapter.name for chapter in known]
    begun = [name for name, exercises in found.items() if name in names and is_begun(exercises)]
    here = names.index(begun[-1]) if begun else 0
    left = [one for one in (*known[here:], *known[:here]) if not done(one, found.get(one.name, {}))]
    return next((one for one in left if one.name in begun and one in known[here:]), next(iter(left), None))


def next_in(chapter: Chapter, found: dict[str, dict]) -> Exercise | None:
    """Return the first core exercise of a chapter that has neither passed nor was borrowed."""
    return next((one for one in chapter.exercises if one.level == "core"
                 and state_of(found.get(one.id, {})) not in ("passed", "borrowed")), None)


def is_begun(found: dict[str, dict]) -> bool:
    """Return whether an exercise of a chapter was tried."""
    return any(state_of(one) in BEGUN for one in found.values())


def counted(chapter: Chapter, found: dict[str, dict]) -> tuple[int, int, int, int]:
    """Return how many of how many core exercises have passed, and how many of how many extra ones."""
    core, extra = ([state_of(found.get(one.id, {})) == "passed" for one in chapter.exercises
                    if (one.level == "core") == is_core] for is_core in (True, False))
    return sum(core), len(core), sum(extra), len(extra)


def in_all(known: list[Chapter], found: dict) -> tuple[int, int, int, int]:
    """Return the same of all chapters."""
    counts = [counted(chapter, found.get(chapter.name, {})) for chapter in known]
    return tuple(map(sum, zip(*counts, strict=True))) if counts else (0, 0, 0, 0)


def found_so_far(work: Path) -> dict[str, dict[str, dict]]:
    """Return what the checks have found, by chapter and exercise; nothing where the file is missing or damaged."""
    try:
        known = json.loads((work / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {chapter: {name: one for name, one in found.items() if isinstance(one, dict)}
            for chapter, found in known.items() if isinstance(found, dict)}


def untouched(path: Path) -> bool:
    """Return whether a page is exactly as the course wrote it."""
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return False
    return first + "\n" == MARK.format(digest(rest))


def page(known: list[Chapter], where: dict[str, str], found: dict[str, dict[str, dict]]) -> str:
    """Return the page as Markdown whose first line tells whether it was edited."""
    ahead = next_of(known, found)
    cards = "\n".join(card(chapter, quote(where[chapter.name]), found.get(chapter.name, {}), chapter is ahead)
                      for chapter in known)
    begin = f"{INTRODUCTION}\n\n<p>{lead(ahead, where, found)}</p>\n<p>{so_far(known, found)}</p>"
    if any(found.values()):  # who comes back knows what the course is
        sentences = [coming(ahead, found), why(ahead, known, where, found), so_far(known, found)]
        begin = f"<p>{lead(ahead, where, found)}</p>\n<p>{' '.join(filter(None, sentences))}</p>"
    text = f"""<div style="overflow-wrap: break-word">

# {TITLE}

<div style="display: flex; flex-wrap: wrap; gap: 4px 48px; max-width: 1180px; margin-bottom: 12px">
<div style="flex: 1 1 400px; min-width: 0; max-width: {LINE}">

{begin}

**How it works.** A click on a chapter opens your own copy of it. Run its cells with Shift+Enter, from the top.
▶ is the chapter to continue with, ◔ is begun, ✓ has passed, and in one with ◐ you have borrowed an answer.

</div>
{PICTURE}
</div>

<div style="display: grid; grid-template-columns: repeat(auto-fill, minmax(min(280px, 100%), 1fr)); gap: 12px;
max-width: 1180px; margin-bottom: 16px">
{cards}
</div>

<div style="max-width: {LINE}">

Nothing overwrites your copies: `make update` in a terminal brings newer chapters and keeps your answers. If this page
does not show what you have passed, reload it in the browser. Where a chapter does not find `course_lib`, run
`%pip install -e ..` in a cell of its own, then restart the kernel.

</div>
</div>
"""
    return MARK.format(digest(text)) + text


def done(chapter: Chapter, found: dict[str, dict]) -> bool:
    """Return whether every core exercise has passed or was borrowed, so that the next chapter can be begun."""
    return all(state_of(found.get(exercise.id, {})) in ("passed", "borrowed")
               for exercise in chapter.exercises if exercise.level == "core")


def state_of(one: dict) -> str:
    return str(one.get("state", ""))


def lead(ahead: Chapter | None, where: dict[str, str], found: dict) -> str:
    """Return the link that leads on."""
    if ahead is None:
        return "Every core exercise is done." if where else "There are no chapters here yet."
    begun = "Continue with" if any(found.values()) else "Begin with"
    words = f"{begun} chapter {number(ahead)}: {escape(ahead.title)}"
    return f'<a href="{quote(where[ahead.name])}" style="{BUTTON}">{words}</a>'


def coming(ahead: Chapter | None, found: dict) -> str:
    """Return what waits in the chapter that is next: an exercise where it was begun, else its question."""
    if ahead is None:
        return ""
    here = found.get(ahead.name, {})
    if (task := next_in(ahead, here)) is None or not is_begun(here):
        return f"It asks: {html(question(ahead))}"
    return f"Next in it is the exercise <code>{escape(task.id)}</code>, about {task.minutes} minutes (estimated)."


def why(ahead: Chapter | None, known: list[Chapter], where: dict[str, str], found: dict) -> str:
    """Return which other chapters are begun and not done, and whether the button leads to the one worked on last."""
    others = [one for one in known if one is not ahead and is_begun(here := found.get(one.name, {}))
              and not done(one, here)]
    if ahead is None or not others:
        return ""
    links = [f'<a href="{quote(where[one.name])}">{number(one)}: {escape(one.title)}</a> '
             f"({of_core(one, found.get(one.name, {}))})" for one in others]
    last = f"You worked on chapter {number(ahead)} last. " if ahead.name == list(found)[-1] else ""
    return f"{last}Also begun: {listed(links)}."


def of_core(chapter: Chapter, found: dict[str, dict]) -> str:
    """Return how many of a chapter's core exercises have passed, as "2 of 3" in one piece."""
    return "{}&nbsp;of&nbsp;{}".format(*counted(chapter, found)[:2])


def so_far(known: list[Chapter], found: dict) -> str:
    """Return what has passed, or at the beginning what there is."""
    passed, core, more, extra = in_all(known, found)
    others = f" and {more} of {extra} extra" if extra else ""
    if passed + more:
        return f"You have passed <strong>{passed} of {core} core exercises</strong>{others}."
    others = f", and {extra} extra ones" if extra else ""
    read, write = (round(sum(map(spent, known)) / 60) for spent in (reading, minutes))
    return (f"The course has {len(known)} chapters, about {read} hours of reading, and "
            f"<strong>{core} core exercises</strong>, about {write} hours more{others}.")


def card(chapter: Chapter, href: str, found: dict[str, dict], is_next: bool) -> str:
    """Return a chapter's card, in lines that are all HTML: a blank one would end it."""
    passed, core, more, extra = counted(chapter, found)
    borrowed = sum(state_of(found.get(exercise.id, {})) == "borrowed" for exercise in chapter.exercises)
    mark, colour = ("▶ ", NEXT) if is_next else ("◔ ", STARTED) if is_begun(found) else ("", OPEN)
    if core and done(chapter, found):
        mark, colour = ("✓ ", PASSED) if passed == core else ("◐ ", BORROWED)
    needed = needs(chapter)
    facts = [f"{reading(chapter)} min of reading, {minutes(chapter)}&nbsp;of&nbsp;exercises",
             f"needs chapter{'s' * (len(needed) > 1)}&nbsp;{listed(needed)}" if needed else ""]
    others = f", {more} of {extra} extra" if extra else ""
    score = f"{passed} of {core} core{others} passed" + (f", {borrowed} borrowed" if borrowed else "")
    lines = [
        f'<div style="{CARD.format(colour, 0.14 if is_next else 0.05)}">',
        f'<div class="course-start-title" style="font-size: 115%; font-weight: 600">{mark}<a href="{href}">'
        f"{number(chapter)} · {escape(chapter.title)}</a></div>",
        f'<div style="margin: 4px 0 6px 0">{html(question(chapter))}</div>',
        f'<div style="font-size: 90%; overflow-wrap: break-word">You build: {html(builds(chapter))}</div>',
        '<div style="flex: 1"></div>',  # so that what follows stands at one height in a row
        f'<div style="font-size: 90%; margin-top: 6px">{"<br>".join(filter(None, facts))}</div>',
        bar(passed / core if core else 0.0),
        f'<div style="font-size: 90%">{score}</div>',
        "</div>",
    ]
    return "\n".join(lines)


def bar(share: float) -> str:
    shape = "height: 6px; border-radius: 3px; background-color"
    inner = f'<div style="width: {100 * share:.0f}%; {shape}: {PASSED}"></div>'
    return f'<div style="margin: 6px 0 3px 0; {shape}: rgba(128, 128, 128, 0.25)">{inner}</div>'


def listed(places: list[int] | list[str]) -> str:
    words = [str(place) for place in places]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def html(text: str) -> str:
    """Return the little Markdown of a question as HTML: code and emphasis."""
    told = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", told)

