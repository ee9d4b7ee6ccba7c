"""Stale gradients: training in which each gradient is computed with weights that are some steps old."""

from __future__ import annotations

from collections import deque

import torch

from course_lib import text
from course_lib.gpt import next_token_loss
from course_lib.training import held_out_loss, new_model, new_optimizer


def stale_loss(staleness: int, steps: int = 60) -> float:
    """Train the tiny GPT on gradients of weights that are `staleness` steps old; return its held-out loss in nats.

    The first gradients, where there are no weights that old, are computed with those of the start.
    """
    model, versions = new_model(), deque(maxlen=staleness + 1)
    optimizer = new_optimizer(model)
    for step in range(steps):
        versions.append({name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()})
        fetched = versions[0]
        tokens, targets = text.batch(step, 8, 32)  # few rows, to be quick
        loss = next_token_loss(torch.func.functional_call(model, fetched, (tokens,)), targets)
        for parameter, grad in zip(model.parameters(), torch.autograd.grad(loss, list(fetched.values())), strict=True):
            parameter.grad = grad
        optimizer.step()
    return held_out_loss(model)
