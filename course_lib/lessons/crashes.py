"""A disk in memory that writes down what each rank does to it, and all the states in which a crash can leave it.

A save is run once as it is and once with each rank very slow. In the order of virtual time the other ranks then do
everything that they would do if this one had died, so that cutting the sequence of operations after each of them gives
the crashes of each rank without starting a process for each.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from course_lib import Results, work

SECONDS = 1.0  # of virtual time for an operation, and for the slow rank so many times as long:
SLOW = 1000.0


class Disk:
    """One rank's view of a folder: what was there before, and the rank's own operations, in a list.

    The methods of `course_lib.folder.Folder`, and each takes virtual time. `fails` numbers an operation that raises
    OSError, as if the disk were full.
    """

    def __init__(self, files: dict[str, bytes], slow: bool = False, fails: int | None = None) -> None:
        self.files, self.fails = dict(files), fails
        self.log: list[tuple] = []
        self.read_from: list[str] = []
        self._seconds = SECONDS * (SLOW if slow else 1.0)

    def write(self, name: str, data: bytes) -> None:
        data = bytes(data)
        self._note("write", name, data)
        self.files[name] = data

    def sync(self, name: str) -> None:
        if name not in self.files:
            raise FileNotFoundError(2, f"{name} cannot be synced: there is no such file")
        self._note("sync", name)

    def rename(self, old: str, new: str) -> None:
        if old not in self.files:
            raise FileNotFoundError(2, f"{old} cannot be renamed: there is no such file")
        self._note("rename", old, new)
        self.files[new] = self.files.pop(old)

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(2, f"{name} cannot be read: there is no such file")
        self.read_from.append(name)
        return self.files[name]

    def names(self) -> list[str]:
        return sorted(self.files)

    def returned(self) -> None:
        """Note that the save has returned: from now on the caller relies on it."""
        self._note("returned")

    def _note(self, *operation: Any) -> None:
        if self.fails == len(self.log):
            self.fails = None
            raise OSError(28, f"{operation[1]} cannot be written: No space left on device")
        work(self._seconds)
        self.log.append(operation)


class Crash(NamedTuple):
    """A moment at which everything stopped, and the files as they are found afterwards."""

    words: str
    files: dict[str, bytes]
    returned: bool
    """Whether the save had returned on some rank."""


def saved(
    dist: Any, save: Callable, before: dict, shards: dict, shapes: dict, extra: dict, identity: str,
    slow: int | None = None, fails: tuple[int, int] | None = None,
) -> tuple[list, str, str]:  # fmt: skip
    """On a rank: save to a disk in memory; return what was done to it, and an OSError's name and words.

    `slow` is the rank whose disk is slow; `fails` is (rank, operation) of a disk that is full from there on.
    """
    rank, ranks, views, kind, sentence = dist.get_rank(), dist.get_world_size(), {}, "", ""
    disk = Disk(before, slow == rank, fails[1] if fails and fails[0] == rank else None)
    for name, shard in shards.items():  # as training has them: a view into the buffer that was gathered
        room = torch.zeros(ranks * shard.numel(), dtype=shard.dtype)
        views[name] = room[rank * shard.numel() : (rank + 1) * shard.numel()]
        views[name].copy_(shard)
    try:
        save(dist, disk, views, shapes, extra, identity)
        disk.returned()
    except OSError as error:
        kind, sentence = type(error).__name__, str(error)
    return [list(operation) for operation in disk.log], kind, sentence


def in_order(trace: Results) -> list[tuple[int, list]]:
    """Return (rank, operation) of all ranks of a run of `saved`, in order of time."""
    order = []
    for rank, (log, *_) in enumerate(trace):
        ends = [event.end for event in trace.of(rank, "work")]
        order += [(end, rank, place) for place, end in enumerate(ends[: len(log)])]
    return [(rank, trace[rank][0][place]) for _, rank, place in sorted(order)]


def final_files(trace: Results, before: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files after all operations."""
    found = dict(before)
    for _, (kind, *rest) in in_order(trace):
        if kind == "write":
            found[rest[0]] = rest[1]
        elif kind == "rename" and rest[0] in found:
            found[rest[1]] = found.pop(rest[0])
    return found


