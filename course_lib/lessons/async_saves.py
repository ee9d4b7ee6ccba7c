"""Torch's own checkpoint, written while training goes on."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from typing import Any

import torch

from course_lib import run

NUMBERS = 10_000_000


def train_and_save(dist: Any, folder: str, numbers: int) -> tuple[float, float, int, float, float]:
    """On a real rank: begin to save a tensor, change it until the files are there, and load what was saved.

    Returns the seconds until the call was back, those until the files were there, the steps meanwhile, and the tensor
    as saved and as it is.
    """
    import torch.distributed.checkpoint as dcp

    weight = torch.zeros(numbers // dist.get_world_size())
    begun = time.perf_counter()
    if dist.get_rank() == 0:
        print("saving begins", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a call inside torch that is deprecated
        writing = dcp.async_save({f"weight {dist.get_rank()}": weight}, checkpoint_id=folder)
        back, steps = time.perf_counter() - begun, 0
        while not writing.done():
            weight += 1
            steps += 1
        writing.result()
        there = time.perf_counter() - begun
        saved = {f"weight {dist.get_rank()}": torch.empty_like(weight)}
        dcp.load(saved, checkpoint_id=folder)
    found = saved[f"weight {dist.get_rank()}"]
    same = found[0].item() if bool((found == found[0]).all()) else float("nan")
    return back, there, steps, same, weight[0].item()


def show(numbers: int = NUMBERS) -> None:
    """Save on two real ranks while they go on, and say how long each part took and what the files hold."""
    with tempfile.TemporaryDirectory() as folder:
        back, there, steps, saved, now = run(train_and_save, folder, numbers, ranks=2)[0]
        files = sorted(os.listdir(folder))
    print(f"async_save came back after {back:.2f} s; the files were there after {there:.2f} s: {', '.join(files)}")
    print(f"meanwhile rank 0 took {steps} steps; every weight was saved as {saved:g} and is {now:g} now")
