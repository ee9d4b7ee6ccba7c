"""Draws the house, which part of the course imports which, as the code says it: python docs/house.py

Imports are read with ast, in the files as they lie there, and nothing is run. Importing the modules and looking at
`sys.modules` would be shorter, but would miss what a function imports when it is called.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, SMALLEST, YELLOW

ROOT = Path(__file__).resolve().parents[1]
PICTURE = Path(__file__).with_name("house.png")
OURS = ("course_lib", "exercises_tests", "solutions")  # docs/, bench/ and tests/ may import whatever they like


# What is read


class Import(NamedTuple):
    """One module imports another: "at once", "later" (in a function, or by a name in a string), or for "typing"."""

    module: str
    imported: str
    how: str


def name_of(path: Path) -> str:
    """Return the name under which a file is imported; a notebook's is made in the same way."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def files() -> dict[str, Path]:
    """Return every module and notebook of the course."""
    found = [*(path for top in OURS for path in (ROOT / top).rglob("*.py")), *ROOT.glob("notebooks/*.ipynb")]
    return {name_of(path): path for path in sorted(found)}


def source(path: Path) -> str:
    """Return a module's text, or the code cells of a notebook without what only IPython understands."""
    if path.suffix == ".py":
        return path.read_text()
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return re.sub(r"^\s*[%!].*$", "", "\n".join("".join(cell["source"]) for cell in cells), flags=re.MULTILINE)


@cache
def imports() -> list[Import]:
    """Return what the modules of the course import of each other."""
    known, found = files(), set()
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for imported, how in _named(ast.parse(source(path)), package):
            target = next((full for full in (imported, imported.rpartition(".")[0]) if full in known), None)
            if target and target != name:
                found.add(Import(name, target, how))
    return sorted(found)


