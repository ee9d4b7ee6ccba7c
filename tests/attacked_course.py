"""A course of two small exercises to attack: one on messages, one plain; right answers to both."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

NAME = "ch97_attacked"
CHECKS = '''
from exercises_tests.judging import alone, check, expect
from exercises_tests.values import equal, integers
from course_lib.ranks import each, run
from course_lib import Cluster


def total_of(dist, answer, mine):
    return answer(dist, mine)


@check(value=1, bytes=1)
def check_total(answer, part):
    part("value")
    for ranks in (2, 3):
        numbers = integers(ranks, (4,))
        want = sum(numbers[1:], numbers[0])
        trace = run(total_of, answer, each(numbers), ranks=ranks, on=Cluster())
        expect(all(equal(got, want) for got in trace), f"on {ranks} ranks the total is not {want.tolist()}", "value")
    part("bytes")
    expect(trace.bytes_sent == [32, 32, 32], f"the ranks sent {trace.bytes_sent} bytes, not 32 each", "bytes")
    return "sums"


@check(value=1)
def check_double(answer, part):
    part("value")
    for number in integers(1, (3,))[0].tolist():
        want = 2 * number
        got = answer([number, number])
        expect(equal(got, [want, want]), f"double([{number:g}, {number:g}]) is not [{want:g}, {want:g}]", "value")
    return "doubles"
'''
TOTAL = '''def total(dist, mine):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    others = [other for other in range(ranks) if other != rank]
    sending = [dist.isend(mine, other) for other in others]
    result = mine.clone()
    for other in others:
        arrived = torch.empty_like(mine)
        dist.recv(arrived, other)
        result += arrived
    for handle in sending:
        handle.wait()
    return result
'''
DOUBLE = "def double(numbers):\n    return [2 * number for number in numbers]\n"
RIGHT = {"total": TOTAL, "double": DOUBLE}


def notebook(cells: dict[str, str]) -> dict:
    """Return the chapter as a notebook whose exercise cells hold `cells`."""

    def code(source: str, name: str, *tags: str, **course) -> dict:
        return new_code_cell(source, id=name, metadata={"tags": list(tags), "course": course})

    whole = [
        code(
            "import torch\nfrom course_lib.notebook import borrow\nfrom course_lib.plots import timeline\n"
            "from course_lib import run\nfrom course_lib import Cluster\n"
            f"from exercises_tests.{NAME} import check_double, check_total",
            "imports",
            "imports",
        ),
    ]
    for name, points in (("total", 2), ("double", 1)):
        whole.append(code(cells[name], name, "exercise"))
        facts = {"points": points, "minutes": 5, "level": "core"}
        whole.append(code(f"check_{name}({name})", f"check_{name}", "check", "raises-exception", **facts))
    return new_notebook(cells=whole, metadata={"course": {"chapter": NAME, "title": "Attacked", "version": 1}})


def make(root: Path) -> Path:
    """Write the course under `root`."""
    stubs = {name: text.split(":\n")[0] + ":\n    raise NotImplementedError\n" for name, text in RIGHT.items()}
    for folder in ("notebooks", "exercises_tests", "solutions"):
        (root / folder).mkdir(parents=True)
    nbformat.write(nbformat.from_dict(notebook(stubs)), root / "notebooks" / f"{NAME}.ipynb")
    (root / "exercises_tests" / f"{NAME}.py").write_text(CHECKS)
    (root / "solutions" / f"{NAME}.py").write_text("import torch\n\n\n" + TOTAL + "\n\n" + DOUBLE)
    return root


def submit(folder: Path, learner: str, cells: dict[str, str] | str | bytes, file: str = "chapter.ipynb") -> Path:
    """Hand in a notebook with these exercise cells (or these raw contents) for a learner."""
    path = folder / learner / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(cells, dict):
        cells = json.dumps(notebook(RIGHT | cells))
    path.write_bytes(cells.encode() if isinstance(cells, str) else cells)
    return path
