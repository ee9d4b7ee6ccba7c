"""Turns a chapter that has run into a page of the book: guesses first, answers folded, sliders that play, links.

A page is a notebook again, which myst-nb reads; what it would not know how to show becomes HTML here.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import io
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from PIL import Image
from veils import FRAME, Veils, rounded

from course_lib.plots.slider_widget import player
from course_lib.plots.sliders import FRAMES
from exercises_tests.tools.chapters import Chapter, tagged, tags
from exercises_tests.tools.course_map import number

WIDGET = "application/vnd.jupyter.widget-view+json"
PICTURES = "_static/pictures"  # beside the pages
FENCE = re.compile(r"^(```.*?^```|~~~.*?^~~~)\s*?$", re.MULTILINE | re.DOTALL)
MATH = re.compile(r"\$\$.*?\$\$|(?<![\\$])\$(?!\s)[^$\n]+?(?<!\s)\$(?!\d)", re.DOTALL)
CHECKED = "What the check says of a right answer"
ALL_STEPS = "All steps at once"
CODE = "The code"
DRAWS_ONLY = "Code of this picture"
ONE_CALL = "remove-input"  # in place of that fold, where it would hold one call and what this imports: a tag of myst-nb
PLUMBING = "plumbing"  # tag of a cell whose code book.js shows to those who want all code
QUIET = "quiet"  # tag of a cell whose code is folded below what it puts out
LONG, LONGEST = 8, 15  # lines of code that a reader scrolls past: of a cell, and of one that defines something
SHOWS = {"print", "compare", "explore", "display", "progress"}  # with what course_lib.plots has, calls that only show
BET = re.compile(r"^\w+ = None  # your choice: .*(?:\n+|\Z)", re.MULTILINE)
ABOVE = re.compile(r"\bcode below\b")
OF_A_PICTURE = re.compile(r"\b[Tt]he (?:lower |upper |right )?picture\b|\b[Dd]otted\b|\b[Hh]atched\b")
EMBEDDED = re.compile(r'src="data:image/png;base64,([^"]+)"')
IN_A_NOTEBOOK = re.compile(r" +# (?:not found\? .*%pip install .*|Shift\+Enter .*)$", re.MULTILINE)
NEEDED = re.compile(r" \((?:The|This) cell (?:below )?needs [^()]*\)")
REWORDED = {  # what tells how to work in a notebook, and how it is on a page
    "Run the cells from top to bottom with Shift+Enter. Three kinds of cells want something from you:":
        "Three things stand in each chapter:",
    "- **A guess**, written `guess_... = None`. Put your number in the place of `None`. The next cell tells you":
        "- **A guess**: a box for your number. Press Enter in it, or Compare beside it, and you are told",
    "- **A check** below each exercise. It says whether your function is right and, if not, which mistake it makes.":
        "- **An answer** to each exercise, which is folded here. In the notebook a check stands below each exercise, "
        "and says which mistake your function makes.",
    "In the notebook, click the grey cell below and press Shift+Enter. It draws four of these copies.":
        "The picture shows four of these copies.",
    "Then run the check. If you are stuck": "In the notebook a check stands below each exercise. If you are stuck",
    "The last one, `borrow`, fetches the course's answer for no points. After you have passed, "
    '`solution("even_to_odd")` shows that answer.': "Below them the course's answer is folded.",
    "and this notebook is one.": "and the notebook that runs this chapter is one.",
    "know nothing of this notebook": "know nothing of the notebook",
    "The picture after it shows all six steps.": "Unfold the line below it to see all six steps at once.",
    "Where a cell says `guess_... = None`, put in your own number before you run the next cell.":
        "Where there is a box for a guess, put in your own number before you open what was measured.",
    "Write your bet into the next cell. The one below it prices all three by":
        "Place your bet. Then see their prices by",
    "Decide, then run the cell:": "Decide, then look:",
    "Put in your guess, run both cells, and look": "Put in your guess, and look",
    "Run both cells, and look": "Look",
    "Before you run it": "Before you look",
    "replace `guess=None` by what you expect": "decide what you expect",
    '`"error"` or `"right"`), and run it.': '`"error"` or `"right"`), and look below it.',
    "If your ratio is above 1.5, the computer is busy: run the cell again.":
        "A ratio above 1.5 means that the computer was busy.",
    "a line that you can run in a new cell to": "a line that you can run in the notebook to",
    "writes the first cell for `torchrun`": "writes the code below for `torchrun`",
}
RUNNING = re.compile(  # sentences for those who wait for a cell, and a hint that hands out an answer to run on with
    r" ?\(The cell takes [^.()]*seconds\.\)| \(a few seconds\)|(?: |^)The next cell imports [^.]*\."
    r"|(?: |^)The cell takes [^.;]*seconds(?:\.|; its)"
    r"|(?: |^)(?:It|The first `run`) takes (?:some|\d+ to \d+) seconds[^.]*\."
    r"|, after this cell of imports|<details><summary>Hint \d: borrow it</summary>.*?</details>\n*",
    re.MULTILINE | re.DOTALL)
DRAWS = re.compile(r"\b([Tt])he (?:code below draws|lines below draw)\b")  # which is hidden from those who only read
BELOW = re.compile(r"\b([Tt]he (?:code|lines)) below\b")
CELL = re.compile(r"\b([Tt])h(?:e|is) (next cells|next cell|cells(?= print)|cell)(?: (above|below))?\b")


@dataclass(frozen=True)
class Book:
    """What a page may link to: the chapters that have a page, and where pictures are kept."""

    chapters: list[Chapter]
    source: Path
    course: list[Chapter] | None = None  # all chapters, also those without a page

    @cached_property
    def numbered(self) -> dict[int, Chapter]:
        return {number(chapter): chapter for chapter in self.chapters}

    @cached_property
    def exercises(self) -> dict[str, Chapter]:
        """Return the chapter of each exercise whose name only one chapter has."""
        found: dict[str, list[Chapter]] = {}
        for chapter in self.chapters:
            for exercise in chapter.exercises:
                found.setdefault(exercise.id, []).append(chapter)
        return {name: owners[0] for name, owners in found.items() if len(owners) == 1}

    def keep(self, png: bytes) -> str:
        """Keep a picture; return its address."""
        return f"{PICTURES}/{kept_picture(png, self.source / PICTURES).name}"


def kept_picture(png: bytes, folder: Path) -> Path:
    """Keep a picture in a folder, smaller than the PNG and just as sharp; return its file.

    Without losses `quality` is how hard the encoder tries: 0 takes half the time of the default and a fifth more bytes.
    """
    path = folder / f"{hashlib.sha256(png).hexdigest()[:16]}.webp"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        Image.open(io.BytesIO(png)).convert("RGB").save(path, "WEBP", lossless=True, method=2, quality=0)
    return path


def label(chapter: Chapter, name: str) -> str:
    """Return the label of an exercise, or of the text in a cell."""
    return f"{chapter.name[:4]}-{name.replace('_', '-').lower()}"


def page(chapter: Chapter, notebook: NotebookNode, book: Book, answers: bool = True) -> NotebookNode:
    """Return a chapter that has run as a page."""
    stubs = {cell["id"]: cell.source for cell in tagged(chapter.notebook, "exercise")}
    made = Veils()
    asked, plots = asking(notebook), plot_names(notebook)
    said = later = ""  # the last text, and what it says of a picture that is folded
    questions = {cell["id"] for cell, field in pairwise(notebook.cells)
                 if cell.cell_type == "markdown" and "prediction" in tags(field)}
    drawing = only_draw(notebook, plots)
    unseen = before_plumbing(notebook, plots, drawing)
    kept: list[NotebookNode] = []  # the answer to an exercise, until its hints have been shown
    checked = False  # an exercise, whose frame ends below its hints and its answer
    steps = False  # a panel stands right above

    def ended(*hints: NotebookNode) -> None:
        nonlocal checked
        made.add(*hints, *kept)
        kept.clear()
        if checked:
            made.unframe()
        checked = False

    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.strip() == "progress()":  # of the answers, not of a reader
            continue
        if cell.cell_type == "markdown":
            said = text(cell.source, chapter, book, cell["id"])
            if cell["id"] in unseen:
                said = BELOW.sub(r"\1 for what follows", said)
            if cell["id"] in questions:
                said, later = told_later(said)
            rest = said
            if kept or checked:
                hints, rest = hints_first(said)
                ended(*([new_markdown_cell(hints, id=f"{cell['id']}-hints")] * bool(hints)))
            made.text(rest, cell["id"])
            steps = False
            continue
        if "check" not in tags(cell):
            ended()
        if cell["id"] in stubs and not any(f"({label(chapter, cell['id'])})=" in one.source for one in made.cells):
            to = f"({label(chapter, cell['id'])})=\nExercise `{cell['id']}`"  # an exercise without a heading of its own
            made.frame(cell["id"])
            made.add(new_markdown_cell(to, id=f"{cell['id']}-here"))
        if "prediction" in tags(cell):
            made.ask(cell, [line for line in cell.source.splitlines() if re.match(r"\w+\s*=", line)], later, said)
            later = ""
            continue
        if cell["id"] in stubs and answers:
            kept.append(new_markdown_cell(folded("An answer", cell.source, "answer"), id=f"{cell['id']}-answer"))
        elif bet := BET.search(cell.source):
            made.ask(cell, [bet[0].strip()])
            cell["source"] = BET.sub("", cell.source)
            if not cell.source:
                continue
        if names := asked.get(cell["id"]):
            if "**Predict" in said and ABOVE.search(said.rpartition("**Predict")[2]):  # the question is about this code
                made.cells.append(before(cell, names))
            made.answer(cell, names)
        fold = DRAWS_ONLY if cell["id"] in drawing else CODE if names or only_shows(cell, plots) else ""
        if fold == DRAWS_ONLY and one_call(cell):
            cell.metadata["tags"], fold = [*tags(cell), ONE_CALL], ""
        if cell["id"] not in drawing and "exercise" not in tags(cell) and plumbing(cell, plots):
            cell.metadata["tags"] = [*tags(cell), PLUMBING]
        once = steps and cell["id"] in drawing  # it shows what the panel has shown step by step
        steps = any(FRAMES in output.get("data", {}) for output in cell.outputs)
        cell = code(cell, stubs.get(cell["id"]), book, fold)
        made.add(*in_fold(ALL_STEPS, cell) if once else [cell])
        checked = "check" in tags(cell)
    made.add(*kept)
    made.end()
    return NotebookNode(nbformat=4, nbformat_minor=5, cells=made.cells, metadata={
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"}})


# Text


def text(source: str, chapter: Chapter, book: Book, name: str) -> str:
    """Return a text with links to chapters and exercises, and with a label before each heading."""
    parts, here = FENCE.split(reworded(source)), 0
    for place in range(0, len(parts), 2):  # what is between fenced code
        lines = []
        for line in linked(parts[place], chapter, book).split("\n"):
            if heading := re.match(r"(#{1,6}) (.*)", line):
                exercise = re.fullmatch(r"Exercise: `(\w+)`.*", heading[2])
                to = label(chapter, exercise[1] if exercise else f"at-{name}-{here}")
                here += 1
                lines.append(f"({to})=\n{line}" if heading[1] != "#" else f"({chapter.name[:4]})=\n{line}")
                lines += [f"\n{FRAME}\n"] * bool(exercise)
            else:
                lines.append(line)
        parts[place] = "\n".join(lines)
    whole = "".join(parts)
    hints, rest = hints_first(whole)
    return f"{hints}\n\n({label(chapter, f'in-{name}')})=\n{rest}" if rest else whole


def reworded(source: str) -> str:
    """Return a text for those who read and run nothing: a cell is the code or the lines below, and takes no time."""
    source = RUNNING.sub(lambda found: " Its" if found[0].endswith("its") else "", source)
    for words, instead in REWORDED.items():
        source = source.replace(words, instead)

    def on_a_page(cell: re.Match) -> str:
        where = "below" if "next" in cell[2] else cell[3]
        return f"{cell[1]}he {'lines' if 'cells' in cell[2] else 'code'}{f' {where}' if where else ''}"

    return DRAWS.sub(r"\1he picture below shows", CELL.sub(on_a_page, NEEDED.sub("", source)))


def linked(prose: str, chapter: Chapter, book: Book) -> str:
    """Return prose in which chapters, and other chapters' exercises, are links. Existing links lead to pages."""
    known, exercises = book.numbered, book.exercises
    held: list[str] = []

    def hold(written: str) -> str:
        held.append(written)
        return f"\0{len(held) - 1}\0"

    def existing(link: re.Match) -> str:
        to = re.fullmatch(r"(?:\./|\.\./\w+/)?(ch\d\d\w*)\.(?:ipynb|html)(#.*)?", link[2])
        if not to:
            return hold(link[0])
        there = any(other.name == to[1] for other in book.chapters)
        return hold(f"[{link[1]}](#{to[1][:4]})" if there else link[1])

    def chapters(found: re.Match) -> str:
        def one(digits: re.Match) -> str:
            there = known.get(int(digits[0]))
            away = there and there.name != chapter.name
            return hold(f"[{digits[0]}](#{there.name[:4]})") if away else digits[0]

        there = known.get(int(found[2])) if found[2].isdecimal() else None
        if there:  # one chapter: the link is on both words
            return found[0] if there.name == chapter.name else hold(f"[{found[0]}](#{there.name[:4]})")
        return found[1] + re.sub(r"\d+", one, found[2])

    def exercise(found: re.Match) -> str:
        owner = exercises.get(found[1])
        away = owner and owner.name != chapter.name
        return hold(f"[`{found[1]}`](#{label(owner, found[1])})") if away else hold(found[0])

    prose = MATH.sub(lambda found: hold(found[0]), prose)
    prose = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", existing, prose)
    prose = re.sub(r"^#.*$|<[^>\n]*>", lambda m: hold(m[0]), prose, flags=re.MULTILINE)
    prose = re.sub(r"``.+?``|`(\w+)`|`[^`\n]+`", lambda m: exercise(m) if m[1] else hold(m[0]), prose)
    prose = re.sub(r"\b([Cc]hapters? )(\d+(?:(?:, | and | or | to |, and )\d+)*)\b(?! of\b)", chapters, prose)
    while "\0" in prose:
        prose = re.sub(r"\0(\d+)\0", lambda m: held[int(m[1])], prose)
    return prose


