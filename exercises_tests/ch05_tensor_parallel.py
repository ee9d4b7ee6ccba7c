"""Checks of chapter 5: equal outputs and gradients from shards, one all-reduce each way, and nothing held whole."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import torch
from torch.nn.functional import gelu

from course_lib import Cluster, RankFailed, Results, each, run
from course_lib.engine.storages import Alive
from exercises_tests.judging import alone, check, code_of, expect
from exercises_tests.values import close, equal, integers, near

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
REAL_SECONDS = 20  # after which a run on real ranks counts as hung
NO_GRADIENT_OF_DIST = (
    "incorrect number of gradients",
    "backward returns one gradient for each argument of forward, x and dist: that of dist is None.",
)
NO_OFFSET = ("out of bounds", "targets count the words of all ranks; this rank's n words begin at rank · n.")
IN_PLACE = (
    "modified by an inplace operation",
    "all_reduce wrote over numbers that backward needs: take the maximum of logits.detach(), and sum with "
    "ReduceFromRanks.",
)


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


class Counted(np.ndarray):
    """An array; `products` has how many matrices each product with it, or with a part of it, gave."""

    def __array_finalize__(self, source: Any) -> None:
        self.products = getattr(source, "products", [])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple = (), **kwargs: Any) -> Any:
        kwargs |= {"out": tuple(map(_plain, out))} if out else {}
        result = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
        if ufunc is np.matmul:
            self.products.append(math.prod(result.shape[:-2]))
        return result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def multiplied(answer: Any, x: np.ndarray, shards: list) -> tuple:
    x = x.view(Counted)
    return _plain(answer(x, shards)), sum(x.products)


def applied(dist: Any, answer: Any, x: torch.Tensor, grad: torch.Tensor, backward: bool, turned: bool) -> Any:
    x = x.clone().requires_grad_()
    try:
        y = answer.apply(x, dist)
        given = x.detach().clone()
        if backward:
            (y.t() if turned else y).backward(grad.t().contiguous() if turned else grad)
    except NotImplementedError:
        return "not written"
    return [y.detach() if isinstance(y, torch.Tensor) else None, x.grad, given, grad]


class Untold:
    """Passes every call on; `untold` counts the all_reduces of tensors that autograd follows, without being told."""

    def __init__(self, dist: Any) -> None:
        self._dist, self.untold = dist, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dist, name)

    def all_reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        self.untold += torch.is_grad_enabled() and getattr(tensor, "requires_grad", False)
        return self._dist.all_reduce(tensor, *args, **kwargs)


def layered(dist: Any, answer: Any, x: torch.Tensor, shards: list, shared: list, grad: Any, more: tuple = ()) -> Any:
    dist = Untold(dist)
    x = x.clone().requires_grad_()
    own = [shard.clone().requires_grad_() for shard in shards]
    same = [tensor.clone().requires_grad_() for tensor in shared]
    y = answer(dist, x, *own, *same, *more)
    if not isinstance(y, torch.Tensor):
        return None
    if grad is not None:
        y.backward(grad)
    return y.detach(), [leaf.grad for leaf in (x, *own, *same)], dist.untold


def refused(dist: Any, answer: Any, *data: Any) -> tuple | None:
    try:
        answer(dist, *data)
    except NotImplementedError:
        raise
    except Exception as error:
        return isinstance(error, ValueError), type(error).__name__, str(error)
    return None


def cut(dist: Any, answer: Any, seed: int, rows: int, columns: int) -> tuple:
    alive = Alive()
    with alive:
        mine = answer(alive.beside(dist), seed, rows, columns)
    gc.collect()  # what a cycle of references keeps is not kept on purpose
    return mine.detach(), mine.untyped_storage().nbytes(), alive.bytes(mine)


def losses(dist: Any, answer: Any, logits: torch.Tensor, targets: torch.Tensor) -> tuple:
    dist, mine = Untold(dist), logits.clone().requires_grad_()
    loss = answer(dist, mine, targets.clone())
    loss.backward()
    return loss.detach(), mine.grad, dist.untold


def hiding(answer: Any, pairs: list) -> Any:
    function = answer()
    if not callable(function):
        return repr(function)
    return [[np.asarray(function(value), dtype=float) for value in (a, b, a + b)] for a, b in pairs]


# What several checks of this chapter ask


def _run(case: str, *call: Any, ranks: int, real: bool = False, hints: tuple = ()) -> Results:
    """Run; a run that fails is a wrong answer, told with its case, and with a hint where torch says certain words."""
    try:
        return run(*call, ranks=ranks, on=None if real else Cluster(), timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        more = "".join(f"\n    {hint}" for words, hint in hints if words in str(failure))
        expect(False, f"{case}: {failure}{more}", code_of(failure))


def _on(ranks: int, real: bool = False) -> str:
    return f"on {ranks} {'real ' if real else ''}{'rank' if ranks == 1 else 'ranks'}"


def _numbers(tensor: Any, first: int = 0) -> str:
    """Return four numbers of a tensor, from the place `first` on."""
    if not isinstance(tensor, (torch.Tensor, np.ndarray)):
        return repr(tensor)
    values = [f"{value:.4g}" for value in tensor.flatten().tolist()[first:]]
    return f"[{'..., ' if first else ''}{', '.join(values[:4])}{', ...' if len(values) > 4 else ''}]"


def _versus(got: Any, says: str, want: Any) -> str:
    """Return what came and what was wanted, from the first number on in which they differ, or their shapes."""
    if not isinstance(got, (torch.Tensor, np.ndarray)):
        return f"{got!r}; {says} {_numbers(want)}"
    if got.shape != want.shape:
        return f"numbers of shape {list(got.shape)}; {says} {list(want.shape)}"
    same = np.abs(np.asarray(got, dtype=float) - np.asarray(want, dtype=float)).flatten() <= 1e-9
    first = int(np.argmin(same)) if same.size else 0
    return f"{_numbers(got, first)}; {says} {_numbers(want, first)}"


def _expect_told(case: str, got: Results) -> None:
    """Judge that no all_reduce was hidden from autograd, whose gradient is then right by luck."""
    for rank, (*_, untold) in enumerate(got):
        expect(
            untold == 0,
            f"{case} rank {rank} calls all_reduce on a tensor that autograd follows, and autograd is not told. The "
            "gradient is right by luck: torch warns, and after an exp, which keeps its result for backward, it is "
            "wrong on real ranks. Sum with ReduceFromRanks, which says what backward does",
            "untold",
        )


def _expect_summed_once(case: str, ranks: int, rank: int, pairs: dict[str, tuple[Any, torch.Tensor]]) -> None:
    """Judge that no gradient was summed over ranks that have the whole of it already; pairs: (gradient, right one)."""
    large = [
        name
        for name, (mine, right) in pairs.items()
        if ranks > 1 and near(mine, ranks * right, 1e-9) and not near(right, 0 * right, 1e-9)
    ]
    said = f"{case} the gradient of {large[0] if large else None} on rank {rank} is {ranks} times too large: "
    expect(
        large != ["b2"],
        f"{said}b2 went through CopyToRanks, which sums in backward, and every rank has the whole gradient of b2 "
        "already. Add b2 as it is",
        "f-on-b2",
    )
    expect(large != ["x"], f"{said}x went through CopyToRanks twice, and once is enough", "f-twice")
    expect(not large, f"{said}the backward of the last sum must not sum again", "sums-twice")


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
            got, products = alone(multiplied, answer, x.copy(), [shard.copy() for shard in shards])
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
        expect(near_np(got, want), f"{case} the result has {_versus(got, 'x @ w has', want)}", "value")
        expect(
            not 0 < products < ranks,  # 0: multiplied by something that does not say so, as x.dot
            f"{case} it takes {products} {'products' if products > 1 else 'product'}: joined shards are the whole w, "
            "which no rank has. Take one product for each shard",
            "joined",
        )


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
        f"it returned {got!r}: return two plain numbers, as in (3.0, 4.0)",
        "form",
    )
    a, b, both = (gelu(torch.tensor(float(v), dtype=torch.float64)).item() for v in (*got, sum(got)))
    expect(
        abs(a + b - both) > 0.01,
        f"GELU({got[0]:g}) + GELU({got[1]:g}) = {a + b:.4f} and GELU({sum(got):g}) = {both:.4f}: that is nearly the "
        "same. Far left of 0 GELU is nearly 0, far right nearly a straight line: take two numbers near 0, neither of "
        "them 0, or one on each side of it",
        "no-counterexample",
    )
    return "GELU(a) + GELU(b) differs from GELU(a + b): summands must be added up before GELU"


@check(value=1)
def check_activation_that_hides_it(answer: Any, part: Any) -> str:
    part("value")
    a, b = _matrices(3, 4, 4)
    pairs = [(a, a[::-1].copy()), (b, -2 * b), (np.array([3.0]), np.array([-0.5])), (np.array([1.5]), np.array([7.0]))]
    got = alone(hiding, answer, [tuple(x.copy() for x in pair) for pair in pairs])
    expect(not isinstance(got, str), f"it returned {got}: return a function, as in `return np.tanh`", "form")
    for one, other, both in got:
        expect(
            one.shape == other.shape == both.shape and near_np(one + other, both),
            f"f(a) + f(b) has {_versus(one + other, 'f(a + b) has', both)}: this function shows the mistake",
            "shows-it",
        )
    different = any(not near_np(one, np.zeros_like(one)) for one, _, _ in got)
    expect(different, "this function is zero everywhere, and no activation: return another", "zero")
    return "f(a) + f(b) = f(a + b): with this activation a test would not see the wrong cut"


# f and g


def _excuse(got: Any, want: torch.Tensor, ranks: int) -> str:
    if got is None:
        return ". all_reduce returns nothing: return the tensor that it worked on"
    return f". Nothing is to be divided by {ranks}" if near(got, want / ranks, 1e-9) else ""


def _expect_not_one(case: str, what: str, has: list[bool]) -> None:
    """Refuse a sum that only one of several ranks has."""
    said = f"{case} only rank {has.index(True) if any(has) else None} has the sum of {what}, as after a reduce; "
    expect(len(has) == 1 or sum(has) != 1, f"{said}every rank needs it: all_reduce", "only-one-rank")


def _autograd(name: str, answer: Any, forward_sums: bool, part: Any) -> None:
    see = f"run(lambda dist: {name}.apply(torch.ones(2, 3), dist), ranks=2, on=Cluster())"
    part("forward")
    does = "returns the sum over ranks, and should return its input"
    if forward_sums:
        does = "returns its input, and should return the sum over ranks"
    runs, counts = [], []
    for ranks, real in ((2, False), (1, False), (3, False), (2, True)):
        drawn = integers(2 * ranks, (2, 3), "float64")
        xs, grads = ([tensor + 10 * (rank + 1) for rank, tensor in enumerate(drawn[half::2])] for half in (0, 1))
        xs = xs if forward_sums else [xs[0]] * ranks
        want_y = [sum(xs)] * ranks if forward_sums else xs
        want_grad = grads if forward_sums else [sum(grads)] * ranks
        case = _on(ranks, real)
        got = _run(case, applied, answer, each(xs), each(grads), False, False, ranks=ranks, real=real)
        expect(got[0] != "not written", "not written yet", "not-written")
        runs.append((case, ranks, real, want_grad, xs, grads))
        counts.append(len(got.collectives[0]))
        if forward_sums:
            _expect_not_one(f"{case} forward:", "the ranks' x", [near(y, want_y[0], 1e-9) for y, *_ in got])
        for rank, (y, _, given, _) in enumerate(got):
            swapped = xs[rank] if forward_sums else sum(xs)
            expect(
                ranks == 1 or not (isinstance(y, torch.Tensor) and near(y, swapped, 1e-9)),
                f"{case} forward {does}: f and g are swapped",
                "swapped", see,
            )  # fmt: skip
            expect(
                isinstance(y, torch.Tensor) and near(y, want_y[rank], 1e-9),
                f"{case} rank {rank}'s forward returns {_versus(y, 'it should be', want_y[rank])}"
                + _excuse(y, want_y[rank], ranks),
                "forward", see,
            )  # fmt: skip
            expect(
                near(given, xs[rank], 0),
                f"{case} forward changed its input on rank {rank}: all_reduce works in place, so give it a clone",
                "input-changed", see,
            )  # fmt: skip
    part("backward")
    both = []
    for case, ranks, real, want_grad, xs, grads in runs:
        data = (each(xs), each(grads), True, False)
        got = _run(case, applied, answer, *data, ranks=ranks, real=real, hints=(NO_GRADIENT_OF_DIST,))
        expect(got[0] != "not written", "not written yet", "not-written")
        both.append(len(got.collectives[0]))
        if not forward_sums:
            _expect_not_one(
                f"{case} backward:", "the ranks' gradients", [near(grad, want_grad[0], 1e-9) for _, grad, *_ in got]
            )
        for rank, (_, grad, _, passed) in enumerate(got):
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
                f"{case} the gradient of x on rank {rank} is {_versus(grad, 'it should be', want_grad[rank])}"
                + _excuse(grad, want_grad[rank], ranks),
                "backward",
            )
            expect(
                near(passed, grads[rank], 0),
                f"{case} backward changed the gradient that it was given on rank {rank}, which others may still need: "
                "all_reduce works in place, so give it a clone (.contiguous() copies only what needs it)",
                "gradient-changed",
            )
    _, ranks, _, want_grad, xs, grads = runs[0]
    case = f"{_on(ranks)} with a gradient that is not contiguous (a transposed one)"
    got = _run(case, applied, answer, each(xs), each(grads), True, True, ranks=ranks)
    for rank, (_, grad, *_) in enumerate(got):
        expect(
            near(grad, want_grad[rank], 1e-9),
            f"{case} the gradient of x on rank {rank} is {_versus(grad, 'it should be', want_grad[rank])}",
            "not-contiguous",
        )
    part("collectives")
    want = (1, 1) if forward_sums else (0, 1)
    expect(
        (counts[0], both[0]) == want,
        f"on 2 ranks forward takes {counts[0]} collectives and backward {both[0] - counts[0]}; "
        f"{name} needs {want[0]} and {want[1] - want[0]}",
        "collectives",
    )
    ranks, (x, grad) = 4, integers(2, (2, 4), "float64")
    trace = _run(_on(ranks), applied, answer, x, grad, True, False, ranks=ranks)
    bound, sent = _ring_bytes(ranks, x.numel(), 1), max(trace.bytes_sent)
    expect(
        sent <= bound,
        f"on {ranks} ranks a rank sent {sent:,} bytes; an all_reduce sends {bound:,}. An all_gather sends whole "
        f"tensors to all, who then hold {ranks} copies: sum with all_reduce",
        "too-many-bytes",
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
        (
            sum(gelu(x @ w1 + b1) for w1, b1, _ in shards) @ shards[0][2] + b2,
            "the ranks' columns were added up before w2: rank r's columns belong to rank r's rows of w2. Multiply "
            "first, then sum",
            "sum-before-w2",
        ),
        (sum(parts), "b2 was not added", "no-bias"),
        (sum((x @ w1 + b1) @ w2 for w1, b1, w2 in shards) + b2, "GELU is missing between w1 and w2", "no-gelu"),
        (sum(gelu(x @ w1) @ w2 for w1, _, w2 in shards) + b2, "b1_shard was not added", "no-b1"),
        (sum(parts) / ranks + b2, "the parts were averaged: they are summands, so add them up", "mean"),
    ]
    if shards[0][0].shape[0] == shards[0][0].shape[1]:
        turned = sum(gelu(x @ w1.T + b1) @ w2.T for w1, b1, w2 in shards) + b2
        said = "the weights were transposed: here y = x @ w, as in the text, not as nn.Linear stores it"
        mistakes.append((turned, said, "transposed"))
    return mistakes


def _mlp_run(answer: Any, case: dict[str, Any], real: bool = False, grad: bool = True) -> Results:
    ranks = case["ranks"]
    data = (case["whole"][0], each(case["shards"]), case["whole"][4:], case["grad"] if grad else None)
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
            "rows, so it takes this rank's columns of the hidden layer. Nothing is transposed, and x is not cut.",
            "row-then-column",
        )
        expect(False, f"{_on(ranks, real)} with {shapes}: {failure}", code_of(failure))


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
            f"{_on(ranks, real)} rank {rank} returns {_versus(got[rank][0], 'one device returns', want)}",
            "value",
        )
    part("gradients")
    names = ("x", "w1_shard", "b1_shard", "w2_shard", "b2")
    for (case, real), got in zip(cases, runs, strict=True):
        ranks = case["ranks"]
        gx, gw1, gb1, gw2, gb2 = case["want"][1]
        for rank, (_, grads, _) in enumerate(got):
            want = (gx, gw1.chunk(ranks, 1)[rank], gb1.chunk(ranks)[rank], gw2.chunk(ranks, 0)[rank], gb2)
            w1, b1, w2 = (shard.clone().requires_grad_() for shard in case["shards"][rank])
            x = case["whole"][0].clone().requires_grad_()
            (own,) = torch.autograd.grad(gelu(x @ w1 + b1) @ w2, x, case["grad"])
            expect(
                ranks == 1 or not near(grads[0], own, 1e-9),
                f"{_on(ranks, real)} the gradient of x on rank {rank} is that of its own shards; x went to all "
                "ranks, so the gradients must be summed: let x pass through CopyToRanks",
                "no-f",
            )
            pairs = dict(zip(names, zip(grads, want, strict=True), strict=True))
            _expect_summed_once(_on(ranks, real), ranks, rank, pairs)
            for name, (mine, right) in pairs.items():
                expect(
                    ranks == 1 or name != "b2" or not near(mine, right / ranks, 1e-9),
                    f"{_on(ranks, real)} the gradient of b2 on rank {rank} is 1/{ranks} of one device's: b2 was "
                    "divided before the sum, so each rank learns a part of it. Add all of it after the sum",
                    "divided-bias",
                )
                expect(
                    near(mine, right, 1e-9),
                    f"{_on(ranks, real)} the gradient of {name} on rank {rank} is "
                    f"{_versus(mine, 'one device has', right)}",
                    "gradient",
                )
        _expect_told(_on(ranks, real), got)
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
    for ranks, rows, columns in ((2, 3, 4), (4, 5, 8), (1, 2, 2), (3, 4, 6), (2, 1, 6)):
        generator = torch.Generator().manual_seed(17 + ranks)
        cases.append((ranks, rows, columns, torch.randn(rows, columns, generator=generator)))
    torch.manual_seed(17)
    runs = []
    part("value")
    for ranks, rows, columns, whole in cases:
        case = f"{_on(ranks)} with a weight of {rows} x {columns}"
        got = _run(case, cut, answer, 17 + ranks, rows, columns, ranks=ranks)
        runs.append((case, ranks, whole, got))
        alike = ranks > 1 and all(equal(mine, got[0][0]) for mine, *_ in got)
        expect(
            not alike,
            f"{case} all ranks hold the same numbers: every shard was seeded alike. Together they must be the weight "
            "that one process draws",
            "seeded-alike",
        )
        for rank, (mine, *_) in enumerate(got):
            want = whole.chunk(ranks, 1)[rank]
            expect(
                list(mine.shape) == list(want.shape),
                f"{case} rank {rank} holds a tensor of shape {list(mine.shape)}; its columns have shape "
                f"{list(want.shape)}",
                "shape",
            )
        apart = [torch.Generator().manual_seed(17 + ranks + rank) for rank in range(ranks)]
        expect(
            ranks == 1 or not all(
                near(mine, torch.randn(mine.shape, generator=own), 1e-6)
                for (mine, *_), own in zip(got, apart, strict=True)
            ),
            f"{case} every rank drew a shard of its own, from seed + rank: together they are not the weight that one "
            "process draws. Draw the whole weight from the one seed, and keep your columns",
            "seeded-apart",
        )  # fmt: skip
        for rank, (mine, *_) in enumerate(got):
            want = whole.chunk(ranks, 1)[rank]
            expect(
                near(mine, want, 1e-6),
                f"{case} rank {rank} holds {_versus(mine, 'it should be', want)}",
                "value",
            )
    part("held")
    for case, ranks, whole, got in runs:
        for rank, (_, nbytes, alive) in enumerate(got):
            bound = whole.numel() * 4 // ranks
            expect(
                nbytes <= bound,
                f"{case} the shard of rank {rank} keeps {nbytes} bytes alive, and is {bound} bytes large: it is a "
                "view of the whole weight. Make a copy (.clone(); .contiguous() copies only what needs it), and the "
                "whole can be freed",
                "view",
            )
            expect(
                alive <= bound,
                f"{case}: of what rank {rank} made {alive} bytes are alive after it returned, and its shard is {bound} "
                "bytes large: something keeps the whole weight, a list or a global name. Let it go",
                "kept",
            )
    part("different")
    _run("on 2 real ranks", cut, answer, 3, 4, 4, ranks=2, real=True)
    return "together the weight of one process · different on every rank · each keeps only its own bytes"


# tensor_parallel_attention


def _attend(x: torch.Tensor, wq: Any, wk: Any, wv: Any, wo: Any, size: int, mistake: str = "") -> torch.Tensor:
    """Return causal attention; with `mistake` as learners get it wrong."""

    def heads(t: torch.Tensor) -> torch.Tensor:
        if mistake == "rows":
            return t.reshape(len(t), -1, t.shape[1], size)
        if mistake == "every n-th":
            return t.unflatten(-1, (size, -1)).permute(0, 3, 1, 2)
        return t.reshape(*t.shape[:2], -1, size).permute(0, 2, 1, 3)

    q, k, v = heads(x @ wq), heads(x @ wk), heads(x @ wv)
    group, few = q.shape[1] // k.shape[1], k.shape[1]
    shared = [head % few if mistake == "tiled" else head // group for head in range(q.shape[1])]
    k, v = k[:, shared], v[:, shared]
    scores = q @ k.mT / (1 if mistake == "no scale" else math.sqrt(size))
    if mistake != "no mask":
        scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
    return (scores.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2) @ wo


CUT_HEADS = (
    "heads are cut in the middle: a head is head_size neighbouring columns, unflatten(-1, (-1, head_size)), and "
    "then transpose(1, 2)"
)
ATTENTION_MISTAKES = {
    "rows": (CUT_HEADS, "heads-mixed"),
    "every n-th": (CUT_HEADS, "heads-mixed"),
    "tiled": (
        "query heads share the wrong key/value heads: neighbouring query heads share one (repeat_interleave, not "
        "repeat)",
        "kv-order",
    ),
    "no scale": ("the scores were not divided by the root of head_size", "no-scale"),
    "no mask": ("each token sees the tokens after it: attention here is causal", "no-mask"),
}


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
    own = [_graded(lambda *leaves: _attend(*leaves, size), [x, *mine], grad)[1] for mine in shards]
    return {"x": x, "grad": grad, "shards": shards, "ranks": ranks, "want": want, "own": own, "size": size}


def _attends(answer: Any, case: dict[str, Any], name: str, real: bool = False) -> Results:
    ranks, size = case["ranks"], case["size"]
    told = f"{_on(ranks, real)}{name}"
    data = (case["x"], each(case["shards"]), [], case["grad"], (size,))
    got = _run(told, layered, answer, *data, ranks=ranks, real=real)
    expect(all(mine is not None for mine in got), f"{told} it returned no tensor", "form")
    want = case["want"][0]
    for rank, (y, *_) in enumerate(got):
        if near(y, want, 1e-9):
            continue
        own = _attend(case["x"], *case["shards"][rank], size)
        for mistake, (said, code) in ATTENTION_MISTAKES.items():
            other = sum(_attend(case["x"], *shards, size, mistake) for shards in case["shards"])
            expect(not near(y, other, 1e-9), f"{told} {said}", code)
        expect(
            not near(y, own, 1e-9),
            f"{told} rank {rank} returns the part of its own heads: sum over the ranks after the output matrix",
            "no-sum",
        )
        expect(
            False,
            f"{told} rank {rank} returns {_versus(y, 'one device returns', want)}",
            "value",
        )
    return got


def _attention_gradients(case: dict[str, Any], told: str, got: Results) -> None:
    """Judge the gradients of a rank's shards, which are what its own heads make of them, and of x, summed over all."""
    whole = case["want"][1][0]
    for rank, ((x, *grads), own) in enumerate(zip([grads for _, grads, _ in got], case["own"], strict=True)):
        pairs = dict(zip(("wq", "wk", "wv", "wo"), zip(grads, own[1:], strict=True), strict=True))
        for name, (mine, _) in pairs.items():
            said = f"{told} {name} has no gradient on rank {rank}: before the result it is detached from autograd"
            expect(mine is not None, said, "no-gradient")
        _expect_summed_once(told, case["ranks"], rank, pairs | {"x": (x, whole)})
        for name, (mine, right) in pairs.items():
            said = f"{told} the gradient of {name} on rank {rank} is {_versus(mine, 'its own heads have', right)}"
            expect(near(mine, right, 1e-9), said, "gradient")
        said = f"{told} the gradient of x on rank {rank} is "
        expect(
            case["ranks"] == 1 or not near(x, own[0], 1e-9),
            f"{said}that of its own heads; x went to all ranks, so the gradients must be summed: let x pass through "
            "CopyToRanks",
            "no-f",
        )
        expect(near(x, whole, 1e-9), said + _versus(x, "one device has", whole), "gradient")
    _expect_told(told, got)


