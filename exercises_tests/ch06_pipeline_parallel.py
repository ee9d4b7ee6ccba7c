"""Checks of chapter 6: a schedule is judged by replaying it, a stage by the gradients of a whole pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib import Cluster, Deadlock, RankFailed, Results, each, run
from course_lib.schedules import Played, ScheduleError, looped, one_f_one_b, play
from course_lib.schedules.actions import Action, Schedule
from course_lib.schedules.executor import run_pipeline
from exercises_tests.judging import check, expect
from exercises_tests.values import close, equal, near

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
CASES = ((4, 8), (3, 5), (2, 6), (1, 3), (4, 1), (5, 3), (8, 16))  # stages, micro-batches
COSTS = {"forward": 1, "backward": 1, "weight": 1}  # a whole backward takes two forwards
REAL_SECONDS = 20
SPLIT_SECONDS = 10


def _sizes(stages: int, microbatches: int) -> str:
    return (
        f"with {stages} {'stage' if stages == 1 else 'stages'} and "
        f"{microbatches} {'micro-batch' if microbatches == 1 else 'micro-batches'}"
    )


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


# bubble_fraction


@check(share_of_total=1, relative_to_ideal=1, any_sizes=1)
def check_bubble_fraction(answer: Any, part: Any) -> str:
    names = ("share_of_total", "relative_to_ideal")
    for label, name, cases in (
        ("share of total", names[0], ((4, 8),)),
        ("relative to ideal", names[1], ((4, 8),)),
        ("any sizes", None, ((1, 5), (8, 1), (3, 2), (16, 64))),
    ):
        part(label)
        for stages, microbatches in cases:
            idle = stages - 1
            want = {names[0]: idle / (microbatches + idle), names[1]: idle / microbatches}
            got, case = answer(stages, microbatches), _sizes(stages, microbatches)
            expect(
                isinstance(got, dict) and set(got) == set(names),
                f"it returned {_shown(got)}: return a dict with share_of_total and relative_to_ideal",
                "form",
            )
            for key in names if name is None else (name,):
                _one_bubble(case, key, got[key], want, stages, microbatches)
    return "(p-1)/(m+p-1) of all time, (p-1)/m of the ideal time, for 1 to 16 stages and 1 to 64 micro-batches"


def _one_bubble(case: str, key: str, got: Any, want: dict, stages: int, microbatches: int) -> None:
    if close(got, want[key]):
        return
    other = next(name for name in want if name != key)
    here = f"{case} {key} is {_number(want[key])}, not {_number(got)}"
    for mistake, value, words in (
        ("swapped", want[other], f"that is {other}: they differ in what the idle time is divided by"),
        ("misprint", (1 - microbatches) / (microbatches + stages - 1), "a share is never negative: stages wait, "
                                                                       "not micro-batches"),
        ("percent", 100 * want[key], "return a fraction, not percent"),
        ("one-too-many", stages / (microbatches + stages), "the first stage never waits for itself: p-1 rounds, not p"),
        ("both-ways", 2 * (stages - 1) / (microbatches + 2 * (stages - 1)),
         "filling and draining cost p-1 rounds together: a rank that starts late ends early"),
    ):  # fmt: skip
        expect(not close(got, value), f"{here}: {words}", mistake)
    expect(False, f"{here}. Draw it: of the m + p - 1 rounds a rank works in m", "value")


# gpipe and one_f_one_b


def _played(name: str, answer: Any, stages: int, microbatches: int) -> Played:
    """Return the replay of an answer's lists. What is not a valid schedule is a wrong answer."""
    rows, case = answer(stages, microbatches), _sizes(stages, microbatches)
    see = f"validate({name}({stages}, {microbatches}))"
    library = isinstance(rows, Schedule) or isinstance(rows, list) and any(
        isinstance(action, Action) for row in rows if isinstance(row, list) for action in row
    )  # fmt: skip
    expect(not library, f"{case} it returned a schedule of course_lib's: write the lists yourself", "not-yours")
    expect(
        isinstance(rows, list) and len(rows) == stages and all(isinstance(row, list) for row in rows),
        f"{case} it returned {_shown(rows)}: return a list with {stages} lists, one a rank",
        "form",
    )
    for rank, row in enumerate(rows):
        most = 2 * microbatches
        beyond = [action for action in row if _is_forward(action) and action[1] >= microbatches]
        there = "only micro-batch 0" if microbatches == 1 else f"only micro-batches 0 to {microbatches - 1}"
        expect(
            not beyond,
            f"{case} rank {rank} runs F({beyond[0][1] if beyond else ''}), and there is {there}: never run more "
            "forwards ahead than there are micro-batches",
            "microbatches",
        )
        expect(
            len(row) <= most,
            f"{case} rank {rank} has {len(row)} actions; each micro-batch takes an F and a B, {most} in all",
            "too-many",
        )
        for action in row:
            expect(
                isinstance(action, tuple) and len(action) == 2 and action[0] in ("F", "B"),
                f"{case} rank {rank} has the action {_shown(action, 40)}: write ('F', 0) or ('B', 0)",
                "form",
            )
    try:
        return play([[tuple(action) for action in row] for row in rows], **COSTS, place=looped(stages))
    except ScheduleError as broken:
        expect(False, f"{case} {broken}", broken.code, see)


