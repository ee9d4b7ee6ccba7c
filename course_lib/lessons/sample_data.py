"""Small whole numbers that ranks are given: drawn by the seed, compared bit by bit, shown in a line."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch


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


def all_digits(ranks: int, shape: Any, dtype: str) -> list:
    """Return one tensor for each rank, whose numbers and sums need all digits of `dtype`, and have no more.

    Who sums in a narrower dtype loses digits, or leaves its range: bfloat16 is drawn above the largest float16. No
    number is negative, so that what leaves the range is infinite, and never NaN.
    """
    kind = getattr(torch, dtype)
    digits = torch.iinfo(kind).bits - 1 if not kind.is_floating_point else 1 - round(math.log2(torch.finfo(kind).eps))
    room = max(1, digits - 5 - math.ceil(math.log2(ranks)))  # small numbers have 5 digits
    drawn = [number.abs() + 1 for number in integers(ranks, shape, "int64")]
    tensors = [((number << room) + number % (1 << min(room, 4))) for number in drawn]
    scale = 2**20 if dtype == "bfloat16" else 1
    return [(tensor * scale).to(kind) for tensor in tensors]


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


def shown(value: Any, most: int = 60) -> str:
    """Return a value as one line of so many characters at most."""
    try:
        text = repr(value)
    except Exception as error:  # a whole number of thousands of digits, an object of the learner's
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= most else text[: most - 3] + "..."


def numbers(value: Any, first: int = 0, most: int = 8, digits: int = 4) -> str:
    """Return the numbers of a tensor or an array from the place `first` on, or of each in a list of them."""
    value = as_tensor(value)
    if isinstance(value, (list, tuple)):
        each, more = [numbers(one, 0, most, digits) for one in value[:4]], len(value) > 4
    elif isinstance(value, torch.Tensor):
        rest = value.flatten()[first:]
        words = [str(number) if type(number) is int and digits > 16 else f"{number:.{digits}g}"
                 for number in rest[:most].tolist()]  # fmt: skip
        each, more = words, len(rest) > most
    else:
        return shown(value)
    return "[" + ", ".join(["..."] * (first > 0) + each + ["..."] * more) + "]"


def as_tensor(value: Any) -> Any:
    """Return a NumPy array of numbers as a tensor, and anything else as it is."""
    if type(value) is not np.ndarray:
        return value
    try:
        return torch.from_numpy(np.ascontiguousarray(value))
    except TypeError:  # of texts, of objects
        return value
