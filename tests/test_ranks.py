"""What `run` promises of real ranks: one test a promise."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from course_lib import Cluster, RankFailed, each, run, work
from course_lib.engine import failures, packing, runs
from course_lib.engine.processes import fork_server, launcher, watch

ROOT = Path(__file__).resolve().parent.parent
LONG = 300  # seconds after which something counts as hung
SCALE = 3.0


def total(dist):
    mine = torch.tensor([1.0 + dist.get_rank()])
    dist.all_reduce(mine)
    return mine.item()


def pid_of(dist):
    return os.getpid()


def alive(pid: int) -> bool:
    """Return whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    """Return whether all of these processes end before anybody would call them hung."""
    limit = time.monotonic() + LONG
    while any(map(alive, pids)) and time.monotonic() < limit:
        time.sleep(0.02)
    return not any(map(alive, pids))


def script(tmp_path: Path, text: str, *options: str, module: str = "") -> subprocess.Popen:
    """Start a script in a process group of its own."""
    path = tmp_path / "script.py"
    path.write_text(text)
    command = [sys.executable, *(["-m", module] if module else []), *options, str(path)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COURSE_"))}
    environ["PYTHONPATH"] = str(ROOT)
    return subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


# What comes back


def test_every_rank_returns_its_value_in_rank_order():
    result = run(lambda dist: dist.get_rank() ** 2, ranks=4)
    assert result[:] == [0, 1, 4, 9]


def test_ranks_talk_to_each_other():
    assert run(total)[:] == [10.0] * 4


def test_four_ranks_run_unless_said_otherwise():
    assert len(run(pid_of)) == 4


def test_each_rank_is_a_process_of_its_own():
    pids = run(pid_of, ranks=3)
    assert len({*pids, os.getpid()}) == 4


def test_one_rank_is_enough():
    assert run(total, ranks=1)[0] == 1.0


def test_arguments_reach_every_rank():
    assert run(lambda dist, a, b: a + b + dist.get_rank(), 1, 10, ranks=2)[:] == [11, 12]


def test_each_gives_every_rank_its_own_argument():
    assert run(lambda dist, mine, all_: mine * all_, each([1, 2, 3]), 10, ranks=3)[:] == [10, 20, 30]


def test_functions_closures_globals_and_classes_of_the_caller_travel():
    class Point:
        def __init__(self, x):
            self.x = x

    offset = 10

    def shifted(dist, point):
        return Point(point.x * SCALE + offset)

    returned = run(shifted, Point(2.0), ranks=2)
    assert [point.x for point in returned] == [16.0, 16.0]


def test_a_rank_changes_only_its_own_copy_of_a_global():
    def change(dist):
        global SCALE
        SCALE += dist.get_rank()
        return SCALE

    assert run(change, ranks=2)[:] == [3.0, 4.0]
    assert SCALE == 3.0


def test_an_argument_is_not_changed_for_the_caller():
    tensor = torch.zeros(2)
    run(lambda dist, t: t.add_(1), tensor, ranks=2)
    assert tensor.tolist() == [0, 0]


def test_a_tensor_of_100_mb_crosses_both_ways():
    returned = run(lambda dist, tensor: tensor + dist.get_rank(), torch.ones(25_000_000), ranks=2, timeout=120)
    assert returned[1].numel() == 25_000_000
    assert returned[1][-1] == 2.0


def test_tensors_keep_dtype_shape_and_strides_of_no_one_else():
    tensors = [torch.ones(2, 3, dtype=torch.bfloat16), torch.empty(0, 4), torch.tensor(True), torch.ones(3, 2).T]
    for got, sent in zip(run(lambda dist, t: t, tensors, ranks=1)[0], tensors, strict=True):
        assert got.dtype == sent.dtype
        assert torch.equal(got, sent)


def test_modules_and_parameters_travel():
    layer = torch.nn.Linear(2, 1)
    returned = run(lambda dist, layer: layer, layer, ranks=1)[0]
    assert torch.equal(returned.weight, layer.weight)
    assert returned.weight.requires_grad


def test_ranks_run_in_the_callers_folder_with_its_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_TEST_WORD", "hello")
    assert run(lambda dist: (os.getcwd(), os.environ["COURSE_TEST_WORD"]), ranks=1)[0] == (str(tmp_path), "hello")


def test_each_rank_has_one_thread():
    assert run(lambda dist: torch.get_num_threads(), ranks=2)[:] == [1, 1]


def test_torch_draws_alike_on_all_ranks_and_the_same_every_time():
    first, again = (run(lambda dist: torch.rand(1).item(), ranks=2) for _ in range(2))
    assert first[0] == first[1] == again[0]


def test_ddp_works_inside_a_rank():
    def gradient(dist):
        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        model(torch.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
        return model.module.weight.grad.item()

    assert run(gradient, ranks=2, timeout=120)[:] == [1.5, 1.5]


def test_work_takes_its_time_on_a_real_rank():
    assert run(lambda dist: work(0.2), ranks=1).seconds >= 0.2


def test_work_leaves_an_event_on_a_real_rank_too():
    (event,) = run(lambda dist: work(0.1) if dist.get_rank() else None, ranks=2).events
    assert (event.rank, event.kind, event.sent, event.messages) == (1, "work", 0, 0)
    assert event.end - event.start >= 0.1


# What is printed


def test_prints_appear_by_rank_in_rank_order(capfd):
    def speak(dist):
        for line in range(2):
            print("line", line)
            dist.barrier()

    run(speak, ranks=3)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"rank {rank} | line {line}" for rank in range(3) for line in range(2)]


def test_what_c_code_and_child_processes_print_is_shown_under_the_rank(capfd):
    run(lambda dist: os.system("echo from the shell"), ranks=1)
    assert capfd.readouterr().out == "rank 0 | from the shell\n"


def test_what_a_rank_writes_to_stderr_is_shown_too():
    assert run(lambda dist: print("oh", file=sys.stderr), ranks=2).printed == ["oh\n", "oh\n"]


def test_a_line_without_an_end_is_shown(capfd):
    run(lambda dist: print("no end", end=""), ranks=2)
    assert capfd.readouterr().out.splitlines() == ["rank 0 | no end", "rank 1 | no end"]


def test_rank_0_is_heard_while_it_runs(tmp_path):
    process = script(
        tmp_path,
        "import sys\n"
        "from course_lib import run\n"
        "def speak(dist):\n"
        "    print('now', flush=True)\n"
        "    while True: pass\n"
        "run(speak, ranks=1, timeout=60)\n",
    )
    try:
        assert process.stdout.readline() == "rank 0 | now\n"
    finally:
        process.kill()
        process.communicate()


def test_a_flood_of_prints_is_cut_and_counted():
    def flood(dist):
        for _ in range(400):
            os.write(1, b"x" * 99_999 + b"\n")

    printed = run(flood, ranks=1).printed[0]
    assert len(printed) < 200_000
    assert re.search(r"39,\d\d\d,\d\d\d bytes more", printed)


# What goes wrong in a rank


def test_an_exception_is_one_failure_with_the_learners_line_and_none_of_ours():
    def fail(dist):
        if dist.get_rank() == 2:
            raise ValueError("no such thing")
        dist.barrier()

    with pytest.raises(RankFailed) as caught:
        run(fail)
    text = str(caught.value)
    assert text.startswith("rank 2 raised ValueError: no such thing\n")
    assert 'raise ValueError("no such thing")' in text
    assert "course_lib" not in text and "worker.py" not in text and text.count("line ") == 1
    assert (caught.value.rank, caught.value.error, caught.value.message) == (2, "ValueError", "no such thing")


def test_the_first_rank_to_fail_is_named_and_not_its_victims():
    def fail(dist):
        if dist.get_rank() == 3:
            raise KeyError("first")
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            raise ValueError("told in other words") from error

    with pytest.raises(RankFailed, match="rank 3 raised KeyError"):
        run(fail)


def test_a_notebook_shows_a_failure_in_one_sentence():
    with pytest.raises(RankFailed) as caught:
        run(lambda dist: 1 / 0, ranks=1)
    assert caught.value._render_traceback_()[0].startswith("RankFailed: rank 0 raised ZeroDivisionError")


def test_a_stub_says_which_exercise_is_missing():
    def ring(dist):
        raise NotImplementedError

    with pytest.raises(RankFailed, match="needs ring: write it, or borrow it"):
        run(ring, ranks=1)


@pytest.mark.parametrize(
    "deed, words",
    [
        (lambda: os._exit(3), "rank 1 ended its process with exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"rank 1 was killed \(SIGKILL\).*memory"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), r"rank 1 crashed in C code"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), r"rank 1 was ended by signal SIGTERM"),
        (os.abort, r"rank 1 aborted in C\+\+"),
        (lambda: sys.exit("stop"), "rank 1 raised SystemExit: stop"),
    ],
)
def test_a_death_is_named(deed, words):
    def die(dist):
        if dist.get_rank() == 1:
            deed()
        dist.barrier()

    with pytest.raises(RankFailed, match=words):
        run(die, ranks=2)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE])
