"""Gathers of real layers on a simulated network, without a real layer's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from course_lib import Cluster
from course_lib.models import ModelShape, parameter_count

SCALE = 10_000


def layer_weights(shape: ModelShape) -> int:
    """Return the weights of one layer of a model whose layers are alike."""
    return parameter_count(replace(shape, layers=2)) - parameter_count(replace(shape, layers=1))


def gathers_of(layer_bytes: float, ranks: int, bandwidth: float, latency: float) -> tuple[Callable, Cluster]:
    """Return a function that starts to gather one layer on a rank, and the cluster on which this takes its time.

    The simulator really copies what is sent. So what is gathered is 10,000 times smaller than the layer, over links
    that are 10,000 times slower: bytes divided by bandwidth, the seconds of a message, stay what they are. A message's
    latency does not depend on its size, and stays as well.
    """
    elements = round(layer_bytes / ranks / SCALE / 2)  # of a shard, in bf16

    def start_gather(dist: Any) -> Any:
        whole = torch.empty(dist.get_world_size(), elements, dtype=torch.bfloat16)
        return dist.all_gather(list(whole), torch.zeros(elements, dtype=torch.bfloat16), async_op=True)

    return start_gather, Cluster(bandwidth=bandwidth / SCALE, latency=latency)
