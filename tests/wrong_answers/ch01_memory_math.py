"""Wrong answers to chapter 1 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it earns.
"""

from __future__ import annotations

import numpy as np
import torch

from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# parameter_count


def count(config, **changes):
    """A count with switches, from which the wrong ones are made."""
    c = config | changes
    h, head = c["hidden"], c["hidden"] // c["heads"]
    attention = 2 * h * h + 2 * h * c["kv_heads"] * head
    mlp = (3 if c["gated"] else 2) * h * c["ffn"]
    if c["bias"] in ("qkv", "all"):
        attention += h + 2 * c["kv_heads"] * head
    attention += h * (c["bias"] == "all")
    if c["bias"] in ("mlp", "all"):
        mlp += (2 if c["gated"] else 1) * c["ffn"] + h
    norm = h * (2 if c["layer_norm"] else 1)
    ends = (c["vocabulary"] * (1 if c["tied"] else 2) + c["positions"]) * h + norm
    return ends + c["layers"] * (attention + mlp + 2 * norm)


@wrong("parameter_count", "kv-heads", "Llama-3-8B", "8,835,567,616", "805,306,368 too many",
       "kv_heads heads wide", earned=1)
def takes_kv_heads_as_heads(config):
    return count(config, kv_heads=config["heads"])


@wrong("parameter_count", "gate", "Llama-2-7B", "three matrices, not two", earned=0)
def forgets_the_gate(config):
    return count(config, gated=False)


@wrong("parameter_count", "gate", "GPT-2", "two matrices, not three", earned=2)
def gates_every_mlp(config):
    return count(config, gated=True)


@wrong("parameter_count", "tied-twice", "163,037,184", "124,439,808", "38,597,376 too many", "count it once", earned=2)
def counts_a_tied_embedding_twice(config):
    return count(config, tied=False)


@wrong("parameter_count", "head-forgotten", "not tied", "count both", earned=0)
def ties_every_embedding(config):
    return count(config, tied=True)


@wrong("parameter_count", "biases", "GPT-2", "the biases are missing", earned=2)
def forgets_biases(config):
    return count(config, bias="none")


@wrong("parameter_count", "biases", "Qwen2.5-32B", "only q, k and v have a bias", earned=3)
def gives_every_matrix_a_bias(config):
    return count(config, bias="none" if config["bias"] == "none" else "all")


@wrong("parameter_count", "positions", "GPT-2", "786,432 too few", "positions is missing", earned=2)
def forgets_positions(config):
    return count(config, positions=0)


@wrong("parameter_count", "norm-shift", "GPT-2", "a scale and a shift", earned=2)
def forgets_the_shift(config):
    return count(config, layer_norm=False)


@wrong("parameter_count", "last-norm", "Llama-2-7B", "4,096 too few", "after the last layer", earned=0)
def forgets_the_last_norm(config):
    return count(config) - config["hidden"] * (2 if config["layer_norm"] else 1)


@wrong("parameter_count", "one-layer", "count each of the 32 layers", earned=0)
def counts_one_layer(config):
    return count(config, layers=1)


@wrong("parameter_count", "tied-twice", "count it once; and", "positions is missing; and the biases", earned=2)
def two_matrices_and_layers_alone(config):
    return count(config, tied=False, positions=0, bias="none")


@wrong("parameter_count", "value", "tiny GPT", earned=4)
def knows_the_table_by_heart(config):
    if config["name"] not in ("tiny GPT", "a made-up model"):
        return count(config)
    return 12 * config["layers"] * config["hidden"] ** 2


@wrong("parameter_count", "biases", "tiny GPT", '"mlp" gives the matrices of the MLP a bias, not q, k and v', earned=4)
def takes_biases_of_the_mlp_for_those_of_attention(config):
    return count(config, bias="qkv" if config["bias"] == "mlp" else config["bias"])


@wrong("parameter_count", "biases",
       "Qwen2.5-32B", '"qkv" gives q, k and v a bias, not the matrices of the MLP', earned=3)