# Code and what it puts out


def only_shows(cell: NotebookNode, plots: set[str]) -> bool:
    """Return whether a cell is not worth a reader's eyes before what it puts out: it only shows, or is long."""
    if "exercise" in tags(cell) or not cell.outputs:
        return False
    defines = any(isinstance(part, ast.FunctionDef | ast.ClassDef) for part in ast.parse(cell.source).body)
    return cell.source.count("\n") + 1 >= (LONGEST + 1 if defines else LONG) or plumbing(cell, plots)


def plumbing(cell: NotebookNode, plots: set[str]) -> bool:
    """Return whether a reader needs none of a cell's code: it imports, checks, or three lines of four only show."""
    if {"imports", "check"}.intersection(tags(cell)):
        return True
    body = ast.parse(cell.source).body
    lines = [part.end_lineno - part.lineno + 1 for part in body]
    showing = [many for part, many in zip(body, lines, strict=True)
               if isinstance(part, ast.Import | ast.ImportFrom) or shows(part, plots)]
    return bool(cell.outputs) and sum(showing) >= .75 * sum(lines)


def only_draw(notebook: NotebookNode, plots: set[str]) -> set[str]:
    """Return the cells that only draw.

    All that they put out are pictures, their last statement is a call that draws, and no code that stands open in the
    page uses a name that they define. Nothing in them teaches: no exercise is called, and a function that is defined
    is a formula, which is one `return`, or draws. (Where three lines of four only show, that is not asked.)
    """
    exercises = {cell["id"] for cell in tagged(notebook, "exercise")}
    asked, found, used = asking(notebook), set(), set()
    for cell in reversed([cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]):
        body = ast.parse(cell.source).body
        functions = [part for part in body if isinstance(part, ast.FunctionDef | ast.ClassDef)]
        targets = [target for part in body if isinstance(part, ast.Assign) for target in part.targets]
        defined = {part.name for part in functions} | {name for target in targets for name in named(target)}
        teaches = exercises & {name for part in body for name in named(part)} or not all(
            isinstance(part.body[-1], ast.Return) and (len(part.body) == 1 or draws(part.body[-1], plots))
            for part in functions)
        pictures = bool(cell.outputs) and all(map(is_picture, cell.outputs)) and draws(body[-1], plots)
        if pictures and not defined & used and (not teaches or plumbing(cell, plots)):
            found.add(cell["id"])
        elif cell["id"] not in asked and not only_shows(cell, plots):
            used |= {name for part in body for name in named(part) - named(part, ast.Store)}
    return found


