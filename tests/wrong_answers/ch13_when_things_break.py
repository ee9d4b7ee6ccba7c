"""Answers to the exercises of chapter 13: plausible wrong ones, with what they must be told, and right ones."""

from __future__ import annotations

import hashlib
import io
import math
import statistics
from collections import Counter

import torch

from course_lib.folder import read_checkpoint
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# best_checkpoint_interval


@wrong("best_checkpoint_interval", "restart", "a restart costs the same however often you save")
def interval_with_the_restart(mtbf, save, restart):
    return math.sqrt(2 * (save + restart) * mtbf)


@wrong("best_checkpoint_interval", "whole-interval", "half an interval on average", earned=0)
def interval_that_loses_all(mtbf, save, restart):
    return math.sqrt(save * mtbf)


@wrong("best_checkpoint_interval", "half-mtbf", "at every other failure", earned=0)
def interval_half_mtbf(mtbf, save, restart):
    return mtbf / 2


@wrong("best_checkpoint_interval", "every-failure", "as many saves as failures", earned=0)
def interval_mtbf(mtbf, save, restart):
    return mtbf


@wrong("best_checkpoint_interval", "value", "it returned 1,200 s", earned=0)
def interval_always_20_minutes(mtbf, save, restart):
    return 1200


@wrong("best_checkpoint_interval", "form", "return a number", earned=0)
def interval_in_words(mtbf, save, restart):
    return f"{math.sqrt(2 * save * mtbf):.0f} s"


@right("best_checkpoint_interval")
def interval_by_trying(mtbf, save, restart):
    return min((1.01**k for k in range(2000)), key=lambda t: save / t + t / (2 * mtbf))


@right("best_checkpoint_interval")
def interval_by_daly(mtbf, save, restart):
    x = math.sqrt(save / (2 * mtbf))
    return math.sqrt(2 * save * mtbf) * (1 + x / 3 + x * x / 9) - save / 6 if x < 0.02 else math.sqrt(2 * save * mtbf)


# save_sharded


def _packed(thing) -> bytes:
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def _own(shards) -> dict:
    return {name: piece.clone() for name, piece in shards.items()}


def _save(
    dist, folder, shards, shapes, extra, identity, *, own=_own, shard="shard-{identity}-{rank}.pt",
    new="manifest-{identity}.new", sync=True, sync_manifest=True, inside=None, more=None,
):  # fmt: skip
    """The first half of a save, up to where all should wait: write beside and sync. Returns this rank's problem."""
    rank, ranks, problem = dist.get_rank(), dist.get_world_size(), None
    name = shard.format(identity=identity, rank=rank)
    inside = identity if inside is None else inside
    try:
        folder.write(name, _packed({"identity": inside, "shards": own(shards)}))
        if sync:
            folder.sync(name)
        if rank == 0:
            name = new.format(identity=identity)
            manifest = {"identity": identity, "ranks": ranks, "shapes": shapes, "extra": extra} | (more or {})
            folder.write(name, _packed(manifest))
            if sync_manifest:
                folder.sync(name)
    except OSError as error:
        problem = error
    return problem


def _all_well(dist, identity, problem) -> None:
    flag = torch.tensor([0.0 if problem else 1.0])
    dist.all_reduce(flag)
    if flag.item() < dist.get_world_size():
        raise OSError(f"save {identity} was given up: a disk is full or cannot be written")


def _commit(dist, folder, identity) -> None:
    if dist.get_rank() == 0:
        folder.rename(f"manifest-{identity}.new", "manifest.pt")


def _finished(dist, folder, identity, problem) -> None:
    _all_well(dist, identity, problem)
    _commit(dist, folder, identity)
    dist.barrier()


@wrong("save_sharded", "manifest-in-place", "is cut off, and with it the old checkpoint is lost", earned=2)
def writes_the_manifest_in_place(dist, folder, shards, shapes, extra, identity):
    problem = None
    rank, ranks = dist.get_rank(), dist.get_world_size()
    try:
        name = f"shard-{identity}-{rank}.pt"
        folder.write(name, _packed({"identity": identity, "shards": _own(shards)}))
        folder.sync(name)
    except OSError as error:
        problem = error
    _all_well(dist, identity, problem)
    if rank == 0:
        manifest = {"identity": identity, "ranks": ranks, "shapes": shapes, "extra": extra}
        folder.write("manifest.pt", _packed(manifest))
        folder.sync("manifest.pt")
    dist.barrier()


@wrong("save_sharded", "too-early", "was not yet written", "nobody may rename before all ranks", earned=2)
def commits_without_waiting(dist, folder, shards, shapes, extra, identity):
    _save(dist, folder, shards, shapes, extra, identity)
    _commit(dist, folder, identity)
    dist.barrier()


@wrong("save_sharded", "not-synced", "shard-b2-", "is found empty", "before it says that it is ready", earned=2)
def syncs_no_shard(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, sync=False))


@wrong("save_sharded", "not-synced", "manifest.pt is found empty", "a rename moves a name", earned=2)
def syncs_no_manifest(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, sync_manifest=False))