def test_a_crash_shows_the_learners_line(number):
    def die(dist):
        if dist.get_rank() == 1:
            signal.raise_signal(number)  # to the thread itself, as a crash is; os.kill may pick a thread of gloo's
        dist.barrier()

    with pytest.raises(RankFailed, match=rf"rank 1 .*{number.name}.*\n    line \d+ of .*, in die: signal.raise"):
        run(die, ranks=2)


def test_a_death_is_named_though_the_other_rank_that_noticed_it_is_heard_first(monkeypatch):
    def die(dist):
        if dist.get_rank() == 1:
            os.kill(os.getppid(), signal.SIGSTOP)  # who would tell of the death stands still
            os._exit(3)
        dist.barrier()

    def go_on(answer):
        os.kill(server, signal.SIGCONT)
        return failures.is_victim(answer)

    run(total, ranks=2)
    server = launcher.LAUNCHER._fork_server.pid
    monkeypatch.setattr(watch, "is_victim", go_on)
    at_last = threading.Timer(LONG, os.kill, (server, signal.SIGCONT))
    at_last.daemon = True
    at_last.start()
    with pytest.raises(RankFailed, match="rank 1 ended its process with exit code 3"):
        run(die, ranks=2)
    at_last.cancel()


def test_pages_become_huge_once_forty_forks_have_paid_for_it_but_not_within_a_run(monkeypatch):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server, noted = fork_server.ForkServer(theirs), []
        monkeypatch.setattr(server, "new_process", lambda: 1)
        monkeypatch.setattr(fork_server, "use_huge_pages", lambda: noted.append("huge"))
        for number in range(150):
            server.carry_out({"run": number // 3}, [])
            noted.append(number)
    assert (noted.index("huge"), noted.count("huge")) == (42, 1)


def reduce_what_differs(dist):
    dist.all_reduce(torch.ones(4, dtype=torch.float64 if dist.get_rank() else torch.float32))


def test_an_abort_in_gloo_shows_the_line_and_leads_to_debug():
    hint = re.escape("; shapes or dtypes that differ between ranks do that: run(..., debug=True) names both sides")
    with pytest.raises(RankFailed, match=rf"SIGABRT.*{hint}\n    line \d+ of .*, in reduce_what_differs: dist"):
        run(reduce_what_differs, ranks=2)


def test_an_abort_in_c_shows_what_was_printed_last():
    def die(dist):
        os.write(2, b"terminate called: sizes differ\n")
        os.abort()

    with pytest.raises(RankFailed, match="the last it printed was: terminate called: sizes differ"):
        run(die, ranks=1)


def test_running_out_of_memory_is_named():
    def hoard(dist):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        torch.ones(1 << 40)

    with pytest.raises(RankFailed, match="can't allocate memory"):
        run(hoard, ranks=1)


def test_a_hang_ends_with_the_line_of_each_rank():
    def hang(dist):
        if dist.get_rank() == 0:
            return
        tensor = torch.empty(1)
        if dist.get_rank() == 1:
            dist.recv(tensor, 2)
        else:
            while True:
                pass

    with pytest.raises(RankFailed) as caught:
        run(hang, ranks=3, timeout=2)
    text = str(caught.value)
    assert text.startswith("still running after 2 s")
    assert "rank 0 had returned" in text
    assert "dist.recv(tensor, 2)" in text
    assert "rank 2 was at" in text
    assert caught.value.error == "timeout"


def test_a_timeout_too_short_to_start_in_is_only_a_timeout():
    def hang(dist):
        while True:
            pass

    with pytest.raises(RankFailed, match="still running after 1 µs"):
        run(hang, ranks=2, timeout=1e-6)
    assert run(total, ranks=2)[0] == 3.0


def test_a_value_that_cannot_travel_is_named():
    with pytest.raises(RankFailed, match="a returned generator cannot be sent back"):
        run(lambda dist: (n for n in range(3)), ranks=1)


def test_blocking_sends_that_face_each_other_hang_at_every_size():
    def both_send(dist):
        dist.send(torch.ones(1), 1 - dist.get_rank())

    with pytest.raises(RankFailed, match="dist.send"):
        run(both_send, ranks=2, timeout=2)


# What is left behind


def test_no_rank_outlives_its_run():
    assert gone(list(run(pid_of)))


def test_no_rank_outlives_a_failure(tmp_path):
    def fail(dist, folder):
        (folder / f"{dist.get_rank()}").write_text(str(os.getpid()))
        dist.barrier()
        if dist.get_rank() == 0:
            raise ValueError
        while True:
            pass

    with pytest.raises(RankFailed):
        run(fail, tmp_path)
    assert gone([int(path.read_text()) for path in tmp_path.iterdir()])


@pytest.mark.parametrize("own_session", [False, True])
def test_no_process_that_a_rank_started_outlives_the_run(own_session):
    def start(dist):
        return subprocess.Popen(["sleep", "1000"], start_new_session=own_session).pid

    assert gone(list(run(start, ranks=2)))


def test_an_interrupt_ends_all_ranks_and_the_next_run_works(tmp_path):
    def hang(dist, folder):
        (folder / f"{dist.get_rank()}").write_text(str(os.getpid()))
        while True:
            pass

    def interrupt() -> None:
        while len([path for path in tmp_path.iterdir() if path.read_text()]) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        run(hang, tmp_path, ranks=2)
    watcher.join()
    assert gone([int(path.read_text()) for path in tmp_path.iterdir()])
    assert run(total, ranks=2)[0] == 3.0
    (shown,) = caught.value._render_traceback_()
    assert re.match(r"KeyboardInterrupt: interrupted after .*s, and ended:\n  rank 0 was at\n", shown)
    assert shown.count("in hang: ") == 2 and "course_lib" not in shown and len(shown.splitlines()) == 5


def test_what_ranks_printed_before_an_interrupt_is_shown(capsys):
    def speak_and_hang(dist, parent):
        print("so far", dist.get_rank(), flush=True)
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(parent, signal.SIGINT)
        while True:
            pass

    with pytest.raises(KeyboardInterrupt):
        run(speak_and_hang, os.getpid(), ranks=2)
    assert capsys.readouterr().out == "rank 0 | so far 0\nrank 1 | so far 1\n"


INTERRUPTED = """
import sys
from course_lib import run
def hang(dist):
    print("started", flush=True)
    while True: pass
def ok(dist):
    return dist.get_rank()
try:
    print("ready", flush=True)
    run(hang, ranks=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(run(ok, ranks=2)[:], flush=True)
"""


@pytest.mark.parametrize("moment", ["ready", "started"])
def test_a_signal_to_the_whole_process_group_is_an_interrupt_also_while_starting(tmp_path, moment):
    process = script(tmp_path, INTERRUPTED)
    line = ""
    while moment not in line:
        line = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=LONG)
    assert "interrupted" in rest and "[0, 1]" in rest and "Traceback" not in rest


KILLED = """
import os
from course_lib import run
def hang(dist):
    import subprocess
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    everyone = [None, None]
    dist.all_gather_object(everyone, (os.getpid(), os.getppid(), child.pid))
    print(everyone, flush=True)
    while True: pass
run(hang, ranks=2)
"""


def test_when_the_notebook_is_killed_no_rank_no_helper_and_no_file_stays(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    os.environ["TMPDIR"] = str(folder)
    try:
        process = script(tmp_path, KILLED)
    finally:
        del os.environ["TMPDIR"]
    pids = [int(number) for number in re.findall(r"\d+", process.stdout.readline().partition("|")[2])]
    assert len(set(pids)) == 5 and all(map(alive, pids))
    process.kill()
    process.communicate()
    assert gone(pids)
    assert list(folder.iterdir()) == []


def test_a_rank_that_kills_the_helper_is_survived():
    with pytest.raises(RuntimeError, match="run the cell again"):
        run(lambda dist: os.kill(os.getppid(), signal.SIGKILL), ranks=2)
    assert run(total, ranks=2)[0] == 3.0


def test_a_script_needs_no_main_guard(tmp_path):
    text = "from course_lib import run\nprint(run(lambda dist: dist.get_rank(), ranks=2)[:])\n"
    process = script(tmp_path, text)
    out, _ = process.communicate(timeout=LONG)
    assert out == "[0, 1]\n"


def test_a_run_from_another_thread_works():
    results = []
    thread = threading.Thread(target=lambda: results.append(run(total, ranks=2)[0]))
    thread.start()
    thread.join()
    assert results == [3.0]


# Calls that make no sense


@pytest.mark.parametrize("ranks", [0, -1, True, 3.5, "4"])
def test_a_number_of_ranks_that_is_none_is_refused(ranks):
    with pytest.raises(ValueError, match=f"ranks={ranks!r}: the number of ranks is a whole number from 1 on"):
        run(total, ranks=ranks)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "60", None])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout=.*: give the seconds"):
        run(total, timeout=timeout)


