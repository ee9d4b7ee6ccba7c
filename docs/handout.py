"""Copies what learners need, without solutions/ and tests/: python docs/handout.py DIR

Only what is listed here is copied, so that nothing that an instructor keeps beside the course gets out. The README of
the copy is the course's, without what stands there between two comments, and with what a learner should know first.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from exercises_tests.tools.chapters import ROOT, ChapterError

FILES = (
    "LICENSE*", "Makefile", "pyproject.toml", "constraints.txt", "environment.yml", "postBuild", ".gitignore",
    ".dockerignore", "notebooks/*.ipynb", "exercises_tests/**/*.py", "exercises_tests/tools/jupyter/**/*.[cj]s*",
    "course_lib/**/*.py", "course_lib/**/*.md", "course_lib/data/*", "docs/star_and_ring*.png", "docs/refused*.png",
    "docs/notebook*.png", "docs/hub/*", "docs/machines.md", "docs/first_look.md", "docs/first_look/*.png",
)
FIRST = """\
*This is a learner's copy: it has no answers in it. So the last hint of an exercise, `borrow`, and `make catch-up` say
that there is nothing to borrow here, until your instructor gives you a file for `solutions/`. You hand in the notebooks
in `work/`; `make submit CHAPTER=ch00` shows beforehand what they would earn.*
"""


def write_handout(folder: Path, force: bool = False, root: Path = ROOT) -> list[str]:
    """Copy the course into a folder; return what was copied. Raises ChapterError for a folder that holds something."""
    if folder.resolve() == root.resolve() or folder.resolve().is_relative_to((root / "notebooks").resolve()):
        raise ChapterError(f"{folder} is the course itself: name another folder, OUT=dir.")
    if folder.exists() and not folder.is_dir():
        raise ChapterError(f"{folder} is a file: name a folder, OUT=dir.")
    if folder.exists() and any(folder.iterdir()) and not force:
        raise ChapterError(f"{folder} is not empty: name another folder, or overwrite what is in it with ARGS=--force.")
    found = copy(FILES, root, folder)
    (folder / "README.md").write_text(readme((root / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
    return sorted(["README.md", *(str(path.relative_to(root)) for path in found)])


def copy(patterns: Iterable[str], root: Path, folder: Path) -> list[Path]:
    """Copy the files of the course that match, each to its place in the folder; return which they are."""
    found = sorted({path for pattern in patterns for path in root.glob(pattern) if path.is_file()})
    for path in found:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)  # with its rights: two of them are programs
    return found


def readme(text: str) -> str:
    """Return the README for a handout."""
    kept = re.sub(r"<!-- not in a handout -->\n.*?<!-- end -->\n", "", text, flags=re.DOTALL)
    title, _, rest = kept.partition("\n\n")
    return f"{title}\n\n{FIRST}\n{rest}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python docs/handout.py", description="Copy the course for learners.")
    parser.add_argument("folder", help="an empty folder, or one that does not exist yet")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier handout")
    options = parser.parse_args(argv)
    try:
        if not options.folder:
            raise ChapterError("Name the folder to write to: make handout OUT=dir")
        copied = write_handout(Path(options.folder), options.force)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
        return 2
    print(f"{len(copied)} files in {options.folder}, without solutions/ and tests/. Learners start with: make lab")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
