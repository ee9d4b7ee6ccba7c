"""Checks of chapter 5: own shards, equal outputs and gradients from them, one all-reduce each way, nothing whole."""

from __future__ import annotations

import gc
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, gelu

from course_lib import RankFailed, Results, each
from course_lib.engine.storages import Alive
from exercises_tests.judging import Case, Hint, Mistake, alone, check, expect
from exercises_tests.seeds import course_seed, drawn
from exercises_tests.values import (
    all_digits,
    amount,
    close,
    count,
    different,
    draw,
    equal,
    integers,
    near,
    plain,
    ring_bytes,
    rounded,
    shown,
    versus,
)

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
EXACT = 1e-9  # the sums here are of few float64 numbers, and their order is free
LOSS = 1e-8  # exp and log, too
NO_GRADIENT_OF_DIST = Hint(
    "incorrect number of gradients",
    "backward returns one gradient for each argument of forward, x and dist: that of dist is None.",
)
NO_OFFSET = Hint("out of bounds", "targets count the words of all ranks; this rank's n words begin at rank · n.")
IN_PLACE = Hint(
    "modified by an inplace operation",
    "all_reduce wrote over numbers that backward needs: take the maximum of logits.detach(), and sum with "
    "ReduceFromRanks.",
)
CUT_TWICE = Hint(
    "cannot be multiplied",
    "w1 is cut by columns, so it takes all of x; w2 by rows, so it takes this rank's columns of the inner vector. "
    "Nothing is transposed, and x is not cut",
    "row-then-column",
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


def applied(dist: Any, answer: Any, x: torch.Tensor, grad: torch.Tensor, backward: bool, turned: bool = False) -> Any:
    x = x.clone().requires_grad_()
    try:
        y = answer.apply(x, dist)
        given = x.detach().clone()
        if backward:
            (y.t() if turned else y).backward(grad.t().contiguous() if turned else grad)
    except NotImplementedError:
        return "not written"
    return [y.detach() if isinstance(y, torch.Tensor) else None, x.grad, given, grad]


def sharded(dist: Any, answer: Any, layer: dict) -> Any:
    mine = answer(dist, {name: whole.clone() for name, whole in layer.items()})
    if not isinstance(mine, dict):
        return type(mine).__name__
    tensors = {str(name): shard for name, shard in mine.items() if isinstance(shard, torch.Tensor)}
    return {name: (shard.detach(), shard.untyped_storage().nbytes()) for name, shard in tensors.items()}


class Untold:
    """Passes every call on; `untold` counts the all_reduces of tensors that autograd follows, without being told."""

    def __init__(self, dist: Any) -> None:
        self._dist, self.untold = dist, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dist, name)

    def all_reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        self.untold += torch.is_grad_enabled() and getattr(tensor, "requires_grad", False)
        return self._dist.all_reduce(tensor, *args, **kwargs)


def _hush() -> None:
    """Leave out torch's page about a backward that meets an all_reduce: what `untold` counts is told in a sentence."""
    warnings.filterwarnings("ignore", ".*autograd kernel was not registered")


def layered(dist: Any, answer: Any, x: torch.Tensor, shards: list, shared: list, grad: Any, more: tuple) -> Any:
    _hush()
    dist = Untold(dist)
    leaves = [leaf.clone().requires_grad_() for leaf in (x, *shards, *shared)]
    y = answer(dist, *leaves, *more)
    if not isinstance(y, torch.Tensor):
        return None
    if grad is not None:
        y.backward(grad)
    return y.detach(), [leaf.grad for leaf in leaves], dist.untold


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
    if not isinstance(mine, torch.Tensor):
        return type(mine).__name__, 0, 0
    return mine.detach(), mine.untyped_storage().nbytes(), alive.bytes(mine)


def losses(dist: Any, answer: Any, logits: torch.Tensor, targets: torch.Tensor) -> tuple:
    _hush()
    dist, mine = Untold(dist), logits.clone().requires_grad_()
    loss = answer(dist, mine, targets.clone())
    if not isinstance(loss, torch.Tensor):
        return type(loss).__name__, None, 0
    loss.backward()
    return loss.detach(), mine.grad, dist.untold


def hiding(answer: Any, pairs: list) -> Any:
    function = answer()
    if not callable(function):
        return shown(function)
    try:
        return [[np.asarray(function(value), dtype=float) for value in (a, b, a + b)] for a, b in pairs]
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]}


# A product from row shards, in numpy


