"""Chapter 0: every check accepts the solution and other right answers, and names what is wrong with wrong ones."""

from __future__ import annotations

import matplotlib
import pytest
from wrong_answers.ch00_start_here import RIGHT, WRONG, Wrong

from course_lib.checks import CheckFailed
from course_lib.pictures import machine_room
from course_lib.ranks import run
from course_lib.simulator import Cluster
from exercises_tests import ch00_start_here as checks
from solutions import ch00_start_here as solutions

EXERCISES = ("even_to_odd", "sum_on_every_rank", "exchange")


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_earns_all_points(exercise):
    outcome = judged(exercise, getattr(solutions, exercise))
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


@pytest.mark.parametrize(("exercise", "answer"), RIGHT, ids=lambda thing: getattr(thing, "__name__", thing))
def test_a_right_answer_written_differently_earns_all_points(exercise, answer):
    outcome = judged(exercise, answer)
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.exercise}-{wrong.answer.__name__}")
def test_a_wrong_answer_is_told_which_mistake_it_is(wrong: Wrong):
    outcome = judged(wrong.exercise, wrong.answer)
    assert outcome.code == wrong.code, str(outcome)
    assert [word for word in wrong.words if word not in outcome.sentence] == [], str(outcome)
    assert outcome.earned < outcome.total


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_check_knows_three_wrong_answers_and_another_right_one(exercise):
    assert sum(wrong.exercise == exercise for wrong in WRONG) >= 3
    assert any(name == exercise for name, _ in RIGHT)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_stub_is_not_written_yet(exercise):
    def stub(dist, *data):
        raise NotImplementedError

    stub.__code__ = stub.__code__.replace(co_name=exercise)
    outcome = judged(exercise, stub)
    assert (outcome.sentence, outcome.code, outcome.earned) == ("not written yet", "not-written", 0)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_another_seed_changes_no_verdict(exercise, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "20250131")
    assert judged(exercise, getattr(solutions, exercise)).code == ""
    for wrong in WRONG:
        if wrong.exercise == exercise:
            assert judged(exercise, wrong.answer).code == wrong.code, wrong.answer.__name__


def test_an_answer_that_knows_the_numbers_of_one_seed_fails_on_another(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "1")
    one = [tensor.item() for tensor in checks._different(7, ())]
    monkeypatch.setenv("COURSE_SEED", "2")
    other = [tensor.item() for tensor in checks._different(7, ())]
    assert one != other and len(set(one)) == len(set(other)) == 7


def test_numbers_of_different_ranks_differ_in_every_dtype():
    for dtype in ("float32", "int64", "bfloat16", "uint8"):
        values = [tensor.flatten().tolist() for tensor in checks._different(5, (4,), dtype)]
        assert all(len(set(column)) == 5 for column in zip(*values, strict=True)), dtype


def test_a_failed_line_to_see_it_runs_and_shows_the_mistake():
    wrong = next(wrong for wrong in WRONG if wrong.answer.__name__ == "rank_0_goes_first")
    see = judged("exchange", wrong.answer).see
    import torch

    names = {"run": run, "Cluster": Cluster, "torch": torch, "exchange": wrong.answer}
    with pytest.raises(Exception, match="in a circle"):
        eval(see, names)


def test_the_lines_to_see_it_are_right_python():
    import torch

    names = {"run": run, "Cluster": Cluster, "torch": torch}
    names |= {name: getattr(solutions, name) for name in EXERCISES}
    for see in (checks.EVEN_TO_ODD.format(3), checks.SUM.format(3)):
        assert len(eval(see, names)) == 3
    for ranks, peers in checks.PEERS.items():
        for dtype in ("int64", "float32"):
            found = eval(checks._see_exchange(ranks, (2, 3), dtype), names)
            for rank, peer in enumerate(peers):
                assert peer is None or found[rank].tolist() == [[peer] * 3] * 2


def test_a_wrong_answer_reads_as_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckFailed, match="1 of 2 points"):
        checks.check_ten_times(next(w.answer for w in WRONG if w.answer.__name__ == "only_four_ranks"))
    assert capsys.readouterr().out == ""


def test_the_machine_room_names_every_noun():
    matplotlib.use("Agg")
    drawn = " ".join(text.get_text() for text in machine_room().texts)
    nouns = ("kernel", "process", "rank", "GPU", "NIC", "node", "gloo", "NCCL")
    assert [noun for noun in nouns if noun not in drawn] == []
