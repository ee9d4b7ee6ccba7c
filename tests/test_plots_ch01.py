"""Chapter 1's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

import torch
from legible import assert_legible

from course_lib import memory, plots
from course_lib.hardware import H100
from course_lib.models import MODELS, parameter_count
from course_lib.plots.layer import matrices
from course_lib.plots.number_formats import FORMATS, largest

LLAMA = MODELS["Llama-3-8B"]
PICTURES = {
    "question": lambda: plots.store_serve_train(answer=False),
    "answer": plots.store_serve_train,
    "layer": lambda: plots.layer_matrices(LLAMA),
    "plain layer": lambda: plots.layer_matrices(MODELS["GPT-2"]),
    "formats": plots.number_formats,
    "growth": lambda: plots.activation_growth(LLAMA, [1024, 4096, 16_384], H100.memory),
    "work": lambda: plots.roofline({"here": (1e11, 1e10), H100.name: (H100.peak(), H100.memory_bandwidth)},
                                   work={"decode": 1, "prompt": 2000}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


def test_the_question_does_not_tell_what_training_takes():
    asked, told = (plots.words_of(plots.store_serve_train(answer=answer).figure) for answer in (False, True))
    assert "to train it: a question mark" in asked and "133" not in asked
    assert "to train it: 133 GB, of it weights 16.1, gradients 16.1, optimizer 96.4, working 4.2" in told


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
    assert f"{memory.activation_bytes(LLAMA, 1, 4096, 'none') / 1e9:.3g} GB at 4,096" in words


def test_work_is_marked_on_the_last_roof_and_both_regions_are_named():
    ax = PICTURES["work"]()
    words = [text.get_text() for text in ax.texts]
    assert {"decode", "prompt", "H100 SXM: memory-bound,\nbytes decide", "compute-bound,\nFLOPs decide"} <= set(words)
    marked = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "D"]
    assert marked == [[1, H100.memory_bandwidth], [2000, H100.peak()]]
