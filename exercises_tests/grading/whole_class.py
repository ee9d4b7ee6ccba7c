"""A class that is graded: its attempts, the rules by which they count, and what is still to be judged."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exercises_tests.grading import class_page, exports, similar_page
from exercises_tests.grading.attempts import NO_ATTEMPT, Attempts, kept_of
from exercises_tests.grading.by_hand import FILE as BY_HAND
from exercises_tests.grading.by_hand import Given, not_used, read_by_hand
from exercises_tests.grading.feedback import write_page
from exercises_tests.grading.gradebook import pages, write_csv, write_json
from exercises_tests.grading.policy import FILE as POLICY
from exercises_tests.grading.policy import Policy, read_policy
from exercises_tests.grading.roster import FILE as ROSTER
from exercises_tests.grading.roster import Person, differences, matched, read_roster
from exercises_tests.tools.chapters import ROOT, Chapter

if TYPE_CHECKING:
    from exercises_tests.grading.grader import Grading, Submission


@dataclass
class Rules:
    """What decides what counts, and who is told: all that may change without anything being judged anew."""

    policy: Policy = field(default_factory=Policy)
    by_hand: Given = field(default_factory=dict)
    roster: Path | None = None
    persons: list[Person] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_rules(folder: Path, out: Path, known: list[Chapter], root: Path, policy: Path | None, roster: Path | None
               ) -> Rules:  # fmt: skip
    """Return the rules for a folder of submissions: its own course.toml and roster.csv, unless others are named."""
    for path in (folder / POLICY, root / POLICY):
        policy = policy or (path if path.is_file() else None)
    roster = roster or (folder / ROSTER if (folder / ROSTER).is_file() else None)
    given, notes = read_by_hand(out / BY_HAND, known)
    return Rules(read_policy(policy, known), given, roster, read_roster(roster) if roster else [], notes)


@dataclass
class Class:
    """The state of grading a class: what each learner's folder holds, and all attempts that are known by now."""

    folders: list[str]
    """The learners, in order, who have one."""
    attempts: Attempts = field(default_factory=Attempts)
    rules: Rules = field(default_factory=Rules)
    chapters: list[Chapter] = field(default_factory=list)
    root: Path = ROOT
    """Of the course, whose solutions are subtracted before answers are compared."""
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By learner: the records of what is no attempt."""

    def learners(self) -> list[str]:
        """Return who has a folder, or had one and has an attempt."""
        return sorted({*self.folders, *self.attempts.learners()})

    def ordered(self) -> list[dict[str, Any]]:
        """Return the submissions: what counts of each learner and chapter, and each file that is none."""
        found = []
        for learner in self.learners():
            found += [record | NO_ATTEMPT for record in self.others.get(learner, ())]
            for chapter in self.attempts.chapters(learner):
                found.append(self.attempts.counting((learner, chapter), self.rules.policy, self.rules.by_hand))
        return found

    def missing(self) -> list[str]:
        """Return the learners of whom nothing is known."""
        return [name for name in self.folders if not (self.others.get(name) or self.attempts.chapters(name))]

    def whose(self) -> dict[str, Person]:
        """Return the person of the roster for each learner who is in it."""
        gone = [name for name in self.learners() if name not in set(self.folders)]
        return matched(self.rules.persons, self.folders, self.rules.roster, gone)

    def save(self, out: Path, about: dict, final: bool) -> None:
        """Write what is known; of what is still to be judged, the attempts of earlier runs."""
        ordered, rules, learners = self.ordered(), self.rules, self.learners()
        notes = rules.notes + not_used(rules.by_hand, self.attempts.keys(), learners)
        if rules.roster:
            notes += differences(rules.persons, self.whose(), learners, self.attempts.learners())
        about |= {"policy": rules.policy.plain(), "notes": notes}
        attempts = self.attempts.all()
        write_json(out / "grades.json", about, ordered, attempts)
        if not final:
            return
        about = about | {"attempts": attempts}
        write_csv(out / "grades.csv", ordered, about["judge"])
        if rules.roster:
            exports.write(out, ordered, rules.persons, self.whose(), self.chapters, rules.policy)
        names = pages(learners)
        for learner in dict.fromkeys(record["learner"] for record in ordered):
            own = [record for record in ordered if record["learner"] == learner]
            write_page(out / "feedback" / names[learner], learner, own, about)
        class_page.write(out / "class.html", ordered, about)
        if told := similar_page.renew(out, ordered, self.root):
            print(told, file=sys.stderr)

    def plan(self, group: Grading, handed_in: Submission, again: bool, exercises: Collection[str]) -> Job | None:
        """Return what is to be judged of a submission, if anything is: `again` all of it, `exercises` only these.

        What was judged before of the same answers, by the same chapter, check and library, stays.
        """
        known, new = self.attempts, kept_of(handed_in)
        digest = group.digest(group.request(handed_in))
        earlier = known.same(handed_in.key, new["answers"], new["handed_in"], digest)
        if earlier and exercises and _whole(earlier):
            points = {one.id: one.points for one in handed_in.chapter.exercises}
            kept = [one for one in earlier["results"] if one["exercise"] not in exercises
                    and points.get(one["exercise"]) == one["points"]]  # fmt: skip
            if points.keys() & exercises:
                return Job(handed_in, earlier, kept)
            known.put(earlier | _now(handed_in, earlier, new), earlier)
            return None
        alike = [one for one in known.of(handed_in.key) if one["digest"] == digest and _whole(one)]
        if again or not alike:
            return Job(handed_in, earlier)
        same = earlier if earlier in alike else alike[-1]
        known.put(same | _now(handed_in, same, new) | {"judge": group.judge}, earlier)  # the digest says which judge
        return None


@dataclass
class Job:
    """A submission to judge, the attempt that it is if it was judged before, and the results that stay."""

    handed_in: Submission
    attempt: dict[str, Any] | None = None
    kept: list[dict[str, Any]] = field(default_factory=list)


def _whole(attempt: dict[str, Any]) -> bool:
    """Return whether nothing of an attempt waits for another try."""
    return bool(attempt.get("digest")) and all(result["graded"] for result in attempt["results"])


def _now(handed_in: Submission, attempt: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return what changes in an attempt whose results stay."""
    return new | {"file": handed_in.path.name, "remark": handed_in.remark or attempt["remark"]}