def test_more_ranks_than_memory_holds_are_refused_with_what_fits():
    with pytest.raises(ValueError, match=r"ranks=1000000: .* need about .* GB.*use at most \d+, or simulate them"):
        run(total, ranks=1_000_000)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="this system does not tell what memory is free")
def test_a_container_has_free_what_its_limit_leaves_and_what_it_only_keeps_of_files(tmp_path):
    files = {"max": "3000", "current": "2500", "stat": "anon 100\ninactive_file 300\nactive_file 50\nslab 9"}
    for name, text in files.items():
        (tmp_path / f"memory.{name}").write_text(text + "\n")
    assert runs._free_bytes(str(tmp_path)) == 850
    (tmp_path / "memory.max").write_text("max\n")
    assert runs._free_bytes(str(tmp_path)) > 1e6


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="run takes a function first, not 3"):
        run(3)


def test_an_engine_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="on='foo': use None .* 'nccl' .* or a Cluster"):
        run(total, on="foo")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_nccl_without_gpus_is_refused_and_gloo_offered():
    with pytest.raises(ValueError, match="ranks=2 on NCCL needs 2 GPUs.*this machine has 0.*gloo"):
        run(total, ranks=2, on="nccl")


def test_an_argument_that_cannot_travel_is_named():
    with pytest.raises(TypeError, match="argument 2 of <lambda>, a generator, cannot be sent to a rank"):
        run(lambda dist, a, b: None, 1, (n for n in "ab"), ranks=1)


