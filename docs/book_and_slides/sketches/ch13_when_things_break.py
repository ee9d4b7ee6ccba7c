"""Pictures that only the slides of chapter 13 have."""

from __future__ import annotations

from collections.abc import Sequence

from kit import BIG, MONO, PALE, bar, box, frame, line, sheet, span, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import Cluster, costs
from course_lib.costs import LLAMA_3_DAYS, LLAMA_3_GPUS
from course_lib.lessons.failing_run import failing_run
from course_lib.plots import canvas
from course_lib.plots.failures import COLOURS, DAY

WHITE, INK, FAULT, WAITING = "#FFFFFF", canvas.INK, canvas.LIMIT, canvas.WAITING
SENT, RANKS = canvas.COLLECTIVE, canvas.FACES
TRAIN, SAVE, LOST, RESTART = (COLOURS[kind] for kind in ("training", "saving", "lost", "restarting"))
ASKED = {"size": 15, "weight": "bold", "colour": FAULT, "ha": "center"}
READ = {"size": BIG, "weight": "bold"}
INTERRUPTED = 466  # planned ones included: The Llama 3 Herd of Models (2407.21783), section 3.3.4
MTBF = LLAMA_3_DAYS * 24 / sum(costs.LLAMA_3.values())  # hours
REDUCES = 1e3 * costs.collective_seconds("all_reduce", 64, 1000, Cluster().latency, Cluster().bandwidth)  # ms


def _dead(ax: Axes, x: float, y: float, wide: float, high: float, colour: str, told: str) -> None:
    """Draw a box that is crossed out, with its words over the cross."""
    box(ax, x, y, wide, high, colour)
    for low in (y, y + high):
        line(ax, (x, low), (x + wide, 2 * y + high - low), colour=FAULT, wide=3)
    words(ax, x + wide / 2, y + high / 2, told, ha="center",
          bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.5})


def _fails(ax: Axes, *places: tuple[float, float], size: float = 11) -> None:
    ax.plot(*zip(*places, strict=True), "v", color=INK, markersize=size)


def _row(ax: Axes, x: float, y: float, high: float, *parts: tuple) -> float:
    """Draw bars one behind the other, each of a width, a colour and perhaps a text; return where they end."""
    for wide, colour, *told in parts:
        bar(ax, x, y, wide, high, colour, *told, edgecolor="white", linewidth=0.8)
        x += wide
    return x


