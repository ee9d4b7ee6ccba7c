"""Prints published training runs beside what the planner says of them: python docs/published_runs.py

One number per GPU generation was calibrated, each on the one row that is marked with an asterisk; all other rows are
predictions. What a source does not print (recomputation, chunks) is what its text says, or none.
"""

from __future__ import annotations

from statistics import median

from course_lib.planning import REACHED, Published, published_runs
from course_lib.planning.recipe import GENERATIONS

NAMES = {"2407": "Llama 3", "2104": "Megatron 2021", "2205": "Megatron 2022", "2402": "MegaScale",
         "pytorch": "torchtitan", "docs.nv": "NeMo 24.12", "NVIDIA-": "Bridge"}  # fmt: skip


def short(row: Published) -> str:
    """Return a short name of a row's source."""
    return next(name for start, name in NAMES.items() if row.source.startswith(start))


def generation(row: Published) -> str:
    """Return the generation of a row's GPU."""
    return next(GENERATIONS[word] for word in row.node.gpu.name.split() if word in GENERATIONS)


def summary(rows: list[Published]) -> dict[str, tuple[int, float, float]]:
    """Return (rows, median, worst) of the size of the error: of all, of predictions only, dense only, by source."""
    kinds = {
        "all rows": rows,
        "without the three calibrated": [row for row in rows if not row.calibrates],
        "of these, dense models": [row for row in rows if not row.calibrates and not row.shape.experts],
        "of these, with experts": [row for row in rows if not row.calibrates and row.shape.experts],
    }
    for row in rows:
        kinds.setdefault(short(row), []).append(row)
    found = {}
    for kind, chosen in kinds.items():
        errors = [abs(row.error) for row in chosen]
        found[kind] = (len(errors), median(errors), max(errors))
    return found


def unbalanced(rows: list[Published]) -> list[tuple[Published, float]]:
    """Return the rows of torchtitan with context parallelism, and their error if the causal work was not balanced.

    With contiguous pieces the last rank has (2P - 1) / P times the mean work, and all wait for it.
    """
    found = []
    for row in rows:
        cp = row.layout.cp
        if cp > 1 and short(row) == "torchtitan":
            step = row.predicted
            more = step.attention * (cp - 1) / cp * (1 + (row.layout.pp - 1) / row.layout.chunks / 8)
            found.append((row, (step.seconds + more) / row.measured - 1))
    return found


def memory_rows(rows: list[Published]) -> list[tuple[Published, float]]:
    """Return the rows with a published memory, and the GiB that the planner says."""
    return [(row, row.room.total / 2**30) for row in rows if row.gib]


def lines() -> list[str]:
    """Return everything that is printed."""
    rows = published_runs()
    text = ["reached in matrix products: " + ", ".join(f"{name} {share:.0%}" for name, share in REACHED.items()), ""]
    head = f"{'':15}{'model':16}{'machine':12}{'GPUs':>6}  {'layout':58}"
    text.append(f"{head}{'measured s':>11}{'predicted':>10}{'error':>7}")
    for row in rows:
        mark = "*" if row.calibrates else " "
        text.append(
            f"{short(row):14}{mark}{row.shape.name:16}{row.node.name:12}{row.layout.ranks:6}  {str(row.layout):58.58}"
            f"{row.measured:11.2f}{row.predicted.seconds:10.2f}{row.error:+7.0%}"
        )
    text += ["", "not printed by the source, and unconfirmed:"]
    marked = {short(row): row.source.partition("; unconfirmed: ")[2] for row in rows}
    text += [f"{name:14} {what}" for name, what in marked.items() if what]
    text += ["", f"{'size of the error':34}{'rows':>5}{'median':>8}{'worst':>8}"]
    text += [f"{kind:34}{count:5}{middle:8.1%}{worst:8.0%}" for kind, (count, middle, worst) in summary(rows).items()]
    worst = max(rows, key=lambda row: abs(row.error))
    where = f"{worst.shape.name} on {worst.layout.ranks} {worst.node.gpu.name}, {worst.error:+.0%}"
    why = "so small products reach far less than the one share assumed here"
    text += ["", f"worst: {where}: its experts are {worst.shape.expert_ffn} wide, and {why}"]
    text += ["", "torchtitan with context parallelism: error, and error if the causal work had not been balanced"]
    found = unbalanced(rows)
    text += [f"{row.shape.name:14} CP {row.layout.cp}  {row.error:+.0%}  {error:+.0%}" for row, error in found]
    text += ["", "memory, GiB: published (the framework's peak), and by formula"]
    text += [f"{row.shape.name:14} {str(row.layout):62} {row.gib:5.1f} {gib:6.1f}" for row, gib in memory_rows(rows)]
    return text


if __name__ == "__main__":
    print("\n".join(lines()))