HANDLE = threading.Lock()


def test_a_global_that_cannot_travel_is_named():
    def use(dist):
        return HANDLE

    with pytest.raises(TypeError, match="use uses HANDLE, a lock, which cannot be sent .*make HANDLE inside use"):
        run(use, ranks=1)


def test_a_closure_that_cannot_travel_is_named():
    lines = (n for n in "ab")
    with pytest.raises(TypeError, match="uses lines, a generator"):
        run(lambda dist: next(lines), ranks=1)


@pytest.mark.parametrize("on", [None, Cluster()])
@pytest.mark.parametrize("fn, args, words", [
    (lambda dist: None, (4,), r"here <lambda>\(dist, 4\), .* takes \(dist\): .*; did you mean ranks=4\?$"),
    (lambda: None, (), r"run calls fn\(dist, \*args\), here <lambda>\(dist\), but <lambda> takes \(\): "),
    (lambda dist, a, b=0: None, (), r"takes \(dist, a, b=0\): missing a required argument: 'a'$"),
    (lambda dist: None, (torch.ones(1000),), r"here <lambda>\(dist, a tensor float32\[1000\]\)"),
])  # fmt: skip
def test_arguments_that_the_function_does_not_take_are_refused_before_a_rank_starts(fn, args, words, on):
    with pytest.raises(TypeError, match=words) as caught:
        run(fn, *args, on=on)
    assert isinstance(caught.value, RankFailed)  # for a check, whose learner's function it is