def _is_forward(action: Any) -> bool:
    return isinstance(action, tuple) and len(action) == 2 and action[0] == "F" and type(action[1]) is int


def _complete(played: Played, stages: int, microbatches: int) -> None:
    seen = played.schedule.microbatches
    expect(
        seen == microbatches,
        f"{_sizes(stages, microbatches)} the highest micro-batch is {seen - 1}; they are 0 to {microbatches - 1}",
        "microbatches",
    )


def _makespan(name: str, played: Played, stages: int, microbatches: int) -> None:
    want = 3 * (microbatches + stages - 1)
    expect(
        played.seconds <= want,
        f"{_sizes(stages, microbatches)} a replay takes {played.seconds:g} s (F 1 s, B 2 s); {want} s will do. "
        "Some rank "
        "waits although it could work",
        "too-slow", f"timeline(play({name}({stages}, {microbatches})))",
    )  # fmt: skip


def _warm_up(played: Played, stages: int, microbatches: int) -> None:
    """Where a replay takes too long, name the rank that begins to go back too early or too late."""
    best = 3 * (microbatches + stages - 1)
    for rank, row in enumerate(played.schedule.actions):
        first, want = [action.kind for action in row].index("B"), min(stages - rank, microbatches)
        expect(
            played.seconds <= best or first == want,
            f"{_sizes(stages, microbatches)} a replay takes {played.seconds:g} s (F 1 s, B 2 s); {best} s will "
            "do. Rank "
            f"{rank} runs {_many(first, 'forward')} before its first backward; it should run {want}, one for each "
            "rank from it to the last",
            "warm-up", f"timeline(play(one_f_one_b({stages}, {microbatches})))",
        )  # fmt: skip


@check(valid=1, order=1, makespan=1)
def check_gpipe(answer: Any, part: Any) -> str:
    part("valid")
    replays = {case: _played("gpipe", answer, *case) for case in CASES}
    for (stages, microbatches), played in replays.items():
        _complete(played, stages, microbatches)
    part("order")
    for (stages, microbatches), played in replays.items():
        for rank, row in enumerate(played.schedule.actions):
            kinds = "".join(action.kind for action in row)
            expect(
                "BF" not in kinds,
                f"{_sizes(stages, microbatches)} rank {rank} runs {' '.join(map(str, row))}: in GPipe all "
                "forwards come "
                "before the first backward",
                "not-gpipe",
            )
    part("makespan")
    for case, played in replays.items():
        _makespan("gpipe", played, *case)
    return "all forwards, then all backwards · (m+p-1) rounds · m activations on every rank · for 1 to 8 stages"


