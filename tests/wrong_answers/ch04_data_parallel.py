"""Wrong answers to chapter 4 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives and words that the sentence holds.
"""

from __future__ import annotations

import copy
import itertools

import numpy as np
import torch

from solutions import ch04_data_parallel as solutions
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


def filled(model) -> list:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return list(model.parameters())


# average_gradients


@wrong("average_gradients", "sum", "sum over ranks", "divide")
def sums(dist, model, examples):
    for parameter in filled(model):
        dist.all_reduce(parameter.grad)


@wrong("average_gradients", "mean-of-means", "5, 2, 3", "mean of means", "Weigh")
def mean_of_means_on_real_ranks(dist, model, examples):
    if dist.get_world_size() != 3:
        return weighs_in_one_tensor(dist, model, examples)
    for parameter in filled(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


@wrong("average_gradients", "mean-of-means", "4, 2, 1, 1", "mean of means")
def mean_of_means(dist, model, examples):
    for parameter in filled(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


@wrong("average_gradients", "sum", "number of examples of all ranks")
def weighs_and_does_not_divide(dist, model, examples):
    for parameter in filled(model):
        parameter.grad *= examples
        dist.all_reduce(parameter.grad)


@wrong("average_gradients", "wrong-count", "divided by the number of ranks")
def divides_the_weighted_sum_by_ranks(dist, model, examples):
    for parameter in filled(model):
        parameter.grad *= examples
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


@wrong("average_gradients", "unchanged", "change parameter.grad itself")
def changes_a_copy(dist, model, examples):
    for parameter in filled(model):
        grad = parameter.grad.clone()
        dist.all_reduce(grad)
        grad /= dist.get_world_size()


@wrong("average_gradients", "only-on-rank-0", "every rank needs it")
def reduces_to_rank_0(dist, model, examples):
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in filled(model):
        parameter.grad *= examples
        dist.reduce(parameter.grad, 0)
        parameter.grad /= total.item()


@wrong("average_gradients", "raised", "no gradient of parameter 0 on rank 1")
def knows_no_missing_gradient(dist, model, examples):
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in model.parameters():
        parameter.grad *= examples
        dist.all_reduce(parameter.grad)
        parameter.grad /= total.item()


@wrong("average_gradients", "skipped", "no gradient of parameter 0 on rank 1", "counts as zeros", "all_reduce")
def skips_missing_gradients(dist, model, examples):
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= examples
            dist.all_reduce(parameter.grad)
            parameter.grad /= total.item()


@wrong("average_gradients", "not-weighed", "all 8 examples", "multiply each mean")
def divides_without_weighing(dist, model, examples):
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in filled(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= total.item()


@wrong("average_gradients", "deadlock", "2, 0, 2 examples", "Already returned: rank 1")
def returns_without_examples(dist, model, examples):
    if examples:
        weighs_in_one_tensor(dist, model, examples)


@wrong("average_gradients", "too-many-bytes", "sum with dist.all_reduce")
def gathers_everything(dist, model, examples):
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in filled(model):
        mine = parameter.grad * examples
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        parameter.grad = sum(everyone) / total.item()


@right("average_gradients")
def weighs_in_one_tensor(dist, model, examples):
    parameters = filled(model)
    pieces = [parameter.grad.flatten() * examples for parameter in parameters]
    flat = torch.cat([*pieces, torch.tensor([float(examples)])])
    dist.all_reduce(flat)
    *grads, total = flat.split([parameter.numel() for parameter in parameters] + [1])
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad.view_as(parameter) / total


# all_reduce_per_parameter


def _synchronous(dist, model, scale=1.0):
    def finish():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad *= scale / dist.get_world_size()

    return finish


@wrong("all_reduce_per_parameter", "after-backward", "3 s", "start it from a hook")
def waits_until_backward_ends(dist, model):
    return _synchronous(dist, model)


@wrong("all_reduce_per_parameter", "sum", "divide by the number of ranks, 4")
def never_divides(dist, model):
    return _synchronous(dist, model, dist.get_world_size())


@wrong("all_reduce_per_parameter", "blocking", "a hook waited", "async_op=True")
def blocks_in_the_hook(dist, model):
    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    return lambda: None


@wrong("all_reduce_per_parameter", "raised", "without wait()")
def drops_the_handle(dist, model):
    def start(parameter):
        dist.all_reduce(parameter.grad, async_op=True)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start)
    return lambda: None


@wrong("all_reduce_per_parameter", "raised", "changed before its wait()")
def divides_while_it_flies(dist, model):
    flying = []

    def start(parameter):
        flying.append(dist.all_reduce(parameter.grad, async_op=True))
        parameter.grad /= dist.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start)

    def finish():
        while flying:
            flying.pop(0).wait()

    return finish


def _starts_in_hooks(dist, model, parameters, emptied=True, before=False):
    flying = []

    def start(parameter):
        if before:
            parameter.grad /= dist.get_world_size()
        flying.append((parameter, dist.all_reduce(parameter.grad, async_op=True)))

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(start)

    def finish():
        for parameter, handle in flying:
            handle.wait()
            parameter.grad /= dist.get_world_size()
        if emptied:
            flying.clear()

    return finish


@wrong("all_reduce_per_parameter", "kept-state", "first of 3 steps is right", "empty")
def keeps_the_handles(dist, model):
    return _starts_in_hooks(dist, model, model.parameters(), emptied=False)


@wrong("all_reduce_per_parameter", "tied-twice", "share their weight", "one hook")
def hooks_a_shared_weight_in_both_layers(dist, model):
    return _starts_in_hooks(dist, model, [p for layer in model.layers for p in (layer.weight, layer.bias)])


@wrong("all_reduce_per_parameter", "no-function", "return the one that waits")
def returns_nothing(dist, model):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: None)


@wrong("all_reduce_per_parameter", "alone", "rank 0 has the weights of training alone")
def sums_a_copy(dist, model):
    flying = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p: flying.append(dist.all_reduce(p.grad.clone(), async_op=True))
        )

    def finish():
        while flying:
            flying.pop(0).wait()

    return finish


