"""Slips: what is said to a guess that cannot be read, by its kind, so that the next one can be."""

from __future__ import annotations

import math
import re

LONGEST = 100  # digits of a guess
WORDS = {
    "none": 0, "zero": 0, "one": 1, "two": 2, "twice": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1_000, "million": 10**6,
    "billion": 10**9}  # fmt: skip
SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0,
           "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "days": 86400.0}  # fmt: skip
BYTES = {"B": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20,
         "GiB": 2.0**30, "Mb": 125e3, "Mbit": 125e3, "Gb": 125e6, "Gbit": 125e6}
SHARES = {"": 1.0, "%": 0.01, "percent": 0.01}
KINDS = {"a time": SECONDS, "a number of bytes": BYTES, "a share": {"%": 0.01, "percent": 0.01}}
COMMAS = "and no comma: 1.5 for one and a half, and 1500 for 1,500"
ABOUT = r"(?:about|around|approximately|approx\.?|roughly|maybe|perhaps|nearly|almost|some|circa|ca\.?|~|≈)\s*"
NUMBER = r"-?\d+(?:,\d+)*(?:\.\d+)?(?:e[+-]?\d+)?"


class Unread:
    """What a guess is once its cell has failed; `text` is what stood there."""

    def __init__(self, text: str = ""):
        self.text = text

    def __repr__(self) -> str:
        return "a guess whose cell failed"


def refused(guess: object, measured: float, unit: str = "", choice: bool = False) -> str:
    """Return why a guess cannot be taken, and what to write where that can be told; "" where it can be taken."""
    if isinstance(guess, tuple) and guess and all(type(part) is int for part in guess):
        if choice:
            return f"{guess!r} is several numbers: write one; where several are asked for, their digits as in 14"
        return f"{guess!r} is two numbers: Python reads a comma so. Write 1.5 for one and a half, and 1500 for 1,500"
    if isinstance(guess, str):
        return f"{guess!r} is {meant(guess, unit) or _digits(guess) or _letters(guess, choice) or 'not a number'}"
    if isinstance(guess, Unread):
        wanted = meant(guess.text, unit)
        said = "The cell of your guess stopped with an error, so there is no guess yet"
        return f"{said}: {guess.text} is {wanted}" if wanted else said
    if isinstance(guess, int) and abs(guess) >= 10**LONGEST:
        return f"A number of more than {LONGEST} digits is too long to compare"
    if isinstance(guess, float) and math.isinf(guess):
        return "The number is too large to compare"
    if isinstance(guess, bool) or not isinstance(guess, (int, float)) or not math.isfinite(guess):
        return f"{guess!r} is not a number"
    return f"{guess:,} is negative, and the answer cannot be" if guess < 0 <= measured else ""


def meant(text: str, unit: str) -> str:
    """Return what a number in words, or one with a unit, is and what to write for it; "" where it is neither."""
    value = _in_words(text)
    if value is not None:
        return f"a word: write {value}"
    if (plain := re.sub(f"^{ABOUT}", "", text.strip(), flags=re.IGNORECASE)) != text.strip():
        write = re.search("write (.+)", meant(plain, unit) or _digits(plain))
        return f"a number with words: write {write[1].removesuffix(' without quotes')}" if write else ""
    if two := re.fullmatch(rf"({NUMBER})\s*( |-|–|to)\s*(\d\S*)(?: *[^\W\d]+)?", text.strip()):
        return f"{'two numbers' if two[2] == ' ' else 'a range'}: write one number"
    found = re.fullmatch(rf"({NUMBER})\s*([^\W\d_]\D*|%)", text.strip(), re.IGNORECASE)
    if not found:
        return ""
    if "," in found[1]:
        return f"a number with words: write the number alone, {COMMAS}"
    given, asked = (one.strip().replace("\u03bc", "µ") for one in (found[2], (unit.split() or [""])[0]))
    if given == asked or given in ("x", unit.strip()) and (given != "x" or asked == "times"):
        return f"a number with its unit: write {found[1]}"
    for scale in (SECONDS, BYTES, SHARES):
        one, other = (name.removesuffix("/s") for name in (given, asked))
        if one in scale and other in scale and given.endswith("/s") == asked.endswith("/s"):
            there = f"{float(found[1]) * scale[one] / scale[other]:.12g}"
            return f"{f'{there} {asked}'.strip()}: write {there}"
    wrong = next((is_a for is_a, scale in KINDS.items() if asked and given in scale and asked not in scale), "")
    return f"{wrong or 'a number with words'}: write the number alone" + f", in {asked}" * (asked in SECONDS | BYTES)


def _in_words(text: str) -> int | None:
    """Return the number that one or two words name, as "two", "a hundred" and "twenty-five" do."""
    words = [word for word in re.split(r"[\s-]+", text.strip().lower()) if word != "a"]
    if not 0 < len(words) <= 2 or set(words) - set(WORDS):
        return None
    first, last = WORDS[words[0]], WORDS[words[-1]]
    return first if len(words) == 1 else first * last if last >= 100 else first + last


def _digits(text: str) -> str:
    """Return what a number in quotes is; "" where the text is none."""
    if not re.fullmatch(rf"\s*{NUMBER}\s*", text):
        return ""
    return f"a text: write a number without quotes, {COMMAS}" if "," in text else (
        f"a text: write {text.strip()} without quotes")


def _letters(text: str, choice: bool) -> str:
    """Return what a letter is where a number names the choice."""
    lettered = choice and re.fullmatch(r"[\W_a-zA-Z]+", text)
    return "no number, and each choice here has one: write that" if lettered else ""
