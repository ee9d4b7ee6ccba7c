"""Nodes on the virtual clock: fast links inside, slow ones between, and network ports that GPUs share."""

from __future__ import annotations

import pytest
import torch

from course_lib import Cluster, run, work
from course_lib.costs import collective_seconds, hierarchical_all_reduce_seconds
from course_lib.hardware import A100, DGX_1, DGX_H100, H100, L40S, Link

FAST, SLOW = 1.0, 10.0  # seconds a message takes inside a node and between nodes


def nodes(count, per_node, nics=None):
    return Cluster(
        nodes=count, gpus_per_node=per_node, nics=nics, bandwidth=float("inf"), latency=FAST,
        nic_bandwidth=float("inf"), nic_latency=SLOW,
    )  # fmt: skip


def send_to(dist, targets):
    """Each rank sends one message to its target, and receives those that are sent to it."""
    rank = dist.get_rank()
    handles = [dist.isend(torch.ones(1), targets[rank])] if rank in targets else []
    handles += [dist.irecv(torch.ones(1), source) for source, target in targets.items() if target == rank]
    for handle in handles:
        handle.wait()


def test_a_message_inside_a_node_is_fast_and_between_nodes_slow():
    assert run(send_to, {0: 1}, ranks=4, on=nodes(2, 2)).seconds == FAST
    assert run(send_to, {1: 2}, ranks=4, on=nodes(2, 2)).seconds == SLOW


def test_two_gpus_with_a_port_each_send_to_another_node_at_once():
    assert run(send_to, {0: 2, 1: 3}, ranks=4, on=nodes(2, 2)).seconds == SLOW


def test_two_gpus_that_share_a_port_take_turns():
    trace = run(send_to, {0: 2, 1: 3}, ranks=4, on=nodes(2, 2, nics=1))
    assert sorted(event.start for event in trace.events if event.kind == "send") == [0, SLOW]


def test_two_nodes_that_send_to_one_port_take_turns():
    assert run(send_to, {0: 4, 2: 5}, ranks=6, on=nodes(3, 2)).seconds == SLOW
    assert run(send_to, {0: 4, 2: 5}, ranks=6, on=nodes(3, 2, nics=1)).seconds == 2 * SLOW


def test_ports_are_full_duplex():
    assert run(send_to, {0: 2, 3: 1}, ranks=4, on=nodes(2, 2, nics=1)).seconds == SLOW


def test_messages_inside_a_node_do_not_wait_for_its_port():
    trace = run(send_to, {0: 4, 1: 2}, ranks=8, on=nodes(2, 4, nics=1))
    assert trace.of(1, "send")[0].end == FAST


def test_half_as_many_ports_as_gpus_are_shared_by_neighbours():
    cluster = nodes(2, 4, nics=2)
    assert [cluster.nics_between(rank, 7)[0] for rank in range(4)] == [0, 0, 1, 1]
    assert cluster.nics_between(0, 3) is None
    assert cluster.nics_between(7, 0) == (3, 0)


def test_links_come_from_the_table_of_hardware():
    cluster = Cluster(nodes=2, gpus_per_node=8, gpu=H100)
    assert cluster.link(0, 7) == (H100.link.latency, H100.link.bandwidth)
    assert cluster.link(7, 8) == (DGX_H100.nic.latency, DGX_H100.nic.bandwidth)
    assert (cluster.nics, cluster.flops) == (8, H100.peak("bf16"))
    assert Cluster(nodes=2, gpus_per_node=8, gpu="H100 SXM").link(7, 8) == cluster.link(7, 8)


def test_the_number_of_gpus_and_of_ports_comes_from_the_table_too():
    first = Cluster(nodes=2, gpu=DGX_1.gpu)
    assert (first.gpus_per_node, first.nics) == (8, 4)
    assert Cluster(nodes=2, gpus_per_node=2, gpu=DGX_1.gpu).nics == 1
    assert Cluster(nodes=2, gpu=A100, nics=1).nics == 1


def test_a_gpu_without_nodes_gives_equal_links():
    cluster = Cluster(gpu=H100)
    assert cluster.link(0, 100) == (H100.link.latency, H100.link.bandwidth)


def test_what_a_rank_computes_takes_the_time_of_its_gpu():
    def busy(dist):
        work(flops=989e12)

    assert run(busy, ranks=2, on=Cluster(nodes=1, gpu=H100)).seconds == pytest.approx(1.0)


