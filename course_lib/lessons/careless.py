"""Three careless ways to save, and where each of them and a learner's own way loses a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from course_lib import Cluster, Results, each, one_process, run
from course_lib.lessons.crashes import crashes, final_files, in_order, packed, pieces_of, saved, survives

RANKS, OLD, NEW = 4, "a1", "b2"
NO_VOTE = "nobody votes"


def _shard(folder: Any, dist: Any, shards: dict, identity: str, sync: bool = True) -> None:
    name = f"shard-{identity}-{dist.get_rank()}.pt"
    folder.write(name, packed({"identity": identity, "shards": {key: one.clone() for key, one in shards.items()}}))
    if sync:
        folder.sync(name)


def _manifest(folder: Any, dist: Any, shapes: dict, extra: dict, identity: str, name: str) -> None:
    content = {"identity": identity, "ranks": dist.get_world_size(), "shapes": shapes, "extra": extra}
    folder.write(name, packed(content))


def over_the_old_one(dist: Any, folder: Any, shards: dict, shapes: dict, extra: dict, identity: str) -> None:
    """Write the manifest where the old one stands."""
    _shard(folder, dist, shards, identity)
    dist.barrier()
    if dist.get_rank() == 0:
        _manifest(folder, dist, shapes, extra, identity, "manifest.pt")
        folder.sync("manifest.pt")
    dist.barrier()


def without_sync(dist: Any, folder: Any, shards: dict, shapes: dict, extra: dict, identity: str) -> None:
    """Rename, but trust that what was written is on the disk."""
    _shard(folder, dist, shards, identity, sync=False)
    dist.barrier()
    if dist.get_rank() == 0:
        _manifest(folder, dist, shapes, extra, identity, "manifest.new")
        folder.rename("manifest.new", "manifest.pt")
    dist.barrier()


def without_waiting(dist: Any, folder: Any, shards: dict, shapes: dict, extra: dict, identity: str) -> None:
    """Sync and rename, but let rank 0 go ahead."""
    _shard(folder, dist, shards, identity)
    if dist.get_rank() == 0:
        _manifest(folder, dist, shapes, extra, identity, "manifest.new")
        folder.sync("manifest.new")
        folder.rename("manifest.new", "manifest.pt")
    dist.barrier()


CARELESS = {"manifest in place": over_the_old_one, "without sync": without_sync, "without waiting": without_waiting}


class End(NamedTuple):
    """What one crash leaves."""

    behind: int | None
    """The rank that was far behind the others, if any."""
    moment: int
    """Counted from 0, in order of time; processes may be killed and the power may fail at the same one."""
    power: bool
    wrong: str
    """A code of what is wrong, or "" where a whole checkpoint is left."""
    doing: str = ""
    """What has just begun or ended: "write", "sync" or "rename", and of which file; "return" at the end.

    After the last sync, "|vote" is added if the ranks exchange anything but a barrier before the rename.
    """


def crash_everywhere(save: Callable) -> list[str]:
    """Return for every crash of a save on four ranks what is wrong after it: "" where a whole checkpoint is left."""
    return [end.wrong for end in crash_map(save)]


def crash_map(save: Callable) -> list[End]:
    """Crash a save on four ranks at every moment, with each rank in turn far behind; return how each crash ends."""
    tensor = torch.arange(10.0)
    shapes, old = {"weight": (10,)}, {}
    for rank, piece in enumerate(pieces_of(tensor, 2)):
        old[f"shard-{OLD}-{rank}.pt"] = packed({"identity": OLD, "shards": {"weight": piece.clone()}})
    old["manifest.pt"] = packed({"identity": OLD, "ranks": 2, "shapes": shapes, "extra": {"step": 7}})
    shards = [{"weight": piece.clone()} for piece in pieces_of(tensor + 100, RANKS)]
    found = []
    with one_process():
        for slow in (None, *range(RANKS)):
            trace = run(saved, save, dict(old), each(shards), shapes, {"step": 8}, NEW, slow, ranks=RANKS, on=Cluster())
            final, vote = final_files(trace, old), _last_before_vote(trace)
            moment = -1
            for crash in crashes(trace, old):
                power = crash.words.startswith("power")  # it fails at the moment of the crash before
                moment += not power
                wrong = survives(crash, old, final, RANKS, NEW)[1]
                doing = _doing(crash.words, slow) + ("|vote" if crash.words.endswith(vote) else "")
                found.append(End(slow, moment, power, wrong, doing))
    return found


def _last_before_vote(trace: Results) -> str:
    """Return the words for the last operation before the rename, if the ranks vote between the two."""
    order = in_order(trace)
    place = next((place for place, (_, (kind, *_)) in enumerate(order) if kind == "rename"), 0)
    if not place:
        return NO_VOTE
    rank, (kind, *rest) = order[place - 1]
    end = trace.of(rank, "work")[sum(one == rank for one, _ in order[:place]) - 1].end
    if not any(event.end >= end for event in trace.of(order[place][0]) if event.kind not in ("work", "barrier")):
        return NO_VOTE
    return f"after rank {rank}'s {kind} of {rest[0]}"


def _doing(words: str, slow: int | None) -> str:
    """Return in two lines what is done at the moment of a crash, as `crashes` describes it."""
    rank = re.search(r"rank (\d+)", words)
    if rank is None:
        return "write\nshards"  # before the first operation
    of = re.search(r"'s (write|sync|rename) of|(returned)", words)
    kind = "write" if of is None else "return" if of[2] else of[1]
    if slow == int(rank[1]) and kind in ("write", "sync"):
        return f"rank {slow}\n{kind}s"
    if kind == "write":
        return "write\nmanifest" if "manifest" in words else "write\nshards"
    return kind


def weights_in(place: str) -> dict[str, str]:
    """Return for each file in a folder the first number of the `weight` that it holds, or why it cannot be read."""
    found = {}
    for path in sorted(Path(place).iterdir()):
        try:
            found[path.name] = str(torch.load(path)["weight"][0].item())
        except RuntimeError as error:
            found[path.name] = "cannot be read: " + str(error).split("\n")[0].partition(". ")[0]
    return found
