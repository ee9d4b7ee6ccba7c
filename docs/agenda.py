"""Writes docs/agendas.md, from half a day to a semester, by the minutes of the timetable: python docs/agenda.py"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from textwrap import fill

from timetable import CATCHING_UP, block

from exercises_tests.tools.chapters import ROOT, Chapter, chapters
from exercises_tests.tools.course_map import needs, number

PAGE = ROOT / "docs" / "agendas.md"
BEGIN, NOON = 9 * 60, 12 * 60 + 15  # minutes of the day; lunch begins as near to NOON as the chapters allow
SITTING, PAUSE, LUNCH, IN_HAND = 50, 10, 60, 10  # minutes
HALF = 13 * 60  # a day that ends before this needs no lunch
LESSON = 90  # minutes; a week of a semester has two


@dataclass(frozen=True)
class Unit:
    """Talk and the core exercise that follows it, which no pause parts; the last talk of a chapter, and catching up."""

    minutes: int
    text: str


@dataclass(frozen=True)
class Workshop:
    """The chapters of each day, what they are together, and core exercises that are borrowed from the beginning."""

    about: str
    days: tuple[tuple[int, ...], ...]
    borrowed: tuple[str, ...] = field(default=())


WORKSHOPS = {
    "Half a day": Workshop("What a rank is, and how the ring sums a gradient.", ((0, 3),)),
    "One day": Workshop(
        "From the first message to data parallelism, and then how a language model is served.",
        ((0, 3, 4, 8),), ("plan_buckets", "all_reduce_bucket", "all_reduce_per_bucket", "decode_lower_bound"),
    ),
    "Two days": Workshop(
        "On the first day training, up to data parallelism. On the second day models that are too large for one GPU, "
        "and serving.", ((0, 1, 3, 4), (5, 7, 8)),
        ("plan_buckets", "all_reduce_bucket", "all_reduce_per_bucket", "decode_lower_bound"),
    ),
    "Five days": Workshop("All chapters.", ((0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11), (12, 13))),
}  # fmt: skip
SHARED = (0, 1)  # chapters that one week takes in a semester of 13 weeks
LEFT_OUT = 9  # and the chapter that a semester of 12 weeks has not
CHUNKS = "In chapter 12 say what it means by chunks:\n  the pieces of the model that one pipeline rank holds."
DROPPED_FIRST = (
    "which_is_the_ring", "clinic", "read_the_table", "diagnose", "balance_bias", "step_seconds", "find_straggler",
    "decode_lower_bound", "training_days", "bubble_fraction", "plan_buckets",  # the chapter's idea stands without these
    "stage_backward", "combine", "load_resharded", "tensor_parallel_attention", "rank_memory", "parameter_count",
    "fill_row", "fully_sharded_step",  # the idea is in an exercise before
)  # fmt: skip

HEAD = """\
# Agendas

For half a day, one day, two days, five days and a semester. [instructor.md](instructor.md) says how a block is taught.
All minutes are estimates; the notes of the slides count the same ones. A group that is new to torch needs a third more:
take the next longer agenda, or drop from the beginning what is named under "When you are late".

- **A row** is one sitting of at most {sitting} minutes. Talk and core exercises take turns in it, as in the notebook
  and on the slides, and each has its minutes.
- **Borrowed** exercises are shown and not written: the last hint of each is the line that borrows its answer.
- **Catch up** is `make catch-up CHAPTER=ch00`, with the number of the chapter, and Run All: {catch_up} minutes.
- **In hand** are minutes without a plan, for questions and for what took longer.
- **When you are late**, drop exercises in the order given. No idea of a chapter is lost, because catching up borrows
  the answers and the chapter runs on. After that, leave the last talk of a chapter to be read at home.

This page is written by `.venv/bin/python docs/agenda.py` from the minutes in the notebooks.
"""


def units(chapter: Chapter, borrowed: tuple[str, ...] = ()) -> list[Unit]:
    """Return a chapter's units; a borrowed exercise takes no time."""
    found, minutes, said = [], 0, []
    for stretch in block(chapter):
        taken = 0 if stretch.exercise in borrowed else stretch.minutes
        minutes += taken
        if stretch.exercise:
            said.append(f"`{stretch.exercise}` {taken or 'borrowed'}")
            found.append(Unit(minutes, ", ".join(said)))
            minutes, said = 0, []
        elif taken:
            said.append(f"{'talk' if found else 'introduction'} {taken}")
    return [*found, Unit(minutes + CATCHING_UP, ", ".join([*said, f"catch up {CATCHING_UP}"]))]


def joined(some: list[Unit]) -> Unit:
    return Unit(sum(one.minutes for one in some), ", ".join(one.text for one in some))


def parted(some: list[Unit], parts: int) -> list[list[Unit]]:
    """Return units in so many groups, in their order, the longest as short as can be, and the others as even."""
    cuts = ([0, *inner, len(some)] for inner in combinations(range(1, len(some)), parts - 1))
    ways = [[some[begin:end] for begin, end in zip(cut, cut[1:], strict=False)] for cut in cuts]
    lengths = [[joined(group).minutes for group in groups] for groups in ways]
    return min(zip(lengths, ways, strict=True), key=lambda way: (max(way[0]), sum(one**2 for one in way[0])))[1]


def sittings(some: list[Unit]) -> list[Unit]:
    """Return units in as few sittings as can be."""
    ways = ([joined(group) for group in parted(some, parts)] for parts in range(1, len(some) + 1))
    return next(way for way in ways if max(one.minutes for one in way) <= SITTING)


