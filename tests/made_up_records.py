"""A made-up class for the pages of grading: records as grades.json holds them, without grading anything."""

from __future__ import annotations

import random

CHAPTER = "ch03_ring_all_reduce"
ABOUT = {"graded with": "Graded in a sandbox.", "judge": "in a sandbox", "class seed": "any", "attempts": []}
EXERCISES = {"reduce_scatter_ring": 5, "all_gather_ring": 5, "ring_all_reduce": 5, "which_is_the_ring": 3}
CODE = '''def {name}(dist, tensor):
    """Add up chunks on their way around the ring."""
    rank, ranks = dist.get_rank(), dist.get_world_size()  # {who} wrote this
    chunks = list(tensor.tensor_split(ranks))
    for step in range(ranks - 1):
        dist.send(chunks[(rank - step) % ranks], (rank + 1) % ranks)
        arrived = torch.empty_like(chunks[(rank - step - 1) % ranks])
        dist.recv(arrived, (rank - 1) % ranks)
        chunks[(rank - step - 1) % ranks] += arrived
'''
DEADLOCK = [[rank, "wait", 0.0, 0.0, f"to send 8 bytes to rank {(rank + 1) % 4}"] for rank in range(4)]
RING = [event for step in range(3) for rank in range(4) for event in (
    [rank, "send", 2.0 * step, 2.0 * step + 2, f"to {(rank + 1) % 4} · 2,048 B"],
    [rank, "recv", 2.0 * step, 2.0 * step + 2, f"from {(rank - 1) % 4} · 2,048 B"])]  # fmt: skip
LINE = [event for step in range(3) for event in (
    [step, "send", 2.0 * step, 2.0 * step + 2, f"to {step + 1} · 4,096 B"],
    [step + 1, "recv", 2.0 * step, 2.0 * step + 2, f"from {step} · 4,096 B"])]  # fmt: skip
COLLECTIVE = [[rank, kind, float(begin), begin + 1.0, ""] for rank in range(4) for begin, kind in enumerate(
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "work", "barrier"])]  # fmt: skip
WRONG = {
    "deadlock": ("on 4 ranks with 8 elements a deadlock: ranks 0, 1, 2 and 3 wait in a circle: each for the next one\n"
                 "    line 6 of reduce_scatter_ring: dist.send(chunks[(rank - step) % ranks], (rank + 1) % ranks)",
                 DEADLOCK, "value ✗ any P – bytes – steps –", 0),
    "mean": ("on 4 ranks with 8 elements the tensor on rank 0 holds the mean, not the sum: do not divide by 4", RING,
             "value ✗ any P – bytes – steps –", 0),
    "whole-tensor": ("on 4 ranks with 1,024 elements rank 0 sent 12,288 bytes; a ring sends 6,144. You are passing the "
                     "whole tensor on: pass one chunk", LINE, "value ✓ any P ✓ bytes ✗ steps –", 2),
    "raised": ("on 4 ranks rank 1 raised NameError: name 'chunk' is not defined\n    line 5 of all_gather_ring",
               COLLECTIVE, "rule ✗ value – any P – bytes – steps –", 0),
    "not-written": ("not written yet", [], "value – any P – bytes – steps –", 0),
    "borrowed": ("borrowed", [], "value – any P – bytes – steps –", 0),
}  # fmt: skip


def result(exercise: str, code: str = "", **more) -> dict:
    """Return the result of an exercise: right without a code."""
    points = EXERCISES.get(exercise, 5)
    sentence, events, marks, earned = WRONG.get(code, (f"wrong: {code}", [], "value ✗", 0)) if code else (
        "sums correctly · 2(P-1)/P·S bytes per rank", [], "value ✓ any P ✓ bytes ✓ steps ✓", points)  # fmt: skip
    return {"exercise": exercise, "graded": True, "earned": min(earned, points), "points": points, "parts": {},
            "marks": marks, "code": code, "sentence": sentence, "see": "print(tensors_after(ring))" if events else "",
            "borrowed": code == "borrowed", "by_hand": None, "counts": True, "events": events} | more  # fmt: skip


def record(learner: str, codes: dict[str, str] | list[str], chapter: str = CHAPTER, **more) -> dict:
    """Return the record of a notebook, from the code of each exercise (empty: right)."""
    if isinstance(codes, list):
        codes = dict(zip(EXERCISES, codes, strict=False))
    results = [result(name, code) for name, code in codes.items()]
    cells = {name: CODE.format(name=name, who=learner) for name, code in codes.items()}
    return {"learner": learner, "file": f"{chapter}.ipynb", "chapter": chapter, "version": 1, "remark": "",
            "earned": sum(one["earned"] for one in results), "points": sum(one["points"] for one in results),
            "results": results, "seed": 1, "digest": "x", "cells": cells, "attempt": 1, "attempts": 1,
            "handed_in": "2026-11-23T09:30:00+00:00"} | more  # fmt: skip


def class_of(count: int = 40, seed: int = 0) -> list[dict]:
    """Return the records of a class: many in one place, some elsewhere, some right, some with nothing."""
    dice, found = random.Random(seed), []
    for place in range(count):
        learner = f"learner{place:02d}"
        if place < count // 20:
            found.append({"learner": learner, "file": learner, "chapter": "", "earned": 0, "points": 0, "results": [],
                          "remark": f"no notebook in {learner}/", "seed": None, "digest": ""})  # fmt: skip
            continue
        first = "deadlock" if place % 10 in (1, 4, 7) else dice.choice(["", "", "", "mean", "whole-tensor"])
        second = dice.choice(["", "", "raised", "not-written"]) if first else dice.choice(["", "", "whole-tensor"])
        codes = [first, second, "not-written" if first else dice.choice(["", "borrowed", "mean"]),
                 dice.choice(["", "not-written"])]
        found.append(record(learner, codes, attempt=1 + place % 3, attempts=1 + place % 3))
    return found
