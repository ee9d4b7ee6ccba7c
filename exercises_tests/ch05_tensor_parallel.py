"""Checks of chapter 5: equal outputs and gradients from shards, one all-reduce each way, and nothing held whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn.functional import gelu

from course_lib.checks import alone, check, close, equal, expect, integers, near
from course_lib.ranks import RankFailed, Results, run
from course_lib.simulator import Cluster

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
REAL_SECONDS = 20  # after which a run on real ranks counts as hung


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def applied(dist: Any, answer: Any, xs: list, grads: list, backward: bool, turned: bool) -> Any:
    rank = dist.get_rank()
    x = xs[rank].clone().requires_grad_()
    try:
        y = answer.apply(x, dist)
        given = x.detach().clone()
        if backward:
            (y.t() if turned else y).backward(grads[rank].t().contiguous() if turned else grads[rank])
    except NotImplementedError:
        return "not written"
    return [y.detach() if isinstance(y, torch.Tensor) else None, x.grad, given]


def layered(dist: Any, answer: Any, x: torch.Tensor, shards: list, shared: list, grad: Any, more: tuple = ()) -> Any:
    x = x.clone().requires_grad_()
    own = [shard.clone().requires_grad_() for shard in shards[dist.get_rank()]]
    same = [tensor.clone().requires_grad_() for tensor in shared]
    y = answer(dist, x, *own, *same, *more)
    if not isinstance(y, torch.Tensor):
        return None
    if grad is not None:
        y.backward(grad)
    return y.detach(), [leaf.grad for leaf in (x, *own, *same)]


def refused(dist: Any, answer: Any, *data: Any) -> str:
    try:
        answer(dist, *data)
    except ValueError as error:
        return f"ValueError: {error}"
    return "nothing"


def cut(dist: Any, answer: Any, seed: int, rows: int, columns: int) -> tuple:
    mine = answer(dist, seed, rows, columns)
    return mine.detach(), mine.untyped_storage().nbytes()


def losses(dist: Any, answer: Any, logits: list, targets: torch.Tensor) -> tuple:
    mine = logits[dist.get_rank()].clone().requires_grad_()
    loss = answer(dist, mine, targets.clone())
    loss.backward()
    return loss.detach(), mine.grad


def hiding(answer: Any, pairs: list) -> list:
    function = answer()
    return [[np.asarray(function(value), dtype=float) for value in (a, b, a + b)] for a, b in pairs]


# What several checks of this chapter ask


def _run(case: str, *call: Any, ranks: int, real: bool = False) -> Results:
    """Run; a run that fails is a wrong answer, told with its case."""
    try:
        return run(*call, ranks=ranks, on=None if real else Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        kinds = {"deadlock": "deadlock", "timeout": "timeout", "exit": "died", "signal": "died"}
        expect(False, f"{case}: {failure}", kinds.get(failure.error, "raised"))


def _on(ranks: int, real: bool = False) -> str:
    return f"on {ranks} {'real ' if real else ''}{'rank' if ranks == 1 else 'ranks'}"


def _numbers(tensor: Any) -> str:
    if not isinstance(tensor, (torch.Tensor, np.ndarray)):
        return repr(tensor)
    values = tensor.flatten().tolist()
    return "[" + ", ".join(f"{value:.4g}" for value in values[:4]) + (", ...]" if len(values) > 4 else "]")


def _draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return integers(1 + seed, shape, "float64")[seed] / 8 + 0.01 * (seed + 1)


def _ring_bytes(ranks: int, elements: int, calls: int) -> int:
    return calls * 2 * (ranks - 1) * math.ceil(elements / ranks) * 8


# The products in numpy


def _matrices(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return tuple(t.numpy() for t in (_draw(rows, inner), _draw(inner, columns, seed=1)))


def _products(answer: Any, axis: int) -> None:
    for rows, inner, columns, ranks in ((2, 4, 6, 2), (1, 8, 8, 4), (3, 4, 4, 1), (2, 9, 6, 3), (1, 4, 4, 4)):
        x, w = _matrices(rows, inner, columns)
        want = x @ w
        shards = [shard.copy() for shard in np.split(w, ranks, axis=axis)]
        case = f"with x {x.shape} and {ranks} {'shards' if ranks > 1 else 'shard'} {shards[0].shape}"
        summands = [x[:, : len(shard)] @ shard for shard in shards] if axis == 0 else [x @ shard for shard in shards]
        try:
            got = answer(x.copy(), [shard.copy() for shard in shards])
        except (RankFailed, ValueError) as error:
            misfit = "mismatch" in str(error) or "must match exactly" in str(error)
            expect(not misfit, f"{case}: {str(error)[:200]}\n    {_misfit(axis)}", "misfit")
            raise
        expect(isinstance(got, np.ndarray), f"{case} it returned {type(got).__name__}: return an array", "form")
        expect(
            not (axis == 1 and ranks > 1 and got.shape == summands[0].shape and near_np(got, sum(summands))),
            f"{case} the products are added; each is another set of columns of the result: lay them side by side",
            "added",
        )
        expect(
            not (axis == 0 and ranks > 1 and got.shape == (rows, ranks * columns)),
            f"{case} the products lie side by side, {got.shape}; each has all columns, and the result is their sum",
            "side-by-side",
        )
        expect(
            not (axis == 0 and ranks > 1 and near_np(got, sum(summands))),
            f"{case} every shard was multiplied with the first columns of x: shard r meets the r-th part of x's "
            "columns",
            "same-part",
        )
        expect(got.shape == want.shape, f"{case} the result has shape {got.shape}; x @ w has {want.shape}", "shape")
        expect(near_np(got, want), f"{case} the result begins {_numbers(got)}; x @ w begins {_numbers(want)}", "value")


def _misfit(axis: int) -> str:
    if axis:
        return "A column shard has all rows of w: multiply it with all of x."
    return "A row shard has some rows of w: multiply it with the columns of x that meet them."


def near_np(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= 1e-9))


@check(value=1)
def check_matmul_column_split(answer: Any, part: Any) -> str:
    part("value")
    _products(answer, axis=1)
    return "x @ w from column shards, laid side by side, on 1, 2, 3 and 4 ranks"


@check(value=2)
def check_matmul_row_split(answer: Any, part: Any) -> str:
    part("value")
    _products(answer, axis=0)
    return "x @ w from row shards and parts of x, added, on 1, 2, 3 and 4 ranks"


@check(value=1)
def check_gelu_counterexample(answer: Any, part: Any) -> str:
    part("value")
    got = answer()
    pair = isinstance(got, (list, tuple)) and len(got) == 2
    expect(
        pair and all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in got),
        f"it returned {got!r}: return two numbers, as in (1.0, 2.0)",
        "form",
    )
    a, b, both = (gelu(torch.tensor(float(v), dtype=torch.float64)).item() for v in (*got, sum(got)))
    expect(
        abs(a + b - both) > 0.01,
        f"GELU({got[0]:g}) + GELU({got[1]:g}) = {a + b:.4f} and GELU({sum(got):g}) = {both:.4f}: that is nearly the "
        "same. "
        "Far right of zero GELU is a straight line, and at 0 it is 0: let one of the two, or their sum, lie elsewhere",
        "no-counterexample",
    )
    return "GELU(a) + GELU(b) differs from GELU(a + b), so the sum over ranks must come before GELU, or no sum at all"


@check(value=1)
def check_activation_that_hides_it(answer: Any, part: Any) -> str:
    part("value")
    a, b = _matrices(3, 4, 4)
    pairs = [(a, a[::-1].copy()), (b, -2 * b), (np.array([3.0]), np.array([-0.5])), (np.array([1.5]), np.array([7.0]))]
    got = alone(hiding, answer, [tuple(x.copy() for x in pair) for pair in pairs])
    for one, other, both in got:
        expect(
            one.shape == other.shape == both.shape and near_np(one + other, both),
            f"f(a) + f(b) begins {_numbers(one + other)} and f(a + b) {_numbers(both)}: this function shows the "
            "mistake",
            "shows-it",
        )
    different = any(not near_np(one, np.zeros_like(one)) for one, _, _ in got)
    expect(different, "this function is zero everywhere, and no activation: return another", "zero")
    return "f(a) + f(b) = f(a + b): with this activation a test would not see the wrong cut"


# f and g


def _autograd(name: str, answer: Any, forward_sums: bool, part: Any) -> None:
    see = f"run(lambda dist: {name}.apply(torch.ones(2, 3), dist), ranks=2, on=Cluster())"
    part("forward")
    does = "returns the sum over ranks, and should return its input"
    if forward_sums:
        does = "returns its input, and should return the sum over ranks"
    runs = []
    for ranks, real in ((2, False), (1, False), (3, False), (2, True)):
        drawn = integers(2 * ranks, (2, 3), "float64")
        xs, grads = ([tensor + 10 * (rank + 1) for rank, tensor in enumerate(drawn[half::2])] for half in (0, 1))
        xs = xs if forward_sums else [xs[0]] * ranks
        want_y = [sum(xs)] * ranks if forward_sums else xs
        want_grad = grads if forward_sums else [sum(grads)] * ranks
        case = _on(ranks, real)
        got = _run(case, applied, answer, xs, grads, True, False, ranks=ranks, real=real)
        expect(got[0] != "not written", "not written yet", "not-written")
        runs.append((case, ranks, got, want_y, want_grad, xs, grads))
        for rank, (y, _, given) in enumerate(got):
            swapped = xs[rank] if forward_sums else sum(xs)
            expect(
                ranks == 1 or not (isinstance(y, torch.Tensor) and near(y, swapped, 1e-9)),
                f"{case} forward {does}: f and g are swapped",
                "swapped", see,
            )  # fmt: skip
            expect(
                isinstance(y, torch.Tensor) and near(y, want_y[rank], 1e-9),
                f"{case} forward returns {_numbers(y)} on rank {rank}; it should be {_numbers(want_y[rank])}",
                "forward", see,
            )  # fmt: skip
            expect(
                near(given, xs[rank], 0),
                f"{case} forward changed its input on rank {rank}: all_reduce works in place, so give it a clone",
                "input-changed", see,
            )  # fmt: skip
    part("backward")
    for case, ranks, got, _, want_grad, _, grads in runs:
        for rank, (_, grad, _) in enumerate(got):
            missed = sum(grads) if forward_sums else grads[rank]
            expect(
                ranks == 1 or not near(grad, missed, 1e-9),
                f"{case} backward "
                + ("sums the gradient over ranks; every rank has the whole of it already: return it as it is"
                   if forward_sums else
                   "returns each rank's own gradient; x went to all ranks, so its gradient is the sum over all of "
                   "them"),
                "backward-sums" if forward_sums else "no-sum-in-backward",
            )  # fmt: skip
            expect(
                near(grad, want_grad[rank], 1e-9),
                f"{case} the gradient of x on rank {rank} is {_numbers(grad)}; it should be "
                f"{_numbers(want_grad[rank])}",
                "backward",
            )
    _, ranks, _, _, want_grad, xs, grads = runs[0]
    case = f"{_on(ranks)} with a gradient that is not contiguous (a transposed one)"
    got = _run(case, applied, answer, xs, grads, True, True, ranks=ranks)
    expect(
        all(near(grad, want, 1e-9) for (_, grad, _), want in zip(got, want_grad, strict=True)),
        f"{case} the gradient of x is {_numbers(got[0][1])}; it should be {_numbers(want_grad[0])}",
        "not-contiguous",
    )
    part("collectives")
    counts = [
        _run(_on(2), applied, answer, xs, grads, backward, False, ranks=2).collectives[0] for backward in (False, True)
    ]
    want = (1, 1) if forward_sums else (0, 1)
    expect(
        tuple(map(len, counts)) == want,
        f"on 2 ranks forward takes {len(counts[0])} collectives and backward {len(counts[1]) - len(counts[0])}; "
        f"{name} needs {want[0]} and {want[1] - want[0]}",
        "collectives",
    )


@check(forward=1, backward=2, collectives=1)
def check_CopyToRanks(answer: Any, part: Any) -> str:  # noqa: N802 - named as the class it checks
    _autograd("CopyToRanks", answer, False, part)
    return "forward returns x, backward sums the gradient over ranks: no collective forward, one backward"


@check(forward=2, backward=1, collectives=1)
def check_ReduceFromRanks(answer: Any, part: Any) -> str:  # noqa: N802 - named as the class it checks
    _autograd("ReduceFromRanks", answer, True, part)
    return "forward sums over ranks, backward returns the gradient: one collective forward, none backward"


# The MLP


def _mlp(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    return gelu(x @ w1 + b1) @ w2 + b2


def _graded(function: Any, leaves: list, grad: torch.Tensor) -> tuple[torch.Tensor, list]:
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    y = function(*leaves)
    return y.detach(), list(torch.autograd.grad(y, leaves, grad))


def _mlp_case(ranks: int, tokens: int, hidden: int, ffn: int) -> dict[str, Any]:
    whole = [_draw(tokens, hidden), *(_draw(*shape, seed=place + 1) for place, shape in
                                      enumerate(((hidden, ffn), (ffn,), (ffn, hidden), (hidden,))))]  # fmt: skip
    _, w1, b1, w2, _ = whole
    shards = [
        [part.contiguous() for part in parts]
        for parts in zip(w1.chunk(ranks, 1), b1.chunk(ranks), w2.chunk(ranks, 0), strict=True)
    ]
    grad = _draw(tokens, hidden, seed=6)
    return {"whole": whole, "shards": shards, "grad": grad, "ranks": ranks, "want": _graded(_mlp, whole, grad)}


def _mlp_mistakes(case: dict[str, Any]) -> list[tuple[torch.Tensor, str, str]]:
    """Return what rank 0 would return with each mistake that has a sentence of its own."""
    x, _, _, _, b2 = case["whole"]
    shards, ranks = case["shards"], case["ranks"]
    parts = [gelu(x @ w1 + b1) @ w2 for w1, b1, w2 in shards]
    before = gelu(sum(x @ w1 + b1 for w1, b1, _ in shards))
    swapped = gelu(ranks * x @ shards[0][0] + shards[0][1]) @ shards[0][2] + b2
    mistakes = [
        (
            parts[0] + b2,
            "rank 0 returns its own part: parts are summands, sum them over the ranks (ReduceFromRanks)",
            "no-sum",
        ),
        (
            sum(parts) + ranks * b2,
            f"b2 was added on every rank, {ranks} times in all: add it after the sum",
            "bias-on-every-rank",
        ),
        (
            sum(before @ w2 for _, _, w2 in shards) + b2,
            "the ranks' columns were added up before GELU: they are different columns of x @ w1, not summands. Leave "
            "each rank its own until after w2",
            "sum-before-gelu",
        ),
        (
            swapped,
            "f and g are swapped: x is the same on all ranks and must not be summed in forward, and the parts at the "
            "end must be",
            "swapped",
        ),
        (sum(parts), "b2 was not added", "no-bias"),
        (sum(parts) / ranks + b2, "the parts were averaged: they are summands, so add them up", "mean"),
    ]
    if shards[0][0].shape[0] == shards[0][0].shape[1]:
        turned = sum(gelu(x @ w1.T + b1) @ w2.T for w1, b1, w2 in shards) + b2
        said = "the weights were transposed: here y = x @ w, as in the text, not as nn.Linear stores it"
        mistakes.append((turned, said, "transposed"))
    return mistakes


def _mlp_run(answer: Any, case: dict[str, Any], real: bool = False, grad: bool = True) -> Results:
    ranks = case["ranks"]
    data = (case["whole"][0], case["shards"], case["whole"][4:], case["grad"] if grad else None)
    try:
        return run(layered, answer, *data, ranks=ranks, on=None if real else Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        shapes = (
            f"x {list(case['whole'][0].shape)}, w1_shard {list(case['shards'][0][0].shape)}, "
            f"w2_shard {list(case['shards'][0][2].shape)}"
        )
        expect(
            "cannot be multiplied" not in str(failure),
            f"{_on(ranks, real)} with {shapes}: {failure}\n    w1 is cut by columns, so it takes all of x; w2 by "
            "rows, so it "
            "takes this rank's columns of the hidden layer. Nothing is transposed, and x is not cut.",
            "row-then-column",
        )
        codes = {"deadlock": "deadlock", "timeout": "timeout", "exit": "died", "signal": "died"}
        expect(False, f"{_on(ranks, real)} with {shapes}: {failure}", codes.get(failure.error, "raised"))


@check(forward=2, gradients=2, collectives=1)
def check_tensor_parallel_mlp(answer: Any, part: Any) -> str:
    cases = [(_mlp_case(2, 3, 4, 8), False), (_mlp_case(4, 2, 4, 8), False), (_mlp_case(1, 3, 4, 8), False),
             (_mlp_case(2, 3, 6, 8), True)]  # fmt: skip
    mistakes = [_mlp_mistakes(case) for case, _ in cases]
    part("forward")
    runs = []
    for (case, real), wrong in zip(cases, mistakes, strict=True):
        ranks, want = case["ranks"], case["want"][0]
        got = _mlp_run(answer, case, real)
        runs.append(got)
        expect(all(mine is not None for mine in got), f"{_on(ranks, real)} it returned no tensor", "form")
        if all(near(mine[0], want, 1e-9) for mine in got):
            continue
        for other, said, code in wrong:
            expect(near(other, want, 1e-9) or not near(got[0][0], other, 1e-9), f"{_on(ranks, real)} {said}", code)
        rank = next(rank for rank in range(ranks) if not near(got[rank][0], want, 1e-9))
        expect(
            False,
            f"{_on(ranks, real)} rank {rank} returns {_numbers(got[rank][0])}; one device returns {_numbers(want)}",
            "value",
        )
    part("gradients")
    names = ("x", "w1_shard", "b1_shard", "w2_shard", "b2")
    for (case, real), got in zip(cases, runs, strict=True):
        ranks = case["ranks"]
        gx, gw1, gb1, gw2, gb2 = case["want"][1]
        for rank, (_, grads) in enumerate(got):
            want = (gx, gw1.chunk(ranks, 1)[rank], gb1.chunk(ranks)[rank], gw2.chunk(ranks, 0)[rank], gb2)
            w1, b1, w2 = (shard.clone().requires_grad_() for shard in case["shards"][rank])
            x = case["whole"][0].clone().requires_grad_()
            (own,) = torch.autograd.grad(gelu(x @ w1 + b1) @ w2, x, case["grad"])
            expect(
                ranks == 1 or not near(grads[0], own, 1e-9),
                f"{_on(ranks, real)} the gradient of x on rank {rank} is that of its own shards; x went to all "
                "ranks, so the "
                "gradients must be summed: let x pass through CopyToRanks",
                "no-f",
            )
            for name, mine, right in zip(names, grads, want, strict=True):
                expect(
                    ranks == 1 or not near(mine, ranks * right, 1e-9) or near(right, 0 * right, 1e-9),
                    f"{_on(ranks, real)} the gradient of {name} on rank {rank} is {ranks} times too large: the "
                    "backward of "
                    "the last sum must not sum again",
                    "sums-twice",
                )
                expect(
                    near(mine, right, 1e-9),
                    f"{_on(ranks, real)} the gradient of {name} on rank {rank} is {_numbers(mine)}; one device has "
                    f"{_numbers(right)}",
                    "gradient",
                )
    part("collectives")
    case = _mlp_case(4, 5, 8, 16)
    forward, both = (_mlp_run(answer, case, grad=grad) for grad in (False, True))
    one, two = len(forward.collectives[0]), len(both.collectives[0])
    expect(
        (one, two) == (1, 2),
        f"on 4 ranks forward takes {one} collectives and backward {two - one}; one all-reduce each is enough, because "
        "between the columns of w1 and the rows of w2 no rank needs another's numbers",
        "collectives",
    )
    bound, sent = _ring_bytes(4, 5 * 8, 2), max(both.bytes_sent)
    expect(
        sent <= bound,
        f"on 4 ranks a rank sent {sent:,} bytes; two all-reduces of x's size send {bound:,}: no weight and no hidden "
        "layer has to travel",
        "too-many-bytes",
    )
    return "output and gradients of one device on 1, 2 and 4 ranks · b2 once · one all-reduce each way"


# column_shard


@check(value=1, held=1, different=1)
def check_column_shard(answer: Any, part: Any) -> str:
    cases = []
    for ranks, rows, columns in ((2, 3, 4), (4, 5, 8), (1, 2, 2), (3, 4, 6)):
        generator = torch.Generator().manual_seed(17 + ranks)
        cases.append((ranks, rows, columns, torch.randn(rows, columns, generator=generator)))
    torch.manual_seed(17)
    runs = []
    part("value")
    for ranks, rows, columns, whole in cases:
        case = f"{_on(ranks)} with a weight of {rows} x {columns}"
        got = _run(case, cut, answer, 17 + ranks, rows, columns, ranks=ranks)
        runs.append((case, ranks, whole, got))
        alike = ranks > 1 and all(equal(mine, got[0][0]) for mine, _ in got)
        expect(
            not alike,
            f"{case} all ranks hold the same numbers: every shard was seeded alike. Together they must be the weight "
            "that "
            "one process draws",
            "seeded-alike",
        )
        for rank, (mine, _) in enumerate(got):
            want = whole.chunk(ranks, 1)[rank]
            expect(
                list(mine.shape) == list(want.shape),
                f"{case} rank {rank} holds {list(mine.shape)}; its columns are {list(want.shape)}",
                "shape",
            )
            expect(
                near(mine, want, 1e-6),
                f"{case} rank {rank} holds {_numbers(mine)}; it should be {_numbers(want)}",
                "value",
            )
    part("held")
    for case, ranks, whole, got in runs:
        for rank, (_, nbytes) in enumerate(got):
            bound = whole.numel() * 4 // ranks
            expect(
                nbytes <= bound,
                f"{case} the shard of rank {rank} keeps {nbytes} bytes alive, and is {bound} bytes large: it is a "
                "view of the "
                "whole weight. Make a copy (.clone()), and the whole can be freed",
                "view",
            )
    part("different")
    _run("on 2 real ranks", cut, answer, 3, 4, 4, ranks=2, real=True)
    return "together the weight of one process · different on every rank · each keeps only its own bytes"


# tensor_parallel_attention


def _attend(x: torch.Tensor, wq: torch.Tensor, wk: torch.Tensor, wv: torch.Tensor, wo: torch.Tensor, size: int):
    def heads(t: torch.Tensor) -> torch.Tensor:
        return t.reshape(*t.shape[:2], -1, size).permute(0, 2, 1, 3)

    q, k, v = heads(x @ wq), heads(x @ wk), heads(x @ wv)
    group = q.shape[1] // k.shape[1]
    k, v = (torch.stack([t[:, head // group] for head in range(q.shape[1])], 1) for t in (k, v))
    scores = q @ k.mT / math.sqrt(size)
    scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
    return (scores.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2) @ wo


def _attention_case(ranks: int, heads: int, kv_heads: int, size: int = 2) -> dict[str, Any]:
    hidden = heads * size
    x, grad = _draw(2, 3, hidden), _draw(2, 3, hidden, seed=7)
    wq, wk, wv, wo = (_draw(*shape, seed=place + 1) for place, shape in enumerate(
        ((hidden, hidden), (hidden, kv_heads * size), (hidden, kv_heads * size), (hidden, hidden))))  # fmt: skip
    shards = []
    for rank in range(ranks):
        mine = range(rank * heads // ranks, (rank + 1) * heads // ranks)
        needed = sorted({head * kv_heads // heads for head in mine})
        columns = [column for head in needed for column in range(head * size, (head + 1) * size)]
        shards.append([wq.chunk(ranks, 1)[rank].contiguous(), wk[:, columns], wv[:, columns], wo.chunk(ranks, 0)[rank]])
    want = _graded(lambda *leaves: _attend(*leaves, size), [x, wq, wk, wv, wo], grad)
    return {"x": x, "grad": grad, "shards": shards, "ranks": ranks, "want": want, "size": size}


def _attends(answer: Any, case: dict[str, Any], name: str, real: bool = False) -> Results:
    ranks, size = case["ranks"], case["size"]
    told = f"{_on(ranks, real)}{name}"
    got = _run(told, layered, answer, case["x"], case["shards"], [], case["grad"], (size,), ranks=ranks, real=real)
    expect(all(mine is not None for mine in got), f"{told} it returned no tensor", "form")
    for rank, (y, _) in enumerate(got):
        own = _attend(case["x"], *case["shards"][rank], size)
        want = case["want"][0]
        expect(
            ranks == 1 or not near(y, own, 1e-9),
            f"{told} rank {rank} returns the part of its own heads: sum over the ranks after the output matrix",
            "no-sum",
        )
        expect(
            near(y, want, 1e-9),
            f"{told} rank {rank} returns {_numbers(y)}; one device returns {_numbers(want)}",
            "value",
        )
    return got


@check(value=2, gradients=1, kv_heads=1, refuse=1)
def check_tensor_parallel_attention(answer: Any, part: Any) -> str:
    part("value")
    cases = [_attention_case(2, 4, 4), _attention_case(4, 4, 4), _attention_case(1, 2, 2)]
    runs = [_attends(answer, case, "") for case in cases]
    _attends(answer, cases[0], "", real=True)
    part("gradients")
    for case, got in zip(cases, runs, strict=True):
        for rank, (_, grads) in enumerate(got):
            want = [case["want"][1][0], case["want"][1][1].chunk(case["ranks"], 1)[rank]]
            for name, mine, right in zip(("x", "wq"), grads, want, strict=False):
                expect(
                    near(mine, right, 1e-9),
                    f"{_on(case['ranks'])} the gradient of {name} on rank {rank} is {_numbers(mine)}; one device has "
                    f"{_numbers(right)}" + (": let x pass through CopyToRanks" if name == "x" else ""),
                    "no-f" if name == "x" else "gradient",
                )
        count = len(_attends(answer, case, "").collectives[0])
        expect(count <= 2, f"{_on(case['ranks'])} it takes {count} collectives; one each way is enough", "collectives")
    part("kv heads")
    _attends(answer, _attention_case(2, 4, 2), " with 4 query heads and 2 key/value heads")
    _attends(answer, _attention_case(4, 4, 2), " with 2 key/value heads, fewer than ranks: two ranks hold the same one")
    _attends(answer, _attention_case(2, 8, 4), " with 8 query heads and 4 key/value heads")
    part("refuse")
    size = 4
    x, w = _draw(1, 2, 12), _draw(12, 6, seed=1)
    for told, q, kv in (("wq with 6 columns", 6, 4), ("wk with 6 columns", 4, 6)):
        shards = (w[:, :q].contiguous(), w[:, :kv].contiguous(), w[:, :kv].contiguous(), _draw(q, 12, seed=2))
        got = _run(f"on 2 ranks with {told}", refused, answer, x, *shards, size, ranks=2)[0]
        expect(
            got.startswith("ValueError") and len(got) > 20,
            f"on 2 ranks with {told} and heads of {size} it raised {got}: 3 heads on 2 ranks would cut a head in the "
            "middle. "
            "Raise a ValueError with a sentence",
            "heads-cut",
        )
    return "one device's attention from heads on 1, 2 and 4 ranks · shared key/value heads · cut heads refused"


# vocabulary_parallel_cross_entropy


@check(value=2, gradients=1, stable=1, bytes=1)
def check_vocabulary_parallel_cross_entropy(answer: Any, part: Any) -> str:
    def judged(ranks: int, tokens: int, width: int, scale: float, real: bool = False) -> tuple:
        logits = _draw(tokens, ranks * width) * scale
        targets = (torch.arange(tokens) * 5 + 1) % (ranks * width)
        leaf = logits.clone().requires_grad_()
        want = torch.nn.functional.cross_entropy(leaf, targets)
        (grad,) = torch.autograd.grad(want, leaf)
        shards = [shard.contiguous() for shard in logits.chunk(ranks, 1)]
        case = f"{_on(ranks, real)} with {ranks * width} words" + (" and logits of up to 1,000" if scale > 100 else "")
        got = _run(case, losses, answer, shards, targets, ranks=ranks, real=real)
        for rank, (loss, _) in enumerate(got):
            local = (logits.chunk(ranks, 1)[rank].logsumexp(-1)).mean()
            expect(
                ranks == 1 or not near(loss, local - _picked(logits, targets, ranks, rank), 1e-9),
                f"{case} rank {rank} returns the loss over its own words: the sum of exps must be over all ranks",
                "own-words",
            )
            expect(
                near(loss, want.detach(), 1e-8),
                f"{case} rank {rank} returns {loss.item():.6g}; one device returns {want.item():.6g}",
                "value",
            )
        return case, ranks, got, grad.chunk(ranks, 1)

    part("value")
    runs = [judged(2, 6, 4, 1.0), judged(4, 5, 3, 1.0), judged(1, 4, 6, 1.0), judged(2, 6, 4, 1.0, real=True)]
    part("gradients")
    for case, ranks, got, want in runs:
        for rank in range(ranks):
            expect(
                near(got[rank][1], want[rank], 1e-8),
                f"{case} the gradient of rank {rank}'s logits begins {_numbers(got[rank][1])}; one device has "
                f"{_numbers(want[rank])}",
                "gradient",
            )
    part("stable")
    judged(2, 4, 4, 500.0)
    part("bytes")
    tokens, width, ranks = 8, 200, 4
    logits = _draw(tokens, ranks * width)
    shards = [shard.contiguous() for shard in logits.chunk(ranks, 1)]
    trace = _run("on 4 ranks", losses, answer, shards, torch.arange(tokens), ranks=ranks)
    bound, sent = _ring_bytes(ranks, tokens, 8), max(trace.bytes_sent)
    expect(
        sent <= bound,
        f"on {ranks} ranks with {tokens} tokens and {ranks * width} words a rank sent {sent:,} bytes; a few numbers "
        "for "
        f"each token, {bound:,} bytes at most, are enough: do not gather the logits",
        "gathers-logits",
    )
    return "loss and gradients of one device on 1, 2 and 4 ranks · large logits · a few numbers per token"


def _picked(logits: torch.Tensor, targets: torch.Tensor, ranks: int, rank: int) -> torch.Tensor:
    return logits.gather(1, targets[:, None]).mean()


# sequence_parallel_bytes


@check(held=1, sent=1)
def check_sequence_parallel_bytes(answer: Any, part: Any) -> str:
    cases = [(2048, 4096, 2, 8), (1024, 64, 4, 4), (100, 10, 2, 1), (6, 8, 4, 3)]
    answers = [answer(*case) for case in cases]
    for case, got in zip(cases, answers, strict=True):
        pair = isinstance(got, (list, tuple)) and len(got) == 2
        expect(pair, f"with {case} it returned {got!r}: return (bytes held, bytes sent)", "form")
    for place, name in enumerate(("held", "sent")):
        part(name)
        for (tokens, hidden, element, ranks), got in zip(cases, answers, strict=True):
            whole = tokens * hidden * element
            want = whole / ranks if name == "held" else 8 * (ranks - 1) / ranks * whole
            said = f"with {tokens} tokens, hidden {hidden}, {element} bytes and {ranks} ranks"
            if name == "sent":
                halves = [close(got[place], want * factor, 1e-6) and ranks > 1 for factor in (0.5, 1.5)]
                expect(
                    not halves[0],
                    f"{said} you count {got[place]:,.0f} bytes, half of it: forward has two sums and backward two, "
                    "and each is a "
                    "reduce-scatter and an all-gather",
                    "half",
                )
            expect(
                close(got[place], want, 1e-6),
                f"{said} a rank {'holds' if name == 'held' else 'sends'} {want:,.0f} bytes, not {got[place]!r}"
                + (": four times a reduce-scatter and an all-gather" if name == "sent" else ": its part of the tokens"),
                f"wrong-{name}",
            )
    return "1/P of the stream held, and as many bytes sent as with all-reduces"