@wrong("save_sharded", "not-synced", "is found empty", earned=2)
def syncs_when_all_is_over(dist, folder, shards, shapes, extra, identity):
    problem = _save(dist, folder, shards, shapes, extra, identity, sync=False)
    _finished(dist, folder, identity, problem)
    folder.sync(f"shard-{identity}-{dist.get_rank()}.pt")
    dist.barrier()


@wrong("save_sharded", "returns-early", "a rank has returned already", "wait for rank 0's rename", earned=2)
def returns_before_the_commit(dist, folder, shards, shapes, extra, identity):
    _all_well(dist, identity, _save(dist, folder, shards, shapes, extra, identity))
    _commit(dist, folder, identity)


@wrong("save_sharded", "committed", "the old one stays", earned=5)
def commits_with_a_full_disk(dist, folder, shards, shapes, extra, identity):
    problem = _save(dist, folder, shards, shapes, extra, identity)
    dist.barrier()
    if dist.get_rank() == 0 and not problem:
        folder.rename(f"manifest-{identity}.new", "manifest.pt")
    dist.barrier()
    if problem:
        raise problem


@wrong("save_sharded", "quiet", "returned as if all were well", earned=5)
def only_the_full_one_raises(dist, folder, shards, shapes, extra, identity):
    problem = _save(dist, folder, shards, shapes, extra, identity)
    flag = torch.tensor([float(problem is not None)])
    dist.all_reduce(flag)
    if not flag.item():
        _commit(dist, folder, identity)
    dist.barrier()
    if problem:
        raise OSError(f"save {identity} was given up: {problem}")


@wrong("save_sharded", "deadlock", "must not leave the others waiting", earned=5)
def leaves_the_others_waiting(dist, folder, shards, shapes, extra, identity):
    problem = _save(dist, folder, shards, shapes, extra, identity)
    if problem:
        raise problem
    dist.barrier()
    _commit(dist, folder, identity)
    dist.barrier()


@wrong("save_sharded", "no-sentence", "in one sentence", earned=5)
def gives_up_without_a_word(dist, folder, shards, shapes, extra, identity):
    try:
        _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity))
    except OSError:
        raise OSError("full") from None


@wrong("save_sharded", "rank-0-shard", "only rank 0 writes", "75%", earned=0)
def saves_on_rank_0(dist, folder, shards, shapes, extra, identity):
    problem = None
    if dist.get_rank() == 0:
        problem = _save(dist, folder, shards, shapes, extra, identity)
    _finished(dist, folder, identity, problem)


@wrong("save_sharded", "missing-file", "shard-b2-0.pt", "'b2'", earned=0)
def overwrites_by_rank(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, shard="shard-{rank}.pt"))


@wrong("save_sharded", "whole-storage", "whole storage under a view", "clones", earned=0)
def saves_views(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, own=dict))


@wrong("save_sharded", "identity", "shard-b2-0.pt says identity", "a piece of another save", earned=0)
def marks_no_shard(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, inside="latest"))


@wrong("save_sharded", "identity", "the manifest says identity", earned=0)
def marks_the_manifest_wrongly(dist, folder, shards, shapes, extra, identity):
    problem = _save(dist, folder, shards, shapes, extra, identity, more={"identity": extra["step"]})
    _finished(dist, folder, identity, problem)


@wrong("save_sharded", "extra", "begins again at the first batch", earned=0)
def forgets_the_order_of_the_data(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, {"step": 8}, identity))


@wrong("save_sharded", "not-committed", "manifest.pt is still the old one", earned=0)
def never_commits(dist, folder, shards, shapes, extra, identity):
    _all_well(dist, identity, _save(dist, folder, shards, shapes, extra, identity))
    dist.barrier()


@wrong("save_sharded", "gathered", "nothing need be gathered", earned=0)
def gathers_and_then_cuts(dist, folder, shards, shapes, extra, identity):
    mine = {}
    for name, piece in shards.items():
        rows = [torch.empty_like(piece) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, piece)
        mine[name] = rows[dist.get_rank()]
    _finished(dist, folder, identity, _save(dist, folder, mine, shapes, extra, identity))


@wrong("save_sharded", "value", "up.weight in shard-b2-0.pt is bfloat16", "float32", earned=0)
def saves_in_half_precision(dist, folder, shards, shapes, extra, identity):
    def half(shards):
        return {name: piece.bfloat16() for name, piece in shards.items()}

    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, own=half))


@wrong("save_sharded", "rank-0-shard", "holds rank 0's shard", earned=0)
def broadcasts_rank_0s_shard(dist, folder, shards, shapes, extra, identity):
    mine = {name: piece[:0] for name, piece in shards.items()}
    for name, piece in _own(shards).items():
        if name == "up.bias":
            dist.broadcast(piece, 0)
        mine[name] = piece
    _finished(dist, folder, identity, _save(dist, folder, mine, shapes, extra, identity))


@wrong("save_sharded", "twice", "is something written twice?", earned=0)
def writes_every_shard_twice(dist, folder, shards, shapes, extra, identity):
    def twice(shards):
        return _own(shards) | {f"{name} again": piece for name, piece in _own(shards).items()}

    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, own=twice))


