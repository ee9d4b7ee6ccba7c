"""One table of small programs, each run on gloo and on the simulator: the results must be the same, bit for bit.

Values are integers in floating point, different on every rank, so any order of addition gives the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from course_lib import Cluster, run

PROGRAMS: dict[str, tuple[Callable, int]] = {}
COUNTER = {"calls": 0}


def on(*worlds: int) -> Callable:
    """Put a program into the table, to be run with each of these numbers of ranks."""

    def add(program: Callable) -> Callable:
        for ranks in worlds:
            PROGRAMS[f"{program.__name__}-{ranks}"] = (program, ranks)
        return program

    return add


def mine(dist: Any, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return integers that differ from rank to rank and from place to place."""
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    return torch.randint(-50, 50, shape, generator=generator).to(dtype)


@on(1, 2, 3, 4, 5)
def all_reduce(dist):
    tensor = mine(dist, 7)
    dist.all_reduce(tensor)
    return tensor


@on(3)
def all_reduce_with_every_operation(dist):
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        tensor = mine(dist, 4)
        dist.all_reduce(tensor, op)
        results.append(tensor)
    return results


@on(4)
def all_reduce_averages(dist):
    tensor = mine(dist, 4) * 4
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor


@on(3)
def all_reduce_of_bits(dist):
    results = []
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        tensor = mine(dist, 4, dtype=torch.int32)
        dist.all_reduce(tensor, op)
        results.append(tensor)
    return results


@on(3)
def all_reduce_in_every_dtype(dist):
    results = []
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
        tensor = mine(dist, 5).abs().to(dtype)
        dist.all_reduce(tensor)
        results.append(tensor)
    return results


@on(2, 3)
def all_reduce_of_a_scalar_and_of_nothing(dist):
    scalar, nothing = torch.tensor(1.0 + dist.get_rank()), torch.empty(0)
    dist.all_reduce(scalar)
    dist.all_reduce(nothing)
    return scalar, nothing


@on(4)
def all_reduce_without_blocking(dist):
    first, second = mine(dist, 3), mine(dist, 5)
    handles = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, async_op=True)]
    for handle in handles:
        handle.wait()
    return first, second


@on(1, 3, 4)
def broadcast_from_each(dist):
    results = []
    for root in range(dist.get_world_size()):
        tensor = mine(dist, 2, 3)
        dist.broadcast(tensor, src=root)
        results.append(tensor)
    return results


@on(1, 3, 4)
def reduce_to_each(dist):
    results = []
    for root in range(dist.get_world_size()):
        tensor = mine(dist, 3)
        dist.reduce(tensor, dst=root)
        results.append(tensor if dist.get_rank() == root else None)  # elsewhere gloo leaves partial sums
    return results


@on(1, 3, 4)
def all_gather(dist):
    everything = [torch.empty(2, 2) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, mine(dist, 2, 2))
    return everything


@on(1, 3)
def gather_to_the_last(dist):
    ranks, last = dist.get_world_size(), dist.get_world_size() - 1
    into = [torch.empty(3) for _ in range(ranks)] if dist.get_rank() == last else None
    dist.gather(mine(dist, 3), into, dst=last)
    return into


@on(1, 3)
def scatter_from_the_last(dist):
    ranks, last = dist.get_world_size(), dist.get_world_size() - 1
    pieces = list(mine(dist, ranks, 3)) if dist.get_rank() == last else None
    into = torch.empty(3)
    dist.scatter(into, pieces, src=last)
    return into


@on(1, 2, 3, 4)
def reduce_scatter(dist):
    pieces = list(mine(dist, dist.get_world_size(), 3))
    into = torch.empty(3)
    dist.reduce_scatter(into, pieces)
    return into


@on(3)
def reduce_scatter_takes_the_largest(dist):
    into = torch.empty(2)
    dist.reduce_scatter(into, list(mine(dist, 3, 2)), op=dist.ReduceOp.MAX)
    return into


