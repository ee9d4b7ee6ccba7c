"""Checks of chapter 4: gradients of the whole batch on every rank, few and early collectives, nothing forgotten."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from course_lib import RankFailed, Results, each, work
from course_lib.lessons.layers import Chain, RunningMean
from course_lib.lessons.overlap import RATE, SLOW, SQUARE, dealt, draw_data, overlap, step_seconds, trained
from exercises_tests.judging import Case, Hint, Mistake, check, expect
from exercises_tests.seeds import drawn
from exercises_tests.values import (
    close,
    draw,
    equal,
    integers,
    is_number,
    near,
    numbers,
    plain,
    ring_bytes,
    shown,
    versus,
)

PRELOAD = ("torch._dynamo", "torch.fx.experimental.symbolic_shapes")  # answers want it: once, not in every rank
OTHER_CALL = "as the same collective"  # what the simulator says where ranks do not make the same calls
WIDTHS = (4, 6, 5, 5, 3)


class Noting(Chain):
    """Notes, in each forward that is trained on, its rows, the weights and buffers before, the buffers after, and x."""

    def __init__(self, **built: Any) -> None:
        super().__init__(**built)
        self.notes: list = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = [parameter.detach().clone() for parameter in self.parameters()]
        before = [buffer.clone() for buffer in self.buffers()]
        out = super().forward(x)
        if torch.is_grad_enabled():
            after = [buffer.clone() for buffer in self.buffers()]
            self.notes.append((len(x), weights, before, after, x.detach().clone()))
        return out


# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away. Each
# rank gets its own data, except where the exercise hands everybody the whole.


def averaged(dist: Any, answer: Any, shapes: list, grads: list, examples: int) -> list:
    model = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])
    for parameter, grad in zip(model, grads, strict=True):
        parameter.grad = grad
    answer(dist, model, examples)
    return [parameter.grad for parameter in model]


def accumulated(dist: Any, answer: Any, buckets: list, microbatches: list, built: dict) -> list:
    model = Chain(**built)
    answer(dist, model, buckets, microbatches, weighed_loss)
    return [parameter.grad for parameter in model.parameters()]


def weighed_loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a mean that is another one if `out` and `y` change places."""
    return ((out - y) ** 2 * (1 + y**2)).mean()


def looped(dist: Any, answer: Any, x: Any, y: Any, orders: list, batch: int, built: dict, buffer: Any) -> tuple:
    model = Noting(**built)
    if buffer is not None:
        model.layers.insert(1, RunningMean(len(buffer)))
        model.layers[1].mean.copy_(buffer)
    answer(dist, model, x, y, lambda epoch: orders[epoch].clone(), len(orders), batch)
    return [p.detach() for p in model.parameters()], list(model.buffers()), model.notes


def served(
    dist: Any, answer: Any, steps: int, bound: int, seconds: list, rate: float = 1.0, size: float = 1.0
) -> tuple:
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    seen = []

    def gradient(weights: torch.Tensor, step: int) -> torch.Tensor:
        work(seconds[rank])
        seen.append([step, weights.clone()])
        grad = torch.zeros(workers * steps, dtype=torch.float64)
        grad[(rank - 1) * steps + step] = size
        return grad

    got = answer(dist, torch.zeros(workers * steps, dtype=torch.float64), gradient, steps, bound, rate)
    return got if isinstance(got, torch.Tensor) else None, seen


# What several checks of this chapter ask


def _first_off(got: list, want: list, says: str, tolerance: float = 1e-9) -> str:
    """Return "parameter 2 is [1]; says [2]", of the first of several tensors that differs."""
    places = [place for place, pair in enumerate(zip(got, want, strict=False)) if not near(*pair, tolerance)]
    place = places[0] if places else 0
    return f"parameter {place} {versus(got[place], says, want[place], tolerance)}"


# average_gradients


SHAPES = [(3, 2), (5,)]
SKIPPED = Hint(OTHER_CALL, "a gradient that is None counts as zeros, and is summed too", "skipped")


def _weighted(grads: list, weights: list) -> list:
    """Return the sum over ranks of weight times gradient, None counting as zeros."""
    sums = [torch.zeros(shape) for shape in SHAPES]
    for weight, mine in zip(weights, grads, strict=True):
        sums = [held if grad is None else held + weight * grad for held, grad in zip(sums, mine, strict=True)]
    return sums