def test_a_decorated_or_partial_function_is_taken_as_it_is():
    @functools.wraps(total)
    def more(*args):
        return total(args[0]) + args[1]

    assert run(more, 5, ranks=2)[:] == run(functools.partial(more), 5, ranks=2)[:] == [8.0, 8.0]


@pytest.mark.parametrize("names, hint", [
    ({"world_size": 4}, "did you mean ranks=4?"),
    ({"rank": 4}, "did you mean ranks=4?"),
    ({"time_out": 5.0}, "did you mean timeout=5.0?"),
    ({"a": 5}, "what scaled takes follows it, without names"),
])  # fmt: skip
def test_names_that_run_does_not_know_are_refused(names, hint):
    def scaled(dist, a):
        return a

    (name,) = names
    said = f"run takes ranks=, on=, timeout= and debug=, but not {name}=: {hint}"
    with pytest.raises(TypeError, match=re.escape(said)):
        run(scaled, **names)


@pytest.mark.parametrize("call, words", [
    (lambda: run(total, on=Cluster), "on=Cluster is a class: write on=Cluster(), with parentheses"),
    (lambda: each(5), "each(5): give one value for each rank, as in each([1, 2, 3, 4])"),
    (lambda: Cluster(latency="5us"), "latency='5us': give seconds, 0 or more"),
    (lambda: Cluster(bandwidth="1e9"), "bandwidth='1e9': give bytes per second, more than 0"),
    (lambda: Cluster(flops=[1]), "flops=[1]: give floating-point operations per second, more than 0"),
    (lambda: Cluster(gpu="H100"), "TPU7x; did you mean 'H100 PCIe' or 'H100 SXM'?"),
    (lambda: Cluster(gpu="l4s"), "TPU7x; did you mean 'L40S'?"),
    (lambda: Cluster(gpu=100), "gpu=100: course_lib.hardware has V100 SXM2 32GB, "),
    (lambda: run(total, ranks=0), "ranks=0: the number of ranks is a whole number from 1 on"),
])  # fmt: skip
def test_what_is_refused_is_one_sentence_in_a_notebook(call, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)) as caught:
        call()
    assert caught.value._render_traceback_() == [f"{type(caught.value).__name__}: {caught.value}"]