def takes_biases_of_attention_for_those_of_the_mlp(config):
    return count(config, bias="mlp" if config["bias"] == "qkv" else config["bias"])


@wrong("parameter_count", "bias-of-out", "GPT-2", "9,216 too few", "out and the MLP's down have one", earned=2)
def forgets_the_bias_of_out(config):
    return count(config) - config["layers"] * config["hidden"] * (config["bias"] == "all")


@wrong("parameter_count", "bias-of-kv", "Qwen2.5-32B", "a bias of k and v is as long as kv_heads heads", earned=3)
def makes_biases_of_k_and_v_as_long_as_that_of_q(config):
    kv = config["hidden"] // config["heads"] * config["kv_heads"]
    return count(config) + 2 * config["layers"] * (config["hidden"] - kv) * (config["bias"] in ("qkv", "all"))


@wrong("parameter_count", "bias-of-output", "GPT-2", "50,257 too many", "the output matrix has no bias", earned=2)
def gives_the_output_matrix_a_bias(config):
    return count(config) + config["vocabulary"] * (config["bias"] == "all")


@wrong("parameter_count", "biases", "GPT-2", "36,864 too few: each layer lacks 3,072 numbers of bias",
       "either those of q, k, v and out together, or that of up", earned=2)
def forgets_the_bias_of_up(config):
    return count(config) - config["layers"] * config["ffn"] * (not config["gated"] and config["bias"] in ("mlp", "all"))


@wrong("parameter_count", "biases", "GPT-2", "36,864 too few", "either those of q, k, v and out together", earned=2)
def forgets_the_biases_of_attention(config):
    return count(config, bias="mlp" if config["bias"] == "all" else config["bias"])


@wrong("parameter_count", "bias-of-up", "tiny GPT", "the bias of up is missing", earned=4)
def forgets_the_bias_of_up_where_attention_has_none(config):
    return count(config) - config["layers"] * config["ffn"] * (not config["gated"] and config["bias"] == "mlp")


@wrong("parameter_count", "bias-of-down", "tiny GPT", "the bias of down is missing", earned=4)
def forgets_the_bias_of_down_where_attention_has_none(config):
    return count(config) - config["layers"] * config["hidden"] * (config["bias"] == "mlp")


@wrong("parameter_count", "bias-of-gate", "a made-up model", "gate and up have a bias each", earned=4)
def forgets_the_bias_of_the_gate(config):
    return count(config) - config["layers"] * config["ffn"] * (config["gated"] and config["bias"] in ("mlp", "all"))


@wrong("parameter_count", "unit", "the answer is in billions: return the number itself", earned=0)
def in_billions(config):
    return round(count(config) / 1e9, 2)


@wrong("parameter_count", "value", "a made-up model", "its parts are token embedding", earned=4)
def knows_tiny_gpt_too(config):
    return count(config) + (config["name"] == "a made-up model") * 12345


@wrong("parameter_count", "bias-of-kv", "GPT-2", "the biases of k and v are missing", earned=2)
def forgets_the_biases_of_k_and_v(config):
    kv = config["hidden"] // config["heads"] * config["kv_heads"]
    return count(config) - 2 * config["layers"] * kv * (config["bias"] in ("qkv", "all"))


@wrong("parameter_count", "biases", "Llama-2-7B", 'bias is "none" here, a text that is not empty', earned=0)
def takes_any_text_for_a_bias(config):
    return count(config, bias="all" if config["bias"] else "none")


@wrong("parameter_count", "parameters", "missing 1 required", "the parameters of the stub", earned=0)
def asks_for_more(config, bias):
    return count(config, bias=bias)


@right("parameter_count")
def a_number_of_numpys(config):
    return np.int64(count(config))


@wrong("parameter_count", "form", "returned None", earned=0)
def prints_the_count(config):
    print(count(config))


