"""Checks of chapter 0: who sent what to whom, and what every rank returned, with as many ranks as you like."""

from __future__ import annotations

from typing import Any

import torch

from course_lib import Cluster, Deadlock, RankFailed, Results, each, run
from exercises_tests.judging import check, code_of, expect
from exercises_tests.values import equal, integers

REAL_SECONDS = 20  # after which a run on real ranks counts as hung
ISEND = "Start the send with isend, receive, then wait."

# What runs on the ranks: plain functions of (dist, answer, data), with nothing in them that gives the result away.


def with_own(dist: Any, answer: Any, value: Any) -> Any:
    return answer(dist, value)


def with_own_blocking(dist: Any, answer: Any, value: Any) -> Any:
    return answer(_SendAndRecv(dist), value)


def with_peer(dist: Any, answer: Any, tensor: torch.Tensor, peer: int | None) -> Any:
    if peer is None:
        return None
    returned = answer(dist, tensor, peer)
    return returned, tensor


def beside_a_third(dist: Any, answer: Any, tensor: torch.Tensor, peer: int | None) -> Any:
    if peer is None:
        dist.send(tensor, 0)
        return None
    returned = answer(dist, tensor, peer)
    if dist.get_rank() == 0:
        dist.recv(torch.empty_like(tensor))  # what is left
    return returned, tensor


class NotAskedFor(Exception):  # noqa: N818
    """The answer calls what its exercise does not ask for."""


class _SendAndRecv:
    """A `dist` whose only messages are blocking ones."""

    def __init__(self, dist: Any) -> None:
        self._dist = dist

    def __getattr__(self, name: str) -> Any:
        if name in ("isend", "irecv", "batch_isend_irecv"):
            raise NotAskedFor(f"it calls {name}: use only send and recv")
        return getattr(self._dist, name)


# What all checks of this chapter ask


def _on(ranks: int, real: bool = False) -> str:
    return f"on {ranks} {'real ' if real else ''}{'rank' if ranks == 1 else 'ranks'}"


def _run(see: str, *call: Any, ranks: int, real: bool = False, advise: bool = False) -> Results:
    """Run on simulated or on real ranks; a run that fails is a wrong answer, told with its number of ranks.

    `advise` adds what ranks that wait for each other in a circle should do.
    """
    try:
        return run(*call, ranks=ranks, on=None if real else Cluster(), timeout=REAL_SECONDS)
    except Deadlock as stuck:
        tip = f"\n{ISEND}" if advise and "wait in a circle" in str(stuck) else ""
        expect(False, f"{_on(ranks)} a deadlock: {stuck}{tip}", "deadlock", see)
    except RankFailed as failure:
        if failure.error == "NotImplementedError":
            raise
        if failure.error == "NotAskedFor":
            lines = "".join(str(failure).partition("\n")[1:])
            expect(False, f"{_on(ranks, real)} {failure.message}{lines}", "not-blocking")
        expect(False, f"{_on(ranks, real)} {failure}", code_of(failure), see)


def _no_builtin(trace: Results, case: str, only: str = "send, recv, isend and irecv") -> None:
    used = sorted({kind for kinds in trace.collectives for kind in kinds if kind != "barrier"})
    names = ", ".join(f"dist.{kind}" for kind in used)
    expect(not used, f"{case} it calls {names}: use only {only}", "built-in")


def _messages(trace: Results) -> list[tuple[int, int]]:
    """Return (sender, receiver) of every message that the answer sent, sorted."""
    return sorted((event.rank, event.peer) for event in trace.events if event.kind == "send")


def _text(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    numbers = [f"{number:g}" for number in value.flatten().tolist()[:6]]
    values = ", ".join(numbers + ["..."] * (value.numel() > 6))
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} of [{values}]"


def _different(ranks: int, shape: tuple, dtype: str = "float32") -> list:
    """Return small whole numbers, on every rank others than on all the ranks before it."""
    return [tensor + 20 * (rank + 1) for rank, tensor in enumerate(integers(ranks, shape, dtype))]


