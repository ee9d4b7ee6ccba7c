"""Checks of chapter 9: every schedule is replayed; makespan, memory and the order of its parts tell them apart."""

from __future__ import annotations

from typing import Any

from course_lib.schedules import Played, ScheduleError, both_ways, comparison, looped, play, zb_h1
from course_lib.schedules.actions import Action, Schedule
from exercises_tests.judging import Case, check, expect
from exercises_tests.seeds import drawn
from exercises_tests.values import count, plain, shown

PRELOAD = ("torch.fx.experimental.symbolic_shapes",)  # answers want it: once, not in every rank
LOOPED = ((4, 8, 2), (2, 4, 3), (3, 6, 2), (2, 2, 2), (4, 4, 1), (1, 3, 2))  # stages, micro-batches, chunks
SPLIT = ((4, 8), (2, 5), (3, 3), (1, 3), (4, 2), (6, 13))  # stages, micro-batches
TWO_WAYS = ((4, 4), (2, 2), (6, 6))
UNITS = ((4, 8), (2, 6))


def _own(exercise: str, *, even: bool = False) -> tuple[int, int]:
    """Return stages, and micro-batches that they divide, which are drawn for the learner."""
    own = drawn(exercise)
    stages = own.choice((2, 4, 6) if even else (3, 5, 6))
    return stages, stages * own.randint(3, 20)


def _sizes(stages: int, microbatches: int, chunks: int | None = None) -> Case:
    words = f"with {count(stages, 'rank')} and {microbatches} micro-batches"
    return Case(words=words if chunks is None else f"{words}, {count(chunks, 'chunk')} a rank,")


def _as_lists(rows: Any) -> Any:
    """Return lists and tuples of tuples, whatever their numbers are, as lists of tuples with Python's own numbers."""
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in rows):
        return rows
    return [[plain(action) for action in row] for row in rows]


def _is_lists(rows: Any) -> bool:
    """Return whether an answer is lists of tuples whose micro-batches and chunks are numbers."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return False
    actions = [action for row in rows for action in row]
    good = (isinstance(action, tuple) and len(action) in (2, 3) for action in actions)
    return all(good) and all(type(number) is int for action in actions for number in action[1:])


def _is_action(action: Any) -> bool:
    """Return whether this is ("F", 0) or ("F", 0, 1), or ("SYNC", None, 1)."""
    if not isinstance(action, tuple) or len(action) not in (2, 3) or not isinstance(action[0], str):
        return False
    micro, chunk = (*action, 0)[1:3]
    return (micro is None if action[0] == "SYNC" else type(micro) is int) and type(chunk) is int


def _played(
    case: Case, rows: Any, microbatches: int, kinds: tuple, place: list, see: str, hint: str = "", **costs: float
) -> Played:
    """Return the replay of an answer's lists, and refuse what is no valid schedule. `hint`: why it may be stuck."""
    lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    some = [action for row in rows if isinstance(row, list) for action in row] if isinstance(rows, list) else []
    library = isinstance(rows, Schedule) or any(isinstance(action, Action) for action in some)
    case.expect(not library, "it returned a schedule of course_lib's: write the lists yourself", "not-yours")
    form = f"it returned {shown(rows)}: return a list with {len(place)} lists, one a rank"
    case.expect(lists and len(rows) == len(place), form, "form")
    most = len(kinds) * (microbatches * len(place[0]) + 2)
    for rank, row in enumerate(rows):
        case.expect(len(row) <= most, f"rank {rank} has {len(row)} actions, more than there can be", "too-many")
        for action in row:
            has = f"rank {rank} has the action {shown(action, 40)}"
            forms = "('F', 0), or ('F', 0, 1)" + (", or ('SYNC', None, 1)" if "SYNC" in kinds else "")
            case.expect(_is_action(action), f"{has}: write {forms}", "form")
            case.expect(action[0] in kinds, f"{has}; the kinds here are {', '.join(kinds)}", "kind")
            only = f"there are only micro-batches 0 to {microbatches - 1}"
            case.expect(action[1] is None or action[1] < microbatches, f"{has}, and {only}", "microbatches")
    try:
        played = play([[tuple(action) for action in row] for row in rows], place=place, **costs)
    except ScheduleError as broken:
        case.refuse(f"{broken}{hint if broken.code == 'deadlock' else ''}", broken.code, see)
    seen = played.schedule.microbatches
    highest = f"the highest micro-batch is {seen - 1}; they are 0 to {microbatches - 1}"
    case.expect(seen == microbatches, highest, "microbatches")
    return played


# interleaved


