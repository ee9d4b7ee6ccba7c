"""Checks of chapter 10: fits to measured times, protocols, sums on two levels and their price, and shared links."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np
import torch

from course_lib import Cluster, Results, each, run
from course_lib.costs import collective_seconds as library_seconds
from course_lib.costs import crossover_bytes as library_crossover
from course_lib.costs import hierarchical_all_reduce_seconds as two_levels_seconds
from course_lib.hardware import Link
from course_lib.measured import all_reduce_dgx
from exercises_tests.judging import Case, Mistake, asked, check, expect
from exercises_tests.seeds import drawn
from exercises_tests.values import (
    all_digits,
    amount,
    close,
    different,
    equal,
    is_number,
    on_ranks,
    plain,
    rounded,
    shown,
    versus,
)

DTYPES = ("float32", "int64", "float64", "bfloat16")
KNOWN = ("float32", "int64")  # dtypes that torch.full makes of a number without being told
LOST = "Digits were lost: send {dtype} as it is"


def in_place(dist: Any, answer: Any, mine: torch.Tensor, *more: Any) -> Any:
    returned = answer(dist, mine, *more)
    return mine, returned if isinstance(returned, torch.Tensor) else None


# fit_alpha_beta

SIZES = [8 * 2**power for power in range(28)]  # 8 B to 1 GiB
LINKS = ((5e-6, 1 / 50e9), (30e-6, 1 / 1.2e9), (1.5e-6, 1 / 400e9), (1e-3, 1 / 12e6))
EXACT = "without noise"


def measured_times(alpha: float, beta: float, noise: float, seed: int, sizes: list | None = None) -> list:
    """Return made-up measurements of alpha + beta * size, each off by a factor near 1: `noise` is its deviation."""
    draw = random.Random(seed)
    return [(alpha + beta * size) * draw.gauss(1, noise) for size in sizes or SIZES]


def _pair(got: Any) -> tuple[float, float] | None:
    """Return two finite numbers as Python's own, out of a list, a tuple, an array or a tensor; else None."""
    arrays = (np.ndarray, np.generic, torch.Tensor)
    got = got.tolist() if isinstance(got, arrays) else got
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        return None
    pair = [one.item() if isinstance(one, arrays) and math.prod(one.shape) == 1 else one for one in got]
    return tuple(map(float, pair)) if all(close(one, one) for one in pair) else None


def _percent(part: float) -> str:
    """Return a part of 1 in percent, with two digits that count."""
    return f"{float(f'{100 * part:.2g}'):,.9g} %"


def _far(got: float, want: float) -> str:
    """Return how far off a number is: a factor, where percents would be many."""
    ratio = got / want
    if 1 / 3 < ratio < 3 or ratio <= 0:
        return f"{_percent(abs(ratio - 1))} off"
    return f"{float(f'{max(ratio, 1 / ratio):.2g}'):,.9g} times too {'large' if ratio > 1 else 'small'}"


def _fits(answer: Any, alpha: float, beta: float, seconds: list, sizes: list, within: float, told: str) -> None:
    case = Case(label=f"{told} (alpha = {alpha:g} s, beta = {beta:.3g} s/byte)")
    got = answer(list(sizes), list(seconds))
    pair = _pair(got)
    case.expect(pair is not None, f"it returned {shown(got)}: return two numbers, (alpha, beta)", "form")
    a, b = pair
    case.expect(not (close(a, beta, 0.2) and close(b, alpha, 0.2)), "it returned (beta, alpha)", "swapped")
    case.expect(
        not close(b * beta, 1, 0.2),
        f"it returned {b:g} for beta, the bandwidth: beta is its inverse, in seconds per byte",
        "bandwidth",
    )
    off_a, off_b = abs(a / alpha - 1), abs(b / beta - 1)
    told_a = f"alpha came out as {a:.6g} s, {_far(a, alpha)}"
    told_b = f"beta came out as {b:.6g} s/byte, {_far(b, beta)}"
    case.expect(
        close(a, alpha, within) or sizes == sorted(sizes) or not close(a, seconds[0], 0.05),
        f"{told_a}: it is the first of the times, and the sizes are not sorted",
        "not-sorted",
    )
    few, why = False, "; exact times have an exact fit"
    if close(a, min(seconds), 1e-9):
        why += ". You returned the smallest of the times, which holds the time of its bytes as well"
    if told != EXACT:
        case.expect(
            close(a, alpha, within) or not close(b, beta, 3 * within) or off_a < 4 * within,
            f"{told_a}, while beta is nearly right: the largest sizes take thousands of times longer, and their errors "
            "drown the latency. Weigh by relative error: divide by the measured seconds",
            "largest-drown",
        )
        few = off_a < 4 * within and off_b < 4 * within
        why = ": a few of the times decide it. Give every size the same say: divide by the measured seconds" * few
    case.expect(close(a, alpha, within), told_a + why, "few-points" if few else "alpha")
    case.expect(close(b, beta, within), told_b + why, "few-points" if few else "beta")


MACHINES = (("h100_dgx", 4, 4, "four H100s of one machine"), ("a100_dgx", 2, 1, "two A100s in two machines"))
HELD_OUT = 0.15


def _halves(machine: str, gpus: int, per_node: int) -> tuple[list, list]:
    """Return every other measured size with its time, and those between."""
    rows = sorted((row.bytes, row.seconds) for row in all_reduce_dgx(machine, gpus, per_node))
    return rows[::2], rows[1::2]


