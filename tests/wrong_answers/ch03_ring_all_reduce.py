"""Wrong answers to chapter 3 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it still earns.
"""

from __future__ import annotations

import torch

from wrong_answers import Wrong


def neighbours(dist):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank, ranks, (rank + 1) % ranks, (rank - 1) % ranks


def swap(dist, going, coming, right, left):
    sending = dist.isend(going, right)
    dist.recv(coming, left)
    sending.wait()


# reduce_scatter_ring


def scatter_cuts(chunks, dist, buffer):
    """Runs the right ring on these chunks; `buffer(going, coming)` makes what a chunk is received into."""
    rank, ranks, right, left = neighbours(dist)
    for step in range(ranks - 1):
        going, coming = chunks[(rank - 1 - step) % ranks], chunks[(rank - 2 - step) % ranks]
        arrived = buffer(going, coming)
        swap(dist, going.clone(), arrived, right, left)
        coming.add_(arrived)


def scatter_rows(dist, tensor):
    """Does not flatten, so that tensor_split cuts between rows."""
    scatter_cuts(tensor.tensor_split(dist.get_world_size()), dist, lambda going, coming: torch.empty_like(coming))


def scatter_past_the_ends(dist, tensor):
    """Has neighbours, but no ring: rank 0 has none on its left."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        coming = chunks[(rank - 2 - step) % ranks]
        arrived = torch.empty_like(coming)
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), arrived, rank + 1, rank - 1)
        coming.add_(arrived)


def scatter_from_the_right(dist, tensor):
    """Sends to the right, and waits for the right-hand neighbour, too."""
    rank, ranks, right, _ = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), arrived, right, right)
        chunks[(rank - 2 - step) % ranks].add_(arrived)


def scatter_from_the_left_to_the_left(dist, tensor):
    """Waits for the left-hand neighbour, and sends to the left, too."""
    rank, ranks, _, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        coming = chunks[(rank - 2 - step) % ranks]
        arrived = torch.empty_like(coming)
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), arrived, left, left)
        coming.add_(arrived)


def scatter_only_receives(dist, tensor):
    """Has forgotten the send."""
    rank, ranks, _, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        dist.recv(arrived, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)


def scatter_one_step_more(dist, tensor):
    """Takes P steps, in the last of which each chunk goes where it has been."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), arrived, right, left)
        if step < ranks - 1:
            chunks[(rank - 2 - step) % ranks].add_(arrived)


def scatter_into_the_whole(dist, tensor):
    chunks = tensor.view(-1).tensor_split(dist.get_world_size())
    scatter_cuts(chunks, dist, lambda going, coming: torch.empty_like(tensor))


def scatter_into_what_it_sends(dist, tensor):
    """Makes the buffer as long as the chunk that goes, not as the one that comes."""
    chunks = tensor.view(-1).tensor_split(dist.get_world_size())
    scatter_cuts(chunks, dist, lambda going, coming: torch.empty_like(going))


def scatter_views(dist, tensor):
    """Cuts with view, which needs chunks of one length."""
    ranks = dist.get_world_size()
    scatter_cuts(tensor.view(ranks, -1), dist, lambda going, coming: torch.empty_like(coming))


def scatter_into_the_tuple(dist, tensor):
    """Assigns to the tuple's place, where += does so after it has added."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        i = (rank - 2 - step) % ranks
        buf = torch.empty_like(chunks[i])
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), buf, right, left)
        chunks[i] += buf


def scatter_textbook(dist, tensor):
    """Starts with its own chunk, as most texts do, and so ends with the next one."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - step - 1) % ranks])
        swap(dist, chunks[(rank - step) % ranks].clone(), arrived, right, left)
        chunks[(rank - step - 1) % ranks].add_(arrived)


def scatter_overwrites(dist, tensor):
    """Receives into the chunk instead of adding to it."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        swap(dist, chunks[(rank - 1 - step) % ranks], chunks[(rank - 2 - step) % ranks], right, left)


def scatter_by_all_reduce(dist, tensor):
    dist.all_reduce(tensor)


def scatter_whole(dist, tensor):
    """Passes every rank's whole tensor around."""
    _, ranks, right, left = neighbours(dist)
    passing = tensor.clone()
    for _ in range(ranks - 1):
        arrived = torch.empty_like(passing)
        swap(dist, passing, arrived, right, left)
        tensor += arrived
        passing = arrived