@check(valid=1, makespan=2, memory=2)
def check_interleaved(answer: Any, part: Any) -> str:
    part("valid")
    replays = {}
    for args in (*LOOPED, (*_own("interleaved"), 2)):
        stages, microbatches, chunks = args
        case, rows = _sizes(*args), _as_lists(answer(*args))
        if _is_lists(rows):
            used = {action[2] if len(action) > 2 else 0 for row in rows for action in row}
            few = f"the chunks used are {sorted(used)}; each rank has {chunks}, 0 to {chunks - 1}, and every "
            few += "micro-batch passes each rank once with each of them"
            case.expect(used == set(range(chunks)), few, "one-chunk" if len(used) == 1 else "chunk")
            _chunks_in_order(rows, case)
        hint, see = _groups_out_of_order(rows, stages, chunks), f"validate(interleaved{args})"
        replays[args] = _played(case, rows, microbatches, ("F", "B"), looped(stages, chunks), see, hint)
    part("makespan")
    for args, played in replays.items():
        stages, microbatches, chunks = args
        why = _groups_out_of_order(played.schedule.actions, stages, chunks)
        long = f"a replay takes {{seen}} s (F 1 s, B 2 s in each chunk); {{bound}} s will do{why}"
        want = 3 * (microbatches * chunks + stages - 1)
        see = f"timelines({{'yours': play(interleaved{args})}})"
        _sizes(*args).at_most(played.seconds, want, long, "too-slow", see)
    part("memory")
    for args, played in replays.items():
        stages, microbatches, chunks = args
        for rank, got in enumerate(played.peak_activations):
            bound = min(_held_after_long_warm_up(rank, stages, chunks), microbatches * chunks)
            why, code = "Its warm-up is too long", "too-much-memory"
            if got == microbatches * chunks:
                why, code = "All forwards run before the first backward", "all-forwards"
            held = f"rank {rank} holds {{seen}} chunks' activations at once; {{bound}} will do. {why}"
            _sizes(*args).at_most(got, bound, held, code, f"play(interleaved{args})")
    stages, _, chunks = LOOPED[0]
    short = replays[LOOPED[0]].peak_activations[0] < _held_after_long_warm_up(0, stages, chunks)
    told = "bubble 1/v of 1F1B's, for 1 to 3 chunks · at most 2(p-1-r) + (v-1)p + 1 activations of a chunk"
    return f"{told}{' · with the short warm-up' if short else ''}"


def _held_after_long_warm_up(rank: int, stages: int, chunks: int) -> int:
    """Return how many chunks' activations a rank holds at most: Megatron-LM's warm-up, and one forward more."""
    return 2 * (stages - 1 - rank) + (chunks - 1) * stages + 1


def _chunks_in_order(rows: list, case: Case) -> None:
    """Refuse backwards that take chunks from first to last: the gradient comes from the last one."""
    for rank, row in enumerate(rows):
        last: dict = {}
        for micro, chunk in ((*action, 0)[1:3] for action in row if action[0] == "B"):
            before = f"rank {rank} runs B({micro}) of chunk {last.get(micro)} before B({micro}) of chunk {chunk}"
            ordered = chunk <= last.get(micro, chunk)
            case.expect(ordered, f"{before}: backwards take chunks from last to first", "chunk-order")
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


# zero_bubble


