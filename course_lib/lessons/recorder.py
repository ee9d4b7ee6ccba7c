"""A job that comes out of step: on real ranks, with the dumps of torch's flight recorder, and as 64 ranks' dumps."""

from __future__ import annotations

import faulthandler
import linecache
import os
import pickle
import re
import tempfile
from datetime import timedelta
from typing import Any

from course_lib import Results, run

KEPT = ("collective_seq_id", "profiling_name", "input_sizes", "state")
PATIENCE = 2  # seconds after which gloo gives up, in place of half an hour
FRAME = r'File "(.+?)", line (\d+) in (\w+)'  # as faulthandler writes it


def out_of_step(dist: Any, odd: int | None, steps: int = 3) -> tuple[str, list[dict], list[str]]:
    """On a real rank: all-reduce step after step; rank `odd` gathers once where the others sum.

    Returns what gloo said when it gave up, what this rank's flight recorder holds, and where the rank stood in the
    code while it hung, from the inside out, as `py-spy dump` would tell it.
    """
    import torch
    import torch.distributed as torch_dist

    group = torch_dist.new_group(timeout=timedelta(seconds=PATIENCE))
    said, tensor, ranks = "", torch.ones(1000), dist.get_world_size()
    with tempfile.TemporaryFile() as log:
        try:
            for step in range(steps):
                faulthandler.dump_traceback_later(PATIENCE / 2, file=log)  # only if this step hangs for so long
                torch_dist.all_reduce(tensor, group=group)
                if dist.get_rank() == odd and step == steps - 1:
                    torch_dist.all_gather([torch.empty(1000) for _ in range(ranks)], tensor, group=group)
                else:
                    torch_dist.all_reduce(tensor, group=group)
        except RuntimeError as error:
            said = str(error)
        faulthandler.cancel_dump_traceback_later()
        log.seek(0)
        stack = stack_of(log.read().decode(errors="replace"), out_of_step.__name__)
    found = recorded(group.group_name)
    for one in found[: len(found) - bool(said)]:
        one["state"] = "completed"  # gloo does not report it to the recorder; these calls have returned
    for one in found[len(found) - bool(said) :]:
        one["state"] = "started"  # nor this: the call was running when the timeout ended it
    return said, found, stack


def stack_of(dump: str, function: str) -> list[str]:
    """Return the calls inside `function` of the last stack in a dump of faulthandler, the innermost first."""
    for thread in reversed(dump.split("hread 0x")):
        frames = re.findall(FRAME, thread)
        names = [name for _, _, name in frames]
        if function in names:
            told = [f"{name} ({os.path.basename(file)}:{line})" for file, line, name in frames]
            file, line, _ = frames[names.index(function)]
            told[names.index(function)] += f": {linecache.getline(file, int(line)).strip()}"
            return told[: names.index(function) + 1]
    return []


def recorded(group: str) -> list[dict]:
    """Return what the flight recorder of this process holds of one group, the fields that we look at."""
    import torch

    dump = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(True, False, False))
    entries = [entry for entry in dump.get("entries", []) if entry["process_group"][0] == group]
    return [{name: entry[name] for name in KEPT} for entry in entries]


def desync(odd: int = 2, ranks: int = 4) -> Results:
    """Run `out_of_step` on real ranks with the flight recorder switched on; return what each rank returned."""
    before = os.environ.get("TORCH_FR_BUFFER_SIZE")
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"  # older torch records only where it is set
    try:
        return run(out_of_step, odd, ranks=ranks)
    finally:
        if before is None:
            del os.environ["TORCH_FR_BUFFER_SIZE"]
        else:
            os.environ["TORCH_FR_BUFFER_SIZE"] = before


def entry(number: int, name: str, size: int, state: str) -> dict[str, Any]:
    """Return one record as torch's flight recorder writes it, the fields that we look at."""
    return {"collective_seq_id": number, "profiling_name": name, "input_sizes": [[size]], "state": state}


def healthy(ranks: int, completed: int, kept: int = 8) -> dict[int, list[dict]]:
    """Return the dumps of ranks that have completed so many collectives; each keeps the last few, as a ring does."""
    first = max(1, completed - kept + 1)
    return {rank: [planned(number, "completed") for number in range(first, completed + 1)] for rank in range(ranks)}


def planned(number: int, state: str) -> dict[str, Any]:
    """Return the record of collective `number` of a job that gathers, sums and scatters in turn."""
    names = ("nccl:_all_gather_base", "nccl:all_reduce", "nccl:_reduce_scatter_base")
    return entry(number, names[number % 3], 4096 * (1 + number % 3), state)


def dumps_of_64(absent: int = 37) -> dict[int, list[dict]]:
    """Return the dumps of 64 ranks that hang: one never came to collective 412, and the others have gone on to wait.

    Ranks that wait have posted one, two or three more collectives meanwhile, because a GPU's work is only enqueued.
    """
    dumps = healthy(64, 411)
    for rank, found in dumps.items():
        if rank != absent:
            found.append(planned(412, "started"))
            found += [planned(413 + later, "scheduled") for later in range(rank % 3)]
    return dumps
