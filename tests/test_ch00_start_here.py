"""Chapter 0: verdicts do not hang on the numbers, and a line to see it shows the mistake."""

from __future__ import annotations

import ast
import re

import matplotlib
import pytest
from wrong_answers.ch00_start_here import WRONG

from course_lib import Cluster, RankFailed, cards, notebook, one_process, run
from course_lib.lessons.ping_pong import TIMED, WARM, ping_pong
from course_lib.lessons.trace_quiz import LETTERS, judge_letters
from course_lib.plots.traces import NAMES
from course_lib.slips import Unread
from exercises_tests import ch00_start_here as checks
from exercises_tests.judging import CheckFailed
from exercises_tests.tools.chapters import find, tagged
from solutions import ch00_start_here as solutions

matplotlib.use("Agg")
EXERCISES = ("even_to_odd", "sum_on_every_rank", "exchange")


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def imported() -> dict:
    """Return the names that a learner has: those of the chapter's own imports."""
    names: dict = {}
    for cell in tagged(find("ch00").notebook, "imports"):
        exec(cell.source, names)
    return names


def seen(see: str, names: dict):
    """Return what a notebook shows for a line: the value of its last statement."""
    *first, last = ast.parse(see).body
    exec(compile(ast.Module(first, []), "<see>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<see>", "eval"), names)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_another_seed_changes_no_verdict(exercise, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "20250131")
    with one_process():  # as in test_answers.py
        assert judged(exercise, getattr(solutions, exercise)).code == ""
        for wrong in WRONG:
            if wrong.exercise == exercise:
                assert judged(exercise, wrong.answer).code == wrong.code, wrong.answer.__name__


def test_a_sum_that_was_only_multiplied_is_said_to_have_sent_nothing():
    said = judged("sum_on_every_rank", lambda dist, value: value * dist.get_world_size()).sentence
    assert said.endswith("No rank has sent anything")


def test_an_answer_that_knows_the_numbers_of_one_seed_fails_on_another(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "1")
    one = [tensor.item() for tensor in checks.different(7, ())]
    monkeypatch.setenv("COURSE_SEED", "2")
    other = [tensor.item() for tensor in checks.different(7, ())]
    assert one != other and len(set(one)) == len(set(other)) == 7


def test_numbers_of_different_ranks_differ_in_every_dtype():
    for dtype in ("float32", "int64", "bfloat16", "uint8"):
        values = [tensor.flatten().tolist() for tensor in checks.different(5, (4,), dtype)]
        assert all(len(set(column)) == 5 for column in zip(*values, strict=True)), dtype


SHOWN = {  # what the line to see it returns or raises, for mistakes of every kind
    "answers_each_at_once": r"rank 1 returned tensor\(\[57., 46.\]\)",
    "takes_the_mean": r"rank 0 returned tensor\(\[28.5000, 23.0000\]\)",
    "rank_0_forgets_the_total": r"rank 0 returned tensor\(\[26., 15.\]\)",
    "only_rank_0_returns": "rank 1 returned None",
    "receives_into_one_element": r"rank 1 sends float32\[2\], but rank 0 receives into float32\[1\]",
    "adds_in_float32": r"rank 1 sends int64\[2, 3\], but rank 0 receives into float32\[2, 3\]",
    "gathers_and_everyone_adds": r"\[12288, 1024, 1024, 1024\]",
    "rank_0_goes_first": "in a circle",
    "buffer_of_another_dtype": r"sends int64\[2, 3\]",
    "receives_from_anyone": r"rank 0 returned tensor\(\[1., 1., 1.\]\)",
    "odd_ranks_send_too": "<Axes", "everyone_sends_to_everyone": "<Axes", "along_a_chain_and_back": "<Axes",
    "flattens": r"rank 0 returned tensor\(\[1, 1, 1, 1, 1, 1\]\)",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_line_to_see_it_shows_the_mistake(name):
    wrong = next(wrong for wrong in WRONG if wrong.answer.__name__ == name)
    see = judged(wrong.exercise, wrong.answer).see
    names = imported() | {wrong.exercise: wrong.answer}
    try:
        shown = repr(seen(see, names))
    except RankFailed as failure:
        shown = str(failure)
    assert re.search(SHOWN[name], shown), f"{see}\n{shown}"


@pytest.mark.parametrize("name", ["answers_each_at_once", "total_is_the_value_itself", "takes_the_mean"])
def test_a_line_to_see_a_wrong_sum_shows_the_numbers_of_the_sentence(name):
    wrong = next(wrong for wrong in WRONG if wrong.answer.__name__ == name)
    outcome = judged(wrong.exercise, wrong.answer)
    found = eval(outcome.see, imported() | {wrong.exercise: wrong.answer})
    assert any(f"of {checks.numbers(got, digits=7)}; the total is" in outcome.sentence for got in found)


def test_the_lines_to_see_it_are_right_python():
    names = imported() | {name: getattr(solutions, name) for name in EXERCISES}
    assert len(eval(checks._see_even_to_odd(3), names)) == 3
    for shape, dtype in (((2,), "float32"), ((2, 3), "int64")):
        found = eval(checks._see_sum(3, shape, dtype), names)
        assert found[2].shape == shape and str(found[2].dtype) == f"torch.{dtype}" and found[2].unique().tolist() == [6]
    for ranks, peers in checks.PEERS.items():
        for dtype in ("int64", "float32"):
            found = eval(checks._see_exchange(ranks, (2, 3), dtype), names)
            for rank, peer in enumerate(peers):
                assert peer is None or found[rank].tolist() == [[peer] * 3] * 2
    found = seen(checks.SEE_THIRD, names)
    assert found[0].tolist() == [2.0] * 3 and found[2].tolist() == [0.0] * 3


def test_a_wrong_answer_reads_as_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckFailed, match="1 of 2 points"):
        checks.check_ten_times(next(w.answer for w in WRONG if w.answer.__name__ == "only_four_ranks"))
    assert capsys.readouterr().out == ""