@check(valid=2, bubble=2, memory=2)
def check_zero_bubble(answer: Any, part: Any) -> str:
    split = (*SPLIT, _own("zero_bubble"))
    wanted = {args: play(zb_h1(*args)) for args in split}
    part("valid")
    replays = {}
    for args in split:
        case, kinds, see = _sizes(*args), ("F", "I", "W", "B"), f"validate(zero_bubble{args})"
        rows = _as_lists(answer(*args))
        used = {action[0] for row in rows for action in row} if _is_lists(rows) else set()
        named = "there are B and W: papers on zero bubbles write B for the input part; here B is the whole backward, "
        case.expect(not used >= {"B", "W"}, f"{named}and the input part is I", "not-split")
        played = replays[args] = _played(case, rows, args[1], kinds, looped(args[0]), see)
        used = {action.kind for row in played.schedule.actions for action in row}
        whole = "there is a B, a whole backward: split every one into I (the input part) and W (the weight part)"
        case.expect("B" not in used, whole, "not-split")
    part("bubble")
    for args, played in replays.items():
        pairs = [pair for row in played.schedule.actions for pair in zip(row, row[1:], strict=False)]
        why = "Some rank waits although a W could run, or a W runs while another rank waits for an I"
        why, code = why + _misplaced_weight(played), "too-slow"
        if {after.kind for action, after in pairs if action.kind == "I"} == {"W"}:
            why = "Every W follows its I at once, so the next I waits for it: let W wait while there is room"
            code = "w-at-once"
        long = f"a replay takes {{seen}} s (F, I and W 1 s each); {{bound}} s will do. {why}"
        see = f"timelines({{'yours': play(zero_bubble{args})}})"
        _sizes(*args).at_most(played.seconds, wanted[args].seconds, long, code, see)
    part("memory")
    for args, played in replays.items():
        for rank, got in enumerate(played.peak_activations):
            held = f"rank {rank} holds {{seen}} micro-batches' activations at once; rank 0 of 1F1B holds {{bound}}, "
            held += "and no rank needs more. A micro-batch's activations stay until its W: let W wait, but not so long"
            held += _misplaced_weight(played)
            _sizes(*args).at_most(got, min(args), held, "too-much-memory", f"play(zero_bubble{args})")
        for rank, row in enumerate(played.schedule.actions):
            order = [action.microbatch for action in row if action.kind == "W"]
            first = next((pair for pair in zip(order, order[1:], strict=False) if pair[0] > pair[1]), None)
            late = f"rank {rank} runs W({(first or [0])[0]}) before W({(first or [0, 0])[1]}), which is open for longer"
            _sizes(*args).expect(first is None, f"{late}: the oldest W that is open comes first", "newest-weight-first")
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
    units = (*UNITS, _own("chimera", even=True))
    replays = {}
    for args in (*TWO_WAYS, *units):
        place = both_ways(args[0])
        see = f"validate(chimera{args}, place=both_ways({args[0]}))"
        rows = _as_lists(answer(*args))
        replays[args] = _played(_sizes(*args), rows, args[1], ("F", "B", "SYNC"), place, see, **costs)
    part("both ways")
    for args, played in replays.items():
        down = sum(action.kind == "F" and action.chunk == 0 for action in played.schedule[0])
        ways = f"{down} of them go down the ranks and {args[1] - down} up: half of them each way"
        _sizes(*args).expect(2 * down == args[1], ways, "one-way")
    idle = {"bubble": "idle time p - 2", "units": "the next unit may begin before the last one has ended"}
    for name, cases in (("bubble", TWO_WAYS), ("units", units)):
        part(name)
        for stages, microbatches in cases:
            got, want = replays[stages, microbatches].seconds, 2 * microbatches + stages - 2
            played = f"play(chimera{stages, microbatches}, 1, 0.5, 0.5, place=both_ways({stages}))"
            long = f"a replay takes {{seen}} s (F and B 1 s each); {{bound}} s will do: {idle[name]}"
            _sizes(stages, microbatches).at_most(got, want, long, "too-slow", f"timelines({{'yours': {played}}})")
    return "half of the micro-batches each way · p-2 idle slots for 2, 4 and 6 ranks · gradients of both copies summed"


# read_the_table


MEANING = {
    "stale": "not synchronous: a backward meets weights that others have changed",
    "fastest": "it is synchronous and has the smallest `bubble` until the last rank is done, not `span_bubble`",
    "fastest_that_fits": "the same, among those with one copy of the weights and no more activations than allowed",
    "zero_only_by_span": "all whose `span_bubble` is zero, and which yet have a `bubble` until the last rank is done",
}


COLUMNS = ("bubble", "span_bubble", "weights", "activations", "synchronous")
MADE_UP = (  # in real tables ZB-V wins, whatever is asked; here each column decides, and each end of the table
    (5, {
        "D": (0.02, 0.0, 1, 2, False), "E": (0.04, 0.04, 2, 3, True), "B": (0.08, 0.01, 1, 6, True),
        "C": (0.11, 0.11, 1, 5, True), "A": (0.12, 0.0, 1, 4, True), "F": (0.3, 0.3, 1, 1, True),
        "A2": (0.2, 0.2, 1, 1, False),
    }),
    (2.5, {
        "G": (0.2, 0.2, 1, 2.5, True), "H": (0.3, 0.0, 1, 1, True), "I": (0.1, 0.1, 1, 3, True),
        "A": (0.25, 0.0, 1, 2, True), "J": (0.0, 0.0, 1, 9, True),
    }),
    (3, {"L": (0.2, 0.2, 1, 2, True), "M": (0.1, 0.0, 1, 4, True)}),
)  # fmt: skip


def _tables() -> list[tuple[Case, float, dict]]:
    """Return real tables and made-up ones, each with the most activations that are asked of it."""
    found = []
    for ranks, microbatches, most in ((4, 8, 4), (4, 12, 20), (3, 5, 3), (2, 8, 2.5)):
        case = Case(words=f"with {ranks} ranks, {microbatches} micro-batches and at most {most} activations,")
        found.append((case, most, comparison(ranks, microbatches)))
    own = drawn("read_the_table")
    bound, known = MADE_UP[0]
    names, values = own.sample("KLMNOPQRSTUV", len(known)), own.sample(list(known.values()), len(known))
    for most, rows in (*MADE_UP, (bound, dict(zip(names, values, strict=True)))):
        case = Case(words=f"in a made-up table of {', '.join(rows)}, with at most {most} activations,")
        table = {name: dict(zip(COLUMNS, row, strict=True)) | {"cuts": 3} for name, row in rows.items()}
        found.append((case, most, table))
    return found