def _named(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    """Yield every name that is imported, `module` or `module.name`, and how."""
    todo: list[tuple[ast.AST, str]] = [(tree, "at once")]
    while todo:
        node, how = todo.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, how) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package or None)
            yield from ((f"{module}.{alias.name}", how) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            how = "later" if how == "at once" else how
        elif isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING":
            todo += [(inner, "typing") for inner in node.body]
            todo += [(inner, how) for inner in node.orelse]
            continue
        todo += [(inner, how) for inner in ast.iter_child_nodes(node)]
    yield from ((name, "later") for name in _in_strings(tree))


def _in_strings(tree: ast.Module) -> Iterator[str]:
    """Yield names of modules in the strings of a file that imports by name, or starts a Python with "-m".

    f"package.{name}" stands for all names that the file's own strings make of it; if they make none, for the chapters.
    """
    nodes = list(ast.walk(tree))
    calls = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in nodes if isinstance(node, ast.Call)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if "import_module" not in calls and "-m" not in texts:
        return
    yield from (text.partition(":")[0] for text in texts if re.fullmatch(r"\w+(\.\w+)+(:\w+)?", text))
    known = files()
    for node in nodes:
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            start = node.values[0].value
            made = [start + text for text in texts if start + text in known and not text.startswith("_")]
            yield from made or [name for name in known if name.startswith(f"{start}ch")]


# The parts


class Room(NamedTuple):
    """One part of the course: its name, and which modules are in it; the first room that fits is a module's own."""

    name: str
    patterns: tuple[str, ...]


class Box(NamedTuple):
    """What the picture shows as one: its rooms, what is said of it, its colour, and where it stands."""

    name: str
    says: str
    colour: str
    place: tuple[float, float, float, float]  # left, bottom, width, height
    rooms: tuple[Room, ...]


def _one(name: str, says: str, colour: str, place: tuple[float, float, float, float], *patterns: str) -> Box:
    return Box(name, says, colour, place, (Room(name, patterns),))


BOXES = (
    _one("notebooks", "the chapters, as learners work in them", ORANGE, (2, 86, 96, 6.5), "notebooks.*"),
    _one("solutions", "the answers", ORANGE, (62, 67, 19.5, 6.5), "solutions.*"),
    _one("chapters' checks", "what an answer must do,\nand the mistakes\nthat are known", GREEN, (2, 67, 28, 15),
         "exercises_tests.ch[0-9]*"),
    _one("judging", "the vocabulary\nof all checks", GREEN, (2, 56.5, 21, 8.5), "exercises_tests.judging",
         "exercises_tests.values", "exercises_tests.homes", "exercises_tests.seeds"),
    _one("commands", "make lab, grade, script …", GREEN, (33.5, 75.5, 25, 6.5), "exercises_tests",
         "exercises_tests.__main__"),
    _one("grading", "untrusted code, isolated", GREEN, (33.5, 67, 25, 6.5), "exercises_tests.grading*"),
    _one("tools", "a learner's folder; the\nplugin of pytest", GREEN, (33.5, 56.5, 25, 8.5),
         "exercises_tests.tools*"),
    _one("plots", "every picture", PURPLE, (81.5, 43.5, 16.5, 6.5), "course_lib.plots*"),
    Box("subjects", "what the chapters are about", SKY, (13, 39, 66.5, 11), (
        Room("lessons", ("course_lib.lessons*",)),
        Room("schedules", ("course_lib.schedules*",)),
        Room("serving", ("course_lib.serving*",)),
        Room("models and text", ("course_lib.gpt", "course_lib.mixture", "course_lib.llama", "course_lib.gguf_file",
                                 "course_lib.training", "course_lib.text", "course_lib.folder")),
    )),
    _one("the face: what you call", "{modules}, and in one line: from course_lib import run, Cluster, …", YELLOW,
         (2, 29.5, 77.5, 6.5), "course_lib", "course_lib.ranks", "course_lib.cluster", "course_lib.notebook",
         "course_lib.short_errors", "course_lib.slips"),
    Box("engine", "how it works: you need not read this", GREY, (2, 13, 62, 13.5), (
        Room("engine/processes", ("course_lib.engine.processes*",)),
        Room("engine/simulated", ("course_lib.engine.simulated*",)),
        Room("engine/*.py", ("course_lib.engine*",)),
    )),
    _one("the face: what you get", "what comes back, and what is sent: {modules}", YELLOW,
         (2, 3.5, 62, 6.5), "course_lib.results", "course_lib.events", "course_lib.algorithms", "course_lib.cards",
         "course_lib.chapter_names"),
    _one("numbers", "costs · memory · hardware\nmodels · served · measured · planning\nneither torch nor ranks", BLUE,
         (68, 13, 30, 13.5), "course_lib.hardware*", "course_lib.models", "course_lib.served", "course_lib.measured",
         "course_lib.costs*", "course_lib.memory*", "course_lib.planning*"),
)
LEGEND = (
    "An arrow: something in the box imports something in the other (dashed: only in a function, or by name in a\n"
    "string). Where a chain of arrows leads to the same box, no further arrow is drawn. Lines are those of Python,\n"
    "rounded to hundreds; of notebooks, those of their cells of code."
)
FRAMES = (("exercises_tests/", (0, 53.8, 60, 29.7)), ("course_lib/", (0, 1.5, 100, 50.8)))
BOX = {box.name: box for box in BOXES}
ROOMS = tuple(room for box in BOXES for room in box.rooms)


def room_of(module: str) -> str | None:
    """Return the name of the room that a module is in."""
    fits = (room.name for room in ROOMS if any(fnmatchcase(module, pattern) for pattern in room.patterns))
    return next(fits, None)


def rooms() -> dict[str, dict[str, Path]]:
    """Return the files of each room by the names of the modules."""
    found: dict[str, dict[str, Path]] = {room.name: {} for room in ROOMS}
    for module, path in files().items():
        found.setdefault(room_of(module), {})[module] = path
    return found


def lines(paths: dict[str, Path]) -> int:
    """Return the lines of Python in files; in a notebook, those in its code cells."""
    return sum(len(source(path).splitlines()) for path in paths.values())


def arrows() -> dict[tuple[str, str], str]:
    """Return which room imports which, "at once" or only "later"; what is for typing only is left out."""
    found: dict[tuple[str, str], str] = {}
    for module, imported, how in imports():
        pair = room_of(module), room_of(imported)
        if pair[0] != pair[1] and how != "typing" and found.get(pair) != "at once":
            found[pair] = how
    return dict(sorted(found.items(), key=str))


def drawn() -> dict[tuple[str, str], str]:
    """Return the arrows between boxes, without those that two or more others already make by way of a box between."""
    box_of = {room.name: box.name for box in BOXES for room in box.rooms}
    found: dict[tuple[str, str], str] = {}
    for (room, other), how in arrows().items():
        pair = box_of[room], box_of[other]
        if pair[0] != pair[1] and found.get(pair) != "at once":
            found[pair] = how
    reach = {pair for pair in found if not upward(*pair)}
    names = [box.name for box in BOXES]
    for middle, name, other in product(names, names, names):  # Warshall's order: the middle outermost
        if (name, middle) in reach and (middle, other) in reach:
            reach.add((name, other))
    return {(name, other): how for (name, other), how in found.items()
            if not any((name, middle) in reach and (middle, other) in reach for middle in names)}


def upward(name: str, other: str) -> bool:
    """Return whether an arrow climbs, which none should."""
    (_, low, _, height), (_, bottom, _, _) = (BOX[end].place for end in (name, other))
    return bottom >= low + height


# The picture


def draw() -> Axes:
    """Draw the boxes, the lines in each, and the arrows."""
    figure, ax = plt.subplots(figsize=(9, 9))
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99)
    ax.set(xlim=(-0.5, 100.5), ylim=(-6, 93.5))
    ax.axis("off")
    for name, (left, bottom, width, height) in FRAMES:
        ax.add_patch(Rectangle((left, bottom), width, height, facecolor="#f2f2f2", zorder=0))
        ax.text(left + width - 1, bottom + 0.5, name, ha="right", va="bottom", fontsize=SMALLEST + 1)
    found = rooms()
    for box in BOXES:
        _draw_box(ax, box, found)
    taken: list[float] = []
    for (name, other), how in drawn().items():
        taken.append(_draw_arrow(ax, BOX[name], BOX[other], how, taken))
    ax.text(0, -0.5, LEGEND, va="top", fontsize=SMALLEST, linespacing=1.4)
    return ax


