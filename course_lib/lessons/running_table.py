"""The running table: what one step of the tiny GPT costs each rank under a strategy, measured on a simulated cluster.

A strategy is a function `strategy(dist, model)` that is called once on every rank with the same untrained GPT. It keeps
what its rank needs of the model and returns `(step, module, optimizer)`: what trains on one global batch and returns
the loss, and the two things whose bytes are counted; a fourth thing holds the gradients where `parameter.grad` does
not. `measure` turns a strategy into a `Row`; `table` shows rows.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from course_lib import Cluster, Event, bytes_held, run, text, work
from course_lib.engine import current
from course_lib.gpt import next_token_loss
from course_lib.models import TINY_GPT
from course_lib.results import duration
from course_lib.training import new_model, new_optimizer

ONE_NODE = Cluster(bandwidth=10e9, latency=5e-6, flops=1e12)
"""Four devices of 1 TFLOP/s in one machine: links of 10 GB/s, 5 µs a message."""
FOUR_NODES = Cluster(bandwidth=1e9, latency=30e-6, flops=1e12)
"""The same four devices in four machines: links of 1 GB/s (8 Gb/s), 30 µs a message."""
CLUSTERS = {"one node": ONE_NODE, "four nodes": FOUR_NODES}
RECORDED = Path(__file__).parents[1] / "data" / "rows.json"
BATCH, LENGTH = 32, 64  # the global batch: rows, and tokens a row
STEPS = 3


@dataclass(frozen=True)
class Row:
    """What a strategy costs. Bytes are those of the rank that holds or sends most; `loss` is that of the third step.

    `communicating`: the share of the step in which a rank's messages are on their way. `waiting`: the share in which a
    rank does not compute; what of communicating is hidden behind computing is not in it.
    """

    strategy: str
    cluster: str
    ranks: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    sent: int
    collectives_per_layer: float
    seconds: float
    tokens_per_second: float
    communicating: float
    waiting: float
    loss: float

    def __str__(self) -> str:
        return table([self])


class Computing(TorchDispatchMode):
    """Spends virtual time for each matrix product that a simulated rank computes, forward and backward."""

    products = 0  # so far

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None and args[0].device.type != "meta":
            work(flops=count(*args, **(kwargs or {}), out_val=out))
            self.products += 1
        return out


class Saved:
    """Counts the bytes that autograd keeps for backward, without parameters: `most` is the most alive at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._users: dict[int, int] = {}
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda kept: kept.tensor)

    def pack(self, tensor: torch.Tensor) -> _Kept:
        """Count a tensor that autograd saves."""
        return _Kept(self, tensor)

    def add(self, tensor: torch.Tensor, users: int) -> None:
        storage = tensor.untyped_storage()
        before = self._users.get(storage._cdata, 0)
        self._users[storage._cdata] = before + users
        if before == 0 or before + users == 0:
            self.now += users * storage.nbytes()
            self.most = max(self.most, self.now)


class _Kept:
    """One saved tensor; it counts until autograd lets go of it."""

    def __init__(self, saved: Saved, tensor: torch.Tensor) -> None:
        self.tensor, self._saved = tensor, saved
        self._counts = not (tensor.is_leaf and tensor.requires_grad) and not _is_weight(tensor)
        if self._counts:
            saved.add(tensor, 1)

    def __del__(self) -> None:
        if self._counts:
            self._saved.add(self.tensor, -1)


def _is_weight(tensor: torch.Tensor) -> bool:
    return isinstance(tensor._base, torch.nn.Parameter)  # a transposed weight, for instance


def train_a_little(dist: Any, strategy: Callable, steps: int, shape: tuple[int, int]) -> dict[str, Any]:
    """On one rank: set up a strategy, train `steps` steps, and tell what it holds, and when the first step was over."""
    saved = Saved()
    with Computing(), saved.hooks:
        step, module, optimizer, *gradients = strategy(dist, new_model())
        losses = [step(*text.batch(0, *shape))]
        first = current.rank().now()
        losses += [step(*text.batch(number, *shape)) for number in range(1, steps)]
    parameters = list(module.parameters())
    return {
        "weights": bytes_held([parameter.detach() for parameter in parameters]),
        "gradients": bytes_held([p.grad for p in parameters if p.grad is not None], *gradients),
        "optimizer": bytes_held(optimizer),
        "activations": saved.most,
        "losses": [None if loss is None else float(loss) for loss in losses],
        "first": first,
    }