def one_call(cell: NotebookNode) -> bool:
    """Return whether a cell is one call, and what it imports."""
    return sum(not isinstance(part, ast.Import | ast.ImportFrom) for part in ast.parse(cell.source).body) == 1


def named(part: ast.AST, way: type = ast.expr_context) -> set[str]:
    """Return the names in a piece of code, or only those that it writes (ast.Store)."""
    return {one.id for one in ast.walk(part) if isinstance(one, ast.Name) and isinstance(one.ctx, way)}


def draws(part: ast.stmt, plots: set[str]) -> bool:
    """Return whether a statement calls a picture, or returns one."""
    value = part.value if isinstance(part, ast.Expr | ast.Return) else None
    value = value.value if isinstance(value, ast.Subscript) else value
    called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
    return called in plots or called.startswith("plots.")


def is_picture(output: NotebookNode) -> bool:
    data = output.get("data", {})
    return FRAMES in data or "image/png" in data or "<img" in data.get("text/html", "")


def before_plumbing(notebook: NotebookNode, plots: set[str], drawing: set[str]) -> set[str]:
    """Return the texts whose next code, but for a guess, is hidden from those who only read."""
    found, texts = set(), []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            texts.append(cell["id"])
        elif "prediction" not in tags(cell):
            found.update(texts if cell["id"] in drawing or plumbing(cell, plots) else ())
            texts = []
    return found