def scatter_whole_each_time(dist, tensor):
    """Sends its whole tensor in every step, with what it has added to it."""
    _, ranks, right, left = neighbours(dist)
    for _ in range(ranks - 1):
        arrived = torch.empty_like(tensor)
        swap(dist, tensor.clone(), arrived, right, left)
        tensor += arrived


def scatter_left_with_the_chunks_of_right(dist, tensor):
    """Turns the messages round, but not the order of the chunks."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        swap(dist, chunks[(rank - 1 - step) % ranks].clone(), arrived, left, right)
        chunks[(rank - 2 - step) % ranks].add_(arrived)


def scatter_through_rank_0(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = tensor.view(-1).tensor_split(ranks)[rank]
    if rank:
        dist.send(tensor, 0)
        dist.recv(mine, 0)
        return
    arrived = torch.empty_like(tensor)
    for other in range(1, ranks):
        dist.recv(arrived, other)
        tensor += arrived
    for other, chunk in enumerate(tensor.view(-1).tensor_split(ranks)):
        if other:
            dist.send(chunk, other)


def scatter_rest_dropped(dist, tensor):
    rank, ranks, right, left = neighbours(dist)
    size = tensor.numel() // ranks
    flat = tensor.view(-1)
    for step in range(ranks - 1):
        place = (rank - 2 - step) % ranks * size
        going = (rank - 1 - step) % ranks * size
        arrived = torch.empty_like(flat[:size])
        swap(dist, flat[going : going + size], arrived, right, left)
        flat[place : place + size] += arrived


def scatter_direct(dist, tensor):
    """Sends each chunk straight to the rank that needs it: right and cheap, but no ring."""
    rank, ranks, _, _ = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(1, ranks):
        arrived = torch.empty_like(chunks[rank])
        swap(dist, chunks[(rank + step) % ranks], arrived, (rank + step) % ranks, (rank - step) % ranks)
        chunks[rank].add_(arrived)


def scatter_to_the_left(dist, tensor):
    """Right: the ring turned round."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank + 2 + step) % ranks])
        swap(dist, chunks[(rank + 1 + step) % ranks], arrived, left, right)
        chunks[(rank + 2 + step) % ranks].add_(arrived)


def scatter_batched(dist, tensor):
    """Right: both directions posted in one batch, as NCCL likes it."""
    rank, ranks, right, left = neighbours(dist)
    chunks = list(tensor.flatten().tensor_split(ranks))
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        going = dist.P2POp(dist.isend, chunks[(rank - 1 - step) % ranks], right)
        for handle in dist.batch_isend_irecv([going, dist.P2POp(dist.irecv, arrived, left)]):
            handle.wait()
        chunks[(rank - 2 - step) % ranks] = chunks[(rank - 2 - step) % ranks] + arrived
    tensor.view(-1).tensor_split(ranks)[rank].copy_(chunks[rank])


# all_gather_ring


def gather_rows(dist, tensor):
    """Does not flatten, so that tensor_split cuts between rows."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.tensor_split(ranks)
    for step in range(ranks - 1):
        swap(dist, chunks[(rank - step) % ranks].clone(), chunks[(rank - step - 1) % ranks], right, left)


def gather_one_buffer(dist, tensor):
    """Receives every chunk into a buffer of the first one's length: rank 0's is too long, and rank 2 is told first."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    arrived = torch.empty_like(chunks[0])
    for step in range(ranks - 1):
        swap(dist, chunks[(rank - step) % ranks].clone(), arrived, right, left)
        chunks[(rank - step - 1) % ranks].copy_(arrived)


def gather_sends_all(dist, tensor):
    """Sends the whole tensor to a neighbour who waits for a chunk."""
    rank, ranks, right, left = neighbours(dist)
    for step in range(ranks - 1):
        swap(dist, tensor.clone(), tensor.view(-1).tensor_split(ranks)[(rank - step - 1) % ranks], right, left)