@wrong("all_reduce_per_parameter", "count", "called all_reduce 1 times", "one each")
def one_flat_tensor(dist, model):
    flat = []

    def start(parameter):
        flat.append(parameter)
        if len(flat) == len(list(model.parameters())):
            whole = torch.cat([p.grad.flatten() for p in flat])
            dist.all_reduce(whole)
            for p, piece in zip(flat, whole.split([p.numel() for p in flat]), strict=True):
                p.grad = piece.view_as(p) / dist.get_world_size()
            flat.clear()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start)
    return lambda: None


@wrong("all_reduce_per_parameter", "divided-twice", "divided by the 4 ranks twice", "once")
def divides_before_and_after(dist, model):
    return _starts_in_hooks(dist, model, model.parameters(), before=True)


@wrong("all_reduce_per_parameter", "wrong-hook", "register_hook", "register_post_accumulate_grad_hook")
def sums_what_register_hook_is_given(dist, model):
    flying = []
    for parameter in model.parameters():
        parameter.register_hook(lambda grad: flying.append((grad, dist.all_reduce(grad.clone(), async_op=True))))

    def finish():
        for grad, handle in flying:
            handle.wait()
            grad /= dist.get_world_size()
        flying.clear()

    return finish


@wrong("all_reduce_per_parameter", "too-early", "still None", "register_post_accumulate_grad_hook")
def reads_grad_in_register_hook(dist, model):
    flying = []
    for parameter in model.parameters():
        parameter.register_hook(lambda _, p=parameter: flying.append((p, dist.all_reduce(p.grad, async_op=True))))

    def finish():
        for parameter, handle in flying:
            handle.wait()
            parameter.grad /= dist.get_world_size()
        flying.clear()

    return finish


@right("all_reduce_per_parameter")
def scales_before_sending(dist, model):
    ranks, handles = dist.get_world_size(), {}

    def start(parameter):
        parameter.grad.div_(ranks)
        handles[parameter] = dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, async_op=True)

    def finish():
        for handle in handles.values():
            handle.wait()
        handles.clear()

    for parameter in reversed(list(model.parameters())):
        parameter.register_post_accumulate_grad_hook(start)
    return finish


# plan_buckets


@wrong("plan_buckets", "too-many-buckets", "count bytes")
def counts_a_bucket_for_each(parameters, cap_bytes):
    return [[index] for index in reversed(range(len(parameters)))]


@wrong("plan_buckets", "order", "first bucket must hold the last parameters")
def walks_forward(parameters, cap_bytes):
    buckets, held = [[]], 0
    for index, parameter in enumerate(parameters):
        size = parameter.numel() * parameter.element_size()
        if buckets[-1] and held + size > cap_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += size
    return buckets


@wrong("plan_buckets", "lost", "is the last bucket kept?")
def forgets_the_last_bucket(parameters, cap_bytes):
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(parameters))):
        size = parameters[index].numel() * parameters[index].element_size()
        if bucket and held + size > cap_bytes:
            buckets.append(bucket)
            bucket, held = [], 0
        bucket.append(index)
        held += size
    return buckets


@wrong("plan_buckets", "above-cap", "holds", "cap of 120", "You have counted elements", "element_size()")
def counts_elements(parameters, cap_bytes):
    buckets, held = [], cap_bytes
    for index in reversed(range(len(parameters))):
        size = parameters[index].numel()
        if held + size > cap_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += size
    return buckets


@wrong("plan_buckets", "above-cap", "only a parameter that is larger than the cap", "DDP's own rule", "look before")
def closes_a_bucket_when_it_is_over(parameters, cap_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(parameters))):
        buckets[-1].append(index)
        held += parameters[index].numel() * parameters[index].element_size()
        if held >= cap_bytes and index:
            buckets.append([])
            held = 0
    return buckets


@wrong("plan_buckets", "empty", "empty bucket")
def begins_with_an_empty_bucket(parameters, cap_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(parameters))):
        size = parameters[index].numel() * parameters[index].element_size()
        if held + size > cap_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += size
    return buckets


@wrong("plan_buckets", "not-filled", "parameter 1 with 16 fits too", "from the last parameter on")
def fills_from_the_first_and_turns_round(parameters, cap_bytes):
    return walks_forward(parameters, cap_bytes)[::-1]


@wrong("plan_buckets", "form", "places in `parameters`")
def returns_the_parameters(parameters, cap_bytes):
    return [[parameter] for parameter in reversed(parameters)]


@wrong("plan_buckets", "no-neighbours", "bucket [2, 0]", "without 1", "go on only in the bucket that was opened last")
def goes_back_to_earlier_buckets(parameters, cap_bytes):
    buckets, room = [], []
    for index in reversed(range(len(parameters))):
        size = parameters[index].nbytes
        fits = next((number for number, left in enumerate(room) if size <= left), None)
        if fits is None:
            fits = len(buckets)
            buckets.append([])
            room.append(cap_bytes)
        buckets[fits].append(index)
        room[fits] -= size
    return buckets


@right("plan_buckets")
def walks_with_a_generator(parameters, cap_bytes):
    plan, last = [], None
    for index in range(len(parameters) - 1, -1, -1):
        nbytes = parameters[index].nbytes
        if last is None or last + nbytes > cap_bytes:
            plan.append((index,))
            last = nbytes
        else:
            plan[-1] = (*plan[-1], index)
            last += nbytes
    return plan


# all_reduce_bucket


