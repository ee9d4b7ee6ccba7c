"""Swap beside a third: two ranks exchange tensors while another one sends to the first of them."""

from __future__ import annotations

from typing import Any

import torch


def swap_beside_a_third(dist: Any, exchange: Any) -> Any:
    """Let ranks 0 and 2 swap their tensors (all 0, all 2) while rank 1 sends its own (all 1) to rank 0."""
    rank = dist.get_rank()
    mine = torch.ones(3) * rank
    if rank == 1:
        dist.send(mine, 0)
        return None
    came = exchange(dist, mine, 2 - rank)
    if rank == 0:
        dist.recv(torch.empty(3))  # from whoever is left
    return came
