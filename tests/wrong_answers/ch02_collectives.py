"""Wrong answers to chapter 2 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it still earns.
"""

from __future__ import annotations

import math

import torch

from wrong_answers import Wrong


def swap(dist, going, to, coming, source):
    sending = dist.isend(going, to)
    dist.recv(coming, source)
    sending.wait()


# broadcast_tree


def tree_linear(dist, tensor, root):
    """The root sends to everyone, one after the other."""
    if not 0 <= root < dist.get_world_size():
        raise ValueError("no such root")
    if dist.get_rank() != root:
        dist.recv(tensor, root)
        return
    for other in range(dist.get_world_size()):
        if other != root:
            dist.send(tensor, other)


def tree_chain(dist, tensor, root):
    """Each rank passes the tensor on to the next."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if not 0 <= root < ranks:
        raise ValueError("no such root")
    place = (rank - root) % ranks
    if place:
        dist.recv(tensor, (rank - 1) % ranks)
    if place + 1 < ranks:
        dist.send(tensor, (rank + 1) % ranks)


def tree_from_0(dist, tensor, root):
    """Counts places from rank 0, whoever the root is."""
    rank, ranks, distance = dist.get_rank(), dist.get_world_size(), 1
    while distance < ranks:
        if rank < distance and rank + distance < ranks:
            dist.send(tensor, rank + distance)
        elif distance <= rank < 2 * distance:
            dist.recv(tensor, rank - distance)
        distance *= 2


def tree_any_root(dist, tensor, root):
    """Takes a root that does not exist for another one."""
    rank, ranks, distance = dist.get_rank(), dist.get_world_size(), 1
    place = (rank - root) % ranks
    while distance < ranks:
        if place < distance and place + distance < ranks:
            dist.send(tensor, (rank + distance) % ranks)
        elif distance <= place < 2 * distance:
            dist.recv(tensor, (rank - distance) % ranks)
        distance *= 2


def tree_root_0_checks(dist, tensor, root):
    """Only rank 0 refuses a root that does not exist."""
    if dist.get_rank() == 0 and not 0 <= root < dist.get_world_size():
        raise ValueError("no such root")
    tree_any_root(dist, tensor, root)


def tree_asserts(dist, tensor, root):
    """Refuses a root that does not exist with an assert."""
    assert 0 <= root < dist.get_world_size()
    tree_any_root(dist, tensor, root)


def tree_power_of_two(dist, tensor, root):
    """Forgets that the rank it sends to may not exist."""
    if not 0 <= root < dist.get_world_size():
        raise ValueError("no such root")
    rank, ranks, distance = dist.get_rank(), dist.get_world_size(), 1
    place = (rank - root) % ranks
    while distance < ranks:
        if place < distance:
            dist.send(tensor, (rank + distance) % ranks)
        elif distance <= place < 2 * distance:
            dist.recv(tensor, (rank - distance) % ranks)
        distance *= 2


def tree_returns(dist, tensor, root):
    """Receives into a tensor of its own and returns it."""
    mine = tensor.clone()
    tree_any_root(dist, mine, root)
    return mine


def tree_too_early(dist, tensor, root):
    """Exchanges with a partner in every round, whether or not there is anything to give."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if not 0 <= root < ranks:
        raise ValueError("no such root")
    place, distance = (rank - root) % ranks, 1
    while distance < ranks:
        has = place < distance
        peer = place ^ distance
        if peer < ranks:
            arrived = torch.empty_like(tensor)
            swap(dist, tensor.clone(), (peer + root) % ranks, arrived, (peer + root) % ranks)
            if not has and place < 2 * distance:
                tensor.copy_(arrived)
        distance *= 2


def tree_builtin(dist, tensor, root):
    dist.broadcast(tensor, root)


