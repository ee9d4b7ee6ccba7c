"""Chapter 2: the clinic and its detector, numbers that no check may fall for, and lines to see a mistake."""

from __future__ import annotations

import pytest
import torch
from wrong_answers.ch02_collectives import (
    HandleDropped,
    LastGroup,
    RankMissing,
    SendSend,
    exchange_nothing,
    tree_from_0,
)

from course_lib import Cluster, run
from course_lib.lessons.clinic import diagnose
from exercises_tests import ch02_collectives as checks
from exercises_tests.judging import CheckFailed
from solutions import ch02_collectives as solutions


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def test_a_clinic_in_which_nothing_is_repaired_earns_nothing():
    class clinic:  # noqa: N801
        def sum_both(dist, loss, gradient):
            raise NotImplementedError

    outcome = judged("clinic", clinic)
    assert (outcome.code, outcome.earned) == ("not-written", 0)
    first, *others = outcome.sentence.split("\n")
    assert first == "5 of the five are judged not right:"
    assert outcome.marks.count("✗") == 5 and "–" not in outcome.marks, "each has been judged"
    assert others[:2] == ["    ✗ sum_both is not repaired yet", "    ✗ sum_for_rank_0 is missing in the class"]


def test_a_clinic_of_stubs_is_said_to_be_one():
    def stub(*_):
        raise NotImplementedError

    outcome = judged("clinic", type("clinic", (), dict.fromkeys(checks.FAULTS, stub)))
    assert (outcome.code, outcome.sentence) == ("not-written", "none of the five is repaired yet")


def test_each_repair_counts_whatever_becomes_of_the_others():
    class Two(SendSend, RankMissing):
        pass

    outcome = judged("clinic", Two)
    assert sorted(outcome.passed) == ["pass right", "sum both", "sum in node"]
    marked = [line.split()[1] for line in outcome.sentence.split("\n") if "✗" in line]
    assert marked == ["sum_for_rank_0", "swap_with_neighbour"]


def test_a_nan_in_the_result_does_not_pass():
    def with_nan(dist, chunks):
        return solutions.reduce_scatter_by_hand(dist, chunks) * float("nan")

    assert judged("reduce_scatter_by_hand", with_nan).code == "value"


def test_zeroing_the_input_does_not_change_what_is_expected():
    def zeroes(dist, chunks):
        for chunk in chunks:
            chunk.zero_()
        return chunks[0].clone()

    assert judged("reduce_scatter_by_hand", zeroes).code == "value"


# The clinic's detector


def at_once(dist, loss, gradient):
    handles = [dist.all_reduce(loss, async_op=True), dist.all_reduce(gradient, async_op=True)]
    for handle in handles if dist.get_rank() == 0 else reversed(handles):
        handle.wait()
    return loss, gradient


def mixed(dist, loss, gradient):
    for tensor in (loss, gradient) if dist.get_rank() else (gradient, loss):
        dist.all_reduce(tensor)
    return loss, gradient


@pytest.mark.parametrize(
    ("name", "snippet", "seen", "words"),
    [
        ("sum_both", mixed, "wrong numbers", "right is"),
        ("sum_for_rank_0", RankMissing.sum_for_rank_0, "deadlock", "in all_reduce for ranks 1, 2, 3"),
        ("swap_with_neighbour", SendSend.swap_with_neighbour, "deadlock", "They wait in a circle: 0 -> 1 -> 0"),
        ("sum_in_node", LastGroup.sum_in_node, "wrong numbers with real torch, error on the simulator",
         "rank 0 is not in this group"),
        ("pass_right", HandleDropped.pass_right, "deadlock", "without wait() on isend to rank"),
        ("pass_right", solutions.clinic.pass_right, "right", "all 4 ranks returned what is right; rank 0: [75"),
        ("sum_both_at_once", at_once, "right", "all 4 ranks returned what is right; rank 0: [[188"),
    ],
)
def test_the_detector_says_what_a_snippet_does(name, snippet, seen, words, capsys):
    snippet.__name__ = name
    diagnose(snippet, "deadlock")
    printed = capsys.readouterr().out
    happened = "guess: deadlock - as you said" if seen == "deadlock" else f"guess: deadlock   happened: {seen}"
    assert printed.startswith(f"{happened}\n")
    assert words in printed


def test_a_guess_about_torch_and_one_about_the_simulator_both_count(capsys):
    for guess in ("wrong numbers", "error"):
        diagnose(LastGroup.sum_in_node, guess)
        printed = capsys.readouterr().out
        assert printed.startswith(f"guess: {guess} - as you said\nreal torch: wrong numbers; it warns and goes on")


def test_the_detector_takes_other_numbers_of_ranks_and_names_a_misspelt_guess(capsys):
    diagnose(solutions.clinic.pass_right, "rihgt", ranks=6)
    printed = capsys.readouterr().out
    assert printed.startswith("guess: 'rihgt' is not one of the four: wrong numbers, deadlock, error, right")
    assert "all 6 ranks returned what is right" in printed
    diagnose(solutions.clinic.pass_right, ranks=3)
    assert "give an even number" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("exercise", "answer", "shown"),
    [
        ("broadcast_tree", tree_from_0, [[0.0] * 4] * 4),
        ("all_to_all_by_hand", exchange_nothing, [[[0.0] * 4, [1.0] * 4], [[10.0] * 4, [11.0] * 4]]),
    ],
)
def test_a_line_to_see_a_wrong_value_shows_whose_number_is_where(exercise, answer, shown):
    found = eval(judged(exercise, answer).see, {"run": run, "torch": torch, "Cluster": Cluster, exercise: answer})
    assert [torch.stack(list(value)).tolist() for value in found] == shown


def test_the_detector_refuses_what_is_no_snippet(capsys):
    diagnose(torch.add)
    assert "diagnose takes a snippet of the clinic (sum_both" in capsys.readouterr().out


def test_a_check_raises_one_sentence(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    with pytest.raises(CheckFailed, match="✗ my_node_group"):
        checks.check_my_node_group(lambda dist, per_node: None)


def test_slices_down_a_chain_take_as_long_as_the_text_counts():
    from course_lib.models import MODELS, parameter_count
    from exercises_tests.tools.chapters import find

    text = " ".join(" ".join(cell.source.split()) for cell in find("ch02").notebook.cells)
    slices, hop = 2 * parameter_count(MODELS["Llama-3-8B"]) // 10**6, 5e-6 + 1e6 / 50e9
    assert f"sends the 16.06 GB as {slices:,} slices, one after another, which takes {slices * hop:.2f} s" in text
    assert f"which take {1022 * hop:.2f} s. So the chain takes {(slices + 1022) * hop:.2f} s," in text
