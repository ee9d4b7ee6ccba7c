"""FLOPs, roofline and days: against published runs, and against torch's own counter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from course_lib.costs import (
    forward_flops,
    matmul_bytes,
    matmul_flops,
    matmul_intensity,
    ridge_point,
    roofline_flops,
    roofline_seconds,
    step_flops,
    training_days,
    training_flops,
    utilization,
)
from course_lib.gpt import GPT, next_token_loss
from course_lib.hardware import A100, GPUS, H100
from course_lib.models import MODELS, TINY_GPT, ModelShape, active_parameters, parameter_count

TRILLION = ModelShape(
    *("1T", 25600, 4 * 25600, 128, 160, 160, 51200, "2104.04473, Table 1", 2048, "all"),
    layer_norm=True,
    gated=False,
    tied=True,
)


def counted(shape, batch, sequence, recompute=False):
    """Return torch's count of forward and backward FLOPs of the GPT of this shape."""
    model, x = GPT(shape), torch.zeros(batch, sequence, dtype=torch.long)
    with FlopCounterMode(display=False) as forward:
        loss = next_token_loss(model(x), x)
    if recompute:
        for block in model.blocks:
            block.forward = lambda stream, run=block.forward: checkpoint(run, stream, use_reentrant=False)
        with set_checkpoint_early_stop(False):
            loss = next_token_loss(model(x), x)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


@pytest.mark.parametrize("change", [{}, {"hidden": 48, "ffn": 100, "layers": 3, "vocabulary": 37}, {"layers": 1}])
def test_forward_and_step_flops_are_what_torch_counts(change):
    """Formula and FlopCounterMode agree to the unit: forward, and a backward twice as dear."""
    shape = replace(TINY_GPT, **change)
    forward, backward = counted(shape, 2, 32)
    assert sum(forward_flops(shape, 2, 32).values()) == forward
    assert step_flops(shape, 2, 32) == forward + backward


def test_full_recomputation_is_what_torch_counts():
    """With every block checkpointed, torch counts the blocks' forward once more and not the head's.

    By default torch stops a recomputation early, before each block's last matmul, whose output nothing needs.
    """
    forward, backward = counted(TINY_GPT, 2, 32, recompute=True)
    assert step_flops(TINY_GPT, 2, 32, recompute="full") == forward + backward


def test_selective_recomputation_repeats_the_scores_only():
    """Selective recomputation adds one pass of attention's two products."""
    extra = step_flops(TINY_GPT, 2, 32, recompute="selective") - step_flops(TINY_GPT, 2, 32)
    assert extra == forward_flops(TINY_GPT, 2, 32)["scores"]


def test_step_flops_are_narayanans_formula():
    """96Bslh²(1 + s/6h + V/16lh) for the trillion-parameter model, with full recomputation."""
    b, s, m = 3072, 2048, TRILLION
    h, l, v = m.hidden, m.layers, m.vocabulary  # noqa: E741
    formula = 96 * b * s * l * h**2 * (1 + s / (6 * h) + v / (16 * l * h))
    assert step_flops(m, b, s, recompute="full") == pytest.approx(formula, rel=1e-12)


def test_causal_attention_halves_the_scores_and_nothing_else():
    """causal=True takes half of the scores; layers and head stay."""
    full, half = forward_flops(TINY_GPT, 2, 32), forward_flops(TINY_GPT, 2, 32, causal=True)
    assert half == full | {"scores": full["scores"] / 2}


def test_six_per_parameter_and_token():
    """1e12 parameters x 3e11 tokens: 1.8e24 FLOPs; GPT-3 on 300B tokens: 3.14e23 (2005.14165, appendix D)."""
    assert training_flops(1e12, 3e11) == 1.8e24
    assert training_flops(1e12, 3e11, recompute="full") == 2.4e24
    assert training_flops(parameter_count(MODELS["GPT-3"]), 300e9) == pytest.approx(3.14e23, rel=0.002)


def test_the_rule_of_thumb_against_the_exact_count():
    """For GPT-3 the exact count is 2 to 4 % above 6 per parameter and token: attention's scores."""
    shape = MODELS["GPT-3"]
    ratio = step_flops(shape, 1, 2048) / training_flops(parameter_count(shape), 2048)
    assert 1.02 < ratio < 1.04


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "DeepSeek-V3"])
def test_experts_cost_only_the_active_ones(name):
    """Matrices cost 2 FLOPs per active parameter and token; the embedding is looked up, norms and biases are free."""
    shape = MODELS[name]
    parts, layers = forward_flops(shape, 1, 1), shape.layers
    free = (shape.vocabulary + 2 * layers + 1) * shape.hidden
    if name == "DeepSeek-V3":
        free += layers * (1536 + 512) + 58 * 256  # norms inside latent attention, the routers' corrections
    assert parts["layers"] + parts["head"] == 2 * (active_parameters(shape) - free)


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpus", "reached", "days"),
    [(175e9, 300e9, 1024, 140e12, 34), (1.008e12, 450e9, 3072, 163e12, 84)],
)
def test_narayanans_days(parameters, tokens, gpus, reached, days):
    """8TP/(nX) gives the paper's 34 and 84 days."""
    assert round(training_days(parameters, tokens, gpus, reached, recompute="full")) == days