def shows(part: ast.stmt, plots: set[str]) -> bool:
    """Return whether a statement is a call that prints, compares or draws."""
    if not isinstance(part, ast.Expr) or not isinstance(part.value, ast.Call):
        return False
    called = ast.unparse(part.value.func)
    return called in SHOWS | plots or called.startswith("plots.")


def plot_names(notebook: NotebookNode) -> set[str]:
    """Return what a chapter imports from the pictures."""
    parts = [part for cell in notebook.cells if cell.cell_type == "code" for part in ast.parse(cell.source).body]
    return {name.asname or name.name for part in parts if isinstance(part, ast.ImportFrom)
            and (part.module or "").startswith("course_lib.plots") for name in part.names}


def before(cell: NotebookNode, names: set[str]) -> NotebookNode:
    """Take from a cell its code before it compares with a guess, and return that as a cell of its own."""
    first = next(part.lineno for part in ast.parse(cell.source).body
                 if any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(part)))
    lines = cell.source.split("\n")
    cell["source"] = "\n".join(lines[first - 1:])
    return new_code_cell("\n".join(lines[:first - 1]).strip(), id=f"{cell['id']}-asked")


def code(cell: NotebookNode, stub: str | None, book: Book, fold: str) -> NotebookNode:
    """Return a cell of code as a page shows it; `fold` is what stands on the fold that its code is in, if any."""
    cell["outputs"] = [shown(output, book) for output in together(cell.outputs)]
    cell["execution_count"] = None
    cell["source"] = IN_A_NOTEBOOK.sub("", cell.source)
    if stub is not None:
        cell["source"] = stub
        return cell
    marks = [tag for tag in tags(cell) if tag != "raises-exception"]
    if "imports" in marks:
        cell.metadata["tags"] = [*marks, "hide-input"]
        cell.metadata["mystnb"] = {"code_prompt_show": "Imports", "code_prompt_hide": "Imports"}
    elif "check" in marks:  # the stub stands above, but the answer was run
        cell.metadata["tags"] = [*marks, "hide-output"]
        cell.metadata["mystnb"] = {"code_prompt_show": CHECKED, "code_prompt_hide": CHECKED}
    elif fold:
        cell.metadata["tags"] = [*marks, "hide-input", QUIET]
        cell.metadata["mystnb"] = {"code_prompt_show": fold, "code_prompt_hide": fold}
    return cell


