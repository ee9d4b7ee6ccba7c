"""torch's own pipeline schedules on the tiny GPT, to compare their gradients with ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_lib import text
from course_lib.gpt import next_token_loss, pipeline_stage
from course_lib.training import new_model


def torch_step(dist: Any, name: str, stages_of: Sequence[Sequence[int]]) -> list[tuple[str, torch.Tensor]]:
    """Return the gradients of this rank's stages after one step of torch's schedule `name` with eight micro-batches.

    `stages_of[rank]` are the stages that a rank holds. The batch is the one of 16 sequences that chapter 9 uses.
    """
    from torch.distributed.pipelining import PipelineStage, schedules

    mine, count = stages_of[dist.get_rank()], sum(map(len, stages_of))
    tokens, targets = text.batch(0, size=16)
    modules = [pipeline_stage(new_model(), stage, count) for stage in mine]
    stages = [
        PipelineStage(module, stage, count, torch.device("cpu")) for module, stage in zip(modules, mine, strict=True)
    ]
    schedule = getattr(schedules, name)(stages, n_microbatches=8, loss_fn=next_token_loss)
    given = [tokens] if 0 in mine else []  # the rank of the first stage reads the tokens, that of the last the targets
    schedule.step(*given, target=targets if count - 1 in mine else None)
    return [(name, weight.grad) for module in modules for name, weight in module.named_parameters()]