def tree_top_down(dist, tensor, root):
    """Right: the largest distance first, so the root gives half the ranks away in its first message."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if root not in range(ranks):
        raise ValueError("no such root")
    place, distance = (rank - root) % ranks, 1 << ((ranks - 1).bit_length())
    while distance > 1:
        half = distance // 2
        if place % distance == 0 and place + half < ranks:
            dist.send(tensor, (rank + half) % ranks)
        elif place % distance == half:
            dist.recv(tensor, (rank - half) % ranks)
        distance = half


def tree_in_half_precision(dist, tensor, root):
    """Sends 16 bits of each float."""
    half = tensor.half() if tensor.dtype == torch.float32 else tensor
    tree_top_down(dist, half, root)
    tensor.copy_(half)


def tree_in_double_precision(dist, tensor, root):
    """Sends whole numbers as floats of as many bytes."""
    wide = tensor.double() if tensor.dtype == torch.int64 else tensor
    tree_top_down(dist, wide, root)
    tensor.copy_(wide)


# reduce_scatter_by_hand


def scatter_stacked(dist, chunks):
    """torch.sum makes whole numbers 64 bits wide."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = [chunks[rank]]
    for step in range(1, ranks):
        parts.append(torch.empty_like(chunks[rank]))
        swap(dist, chunks[(rank + step) % ranks], (rank + step) % ranks, parts[-1], (rank - step) % ranks)
    return torch.stack(parts).sum(0)


def scatter_in_half_precision(dist, chunks):
    narrow = torch.float16 if chunks[0].dtype == torch.float32 else chunks[0].dtype
    return right_ring_scatter(dist, [chunk.to(narrow) for chunk in chunks]).to(chunks[0].dtype)


def scatter_in_four_bytes(dist, chunks):
    """Sends float16 as float32."""
    wide = torch.float32 if chunks[0].dtype == torch.float16 else chunks[0].dtype
    return right_ring_scatter(dist, [chunk.to(wide) for chunk in chunks]).to(chunks[0].dtype)


def right_scatter_at_once(dist, chunks):
    """Right: everything is posted at once, to the next rank first."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived, handles = [], []
    for step in range(1, ranks):
        arrived.append(torch.empty_like(chunks[rank]))
        handles.append(dist.isend(chunks[(rank + step) % ranks], (rank + step) % ranks))
        handles.append(dist.irecv(arrived[-1], (rank - step) % ranks))
    for handle in handles:
        handle.wait()
    return sum(arrived, start=chunks[rank].clone())


def scatter_gathers_all(dist, chunks):
    """Sends all its chunks to everyone and adds up its own."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, total = torch.stack(chunks), chunks[rank].clone()
    for step in range(1, ranks):
        arrived = torch.empty_like(mine)
        swap(dist, mine, (rank + step) % ranks, arrived, (rank - step) % ranks)
        total += arrived[rank]
    return total


def scatter_through_0(dist, chunks):
    """Rank 0 adds everything up and hands the sums out."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = torch.stack(chunks)
    if rank:
        dist.send(mine, 0)
        total = torch.empty_like(chunks[0])
        dist.recv(total, 0)
        return total
    for other in range(1, ranks):
        arrived = torch.empty_like(mine)
        dist.recv(arrived, other)
        mine += arrived
    for other in range(1, ranks):
        dist.send(mine[other].clone(), other)
    return mine[0].clone()


def scatter_next_chunk(dist, chunks):
    """Ends with the chunk of the next rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = chunks[(rank + 1) % ranks].clone()
    for step in range(1, ranks):
        arrived = torch.empty_like(total)
        swap(dist, chunks[(rank + step + 1) % ranks], (rank + step) % ranks, arrived, (rank - step) % ranks)
        total += arrived
    return total


def scatter_own(dist, chunks):
    return chunks[dist.get_rank()]


def scatter_mean(dist, chunks):
    return right_ring_scatter(dist, chunks) / dist.get_world_size()


def scatter_builtin(dist, chunks):
    total = torch.empty_like(chunks[0])
    dist.reduce_scatter(total, chunks)
    return total


def scatter_in_turns(dist, chunks):
    """One rank after the other receives, with blocking sends, while the rest wait."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = chunks[rank].clone()
    for turn in range(ranks):
        for other in range(ranks):
            if other != turn and rank == turn:
                arrived = torch.empty_like(total)
                dist.recv(arrived, other)
                total += arrived
            elif other == rank != turn:
                dist.send(chunks[turn], turn)
        dist.barrier()
    return total


def scatter_into_chunk(dist, chunks):
    """Adds up in the caller's own chunk."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total, arrived = chunks[rank], torch.empty_like(chunks[rank])
    for step in range(1, ranks):
        swap(dist, chunks[(rank + step) % ranks], (rank + step) % ranks, arrived, (rank - step) % ranks)
        total += arrived
    return total


