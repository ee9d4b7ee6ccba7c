"""What slides need in a room: minutes, a short path, what to say and to reply, a few words with a picture.

deck.py cuts a chapter into slides; this file goes over them once more, when all of them are known.
"""

from __future__ import annotations

import ast
import html
import re
import subprocess
import sys
import tomllib
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode
from veils import asked_for, choices

from course_lib.notebook import TEMPTING
from exercises_tests.tools.chapters import Chapter

sys.path.insert(0, str(Path(__file__).parents[1]))
from timetable import CATCHING_UP, GUESS, PICTURE, SHOWN, SPOKEN, STEP, block  # noqa: E402

if TYPE_CHECKING:
    from slide import Slide

YOURS = "Your guess"
BRIEF = ("title", "section", "part", "picture", "guess", "answer", "summary")  # the kinds of the short path
DEFINES = ("section", "said", "text", "formula")  # the kinds that define terms
LOOKED_AT = {"guess": GUESS, "picture": PICTURE} | dict.fromkeys(("formula", "text", "printed", "debrief"), SHOWN)
POINTS = 5  # of what was learned, on a slide
JOINED = ("said", "formula", "text", "printed", "answer")  # the kinds that a sentence in bold may end
LINE, LINES = 80, 2  # letters that fit in a line under a picture, and such lines
LOW = 1210  # pixels of a picture, 200 an inch: a higher one has no line under it, because its letters need the room
LESS = 87  # pixels of a picture for which another line leaves no room
COLUMN, ROWS = 24, 9  # letters of a line beside a narrow picture, and such lines
HIGHEST = 1300  # in a higher one, letters of 10 points have fewer than 18 pixels of a slide of 1920
ABOUT = 4  # words that a paragraph about a picture has in common with it
FLAT, OVER = 0.34, 330  # height of a picture to its width that leaves room above it, and for how many letters
WORDS = 20  # that open a part and have no slide of their own
TOGETHER = 80  # words of a slide and of the sentence in bold that ends it
REPLIES, ALIKE = 3, 0.6  # to wrong guesses; from which share of equal letters on two of them are one
BODY, SHORT = 9, 15  # lines of an answer's body that a slide shows; of all of it, where those that count need more
TAIL = 2  # lines at its end that are shown, too, rather than "the rest"
PROMISED = 200  # letters of a docstring that an exercise's slide shows
CODE_WIDE = 76  # letters of a line of code, which the last row can read
REST = "# the rest stands in the notebook"
DEBRIEFS = Path(__file__).with_name("debriefs.toml")
MOST = 60  # slides before those for which there may be no time
SPARED = ("said", "text", "formula", "printed")  # the kinds of the latter
LATER = "If there is time"
BRIEFLY, ENOUGH = 2 / 3, 30  # of the slides, on the short path at most; slides that are few enough
LEAST = {"title": 1.0, "guess": 1.5, "answer": 1.0}  # minutes of these kinds, whatever is said: replies take time
ANY = 0.3  # minutes of every other slide
ROOM = 0.9  # of a talk, at most, that these take
ORDINAL = re.compile(r"(?:First|Second|Third|Fourth)\b")
EXAMPLE = re.compile(r"\b[Ff]or example\b|\bmight be\b|\b[Ee]xample:|\be\.g\.")