def measure(
    name: str, strategy: Callable, ranks: int = 4, cluster: str = "one node", batch: int = BATCH, length: int = LENGTH
) -> Row:
    """Return the row of a strategy on `ranks` simulated ranks of one of the CLUSTERS.

    Setting up is left out: what comes after the first of three steps, halved, is the cost of a step.
    """
    on, tokens = CLUSTERS[cluster], batch * length
    trace = run(train_a_little, strategy, STEPS, (batch, length), ranks=ranks, on=on)
    more = STEPS - 1
    seconds = (trace.seconds - max(rank["first"] for rank in trace)) / more
    later = [[event for event in trace.of(rank) if event.posted >= told["first"]] for rank, told in enumerate(trace)]
    computing, communicating = (spent / more / ranks for spent in _spent(later))
    held = {part: max(rank[part] for rank in trace) for part in ("weights", "gradients", "optimizer", "activations")}
    sent = max(sum(event.sent for event in events) for events in later)
    calls = max(sum(event.charged for event in events) for events in later)
    losses = [rank["losses"][-1] for rank in trace if rank["losses"][-1] is not None]
    return Row(
        name, cluster, ranks, **held, sent=sent // more, collectives_per_layer=calls / more / TINY_GPT.layers,
        seconds=seconds, tokens_per_second=tokens / seconds, communicating=communicating / seconds,
        waiting=1 - computing / seconds, loss=sum(losses) / len(losses),
    )  # fmt: skip


def _spent(ranks: Iterable[list[Event]]) -> tuple[float, float]:
    """Return the seconds of all ranks in which they compute, and in which messages of theirs are on the way."""
    computing = communicating = 0.0
    for events in ranks:
        reach = 0.0
        for event in events:
            if event.kind == "work":
                computing += event.end - event.start
            elif event.end > reach:
                communicating += event.end - max(event.start, reach)
                reach = event.end
    return computing, communicating


# Strategies that every chapter compares with


