"""Checks of chapter 1: every answer is a formula of plain numbers, and each wrong number tells which term is wrong."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from course_lib import costs, memory, models
from course_lib.costs import matmul_intensity, ridge_point
from course_lib.hardware import A100, GPU, H100, V100
from course_lib.models import MODELS, ModelShape, norm_parameters
from exercises_tests.judging import check, expect
from exercises_tests.values import close

MOST_AT_ONCE = 3  # mistakes in one answer that are recognized together


def _draw(exercise: str) -> random.Random:
    """Return a source of random numbers; a grader sets COURSE_SEED, so that no answer can know them."""
    return random.Random(f"{exercise} {os.environ.get('COURSE_SEED', '0')}")


def _is_number(got: Any) -> bool:
    return isinstance(got, (int, float)) and not isinstance(got, bool)


def _apart(got: float, want: float) -> str:
    """Return how far a count is off, in words."""
    more = got - want
    return f"{abs(more):,.0f} {'too many' if more > 0 else 'too few'}"


def _made_up(draw: random.Random, **fields: Any) -> ModelShape:
    """Return a shape that no table holds; half as many kv heads as heads unless `fields` says otherwise."""
    heads = 2 * draw.randint(2, 6)
    sizes = {
        "name": "a made-up model", "hidden": heads * 8 * draw.randint(2, 5), "ffn": 10 * draw.randint(11, 60),
        "layers": draw.randint(3, 9), "heads": heads, "kv_heads": heads // 2, "vocabulary": draw.randint(500, 5000),
    }  # fmt: skip
    return ModelShape(**(sizes | fields))


def _sizes(shape: ModelShape) -> str:
    if shape.name in MODELS:
        return shape.name
    told = [f"{key} {value!r}" for key, value in asdict(shape).items() if _told(key, value)]
    return f"{shape.name} ({', '.join(told)})"


def _told(key: str, value: Any) -> bool:
    return key not in ("name", "source") and bool(value) and value != "none"


def _see_parts(shape: ModelShape) -> str:
    return f'parameters_by_part(MODELS["{shape.name}"])' if shape.name in MODELS else ""


def _compare_parts(shape: ModelShape) -> str:
    """Return what to hold an unexplained count against: a made-up shape is in no table, so its parts are told."""
    if shape.name in MODELS:
        return "compare with parameters_by_part"
    parts = [f"{part} {count:,}" for part, count in models.parameters_by_part(shape).items() if count]
    return f"its parts are {', '.join(parts)}"


BILLIONS = {1e9: "billions", 1e6: "millions", 1e3: "thousands"}


def _too_small(got: float, want: float) -> tuple[str, str] | None:
    """Return the code and the words for a count in billions, also a rounded one."""
    for scale, name in BILLIONS.items():
        if close(got * scale, want, 0.01):
            return "unit", f"the answer is in {name}: return the number itself"
    return None


# parameter_count

Mistake = tuple[str, Callable[[ModelShape], bool], Callable[[ModelShape], dict], str]
OF_SHAPE: list[Mistake] = [
    ("kv-heads", lambda s: s.kv_heads != s.heads, lambda s: {"kv_heads": s.heads},
     "k and v are kv_heads heads wide, not heads"),
    ("gate", lambda s: s.gated, lambda s: {"gated": False}, "a gated MLP has three matrices, not two"),
    ("gate", lambda s: not s.gated, lambda s: {"gated": True}, "this MLP is not gated: two matrices, not three"),
    ("tied-twice", lambda s: s.tied, lambda s: {"tied": False},
     "the output matrix is tied to the token table, one matrix in two places: count it once"),
    ("head-forgotten", lambda s: not s.tied, lambda s: {"tied": True},
     "the output matrix is not tied to the token table: count both"),
    ("positions", lambda s: s.positions > 0, lambda s: {"positions": 0}, "the table of positions is missing"),
    ("biases", lambda s: s.bias != "none", lambda s: {"bias": "none"},
     "the biases are missing: each is as long as what its matrix puts out"),
    ("biases", lambda s: s.bias == "qkv", lambda s: {"bias": "all"}, "only q, k and v have a bias"),
    ("biases", lambda s: s.bias == "all", lambda s: {"bias": "qkv"},
     "the biases of the output of attention and of the MLP are missing"),
    ("biases", lambda s: s.bias == "all", lambda s: {"bias": "mlp"}, "the biases of attention are missing"),
    ("biases", lambda s: s.bias == "mlp", lambda s: {"bias": "all"}, "only the matrices of the MLP have a bias"),
    ("biases", lambda s: s.bias == "mlp", lambda s: {"bias": "qkv"},
     '"mlp" gives the matrices of the MLP a bias, not q, k and v'),
    ("biases", lambda s: s.bias == "qkv", lambda s: {"bias": "mlp"},
     '"qkv" gives q, k and v a bias, not the matrices of the MLP'),
    ("norm-shift", lambda s: s.layer_norm, lambda s: {"layer_norm": False},
     "a LayerNorm has a scale and a shift, each as long as hidden"),
    ("norm-shift", lambda s: not s.layer_norm, lambda s: {"layer_norm": True},
     "this norm has a scale and no shift (layer_norm is False)"),
]  # fmt: skip


def _term_mistakes(shape: ModelShape) -> list[tuple[str, int, str]]:
    """Return terms that are wrong by themselves: a code, how many parameters too many, and words."""
    norm, layers, h = norm_parameters(shape), shape.layers, shape.hidden
    rest = models.parameter_count(shape) - models.parameter_count(replace(shape, layers=1))
    found = [
        ("last-norm", -norm, "the norm after the last layer is missing"),
        ("norms", -(2 * layers + 1) * norm, "the norms are missing: two in each layer and one after the last"),
        ("norms", -(layers + 1) * norm, "a layer has two norms, and one more stands after the last layer"),
        ("norms", -layers * norm, "a layer has two norms"),
        ("one-layer", -rest, f"count each of the {layers} layers"),
    ]
    if shape.bias != "none":
        found.append(("bias-of-output", shape.vocabulary, "the output matrix has no bias"))
    if shape.bias == "all":
        words = "each layer lacks a bias as long as `hidden`: with \"all\" both out and the MLP's down have one"
        found.append(("bias-of-out", -layers * h, words))
    if shape.bias in ("qkv", "all") and shape.kv_heads != shape.heads:
        more = (shape.heads - shape.kv_heads) * shape.head_size
        found.append(("bias-of-kv", 2 * layers * more, "a bias of k and v is as long as kv_heads heads"))
    if shape.bias in ("mlp", "all") and shape.gated:
        found.append(("bias-of-gate", -layers * shape.ffn, "the gate has a bias too, `ffn` long"))
    return found


def _explain_count(shape: ModelShape, got: float) -> tuple[str, str]:
    """Return the code and the words of the fewest mistakes that lead to this count."""
    small = _too_small(got, models.parameter_count(shape))
    if small:
        return small
    known = [mistake for mistake in OF_SHAPE if mistake[1](shape)]
    for many in range(1, MOST_AT_ONCE + 1):
        for of_shape in (many, many - 1):  # the last mistake may be a wrong term
            for mistakes in itertools.combinations(known, of_shape):
                changes = [change(shape) for _, _, change, _ in mistakes]
                if len({key for change in changes for key in change}) < of_shape:
                    continue  # two ways to get one thing wrong
                other = replace(shape, **{key: value for change in changes for key, value in change.items()})
                count = models.parameter_count(other)
                terms = [("", 0, "")] if of_shape == many else _term_mistakes(other)
                for code, more, words in terms:
                    if count + more == got:
                        said = [text for _, _, _, text in mistakes] + [words] * bool(words)
                        return (mistakes[0][0] if mistakes else code), "; and ".join(said)
    return "value", _compare_parts(shape)


@check(Llama=1, grouped_heads=1, GPT2=1, Qwen=1, any_shape=1)
def check_parameter_count(answer: Any, part: Any) -> str:
    draw = _draw("parameter_count")
    cases = {
        "Llama": [MODELS["Llama-2-7B"], MODELS["Llama-2-13B"]],
        "grouped heads": [MODELS[f"Llama-3-{size}B"] for size in (8, 70, 405)],
        "GPT2": [MODELS[name] for name in ("GPT-2", "GPT-2 XL", "GPT-3")],
        "Qwen": [MODELS["Qwen2.5-32B"], MODELS["Qwen2.5-0.5B"]],
        "any shape": [
            MODELS["tiny GPT"],
            *(_made_up(draw, bias=bias, gated=gated, tied=tied, layer_norm=norm, positions=draw.choice([0, 77]))
              for bias, gated, tied, norm in (("all", True, False, False), ("mlp", False, True, True),
                                              ("qkv", False, False, True), ("none", True, True, False))),
        ],
    }  # fmt: skip
    for name, shapes in cases.items():
        part(name)
        for shape in shapes:
            want = models.parameter_count(shape)
            got = answer(asdict(shape))
            see = _see_parts(shape)
            expect(_is_number(got), f"for {_sizes(shape)} it returned {got!r}: return a number", "form", see)
            if not close(got, want, 0, 0):
                code, words = _explain_count(shape, got)
                seen = f"for {_sizes(shape)} it counts {got:,}; the model has {want:,}"
                expect(False, f"{seen}, so {_apart(got, want)}: {words}", code, see)
    return "GPT-2, Llama 2 and 3, Qwen2.5 and made-up shapes, to the unit"


# model_state_bytes

STATES = ("weights", "gradients", "optimizer")
PER_PARAMETER = {  # of each part, a wrong number of bytes per parameter: its code and what it forgets
    ("fp32", "adamw", "optimizer", 12): ("twelve-in-fp32", "12 has a master copy of 4 in it, but in fp32 the weights "
                                         "are their own master copy: two moments of 4 bytes are all"),
    ("fp32", "adamw", "optimizer", 4): ("one-moment", "AdamW keeps two moments, momentum keeps one"),
    ("bf16 mixed", "adamw", "optimizer", 8): ("no-master", "either the master copy of 4 is missing, or the moments are "
                                              "taken as 2 bytes; they stay at 4"),
    ("bf16 mixed", "adamw", "optimizer", 4): ("moments-in-16-bits", "the moments stay in fp32, 4 bytes each, and so "
                                              "does the master copy"),
    ("bf16 mixed", "adamw", "optimizer", 6): ("moments-in-16-bits", "the moments stay in fp32, 4 bytes each, and so "
                                              "does the master copy"),
    ("bf16 mixed", "adamw", "weights", 6): ("master-in-weights", "count the master copy with the optimizer, which "
                                            "owns it"),
    ("bf16 mixed", "adamw", "weights", 4): ("not-16-bits", "bf16 has 16 bits, 2 bytes"),
    ("bf16 mixed", "adamw", "gradients", 4): ("not-16-bits", "here gradients are in bf16 as the weights are (Megatron "
                                              "keeps them in fp32, and then needs 18 bytes in all)"),
    ("bf16 mixed", "sgd", "optimizer", 0): ("no-master", "SGD keeps no moment, but the master copy of 4 bytes is there "
                                            "with every optimizer"),
    ("bf16 mixed", "momentum", "optimizer", 4): ("no-master", "one moment of 4 bytes and the master copy of 4"),
    ("fp32", "sgd", "optimizer", 4): ("moments-of-sgd", "plain SGD keeps nothing, and in fp32 there is no master copy"),
    ("fp32", "momentum", "optimizer", 8): ("one-moment", "momentum keeps one moment of 4 bytes, and in fp32 there is "
                                           "no master copy"),
}  # fmt: skip
UNITS = {1e-9: "GB", 2.0**-30: "GiB", 1e-6: "MB", 1e9 / 2**30: "bytes divided by 1.0737 (GiB for GB)"}


def _judge_states(answer: Any, parameters: int, precision: str, optimizer: str) -> None:
    want = memory.model_state_bytes(parameters, precision, optimizer)
    got = answer(parameters, precision, optimizer)
    case = f"for {parameters:,} parameters in {precision} with {optimizer}"
    expect(
        isinstance(got, dict) and set(got) == set(STATES) and all(map(_is_number, got.values())),
        f"{case} it returned {got!r}: return a dict of three numbers of bytes, for {', '.join(map(repr, STATES))}",
        "form",
    )  # fmt: skip
    for scale, unit in UNITS.items():
        same = all(close(got[part], want[part] * scale) for part in STATES)
        expect(
            not same,
            f"{case} the weights are {got['weights']!r}; {want['weights']:,} is wanted: return bytes, not {unit}",
            "unit",
        )  # fmt: skip
    for part in STATES:
        if close(got[part], want[part]):
            continue
        per, right = got[part] / parameters, want[part] / parameters
        code, words = PER_PARAMETER.get((precision, optimizer, part, per), ("value", ""))
        if not words and part == "gradients" and per == 0:
            code, words = "gradients-forgotten", "each parameter has a gradient, as wide as the weight"
        seen = f"{case}, {part}: {per:g} bytes a parameter, and {right:g} is right"
        expect(False, f"{seen}{': ' if words else ''}{words}", code)


@check(fp32=1, mixed=2, optimizers=1)
def check_model_state_bytes(answer: Any, part: Any) -> str:
    some = _draw("model_state_bytes").randint(10**6, 10**7)
    part("fp32")
    for parameters in (7_000_000_000, some):
        _judge_states(answer, parameters, "fp32", "adamw")
    part("mixed")
    for parameters in (7_000_000_000, some):
        _judge_states(answer, parameters, "bf16 mixed", "adamw")
    part("optimizers")
    for optimizer in ("momentum", "sgd"):
        for precision in ("fp32", "bf16 mixed"):
            _judge_states(answer, some, precision, optimizer)
    return "fp32 and mixed bf16, with SGD, momentum and AdamW: 16 bytes a parameter with AdamW, both ways"


# training_days

DAY = costs.DAY


def _explain_days(got: float, want: float, gpus: int, mfu: float) -> tuple[str, str]:
    """Return the code and the words of the mistake that makes `want` days `got`."""
    if got in (int(want), math.ceil(want)) or any(got == round(want, digits) for digits in range(4)):
        return "rounded", "return the days unrounded"
    factors = {
        DAY: ("seconds", "these are seconds: a day has 86,400"),
        24: ("hours", "these are hours"),
        1440: ("minutes", "these are minutes"),
        3600: ("divided-by-24", "divide seconds by 24 · 60 · 60, not by 24"),
        1 / 365: ("years", "these are years"),
        1 / 365.25: ("years", "these are years"),
        1 / DAY: ("divided-twice", "divide by 86,400 once"),
        1 / 6: ("six-forgotten", "each parameter takes 6 FLOPs for each token, not 1"),
        1 / 3: ("forward-only", "2 FLOPs per parameter and token are forward alone; backward takes 4 more"),
        1 / 2: ("multiply-only", "3 counts a multiply and an add as one FLOP; they are two"),
        2 / 3: ("backward-only", "4 FLOPs per parameter and token are backward alone; forward takes 2 more"),
        4 / 3: ("recompute", "8 FLOPs per parameter and token are with recomputation; without it 6"),
        gpus: ("gpus-forgotten", f"{gpus:,} GPUs share the work"),
        gpus**2: ("gpus-multiplied", "more GPUs take less time: divide by gpus"),
        mfu: ("mfu-forgotten", "the GPUs reach only the share `mfu` of their peak"),
        mfu**2: ("mfu-multiplied", "a lower mfu takes longer: divide by it"),
    }  # fmt: skip
    known = [item for item in factors.items() if item[0] != 1]
    for many in (1, 2):
        for mistakes in itertools.combinations(known, many):
            product = 1.0
            for factor, _ in mistakes:
                product *= factor
            if close(got / want, product, 1e-6):
                return mistakes[0][1][0], "; and ".join(words for _, (_, words) in mistakes)
    return "value", "total FLOPs, divided by the FLOPs of all GPUs in a second, are seconds"


@check(one_GPU=1, many_GPUs=2)
def check_training_days(answer: Any, part: Any) -> str:
    draw = _draw("training_days")
    run_of_gpt3 = (175e9, 300e9, 1024, A100.peak("fp16"), 0.33)
    made_up = (draw.randint(1, 99) * 1e8, draw.randint(1, 99) * 1e9, draw.randint(3, 700), V100.peak("fp16"),
               draw.randint(21, 47) / 100)  # fmt: skip
    cases = {"one GPU": [(1e12, 3e11, 1, 1e15, 1.0)], "many GPUs": [run_of_gpt3, made_up]}
    for name, runs in cases.items():
        part(name)
        for parameters, tokens, gpus, peak, mfu in runs:
            want = costs.training_days(parameters, tokens, gpus, peak, mfu)
            got = answer(parameters, tokens, gpus, peak, mfu)
            call = f"training_days({parameters:.4g}, {tokens:.4g}, {gpus}, {peak:.4g}, {mfu:g})"
            expect(_is_number(got), f"{call} returned {got!r}: return a number of days", "form")
            if not close(got, want, 1e-6):
                code, words = _explain_days(got, want, gpus, mfu)
                expect(False, f"{call} gives {got:,.8g} days; {want:,.8g} is right: {words}", code)
    return "1T parameters on one GPU take 57 years · GPT-3 on 1,024 GPUs · any other run"


# activation_bytes


def _activation_mistakes(shape: ModelShape, batch: int, sequence: int, recompute: str) -> list[tuple[str, float, str]]:
    """Return wrong terms that learners have: a code, the bytes too many, and words."""
    h, f, a, layers = shape.hidden, shape.ffn, shape.heads, shape.layers
    unit = 2 * layers * batch * sequence  # one number a token and layer, in bytes
    ends = ("ends", 4 * batch * sequence * h, "only the layers: what follows the last layer is not asked for")
    if recompute == "full":
        return [ends, ("nothing", -unit * h, "a layer's input has to be kept, or there is nothing to start again from")]
    kv = (a - shape.kv_heads) * shape.head_size
    scores = a * sequence
    found = [
        ends,
        ("mlp-wide", -unit * f, "the MLP keeps what goes into GELU and what comes out; a gated one four such tensors"),
        ("mlp-wide", -2 * unit * f, "a gated MLP keeps gate, its SiLU, up, and their product"),
        ("mlp-wide", 2 * unit * f, "an MLP that is not gated keeps two tensors as wide as ffn"),
        ("shared-input", 2 * unit * h, "q, k and v read one tensor, kept once; and an addition keeps nothing"),
        *(("narrow", -many * unit * h, f"{'one is' if many == 1 else f'{many} are'} missing of the tensors as wide as "
           "hidden: the inputs of two norms, of q, k and v together, of out, of the MLP, and q (k, v: kv_heads heads)")
          for many in (1, 2, 3)),
        ("kv-forgotten", -2 * unit * (h - kv), "k and v are missing"),
    ]
    if kv:
        found.append(("kv-heads", 2 * unit * kv, "k and v are kv_heads heads wide, not heads"))
    if recompute == "none":
        found += [
            ("scores", -unit * scores, "the scores are missing: for each token, one number per head and token"),
            ("scores-of-one-head", unit * (sequence - scores), "each head has its own scores"),
            *(("scores-halved", -unit * less, "these are half the scores: count `sequence` for each token, though the "
               "mask hides later ones") for less in (scores / 2, a * (sequence - 1) / 2)),
            ("scores-twice", unit * scores, "softmax keeps what it puts out, and its input goes"),
            ("scores-of-kv-heads", unit * sequence * (shape.kv_heads - a), "each head of q has scores, not of k"),
            ("dropout", unit * h + unit * 1.5 * scores, "there is no dropout here: no masks (34 and 5 count them)"),
        ]
    else:
        found.append(("scores-kept", unit * scores, "selective recomputation keeps no scores"))
    return [mistake for mistake in found if mistake[1]]


def _explain_activations(case: tuple, got: float, want: float) -> tuple[str, str]:
    shape, batch, sequence, recompute = case
    none = memory.activation_bytes(shape, batch, sequence) - 4 * batch * sequence * shape.hidden
    whole = {
        1 / 2: ("numbers", "these are numbers, and each takes 2 bytes"),
        2: ("four-bytes", "in bf16 a number takes 2 bytes, not 4"),
        1 / shape.layers: ("one-layer", f"this is one layer; there are {shape.layers}"),
        1 / batch: ("batch", f"this is one sequence; the batch has {batch}"),
        1 / (2 * shape.layers): ("one-layer", f"these are numbers of one of {shape.layers} layers, not bytes of all"),
    }  # fmt: skip
    if recompute == "full":
        whole[2] = "input-twice", "twice as much: with full a layer keeps one tensor of width hidden, its input"
    for factor, found in whole.items():
        if factor != 1 and close(got / want, factor):
            return found
    if recompute != "none" and close(got, none):
        return "recompute-ignored", f'with recompute="{recompute}" less is kept than with "none"'
    papers = 2 * batch * sequence * shape.layers * (16 * shape.hidden + shape.heads * sequence)
    if recompute == "none" and close(got, papers):
        return "formula", "sbh(32 + 2as/h) holds for an MLP of two tensors 4h wide, and as many kv heads as heads"
    known = _activation_mistakes(*case)
    for many in range(1, MOST_AT_ONCE):
        for mistakes in itertools.combinations(known, many):
            if close(got, want + sum(more for _, more, _ in mistakes), 1e-9):
                return mistakes[0][0], "; and ".join(words for _, _, words in mistakes)
    return "value", f"that is {(got - want) / shape.layers / batch / sequence:+,.6g} bytes a layer and token off"


@check(none=2, any_shape=1, selective=1, full=1)
def check_activation_bytes(answer: Any, part: Any) -> str:
    draw = _draw("activation_bytes")
    llama, gpt = MODELS["Llama-3-8B"], MODELS["GPT-3"]
    others = [_made_up(draw, gated=gated) for gated in (True, False)]
    cases = {
        "none": [(gpt, 3, 1536, "none")],
        "any shape": [(llama, 3, 8192, "none")] + [(shape, 11, 10 * draw.randint(10, 30), "none") for shape in others],
        "selective": [(shape, 11, 1024, "selective") for shape in (gpt, llama, *others)],
        "full": [(shape, 11, 1024, "full") for shape in (gpt, llama, *others)],
    }
    for name, found in cases.items():
        part(name)
        for case in found:
            shape, batch, sequence, recompute = case
            want = shape.layers * sum(memory.layer_activation_bytes(shape, batch, sequence, recompute).values())
            got = answer(asdict(shape), batch, sequence, recompute)
            see = f'memory.layer_activation_bytes(MODELS["{shape.name}"], {batch}, {sequence}, "{recompute}")'
            see = see if shape.name in MODELS else ""  # the parts of one layer
            asked = f'for {_sizes(shape)}, batch {batch}, sequence {sequence:,}, recompute="{recompute}"'
            expect(_is_number(got), f"{asked} it returned {got!r}: return a number of bytes", "form", see)
            if not close(got, want):
                code, words = _explain_activations(case, got, want)
                expect(False, f"{asked} it gives {got:,.0f} bytes; {want:,.0f} is right: {words}", code, see)
    return "GPT-3, Llama-3-8B and made-up shapes · none, selective and full recomputation, to the byte"


# total_and_active


def _mixture_mistakes(shape: ModelShape) -> list[tuple[str, int, int, str]]:
    """Return wrong terms: a code, what they add to total and to active, and words."""
    layers, h = shape.layers, shape.hidden
    expert, dense = (models.mlp_weights(shape, width) for width in (shape.expert_ffn, shape.ffn))
    attention = models.attention_parameters(shape)
    router, table = layers * shape.experts * h, shape.vocabulary * h
    norm, used = norm_parameters(shape), shape.experts_per_token
    kv = 2 * layers * h * (shape.heads - shape.kv_heads) * shape.head_size
    flat = layers * expert // 3
    return [
        ("router", -router, -router, "the router is missing: in each layer one score per expert, a matrix"),
        ("kv-heads", kv, kv, "k and v are kv_heads heads wide, not heads"),
        ("tables", -2 * table, -2 * table, "the token table and the output matrix are missing"),
        ("head-forgotten", -table, -table, "the output matrix is not tied to the token table: count both"),
        ("last-norm", -norm, -norm, "the norm after the last layer is missing"),
        ("norms", -(2 * layers + 1) * norm, -(2 * layers + 1) * norm, "the norms are missing"),
        ("attention-per-expert", layers * (shape.experts - 1) * attention, layers * (used - 1) * attention,
         "a layer has one attention, whatever the number of its experts"),
        ("gate", -shape.experts * flat, -used * flat, "an expert is a gated MLP: three matrices"),
        ("tables-inactive", 0, -2 * table, "by this convention the tables count as active, too"),
        ("router-inactive", 0, -router, "the router is computed for every token: it is active"),
        ("router-of-chosen", 0, used * router // shape.experts - router,
         "the whole router is active: a token gets a router score for every expert"),
        ("router-of-chosen", *2 * [used * router // shape.experts - router],
         "the router has a router score for every expert, not for the chosen alone"),
        ("dense-width", layers * shape.experts * (dense - expert), layers * used * (dense - expert),
         "the experts are `expert_ffn` wide, not `ffn`"),
        ("one-expert-active", 0, layers * (1 - used) * expert, f"each token is sent to {used} experts"),
        ("all-active", 0, layers * (shape.experts - used) * expert, "a token is sent to experts_per_token of them"),
    ]  # fmt: skip


def _explain_mixture(shape: ModelShape, got: tuple, want: tuple) -> tuple[str, str]:
    small = _too_small(got[0], want[0])
    if small:
        return small
    if tuple(got) == want[::-1]:
        return "swapped", "the two are swapped: total first"
    if close(got[1], want[0] * shape.experts_per_token / shape.experts, 1e-9, 1):
        return "share-of-total", "only the experts are left out; attention, tables and norms serve every token"
    for many in (1, 2):
        for mistakes in itertools.combinations(_mixture_mistakes(shape), many):
            sums = [want[i] + sum(mistake[1 + i] for mistake in mistakes) for i in (0, 1)]
            if sums == list(got):
                return mistakes[0][0], "; and ".join(words for *_, words in mistakes)
    return "value", _compare_parts(shape)


@check(total=1, active=1, any_shape=1)
def check_total_and_active(answer: Any, part: Any) -> str:
    draw = _draw("total_and_active")
    experts = 4 * draw.randint(2, 5)
    wide = 30 * draw.randint(5, 9)  # Mixtral's experts are as wide as its `ffn`; these are not
    other = _made_up(draw, experts=experts, experts_per_token=draw.randint(2, 3), expert_ffn=wide, ffn=wide + 110)
    part("total")
    for name, shape in (("active", MODELS["Mixtral-8x7B"]), ("any shape", other)):
        want = models.parameter_count(shape), models.active_parameters(shape)
        got = answer(asdict(shape))
        see = _see_parts(shape)
        expect(
            isinstance(got, (tuple, list)) and len(got) == 2 and all(map(_is_number, got)),
            f"for {_sizes(shape)} it returned {got!r}: return two numbers, (total, active)",
            "form", see,
        )  # fmt: skip
        for which, (seen, right) in enumerate(zip(got, want, strict=True)):
            word = ("total", "active")[which]
            if not close(seen, right, 0, 0):
                code, words = _explain_mixture(shape, tuple(got), want)
                told = f"for {_sizes(shape)} {word} is {seen:,}; {right:,} is right, so {_apart(seen, right)}"
                expect(False, f"{told}: {words}", code, see)
            if which == 0 and name == "active":
                part("active")
        if name == "active":
            part("any shape")
    return "Mixtral: 46.7B parameters take memory, 12.9B compute each token · any other number of experts"


# is_memory_bound


def _gpu(gpu: GPU) -> dict[str, Any]:
    return {"name": gpu.name, "peak_flops": gpu.peak("fp16"), "memory_bandwidth": gpu.memory_bandwidth}


BOUND_MISTAKES = {  # the FLOPs per byte that a mistake takes the work to have
    "dtype-forgotten": (lambda *mkn, size: matmul_intensity(*mkn, 1), "each number takes dtype_bytes bytes"),
    "two-bytes": (lambda *mkn, size: matmul_intensity(*mkn, 2), "a number takes dtype_bytes bytes, not 2"),
    "one-flop": (lambda *mkn, size: matmul_intensity(*mkn, 2 * size), "a multiply and an add are two FLOPs"),
    "result-forgotten": (lambda m, k, n, size: 2 * m * n / size / (m + n), "the result (m, n) has to be written, too"),
    "weight-only": (lambda m, k, n, size: 2 * m / size, "three matrices move, not (k, n) alone"),
}


def _explain_bound(cases: list[tuple], answers: list[bool]) -> tuple[str, str]:
    """Return the code and words of the mistake that gives all these answers."""
    for code, (intensity, words) in BOUND_MISTAKES.items():
        if answers == [intensity(*mkn, size=size) < ridge_point(gpu, "fp16") for *mkn, size, gpu in cases]:
            return code, words
    told = [_bound(*case) or case[0] < 100 for case in cases]
    if answers == told:
        return "small-m", "a small m alone does not decide: with few bytes a number, computing may take longer"
    if not any(got == _bound(*case) for got, case in zip(answers, cases, strict=True)):
        return "turned-round", "memory-bound is when moving the matrices takes longer than computing"
    return "value", "compare the seconds to move three matrices with the seconds to compute"


def _bound(m: int, k: int, n: int, size: int, gpu: GPU) -> bool:
    return matmul_intensity(m, k, n, size) < ridge_point(gpu, "fp16")


@check(value=1, near_the_ridge=1, any_dtype=1)
def check_is_memory_bound(answer: Any, part: Any) -> str:
    draw = _draw("is_memory_bound")
    near = []
    for gpu in (V100, A100, H100):  # a wide matrix, and m just below and above where the two times are equal
        ridge = ridge_point(gpu, "fp16")
        for share in (0.93, 1.07):
            k = n = 1024 * draw.randint(3, 9)
            goal = ridge * share  # 2mkn / 2(mk + kn + mn) = goal
            near.append((round(goal / (1 - goal * (1 / k + 1 / n))), k, n, 2, gpu))
    a100_ridge = ridge_point(A100, "fp16")
    between = round(1.5 * a100_ridge)
    small = [(round(1.4 * a100_ridge),) * 2 + (65536, 2, A100), (round(1.05 * a100_ridge),) + (600, 600, 2, A100)]
    cases = {
        "value": [(1, 4096, 4096, 2, H100), (4096, 4096, 4096, 2, H100)],
        "near the ridge": [*near, (between, 65536, 65536, 2, A100), *small],
        "any dtype": [(between, 65536, 65536, size, A100) for size in (1, 4)]
                     + [(draw.randint(80, 99), 65536, 65536, 1, A100)],  # computing takes longer, with a small m
    }
    everything = [case for found in cases.values() for case in found]
    answers = [answer(*case, dict(_gpu(gpu))) for *case, gpu in everything]
    plain = all(isinstance(got, bool) or type(got).__name__ == "bool_" for got in answers)
    told = iter(answers)
    for name, found in cases.items():
        part(name)
        for case in found:
            *sizes, gpu = case
            got, call = next(told), f"is_memory_bound({', '.join(map(str, sizes))}, gpu)"
            expect(plain, f"{call} returned {got!r}: return True or False", "form")
            if bool(got) is not _bound(*case):
                code, words = _explain_bound(everything, list(map(bool, answers)))
                seen = f"{matmul_intensity(*sizes):.4g} FLOPs per byte"
                said = f"on {gpu.name} {call} is {bool(got)}: {seen}, and the ridge is at"
                expect(False, f"{said} {ridge_point(gpu, 'fp16'):.4g}; {words}", code)
    return "memory-bound or not on three GPUs, also just beside the ridge, in 1, 2 and 4 bytes"