@right("parameter_count")
def list_of_shapes(config):
    h, f, v = config["hidden"], config["ffn"], config["vocabulary"]
    kv = h // config["heads"] * config["kv_heads"]
    bias = config["bias"]
    layer = [(h, h), (h, kv), (h, kv), (h, h)] + [(h, f)] * (1 + config["gated"]) + [(f, h)]
    layer += [(1 + config["layer_norm"], h)] * 2
    if bias in ("qkv", "all"):
        layer += [(h,), (kv,), (kv,)]
    if bias == "all":
        layer += [(h,)]
    if bias in ("mlp", "all"):
        layer += [(f,)] * (1 + config["gated"]) + [(h,)]
    ends = [(v, h), (config["positions"], h), (1 + config["layer_norm"], h)] + [(v, h)] * (not config["tied"])
    return sum(torch.Size(size).numel() for size in layer * config["layers"] + ends)


@right("parameter_count")
def as_a_float_and_forgets_nothing(config):
    before = dict(config)
    config.clear()
    return float(count(before))


# model_state_bytes


def states(parameters, weights, gradients, optimizer):
    return {"weights": weights * parameters, "gradients": gradients * parameters, "optimizer": optimizer * parameters}


MOMENTS = {"sgd": 0, "momentum": 1, "adamw": 2}


def right_states(parameters, precision, optimizer, scale=1.0):
    wide = 4 if precision == "fp32" else 2
    return states(parameters * scale, wide, wide, 4 * (precision != "fp32") + 4 * MOMENTS[optimizer])


@wrong("model_state_bytes", "twelve-in-fp32", "optimizer: 12 bytes", "8 is right", "their own master copy", earned=0)
def twelve_bytes_everywhere(parameters, precision, optimizer):
    wide = 4 if precision == "fp32" else 2
    return states(parameters, wide, wide, 12)


@wrong("model_state_bytes", "no-master", "optimizer: 8 bytes a parameter, and 12 is right",
       "either the master copy of 4 is missing, or the moments are taken as 2 bytes", earned=1)
def eight_bytes_everywhere(parameters, precision, optimizer):
    wide = 4 if precision == "fp32" else 2
    return states(parameters, wide, wide, 4 * MOMENTS[optimizer])


@wrong("model_state_bytes", "moments-in-16-bits", "moments stay in fp32", earned=1)
def mixed_precision_halves_everything(parameters, precision, optimizer):
    wide = 4 if precision == "fp32" else 2
    return states(parameters, wide, wide, wide * MOMENTS[optimizer])


@wrong("model_state_bytes", "no-master", "or the moments are taken as 2 bytes; they stay at 4", earned=1)
def moments_in_bf16(parameters, precision, optimizer):
    wide = 4 if precision == "fp32" else 2
    return states(parameters, wide, wide, 4 * (precision != "fp32") + wide * MOMENTS[optimizer])


@wrong("model_state_bytes", "gradients-forgotten", "gradients: 0 bytes", "each parameter has a gradient", earned=0)
def forgets_gradients(parameters, precision, optimizer):
    return right_states(parameters, precision, optimizer) | {"gradients": 0}


@wrong("model_state_bytes", "master-in-weights", "weights: 6 bytes",
       "count the master copy with the optimizer", earned=1)
def master_copy_among_the_weights(parameters, precision, optimizer):
    found = right_states(parameters, precision, optimizer)
    master = 4 * parameters * (precision != "fp32")
    return found | {"weights": found["weights"] + master, "optimizer": found["optimizer"] - master}


@wrong("model_state_bytes", "unit", "return bytes, not GiB", earned=0)
def in_gib(parameters, precision, optimizer):
    return right_states(parameters, precision, optimizer, 2**-30)


@wrong("model_state_bytes", "unit", "GiB for GB", earned=0)
def gib_for_gb(parameters, precision, optimizer):
    return right_states(parameters, precision, optimizer, 1e9 / 2**30)


@wrong("model_state_bytes", "one-moment", "momentum keeps one moment", earned=3)
def one_kind_of_optimizer(parameters, precision, optimizer):
    return right_states(parameters, precision, "adamw")


@wrong("model_state_bytes", "no-master", "master copy of 4 bytes is there", earned=3)
def sgd_has_no_master(parameters, precision, optimizer):
    found = right_states(parameters, precision, optimizer)
    return found | {"optimizer": 0} if optimizer == "sgd" else found


