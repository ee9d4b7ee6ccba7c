"""A laptop in flight mode: ranks meet, and say nothing about the network."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

NO_NETWORK = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--"]
PROGRAM = """import torch
from course_lib.ranks import run

def total(dist):
    mine = torch.tensor([1.0 + dist.get_rank()])
    dist.all_reduce(mine)
    return mine.item()

if __name__ == "__main__":
    print(list(run(total, ranks=2)))
"""


def test_ranks_need_no_network_and_do_not_warn_without_one(tmp_path):
    if shutil.which("bwrap") is None or subprocess.run([*NO_NETWORK, "true"], capture_output=True).returncode:
        pytest.skip("bubblewrap, which takes the network away, does not start here")
    (tmp_path / "total.py").write_text(PROGRAM)
    done = subprocess.run([*NO_NETWORK, sys.executable, str(tmp_path / "total.py")], capture_output=True, text=True,
                          timeout=600)
    assert (done.stdout, done.stderr) == ("[3.0, 3.0]\n", "")
