"""Which cells of a notebook fail where one exercise alone is not written, read from their text: for the tests."""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Iterator
from types import CodeType

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def fails(cells: list, exercise: str) -> Iterator[tuple[object, list[str]]]:
    """Yield each code cell that would fail, with the names it misses: none where it stops at the exercise itself.

    A cell stops at the first statement that calls what leads to the exercise, and later cells miss what the rest of it
    would have bound.
    """
    bound: set[str] = set(dir(builtins))
    leads: dict[str, set[str]] = {}  # from a name to those that what it stands for looks up when it is called
    for cell in cells:
        for statement in ast.parse(cell.source).body:
            now, later, new = names(statement)
            defines = isinstance(statement, DEFINITIONS)
            calls = not defines and any(isinstance(node, ast.Call) for node in ast.walk(statement))
            meant = reached(now | later, leads) if calls else now
            missing = sorted(now - bound) or sorted(set() if exercise in meant else meant - bound - new)
            if missing or (calls and exercise in meant):
                yield cell, missing
                break
            bound |= new
            leads |= dict.fromkeys(new, set() if calls or exercise in new else now | later)


def names(statement: ast.stmt) -> tuple[set[str], set[str], set[str]]:
    """Return the names that a statement looks up at once, those that functions in it look up, and those it binds."""
    code = compile(ast.Module([statement], []), "cell", "exec")
    now, new = looked_up(code)
    return now, set().union(*map(within, inner(code))), new


def within(code: CodeType) -> set[str]:
    """Return the names of the notebook that code looks up, and code in it."""
    return looked_up(code)[0].union(*map(within, inner(code)))


def inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def looked_up(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names that code looks up outside of functions before it has bound them, and those that it binds."""
    found, new = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in new:
            found.add(step.argval)
        elif step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            new.add(step.argval)
    return found, new


def reached(first: set[str], leads: dict[str, set[str]]) -> set[str]:
    """Return these names and all that they lead to."""
    seen: set[str] = set()
    while first:
        seen |= first
        first = set().union(*(leads.get(name, set()) for name in first)) - seen
    return seen