def asking(notebook: NotebookNode) -> dict[str, set[str]]:
    """Return the guesses that cells compare with, by the cells' ids: these tell what was to be guessed."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and "exercise" not in tags(cell)]
    names = {name for cell in cells if "prediction" in tags(cell)
             for name in re.findall(r"^(\w+)\s*=", cell.source, re.MULTILINE)}
    found = {cell["id"]: names.intersection(re.findall(r"\w+", cell.source)) for cell in cells
             if "prediction" not in tags(cell)}
    return {name: guesses for name, guesses in found.items() if guesses}


def told_later(said: str) -> tuple[str, str]:
    """Return a text, and what it says after its question about the picture that answers it."""
    before, predict, question = said.rpartition("**Predict")
    parts = question.split("\n\n")
    later = [part for part in parts if predict and OF_A_PICTURE.search(part)]
    return before + predict + "\n\n".join(part for part in parts if part not in later), "\n\n".join(later)


def hints_first(said: str) -> tuple[str, str]:
    """Return the folded hints at the beginning of a text, and the rest, which may have folds of its own."""
    hints = re.match(r"(?:<details.*?</details>\s*)*", said, re.DOTALL)[0]
    return hints.strip(), said[len(hints) :].strip() if hints else said


def folded(title: str, source: str, kind: str = "") -> str:
    opened = f'<details class="{kind}">' if kind else "<details>"
    return f"{opened}<summary>{html.escape(title)}</summary>\n\n```python\n{source}\n```\n\n</details>"


def in_fold(title: str, cell: NotebookNode) -> list[NotebookNode]:
    """Return a cell between the ends of a fold."""
    return [new_markdown_cell(f"<details><summary>{html.escape(title)}</summary>", id=f"{cell['id']}-fold"), cell,
            new_markdown_cell("</details>", id=f"{cell['id']}-fold-end")]


def together(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs that need no kernel; what was written to one stream without a picture between is in one piece."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if WIDGET in output.get("data", {}) and "text/html" not in output.data:  # a progress bar at its beginning
            continue
        if joined and "text" in output and joined[-1].get("name") == output.name:
            joined[-1]["text"] += output.text
        else:
            joined.append(output)
    return joined


def shown(output: NotebookNode, book: Book) -> NotebookNode:
    """Return an output that needs no kernel and no widget, its pictures kept as files."""
    if "text" in output:  # a progress bar goes back to the beginning of its line
        output["text"] = unguessed(re.sub(r"^.*\r(?!\n)", "", output["text"], flags=re.MULTILINE))
        return output
    data = output.get("data", {})
    if FRAMES in data:
        return new_output("display_data", data={"text/html": panel(data[FRAMES], book)})
    page = data.get("text/html", "")
    if not page and "image/png" in data:
        wide = size(base64.b64decode(data["image/png"]))[0] // 2
        page = f'<img alt="" width="{wide}" src="data:image/png;base64,{data["image/png"].strip()}">'
    if page:
        page = EMBEDDED.sub(lambda found: lazy(base64.b64decode(found[1]), book), page)
        return new_output("display_data", data={"text/html": unguessed(page)})
    if isinstance(data.get("text/plain"), str):
        data["text/plain"] = unguessed(data["text/plain"])
    return output


def lazy(png: bytes, book: Book) -> str:
    """Return the attributes of a picture that is fetched when it is near; its height keeps the room for it until then.

    A picture is shown at half of its pixels (course_lib.plots.canvas).
    """
    return f'loading="lazy" height="{size(png)[1] // 2}" src="{book.keep(png)}"'


def size(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


def panel(drawn: dict, book: Book) -> str:
    """Return a picture under controls, as the notebook shows it, its frames kept as files."""
    def kept(address: str) -> str:
        return book.keep(base64.b64decode(address.partition(",")[2])) if address else ""

    return player(drawn, {key: {kind: kept(frame.get(kind, "")) for kind in ("src", "dark")}
                          for key, frame in drawn["frames"].items()})  # fmt: skip


def unguessed(said: str) -> str:
    """Return what `compare` said without the words that a page's reader has not guessed, its number as one says it."""
    if "no guess" in said:
        said = said.replace(">then<", ">the answer<")
        said = re.sub(r"^no guess.*$|<b>[^<]*</b>", lambda told: rounded(told[0]), said, flags=re.MULTILINE)
    return re.sub(r"^no guess\s+|<tr><th[^>]*>no guess</th>.*?</tr>", "", said, flags=re.MULTILINE)
