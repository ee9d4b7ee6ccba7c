"""Checks of chapter 9: every schedule is replayed; makespan, memory and the order of its parts tell them apart."""

from __future__ import annotations

from typing import Any

from course_lib.schedules import Played, ScheduleError, both_ways, comparison, looped, play, zb_h1
from course_lib.schedules.actions import Action, Schedule
from exercises_tests.judging import check, expect

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
LOOPED = ((4, 8, 2), (2, 4, 3), (3, 6, 2), (2, 2, 2), (4, 4, 1), (1, 3, 2))  # stages, micro-batches, chunks
SPLIT = ((4, 8), (2, 5), (3, 3), (1, 3), (4, 2), (6, 13))  # stages, micro-batches
TWO_WAYS = ((4, 4), (2, 2), (6, 6))
UNITS = ((4, 8), (2, 6))


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def _sizes(stages: int, microbatches: int, chunks: int | None = None) -> str:
    text = f"with {stages} {'rank' if stages == 1 else 'ranks'} and {microbatches} micro-batches"
    return text if chunks is None else f"{text}, {chunks} {'chunk' if chunks == 1 else 'chunks'} a rank,"


def _played(
    name: str, answer: Any, args: tuple, kinds: tuple, place: list, case: str, see: str = "", hint: str = "",
    **costs: float,
) -> Played:  # fmt: skip
    """Return the replay of an answer's lists, and refuse what is no valid schedule. `hint`: why it may be stuck."""
    rows = answer(*args)
    library = isinstance(rows, Schedule) or isinstance(rows, list) and any(
        isinstance(action, Action) for row in rows if isinstance(row, list) for action in row
    )  # fmt: skip
    expect(not library, f"{case} it returned a schedule of course_lib's: write the lists yourself", "not-yours")
    expect(
        isinstance(rows, list) and len(rows) == len(place) and all(isinstance(row, list) for row in rows),
        f"{case} it returned {_shown(rows)}: return a list with {len(place)} lists, one a rank",
        "form",
    )
    most = len(kinds) * (args[1] * len(place[0]) + 2)
    for rank, row in enumerate(rows):
        expect(len(row) <= most, f"{case} rank {rank} has {len(row)} actions, more than there can be", "too-many")
        for action in row:
            good = isinstance(action, tuple) and len(action) in (2, 3) and isinstance(action[0], str)
            expect(good, f"{case} rank {rank} has the action {_shown(action, 40)}: write ('F', 0), or "
                         "('F', 0, 1)", "form")
            expect(
                action[0] in kinds,
                f"{case} rank {rank} has the action {_shown(action, 40)}; the kinds here are {', '.join(kinds)}"
                + (": B is the whole backward, split it into I and W" if action[0] == "B" else ""),
                "not-split" if action[0] == "B" else "kind",
            )
    try:
        return play([[tuple(action) for action in row] for row in rows], place=place, **costs)
    except ScheduleError as broken:
        why = hint if broken.code == "deadlock" else ""
        expect(False, f"{case} {broken}{why}", broken.code, see or f"validate({name}{args})")


def _complete(played: Played, microbatches: int, case: str) -> None:
    seen = played.schedule.microbatches
    expect(
        seen == microbatches,
        f"{case} the highest micro-batch is {seen - 1}; they are 0 to {microbatches - 1}",
        "microbatches",
    )


# interleaved


