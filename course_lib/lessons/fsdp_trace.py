"""A profiler's trace of one step of torch's `fully_shard`: what a rank gathers, computes and reduces, in order."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

# What the profiler calls it; `fully_shard` writes the names of the modules in brackets behind its own.
LANES = {"FSDP::all_gather": "gather", "FSDP::post_backward_reduce": "reduce-scatter"}
COMPUTES = ("aten::mm", "aten::addmm", "aten::bmm", "aten::embedding", "aten::embedding_dense_backward")


def traced_step(dist: Any) -> list[tuple[str, str, str]]:
    """Return (way, what is done, unit) of one step of the tiny GPT on this rank, in the order of a profiler's trace.

    Units are the embedding, each block, and the last norm with the head, so that nothing is left for the root. As in
    torchtitan, the last one is not freed after forward, because backward would gather it at once.
    """
    from torch.autograd.profiler import profile
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from course_lib import text
    from course_lib.gpt import next_token_loss
    from course_lib.training import new_model

    model, mesh = new_model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for unit in (*model.blocks, model.embed):
        fully_shard(unit, mesh=mesh)
    fully_shard([model.norm, model.head], mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    tokens, targets = (whole.chunk(dist.get_world_size())[dist.get_rank()] for whole in text.batch(0))
    next_token_loss(model(tokens), targets).backward()  # the first step also prepares what later ones find ready
    os.environ["KINETO_LOG_LEVEL"] = "6"  # the profiler says on stderr when it starts and stops
    with profile(use_kineto=False) as seen:
        next_token_loss(model(tokens), targets).backward()
    events = sorted(seen.function_events, key=lambda event: event.time_range.start)
    return in_order([event.name for event in events])


def in_order(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (way, what is done, unit) for the names of a trace; one entry for all products of a unit in a row."""
    found: list[tuple[str, str, str]] = []
    way, unit = "forward", ""
    for name in names:
        call, _, module = name.partition(" (")
        module = module.rstrip(")")
        if call in ("FSDP::pre_forward", "FSDP::pre_backward"):
            way, unit = call.removeprefix("FSDP::pre_"), module
        if call in LANES:
            found.append((way, LANES[call], module))
        elif name in COMPUTES and (not found or found[-1] != (way, "compute", unit)):
            found.append((way, "compute", unit))
    return found


def short(unit: str) -> str:
    """Return a letter or a number for a unit: E for the embedding, 2 for `blocks.2`, H for the head."""
    number = re.fullmatch(r"blocks\.(\d+)", unit)
    return number[1] if number else {"embed": "E"}.get(unit, "H")


def told(order: Sequence[tuple[str, str, str]]) -> str:
    """Return a trace as lines, one for forward and one for backward."""
    ways = dict.fromkeys(way for way, *_ in order)
    return "\n".join(f"{way}: " + ", ".join(f"{doing} {short(unit)}" for its, doing, unit in order if its == way)
                     for way in ways)  # fmt: skip