def _foretells(answer: Any, machine: str, gpus: int, per_node: int, told: str) -> None:
    """Judge a fit to every other measured size by what it says of the sizes between."""
    given, kept = _halves(machine, gpus, per_node)
    case = Case(label=f"fitted to {len(given)} measured sizes of {told}")
    pair = _pair(answer())
    case.expect(pair is not None, "it returned no two numbers", "measured")
    off = sum(abs((pair[0] + pair[1] * size) / seconds - 1) for size, seconds in kept) / len(kept)
    told = f"the line misses the other {len(kept)} sizes by {_percent(off)} on average (alpha = {pair[0]:.3g} s, "
    told += f"beta = {pair[1]:.3g} s/byte); {_percent(HELD_OUT)} will do"
    case.at_most(off, HELD_OUT, told, "measured")


@check(exact=1, noise=2, measured=1)
def check_fit_alpha_beta(answer: Any, part: Any) -> str:
    exact, noisy = [], []
    for place, (alpha, beta) in enumerate(LINKS):
        sizes = SIZES[::-1] if place % 2 else SIZES
        exact.append((alpha, beta, measured_times(alpha, beta, 0.0, place, sizes), sizes, 1e-4, EXACT))
    seed = 100 * int(os.environ.get("COURSE_SEED", "0"))
    for place, (alpha, beta) in enumerate(LINKS * 2):
        sizes = SIZES[::-1] if place % 2 else SIZES
        seconds = measured_times(alpha, beta, 0.02, seed + place, sizes)
        noisy.append((alpha, beta, seconds, sizes, 0.05, "with 2 % noise"))
    for place, (alpha, beta) in enumerate(LINKS):
        seconds, most = measured_times(alpha, beta, 0.01, seed + 50 + place), len(SIZES) - 4
        for far in range(4):  # as far off as every hundredth time is
            seconds[far] = 1.06 * (alpha + beta * SIZES[far])
            seconds[most + far] = 0.94 * (alpha + beta * SIZES[most + far])
        noisy.append((alpha, beta, seconds, SIZES, 0.05, "with the 4 smallest and 4 largest times 6 % off"))
    cases = [(list(sizes), list(seconds)) for _, _, seconds, sizes, *_ in exact + noisy]
    cases += [tuple(map(list, zip(*_halves(*machine[:3])[0], strict=True))) for machine in MACHINES]
    answer = asked(answer, cases)
    part("exact")
    for one in exact:
        _fits(answer, *one)
    part("noise")
    for one in noisy:
        _fits(answer, *one)
    part("measured")
    for machine in MACHINES:
        _foretells(answer, *machine)
    return "exact without noise, within 5 % with it; measured sizes that it has not seen: within 15 % on average"


# choose_protocol

NCCL_RING = {"LL": (6.6e-6, 0.6e-6, 141e9), "LL128": (14e-6, 1.9e-6, 341e9), "Simple": (8.4e-6, 3.4e-6, 371e9)}
POST = {"telegram": (2e-4, 2e-4, 3e3), "letter": (0.1, 0.1, 1.5e5), "parcel": (0.4, 0.4, 4.5e8), "never": (1, 1, 1e8)}
RINGS = (  # what a ring of P may be taken for: a code, the steps, the bytes in a row as a share, and what is missed
    ("for-eight", lambda ranks: (14, 1.75), "on eight ranks it would be. Here a ring has {steps} hops, and each "
     "sends bytes / {ranks}"),
    ("one-lap", lambda ranks: (ranks - 1, (ranks - 1) / ranks), "in one lap it would be. An all-reduce goes round the "
     "ring twice, so there are {steps} hops"),
    ("p-steps", lambda ranks: (2 * ranks, 2), "it would be with P hops in a lap. A ring of P has P - 1, so there are "
     "{steps} in all"),
    ("whole-tensor", lambda ranks: (2 * (ranks - 1), 2 * (ranks - 1)), "it would be if each hop sent the whole "
     "tensor. A hop sends bytes / {ranks}"),
    ("bytes-once", lambda ranks: (2 * (ranks - 1), 1), "it would be if a link carried the tensor once. Each of {steps} "
     "hops sends bytes / {ranks}"),
    ("no-steps", lambda ranks: (0, 2 * (ranks - 1) / ranks), "it would be if only the start cost time. Each of {steps} "
     "hops costs its seconds"),
)  # fmt: skip


def _by_ring(size: float, protocols: dict, steps: float, share: float) -> dict[str, float]:
    return {name: start + steps * step + share * size / wide for name, (start, step, wide) in protocols.items()}


def _chosen(answer: Any, size: float, ranks: int, protocols: dict, label: str = "") -> None:
    steps = 2 * (ranks - 1)
    seconds = _by_ring(size, protocols, steps, steps / ranks)
    fastest = min(seconds, key=seconds.get)
    see = f"choose_protocol({size!r}, {ranks}, {protocols!r})".replace("inf", "math.inf")
    case = Case(label=f"for {amount(size)} bytes on {ranks} ranks{label}", see=see if len(see) < 150 else "")
    got = answer(size, ranks, dict(protocols))
    told = ", ".join(f"{name} {1e6 * taken:,.4g} µs" for name, taken in seconds.items())
    name = isinstance(got, str) and got in protocols
    case.expect(name, f"it returned {shown(got)}: return the name of one of {', '.join(protocols)}", "form")
    if close(seconds[got], seconds[fastest], 1e-12):
        return
    widest = max(protocols, key=lambda one: protocols[one][2])
    quickest = min(protocols, key=lambda one: protocols[one][0])
    why = ". It has the most bandwidth, but its start and its hops cost more than that saves" if got == widest else ""
    why = ". It starts first, but its bytes take longer" if got == quickest else why
    code = "by-bandwidth" if got == widest else "by-latency" if got == quickest else "value"
    for known, counted, words in RINGS:
        taken = _by_ring(size, protocols, *counted(ranks))
        if got == min(taken, key=taken.get):
            code, why = known, "; " + words.format(steps=steps, ranks=ranks)
            break
    case.expect(False, f"it chose {got}, and {fastest} is faster: {told}{why}", code)


