"""The vocabulary of all checks: a case that runs, compares and refuses; parts with points; one sentence when wrong.

How a check is written so that it cannot be fooled stands in CONTRIBUTING.md; in short: work out what is expected before
calling the answer, judge only plain data that came back, and write every comparison so that NaN fails.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import re
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

from course_lib import Cluster, Deadlock, RankFailed, Results, cards, one_process, run
from course_lib.engine import packing
from course_lib.engine.processes import launcher
from course_lib.notebook import remember
from course_lib.results import Interrupted, in_a_sentence, lines_of
from course_lib.short_errors import raiser, with_meant
from exercises_tests.homes import HOMES, watch
from exercises_tests.seeds import of_the_learner
from exercises_tests.values import amount, on_ranks, same, versus

WIDTH = 104
BUILT_IN = "built-in"  # the code of a mistake that no part is about: a call that the exercise forbids
SYNTAX = "syntax"  # the code of an answer whose cell Python could not read
SECONDS = 20  # after which a run counts as hung
WRONG_CALL = r"(\.__init__)?\(\) (takes|missing|got) "  # Python's words, after the function's name
LEAVE = "the check calls it with the parameters of the stub, so leave those as they were"
STEPS = Cluster(latency=1.0, bandwidth=math.inf)  # each message takes one second: virtual seconds count the steps
WIRE = Cluster(latency=0.0, bandwidth=1.0)  # each byte takes one second: virtual seconds count bytes in a row


@dataclass
class Outcome:
    """What a check found: points by part, and for a wrong answer the sentence, a stable code, and how to see it."""

    exercise: str
    points: dict[str, int]
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Parts that were judged wrong; those after the last of them were not tried."""
    sentence: str = ""
    code: str = ""
    """Empty when all is right; else the stable name of the mistake."""
    see: str = ""
    borrowed: bool = False
    note: str = ""
    """What a learner should know beside, as that a right answer is where it is not graded."""
    trail: list = field(default_factory=list)
    """What the ranks did in the simulated run of the failing case, where answers are graded; see Case.trail."""

    @property
    def earned(self) -> int:
        return 0 if self.borrowed else sum(self.points[part] for part in self.passed)

    @property
    def total(self) -> int:
        return sum(self.points.values())

    @property
    def marks(self) -> str:
        """Return each part with its mark: passed, failed, or not tried; where a rule was broken, the rule first."""
        return " ".join(self._marked())

    @property
    def _mark(self) -> str:
        return "✗" if self.code else "◐" if self.borrowed else "✓"

    def _marked(self) -> list[str]:
        missing = [part for part in self.points if part not in self.passed]
        rule = ["rule ✗"] if self.code == BUILT_IN else []  # the value may be right
        failed = self.failed or missing[: bool(self.code) and not rule and not self.unwritten]
        marks = {**dict.fromkeys(failed, "✗"), **dict.fromkeys(self.passed, "✓")}
        return rule + [f"{part} {marks.get(part, '–')}" for part in self.points]

    def __str__(self) -> str:
        score = f"{self.earned} of {self.total} points"
        if self.borrowed:
            score += " (borrowed)"
        elif self.code:
            score += f" ({self.marks})"
        head = f"{self._mark} {self.exercise}   "
        first, *rest = _begun(self.sentence).split("\n")
        lines = textwrap.wrap(first, WIDTH, initial_indent=head, subsequent_indent="    ") + rest
        if len(lines) == 1 and not self.code and len(lines[0]) + len(score) + 10 <= WIDTH:
            lines = [f"{lines[0]}          {score}"]
        else:
            lines.append(f"    {score}")
        if self.see:
            lines.append(f"    See it: {self.see}")
        if self.note:
            lines += textwrap.wrap(self.note, WIDTH, initial_indent="    ! ", subsequent_indent="      ")
        return "\n".join(lines)

    def card(self) -> str:
        """Return the same words as a card for a notebook: the parts as marks, the points as a bar."""
        kind = cards.OPEN if self.unwritten or self.borrowed else cards.WRONG if self.code else cards.RIGHT
        first, *rest = _begun(self.sentence).split("\n")
        head = f"{cards.mark(kind, self._mark)} <strong>{escape(self.exercise)}</strong>   "
        pieces = [f"<p>{head}{escape(first)}</p>"]
        for indented, lines in groupby(rest, lambda line: line.startswith(" ")):  # what ranks and their code did
            text = textwrap.dedent("\n".join(lines))
            pieces.append(_details(text) if indented else cards.paragraph(text))
        share = self.earned / max(1, self.total)
        full = cards.OPEN if kind == cards.OPEN else cards.RIGHT if share == 1 else cards.PART if share else cards.WRONG
        score = f"{cards.bar(share, full)}{self.earned} of {self.total} points"
        if self.borrowed:
            score += " (borrowed)"
        elif self.code:
            looks = {"✓": cards.RIGHT, "✗": cards.WRONG, "–": cards.OPEN}
            why = "" if self.unwritten else "not reached, because an earlier part failed"
            parts = [cards.mark(looks[part[-1]], part, "course-part", why if part.endswith("–") else "")
                     for part in self._marked()]
            score += f"   {''.join(parts)}"
        pieces.append(f"<p>{score}</p>")
        if self.see:
            pieces.append(f"<p>See it: <code>{escape(self.see)}</code></p>")
        if self.note:
            pieces.append(cards.paragraph(f"! {self.note}"))
        return cards.card(kind, *pieces)

    @property
    def unwritten(self) -> bool:
        """Whether nothing was judged: the answer is still the stub, needs one that is, or cannot be read."""
        return self.code in ("not-written", "needs", SYNTAX)