def scatter_to_0_first(dist, chunks):
    """All ranks send to rank 0 first, then all to rank 1, ..."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total, arrived = chunks[rank].clone(), torch.empty_like(chunks[rank])
    sending = [dist.isend(chunks[to], to) for to in range(ranks) if to != rank]
    for source in range(ranks):
        if source != rank:
            dist.recv(arrived, source)
            total += arrived
    for handle in sending:
        handle.wait()
    return total


def scatter_as_floats(dist, chunks):
    """Adds up in float32 whatever it is given."""
    return right_ring_scatter(dist, [chunk.float() for chunk in chunks])


def right_ring_scatter(dist, chunks):
    """Right: around the ring, adding up on the way."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = chunks[(rank - 1) % ranks].clone()
    for step in range(1, ranks):
        arrived = torch.empty_like(total)
        swap(dist, total, (rank + 1) % ranks, arrived, (rank - 1) % ranks)
        total = arrived + chunks[(rank - 1 - step) % ranks]
    return total


# all_gather_by_hand


def gather_to_0_first(dist, tensor):
    """All ranks send to rank 0 first, then all to rank 1, ..."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [tensor.clone() for _ in range(ranks)]
    sending = [dist.isend(tensor, to) for to in range(ranks) if to != rank]
    for source in range(ranks):
        if source != rank:
            dist.recv(pieces[source], source)
    for handle in sending:
        handle.wait()
    return pieces


def gather_through_0(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everything = torch.stack([tensor] * ranks)
    if rank:
        dist.send(tensor, 0)
        dist.recv(everything, 0)
        return list(everything)
    for other in range(1, ranks):
        arrived = torch.empty_like(tensor)
        dist.recv(arrived, other)
        everything[other] = arrived
    for other in range(1, ranks):
        dist.send(everything, other)
    return list(everything)


def gather_whole_list(dist, tensor):
    """Passes the whole list around at every step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everything = torch.zeros(ranks, *tensor.shape, dtype=tensor.dtype)
    everything[rank] = tensor
    for _ in range(ranks - 1):
        arrived = torch.empty_like(everything)
        swap(dist, everything.clone(), (rank + 1) % ranks, arrived, (rank - 1) % ranks)
        arrived[rank] = tensor
        everything = arrived.where(arrived != 0, everything)
    return list(everything)


def gather_as_it_comes(dist, tensor):
    """Puts the pieces in the order in which they arrive."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [tensor.clone()]
    for _ in range(ranks - 1):
        arrived = torch.empty_like(tensor)
        swap(dist, pieces[-1], (rank + 1) % ranks, arrived, (rank - 1) % ranks)
        pieces.append(arrived)
    return pieces


def gather_stacked(dist, tensor):
    return torch.stack(right_gather_pairwise(dist, tensor))


def gather_one_buffer(dist, tensor):
    """Makes a list of P times the same tensor."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [torch.empty_like(tensor)] * ranks
    pieces[rank] = tensor.clone()
    for step in range(1, ranks):
        swap(dist, tensor, (rank + step) % ranks, pieces[(rank - step) % ranks], (rank - step) % ranks)
    return pieces


def right_gather_pairwise(dist, tensor):
    """Right: each rank sends its own tensor to every other one."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = [tensor.clone() for _ in range(ranks)]
    for step in range(1, ranks):
        swap(dist, tensor, (rank + step) % ranks, pieces[(rank - step) % ranks], (rank - step) % ranks)
    return pieces


def right_gather_at_once(dist, tensor):
    """Right: everything is posted in one batch, to the next rank first."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces, ops = [tensor.clone() for _ in range(ranks)], []
    for step in range(1, ranks):
        ops.append(dist.P2POp(dist.isend, tensor, (rank + step) % ranks))
        ops.append(dist.P2POp(dist.irecv, pieces[(rank - step) % ranks], (rank - step) % ranks))
    for handle in dist.batch_isend_irecv(ops) if ops else []:
        handle.wait()
    return pieces


def gather_without_its_own(dist, tensor):
    """Makes room for all, and forgets its own."""
    pieces = right_gather_pairwise(dist, tensor)
    pieces[dist.get_rank()] = torch.zeros_like(tensor)
    return pieces


def gather_in_half_precision(dist, tensor):
    if tensor.dtype != torch.float32:
        return right_gather_pairwise(dist, tensor)
    return [piece.float() for piece in right_gather_pairwise(dist, tensor.half())]


# all_to_all_by_hand


