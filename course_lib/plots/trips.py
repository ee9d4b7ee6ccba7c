"""The trip of tokens to their experts and back: over the ranks, row by row, and between nodes."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import COLLECTIVE, FACES, INK, SENT, SERIES, SMALLEST, TITLE, arrow, box, say, sheet

ROUTES = ((0, 9), (5, 14), (2, 9), (4, 7), (1, 15), (8, 9), (3, 12), (6, 9))  # of eight tokens; expert 9 is popular


def token_trips(routes: tuple[tuple[int, int], ...] = ROUTES, ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw tokens of `ranks` ranks on their way to two of 16 experts each, and back to where they came from."""
    per_rank, mine = 16 // ranks, len(routes) // ranks
    hot = max(range(16), key=lambda expert: sum(expert in route for route in routes))
    wanted = sum(hot in route for route in routes)
    ax = sheet(6.0, 40, 29.5, ax)
    title = f"Each token visits two of 16 experts, and {wanted} of {len(routes)} want the same one"
    ax.set_title(title, fontsize=TITLE, loc="left")
    high, top = 27.0 / ranks, 27.3
    for rank in range(ranks):
        bottom = top - high * (rank + 1) + 0.2
        for x, width in ((0.2, 7.4), (14.4, 11.2), (32.4, 7.4)):
            box(ax, x, bottom, width, high - 0.4, "white", edge=SERIES[rank], line=1.6)
        for x in (0.6, 35.6):
            ax.text(x, bottom + high / 2 - 0.2, f"rank {rank}", fontsize=SMALLEST, va="center", color=INK)
    heights = [top - high * (expert // per_rank) - (high - 0.5) * (expert % per_rank + 0.5) / per_rank - 0.25
               for expert in range(16)]  # fmt: skip
    for expert, y in enumerate(heights):
        crowded = expert == hot
        box(ax, 15.0, y - 0.62, 10.0, 1.24, "white", line=2.6 if crowded else 0.8)
        ax.text(15.4, y, f"expert {expert}", fontsize=SMALLEST, va="center", color=INK,
                weight="bold" if crowded else "normal")  # fmt: skip
        for number, token in enumerate(token for token, route in enumerate(routes) if expert in route):
            mark = plt.Rectangle((19.5 + 1.36 * number, y - 0.5), 1.26, 1.0, facecolor=FACES[token // mine])
            ax.add_patch(mark)
            ax.text(20.13 + 1.36 * number, y, f"t{token}", fontsize=SMALLEST, va="center", ha="center", color=INK)
    for token, route in enumerate(routes):
        rank, place = divmod(token, mine)
        y = top - high * rank - high * (place + 0.5) / mine
        for x in (4.6, 32.8):
            box(ax, x, y - 0.8, 2.6, 1.6, FACES[rank], f"t{token}")
        for expert in route:
            look = {"color": SERIES[rank], "lw": 1.2 if token else 3.4}  # the text follows the first one
            ax.plot([7.2, 15.0], [y, heights[expert]], zorder=3 if token == 0 else 1, **look)
            arrow(ax, (25.0, heights[expert]), (32.7, y), colour=SERIES[rank], line=look["lw"])
    for x, words in ((11.0, "dispatch"), (20.0, "each rank's experts"), (29.0, "combine: add both")):
        ax.text(x, 28.2, words, ha="center", fontsize=SMALLEST, weight="bold", color=INK)
    ways = ", ".join(f"t{token} to {' and '.join(map(str, route))}" for token, route in enumerate(routes))
    say(ax, f"{ranks} ranks hold {mine} tokens each and {per_rank} of 16 experts each; {ways}; after the experts every "
            f"token is back on its rank; expert {hot} is wanted by {wanted} of the {len(routes)} tokens, the others by "
            "one or none")  # fmt: skip
    return ax


def uneven_pieces(ax: Axes | None = None) -> Axes:
    """Draw the rows of two ranks with two experts each: sorted by expert, sent in pieces, regrouped by expert."""
    wants = ("C A D A", "B D C")  # the expert of each row, rank by rank
    ax = sheet(4.5, 40, 19.6, ax)
    ax.set_title("What comes is in the order of senders: each expert's rows still have to be put together",
                 fontsize=TITLE, loc="left")  # fmt: skip
    columns = (("the rank's rows", 0.4), ("1 · sorted by expert", 10.6), ("2 · after the all-to-all", 21.2),
               ("3 · for each expert", 31.6))  # fmt: skip
    for words, x in columns:
        ax.text(x, 18.3, words, fontsize=SMALLEST, weight="bold", color=INK)
    rows: list[list] = []
    for rank, line in enumerate(wants):  # (rank, token, expert), with numbers that no two ranks share
        first = sum(map(len, rows))
        rows.append([(rank, first + place, expert) for place, expert in enumerate(line.split())])
    ordered = [sorted(line, key=lambda row: row[2]) for line in rows]
    came = [[row for line in ordered for row in line if row[2] in mine] for mine in ("AB", "CD")]
    grouped = [sorted(line, key=lambda row: row[2]) for line in came]
    top = (16.2, 7.7)
    places: list[dict] = []
    for x, stage in zip((0.4, 10.6, 21.2, 31.6), (rows, ordered, came, grouped), strict=True):
        found = {}
        for rank, line in enumerate(stage):
            ax.text(x, top[rank] + 0.1, f"rank {rank}: {'A, B' if rank == 0 else 'C, D'}", fontsize=SMALLEST, color=INK)
            for number, (sender, name, expert) in enumerate(line):
                y = top[rank] - 1.75 * (number + 1)
                if stage is grouped and expert != line[0][2]:
                    y -= 0.45  # a tensor of its own
                if stage is grouped and expert not in [row[2] for row in line[:number]]:
                    ax.text(x + 6.9, y + 0.75, expert, fontsize=TITLE, weight="bold", va="center", color=INK)
                box(ax, x, y, 6.4, 1.5, FACES[sender], f"t{name} → {expert}")
                found[name] = (x, y + 0.75)
        places.append(found)
    for before, after in zip(places, places[1:], strict=False):
        for name, (x, y) in before.items():
            leaves = before is places[1] and (y > 8.1) != (after[name][1] > 8.1)
            arrow(ax, (x + 6.5, y), (after[name][0] - 0.1, after[name][1]), colour=SENT if leaves else INK,
                  line=3.6 if name == 2 else 2.0 if leaves else 0.9)  # fmt: skip; the text follows t2
    ax.plot([0.2, 39.6], [8.95, 8.95], color=INK, lw=0.8, ls=":")
    ax.text(21.2, 9.5, "pink: sent to another rank", fontsize=SMALLEST, color=INK)
    counts = [f"{sum(row[2] == expert for row in rows[0])} for {expert}" for expert in "CD"]
    ax.text(0.4, 1.0, f"before that, rank 0 tells rank 1: {', '.join(counts)}", fontsize=SMALLEST, color=INK,
            va="center")  # fmt: skip
    told = "; ".join(f"rank {rank} has tokens {', '.join(f't{name} for {expert}' for _, name, expert in line)}"
                     for rank, line in enumerate(rows))  # fmt: skip
    mine = {expert: [f"t{name}" for line in grouped for _, name, its in line if its == expert] for expert in "ABCD"}
    ends = "; ".join(f"{expert} has {', '.join(names)}" for expert, names in mine.items())
    say(ax, f"experts A and B live on rank 0, C and D on rank 1; {told}; each rank sorts its tokens by expert and "
            f"sends each rank its piece; what comes is sorted by rank first, so it is regrouped by expert: {ends}")
    return ax


def once_per_node(ax: Axes | None = None) -> Axes:
    """Draw a token with four experts in two other machines: four rows over the network, or two that are copied."""
    ax = sheet(4.2, 40, 17.4, ax)
    ax.set_title("On the way there, one row for each machine is enough: NVLink copies it", fontsize=TITLE, loc="left")
    sides = ((0.0, "a row for each expert: 4 cross", 4), (20.6, "a row for each machine: 2 cross", 2))
    for left, words, copies in sides:
        ax.text(left + 0.3, 15.9, words, fontsize=SMALLEST, weight="bold", color=INK)
        box(ax, left + 0.1, 4.6, 5.0, 6.6, "white")
        ax.text(left + 2.6, 10.1, "machine 0", fontsize=SMALLEST, ha="center", color=INK)
        box(ax, left + 0.5, 5.0, 4.2, 4.4, FACES[0], "GPU 0:\na token")
        ax.plot([left + 6.7, left + 6.7], [1.3, 14.9], color=COLLECTIVE, lw=9, alpha=0.45, solid_capstyle="butt")
        ax.text(left + 6.7, 0.9, "network: 50 GB/s", fontsize=SMALLEST, ha="center", va="top", color=INK)
        for machine, bottom in ((1, 8.4), (2, 1.3)):
            box(ax, left + 8.4, bottom, 10.9, 6.6, "white")
            ax.text(left + 13.8, bottom + 5.6, f"machine {machine}", fontsize=SMALLEST, ha="center", color=INK)
            targets = []
            for place in range(2):
                y, expert = bottom + 3.5 - 3.2 * place, 2 * machine + place
                box(ax, left + 11.6, y, 7.4, 1.8, FACES[machine], f"GPU {expert}: expert {expert}")
                targets.append((left + 11.5, y + 0.9))
            start = (left + 5.2, 8.4 if machine == 1 else 7.0)
            for target in targets[: copies // 2]:
                arrow(ax, start, target, colour=COLLECTIVE, line=2.6)
            if copies == 2:
                arrow(ax, (left + 12.3, targets[0][1] - 0.9), (left + 12.3, targets[1][1] + 0.9), line=2.6)
                ax.text(left + 12.8, bottom + 2.8, "NVLink: 450 GB/s", fontsize=SMALLEST, va="center", color=INK)
    say(ax, "a token in machine 0 has two experts in machine 1 and two in machine 2; on the left four rows cross the "
            "network, 50 GB/s; on the right one row for each of the two machines, which NVLink, 450 GB/s, passes on "
            "from the first GPU to the second")  # fmt: skip
    return ax
