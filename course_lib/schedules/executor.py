"""Runs a schedule with real tensors: one rank's actions in order, results handed to the next stage as they appear."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib import work
from course_lib.engine import current
from course_lib.schedules.actions import Schedule, parts
from course_lib.schedules.replay import validate
from course_lib.schedules.split import backward_input

AHEAD = 2  # receives that are posted before the action that needs them: their transfers overlap with earlier actions


def run_pipeline(
    dist: Any,
    chunks: Sequence[torch.nn.Module],
    microbatches: Sequence[torch.Tensor],
    targets: Sequence[torch.Tensor],
    loss_fn: Callable,
    actions: Any,
    *,
    like: torch.Tensor | None = None,
    forward: Callable | None = None,
    backward: Callable | None = None,
    pace: dict[str, Any] | None = None,
    update: Callable[[int], None] | None = None,
    stash: bool = False,
) -> dict[str, Any]:
    """Run this rank's part of a schedule; afterwards the chunks' parameters hold the gradients of the whole batch.

    `actions` is a Schedule, or one list a rank; `chunks` are the stages this rank holds, in the order of its chunks.
    Every rank is given all micro-batches and targets. Each micro-batch's loss counts by its share of the examples, so
    gradients are those of the mean over the batch. What stages hand on has the shape and dtype of `like` (default: of
    a micro-batch) but for its first dimension, which is the micro-batch's.

    `forward` and `backward` replace what an action F and B does on a rank (chapter 6 writes them):
    forward(dist, module, x, previous, following, tag) -> (y, handle of the isend or None) and
    backward(dist, x, y, grad, previous, following, tag) -> handle or None. `pace` has seconds to `work` in addition by
    kind ("F", "I", "W"; one number or one a stage; a B is paced as I + W). An asynchronous schedule calls
    `update(chunk)` after every backward; with `stash` a backward uses the weights of its forward.

    Returns {"loss": mean loss (None without the last stage), "spans": (action's number, start, end) in seconds since
    "begin", "peak": most activations held, "simulated": on which engine}. Raises ValueError when the pieces do not fit.
    """
    schedule = validate(actions)
    _check(dist, schedule, chunks, microbatches, targets, update)
    rank = _Rank(dist, schedule, list(chunks), microbatches, targets)
    rank.loss_fn, rank.like, rank.pace = loss_fn, microbatches[0] if like is None else like, pace or {}
    rank.forward, rank.backward, rank.update, rank.stash = forward, backward, update, stash
    return rank.run()


def _check(dist: Any, schedule: Schedule, chunks: Any, microbatches: Any, targets: Any, update: Any) -> None:
    ranks, me = dist.get_world_size(), dist.get_rank()
    if dist.get_backend() == "nccl":
        raise ValueError("run_pipeline needs tags, which NCCL has not; on GPUs use torch.distributed.pipelining")
    if ranks != len(schedule):
        raise ValueError(f"the schedule is for {len(schedule)} ranks, and there are {ranks}")
    if len(chunks) != len(schedule.place[me]):
        raise ValueError(f"rank {me} was given {len(chunks)} chunks; its actions use {len(schedule.place[me])}")
    for name, things in (("microbatches", microbatches), ("targets", targets)):
        if len(things) != schedule.microbatches:
            raise ValueError(f"there are {len(things)} {name}; the schedule has {schedule.microbatches} micro-batches")
    if schedule.synchronous == (update is not None):
        says = "needs update=" if update is None else "takes no update=: step the optimizer after run_pipeline"
        raise ValueError(f"{schedule.name} is {'' if schedule.synchronous else 'a'}synchronous and {says}")


def _forward(dist: Any, module: Callable, x: torch.Tensor, previous: None, following: int | None, tag: int) -> tuple:
    """Do what chapter 6's stage_forward does, where the executor has received x already."""
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


def _backward(dist: Any, x: Any, y: Any, grad: Any, previous: int | None, following: None, tag: int) -> Any:
    y.backward(grad)
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


class _Rank:
    """One rank at work.

    `saved` holds (x, y) of each (micro-batch, chunk) from its forward to its backward, `owed` what a weight part needs
    from its input part on. Messages of forwards have the tag 2·micro-batch, those of backwards one more; two chunks
    that use the same tag between the same ranks do so in the same order on both.
    """

    def __init__(self, dist: Any, schedule: Schedule, chunks: list, microbatches: Any, targets: Any) -> None:
        self.dist, self.schedule, self.chunks = dist, schedule, chunks
        self.microbatches, self.targets, self.me = microbatches, targets, dist.get_rank()
        self.simulated = dist.get_backend() == "simulated"
        self.examples = sum(len(target) for target in targets)
        self.saved: dict[tuple[int, int], tuple] = {}
        self.owed: dict[tuple[int, int], Callable] = {}
        self.local: dict[tuple[str, int, int], torch.Tensor] = {}  # handed on within this rank
        self.posted: dict[tuple[str, int, int], tuple] = {}  # receives under way
        self.sending: dict[tuple[str, int, int], Any] = {}
        self.losses: list[torch.Tensor] = []
        self.peak, self.begun = 0, None

    def run(self) -> dict[str, Any]:
        steps = [step for action in self.schedule[self.me] for step in parts(action)]
        self.coming = [step for step in steps if self._receives(*step)][::-1]
        spans = []
        for number, action in enumerate(self.schedule[self.me]):
            self.begun = None
            for kind, micro, chunk in parts(action):
                getattr(self, f"_{kind.lower()}")(micro, chunk)
            now = self._now()
            spans.append((number, now if self.begun is None else self.begun, now))
        for handle in self.sending.values():
            handle.wait()
        loss = sum(self.losses).item() if self.losses else None
        return {
            "loss": loss, "spans": spans, "peak": self.peak, "simulated": self.simulated, "begin": self._begin(),
        }  # fmt: skip

    # Actions

    def _f(self, micro: int, chunk: int) -> None:
        previous, following = self._remote(chunk, -1), self._remote(chunk, 1)
        x, previous = self._take("F", micro, chunk, previous, self.forward)
        y, handle = (self.forward or _forward)(self.dist, _Timed(self, chunk), x, previous, following, 2 * micro)
        self._keep(("F", micro, chunk), handle)
        after = self._near(chunk, 1)
        if after is None:
            target = self.targets[micro]
            y = self.loss_fn(y, target) * (len(target) / self.examples)
            self.losses.append(y.detach())
        elif after[0] == self.me:
            self.local["F", micro, after[1]] = y.detach().requires_grad_()
        self.saved[micro, chunk] = x, y
        self.peak = max(self.peak, len(self.saved) + len(self.owed))

    def _b(self, micro: int, chunk: int) -> None:
        x, y = self.saved.pop((micro, chunk))
        grad, following = self._take("B", micro, chunk, self._remote(chunk, 1), self.backward)
        y.register_hook(lambda grad: self._start(("I", "W"), chunk))
        call = self.backward or _backward
        handle = call(self.dist, x, y, grad, self._remote(chunk, -1), following, 2 * micro + 1)
        self._keep(("B", micro, chunk), handle)
        self._hand_down(micro, chunk, x.grad)
        if self.update:
            self.update(chunk)

    def _i(self, micro: int, chunk: int) -> None:
        x, y = self.saved.pop((micro, chunk))
        grad, _ = self._take("I", micro, chunk, self._remote(chunk, 1), None)
        self._start(("I",), chunk)
        x_grad, self.owed[micro, chunk] = backward_input(y, x, grad)
        previous = self._remote(chunk, -1)
        if previous is not None:
            self._keep(("B", micro, chunk), self.dist.isend(x_grad, previous, tag=2 * micro + 1))
        self._hand_down(micro, chunk, x_grad)

    def _w(self, micro: int, chunk: int) -> None:
        self._start(("W",), chunk)
        self.owed.pop((micro, chunk))()

    def _sync(self, micro: None, chunk: int) -> None:
        """Add the gradients of the same stage's other copy. A sum of two is the same from both sides, to the bit."""
        stage, copy = self.schedule.place[self.me][chunk]
        other, tag = self.schedule.where[stage, 1 - copy][0], 2 * len(self.microbatches) + stage
        weights = list(self.chunks[chunk].parameters())
        mine = torch.cat([(w.new_zeros(w.shape) if w.grad is None else w.grad).flatten() for w in weights])
        theirs = torch.empty_like(mine)
        handles = self.dist.isend(mine, other, tag=tag), self.dist.irecv(theirs, other, tag=tag)
        self._start(("SYNC",), chunk)
        for handle in handles:
            handle.wait()
        for weight, grad in zip(weights, (mine + theirs).split([w.numel() for w in weights]), strict=True):
            weight.grad = grad.view_as(weight)

    # Where things come from and go to

    def _near(self, chunk: int, step: int) -> tuple[int, int] | None:
        """Return (rank, chunk) of the next (1) or previous (-1) stage of the same copy, None at the ends."""
        stage, copy = self.schedule.place[self.me][chunk]
        return self.schedule.where.get((stage + step, copy))

    def _remote(self, chunk: int, step: int) -> int | None:
        near = self._near(chunk, step)
        return None if near is None or near[0] == self.me else near[0]

    def _receives(self, kind: str, micro: int, chunk: int) -> bool:
        """Return whether the executor itself receives what this step needs."""
        given = {"F": self.forward, "B": self.backward, "I": None}
        return kind in given and not given[kind] and self._remote(chunk, -1 if kind == "F" else 1) is not None

    def _take(self, kind: str, micro: int, chunk: int, source: int | None, given: Any) -> tuple[Any, int | None]:
        """Return what a step starts from, and None; or an empty buffer and the rank to receive from, for `given`."""
        direction = "F" if kind == "F" else "B"
        if source is None:
            first = self.microbatches[micro] if kind == "F" else None
            return self.local.pop((direction, micro, chunk), first), None
        if given:
            return self._buffer(micro), source
        while self.coming and len(self.posted) <= AHEAD:
            step = self.coming.pop()
            buffer, later = self._buffer(step[1]), step[0] != "F"
            peer, tag = self._remote(step[2], 1 if later else -1), 2 * step[1] + later
            self.posted[step] = buffer, self.dist.irecv(buffer, peer, tag=tag)
        buffer, handle = self.posted.pop((kind, micro, chunk))
        handle.wait()
        return (buffer.requires_grad_() if kind == "F" else buffer), None

    def _buffer(self, micro: int) -> torch.Tensor:
        return self.like.new_empty((len(self.microbatches[micro]), *self.like.shape[1:]))

    def _keep(self, key: tuple[str, int, int], handle: Any) -> None:
        if handle is not None:
            self.sending[key] = handle

    def _hand_down(self, micro: int, chunk: int, grad: torch.Tensor | None) -> None:
        before = self._near(chunk, -1)
        if before is not None and before[0] == self.me:
            self.local["B", micro, before[1]] = grad
        sent = self.sending.pop(("F", micro, chunk), None)
        if sent is not None:  # its gradient is back, so it has arrived: this takes no time and frees the tensor
            sent.wait()

    # Time

    def compute(self, chunk: int, x: torch.Tensor) -> torch.Tensor:
        """Return what a chunk makes of x, after noting when it starts and pacing it."""
        self._start(("F",), chunk)
        module = self.chunks[chunk]
        if self.stash:
            weights = {name: weight.clone() for name, weight in module.named_parameters()}
            y = torch.func.functional_call(module, weights, (x,))
        else:
            y = module(x)
        if self._near(chunk, 1) is not None and (y.shape[1:] != self.like.shape[1:] or y.dtype != self.like.dtype):
            raise ValueError(
                f"a stage of rank {self.me} hands on {y.dtype} {list(y.shape)}, and like= says "
                f"{self.like.dtype} {list(self.like.shape)}: give run_pipeline(..., like=torch.empty(...))"
            )
        return y

    def _start(self, kinds: tuple[str, ...], chunk: int) -> None:
        if self.begun is None:
            self.begun = self._now()
        for kind in kinds:
            cost = self.pace.get(kind, 0)
            seconds = cost if isinstance(cost, (int, float)) else cost[self.schedule.place[self.me][chunk][0]]
            if seconds:
                work(seconds)

    def _now(self) -> float:
        return current.rank().now()

    def _begin(self) -> float:
        """Return when this rank's own clock began, by a clock that the processes of one machine share; else 0."""
        ranks = str(self.dist.get_world_size())
        apart = os.environ.get("LOCAL_WORLD_SIZE", ranks) != ranks  # torchrun on several machines
        return 0.0 if self.simulated or apart else current.rank().begin


class _Timed:
    """A chunk that notes when it is called; else it is the module."""

    def __init__(self, rank: _Rank, chunk: int) -> None:
        self._rank, self._chunk = rank, chunk

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._rank.compute(self._chunk, x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rank.chunks[self._chunk], name)
