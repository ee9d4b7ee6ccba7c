"""Bytes: against the papers' figures, and against what a real training step on this CPU keeps alive."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from course_lib.gpt import GPT, next_token_loss
from course_lib.hardware import A100, GPUS, H100
from course_lib.lessons.memory_step import MeasuredStep, measure_step, saved_for_backward
from course_lib.memory import (
    PRECISIONS,
    activation_bytes,
    kv_cache_bytes,
    largest_model_that_fits,
    layer_activation_bytes,
    layers_of_stage,
    logit_bytes,
    model_state_bytes,
    parameters_on_rank,
    readable,
    training_memory,
)
from course_lib.models import MODELS, TINY_GPT, parameter_count


@pytest.fixture(autouse=True)
def one_thread():
    """Measurements do not depend on how many cores this machine has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def trained(shape, batch, sequence, optimizer=torch.optim.AdamW, recompute=False, **settings) -> MeasuredStep:
    """Return the second step of a model of this shape, measured; with `recompute` every block is checkpointed."""
    model = GPT(shape)
    opt = optimizer(model.parameters(), **settings)
    x = torch.randint(0, shape.vocabulary, (batch, sequence))
    if recompute:
        for block in model.blocks:
            block.forward = lambda stream, run=block.forward: checkpoint(run, stream, use_reentrant=False)
    measure_step(model, opt, lambda model: next_token_loss(model(x), x))
    return measure_step(model, opt, lambda model: next_token_loss(model(x), x))


SHAPES = {
    "tiny": (TINY_GPT, 8, 64),
    "many scores": (replace(TINY_GPT, hidden=32, ffn=128), 2, 128),
    "large vocabulary": (replace(TINY_GPT, vocabulary=4096), 4, 64),
    "large weights": (replace(TINY_GPT, hidden=256, ffn=1024), 1, 8),
    "biases everywhere": (replace(TINY_GPT, hidden=128, ffn=512, bias="all", layers=3), 4, 32),
}
shapes = pytest.mark.parametrize(("shape", "batch", "sequence"), SHAPES.values(), ids=SHAPES)

# Weights, gradients, optimizer


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zeros_figures(zero, gigabytes):
    """7.5B parameters on 64 ranks: 120, 31.4, 16.6 and 1.9 GB (ZeRO, figure 1)."""
    states = model_state_bytes(7.5e9, "bf16 mixed", "adam", zero, ranks=64)
    assert sum(states.values()) / 1e9 == pytest.approx(gigabytes, abs=0.05)


@pytest.mark.parametrize("zero", range(4))
def test_zeros_formulas(zero):
    """16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N."""
    psi, n = 7.5e9, 64
    formula = (16 * psi, 4 * psi + 12 * psi / n, 2 * psi + 14 * psi / n, 16 * psi / n)[zero]
    assert sum(model_state_bytes(psi, zero=zero, ranks=n).values()) == pytest.approx(formula)


@pytest.mark.parametrize(
    ("precision", "optimizer", "per_parameter"),
    [
        ("fp32", "sgd", (4, 4, 0)),
        ("fp32", "momentum", (4, 4, 4)),
        ("fp32", "adamw", (4, 4, 8)),
        ("bf16 mixed", "adamw", (2, 2, 12)),
        ("fp16 mixed", "adam", (2, 2, 12)),
        ("bf16 mixed", "sgd", (2, 2, 4)),
        ("bf16 mixed, fp32 gradients", "adamw", (2, 4, 12)),
        ("fp16 mixed, fp32 gradients", "adam", (2, 6, 12)),
        ("bf16 pure", "adamw", (2, 2, 4)),
    ],
)
def test_bytes_per_parameter(precision, optimizer, per_parameter):
    """16 in fp32 and mixed bf16 alike, 18 and 20 in Megatron; of optimizer 8 in fp32, 12 with a master copy."""
    assert tuple(model_state_bytes(1, precision, optimizer).values()) == per_parameter