@wrong("save_sharded", "written-by-many", "all write manifest-b2.new", "rank 0 alone the manifest", earned=0)
def writes_the_manifest_on_every_rank(dist, folder, shards, shapes, extra, identity):
    rank, problem = dist.get_rank(), None
    manifest = {"identity": identity, "ranks": dist.get_world_size(), "shapes": shapes, "extra": extra}
    shard = {"identity": identity, "shards": _own(shards)}
    try:
        for name, content in {f"shard-{identity}-{rank}.pt": shard, f"manifest-{identity}.new": manifest}.items():
            folder.write(name, _packed(content))
            folder.sync(name)
    except OSError as error:
        problem = error
    _finished(dist, folder, identity, problem)


@wrong("save_sharded", "written-by-many", "ranks [0, 1, 2, 3] all write shard-b2.pt", earned=0)
def writes_one_file_on_all_ranks(dist, folder, shards, shapes, extra, identity):
    _finished(dist, folder, identity, _save(dist, folder, shards, shapes, extra, identity, shard="shard-{identity}.pt"))


@wrong("save_sharded", "manifest", "a dict of identity, ranks, shapes and extra", earned=0)
def saves_only_the_extra(dist, folder, shards, shapes, extra, identity):
    problem = None
    try:
        name = f"shard-{identity}-{dist.get_rank()}.pt"
        folder.write(name, _packed({"identity": identity, "shards": _own(shards)}))
        folder.sync(name)
        if dist.get_rank() == 0:
            folder.write(f"manifest-{identity}.new", _packed(extra))
            folder.sync(f"manifest-{identity}.new")
    except OSError as error:
        problem = error
    _finished(dist, folder, identity, problem)