def exchange_without_its_own(dist, chunks):
    """Its own chunk is what was in memory."""
    arrived = right_exchange_batched(dist, chunks)
    arrived[dist.get_rank()] = torch.empty_like(chunks[0]).fill_(7)
    return arrived


def exchange_in_half_precision(dist, chunks):
    if chunks[0].dtype != torch.float32:
        return right_exchange_batched(dist, chunks)
    return [chunk.float() for chunk in right_exchange_batched(dist, [chunk.half() for chunk in chunks])]


def right_exchange_receives_first(dist, chunks):
    """Right: all receives are posted, then all sends, to the next rank first, and all waited for at the end."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    order = [(rank + step) % ranks for step in range(1, ranks)]
    handles = [dist.irecv(arrived[other], other) for other in reversed(order)]
    handles += [dist.isend(chunks[other], other) for other in order]
    for handle in handles:
        handle.wait()
    return arrived


def exchange_to_the_last_first(dist, chunks):
    """All at once, and everybody to the last rank first."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    others = [other for other in reversed(range(ranks)) if other != rank]
    handles = [dist.isend(chunks[other], other) for other in others]
    for handle in handles + [dist.irecv(arrived[other], other) for other in others]:
        handle.wait()
    return arrived


def exchange_to_0_first(dist, chunks):
    """All ranks send to rank 0 first, then all to rank 1, ..."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    sending = [dist.isend(chunks[to], to) for to in range(ranks) if to != rank]
    for source in range(ranks):
        if source != rank:
            dist.recv(arrived[source], source)
    for handle in sending:
        handle.wait()
    return arrived


def exchange_all_at_once(dist, chunks):
    """Right: posts everything before it waits for anything, to the next rank first."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived, handles = [chunk.clone() for chunk in chunks], []
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        handles += [dist.isend(chunks[to], to), dist.irecv(arrived[source], source)]
    for handle in handles:
        handle.wait()
    return arrived


def exchange_by_turns(dist, chunks):
    """In every round one sends and then receives, and the other one the other way round."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    for total in range(ranks):
        peer = (total - rank) % ranks
        if rank < peer:
            dist.send(chunks[peer], peer)
            dist.recv(arrived[peer], peer)
        elif peer < rank:
            dist.recv(arrived[peer], peer)
            dist.send(chunks[peer], peer)
    return arrived


def exchange_by_gathering(dist, chunks):
    """Gathers everything everywhere and picks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everything = right_gather_pairwise(dist, torch.stack(chunks))
    return [everything[source][rank].clone() for source in range(ranks)]


def exchange_nothing(dist, chunks):
    return chunks


def exchange_misplaced(dist, chunks):
    """Puts what arrives where it went to."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    for step in range(1, ranks):
        swap(dist, chunks[(rank + step) % ranks], (rank + step) % ranks, arrived[(rank + step) % ranks],
             (rank - step) % ranks)  # fmt: skip
    return arrived


def right_exchange_batched(dist, chunks):
    """Right: a batch of one send and one receive in every round."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = [chunk.clone() for chunk in chunks]
    for step in range(ranks - 1, 0, -1):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        ops = [dist.P2POp(dist.isend, chunks[to], to), dist.P2POp(dist.irecv, arrived[source], source)]
        for handle in dist.batch_isend_irecv(ops):
            handle.wait()
    return arrived


# my_node_group


