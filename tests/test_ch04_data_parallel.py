"""Chapter 4: verdicts do not hang on the numbers, ranks get their own data only, and step times have two sources."""

from __future__ import annotations

import math

import pytest
import torch
from wrong_answers.ch04_data_parallel import WRONG

from course_lib import Cluster, each, one_process, run, text, training
from course_lib.costs import collective_seconds, step_flops
from course_lib.gpt import next_token_loss
from course_lib.hardware import H100
from course_lib.lessons import model_step, overlap, staleness
from course_lib.models import MODELS, parameter_count
from exercises_tests import ch04_data_parallel as checks
from exercises_tests import judging
from solutions import ch04_data_parallel as solutions

EXERCISES = tuple(name.removeprefix("check_") for name in vars(checks) if name.startswith("check_"))


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_another_seed_changes_no_verdict(exercise, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "20250131")
    with one_process():  # as in test_answers.py
        assert judged(exercise, getattr(solutions, exercise)).code == ""
        for wrong in WRONG:
            if wrong.exercise == exercise:
                assert judged(exercise, wrong.answer).code == wrong.code, wrong.answer.__name__


OWN = ("average_gradients", "all_reduce_per_parameter", "all_reduce_bucket", "all_reduce_per_bucket", "no_sync")


@pytest.mark.parametrize("exercise", OWN)
def test_no_rank_is_given_another_ranks_data(exercise, monkeypatch):
    """What holds tensors goes to the ranks with each(...), and no tensor is a view of what others get."""
    calls = []
    for module in (judging, overlap):
        monkeypatch.setattr(module, "run", lambda *args, **kind: calls.append(args[2:]) or run(*args, **kind))
    judged(exercise, getattr(solutions, exercise))
    assert len(calls) >= 3
    for data in calls:
        assert not list(_tensors([thing for thing in data if not isinstance(thing, each)]))
        own = list(_tensors([thing.values for thing in data if isinstance(thing, each)]))
        assert own and all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in own)


def _tensors(thing):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple, dict)):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from _tensors(part)