def test_seven_billion_parameters_take_112_gb_both_ways():
    """Mixed precision does not halve the memory of training: fp32 and mixed bf16 both take 16 bytes a parameter."""
    for precision in ("fp32", "bf16 mixed"):
        assert sum(model_state_bytes(7e9, precision).values()) == 112e9


@pytest.mark.parametrize(
    ("optimizer", "settings", "name"),
    [
        (torch.optim.SGD, {}, "sgd"),
        (torch.optim.SGD, {"momentum": 0.9}, "momentum"),
        (torch.optim.Adam, {}, "adam"),
        (torch.optim.AdamW, {}, "adamw"),
    ],
)
def test_states_of_a_real_step(optimizer, settings, name):
    """Weights and gradients to the byte; the optimizer's state within 2 % (Adam keeps a step counter per tensor)."""
    measured = trained(TINY_GPT, 2, 16, optimizer, **settings).parts
    predicted = model_state_bytes(parameter_count(TINY_GPT), "fp32", name)
    assert measured["weights"] == predicted["weights"]
    assert measured["gradients"] == predicted["gradients"]
    assert measured["optimizer"] == pytest.approx(predicted["optimizer"], rel=0.02)


# Activations


@pytest.mark.parametrize(("batch", "sequence"), [(4, 64), (2, 128), (8, 16)])
def test_korthikanti_without_dropout(batch, sequence):
    """One block saves sbh(32 + 2as/h) in 16 bits, twice that in fp32: measured within 1 % (the norms' statistics)."""
    model = GPT()
    x = torch.randn(batch, sequence, 64, requires_grad=True)
    measured, _ = saved_for_backward(lambda: model.blocks[0](x), *model.parameters())
    paper = sequence * batch * 64 * (32 + 2 * 4 * sequence / 64) * 2
    assert sum(layer_activation_bytes(TINY_GPT, batch, sequence, element=4).values()) == paper
    assert measured == pytest.approx(paper, rel=0.01)


def test_korthikanti_with_dropout():
    """Dropout adds two masks of the stream, a mask of the scores and their dropped-out copy: measured within 1 %.

    On this CPU a mask has four bytes an element; with the one byte it has on GPUs this is the paper's sbh(34 + 5as/h).
    """
    model = GPT(dropout=0.1)
    x = torch.randn(4, 64, 64, requires_grad=True)
    measured, _ = saved_for_backward(lambda: model.blocks[0](x), *model.parameters())
    assert measured == pytest.approx(sum(layer_activation_bytes(TINY_GPT, 4, 64, element=4, mask=4).values()), rel=0.01)


def test_korthikantis_table():
    """The five rows of their table 2, for GPT-3's shape in 16 bits with dropout, to the byte."""
    shape, s, b, t = MODELS["GPT-3"], 2048, 1, 8
    h, a = shape.hidden, shape.heads

    def layer(recompute="none", **settings):
        return sum(layer_activation_bytes(shape, b, s, recompute, mask=1, **settings).values())

    assert layer() == s * b * h * (34 + 5 * a * s / h)
    assert layer(tp=t) == s * b * h * (10 + 24 / t + 5 * a * s / (h * t))
    assert layer(tp=t, sequence_parallel=True) == s * b * h / t * (34 + 5 * a * s / h)
    assert layer("selective", tp=t, sequence_parallel=True) == 34 * s * b * h / t
    assert layer("full") == 2 * s * b * h


@shapes
def test_activations_and_logits_of_a_real_forward(shape, batch, sequence):
    """What the whole model saves, and what the loss adds, within 2 % of the formula, each by itself."""
    model = GPT(shape)
    x = torch.randint(0, shape.vocabulary, (batch, sequence))
    activations, logits = saved_for_backward(lambda: model(x), *model.parameters())
    in_loss, _ = saved_for_backward(lambda: next_token_loss(logits, x))
    assert activations == pytest.approx(activation_bytes(shape, batch, sequence, element=4), rel=0.02)
    assert in_loss == pytest.approx(logit_bytes(shape, batch, sequence), rel=0.02)