@pytest.mark.parametrize("on", [None, Cluster()])
def test_run_inside_a_rank_is_refused(on):
    def nested(dist):
        run(total, ranks=2)

    with pytest.raises(RankFailed, match=r"run\(\) was called inside rank"):
        run(nested, ranks=1, on=on)


def test_each_with_too_few_values_is_refused():
    with pytest.raises(ValueError, match="holds 2 values for ranks=3"):
        run(total, each([1, 2]), ranks=3)


# debug=True


@pytest.mark.parametrize("sender", ["send", "isend"])
@pytest.mark.parametrize("receiver", ["recv", "irecv"])
def test_debug_names_a_send_that_does_not_fit_its_receive(sender, receiver):
    def mismatch(dist):
        if dist.get_rank() == 0:
            handle = getattr(dist, sender)(torch.ones(4), 1)
        else:
            handle = getattr(dist, receiver)(torch.ones(2, dtype=torch.float64), 0)
        if hasattr(handle, "wait"):
            handle.wait()

    with pytest.raises(RankFailed, match=r"rank 0 sends float32\[4\], but rank 1 receives into float64\[2\]"):
        run(mismatch, ranks=2, debug=True, timeout=20)


def test_debug_lets_right_messages_through():
    def right(dist):
        if dist.get_rank() == 0:
            return dist.send(torch.ones(2, 2), 1)
        tensor = torch.empty(4)
        dist.recv(tensor, 0)
        return tensor.tolist()

    assert run(right, ranks=2, debug=True)[1] == [1.0] * 4


