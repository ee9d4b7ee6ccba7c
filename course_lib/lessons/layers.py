"""Small models that ranks train: a chain of layers whose backward takes virtual time, and a layer with a buffer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from course_lib import work


class Slow(torch.autograd.Function):
    """Passes on what it gets; its backward takes `seconds`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        work(ctx.seconds)
        return grad, None


class Chain(nn.Module):
    """Linear layers, each with a second of backward between it and the one before.

    `skipped` layers are passed by, so their parameters get no gradient. With `tied` the last two layers share a weight.
    Each row that is trained on takes `row_seconds` in forward.
    """

    def __init__(
        self, widths: tuple, seed: int, seconds: float = 0.0, row_seconds: float = 0.0, tied=False, skipped: tuple = ()
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList()
        for into, out in zip(widths, widths[1:], strict=False):
            layer = nn.Linear(into, out).double()
            for parameter in layer.parameters():
                parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
            self.layers.append(layer)
        if tied:
            self.layers[-1].weight = self.layers[-2].weight
        self.seconds, self.skipped, self.row_seconds = seconds, skipped, row_seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.row_seconds and torch.is_grad_enabled():
            work(self.row_seconds * len(x))
        for place, layer in enumerate(self.layers):
            if place not in self.skipped:
                x = layer(Slow.apply(x, self.seconds) if self.seconds else x)
        return x


class RunningMean(nn.Module):
    """Keeps, in a buffer, the running mean of what passes through it, as batch normalization does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and len(x):
            self.mean.lerp_(x.detach().mean(0), 0.5)
        return x