@check(valid=1, makespan=1, memory=3)
def check_one_f_one_b(answer: Any, part: Any) -> str:
    part("valid")
    replays = {case: _played("one_f_one_b", answer, *case) for case in CASES}
    for case, played in replays.items():
        _complete(played, *case)
    part("makespan")
    for case, played in replays.items():
        _warm_up(played, *case)
        _makespan("one_f_one_b", played, *case)
    part("memory")
    for (stages, microbatches), played in replays.items():
        peaks = played.peak_activations
        want = [min(stages - rank, microbatches) for rank in range(stages)]
        see = f"play(one_f_one_b({stages}, {microbatches}))"
        case = _sizes(stages, microbatches)
        expect(
            peaks == want or peaks != [microbatches] * stages,
            f"{case} every rank holds {_many(microbatches, 'activation')} at once: that is GPipe. In 1F1B rank r "
            "holds at most p - r: as soon as its first backward can run, forwards and backwards take turns",
            "gpipe", see,
        )  # fmt: skip
        for rank, (got, bound) in enumerate(zip(peaks, want, strict=True)):
            expect(
                got <= bound,
                f"{case} rank {rank} holds {_many(got, 'activation')} at once; {bound} will do, with the same bubble. "
                f"Its warm-up is too long: before its first backward it needs {_many(bound, 'forward')}",
                "warm-up-too-long", see,
            )  # fmt: skip
    return "the bubble of GPipe · at most p - r activations on rank r, whatever m · for 1 to 8 stages"


# stage_forward and stage_backward: what runs on the ranks, beside the learner's code


def _neighbours(dist: Any, begin: int = 0) -> tuple:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank - 1 if rank > begin else None, rank + 1 if rank < ranks - 1 else None