def _details(text: str) -> str:
    """Return lines about ranks as HTML in the letters of their card; only what stands in a cell has those of code."""
    told = re.sub(r"^( *line \d+ of .*?: )(.+)$", r"\1<code>\2</code>", escape(text), flags=re.MULTILINE)
    lines = [(len(line) - len(line.lstrip()), line.lstrip()) for line in told.split("\n")]
    spans = (f'<span style="--in: {spaces}">{line}</span>' for spaces, line in lines)
    return f'<p class="course-details">{"".join(spans)}</p>'


def _begun(sentence: str) -> str:
    """Return a sentence with a capital letter, unless it begins with a formula or with a name in code."""
    return sentence[:1].upper() + sentence[1:] if re.match(r"(a|[a-z]{2,})[ ,:']", sentence) else sentence


class CheckFailed(cards.Told, AssertionError):
    """A wrong answer, shown as one sentence. `outcome` has the parts earned and the code of the mistake."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome

    def card(self) -> str:
        return self.outcome.card()


class Refused(Exception):  # noqa: N818
    """An answer is wrong: the sentence, the code of the mistake, a line that shows it, and what the ranks did."""

    def __init__(self, sentence: str, code: str, see: str, trail: Sequence = ()) -> None:
        super().__init__(sentence)
        self.code, self.see, self.trail = code, see, trail


def expect(condition: Any, sentence: str, code: str, see: str = "", trail: Sequence = ()) -> None:
    """Refuse the answer with `sentence` unless `condition` is True (NumPy's counts, anything else does not).

    `code` names the mistake for good; `see` is a line the learner can run to see it; `trail` is a Case's.
    """
    numpys = type(condition).__module__ == "numpy" and type(condition).__name__ in ("bool", "bool_")
    if not ((type(condition) is bool or numpys) and condition):
        raise Refused(sentence, code, see, trail)


# A case: run or refuse; the same, or which mistake; at most


class Mistake(NamedTuple):
    """A mistake is the value it leads to: an answer that gives `value` has made it.

    Where no one value tells, `value` is True or False: whether the check itself has seen this mistake.
    """

    code: str
    value: Any
    says: str
    """What follows the name of the thing: "the result on rank 2" + "is the mean: do not divide"."""
    see: str | None = None
    """Another line to see it than the case's."""


class Hint(NamedTuple):
    """What a failed run means that says certain words. With a code it is a known mistake, and said first; else last."""

    words: str | re.Pattern
    says: str
    code: str = ""

    def fits(self, said: str) -> bool:
        """Return whether a failed run that is told so means this."""
        return bool(self.words.search(said)) if isinstance(self.words, re.Pattern) else self.words in said


@dataclass(frozen=True)
class Case:
    """What an answer is run on. All that it refuses begins with its words, "on 4 ranks" and the label."""

    ranks: int = 0
    """0 where the answer runs on no ranks: then the label is all the words."""
    label: str = ""
    real: bool = False
    """On real ranks, no simulated ones."""
    on: Cluster | None = None
    see: str = ""
    """A line that the learner can run to see a mistake."""
    seconds: float = SECONDS
    words: str = ""
    """All the words of the case, where the number of ranks and the label do not say it."""
    trail: list = field(default_factory=list, repr=False, compare=False)
    """What the ranks did in the last run of this very case, if it was simulated and answers are graded; else nothing.

    [rank, kind, begin, end, label] each, times in virtual seconds. Why is it not asked for at the refusal? By then
    another case may have run, and a picture of the wrong run is worse than none."""

    def __str__(self) -> str:
        ranks = on_ranks(self.ranks, self.real) if self.ranks else ""
        return self.words or f"{ranks} {self.label}".strip()

    def also(self, words: str, **changes: Any) -> Case:
        """Return the same case with more words, as in case.also("after 10 steps")."""
        return replace(self, words=f"{self} {words}", trail=list(self.trail), **changes)

    def run(self, drive: Callable, *data: Any, hints: Sequence[Hint] = ()) -> Results:
        """Run `drive` with an answer and data on the ranks; a run that fails is a wrong answer."""
        try:
            on = None if self.real else self.on or Cluster()
            return self.ran(run(drive, *data, ranks=self.ranks, on=on, timeout=self.seconds))
        except RankFailed as failure:
            self.failed(failure, hints, drive, *data[:1])

    def ran(self, trace: Results) -> Results:
        """Return `trace`, and note that it is this case's: for a run of an answer that `run` above cannot make."""
        self.trail[:] = launcher.LAUNCHER.trail
        return trace

    def failed(self, failure: RankFailed, hints: Sequence[Hint] = (), *answers: Any) -> NoReturn:
        """Refuse an answer whose run failed; a stub that is not written yet is told as such, and one of `answers`
        that does not take what the check gives it."""
        self.trail[:] = launcher.LAUNCHER.trail
        if failure.error == "NotImplementedError":
            raise failure
        meant = [hint for hint in hints if hint.fits(str(failure))]
        for hint in meant:
            if hint.code:
                said = str(failure)
                said = said[:1].upper() + said[1:]  # it begins a sentence
                told = f"{str(self).rstrip(',:')}: {hint.says.rstrip('.')}. {said}"
                raise Refused(told, hint.code, self.see, self.trail)
        happened, says = str(failure), [hint.says for hint in meant]
        if failure.error == "NameError":  # a rank has only the names that its function uses
            known = {name for answer in answers for name in getattr(answer, "__globals__", ())}
            happened = with_meant(happened, failure.message, sorted(known))
        if failure.error == "TypeError" and _takes_others(failure.message, answers):
            self.refuse(f"{happened}: {LEAVE}", "parameters", "")
        if isinstance(failure, Deadlock) and says:  # first what to do, then who waits for whom
            self.refuse("\n".join([f"a deadlock. {' '.join(says)}", happened[0].upper() + happened[1:]]), "deadlock")
        happened = f"a deadlock: {happened}" if isinstance(failure, Deadlock) else happened
        self.refuse("\n".join([happened, *says]), code_of(failure))

    def expect(self, condition: Any, sentence: str, code: str, see: str | None = None) -> None:
        """Refuse the answer with the case and `sentence` unless `condition` is True."""
        expect(condition, f"{self} {sentence}".strip(), code, self.see if see is None else see, self.trail)

    def refuse(self, sentence: str, code: str, see: str | None = None) -> NoReturn:
        comma = "," if re.match(r"rank \d+ raised", sentence) and re.search(r"ranks?$", str(self)) else ""
        raise Refused(f"{self}{comma} {sentence}".strip(), code, self.see if see is None else see, self.trail)

    def same(
        self,
        got: Any,
        want: Any,
        what: str,
        *mistakes: Mistake,
        says: str = "it should be",
        code: str = "value",
        tolerance: float = 0.0,
        see: str | None = None,
    ) -> None:
        """Refuse what is not `want` as the first of the mistakes that it is, or else with what differs.

        `what` names the thing in the sentence. With tolerance 0 type and dtype count too. A mistake that would lead to
        `want` as well, as a mean on one rank does, is none.
        """
        if same(got, want, tolerance):
            return
        for mistake in mistakes:
            made = mistake.value
            if not isinstance(made, bool):
                made = same(got, made, tolerance) and not same(made, want, tolerance)
            if made:
                self.refuse(f"{what} {mistake.says}", mistake.code, see if mistake.see is None else mistake.see)
        self.refuse(f"{what} {versus(got, says, want, tolerance)}", code, see)

    def at_most(
        self, seen: Any, bound: float, sentence: str, code: str, see: str | None = None, slack: float = 1.0
    ) -> None:
        """Refuse more than `slack` times `bound`, and what is no number; the sentence may name {seen} and {bound}."""
        number = isinstance(seen, (int, float)) and not isinstance(seen, bool)
        told = sentence.replace("{seen}", amount(seen)).replace("{bound}", amount(bound))
        self.expect(number and seen <= slack * bound, told, code, see)

    def no_builtin(self, trace: Results, only: str = "send, recv, isend and irecv", so: str = "") -> None:
        """Refuse an answer that calls built-in collectives where it is to send messages itself; `so`: what is lost."""
        used = sorted({kind for kinds in trace.collectives for kind in kinds if kind != "barrier"})
        names = ", ".join(f"dist.{kind}" for kind in used)
        self.expect(not used, f"it calls {names}{so}: use only {only}", BUILT_IN, see="")


# A check and its parts


class Parts:
    """Hands out the parts of a check in order: `part("bytes")` says that what follows is judged as that part."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._current = outcome, None

    def __call__(self, name: str) -> None:
        assert name in self._outcome.points, f"{name} is no part of check_{self._outcome.exercise}"
        self.close()
        self._current = name

    def drop(self) -> None:
        """Mark the current part as wrong, so that a check may go on and judge the next."""
        self._outcome.failed += [self._current] if self._current else []
        self._current = None

    def close(self) -> None:
        if self._current is not None:
            self._outcome.passed.append(self._current)
            self._current = None


def check(**points: int) -> Callable:
    """Make a check out of `def check_exercise(answer, part) -> str`, whose parts have these points.

    The function calls `part(name)` before each part (underscores in names read as spaces), `expect` for each demand,
    and returns the sentence for a right answer. Called as `check_exercise(answer)` it prints that line or raises
    CheckFailed; `check_exercise.outcome(answer)` returns the Outcome and neither prints nor records.
    """

    def wrap(judge: Callable) -> Callable:
        exercise = judge.__name__.removeprefix("check_")
        takes = list(inspect.signature(judge).parameters)[:-1]  # all but `part`
        worth = {name.replace("_", " "): value for name, value in points.items()}

        def outcome(*answers: Any) -> Outcome:
            found = Outcome(exercise, worth, borrowed=any(getattr(a, "__borrowed__", False) for a in answers))
            part = Parts(found)
            try:
                for answer in answers:
                    expect(callable(answer), f"{exercise} is {answer!r}, not a function", "not-callable")
                with one_process():
                    found.sentence = judge(*answers, part)
                part.close()
                missing = [name for name in worth if name not in found.passed]
                assert not missing, f"check_{exercise} never judged {missing}"
            except Refused as wrong:
                found.sentence, found.code, found.see = str(wrong), wrong.code, wrong.see
                found.trail = list(wrong.trail)
            except RankFailed as failure:
                found.sentence, found.code = _of_failure(failure, exercise)
            except NotImplementedError as error:
                name = raiser(error)
                found.sentence, found.code = _unwritten(name, exercise)
            except Exception as error:
                frames = _learner_frames(error)
                endless = isinstance(error, RecursionError) and not frames  # the check followed it in
                misfit = not frames and isinstance(error, TypeError) and _takes_others(str(error), answers)
                if not frames and not misfit and not endless:
                    raise  # a fault of the check, not of the answer
                found.sentence = f"raised {type(error).__name__}: {error}" + lines_of(frames)
                found.code = "raised"
                if misfit:
                    found.sentence, found.code = f"{error}: {LEAVE}", "parameters"
                if endless:
                    found.sentence, found.code = "what it returned contains itself: a list that is in itself", "form"
            if found.code and found.code != BUILT_IN and not found.unwritten:
                part.drop()
            return found

        @functools.wraps(judge)
        def checked(*answers: Any) -> None:
            if len(answers) != len(takes):
                with in_a_sentence():
                    what = "your function" if len(takes) == 1 else "your functions"
                    call = exercise if len(takes) == 1 else ", ".join(takes)
                    raise TypeError(f"check_{exercise} judges {what}, given by name: check_{exercise}({call})")
            unread = HOMES.unread(exercise)
            if unread:
                raise CheckFailed(Outcome(exercise, worth, sentence=unread, code=SYNTAX))
            try:
                with of_the_learner(), told_when_slow():
                    found = outcome(*answers)
            except KeyboardInterrupt as error:
                if isinstance(error, Interrupted):
                    raise
                raise Interrupted(f"check_{exercise} was interrupted") from None
            _record(judge.__module__.rsplit(".", 1)[-1], found)
            found.note = HOMES.old(exercise)
            if not found.borrowed and not found.unwritten:
                known = {value.exercise for value in judge.__globals__.values() if hasattr(value, "exercise")}
                warned = "".join(HOMES.warning(answer, exercise, known) for answer in answers[:1])
                found.note = warned or found.note
            if found.code:
                raise CheckFailed(found)
            cards.show(str(found), found.card)

        checked.outcome, checked.exercise, checked.points = outcome, exercise, worth
        return checked

    return wrap


@contextlib.contextmanager
def told_when_slow(after: float = 8.0) -> Iterator[None]:
    """In a notebook, say after a while how long an answer that hangs may take, until its verdict is there."""
    shown = []
    said = f"still running: a run that takes longer than {SECONDS} s is stopped"
    timer = threading.Timer(after, lambda: shown.append(cards.show_for_now(said)))
    timer.daemon = True
    if cards.in_notebook():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        for take_away in shown:
            take_away()


def _record(chapter: str, found: Outcome) -> None:
    state = "borrowed" if found.borrowed else "passed" if not found.code else "tried"
    state = "unwritten" if found.code == "not-written" else state
    if remember(chapter, found.exercise, state, found.earned, found.total):
        from exercises_tests.tools.start_page import renew  # not above: a judge that grades has no use for it

        renew()


def _unwritten(name: str, exercise: str) -> tuple[str, str]:
    if name == exercise:
        return "not written yet", "not-written"
    return f"needs {name}: write it, or borrow it", "needs"


def _of_failure(failure: RankFailed, exercise: str) -> tuple[str, str]:
    if failure.error == "NotImplementedError" and not isinstance(failure, Deadlock):
        return _unwritten(failure.message or exercise, exercise)
    words = f"deadlock: {failure}" if isinstance(failure, Deadlock) else str(failure)
    return words, code_of(failure)


def code_of(failure: RankFailed) -> str:
    """Return the code of the mistake that made a run fail: deadlock, timeout, died or raised."""
    kinds = {"deadlock": "deadlock", "timeout": "timeout", "exit": "died", "signal": "died"}
    return kinds.get(failure.error, "raised")


def _takes_others(message: str, answers: Sequence[Any]) -> bool:
    """Return whether a TypeError says that one of these does not take what it was called with."""
    names = [getattr(answer, "__qualname__", "") for answer in answers]
    return any(re.match(re.escape(name) + WRONG_CALL, message) for name in names if name)


def _learner_frames(error: BaseException) -> list[tuple[str, int, str]]:
    stack = traceback.extract_tb(error.__traceback__)
    return [(f.filename, f.lineno or 0, f.name) for f in stack if not packing.is_library(f.filename)]


def alone(drive: Callable, answer: Any, *data: Any) -> Any:
    """Return `drive(answer, *data)`, worked out where the learner's code lives: here, or elsewhere when it is graded.

    For answers that are classes or that hand out objects: `drive` is a function of the check's module that uses the
    answer and returns plain data. It runs beside the learner's code, so it must know nothing of what is expected.
    """
    elsewhere = getattr(answer, "__alone__", None)
    return drive(answer, *data) if elsewhere is None else elsewhere(drive, *data)


def called(answer: Any, cases: list) -> list:
    """Beside the answer, for `alone`: what it returns for each case, a tuple of its arguments."""
    return [answer(*case) for case in cases]


def asked(answer: Any, cases: list) -> Callable:
    """Return a function that gives, call by call, what the answer returned for these cases, all in one process.

    A process for each call takes a second where submissions are graded.
    """
    found = iter(alone(called, answer, cases))
    return lambda *_: next(found)


watch()
