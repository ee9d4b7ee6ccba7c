"""The seeds of every rank: torch's default on all ranks alike, numpy and random by the rank."""

from __future__ import annotations

import random

import numpy as np
import torch

TORCH_SEED = 67280421310721  # torch's own default


def seed(rank: int) -> None:
    """Seed torch, numpy and random for a rank.

    Why not torch.manual_seed? It also looks for GPUs, which takes each rank milliseconds; a process just forked has
    drawn no number on a GPU yet.
    """
    torch.default_generator.manual_seed(TORCH_SEED)
    np.random.seed(rank)
    random.seed(rank)
