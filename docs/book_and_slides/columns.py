"""Printed lines as a table in the deck's letters, where they have one shape; others stay as they were printed."""

from __future__ import annotations

import html
import re

NUMBER = re.compile(r"(?<![\w.\-−])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)"
                    r"(?: ?(?:[kMGT]i?B(?:/s)?|GB/s|[µmn]?s|B|%|W)(?![\w/]))?")
LABELS = [re.compile(rf"\s*(\S.*?){mark}(?=\S)(.*)") for mark in (r":\s+", r"\s+\|\s+", r"\s{2,}")]
ENDS = re.compile(rf"\s*(\S[^:,]*?)\s+({NUMBER.pattern})")
PARTS = [re.compile(mark) for mark in (r"[,;] +", r"\s{2,}")]
JOINT = re.compile(r" (?=(?:in|with|at|and) )")
SHAPED = re.compile(r"[\[\](){}\"=<>|]|(?<!\w)'")  # what is written in these is code or a trace
MOST, WIDE = 0.6, 8  # which part of the lines is in columns, at least; columns that a slide has room for, at most
BARS = 1.2  # how many times the least number the largest is, at least, where bars say more than numbers
AMOUNT = re.compile(r"(-?[\d,]+(?:\.\d+)?) ?([kMGTµmn]?)(.*)")
TIMES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
BIG, FEW = 26, 90  # letters of a number that stands alone, and of what is said of it


def as_columns(lines: list[str]) -> str:
    """Return lines as HTML: tables, and between them lines of words; nothing where they have no shape."""
    found, tables, place = "", 0, 0
    while place < len(lines):
        end = next((end for end in range(len(lines), place + 1, -1) if table(lines[place:end])), None)
        if end:
            found, tables, place = found + table(lines[place:end]), tables + end - place, end
        else:
            found, place = f"{found}<p>{html.escape(lines[place].strip())}</p>", place + 1
    return found if tables >= MOST * len(lines) else ""


def big(line: str) -> str:
    """Return a line of a number and what it is as HTML, the number in large letters; nothing where it is none."""
    label, _, last = line.strip().rpartition(": ")
    if not label:
        last, _, label = line.strip().partition(", ")
    if SHAPED.search(line) or not NUMBER.match(last) or len(last) > BIG or not 0 < len(label) <= FEW:
        return ""
    return f'<p class="big">{spelled(last)}</p><p>{html.escape(label[0].upper() + label[1:])}</p>'


def table(lines: list[str]) -> str:
    """Return lines as a table: those below a head that stand in columns, or those that differ in numbers alone."""
    head, *rows = under_a_head(lines) or of_one_shape(lines) or [[]]
    if len(rows) < 2 or not 2 <= len(head) <= WIDE:
        return ""
    right = [place > 0 and all(NUMBER.match(row[place]) for row in rows) for place in range(len(head))]
    drawn = bars([row[right.index(True)] for row in rows]) if sum(right) == 1 else []
    first, *others = ["".join(cell(text, right[place], "td" if at else "th") for place, text in enumerate(row))
                      + (f'<td class="bar">{bar}</td>' if drawn else "")
                      for at, (row, bar) in enumerate(zip([head, *rows], ["", *(drawn or rows)], strict=True))]
    first = f"<thead><tr>{first}</tr></thead>" if any(head) else ""
    return f'<table class="printed">{first}<tbody>{"".join(f"<tr>{row}</tr>" for row in others)}</tbody></table>'


def bars(written: list[str]) -> list[str]:
    """Return a bar for each number, to one scale from zero; none where they are of several kinds or nearly equal."""
    found = [AMOUNT.fullmatch(one) for one in written]
    if not all(found) or len({one[3] for one in found}) > 1 or found[0][3] == "" and any(one[2] for one in found):
        return []
    values = [float(one[1].replace(",", "")) * TIMES[one[2]] for one in found]
    if min(values) < 0 or max(values) < BARS * max(min(values), 1e-12):
        return []
    return [f'<i style="width: {max(0.4, 100 * value / max(values)):.1f}%"></i>' for value in values]


def cell(text: str, right: bool, tag: str) -> str:
    return f'<{tag}{" class=digits" if right else ""}>{spelled(" ".join(text.split()))}</{tag}>'