@on(1, 2, 3)
def all_to_all(dist):
    ranks = dist.get_world_size()
    into = [torch.empty(2) for _ in range(ranks)]
    dist.all_to_all(into, list(mine(dist, ranks, 2)))
    return into


@on(2, 4)
def flat_forms(dist):
    ranks = dist.get_world_size()
    gathered, scattered, exchanged = torch.empty(2 * ranks), torch.empty(2), torch.empty(2 * ranks)
    dist.all_gather_into_tensor(gathered, mine(dist, 2))
    dist.reduce_scatter_tensor(scattered, mine(dist, 2 * ranks))
    dist.all_to_all_single(exchanged, mine(dist, 2 * ranks))
    return gathered, scattered, exchanged


@on(3)
def all_to_all_single_of_uneven_rows(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    counts = [1 + (rank + other) % 2 for other in range(ranks)]
    received = torch.empty(sum(counts), 2)
    dist.all_to_all_single(received, mine(dist, sum(counts), 2), counts, counts)
    return received


@on(3)
def barriers(dist):
    dist.barrier()
    handle = dist.barrier(async_op=True)
    handle.wait()
    return dist.get_rank()


@on(2, 5)
def send_and_recv_around(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    token = mine(dist, 4)
    arrived = torch.empty(4)
    if rank == 0:
        dist.send(token, 1)
        source = dist.recv(arrived, ranks - 1)
    else:
        source = dist.recv(arrived, rank - 1)
        dist.send(arrived + token, (rank + 1) % ranks)
    return arrived, source


@on(2, 3, 4)
def ring_by_hand(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = passing = mine(dist, 6)
    for _ in range(ranks - 1):
        arrived = torch.empty(6)
        sending = dist.isend(passing, (rank + 1) % ranks)
        dist.recv(arrived, (rank - 1) % ranks)
        sending.wait()
        total, passing = total + arrived, arrived
    return total


@on(3)
def irecv_before_isend(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = torch.full((3,), -1.0)
    receiving = dist.irecv(arrived, (rank - 1) % ranks)
    dist.isend(mine(dist, 3), (rank + 1) % ranks).wait()
    receiving.wait()
    receiving.wait()
    return arrived


@on(3)
def batch_of_sends_and_receives(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = torch.empty(3)
    operations = [
        dist.P2POp(dist.isend, mine(dist, 3), (rank + 1) % ranks),
        dist.P2POp(dist.irecv, arrived, (rank - 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    return arrived


@on(2)
def tags_tell_messages_apart(dist):
    if dist.get_rank() == 0:
        handles = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (1, 2, 3)]
        return [handle.wait() for handle in handles] and None
    arrived = [torch.empty(1) for _ in range(3)]
    for tensor, tag in zip(arrived, (3, 1, 2), strict=True):
        dist.recv(tensor, 0, tag=tag)
    return arrived


@on(2)
def messages_of_one_tag_stay_in_order(dist):
    if dist.get_rank() == 0:
        tensors = [torch.tensor([float(i)]) for i in range(5)]
        for handle in [dist.isend(tensor, 1) for tensor in tensors]:
            handle.wait()
        return None
    arrived = [torch.empty(1) for _ in range(5)]
    for tensor in arrived:
        dist.recv(tensor, 0)
    return arrived


@on(3)
def recv_from_anyone(dist):
    if dist.get_rank():
        dist.send(torch.tensor([float(dist.get_rank())]), 0)
        return None
    arrived, tensor = [], torch.empty(1)
    for _ in range(2):
        source = dist.recv(tensor)
        arrived.append((source, tensor.item()))
    return sorted(arrived)


@on(2)
def messages_of_no_bytes(dist):
    tensor = torch.empty(0)
    return dist.send(tensor, 1) if dist.get_rank() == 0 else dist.recv(tensor, 0)


@on(2)
def messages_of_other_shapes(dist):
    if dist.get_rank() == 0:
        dist.send(mine(dist, 2, 3), 1)
        return None
    tensor = torch.empty(6)
    dist.recv(tensor, 0)
    return tensor


@on(2)
def messages_into_views(dist):
    if dist.get_rank() == 0:
        return dist.send(mine(dist, 3), 1)
    tensor = torch.zeros(3, 3)
    dist.recv(tensor[1], 0)
    return tensor


@on(4)
def groups(dist):
    rank = dist.get_rank()
    low, odd = dist.new_group([0, 1, 2]), dist.new_group([3, 1])
    tensor = mine(dist, 3)
    facts = [dist.get_rank(low), dist.get_world_size(low), dist.get_rank(odd)]
    if rank < 3:
        dist.all_reduce(tensor, group=low)
        facts += [dist.get_process_group_ranks(low), dist.get_global_rank(low, 1), dist.get_group_rank(low, 2)]
    if rank in (1, 3):
        dist.broadcast(tensor, src=3, group=odd)
        dist.barrier(odd)
    return tensor, facts


@on(4)
def groups_by_place(dist):
    rank = dist.get_rank()
    group = dist.new_group([1, 3])
    if rank not in (1, 3):
        return group is dist.GroupMember.NON_GROUP_MEMBER
    tensor, arrived = mine(dist, 2), torch.empty(2)
    if rank == 1:
        dist.send(tensor, group=group, group_dst=1)
    else:
        dist.recv(arrived, group=group, group_src=0)
    dist.broadcast(tensor, group=group, group_src=1)
    gathered = [torch.empty(2) for _ in range(2)] if rank == 3 else None
    dist.gather(tensor, gathered, group=group, group_dst=1)
    return tensor, arrived if rank == 3 else None, gathered


@on(4)
def collectives_of_two_groups_side_by_side(dist):
    rank = dist.get_rank()
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    tensor = mine(dist, 4)
    dist.all_reduce(tensor, group=rows[rank // 2])
    dist.all_reduce(tensor, group=columns[rank % 2])
    return tensor


@on(3)
def random_numbers_of_every_library(dist):
    drawn = [torch.rand(2), torch.randn(1), np.random.rand(), np.random.randint(100), random.random()]
    dist.barrier()
    drawn += [torch.randn(1), torch.randn(1), np.random.normal(), np.random.sample(), random.randint(0, 99)]
    return drawn


@on(3)
def random_numbers_after_seeding(dist):
    rank = dist.get_rank()
    torch.manual_seed(rank)
    np.random.seed(rank)
    random.seed(rank)
    drawn = [torch.randperm(5), np.random.permutation(5).tolist(), random.sample(range(9), 3)]
    dist.barrier()
    drawn += [torch.rand(624), np.random.rand(), random.gauss(0, 1)]
    dist.barrier()
    return [*drawn, torch.nn.Linear(2, 2).weight.tolist(), torch.randint(9, (2,)), torch.initial_seed()]


@on(3)
def only_one_rank_draws(dist):
    if dist.get_rank() == 1:
        torch.rand(624)
    dist.barrier()
    return torch.rand(2)


@on(3)
def globals_are_each_ranks_own(dist):
    COUNTER["calls"] += 1 + dist.get_rank()
    dist.barrier()
    COUNTER["calls"] += 1
    dist.barrier()
    return COUNTER["calls"]


class Box:
    items: list = []


@on(3)
def class_attributes_are_each_ranks_own(dist):
    Box.items.append(dist.get_rank())
    dist.barrier()
    return Box.items


def make_counter() -> Callable:
    count = 0

    def step(by: int) -> int:
        nonlocal count
        count += by
        return count

    return step


COUNT = make_counter()


@on(3)
def closures_are_each_ranks_own(dist):
    COUNT(dist.get_rank())
    dist.barrier()
    return COUNT(1)


def remember(value, seen=[]):  # noqa: B006 - the default that all calls share is what is tried here
    seen.append(value)
    return list(seen)


@on(2)
def defaults_are_each_ranks_own(dist):
    remember(dist.get_rank())
    dist.barrier()
    return remember(9)


@on(2)
def gradients(dist):
    layer = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.constant_(layer.weight, 2.0)
    layer(mine(dist, 4, 3)).sum().backward()
    dist.all_reduce(layer.weight.grad)
    return layer.weight.grad


@on(2, 3)
def gradients_through_a_function_that_communicates(dist):
    class SumBothWays(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            total = tensor.clone()
            dist.all_reduce(total)
            return total

        @staticmethod
        def backward(ctx, gradient):
            total = gradient.clone()
            dist.all_reduce(total)
            return total

    weight = mine(dist, 3).requires_grad_()
    total = SumBothWays.apply(weight * (1 + dist.get_rank()))
    (total * (2 + dist.get_rank())).sum().backward()
    return total.detach(), weight.grad


@on(2)
def gradients_over_messages(dist):
    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            return swap(dist, tensor)

        @staticmethod
        def backward(ctx, gradient):
            return swap(dist, gradient)

    weight = mine(dist, 3).requires_grad_()
    (Exchange.apply(weight) * (1 + dist.get_rank())).sum().backward()
    return weight.grad


def swap(dist: Any, tensor: torch.Tensor) -> torch.Tensor:
    other, arrived = 1 - dist.get_rank(), torch.empty_like(tensor)
    sending = dist.isend(tensor.contiguous(), other)
    dist.recv(arrived, other)
    sending.wait()
    return arrived


@on(2)
def no_grad_stays_in_its_rank(dist):
    weight = torch.ones(1, requires_grad=True)
    if dist.get_rank() == 0:
        with torch.no_grad():
            dist.barrier()
            inside = (weight * 2).requires_grad
    else:
        dist.barrier()
        inside = (weight * 2).requires_grad
    dist.barrier()
    return inside


@on(2)
def training_steps(dist):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        ((mine(dist, 2) * weight).sum()).backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
    return weight.detach()


@on(1, 4)
def facts(dist):
    return dist.get_rank(), dist.get_world_size(), dist.is_initialized(), dist.get_process_group_ranks(dist.group.WORLD)


@on(2)
def prints(dist):
    print("rank", dist.get_rank(), "first\nsecond", end="")
    print()


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_engines_give_the_same(name):
    program, ranks = PROGRAMS[name]
    real = run(program, ranks=ranks, timeout=60)
    simulated = run(program, ranks=ranks, on=Cluster())
    for rank in range(ranks):
        assert_same(real[rank], simulated[rank], f"rank {rank}")
    assert real.printed == simulated.printed
    for rank in range(ranks):
        assert measured(real, rank) == measured(simulated, rank)
    assert real.collectives == simulated.collectives
    assert real.bytes_charged == simulated.bytes_charged


def measured(trace: Any, rank: int) -> list[tuple]:
    """Return a rank's messages, without times and in an order that both engines share."""
    return sorted((e.kind, e.peer, e.sent, e.received, e.messages) for e in trace.of(rank) if not e.charged)


def assert_same(real: Any, simulated: Any, where: str) -> None:
    assert type(real) is type(simulated), where
    if isinstance(real, torch.Tensor):
        assert real.dtype == simulated.dtype and real.shape == simulated.shape, where
        assert torch.equal(real, simulated), f"{where}: {real} on gloo, {simulated} simulated"
    elif isinstance(real, (list, tuple)):
        assert len(real) == len(simulated), where
        for place, (one, other) in enumerate(zip(real, simulated, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    else:
        assert real == simulated, where


def test_no_program_returns_the_same_on_both_engines_by_returning_nothing():
    assert sum(name.rsplit("-", 1)[0] not in ("prints", "messages_of_no_bytes") for name in PROGRAMS) >= 60
