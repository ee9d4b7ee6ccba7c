"""A measured step tells what came and went, whose it was, and when most was alive."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from course_lib import bytes_held
from course_lib.lessons.memory_step import PARTS, measure_step, saved_for_backward


class Two(torch.nn.Module):
    """Two matrices of 100 x 100 with a ReLU between them: every byte can be counted by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = (torch.nn.Linear(100, 100, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


MATRIX, VECTOR = 100 * 100 * 4, 50 * 100 * 4


@pytest.fixture
def step():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, x = Two(), torch.randn(50, 100)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    yield lambda: measure_step(model, optimizer, lambda model: (model(x) ** 2).sum()), model, optimizer
    torch.set_num_threads(threads)


def test_every_part_counted_by_hand(step):
    """Two matrices, their gradients and moments; the ReLU's output is saved, and the squared output by the loss."""
    train, _, _ = step
    train()
    parts = train().parts
    assert parts["weights"] == parts["gradients"] == 2 * MATRIX
    assert 0 < parts["optimizer"] - 4 * MATRIX < 100  # step counters
    assert parts["activations"] == VECTOR
    assert parts["logits"] == VECTOR


def test_moments_of_adam_appear_in_the_first_step_and_stay(step):
    train, _, optimizer = step
    first, second = train(), train()
    assert first.alive["optimizer"][0] == 0
    assert first.alive["optimizer"][first.ends["backward"]] == 0
    assert first.alive["optimizer"][-1] == second.alive["optimizer"][0] == bytes_held(optimizer)


def test_gradients_appear_in_backward_and_go_with_zero_grad(step):
    train, _, _ = step
    measured = train()
    gradients = measured.alive["gradients"]
    assert gradients[measured.ends["forward"]] == 0
    assert gradients[measured.ends["backward"]] == gradients[measured.ends["step"]] == 2 * MATRIX
    assert gradients[-1] == 0


def test_nothing_but_weights_and_moments_is_left(step):
    train, model, optimizer = step
    train()
    measured = train()
    assert measured.totals[-1] == bytes_held(model, optimizer)
    assert {part for part in PARTS if measured.alive[part][-1]} == {"weights", "optimizer"}


def test_gradients_of_an_earlier_micro_batch_are_there_from_the_start(step):
    train, model, _ = step
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    measured = train()
    assert measured.alive["gradients"][0] == max(measured.alive["gradients"]) == 2 * MATRIX


def test_the_peak_is_at_least_every_moment(step):
    train, _, _ = step
    train()
    measured = train()
    assert measured.peak >= max(sum(parts.values()) for parts in measured.moments.values())
    assert list(measured.ends) == ["forward", "backward", "step", "zero_grad"]
    assert sorted(measured.ends.values()) == list(measured.ends.values())


def test_it_reads_as_a_table(step):
    train, _, _ = step
    text = str(train())
    for words in ("at the end of forward", "weights", "80.00 kB", "alive", "most at once: "):
        assert words in text


def test_the_same_step_is_measured_the_same_twice(step):
    train, _, _ = step
    train()
    assert train().alive == train().alive


def test_saved_bytes_count_a_storage_once_and_leave_out_what_was_there():
    x = torch.randn(10, 10, requires_grad=True)
    size, out = saved_for_backward(lambda: (x.exp() * x.exp().view(-1).view(10, 10)).sum(), x)
    assert size == 2 * 400  # two results of exp, each saved by exp and by the product
    out.backward()


def test_the_profiler_writes_no_log_of_its_own():
    code = (
        "import torch; from course_lib.lessons.memory_step import measure_step; m = torch.nn.Linear(2, 2);"
        "measure_step(m, torch.optim.SGD(m.parameters(), 0.1), lambda m: m(torch.ones(2)).sum())"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
