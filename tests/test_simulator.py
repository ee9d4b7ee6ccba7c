"""The simulator: its cost model on virtual times, one tiny scenario each, and what it refuses and reports.

On `SECONDS` a message of n float32 lasts 1 + 4n seconds; on `STEPS` every message lasts one second.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import signal
import threading

import numpy as np
import pytest
import torch

from course_lib import Cluster, Deadlock, RankFailed, algorithms, run, work

SECONDS = Cluster(latency=1.0, bandwidth=1.0, flops=10.0)
STEPS = Cluster(latency=1.0, bandwidth=math.inf)
ALPHA, BETA = 5e-6, 1 / 50e9


def message(dist, src, dst, elements=1):
    """Move one message from one rank to another."""
    if dist.get_rank() == src:
        dist.send(torch.zeros(elements), dst)
    elif dist.get_rank() == dst:
        dist.recv(torch.zeros(elements), src)


def simulate(fn, ranks=2, on=SECONDS, **options):
    return run(fn, ranks=ranks, on=on, **options)


def times(trace, rank, kind=None):
    return [(event.posted, event.start, event.end) for event in trace.of(rank, kind)]


# The cost model, rule by rule


def test_a_message_lasts_latency_plus_bytes_over_bandwidth():
    assert simulate(lambda dist: message(dist, 0, 1, 2)).seconds == 1 + 8


def test_a_message_of_no_bytes_lasts_the_latency():
    assert simulate(lambda dist: message(dist, 0, 1, 0)).seconds == 1


def test_a_message_starts_when_both_sides_have_posted_it():
    def late_receiver(dist):
        if dist.get_rank() == 1:
            work(3)
        message(dist, 0, 1)

    trace = simulate(late_receiver)
    assert times(trace, 0) == [(0, 3, 8)]
    assert times(trace, 1, "recv") == [(3, 3, 8)]


def test_a_blocking_send_returns_when_the_message_has_arrived():
    def sender(dist):
        message(dist, 0, 1)
        work(1)

    assert simulate(sender).of(0, "work")[0].start == 5


def test_messages_of_one_rank_leave_one_after_the_other():
    def two(dist):
        if dist.get_rank() == 0:
            handles = [dist.isend(torch.zeros(1), other) for other in (1, 2)]
            return [handle.wait() for handle in handles] and None
        dist.recv(torch.zeros(1), 0)

    trace = simulate(two, ranks=3)
    assert [times(trace, rank) for rank in (1, 2)] == [[(0, 0, 5)], [(0, 5, 10)]]


def test_messages_to_one_rank_arrive_one_after_the_other():
    def two(dist):
        if dist.get_rank():
            return dist.send(torch.zeros(1), 0)
        buffers = [torch.zeros(1), torch.zeros(1)]
        for handle in [dist.irecv(buffers[other - 1], other) for other in (1, 2)]:
            handle.wait()

    trace = simulate(two, ranks=3)
    assert [times(trace, rank) for rank in (1, 2)] == [[(0, 0, 5)], [(0, 5, 10)]]


def test_links_are_full_duplex():
    def exchange(dist):
        other = 1 - dist.get_rank()
        sending = dist.isend(torch.zeros(1), other)
        dist.recv(torch.zeros(1), other)
        sending.wait()

    assert simulate(exchange).seconds == 5


def test_pairs_that_share_no_rank_do_not_slow_each_other():
    def pairs(dist):
        message(dist, 0, 1)
        message(dist, 2, 3)

    assert simulate(pairs, ranks=4).seconds == 5


def test_a_port_serves_first_what_became_ready_first():
    def queue(dist):
        rank = dist.get_rank()
        if rank == 0:
            buffers = [torch.zeros(1), torch.zeros(1)]
            handles = [dist.irecv(buffers[0], 1), dist.irecv(buffers[1], 2)]
            return [handle.wait() for handle in handles] and None
        work(2 if rank == 1 else 1)
        dist.send(torch.zeros(1), 0)

    trace = simulate(queue, ranks=3)
    assert times(trace, 2, "send") == [(1, 1, 6)]
    assert times(trace, 1, "send") == [(2, 6, 11)]


def test_a_message_that_waits_for_the_other_port_keeps_its_place():
    def blocked(dist):
        rank = dist.get_rank()
        if rank == 0:  # keeps rank 1's in-port busy until 9
            dist.send(torch.zeros(2), 1)
        elif rank == 1:
            handles = [dist.irecv(torch.zeros(2), 0), dist.irecv(torch.zeros(1), 2)]
            return [handle.wait() for handle in handles] and None
        elif rank == 2:
            handles = [dist.isend(torch.zeros(1), 1), dist.isend(torch.zeros(1), 3)]
            return [handle.wait() for handle in handles] and None
        else:
            dist.recv(torch.zeros(1), 2)

    trace = simulate(blocked, ranks=4)
    assert times(trace, 3) == [(0, 14, 19)]


def test_work_spends_time_of_its_rank_only():
    trace = simulate(lambda dist: work(2.0 * dist.get_rank()), ranks=3)
    assert [trace.of(rank)[0].end for rank in range(3)] == [0, 2, 4]
    assert trace.seconds == 4


def test_work_in_flops_is_divided_by_what_the_device_does():
    assert simulate(lambda dist: work(flops=25), ranks=1).seconds == 2.5


def test_python_costs_no_virtual_time():
    assert simulate(lambda dist: sum(range(100_000)) and None, ranks=2).seconds == 0


def test_the_lowest_clock_goes_first():
    def order(dist):
        rank = dist.get_rank()
        work(3 - rank)
        if rank == 0:
            return [dist.recv(torch.zeros(1)) for _ in range(2)]
        dist.send(torch.zeros(1), 0)

    assert simulate(order, ranks=3)[0] == [2, 1]


# Formula and simulator


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_collectives_take_what_the_formulas_say(ranks):
    size = 4 * 840
    log = (ranks - 1).bit_length()
    formulas = {
        "all_reduce": 2 * (ranks - 1) * (ALPHA + size / ranks * BETA),
        "all_gather": (ranks - 1) * (ALPHA + size * BETA),
        "reduce_scatter": (ranks - 1) * (ALPHA + size * BETA),
        "broadcast": log * (ALPHA + size * BETA),
        "reduce": log * (ALPHA + size * BETA),
        "barrier": log * ALPHA,
        "scatter": (ranks - 1) * (ALPHA + size * BETA),
        "all_to_all": (ranks - 1) * (ALPHA + size * BETA),
    }
    for kind, seconds in formulas.items():
        assert simulate(lambda dist, kind=kind: collective(dist, kind), ranks, Cluster()).seconds == pytest.approx(
            seconds, rel=1e-9
        )


def collective(dist, kind, elements=840):
    """Call a built-in collective on tensors of `elements` float32."""
    tensor, ranks = torch.zeros(elements), dist.get_world_size()
    pieces = [torch.zeros(elements) for _ in range(ranks)]
    if kind in ("all_reduce", "broadcast", "reduce"):
        getattr(dist, kind)(tensor, **({} if kind == "all_reduce" else {"src" if kind == "broadcast" else "dst": 0}))
    elif kind == "all_gather":
        dist.all_gather(pieces, tensor)
    elif kind == "reduce_scatter":
        dist.reduce_scatter(tensor, pieces)
    elif kind == "scatter":
        dist.scatter(tensor, pieces if dist.get_rank() == 0 else None, src=0)
    elif kind == "gather":
        dist.gather(tensor, pieces if dist.get_rank() == 0 else None, dst=0)
    elif kind == "all_to_all":
        dist.all_to_all(pieces, [torch.zeros(elements) for _ in range(ranks)])
    else:
        dist.barrier()


def by_hand(dist, kind, elements=840):
    """Do with isend and irecv what the named algorithm says."""
    rounds = algorithms.messages(kind, dist.get_rank(), dist.get_world_size(), elements, 4, 0)
    for messages in rounds:
        handles = []
        for way, peer, size in messages:
            handles.append(getattr(dist, f"i{way}")(torch.zeros(size, dtype=torch.uint8), peer))
        for handle in handles:
            handle.wait()


RINGS = ("all_reduce", "all_gather", "reduce_scatter")
KINDS = (*RINGS, "broadcast", "reduce", "gather", "scatter", "all_to_all", "barrier")


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_built_in_takes_as_long_as_its_algorithm_by_hand_also_when_ranks_come_late(kind, ranks):
    def late(dist, how):
        for turn in range(2):
            work(random.Random(10 * turn + dist.get_rank()).random() * 1e-4)
            how(dist, kind)
        work(1.0)

    built_in, hand = (run(late, how, ranks=ranks, on=Cluster()) for how in (collective, by_hand))
    for rank in range(ranks):
        assert built_in.of(rank, "work")[-1].start == pytest.approx(hand.of(rank, "work")[-1].start, rel=1e-12)
    assert built_in.bytes_sent == hand.bytes_sent
    assert built_in.messages_sent == hand.messages_sent


# Overlap and order


def test_communication_overlaps_with_work_until_wait():
    def overlap(dist):
        handle = dist.all_reduce(torch.zeros(2), async_op=True)
        work(7)
        handle.wait()

    assert simulate(overlap).seconds == 2 * 5


def test_work_on_one_group_is_in_order():
    def two(dist):
        handles = [dist.all_reduce(torch.zeros(2), async_op=True) for _ in range(2)]
        for handle in handles:
            handle.wait()

    trace = simulate(two)
    assert [(event.start, event.end) for event in trace.of(0)] == [(0, 10), (10, 20)]


def test_results_appear_at_wait():
    def early(dist):
        tensor = torch.ones(1)
        handle = dist.all_reduce(tensor, async_op=True)
        dist.barrier()
        before = tensor.item()
        handle.wait()
        return before, tensor.item()

    assert simulate(early)[:] == [(1.0, 2.0)] * 2


@pytest.mark.parametrize("begin", ["irecv", "all_reduce"])
def test_is_completed_is_refused_in_a_sentence(begin):
    def ask(dist):
        if begin == "irecv":
            handle = dist.irecv(torch.zeros(1), 1 - dist.get_rank())
        else:
            handle = dist.all_reduce(torch.zeros(1), async_op=True)
        while not handle.is_completed():
            pass

    with pytest.raises(RankFailed, match=r"is_completed\(\) is not simulated: .* call wait\(\), or run on real ranks"):
        simulate(ask)


def test_a_receive_from_anyone_takes_no_message_of_a_collective():
    def mixed(dist):
        buffer = torch.zeros(1)
        if dist.get_rank() == 0:
            work(1)
            dist.barrier()
            return dist.send(torch.ones(1), 1)
        handle = dist.irecv(buffer)
        work(2)
        dist.barrier()
        handle.wait()
        return buffer.item()

    assert simulate(mixed)[1] == 1


def test_a_message_that_was_refused_leaves_nothing_to_wait_for():
    def refused(dist):
        other = 1 - dist.get_rank()
        if dist.get_rank() == 0:
            dist.isend(torch.zeros(2), other)
            return dist.recv(torch.zeros(1), other)  # so rank 1 returns first, and would be the one that is named
        with pytest.raises(ValueError, match="both sides need the same"):
            dist.irecv(torch.zeros(3), other)
        dist.send(torch.zeros(1), other)

    with pytest.raises(RankFailed, match=r"rank 0 .*returned without wait\(\) on isend to rank 1"):
        simulate(refused)


def test_a_tag_is_any_whole_number_and_nothing_else():
    def tagged(dist):
        message(dist, 0, 1)
        if dist.get_rank() == 0:
            dist.send(torch.ones(1), 1, tag=1)
            dist.send(torch.ones(1), 1, tag=1.0)
        else:
            dist.recv(torch.ones(1), 0, tag=np.int64(1))
            dist.recv(torch.ones(1), 0, tag=1)

    with pytest.raises(RankFailed, match="rank 0 raised TypeError: tag=1.0: a tag is a whole number"):
        simulate(tagged)


# Deadlock


def test_sends_that_face_each_other_are_a_deadlock_with_its_circle():
    def facing(dist):
        dist.send(torch.zeros(1), (dist.get_rank() + 1) % 3)

    with pytest.raises(Deadlock) as caught:
        simulate(facing, ranks=3)
    text = str(caught.value)
    assert "They wait in a circle: 0 -> 1 -> 2 -> 0." in text
    assert text.count("dist.send(torch.zeros(1), (dist.get_rank() + 1) % 3)") == 1
    assert "ranks 0 to 2 all wait in the same line" in text
    assert "rank 1 waits to send 4 bytes to rank 2" in text
    assert caught.value.error == "deadlock"


def test_a_rank_that_stays_away_from_a_collective_is_named():
    def away(dist):
        if dist.get_rank() != 2:
            dist.all_reduce(torch.zeros(1))

    with pytest.raises(Deadlock) as caught:
        simulate(away, ranks=3)
    assert "rank 0 waits in all_reduce for rank 2" in str(caught.value)
    assert "Already returned: rank 2." in str(caught.value)


def test_new_group_called_by_its_members_only_is_a_deadlock_that_names_the_others():
    def members_only(dist):
        if dist.get_rank() < 2:
            dist.new_group([0, 1])

    with pytest.raises(Deadlock, match="in new_group for ranks 2, 3"):
        simulate(members_only, ranks=4)


def test_a_receive_from_anyone_that_nobody_serves_is_a_deadlock():
    with pytest.raises(Deadlock, match="to receive from any rank"):
        simulate(lambda dist: dist.recv(torch.zeros(1)), ranks=2)


def test_a_deadlock_of_hundreds_of_ranks_is_told_briefly():
    with pytest.raises(Deadlock, match="192 more ranks wait") as caught:
        simulate(lambda dist: dist.recv(torch.zeros(1), (dist.get_rank() + 1) % 200), ranks=200)
    assert len(str(caught.value)) < 20_000


# What is refused


def changed_before_wait(dist):
    tensor, other = torch.zeros(1), 1 - dist.get_rank()
    sending = dist.isend(tensor, other)
    dist.recv(torch.zeros(1), other)
    tensor += 1
    sending.wait()


def receive_buffer_changed(dist):
    tensor, other = torch.zeros(1), 1 - dist.get_rank()
    receiving = dist.irecv(tensor, other)
    tensor += 1
    dist.isend(torch.zeros(1), other).wait()
    receiving.wait()


def reduced_tensor_changed(dist):
    tensor = torch.zeros(1)
    handle = dist.all_reduce(tensor, async_op=True)
    tensor += 1
    handle.wait()


def dropped_handle(dist):
    dist.isend(torch.zeros(1), 1) if dist.get_rank() == 0 else dist.recv(torch.zeros(1), 0)


def other_dtype(dist):
    dist.send(torch.zeros(1), 1) if dist.get_rank() == 0 else dist.recv(torch.zeros(1, dtype=torch.int64), 0)


def other_size(dist):
    dist.send(torch.zeros(2), 1) if dist.get_rank() == 0 else dist.recv(torch.zeros(3), 0)


def other_collective(dist):
    dist.barrier() if dist.get_rank() == 0 else dist.all_reduce(torch.zeros(1))


def other_operation(dist):
    dist.all_reduce(torch.zeros(1), dist.ReduceOp.SUM if dist.get_rank() else dist.ReduceOp.MAX)


def other_root(dist):
    dist.broadcast(torch.zeros(1), src=dist.get_rank())


def not_contiguous(dist):
    dist.all_reduce(torch.zeros(2, 2).T[0])


def freed(dist):
    tensor = torch.zeros(4)[2:]
    tensor.untyped_storage().resize_(0)  # as FSDP does with weights after their use
    dist.all_reduce(tensor)


def without_memory(dist):
    if dist.get_rank():
        dist.irecv(torch.zeros(1, device="meta"), 0).wait()
    dist.send(torch.zeros(1), 1)


def to_itself(dist):
    dist.send(torch.zeros(1), dist.get_rank())


def no_such_rank(dist):
    dist.send(torch.zeros(1), 2)


def group_of_numbers(dist):
    dist.isend(torch.zeros(1), 1 - dist.get_rank(), group=[0, 1])


def tag_in_words(dist):
    dist.isend(torch.zeros(1), 1 - dist.get_rank(), tag="gradients")


def no_tensor(dist):
    dist.send(1.0, 1 - dist.get_rank())


def too_few_buffers(dist):
    dist.all_gather([torch.zeros(1)], torch.zeros(1))


def not_a_member(dist):
    group = dist.new_group([0])
    dist.barrier(group)


def not_simulated(dist):
    dist.monitored_barrier()


def not_in_torch(dist):
    dist.alreduce(torch.zeros(1))


def no_call(dist):
    return dist.rank


@pytest.mark.parametrize(
    "program, words",
    [
        (changed_before_wait, r"the buffer of isend to rank \d was changed before its wait\(\): wait first"),
        (receive_buffer_changed, r"the buffer of irecv from rank \d was changed before its wait"),
        (reduced_tensor_changed, "the buffer of all_reduce was changed before its wait"),
        (dropped_handle, r"rank 0 .*returned without wait\(\) on isend to rank 1: keep the handle"),
        (other_dtype, r"rank 0 sends float32\[1\], but rank 1 receives into int64\[1\]"),
        (other_size, r"rank 0 sends float32\[2\], but rank 1 receives into float32\[3\]"),
        (other_collective, r"rank 1 calls all_reduce\(.*\), but rank 0 called barrier\(\) as the same collective"),
        (other_operation, r"rank 1 calls all_reduce\(float32\[1\], SUM\), but rank 0 called .* MAX"),
        (other_root, "src=1.*but rank 0 called .*src=0"),
        (not_contiguous, r"not contiguous .*use \.contiguous\(\)"),
        (freed, "all_reduce was given a tensor whose memory was freed"),
        (without_memory, "irecv was given a tensor whose memory is on meta: simulated ranks hold theirs on the CPU"),
        (to_itself, "rank 0 cannot send to or receive from itself"),
        (no_such_rank, "dst=2: there is no such rank; ranks are 0 to 1"),
        (group_of_numbers, r"group=\[0, 1\] is not a group: use what dist.new_group returned"),
        (tag_in_words, "tag='gradients': a tag is a whole number"),
        (no_tensor, "send takes a tensor, not float"),
        (too_few_buffers, "tensor_list has 1 tensors; it needs one for each of 2 ranks"),
        (not_a_member, "rank 1 is not in this group"),
        (not_simulated, "dist.monitored_barrier is not simulated; run it on real ranks"),
        (not_in_torch, "torch.distributed has no alreduce"),
        (no_call, r"torch.distributed has no rank: dist.get_rank\(\) returns it"),
    ],
)
def test_what_gloo_leaves_unsaid_is_refused_in_a_sentence(program, words):
    with pytest.raises(RankFailed, match=words) as caught:
        simulate(program)
    assert not isinstance(caught.value, Deadlock)


def test_a_piece_without_elements_can_be_sent_wherever_it_lies():
    def empty(dist):
        piece, other = torch.zeros(0).as_strided((0,), (1,), 3), 1 - dist.get_rank()
        sending = dist.isend(piece, other)
        dist.recv(torch.zeros(0), other)
        sending.wait()

    simulate(empty)


def test_another_part_of_the_same_tensor_may_change_before_wait():
    def parts(dist):
        tensor, other = torch.zeros(2), 1 - dist.get_rank()
        sending = dist.isend(tensor[:1], other)
        dist.recv(tensor[1:], other)
        tensor[1:] += 1
        sending.wait()

    simulate(parts)


def test_a_nan_in_an_unchanged_buffer_is_no_change():
    def nan(dist):
        tensor, other = torch.tensor([math.nan, 0.0]), 1 - dist.get_rank()
        sending = dist.isend(tensor[:1], other)
        dist.recv(tensor[1:], other)
        sending.wait()

    simulate(nan)


@pytest.mark.parametrize("wrong", [{"bandwidth": 0}, {"bandwidth": math.nan}, {"latency": -1}, {"flops": 0}])
def test_a_cluster_that_cannot_be_is_refused_with_its_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        Cluster(**wrong)


def test_too_many_ranks_are_refused():
    with pytest.raises(ValueError, match="ranks=5000: the simulator takes at most 4,096"):
        simulate(lambda dist: None, ranks=5000)


@pytest.mark.parametrize("asked", [{}, {"seconds": 1, "flops": 1}, {"seconds": -1}, {"seconds": math.nan}])
def test_work_that_makes_no_sense_is_refused(asked):
    with pytest.raises(ValueError, match="work"):
        work(**asked)


# As separate as processes


def busy(dist):
    for step in range(3):
        work(1e-6 * ((dist.get_rank() * 7 + step) % 5))
        dist.all_reduce(torch.zeros(3))
        other = dist.get_rank() ^ 1
        sending = dist.isend(torch.zeros(2), other)
        dist.recv(torch.zeros(2), other)
        sending.wait()


def test_the_same_program_makes_the_same_events_every_time():
    assert simulate(busy, ranks=8).events == simulate(busy, ranks=8).events


def test_random_numbers_do_not_depend_on_what_other_ranks_draw():
    def draw(dist, greedy):
        for _ in range(3):
            if dist.get_rank() == greedy:
                torch.rand(624), np.random.rand(3), random.random()
            dist.barrier()
        return torch.rand(1).item(), np.random.rand(), random.random()

    one, other = (run(draw, greedy, ranks=3, on=Cluster()) for greedy in (0, 1))
    assert one[2] == other[2]


def test_a_rank_that_draws_between_turns_goes_on_where_it_was():
    def draw(dist):
        torch.manual_seed(7)
        drawn = []
        for _ in range(4):
            drawn.append(torch.randn(1).item())
            dist.barrier()
        return drawn

    torch.manual_seed(7)
    alone = [torch.randn(1).item() for _ in range(4)]
    assert simulate(draw, ranks=3)[:] == [alone] * 3


def test_prints_belong_to_their_rank(capfd):
    def speak(dist):
        for line in range(2):
            print("line", line)
            dist.barrier()

    simulate(speak, ranks=3)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"rank {rank} | line {line}" for rank in range(3) for line in range(2)]


def test_a_flood_of_prints_is_cut_and_counted():
    printed = simulate(lambda dist: [print("x" * 99_999) for _ in range(100)] and None, ranks=1).printed[0]
    assert len(printed) < 200_000 and "9,900,000 characters more" in printed


def test_what_the_ranks_change_does_not_change_the_caller():
    tensor = torch.zeros(1)
    run(lambda dist, t: t.add_(1), tensor, ranks=2, on=Cluster())
    assert tensor.item() == 0


# What ends a simulation


def test_an_exception_names_its_rank_and_line():
    def fail(dist):
        dist.barrier()
        if dist.get_rank() == 1:
            raise ValueError("not this one")
        dist.barrier()

    with pytest.raises(RankFailed, match='rank 1 raised ValueError: not this one\n.*raise ValueError') as caught:
        simulate(fail, ranks=3)
    assert caught.value.rank == 1


@pytest.mark.parametrize(
    "deed, words",
    [
        (lambda: os._exit(3), "a simulated rank ended its process with exit code 3"),
        (lambda: ctypes.string_at(0), r"a simulated rank crashed in C code \(SIGSEGV\)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"a simulated rank was killed \(SIGKILL\)"),
    ],
)
def test_a_death_is_a_sentence(deed, words):
    with pytest.raises(RankFailed, match=words):
        simulate(lambda dist: deed())


def test_an_endless_loop_ends_at_its_timeout_with_its_line():
    def loop(dist):
        rank = dist.get_rank()
        while rank == 1:
            pass

    with pytest.raises(RankFailed, match="still going on after 3 s: rank 1 was at\n.*in loop") as caught:
        simulate(loop, timeout=3)
    assert caught.value.error == "timeout"
    assert str(caught.value).endswith("This loop never ends: nothing in it sends, receives or returns")


def test_a_loop_that_may_end_is_not_called_endless():
    def loop(dist):
        steps = 0
        while steps < 10**12:
            steps += 1

    with pytest.raises(RankFailed, match="if other programs keep this machine busy, run it again") as caught:
        simulate(loop, timeout=1)
    assert "never ends" not in str(caught.value)


def test_an_interrupt_ends_a_simulation_and_the_next_one_works(tmp_path, capsys):
    def loop(dist, flag):
        print("so far", dist.get_rank())
        flag.touch()
        while True:
            pass

    def interrupt():
        while not (tmp_path / "flag").exists():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after .*: rank 0 was at\n.*in loop: "):
        run(loop, tmp_path / "flag", ranks=2, on=Cluster())
    watcher.join()
    assert capsys.readouterr().out == "rank 0 | so far 0\n"
    assert simulate(lambda dist: dist.get_rank())[:] == [0, 1]


def test_collectives_that_are_over_are_forgotten():
    def many(dist):
        for _ in range(50):
            dist.all_reduce(torch.zeros(10))
            dist.new_group([0])
        return len(dist.meetings)

    assert max(simulate(many)[:]) <= 1


def test_hundreds_of_ranks_are_simulated():
    trace = simulate(lambda dist: dist.barrier(), ranks=300, on=STEPS)
    assert trace.seconds == math.ceil(math.log2(300))
