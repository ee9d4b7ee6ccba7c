"""Chapter 1's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

import torch
from legible import assert_legible

from course_lib import memory, plots
from course_lib.gpt import GPT, next_token_loss
from course_lib.hardware import H100
from course_lib.lessons.memory_step import measure_step
from course_lib.models import MODELS, TINY_GPT, parameter_count
from course_lib.plots.layer import matrices
from course_lib.plots.number_formats import FORMATS, largest

LLAMA = MODELS["Llama-3-8B"]
PICTURES = {
    "question": lambda: plots.store_serve_train(answer=False),
    "answer": plots.store_serve_train,
    "layer": lambda: plots.layer_matrices(LLAMA),
    "plain layer": lambda: plots.layer_matrices(MODELS["GPT-2"]),
    "formats": plots.number_formats,
    "growth": lambda: plots.activation_growth(LLAMA, [1024, 2048, 4096, 8192], H100.memory),
    "plain growth": lambda: plots.activation_growth(MODELS["GPT-3"], [512, 1024, 2048], H100.memory),
    "mixed": plots.mixed_step,
    "kept": lambda: plots.kept_tensors(LLAMA, 1024),
    "plain kept": lambda: plots.kept_tensors(MODELS["GPT-3"], 2048),
    "experts": lambda: plots.expert_layer(MODELS["Mixtral-8x7B"]),
    "roof": lambda: plots.roofline(H100.peak(), H100.memory_bandwidth, {"decode": 1, "64 users": 63, "prompt": 1800},
                                   title="an H100"),
}


def steps():
    torch.manual_seed(0)
    model, tokens = GPT(TINY_GPT), torch.randint(0, TINY_GPT.vocabulary, (4, 32))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return [measure_step(model, optimizer, lambda model: next_token_loss(model(tokens), tokens)) for _ in range(2)]


def test_measured_steps_are_legible():
    first, second = steps()
    assert_legible(plots.memory_timeline(first, title="first", stairs=4).figure)
    assert_legible(plots.memory_timelines(first, second, limit=5e6)[0].figure)


def test_the_moments_lie_below_the_gradients_so_that_the_floor_is_flat():
    _, second = steps()
    ax = plots.memory_timeline(second)
    floors = [shade.get_paths()[0].vertices[:, 1].max() for shade in ax.collections[:2]]
    assert floors == [pytest.approx(0.96), pytest.approx(2.88, abs=1e-3)]  # the weights; with the moments on top


def test_a_limit_says_which_step_it_stops():
    first, second = steps()
    left, right = ([text.get_text() for text in ax.texts] for ax in plots.memory_timelines(first, second, limit=5e6))
    assert "5 MB: enough" in left and "5 MB: out of\nmemory" in right


def test_a_total_stands_on_its_own_side_of_the_line():
    usual = {"recompute": "selective", "fused": True, "gpu": H100}
    plans = {name: memory.training_memory(LLAMA, 1, 8192, zero=zero, dp=8, **usual)
             for name, zero in (("below", 3), ("above", 1))}  # fmt: skip
    ax = plots.memory_bars(plans)
    ax.figure.canvas.draw()
    line = ax.transData.transform((80, 0))[0]
    box = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert box["71.9 GB"].x1 < line < box["84.9 GB"].x0


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


def test_the_question_does_not_tell_what_training_takes():
    asked, told = (plots.words_of(plots.store_serve_train(answer=answer).figure) for answer in (False, True))
    assert "to train it: a question mark" in asked and "128" not in asked
    assert "to train it: 128 GB, of it weights 32.1, gradients 32.1, optimizer 64.2" in told and "working" not in told


def test_the_matrices_of_the_layers_and_the_ends_make_up_the_model():
    layers = LLAMA.layers * sum(rows * columns for rows, columns in matrices(LLAMA).values())
    ends, norms = 2 * LLAMA.vocabulary * LLAMA.hidden, (2 * LLAMA.layers + 1) * LLAMA.hidden
    assert layers + ends + norms == parameter_count(LLAMA)


@pytest.mark.parametrize(("name", "dtype"), [
    ("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16),
    ("fp8 e4m3", torch.float8_e4m3fn), ("fp8 e5m2", torch.float8_e5m2),
])  # fmt: skip
def test_formats_are_torchs(name, dtype):
    facts = torch.finfo(dtype)
    assert largest(name) == pytest.approx(facts.max, rel=1e-12)
    assert 2.0 ** -FORMATS[name][1] == facts.eps


def test_the_growth_of_activations_is_the_librarys():
    words = plots.words_of(PICTURES["growth"]().figure)
    for recompute in ("none", "selective", "full"):
        assert f"{memory.activation_bytes(LLAMA, 1, 4096, recompute) / 1e9:.3g} GB at 4,096" in words


def test_work_stands_on_the_roof_and_its_words_on_its_side_of_the_ridge():
    ax = PICTURES["roof"]()
    marked = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "D"]
    assert marked == [[1, H100.memory_bandwidth], [63, 63 * H100.memory_bandwidth], [1800, H100.peak()]]
    words = {text.get_text() for text in ax.texts}
    assert {"bytes decide:\nmemory-bound", "FLOPs decide:\ncompute-bound"} <= words
    assert {"decode:\nat most 0.34 % of the peak", "prompt:\nat most 100 % of the peak"} <= words
    ax.figure.canvas.draw()
    ridge = ax.transData.transform((H100.peak() / H100.memory_bandwidth, 1))[0]
    (near,) = (text for text in ax.texts if text.get_text().startswith("64 users"))
    assert near.get_window_extent().x1 < ridge


def test_what_is_shaded_lies_below_the_roof():
    ax = PICTURES["roof"]()
    tops = [shade.get_datalim(ax.transData).y1 for shade in ax.collections]
    assert tops == [pytest.approx(H100.peak())] * 2


def test_what_a_token_keeps_is_what_the_library_counts():
    said = PICTURES["kept"]().get_title("left")
    layer = sum(memory.layer_activation_bytes(LLAMA, 1, 1024).values())
    assert f"keeps {layer / 2 / 1024:,.0f} numbers" in said


def test_a_mixture_names_the_experts_of_two_tokens():
    bold = [text.get_text() for text in PICTURES["experts"]().texts if text.get_weight() == "bold"]
    assert bold == [f"expert {number}: 176 million" for number in (2, 3, 6, 8)]