@pytest.mark.parametrize("first, second, calls", [
    (lambda dist, t: dist.all_reduce(t), lambda dist, t: dist.broadcast(t, 0),
     {"all_reduce(float32[2], SUM)", "broadcast(float32[2], src=0)"}),
    (lambda dist, t: dist.all_reduce(t), lambda dist, t: dist.all_reduce(t.double()),
     {"all_reduce(float32[2], SUM)", "all_reduce(float64[2], SUM)"}),
    (lambda dist, t: dist.barrier(), lambda dist, t: dist.reduce(t, 1, dist.ReduceOp.MAX),
     {"barrier()", "reduce(float32[2], MAX, dst=1)"}),
])  # fmt: skip
def test_debug_names_both_sides_of_collectives_that_differ(first, second, calls):
    def mismatch(dist):
        dist.barrier()
        (second if dist.get_rank() else first)(dist, torch.ones(2))

    with pytest.raises(RankFailed, match="raised RuntimeError: rank . calls .* all ranks of a group make") as caught:
        run(mismatch, ranks=2, debug=True, timeout=20)
    found = re.search(r"calls (.*), but rank . called (.*) as the same collective \(number 2 of", str(caught.value))
    assert {*found.groups()} == calls


def test_debug_lets_right_collectives_through_in_groups_of_their_own():
    def right(dist):
        groups = [dist.new_group([0, 1]), dist.new_group([2])]
        for group in groups:
            dist.all_reduce(torch.ones(1 + len(dist.get_process_group_ranks(groups[0]))), group=group)
        everything = [None] * 3
        dist.all_gather_object(everything, dist.get_rank())
        dist.all_to_all_single(torch.empty(3), torch.ones(3))
        return everything

    assert run(right, ranks=3, debug=True)[:] == [[0, 1, 2]] * 3


# torchrun


TORCHRUN = """
import sys, time, torch
from course_lib import Cluster, RankFailed, each, run
COUNT = {"calls": 0}
def total(dist):
    COUNT["calls"] += 1
    print("hello from", dist.get_rank())
    mine = torch.ones(1)
    dist.all_reduce(mine)
    return mine.item(), COUNT["calls"]
def fail(dist):
    if dist.get_rank() == 1:
        raise ValueError("one is bad")
    dist.all_reduce(torch.ones(1))
def forever(dist):
    if dist.get_rank() == 0:
        time.sleep(6)
def recv(dist):
    if dist.get_rank() == 0:
        dist.recv(torch.ones(1), 1)
def say(words):
    sys.stdout.write(f"{words}\\n"); sys.stdout.flush()  # torchrun's Python writes what print is given piece by piece
def caught(*args, **kwargs):
    try:
        run(*args, **kwargs)
    except (RankFailed, ValueError) as error:
        say("caught " + " / ".join(map(str.strip, str(error).splitlines())))
result = run(total)
say(result)
say(f"{result[:]} {result.collectives}")
caught(fail)
caught(total, ranks=5)
caught(recv, timeout=1)
from course_lib.engine.processes import torchrun
torchrun.SLACK = 2.0
caught(forever, timeout=1)
torchrun.SLACK = 30.0
say(f"again {run(total)[:]}")
run(total, ranks=3, on=Cluster())
say(f"own {run(lambda dist, mine: mine, each([7, 8]))[:]}")
"""


@pytest.fixture(scope="module")
def under_torchrun(tmp_path_factory):
    folder, options = tmp_path_factory.mktemp("torchrun"), ("--standalone", "--nproc-per-node=2")
    process = script(folder, TORCHRUN, *options, module="torch.distributed.run")
    out, _ = process.communicate(timeout=2 * LONG)
    assert process.returncode == 0, out
    return out


