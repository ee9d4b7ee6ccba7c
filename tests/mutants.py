"""Changes a chapter's own answers in every way of a fixed list, judges each, and prints those that no check refuses.

    python tests/mutants.py ch03 [--only exercise] [--deep] [--all] [--jobs 2]

Each mutant is judged by its exercise's check in one of a few processes. The simulations of a process share theirs, so
a mutant takes a tenth of a second; one that goes on for much longer than the answer itself is interrupted as by Ctrl-C,
or ends with its process. Those that get full points and are not in equivalent_mutants.toml are printed, and then the
exit code is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import mutations_of_ranks
from mutations import Mutant, mutants
from tqdm import tqdm

from course_lib import Cluster, one_process, run
from exercises_tests.tools.chapters import ROOT, ChapterError, find

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
STARTING = 60.0  # seconds to import torch and to start the fork server, on a busy machine
ANSWERING = 600.0  # seconds for an answer itself
LONGER = 5  # times as long as the answer itself, and as many seconds more: then a mutant counts as endless
MEMORY = 4 << 30  # bytes of a process: a list that grows without end fails before the machine does
FILL = "165"  # glibc fills new memory with bytes of 255 - 165, 1.5e16 in float32: nobody finds a right number there
SURVIVED, UNSUITED, BROKE = "survived", "unsuited", "check broke"


class Verdict(NamedTuple):
    """How a mutant was judged: the code of the mistake, SURVIVED, or BROKE, where the check itself raised."""

    code: str
    sentence: str
    seconds: float


# One process that judges


def answer_of(source: str, exercise: str) -> Any:
    """Return an answer from the text of solutions, in a module that no rank can import: it travels by value."""
    module = ModuleType("mutant")
    vars(module).update({name: getattr(mutations_of_ranks, name) for name in mutations_of_ranks.CALLED})
    exec(compile(source, "<mutant>", "exec"), vars(module))
    return getattr(module, exercise)


def judge(check: Any, mutant: Mutant) -> Verdict:
    """Judge one mutant here."""
    begin = time.monotonic()
    try:
        outcome = check.outcome(answer_of(mutant.source, mutant.exercise))
        full = not outcome.code and outcome.earned == outcome.total
        unsuited = mutations_of_ranks.Unsuited.__name__ in outcome.sentence
        code, sentence = SURVIVED if full else UNSUITED if unsuited else outcome.code, outcome.sentence
    except KeyboardInterrupt:
        code, sentence = "timeout", "went on for too long"
    except Exception as error:
        code, sentence = BROKE, "".join(traceback.format_exception(error)[-2:])
    return Verdict(code, sentence, time.monotonic() - begin)


def _nothing(dist: Any) -> None:
    pass


def work(link: Connection, checks: str) -> None:
    """Judge the mutants that come over the link, each with its limit in seconds, until the link closes."""
    os.setsid()  # Ctrl-C is for the one who asks; here it means that a mutant's time is up
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # a mutant may print, and so may torch
        os.dup2(nothing, fd)
    module = import_module(checks)
    run(_nothing, ranks=1, on=Cluster())  # starts the fork server, so that no mutant's time goes by meanwhile
    try:
        while True:
            mutant, limit = link.recv()
            with one_process():
                signal.setitimer(signal.ITIMER_REAL, limit)
                verdict = judge(getattr(module, f"check_{mutant.exercise}"), mutant)
                signal.setitimer(signal.ITIMER_REAL, 0)
            link.send(verdict)
    except (EOFError, OSError):
        pass


# Those who judge, and the one who asks


class Worker:
    """A process that judges; when it does not answer in time it is ended, and a new one takes its place."""

    def __init__(self, checks: str) -> None:
        self.checks, self.todo, self.until = checks, None, 0.0
        self.start()

    def start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.link, theirs = spawn.Pipe()
        self.process = spawn.Process(target=work, args=(theirs, self.checks), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, number: int, mutant: Mutant, limit: float) -> None:
        self.todo, self.until = number, time.monotonic() + 2 * limit + STARTING
        self.link.send((mutant, limit))

    def answer(self) -> tuple[int, Verdict]:
        """Return what it has found, or that its time was up, or that it has died."""
        number, self.todo = self.todo, None
        try:
            if self.link.poll():
                return number, self.link.recv()
            found = Verdict("timeout", "did not end when interrupted", 0.0)
        except (EOFError, OSError):
            found = Verdict("died", "ended the process that judged it", 0.0)
        self.end()
        self.start()
        return number, found

    def end(self) -> None:
        """End the process; its fork server and all ranks end when they see it gone."""
        self.link.close()
        self.process.kill()
        self.process.join()


def verdicts(workers: list[Worker], todo: list[Mutant], limits: list[float]) -> Iterator[tuple[int, Verdict]]:
    """Yield the verdict of each mutant with its number, as they come."""
    numbers = iter(range(len(todo)))
    while True:
        for worker in workers:
            if worker.todo is None and (number := next(numbers, None)) is not None:
                worker.ask(number, todo[number], limits[number])
        busy = [worker for worker in workers if worker.todo is not None]
        if not busy:
            return
        ready = wait([worker.link for worker in busy], 1)
        for worker in busy:
            if worker.link in ready or time.monotonic() > worker.until:
                yield worker.answer()


def survey(
    text: str, exercises: list[str], checks: str, jobs: int, deep: bool = False
) -> list[tuple[Mutant, Verdict]]:
    """Judge the answers in a file of solutions, then all their mutants; checks is the name of the checks' module."""
    whole = [Mutant(exercise, "none", "", text) for exercise in exercises]
    todo = [mutant for exercise in exercises for mutant in mutants(text, exercise, deep)]
    seconds, found = {}, {}
    workers = [Worker(checks) for _ in range(jobs)]
    try:
        for number, verdict in verdicts(workers, whole, [ANSWERING] * len(whole)):
            if verdict.code != SURVIVED:
                raise ChapterError(f"The answer to {exercises[number]} itself is refused: {verdict.sentence}")
            seconds[exercises[number]] = verdict.seconds
        with tqdm(total=len(todo), unit="mutant", disable=None) as progress:
            limits = [LONGER * (1 + seconds[mutant.exercise]) for mutant in todo]
            for number, verdict in verdicts(workers, todo, limits):
                found[number] = verdict
                progress.update()
    finally:
        for worker in workers:
            worker.end()
    return [(mutant, found[number]) for number, mutant in enumerate(todo)]


