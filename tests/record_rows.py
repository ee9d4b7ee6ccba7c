"""Measures the rows of the running table with the solutions and writes them down: python tests/record_rows.py

The strategies are those of the chapters' own cells; tests/test_strategies.py compares the file with new measurements.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.lessons.running_table import CLUSTERS, Row, data_parallel, measure, one_device, record  # noqa: E402
from course_lib.lessons.zero_stages import zero_1, zero_2, zero_3  # noqa: E402
from exercises_tests.tools.chapters import find, solved, tags  # noqa: E402


def definitions(chapter: str) -> dict:
    """Return the names that the solved chapter's imports, exercises and `def` or `class` cells define."""
    notebook, names = solved(find(chapter)), {"__name__": "__main__"}
    for cell in notebook.cells:
        wanted = {"imports", "exercise"} & set(tags(cell)) or cell.source.startswith(("def ", "class "))
        if cell.cell_type == "code" and wanted:
            kept = cell.source.split("\n\n\n") if "imports" not in tags(cell) else [cell.source]
            for part in kept:
                if kept == [cell.source] or part.startswith(("def ", "class ", "@")):
                    exec(compile(part, f"{chapter} {cell.id}", "exec"), names)
    return names


def chapter_4() -> list[Row]:
    names = definitions("ch04")
    rows = [measure("one device", one_device, ranks=1)]
    rows.append(measure("through rank 0", data_parallel(names["through_rank_0"])))
    rows.append(measure("after backward", data_parallel(names["averaging"])))
    return rows + [measure("per bucket", data_parallel(names["per_bucket"]), cluster=name) for name in CLUSTERS]


def chapter_5() -> list[Row]:
    strategy = definitions("ch05")["tensor_parallel"]
    return [measure("tensor parallel", strategy, cluster=name) for name in CLUSTERS]


def chapter_6() -> list[Row]:
    names = definitions("ch06")
    pipelined, gpipe, one_f_one_b = (names[name] for name in ("pipelined", "gpipe", "one_f_one_b"))
    rows = [measure("GPipe", pipelined(gpipe(4, 8)))]
    return rows + [measure("1F1B", pipelined(one_f_one_b(4, 8)), cluster=name) for name in CLUSTERS]


def chapter_7() -> list[Row]:
    names = definitions("ch07")
    shard, unshard = names["shard"], names["unshard"]
    rows = [measure("ZeRO-1", zero_1(names["sharded_adamw_step"]))]
    rows.append(measure("ZeRO-2", zero_2(names["reduce_scatter_gradients"], shard, unshard)))
    return rows + [measure("ZeRO-3", zero_3(names["fully_sharded_step"], shard), cluster=name) for name in CLUSTERS]


MEASURED = {"ch04": chapter_4, "ch05": chapter_5, "ch06": chapter_6, "ch07": chapter_7}

if __name__ == "__main__":
    for chapter, rows in MEASURED.items():
        record(chapter, rows())
        print(f"recorded {chapter}")
