"""Writes docs/attacks.md: which attacks win in a learner's kernel, under nbval, and under the judge.

python docs/attacks.py (about ten minutes; needs bubblewrap, in which kernels and nbval run here, since attacks on them
reach whatever their user reaches).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from exercises_tests import grader, judge, sandbox
from exercises_tests.chapters import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import attacked_course  # noqa: E402
from attacks import DOUBLE, TOTAL  # noqa: E402

ENDLESS = ("without end", "fills the disk", "kills everybody")
"""Attacks on the machine itself, which a kernel has no protection against; not tried there."""
KERNEL = """
import json, sys, nbformat
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
import json, os, subprocess, sys
words = ['--nbval-lax', '--nbval-cell-timeout=20', '-q', '-rA', '/scratch/chapter.ipynb']
run = subprocess.run([sys.executable, '-m', 'pytest', *words], capture_output=True, text=True, cwd='/scratch')
print(json.dumps(any(line.startswith('PASSED') and line.endswith(sys.argv[1]) for line in run.stdout.splitlines())))
"""


def tried(room: str, cells: dict[str, str], check: str, program: str) -> bool:
    """Return whether a check that should fail passes when `program` runs the notebook in a sandbox."""
    book = Path(tempfile.mkdtemp(dir=room))
    try:
        text = json.dumps(attacked_course.notebook(attacked_course.RIGHT | cells))
        (book / "chapter.ipynb").write_text(text)
        book.chmod(0o755)
        copy = f"import shutil; shutil.copy('{book}/chapter.ipynb', '/scratch/chapter.ipynb')\n"
        command = [*sandbox.prefix(room), sys.executable, "-c", copy + program, check]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.stdout.strip().endswith("true")
    except subprocess.TimeoutExpired:
        return False
    finally:
        shutil.rmtree(book, ignore_errors=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        root = attacked_course.make(Path(top, "course"))
        room = judge.room(root)["PYTHONPATH"]
        folder = Path(top, "submissions")
        attacks = [(name, "total", cell) for name, cell in TOTAL.items()]
        attacks += [(name, "double", cell) for name, cell in DOUBLE.items()]
        for name, exercise, cell in attacks:
            attacked_course.submit(folder, name, {exercise: cell})
        records = grader.grade_class(folder, Path(top, "grades"), jobs=2, seconds=8, root=root, sandboxed=True)
        judged = {(r["learner"], x["exercise"]): x["earned"] > 0 for r in records for x in r["results"]}

        def row(attack: tuple[str, str, str]) -> tuple[str, list[str]]:
            name, exercise, cell = attack
            columns = []
            for program in (KERNEL, NBVAL):
                if any(word in name for word in ENDLESS):
                    columns.append("not tried")
                else:
                    columns.append("wins" if tried(room, {exercise: cell}, f"check_{exercise}", program) else "–")
            columns.append("wins" if judged[name, exercise] else "–")
            return name, columns

        with ThreadPoolExecutor(2) as pool:
            rows = list(pool.map(row, attacks))
        shutil.rmtree(room)
    wins = [sum(columns[i] == "wins" for _, columns in rows) for i in range(3)]
    lines = [
        "# Which attacks win where",
        "",
        f"{len(rows)} submissions that try to earn points their answer did not earn (tests/attacks.py), made by",
        "docs/attacks.py. The kernel and nbval columns ran inside a sandbox of their own, so attacks on files and",
        "processes found less there than they would on a learner's machine.",
        "",
        "| attack | learner's kernel | nbval | judge |",
        "|---|---|---|---|",
        *(f"| {name} | {' | '.join(columns)} |" for name, columns in rows),
        f"| **all** | **{wins[0]}** | **{wins[1]}** | **{wins[2]}** |",
    ]
    (ROOT / "docs" / "attacks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
