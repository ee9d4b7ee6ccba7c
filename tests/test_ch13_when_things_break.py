"""Chapter 13: crashes of real processes, refusals that leave what was there, formulas against simulations."""

from __future__ import annotations

import inspect
import math
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.run import get_args_parser

from course_lib import Cluster, RankFailed, run, work
from course_lib.costs import (
    LLAMA_3,
    expected_goodput,
    mean_hours_between_failures,
    spares_for,
    young_interval,
)
from course_lib.folder import Folder
from course_lib.lessons import bit_flips, careless, killed, recorder, resumed
from course_lib.lessons.failing_run import KINDS, best_shares, expected_shares, failing_run, mean_goodput
from course_lib.plots.float_bits import bits_of
from exercises_tests import ch07_fsdp as chapter_7
from exercises_tests import ch13_when_things_break as checks
from solutions import ch13_when_things_break as solutions

MTBF, SAVE, RESTART = 54 * 24 * 3600 / 419, 120.0, 600.0


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


# Saves


class Dying(Folder):
    """A real folder; the process that does its operation number `last` is killed, within it if it is a write."""

    def __init__(self, path, victim: int, last: int) -> None:
        super().__init__(path)
        self.victim, self.last, self.done = victim, last, 0

    def _die(self) -> bool:
        self.done += 1
        return self.done > self.last and int(os.environ.get("COURSE_RANK", "-1")) == self.victim

    def write(self, name, data):
        if self._die():
            super().write(name, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, data)

    def sync(self, name):
        if self._die():
            os.kill(os.getpid(), signal.SIGKILL)
        super().sync(name)

    def rename(self, old, new):
        if self._die():
            os.kill(os.getpid(), signal.SIGKILL)
        super().rename(old, new)


def held(rank: int, ranks: int, more: float) -> dict:
    pieces = torch.arange(12.0).add(more).chunk(ranks)
    return {"weight": pieces[rank].clone()}


def saves(dist, folder, more, identity):
    shards = held(dist.get_rank(), dist.get_world_size(), more)
    solutions.save_sharded(dist, folder, shards, {"weight": (12,)}, {"step": int(more)}, identity)


def loads(dist, folder):
    shards = held(dist.get_rank(), dist.get_world_size(), -100.0)
    extra = solutions.load_resharded(dist, folder, shards, {"weight": (12,)})
    return extra["step"], shards["weight"].tolist()


@pytest.mark.parametrize(("victim", "last"), [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)])
def test_a_real_process_killed_at_each_operation_leaves_the_old_checkpoint(tmp_path, victim, last):
    run(saves, Folder(tmp_path), 10.0, "a1", ranks=2)
    with pytest.raises(RankFailed):
        run(saves, Dying(tmp_path, victim, last), 20.0, "b2", ranks=2)
    got = run(loads, Folder(tmp_path), ranks=2)
    assert got[0] == (10, [10.0 + place for place in range(6)])
    assert got[1] == (10, [16.0 + place for place in range(6)])
    run(saves, Folder(tmp_path), 20.0, "b3", ranks=2)
    assert run(loads, Folder(tmp_path), ranks=1)[0] == (20, [20.0 + place for place in range(12)])


def test_at_least_200_crashes_are_tried_and_none_loses_a_checkpoint():
    found = careless.crash_map(solutions.save_sharded)
    assert len(found) >= 200 and not any(end.wrong for end in found)
    for behind in (None, *range(4)):  # in each run the vote comes after the last sync
        (vote,) = {end.moment for end in found if end.behind == behind and end.doing.endswith("|vote")}
        doing = {end.moment: end.doing for end in found if end.behind == behind}
        assert "sync" in doing[vote] and doing[vote + 1] == "rename"
        assert not any("sync" in one for moment, one in doing.items() if moment > vote)


