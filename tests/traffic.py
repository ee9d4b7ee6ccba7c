"""Real traffic between ranks and their judge, recorded, and frames made of it by mutation: for fuzzing.

`python tests/traffic.py FRAMES NOTEBOOKS` (make fuzz) does it at length, the tests do it in short.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import attacked_course
import torch

from course_lib import Cluster
from course_lib.engine import outcome, plain, wire
from course_lib.engine.simulated.dist import SimulatedDist
from exercises_tests.grading import broker, grader, remote, verdicts
from exercises_tests.tools.chapters import ChapterError


def program(dist) -> list:
    """Use all that a rank may ask for."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    other = 1 - me
    mine, got = torch.arange(4.0) + me, torch.zeros(4)
    sending = dist.isend(mine, other, tag=3)
    dist.recv(got, other, tag=3)
    sending.wait()
    for op in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, got, other)]):
        op.wait()
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    handle = dist.all_reduce(mine, async_op=True)
    handle.wait()
    dist.broadcast(mine, 0)
    dist.reduce(mine, 0)
    parts = [torch.zeros(4) for _ in range(ranks)]
    dist.all_gather(parts, mine)
    dist.gather(mine, parts if me == 0 else None, 0)
    dist.scatter(got, parts if me == 0 else None, 0)
    dist.reduce_scatter(got, parts)
    dist.all_to_all(parts, [part.clone() for part in parts])
    dist.all_gather_into_tensor(torch.zeros(8), mine)
    dist.reduce_scatter_tensor(torch.zeros(2), mine)
    dist.all_to_all_single(torch.zeros(4), mine)
    group = dist.new_group([0, 1])
    dist.all_reduce(mine, group=group)
    dist.barrier()
    dist.work(0.5, None)
    return [mine, (1, 2.5, None, True), {"a": b"x", "ü": {1, 2}}, 2**80, 1j]


def recorded() -> tuple[list[bytes], list[bytes]]:
    """Return the bodies of the calls and of the ends of two ranks that run `program`, as a judge receives them."""
    world, calls, ends, children, threads, links = broker.Broker(2, Cluster()), [], [], [], [], []
    put = wire.put

    def note(link, kind, body=b""):
        if kind in (wire.CALL, wire.DONE):
            (calls if kind == wire.CALL else ends).append(body)
        put(link, kind, body)

    def live(link, rank):
        ended = outcome.returned(program(remote.RemoteDist(link, rank)), rank, plain)
        wire.put(link, wire.DONE, outcome.pack(ended, plain))

    wire.put = note
    try:
        for rank in range(2):
            ours, theirs = socket.socketpair()
            links += [ours, theirs]
            children.append(SimpleNamespace(link=ours, index=rank, outcome=None))
            threads.append(threading.Thread(target=live, args=(theirs, rank)))
        world.begin(children)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        wire.put = put
        world.close()
        for link in links:
            link.close()
    failed = outcome.failed(ValueError("wrong"), 0)
    return calls, [*ends, outcome.pack(failed, plain)]


def mutated(frames: list[bytes], seed: int):
    """Yield mutations of frames without end: bits, lengths, pieces of other frames, cuts, and repeats."""
    dice = random.Random(seed)
    edges = [struct.pack("<I", n) for n in (0, 1, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1)]
    edges += [struct.pack("<Q", n) for n in (0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1)]
    while True:
        frame = bytearray(dice.choice(frames))
        for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
            at = dice.randrange(len(frame) + 1)
            kind = dice.randrange(7)
            if kind == 0 and at < len(frame):
                frame[at] ^= 1 << dice.randrange(8)
            elif kind == 1 and at < len(frame):
                frame[at] = dice.choice(b"NTFifcsbBluxSZdItan\xff\x00\x80")
            elif kind == 2:
                edge = dice.choice(edges)
                frame[at : at + len(edge)] = edge
            elif kind == 3:
                other = dice.choice(frames)
                start = dice.randrange(len(other))
                frame[at:at] = other[start : start + dice.randrange(1, 40)]
            elif kind == 4:
                del frame[at : at + dice.randrange(1, 12)]
            elif kind == 5:
                del frame[at:]
            else:
                frame[at:at] = frame[max(0, at - dice.randrange(1, 30)) : at] * dice.randrange(1, 4)
        yield bytes(frame) or b"\0"


