"""Three ways to keep experts evenly loaded, trained on the same text: nothing, an auxiliary loss, and a bias.

`python tests/record_balance.py` trains all of them with three seeds, for some minutes, and writes
course_lib/data/balance.json, which chapter 11 draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from course_lib import text
from course_lib.gpt import GPT, next_token_loss
from course_lib.mixture import DENSE, mixture_gpt, mixtures
from course_lib.models import check_choice
from course_lib.training import held_out_loss, learning_rate, new_optimizer

RULES = ("dense", "none", "loss", "bias")
STEPS, ROWS, LENGTH = 600, 8, 64
SLOWER = 0.3  # of the course's learning rate: experts see fewer tokens, and diverge sooner
ALPHA, SPEED = 0.01, 0.01
"""Of the auxiliary loss (Switch's), and of the bias: ten times DeepSeek-V3's 0.001, because 600 steps are few."""
EVERY = 10  # steps between two records
SEEDS = (0, 1, 2)
RECORDED = Path(__file__).parents[1] / "data" / "balance.json"


@dataclass(frozen=True, repr=False)
class Trained:
    """One training run. `losses`: mean of every ten steps; `loads`: of the last layer, tokens of each expert.

    `alike`: the mean cosine of two tokens' vectors, as the last layer's router gets them, beside every record of loads.
    `held_out`: nats per byte of text that was not trained on; None where training stopped early.
    """

    rule: str
    seed: int
    losses: list[float]
    loads: list[list[int]]
    held_out: float | None = None
    alike: list[float] = field(default_factory=list)

    @property
    def imbalance(self) -> list[float]:
        """Return the largest load over the mean load, of every record."""
        return [max(load) * len(load) / sum(load) for load in self.loads]

    @property
    def unused(self) -> int:
        """Return how many experts of the last layer got no token in the last record."""
        return self.loads[-1].count(0)

    def __repr__(self) -> str:
        told = f"{self.rule}, seed {self.seed}: loss {self.losses[-1]:.3f}"
        told += f", {self.held_out:.3f} held out" if self.held_out else ""
        return told + (f", largest load {self.imbalance[-1]:.1f} times the mean" if self.loads else "")


def mean_cosine(rows: torch.Tensor) -> float:
    """Return the mean cosine of two different ones of `rows`."""
    rows = torch.nn.functional.normalize(rows.detach().flatten(0, -2), dim=-1)
    return ((rows.sum(0).square().sum() - len(rows)) / (len(rows) * (len(rows) - 1))).item()


def train(
    rule: str, seed: int = 0, steps: int = STEPS, until: int | None = None, bias_rule: Callable | None = None,
    each: Callable[[int], None] = lambda step: None,
) -> Trained:  # fmt: skip
    """Train the tiny mixture (or the dense model) by one of RULES; stop after `until` of `steps` steps.

    `bias_rule(bias, load, speed)` returns the next bias of one layer, for the rule "bias"; `each(step)` is called after
    every step.
    """
    check_choice("rule", rule, RULES)
    if (rule == "bias") != (bias_rule is not None):
        raise ValueError(f"rule = {rule!r}: bias_rule belongs to the rule 'bias', and that needs it")
    torch.manual_seed(seed)
    model = GPT(DENSE) if rule == "dense" else mixture_gpt()
    optimizer, layers = new_optimizer(model), mixtures(model)
    losses, loads, alike, came = [], [], [], []
    for layer in layers[-1:]:
        layer.register_forward_pre_hook(lambda _, given: came.__setitem__(slice(None), given))
    for step in range(until or steps):
        tokens, targets = text.batch(step, ROWS, LENGTH, seed)
        loss = next_token_loss(model(tokens), targets)
        total = loss + ALPHA * sum(layer.auxiliary for layer in layers) if rule == "loss" else loss
        optimizer.zero_grad()
        total.backward()
        for group in optimizer.param_groups:
            group["lr"] = SLOWER * learning_rate(step, steps)
        optimizer.step()
        if rule == "bias":
            for layer in layers:
                layer.bias = bias_rule(layer.bias, layer.load, SPEED)
        losses.append(loss.item())
        if layers and step % EVERY == EVERY - 1:
            loads.append(layers[-1].load.tolist())
            alike.append(mean_cosine(came[0]))
        each(step)
    means = [sum(losses[first : first + EVERY]) / EVERY for first in range(0, len(losses) - EVERY + 1, EVERY)]
    return Trained(rule, seed, means, loads, None if until else held_out_loss(model), alike)


def recorded(rule: str | None = None, seed: int | None = None) -> list[Trained]:
    """Return the recorded runs of a rule and a seed, or of all of them."""
    runs = [Trained(**run) for run in json.loads(RECORDED.read_text())]
    return [run for run in runs if rule in (None, run.rule) and seed in (None, run.seed)]


def write(runs: Iterable[Trained]) -> None:
    """Write runs to the file, a line each, with four digits of each loss and three of each cosine."""
    lines = []
    for run in runs:
        row = asdict(run) | {"losses": [round(loss, 4) for loss in run.losses], "held_out": round(run.held_out, 4)}
        row["alike"] = [round(cosine, 3) for cosine in run.alike]
        lines.append(json.dumps(row, separators=(",", ":")))
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