@pytest.mark.parametrize("name", careless.CARELESS)
def test_each_careless_save_loses_about_one_in_ten(name):
    found = careless.crash_map(careless.CARELESS[name])
    lost = [end for end in found if end.wrong]
    assert len(found) > 200 and 0.08 < len(lost) / len(found) < 0.125
    killed_only = [end for end in found if not end.power]
    assert name != "without sync" or (len(killed_only), sum(bool(end.wrong) for end in killed_only)) == (155, 0)
    behind = [None, *range(4)]  # five runs, and 31 moments in each
    assert name != "without sync" or [[end.behind for end in killed_only].count(one) for one in behind] == 5 * [31]
    assert name != "without waiting" or {end.behind for end in lost} == {1, 2, 3}
    assert not any("vote" in end.doing for end in found)


def test_a_folder_that_cannot_be_written_is_one_sentence_and_keeps_what_was_there(tmp_path):
    missing = Folder(tmp_path / "nowhere")
    with pytest.raises(RankFailed, match="given up: .*cannot be written: No such file"):
        run(saves, missing, 10.0, "a1", ranks=2)
    with pytest.raises(OSError, match="x in .* cannot be read: No such file"):
        Folder(tmp_path).read("x")
    with pytest.raises(ValueError, match="give the name of a file"):
        Folder(tmp_path).write("../x", b"")
    assert Folder(tmp_path).names() == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_no_space_left_is_told_and_the_old_checkpoint_stays(tmp_path):
    run(saves, Folder(tmp_path), 10.0, "a1", ranks=2)
    os.symlink("/dev/full", tmp_path / "shard-b2-1.pt")
    with pytest.raises(RankFailed, match="No space left|another rank could not write"):
        run(saves, Folder(tmp_path), 20.0, "b2", ranks=2)
    assert run(loads, Folder(tmp_path), ranks=1)[0][0] == 10


def test_a_resumed_run_is_the_same_to_the_bit_and_nearly_so_on_other_ranks(tmp_path):
    ends = {}
    for name, parts in {"never": ((4, 4),), "same": ((4, 2), (4, 2)), "fewer": ((4, 2), (2, 2))}.items():
        (tmp_path / name).mkdir()
        for ranks, steps in parts:
            ends[name] = run(resumed.train_on, steps, Folder(tmp_path / name), solutions.save_sharded,
                             solutions.load_resharded, ranks=ranks)[0]
    assert torch.equal(ends["same"][1], ends["never"][1])
    assert (ends["fewer"][1] - ends["never"][1]).abs().max() < 1e-4
    assert not torch.equal(ends["fewer"][0], ends["never"][0][:2])


# Numbers


def test_llama_3_by_youngs_rule_is_as_the_text_says():
    save = 14 * 405e9 / 2e12
    tau = young_interval(MTBF, save)
    shares = save / tau + tau / (2 * MTBF)
    restarting = -math.expm1(-10 / 23)
    days = 54 / 419 * 16_384 / 64  # between two failures of 64 GPUs
    measured = 7.9  # hours, a job of 1,024 GPUs on RSC-1
    assert round(measured * 16 / 24) == 5 and round(MTBF / 3600 * 16) == 49 and round(49 / measured) == 6
    assert (round(save, 1), round(tau, -1), round(shares, 3)) == (2.8, 250, 0.023)
    assert (round(RESTART / MTBF, 3), round(restarting, 2), round(days)) == (0.054, 0.35, 33)
    assert round(2 * RESTART / MTBF, 3) == 0.108  # with a timeout of ten minutes before each restart
    assert 0.92 < 1 - shares - RESTART / MTBF < 0.93 and 0.92 < best_shares(MTBF, save, 600)["training"] < 0.93
    assert round(mean_hours_between_failures(1024)) == 29  # by the rate of RSC-1, and not the 7.9 that were seen
    assert round(14 * 405e9 / 1e12, 1) == 5.7  # TB, what no GPU can read
    best = young_interval(MTBF, SAVE)
    yours, hers = (SAVE / tau + tau / (2 * MTBF) for tau in (best, 2 * best))
    assert (round(yours, 2), round(hers, 2)) == (0.15, 0.18) and hers / yours == pytest.approx(1.25)
    top = expected_goodput(best, MTBF, SAVE, RESTART)  # 80 % by adding up shares
    assert round(100 * top, 1) == 81.5 and round(100 * (1 - yours - RESTART / MTBF)) == 80
    assert (1 - best / (2 * MTBF) - RESTART / MTBF) / (1 + SAVE / best) == pytest.approx(top, abs=3e-3)
    assert young_interval(4 * MTBF, SAVE) == pytest.approx(2 * best)  # an MTBF that is wrong by a factor of four


