"""The tiny GPT on two axes, data x tensor: by hand with groups, and by torch's DeviceMesh and FSDP2."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from torch import nn

from course_lib import text
from course_lib.gpt import GPT, next_token_loss
from course_lib.planning import groups
from course_lib.training import adamw, new_model

ROWS, LENGTH = 8, 32  # of the batch of all ranks


class _Copy(torch.autograd.Function):
    """Chapter 5's f among the ranks of a group: every rank reads the same x, so their gradients of it are summed."""

    @staticmethod
    def forward(ctx, x, dist, group):
        ctx.dist, ctx.group = dist, group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        ctx.dist.all_reduce(grad, group=ctx.group)
        return grad, None, None


class _Reduce(torch.autograd.Function):
    """Chapter 5's g among the ranks of a group: the sum of their parts, and for each part the gradient of the sum."""

    @staticmethod
    def forward(ctx, y, dist, group):
        y = y.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


def copy_to(x: torch.Tensor, dist: Any, group: Any) -> torch.Tensor:
    """Return x, which all ranks of a group read; in backward their gradients of it are summed (chapter 5's f)."""
    return _Copy.apply(x, dist, group)


def reduce_from(y: torch.Tensor, dist: Any, group: Any) -> torch.Tensor:
    """Return the sum of y over the ranks of a group; backward hands its gradient to each of them (chapter 5's g)."""
    return _Reduce.apply(y, dist, group)


def my_groups(dist: Any, **axes: int) -> dict[str, tuple[Any, int]]:
    """Return for each axis, the innermost first, this rank's group and its place in it."""
    found = {}
    for axis, every in groups(dist.get_world_size(), list(axes.items())).items():
        made = [(ranks, dist.new_group(ranks)) for ranks in every]
        ranks, group = next(one for one in made if dist.get_rank() in one[0])
        found[axis] = group, ranks.index(dist.get_rank())
    return found


class _Split(nn.Module):
    """A part of a layer whose ranks hold summands of its output; a bias of the output is added after the sum."""

    def __init__(self, inner: nn.Module, last: nn.Linear, dist: Any, group: Any) -> None:
        super().__init__()
        self.inner, self.bias = inner, last.bias
        last.bias = None
        self._where = dist, group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = reduce_from(self.inner(copy_to(x, *self._where)), *self._where)
        return y if self.bias is None else y + self.bias


def cut(model: GPT, dist: Any, group: Any, place: int, ranks: int) -> GPT:
    """Cut each block of a model for tensor parallelism, in place: heads and inner columns, `ranks` equal pieces."""
    for block in model.blocks:
        attention, mlp = block.attention, block.mlp
        for linear, dim in ((attention.q, 0), (attention.k, 0), (attention.v, 0), (attention.out, 1), (mlp.up, 0),
                            (mlp.down, 1)):  # fmt: skip
            linear.weight = nn.Parameter(linear.weight.detach().chunk(ranks, dim)[place].clone())
        mlp.up.bias = nn.Parameter(mlp.up.bias.detach().chunk(ranks)[place].clone())
        block.attention = _Split(attention, attention.out, dist, group)
        block.mlp = _Split(mlp, mlp.down, dist, group)
    return model


def by_hand(dist: Any, dp: int, tp: int, steps: int) -> tuple[list[float], torch.Tensor]:
    """Train the tiny GPT on dp x tp ranks, tensor ranks next to each other; return losses and the first layer's `up`.

    Each data rank takes its rows of the batch; gradients are averaged over the ranks that hold the same piece.
    """
    mesh = my_groups(dist, tp=tp, dp=dp)
    (columns, place), (rows, row) = mesh["tp"], mesh["dp"]
    model = cut(new_model(dtype=torch.float64), dist, columns, place, tp)
    states, losses = [{} for _ in model.parameters()], []
    for step in range(steps):
        tokens, targets = (whole.tensor_split(dp)[row] for whole in text.batch(step, ROWS, LENGTH))
        loss = next_token_loss(model(tokens), targets)
        model.zero_grad()
        loss.backward()
        for parameter, state in zip(model.parameters(), states, strict=True):
            dist.all_reduce(parameter.grad, group=rows)
            adamw(parameter.data, parameter.grad / dp, state)
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=rows)
        losses.append(mean.item() / dp)
    mine = model.blocks[0].mlp.inner.up.weight.detach()
    pieces = [torch.empty_like(mine) for _ in range(tp)]
    dist.all_gather(pieces, mine, group=columns)
    return losses, torch.cat(pieces)


def by_torch(dist: Any, dp: int, tp: int, steps: int) -> tuple[list[float], torch.Tensor]:
    """Train the same by a DeviceMesh, `parallelize_module` and `fully_shard`; return losses and the same matrix."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)  # full_tensor in two gathers
    mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    model = new_model(dtype=torch.float64)
    columns = dict.fromkeys(("attention.q", "attention.k", "attention.v", "mlp.up"), ColwiseParallel)
    rows = dict.fromkeys(("attention.out", "mlp.down"), RowwiseParallel)
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], {name: kind() for name, kind in (columns | rows).items()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    losses, row = [], mesh["dp"].get_local_rank()
    for step in range(steps):
        tokens, targets = (whole.tensor_split(dp)[row] for whole in text.batch(step, ROWS, LENGTH))
        loss = next_token_loss(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean, group=mesh["dp"].get_group())
        losses.append(mean.item() / dp)
    return losses, model.blocks[0].mlp.up.weight.full_tensor().detach()
