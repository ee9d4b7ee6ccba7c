"""Expert parallelism as a strategy of the running table: data parallel everywhere but in the experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib.gpt import next_token_loss
from course_lib.lessons.running_table import mine_of
from course_lib.training import new_optimizer

EXPERTS, PER_TOKEN, WIDTH = 16, 2, 128


class Expert(nn.Module):
    """Up, GELU, and down again."""

    def __init__(self, up: torch.Tensor, down: torch.Tensor) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(up), nn.Parameter(down)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(rows @ self.up) @ self.down


class ParallelExperts(nn.Module):
    """In the place of an MLP: the router, which every rank has, and this rank's share of the experts."""

    def __init__(self, dist: Any, hidden: int, layer: Callable, experts: int = EXPERTS) -> None:
        super().__init__()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if experts % ranks:
            raise ValueError(f"experts = {experts}: must be divisible by the {ranks} ranks, so that all hold as many")
        weights = [(torch.randn(hidden, WIDTH), torch.randn(WIDTH, hidden)) for _ in range(experts)]  # alike everywhere
        share = experts // ranks
        self.router = nn.Parameter(0.02 * torch.randn(hidden, experts))
        self.experts = nn.ModuleList(
            Expert(0.02 * up, 0.02 * down) for up, down in weights[rank * share : (rank + 1) * share]
        )
        self.dist, self.layer = dist, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(0, -2)
        return self.layer(self.dist, rows, self.router, list(self.experts), PER_TOKEN, math.inf).view_as(x)


def expert_parallel(layer: Callable) -> Callable:
    """Return the strategy in which each MLP is 16 experts over the ranks; `layer` is `expert_parallel_layer`.

    Gradients of what every rank has are averaged. A rank's experts have met the tokens of all ranks already: their
    gradients are sums, and only divided.
    """

    def strategy(dist: Any, model: nn.Module) -> tuple:
        torch.manual_seed(0)
        for block in model.blocks:
            block.mlp = ParallelExperts(dist, model.shape.hidden, layer)
        optimizer, ranks = new_optimizer(model), dist.get_world_size()
        shared = [weight for name, weight in model.named_parameters() if ".experts." not in name]
        own = [weight for name, weight in model.named_parameters() if ".experts." in name]

        def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
            loss = next_token_loss(model(mine_of(dist, tokens)), mine_of(dist, targets))
            optimizer.zero_grad()
            loss.backward()
            flat = torch.cat([weight.grad.flatten() for weight in shared])
            dist.all_reduce(flat)
            for weight, mean in zip(shared, (flat / ranks).split([one.numel() for one in shared]), strict=True):
                weight.grad.copy_(mean.view_as(weight))
            for weight in own:
                weight.grad.div_(ranks)
            optimizer.step()
            return loss.item()

        return step, model, optimizer

    return strategy