def gather_adds(dist, tensor):
    """Adds where it should replace."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 1 - step) % ranks])
        swap(dist, chunks[(rank - step) % ranks], arrived, right, left)
        chunks[(rank - 1 - step) % ranks].add_(arrived)


def gather_own_each_time(dist, tensor):
    """Sends its own chunk in every step instead of passing on what came."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 1) % ranks])
        swap(dist, chunks[rank], arrived, right, left)
        if chunks[(rank - 1 - step) % ranks].shape == arrived.shape:
            chunks[(rank - 1 - step) % ranks].copy_(arrived)


def gather_off_by_one(dist, tensor):
    """Starts as if rank r held chunk r + 1."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        swap(dist, chunks[(rank + 1 - step) % ranks], chunks[(rank - step) % ranks], right, left)


def gather_starts_left(dist, tensor):
    """Starts with chunk r - 1, as a reduce-scatter does."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        swap(dist, chunks[(rank - 1 - step) % ranks], chunks[(rank - 2 - step) % ranks], right, left)


def gather_torch_chunks(dist, tensor):
    """Cuts with torch.chunk, whose pieces differ from tensor_split's where ranks do not divide the size."""
    rank, ranks, right, left = neighbours(dist)
    chunks = list(tensor.view(-1).chunk(ranks)) + [tensor.view(-1)[:0]] * ranks
    for step in range(ranks - 1):
        swap(dist, chunks[(rank - step) % ranks], chunks[(rank - 1 - step) % ranks], right, left)