@check(fastest=2, any_protocols=1)
def check_choose_protocol(answer: Any, part: Any) -> str:
    sizes = (2048, 10**9, 64, 0, 10**6, 3_400_000, 5_000_000, 3_700_000, 30_000_000)
    nccl = [(size, 8, NCCL_RING) for size in sizes]
    nccl += [(size, ranks, NCCL_RING) for size, ranks in ((2_000_000, 2), (3_000_000, 2), (10**7, 64), (3 * 10**7, 64))]
    others = [(size, 3, POST, " and four ways of another network") for size in (10, 800, 1500, 10**5, 10**7, 10**9)]
    twins = {"slow": (9.0, 0.0, 1e9), "one": (1.0, 0.5, 1e3), "twin": (1.0, 0.5, 1e3)}
    others += [
        (1000, 4, {"only": (1.0, 1.0, 1.0)}, " and one protocol"),
        (1000, 2, twins, " and two that are equally fast"),
        (10**6, 2, {"b": (2.0, 0.0, 1e9), "a": (1.0, 0.0, math.inf)}, " and a bandwidth without limit"),
    ]
    own = drawn("choose_protocol")
    made_up = {f"way {way}": (10.0 ** own.uniform(-6, -3), 10.0 ** own.uniform(-7, -5), 10.0 ** own.uniform(8, 11))
               for way in range(4)}  # fmt: skip
    others.append((own.randint(10**4, 10**7), own.randint(2, 16), made_up, " and four ways that were drawn"))
    answer = asked(answer, [(size, ranks, dict(protocols)) for size, ranks, protocols, *_ in nccl + others])
    part("fastest")
    for one in nccl:
        _chosen(answer, *one)
    part("any protocols")
    for one in others:
        _chosen(answer, *one)
    return "the fastest for 0 bytes to 1 GB on 2 to 64 ranks, of NCCL's three and of any others"


# diagnose

CAUSES = ("tcp", "detour", "missing ports", "network", "shared links", "healthy")
GOOD, DETOUR, TCP = "NET/IB/{card}/GDRDMA", "NET/IB/{card}", "NET/Socket/0"


def _log(cards: int, ways: list, kind: str = "IB", card: str = "mlx5_") -> str:
    """Return the log of a node of eight ranks that name `cards` cards each; channel c leaves the node by `ways[c]`."""
    names = " ".join(f"[{one}]{card}{one}:1/{kind}" for one in range(cards))
    using = f"NET/IB : Using {names} [RO]; OOB eth0:10.0.0.1<0>" if cards else "NET/Socket : Using [0]eth0:10.0.0.1<0>"
    lines = [f"node1:{41 + rank}:{41 + rank} [{rank}] NCCL INFO {using}" for rank in range(8)]
    for channel, way in enumerate(ways):
        begin = f"node1:{41 + channel % 8}:9{channel} [{channel % 8}] NCCL INFO Channel {channel:02d}/0 :"
        lines.append(f"{begin} {channel % 8}[{channel % 8}] -> {(channel + 1) % 8}[{(channel + 1) % 8}] via P2P/CUMEM")
        over = way.format(card=channel % max(cards, 1))
        lines.append(f"{begin} {channel % 8}[{channel % 8}] -> {8 + channel % 8}[{channel % 8}] [send] via {over}")
    return "\n".join(lines) + "\n"


def _causes(ways: list, cards: int, pair: float, sixteen: float) -> list[str]:
    """Return all causes that fit, the first one first."""
    fits = (TCP in ways, DETOUR in ways, cards < 8, pair < 40, sixteen < 320)
    return [name for name, fit in zip(CAUSES, fits, strict=False) if fit] or ["healthy"]


def _diagnosed(answer: Any, told: str, cards: int, ways: list, pair: float, sixteen: float, **more: str) -> None:
    want, *later = _causes(ways, cards, pair, sixteen)
    case = Case(label=f"for a log with {told}")
    got = answer(_log(cards, ways, **more), pair, sixteen)
    rates = f"pair {pair:g} GB/s, sixteen {sixteen:g}"
    named = isinstance(got, str) and got in CAUSES
    case.expect(named, f"it returned {shown(got)}: return one of {', '.join(CAUSES)}", "form")
    if got == want:
        return
    why, code = "", "value"
    bad = {"tcp": TCP, "detour": DETOUR}.get(want)
    if got in later:
        why, code = f". {got} fits as well, but {want} stands higher in the table", "order"
    elif got == "detour" and want not in ("tcp", "detour"):
        why, code = ". Only channels with `via NET/` leave the node; those with `via P2P` need no GDRDMA", "inside"
    elif bad and set(ways) - {TCP, DETOUR}:
        code = "one-bad"
        why = f". Of the {len(ways)} channels to other nodes {ways.count(bad)} is bad, and one is enough"
    elif want == "missing ports" and cards:
        why, code = f". {cards} different cards are named, but each of them by all 8 ranks", "named-often"
    elif (got, want) in (("network", "healthy"), ("shared links", "healthy")):
        why, code = ". At 40 and at 320 GB/s, 80 % of the ports, a cluster is still healthy", "limit"
    case.expect(False, f"({rates}) it returned {got}; it is {want}{why}", code)


