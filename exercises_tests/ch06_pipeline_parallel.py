"""Checks of chapter 6: a schedule is judged by replaying it, a stage by the gradients of a whole pipeline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib import Results, each
from course_lib.schedules import Played, ScheduleError, looped, one_f_one_b, play
from course_lib.schedules.actions import Action, Schedule
from course_lib.schedules.executor import run_pipeline
from exercises_tests.judging import Case, Hint, Mistake, check
from exercises_tests.seeds import drawn
from exercises_tests.values import amount, count, draw, equal, integers, plain, shown, versus

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
CASES = ((4, 8), (3, 5), (2, 6), (1, 3), (4, 1), (5, 3), (8, 16))  # stages, micro-batches
TOO_SLOW = ("Some rank waits although it could work", "too-slow")
RANKS = 3  # where one forward or backward is looked at
COSTS = {"forward": 1, "backward": 1, "weight": 1}  # a whole backward takes two forwards


def _with(p: int, m: int, see: str = "") -> Case:
    """Return a case of p stages and m micro-batches."""
    batches = "1 micro-batch" if m == 1 else f"{m} micro-batches"
    return Case(label=f"with {count(p, 'stage')} and {batches}", see=see)


def _own(exercise: str) -> tuple[int, int]:
    """Return stages and micro-batches that are drawn for the learner: others than those of CASES."""
    own = drawn(exercise)
    return own.randint(3, 7), own.randint(17, 40)


# bubble_fraction


@check(share_of_total=1, relative_to_ideal=1, any_sizes=1)
def check_bubble_fraction(answer: Any, part: Any) -> str:
    part("share of total")
    _judge_bubble(answer, "share_of_total", 4, 8)
    part("relative to ideal")
    _judge_bubble(answer, "relative_to_ideal", 4, 8)
    part("any sizes")
    for p, m in ((1, 5), (8, 1), (3, 2), (16, 64), _own("bubble_fraction")):
        _judge_bubble(answer, "share_of_total", p, m)
        _judge_bubble(answer, "relative_to_ideal", p, m)
    return "(p-1)/(m+p-1) of all time, (p-1)/m of the ideal time, for 1 to 16 stages and 1 to 64 micro-batches"


def _judge_bubble(answer: Any, name: str, p: int, m: int) -> None:
    case, found, idle = _with(p, m), plain(answer(p, m)), p - 1
    wanted = {"share_of_total": idle / (m + idle), "relative_to_ideal": idle / m}
    form = f"it returned {shown(found)}: return a dict with share_of_total and relative_to_ideal"
    case.expect(isinstance(found, dict) and found.keys() == wanted.keys(), form, "form")
    want, ((other, value),) = wanted.pop(name), wanted.items()
    mistakes = (
        Mistake("swapped", value, f"that is {other}: they differ in what the idle time is divided by"),
        Mistake("misprint", (1 - m) / (m + idle), "a share is never negative: stages wait, not micro-batches"),
        Mistake("percent", 100 * want, "return a fraction, not percent"),
        Mistake("one-too-many", p / (m + p), "the first stage never waits for itself: p-1 rounds, not p"),
        Mistake("both-ways", 2 * idle / (m + 2 * idle), "filling and draining cost p-1 rounds together, not each"),
        Mistake("value", True, "draw it: of the m + p - 1 rounds a rank works in m"),
    )
    case.same(found[name], want, f"{name} is {want:.4g}, not {amount(found[name])}:", *mistakes, tolerance=1e-9)


# gpipe and one_f_one_b


def _replays(name: str, answer: Any) -> dict[tuple[int, int], Played]:
    return {sizes: _played(name, answer, *sizes) for sizes in (*CASES, _own(name))}


def _played(name: str, answer: Any, p: int, m: int) -> Played:
    """Return the replay of an answer's lists. What is not a valid schedule is a wrong answer."""
    rows, case = answer(p, m), _with(p, m)
    lists = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
    library = isinstance(rows, Schedule) or lists and any(isinstance(action, Action) for row in rows for action in row)
    case.expect(not library, "it returned a schedule of course_lib's: write the lists yourself", "not-yours")
    form = f"it returned {shown(rows)}: return a list with {p} lists, one a rank"
    case.expect(lists and len(rows) == p, form, "form")
    there = "there is only micro-batch 0" if m == 1 else f"there are only micro-batches 0 to {m - 1}"
    for rank, row in enumerate(rows):
        for action in row:
            kind, number = action if isinstance(action, (list, tuple)) and len(action) == 2 else ("", None)
            fine = isinstance(kind, str) and kind in ("F", "B") and type(plain(number)) is int
            form = f"rank {rank} has the action {shown(action, 40)}: write ('F', 0) or ('B', 0)"
            case.expect(fine, form, "form")
        numbers = sorted({plain(number) for _, number in row})
        from_1 = numbers == list(range(1, m + 1))
        case.expect(not from_1, f"rank {rank} numbers micro-batches from 1; they begin with 0: {there}",
                    "microbatches")  # fmt: skip
        for kind, number in row:
            case.expect(
                kind == "B" or number < m,
                f"rank {rank} runs F({amount(plain(number))}), and {there}: never run more forwards ahead "
                "than there are micro-batches",
                "microbatches",
            )
        most = "each micro-batch takes an F and a B, {bound} in all"
        case.at_most(len(row), 2 * m, f"rank {rank} has {{seen}} actions; {most}", "too-many")
    try:
        played = play([[(kind, plain(number)) for kind, number in row] for row in rows], **COSTS, place=looped(p))
    except ScheduleError as broken:
        case.refuse(str(broken), broken.code, f"validate({name}({p}, {m}))")
    seen = played.schedule.microbatches
    case.expect(seen == m, f"the highest micro-batch is {seen - 1}; they are 0 to {m - 1}", "microbatches")
    return played


