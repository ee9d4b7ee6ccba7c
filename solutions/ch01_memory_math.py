"""Answers to the exercises of chapter 1."""


def parameter_count(config):
    """Add up the matrices of one layer, once per layer, and what stands before and after the layers."""
    hidden, ffn, heads, kv_heads = (config[name] for name in ("hidden", "ffn", "heads", "kv_heads"))
    head = hidden // heads
    norm = 2 * hidden if config["layer_norm"] else hidden  # scale and shift, or a scale alone
    attention = 2 * hidden * heads * head + 2 * hidden * kv_heads * head  # q and out; k and v may be narrower
    mlp = (3 if config["gated"] else 2) * hidden * ffn
    if config["bias"] in ("qkv", "all"):
        attention += (heads + 2 * kv_heads) * head  # a bias is as long as what its matrix puts out
    if config["bias"] == "all":
        attention += hidden
    if config["bias"] in ("mlp", "all"):
        mlp += (2 if config["gated"] else 1) * ffn + hidden
    tables = (config["vocabulary"] + config["positions"]) * hidden
    output = 0 if config["tied"] else config["vocabulary"] * hidden  # a tied output matrix is the token table again
    return tables + config["layers"] * (attention + mlp + 2 * norm) + norm + output


def model_state_bytes(parameters, precision, optimizer):
    """In fp32 the weights are their own master copy; with 16-bit weights the optimizer keeps one of 4 bytes."""
    moments = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    width, master = (4, 0) if precision == "fp32" else (2, 4)
    return {
        "weights": width * parameters,
        "gradients": width * parameters,
        "optimizer": (master + 4 * moments) * parameters,
    }


def training_days(parameters, tokens, gpus, peak_flops, mfu):
    """Six FLOPs per parameter and token: two in forward (multiply, add), twice as many in backward."""
    seconds = 6 * parameters * tokens / (gpus * peak_flops * mfu)
    return seconds / (24 * 60 * 60)


def activation_bytes(config, batch, sequence, recompute):
    """Count per token what each operation of a layer needs in backward: mostly its input."""
    hidden, ffn, heads = config["hidden"], config["ffn"], config["heads"]
    kv = config["kv_heads"] * hidden // heads
    if recompute == "full":
        numbers = hidden  # the layer's input, from which all the rest is computed again
    else:
        attention = 2 * hidden + hidden + 2 * kv + hidden  # input of the norm, of q, k, v; q; k and v; input of out
        mlp = 2 * hidden + (4 if config["gated"] else 2) * ffn  # input of the norm, of the first matrix; the wide ones
        scores = heads * sequence if recompute == "none" else 0  # each token looks at each, in each head
        numbers = attention + mlp + scores
    return 2 * config["layers"] * batch * sequence * numbers


def total_and_active(config):
    """All experts take memory; a token is computed by the attention, the router and the experts it is sent to."""
    hidden, experts = config["hidden"], config["experts"]
    kv = config["kv_heads"] * hidden // config["heads"]
    expert = 3 * hidden * config["expert_ffn"]
    shared = 2 * hidden * hidden + 2 * hidden * kv + hidden * experts + 2 * hidden  # attention, router, two norms
    ends = 2 * config["vocabulary"] * hidden + hidden
    total = ends + config["layers"] * (shared + experts * expert)
    return total, total - config["layers"] * (experts - config["experts_per_token"]) * expert


def is_memory_bound(m, k, n, dtype_bytes, gpu):
    """Compare the two times: to move three matrices once, and to compute."""
    moving = dtype_bytes * (m * k + k * n + m * n) / gpu["memory_bandwidth"]
    return moving > 2 * m * k * n / gpu["peak_flops"]
