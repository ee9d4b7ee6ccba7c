"""Who holds what: a cell for each chunk on each rank, and a product whose matrix is cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, GREY, INK, SMALLEST, TITLE, WIDTH, Picture, new_axes, say


def shards(
    held: Sequence[Sequence[Collection | str]],
    *,
    columns: Sequence[str] | None = None,
    title: str | None = None,
    complete: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw what each chunk on each rank holds: `held[rank][chunk]` is a collection of ranks whose part is in it.

    Up to eight ranks every contribution has its colour and its place in the cell; beyond, a cell is the darker the
    more it holds. A cell may also be a text, drawn as it is. A dashed frame marks where a chunk must be `complete`
    at the end, and the title says so: "own", chunk r on rank r, or "all", every chunk on every rank. Its text twin is
    `shards_text`.
    """
    ranks, chunks = len(held), max((len(row) for row in held), default=0)
    cells = [cell for row in held for cell in row if not isinstance(cell, str)]
    everyone = max([ranks, *(max(cell) + 1 for cell in cells if cell)])
    ax = new_axes(ax, 1.1 + min(0.62 * max(ranks, 1), 7.0), min(WIDTH, 1.6 + 1.6 * max(chunks, 1)))
    small = max(ranks, chunks) > 16  # too many cells for letters
    letters = int(9 * WIDTH / max(chunks, 1)) if chunks > 4 else 18
    for rank, row in enumerate(held):
        for chunk, cell in enumerate(row):
            _cell(ax, rank, chunk, cell, everyone, 0 if small else letters)
    for rank, chunk in ((rank, chunk) for rank in range(ranks) for chunk in range(chunks) if complete):
        if complete == "all" or rank == chunk:
            corner, long = (chunk - 0.49, rank - 0.49), 0.98
            ax.add_patch(plt.Rectangle(corner, long, long, facecolor="none", edgecolor=INK, linestyle="--",
                                       linewidth=1.4))  # fmt: skip
    if complete:
        where = "every chunk on every rank" if complete == "all" else "chunk r on rank r"
        title = title or f"Dashed: {where} must hold the parts of all {ranks} ranks"
    ax.set_xlim(-0.5, max(chunks, 1) - 0.5)
    ax.set_ylim(max(ranks, 1) - 0.5, -0.5)
    step = 1 if not small else -(-max(ranks, chunks) // 16)
    names = list(columns) if columns else [f"chunk {chunk}" if chunks <= 8 else str(chunk) for chunk in range(chunks)]
    ax.set_xticks(range(0, chunks, step), names[::step])
    ax.set_yticks(range(0, ranks, step), [f"rank {rank}" for rank in range(0, ranks, step)])
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, shards_text(held))
    return ax


def _cell(ax: Axes, rank: int, chunk: int, cell: Collection | str, everyone: int, letters: int) -> None:
    text, small = isinstance(cell, str), not letters
    share = 0 if text else len(set(cell)) / everyone
    full = share == 1
    shade = "white" if everyone <= 8 or text else plt.cm.cividis_r(0.9 * share)
    gap = 0.0 if small else 0.04
    ax.add_patch(
        plt.Rectangle(
            (chunk - 0.5 + gap, rank - 0.5 + gap), 1 - 2 * gap, 1 - 2 * gap, facecolor=shade,
            edgecolor="black" if full and not small else GREY, linewidth=0 if small else 1.6 if full else 0.8,
        )
    )  # fmt: skip
    if not text and everyone <= 8:
        width = (1 - 2 * gap) / everyone
        for part in sorted(set(cell)):
            corner = (chunk - 0.5 + gap + part * width, rank + 0.12)
            look = {"facecolor": FACES[part], "edgecolor": INK, "linewidth": 0.6, "label": f"from rank {part}"}
            ax.add_patch(plt.Rectangle(corner, width, 0.38 - gap, **look))
    if not small:
        ink = "white" if everyone > 8 and share > 0.5 else "black"
        said = cell if text else _sum_text(cell, everyone, letters)
        middle = rank if text or everyone > 8 else rank - 0.18
        weight = "bold" if full else "normal"
        ax.text(chunk, middle, said, ha="center", va="center", fontsize=SMALLEST, weight=weight, color=ink)