@pytest.mark.parametrize("factor", [0.25, 0.5, 1, 2, 4])
def test_goodput_simulated_is_goodput_by_formula(factor):
    tau = factor * young_interval(MTBF, SAVE)
    assert mean_goodput(tau, MTBF, SAVE, RESTART) == pytest.approx(expected_goodput(tau, MTBF, SAVE, RESTART), abs=5e-3)


@pytest.mark.parametrize(("interval", "write"), [(150, 120), (150, 0), (300, 120), (120, 120)])
def test_a_copy_that_is_still_being_written_does_not_count(interval, write):
    mtbf, mean = MTBF / 8, expected_goodput(interval, MTBF / 8, 1, RESTART, write)
    assert mean_goodput(interval, mtbf, 1, RESTART, write=write) == pytest.approx(mean, abs=5e-3)
    assert mean == pytest.approx(expected_goodput(interval, mtbf, 1, RESTART) * math.exp(-write / mtbf))


def test_one_copy_is_written_at_a_time():
    for call in (expected_goodput, failing_run):
        with pytest.raises(ValueError, match="interval = 53: a copy is written for 120 s"):
            call(53, MTBF / 8, 1, RESTART, write=120)


def test_the_pieces_of_a_failing_run_fill_its_time():
    pieces = failing_run(1600, MTBF, 1, RESTART, write=900).pieces
    assert all(one.end == other.start for one, other in zip(pieces, pieces[1:], strict=False))
    pieces = failing_run(1600, MTBF, SAVE, RESTART).pieces
    assert all(one.end == other.start for one, other in zip(pieces, pieces[1:], strict=False))


def test_published_numbers():
    assert sum(LLAMA_3.values()) == 419
    assert pytest.approx(3.09, abs=0.01) == MTBF / 3600
    assert [round(mean_hours_between_failures(gpus), 2) for gpus in (1024, 16_384, 131_072)] == [28.85, 1.8, 0.23]
    assert young_interval(MTBF, 120) / 60 == pytest.approx(27.2, abs=0.1)


def test_spares_follow_the_distribution():
    mean = 2048 * 6.5e-3 * 0.5
    spares = spares_for(2048, 6.5e-3, 0.5, 0.99)
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(spares + 1)]
    assert sum(chances) >= 0.99 > sum(chances[:-1])


