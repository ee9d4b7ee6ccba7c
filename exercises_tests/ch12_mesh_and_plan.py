"""Checks of chapter 12: groups of a mesh, axes on links, attention in a ring, a step on two axes, and plans."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch.nn.functional import gelu

from course_lib import Results, each
from course_lib.engine.storages import Alive
from course_lib.hardware import DGX_A100, DGX_H100, Node
from course_lib.models import MODELS, ModelShape
from course_lib.planning import Layout, groups, layout_memory, layout_time
from exercises_tests.judging import STEPS, Case, Mistake, alone, check
from exercises_tests.seeds import drawn
from exercises_tests.values import close, draw, is_number, near, plain, shown

EXACT = 1e-10  # a few dozen sums of float64 of about 1, in another order


def returned(answer: Any, cases: list) -> list:
    """Beside the answer: what it returns for each case, or the name and the words of the ValueError that it raises."""
    found = []
    for args, kwargs in cases:
        try:
            found.append(("returned", answer(*args, **kwargs)))
        except ValueError as error:
            found.append(("ValueError", str(error)))
    return found


def asked(answer: Any, cases: list) -> list:
    """Return what the answer returned for these cases of (arguments, named arguments), all asked in one process."""
    return [(how, plain(what)) for how, what in alone(returned, answer, cases)]


def value_of(case: Case, found: tuple) -> Any:
    """Return what came back; an answer that refuses a case that it should answer is wrong."""
    how, what = found
    words = "" if how == "returned" else what
    case.expect(how == "returned", f"it raised ValueError: {words}", "refused")
    return what


# mesh_groups

MESHES = (
    (8, {"tp": 2, "pp": 2, "dp": 2}),
    (24, {"tp": 2, "cp": 3, "dp": 4}),
    (6, {"data": 3, "model": 2}),
    (4, {"tp": 4}),
    (4, {"tp": 1, "dp": 4}),
)


def _sorted(found: Any) -> Any:
    """Return groups as sorted lists, where they are lists of lists of ranks."""
    try:
        return {axis: sorted([int(rank) for rank in group] for group in every) for axis, every in found.items()}
    except (TypeError, ValueError, AttributeError):
        return found


@check(groups=3, refuses=1)
def check_mesh_groups(answer: Any, part: Any) -> str:
    bad = ((16, {"tp": 4, "dp": 3}), (12, {"tp": 4, "pp": 2, "dp": 3}))
    own = {axis: drawn(f"mesh_groups {axis}").randint(2, 6) for axis in ("tp", "pp", "dp")}
    meshes = (*MESHES, (math.prod(own.values()), own))
    found = asked(answer, [((ranks,), axes) for ranks, axes in (*meshes, *bad)])
    part("groups")
    for (ranks, axes), one in zip(meshes, found, strict=False):
        told = ", ".join(f"{axis}={size}" for axis, size in axes.items())
        case = Case(label=f"mesh_groups({ranks}, {told}):", see=f"mesh_groups({ranks}, {told})")
        got = value_of(case, one)
        case.expect(isinstance(got, dict) and got.keys() == axes.keys(),
                    f"it returned {shown(got)}: return a dict with a list of groups for each axis", "form")  # fmt: skip
        want = groups(ranks, list(axes.items()))
        turned = groups(ranks, list(axes.items())[::-1])
        blocks = {axis: [list(range(first, first + size)) for first in range(0, ranks, size)]
                  for axis, size in axes.items()}  # fmt: skip
        got = _sorted(got)
        for axis in axes:
            case.same(got[axis], sorted(want[axis]), f"the groups of {axis}",
                Mistake("outermost-first", sorted(turned[axis]), "are those of a mesh whose last axis is the "
                        "innermost: along the first axis named, neighbours are next to each other"),
                Mistake("blocks", sorted(blocks[axis]), "are ranks next to each other: neighbours along this axis are "
                        "as far apart as the product of the axes before it"),
                Mistake("one-group", got[axis] in want[axis] or len(got[axis]) < len(want[axis]),
                        f"are too few: there are {len(want[axis])}, and each rank is in one of them"),
            )  # fmt: skip
    part("refuses")
    for (ranks, axes), (how, what) in zip(bad, found[len(meshes) :], strict=True):
        case = Case(label=f"for {ranks} ranks and axes {axes}, whose product is {math.prod(axes.values())},")
        case.expect(how == "ValueError", f"it returned {shown(what)}: raise ValueError", "no-refusal")
    return "every rank in one group of each axis, on 1 to 3 axes · a product that is not the ranks is refused"


# place_axes


NVLINK, PORT = 370.0, 50.0  # GB/s that a rank sends inside its node, and out of it


def leaving(order: Any, sizes: dict, per_node: int) -> dict[str, int]:
    """Return how many ranks of each axis have the next of their group in another node."""
    found, stride = {}, 1
    for axis in order:
        found[axis] = 0
        for rank in range(math.prod(sizes.values())):
            place = rank // stride % sizes[axis]
            there = rank + ((place + 1) % sizes[axis] - place) * stride
            found[axis] += rank // per_node != there // per_node
        stride *= sizes[axis]
    return found


def seconds_in_order(order: Any, sizes: dict, traffic: dict, per_node: int) -> float:
    """Return the seconds of all axes in turn: an axis with one hop out of a node is as slow as a port."""
    out = leaving(order, sizes, per_node)
    return sum(traffic[axis] / (PORT if out[axis] else NVLINK) for axis in sizes)


def bytes_out(order: Any, sizes: dict, traffic: dict, per_node: int) -> float:
    """Return the GB that leave their node, summed over all ranks, which is not what an order costs."""
    out = leaving(order, sizes, per_node)
    return sum(traffic[axis] * out[axis] for axis in sizes)


PLACED = (
    ({"dp": 2, "tp": 4, "pp": 2}, {"dp": 19, "tp": 240, "pp": 9}, 8),
    ({"tp": 4, "dp": 4}, {"tp": 1, "dp": 100}, 4),
    ({"a": 2, "b": 2, "c": 2, "d": 2}, {"a": 5, "b": 20, "c": 1, "d": 9}, 4),
)
UNEVEN = (  # the axis with most bytes is larger than a node or doesn't fill it evenly, or two others together have more
    ({"cp": 8, "tp": 4}, {"cp": 10, "tp": 9}, 4),
    ({"a": 3, "b": 2, "c": 4}, {"a": 7, "b": 5, "c": 6}, 6),
    ({"dp": 3, "tp": 4}, {"dp": 9, "tp": 10}, 4),
    ({"cp": 16, "tp": 8}, {"cp": 20, "tp": 9}, 8),  # fewer bytes leave with cp innermost, and it takes longer
    ({"a": 4, "b": 2, "c": 2}, {"a": 10, "b": 7, "c": 6}, 4),
    ({"dp": 6, "tp": 4, "pp": 2}, {"dp": 12, "tp": 11, "pp": 3}, 4),
    ({"dp": 3, "tp": 4}, {"dp": 10, "tp": 8}, 4),
    ({"a": 4, "b": 3, "c": 2}, {"a": 3, "b": 7, "c": 4}, 8),
    ({"a": 5, "b": 2, "c": 3}, {"a": 9, "b": 6, "c": 8}, 10),
    ({"a": 2, "b": 6, "c": 2}, {"a": 8, "b": 9, "c": 5}, 4),
    ({"a": 3, "b": 3, "c": 2}, {"a": 5, "b": 6, "c": 7}, 3),
    ({"a": 4, "b": 6}, {"a": 1, "b": 2}, 6),  # fewer bytes than ranks
    ({"a": 7, "b": 3}, {"a": 12, "b": 5}, 7),  # thirds and sevenths, which / rounds and // does not
    ({"a": 2, "b": 1, "c": 5, "d": 3}, {"a": 12, "b": 2, "c": 9, "d": 12}, 5),
    ({"a": 2, "b": 1, "c": 6, "d": 3}, {"a": 7, "b": 9, "c": 5, "d": 20}, 2),
)


def _names(got: Any, sizes: dict) -> bool:
    return isinstance(got, (list, tuple)) and sorted(map(str, got)) == sorted(sizes)


def _heaviest(got: Any, sizes: dict, traffic: dict, per_node: int) -> str:
    """Return why the heaviest axis should not have been the innermost, or the first that doesn't fill nodes evenly."""
    apart = 1
    if sizes[got[0]] > per_node:
        return f": {got[0]} has most bytes, but is larger than a node, and drives out an axis that would fit"
    for axis in got:
        if apart >= per_node:
            break
        if per_node % (apart * sizes[axis]):
            return (f": the heaviest axes come first, but the {sizes[axis]} ranks of {axis}, {apart} apart, don't fill "
                    f"nodes of {per_node} evenly. So groups of theirs reach into the next node, and the whole axis "
                    "has only the ports")  # fmt: skip
        apart *= sizes[axis]
    return ": the heaviest axis fits, but it drives out others that have more bytes together"