def test_grouped_keys_and_a_gated_mlp_save_what_their_shape_says():
    """Llama's layer without scores: inputs of 2 norms and 2 matrices, q, out, k and v of h/4, 4 of the MLP's width."""
    shape = MODELS["Llama-3-8B"]
    h, f = shape.hidden, shape.ffn
    bytes_per_token = sum(layer_activation_bytes(shape, 1, 1, "selective").values())
    assert bytes_per_token == 2 * (4 * h + 2 * h + 2 * h / 4 + 4 * f)


# The whole step


@shapes
def test_parts_of_a_real_step(shape, batch, sequence):
    """Weights, gradients, optimizer, saved activations and logits of a real step: each within 2 % of its formula."""
    predicted = training_memory(shape, batch, sequence, precision="fp32").parts
    assert trained(shape, batch, sequence).parts == pytest.approx(predicted, rel=0.02)


@shapes
def test_peak_of_a_real_step(shape, batch, sequence):
    """The most that is really alive is within 5 % of the predicted peak, and in the predicted part of the step."""
    measured = trained(shape, batch, sequence)
    predicted = training_memory(shape, batch, sequence, precision="fp32")
    assert predicted.peak == pytest.approx(measured.peak, rel=0.05)
    assert predicted.peak_moment == measured.peak_moment


@shapes
def test_each_moment_of_a_real_step(shape, batch, sequence):
    """At the end of forward, at its most in backward, and in the step: each within 5 % of its own prediction."""
    measured = trained(shape, batch, sequence).moments
    predicted = training_memory(shape, batch, sequence, precision="fp32").moments
    assert list(measured) == list(predicted)
    for moment, parts in measured.items():
        assert sum(predicted[moment].values()) == pytest.approx(sum(parts.values()), rel=0.05), moment


def test_peak_of_a_recomputed_step():
    """With every block checkpointed the peak is one block's activations above the inputs of all: within 5 %."""
    shape, batch, sequence = replace(TINY_GPT, layers=8, vocabulary=64), 4, 128
    predicted = training_memory(shape, batch, sequence, precision="fp32", recompute="full")
    assert predicted.peak == pytest.approx(trained(shape, batch, sequence, recompute=True).peak, rel=0.05)


def test_the_parts_are_those_of_their_own_formulas():
    """On one GPU the breakdown is the states, the activations and the logits, in this order."""
    shape = MODELS["Llama-3-8B"]
    parts = training_memory(shape, 1, 8192).parts
    states = model_state_bytes(parameter_count(shape))
    assert list(parts) == ["weights", "gradients", "optimizer", "activations", "logits"]
    assert {part: parts[part] for part in states} == states
    assert parts["activations"] == activation_bytes(shape, 1, 8192)
    assert parts["logits"] == 4 * 8192 * 128256


def test_the_peak_is_below_the_sum_unless_gradients_are_kept():
    """Gradients appear while activations go, so one micro-batch peaks below the sum; with two they are there before."""
    one = training_memory(TINY_GPT, 8, 64, precision="fp32")
    two = training_memory(TINY_GPT, 8, 64, precision="fp32", microbatches=2)
    assert one.peak < two.peak
    assert two.moments["at the end of forward"] == two.parts | {"working": 0}


# Many GPUs


def test_splitting_loses_no_parameter():
    """Over all stages, and over all tensor-parallel ranks but for what they copy, the parts add up to the model."""
    for name in ("GPT-3", "Llama-3-8B", "Mixtral-8x7B", "DeepSeek-V3"):
        shape = replace(MODELS[name], tied=False)
        for pp, chunks in ((1, 1), (4, 1), (8, 1), (4, 2), (7, 1)):
            held = [sum(parameters_on_rank(shape, pp=pp, stage=i, chunks=chunks).values()) for i in range(pp)]
            assert sum(held) == parameter_count(shape), (name, pp, chunks)
        copied = 8 * sum(parameters_on_rank(shape, tp=8).values()) - parameter_count(shape)
        assert 0 < copied < 0.002 * parameter_count(shape), name


def test_layers_that_do_not_divide():
    """126 layers on 16 stages: 8 on most, 7 on two, none lost; the first has as many as any."""
    counts = [layers_of_stage(MODELS["Llama-3-405B"], 16, stage, 1)[0] for stage in range(16)]
    assert sum(counts) == 126
    assert set(counts) == {7, 8}
    assert counts[0] == max(counts)


