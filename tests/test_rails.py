"""Rails: a ring per port between nodes, a ring in each node; the formula and the simulator agree."""

from __future__ import annotations

import math

import pytest
import torch

from course_lib import Cluster, run
from course_lib.costs import collective_seconds, hierarchical_all_reduce_seconds, rails_seconds
from course_lib.hardware import DGX_H100, GB200, GB200_NVL72, H100, Link
from course_lib.models import MODELS, parameter_count


def groups(dist, per_node):
    """Return this rank's group in its node and that on its rail."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inside = [dist.new_group(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    across = [dist.new_group(range(place, ranks, per_node)) for place in range(per_node)]
    return inside[rank // per_node], across[rank % per_node]


def all_reduce(dist, per_node, elements):
    inside, across = groups(dist, per_node)
    tensor = torch.arange(float(elements)) + dist.get_rank()
    pieces = list(tensor.chunk(per_node))
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    dist.all_reduce(mine, group=across)
    dist.all_gather(pieces, mine, group=inside)
    return tensor


def all_gather(dist, per_node, elements):
    """Gather over the rail, then hand what came to everyone in the node."""
    inside, across = groups(dist, per_node)
    ranks = dist.get_world_size()
    mine = torch.full((elements // ranks,), float(dist.get_rank()))
    rail = torch.empty(elements // per_node)
    dist.all_gather_into_tensor(rail, mine, group=across)
    whole = torch.empty(elements)
    dist.all_gather_into_tensor(whole, rail, group=inside)
    return whole.view(per_node, ranks // per_node, -1).transpose(0, 1).reshape(-1)


def reduce_scatter(dist, per_node, elements):
    inside, across = groups(dist, per_node)
    ranks = dist.get_world_size()
    tensor = (torch.arange(float(elements)) + dist.get_rank()).view(ranks // per_node, per_node, -1)
    rail = torch.empty(elements // per_node)
    dist.reduce_scatter_tensor(rail, tensor.transpose(0, 1).reshape(-1), group=inside)
    mine = torch.empty(elements // ranks)
    dist.reduce_scatter_tensor(mine, rail, group=across)
    return mine


PROGRAMS = {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter}
ELEMENTS = 2400


def wanted(kind, ranks, rank):
    total = ranks * torch.arange(float(ELEMENTS)) + ranks * (ranks - 1) / 2
    if kind == "all_gather":
        return torch.arange(float(ranks)).repeat_interleave(ELEMENTS // ranks)
    return total if kind == "all_reduce" else total.chunk(ranks)[rank]


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(("nodes", "per_node", "nics"), [(1, 4, 4), (2, 4, 4), (3, 2, 2), (4, 2, 1), (2, 4, 2)])
def test_the_formula_is_what_the_nodes_take(kind, nodes, per_node, nics):
    cluster = Cluster(nodes=nodes, gpus_per_node=per_node, gpu=H100, nics=nics)
    trace = run(PROGRAMS[kind], per_node, ELEMENTS, ranks=nodes * per_node, on=cluster)
    for rank, got in enumerate(trace):
        assert torch.equal(got, wanted(kind, nodes * per_node, rank))
    want = rails_seconds(nodes, per_node, 4 * ELEMENTS, H100.link, DGX_H100.nic, kind, nics)
    assert trace.seconds == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(("nodes", "per_node"), [(1, 4), (2, 4), (3, 2), (4, 1)])
def test_with_switches_that_add_it_is_too(kind, nodes, per_node):
    cluster = Cluster(nodes=nodes, gpus_per_node=per_node, gpu=H100, in_network=True)
    trace = run(PROGRAMS[kind], per_node, ELEMENTS, ranks=nodes * per_node, on=cluster)
    for rank, got in enumerate(trace):
        assert torch.equal(got, wanted(kind, nodes * per_node, rank))
    want = rails_seconds(nodes, per_node, 4 * ELEMENTS, H100.link, DGX_H100.nic, kind, algorithm="in_network")
    assert trace.seconds == pytest.approx(want, rel=1e-9)


def test_an_all_reduce_is_the_hierarchical_one():
    for nodes, per_node, nics in ((2, 8, 8), (8, 8, 4), (3, 8, 1)):
        case = (nodes, per_node, 1e9, H100.link, DGX_H100.nic)
        assert rails_seconds(*case, nics=nics) == pytest.approx(hierarchical_all_reduce_seconds(*case, nics), rel=1e-12)


def test_each_port_carries_a_share_of_the_bytes():
    """64 GPUs, 1 GB: besides what a node takes inside, a rail takes what an eighth of the bytes takes on 8 ranks."""
    rails = rails_seconds(8, 8, 1e9, H100.link, DGX_H100.nic)
    flat = collective_seconds("all_reduce", 64, 1e9, DGX_H100.nic.latency, DGX_H100.nic.bandwidth)
    inside = 2 * collective_seconds("all_gather", 8, 1e9, H100.link.latency, H100.link.bandwidth)
    assert rails - inside == pytest.approx(collective_seconds(
        "all_reduce", 8, 1e9 / 8, DGX_H100.nic.latency, DGX_H100.nic.bandwidth))  # fmt: skip
    assert flat > 4.5 * rails


def test_70b_on_64_gpus_gathers_twice_and_scatters_once_in_1_75_seconds():
    weights = 2 * parameter_count(MODELS["Llama-3-70B"])
    times = [rails_seconds(8, 8, weights, H100.link, DGX_H100.nic, kind) for kind in ("all_gather", "reduce_scatter")]
    assert 2 * times[0] + times[1] == pytest.approx(1.75, abs=0.005)


def test_a_domain_of_72_keeps_64_gpus_off_the_network():
    """1 GB over 64 GPUs: within one rack by NVLink, or on eight nodes of eight."""
    rack = rails_seconds(1, 64, 1e9, GB200.link, GB200_NVL72.nic)
    nodes = rails_seconds(8, 8, 1e9, GB200.link, GB200_NVL72.nic)
    assert rack < nodes / 2
    assert Cluster(nodes=2, gpu=GB200).link(0, 71) == (GB200.link.latency, GB200.link.bandwidth)
    assert Cluster(nodes=2, gpu=GB200).link(71, 72) == (GB200_NVL72.nic.latency, GB200_NVL72.nic.bandwidth)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nics": 3}, "nics = 3: must divide per_node = 8, so that each port has as many rails"),
        ({"nics": 16}, "nics = 16: must divide per_node = 8"),
        ({"nodes": 0}, "nodes = 0: must be a whole number"),
        ({"per_node": 2.5}, "per_node = 2.5: must be a whole number"),
        ({"size": -1}, "size = -"),
        ({"size": math.nan}, "size = nan"),
        ({"kind": "broadcast"}, "kind = 'broadcast': must be one of"),
        ({"algorithm": "tree"}, "algorithm = 'tree': must be one of 'ring', 'in_network'"),
        ({"slow": Link("cut", 0, 0, "test")}, "bandwidth = 0: must be above 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(change, words):
    case = {"nodes": 2, "per_node": 8, "size": 1e6, "fast": H100.link, "slow": DGX_H100.nic}
    with pytest.raises(ValueError, match=words):
        rails_seconds(**case | change)


def test_an_empty_tensor_costs_its_latencies():
    """Seven steps in a node twice, and two between two nodes."""
    seconds = rails_seconds(2, 8, 0, H100.link, DGX_H100.nic)
    assert seconds == pytest.approx(14 * H100.link.latency + 2 * DGX_H100.nic.latency)
