"""What a notebook shows of checks, guesses, progress and results: the words of the text, and a learner's escaped."""

from __future__ import annotations

import html
import re

import pytest

from course_lib import Cluster, cards, compare, progress, run
from course_lib.lessons.trace_quiz import judge_letters
from course_lib.notebook import Waits, remember
from course_lib.plots.traces import NAMES
from exercises_tests.homes import Homes
from exercises_tests.judging import CheckFailed, Outcome, check, expect


@pytest.fixture
def notebook(monkeypatch, tmp_path) -> list[dict]:
    """Pretend to be in a notebook; return what is displayed."""
    shown: list[dict] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    monkeypatch.setattr(cards, "_display", shown.append)
    return shown


def words(text: str) -> list[str]:
    """Return the words of a text, or of HTML as they are seen."""
    seen = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    seen = re.sub(r"<[^>]*>", " ", seen) if seen != text or "<div" in text else text
    return re.sub(r"[()]", " ", html.unescape(seen)).split()


@check(value=2, any_size=1)
def check_double(answer, part):
    part("value")
    expect(answer(2) == 4, f"double(2) is {answer(2)}, not 4\n    line 1 of cell 3: <b>", "value", see="double(2)")
    part("any size")
    return "doubles 2"


def double(number):
    return 2 * number


@pytest.mark.parametrize("answer", [double, lambda number: "<script>alert(1)</script>"])
def test_a_check_is_a_card_with_the_words_of_the_text(notebook, answer):
    outcome = check_double.outcome(answer)
    assert words(outcome.card()) == words(str(outcome))
    assert "<script>" not in outcome.card() and "<b>" not in outcome.card()


def test_in_a_card_a_part_that_was_not_reached_says_why():
    html = Outcome("ring", {"value": 1, "steps": 1}, sentence="Rank 0 waits.", code="value").card()
    assert html.count('title="not reached, because an earlier part failed">steps –<') == html.count("title=") == 1


def test_in_a_card_only_what_stands_in_a_cell_has_the_face_of_code():
    told = "first\n  rank 0 waits\n    line 1 of cell [2], in f: g(x)\nTry it again"
    outcome = Outcome("double", {"value": 2}, code="deadlock", sentence=told)
    lines = """<span style="--in: 0">rank 0 waits</span><span style="--in: 2">line 1 of cell [2], in f: <code>g(x)"""
    assert f"{lines}</code></span></p><p>Try it again</p>" in outcome.card()
    assert words(outcome.card()) == words(str(outcome))


@pytest.mark.parametrize(("passed", "code", "colour"), [
    ([], "wrong", "wrong"), (["value"], "wrong", "partly"), (["value", "any size"], "", "right"),
    ([], "not-written", "open"),
])  # fmt: skip
def test_a_bar_is_green_only_when_it_is_full_and_red_when_it_is_empty(passed, code, colour):
    outcome = Outcome("double", {"value": 2, "any size": 1}, passed, sentence="told", code=code)
    assert f'class="course-bar course-{colour}"' in outcome.card()


def test_an_empty_bar_has_a_red_edge_and_no_red_ground_which_would_look_full():
    (rule,) = re.findall(r"\.course-bar\.course-wrong \{([^}]*)\}", cards.STYLE.read_text())
    assert "box-shadow" in rule and "background" not in rule


def test_a_right_answer_is_shown_in_both_forms(notebook):
    check_double(double)
    (shown,) = notebook
    assert shown["text/plain"].startswith("✓ double   Doubles 2") and "course-right" in shown["text/html"]


def test_a_note_is_in_both_forms():
    outcome = Outcome("double", {"value": 2}, ["value"], sentence="doubles", note="It stands in cell [3]. " * 8)
    assert words(outcome.card()) == words(str(outcome))


def test_a_wrong_answer_has_a_card_and_in_a_terminal_its_text(notebook):
    with pytest.raises(CheckFailed) as failed:
        check_double(lambda number: number)
    assert words(failed.value.card()) == words(str(failed.value)) == words(failed.value._render_traceback_()[0])


@pytest.mark.parametrize(("guess", "bars"), [(4, 2), (6.0, 2), (None, 0), ("<b>", 0), (-1, 0), ((1, 5), 0)])
def test_a_guess_is_a_card_with_the_words_of_the_text(notebook, monkeypatch, guess, bars):
    monkeypatch.setattr("course_lib.notebook.hold_back", lambda *_, **__: None)
    compare(guess, 6.0, "s", because={4.0: "You counted <one> way only."})
    (shown,) = notebook
    assert words(shown["text/html"]) == words(shown["text/plain"])
    assert shown["text/html"].count('class="course-bar"') == bars
    assert "<one>" not in shown["text/html"]