def gather_builtin(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if tensor.numel() % ranks:
        return gather_right(dist, tensor)
    pieces = [torch.empty_like(tensor.view(-1)[: tensor.numel() // ranks]) for _ in range(ranks)]
    dist.all_gather(pieces, tensor.view(-1).tensor_split(ranks)[rank])
    tensor.view(-1).copy_(torch.cat(pieces))


def gather_through_rank_0(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    if rank:
        dist.send(chunks[rank], 0)
        dist.recv(tensor, 0)
        return
    for other in range(1, ranks):
        dist.recv(chunks[other], other)
    for other in range(1, ranks):
        dist.send(tensor, other)


def gather_blocking(dist, tensor):
    """Every rank sends first, so that none receives."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        dist.send(chunks[(rank - step) % ranks], right)
        dist.recv(chunks[(rank - 1 - step) % ranks], left)


def gather_right(dist, tensor):
    """Right: one index that walks to the left."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.reshape(-1).tensor_split(ranks)
    have = rank
    for _ in range(ranks - 1):
        coming = dist.irecv(chunks[(have - 1) % ranks], left)
        going = dist.isend(chunks[have], right)
        coming.wait()
        going.wait()
        have = (have - 1) % ranks


def gather_waits_late(dist, tensor):
    """Right: all sends are waited for at the end."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    handles = []
    for step in range(ranks - 1):
        handles.append(dist.isend(chunks[(rank - step) % ranks], right))
        dist.recv(chunks[(rank - 1 - step) % ranks], left)
    for handle in handles:
        handle.wait()


# ring_all_reduce


def two_phases(dist, tensor, chunks=None, first=-1):
    """The ring, with the chunks that the caller cut and the chunk (counted from its rank) that it sends first."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks) if chunks is None else chunks
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank + first - 1 - step) % ranks])
        swap(dist, chunks[(rank + first - step) % ranks], arrived, right, left)
        chunks[(rank + first - 1 - step) % ranks].add_(arrived)
    for step in range(ranks - 1):
        coming = chunks[(rank + first - step) % ranks]
        swap(dist, chunks[(rank + first + 1 - step) % ranks], coming, right, left)


def whole_tensor(dist, tensor):
    scatter_whole(dist, tensor)


def through_rank_0(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    arrived = torch.empty_like(tensor)
    for other in range(1, ranks):
        dist.recv(arrived, other)
        tensor += arrived
    for other in range(1, ranks):
        dist.send(tensor, other)


def rest_dropped(dist, tensor):
    ranks, flat = dist.get_world_size(), tensor.view(-1)
    size = len(flat) // ranks
    two_phases(dist, tensor, [flat[place * size : (place + 1) * size] for place in range(ranks)])


def built_in(dist, tensor):
    dist.all_reduce(tensor)


def phases_swapped(dist, tensor):
    gather_right(dist, tensor)
    scatter_to_chunk_r(dist, tensor)


def off_by_one(dist, tensor):
    """Begins the second phase with the chunk after the finished one."""
    scatter_to_chunk_r(dist, tensor)
    gather_off_by_one(dist, tensor)


def scatter_to_chunk_r(dist, tensor):
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        swap(dist, chunks[(rank - 1 - step) % ranks], arrived, right, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)


def averages(dist, tensor):
    two_phases(dist, tensor)
    tensor /= dist.get_world_size()


def four_ranks_only(dist, tensor):
    rank = dist.get_rank()
    chunks = tensor.view(-1).tensor_split(4)
    for step in range(3):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % 4])
        swap(dist, chunks[(rank - 1 - step) % 4], arrived, (rank + 1) % 4, (rank - 1) % 4)
        chunks[(rank - 2 - step) % 4].add_(arrived)
    for step in range(3):
        swap(dist, chunks[(rank - step) % 4], chunks[(rank - 1 - step) % 4], (rank + 1) % 4, (rank - 1) % 4)


def facing_sends(dist, tensor):
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        dist.send(chunks[(rank - 1 - step) % ranks], right)
        dist.recv(arrived, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)
    gather_right(dist, tensor)


def not_in_place(dist, tensor):
    tensor = tensor.clone()
    two_phases(dist, tensor)
    return tensor


def name_rebound(dist, tensor):
    """Not in place either: `tensor = ...` only gives the name to a new tensor, and nothing is returned."""
    total = tensor.clone()
    two_phases(dist, total)
    tensor = total


def one_after_the_other(dist, tensor):
    """Sends the right chunks, but the ranks take turns: three of four links are always idle."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for phase, first in (("add", -1), ("replace", 0)):
        for step in range(ranks - 1):
            going, coming = chunks[(rank + first - step) % ranks], chunks[(rank + first - 1 - step) % ranks]
            arrived = torch.empty_like(coming)
            if rank == 0:
                dist.send(going, right)
                dist.recv(arrived, left)
            else:
                dist.recv(arrived, left)
                dist.send(going, right)
            coming.copy_(coming + arrived if phase == "add" else arrived)


def odd_and_even(dist, tensor):
    """No deadlock, but each step takes two: half of the links are idle at any time."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for phase, first in (("add", -1), ("replace", 0)):
        for step in range(ranks - 1):
            going, coming = chunks[(rank + first - step) % ranks], chunks[(rank + first - 1 - step) % ranks]
            arrived = torch.empty_like(coming)
            if rank % 2:
                dist.recv(arrived, left)
                dist.send(going, right)
            else:
                dist.send(going, right)
                dist.recv(arrived, left)
            coming.copy_(coming + arrived if phase == "add" else arrived)


def only_rank_0_gets_it(dist, tensor):
    """A reduce, not an all-reduce."""
    rank, ranks, right, left = neighbours(dist)
    if ranks == 1:
        return
    arrived = torch.empty_like(tensor)
    if rank != ranks - 1:
        dist.recv(arrived, rank + 1)
        arrived += tensor
    else:
        arrived.copy_(tensor)
    if rank:
        dist.send(arrived, rank - 1)
    else:
        tensor.copy_(arrived)


def once_round_and_again(dist, tensor):
    """One total goes round the ring, and then its copies: the whole tensor, one link at a time."""
    rank, ranks, right, left = neighbours(dist)
    if ranks == 1:
        return
    arrived = torch.empty_like(tensor)
    if rank:
        dist.recv(arrived, left)
        tensor += arrived
    dist.send(tensor, right)
    if rank == 0:
        dist.recv(tensor, left)
        if ranks > 2:
            dist.send(tensor, right)
    elif rank != ranks - 1:
        dist.recv(tensor, left)
        if rank != ranks - 2:
            dist.send(tensor, right)


def only_the_first_phase(dist, tensor):
    """Adds up the chunks and hands none of them out."""
    chunks = tensor.view(-1).tensor_split(dist.get_world_size())
    scatter_cuts(chunks, dist, lambda going, coming: torch.empty_like(coming))


def misspells_the_first_phase(dist, tensor):
    scatter_cut(tensor, dist)  # noqa: F821


def forgets_to_wait(dist, tensor):
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        dist.isend(chunks[(rank - 1 - step) % ranks], right)
        dist.recv(arrived, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)
    gather_right(dist, tensor)


def whole_when_uneven(dist, tensor):
    """A ring where the chunks are equal; else the whole tensor goes round."""
    if tensor.numel() % dist.get_world_size():
        scatter_whole(dist, tensor)
    else:
        two_phases(dist, tensor)


def floats_only(dist, tensor):
    """Its buffer has the default dtype."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arrived = torch.empty(chunks[(rank - 2 - step) % ranks].shape)
        swap(dist, chunks[(rank - 1 - step) % ranks], arrived, right, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)
    gather_right(dist, tensor)


def doubling(dist, tensor):
    """Halves that are exchanged over ever shorter distances, and back; a ring where ranks are no power of two."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    flat = tensor.view(-1)
    if ranks & (ranks - 1) or len(flat) % ranks:
        return two_phases(dist, tensor)
    begin, end, pieces = 0, len(flat), []
    distance = ranks // 2
    while distance:
        middle = (begin + end) // 2
        keep, give = ((middle, end), (begin, middle)) if rank & distance else ((begin, middle), (middle, end))
        arrived = torch.empty_like(flat[keep[0] : keep[1]])
        swap(dist, flat[give[0] : give[1]], arrived, rank ^ distance, rank ^ distance)
        flat[keep[0] : keep[1]] += arrived
        pieces.append((distance, keep, give))
        begin, end = keep
        distance //= 2
    for distance, keep, give in reversed(pieces):
        swap(dist, flat[keep[0] : keep[1]], flat[give[0] : give[1]], rank ^ distance, rank ^ distance)


def textbook(dist, tensor):
    """Right: starts with its own chunk and ends the first phase with the next one; the second phase knows."""
    two_phases(dist, tensor, first=0)


def padded(dist, tensor):
    """Right: chunks of ceil(n/P) elements, the last one filled up with zeros."""
    ranks = dist.get_world_size()
    size = -(-tensor.numel() // ranks)
    buffer = torch.zeros(size * ranks, dtype=tensor.dtype)
    buffer[: tensor.numel()] = tensor.flatten()
    two_phases(dist, buffer, buffer.view(ranks, size).unbind())
    tensor.copy_(buffer[: tensor.numel()].view(tensor.shape))


def torch_chunked(dist, tensor):
    """Right: torch.chunk's pieces of ceil(n/P) elements, of which the last may be smaller, empty or missing."""
    ranks = dist.get_world_size()
    flat = tensor.view(-1)
    chunks = list(flat.chunk(ranks)) if len(flat) else []
    two_phases(dist, tensor, chunks + [flat[:0]] * (ranks - len(chunks)))


def leftward(dist, tensor):
    """Right: both phases to the left."""
    rank, ranks, right, left = neighbours(dist)
    scatter_to_the_left(dist, tensor)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        swap(dist, chunks[(rank + step) % ranks], chunks[(rank + 1 + step) % ranks], left, right)


def batched(dist, tensor):
    """Right: batch_isend_irecv in the first phase, late waits in the second."""
    scatter_batched(dist, tensor)
    gather_waits_late(dist, tensor)


def by_rows(dist, tensor):
    """Right: the chunks are rows of the tensor, uneven ones too."""
    ranks = dist.get_world_size()
    two_phases(dist, tensor, tensor.tensor_split(ranks))


def through_float16(dist, tensor):
    """Right for small whole numbers only."""
    total = tensor.to(torch.float16)
    two_phases(dist, total)
    tensor.copy_(total)


def through_float32(dist, tensor):
    """Sends half of the bytes of float64, and loses digits."""
    total = tensor.float() if tensor.is_floating_point() else tensor
    two_phases(dist, total)
    tensor.copy_(total)


def bfloat16_through_float16(dist, tensor):
    """float16 holds all digits of bfloat16, but not its large numbers."""
    total = tensor.to(torch.float16) if tensor.dtype == torch.bfloat16 else tensor
    two_phases(dist, total)
    tensor.copy_(total)


def scatter_through_float64(dist, tensor):
    """Whole numbers are summed as floats, of fewer digits."""
    total = tensor.double() if tensor.dtype == torch.int64 else tensor
    scatter_to_chunk_r(dist, total)
    tensor.copy_(total)


def gather_through_float32(dist, tensor):
    """Chunks travel as floats."""
    total = tensor.float()
    gather_right(dist, total)
    tensor.copy_(total)


def scatter_one_step_short(dist, tensor):
    """Stops one step early: nobody holds a complete sum."""
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 2):
        arrived = torch.empty_like(chunks[(rank - 2 - step) % ranks])
        swap(dist, chunks[(rank - 1 - step) % ranks], arrived, right, left)
        chunks[(rank - 2 - step) % ranks].add_(arrived)


def gather_one_step_short(dist, tensor):
    rank, ranks, right, left = neighbours(dist)
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 2):
        swap(dist, chunks[(rank - step) % ranks], chunks[(rank - 1 - step) % ranks], right, left)


