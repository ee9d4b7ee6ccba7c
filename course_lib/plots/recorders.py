"""What the flight recorders of all ranks say, one under the other: who is in which collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import COMPUTE, INK, LIMIT, SMALLEST, TITLE, WAITING, legend_below, new_axes, say

LOOKS = {"completed": (COMPUTE, "completed", ""), "started": (WAITING, "started: waits in it", ""),
         "scheduled": ("#FFFFFF", "scheduled: queued behind it", "////")}  # fmt: skip


def recorder_dumps(
    dumps: Mapping[int, Sequence[Mapping]], culprits: Iterable[int] = (), ranks: Iterable[int] | None = None,
    title: str = "", ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the dumps of some ranks: a row a rank, a column a collective; who is to blame is red."""
    rows, culprits = list(dumps if ranks is None else ranks), set(culprits)
    numbers = sorted({one["collective_seq_id"] for rank in rows for one in dumps[rank]})
    waiting = [one["collective_seq_id"] for rank in rows for one in dumps[rank] if one["state"] != "completed"]
    stuck = min(waiting, default=None)
    numbers = [number for number in numbers if stuck is None or number >= stuck - 3]
    ax = new_axes(ax, 1.8 + 0.34 * len(rows))
    told, places = [], []
    for before, rank in zip([rows[0] - 1, *rows], rows, strict=False):
        if rank > before + 1:  # some ranks are left out
            ax.text(numbers[0] - 0.62, (places[-1] if places else -1) + 0.83, "\u22ee", ha="right", va="center",
                    fontsize=TITLE)  # fmt: skip
        row = (places[-1] if places else -1.0) + (1.0 if rank == before + 1 else 1.7)
        places.append(row)
        found = {one["collective_seq_id"]: one for one in dumps[rank]}
        for number in numbers:
            one = found.get(number)
            state = one["state"] if one else None
            if number not in numbers or state is None and number != stuck:
                continue
            wrong = state is None or number == stuck and rank in culprits
            colour, _, hatch = (LIMIT, "", "") if wrong else LOOKS[state]
            ax.add_patch(Rectangle((number - 0.48, row - 0.42), 0.96, 0.84, facecolor=colour,
                                   edgecolor="#888888" if hatch else INK, hatch=hatch, linewidth=0.5))  # fmt: skip
            if wrong:
                words = one["profiling_name"].partition(":")[2] if one else "absent"
                ax.text(number, row, words, ha="center", va="center", fontsize=SMALLEST)
        told.append(f"rank {rank} {'waits in' if stuck in found else 'never came to'} {stuck}")
    ax.set(xlim=(numbers[0] - 0.6, numbers[-1] + 0.6), ylim=(places[-1] + 0.6, -0.6))
    ax.set_xticks(numbers, [str(number) for number in numbers])
    ax.set_yticks(places, [str(rank) for rank in rows])
    for label, rank in zip(ax.get_yticklabels(), rows, strict=True):
        if rank in culprits:
            label.set(weight="bold", color=LIMIT)
    ax.set_xlabel("number of the collective", fontsize=SMALLEST)
    ax.set_ylabel("rank", fontsize=SMALLEST)
    ax.set_title(title or "One rank never came, and everybody else waits for it", fontsize=TITLE, loc="left")
    handles = [Patch(facecolor=colour, edgecolor="#888888" if hatch else INK, hatch=hatch, label=name)
               for colour, name, hatch in LOOKS.values()]  # fmt: skip
    legend_below(ax, [*handles, Patch(facecolor=LIMIT, edgecolor=INK, label="to blame")], columns=4)
    say(ax, "; ".join(told))
    return ax