@right("save_sharded")
def saves_in_other_words(dist, folder, shards, shapes, extra, identity):
    """The manifest is written only when all shards are safe; a second question says whether that went well."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def attempt(name, content):
        try:
            folder.write(name, _packed(content))
            folder.sync(name)
            return True
        except OSError:
            return False

    def everybody(well):
        flags = [torch.zeros(1) for _ in range(ranks)]
        dist.all_gather(flags, torch.tensor([float(well)]))
        if not all(flag.item() for flag in flags):
            raise OSError(f"the save {identity} failed on some rank, and nothing has changed")

    mine = {name: torch.from_numpy(piece.numpy().copy()) for name, piece in shards.items()}
    everybody(attempt(f"shard-{identity}-{rank}.pt", {"shards": mine, "identity": identity}))
    sizes = {name: torch.Size(shape) for name, shape in shapes.items()}
    manifest = {"extra": dict(extra), "shapes": sizes, "ranks": ranks, "identity": identity}
    everybody(rank != 0 or attempt("next", manifest))
    if rank == 0:
        folder.rename("next", "manifest.pt")
    everybody(True)


@right("save_sharded")
def saves_beside_and_renames_all(dist, folder, shards, shapes, extra, identity):
    """Shards too are written under another name first."""
    rank, problem = dist.get_rank(), None
    try:
        folder.write(f"{rank}.tmp", _packed({"identity": identity, "shards": _own(shards)}))
        folder.sync(f"{rank}.tmp")
        folder.rename(f"{rank}.tmp", f"shard-{identity}-{rank}.pt")
        if rank == 0:
            manifest = {"identity": identity, "ranks": dist.get_world_size(), "shapes": shapes, "extra": extra}
            folder.write(f"manifest-{identity}.new", _packed(manifest))
            folder.sync(f"manifest-{identity}.new")
    except OSError as error:
        problem = error
    _finished(dist, folder, identity, problem)


# load_resharded


def _read(folder, name):
    try:
        return torch.load(io.BytesIO(folder.read(name)), weights_only=True)
    except Exception as error:
        raise ValueError(f"{name} is missing or damaged") from error


def _names(manifest) -> list[str]:
    return [f"shard-{manifest['identity']}-{rank}.pt" for rank in range(manifest["ranks"])]


def _parts(folder) -> tuple:
    manifest = _read(folder, "manifest.pt")
    found = [_read(folder, name) for name in _names(manifest)]
    for name, part in zip(_names(manifest), found, strict=True):
        if part["identity"] != manifest["identity"]:
            raise ValueError(f"{name} is of save {part['identity']}, not {manifest['identity']}")
    return manifest, [part["shards"] for part in found]


def _judge_model(manifest, shapes) -> None:
    for name in {**shapes, **manifest["shapes"]}:
        if shapes.get(name) != manifest["shapes"].get(name):
            raise ValueError(f"another model: {name} differs")


def _judge_parts(manifest, parts) -> None:
    for name, shape in manifest["shapes"].items():
        size = -(-math.prod(shape) // manifest["ranks"])
        for file, part in zip(_names(manifest), parts, strict=True):
            if name not in part or part[name].shape != (size,):
                raise ValueError(f"{file} has no {name} of {size} elements")


def _fill(dist, name, piece, parts, count) -> None:
    whole = torch.cat([part[name] for part in parts])[:count]
    mine = whole[dist.get_rank() * len(piece) :][: len(piece)]
    piece[: len(mine)] = mine


def _load(dist, folder, shards, shapes, parts=_parts, fill=_fill, judge=_judge_parts):
    """The solution in other words, with the shards that `parts` reads and with another way to fill them in."""
    manifest, parts = parts(folder)
    _judge_model(manifest, shapes)
    judge(manifest, parts)
    for name, piece in shards.items():
        fill(dist, name, piece, parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "not-refused", "shard-a1-0.pt is a piece of another save", earned=3)
def looks_at_no_identity(dist, folder, shards, shapes):
    def parts(folder):
        manifest = _read(folder, "manifest.pt")
        return manifest, [_read(folder, name)["shards"] for name in _names(manifest)]

    return _load(dist, folder, shards, shapes, parts)


@wrong("load_resharded", "not-refused", "shard-a1-3.pt is a piece of another save", earned=3)
def looks_at_the_first_identity(dist, folder, shards, shapes):
    def parts(folder):
        manifest = _read(folder, "manifest.pt")
        found = [_read(folder, name) for name in _names(manifest)]
        if found[0]["identity"] != manifest["identity"]:
            raise ValueError(f"{_names(manifest)[0]} is of another save")
        return manifest, [part["shards"] for part in found]

    return _load(dist, folder, shards, shapes, parts)


@wrong("load_resharded", "raised", "rank 3 raised ValueError", earned=0)
def takes_all_shards_in_the_folder(dist, folder, shards, shapes):
    manifest = _read(folder, "manifest.pt")
    parts = [_read(folder, name)["shards"] for name in folder.names() if name.startswith("shard-")]
    for name, piece in shards.items():
        _fill(dist, name, piece, parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "padding", "the padding of the old shards was counted")
def splits_the_padding_too(dist, folder, shards, shapes):
    def fill(dist, name, piece, parts, count):
        mine = torch.cat([part[name] for part in parts]).tensor_split(dist.get_world_size())[dist.get_rank()]
        piece[: len(mine)] = mine[: len(piece)]

    return _load(dist, folder, shards, shapes, fill=fill)


@wrong("load_resharded", "own-file", "a rank's part lies in other files")
def reads_its_own_file(dist, folder, shards, shapes):
    def fill(dist, name, piece, parts, count):
        mine = parts[dist.get_rank() % len(parts)][name][: len(piece)]
        piece[: len(mine)] = mine

    return _load(dist, folder, shards, shapes, fill=fill)


@wrong("load_resharded", "own-file", "rank 1 raised RuntimeError", "only the file of its own number", earned=0)
def copies_its_own_file(dist, folder, shards, shapes):
    manifest = _read(folder, "manifest.pt")
    part = _read(folder, f"shard-{manifest['identity']}-{dist.get_rank()}.pt")["shards"]
    for name, piece in shards.items():
        piece.copy_(part[name])
    return manifest["extra"]


@wrong("load_resharded", "unchanged", "copy into the tensors", "do not make new ones", earned=0)
def puts_new_tensors_into_the_dict(dist, folder, shards, shapes):
    manifest, parts = _parts(folder)
    _judge_model(manifest, shapes)
    for name, piece in shards.items():
        shards[name] = torch.zeros_like(piece)
        _fill(dist, name, shards[name], parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "extra", "first batch")
def forgets_where_it_was(dist, folder, shards, shapes):
    _load(dist, folder, shards, shapes)


@wrong("load_resharded", "half-loaded", "shard-a1-3.pt is missing", "copy only then")
def copies_as_it_reads(dist, folder, shards, shapes):
    manifest, rank = _read(folder, "manifest.pt"), dist.get_rank()
    _judge_model(manifest, shapes)
    for number, file in enumerate(_names(manifest)):
        part = _read(folder, file)["shards"]
        for name, piece in shards.items():
            begin = number * len(part[name]) - rank * len(piece)  # where this part begins in my piece
            known = part[name][: max(0, math.prod(shapes[name]) - number * len(part[name]))]
            known, begin = known[max(0, -begin) :], max(0, begin)
            known = known[: max(0, len(piece) - begin)]
            piece[begin : begin + len(known)] = known
    return manifest["extra"]


@wrong("load_resharded", "some-ranks", "shard-a1-3.pt is missing", "went on")
def reads_only_what_it_needs(dist, folder, shards, shapes):
    manifest, rank = _read(folder, "manifest.pt"), dist.get_rank()
    _judge_model(manifest, shapes)
    fresh = {}
    for name, piece in shards.items():
        count = math.prod(shapes[name])
        size = -(-count // manifest["ranks"])
        begin, end = rank * len(piece), min(count, (rank + 1) * len(piece))
        wanted = range(begin // size, -(-end // size)) if begin < end else range(0)
        joined = [_read(folder, _names(manifest)[number])["shards"][name] for number in wanted]
        if joined:
            fresh[name] = torch.cat(joined)[begin - wanted[0] * size : end - wanted[0] * size]
    for name, known in fresh.items():
        shards[name][: len(known)] = known
    return manifest["extra"]


@wrong("load_resharded", "not-refused", "another model", "down.weight")
def trusts_that_the_model_is_the_same(dist, folder, shards, shapes):
    manifest, parts = _parts(folder)
    for name, piece in shards.items():
        _fill(dist, name, piece, parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "no-sentence", "one sentence")
def lets_the_error_through(dist, folder, shards, shapes):
    manifest = torch.load(io.BytesIO(folder.read("manifest.pt")), weights_only=True)
    parts = [torch.load(io.BytesIO(folder.read(name)))["shards"] for name in _names(manifest)]
    _judge_model(manifest, shapes)
    for name, piece in shards.items():
        _fill(dist, name, piece, parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "not-refused", "the checkpoint has down.weight, which the model has not")
def looks_only_at_its_own_names(dist, folder, shards, shapes):
    manifest, parts = _parts(folder)
    for name, shape in shapes.items():
        if manifest["shapes"].get(name) != shape:
            raise ValueError(f"another model: {name} differs")
    for name, piece in shards.items():
        _fill(dist, name, piece, parts, math.prod(shapes[name]))
    return manifest["extra"]


@wrong("load_resharded", "half-loaded", "shard-a1-3.pt has no up.bias", "up.weight is already changed", earned=3)
def looks_at_the_manifest_only(dist, folder, shards, shapes):
    return _load(dist, folder, shards, shapes, judge=lambda *_: None)


def _parts_by_name(folder):
    manifest, _ = _parts(folder)
    return manifest, [_read(folder, name)["shards"] for name in sorted(_names(manifest))]


@wrong("load_resharded", "order-of-names", "saved on 12 ranks", "shard-a1-10.pt and shard-a1-11.pt come", earned=0)
def takes_shards_in_the_order_of_their_names(dist, folder, shards, shapes):
    return _load(dist, folder, shards, shapes, _parts_by_name)


@wrong("load_resharded", "lengths", "must match", "copy only as many numbers as both have", earned=0)
def fills_all_of_its_shard(dist, folder, shards, shapes):
    def fill(dist, name, piece, parts, count):
        piece[:] = torch.cat([part[name] for part in parts])[:count][dist.get_rank() * len(piece) :][: len(piece)]

    return _load(dist, folder, shards, shapes, fill=fill)


@wrong("load_resharded", "lengths", "saved on 1 rank and loaded on 4", "its end is padding", earned=0)
def copies_the_padding_too(dist, folder, shards, shapes):
    manifest, parts = read_checkpoint(folder, shapes)
    for name, piece in shards.items():
        piece.copy_(torch.cat([part["shards"][name] for part in parts.values()])[dist.get_rank() * len(piece) :]
                    [: len(piece)])  # fmt: skip
    return manifest["extra"]


@wrong("load_resharded", "not-refused", "shard-a1-0.pt has up.weight with 3 elements", earned=3)
def looks_at_no_length_in_the_first_file(dist, folder, shards, shapes):
    def parts(folder):
        manifest, found = _parts(folder)
        whole = {name: torch.zeros(-(-math.prod(shape) // manifest["ranks"])) for name, shape in shapes.items()}
        _judge_model(manifest, shapes)
        _judge_parts(manifest, [whole, *found[1:]])
        first = {name: torch.cat([found[0][name], whole[name]])[: len(whole[name])] for name in whole}
        return manifest, [first, *found[1:]]

    return _load(dist, folder, shards, shapes, parts)


@right("load_resharded")
def joins_all_pieces(dist, folder, shards, shapes):
    manifest, parts = read_checkpoint(folder, shapes)
    for name, piece in shards.items():
        _fill(dist, name, piece, [part["shards"] for part in parts.values()], math.prod(shapes[name]))
    return manifest["extra"]


class BadCheckpoint(ValueError):
    """An error of one's own."""