@check(log=2, rates=1)
def check_diagnose(answer: Any, part: Any) -> str:
    own, good = drawn("diagnose"), [GOOD] * 8
    few, rate = own.randint(1, 7), own.randint(5, 39)
    logs = [
        ("a channel over TCP", 8, [*good[:5], TCP, *good[:2]], 4, 6),
        ("the first channel over TCP", 8, [TCP, *good[:7]], 4, 6),
        ("a channel without GDRDMA", 8, [*good[:3], DETOUR, *good[:4]], 46, 330),
        ("the first channel without GDRDMA", 8, [DETOUR, *good[:7]], 46, 330),
        ("the last channel without GDRDMA", 8, [*good[:7], DETOUR], 46, 330),
        ("no card, and TCP", 0, [TCP] * 2, 2.5, 2.4),
        ("TCP and the detour, of 2 cards", 2, [DETOUR, TCP], 3, 5),
        ("the detour, of 1 card", 1, [DETOUR] * 4, 31, 31),
        ("7 cards", 7, good, 47, 330),
        ("6 cards", 6, good, 47, 280),
        ("1 card and a slow pair", 1, good[:2], 24, 24),
        ("7 cards over RoCE", 7, good, 47, 330, {"kind": "RoCE", "card": "bnxt_re"}),
        (f"{few} cards, a number that was drawn", few, good, 47, 46 * few),
    ]
    rates = [
        ("nothing wrong", 8, good, 47, 371),
        ("nothing wrong, over RoCE", 8, good, 46, 350, {"kind": "RoCE"}),
        ("nothing wrong, and rates at the limits", 8, good, 40, 320),
        ("nothing wrong, but a pair just below its limit", 8, good, 39.5, 340),
        ("nothing wrong, but sixteen just below their limit", 8, good, 47, 319.5),
        ("nothing wrong, but a slow pair", 8, good, 24, 160),
        ("nothing wrong, but a slow pair alone", 8, good, rate, 340),
        ("nothing wrong, but slow sixteen", 8, good, 47, 190),
    ]
    every = [(*case[:5], case[5] if len(case) > 5 else {}) for case in logs + rates]
    given = [(_log(cards, ways, **more), pair, sixteen) for _, cards, ways, pair, sixteen, more in every]
    answer = asked(answer, given)
    part("log")
    for *case, more in every[: len(logs)]:
        _diagnosed(answer, *case, **more)
    part("rates")
    for *case, more in every[len(logs) :]:
        _diagnosed(answer, *case, **more)
    return f"the cause from {len(every)} logs and rates, and the first where several fit"


# rails_seconds: tests/test_ch10_the_network.py holds the formula against the simulator


def _link(latency: float, bandwidth: float) -> Link:
    return Link("a link", bandwidth, latency, "of this check")


NDR, NVLINK = _link(14e-6, 50e9), _link(3.4e-6, 450e9)
FREE = (0.0, math.inf)
PROBES = (
    ("latency of `fast`", "hops inside a node", (1.0, math.inf), FREE),
    ("latency of `slow`", "hops from node to node", FREE, (1.0, math.inf)),
    ("bytes over `fast`", "bytes in a row inside a node", (0.0, 1.0), FREE),
    ("bytes over `slow`", "bytes in a row through one port", FREE, (0.0, 1.0)),
)


def _priced(answer: Any, nodes: int, per_node: int, size: int) -> None:
    for _, counts, fast, slow in PROBES:
        got = plain(answer(nodes, per_node, size, _link(*fast), _link(*slow)))
        want = two_levels_seconds(nodes, per_node, size, _link(*fast), _link(*slow))
        case = Case(label=f"{nodes} node{'s' * (nodes > 1)} of {per_node} with S = {size:,} bytes:")
        case.expect(is_number(got), f"it returned {shown(got)}: return a number of seconds", "form")
        if close(got, want, 1e-9, 1e-12):
            continue
        code, why = _why(got, nodes, per_node, size, fast, slow)
        case.expect(False, f"your formula counts {got:,.6g} {counts}; there are {want:,.6g}{why}", code)
    got = plain(answer(nodes, per_node, size, NVLINK, NDR))
    want = two_levels_seconds(nodes, per_node, size, NVLINK, NDR)
    case = Case(label=f"{nodes} nodes of {per_node} with S = {size:,} bytes, 450 and 50 GB/s, 3.4 and 14 µs:")
    told = f"it returned {shown(got)} s; the simulator takes {want:.6g} s"
    levels = ((1, per_node, size), (nodes, 1, size / per_node))
    longer = max(two_levels_seconds(*level, NVLINK, NDR) for level in levels)
    alone = close(got, longer, 1e-9) and not close(longer, want, 1e-9)
    why = "That is the longer level alone, max(inside, across): the phases take turns, because each needs the sums of "
    case.expect(not alone, f"{told}. {why}the one before, so add both", "take-turns")
    case.expect(close(got, want, 1e-9), told, "value")


def _why(got: float, nodes: int, per_node: int, size: int, fast: tuple, slow: tuple) -> tuple[str, str]:
    """Return a code and words for what leads to a wrong count, as far as it is known."""
    inside = slow == FREE
    ranks, counts_bytes = (per_node if inside else nodes), 1.0 in (fast[1], slow[1])
    each = size / per_node / (1 if inside else nodes) if counts_bytes else 1
    if ranks == 1:
        return "nothing-to-send", f": {'one GPU in each node sends' if inside else 'one node sends'} nothing there"
    known = [
        ("one-way", (ranks - 1) * each, "twice: a reduce-scatter before and an all-gather after"),
        ("p-steps", 2 * ranks * each, "a ring of P has P - 1 hops each way, not P"),
        ("flat", 2 * (nodes * per_node - 1) * (size / nodes / per_node if counts_bytes else 1), "that is one ring "
         "through all ranks; here a ring goes through the ranks of a node, and one through a place in all nodes"),
        ("left-out", 0.0, "this level is left out"),
    ]  # fmt: skip
    if counts_bytes:
        whole = 2 * (ranks - 1) * size / (1 if inside else nodes)
        known += [("whole-tensor", 2 * (ranks - 1) * size, "a hop carries a piece, not the whole tensor")]
        if not inside:
            known.insert(0, ("one-port", whole, "each rank brings the piece that the reduce-scatter left it, "
                             "S / per_node, and each rail has a port of its own"))  # fmt: skip
            known.insert(1, ("not-cut", 2 * (nodes - 1) * size / per_node,
                             "a ring of N cuts its S / per_node into N parts"))  # fmt: skip
    for code, value, words in known:
        if close(got, value, 1e-9, 1e-12):
            return code, f": {words}"
    return "value", ""