def test_a_first_stage_of_1f1b_holds_a_whole_model_of_activations():
    """p micro-batches of L/p layers: L layers' worth whatever p is; the next stages hold one micro-batch less each."""
    shape = MODELS["GPT-3"]
    layer = sum(layer_activation_bytes(shape, 1, 2048, "selective").values())
    for pp in (2, 4, 8):
        for stage in range(pp - 1):
            parts = training_memory(shape, 1, 2048, recompute="selective", pp=pp, stage=stage).parts
            assert parts["activations"] == pytest.approx((pp - stage) * 96 / pp * layer)


def test_interleaving_costs_memory():
    """An interleaved first stage holds 1 + (p-1)/(pv) times as much as a plain one."""
    shape = MODELS["GPT-3"]
    plain = training_memory(shape, 1, 2048, pp=8).parts["activations"]
    for chunks in (2, 3, 4):
        interleaved = training_memory(shape, 1, 2048, pp=8, chunks=chunks).parts["activations"]
        assert interleaved / plain == pytest.approx(1 + 7 / (8 * chunks))


def test_few_microbatches_bound_what_is_in_flight():
    """With two micro-batches no stage can hold more than two."""
    two = training_memory(MODELS["GPT-3"], 1, 2048, pp=8, microbatches=2).parts["activations"]
    eight = training_memory(MODELS["GPT-3"], 1, 2048, pp=8, microbatches=8).parts["activations"]
    assert two == eight / 4


def test_only_the_last_stage_has_logits():
    """The loss is computed on the last stage."""
    logits = [training_memory(MODELS["GPT-3"], 1, 2048, pp=4, stage=i).parts["logits"] for i in range(4)]
    assert logits == [0, 0, 0, logit_bytes(MODELS["GPT-3"], 1, 2048)]


def test_experts_cost_memory_though_they_save_flops():
    """Mixtral holds all 46.7B parameters; spread over 8 ranks, each holds one expert per layer and all the rest."""
    shape = MODELS["Mixtral-8x7B"]
    weights = training_memory(shape, 1, 4096).parts["weights"]
    spread = training_memory(shape, 1, 4096, dp=8, ep=8).parts["weights"]
    experts = 32 * 8 * 3 * 4096 * 14336
    assert weights == 2 * 46_702_792_704
    assert spread == 2 * (46_702_792_704 - experts + experts / 8)


def test_zero_shards_experts_over_what_ep_left():
    """Experts spread over 8 of 64 ranks are there 8 times, so ZeRO-1 cuts their optimizer by 8, not by 64."""
    shape = MODELS["Mixtral-8x7B"]
    optimizer = training_memory(shape, 1, 4096, dp=64, ep=8, zero=1).parts["optimizer"]
    assert optimizer == pytest.approx(12 * parameter_count(shape) / 64)


def test_zero_3_adds_the_unit_it_gathers():
    """A ZeRO-3 rank holds 1/N of everything between steps, and the largest layer or table besides while it computes."""
    zero = training_memory(MODELS["Llama-3-8B"], 1, 1024, dp=64, zero=3, recompute="full")
    states = [zero.parts[part] for part in ("weights", "gradients", "optimizer")]
    assert sum(states) == pytest.approx(16 * 8_030_261_248 / 64)
    assert zero.moments["at the end of forward"]["working"] == 2 * 128256 * 4096


# The KV cache


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("Llama-3-8B", 131_072),
        ("Llama-3-70B", 327_680),
        ("Llama-2-7B", 524_288),
        ("OPT-13B", 819_200),
        ("DeepSeek-V3", 70_272),
    ],
)
def test_kv_cache_per_token(name, per_token):
    """Published bytes per token in bf16: KV heads count, not heads."""
    assert kv_cache_bytes(MODELS[name], 1) == per_token
    assert kv_cache_bytes(MODELS[name], 1000, dtype_bytes=1) == 500 * per_token


