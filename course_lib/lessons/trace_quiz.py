"""The quiz of the traces: five letters, one for the strategy behind each sketch, and what each wrong one would show."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib import cards
from course_lib.notebook import hold_back

LETTERS = {"D": "data parallelism", "F": "FSDP", "M": "mixture of experts", "P": "pipeline", "T": "tensor parallelism"}
WOULD_SHOW = {
    "D": "data parallelism has no call in forward: gradients are summed (AR) in backward",
    "F": "FSDP gathers the weights of a layer (AG) before it runs",
    "M": "a mixture of experts sends its tokens away and back (A2A)",
    "P": "a pipeline has no collective, only R before a piece and S behind it",
    "T": "tensor parallelism sums partial results (AR) in forward, too, twice in each layer",
}
"""By what each strategy would be known: said to those who see it where it is not."""


def judge_letters(guess: str | None, names: Mapping[int, str]) -> None:
    """Show which of five letters are right; `names` has the strategy of each sketch by its number, from 1 on."""
    right = [next(letter for letter, name in LETTERS.items() if name == names[number]) for number in range(1, 6)]
    letters = guess.upper().replace(" ", "").replace(",", "") if isinstance(guess, str) else ""
    if len(letters) != len(right) or set(letters) - set(LETTERS):
        refused = f"{guess!r} is not five of the letters {', '.join(LETTERS)}"
        if guess is not None:
            hold_back("five letters", refused, "five letters")
        told = f"{'no guess' if guess is None else refused}   it is {''.join(right)}"
        return cards.show(told, lambda: cards.card(cards.OPEN, cards.paragraph(told)))
    rows = [(f"sketch {number}", letter, "right" if letter == truth else f"not that one: {WOULD_SHOW[letter]}")
            for number, (letter, truth) in enumerate(zip(letters, right, strict=True), 1)]
    hits = sum(map(str.__eq__, letters, right))
    score = f"{hits} of {len(right)}"
    kind = cards.RIGHT if hits == len(right) else cards.TOLD
    text = "\n".join([*map("   ".join, rows), score])
    return cards.show(text, lambda: cards.card(kind, cards.table(rows), cards.paragraph(score)))