def _linear(weight: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    with torch.no_grad():
        module.weight.copy_(weight)
    return module


def forward_once(dist: Any, answer: Any, weight: Any, x: Any, begin: int = 0) -> Any:
    """Do one forward in a pipeline of which rank `begin` is the first; x is full of zeros on the others."""
    if dist.get_rank() < begin:
        return None
    previous, following = _neighbours(dist, begin)
    got = answer(dist, _linear(weight), x, previous, following, 4)
    if not isinstance(got, tuple) or len(got) != 2 or not isinstance(got[0], torch.Tensor):
        return {"form": _shown(got)}
    waits = hasattr(got[1], "wait")
    if waits:
        got[1].wait()
    return {
        "y": got[0].detach(), "tracked": got[0].requires_grad, "x": x.detach(), "x_tracked": x.requires_grad,
        "depends": previous is None or _depends(got[0], x), "waits": waits, "handle": _shown(got[1]),
    }  # fmt: skip


def _depends(y: torch.Tensor, x: torch.Tensor) -> bool:
    if not (y.requires_grad and x.requires_grad):
        return False
    return torch.autograd.grad(y.sum(), x, retain_graph=True, allow_unused=True)[0] is not None


def backward_once(dist: Any, answer: Any, weight: Any, x: Any, target: Any, begin: int = 0) -> Any:
    """Do one backward in a pipeline of which rank `begin` is the first; only the last one is given a target."""
    if dist.get_rank() < begin:
        return None
    previous, following = _neighbours(dist, begin)
    module, x = _linear(weight), x.clone().requires_grad_(previous is not None)
    y = module(x)
    grad = torch.zeros_like(y)
    if following is None:
        y, grad = (y * target).sum(), None
    handle = answer(dist, x, y, grad, previous, following, 5)
    waits = hasattr(handle, "wait")
    if waits:
        handle.wait()
    try:
        torch.autograd.grad(y, [module.weight], None if following is None else torch.ones_like(y))
        kept = True
    except RuntimeError:
        kept = False
    return {"x": x.grad, "weight": module.weight.grad, "waits": waits, "handle": _shown(handle), "kept": kept}


def two_forwards(dist: Any, answer: Any, xs: list) -> Any:
    """Send two micro-batches at once; the second rank, whose xs are full of zeros, takes the later one first."""
    module, found, handles = _linear(torch.eye(3, dtype=torch.double)), {}, []
    for place in (0, 1) if dist.get_rank() == 0 else (1, 0):
        if dist.get_rank() == 0:
            handles.append(answer(dist, module, xs[place].clone(), None, 1, 4 + 2 * place)[1])
        else:
            y, _ = answer(dist, module, xs[place].clone(), 0, None, 4 + 2 * place)
            found[place] = y.detach()
    for handle in handles:
        handle.wait()
    return [found[place] for place in sorted(found)]


def two_backwards(dist: Any, answer: Any, xs: list) -> Any:
    """Send two gradients, 2x each, at once; the first rank, whose xs are full of zeros, takes the later one first."""
    found, handles = {}, []
    for place in (0, 1) if dist.get_rank() == 1 else (1, 0):
        x = xs[place].clone().requires_grad_()
        if dist.get_rank() == 1:
            handles.append(answer(dist, x, x.square().sum(), None, 0, None, 5 + 2 * place))
        else:
            answer(dist, x, x * 1.0, torch.zeros_like(x), None, 1, 5 + 2 * place)
            found[place] = x.grad
    for handle in handles:
        handle.wait()
    return [found[place] for place in sorted(found)]


def split_once(dist: Any, answer: Any, costs: list, stages: int) -> Any:
    return answer(costs, stages)


def whole_step(dist: Any, answer: Any, which: str, weight: Any, xs: list, targets: list) -> Any:
    """Do one step of 1F1B; the first rank alone is given inputs and the last one targets: others get zeros."""
    module = torch.nn.Sequential(_linear(weight), torch.nn.Tanh())
    schedule = one_f_one_b(dist.get_world_size(), len(xs))
    given = {which: answer}
    run_pipeline(dist, [module], xs, targets, torch.nn.functional.mse_loss, schedule, **given)
    return module[0].weight.grad


# What they are given and must give, worked out here


def _zeros(like: Any) -> Any:
    """Return what a rank is given that may know the shape and not the numbers."""
    return [torch.zeros_like(one) for one in like] if isinstance(like, list) else torch.zeros_like(like)


def _only(rank: int, value: Any, ranks: int) -> each:
    """Return an argument that holds `value` on one rank, and zeros on the others."""
    return each([value if here == rank else _zeros(value) for here in range(ranks)])


def _weights(ranks: int, width: int) -> list:
    places = range(width)
    numbers = [[[(3 * i + 5 * j + rank) % 4 - 1.0 for j in places] for i in places] for rank in range(ranks)]
    return [torch.tensor(square, dtype=torch.double) for square in numbers]


def _inputs(count: int, width: int, seed: int, sizes: tuple[int, ...] = (2,)) -> list:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(-3, 4, (sizes[i % len(sizes)], width), generator=generator).double() for i in range(count)
    ]  # fmt: skip


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


def _run(
    name: str, see: str, *call: Any, ranks: int, real: bool = False, stuck_because: Callable | None = None
) -> Results:
    """Run a drive. What goes wrong on the ranks is a wrong answer; `stuck_because` may know why they stand still."""
    case = f"on {ranks} {'real ' if real else ''}ranks"
    try:
        return run(*call, ranks=ranks, on=None if real else Cluster(), timeout=REAL_SECONDS)
    except Deadlock as stuck:
        if stuck_because is not None:
            stuck_because()
        met = "waits to send" in str(stuck) and "waits to receive" in str(stuck)
        hint = "\nDo isend and irecv both have tag=tag?" if met else ""
        expect(False, f"{case} a deadlock: {stuck}{hint}", "deadlock", see)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        if failure.error == "RuntimeError" and "without wait()" in str(failure):
            text = f"{case} a handle was dropped: {name} returns the handle of its isend and waits for its irecv"
            expect(False, f"{text} ({failure.message})", "dropped-handle", see)
        expect(
            name != "stage_backward" or "not NoneType" not in str(failure.message),
            f"{case} rank {failure.rank} sends None: x.grad is None until y.backward has run, and `grad` is None on "
            "the last stage: send x.grad, after y.backward",
            "sends-none",
        )
        expect(False, f"{case} {failure}", {"timeout": "timeout", "exit": "died"}.get(failure.error, "raised"), see)