@check(value=2, gradients=1, kv_heads=1, refuse=1)
def check_tensor_parallel_attention(answer: Any, part: Any) -> str:
    part("value")
    cases = [_attention_case(2, 4, 4), _attention_case(4, 4, 4), _attention_case(1, 2, 2)]
    runs = [_attends(answer, case, "") for case in cases]
    _attends(answer, cases[0], "", real=True)
    part("gradients")
    for case, got in zip(cases, runs, strict=True):
        _attention_gradients(case, _on(case["ranks"]), got)
        count = len(got.collectives[0])
        expect(count <= 2, f"{_on(case['ranks'])} it takes {count} collectives; one each way is enough", "collectives")
    part("kv heads")
    for ranks, heads, kv_heads, name in (
        (2, 4, 2, " with 4 query heads and 2 key/value heads"),
        (4, 4, 2, " with 2 key/value heads, fewer than ranks: two ranks hold the same one"),
        (2, 8, 4, " with 8 query heads and 4 key/value heads"),
    ):
        case = _attention_case(ranks, heads, kv_heads)
        _attention_gradients(case, f"{_on(ranks)}{name}", _attends(answer, case, name))
    part("refuse")
    size = 4
    x, w = _draw(1, 2, 12), _draw(12, 6, seed=1)
    for told, q, kv in (("wq with 6 columns", 6, 4), ("wk with 6 columns", 4, 6)):
        shards = (w[:, :q].contiguous(), w[:, :kv].contiguous(), w[:, :kv].contiguous(), _draw(q, 12, seed=2))
        got = _run(f"on 2 ranks with {told}", refused, answer, x, *shards, size, ranks=2)[0]
        right, kind, words = got or (False, "nothing", "")
        expect(
            right and len(words) > 8,
            f"on 2 ranks with {told} and heads of {size} it raised {kind}{': ' if words else ''}{words[:120]}. "
            "3 heads on 2 ranks would cut a head in the middle: raise a ValueError with a sentence",
            "heads-cut",
        )
    return "one device's attention from heads on 1, 2 and 4 ranks · shared key/value heads · cut heads refused"


