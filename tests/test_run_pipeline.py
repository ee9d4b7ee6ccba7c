"""Schedules with real tensors: the gradients of one process on either engine, and a backward in two parts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib import Cluster, RankFailed, run
from course_lib.gpt import GPT, next_token_loss, pipeline_stage
from course_lib.models import ModelShape
from course_lib.schedules import (
    chimera,
    dual_pipe_v,
    gpipe,
    interleaved,
    measured,
    one_f_one_b,
    pipedream,
    play,
    zb_h1,
    zb_h2,
    zb_v,
)
from course_lib.schedules.executor import run_pipeline
from course_lib.schedules.split import backward_input

FREE = Cluster(latency=0.0, bandwidth=math.inf)
WIDTH = 6
SYNCHRONOUS = [
    gpipe(4, 6), one_f_one_b(4, 6), one_f_one_b(4, 2), one_f_one_b(1, 3), interleaved(2, 4, 3), interleaved(3, 6, 2),
    zb_h1(4, 6), zb_h2(3, 7), zb_v(3, 7), zb_v(1, 3), dual_pipe_v(3, 8), chimera(4, 8), chimera(2, 2),
]  # fmt: skip
SHAPE = ModelShape("tiny", 16, 32, 4, 2, 2, 11, positions=8, bias="mlp", layer_norm=True, gated=False)


def stages_of(count: int) -> list[nn.Module]:
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double() for _ in range(count)]


def batch(microbatches: int) -> tuple[list, list]:
    """Return micro-batches of two sizes: a mean of their means would be another gradient."""
    torch.manual_seed(2)
    xs = [torch.randn(2 + i % 2, WIDTH, dtype=torch.double) for i in range(microbatches)]
    return xs, [torch.randn_like(x) for x in xs]


def squared(y, target):
    return ((y - target) ** 2).mean()


def step(dist, schedule, pace=None, **more):
    stages, me = stages_of(schedule.stages), dist.get_rank()
    chunks = [stages[stage] for stage, _ in schedule.place[me]]
    report = run_pipeline(dist, chunks, *batch(schedule.microbatches), squared, schedule, pace=pace, **more)
    return report, [[weight.grad for weight in chunk.parameters()] for chunk in chunks]


def on_one_process(schedule) -> tuple[float, list]:
    stages, (xs, targets) = stages_of(schedule.stages), batch(schedule.microbatches)
    loss = squared(nn.Sequential(*stages)(torch.cat(xs)), torch.cat(targets))
    loss.backward()
    return loss.item(), [[weight.grad for weight in stage.parameters()] for stage in stages]


@pytest.mark.parametrize("engine", ["simulated", "gloo"])
@pytest.mark.parametrize("schedule", SYNCHRONOUS, ids=lambda s: f"{s.name}-{len(s)}-{s.microbatches}")
def test_gradients_loss_and_activations_are_those_of_the_schedule(schedule, engine):
    loss, grads = on_one_process(schedule)
    results = run(step, schedule, ranks=len(schedule), on=FREE if engine == "simulated" else None, timeout=30)
    for rank, (_, mine) in enumerate(results):
        for (stage, _), chunk in zip(schedule.place[rank], mine, strict=True):
            for got, want in zip(chunk, grads[stage], strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=1e-14)
    losses = [report["loss"] for report, _ in results if report["loss"] is not None]
    assert len(losses) == schedule.copies and sum(losses) == pytest.approx(loss, abs=1e-14)
    assert [report["peak"] for report, _ in results] == play(schedule).peak_activations


@pytest.mark.parametrize("schedule", [s for s in SYNCHRONOUS if s.name != "DualPipe-V"], ids=lambda s: s.name)
def test_on_simulated_ranks_a_step_takes_what_the_replay_says(schedule):
    results = run(step, schedule, {"F": 2, "I": 3, "W": [1] * schedule.stages}, ranks=len(schedule), on=FREE)
    seen, said = measured([report for report, _ in results], schedule), play(schedule, 2, 3, 1)
    assert results.seconds == seen.seconds == said.seconds
    assert seen.busy == said.busy and seen.bubble_share == pytest.approx(said.bubble_share)
    assert seen.simulated


def test_receives_are_posted_early_so_that_a_transfer_costs_what_the_replay_says():
    schedule, wire = one_f_one_b(4, 8), Cluster(latency=0.25, bandwidth=math.inf)
    results = run(step, schedule, {"F": 1, "I": 1, "W": 1}, ranks=4, on=wire)
    assert results.seconds == play(schedule, communication=0.25).seconds


def test_sleeping_stages_on_real_ranks_show_the_bubble():
    schedule = one_f_one_b(2, 2)
    results = run(step, schedule, {"F": 0.02, "I": 0.02, "W": 0.02}, ranks=2)
    seen = measured([report for report, _ in results], schedule)
    assert not seen.simulated and seen.seconds >= 0.18 and min(seen.busy) >= 0.12
    assert [event.label for event in seen.events if event.rank == 1] == ["0", "0", "1", "1"]


def gpt_step(dist, schedule):
    torch.manual_seed(0)
    model, me = GPT(SHAPE).double(), dist.get_rank()
    tokens = torch.randint(11, (8, 9))
    chunks = [pipeline_stage(model, stage, schedule.stages) for stage, _ in schedule.place[me]]
    inputs, targets = tokens[:, :-1].split(2), tokens[:, 1:].split(2)
    like = torch.empty(2, 8, SHAPE.hidden, dtype=torch.double)
    run_pipeline(dist, chunks, inputs, targets, next_token_loss, schedule, like=like)
    grads = {}
    for chunk in chunks:
        grads |= {name: weight.grad for name, weight in chunk.named_parameters()}
    return grads


@pytest.mark.parametrize("schedule", [one_f_one_b(4, 4), zb_h1(4, 4), zb_v(2, 4)], ids=lambda s: s.name)
def test_the_tiny_gpt_in_stages_has_the_gradients_of_the_whole(schedule):
    torch.manual_seed(0)
    model = GPT(SHAPE).double()
    tokens = torch.randint(11, (8, 9))
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    results = run(gpt_step, schedule, ranks=len(schedule), timeout=30)
    seen = {name: grad for grads in results for name, grad in grads.items()}
    assert seen.keys() == dict(model.named_parameters()).keys()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(seen[name], weight.grad, rtol=0, atol=1e-14)


# The backward in two parts


def flops(call) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_input_and_weight_part_cost_a_forward_each_and_together_a_backward():
    module, x = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)]), torch.randn(5, 8, requires_grad=True)
    kept = {}
    forward = flops(lambda: kept.update(y=module(x)))
    grad, whole = torch.randn(5, 8), torch.autograd.grad
    wanted = whole(kept["y"], [x, *module.parameters()], grad, retain_graph=True)
    once = flops(lambda: kept.update(split=backward_input(kept["y"], x, grad)))
    later = flops(lambda: kept["split"][1]())
    assert (once, later) == (forward, forward)
    got = [kept["split"][0], *(weight.grad for weight in module.parameters())]
    for one, other in zip(got, wanted, strict=True):
        assert torch.equal(one, other)
    y = module(x)
    weights = list(module.parameters())
    twice = flops(lambda: whole(y, [x], grad, retain_graph=True)), flops(lambda: whole(y, weights, grad))
    assert twice == (forward, 1.75 * forward)  # the naive split goes through three of the four layers again


@pytest.mark.parametrize("index", range(4))
def test_a_stage_of_the_gpt_computes_nothing_twice(index):
    torch.manual_seed(0)
    stage = pipeline_stage(GPT(SHAPE), index, 4)
    x = torch.randint(11, (2, 8)) if index == 0 else torch.randn(2, 8, SHAPE.hidden, requires_grad=True)
    y = stage(x)
    grad = torch.randn_like(y)
    whole = flops(lambda: y.backward(grad, retain_graph=True))
    wanted = [weight.grad.clone() for weight in stage.parameters()], x.grad
    stage.zero_grad()
    kept = {}
    first = flops(lambda: kept.update(split=backward_input(y, x, grad)))
    assert all(weight.grad is None for weight in stage.parameters())
    second = flops(lambda: kept["split"][1]())
    assert first + second == whole and 0 < second < first  # attention's products have no weight
    assert kept["split"][0] is None if index == 0 else torch.equal(kept["split"][0], wanted[1])
    for weight, want in zip(stage.parameters(), wanted[0], strict=True):
        assert torch.equal(weight.grad, want)


def test_a_weight_used_twice_gets_its_gradient_once_and_at_the_input_part():
    linear = nn.Linear(4, 4).double()
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    y = linear(torch.tanh(linear(x))).sum()
    want = torch.autograd.grad(y, list(linear.parameters()), retain_graph=True)
    _, later = backward_input(y, x, None)
    for weight, gradient in zip(linear.parameters(), want, strict=True):
        torch.testing.assert_close(weight.grad, gradient)
    later()
    later()  # a second call adds nothing
    for weight, gradient in zip(linear.parameters(), want, strict=True):
        torch.testing.assert_close(weight.grad, gradient)


# Replaced actions, asynchronous training, and what does not fit


def learned_forward(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
        x.requires_grad_()
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


def learned_backward(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward(grad)
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


@pytest.mark.parametrize("schedule", [gpipe(3, 4), one_f_one_b(3, 4), interleaved(2, 4, 2), chimera(2, 4)], ids=str)
def test_given_actions_run_in_place_of_the_executors_own(schedule):
    _, grads = on_one_process(schedule)
    call = lambda dist, s: step(dist, s, forward=learned_forward, backward=learned_backward)  # noqa: E731
    for rank, (_, mine) in enumerate(run(call, schedule, ranks=len(schedule), on=Cluster())):
        for (stage, _), chunk in zip(schedule.place[rank], mine, strict=True):
            for got, want in zip(chunk, grads[stage], strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=1e-14)


def asynchronous(dist, schedule, stash, in_place):
    stages, me = stages_of(schedule.stages), dist.get_rank()

    def update(chunk):
        with torch.no_grad():
            for weight in stages[me].parameters():
                new = weight - 0.1 * weight.grad
                if in_place:
                    weight.copy_(new)
                else:
                    weight.data = new
                weight.grad = None

    xs, targets = batch(schedule.microbatches)
    run_pipeline(dist, [stages[me]], xs, targets, squared, schedule, update=update, stash=stash)
    return [weight.detach() for weight in stages[me].parameters()]


def with_stale_weights(stages: int, microbatches: int) -> list:
    """Return PipeDream's weights worked out in one process: stage s sees what its own order of updates leaves."""
    parts, (xs, targets) = stages_of(stages), batch(microbatches)
    examples = sum(map(len, targets))
    versions = [[[w.detach().clone() for w in part.parameters()]] for part in parts]
    for i, (x, target) in enumerate(zip(xs, targets, strict=True)):
        used = []
        for s, part in enumerate(parts):
            done = max(0, i - (stages - 1 - s))  # backwards that stage s has finished before F(i)
            for w, value in zip(part.parameters(), versions[s][done], strict=True):
                w.data = value.clone()
            used.append(list(part.parameters()))
        y = nn.Sequential(*parts)(x)
        loss = squared(y, target) * (len(target) / examples)
        grads = torch.autograd.grad(loss, [w for ws in used for w in ws])
        for s in range(stages):
            mine = grads[4 * s : 4 * s + 4]
            versions[s].append([v - 0.1 * g for v, g in zip(versions[s][-1], mine, strict=True)])
    return [found[-1] for found in versions]


