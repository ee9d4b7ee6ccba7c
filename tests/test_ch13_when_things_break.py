"""Chapter 13: crashes of real processes, refusals that leave what was there, formulas against simulations."""

from __future__ import annotations

import math
import os
import signal

import pytest
import torch

from course_lib import RankFailed, run
from course_lib.costs import (
    LLAMA_3,
    expected_goodput,
    mean_hours_between_failures,
    spares_for,
    young_interval,
)
from course_lib.folder import Folder
from course_lib.lessons import bit_flips, careless, killed, recorder, resumed
from course_lib.lessons.failing_run import failing_run, mean_goodput
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
    found = careless.crash_everywhere(solutions.save_sharded)
    assert len(found) >= 200 and not any(found)


@pytest.mark.parametrize("name", careless.CARELESS)
def test_each_careless_save_loses_some(name):
    found = careless.crash_everywhere(careless.CARELESS[name])
    assert 10 < sum(map(bool, found)) < len(found) / 2


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


@pytest.mark.parametrize("factor", [0.25, 0.5, 1, 2, 4])
def test_goodput_simulated_is_goodput_by_formula(factor):
    tau = factor * young_interval(MTBF, SAVE)
    assert mean_goodput(tau, MTBF, SAVE, RESTART) == pytest.approx(expected_goodput(tau, MTBF, SAVE, RESTART), abs=5e-3)


def test_the_pieces_of_a_failing_run_fill_its_time():
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


# Demonstrations


def test_a_desync_is_in_the_flight_recorders_of_real_ranks():
    hung = recorder.desync(odd=1, ranks=3)
    dumps = {rank: dump for rank, (_, dump) in enumerate(hung)}
    assert solutions.find_culprit(dumps) == (6, "gloo:all_reduce", [1])
    assert all("Timed out" in said or "closed" in said for said, _ in hung)


def children() -> set[int]:
    return {process.pid for process in killed.psutil.Process().children(recursive=True)}


@pytest.mark.parametrize(("disaster", "last"), [
    (killed.kill_a_worker, "rank 0 of 2: done after step 8"),
    (killed.kill_a_machine, "rank 0 of 1: done after step 8"),
])
def test_what_is_killed_is_resumed_and_nothing_is_left(disaster, last, capsys):
    before = children()
    said = disaster()
    assert any(line.startswith(last) for line in said)
    assert sum("begins with step 6" in line for line in said) == int(last[10])
    gone = [int(line.split("process ")[1].split()[0]) for line in said if "process " in line]
    assert not [pid for pid in gone if killed.psutil.pid_exists(pid)]
    assert children() <= before
    assert "now we kill it" in capsys.readouterr().out


def test_one_bit_of_32_is_felt():
    before, flips = bit_flips.flipped_losses(element=2000)
    assert [bit for bit, (_, loss) in enumerate(flips) if not abs(loss / before - 1) < 0.01] == [30]
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