def test_equal_links_are_as_they_were():
    plain = Cluster()
    assert (plain.bandwidth, plain.latency, plain.flops) == (50e9, 5e-6, 1e12)
    assert plain.describe() == {"bandwidth": 50e9, "latency": 5e-6, "flops": 1e12}
    assert Cluster(10.0, 1.0, 2.0).describe() == {"bandwidth": 10.0, "latency": 1.0, "flops": 2.0}


@pytest.mark.parametrize("cluster", [Cluster(), nodes(2, 4, 1), Cluster(nodes=3, gpu=A100)])
def test_the_description_makes_the_same_cluster(cluster):
    again = Cluster(**cluster.describe())
    assert again.describe() == cluster.describe()
    assert [again.link(0, rank) for rank in range(1, 8)] == [cluster.link(0, rank) for rank in range(1, 8)]


def all_reduce(dist, elements):
    tensor = torch.full((elements,), 1.0 + dist.get_rank())
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_the_same_collective_takes_longer_across_nodes_with_the_same_result():
    inside = run(all_reduce, 8000, ranks=8, on=Cluster(nodes=1, gpu=H100))
    across = run(all_reduce, 8000, ranks=8, on=Cluster(nodes=2, gpus_per_node=4, gpu=H100))
    assert list(inside) == list(across) == [36.0] * 8
    ring = collective_seconds("all_reduce", 8, 32000, H100.link.latency, H100.link.bandwidth)
    assert inside.seconds == pytest.approx(ring, rel=1e-9)
    assert across.seconds > 2 * inside.seconds


def test_nodes_whose_links_are_all_equal_cost_what_equal_links_cost():
    link = H100.link
    same = Cluster(
        nodes=2, gpus_per_node=4, bandwidth=link.bandwidth, latency=link.latency,
        nic_bandwidth=link.bandwidth, nic_latency=link.latency,
    )  # fmt: skip
    equal = run(all_reduce, 8000, ranks=8, on=Cluster(gpu=H100)).seconds
    assert run(all_reduce, 8000, ranks=8, on=same).seconds == equal


@pytest.mark.parametrize("nics", [4, 2, 1])
def test_the_hierarchical_formula_is_what_two_nodes_take(nics):
    def hierarchical(dist):
        groups = [dist.new_group(members) for members in ([0, 1, 2, 3], [4, 5, 6, 7], [0, 4], [1, 5], [2, 6], [3, 7])]
        inside, across = groups[dist.get_rank() // 4], groups[2 + dist.get_rank() % 4]
        pieces = list(torch.ones(8000).chunk(4))
        mine = torch.empty_like(pieces[0])
        dist.reduce_scatter(mine, pieces, group=inside)
        dist.all_reduce(mine, group=across)
        dist.all_gather(pieces, mine, group=inside)

    cluster = Cluster(nodes=2, gpus_per_node=4, gpu=H100, nics=nics)
    between = Link("port", cluster.nic_bandwidth, cluster.nic_latency, "test")
    want = hierarchical_all_reduce_seconds(2, 4, 32000, H100.link, between, nics)
    assert run(hierarchical, ranks=8, on=cluster).seconds == pytest.approx(want, rel=1e-9)


def test_more_ranks_than_places_are_refused():
    with pytest.raises(ValueError, match="ranks=17: 2 nodes of 8 GPUs hold 16 ranks; add nodes"):
        run(all_reduce, 8, ranks=17, on=Cluster(nodes=2, gpu=H100))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"nodes": 2}, "gpus_per_node=None: give a whole number"),
        ({"nodes": 2, "gpus_per_node": 4}, "nodes=2: give nic_bandwidth and nic_latency.*H100 SXM"),
        ({"nodes": 2, "gpus_per_node": 4, "gpu": L40S}, "give nic_bandwidth and nic_latency"),
        ({"nodes": 0, "gpu": H100}, "nodes=0: give a whole number"),
        ({"nodes": 2.0, "gpu": H100}, "nodes=2.0: give a whole number"),
        ({"nodes": 2, "gpu": H100, "nics": 9}, "nics=9: a node of 8 GPUs uses at most as many ports"),
        ({"nodes": 2, "gpu": H100, "nic_bandwidth": 0}, "nic_bandwidth=0: give bytes per second"),
        ({"nodes": 2, "gpu": H100, "nic_latency": -1}, "nic_latency=-1: give seconds"),
        ({"gpu": "H1000"}, "gpu='H1000': course_lib.hardware has .*H100 SXM"),
        ({"gpus_per_node": 8}, "gpus_per_node=8 makes sense only with nodes"),
        ({"bandwidth": 0}, "bandwidth=0: give bytes per second"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(fields, words):
    with pytest.raises(ValueError, match=words):
        Cluster(**fields)