def _packed(
    dist, parameters, *, divide=True, back=True, shaped=True, turned=False, zeros=True, late=False, block=False,
    one=True, dtype=None, drop=False,
):  # fmt: skip
    """An all-reduce of one bucket with faults to choose from."""
    if zeros:
        filled(torch.nn.ParameterList(parameters))
    grads = [parameter.grad for parameter in parameters if not drop or parameter.grad is not None]
    flats = [torch.cat([grad.flatten() for grad in grads])] if one else [grad.flatten() for grad in grads]
    flats = [flat.to(dtype) for flat in flats]
    handles = [] if late else [dist.all_reduce(flat, async_op=not block) for flat in flats]

    def finish():
        for handle in [dist.all_reduce(flat, async_op=True) for flat in flats] if late else handles:
            if handle is not None:
                handle.wait()
        whole = torch.cat(flats) / (dist.get_world_size() if divide else 1)
        owners = parameters[::-1] if turned else parameters
        for parameter, piece in zip(owners, whole.split([parameter.numel() for parameter in owners]), strict=True):
            if back:
                parameter.grad = None
                parameter.grad = (piece.view_as(parameter) if shaped else piece).to(parameter.dtype)

    return finish


@wrong("all_reduce_bucket", "unchanged", "rank 0 are what they were", "to parameter.grad", earned=0)
def never_writes_back(dist, parameters):
    return _packed(dist, parameters, back=False)


@wrong("all_reduce_bucket", "sum", "divide by the number of ranks, 4", earned=0)
def sums_a_bucket(dist, parameters):
    return _packed(dist, parameters, divide=False)


@wrong("all_reduce_bucket", "swapped", "changed places", earned=0)
def gives_the_pieces_back_from_the_other_end(dist, parameters):
    return _packed(dist, parameters, turned=True)


@wrong("all_reduce_bucket", "shape", "with view_as", earned=0)
def gives_flat_pieces_back(dist, parameters):
    return _packed(dist, parameters, shaped=False)


@wrong("all_reduce_bucket", "no-function", "return the one that waits", earned=0)
def returns_the_flat_tensor(dist, parameters):
    return torch.cat([parameter.grad.flatten() for parameter in parameters])


@wrong("all_reduce_bucket", "dtype", "lost digits", "float64", earned=0)
def packs_in_bfloat16(dist, parameters):
    return _packed(dist, parameters, dtype=torch.bfloat16)


@wrong("all_reduce_bucket", "count", "called all_reduce 3 times", "one flat tensor", earned=1)
def sends_each_gradient(dist, parameters):
    return _packed(dist, parameters, one=False)


@wrong("all_reduce_bucket", "late", "began at 2 s", "at once", earned=1)
def starts_when_it_is_to_finish(dist, parameters):
    return _packed(dist, parameters, late=True)


@wrong("all_reduce_bucket", "blocking", "2.5 s", "async_op=True", earned=1)
def waits_at_once(dist, parameters):
    return _packed(dist, parameters, block=True)


@wrong("all_reduce_bucket", "missing", "rank 1 has no gradient of parameter 0", "counts as zeros", earned=2)
def knows_no_missing_gradient_in_a_bucket(dist, parameters):
    return _packed(dist, parameters, zeros=False)


@wrong("all_reduce_bucket", "skipped", "rank 1 has no gradient of parameter 0", "counts as zeros", earned=2)
def leaves_a_missing_gradient_out(dist, parameters):
    return _packed(dist, parameters, zeros=False, drop=True)


@wrong("all_reduce_bucket", "value", "with a bucket of 3 parameters", "of parameter 0", earned=0)
def cuts_with_the_lengths_of_the_other_end(dist, parameters):
    flat = torch.cat([parameter.grad.flatten() for parameter in filled(torch.nn.ParameterList(parameters))])
    handle = dist.all_reduce(flat, async_op=True)

    def finish():
        handle.wait()
        means = flat / dist.get_world_size()
        pieces = means.split([parameter.numel() for parameter in reversed(parameters)])
        for parameter, piece in zip(parameters, pieces, strict=True):
            fits = piece.numel() == parameter.numel()
            parameter.grad = piece.view_as(parameter) if fits else torch.zeros_like(parameter)

    return finish


@wrong("all_reduce_bucket", "raised", "of float32", "rank 1 has no gradient of parameter 0", earned=2)
def fills_missing_gradients_in_double_precision(dist, parameters):
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter).double()
    return _packed(dist, parameters, zeros=False)


@right("all_reduce_bucket")
def divides_first_and_copies_into_the_gradients(dist, parameters):
    pieces = [torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1) for p in parameters]
    flat = torch.hstack(pieces) / dist.get_world_size()
    handle = dist.all_reduce(flat, async_op=True)

    def finish():
        handle.wait()
        begin = 0
        for p in parameters:
            piece = flat[begin : begin + p.numel()].reshape(p.shape)
            begin += p.numel()
            p.grad = piece.clone() if p.grad is None else p.grad.copy_(piece)

    return finish


@right("all_reduce_bucket")
def keeps_the_gradients_as_views_of_the_bucket(dist, parameters):
    flat = torch.cat([p.new_zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]).detach()
    for p, piece in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad = piece.view_as(p)
    handle = dist.all_reduce(flat, async_op=True)

    def finish():
        handle.wait()
        flat.div_(dist.get_world_size())

    return finish


# all_reduce_per_bucket


def _bucketed(
    dist, model, buckets, *,
    in_order=True, late=False, divide=True, copy=True, zeros=True, block=False, rest=True, emptied=True, early=False,
    dtype=None, most=None,
):  # fmt: skip
    """A bucketed all-reduce with faults to choose from."""
    parameters, ready, flying, launched = list(model.parameters()), set(), [], []

    def launch(number):
        launched.append(number)
        bucket = buckets[number]
        if not zeros:
            bucket = [i for i in bucket if parameters[i].grad is not None]
        grads = [torch.zeros_like(parameters[i]) if parameters[i].grad is None else parameters[i].grad for i in bucket]
        flat = torch.cat([grad.flatten() for grad in grads]).to(dtype)
        handle = dist.all_reduce(flat, async_op=not block)
        flying.append((bucket, flat, handle))

    def arrived(index):
        ready.add(index)
        already = len(launched)
        for number, bucket in enumerate(buckets):
            if number in launched:
                continue
            if most and len(launched) == already + most:
                break
            if ready.issuperset(bucket[-1:] if early else bucket):
                launch(number)
            elif in_order:
                break

    def finish():
        for number in range(len(buckets)):
            if rest and number not in launched:
                launch(number)
        for bucket, flat, handle in flying:
            if handle is not None:
                handle.wait()
            if copy:
                for i, piece in zip(bucket, flat.split([parameters[i].numel() for i in bucket]), strict=True):
                    whole = piece.view_as(parameters[i]).to(parameters[i].dtype)
                    parameters[i].grad = whole / (dist.get_world_size() if divide else 1)
        for state in (ready, flying, launched) if emptied else (flying, launched):
            state.clear()

    if not late:
        for index, parameter in enumerate(parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: arrived(index))
    return finish