def test_under_torchrun_its_ranks_are_used_and_all_have_the_results(under_torchrun):
    assert under_torchrun.count("[(2.0, 1), (2.0, 1)] [['all_reduce'], ['all_reduce']]") == 2


def test_under_torchrun_results_and_prints_are_shown_once_in_rank_order(under_torchrun):
    assert under_torchrun.count("rank 0 returned (2.0, 1)\nrank 1 returned (2.0, 1)\n") == 1
    assert under_torchrun.count("rank 0 | hello from 0\nrank 1 | hello from 1\n") == 3
    assert under_torchrun.count("rank 2 | hello from 2\n") == 1


def test_under_torchrun_a_failure_reaches_every_rank_alike(under_torchrun):
    assert under_torchrun.count("caught rank 1 raised ValueError: one is bad / line ") == 2


@pytest.mark.parametrize("line", ["recv: dist.recv(torch.ones(1), 1)", "forever: time.sleep(6)"])
def test_under_torchrun_a_hang_ends_with_the_line_of_each_rank(under_torchrun, line):
    hang = r"caught still running after 1 s, and ended: / rank 0 was at / line \d+ of script.py, in "
    assert len(re.findall(hang + re.escape(line) + " / rank 1 had returned\n", under_torchrun)) == 2


def test_under_torchrun_another_number_of_ranks_is_refused(under_torchrun):
    assert under_torchrun.count("caught ranks=5, but torchrun started 2") == 2


def test_under_torchrun_a_run_after_a_failed_one_works_on_fresh_copies(under_torchrun):
    assert under_torchrun.count("again [(2.0, 1), (2.0, 1)]\n") == 2


def test_under_torchrun_each_rank_gets_its_own_argument(under_torchrun):
    assert under_torchrun.count("own [7, 8]\n") == 2


@pytest.mark.parametrize("module", ["torch.distributed.tensor.parallel", "course_lib.lessons.clinic"])
def test_what_a_rank_had_to_import_is_there_for_the_next_run(module):
    def before_and_after(dist):
        before = module in sys.modules
        importlib.import_module(module)
        return before

    run(before_and_after, ranks=1)
    assert run(before_and_after, ranks=1)[0] is True


def test_what_a_rank_imports_of_the_learners_own_is_read_anew_in_each_run(tmp_path, monkeypatch):
    def number(dist):
        return importlib.import_module("mine_to_edit").NUMBER

    monkeypatch.syspath_prepend(tmp_path)
    for written in (1, 20):
        (tmp_path / "mine_to_edit.py").write_text(f"NUMBER = {written}")
        assert run(number, ranks=1)[0] == written


def functional(x):
    return torch.nn.functional.relu(torch.ones(len(os.path.join("a", x))))


@pytest.mark.parametrize("function", [functional, total, alive, packing.is_library])
def test_submodules_that_a_function_reaches_are_those_that_cloudpickle_finds(function):
    spec = importlib.util.find_spec("cloudpickle.cloudpickle")
    theirs = importlib.util.module_from_spec(spec)  # as it is without what packing puts in the place of a function
    spec.loader.exec_module(theirs)
    values = list(function.__globals__.values())
    found = {module.__name__ for module in packing.submodules(function.__code__, values)}
    assert found == {module.__name__ for module in theirs._find_imported_submodules(function.__code__, values)}
    assert function is not functional or "torch.nn.functional" in found


def trains(dist):
    weight = torch.nn.Parameter(torch.ones(1))
    torch.optim.SGD([weight]).step()


def test_what_training_needs_is_imported_before_the_ranks_are_forked_and_asked_for_once(monkeypatch):
    asked, one = [], launcher.Launcher()
    monkeypatch.setattr(one, "_ask", asked.append)
    for fn, known in ((total, 0), (trains, 1), (trains, 1)):
        one._foresee({"call": packing.pack_call(fn, ())})
        assert asked == [{"import": ["torch._dynamo"]}] * known
    one._foreseen = False
    one._foresee({"calls": [packing.pack_call(trains, ())], "call": None})
    assert len(asked) == 2