# A check to practise reading checks: no exercise asks for it


@check(value=1, any_P=1)
def check_ten_times(answer: Any, part: Any) -> str:
    see = "run(ten_times, ranks={}, on=Cluster())"
    for name, sizes in (("value", (4,)), ("any P", (1, 7))):
        part(name)
        for ranks in sizes:
            got = list(_run(see.format(ranks), answer, ranks=ranks))
            for rank in range(ranks):
                expect(
                    equal(got[rank], 10 * rank),
                    f"{_on(ranks)} rank {rank} returned {_text(got[rank])}; ten times its rank is {10 * rank}",
                    "value", see.format(ranks),
                )  # fmt: skip
    return "every rank returns ten times its rank on 1, 4 and 7 ranks"


# even_to_odd

EVEN_TO_ODD = "run(lambda dist: even_to_odd(dist, 10.0 * dist.get_rank()), ranks={}, on=Cluster())"


def _passed_on(answer: Any, ranks: int, real: bool = False) -> Results:
    numbers = [tensor.item() for tensor in _different(ranks, ())]
    see = EVEN_TO_ODD.format(ranks)
    trace = _run(see, with_own_blocking, answer, each(numbers), ranks=ranks, real=real)
    case = _on(ranks, real)
    for rank, got in enumerate(trace):
        if rank % 2 == 0:
            expect(
                got is None,
                f"{case} rank {rank} returned {_text(got)}: only a rank that receives returns a number, "
                "all others return None",
                "not-none", see,
            )  # fmt: skip
            continue
        expect(
            not isinstance(got, torch.Tensor),
            f"{case} rank {rank} returned a tensor, {_text(got)}: return the number in it, with .item()",
            "tensor", see,
        )  # fmt: skip
        expect(
            type(got) in (int, float) and got == numbers[rank - 1],
            f"{case} rank {rank} returned {_text(got)}; "
            f"rank {rank - 1} was given {numbers[rank - 1]} and sends it to rank {rank}",
            "value", see,
        )  # fmt: skip
    _no_builtin(trace, case, "send and recv")
    return trace


@check(value=2, odd_world_sizes=1, messages=1)
def check_even_to_odd(answer: Any, part: Any) -> str:
    part("value")
    for ranks in (2, 4):
        _passed_on(answer, ranks)
    _passed_on(answer, 4, real=True)
    part("odd world sizes")
    for ranks in (1, 3, 7):
        _passed_on(answer, ranks)
    part("messages")
    for ranks in (2, 5):
        got = _messages(_passed_on(answer, ranks))
        want = [(rank, rank + 1) for rank in range(0, ranks - 1, 2)]
        arrows = ", ".join(f"{source} -> {target}" for source, target in got) or "none"
        expect(
            got == want,
            f"{_on(ranks)} the messages were {arrows}: {len(got)} of them, and {len(want)} will do, one from each even "
            "rank to the next",
            "messages", f"timeline({EVEN_TO_ODD.format(ranks)})",
        )  # fmt: skip
    return "right on 1, 2, 3, 4 and 7 ranks · None where nothing arrives · one message a pair"


# sum_on_every_rank


def _see_sum(ranks: int, shape: tuple = (2,), dtype: str = "float32") -> str:
    value = f"torch.full({shape}, {'1.0' if dtype == 'float32' else '1'} + dist.get_rank())"
    return f"run(lambda dist: sum_on_every_rank(dist, {value}), ranks={ranks}, on=Cluster())"