def _mistaken(got: Any, sizes: dict, traffic: dict, per_node: int, only_bytes: bool) -> tuple[str, str]:
    """Return the code and the words of what led to an order that is too slow."""
    fits = sorted(sizes, key=lambda axis: (sizes[axis] > per_node, -traffic[axis]))
    if only_bytes:  # in every case: the fewest bytes out of their nodes
        slow = [f"{out} of {math.prod(sizes.values())} hops of {axis}"
                for axis, out in leaving(got, sizes, per_node).items() if out]  # fmt: skip
        return "fewest-bytes", (f": fewer bytes leave their node in your order, but an axis is as slow as its slowest "
                                f"hop. {' and '.join(slow)} leave, and then its other hops wait for them")  # fmt: skip
    if list(got) == sorted(sizes, key=traffic.get, reverse=True):
        why = _heaviest(got, sizes, traffic, per_node)
        return "by-traffic" if "larger" in why else "no-room" if "evenly" in why else "together", why
    if list(got) == fits:
        return "no-room", _heaviest(got, sizes, traffic, per_node)
    if list(got) == sorted(sizes, key=lambda axis: -traffic[axis] / sizes[axis]):
        return "by-share", (": don't divide an axis's bytes by its ranks. Each of them sends as much, all at the same "
                            "time")  # fmt: skip
    best = min(seconds_in_order(order, sizes, traffic, per_node) for order in itertools.permutations(sizes))
    if close(seconds_in_order(got[::-1], sizes, traffic, per_node), best):
        return "outermost-first", ": the same order backwards. Name the innermost axis first"
    if list(got) == sorted(sizes, key=sizes.get):
        return "by-size", ": the smallest axis need not be the one that sends most"
    return "value", ""


def _placed(found: tuple, sizes: dict, traffic: dict, per_node: int, only_bytes: bool) -> None:
    see = f"place_axes({sizes}, {traffic}, {per_node})"
    case = Case(label=f"for axes {sizes} with GB {traffic} on nodes of {per_node}", see=see)
    got = value_of(case, found)
    told = f"it returned {shown(got)}: return the names of all axes, the innermost first"
    case.expect(_names(got, sizes), told, "form")
    best = min(itertools.permutations(sizes), key=lambda order: seconds_in_order(order, sizes, traffic, per_node))
    mine, least = (seconds_in_order(order, sizes, traffic, per_node) for order in (got, best))
    code, why = _mistaken(got, sizes, traffic, per_node, only_bytes)
    case.expect(close(mine, least), f"{list(got)} takes {mine:.3f} s; {list(best)} takes {least:.3f} s{why}", code)


