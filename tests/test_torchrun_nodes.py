"""The chapters' demos on two nodes: two torchrun agents on this machine, meeting in a file."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from caught_up import ALL, caught_up, learners_folder

from exercises_tests.tools.chapters import ROOT, chapters, solved
from exercises_tests.tools.copies import write
from exercises_tests.tools.torchrun_script import write_script

SECONDS = 600
DEMOS = [chapter for chapter in chapters() if chapter.name[:4] in ("ch03", "ch04", "ch07")]


def agents(folder: Path, ranks_per_node: int, *script: str) -> list[str]:
    """Start two agents that know nothing of each other but a file; return what each printed."""
    meeting = folder / f"meeting-{ranks_per_node}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={ranks_per_node}",
               "--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={meeting}",
               "--rdzv-id=two-nodes", "--local-addr=127.0.0.1", *script]
    # On two nodes the course leaves the interface to gloo; here it is told, as a machine's name may lead elsewhere.
    loopback = "lo" if sys.platform == "linux" else "lo0"
    environ = os.environ | {"GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(command, cwd=folder, env=environ, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True) for _ in range(2)]
    try:
        printed = [agent.communicate(timeout=SECONDS)[0] for agent in started]
        assert [agent.returncode for agent in started] == [0, 0], "\n".join(printed)
        return printed
    finally:
        for agent in started:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)


def test_the_slurm_file_starts_one_torchrun_on_each_node(tmp_path):
    (tmp_path / "work").mkdir()
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    write(tmp_path / "work" / f"{DEMOS[0].name}.ipynb", solved(DEMOS[0]))
    write_script(DEMOS[0].name, tmp_path)
    for name, does in {"scontrol": "printf 'node1\\nnode2\\n'", "srun": 'echo "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    job = {"JOB_NODELIST": "node[1-2]", "JOB_NUM_NODES": "2", "JOB_ID": "7", "CPUS_PER_TASK": "1"}
    environ = os.environ | {f"SLURM_{name}": value for name, value in job.items()}
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    done = subprocess.run(["bash", f"work/{DEMOS[0].name}.slurm"], cwd=tmp_path, env=environ, capture_output=True,
                          text=True, timeout=600)
    assert done.stdout.split() == [
        "--cpus-per-task=1", "torchrun", "--nnodes=2", "--nproc-per-node=1", "--rdzv-id=7", "--rdzv-backend=c10d",
        "--rdzv-endpoint=node1:20007", f"{DEMOS[0].name}.py"]


def test_the_demos_of_chapters_3_4_and_7_run_on_two_nodes_also_with_borrowed_answers(tmp_path):
    learners_folder(tmp_path)
    (tmp_path / "all.py").write_text(ALL)
    scripts: list[tuple[int, str]] = []
    for chapter in DEMOS:
        caught_up(chapter, tmp_path)
        write_script(chapter.name, tmp_path)
        slurm = (tmp_path / "work" / f"{chapter.name}.slurm").read_text()
        assert "#SBATCH --nodes=2\n" in slurm
        ranks_per_node = int(re.search(r"--nproc-per-node=(\d+)", slurm)[1])
        scripts.append((ranks_per_node, f"work/{chapter.name}.py"))
    scripts.sort(reverse=True)
    words = [str(word) for script in scripts for word in script]
    printed = agents(tmp_path, scripts[0][0], "all.py", *words)
    assert sum(bool(text.strip()) for text in printed) == 1, "rank 0 alone prints:\n" + "\n".join(printed)
