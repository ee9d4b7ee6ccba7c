"""Answers to the exercises of chapter 0."""

import torch


def even_to_odd(dist, number):
    """Pass each even rank's number to the rank after it; every branch asks who this rank is."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 1:
        arrived = torch.empty(1)  # as large as what is sent, and of the same dtype
        dist.recv(arrived, rank - 1)
        return arrived.item()
    if rank + 1 < ranks:  # with an odd world size the last rank has nobody to send to
        dist.send(torch.tensor([number]), rank + 1)
    return None


def sum_on_every_rank(dist, value):
    """Bring everything to rank 0, add it up there, and send the total back to everyone."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = value.clone()
    if rank != 0:
        dist.send(total, 0)
        dist.recv(total, 0)
        return total
    arrived = torch.empty_like(value)
    for other in range(1, ranks):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, ranks):  # a loop of its own: the total is complete only now
        dist.send(total, other)
    return total


def exchange(dist, tensor, peer):
    """Send without waiting, receive, then wait: neither rank needs the other to go first."""
    arrived = torch.empty_like(tensor)  # not `tensor` itself: that one is still on its way out
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return arrived