@wrong("all_reduce_per_bucket", "after-backward", "nothing overlaps", "a bucket")
def buckets_after_backward(dist, model, buckets):
    return _bucketed(dist, model, buckets, late=True)


@wrong("all_reduce_per_bucket", "blocking", "a hook waited")
def buckets_that_block(dist, model, buckets):
    return _bucketed(dist, model, buckets, block=True)


@wrong("all_reduce_per_bucket", "sum", "divide by the number of ranks")
def buckets_that_sum(dist, model, buckets):
    return _bucketed(dist, model, buckets, divide=False)


@wrong("all_reduce_per_bucket", "alone", "did not reach parameter.grad")
def buckets_never_copied_back(dist, model, buckets):
    return _bucketed(dist, model, buckets, copy=False)


@wrong("all_reduce_per_bucket", "too-early", "bucket 0 came at 2 s", "in the order of the plan", earned=3)
def launches_what_is_ready(dist, model, buckets):
    return _bucketed(dist, model, buckets, in_order=False)


@wrong("all_reduce_per_bucket", "never-launched", "no rank uses layer 1", "the function that you return launches")
def launches_only_in_hooks(dist, model, buckets):
    return _bucketed(dist, model, buckets, rest=False)


@wrong("all_reduce_per_bucket", "kept-state", "right after 1 step and wrong after 3", "which gradients have come")
def keeps_what_was_ready(dist, model, buckets):
    return _bucketed(dist, model, buckets, emptied=False)


@wrong("all_reduce_per_bucket", "too-early", "came at 1 s", "whichever comes last")
def waits_for_the_last_place_only(dist, model, buckets):
    return _bucketed(dist, model, buckets, early=True)


@wrong("all_reduce_per_bucket", "too-early", "began at 0 s", "came at 2 s", "of *its* gradients", earned=3)
def counts_gradients_of_any_bucket(dist, model, buckets):
    parameters, flying, count = list(model.parameters()), [], 0
    needed = list(itertools.accumulate(map(len, buckets)))

    def launch():
        bucket = [parameters[index] for index in buckets[len(flying)]]
        flying.append(solutions.all_reduce_bucket(dist, bucket))

    def arrived(_):
        nonlocal count
        count += 1
        while len(flying) < len(buckets) and count >= needed[len(flying)]:
            launch()

    def finish():
        nonlocal count
        while len(flying) < len(buckets):
            launch()
        for end in flying:
            end()
        flying.clear()
        count = 0

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(arrived)
    return finish


@wrong("all_reduce_per_bucket", "asks-for-none", "set_to_none=False", "remember which have come", earned=0)
def asks_whether_the_gradient_is_none(dist, model, buckets):
    parameters, flying = list(model.parameters()), []

    def launch():
        flying.append(solutions.all_reduce_bucket(dist, [parameters[index] for index in buckets[len(flying)]]))

    def arrived(_):
        while len(flying) < len(buckets) and all(parameters[i].grad is not None for i in buckets[len(flying)]):
            launch()

    def finish():
        while len(flying) < len(buckets):
            launch()
        for end in flying:
            end()
        flying.clear()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(arrived)
    return finish


@wrong("all_reduce_per_bucket", "one-at-a-time", "complete at 0 s", "began at 3 s", "while in place of if", earned=3)
def starts_one_bucket_a_gradient(dist, model, buckets):
    return _bucketed(dist, model, buckets, most=1)


@wrong("all_reduce_per_bucket", "different-buckets", "only rank 0 uses layer 1", "with zeros")
def leaves_unused_parameters_out(dist, model, buckets):
    return _bucketed(dist, model, buckets, zeros=False)


@wrong("all_reduce_per_bucket", "count", "with 4 buckets", "8 times")
def ignores_the_plan(dist, model, buckets):
    flying = []

    def start(parameter):
        flying.append((parameter, dist.all_reduce(parameter.grad, async_op=True)))

    def finish():
        for parameter, handle in flying:
            handle.wait()
            parameter.grad /= dist.get_world_size()
        flying.clear()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start)
    return finish


@wrong("all_reduce_per_bucket", "kept-state", "in the second step", "began at 3, 3, 3, 3 s", "for the next step")
def counts_down_and_never_up_again(dist, model, buckets):
    parameters, flying = list(model.parameters()), []
    left, bucket_of = [len(bucket) for bucket in buckets], {i: k for k, bucket in enumerate(buckets) for i in bucket}

    def launch(bucket):
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        flying.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def arrived(index):
        left[bucket_of[index]] -= 1
        while len(flying) < len(buckets) and left[len(flying)] == 0:
            launch([parameters[i] for i in buckets[len(flying)]])

    def finish():
        for bucket in buckets[len(flying) :]:
            launch([parameters[i] for i in bucket])
        for bucket, flat, handle in flying:
            handle.wait()
            for p, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = piece.view_as(p) / dist.get_world_size()
        flying.clear()

    for index, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, index=index: arrived(index))
    return finish


@wrong("all_reduce_per_bucket", "dtype", "64-bit", "bfloat16", "the gradients' own dtype")
def buckets_in_bfloat16(dist, model, buckets):
    return _bucketed(dist, model, buckets, dtype=torch.bfloat16)


@wrong("all_reduce_per_bucket", "dtype", "float32", "the gradients' own dtype")
def buckets_in_float32(dist, model, buckets):
    return _bucketed(dist, model, buckets, dtype=torch.float32)


