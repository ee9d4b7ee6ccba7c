"""The meter: what is measured, what is charged, and what a rank holds."""

from __future__ import annotations

import re

import pytest
import torch

from course_lib import Cluster, RankFailed, algorithms, bytes_held, run
from course_lib.engine.meter import P2POp
from course_lib.events import describe, size_of

ENGINES = pytest.mark.parametrize("on", [None, Cluster()], ids=["gloo", "simulated"])


def one_way(dist):
    if dist.get_rank() == 0:
        dist.send(torch.ones(10), 1)
    else:
        dist.recv(torch.empty(10), 0)


@ENGINES
def test_a_message_is_measured_at_its_sender_and_at_its_receiver(on):
    trace = run(one_way, ranks=2, on=on)
    assert (trace.bytes_sent, trace.bytes_received, trace.messages_sent) == ([40, 0], [0, 40], [1, 0])
    assert trace.bytes_charged == [0, 0]


@ENGINES
def test_an_event_names_the_other_side(on):
    trace = run(one_way, ranks=2, on=on)
    assert [(event.kind, event.peer) for event in trace.events if event.rank == 0] == [("send", 1)]
    assert [(event.kind, event.peer) for event in trace.of(1)] == [("recv", 0)]


@ENGINES
def test_an_event_is_posted_before_it_starts_and_starts_before_it_ends(on):
    trace = run(one_way, ranks=2, on=on)
    assert all(0 <= event.posted <= event.start <= event.end for event in trace.events)
    assert max(event.end for event in trace.events) <= trace.seconds + 1e-9


@ENGINES
def test_a_collective_is_charged_by_its_algorithm_and_says_so(on):
    trace = run(lambda dist: dist.all_reduce(torch.ones(8)), ranks=4, on=on)
    assert trace.bytes_sent == trace.bytes_charged == [48] * 4
    assert trace.collectives == [["all_reduce"]] * 4
    assert all(event.charged for event in trace.events)


@ENGINES
def test_the_flat_forms_are_charged_like_the_list_forms(on):
    def flat(dist):
        dist.all_gather_into_tensor(torch.empty(8), torch.ones(4))
        dist.reduce_scatter_tensor(torch.empty(4), torch.ones(8))
        dist.all_to_all_single(torch.empty(8), torch.ones(8))

    trace = run(flat, ranks=2, on=on)
    assert trace.bytes_charged == [48, 48]
    assert trace.collectives[0] == ["all_gather", "reduce_scatter", "all_to_all"]


@ENGINES
def test_a_handle_counts_once_however_often_it_is_waited_for(on):
    def twice(dist):
        other = 1 - dist.get_rank()
        receiving = dist.irecv(torch.empty(2), other)
        sending = dist.isend(torch.ones(2), other)
        for _ in range(2):
            sending.wait()
            receiving.wait()

    assert run(twice, ranks=2, on=on).bytes_sent == [8, 8]


@ENGINES
def test_a_group_is_charged_for_its_members_only(on):
    def grouped(dist):
        group = dist.new_group([0, 2])
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(4), group=group)

    assert run(grouped, ranks=3, on=on).bytes_sent == [16, 0, 16]


@ENGINES
@pytest.mark.parametrize("call, words", [
    (lambda dist, t: dist.send(t, 2), "dst=2: there is no such rank; ranks are 0 to 1"),
    (lambda dist, t: dist.isend(t, -1), "dst=-1: there is no such rank; ranks are 0 to 1"),
    (lambda dist, t: dist.recv(t, 2), "src=2: there is no such rank; ranks are 0 to 1"),
    (lambda dist, t: dist.irecv(t, "0"), "src='0': there is no such rank; ranks are 0 to 1"),
    (lambda dist, t: dist.batch_isend_irecv([dist.P2POp(dist.isend, t, 2)]), "dst=2: there is no such rank"),
    (lambda dist, t: dist.send(t, group_dst=2), "group_dst=2: places in this group go from 0 to 1"),
    (lambda dist, t: dist.send(t), "a send needs dst, the rank that receives"),
    (lambda dist, t: dist.isend(t, 0, group=dist.new_group([1])), "dst=0: there is no such rank; ranks are 1"),
    (lambda dist, t: dist.broadcast(t, 2), "src=2: there is no such rank; ranks are 0 to 1"),
    (lambda dist, t: dist.reduce(t, -1), "dst=-1: there is no such rank; ranks are 0 to 1"),
])  # fmt: skip
def test_a_rank_that_does_not_exist_is_named_at_once(on, call, words):
    with pytest.raises(RankFailed, match=re.escape(f"raised ValueError: {words}")):
        run(lambda dist: call(dist, torch.ones(1)) if dist.get_rank() else dist.new_group([1]), ranks=2, on=on)


