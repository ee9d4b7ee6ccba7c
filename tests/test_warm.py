"""A notebook's kernel that is forked from a warm process finds what it would find in one that was started anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest
import warm
from judged import judge
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each kernel starts anew")

SECONDS = 30
TELL = """import json, os, random, signal, sys
modules = list(sys.modules)
import numpy
signals = [str(signal.getsignal(number)) for number in signal.valid_signals()]
blocked = list(signal.pthread_sigmask(signal.SIG_BLOCK, []))
told = {"found": [os.environ | {"JPY_PARENT_PID": ""}, os.getcwd(), sys.path, sys.argv[:-1], signals, blocked,
                  os.getsid(0) == os.getpid()],
        "modules": modules, "drawn": [random.random(), numpy.random.random()]}
with open("told", "a") as file:
    print(json.dumps(told), file=file)
"""
KILL = "import os, signal; print(os.getpid(), file=open('pid', 'w')); os.kill(os.getppid(), signal.SIGKILL)"


def run(folder: Path, source: str):
    course = {"course": {"chapter": "ch99_small"}}
    write(new_notebook(cells=[new_code_cell(source, id="one")], metadata=course), folder / "small.ipynb")
    return judge(folder / "small.ipynb")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What two forked kernels, and then one that was started anew, tell of themselves."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "/here")
        run(folder, TELL)
        run(folder, TELL)
        patch.setattr(warm, "server", lambda: None)
        run(folder, TELL)
    return [json.loads(line) for line in (folder / "told").read_text().splitlines()]


def test_a_forked_kernel_has_the_environment_folder_paths_session_and_signals_of_one_started_anew(told):
    forked, _, anew = told
    assert forked["found"] == anew["found"]


def test_in_a_forked_kernel_torch_is_imported_and_nothing_of_the_course(told):
    forked, _, anew = ({name.partition(".")[0] for name in one["modules"]} for one in told)
    assert "torch" in forked - anew and not {"course_lib", "exercises_tests"} & forked


def test_two_forked_kernels_draw_different_random_numbers(told):
    assert len({number for one in told for number in one["drawn"]}) == 6


def test_after_a_notebook_no_fork_is_left(told):
    commands = [process.cmdline() for process in psutil.Process().children(recursive=True)]
    assert len([words for words in commands if warm.__file__ in words]) == 1


def test_a_forked_kernel_ends_when_what_started_it_is_killed(tmp_path):
    with pytest.raises(AssertionError):  # there are no results
        run(tmp_path, KILL)
    pid = int((tmp_path / "pid").read_text())
    if psutil.pid_exists(pid):
        psutil.Process(pid).wait(SECONDS)
    assert not psutil.pid_exists(pid)
