"""Answers to the exercises of chapter 3."""

import torch


def reduce_scatter_ring(dist, tensor):
    """Add up chunks on their way around the ring, until rank r holds the sum of chunk r."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = tensor.view(-1).tensor_split(ranks)  # views: adding to a chunk changes the tensor
    buffer = torch.empty_like(chunks[0])  # one for all steps; no chunk is longer than the first
    for step in range(ranks - 1):
        going, coming = chunks[(rank - 1 - step) % ranks], chunks[(rank - 2 - step) % ranks]
        arrived = buffer[: coming.numel()]
        sending = dist.isend(going, right)  # a blocking send would wait for a neighbour that is sending too
        dist.recv(arrived, left)
        coming += arrived
        sending.wait()


def all_gather_ring(dist, tensor):
    """Pass finished chunks around the ring, until every rank holds all of them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        going, coming = chunks[(rank - step) % ranks], chunks[(rank - 1 - step) % ranks]
        sending = dist.isend(going, right)
        dist.recv(coming, left)  # a finished chunk replaces the unfinished one: nothing to add
        sending.wait()


def ring_all_reduce(dist, tensor):
    """Sum a tensor over all ranks, in place: each rank sends 2(P-1)/P of it, however many ranks there are."""
    reduce_scatter_ring(dist, tensor)
    all_gather_ring(dist, tensor)


def which_is_the_ring(meters):
    """Tell by what was sent: only in a ring do all ranks send equally much, 1/P of the tensor a message."""
    traffic = {name: max(meter["sent"]) / meter["bytes"] for name, meter in meters.items()}
    for name, meter in meters.items():
        ranks = len(meter["sent"])
        if all(count == 2 * (ranks - 1) for count in meter["messages"]) and len(set(meter["sent"])) == 1:
            ring = name
    return ring, traffic