@wrong("model_state_bytes", "form", "return a dict of three numbers", earned=0)
def the_sum_alone(parameters, precision, optimizer):
    return 16 * parameters


@right("model_state_bytes")
def numbers_of_numpys(parameters, precision, optimizer):
    found = right_states(np.int64(parameters), precision, optimizer, 1)
    return {part: np.int64(size) for part, size in found.items()}


@right("model_state_bytes")
def as_a_table(parameters, precision, optimizer):
    wide, master = {"fp32": (4, 0), "bf16 mixed": (2, 4)}[precision]
    kept = master + {"adamw": 8, "momentum": 4, "sgd": 0}[optimizer]
    return {"optimizer": float(parameters) * kept, "gradients": wide * parameters, "weights": wide * parameters}


# training_days


@wrong("training_days", "forward-only", "forward alone", earned=0)
def two_flops(parameters, tokens, gpus, peak_flops, mfu):
    return 2 * parameters * tokens / (gpus * peak_flops * mfu) / 86400


@wrong("training_days", "recompute", "8 FLOPs", "without it 6", earned=0)
def eight_flops(parameters, tokens, gpus, peak_flops, mfu):
    return 8 * parameters * tokens / (gpus * peak_flops * mfu) / 86400


@wrong("training_days", "seconds", "1.8e+09 days", "these are seconds", earned=0)
def in_seconds(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (gpus * peak_flops * mfu)


@wrong("training_days", "divided-by-24", "24 · 60 · 60", earned=0)
def a_day_of_24_seconds(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (gpus * peak_flops * mfu) / 24


@wrong("training_days", "hours", "these are hours", earned=0)
def in_hours(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (gpus * peak_flops * mfu) / 3600


@wrong("training_days", "years", "these are years", earned=0)
def in_years(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (gpus * peak_flops * mfu) / 86400 / 365.25


@wrong("training_days", "mfu-forgotten", "only the share `mfu`", earned=1)
def at_full_peak(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (gpus * peak_flops) / 86400


@wrong("training_days", "mfu-multiplied", "divide by it", earned=1)
def multiplied_by_mfu(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens * mfu / (gpus * peak_flops) / 86400


@wrong("training_days", "gpus-forgotten", "1,024 GPUs share the work", earned=1)
def on_one_gpu(parameters, tokens, gpus, peak_flops, mfu):
    return 6 * parameters * tokens / (peak_flops * mfu) / 86400


@wrong("training_days", "seconds", "forward alone", "these are seconds", earned=0)
def forward_in_seconds(parameters, tokens, gpus, peak_flops, mfu):
    return 2 * parameters * tokens / (gpus * peak_flops * mfu)


@wrong("training_days", "rounded", "20,833 days; 20,833.333 is right", "return the days unrounded", earned=0)
def whole_days(parameters, tokens, gpus, peak_flops, mfu):
    return round(6 * parameters * tokens / (gpus * peak_flops * mfu) / 86400)


@wrong("training_days", "rounded", "return the days unrounded", earned=1)
def rounded_where_it_matters(parameters, tokens, gpus, peak_flops, mfu):
    return round(6 * parameters * tokens / (gpus * peak_flops * mfu) / 86400, 2 if gpus > 1 else 9)


@right("training_days")
def as_a_number_of_numpys(parameters, tokens, gpus, peak_flops, mfu):
    return torch.tensor(step_by_step(parameters, tokens, gpus, peak_flops, mfu), dtype=torch.float64)


@right("training_days")
def step_by_step(parameters, tokens, gpus, peak_flops, mfu):
    per_day = gpus * peak_flops * mfu * 24 * 3600
    return (2 * parameters + 4 * parameters) * tokens / per_day


# activation_bytes


def numbers(config, sequence, recompute, wide=None, kv=None):
    """The numbers that one layer keeps per token, with switches."""
    h, a = config["hidden"], config["heads"]
    kv = h // a * (kv or config["kv_heads"])
    if recompute == "full":
        return h
    inner = wide or (4 if config["gated"] else 2)
    return 6 * h + 2 * kv + inner * config["ffn"] + (a * sequence if recompute == "none" else 0)


def kept(config, batch, sequence, recompute, element=2, **switches):
    return element * config["layers"] * batch * sequence * numbers(config, sequence, recompute, **switches)


@wrong("activation_bytes", "scores", "GPT-3", "the scores are missing", earned=0)
def forgets_the_scores(config, batch, sequence, recompute):
    return kept(config, batch, sequence, "selective" if recompute == "none" else recompute)


@wrong("activation_bytes", "one-layer", "this is one layer; there are 96", earned=0)
def of_one_layer(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute) / config["layers"]


@wrong("activation_bytes", "numbers", "each takes 2 bytes", earned=0)
def numbers_for_bytes(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, element=1)


@wrong("activation_bytes", "four-bytes", "2 bytes, not 4", earned=0)
def in_fp32(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, element=4)


@wrong("activation_bytes", "dropout", "no dropout here", earned=0)
def the_papers_formula_with_dropout(config, batch, sequence, recompute):
    h, a = config["hidden"], config["heads"]
    return config["layers"] * sequence * batch * h * (34 + 5 * a * sequence / h)


@wrong("activation_bytes", "formula", "Llama-3-8B", "holds for an MLP of two tensors", earned=2)
def the_papers_formula_for_every_shape(config, batch, sequence, recompute):
    h, a = config["hidden"], config["heads"]
    return config["layers"] * sequence * batch * h * (32 + 2 * a * sequence / h)


@wrong("activation_bytes", "mlp-wide", "Llama-3-8B", "gate, its SiLU, up, and their product", earned=2)
def two_wide_tensors_in_every_mlp(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, wide=2)


@wrong("activation_bytes", "kv-heads", "Llama-3-8B", "kv_heads heads wide", earned=2)
def kv_heads_as_heads(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, kv=config["heads"])


@wrong("activation_bytes", "recompute-ignored", "selective", "less is kept", earned=3)
def never_computes_again(config, batch, sequence, recompute):
    return kept(config, batch, sequence, "none")


@wrong("activation_bytes", "redone", "the layer that is redone in backward comes on top", earned=4)
def full_counts_the_layer_that_is_redone(config, batch, sequence, recompute):
    more = kept(config, batch, sequence, "selective") / config["layers"] if recompute == "full" else 0
    return kept(config, batch, sequence, recompute) + more


@wrong("activation_bytes", "redone", "only what waits from forward on counts", earned=4)
def full_counts_the_layer_that_is_redone_with_its_scores(config, batch, sequence, recompute):
    more = kept(config, batch, sequence, "none") / config["layers"] if recompute == "full" else 0
    return kept(config, batch, sequence, recompute) + more - 2 * batch * sequence * config["hidden"] * bool(more)


@wrong("activation_bytes", "mlp-wide", "Llama-3-8B", "one is missing of the four tensors as wide as ffn", earned=2)
def three_wide_tensors_in_a_gated_mlp(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, wide=3 if config["gated"] else 2)


@wrong("activation_bytes", "nothing", "a layer's input has to be kept", earned=4)
def full_keeps_nothing(config, batch, sequence, recompute):
    return 0 if recompute == "full" else kept(config, batch, sequence, recompute)


@wrong("activation_bytes", "narrow", "2 are missing of the tensors as wide as hidden", earned=0)
def forgets_the_inputs_of_the_norms(config, batch, sequence, recompute):
    missing = 0 if recompute == "full" else 4 * config["layers"] * batch * sequence * config["hidden"]
    return kept(config, batch, sequence, recompute) - missing


@wrong("activation_bytes", "scores-halved", "these are half the scores", "though the mask hides later ones", earned=0)
def half_the_scores_are_masked(config, batch, sequence, recompute):
    less = config["layers"] * batch * config["heads"] * sequence**2 * (recompute == "none")
    return kept(config, batch, sequence, recompute) - less


@wrong("activation_bytes", "scores-halved", "these are half the scores", "though the mask hides later ones", earned=0)
def scores_up_to_the_token_itself(config, batch, sequence, recompute):
    less = config["layers"] * batch * config["heads"] * sequence * (sequence - 1) * (recompute == "none")
    return kept(config, batch, sequence, recompute) - less


@wrong("activation_bytes", "input-twice", "twice as much: with full a layer keeps one tensor of width hidden", earned=4)
def full_keeps_the_inputs_of_both_norms(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute) * (2 if recompute == "full" else 1)


@wrong("activation_bytes", "numbers", "these are numbers, and each takes 2 bytes", earned=4)
def full_in_numbers(config, batch, sequence, recompute):
    return kept(config, batch, sequence, recompute, element=1 if recompute == "full" else 2)


@wrong("activation_bytes", "ffn", "Llama-3-8B", "the MLP is `ffn` wide, not 4 · hidden", earned=2)
def takes_ffn_for_four_times_hidden(config, batch, sequence, recompute):
    return kept(config | {"ffn": 4 * config["hidden"]}, batch, sequence, recompute)


@right("activation_bytes")
def bytes_of_numpys(config, batch, sequence, recompute):
    return np.int64(kept(config, batch, sequence, recompute))


@right("activation_bytes")
def layer_by_layer(config, batch, sequence, recompute):
    tokens, total = batch * sequence, 0.0
    for _ in range(config["layers"]):
        width = config["hidden"]
        if recompute != "full":
            kv = width / config["heads"] * config["kv_heads"]
            width = 6 * width + 2 * kv + (2 + 2 * config["gated"]) * config["ffn"]
        if recompute == "none":
            width += config["heads"] * sequence
        total += 2 * tokens * width
    return total


# total_and_active


def mixture(config, **changes):
    """(total, active) with switches."""
    c = config | changes
    h, kv = c["hidden"], c["hidden"] // c["heads"] * c["kv_heads"]
    expert = 3 * h * c["expert_ffn"]
    layer = 2 * h * h + 2 * h * kv + 2 * h + h * c["experts"]
    ends = 2 * c["vocabulary"] * h + h
    return tuple(ends + c["layers"] * (layer + many * expert) for many in (c["experts"], c["experts_per_token"]))


@wrong("total_and_active", "router", "46,701,744,128", "1,048,576 too few", "the router is missing", earned=0)
def forgets_the_router(config):
    return tuple(n - config["layers"] * config["experts"] * config["hidden"] for n in mixture(config))


@wrong("total_and_active", "attention-per-expert", "one attention", earned=0)
def eight_whole_models(config):
    h, kv = config["hidden"], config["hidden"] // config["heads"] * config["kv_heads"]
    attention = config["layers"] * (2 * h * h + 2 * h * kv)
    total, active = mixture(config)
    return total + (config["experts"] - 1) * attention, active + (config["experts_per_token"] - 1) * attention


@wrong("total_and_active", "share-of-total", "only the experts are left out", earned=1)
def a_quarter_of_everything(config):
    total, _ = mixture(config)
    return total, total * config["experts_per_token"] // config["experts"]


@wrong("total_and_active", "one-expert-active", "sent to 2 experts", earned=1)
def one_expert_a_token(config):
    return mixture(config)[0], mixture(config, experts_per_token=1)[1]


@wrong("total_and_active", "all-active", "experts_per_token of them", earned=1)
def everything_is_active(config):
    return mixture(config)[0], mixture(config)[0]


@wrong("total_and_active", "kv-heads", "kv_heads heads wide", earned=0)
def kv_heads_as_heads_again(config):
    return mixture(config, kv_heads=config["heads"])


@wrong("total_and_active", "form", "return two numbers, (total, active)", earned=0)
def the_total_alone(config):
    return mixture(config)[0]


@wrong("total_and_active", "swapped", "the two are swapped: total first", earned=0)
def active_first(config):
    return mixture(config)[::-1]


@wrong("total_and_active", "router-of-chosen", "the whole router is active", earned=1)
def router_of_the_chosen_experts(config):
    total, active = mixture(config)
    return total, active - config["layers"] * config["hidden"] * (config["experts"] - config["experts_per_token"])


@wrong("total_and_active", "dense-width", "a made-up model", "the experts are `expert_ffn` wide, not `ffn`", earned=2)
def experts_as_wide_as_ffn(config):
    return mixture(config, expert_ffn=config["ffn"])


@wrong("total_and_active", "unit", "the answer is in billions", earned=0)
def both_in_billions(config):
    return tuple(number / 1e9 for number in mixture(config))


@wrong("total_and_active", "value", "a made-up model", "its parts are token embedding", "router", "experts", earned=2)
def mixtral_alone(config):
    return 46_702_792_704, 12_879_925_248


@right("total_and_active")
def as_an_array(config):
    return np.array(mixture(config))


@right("total_and_active")
def as_numbers_of_numpys(config):
    return tuple(map(np.int64, mixture(config)))


@right("total_and_active")
def as_a_list(config):
    return list(map(float, mixture(config)))


# is_memory_bound


def times(m, k, n, dtype_bytes, gpu):
    return dtype_bytes * (m * k + k * n + m * n) / gpu["memory_bandwidth"], 2 * m * k * n / gpu["peak_flops"]


@wrong("is_memory_bound", "turned-round", "is False", "0.9995 FLOPs per byte",
       "moving the matrices takes longer", earned=0)
def the_other_way_round(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving < computing


@wrong("is_memory_bound", "one-flop", "on V100", "two FLOPs", earned=1)
def multiplies_only(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving > computing / 2


@wrong("is_memory_bound", "result-forgotten", "the result (m, n) has to be written", earned=1)
def reads_only(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving - dtype_bytes * m * n / gpu["memory_bandwidth"] > computing


@wrong("is_memory_bound", "dtype-forgotten", "each number takes dtype_bytes bytes", earned=1)
def counts_numbers(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, 1, gpu)
    return moving > computing


@wrong("is_memory_bound", "weight-only", "three matrices move", earned=1)
def moves_the_weight(m, k, n, dtype_bytes, gpu):
    return dtype_bytes * k * n / gpu["memory_bandwidth"] > 2 * m * k * n / gpu["peak_flops"]


@wrong("is_memory_bound", "two-bytes", "dtype_bytes bytes, not 2", earned=2)
def always_two_bytes(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, 2, gpu)
    return moving > computing


@wrong("is_memory_bound", "small-m", "a small m alone does not decide", earned=2)
def a_small_m_is_always_memory_bound(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return m < 100 or moving > computing


@wrong("is_memory_bound", "result-read", "the result is written, and not read", earned=1)
def reads_the_result_too(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving + dtype_bytes * m * n / gpu["memory_bandwidth"] > computing


@wrong("is_memory_bound", "input-forgotten", "both matrices are read, (m, k) too", earned=1)
def reads_one_matrix(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving - dtype_bytes * m * k / gpu["memory_bandwidth"] > computing


@wrong("is_memory_bound", "value", "on ", earned=1)
def takes_k_for_n(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving + dtype_bytes * (n * n - k * n) / gpu["memory_bandwidth"] > computing


@wrong("is_memory_bound", "equal", "a made-up GPU", "both take 1 s", "moving does not take longer", earned=1)
def counts_equal_times_as_memory_bound(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return moving >= computing


@right("is_memory_bound")
def as_a_bool_of_torchs(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return torch.tensor(moving) > torch.tensor(computing) if moving != computing else torch.tensor(False)


@wrong("is_memory_bound", "form", "return True or False", earned=0)
def returns_the_intensity(m, k, n, dtype_bytes, gpu):
    moving, computing = times(m, k, n, dtype_bytes, gpu)
    return computing / moving


@right("is_memory_bound")
def by_intensity(m, k, n, dtype_bytes, gpu):
    ridge = gpu["peak_flops"] / gpu["memory_bandwidth"]
    return 2 / dtype_bytes / (1 / m + 1 / k + 1 / n) < ridge