@check(value=2, edges=1)
def check_rails_seconds(answer: Any, part: Any) -> str:
    own = drawn("rails_seconds")
    nodes, per_node = own.randint(2, 9), own.randint(2, 9)
    value = [(2, 4, 9600), (8, 8, 67_108_864), (3, 5, 30_000)]
    value.append((nodes, per_node, 4 * nodes * per_node * own.randint(100, 10_000)))
    edges = [(1, 8, 9600), (4, 1, 9600), (1, 1, 9600)]
    links = [(_link(*fast), _link(*slow)) for _, _, fast, slow in PROBES] + [(NVLINK, NDR)]
    answer = asked(answer, [(*sizes, *pair) for sizes in value + edges for pair in links])
    part("value")
    for sizes in value:
        _priced(answer, *sizes)
    part("edges")
    for sizes in edges:
        _priced(answer, *sizes)
    return "equal to the simulator on 2 to 8 nodes; also for one node, and for one GPU a node"


# hierarchical_all_reduce


def _see(call: str, ranks: int, real: bool = False) -> str:
    return f"run(lambda dist: {call}, ranks={ranks}{'' if real else ', on=Cluster()'})  # where rank r has r"


def _full(shape: tuple, dtype: str) -> str:
    """Return the source of a tensor that shows whose it is; whole or not as its dtype."""
    point, kind = ("" if dtype == "int64" else ".0"), ("" if dtype in KNOWN else f", dtype=torch.{dtype}")
    return f"torch.full({shape}, 1{point} * dist.get_rank(){kind})"


def _summed(
    answer: Any, ranks: int, per_node: int, elements: int, dtype: str = "float32", digits: bool = False, **on: Any
) -> Results:
    call = f"(t := {_full((elements,), dtype)}, hierarchical_all_reduce(dist, t, {per_node}))[0]"
    see = _see(call, ranks, on.get("real", False))
    case = Case(ranks, f"with {per_node} on each node{f' and {dtype}' if digits else ''}", see=see, **on)
    given = (all_digits if digits else different)(ranks, (elements,), dtype)
    total, says = sum(given), "the sum over all ranks is"
    trace = case.run(in_place, answer, each(given), per_node)
    for rank, (mine, back) in enumerate(trace):
        first, differs = rank // per_node * per_node, versus(mine, says, total)
        node, across = sum(given[first : first + per_node]), sum(given[rank % per_node :: per_node])
        left = equal(mine, given[rank]) and equal(back, total)
        pairs = zip(mine.view(-1).tensor_split(per_node), total.tensor_split(per_node), strict=True)
        pieces = [piece for piece, pair in enumerate(pairs) if equal(*pair)] if mine.shape == total.shape else []
        alone = f"is right in piece {rank % per_node} alone, of {per_node}: each rank of a node has a piece of the sum"
        mistakes = [
            Mistake("not-in-place", left, f"{differs}. The function returned the sum: write into the tensor"),
            Mistake("not-gathered", equal(mine, given[rank]) and back is None, f"{differs}. It still holds what this "
                    "rank brought: write the sum's pieces into it, by an all-gather inside the node"),
            Mistake("only-the-node", node, f"{differs}. It is the sum over its own node"),
            Mistake("only-across", across, f"{differs}. It is the sum over the ranks at its place in each node"),
            Mistake("not-gathered", pieces == [rank % per_node], f"{alone}, so hand them round by an all-gather"),
            Mistake("digits", rounded(mine, total), f"{differs}. {LOST.format(dtype=dtype)}"),
        ]
        case.same(mine, total, f"the tensor on rank {rank}", *mistakes, says=says)
    return trace


@check(value=1, any_nodes=1, node_edge=1, every_port=1, rounds=1)
def check_hierarchical_all_reduce(answer: Any, part: Any) -> str:
    part("value")
    for ranks, per_node in ((4, 2), (6, 3)):
        _summed(answer, ranks, per_node, 12)
    _summed(answer, 4, 2, 8, real=True)
    part("any nodes")
    for ranks, per_node in ((1, 1), (3, 3), (4, 1), (6, 2)):
        _summed(answer, ranks, per_node, 24)
    _summed(answer, 4, 2, 4, "int64")
    for dtype in DTYPES:
        _summed(answer, 4, 2, 4, dtype, digits=True)
    part("node edge")
    told = "with a tensor of 256 bytes, {seen} bytes went one after the other through the one port of a node; 256 will "
    told += "do: add up inside each node first, by a reduce-scatter, so that each rank carries only its piece of a sum"
    _crosses(answer, 1, told, "node-edge")
    part("every port")
    told = "with a port for each rank, {seen} bytes went through the busiest port; 64 will do: reduce-scatter inside "
    told += "the node, so that each of its 4 ranks carries a 4th of the sum to the other node"
    _crosses(answer, 4, told, "one-port")
    _four_nodes(answer)
    part("rounds")
    kind = {"nodes": 4, "gpus_per_node": 2, "bandwidth": math.inf, "latency": 0, "nic_bandwidth": math.inf}
    cluster = ", ".join(f"{name}={value}" for name, value in kind.items()).replace("=inf", "=math.inf")
    see = f"run(hierarchical_all_reduce, torch.ones(8), 2, ranks=8, on=Cluster({cluster}, nic_latency=1)).seconds"
    told = "with 4 nodes, {seen} messages follow one another from node to node; 2 (N - 1) = {bound} will do: one "
    told += "all-reduce among the ranks of a place"
    seconds = _summed(answer, 8, 2, 8, on=Cluster(**kind, nic_latency=1)).seconds
    Case(8, see=see).at_most(seconds, 6, told, "rounds")
    return "sums on 1 to 8 ranks · one tensor per node leaves it, by all its ports, in 2 (N - 1) rounds"