def _summed(answer: Any, ranks: int, shape: tuple = (2,), dtype: str = "float32", real: bool = False) -> Results:
    values = _different(ranks, shape, dtype)
    total = torch.stack(values).sum(0)
    partial = torch.stack(values).cumsum(0)
    see = _see_sum(ranks, shape, dtype)
    trace = _run(see, with_own, answer, each(values), ranks=ranks, real=real)
    case = _on(ranks, real)
    for rank, got in enumerate(trace):
        if equal(got, total):
            continue
        here = f"{case} rank {rank} returned {_text(got)}"
        if isinstance(got, torch.Tensor):
            expect(
                not any(equal(got, some) for some in partial[:-1]),
                f"{here}, a sum that is not complete; the total is {_text(total)}: receive from everyone before "
                "you send the total to anyone",
                "not-complete", see,
            )  # fmt: skip
            expect(
                not equal(got.double() * ranks, total.double()),
                f"{here}, the mean; the total is {_text(total)}: do not divide by {ranks}",
                "mean", see,
            )  # fmt: skip
        expect(
            got is not None or trace[0] is None,
            f"{here}: rank 0 has the total, and every other rank has to return it too",
            "not-on-every-rank", see,
        )  # fmt: skip
        expect(False, f"{here}; the total is {_text(total)}", "value", see)
    _no_builtin(trace, case)
    return trace


@check(value=2, any_P=1, messages=1, bytes=1)
def check_sum_on_every_rank(answer: Any, part: Any) -> str:
    part("value")
    for ranks in (2, 4):
        _summed(answer, ranks)
    _summed(answer, 4, real=True)
    part("any P")
    for ranks in (1, 3, 7):
        _summed(answer, ranks)
    _summed(answer, 3, (2, 3), "int64")
    part("messages")
    for ranks in (3, 6):
        got = _messages(_summed(answer, ranks))
        past = [f"rank {source} sent a message to rank {target}" for source, target in got if 0 not in (source, target)]
        expect(
            len(got) <= 2 * (ranks - 1),
            f"{_on(ranks)} it took {len(got)} messages; through rank 0 it takes {2 * (ranks - 1)}: "
            f"{ranks - 1} values to rank 0 and {ranks - 1} totals back",
            "too-many-messages", f"timeline({_see_sum(ranks)})",
        )  # fmt: skip
        expect(
            not past,
            f"{_on(ranks)} {' and '.join(past[:1])}: in this exercise every message goes to rank 0 or comes from it",
            "past-rank-0", f"timeline({_see_sum(ranks)})",
        )  # fmt: skip
    part("bytes")
    ranks, elements = 4, 256
    trace, size = _summed(answer, ranks, (elements,)), 4 * elements
    for word, got in (("sent", trace.bytes_sent[0]), ("received", trace.bytes_received[0])):
        expect(
            got <= (ranks - 1) * size,
            f"{_on(ranks)} with {size:,} bytes each rank 0 {word} {got:,} bytes; {(ranks - 1) * size:,} will do: "
            "each message is as large as one value",
            "too-many-bytes", _see_sum(ranks, (elements,)) + f".bytes_{word}",
        )  # fmt: skip
    return "total on 1, 2, 3, 4, 7 ranks · 2(P-1) messages · rank 0 carries (P-1)·S each way"


# exchange

PEERS = {2: [1, 0], 3: [2, None, 0], 4: [2, 3, 0, 1], 5: [4, 3, None, 1, 0]}  # who swaps with whom; None sits out
CALLS = {  # the same as a learner types it
    2: "exchange(dist, {}, 1 - dist.get_rank())",
    3: "dist.get_rank() == 1 or exchange(dist, {}, 2 - dist.get_rank())",
    4: "exchange(dist, {}, (dist.get_rank() + 2) % 4)",
    5: "dist.get_rank() == 2 or exchange(dist, {}, 4 - dist.get_rank())",
}


def _see_exchange(ranks: int, shape: tuple, dtype: str) -> str:
    tensor = f"torch.full({shape}, dist.get_rank(), dtype=torch.{dtype})"
    if dtype == "float32":
        tensor = f"torch.ones({', '.join(map(str, shape))}) * dist.get_rank()"
    call = CALLS[ranks].format(tensor)
    return f"run(lambda dist: {call}, ranks={ranks}, on=Cluster())"


