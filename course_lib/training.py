"""The one training loop of the course, and the command that makes the trained weights again.

`make weights`, or `python -m course_lib.training`, trains the tiny GPT for half a minute and writes
course_lib/data/tiny_gpt.pt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from course_lib import text
from course_lib.gpt import GPT, next_token_loss, pipeline_stage

WEIGHTS = Path(__file__).parent / "data" / "tiny_gpt.pt"
BATCH, LENGTH = 16, 64  # rows and tokens a row, over all ranks
STEPS = 1000
PEAK, WARM_UP = 1e-2, 0.05  # the largest learning rate, and the share of steps until it is reached


def new_model(seed: int = 0, dtype: torch.dtype = torch.float32) -> GPT:
    """Return an untrained tiny GPT; the same seed gives the same weights on every rank."""
    torch.manual_seed(seed)
    return GPT().to(dtype)


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of the course: AdamW."""
    return torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


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
    """Step one tensor, so that whoever holds a part of the weights can step just that part.

    Changes `weight` in place as `new_optimizer` would; its two moments live in `state`, empty before the first step.

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


def learning_rate(step: int, steps: int) -> float:
    """Return the learning rate of one of `steps` steps: up in a straight line, then down to zero."""
    rising = WARM_UP * steps
    return PEAK * min((step + 1) / max(rising, 1), (steps - step) / (steps - rising))


def train(
    model: torch.nn.Module,
    steps: int = STEPS,
    *,
    rank: int = 0,
    ranks: int = 1,
    after_backward: Callable[[], None] | None = None,
    batch: int = BATCH,
    length: int = LENGTH,
    first: int = 0,
) -> list[float]:
    """Train on steps `first` to `steps`, and return the loss of each on this rank's rows of the global batch.

    `after_backward` is called between backward and the optimizer's step: there ranks agree on a gradient.
    """
    optimizer = new_optimizer(model)
    losses = []
    for step in range(first, steps):
        tokens, targets = (whole.tensor_split(ranks)[rank] for whole in text.batch(step, batch, length))
        loss = next_token_loss(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        if after_backward is not None:
            after_backward()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def held_out_loss(model: torch.nn.Module, length: int = LENGTH) -> float:
    """Return the loss of a model on text that it was not trained on, in nats per byte."""
    losses = [next_token_loss(model(tokens), targets).item() for tokens, targets in text.held_out_batches(length)]
    return sum(losses) / len(losses)


def trained_model(dtype: torch.dtype = torch.float32) -> GPT:
    """Return the tiny GPT with its trained weights."""
    model = GPT()
    model.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    return model.to(dtype)


@torch.no_grad()
def write_on(model: torch.nn.Module, prompt: str, count: int = 200, seed: int = 0, length: int = LENGTH) -> str:
    """Return `prompt` and what a model writes after it, drawn byte by byte from its own guesses."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.tensor([list(prompt.encode())])
    for _ in range(count):
        chances = model(tokens[:, -length:])[0, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)[None]], 1)
    return text.decode(tokens)


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


def main() -> None:
    torch.set_num_threads(1)
    begin = time.perf_counter()
    model = new_model()
    train(model, STEPS)
    torch.save(model.state_dict(), WEIGHTS)
    print(f"{STEPS} steps in {time.perf_counter() - begin:.0f} s; nats per byte of text that was not trained on:")
    print(f"unigram {text.unigram_loss():.2f}   bigram {text.bigram_loss():.2f}   tiny GPT {held_out_loss(model):.2f}")
    print(f"wrote {WEIGHTS.name}, {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
