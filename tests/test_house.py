"""The house keeps its arrows: what each part may import, read from the files by docs/house.py."""

from __future__ import annotations

import ast
import importlib.util
from graphlib import CycleError, TopologicalSorter

import pytest
from PIL import Image

from exercises_tests.tools.chapters import ROOT


def _loaded():
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = _loaded()
FILES = house.files()
MODULES = {name: path for name, path in FILES.items() if path.suffix == ".py"}


def imports() -> list:
    """Return what is imported when the course runs. Not at the top of this file, which each worker of xdist reads."""
    return [found for found in house.imports() if found.how != "typing"]


def arrows(module: str, imported: str) -> list[str]:
    """Return, each as a line, the imports out of some packages into others; names are parted by spaces."""
    return [
        f"{one.module} imports {one.imported}"
        for one in imports()
        if inside(one.module, module) and inside(one.imported, imported)
    ]


def inside(module: str, packages: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages.split())


# Rules


def test_no_circle_of_imports_between_modules():
    above: dict[str, set[str]] = {}
    for one in imports():
        above.setdefault(one.module, set()).add(one.imported)
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_every_arrow_between_boxes_of_the_picture_goes_down_or_sideways():
    assert [pair for pair in house.drawn() if house.upward(*pair)] == []


def test_the_engine_imports_no_subject():
    below = "course_lib.engine course_lib.results course_lib.events course_lib.algorithms"
    assert [line for line in arrows("course_lib.engine", "course_lib exercises_tests solutions")
            if not inside(line.split()[-1], below)] == []


def test_plots_are_imported_by_notebooks_only():
    """Besides, by what is not in the house: docs/, tests/ and bench/."""
    assert [line for line in arrows("course_lib exercises_tests solutions", "course_lib.plots")
            if not line.startswith("course_lib.plots")] == []


def test_course_lib_imports_neither_the_checks_nor_the_solutions():
    assert arrows("course_lib", "exercises_tests solutions notebooks") == []


def test_nothing_imports_the_solutions():
    """`borrow` and the grader read them as files, because a handout has none; no name in a string either."""
    assert arrows("course_lib exercises_tests notebooks", "solutions") == []


def test_tools_checks_and_judging_do_not_import_grading():
    checks = [name for name in MODULES if house.room_of(name) == "chapters' checks"]
    users = " ".join(["exercises_tests.tools", "exercises_tests.judging", "exercises_tests.values", *checks])
    assert len(checks) >= 10
    assert arrows(users, "exercises_tests.grading") == []


def test_checks_do_not_import_each_other():
    """But one looks up, when a copy of an earlier version asks for them, the checks that moved to a later chapter."""
    checks = " ".join(name for name in MODULES if house.room_of(name) == "chapters' checks")
    moved = ["exercises_tests.ch02_collectives imports exercises_tests.ch10_the_network",
             "exercises_tests.ch07_fsdp imports exercises_tests.ch13_when_things_break"]
    assert arrows(checks, checks) == moved


def test_no_module_of_the_course_is_looked_up_in_sys_modules():
    found = []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call | ast.Subscript) and ast.unparse(node).startswith("sys.modules"):
                texts = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
                found += [f"{name}: {text}" for text in texts if inside(str(text), " ".join(house.OURS))]
    assert found == []


def test_every_file_begins_with_a_docstring():
    paths = [path for top in (*house.OURS, "docs", "tests", "bench") for path in (ROOT / top).rglob("*.py")]
    without = [path for path in paths if not ast.get_docstring(ast.parse(path.read_text()))]
    assert sorted(str(path.relative_to(ROOT)) for path in without) == []


def test_what_is_said_to_be_in_a_folder_is_there():
    block = (ROOT / "CONTRIBUTING.md").read_text().partition("## The house")[2].split("```")[1]
    top, named = "", []
    for line in block.strip().splitlines():
        top = "" if line[0] != " " else top or named[-1]
        named.append(top + line.split()[0])
    assert named and [name for name in named if not (ROOT / name).exists()] == []


# The picture


def told() -> list[str]:
    """Return the lines that are kept inside the committed picture."""
    return Image.open(house.PICTURE).text["Description"].splitlines()


def test_every_module_is_in_a_room_and_no_room_is_empty():
    rooms = house.rooms()
    assert rooms.get(None, {}) == {}, "name it in BOXES of docs/house.py"
    assert [room for room, paths in rooms.items() if not paths] == []


def test_every_module_that_a_room_names_is_there():
    stale = [pattern for room in house.ROOMS for pattern in room.patterns
             if "*" not in pattern and pattern not in FILES]
    assert stale == []


def test_the_picture_has_the_arrows_of_the_code():
    assert [line for line in told() if " -> " in line] == [
        line for line in house.as_text().splitlines() if " -> " in line
    ], "run: make house"


def test_the_picture_has_the_lines_of_the_code_or_nearly():
    """To a fifth, or a hundred lines, so that not every change of the code needs a new picture."""
    counted = [line.removesuffix(" lines").rpartition(": ") for line in told() if " -> " not in line]
    drawn = {room: int(count) for room, _, count in counted}
    now = {room: house.lines(paths) for room, paths in house.rooms().items()}
    assert drawn.keys() == now.keys(), "run: make house"
    far = {room: (drawn[room], now[room]) for room in now if abs(drawn[room] - now[room]) > max(100, now[room] / 5)}
    assert far == {}, "run: make house"


def test_every_arrow_that_is_not_drawn_is_made_by_those_that_are():
    reach = set(house.drawn())
    for _ in house.BOXES:
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c}
    box_of = {room.name: box.name for box in house.BOXES for room in box.rooms}
    pairs = {(box_of[a], box_of[b]) for a, b in house.arrows()}
    assert {(a, b) for a, b in pairs if a != b} <= reach


# How imports are read


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a.b", [("a.b", "at once")]),
        ("from a import b, c", [("a.b", "at once"), ("a.c", "at once")]),
        ("from . import b", [("p.b", "at once")]),
        ("try:\n    import a\nexcept ImportError:\n    pass", [("a", "at once")]),
        ("def f():\n    import a", [("a", "later")]),
        ("class A:\n    import a", [("a", "at once")]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", [("a", "typing"), ("b", "at once")]),
        ("import_module('course_lib.text')", [("course_lib.text", "later")]),
        ("run(['-m', 'course_lib.text:main'])", [("course_lib.text", "later")]),
        ("x = 'course_lib.text'", []),
        ("n = 'text'; import_module(f'course_lib.{n}')", [("course_lib.text", "later")]),
    ],
)
def test_an_import_is_found_and_told_how(text, names):
    assert sorted(house._named(ast.parse(text), "p")) == names