@pytest.mark.parametrize("on", [FREE, None], ids=["simulated", "gloo"])
def test_pipedream_with_stashing_goes_back_through_the_weights_it_went_forward_with(on):
    want = with_stale_weights(3, 7)
    for mine, expected in zip(run(asynchronous, pipedream(3, 7), True, True, ranks=3, on=on), want, strict=True):
        for got, value in zip(mine, expected, strict=True):
            torch.testing.assert_close(got, value, rtol=0, atol=1e-14)


def test_pipedream_without_stashing_is_refused_by_autograd_or_wrong():
    with pytest.raises(RankFailed, match="modified by an inplace operation"):
        run(asynchronous, pipedream(3, 7), False, True, ranks=3, on=FREE)
    want = with_stale_weights(3, 7)
    first = run(asynchronous, pipedream(3, 7), False, False, ranks=3, on=FREE)[0]
    assert all(got.shape == value.shape for got, value in zip(first, want[0], strict=True))


def unfit(dist, schedule, change):
    xs, targets = batch(schedule.microbatches)
    chunks = [nn.Linear(WIDTH, WIDTH).double()]
    given = {"chunks": chunks, "microbatches": xs, "targets": targets, "actions": schedule}
    run_pipeline(dist, loss_fn=squared, **given | change)


