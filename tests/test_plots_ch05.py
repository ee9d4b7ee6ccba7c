"""Chapter 5's pictures: a layer cut over ranks, what stands in between, what a rank holds, how long a layer takes."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
from legible import assert_legible
from matplotlib.colors import to_hex

from course_lib.hardware import H100
from course_lib.lessons.layer_trace import layer_seconds
from course_lib.models import MODELS
from course_lib.plots import (
    COLLECTIVE,
    FACES,
    cut_gate_and_up,
    cut_heads,
    cut_layer,
    drift,
    layer_times,
    saved_by_a_layer,
    sequence_parallel,
    shared_heads,
    three_states,
    token_times,
    toy_beside_real,
    ways_to_cut,
    words_of,
)

LLAMA = MODELS["Llama-3-70B"]
SAVED = {"MLP": [("into\nnorm", 1, False), ("into f", 1, False), ("hidden", 8, True)]}
DRAWINGS = {"mlp": cut_layer, "attention": cut_heads, "states": three_states, "ways": ways_to_cut,
            "sequence": sequence_parallel, "gate": cut_gate_and_up, "heads": shared_heads,
            "saved": lambda: saved_by_a_layer(SAVED, more="6 more outside")}  # fmt: skip


def letters(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_picture_is_legible(name):
    assert_legible(DRAWINGS[name]().figure)


def test_f_and_g_change_roles_between_forward_and_backward():
    said = letters(cut_layer())
    assert {"g\nall-reduce", "f\nall-reduce", "f\npasses it on", "g\npasses it on"} <= set(said)
    assert said.count("columns\nof A") == said.count("rows\nof B") == 4  # two ranks, two ways
    words = words_of(cut_layer().figure)
    assert "g is an all-reduce" in words and "f is an all-reduce" in words


def test_attention_is_cut_between_heads():
    ax = cut_heads()
    said = letters(ax)
    assert [word for word in said if word.startswith("softmax")] == [f"softmax of head {head}" for head in range(4)]
    cut, wrong = (line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_linewidth() > 2)
    heads = [patch.get_x() for patch in ax.patches if patch.get_width() == 2.1]  # of wq
    assert cut.get_xdata()[0] == pytest.approx(heads[2])
    assert heads[3] + 0.5 < wrong.get_xdata()[0] < heads[3] + 1.6
    assert {"cut here", "✗ not here"} <= set(said)


def test_products_lead_from_whole_to_summands_and_messages_back():
    said = letters(three_states())
    assert said[:6:2] == ["whole", "cut", "summands"]
    assert {"× columns", "× rows", "all-gather", "reduce-\nscatter"} <= set(said)
    assert "Back lead messages: all-gather from cut to whole" in words_of(three_states().figure)


def test_only_columns_then_rows_has_nothing_to_send_in_the_middle():
    said = letters(ways_to_cut())
    assert said.count("nothing to send") == 1
    assert sum(text.startswith(("all-", "reduce-")) for text in said) == 7


def test_messages_are_as_high_as_they_are_large():
    ax = ways_to_cut()
    said = letters(ax)
    assert [word for word in said if ":" in word and "then" in word] == [
        "columns, then columns: 5 × y", "rows, then columns: 9 × y", "rows, then rows: 6 × y",
        "columns, then rows: 2 × y"]  # fmt: skip
    purple = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == COLLECTIVE.lower()]
    assert [round(patch.get_height() / 0.7, 6) for patch in purple] == [4, 1, 8, 1, 4, 2, 2]
    assert [word for word in said if word.endswith(" × y") and ":" not in word] == [
        "4 × y", "1 × y", "8 × y", "1 × y", "4 × y", "2 × y", "2 × y"]  # fmt: skip


def test_what_all_ranks_hold_is_white():
    (apart,) = [text for text in sequence_parallel().texts if text.get_text() == "with sequence parallelism"]
    above = [patch for patch in apart.axes.patches if to_hex(patch.get_facecolor()).upper() in FACES]
    assert len(above) == 4 and all(patch.get_y() < apart.get_position()[1] for patch in above)
    saved = saved_by_a_layer(SAVED).patches
    assert to_hex(saved[0].get_facecolor()) == to_hex(saved[2].get_facecolor()) == "#ffffff"


def test_sequence_parallelism_has_the_same_two_halves():
    said = letters(sequence_parallel())
    assert {"reduce-\nscatter", "all-\ngather", "g:\nreduce-\nscatter", "f:\nall-\ngather"} <= set(said)


def test_gate_and_up_cut_as_one_give_a_rank_no_pair():
    said = letters(cut_gate_and_up())
    assert said.count("G") == said.count("U") == 8
    assert "ranks 2 and 3 have the same of up" in words_of(cut_gate_and_up().figure)


def test_on_twice_as_many_gpus_as_key_value_heads_each_is_copied():
    said = letters(shared_heads())
    assert said.count("k, v") == 8 + 16 and said.count("twice") == 8
    with pytest.raises(ValueError, match="heads=60"):
        shared_heads(60)


def test_what_a_layer_saves_is_told_as_whole_or_cut():
    ax = saved_by_a_layer(SAVED)
    assert "One layer saves 10 times the size of x: 2 whole (white), 8 cut" in ax.get_title("left")
    assert "MLP: into norm 1 (whole), into f 1 (whole), hidden 8 (cut)" in words_of(ax.figure)


def test_what_a_layer_saves_has_its_unit_and_names_the_ranks():
    said = letters(saved_by_a_layer(SAVED, more="6 more outside"))
    assert {"as wide as one x", "6 more outside", "hidden: 8", "into f"} <= set(said)
    assert [word for word in said if word.startswith("rank")] == [f"rank {rank}" for rank in range(4)]


def parts(*sizes: float) -> dict[str, float]:
    return dict(zip(("weights", "gradients", "optimizer", "activations"), sizes, strict=True))


def test_the_toy_is_in_its_unit_and_the_real_model_in_that_of_the_gpu():
    toy, real = {"one": parts(1e6, 1e6, 2e6, 45e6)}, {"tp 1": parts(141e9, 141e9, 847e9, 218e9)}
    axes = toy_beside_real(toy, real, H100.memory, ("toy", "real"))
    words = words_of(axes[0].figure)
    assert "one: 49 MB, of it weights 1, gradients 1, optimizer 2, activations 45" in words
    assert "tp 1: 1,347 GB" in words and "a line at 80 GB, one GPU" in words
    assert_legible(axes[0].figure)


def test_the_share_of_the_all_reduces_stands_beside_each_bar():
    ax = layer_times({"NVLink, P = 2": (0.004, 0), "NVLink, P = 8": (0.003, 0.001), "network": (0.001, 0.003)})
    assert [text.strip() for text in letters(ax)] == [f"4.0 ms, {share} % all-reduces" for share in (0, 25, 75)]
    assert ax.get_title("left") == "P = 8: all-reduces take 25 % of the time over NVLink, 75 % over network"
    assert "NVLink, P = 8: 3 ms of matrix products, 1 ms of all-reduces, which is 25%" in words_of(ax.figure)
    assert_legible(ax.figure)


def test_more_gpus_read_faster_and_wait_longer_and_those_that_nvlink_does_not_join_are_hatched():
    ring = {1: (0.04, 0.0), 8: (0.005, 0.0025), 32: (0.00125, 0.00675)}
    at_once = {8: (0.005, 0.001), 32: (0.00125, 0.001)}
    ax = token_times({"a ring": ring, "one step": at_once}, "A model", joined=8, fit=8)
    said = {text.get_text().strip(): text.get_weight() for text in ax.texts}
    assert said == {"40.0 ms: 25 tokens/s (does not fit)": "normal", "7.5 ms: 133 tokens/s": "bold",
                    "8.0 ms: 125 tokens/s": "normal",
                    "6.0 ms: 167 tokens/s": "bold", "2.3 ms: 444 tokens/s": "normal", "with a ring": "bold",
                    "with one step": "bold"}  # fmt: skip
    assert ax.get_title("left") == "8 GPUs: 133 tokens a second with a ring, 167 with one step"
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False] * 4 + [True] * 2 + [False] * 2 + [True] * 2
    words = words_of(ax.figure)
    assert "with a ring, 8 GPUs: reading 5.0 ms, all-reduces 2.5 ms, 133 tokens a second; " in words
    assert "444 tokens a second, with NVLink beyond one node" in words
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1 GPU", "8 GPUs", "32 GPUs"] + ["8 GPUs", "32 GPUs"]
    assert_legible(ax.figure)


def test_the_loss_falls_and_the_copies_come_apart():
    losses, copies = drift([5.0, 4.0], [5.0, 3.9], [0.1, 0.3])
    assert [line.get_label() for line in losses.lines] == ["right", "without f's sum"]
    assert list(copies.lines[0].get_ydata()) == [0, 0.1, 0.3]  # before the first step they are equal
    words = words_of(losses.figure)
    assert words.startswith("The loss is at most 2.5% off, and the copies of one weight come 0.3 apart")
    assert "step 2: 4.000, without f's sum 3.900" in words
    assert "after step 2: 0.3" in words
    assert_legible(losses.figure)


# One layer in seconds


def test_a_larger_batch_leaves_the_share_of_communication_as_it_is():
    shares = []
    for tokens in (4096, 65536):
        compute, talk = layer_seconds(LLAMA, tokens, 8, H100, H100.link)
        shares.append(talk / (compute + talk))
    assert shares == pytest.approx([0.188, 0.166], abs=0.001)  # what is lost is latency


def test_at_4096_tokens_latency_brings_the_half_down_from_37_gpus_to_24():
    compute, talk = layer_seconds(LLAMA, 4096, 24, H100, H100.link)
    assert talk / (compute + talk) == pytest.approx(0.5, abs=0.005)