# vocabulary_parallel_cross_entropy


@check(value=2, gradients=1, stable=1, bytes=1)
def check_vocabulary_parallel_cross_entropy(answer: Any, part: Any) -> str:
    def judged(ranks: int, tokens: int, width: int, most: float = 0, real: bool = False) -> tuple:
        logits = _draw(tokens, ranks * width)
        logits = logits * (most / logits.max()) if most else logits
        targets = (torch.arange(tokens) * 5 + 1) % (ranks * width)
        leaf = logits.clone().requires_grad_()
        want = torch.nn.functional.cross_entropy(leaf, targets)
        (grad,) = torch.autograd.grad(want, leaf)
        shards = [shard.contiguous() for shard in logits.chunk(ranks, 1)]
        case = f"{_on(ranks, real)} with {ranks * width} words" + (f" and logits of up to {most:,}" if most else "")
        got = _run(case, losses, answer, each(shards), targets, ranks=ranks, real=real, hints=(NO_OFFSET, IN_PLACE))
        for rank, (loss, *_) in enumerate(got):
            if near(loss, want.detach(), 1e-8):
                continue
            for other, said, code in _loss_mistakes(shards, targets, want.detach()):
                expect(ranks == 1 or not near(loss, other, 1e-8), f"{case} rank {rank} {said}", code)
            local = shards[rank].logsumexp(-1).mean()
            expect(
                ranks == 1 or not near(loss, local - logits.gather(1, targets[:, None]).mean(), 1e-9),
                f"{case} rank {rank} returns the loss over its own words: the sum of exps must be over all ranks",
                "own-words",
            )
            expect(
                False,
                f"{case} rank {rank} returns {loss.item():.6g}; one device returns {want.item():.6g}"
                + ("" if loss.isfinite().all() else ". exp overflows: subtract the maximum over all ranks first"),
                "value",
            )
        return case, ranks, got, grad.chunk(ranks, 1)

    part("value")
    runs = [judged(2, 6, 4), judged(4, 5, 3), judged(1, 4, 6), judged(2, 6, 4, real=True)]
    part("gradients")
    for case, ranks, got, want in runs:
        for rank in range(ranks):
            expect(
                near(got[rank][1], want[rank], 1e-8),
                f"{case} the gradient of rank {rank}'s logits is {_versus(got[rank][1], 'one device has', want[rank])}",
                "gradient",
            )
        _expect_told(case, got)
    part("stable")
    judged(2, 4, 4, 1000)  # exp overflows from 710 on
    part("bytes")
    tokens, width, ranks = 8, 200, 4
    logits = _draw(tokens, ranks * width)
    shards = [shard.contiguous() for shard in logits.chunk(ranks, 1)]
    trace = _run("on 4 ranks", losses, answer, each(shards), torch.arange(tokens), ranks=ranks)
    bound, sent = _ring_bytes(ranks, tokens, 8), max(trace.bytes_sent)
    expect(
        sent <= bound,
        f"on {ranks} ranks with {tokens} tokens and {ranks * width} words a rank sent {sent:,} bytes; a few numbers "
        f"for each token, {bound:,} bytes at most, are enough: do not gather the logits",
        "gathers-logits",
    )
    return "loss and gradients of one device on 1, 2 and 4 ranks · large logits · a few numbers per token"


