"""Checks of chapter 13: a save that is killed at every operation, loads on other ranks, dumps, stragglers, goodput."""

from __future__ import annotations

import copy
import io
import math
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn

from course_lib import Cluster, Event, RankFailed, Results, each, run, work
from course_lib.costs import expected_goodput, spares_for, young_interval
from course_lib.lessons.crashes import Disk, crashes, final_files, packed, pieces_of, saved, survives
from course_lib.lessons.recorder import entry, healthy, planned
from course_lib.lessons.stage_3 import shard_size
from exercises_tests.judging import Case, Hint, Mistake, asked, check
from exercises_tests.seeds import drawn
from exercises_tests.values import amount, close, equal, integers, is_number, numbers, plain, shown

MINUTE, HOUR = 60.0, 3600.0


def _number(case: Case, got: Any, of: str) -> float:
    got = plain(got)
    case.expect(is_number(got), f"it returned {shown(got)}: return a number, {of}", "form")
    return got


# best_checkpoint_interval

RUNS = (  # mtbf, save, restart, in seconds
    (3.09 * HOUR, 120.0, 600.0),
    (7.9 * HOUR, 30.0, 300.0),
    (20 * MINUTE, 1.0, 60.0),
    (100 * HOUR, 900.0, 1800.0),
    (3.09 * HOUR, 120.0, 0.0),
    (3.09 * HOUR, 120.0, 3000.0),
)
NEAR = 0.05


def _interval(answer: Any, mtbf: float, save: float, restart: float) -> None:
    case = Case(
        label=f"with a failure every {mtbf / HOUR:.3g} h, {save:g} s to save and {restart:g} s to restart",
        see=f"best_checkpoint_interval({mtbf:g}, {save:g}, {restart:g})",
    )
    got = _number(case, answer(), "the seconds between two saves")
    best = young_interval(mtbf, save)
    share = expected_goodput(got, mtbf, save, restart) if 0 < got < math.inf else 0.0
    most = expected_goodput(best, mtbf, save, restart)
    why, code = "", "value"
    for wrong, value, words in (
        ("restart", math.sqrt(2 * (save + restart) * mtbf), "a restart costs the same however often you save"),
        ("whole-interval", math.sqrt(save * mtbf), "a failure loses half an interval on average, not a whole one"),
        ("half-mtbf", mtbf / 2, "that many seconds are lost at every other failure"),
        ("rounds", math.sqrt(mtbf / (2 * save)), "that is how often the save fits; seconds are asked for"),
        ("every-failure", mtbf, "so as many saves as failures: each failure loses half of that time"),
    ):
        if close(got, value, 1e-3) and not close(got, best, NEAR):
            why, code = f": {words}", wrong
    told = f"it returned {got:,.6g} s, which leaves {share:.1%} of the time; {best:,.4g} s leave {most:.1%}{why}"
    case.expect(close(got, best, NEAR), told, code)


@check(value=3, restart=1)
def check_best_checkpoint_interval(answer: Any, part: Any) -> str:
    own = drawn("best_checkpoint_interval")
    runs = (*RUNS, (own.randint(10, 60) * HOUR, float(own.randint(10, 100)), float(own.randint(60, 900))))
    answer = asked(answer, list(runs))
    part("value")
    for one in RUNS[:4]:
        _interval(answer, *one)
    part("restart")
    for one in runs[4:]:
        _interval(answer, *one)
    return "within 5 % of the best interval for runs of four sizes, whatever a restart takes"


# Checkpoints: a folder of files, in memory where a save is killed


def _held(state: dict, ranks: int) -> list[dict[str, torch.Tensor]]:
    """Return what each rank holds of a state: a piece of every tensor."""
    cut = {name: pieces_of(tensor, ranks) for name, tensor in state.items()}
    return [{name: cut[name][rank].clone() for name in cut} for rank in range(ranks)]


def _shapes(state: dict) -> dict[str, tuple]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def _extra(step: int = 7) -> dict[str, Any]:
    """Return what a checkpoint holds beside tensors of the model and its optimizer."""
    return {"step": step, "random": integers(1, (16,), "uint8")[0]}


def _state(wide: int = 5, more: float = 0.0) -> dict[str, torch.Tensor]:
    """Return the tensors of a small model and its optimizer: shapes that neither 2, 3 nor 4 divides."""
    shapes = {"up.weight": (wide, 3), "up.bias": (wide,), "down.weight": (2, 57, 9)}
    state = {}
    for number, (name, shape) in enumerate(shapes.items()):
        state[name] = integers(1, shape)[0] + 20 * number + more
        state[f"{name} exp_avg"] = integers(1, shape)[0] / 8 + 20 * number + 10 + more
    return state


def _folder(state: dict, ranks: int, extra: dict, identity: str = "a1") -> dict[str, bytes]:
    """Return the files of a checkpoint that `ranks` ranks have saved."""
    files = {
        f"shard-{identity}-{rank}.pt": packed({"identity": identity, "shards": shards})
        for rank, shards in enumerate(_held(state, ranks))
    }
    manifest = {"identity": identity, "ranks": ranks, "shapes": _shapes(state), "extra": extra}
    return files | {"manifest.pt": packed(manifest)}


# save_sharded

SAVING, OLD, NEW = 4, "a1", "b2"
HANGS = (Hint("waits", "A rank whose disk is full must not leave the others waiting: let all ranks ask each other "
              "whether all is well, with an all_reduce of a flag, before anybody gives up or goes on",
              "deadlock"),)  # fmt: skip


def opened(dist: Any, blobs: list) -> list:
    """Read files apart from whoever wrote them."""
    contents = []
    for data in blobs:
        try:
            contents.append(torch.load(io.BytesIO(data), weights_only=True))
        except Exception as error:
            contents.append(f"{type(error).__name__}: {error}"[:200])
    return contents


def saved_in_turn(dist: Any, save: Callable, cases: list, *data: Any) -> list:
    """Beside the answer: one save after another, each on a disk of its own; all begin each at the same time."""
    found = []
    for slow, fails in cases:
        found.append(saved(dist, save, *copy.deepcopy(data), slow, fails))
        dist.barrier()
    return found


