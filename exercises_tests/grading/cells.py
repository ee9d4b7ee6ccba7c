"""The text of exercise cells: its statements, the names that they bind and mention, and which cell needs which."""

from __future__ import annotations

import ast
import re

CELL = "cell "  # begins the file name of every cell
_CELL_MAGIC = re.compile(r"\A(\s*\n)?[ \t]*%%[^\n]*")


def filename(cell: str) -> str:
    """Return what a cell is called in tracebacks."""
    return CELL + cell


def without_magic(text: str) -> str:
    """Return a cell without the magics on top of it (`%%time`, `%%capture`); its other lines keep their numbers."""
    while (plain := _CELL_MAGIC.sub(r"\1", text)) != text:
        text = plain
    return text


def statements(cell: str, text: str) -> list[ast.stmt]:
    """Return the statements of a cell, IPython's own ones translated. Raises SyntaxError."""
    try:
        return ast.parse(text, filename(cell)).body
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        return ast.parse(TransformerManager().transform_cell(text), filename(cell)).body


def binds(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value at top level."""
    names: set[str] = set()
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if is_definition(node):
            names.add(node.name)
            continue
        if isinstance(getattr(node, "ctx", None), ast.Store):
            while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):  # table[0] = 1 changes what table is
                node = node.value
            names |= {node.id} if isinstance(node, ast.Name) else set()
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        todo += ast.iter_child_nodes(node)
    return names


def mentions(statement: ast.stmt) -> set[str]:
    """Return all names in a statement, however deep; also texts, which may be a name for `globals()`."""
    nodes = list(ast.walk(statement))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts | {node.id for node in nodes if isinstance(node, ast.Name)}


def needed(name: str, cells: dict[str, list[ast.stmt]]) -> tuple[set[str], set[str]]:
    """Return the cells that the answer `name` needs, and the names that are needed of them.

    A cell that binds a needed name is needed, and so are all names that its definitions mention.
    """
    wanted = {name, "*"}  # what `from math import *` binds cannot be seen here
    while True:
        found = {cell for cell, body in cells.items() if cell == name or any(binds(part) & wanted for part in body)}
        parts = [part for cell in found for part in cells[cell]]
        more = {word for part in parts if is_definition(part) or binds(part) & wanted for word in mentions(part)}
        if more <= wanted:
            return found, wanted
        wanted |= more


def is_definition(statement: ast.AST) -> bool:
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def borrows(name: str, text: str) -> bool:
    """Return whether a cell only borrows the solution: `name = borrow("name")`."""
    wanted = ast.dump(ast.parse(f"{name} = borrow({name!r})").body[0])
    try:
        return any(ast.dump(statement) == wanted for statement in _parsed(text))
    except RecursionError:  # nested so deeply that nobody borrows in it
        return False


def names_defined(text: str) -> set[str]:
    """Return the names that a cell binds at top level; empty if it does not parse."""
    return set().union(*map(binds, _parsed(text)))


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