# What is printed


def equivalent() -> dict[str, str]:
    """Return the mutants that behave as the answer does, as they are printed, each with the reason."""
    tables = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["same"]
    return {mutant: table["because"] for table in tables for mutant in table["mutants"]}


def report(found: list[tuple[Mutant, Verdict]], same: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines of the table, and the mutants that should have been refused."""
    lines = [f"{'exercise':36} mutants refused equivalent survivors   refused by"]
    left = [str(mutant) for mutant, verdict in found if verdict.code == SURVIVED and str(mutant) not in same]
    for exercise in dict.fromkeys(mutant.exercise for mutant, _ in found):
        mine = [(str(m), v) for m, v in found if m.exercise == exercise and v.code != UNSUITED]
        codes = Counter(verdict.code for _, verdict in mine if verdict.code != SURVIVED)
        known = sum(verdict.code == SURVIVED and name in same for name, verdict in mine)
        told = ", ".join(f"{code} {count}" for code, count in sorted(codes.items(), key=lambda one: (-one[1], one[0])))
        lines.append(f"{exercise:36} {len(mine):7} {codes.total():7} {known:10} "
                     f"{len(mine) - codes.total() - known:9}   {told}")  # fmt: skip
    return lines, left


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description="Show which changes of answers no check sees.")
    parser.add_argument("chapter", nargs="?", default="")
    parser.add_argument("--only", action="append", help="an exercise; may be given more than once")
    parser.add_argument("--deep", action="store_true", help="change also the other answers that an answer calls")
    parser.add_argument("--all", action="store_true", help="print the verdict on every mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes that judge (default 2)")
    options = parser.parse_args(argv)
    os.environ |= {"OMP_NUM_THREADS": "1", "COURSE_PROGRESS": "off", "MALLOC_PERTURB_": FILL}
    try:
        chapter = find(options.chapter)
        exercises = [exercise.id for exercise in chapter.exercises]
        if unknown := set(options.only or ()) - set(exercises):
            raise ChapterError(f"{chapter.name} has no exercise {min(unknown)}; it has {', '.join(exercises)}.")
        text = (ROOT / "solutions" / f"{chapter.name}.py").read_text(encoding="utf-8")
        found = survey(text, options.only or exercises, f"exercises_tests.{chapter.name}", options.jobs,
                       options.deep)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    lines, left = report(found, equivalent())
    print("\n".join(lines))
    if options.all:
        print("\n" + "\n".join(f"{verdict.code:20} {mutant}" for mutant, verdict in found))
    for mutant, verdict in found:
        if verdict.code == BROKE:
            print(f"\nThe check itself raised, on {mutant}:\n{verdict.sentence}")
    print(f"\n{len(left)} that get full points and are not known to be equivalent:" if left else "")
    print("\n".join(left))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