@check(stale=1, fastest=1, fits=1, by_span=1)
def check_read_the_table(answer: Any, part: Any) -> str:
    cases = []
    for case, most, table in _tables():
        for place, row in enumerate(table.values()):  # what a replay with other costs gives for no idle time
            row |= {name: (2e-16, -2e-16)[place % 2] for name in ("bubble", "span_bubble") if abs(row[name]) < 1e-9}
        cases.append((case, most, table, _wanted(table, most)))
    answers = [answer({name: dict(row) for name, row in table.items()}, most) for _, most, table, _ in cases]
    for got in answers:
        form = f"it returned {shown(got, 80)}: return a dict with {', '.join(MEANING)}"
        expect(isinstance(got, dict) and set(got) == set(MEANING), form, "form")
    for label, name in zip(("stale", "fastest", "fits", "by span"), MEANING, strict=True):
        part(label)
        for (case, most, table, wanted), found in zip(cases, answers, strict=True):
            got, want = found[name], wanted[name]
            if name in ("stale", "zero_only_by_span"):
                names_only = isinstance(got, (list, tuple)) and all(isinstance(entry, str) for entry in got)
                good, text = names_only and list(got) == want, want
                turned = names_only and not good and sorted(got) == sorted(want)
                order = f"{name} has the right names, {shown(got, 80)}; they come in the order of the table, {want}"
                case.expect(not turned, order, "order")
            else:
                good, text = isinstance(got, str) and got in want, " or ".join(want)
            why = f"{MEANING[name]}{_near_miss(name, got, want, table, most)}"
            right = "" if name == "zero_only_by_span" else f"{text}, "  # there the reason is enough to find it
            case.expect(good, f"{name} is {right}not {shown(got, 80)}: {why}", name)
    return "which train with stale weights, which is fastest, which of those that fit, and which are only called zero"


def _near_miss(name: str, got: Any, want: list, table: dict, most: float) -> str:
    """Return what some slips look like: zero to the last bit, a column or a bound that was not looked at."""
    if name == "zero_only_by_span":
        return _not_zero_by_span(got, want, table)
    row = table.get(got) if isinstance(got, str) else None
    if name == "fastest_that_fits" and row:
        if row["activations"] > most:
            return f". {got} holds {row['activations']:g} activations"
        if row["weights"] > 1:
            return f". {got} has {row['weights']:g} copies of the weights"
    if name == "fastest_that_fits" and any(table[one]["activations"] == most for one in want):
        return f'. "At most {most}" includes {most}: `<=`'
    return ""


def _not_zero_by_span(got: Any, want: list, table: dict) -> str:
    """Return what is wrong with the first name that is too much, or what the first name that is missing is like."""
    if not isinstance(got, (list, tuple)) or not all(isinstance(one, str) for one in got):
        return ". Return a list of names"
    if list(got) == [one for one in want if table[one]["synchronous"]] != want:
        return ". Those that are not synchronous count, too"
    for one in got:
        if one not in table:
            return f". {shown(one)} is no name of the table"
        if one not in want and table[one]["span_bubble"] > 1e-9:
            return f". {one} has idle time in its own span, {table[one]['span_bubble']:.1%}"
        if one not in want:
            small = f"its `bubble` is {table[one]['bubble']:g}, and what is below 1e-9 counts as zero"
            return f". {one} has no bubble at all: {small}"
    missing = [table[one] for one in want if one not in got]
    if not missing:
        return ". Each name comes once"
    row = f"`span_bubble` {missing[0]['span_bubble']:g} and `bubble` {missing[0]['bubble']:.3f}"
    return f". {count(len(missing), 'name')} missing, the first with {row}; what is below 1e-9 counts as zero"


def _wanted(table: dict, most: float) -> dict[str, list]:
    """Return the names that are right; of those with equal bubbles each is."""
    waiting = {name: row for name, row in table.items() if row["synchronous"]}
    fits = {name: row for name, row in waiting.items() if row["weights"] == 1 and row["activations"] <= most}
    found = {"stale": [name for name in table if name not in waiting]}
    for key, rows in (("fastest", waiting), ("fastest_that_fits", fits)):
        least = min(row["bubble"] for row in rows.values())
        found[key] = [name for name, row in rows.items() if row["bubble"] <= least + 1e-9]
    found["zero_only_by_span"] = [
        name for name, row in table.items() if abs(row["span_bubble"]) < 1e-9 and row["bubble"] > 1e-9
    ]
    return found