class OneSave:
    """The part of a run of `saved_in_turn` that is one save, as if it had been a run of `saved`."""

    def __init__(self, trace: Results, place: int) -> None:
        self._found = [found[place] for found in trace]
        self._works = []
        for rank, found in enumerate(trace):
            before = sum(len(log) for log, *_ in found[:place])  # an operation of a disk is one piece of work
            self._works.append(trace.of(rank, "work")[before : before + len(self._found[rank][0])])

    def __getitem__(self, rank: int) -> tuple:
        return self._found[rank]

    def of(self, rank: int, kind: str) -> list[Event]:
        assert kind == "work", kind
        return self._works[rank]


class Saving:
    """What the answer is given to save, on a disk with an older checkpoint and what a killed save has left there."""

    def __init__(self, ranks: int = SAVING) -> None:
        self.ranks, self.state, self.extra = ranks, _state(more=100.0), _extra(8)
        self.shards, self.shapes = _held(self.state, ranks), _shapes(self.state)
        self.old = _folder(_state(), 2, _extra(7), OLD)
        half = packed({"identity": "b1", "shards": _held(_state(more=50.0), SAVING)[1]})
        self.before = self.old | {"shard-b1-1.pt": half, "shard-b1-2.pt": half[:900], "manifest-b1.new": b"half"}

    def run_all(self, answer: Any, cases: list[tuple]) -> Iterator[Any]:
        """Yield the traces of saves with (slow, fails): of one run, or, where that fails, of a run for each."""
        data = (dict(self.before), each(copy.deepcopy(self.shards)), dict(self.shapes), copy.deepcopy(self.extra), NEW)
        try:
            trace = run(saved_in_turn, answer, cases, *data, ranks=self.ranks, on=Cluster())
        except RankFailed:
            yield from (self.run(answer, *case) for case in cases)
        else:
            yield from (OneSave(trace, place) for place in range(len(cases)))

    def run(self, answer: Any, slow: int | None = None, fails: tuple | None = None) -> Results:
        words = f"on {self.ranks} ranks"
        words += f", of which rank {slow} is slow" if slow is not None else ""
        words += f", where the disk of rank {fails[0]} is full:" if fails else ""
        data = (dict(self.before), each(copy.deepcopy(self.shards)), dict(self.shapes), copy.deepcopy(self.extra), NEW)
        hints = HANGS if fails else ()
        return Case(self.ranks, words=words).run(saved, answer, *data, slow, fails, hints=hints)


def _judge_files(case: Case, saving: Saving, trace: Results) -> None:
    """Judge what is on the disk after a save that nothing disturbed."""
    for rank, (_, kind, sentence) in enumerate(trace):
        case.expect(not kind, f"rank {rank} raised {kind}: {sentence[:120]}", "raised")
    final, ranks = final_files(trace, saving.before), saving.ranks
    wanted = [f"shard-{NEW}-{rank}.pt" for rank in range(ranks)]
    whole, mine = (sum(t.nbytes for t in held.values()) for held in (saving.state, saving.shards[0]))
    writers = {rank for rank, (log, *_) in enumerate(trace) for kind, *_ in log if kind == "write"}
    case.expect(bool(writers), "no rank wrote anything: folder.write(name, data) writes bytes to a file", "nothing")
    case.expect(writers != {0} or ranks == 1,
        f"only rank 0 writes. It holds {mine:,} of {whole:,} bytes, so {1 - mine / whole:.0%} of the training is lost. "
        "Every rank writes what it holds", "rank-0-shard")  # fmt: skip
    by: dict[str, set] = {}
    for rank, (log, *_) in enumerate(trace):
        for name in (operation[1] for operation in log if operation[0] == "write"):
            by.setdefault(name, set()).add(rank)
    shared = next((name for name in by if len(by[name]) > 1), "")
    case.expect(not shared, f"ranks {shown(sorted(by.get(shared, ())))} all write {shared}, each over the others: "
        "every rank writes its own shard, and rank 0 alone the manifest", "written-by-many")  # fmt: skip
    new = sorted(set(final) - set(saving.before))
    missing = [name for name in wanted if name not in final]
    case.expect(not missing, f"the new files are {shown(new)}: {', '.join(missing[:2])} missing. Each rank writes "
        f"shard-{{identity}}-{{rank}}.pt, and the identity of this save is {NEW!r}", "missing-file")  # fmt: skip
    changed = final["manifest.pt"] != saving.old["manifest.pt"] if "manifest.pt" in final else False
    case.expect(changed, "manifest.pt is still the old one at the end: rank 0 writes a new manifest beside it, and "
        "renames it to manifest.pt when all is safe", "not-committed")  # fmt: skip
    blobs = [final[name] for name in (*wanted, "manifest.pt")]
    try:
        contents = run(opened, blobs, ranks=1, on=Cluster())[0]
    except RankFailed as failure:
        case.refuse(f"the files cannot be read back: {failure}", "unreadable")
    for rank, (name, found) in enumerate(zip(wanted, contents, strict=False)):
        _judge_shard(case, saving, rank, name, found)
    _judge_manifest(case, contents[-1], saving)
    size, once = len(final[wanted[0]]), len(packed({"identity": NEW, "shards": saving.shards[0]}))
    views = packed({"identity": NEW, "shards": {key: torch.zeros(ranks, len(one))[0]
                                                for key, one in saving.shards[0].items()}})  # fmt: skip
    case.expect(ranks == 1 or not 0.95 * len(views) < size < 1.05 * len(views),
        f"{wanted[0]} has {size:,} bytes for shards of {mine:,}: a shard is a view, and torch.save writes the whole "
        "storage under a view. Save clones", "whole-storage",
        see="torch.arange(1000)[:10].untyped_storage().nbytes()")  # fmt: skip
    case.at_most(size, 1.5 * once, f"{wanted[0]} has {{seen}} bytes, and torch.save writes {once:,} of its shards: "
        "is something written twice?", "twice")  # fmt: skip
    sent = max(trace.bytes_sent)
    case.expect(sent <= 1024, f"a rank sent {sent:,} bytes: nothing need be gathered, every rank writes what it holds; "
        "a flag for each rank is all that has to travel", "gathered")  # fmt: skip