def _crosses(answer: Any, nics: int, sentence: str, code: str) -> None:
    """Judge the bytes in a row that leave a node, up to a tenth more than have to, of a tensor of 256.

    Inside a node everything is free; a byte takes one second through a network port.
    """
    kind = {"nodes": 2, "gpus_per_node": 4, "bandwidth": math.inf, "latency": 0, "nic_bandwidth": 1, "nic_latency": 0}
    cluster = ", ".join(f"{name}={value}" for name, value in kind.items()).replace("=inf", "=math.inf")
    see = f"run(hierarchical_all_reduce, torch.ones(64), 4, ranks=8, on=Cluster({cluster}, nics={nics})).seconds"
    trace = _summed(answer, 8, 4, 64, on=Cluster(**kind, nics=nics))
    seconds = trace.seconds
    if nics == 1 and seconds == 4 * 256:
        first = next(event for event in trace.of(0) if event.sent)  # takes no time if it stays inside
        sentence = "with a tensor of 256 bytes, {seen} bytes went one after the other through the one port of a node; "
        if first.end > first.start:
            code = "across-first"
            sentence += "256 will do: you summed across the nodes first, when each of the 4 ranks of a node still had "
            sentence += "a whole tensor. Swap the groups: first a reduce-scatter inside the node, then across it"
        else:
            sentence += "256 will do: the 4 ranks of a node each sent the whole sum of their node. Add up inside it by "
            sentence += "a reduce-scatter, so that each rank carries only its piece of the sum"
    Case(8, "on two nodes", see=see).at_most(seconds, 1.1 * 256 / nics, sentence, code)


def _four_nodes(answer: Any) -> None:
    """Judge the bytes in a row through the busiest port of four nodes of two, where a tensor has 128 bytes."""
    kind = {"nodes": 4, "gpus_per_node": 2, "bandwidth": math.inf, "latency": 0, "nic_bandwidth": 1, "nic_latency": 0}
    cluster = ", ".join(f"{name}={value}" for name, value in kind.items()).replace("=inf", "=math.inf")
    see = f"run(hierarchical_all_reduce, torch.ones(32), 2, ranks=8, on=Cluster({cluster}, nics=2)).seconds"
    seconds = _summed(answer, 8, 2, 32, on=Cluster(**kind, nics=2)).seconds
    told = "with 128 bytes and a port for each rank, {seen} bytes went through the busiest port; 96 will do: "
    told += "each rank holds 64 bytes of its node's sum. If it sends all of them to the 3 other nodes, as in an "
    told += "all-gather, that makes 192; an all-reduce on the rail sends quarters, 2 · 3 · 16 = 96"
    Case(8, "on four nodes of 2", see=see).at_most(seconds, 1.1 * 96, told, "gathered")


# collective_seconds, crossover_bytes: tests/test_collective_costs.py holds the library's figures against the simulator

ASKED = {
    "naive": (("broadcast", "naive"), ("all_reduce", "naive")),
    "tree": (("broadcast", "tree"), ("all_reduce", "tree")),
    "ring": (("all_gather", "ring"), ("reduce_scatter", "ring"), ("all_reduce", "ring")),
    "pairwise": (("all_to_all", "pairwise"),),
}


NEARLY_0 = 1e-21  # seconds a byte that no digit shows; an answer may divide by it, as by a bandwidth


def program(dist: Any, kind: str, algorithm: str, elements: int) -> None:
    """Run one collective over a tensor of so many floats by the algorithm that is asked for."""
    rank, ranks, tensor = dist.get_rank(), dist.get_world_size(), torch.ones(elements)
    pieces = list(tensor.chunk(ranks))
    if algorithm == "naive":
        others = range(1, ranks)
        if kind == "all_reduce":
            [dist.recv(tensor.clone(), other) for other in others] if rank == 0 else dist.send(tensor, 0)
        [dist.send(tensor, other) for other in others] if rank == 0 else dist.recv(tensor, 0)
    elif algorithm == "tree":
        if kind == "all_reduce":
            dist.reduce(tensor, 0)
        dist.broadcast(tensor, 0)
    elif kind == "all_reduce":
        dist.all_reduce(tensor)
    elif kind == "all_to_all":
        dist.all_to_all([torch.empty_like(piece) for piece in pieces], pieces)
    elif kind == "all_gather":
        dist.all_gather(pieces, pieces[rank].clone())
    else:
        dist.reduce_scatter(torch.empty_like(pieces[0]), pieces)


SIZE = 1680  # divisible by 4 bytes times every number of ranks that is asked for
COSTS = ((1.0, NEARLY_0), (0.0, 1.0), (5e-6, 1e-9))


