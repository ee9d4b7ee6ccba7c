"""Writes a private variant of the course, for who grades for credit: python docs/variant.py DIR --seed SECRET

The answers of the public course can be found by anybody. In a variant exercises have other names, drawn from the seed,
and all numbers that checks draw are others, in the notebooks, the checks and the solutions alike. What that is worth,
and what not, stands in docs/grading.md. Names that are one plain word (`gpipe`, `plan`) stay: the text is full of them.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import shutil
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path

from handout import copy, write_handout

from exercises_tests.seeds import SALT
from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, chapters

ENDINGS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "juniper", "karst", "larch",
           "maple", "north", "osier", "plume", "quartz", "ridge", "slate", "tarn")  # fmt: skip
MORE = ("solutions/*.py", "course.toml", "docs/*.py", "docs/*.md", "docs/*.yml")  # beside a handout's; no tests
_NAMED = re.compile(r"_|[a-z][A-Z]")  # of two words at least, so that it stands for nothing else


def new_names(chapter: Chapter, seed: str) -> dict[str, str]:
    """Return the new name of each exercise of a chapter that gets one: the old one, and a word drawn from the seed."""
    draw, found = random.Random(f"{seed} {chapter.name}"), {}
    for exercise in chapter.exercises:
        ending = draw.choice(ENDINGS)
        if _NAMED.search(exercise.id):
            camel = exercise.id[0].isupper()
            found[exercise.id] = exercise.id + (ending.capitalize() if camel else f"_{ending}")
    return found


def in_text(text: str, names: dict[str, str]) -> str:
    """Return text with the exercises' names replaced; `library.name` is the library's own and stays."""
    if not names:
        return text
    longest = sorted(names, key=len, reverse=True)
    known = re.compile(rf"(?<![.\w])(check_|text_|hints_|needs-)?({'|'.join(longest)})(?!\w)")
    return known.sub(lambda found: (found[1] or "") + names[found[2]], text)


def in_python(text: str, names: dict[str, str]) -> str:
    """Return a module or a cell with the exercises' names replaced, but not where it imports one from the library."""
    imported = {
        name for line in re.findall(r"^from course_lib\S* import (\([^)]*\)|.*)$", text, re.MULTILINE)
        for name in re.findall(r"\w+", line)
    }  # fmt: skip
    mine = {name: new for name, new in names.items() if name not in imported}
    checks = {f"check_{name}": f"check_{new}" for name, new in names.items()}
    try:
        return _tokens(text, mine | checks, names)
    except (tokenize.TokenError, SyntaxError):  # a cell with a magic
        return in_text(text, mine)


def _tokens(text: str, code: dict[str, str], strings: dict[str, str]) -> str:
    lines, before = text.splitlines(keepends=True), ""
    changes: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string in code and before != ".":
            changes.append((token.start, token.end, code[token.string]))
        elif token.type == tokenize.STRING:
            pieces = re.split(r"(\{[^{}]*\})", token.string) if "f" in token.string[:2].lower() else [token.string]
            new = "".join(piece if place % 2 else in_text(piece, strings) for place, piece in enumerate(pieces))
            changes.append((token.start, token.end, new))
        elif token.type == tokenize.COMMENT:
            changes.append((token.start, token.end, in_text(token.string, strings)))
        before = token.string
    for (first, begin), (last, end), new in reversed(changes):
        lines[first - 1:last] = [lines[first - 1][:begin] + new + lines[last - 1][end:]]
    return "".join(lines)


def in_notebook(notebook: dict, names: dict[str, str]) -> dict:
    """Return a notebook with the exercises' names replaced in cells, their ids and their tags."""
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        rename: Callable = in_python if cell["cell_type"] == "code" else in_text
        cell["source"] = rename(text, names).splitlines(keepends=True)
        cell["id"] = in_text(cell["id"], names)
        if "tags" in cell["metadata"]:
            cell["metadata"]["tags"] = [in_text(tag, names) for tag in cell["metadata"]["tags"]]
    return notebook


def write_variant(folder: Path, seed: str, root: Path = ROOT, force: bool = False) -> dict[str, dict[str, str]]:
    """Write the variant; return each chapter's new names. Raises ChapterError for a folder that holds something."""
    if not seed.strip():
        raise ChapterError("A variant needs a secret, SEED=...: the same one makes the same variant again.")
    write_handout(folder, force, root)
    shutil.copy(root / "README.md", folder)  # an instructor's, not a learner's
    copy(MORE, root, folder)
    seeds = folder / "exercises_tests" / "seeds.py"
    salt = f"{random.Random(seed).getrandbits(64):016x}"
    seeds.write_text(seeds.read_text(encoding="utf-8").replace(f"SALT = {json.dumps(SALT)}", f'SALT = "{salt}"', 1),
                     encoding="utf-8")  # fmt: skip
    found = {}
    for chapter in chapters(root):
        names = found[chapter.name] = new_names(chapter, seed)
        path = folder / "notebooks" / chapter.path.name
        notebook = in_notebook(json.loads(path.read_text(encoding="utf-8")), names)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for place in ("exercises_tests", "solutions"):
            path = folder / place / f"{chapter.name}.py"
            path.write_text(in_python(path.read_text(encoding="utf-8"), names), encoding="utf-8")
    return found


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python docs/variant.py", description="Write a variant of the course.")
    parser.add_argument("folder", help="an empty folder, or one that does not exist yet")
    parser.add_argument("--seed", default="", help="a secret of yours")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier variant")
    options = parser.parse_args(argv)
    try:
        if not options.folder:
            raise ChapterError("Name the folder to write to: make variant OUT=dir SEED=...")
        found = write_variant(Path(options.folder), options.seed, force=options.force)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
        return 2
    count = sum(map(len, found.values()))
    print(f"{count} exercises have other names in {options.folder}. Keep it private; learners get its make handout.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
