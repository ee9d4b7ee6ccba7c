"""The seed of the numbers that checks draw: a grader's COURSE_SEED, or in a notebook the name of who learns there.

A learner who wants numbers of their own writes a name in work/learner.txt, or sets COURSE_LEARNER; everybody else has
seed 0. Grading does not use this name but a secret of the class: a number that can be looked up beforehand can be
written down beforehand.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

NAMED, SEED, FILE = "COURSE_LEARNER", "COURSE_SEED", Path("learner.txt")  # a chapter's kernel runs in work/
SALT = ""  # a private variant of the course (docs/variant.py) has another, and so other numbers for everybody
MOST_NAME = 200  # characters that count


def course_seed() -> int:
    """Return the seed of all numbers that checks draw; 0 where nobody has set one."""
    return int(os.environ.get(SEED, "0"))


def drawn(exercise: str) -> random.Random:
    """Return the source of an exercise's numbers: one seed, always the same ones."""
    return random.Random(f"{exercise} {course_seed()}{SALT}")


def learner() -> str:
    """Return the name of who learns here, as it was given; empty where none was."""
    try:
        name = os.environ.get(NAMED, "").strip() or FILE.read_text(encoding="utf-8-sig", errors="replace").strip()
    except OSError:
        return ""
    return name.splitlines()[0].strip()[:MOST_NAME] if name else ""


@contextlib.contextmanager
def of_the_learner() -> Iterator[None]:
    """Let what is drawn meanwhile be this learner's, unless a seed is set already or nobody is named."""
    name = "" if SEED in os.environ else learner()
    if not name:
        yield
        return
    os.environ[SEED] = str(int(hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8], 16))
    try:
        yield
    finally:
        del os.environ[SEED]
