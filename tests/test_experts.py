"""What experts cost by formula: against the simulator, published times and hand counts; and what is refused."""

from __future__ import annotations

import random

import pytest
import torch

from course_lib import Cluster, run
from course_lib.costs import (
    all_to_all_seconds,
    combine_bytes,
    dispatch_bytes,
    dropped_share,
    expert_bytes,
    expert_parameters,
    experts_per_rank,
    nodes_reached,
)
from course_lib.hardware import DGX_H100, H100, Link
from course_lib.measured import DEEPEP
from course_lib.models import MODELS, active_parameters, parameter_count
from course_lib.served import SERVED

V3 = MODELS["DeepSeek-V3"]


def exchange(dist, elements):
    sent = [torch.zeros(elements) for _ in range(dist.get_world_size())]
    dist.all_to_all([torch.empty(elements) for _ in sent], sent)


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 8), (2, 2), (2, 8), (4, 4)])
def test_pairwise_is_the_simulator(nodes, per_node):
    ranks, elements = nodes * per_node, 100_000
    on = Cluster(nodes=nodes, gpus_per_node=per_node, gpu=H100)
    seconds = run(exchange, elements, ranks=ranks, on=on).seconds
    links = (Link("inside", on.bandwidth, on.latency, ""), Link("between", on.nic_bandwidth, on.nic_latency, ""))
    formula = all_to_all_seconds(ranks, per_node, 4 * elements * ranks, *links, algorithm="pairwise")
    assert formula == pytest.approx(seconds, rel=1e-9)


def test_deepeps_published_times():
    """Dispatch within 3.2 % everywhere; combine within 9 % between nodes, and 13 % too slow inside one."""
    inside, between = Link("H800", 200e9, 0, "reported"), Link("port", 50e9, 0, "")
    there, back = 128 * dispatch_bytes(V3, 1, scales=True), 128 * combine_bytes(V3)
    for row in DEEPEP:
        dispatch = all_to_all_seconds(row.ranks, 8, there, inside, between, start=44e-6)
        combine = all_to_all_seconds(row.ranks, 8, back, inside, between, start=65e-6)
        assert dispatch == pytest.approx(row.dispatch, rel=0.032), row
        assert combine == pytest.approx(row.combine, rel=0.09 if row.ranks > 8 else 0.135), row


def test_bytes_of_deepseek_v3():
    """2412.19437: 59,136 bytes there (fp8 and its scales), 114,688 back; 10.1 MB over 58 layers."""
    assert (dispatch_bytes(V3, 1, scales=True), combine_bytes(V3)) == (59_136, 114_688)
    assert V3.moe_layers * (59_136 + 114_688) == 10_081_792


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "DeepSeek-V3", "gpt-oss-120b", "Kimi-K2", "Llama-4-Maverick"])
def test_experts_are_what_a_token_does_not_use(name):
    shape = {**MODELS, **SERVED}[name]
    unused = shape.experts - shape.experts_per_token
    assert parameter_count(shape) - active_parameters(shape) == expert_parameters(shape) // shape.experts * unused
    assert expert_bytes(shape, shape.experts) == 2 * expert_parameters(shape) / shape.experts
    assert experts_per_rank(shape, shape.experts) == 1


def test_nodes_reached_against_drawing():
    draw = random.Random(0)
    nodes = [len({expert // 32 for expert in draw.sample(range(256), 8)}) for _ in range(20_000)]
    assert nodes_reached(256, 8, 8) == pytest.approx(sum(nodes) / len(nodes), rel=0.01)
    assert nodes_reached(256, 8, 8) == pytest.approx(5.29, abs=0.005)
    assert nodes_reached(256, 8, 8, most=4) == pytest.approx(3.63, abs=0.005)
    assert nodes_reached(8, 2, 1) == 1
    assert nodes_reached(16, 16, 4) == 4


def test_drops_of_a_uniform_router():
    """facts: 4.98 and 0.13 % with 64 tokens an expert, 9.9 and 2.3 % with 16; and against drawing."""
    found = [round(100 * dropped_share(mean, factor), 2) for mean in (64, 16) for factor in (1, 1.25)]
    assert found == [4.98, 0.13, 9.92, 2.3]
    loads = torch.poisson(torch.full((200_000,), 16.0), generator=torch.Generator().manual_seed(0))
    assert dropped_share(16, 1.25) == pytest.approx((loads - 20).clamp(0).mean().item() / 16, rel=0.03)
    assert dropped_share(64, 0) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dispatch_bytes(MODELS["GPT-2"]), "shape = 'GPT-2': has no experts"),
        (lambda: experts_per_rank(V3, 3), "ranks = 3: must divide the 256 experts of DeepSeek-V3"),
        (lambda: nodes_reached(256, 8, 3), "nodes = 3: must divide experts = 256"),
        (lambda: nodes_reached(16, 9, 4, most=2), "per_token = 9: at most the 8 experts"),
        (lambda: dropped_share(0, 1), "mean = 0, factor = 1: must be above 0"),
        (lambda: all_to_all_seconds(12, 8, 1e6, H100.link, DGX_H100.nic), "ranks = 12: must fill nodes"),
        (lambda: all_to_all_seconds(8, 8, -1, H100.link, DGX_H100.nic), "size = -1: must be 0 or more"),
        (lambda: all_to_all_seconds(8, 8, 1, H100.link, DGX_H100.nic, "ring"), "algorithm = 'ring': must be one of"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_one_rank_and_one_node():
    assert all_to_all_seconds(1, 8, 1e9, H100.link, DGX_H100.nic) == 0
    near = all_to_all_seconds(8, 8, 8e6, H100.link, DGX_H100.nic)
    assert near == pytest.approx(H100.link.latency + 7e6 / H100.link.bandwidth)
