"""The real text that every chapter trains on, cut into batches, and the two models without layers to beat.

A token is one byte of the text, so the vocabulary is 256 and no tokenizer is needed. `course_lib/data/README.md` says
where the text is from.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch

FILE = Path(__file__).parent / "data" / "moby_dick.txt"
VOCABULARY = 256
HELD_OUT = 0.1  # the share at the end that is never trained on


@functools.cache
def corpus() -> torch.Tensor:
    """Return the whole text as tokens (int64, one per byte). Read it only: every caller gets the same tensor."""
    return torch.frombuffer(bytearray(FILE.read_bytes()), dtype=torch.uint8).long()


def training_text() -> torch.Tensor:
    """Return the tokens to train on: the first nine tenths."""
    return corpus()[: -_held_out()]


def held_out_text() -> torch.Tensor:
    """Return the tokens that no model has been trained on: the last tenth."""
    return corpus()[-_held_out() :]


def _held_out() -> int:
    return int(HELD_OUT * len(corpus()))


def batch(step: int, size: int = 32, length: int = 64, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the global batch of one step: tokens and targets, both (size, length); the target is the next byte.

    The same step and seed give the same batch in every process, so each rank can take its own rows of it.
    """
    generator = torch.Generator().manual_seed(1_000_003 * seed + step)
    text = training_text()
    starts = torch.randint(len(text) - length, (size, 1), generator=generator)
    windows = text[starts + torch.arange(length + 1)]
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def held_out_batches(length: int = 64, rows: int = 256, size: int = 64) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return `rows` windows spread evenly over the held-out text, `size` to a batch."""
    text = held_out_text()
    starts = torch.linspace(0, len(text) - length - 1, rows).long()[:, None]
    windows = text[starts + torch.arange(length + 1)]
    return [(part[:, :-1], part[:, 1:]) for part in windows.split(size)]


def decode(tokens: torch.Tensor) -> str:
    """Return tokens as text."""
    return bytes(tokens.flatten().tolist()).decode("ascii", "replace")


def unigram_loss() -> float:
    """Return the loss, in nats per byte of the held-out text, of a model that knows how often each byte occurs."""
    counts = 1 + torch.bincount(training_text(), minlength=VOCABULARY).double()
    return -(counts / counts.sum()).log()[held_out_text()].mean().item()


def bigram_loss() -> float:
    """Return the loss, in nats per byte of the held-out text, of a model that knows which byte follows which.

    Whatever beats it looks at more than one byte. Counts are smoothed by a hundredth, the best of 1, 0.1 and 0.01.
    """
    text, held_out = training_text(), held_out_text()
    pairs = torch.bincount(text[:-1] * VOCABULARY + text[1:], minlength=VOCABULARY**2).double()
    counts = 0.01 + pairs.view(VOCABULARY, VOCABULARY)
    chances = counts / counts.sum(1, keepdim=True)
    return -chances.log()[held_out[:-1], held_out[1:]].mean().item()