@check(valid=1, makespan=2, memory=2)
def check_interleaved(answer: Any, part: Any) -> str:
    part("valid")
    replays = {}
    for args in LOOPED:
        stages, microbatches, chunks = args
        case = _sizes(*args)
        rows = answer(*args)
        used = {action[2] if len(action) > 2 else 0 for row in rows for action in row} if _is_lists(rows) else {0}
        expect(
            used == set(range(chunks)) or not _is_lists(rows),
            f"{case} the chunks used are {sorted(used, key=repr)}; each rank has {chunks}, 0 to {chunks - 1}, "
            "and every "
            "micro-batch passes each rank once with each of them",
            "one-chunk" if len(used) == 1 else "chunk",
        )
        place = looped(stages, chunks)
        _chunks_in_order(rows, case)
        hint = _groups_out_of_order(rows, stages, chunks)
        replays[args] = _played("interleaved", lambda *_, rows=rows: rows, args, ("F", "B"), place, case, hint=hint)
        _complete(replays[args], microbatches, case)
    part("makespan")
    for args, played in replays.items():
        stages, microbatches, chunks = args
        want = 3 * (microbatches * chunks + stages - 1)
        expect(
            played.seconds <= want,
            f"{_sizes(*args)} a replay takes {played.seconds:g} s (F 1 s, B 2 s in each chunk); {want} s will do"
            + _groups_out_of_order(played.schedule.actions, stages, chunks),
            "too-slow", f"timeline(play(interleaved{args}))",
        )  # fmt: skip
    part("memory")
    for args, played in replays.items():
        stages, microbatches, chunks = args
        for rank, got in enumerate(played.peak_activations):
            bound = min(2 * (stages - 1 - rank) + (chunks - 1) * stages + 1, microbatches * chunks)
            all_of_them = got == microbatches * chunks > bound
            expect(
                got <= bound,
                f"{_sizes(*args)} rank {rank} holds {got} chunks' activations at once; {bound} will do. "
                + ("All forwards run before the first backward" if all_of_them else "Its warm-up is too long"),
                "all-forwards" if all_of_them else "too-much-memory", f"play(interleaved{args})",
            )  # fmt: skip
    return "(p-1)/v of a bubble's rounds for 1 to 3 chunks · at most 2(p-1-r) + (v-1)p + 1 activations of a chunk"


def _chunks_in_order(rows: Any, case: str) -> None:
    """Refuse backwards that take chunks from first to last: the gradient comes from the last one."""
    for rank, row in enumerate(rows if _is_lists(rows) else []):
        last: dict = {}
        for action in row:
            kind, micro, chunk = (*action, 0)[:3]
            if kind != "B":
                continue
            expect(
                chunk <= last.get(micro, chunk),
                f"{case} rank {rank} runs B({micro}) of chunk {last.get(micro)} before B({micro}) of chunk {chunk}: "
                "backwards take chunks from last to first",
                "chunk-order",
            )
            last[micro] = chunk


def _groups_out_of_order(rows: Any, stages: int, chunks: int) -> str:
    """Return what is wrong with the order of the forwards, if it is: a group goes through one chunk, then the next."""
    for rank, row in enumerate(rows if _is_lists(rows) else []):
        group = [action[1] for action in row if action[0] == "F"][:stages]
        if chunks > 1 and stages > 1 and len(set(group)) < stages:
            return (
                f". Rank {rank} sends micro-batch {group[0]} through another chunk before micro-batch {stages - 1} has "
                f"been through the first: a group of {stages} micro-batches goes through chunk 0, then through chunk 1"
            )
    return ""


def _is_lists(rows: Any) -> bool:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return False
    return all(
        isinstance(action, tuple) and len(action) in (2, 3) and all(type(number) is int for number in action[1:])
        for row in rows for action in row
    )  # fmt: skip


# zero_bubble