def crashes(trace: Results, before: dict[str, bytes]) -> Iterator[Crash]:
    """Yield every crash of a save: before and in the middle of each operation of each rank; of processes and of power.

    When processes are killed, the operating system still writes what it was given. When the power fails, files that
    were not synced are found empty.
    """
    found, synced, returned, when = dict(before), set(before), False, "before the first operation"
    for rank, (kind, *rest) in in_order(trace):
        yield from _stopped(found, synced, returned, when)
        when = f"after rank {rank}'s {kind} of {rest[0]}" if rest else f"after rank {rank} has returned"
        if kind == "write":
            name, data = rest
            synced.discard(name)
            for size in sorted({0, len(data) // 4, len(data) // 2, max(0, len(data) - 1)}):
                words = f"killed when rank {rank} has written {size:,} of {len(data):,} bytes of {name}"
                yield Crash(words, found | {name: data[:size]}, returned)
            found[name] = data
        elif kind == "sync":
            synced.add(rest[0])
        elif kind == "rename" and rest[0] in found:
            old, new = rest
            found[new] = found.pop(old)
            (synced.add if old in synced else synced.discard)(new)
            synced.discard(old)
        elif kind == "returned":
            returned = True
    yield from _stopped(found, synced, returned, when)


def _stopped(found: dict, synced: set, returned: bool, when: str) -> Iterator[Crash]:
    yield Crash(f"killed {when}", dict(found), returned)
    cut = {name: data if name in synced else b"" for name, data in found.items()}
    if cut != found:
        yield Crash(f"power lost {when}", cut, returned)


def survives(
    crash: Crash, old: dict[str, bytes], final: dict[str, bytes], ranks: int, identity: str
) -> tuple[str, str]:
    """Return ("", "") where a whole checkpoint of the right step is left, or what is wrong and a code for it.

    `old` are the files of the checkpoint before, `final` those that the save left when nothing disturbed it.
    """
    files, manifest = crash.files, crash.files.get("manifest.pt")
    if manifest is None:
        return "there is no manifest.pt: the old checkpoint cannot be found any more, and the new one not yet", "gone"
    if manifest == old["manifest.pt"]:
        hurt = [name for name, data in old.items() if files.get(name) != data]
        if hurt:
            return (f"manifest.pt is the old one, but {hurt[0]}, which it needs, is changed: write under new names",
                    "in-place")  # fmt: skip
        if crash.returned:
            return ("a rank has returned already, but manifest.pt is still the old one: its caller believes that the "
                    "new step is safe. Let all ranks wait for rank 0's rename", "returns-early")  # fmt: skip
        return "", ""
    lost = "power" in crash.words
    if manifest != final["manifest.pt"]:
        if lost and manifest == b"":
            return ("manifest.pt is found empty, because a rename moves a name and not what is in the file: sync the "
                    "file before you rename it", "not-synced")  # fmt: skip
        return ("manifest.pt is cut off, and with it the old checkpoint is lost: write the new one under another name "
                "and rename it", "manifest-in-place")  # fmt: skip
    for rank in range(ranks):
        name = f"shard-{identity}-{rank}.pt"
        if name not in files:
            return (f"manifest.pt is already the new one, and {name} was not yet written: nobody may rename before all "
                    "ranks have said that they are ready", "too-early")  # fmt: skip
        if files[name] != final.get(name):
            late = lost and files[name] == b""
            what = "is found empty: every rank syncs its file before it says that it is ready" if late else "is cut off"
            return f"manifest.pt is already the new one, and {name} {what}", "not-synced" if late else "too-early"
    return "", ""


def packed(thing: Any) -> bytes:
    """Return what torch.save would write."""
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def pieces_of(tensor: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """Return the flat pieces of a tensor that the ranks hold, the last ones padded with zeros."""
    flat = torch.zeros(ranks * -(-tensor.numel() // ranks), dtype=tensor.dtype)
    flat[: tensor.numel()] = tensor.flatten()
    return list(flat.view(ranks, -1))
