"""One flipped bit of one weight: what it does to the weight, and to the loss of a trained model."""

from __future__ import annotations

import torch

from course_lib import text
from course_lib.gpt import GPT, next_token_loss
from course_lib.training import WEIGHTS

ROWS = 8


def flip(tensor: torch.Tensor, element: int, bit: int) -> None:
    """Flip one bit of one element in place: bit 0 is the last of the fraction; of 32 bits, 31 is the sign."""
    flat = tensor.data.view(-1).view(torch.uint8)
    size = tensor.element_size()
    if not (0 <= element < tensor.numel() and 0 <= bit < 8 * size):
        raise ValueError(f"element {element}, bit {bit}: the tensor has {tensor.numel()} elements of {8 * size} bits")
    flat[element * size + bit // 8] ^= 1 << bit % 8


def trained() -> GPT:
    """Return the trained tiny GPT."""
    model = GPT()
    model.load_state_dict(torch.load(WEIGHTS))
    return model


@torch.no_grad()
def flipped_losses(name: str = "blocks.0.attention.q.weight", element: int = 0) -> tuple[float, list[tuple]]:
    """Return the loss of the trained tiny GPT, and for each bit of one weight (the weight then, the loss then)."""
    model = trained()
    inputs, targets = text.batch(0, ROWS)
    weight = dict(model.named_parameters())[name]
    before, found = next_token_loss(model(inputs), targets).item(), []
    for bit in range(8 * weight.element_size()):
        flip(weight, element, bit)
        found.append((weight.view(-1)[element].item(), next_token_loss(model(inputs), targets).item()))
        flip(weight, element, bit)
    return before, found