@right("load_resharded")
def raises_an_error_of_its_own(dist, folder, shards, shapes):
    try:
        return _load(dist, folder, shards, shapes)
    except ValueError as error:
        raise BadCheckpoint(f"nothing was loaded: {error}") from error


@right("load_resharded")
def keeps_a_copy_and_puts_it_back(dist, folder, shards, shapes):
    """Changes first and undoes: every rank tries, all ask each other whether it went well, all go back if not."""
    before, sentence, extra = _own(shards), "", None
    try:
        extra = _load(dist, folder, shards, shapes)
    except ValueError as error:
        sentence = str(error)
    failed = torch.tensor([float(bool(sentence))])
    dist.all_reduce(failed)
    if failed.item():
        for name, piece in shards.items():
            piece.copy_(before[name])
        raise ValueError(sentence or "another rank could not load the checkpoint")
    return extra


@right("load_resharded")
def rank_0_reads_and_scatters(dist, folder, shards, shapes):
    ranks = dist.get_world_size()
    manifest, parts = _parts(folder)
    _judge_model(manifest, shapes)
    _judge_parts(manifest, parts)
    for name, piece in shards.items():
        pieces = None
        if dist.get_rank() == 0:
            flat = torch.zeros(ranks * len(piece))
            flat[: math.prod(shapes[name])] = torch.cat([part[name] for part in parts])[: math.prod(shapes[name])]
            pieces = list(flat.view(ranks, -1))
        dist.scatter(piece, pieces, 0)
    return manifest["extra"]


# stop_together


@wrong("stop_together", "apart", "different steps (3 and 4 and 5 and 7)", earned=0)
def looks_at_its_own_flag(dist, asked):
    return asked


@wrong("stop_together", "late", "all stop after step 6, but a rank was asked to in step 3", earned=1)
def believes_rank_0(dist, asked):
    flag = torch.tensor([float(asked)])
    dist.broadcast(flag, 0)
    return bool(flag)


@wrong("stop_together", "late", "all stop after step 7, but a rank was asked to in step 3", earned=0)
def waits_until_all_are_asked(dist, asked):
    flag = torch.tensor([float(asked)])
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag)