def spelled(text: str) -> str:
    """Return a text as HTML, 1e-13 as 1 × 10 to the minus 13."""
    return re.sub(r"(?<=\d)e-0?(\d+)", " × 10<sup>−\\1</sup>", html.escape(text))


def under_a_head(lines: list[str]) -> list[list[str]]:
    """Return a head without numbers and the rows below it: cut at two blanks, or else at one before numbers."""
    wide = max(map(len, lines))
    padded = [line.ljust(wide) for line in lines]
    blank = [all(line[place] == " " for line in padded) for place in range(wide)]
    for near in (False, True):
        gap = 1 if near else 2
        starts = [at for at in range(wide) if not blank[at] and all(blank[max(0, at - gap):at])]
        cut = [0]
        for begin, end in zip(starts, [*starts[1:], wide], strict=True):
            below, before = ([line[first:last].strip() for line in padded[1:]]
                             for first, last in ((begin, end), (cut[-1], begin)))
            apart = begin > 1 and blank[begin - 2] or near and all(NUMBER.match(text) for text in below)
            cut += [begin] * (apart and all(below) and any(before))
        head, *rows = [[line[begin:end].strip() for begin, end in zip(cut, [*cut[1:], wide], strict=True)]
                       for line in padded]
        if all(len(re.split(r"\s{2,}", row[0])) == 2 for row in rows):  # a head that begins beside the labels
            rows = [[*re.split(r"\s{2,}", row[0]), *row[1:]] for row in rows]
        told = re.split(r"\s{2,}", lines[0].strip())
        told = ["", *told] if len(told) == len(rows[0]) - 1 else told
        head = head if near else told
        if 2 < len(head) == len(rows[0]) and not NUMBER.search(lines[0]) and any(
                NUMBER.match(text) for text in rows[0]):
            return [head, *rows]
    return []


def of_one_shape(lines: list[str]) -> list[list[str]]:
    """Return a head and the rows of lines, each of a label and as many parts with a number as the others."""
    for label in [*LABELS, ENDS]:
        found = [label.fullmatch(line.rstrip()) for line in lines]
        if all(found):
            break
    else:
        return []
    units = {one[2].lstrip("-0123456789,.e") for one in found}
    if any(SHAPED.search(one[2]) for one in found) or label is ENDS and len(units) > 1:
        return []
    for mark in PARTS:
        parts = [mark.split(one[2]) for one in found]
        if len({len(some) for some in parts}) != 1 or not any(NUMBER.search(text) for text in parts[0]):
            continue
        columns = [one for place in range(len(parts[0])) for one in columns_of([some[place] for some in parts])]
        if None not in columns:
            rows = zip((one[1] for one in found), *(values for _, values in columns), strict=True)
            return [["", *(words for words, _ in columns)], *rows]
    return []


def columns_of(parts: list[str]) -> list:
    """Return one column of what stands in the same place of all lines, or several where it has several numbers."""
    if one := column(parts):
        return [one]
    cut = [JOINT.split(part) for part in parts]
    if len({len(some) for some in cut}) != 1 or len(cut[0]) < 2:
        return [None]
    return [column([some[place] for some in cut]) for place in range(len(cut[0]))]


def column(parts: list[str]) -> tuple[str, list[str]] | None:
    """Return the words that parts have in common, and what is left of each: its number, or all of it."""
    found = [list(NUMBER.finditer(part)) for part in parts]
    if not any(found):
        return "", parts
    if not all(found):
        return None
    same = len({some[0][0] for some in found}) == 1  # a number that is always the same belongs to the words
    for place in (-1, 0) if same else (0, -1):
        ones = [some[place] for some in found]
        words = [(part[:one.start()].strip(), part[one.end():].strip()) for part, one in zip(parts, ones, strict=True)]
        told = [re.sub("^and ", "", " … ".join(filter(None, one))) for one in words]
        some = all(told) or not any(NUMBER.search(one) for one in told)
        if some and len({re.sub(r"s\b", "", one) for one in told} - {""}) <= 1 and not NUMBER.fullmatch(told[0]):
            return max(told), [one[0] for one in ones]
    return None