def test_a_trillion_parameters_on_one_gpu_take_57_years():
    """1T parameters, 300B tokens, 10^15 FLOP/s."""
    assert training_days(1e12, 3e11, 1, 1e15) / 365.25 == pytest.approx(57.0, abs=0.1)


def test_half_the_utilization_is_twice_the_days():
    """`mfu` divides."""
    assert training_days(1e9, 1e9, 8, 1e15, mfu=0.5) == 2 * training_days(1e9, 1e9, 8, 1e15)


def test_the_published_52_percent_is_hfu():
    """Narayanan's 163 TFLOP/s of 312 counts recomputation; without it, about 3/4 of that is MFU."""
    seconds = step_flops(TRILLION, 3072, 2048, recompute="full") / (3072 * 163e12)
    hfu = utilization(step_flops(TRILLION, 3072, 2048, recompute="full"), seconds, 3072, A100.peak())
    mfu = utilization(step_flops(TRILLION, 3072, 2048), seconds, 3072, A100.peak())
    assert hfu == pytest.approx(0.52, abs=0.005)
    assert mfu / hfu == pytest.approx(3 / 4, abs=0.005)


def test_a_matmul_counted_by_hand():
    """(2, 3) times (3, 5): 30 multiplies, 30 adds, 6 + 15 + 10 numbers of two bytes."""
    assert matmul_flops(2, 3, 5) == 60
    assert matmul_bytes(2, 3, 5) == 62
    assert matmul_intensity(2, 3, 5) == pytest.approx(60 / 62)


def test_square_matmuls_have_intensity_a_third_of_their_size():
    """n x n in 16 bits: 2n³ FLOPs over 6n² bytes."""
    assert matmul_intensity(4096, 4096, 4096) == pytest.approx(4096 / 3)


@pytest.mark.parametrize("name", GPUS)
def test_the_ridge_is_where_both_limits_meet(name):
    """At the ridge point, computing and moving take the same time on every GPU."""
    gpu = GPUS[name]
    dtype = "fp16" if gpu.fp16 else "bf16"
    ridge = ridge_point(gpu, dtype)
    assert roofline_flops(ridge, gpu, dtype) == pytest.approx(gpu.peak(dtype))
    assert roofline_flops(ridge / 2, gpu, dtype) == pytest.approx(gpu.peak(dtype) / 2)
    assert roofline_flops(ridge * 2, gpu, dtype) == gpu.peak(dtype)
    assert ridge / gpu.peak(dtype) * gpu.memory_bandwidth == pytest.approx(1)


def test_decoding_is_memory_bound_and_prefill_is_not():
    """One token times a 4096 x 4096 matrix is limited by memory on an H100, 4,096 tokens by compute: ridge at 295."""
    assert ridge_point(H100) == pytest.approx(295, abs=1)
    assert matmul_intensity(1, 4096, 4096) < 1 < ridge_point(H100) < matmul_intensity(4096, 4096, 4096)
    one = roofline_seconds(matmul_flops(1, 4096, 4096), matmul_bytes(1, 4096, 4096), H100)
    assert one == matmul_bytes(1, 4096, 4096) / H100.memory_bandwidth


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: matmul_flops(0, 1, 1), "m = 0: must be a whole number"),
        (lambda: matmul_bytes(1, 1, 1, 0), "dtype_bytes = 0: must be above 0"),
        (lambda: training_days(1e9, 1e9, -1, 1e15), "gpus = -1: must be a whole number, at least 1"),
        (lambda: training_days(1e9, 1e9, 1, 1e15, mfu=42), "mfu = 42: must be above 0 and at most 1"),
        (lambda: training_days(float("nan"), 1e9, 1, 1e15), "parameters = nan: must be above 0"),
        (lambda: training_flops(1e9, 1e9, "selective"), "recompute = 'selective': must be one of 'none', 'full'"),
        (
            lambda: step_flops(TINY_GPT, 1, 1, recompute="half"),
            "recompute = 'half': must be one of 'none', 'selective'",
        ),
        (lambda: forward_flops(TINY_GPT, 0, 1), "batch = 0: must be a whole number"),
        (lambda: roofline_flops(-1, H100), "intensity = -1: must be above 0"),
        (lambda: utilization(1, 0, 1, 1), "seconds = 0: must be above 0"),
    ],
)
def test_impossible_arguments_are_named(call, words):
    """ValueError with the field, its value, and the rule."""
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value)
