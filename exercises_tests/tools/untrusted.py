"""Reads what strangers wrote: files and JSON bounded before they are parsed, text without what steers a terminal."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 20 << 20  # of one notebook
MOST_PARTS, MOST_DEPTH = 500_000, 60
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)  # matches from any quote on, so time stays linear


def read(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what is in a plain file. Raises OSError or ValueError for anything else: a link, a pipe, a large file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        if path.is_symlink():
            raise ValueError("is not a plain file") from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a plain file")
        if found.st_size > most:
            raise ValueError(f"has {found.st_size:,} bytes; a chapter has less than {most:,}")
        return file.read(most)


def loads(data: bytes, most_parts: int = MOST_PARTS, most_depth: int = MOST_DEPTH) -> Any:
    """Parse JSON whose parts and depth are counted before anything is built. Raises ValueError.

    A part takes two signs, and as a Python object a hundred times that: 20 MB of `{}` once took 6.7 GB.
    """
    bare = _TEXT.sub(b"0", data)
    if sum(map(bare.count, (b",", b"[", b"{"))) > most_parts:
        raise ValueError(f"more than {most_parts:,} parts")
    depth = 0
    for sign in re.findall(rb"[\[\]{}]", bare):
        depth += 1 if sign in b"[{" else -1
        if depth > most_depth:
            raise ValueError(f"more than {most_depth} deep")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("too deep") from None


def plain(text: str, most: int = 200, kept: str = "") -> str:
    """Return text of bounded length without signs that steer a terminal or turn its direction, but for those `kept`."""
    told = "".join(sign if sign in kept or sign.isprintable() or sign == "\xa0" else "\N{REPLACEMENT CHARACTER}"
                   for sign in text[: most + 1])
    return told if len(told) <= most else told[: most - 1] + "…"
