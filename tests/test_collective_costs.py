"""Formulas of collectives against the simulator and against published figures."""

from __future__ import annotations

import math

import pytest
import torch

from course_lib import Cluster, run
from course_lib.costs import (
    ALGORITHMS,
    algorithm_bandwidth,
    bus_bandwidth,
    collective_bytes,
    collective_seconds,
    crossover_bytes,
    hierarchical_all_reduce_seconds,
    tree_rounds,
)
from course_lib.hardware import DGX_H100, Link

LATENCY, BANDWIDTH = 3e-6, 7e9
LINKS = Cluster(bandwidth=BANDWIDTH, latency=LATENCY)
SWITCH = Cluster(bandwidth=BANDWIDTH, latency=LATENCY, in_network=True)


# Algorithms written with send and recv, and built-in ones; each takes (dist, tensor) with P·4 elements or a multiple.


def swap(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return arrived


def naive_reduce(dist, tensor):
    if dist.get_rank():
        dist.send(tensor, 0)
    else:
        for other in range(1, dist.get_world_size()):
            arrived = torch.empty_like(tensor)
            dist.recv(arrived, other)
            tensor += arrived


def naive_broadcast(dist, tensor):
    if dist.get_rank():
        dist.recv(tensor, 0)
    else:
        for other in range(1, dist.get_world_size()):
            dist.send(tensor, other)


def naive_all_reduce(dist, tensor):
    naive_reduce(dist, tensor)
    naive_broadcast(dist, tensor)


def tree_all_reduce(dist, tensor):
    dist.reduce(tensor, 0)
    dist.broadcast(tensor, 0)


def halve(dist, tensor, core):
    """Return this rank's piece of the sum, and how the tensor was cut to get there."""
    rank, distance, cuts = dist.get_rank(), core // 2, []
    while distance:
        low, high = tensor.chunk(2)
        keep, give = (high, low) if rank & distance else (low, high)
        keep += swap(dist, give.contiguous(), rank ^ distance)
        cuts.append((keep, give, rank ^ distance))
        tensor, distance = keep, distance // 2
    return tensor, cuts


def double(dist, cuts):
    for keep, give, peer in reversed(cuts):
        give.copy_(swap(dist, keep.contiguous(), peer))


def halving_reduce_scatter(dist, tensor):
    halve(dist, tensor, dist.get_world_size())


def doubling_all_gather(dist, tensor):
    rank, pieces, distance = dist.get_rank(), list(tensor.chunk(dist.get_world_size())), 1
    have = [rank]
    while distance < len(pieces):
        arrived = swap(dist, torch.cat([pieces[place] for place in have]), rank ^ distance)
        theirs = [place ^ distance for place in have]
        for place, piece in zip(theirs, arrived.chunk(len(theirs)), strict=True):
            pieces[place].copy_(piece)
        have, distance = have + theirs, 2 * distance


def halving_doubling_all_reduce(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    core = 1 << (ranks.bit_length() - 1)
    if rank >= core:
        dist.send(tensor, rank - core)
        dist.recv(tensor, rank - core)
        return
    if rank + core < ranks:
        arrived = torch.empty_like(tensor)
        dist.recv(arrived, rank + core)
        tensor += arrived
    double(dist, halve(dist, tensor, core)[1])
    if rank + core < ranks:
        dist.send(tensor, rank + core)


def hierarchical_all_reduce(dist, tensor, per_node):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inside = [dist.new_group(range(first, first + per_node)) for first in range(0, ranks, per_node)][rank // per_node]
    across = [dist.new_group(range(place, ranks, per_node)) for place in range(per_node)][rank % per_node]
    pieces = list(tensor.chunk(per_node))
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    dist.all_reduce(mine, group=across)
    dist.all_gather(pieces, mine, group=inside)


def ring_all_gather(dist, tensor):
    pieces = list(tensor.chunk(dist.get_world_size()))
    dist.all_gather(pieces, pieces[dist.get_rank()].clone())


def ring_reduce_scatter(dist, tensor):
    pieces = list(tensor.chunk(dist.get_world_size()))
    dist.reduce_scatter(torch.empty_like(pieces[0]), pieces)


def pairwise_all_to_all(dist, tensor):
    pieces = list(tensor.chunk(dist.get_world_size()))
    dist.all_to_all([torch.empty_like(piece) for piece in pieces], pieces)


PROGRAMS = {
    ("all_reduce", "ring"): lambda dist, tensor: dist.all_reduce(tensor),
    ("all_reduce", "naive"): naive_all_reduce,
    ("all_reduce", "tree"): tree_all_reduce,
    ("all_reduce", "halving_doubling"): halving_doubling_all_reduce,
    ("all_gather", "ring"): ring_all_gather,
    ("all_gather", "halving_doubling"): doubling_all_gather,
    ("reduce_scatter", "ring"): ring_reduce_scatter,
    ("reduce_scatter", "halving_doubling"): halving_reduce_scatter,
    ("broadcast", "tree"): lambda dist, tensor: dist.broadcast(tensor, 0),
    ("broadcast", "naive"): naive_broadcast,
    ("reduce", "tree"): lambda dist, tensor: dist.reduce(tensor, 0),
    ("reduce", "naive"): naive_reduce,
    ("all_to_all", "pairwise"): pairwise_all_to_all,
    ("all_reduce", "in_network"): lambda dist, tensor: dist.all_reduce(tensor),
    ("all_gather", "in_network"): ring_all_gather,
    ("reduce_scatter", "in_network"): ring_reduce_scatter,
}


def run_on(program, *args):
    def each(dist):
        tensor = torch.arange(1680.0) + dist.get_rank()
        program(dist, tensor, *args)
        return tensor

    return each


def close(got, want):
    return got == pytest.approx(want, rel=1e-9, abs=1e-18)


def test_every_algorithm_has_a_program_to_be_compared_with():
    assert {*PROGRAMS, ("all_reduce", "hierarchical")} == {(k, a) for k, names in ALGORITHMS.items() for a in names}


@pytest.mark.parametrize(("kind", "algorithm"), PROGRAMS, ids="-".join)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 8])
def test_formula_and_simulator_agree_on_seconds_and_on_bytes_of_every_rank(kind, algorithm, ranks):
    if algorithm == "halving_doubling" and kind != "all_reduce" and ranks & (ranks - 1):
        with pytest.raises(ValueError, match=f"ranks = {ranks}: .* power of two; use ring"):
            collective_seconds(kind, ranks, 1680, LATENCY, BANDWIDTH, algorithm)
        return
    trace = run(run_on(PROGRAMS[kind, algorithm]), ranks=ranks, on=SWITCH if algorithm == "in_network" else LINKS)
    assert close(collective_seconds(kind, ranks, 4 * 1680, LATENCY, BANDWIDTH, algorithm), trace.seconds)
    assert close(collective_bytes(kind, ranks, 4 * 1680, algorithm), trace.bytes_sent)
    if kind == "all_reduce":
        want = sum(torch.arange(1680.0) + rank for rank in range(ranks))
        assert all(torch.equal(got, want) for got in trace)


@pytest.mark.parametrize(("ranks", "per_node"), [(1, 1), (4, 2), (6, 3), (8, 4), (8, 1), (8, 8)])
def test_the_hierarchical_formula_agrees_with_the_simulator_on_equal_links(ranks, per_node):
    trace = run(run_on(hierarchical_all_reduce, per_node), ranks=ranks, on=LINKS)
    seconds = collective_seconds("all_reduce", ranks, 4 * 1680, LATENCY, BANDWIDTH, "hierarchical", per_node)
    assert close(seconds, trace.seconds)
    assert close(collective_bytes("all_reduce", ranks, 4 * 1680, "hierarchical", per_node), trace.bytes_sent)
    link = Link("any", BANDWIDTH, LATENCY, "test")
    assert close(hierarchical_all_reduce_seconds(ranks // per_node, per_node, 4 * 1680, link, link), seconds)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_the_simulator_replays_the_first_algorithm(kind):
    builtin = PROGRAMS[kind, ALGORITHMS[kind][0]]
    assert set(run(run_on(builtin), ranks=3, on=LINKS).collectives[0]) == {kind}


def test_bytes_of_a_ring_all_reduce_as_published():
    # 16,384 bytes on 2, 4 and 8 ranks, in 2, 6 and 14 steps
    assert [collective_bytes("all_reduce", ranks, 16384)[0] for ranks in (2, 4, 8)] == [16384, 24576, 28672]
    assert [collective_seconds("all_reduce", ranks, 16384, 1, math.inf) for ranks in (2, 4, 8)] == [2, 6, 14]


def test_busbw_is_algbw_times_the_factor_of_nccl_tests():
    assert algorithm_bandwidth(1e9, 0.01) == 1e11
    factors = {"all_reduce": 1.75, "all_gather": 0.875, "reduce_scatter": 0.875, "all_to_all": 0.875}
    for kind, factor in (factors | {"broadcast": 1, "reduce": 1}).items():
        assert bus_bandwidth(kind, 8, 1e9, 0.01) == pytest.approx(factor * 1e11)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("ranks", [2, 8, 100])
def test_busbw_of_a_ring_is_the_bandwidth_of_its_link(kind, ranks):
    seconds = collective_seconds(kind, ranks, 1e9, 0, BANDWIDTH)
    assert bus_bandwidth(kind, ranks, 1e9, seconds) == pytest.approx(BANDWIDTH)


@pytest.mark.parametrize("ranks", [4, 5, 8, 64, 1000])
def test_tree_and_ring_cost_the_same_at_the_crossover(ranks):
    def seconds(size, algorithm):
        return collective_seconds("all_reduce", ranks, size, LATENCY, BANDWIDTH, algorithm)

    size = crossover_bytes(ranks, LATENCY, BANDWIDTH)
    assert seconds(size, "ring") == pytest.approx(seconds(size, "tree"), rel=1e-12)
    assert seconds(size / 2, "tree") < seconds(size / 2, "ring")
    assert seconds(size * 2, "tree") > seconds(size * 2, "ring")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_up_to_three_ranks_a_ring_is_never_slower_than_a_tree(ranks):
    assert crossover_bytes(ranks, LATENCY, BANDWIDTH) == 0
    for size in (0, 1, 1e9):
        case = ("all_reduce", ranks, size, LATENCY, BANDWIDTH)
        assert collective_seconds(*case, "ring") <= collective_seconds(*case, "tree")


def test_the_rounds_of_a_tree():
    assert [tree_rounds(ranks) for ranks in (1, 2, 3, 4, 5, 8, 9, 1024)] == [0, 1, 2, 2, 3, 3, 4, 10]


def test_rings_that_share_a_port_wait_for_each_other():
    link, nic = DGX_H100.gpu.link, DGX_H100.nic
    alone = hierarchical_all_reduce_seconds(2, 8, 1e9, link, nic)
    shared = hierarchical_all_reduce_seconds(2, 8, 1e9, link, nic, nics=2)
    inside = 2 * collective_seconds("all_gather", 8, 1e9, link.latency, link.bandwidth)
    assert shared - inside == pytest.approx(4 * (alone - inside))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("all_reduce", 0, 1, 0, 1), "ranks = 0"),
        (("all_reduce", 2, -1, 0, 1), "size = -1: must be 0 or more"),
        (("all_reduce", 2, math.nan, 0, 1), "size = nan"),
        (("all_reduce", 2, 1, -1, 1), "latency = -1"),
        (("all_reduce", 2, 1, 0, 0), "bandwidth = 0: must be above 0"),
        (("all_sum", 2, 1, 0, 1), "kind = 'all_sum'.*all_reduce"),
        (("all_gather", 2, 1, 0, 1, "tree"), "algorithm = 'tree'.*ring"),
        (("all_reduce", 8, 1, 0, 1, "hierarchical"), "per_node = None"),
        (("all_reduce", 8, 1, 0, 1, "hierarchical", 3), "per_node = 3: nodes must hold equally many of the 8 ranks"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        collective_seconds(*call)


def test_one_rank_and_empty_tensors_cost_what_they_should():
    for kind, names in ALGORITHMS.items():
        assert collective_seconds(kind, 1, 1e9, 1, 1, names[0]) == 0
        assert collective_bytes(kind, 1, 1e9, names[0]) == [0]
        assert sum(collective_bytes(kind, 4, 0, names[0])) == 0
    assert collective_seconds("broadcast", 4, 0, 1.5, 1e9) == 3.0
