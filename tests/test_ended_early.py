"""A test run that is ended before its end leaves nothing behind: no worker, and nothing that a test has started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = """import os, subprocess, sys, time
import pytest

@pytest.mark.parametrize("number", range(2))
def test_that_waits_for_what_it_has_started(number):
    with open(f"pid {os.getpid()}", "w"):
        code = "import os, time; open(f'pid {os.getpid()}', 'w').close(); time.sleep(1000)"
        subprocess.run([sys.executable, "-c", code], timeout=1000)
"""
PATIENCE = 60


def pids(folder: Path) -> list[int]:
    return [int(path.name.split()[1]) for path in folder.glob("pid *")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell which processes there are")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=lambda end: end.name)
def test_ended_early_it_leaves_no_process(tmp_path, end):
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "."]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    deadline = time.monotonic() + PATIENCE
    while len(pids(tmp_path)) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    started = pids(tmp_path)
    os.kill(running.pid, end)  # pytest alone, not its workers
    running.wait(PATIENCE)
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in started if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert (len(started), left) == (4, [])