@pytest.mark.parametrize(
    ("schedule", "change", "words"),
    [
        (gpipe(3, 2), {}, "the schedule is for 3 ranks, and there are 2"),
        (gpipe(2, 2), {"chunks": []}, "was given 0 chunks; its actions use 1"),
        (gpipe(2, 2), {"microbatches": [torch.zeros(1, WIDTH)]}, "there are 1 microbatches"),
        (gpipe(2, 2), {"targets": []}, "there are 0 targets"),
        (gpipe(2, 2), {"like": torch.empty(1, 3)}, "give run_pipeline"),
        (pipedream(2, 2), {}, "PipeDream is asynchronous and needs update="),
        (gpipe(2, 2), {"update": print}, "takes no update="),
        (gpipe(2, 2), {"actions": [[("F", 0)], [("F", 0)]]}, "the gradient of micro-batch 0 is lost"),
    ],
)
def test_what_does_not_fit_is_a_sentence(schedule, change, words):
    with pytest.raises(RankFailed, match=words):
        run(unfit, schedule, change, ranks=2, on=FREE)


def test_what_is_measured_is_on_one_clock_although_processes_begin_at_different_moments():
    first = {"begin": 100.0, "spans": [(0, 0.5, 1.5), (1, 4.0, 6.0)], "simulated": False}
    second = {"begin": 101.5, "spans": [(0, 0.0, 1.0), (1, 1.0, 2.5)], "simulated": False}
    seen = measured([first, second], [[("F", 0), ("B", 0)]] * 2)
    assert [(event.rank, event.start, event.end) for event in seen.events] == [
        (0, 0, 1), (0, 3.5, 5.5), (1, 1, 2), (1, 2, 3.5)]  # fmt: skip
    assert [event.posted for event in seen.events] == [0, 1, 0, 2]


def test_on_real_ranks_no_forward_starts_before_its_input_has_been_made():
    schedule = one_f_one_b(3, 2)
    results = run(step, schedule, {"F": 0.02, "I": 0.0, "W": 0.0}, ranks=3)
    events = measured([report for report, _ in results], schedule).events
    starts = {(event.rank, event.label): event.start for event in events if event.kind == "F"}
    for rank in (1, 2):
        for label in "01":
            assert starts[rank, label] >= starts[rank - 1, label] + 0.02
