"""The models that people serve: parameters, active ones and keys and values against what is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.memory import kv_cache_bytes, parameters_on_rank
from course_lib.models import MODELS, active_parameters, parameter_count, parameters_by_part
from course_lib.served import SERVED

PUBLISHED = {  # to the unit, as checkpoints count them (safetensors, GGUF); a tied head once
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "Kimi-K2": 1_026_408_232_448,
}
ROUNDED = {  # billions: all, and a token's; Llama 4 is 109 and 400 with what reads pictures
    "Qwen3-30B-A3B": (30.5, 3.3),
    "Qwen3-235B-A22B": (235, 22),
    "Kimi-K2": (1026, 32.9),
    "Llama-4-Scout": (107.8, 17.2),
    "Llama-4-Maverick": (400.7, 17.2),
}
GEMMA = {"Gemma-3-1B": 698, "Gemma-3-4B": 3_209, "Gemma-3-12B": 10_759, "Gemma-3-27B": 25_600}  # 2503.19786, Table 1


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_to_the_unit(name):
    assert parameter_count(SERVED[name]) == PUBLISHED[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_counts_that_are_published_rounded(name):
    counts = parameter_count(SERVED[name]), active_parameters(SERVED[name])
    assert [count / 1e9 for count in counts] == pytest.approx(ROUNDED[name], rel=0.02)


@pytest.mark.parametrize("name", GEMMA)
def test_gemmas_parameters_without_the_embedding_in_millions(name):
    parts = parameters_by_part(SERVED[name])
    assert round((sum(parts.values()) - parts["token embedding"]) / 1e6) == GEMMA[name]


def test_gpt_oss_120b_uses_5_13_billion_parameters_a_token():
    """As its card counts: without the lookup of embeddings."""
    shape = SERVED["gpt-oss-120b"]
    assert active_parameters(shape) - parameters_by_part(shape)["token embedding"] == 5_132_849_472


def test_every_model_is_checked_and_has_a_source():
    assert set(SERVED) == {*PUBLISHED, *ROUNDED, *GEMMA}
    assert all(len(shape.source) > 20 and shape.name == name for name, shape in SERVED.items())
    assert not set(SERVED) & set(MODELS)


@pytest.mark.parametrize("name", SERVED)
def test_what_a_rank_holds_is_the_model(name):
    assert sum(parameters_on_rank(SERVED[name]).values()) == parameter_count(SERVED[name])


def test_a_head_of_its_own_width():
    """Qwen3-32B: 64 heads of 128 in a hidden size of 5,120; from 80 there would be 30.5B parameters."""
    shape = SERVED["Qwen3-32B"]
    assert (shape.head_size, shape.hidden // shape.heads) == (128, 80)
    assert kv_cache_bytes(shape, 1) == 262_144
    narrow = replace(shape, head_width=0, qk_norm=False)
    assert parameter_count(narrow) == pytest.approx(30.50e9, rel=1e-3)
    assert kv_cache_bytes(narrow, 1) == 163_840


def test_norms_of_queries_and_keys_are_whole_on_every_rank():
    """Two norms of 128 a layer, on each of eight ranks."""
    shape = SERVED["Qwen3-32B"]
    with_norms, without = (parameters_on_rank(one, tp=8)["shared"] for one in (shape, replace(shape, qk_norm=False)))
    assert with_norms - without == 64 * 2 * 128


def test_windows_bound_what_is_kept():
    """Gemma 3 27B: 52 of its 62 layers keep at most 1,024 tokens; a context of 128 Ki costs 17 % of what it would."""
    shape = SERVED["Gemma-3-27B"]
    token = 2 * 16 * 128 * 2
    assert kv_cache_bytes(shape, 1024) == 62 * 1024 * token
    assert kv_cache_bytes(shape, 131072) == (10 * 131072 + 52 * 1024) * token
    whole = kv_cache_bytes(replace(shape, window=0, full_layers=0), 131072)
    assert kv_cache_bytes(shape, 131072) / whole == pytest.approx(0.168, abs=0.001)


def test_latent_attention_keeps_576_numbers_a_layer():
    assert kv_cache_bytes(SERVED["Kimi-K2"], 1) == 61 * 576 * 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head_width": -1}, "head_width = -1: must be a whole number"),
        ({"head_width": 12.5}, "head_width = 12.5: must be a whole number"),
        ({"window": -5}, "window = -5: must be a whole number"),
        ({"window": 8, "full_layers": 65}, "full_layers = 65: at most layers = 64, with a window only"),
        ({"full_layers": 2}, "full_layers = 2: .* with a window only"),
    ],
)
def test_an_impossible_shape_names_field_value_and_what_is_allowed(change, words):
    with pytest.raises(ValueError, match=words):
        replace(SERVED["Qwen3-32B"], **change)