@check(valid=2, bubble=2, memory=2)
def check_zero_bubble(answer: Any, part: Any) -> str:
    wanted = {args: play(zb_h1(*args)) for args in SPLIT}
    part("valid")
    replays = {}
    for args in SPLIT:
        case = _sizes(*args)
        replays[args] = _played("zero_bubble", answer, args, ("F", "I", "W", "B"), looped(args[0]), case)
        _complete(replays[args], args[1], case)
        kinds = {action.kind for row in replays[args].schedule.actions for action in row}
        expect(
            "B" not in kinds,
            f"{case} there is a B, a whole backward: split every one into I (the input part) and W (the weight part)",
            "not-split",
        )
    part("bubble")
    for args, played in replays.items():
        want = wanted[args].seconds
        pairs = [pair for row in played.schedule.actions for pair in zip(row, row[1:], strict=False)]
        following = [after.kind for action, after in pairs if action.kind == "I"]
        at_once = set(following) == {"W"}
        expect(
            played.seconds <= want,
            f"{_sizes(*args)} a replay takes {played.seconds:g} s (F, I and W 1 s each); {want:g} s will do. "
            + ("Every W follows its I at once, so nothing has changed but the name: let W wait, it fills a gap later"
               if at_once else "Some rank waits although a W could run, or a W runs while another rank waits for an I")
            + ("" if at_once else _misplaced_weight(played)),
            "w-at-once" if at_once else "too-slow", f"timeline(play(zero_bubble{args}))",
        )  # fmt: skip
    part("memory")
    for args, played in replays.items():
        stages, microbatches = args
        bound = min(stages, microbatches)
        for rank, got in enumerate(played.peak_activations):
            expect(
                got <= bound,
                f"{_sizes(*args)} rank {rank} holds {got} micro-batches' activations at once; rank 0 of 1F1B "
                f"holds {bound}, "
                "and no rank needs more. A micro-batch's activations stay until its W: let W wait, but not so long"
                + _misplaced_weight(played),
                "too-much-memory", f"play(zero_bubble{args})",
            )  # fmt: skip
    return "a third of 1F1B's bubble where F = I = W · at most p activations on every rank · for 1 to 6 ranks"


def _misplaced_weight(played: Played) -> str:
    """Return the first I that should be followed by a W and is not, or the first W that comes before a rank is full."""
    stages = len(played)
    for rank, row in enumerate(played.schedule.actions):
        held, full = 0, False
        for place, action in enumerate(row):
            held += action.kind == "F"
            full = full or held >= stages
            after = row[place + 1] if place + 1 < len(row) else None
            if action.kind == "I" and full and (after is None or after.kind != "W"):
                return (
                    f". After I({action.microbatch}) of rank {rank} a W is missing: it has held {stages} "
                    "micro-batches, so from then on every I is followed by one W"
                )
            if action.kind == "W" and not full and any(later.kind != "W" for later in row[place:]):
                return (
                    f". Rank {rank} runs W({action.microbatch}) when it has not yet held {stages} micro-batches: the "
                    "first W comes then, or when only Ws are left"
                )
            held -= action.kind == "W"
    return ""


# chimera


@check(valid=2, both_ways=1, bubble=2, units=1)
def check_chimera(answer: Any, part: Any) -> str:
    costs = {"forward": 1, "backward": 0.5, "weight": 0.5}  # a whole backward takes as long as a forward
    part("valid")
    replays = {}
    for args in TWO_WAYS + UNITS:
        case = _sizes(*args)
        see = f"validate(chimera{args}, place=both_ways({args[0]}))"
        replays[args] = _played("chimera", answer, args, ("F", "B", "SYNC"), both_ways(args[0]), case, see, **costs)
        _complete(replays[args], args[1], case)
    part("both ways")
    for args, played in replays.items():
        down = sum(action.kind == "F" and action.chunk == 0 for action in played.schedule[0])
        expect(
            2 * down == args[1],
            f"{_sizes(*args)} {down} of them go down the ranks and {args[1] - down} up: half of them each way",
            "one-way",
        )
    for name, cases in (("bubble", TWO_WAYS), ("units", UNITS)):
        part(name)
        for args in cases:
            stages, microbatches = args
            got, want = replays[args].seconds, 2 * microbatches + stages - 2
            expect(
                got <= want,
                f"{_sizes(*args)} a replay takes {got:g} s (F and B 1 s each); {want} s will do: "
                + ("the next unit may begin before the last one has ended" if name == "units" else "idle time p - 2"),
                "too-slow", f"timeline(play(chimera{args}, 1, 0.5, 0.5, place=both_ways({stages})))",
            )  # fmt: skip
    return "half of the micro-batches each way · p-2 idle slots for 2, 4 and 6 ranks · gradients of both copies summed"