# rank 1 sends to rank 0 meanwhile, which receives that after its exchange: a learner sees from whom
SEE_THIRD = (
    "run(lambda dist: dist.send(torch.ones(3), 0) if dist.get_rank() == 1 else "
    "(exchange(dist, torch.ones(3) * dist.get_rank(), 2 - dist.get_rank()), "
    "dist.get_rank() == 2 or dist.recv(torch.empty(3))), ranks=3, on=Cluster())"
)


def _swapped_beside_a_third(answer: Any) -> None:
    """Let ranks 0 and 2 swap while rank 1 sends to rank 0, and refuse who takes that for the peer's."""
    tensors = _different(3, (3,))
    want = [tensor.clone() for tensor in tensors]
    trace = _run(SEE_THIRD, beside_a_third, answer, each(tensors), each(PEERS[3]), ranks=3, advise=True)
    got = trace[0][0] if isinstance(trace[0], tuple) else None
    case = f"{_on(3)} of which rank 1 sends to rank 0 while 0 and 2 swap, rank 0"
    expect(
        not equal(got, want[1]),
        f"{case} took rank 1's message for its peer's: name the source, recv(buffer, peer)",
        "no-source", SEE_THIRD,
    )  # fmt: skip
    expect(equal(got, want[2]), f"{case} returned {_text(got)}; rank 2 had {_text(want[2])}", "value", SEE_THIRD)


def _swapped(answer: Any, ranks: int, shape: tuple = (3,), dtype: str = "float32", real: bool = False) -> Results:
    tensors = _different(ranks, shape, dtype)
    want = [tensor.clone() for tensor in tensors]
    peers, see = PEERS[ranks], _see_exchange(ranks, shape, dtype)
    trace = _run(see, with_peer, answer, each(tensors), each(peers), ranks=ranks, real=real, advise=True)
    case = f"{_on(ranks, real)} with {dtype}{list(shape)}"
    for rank, partner in enumerate(peers):
        if partner is None:
            continue
        pair = trace[rank]
        got, own = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        here = f"{case} rank {rank} swaps with rank {partner}"
        expect(
            got is not None,
            f"{here} and returned None: return the tensor that arrived",
            "none", see,
        )  # fmt: skip
        expect(
            not equal(got, want[rank]),
            f"{here} and returned its own tensor, {_text(got)}; rank {partner} had {_text(want[partner])}: "
            "return the tensor that arrived",
            "own-tensor", see,
        )  # fmt: skip
        expect(
            equal(got, want[partner]),
            f"{here} and returned {_text(got)}; rank {partner} had {_text(want[partner])}",
            "value", see,
        )  # fmt: skip
        expect(
            equal(own, want[rank]),
            f"{here}, and its own tensor is {_text(own)} afterwards; it was {_text(want[rank])}: "
            "receive into another tensor, and leave this one as it was",
            "own-tensor-changed", see,
        )  # fmt: skip
    _no_builtin(trace, case)
    return trace


@check(value=2, any_pair=1, any_tensor=1, bytes=1)
def check_exchange(answer: Any, part: Any) -> str:
    part("value")
    _swapped(answer, 2)
    _swapped(answer, 2, real=True)
    part("any pair")
    for ranks in (3, 4, 5):
        _swapped(answer, ranks)
    _swapped_beside_a_third(answer)
    part("any tensor")
    for shape, dtype in (((2, 3), "int64"), ((), "float64"), ((4,), "bfloat16"), ((1, 2, 2), "uint8")):
        _swapped(answer, 2, shape, dtype)
    _swapped(answer, 3, (2, 3), "int64", real=True)
    part("bytes")
    trace = _swapped(answer, 2, (256,))
    for rank, sent in enumerate(trace.bytes_sent):
        expect(
            sent <= 4 * 256,
            f"{_on(2)} with 1,024 bytes each rank {rank} sent {sent:,} bytes: each tensor has to travel once",
            "too-many-bytes", _see_exchange(2, (256,), "float32") + ".bytes_sent",
        )  # fmt: skip
    return "any pair on 2 to 5 ranks · only from its peer · any dtype and shape · own tensor unchanged · sent once"