def test_kv_heads_fewer_than_ranks_are_copied():
    """Eight KV heads on 8 and on 16 ranks: one head each, both times."""
    one, eight, sixteen = (kv_cache_bytes(MODELS["Llama-3-8B"], 1, tp=tp) for tp in (1, 8, 16))
    assert one == 8 * eight == 8 * sixteen


# What fits, and how it reads


def test_a_stage_of_llama_3_70b_leaves_room_for_six_micro_batches_as_chapter_6_says():
    """Four stages of 20 layers, on eight GPUs each: the state, what a token leaves in a layer, and what fits."""
    llama = MODELS["Llama-3-70B"]
    parts = layer_activation_bytes(llama, 1, 8192, recompute="selective", tp=8, sequence_parallel=True)
    a_layer, state = sum(parts.values()), 16 * parameter_count(llama) / 32
    assert (round(8 * a_layer / 8192 / 1e3), round(20 * a_layer / 1e9, 1), round(state / 1e9)) == (332, 6.8, 35)
    assert (80e9 - state) // (20 * a_layer) == 6 and round(6 * 20 * a_layer / 1e9) == 41


def test_a_gpu_with_80_gb_cannot_train_a_model_of_16_gb():
    """Llama-3-8B's weights are 16 GB in bf16; training it needs more than twice what an H100 has."""
    breakdown = training_memory(MODELS["Llama-3-8B"], 1, 8192, recompute="selective", gpu=H100)
    assert round(breakdown.parts["weights"] / 1e9) == 16
    assert breakdown.fits is False
    assert breakdown.peak > 2 * breakdown.capacity


def test_a_fused_step_takes_the_state_alone():
    """Without temporaries the step of a GPU holds 16 bytes a parameter, and of two equal moments the later is named."""
    plan = training_memory(MODELS["Llama-3-8B"], 1, 1024, fused=True)
    assert plan.peak == 16 * parameter_count(MODELS["Llama-3-8B"])
    assert plan.peak_moment == "in the optimizer step"
    assert training_memory(MODELS["Llama-3-8B"], 1, 1024).peak - plan.peak == 2 * 4 * 128256 * 4096


def test_the_largest_model_that_fits():
    """It fits, everything larger in the table does not, and ZeRO-3 on 64 GPUs fits a larger one."""
    best = largest_model_that_fits(A100, 1, 1024, recompute="selective")
    assert best.fits
    for shape in MODELS.values():
        if parameter_count(shape) > parameter_count(best.shape):
            assert not training_memory(shape, 1, 1024, recompute="selective", gpu=A100).fits
    many = largest_model_that_fits(A100, 1, 1024, recompute="full", zero=3, dp=64)
    assert parameter_count(many.shape) > 10 * parameter_count(best.shape)


def test_shapes_that_cannot_be_split_are_passed_over():
    """tp = 32 suits Llama and not GPT-2; a tp that suits none is an error; a GPU too small for all is None."""
    assert largest_model_that_fits(H100, 1, 1024, tp=32).shape.heads % 32 == 0
    with pytest.raises(ValueError, match="tp = 1000: must divide heads"):
        largest_model_that_fits(H100, 1, 1024, tp=1000)
    assert largest_model_that_fits(replace(H100, memory=1e6), 1, 128) is None


def test_the_breakdown_reads_as_a_table():
    """Every part by name and size, the peak with its moment, and the verdict about the GPU."""
    text = str(training_memory(MODELS["Llama-3-8B"], 1, 8192, gpu=H100))
    assert text.startswith("Llama-3-8B, bf16 mixed, adamw, micro-batch 1 x 8,192 tokens, on one GPU\n")
    for words in (
        "weights           16.06 GB",
        "optimizer         96.36 GB",
        "inside backward",
        "H100 SXM with 80.00 GB",
    ):
        assert words in text
    assert "does not fit" in text
    assert "fits, " in str(training_memory(TINY_GPT, 1, 8, gpu=H100))
    assert "fit" not in str(training_memory(TINY_GPT, 1, 8))