def day(wanted: list[Chapter], borrowed: tuple[str, ...] = ()) -> list[tuple[int, str, Unit]]:
    """Return a day's rows, with pauses, lunch and minutes in hand: when each begins, of which chapter, and what."""
    parts = [(title(chapter), one) for chapter in wanted for one in sittings(units(chapter, borrowed))]
    ends = [BEGIN + sum(one.minutes + PAUSE for _, one in parts[:place + 1]) - PAUSE for place in range(len(parts))]
    lunch = min(range(len(parts)), key=lambda place: abs(ends[place] + IN_HAND - NOON))
    rows, now = [], BEGIN
    for place, (of, one) in enumerate(parts):
        rows.append((now, of, one))
        now += one.minutes
        last, eat = place == len(parts) - 1, place == lunch and ends[-1] + IN_HAND > HALF
        if last or eat:
            rows.append((now, "", Unit(IN_HAND, "in hand")))
            now += IN_HAND
        if not last:
            rows.append((now, "", Unit(LUNCH, "lunch") if eat else Unit(PAUSE, "pause")))
            now += rows[-1][2].minutes
    return [*rows, (now, "", Unit(0, "end"))]


def dropped(wanted: list[Chapter], borrowed: tuple[str, ...] = ()) -> str:
    """Return what to drop when late, in its order, with the minutes that it gives."""
    minutes = {part.exercise: part.minutes for chapter in wanted for part in block(chapter) if part.exercise}
    names = [name for name in DROPPED_FIRST if name in minutes and name not in borrowed]
    told = ", ".join(f"`{name}` {minutes[name]}" for name in names)
    gives = sum(minutes[name] for name in names)
    return wrapped(f"**When you are late**, drop in this order: {told}. That gives {gives} minutes.")


def without(wanted: list[Chapter]) -> str:
    """Return a sentence on the chapters that are not taken and that others build on, or nothing."""
    taken = {number(chapter) for chapter in wanted}
    missing = sorted({place for chapter in wanted for place in needs(chapter)} - taken)
    if not missing:
        return ""
    told = " and ".join(filter(None, [", ".join(map(str, missing[:-1])), str(missing[-1])]))
    return (f" These chapters also build on chapter{'s' * (len(missing) > 1)} {told}: before the day, learners read "
            "the opening there and *What we learned*.")  # fmt: skip


def workshop(name: str, plan: Workshop, known: dict[int, Chapter]) -> str:
    """Return the section of a workshop: a table a day, and below it what to drop."""
    days = [[known[place] for place in places if place in known] for places in plan.days]
    parts = [f"## {name}", wrapped(plan.about + without(sum(days, [])))]
    for place, wanted in enumerate(days, 1):
        parts.append(f"### {name}: day {place}" if len(days) > 1 else "")
        lines = ["| time | chapter | what, in minutes | minutes |", "|---|---|---|---|"]
        for now, of, one in day(wanted, plan.borrowed):
            lines.append(f"| {now // 60:02d}:{now % 60:02d} | {of} | {one.text} | {one.minutes or ''} |")
        parts += ["\n".join(lines), dropped(wanted, plan.borrowed)]
    return "\n\n".join(filter(None, parts))


def lesson(some: list[Unit]) -> Unit:
    """Return what a lesson of a semester takes: its sittings with pauses between."""
    parts = sittings(some)
    text = f"; *pause {PAUSE}*; ".join(one.text for one in parts)
    return Unit(sum(one.minutes + PAUSE for one in parts) - PAUSE, text)


def semester(known: dict[int, Chapter]) -> str:
    """Return the section of a semester: a chapter a week, in two lessons."""
    lines = ["| week | chapter | what, in minutes | in hand |", "|---|---|---|---|"]
    for week, chapter in enumerate(known.values(), 1):
        for place, half in enumerate(parted(units(chapter), 2), 1):
            one = lesson(half)
            lines.append(f"| {week}, {'first' if place == 1 else 'second'} | {title(chapter)} | {one.text} | "
                         f"{LESSON - one.minutes} |")  # fmt: skip
    pair = " and ".join(str(place) for place in SHARED)
    return "\n\n".join([
        "## A semester",
        wrapped(f"{len(known)} weeks of two lessons of {LESSON} minutes: a chapter a week, half of it in each lesson. "
                "Begin a first lesson with `class.html` of the week before. What is in hand at the end is for "
                "questions and for the extra exercises, which are also good homework."),
        f"- **{len(known) - 1} weeks**: chapters {pair} share a week, a lesson each.\n"
        f"- **{len(known) - 2} weeks**: leave out chapter {LEFT_OUT}, too. {CHUNKS}\n"
        f"- **A week is lost**: leave out chapter {LEFT_OUT}, if you still have it, or else chapter {max(known)}.",
        "\n".join(lines), dropped(list(known.values())),
    ])  # fmt: skip


def wrapped(text: str) -> str:
    return fill(text, 118, break_on_hyphens=False, break_long_words=False)


def title(chapter: Chapter) -> str:
    return f"{number(chapter)} {chapter.title}"


def page() -> str:
    """Return the whole page."""
    known = {number(chapter): chapter for chapter in chapters()}
    parts = [HEAD.format(sitting=SITTING, catch_up=CATCHING_UP).rstrip()]
    parts += [workshop(name, plan, known) for name, plan in WORKSHOPS.items()]
    return "\n\n".join([*parts, semester(known)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