def _judge_makespan(name: str, p: int, m: int, played: Played, why: str, code: str) -> None:
    said = f"a replay takes {{seen}} s (F 1 s, B 2 s); {{bound}} s will do. {why}"
    _with(p, m, f"plots.timeline(play({name}({p}, {m})))").at_most(played.seconds, 3 * (m + p - 1), said, code)


@check(valid=1, order=1, makespan=1)
def check_gpipe(answer: Any, part: Any) -> str:
    part("valid")
    replays = _replays("gpipe", answer)
    part("order")
    for sizes, played in replays.items():
        for rank, row in enumerate(played.schedule.actions):
            _with(*sizes).expect(
                "BF" not in "".join(action.kind for action in row),
                f"rank {rank} runs {' '.join(map(str, row))}: in GPipe all forwards come before the first backward",
                "not-gpipe",
            )
    part("makespan")
    for sizes, played in replays.items():
        back = [[action.microbatch for action in row if action.kind == "B"] for row in played.schedule.actions]
        other = next((rank for rank in range(1, len(back)) if back[rank] != back[0]), None)
        why = TOO_SLOW[0] if other is None else f"Ranks 0 and {other} run the backwards in different orders"
        _judge_makespan("gpipe", *sizes, played, why, TOO_SLOW[1])
    return "all forwards, then all backwards · (m+p-1) rounds · m activations on every rank · for 1 to 8 stages"


@check(valid=1, makespan=1, memory=3)
def check_one_f_one_b(answer: Any, part: Any) -> str:
    part("valid")
    replays = _replays("one_f_one_b", answer)
    holds = {(p, m): [min(p - rank, m) for rank in range(p)] for p, m in replays}  # and runs forwards before a backward
    part("makespan")
    for sizes, played in replays.items():
        for rank, (row, want) in enumerate(zip(played.schedule.actions, holds[sizes], strict=True)):
            first = [action.kind for action in row].index("B")
            runs = f"Rank {rank} runs {count(first, 'forward')} before its first backward"
            why = f"{runs}; it should run {want}, one for each rank from it to the last"
            if first != want:
                _judge_makespan("one_f_one_b", *sizes, played, why, "warm-up")
        _judge_makespan("one_f_one_b", *sizes, played, *TOO_SLOW)
    part("memory")
    for (p, m), played in replays.items():
        case, peaks, want = _with(p, m, f"play(one_f_one_b({p}, {m}))"), played.peak_activations, holds[p, m]
        case.expect(
            peaks == want or peaks != [m] * p,
            f"every rank holds {count(m, 'activation')} at once: that is GPipe. In 1F1B rank r holds at most p - r: as "
            "soon as its first backward can run, forwards and backwards take turns",
            "gpipe",
        )
        for rank, (got, bound) in enumerate(zip(peaks, want, strict=True)):
            why = f"Its warm-up is too long: before its first backward it needs {count(bound, 'forward')}"
            said = f"rank {rank} holds {{seen}} activations at once; {{bound}} will do, with the same bubble. {why}"
            case.at_most(got, bound, said, "warm-up-too-long")
    return "the bubble of GPipe · at most p - r activations on rank r, whatever m · for 1 to 8 stages"


