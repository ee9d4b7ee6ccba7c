"""A backward in two parts: the gradient of a stage's input now, those of its weights later, nothing computed twice.

Two calls of autograd, one for the input and one for the weights, walk the same graph twice. Here the first walk keeps
the gradient that arrives at every node where a weight branches off; the second starts from those nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge


def backward_input(
    y: torch.Tensor, x: torch.Tensor, grad: torch.Tensor | None
) -> tuple[torch.Tensor | None, Callable[[], None]]:
    """Return the gradient of `x` (None if it needs none) and a function that adds the weights' gradients to `.grad`.

    `grad` is the gradient of `y`, None for a loss. What the weights need stays alive until that function is called.
    A weight that `y` uses in more than one place gets its gradient now.
    """
    branches, shared = _branches(y, x)
    edges = [edge for found, _ in branches for edge in found]
    inputs = [x] if x.requires_grad else []
    got = torch.autograd.grad(y, [*inputs, *edges, *shared], grad, retain_graph=True)
    arrived, now = iter(got[len(inputs) : len(inputs) + len(edges)]), got[len(inputs) + len(edges) :]
    _add(shared, now)
    starts = [(found, weights, [next(arrived) for _ in found]) for found, weights in branches]

    def backward_weight() -> None:
        while starts:
            found, weights, grads = starts.pop()
            _add(weights, torch.autograd.grad(found, weights, grads))

    return (got[0] if inputs else None), backward_weight


def _add(weights: Sequence[torch.Tensor], grads: Sequence[torch.Tensor]) -> None:
    for weight, grad in zip(weights, grads, strict=True):
        weight.grad = grad if weight.grad is None else weight.grad + grad


def _branches(y: torch.Tensor, x: torch.Tensor) -> tuple[list[tuple[list[GradientEdge], list]], list]:
    """Return the places where weights branch off the way from y to x, each with its weights, and the shared weights.

    Where x needs no gradient (tokens), the way leads to the weight that lies deepest.
    """
    order, outputs = _nodes(y)
    depth: dict[Any, int] = {order[-1]: 0}
    for node in reversed(order):
        for child, _ in node.next_functions:
            if child is not None:
                depth[child] = max(depth.get(child, 0), depth[node] + 1)
    leaves = [node for node in order if hasattr(node, "variable")]
    ends = [node for node in leaves if node.variable is x] or [max(leaves, key=depth.get)]
    on_way: set[Any] = set()
    weights: dict[Any, dict[int, torch.Tensor]] = {}  # of each node off the way: the weights it leads to
    branches, users = [], {}
    for node in order:  # children first
        children = [child for child, _ in node.next_functions if child is not None]
        if any(child in on_way or child in ends for child in children):
            on_way.add(node)
            own = {}
            for child in children:
                if child not in on_way:
                    own |= weights[child]
            if own:
                branches.append(([GradientEdge(node, number) for number in sorted(outputs[node])], own))
                for key, weight in own.items():
                    users.setdefault(key, (weight, []))[1].append(node)
        elif hasattr(node, "variable"):
            weights[node] = {} if node.variable is x else {id(node.variable): node.variable}
        else:
            weights[node] = {key: weight for child in children for key, weight in weights[child].items()}
    shared = {key: weight for key, (weight, nodes) in users.items() if len(nodes) > 1}
    alone = [(edges, [weight for key, weight in own.items() if key not in shared]) for edges, own in branches]
    return [(edges, own) for edges, own in alone if own], list(shared.values())


def _nodes(y: torch.Tensor) -> tuple[list, dict[Any, set[int]]]:
    """Return the nodes of y's graph, children before parents, and which outputs of each node are used."""
    order, outputs, seen = [], {y.grad_fn: {y.output_nr}}, {y.grad_fn}
    stack = [(y.grad_fn, iter(y.grad_fn.next_functions))]
    while stack:
        node, children = stack[-1]
        for child, number in children:
            if child is None:
                continue
            outputs.setdefault(child, set()).add(number)
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(child.next_functions)))
                break
        else:
            order.append(node)
            stack.pop()
    return order, outputs
