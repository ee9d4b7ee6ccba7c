"""Answers to chapter 13."""

import math
import zlib
from collections import Counter

import torch

from course_lib.folder import files_of_rank, read_checkpoint


def best_checkpoint_interval(mtbf, save, restart):
    """Saving costs save / interval, a failure half an interval: equal at the best one. Restarts don't matter."""
    return math.sqrt(2 * save * mtbf)


def save_sharded(dist, folder, shards, shapes, extra, identity):
    """Everybody writes beside and syncs; then all ask whether all is well; only then rank 0 renames."""
    problem = None
    try:
        for name, data in files_of_rank(dist, shards, shapes, extra, identity).items():
            folder.write(name, data)
            folder.sync(name)
    except OSError as error:
        problem = error
    failed = torch.tensor([float(problem is not None)])
    dist.all_reduce(failed)  # nobody comes out of it before everybody has synced, or failed to
    if failed.item():
        raise OSError(f"save {identity} was given up: {problem or 'another rank could not write'}") from problem
    if dist.get_rank() == 0:
        folder.rename(f"manifest-{identity}.new", "manifest.pt")
    dist.barrier()  # nobody relies on the new checkpoint before it is the one that is loaded


def load_resharded(dist, folder, shards, shapes):
    """Judge everything first, on every rank alike; then copy from each old piece what both it and the new one have."""
    manifest, parts = read_checkpoint(folder, shapes)
    for key, piece in shards.items():
        begin = dist.get_rank() * len(piece)
        for number, part in enumerate(parts.values()):
            old = part["shards"][key]
            offset = number * len(old)  # where the old piece begins in the whole tensor
            first, last = max(begin, offset), min(begin + len(piece), offset + len(old))
            if first < last:
                piece[first - begin : last - begin] = old[first - offset : last - offset]
    return manifest["extra"]


def stop_together(dist, asked):
    """Sum everybody's flag: it is above 0 on every rank, or on none."""
    flags = torch.tensor([float(asked)])
    dist.all_reduce(flags)
    return flags.item() > 0


def find_culprit(dumps):
    """The first collective that somebody has not completed; whoever is not in it, or is in another one."""
    waiting = [one["collective_seq_id"] for found in dumps.values() for one in found if one["state"] != "completed"]
    if not waiting:
        return None
    number = min(waiting)
    called = {rank: next(((one["profiling_name"], str(one["input_sizes"])) for one in found
                          if one["collective_seq_id"] == number), None) for rank, found in dumps.items()}
    most = Counter(call for call in called.values() if call).most_common(1)[0][0]
    return number, most[0], sorted(rank for rank, call in called.items() if call != most)


def find_straggler(events):
    """Who comes last waits least, so its all-reduce is the shortest; a straggler's is so again and again."""
    lengths = {}
    for event in sorted(events, key=lambda event: event.posted):
        if event.kind == "all_reduce":
            lengths.setdefault(event.rank, []).append(event.end - event.posted)
    shortest = [min(lengths, key=lambda rank: lengths[rank][step]) for step in range(len(lengths[0]))]
    return Counter(shortest).most_common(1)[0][0]


def goodput(interval, mtbf, save, restart):
    """Training that lasts over the time that it takes, on average, until an interval and its save end undisturbed."""
    return interval / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + save) / mtbf))


def detect_corruption(dist, model):
    """A checksum of the bytes, because a sum of floats rounds small flips away; the minority is wrong."""
    checksum = 0
    for parameter in model.parameters():
        checksum = zlib.crc32(parameter.detach().contiguous().view(-1).view(torch.uint8).numpy(), checksum)
    sums = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, torch.tensor([checksum]))
    right = Counter(one.item() for one in sums).most_common(1)[0][0]
    return [rank for rank, one in enumerate(sums) if one.item() != right]


def spare_nodes(nodes, failures_per_node_day, repair_days, surely):
    """Add up a Poisson distribution from 0 nodes in repair on, until it is likely enough."""
    mean = nodes * failures_per_node_day * repair_days
    spares, total, term = 0, math.exp(-mean), math.exp(-mean)
    while total < surely:
        spares += 1
        term *= mean / spares
        total += term
    return spares