def _one_message(trace: Results, ranks: int, step: int, size: int) -> None:
    got = sorted((event.rank, event.peer, event.sent) for event in trace.events if event.kind == "send")
    want = sorted((rank, rank + step, size) for rank in range(ranks) if 0 <= rank + step < ranks)
    arrows = ", ".join(f"{source} -> {target} ({count} bytes)" for source, target, count in got) or "none"
    which = "next" if step == 1 else "previous"
    expect(
        got == want,
        f"on {ranks} ranks the messages were {arrows}; it takes one of {size} bytes from each rank to the {which} one",
        "messages",
    )


def _handles(trace: Results, name: str, step: int) -> None:
    for rank, seen in enumerate(trace):
        sends = 0 <= rank + step < len(trace)
        expect(
            seen["waits"] is sends,
            f"rank {rank} returned {seen['handle']} as the handle. "
            + ("Return what isend returned: with a blocking send this rank could do nothing else until the next "
               "one receives"
               if sends else f"It sends nothing, so {name} has to return None there"),
            "no-handle" if sends else "form",
        )  # fmt: skip


def _zero_is_a_rank(drive: Callable, answer: Any, data: tuple, ranks: int, does: str) -> None:
    """Refuse an answer that takes rank 0 for None: it is one that works where the first stage stands on rank 1."""
    try:
        shifted = [each([argument.values[0], *argument.values]) for argument in data]
        run(drive, answer, *shifted, 1, ranks=ranks + 1, on=Cluster())
    except RankFailed:
        return
    expect(
        False,
        f"rank 1 does not {does} rank 0. `if previous:` is false for rank 0: write `if previous is not None`",
        "rank-zero",
    )


def _two_at_once(answer: Any, drive: Callable, name: str, sender: int, gain: int) -> None:
    """Two messages under way at the same time: none may be waited for, and each must find its own receive."""

    def waits() -> None:
        expect(
            False,
            f"rank {sender} waits for its own isend before it returns: return the handle without waiting. In 1F1B two "
            "neighbours send to each other at once, and both would stand still",
            "waits",
        )

    xs = _inputs(2, 3, 5)
    want = [gain * x for x in xs]
    trace = _run(name, "", drive, answer, _only(sender, xs, 2), ranks=2, stuck_because=waits)
    got = trace[1 - sender]
    expect(
        not equal(got, want[::-1]),
        f"rank {1 - sender} asked for the later of two messages and was given the earlier one: pass tag=tag to isend "
        "and to irecv",
        "tag",
    )
    shown = [_tensor(one) for one in got]
    expect(
        equal(got, want),
        f"of two messages under way at once rank {1 - sender} made {shown}; it is {[_tensor(one) for one in want]}",
        "tag",
    )


