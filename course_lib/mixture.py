"""The tiny GPT as a mixture of experts: a router and many small MLPs where each block had one.

One device holds all experts here. Nothing is dropped unless a capacity is given, and each expert computes only the rows
that come to it. The router's scores are sigmoids, as in DeepSeek-V3 (2412.19437, section 2.1.2): the choice is made by
score + bias, and the weights of the sum are made of the scores alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import nn

from course_lib.gpt import GPT
from course_lib.models import TINY_GPT, ModelShape, check_whole

LAYERS, EXPERTS, PER_TOKEN, WIDTH = 2, 16, 2, 128
DENSE = replace(TINY_GPT, layers=LAYERS)
"""What the mixture is compared with: its MLP of 256 does as many products as two experts of 128."""


class Mixture(nn.Module):
    """A router and `experts` MLPs of `width`, of which each token uses `per_token`.

    After forward `load` has the tokens of each expert, and `auxiliary` the auxiliary loss of Switch Transformers
    (2101.03961, section 2.2): experts · Σ share of pairs · mean score. `capacity`: the most tokens that an expert
    serves, first come first served. Raises ValueError for sizes that make no sense, and when a score is NaN.
    """

    def __init__(self, hidden: int, width: int, experts: int, per_token: int, capacity: int | None = None) -> None:
        super().__init__()
        check_whole(hidden=hidden, width=width, experts=experts, per_token=per_token)
        if per_token > experts:
            raise ValueError(f"per_token = {per_token}: at most experts = {experts}")
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity = {capacity}: with no room at all every token would be dropped; give 1 or more")
        self.per_token, self.capacity = per_token, capacity
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(0.02 * torch.randn(experts, hidden, width))
        self.down = nn.Parameter(0.02 * torch.randn(experts, width, hidden))
        nn.init.normal_(self.router.weight, std=0.02)
        self.register_buffer("bias", torch.zeros(experts))
        self.load, self.auxiliary = torch.zeros(experts), torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, experts = x.flatten(0, -2), len(self.up)
        scores = self.router(rows).sigmoid()
        if bool(scores.isnan().any()):
            raise ValueError("the router's scores hold NaN: look at its weights and at what comes into the layer")
        chosen = (scores.detach() + self.bias).topk(self.per_token, dim=-1).indices
        weights = scores.gather(1, chosen)
        weights = (weights / weights.sum(-1, keepdim=True)).flatten()
        order = chosen.flatten().argsort(stable=True)
        self.load = torch.bincount(chosen.flatten(), minlength=experts)
        self.auxiliary = experts * (self.load / len(order) * (scores / scores.sum(-1, keepdim=True)).mean(0)).sum()
        pieces = order.split(self.load.tolist())
        pieces = [piece[: self.capacity] for piece in pieces]
        order = torch.cat(pieces)
        results = [
            nn.functional.gelu(rows[piece // self.per_token] @ up) @ down
            for piece, up, down in zip(pieces, self.up, self.down, strict=True)
            if len(piece)
        ]
        if not results:  # no tokens at all
            return torch.zeros_like(x)
        weighted = torch.cat(results) * weights[order, None]
        return torch.zeros_like(rows).index_add(0, order // self.per_token, weighted).view_as(x)


def mixture_gpt(
    shape: ModelShape = DENSE, width: int = WIDTH, experts: int = EXPERTS, per_token: int = PER_TOKEN
) -> GPT:
    """Return an untrained tiny GPT with a Mixture in place of every MLP."""
    model = GPT(shape)
    for block in model.blocks:
        block.mlp = Mixture(shape.hidden, width, experts, per_token)
    return model


def mixtures(model: nn.Module) -> list[Mixture]:
    """Return the mixture layers of a model, from the first to the last."""
    return [module for module in model.modules() if isinstance(module, Mixture)]


def products_per_token(model: GPT) -> int:
    """Return how many multiplications one token needs in the model's matrices (half of its forward FLOPs)."""
    dense = sum(weight.numel() for name, weight in model.named_parameters() if weight.ndim == 2 and "embed" not in name)
    active = sum(
        mixture.per_token * (mixture.up[0].numel() + mixture.down[0].numel()) for mixture in mixtures(model)
    )
    return dense + active


def capacity_of(tokens: int, experts: int, per_token: int, factor: float) -> int:
    """Return the capacity of an expert: factor · tokens · per_token / experts, rounded down; at least 1."""
    check_whole(tokens=tokens, experts=experts, per_token=per_token)
    return max(1, math.floor(factor * tokens * per_token / experts))