ODD = [
    None, True, 0, 1, -1, 2**31, -(2**63), 2**80, 0.5, -1e6, float("nan"),
    float("inf"), "", "x", "_do", b"", [], [0], [1, 0],
    (), {}, {1}, 1j, slice(0, 9), torch.zeros(0), torch.ones(()), torch.ones(3), torch.ones(1, 1, 2, dtype=torch.int64),
    torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64), torch.ones(2, requires_grad=True),
    torch.zeros(2).to(torch.float8_e5m2), {"a group": 0}, {"a group": -1}, {"a group": 9}, {"a group": "x"},
    {"an operation": "SUM"}, {"an operation": "__class__"}, {"an operation": "PREMUL_SUM"}, {"an operation": 5},
    [torch.zeros(4)] * 2, [torch.zeros(1)],
]  # fmt: skip
"""Arguments that a call may be given."""


def odd_calls(frames: list[bytes], seed: int):
    """Yield well-formed calls without end: of names that are known and some that are not, with odd arguments."""
    dice = random.Random(seed)
    calls = [plain.unpack(frame) for frame in frames]
    names = sorted(broker.CALLS | {"work", "wait", "_group", "clock", "__class__", "events", "batch_isend_irecv"})
    words = ["dst", "src", "group", "op", "tag", "async_op", "group_dst", "tensor", "ranks", "x", "self"]
    while True:
        name, args, kwargs = dice.choice(calls)
        name = dice.choice(names) if dice.random() < 0.4 else name
        args, kwargs = list(args), dict(kwargs)
        for _ in range(dice.choice((0, 1, 1, 2))):
            at = dice.randrange(len(args) + 1)
            args[at : at + dice.randrange(2)] = [dice.choice(ODD)]
        if dice.random() < 0.3:
            kwargs[dice.choice(words)] = dice.choice(ODD)
        yield plain.pack((name, args, kwargs))


class Target:
    """A judge's side of a simulation with one rank, which carries out whatever a frame asks for."""

    def __init__(self) -> None:
        self.world = broker.Broker(1, Cluster())
        self.world.clock.on_deadlock = self.deadlock
        self.rank = self.world.clock.ranks[0]
        self.fresh()

    def fresh(self) -> None:
        self.handles, self.groups, self.rank.now = {}, [], 0.0
        self.dist = SimulatedDist(self.world.clock, self.rank, {}, [])
        self.world.clock._queues.clear()
        self.world.clock._channels.clear()
        self.world.clock.ready.clear()
        self.world._held = 0
        self.rank.open_handles.clear()

    def close(self) -> None:
        os.close(self.world.bell)
        os.close(self.world._ring)

    def deadlock(self) -> None:
        self.fresh()
        raise RuntimeError("a deadlock")

    def ask(self, body: bytes) -> str:
        """Carry out a frame as a judge does; return the class of the refusal, "" if there is none."""
        before = self.rank.now
        try:
            plain.pack(self.world._do(self.dist, self.handles, self.groups, *broker.asked(body)))
            return ""
        except Exception as error:
            return type(error).__name__
        finally:
            assert before <= self.rank.now < float("inf") or self.rank.now == 0.0, "the clock went back"

    def works(self) -> bool:
        """Return whether it still computes what it should."""
        self.fresh()
        mine = torch.arange(4.0)
        reply = self.world._do(self.dist, self.handles, self.groups, "all_reduce", [mine], {})
        return reply["value"] is None and torch.equal(mine, torch.arange(4.0))


def fuzz_frames(count: int, seed: int = 0) -> dict[str, int]:
    """Give so many mutated frames to the judge's side; return how often each kind of refusal came."""
    calls, ends = recorded()
    target, told = Target(), {}
    raw, odd = mutated(calls + ends, seed), odd_calls(calls, seed)
    for number in range(count):
        frame = next(odd if number % 2 else raw)
        found = target.ask(frame) if number % 8 != 6 else type(broker.believed(frame, 0)).__name__
        found = found or "done"
        told[found] = told.get(found, 0) + 1
        if number % 1000 == 0:
            assert target.works(), f"broken before frame {number} of seed {seed}"
    assert target.works()
    target.close()
    return told


