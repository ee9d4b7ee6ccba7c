"""Answers to chapter 13."""

import io
import math
import zlib
from collections import Counter

import torch


def best_checkpoint_interval(mtbf, save, restart):
    """Saving costs save / interval, a failure half an interval: equal at the best one. Restarts don't matter."""
    return math.sqrt(2 * save * mtbf)


def save_sharded(dist, folder, shards, shapes, extra, identity):
    """Everybody writes beside and syncs; then all ask whether all is well; only then rank 0 renames."""
    rank, problem = dist.get_rank(), None
    mine = {f"shard-{identity}-{rank}.pt": {"shards": {name: piece.clone() for name, piece in shards.items()}}}
    if rank == 0:
        mine[f"manifest-{identity}.new"] = {"ranks": dist.get_world_size(), "shapes": shapes, "extra": extra}
    try:
        for name, content in mine.items():
            buffer = io.BytesIO()
            torch.save(content | {"identity": identity}, buffer)
            folder.write(name, buffer.getvalue())
            folder.sync(name)
    except OSError as error:
        problem = error
    failed = torch.tensor([float(problem is not None)])
    dist.all_reduce(failed)  # nobody comes out of it before everybody has synced, or failed to
    if failed.item():
        raise OSError(f"save {identity} was given up: {problem or 'another rank could not write'}") from problem
    if rank == 0:
        folder.rename(f"manifest-{identity}.new", "manifest.pt")
    dist.barrier()  # nobody relies on the new checkpoint before it is the one that is loaded


def load_resharded(dist, folder, shards, shapes):
    """Read and judge everything first, on every rank alike; copy only when nothing can go wrong any more."""
    name = "manifest.pt"
    try:
        manifest = torch.load(io.BytesIO(folder.read(name)))
        parts = {}
        for rank in range(manifest["ranks"]):
            name = f"shard-{manifest['identity']}-{rank}.pt"
            parts[name] = torch.load(io.BytesIO(folder.read(name)))
    except Exception as error:
        raise ValueError(f"{name} is missing or damaged: nothing was loaded") from error
    sizes = {key: -(-torch.Size(shape).numel() // len(parts)) for key, shape in manifest["shapes"].items()}
    good = {"identity": manifest["identity"], "sizes": sizes}
    other = [name for name, part in parts.items() if {
        "identity": part["identity"], "sizes": {key: len(piece) for key, piece in part["shards"].items()}} != good]
    if other := other or sorted(dict(shapes.items() ^ manifest["shapes"].items())):  # what only one of the two has
        raise ValueError(f"{other[0]} is of another save or of another model: nothing was loaded")
    for key, piece in shards.items():
        mine = torch.cat([part["shards"][key] for part in parts.values()])[dist.get_rank() * len(piece) :][: len(piece)]
        piece[: len(mine)] = mine  # what is left is padding
    return manifest["extra"]


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
