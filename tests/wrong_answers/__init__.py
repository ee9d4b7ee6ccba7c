"""The wrong answers that each check must refuse, and right ones written differently; test_answers.py judges them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Wrong(NamedTuple):
    """An answer, the code its check gives, words the sentence holds, and points earned (None: any but all)."""

    exercise: str
    answer: Callable
    code: str
    words: tuple[str, ...]
    earned: int | None = None


def collect() -> tuple[list[Wrong], list[tuple[str, Callable]], Callable, Callable]:
    """Return a chapter's lists WRONG and RIGHT, still empty, and the decorators `wrong` and `right` that fill them."""
    wrongs, rights = [], []

    def wrong(exercise: str, code: str, *words: str, earned: int | None = None) -> Callable:
        return lambda answer: wrongs.append(Wrong(exercise, answer, code, words, earned)) or answer

    def right(exercise: str) -> Callable:
        return lambda answer: rights.append((exercise, answer)) or answer

    return wrongs, rights, wrong, right