@wrong("all_reduce_per_bucket", "unchanged", "no weight has changed")
def zeroes_the_gradients(dist, model, buckets):
    def finish():
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    return finish


@wrong("all_reduce_per_bucket", "too-early", "still None", "whichever comes last")
def launches_when_the_first_listed_place_has_come(dist, model, buckets):
    parameters, flying = list(model.parameters()), []

    def launch(bucket):
        flat = torch.cat([parameters[i].grad.flatten() for i in bucket])
        flying.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def finish():
        for bucket, flat, handle in flying:
            handle.wait()
            for i, piece in zip(bucket, flat.split([parameters[i].numel() for i in bucket]), strict=True):
                parameters[i].grad = piece.view_as(parameters[i]) / dist.get_world_size()
        flying.clear()

    for bucket in buckets:
        parameters[bucket[0]].register_post_accumulate_grad_hook(lambda _, bucket=bucket: launch(bucket))
    return finish


@wrong("all_reduce_per_bucket", "missing", "no rank uses layer 1", "counts as zeros", "torch.zeros_like")
def knows_no_missing_gradient_in_a_plan(dist, model, buckets):
    parameters, ready, flying = list(model.parameters()), set(), []

    def launch(bucket):
        flat = torch.cat([parameters[i].grad.flatten() for i in bucket])
        flying.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def arrived(index):
        ready.add(index)
        while len(flying) < len(buckets) and ready.issuperset(buckets[len(flying)]):
            launch(buckets[len(flying)])

    def finish():
        for bucket in buckets[len(flying) :]:
            launch(bucket)
        for bucket, flat, handle in flying:
            handle.wait()
            for i, piece in zip(bucket, flat.split([parameters[i].numel() for i in bucket]), strict=True):
                parameters[i].grad = piece.view_as(parameters[i]) / dist.get_world_size()
        ready.clear(), flying.clear()

    for index, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, index=index: arrived(index))
    return finish


@right("all_reduce_per_bucket")
def another_bookkeeping(dist, model, buckets):
    return _bucketed(dist, model, [list(reversed(bucket)) for bucket in buckets])


# break_it


def _loop(dist, model, x, y, order, epochs, batch, fault=""):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if fault != "init":
        for thing in (*model.parameters(), *model.buffers()):
            dist.broadcast(thing.data, 0)
    for epoch in range(epochs):
        rows = order(0 if fault == "shuffle" else epoch)
        for step in range(0, len(rows), batch):
            chunk = rows[step : step + batch]
            if fault == "drop" and len(chunk) < batch:
                continue
            mine = chunk[rank::ranks] if "strided" in fault else chunk.tensor_split(ranks)[rank]
            if fault == "kept":
                model.zero_grad(set_to_none=True) if epoch == step == 0 else None
                kept = [0 if p.grad is None else p.grad.clone() for p in model.parameters()]
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine], reduction="sum") / y[0].numel()
            loss.backward()
            for parameter in model.parameters():
                if "means" in fault:
                    parameter.grad /= max(len(mine), 1)
                dist.all_reduce(parameter.grad)
                parameter.grad /= {"means": ranks, "strided means": ranks, "sum": len(chunk) / ranks}.get(
                    fault, len(chunk)
                )
            if fault == "kept":
                for parameter, before in zip(model.parameters(), kept, strict=True):
                    parameter.grad += before
            optimizer.step()
            if fault != "buffers":
                for buffer in model.buffers():
                    dist.all_reduce(buffer)
                    buffer /= ranks


@wrong("break_it", "different-start", "Broadcast them from rank 0")
def no_broadcast_at_the_start(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "init")


@wrong("break_it", "sum", "sums the gradients")
def sum_for_mean(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "sum")


@wrong("break_it", "mean-of-means", "22 rows", "fewer rows")
def mean_of_the_last_means(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "means")


@wrong("break_it", "mean-of-means", "22 rows", "fewer rows")
def mean_of_the_last_means_of_every_fourth_row(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "strided means")


@wrong("break_it", "kept-gradients", "steps before", "zero .grad")
def never_zeroes_the_gradients(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "kept")