def about(count: int) -> str:
    """Return a number of lines, rounded to hundreds, so that a new line does not make the picture wrong."""
    return f"{max(round(count, -2), 100):,} lines"


def _draw_box(ax: Axes, box: Box, found: dict[str, dict[str, Path]]) -> None:
    left, bottom, width, height = box.place
    face, top = box.colour == YELLOW, bottom + height - 1
    look = {"edgecolor": "black" if face else box.colour, "linewidth": 2.4 if face else 1.2}
    for colour in ("white", (box.colour, 0.8 if face else 0.2)):  # the same tint on whatever lies below
        ax.add_patch(FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.8", zorder=2,
                                    facecolor=colour, **look))
    paths = {name: path for room in box.rooms for name, path in found[room.name].items()}
    stems = dict.fromkeys(name.split(".")[1] for name in paths if "." in name)
    ax.text(left + 1.2, top, box.name, va="top", fontsize=SMALLEST + 2, weight="bold", zorder=3)
    ax.text(left + width - 1.2, top - 0.2, about(lines(paths)), ha="right", va="top", fontsize=SMALLEST, zorder=3)
    says = box.says.format(modules=" · ".join(stems))
    ax.text(left + 1.2, top - 2.6, says, va="top", fontsize=SMALLEST, zorder=3, linespacing=1.3)
    wide, high = (width - 2) / len(box.rooms), height - 6.6
    for at, room in enumerate(box.rooms if len(box.rooms) > 1 else ()):
        x, y = left + 1 + at * wide, bottom + 0.8
        ax.add_patch(Rectangle((x + 0.4, y), wide - 0.8, high, zorder=2, facecolor="white"))
        ax.text(x + wide / 2, y + high / 2, f"{room.name}\n{about(lines(found[room.name]))}", ha="center", va="center",
                fontsize=SMALLEST, zorder=3)


def _draw_arrow(ax: Axes, box: Box, other: Box, how: str, taken: list[float]) -> float:
    """Draw an arrow where it crosses no box and lies on no arrow drawn before; return where it leaves."""
    (left, low, width, height), (left2, low2, width2, height2) = box.place, other.place
    look = {"arrowstyle": "-|>", "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14,
            "color": RED if upward(box.name, other.name) else "black", "linestyle": "-" if how == "at once" else "--"}
    if low < low2 + height2 and low2 < low + height:  # side by side
        y = (max(low, low2) + min(low + height, low2 + height2)) / 2
        start, end = ((left, y), (left2 + width2, y)) if left2 < left else ((left + width, y), (left2, y))
    else:
        up = low2 > low
        begin, stop = (low + height, low2) if up else (low, low2 + height2)
        first, last = max(left, left2) + 1, min(left + width, left2 + width2) - 1
        middle = (first + last) / 2
        between = [b.place for b in BOXES if b not in (box, other)
                   and b.place[1] < max(begin, stop) and b.place[1] + b.place[3] > min(begin, stop)]
        free = [x for x in (first + (last - first) * i / 40 for i in range(41))
                if all(abs(x - other_x) > 3 for other_x in taken)
                and not any(b[0] - 1 < x < b[0] + b[2] + 1 for b in between)]
        x = min(free, key=lambda x: abs(x - middle)) if first < last and free else None
        start, end = ((x, begin), (x, stop)) if x else ((left + width / 2, begin), (left2 + width2 / 2, stop))
    ax.annotate("", end, start, arrowprops=look, zorder=4)
    return start[0]


def table() -> str:
    """Return one line a room: its files, its lines, and what it imports."""
    text = [f"{'':<24}files   lines   imports (in brackets: only in a function, or by name in a string)"]
    for room, paths in rooms().items():
        to = ", ".join(other if how == "at once" else f"({other})" for (one, other), how in arrows().items()
                       if one == room)
        text.append(f"{room:<24}{len(paths):>5}{lines(paths):>8,}   {to}")
    return "\n".join(text)


def as_text() -> str:
    """Return what the picture tells, as it is kept inside the file: a line for each room, a line for each arrow."""
    counted = [f"{room}: {lines(paths)} lines" for room, paths in rooms().items()]
    return "\n".join(counted + [f"{room} -> {other}, {how}" for (room, other), how in arrows().items()])


if __name__ == "__main__":
    for stray, path in rooms().get(None, {}).items():
        raise SystemExit(f"{path.relative_to(ROOT)} is in no room: name {stray} in BOXES of docs/house.py")
    draw().figure.savefig(PICTURE, dpi=110, metadata={"Description": as_text()})
    print(table())