# read_the_table


@check(stale=1, fastest=1, fits=1, by_span=1)
def check_read_the_table(answer: Any, part: Any) -> str:
    cases = []
    for ranks, microbatches, most in ((4, 8, 4), (4, 12, 20), (3, 5, 3), (2, 8, 2.5)):
        table = comparison(ranks, microbatches)
        for place, row in enumerate(table.values()):  # what a replay with other costs gives for no idle time
            row |= {name: (2e-16, -2e-16)[place % 2] for name in ("bubble", "span_bubble") if abs(row[name]) < 1e-9}
        cases.append((ranks, microbatches, most, table))
    wanted = [_wanted(table, most) for _, _, most, table in cases]
    answers = [answer({name: dict(row) for name, row in table.items()}, most) for _, _, most, table in cases]
    names = ("stale", "fastest", "fastest_that_fits", "zero_only_by_span")
    for got in answers:
        expect(
            isinstance(got, dict) and set(got) == set(names),
            f"it returned {_shown(got, 80)}: return a dict with {', '.join(names)}",
            "form",
        )
    words = {
        "stale": "not synchronous: a backward meets weights that others have changed",
        "fastest": "synchronous, with the smallest bubble until the last rank is done, not of its own span",
        "fastest_that_fits": "the same, among those with one copy of the weights and no more activations than allowed",
        "zero_only_by_span": "without idle time in any rank's own span, and yet with a bubble until the last rank "
                             "is done",
    }
    for label, name in zip(("stale", "fastest", "fits", "by span"), names, strict=True):
        part(label)
        for (ranks, microbatches, most, table), want, found in zip(cases, wanted, answers, strict=True):
            got = found[name]
            if name in ("stale", "zero_only_by_span"):
                names_only = isinstance(got, list) and all(isinstance(entry, str) for entry in got)
                good, text = names_only and sorted(got) == want[name], want[name]
            else:
                good, text = isinstance(got, str) and got in want[name], " or ".join(want[name])
            expect(
                good,
                f"with {ranks} ranks, {microbatches} micro-batches and at most {most} activations, {name} is "
                f"{text}, not "
                f"{_shown(got, 80)}: {words[name]}" + _near_miss(name, got, want[name], table, most),
                name,
            )
    return "which train with stale weights, which is fastest, which of those that fit, and which are only called zero"


def _near_miss(name: str, got: Any, want: list, table: dict, most: float) -> str:
    """Return what two slips look like: comparing with zero to the last bit, and taking "at most" for "less than"."""
    if name == "zero_only_by_span" and isinstance(got, list):
        return ". Idle times are computed in floating point: take what is below 1e-9 for zero"
    if name == "fastest_that_fits" and any(table[one]["activations"] == most for one in want):
        return f'. "At most {most}" includes {most}: `<=`'
    return ""


def _wanted(table: dict, most: float) -> dict[str, list]:
    """Return the names that are right; of those with equal bubbles each is."""
    waiting = {name: row for name, row in table.items() if row["synchronous"]}
    fits = {name: row for name, row in waiting.items() if row["weights"] == 1 and row["activations"] <= most}
    found = {"stale": sorted(set(table) - set(waiting))}
    for key, rows in (("fastest", waiting), ("fastest_that_fits", fits)):
        least = min(row["bubble"] for row in rows.values())
        found[key] = [name for name, row in rows.items() if row["bubble"] <= least + 1e-9]
    found["zero_only_by_span"] = sorted(
        name for name, row in table.items() if abs(row["span_bubble"]) < 1e-9 and row["bubble"] > 1e-9
    )
    return found
