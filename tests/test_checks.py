"""What a check shows, records and refuses."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import torch

from course_lib import Cluster, cards, notebook, run
from course_lib.notebook import borrow, compare, solution
from exercises_tests import judging
from exercises_tests.judging import CheckFailed, alone, check, expect
from exercises_tests.tools.chapters import ROOT
from exercises_tests.values import close, equal, integers


@check(value=2, any_size=1)
def check_double(answer, part):
    part("value")
    expect(equal(answer(2), 4), f"double(2) is {answer(2)}, not 4", "value", "double(2)")
    part("any size")
    expect(equal(answer(0), 0), "double(0) is not 0", "zero")
    return "doubles 2 and 0"


def double(number):
    return 2 * number


def with_a_number(dist, answer, number):
    return answer(number)


@check(value=1)
def check_on_ranks(answer, part):
    part("value")
    judging.Case(2).run(with_a_number, answer, 3)
    return "runs"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)


def test_a_right_answer_prints_one_line_with_its_points(capsys):
    check_double(double)
    assert capsys.readouterr().out == "✓ double   Doubles 2 and 0          3 of 3 points\n"


def test_a_wrong_answer_raises_one_sentence_with_its_parts_and_how_to_see_it():
    with pytest.raises(CheckFailed) as failed:
        check_double(lambda number: number)
    assert "double(2) is 2, not 4" in str(failed.value)
    assert "0 of 3 points (value ✗ any size –)" in str(failed.value)
    assert "See it: double(2)" in str(failed.value)
    assert failed.value.outcome.code == "value"


def test_parts_before_the_mistake_keep_their_points():
    outcome = check_double.outcome(lambda number: 2 * number if number else 1)
    assert (outcome.earned, outcome.total, outcome.code) == (2, 3, "zero")


def test_a_notebook_shows_only_the_sentence():
    with pytest.raises(CheckFailed) as failed:
        check_double(lambda number: number)
    assert failed.value._render_traceback_() == [str(failed.value)]


def test_a_stub_is_not_written_yet():
    def double(number):
        raise NotImplementedError

    outcome = check_double.outcome(double)
    assert (outcome.sentence, outcome.code) == ("not written yet", "not-written")


def test_an_answer_that_is_not_written_has_no_wrong_part():
    assert check_double.outcome(stub()).marks == "value – any size –"


def test_an_answer_whose_cell_does_not_compile_is_not_judged(monkeypatch):
    monkeypatch.setitem(judging.HOMES.broken, "double", ("double", 7))
    with pytest.raises(CheckFailed, match=r"Cell \[7\].* syntax error") as failed:
        check_double(double)
    assert failed.value.outcome.code == "syntax" and not Path(notebook.PROGRESS).exists()


def test_an_answer_that_needs_another_exercise_names_it():
    def halve(number):
        raise NotImplementedError

    outcome = check_double.outcome(lambda number: halve(number))
    assert (outcome.sentence, outcome.code) == ("needs halve: write it, or borrow it", "needs")


def test_a_stub_inside_a_class_is_named_by_the_class():
    class Halver:
        def __init__(self):
            raise NotImplementedError

    assert check_double.outcome(lambda number: Halver()).sentence == "needs Halver: write it, or borrow it"


def test_an_exception_is_told_with_the_learners_line_and_no_line_of_ours():
    def double(number):
        return [][number]

    outcome = check_double.outcome(double)
    assert outcome.sentence.startswith("raised IndexError: list index out of range")
    assert "return [][number]" in outcome.sentence
    assert "course_lib" not in outcome.sentence


def test_something_that_is_no_function_is_refused_by_name():
    assert check_double.outcome(4).sentence == "double is 4, not a function"


def test_a_fault_of_the_check_itself_is_not_blamed_on_the_answer(monkeypatch):
    @check(value=1)
    def check_faulty(answer, part):
        part("value")
        return len(answer(2))

    monkeypatch.setattr(judging.packing, "is_library", lambda filename: True)  # as if the check were the course's own
    with pytest.raises(TypeError):
        check_faulty.outcome(double)


def test_a_forbidden_call_breaks_the_rule_and_says_nothing_of_the_value():
    @judging.check(value=3, any_P=2)
    def check_total(answer, part):
        part("value")
        expect(False, "it calls dist.all_reduce: use only send and recv", judging.BUILT_IN)

    assert check_total.outcome(len).marks == "rule ✗ value – any P –"


def test_each_part_that_a_check_has_judged_wrong_is_marked_so():
    @check(one=1, two=1, three=1, four=1)
    def check_apart(answer, part):
        part("one")
        part.drop()
        part("two")
        part("three")
        expect(False, "no", "no")

    assert check_apart.outcome(double).marks == "one ✗ two ✓ three ✗ four –"


@pytest.mark.parametrize("answer", [lambda: None, lambda a, b: a, lambda *, number: number])
def test_an_answer_with_other_parameters_is_told_so_here_and_on_ranks(answer, monkeypatch):
    monkeypatch.setattr(judging.packing, "is_library", lambda filename: True)
    for check_it in (check_double, check_on_ranks):
        outcome = check_it.outcome(answer)
        assert outcome.code == "parameters", str(outcome)
        assert "the parameters of the stub, so leave those as they were" in outcome.sentence
        assert re.search(r"<lambda>\(\) (takes|missing) ", outcome.sentence)


def test_a_function_of_the_learners_that_is_called_wrongly_is_not_taken_for_the_answer():
    def triple():
        return 6

    outcome = check_on_ranks.outcome(lambda number: triple(number))
    assert outcome.code == "raised" and "the stub" not in outcome.sentence
    assert "triple() takes 0 positional arguments" in outcome.sentence


def test_a_check_that_forgets_a_part_is_a_defect(monkeypatch):
    @check(value=1, bytes=1)
    def check_short(answer, part):
        part("value")
        return "fine"

    monkeypatch.setattr(judging.packing, "is_library", lambda filename: True)
    with pytest.raises(AssertionError, match=r"never judged \['bytes'\]"):
        check_short.outcome(double)


@pytest.mark.parametrize("condition", [None, 1, "yes", [True], float("nan"), torch.tensor(True)])
def test_only_true_is_true_to_expect(condition):
    with pytest.raises(judging.Refused):
        expect(condition, "no", "no")


def test_nan_equals_nothing():
    nan = torch.tensor([math.nan])
    assert not equal(nan, nan.clone())
    assert not equal(math.nan, math.nan)
    assert not close(math.nan, 1.0, relative=10)
    assert not close(math.inf, 1.0)


def test_equal_looks_at_type_dtype_and_shape():
    assert equal(torch.ones(2), torch.ones(2))
    assert not equal(torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert not equal(torch.ones(2), torch.ones(2, 1))
    assert not equal(1, 1.0)
    assert not equal(True, 1)
    assert equal({"a": [1, (2.0,)]}, {"a": [1, (2.0,)]})
    assert not equal([1], (1,))


def test_an_object_that_says_it_is_equal_is_not():
    class Yes:
        def __eq__(self, other):
            return True

    assert not equal(Yes(), 4)


def test_integers_differ_by_rank_and_by_seed_and_repeat(monkeypatch):
    first = integers(3, (50,))
    assert not torch.equal(first[0], first[1])
    assert all(map(torch.equal, first, integers(3, (50,))))
    monkeypatch.setenv("COURSE_SEED", "7")
    assert not torch.equal(first[0], integers(3, (50,))[0])


def test_a_deadlock_is_told_as_one():
    @check(value=1)
    def check_meet(answer, part):
        part("value")
        run(answer, ranks=2, on=Cluster())
        return "fine"

    def meet(dist):
        dist.send(torch.zeros(1), 1 - dist.get_rank())

    outcome = check_meet.outcome(meet)
    assert outcome.code == "deadlock"
    assert "They wait in a circle: 0 -> 1 -> 0." in outcome.sentence


def test_alone_calls_the_drive_where_the_answer_is():
    assert alone(lambda answer, number: answer(number), double, 4) == 8


def stub():
    def double(number):
        raise NotImplementedError

    return double


def borrowed():
    def double(number):
        return 2 * number

    double.__borrowed__ = True
    return double


@pytest.mark.parametrize(("then", "state"), [(borrowed(), "◐"), (stub(), "–"), (lambda number: number, "✗")])
def test_progress_says_what_the_last_check_found(then, state, capsys):
    check_double(double)
    notebook.progress()
    assert re.search("✓ double +3 of 3", capsys.readouterr().out)
    with contextlib.suppress(CheckFailed):
        check_double(then)
    capsys.readouterr()
    notebook.progress()
    assert re.search(f"{state} double +0 of 3", capsys.readouterr().out)


def test_a_notebook_says_of_a_slow_answer_when_it_is_stopped_until_it_has_ended(monkeypatch):
    shown, told = [], threading.Event()

    def show(text):
        shown.append(text)
        told.set()
        return shown.clear

    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    monkeypatch.setattr(cards, "show_for_now", show)
    with judging.told_when_slow(after=0):
        assert told.wait(10) and shown == ["still running: a run that takes longer than 20 s is stopped"]
    assert not shown
    with judging.told_when_slow(after=60):
        pass
    assert not shown


def test_a_failed_run_is_told_with_a_comma_between_the_case_and_the_rank():
    assert check_on_ranks.outcome(lambda number: 1 / 0).sentence.startswith("on 2 ranks, rank 0 raised Zero")


def test_progress_without_any_check_says_so(capsys):
    notebook.progress()
    assert capsys.readouterr().out == "no check has run in this folder yet\n"


def test_a_damaged_progress_file_is_named_and_replaced(capsys):
    Path(notebook.PROGRESS).write_text("{")
    notebook.progress()
    assert notebook.PROGRESS in capsys.readouterr().out
    check_double(double)
    assert json.loads(Path(notebook.PROGRESS).read_text())


def test_progress_off_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    check_double(double)
    assert not list(tmp_path.iterdir())


def test_a_borrowed_answer_works_and_earns_nothing(capsys):
    answer = borrow("which_is_the_ring")
    assert "its points stay open" in capsys.readouterr().out
    from exercises_tests.ch03_ring_all_reduce import check_which_is_the_ring

    outcome = check_which_is_the_ring.outcome(answer)
    assert (outcome.code, outcome.earned, outcome.borrowed) == ("", 0, True)
    assert str(outcome).startswith("◐ which_is_the_ring   Finds") and "0 of 3 points (borrowed)" in str(outcome)


@pytest.mark.parametrize("cluster", [None, Cluster()], ids=["real", "simulated"])
def test_a_function_that_uses_a_borrowed_one_runs_where_solutions_cannot_be_imported(cluster, monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not Path(place, "solutions").is_dir()])
    total, exchange = borrow("sum_on_every_rank"), borrow("exchange")

    def both(dist):
        other = exchange(dist, torch.tensor([dist.get_rank()]), 1 - dist.get_rank())
        return total(dist, other).item()

    assert run(both, ranks=2, on=cluster)[:] == [1, 1]


def test_borrowing_what_does_not_exist_says_what_can_be_borrowed():
    with pytest.raises(LookupError, match="no exercise 'rong'; it is the name of the function"):
        borrow("rong")


def test_borrowing_where_the_solutions_are_absent_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "SOLUTIONS", tmp_path / "nowhere")
    with pytest.raises(LookupError, match="the solutions are not here"):
        borrow("ring_all_reduce")


def test_solution_shows_the_source():
    assert str(solution("ring_all_reduce")).startswith("def ring_all_reduce(dist, tensor):")
    assert solution("ring_all_reduce")._repr_markdown_().startswith("```python\n")


@pytest.mark.parametrize(
    ("guess", "shown"),
    [
        (None, "no guess   measured 6,144 bytes"),
        (3072, "guess 3,072 bytes   measured 6,144 bytes   half as high"),
        (12_288_000_000, "guess 12,288,000,000 bytes   measured 6,144 bytes   2 million times as high"),
        (12_288, "guess 12,288 bytes   measured 6,144 bytes   twice as high"),
        (2048, "guess 2,048 bytes   measured 6,144 bytes   the answer is 3 times as high"),
        (6100, "guess 6,100 bytes   measured 6,144 bytes   right"),
        (5100, "guess 5,100 bytes   measured 6,144 bytes   17 % too low"),
        (6144, "guess 6,144 bytes   measured 6,144 bytes   exact"),
        (6144.0, "guess 6,144 bytes   measured 6,144 bytes   exact"),
        (0, "guess 0 bytes   measured 6,144 bytes   too low"),
    ],
)
def test_compare_prints_guess_measured_and_how_far_off(guess, shown, capsys):
    compare(guess, 6144, "bytes")
    assert capsys.readouterr().out == shown + "\n"


@pytest.mark.parametrize(("guess", "refused"), [
    (-3, "-3 is negative, and the answer cannot be"),
    ((1, 5), "(1, 5) is two numbers: Python reads a comma so. Write 1.5 for one and a half, and 1500 for 1,500"),
    ("3", "'3' is a text: write 3 without quotes"),
    ("1,000", "'1,000' is a text: write a number without quotes, and no comma: 1.5 for one and a half, and 1500 for "
              "1,500"),
    (10**400, "A number of more than 100 digits is too long to compare"),
    ("many", "'many' is not a number"),
    ("two", "'two' is a word: write 2"),
    (math.nan, "nan is not a number"),
    (1e400, "The number is too large to compare"),
    (True, "True is not a number"),
    (notebook.Unread(), "The cell of your guess stopped with an error, so there is no guess yet"),
])  # fmt: skip
def test_a_guess_that_cannot_be_read_is_refused_and_ends_a_notebooks_cell(guess, refused, capsys, monkeypatch):
    monkeypatch.setattr(notebook, "_HELD_BACK", {})
    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    with pytest.raises(notebook.Waits) as ended:
        compare(guess, 6144, "bytes")
    assert str(ended.value) == f"{refused}\n{notebook.WAITS.format('a number')}"
    monkeypatch.setattr(cards, "in_notebook", lambda: False)
    compare(guess, 6144, "bytes")
    assert capsys.readouterr().out == f"{refused}   measured 6,144 bytes\n"


def test_each_guess_and_each_new_slip_has_the_answer_held_back(monkeypatch):
    monkeypatch.setattr(notebook, "_HELD_BACK", {})
    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    for guess, unit in (("many", "bytes"), ("many", "ms"), ("two", "bytes"), ("2 kB", "bytes"), ("two", "bytes")):
        with pytest.raises(notebook.Waits):
            compare(guess, 6144, unit)


def test_the_same_slip_run_twice_shows_the_answer(monkeypatch):
    monkeypatch.setattr(notebook, "_HELD_BACK", {})
    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    shown = []
    monkeypatch.setattr(cards, "show", lambda text, html: shown.append(text))
    with pytest.raises(notebook.Waits):
        compare("two", 6144, "bytes")
    compare("two", 6144, "bytes")
    assert shown == ["'two' is a word: write 2   measured 6,144 bytes"]


@pytest.mark.parametrize(("guess", "unit", "refused"), [
    ("two hundred", "", "'two hundred' is a word: write 200"),
    ("Twenty-five", "", "'Twenty-five' is a word: write 25"),
    ("630 µs", "µs", "'630 µs' is a number with its unit: write 630"),
    ("630us", "s", "'630us' is 0.00063 s: write 0.00063"),
    ("500 MB/s", "GB/s", "'500 MB/s' is 0.5 GB/s: write 0.5"),
    ("21x", "times as long", "'21x' is a number with its unit: write 21"),
    ("14 %", "", "'14 %' is 0.14: write 0.14"),
    ("about 300", "µs", "'about 300' is a number with words: write 300"),
    ("about 0.3 ms", "µs", "'about 0.3 ms' is a number with words: write 300"),
    ("roughly two", "", "'roughly two' is a number with words: write 2"),
    ("56 s", "MB", "'56 s' is a time: write the number alone, in MB"),
    ("30 %", "places", "'30 %' is a share: write the number alone"),
    ("480 Gb/s", "GB/s", "'480 Gb/s' is 60 GB/s: write 60"),
    ("1 6", "MB", "'1 6' is two numbers: write one number"),
    ("20-25", "MB", "'20-25' is a range: write one number"),
    ("12 apples", "s", "'12 apples' is a number with words: write the number alone, in s"),
    ("12 apples", "", "'12 apples' is a number with words: write the number alone"),
    ("1,5 s", "s", "'1,5 s' is a number with words: write the number alone, and no comma: 1.5 for one and a half, and "
                   "1500 for 1,500"),
    (notebook.Unread("630 µs"), "µs", "The cell of your guess stopped with an error, so there is no guess yet: 630 µs "
                                      "is a number with its unit: write 630"),
])  # fmt: skip
def test_a_guess_in_words_or_with_a_unit_is_told_what_to_write(guess, unit, refused, capsys):
    compare(guess, 6144, unit)
    assert capsys.readouterr().out.startswith(f"{refused}   measured 6,144")


@pytest.mark.parametrize(("guess", "refused"), [
    ("a, c", "'a, c' is no number, and each choice here has one: write that"),
    ((1, 3), "(1, 3) is several numbers: write one; where several are asked for, their digits as in 14"),
])  # fmt: skip
def test_a_choice_that_cannot_be_read_is_told_how_choices_are_named(guess, refused, capsys):
    compare(guess, 3, choice=True)
    assert capsys.readouterr().out == f"{refused}   measured 3\n"


@pytest.mark.parametrize(("measured", "by", "shown"), [
    (5.2394, "measured", "5.24"), (18.981, "measured", "19"), (12345.6, "measured", "12,300"),
    (3001.0, "measured", "3,001"), (758.51, "simulated", "758.5"),
])  # fmt: skip
def test_a_measured_number_is_shown_with_three_digits_and_a_whole_one_with_all(measured, by, shown, capsys):
    compare(None, measured, "ms", by=by)
    assert capsys.readouterr().out == f"no guess   {by} {shown} ms\n"


@pytest.mark.parametrize(("guess", "measured", "unit", "by", "said"), [
    (0.65, 0.652, "s", "simulated", "guess 0.65 s   simulated 0.652 s   right"),
    (0.66, 0.652, "s", "simulated", "guess 0.66 s   simulated 0.652 s   right"),
    (0.7, 0.652, "s", "simulated", "guess 0.7 s   simulated 0.652 s   7.4 % too high"),
    (20, 23.04, "times", "measured", "guess 20 times   measured 23 times   close: 13 % too low"),
    (15, 23.04, "times", "measured", "guess 15 times   measured 23 times   the answer is 1.54 times as high"),
    (50, 51, "steps", "measured", "guess 50 steps   measured 51 steps   2 % too low"),
    (1, 23.04, "times", "measured", "guess once   measured 23 times   the answer is 23 times as high"),
    (4, 1, "times as large", "by formula", "guess 4 times as large   by formula as large   4 times as high"),
    (0.665, 2e-05, "s", "simulated", "guess 0.665 s   simulated 20 µs   33,200 times as high"),
])  # fmt: skip
def test_a_guess_that_rounds_as_the_number_does_is_right_and_one_near_what_varies_is_close(
    guess, measured, unit, by, said, capsys
):
    compare(guess, measured, unit, by=by)
    assert capsys.readouterr().out == said + "\n"


def test_a_guess_that_a_sentence_answers_is_not_called_right(capsys):
    compare(4, 4.02, because={4: "The root sends, too."})
    assert "right" not in capsys.readouterr().out


def test_compare_calls_nothing_guessed_and_nothing_measured_exact(capsys):
    compare(0, 0)
    assert capsys.readouterr().out == "guess 0   measured 0   exact\n"


@pytest.mark.parametrize(
    ("guess", "measured", "exact"),
    [(3.75, 3.75 * (1 + 1e-15), True), (133, 132.69, True), (130, 132.69, False), (630, 630.0004, True),
     (16, 16.3, False), (3000, 3001, False), (3000, 3001.0, False), (0.1, 0.3 - 0.2, True),
     (21.0001, 21.0, True), (21.0001, 21, True), (21.01, 21, False), (1e6 + 1, 10**6, False)],
)  # fmt: skip
def test_a_guess_is_exact_when_it_is_the_number_as_it_was_typed_or_is_shown(guess, measured, exact, capsys):
    compare(guess, measured)
    assert capsys.readouterr().out.rstrip().endswith("exact") == exact


def test_compare_answers_a_tempting_wrong_guess_with_its_reason(capsys):
    because = {4: "Four ranks, but each sends a quarter.", 1: "Once there, and once back."}
    compare(4.02, 1.5, "times", because=because)
    said = capsys.readouterr().out
    assert said == f"guess 4.02 times   measured 1.5 times   2.68 times as high\n{because[4]}\n"
    for guess in (None, 1.5, 2):
        compare(guess, 1.5, "times", because=because)
        assert "\n" not in capsys.readouterr().out.rstrip("\n")


def test_a_choice_is_right_or_not_and_never_too_low(capsys):
    because = {1: "There gradients are added up.", 99: "Ninety-nine."}
    for guess, said in (
        (1, "guess 1   FSDP is sketch 5   not that one\nThere gradients are added up.\n"),
        (5, "guess 5   FSDP is sketch 5   right\n"), (None, "no guess   FSDP is sketch 5\n"),
        (98, "guess 98   FSDP is sketch 5   not that one\n"), (True, "True is not a number   FSDP is sketch 5\n"),
    ):  # fmt: skip
        compare(guess, 5, by="FSDP is sketch", because=because, choice=True)
        assert capsys.readouterr().out == said


def test_compare_finds_the_reasons_that_a_name_stands_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(notebook, "TEMPTING", tmp_path / "tempting.toml")
    notebook.TEMPTING.write_text('[ch03.seconds]\n"0.08" = "That is one transfer; rank 0 has to do six."\n')
    compare(0.08, 0.48, "s", because="ch03.seconds")
    told = capsys.readouterr().out
    assert told.endswith("the answer is 6 times as high\nThat is one transfer; rank 0 has to do six.\n")
    with pytest.raises(LookupError, match="because='ch03.bytes': tempting.toml has nothing under this name"):
        compare(0.08, 0.48, "s", because="ch03.bytes")


def test_every_tempting_answer_belongs_to_a_guess_of_a_chapter_and_every_name_is_there():
    table = tomllib.loads(notebook.TEMPTING.read_text(encoding="utf-8"))
    there = {f"{chapter}.{guess}" for chapter, guesses in table.items() for guess in guesses}
    sources = " ".join(path.read_text() for path in sorted((ROOT / "notebooks").glob("*.ipynb")))
    assert set(re.findall(r'because=\\"(ch\d\d\.\w+)\\"', sources)) == there
    few = {name: sentences for chapter in table.values() for name, sentences in chapter.items() if not sentences}
    assert few == {}


@pytest.mark.parametrize(
    ("guess", "shown"),
    [
        (None, "no guess   by formula 132.7 GB"),
        (80, "guess 80 GB   by formula 132.7 GB   the answer is 1.66 times as high"),
    ],
)
def test_compare_says_when_a_number_was_not_measured(guess, shown, capsys):
    compare(guess, 132.69, "GB", by="by formula")
    assert capsys.readouterr().out == shown + "\n"
