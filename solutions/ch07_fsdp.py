"""Answers to the exercises of chapter 7."""


import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def shard(tensor, rank, ranks):
    """Equal pieces, because collectives want them; a copy, because a view would keep the whole tensor alive."""
    flat = tensor.detach().flatten()
    size = -(-len(flat) // ranks)  # rounded up
    part = flat[rank * size : (rank + 1) * size]
    mine = flat.new_zeros(size)
    mine[: len(part)] = part
    return mine


def unshard(dist, shard, shape):
    """Gather into the rows of one buffer: no second copy of the whole, as joining a list of pieces would make."""
    whole = shard.new_empty(dist.get_world_size(), len(shard))
    dist.all_gather(list(whole), shard)
    return whole.flatten()[: torch.Size(shape).numel()].view(shape)


def sharded_adamw_step(dist, parameters, states, adamw):
    """A reduce-scatter and an all-gather are the two halves of an all-reduce; the step happens between them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for parameter, state in zip(parameters, states, strict=True):
        mine = shard(parameter, rank, ranks)
        grad = torch.empty_like(mine)
        dist.reduce_scatter(grad, [shard(parameter.grad, r, ranks) for r in range(ranks)])
        adamw(mine, grad / ranks, state)
        parameter.data.copy_(unshard(dist, mine, parameter.shape))


def reduce_scatter_gradients(dist, model):
    """Each hook turns a whole gradient into a shard and lets go of the whole before backward makes the next."""
    ranks, shards = dist.get_world_size(), {}

    def keep_my_part(parameter):
        pieces = [shard(parameter.grad, r, ranks) for r in range(ranks)]
        parameter.grad = None
        mine = torch.empty_like(pieces[0])
        dist.reduce_scatter(mine, pieces)
        shards[parameter] = mine / ranks

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(keep_my_part)
    return lambda: [shards.pop(parameter) for parameter in model.parameters()]


def sharded_forward(dist, units, shards, x):
    """Gather a unit, use it, and let it go: no name holds its weight, and no autograd."""
    inputs = []
    with torch.no_grad():
        for (forward, shape), mine in zip(units, shards, strict=True):
            inputs.append(x)
            x = forward(unshard(dist, mine, shape), x)
    return x, inputs


def fully_sharded_step(dist, units, shards, x, loss):
    """Forward keeps each unit's input only; backward gathers each weight again, and computes the unit once more."""
    ranks, grads = dist.get_world_size(), []
    output, inputs = sharded_forward(dist, units, shards, x)
    value = loss(output.requires_grad_())
    value.backward()
    grad = output.grad
    for (forward, shape), mine in reversed(list(zip(units, shards, strict=True))):
        x = inputs.pop()
        x = x.detach().requires_grad_() if x.is_floating_point() else x  # tokens have no gradient
        whole = unshard(dist, mine, shape).requires_grad_()
        forward(whole, x).backward(grad)
        grads.insert(0, torch.empty_like(mine))
        dist.reduce_scatter(grads[0], [shard(whole.grad, r, ranks) for r in range(ranks)])
        grads[0] /= ranks
        grad = x.grad
        del whole  # and its gradient, before the next unit is gathered
    return value.detach(), grads


def communication_bytes(stage, parameters, ranks, element_bytes=2, nodes=1):
    """Once around the ring with a gather or a reduce-scatter, twice with an all-reduce; across nodes with a shard."""
    inside = ranks // nodes
    return ((3 if stage == 3 else 2) * (inside - 1) + 2 * (nodes - 1) / nodes) * parameters * element_bytes / inside


def clip_by_global_norm(dist, grads, max_norm):
    """Squares add up over shards and ranks, norms do not."""
    total = sum(grad.double().square().sum() for grad in grads).reshape(1)
    dist.all_reduce(total)
    norm = total.sqrt().item()
    if norm > max_norm:
        for grad in grads:
            grad *= max_norm / norm
    return norm


def fix_this_script(dist, model, data, epochs, batch):
    """Units, then the root, then the optimizer; one seed for all samplers; bf16 needs no scaler; all ranks gather."""
    low = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=init_device_mesh("cpu", (dist.get_world_size(),)), mp_policy=low)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # of the parameters that sharding has put in place
    sampler = torch.utils.data.DistributedSampler(data, dist.get_world_size(), dist.get_rank(), seed=0)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in torch.utils.data.DataLoader(data, batch, sampler=sampler):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x).float(), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