def _averages(answer: Any, examples: list, missing: tuple = (), real: bool = False) -> None:
    ranks, total = len(examples), sum(examples)
    grads = [list(pair) for pair in zip(integers(ranks, (3, 2)), [g + 10 for g in integers(ranks, (5,))], strict=True)]
    label = f"with {', '.join(map(str, examples))} examples"
    if missing:
        label += f" and no gradient of parameter {missing[0][1]} on rank {missing[0][0]},"
    for rank, place in missing:
        grads[rank][place] = None
    want = _weighted(grads, [n / total for n in examples])
    few = "a rank with few examples counts as much as one with many. Weigh each rank's gradient by its examples"
    first = f"divided by all {total} examples: multiply each mean by its rank's examples first, which makes it a sum"
    weighed = (  # with what in place of its share of the examples
        ("sum", [1.0] * ranks, "the sum over ranks, not the mean: divide by the number of examples of all ranks"),
        ("mean-of-means", [1 / ranks] * ranks, f"a mean of means: {few}"),
        ("sum", examples, "the sum over all examples: divide by the number of examples of all ranks"),
        ("wrong-count", [n / ranks for n in examples], "divided by the number of ranks, not of examples"),
        ("not-weighed", [1 / total] * ranks, f"the sum of the ranks' means, {first}"),
    )
    known = [Mistake(code, _weighted(grads, weights), f"are {says}") for code, weights, says in weighed]
    case = Case(ranks, label, real)
    got = case.run(averaged, answer, SHAPES, each(grads), each(examples), hints=[SKIPPED] if missing else [])
    unchanged = equal([mine[0] for mine in got], [mine[0] for mine in grads])
    for rank, mine in enumerate(got):
        differs = _first_off(mine, want, f"the mean over all {total} examples is", 1e-4)
        case.same(
            mine,
            want,
            f"the gradients on rank {rank}",
            Mistake("unchanged", unchanged, "are what they were: change parameter.grad itself"),
            Mistake("only-on-rank-0", rank > 0, "are not the mean, which rank 0 holds: every rank needs it"),
            *known,
            Mistake("value", True, f"are wrong: that of {differs}"),
            tolerance=1e-4,
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
    ranks, shapes = 4, [(40, 30), (30,), (30, 20)]
    grads = list(zip(*(integers(ranks, shape) for shape in shapes), strict=True))
    nbytes = 4 * sum(math.prod(shape) for shape in shapes)
    case = Case(ranks, f"with {nbytes:,} bytes of gradients")
    sent, ring = case.run(averaged, answer, shapes, each(grads), 3).bytes_sent, ring_bytes(ranks, nbytes, size=1)
    case.at_most(
        max(sent),
        ring + len(shapes) * 4 * ring_bytes(ranks, ranks, size=8),  # room for counting the examples every time
        f"rank {sent.index(max(sent))} sent {{seen}} bytes; all-reduces send about {ring:,}: sum with dist.all_reduce, "
        "and let no rank gather",
        "too-many-bytes",
    )
    return "the gradient of the whole batch on every rank · uneven shards, missing gradients · few bytes"


# all_reduce_per_parameter, all_reduce_bucket and all_reduce_per_bucket


NARROW = {16: ", as bfloat16 and float16", 32: ", as float32"}
TIED = Hint(
    "changed before its wait()",
    "its gradient is summed twice in a step: it is one of model.parameters(), so register one hook for it",
    "tied-twice",
)
BEFORE = "register_hook calls its function before the gradient is added to .grad, which is still None or that of the "
BEFORE += "step before. Use register_post_accumulate_grad_hook, which calls it afterwards"
NOT_YET = Hint(
    "NoneType",
    "a parameter's .grad was still None when its all-reduce was to start. Start it when all its gradients have come, "
    "whichever comes last, and from register_post_accumulate_grad_hook: register_hook calls before .grad is there",
    "too-early",
)
NO_GRADIENT = Hint(
    "NoneType",
    "a parameter that gets no gradient has .grad None. It counts as zeros: put torch.zeros_like(parameter) there",
    "missing",
)
OTHER_ORDER = Hint(
    OTHER_CALL,
    "launch in the order of the plan, whatever is ready first, with zeros where a parameter has no gradient",
    "different-buckets",
)


def _reference(x: torch.Tensor, y: torch.Tensor, built: list, steps: int, scale: float = 1.0) -> list:
    """Return the weights after training on mean gradients of `built` replicas' rows, in one process."""
    models = [Chain(**kind) for kind in built]
    for _ in range(steps):
        for model, rows, wanted in zip(models, x.tensor_split(len(models)), y.tensor_split(len(models)), strict=True):
            model.zero_grad()
            nn.functional.mse_loss(model(rows), wanted).backward()
        for same in zip(*(model.parameters() for model in models), strict=True):
            mean = scale * sum(p.grad for p in same if p.grad is not None) / len(models)
            for parameter in same:
                parameter.data -= RATE * mean
    return [p.detach() for p in models[0].parameters()]


def _trains(
    answer: Any, cap: int, ranks: int, tied: bool = False, users: Any = None, real: bool = False, zeroed: bool = False
) -> None:
    """Judge the weights after three steps, with buckets of `cap` bytes if any; only `users` get a gradient of layer 1.

    After one step the weights are looked at too, so that a mistake in what is kept between steps is told as such.
    """
    steps, widths = 3, SQUARE if tied or users is not None else WIDTHS
    x, y = draw_data(8, widths[0], widths[-1])
    built = [{"widths": widths, "seed": 5, "tied": tied} for _ in range(ranks)]
    label, hints = "with two layers that share their weight" if tied else "", [TIED] if tied else []
    hints.append(NOT_YET)
    if users is not None:
        built = [kind | {"skipped": () if rank in users else (1,)} for rank, kind in enumerate(built)]
        label = f"where {f'only rank {users[0]}' if users else 'no rank'} uses layer 1,"
        hints = [OTHER_ORDER, NO_GRADIENT]
    if zeroed:
        label = "with zero_grad(set_to_none=False), where a step begins with gradients of zeros,"
    start, once, want = (_reference(x, y, built, count) for count in (0, 1, steps))
    summed, twice = (_reference(x, y, built, steps, scale) for scale in (float(ranks), 1 / ranks))
    alone = _reference(x.tensor_split(ranks)[0], y.tensor_split(ranks)[0], built[:1], steps)
    more = (_plan([_size(parameter) for parameter in start], cap),) if cap else ()
    units = len(more[0]) if cap else len(start)
    case = Case(ranks, label, real)

    def after(count: int, hints: list) -> Results:
        data = more, dealt(x, ranks), dealt(y, ranks), each(built), count, zeroed
        trace = case.run(trained, answer, *data, hints=hints)
        forms = [type(mine) for mine in trace]
        case.expect(str not in forms, "it returned no function: return the one that waits and divides", "no-function")
        return trace

    first = None if real else after(1, hints)
    right_at_first = not real and all(near(mine, once, 1e-9) for mine, _ in first)
    kept = "empty at the end of each step what you keep of it (handles, which gradients have come)"
    if zeroed:
        kept = "a gradient that is not None may be the zeros of the step's beginning: remember which have come"
    code = "asks-for-none" if zeroed else "kept-state"
    later = f"are right after 1 step and wrong after {steps}: {kept}"
    fails = Hint("", f"the first of {steps} steps is right and a later one fails: {kept}", code)
    got = after(steps, [fails] if right_at_first else hints)
    calls = units if real else first.collectives[0].count("all_reduce")
    summed_numbers = 2 * (ranks - 1) / ranks * sum(parameter.numel() for parameter in start)  # that a rank sends
    bits = 64 if real else min((8, 16, 32, 64), key=lambda bits: abs(8 * first.bytes_sent[0] / summed_numbers - bits))
    divided = f"has the weights of gradients divided by the {ranks} ranks twice: divide once, before or after the sum"
    few = f"called all_reduce {calls} times in a step with {units} {'buckets' if cap else 'parameters'}: "
    few += "what no hook has launched, the function that you return launches"
    narrow = f"What is summed has {bits} bits a number{NARROW.get(bits, '')}, and the gradients are 64-bit (float64): "
    narrow += "sum in the gradients' own dtype"
    for rank, (mine, early) in enumerate(got):
        differs = _first_off(mine, want, "one process on all rows has")
        case.also(f"after {steps} steps of gradient descent").same(
            mine,
            want,
            f"rank {rank}",
            Mistake("unchanged", start, "has the weights that it began with: no weight has changed"),
            Mistake("sum", summed, f"has the weights of summed gradients: divide by the number of ranks, {ranks}"),
            Mistake("divided-twice", twice, divided),
            Mistake("wrong-hook", early, f"has other weights than one process: {BEFORE}"),
            Mistake("replicas-differ", rank > 0, "has other weights than rank 0, which has the right ones"),
            Mistake("alone", alone, "has the weights of training alone: the all-reduces did not reach parameter.grad"),
            Mistake(code, right_at_first, "has weights that " + later),
            Mistake("never-launched", calls < units, few),
            Mistake("dtype", bits < 64 and near(mine, want, 1e-2), f"has lost digits: {differs}. {narrow}"),
            Mistake("value", True, f"has other weights: {differs}"),
            tolerance=1e-9,
        )


def _overlaps(answer: Any, more: tuple, see: str, units: str, bound: float) -> None:
    """Judge two traced steps: the first launch before backward ends, no launch that holds backward up, and again."""
    case = Case(2, see=f"timeline({see})")
    try:
        trace = overlap(answer, *more, steps=2)
    except RankFailed as failure:
        case.failed(failure)
    computed = trace.of(0, "work")
    steps, half = [], len(computed) // 2
    for events, until in ((computed[:half], computed[half].start), (computed[half:], trace.seconds)):
        began = events[0].start
        launches = [event.posted - began for event in trace.of(0, "all_reduce") if began <= event.posted < until]
        steps.append((events[-1].end - began, launches, until - began))
    (ended, launches, took), (_, later, took_later) = steps
    first = min(launches, default=math.inf)
    nothing = f"so nothing overlaps: start it from a hook, when the gradients of {units} are there"
    case.expect(
        first < ended,
        f"backward ended at {ended:g} s of virtual time and the first all-reduce began at {first:g} s, {nothing}",
        "after-backward",
    )
    case.at_most(
        ended,
        sum(event.end - event.start for event in computed[:half]) + 1e-9,
        "backward has {bound} s to compute and ended at {seen} s: a hook waited for its all-reduce. Start it with "
        "async_op=True and wait in the function that you return",
        "blocking",
    )
    enough = f"are enough when each starts as soon as the gradients of {units} are there"
    yours = f"backward and all-reduces took {{seen}} s; {{bound}} s {enough}. Yours started at {_times(launches)}"
    case.at_most(took, bound, yours, "late")
    again = f"in the second step the all-reduces began at {_times(later)} of backward, and in the first at "
    again += f"{_times(launches)}: set back for the next step what you keep of a step (counters, handles, what came)"
    case.at_most(took_later, bound, again, "kept-state", f"timeline({see.removesuffix(')')}, steps=2))")


def _times(seconds: list) -> str:
    return ", ".join(f"{time:g}" for time in seconds[:8]) + " s" if seconds else "no time"


@check(value=2, one_each=1, overlap=2)
def check_all_reduce_per_parameter(answer: Any, part: Any) -> str:
    see = "overlap(all_reduce_per_parameter)"
    part("value")
    _trains(answer, 0, 4)
    _trains(answer, 0, 2, tied=True)
    _trains(answer, 0, 2, real=True)
    part("one each")
    calls = overlap(answer).collectives[0].count("all_reduce")
    count = 2 * (len(SQUARE) - 1)
    one_each = f"rank 0 called all_reduce {calls} times; with {count} parameters it takes {count}: one each"
    expect(calls == count, f"in one step {one_each}", "count", f"{see}.collectives[0]")
    part("overlap")
    _overlaps(answer, (), see, "a parameter", 4.5)
    return "weights of one process after 3 steps, tied ones too · one all-reduce a parameter · started during backward"


def _plan(sizes: list, cap: int) -> list:
    """Return buckets of neighbours, last first, of at most `cap` bytes."""
    buckets: list = []
    room = -1
    for place in reversed(range(len(sizes))):
        if sizes[place] > room:
            buckets.append([])
            room = cap
        buckets[-1].append(place)
        room -= sizes[place]
    return buckets


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


PACKED = [(3, 2), (5,), (2, 3)]  # as long from both ends, so that pieces in the wrong places fit
UNLIKE = [(2,), (3,), (5, 1)]


def packed(
    dist: Any, answer: Any, shapes: list, grads: list, seconds: float, dtype: str = "float64"
) -> list | str:
    parameters = [nn.Parameter(torch.zeros(shape, dtype=getattr(torch, dtype))) for shape in shapes]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad
    finish = answer(dist, parameters)
    if not callable(finish):
        return "no function"
    work(seconds)
    finish()
    return [parameter.grad for parameter in parameters]


def _packs(
    answer: Any,
    ranks: int,
    missing: tuple = (),
    real: bool = False,
    shapes: list = PACKED,
    dtype: str = "float64",
) -> None:
    """Judge the gradients of a bucket of three parameters; `missing` has (rank, place) of those that are None."""
    whole = [[grad / 7 + 10 * place for place, grad in enumerate(own)]
             for own in zip(*(integers(ranks, shape, dtype) for shape in shapes), strict=True)]  # fmt: skip
    for rank, place in missing:
        whole[rank][place] = None
    filled = [[torch.zeros(shape, dtype=getattr(torch, dtype)) if grad is None else grad
               for shape, grad in zip(shapes, own, strict=True)] for own in whole]  # fmt: skip
    summed = [sum(same) for same in zip(*filled, strict=True)]
    want = [total / ranks for total in summed]
    turned = [want[2].view(3, 2), want[1], want[0].view(2, 3)] if shapes is PACKED else False
    rounding = 0.02 * max(mean.abs().max().item() for mean in want)  # of 16 bits, and more than that of sums of them
    label = f"with a bucket of 3 parameters{f' of {dtype}' if dtype != 'float64' else ''}"
    if missing:
        none = [f"rank {rank} has no gradient of parameter {place}" for rank, place in missing]
        label += f", where {' and '.join(none)},"
    case = Case(ranks, label, real)
    shaped = Hint("assign a gradient of size", "give each piece the shape of its parameter, with view_as", "shape")
    data = each([[None if grad is None else grad.clone() for grad in own] for own in whole])
    got = case.run(packed, answer, shapes, data, 0.0, dtype, hints=[SKIPPED, NO_GRADIENT] if missing else [shaped])
    forms = [type(mine) for mine in got]
    nothing = "it returned no function: return the one that waits and writes the means"
    case.expect(str not in forms, nothing, "no-function")
    for rank, mine in enumerate(got):
        case.same(
            mine,
            want,
            f"the gradients on rank {rank}",
            Mistake("unchanged", filled[rank], "are what they were: write the pieces of the sum to parameter.grad"),
            Mistake("sum", summed, f"are the sum: divide by the number of ranks, {ranks}"),
            Mistake("swapped", turned, "have changed places: pieces come in the order in which you laid them down"),
            Mistake("dtype", near(mine, want, rounding), f"have lost digits: sum in their own dtype, here {dtype}"),
            Mistake("value", True, f"are wrong: that of {_first_off(mine, want, 'the mean over the ranks is')}"),
            tolerance=1e-12 if dtype == "float64" else 1e-5,
        )


@check(value=1, one_message=1, missing=1)
def check_all_reduce_bucket(answer: Any, part: Any) -> str:
    part("value")
    _packs(answer, 4)
    _packs(answer, 2, real=True)
    _packs(answer, 2, shapes=UNLIKE)
    part("one message")
    own = each([list(grads) for grads in zip(*(integers(2, shape, "float64") for shape in PACKED), strict=True)])
    case = Case(2, "with a bucket of 3 parameters, and 2 s of work before the function is called,", on=SLOW)
    trace = case.run(packed, answer, PACKED, own, 2.0)
    calls, nbytes = trace.collectives[0].count("all_reduce"), 8 * sum(math.prod(shape) for shape in PACKED)
    one = f"rank 0 called all_reduce {calls} times: lay the gradients in one flat tensor and sum that"
    case.expect(calls == 1, one, "count")
    few = "rank 0 sent {seen} bytes; the gradients have {bound}"
    case.at_most(trace.bytes_sent[0], nbytes, few, "too-many-bytes")
    began = trace.of(0, "all_reduce")[0].posted
    late = f"the all-reduce began at {began:g} s, after the work: start it at once, before you return the function"
    case.expect(began < 2.0, late, "late")
    blocks = "it took {seen} s; {bound} s are enough, because the sum can go on while the rank works. Start the "
    blocks += "all-reduce with async_op=True, and wait only in the function that you return"
    case.at_most(trace.seconds, 2.0, blocks, "blocking")
    part("missing")
    _packs(answer, 2, missing=((1, 0),))
    _packs(answer, 3, missing=((0, 1), (1, 1), (2, 1), (2, 2)))
    _packs(answer, 2, missing=((1, 0),), shapes=UNLIKE, dtype="float32")
    return "means in their places · one all-reduce, under way while the rank works · missing gradients count as zeros"


@check(value=2, collectives=1, overlap=1, unused=2)
def check_all_reduce_per_bucket(answer: Any, part: Any) -> str:
    part("value")
    _trains(answer, 400, 4)
    _trains(answer, 400, 2, tied=True)
    _trains(answer, 400, 2, zeroed=True)
    _trains(answer, 10**6, 2, real=True)
    part("collectives")
    layers = [[7, 6], [5, 4], [3, 2], [1, 0]]
    nbytes = 8 * 4 * (25 + 5)
    for buckets in (layers, [[7, 6, 5], [4, 3, 2, 1, 0]], [list(range(8))]):
        trace, see = overlap(answer, buckets), f"overlap(all_reduce_per_bucket, {buckets})"
        calls = trace.collectives[0].count("all_reduce")
        case = Case(words=f"in one step with {len(buckets)} buckets and {nbytes:,} bytes of gradients")
        flat = f"rank 0 called all_reduce {calls} times: lay the gradients of a bucket in one flat tensor and sum that"
        case.expect(calls == len(buckets), flat, "count", f"{see}.collectives[0]")
        room = 16 * len(buckets)  # one number more a bucket
        few = f"rank 0 sent {{seen}} bytes; {nbytes:,} are enough"
        case.at_most(trace.bytes_sent[0], nbytes + room, few, "too-many-bytes", f"{see}.bytes_sent")
    part("overlap")
    _overlaps(answer, (layers,), f"overlap(all_reduce_per_bucket, {layers})", "a bucket", 4.0)
    halves = [[4, 5, 6, 7], [0, 1, 2, 3]]  # the places of a bucket in another order than that of backward
    case = Case(words=f"with the plan {halves}", see=f"timeline(overlap(all_reduce_per_bucket, {halves}))")
    launched = [event.posted for event in overlap(answer, halves).of(0, "all_reduce")]
    for number, (bucket, began) in enumerate(zip(halves, launched, strict=False)):
        came = float(3 - min(bucket) // 2)  # a layer has two parameters, and a second lies between two layers
        early = f"the all-reduce of bucket {number} began at {began:g} s of backward, and the gradient of parameter "
        early += f"{min(bucket)} came at {came:g} s: start it when all gradients of the bucket are there, whichever "
        early += "comes last"
        case.expect(began >= came - 1e-9, early, "too-early")
    _starts_all_that_are_complete(answer)
    part("unused")
    _trains(answer, 400, 2, users=())
    _trains(answer, 400, 2, users=(0,))
    _trains(answer, 240, 3, users=(1,))
    return "weights of one process, tied and unused parameters too · one all-reduce a bucket · started during backward"


def _starts_all_that_are_complete(answer: Any) -> None:
    """Judge a plan whose first bucket is complete last of three: one gradient then sets off three all-reduces."""
    plan = [[3, 2], [7, 6], [5, 4], [1, 0]]
    case = Case(words=f"with the plan {plan}", see=f"timeline(overlap(all_reduce_per_bucket, {plan}))")
    launched = [event.posted for event in overlap(answer, plan).of(0, "all_reduce")]
    came = [float(3 - min(bucket) // 2) for bucket in plan]  # a second lies between two layers
    for number, began in enumerate(launched):
        ready = max(came[: number + 1])
        soon = f"all-reduce {number} of the step began at {began:g} s of backward, and the last gradient of bucket "
        soon += f"{number} came at {came[number]:g} s: start the buckets in the order of the plan, each when all of "
        soon += f"*its* gradients have come. Another bucket in its place is added to bucket {number} of other ranks"
        case.expect(began >= came[number] - 1e-9, soon, "too-early")
        late = f"bucket {number} was complete at {came[number]:g} s of backward and all buckets ahead of it at "
        late += f"{ready:g} s, yet its all-reduce began at {began:g} s: one gradient can set off several buckets, so "
        late += "go on as long as the next bucket is complete, with while in place of if"
        case.expect(began <= ready + 1e-9, late, "one-at-a-time")


# plan_buckets


def _plan_of_ddp(sizes: list, cap: int) -> list:
    """Return the plan of torch's rule: a bucket is closed once it holds the cap or more."""
    buckets: list = []
    held = cap
    for place in reversed(range(len(sizes))):
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(place)
        held += sizes[place]
    return buckets


@check(cap=1, order=1, fewest=1)
def check_plan_buckets(answer: Any, part: Any) -> str:
    plans, own = [], drawn("plan_buckets")
    for shapes, cap, dtype in (
        ([(2, 3), (4,), (5, 5), (1,)], 120, "float32"),
        ([(10,), (10,), (10,), (10,)], 80, "float32"),
        ([(300,), (2,), (3,), (2, 2)], 64, "float64"),
        ([(3,)], 1000, "float32"),
        ([(8,), (8,), (8,), (8,), (8,)], 1, "float32"),
        ([(8,), (16,), (4,), (2,), (2,), (32,), (1,)], 128, "bfloat16"),
        ([(10,), (15,), (15,)], 100, "float32"),  # the first fits beside the last, and they are no neighbours
        ([(own.randint(1, 40),) for _ in range(9)], 4 * own.randint(40, 80), "float32"),
    ):
        tensors = [torch.zeros(shape, dtype=getattr(torch, dtype)) for shape in shapes]
        sizes = [_size(tensor) for tensor in tensors]
        case = Case(label=f"with parameters of {', '.join(map(str, sizes))} bytes and a cap of {cap}")
        got = answer(tensors, cap)
        lists = isinstance(got, (list, tuple)) and all(isinstance(bucket, (list, tuple)) for bucket in got)
        places = lists and all(type(index) is int for bucket in got for index in bucket)
        form = "return a list of buckets, each a list of places in `parameters`, as in [[3, 2], [1, 0]]"
        case.expect(places, f"it returned {got!r}: {form}", "form")
        plans.append((case, sizes, cap, [list(bucket) for bucket in got], [tensor.numel() for tensor in tensors]))
    part("cap")
    as_elements = all(plan == _plan(counts, cap) for _, _, cap, plan, counts in plans)
    as_ddp = all(plan == _plan_of_ddp(sizes, cap) for _, sizes, cap, plan, _ in plans)
    for case, sizes, cap, plan, _ in plans:
        placed = sorted(index for bucket in plan for index in bucket)
        missing = sorted(set(range(len(sizes))) - set(placed))
        case.expect(not missing, f"parameter {missing[:1]} is in no bucket of {plan}: is the last bucket kept?", "lost")
        once = placed == list(range(len(sizes)))
        case.expect(once, f"{plan} holds a parameter twice, or one that is not there", "twice")
        for bucket in plan:
            held = sum(sizes[index] for index in bucket)
            empty = f"the plan {plan} has an empty bucket: open one only for a parameter"
            case.expect(len(bucket) > 0, empty, "empty")
            why = "only a parameter that is larger than the cap by itself may be above it, alone"
            if as_elements:
                why += ". You have counted elements: count bytes, numel() * element_size()"
            elif as_ddp:
                why += ". You close a bucket once it has reached the cap. That is DDP's own rule, which lets a bucket "
                why += "exceed it; here, look before you put a parameter in, and open a new bucket if it does not fit"
            above = f"bucket {bucket} holds {held} bytes: {why}"
            case.expect(held <= cap or len(bucket) == 1, above, "above-cap")
    part("order")
    for case, sizes, _, plan, _ in plans:
        for bucket in plan:
            between = sorted(set(range(min(bucket), max(bucket))) - set(bucket))
            without = f"holds {max(bucket)} and {min(bucket)} without {', '.join(map(str, between))}"
            why = "a bucket holds neighbours, so go on only in the bucket that was opened last"
            case.expect(not between, f"bucket {bucket} of the plan {plan} {without}: {why}", "no-neighbours")
        flat = [index for bucket in plan for index in sorted(bucket, reverse=True)]
        why = "backward computes the last parameter's gradient first, so the first bucket must hold the last parameters"
        case.expect(flat == list(reversed(range(len(sizes)))), f"the plan is {plan}: {why}, and so on", "order")
    part("fewest")
    for case, sizes, cap, plan, _ in plans:
        why = "count bytes (numel times element_size), and begin a bucket only when the next parameter does not fit"
        many = f"the plan {plan} has {{seen}} buckets; {{bound}} are enough: {why}"
        case.at_most(len(plan), len(_plan(sizes, cap)), many, "too-many-buckets")
        for bucket, following in zip(plan, plan[1:], strict=False):
            held, index = sum(sizes[index] for index in bucket), max(following)
            fits = f"it holds {held} bytes, and parameter {index} with {sizes[index]} fits too"
            room = f"the plan {plan} leaves room in bucket {bucket}: {fits}. Fill buckets from the last parameter on"
            case.expect(held + sizes[index] > cap, room, "not-filled")
    return "every parameter once, last ones first · never above the cap but alone · no bucket with room for the next"


# break_it


LOOPED = {"widths": (3, 4, 2), "seed": 7}  # the model of break_it on rank 0
BATCH = 8
FAULTS = {
    "sum": "sums the gradients: take the mean, or the learning rate is 4 times as large on 4 ranks",
    "mean-of-means": "takes the mean of the ranks' means, and in the last batch some ranks have fewer rows",
    "drop-last": "leaves the last, short batch out",
    "same-order": "goes through the rows in the order of epoch 0 in every epoch: ask order(epoch)",
    "batch-each": f"takes a batch for each rank: the {BATCH} rows of `batch` are the global batch, of which each rank "
    "has its share",
    "kept-gradients": "adds each step's gradient to those of the steps before: zero .grad before backward",
}


@dataclass
class Loop:
    """The training that an answer to break_it is judged by: `epochs` through so many rows, in batches of BATCH."""

    answer: Any
    rows: int
    epochs: int = 1
    ranks: int = 4

    def __post_init__(self) -> None:
        self.x, self.y = draw_data(self.rows, 3, 2)
        generator = torch.Generator().manual_seed(self.rows)
        self.orders = [torch.randperm(self.rows, generator=generator) for _ in range(self.epochs)]
        self.want = self.weights()
        self.faulty = [
            Mistake(fault, self.weights(fault, strided), says)
            for fault, says in FAULTS.items()
            for strided in (False, True)
        ]

    def weights(self, fault: str = "", strided: bool = False) -> list:
        """Return the weights after the loop in one process, or after the loop with one fault.

        Ranks take neighbouring rows, or every P-th one where `strided`: a fault may come out differently.
        """
        model, ranks = Chain(**LOOPED), self.ranks
        for epoch in range(self.epochs):
            order = self.orders[0 if fault == "same-order" else epoch]
            for rows in order.split(BATCH * ranks if fault == "batch-each" else BATCH):
                if fault == "drop-last" and len(rows) < BATCH:
                    continue
                shards = [rows[rank::ranks] for rank in range(ranks)] if strided else rows.tensor_split(ranks)
                shards = [shard for shard in shards if len(shard)]
                if fault != "kept-gradients":
                    model.zero_grad()
                for shard in shards:
                    share = {"sum": 1.0, "mean-of-means": 1 / ranks}.get(fault, len(shard) / len(rows))
                    (share * nn.functional.mse_loss(model(self.x[shard]), self.y[shard])).backward()
                for parameter in model.parameters():
                    parameter.data -= RATE * parameter.grad
        return [p.detach() for p in model.parameters()]

    def run(self, built: list, buffers: list | None = None, real: bool = False) -> tuple[Case, Results]:
        ranks = len(built)
        case = Case(ranks, f"with {self.rows} rows in batches of {BATCH}", real)
        data = self.x.clone(), self.y.clone(), [order.clone() for order in self.orders], BATCH
        return case, case.run(looped, self.answer, *data, each(built), each(buffers or [None] * ranks))

    def judge(self, built: list, real: bool = False) -> list:
        """Judge the weights at the end, and return how many rows each rank has trained on."""
        case, got = self.run(built, real=real)
        trained_on = [sum(note[0] for note in notes) for *_, notes in got]
        seen, there = sum(trained_on), sum(map(len, self.orders))
        few = f"{there - seen} were left out, as with len(rows) // ranks rows for each. Deal out all of them, as by "
        equal_shares = f"{seen - there} came twice, which makes ranks equal, but a row that is repeated counts twice. "
        twice = f"has trained on {seen} rows: {equal_shares}Let ranks have different numbers of rows, also none"
        apart = not near(got[1][0], got[0][0], 1e-9)
        first, begins = self.first_rows(got), sorted(self.orders[0][:BATCH].tolist())
        others = f"trains in its first step on rows {first}, and order(0) begins with {begins}: take order(epoch) "
        for rank, (mine, *_) in enumerate(got):
            differs = _first_off(mine, self.want, "one process has")
            case.same(
                mine,
                self.want,
                "the loop",
                *self.faulty,
                Mistake("rows-dropped", seen < there, f"has trained on {seen} rows: {few}rows.tensor_split(ranks)"),
                Mistake("rows-repeated", seen > there, twice),
                Mistake("replicas-differ", apart, "leaves ranks with different weights"),
                Mistake("other-rows", len(first) == len(begins) and first != begins, f"{others}as it comes"),
                Mistake("value", True, f"ends with other weights on rank {rank}: {differs}"),
                tolerance=1e-9,
            )
        return trained_on

    def first_rows(self, got: Results) -> list:
        """Return the numbers of the rows that all ranks together train on before the first step."""
        first = [x for *_, notes in got for _, weights, _, _, x in notes if near(weights, notes[0][1], 0.0)]
        rows = {tuple(row.tolist()): number for number, row in enumerate(self.x)}
        return sorted(rows.get(tuple(row.tolist()), -1) for x in first for row in x)

    def judge_start(self, built: list) -> None:
        """Judge that ranks with other weights each begin with those of rank 0."""
        case, got = self.run(built)
        own = [[p.detach() for p in Chain(**kind).parameters()] for kind in built]
        left = all(near(mine[0], began, 1e-12) for mine, began in zip(got, own, strict=True))
        case.expect(not left, "`model` is on every rank as it was: train `model` itself, not a copy of it", "unchanged")
        for rank in range(1, len(built)):
            ends = f"every rank began with other weights, and rank {rank} ends with other weights than rank 0: "
            ends += "equal gradients keep equal weights equal, but make no weights equal. "
            ends += "Broadcast them from rank 0 before the first step"
            case.expect(near(got[rank][0], got[0][0], 1e-9), ends, "different-start")
        case.expect(not near(got[0][0], own[0], 1e-12), "no weight has changed", "unchanged")
        mean = [sum(same) / len(own) for same in zip(*own, strict=True)]
        for rank, (*_, notes) in enumerate(got):
            of_rank = [(weights, f"the weights of rank {other}") for other, weights in enumerate(own)]
            of_rank = [(mean, "the mean of all ranks' weights"), (own[rank], "weights of its own"), *of_rank]
            right = ", and those of rank 0 count: dist.broadcast(tensor, 0) for each, before the first step"
            known = [Mistake("wrong-start", weights, f"{whose}{right}") for weights, whose in of_rank]
            began = notes[0][1] if notes else None
            other = Mistake("wrong-start", True, f"others{right}")
            case.same(began, own[0], f"rank {rank} began with", *known, other, tolerance=1e-12)

    def judge_buffers(self, built: list) -> None:
        """Judge the running mean in each forward and at the end: rank 0's first, then rank 0's or the ranks' mean."""
        ranks = len(built)
        own = [start + 10 * rank for rank, start in enumerate(integers(ranks, (4,), "float64"))]
        case, got = self.run(built, [start.clone() for start in own])
        case = case.also("the model's buffer (a running mean)")
        ends = [buffers[0] for _, buffers, _ in got]
        for rank in range(1, ranks):
            apart = f"ends as {numbers(ends[0])} on rank 0 and {numbers(ends[rank])} on rank {rank}"
            why = "buffers have no gradient, so broadcast them too, in every step"
            case.expect(near(ends[rank], ends[0], 1e-12), f"{apart}: {why}", "buffers")
        steps = [_by_step(notes) for *_, notes in got]
        moved = all(steps) and any(not near(before, after, 1e-12) for before, after in steps[0])
        case.expect(moved, "is never moved: leave the model in training mode", "buffer-not-used")
        for rank, ((start, _), *_) in enumerate(steps):
            began = f"with which rank {rank} began is {numbers(start)}; rank 0 came with {numbers(own[0])}"
            why = "broadcast buffers too, before the first step"
            case.expect(near(start, own[0], 1e-12), f"{began}: {why}", "buffer-start")
        for done in range(1, len(steps[0]) + 1):
            now = [mine[done][0] if done < len(mine) else end for mine, end in zip(steps, ends, strict=True)]
            left = [mine[done - 1][1] for mine in steps]  # by the forward before
            for rank in range(1, ranks):
                apart = f"is {numbers(now[0])} on rank 0 and {numbers(now[rank])} on rank {rank} after step {done}"
                why = "equal only at the end: broadcast it in every step"
                case.expect(near(now[rank], now[0], 1e-12), f"{apart}, and {why}", "buffers")
            mean = sum(left) / ranks
            both = f"rank 0's is {numbers(left[0])}, the mean over the ranks {numbers(mean)}: take one of these"
            times = f"that is {ranks} times the ranks' mean: divide by the number of ranks what all_reduce adds up"
            case.same(
                now[0],
                left[0] if near(now[0], left[0], 1e-9) else mean,
                f"is {numbers(now[0])} after step {done};",
                Mistake("buffer-sum", ranks * mean, times),
                Mistake("buffer-value", True, both),
                tolerance=1e-9,
            )


def _by_step(notes: list) -> list:
    """Return the buffer before and after the forwards of each step: weights change between steps only."""
    steps: list = []
    for number, (_, weights, before, after, _) in enumerate(notes):
        if number and near(weights, notes[number - 1][1], 0.0):
            steps[-1][1] = after[0]
        else:
            steps.append([before[0], after[0]])
    return steps


@check(init=1, mean=1, last_batch=1, shuffle=1, buffers=1)
def check_break_it(answer: Any, part: Any) -> str:
    loop, *short = [Loop(answer, rows) for rows in (16, 22, 17)]
    epochs = Loop(answer, 16, epochs=3)
    same, other = [LOOPED] * loop.ranks, [LOOPED | {"seed": 7 + rank} for rank in range(loop.ranks)]
    part("init")
    loop.judge_start(other)
    part("mean")
    rows = loop.judge(same)
    own = f"its share is {loop.rows // loop.ranks}: each rank takes its own rows of each batch"
    alone = f"rank {rows.index(max(rows))} trained on {{seen}} of the {loop.rows} rows; {own}"
    twice_its_share = loop.rows / 2  # how rows are dealt out is left open
    Case(loop.ranks).at_most(max(rows), twice_its_share, alone, "all-rows")
    loop.judge(other[:2], real=True)
    part("last batch")
    for one in short:
        one.judge(same)
    part("shuffle")
    epochs.judge(same)
    part("buffers")
    loop.judge_buffers(same)
    return "same start · mean over rows, also in short batches · a new order each epoch · equal buffers"


# linear_backward


@check(value=2, shapes=1)
def check_linear_backward(answer: Any, part: Any) -> str:
    stored = "nn.Linear stores its weight as (out, in), and its gradient has that shape"
    cases = []
    for batch, into, out in ((3, 4, 2), (5, 3, 3), (1, 2, 6)):
        x, weight, grad = (integers(1, shape, "float64")[0] + 1 for shape in ((batch, into), (out, into), (batch, out)))
        cases.append((x, weight, grad, (grad @ weight, grad.T @ x, grad.sum(0))))
    x, weight, grad = draw((4, 3), 1), draw((5, 3), 2), draw((4, 5), 3)  # whose products half precision rounds
    cases.append((x, weight, grad, (grad @ weight, grad.T @ x, grad.sum(0))))

    def judge(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, wants: tuple) -> None:
        case = Case(label=f"with x {list(x.shape)}, weight {list(weight.shape)} and grad_output {list(grad.shape)}")
        try:
            got = answer(x.clone(), weight.clone(), grad.clone())
        except (RuntimeError, RankFailed) as error:
            fits = "shapes cannot be multiplied" not in str(error)
            case.expect(fits, f"it raised {error}: {stored}", "transposed")
            raise
        form = f"it returned {type(got).__name__}: return the gradients of x, weight and bias"
        case.expect(isinstance(got, (list, tuple)) and len(got) == 3, form, "form")
        turned = weight.shape[0] == weight.shape[1] and grad @ weight.T
        for name, mine, want in zip(("x", "weight", "bias"), got, wants, strict=True):
            shape, right = list(getattr(mine, "shape", [])), list(want.shape)
            way = "nn.Linear computes x @ weight.T, so the way back is grad_output @ weight"
            over = ": sum over the batch" if name == "bias" else ""
            over = ": sum over the batch without keepdim" if name == "bias" and shape == [1, *right] else over
            case.same(
                mine,
                want,
                f"the gradient of {name}",
                Mistake("transposed", name == "weight" and want.T, f"is the transposed one: {stored}"),
                Mistake("transposed", name == "x" and turned, f"is that of the transposed weight: {way}"),
                Mistake("shape", shape != right, f"has shape {shape}; {name} has {right}{over}"),
                Mistake("mean", want / len(x), f"is {len(x)} times too small: sum over the batch, do not divide by it"),
                says="autograd says",
                tolerance=1e-9,
            )

    part("value")
    judge(*cases[0])
    judge(*cases[1])
    part("shapes")
    judge(*cases[2])
    judge(*cases[3])
    return "the three gradients that autograd computes, for a weight stored as (out, in)"


# no_sync


@check(value=1, collectives=1, overlap=1)
def check_no_sync(answer: Any, part: Any) -> str:
    ranks, micro, buckets = 2, 3, [[7, 6, 5, 4], [3, 2, 1, 0]]
    x, y = draw_data(12, SQUARE[0], SQUARE[-1])
    built = {"widths": SQUARE, "seed": 5}
    shards = zip(x.tensor_split(ranks), y.tensor_split(ranks), strict=True)
    parts = [list(zip(a.split(2), b.split(2), strict=True)) for a, b in shards]
    own = each([[(a.clone(), b.clone()) for a, b in pairs] for pairs in parts])

    def gradients(*places: int, scale: float = 1 / micro, turned: bool = False) -> list:
        """Return the mean over the ranks of the gradients of some micro-batches, each times `scale`."""
        model = Chain(**built)
        for a, b in (pairs[place] for pairs in parts for place in places):
            ((weighed_loss(b, model(a)) if turned else weighed_loss(model(a), b)) * scale / ranks).backward()
        return [p.grad for p in model.parameters()]

    want = gradients(*range(micro))
    first = "are those of the first micro-batch alone: its backward launched the buckets. Register hooks after it"
    last = "are those of the last micro-batch alone: keep what the backwards before it have added up in .grad"
    all_ranks = f"are {ranks} times too large: divide by {ranks}, the number of ranks"
    all_micro = f"are {micro} times too large: divide each loss by {micro}, the number of micro-batches"
    known = [
        Mistake("sum", gradients(*range(micro), scale=1.0), all_micro),
        Mistake("sum", gradients(*range(micro), scale=ranks / micro), all_ranks),
    ]
    places = range(micro)
    known.append(Mistake("loss-turned", gradients(*places, turned=True), "are those of another loss: it is "
        "loss(model(x), y), not loss(y, model(x))"))  # fmt: skip
    for scale in (1 / micro, 1.0):
        known.append(Mistake("first-only", gradients(0, scale=scale), first))
        known.append(Mistake("last-only", gradients(-1, scale=scale), last))
    case = Case(ranks, f"with {micro} micro-batches each")
    part("value")
    for real in (False, True):
        here = Case(ranks, case.label, real)
        for rank, mine in enumerate(here.run(accumulated, answer, buckets, own, built)):
            differs = f"are wrong: that of {_first_off(mine, want, f'over all {len(x)} rows it is')}"
            what = f"the gradients on rank {rank}"
            here.same(mine, want, what, *known, Mistake("value", True, differs), tolerance=1e-9)
    part("collectives")
    timed = built | {"seconds": 1.0, "row_seconds": 0.3}  # no number of rows makes a forward as long as a backward
    trace = Case(ranks, case.label, on=SLOW).run(accumulated, answer, buckets, own, timed)
    spent = [event.end - event.start for event in trace.of(0, "work")]
    computing = sum(seconds for seconds in spent if close(seconds, 1.0))
    backward = float(len(SQUARE) - 2)
    need = micro * backward
    ran = f"{backward:g} s for a backward rank 0 ran it for {computing:g} s; {micro} micro-batches take {need:g} s"
    fits = "All rows at once are the batch that does not fit: one backward for each micro-batch"
    case.expect(computing >= need - 1e-9, f"and {ran}. {fits}", "one-backward")
    alive = most = 0
    for seconds in spent:
        alive = 0 if close(seconds, 1.0) else alive + 1
        most = max(most, alive)
    graphs = "rank 0 ran {seen} forwards before its first backward, so the activations of {seen} micro-batches were "
    graphs += "held at a time: give each micro-batch a backward of its own, which frees them"
    case.at_most(most, 1, graphs, "one-graph")
    forwards = sum(not close(seconds, 1.0) for seconds in spent)
    again = f"rank 0 ran {forwards} forwards; {micro} micro-batches take {micro}, one each"
    case.expect(forwards == micro, again, "forwards")
    calls = trace.collectives[0].count("all_reduce")
    last = trace.of(0, "work")[-int(backward)].start
    late = [event.posted >= last for event in trace.of(0, "all_reduce")]
    each_one = f"and {len(buckets)} buckets rank 0 called all_reduce {calls} times in the last backward: lay the "
    each_one += "gradients of a bucket in one flat tensor, and sum that"
    case.expect(calls <= len(buckets) or not all(late), each_one, "count")
    often = "and {bound} buckets rank 0 called all_reduce {seen} times; {bound} are enough: only the last backward may "
    often += "communicate, because gradients add up in .grad until then"
    case.at_most(calls, len(buckets), often, "sync-on-accumulation")
    part("overlap")
    ended = max(event.end for event in trace.of(0, "work"))
    began = min((event.posted for event in trace.of(0, "all_reduce")), default=math.inf)
    after = f"the last backward ended at {ended:g} s and the first all-reduce began at {began:g} s"
    early = "the last backward must start the buckets while it runs"
    case.expect(began < ended, f"{after}: {early}", "after-backward")
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
    cases += [  # few parameters, where no other cap than the right one will do
        ([100_000], [1e-3], 2, 1e-5, 10e9),
        ([400_000, 4000], [1e-4, 1e-5], 4, 5e-4, 10e9),
        ([20_000, 400_000, 1_000_000], [1e-3, 1e-3, 1e-4], 2, 1e-5, 1e9),
        ([1_000_000, 20_000, 1_000_000, 4000], [1e-4, 1e-3, 1e-3, 1e-5], 4, 1e-4, 1e9),
        ([20_000, 100_000, 8000, 8000, 1_000_000], [1e-3, 1e-4, 1e-4, 1e-4, 1e-3], 2, 5e-4, 1e9),
    ]
    for _ in range(4):
        sizes = [4 * shuffle.choice((64, 4096, 16384, 65536)) for _ in range(shuffle.randint(8, 16))]
        seconds = [size * 2e-9 for size in sizes]
        cases.append((sizes, seconds, shuffle.choice((2, 4, 8)), 10 ** shuffle.uniform(-6, -4), 1e9))
    own = drawn("best_bucket_bytes")
    sizes = [4 * own.randint(1000, 100_000) for _ in range(10)]
    cases.append((sizes, [size * 2e-9 for size in sizes], own.choice((2, 4, 8)), 10 ** own.uniform(-6, -4), 1e9))
    wanted = []
    for sizes, seconds, *network in cases:
        caps = {sum(sizes[a:b]) for a in range(len(sizes)) for b in range(a + 1, len(sizes) + 1)}
        wanted.append(min(step_seconds(sizes, seconds, cap, *network) for cap in caps))
    part("best")
    for (sizes, seconds, ranks, latency, bandwidth), best in zip(cases, wanted, strict=True):
        got = plain(answer(list(sizes), list(seconds), ranks, latency, bandwidth))
        number = is_number(got) and got > 0
        expect(number, f"it returned {shown(got)}: return a number of bytes", "form")
        expect(got >= 1, f"it returned {got:.3g}: return the cap in bytes, not the seconds of a step", "seconds")
        took, largest, smallest = (
            step_seconds(sizes, seconds, cap, ranks, latency, bandwidth) for cap in (got, sum(sizes), 1)
        )
        why = ""
        if close(took, largest, 1e-9):
            why = ": one bucket leaves no backward to hide behind"
        elif close(took, smallest, 1e-9):
            why = ": a bucket for every parameter pays the latency every time"
        on = f"on {ranks} ranks, {latency * 1e6:.3g} µs of latency and {bandwidth / 1e9:g} GB/s"
        case = Case(words=f"with {len(sizes)} parameters of {min(sizes):,} to {max(sizes):,} bytes {on},")
        slow = f"a cap of {got:,.0f} B takes {took * 1e3:.4g} ms; the best one takes {best * 1e3:.4g} ms{why}"
        case.expect(took <= 1.05 * best, slow, "too-slow")
    return f"within 5 % of the best step on {len(cases)} clusters and models"


# parameter_server


def _learns(answer: Any) -> None:
    """Judge the learning rate and the digits of the weights: each gradient has one number, which is not 1."""
    ranks, steps, rate, size = 3, 2, 0.25, 2 + 2.0**-35
    case = Case(ranks, words=f"with {ranks - 1} workers, a bound of 1 and a learning rate of {rate}")
    trace = case.run(served, answer, steps, 1, [0.0] * ranks, rate, size)
    final = trace[0][0]
    want = torch.full(((ranks - 1) * steps,), -rate * size, dtype=torch.float64)
    mine = numbers(final)
    case.same(
        final,
        want,
        "the server",
        Mistake("learning-rate", want / rate, f"subtracted 1 times each gradient, and ends with {mine}: multiply it by "
            "the learning rate"),  # fmt: skip
        Mistake("digits", near(final, want, 1e-3), "lost digits: send and apply gradients in the dtype of the weights, "
            "float64"),  # fmt: skip
        Mistake("value", True, f"ends with {mine}; {numbers(want)} is right: weights -= learning_rate * gradient"),
    )
    for worker in range(1, ranks):
        given = torch.stack([weights for _, weights in trace[worker][1]])
        exact = bool(((given == 0) | (given == -rate * size)).all())
        case.expect(exact, f"rank {worker} was given weights that have lost digits: send them as float64", "digits")


@check(once=1, staleness=2, together=1)
def check_parameter_server(answer: Any, part: Any) -> str:
    ranks, steps = 4, 4
    traces = []
    part("once")
    for bound in (2, 0, 1):
        case = Case(ranks, words=f"with {ranks - 1} workers, {steps} steps each, and a bound of {bound},")
        trace = case.run(served, answer, steps, bound, [0, 1.0, 1.0, 5.0])
        traces.append((case, bound, trace))
        final = trace[0][0]
        returned = "rank 0 returned no tensor: the server returns the weights at the end"
        case.expect(final is not None, returned, "no-weights")
        for rank in range(1, ranks):
            done = [step for step, _ in trace[rank][1]]
            each_once = f"rank {rank} computed the gradients of steps {done}; each worker computes each step once, "
            each_once += "from step 0 on"
            case.expect(done == list(range(steps)), each_once, "steps")
        applied, each_once = -final, torch.ones_like(final)
        factor = applied.flatten()[0].item()
        lost, twice = int((applied < 0.5).sum()), int((applied > 1.5).sum())
        alike = abs(factor) >= 1e-9 and near(applied, factor * each_once, 1e-9)
        times = f"added {-factor:.3g} times each gradient to the weights, at a learning rate of 1; wanted is -1 times: "
        never = f"never applied {lost} of {len(final)} gradients: receive and subtract each one before the end"
        case.same(
            applied,
            each_once,
            "the server",
            Mistake("factor", alike, f"{times}weights -= learning_rate * gradient, for each gradient by itself"),
            Mistake("lost", lost > 0, never),
            Mistake("twice", twice > 0, f"applied {twice} of {len(final)} gradients more than once"),
            Mistake("value", True, f"ends with the weights {numbers(final)}"),
            tolerance=1e-9,
        )
    _learns(answer)
    Case(3, real=True).run(served, answer, 2, 1, [0.0] * 3)
    part("staleness")
    for case, bound, trace in traces:
        seen = [(rank, step, weights) for rank in range(1, ranks) for step, weights in trace[rank][1]]
        begun = [int(-weights.sum()) for _, _, weights in seen]  # gradients in the weights that were given out
        for (rank, step, _), had in zip(seen, begun, strict=True):
            slot = (rank - 1) * steps + step
            later = max(there for there, (_, _, other) in zip(begun, seen, strict=True) if other[slot] == 0)
            stale = f"rank {rank} was given weights with {had} gradients in them for step {step}, and its own gradient "
            stale += f"was not yet applied when {later} others were: a staleness of {{seen}} or more. "
            wait = "Let fast workers wait for the oldest gradient under way"
            case.at_most(later - had, bound, f"{stale}{wait}", "too-stale")
        for count in range(len(begun)):
            early = [there for there in begun if there + bound <= count]
            most, number = max(early, default=0), len(early)
            stale = f"{number} gradients were computed on weights with at most {most} in them: applied one after the "
            stale += f"other, the last of them has a staleness of {number - 1 - most} or more. Give out weights to at "
            stale += "most bound + 1 workers at a time"
            case.at_most(number, count + 1, stale, "too-stale")
    part("together")
    case, _, trace = traces[0]
    serial = sum(event.end - event.start for event in trace.events if event.kind == "work")
    long = f"it took {trace.seconds:.3g} s, as long as all workers one after the other ({serial:.3g} s)"
    three = "a bound of 2 lets three compute at the same time"
    case.expect(trace.seconds < 0.9 * serial, f"{long}: {three}", "one-at-a-time")
    for case, bound, trace in traces:
        working = [event for event in trace.events if event.kind == "work"]
        most = max(sum(other.start <= event.start < other.end for other in working) for event in working)
        want = min(bound + 1, ranks - 1)
        few = f"at most {most} workers compute at the same time; with it {want} can"
        case.expect(most >= want, few, "too-few-at-once")
    return "every gradient applied once · never staler than the bound of 0, 1 and 2 · workers compute at the same time"
