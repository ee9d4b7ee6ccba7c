"""How requests share a step: in rows of at most so many tokens, a new one at every step."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import (
    COMPUTE,
    FORWARD,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    legend_below,
    new_axes,
    say,
)

NAMES = "ABCDEFGHIJKL"
KEYS = ((FORWARD, "a prompt's token"), (COMPUTE, "an answer's token"), (WAITING, "unused"))


def _cells(ax: Axes, row: int, kinds: Sequence[str], words: Sequence[str], follow: str = "no request",
           start: float = 0) -> None:  # fmt: skip
    for place, (colour, word) in enumerate(zip(kinds, words, strict=True)):
        here = word == follow
        ax.add_patch(Rectangle((start + place, row), 0.92, 0.86, facecolor=colour, edgecolor=INK, linewidth=2.4 * here))
        ax.text(start + place + 0.46, row + 0.44, word, ha="center", va="center", fontsize=SMALLEST, color=INK,
                weight="bold" if here else "normal")


def _bare(ax: Axes, wide: float, rows: Sequence[str], top: float = 0.9) -> None:
    ax.set(xlim=(-0.1, wide), ylim=(len(rows), -top), xticks=[])
    ax.set_yticks([y + 0.43 for y in range(len(rows))], rows)
    ax.tick_params(length=0, labelsize=SMALLEST)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def static_batch(answers: Sequence[int] = (2, 16, 4, 2)) -> Axes:
    """Draw a batch that nobody joins: a row for each request, a number for each token of its answer, then grey."""
    steps, ax = max(answers), new_axes(None, 1.05 + 0.34 * len(answers))
    for y, tokens in enumerate(answers):
        colours = [FORWARD] + [COMPUTE] * (tokens - 1) + [WAITING] * (steps - tokens)
        _cells(ax, y, colours, [str(token) for token in range(1, tokens + 1)] + [""] * (steps - tokens))
    _bare(ax, steps, NAMES[:len(answers)], top=0.2)
    ax.set_xticks([step + 0.46 for step in range(steps)], range(1, steps + 1))
    ax.set_xlabel("step")
    idle = steps * len(answers) - sum(answers)
    title = f"Until {NAMES[answers.index(steps)]} is done, {idle} of {steps * len(answers)} places are for nobody"
    ax.set_title(title, fontsize=TITLE, loc="left")
    legend_below(ax, [Patch(facecolor=FORWARD, label="the whole prompt gives the first token"),
                      Patch(facecolor=COMPUTE, label="the newest token gives the next"),
                      Patch(facecolor=WAITING, label="for nobody")])
    say(ax, "\n".join(f"{name}: {tokens} tokens, then {steps - tokens} steps for nobody"
                      for name, tokens in zip(NAMES, answers, strict=False)))
    return ax


def rectangle_and_row(prompt: int = 3, new: str = "E", answers: str = "BC", done: str = "D") -> Axes:
    """Draw one step of the same requests twice: as a rectangle, which needs padding, and as a row."""
    requests, useful = new + answers + done, prompt + len(answers)
    ax, start = new_axes(None, 0.95 + 0.34 * len(requests)), prompt + 2
    for y, name in enumerate(requests):
        own = prompt if name == new else int(name in answers)
        colours = [WAITING] * (prompt - own) + [FORWARD if name == new else COMPUTE] * own
        _cells(ax, y, colours, [""] * (prompt - own) + [name] * own)
    _cells(ax, 0, [COMPUTE] * len(answers) + [FORWARD] * prompt, [*answers] + [new] * prompt, start=start)
    places = prompt * len(requests)
    for x, words in ((0, f"a rectangle: {places} places, {useful} of use"), (start, f"a row: {useful} places")):
        ax.text(x, -0.2, words, va="bottom", fontsize=SMALLEST, color=INK)
    _bare(ax, start + useful + 0.5, [f"{name}, done" if name in done else name for name in requests])
    title = f"A row of {useful} tokens does the work of a rectangle of {places} places"
    ax.set_title(title, fontsize=TITLE, loc="left")
    legend_below(ax, [Patch(facecolor=colour, label=words) for colour, words in (*KEYS[:2], (WAITING, "padding"))])
    say(ax, f"as a rectangle: {new} has {prompt} tokens of its prompt, {_listed(answers)} one token and "
            f"{prompt - 1} places of padding each, {done} {prompt} places of padding; {useful} of {places} places are "
            f"of use\nas a row: {' '.join([*answers] + [new] * prompt)}, {useful} places")
    return ax


def filled_rows(requests: Sequence[tuple[int, int]], budget: int, slots: int) -> list[list[tuple[int, str]]]:
    """Return the tokens of each step as (request, "answer" or "prompt"); requests are (prompt, answer).

    The first `slots` requests that are not done run. Every answer that is being made takes a place, in order of
    arrival; the rest of `budget` reads prompts.
    """
    read, made, steps = [0] * len(requests), [0] * len(requests), []
    while here := [n for n, (_, answer) in enumerate(requests) if made[n] < answer][:slots]:
        row = [(n, "answer") for n in here if made[n]]
        for n in here:
            piece = min(budget - len(row), requests[n][0] - read[n])
            row += [(n, "prompt")] * piece
            read[n] += piece
        for n in here:
            made[n] += read[n] == requests[n][0]
        steps.append(row)
    return steps


def rows_of_steps(
    requests: Sequence[tuple[int, int]] = ((3, 2), (4, 16), (5, 4), (3, 2)) * 3, budget: int = 8, slots: int = 4,
    shown: int = 8, follow: str = "D",
) -> Axes:
    """Draw the rows of the first `shown` steps, a letter for each token's request; beside it who joins and who leaves.

    The cells of the request `follow` have a dark outline.
    """
    steps = filled_rows(requests, budget, slots)
    ax, told = new_axes(None, 0.95 + 0.34 * shown), []
    for y, row in enumerate(steps[:shown]):
        colours = [COMPUTE if kind == "answer" else FORWARD for _, kind in row] + [WAITING] * (budget - len(row))
        _cells(ax, y, colours, [NAMES[n] for n, _ in row] + [""] * (budget - len(row)), follow)
        seen = {n for later in steps[:y] for n, _ in later}
        joins = [NAMES[n] for n in dict(row) if n not in seen]
        leaves = [NAMES[n] for n in dict(row) if not any(n in dict(later) for later in steps[y + 1 :])]
        words = ", ".join([f"{_listed(names)} {verb}{'s' * (len(names) == 1)}"
                           for names, verb in ((joins, "join"), (leaves, "leave")) if names])
        ax.text(budget + 0.35, y + 0.43, words, va="center", fontsize=SMALLEST, color=INK)
        told.append(f"step {y + 1}: {''.join(NAMES[n] for n, _ in row)}, {words}".removesuffix(", "))
    ax.plot([budget + 0.05] * 2, [-0.1, shown], color=LIMIT, linestyle="--", linewidth=1.4)
    ax.text(budget + 0.05, -0.25, f"budget: {budget} tokens", ha="center", va="bottom", fontsize=SMALLEST, color=LIMIT)
    _bare(ax, 1.36 * budget, [f"step {y + 1}" for y in range(shown)])
    title = f"Requests join and leave at every step (the first {shown} of {len(steps)} steps)"
    ax.set_title(title, fontsize=TITLE, loc="left")
    keys = [Patch(facecolor=colour, label=words) for colour, words in KEYS]
    legend_below(ax, [*keys, Patch(facecolor="white", edgecolor=INK, linewidth=2.4, label=f"{follow}, to follow")])
    say(ax, "\n".join(told))
    return ax
