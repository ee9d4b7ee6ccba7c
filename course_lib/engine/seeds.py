"""What random numbers begin with on every rank: as in a fresh process, but the same in each run."""

from __future__ import annotations

import random

import numpy as np
import torch

TORCH_SEED = 67280421310721  # torch's own default


def seed(rank: int) -> None:
    """Seed torch alike on all ranks, numpy and random by the rank.

    For a process just forked, in which no GPU has drawn a number yet: torch.manual_seed would look for GPUs, and take
    each rank milliseconds.
    """
    torch.default_generator.manual_seed(TORCH_SEED)
    np.random.seed(rank)
    random.seed(rank)
