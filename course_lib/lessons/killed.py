"""Two real disasters under torchrun: a worker that is killed, and a machine that goes away with its agent.

Machines are agents of their own on this one. Every process that is started here is ended here, also where torchrun
would leave it behind: workers are in sessions of their own, and outlive an agent that is killed.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from course_lib.lessons.torchrun import LOOPBACK

AGENT = r"failed \(exitcode: .+?\) local_rank: \d+ \(pid: \d+\)|Sending process \d+ closing signal \w+"
SPEAKS = r"rank \d+ of \d+.*?(?=rank \d+ of|$)"  # what two ranks say may meet on one line
SCRIPT = '''\
import os, signal
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, ranks, life = dist.get_rank(), dist.get_world_size(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
me, weight, step = f"rank {rank} of {ranks}", torch.zeros(1), 0
if os.path.exists("checkpoint.pt"):
    weight, step = torch.load("checkpoint.pt").values()
elif ranks < 2:
    signal.pause()  # the other machine is still on its way: its agent will have us started again
print(f"{me}: process {os.getpid()} begins with step {step}", flush=True)
while step < 8:
    if step == 7 and life == 0 and rank == 1:
        print(f"{me}: DISASTER in step {step}", flush=True)
        signal.pause()  # as a hung machine: it does nothing more until it is killed
    gradient = torch.full((1,), float(step + rank))  # each rank has data of its own
    dist.all_reduce(gradient)
    weight, step = weight - 0.1 * gradient / ranks, step + 1
    if rank == 0 and step % 2 == 0:
        with open("checkpoint.new", "wb") as file:
            torch.save({"weight": weight, "step": step}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace("checkpoint.new", "checkpoint.pt")
print(f"{me}: done, {step} steps, weight {weight.item():.2f}", flush=True)
dist.barrier()
os._exit(0)  # gloo's threads need not be waited for
'''


def kill_a_worker() -> list[str]:
    """Have torchrun start two ranks, kill rank 1 in step 7, and show how both begin again; return what was said."""
    return _show(1, ["--standalone", "--nproc-per-node=2", "--max-restarts=1"])


def kill_a_machine() -> list[str]:
    """Start two agents with a rank each, kill one with its rank, and show how the other goes on alone."""
    elastic = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=two"]
    quickly = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
    return _show(2, [*elastic, "--rdzv-endpoint={folder}/meet", f"--rdzv-conf=store_type=file,{quickly}"])


def _show(agents: int, options: list[str]) -> list[str]:
    """Start agents, kill what the disaster takes away, print the lines in which a rank speaks, and leave nothing."""
    begun, said = time.time(), []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT)
        command = [sys.executable, "-m", "torch.distributed.run", "--local-addr=localhost", "--monitor-interval=0.1"]
        command += [option.format(folder=folder) for option in options] + ["train.py"]
        # A store that workers share over restarts still has the addresses of the dead: pytorch/pytorch#135712
        env = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": folder, "GLOO_SOCKET_IFNAME": LOOPBACK,
                            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # fmt: skip
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=folder,
                                    start_new_session=True) for _ in range(agents)]  # fmt: skip
        everything: list[str] = []
        try:
            for agent, line in _lines(started, begun):
                everything.append(line)
                for logged in re.findall(AGENT, line):
                    _print(begun, f"    agent: {logged}")
                for told in re.findall(SPEAKS, line):
                    said.append(told.strip())
                    _print(begun, told.strip())
                    if "DISASTER" in told:
                        _print(begun, "    now we kill " + ("it and its agent" if agents > 1 else "it"))
                        victim = int(re.search(r"rank 1 of 2: process (\d+)", "\n".join(reversed(said)))[1])
                        _kill(started[agent].pid if agents > 1 else 0, victim)
            codes = [agent.wait() for agent in started]
        finally:  # also when interrupted
            for agent in started:
                _kill(agent.pid if agent.poll() is None else 0)
                agent.wait()
                agent.stdout.close()
    if 0 not in codes:
        raise RuntimeError("\n".join(["torchrun gave up:", *everything[-30:]]))
    return said


def _print(begun: float, words: str) -> None:
    print(f"{time.time() - begun:5.1f} s   {words}", flush=True)


def _kill(agent: int, *others: int) -> None:
    """Kill an agent with all processes that it has started, and others; none of them can start a new one meanwhile."""
    found = []
    if agent:
        os.kill(agent, signal.SIGSTOP)
        found = [process.pid for process in psutil.Process(agent).children(recursive=True)]
    for process in dict.fromkeys([*others, *found, agent]):
        if process:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _lines(agents: list[subprocess.Popen], begun: float) -> Iterator[tuple[int, str]]:
    """Yield (agent, line) as they come, until all are silent; say every 10 s what is waited for."""
    rest = {agent.stdout.fileno(): (number, b"") for number, agent in enumerate(agents)}
    quiet = 0
    while rest:
        ready = select.select(list(rest), [], [], 1.0)[0]
        quiet = 0 if ready else quiet + 1
        if quiet % 10 == 5:
            _print(begun, "    (new processes import torch)")
        for descriptor in ready:
            number, begin = rest[descriptor]
            news = os.read(descriptor, 65536)
            *whole, end = (begin + news).split(b"\n") if news else [begin, b""]
            rest[descriptor] = number, end
            for line in whole:
                yield number, line.decode(errors="replace")
            if not news:
                del rest[descriptor]