def test_a_guess_that_waits_is_a_card_with_the_words_of_the_text():
    waits = Waits("'<b>' is not a number\nThe answer is not shown yet.")
    assert words(waits.card()) == words(str(waits)) and "<b>" not in waits.card()


@pytest.mark.parametrize(("letters", "kind"), [("TPDMF", "right"), ("PPDMF", "told"), (None, "open")])
def test_the_quiz_of_the_traces_is_a_card_with_the_words_of_the_text(notebook, letters, kind):
    judge_letters(letters, NAMES)
    (shown,) = notebook
    assert words(shown["text/html"]) == words(shown["text/plain"]) and f"course-{kind}" in shown["text/html"]


def test_progress_is_a_card_with_the_words_of_the_text(notebook):
    for place, state in enumerate(["passed", "tried", "unwritten", "borrowed"]):
        remember("ch99_small", f"exercise_{place}", state, 3 * (place == 0), 3)
    progress()
    (shown,) = notebook
    assert words(shown["text/html"]) == words(shown["text/plain"])
    assert "3 of 12 points, 1 of 4 exercises passed" in shown["text/plain"]
    assert "not written yet" in shown["text/plain"]


def test_results_are_a_card_with_the_words_of_the_text(notebook):
    results = run(lambda dist: "<b>&", ranks=20, on=Cluster())
    assert words(results._repr_html_()) == words(repr(results))
    assert "<b>" not in results._repr_html_()


def test_outside_a_notebook_results_have_no_html():
    assert run(lambda dist: 1, ranks=2, on=Cluster())._repr_html_() is None


def test_what_is_to_be_shown_as_text_is_printed_also_in_a_notebook(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_DISPLAY", "text")
    assert not cards.in_notebook()
    cards.show("words", lambda: pytest.fail("nobody wants HTML"))
    assert capsys.readouterr().out == "words\n"


# Where an answer stands


SOURCES = {
    "imports": "import math",
    "helper": "def helper(x):\n    return math.sqrt(x) + K\nK = 1",
    "answer": "def answer(x):\n    return [helper(y) for y in x]",
}


def homes(**more: str) -> tuple[Homes, dict]:
    """Return what is known after these cells have run, and their names."""
    known, names = Homes(), {"__name__": "__main__"}
    for number, (cell, source) in enumerate((SOURCES | more).items(), 1):
        known.note(cell, number, source)
        exec(source, names)
    known.note("check_answer", 9, "check_answer(answer)")
    return known, names


def test_an_answer_that_uses_another_cells_name_is_warned_of():
    known, names = homes()
    said = known.warning(names["answer"], "answer", {"answer"})
    assert "uses helper, which was made in cell [2]" in said


def test_a_name_that_only_a_helper_uses_is_found_too():
    known, names = homes(answer=SOURCES["answer"] + "\ndef helper(x):\n    return K")
    assert "uses K, which was made in cell [2]" in known.warning(names["answer"], "answer", {"answer"})


def test_an_answer_in_another_cell_is_warned_of():
    known, names = homes(answer="def answer(x):\n    raise NotImplementedError", below="def answer(x):\n    return x")
    assert "stands in cell [4]" in known.warning(names["answer"], "answer", {"answer"})


@pytest.mark.parametrize("more", [
    {"answer": "import math\ndef answer(x):\n    return math.sqrt(x)"},
    {"answer": "def answer(x):\n    return math.sqrt(x)", "later": "import math"},
    {"answer": SOURCES["answer"] + "\n" + SOURCES["helper"]},
    {"helper": "", "other_exercise": SOURCES["helper"]},
    {"answer": "def answer(x):\n    return [y.helper() for y in x]"},
])  # fmt: skip
def test_what_is_graded_as_it_runs_here_is_not_warned_of(more):
    known, names = homes(**more)
    assert known.warning(names["answer"], "answer", {"answer", "other_exercise"}) == ""


@pytest.mark.parametrize("broken", ["def answer(x)\n    return 1", "class answer\n    pass", "answer = borrow('x'"])
def test_a_cell_with_a_syntax_error_is_said_until_one_that_compiles_has_run(broken):
    known, _ = homes()
    known.note("answer", 10, broken)
    assert "cell [10], where you write it, has a syntax error" in known.unread("answer")
    assert known.unread("helper") == ""
    known.note("answer", 11, "def answer(x):\n    return 1")
    assert known.unread("answer") == ""


def test_nothing_is_said_where_cells_have_other_ids():
    known, names = homes()
    known.note("", 10, "check_answer(answer)")
    assert known.warning(names["answer"], "answer", {"answer"}) == ""
