"""Model shapes: the parameters that follow from them, against published counts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from course_lib.models import MODELS, TINY_GPT, ModelShape, active_parameters, parameter_count, parameters_by_part

PUBLISHED = {
    "GPT-2": 124_439_808,
    "GPT-2 medium": 354_823_168,
    "GPT-2 large": 774_030_080,
    "GPT-2 XL": 1_557_611_200,
    "GPT-3": 174_604_259_328,
    "OPT-13B": 12_853_473_280,
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-13B": 13_015_864_320,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3-405B": 405_853_388_800,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Granite-3.0-2B": 2_533_531_648,
    "SmolLM2-135M": 134_515_008,
    "Mixtral-8x7B": 46_702_792_704,
    "DeepSeek-V3": 671_026_419_200,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_to_the_unit(name):
    """The sum of the matrices is the published number of parameters, exactly."""
    assert parameter_count(MODELS[name]) == PUBLISHED[name]


def test_every_model_of_the_table_is_checked():
    """A row without a published count would be a guess."""
    assert set(MODELS) == {*PUBLISHED, "tiny GPT"}
    assert all(shape.source for shape in MODELS.values())


def test_active_parameters_of_mixtral():
    """Two of eight experts: 12.9B of 46.7B, to the unit."""
    assert active_parameters(MODELS["Mixtral-8x7B"]) == 12_879_925_248


def test_active_parameters_of_deepseek_v3():
    """Published as 37B: 36.6B where the lookup of embeddings is left out (its README_WEIGHTS.md), 37.55B with it."""
    shape = MODELS["DeepSeek-V3"]
    active = active_parameters(shape)
    assert round((active - parameters_by_part(shape)["token embedding"]) / 1e9, 1) == 36.6
    assert active == pytest.approx(37.55e9, rel=1e-4)


def test_dense_models_are_wholly_active():
    """Without experts, every token uses every parameter."""
    assert all(active_parameters(shape) == parameter_count(shape) for shape in MODELS.values() if not shape.experts)


def test_a_second_way_to_count_gpt2():
    """GPT-2's family by the closed form 12lh²(1 + 13/12h) + (V + s)h + 2h agrees with the sum of parts."""
    for name in ("GPT-2", "GPT-2 medium", "GPT-2 large", "GPT-2 XL", "GPT-3", "OPT-13B"):
        m = MODELS[name]
        closed = m.layers * (12 * m.hidden**2 + 13 * m.hidden) + (m.vocabulary + m.positions + 2) * m.hidden
        assert parameter_count(m) == closed, name


def test_kv_heads_shrink_attention_only():
    """Fewer key and value heads take weights from attention and from nothing else."""
    shape = MODELS["Llama-3-8B"]
    full, grouped = parameters_by_part(replace(shape, kv_heads=32)), parameters_by_part(shape)
    assert full.pop("attention") - grouped.pop("attention") == 32 * 2 * 4096 * (4096 - 1024)
    assert full == grouped


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "layers = 0: must be a whole number, at least 1"),
        ({"hidden": -64}, "hidden = -64: must be a whole number"),
        ({"vocabulary": 256.0}, "vocabulary = 256.0: must be a whole number"),
        ({"heads": 3}, "heads = 3: must divide hidden = 64"),
        ({"kv_heads": 3}, "kv_heads = 3: must divide heads = 4"),
        ({"bias": "some"}, "bias = 'some': must be one of 'none', 'qkv', 'mlp', 'all'"),
        ({"positions": -1}, "positions = -1: must be 0"),
        ({"experts": 8}, "experts_per_token = 0: must be a whole number"),
        ({"experts": 2, "experts_per_token": 3, "expert_ffn": 8}, "experts_per_token = 3: at most experts = 2"),
        ({"experts": 2, "experts_per_token": 1, "expert_ffn": 8, "dense_layers": 4}, "dense_layers = 4: must be below"),
    ],
)
def test_an_impossible_shape_names_field_value_and_what_is_allowed(change, words):
    """ValueError with the field, its value, and the rule."""
    with pytest.raises(ValueError) as error:
        replace(TINY_GPT, **change)
    assert words in str(error.value)


def test_a_shape_is_a_value():
    """Shapes compare by what they say, can be keys, and cannot be changed."""
    assert replace(TINY_GPT) == TINY_GPT
    assert {TINY_GPT: 1}[replace(TINY_GPT)] == 1
    with pytest.raises(AttributeError):
        TINY_GPT.layers = 5


def test_the_tables_and_formulas_import_neither_torch_nor_numpy():
    """`hardware`, `models`, `costs`, `memory` and `planning` load in a fresh Python without the heavy libraries."""
    program = (
        "import sys; import course_lib.hardware, course_lib.models, course_lib.costs, course_lib.memory;"
        "import course_lib.planning;"
        "print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shapes_are_model_shapes():
    """The table is keyed by the name inside each row."""
    assert all(isinstance(shape, ModelShape) and shape.name == name for name, shape in MODELS.items())
