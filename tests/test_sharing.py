"""Simulations that take turns in one process: each is as if alone, and one that leaves something behind is the last."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from course_lib import Cluster, Deadlock, RankFailed, each, run
from course_lib.engine.processes.launcher import LAUNCHER

COUNT = 0


def process(dist):
    return os.getpid()


def simulate(fn, *args, ranks=2, **more):
    return run(fn, *args, ranks=ranks, on=Cluster(), **more)


@pytest.fixture(autouse=True)
def sharing():
    with LAUNCHER.sharing():
        yield


def test_simulations_that_end_well_share_a_process():
    assert len({simulate(process)[0] for _ in range(3)}) == 1


def test_outside_of_the_block_none_is_left():
    with LAUNCHER.sharing():
        pid = simulate(process)[0]
    assert simulate(process)[0] == pid  # the inner block is part of the outer one
    LAUNCHER.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_each_has_its_own_copy_of_globals_and_arguments():
    def count(dist, mine):
        global COUNT
        COUNT += 1
        mine.append(dist.get_rank())
        return COUNT, mine

    shared = []
    assert [simulate(count, shared)[1] for _ in range(3)] == [(1, [1])] * 3


def test_each_draws_the_same_random_numbers():
    def draw(dist):
        torch.rand(700), np.random.rand(700), [random.random() for _ in range(700)]
        return torch.rand(1).item(), np.random.rand(), random.random()

    first, second = simulate(draw)[:], simulate(draw)[:]
    assert first == second and first[0] != first[1]


def test_each_begins_at_time_zero_with_no_events():
    def pair(dist, tensor):
        (dist.send if dist.get_rank() == 0 else dist.recv)(tensor, 1 - dist.get_rank())

    runs = [simulate(pair, torch.ones(5)) for _ in range(2)]
    assert runs[0].events == runs[1].events and runs[0].seconds == runs[1].seconds


def test_another_number_of_ranks_and_another_cluster_are_no_matter():
    def rank(dist, mine):
        dist.barrier()
        return dist.get_rank() + mine

    for ranks in (3, 1, 5):
        trace = run(rank, each(list(range(ranks))), ranks=ranks, on=Cluster(latency=ranks))
        assert trace[:] == [2 * r for r in range(ranks)]
        assert trace.seconds == ranks * max(0, ranks - 1).bit_length()


def leave_a_thread(dist):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def leave_a_process(dist):
    subprocess.Popen(["sleep", "1000"])


def leave_a_file(dist):
    globals()["KEPT"] = os.open(os.devnull, os.O_RDONLY)


def change_the_dtype(dist):
    torch.set_default_dtype(torch.float64)


def change_a_function(dist):
    torch.add = torch.sub


def change_a_class(dist):
    torch.Tensor.add = torch.Tensor.sub


def change_the_course(dist):
    sys.modules["course_lib.algorithms"].ring_all_reduce = None


LEAVING = [leave_a_thread, leave_a_process, leave_a_file, change_the_dtype, change_a_function, change_a_class,
           change_the_course]


@pytest.mark.parametrize("leaves", LEAVING, ids=lambda fn: fn.__name__)
def test_after_one_that_leaves_something_behind_comes_another_process(leaves):
    before = simulate(process)[0]
    simulate(leaves)
    assert simulate(process)[0] != before


def test_what_is_set_anew_for_each_may_be_changed():
    def change(dist):
        os.environ["MINE"] = "1"
        os.chdir("/")
        sys.path.append("/nowhere")
        random.random = lambda: 4
        return os.getpid()

    assert simulate(change)[0] == simulate(process)[0]
    found = simulate(lambda dist: ("MINE" in os.environ, os.getcwd(), "/nowhere" in sys.path, random.random() == 4))
    assert found[0] == (False, os.getcwd(), False, False)


def note(folder):
    (folder / str(os.getpid())).touch()


def fail(dist, folder):
    note(folder)
    raise ValueError("no")


def die(dist, folder):
    note(folder)
    os._exit(3)


def hang(dist, folder):
    note(folder)
    while True:
        pass


def wait_in_a_circle(dist, folder):
    note(folder)
    dist.recv(torch.ones(1), 1 - dist.get_rank())


FAILING = {fail: "raised ValueError: no", die: "exit code 3", hang: "still going on after 500 ms",
           wait_in_a_circle: "no rank can go on"}


@pytest.mark.parametrize("fails", FAILING, ids=lambda fn: fn.__name__)
def test_one_that_fails_is_run_again_alone_and_told_as_alone(fails, tmp_path):
    with pytest.raises(RankFailed) as alone:
        simulate(fails, tmp_path, timeout=0.5)
    assert len(list(tmp_path.iterdir())) == 1  # it was the first in its process
    simulate(process)
    with pytest.raises(RankFailed, match=FAILING[fails]) as told:
        simulate(fails, tmp_path, timeout=0.5)
    assert str(told.value) == str(alone.value)
    assert isinstance(told.value, Deadlock) == (fails is wait_in_a_circle)
    assert len(list(tmp_path.iterdir())) == 3  # in the process of another, and alone


def test_real_ranks_in_between_are_no_matter():
    pid = simulate(process)[0]
    assert run(lambda dist: dist.get_rank(), ranks=2)[:] == [0, 1]
    assert simulate(process)[0] == pid


def test_a_process_that_was_killed_beside_real_ranks_is_replaced():
    pid = simulate(process)[0]

    def kill(dist):
        if dist.get_rank() == 0:
            os.kill(pid, signal.SIGKILL)
        dist.barrier()

    run(kill, ranks=2)
    assert simulate(process)[0] != pid


def test_where_the_fork_server_was_killed_meanwhile_the_next_simulation_has_a_new_one():
    pid = simulate(process)[0]
    LAUNCHER._fork_server.kill()
    LAUNCHER._fork_server.wait()
    assert simulate(process)[0] != pid


def test_an_interrupt_ends_the_process_and_the_next_run_works():
    pid = simulate(process)[0]

    def loop(dist, parent):
        os.kill(parent, signal.SIGINT)
        while True:
            pass

    with pytest.raises(KeyboardInterrupt):
        simulate(loop, os.getpid())
    assert simulate(process)[0] != pid


def test_a_process_that_was_killed_meanwhile_is_replaced():
    pid = simulate(process)[0]
    os.kill(pid, signal.SIGKILL)
    assert simulate(process)[0] != pid
