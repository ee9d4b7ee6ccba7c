"""The trip of tokens to their experts and back: over the ranks, row by row, and between nodes."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, LIMIT, SENT, SERIES, SMALLEST, TITLE, arrow, box, say, sheet

ROUTES = ((0, 9), (5, 14), (2, 9), (4, 7), (1, 15), (8, 9), (3, 12), (6, 9))  # of eight tokens; expert 9 is popular


def token_trips(routes: tuple[tuple[int, int], ...] = ROUTES, ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw tokens of `ranks` ranks on their way to two of 16 experts each, and back to where they came from."""
    per_rank, mine = 16 // ranks, len(routes) // ranks
    ax = sheet(4.8, 40, 23, ax)
    ax.set_title("Each token visits two of 16 experts, wherever they live, and comes home", fontsize=TITLE, loc="left")
    high, top = 19.0 / ranks, 20.8
    for rank in range(ranks):
        bottom = top - high * (rank + 1) + 0.25
        for x, width in ((0.2, 9.4), (15.2, 9.6), (30.4, 9.4)):
            box(ax, x, bottom, width, high - 0.5, "white", edge=SERIES[rank], line=1.6)
        for x in (0.6, 35.2):
            ax.text(x, bottom + high / 2 - 0.25, f"rank {rank}", fontsize=SMALLEST, va="center", color=INK)
    tokens = {}
    for token in range(len(routes)):
        rank, place = divmod(token, mine)
        tokens[token] = y = top - high * rank - high * (place + 0.5) / mine
        for x in (6.2, 30.8):
            box(ax, x, y - 0.75, 3.0, 1.5, FACES[rank], f"t{token}")
    hot = max(range(16), key=lambda expert: sum(expert in route for route in routes))
    for expert in range(16):
        rank, place = divmod(expert, per_rank)
        x, y = 15.6 + 2.3 * place, top - high * (rank + 0.5)
        box(ax, x, y - 0.1, 1.9, 1.6, "white", str(expert), line=2.4 if expert == hot else 1.0,
            weight="bold" if expert == hot else "normal")  # fmt: skip
        guests = [token for token, route in enumerate(routes) if expert in route]
        for number, token in enumerate(guests):
            ax.add_patch(plt.Rectangle((x + 0.5 * number, y - 1.1), 0.4, 0.7, facecolor=SERIES[token // mine]))
    for token, route in enumerate(routes):
        colour = SERIES[token // mine]
        for expert in route:
            y = top - high * (expert // per_rank + 0.5) + 0.12 * (token - len(routes) / 2)
            line = 1.3 if token else 3.0  # the text follows the first one
            ax.plot([9.2, 15.1], [tokens[token], y], color=colour, lw=line)
            arrow(ax, (24.9, y), (30.7, tokens[token]), colour=colour, line=line)
    for x, words in ((12.1, "dispatch"), (20.0, "experts at work"), (27.7, "combine")):
        ax.text(x, 21.6, words, ha="center", fontsize=SMALLEST, weight="bold", color=INK)
    wanted = sum(hot in route for route in routes)
    note = f"expert {hot} is wanted by {wanted} of the {len(routes)} tokens, the others by one or none"
    ax.text(20.0, 0.2, f"Small marks are visitors: {note}.", ha="center", va="bottom", fontsize=SMALLEST, color=INK)
    ways = ", ".join(f"t{token} to {' and '.join(map(str, route))}" for token, route in enumerate(routes))
    say(ax, f"{ranks} ranks hold {mine} tokens each and {per_rank} of 16 experts each; {ways}; after the experts every "
            f"token is back on its rank; {note}")  # fmt: skip
    return ax


def uneven_pieces(ax: Axes | None = None) -> Axes:
    """Draw the rows of two ranks with two experts each: sorted by expert, sent in pieces, regrouped by expert."""
    wants = ("C A D A", "B D C")  # the expert of each row, rank by rank
    ax = sheet(4.3, 40, 19, ax)
    ax.set_title("Sort by expert, send the pieces, regroup what came", fontsize=TITLE, loc="left")
    columns = (("rows as they come", 0.4), ("1 · sorted by expert", 10.6), ("2 · after the all-to-all", 21.2),
               ("3 · for each expert", 31.6))  # fmt: skip
    for words, x in columns:
        ax.text(x, 17.6, words, fontsize=SMALLEST, weight="bold", color=INK)
    rows = [[(f"{rank}{place}", expert) for place, expert in enumerate(line.split())]
            for rank, line in enumerate(wants)]  # fmt: skip
    ordered = [sorted(line, key=lambda row: row[1]) for line in rows]
    came = [[row for line in ordered for row in line if row[1] in mine] for mine in ("AB", "CD")]
    grouped = [sorted(line, key=lambda row: row[1]) for line in came]
    top = (16.0, 7.2)
    places: list[dict] = []
    for x, stage in zip((0.4, 10.6, 21.2, 31.6), (rows, ordered, came, grouped), strict=True):
        found = {}
        for rank, line in enumerate(stage):
            for number, (name, expert) in enumerate(line):
                y = top[rank] - 1.75 * (number + 1)
                box(ax, x, y, 6.4, 1.5, FACES[int(name[0])], f"row {name[1]} → {expert}")
                found[name] = (x, y + 0.75)
        places.append(found)
    for rank, y in enumerate(top):
        ax.text(0.4, y, f"rank {rank}, experts {'A and B' if rank == 0 else 'C and D'}", fontsize=SMALLEST, color=INK)
    for before, after in zip(places, places[1:], strict=False):
        for name, (x, y) in before.items():
            leaves = before is places[1] and (y > 8.1) != (after[name][1] > 8.1)
            arrow(ax, (x + 6.5, y), (after[name][0] - 0.1, after[name][1]), colour=SENT if leaves else INK,
                  line=2.0 if leaves else 0.9)  # fmt: skip
    ax.plot([0.2, 39.6], [8.4, 8.4], color=INK, lw=0.8, ls=":")
    told = "; ".join(f"rank {rank} has rows for experts {', '.join(line.split())}" for rank, line in enumerate(wants))
    say(ax, f"experts A and B live on rank 0, C and D on rank 1; {told}; each rank sorts its rows by expert and sends "
            "each rank its piece; what comes is sorted by rank first, so it is regrouped by expert: A has rows 1 and 3 "
            "of rank 0; B row 0 of rank 1; C row 0 of rank 0, row 2 of rank 1; D row 2 of rank 0, row 1 of rank 1")
    return ax


def once_per_node(ax: Axes | None = None) -> Axes:
    """Draw a token with four experts in two other nodes: four copies over the network, or two that are passed on."""
    ax = sheet(3.7, 40, 15.5, ax)
    ax.set_title("One copy for each node is enough: NVLink makes the others", fontsize=TITLE, loc="left")
    sides = ((0.0, "a copy for each expert: 4 cross", 4), (20.6, "a copy for each node: 2 cross", 2))
    for left, words, copies in sides:
        ax.text(left + 0.3, 13.9, words, fontsize=SMALLEST, weight="bold", color=INK)
        box(ax, left + 0.3, 4.6, 5.0, 4.0, FACES[0], "token in\nnode 0")
        for node, bottom in ((1, 7.6), (2, 0.6)):
            box(ax, left + 11.0, bottom, 8.0, 5.4, "white")
            ax.text(left + 18.8, bottom + 2.7, f"node {node}", fontsize=SMALLEST, rotation=90, va="center", ha="right")
            for place in range(2):
                box(ax, left + 13.6, bottom + 0.5 + 2.4 * place, 3.4, 1.9, "white", f"E{2 * node + 1 - place}")
        for node, bottom in ((1, 7.6), (2, 0.6)):
            start = (left + 5.4, 7.4 if node == 1 else 5.8)
            targets = [(left + 13.5, bottom + 1.45 + 2.4 * place) for place in range(2)]
            if copies == 4:
                for target in targets:
                    arrow(ax, start, target, colour=LIMIT, line=2.0)
                continue
            meet = (left + 11.8, bottom + 2.7)
            arrow(ax, start, meet, colour=LIMIT, line=2.0)
            for target in targets:
                arrow(ax, meet, target, colour=SENT, line=1.8)
    key = "red: over the network, 50 GB/s    pink: over NVLink, 450 GB/s"
    ax.text(20.0, -0.4, key, ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "a token in node 0 has two experts in node 1 and two in node 2; on the left four copies cross the network, "
            "on the right one copy for each of the two nodes, which NVLink passes on to both experts")  # fmt: skip
    return ax
