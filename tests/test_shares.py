"""A file of tests, or a chapter's part of one, is run by one worker: its fixtures are made once."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TESTS = """import os
import pytest

@pytest.mark.parametrize("case", ["ch01-a", "ch01-b", "ch02-a", "ch02-b", "ch02-c", "ch01-c"])
def test_who_runs_it(case):
    with open("ran", "a") as file:
        file.write(f"{os.path.basename(__file__)} {case[:4]} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


def test_a_file_is_run_by_one_worker_or_each_of_its_chapters_is(tmp_path):
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    for name in ("test_one.py", "test_two.py", "test_answers.py"):
        (tmp_path / name).write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    workers = defaultdict(list)
    for line in (tmp_path / "ran").read_text().splitlines():
        name, chapter, worker = line.split()
        workers[name, chapter if name == "test_answers.py" else ""].append(worker)
    assert {share: (len(ran), len(set(ran))) for share, ran in workers.items()} == {
        ("test_one.py", ""): (6, 1), ("test_two.py", ""): (6, 1),
        ("test_answers.py", "ch01"): (3, 1), ("test_answers.py", "ch02"): (3, 1),
    }  # fmt: skip
