"""torchrun as chapter 0 shows it: lines of both ranks with their seconds, and a failure that says what was printed."""

from __future__ import annotations

import re

import pytest

from course_lib.lessons import torchrun as lesson
from course_lib.lessons.torchrun import torchrun
from course_lib.results import Interrupted


def test_each_ranks_line_comes_with_its_seconds_also_when_two_meet(capsys):
    torchrun('import os, sys; sys.stdout.write(f"rank {os.environ[\'RANK\']} of {os.environ[\'WORLD_SIZE\']}")')
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "  0.0 s   $ torchrun --standalone --nproc-per-node=2 plain.py"
    lines = [line for line in lines if not line.endswith("(Python starts and imports torch)")]
    assert sorted(re.sub(r"^ *[\d.]+ s   ", "", line) for line in lines) == ["rank 0 of 2", "rank 1 of 2"]


def test_a_script_that_fails_says_so():
    with pytest.raises(RuntimeError, match="(?s)nproc-per-node=1 plain.py failed.*no such thing"):
        torchrun("raise SystemExit('no such thing')", ranks=1)


def test_an_interrupted_run_is_one_sentence(monkeypatch):
    def interrupted(pipe):
        raise KeyboardInterrupt

    monkeypatch.setattr(lesson, "_lines", interrupted)
    with pytest.raises(Interrupted, match="plain.py was interrupted after 0 s, and its ranks end"):
        torchrun("", ranks=1)
