"""Prints what the library predicts of real networks beside what was measured on them: python docs/network.py

Where a model with two numbers (latency, bandwidth) cannot say it, the error stands beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib.costs import (
    collective_seconds,
    nccl_seconds,
    one_shot_seconds,
    protocol_seconds,
    rails_seconds,
    step_flops,
)
from course_lib.hardware import DGX_A100, DGX_H100, H100, Node
from course_lib.measured import (
    DEEPEP,
    QWEN3_32B_H100,
    Measured,
    all_reduce_dgx,
    all_reduce_h100,
)
from course_lib.models import MODELS, parameter_count
from course_lib.served import SERVED
from course_lib.serving.workers import ONE_SHOT_LATENCY, ONE_SHOT_SHARE, Roofline

MACHINES = {"a100_dgx": DGX_A100, "h100_dgx": DGX_H100}
EXPERT_BYTES = 128 * 8 * (7168 + 7168 // 128 * 4)  # fp8, and a scale of four bytes for every 128 numbers
BACK_BYTES = 128 * 8 * 7168 * 2


def error(predicted: Sequence[float], measured: Sequence[float]) -> tuple[float, float]:
    """Return (mean, worst) of |predicted / measured - 1|."""
    errors = [abs(guess / truth - 1) for guess, truth in zip(predicted, measured, strict=True)]
    return sum(errors) / len(errors), max(errors)


def fitted(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return (latency, seconds a byte) of the line of least squares of relative errors through (bytes, seconds)."""
    a = sum(1 / t**2 for _, t in points)
    b = sum(size / t**2 for size, t in points)
    c = sum(size**2 / t**2 for size, t in points)
    d, e = sum(1 / t for _, t in points), sum(size / t for size, t in points)
    return (c * d - b * e) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)


def old(node: Node, row: Measured) -> float:
    """One latency and one bandwidth: one ring, between nodes through one port."""
    link = node.gpu.link if row.nodes == 1 else node.nic
    return collective_seconds("all_reduce", row.gpus, row.bytes, link.latency, link.bandwidth)


def new(node: Node, row: Measured) -> float:
    """Rings by the fastest protocol inside a node; between nodes NCCL's rings and trees over all ports."""
    if row.nodes == 1:
        return protocol_seconds("all_reduce", row.gpus, row.bytes, node.gpu.link)
    table = nccl_seconds(node, row.nodes, row.per_node, row.bytes)
    return min(seconds for (algorithm, _), seconds in table.items() if algorithm in ("Ring", "Tree"))


def choice(node: Node, row: Measured) -> float:
    """What NCCL's own table says of its best choice, NVLS included."""
    return min(nccl_seconds(node, row.nodes, row.per_node, row.bytes).values())


def groups() -> list[tuple[str, Node, list[Measured]]]:
    """Return the rows of the measured tables by machine, GPUs and GPUs in a node."""
    rows = all_reduce_dgx()
    keys = sorted({row[:3] for row in rows})
    found = [(key[0], MACHINES[key[0]], [row for row in rows if row[:3] == key]) for key in keys]
    for gpus in (2, 4, 8):
        points = all_reduce_h100("nccl", gpus)
        found.append(("h100 2.29.2", DGX_H100, [Measured("h100", gpus, gpus, *point) for point in points]))
    return found


def all_reduce_table() -> dict[tuple[str, int, int], list[tuple[float, float]]]:
    """Return by (machine, GPUs, GPUs in a node) the (mean, worst) errors: old, new, NCCL's choice, a fitted line."""
    found = {}
    for machine, node, rows in groups():
        measured = [row.seconds for row in rows]
        late, slow = fitted([(row.bytes, row.seconds) for row in rows])
        line = error([late + slow * row.bytes for row in rows], measured)
        models: tuple[Callable, ...] = (old, new, choice)
        errors = [error([model(node, row) for row in rows], measured) for model in models]
        found[machine, rows[0].gpus, rows[0].per_node] = [*errors, line]
    return found


