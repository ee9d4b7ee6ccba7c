"""A chapter as a script for torchrun, and a Slurm file beside it: a learner's answers and the main demo."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from shlex import quote

from nbformat import NotebookNode

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, find, read, tagged, tags
from exercises_tests.tools.copies import copies, digest, shown, write

MARK = "# Written by make script; it is not overwritten once edited (digest {}).\n"

SCRIPT = '''"""{title}: your answers and the chapter's main demo.

    torchrun --standalone --nproc-per-node={ranks} {name}.py
"""
{mark}
import os

{imports}


def print_once(value):
    """Print what a notebook shows of a cell's last line, on one rank only."""
    if value is not None and os.environ.get("RANK", "0") == "0":
        print(value)


{answers}


if __name__ == "__main__":
{demo}
'''

SLURM = """#!/bin/bash
{mark}
# {title}, on {ranks} ranks. Submit it from its own folder, with the course's Python first in the path:
#     source ../.venv/bin/activate; sbatch {name}.slurm
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={ranks_per_node}
{gpus}#SBATCH --time=00:10:00
#SBATCH --output=%x-%j.out

# One torchrun on each node starts that node's ranks; all of them meet at the first node.
set -euo pipefail
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
port=$((20000 + SLURM_JOB_ID % 20000))
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
    torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node={ranks_per_node} --rdzv-id="$SLURM_JOB_ID" \\
    --rdzv-backend=c10d --rdzv-endpoint="$first_node:$port" {name}.py
"""


def write_script(name: str, root: Path = ROOT, force: bool = False) -> list[str]:
    """Write work/<chapter>.py and .slurm from the learner's copy; return what was done and how to run it."""
    chapter = learners_copy(find(name, root), root)
    trees = {cell.get("id"): parsed(cell, chapter) for tag in ("imports", "exercise", "script")
             for cell in tagged(chapter.notebook, tag)}
    demo = tagged(chapter.notebook, "script")
    if not demo:
        raise ChapterError(f"{chapter.name} has no cell tagged script, so there is no demo to run under torchrun.")
    if missing := unsolved(chapter.notebook, trees):
        raise ChapterError(f"The demo of {chapter.name} needs {', '.join(missing)}: write it in "
                           f"{shown(chapter.path, root)}, or borrow it, and save the notebook.")
    ranks = max(asked_ranks([trees[cell.get("id")] for cell in demo]), default=4)
    nodes = 2 if ranks % 2 == 0 else 1
    facts = {"title": chapter.title, "name": chapter.name, "ranks": ranks, "nodes": nodes, "mark": "{mark}",
             "ranks_per_node": ranks // nodes}
    script = SCRIPT.format(
        **facts, imports=joined(tagged(chapter.notebook, "imports"), "\n"),
        answers=joined(tagged(chapter.notebook, "exercise"), "\n\n\n"),
        demo="\n\n".join(indented(printing_last(cell.source, trees[cell.get("id")])) for cell in demo))
    gpus = f"#SBATCH --gpus-per-node={ranks // nodes}\n" if '"nccl"' in script else ""
    work = root / "work"
    written = {work / f"{chapter.name}.py": script, work / f"{chapter.name}.slurm": SLURM.format(**facts, gpus=gpus)}
    for path in written:
        if not force and path.exists() and not untouched(path):
            raise ChapterError(f"{shown(path, root)} was edited or not written by make script; "
                               "move it away, or overwrite it with ARGS=--force.")
    for path, text in written.items():
        write(path, sealed(text))
    programs = Path(sys.executable).parent
    slurm = f'PATH={quote(str(programs))}:"$PATH" sbatch {chapter.name}.slurm'
    return [f"Wrote {' and '.join(shown(path, root) for path in written)}. To run it from this folder, copy a line:",
            f"  {torchrun(programs, root)} --standalone --nproc-per-node={ranks} work/{chapter.name}.py",
            f"  cd work && {slurm}    # on a cluster with Slurm"]


def torchrun(programs: Path, root: Path) -> str:
    """Return how a shell in the course's folder finds the torchrun of this Python, whether activated or not."""
    path = programs / "torchrun"
    if not path.exists():  # of another installation, as where packages were installed for one user
        return f"{quote(sys.executable)} -m torch.distributed.run"
    return quote(str(path.relative_to(root)) if path.is_relative_to(root) else str(path))


def learners_copy(chapter: Chapter, root: Path) -> Chapter:
    """Return the learner's copy of a chapter: the one of that file name, or the only one of that metadata."""
    own = root / "work" / f"{chapter.name}.ipynb"
    if own.exists():
        return read(own)
    found = []
    for path in copies(root):
        try:
            found += [copy for copy in [read(path)] if copy.name == chapter.name]
        except ChapterError:
            continue  # another notebook, not the one that was asked for
    if len(found) != 1:
        names = " and ".join(shown(copy.path, root) for copy in found)
        raise ChapterError(f"{names} are all copies of {chapter.name}: rename one to {own.name}." if found else
                           f"work/ has no copy of {chapter.name}: make lab makes one.")
    return found[0]


def parsed(cell: NotebookNode, chapter: Chapter) -> ast.Module:
    if "id" not in cell:
        raise ChapterError(f"{chapter.path} has lost its cells' names (some editors drop them): move it away, "
                           "let make lab make a new copy, and put your answers there.")
    try:
        return ast.parse(cell.source)
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ChapterError(f"{chapter.path}: cell {cell.get('id')}{where} is not plain Python "
                           f"({getattr(error, 'msg', error)}); a script cannot hold % or ! lines.") from None


def unsolved(notebook: NotebookNode, trees: dict[str, ast.Module]) -> list[str]:
    """Return the exercises that are still stubs and that the demo uses, directly or through another answer."""
    exercises = [cell.get("id") for cell in tagged(notebook, "exercise")]
    demo = tagged(notebook, "script")
    asked = {tag.removeprefix("needs-") for cell in demo for tag in tags(cell) if tag.startswith("needs-")}
    for cell in demo:
        asked |= names(trees[cell.get("id")])
    needed: set[str] = set()
    while extra := (asked & set(exercises)) - needed:
        needed |= extra
        for name in extra:
            asked |= names(trees[name])
    return [name for name in exercises if name in needed and is_stub(trees[name])]


def names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def is_stub(tree: ast.Module) -> bool:
    """Return whether a cell is empty, or a function or method in it still ends in `raise NotImplementedError`."""
    ends = [node.body[-1] for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return not tree.body or any(isinstance(end, ast.Raise) and "NotImplementedError" in names(end) for end in ends)


def asked_ranks(trees: list[ast.Module]) -> list[int]:
    """Return the number of ranks of every call of `run` that uses real ranks."""
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [{word.arg: word.value for word in call.keywords} for call in calls]
    return [words["ranks"].value for words in calls if isinstance(words.get("ranks"), ast.Constant)
            and isinstance(words["ranks"].value, int) and words["ranks"].value > 0
            and (isinstance(words.get("on"), ast.Constant) or "on" not in words)]


def printing_last(source: str, tree: ast.Module) -> str:
    """Return a cell's source with its last expression printed, as a notebook would, unless it ends in a semicolon."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or last.col_offset or source.rstrip().endswith(";"):
        return source
    lines = source.splitlines()
    lines[last.lineno - 1] = "print_once(" + lines[last.lineno - 1]
    end = last.end_lineno - 1
    column = last.end_col_offset + (len("print_once(") if last.end_lineno == last.lineno else 0)
    encoded = lines[end].encode()
    lines[end] = encoded[:column].decode() + ")" + encoded[column:].decode()
    return "\n".join(lines)


def indented(source: str) -> str:
    """Return a source one level in, the inside of strings over several lines left as it is."""
    inside = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            inside |= set(range(node.lineno + 1, node.end_lineno + 1))
    return "\n".join(line if number in inside or not line else "    " + line
                     for number, line in enumerate(source.splitlines(), 1))


def joined(cells: list[NotebookNode], between: str) -> str:
    return between.join(cell.source.strip("\n") for cell in cells)


def sealed(text: str) -> str:
    """Return a text whose {mark} line holds a digest of the rest."""
    before, after = text.split("{mark}\n", 1)
    return before + MARK.format(digest(before + after)) + after


def untouched(path: Path) -> bool:
    """Return whether a file is exactly as make script wrote it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    mark = re.search(re.escape(MARK).replace(r"\{\}", "([0-9a-f]+)"), text)
    return mark is not None and mark[1] == digest(text[:mark.start()] + text[mark.end():])