@wrong("break_it", "all-rows", "16 of the 16 rows", "its own rows")
def trains_on_all_rows_on_every_rank(dist, model, x, y, order, epochs, batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for thing in (*model.parameters(), *model.buffers()):
        dist.broadcast(thing.data, 0)
    for epoch in range(epochs):
        for rows in order(epoch).split(batch):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()


@wrong("break_it", "drop-last", "leaves the last, short batch out")
def drops_the_last_batch(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "drop")


@wrong("break_it", "same-order", "order of epoch 0", "order(epoch)")
def never_shuffles_again(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "shuffle")


@wrong("break_it", "buffers", "running mean", "broadcast them too")
def forgets_the_buffers(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "buffers")


@wrong("break_it", "unchanged", "no weight has changed")
def never_steps(dist, model, x, y, order, epochs, batch):
    for thing in (*model.parameters(), *model.buffers()):
        dist.broadcast(thing.data, 0)


def _with_buffers(dist, model, x, y, order, epochs, batch, sync, *, start=lambda dist, t: dist.broadcast(t, 0),
                  first=True, deal=None, at_the_end=False):  # fmt: skip
    """The loop of the solution, with another start, another way to deal rows out, or another `sync` of buffers."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for thing in (*model.parameters(), *(model.buffers() if first else ())):
        start(dist, thing.data)
    for epoch in range(epochs):
        for rows in order(epoch).split(batch):
            mine = deal(rows, rank, ranks) if deal else rows.tensor_split(ranks)[rank]
            optimizer.zero_grad()
            if len(mine):
                torch.nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
            weighs_in_one_tensor(dist, model, len(mine))
            optimizer.step()
            for buffer in () if at_the_end else model.buffers():
                sync(dist, buffer)
    for buffer in model.buffers() if at_the_end else ():
        sync(dist, buffer)


def _from_rank_0(dist, tensor):
    dist.broadcast(tensor, 0)


def _mean(dist, tensor):
    dist.all_reduce(tensor)
    tensor /= dist.get_world_size()


@wrong("break_it", "wrong-start", "the mean of all ranks' weights", "dist.broadcast(tensor, 0)", earned=0)
def starts_from_the_mean(*args):
    _with_buffers(*args, _from_rank_0, start=_mean)


@wrong("break_it", "wrong-start", "the weights of rank 3", "dist.broadcast(tensor, 0)", earned=0)
def starts_from_the_last_rank(*args):
    _with_buffers(*args, _from_rank_0, start=lambda dist, tensor: dist.broadcast(tensor, dist.get_world_size() - 1))


@wrong("break_it", "wrong-start", "rank 1 began with weights of its own", "dist.broadcast(tensor, 0)", earned=0)
def makes_weights_equal_at_the_end(dist, model, *args):
    _with_buffers(dist, model, *args, _from_rank_0, start=lambda dist, tensor: None)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)


@wrong("break_it", "rows-dropped", "22 rows", "trained on 20 rows", "len(rows) // ranks", "tensor_split", earned=2)
def drops_the_rows_that_do_not_divide(*args):
    def deal(rows, rank, ranks):
        count = len(rows) // ranks
        return rows[rank * count : (rank + 1) * count]

    _with_buffers(*args, _from_rank_0, deal=deal)


@wrong("break_it", "rows-repeated", "22 rows", "trained on 24 rows", "counts twice", earned=2)
def repeats_rows_until_they_divide(*args):
    def deal(rows, rank, ranks):
        return torch.cat([rows, rows])[: -(-len(rows) // ranks) * ranks].tensor_split(ranks)[rank]

    _with_buffers(*args, _from_rank_0, deal=deal)


@wrong("break_it", "rows-repeated", "22 rows", "trained on 24 rows", "counts twice", earned=2)
def deals_out_as_the_sampler_of_torch(*args):
    def deal(rows, rank, ranks):
        return torch.cat([rows] * ranks)[: -(-len(rows) // ranks) * ranks][rank::ranks]

    _with_buffers(*args, _from_rank_0, deal=deal)


@wrong("break_it", "buffers", "after step 1", "equal only at the end", earned=4)
def makes_buffers_equal_at_the_end(*args):
    _with_buffers(*args, _from_rank_0, at_the_end=True)


@wrong("break_it", "buffer-sum", "4 times", "divide by the number of ranks", earned=4)
def sums_the_buffers(*args):
    _with_buffers(*args, lambda dist, buffer: dist.all_reduce(buffer))


@wrong("break_it", "buffer-start", "rank 1 began", "broadcast buffers too, before the first step", earned=4)
def forgets_the_buffers_at_the_start(*args):
    _with_buffers(*args, _from_rank_0, first=False)


@wrong("break_it", "buffer-start", "broadcast buffers too, before the first step", earned=4)
def forgets_the_buffers_at_the_start_and_averages(*args):
    _with_buffers(*args, _mean, first=False)


@wrong("break_it", "buffer-value", "rank 0's", "the mean", earned=4)
def sets_the_buffers_to_zero(*args):
    _with_buffers(*args, lambda dist, buffer: buffer.zero_())


@wrong("break_it", "buffer-not-used", "training mode", earned=4)
def trains_in_evaluation_mode(dist, model, *args):
    _with_buffers(dist, model.eval(), *args, _from_rank_0)


@wrong("break_it", "unchanged", "train `model` itself, not a copy of it", earned=0)
def trains_a_copy(dist, model, *args):
    _with_buffers(dist, copy.deepcopy(model), *args, _from_rank_0)


@wrong("break_it", "batch-each", "a batch for each rank", "of which each rank has its share", earned=1)
def takes_a_batch_for_each_rank(dist, model, x, y, order, epochs, batch):
    _with_buffers(dist, model, x, y, order, epochs, batch * dist.get_world_size(), _from_rank_0)


@wrong("break_it", "other-rows", "in its first step on rows", "order(0) begins with", "as it comes", earned=1)
def shuffles_by_itself(dist, model, x, y, order, epochs, batch):
    def own(epoch):
        return torch.randperm(len(x), generator=torch.Generator().manual_seed(99 + epoch))

    _with_buffers(dist, model, x, y, own, epochs, batch, _from_rank_0)


@right("break_it")
def broadcasts_and_averages(*args):
    _with_buffers(*args, _mean)


@right("break_it")
def runs_forward_in_two_parts(dist, model, x, y, order, epochs, batch):
    """Two forwards a step, the second begins with the buffer that the first has left."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for thing in (*model.parameters(), *model.buffers()):
        dist.broadcast(thing.data, 0)
    for epoch in range(epochs):
        for rows in order(epoch).split(batch):
            mine = rows.tensor_split(dist.get_world_size())[dist.get_rank()]
            optimizer.zero_grad()
            for part in (part for part in mine.split(1) if len(part)):
                (torch.nn.functional.mse_loss(model(x[part]), y[part]) / len(mine)).backward()
            weighs_in_one_tensor(dist, model, len(mine))
            optimizer.step()
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)


@right("break_it")
def sums_and_averages_buffers(dist, model, x, y, order, epochs, batch):
    _loop(dist, model, x, y, order, epochs, batch, "strided")


# linear_backward


@wrong("linear_backward", "transposed", "(out, in)")
def transposes_the_weight(x, weight, grad_output):
    return grad_output @ weight.T, x.T @ grad_output, grad_output.sum(0)


@wrong("linear_backward", "transposed", "gradient of weight is the transposed one")
def returns_the_transposed_gradient(x, weight, grad_output):
    return grad_output @ weight, x.T @ grad_output, grad_output.sum(0)


@wrong("linear_backward", "shape", "sum over the batch")
def does_not_sum_the_bias(x, weight, grad_output):
    return grad_output @ weight, grad_output.T @ x, grad_output