def _gradients(name: str, answer: Any, which: str, ranks: int, count: int, real: bool = False) -> None:
    weights, width = _weights(ranks, 3), 3
    xs, targets = _inputs(count, width, 1, (2, 3)), _inputs(count, width, 2, (2, 3))
    want, last = _wanted_gradients(weights, xs, targets), _wanted_gradients(weights, xs, targets, count - 1)
    data = (which, each(weights), _only(0, xs, ranks), _only(ranks - 1, targets, ranks))
    trace = _run(name, "", whole_step, answer, *data, ranks=ranks, real=real)
    case = f"in 1F1B with {ranks} {'real ' if real else ''}ranks and {count} micro-batches"
    for rank, got in reversed(list(enumerate(trace))):
        if near(got, want[rank], 1e-12):
            continue
        expect(got is not None, f"{case} the weights of rank {rank} have no gradient", "no-weight-gradient")
        expect(
            not near(got, last[rank], 1e-12),
            f"{case} rank {rank} ends with the gradient of the last micro-batch only: gradients of all of them "
            "add up, so "
            "nothing may set them to zero in between",
            "last-microbatch",
        )
        off = (got - want[rank]).abs().max().item() if got.shape == want[rank].shape else float("nan")
        expect(False, f"{case} the gradient of rank {rank} is off by {off:.3g} from that of one process", "gradient")


@check(value=1, ready_for_backward=1, messages=1, pipeline=2)
def check_stage_forward(answer: Any, part: Any) -> str:
    ranks, name = 3, "stage_forward"
    weights, (first,) = _weights(ranks, 3), _inputs(1, 3, 0)
    wanted, x = [], first
    for weight in weights:
        wanted.append((x, x @ weight.T))
        x = wanted[-1][1]
    part("value")
    data = (each(weights), _only(0, first, ranks))
    trace = _run(
        name, "", forward_once, answer, *data, ranks=ranks,
        stuck_because=lambda: _zero_is_a_rank(forward_once, answer, data, ranks, "receive from"),
    )  # fmt: skip
    for rank, seen in enumerate(trace):
        expect("form" not in seen, f"rank {rank} returned {seen.get('form')}: return (y, handle)", "form")
        x, y = wanted[rank]
        here = f"on 3 ranks rank {rank}"
        expect(
            rank == 0 or not equal(seen["x"], torch.zeros_like(x)) or not equal(seen["y"], y),
            f"{here} received into a tensor of its own: receive into the x that it is given, whose gradient is "
            "asked for "
            "in the backward",
            "new-buffer",
        )
        expect(
            equal(seen["x"], x),
            f"{here} has x = {seen['x'].tolist()}; the previous stage made {x.tolist()}. Is it sent y, and is "
            "the irecv "
            "waited for?",
            "x",
        )
        expect(equal(seen["y"], y), f"{here} returned y = {seen['y'].tolist()}; module(x) is {y.tolist()}", "value")
    part("ready for backward")
    for rank, seen in enumerate(trace):
        expect(
            seen["tracked"] is True,
            f"rank {rank} returned a y that has forgotten how it was made: detach what you send, not what you return",
            "detached",
        )
        expect(
            rank == 0 or seen["x_tracked"] is True,
            f"on rank {rank} x will have no gradient after backward, and rank {rank - 1} waits for it: "
            "x.requires_grad_() "
            "before the module uses it",
            "no-grad",
        )
        expect(
            seen["depends"] is True,
            f"on rank {rank} y does not depend on x, so x gets no gradient: x.requires_grad_() before the module uses "
            "it, and pass x itself to the module, not a copy",
            "no-grad",
        )
    part("messages")
    _handles(trace, name, 1)
    _one_message(trace, ranks, 1, 8 * first.numel())
    part("pipeline")
    _two_at_once(answer, two_forwards, name, 0, 1)
    for sizes in ((3, 5), (1, 2), (4, 4)):
        _gradients(name, answer, "forward", *sizes)
    _gradients(name, answer, "forward", 3, 4, real=True)
    return "y on 1, 3 and 4 ranks, ready for backward · one message a stage · gradients of one process in 1F1B"