def _costs(answer: Any, kind: str, algorithm: str, ranks: int) -> None:
    size = SIZE
    for alpha, beta in COSTS:
        if alpha and beta > NEARLY_0 and ranks == 7:
            link = Cluster(latency=alpha, bandwidth=1 / beta)
            want = run(program, kind, algorithm, size // 4, ranks=ranks, on=link).seconds
        else:
            want = library_seconds(kind, ranks, size, alpha, 1 / beta, algorithm)
        got = plain(answer(kind, ranks, size, alpha, beta, algorithm))
        if close(got, want, 1e-9, 1e-15):
            continue
        code, told = "value", f"takes {shown(got)} s; in the simulator it takes {want:.6g} s"
        if beta == NEARLY_0:
            counted = f"{round(got, 9):g}" if isinstance(got, float) else shown(got)
            code, told = "messages", f"counts {counted} messages one after the other (alpha = 1, beta = {NEARLY_0})"
            told += f"; it takes {want:g}"
            below = math.floor(math.log2(ranks)) * (2 if kind == "all_reduce" else 1)
            if kind == "all_reduce" and close(got, want / 2):
                code, told = "one-way", f"{told}: an all-reduce adds up and then hands the sum back"
            elif algorithm == "tree" and isinstance(got, (int, float)) and below <= got < want:
                code, told = "floor", f"{told}: ceil(log2 P) rounds, where P is no power of two one more"
        elif alpha == 0:
            code, told = "bytes", f"counts {shown(got)} bytes one after the other (S = {size:,}, alpha = 0, beta = 1)"
            told += f"; it takes {want:g}"
            if algorithm in ("ring", "pairwise") and close(got, want * ranks):
                code, told = "whole-tensor", f"{told}: each message carries one piece, S / P"
        see = f"collective_seconds({kind!r}, {ranks}, {size}, {alpha!r}, {beta!r}, {algorithm!r})"
        expect(False, f"{kind} by {algorithm} {on_ranks(ranks)} {told}", code, see)


@check(naive=1, tree=1, ring=1, pairwise=1)
def check_collective_seconds(answer: Any, part: Any) -> str:
    divide = [ranks for ranks in range(2, 70) if SIZE // 4 % ranks == 0 and ranks not in (4, 7)]
    sizes = (4, 7, 1, drawn("collective_seconds").choice(divide))
    every = [(kind, algorithm, ranks) for cases in ASKED.values() for kind, algorithm in cases for ranks in sizes]
    answer = asked(answer, [(kind, ranks, SIZE, *cost, name) for kind, name, ranks in every for cost in COSTS])
    for name, cases in ASKED.items():
        part(name)
        for kind, algorithm in cases:
            for ranks in sizes:
                _costs(answer, kind, algorithm, ranks)
    return "equal to the simulator on 1, 4 and 7 ranks, for eight collectives"


def _wrong_crossovers(ranks: int) -> list[tuple]:
    """Return a code, the bytes over alpha / beta to which a mistake leads, and words for it; None where to none."""

    def crossing(rounds: float, steps: int) -> float | None:
        return (steps - rounds) / (rounds - steps / ranks) if rounds != steps / ranks else None

    rounds, steps = math.ceil(math.log2(ranks)), ranks - 1
    floor = "a tree takes ceil(log2 P) rounds: round log2 up"
    both = "an all-reduce by tree and one by ring both go two ways: count both ways in both, or one in both"
    wrong = [
        ("floor", crossing(math.floor(math.log2(ranks)), steps), floor),
        ("floor", crossing(math.log2(ranks), steps), floor),
        ("p-steps", crossing(rounds, ranks), "a ring takes P - 1 messages, not P"),
        ("one-way", crossing(rounds, 2 * steps), both),
        ("one-way", crossing(2 * rounds, steps), both),
    ]
    right = crossing(rounds, steps)
    return [one for one in wrong if one[1] is not None and not close(one[1], right, 1e-6)]


@check(value=2, few_ranks=1)
def check_crossover_bytes(answer: Any, part: Any) -> str:
    own = drawn("crossover_bytes")
    links = ((8, 5e-6, 1 / 50e9), (64, 3e-6, 1e-9), (4, 1.0, 1.0), (7, 2e-6, 4e-9), (1000, 1e-5, 1e-8))
    links = (*links, (own.randint(5, 400), own.uniform(1e-6, 9e-6), own.uniform(1e-10, 9e-9)))
    answer = asked(answer, [*links, *((ranks, 5e-6, 1e-9) for ranks in (1, 2, 3))])
    part("value")
    for ranks, alpha, beta in links:
        want = library_crossover(ranks, alpha, 1 / beta)
        got = plain(answer(ranks, alpha, beta))
        case = Case(ranks, see=f"crossover_bytes({ranks}, {alpha!r}, {beta!r})")
        number = is_number(got) and 0 <= got < math.inf
        case.expect(number, f"it returned {shown(got)}: return a number of bytes", "form")
        tree, ring = (library_seconds("all_reduce", ranks, got, alpha, 1 / beta, name) for name in ("tree", "ring"))
        told = f"with alpha = {alpha:g} and beta = {beta:.3g} it returned {got:,.6g} bytes"
        for code, factor, says in _wrong_crossovers(ranks):
            case.expect(factor is None or not close(got, factor * alpha / beta, 1e-6), f"{told}: {says}", code)
        case.expect(
            close(got, want, 1e-6),
            f"{told}, for which a tree takes {tree:.4g} s and a ring {ring:.4g} s: at the crossover both take the same",
            "value",
        )
    part("few ranks")
    for ranks in (1, 2, 3):
        got = plain(answer(ranks, 5e-6, 1e-9))
        Case(ranks, see=f"crossover_bytes({ranks}, 5e-6, 1e-9)").expect(
            close(got, 0.0),
            f"it returned {shown(got)}: a ring takes no more messages than a tree there, so it is never slower and the "
            "crossover is 0",
            "few-ranks",
        )
    return "tree and ring take the same time on 4 to 1,000 ranks · 0 on up to three"


# in_network_seconds: tests/test_collective_costs.py holds the library's figures against the simulator


SWITCHES = ((0.0, 1.0, "bytes"), (1.0, math.inf, "latencies"), (3.4e-6, 450e9, "s"))


def _added_in_the_switch(answer: Any, kind: str, ranks: int) -> None:
    for latency, bandwidth, counts in SWITCHES:
        size = 8400
        want = library_seconds(kind, ranks, size, latency, bandwidth, "in_network")
        got = plain(answer(kind, ranks, size, latency, bandwidth))
        see = f"in_network_seconds({kind!r}, {ranks}, {size}, {latency!r}, {bandwidth!r})".replace("inf", "math.inf")
        case = Case(ranks, f"{kind} with S = {size:,} bytes", see=see)
        if close(got, want, 1e-9, 1e-15):
            continue
        case.expect(is_number(got), f"came out as {shown(got)}: return a number of seconds", "form")
        code, why = "value", ""
        if ranks == 1:
            code, why = "one-rank", ": one rank sends nothing"
        elif counts == "latencies":
            code, why = "latencies", ": there is one trip to the switch and back, whatever P is"
        elif counts == "bytes" and close(got, 2 * want):
            code, why = "twice", ": the sum comes down while the tensor goes up, so the two don't add up"
        elif counts == "bytes" and kind == "all_reduce" and close(got, 2 * (ranks - 1) / ranks * size):
            code, why = "ring", ": that is what a ring sends; to a switch that adds, a rank sends its tensor once"
        elif counts == "bytes" and kind != "all_reduce" and close(got, size):
            code, why = "own-piece", ": that is S, as in an all_reduce. A rank has its own piece, or need not send it"
        case.expect(False, f"came out as {got:,.6g} {counts}; it should be {want:,.6g}{why}", code)


@check(all_reduce=1, others=1)
def check_in_network_seconds(answer: Any, part: Any) -> str:
    kinds = ("all_reduce", "all_gather", "reduce_scatter")
    sums = [("all_reduce", ranks) for ranks in (8, 2)]
    others = [(kind, ranks) for kind in kinds[1:] for ranks in (8, 3)]
    own = drawn("in_network_seconds")
    others += [(kind, own.choice([ranks for ranks in range(4, 70) if 2100 % ranks == 0])) for kind, _ in others[::2]]
    others += [(kind, 1) for kind in kinds]  # last: else S for every kind would hear of one rank alone
    answer = asked(answer, [(*one, 8400, *switch[:2]) for one in sums + others for switch in SWITCHES])
    part("all reduce")
    for one in sums:
        _added_in_the_switch(answer, *one)
    part("others")
    for one in others:
        _added_in_the_switch(answer, *one)
    return "equal to the simulator on 1 to 8 ranks, for three collectives"


# congested


def _busiest(answer: Any, traffic: list, links: dict, label: str) -> None:
    loads = {name: sum(size for route, size in traffic if name in route) for name in links}
    seconds = {name: loads[name] / links[name] for name in links}
    most = max(seconds, key=seconds.get)
    case = Case(label=label)
    got = answer([(tuple(route), size) for route, size in traffic], dict(links))
    pair = isinstance(got, (tuple, list)) and len(got) == 2 and got[0] in list(links) and is_number(plain(got[1]))
    case.expect(pair, f"it returned {shown(got)}: return the name of a link and its seconds", "form")
    name, taken = got[0], plain(got[1])
    most_bytes, slowest = max(loads, key=loads.get), min(links, key=links.get)
    why, code = "", "value"
    if not close(seconds[name], seconds[most], 1e-12):
        if name == most_bytes:
            why, code = ". It carries the most bytes, but it is faster too: divide by the bandwidth", "most-bytes"
        elif name == slowest:
            why, code = ". It is the slowest link, but little goes over it", "slowest-link"
        told = f"it named {name}, busy for {seconds[name]:.4g} s; {most} is busy for {seconds[most]:.4g} s{why}"
        case.expect(False, told, code)
    one = max(size / links[most] for route, size in traffic if most in route)
    told = f"it says that {name} is busy for {taken:.4g} s; {amount(loads[name])} bytes go over it, which take "
    told += f"{seconds[most]:.4g} s"
    case.expect(close(taken, seconds[most], 1e-9) or not close(taken, one, 1e-9) or close(one, seconds[most], 1e-9),
                f"{told}. That is its largest message alone: add up all of them", "largest-alone")  # fmt: skip
    first = sum(size for route, size in traffic if route[0] == name) / links[name]
    case.expect(close(taken, seconds[most], 1e-9) or not close(taken, first, 1e-9),
                f"{told}. It counts a message on the first link of its route alone: count it on every one", "one-link")
    case.expect(close(taken, seconds[most], 1e-9), told, "seconds")


@check(bottleneck=2, seconds=1)
def check_congested(answer: Any, part: Any) -> str:
    pod = {"port a": 50.0, "port b": 50.0, "up": 100.0, "down": 100.0}
    fat = {"slow": 1.0, "wide": 10.0, "idle": 0.5}
    both = [(("port a", "up", "down"), 100.0), (("port b", "up", "down"), 100.0), (("port b",), 30.0)]
    cases = [
        ([(("port a",), 100.0)], pod, "with one message"),
        (both, pod, "with two ports that share a link"),
        ([(("slow",), 3.0), (("wide",), 40.0), (("idle",), 1.0)], fat, "with unequal links"),
        ([(("slow", "wide"), 2.0), (("wide",), 15.0), (("wide",), 15.0)], fat, "with many small messages"),
        (both * 3, pod, "with six messages over one link"),
    ]
    own = drawn("congested")
    wide = {name: float(own.randint(10, 90)) for name in pod}
    some = [(tuple(own.sample(list(pod), own.randint(1, 3))), float(own.randint(1, 500))) for _ in range(7)]
    cases.append((some, wide, "with seven messages that were drawn"))
    answer = asked(answer, [([(tuple(route), size) for route, size in one], dict(links)) for one, links, _ in cases])
    part("bottleneck")
    for case in cases[:-2]:
        _busiest(answer, *case)
    part("seconds")
    for case in cases[-2:]:
        _busiest(answer, *case)
    return "finds the busiest link, and how long it is busy"
