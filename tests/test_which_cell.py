"""Which run of a cell a check judges and a guess comes from, in a kernel that is told the cells' ids."""

from __future__ import annotations

import re

import pytest
from kernel import kernel

from course_lib import notebook
from exercises_tests.tools import lab
from exercises_tests.tools.chapters import ROOT

IMPORTS = """import torch
from course_lib import compare, run
from exercises_tests.ch00_start_here import check_even_to_odd
"""
ANSWER = "def even_to_odd(dist, number):\n    return number"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a cell in one kernel for all; return its words on one line."""
    with kernel(tmp_path_factory.mktemp("work")) as opened:
        opened.run(IMPORTS, "imports")
        yield lambda source, cell="": re.sub(r"\s+", " ", opened.run(source, cell))


def written(run, source: str) -> str:
    """Run the exercise's cell and return its number, as the notebook shows it."""
    run(source, "even_to_odd")
    return run("print(max(n for n, cell in enumerate(In) if 'def even_to_od' in cell and 'print' not in cell))").strip()


def checked(run) -> str:
    return run("check_even_to_odd(even_to_odd)", "check_even_to_odd")


def test_an_answer_that_is_a_number_is_told_so(run):
    run("even_to_odd = 3", "even_to_odd")
    assert "even_to_odd is 3, not a function" in checked(run)


def test_a_syntax_error_is_said_of_the_cell_that_has_it(run):
    written(run, ANSWER)
    number = written(run, ANSWER.replace("):", ")"))
    assert f"Cell [{number}], where you write it, has a syntax error" in checked(run)


def test_an_answer_that_has_not_been_run_again_is_said_to_be_judged_again(run):
    number = written(run, ANSWER)
    assert "judged" not in checked(run).lower()
    assert f"Judged again: what cell [{number}] defined. If you have changed it since, run its cell" in checked(run)
    written(run, ANSWER)
    assert "Judged again" not in checked(run)


def test_a_cell_that_defines_another_name_by_now_is_named(run):
    number = written(run, ANSWER)
    written(run, ANSWER.replace("to_odd", "to_od"))
    said = checked(run)
    assert f"Its cell no longer defines even_to_odd: judged is what cell [{number}] defined" in said
    written(run, ANSWER)
    assert "no longer" not in checked(run)


@pytest.mark.parametrize(("source", "cell"), [
    ("print(numbers)", "fails"), ("print(sum(numbers for _ in [1]))", ""), ("run(lambda dist: numbers, ranks=1)", ""),
])  # fmt: skip
def test_a_name_that_an_earlier_cell_makes_is_said_to_come_from_there(run, source, cell):
    said = run(source, cell)
    assert "`numbers` is made in an earlier cell: Run > Run All Above Selected Cell" in said
    assert "Traceback" not in said and said.count("line 1") == 1


def test_an_exercise_that_is_not_written_is_named_as_one(run):
    said = run("run(lambda dist: sum_on_every_rank(dist, 1), ranks=1)", "small_sum")
    assert "`sum_on_every_rank` is an exercise that is not written or not run yet: write it, or borrow it, and " in said


@pytest.mark.parametrize(("guess", "cell", "write"), [
    ("guess_million", "ping_pong_times", "a number"), ("guess_traces", "named_traces", "your letters")])  # fmt: skip
def test_a_guess_whose_cell_has_not_run_is_told_to_be_written_there(run, guess, cell, write):
    said = run(f"compare({guess}, 3)", cell)
    assert f"`{guess}` is a guess in the cell above: write {write} in place of None, and run that cell" in said
    assert "exercise" not in said and "Traceback" not in said


def test_a_name_that_is_made_below_or_missing_in_an_answer_is_not_said_to_be_made_above(run):
    assert "earlier" not in run("print(numbers)", "guess_float")
    assert "earlier" not in run("print(numbers)", "exchange")


def test_after_the_first_picture_a_missing_import_is_told_already(tmp_path):
    with kernel(tmp_path) as opened:
        opened.run("import course_lib.plots")
        assert "`Cluster` comes from the cell with the imports" in opened.run("Cluster()", "growth")


@pytest.mark.parametrize("name", ["Cluster", "check_ring_all_reduce"])
def test_in_a_fresh_kernel_a_name_of_the_imports_is_told_where_it_comes_from(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PYTHONSTARTUP", lab.prepared(["--allow-root"], ROOT, {}).environment["PYTHONSTARTUP"])
    with kernel(tmp_path) as opened:
        said = opened.run(name, "crossover")
        assert f"`{name}` comes from the cell with the imports, near the top of the chapter: run it first" in said
        assert "Traceback" not in said and "_told" not in opened.run("print(dir())")


@pytest.mark.parametrize(("word", "cell", "told"), [
    ("eight", "guess_sum", "eight is a word: write 8"), ("many", "guess_sum", "many is a word: write a number"),
    ("DFMPT", "guess_traces", 'DFMPT has no quotes: write "DFMPT"'),
])  # fmt: skip
def test_a_guess_in_a_bare_word_is_told_one_thing_to_write(run, word, cell, told):
    assert re.search(f"NameError: {told} line 1 .{{,20}}: {cell} = {word}", run(f"{cell} = {word}", cell))


@pytest.mark.parametrize(("source", "told"), [
    ("guess_bytes = 1,5", "(1, 5) is two numbers: Python reads a comma so. Write 1.5 for one and a half, and 1500 for "
                          "1,500. Then run this cell again."),
    ("guess_bytes = 'many'", "'many' is not a number: write one. Then run this cell again."),
    ("guess_bytes = '2 GB'", "'2 GB' is 2000 MB: write 2000. Then run this cell again."),
    ("guess_sum = 56 ms", "56 ms is 56000 µs: write 56000. Then run this cell again."),
    ("guess_growth = '56 MB'", "'56 MB' is a number of bytes: write the number alone. Then run this cell again."),
])  # fmt: skip
def test_a_guess_that_cannot_be_read_is_told_so_below_its_own_cell(run, source, told):
    run("import course_lib")
    assert told in run(source, source.split()[0])


@pytest.mark.parametrize("typed", ["'16x'", "'0.65 s'", "1,5"])
def test_what_is_told_below_the_guess_is_not_told_again_where_it_is_compared(run, typed):
    run("from course_lib import compare")
    said = run(f"guess_growth = {typed}", "guess_growth").strip().removesuffix(". Then run this cell again.")
    told, again = (run("compare(guess_growth, 21, 'times')").strip() for _ in range(2))
    assert told == notebook.ABOVE and again == f"{said} measured 21 times"


@pytest.mark.parametrize("source", ["guess_bytes = 56", "guess_bytes = -1.5", "guess_bytes = None",
                                    "guess_traces = 'DFMPT'", "guess_bytes = 2e3  # '2 GB'"])
def test_a_guess_that_can_be_read_is_told_nothing_below_its_own_cell(run, source):
    run("import course_lib")
    assert run(source, source.split()[0]).strip() == ""


@pytest.mark.parametrize("failing", ["guess_x = six", "guess_x = 6 MB", "guess_x = 1,5; 1 / 0"])
def test_a_guess_is_forgotten_when_its_cell_fails(run, failing):
    run("guess_x = 5", "guess_x")
    assert "guess 5" in run("compare(guess_x, 6)")
    run(failing, "guess_x")
    told, again = (run(f"compare(guess_x, 6, {failing!r})").strip() for _ in range(2))
    above = told == notebook.ABOVE and "MB" in failing  # which is told below the guess
    assert above or told.startswith("The cell of your guess stopped with an error") and "measured" not in told
    assert "measured 6" in again