@wrong("stop_together", "apart", "different steps", earned=0)
def asks_only_when_asked(dist, asked):
    if asked:
        dist.all_reduce(torch.ones(1))
    return asked


@wrong("stop_together", "never", "nobody stops", earned=0)
def never_stops(dist, asked):
    dist.all_reduce(torch.tensor([float(asked)]))


@wrong("stop_together", "deadlock", "and not by their own flag", earned=0)
def forgets_to_use_the_sum(dist, asked):
    dist.all_reduce(torch.tensor([float(asked)]))
    return asked


@wrong("stop_together", "unasked", "all stop after step 0", earned=0)
def stops_at_once(dist, asked):
    return True


@right("stop_together")
def by_the_largest(dist, asked):
    flag = torch.tensor([int(asked)])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return flag


@right("stop_together")
def asks_everybody(dist, asked):
    flags = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(flags, torch.tensor([float(asked)]))
    return any(flag.item() for flag in flags)


# find_culprit


def _call(one):
    return one["profiling_name"], str(one["input_sizes"])


@wrong("find_culprit", "victims", "they wait in nccl:", earned=0)
def names_who_waits(dumps):
    waiting = [one for found in dumps.values() for one in found if one["state"] == "started"]
    number = min(one["collective_seq_id"] for one in waiting) if waiting else 0
    ranks = [rank for rank, found in dumps.items() if any(one["state"] == "started" for one in found)]
    return (number, waiting[0]["profiling_name"], ranks) if waiting else None


@wrong("find_culprit", "least-enqueued", "which have enqueued least", earned=1)
def names_who_has_enqueued_least(dumps):
    waiting = [one for found in dumps.values() for one in found if one["state"] != "completed"]
    if not waiting:
        return None
    number = min(one["collective_seq_id"] for one in waiting)
    last = {rank: max((one["collective_seq_id"] for one in found), default=0) for rank, found in dumps.items()}
    name = Counter(one["profiling_name"] for one in waiting if one["collective_seq_id"] == number).most_common(1)[0][0]
    return number, name, [rank for rank in last if last[rank] == min(last.values())]


@wrong("find_culprit", "last-enqueued", "only a consequence", earned=0)
def looks_at_the_last_entry(dumps):
    last = {rank: found[-1] for rank, found in dumps.items() if found}
    number = max(one["collective_seq_id"] for one in last.values())
    name = next(one["profiling_name"] for one in last.values() if one["collective_seq_id"] == number)
    return number, name, [rank for rank in dumps if last.get(rank, {}).get("collective_seq_id") != number]


@wrong("find_culprit", "first-kept", "the recorder keeps the last few", earned=0)
def looks_at_the_first_entry(dumps):
    number = min(one["collective_seq_id"] for found in dumps.values() for one in found)
    return number, next(found[0]["profiling_name"] for found in dumps.values() if found), []


@wrong("find_culprit", "first-kept", "Take the lowest number of an entry whose state is not completed", earned=0)
def takes_a_lost_entry_for_a_wait(dumps):
    numbers = sorted({one["collective_seq_id"] for found in dumps.values() for one in found})
    for number in numbers:
        done = [rank for rank, found in dumps.items()
                if any((one["collective_seq_id"], one["state"]) == (number, "completed") for one in found)]  # fmt: skip
        if len(done) < len(dumps):
            return number, "nccl:all_reduce", sorted(set(dumps) - set(done))
    return None


def _culprit(dumps, of=_call, also=()):
    waiting = [one["collective_seq_id"] for found in dumps.values() for one in found if one["state"] != "completed"]
    if not waiting:
        return None
    number = min(waiting)
    called = {rank: None for rank in dumps}
    for rank, found in dumps.items():
        for one in found:
            if one["collective_seq_id"] == number:
                called[rank] = of(one)
    most = Counter(call for call in called.values() if call).most_common(1)[0][0]
    name = most[0] if isinstance(most, tuple) else most
    return number, name, [rank for rank, call in called.items() if call != most and rank not in also]


@wrong("find_culprit", "ranks", "it should be [6]: rank 6 is in it with nccl:", "unlike most", earned=1)
def looks_at_names_only(dumps):
    return _culprit(dumps, lambda one: one["profiling_name"])


@wrong("find_culprit", "ranks", "it names ranks []; it should be [0]", earned=0)
def trusts_rank_0(dumps):
    return _culprit(dumps, also=(0,))


@wrong("find_culprit", "ranks", "it should be [12]: rank 12 is not in it, unlike most", earned=2)
def forgets_who_has_no_dump(dumps):
    return _culprit({rank: found for rank, found in dumps.items() if found})


@wrong("find_culprit", "healthy", "nobody waits", earned=2)
def always_finds_somebody(dumps):
    return _culprit(dumps) or (0, "", [])


@wrong("find_culprit", "victims", "of which most never came", "they wait in nccl:", earned=2)
def counts_also_who_is_absent(dumps):
    found = _culprit(dumps)
    if found is None:
        return None
    called = {rank: next((_call(one) for one in entries if one["collective_seq_id"] == found[0]), ("", ""))
              for rank, entries in dumps.items()}  # fmt: skip
    most = Counter(called.values()).most_common(1)[0][0]
    return found[0], most[0], [rank for rank, call in called.items() if call != most]