def ready(slides: list[Slide], chapter: Chapter) -> list[Slide]:
    """Return the slides with what a room needs."""
    slides = merged(with_what_follows(with_pictures(under_pictures(parted(slides)))))
    slides = kept_company(debriefed(answered(joined(slides))))
    told(slides)
    begun = next((place for place, slide in enumerate(slides) if slide.kind in ("picture", "section")), 0)
    for place, (slide, after) in enumerate(zip(slides, [*slides[1:], None], strict=True)):
        slide.brief = (place < begun or slide.kind in BRIEF or slide.begins
                       or needed(slide, after))
        if after and after.kind == "guess":
            slide.notes = [without(note, after.notes) for note in slide.notes]
    for section in sections(slides):
        for term in [one for one in section if one.kind in DEFINES and "<strong>" in one.body][:1]:
            term.brief = True
    complete(slides)
    paired(slides)
    shortened(slides, begun)
    for opened, *rest in sections(slides):  # no heading of nothing
        opened.brief = opened.kind == "summary" or any(one.brief for one in rest)
    for slide in slides if any(one.long for one in slides) else ():  # its author knows better
        slide.brief = not (slide.long or slide.exercise or slide.kind == "debrief")
    slides, extras = if_there_is_time(slides)
    timed(slides, chapter)
    slides += extras
    tempting = {slide.title: {slide.choices.get(guess, guess): why for guess, why in slide.replies.items()}
                for slide in slides if slide.over == YOURS}
    known, answers = set(), {slide.asked for slide in slides}
    for slide in slides:
        slide.replies = slide.replies or tempting.get(slide.over, {})
        slide.first = said_once(first(slide, chapter), known)
        if slide.over != YOURS or slide.title not in answers:  # before the answer a reply would tell it
            slide.last = rebuttals({slide.choices.get(guess, guess): words for guess, words in slide.replies.items()})
    return slides


def said_once(told: list[str], known: set[str]) -> list[str]:
    """Return what to do without the sentences that a slide before had, but with those that have a number."""
    found = []
    for paragraph in told:
        new = [one for one in re.split(r"(?<=[.?!])\s+|(?<=[.?!]\*\*)\s+", paragraph)
               if one not in known or re.search(r"\d", one)] if paragraph[0] != "-" else [paragraph]
        known.update(new)
        found += [" ".join(new)] * bool(new)
    return found


def needed(slide: Slide, after: Slide | None) -> bool:
    """Return whether the short path needs a slide for the next one: a guess or a picture, to which it leads."""
    return (after is not None and slide.kind in ("said", "text", "formula")
            and (after.over == YOURS or after.kind == "picture"))


def complete(slides: list[Slide]) -> None:
    """Leave on the short path what belongs to what it has: formulas, what opens a part, all of First, Second, Third."""
    for section in sections(slides):
        counted = [slide for slide in section if ORDINAL.match(re.sub(r"<[^>]*>", "", slide.title))
                   or ORDINAL.match(re.sub(r"<[^>]*>", "", slide.body))]
        some = any(slide.brief for slide in section[1:])
        for before, slide in zip([None, *section], section, strict=False):
            opens = before and before.kind == "part" and before.brief and slide.kind in LOOKED_AT
            slide.brief = bool(slide.brief or opens or some and slide.kind == "formula"
                               or slide in counted and len(counted) > 1)


def if_there_is_time(slides: list[Slide]) -> tuple[list[Slide], list[Slide]]:
    """Return the slides that have room in a talk, and behind a divider the others: those that say the least."""
    places = {id(slide): section[0].title for section in sections(slides) for slide in section}
    free = []  # what the short path has, opens a section or leads to an exercise or a guess goes last
    for before, slide, after in zip(slides, slides[1:], slides[2:], strict=False):
        spare = slide.kind in SPARED and not (slide.asked or slide.beside)
        if spare and before.kind != "guess" and id(slide) in places:
            opens, leads = before.kind in ("section", "part"), after.kind in ("exercise", "guess")
            brief = slide.brief and 1 + (slide.kind != "formula") + (opens or leads)
            needed = opens + (opens and "?" in before.body) + leads
            free.append(((brief, needed, slide.kind == "printed", weight(slide)), slide))
    free = [slide for _, slide in sorted(free, key=lambda one: one[0])]
    spared = free[:max(0, len(slides) - MOST)]
    for slide in spared:
        number, dot, _ = places.get(id(slide), "").partition(" · ")
        slide.title += f' <span class="more">· section {number}</span>' if dot else ""
        slide.brief = False
    later = [type(slides[0])("section", LATER, "<p>What the talk can do without.</p>")] if spared else []
    return ([slide for slide in slides if slide not in spared],
            later + [slide for slide in slides if slide in spared])


