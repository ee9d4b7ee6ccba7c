"""Checks of chapter 0: who sent what to whom, and what every rank returned, with as many ranks as you like."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch

from course_lib import Cluster, RankFailed, Results, each, run
from exercises_tests.judging import SECONDS, Case, Hint, Mistake, check
from exercises_tests.values import all_digits, count, different, equal, numbers, plain, rounded, shown, versus

ISEND = Hint("wait in a circle", "Break the circle: one call in it must not wait, or one rank needs another order.")
PARITY = Hint(
    "wait in a circle",
    "Neither of the two need be rank 0, and both may be even, or odd: compare rank with peer to decide who goes first, "
    "or let one call in the circle return without waiting.",
)
BUFFER = Hint("receives into", "Make the receiver's buffer by torch.empty_like(value): the same shape and dtype.")
LIKE = Hint("receives into", "Make the buffer by torch.empty_like(tensor): the same shape and dtype.")
WHO = "An even rank only sends, and only if a rank stands above it; an odd rank only receives, from the rank below it."
SAME = "Send torch.tensor([number]) and receive into torch.empty(1): both are float32, and one element."
PAIRS = [Hint("none of them ever will", WHO), Hint("no such rank", WHO), Hint("receives into", SAME)]
THROUGH_0 = Hint(
    "wait in a circle",
    "Every rank but 0 sends its value first, and only then waits for the total; rank 0 receives first.",
)
ITSELF = Hint("itself", "Rank 0 has its own value already: let it receive from ranks 1 to P-1, and send to them.")
OWN = Hint("buffer of isend", "Receive into a tensor of its own, and not into the one that is being sent.")

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


def _text(value: Any) -> str:
    tensor = isinstance(value, torch.Tensor)
    return f"{str(value.dtype)[6:]}{list(value.shape)} of {numbers(value, digits=7)}" if tensor else shown(value)


def _messages(trace: Results) -> list[tuple[int, int]]:
    """Return (sender, receiver) of every message that the answer sent, sorted."""
    return sorted((event.rank, event.peer) for event in trace.events if event.kind == "send")


# A check to practise reading checks: no exercise asks for it


@check(value=1, any_P=1)
def check_ten_times(answer: Any, part: Any) -> str:
    for name, sizes in (("value", (4,)), ("any P", (1, 7))):
        part(name)
        for ranks in sizes:
            case = Case(ranks, see=f"run(ten_times, ranks={ranks}, on=Cluster())")
            for rank, got in enumerate(case.run(answer)):
                told = f"rank {rank} returned {_text(got)}; ten times its rank is {10 * rank}"
                case.expect(equal(got, 10 * rank), told, "value")
    return "every rank returns ten times its rank on 1, 4 and 7 ranks"


# even_to_odd


def _given(ranks: int) -> list[float]:
    return [100 * tensor.item() + 0.5 for tensor in different(ranks, ())]


def _see_even_to_odd(ranks: int) -> str:
    return f"run(lambda dist: even_to_odd(dist, {_given(ranks)}[dist.get_rank()]), ranks={ranks}, on=Cluster())"


def _passed_on(answer: Any, ranks: int, real: bool = False) -> Results:
    given = _given(ranks)
    case = Case(ranks, real=real, see=_see_even_to_odd(ranks))
    try:
        on = None if real else Cluster()
        trace = case.ran(run(with_own_blocking, answer, each(given), ranks=ranks, on=on, timeout=SECONDS))
    except RankFailed as failure:
        told = failure.message + "".join(str(failure).partition("\n")[1:])
        case.expect(failure.error != NotAskedFor.__name__, told, "not-blocking", see="")
        case.failed(failure, PAIRS, answer)
    for rank, got in enumerate(trace):
        got = got if isinstance(got, torch.Tensor) else plain(got)
        here = f"rank {rank} returned {_text(got)}"
        if rank % 2 == 0:
            told = f"{here}: only a rank that receives returns a number, all others return None"
            case.expect(got is None, told, "not-none")
        else:
            told = f"rank {rank} returned a tensor, {_text(got)}: return the number in it, with .item()"
            case.expect(not isinstance(got, torch.Tensor), told, "tensor")
            came = any(event.kind == "recv" and event.rank == rank for event in trace.events)
            none = "it received a message, so return the number in it, with .item()"
            if not came:
                none = f"no message came to it, so let rank {rank - 1} send {given[rank - 1]}, which it was given"
            case.expect(got is not None, f"{here}: {none}", "value")
            told = f"{here}; rank {rank - 1} was given {given[rank - 1]} and sends it to rank {rank}"
            off = abs(got - given[rank - 1]) if type(got) in (int, float) else 0
            whole = f"{told}: what follows the point was lost. Send the number's own tensor, torch.tensor([number]): "
            whole += "its dtype stays float32"
            case.expect(type(got) is float or not 0 < off < 1, whole, "whole-number")
            case.expect(not 0 < off < 9, f"{told}: digits were lost, and float32 keeps them", "digits")
            case.expect(type(got) in (int, float) and got == given[rank - 1], told, "value")
    case.no_builtin(trace, "send and recv")
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
        got, want = _messages(_passed_on(answer, ranks)), [(rank, rank + 1) for rank in range(0, ranks - 1, 2)]
        arrows = ", ".join(f"{source} -> {target}" for source, target in got) or "none"
        told = f"the messages were {arrows}: {len(got)} of them, and {len(want)} will do, one from each even rank to "
        see = f"messages({_see_even_to_odd(ranks)}, Cluster())"
        Case(ranks, see=see).expect(got == want, f"{told}the next", "messages")
    return "right on 1, 2, 3, 4 and 7 ranks · None where nothing arrives · one message a pair"


# sum_on_every_rank


def _see_sum(ranks: int, shape: tuple = (2,), dtype: str = "float32", given: list | None = None) -> str:
    """Return a line that runs an answer on what ranks were given, or where that is only counted, on 1 + r on rank r."""
    kind = "" if dtype in ("float32", "int64") else f", dtype=torch.{dtype}"
    value = f"torch.full({shape}, {'1' if dtype == 'int64' else '1.0'} + dist.get_rank(){kind})"
    if given:
        value = f"torch.tensor({[tensor.tolist() for tensor in given]}{kind})[dist.get_rank()]"
    return f"run(lambda dist: sum_on_every_rank(dist, {value}), ranks={ranks}, on=Cluster())"


def _summed(
    answer: Any, ranks: int, shape: tuple = (2,), dtype: str = "float32", real: bool = False, draw: Any = different
) -> Results:
    given = draw(ranks, shape, dtype)
    partial = list(accumulate(given))
    total = partial[-1].clone()
    case = Case(ranks, real=real, see=_see_sum(ranks, shape, dtype, given if total.numel() <= 6 else None))
    trace = case.run(with_own, answer, each(given), hints=[BUFFER, THROUGH_0, ITSELF])
    forgotten = "returned what it brought: return the total"
    for rank, got in enumerate(trace):
        told = f"returned {_text(got)}; the total is {_text(total)}"
        partly = f"{told}. This sum is not complete: receive from everyone before you send the total to anyone"
        own = f"{told}. It returned what it brought, though the other ranks got the total: rank 0 needs the total, too"
        alone = f"returned {_text(got)}: rank 0 has the total, and every other rank has to return it too"
        came = any(event.kind == "recv" and event.rank == rank for event in trace.events)
        never = f"{told}. That is its own value: rank 0 has the total, but rank {rank} never receives it"
        kind = str(got.dtype)[6:] if isinstance(got, torch.Tensor) else ""
        widened = kind not in ("", dtype) and equal(got, total.to(got.dtype))
        silent = ". No rank has sent anything" * (ranks > 1 and not any(trace.messages_sent))
        lost = f"returned {versus(got, 'the total is', total).removeprefix('is ')}. Digits were lost on the way: send "
        lost += f"and sum in the dtype of `value`, {dtype}"
        twice = f"{told}. That is two times what rank {ranks - 1} brought: `total = value` makes no copy, so each "
        twice += "message overwrote the total, and then it was added to itself. Begin with total = value.clone()"
        mistakes = [
            Mistake("own-value", rank == 0 and equal(got, given[0]) and equal(trace[-1], total), own),
            Mistake("own-value", all(map(equal, trace, given)), forgotten),
            Mistake("own-value", rank > 0 and not came and equal(got, given[rank]) and equal(trace[0], total), never),
            Mistake("dtype", widened, f"returned a total that is {kind} and not {dtype}: keep the dtype of `value`"),
            Mistake("digits", rounded(got, total), lost),
            *(Mistake("not-complete", some, partly) for some in partial[:-1]),
            Mistake("aliased", 2 * given[-1], twice),
            Mistake("mean", total / ranks, f"{told}. This is the mean: do not divide by {ranks}"),
            Mistake("not-on-every-rank", got is None and trace[0] is not None, alone),
            Mistake("none", got is None, f"{told}{silent}. Add a return: every rank has to return the total"),
            Mistake("value", True, told + silent),
        ]
        case.same(got, total, f"rank {rank}", *mistakes)
    case.no_builtin(trace)
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
    for dtype in ("float32", "int32", "int64", "float64", "bfloat16"):
        _summed(answer, 3, (4,), dtype, draw=all_digits)
    part("messages")
    for ranks in (3, 6):
        case, got = Case(ranks, see=f"messages({_see_sum(ranks)}, Cluster())"), _messages(_summed(answer, ranks))
        told = f"through rank 0 it takes {{bound}}: {ranks - 1} values to rank 0 and {ranks - 1} totals back"
        case.at_most(len(got), 2 * (ranks - 1), f"it took {{seen}} messages; {told}", "too-many-messages")
        for source, target in got:
            told = f"rank {source} sent a message to rank {target}: in this exercise every message goes to rank 0 or "
            case.expect(0 in (source, target), f"{told}comes from it", "past-rank-0")
    part("bytes")
    for dtype, elements in (("float32", 256), ("bfloat16", 512)):
        case = Case(4, f"with {count(elements, 'element')} of {dtype} each, 1,024 bytes,")
        trace = _summed(answer, 4, (elements,), dtype)
        for word, got in (("sent", trace.bytes_sent[0]), ("received", trace.bytes_received[0])):
            told = f"rank 0 {word} {{seen}} bytes; {{bound}} will do: each message is as large as one value"
            see = f"{_see_sum(4, (elements,), dtype)}.bytes_{word}"
            case.at_most(got, 3 * 1024, told, "too-many-bytes", see)
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


# rank 1 sends to rank 0 meanwhile: a learner sees whose tensor rank 0 took
SEE_THIRD = (
    "from course_lib.lessons.third import swap_beside_a_third; "
    "run(swap_beside_a_third, exchange, ranks=3, on=Cluster())"
)


def _swapped_beside_a_third(answer: Any) -> None:
    """Let ranks 0 and 2 swap while rank 1 sends to rank 0, and refuse who takes that for the peer's."""
    given = different(3, (3,))
    trace = Case(3, see=SEE_THIRD).run(beside_a_third, answer, each(given), each(PEERS[3]), hints=[ISEND])
    got = trace[0][0] if isinstance(trace[0], tuple) else None
    third = Mistake("no-source", given[1], "took rank 1's message for its peer's: name the source, recv(buffer, peer)")
    other = Mistake("value", True, f"returned {_text(got)}; rank 2 had {_text(given[2])}")
    case = Case(3, "of which rank 1 sends to rank 0 while 0 and 2 swap,", see=SEE_THIRD)
    case.same(got, given[2], "rank 0", third, other)