def mine_of(dist: Any, batch: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of a global batch, which is what data parallelism does to it."""
    return batch.tensor_split(dist.get_world_size())[dist.get_rank()]


def one_device(dist: Any, model: torch.nn.Module) -> tuple:
    """Train on the whole batch, alone."""
    return data_parallel(lambda dist, model: lambda: None)(dist, model)


def data_parallel(prepare: Callable) -> Callable:
    """Return the strategy in which a rank trains on its rows; `prepare(dist, model)` returns what follows backward."""

    def strategy(dist: Any, model: torch.nn.Module) -> tuple:
        finish, optimizer = prepare(dist, model), new_optimizer(model)

        def step(tokens: torch.Tensor, targets: torch.Tensor) -> float:
            loss = next_token_loss(model(mine_of(dist, tokens)), mine_of(dist, targets))
            optimizer.zero_grad()
            loss.backward()
            finish()
            optimizer.step()
            return loss.item()

        return step, model, optimizer

    return strategy


# Showing rows


def recorded(before: str) -> list[Row]:
    """Return the rows that the chapters before `before` (such as "ch05") have measured."""
    known = json.loads(RECORDED.read_text())
    return [Row(**row) for chapter, rows in sorted(known.items()) if chapter < before for row in rows]


def record(chapter: str, rows: Iterable[Row]) -> None:
    """Write the rows of a chapter beside those of the others."""
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    known[chapter] = [asdict(row) for row in rows]
    RECORDED.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


COLUMNS = (
    ("strategy", "strategy", str),
    ("cluster", "cluster", str),
    ("ranks", "P", str),
    ("weights", "weights", "bytes"),
    ("gradients", "grads", "bytes"),
    ("optimizer", "optim.", "bytes"),
    ("activations", "activ.", "bytes"),
    ("sent", "sent", "bytes"),
    ("collectives_per_layer", "coll.", "{:g}".format),
    ("seconds", "step", duration),
    ("tokens_per_second", "tokens/s", "{:,.0f}".format),
    ("waiting", "waiting", "{:.0%}".format),
    ("loss", "loss", "{:.4f}".format),
)
LEGEND = "kB of weights, gradients, optimizer, activations held and sent per step by a rank; collectives per layer"
HIGHLIGHTED = "highlighted: what differs from the row before it, on the same cluster if there is one"
NAMES = 2  # columns that say which row it is
CHANGED = "background: rgba(230, 159, 0, 0.25); font-weight: bold"  # seen on white and on black pages


class Table(str):
    """A text table that a notebook shows as a real one, with what changed in the new rows highlighted."""

    cells: list[list[str]]
    changed: set[tuple[int, int]]
    legend: list[str]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        def line(place: int, values: list[str]) -> str:
            tag, shown = "td" if place else "th", []
            for column, value in enumerate(values):
                side = "left" if column < NAMES else "right"
                look = CHANGED if (place, column) in self.changed else "font-weight: " + ("normal" if place else "bold")
                shown.append(f'<{tag} style="text-align: {side}; {look}">{html.escape(value)}</{tag}>')
            return f"<tr>{''.join(shown)}</tr>"

        rows = "".join(line(place, values) for place, values in enumerate(self.cells))
        told = "<br>".join(html.escape(words) for words in self.legend)
        return f'<table style="font-variant-numeric: tabular-nums">{rows}</table><div>{told}</div>'


def table(rows: Iterable[Row], new: int = 0, only: Sequence[str] = ()) -> Table:
    """Return rows as a table; bytes are kB (1,000 bytes) per rank, `sent` and `step` are per step.

    The last `new` rows are marked: what differs from the row before on the same cluster (else from the row above) is
    highlighted where a notebook shows the table, which is where it is the last thing in a cell. As text, the rows begin
    with an arrow. A loss that all rows share is told below, once. `only` names the columns to show behind the strategy
    and the cluster; then the text beside the table tells what they are.
    """
    rows, shown = list(rows), {"strategy", "cluster", *only}
    columns = [column for column in COLUMNS if not only or column[1] in shown]
    cells = [_shown(row, columns) for row in rows]
    legend = [] if only else [LEGEND]
    if columns[-1][1] == "loss" and len(rows) > 1 and len({line[-1] for line in cells}) == 1:
        legend.append(f"the loss of the third step is {cells[0][-1]} in every row")
        columns, cells = columns[:-1], [line[:-1] for line in cells]
    changed = set()
    for place in range(max(1, len(rows) - new), len(rows)) if new else ():
        same = [other for other in range(place) if rows[other].cluster == rows[place].cluster]
        before = same[-1] if same else place - 1
        changed |= {(place + 1, column) for column, value in enumerate(cells[place]) if value != cells[before][column]}
    heads = [head for _, head, _ in columns]
    marks = [("→ " if place >= len(rows) - new else "  ") if new else "" for place in range(-1, len(rows))]
    widths = [max(len(line[place]) for line in [heads, *cells]) for place in range(len(columns))]
    aligned = [mark + " ".join(f"{cell:{'<' if place < NAMES else '>'}{width}}" for place, (cell, width) in
                               enumerate(zip(line, widths, strict=True)))
               for mark, line in zip(marks, [heads, *cells], strict=True)]  # fmt: skip
    made = Table("\n".join([*aligned, *legend]))
    made.cells, made.changed, made.legend = [heads, *cells], changed, legend + [HIGHLIGHTED] * bool(changed)
    return made


def _shown(row: Row, columns: Sequence[tuple]) -> list[str]:
    values = [(getattr(row, field), form) for field, _, form in columns]
    return [f"{value / 1000:,.0f}" if form == "bytes" else form(value) for value, form in values]
