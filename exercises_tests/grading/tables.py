"""A table that a person keeps in a spreadsheet: comma, semicolon or tab, with or without a mark of the byte order."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from exercises_tests.tools.chapters import ChapterError
from exercises_tests.tools.untrusted import plain

MOST_BYTES = 5 << 20
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_table(path: Path, wanted: Sequence[str], also: Sequence[str] = ()) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table, each with the number of its line and its cells by column, empty where one is short.

    The columns in `wanted` must be there, those in `also` may be; all others are left out. Raises ChapterError.
    """
    text = _text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    # csv.Sniffer guesses from the data, where names hold commas and comments hold semicolons; a header holds neither.
    # strict: a quote that nobody closed would else take in the rest of the file, and its learners, without a word.
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    try:
        rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines if any(map(str.strip, row))]
    except csv.Error as error:
        raise ChapterError(f"{path}, line {lines.line_num}: this is no table of cells ({error}).") from None
    if not rows:
        raise ChapterError(f"{path} is empty; its first line names the columns: {', '.join(wanted)}.")
    header = [name.casefold() for name in rows[0][1]]
    for name in wanted:
        if name not in header:
            seen = ", ".join(plain(cell, 40) for cell in rows[0][1][:12])
            raise ChapterError(f"{path} has no column {name!r}: its first line is {seen}{meant(name, header)}")
    if twice := next((name for name in (*wanted, *also) if header.count(name) > 1), None):
        raise ChapterError(f"{path} has two columns {twice!r}: keep one.")
    place = {name: header.index(name) for name in (*wanted, *also) if name in header}
    return [(number, {name: row[at] if at < len(row) else "" for name, at in place.items()})
            for number, row in rows[1:]]  # fmt: skip


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ChapterError(f"{path} has {path.stat().st_size:,} bytes; a table has at most {MOST_BYTES:,}.")
        data = path.read_bytes()
    except OSError as error:
        raise ChapterError(f"{path} cannot be read: {error.strerror}.") from None
    encoding = next((name for mark, name in MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ChapterError(
            f"{path} is not text in UTF-8 (byte {error.start} is 0x{data[error.start]:02x}): in Excel, save it as "
            '"CSV UTF-8".'
        ) from None


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that is not known: what was probably meant, or else all that there is.

    In small letters or capitals, and a part of a name (`fsdp`) does as well.
    """
    known = list(dict.fromkeys(known))
    low = {one.casefold(): one for one in known}
    asked = name.casefold()
    near = [low[one] for one in difflib.get_close_matches(asked, low, 1, 0.6)]
    near = near or [one for key, one in low.items() if len(asked) > 2 and asked in key]
    if near:
        return f"; did you mean {plain(near[0], 60)}?"
    told = ", ".join(plain(one, 60) for one in known[:12])
    return f"; there is {told}{', …' if len(known) > 12 else ''}." if known else "."
