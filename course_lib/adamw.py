"""One step of AdamW on one tensor, so that whoever holds a part of the weights can step just that part."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.training import PEAK


@torch.no_grad()
def adamw(
    weight: torch.Tensor,
    grad: torch.Tensor,
    state: dict[str, Any],
    rate: float = PEAK,
    betas: tuple[float, float] = (0.9, 0.95),
    epsilon: float = 1e-8,
    decay: float = 0.1,
) -> None:
    """Change `weight` in place as `new_optimizer` would; its two moments live in `state`, empty before the first step.

    Every element is stepped by itself, so parts of a tensor give the parts of the result (Loshchilov and Hutter,
    1711.05101, algorithm 2).
    """
    if not state:
        state.update(steps=0, mean=torch.zeros_like(weight), square=torch.zeros_like(weight))
    state["steps"] += 1
    state["mean"].lerp_(grad, 1 - betas[0])
    state["square"].mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
    mean, square = state["mean"] / (1 - betas[0] ** state["steps"]), state["square"] / (1 - betas[1] ** state["steps"])
    weight.mul_(1 - rate * decay).addcdiv_(mean, square.sqrt_().add_(epsilon), value=-rate)
