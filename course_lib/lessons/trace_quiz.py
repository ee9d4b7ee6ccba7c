"""The quiz of the traces: five letters, one for the strategy behind each sketch, and what each wrong one would show."""

from __future__ import annotations

import re
from collections.abc import Mapping

from course_lib import cards
from course_lib.notebook import hold_back
from course_lib.slips import Unread

LETTERS = {"D": "data parallelism", "F": "FSDP", "M": "mixture of experts", "P": "pipeline", "T": "tensor parallelism"}
WOULD_SHOW = {
    "D": "data parallelism has no call in forward: gradients are summed (AR) in backward",
    "F": "FSDP gathers the weights of a layer (AG) before it runs",
    "M": "a mixture of experts sends its tokens away and back (A2A)",
    "P": "a pipeline has no collective, only R before a piece and S behind it",
    "T": "tensor parallelism sums partial results (AR) in forward, too, twice in each layer",
}
"""By what each strategy would be known: said to those who see it where it is not."""


def slip_of(guess: object, letters: str) -> str:
    """Return what is wrong with a guess that is not five letters; `letters` are those found in it."""
    if guess is None:
        return "no guess"
    if isinstance(guess, Unread):
        return "The cell of your guess stopped with an error, so there is no guess yet: write the letters in quotes"
    if strange := sorted(set(letters) - set(LETTERS)):
        return f"{guess!r} has {', '.join(strange)}, which is none of the letters {', '.join(LETTERS)}"
    if letters and len(letters) != 5:
        several = f"{len(letters)} letter{'s' * (len(letters) != 1)}"
        return f"{guess!r} is {several}: write five, one for each sketch; a letter may come twice"
    return "" if letters else f"{guess!r} is not five of the letters {', '.join(LETTERS)}"


def judge_letters(guess: str | None, names: Mapping[int, str]) -> None:
    """Show which of five letters are right; `names` has the strategy of each sketch by its number, from 1 on."""
    right = [next(letter for letter, name in LETTERS.items() if name == names[number]) for number in range(1, 6)]
    parts = guess if isinstance(guess, (list, tuple)) else [guess]
    letters = re.sub(r"[\W_]", "", "".join(parts).upper()) if all(isinstance(one, str) for one in parts) else ""
    if slip := slip_of(guess, letters):
        if guess is not None:
            hold_back("five letters", slip, "five letters")
        told = f"{slip}   it is {''.join(right)}"
        return cards.show(told, lambda: cards.card(cards.OPEN, cards.paragraph(told)))
    rows = [(f"sketch {number}", letter, "right" if letter == truth else f"not that one: {WOULD_SHOW[letter]}")
            for number, (letter, truth) in enumerate(zip(letters, right, strict=True), 1)]
    hits = sum(map(str.__eq__, letters, right))
    score = f"{hits} of {len(right)}"
    kind = cards.RIGHT if hits == len(right) else cards.TOLD
    text = "\n".join([*map("   ".join, rows), score])
    return cards.show(text, lambda: cards.card(kind, cards.table(rows), cards.paragraph(score)))