def shortened(slides: list[Slide], begun: int) -> None:
    """Leave two thirds of the slides on the short path, and the first: what leads to others goes, then pictures."""
    needed = {id(slide) for section in sections(slides) for slide in [one for one in section[1:] if one.brief][-1:]}
    for before, slide, after in zip(slides, slides[1:], [*slides[2:], slides[-1]], strict=False):
        asks = slide.kind == "guess" or slide.kind == "section" and "?" in slide.body
        needed |= {id(before), id(after)} if asks else set()  # what explains the question, and what answers it
    free = [(kind, -place, slide) for place, slide in enumerate(slides) for kind in (0, 1)
            if place >= begun and slide.brief and not slide.asked and id(slide) not in needed
            and (slide.kind == "picture" if kind else slide.kind in (*SPARED, "part"))]
    over = sum(slide.brief for slide in slides) - max(ENOUGH, round(BRIEFLY * len(slides)))
    for *_, slide in sorted(free, key=lambda one: one[:2])[:max(0, over)]:
        slide.brief = False


def paired(slides: list[Slide]) -> None:
    """Leave a question and its answer on the short path together, also the chapter's and those of its sections."""
    opening = re.sub(r"<[^>]*>", "", slides[0].body).strip()
    for place, guess in enumerate(slides):
        after = [slide for slide in slides[place + 1:] if slide.kind not in ("exercise", "debrief")]
        if guess.kind == "guess" and after and after[0].kind not in ("section", "summary"):
            answer = next((slide for slide in after if slide.asked == guess.title), after[0])
            opened = re.sub(r"<[^>]*>", "", guess.title).strip() in opening
            guess.brief = answer.brief = guess.brief or answer.brief or opened
        if guess.kind == "section" and "?" in guess.body and after:
            end = next((at for at, slide in enumerate(after) if slide.kind in ("section", "summary")), len(after))
            told = [one for one in after[:end] if one.kind != "guess"]
            for answer in [*told[-1:], *[one for one in told[:1] if one is after[0] and one.kind == "printed"]]:
                answer.brief = True


def sections(slides: list[Slide]) -> list[list[Slide]]:
    """Return the slides of each section."""
    begins = [place for place, slide in enumerate(slides) if slide.kind in ("section", "summary")]
    return [slides[begin:end] for begin, end in zip(begins, [*begins, len(slides)][1:], strict=True)]


def merged(slides: list[Slide]) -> list[Slide]:
    """Return the slides without the headings that have nothing to say: what follows has them as titles."""
    found, waiting, begins = [], [], False
    for slide in slides:
        slide.notes, slide.begins, waiting = waiting + slide.notes, begins or slide.begins, []
        begins = slide.kind == "part" and not slide.body
        if begins:
            waiting = slide.notes
        else:
            found.append(slide)
    return found


