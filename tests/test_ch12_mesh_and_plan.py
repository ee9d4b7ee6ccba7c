"""Chapter 12: the tiny GPT on two axes by hand and by torch, the dry run, and numbers that the chapter's text says."""

from __future__ import annotations

import itertools

import pytest
import torch

from course_lib import Cluster, planning, run
from course_lib.hardware import DGX_H100, GB200_NVL72
from course_lib.lessons.dry_run import dry_run
from course_lib.lessons.mesh import by_hand, by_torch
from course_lib.models import MODELS
from exercises_tests import ch12_mesh_and_plan as checks
from solutions import ch12_mesh_and_plan as solutions

LLAMA = MODELS["Llama-3-405B"]
META = planning.Layout(tp=8, pp=16, dp=128, chunks=8, zero=2)


def test_two_axes_train_as_one_device_by_hand_and_by_torch():
    one, matrix = run(by_hand, 1, 1, 2, ranks=1, on=Cluster())[0]
    for program, dp, tp, on in ((by_hand, 2, 2, None), (by_torch, 2, 2, None), (by_hand, 2, 4, Cluster())):
        for losses, weights in run(program, dp, tp, 2, ranks=dp * tp, on=on):
            assert losses == pytest.approx(one, abs=1e-12)
            assert (weights - matrix).abs().max() < 1e-11


def test_the_dry_run_counts_what_the_text_says():
    found = dry_run("Llama-3-405B", ranks=16384, tp=8, layers=2)
    assert found["forward"] == {"all_gather": 3, "all_reduce": 5}
    assert found["backward"] == {"all_gather": 2, "all_reduce": 11, "reduce_scatter": 3}
    rows = {"q": (2048, 16384), "k": (128, 16384), "v": (128, 16384), "out": (16384, 2048), "gate": (6656, 16384),
            "up": (6656, 16384), "down": (16384, 6656)}  # fmt: skip
    layer = sum(-(-height // 2048) * wide for height, wide in rows.values()) + 2 * 8
    ends = -(-128256 // 8 // 2048) * 16384 * 2 + 8
    assert found["held"]["weights"] == 4 * (2 * layer + ends) == found["held"]["moments"] / 2
    assert found["gigabytes"] < 4


def test_a_dry_run_that_does_not_divide_is_a_sentence():
    with pytest.raises(ValueError, match="tp = 3: must divide ranks = 16,384"):
        dry_run(tp=3)


def test_the_numbers_of_the_text():
    mine = planning.groups(16384, [("tp", 8), ("pp", 16), ("dp", 128)])
    assert len({r for every in mine.values() for group in every if 0 in group for r in group}) == 150
    step = planning.step_seconds(LLAMA, META, DGX_H100, 2048, 8192)
    turned = planning.Layout(tp=8, pp=16, dp=128, chunks=8, zero=2, order=("dp", "cp", "pp", "tp"))
    wrong = planning.step_seconds(LLAMA, turned, DGX_H100, 2048, 8192)
    assert (round(step.seconds, 2), round(wrong.seconds, 2)) == (6.63, 11.26)
    assert (round(step.tensor, 2), round(wrong.tensor, 1), round(step.bubble, 2)) == (0.65, 4.8, 0.69)
    short, long = (planning.layout_memory(LLAMA, planning.Layout(8, 1, 16, 1, chunks=8), 16, s).activations / 1e9
                   for s in (8192, 131072))  # fmt: skip
    assert (round(short), round(long)) == (68, 1091)
    found = planning.plan(LLAMA, DGX_H100, 16384, 2048, 8192)
    assert found.place(META) == 50 and found.tried == 6534 and 3400 < len(found.fitting) < 3600
    assert (found.best.layout.tp, found.best.layout.cp, found.best.layout.dp) == (4, 8, 32)
    assert round(found.best.step.bubble, 2) == 0.16 and 31 < found.fitting[-1].seconds / found.best.seconds < 32
    fp8 = planning.Recipe("fp8", overlap_tp=True, gradient_bytes=2)
    rack = planning.plan(LLAMA, GB200_NVL72, 256, 1536, 8192, fp8)
    assert rack.best.layout.tp == 1 and rack.best.layout.cp == 16
    assert 59 < rack.of(planning.Layout(4, 1, 16, 4, chunks=4)).seconds < 60.5


def test_the_ring_of_405b_hides_behind_its_attention():
    piece = 8192 * 8 * 128 * 2 * 2 / 8
    block = 2 * 2 * 8192**2 * 128 * 128 / 8 / (0.52 * 989e12)
    assert round(piece / 1e6, 1) == 4.2 and 80e-6 < piece / 50e9 < 90e-6 and block > 5 * piece / 50e9


def test_right_orders_are_judged_by_bytes_only():
    sizes, traffic = {"a": 2, "b": 2}, {"a": 1, "b": 1}
    assert len({checks.leaving(order, sizes, traffic, 4) for order in itertools.permutations(sizes)}) == 1


def test_the_rings_bytes_are_the_formulas():
    ranks, heads, kv_heads, tokens, width = 4, 4, 2, 16, 8
    _, mine = checks.pieces(ranks, heads, kv_heads, tokens, width)
    trace = run(checks.attended, solutions.ring_attention, mine, ranks=ranks, on=Cluster())
    assert trace.bytes_sent == [(ranks - 1) * tokens // ranks * 2 * kv_heads * width * 8] * ranks
    assert all(isinstance(out, torch.Tensor) for out in trace)
