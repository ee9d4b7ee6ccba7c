"""Wrong answers to chapter 0 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives and words that the sentence holds.
"""

from __future__ import annotations

import torch

from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# ten_times, the check to practise with


@wrong("ten_times", "raised", "on 7 ranks", "IndexError")
def only_four_ranks(dist):
    return [0, 10, 20, 30][dist.get_rank()]


@wrong("ten_times", "value", "rank 0 returned 40", "is 0")
def ten_times_the_world_size(dist):
    return 10 * dist.get_world_size()


@wrong("ten_times", "value", "rank 0 returned None")
def prints_instead(dist):
    print(10 * dist.get_rank())


@right("ten_times")
def adds_up(dist):
    return sum(10 for _ in range(dist.get_rank()))


# even_to_odd


@wrong("even_to_odd", "raised", "on 1 rank", "no such rank", "if a rank stands above")
def sends_past_the_last_rank(dist, number):
    rank = dist.get_rank()
    if rank % 2 == 0:
        dist.send(torch.tensor([number]), rank + 1)
        return None
    arrived = torch.empty(1)
    dist.recv(arrived, rank - 1)
    return arrived.item()


@wrong("even_to_odd", "deadlock", "on 3 ranks", "rank 2 waits to send 4 bytes", "if a rank stands above")
def wraps_around_to_rank_0(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return None
    if rank % 2 == 0:
        dist.send(torch.tensor([number]), (rank + 1) % ranks)
        return None
    arrived = torch.empty(1)
    dist.recv(arrived, rank - 1)
    return arrived.item()


@wrong("even_to_odd", "raised", "on 2 ranks", "takes a tensor, not float")
def receives_into_a_python_number(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 1:
        arrived = 0.0
        dist.recv(arrived, rank - 1)
        return arrived
    if rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
    return None


@wrong("even_to_odd", "value", "on 2 ranks", "rank 1 returned None: no message came to it, so let rank 0 send 2600.5")
def sends_from_odd_ranks(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 0 and rank > 0:
        arrived = torch.empty(1)
        dist.recv(arrived, rank - 1)
        return arrived.item()
    if rank % 2 == 1 and rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
    return None


@wrong("even_to_odd", "value", "on 2 ranks", "rank 1 returned None: it received a message, so return the number in it")
def forgets_to_return(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = torch.empty(1)
    if rank % 2 == 1:
        dist.recv(arrived, rank - 1)
    elif rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)


@wrong("even_to_odd", "not-none", "on 2 ranks", "rank 0 returned", "all others return None")
def every_rank_returns_the_number(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 1:
        arrived = torch.empty(1)
        dist.recv(arrived, rank - 1)
        number = arrived.item()
    elif rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
    return number


@wrong("even_to_odd", "tensor", "returned a tensor", ".5]", ".item()")
def returns_the_buffer(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 1:
        arrived = torch.empty(1)
        dist.recv(arrived, rank - 1)
        return arrived
    if rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
    return None


@wrong("even_to_odd", "built-in", "dist.all_gather")
def asks_everyone(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    numbers = [torch.empty(1) for _ in range(ranks)]
    dist.all_gather(numbers, torch.tensor([number]))
    return numbers[rank - 1].item() if rank % 2 else None


@wrong("even_to_odd", "messages", "on 5 ranks", "3 -> 4", "2 will do")
def odd_ranks_send_too(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = torch.empty(1)
    if rank % 2 == 1:
        dist.recv(arrived, rank - 1)
    if rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
    if rank % 2 == 0 and rank > 0:
        dist.recv(torch.empty(1), rank - 1)
    return arrived.item() if rank % 2 == 1 else None


@wrong("even_to_odd", "deadlock", "on 2 ranks", "rank 0 waits to receive from rank 1", "an odd rank only receives")
def even_ranks_wait_for_an_answer(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    arrived = torch.empty(1)
    if rank % 2 == 1:
        dist.recv(arrived, rank - 1)
        return arrived.item()
    if rank + 1 < ranks:
        dist.send(torch.tensor([number]), rank + 1)
        dist.recv(arrived, rank + 1)
    return None


@wrong("even_to_odd", "not-blocking", "on 2 ranks it calls isend: use only send and recv")
def without_blocking(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    box = torch.tensor(number, dtype=torch.float64)
    pair = rank - rank % 2
    if pair + 1 == ranks:
        return None
    handle = dist.isend(box, pair + 1) if rank == pair else dist.irecv(box, pair)
    handle.wait()
    return None if rank == pair else float(box)


@right("even_to_odd")
def in_double_precision(dist, number):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    box = torch.tensor(number, dtype=torch.float64)
    pair = rank - rank % 2
    if pair + 1 == ranks:
        return None
    if rank == pair:
        return dist.send(box, pair + 1)
    dist.recv(box, pair)
    return float(box)


@right("even_to_odd")
def as_a_number_of_numpys(dist, number):
    box = torch.tensor([number], dtype=torch.float64)
    if dist.get_rank() % 2:
        dist.recv(box, dist.get_rank() - 1)
        return box.numpy()[0]
    if dist.get_rank() + 1 < dist.get_world_size():
        dist.send(box, dist.get_rank() + 1)


@wrong("even_to_odd", "digits", "on 2 ranks rank 1 returned 2", "float32 keeps them", earned=0)
def in_half_precision(dist, number):
    if dist.get_rank() % 2 == 0 and dist.get_rank() + 1 < dist.get_world_size():
        dist.send(torch.tensor([number], dtype=torch.float16), dist.get_rank() + 1)
    if dist.get_rank() % 2:
        box = torch.empty(1, dtype=torch.float16)
        dist.recv(box, dist.get_rank() - 1)
        return box.item()


@wrong("sum_on_every_rank", "digits", "on 3 ranks", "Digits were lost", "float32", earned=2)
def sums_in_half_precision(dist, value):
    return from_whoever_comes_first(dist, value.half()).to(value.dtype)


@wrong("exchange", "digits", "float32[4]", "send float32 as it is", earned=3)
def swaps_in_half_precision(dist, tensor, peer):
    wide = tensor.half() if tensor.dtype == torch.float32 else tensor
    return posts_both(dist, wide, peer).to(tensor.dtype)


@wrong("even_to_odd", "whole-number", "on 2 ranks rank 1 returned", ".5", "the number's own tensor", earned=0)
def as_whole_numbers(dist, number):
    box = torch.tensor([int(number)])
    if dist.get_rank() % 2:
        dist.recv(box, src=dist.get_rank() - 1)
        return int(box)
    if dist.get_rank() != dist.get_world_size() - 1:
        dist.send(box, dst=dist.get_rank() + 1)


@wrong("even_to_odd", "raised", "on 2 ranks", "sends float32[1]", "into int64[1]", "into torch.empty(1)", earned=0)
def receives_into_a_whole_number(dist, number):
    if dist.get_rank() % 2:
        box = torch.tensor([0])
        dist.recv(box, dist.get_rank() - 1)
        return box.item()
    if dist.get_rank() + 1 < dist.get_world_size():
        dist.send(torch.tensor([number]), dist.get_rank() + 1)


# sum_on_every_rank


@wrong("sum_on_every_rank", "built-in", "dist.all_reduce", "use only send, recv")
def calls_all_reduce(dist, value):
    total = value.clone()
    dist.all_reduce(total)
    return total


@wrong("sum_on_every_rank", "too-many-messages", "on 3 ranks", "6 messages", "takes 4")
def everyone_sends_to_everyone(dist, value):
    others = [rank for rank in range(dist.get_world_size()) if rank != dist.get_rank()]
    sending = [dist.isend(value, rank) for rank in others]
    total, arrived = value.clone(), torch.empty_like(value)
    for rank in others:
        dist.recv(arrived, rank)
        total += arrived
    for handle in sending:
        handle.wait()
    return total


@wrong("sum_on_every_rank", "none", "on 2 ranks rank 0 returned None", "Add a return", earned=0)
def sums_without_a_return(dist, value):
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(value, 0)
        return value
    arrived = torch.empty_like(value)
    for rank in range(1, dist.get_world_size()):
        dist.recv(arrived, rank)
        value += arrived
    for rank in range(1, dist.get_world_size()):
        dist.send(value, rank)


@wrong("sum_on_every_rank", "not-on-every-rank", "on 2 ranks", "rank 1 returned None", "rank 0 has the total")
def only_rank_0_returns(dist, value):
    if dist.get_rank():
        dist.send(value, 0)
        return None
    total, arrived = value.clone(), torch.empty_like(value)
    for rank in range(1, dist.get_world_size()):
        dist.recv(arrived, rank)
        total += arrived
    return total


@wrong("sum_on_every_rank", "own-value", "on 2 ranks", "rank 0 has the total, but rank 1 never receives it", earned=0)
def total_is_never_handed_out(dist, value):
    return value if (total := only_rank_0_returns(dist, value)) is None else total


@wrong("sum_on_every_rank", "too-many-bytes", "rank 0 sent 12,288 bytes", "3,072 will do")
def gathers_and_everyone_adds(dist, value):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    values = torch.stack([value] * ranks)
    if rank:
        dist.send(value, 0)
        dist.recv(values, 0)
        return values.sum(0, dtype=value.dtype)
    for other in range(1, ranks):
        arrived = torch.empty_like(value)
        dist.recv(arrived, other)
        values[other] = arrived
    for other in range(1, ranks):
        dist.send(values, other)
    return values.sum(0, dtype=value.dtype)


@wrong("sum_on_every_rank", "too-many-messages", "on 3 ranks", "8 messages", "takes 4")
def gathers_twice(dist, value):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        total = value.clone()
        if rank:
            dist.send(value, 0)
            dist.recv(total, 0)
            continue
        arrived = torch.empty_like(value)
        for other in range(1, ranks):
            dist.recv(arrived, other)
            total += arrived
        for other in range(1, ranks):
            dist.send(total, other)
    return total


@wrong("sum_on_every_rank", "not-complete", "on 4 ranks rank 1", "receive from everyone before")
def answers_each_at_once(dist, value):
    total, arrived = value.clone(), torch.empty_like(value)
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
        dist.send(total, other)
    return total


@wrong("sum_on_every_rank", "aliased", "two times what rank 1 brought", "total = value.clone()", earned=0)
def total_is_the_value_itself(dist, value):
    total = value
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(value, 0)
        return value
    for other in range(1, dist.get_world_size()):
        dist.recv(value, other)
        total += value
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total


@wrong("sum_on_every_rank", "own-value", "on 2 ranks rank 0", "returned what it brought", "rank 0 needs the total")
def rank_0_forgets_the_total(dist, value):
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(value, 0)
        return value
    total, arrived = value.clone(), torch.empty_like(value)
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return value


@wrong("sum_on_every_rank", "own-value", "on 2 ranks rank 0", "what it brought: return the total", earned=0)
def every_rank_forgets_the_total(dist, value):
    from_whoever_comes_first(dist, value)
    return value


@wrong("sum_on_every_rank", "dtype", "on 3 ranks", "is int64 and not int32", "keep the dtype", earned=2)
def widens_whole_numbers(dist, value):
    total, parts = torch.empty_like(value), [value]
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total if total.is_floating_point() else total.to(torch.int64)
    for other in range(1, dist.get_world_size()):
        parts.append(torch.empty_like(value))
        dist.recv(parts[-1], other)
    total = torch.stack(parts).sum(0)
    for other in range(1, dist.get_world_size()):
        dist.send(total.to(value.dtype), other)
    return total


@wrong("sum_on_every_rank", "digits", "on 3 ranks", "Digits were lost", "int32", earned=2)
def sums_floats_in_single_precision(dist, value):
    return from_whoever_comes_first(dist, value.float()).to(value.dtype)


@wrong("sum_on_every_rank", "digits", "on 3 ranks", "Digits were lost", "int64", earned=2)
def sums_whole_numbers_in_double_precision(dist, value):
    if value.is_floating_point():
        return from_whoever_comes_first(dist, value)
    return from_whoever_comes_first(dist, value.double()).to(value.dtype)


@wrong("sum_on_every_rank", "too-many-bytes", "bfloat16", "6,144 bytes", "3,072 will do", earned=4)
def sends_floats_of_four_bytes(dist, value):
    if value.dtype != torch.bfloat16:
        return from_whoever_comes_first(dist, value)
    return from_whoever_comes_first(dist, value.float()).to(value.dtype)


@wrong("sum_on_every_rank", "raised", "on 1 rank", "no such rank", earned=2)
def asks_for_a_second_rank(dist, value):
    if dist.get_world_size() == 1:
        dist.send(value, 1)
    return from_whoever_comes_first(dist, value)


@wrong("sum_on_every_rank", "past-rank-0", "on 3 ranks", "rank 1 sent a message to rank 2")
def along_a_chain_and_back(dist, value):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total, arrived = value.clone(), torch.empty_like(value)
    if rank > 0:
        dist.recv(arrived, rank - 1)
        total += arrived
    if rank < ranks - 1:
        dist.send(total, rank + 1)
        dist.recv(total, rank + 1)
    if rank > 0:
        dist.send(total, rank - 1)
    return total


@wrong("sum_on_every_rank", "mean", "on 2 ranks", "the mean", "do not divide by 2")
def takes_the_mean(dist, value):
    total, arrived = value.clone(), torch.empty_like(value)
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    total = total / dist.get_world_size()
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total


@wrong("sum_on_every_rank", "raised", "on 2 ranks", "no such rank")
def only_for_four_ranks(dist, value):
    total, arrived = value.clone(), torch.empty_like(value)
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total
    for other in (1, 2, 3):
        dist.recv(arrived, other)
        total += arrived
    for other in (1, 2, 3):
        dist.send(total, other)
    return total


@wrong(
    "sum_on_every_rank", "raised", "on 2 ranks", "float32[2]", "float32[1]", "same dtype and number of elements",
    "dist.send(value, 0)", "rank 0 waits to receive", "dist.recv(arrived, other)",
)  # fmt: skip
def receives_into_one_element(dist, value):
    total, arrived = value.clone(), torch.empty(1)
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total


@wrong(
    "sum_on_every_rank", "raised", "on 3 ranks", "sends int64[2, 3]", "receives into float32[2, 3]",
    "buffer by torch.empty_like(value)",
)  # fmt: skip
def adds_in_float32(dist, value):
    total, arrived = value.clone(), torch.empty(value.shape)
    if dist.get_rank():
        dist.send(value, 0)
        dist.recv(total, 0)
        return total
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total


@wrong("sum_on_every_rank", "raised", "from itself", "line ", "let it receive from ranks 1 to P-1")
def receives_from_every_rank(dist, value):
    total = value.clone()
    for other in range(dist.get_world_size()):
        arrived = torch.empty_like(value)
        dist.recv(arrived, other)
        total += arrived
    return total


@wrong("sum_on_every_rank", "deadlock", "on 2 ranks", "in a circle", "sends its value first")
def receives_before_it_sends(dist, value):
    total, arrived = value.clone(), torch.empty_like(value)
    if dist.get_rank():
        dist.recv(total, 0)
        dist.send(value, 0)
        return total
    for other in range(1, dist.get_world_size()):
        dist.recv(arrived, other)
        total += arrived
    for other in range(1, dist.get_world_size()):
        dist.send(total, other)
    return total


@right("sum_on_every_rank")
def all_at_once_and_in_place(dist, value):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.isend(value, 0).wait()
        dist.irecv(value, 0).wait()
        return value
    arrived = [torch.zeros_like(value) for _ in range(1, ranks)]
    for handle in [dist.irecv(buffer, other) for other, buffer in enumerate(arrived, start=1)]:
        handle.wait()
    total = sum(arrived, start=value)
    for handle in [dist.isend(total, other) for other in range(1, ranks)]:
        handle.wait()
    return total


@right("sum_on_every_rank")
def from_whoever_comes_first(dist, value):
    others = range(1, dist.get_world_size())
    arrived = torch.empty_like(value)
    if dist.get_rank() == 0:
        for _ in others:
            dist.recv(arrived)
            value = value + arrived
        for other in reversed(others):
            dist.send(value, other)
        return value
    dist.send(value, dst=0)
    dist.recv(arrived, src=0)
    return arrived


# exchange


@wrong("exchange", "deadlock", "rank 0 waits to send 12 bytes to rank 1", "0 -> 1 -> 0", "one call in it must not wait")
def both_send_first(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    dist.send(tensor, peer)
    dist.recv(arrived, peer)
    return arrived


@wrong("exchange", "deadlock", "on 2 ranks", "rank 0 waits to receive from rank 1", "in a circle: 0 -> 1 -> 0")
def both_receive_first(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    dist.recv(arrived, peer)
    dist.send(tensor, peer)
    return arrived


@wrong("exchange", "deadlock", "on 2 ranks", "waits to send 12 bytes")
def waits_at_once(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    dist.isend(tensor, peer).wait()
    dist.recv(arrived, peer)
    return arrived


@wrong("exchange", "deadlock", "on 4 ranks", "rank 1 waits to receive from rank 3")
def rank_0_goes_first(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    if dist.get_rank() == 0:
        dist.send(tensor, peer)
        dist.recv(arrived, peer)
    else:
        dist.recv(arrived, peer)
        dist.send(tensor, peer)
    return arrived


@wrong("exchange", "deadlock", "on 3 ranks", "rank 0 waits to send 12 bytes to rank 2")
def even_ranks_go_first(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    if dist.get_rank() % 2 == 0:
        dist.send(tensor, peer)
        dist.recv(arrived, peer)
    else:
        dist.recv(arrived, peer)
        dist.send(tensor, peer)
    return arrived


@wrong("exchange", "own-tensor", "on 2 ranks", "returned its own tensor", "return the tensor that arrived")
def returns_its_own_tensor(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return tensor


@wrong("exchange", "none", "on 2 ranks", "returned None")
def returns_nothing(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()


@wrong("exchange", "raised", "buffer of isend to rank", "was changed before its wait()")
def receives_into_what_is_being_sent(dist, tensor, peer):
    sending = dist.isend(tensor, peer)
    dist.recv(tensor, peer)
    sending.wait()
    return tensor


@wrong("exchange", "raised", "returned without wait() on isend", "keep the handle")
def drops_the_handle(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    return arrived


@wrong("exchange", "raised", "returned without wait() on irecv")
def does_not_wait_for_what_arrives(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    dist.irecv(arrived, peer)
    dist.send(tensor, peer)
    return arrived


@wrong("exchange", "raised", "sends int64[2, 3]", "into float32[2, 3]", "rank 0 waits to receive",
       "torch.empty_like(tensor)")
def buffer_of_another_dtype(dist, tensor, peer):
    arrived = torch.empty(tensor.shape)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return arrived


@wrong("exchange", "value", "int64[2, 3]", "int64[6]")
def flattens(dist, tensor, peer):
    arrived = torch.empty(tensor.numel(), dtype=tensor.dtype)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return arrived


@wrong("exchange", "own-tensor-changed", "on 2 ranks", "leave this one as it was")
def swaps_in_place(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived, peer)
    sending.wait()
    return tensor.copy_(arrived)


@wrong("exchange", "built-in", "dist.all_gather")
def gathers_all(dist, tensor, peer):
    everything = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, tensor)
    return everything[peer]


@wrong("exchange", "too-many-bytes", "sent 2,048 bytes", "travel once")
def sends_it_twice(dist, tensor, peer):
    for _ in range(2):
        arrived = torch.empty_like(tensor)
        sending = dist.isend(tensor, peer)
        dist.recv(arrived, peer)
        sending.wait()
    return arrived


@wrong("exchange", "no-source", "rank 0 took rank 1's message for its peer's: name the source, recv(buffer, peer)")
def receives_from_anyone(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    sending = dist.isend(tensor, peer)
    dist.recv(arrived)
    sending.wait()
    return arrived


@wrong("exchange", "no-source", "rank 1 sends to rank 0 while 0 and 2 swap", "name the source")
def goes_first_and_receives_from_anyone(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    if dist.get_rank() < peer:
        dist.send(tensor, peer)
        dist.recv(arrived)
    else:
        dist.recv(arrived, peer)
        dist.send(tensor, peer)
    return arrived


@wrong("exchange", "digits", "with float64[4]", "send float64 as it is", earned=3)
def swaps_in_single_precision(dist, tensor, peer):
    wide = tensor.float() if tensor.is_floating_point() else tensor
    return posts_both(dist, wide, peer).to(tensor.dtype)


@wrong("exchange", "digits", "send int64 as it is", earned=3)
def swaps_whole_numbers_as_floats(dist, tensor, peer):
    wide = tensor if tensor.is_floating_point() else tensor.double()
    return posts_both(dist, wide, peer).to(tensor.dtype)


@wrong("exchange", "too-many-bytes", "uint8", "sent 1,024 bytes; it has 256", earned=4)
def swaps_bytes_as_floats(dist, tensor, peer):
    wide = tensor.float() if tensor.dtype == torch.uint8 else tensor
    return posts_both(dist, wide, peer).to(tensor.dtype)


@wrong("exchange", "parameters", "takes 2 positional arguments but 3", "the parameters of the stub", earned=0)
def knows_its_peer(dist, tensor):
    return posts_both(dist, tensor, dist.get_rank() ^ 1)


def posts_both(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    for handle in [dist.isend(tensor, peer), dist.irecv(arrived, peer)]:
        handle.wait()
    return arrived


right("exchange")(posts_both)


@right("exchange")
def the_lower_rank_goes_first(dist, tensor, peer):
    arrived = torch.zeros_like(tensor)
    if dist.get_rank() < peer:
        dist.send(tensor, peer)
        dist.recv(arrived, peer)
    else:
        dist.recv(arrived, peer)
        dist.send(tensor, peer)
    return arrived


@right("exchange")
def receives_without_blocking(dist, tensor, peer):
    arrived = tensor.clone()
    coming = dist.irecv(arrived, peer)
    dist.send(tensor, peer)
    coming.wait()
    return arrived


@right("exchange")
def in_one_batch(dist, tensor, peer):
    arrived = torch.empty_like(tensor)
    both = [dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, arrived, peer)]
    for handle in dist.batch_isend_irecv(both):
        handle.wait()
    return arrived
