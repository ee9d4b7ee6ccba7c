"""Plain data that checks draw, compare and put into words: whole numbers by the seed, NaN never right."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch

# Compared


def equal(got: Any, want: Any) -> bool:
    """Return whether two pieces of plain data have the same type, shape and value. NaN equals nothing."""
    if type(got) is not type(want):
        return False
    if isinstance(want, torch.Tensor):
        return got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(map(equal, got, want))
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(equal(got[key], want[key]) for key in want)
    return bool(got == want)


def close(got: Any, want: float, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    """Return whether a number is as near to `want` as asked. NaN, infinity and anything that is no number are not."""
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return abs(got - want) <= max(relative * abs(want), absolute)


def near(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether two tensors or arrays, or lists of them, have equal shapes and differ by at most `tolerance`."""
    if isinstance(want, (list, tuple)):
        pairs = zip(got, want, strict=True) if isinstance(got, (list, tuple)) and len(got) == len(want) else None
        return pairs is not None and all(near(one, other, tolerance) for one, other in pairs)
    got, want = _tensor(got), _tensor(want)
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return want.numel() == 0 or bool((got.double() - want.double()).abs().max() <= tolerance)


def same(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether plain data is equal, or where a tolerance is given near or close."""
    if not tolerance or not isinstance(want, (list, tuple, torch.Tensor, np.ndarray, float)):
        return equal(got, want)
    return close(got, want, 0.0, tolerance) if isinstance(want, float) else near(got, want, tolerance)


def _tensor(value: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(value)) if type(value) is np.ndarray else value


# Words for what came


def count(number: int, noun: str) -> str:
    """Return "1 rank", "2 ranks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def on_ranks(ranks: int, real: bool = False) -> str:
    return f"on {count(ranks, 'real rank' if real else 'rank')}"


def shown(value: Any, most: int = 60) -> str:
    """Return a value as one line of so many characters at most."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def numbers(value: Any, first: int = 0, most: int = 8, digits: int = 4) -> str:
    """Return the numbers of a tensor or an array from the place `first` on, or of each in a list of them."""
    value = _tensor(value)
    if isinstance(value, (list, tuple)):
        each, more = [numbers(one, 0, most, digits) for one in value[:4]], len(value) > 4
    elif isinstance(value, torch.Tensor):
        rest = value.flatten()[first:]
        each, more = [f"{number:.{digits}g}" for number in rest[:most].tolist()], len(rest) > most
    else:
        return shown(value)
    return "[" + ", ".join(["..."] * (first > 0) + each + ["..."] * more) + "]"


def versus(got: Any, says: str, want: Any, tolerance: float = 0.0) -> str:
    """Return what came and what was wanted: type, shape or dtype, or numbers from the first on that differs."""
    got, want = _tensor(got), _tensor(want)
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
    first = next((place for place, much in enumerate(off) if not much <= tolerance), 0)
    first = first if len(off) > 8 else 0  # a short one is shown whole
    pairs = ([numbers(one, first, digits=digits) for one in (got, want)] for digits in range(4, 17))
    mine, right = next((pair for pair in pairs if pair[0] != pair[1]), ["other digits", "the same to 16 digits"])
    return f"is {mine}{f' from element {first} on' if first else ''}; {says} {right}"


def amount(value: Any) -> str:
    """Return a number with commas and with few digits after the point, anything else as `numbers` does."""
    if not isinstance(value, float):
        return f"{value:,}" if type(value) is int else numbers(value)
    return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.4g}"


# What answers are given


def integers(ranks: int, shape: Any, dtype: str = "float32") -> list:
    """Return one tensor for each rank, of small whole numbers that differ from rank to rank.

    Any order of addition of so small numbers gives the same bits, in every dtype, so results can be compared exactly.
    COURSE_SEED chooses other numbers: a grader sets it, so that no answer can know them.
    """
    generator = torch.Generator().manual_seed(int(os.environ.get("COURSE_SEED", "0")))
    return [
        torch.randint(-9, 10, torch.Size(shape), generator=generator).to(getattr(torch, dtype)) for _ in range(ranks)
    ]


def different(ranks: int, shape: Any, dtype: str = "float32") -> list:
    """Return one tensor for each rank, of small whole numbers that no rank before it has."""
    return [tensor + 20 * (rank + 1) for rank, tensor in enumerate(integers(ranks, shape, dtype))]


def draw(shape: Any, seed: int = 0) -> torch.Tensor:
    """Return a float64 tensor of numbers that are not whole; another seed, other numbers."""
    return integers(1 + seed, shape, "float64")[seed] / 8 + 0.01 * (seed + 1)


def ring_bytes(ranks: int, elements: int, rounds: int = 2, size: int = 4) -> int:
    """Return what a rank of a ring sends of `elements` of so many bytes; an all-reduce goes round it twice."""
    return rounds * (ranks - 1) * math.ceil(elements / ranks) * size
