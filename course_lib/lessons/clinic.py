"""The clinic of chapter 2: five faulty snippets and a sound one, what each is given, and what happens when one runs."""

from __future__ import annotations

from typing import Any

from course_lib import Cluster, Deadlock, RankFailed, each, run
from course_lib.lessons.sample_data import different, equal, numbers

FAULTS = {
    "sum_both": "every rank calls the same collectives in the same order",
    "sum_for_rank_0": "every rank calls a collective, also one that does not need the result",
    "swap_with_neighbour": "two blocking sends that face each other wait forever: isend, recv, then wait()",
    "sum_in_node": "use the group of this rank's own node, not the last one made",
    "pass_right": "keep the handle that isend returns and wait() for it",
}
SOUND = ("sum_both_at_once",)
REAL = {  # where the simulator is stricter than torch: what it says, what happens with torch, and how
    "sum_in_node": (
        "is not in this group", "wrong numbers", "it warns and goes on, and some ranks keep their own numbers",
    ),
    "pass_right": ("without wait() on isend", "deadlock", "with gloo some receiver may wait until its timeout"),
}  # fmt: skip
OUTCOMES = ("wrong numbers", "deadlock", "error", "right")


def diagnose(snippet: Any, guess: str | None = None, ranks: int = 4) -> None:
    """Run a snippet of the clinic on simulated ranks and print the guess beside what happened.

    It happens one of: "right", "wrong numbers", "deadlock", "error". Where the simulator is stricter than torch, what
    torch does is told, and a guess of either counts. The number of ranks is even.
    """
    name = getattr(snippet, "__name__", "")
    if name not in FAULTS and name not in SOUND:
        print(f"diagnose takes a snippet of the clinic ({', '.join((*FAULTS, *SOUND))}), not {snippet!r}")
        return
    if ranks < 2 or ranks % 2:
        print(f"ranks={ranks}: two ranks make a pair or a node here, so give an even number")
        return
    given, want = patient(name, ranks)
    try:
        got = list(run(_called_with, snippet, each(given), ranks=ranks, on=Cluster()))
    except RankFailed as failure:
        seen = "deadlock" if isinstance(failure, Deadlock) else "error"
        lines = [str(failure)]
    else:
        seen = "right" if equal(got, want) else "wrong numbers"
        told = [[numbers(one, digits=6) for one in pair] for pair in zip(got, want, strict=True)]
        lines = [f"rank {rank} returned {mine}; right is {right}" for rank, (mine, right) in enumerate(told)]
        if seen == "right":
            lines = [f"all {ranks} ranks returned what is right; rank 0: {told[0][0]}"]
    sign, real, how = REAL.get(name, ("", "", ""))
    stricter = seen == "error" and bool(sign) and sign in lines[0]
    print(_guessed(guess, seen, real if stricter else ""))
    if stricter:
        print(f"real torch: {real}; {how}. The simulator stops:")
    print("\n".join(lines))


def patient(name: str, ranks: int, more: float = 0.0) -> tuple[list, list]:
    """Return what each rank passes to a snippet, and what a right one returns there; `more` is added to all numbers."""
    mine = [tensor + more for tensor in different(ranks, (3,))]
    total = sum(mine)
    if name in ("sum_both", *SOUND):
        other = [tensor + 100 for tensor in mine]
        return list(zip(mine, other, strict=True)), [(total, sum(other))] * ranks
    want = {
        "sum_for_rank_0": [total] + [None] * (ranks - 1),
        "swap_with_neighbour": [mine[rank ^ 1] for rank in range(ranks)],
        "sum_in_node": [mine[rank // 2 * 2] + mine[rank // 2 * 2 + 1] for rank in range(ranks)],
        "pass_right": [mine[rank - 1] for rank in range(ranks)],
    }
    return [(tensor,) for tensor in mine], want[name]


def _called_with(dist: Any, answer: Any, arguments: tuple) -> Any:
    return answer(dist, *arguments)


def _guessed(guess: Any, seen: str, real: str) -> str:
    """Return the guess beside what happened, which with real torch may be something else than on the simulator."""
    if guess is not None and guess in (seen, real):
        return f"guess: {guess} - as you said"
    seen = f"{real} with real torch, {seen} on the simulator" if real else seen
    if guess is None:
        return f"no guess   happened: {seen}"
    if guess in OUTCOMES:
        return f"guess: {guess}   happened: {seen}"
    return f"guess: {guess!r} is not one of the four: {', '.join(OUTCOMES)}   happened: {seen}"