WIDE = {"float32": 2**14, "int64": 2**50, "float64": 2**40, "bfloat16": 2**20}  # a narrower dtype rounds these


def _swapped(
    answer: Any, ranks: int, shape: tuple = (3,), dtype: str = "float32", real: bool = False, digits: bool = False
) -> Results:
    see = f"{_see_exchange(ranks, shape, dtype)}  # where rank r has r"
    wide = WIDE.get(dtype, 1) if digits else 1
    given = [tensor * wide + (wide > 1) for tensor in different(ranks, shape, dtype)]
    case = Case(ranks, f"with {dtype}{list(shape)}", real, see=see)
    hints = [ISEND if ranks == 2 else PARITY, OWN, LIKE]
    trace = case.run(with_peer, answer, each(given), each(PEERS[ranks]), hints=hints)
    for rank, peer in enumerate(PEERS[ranks]):
        if peer is None:
            continue
        pair = trace[rank]
        got, own = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        here, had = f"rank {rank} swaps with rank {peer}", f"{_text(got)}; rank {peer} had {_text(given[peer])}"
        arrived = "return the tensor that arrived"
        differs = versus(got, f"rank {peer} had", given[peer])
        lost = f"and what it returned {differs}. Digits were lost: send {dtype} as it is"
        mistakes = [
            Mistake("none", got is None, f"and returned None: {arrived}"),
            Mistake("own-tensor", given[rank], f"and returned its own tensor, {had}: {arrived}"),
            Mistake("digits", rounded(got, given[peer]), lost),
            Mistake("value", True, f"and returned {had}"),
        ]
        case.same(got, given[peer], here, *mistakes)
        told = f"{here}, and its own tensor is {_text(own)} afterwards; it was {_text(given[rank])}: receive into "
        told += "another tensor, and leave this one as it was"
        case.expect(equal(own, given[rank]), told, "own-tensor-changed")
    case.no_builtin(trace, "send, recv, isend, irecv and batch_isend_irecv")
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
    for dtype in WIDE:
        _swapped(answer, 2, (4,), dtype, digits=True)
    _swapped(answer, 3, (2, 3), "int64", real=True)
    part("bytes")
    for dtype, nbytes in (("float32", 1024), ("uint8", 256)):
        case = Case(2, f"with {dtype}[256]", see=f"{_see_exchange(2, (256,), dtype)}.bytes_sent")
        for rank, sent in enumerate(_swapped(answer, 2, (256,), dtype).bytes_sent):
            told = f"rank {rank} sent {{seen}} bytes; it has {{bound}}: each has to travel once, in its dtype"
            case.at_most(sent, nbytes, told, "too-many-bytes")
    return "any pair on 2 to 5 ranks · only from its peer · any dtype and shape · own tensor unchanged · sent once"
