"""Chapter 5's pictures: a layer cut over ranks, what stands in between, what a rank holds, how long a layer takes."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
from legible import assert_legible

from course_lib.hardware import DGX_H100, H100
from course_lib.lessons.layer_trace import layer_seconds, layer_trace
from course_lib.models import MODELS
from course_lib.plots import (
    cut_gate_and_up,
    cut_layer,
    layer_times,
    saved_by_a_layer,
    sequence_parallel,
    shared_heads,
    toy_beside_real,
    ways_to_cut,
    words_of,
)

LLAMA = MODELS["Llama-3-70B"]
SAVED = {"MLP": [("into\nnorm", 1, False), ("into f", 1, False), ("hidden", 8, True)]}
DRAWINGS = {"mlp": lambda: cut_layer("mlp"), "attention": lambda: cut_layer("attention"), "ways": ways_to_cut,
            "sequence": sequence_parallel, "counted": lambda: ways_to_cut(counted=True), "gate": cut_gate_and_up,
            "heads": shared_heads, "saved": lambda: saved_by_a_layer(SAVED)}  # fmt: skip


def letters(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_picture_is_legible(name):
    assert_legible(DRAWINGS[name]().figure)


def test_f_and_g_change_roles_between_forward_and_backward():
    said = letters(cut_layer("mlp"))
    assert {"g\nall-reduce", "f\nall-reduce", "f\npasses it on", "g\npasses it on"} <= set(said)
    assert said.count("columns\nof A") == said.count("rows\nof B") == 4  # two ranks, two ways
    words = words_of(cut_layer("mlp").figure)
    assert "g is an all-reduce" in words and "f is an all-reduce" in words


def test_attention_is_cut_between_heads():
    said = letters(cut_layer("attention"))
    assert said.count("attends with\nheads 0, 1") == said.count("attends with\nheads 2, 3") == 2


def test_a_part_that_a_layer_does_not_have_is_refused():
    with pytest.raises(ValueError, match="mlp, attention"):
        cut_layer("norm")


def test_only_columns_then_rows_has_nothing_to_send_in_the_middle():
    said = letters(ways_to_cut())
    assert said.count("nothing to send") == 1
    assert sum(text.startswith("all-") for text in said) == 5


def test_sequence_parallelism_has_the_same_two_halves():
    said = letters(sequence_parallel())
    assert {"reduce-\nscatter", "all-\ngather", "g:\nreduce-\nscatter", "f:\nall-\ngather"} <= set(said)


def test_the_widths_that_a_way_sends_are_shown_only_when_they_are_asked_for():
    assert not any("widths" in text for text in letters(ways_to_cut()))
    assert "columns, then rows: 2 widths" in letters(ways_to_cut(counted=True))


def test_gate_and_up_cut_as_one_give_a_rank_no_pair():
    said = letters(cut_gate_and_up())
    assert said.count("G") == said.count("U") == 8
    assert "ranks 2 and 3 have the same of up" in words_of(cut_gate_and_up().figure)


def test_on_twice_as_many_gpus_as_key_value_heads_each_is_copied():
    said = letters(shared_heads())
    assert said.count("k, v") == 8 and said.count("kv") == 16
    with pytest.raises(ValueError, match="heads=60"):
        shared_heads(60)


def test_what_a_layer_saves_is_told_as_whole_or_cut():
    ax = saved_by_a_layer(SAVED)
    assert "One layer saves 10 times the size of x: 2 stay whole (grey), 8 are cut" in ax.get_title("left")
    assert "MLP: into norm 1 (whole), into f 1 (whole), hidden 8 (cut)" in words_of(ax.figure)


def parts(*sizes: float) -> dict[str, float]:
    return dict(zip(("weights", "gradients", "optimizer", "activations"), sizes, strict=True))


def test_the_toy_is_in_its_unit_and_the_real_model_in_that_of_the_gpu():
    toy, real = {"one": parts(1e6, 1e6, 2e6, 45e6)}, {"tp 1": parts(141e9, 141e9, 847e9, 218e9)}
    axes = toy_beside_real(toy, real, H100.memory, ("toy", "real"))
    words = words_of(axes[0].figure)
    assert "one: 49 MB, of it weights 1, gradients 1, optimizer 2, activations 45" in words
    assert "tp 1: 1,347 GB" in words and "a line at 80 GB, one GPU" in words
    assert_legible(axes[0].figure)


def test_the_share_of_communication_stands_beside_each_bar():
    ax = layer_times({"NVLink": (0.003, 0.001), "network": (0.001, 0.003)}, "title")
    assert [text.strip() for text in letters(ax)] == [
        "4 ms, 25 % of it communication", "4 ms, 75 % of it communication"]  # fmt: skip
    assert "NVLink: 3 ms of matrix products, 1 ms of all-reduces, which is 25%" in words_of(ax.figure)
    assert_legible(ax.figure)


# One layer in seconds: the formula, and the simulator


@pytest.mark.parametrize(("link", "ranks"), [(H100.link, 8), (DGX_H100.nic, 4)])
def test_a_trace_takes_the_seconds_of_the_formula(link, ranks):
    compute, talk = layer_seconds(LLAMA, 4096, ranks, H100, link)
    trace = layer_trace(LLAMA, 4096, ranks, H100, link)
    assert trace.seconds == pytest.approx(compute + talk, rel=1e-4)
    mine = trace.of(ranks - 1)
    assert [(event.kind, event.label) for event in mine if event.label] == [
        ("forward", "att"), ("all_reduce", "g"), ("forward", "MLP"), ("all_reduce", "g"),
        ("backward", "MLP"), ("all_reduce", "f"), ("backward", "att"), ("all_reduce", "f")]  # fmt: skip


def test_a_larger_batch_leaves_the_share_of_communication_as_it_is():
    shares = []
    for tokens in (4096, 65536):
        compute, talk = layer_seconds(LLAMA, tokens, 8, H100, H100.link)
        shares.append(talk / (compute + talk))
    assert shares == pytest.approx([0.188, 0.166], abs=0.001)  # what is lost is latency