@pytest.mark.parametrize("call", [
    lambda: young_interval(0, 1), lambda: expected_goodput(1, -1, 1, 1), lambda: spares_for(10, 1e-3, 1, 1.0),
    lambda: failing_run(0, 1, 1, 1), lambda: mean_hours_between_failures(0), lambda: spares_for(10**9, 1, 1, 0.9),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_in_a_sentence(call):
    with pytest.raises(ValueError, match=" = |nodes"):
        call()


def test_expected_shares_are_all_of_the_time_and_what_is_simulated():
    tau = young_interval(MTBF, SAVE)
    shares = expected_shares(tau, MTBF, SAVE, RESTART)
    assert sum(shares.values()) == pytest.approx(1.0)
    runs = [failing_run(tau, MTBF, SAVE, RESTART, seed=seed) for seed in range(20)]
    for kind in KINDS:
        seen = sum(run.seconds(kind) / run.pieces[-1].end for run in runs) / len(runs)
        assert seen == pytest.approx(shares[kind], abs=5e-3), kind


def test_numbers_that_the_text_types():
    hours = 3.09 * 3600
    assert expected_goodput(3 * 3600, hours, SAVE, RESTART) == pytest.approx(0.55, abs=0.005)  # "almost half"
    assert pytest.approx(3.09, abs=5e-3) == 54 * 24 / 419 and sum(LLAMA_3.values()) == 419
    own = sum(count for name, count in LLAMA_3.items() if "GPU" in name or "silent" in name)
    assert own / 419 == pytest.approx(0.64, abs=0.005) and own == 268
    assert 1 - math.exp(-600 / (hours / 8)) == pytest.approx(0.35, abs=5e-3)
    assert hours / 8 / 60 == pytest.approx(23, abs=0.3)
    assert pytest.approx(1e-3, abs=1e-4) == 600 / (7 * 86_400)


def test_llama_3s_own_storage_gives_what_meta_reported():
    hours, save = 3.09 * 3600, 14 * 405e9 / 2e12
    shares = best_shares(hours, save, 600)
    assert save == pytest.approx(2.8, abs=0.04) and shares["training"] == pytest.approx(0.926, abs=5e-4)
    assert shares["restarting"] > 0.5 * (1 - shares["training"])  # "most of the rest"


# Demonstrations


def test_torchrun_hands_a_signal_on_and_kills_after_30_seconds_or_when_it_is_told():
    closing = inspect.signature(LocalElasticAgent._shutdown).parameters
    assert closing["timeout"].default == 30
    assert get_args_parser().parse_args(["--shutdown-timeout=240", "train.py"]).shutdown_timeout == 240


def all_reduces_of_two_groups(dist, slow):
    rank = dist.get_rank()
    inner = [dist.new_group([2 * pair, 2 * pair + 1]) for pair in range(4)]
    outer = [dist.new_group(list(range(half, 8, 2))) for half in range(2)]
    work(0.180 if rank == slow else 0.100)
    dist.all_reduce(torch.ones(250), group=inner[rank // 2])
    dist.all_reduce(torch.ones(250), group=outer[rank % 2])


def test_beside_a_straggler_its_partner_looks_slow_in_the_outer_group_only():
    done = run(all_reduces_of_two_groups, 5, ranks=8, on=Cluster())
    lengths = {rank: [one.end - one.posted for one in done.of(rank, "all_reduce")] for rank in range(8)}
    assert [min(lengths, key=lambda rank: sum(lengths[rank]))] == [5] and max(lengths[5]) < 1e-3
    assert lengths[4][0] > 0.079 and lengths[4][1] < 1e-3
    assert all(lengths[rank][1] > 0.079 for rank in (0, 1, 2, 3, 6, 7))


def test_a_failure_of_an_asynchronous_save_loses_half_an_interval_and_the_write():
    interval, write = 300, 120
    lost = [expected_shares(interval, 1e7, 1, 0, **how)[KINDS[2]] * 1e7 for how in ({}, {"write": write})]
    assert lost == [pytest.approx(interval / 2, rel=0.02), pytest.approx(interval / 2 + write, rel=0.02)]


def test_a_desync_is_in_the_flight_recorders_of_real_ranks():
    hung = recorder.desync(odd=1, ranks=3)
    dumps = {rank: dump for rank, (_, dump, _) in enumerate(hung)}
    assert solutions.find_culprit(dumps) == (6, "gloo:all_reduce", [1])
    assert {dump[-1]["state"] for dump in dumps.values()} == {"started"}
    assert all(any(word in said for word in ("Timed out", "closed", "reset")) for said, _, _ in hung)
    for rank, (_, _, stack) in enumerate(hung):
        assert stack[0].startswith("all_gather (" if rank == 1 else "all_reduce (")
        assert stack[-1].startswith("out_of_step (recorder.py:") and f"{stack[0].split()[0]}(" in stack[-1]


def children() -> set[int]:
    return {process.pid for process in killed.psutil.Process().children(recursive=True)}


@pytest.mark.parametrize(("disaster", "last"), [
    (killed.kill_a_worker, "rank 0 of 2: done, 8 steps, weight -3.20"),
    (killed.kill_a_machine, "rank 0 of 1: done, 8 steps, weight -3.10"),
])
def test_what_is_killed_is_resumed_and_nothing_is_left(disaster, last, capsys):
    before = children()
    said = disaster()
    assert any(line.startswith(last) for line in said)
    assert any("DISASTER in step 7" in line for line in said)  # so step 6 is done, and not saved
    assert sum("begins with step 6" in line for line in said) == int(last[10])
    gone = [int(line.split("process ")[1].split()[0]) for line in said if "process " in line]
    assert not [pid for pid in gone if killed.psutil.pid_exists(pid)]
    assert children() <= before
    out = capsys.readouterr().out
    assert "now we kill it" in out and "agent: failed (exitcode: " in out


def test_without_restarts_torchrun_names_the_first_failure_and_a_victim(tmp_path):
    script = killed.SCRIPT.replace("signal.pause()  # as a hung machine", "os.kill(os.getpid(), 9)  #")
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=localhost",
               "--nproc-per-node=2", "train.py"]  # fmt: skip
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": killed.LOOPBACK}
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300).stderr
    victims, _, cause = told.partition("Root Cause (first observed failure):")
    assert "Failures:" in victims and "rank      : 1 (local_rank: 1)" in cause
    assert "Signal 9 (SIGKILL) received by PID" in cause


def test_a_folder_of_weights_says_what_can_be_read(tmp_path):
    torch.save({"weight": torch.ones(3)}, tmp_path / "whole.pt")
    data = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "half.pt").write_bytes(data[: len(data) // 2])
    found = careless.weights_in(tmp_path)
    assert found["whole.pt"] == "1.0" and found["half.pt"].startswith("cannot be read: ")


def test_one_bit_of_32_is_felt():
    before, flips = bit_flips.flipped_losses(element=2000)
    assert [bit for bit, (_, loss) in enumerate(flips) if not abs(loss / before - 1) < 0.01] == [30]
    assert max(abs(loss / before - 1) for bit, (_, loss) in enumerate(flips) if bit != 30) < 1e-4
    weight = -flips[31][0]
    assert max(abs(one / weight) for bit, (one, _) in enumerate(flips) if bit != 30) == pytest.approx(16)
    assert abs(flips[30][0]) > 1e36
    assert bits_of(weight)[:9] == "101111001" and bits_of(1.0) == "001111111" + 23 * "0"
    assert sum(one.numel() for one in bit_flips.trained().parameters()) == pytest.approx(250_000, rel=0.1)
    with pytest.raises(ValueError, match="32 bits"):
        bit_flips.flip(torch.zeros(2), 0, 32)


# Checks


def test_a_nan_does_not_pass():
    nan = float("nan")
    assert judged("best_checkpoint_interval", lambda *_: nan).code == "value"
    assert judged("goodput", lambda *_: nan).code == "value"
    assert judged("spare_nodes", lambda *_: nan).code == "value"
    assert judged("find_straggler", lambda events: nan).code == "rank"


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_straggler_is_found_with_every_seed(seed, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", str(seed))
    assert judged("find_straggler", solutions.find_straggler).code == ""


def test_a_copy_of_an_earlier_chapter_7_still_finds_the_checks_that_moved():
    for name in chapter_7.MOVED:
        assert getattr(chapter_7, f"check_{name}") is getattr(checks, f"check_{name}")
    with pytest.raises(AttributeError, match="check_nothing"):
        chapter_7.check_nothing  # noqa: B018


def test_a_full_disk_in_the_simulator_is_a_sentence_on_every_rank():
    saving = checks.Saving()
    for _, kind, sentence in saving.run(solutions.save_sharded, fails=(3, 0)):
        assert kind == "OSError" and "save b2 was given up" in sentence