@check(value=2, activations=1, pipeline=2)
def check_stage_backward(answer: Any, part: Any) -> str:
    ranks, name = 3, "stage_backward"
    weights, xs, (target,) = _weights(ranks, 3), _inputs(ranks, 3, 3), _inputs(1, 3, 4)
    wanted, grad = [None] * ranks, target
    for rank in reversed(range(ranks)):
        wanted[rank] = (grad @ weights[rank], grad.T @ xs[rank], grad)
        grad = wanted[rank][0]
    part("value")
    data = (each(weights), each(xs), _only(ranks - 1, target, ranks))
    trace = _run(
        name, "", backward_once, answer, *data, ranks=ranks,
        stuck_because=lambda: _zero_is_a_rank(backward_once, answer, data, ranks, "send to"),
    )  # fmt: skip
    for rank, seen in reversed(list(enumerate(trace))):
        here, (x, weight, arrived) = f"on 3 ranks rank {rank}", wanted[rank]
        expect(
            seen["weight"] is not None,
            f"{here} has no gradient for its weights: y.backward(grad) gives x and the weights theirs, "
            "autograd.grad(y, x) "
            "only x",
            "no-weight-gradient",
        )
        without = torch.ones_like(arrived).T @ xs[rank]
        expect(
            rank == ranks - 1 or equal(seen["weight"], weight) or not equal(seen["weight"], without),
            f"{here} went back from y as if it were the loss: start with the gradient that arrived, y.backward(grad)",
            "ignores-gradient",
        )
        expect(
            rank == ranks - 1 or equal(seen["weight"], weight) or not equal(seen["weight"], torch.zeros_like(weight)),
            f"{here} has gradients of zero: receive into grad, wait for it, and only then go back",
            "not-received",
        )
        passed_on = wanted[rank + 1][2].T if rank < ranks - 1 else None
        expect(
            equal(seen["weight"], weight),
            f"{here} has the weight gradient {_tensor(seen['weight'])}; it is {_tensor(weight)}. "
            + ("Does the rank after it send x.grad, the gradient of what it "
               "was given?" if passed_on is not None else ""),
            "value",
        )
        expect(
            rank == 0 or seen["x"] is not None and equal(seen["x"], x),
            f"{here} has the input gradient {_tensor(seen['x'])}; it is {_tensor(x)}",
            "value",
        )
    _handles(trace, name, -1)
    _one_message(trace, ranks, -1, 8 * xs[0].numel())
    part("activations")
    for rank, seen in enumerate(trace):
        expect(
            seen["kept"] is False,
            f"on rank {rank} the activations are still there after the backward: without retain_graph=True it "
            "frees them, "
            "and that is what makes 1F1B worth it",
            "kept",
        )
    part("pipeline")
    _two_at_once(answer, two_backwards, name, 1, 2)
    for sizes in ((3, 5), (1, 2), (4, 4)):
        _gradients(name, answer, "backward", *sizes)
    _gradients(name, answer, "backward", 3, 4, real=True)
    return "gradients of x and of the weights on 1, 3 and 4 ranks · activations freed · as one process in 1F1B"


def _tensor(value: Any) -> str:
    return "none" if value is None else str([[int(x) if x == int(x) else x for x in row] for row in value.tolist()])


# why_one_f_one_b


@check(bubbles=1, peaks=1)
def check_why_one_f_one_b(answer: Any, part: Any) -> str:
    names = {"bubble_gpipe", "bubble_1f1b", "peak_gpipe", "peak_1f1b"}
    cases = ((4, 8), (3, 9), (6, 4))
    got = {case: answer(*case) for case in cases}
    part("bubbles")
    for (stages, microbatches), found in got.items():
        expect(
            isinstance(found, dict) and set(found) == names,
            f"it returned {_shown(found, 120)}: return a dict with {', '.join(sorted(names))}",
            "form",
        )
        want, case = (stages - 1) / (microbatches + stages - 1), _sizes(stages, microbatches)
        for name in ("bubble_gpipe", "bubble_1f1b"):
            value = found[name]
            expect(
                not close(value, (stages - 1) / microbatches),
                f"{case} {name} is {_number(value)}, relative to the ideal time; give the share of all time, "
                f"{want:.4g}",
                "relative",
            )
            expect(
                close(value, want),
                f"{case} {name} is {_number(value)}; a replay says {want:.4g} for both: 1F1B does not make the "
                "bubble smaller",
                "bubble",
            )
    part("peaks")
    for (stages, microbatches), found in got.items():
        for name, want in (("peak_gpipe", microbatches), ("peak_1f1b", min(stages, microbatches))):
            expect(
                equal(found[name], want),
                f"{_sizes(stages, microbatches)} {name} is {_shown(found[name])}; the rank that holds most holds "
                f"{_many(want, 'activation')}",
                "peak",
            )
    return "equal bubbles; at most m activations with GPipe, at most p with 1F1B"