def _sum_text(cell: Collection, everyone: int, letters: int = 18) -> str:
    """Return what a cell holds in a few letters: 0+2, or "all 4"; a rank that was added twice stands there twice."""
    parts = sorted(cell)
    if len(parts) == len(set(parts)) == everyone > 1:
        return f"all {everyone}"
    added = "+".join(map(str, parts))
    return added if len(added) <= letters else f"{len(parts)} of {everyone}"


def shards_text(held: Sequence[Sequence[Collection | str]]) -> str:
    """Return the text twin of `shards`: a line per rank, a column per chunk."""
    everyone = len(held)
    rows = [[cell if isinstance(cell, str) else _sum_text(cell, everyone) or "–" for cell in row] for row in held]
    width = max((len(cell) for row in rows for cell in row), default=0)
    digits = len(str(max(everyone - 1, 0)))
    lines = [" | ".join(f"{cell:^{width}}" for cell in row) for row in rows]
    return "\n".join(f"rank {rank:>{digits}} | {line}" for rank, line in enumerate(lines))


# A product y = xW whose matrix is cut: which rank holds what, and what each rank's product is of y


THIN = 0.13  # how high a row vector is drawn, beside a square matrix of height 1
X, W, Y = 0.0, 1.3, 2.75  # where each is drawn


def cut_product(ranks: int = 4) -> list[Axes]:
    """Draw y = xW with W cut by columns (left) and by rows (right), a colour for each of at most eight ranks.

    What all ranks hold is white.
    """
    if not 1 <= ranks <= len(FACES):
        raise ValueError(f"ranks={ranks}: there are colours for 1 to {len(FACES)}")
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.2), layout="constrained", FigureClass=Picture)
    figure.get_layout_engine().set(wspace=0.09)
    titles = "By columns: a rank gets columns of y", "By rows: a rank gets a summand of y"
    for ax, name in zip(axes, titles, strict=True):
        ax.set_title(name, fontsize=TITLE, loc="left")
        ax.set_xlim(-0.05, Y + 1.05)
        ax.set_ylim(-0.32, 1.05)
        ax.set_aspect("equal")
        ax.axis("off")
        for left, right, sign in ((X + 1, W, "×"), (W + 1, Y, "=")):
            ax.text((left + right) / 2, 0.5, sign, ha="center", va="center", fontsize=TITLE)
    by_columns, by_rows = axes
    part, middle, summand = 1 / ranks, 0.5 - THIN / 2, min(THIN, 0.4 / ranks)
    for rank in range(ranks):
        name = f"rank {rank}" if ranks <= 4 else str(rank)
        _box(by_columns, X, 1 - (rank + 0.5) * part - summand / 2, 1, summand, None)  # white: held by all
        _box(by_columns, W + rank * part, 0, part, 1, rank, name, turned=True)
        _box(by_columns, Y + rank * part, middle, part, THIN, rank)
        _box(by_rows, X + rank * part, middle, part, THIN, rank)
        _box(by_rows, W, 1 - (rank + 1) * part, 1, part, rank, name)
        _box(by_rows, Y, 1 - (rank + 0.5) * part - summand / 2, 1, summand, rank)
        if rank:
            by_rows.text(Y + 0.5, 1 - rank * part, "+", ha="center", va="center", fontsize=TITLE)
    says = ((by_columns, "x:\na copy each", "columns", "columns"),
            (by_rows, "x:\na part each", "rows", "a summand"))  # fmt: skip
    for ax, of_x, of_w, of_y in says:
        for place, words in ((X, of_x), (W, f"W:\n{of_w} each"), (Y, f"y:\n{of_y} each")):
            ax.text(place + 0.5, -0.08, words, ha="center", va="top", fontsize=SMALLEST)
    say(by_columns, f"{ranks} ranks: x on every rank, some columns of W on each, whose product is as many columns of y")
    say(by_rows, f"{ranks} ranks: a part of x and some rows of W on each, whose product is a summand of all of y")
    return list(axes)


def _box(
    ax: Axes, x: float, y: float, width: float, height: float, rank: int | None, text: str = "", turned: bool = False
) -> None:
    colour, edge = ("white", INK) if rank is None else (FACES[rank], INK)
    ax.add_patch(plt.Rectangle((x, y), width, height, facecolor=colour, edgecolor=edge, linewidth=0.8))
    if text:
        where = {"ha": "center", "va": "center", "rotation": 90 if turned else 0}
        ax.text(x + width / 2, y + height / 2, text, fontsize=SMALLEST, color=INK, **where)