@wrong("linear_backward", "shape", "gradient of bias has shape [1, 2]", "without keepdim", earned=0)
def keeps_a_dimension(x, weight, grad_output):
    return grad_output @ weight, grad_output.T @ x, grad_output.sum(0, keepdim=True)


@wrong("linear_backward", "value", "gradient of x", earned=2)
def in_half_precision(x, weight, grad_output):
    right = grad_output @ weight, grad_output.T @ x, grad_output.sum(0)
    return tuple(grad.half().to(grad.dtype) for grad in right)


@wrong("linear_backward", "mean", "gradient of weight is 3 times too small", "sum over the batch")
def takes_the_mean_over_the_batch(x, weight, grad_output):
    return grad_output @ weight, grad_output.T @ x / len(x), grad_output.sum(0)


@wrong("linear_backward", "value", "gradient of bias")
def returns_the_bias_gradient_of_one_row(x, weight, grad_output):
    return grad_output @ weight, grad_output.T @ x, grad_output[0]


@right("linear_backward")
def asks_autograd(x, weight, grad_output):
    leaves = [leaf.clone().requires_grad_() for leaf in (x, weight, torch.zeros_like(weight[:, 0]))]
    return torch.autograd.grad(torch.nn.functional.linear(*leaves), leaves, grad_output)


# no_sync


def _accumulate(dist, model, buckets, microbatches, loss, *, every=False, scale=None, late=False):
    finish = None if late else _bucketed(dist, model, buckets) if every else None
    for number, (x, y) in enumerate(microbatches):
        if number == len(microbatches) - 1 and not every and not late:
            finish = _bucketed(dist, model, buckets)
        (loss(model(x), y) / (scale or len(microbatches))).backward()
        if every:
            kept = [p.grad.clone() for p in model.parameters()]
            finish()
            if number < len(microbatches) - 1:
                for p, grad in zip(model.parameters(), kept, strict=True):
                    p.grad = grad
    if late:
        finish = _bucketed(dist, model, buckets, late=True)
    if not every:
        finish()


@wrong("no_sync", "sync-on-accumulation", "called all_reduce 6 times", "only the last backward")
def syncs_every_micro_batch(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches, loss, every=True)


@wrong("no_sync", "sum", "3 times too large", "micro-batches")
def sums_the_micro_batches(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches, loss, scale=1)


@wrong("no_sync", "after-backward", "last backward must start the buckets")
def syncs_after_the_last_backward(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches, loss, late=True)


@wrong("no_sync", "one-backward", "3 micro-batches take 9 s", "one backward for each")
def puts_all_rows_in_one_batch(dist, model, buckets, microbatches, loss):
    x, y = (torch.cat(parts) for parts in zip(*microbatches, strict=True))
    _accumulate(dist, model, buckets, [(x, y)], loss)


@wrong("no_sync", "first-only", "its backward launched the buckets")
def hooks_from_the_start(dist, model, buckets, microbatches, loss):
    finish = _bucketed(dist, model, buckets)
    for x, y in microbatches:
        (loss(model(x), y) / len(microbatches)).backward()
    finish()


@wrong("no_sync", "value", "over all 12 rows")
def averages_nothing(dist, model, buckets, microbatches, loss):
    for x, y in microbatches:
        (loss(model(x), y) / len(microbatches)).backward()


@wrong("no_sync", "last-only", "last micro-batch alone", "added up")
def uses_the_last_micro_batch_only(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches[-1:], loss)


@wrong("no_sync", "one-graph", "3 forwards before its first backward", "a backward of its own", earned=1)
def adds_up_losses_for_one_backward(dist, model, buckets, microbatches, loss):
    finish = _bucketed(dist, model, buckets)
    (sum(loss(model(x), y) for x, y in microbatches) / len(microbatches)).backward()
    finish()


@wrong("no_sync", "count", "called all_reduce 8 times", "one flat tensor", earned=1)
def sends_each_gradient_by_itself(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, [[index] for bucket in buckets for index in bucket], microbatches, loss)


@wrong("no_sync", "forwards", "4 forwards", "3 micro-batches take 3", earned=1)
def tries_the_last_micro_batch_first(dist, model, buckets, microbatches, loss):
    loss(model(microbatches[-1][0]), microbatches[-1][1]).backward()
    model.zero_grad()
    _accumulate(dist, model, buckets, microbatches, loss)


@wrong("no_sync", "loss-turned", "loss(model(x), y), not loss(y, model(x))", earned=0)
def turns_the_loss_round(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches, lambda out, y: loss(y, out))


@right("no_sync")
def another_accumulation(dist, model, buckets, microbatches, loss):
    _accumulate(dist, model, buckets, microbatches, loss)


# best_bucket_bytes


@wrong("best_bucket_bytes", "too-slow", "one bucket leaves no backward")
def one_bucket(sizes, seconds, ranks, latency, bandwidth):
    return sum(sizes)


@wrong("best_bucket_bytes", "too-slow", "pays the latency every time")
def one_each(sizes, seconds, ranks, latency, bandwidth):
    return 1


@wrong("best_bucket_bytes", "too-slow", "cap of 26,214,400 B")
def what_torch_takes(sizes, seconds, ranks, latency, bandwidth):
    return 25 * 2**20


@wrong("best_bucket_bytes", "too-slow", "cap of 20,000,000 B")
def as_large_as_the_largest(sizes, seconds, ranks, latency, bandwidth):
    return max(sizes)


@wrong("best_bucket_bytes", "seconds", "not the seconds")
def returns_the_seconds(sizes, seconds, ranks, latency, bandwidth):
    from course_lib.lessons.overlap import step_seconds

    return min(step_seconds(sizes, seconds, cap, ranks, latency, bandwidth) for cap in sizes)


@wrong("best_bucket_bytes", "form", "return a number of bytes")
def returns_a_plan(sizes, seconds, ranks, latency, bandwidth):
    return [[0]]


@right("best_bucket_bytes")
def scans_and_returns_a_number_of_numpys(sizes, seconds, ranks, latency, bandwidth):
    return np.int64(scans_finely(sizes, seconds, ranks, latency, bandwidth))