# split_layers

SPLITS = (  # costs of the layers, stages, and the cost of the dearest stage of the best split
    ([1] * 8, 4, 2),
    ([2, *[4] * 12, 10], 4, 16),
    ([5, 1, 1, 1, 1, 1], 3, 5),
    ([1, 1, 1, 1, 1, 9], 3, 9),
    ([7, 2, 2, 2, 7], 4, 7),
    ([3], 1, 3),
)
MANY = ([1 + (7 * i * i + 3 * i) % 11 for i in range(60)], 8, 42)


@check(valid=1, best=2)
def check_split_layers(answer: Any, part: Any) -> str:
    got = {(tuple(costs), stages): answer(list(costs), stages) for costs, stages, _ in SPLITS}
    part("valid")
    for (costs, stages), counts in got.items():
        _valid_split(costs, stages, counts)
    part("best")
    for costs, stages, best in SPLITS:
        _best_split(costs, stages, got[tuple(costs), stages], best)
    costs, stages, best = MANY
    counts = _split_in_time(answer, costs, stages)
    _valid_split(costs, stages, counts)
    _best_split(costs, stages, counts, best)
    return "the dearest stage is as cheap as it can be, for 1 to 60 layers on 1 to 8 stages"


def _split_in_time(answer: Any, costs: list, stages: int) -> Any:
    """Call the answer on a rank of its own, which is ended when it takes too long."""
    try:
        return run(split_once, answer, list(costs), stages, ranks=1, on=Cluster(), timeout=SPLIT_SECONDS)[0]
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        cuts = math.comb(len(costs) - 1, stages - 1)
        expect(
            failure.error != "timeout",
            f"{len(costs)} layers on {stages} stages: still running after {SPLIT_SECONDS} s: do not try every cut, "
            f"there are {cuts:,}",
            "every-cut",
        )
        expect(False, f"{len(costs)} layers on {stages} stages: {failure}", "raised")


def _valid_split(costs: Any, stages: int, counts: Any) -> None:
    case = f"{len(costs)} layers on {stages} {'stage' if stages == 1 else 'stages'}:"
    expect(
        isinstance(counts, list) and len(counts) == stages and all(type(count) is int for count in counts),
        f"{case} it returned {_shown(counts)}: return a list of {stages} whole numbers, the layers of each stage",
        "form",
    )
    expect(min(counts) >= 1, f"{case} {counts} leaves a stage without a layer: its rank would have "
                             "nothing to do", "empty")
    expect(sum(counts) == len(costs), f"{case} {counts} are {sum(counts)} layers", "sum")


def _best_split(costs: Any, stages: int, counts: list, best: float) -> None:
    ends = [sum(counts[: stage + 1]) for stage in range(stages)]
    totals = [sum(costs[end - count : end]) for count, end in zip(counts, ends, strict=True)]
    dearest, shown = max(totals), costs if len(costs) <= 14 else f"{len(costs)} layers"
    alike = max(counts) - min(counts) <= 1
    expect(
        dearest <= best,
        f"{shown} on {stages} stages: {counts} makes stages of cost {totals}; the dearest costs {dearest}, and "
        f"{best} is "
        "possible. " + ("Equal numbers of layers are not equal costs" if alike else "All wait for the dearest stage"),
        "equal-counts" if alike else "not-best",
    )