def test_the_title_names_the_stage_of_zero():
    title = str(training_memory(MODELS["Llama-3-8B"], 1, 1024, zero=2, dp=8)).splitlines()[0]
    assert title.endswith(", micro-batch 1 x 1,024 tokens, on each of 8 GPUs, ZeRO stage 2")


def test_gigabytes_are_decimal():
    """GB = 1e9, never 2**30."""
    assert readable(80e9) == "80.00 GB"
    assert readable(2**30) == "1.07 GB"
    assert readable(999) == "999 B"
    assert all(gpu.memory % 1e9 == 0 for gpu in GPUS.values())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_saving_helps(precision, recompute):
    """Splitting and sharding lower what is held and never raise the peak; a longer sequence never lowers either."""

    def most(sequence=2048, **settings):
        found = training_memory(MODELS["Llama-3-8B"], 1, sequence, precision=precision, recompute=recompute, **settings)
        return found.total, found.peak

    sharded = [most(dp=8, zero=zero) for zero in range(4)]
    split = [most(), most(tp=2), most(tp=2, sequence_parallel=True), most(tp=8, sequence_parallel=True)]
    for ladder in (sharded, split):
        for (held, peak), (less, lower) in zip(ladder, ladder[1:], strict=False):
            assert less < held and lower <= peak
    assert most(4096)[0] > most()[0] and most(4096)[1] >= most()[1]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"precision": "int4"}, "precision = 'int4': must be one of 'fp32', 'bf16 mixed'"),
        ({"optimizer": "lion"}, "optimizer = 'lion': must be one of 'sgd', 'momentum', 'adam', 'adamw'"),
        ({"recompute": "some"}, "recompute = 'some': must be one of 'none', 'selective', 'full'"),
        ({"zero": 4}, "zero = 4: must be one of 0, 1, 2, 3"),
        ({"dp": -8}, "dp = -8: must be a whole number, at least 1"),
        ({"tp": 64}, "tp = 64: must divide heads = 32"),
        ({"tp": 3}, "tp = 3: must divide heads = 32"),
        ({"pp": 33}, "pp = 33, chunks = 1: pp x chunks at most layers = 32"),
        ({"pp": 4, "chunks": 9}, "pp = 4, chunks = 9"),
        ({"chunks": 2}, "chunks need pp > 1"),
        ({"pp": 4, "stage": 4}, "stage = 4: must be from 0 to pp - 1 = 3"),
        ({"ep": 8, "dp": 8}, "ep = 8: must divide experts = 0 and dp = 8"),
        ({"microbatches": 0}, "microbatches = 0: must be a whole number, at least 1"),
        ({"batch": 0}, "batch = 0: must be a whole number, at least 1"),
        ({"sequence": 1.5}, "sequence = 1.5: must be a whole number, at least 1"),
    ],
)
def test_an_impossible_layout_names_field_value_and_what_is_allowed(settings, words):
    """ValueError with the field, its value, and the rule."""
    settings = {"batch": 1, "sequence": 1024} | settings
    with pytest.raises(ValueError) as error:
        training_memory(MODELS["Llama-3-8B"], **settings)
    assert words in str(error.value)


def test_more_tokens_than_positions_are_refused():
    """GPT-2 has a table of 1,024 positions."""
    with pytest.raises(ValueError, match="sequence = 2048: GPT-2 has positions for at most 1024 tokens"):
        training_memory(MODELS["GPT-2"], 1, 2048)


def test_with_flash_attention_a_layer_that_is_computed_again_needs_no_memory_for_scores():
    """What is left grows with the tokens and no longer with their square."""
    shape = MODELS["Llama-3-70B"]

    def working(tokens: int, flash: bool) -> float:
        plan = training_memory(shape, 1, tokens, recompute="full", flash=flash, zero=3, dp=256)
        return max(parts.get("working", 0.0) for parts in plan.moments.values())

    fixed = 2 * working(4096, True) - working(8192, True)  # what does not grow with the tokens
    assert working(16_384, True) - fixed == pytest.approx(4 * (working(4096, True) - fixed), rel=1e-6)
    scores = 2 * shape.heads * 8192**2
    assert working(8192, False) - working(8192, True) >= scores