WEIRD = [
    None, True, 0, -1, 1e308, "", "x", "\ud800", "../../x", "=1", "\x1b[2J", [], {}, [[]], [None], {"a": {}}, "ü" * 300,
]
NAMES = ["metadata", "cells", "id", "source", "cell_type", "tags", "course", "chapter", "version", "outputs"]
BYTES = (b"", b"\xff", b"\0", b'"', b"}", b"[" * 500, b"\xef\xbb\xbf", b"1" * 5000)


def fuzz_notebooks(count: int, group: grader.Grading, folder: Path, seed: int = 0) -> dict[str, int]:
    """Look at so many mutated notebooks as the grader does; return how many were taken and how many refused."""
    dice, told = random.Random(seed), {"taken": 0, "refused": 0}
    path = folder / "chapter.ipynb"
    whole = json.dumps(attacked_course.notebook(attacked_course.RIGHT))
    for _ in range(count):
        data = json.loads(whole)
        for _ in range(dice.choice((1, 1, 2, 5))):
            _spoil(data, dice)
        raw = json.dumps(data).encode("utf-8", "surrogatepass")
        if dice.random() < 0.3:
            at = dice.randrange(len(raw))
            raw = raw[:at] + dice.choice(BYTES) + raw[at:]
        path.write_bytes(raw)
        try:
            handed_in = group.look("somebody", path)
        except ChapterError as error:
            assert len(str(error)) < 1000
            told["refused"] += 1
            continue
        request = group.request(handed_in)
        assert len(json.dumps(request)) < 4 << 20 and request["solutions"] == {}
        group.digest(request)
        told["taken"] += 1
    return told


def _spoil(thing, dice) -> None:
    """Put something odd somewhere into nested lists and dicts."""
    while isinstance(thing, (dict, list)) and thing:
        keys = list(thing) if isinstance(thing, dict) else range(len(thing))
        key = dice.choice(keys)
        inner = thing[key]
        if not isinstance(inner, (dict, list)) or not inner or dice.random() < 0.3:
            if dice.random() < 0.2:
                del thing[key]
            elif isinstance(thing, dict) and dice.random() < 0.3:
                thing[dice.choice(NAMES)] = dice.choice(WEIRD)
            else:
                thing[key] = dice.choice(WEIRD)
            return
        thing = inner


def fuzz_verdicts(count: int, seed: int = 0) -> int:
    """Give so many mutated lines of a judge to the grader; return how many were believed."""
    result = {"exercise": "total", "earned": 2, "marks": "value ✓", "parts": {"value": True}, "code": "",
              "sentence": "sums", "see": "", "borrowed": False, "events": []}  # fmt: skip
    wrong = result | {"earned": 0, "code": "value", "events": [[0, "send", 0.0, 1.5, "to 1"], [1, "wait", 0, 2, ""]]}
    lines, believed = [json.dumps(result).encode(), json.dumps(wrong).encode()], 0
    for _, line in zip(range(count), mutated(lines, seed)):  # noqa: B905
        try:
            found = verdicts.believed(line, {"total": 2})
        except ValueError:
            continue
        assert verdicts.events(found["events"]) == found["events"]
        assert 0 <= found["earned"] <= 2 and found["sentence"].replace("\n", "").replace("\t", "").isprintable()
        believed += 1
    return believed


def main(frames: int, notebooks: int) -> None:
    """Fuzz at length, in pieces of 50,000 frames with a seed each, and print what came of it."""
    begun = time.monotonic()
    for seed in range(-(-frames // 50_000)):
        told = fuzz_frames(min(50_000, frames - 50_000 * seed), seed)
        print(f"frames, seed {seed}: {told}, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"verdicts: {fuzz_verdicts(frames // 10)} of {frames // 10:,} believed", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        group = grader.Grading(attacked_course.make(Path(folder, "course")), "fuzz", unprotected=True)
        try:
            print(f"notebooks: {fuzz_notebooks(notebooks, group, Path(folder))}, {time.monotonic() - begun:.0f} s")
        finally:
            group.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
