"""A mixture of experts: a layer whose router sends each token to a few of its MLPs."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.models import ModelShape, attention_parameters, mlp_weights
from course_lib.plots.canvas import ACTIVATIONS, BLUE, FACES, INK, ORANGE, SMALLEST, TITLE, arrow, box, say, sheet

OTHER = FACES[1]  # of the other token


def expert_layer(
    shape: ModelShape, chosen: tuple[int, ...] = (2, 5), other: tuple[int, ...] = (1, 7), ax: Axes | None = None
) -> Axes:
    """Draw one layer of a mixture like Mixtral, and the experts of a token (`chosen`) and of another one (`other`)."""
    ax = sheet(2.7, 40, 13.2, ax)
    ax.set_title(f"All {shape.experts} experts are in memory; each token is computed by {len(chosen)}", fontsize=TITLE,
                 loc="left")
    attention, expert = attention_parameters(shape) / 1e6, mlp_weights(shape, shape.expert_ffn) / 1e6
    router = shape.hidden * shape.experts
    box(ax, 5.4, 4.6, 6.4, 2.8, "white", f"attention\n{attention:.0f} million")
    box(ax, 13.8, 4.6, 5.0, 2.8, "white", f"router\n{router:,}")
    tokens = {"a token": (7.0, ACTIVATIONS, chosen), "another": (5.0, OTHER, other)}
    ways = {"a token": BLUE, "another": ORANGE}  # darker than the boxes, so that thin lines can be told apart
    for name, (y, colour, _) in tokens.items():
        box(ax, 0.1, y - 0.75, 4.2, 1.5, colour, name)
        arrow(ax, (4.4, y), (5.3, y), line=1.8, colour=ways[name])
        arrow(ax, (11.9, y), (13.7, y), line=1.8, colour=ways[name])
    for number in range(shape.experts):
        y = 11.0 - 1.55 * number
        token = next((name for name, (_, _, experts) in tokens.items() if number in experts), None)
        words = f"expert {number + 1}: {expert:.0f} million"
        box(ax, 23.2, y, 10.6, 1.3, tokens[token][1] if token else "white", words, weight="bold" if token else "normal")
        if token:
            start, _, _ = tokens[token]
            style = {"line": 1.8, "colour": ways[token]}
            arrow(ax, (18.9, start), (23.1, y + 0.65), **style)
            arrow(ax, (33.9, y + 0.65), (36.2, start), **style)
    for y, colour, _ in tokens.values():
        box(ax, 36.3, y - 0.6, 1.1, 1.2, colour, "+")
    ax.text(37.7, 6.0, "sum of\nits two" if len(chosen) == 2 else "sum", fontsize=SMALLEST, va="center", color=INK)
    first, second = (" and ".join(str(number + 1) for number in experts) for experts in (chosen, other))
    say(ax, f"a token goes through attention ({attention:.0f} million parameters) and the router ({router:,}) to "
            f"experts {first} of {shape.experts} ({expert:.0f} million each), another token to {second}; the results "
            "of a token's experts are added")
    return ax
