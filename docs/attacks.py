"""Writes docs/attacks.md: which attacks win in a learner's kernel, under nbval, and under the judge.

python docs/attacks.py (about ten minutes; needs bubblewrap). Nothing of an attack runs outside a sandbox: kernels and
nbval run in one too, with limits, since attacks on them reach whatever their user reaches. What is known already is
kept in work/attacks.json, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from exercises_tests.grading import grader, judge, sandbox
from exercises_tests.tools.chapters import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import attacked_course  # noqa: E402
from attacks import DOUBLE, TOTAL  # noqa: E402

KNOWN = ROOT / "work" / "attacks.json"
SECONDS = 90  # for one notebook in a kernel or under nbval
ENDLESS = ("without end", "fills the disk", "kills everybody", "kills all", "processes it may have", "many processes")
"""Attacks on the machine itself, which a kernel has no protection against; not tried there."""
CONFINED = """
import os, resource, shutil, sys
from exercises_tests.grading import namespaces as apart
for number in map(int, sys.argv[2:]):
    os.setgroups([]); os.setresgid(number, number, number); os.setresuid(number, number, number)
apart.apart()
if child := apart.fork_first(os.pidfd_open(os.getpid())):
    apart._keep(child)
apart.alone(meets_others=True)
for limit, most in (("AS", 4 << 30), ("FSIZE", 64 << 20), ("NPROC", 256), ("CPU", 120), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (most, most))
shutil.copy({book!r}, "/scratch/chapter.ipynb")
"""
KERNEL = """
import json, nbformat
from nbclient import NotebookClient
book = nbformat.read('/scratch/chapter.ipynb', 4)
try:
    NotebookClient(book, allow_errors=True, timeout=20).execute()
except Exception:
    print(json.dumps(False)); sys.exit()
cell = next(c for c in book.cells if c.id == sys.argv[1])
ran = cell.get('execution_count') is not None
print(json.dumps(ran and not any(o.output_type == 'error' for o in cell.outputs)))
"""
NBVAL = """
import json, subprocess
words = ['--nbval-lax', '--nbval-cell-timeout=20', '-q', '-rA', '-p', 'no:cacheprovider', '/scratch/chapter.ipynb']
run = subprocess.run([sys.executable, '-m', 'pytest', *words], capture_output=True, text=True, cwd='/scratch')
print(json.dumps(any(line.startswith('PASSED') and line.endswith(sys.argv[1]) for line in run.stdout.splitlines())))
"""


def tried(room: str, cells: dict[str, str], check: str, program: str) -> bool:
    """Return whether a check passes when `program` runs the notebook in a sandbox, under limits."""
    folder = Path(tempfile.mkdtemp(dir=room))
    try:
        book = folder / "chapter.ipynb"
        book.write_text(json.dumps(attacked_course.notebook(attacked_course.RIGHT | cells)))
        folder.chmod(0o755)
        code = CONFINED.format(book=str(book)) + program
        command = [*sandbox.prefix(room), sys.executable, "-c", code, check, *sandbox._user()]
        with tempfile.TemporaryFile("w+") as out:  # not a pipe, which a process left behind would keep open
            running = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(SECONDS)
            running.kill()
            running.wait()
            out.seek(0)
            return out.read(1 << 20).strip().endswith("true")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judged(root: Path, top: Path, attacks: list[tuple[str, str, str]]) -> dict[str, bool]:
    """Return which attacks earn points of the judge's."""
    folder = top / "submissions"
    for name, exercise, cell in attacks:
        attacked_course.submit(folder, name, {exercise: cell})
    records = grader.grade_class(folder, top / "grades", jobs=2, seconds=8, root=root, sandboxed=True)
    earned = {(r["learner"], x["exercise"]): x["earned"] for r in records for x in r["results"]}
    return {name: earned[name, exercise] > 0 for name, exercise, _ in attacks}


def main() -> None:
    attacks = [(name, "total", cell) for name, cell in TOTAL.items()]
    attacks += [(name, "double", cell) for name, cell in DOUBLE.items()]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    columns: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        root = attacked_course.make(Path(top, "course"))
        wins = judged(root, Path(top), attacks)
        room = judge.room(root)["PYTHONPATH"]
        compileall.compile_dir(room, quiet=2)
        right = {"kernel": KERNEL, "nbval": NBVAL}
        for column, program in right.items():  # or a dash would mean nothing
            assert tried(room, {}, "check_total", program), f"right answers do not pass in the column {column}"

        def fill(one: tuple[tuple[str, str, str], str]) -> None:
            (name, exercise, cell), column = one
            key = hashlib.sha256("\n".join((column, exercise, cell, CONFINED, right[column])).encode()).hexdigest()
            if any(word in name for word in ENDLESS):
                columns[name, column] = "not tried"
                return
            if key not in known:
                known[key] = tried(room, {exercise: cell}, f"check_{exercise}", right[column])
                KNOWN.parent.mkdir(exist_ok=True)
                KNOWN.write_text(json.dumps(known))
            columns[name, column] = "wins" if known[key] else "–"

        todo = [(attack, column) for attack in attacks for column in right]
        try:
            with ThreadPoolExecutor(2) as pool:
                list(tqdm(pool.map(fill, todo), total=len(todo), unit="notebook"))
        finally:
            shutil.rmtree(room)
    write([(name, columns[name, "kernel"], columns[name, "nbval"], wins[name]) for name, _, _ in attacks])


def write(rows: list[tuple[str, str, str, bool]]) -> None:
    wins = [sum(row[column] in ("wins", True) for row in rows) for column in (1, 2, 3)]
    lines = [
        "# Which attacks win where",
        "",
        f"{len(rows)} submissions that try to earn points their answer did not earn (tests/attacks.py), as",
        "docs/attacks.py found them. *wins*: the check passed, or the judge gave a point. In the first two columns",
        "the notebook ran in a sandbox with limits, so attacks on files and processes found less there than they would",
        "on a learner's machine; those on the machine itself were not tried there. What the judge does about each kind",
        "is in [grading.md](grading.md).",
        "",
        "| attack | learner's kernel | nbval | judge |",
        "|---|---|---|---|",
        *(f"| {name} | {kernel} | {nbval} | {'wins' if judge_ else '–'} |" for name, kernel, nbval, judge_ in rows),
        f"| **all** | **{wins[0]}** | **{wins[1]}** | **{wins[2]}** |",
    ]
    (ROOT / "docs" / "attacks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