def bfloat16_in_four_bytes(dist, tensor):
    """Sums in float32 what has 16 bits: right sums, and twice the bytes."""
    total = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    two_phases(dist, total)
    tensor.copy_(total)


# which_is_the_ring


def costs_of(meters):
    return {name: max(meter["sent"]) / meter["bytes"] for name, meter in meters.items()}


def least_traffic(meters):
    """On two ranks all three send equally much."""
    costs = costs_of(meters)
    return min(sorted(costs), key=costs.get), costs


def all_equal(meters):
    """The relay's ranks send equally much too."""
    equal = [name for name, meter in sorted(meters.items()) if len(set(meter["sent"])) == 1]
    return equal[0], costs_of(meters)


def always_b(meters):
    return "B", costs_of(meters)


def cost_summed(meters):
    """Adds up all ranks instead of looking at the busiest."""
    ring, _ = by_message_size(meters)
    return ring, {name: sum(meter["sent"]) / meter["bytes"] for name, meter in meters.items()}


def cost_in_bytes(meters):
    ring, _ = by_message_size(meters)
    return ring, {name: max(meter["sent"]) for name, meter in meters.items()}


def neither(meters):
    """Neither the name nor the costs are right."""
    return "B", {name: sum(meter["sent"]) for name, meter in meters.items()}