def test_the_command_for_the_weights_writes_what_loads_into_the_tiny_gpt(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(training, "WEIGHTS", tmp_path / "weights.pt")
    monkeypatch.setattr(training, "STEPS", 2)
    threads = torch.get_num_threads()
    training.main()  # sets the number of threads, on which sums depend in the last bit
    assert "bigram" in capsys.readouterr().out
    model = training.new_model()
    training.train(model, 2)
    torch.set_num_threads(threads)
    for one, other in zip(training.trained_model().parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_step_time_of_one_bucket_is_backward_and_one_all_reduce():
    """All gradients in one bucket: nothing overlaps."""
    took = overlap.step_seconds([100, 200, 300], [1.0, 2.0, 3.0], 10**9, 4, 0.5, 100.0)
    assert took == pytest.approx(6 + collective_seconds("all_reduce", 4, 600, 0.5, 100.0))


def test_the_step_time_with_a_fast_network_is_backward_and_the_last_bucket():
    """Each all-reduce ends before the next gradient is there, so only that of the first parameter is seen."""
    took = overlap.step_seconds([100, 200, 300], [1.0, 2.0, 3.0], 1, 4, 1e-6, 1e9)
    assert took == pytest.approx(6 + collective_seconds("all_reduce", 4, 100, 1e-6, 1e9))


def test_step_seconds_agrees_with_the_simulator():
    """The formula and a simulated step with the same buckets take equally long."""
    sizes, spent, latency, bandwidth = [400, 400, 800, 1200], [1.0, 2.0, 1.5, 0.5], 0.1, 1000.0
    trace = run(_step, sizes, spent, [[3, 2], [1, 0]], ranks=4, on=Cluster(latency=latency, bandwidth=bandwidth))
    assert trace.seconds == pytest.approx(overlap.step_seconds(sizes, spent, 2000, 4, latency, bandwidth), rel=1e-9)


def _step(dist, sizes, spent, buckets):
    from course_lib import work

    handles = []
    for bucket in buckets:
        for index in bucket:
            work(spent[index])
        flat = torch.zeros(sum(sizes[index] for index in bucket) // 4)
        handles.append((flat, dist.all_reduce(flat, async_op=True)))
    for _, handle in handles:
        handle.wait()


def test_a_traced_step_tells_forward_from_backward_which_takes_twice_as_long():
    trace = overlap.traced_step(lambda dist, model: lambda: None, ranks=2)
    spent = {kind: sum(event.end - event.start for event in trace.of(1, kind)) for kind in ("forward", "backward")}
    assert {event.kind for event in trace.events} == set(spent)
    assert spent["backward"] == pytest.approx(2 * spent["forward"])
    assert max(event.end for event in trace.of(0, "forward")) <= min(event.start for event in trace.of(0, "backward"))


def test_the_parameters_of_a_real_model_and_their_flops_add_up():
    for name in ("Llama-3-8B", "Granite-3.0-2B"):
        parts = model_step.tensors(MODELS[name])
        assert sum(count for count, _ in parts) == parameter_count(MODELS[name])
        assert sum(share for _, share in parts) == pytest.approx(1)
    with pytest.raises(ValueError, match="of Llama's kind"):
        model_step.tensors(MODELS["GPT-2"])


def test_a_step_of_a_real_model_sums_all_gradients_between_the_first_and_the_last():
    step = model_step.model_step(MODELS["Llama-3-8B"], cap_bytes=math.inf)
    assert len(step.sums) == 1
    assert step.exposed == pytest.approx(step.all_reduce)
    assert step.all_reduce == pytest.approx(
        collective_seconds("all_reduce", 8, 2 * 8_030_261_248, H100.link.latency, H100.link.bandwidth))
    assert step.forward + step.backward == pytest.approx(
        step_flops(MODELS["Llama-3-8B"], 1, 8192, causal=True) / (0.4 * H100.peak("bf16")))
    assert [event.kind for event in step.events] == ["forward", "backward", "all_reduce"]


def test_buckets_are_summed_one_after_the_other_and_none_before_its_gradients():
    step = model_step.model_step(MODELS["Llama-3-8B"], nodes=128)
    ends = [end for _, end in step.sums]
    assert all(begin >= end - 1e-9 for (begin, _), end in zip(step.sums[1:], ends, strict=False))
    assert step.sums[0][0] > step.forward and step.seconds == ends[-1]
    large = model_step.model_step(MODELS["Llama-3-8B"], 128, model_step.megatron_bucket(1024))
    assert len(large.sums) < len(step.sums) and large.exposed < step.exposed
    assert model_step.megatron_bucket(8) == 2 * 40_000_000 and model_step.megatron_bucket(1024) == 2 * 1024 * 10**6


def test_the_buckets_of_a_real_model_are_as_many_as_torch_makes():
    shape = MODELS["Llama-3-8B"]
    parameters = [torch.empty(count, dtype=torch.bfloat16, device="meta") for count, _ in model_step.tensors(shape)]
    last_first, limits = parameters[::-1], [torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, model_step.DDP_BUCKET]
    buckets, _ = torch.distributed._compute_bucket_assignment_by_size(last_first, limits, [False] * len(parameters))
    assert len(buckets) == len(model_step.model_step(shape).sums) == 162


def test_a_bucket_is_closed_when_it_is_full_or_before_it_would_hold_more():
    def ends(until_full):
        return overlap.bucket_times([30, 20, 60, 40], [1.0] * 4, 90, lambda size: size, until_full=until_full)

    assert [end - begin for begin, end in ends(False)] == [40, 80, 30]
    assert [end - begin for begin, end in ends(True)] == [100, 50]


def test_gradients_that_are_8_steps_old_are_worse_than_no_training():
    untrained = training.held_out_loss(training.new_model())
    fresh, old, older = (staleness.stale_loss(steps) for steps in (0, 2, 8))
    assert fresh < old < untrained < older
    assert round(untrained, 2) == 5.55 and fresh == pytest.approx(3.07, abs=0.06)  # chapter 4: "about 3.1"


def test_fresh_gradients_train_as_the_loop_without_copies_does():
    model = training.new_model()
    optimizer = training.new_optimizer(model)
    for step in range(3):
        tokens, targets = text.batch(step, 8, 32)
        optimizer.zero_grad()
        next_token_loss(model(tokens), targets).backward()
        optimizer.step()
    assert staleness.stale_loss(0, steps=3) == pytest.approx(training.held_out_loss(model), rel=1e-6)


def test_when_backward_ends_38_of_the_53_all_reduces_in_hooks_have_not_begun():
    trace = overlap.traced_step(solutions.all_reduce_per_parameter)
    backward = max(event.end for event in trace.of(0, "backward"))
    begun = [event.start < backward for event in trace.of(0, "all_reduce")]
    assert (len(begun), begun.count(False)) == (53, 38)


def test_the_table_of_buckets_shows_the_simulated_steps():
    from exercises_tests.tools.chapters import find

    def averaging(dist, model):
        return lambda: solutions.average_gradients(dist, model, 1)  # all ranks have equally many rows

    def per_bucket(dist, model):
        return solutions.all_reduce_per_bucket(dist, model, solutions.plan_buckets(list(model.parameters()), 250_000))

    told = "\n".join(cell.source for cell in find("ch04").notebook.cells)
    ways = {"after backward": averaging, "in hooks": solutions.all_reduce_per_parameter,
            "in hooks, in buckets": per_bucket}  # fmt: skip
    for name, way in ways.items():
        step = 1e3 * overlap.traced_step(way).seconds
        (row,) = (line for line in told.splitlines() if line.startswith(f"| {name} |"))
        assert row.endswith(f"| 0.76 ms | {step - 0.76:.2f} ms | {step:.2f} ms |")
    trace = overlap.traced_step(averaging)
    assert len(trace.of(0, "all_reduce")) == 54 and "where 54 pay 1.6 ms" in told  # 54 · 6 · 5 µs = 1.62 ms