def by_machine(table: dict[tuple[str, int, int], list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Return by machine the mean of its groups' means, and the worst of all."""
    found = {}
    for machine in dict.fromkeys(key[0] for key in table):
        rows = [errors for key, errors in table.items() if key[0] == machine]
        columns = [list(zip(*column, strict=True)) for column in zip(*rows, strict=True)]
        found[machine] = [(sum(means) / len(means), max(worst)) for means, worst in columns]
    return found


def small_messages() -> list[tuple[int, float, float, float]]:
    """Return (GPUs, measured, old, new) seconds of NCCL's all-reduce of 512 bytes on H100s."""
    found = []
    for gpus in (2, 4, 8):
        size, seconds = all_reduce_h100("nccl", gpus)[0]
        row = Measured("h100", gpus, gpus, size, seconds)
        found.append((gpus, seconds, old(DGX_H100, row), new(DGX_H100, row)))
    return found


def one_shot_table() -> list[tuple[int, float, float]]:
    """Return (GPUs, mean, worst error) of the one-shot formula against vLLM's kernel on H100s."""
    found = []
    for gpus in (2, 4, 8):
        sizes, seconds = zip(*all_reduce_h100("one-shot", gpus), strict=True)
        rate = ONE_SHOT_SHARE * H100.link.bandwidth
        found.append((gpus, *error([one_shot_seconds(gpus, size, ONE_SHOT_LATENCY, rate) for size in sizes], seconds)))
    return found


def deepep_table() -> list[tuple[int, float, float, float, float]]:
    """Return (ranks, dispatch measured, predicted, combine measured, predicted) in seconds.

    44 and 65 microseconds (fitted), and what leaves the node at 50 GB/s: of P ranks in nodes of eight a share of 1-8/P.
    Inside one node the same bytes go by NVLink, of which this model of two numbers knows nothing.
    """
    found = []
    for row in DEEPEP:
        away = (1 - 8 / row.ranks) / DGX_H100.nic.bandwidth
        found.append((row.ranks, row.dispatch, 44e-6 + EXPERT_BYTES * away, row.combine, 65e-6 + BACK_BYTES * away))
    return found


def tensor_parallel() -> list[tuple[int, float, float, float, float]]:
    """Return (tp, measured, with one latency, with protocols, with one-shot) seconds a token of Qwen3-32B on H100s."""
    found, shape = [], SERVED["Qwen3-32B"]
    for row in QWEN3_32B_H100:
        kept = row.batch * (1024 + 64)  # prompts of 1,024, and half of an answer of 128
        plain, late = Roofline(shape, H100, row.tp, 1), 0.0
        if row.tp > 1:
            size, link = row.batch * shape.hidden, H100.link
            once = collective_seconds("all_reduce", row.tp, size, link.latency, link.bandwidth)
            late = 2 * shape.layers * (once - plain.all_reduce_seconds(size))
        seconds = plain.seconds(row.batch, kept, kept)
        one_shot = Roofline(shape, H100, row.tp, 1, one_shot=True).seconds(row.batch, kept, kept)
        found.append((row.tp, row.seconds, seconds + late, seconds, one_shot))
    return found


def fully_sharded() -> dict[str, float]:
    """Return the seconds of a step of Llama-3-70B, sharded over 64 H100s, with 8,192 tokens a GPU.

    Computing: forward, backward and full recomputation with whole squares of scores, at half of the bf16 peak.
    Communication: two gathers and a reduce-scatter of the 16-bit weights, layer by layer, on two levels; all at once at
    the 200 GB/s of bus bandwidth that NCCL's all-gather reached on 256 H100s (nccl#1218).
    """
    shape = MODELS["Llama-3-70B"]
    weights = 2 * parameter_count(shape)
    link, port = H100.link, DGX_H100.nic
    layer = [rails_seconds(8, 8, weights / shape.layers, link, port, kind) for kind in ("all_gather", "reduce_scatter")]
    return {
        "computing": step_flops(shape, 1, 8192, recompute="full") / (0.5 * H100.peak("bf16")),
        "communication": shape.layers * (2 * layer[0] + layer[1]),
        "at the measured rate": 3 * 63 / 64 * weights / 200e9,
        "one ring, one port": 3 * collective_seconds("all_gather", 64, weights, port.latency, port.bandwidth),
    }


def percent(pair: tuple[float, float]) -> str:
    return f"{100 * pair[0]:5.0f} {100 * pair[1]:5.0f}"


def lines() -> list[str]:
    """Return everything that is printed."""
    table = all_reduce_table()
    head = f"{'':31}{'old':>11}{'new':>13}{'NCCL table':>14}{'fitted':>12}"
    text = ["NCCL's all-reduce, predicted from data sheets: mean and worst error in % of the measured time", head]
    for (machine, gpus, per_node), errors in table.items():
        text.append(f"{machine:11} {gpus:2} GPUs, {per_node} a node    " + "  ".join(map(percent, errors)))
    text += ["", "the same by machine"]
    text += [f"{name:30} " + "  ".join(map(percent, errors)) for name, errors in by_machine(table).items()]
    text += ["", "NCCL's all-reduce of 512 bytes on H100s, µs: measured, old, new"]
    text += [f"{gpus} GPUs" + "".join(f"{1e6 * seconds:8.1f}" for seconds in row) for gpus, *row in small_messages()]
    text += ["", "vLLM's one-shot all-reduce on H100s, 4.6 µs and 295 GB/s: mean and worst error in %"]
    text += [f"{gpus} GPUs {percent(pair)}" for gpus, *pair in one_shot_table()]
    text += ["", "DeepEP, 128 tokens, µs: dispatch measured and predicted, combine measured and predicted, errors in %"]
    for ranks, *times in deepep_table():
        off = [100 * (times[place + 1] / times[place] - 1) for place in (0, 2)]
        micro = "".join(f"{1e6 * seconds:7.0f}" for seconds in times)
        text.append(f"EP{ranks:<4}{micro}{off[0]:+8.0f}{off[1]:+6.0f}")
    text += ["", "Qwen3-32B, fp8, 8 requests on H100s, ms a token: measured, one latency, protocols, one-shot"]
    text += [f"TP{tp} " + "".join(f"{1e3 * seconds:8.2f}" for seconds in row) for tp, *row in tensor_parallel()]
    parts = fully_sharded()
    text += ["", "Llama-3-70B sharded over 64 H100s, seconds a step, and % of computing"]
    text += [f"{name:22}{seconds:6.2f}{100 * seconds / parts['computing']:6.0f} %" for name, seconds in parts.items()]
    return text


if __name__ == "__main__":
    print("\n".join(lines()))
