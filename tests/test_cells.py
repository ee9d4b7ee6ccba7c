"""Which exercise cells an answer needs, and what is taken off the top of a cell."""

from __future__ import annotations

import pytest

from exercises_tests.grading.cells import binds, borrows, names_defined, needed, statements, without_magic

CELLS = {
    "ring": "from math import ceil\nSIZE = size()\n\ndef ring(dist, x):\n    return halves(x)[:SIZE]",
    "halves": "def halves(x):\n    return x[:ceil(len(x) / 2)]",
    "size": "def size():\n    return TABLE[0]",
    "table": "TABLE = [0]\nTABLE[0] = 2",
    "other": "def other(x):\n    return ring(x)\n\nwhile True:\n    pass",
}


def parsed(cells: dict[str, str]) -> dict:
    return {cell: statements(cell, text) for cell, text in cells.items()}


@pytest.mark.parametrize(
    ("name", "cells"),
    [("ring", {"ring", "halves", "size", "table"}), ("halves", {"halves", "ring", "size", "table"}),
     ("table", {"table"}), ("other", set(CELLS))],
)
def test_a_cell_is_needed_if_what_it_binds_is_mentioned(name, cells):
    assert needed(name, parsed(CELLS))[0] == cells


def test_a_cell_that_wraps_an_answer_is_needed():
    assert needed("f", parsed({"f": "def f(): pass", "g": "f = loud(f)", "h": "f()"}))[0] == {"f", "g"}


@pytest.mark.parametrize(
    ("text", "names"),
    [("a, *b = 1, 2", {"a", "b"}), ("import os.path as p, sys", {"p", "sys"}), ("t[0].x = 1", {"t"}), ("f(x)", set()),
     ("def f():\n    y = 1", {"f"}), ("if a:\n    class C: pass", {"C"}), ("for i in (j := x): pass", {"i", "j"})],
)
def test_the_names_that_a_statement_binds(text, names):
    (statement,) = statements("cell", text)
    assert binds(statement) == names


@pytest.mark.parametrize(
    ("text", "plain"),
    [("%%time\nx", "\nx"), ("\n  %%timeit -n 3\nx", "\n\nx"), ("%%capture\n%%time\nx", "\n\nx"), ("%time x", "%time x"),
     ("x\n%%time", "x\n%%time")],
)
def test_magics_on_top_of_a_cell_are_taken_off_and_lines_keep_their_numbers(text, plain):
    assert without_magic(text) == plain


def test_a_cell_that_nobody_can_parse_or_walk_binds_nothing_and_borrows_nothing():
    for text in ("def", "x = f(" + 3000 * "-" + "1)", 100_000 * "("):
        assert not borrows("total", text) and names_defined(text) <= {"x"}
