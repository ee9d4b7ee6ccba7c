"""Switches that add, on the virtual clock: who goes through one, when it starts, and what it keeps busy."""

from __future__ import annotations

import pytest
import torch

from course_lib import Cluster, run, work
from course_lib.costs import bus_bandwidth, collective_seconds
from course_lib.hardware import DGX_H100, H100

LATENCY, BANDWIDTH = 1.0, 4.0  # seconds a message, bytes a second
ON = Cluster(latency=LATENCY, bandwidth=BANDWIDTH, in_network=True)
NODES = Cluster(nodes=2, gpus_per_node=4, gpu=H100, in_network=True)


def reduced(dist, elements=8):
    tensor = torch.full((elements,), 1.0 + dist.get_rank())
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_an_all_reduce_takes_one_latency_and_every_byte_once():
    trace = run(reduced, ranks=4, on=ON)
    assert list(trace) == [10.0] * 4
    assert trace.seconds == LATENCY + 32 / BANDWIDTH
    assert trace.bytes_sent == [32] * 4


def test_its_busbw_is_above_the_link():
    """Up to 2(P-1)/P times as much as the link carries, because the factor of nccl-tests counts a ring's bytes."""
    seconds = collective_seconds("all_reduce", 8, 1e9, 0, BANDWIDTH, "in_network")
    assert bus_bandwidth("all_reduce", 8, 1e9, seconds) == 1.75 * BANDWIDTH


def test_it_starts_when_the_last_rank_has_come():
    def late(dist):
        work(5.0 * (dist.get_rank() == 2))
        reduced(dist)

    trace = run(late, ranks=4, on=ON)
    assert trace.seconds == 5.0 + LATENCY + 32 / BANDWIDTH
    assert {event.end for event in trace.events if event.kind == "all_reduce"} == {trace.seconds}


def test_it_waits_for_a_port_that_is_busy():
    def after_a_message(dist):
        tensor = torch.ones(8)
        post = {0: dist.isend, 1: dist.irecv}.get(dist.get_rank())
        handle = post and post(tensor.clone(), 1 - dist.get_rank())
        dist.all_reduce(tensor)
        if handle:
            handle.wait()

    assert run(after_a_message, ranks=4, on=ON).seconds == 2 * (LATENCY + 32 / BANDWIDTH)


def test_a_message_waits_for_the_switch():
    def before_a_message(dist):
        handle = dist.all_reduce(torch.ones(8), async_op=True)
        if dist.get_rank() < 2:
            getattr(dist, ("send", "recv")[dist.get_rank()])(torch.ones(8), 1 - dist.get_rank())
        handle.wait()

    assert run(before_a_message, ranks=2, on=ON).seconds == 2 * (LATENCY + 32 / BANDWIDTH)


def test_one_after_the_other_in_order():
    def thrice(dist):
        tensor = torch.ones(8)
        handles = [dist.all_reduce(tensor.clone(), async_op=True) for _ in range(3)]
        for handle in handles:
            handle.wait()

    assert run(thrice, ranks=3, on=ON).seconds == 3 * (LATENCY + 32 / BANDWIDTH)


def test_ranks_of_one_node_use_its_switch_and_ranks_of_different_nodes_the_networks():
    assert NODES.switch((0, 1, 2, 3)) == (H100.link.latency, H100.link.bandwidth)
    assert NODES.switch((1, 5)) == (DGX_H100.nic.latency, DGX_H100.nic.bandwidth)
    assert ON.switch((0, 99)) == (LATENCY, BANDWIDTH)


def test_ranks_that_share_no_switch_go_round_the_ring():
    assert NODES.switch(tuple(range(8))) is None
    plain = Cluster(nodes=2, gpus_per_node=4, gpu=H100)
    assert run(reduced, ranks=8, on=NODES).seconds == run(reduced, ranks=8, on=plain).seconds


def test_rails_that_share_a_port_take_turns_at_the_switch():
    def on_rails(dist):
        rails = [dist.new_group([place, place + 2]) for place in range(2)]
        dist.all_reduce(torch.ones(8), group=rails[dist.get_rank() % 2])

    def seconds(nics):
        cluster = Cluster(nodes=2, gpus_per_node=2, nics=nics, nic_latency=1.0, nic_bandwidth=4.0, in_network=True)
        return run(on_rails, ranks=4, on=cluster).seconds

    assert (seconds(2), seconds(1)) == (9.0, 18.0)


def test_other_collectives_stay_as_they_are():
    def broadcast(dist):
        dist.broadcast(torch.ones(8), 0)

    plain = Cluster(latency=LATENCY, bandwidth=BANDWIDTH)
    assert run(broadcast, ranks=4, on=ON).seconds == run(broadcast, ranks=4, on=plain).seconds


def test_one_rank_and_empty_tensors():
    assert run(reduced, ranks=1, on=ON).seconds == 0
    assert run(lambda dist: dist.all_reduce(torch.ones(0)), ranks=4, on=ON).seconds == LATENCY


def test_a_rank_that_never_comes_is_a_deadlock():
    def absent(dist):
        if dist.get_rank():
            dist.all_reduce(torch.ones(1))

    with pytest.raises(Exception, match="in all_reduce for rank 0"):
        run(absent, ranks=3, on=ON)


def test_the_description_makes_the_same_cluster():
    assert Cluster(**NODES.describe()).describe() == NODES.describe()
    assert "in_network" not in Cluster().describe()


def test_it_is_true_or_false():
    with pytest.raises(ValueError, match="in_network='NVLS': give True .switches add. or False"):
        Cluster(in_network="NVLS")