def parted(slides: list[Slide]) -> list[Slide]:
    """Return the slides with the summary's points on as many as they need, the same number on each."""
    *before, last = slides
    points = re.findall(r"<li>.*?</li>", last.body, re.DOTALL)
    if last.kind != "summary" or len(points) <= POINTS:
        return slides
    head, _, rest = last.body.partition("<ul>")
    parts = -(-len(points) // POINTS)
    size = -(-len(points) // parts)
    for place in range(parts):
        some = "\n".join(points[place * size:(place + 1) * size])
        body = f"{head if not place else ''}<ul>{some}</ul>{rest.partition('</ul>')[2] if place == parts - 1 else ''}"
        before.append(type(last)("summary", f'{last.title} <span class="more">· {place + 1}/{parts}</span>', body,
                                 notes=last.notes if not place else []))
    return before


# Minutes


def timed(slides: list[Slide], chapter: Chapter) -> None:
    """Share out the minutes of the timetable: a core exercise has its own, the short path shares those of the talk."""
    stretches = block(chapter)
    talks = [part.minutes for part in stretches if not part.exercise]
    own = {part.exercise: part.minutes for part in stretches if part.exercise}
    said: list[list[Slide]] = [[]]
    for slide in slides:
        if slide.exercise in own:
            slide.minutes = own[slide.exercise]
            said[-1] = said[-1] or [slide]
            said.append([])
        elif slide.kind != "exercise":  # an extra one is for who is early
            said[-1].append(slide)
    said[-1] = said[-1] or slides[-1:]
    for talk, some in zip(talks, said, strict=False):
        for slide, minutes in zip(some, shared_out(talk, some), strict=True):
            slide.minutes += minutes
    slides[-1].minutes += CATCHING_UP


def shared_out(talk: float, slides: list[Slide]) -> list[float]:
    """Return the minutes of each slide of a talk: by its weight, but no guess and no answer has too few.

    Those on the short path take as long as the talk; whoever shows all needs as much more as the others weigh.
    """
    weights = [weight(slide) for slide in slides]
    least = [0 if slide.exercise else LEAST.get("answer" if slide.asked else slide.kind, ANY) for slide in slides]
    path = {place for place, slide in enumerate(slides) if slide.brief or slide.exercise} or set(range(len(slides)))
    if (needed := sum(least[place] for place in path)) > talk * ROOM:
        least = [part * talk * ROOM / needed for part in least]
    few: set[int] = set()
    while True:
        left = talk - sum(least[place] for place in few & path)
        pace = left / (sum(weights[place] for place in path - few) or left)
        found = [least[place] if place in few else pace * part for place, part in enumerate(weights)]
        more = {place for place, minutes in enumerate(found) if minutes < least[place]}
        if not more or more | few == set(range(len(slides))):
            return found
        few |= more


def weight(slide: Slide) -> float:
    """Return the minutes that a slide needs: to say its notes, or else what stands on it, and to look or to guess."""
    words = re.sub(r"<[^>]*>", " ", slide.spoken or f"{slide.title} {slide.body}").split()
    return len(words) / SPOKEN + LOOKED_AT.get(slide.kind, 0) + STEP * len(slide.steps)


# What a speaker says first


DO = {
    "title": "**Read the question aloud, and take two answers.** Nobody has to be right yet.",
    "section": "**Say what the problem is**, then look around before you go on.",
    "picture": "**Let them look for ten seconds.** Say what the axes or boxes are, then point while you say:",
    "answer": "**Ask who was near**, then give the reason.",
    "formula": "**Read the formula from left to right**, and say what each letter is here.",
    "table": "**Read one row aloud.** They read the others.",
    "printed": "**Point at the number that counts**, and say what you had expected.",
    "rule": "**Say it twice**: this sentence is worth writing down.",
    "debrief": "**Ask who wrote it another way**, and what the line is that counts.",
    "summary": "**In pairs, explain a point each**, before the next key shows it; take two of them aloud.",
}
"""What to do at the first slide of each kind, where nothing more is known of it."""


def first(slide: Slide, chapter: Chapter) -> list[str]:
    """Return what stands above a slide's notes, in Markdown: what to do, how to ask, when to stop."""
    if slide.kind == "guess":
        counted = "a minute" if slide.minutes >= 1 else "its time"
        return [f"**Write it down, then hands up.** {about(slide.minutes)}; T counts {counted} for writing."]
    if slide.kind != "exercise":
        kind = "table" if slide.kind == "text" and "<table" in slide.body else slide.kind
        return [*filter(None, [DO.get(kind)])]
    known = {exercise.id: exercise for exercise in chapter.exercises}.get(slide.exercise)
    if known and known.level == "core":
        told = [f"**{known.minutes} minutes, then stop**, whoever is done: `make catch-up CHAPTER={chapter.name[:4]}` "
                "borrows what is missing. T starts the countdown."]
    else:
        told = ["**For who is early**: it has no minutes of the block. T starts the countdown."]
    return told + [f"**First hint**: {slide.hint}"] * bool(slide.hint)


def rebuttals(replies: dict[str, str]) -> list[str]:
    """Return what to say of wrong guesses, as a list: few, and once what is said of several."""
    found: dict[str, list[str]] = {}
    for guess, words in replies.items():
        same = next((one for one in found if SequenceMatcher(None, one, words).ratio() > ALIKE), words)
        found.setdefault(same, []).append(f"**{guess}**")
    return [f"- Who says {' or '.join(guesses)}: {words}" for words, guesses in list(found.items())[:REPLIES]]


def about(minutes: float) -> str:
    return f"About {max(1, round(minutes))} minute" + ("s" if round(minutes) > 1 else "")


def without(note: str, asked: list[str]) -> str:
    """Return a note without the sentences that the next slide asks."""
    for sentence in sentences(" ".join(asked)):
        note = note.replace(sentence, "").strip() if sentence.endswith("?") else note
    return note


# Guesses and exercises


def replies(notebook: NotebookNode) -> dict[str, dict[str, str]]:
    """Return, by the name of each guess, the wrong numbers that tempt and what to say of them."""
    known = tomllib.loads(TEMPTING.read_text(encoding="utf-8"))
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for name, chapter, guess in re.findall(r'compare\((\w+),.*?because="(\w+)\.(\w+)"', cell.source, re.DOTALL):
                found[name] = known.get(chapter, {}).get(guess, {})
    return found


def options(source: str) -> dict[str, str]:
    """Return the choices that a guess's comment names, by their values; of bare numbers only where it says so."""
    comment = "#" + source.partition("#")[2].partition("\n")[0]
    named = choices(asked_for(comment))
    return {value: words for value, words in named if words != value or "your choice" in comment}


def promised(stub: str) -> str:
    """Return the sentences of a stub's docstring, as far as they have room."""
    said = next((ast.get_docstring(node) for node in ast.parse(stub).body
                 if isinstance(node, ast.FunctionDef | ast.ClassDef)), "") or ""
    first, *more = re.split(r"(?<=[.])\s", " ".join(said.partition("\n\n")[0].split()))
    while more and len(f"{first} {more[0]}") <= PROMISED:
        first = f"{first} {more.pop(0)}"
    return first


def code_alone(answer: str) -> str:
    """Return an answer without docstrings, imports and comments at the ends of lines, so that its letters are large."""
    lines = answer.splitlines()
    for node in ast.walk(ast.parse(answer)):
        told = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None
        gone = node.body[0] if told else node if isinstance(node, ast.Import | ast.ImportFrom) else None
        if gone:
            lines[gone.lineno - 1:gone.end_lineno] = [None] * (gone.end_lineno - gone.lineno + 1)
    return "\n".join(re.sub(r"  # .*", "", line) for line in lines if line is not None).strip()


def debriefed(slides: list[Slide]) -> list[Slide]:
    """Return the slides with an answer after each exercise that has one: its idea, and the lines that carry it."""
    told, found = tomllib.loads(DEBRIEFS.read_text(encoding="utf-8")), []
    for slide in slides:
        found.append(slide)
        if slide.answer:
            code, one = code_alone(slide.answer), told.get(slide.exercise, {})
            lines = around(broken(code, one.get("key", [])))
            shown = "".join(f'<span{" class=key" * key}>{html.escape(line) or " "}</span>' for line, key in lines)
            idea = f"<p>{html.escape(one['idea'], quote=False)}</p>" if one else slide.idea
            found.append(type(slide)("debrief", f"One way to write <code>{slide.exercise}</code>",
                                     f'{idea}<pre class="lines">{shown}</pre>',
                                     code if [line for line, _ in lines] != code.splitlines() else "",
                                     notes=[f"The idea: {slide.hint}"] if slide.hint else []))
    return found


def broken(code: str, keys: list[str]) -> list[tuple[str, bool]]:
    """Return the lines of an answer, long ones broken as the field does, and of each whether it carries the idea."""
    lines = code.splitlines()
    marked = [any(lines[node.lineno - 1].lstrip().startswith(key) for key in keys) for node in statements(code)]
    if any(len(line) > CODE_WIDE for line in lines):
        done = subprocess.run([sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={CODE_WIDE}", "-"],
                              input=code, capture_output=True, text=True, check=True)  # fmt: skip
        code = "\n".join(line for line in done.stdout.splitlines() if line)
    found = [(line, False) for line in code.splitlines()]
    for node, key in zip(statements(code), marked, strict=True):
        end = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
        for place in range(node.lineno - 1, end) if key else ():
            found[place] = (found[place][0], True)
    return found


def statements(code: str) -> list[ast.stmt]:
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]


def around(lines: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the lines of an answer that a slide shows: its head, and of its body those around what carries it."""
    if len(lines) <= BODY + 2:
        return lines
    places = [place for place, (_, key) in enumerate(lines) if key] or [1]
    room = min(max(BODY, places[-1] - places[0] + 1), SHORT - 3)
    begin = max(1, min(max(1, places[-1] + 1 - room), places[0], len(lines) - room))
    heads = [place for place in range(begin, places[0]) if lines[place][0].lstrip().startswith("def ")]
    begin = heads[-1] if heads else 1 if begin == 2 else begin  # a method from its first line on
    room = max(room, min(places[-1] - begin + 1, SHORT - 3))
    starts = {node.lineno - 1 for node in statements("\n".join(line for line, _ in lines))}
    begin = min(place for place in starts if begin <= place <= places[0])
    end = begin + room
    while end < len(lines) and (end not in starts or lines[end - 1][0].endswith(":")):  # whole statements
        end += 1
    end = len(lines) if len(lines) - end <= TAIL else end
    shown = lines[begin:end]
    above, deep = [], indent(shown[0])
    for place in range(begin - 1, 0, -1):  # what stands in a loop stands under it
        if place in starts and indent(lines[place]) < deep:
            above, deep = [(place, lines[place]), *above], indent(lines[place])
    found, last = [lines[0]], 0
    for place, line in [*above, *enumerate(shown, begin)]:
        found += [(" " * indent(line) + "...", False)] * (place > last + 1) + [line]
        last = place
    return found + ([(" " * indent(lines[end]) + REST, False)] if end < len(lines) else [])


def indent(line: tuple[str, bool]) -> int:
    """Return the blanks before a line of code."""
    return len(line[0]) - len(line[0].lstrip())


def example(task: list[str]) -> str:
    """Return the sentence of a task that gives a small example, or nothing."""
    for paragraph in task:
        for sentence in sentences(paragraph) if not re.match(r"\||```|[-*] ", paragraph) else []:
            if EXAMPLE.search(sentence) and "`" in sentence and len(sentence) < 240:
                return sentence
    return ""


# A picture and the line under it


def under_pictures(slides: list[Slide]) -> list[Slide]:
    """Return the slides without those that only say more of the picture before them: the picture stays as large as it
    is, their titles are lines under it, and the speaker reads what they say."""
    found, picture, heading = [], None, ""
    for slide in slides:
        if slide.kind in ("title", "section", "part"):
            heading = slide.title.partition(" · ")[2] or slide.title
        told = slide.kind in ("said", "rule") and not (slide.over or slide.beside) and slide.title != heading
        lines = cut_up(slide.title) if slide.kind == "rule" else [slide.title]
        if picture and slide.kind == "rule" and not fit_under(picture, lines):
            lines = [slide.title]  # in one piece it may have fewer lines
        if picture and told and fit_under(picture, lines):
            picture.lines += lines
            picture.says.append(f"<p><strong>{slide.title}</strong></p>{slide.body}")
            picture.notes += slide.notes
            continue
        if slide.kind == "rule":
            slide.over = slide.over or heading
        found.append(slide)
        picture = slide if slide.kind == "picture" else None
        if picture:
            found += alone(picture)
    return found


def with_pictures(slides: list[Slide]) -> list[Slide]:
    """Return the slides without the few words that have room on the picture that comes next, or else before them."""
    found, heading = [], ""
    for slide in slides:
        last = found[-1] if found else None
        if slide.kind in ("title", "section", "part"):
            heading = slide.title.partition(" · ")[2] or slide.title
        if last and slide.kind == "picture" and shared(last, slide, True):
            found[-1] = slide
            slide.title = last.title if slide.title == heading else slide.title
            slide.notes = last.notes + slide.notes
            slide.begins = last.begins or last.kind == "part"
        elif last and last.kind == "picture" and shared(slide, last, False):
            last.notes += slide.notes
        else:
            found.append(slide)
    return found


def shared(words: Slide, picture: Slide, first: bool) -> bool:
    """Put a few words above a low picture or in two lines under another one; return whether there was room for them."""
    if (words.kind not in ("said", "part", "text") or words.over or words.beside
            or re.search(r"<(?:table|pre|math|li)", words.body)):
        return False
    told = re.findall(r"<p>(.*?)</p>", words.body, re.DOTALL)
    lines = sum(-(-letters(one) // LINE) for one in told)
    if first and told and height(picture) < FLAT * width(picture) and letters(words.body) <= OVER:
        picture.above = words.body
    elif told and not picture.lines and lines <= LINES and height(picture) <= LOW - LESS * (lines - 1):
        picture.lines += told
    else:
        return False
    picture.says.append(f"<p><strong>{words.title}</strong></p>{words.body}")
    return True


def told(slides: list[Slide]) -> None:
    """Give a picture without notes the paragraph beside it that is about it, else what is said first behind it."""
    for before, picture, after in zip(slides, slides[1:], slides[2:], strict=False):
        if picture.kind != "picture" or picture.notes or picture.says:
            continue
        words = html.unescape(re.search(r'alt="([^"]*)"', picture.body)[1])
        near = [(note, slide) for slide, notes in ((before, before.notes[-2:]), (after, after.notes[:2]))
                if slide.kind not in ("exercise", "picture")
                for note in notes if note.endswith(".") and not re.match(r"\$\$|\||```|[-*] |\d+\. ", note)]
        note, owner = max(near, key=lambda one: alike(one[0], f"{picture.title} {words}"), default=("", None))
        if owner and alike(note, f"{picture.title} {words}") >= ABOUT:
            picture.notes.append(note)
            if owner.kind not in ("section", "guess") and len(owner.notes) > 1:
                owner.notes.remove(note)
        else:
            picture.notes += [picture.behind] * bool(picture.behind)


def alike(text: str, other: str) -> int:
    """Return how many words and numbers of a text another one has, too; short words don't count."""
    one, two = (set(re.findall(r"\d[\d.,]*|\w{4,}", some.lower())) for some in (text, other))
    return len(one & two)


def fit_under(picture: Slide, lines: list[str]) -> bool:
    """Return whether a picture has room for more lines under it."""
    if picture.narrow:
        return sum(1 + -(-letters(one) // COLUMN) for one in picture.lines + lines) <= ROWS
    more = sum(-(-letters(one) // LINE) for one in picture.lines + lines)
    return more <= LINES and height(picture) <= LOW - LESS * (more - 1)


def alone(picture: Slide) -> list[Slide]:
    """Leave a picture with one line of its own words at most; return the slide of a table, list or formula with it."""
    image, words = re.fullmatch(r"((?:\s*<img[^>]*>)*)(.*)", picture.body, re.DOTALL).groups()
    picture.body = image
    if re.search(r"<(?:table|ul|ol|pre|math display)", words):
        return [type(picture)("text", picture.title, words)]
    said = re.sub(r"</?p>", " ", words).strip()
    picture.says += [words] * bool(said)
    line = said if letters(said) <= LINE else sentences(said)[0]
    if letters(line) > LINE or height(picture) > LOW:
        picture.unshown = line
    elif line:
        picture.lines.append(line)
    return []


def height(picture: Slide) -> int:
    """Return the pixels of a picture, 200 an inch, from above to below."""
    return int(re.search(r'height="(\d+)"', picture.body)[1])


def width(picture: Slide) -> int:
    return int(re.search(r'width="(\d+)"', picture.body)[1])


def joined(slides: list[Slide]) -> list[Slide]:
    """Return the slides with a sentence in bold at the end of the slide that it follows, where both have room."""
    found = []
    for slide in slides:
        last = found[-1] if found else None
        if last and slide.kind == "rule" and last.kind in JOINED and "<details" not in last.body:
            both = re.sub(r"<[^>]*>", " ", f"{last.title} {last.body} {slide.title} {slide.body}").split()
            if len(both) + 4 * len(re.findall("<tr|<li|<math display|<span", last.body)) <= TOGETHER:
                last.body += f'{slide.body}<p class="rule">{slide.title}</p>'
                last.notes += slide.notes
                continue
        found.append(slide)
    return found


def kept_company(slides: list[Slide]) -> list[Slide]:
    """Return the slides with each lone sentence in bold that answers no question on the slide before it."""
    found = []
    for slide in slides:
        last = found[-1] if found else None
        alone = slide.kind == "rule" and not slide.body and not slide.asked
        if alone and last and last.kind == "picture" and height(last) <= LOW - LESS * (letters(slide.title) > LINE):
            last.lines = [slide.title]  # it counts more than what stood there, which the speaker says
            last.says.append(f"<p><strong>{slide.title}</strong></p>")
        elif alone and last and last.kind in (*JOINED, "part", "debrief"):
            last.body += f'<p class="rule">{slide.title}</p>'
        else:
            found.append(slide)
            continue
        last.notes += slide.notes
    return found


def with_what_follows(slides: list[Slide]) -> list[Slide]:
    """Return the slides with the few words that open a part above the table, list or formula that comes next."""
    found = []
    for slide, after in zip(slides, [*slides[1:], None], strict=True):
        words = len(re.sub(r"<[^>]*>", " ", slide.body).split())
        opens = slide.kind == "part" and words <= WORDS and not slide.beside
        if opens and after and after.kind in ("text", "formula") and not after.over:
            after.body, after.begins = slide.body + after.body, True
            after.notes = slide.notes + after.notes
        else:
            found.append(slide)
    return found


def answered(slides: list[Slide]) -> list[Slide]:
    """Return the slides with the answer to each guess right after it, or after the pictures that one guesses from.

    A chapter may ask before an exercise and answer after it: a room is asked when the exercise is done.
    """
    found = list(slides)
    for guess in [slide for slide in slides if slide.over == YOURS]:
        answer = next((slide for slide in slides if slide.kind == "answer" and slide.over == guess.title), None)
        if answer is None:
            continue
        between = found[found.index(guess) + 1:found.index(answer)]
        done = [slide for slide in between if slide.kind == "exercise"]
        if done:
            found.remove(answer)
            found.remove(guess)
            place = found.index(done[-1]) + 1
            found[place:place] = [guess, answer]
        for picture in [one for one in between if one.kind == "picture" and not done]:
            picture.lines += [guess.title] * fit_under(picture, [guess.title])
    return found


def spoilers(slides: list[Slide]) -> list[str]:
    """Return the titles of slides that show the number of a guess's answer before the guess, which doesn't name it."""
    found = []
    for guess in [slide for slide in slides if slide.over == YOURS]:
        answer = next((slide for slide in slides if slide.kind == "answer" and slide.over == guess.title), None)
        number = re.search(r"\d[\d,.]*\d", answer.found) if answer else None
        if number is None:
            continue
        alone = re.compile(rf"(?<![\w.,-]){re.escape(number[0])}(?![\w]|[.,]\d)")
        for slide in slides[:slides.index(answer)]:
            words = re.sub(r"<[^>]*>", " ", " ".join([slide.title, slide.body, slide.above, *slide.lines]))
            named = alone.search(re.sub(r"<[^>]*>", " ", f"{guess.title} {guess.body}"))  # as a number that tempts
            if slide.kind not in ("exercise", "debrief") and not named and alone.search(words):
                found.append(f"{number[0]}: {slide.title}")
    return found


def cut_up(rule: str) -> list[str]:
    """Return the sentences of a rule; what is too long for a line is two sentences where it has a colon."""
    found = []
    for one in sentences(rule):
        first, colon, last = one.partition(": ") if letters(one) > LINE else (one, "", "")
        found += [f"{first}.", last[0].upper() + last[1:]] if colon else [one]
    return found


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text)


def letters(text: str) -> int:
    return len(re.sub(r"<[^>]*>", "", text))