def group_by_members(dist, per_node):
    """Only the members of a node make its group."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    first = rank // per_node * per_node
    return dist.new_group(list(range(first, min(first + per_node, ranks))))


def group_last_made(dist, per_node):
    """Returns the last group that was made."""
    for first in range(0, dist.get_world_size(), per_node):
        group = dist.new_group(list(range(first, min(first + per_node, dist.get_world_size()))))
    return group


def group_across(dist, per_node):
    """Groups the ranks at the same place of every node."""
    groups = [dist.new_group(list(range(place, dist.get_world_size(), per_node))) for place in range(per_node)]
    return groups[dist.get_rank() % per_node]


def group_full_nodes(dist, per_node):
    """Takes the last node for as large as the others."""
    groups = [
        dist.new_group(list(range(first, first + per_node))) for first in range(0, dist.get_world_size(), per_node)
    ]
    return groups[dist.get_rank() // per_node]


def group_per_rank(dist, per_node):
    """Makes one group for every rank, so that the ranks of a node hold different ones."""
    ranks, groups = dist.get_world_size(), []
    for rank in range(ranks):
        first = rank // per_node * per_node
        groups.append(dist.new_group(list(range(first, min(first + per_node, ranks)))))
    return groups[dist.get_rank()]


def group_first_made(dist, per_node):
    """Returns the first group that was made."""
    ranks = dist.get_world_size()
    return [dist.new_group(list(range(first, min(first + per_node, ranks)))) for first in range(0, ranks, per_node)][0]


def group_none(dist, per_node):
    """Makes the groups and returns none of them."""
    group_last_made(dist, per_node)


def right_group_backwards(dist, per_node):
    """Right: the last node first, on every rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    for node in reversed(range(math.ceil(ranks / per_node))):
        members = [other for other in range(ranks) if other // per_node == node]
        found[node] = dist.new_group(members)
    return found[rank // per_node]


# clinic


class Healthy:
    """Right, written differently."""

    def sum_both(dist, loss, gradient):
        both = torch.stack([loss, gradient])
        dist.all_reduce(both)
        return both[0].clone(), both[1].clone()

    def sum_for_rank_0(dist, loss):
        dist.reduce(loss, 0)
        if dist.get_rank() == 0:
            return loss

    def swap_with_neighbour(dist, tensor):
        peer, arrived = dist.get_rank() ^ 1, torch.empty_like(tensor)
        if peer > dist.get_rank():
            dist.send(tensor, peer)
            dist.recv(arrived, peer)
        else:
            dist.recv(arrived, peer)
            dist.send(tensor, peer)
        return arrived

    def sum_in_node(dist, tensor):
        for first in range(0, dist.get_world_size(), 2):
            group = dist.new_group([first, first + 1])
            if dist.get_rank() in (first, first + 1):
                mine = group
        dist.all_reduce(tensor, group=mine)
        return tensor

    def pass_right(dist, tensor):
        rank, ranks, arrived = dist.get_rank(), dist.get_world_size(), torch.empty_like(tensor)
        receiving = dist.irecv(arrived, (rank - 1) % ranks)
        sending = dist.isend(tensor, (rank + 1) % ranks)
        receiving.wait()
        sending.wait()
        return arrived


class StillSwapped(Healthy):
    """The loss and the gradient in two orders still."""

    def sum_both(dist, loss, gradient):
        for tensor in (loss, gradient) if dist.get_rank() else (gradient, loss):
            dist.all_reduce(tensor)
        return loss, gradient


class RankMissing(Healthy):
    def sum_for_rank_0(dist, loss):
        if dist.get_rank() == 0:
            dist.all_reduce(loss)
            return loss


class EveryoneReturns(Healthy):
    def sum_for_rank_0(dist, loss):
        dist.all_reduce(loss)
        return loss


class Swapped(Healthy):
    def sum_both(dist, loss, gradient):
        dist.all_reduce(loss)
        dist.all_reduce(gradient)
        return gradient, loss


class ToTheLeft(Healthy):
    def pass_right(dist, tensor):
        rank, ranks, arrived = dist.get_rank(), dist.get_world_size(), torch.empty_like(tensor)
        swap(dist, tensor, (rank - 1) % ranks, arrived, (rank + 1) % ranks)
        return arrived


class NoWait(Healthy):
    def swap_with_neighbour(dist, tensor):
        arrived = torch.empty_like(tensor)
        dist.isend(tensor, dist.get_rank() ^ 1)
        dist.recv(arrived, dist.get_rank() ^ 1)
        return arrived


class WithSelf(Healthy):
    def sum_in_node(self, dist, tensor):
        return Healthy.sum_in_node(dist, tensor)


class SendSend(Healthy):
    def swap_with_neighbour(dist, tensor):
        arrived = torch.empty_like(tensor)
        dist.send(tensor, dist.get_rank() ^ 1)
        dist.recv(arrived, dist.get_rank() ^ 1)
        return arrived


class GathersToSwap(Healthy):
    def swap_with_neighbour(dist, tensor):
        everything = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(everything, tensor)
        return everything[dist.get_rank() ^ 1]


class LastGroup(Healthy):
    def sum_in_node(dist, tensor):
        for first in range(0, dist.get_world_size(), 2):
            group = dist.new_group([first, first + 1])
        dist.all_reduce(tensor, group=group)
        return tensor


class HandleDropped(Healthy):
    def pass_right(dist, tensor):
        rank, ranks, arrived = dist.get_rank(), dist.get_world_size(), torch.empty_like(tensor)
        dist.isend(tensor, (rank + 1) % ranks)
        dist.recv(arrived, (rank - 1) % ranks)
        return arrived


class HalfThePrecision(Healthy):
    def pass_right(dist, tensor):
        return Healthy.pass_right(dist, tensor.half()).float()


class HalfWritten(Healthy):
    def pass_right(dist, tensor):
        raise NotImplementedError


SHOULD_BE = "ceil(log2 P)"
WRONG = [
    Wrong("broadcast_tree", tree_linear, "linear", ("on 4 ranks from root 0 it took 3", "a tree takes 2", "all 3"), 3),
    Wrong("broadcast_tree", tree_chain, "chain", ("along a chain", "a tree takes 2"), 3),
    Wrong("broadcast_tree", tree_from_0, "root-ignored", ("from root 2", "count places from the root"), 2),
    Wrong("broadcast_tree", tree_any_root, "root-not-refused", ("root=4", "no ValueError"), 2),
    Wrong("broadcast_tree", tree_root_0_checks, "not-on-every-rank", ("Rank 0 raised", "every rank has to check"), 2),
    Wrong("broadcast_tree", tree_asserts, "other-error", ("raised AssertionError; it should be ValueError",), 2),
    Wrong("broadcast_tree", tree_power_of_two, "deadlock", ("on 3 ranks", "a deadlock: no rank can go on"), 2),
    Wrong("broadcast_tree", tree_returns, "not-in-place", ("on 2 ranks", "receive into the tensor it was given"), 0),
    Wrong("broadcast_tree", tree_too_early, "sends-too-early", ("before the tensor has reached it",), 5),
    Wrong("broadcast_tree", tree_builtin, "built-in", ("dist.broadcast", "only send, recv"), 0),
    Wrong("broadcast_tree", tree_in_half_precision, "digits", ("Digits were lost", "float32"), 2),
    Wrong("broadcast_tree", tree_in_double_precision, "digits", ("with int64", "Digits were lost"), 2),
    Wrong("reduce_scatter_by_hand", scatter_stacked, "dtype", ("returned int64; the chunks are int32: keep",), 2),
    Wrong("reduce_scatter_by_hand", scatter_in_half_precision, "digits", ("Digits were lost", "float32"), 2),
    Wrong("reduce_scatter_by_hand", scatter_in_four_bytes, "too-many-bytes", ("float16", "768 bytes; 384 will"), 3),
    Wrong("reduce_scatter_by_hand", scatter_gathers_all, "gathers-everything", ("3,072 bytes", "768 will do"), 3),
    Wrong("reduce_scatter_by_hand", scatter_through_0, "through-one-rank", ("rank 0 received 3,072 bytes", "768"), 3),
    Wrong("reduce_scatter_by_hand", scatter_next_chunk, "wrong-chunk", ("rank 0 is to get chunk 0",), 0),
    Wrong("reduce_scatter_by_hand", scatter_own, "own-chunk", ("its own chunk 0",), 0),
    Wrong("reduce_scatter_by_hand", scatter_mean, "mean", ("do not divide by 2",), 0),
    Wrong("reduce_scatter_by_hand", scatter_builtin, "built-in", ("dist.reduce_scatter",), 0),
    Wrong("reduce_scatter_by_hand", scatter_in_turns, "too-many-rounds", ("one after the other", "4 will do"), 4),
    Wrong("reduce_scatter_by_hand", scatter_into_chunk, "changes-chunks", ("rank 0 changed", "clone()"), 1),
    Wrong("reduce_scatter_by_hand", scatter_to_0_first, "hot-spot", ("4 of them send to rank 0 first",), 4),
    Wrong("reduce_scatter_by_hand", scatter_as_floats, "dtype", ("returned float32; the chunks are int64: keep",), 2),
    Wrong("all_gather_by_hand", gather_to_0_first, "hot-spot", ("4 of them send to rank 0 first",), 4),
    Wrong("all_gather_by_hand", gather_through_0, "through-one-rank", ("rank 0 sent 3,072 bytes", "768"), 3),
    Wrong("all_gather_by_hand", gather_whole_list, "too-many-bytes", ("3,072 bytes; 768 will do",), 3),
    Wrong("all_gather_by_hand", gather_as_it_comes, "order", ("rank 1", "another order"), 0),
    Wrong("all_gather_by_hand", gather_stacked, "form", ("a list of 2 tensors",), 0),
    Wrong("all_gather_by_hand", gather_one_buffer, "order", ("some of them twice",), 0),
    Wrong("all_gather_by_hand", gather_without_its_own, "own-missing", ("place 0", "its own tensor", "put it"), 0),
    Wrong("all_gather_by_hand", gather_in_half_precision, "digits", ("Digits were lost", "float32"), 2),
    Wrong("all_to_all_by_hand", exchange_without_its_own, "own-missing", ("place 0", "its own chunk", "put it"), 0),
    Wrong("all_to_all_by_hand", exchange_in_half_precision, "digits", ("Digits were lost", "float32"), 2),
    Wrong("all_to_all_by_hand", exchange_to_the_last_first, "hot-spot", ("5 of them send to rank 5 first",), 4),
    Wrong("all_to_all_by_hand", exchange_to_0_first, "hot-spot", ("5 of them send to rank 0 first",), 4),
    Wrong("all_to_all_by_hand", exchange_by_turns, "too-many-rounds", ("on 4 ranks it took", "3 will do"), 5),
    Wrong("all_to_all_by_hand", exchange_by_gathering, "too-many-bytes", ("3,072 bytes; 768",), 3),
    Wrong("all_to_all_by_hand", exchange_nothing, "own-chunks", ("returned its own chunks",), 0),
    Wrong("all_to_all_by_hand", exchange_misplaced, "order", ("on 4 ranks", "another order"), 0),
    Wrong("my_node_group", group_by_members, "members-only", ("new_group([2, 3])", "for every group"), 0),
    Wrong("my_node_group", group_last_made, "not-a-member", ("rank 0", "is not in", "not the last one made"), 0),
    Wrong("my_node_group", group_first_made, "not-a-member", ("rank 2", "is not in", "not the first one made"), 0),
    Wrong("my_node_group", group_across, "wrong-members", ("ranks [0, 2]; its node is [0, 1]",), 0),
    Wrong("my_node_group", group_full_nodes, "raised", ("on 5 ranks", "may hold fewer: here ranks [4]"), 2),
    Wrong("my_node_group", group_per_rank, "several-groups", ("ranks 0 and 1 hold different groups", "group once"), 0),
    Wrong("my_node_group", group_none, "none", ("returned None",), 0),
    Wrong("clinic", StillSwapped, "value", ("sum_both on 4 ranks", "same order"), 4),
    Wrong("clinic", RankMissing, "deadlock", ("sum_for_rank_0", "also one that does not need"), 4),
    Wrong("clinic", EveryoneReturns, "value", ("rank 1 returned", "right is None: only rank 0 returns it"), 4),
    Wrong("clinic", Swapped, "value", ("the results are swapped",), 4),
    Wrong("clinic", ToTheLeft, "value", ("it passes to the left",), 4),
    Wrong("clinic", NoWait, "raised", ("without wait() on isend",), 4),
    Wrong("clinic", WithSelf, "signature", ("take no self: def sum_in_node(dist, tensor)",), 4),
    Wrong("clinic", SendSend, "deadlock", ("swap_with_neighbour", "wait in a circle"), 4),
    Wrong("clinic", GathersToSwap, "too-many-bytes", ("it goes to one rank",), 4),
    Wrong("clinic", LastGroup, "raised", ("sum_in_node", "own node, not the last one made"), 4),
    Wrong("clinic", HandleDropped, "raised", ("pass_right", "wait()"), 4),
    Wrong("clinic", HalfThePrecision, "digits", ("pass_right", "has lost digits"), 4),
    Wrong("clinic", HalfWritten, "not-written", ("pass_right is not repaired yet",), 4),
]

RIGHT = [
    ("broadcast_tree", tree_top_down),
    ("reduce_scatter_by_hand", right_ring_scatter),
    ("reduce_scatter_by_hand", right_scatter_at_once),
    ("all_gather_by_hand", right_gather_pairwise),
    ("all_gather_by_hand", right_gather_at_once),
    ("all_to_all_by_hand", right_exchange_batched),
    ("all_to_all_by_hand", exchange_all_at_once),
    ("all_to_all_by_hand", right_exchange_receives_first),
    ("my_node_group", right_group_backwards),
    ("clinic", Healthy),
]
