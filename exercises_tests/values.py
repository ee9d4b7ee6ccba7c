"""Plain data that checks draw, compare and put into words: NaN is never right. Some of it chapters use, too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from course_lib.lessons.sample_data import all_digits, as_tensor, different, equal, integers, numbers, shown

__all__ = [
    "all_digits", "amount", "close", "count", "different", "draw", "equal", "integers", "is_number", "near", "numbers",
    "on_ranks", "plain", "ring_bytes", "rounded", "same", "shown", "versus",
]

# Compared


def is_number(got: Any) -> bool:
    """Return whether this is one of Python's numbers, NaN and infinity too, and not too large to reckon with."""
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    try:
        return isinstance(float(got), float)
    except OverflowError:
        return False


def close(got: Any, want: float, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    """Return whether a number is as near to `want` as asked. NaN, infinity and anything that is no number are not."""
    if not is_number(got):
        return False
    return abs(got - want) <= max(relative * abs(want), absolute)


def near(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether two tensors or arrays, or lists of them, have equal shapes and differ by at most `tolerance`."""
    if isinstance(want, (list, tuple)):
        pairs = zip(got, want, strict=True) if isinstance(got, (list, tuple)) and len(got) == len(want) else None
        return pairs is not None and all(near(one, other, tolerance) for one, other in pairs)
    got, want = as_tensor(got), as_tensor(want)
    if not isinstance(got, torch.Tensor) or got.shape != want.shape or got.is_complex():
        return False
    return want.numel() == 0 or bool((got.double() - want.double()).abs().max() <= tolerance)


def same(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether plain data is equal, or where a tolerance is given near or close."""
    if not tolerance or not isinstance(want, (list, tuple, torch.Tensor, np.ndarray, float)):
        return equal(got, want)
    return close(got, want, 0.0, tolerance) if isinstance(want, float) else near(got, want, tolerance)


def plain(value: Any) -> Any:
    """Return a number of NumPy's, or a tensor or an array that is one number, as Python's own; all else as it is.

    So also in lists, tuples and dicts.
    """
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(one) for key, one in value.items()}
    scalar = isinstance(value, np.generic) or isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim == 0
    return value.item() if scalar else value


def rounded(got: Any, want: torch.Tensor) -> bool:
    """Return whether a tensor is nearly `want`, or infinite, as after a dtype of fewer digits or less range."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape or got.is_complex():
        return False
    if not want.numel() or torch.equal(got, want):
        return False
    off = (got.double() - want.double()).abs()
    return bool(((off <= 0.01 * want.double().abs().max()) | got.double().isinf()).all())


# Words for what came


def count(number: int, noun: str) -> str:
    """Return "1 rank", "2 ranks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def on_ranks(ranks: int, real: bool = False) -> str:
    return f"on {count(ranks, 'real rank' if real else 'rank')}"


def versus(got: Any, says: str, want: Any, tolerance: float = 0.0) -> str:
    """Return what came and what was wanted: type, shape or dtype, or numbers from the first on that differs."""
    got, want = as_tensor(got), as_tensor(want)
    if not (isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)):
        words = numbers if amount(got) == amount(want) else amount  # they may differ in later digits
        return f"is {words(got)}; {says} {words(want)}"
    if type(got) is not type(want):
        return f"is a {type(got).__name__}; {says} a {type(want).__name__}"
    if got.shape != want.shape:
        return f"has shape {list(got.shape)}; {says} {list(want.shape)}"
    if not tolerance and got.dtype != want.dtype:
        return f"is {str(got.dtype)[6:]}; {says} {str(want.dtype)[6:]}"
    off = (got.double() - want.double()).abs().flatten().tolist()
    if not any(off):  # whole numbers of more digits than a double has
        off = (got != want).flatten().tolist()
    first = next((place for place, much in enumerate(off) if not much <= tolerance), 0)
    first = first if len(off) > 8 else 0  # a short one is shown whole
    pairs = ([numbers(one, first, digits=digits) for one in (got, want)] for digits in range(4, 21))
    mine, right = next((pair for pair in pairs if pair[0] != pair[1]), ["other digits", "the same to 16 digits"])
    return f"is {mine}{f' from element {first} on' if first else ''}; {says} {right}"


def amount(value: Any) -> str:
    """Return a number with commas and with few digits after the point, anything else as `numbers` does."""
    if not isinstance(value, float):
        return f"{value:,}" if type(value) is int and is_number(value) else numbers(value)
    return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.4g}"


# What answers are given


def draw(shape: Any, seed: int = 0) -> torch.Tensor:
    """Return a float64 tensor of numbers that are not whole; another seed, other numbers."""
    return integers(1 + seed, shape, "float64")[seed] / 8 + 0.01 * (seed + 1)


def ring_bytes(ranks: int, elements: int, rounds: int = 2, size: int = 4) -> int:
    """Return what a rank of a ring sends of `elements` of so many bytes; an all-reduce goes round it twice."""
    return rounds * (ranks - 1) * math.ceil(elements / ranks) * size