# stage_forward and stage_backward: what runs on the ranks, beside the learner's code


def _neighbours(dist: Any, order: Any = None) -> tuple:
    """Return the ranks of the stages before and after this rank's own; `order` has the rank of each stage."""
    order = list(order or range(dist.get_world_size()))
    stage = order.index(dist.get_rank())
    return order[stage - 1] if stage else None, order[stage + 1] if stage + 1 < len(order) else None


def _linear(weight: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    with torch.no_grad():
        module.weight.copy_(weight)
    return module


def _ended(handle: Any) -> dict:
    """Wait for what an answer returned as its handle, and return what that was."""
    waits = hasattr(handle, "wait")
    if waits:
        handle.wait()
    return {"waits": waits, "handle": shown(handle)}


def forward_once(dist: Any, answer: Any, weight: Any, x: Any, order: Any = None) -> Any:
    """Do one forward; x is full of zeros on all ranks but the first."""
    previous, following = _neighbours(dist, order)
    got = answer(dist, _linear(weight), x, previous, following, 4)
    if not isinstance(got, tuple) or len(got) != 2 or not isinstance(got[0], torch.Tensor):
        return {"form": shown(got)}
    (y, handle), depends = got, previous is None
    if y.requires_grad and x.requires_grad and not depends:
        depends = torch.autograd.grad(y.sum(), x, retain_graph=True, allow_unused=True)[0] is not None
    ended = _ended(handle)
    tracked = {"tracked": y.requires_grad, "x_tracked": x.requires_grad, "depends": depends}
    return {"y": y.detach(), "x": x.detach(), **tracked, **ended}


def tokens_once(dist: Any, answer: Any, table: Any, x: Any) -> Any:
    """Do one forward on two ranks: the first looks tokens up in a table, the second adds a number of its own."""
    previous, following = _neighbours(dist)
    y, handle = answer(dist, torch.nn.Embedding.from_pretrained(table) if previous is None else _Plus(), x,
                       previous, following, 4)  # fmt: skip
    _ended(handle)
    return {"y": y.detach(), "x": x.detach()}


class _Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def backward_once(dist: Any, answer: Any, weight: Any, x: Any, target: Any, order: Any = None) -> Any:
    """Do one backward; only the last rank is given a target."""
    previous, following = _neighbours(dist, order)
    module, x = _linear(weight), x.clone().requires_grad_(previous is not None)
    y = module(x)
    grad = torch.zeros_like(y)
    if following is None:
        y, grad = (y * target).sum(), None
    ended = _ended(answer(dist, x, y, grad, previous, following, 5))
    try:
        torch.autograd.grad(y, [module.weight], None if following is None else torch.ones_like(y))
        kept = True
    except RuntimeError:
        kept = False
    return {"x": x.grad, "weight": module.weight.grad, "kept": kept, **ended}


def two_forwards(dist: Any, answer: Any, xs: list) -> Any:
    """Send two micro-batches at once; the second rank, whose xs are full of zeros, takes the later one first."""
    module, sends = _linear(torch.eye(3, dtype=torch.double)), dist.get_rank() == 0
    got = {}
    for place in (0, 1) if sends else (1, 0):
        got[place] = answer(dist, module, xs[place], *((None, 1) if sends else (0, None)), 4 + 2 * place)
    for _, handle in got.values():
        _ended(handle)
    return [got[place][0].detach() for place in (0, 1)]


def two_backwards(dist: Any, answer: Any, xs: list) -> Any:
    """Send two gradients, 2x each, at once; the first rank, whose xs are full of zeros, takes the later one first."""
    sends, handles = dist.get_rank() == 1, []
    for place in (0, 1) if sends else (1, 0):
        x = xs[place].requires_grad_()
        y, grad, *neighbours = (x.square().sum(), None, 0, None) if sends else (x * 1.0, torch.zeros_like(x), None, 1)
        handles.append(answer(dist, x, y, grad, *neighbours, 5 + 2 * place))
    for handle in handles:
        _ended(handle)
    return [x.grad for x in xs]


def split_once(dist: Any, answer: Any, costs: list, stages: int) -> Any:
    return answer(costs, stages)


def whole_step(dist: Any, answer: Any, which: str, weight: Any, xs: list, targets: list) -> Any:
    """Do one step of 1F1B; the first rank alone is given inputs and the last one targets: others get zeros."""
    module = torch.nn.Sequential(_linear(weight), torch.nn.Tanh())
    schedule = one_f_one_b(dist.get_world_size(), len(xs))
    run_pipeline(dist, [module], xs, targets, torch.nn.functional.mse_loss, schedule, **{which: answer})
    return module[0].weight.grad


# What they are given and must give, worked out here


def _only(rank: int, value: Any, ranks: int) -> each:
    """Return an argument that holds `value` on one rank, and zeros on the others, which tell the shape alone."""
    zeros = [torch.zeros_like(one) for one in value] if isinstance(value, list) else torch.zeros_like(value)
    return each([value if here == rank else zeros for here in range(ranks)])


def _weights(ranks: int) -> list:
    numbers = [[[(3 * i + 5 * j + rank) % 4 - 1.0 for j in range(3)] for i in range(3)] for rank in range(ranks)]
    return [torch.tensor(square, dtype=torch.double) for square in numbers]


def _microbatches(number: int, seed: int) -> list:
    """Return micro-batches of 2 and of 3 examples in turn."""
    return [draw((2 + place % 2, 3), seed + place) for place in range(number)]


def _wanted_gradients(weights: list, xs: list, targets: list, only: int | None = None) -> list:
    """Return each stage's gradient of the mean loss over all micro-batches, or of what one of them adds to it."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    examples, loss = sum(map(len, targets)), 0.0
    for place, (x, target) in enumerate(zip(xs, targets, strict=True)):
        if only in (None, place):
            y = x
            for leaf in leaves:
                y = torch.tanh(y @ leaf.T)
            loss = loss + torch.nn.functional.mse_loss(y, target) * len(target) / examples
    return list(torch.autograd.grad(loss, leaves))


class Stage:
    """An answer to one of the two exercises: a forward sends to the next rank, a backward to the previous one."""

    def __init__(self, which: str, answer: Any) -> None:
        self.which, self.answer, self.step = which, answer, 1 if which == "forward" else -1
        meet = "receive from" if which == "forward" else "send to"
        self.hints = [
            Hint(
                "without wait()",
                f"a handle was dropped: stage_{which} returns the handle of its isend and waits for its irecv",
                "dropped-handle",
            ),
            Hint(
                "Already returned: ranks 1, 2.",  # so they met, and only rank 0 waits for its neighbour
                f"rank 1 does not {meet} rank 0. `if previous:` is false for rank 0: write `if previous is not None`",
                "rank-zero",
            ),
            Hint(
                "can't retain_grad",
                "x arrives as bare numbers, so there is no gradient to retain: x.requires_grad_() makes autograd track "
                "it, before the module uses it",
                "no-grad",
            ),
            Hint("waits to send", "Do isend and irecv both have tag=tag?"),
            Hint(
                "only for scalar outputs",
                "only the last stage's y is a loss. Elsewhere go back from y with the gradient that arrived: "
                "y.backward(grad)",
                "without-gradient",
            ),
        ]
        for rank in range(RANKS if which == "backward" else 0):
            none = f"rank {rank} raised TypeError: isend takes a tensor, not None"
            why = "x.grad is None until y.backward has run, and `grad` is None on the last stage"
            says = f"rank {rank} sends None: {why}: send x.grad, after y.backward"
            self.hints.append(Hint(none, says, "sends-none"))

    def judge_messages(self, trace: Results, size: int) -> None:
        """Judge what each rank returned as the handle, and that one message went from each rank to its neighbour."""
        case, want = Case(RANKS), []
        for rank, seen in enumerate(trace):
            said = f"rank {rank} returned {seen['handle']} as the handle."
            if 0 <= rank + self.step < RANKS:
                want.append((rank, rank + self.step, size))
                alone = "with a blocking send this rank could do nothing else until the next one receives"
                case.expect(seen["waits"] is True, f"{said} Return what isend returned: {alone}", "no-handle")
            else:
                nothing = f"It sends nothing, so stage_{self.which} has to return None there"
                case.expect(seen["waits"] is False, f"{said} {nothing}", "form")
        got = sorted((event.rank, event.peer, event.sent) for event in trace.events if event.kind == "send")
        arrows = ", ".join(f"{source} -> {target} ({sent} bytes)" for source, target, sent in got) or "none"
        neighbour = "next" if self.step == 1 else "previous"
        case.expect(
            got == want,
            f"the messages were {arrows}; it takes one of {size} bytes from each rank to the {neighbour} one",
            "messages",
        )

    def judge_places(self, once: Callable) -> None:
        """Judge that it talks to `previous` and `following`, wherever the stages stand."""
        order, weights = (2, 0, 1), _weights(RANKS)  # the rank of each stage
        stages = [order.index(rank) for rank in range(RANKS)]  # the stage of each rank
        xs, target = integers(RANKS, (2, 3), "float64"), integers(1, (2, 3), "float64")[0]
        case = Case(RANKS, "where stages 0, 1 and 2 stand on ranks 2, 0 and 1")
        here = [weights[stage] for stage in stages]
        whose = "`previous` and `following` are the ranks to receive from and to send to: not always rank - 1 and "
        whose += "rank + 1, and both may be 0, which is not None"
        hints = [Hint("", whose, "neighbours")]
        if self.which == "forward":
            first = order[0]
            trace = case.run(once, self.answer, each(here), _only(first, xs[0], RANKS), order, hints=hints)
            y = xs[0]
            for rank, weight in zip(order, weights, strict=True):
                y = y @ weight.T
                case.expect(equal(trace[rank].get("y"), y), f"y on rank {rank} is wrong: {whose}", "neighbours")
            return
        last = order[-1]
        trace = case.run(once, self.answer, each(here), each(xs), _only(last, target, RANKS), order, hints=hints)
        for rank in reversed(order):
            fine = equal(trace[rank]["weight"], target.T @ xs[rank])
            case.expect(fine, f"the weight gradient on rank {rank} is wrong: {whose}", "neighbours")
            target = target @ weights[stages[rank]]

    def judge_pipeline(self, two: Callable) -> None:
        self.judge_two_at_once(two)
        for ranks, microbatches in ((3, 5), (1, 2), (4, 4)):
            self.judge_gradients(ranks, microbatches)
        self.judge_gradients(3, 4, real=True)

    def judge_two_at_once(self, two: Callable) -> None:
        """Judge two messages under way at the same time: none may be waited for, and each must find its receive."""
        sender, gain = (0, 1) if self.which == "forward" else (1, 2)
        xs, case = integers(2, (2, 3), "float64"), Case(2)
        want = [gain * x for x in xs]
        waits = Hint(
            "no rank can go on",
            f"rank {sender} waits for its own isend before it returns: return the handle without waiting. In 1F1B two "
            "neighbours send to each other at once, and both would stand still",
            "waits",
        )
        trace = case.run(two, self.answer, _only(sender, xs, 2), hints=[waits, *self.hints])
        case.same(
            trace[1 - sender],
            want,
            f"what rank {1 - sender} received of two messages under way",
            Mistake("tag", want[::-1], "is the earlier where it asked for the later: pass tag=tag to isend and irecv"),
            code="tag",
        )

    def judge_gradients(self, ranks: int, microbatches: int, real: bool = False) -> None:
        weights, xs, targets = _weights(ranks), _microbatches(microbatches, 0), _microbatches(microbatches, 10)
        want, last = _wanted_gradients(weights, xs, targets), _wanted_gradients(weights, xs, targets, microbatches - 1)
        case = Case(ranks, f"in 1F1B with {microbatches} micro-batches", real)
        data = (each(weights), _only(0, xs, ranks), _only(ranks - 1, targets, ranks))
        trace = case.run(whole_step, self.answer, self.which, *data, hints=self.hints)
        again = "gradients of all of them add up, so nothing may set them to zero in between"
        for rank in reversed(range(ranks)):
            mistakes = (
                Mistake("no-weight-gradient", None, "is missing"),
                Mistake("last-microbatch", last[rank], f"is that of the last micro-batch only: {again}"),
            )
            what = f"the gradient on rank {rank}"
            case.same(
                trace[rank], want[rank], what, *mistakes, says="of one process it is", code="gradient", tolerance=1e-12
            )


@check(value=1, ready_for_backward=1, messages=1, pipeline=2)
def check_stage_forward(answer: Any, part: Any) -> str:
    stage, case = Stage("forward", answer), Case(RANKS)
    weights, (first,) = _weights(RANKS), integers(1, (2, 3), "float64")
    wanted = [first]  # x on each rank, and y on the one before it
    for weight in weights:
        wanted.append(wanted[-1] @ weight.T)
    part("value")
    trace = case.run(forward_once, answer, each(weights), _only(0, first, RANKS), hints=stage.hints)
    for rank, seen in enumerate(trace):
        x, y = wanted[rank : rank + 2]
        case.expect("form" not in seen, f"rank {rank} returned {seen.get('form')}: return (y, handle)", "form")
        differs = versus(seen["x"], "the previous stage made", x)
        case.same(
            seen["x"],
            x,
            f"x on rank {rank}",
            Mistake(
                "new-buffer",
                equal(seen["x"], torch.zeros_like(x)) and equal(seen["y"], y),
                "is unchanged: receive into the x that it is given, not into a tensor of your own: the gradient of x "
                "is asked for in the backward",
            ),
            Mistake("x", True, f"{differs}. Is it sent y, and is the irecv waited for?"),
        )
        case.same(seen["y"], y, f"y on rank {rank}", says="module(x) is")
    part("ready for backward")
    for rank, seen in enumerate(trace):
        case.expect(
            seen["tracked"] is True,
            f"rank {rank} returned a y that has forgotten how it was made: detach what you send, not what you return",
            "detached",
        )
        case.expect(
            rank == 0 or seen["x_tracked"] is True,
            f"x on rank {rank} will have no gradient after backward, and rank {rank - 1} waits for it: "
            "x.requires_grad_() before the module uses it",
            "no-grad",
        )
        case.expect(
            seen["depends"] is True,
            f"on rank {rank} y does not depend on x, so x gets no gradient: x.requires_grad_() before the module uses "
            "it, and pass x itself to the module, not a copy",
            "no-grad",
        )
    _judge_tokens(answer)
    part("messages")
    stage.judge_messages(trace, 8 * first.numel())
    stage.judge_places(forward_once)
    part("pipeline")
    stage.judge_pipeline(two_forwards)
    return "y on 1, 3 and 4 ranks, ready for backward · one message a stage · gradients of one process in 1F1B"


def _judge_tokens(answer: Any) -> None:
    """Judge a first stage whose x are tokens, as in every language model."""
    tokens, table = torch.tensor([[3, 0, 2], [1, 1, 3]]), draw((4, 5))
    case = Case(2, "where the first stage is given tokens, which are whole numbers,")
    whole = Hint(
        "floating point",
        "they have no gradient. Nobody waits for the gradient of the first stage's x: x.requires_grad_() only where "
        "`previous` is a rank",
        "first-stage",
    )
    given = each([tokens, torch.zeros(2, 3, 5, dtype=torch.double)])
    trace = case.run(tokens_once, answer, table, given, hints=[whole])
    case.same(trace[0]["x"], tokens, "x on rank 0", says="it was given")
    for rank, want in enumerate((table[tokens], table[tokens] + 1)):
        case.same(trace[rank]["y"], want, f"y on rank {rank}", says="module(x) is")


@check(value=2, activations=1, pipeline=2)
def check_stage_backward(answer: Any, part: Any) -> str:
    stage, case = Stage("backward", answer), Case(RANKS)
    weights, (*xs, grad) = _weights(RANKS), integers(RANKS + 1, (2, 3), "float64")
    part("value")
    data = (each(weights), each(xs), _only(RANKS - 1, grad, RANKS))
    trace = case.run(backward_once, answer, *data, hints=stage.hints)
    for rank in reversed(range(RANKS)):
        seen, want = trace[rank], grad.T @ xs[rank]
        differs = versus(seen["weight"], "it should be", want)
        mistakes = (
            Mistake("no-weight-gradient", None, "is missing: y.backward(grad) makes it, autograd.grad(y, x) only x's"),
            Mistake(
                "ignores-gradient",
                torch.ones_like(grad).T @ xs[rank],
                "is that of a y taken as if it were the loss: start with the gradient that arrived, y.backward(grad)",
            ),
            Mistake(
                "not-received",
                torch.zeros_like(want),
                "is made of gradients of zero: receive into grad, wait for it, and only then go back",
            ),
            Mistake(
                "value", rank < RANKS - 1, f"{differs}. Does the rank after it send x.grad, the gradient of its x?"
            ),
        )
        case.same(seen["weight"], want, f"the weight gradient on rank {rank}", *mistakes)
        grad = grad @ weights[rank]
        if rank > 0:
            case.same(seen["x"], grad, f"the input gradient on rank {rank}")
    stage.judge_messages(trace, 8 * grad.numel())
    part("activations")
    for rank, seen in enumerate(trace):
        case.expect(
            seen["kept"] is False,
            f"the activations of rank {rank} are still there after the backward: without retain_graph=True it frees "
            "them, and that is what makes 1F1B worth it",
            "kept",
        )
    part("pipeline")
    stage.judge_places(backward_once)
    stage.judge_pipeline(two_backwards)
    return "gradients of x and of the weights on 1, 3 and 4 ranks · activations freed · as one process in 1F1B"


# why_one_f_one_b


@check(bubbles=1, peaks=1)
def check_why_one_f_one_b(answer: Any, part: Any) -> str:
    names = ("bubble_1f1b", "bubble_gpipe", "peak_1f1b", "peak_gpipe")
    got = {sizes: plain(answer(*sizes)) for sizes in ((4, 8), (3, 9), (6, 4), _own("why_one_f_one_b"))}
    part("bubbles")
    for (p, m), found in got.items():
        case, want = _with(p, m), (p - 1) / (m + p - 1)
        form = f"it returned {shown(found, 120)}: return a dict with {', '.join(names)}"
        case.expect(isinstance(found, dict) and found.keys() == set(names), form, "form")
        other = f"the share with {m} stages and {p} micro-batches"
        mistakes = (
            Mistake("relative", (p - 1) / m, f"relative to the ideal time; give the share of all time, {want:.4g}"),
            Mistake("swapped", (m - 1) / (m + p - 1), f"{other}: both functions take the stages first"),
            Mistake("percent", 100 * want, f"in percent; give the share, {want:.4g}"),
        )
        for name in ("bubble_gpipe", "bubble_1f1b"):
            smaller = name == "bubble_1f1b" and ": 1F1B does not make the bubble smaller"
            says = f"and a replay says {want:.4g} for both{smaller or ''}"
            seen = Mistake("bubble", True, says)
            case.same(found[name], want, f"{name} is {amount(found[name])},", *mistakes, seen, tolerance=1e-9)
    part("peaks")
    for (p, m), found in got.items():
        for name, want in (("peak_gpipe", m), ("peak_1f1b", min(p, m))):
            says = "the most activations on a rank are"
            _with(p, m).same(found[name], float(want), name, says=says, code="peak", tolerance=1e-9)
    return "equal bubbles; at most m activations with GPipe, at most p with 1F1B"


# split_layers

SPLIT_SECONDS = 10
SPLITS = (  # costs of the layers, stages, and the cost of the slowest stage of the best split
    ([1] * 8, 4, 2),
    ([2, *[4] * 12, 10], 4, 16),
    ([5, 1, 1, 1, 1, 1], 3, 5),
    ([1, 1, 1, 1, 1, 9], 3, 9),
    ([7, 2, 2, 2, 7], 4, 7),
    ([3], 1, 3),
    ([4, 9, 4], 1, 17),
    ([91, 25, 60, 10, 66, 30, 9], 2, 175),
    ([2, 56, 14, 5, 6, 3, 10], 4, 56),
    ([5, 1, 1], 2, 5),
)


def _own_split() -> tuple[list[int], int, int]:
    """Return a split that is drawn for the learner: the costs, the stages and the cost of the slowest of the best."""
    own = drawn("split_layers")
    costs, stages = [own.randint(1, 60) for _ in range(9)], own.randint(3, 5)
    ways = (zip((0, *cuts), (*cuts, 9), strict=True) for cuts in itertools.combinations(range(1, 9), stages - 1))
    return costs, stages, min(max(sum(costs[a:b]) for a, b in way) for way in ways)


MANY = ([1 + (7 * i * i + 3 * i) % 11 for i in range(60)], 8, 42)


@check(valid=1, best=2)
def check_split_layers(answer: Any, part: Any) -> str:
    splits = (*SPLITS, _own_split())
    found = [_numbers(answer(list(costs), stages)) for costs, stages, _ in splits]
    part("valid")
    for (costs, stages, _), counts in zip(splits, found, strict=True):
        _judge_split(costs, stages, counts)
    part("best")
    for split, counts in zip(splits, found, strict=True):
        _judge_slowest(*split, counts)
    costs, stages, best = MANY
    cuts = f"do not try every cut, there are {math.comb(len(costs) - 1, stages - 1):,}"
    hints = [Hint("still going on after", f"still running after {SPLIT_SECONDS} s: {cuts}", "every-cut")]
    (counts,) = _split(costs, stages).run(split_once, answer, list(costs), stages, hints=hints)
    counts = _numbers(counts)
    _judge_split(costs, stages, counts)
    _judge_slowest(*MANY, counts)
    return "the slowest stage is as fast as it can be, for 1 to 60 layers on 1 to 8 stages"


def _split(costs: list, stages: int) -> Case:
    """Return the case, whose one rank is ended when it takes too long."""
    layers = count(len(costs), "layer") if len(costs) > 14 else costs
    return Case(1, words=f"{layers} on {count(stages, 'stage')}:", seconds=SPLIT_SECONDS)


def _numbers(counts: Any) -> Any:
    """Return a list, a tuple or an array as a list of Python's numbers, and anything else as it is."""
    counts = counts.tolist() if hasattr(counts, "tolist") else plain(counts)
    return list(counts) if type(counts) is tuple else counts


def _judge_split(costs: list, stages: int, counts: Any) -> None:
    case = _split(costs, stages)
    case.expect(
        isinstance(counts, list) and len(counts) == stages and all(type(number) is int for number in counts),
        f"it returned {shown(counts)}: return a list of {stages} whole numbers, the layers of each stage",
        "form",
    )
    empty = f"{shown(counts)} leaves a stage without a layer: its rank would have nothing to do"
    case.expect(min(counts) >= 1, empty, "empty")
    case.expect(sum(counts) == len(costs), f"{shown(counts)} are {amount(sum(counts))} layers, not {len(costs)}", "sum")


def _judge_slowest(costs: list, stages: int, best: float, counts: list) -> None:
    ends = [sum(counts[: stage + 1]) for stage in range(stages)]
    totals = [sum(costs[end - number : end]) for number, end in zip(counts, ends, strict=True)]
    code, why = "not-best", "Every stage waits for the slowest one"
    if max(counts) - min(counts) <= 1:
        code, why = "equal-counts", "Equal numbers of layers are not equal costs"
    following = [costs[end] for end in ends[:-1]]  # the layer after each stage but the last
    fills = zip(totals, following, strict=False)
    if all(total * stages <= sum(costs) < (total + more) * stages for total, more in fills):
        code, why = "average", "Filling each stage up to the average leaves too much for the last one"
    _split(costs, stages).at_most(
        max(totals),
        best,
        f"{counts} makes stages of cost {totals}; the slowest costs {{seen}}, and {{bound}} is possible. {why}",
        code,
    )