def name_only(meters):
    return by_message_size(meters)[0]


def by_message_size(meters):
    """Right: only the ring's messages are 1/P of the tensor."""
    sizes = {name: meter["sent"][0] / meter["messages"][0] / meter["bytes"] for name, meter in meters.items()}
    return min(sizes, key=sizes.get), costs_of(meters)


def by_most_messages(meters):
    """Right: no rank of the others sends as often as the ring's ranks do on average."""
    counts = {name: min(meter["messages"]) for name, meter in meters.items()}
    return max(counts, key=counts.get), costs_of(meters)


WRONG = [
    Wrong("reduce_scatter_ring", scatter_into_the_tuple, "raised",
          ("raised TypeError: 'tuple' object", "chunks[i].add_(buf), or mine = chunks[i]; mine += buf"), 0),
    Wrong("reduce_scatter_ring", scatter_textbook, "other-chunk", ("Rank 0 ends with the sum of chunk 1",), 0),
    Wrong("reduce_scatter_ring", scatter_past_the_ends, "raised", ("no such rank", "on its left rank (r - 1) % P"), 0),
    Wrong("reduce_scatter_ring", scatter_from_the_right, "deadlock",
          ("a deadlock. All ranks send to the right and also wait for the right-hand neighbour: receive from the left",
           "no rank receives: 0 -> 1, 1 -> 2, 2 -> 3, 3 -> 0."), 0),
    Wrong("reduce_scatter_ring", scatter_from_the_left_to_the_left, "deadlock",
          ("a deadlock. All ranks send to the left and also wait for the left-hand neighbour: receive from the "
           "right, or send to the right",), 0),
    Wrong("reduce_scatter_ring", scatter_only_receives, "deadlock",
          ("a deadlock. Every rank receives and none has sent: start the send with isend",), 0),
    Wrong("reduce_scatter_ring", scatter_one_step_more, "raised", ("on 1 rank", "P-1 steps, so none on one rank"), 2),
    Wrong("reduce_scatter_ring", scatter_rows, "not-flattened", ("of shape (2, 5) here, and without view(-1)",), 2),
    Wrong("reduce_scatter_ring", scatter_into_the_whole, "wrong-length",
          ("elements rank 1 receives into 8 elements, but rank 0 sends it 2: make the buffer as long as",), 0),
    Wrong("reduce_scatter_ring", scatter_into_what_it_sends, "wrong-length",
          ("elements rank 1 receives into 3 elements, but rank 0 sends it 2", "0 to 2 have 3, 2, 2 elements"), 2),
    Wrong("reduce_scatter_ring", scatter_views, "raised", ("do not divide the elements", "tensor_split(ranks)"), 2),
    Wrong("all_gather_ring", gather_rows, "not-flattened", ("of shape (2, 5) here, and without view(-1)",), 2),
    Wrong("all_gather_ring", gather_one_buffer, "wrong-length",
          ("elements rank 0 receives into 3 elements, but rank 2 sends it 2", "rank 2 stopped"), 2),
    Wrong("all_gather_ring", gather_sends_all, "wrong-length",
          ("elements rank 0 sends 8 elements, and rank 1 waits for 2: send one chunk",), 0),
    Wrong("reduce_scatter_ring", scatter_overwrites, "not-added", ("a single rank's part: nothing was added",), 0),
    Wrong("reduce_scatter_ring", scatter_by_all_reduce, "built-in", ("it calls dist.all_reduce",), 0),
    Wrong("reduce_scatter_ring", scatter_whole, "whole-tensor", ("You are passing the whole tensor on",), 3),
    Wrong("reduce_scatter_ring", scatter_whole_each_time, "whole-tensor",
          ("Each message carried the whole tensor, and with it what was added before: send one chunk",), 0),
    Wrong("reduce_scatter_ring", scatter_left_with_the_chunks_of_right, "mixed-chunks",
          ("Chunks of different numbers were added", "from rank 1, on its right, is chunk 0", "added to chunk 2"), 0),
    Wrong("reduce_scatter_ring", scatter_through_rank_0, "through-one-rank", ("Everything goes through rank 0",), 3),
    Wrong("reduce_scatter_ring", scatter_rest_dropped, "uneven-chunks", ("3 does not divide 7",), 2),
    Wrong("reduce_scatter_ring", scatter_direct, "not-a-ring", ("rank 0 sends to rank 2",), 4),
    Wrong("reduce_scatter_ring", scatter_one_step_short, "one-step-short", ("rank 0", "one step more"), 0),
    Wrong("reduce_scatter_ring", scatter_through_float64, "digits", ("of int64", "Digits were lost"), 2),
    Wrong("all_gather_ring", gather_one_step_short, "one-step-short", ("chunk 1", "one step more"), 0),
    Wrong("all_gather_ring", gather_through_float32, "digits", ("of int64", "Digits were lost"), 2),
    Wrong("all_gather_ring", gather_adds, "added", ("the old contents were added: replace them",), 0),
    Wrong("all_gather_ring", gather_own_each_time, "own-each-time",
          ("rank 0 holds the chunk of rank 3, on its left, in every other place", "pass on the chunk that came"), 0),
    Wrong("all_gather_ring", gather_off_by_one, "not-own-chunk", ("Rank 0 sent chunk 1 first, which it does not",), 0),
    Wrong("all_gather_ring", gather_starts_left, "not-own-chunk", ("Rank 0 sent chunk 3 first, which it does not",), 0),
    Wrong("all_gather_ring", gather_torch_chunks, "uneven-chunks", ("tensor_split(3)[r]",), 2),
    Wrong("all_gather_ring", gather_builtin, "built-in", ("it calls dist.all_gather",), 0),
    Wrong("all_gather_ring", gather_through_rank_0, "through-one-rank", ("Everything goes through rank 0",), 3),
    Wrong(
        "all_gather_ring", gather_blocking, "deadlock",
        ("on 4 ranks with 8 elements a deadlock. Start the send with", "ranks 0 to 3 all wait"), 0,
    ),  # fmt: skip
    Wrong("ring_all_reduce", whole_tensor, "whole-tensor", ("You are passing the whole tensor on: pass one chunk",), 3),
    Wrong("ring_all_reduce", through_rank_0, "through-one-rank", ("Everything goes through rank 0",), 3),
    Wrong("ring_all_reduce", rest_dropped, "rest-dropped", ("the last 1 stays as given: 3 does not divide 7",), 2),
    Wrong("ring_all_reduce", built_in, "built-in", ("it calls dist.all_reduce",), 0),
    Wrong("ring_all_reduce", off_by_one, "value",
          ("(correct so far: none of the chunks)", "Look at the first phase alone: check_reduce_scatter_ring"), 0),
    Wrong("ring_all_reduce", phases_swapped, "phases-swapped", ("let the reduce-scatter come first, then the",), 0),
    Wrong("ring_all_reduce", averages, "mean", ("rank 0 holds the mean, not the sum: do not divide by 4",), 0),
    Wrong("ring_all_reduce", four_ranks_only, "raised", ("on 2 ranks with 6 elements rank",), 2),
    Wrong(
        "ring_all_reduce", facing_sends, "deadlock",
        ("to send 8 bytes to rank 1", "Start the send with isend, receive, then wait."), 0,
    ),  # fmt: skip
    Wrong("ring_all_reduce", not_in_place, "not-in-place", ("are unchanged: write into them",), 0),
    Wrong("ring_all_reduce", name_rebound, "not-in-place", ("are unchanged: write into them",), 0),
    Wrong(
        "ring_all_reduce", one_after_the_other, "too-many-steps", ("messages one after the other; a ring takes 6",), 4
    ),
    Wrong(
        "ring_all_reduce", odd_and_even, "too-many-steps", ("sends and only then receives makes two steps of one",), 4
    ),
    Wrong("ring_all_reduce", only_rank_0_gets_it, "value",
          ("the tensor on rank 1 is", "Rank 0 has the sum, so let it reach rank 1, too"), 0),
    Wrong("ring_all_reduce", once_round_and_again, "whole-tensor", ("You are passing the whole tensor on",), 3),
    Wrong("ring_all_reduce", only_the_first_phase, "no-all-gather",
          ("Rank r holds only chunk r complete: the all-gather is missing",), 0),
    Wrong("ring_all_reduce", misspells_the_first_phase, "raised",
          ("name 'scatter_cut' is not defined; did you mean scatter_cuts?",), 0),
    Wrong("ring_all_reduce", forgets_to_wait, "raised", ("without wait() on 3 isends to rank",), 0),
    Wrong("ring_all_reduce", whole_when_uneven, "whole-tensor", ("on 3 ranks with 100 elements",), 3),
    Wrong("ring_all_reduce", floats_only, "raised", ("of int64 rank", "torch.empty_like(that chunk)"), 2),
    Wrong("ring_all_reduce", doubling, "not-a-ring", ("sends to rank 2",), 4),
    Wrong("ring_all_reduce", through_float16, "digits", ("of float32", "Digits were lost"), 2),
    Wrong("ring_all_reduce", through_float32, "digits", ("of float64", "Digits were lost"), 2),
    Wrong("ring_all_reduce", bfloat16_through_float16, "digits", ("of bfloat16", "inf"), 2),
    Wrong("ring_all_reduce", bfloat16_in_four_bytes, "too-many-bytes", ("of bfloat16", "a ring sends 3,072: send"), 3),
    Wrong("which_is_the_ring", least_traffic, "wrong-ring", ("on 2 ranks the ring was 'C', not 'A'",), 1),
    Wrong("which_is_the_ring", all_equal, "wrong-ring", ("not",), 1),
    Wrong("which_is_the_ring", always_b, "wrong-ring", ("not 'B'",), 1),
    Wrong("which_is_the_ring", cost_summed, "wrong-cost", ("the busiest rank of 'A' sent",), 2),
    Wrong("which_is_the_ring", cost_in_bytes, "wrong-cost", ("times the tensor",), 2),
    Wrong("which_is_the_ring", neither, "wrong-ring", ("look at bytes and messages together",), 0),
    Wrong("which_is_the_ring", name_only, "form", ("return the ring's name and a dict of costs",), 0),
]
RIGHT = [
    ("reduce_scatter_ring", scatter_to_the_left),
    ("reduce_scatter_ring", scatter_batched),
    ("all_gather_ring", gather_right),
    ("all_gather_ring", gather_waits_late),
    ("ring_all_reduce", textbook),
    ("ring_all_reduce", padded),
    ("ring_all_reduce", torch_chunked),
    ("ring_all_reduce", leftward),
    ("ring_all_reduce", batched),
    ("ring_all_reduce", by_rows),
    ("which_is_the_ring", by_message_size),
    ("which_is_the_ring", by_most_messages),
]
