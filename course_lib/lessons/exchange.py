"""An all-to-all of rows that autograd can go back through: gradients return the way the rows came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class _Exchange(torch.autograd.Function):
    """Forward sends pieces of rows; backward sends the gradients of what came back to where it came from."""

    @staticmethod
    def forward(ctx: Any, dist: Any, rows: torch.Tensor, to_each: list[int], from_each: list[int]) -> torch.Tensor:
        ctx.dist, ctx.to_each, ctx.from_each = dist, to_each, from_each
        came = rows.new_empty(sum(from_each), *rows.shape[1:])
        dist.all_to_all_single(came, rows.contiguous(), from_each, to_each)
        return came

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        back = gradient.new_empty(sum(ctx.to_each), *gradient.shape[1:])
        ctx.dist.all_to_all_single(back, gradient.contiguous(), ctx.to_each, ctx.from_each)
        return None, back, None, None


def exchange(dist: Any, rows: torch.Tensor, to_each: Sequence[int], from_each: Sequence[int]) -> torch.Tensor:
    """Send the first to_each[0] rows to rank 0, the next to_each[1] to rank 1, ...; return what came, in rank order.

    From rank r come from_each[r] rows. Pieces may be of any size, also empty. Every rank calls it, and backward comes
    by on every rank as well: it is the same all-to-all with the sizes exchanged. What torch has for this is
    `all_to_all_single_autograd` of torch.distributed._functional_collectives. Raises ValueError where sizes do not fit.
    """
    ranks = dist.get_world_size()
    to_each, from_each = ([int(size) for size in sizes] for sizes in (to_each, from_each))
    for name, sizes in (("to_each", to_each), ("from_each", from_each)):
        if len(sizes) != ranks or min(sizes) < 0:
            raise ValueError(f"{name} = {sizes}: must be {ranks} sizes, 0 or more, one for each rank")
    if sum(to_each) != len(rows):
        raise ValueError(f"to_each = {to_each}: sums to {sum(to_each)}, but there are {len(rows)} rows")
    return _Exchange.apply(dist, rows, to_each, from_each)
