"""The ZeRO stages as strategies of the running table, each made of what chapter 7's exercises do.

Every maker takes the exercises' functions and returns a strategy (see running_table.py). What a rank holds
between steps is what the stage leaves whole, and 1/P of the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, bytes_held, run, text
from course_lib.gpt import GPT, next_token_loss
from course_lib.lessons.running_table import mine_of, one_device
from course_lib.training import adamw, new_model


def zero_0(dist: Any, model: nn.Module) -> tuple:
    """Plain data parallelism as a strategy: nothing is sharded, and an all-reduce averages gradients (chapter 4)."""
    states = [{} for _ in model.parameters()]

    def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
        model.zero_grad()
        loss = next_token_loss(model(mine_of(dist, tokens)), mine_of(dist, targets))
        loss.backward()
        for parameter, state in zip(model.parameters(), states, strict=True):
            dist.all_reduce(parameter.grad)
            adamw(parameter.data, parameter.grad.div_(dist.get_world_size()), state)
        return loss.item()

    return step, model, states


def zero_1(sharded_adamw_step: Callable) -> Callable:
    """Return the strategy that shards the optimizer: whole weights, whole gradients, moments of 1/P."""

    def strategy(dist: Any, model: nn.Module) -> tuple:
        parameters, states = list(model.parameters()), [{} for _ in model.parameters()]

        def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
            model.zero_grad()
            loss = next_token_loss(model(mine_of(dist, tokens)), mine_of(dist, targets))
            loss.backward()
            sharded_adamw_step(dist, parameters, states, adamw)
            return loss.item()

        return step, model, states

    return strategy


def zero_2(reduce_scatter_gradients: Callable, shard: Callable, unshard: Callable) -> Callable:
    """Return the strategy that shards gradients too: backward leaves 1/P of them, and whole weights are gathered."""

    def strategy(dist: Any, model: nn.Module) -> tuple:
        parameters, states, kept = list(model.parameters()), [{} for _ in model.parameters()], []
        finish = reduce_scatter_gradients(dist, model)

        def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
            kept.clear()
            loss = next_token_loss(model(mine_of(dist, tokens)), mine_of(dist, targets))
            loss.backward()
            kept.extend(finish())
            for parameter, grad, state in zip(parameters, kept, states, strict=True):
                mine = shard(parameter, dist.get_rank(), dist.get_world_size())
                adamw(mine, grad, state)
                parameter.data.copy_(unshard(dist, mine, parameter.shape))
            return loss.item()

        return step, model, states, kept

    return strategy


def zero_3(fully_sharded_step: Callable, shard: Callable) -> Callable:
    """Return the strategy that shards all: between steps a rank has 1/P of every unit, its gradient and its moments."""

    def strategy(dist: Any, model: nn.Module) -> tuple:
        units, weights = units_of(model)
        shards = [shard(weight, dist.get_rank(), dist.get_world_size()) for weight in weights]
        states, kept = [{} for _ in shards], []
        weights.clear()
        model.to("meta")  # from here on only a form: no weights in it

        def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
            kept.clear()
            mine = mine_of(dist, targets)
            loss, grads = fully_sharded_step(
                dist, units, shards, mine_of(dist, tokens), lambda logits: next_token_loss(logits, mine)
            )
            kept.extend(grads)
            for shard_, grad, state in zip(shards, grads, states, strict=True):
                adamw(shard_, grad, state)
            return float(loss)

        return step, nn.ParameterList(nn.Parameter(piece) for piece in shards), states, kept

    return strategy


def train_stage(dist: Any, strategy: Callable, steps: int, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """On one rank: train the tiny GPT; return the loss, what the rank holds in bytes by part, and its weights."""
    step, module, states, *gradients = strategy(dist, new_model(dtype=dtype))
    losses = [step(*text.batch(number, 12, 32)) for number in range(steps)]
    weights = [parameter.detach() for parameter in module.parameters()]
    kept = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    held = {"weights": weights, "gradients": [kept, *gradients], "optimizer": states}
    return {"loss": losses[-1], "held": {part: bytes_held(things) for part, things in held.items()}, "weights": weights}


def whole_weights(results: Sequence[dict[str, Any]]) -> torch.Tensor:
    """Return the flat weights of the model that the ranks of `train_stage` hold, whole or in shards of its units."""
    flat = torch.cat([weight.flatten() for weight in results[0]["weights"]])
    sizes = [weight.numel() for weight in units_of(new_model())[1]]
    if len(flat) == sum(sizes):
        return flat
    shards = zip(*(result["weights"] for result in results), strict=True)
    return torch.cat([torch.cat(parts)[:size] for parts, size in zip(shards, sizes, strict=True)])


def far_from_one_device(strategy: Callable, ranks: int, on: Any = None, steps: int = 5) -> float:
    """Return by how much any weight differs from that of torch's AdamW on one device, after `steps` steps in fp64."""
    together = run(train_stage, strategy, steps, torch.float64, ranks=ranks, on=on)
    return (whole_weights(together) - _alone(steps)).abs().max().item()


@functools.cache
def _alone(steps: int) -> torch.Tensor:
    return whole_weights(run(train_stage, one_device, steps, torch.float64, ranks=1, on=Cluster()))


def units_of(model: GPT) -> tuple[list, list[torch.Tensor]]:
    """Return the model as units [(forward(weight, x), shape)], one flat weight each, and the weights.

    Units are the embedding, the blocks, and the last norm with the head.
    """
    modules = [model.embed, *model.blocks, nn.Sequential(model.norm, model.head)]
    weights = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    forwards = [_forward(module) for module in modules]
    return [(call, weight.shape) for call, weight in zip(forwards, weights, strict=True)], weights


def _forward(module: nn.Module) -> Callable:
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}

    def forward(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        pieces = weight.split([shape.numel() for shape in shapes.values()])
        named = {name: piece.view(shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
        return torch.func.functional_call(module, named, (x,))

    return forward