def _judge_shard(case: Case, saving: Saving, rank: int, name: str, found: Any) -> None:
    form = isinstance(found, dict) and isinstance(found.get("shards"), dict)
    case.expect(form, f"{name} read back with torch.load(..., weights_only=True) is {str(found)[:100]}: write a dict "
        "of `identity` and `shards` with torch.save", "unreadable")  # fmt: skip
    case.expect(found.get("identity") == NEW,
        f"{name} says identity = {shown(found.get('identity'))}; this save is {NEW!r}. Without it nobody notices a "
        "piece of another save", "identity")  # fmt: skip
    lost = [key for key in saving.shapes if key not in found["shards"]]
    case.expect(not lost, f"{name} does not hold {lost[:1]}: write every shard under its own name", "lost")
    for key, shard in saving.shards[rank].items():
        case.same(found["shards"][key], shard, f"{key} in {name}",
            Mistake("rank-0-shard", saving.shards[0][key], f"holds rank 0's shard: write what rank {rank} holds"),
            says=f"what rank {rank} holds is")  # fmt: skip


def _judge_manifest(case: Case, manifest: Any, saving: Saving) -> None:
    names = {"identity", "ranks", "shapes", "extra"}
    case.expect(isinstance(manifest, dict) and names <= set(manifest),
        f"manifest.pt is {str(manifest)[:100]}: write a dict of identity, ranks, shapes and extra", "manifest")
    case.expect(manifest["identity"] == NEW, f"the manifest says identity = {shown(manifest['identity'])}; this save "
        f"is {NEW!r}", "identity")  # fmt: skip
    case.expect(manifest["ranks"] == case.ranks and _same_shapes(manifest["shapes"], saving.shapes),
        f"the manifest says ranks = {manifest['ranks']!r} and shapes = {str(manifest['shapes'])[:80]}; there are "
        f"{case.ranks} ranks, and `shapes` are those of the whole tensors", "manifest")  # fmt: skip
    case.expect(equal(manifest["extra"], saving.extra),
        f"the manifest's extra is {str(manifest['extra'])[:80]}: write the one that was given, or training begins "
        "again at the first batch", "extra")  # fmt: skip


def _same_shapes(got: Any, want: dict) -> bool:
    if not isinstance(got, dict) or list(map(str, got)) != list(want):
        return False
    return all(isinstance(shape, (tuple, list)) and tuple(shape) == want[name] for name, shape in got.items())


@check(files=2, crashes=3, full_disk=1)
def check_save_sharded(answer: Any, part: Any) -> str:
    saving, tried = Saving(), 0
    part("files")
    even = saving.run(answer)
    _judge_files(Case(SAVING), saving, even)
    lone = Saving(1)
    _judge_files(Case(1), lone, lone.run(answer))
    part("crashes")
    slowed = saving.run_all(answer, [(slow, None) for slow in range(SAVING)])
    for slow, trace in zip((None, *range(SAVING)), chain([even], slowed), strict=True):
        words = f"on {SAVING} ranks{'' if slow is None else f', of which rank {slow} is slow'},"
        for crash in crashes(trace, saving.before):
            tried += 1
            wrong, code = survives(crash, saving.old, final_files(trace, saving.before), SAVING, NEW)
            Case(words=f"{words} {crash.words}:").expect(not wrong, wrong, code)
    part("full disk")
    full = [(2, 0), (0, 0), (3, 1), (0, 2)]
    for (rank, _), trace in zip(full, saving.run_all(answer, [(None, fails) for fails in full]), strict=True):
        _gives_up(saving, trace, rank)
    return f"{tried} crashes, a whole checkpoint of the right step after each · a full disk: all ranks say so"


def _gives_up(saving: Saving, trace: Results, full: int) -> None:
    case = Case(SAVING, words=f"on {SAVING} ranks, where the disk of rank {full} is full,")
    final = final_files(trace, saving.before)
    hurt = [name for name, data in saving.old.items() if final.get(name) != data]
    case.expect(not hurt, f"{hurt[:1]} is no longer what it was: without all pieces there is no new checkpoint, and "
        "the old one stays", "committed")  # fmt: skip
    quiet = [rank for rank, (_, kind, _) in enumerate(trace) if not kind]
    case.expect(not quiet, f"rank {quiet[:1]} returned as if all were well: every rank raises OSError, or its caller "
        "believes that step 8 is safe", "quiet")  # fmt: skip
    for rank, (_, _, sentence) in enumerate(trace):
        case.expect(len(sentence.split()) >= 4 and "\n" not in sentence.strip(),
            f"rank {rank} raised OSError({sentence[:60]!r}): say in one sentence that the save was given up",
            "no-sentence")  # fmt: skip


# load_resharded

LENGTHS = re.compile("size of tensor|existing size|expanded size")
FEWER = (". The two sides have different lengths: the old pieces may end before this rank's new shard does, because "
         "its end is padding, so copy only as many numbers as both have")  # fmt: skip
OWN_FILE = ". It had read only the file of its own number"


def loaded(dist: Any, answer: Any, files: dict, shards: dict, shapes: dict) -> tuple:
    """Beside the answer: load from a disk in memory; return what was raised, the shards, and what was returned.

    To a bare error of whoever has read the file of its own number and no other, it is said that this is the mistake.
    """
    kind = sentence = ""
    extra, disk = None, Disk(files)
    try:
        extra = answer(dist, disk, dict(shards), shapes)
    except NotImplementedError:
        raise
    except Exception as error:
        if isinstance(error, TypeError) and error.__traceback__.tb_next is None:
            raise  # the call itself: the answer takes other parameters
        kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
        sentence = str(error)
        pieces = {name for name in disk.read_from if name.startswith("shard-")}
        if kind != "ValueError" and pieces == {f"shard-a1-{dist.get_rank()}.pt"}:
            sentence += f"{OWN_FILE}. With another number of ranks, a rank's part lies in other files, too"
    return kind, sentence, shards, extra