def all_wait() -> Figure:
    """16,384 GPUs, of which one has stopped and the others wait."""
    ax = sheet(36, 30)
    places = [(0.8 + 0.4 * (four % 64), 4 + 0.4 * (four // 64)) for four in range(LLAMA_3_GPUS // 4)]
    ax.plot(*zip(*places, strict=True), "s", color=WAITING, markersize=2.2, markeredgewidth=0)
    words(ax, 0.6, 1.4, "each square: four GPUs")
    ax.plot(17, 20, "X", color=FAULT, markersize=13)
    canvas.arrow(ax, (27.4, 20), (18.8, 20), line=2, colour=FAULT)
    words(ax, 27.8, 20, "2:10:\none GPU\nstops", colour=FAULT, **READ)
    words(ax, 27.8, 8, f"{LLAMA_3_GPUS - 1:,}\nwait for it", **READ)
    return ax.figure


def interrupted() -> Figure:
    """466 interruptions in 54 days, and how much of the time was useful all the same."""
    ax, day = sheet(65, 28, (6.5, 2.8)), 64 / LLAMA_3_DAYS
    words(ax, 0.5, 26.4, f"{INTERRUPTED} interruptions, spread evenly over {LLAMA_3_DAYS} columns: a column is a day")
    _fails(ax, *[(1.1 + day * (n % LLAMA_3_DAYS), 12 + 1.5 * (n // LLAMA_3_DAYS)) for n in range(INTERRUPTED)], size=5)
    _row(ax, 0.5, 2, 5, (57.6, TRAIN, "more than 90 % useful training"), (6.4, WAITING, "the rest"))
    return ax.figure


def one_each() -> Figure:
    """Four GPUs that each fail once, and the question of how often their job fails."""
    return _failures(asked=True)


def add_up() -> Figure:
    """The same GPUs, and the job that has all four failures."""
    return _failures(asked=False)


def _failures(asked: bool) -> Figure:
    ax = sheet(36, 30)
    span(ax, 7, 35.4, 26.6, "T hours")
    for gpu, place in enumerate((14, 29, 10, 22.4)):
        words(ax, 0.4, 22 - 4 * gpu, f"GPU {gpu}", size=BIG)
        line(ax, (7, 22 - 4 * gpu), (35.4, 22 - 4 * gpu), colour=TRAIN, wide=7)
        if not asked:
            line(ax, (place, 22 - 4 * gpu), (place, 4.4), wide=1, linestyle=":")
        _fails(ax, (place, 22.6 - 4 * gpu), *[(place, 4.4)] * (not asked), size=13)
    words(ax, 0.4, 3.6, "job", **READ)
    line(ax, (7, 3.4), (35.4, 3.4), colour=TRAIN, wide=7, zorder=1)
    words(ax, 21, 6.6 if asked else 0.9, "how often?" if asked else "fails 4 times in T hours", **ASKED | {"size": BIG})
    return ax.figure


def too_often() -> Figure:
    """Nine hours with a save every five minutes, and with a save every twelve hours."""
    ax, hour = sheet(36, 30), 35.2 / 9
    for y, told, minutes in ((19, "a save every 5 minutes", 5), (8, "a save every 12 hours", 720)):
        words(ax, 0.4, y + 8.4, told, **READ)
        for kind, *ends in failing_run(60 * minutes, 3600 * MTBF, 120, 600, 1, DAY).pieces:
            start, end = (min(9, second / 3600) for second in ends)
            bar(ax, 0.4 + hour * start, y, hour * (end - start), 5, COLOURS[kind])
            if kind == "restarting" and start < 9:
                _fails(ax, (0.4 + hour * start, y + 6))
    _legend(ax, (TRAIN, "lasts"), (SAVE, "saves"), (LOST, "is lost"), (RESTART, "restarts"))
    return ax.figure


def _legend(ax: Axes, *kinds: tuple[str, str]) -> None:
    for place, (colour, told) in enumerate(kinds):
        bar(ax, 0.4 + 34.4 / len(kinds) * place, 1, 1.8, 1.8, colour)
        words(ax, 2.6 + 34.4 / len(kinds) * place, 1.9, told)


@steps((1, 2))
def two_costs(step: int) -> Figure:
    """Training with its saves, then a failure and what it costs."""
    ax, x = sheet(65, 26, (6.5, 2.6)), 0.5
    for _ in range(2):
        span(ax, x + 0.2, x + 15.8, 20, r"$\tau$", up=2)
        x = _row(ax, x, 11, 6, (16, TRAIN, "training"), (4, SAVE, "save"))
        words(ax, x - 2, 19, "$C$", ha="center", size=BIG)
    words(ax, 0.5, 6.6, r"one save in $\tau$:", size=BIG)
    words(ax, 0.5, 2.4, r"$\frac{C}{\tau}$ of the time", size=20)
    if step > 1:
        x = _row(ax, x, 11, 6, (8, LOST, "lost"))
        _fails(ax, (x, 18.6), size=14)
        words(ax, x + 1.2, 19.2, "a failure", **READ)
        _row(ax, x, 11, 6, (6.6, RESTART, "restarts"), (9, TRAIN, "training"))
        words(ax, 37, 6.6, r"one failure in $M$, on average $\tau/2$:", size=BIG)
        words(ax, 37, 2.4, r"$\frac{\tau}{2M}$ of the time", size=20)
    return ax.figure


def equal_shares() -> Figure:
    """Two shares with one product, and their sum."""
    return _shares(3.1, (r"$\tau$ is short", 9, 1, "9 + 1 = 10"), ("both are equal", 3, 3, "3 + 3 = 6"),
                   (r"$\tau$ is long", 1, 9, "1 + 9 = 10"))


def half_plus_two() -> Figure:
    """What both pay: you one and one, she a half and two."""
    return _shares(10.6, ("you", 1, 1, "1 + 1 = 2"), ("she", 0.5, 2, "½ + 2 = 2½"))


def _shares(unit: float, *rows: tuple[str, float, float, str]) -> Figure:
    ax, step = sheet(36, 30), 24 / len(rows)
    for place, (name, saves, lost, told) in enumerate(rows):
        words(ax, 0.4, 34.4 - step * (place + 1), f"{name}: {told}", **READ)
        _row(ax, 0.4, 29 - step * (place + 1), 4, (unit * saves, SAVE), (unit * lost, LOST))
    _legend(ax, (SAVE, "saves"), (LOST, "lost training"))
    return ax.figure


def half_as_often() -> Figure:
    """Your saves and hers, and the question of what hers cost."""
    ax = sheet(36, 30)
    for y, name, saves, pays in ((20, r"you: a save every $\tau$", 4, 1), (5, r"she: a save every $2\tau$", 2, "?")):
        words(ax, 0.4, y + 6, name, **READ)
        _row(ax, 0.4, y, 4, *[(35.2 / saves - 1.4, TRAIN), (1.4, SAVE)] * saves)
        words(ax, 0.4, y - 3, f"saves and lost training:  {pays}", weight="bold", colour=FAULT)
    return ax.figure


def killed_write() -> Figure:
    """Two ranks that write over old files, one of which is killed, and the question of what the files hold."""
    return _killed_write(("old: 0.0\n?", "old: 0.0\n?"), (WHITE, WHITE), 1)


def both_gone() -> Figure:
    """The same two files: one holds the new weights, and the other is cut off."""
    return _killed_write(("new: 1.0", "cut off"), RANKS, 0.5)


def _killed_write(told: Sequence[str], colours: Sequence[str], written: float) -> Figure:
    ax = sheet(36, 30)
    for rank, (x, done) in enumerate(((1, "has written\nall of its 1.0"), (19.4, "killed when\nhalf is written"))):
        (_dead if rank else box)(ax, x, 23, 15, 5.6, RANKS[rank], f"rank {rank}")
        canvas.arrow(ax, (x + 2, 22.6), (x + 2, 14.4), line=2.5)
        words(ax, x + 3.6, 18.6, done, weight="bold", colour=FAULT if rank else INK)
        bar(ax, x, 3.6, 15, 10.4, WHITE, edgecolor=INK)
        high = 10.4 * (written if rank else 1)
        bar(ax, x, 14 - high, 15, high, colours[rank], told[rank], edgecolor=INK, ink=INK)
        words(ax, x + 7.5, 1.6, f"shard-{rank}.pt", ha="center", **MONO)
    return ax.figure


@steps((1, 2, 3))
def beside_then_switch(step: int) -> Figure:
    """Old files and a manifest that names them, new files beside them, and the manifest that names the new."""
    ax = sheet(65, 27, (6.5, 2.7))
    for y, name, colours in ((17, "a1", [PALE] * 4), (3.4, "b2", RANKS))[:step]:
        words(ax, 23, y + 8.4, f"save {name}", **READ)
        for rank in range(4):
            box(ax, 23 + 10.6 * rank, y, 9.6, 6, colours[rank], f"shard\n{name}-{rank}")
    bar(ax, 0.5, 10, 13, 7, WHITE, "manifest.pt", edgecolor=INK, linewidth=1.6)
    words(ax, 7, 7.4, "names the\ncheckpoint", ha="center", va="top")
    canvas.arrow(ax, (14, 13.5), (22.4, 20 if step < 3 else 6.4), line=3, colour=canvas.BLUE)
    words(ax, 0.5, 20.6, "one rename, atomic:\nwhole or not at all" if step == 3 else "", colour=canvas.BLUE, **READ)
    return ax.figure


@steps((1, 2, 3))
def forgetful(step: int) -> Figure:
    """Three saves of four parts, each with one part that it forgets."""
    ax = sheet(65, 28, (6.5, 2.8))
    parts = "write the\nshards", "sync: on the\ndisk for sure", "wait for all\nranks", "rename the\nmanifest"
    rows = (20.4, "manifest\nin place", 3), (11, "without\nsync", 1), (1.6, "without\nwaiting", 2)
    for y, name, missing in rows[:step]:
        words(ax, 0.4, y + 2.6, name, **READ)
        for place, part in enumerate(parts):
            wrong = {"edge": FAULT, "line": 2.5, "weight": "bold"} if place == missing else {}
            part = part if not wrong else "writes over\nthe old one" if place == 3 else "missing"
            box(ax, 12 + 13.4 * place, y, 12, 5.4, WHITE if wrong else RANKS[2], part, **wrong)
            if place:
                canvas.arrow(ax, (10.7 + 13.4 * place, y + 2.7), (11.9 + 13.4 * place, y + 2.7))
    return ax.figure


def kills() -> Figure:
    """The operations of the save without sync, and the moments at which it is killed."""
    ax = sheet(36, 30)
    for place, told in enumerate(("write\nshards", "write\nmanifest", "rename", "return")):
        box(ax, 0.4 + 9 * place, 6, 8.4, 5.4, RANKS[2], told)
    _fails(ax, *[(1 + 1.13 * (kill % 31), 13.6 + 2 * (kill // 31)) for kill in range(155)], size=5.5)
    words(ax, 0.4, 26.4, "155 kills: 5 runs, 31 moments in each", weight="bold")
    words(ax, 18, 2.4, "how many lose the checkpoint?", **ASKED)
    return ax.figure


@steps((1, 2))
def holds_the_bytes(step: int) -> Figure:
    """What a kill takes away, and what a power cut takes away."""
    ax = sheet(36, 30)
    rows = (17, "kill -9", 1, "the system writes on", "bytes"), (2.4, "power cut", 2, "renamed, but empty", "nothing")
    for y, name, dead, told, disk in rows[:step]:
        words(ax, 0.4, y + 10.4, name, colour=FAULT, **READ)
        words(ax, 35, y + 10.4, told, weight="bold", ha="right")
        for place, part in enumerate(("process", "operating\nsystem", f"disk:\n{disk}")):
            x, colour = 0.4 + 12.4 * place, RANKS[0] if place < 2 else RANKS[2] if dead == 1 else WHITE
            (_dead if place < dead else box)(ax, x, y, 10, 7.4, colour, part)
            if place and dead == 1:
                canvas.arrow(ax, (x - 2.2, y + 3.7), (x - 0.2, y + 3.7), line=2)
    return ax.figure


def four_to_two() -> Figure:
    """Four files and two ranks that must load them."""
    return _pieces(missing=False, loaded=False)


def shard_missing() -> Figure:
    """The same files, of which one is missing."""
    return _pieces(missing=True, loaded=False)


def twelve_replaced() -> Figure:
    """What has been replaced when the load fails."""
    return _pieces(missing=True, loaded=True)


def _pieces(missing: bool, loaded: bool) -> Figure:
    ax = sheet(36, 30)
    for shard in range(4):
        x, part, gone = 0.4 + 9 * shard, 0.4 + 18 * (shard // 2) + 8 * (shard % 2), missing and shard == 3
        look = {"edgecolor": FAULT, "linestyle": "--"} if gone else {"edgecolor": INK}
        words(ax, x + 4, 18.4, "missing" if gone else f"shard {shard}", ha="center", colour=look["edgecolor"])
        for number in range(4 * shard, 4 * shard + 4):
            own, place = WAITING if number > 14 else WHITE if gone else RANKS[shard], 2 * (number % 4)
            bar(ax, x + place, 20.4, 2, 5, own, "" if gone or number > 14 else str(number), linewidth=0.8, **look)
            bar(ax, part + place, 6, 2, 5, own if loaded or number > 14 else WHITE, edgecolor=INK, linewidth=0.8)
        if not gone:
            canvas.arrow(ax, (x + 4, 17), (part + 4, 11.4), line=2)
        words(ax, part + 8, 4, "" if shard % 2 else f"rank {shard // 2}", ha="center", **READ)
    words(ax, 29.4, 13.2, "still old" if loaded else "", ha="center", weight="bold", colour=FAULT)
    return ax.figure


def agents() -> Figure:
    """Two machines: an agent in each, which starts and watches two workers."""
    ax = _machines(workers=2)
    canvas.arrow(ax, (14.6, 22.8), (21.4, 22.8), "<|-|>", line=2, colour=canvas.BLUE)
    words(ax, 18, 4, "rendezvous of the agents:\nwho gets which rank?", ha="center", colour=canvas.BLUE, **READ)
    return ax.figure


def machine_dies() -> Figure:
    """Two machines with an agent and a worker each, of which one has died, and a log without a name."""
    ax = _machines(workers=1)
    bar(ax, 0.4, 1, 35.2, 5.6, PALE, edgecolor=INK)
    words(ax, 1.6, 3.8, "log: rank (?) failed", size=BIG, **MONO)
    return ax.figure


def _machines(workers: int) -> Axes:
    ax = sheet(36, 30)
    for machine, x in enumerate((0.4, 20.6)):
        frame(ax, x, 8.6, 15, 18.4)
        words(ax, x + 7.5, 28.6, f"machine {machine}", ha="center", weight="bold")
        draw = _dead if machine and workers == 1 else box
        draw(ax, x + 1, 20.4, 13, 4.8, RANKS[5], "agent")
        for rank in range(workers * machine, workers * (machine + 1)):
            left, wide = x + 1 + 6.8 * (rank % workers), 13 if workers == 1 else 6.2
            canvas.arrow(ax, (left + wide / 2, 20.2), (left + wide / 2, 16.8), line=2)
            draw(ax, left, 10.2, wide, 6.4, RANKS[rank], f"worker\nrank {rank}")
    return ax


def one_is_killed() -> Figure:
    """The steps of two ranks, of which one is killed in step 7, and the question of who is new."""
    return _lives(answered=False)


def both_again() -> Figure:
    """The same steps, and both ranks in new processes, which begin with step 6."""
    return _lives(answered=True)


def _lives(answered: bool) -> Figure:
    ax = sheet(36, 30)
    for y, rank, ends in ((19.6, 0, "ended by its agent" if answered else ""), (6.8, 1, "killed in step 7")):
        words(ax, 0.4, y + 7.8, f"rank {rank}", **READ)
        words(ax, 8.4, y + 7.8, ends, weight="bold", colour=FAULT)
        _row(ax, 0.4, y, 5, *[(3, LOST if answered and step == 6 else TRAIN, str(step)) for step in range(7)])
        (_dead if rank or answered else box)(ax, 21.6, y, 3.6, 5, WAITING, "7")
        for save in (6.4, 12.4, 18.4):
            line(ax, (save, y - 0.8), (save, y + 5.8), colour=SAVE, wide=4)
        if answered:
            _row(ax, 28.4, y, 5, (3, TRAIN, "6"), (3, TRAIN, "7"))
        words(ax, 31.4, y + (7.8 if answered else 2.6), "new" if answered else "new\nprocess?", ha="center", **READ)
    _legend(ax, (SAVE, "a save"), *[(LOST, "lost: step 6")] * answered)
    return ax.figure


def nothing_moves() -> Figure:
    """Four ranks that wait in their sixth collective, and nobody knows why."""
    return _hang(range(3, 6), ["6: waits"] * 4, "who called another one?")


def four_messages() -> Figure:
    """Four ranks that all say that they have waited for too long."""
    return _hang(range(3, 6), ["“timed out”"] * 4, "who is to blame?")


def watchdog() -> Figure:
    """Numbered collectives of four ranks, one of which never comes to the last."""
    return _hang((1578, 1579), ["waits in 1580", "never comes", "waits in 1580", "waits in 1580"], "it hangs in 1580")


def recorders() -> Figure:
    """What four recorders hold: one of their last calls differs."""
    return _hang(range(3, 6), ["6: all_reduce"] * 2 + ["6: all_gather", "6: all_reduce"], "rank 2 is the odd one")


def _hang(numbers: Sequence[int], last: Sequence[str], found: str) -> Figure:
    ax = sheet(36, 30)
    for rank, told in enumerate(last):
        y, odd, wide = 24 - 5.6 * rank, last.count(told) == 1, 13 / len(numbers)
        words(ax, 0.4, y + 2, f"rank {rank}", size=BIG)
        x = _row(ax, 7.2, y, 4, *[(wide, SENT, str(number)) for number in numbers])
        bar(ax, x, y, 35.4 - x, 4, WHITE if odd else WAITING, told, edgecolor=FAULT if odd else WHITE, linewidth=2)
    words(ax, 18, 2.4, found, **ASKED)
    return ax.figure


def which_of_64() -> Figure:
    """64 GPUs that look alike, of which one is slow."""
    ax = sheet(36, 30)
    for gpu in range(64):
        bar(ax, 0.4 + 3.2 * (gpu % 8), 4 + 3.2 * (gpu // 8), 2.7, 2.7, RANKS[0], edgecolor=INK, linewidth=0.6)
    words(ax, 31, 17, "which\none?", **ASKED)
    return ax.figure


def in_the_trace() -> Figure:
    """The work of a healthy rank and of the slow one, and the question of their all-reduces."""
    return _two_ranks(answered=False)


def same_end() -> Figure:
    """Both enter the all-reduce when they have worked, and it ends for both at the same moment."""
    return _two_ranks(answered=True)


def _two_ranks(answered: bool) -> Figure:
    ax, end = sheet(36, 30), 0.4 + 0.26 * (120 + REDUCES)
    for y, name, work in ((19, "63 healthy ranks", 100), (6, "the slow rank", 120)):
        x = _row(ax, 0.4, y, 5, (0.26 * work, TRAIN, f"work: {work} ms"))
        bar(ax, x, y, end - x if answered else 3.4, 5, canvas.RECEIVED, "" if answered else "?", edgecolor=SENT)
        told = f"{120 + REDUCES - work:.1f} ms in all_reduce" if answered else "? ms in all_reduce"
        words(ax, 0.4, y + 7, name, **READ)
        words(ax, end - 0.6, y - 2, told, ha="right", weight="bold", colour=SENT)
    if answered:
        line(ax, (end, 1), (end, 29), wide=1.4, linestyle="--")
        words(ax, end - 0.6, 28.6, "ends for all", ha="right", weight="bold")
    return ax.figure


def nobody_gets_up() -> Figure:
    """What happens on that Tuesday, one thing after the other."""
    ax = sheet(65, 24, (6.5, 2.4))
    told = "2:10, a GPU\nstops", "a watchdog\nends the wait", "a spare\nmachine joins", "all load the last\ncheckpoint"
    for place, name in enumerate(told):
        box(ax, 0.4 + 16.4 * place, 11, 14.6, 9, (WHITE, WAITING, *RANKS)[place], name, size=BIG)
        if place:
            canvas.arrow(ax, (16.4 * place - 1.3, 15.5), (16.4 * place + 0.3, 15.5), line=2.5)
    bar(ax, 0.4, 2.4, 63.8, 4.8, TRAIN, "and training goes on: by hand only three times in 54 days", size=BIG)
    return ax.figure
