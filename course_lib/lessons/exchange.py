"""An all-to-all of rows that autograd can go back through: gradients return the way the rows came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class _Exchange(torch.autograd.Function):
    """Forward sends pieces of rows; backward sends the gradients of what came back to where it came from."""

    @staticmethod
    def forward(ctx: Any, dist: Any, rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        ctx.dist, ctx.sent, ctx.received = dist, sent, received
        came = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(came, rows.contiguous(), received, sent)
        return came

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        back = gradient.new_empty(sum(ctx.sent), *gradient.shape[1:])
        ctx.dist.all_to_all_single(back, gradient.contiguous(), ctx.sent, ctx.received)
        return None, back, None, None


def exchange(dist: Any, rows: torch.Tensor, sent: Sequence[int], received: Sequence[int]) -> torch.Tensor:
    """Send the first sent[0] rows to rank 0, the next sent[1] to rank 1 and so on; return what came, in rank order.

    From rank r come received[r] rows. Pieces may be of any size, also empty. Every rank calls it, and backward comes by
    on every rank as well: it is the same all-to-all with the sizes exchanged. What torch has for this is
    `all_to_all_single_autograd` of torch.distributed._functional_collectives. Raises ValueError where sizes do not fit.
    """
    ranks = dist.get_world_size()
    sent, received = ([int(size) for size in sizes] for sizes in (sent, received))
    for name, sizes in (("sent", sent), ("received", received)):
        if len(sizes) != ranks or min(sizes) < 0:
            raise ValueError(f"{name} = {sizes}: must be {ranks} sizes, 0 or more, one for each rank")
    if sum(sent) != len(rows):
        raise ValueError(f"sent = {sent}: sums to {sum(sent)}, but there are {len(rows)} rows")
    return _Exchange.apply(dist, rows, sent, received)