def loaded_in_turn(dist: Any, answer: Any, files: list, shards: list, shapes: list) -> list:
    """Beside the answer: load one checkpoint after another; nobody begins the next before all are done with one."""
    found = []
    for case in zip(files, shards, shapes, strict=True):
        found.append(loaded(dist, answer, *case))
        dist.barrier()
    return found


Loads = Callable[[Case], Sequence]


def _together(answer: Any, ranks: int, cases: list[tuple[dict, dict]]) -> list[Loads]:
    """Return for each case of (files, shapes) a function that gives what every rank has loaded.

    All are loaded in one run: where submissions are graded, each process of each run takes a second. If that run fails,
    each function runs its own case, so that the one that fails is told by itself.
    """
    files, shapes = [files for files, _ in cases], [shapes for _, shapes in cases]
    shards = [[_blank(shape, ranks)[rank] for shape in shapes] for rank in range(ranks)]
    try:
        trace = run(loaded_in_turn, answer, files, each(shards), shapes, ranks=ranks, on=Cluster())
    except RankFailed:
        return [lambda case, one=one: _apart(case, answer, *one) for one in cases]
    return [lambda case, place=place: [found[place] for found in trace] for place in range(len(cases))]


def _apart(case: Case, answer: Any, files: dict, shapes: dict) -> Results:
    return case.run(loaded, answer, files, each(_blank(shapes, case.ranks)), dict(shapes))


def _leftovers() -> dict[str, bytes]:
    """Return what killed saves have left in the folder, which nobody may read."""
    later = _held(_state(more=300.0), 3)
    files = {f"shard-z9-{rank}.pt": packed({"identity": "z9", "shards": later[rank]}) for rank in (0, 2)}
    return files | {"manifest-z9.new": b"half", "shard-a0-1.pt": b""}


def _blank(shapes: dict, ranks: int) -> list[dict[str, torch.Tensor]]:
    """Return what each rank holds before: shards of a model that was just made."""
    return [
        {name: torch.full((shard_size(shape, ranks),), 90.0 + rank) for name, shape in shapes.items()}
        for rank in range(ranks)
    ]


def _loads(load: Loads, state: dict, before: int, ranks: int, real: bool = False) -> None:
    shapes, extra = _shapes(state), _extra()
    case = Case(ranks, real=real, words=f"saved on {before} rank{'s' if before > 1 else ''} and "
                f"loaded on {ranks}{' real ones' if real else ''}")  # fmt: skip
    start = _blank(shapes, ranks)
    got = load(case)
    for rank, (kind, sentence, mine, found) in reversed(list(enumerate(got))):
        code = "own-file" if OWN_FILE in sentence else "raised"
        if kind == "RuntimeError" and LENGTHS.search(sentence) and code == "raised":
            code, sentence = "lengths", sentence + FEWER
        case.expect(not kind, f"rank {rank} raised {kind}: {sentence}", code)
        for name, tensor in state.items():
            old, want = torch.cat(pieces_of(tensor, before)), pieces_of(tensor, ranks)[rank]
            here = max(0, min(len(want), tensor.numel() - rank * len(want)))  # without padding, which may hold anything
            seen, right = mine[name], want[:here]
            case.expect(isinstance(seen, torch.Tensor) and seen.shape == want.shape,
                f"{name} on rank {rank} is no shard of {len(want)} elements any more", "value")
            names = sorted(range(before), key=str)  # as sorted() has their files: shard-a1-10 before shard-a1-2
            by_name = torch.cat([pieces_of(tensor, before)[number] for number in names])
            by_name = by_name[rank * len(want) :][: len(want)]
            split, file = old.tensor_split(ranks)[rank], pieces_of(tensor, before)[rank % before]
            begins = f"begins {numbers(seen[:here])}; it must be {numbers(right)}: "
            case.same(seen[:here], right, f"{name} on rank {rank}",
                Mistake("unchanged", start[rank][name][:here],
                    "is what it was: copy into the tensors of `shards`, do not make new ones"),
                Mistake("order-of-names", before > 10 and equal(seen[:here], by_name[:here]),
                    "has the shards in the order of their names, in which shard-a1-10.pt and shard-a1-11.pt come "
                    "before shard-a1-2.pt: take them by number, from 0 to ranks - 1"),
                Mistake("padding", rank < before != ranks and _begins(seen[:here], split, right),
                    f"{begins}the padding of the old shards was counted when the joined pieces were cut anew: rank r's "
                    "part begins at r times the length of its shard"),
                Mistake("own-file", rank < before != ranks and _begins(seen[:here], file, right),
                    f"{begins}that is what shard-a1-{rank}.pt holds: with another number of ranks a rank's part lies "
                    "in other files"),
                says="it must be")
        case.expect(equal(found, extra),
            f"rank {rank} returned {str(found)[:60]}: return the manifest's extra, or training begins again at the "
            "first batch", "extra")


