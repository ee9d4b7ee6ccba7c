"""Answers to the exercises of chapter 2."""


import torch


def broadcast_tree(dist, tensor, root):
    """In each round everyone who has the tensor sends it on, so the number of those who have it doubles."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if not 0 <= root < ranks:
        raise ValueError(f"root={root}: ranks are 0 to {ranks - 1}")
    place = (rank - root) % ranks  # counted from the root, so that any root is place 0
    distance = 1
    while distance < ranks:
        if place < distance and place + distance < ranks:
            dist.send(tensor, (rank + distance) % ranks)
        elif distance <= place < 2 * distance:
            dist.recv(tensor, (rank - distance) % ranks)
        distance *= 2


def reduce_scatter_by_hand(dist, chunks):
    """Give every rank the one chunk it is to add up; nobody sees a chunk that is another rank's to add."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = chunks[rank].clone()
    arrived = torch.empty_like(total)
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        sending = dist.isend(chunks[to], to)
        dist.recv(arrived, source)
        total += arrived
        sending.wait()
    return total


def all_gather_by_hand(dist, tensor):
    """Pass on to the right what came from the left: after P-1 steps everything has come by."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [torch.empty_like(tensor) for _ in range(ranks)]
    pieces[rank] = tensor.clone()
    for step in range(ranks - 1):
        sending = dist.isend(pieces[(rank - step) % ranks], (rank + 1) % ranks)
        dist.recv(pieces[(rank - step - 1) % ranks], (rank - 1) % ranks)
        sending.wait()
    return pieces


def all_to_all_by_hand(dist, chunks):
    """In step s send to the rank s places to the right: every rank receives from exactly one."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [torch.empty_like(chunk) for chunk in chunks]
    arrived[rank].copy_(chunks[rank])
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        sending = dist.isend(chunks[to], to)
        dist.recv(arrived[source], source)
        sending.wait()
    return arrived


def my_node_group(dist, per_node):
    """Make the groups of all nodes on every rank, in the same order, and keep the one that this rank is in."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for first in range(0, ranks, per_node):
        node = range(first, min(first + per_node, ranks))
        group = dist.new_group(list(node))
        if rank in node:
            mine = group
    return mine


class clinic:
    """The five snippets, repaired."""

    def sum_both(dist, loss, gradient):
        dist.all_reduce(loss)  # the same order on every rank
        dist.all_reduce(gradient)
        return loss, gradient

    def sum_for_rank_0(dist, loss):
        dist.all_reduce(loss)  # every rank calls it, whoever wants the result
        return loss if dist.get_rank() == 0 else None

    def swap_with_neighbour(dist, tensor):
        arrived = torch.empty_like(tensor)
        sending = dist.isend(tensor, dist.get_rank() ^ 1)  # goes on, so both can receive
        dist.recv(arrived, dist.get_rank() ^ 1)
        sending.wait()
        return arrived

    def sum_in_node(dist, tensor):
        groups = [dist.new_group([first, first + 1]) for first in range(0, dist.get_world_size(), 2)]
        dist.all_reduce(tensor, group=groups[dist.get_rank() // 2])  # not the last one made
        return tensor

    def pass_right(dist, tensor):
        rank, ranks, arrived = dist.get_rank(), dist.get_world_size(), torch.empty_like(tensor)
        sending = dist.isend(tensor, (rank + 1) % ranks)  # the handle keeps the message alive
        dist.recv(arrived, (rank - 1) % ranks)
        sending.wait()
        return arrived
