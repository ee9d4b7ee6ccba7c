"""A sharded training that can be stopped and go on: on as many ranks as before, or on others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib import text
from course_lib.folder import Folder
from course_lib.gpt import next_token_loss
from course_lib.training import adamw, new_model

ROWS = 8  # of the global batch


def train_on(dist: Any, steps: int, folder: Folder, save: Callable, load: Callable) -> tuple[torch.Tensor, Any]:
    """Train the tiny GPT for `steps` steps from where the checkpoint in `folder` ends, and save; each rank its shard.

    Returns the losses of the global batch and the whole weights. Batches are drawn at random and some tokens are
    hidden at random, so a checkpoint holds the state of the generator beside the shards and the number of steps.
    """
    model, rank, ranks = new_model(), dist.get_rank(), dist.get_world_size()
    whole = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    shapes = {name: (len(whole),) for name in ("weight", "mean", "square")}
    shards = {name: torch.zeros(-(-len(whole) // ranks)) for name in shapes}
    part = whole[rank * len(shards["weight"]) :][: len(shards["weight"])]
    shards["weight"][: len(part)] = part
    step, order, names = 0, torch.Generator().manual_seed(0), folder.names()
    dist.barrier()  # all have looked before anybody writes
    if "manifest.pt" in names:
        extra = load(dist, folder, shards, shapes)
        step = extra["step"]
        order.set_state(extra["order"])
    losses = []
    for _ in range(steps):
        losses.append(_step(dist, model, shards, step, order))
        step += 1
    save(dist, folder, shards, shapes, {"step": step, "order": order.get_state()}, f"{step}-{len(names)}")
    return torch.tensor(losses), _gathered(dist, shards["weight"])[: len(whole)]


def _step(dist: Any, model: torch.nn.Module, shards: dict, step: int, order: torch.Generator) -> float:
    """Gather, compute on the rank's own rows, reduce-scatter, and step the rank's own shard; return the mean loss."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs, targets = text.batch(int(torch.randint(9999, (1,), generator=order)), ROWS)
    inputs = inputs.masked_fill(torch.rand(inputs.shape, generator=order) < 0.1, 0)  # some tokens are hidden
    weights, begin = _gathered(dist, shards["weight"]), 0
    for parameter in model.parameters():
        parameter.data.copy_(weights[begin : begin + parameter.numel()].view_as(parameter))
        begin += parameter.numel()
        parameter.grad = None
    mine = slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)
    loss = next_token_loss(model(inputs[mine]), targets[mine])
    loss.backward()
    grads = torch.zeros(ranks * len(shards["weight"]))
    grads[:begin] = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    grad = torch.empty_like(shards["weight"])
    dist.reduce_scatter(grad, list(grads.view(ranks, -1)))
    adamw(shards["weight"], grad / ranks, {"steps": step, "mean": shards["mean"], "square": shards["square"]})
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / ranks


def _gathered(dist: Any, shard: torch.Tensor) -> torch.Tensor:
    whole = shard.new_empty(dist.get_world_size(), len(shard))
    dist.all_gather(list(whole), shard)
    return whole.flatten()
