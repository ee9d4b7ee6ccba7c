"""Answers to the exercises of chapter 4."""

import torch

from course_lib.lessons.overlap import step_seconds


def average_gradients(dist, model, examples):
    """Weigh each rank's mean by its number of rows: a mean of means counts a row of a short shard for more."""
    total = torch.tensor([float(examples)])
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.grad is None:  # every rank must take part in every all-reduce
            parameter.grad = torch.zeros_like(parameter)
        parameter.grad *= examples
        dist.all_reduce(parameter.grad)
        parameter.grad /= total.item()


def all_reduce_per_parameter(dist, model):
    """Start each all-reduce in a hook, while backward goes on to earlier layers; wait for all of them at the end."""
    flying = []

    def start(parameter):
        flying.append((parameter, dist.all_reduce(parameter.grad, async_op=True)))

    def finish():
        for parameter, handle in flying:
            handle.wait()
            parameter.grad /= dist.get_world_size()  # only now: before wait() the sum is not there
        flying.clear()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start)
    return finish


def plan_buckets(parameters, cap_bytes):
    """Walk from the last parameter to the first, as backward does, and open a new bucket where the cap is passed."""
    buckets, room = [], 0
    for index in reversed(range(len(parameters))):
        size = parameters[index].numel() * parameters[index].element_size()
        if not buckets or size > room:
            buckets.append([])
            room = cap_bytes
        buckets[-1].append(index)
        room -= size
    return buckets


def all_reduce_bucket(dist, parameters):
    """One flat tensor for all gradients of the bucket: one message where there were many."""
    for parameter in parameters:
        if parameter.grad is None:  # other ranks may have one, and the flat tensors must be equally long
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
    handle = dist.all_reduce(flat, async_op=True)

    def finish():
        handle.wait()
        pieces = flat.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter) / dist.get_world_size()

    return finish


def all_reduce_per_bucket(dist, model, buckets):
    """Start buckets strictly in the plan's order: all ranks start alike, whatever gradients come late or never."""
    parameters, arrived, finishers = list(model.parameters()), set(), []

    def start_next():
        bucket = buckets[len(finishers)]
        finishers.append(all_reduce_bucket(dist, [parameters[index] for index in bucket]))

    def note(index):
        arrived.add(index)
        while len(finishers) < len(buckets) and arrived.issuperset(buckets[len(finishers)]):
            start_next()

    def finish():
        while len(finishers) < len(buckets):  # those with a parameter that got no gradient
            start_next()
        for finish_bucket in finishers:
            finish_bucket()
        arrived.clear(), finishers.clear()

    for index, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, index=index: note(index))
    return finish


def break_it(dist, model, x, y, order, epochs, batch):
    """The loop without the five faults: same start, new order, weighted mean, equal buffers."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in (*model.parameters(), *model.buffers()):
        dist.broadcast(start.data, 0)
    for epoch in range(epochs):
        for rows in order(epoch).split(batch):
            mine = rows.tensor_split(dist.get_world_size())[dist.get_rank()]
            optimizer.zero_grad()
            if len(mine):  # the loss over no row is NaN
                torch.nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
            average_gradients(dist, model, len(mine))
            optimizer.step()
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)


def linear_backward(x, weight, grad_output):
    """y = x Wᵀ + b, as nn.Linear stores W: (out, in). The batch is summed over in the gradients of W and b."""
    return grad_output @ weight, grad_output.T @ x, grad_output.sum(0)


def no_sync(dist, model, buckets, microbatches, loss):
    """Gradients add up in .grad without a word; the hooks are there only for the last backward."""
    *first, (last_x, last_y) = microbatches
    for x, y in first:
        (loss(model(x), y) / len(microbatches)).backward()
    finish = all_reduce_per_bucket(dist, model, buckets)
    (loss(model(last_x), last_y) / len(microbatches)).backward()
    finish()


def best_bucket_bytes(sizes, seconds, ranks, latency, bandwidth):
    """Try every cap at which the plan changes: small buckets pay latency, large ones leave nothing to hide behind."""
    caps = {sum(sizes[first:last]) for first in range(len(sizes)) for last in range(first + 1, len(sizes) + 1)}
    return min(caps, key=lambda cap: step_seconds(sizes, seconds, cap, ranks, latency, bandwidth))


def parameter_server(dist, weights, gradient, steps, bound, learning_rate):
    """Rank 0 keeps bound + 1 workers busy and applies gradients in the order in which it gave weights out."""
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    if rank:
        for step in range(steps):
            dist.recv(weights, 0)
            dist.send(gradient(weights, step), 0)
        return None
    total, window = steps * workers, min(bound + 1, workers)
    arrived = torch.empty_like(weights)
    for turn in range(total + window - 1):
        if turn < total:
            dist.send(weights, 1 + turn % workers)
        if turn >= window - 1:
            dist.recv(arrived, 1 + (turn - window + 1) % workers)
            weights -= learning_rate * arrived
    return weights