def _loss_mistakes(shards: list, targets: torch.Tensor, want: torch.Tensor) -> list[tuple[torch.Tensor, str, str]]:
    """Return what every rank would return with each mistake that has a sentence of its own."""
    width, everywhere, own, apart = shards[0].shape[1], 0, 0, 0
    most = torch.stack([shard.amax(-1) for shard in shards]).amax(0)
    total = sum((shard - most[:, None]).exp().sum(-1) for shard in shards)
    for rank, shard in enumerate(shards):
        local = targets - rank * width
        mine = (local >= 0) & (local < width)
        picked = shard.gather(1, local.clamp(0, width - 1)[:, None])[:, 0]
        everywhere = everywhere + picked
        own = own + (picked - shard.amax(-1)) * mine
        apart = apart + (shard - shard.amax(-1)[:, None]).exp().sum(-1)
    more = "took a logit for every target: only the rank that has the word may, the others add 0"
    return [
        (want * len(targets), "returns the sum over tokens; the loss is their mean", "sum"),
        (
            (apart.log() - own).mean(),
            "subtracted the maximum of its own words, so the ranks' sums of exps do not fit together: all_reduce the "
            "maximum first, with op=dist.ReduceOp.MAX",
            "own-maximum",
        ),
        ((total.log() - everywhere + len(shards) * most).mean(), more, "target-everywhere"),
        ((total.log() + most - everywhere).mean(), more, "target-everywhere"),
    ]


# sequence_parallel_bytes


def _count(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, (int, float)) else repr(value)


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
                    "and each is a reduce-scatter and an all-gather",
                    "half",
                )
            expect(
                close(got[place], want, 1e-6),
                f"{said} a rank {'holds' if name == 'held' else 'sends'} {want:,.0f} bytes, not {_count(got[place])}"
                + (": four times a reduce-scatter and an all-gather" if name == "sent" else ": its part of the tokens"),
                f"wrong-{name}",
            )
    return "1/P of the stream held, and as many bytes sent as with all-reduces"