@ENGINES
@pytest.mark.parametrize("call", [
    lambda dist, t: dist.send(t, dist.get_rank()),
    lambda dist, t: dist.irecv(t, dist.get_rank()).wait(),
])  # fmt: skip
def test_a_message_to_oneself_is_refused(on, call):
    with pytest.raises(RankFailed, match="raised ValueError: rank 1 cannot send to or receive from itself"):
        run(lambda dist: call(dist, torch.ones(1)) if dist.get_rank() else None, ranks=2, on=on)


@ENGINES
def test_a_ring_without_modulo_shows_its_line(on):
    def ring(dist):
        sending = dist.isend(torch.ones(1), dist.get_rank() + 1)
        dist.recv(torch.empty(1), dist.get_rank() - 1)
        sending.wait()

    with pytest.raises(RankFailed, match=r"ranks are 0 to 3\n.* in ring: .*get_rank\(\) [+-] 1"):
        run(ring, on=on)


def test_the_rest_of_torch_distributed_is_there_on_real_ranks():
    assert run(lambda dist: dist.get_backend(), ranks=1)[0] == "gloo"


def test_a_batch_takes_only_isend_and_irecv():
    with pytest.raises(ValueError, match="P2POp takes dist.isend or dist.irecv, not all_reduce"):
        P2POp(torch.distributed.all_reduce, torch.ones(1), 0)


def test_a_tensor_is_described_as_people_write_it():
    tensor = torch.ones(2, 3, dtype=torch.bfloat16)
    assert describe(tensor) == "bfloat16[2, 3]"
    assert size_of(tensor) == 12


# What a rank holds


def test_a_storage_counts_once_however_many_views_share_it():
    tensor = torch.ones(100)
    assert bytes_held(tensor, tensor[:50], [tensor.view(10, 10)]) == 400


def test_a_view_keeps_its_whole_storage():
    assert bytes_held(torch.ones(100)[:1]) == 400


def test_a_resized_storage_counts_as_it_is_now():
    tensor = torch.ones(100)
    tensor.untyped_storage().resize_(0)
    assert bytes_held(tensor) == 0


def test_a_model_counts_with_its_gradients_and_its_optimizer_state():
    model = torch.nn.Linear(10, 10, bias=False)
    assert bytes_held(model) == 400
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(10)).sum().backward()
    assert bytes_held(model) == 800
    optimizer.step()
    assert bytes_held(model, optimizer) == 1600 + 4  # and Adam's step count


def test_tensors_on_meta_hold_nothing():
    assert bytes_held(torch.empty(100, device="meta")) == 0


def test_containers_that_hold_themselves_end():
    loop = [torch.ones(1)]
    loop.append(loop)
    assert bytes_held(loop) == 4


def test_without_arguments_all_tensors_of_the_process_count():
    def grown(dist):
        before = bytes_held()
        kept = torch.ones(1000)
        return bytes_held() - before, kept.numel()

    assert run(grown, ranks=2)[:] == [(4000, 1000)] * 2


def test_without_arguments_a_simulated_rank_is_asked_whose_bytes():
    with pytest.raises(RankFailed, match=r"say whose bytes you mean, as in bytes_held\(model, optimizer\)"):
        run(lambda dist: bytes_held(), ranks=1, on=Cluster())


def test_a_simulated_rank_can_ask_for_its_own_things():
    assert run(lambda dist: bytes_held(torch.ones(2)), ranks=2, on=Cluster())[:] == [8, 8]


def test_the_charge_is_the_sum_of_the_algorithms_messages():
    assert algorithms.charge("all_reduce", 0, 4, 8, 4) == (48, 48, 6)