def _fewest(got: Any, sizes: dict, traffic: dict, per_node: int) -> bool:
    """Say whether in no other order fewer bytes leave their node."""
    every = [bytes_out(order, sizes, traffic, per_node) for order in itertools.permutations(sizes)]
    return _names(got, sizes) and close(bytes_out(got, sizes, traffic, per_node), min(every))


@check(places=2, uneven=2)
def check_place_axes(answer: Any, part: Any) -> str:
    own = drawn("place_axes")
    sizes = {name: own.choice((2, 3, 4)) for name in "abcd"}
    drawn_case = sizes, {name: own.randint(1, 99) for name in "abcd"}, own.choice((4, 6, 8))
    cases = (*PLACED, *UNEVEN, drawn_case)
    found = asked(answer, [((dict(sizes), dict(traffic), per), {}) for sizes, traffic, per in cases])
    only_bytes = all(_fewest(one[1], *case) for one, case in zip(found, cases, strict=True))
    part("places")
    for one, case in zip(found, PLACED, strict=False):
        _placed(one, *case, only_bytes)
    part("uneven")
    for one, case in zip(found[len(PLACED) :], cases[len(PLACED) :], strict=True):
        _placed(one, *case, only_bytes)
    return "the fewest seconds, on 2 to 4 axes, also where the heaviest does not fit or one hop makes an axis slow"