def _matrices(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return draw((rows, inner)).numpy(), draw((inner, columns), 1).numpy()


@check(value=2)
def check_matmul_row_split(answer: Any, part: Any) -> str:
    part("value")
    for rows, inner, columns, ranks in ((2, 4, 6, 2), (1, 8, 8, 4), (3, 4, 4, 1), (2, 9, 6, 3), (1, 4, 4, 4)):
        x, w = _matrices(rows, inner, columns)
        want, shards = x @ w, np.split(w, ranks)
        summed = sum(x[:, : len(shard)] @ shard for shard in shards)
        case = Case(label=f"with x {x.shape} and {count(ranks, 'shard')} {shards[0].shape}")
        try:
            got, products = alone(multiplied, answer, x.copy(), [shard.copy() for shard in shards])
        except (RankFailed, ValueError) as error:
            if "mismatch" in str(error) or "must match exactly" in str(error):
                fits = "A row shard has some rows of w: multiply it with the columns of x that meet them."
                case.refuse(f"{str(error)[:200]}\n{fits}", "misfit")
            raise
        case.expect(isinstance(got, np.ndarray), f"it returned {type(got).__name__}: return an array", "form")
        same_part = "has every shard meet the first columns of x: shard r meets the r-th part of x's columns"
        beside = f"has the products side by side, {got.shape}; each has all columns, and the result is their sum"
        mistakes = [
            Mistake("same-part", summed, same_part),
            Mistake("side-by-side", ranks > 1 and got.shape == (rows, ranks * columns), beside),
            Mistake("shape", got.shape != want.shape, f"has shape {got.shape}; x @ w has {want.shape}"),
        ]
        case.same(got, want, "the result", *mistakes, says="x @ w is", tolerance=EXACT)
        case.expect(
            not 0 < products < ranks,  # 0: multiplied by something that does not say so, as x.dot
            f"it takes {count(products, 'product')}: joined shards are the whole w, which no rank has. Take one "
            "product for each shard",
            "joined",
        )
    return "x @ w from row shards and parts of x, added, on 1, 2, 3 and 4 ranks"


# activation_that_hides_it


def _one_pair(a: np.ndarray, b: np.ndarray, summed: np.ndarray, both: np.ndarray) -> None:
    """Fail with the first two numbers for which f(a) + f(b) is not f(a + b)."""
    for x, y, of_both, of_sum in zip(a.flat, b.flat, summed.flat, both.flat, strict=True):
        shown = f"f({x:.3g}) + f({y:.3g}) = {of_both:.3g}, but f({x + y:.3g}) = {of_sum:.3g}"
        expect(bool(abs(of_both - of_sum) <= EXACT), f"this function shows the mistake: {shown}", "shows-it")


@check(value=1)
def check_activation_that_hides_it(answer: Any, part: Any) -> str:
    part("value")
    a, b = _matrices(3, 4, 4)
    small = [(np.array([one]), np.array([other])) for one, other in ((2.0, -1.0), (3.0, -0.5), (1.5, 7.0))]
    pairs = [*small, (a, a[::-1].copy()), (b, -2 * b)]
    got = alone(hiding, answer, [tuple(x.copy() for x in pair) for pair in pairs])
    expect(not isinstance(got, str), f"it returned {got}: return a function, as in `return np.tanh`", "form")
    error = got["error"] if isinstance(got, dict) else ""
    arrays = "return a function that takes numpy arrays as well as numbers, such as np.tanh"
    expect(not error, f"with a numpy array the function that it returned raised {error}. Instead {arrays}", "form")
    shapes = [[value.shape for value in made] == [a.shape] * 3 for (a, _), made in zip(pairs, got, strict=True)]
    expect(all(shapes), "the function that it returned gives another shape than it is given: an activation is applied "
           "to each number", "form")  # fmt: skip
    for (a, b), (one, other, both) in zip(pairs, got, strict=True):
        says = "this function shows the mistake: f(a + b) is"
        _one_pair(a, b, one + other, both)
        Case().same(one + other, both, "f(a) + f(b)", says=says, tolerance=EXACT, code="shows-it")
    different = any(not near(one, 0 * one, EXACT) for one, _, _ in got)
    expect(different, "this function is zero everywhere, and no activation: return another", "zero")
    return "f(a) + f(b) = f(a + b): with this activation a test would not see the wrong cut"


# shard_layer

CUT = {"wq": 1, "wk": 1, "wv": 1, "wo": 0, "w1": 1, "b1": 0, "w2": 0}  # the dimension that is cut; b2 is not
LINES = {name: "columns" if dim else "rows" for name, dim in CUT.items()} | {"b1": "numbers"}
WHY = {
    "columns": "by columns, so that a rank has whole heads, or complete numbers for GELU",
    "numbers": "as the columns of w1 are, because each of its numbers belongs to one of them",
    "rows": "by rows, which meet the columns that this rank has computed",
}


def _a_layer(hidden: int, kv: int, ffn: int) -> dict[str, torch.Tensor]:
    shapes = {"wq": (hidden, hidden), "wk": (hidden, kv), "wv": (hidden, kv), "wo": (hidden, hidden),
              "w1": (hidden, ffn), "b1": (ffn,), "w2": (ffn, hidden), "b2": (hidden,)}  # fmt: skip
    return {name: draw(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}


def _cut_wrong(name: str, whole: torch.Tensor, ranks: int, rank: int) -> list[Mistake]:
    """Return what a rank would have of one tensor with each mistake that has a sentence of its own."""
    dim, lines = CUT[name], LINES[name]
    mistakes = [Mistake("not-cut", whole, f"is all of {name}: keep this rank's {lines}")]
    if whole.dim() == 2:
        other, others = 1 - dim, "rows" if dim else "columns"
        cut = f"is cut by {others}: cut {name} {WHY[lines]}"
        mistakes.append(Mistake("other-way", whole.chunk(ranks, other)[rank], cut))
    every = f"has every {ranks}-th of the {lines}: a rank's {lines} are neighbours, n/{ranks} of n"
    first = f"is that of rank 0: rank {rank} has the next {lines}"
    return [
        *mistakes,
        Mistake("every-nth", whole.index_select(dim, torch.arange(rank, whole.shape[dim], ranks)), every),
        Mistake("same-shard", rank > 0 and whole.chunk(ranks, dim)[0], first),
    ]


@check(value=2, held=1)
def check_shard_layer(answer: Any, part: Any) -> str:
    part("value")
    runs = []
    for ranks, hidden, kv, ffn, real in ((2, 4, 4, 6, False), (4, 8, 4, 12, False), (1, 4, 4, 8, False),
                                         (2, 4, 2, 8, True)):  # fmt: skip
        layer = _a_layer(hidden, kv, ffn)
        case = Case(ranks, f"with hidden {hidden}, inner {ffn}", real)
        got = case.run(sharded, answer, layer)
        runs.append((case, got))
        for rank, mine in enumerate(got):
            case.expect(isinstance(mine, dict), f"it returned {mine}: return a dict of tensors", "form")
            missing = [name for name in layer if name not in mine]
            case.expect(not missing, f"rank {rank}'s dict has no tensor {', '.join(missing)}", "form")
            for name, dim in CUT.items():
                what, wrong = f"{name} on rank {rank}", _cut_wrong(name, layer[name], ranks, rank)
                case.same(mine[name][0], layer[name].chunk(ranks, dim)[rank], what, *wrong, tolerance=EXACT)
            b2, once = layer["b2"], "b2 is added after the sum over ranks, where every rank needs all of it"
            cut = [Mistake("b2-cut", b2.chunk(ranks)[rank], f"is cut: {once}"),
                   Mistake("b2-divided", b2 / ranks, f"is divided by {ranks}: {once}, as it is")]  # fmt: skip
            case.same(mine["b2"][0], b2, f"b2 on rank {rank}", *cut, tolerance=EXACT)
    part("held")
    for case, got in runs:
        for rank, mine in enumerate(got):
            for name, (shard, alive) in mine.items():
                case.at_most(alive, shard.numel() * shard.element_size(), f"{name} on rank {rank} {VIEW}", "view")
    return "own columns of wq, wk, wv, w1 and b1, own rows of wo and w2, all of b2 · nothing else kept alive"


# f and g

WAYS = {  # what each gives, and the code and the name of what it must leave as it was
    "forward": ("the result", "input-changed", "its input"),
    "backward": ("the gradient of x", "gradient-changed", "the gradient that it was given"),
}
MISSED = {  # what it takes for the other: by the way, and by whether it is the one that should sum
    ("forward", True): ("swapped", "is its input; forward should return the sum over ranks: f and g are swapped"),
    ("forward", False): ("swapped", "is the sum over ranks; forward should return its input: f and g are swapped"),
    ("backward", True): ("no-sum-in-backward", "is its own; x went to all ranks: it is the sum over all of them"),
    ("backward", False): ("backward-sums", "is the sum over ranks; each has the whole already: return it as it is"),
}


def _given(ranks: int, alike: bool) -> tuple[list, list]:
    """Return x and the gradient of every rank."""
    drawn = different(2 * ranks, (2, 3), "float64")
    return drawn[:1] * ranks if alike else drawn[::2], drawn[1::2]


def _one_way(case: Case, way: str, sums: bool, given: list, want: list, got: list) -> None:
    """Judge what forward or backward made on each rank of what it was given, and that it left that as it was."""
    (code, said), (what, changed, kept) = MISSED[way, sums], WAYS[way]
    has = [near(mine, want[0], EXACT) for mine, _ in got]
    only = f"is not the sum: only rank {has.index(max(has))} has the sum, as after a reduce; all need it: all_reduce"
    for rank, (mine, left) in enumerate(got):
        differs = versus(mine, "it should be", want[rank], EXACT)
        mistakes = [
            Mistake("only-one-rank", sums and sum(has) == 1, only),
            Mistake(code, given[rank] if sums else sum(given), said),
            Mistake(way, mine is None, f"{differs}. all_reduce returns nothing: return the tensor that it worked on"),
            Mistake(way, want[rank] / len(got), f"{differs}. Nothing is to be divided by {len(got)}"),
        ]
        case.same(mine, want[rank], f"{what} on rank {rank}", *mistakes, tolerance=EXACT, code=way)
        case.expect(
            equal(left, given[rank]),
            f"it changed {kept} on rank {rank}, which others may still need: all_reduce works in place, so give it a "
            "clone (.contiguous() copies only what needs it)",
            changed,
        )


def _all_digits(answer: Any, alike: bool) -> None:
    """Judge that forward keeps the dtype, and all digits that it has."""
    for dtype in ("float32", "float64"):
        case = Case(2, f"forward, with numbers of {dtype}:")
        xs = all_digits(2, (2, 3), dtype)
        xs = xs[:1] * 2 if alike else xs
        want = xs[0] if alike else sum(xs)
        for rank, (mine, *_) in enumerate(case.run(applied, answer, each(xs), each(xs), False)):
            says = f"has lost digits: it went through a dtype of fewer; keep {dtype}"
            less = Mistake("digits", rounded(mine, want), says)
            case.same(mine, want, f"the result on rank {rank}", less, code="forward")


def _autograd(name: str, answer: Any, part: Any, sums: str) -> None:
    """Judge f or g; `sums` is the way in which it sums over ranks. The other way it passes on what it is given."""
    see = f"run(lambda dist: {name}.apply(torch.ones(2, 3), dist), ranks=2, on=Cluster())"
    alike, counts = sums == "backward", []
    for place, way in enumerate(("forward", "backward")):
        part(way)
        for ranks, real in ((2, False), (1, False), (3, False), (2, True)):
            case = Case(ranks, f"{way}:", real, see="" if place else see)
            xs, grads = _given(ranks, alike)
            given = grads if place else xs
            want = [sum(given)] * ranks if way == sums else given
            got = case.run(applied, answer, each(xs), each(grads), place == 1, hints=[NO_GRADIENT_OF_DIST])
            expect(got[0] != "not written", "not written yet", "not-written")
            counts.append(len(got.collectives[0]))
            _one_way(case, way, way == sums, given, want, [mine[place::2] for mine in got])
        if place == 0:
            _all_digits(answer, alike)
    case = Case(2, "with a gradient that is not contiguous (a transposed one)")
    xs, grads = _given(2, alike)
    want = [sum(grads)] * 2 if alike else grads
    for rank, (_, grad, *_) in enumerate(case.run(applied, answer, each(xs), each(grads), True, True)):
        case.same(grad, want[rank], f"the gradient of x on rank {rank}", tolerance=EXACT, code="not-contiguous")
    part("collectives")
    forward, backward = (0, 1) if alike else (1, 0)
    one, two = counts[0], counts[4]
    Case(2).expect(
        (one, two - one) == (forward, backward),
        f"forward takes {one} collectives and backward {two - one}; {name} needs {forward} and {backward}",
        "collectives",
    )
    x, grad = integers(2, (2, 4), "float64")
    Case(4).at_most(
        max(Case(4).run(applied, answer, x, grad, True).bytes_sent),
        ring_bytes(4, x.numel(), size=8),
        "a rank sent {seen} bytes; an all_reduce sends {bound}. An all_gather sends whole tensors to all, who then "
        "hold 4 copies: sum with all_reduce",
        "too-many-bytes",
    )


@check(forward=1, backward=2, collectives=1)
def check_CopyToRanks(answer: Any, part: Any) -> str:  # noqa: N802 - named as the class it checks
    _autograd("CopyToRanks", answer, part, sums="backward")
    return "forward returns x, backward sums the gradient over ranks: no collective forward, one backward"


@check(forward=2, backward=1, collectives=1)
def check_ReduceFromRanks(answer: Any, part: Any) -> str:  # noqa: N802 - named as the class it checks
    _autograd("ReduceFromRanks", answer, part, sums="forward")
    return "forward sums over ranks, backward returns the gradient: one collective forward, none backward"


# A layer that is cut: the MLP and attention

TOO_LARGE = {  # by what alone is too large
    ("x",): ("f-twice", "x went through CopyToRanks twice, and once is enough"),
    ("b2",): ("f-on-b2", "b2 went through CopyToRanks, and every rank has its whole gradient already. Add b2 as it is"),
}


LATE = "is the sum of all ranks' gradients, of other columns: CopyToRanks goes around x, before the first matrix"


@dataclass
class Layer:
    """A layer cut into shards: what ranks are given and should make of it; its `mistakes` are what else they make."""

    case: Case
    x: torch.Tensor
    grad: torch.Tensor
    shards: list
    shared: list
    want: torch.Tensor
    gradients: list
    """Of each rank by name, in the order in which they are given: that of x first."""
    own: list
    """Of each rank, the gradient of x that its own shards make."""
    more: tuple = ()
    parts = "shards"
    hints = ()

    def run(self, answer: Any, backward: bool = True) -> Results:
        """Return what the ranks made, and refuse a wrong output."""
        shapes = zip(self.gradients[0], (self.x, *self.shards[0], *self.shared), strict=True)
        told = self.case.also("with " + ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in shapes))
        data = (self.x, each(self.shards), self.shared, self.grad if backward else None, self.more)
        got = told.run(layered, answer, *data, hints=self.hints)
        self.case.expect(all(mine is not None for mine in got), "it returned no tensor", "form")
        for rank, (y, *_) in enumerate(got):
            if not near(y, self.want, EXACT):
                what, says = f"the result on rank {rank}", "one device returns"
                self.case.same(y, self.want, what, *self.mistakes(rank), says=says, tolerance=EXACT)
        return got

    def judge_gradients(self, got: Results) -> None:
        """Judge the gradients of a rank's shards, and that of x, which is summed over all ranks."""
        ranks = self.case.ranks
        for rank, ((_, grads, _), right) in enumerate(zip(got, self.gradients, strict=True)):
            mine = dict(zip(right, grads, strict=True))
            for name in list(right)[1:]:
                why = "before the result it is detached from autograd"
                why = "add all of it on every rank, after the sum" if name == "b2" else why
                said = f"{name} has no gradient on rank {rank}: {why}"
                self.case.expect(mine[name] is not None, said, "no-gradient")
            large = [name for name in right if not near(mine[name], right[name], EXACT)]
            large = [name for name in large if near(mine[name], ranks * right[name], EXACT)]
            code, why = TOO_LARGE.get(tuple(large), ("sums-twice", "the backward of the last sum must not sum again"))
            no_f = f"is that of its own {self.parts}; x went to all ranks, so sum it: let x pass through CopyToRanks"
            divided = f"is 1/{ranks} of one device's: b2 was divided before the sum. Add all of it after the sum"
            for name in (*list(right)[1:], "x"):
                late = sum(other[name] for other in self.gradients) if name in ("w1_shard", "b1_shard") else False
                mistakes = [
                    Mistake("f-too-late", late, LATE),
                    Mistake(code, name in large, f"is {ranks} times too large: {why}"),
                    Mistake("divided-bias", name == "b2" and right[name] / ranks, divided),
                    Mistake("no-f", name == "x" and self.own[rank], no_f),
                ]
                what = f"the gradient of {name} on rank {rank}"
                says = "one device has" if name in ("x", "b2") else f"its own {self.parts} have"
                self.case.same(mine[name], right[name], what, *mistakes, says=says, tolerance=EXACT, code="gradient")
        _expect_told(self.case, got)


def _expect_told(case: Case, got: Results) -> None:
    """Judge that no all_reduce was hidden from autograd, whose gradient is then right by luck."""
    for rank, (*_, untold) in enumerate(got):
        case.expect(
            untold == 0,
            f"rank {rank} calls all_reduce on a tensor that autograd follows, and autograd is not told. The gradient "
            "is right by luck: in runs of your own torch warns, and after an exp, which keeps its result for backward, "
            "it is wrong on real ranks. Sum with ReduceFromRanks, which says what backward does",
            "untold",
        )


def _graded(function: Any, leaves: list, grad: torch.Tensor) -> tuple[torch.Tensor, list]:
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    y = function(*leaves)
    return y.detach(), list(torch.autograd.grad(y, leaves, grad))


# tensor_parallel_mlp


def _part(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return gelu(x @ w1 + b1) @ w2


def _cut_both(ranks: int, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor) -> list[list]:
    parts = zip(w1.chunk(ranks, 1), b1.chunk(ranks), w2.chunk(ranks, 0), strict=True)
    return [[shard.contiguous() for shard in shards] for shards in parts]


def _mlp(ranks: int, tokens: int, hidden: int, ffn: int, real: bool = False) -> Layer:
    shapes = (tokens, hidden), (hidden, ffn), (ffn,), (ffn, hidden), (hidden,)
    x, *weights, b2 = (draw(shape, seed) for seed, shape in enumerate(shapes))
    grad, shards = draw((tokens, hidden), 6), _cut_both(ranks, *weights)
    want, (of_x, *of_weights, of_b2) = _graded(lambda *leaves: _part(*leaves[:4]) + leaves[4], [x, *weights, b2], grad)
    names = ("x", "w1_shard", "b1_shard", "w2_shard", "b2")
    gradients = [dict(zip(names, (of_x, *mine, of_b2), strict=True)) for mine in _cut_both(ranks, *of_weights)]
    own = [_graded(_part, [x, *mine], grad)[1][0] for mine in shards]
    return Mlp(Case(ranks, real=real), x, grad, shards, [b2], want, gradients, own)


MLP_MISTAKES = {
    "no-sum": "is its own part: parts are summands, sum them over the ranks (ReduceFromRanks)",
    "bias-on-every-rank": "has b2 from every rank, {ranks} times in all: add it after the sum",
    "sum-before-gelu": "has all ranks' columns added up before GELU: they are other columns of x @ w1, not summands. "
    "Leave each rank its own until after w2",
    "swapped": "shows that f and g are swapped: x is the same on all ranks and must not be summed in forward, and the "
    "parts at the end must be",
    "sum-before-w2": "has the ranks' columns added up before w2: rank r's columns belong to rank r's rows of w2. "
    "Multiply first, then sum",
    "no-bias": "lacks b2, which was not added",
    "no-gelu": "shows that GELU is missing between w1 and w2",
    "no-b1": "lacks b1: b1_shard was not added",
    "mean": "has the parts averaged: they are summands, so add them up",
    "transposed": "has the weights transposed: here y = x @ w, as in the text, not as nn.Linear stores it",
}


class Mlp(Layer):
    hints = (CUT_TWICE,)

    def mistakes(self, rank: int) -> list[Mistake]:
        x, (b2,), shards, ranks = self.x, self.shared, self.shards, self.case.ranks
        parts = [_part(x, *mine) for mine in shards]
        w1, b1, w2 = shards[rank]
        total = sum(x @ w1 for w1, *_ in shards)
        early = [gelu(total + b1) @ w2 for _, b1, w2 in shards]
        values = {
            "no-sum": parts[rank],
            "bias-on-every-rank": sum(parts) + (ranks - 1) * b2,
            "sum-before-gelu": gelu(sum(x @ w1 + b1 for w1, b1, _ in shards)) @ sum(w2 for *_, w2 in shards),
            "swapped": _part(ranks * x, w1, b1, w2),
            "sum-before-w2": sum(gelu(x @ w1 + b1) for w1, b1, _ in shards) @ w2,
            "no-bias": sum(parts) - b2,
            "no-gelu": sum((x @ w1 + b1) @ w2 for w1, b1, w2 in shards),
            "no-b1": sum(gelu(x @ w1) @ w2 for w1, _, w2 in shards),
            "mean": sum(parts) / ranks,
        }
        if w1.shape[0] == w1.shape[1]:
            values["transposed"] = sum(_part(x, w1.T, b1, w2.T) for w1, b1, w2 in shards)
        mistakes = list(values.items())
        mistakes += [("sum-before-gelu", y) for y in (sum(early), early[rank])]  # with a sum at the end, and without
        return [Mistake(code, y + b2, MLP_MISTAKES[code].format(ranks=ranks)) for code, y in mistakes]


@check(forward=2, gradients=2, collectives=1)
def check_tensor_parallel_mlp(answer: Any, part: Any) -> str:
    layers = [_mlp(2, 3, 4, 8), _mlp(4, 2, 4, 8), _mlp(1, 3, 4, 8), _mlp(2, 3, 6, 8, real=True)]
    part("forward")
    runs = [layer.run(answer) for layer in layers]
    part("gradients")
    for layer, got in zip(layers, runs, strict=True):
        layer.judge_gradients(got)
    part("collectives")
    layer = _mlp(4, 5, 8, 16)
    forward, both = layer.run(answer, backward=False), layer.run(answer)
    one, two = len(forward.collectives[0]), len(both.collectives[0])
    layer.case.expect(
        (one, two) == (1, 2),
        f"forward takes {one} collectives and backward {two - one}; one all-reduce each is enough, because between "
        "the columns of w1 and the rows of w2 no rank needs another's numbers",
        "collectives",
    )
    layer.case.at_most(
        max(both.bytes_sent),
        2 * ring_bytes(4, layer.x.numel(), size=8),
        "a rank sent {seen} bytes; two all-reduces of x's size send {bound}: no weight and no inner vector has to "
        "travel",
        "too-many-bytes",
    )
    return "output and gradients of one device on 1, 2 and 4 ranks · b2 once · one all-reduce each way"


# column_shard


VIEW = (
    "keeps {seen} bytes alive, and is {bound} bytes large: it is a view of the whole weight. Make a copy (.clone(); "
    ".contiguous() copies only what needs it), and the whole can be freed"
)
KEPT = (
    "{seen} bytes are alive after it returned, and its shard is {bound} bytes large: something keeps the whole weight, "
    "a list or a global name. Let it go"
)


def _alone(seed: int, rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@check(value=1, held=1, different=1)
def check_column_shard(answer: Any, part: Any) -> str:
    torch.manual_seed(17)
    first, runs = 17 + course_seed() % 100_000, []
    part("value")
    for ranks, rows, columns in ((2, 3, 4), (4, 5, 8), (1, 2, 2), (3, 4, 6), (2, 1, 6)):
        case = Case(ranks, f"with a weight of {rows} x {columns}")
        whole = _alone(first + ranks, rows, columns).chunk(ranks, 1)
        apart = [_alone(first + ranks + rank, *want.shape) for rank, want in enumerate(whole)]
        got = case.run(cut, answer, first + ranks, rows, columns)
        shards = [mine for mine, *_ in got]
        for rank, mine in enumerate(shards):
            case.expect(isinstance(mine, torch.Tensor), f"rank {rank} returned {mine}: return a tensor", "form")
        runs.append((case, whole[0].numel() * 4, got))
        alike = ranks > 1 and all(equal(mine, shards[0]) for mine in shards)
        together = "together they must be the weight that one process draws"
        from_one = f"{together}. Draw the whole weight from the one seed, and keep your columns"
        for rank, (mine, want) in enumerate(zip(shards, whole, strict=True)):
            mistakes = [
                Mistake("seeded-alike", alike, f"is that of all ranks: every shard was seeded alike, and {together}"),
                Mistake("shape", mine.shape != want.shape, versus(mine, "its columns have shape", want)),
                Mistake("seeded-apart", near(shards, apart, 1e-6), f"was drawn alone, from seed + rank; {from_one}"),
            ]
            case.same(mine, want, f"the shard of rank {rank}", *mistakes, tolerance=1e-6)
    part("held")
    for case, bound, got in runs:
        for rank, (_, nbytes, alive) in enumerate(got):
            case.at_most(nbytes, bound, f"the shard of rank {rank} {VIEW}", "view")
            case.at_most(alive, bound, f"of what rank {rank} made {KEPT}", "kept")
    part("different")
    Case(2, real=True).run(cut, answer, 3, 4, 4)
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
    "shows that heads are cut in the middle: a head is head_size neighbouring columns, unflatten(-1, (-1, "
    "head_size)), and then transpose(1, 2)"
)
ATTENTION_MISTAKES = {
    "rows": ("heads-mixed", CUT_HEADS),
    "every n-th": ("heads-mixed", CUT_HEADS),
    "tiled": ("kv-order", "has the wrong key/value heads shared: neighbours share one (repeat_interleave, not repeat)"),
    "no scale": ("no-scale", "has scores that were not divided by the root of head_size"),
    "no mask": ("no-mask", "has each token see the tokens after it: attention here is causal"),
}


def _attention(ranks: int, heads: int, kv_heads: int, label: str = "", real: bool = False) -> Layer:
    size = 2
    hidden, few = heads * size, kv_heads * size
    x, grad = draw((2, 3, hidden)), draw((2, 3, hidden), 7)
    shapes = (hidden, hidden), (hidden, few), (hidden, few), (hidden, hidden)
    weights = [draw(shape, place + 1) for place, shape in enumerate(shapes)]
    each_head = torch.arange(few).view(kv_heads, size)
    shards = []
    for rank, mine in enumerate(torch.arange(heads).chunk(ranks)):
        wq, wk, wv, wo = weights
        columns = each_head[(mine * kv_heads // heads).unique()].flatten()
        shards.append([wq.chunk(ranks, 1)[rank].contiguous(), wk[:, columns], wv[:, columns], wo.chunk(ranks)[rank]])
    want, (of_x, *_) = _graded(lambda *leaves: _attend(*leaves, size), [x, *weights], grad)
    own = [_graded(lambda *leaves: _attend(*leaves, size), [x, *mine], grad)[1] for mine in shards]
    gradients = [dict(zip(("x", "wq", "wk", "wv", "wo"), (of_x, *mine), strict=True)) for _, *mine in own]
    own = [gradient for gradient, *_ in own]
    return Attention(Case(ranks, label, real), x, grad, shards, [], want, gradients, own, more=(size,))


class Attention(Layer):
    parts = "heads"

    def mistakes(self, rank: int) -> list[Mistake]:
        own = _attend(self.x, *self.shards[rank], *self.more)
        return [
            Mistake(code, sum(_attend(self.x, *mine, *self.more, mistake) for mine in self.shards), said)
            for mistake, (code, said) in ATTENTION_MISTAKES.items()
        ] + [Mistake("no-sum", own, "is the part of its own heads: sum over the ranks after the output matrix")]


@check(value=2, gradients=1, kv_heads=1, refuse=1)
def check_tensor_parallel_attention(answer: Any, part: Any) -> str:
    part("value")
    layers = [_attention(2, 4, 4), _attention(4, 4, 4), _attention(1, 2, 2)]
    runs = [layer.run(answer) for layer in layers]
    _attention(2, 4, 4, real=True).run(answer)
    part("gradients")
    for layer, got in zip(layers, runs, strict=True):
        layer.judge_gradients(got)
        said = "it takes {seen} collectives; one each way is enough"
        layer.case.at_most(len(got.collectives[0]), 2, said, "collectives")
    part("kv heads")
    for layer in (
        _attention(2, 4, 2, "with 4 query heads and 2 key/value heads"),
        _attention(4, 4, 2, "with 2 key/value heads, fewer than ranks: two ranks hold the same one"),
        _attention(2, 8, 4, "with 8 query heads and 4 key/value heads"),
    ):
        layer.judge_gradients(layer.run(answer))
    part("refuse")
    size = 4
    x, w = draw((1, 2, 12)), draw((12, 6), 1)
    for told, q, kv in (("wq with 6 columns", 6, 4), ("wk with 6 columns", 4, 6)):
        case = Case(2, f"with {told}")
        wq, wkv, wo = w[:, :q].contiguous(), w[:, :kv].contiguous(), draw((q, 12), 2)
        right, kind, words = case.run(refused, answer, x, wq, wkv, wkv, wo, size)[0] or (False, "nothing", "")
        case.expect(
            right and len(words) > 8,
            f"and heads of {size} it raised {kind}{': ' if words else ''}{words[:120]}. 3 heads on 2 ranks would cut "
            "a head in the middle: raise a ValueError with a sentence",
            "heads-cut",
        )
    return "one device's attention from heads on 1, 2 and 4 ranks · shared key/value heads · cut heads refused"


# vocabulary_parallel_cross_entropy


def _losses(
    answer: Any, ranks: int, tokens: int, width: int, most: int = 0, real: bool = False, apart: str = ""
) -> tuple[Case, Results, list]:
    """Return what the ranks made of logits up to `most`, and the right gradients of these; refuse a wrong loss.

    Tokens, or ranks, may lie far apart.
    """
    logits = draw((tokens, ranks * width))
    logits = logits * (most / logits.max()) if most else logits
    if apart == "tokens":
        logits[0] += 1000
    elif apart == "ranks":
        logits[:, width:] += 900
    targets = (torch.arange(tokens) * 5 + 1) % (ranks * width)
    leaf = logits.clone().requires_grad_()
    loss = cross_entropy(leaf, targets)
    (gradient,) = torch.autograd.grad(loss, leaf)
    want = loss.detach()
    shards = [shard.contiguous() for shard in logits.chunk(ranks, 1)]
    large = f" and logits of up to {most:,}" if most else ""
    far = {"tokens": ", the logits of one token 1,000 above those of the others",
           "ranks": ", the logits of one rank's words 900 above the other's"}.get(apart, "")  # fmt: skip
    case = Case(ranks, f"with {ranks * width} words{large}{far}", real)
    got = case.run(losses, answer, each(shards), targets, hints=[NO_OFFSET, IN_PLACE])
    every = [shard - logits.max() for shard in shards]
    of_all = (sum(one.exp().sum(-1) for one in every).log() - logits.gather(1, targets[:, None])[:, 0] + logits.max())
    whole = "comes of one maximum over all tokens: the others' exps are 0. Each token has its own maximum, .amax(-1)"
    for rank, (mine, *_) in enumerate(got):
        case.expect(isinstance(mine, torch.Tensor), f"rank {rank} returned {mine}: return the loss, a tensor", "form")
        own = shards[rank].logsumexp(-1).mean() - logits.gather(1, targets[:, None]).mean()
        differs = versus(mine, "one device returns", want, LOSS)
        overflow = f"{differs}. exp overflows: subtract the maximum over all ranks first"
        mistakes = [
            *(_loss_mistakes(shards, targets, want) if ranks > 1 else ()),
            Mistake("one-maximum", apart == "tokens" and equal(mine, of_all.mean()), whole),
            Mistake("own-words", own, "is over its own words: the sum of exps must be over all ranks"),
            Mistake("value", isinstance(mine, torch.Tensor) and not mine.isfinite().all(), overflow),
            Mistake("value", True, differs),
        ]
        case.same(mine, want, f"the loss on rank {rank}", *mistakes, tolerance=LOSS)
    return case, got, gradient.chunk(ranks, 1)


def _loss_mistakes(shards: list, targets: torch.Tensor, want: torch.Tensor) -> list[Mistake]:
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
    more = "has a logit from every rank for every target: only the rank that has the word may add it, the others add 0"
    maximum = (
        "has the maximum of each rank's own words subtracted, so the ranks' sums of exps do not fit together: "
        "all_reduce the maximum first, with op=dist.ReduceOp.MAX"
    )
    return [
        Mistake("sum", want * len(targets), "is the sum over tokens; the loss is their mean"),
        Mistake("own-maximum", (apart.log() - own).mean(), maximum),
        Mistake("target-everywhere", (total.log() - everywhere + len(shards) * most).mean(), more),
        Mistake("target-everywhere", (total.log() + most - everywhere).mean(), more),
    ]


@check(value=2, gradients=1, stable=1, bytes=1)
def check_vocabulary_parallel_cross_entropy(answer: Any, part: Any) -> str:
    part("value")
    runs = [_losses(answer, *sizes) for sizes in ((2, 6, 4), (4, 5, 3), (1, 4, 6))]
    runs.append(_losses(answer, 2, 6, 4, real=True))
    part("gradients")
    for case, got, want in runs:
        for rank, (_, grad, _) in enumerate(got):
            what, says = f"the gradient of rank {rank}'s logits", "one device has"
            case.same(grad, want[rank], what, says=says, tolerance=LOSS, code="gradient")
        _expect_told(case, got)
    part("stable")
    _losses(answer, 2, 4, 4, most=1000)  # exp overflows from 710 on
    _losses(answer, 2, 4, 4, apart="tokens")
    _losses(answer, 2, 4, 4, apart="ranks")
    part("bytes")
    tokens, width = 8, 200
    shards = [shard.contiguous() for shard in draw((tokens, 4 * width)).chunk(4, 1)]
    case = Case(4, f"with {tokens} tokens and {4 * width} words")
    case.at_most(
        max(case.run(losses, answer, each(shards), torch.arange(tokens)).bytes_sent),
        8 * ring_bytes(4, tokens, size=8),
        "a rank sent {seen} bytes; a few numbers for each token, {bound} bytes at most, are enough: do not gather the "
        "logits",
        "gathers-logits",
    )
    return "loss and gradients of one device on 1, 2 and 4 ranks · large logits · a few numbers per token"


# sequence_parallel_bytes


@check(held=1, sent=1)
def check_sequence_parallel_bytes(answer: Any, part: Any) -> str:
    own = drawn("sequence_parallel_bytes")
    ranks = own.randint(2, 9)
    sizes = [(2048, 4096, 2, 8), (1024, 64, 4, 4), (100, 10, 2, 1), (6, 8, 4, 3)]
    sizes.append((ranks * own.randint(10, 500), 8 * own.randint(10, 500), 2, ranks))
    answers = [answer(*given) for given in sizes]
    answers = [got.tolist() if isinstance(got, (np.ndarray, torch.Tensor)) else plain(got) for got in answers]
    for given, got in zip(sizes, answers, strict=True):
        pair = isinstance(got, (list, tuple)) and len(got) == 2
        expect(pair, f"with {given} it returned {shown(got)}: return (bytes held, bytes sent)", "form")
    told = "with {:,} tokens, hidden {:,}, {} bytes and {} ranks a rank"
    cases = [(Case(label=told.format(*given)), math.prod(given[:3]), given[3]) for given in sizes]
    part("held")
    for (case, whole, ranks), (held, _) in zip(cases, answers, strict=True):
        said = f"holds {amount(whole / ranks)} bytes, not {amount(held)}: its part of the tokens"
        case.expect(close(held, whole / ranks, 1e-6), said, "wrong-held")
    part("sent")
    for (case, whole, ranks), (_, sent) in zip(cases, answers, strict=True):
        want = 8 * (ranks - 1) * whole / ranks
        said = f"sends {amount(want)} bytes, not {amount(sent)}"
        half = "half of it: forward has two sums and backward two, and each is a reduce-scatter and an all-gather"
        case.expect(ranks == 1 or not close(sent, want / 2, 1e-6), f"{said}, {half}", "half")
        case.expect(close(sent, want, 1e-6), f"{said}: four times a reduce-scatter and an all-gather", "wrong-sent")
    return "1/P of x held, and as many bytes sent as with all-reduces"
