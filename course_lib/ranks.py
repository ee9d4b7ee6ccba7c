"""Run a function on N ranks, real or simulated, from a notebook cell or a script."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from course_lib.engine import current, packing, runs
from course_lib.engine.meter import FLOPS
from course_lib.engine.processes import launcher
from course_lib.results import Misfit, Results, in_a_sentence, short


def run(
    fn: Callable, *args: Any, ranks: int | None = None, on: Any = None, timeout: float = 60, debug: bool = False,
    **unknown: Any,
) -> Results:  # fmt: skip
    """Call `fn(dist, *args)` on every rank and return what each returned, in rank order.

    `on=None` starts real processes that talk through gloo; `on="nccl"` gives each its own GPU; `on=Cluster(...)`
    simulates them with a virtual clock. Under torchrun the ranks are those that torchrun started. `ranks` is 4 unless
    given. Every rank gets its own copy of `fn`, of the globals that it uses, and of `args`.

    Raises RankFailed (Deadlock in the simulator) with the learner's own lines when a rank raises, dies, or has not
    returned after `timeout` seconds; ValueError or TypeError when the call itself makes no sense. Whatever happens,
    no process is left behind.

    `debug=True` names both sides of messages and collectives that do not fit each other on real ranks. Without it gloo
    fills a buffer of another dtype, or the beginning of a longer one, and says nothing; or it hangs, or ends the rank.
    """
    with in_a_sentence():
        _check_call(fn, ranks, on, timeout)
        under_torchrun = on in (None, "nccl") and "RANK" in os.environ and "MASTER_ADDR" in os.environ
        _check_each(args, int(os.environ["WORLD_SIZE"]) if under_torchrun else 4 if ranks is None else ranks)
        _check_arguments(fn, args, ranks, unknown)
        if under_torchrun:
            from course_lib.engine.processes import torchrun

            args = tuple(_for_rank(argument, int(os.environ["RANK"])) for argument in args)
            return torchrun.run(fn, args, ranks, on, timeout, debug)
        ranks = 4 if ranks is None else ranks
        if on in (None, "nccl"):
            return runs.real(_calls(fn, args, ranks), ranks, on, timeout, debug)
        return runs.simulated(_calls(fn, args, ranks), ranks, on, timeout)


class each:  # noqa: N801 - reads as a word: run(fn, each(tensors))
    """An argument of `run` that differs from rank to rank: rank r gets `values[r]`, and nothing of the others'."""

    def __init__(self, values: Sequence) -> None:
        with in_a_sentence():
            if not isinstance(values, Iterable):
                raise TypeError(f"each({short(values)}): give one value for each rank, as in each([1, 2, 3, 4])")
            self.values = list(values)


def _check_each(args: tuple, ranks: int) -> None:
    for argument in args:
        if isinstance(argument, each) and len(argument.values) != ranks:
            raise ValueError(f"each(...) holds {len(argument.values)} values for ranks={ranks}: it needs one for each")


def _for_rank(argument: Any, rank: int) -> Any:
    return argument.values[rank] if isinstance(argument, each) else argument


def _calls(fn: Callable, args: tuple, ranks: int) -> list[bytes]:
    """Return the packed call of each rank; a single one where all are the same."""
    if not any(isinstance(argument, each) for argument in args):
        return [packing.pack_call(fn, args)]
    return [
        packing.pack_call(fn, tuple(_for_rank(argument, rank) for argument in args)) for rank in range(ranks)
    ]


def work(seconds: float | None = None, *, flops: float | None = None) -> None:
    """Spend time as if computing: virtual time on a simulated rank, sleep on a real one.

    Give seconds, or floating-point operations for a device of 1e12 FLOP/s (a Cluster can set its own `flops`).
    """
    if (seconds is None) == (flops is None):
        raise ValueError("work takes either seconds or flops=..., one of them")
    spent, rank = current.seconds_of(seconds, flops, FLOPS), current.rank()
    if rank is not None:
        rank.work(seconds, flops)
    else:
        time.sleep(spent)


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """Let the simulated runs under `with` share one process, one after the other, which is several times as fast.

    Each has its own copies and fresh random numbers. One that fails is run once more in a new process, and after one
    that leaves something behind (a thread, a changed setting of torch, ...) the next one gets a new process. Checks
    run under it; use it where a cell runs dozens of simulations.
    """
    with launcher.LAUNCHER.sharing():
        yield


def _check_call(fn: Any, ranks: Any, on: Any, timeout: Any) -> None:
    if not callable(fn):
        raise TypeError(f"run takes a function first, not {fn!r}: run(my_function, ranks=4)")
    if "COURSE_RANK" in os.environ:
        raise RuntimeError(f"run() was called inside rank {os.environ['COURSE_RANK']}; call it from the notebook")
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise ValueError(f"ranks={ranks!r}: the number of ranks is a whole number from 1 on")
    if isinstance(on, type):
        raise ValueError(f"on={on.__name__} is a class: write on={on.__name__}(), with parentheses")
    if isinstance(on, str) and on != "nccl" or on is not None and not isinstance(on, str) and not hasattr(on, "link"):
        raise ValueError(f"on={on!r}: use None for real processes with gloo, 'nccl' for GPUs, or a Cluster(...)")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e7:
        raise ValueError(f"timeout={timeout!r}: give the seconds after which a run counts as hung, such as 60")


def _check_arguments(fn: Callable, args: tuple, ranks: int | None, unknown: dict[str, Any]) -> None:
    """Refuse names that `run` does not know, and arguments that `fn` does not take, before anything starts."""
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):  # a function in C need not say what it takes
        signature = inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    name = getattr(fn, "__name__", "fn")
    for word, value in unknown.items():
        near = difflib.get_close_matches(word, ("ranks", "on", "timeout", "debug"), 1, 0.7)
        if word not in signature.parameters and not near and type(value) is int:
            near = ["ranks"]  # world_size, nprocs, n
        hint = f"did you mean {near[0]}={short(value)}?" if near else f"what {name} takes follows it, without names"
        raise TypeError(f"run takes ranks=, on=, timeout= and debug=, but not {word}=: {hint}")
    try:
        signature.bind(None, *args)
    except TypeError as error:
        hint = ""
        if args and type(args[-1]) is int and ranks is None and _takes(signature, len(args)):
            hint = f"; did you mean ranks={args[-1]}?"
        call = ", ".join(["dist", *(text if len(text := short(value)) < 30 else "..." for value in args)])
        raise Misfit(
            f"run calls fn(dist, *args), here {name}({call}), but {name} takes {signature}: {error}{hint}",
            None,
            "TypeError",
            str(error),
        ) from None


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