# ring_attention


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True, scale: bool = True) -> Any:
    """Return attention on one device: (heads, tokens, width), fewer heads of keys and values repeated."""
    k, v = (tensor.repeat_interleave(len(q) // len(k), dim=0) for tensor in (k, v))
    scores = q @ k.transpose(1, 2) / (q.shape[2] ** 0.5 if scale else 1)
    return (scores + torch.full_like(scores[0], -math.inf).triu(1) * causal if causal else scores).softmax(2) @ v


def careless(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ranks: int, rank: int) -> dict[str, torch.Tensor]:
    """Return what a rank gets out if it slips in the online softmax: a sum is not shrunk, or no block is skipped."""
    q = q.chunk(ranks, 1)[rank]
    keys, values = (tensor.repeat_interleave(len(q) // len(k), dim=0).chunk(ranks, 1) for tensor in (k, v))
    future = q.new_full((q.shape[1], q.shape[1]), -math.inf).triu(1)

    def attend(seen: list[int], total_shrinks: bool, out_shrinks: bool) -> torch.Tensor:
        most, total, out = -math.inf, 0.0, 0.0
        for source in seen:
            scores = q @ keys[source].transpose(1, 2) / q.shape[2] ** 0.5 + (future if source == rank else 0)
            highest = scores.amax(2, keepdim=True).clamp(min=most)
            shrink, weights = (most - highest).exp(), (scores - highest).exp()
            total = total * (shrink if total_shrinks else 1) + weights.sum(2, keepdim=True)
            out = out * (shrink if out_shrinks else 1) + weights @ values[source]
            most = highest
        return out / total

    before = list(range(rank, -1, -1))  # in the order in which they come round
    return {"neither": attend(before, False, False), "only sum": attend(before, True, False),
            "only out": attend(before, False, True),
            "future": attend([(rank - step) % ranks for step in range(ranks)], True, True)}  # fmt: skip


class Watching:
    """A `dist` that notes at each message how many bytes the answer has alive."""

    def __init__(self, dist: Any, alive: Alive) -> None:
        self._dist, self._alive, self.most = dist, alive, 0

    def __getattr__(self, name: str) -> Any:
        if name in ("send", "recv", "isend", "irecv"):
            self.most = max(self.most, self._alive.bytes())
        return getattr(self._dist, name)


WIDTH = 3


def in_dtype(dist: Any, answer: Any, mine: tuple, dtype: torch.dtype) -> Any:
    return answer(dist, *(tensor.to(dtype) for tensor in mine)).detach()


def _keeps_dtype(answer: Any) -> None:
    whole, mine = pieces(2, 2, 2, 4, WIDTH)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):  # a mask of float32 widens the second one
        case = Case(2, f"with tensors of {str(dtype).removeprefix('torch.')}")
        for rank, got in enumerate(case.run(in_dtype, answer, mine, dtype)):
            want = attention(*whole).chunk(2, 1)[rank].to(dtype)
            right = isinstance(got, torch.Tensor) and got.dtype == dtype
            told = f"the output on rank {rank} is {getattr(got, 'dtype', got)}: keep the dtype of q"
            case.expect(right, told, "dtype")
            case.same(got.double(), want.double(), f"the output on rank {rank}", tolerance=tolerance)


def attended(dist: Any, answer: Any, mine: tuple) -> Any:
    return answer(dist, *(tensor.clone() for tensor in mine))


def attended_watched(dist: Any, answer: Any, mine: tuple) -> list:
    q, k, v = (tensor.clone() for tensor in mine)
    alive = Alive()
    watching = Watching(alive.beside(dist), alive)
    with alive:
        answer(watching, q, k, v)
    return [watching.most]


def pieces(ranks: int, heads: int, kv_heads: int, tokens: int, width: int, large: float = 1.0) -> tuple:
    """Return q, k and v of the whole sequence, and each rank's contiguous pieces."""
    shapes = ((heads, tokens, width), (kv_heads, tokens, width), (kv_heads, tokens, width))
    whole = [draw(shape, seed) / 4 * (large if seed == 0 else 1) for seed, shape in enumerate(shapes)]
    parts = [tensor.chunk(ranks, 1) for tensor in whole]
    return whole, each([tuple(part[rank].clone() for part in parts) for rank in range(ranks)])


def _attends(
    answer: Any, ranks: int, heads: int, kv_heads: int, tokens: int, large: float = 1.0, **more: Any
) -> Results:
    told = f"with {tokens} tokens, {heads} query heads and {kv_heads} heads of keys and values"
    case = Case(ranks, told + (", whose scores reach thousands" if large > 1 else ""), **more)
    whole, mine = pieces(ranks, heads, kv_heads, tokens, WIDTH, large)
    want = attention(*whole).chunk(ranks, 1)
    full = attention(*whole, causal=False).chunk(ranks, 1)
    unscaled = attention(*whole, scale=False).chunk(ranks, 1)
    trace = case.run(attended, answer, mine)
    for rank, got in enumerate(trace):
        own = attention(*(tensor.chunk(ranks, 1)[rank] for tensor in whole))
        slips = careless(*whole, ranks, rank)
        case.expect(isinstance(got, torch.Tensor), f"rank {rank} returned {shown(got)}: return its output", "form")
        told = f"the output on rank {rank} has NaN"
        # small scores were right before: what overflows now is exp itself
        case.expect(large == 1 or not got.isnan().any(), f"{told}, and only with such scores: exp(1000) is infinite, "
                    "and exp(-1000) is 0. Subtract the largest score that the query has met before you take exp, and "
                    "shrink the old sums when it grows", "overflow")  # fmt: skip
        case.expect(not got.isnan().any(), f"{told}: a block without any key in sight has -inf - -inf somewhere. "
                    "Skip it", "nan")  # fmt: skip
        case.same(got.detach(), want[rank], f"the output on rank {rank}",
            Mistake("not-causal", full[rank], "looks into the future: a token sees itself and those before it, and "
                    "blocks of later ranks not at all"),
            Mistake("future-blocks", slips["future"], f"has seen keys {rank + 1} to {ranks - 1}, which lie in the "
                    f"future of all queries of rank {rank}: skip a block whose number is larger than the rank's"),
            Mistake("not-shrunk", slips["neither"], "is that of old sums that were not shrunk when a larger score "
                    "came: before a block is added, multiply the sum and the output by exp(old maximum - new maximum)"),
            Mistake("out-not-shrunk", slips["only sum"], "was divided by a sum that had been shrunk, while the output "
                    "had not: the same factor belongs to both"),
            Mistake("sum-not-shrunk", slips["only out"], "had been shrunk when a larger score came, but not the sum by "
                    "which it was divided: the same factor belongs to both"),
            Mistake("unscaled", unscaled[rank], "is that of scores that were not divided by the square root of the "
                    "head's width"),
            Mistake("own-block", own, "is attention to the rank's own keys only: those of the ranks before it are "
                    "missing"),
            tolerance=EXACT,
        )  # fmt: skip
    return trace


@check(value=3, shared_heads=1, bytes=1, memory=1, rounds=1)
def check_ring_attention(answer: Any, part: Any) -> str:
    part("value")
    for ranks in (1, 2, 4):
        _attends(answer, ranks, 2, 2, 8)
    _attends(answer, 2, 1, 1, 4)  # a rank's only head is its first and its last
    _attends(answer, 2, 2, 2, 4, real=True)
    _attends(answer, 2, 2, 2, 6, large=40_000.0)
    _keeps_dtype(answer)
    part("shared heads")
    _attends(answer, 3, 4, 2, 6)
    part("bytes")
    trace, piece = _attends(answer, 4, 4, 1, 16), 2 * 4 * WIDTH * 8  # k and v, tokens, width, float64
    case = Case(4, "with 16 tokens, 4 query heads and 1 head of keys and values")
    gathers = any(kind.startswith("all_gather") for kinds in trace.collectives for kind in kinds)
    case.no_builtin(trace, so=", so each rank holds the keys of the whole sequence" if gathers else "")
    told = "a rank sent {seen} bytes; (P - 1) pieces of keys and values, as they came, are {bound}"
    told += ". You repeated k and v before sending" * (max(trace.bytes_sent) == 4 * 3 * piece)
    case.at_most(max(trace.bytes_sent), 3 * piece, told, "too-many-bytes")
    part("memory")
    case = Case(8, "with 64 tokens of width 32")
    whole, mine = pieces(8, 2, 2, 64, 32)
    most = max(one[0] for one in case.run(attended_watched, answer, mine))
    bound = sum(tensor.numel() * 8 for tensor in whole[1:]) * 3 // 4
    told = "a rank had {seen} bytes alive while it sent or received; three quarters of all K and V are {bound}: "
    told += "use a "
    case.at_most(most, bound, told + "piece when it arrives, pass it on and let it go", "holds-all")
    part("rounds")
    case = Case(4, "with 8 tokens")
    trace = _attends(answer, 4, 2, 2, 8, on=STEPS)
    told = "{seen} messages followed one another; P - 1 = 3 will do, or twice as many for keys and values apart: "
    case.at_most(trace.seconds, 6, told + "everybody passes on at the same time (isend, recv, wait)", "rounds")
    return "equal to one device within 1e-10 · P - 1 pieces sent, as small as they came · never all of them held"


# train_step_2d

WIDE, INNER = 6, 8
AXES_2D = ((2, 2), (1, 4), (4, 1), (2, 4))
RATE = 64.0  # so large that a step which was rounded to float32 is off by more than EXACT


def one_device(weights: list, x: torch.Tensor, targets: torch.Tensor, average: bool = True) -> tuple:
    """Return the loss and the weights after one step of plain gradient descent with the whole batch."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    for w1, w2 in zip(leaves[::2], leaves[1::2], strict=True):
        x = x + gelu(x @ w1) @ w2
    loss = (x - targets).square().mean()
    loss.backward()
    return loss.item(), [weight.detach() - RATE * weight.grad for weight in leaves]


def trained(dist: Any, answer: Any, tp: int, dp: int, weights: list, x: torch.Tensor, targets: torch.Tensor) -> Any:
    rank = dist.get_rank()
    every = {"tp": [list(range(first, first + tp)) for first in range(0, tp * dp, tp)],
             "dp": [list(range(first, tp * dp, tp)) for first in range(tp)]}  # fmt: skip
    made = {axis: [(ranks, dist.new_group(ranks)) for ranks in found] for axis, found in every.items()}
    mine = {axis: next(group for ranks, group in found if rank in ranks) for axis, found in made.items()}
    leaves = [weight.clone().requires_grad_() for weight in weights]
    loss = answer(dist, mine, list(zip(leaves[::2], leaves[1::2], strict=True)), x.clone(), targets.clone(), RATE)
    loss = loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss
    return loss, [weight.detach() for weight in leaves]


def _two_axes(answer: Any, tp: int, dp: int, part: Any, what: str, **more: Any) -> Results:
    weights = [draw((WIDE, INNER) if place % 2 == 0 else (INNER, WIDE), place) / 8 for place in range(4)]
    x, targets = draw((8, WIDE), 4) / 4, draw((8, WIDE), 5) / 4
    cut = [[weight.chunk(tp, 1 if place % 2 == 0 else 0)[rank % tp].clone() for place, weight in enumerate(weights)]
           for rank in range(tp * dp)]  # fmt: skip
    rows = [[whole.chunk(dp)[rank // tp].clone() for rank in range(tp * dp)] for whole in (x, targets)]
    loss, want = one_device(weights, x, targets)
    case = Case(tp * dp, f"as tp {tp} x dp {dp}", **more)
    trace = case.run(trained, answer, tp, dp, each(cut), each(rows[0]), each(rows[1]))
    for rank, (got, after) in enumerate(trace):
        own = one_device(weights, rows[0][rank], rows[1][rank])
        alone_with = one_device(cut[rank], x, targets)[0]  # its own halves of the matrices only
        if what == "loss":
            case.expect(is_number(got), f"rank {rank} returned {shown(got)}: return the loss as a number", "form")
            case.same(float(got), loss, f"the loss on rank {rank}",
                Mistake("own-loss", own[0], "is that of the rank's own samples: average it over the data ranks"),
                Mistake("not-reduced", alone_with, "is that of a model with this rank's columns of w1 and rows of w2 "
                        "only: inner @ w2 is a summand of the output, so sum it over the tensor ranks by reduce_from"),
                Mistake("summed-loss", loss * dp, "is the sum over the data ranks: divide by their number"),
                tolerance=EXACT,
            )  # fmt: skip
            continue
        for place, name in ((3, "w2 of the last layer"), (2, "w1 of the last layer"), (1, "w2 of the first layer"),
                            (0, "w1 of the first layer")):  # fmt: skip
            dim = 1 if place % 2 == 0 else 0
            right, mine = (one.chunk(tp, dim)[rank % tp] for one in (want[place], own[1][place]))
            before = cut[rank][place]
            among = torch.stack((own[1][place] - weights[place]).chunk(tp, dim)).sum(0)  # its row's tensor ranks' steps
            everywhere = torch.stack((want[place] - weights[place]).chunk(tp, dim)).sum(0)  # all tensor ranks' steps
            mistakes = [
                Mistake("not-stepped", before, "is as it was: write into weight.data"),
                Mistake("own-gradient", mine, "was stepped with the gradient of the rank's own samples: average it "
                        "over the data ranks"),
                Mistake("summed", before + dp * (right - before), "was stepped with the sum of the gradients: divide "
                        f"by the {dp} data ranks"),
                Mistake("world-mean", before + (right - before) / tp, "was stepped with too small a gradient: divide "
                        "by the number of data ranks, not of all ranks"),
                Mistake("wrong-way", 2 * before - right, "went up the slope: subtract rate times the gradient"),
                Mistake("first-layer-only", place < 2 and near(after[3], want[3].chunk(tp, 0)[rank % tp], EXACT),
                        "is wrong, while the last layer is right: the gradient of x arrives as summands, one of each "
                        "tensor rank. Read x by copy_to(x, dist, groups['tp'])"),
                *(Mistake("all-ranks", before + scale * everywhere, "was stepped with the sum over all ranks: tensor "
                          "ranks hold other columns, so sum gradients in groups['dp'] only")
                  for scale in (1 / tp, 1, dp)),
                *(Mistake("tensor-ranks", before + scale * among, "was stepped with the sum over the tensor ranks, "
                          "which hold other columns: weight gradients belong in groups['dp'], not in groups['tp']")
                  for scale in (1 / tp, 1 / dp, 1)),
            ]  # fmt: skip
            case.same(after[place], right, f"{name} on rank {rank}", *mistakes, tolerance=EXACT)
    return trace


@check(loss=1, weights=3, bytes=1)
def check_train_step_2d(answer: Any, part: Any) -> str:
    part("loss")
    for tp, dp in AXES_2D:
        _two_axes(answer, tp, dp, part, "loss")
    part("weights")
    for tp, dp in AXES_2D:
        _two_axes(answer, tp, dp, part, "weights")
    _two_axes(answer, 2, 2, part, "weights", real=True)
    part("bytes")
    for tp, dp in ((2, 2), (4, 1), (1, 4)):
        trace = _two_axes(answer, tp, dp, part, "weights")
        tokens = 8 // dp * WIDE * 8
        tensor = 4 * 2 * (tp - 1) / tp * tokens  # two layers, forward and backward
        data = 2 * (dp - 1) / dp * (4 * WIDE * INNER // tp * 8 + 8)
        told = f"as tp {tp} x dp {dp} a rank sent {{seen}} bytes; {tensor:.0f} of activations and {data:.0f} of its "
        told += "own gradients and the loss will do: sum activations among tensor ranks, gradients among data ranks"
        Case(tp * dp).at_most(max(trace.bytes_sent), tensor + data, told, "too-many-bytes", slack=1.05)
    return "loss and weights of one device on 2 x 2, 1 x 4, 4 x 1 and 2 x 4 · each axis sends only what is its own"


# plan

TRIED = {"micro": (1, 2, 4), "zero": (1, 3), "recompute": ("none", "full")}
PLANS = (
    ("Llama-3-8B", DGX_H100, 16, 64, 8192),
    ("Llama-3-70B", DGX_H100, 64, 128, 8192),
    ("Llama-2-13B", DGX_A100, 24, 96, 4096),
    ("Llama-3-70B", DGX_H100, 32, 64, 8192),
    ("Llama-2-13B", DGX_H100, 64, 64, 2048),
    ("Llama-3-70B", DGX_H100, 24, 24, 2048),
    ("Qwen2.5-32B", DGX_H100, 12, 6, 4096),
    ("Llama-2-70B", DGX_H100, 16, 4, 4096),  # fewer sequences than tensor ranks
    ("Qwen2.5-0.5B", DGX_H100, 1, 2, 2048),
    ("Llama-3-8B", DGX_H100, 64, 16, 4096),  # the first of those to try is the best, and then the last
    ("Llama-2-70B", DGX_H100, 16, 16, 1024),
)
TOO_LARGE = (("Llama-3-405B", DGX_H100, 32, 32, 8192), ("Llama-3-70B", DGX_H100, 8, 16, 8192))


def candidates(shape: ModelShape, node: Node, gpus: int, batch: int, sequence: int) -> list:
    """Return (layout, seconds, bytes) of all layouts that the exercise asks to try."""
    found = []
    divisors = [size for size in range(1, gpus + 1) if gpus % size == 0]
    for tp, pp in itertools.product([size for size in divisors if size <= node.gpus], divisors):
        if gpus % (tp * pp):
            continue
        for micro, zero, recompute in itertools.product(*TRIED.values()):
            layout = Layout(tp, 1, pp, gpus // tp // pp, micro=micro, zero=zero, recompute=recompute)
            try:
                seconds = layout_time(shape, layout, node, batch, sequence).seconds
            except ValueError:
                continue
            found.append((layout, seconds, layout_memory(shape, layout, batch, sequence).total))
    return found


FIELDS = ("tp", "cp", "pp", "dp", "ep", "chunks", "micro", "zero", "recompute")


def planned(answer: Any, cases: list) -> list:
    """Beside the answer: the fields of each layout that it returns, or the words of the ValueError."""
    found = []
    for name, *case in cases:
        try:
            layout = answer(MODELS[name], *case)
            found.append([getattr(layout, field, None) for field in FIELDS])
        except ValueError as error:
            found.append(str(error))
    return found


@check(fits=1, best=2, refuses=1)
def check_plan(answer: Any, part: Any) -> str:
    found = alone(planned, answer, [*PLANS, *TOO_LARGE])
    judged = []
    part("fits")
    for (name, node, gpus, batch, sequence), got in zip(PLANS, found, strict=False):
        see = f'plan(MODELS["{name}"], {node.name.replace(" ", "_").replace("-", "_")}, {gpus}, {batch}, {sequence})'
        case = Case(label=f"for {name} on {gpus} x {node.gpu.name}, {batch} sequences of {sequence:,}", see=see)
        case.expect(isinstance(got, list), f"it raised ValueError: {got}", "refused")
        case.expect(None not in got, "it did not return a Layout", "form")
        layout = Layout(*got)
        told = f"it returned {layout}, which is {layout.ranks} ranks"
        case.expect(layout.ranks == gpus, told, "ranks")
        every = candidates(MODELS[name], node, gpus, batch, sequence)
        mine = next(((seconds, size) for one, seconds, size in every if one == layout), None)
        told = f"it returned {layout}, which is none of those to try"
        case.expect(mine is not None, told, "not-tried")
        size, room = mine[1] / 1e9, node.gpu.memory / 1e9
        case.expect(size <= room, f"{layout} needs {size:.1f} GB, and a GPU has {room:.0f}", "does-not-fit")
        judged.append((case, layout, mine[0], every, node))
    part("best")
    for case, layout, seconds, every, node in judged:
        fitting = [one for one in every if one[2] <= node.gpu.memory]
        best, least, _ = min(fitting, key=lambda one: one[1])
        smallest = min(fitting, key=lambda one: one[2])[0]
        why = ": it is the smallest that fits, not the fastest" if layout == smallest else ""
        told = f"{layout} takes {seconds:.2f} s; {best} fits, too, and takes {least:.2f}{why}"
        case.expect(seconds <= 1.01 * least, told, "smallest" if why else "slower")
    part("refuses")
    for (name, node, gpus, batch, sequence), got in zip(TOO_LARGE, found[len(PLANS) :], strict=True):
        case = Case(label=f"for {name} on {gpus} x {node.gpu.name}, where nothing fits,")
        case.expect(isinstance(got, str), "it returned a layout: raise ValueError", "no-refusal")
        least = min(size for *_, size in candidates(MODELS[name], node, gpus, batch, sequence)) / 1e9
        told = f"the ValueError says {got!r}: say how many GB the smallest of them needs on a GPU, {least:.1f}"
        case.expect(f"{least:.1f}" in got, told, "no-reason")
    return "the fastest layout that fits, within 1 % · nothing fits: refused, with the GB that it would take"


# zigzag


@check(pieces=1, balance=1)
def check_zigzag(answer: Any, part: Any) -> str:
    own = drawn("zigzag")
    ranks = own.randint(3, 9)
    cases = [(16, 2), (24, 3), (64, 8), (6, 1), (8, 4), (2 * ranks * own.randint(2, 12), ranks)]
    found = asked(answer, [(case, {}) for case in cases])
    part("pieces")
    judged = []
    for (length, ranks), one in zip(cases, found, strict=True):
        case = Case(label=f"zigzag({length}, {ranks}):", see=f"zigzag({length}, {ranks})")
        got = value_of(case, one)
        form = isinstance(got, (list, tuple)) and len(got) == ranks
        case.expect(form, f"it returned {shown(got)}: return one list of places for each of {ranks} ranks", "form")
        form = all(isinstance(mine, (list, tuple)) and all(type(place) is int for place in mine) for mine in got)
        case.expect(form, f"it returned {shown(got)}: each rank's places are a list of whole numbers", "form")
        got = [list(mine) for mine in got]
        every = sorted(place for mine in got for place in mine)
        case.expect(every == list(range(length)), "not every token is on exactly one rank", "places")
        judged.append((case, length, ranks, got))
    part("balance")
    for case, length, ranks, got in judged:
        work = [sum(place + 1 for place in mine) for mine in got]
        ratio = max(work) * ranks / sum(work)
        contiguous = [list(range(r * length // ranks, (r + 1) * length // ranks)) for r in range(ranks)]
        striped = got[0] == list(range(0, length, ranks))
        code = "contiguous" if got == contiguous else "striped" if striped else "unbalanced"
        told = f"the busiest rank has {ratio:.3f} times the mean work (a token sees as many tokens as its place says)"
        case.expect(close(ratio, 1.0), f"{told}; chunk i of 2P and chunk 2P - 1 - i make it 1", code)
        runs = max(sum(b != a + 1 for a, b in zip(mine, mine[1:], strict=False)) for mine in got)
        case.expect(runs <= 1, f"a rank's tokens are {runs + 1} pieces of the sequence; two will do", "many-pieces")
    return "every token on one rank, in two pieces, and the same work for all"


# ulysses_attention


@check(value=2, bytes=1)
def check_ulysses_attention(answer: Any, part: Any) -> str:
    part("value")
    for ranks, heads, kv_heads in ((1, 2, 2), (2, 2, 2), (4, 8, 4), (2, 8, 4)):
        _attends(answer, ranks, heads, kv_heads, 8)
    _keeps_dtype(answer)
    part("bytes")
    trace = _attends(answer, 2, 8, 2, 8)
    each_rank = 8 * 4 * WIDTH * 8  # heads, tokens, width, float64: q and the output; keys and values are a quarter each
    told = "with 8 query heads and 2 of keys and values a rank sent {seen} bytes; a swap of q, k, v and the output is "
    told += "{bound}: swap keys and values before they are repeated"
    Case(2).at_most(max(trace.bytes_sent), 2.5 * each_rank / 2, told, "too-many-bytes")
    return "equal to one device · two swaps, heads for tokens and back"


# step_seconds


@check(value=2, overlap=1)
def check_step_seconds(answer: Any, part: Any) -> str:
    values = [(16, 16, 8, 0.36, 0.05, 0.0), (8, 4, 1, 1.0, 0.0, 0.0), (32, 1, 1, 0.5, 0.25, 0.0)]
    values += [(8, 8, 2, 0.3, 0.1, 0.1)]
    hidden = [(16, 16, 8, 0.36, 0.05, 1.0), (4, 1, 1, 0.3, 0.0, 0.25)]
    own = drawn("step_seconds")
    pp = own.randint(2, 9)
    compute, tensor = own.randint(20, 60) / 64, own.randint(1, 9) / 64
    hidden.append((pp * own.randint(2, 9), pp, own.randint(2, 4), compute, tensor, 2.0))
    found = asked(answer, [(case, {}) for case in values + hidden])
    names = ("microbatches", "pp", "chunks", "compute", "tensor", "gradients")
    for place, (case_of, one) in enumerate(zip(values + hidden, found, strict=True)):
        if place in (0, len(values)):
            part("value" if place == 0 else "overlap")
        m, pp, chunks, compute, tensor, gradients = case_of
        told = ", ".join(f"{name} = {value:g}" for name, value in zip(names, case_of, strict=True))
        case = Case(label=f"for {told}", see=f"step_seconds{case_of}")
        got = value_of(case, one)
        case.expect(is_number(got), f"it returned {shown(got)}: return seconds", "form")
        both = compute + tensor
        want = (m + (pp - 1) / chunks) * both + max(0.0, gradients - 2 / 3 * both)
        case.same(float(got), want, "it",
            Mistake("no-bubble", m * both, "is the time without a bubble: the pipeline has to fill and to drain"),
            Mistake("chunks", (m + pp - 1) * both, "is the time without chunks: with v of them the bubble is a v-th"),
            Mistake("all-divided", want - (m + (pp - 1) / chunks) * both + (m + pp - 1) / chunks * both, "divides the "
                    "whole step by the chunks: only the waiting gets shorter, the micro-batches stay as long as they "
                    "are"),
            Mistake("tensor-hidden", (m + (pp - 1) / chunks) * compute, "leaves tensor parallelism's messages out"),
            Mistake("bubble-tensor", want - (pp - 1) / chunks * tensor, "has a bubble of compute only: while the "
                    "pipeline fills, each micro-batch waits for its tensor messages, too"),
            Mistake("window", (m + (pp - 1) / chunks) * both + max(0.0, gradients - 2 / 3 * compute), "hides the "
                    "gradients behind two thirds of compute: a backward waits for its tensor messages as well, and "
                    "gradients travel meanwhile"),
            Mistake("not-hidden", want + gradients - max(0.0, gradients - 2 / 3 * both), "adds all of the gradients' "
                    "time: they travel behind the last micro-batch's backward"),
            Mistake("all-hidden", (m + (pp - 1) / chunks) * both, "hides the gradients altogether: they can hide "
                    "behind the backward of one micro-batch only, two thirds of it"),
            says="should be", tolerance=1e-9 * want,
        )  # fmt: skip
    return "fills and drains · chunks shorten the bubble · gradients hide behind one backward"


# rank_memory

SIZED = (  # weights, activations, tp, cp, pp, chunks, micro-batches, ZeRO
    (812e9, 537e9, 8, 1, 16, 8, 16, 2),
    (120, 200, 2, 1, 4, 2, 8, 2),  # so few that a byte more counts
    (140e9, 96e9, 4, 2, 4, 2, 4, 1),
    (812e9, 537e9, 4, 4, 16, 8, 32, 1),
    (64e9, 80e9, 1, 2, 2, 3, 2, 1),
    (90e9, 300e9, 3, 5, 6, 4, 18, 2),
)


@check(weights=2, activations=2)
def check_rank_memory(answer: Any, part: Any) -> str:
    own = drawn("rank_memory")
    pp = own.randint(2, 9)
    drawn_case = (own.randint(50, 900) * 1e9, own.randint(50, 900) * 1e9, own.choice((2, 4, 8)), own.choice((1, 2, 4)),
                  pp, own.randint(2, 9), pp * own.randint(1, 4), own.choice((1, 2)))  # fmt: skip
    whole = [*SIZED, drawn_case]
    states = [(weights, 0.0, *rest) for weights, _, *rest in whole]
    found = asked(answer, [(case, {}) for case in states + whole])
    names = ("weights", "activations", "tp", "cp", "pp", "chunks", "microbatches", "zero")
    for place, (case_of, one) in enumerate(zip(states + whole, found, strict=True)):
        if place in (0, len(states)):
            part("weights" if place == 0 else "activations")
        weights, activations, tp, cp, pp, chunks, micro, zero = case_of
        told = ", ".join(f"{name} = {value:g}" for name, value in zip(names, case_of, strict=True))
        case = Case(label=f"for {told}", see=f"rank_memory{case_of}")
        got = value_of(case, one)
        case.expect(is_number(got), f"it returned {shown(got)}: return bytes", "form")
        gradients = 2 * weights * (zero == 1)
        share, piece = (weights + gradients) / (tp * pp), activations / (tp * cp * pp)
        most = pp + (pp - 1) / chunks
        under_way = min(micro, most)
        case.same(float(got), share + under_way * piece, "it",
            Mistake("no-gradients", weights / (tp * pp) + under_way * piece, "leaves the gradients out: with ZeRO-1 "
                    "they stay whole, 4 bytes for each weight"),
            Mistake("whole-gradients", 3 * weights / (tp * pp) + under_way * piece, "counts whole gradients with "
                    "ZeRO-2: there the data ranks share them, and they count 0"),
            Mistake("gradients-of-2", 2 * weights / (tp * pp) + under_way * piece, "counts gradients of 2 bytes: they "
                    "have 4, twice as many as a weight"),
            Mistake("weights-by-cp", share / cp + under_way * piece, "divides the weights by the context ranks, too: "
                    "they hold the same weights"),
            Mistake("weights-by-tp", share * pp + under_way * piece, "doesn't divide the weights by the pipeline "
                    "ranks: each holds a pp-th of the layers"),
            Mistake("all-under-way", share + micro * piece, f"has all {micro} micro-batches under way: the first comes "
                    f"back when pp + (pp - 1) / chunks = {most:g} of them are"),
            Mistake("no-minimum", share + most * piece, f"has {most:g} micro-batches under way: there are only {micro} "
                    "of them"),
            Mistake("full-only", share + min(micro, pp) * piece, f"has {pp} micro-batches under way: before the first "
                    f"comes back, the rank starts pp - 1 chunks more, so {most:g} are"),
            Mistake("not-in-chunks", share + min(micro, 2 * pp - 1) * piece, f"has {min(micro, 2 * pp - 1)} "
                    "micro-batches under way: what the rank starts before the first comes back are pp - 1 chunks, "
                    f"each only a part of its layers, so {most:g} are"),
            Mistake("one-under-way", share + piece, "holds the activations of one micro-batch: several are under way"),
            Mistake("layers-whole", share + under_way * piece * pp, "doesn't divide the activations by the pipeline "
                    "ranks: each has a pp-th of the layers"),
            Mistake("whole-sequence", share + under_way * piece * cp, "doesn't divide the activations by the context "
                    "ranks: each has a cp-th of the tokens"),
            says="should be", tolerance=1e-9 * (share + under_way * piece),
        )  # fmt: skip
    return "weights and gradients, by ZeRO-1 and ZeRO-2 · as many activations as there are micro-batches under way"
