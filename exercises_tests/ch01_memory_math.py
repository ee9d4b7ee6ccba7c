"""Checks of chapter 1: every answer is a formula of plain numbers, and each wrong number tells which term is wrong."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NoReturn

from course_lib import costs, memory, models
from course_lib.costs import matmul_intensity, ridge_point
from course_lib.hardware import A100, H100, V100
from course_lib.models import MODELS, ModelShape, norm_parameters
from exercises_tests.judging import Case, Mistake, check
from exercises_tests.seeds import drawn
from exercises_tests.values import close, is_number, plain, shown

MOST_AT_ONCE = 3  # mistakes in one answer that are recognized together


def _fewest(known: Sequence[Mistake], most: int, gives: Callable[[list], bool]) -> Mistake | None:
    """Return the fewest mistakes, told as one, whose values together give what came; `gives` says whether they do."""
    for many in range(1, most + 1):
        for mistakes in itertools.combinations(known, many):
            if gives([mistake.value for mistake in mistakes]):
                return mistakes[0]._replace(says="; and ".join(mistake.says for mistake in mistakes))
    return None


def _refuse(case: Case, seen: str, mistake: Mistake) -> NoReturn:
    case.refuse(f"{seen}: {mistake.says}" if mistake.says else seen, mistake.code)


def _apart(got: float, want: float) -> str:
    """Return how far a count is off, in words."""
    more = got - want
    return f"{abs(more):,.0f} {'too many' if more > 0 else 'too few'}"


def _made_up(draw: random.Random, **fields: Any) -> ModelShape:
    """Return a shape that no table holds; half as many kv heads as heads unless `fields` says otherwise."""
    heads = 2 * draw.randint(2, 6)
    sizes = {"heads": heads, "kv_heads": heads // 2, "hidden": heads * 8 * draw.randint(2, 5)}
    sizes |= {"ffn": 10 * draw.randint(11, 60), "layers": draw.randint(3, 9), "vocabulary": draw.randint(500, 5000)}
    return ModelShape(**({"name": "a made-up model"} | sizes | fields))


def _case(shape: ModelShape, more: str = "", see: str = "models.parameters_by_part({})") -> Case:
    """Return the case of a model; of one in no table all sizes are told, and there is nothing to see."""
    if shape.name in MODELS:
        return Case(label=f"for {shape.name}{more}", see=see.format(f'MODELS["{shape.name}"]'))
    fields = asdict(shape).items()
    told = [f"{key} {value!r}" for key, value in fields if value and value != "none" and key not in ("name", "source")]
    return Case(label=f"for {shape.name} ({', '.join(told)}){more}")


def _compare_parts(shape: ModelShape) -> Mistake:
    """Return what to hold an unexplained count against: a made-up shape is in no table, so its parts are told."""
    parts = [f"{part} {count:,}" for part, count in models.parameters_by_part(shape).items() if count]
    told = "compare with models.parameters_by_part" if shape.name in MODELS else f"its parts are {', '.join(parts)}"
    return Mistake("value", True, told)


def _too_small(got: float, want: float) -> Mistake | None:
    """Return the mistake of a count in billions, also of a rounded one."""
    for scale, name in ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if close(got * scale, want, 0.01):
            return Mistake("unit", True, f"the answer is in {name}: return the number itself")
    return None


# parameter_count


def _mistakes_of_shape(s: ModelShape) -> list[Mistake]:
    """Return the fields that learners take for others: each mistake has as its value what the shape then has."""
    tied = "the output matrix is tied to the token table, one matrix in two places: count it once"
    any_text = 'bias is "none" here, a text that is not empty, so that `if bias` holds: compare it with "none"'
    all_bias = "the biases are missing: each is as long as what its matrix puts out"
    of_attention = 2 * (s.hidden + s.kv_heads * s.head_size)  # numbers in the biases of q, out, k and v
    lacks = "the biases of attention are missing"
    if of_attention == s.ffn and not s.gated:  # as in GPT-2
        lacks = f"each layer lacks {s.ffn:,} numbers of bias: either those of q, k, v and out together, or that of up"
    rows = [  # code, field, what it is and what it is taken for
        ("kv-heads", "kv_heads", s.kv_heads, s.heads, "k and v are kv_heads heads wide, not heads"),
        ("gate", "gated", True, False, "a gated MLP has three matrices, not two"),
        ("gate", "gated", False, True, "this MLP is not gated: two matrices, not three"),
        ("tied-twice", "tied", True, False, tied),
        ("head-forgotten", "tied", False, True, "the output matrix is not tied to the token table: count both"),
        ("positions", "positions", s.positions, 0, "the table of positions is missing"),
        ("biases", "bias", s.bias, "none", all_bias),
        *(("biases", "bias", "none", other, any_text) for other in ("all", "qkv", "mlp")),
        ("biases", "bias", "qkv", "all", "only q, k and v have a bias"),
        ("biases", "bias", "all", "qkv", "the biases of the output of attention and of the MLP are missing"),
        ("biases", "bias", "all", "mlp", lacks),
        ("biases", "bias", "mlp", "all", "only the matrices of the MLP have a bias"),
        ("biases", "bias", "mlp", "qkv", '"mlp" gives the matrices of the MLP a bias, not q, k and v'),
        ("biases", "bias", "qkv", "mlp", '"qkv" gives q, k and v a bias, not the matrices of the MLP'),
        ("norm-shift", "layer_norm", True, False, "a LayerNorm has a scale and a shift, each as long as hidden"),
        ("norm-shift", "layer_norm", False, True, "this norm has a scale and no shift (layer_norm is False)"),
    ]
    rows = [row for row in rows if getattr(s, row[1]) == row[2] != row[3]]
    return [Mistake(code, {field: taken}, says) for code, field, _, taken, says in rows]


def _mistakes_of_terms(shape: ModelShape) -> list[Mistake]:
    """Return terms that are wrong by themselves: each mistake has as its value how many parameters too many."""
    norm, layers = norm_parameters(shape), shape.layers
    rest = models.parameter_count(shape) - models.parameter_count(replace(shape, layers=1))
    more = (shape.heads - shape.kv_heads) * shape.head_size
    out = 'each layer lacks a bias as long as `hidden`: with "all" both out and the MLP\'s down have one'
    of_kv, of_mlp = shape.bias in ("qkv", "all") and more, shape.bias in ("mlp", "all")
    gate = "gate and up have a bias each, `ffn` long: one is missing"
    no_kv = shape.bias in ("qkv", "all") and -2 * layers * shape.kv_heads * shape.head_size
    found = [
        ("bias-of-kv", no_kv, "the biases of k and v are missing, each as long as kv_heads heads"),
        ("last-norm", -norm, "the norm after the last layer is missing"),
        ("norms", -(2 * layers + 1) * norm, "the norms are missing: two in each layer and one after the last"),
        ("norms", -(layers + 1) * norm, "a layer has two norms, and one more stands after the last layer"),
        ("norms", -layers * norm, "a layer has two norms"),
        ("one-layer", -rest, f"count each of the {layers} layers"),
        ("bias-of-output", (shape.bias != "none") * shape.vocabulary, "the output matrix has no bias"),
        ("bias-of-out", -(shape.bias == "all") * layers * shape.hidden, out),
        ("bias-of-kv", of_kv and 2 * layers * more, "a bias of k and v is as long as kv_heads heads"),
        ("bias-of-gate", of_mlp and shape.gated and -layers * shape.ffn, gate),
        ("bias-of-up", of_mlp and not shape.gated and -layers * shape.ffn, "the bias of up is missing, `ffn` long"),
        ("bias-of-down", (shape.bias == "mlp") * -layers * shape.hidden, "the bias of down is missing, `hidden` long"),
    ]
    return [Mistake(*one) for one in found if one[1]]


def _explain_count(shape: ModelShape, got: float) -> Mistake:
    """Return the fewest mistakes that lead to this count: wrong fields, and at most one wrong term."""
    if small := _too_small(got, models.parameter_count(shape)):
        return small
    known = _mistakes_of_shape(shape)
    for many in range(1, MOST_AT_ONCE + 1):
        for of_shape in (many, many - 1):  # the last mistake may be a wrong term
            for mistakes in itertools.combinations(known, of_shape):
                changes = {field: value for mistake in mistakes for field, value in mistake.value.items()}
                if len(changes) < of_shape:
                    continue  # two ways to get one thing wrong
                other = replace(shape, **changes)
                count = models.parameter_count(other)
                for term in [()] if of_shape == many else [(one,) for one in _mistakes_of_terms(other)]:
                    if count + sum(one.value for one in term) == got:
                        found = (*mistakes, *term)
                        return found[0]._replace(says="; and ".join(one.says for one in found))
    return _compare_parts(shape)


@check(Llama=1, grouped_heads=1, GPT2=1, Qwen=1, any_shape=1)
def check_parameter_count(answer: Any, part: Any) -> str:
    draw = drawn("parameter_count")
    switches = [("all", True, False, False), ("mlp", False, True, True), ("qkv", False, False, True)]
    others = [
        _made_up(draw, positions=draw.choice([0, 77]), bias=bias, gated=gated, tied=tied, layer_norm=norm)
        for bias, gated, tied, norm in [*switches, ("none", True, True, False)]
    ]
    cases = {
        "Llama": [MODELS["Llama-2-7B"], MODELS["Llama-2-13B"]],
        "grouped heads": [MODELS[f"Llama-3-{size}B"] for size in (8, 70, 405)],
        "GPT2": [MODELS[name] for name in ("GPT-2", "GPT-2 XL", "GPT-3")],
        "Qwen": [MODELS["Qwen2.5-32B"], MODELS["Qwen2.5-0.5B"]],
        "any shape": [MODELS["tiny GPT"], *others],
    }
    for name, shapes in cases.items():
        part(name)
        for shape in shapes:
            case, want = _case(shape), models.parameter_count(shape)
            got = plain(answer(asdict(shape)))
            case.expect(is_number(got), f"it returned {shown(got)}: return a number", "form")
            if not close(got, want, 0, 0):
                seen = f"it counts {got:,}; the model has {want:,}, so {_apart(got, want)}"
                _refuse(case, seen, _explain_count(shape, got))
    return "GPT-2, Llama 2 and 3, Qwen2.5 and made-up shapes, to the unit"


# model_state_bytes

STATES = ("weights", "gradients", "optimizer")
IN_16_BITS = "moments-in-16-bits: the moments stay in fp32, 4 bytes each, and so does the master copy"
PER_PARAMETER = {  # of each part, a wrong number of bytes per parameter: its code, and what it forgets
    ("fp32", "adamw", "optimizer", 12): "twelve-in-fp32: 12 has a master copy of 4 in it, but in fp32 the weights are "
    "their own master copy: two moments of 4 bytes are all",
    ("fp32", "adamw", "optimizer", 4): "one-moment: AdamW keeps two moments, momentum keeps one",
    ("bf16 mixed", "adamw", "optimizer", 8): "no-master: either the master copy of 4 is missing, or the moments are "
    "taken as 2 bytes; they stay at 4",
    ("bf16 mixed", "adamw", "optimizer", 4): IN_16_BITS,
    ("bf16 mixed", "adamw", "optimizer", 6): IN_16_BITS,
    ("bf16 mixed", "adamw", "weights", 6): "master-in-weights: count the master copy with the optimizer, which owns it",
    ("bf16 mixed", "adamw", "weights", 4): "not-16-bits: bf16 has 16 bits, 2 bytes",
    ("bf16 mixed", "adamw", "gradients", 4): "not-16-bits: here gradients are in bf16 as the weights are (Megatron "
    "keeps them in fp32, and then needs 18 bytes in all)",
    ("bf16 mixed", "sgd", "optimizer", 0): "no-master: SGD keeps no moment, but the master copy of 4 bytes is there "
    "with every optimizer",
    ("bf16 mixed", "momentum", "optimizer", 4): "no-master: one moment of 4 bytes and the master copy of 4",
    ("fp32", "sgd", "optimizer", 4): "moments-of-sgd: plain SGD keeps nothing, and in fp32 there is no master copy",
    ("fp32", "momentum", "optimizer", 8): "one-moment: momentum keeps one moment of 4 bytes, and in fp32 there is no "
    "master copy",
}
UNITS = {1e-9: "GB", 2.0**-30: "GiB", 1e-6: "MB", 1e9 / 2**30: "bytes divided by 1.0737 (GiB for GB)"}


def _judge_states(answer: Any, parameters: int, precision: str, optimizer: str) -> None:
    want = memory.model_state_bytes(parameters, precision, optimizer)
    got = plain(answer(parameters, precision, optimizer))
    case = Case(label=f"for {parameters:,} parameters in {precision} with {optimizer}")
    case.expect(
        isinstance(got, dict) and set(got) == set(STATES) and all(map(is_number, got.values())),
        f"it returned {shown(got)}: return a dict of three numbers of bytes, for {', '.join(map(repr, STATES))}",
        "form",
    )
    for scale, unit in UNITS.items():
        said = f"the weights are {got['weights']!r}; {want['weights']:,} is wanted: return bytes, not {unit}"
        case.expect(not all(close(got[part], want[part] * scale) for part in STATES), said, "unit")
    for part in STATES:
        if not close(got[part], want[part]):
            per, right = got[part] / parameters, want[part] / parameters
            told = PER_PARAMETER.get((precision, optimizer, part, per), "value")
            if told == "value" and part == "gradients" and per == 0:
                told = "gradients-forgotten: each parameter has a gradient, as wide as the weight"
            code, _, words = told.partition(": ")
            seen = f"{per:g} bytes a parameter, and {right:g} is right"
            _refuse(Case(label=f"{case}, {part}:"), seen, Mistake(code, True, words))


@check(fp32=1, mixed=2, optimizers=1)
def check_model_state_bytes(answer: Any, part: Any) -> str:
    some = drawn("model_state_bytes").randint(10**6, 10**7)
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
    return "fp32 and mixed bf16, with SGD, momentum and AdamW"


# training_days

DAY = costs.DAY


def _explain_days(got: float, want: float, gpus: int, mfu: float) -> Mistake:
    """Return the mistake that makes `want` days `got`."""
    if got in (int(want), math.ceil(want)) or any(got == round(want, digits) for digits in range(4)):
        return Mistake("rounded", True, "return the days unrounded")
    factors = [
        ("seconds", DAY, "these are seconds: a day has 86,400"),
        ("hours", 24, "these are hours"),
        ("minutes", 1440, "these are minutes"),
        ("divided-by-24", 3600, "divide seconds by 24 · 60 · 60, not by 24"),
        ("years", 1 / 365, "these are years"),
        ("years", 1 / 365.25, "these are years"),
        ("divided-twice", 1 / DAY, "divide by 86,400 once"),
        ("six-forgotten", 1 / 6, "each parameter takes 6 FLOPs for each token, not 1"),
        ("forward-only", 1 / 3, "2 FLOPs per parameter and token are forward alone; backward takes 4 more"),
        ("multiply-only", 1 / 2, "3 counts a multiply and an add as one FLOP; they are two"),
        ("backward-only", 2 / 3, "4 FLOPs per parameter and token are backward alone; forward takes 2 more"),
        ("recompute", 4 / 3, "8 FLOPs per parameter and token are with recomputation; without it 6"),
        ("gpus-forgotten", gpus, f"{gpus:,} GPUs share the work"),
        ("gpus-multiplied", gpus**2, "more GPUs take less time: divide by gpus"),
        ("mfu-forgotten", mfu, "the GPUs reach only the share `mfu` of their peak"),
        ("mfu-multiplied", mfu**2, "a lower mfu takes longer: divide by it"),
    ]
    known = [Mistake(*one) for one in factors if one[1] != 1]
    other = Mistake("value", True, "total FLOPs, divided by the FLOPs of all GPUs in a second, are seconds")
    return _fewest(known, 2, lambda values: close(got / want, math.prod(values, start=1.0), 1e-6)) or other


@check(one_GPU=1, many_GPUs=2)
def check_training_days(answer: Any, part: Any) -> str:
    draw = drawn("training_days")
    gpt3 = (175e9, 300e9, 1024, A100.peak("fp16"), 0.33)
    sizes = draw.randint(1, 99) * 1e8, draw.randint(1, 99) * 1e9, draw.randint(3, 700)
    made_up = (*sizes, V100.peak("fp16"), draw.randint(21, 47) / 100)
    for name, runs in {"one GPU": [(1e12, 3e11, 1, 1e15, 1.0)], "many GPUs": [gpt3, made_up]}.items():
        part(name)
        for parameters, tokens, gpus, peak, mfu in runs:
            want = costs.training_days(parameters, tokens, gpus, peak, mfu)
            got = plain(answer(parameters, tokens, gpus, peak, mfu))
            case = Case(label=f"training_days({parameters:.4g}, {tokens:.4g}, {gpus}, {peak:.4g}, {mfu:g})")
            case.expect(is_number(got), f"returned {shown(got)}: return a number of days", "form")
            if not close(got, want, 1e-6):
                seen = f"gives {got:,.8g} days; {want:,.8g} is right"
                _refuse(case, seen, _explain_days(got, want, gpus, mfu))
    return "1T parameters on one GPU take 57 years · GPT-3 on 1,024 GPUs · any other run"


# activation_bytes


def _activation_mistakes(shape: ModelShape, batch: int, sequence: int, recompute: str) -> list[Mistake]:
    """Return wrong terms that learners have: each mistake has as its value the bytes too many."""
    h, f, a, layers = shape.hidden, shape.ffn, shape.heads, shape.layers
    unit = 2 * layers * batch * sequence  # one number a token and layer, in bytes
    ends = ("ends", 4 * batch * sequence * h, "only the layers: what follows the last layer is not asked for")
    nothing = ("nothing", -unit * h, "a layer's input has to be kept, or there is nothing to start again from")
    if recompute == "full":
        redone = [sum(memory.layer_activation_bytes(shape, batch, sequence, again).values())
                  for again in ("selective", "none")]  # fmt: skip
        again = [("redone", size - less, REDONE) for size in redone for less in (0, unit // layers * h)]
        return [Mistake(*one) for one in (ends, nothing, *again)]
    kv = (a - shape.kv_heads) * shape.head_size
    scores = a * sequence
    inner = 4 if shape.gated else 2
    narrow = (
        "missing of the tensors as wide as hidden: the inputs of two norms, of q, k and v together, of out, of the "
        "MLP, and q (k, v: kv_heads heads)"
    )
    halved = "these are half the scores: count `sequence` for each token, though the mask hides later ones"
    found = [
        ends,
        ("ffn", unit * inner * (4 * h - f), "the MLP is `ffn` wide, not 4 · hidden"),
        ("mlp-wide", -unit * f, GATED if shape.gated else "the MLP keeps what goes into GELU and what comes out"),
        ("mlp-wide", -2 * unit * f, "a gated MLP keeps gate, its SiLU, up, and their product"),
        ("mlp-wide", 2 * unit * f, "an MLP that is not gated keeps two tensors as wide as ffn"),
        ("shared-input", 2 * unit * h, "q, k and v read one tensor, kept once; and an addition keeps nothing"),
        *(("narrow", -many * unit * h, f"{are} {narrow}") for many, are in enumerate(("one is", "2 are", "3 are"), 1)),
        ("kv-forgotten", -2 * unit * (h - kv), "k and v are missing"),
        ("kv-heads", 2 * unit * kv, "k and v are kv_heads heads wide, not heads"),
    ]
    if recompute == "none":
        found += [
            ("scores", -unit * scores, "the scores are missing: for each token, one number per head and token"),
            ("scores-of-one-head", unit * (sequence - scores), "each head has its own scores"),
            ("scores-halved", -unit * scores / 2, halved),
            ("scores-halved", -unit * a * (sequence - 1) / 2, halved),
            ("scores-twice", unit * scores, "softmax keeps what it puts out, and its input goes"),
            ("scores-of-kv-heads", unit * sequence * (shape.kv_heads - a), "each head of q has scores, not of k"),
            ("dropout", unit * (h + 1.5 * scores), "there is no dropout here: no masks (34 and 5 count them)"),
        ]
    else:
        found.append(("scores-kept", unit * scores, "selective recomputation keeps no scores"))
    return [Mistake(*one) for one in found if one[1]]


GATED = "one is missing of the four tensors as wide as ffn: gate, its SiLU, up, and their product"
REDONE = (
    "the layer that is redone in backward comes on top, for a moment; here only what waits from forward on counts, "
    "the input of each layer"
)


def _explain_activations(asked: tuple, got: float, want: float) -> Mistake:
    shape, batch, sequence, recompute = asked
    layers, full = shape.layers, recompute == "full"
    none = memory.activation_bytes(shape, batch, sequence) - 4 * batch * sequence * shape.hidden
    papers = 2 * batch * sequence * layers * (16 * shape.hidden + shape.heads * sequence)
    ignored = f'with recompute="{recompute}" less is kept than with "none"'
    formula = "sbh(32 + 2as/h) holds for an MLP of two tensors 4h wide, and as many kv heads as heads"
    twice = "twice as much: with full a layer keeps one tensor of width hidden, its input"
    off = f"that is {(got - want) / layers / batch / sequence:+,.6g} bytes a layer and token off"
    whole = [
        ("numbers", want / 2, "these are numbers, and each takes 2 bytes"),
        ("input-twice", full and want * 2, twice),
        ("four-bytes", want * 2, "in bf16 a number takes 2 bytes, not 4"),
        ("one-layer", want / layers, f"this is one layer; there are {layers}"),
        ("batch", want / batch, f"this is one sequence; the batch has {batch}"),
        ("one-layer", want / (2 * layers), f"these are numbers of one of {layers} layers, not bytes of all"),
        ("recompute-ignored", recompute != "none" and none, ignored),
        ("formula", recompute == "none" and papers, formula),
    ]
    for mistake in (Mistake(*one) for one in whole if one[1]):
        if close(got, mistake.value):
            return mistake
    known = _activation_mistakes(*asked)
    return _fewest(known, 2, lambda values: close(got, want + sum(values))) or Mistake("value", True, off)


@check(none=2, any_shape=1, selective=1, full=1)
def check_activation_bytes(answer: Any, part: Any) -> str:
    draw = drawn("activation_bytes")
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
        for asked in found:
            shape, batch, sequence, recompute = asked
            want = shape.layers * sum(memory.layer_activation_bytes(shape, batch, sequence, recompute).values())
            got = plain(answer(asdict(shape), batch, sequence, recompute))
            told = f', batch {batch}, sequence {sequence:,}, recompute="{recompute}"'
            see = f'memory.layer_activation_bytes({{}}, {batch}, {sequence}, "{recompute}")'  # the parts of one layer
            case = _case(shape, told, see)
            case.expect(is_number(got), f"it returned {shown(got)}: return a number of bytes", "form")
            if not close(got, want):
                seen = f"it gives {got:,.0f} bytes; {want:,.0f} is right"
                _refuse(case, seen, _explain_activations(asked, got, want))
    return "GPT-3, Llama-3-8B and made-up shapes · none, selective and full recomputation, to the byte"


# total_and_active


def _mixture_mistakes(shape: ModelShape) -> list[Mistake]:
    """Return wrong terms: each mistake has as its value what it adds to total, and to active."""
    layers, h, experts, used = shape.layers, shape.hidden, shape.experts, shape.experts_per_token
    expert, dense = (models.mlp_weights(shape, width) for width in (shape.expert_ffn, shape.ffn))
    attention = layers * models.attention_parameters(shape)
    router, table, norm = layers * experts * h, shape.vocabulary * h, norm_parameters(shape)
    kv = 2 * layers * h * (shape.heads - shape.kv_heads) * shape.head_size
    unused = used * router // experts - router
    wider, flat = layers * (dense - expert), layers * expert // 3
    found = [
        ("router", -router, -router, "the router is missing: in each layer one score per expert, a matrix"),
        ("kv-heads", kv, kv, "k and v are kv_heads heads wide, not heads"),
        ("tables", -2 * table, -2 * table, "the token table and the output matrix are missing"),
        ("head-forgotten", -table, -table, "the output matrix is not tied to the token table: count both"),
        ("last-norm", -norm, -norm, "the norm after the last layer is missing"),
        ("norms", -(2 * layers + 1) * norm, -(2 * layers + 1) * norm, "the norms are missing"),
        ("attention-per-expert", (experts - 1) * attention, (used - 1) * attention, ONE_ATTENTION),
        ("gate", -experts * flat, -used * flat, "an expert is a gated MLP: three matrices"),
        ("tables-inactive", 0, -2 * table, "by this convention the tables count as active, too"),
        ("router-inactive", 0, -router, "the router is computed for every token: it is active"),
        ("router-of-chosen", 0, unused, "the whole router is active: a token gets a router score for every expert"),
        ("router-of-chosen", unused, unused, "the router has a router score for every expert, not the chosen alone"),
        ("dense-width", experts * wider, used * wider, "the experts are `expert_ffn` wide, not `ffn`"),
        ("one-expert-active", 0, layers * (1 - used) * expert, f"each token is sent to {used} experts"),
        ("all-active", 0, layers * (experts - used) * expert, "a token is sent to experts_per_token of them"),
    ]
    return [Mistake(code, (total, active), says) for code, total, active, says in found]


ONE_ATTENTION = "a layer has one attention, whatever the number of its experts"
SHARE = "only the experts are left out; attention, tables and norms serve every token"


def _explain_mixture(shape: ModelShape, got: tuple, want: tuple) -> Mistake:
    if small := _too_small(got[0], want[0]):
        return small
    if got == want[::-1]:
        return Mistake("swapped", True, "the two are swapped: total first")
    if close(got[1], want[0] * shape.experts_per_token / shape.experts, 1e-9, 1):
        return Mistake("share-of-total", True, SHARE)
    sums = _fewest(_mixture_mistakes(shape), 2, lambda values: tuple(map(sum, zip(want, *values, strict=True))) == got)
    return sums or _compare_parts(shape)


@check(total=1, active=1, any_shape=1)
def check_total_and_active(answer: Any, part: Any) -> str:
    draw = drawn("total_and_active")
    experts = 4 * draw.randint(2, 5)
    wide = 30 * draw.randint(5, 9)  # Mixtral's experts are as wide as its `ffn`; these are not
    other = _made_up(draw, experts=experts, experts_per_token=draw.randint(2, 3), expert_ffn=wide, ffn=wide + 110)
    for shape, parts in ((MODELS["Mixtral-8x7B"], ("total", "active")), (other, ("any shape", ""))):
        part(parts[0])
        want = models.parameter_count(shape), models.active_parameters(shape)
        got, case = answer(asdict(shape)), _case(shape)
        got = got.tolist() if hasattr(got, "tolist") else plain(got)
        case.expect(
            isinstance(got, (tuple, list)) and len(got) == 2 and all(map(is_number, got)),
            f"it returned {shown(got)}: return two numbers, (total, active)",
            "form",
        )
        for word, name, seen, right in zip(("total", "active"), parts, got, want, strict=True):
            if name not in ("", parts[0]):
                part(name)
            if not close(seen, right, 0, 0):
                told = f"{word} is {seen:,}; {right:,} is right, so {_apart(seen, right)}"
                _refuse(case, told, _explain_mixture(shape, tuple(got), want))
    return "Mixtral: 46.7B parameters take memory, 12.9B compute each token · any other number of experts"


# is_memory_bound


BOUND_MISTAKES = {  # the FLOPs per byte that a mistake takes the work to have
    "dtype-forgotten": (lambda m, k, n, size: matmul_intensity(m, k, n, 1), "each number takes dtype_bytes bytes"),
    "two-bytes": (lambda m, k, n, size: matmul_intensity(m, k, n, 2), "a number takes dtype_bytes bytes, not 2"),
    "one-flop": (lambda m, k, n, size: matmul_intensity(m, k, n, 2 * size), "a multiply and an add are two FLOPs"),
    "result-forgotten": (lambda m, k, n, size: 2 * m * n / size / (m + n), "the result (m, n) has to be written, too"),
    "result-read": (
        lambda m, k, n, size: 2 * m * k * n / size / (m * k + k * n + 2 * m * n),
        "the result is written, and not read",
    ),
    "input-forgotten": (
        lambda m, k, n, size: 2 * m * k * n / size / (k * n + m * n),
        "both matrices are read, (m, k) too",
    ),
    "weight-only": (lambda m, k, n, size: 2 * m / size, "three matrices move, not (k, n) alone"),
}


def _bound(cases: list[tuple], intensity: Callable = matmul_intensity) -> list[bool]:
    return [intensity(*sizes) < ridge_point(gpu, "fp16") for *sizes, gpu in cases]


def _explain_bound(cases: list[tuple], answers: list[bool]) -> Mistake:
    """Return the mistake that gives all these answers."""
    right = _bound(cases)
    known = [Mistake(code, _bound(cases, intensity), says) for code, (intensity, says) in BOUND_MISTAKES.items()]
    small = "a small m alone does not decide: with few bytes a number, computing may take longer"
    known.append(Mistake("small-m", [bound or case[0] < 100 for bound, case in zip(right, cases, strict=True)], small))
    even = "both take 1 s, so moving does not take longer"
    at_most = [matmul_intensity(*sizes) <= ridge_point(gpu, "fp16") for *sizes, gpu in cases]
    known.append(Mistake("equal", at_most, even))
    turned = "memory-bound is when moving the matrices takes longer than computing"
    known += [Mistake("turned-round", [not bound for bound in bounds], turned) for bounds in (right, at_most)]
    other = Mistake("value", True, "compare the seconds to move three matrices with the seconds to compute")
    return next((mistake for mistake in known if mistake.value == answers), other)


@check(value=1, near_the_ridge=1, any_dtype=1)
def check_is_memory_bound(answer: Any, part: Any) -> str:
    draw = drawn("is_memory_bound")
    near = []
    for gpu in (V100, A100, H100):  # a wide matrix, and m just below and above where the two times are equal
        for share in (0.93, 1.07):
            k = n = 1024 * draw.randint(3, 9)
            goal = ridge_point(gpu, "fp16") * share  # 2mkn / 2(mk + kn + mn) = goal
            near.append((round(goal / (1 - goal * (1 / k + 1 / n))), k, n, 2, gpu))
            k, n = 1024 * draw.randint(6, 9), 1024 * draw.randint(2, 4)
            m = round(goal / (1 - goal * (1 / k + 1 / n)))
            near.append((*[round(3 * goal)] * 3, 2, gpu))
            near += [(m, k, n, 2, gpu), (n, k, m, 2, gpu)]  # no two sizes equal; and the large one first
    ridge = ridge_point(A100, "fp16")
    between, less, one = round(1.5 * ridge), round(1.4 * ridge), round(1.05 * ridge)
    near += [(between, 65536, 65536, 2, A100), (less, less, 65536, 2, A100), (one, 600, 600, 2, A100)]
    even = replace(A100, name="a made-up GPU", fp16=2.0**31, memory_bandwidth=6.0 * 2**20)
    near.append((1024, 1024, 1024, 2, even))  # both take one second, without any rounding
    small = draw.randint(80, 99), 65536, 65536, 1, A100  # computing takes longer, with a small m
    parts = {
        "value": [(1, 4096, 4096, 2, H100), (4096, 4096, 4096, 2, H100)],
        "near the ridge": near,
        "any dtype": [*((between, 65536, 65536, size, A100) for size in (1, 4)), small],
    }
    everything = [case for found in parts.values() for case in found]
    answers = []
    for *sizes, gpu in everything:
        facts = {"name": gpu.name, "peak_flops": gpu.peak("fp16"), "memory_bandwidth": gpu.memory_bandwidth}
        answers.append(plain(answer(*sizes, facts)))
    whether = all(isinstance(got, bool) for got in answers)
    told = iter(zip(answers, _bound(everything), strict=True))
    for name, found in parts.items():
        part(name)
        for *sizes, gpu in found:
            got, want = next(told)
            case = Case(label=f"on {gpu.name} is_memory_bound({', '.join(map(str, sizes))}, gpu)")
            case.expect(whether, f"returned {shown(got)}: return True or False", "form")
            if bool(got) is not want:
                mistake = _explain_bound(everything, list(map(bool, answers)))
                seen = f"is {bool(got)} and should be {want}: {matmul_intensity(*sizes):.4g} FLOPs per byte"
                ridge = f"{ridge_point(gpu, 'fp16'):.4g}; {mistake.says}"
                case.refuse(f"{seen}, and the ridge is at {ridge}", mistake.code)
    return "memory-bound or not on three GPUs, also just beside the ridge, in 1, 2 and 4 bytes"