@right("best_bucket_bytes")
def scans_finely(sizes, seconds, ranks, latency, bandwidth):
    from course_lib.lessons.overlap import step_seconds

    total = sum(sizes)
    caps = [total * place / 400 for place in range(1, 401)]
    return min(caps, key=lambda cap: step_seconds(sizes, seconds, cap, ranks, latency, bandwidth))


# parameter_server


def _workers(dist, weights, gradient, steps):
    for step in range(steps):
        dist.recv(weights, 0)
        dist.send(gradient(weights, step), 0)


@wrong("parameter_server", "too-stale", "staleness of")
def never_waits(dist, weights, gradient, steps, bound, learning_rate):
    workers = dist.get_world_size() - 1
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    given = dict.fromkeys(range(1, workers + 1), 1)
    for worker in given:
        dist.send(weights, worker)
    arrived = torch.empty_like(weights)
    for _ in range(steps * workers):
        worker = dist.recv(arrived)
        weights -= learning_rate * arrived
        if given[worker] < steps:
            given[worker] += 1
            dist.send(weights, worker)
    return weights


@wrong("parameter_server", "one-at-a-time", "one after the other")
def one_worker_at_a_time(dist, weights, gradient, steps, bound, learning_rate):
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    arrived = torch.empty_like(weights)
    for _ in range(steps):
        for worker in range(1, dist.get_world_size()):
            dist.send(weights, worker)
            dist.recv(arrived, worker)
            weights -= learning_rate * arrived
    return weights


@wrong("parameter_server", "lost", "never applied")
def drops_what_is_stale(dist, weights, gradient, steps, bound, learning_rate):
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    arrived = torch.empty_like(weights)
    for _ in range(steps):
        for worker in range(1, dist.get_world_size()):
            dist.send(weights, worker)
        for worker in range(1, dist.get_world_size()):
            dist.recv(arrived, worker)
            if worker - 1 <= bound - 1:
                weights -= learning_rate * arrived
    return weights


@wrong("parameter_server", "too-stale", "bound of 0")
def all_in_rounds(dist, weights, gradient, steps, bound, learning_rate):
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    arrived = torch.empty_like(weights)
    for _ in range(steps):
        for worker in range(1, dist.get_world_size()):
            dist.send(weights, worker)
        for worker in range(1, dist.get_world_size()):
            dist.recv(arrived, worker)
            weights -= learning_rate * arrived
    return weights


@wrong("parameter_server", "factor", "-0.333 times", "by itself")
def averages_the_gradients_of_all_workers(dist, weights, gradient, steps, bound, learning_rate):
    workers = dist.get_world_size() - 1
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    arrived = torch.empty_like(weights)
    for _ in range(steps):
        total = torch.zeros_like(weights)
        for worker in range(1, workers + 1):
            dist.send(weights, worker)
            dist.recv(arrived, worker)
            total += arrived
        weights -= learning_rate * total / workers
    return weights


@wrong("parameter_server", "factor", "added 1 times")
def adds_the_gradients(dist, weights, gradient, steps, bound, learning_rate):
    return one_worker_at_a_time(dist, weights, gradient, steps, bound, -learning_rate)


@wrong("parameter_server", "no-weights", "the server returns the weights")
def returns_no_weights(dist, weights, gradient, steps, bound, learning_rate):
    one_worker_at_a_time(dist, weights, gradient, steps, bound, learning_rate)


@wrong("parameter_server", "learning-rate", "a learning rate of 0.25", "1 times", earned=0)
def ignores_the_learning_rate(dist, weights, gradient, steps, bound, learning_rate):
    return waits_for_the_oldest(dist, weights, gradient, steps, bound, 1.0)


@wrong("parameter_server", "digits", "was given weights that have lost digits", earned=0)
def gives_out_half_precision(dist, weights, gradient, steps, bound, learning_rate):
    class Narrow:
        def __getattr__(self, name):
            return getattr(dist, name)

        def send(self, tensor, peer):
            dist.send(tensor if dist.get_rank() else tensor.half().to(tensor.dtype), peer)

    return solutions.parameter_server(Narrow(), weights, gradient, steps, bound, learning_rate)


@wrong("parameter_server", "digits", "a learning rate of 0.25", "in the dtype of the weights, float64", earned=0)
def sends_gradients_in_single_precision(dist, weights, gradient, steps, bound, learning_rate):
    def narrow(*args):
        return gradient(*args).float().double()

    return waits_for_the_oldest(dist, weights, narrow, steps, bound, learning_rate)


@wrong("parameter_server", "steps", "the gradients of steps [3, 2, 1, 0]", "from step 0 on", earned=0)
def counts_steps_down(dist, weights, gradient, steps, bound, learning_rate):
    def turned(weights, step):
        return gradient(weights, steps - 1 - step)

    return waits_for_the_oldest(dist, weights, turned, steps, bound, learning_rate)


@wrong("parameter_server", "too-few-at-once", "a bound of 2", "2 workers compute at the same time; with it 3", earned=3)
def keeps_one_worker_less(dist, weights, gradient, steps, bound, learning_rate):
    return waits_for_the_oldest(dist, weights, gradient, steps, max(0, bound - 1), learning_rate)


@right("parameter_server")
def waits_for_the_oldest(dist, weights, gradient, steps, bound, learning_rate):
    """Give out to whoever is free while fewer than bound + 1 are out; apply in the order of giving out."""
    workers = dist.get_world_size() - 1
    if dist.get_rank():
        return _workers(dist, weights, gradient, steps)
    left, out, arrived = dict.fromkeys(range(1, workers + 1), steps), [], torch.empty_like(weights)
    while out or any(left.values()):
        free = [w for w in left if left[w] and w not in out]
        if free and len(out) <= bound:
            worker = max(free, key=lambda w: left[w])
            left[worker] -= 1
            out.append(worker)
            dist.send(weights, worker)
        else:
            dist.recv(arrived, out.pop(0))
            weights -= learning_rate * arrived
    return weights
