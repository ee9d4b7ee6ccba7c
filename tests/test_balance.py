"""The tiny mixture: what it computes, what it refuses, and the recorded runs of the three rules."""

from __future__ import annotations

import math

import pytest
import torch

from course_lib.gpt import GPT
from course_lib.lessons.balance import EVERY, RULES, SEEDS, STEPS, mean_cosine, recorded, train
from course_lib.mixture import DENSE, Mixture, capacity_of, mixture_gpt, mixtures, products_per_token
from solutions.ch11_expert_parallel import balance_bias


def test_a_mixture_is_the_weighted_sum_of_its_best_experts():
    torch.manual_seed(0)
    mixture = Mixture(8, 5, 6, 2).double()
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    scores = mixture.router(x).sigmoid()
    best, chosen = scores.topk(2)
    want = torch.zeros_like(x)
    for place in range(2):
        for row in range(3):
            for column in range(4):
                expert = int(chosen[row, column, place])
                one = torch.nn.functional.gelu(x[row, column] @ mixture.up[expert]) @ mixture.down[expert]
                want[row, column] += best[row, column, place] / best[row, column].sum() * one
    assert torch.allclose(mixture(x), want, atol=1e-12)
    assert mixture.load.sum() == 24


def test_the_bias_chooses_and_does_not_weigh():
    torch.manual_seed(0)
    mixture = Mixture(8, 5, 4, 1)
    mixture.bias = torch.tensor([0.0, 0.0, 5.0, 0.0])
    x = torch.randn(7, 8)
    y = mixture(x)
    assert mixture.load.tolist() == [0, 0, 7, 0]
    assert torch.allclose(y, torch.nn.functional.gelu(x @ mixture.up[2]) @ mixture.down[2], atol=1e-6)


def test_a_capacity_drops_whoever_comes_last():
    torch.manual_seed(0)
    mixture = Mixture(8, 5, 4, 1, capacity=3)
    mixture.bias = torch.tensor([0.0, 0.0, 5.0, 0.0])
    y = mixture(torch.randn(7, 8))
    assert [bool(row.any()) for row in y] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Mixture(8, 5, 4, 5), "per_token = 5: at most experts = 4"),
        (lambda: Mixture(8, 5, 4, 2, capacity=0), "capacity = 0: with no room at all every token would be dropped"),
        (lambda: Mixture(8, 5, 0, 1), "experts = 0: must be a whole number, at least 1"),
        (lambda: Mixture(8, 5, 4, 2)(torch.full((3, 8), math.nan)), "the router's scores hold NaN"),
        (lambda: train("none", bias_rule=balance_bias), "bias_rule belongs to the rule 'bias'"),
        (lambda: train("bias"), "bias_rule belongs to the rule 'bias'"),
        (lambda: train("fair"), "rule = 'fair': must be one of"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_no_tokens_are_no_problem():
    assert Mixture(8, 5, 4, 2)(torch.empty(0, 8)).shape == (0, 8)


def test_a_token_costs_as_much_as_in_the_dense_model():
    """But for the router: 1,024 products a layer."""
    assert (products_per_token(GPT(DENSE)), products_per_token(mixture_gpt())) == (114_688, 116_736)
    assert len(mixtures(mixture_gpt())) == 2
    assert capacity_of(512, 16, 2, 1.25) == 80


# The recorded runs


def test_every_rule_has_every_seed():
    assert [(run.rule, run.seed) for run in recorded()] == [(rule, seed) for rule in RULES for seed in SEEDS]
    assert all(len(run.losses) == STEPS // EVERY for run in recorded())
    assert all(len(run.loads) == (run.rule != "dense") * STEPS // EVERY for run in recorded())
    assert all(len(run.alike) == len(run.loads) for run in recorded())


@pytest.mark.parametrize("rule", RULES)
def test_the_first_steps_come_out_as_recorded(rule):
    again = train(rule, until=2 * EVERY, bias_rule=balance_bias if rule == "bias" else None)
    before = recorded(rule, 0)[0]
    assert again.losses == pytest.approx(before.losses[:2], abs=2e-3)
    for mine, theirs in zip(again.loads, before.loads, strict=False):
        assert sum(abs(a - b) for a, b in zip(mine, theirs, strict=True)) <= 0.02 * sum(theirs)
    assert again.alike == pytest.approx(before.alike[: len(again.loads)], abs=0.01)


def test_when_tokens_are_alike_one_expert_is_the_favourite_of_all():
    """The numbers of chapter 11's section 6."""
    run = recorded("none", 0)[0]
    assert f"{run.alike[1]:.2f}" == "0.99" and f"{run.alike[11]:.2f}" == "0.42" and round(run.imbalance[1], 1) == 8.0
    assert [load.index(max(load)) for load in run.loads[3:12]] == [6] * 9 and run.loads[-1].count(0) == 8
    assert all(run.alike[1] > 0.98 and run.imbalance[1] > 6 for run in recorded("none"))
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert mean_cosine(rows) == pytest.approx(1 / 3), "one pair of three points the same way"


def test_an_expert_that_nobody_chooses_has_no_gradient_and_neither_has_its_score():
    torch.manual_seed(0)
    mixture = Mixture(8, 5, 4, 2)
    mixture.bias = torch.tensor([0.0, -5.0, 0.0, 0.0])
    mixture(torch.randn(7, 8)).square().sum().backward()
    idle = [mixture.up.grad[1], mixture.down.grad[1], mixture.router.weight.grad[1]]
    assert not any(gradient.any() for gradient in idle) and mixture.router.weight.grad[[0, 2, 3]].any()


def test_the_bias_balances_best_on_every_seed():
    for seed in SEEDS:
        ends = {rule: sum(recorded(rule, seed)[0].imbalance[-6:]) / 6 for rule in RULES[1:]}
        assert ends["bias"] < ends["none"] and ends["loss"] < ends["none"], ends
        assert ends["bias"] < 1.7, ends