@wrong("find_culprit", "ranks", "rank 0 is still in a collective that the others have completed", earned=2)
def compares_only_who_waits(dumps):
    waits = {rank: [one for one in found if one["state"] != "completed"] for rank, found in dumps.items()}
    return _culprit(waits)


@wrong("find_culprit", "last-enqueued", "it says collective 21", "20 is the first that somebody has not", earned=2)
def believes_rank_1(dumps):
    number = next((one["collective_seq_id"] for one in dumps[1] if one["state"] != "completed"), None)
    alike = {rank: [one for one in found if number is None or one["collective_seq_id"] >= number]
             for rank, found in dumps.items()}  # fmt: skip
    return _culprit(alike)


@wrong("find_culprit", "form", "return (number, name, ranks)", earned=0)
def returns_only_the_ranks(dumps):
    found = _culprit(dumps)
    return found and found[2]


@right("find_culprit")
def goes_from_collective_to_collective(dumps):
    """Walks up the numbers, and compares what all have called."""
    table = {}
    for rank, found in dumps.items():
        for one in found:
            table.setdefault(one["collective_seq_id"], {})[rank] = one
    for number in sorted(table):
        if any(one["state"] != "completed" for one in table[number].values()):
            votes = Counter(map(_call, table[number].values()))
            most = max(votes, key=votes.get)
            absent = [rank for rank in dumps if rank not in table[number]]
            other = [rank for rank, one in table[number].items() if _call(one) != most]
            return [number, most[0], set(absent + other)]
    return None


# find_straggler


def _arrivals(events):
    found = {}
    for event in sorted(events, key=lambda event: event.posted):
        if event.kind == "all_reduce":
            found.setdefault(event.rank, []).append(event.posted)
    return found


def _spent(events, kind, begin="posted"):
    total = Counter()
    for event in events:
        if event.kind == kind:
            total[event.rank] += event.end - getattr(event, begin)
    return total


@wrong("find_straggler", "victim", "comes last and hardly waits", earned=0)
def who_reduces_longest(events):
    return _spent(events, "all_reduce").most_common(1)[0][0]


@wrong("find_straggler", "once", "its work is the longest in all", earned=2)
def who_works_longest(events):
    return _spent(events, "work").most_common(1)[0][0]


@wrong("find_straggler", "once", "its time in all_reduce the shortest", "Don't add up seconds", earned=2)
def who_waits_least_in_all(events):
    return _spent(events, "all_reduce").most_common()[-1][0]


@wrong("find_straggler", "after", "after the last all_reduce, when nobody waits", earned=2)
def who_works_longest_after_a_warm_up(events):
    later = sorted(events, key=lambda event: event.posted)[2 * len({event.rank for event in events}) :]
    return _spent(later, "work").most_common(1)[0][0]


@wrong("find_straggler", "once", "was late once, for so long", earned=2)
def who_was_latest_in_all(events):
    found, late = _arrivals(events), Counter()
    for times in zip(*found.values(), strict=True):
        late[list(found)[times.index(max(times))]] += max(times) - statistics.median(times)
    return late.most_common(1)[0][0]


@wrong("find_straggler", "victim", "it waits there for somebody else", earned=0)
def who_arrives_first(events):
    found = _arrivals(events)
    return Counter(min(found, key=lambda r: found[r][step]) for step in range(len(found[0]))).most_common(1)[0][0]


@wrong("find_straggler", "rank", "`start` is when data moves, so no waiting lies", earned=0)
def who_moves_data_shortest(events):
    lengths = {}
    for event in sorted(events, key=lambda event: event.rank):
        if event.kind == "all_reduce":
            lengths.setdefault(event.rank, []).append(round(event.end - event.start, 6))
    return Counter(min(lengths, key=lambda r: lengths[r][step]) for step in range(len(lengths[0]))).most_common(1)[0][0]


@wrong("find_straggler", "form", "return a number", earned=0)
def returns_the_seconds(events):
    return _arrivals(events)


@right("find_straggler")
def who_waits_least(events):
    """Whoever comes last waits least; the median over the steps forgets what happened once."""
    waits = {}
    for event in events:
        if event.kind == "all_reduce":
            waits.setdefault(event.rank, []).append(event.end - event.posted)
    return min(waits, key=lambda rank: statistics.median(waits[rank]))


@right("find_straggler")
def who_usually_works_longest(events):
    works = {}
    for event in events:
        if event.kind == "work":
            works.setdefault(event.rank, []).append(event.end - event.start)
    return torch.tensor(max(works, key=lambda rank: statistics.median(works[rank])))


# goodput


@wrong("goodput", "first-order", "the first approximation", earned=0)
def first_order(interval, mtbf, save, restart):
    return 1 - save / interval - interval / (2 * mtbf) - restart / mtbf


@wrong("goodput", "one-restart", "several failures, or none", earned=0)
def one_restart(interval, mtbf, save, restart):
    return interval / (mtbf * math.expm1((interval + save) / mtbf) + restart)


@wrong("goodput", "no-restart", "restarts take time too", earned=0)
def no_restart(interval, mtbf, save, restart):
    return interval / (mtbf * math.expm1((interval + save) / mtbf))


