"""Chapters go on after make catch-up: in a kernel whose folder is work/, and as scripts under torchrun.

A kernel, like a rank, cannot import `solutions` there: what is borrowed has to travel with the functions that use it.
The long chapters are run so by test_notebooks.py.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from caught_up import ALL, LONG, caught_up, learners_folder
from jupyter_client.manager import start_new_kernel
from unsolved import names

from exercises_tests.tools.chapters import chapters, tagged, tags
from exercises_tests.tools.torchrun_script import write_script

CHAPTERS = chapters()
TWO_NODES = ("ch03", "ch04", "ch07")  # tests/test_torchrun_nodes.py runs their scripts
SECONDS = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return learners_folder(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def kernel(folder):
    """One kernel for all chapters, emptied between them: it imports torch, and starts what forks ranks, once."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    manager, client = start_new_kernel(cwd=str(folder / "work"), env=environ)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def execute(client, source: str) -> str:
    """Run a cell; return what it raised, in words, or nothing."""
    reply = client.execute_interactive(source, output_hook=lambda _: None, timeout=SECONDS)["content"]
    return "" if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"


def needed(cells: list) -> list:
    """Return the cells that use an exercise, and those that bind what they use; the rest runs in the solved chapter."""
    chosen, wanted = [], set()
    for cell in reversed(cells):
        now, later, new = set(), set(), set()
        for statement in ast.parse(cell.source).body:
            a, b, c = names(statement)
            now, later, new = now | a - new, later | b, new | c
        uses = any(tag.startswith("needs-") for tag in tags(cell)) and "check" not in tags(cell)
        if uses or "imports" in tags(cell) or new & wanted:
            chosen.insert(0, cell)
            wanted |= now | later
    return chosen


def test_what_a_learners_kernel_has_not_this_one_has_not(kernel):
    assert "No module named 'solutions'" in execute(kernel, "import solutions")


@pytest.mark.parametrize("chapter", [c for c in CHAPTERS if not c.name.startswith(LONG)], ids=lambda one: one.name)
def test_a_chapter_that_was_caught_up_runs_in_a_kernel_in_work(chapter, folder, kernel):
    execute(kernel, "%reset -f")
    cells = [cell for cell in caught_up(chapter, folder).notebook.cells if cell.cell_type == "code"]
    failed = {cell.id: said for cell in needed(cells) if (said := execute(kernel, cell.source))}
    assert failed == {}


def test_the_scripts_of_chapters_that_were_caught_up_run_under_torchrun(folder):
    (folder / "all.py").write_text(ALL)
    scripts: list[tuple[int, str]] = []
    for chapter in CHAPTERS:
        if not chapter.name.startswith(TWO_NODES) and tagged(chapter.notebook, "script"):
            caught_up(chapter, folder)
            told = " ".join(write_script(chapter.name, folder))
            ranks = int(re.search(r"--nproc-per-node=(\d+)", told)[1])
            scripts.append((ranks, f"{chapter.name}.py"))
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    scripts.sort(reverse=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={scripts[0][0]}"]
    words = [str(word) for script in scripts for word in script]
    done = subprocess.run([*command, "../all.py", *words], cwd=folder / "work", env=environ, text=True,
                          capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
