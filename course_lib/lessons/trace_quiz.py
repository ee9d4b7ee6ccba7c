"""The quiz of the traces: five letters, one for the strategy behind each sketch, and what each wrong one would show."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.notebook import WAITS, held_back

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
    """Print which of five letters are right; `names` has the strategy of each sketch by its number, from 1 on."""
    right = [next(letter for letter, name in LETTERS.items() if name == names[number]) for number in range(1, 6)]
    letters = guess.upper().replace(" ", "").replace(",", "") if isinstance(guess, str) else ""
    if len(letters) != len(right) or set(letters) - set(LETTERS):
        waits = guess is not None and held_back("five letters")
        told = "no guess" if guess is None else f"{guess!r} is not five of the letters {', '.join(LETTERS)}"
        print(f"{told}\n{WAITS}" if waits else f"{told}   it is {''.join(right)}")
        return
    for number, (letter, truth) in enumerate(zip(letters, right, strict=True), 1):
        verdict = "right" if letter == truth else f"not that one: {WOULD_SHOW[letter]}"
        print(f"sketch {number}   {letter}   {verdict}")
    print(f"{sum(map(str.__eq__, letters, right))} of {len(right)}")