def _begins(seen: torch.Tensor, other: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether what is seen begins as another tensor does, and that is not right."""
    both = min(len(seen), len(other))
    return equal(seen[:both], other[:both]) and not equal(other[:both], right[:both])


def _refuses(load: Loads, what: str, shapes: dict, culprit: str, *others: str) -> None:
    """Judge that a damaged checkpoint is refused on both ranks, and that nothing has changed anywhere.

    The sentence has to name the culprit, or what else is as good a name of it.
    """
    case, before = Case(2, words=f"{what}:"), _blank(shapes, 2)
    got = load(case)
    refused = [rank for rank, (kind, *_) in enumerate(got) if kind]
    case.expect(bool(refused),
        f"it was loaded as if all were well. Raise ValueError with a sentence that names {culprit}", "not-refused")
    case.expect(len(refused) == 2,
        f"rank {refused[0]} refused and rank {1 - refused[0]} went on: every rank must look at every file, or ask the "
        "others, before it changes anything", "some-ranks")
    for rank, (_, _, shards, _) in enumerate(got):
        for name, shard in shards.items():
            case.expect(equal(shard, before[rank][name]),
                f"rank {rank} refused, but {name} is already changed: a model half loaded is worse than none. Read and "
                "judge everything first, and copy only then", "half-loaded")
    for rank, (kind, sentence, _, _) in enumerate(got):
        case.expect(kind == "ValueError" and len(sentence.split()) >= 3 and "\n" not in sentence.strip(),
            f"rank {rank} raised {kind}: {sentence[:80]!r}. Raise ValueError with one sentence that says what is "
            "wrong", "no-sentence")
        case.expect(any(name in sentence for name in (culprit, *others)),
            f"rank {rank} says {sentence[:100]!r}, which does not name {culprit}", "no-culprit")


@check(value=3, refuses=2)
def check_load_resharded(answer: Any, part: Any) -> str:
    state = _state()
    shapes = _shapes(state)
    part("value")
    pairs, loads = ((4, 4), (4, 2), (2, 3), (3, 1), (1, 4), (12, 2)), {}
    for ranks in (4, 2, 3, 1):
        mine = [pair for pair in pairs if pair[1] == ranks]
        cases = [(_folder(state, before, _extra()) | _leftovers(), shapes) for before, _ in mine]
        loads |= zip(mine, _together(answer, ranks, cases), strict=True)
    for pair in pairs:
        _loads(loads[pair], state, *pair)
    files = _folder(state, 4, _extra()) | _leftovers()
    _loads(lambda case: _apart(case, answer, files, shapes), state, 4, 2, real=True)
    part("refuses")
    damaged = _damaged(state, files)
    tried = _together(answer, 2, [(files, shapes) for _, files, shapes, *_ in damaged])
    for load, (what, _, shapes, *culprits) in zip(tried, damaged, strict=True):
        _refuses(load, what, shapes, *culprits)
    return "any number of ranks before and after · data order back · damaged or foreign: refused, nothing changed"


def _damaged(state: dict, files: dict) -> list[tuple]:
    """Return (what is wrong, files, shapes, the culprit, what else names it) for each load that must be refused."""
    shapes, held = _shapes(state), _held(state, 4)
    last, first = "shard-a1-3.pt", "shard-a1-0.pt"
    without = lambda lost: {name: data for name, data in files.items() if name != lost}  # noqa: E731
    fewer = {name: shape for name, shape in shapes.items() if not name.startswith("down")}
    rest = {name: piece for name, piece in held[3].items() if name != "up.bias"}
    other = "the checkpoint is of another model, whose {} has {}, and this one's {}"
    foreign = "{} is a piece of another save of the same model"
    short = {name: piece[: len(piece) - (name == "up.weight")] for name, piece in held[0].items()}
    return [
        (f"{last} is missing", without(last), shapes, last),
        (f"{last} ends in the middle", files | {last: files[last][: len(files[last]) // 2]}, shapes, last),
        (f"{first} is empty", files | {first: b""}, shapes, first),
        ("the manifest is missing", without("manifest.pt"), shapes, "manifest.pt"),
        (other.format("down.weight", (2, 57, 9), (57, 2, 9)), files, shapes | {"down.weight": (57, 2, 9)},
         "down.weight"),
        (other.format("up.weight", (5, 3), (7, 3)), files, _shapes(_state(7)), "up."),
        (other.format("up.weight", (5, 3), (3, 5)), files, shapes | {"up.weight": (3, 5)}, "up.weight"),
        ("the model has head.weight, which the checkpoint has not", files, shapes | {"head.weight": (4, 4)},
         "head.weight"),
        ("the checkpoint has down.weight, which the model has not", files, fewer, "down.weight"),
        (f"{last} has no up.bias", files | {last: _shard(rest)}, shapes, last, "up.bias"),
        (foreign.format(first), files | {first: _shard(_held(_state(more=9.0), 4)[0], "b2")}, shapes, first),
        (foreign.format(last), files | {last: _shard(held[3], "b2")}, shapes, last),
        (f"{first} has up.weight with 3 elements, where the manifest's 4 ranks give it 4",
         files | {first: _shard(short)}, shapes, first, "up.weight"),
    ]  # fmt: skip


def _shard(shards: dict, identity: str = "a1") -> bytes:
    return packed({"identity": identity, "shards": shards})


# stop_together

TOGETHER = (Hint("waits", "An all_reduce returns only when all ranks have called it. So every rank calls it in every "
                 "step, with the signal or without, and all stop by its result and not by their own flag",
                 "deadlock"),)  # fmt: skip
STEPS = 12


def trained_until(dist: Any, answer: Callable, arrivals: list) -> int:
    """Beside the answer: train, and return after how many steps this rank stopped; a rank's signal comes in a step."""
    arrival = arrivals[dist.get_rank()]
    for step in range(STEPS):
        work(1.0)
        if answer(dist, arrival is not None and step >= arrival):
            return step
    return STEPS


def _stops(answer: Any, arrivals: list[int | None]) -> None:
    ranks, first = len(arrivals), min((one for one in arrivals if one is not None), default=STEPS)
    heard = ", ".join(f"rank {rank} in step {one}" for rank, one in enumerate(arrivals) if one is not None)
    words = f"on {ranks} ranks, where the signal reaches {heard or 'nobody'}:"
    got = list(Case(ranks, words=words).run(trained_until, answer, arrivals, hints=TOGETHER))
    case, after = Case(ranks, words=words), " and ".join(map(str, sorted(set(got))))
    case.expect(len(set(got)) == 1,
        f"the ranks stop after different steps ({after}). Those that go on wait in their next all-reduce for "
        "those that have stopped. The answer has to be the same on all ranks", "apart")  # fmt: skip
    case.expect(got[0] == first or got[0] != STEPS,
        f"nobody stops in {STEPS} steps, and then the machine is gone. One rank that has the signal is enough", "never")
    case.expect(got[0] >= first, f"all stop after step {got[0]}, though nobody was asked to by then", "unasked")
    case.expect(got[0] == first,
        f"all stop after step {got[0]}, but a rank was asked to in step {first}, and its machine may be gone by then: "
        "ask all ranks, and let one that has the signal be enough", "late")  # fmt: skip


@check(same=1, soon=1)
def check_stop_together(answer: Any, part: Any) -> str:
    own = drawn("stop_together")
    part("same")
    _stops(answer, [2, 2, 2, 2])
    _stops(answer, [3, 5, 4, 7])
    part("soon")
    for arrivals in ([6, 3, 5, 8], [None, None, 4, None], [own.randint(6, 9), own.randint(1, 5), None], [None] * 3):
        _stops(answer, arrivals)
    return "all ranks stop after the same step, in which the first of them has the signal"


# find_culprit

Dumps = dict[int, list[dict]]


def _hanging(ranks: int, number: int, culprits: Sequence[int], instead: dict | None, kept: int = 8) -> Dumps:
    """Return dumps of ranks that wait in collective `number`; the culprits did something else, or are not there."""
    dumps = healthy(ranks, number - 1, kept)
    for rank, found in dumps.items():
        if rank not in culprits:
            found.append(planned(number, "started"))
        elif instead:
            found.append(entry(number, state="started", **instead))
        if rank not in culprits or instead:
            found += [planned(number + 1 + later, "scheduled") for later in range(rank % 3)]
            del found[:-kept]
    return dumps


def _hangs() -> list[tuple[str, Dumps, tuple | None]]:
    """Return (what happened, dumps, what is to be found) for each part of the check."""
    sums = planned(412, "")["profiling_name"]
    late = {"name": "nccl:barrier", "size": 1}
    short = {"name": planned(40, "")["profiling_name"], "size": 4095}
    silent = _hanging(16, 100, [12], None)
    silent[12] = []
    first = _hanging(8, 1, [4], {"name": "nccl:broadcast", "size": 4096})
    healthy_job = healthy(8, 30)
    stuck = {rank: [*found, planned(55, "started")] for rank, found in healthy(8, 54, 7).items()}  # nothing after it
    behind = []
    for rank in (0, 7):  # the others have left a collective in which one still is
        behind.append(_hanging(8, 21, [rank], None))
        behind[-1][rank][-1] = planned(20, "started")
    own = drawn("find_culprit")
    number, rank = own.randint(50, 900), own.randint(1, 14)
    return [
        ("64 ranks, of which one never came", _hanging(64, 412, [37], None), (412, sums, [37])),
        ("8 ranks, of which rank 0 never came", _hanging(8, 9, [0], None), (9, planned(9, "")["profiling_name"], [0])),
        ("16 ranks, of which two never came", _hanging(16, 71, [3, 15], None),
         (71, planned(71, "")["profiling_name"], [3, 15])),
        ("8 ranks, of which one calls a barrier", _hanging(8, 500, [5], late),
         (500, planned(500, "")["profiling_name"], [5])),
        ("8 ranks, of which one sums a shorter tensor", _hanging(8, 40, [6], short), (40, short["name"], [6])),
        ("8 ranks that fall out of step in collective 1", first, (1, planned(1, "")["profiling_name"], [4])),
        ("16 ranks, of which one has died and left no dump", silent, (100, planned(100, "")["profiling_name"], [12])),
        ("8 ranks that wait for the network, all in the same call", stuck,
         (55, planned(55, "")["profiling_name"], [])),
        ("8 ranks, of which most never came", _hanging(8, 78, [0, 1, 2, 4, 7], None),
         (78, planned(78, "")["profiling_name"], [0, 1, 2, 4, 7])),
        *((f"8 ranks, of which rank {rank} is still in a collective that the others have completed", behind[place],
           (20, planned(20, "")["profiling_name"], [])) for place, rank in enumerate((0, 7))),
        ("8 ranks that have completed all", healthy_job, None),
        (f"16 ranks, of which rank {rank} never came to collective {number}", _hanging(16, number, [rank], None),
         (number, planned(number, "")["profiling_name"], [rank])),
    ]  # fmt: skip


def _found(answer: Any, what: str, dumps: Dumps, want: tuple | None) -> None:
    case = Case(words=f"{what}:")
    got = plain(answer())
    if want is None:
        case.expect(got is None, f"it returned {shown(got)}: nobody waits, so return None", "healthy")
        return
    form = isinstance(got, (tuple, list)) and len(got) == 3 and isinstance(got[2], (list, tuple, set))
    case.expect(form, f"it returned {shown(got)}: return (number, name, ranks)", "form")
    number, name, ranks = got[0], got[1], sorted(got[2]) if all(map(is_number, got[2])) else got[2]
    last = {rank: found[-1]["collective_seq_id"] if found else 0 for rank, found in dumps.items()}
    behind = [rank for rank in dumps if last[rank] == min(last.values())]
    victims = sorted(set(dumps) - set(want[2]))
    lowest = min(one["collective_seq_id"] for found in dumps.values() for one in found)
    case.expect(number == want[0] or number != lowest,
        f"it says collective {number}, which is only the first in the dumps and is completed: the recorder keeps the "
        "last few, so a rank without an entry may have completed it, too. Take the lowest number of an entry whose "
        "state is not completed", "first-kept")  # fmt: skip
    case.expect(number == want[0] or number not in last.values(),
        f"it says collective {number}, the last that some rank has enqueued; {want[0]} is the first that "
        "somebody has not completed. What comes after it is only a consequence", "last-enqueued")  # fmt: skip
    case.expect(number == want[0], f"it says collective {shown(number)}; {want[0]} is the first that is not completed",
        "number")  # fmt: skip
    case.expect(ranks != victims, f"it names ranks {shown(ranks)}: they wait in {want[1]}. Whoever they wait for is "
        "not among them", "victims")  # fmt: skip
    case.expect(ranks == want[2] or ranks != behind or not want[2],
        f"it names ranks {shown(ranks)}, which have enqueued least; {want[2]} called something else, or came not at "
        f"all, in collective {want[0]}", "least-enqueued")  # fmt: skip
    forgotten = sorted(set(want[2]) - set(ranks)) if isinstance(ranks, list) else []
    why = ""
    if forgotten:
        entry = next((one for one in dumps[forgotten[0]] if one["collective_seq_id"] == number), None)
        why = "is not in it" if entry is None else f"is in it with {entry['profiling_name']} {entry['input_sizes']}"
        why = f": rank {forgotten[0]} {why}, unlike most"
    case.expect(ranks == want[2], f"it names ranks {shown(ranks)}; it should be {want[2]}{why}", "ranks")
    case.expect(name == want[1], f"it says {shown(name)}; most ranks called {want[1]}", "name")


@check(missing=1, different=1, others=2)
def check_find_culprit(answer: Any, part: Any) -> str:
    hangs = _hangs()
    answer = asked(answer, [(copy.deepcopy(dumps),) for _, dumps, _ in hangs])
    for name, some in (("missing", hangs[:3]), ("different", hangs[3:6]), ("others", hangs[6:])):
        part(name)
        for one in some:
            _found(answer, *one)
    return "ranks that never came, called something else, were shorter or had died; also when nobody is to blame"


# find_straggler


def steps_of(ranks: int, slow: int, steps: int, hiccup: int | None = None, after: int | None = None) -> list[Event]:
    """Return the events of steps in which every rank works and all sum gradients; `slow` needs a fifth more.

    Rank `hiccup` loses 20 s in the first step, and rank `after` works for 60 s when all is over.
    """
    draw = random.Random(100 * int(os.environ.get("COURSE_SEED", "0")) + ranks + slow)
    now, events = [0.0] * ranks, []
    for step in range(steps):
        arrived = []
        for rank in range(ranks):
            seconds = draw.uniform(0.98, 1.02) * (1.2 if rank == slow else 1.0)
            seconds += 20 if rank == hiccup and step == 0 else 0
            events.append(Event(rank, "work", now[rank], now[rank] + seconds, now[rank]))
            arrived.append(now[rank] + seconds)
        end = max(arrived) + 0.1
        events += [Event(rank, "all_reduce", max(arrived), end, posted, 4, 4, 1, charged=True)
                   for rank, posted in enumerate(arrived)]  # fmt: skip
        now = [end] * ranks
    events += [Event(after, "work", now[0], now[0] + 60, now[0])] if after is not None else []
    draw.shuffle(events)
    return events


def _straggler(answer: Any, what: str, events: list[Event], slow: int) -> None:
    case = Case(words=f"{what}:")
    got = _number(case, answer(), "the rank")
    ranks = sorted({event.rank for event in events})
    hiccup, after = "late once" in what, "at the end" in what
    waited, worked = (
        {rank: sum(event.end - event.posted for event in events if (event.rank, event.kind) == (rank, kind))
         for rank in ranks} for kind in ("all_reduce", "work"))  # fmt: skip
    case.expect(got == slow or got != max(waited, key=waited.get),
        f"it names rank {got}, which spends the longest in all_reduce: it waits there for somebody else. The one who "
        "is waited for comes last and hardly waits", "victim")  # fmt: skip
    long, short = got == max(worked, key=worked.get), got == min(waited, key=waited.get)
    case.expect(got == slow or not (hiccup and (long or short)),
        f"it names rank {got}, which was late once, for so long that its work is the longest in all and its time in "
        f"all_reduce the shortest. Don't add up seconds: rank {slow} comes last in nearly every all_reduce",
        "once")  # fmt: skip
    case.expect(got == slow or not (after and long),
        f"it names rank {got}, which works long after the last all_reduce, when nobody waits for it any more; rank "
        f"{slow} comes last in nearly every all_reduce", "after")  # fmt: skip
    case.expect(got == slow, f"it names rank {got}; rank {slow} comes last in nearly every all_reduce. Measure from "
        "`posted`: `start` is when data moves, so no waiting lies between `start` and `end`", "rank")  # fmt: skip


@check(slow=2, once=1)
def check_find_straggler(answer: Any, part: Any) -> str:
    cases = [
        ("8 ranks, of which rank 5 is slow", steps_of(8, 5, 12), 5),
        ("64 ranks, of which rank 0 is slow", steps_of(64, 0, 6), 0),
        ("2 ranks, of which rank 1 is slow", steps_of(2, 1, 30), 1),
        ("8 ranks, of which rank 6 is slow and rank 2 was late once", steps_of(8, 6, 12, hiccup=2), 6),
        ("8 ranks, of which rank 3 is slow and rank 7 evaluates at the end", steps_of(8, 3, 12, after=7), 3),
    ]
    answer = asked(answer, [(list(events),) for _, events, _ in cases])
    part("slow")
    for one in cases[:3]:
        _straggler(answer, *one)
    part("once")
    for one in cases[3:]:
        _straggler(answer, *one)
    return "the rank for which the others wait, and not one that was late once"


# goodput


@check(value=2, often=1)
def check_goodput(answer: Any, part: Any) -> str:
    usual = [(1635.0, 3.09 * HOUR, 120.0, 600.0), (250.0, 3.09 * HOUR, 2.8, 600.0), (HOUR, 1000 * HOUR, 60.0, 0.0)]
    often = [(HOUR, HOUR, 600.0, 900.0), (3 * HOUR, HOUR, 60.0, HOUR)]
    own = drawn("goodput")
    often.append((float(own.randint(300, 9000)), own.randint(1, 60) * HOUR, float(own.randint(5, 200)), 600.0))
    answer = asked(answer, usual + often)
    part("value")
    for one in usual:
        _share(answer, *one)
    part("often")
    for one in often:
        _share(answer, *one)
    return "as the formula, also where failures come as often as saves"


def _share(answer: Any, interval: float, mtbf: float, save: float, restart: float) -> None:
    case = Case(label=f"saving every {interval:g} s, with a failure every {mtbf / HOUR:.3g} h, {save:g} s to save and "
                f"{restart:g} s to restart", see=f"goodput({interval:g}, {mtbf:g}, {save:g}, {restart:g})")  # fmt: skip
    got, want = _number(case, answer(), "the share of the time"), expected_goodput(interval, mtbf, save, restart)
    taken = mtbf * math.expm1((interval + save) / mtbf)
    for code, value, words in (
        ("no-restart", interval / taken, "restarts take time too, and they may fail themselves"),
        ("one-restart", interval / (taken + restart), "there may be several failures, or none, in one interval"),
        ("save-counts", (interval + save) / taken / math.exp(restart / mtbf), "saving is no training"),
        ("first-order", 1 - save / interval - interval / (2 * mtbf) - restart / mtbf,
         "that is the first approximation, good only where failures are rare"),
        ("percent", 100 * want, "return a share of 1"),
        ("lost", 1 - want, "that is the share that is lost"),
    ):  # fmt: skip
        case.expect(not close(got, value, 1e-6) or close(got, want, 1e-6),
            f"it returned {got:.6g}; it should be {want:.6g}: {words}", code)  # fmt: skip
    case.expect(close(got, want, 1e-6), f"it returned {got:.6g}; it should be {want:.6g}", "value")


# detect_corruption

DTYPES = {"float32": 32, "bfloat16": 16, "float64": 64}


def weights_of(dtype: str) -> nn.Module:
    """Return a model whose parameters hold small and large numbers, and zeros."""
    model = nn.Sequential(nn.Linear(40, 30), nn.Linear(30, 8))
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            values = torch.arange(parameter.numel(), dtype=torch.float64).view_as(parameter)
            parameter.copy_((values - 5) * (1e4 if place % 2 else 1e-3))
    return model.to(getattr(torch, dtype))


def flip(parameter: torch.Tensor, element: int, bit: int) -> None:
    """Flip one bit of one element."""
    flat = parameter.data.view(-1).view(torch.uint8)
    flat[element * parameter.element_size() + bit // 8] ^= 1 << bit % 8


def detected(dist: Any, answer: Any, cases: list) -> list:
    """Beside the answer: what it says of each case, and whether it left the weights as they were."""
    found = []
    for dtype, flips in cases:
        model = weights_of(dtype)
        for rank, place, element, bit in flips:
            if rank == dist.get_rank():
                flip(list(model.parameters())[place], element, bit)
        before = [parameter.detach().clone().view(torch.uint8) for parameter in model.parameters()]
        got = answer(dist, model)
        after = [parameter.detach().view(torch.uint8) for parameter in model.parameters()]
        found.append((list(got) if isinstance(got, (list, tuple, set)) else str(got)[:60],
                      all(map(torch.equal, before, after))))  # fmt: skip
    return found


def _bits(answer: Any, ranks: int, cases: list) -> None:
    trace = Case(ranks).run(detected, answer, cases)
    for place, (dtype, flips) in enumerate(cases):
        want = sorted({rank for rank, *_ in flips})
        told = "; ".join(f"bit {bit} of element {element} of parameter {p} on rank {r}" for r, p, element, bit in flips)
        case = Case(ranks, f"with {dtype} weights and {told or 'no bit'} flipped")
        for rank, found in enumerate(trace):
            got, kept = plain(found[place][0]), found[place][1]
            case.expect(isinstance(got, list), f"rank {rank} returned {shown(got)}: return a list of ranks", "form")
            got = sorted(got) if all(map(is_number, got)) else got
            case.expect(kept, f"rank {rank}'s weights have changed: only look at them", "changed")
            case.expect(bool(got or not want), f"rank {rank} noticed nothing: a sum or a norm of floats rounds a small "
                "flip away. Look at the bytes", "missed")  # fmt: skip
            case.expect(not want or got != sorted(set(range(ranks)) - set(want)),
                f"rank {rank} blames ranks {shown(got)}, which agree with each other: the minority is wrong",
                "majority")  # fmt: skip
            case.expect(got == want, f"rank {rank} blames ranks {shown(got)}; it should be {want}", "ranks")
    most = 64 * len(cases) * ranks
    Case(ranks).at_most(max(trace.bytes_sent), most, f"a rank sent {{seen}} bytes in {len(cases)} calls: no weight has "
        "to travel, only a checksum of a few bytes", "too-many-bytes")  # fmt: skip


@check(one=2, bits=1, few_bytes=1)
def check_detect_corruption(answer: Any, part: Any) -> str:
    part("one")
    _bits(answer, 3, [("float32", []), ("float32", [(1, 0, 77, 30)]), ("float32", [(0, 3, 7, 31)])])
    part("bits")
    small = [("float32", [(1, 0, 1199, 0)]), ("float32", [(3, 1, 6, 0)]), ("float32", [(1, 0, 5, 31)])]
    small += [("bfloat16", [(2, 2, 100, 0)]), ("float64", [(0, 0, 900, 0)]), ("float32", [(2, 2, 239, 29)])]
    _bits(answer, 4, small)
    part("few bytes")
    _bits(answer, 5, [("float32", [(1, 0, 3, 4), (4, 2, 9, 12)]), ("float32", [(3, 1, 2, 0), (0, 1, 2, 0)])])
    return "one flipped bit of any weight is found, and on which rank; a few bytes are sent"


# spare_nodes


@check(value=2, edges=1)
def check_spare_nodes(answer: Any, part: Any) -> str:
    value = [(2048, 6.5e-3, 0.5, 0.99), (128, 6.5e-3, 0.5, 0.99), (2048, 2.34e-3, 1.0, 0.999), (2048, 6.5e-3, 0.5, 0.5)]
    own = drawn("spare_nodes")
    value.append((own.randint(200, 4000), own.randint(10, 90) / 1e4, 0.5, 0.99))
    edges = [(2048, 0.0, 0.5, 0.99), (1, 1e-3, 1.0, 0.9), (16384, 6.5e-3, 0.5, 0.99), (2048, 6.5e-3, 0.5, 0.99999)]
    answer = asked(answer, value + edges)
    part("value")
    for one in value:
        _spares(answer, *one)
    part("edges")
    for one in edges:
        _spares(answer, *one)
    return "enough spares, and not one too many, for jobs of 1 to 16,384 nodes"


def _spares(answer: Any, nodes: int, rate: float, days: float, surely: float) -> None:
    words = f"with {nodes:,} nodes, {rate:g} failures a node and day, {days:g} days of repair, and {surely:g}"
    case = Case(label=words, see=f"spare_nodes({nodes}, {rate:g}, {days:g}, {surely:g})")
    got, want = _number(case, answer(), "of nodes"), spares_for(nodes, rate, days, surely)
    mean = nodes * rate * days
    case.expect(got == want or not close(got, math.ceil(mean), 1e-9),
        f"it returned {amount(got)}, the number in repair on average ({mean:.3g}): half of the time "
        f"there are more; {want} are enough", "mean")  # fmt: skip
    case.expect(got == want, f"it returned {amount(got)}; it should be {want}", "value")
