"""Checks of chapter 4: gradients of the whole batch on every rank, few and early collectives, nothing forgotten."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, RankFailed, Results, each, run, work
from course_lib.lessons.overlap import step_seconds
from exercises_tests.judging import check, code_of, expect
from exercises_tests.values import close, equal, integers, near

PRELOAD = ("torch._dynamo", "torch.fx.experimental.symbolic_shapes")  # answers want it: once, not in every rank
REAL_SECONDS = 20  # after which a run on real ranks counts as hung
OTHER_CALL = "as the same collective"  # what the simulator says where ranks do not make the same calls
SLOW = Cluster(latency=0.25, bandwidth=math.inf)  # an all-reduce on 2 ranks takes half a second, whatever its size
RATE = 0.1


# A small network whose backward takes virtual time: one second between a layer and the one before it


class Slow(torch.autograd.Function):
    """Passes on what it gets; its backward takes `seconds`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        work(ctx.seconds)
        return grad, None


class Chain(nn.Module):
    """Linear layers, each with a second of backward between it and the one before.

    `skipped` layers are passed by, so their parameters get no gradient. With `tied` the last two layers share a weight.
    Each row that is trained on takes `row_seconds` in forward.
    """

    def __init__(
        self, widths: tuple, seed: int, seconds: float = 0.0, tied: bool = False, skipped: tuple = (),
        row_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList()
        for into, out in zip(widths, widths[1:], strict=False):
            layer = nn.Linear(into, out).double()
            for parameter in layer.parameters():
                parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
            self.layers.append(layer)
        if tied:
            self.layers[-1].weight = self.layers[-2].weight
        self.seconds, self.skipped, self.row_seconds = seconds, skipped, row_seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.row_seconds and torch.is_grad_enabled():
            work(self.row_seconds * len(x))
        for place, layer in enumerate(self.layers):
            if place not in self.skipped:
                x = layer(Slow.apply(x, self.seconds) if self.seconds else x)
        return x


class Noting(Chain):
    """Notes, in each forward that is trained on, its rows, the weights and buffers before, and the buffers after."""

    def __init__(self, **built: Any) -> None:
        super().__init__(**built)
        self.notes: list = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = [parameter.detach().clone() for parameter in self.parameters()]
        before = [buffer.clone() for buffer in self.buffers()]
        out = super().forward(x)
        if torch.is_grad_enabled():
            self.notes.append((len(x), weights, before, [buffer.clone() for buffer in self.buffers()]))
        return out


class RunningMean(nn.Module):
    """Keeps, in a buffer, the running mean of what passes through it, as batch normalization does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and len(x):
            self.mean.lerp_(x.detach().mean(0), 0.5)
        return x


WIDTHS, SQUARE = (4, 6, 5, 5, 3), (5, 5, 5, 5, 5)


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away. Each
# rank gets its own data, except where the exercise hands everybody the whole.


def averaged(dist: Any, answer: Any, shapes: list, grads: list, examples: int) -> list:
    model = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])
    for parameter, grad in zip(model, grads, strict=True):
        parameter.grad = grad
    answer(dist, model, examples)
    return [parameter.grad for parameter in model]


def trained(
    dist: Any, answer: Any, more: tuple, rows: torch.Tensor, wanted: torch.Tensor, built: dict, steps: int
) -> list | str:
    model = Chain(**built)
    finish = answer(dist, model, *more)
    if not callable(finish):
        return "no function"
    for _ in range(steps):
        model.zero_grad()
        nn.functional.mse_loss(model(rows), wanted).backward()
        finish()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return [parameter.detach() for parameter in model.parameters()]


def accumulated(dist: Any, answer: Any, buckets: list, microbatches: list, built: dict) -> list:
    model = Chain(**built)
    answer(dist, model, buckets, microbatches, nn.functional.mse_loss)
    return [parameter.grad for parameter in model.parameters()]


def looped(
    dist: Any, answer: Any, x: torch.Tensor, y: torch.Tensor, orders: list, batch: int, built: dict, buffer: Any
) -> tuple:
    model = Noting(**built)
    if buffer is not None:
        model.layers.insert(1, RunningMean(len(buffer)))
        model.layers[1].mean.copy_(buffer)
    answer(dist, model, x, y, lambda epoch: orders[epoch].clone(), len(orders), batch)
    return [p.detach() for p in model.parameters()], list(model.buffers()), model.notes


def served(dist: Any, answer: Any, steps: int, bound: int, seconds: list) -> tuple:
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    seen = []

    def gradient(weights: torch.Tensor, step: int) -> torch.Tensor:
        work(seconds[rank])
        seen.append([step, weights.clone()])
        grad = torch.zeros(workers * steps, dtype=torch.float64)
        grad[(rank - 1) * steps + step] = 1
        return grad

    got = answer(dist, torch.zeros(workers * steps, dtype=torch.float64), gradient, steps, bound, 1.0)
    return got if isinstance(got, torch.Tensor) else None, seen


# What several checks of this chapter ask


def _run(case: str, *call: Any, ranks: int, on: Any = None, see: str = "", known: tuple = ()) -> Results:
    """Run; a run that fails is a wrong answer, told with its case.

    `known` are (words of the failure, its code, what the mistake is) that are said before the failure itself.
    """
    try:
        return run(*call, ranks=ranks, on=on, timeout=REAL_SECONDS)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        for words, code, said in known:
            expect(words not in str(failure), f"{case.rstrip(',')}: {said}. {failure}", code, see)
        expect(False, f"{case.rstrip(',')}: {failure}", code_of(failure), see)


def _numbers(tensor: Any, first: int = 0, digits: int = 4) -> str:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor)
    values = tensor.flatten().tolist()[first:]
    shown = ", ".join(f"{value:.{digits}g}" for value in values[:4])
    return f"[{'..., ' if first else ''}{shown}{', ...' if len(values) > 4 else ''}]"


def _versus(got: Any, says: str, want: torch.Tensor, tolerance: float = 1e-9) -> str:
    """Return what came and what was wanted, from the first number on in which they differ, with digits to see it."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return f"{_numbers(got)}; {says} {_numbers(want)}"
    mine, right = got.double().flatten(), want.double().flatten()
    first = int(((mine - right).abs() <= tolerance).int().argmin())
    digits = next((count for count in range(4, 17) if f"{mine[first]:.{count}g}" != f"{right[first]:.{count}g}"), 17)
    return f"{_numbers(got, first, digits)}; {says} {_numbers(want, first, digits)}"


def _ring_bytes(ranks: int, nbytes: int, messages: int) -> int:
    """Return what a rank may send to sum `nbytes` in so many all-reduces; uneven chunks are rounded up."""
    return math.ceil(2 * (ranks - 1) / ranks * nbytes) + 2 * (ranks - 1) * 8 * messages


def _data(rows: int, into: int, out: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = integers(2, (rows, max(into, out)), "float64")
    return x[:, :into] / 8, y[:, :out] / 8


def _rows(whole: torch.Tensor, ranks: int) -> each:
    """Return for each rank its rows, as tensors of their own: a view would show the others' too."""
    return each([rows.clone() for rows in whole.tensor_split(ranks)])


# average_gradients


def _weighted(grads: list, weights: list) -> list:
    """Return the sum over ranks of weight times gradient, None counting as zeros."""
    count = len(grads[0])
    shapes = [next(grad[place] for grad in grads if grad[place] is not None) for place in range(count)]
    return [
        sum((w * grad[place] for w, grad in zip(weights, grads, strict=True) if grad[place] is not None),
            torch.zeros_like(shapes[place]))
        for place in range(count)
    ]  # fmt: skip


def _averages(answer: Any, examples: list, missing: tuple = (), real: bool = False) -> None:
    ranks = len(examples)
    grads = [list(pair) for pair in zip(integers(ranks, (3, 2)), [g + 10 for g in integers(ranks, (5,))], strict=True)]
    for rank, place in missing:
        grads[rank][place] = None
    total = sum(examples)
    want = _weighted(grads, [n / total for n in examples])
    case = f"on {ranks} {'real ' if real else ''}ranks with {', '.join(map(str, examples))} examples"
    if missing:
        case += f" and no gradient of parameter {missing[0][1]} on rank {missing[0][0]}"
    skipped = (
        OTHER_CALL,
        "skipped",
        "ranks do not take part in the same all-reduces: a gradient that is None counts as zeros, and is summed too",
    )
    data = [(3, 2), (5,)], each(grads), each(examples)
    on = None if real else Cluster()
    got = _run(case, averaged, answer, *data, ranks=ranks, on=on, known=(skipped,) if missing else ())
    if all(near(mine, want, 1e-4) for mine in got):
        return
    expect(
        not all(equal(mine[0], grad[0]) for mine, grad in zip(got, grads, strict=True)),
        f"{case} the gradients are what they were: change parameter.grad itself",
        "unchanged",
    )
    wrong = [
        ([1.0] * ranks, "the sum over ranks, not the mean: divide by the number of examples of all ranks", "sum"),
        ([1 / ranks] * ranks, "a mean of means: a rank with few examples counts as much as one with many. Weigh each "
         "rank's gradient by its examples", "mean-of-means"),
        (examples, "the sum over all examples: divide by the number of examples of all ranks", "sum"),
        ([n / ranks for n in examples], "divided by the number of ranks, not of examples", "wrong-count"),
        ([1 / total] * ranks, f"the sum of the ranks' means, divided by all {total} examples: multiply each mean by "
         "its rank's examples first, which makes it a sum", "not-weighed"),
    ]  # fmt: skip
    for weights, words, code in wrong:
        other = _weighted(grads, weights)
        expect(
            near(other, want, 1e-4) or not near(got[0], other, 1e-4),
            f"{case} each rank holds {words}",
            code,
        )
    rank = next(rank for rank in range(ranks) if not near(got[rank], want, 1e-4))
    place = next(place for place in range(2) if not near(got[rank][place], want[place], 1e-4))
    expect(
        rank == 0 or not near(got[0], want, 1e-4),
        f"{case} rank 0 holds the mean and rank {rank} does not: every rank needs it",
        "only-on-rank-0",
    )
    expect(
        False,
        f"{case} the gradient of parameter {place} on rank {rank} is "
        + _versus(got[rank][place], f"the mean over all {total} examples is", want[place], 1e-4),
        "value",
    )


@check(value=2, uneven=1, missing=1, bytes=1)
def check_average_gradients(answer: Any, part: Any) -> str:
    part("value")
    _averages(answer, [2, 2, 2, 2])
    _averages(answer, [3, 3], real=True)
    part("uneven")
    _averages(answer, [4, 2, 1, 1])
    _averages(answer, [5, 2, 3], real=True)
    part("missing")
    _averages(answer, [2, 3, 1], missing=((1, 0),))
    _averages(answer, [2, 0, 2], missing=((1, 0), (1, 1)))
    part("bytes")
    ranks, shapes = 4, ((40, 30), (30,), (30, 20))
    grads = [[tensors[rank] for tensors in map(lambda shape: integers(ranks, shape), shapes)] for rank in range(ranks)]
    nbytes = 4 * sum(math.prod(shape) for shape in shapes)
    bound = _ring_bytes(ranks, nbytes, 4 * len(shapes))
    trace = _run("on 4 ranks", averaged, answer, list(shapes), each(grads), 3, ranks=ranks, on=Cluster())
    most = max(trace.bytes_sent)
    expect(
        most <= bound,
        f"on {ranks} ranks with {nbytes:,} bytes of gradients rank {trace.bytes_sent.index(most)} sent {most:,} bytes; "
        f"all-reduces send about {2 * (ranks - 1) * nbytes // ranks:,}: sum with dist.all_reduce, and let no rank "
        "gather",
        "too-many-bytes",
    )
    return "the gradient of the whole batch on every rank · uneven shards, missing gradients · 2(P-1)/P·S bytes"


# all_reduce_per_parameter and all_reduce_per_bucket


def _reference(x: torch.Tensor, y: torch.Tensor, built: list, steps: int, scale: float = 1.0) -> list:
    """Return the weights after training on mean gradients of `built` replicas' rows, in one process."""
    models = [Chain(**kind) for kind in built]
    for _ in range(steps):
        for rank, model in enumerate(models):
            model.zero_grad()
            rows, wanted = x.tensor_split(len(models))[rank], y.tensor_split(len(models))[rank]
            nn.functional.mse_loss(model(rows), wanted).backward()
        for same in zip(*(model.parameters() for model in models), strict=True):
            grads = [p.grad for p in same if p.grad is not None]
            mean = scale * sum(grads) / len(models) if grads else torch.zeros_like(same[0])
            for parameter in same:
                parameter.data -= RATE * mean
    return [p.detach() for p in models[0].parameters()]


NARROW = {16: ", as bfloat16 and float16", 32: ", as float32"}


def _trains(name: str, answer: Any, plan: Any, ranks: int, tied: bool = False, skipped: Any = None, real=False) -> None:
    """Judge the weights after three steps; `skipped[rank]` are layers that get no gradient there."""
    steps, widths = 3, SQUARE if tied or skipped else WIDTHS
    x, y = _data(8, widths[0], widths[-1])
    built = [
        {"widths": widths, "seed": 5, "tied": tied, "skipped": (skipped or {}).get(rank, ())} for rank in range(ranks)
    ]
    start = [p.detach() for p in Chain(**built[0]).parameters()]
    more = (plan(Chain(**built[0])),) if plan else ()
    units = len(more[0]) if plan else len(start)
    want, summed, twice, once = (
        _reference(x, y, built, count, scale)
        for count, scale in ((steps, 1.0), (steps, float(ranks)), (steps, 1 / ranks), (1, 1.0))
    )
    alone = _reference(x[: 8 // ranks], y[: 8 // ranks], built[:1], steps)
    case = f"on {ranks} {'real ' if real else ''}ranks"
    if tied:
        case += " with two layers that share their weight"
    if skipped:
        used = [str(rank) for rank in range(ranks) if rank not in skipped]
        case += f", where only rank {' and '.join(used)} uses layer 1" if used else ", where no rank uses layer 1"
    told = f"{case}{',' if skipped else ''}"
    here = f"{told} after {steps} steps of gradient descent"
    known = ()
    if skipped:
        order = (
            "two ranks sum different buckets, or different parts of one: launch in the order of the plan, whatever is "
            "ready first, with zeros where a parameter has no gradient"
        )
        known = ((OTHER_CALL, "different-buckets", order),)
    elif tied:
        hooked = "its gradient is summed twice in a step: it is one of model.parameters(), so register one hook for it"
        known = (("changed before its wait()", "tied-twice", hooked),)

    def after(count: int, known: tuple) -> Results:
        data = more, _rows(x, ranks), _rows(y, ranks), each(built), count
        return _run(told, trained, answer, *data, ranks=ranks, on=None if real else Cluster(), known=known)

    first = None if real else after(1, known)
    expect(
        real or first[0] != "no function",
        f"{name} returned no function: return the one that waits and divides",
        "no-function",
    )
    right_at_first = not real and all(near(mine, once, 1e-9) for mine in first)
    kept = "empty at the end of each step what you keep of it (handles, which gradients have come)"
    fails = ("", "kept-state", f"the first of {steps} steps is right and a later one fails: {kept}")
    got = after(steps, (fails,) if right_at_first else ())
    rank = next((rank for rank in range(ranks) if not near(got[rank], want, 1e-9)), None)
    if rank is None:
        return
    expect(not near(got[rank], start, 1e-12), f"{here} no weight has changed", "unchanged")
    expect(
        not near(got[rank], summed, 1e-9),
        f"{here} the weights are those of summed gradients: divide by the number of ranks, {ranks}",
        "sum",
    )
    expect(
        not near(got[rank], twice, 1e-9),
        f"{here} the weights are those of gradients divided by the {ranks} ranks twice: divide once, before the "
        "all-reduce or after it",
        "divided-twice",
    )
    expect(
        rank != 0 or not near(got[0], alone, 1e-9),
        f"{here} rank 0 has the weights of training alone: the all-reduces did not reach parameter.grad",
        "alone",
    )
    expect(
        near(got[0], got[rank], 1e-9) or not near(got[0], want, 1e-9),
        f"{here} rank 0 has the right weights and rank {rank} other ones",
        "replicas-differ",
    )
    expect(
        not right_at_first,
        f"{told} the weights are right after 1 step and wrong after {steps}: {kept}",
        "kept-state",
    )
    calls = units if real else first.collectives[0].count("all_reduce")
    expect(
        calls >= units,
        f"{told} rank 0 called all_reduce {calls} times in a step with {units} {'buckets' if plan else 'parameters'}: "
        "what no hook has launched, the function that you return launches",
        "never-launched",
    )
    place = next(place for place in range(len(want)) if not near(got[rank][place], want[place], 1e-9))
    if not real:
        numbers = 2 * (ranks - 1) / ranks * sum(parameter.numel() for parameter in start)  # that a rank sends
        bits = min((8, 16, 32, 64), key=lambda bits: abs(8 * first.bytes_sent[0] / numbers - bits))
        expect(
            bits == 64 or not near(got[rank], want, 1e-2),
            f"{here} parameter {place} on rank {rank} is "
            + _versus(got[rank][place], "one process on all rows has", want[place])
            + f". What is summed has {bits} bits a number{NARROW.get(bits, '')}, and the gradients are 64-bit "
            "(float64), so digits are lost: sum in the gradients' own dtype",
            "dtype",
        )
    expect(
        False,
        f"{here} parameter {place} on rank {rank} is "
        + _versus(got[rank][place], "one process on all rows has", want[place]),
        "value",
    )


def overlap(answer: Any, *more: Any, ranks: int = 2, steps: int = 1) -> Results:
    """Return simulated steps: backward takes 3 s, one between each two of 4 layers, and an all-reduce 0.5 s."""
    built = {"widths": SQUARE, "seed": 5, "seconds": 1.0}
    x, y = _data(8, SQUARE[0], SQUARE[-1])
    data = more, _rows(x, ranks), _rows(y, ranks)
    return run(trained, answer, *data, built, steps, ranks=ranks, on=SLOW, timeout=REAL_SECONDS)


def _overlaps(name: str, answer: Any, more: tuple, see: str, units: str, bound: float) -> None:
    """Judge two traced steps: the first launch before backward ends, no launch that holds backward up, and again."""
    try:
        trace = overlap(answer, *more, steps=2)
    except RankFailed as failure:
        expect(False, f"on 2 ranks: {failure}", "raised", see)
    computed = trace.of(0, "work")
    half = len(computed) // 2
    starts = (computed[0].start, computed[half].start, math.inf)
    backwards = []  # for each step: when it began, its backward ended, its all-reduces began, and it ended
    for step, began in enumerate(starts[:2]):
        launches = [event.posted for event in trace.of(0, "all_reduce") if began <= event.posted < starts[step + 1]]
        ended, over = computed[half * (step + 1) - 1].end, min(starts[step + 1], trace.seconds)
        backwards.append((ended - began, [time - began for time in launches], over - began))
    ended, launches, took = backwards[0]
    first = min(launches, default=math.inf)
    computing = sum(event.end - event.start for event in computed[:half])
    expect(
        first < ended,
        f"backward ended at {ended:g} s of virtual time and the first all-reduce began at {first:g} s, so nothing "
        f"overlaps: start it from a hook, when the gradients of {units} are there",
        "after-backward", see,
    )  # fmt: skip
    expect(
        ended <= computing + 1e-9,
        f"backward has {computing:g} s to compute and ended at {ended:g} s: a hook waited for its all-reduce. Start it "
        "with async_op=True and wait in the function that you return",
        "blocking", see,
    )  # fmt: skip
    expect(
        took <= bound,
        f"backward and all-reduces took {took:g} s; {bound:g} s are enough when each starts as soon as the "
        f"gradients of {units} are there. Yours started at {_times(launches)}",
        "late", see,
    )  # fmt: skip
    expect(
        backwards[1][2] <= bound,
        f"in the second step the all-reduces began at {_times(backwards[1][1])} of backward, and in the first at "
        f"{_times(launches)}: set back for the next step what you keep of a step (counters, handles, what has come)",
        "kept-state", see.removesuffix("))") + ", steps=2))",
    )  # fmt: skip


def _times(seconds: list) -> str:
    return ", ".join(f"{time:g}" for time in seconds[:8]) + " s" if seconds else "no time"


@check(value=2, one_each=1, overlap=2)
def check_all_reduce_per_parameter(answer: Any, part: Any) -> str:
    name, see = "all_reduce_per_parameter", "timeline(overlap(all_reduce_per_parameter))"
    part("value")
    _trains(name, answer, None, 4)
    _trains(name, answer, None, 2, tied=True)
    _trains(name, answer, None, 2, real=True)
    part("one each")
    trace = overlap(answer)
    calls = trace.collectives[0].count("all_reduce")
    count = 2 * (len(SQUARE) - 1)
    expect(
        calls == count,
        f"in one step rank 0 called all_reduce {calls} times; with {count} parameters it takes {count}: one each",
        "count", "overlap(all_reduce_per_parameter).collectives[0]",
    )  # fmt: skip
    part("overlap")
    _overlaps(name, answer, (), see, "a parameter", 4.5)
    return "weights of one process after 3 steps, tied ones too · one all-reduce a parameter · started during backward"


def _plan(cap: int) -> Any:
    """Return what makes a plan of buckets of neighbours, last first, of at most `cap` bytes."""

    def plan(model: nn.Module) -> list:
        buckets: list = []
        for place in reversed(range(len(list(model.parameters())))):
            size = _size(list(model.parameters())[place])
            held = sum(_size(list(model.parameters())[i]) for i in buckets[-1]) if buckets else cap
            if held + size > cap:
                buckets.append([])
            buckets[-1].append(place)
        return buckets

    return plan


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@check(value=2, collectives=1, overlap=1, unused=2)
def check_all_reduce_per_bucket(answer: Any, part: Any) -> str:
    name = "all_reduce_per_bucket"
    layers = [[7, 6], [5, 4], [3, 2], [1, 0]]
    see = f"timeline(overlap(all_reduce_per_bucket, {layers}))"
    part("value")
    _trains(name, answer, _plan(400), 4)
    _trains(name, answer, _plan(400), 2, tied=True)
    _trains(name, answer, _plan(10**6), 2, real=True)
    part("collectives")
    for buckets in (layers, [[7, 6, 5], [4, 3, 2, 1, 0]], [list(range(8))]):
        trace = overlap(answer, buckets)
        calls, sent = trace.collectives[0].count("all_reduce"), trace.bytes_sent[0]
        nbytes = 8 * 4 * (25 + 5)
        where = f"overlap(all_reduce_per_bucket, {buckets})"
        expect(
            calls == len(buckets),
            f"in one step with {len(buckets)} buckets rank 0 called all_reduce {calls} times: lay the gradients of a "
            "bucket in one flat tensor and sum that",
            "count", f"{where}.collectives[0]",
        )  # fmt: skip
        bound = _ring_bytes(2, nbytes, len(buckets))
        expect(
            sent <= bound,
            f"in one step with {nbytes:,} bytes of gradients rank 0 sent {sent:,} bytes; {nbytes:,} are enough",
            "too-many-bytes", f"{where}.bytes_sent",
        )  # fmt: skip
    part("overlap")
    _overlaps(name, answer, (layers,), see, "a bucket", 4.0)
    halves = [[4, 5, 6, 7], [0, 1, 2, 3]]  # the places of a bucket in another order than that of backward
    trace = overlap(answer, halves)
    launched = [event.posted for event in trace.of(0, "all_reduce")]
    for number, (bucket, began) in enumerate(zip(halves, launched, strict=False)):
        came = float(3 - min(bucket) // 2)  # a layer has two parameters, and a second lies between two layers
        expect(
            began >= came - 1e-9,
            f"with the plan {halves} the all-reduce of bucket {number} began at {began:g} s of backward, and the "
            f"gradient of parameter {min(bucket)} came at {came:g} s: start it when all gradients of the bucket are "
            "there, whichever comes last",
            "too-early", f"timeline(overlap({name}, {halves}))",
        )  # fmt: skip
    part("unused")
    _trains(name, answer, _plan(400), 2, skipped={0: (1,), 1: (1,)})
    _trains(name, answer, _plan(400), 2, skipped={1: (1,)})
    _trains(name, answer, _plan(240), 3, skipped={0: (1,), 2: (1,)})
    return "weights of one process, tied and unused parameters too · one all-reduce a bucket · started during backward"


# plan_buckets


@check(cap=1, order=1, fewest=1)
def check_plan_buckets(answer: Any, part: Any) -> str:
    cases = [
        ([(2, 3), (4,), (5, 5), (1,)], 120, "float32"),
        ([(10,), (10,), (10,), (10,)], 80, "float32"),
        ([(300,), (2,), (3,), (2, 2)], 64, "float64"),
        ([(3,)], 1000, "float32"),
        ([(8,), (8,), (8,), (8,), (8,)], 1, "float32"),
        ([(8,), (16,), (4,), (2,), (2,), (32,), (1,)], 128, "bfloat16"),
        ([(10,), (15,), (15,)], 100, "float32"),  # the first fits beside the last, and they are no neighbours
    ]
    plans = []
    for shapes, cap, dtype in cases:
        tensors = [torch.zeros(shape, dtype=getattr(torch, dtype)) for shape in shapes]
        sizes = [_size(tensor) for tensor in tensors]
        got = answer(tensors, cap)
        case = f"with parameters of {', '.join(map(str, sizes))} bytes and a cap of {cap}"
        lists = isinstance(got, (list, tuple)) and all(isinstance(bucket, (list, tuple)) for bucket in got)
        expect(
            lists and all(type(index) is int for bucket in got for index in bucket),
            f"{case} it returned {got!r}: return a list of buckets, each a list of places in `parameters`, as in "
            "[[3, 2], [1, 0]]",
            "form",
        )
        plans.append((case, sizes, cap, [list(bucket) for bucket in got]))
    part("cap")
    for case, sizes, cap, plan in plans:
        placed = sorted(index for bucket in plan for index in bucket)
        missing = sorted(set(range(len(sizes))) - set(placed))
        expect(
            not missing, f"{case} parameter {missing[:1]} is in no bucket of {plan}: is the last bucket kept?", "lost"
        )
        expect(
            placed == list(range(len(sizes))),
            f"{case} {plan} holds a parameter twice, or one that is not there",
            "twice",
        )
        for bucket in plan:
            held = sum(sizes[index] for index in bucket)
            expect(
                len(bucket) > 0, f"{case} the plan {plan} has an empty bucket: open one only for a parameter", "empty"
            )
            expect(
                held <= cap or len(bucket) == 1,
                f"{case} bucket {bucket} holds {held} bytes: only a parameter that is larger than the cap by itself "
                "may be above it, alone",
                "above-cap",
            )
    part("order")
    for case, sizes, _, plan in plans:
        for bucket in plan:
            between = sorted(set(range(min(bucket), max(bucket))) - set(bucket))
            expect(
                not between,
                f"{case} bucket {bucket} of the plan {plan} holds {max(bucket)} and {min(bucket)} without "
                f"{', '.join(map(str, between))}: a bucket holds neighbours, so go on only in the bucket that was "
                "opened last",
                "no-neighbours",
            )
        flat = [sorted(bucket, reverse=True) for bucket in plan]
        expect(
            [index for bucket in flat for index in bucket] == list(reversed(range(len(sizes)))),
            f"{case} the plan is {plan}: backward computes the last parameter's gradient first, so the first bucket "
            "must hold the last parameters, and so on",
            "order",
        )
    part("fewest")
    for case, sizes, cap, plan in plans:
        want, room = 0, -1
        for size in reversed(sizes):
            want, room = (want + 1, cap - size) if size > room else (want, room - size)
        expect(
            len(plan) <= want,
            f"{case} the plan {plan} has {len(plan)} buckets; {want} are enough: count bytes (numel times "
            "element_size), and begin a bucket only when the next parameter does not fit",
            "too-many-buckets",
        )
        for bucket, following in zip(plan, plan[1:], strict=False):
            held, index = sum(sizes[index] for index in bucket), max(following)
            expect(
                held + sizes[index] > cap,
                f"{case} the plan {plan} leaves room in bucket {bucket}: it holds {held} bytes, and parameter {index} "
                f"with {sizes[index]} fits too. Fill buckets from the last parameter on",
                "not-filled",
            )
    return "every parameter once, last ones first · never above the cap but alone · no bucket with room for the next"


# break_it


FAULTS = {
    "sum": "sums the gradients: take the mean, or the learning rate is 4 times as large on 4 ranks",
    "mean-of-means": "takes the mean of the ranks' means, and in the last batch some ranks have fewer rows",
    "drop-last": "leaves the last, short batch out",
    "same-order": "goes through the rows in the order of epoch 0 in every epoch: ask order(epoch)",
    "kept-gradients": "adds each step's gradient to those of the steps before: zero .grad before backward",
}


def loop_reference(
    x: torch.Tensor, y: torch.Tensor, orders: list, batch: int, ranks: int, fault: str = "", strided: bool = False
) -> list:
    """Return the weights after the loop in one process, or after the loop with one fault.

    Ranks take neighbouring rows, or every P-th one where `strided`: a fault may come out differently.
    """
    model = Chain(**LOOPED)
    for epoch in range(len(orders)):
        order = orders[0 if fault == "same-order" else epoch]
        for rows in order.split(batch):
            shards = [rows[rank::ranks] for rank in range(ranks)] if strided else rows.tensor_split(ranks)
            shards = [shard for shard in shards if len(shard)]
            if fault == "drop-last" and len(rows) < batch:
                continue
            weights = {"sum": [1.0] * len(shards), "mean-of-means": [1 / ranks] * len(shards)}
            weights = weights.get(fault, [len(shard) / len(rows) for shard in shards])
            loss = sum(w * nn.functional.mse_loss(model(x[s]), y[s]) for w, s in zip(weights, shards, strict=True))
            if fault != "kept-gradients":
                model.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                parameter.data -= RATE * parameter.grad
    return [p.detach() for p in model.parameters()]


def _judge_buffers(outcome: Any, built: list) -> None:
    """Judge the running mean in each forward and at the end: rank 0's at first, then rank 0's or the ranks' mean."""
    ranks = len(built)
    own = [start + 10 * rank for rank, start in enumerate(integers(ranks, (4,), "float64"))]
    case, got, *_ = outcome(0, built, [start.clone() for start in own])
    case += " the model's buffer (a running mean)"
    for rank in range(1, ranks):
        expect(
            near(got[rank][1], got[0][1], 1e-12),
            f"{case} ends as {_numbers(got[0][1][0])} on rank 0 and {_numbers(got[rank][1][0])} on rank {rank}: "
            "buffers have no gradient, so broadcast them too, in every step",
            "buffers",
        )
    steps = [_by_step(notes) for *_, notes in got]
    moved = all(steps) and any(not near(before, after, 1e-12) for before, after in steps[0])
    expect(moved, f"{case} is never moved: leave the model in training mode", "buffer-not-used")
    for rank in range(ranks):
        expect(
            near(steps[rank][0][0], own[0], 1e-12),
            f"{case} with which rank {rank} began is {_numbers(steps[rank][0][0])}; rank 0 came with "
            f"{_numbers(own[0])}: broadcast buffers too, before the first step",
            "buffer-start",
        )
    for done in range(1, len(steps[0]) + 1):
        now = [steps[rank][done][0] if done < len(steps[rank]) else got[rank][1][0] for rank in range(ranks)]
        left = [steps[rank][done - 1][1] for rank in range(ranks)]  # by the forward before
        for rank in range(1, ranks):
            expect(
                near(now[rank], now[0], 1e-12),
                f"{case} is {_numbers(now[0])} on rank 0 and {_numbers(now[rank])} on rank {rank} after step {done}, "
                "and equal only at the end: broadcast it in every step",
                "buffers",
            )
        mean = sum(left) / ranks
        expect(
            not near(now[0], ranks * mean, 1e-9),
            f"{case} is {ranks} times the ranks' mean after step {done}, {_numbers(now[0])}: divide by the number of "
            "ranks what all_reduce adds up",
            "buffer-sum",
        )
        expect(
            near(now[0], left[0], 1e-9) or near(now[0], mean, 1e-9),
            f"{case} is {_numbers(now[0])} after step {done}; rank 0's is {_numbers(left[0])}, the mean over the ranks "
            f"{_numbers(mean)}: take one of these",
            "buffer-value",
        )


def _by_step(notes: list) -> list:
    """Return the buffer before and after the forwards of each step: weights change between steps only."""
    steps: list = []
    for number, (_, weights, before, after) in enumerate(notes):
        if number and near(weights, notes[number - 1][1], 0.0):
            steps[-1][1] = after[0]
        else:
            steps.append([before[0], after[0]])
    return steps


LOOPED = {"widths": (3, 4, 2), "seed": 7}  # the model of break_it on rank 0


@check(init=1, mean=1, last_batch=1, shuffle=1, buffers=1)
def check_break_it(answer: Any, part: Any) -> str:
    ranks, batch = 4, 8
    scenarios = []
    for rows, epochs in ((16, 1), (22, 1), (17, 1), (16, 3)):
        x, y = _data(rows, 3, 2)
        generator = torch.Generator().manual_seed(rows)
        orders = [torch.randperm(rows, generator=generator) for _ in range(epochs)]
        want = loop_reference(x, y, orders, batch, ranks)
        faulty = [
            (fault, loop_reference(x, y, orders, batch, ranks, fault, strided))
            for fault in FAULTS
            for strided in (False, True)
        ]
        scenarios.append((x, y, orders, want, faulty))
    same, other = [LOOPED] * ranks, [LOOPED | {"seed": 7 + rank} for rank in range(ranks)]

    def outcome(number: int, built: list, buffers: Any = None, real: bool = False) -> tuple:
        x, y, orders, *references = scenarios[number]
        case = f"on {len(built)} {'real ' if real else ''}ranks with {len(x)} rows in batches of {batch}"
        data = (x.clone(), y.clone(), [order.clone() for order in orders], batch, each(built))
        data += (each(buffers or [None] * len(built)),)
        return case, _run(case, looped, answer, *data, ranks=len(built), on=None if real else Cluster()), *references

    part("init")
    case, got, *_ = outcome(0, other)
    for rank in range(1, ranks):
        expect(
            near(got[rank][0], got[0][0], 1e-9),
            f"{case} every rank began with other weights, and rank {rank} ends with other weights than rank 0: equal "
            "gradients keep equal weights equal, but make no weights equal. Broadcast them from rank 0 before the "
            "first step",
            "different-start",
        )
    own = [[p.detach() for p in Chain(**built).parameters()] for built in other]
    expect(not near(got[0][0], own[0], 1e-12), f"{case} no weight has changed", "unchanged")
    means = [sum(same) / ranks for same in zip(*own, strict=True)]
    for rank, (*_, notes) in enumerate(got):
        began = notes[0][1] if notes else None
        of_whom = next((f"the weights of rank {r}" for r in range(1, ranks) if near(began, own[r], 1e-12)), "others")
        of_whom = "weights of its own" if rank and near(began, own[rank], 1e-12) else of_whom
        of_whom = "the mean of all ranks' weights" if near(began, means, 1e-12) else of_whom
        expect(
            near(began, own[0], 1e-12),
            f"{case} rank {rank} began with {of_whom}, and those of rank 0 count: dist.broadcast(tensor, 0) for each, "
            "before the first step",
            "wrong-start",
        )

    def judge(number: int, built: list, real: bool = False) -> Results:
        case, got, want, faulty = outcome(number, built, real=real)
        if all(near(mine, want, 1e-9) for mine, *_ in got):
            return got
        for fault, weights in faulty:
            different = not near(weights, want, 1e-9)
            expect(not (different and near(got[0][0], weights, 1e-9)), f"{case} the loop {FAULTS[fault]}", fault)
        seen, there = (sum(note[0] for *_, notes in got for note in notes), sum(map(len, scenarios[number][2])))
        trained_on = f"{case} the ranks have trained on {seen} rows"
        expect(
            seen >= there,
            f"{trained_on}: {there - seen} were left out, as with len(rows) // ranks rows for each. Deal out all of "
            "them, as rows.tensor_split(ranks) does",
            "rows-dropped",
        )
        expect(
            seen <= there,
            f"{trained_on}: {seen - there} came twice, which makes ranks equal, but a row that is repeated counts "
            "twice. Let ranks have different numbers of rows, also none",
            "rows-repeated",
        )
        expect(
            near(got[1][0], got[0][0], 1e-9),
            f"{case} the ranks end with different weights",
            "replicas-differ",
        )
        expect(
            False,
            f"{case} the first weights are {_versus(got[0][0][0], 'one process has', want[0])}",
            "value",
        )

    part("mean")
    rows = [sum(note[0] for note in notes) for *_, notes in judge(0, same)]
    count, most = len(scenarios[0][0]), max(rows)
    expect(
        most <= count / 2,  # twice a fair share: how rows are dealt out is left open
        f"on {ranks} ranks rank {rows.index(most)} trained on {most:g} of the {count} rows; its share is "
        f"{count // ranks}: each rank takes its own rows of each batch",
        "all-rows",
    )
    judge(0, other[:2], real=True)
    part("last batch")
    judge(1, same)
    judge(2, same)
    part("shuffle")
    judge(3, same)
    part("buffers")
    _judge_buffers(outcome, same)
    return "same start · mean over rows, also in short batches · a new order each epoch · equal buffers"


# linear_backward


@check(value=2, shapes=1)
def check_linear_backward(answer: Any, part: Any) -> str:
    cases = []
    for batch, into, out in ((3, 4, 2), (5, 3, 3), (1, 2, 6)):
        x, weight, grad = (integers(1, shape, "float64")[0] + 1 for shape in ((batch, into), (out, into), (batch, out)))
        cases.append((x, weight, grad, (grad @ weight, grad.T @ x, grad.sum(0))))
    names = ("x", "weight", "bias")

    def judge(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, want: tuple) -> None:
        case = f"with x {list(x.shape)}, weight {list(weight.shape)} and grad_output {list(grad.shape)}"
        try:
            got = answer(x.clone(), weight.clone(), grad.clone())
        except (RuntimeError, RankFailed) as error:
            expect(
                "shapes cannot be multiplied" not in str(error),
                f"{case}: {error}. nn.Linear stores its weight as (out, in)",
                "transposed",
            )
            raise
        expect(
            isinstance(got, (list, tuple)) and len(got) == 3,
            f"{case} it returned {type(got).__name__}: return the gradients of x, weight and bias",
            "form",
        )
        for name, mine, right in zip(names, got, want, strict=True):
            shape = list(getattr(mine, "shape", []))
            transposed = name == "weight" and isinstance(mine, torch.Tensor) and near(mine.T, right, 1e-9)
            expect(
                not transposed or near(mine, right, 1e-9),
                f"{case} the gradient of weight is the transposed one: nn.Linear stores its weight as (out, in), and "
                "its gradient has that shape",
                "transposed",
            )
            expect(
                not (name == "x" and into_square(weight) and near(mine, grad @ weight.T, 1e-9)),
                f"{case} the gradient of x is that of the transposed weight: nn.Linear computes x @ weight.T, so the "
                "way back is grad_output @ weight",
                "transposed",
            )
            expect(
                shape == list(right.shape),
                f"{case} the gradient of {name} has shape {shape}; {name} has {list(right.shape)}"
                + (": sum over the batch" if name == "bias" else ""),
                "shape",
            )
            expect(
                near(mine, right, 1e-9) or not near(mine, right / len(x), 1e-9),
                f"{case} the gradient of {name} is {len(x)} times too small: sum over the batch, do not divide by it",
                "mean",
            )
            expect(
                near(mine, right, 1e-9),
                f"{case} the gradient of {name} begins {_numbers(mine)}; autograd says {_numbers(right)}",
                "value",
            )

    part("value")
    judge(*cases[0])
    judge(*cases[1])
    part("shapes")
    judge(*cases[2])
    return "the three gradients that autograd computes, for a weight stored as (out, in)"


def into_square(weight: torch.Tensor) -> bool:
    return weight.shape[0] == weight.shape[1]


# no_sync


@check(value=1, collectives=1, overlap=1)
def check_no_sync(answer: Any, part: Any) -> str:
    ranks, micro, buckets = 2, 3, [[7, 6, 5, 4], [3, 2, 1, 0]]
    x, y = _data(12, SQUARE[0], SQUARE[-1])
    xs, ys = ([shard.split(2) for shard in whole.tensor_split(ranks)] for whole in (x, y))
    parts = each([[(a.clone(), b.clone()) for a, b in zip(*pair, strict=True)] for pair in zip(xs, ys, strict=True)])
    built = {"widths": SQUARE, "seed": 5}

    def gradients(*numbers: int) -> list:
        """Return the mean over the ranks of the gradients of some micro-batches, each a `micro`-th of the whole."""
        model = Chain(**built)
        for rank in range(ranks):
            for number in numbers:
                (nn.functional.mse_loss(model(xs[rank][number]), ys[rank][number]) / micro / ranks).backward()
        return [p.grad for p in model.parameters()]

    whole = Chain(**built)
    nn.functional.mse_loss(whole(x), y).backward()
    want = [p.grad for p in whole.parameters()]
    wrong = [
        (want, micro, "sum", f"are {micro} times too large: divide each loss by {micro}, the number of micro-batches"),
        (want, ranks, "sum", f"are {ranks} times too large: divide by {ranks}, the number of ranks"),
    ]
    first = "are those of the first micro-batch alone: its backward launched the buckets. Register hooks after it"
    last = "are those of the last micro-batch alone: keep what the backwards before it have added up in .grad"
    for scale in (1, micro):
        wrong.append((gradients(0), scale, "first-only", first))
        wrong.append((gradients(micro - 1), scale, "last-only", last))
    case = f"on {ranks} ranks with {micro} micro-batches each"
    part("value")
    for real in (False, True):
        got = _run(case, accumulated, answer, buckets, parts, built, ranks=ranks, on=None if real else Cluster())
        for rank in range(ranks):
            mine = got[rank]
            if near(mine, want, 1e-9):
                continue
            for grads, scale, code, said in wrong:
                expect(not near(mine, [scale * g for g in grads], 1e-9), f"{case} the gradients {said}", code)
            expect(
                False,
                f"{case} the first gradient on rank {rank} is "
                + _versus(mine[0], f"over all {len(x)} rows it is", want[0]),
                "value",
            )
    part("collectives")
    timed = built | {"seconds": 1.0, "row_seconds": 0.3}  # no number of rows makes a forward as long as a backward
    trace = run(accumulated, answer, buckets, parts, timed, ranks=ranks, on=SLOW)
    spent = [event.end - event.start for event in trace.of(0, "work")]
    computing = sum(seconds for seconds in spent if close(seconds, 1.0))
    backward = float(len(SQUARE) - 2)
    expect(
        computing >= micro * backward - 1e-9,
        f"{case} and {backward:g} s for a backward rank 0 ran backward for {computing:g} s; {micro} micro-batches take "
        f"{micro * backward:g} s. All rows at once are the batch that does not fit: one backward for each micro-batch",
        "one-backward",
    )
    alive = most = 0
    for seconds in spent:
        alive = 0 if close(seconds, 1.0) else alive + 1
        most = max(most, alive)
    expect(
        most <= 1,
        f"{case} rank 0 ran {most} forwards before its first backward, so the activations of {most} micro-batches were "
        "held at a time: give each micro-batch a backward of its own, which frees them",
        "one-graph",
    )
    calls = trace.collectives[0].count("all_reduce")
    expect(
        calls <= len(buckets),
        f"{case} and {len(buckets)} buckets rank 0 called all_reduce {calls} times; {len(buckets)} are enough: only "
        "the last backward may communicate, because gradients add up in .grad until then",
        "sync-on-accumulation",
    )
    part("overlap")
    ended = max(event.end for event in trace.of(0, "work"))
    began = min((event.posted for event in trace.of(0, "all_reduce")), default=math.inf)
    expect(
        began < ended,
        f"{case} the last backward ended at {ended:g} s and the first all-reduce began at {began:g} s: the last "
        "backward must start the buckets while it runs",
        "after-backward",
    )
    return "the gradient of all micro-batches of all ranks · one all-reduce a bucket · started in the last backward"


# best_bucket_bytes


@check(best=2)
def check_best_bucket_bytes(answer: Any, part: Any) -> str:
    shuffle = random.Random(11)
    cases = [
        ([1000] * 20, [1e-3] * 20, 4, 1e-6, 1e9),
        ([4_000_000] * 12, [1e-3] * 12, 8, 5e-6, 50e9),
        ([20_000_000] + [1_000_000] * 20, [1e-4] + [1e-3] * 20, 8, 5e-6, 10e9),  # the largest parameter is too much
        ([400_000] * 48, [1e-4] * 48, 8, 20e-6, 10e9),  # one parameter is too little, all are too much
    ]
    for _ in range(4):
        count = shuffle.randint(8, 16)
        sizes = [4 * shuffle.choice((64, 4096, 16384, 65536)) for _ in range(count)]
        cases.append(
            (sizes, [size * 2e-9 for size in sizes], shuffle.choice((2, 4, 8)), 10 ** shuffle.uniform(-6, -4), 1e9)
        )
    judged = []
    for sizes, seconds, ranks, latency, bandwidth in cases:
        caps = {sum(sizes[a:b]) for a in range(len(sizes)) for b in range(a + 1, len(sizes) + 1)}
        judged.append(min(step_seconds(sizes, seconds, cap, ranks, latency, bandwidth) for cap in caps))
    part("best")
    for (sizes, seconds, ranks, latency, bandwidth), best in zip(cases, judged, strict=True):
        got = answer(list(sizes), list(seconds), ranks, latency, bandwidth)
        number = isinstance(got, (int, float)) and not isinstance(got, bool) and got > 0
        expect(number, f"it returned {got!r}: return a number of bytes", "form")
        expect(got >= 1, f"it returned {got:.3g}: return the cap in bytes, not the seconds of a step", "seconds")
        took = step_seconds(sizes, seconds, got, ranks, latency, bandwidth)
        largest, smallest = (step_seconds(sizes, seconds, cap, ranks, latency, bandwidth) for cap in (sum(sizes), 1))
        why = ""
        if close(took, largest, 1e-9):
            why = ": one bucket leaves no backward to hide behind"
        elif close(took, smallest, 1e-9):
            why = ": a bucket for every parameter pays the latency every time"
        expect(
            took <= 1.05 * best,
            f"with {len(sizes)} parameters of {min(sizes):,} to {max(sizes):,} bytes on {ranks} ranks, "
            f"{latency * 1e6:.3g} µs of latency and {bandwidth / 1e9:g} GB/s, a cap of {got:,.0f} B takes "
            f"{took * 1e3:.4g} ms; the best one takes {best * 1e3:.4g} ms{why}",
            "too-slow",
        )
    return f"within 5 % of the best step on {len(cases)} clusters and models"


# parameter_server


@check(once=1, staleness=2, together=1)
def check_parameter_server(answer: Any, part: Any) -> str:
    ranks, steps = 4, 4
    traces = {}

    def case_of(bound: int) -> str:
        return f"with {ranks - 1} workers, {steps} steps each, and a bound of {bound}"

    part("once")
    for bound in (2, 0, 1):
        trace = _run(case_of(bound), served, answer, steps, bound, [0, 1.0, 1.0, 5.0], ranks=ranks, on=Cluster())
        traces[bound] = trace
        final = trace[0][0]
        expect(
            final is not None,
            f"{case_of(bound)} rank 0 returned no tensor: the server returns the weights at the end",
            "no-weights",
        )
        for rank in range(1, ranks):
            done = sorted(step for step, _ in trace[rank][1])
            expect(
                done == list(range(steps)),
                f"{case_of(bound)} rank {rank} computed the gradients of steps {done}; each worker computes each "
                "step once",
                "steps",
            )
        applied, factor = -final, -final.flatten()[0].item()
        alike = near(applied, factor * torch.ones_like(applied), 1e-9)
        expect(
            not alike or abs(factor) < 1e-9 or close(factor, 1.0, 1e-9),
            f"{case_of(bound)} and a learning rate of 1 the server added {-factor:.3g} times each gradient to the "
            "weights; wanted is -1 times: weights -= learning_rate * gradient, for each gradient by itself",
            "factor",
        )
        lost, twice = int((applied < 0.5).sum()), int((applied > 1.5).sum())
        expect(
            lost == 0,
            f"{case_of(bound)} {lost} of {len(final)} gradients were never applied: receive and subtract each one "
            "before the end",
            "lost",
        )
        expect(twice == 0, f"{case_of(bound)} {twice} of {len(final)} gradients were applied more than once", "twice")
        expect(
            near(applied, torch.ones_like(applied), 1e-9),
            f"{case_of(bound)} the weights are {_numbers(final)}",
            "value",
        )
    _run("on 3 real ranks", served, answer, 2, 1, [0.0] * 3, ranks=3)
    part("staleness")
    for bound, trace in traces.items():
        seen = [(rank, step, weights) for rank in range(1, ranks) for step, weights in trace[rank][1]]
        for rank, step, weights in seen:
            slot = (rank - 1) * steps + step
            begun = int(-weights.sum())
            later = [int(-other.sum()) for _, _, other in seen if other[slot] == 0]
            stale = max(later) - begun
            expect(
                stale <= bound,
                f"{case_of(bound)} rank {rank} was given weights with {begun} gradients in them for step {step}, and "
                f"its own gradient was not yet applied when {max(later)} others were: a staleness of {stale} or more. "
                "Let fast workers wait for the oldest gradient under way",
                "too-stale",
            )
        begun = [int(-weights.sum()) for _, _, weights in seen]
        for count in range(len(begun)):
            early = [number for number in begun if number + bound <= count]
            expect(
                len(early) <= count + 1,
                f"{case_of(bound)} {len(early)} gradients were computed on weights with at most "
                f"{max(early, default=0)} in them: applied one after the other, the last of them has a staleness of "
                f"{len(early) - 1 - max(early, default=0)} or more. Give out weights to at most bound + 1 workers at a "
                "time",
                "too-stale",
            )
    part("together")
    trace = traces[2]
    serial = sum(event.end - event.start for event in trace.events if event.kind == "work")
    expect(
        trace.seconds < 0.9 * serial,
        f"{case_of(2)} it took {trace.seconds:.3g} s, as long as all workers one after the other ({serial:.3g} s): a "
        "bound of 2 lets three compute at the same time",
        "one-at-a-time",
    )
    return "every gradient applied once · never staler than the bound of 0, 1 and 2 · workers compute at the same time"
