"""Pipelined trees: the schedule, the formula and the simulator."""

from __future__ import annotations

import pytest
import torch

from course_lib import Cluster, run
from course_lib.costs import best_chunks, collective_seconds, pipelined_tree_seconds
from course_lib.costs.two_trees import broadcast_slots, broadcast_steps
from course_lib.lessons.pipelined_tree import pipelined_tree

LATENCY, BANDWIDTH = 3e-6, 7e9
ON = Cluster(latency=LATENCY, bandwidth=BANDWIDTH)


def summed(dist, elements, chunks):
    tensor = torch.arange(float(elements)) + dist.get_rank()
    pipelined_tree(dist, tensor, chunks)
    return tensor


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 8, 12, 16, 33])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 8])
def test_formula_and_simulator_agree_and_the_sum_is_right(ranks, chunks):
    trace = run(summed, 840, chunks, ranks=ranks, on=ON)
    want = ranks * torch.arange(840.0) + ranks * (ranks - 1) / 2
    assert all(torch.equal(got, want) for got in trace)
    assert trace.seconds == pytest.approx(pipelined_tree_seconds(ranks, 3360, chunks, LATENCY, BANDWIDTH), rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64, 1024])
@pytest.mark.parametrize("chunks", [1, 2, 9, 100])
def test_a_power_of_two_has_a_closed_form(ranks, chunks):
    assert broadcast_slots(ranks, chunks) == chunks + 2 * (ranks.bit_length() - 1) - 2


@pytest.mark.parametrize("ranks", [2, 3, 6, 8, 9, 100])
def test_every_rank_gets_every_chunk_once_and_no_port_is_asked_twice_in_a_slot(ranks):
    chunks = 10
    for rank in range(ranks):
        steps = list(broadcast_steps(rank, ranks, chunks))
        assert all(len({kind for kind, _, _ in step}) == len(step) for step in steps)
        got = [chunk for step in steps for kind, _, chunk in step if kind == "recv"]
        assert sorted(got) == (list(range(chunks)) if rank else [])


@pytest.mark.parametrize("ranks", [8, 64])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_no_other_number_of_chunks_is_faster(ranks, size):
    best = best_chunks(ranks, size, LATENCY, BANDWIDTH)
    least = pipelined_tree_seconds(ranks, size, best, LATENCY, BANDWIDTH)
    for chunks in {1, 2, best // 2, best - 1, best + 1, 2 * best} - {0}:
        assert least <= pipelined_tree_seconds(ranks, size, chunks, LATENCY, BANDWIDTH)


def test_it_has_the_bytes_of_a_ring_and_the_latency_of_a_tree():
    """1,024 ranks: 64 bytes in 40 messages instead of a ring's 2,046; 1 GB at 98 % of the ring's rate."""
    ring, tree = (lambda size, kind=kind: collective_seconds("all_reduce", 1024, size, LATENCY, BANDWIDTH, kind)
                  for kind in ("ring", "tree"))  # fmt: skip
    def two_trees(size):
        return pipelined_tree_seconds(1024, size, best_chunks(1024, size, LATENCY, BANDWIDTH), LATENCY, BANDWIDTH)

    assert two_trees(64) < ring(64) / 50
    assert two_trees(1e9) < 1.05 * ring(1e9)
    assert tree(1e9) > 9 * two_trees(1e9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pipelined_tree_seconds(8, 1e6, 0, 1, 1), "chunks = 0: must be a whole number"),
        (lambda: pipelined_tree_seconds(8, float("nan"), 2, 1, 1), "size = nan"),
        (lambda: pipelined_tree_seconds(0, 1e6, 2, 1, 1), "ranks = 0"),
        (lambda: pipelined_tree_seconds(8, 1e6, 2, 1, 0), "bandwidth = 0"),
        (lambda: best_chunks(8, float("nan"), 1e-6, 1e9), "size = nan"),
        (lambda: best_chunks(8, 1e6, 0, 1e9), "latency = 0, size = 1000000.0: more chunks cost nothing"),
        (lambda: best_chunks(8, 0, 1e-6, 1e9), "latency = 1e-06, size = 0: .* bring nothing"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