def test_the_line_to_see_even_to_odd_shows_what_the_check_has_seen():
    def even_to_odd(dist, number):
        return 10.0 * (dist.get_rank() - 1) if dist.get_rank() % 2 else None

    outcome = judged("even_to_odd", even_to_odd)
    (given,) = re.findall(r"rank 0 was given ([\d.]+)", outcome.sentence)
    assert f"even_to_odd(dist, [{given}, " in outcome.see


def test_a_plain_deadlock_is_not_told_with_the_way_out():
    for name in ("both_send_first", "both_receive_first"):
        told = judged("exchange", next(w.answer for w in WRONG if w.answer.__name__ == name)).sentence
        assert "in a circle: 0 -> 1 -> 0" in told and "isend" not in told


def test_ping_pong_measures_each_size_on_both_ranks():
    seconds = run(ping_pong, [4, 4000], 3, ranks=2, on=Cluster(latency=1.0, bandwidth=4000.0))
    assert [sorted(found) for found in seconds] == [[4, 4000]] * 2 and all(it > 0 for it in seconds[0].values())
    assert seconds.seconds == pytest.approx(2 * 3 * (WARM + TIMED) * (1.001 + 2.0))


def test_the_quiz_of_the_traces_judges_each_letter(capsys):
    order = ("pipeline", "FSDP", "data parallelism", "tensor parallelism", "mixture of experts", "one more")
    names = dict(enumerate(order, 1))
    judge_letters("p, t, dtm", names)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "sketch 1   P   right" and told[-1] == "4 of 5"
    assert told[1] == "sketch 2   T   not that one: tensor parallelism sums partial results (AR) in forward, too, " \
                      "twice in each layer"  # fmt: skip


@pytest.mark.parametrize(("guess", "said"), [
    (None, "no guess"), ("ptd", "'ptd' is 3 letters: write five, one for each sketch"),
    ("A, C", "'A, C' has A, C, which is none of the letters D, F, M, P, T"), (5, "5 is not five of the letters"),
    (Unread("TPDMF"), "The cell of your guess stopped with an error, so there is no guess yet: write the letters in"),
])  # fmt: skip
def test_letters_that_cannot_be_read_are_told_what_is_wrong_with_them(guess, said, capsys):
    judge_letters(guess, NAMES)
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize("guess", ["t-p-d-m-f", "T; P; D; M; F", ["T", "P", "D", "M", "F"]])
def test_letters_may_be_parted_in_any_way(guess, capsys):
    judge_letters(guess, NAMES)
    assert capsys.readouterr().out.endswith("5 of 5\n")


def test_letters_that_cannot_be_read_are_refused_and_end_a_notebooks_cell(capsys, monkeypatch):
    monkeypatch.setattr(notebook, "_HELD_BACK", {})
    monkeypatch.setattr(cards, "in_notebook", lambda: True)
    with pytest.raises(notebook.Waits, match="or first write five letters"):
        judge_letters("PF", NAMES)
    monkeypatch.setattr(cards, "in_notebook", lambda: False)
    judge_letters("PF", NAMES)
    assert capsys.readouterr().out == (
        "'PF' is 2 letters: write five, one for each sketch; a letter may come twice   it is TPDMF\n")


def test_the_quiz_has_a_letter_for_every_sketch_of_the_chapter(capsys):
    assert sorted(LETTERS.values()) == sorted(NAMES[number] for number in range(1, 6))
    judge_letters(None, NAMES)
    assert capsys.readouterr().out == "no guess   it is TPDMF\n"