@wrong("goodput", "save-counts", "saving is no training", earned=0)
def counts_the_save(interval, mtbf, save, restart):
    return (interval + save) / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + save) / mtbf))


@wrong("goodput", "percent", "a share of 1", earned=0)
def in_percent(interval, mtbf, save, restart):
    return 100 * interval / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + save) / mtbf))


@wrong("goodput", "value", "it should be", earned=2)
def never_below_a_half(interval, mtbf, save, restart):
    return max(0.5, interval / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + save) / mtbf)))


@right("goodput")
def by_the_number_of_failures(interval, mtbf, save, restart):
    """A failure's cost, and how many there are on average before one interval goes through."""
    step, well = interval + save, math.exp(-(interval + save) / mtbf)
    failures = (1 - well) / well
    lost = mtbf - step * well / (1 - well)  # of an attempt that fails, on average
    back = mtbf * math.expm1(restart / mtbf)  # until a restart has gone through
    return interval / (step + failures * (lost + back))


# detect_corruption


def _agree(dist, total):
    sums = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, total)
    sums = [tuple(one.tolist()) for one in sums]
    most = Counter(sums).most_common(1)[0][0]
    return [rank for rank, one in enumerate(sums) if one != most]


@wrong("detect_corruption", "missed", "rounds a small flip away", earned=2)
def by_a_sum_of_floats(dist, model):
    return _agree(dist, sum(p.detach().float().sum() for p in model.parameters()).reshape(1))


@wrong("detect_corruption", "missed", "rounds a small flip away", earned=0)
def by_a_norm(dist, model):
    return _agree(dist, sum(p.detach().double().square().sum() for p in model.parameters()).reshape(1))


@wrong("detect_corruption", "too-many-bytes", "no weight has to travel", earned=0)
def by_all_weights(dist, model):
    return _agree(dist, torch.cat([p.detach().view(-1).view(torch.uint8) for p in model.parameters()]))


@wrong("detect_corruption", "majority", "the minority is wrong", earned=0)
def trusts_rank_0_weights(dist, model):
    total = sum(p.detach().view(-1).view(torch.uint8).long().sum() for p in model.parameters()).reshape(1)
    sums = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, total)
    return [rank for rank, one in enumerate(sums) if rank and one.item() != sums[0].item()]


@wrong("detect_corruption", "missed", "Look at the bytes", earned=0)
def looks_at_the_first_parameter_of_the_last_layer(dist, model):
    return _agree(dist, list(model.parameters())[-2].detach().view(-1).view(torch.uint8).long().sum().reshape(1))


@wrong("detect_corruption", "form", "a list of ranks", earned=0)
def says_only_yes_or_no(dist, model):
    return bool(by_a_sum_of_bytes(dist, model))


@wrong("detect_corruption", "changed", "only look at them", earned=0)
def looks_at_rounded_weights(dist, model):
    for parameter in model.parameters():
        parameter.data.add_(1).sub_(1)
    return _agree(dist, sum(p.detach().view(-1).view(torch.uint8).long().sum() for p in model.parameters()).view(1))


@right("detect_corruption")
def by_a_sum_of_bytes(dist, model):
    return _agree(dist, sum(p.detach().view(-1).view(torch.uint8).long().sum() for p in model.parameters()).view(1))


@right("detect_corruption")
def by_a_digest(dist, model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().view(-1).view(torch.uint8).numpy().tobytes())
    return set(_agree(dist, torch.tensor(list(digest.digest()[:8]), dtype=torch.uint8)))


# spare_nodes


@wrong("spare_nodes", "mean", "the number in repair on average", earned=0)
def as_many_as_on_average(nodes, failures_per_node_day, repair_days, surely):
    return math.ceil(nodes * failures_per_node_day * repair_days)


@wrong("spare_nodes", "value", "it should be 13", earned=0)
def normal_without_a_tail(nodes, failures_per_node_day, repair_days, surely):
    mean = nodes * failures_per_node_day * repair_days
    return math.ceil(mean + 2 * math.sqrt(mean))


@wrong("spare_nodes", "value", "it should be 13", earned=0)
def one_too_many(nodes, failures_per_node_day, repair_days, surely):
    return _spares(nodes * failures_per_node_day * repair_days, surely) + 1


@wrong("spare_nodes", "value", "it should be 0", earned=2)
def at_least_one(nodes, failures_per_node_day, repair_days, surely):
    return max(1, _spares(nodes * failures_per_node_day * repair_days, surely))


def _spares(mean, surely):
    for spares in range(10_000):
        if sum(math.exp(k * math.log(mean or 1e-300) - mean - math.lgamma(k + 1)) for k in range(spares + 1)) >= surely:
            return spares
    return None


@right("spare_nodes")
def by_logarithms(nodes, failures_per_node_day, repair_days, surely):
    return _spares(nodes * failures_per_node_day * repair_days, surely)


@right("spare_nodes")
def by_torch(nodes, failures_per_node_day, repair_days, surely):
    mean = torch.tensor(nodes * failures_per_node_day * repair_days, dtype=torch.float64)
    spares = 0
    while torch.special.gammaincc(torch.tensor(spares + 1.0, dtype=torch.float64), mean) < surely:
        spares += 1
    return spares
