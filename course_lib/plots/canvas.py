"""What all pictures share: sizes, colours that everybody can tell apart, axes, and a picture in words beside it."""

from __future__ import annotations

import base64
import html
import os

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter

from course_lib.plots.dark import exchanged
from course_lib.plots.png_files import plain_png, twins

WIDTH = 8.2  # inches of 100 pixels: with a margin as wide as a notebook cell on a projector of 1280 pixels
SMALLEST = 10  # points, as large as a notebook's text: no smaller letter is drawn
TITLE = 12  # points

# How JupyterLab shows a chapter, brought by a picture. In the dark theme its twin is seen, on dark paper in the same
# colours. Beside the list of files a picture is seen whole down to 550 pixels, below which it scrolls; on a phone it
# scrolls sooner. What is in a fold stands to the right of its line. After a fold there is a gap, but none between
# closed hints. Code in a hint has one ground, and what is drawn in letters keeps its columns. What is printed breaks
# between words. A table without a header has no rule where that would be.
LOOKS = """<style>
body:not([data-jp-theme-light="false"]) .course-dark, [data-jp-theme-light="false"] .course-light { display: none; }
@media (min-width: 700px) { .jp-OutputArea .course-drawn { min-width: min(550px, var(--own)) !important; } }
.jp-OutputArea-output:has(> .course-drawn) { overflow-x: auto; scrollbar-width: auto; scrollbar-color: auto; }
.jp-OutputArea-output:has(> .course-drawn)::-webkit-scrollbar { height: 10px; }
.jp-OutputArea-output:has(> .course-drawn)::-webkit-scrollbar-thumb { background: #8a8a8a; border-radius: 5px; }
.jp-OutputArea .jp-OutputArea-output pre { word-break: normal; overflow-wrap: break-word; }
.jp-RenderedMarkdown.jp-RenderedHTMLCommon details:is([open], :not(:has(+ details))) { margin-bottom: 1em; }
.jp-RenderedMarkdown.jp-RenderedHTMLCommon details > :not(summary) { margin-left: 1.2em; }
.jp-RenderedMarkdown.jp-RenderedHTMLCommon details pre { background: var(--jp-layout-color2); padding: .5em .8em; }
.jp-RenderedMarkdown.jp-RenderedHTMLCommon details pre code { background: none; }
.jp-RenderedMarkdown.jp-RenderedHTMLCommon :is(pre, pre code) { white-space: pre; overflow-x: auto; }
.jp-RenderedMarkdown thead:not(:has(th:not(:empty))) { display: none; }
</style>"""

READABLE = 720  # pixels of a page that a picture of WIDTH takes at least: its letters are then 12 pixels high

MOST = 12  # points of a line that are told; of more only the ends
LONGEST = 2000  # letters

# Okabe and Ito's colours, told apart with every kind of colour vision; a hatch makes a second kind of each.
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999",
)  # fmt: skip
SERIES = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW, GREY)

# One meaning a colour, in time and in memory alike: what forward does and leaves is sky, what backward does is orange,
# what is sent is pink, whatever waits is this one grey; RED is kept for limits and for what is wrong. Pale colours,
# FACES, say whose something is.
WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS = BLUE, ORANGE, YELLOW, SKY
COMPUTE, FORWARD, BACKWARD = GREEN, SKY, ORANGE
SENT, RECEIVED, COLLECTIVE = PURPLE, "#E6BBD3", "#B55D95"
WAITING = "#DDDDDD"
NVLINK, NETWORK = BLUE, COLLECTIVE  # where the way matters: inside a node, and what crosses between nodes
LIMIT = RED
INK = "#222222"

FACES = ("#A9CBE8", "#F3CF7B", "#8FD3BD", "#EBA37A", "#C4E3F5", "#E8C4D9", "#F8F2A5", "#D8BFA3")
"""A pale colour for what belongs to or comes from each rank: SERIES, bright enough for black letters.

The last is a brown, because grey is for what is idle."""


def edge_of(colour: str) -> str:
    """Return the colour of a bar's frame: what was received is nearly as pale as what waits beside it."""
    return SENT if colour == RECEIVED else "white"


def new_axes(ax: Axes | None, height: float, width: float = WIDTH) -> Axes:
    """Return `ax`, or axes of a new figure of this size in inches, without lines above and to the right."""
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained", FigureClass=Picture)
    for name in ("top", "right"):
        ax.spines[name].set_visible(False)
    ax.tick_params(labelsize=SMALLEST)
    return ax


def legend_below(ax: Axes, handles: list, columns: int = 6) -> None:
    """Put a legend below the picture, or inside where the figure is not ours to lay out."""
    if handles and ax.figure.get_layout_engine() is not None:
        rows = -(-len(handles) // columns)
        columns = -(-len(handles) // rows)  # equally many in each row, and none alone
        ax.figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=SMALLEST, frameon=False)
    elif handles:
        ax.legend(handles=handles, fontsize=SMALLEST)


# Drawings: boxes and arrows on a sheet


def sheet(height: float, wide: float, high: float, ax: Axes | None = None) -> Axes:
    """Return axes without frame or ticks, `wide` by `high` units of their own; a new figure is `height` inches high."""
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, height), layout="constrained", FigureClass=Picture)
    ax.set(xlim=(0, wide), ylim=(0, high))
    ax.axis("off")
    return ax


def box(
    ax: Axes, x: float, y: float, width: float, height: float, colour: str, text: str = "", *, edge: str = INK,
    line: float = 1.0, size: float = SMALLEST, weight: str = "normal",
) -> None:  # fmt: skip
    """Draw a rounded box with its lower left corner at (x, y), and a text in its middle."""
    look = {"boxstyle": "round,pad=0,rounding_size=0.15", "facecolor": colour, "edgecolor": edge, "linewidth": line}
    ax.add_patch(FancyBboxPatch((x, y), width, height, **look))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=INK, weight=weight)


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], style: str = "-|>", *, colour: str = INK,
    line: float = 1.2, bend: float = 0.0,
) -> None:  # fmt: skip
    """Draw an arrow from start to end; `bend` curves it to the left (positive) or right, as a share of its length."""
    look = {"arrowstyle": style, "color": colour, "linewidth": line, "shrinkA": 0, "shrinkB": 0,
            "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", end, start, arrowprops=look)


# In words: the alternative text that each figure brings with it into a notebook or a page


class Picture(Figure):
    """A figure that a notebook shows as an image with alternative text.

    COURSE_DARK=off leaves out its twin for dark pages, and does not make the file small: three times as quick, for who
    runs chapters that nobody looks at.
    """

    def _repr_html_(self) -> str:
        if os.environ.get("COURSE_DARK") == "off":
            return as_html(plain_png(self), words_of(self))
        light, dark = twins(self)
        return as_html(light, words_of(self), dark)


def as_html(image: bytes, words: str, dark: bytes = b"") -> str:
    """Return a PNG image at half of its pixels, with its alternative text; `dark` takes its place on a dark page.

    It shrinks with the page as long as its letters can be read; on a phone its output scrolls sideways, see LOOKS.
    """
    width = int.from_bytes(image[16:20], "big") // 2  # of the file's header
    looks = f'width="{width}" style="max-width: 100%; min-width: {min(width, READABLE)}px; --own: {width}px"'
    kind = "course-drawn course-light" if dark else "course-drawn"
    light = f'<img alt="{html.escape(words)}" {looks} class="{kind}" src="{embedded(image)}">'
    if not dark:
        return light + LOOKS
    # The slides' maker looks for `alt` before `src`, so that it takes this one for no picture of its own (deck.py).
    other = html.escape(exchanged(words))
    night = f'<img class="course-drawn course-dark" src="{embedded(dark)}" {looks} alt="{other}">'
    return light + night + LOOKS


def embedded(image: bytes) -> str:
    """Return a PNG image as an address, "" where there is none."""
    return f"data:image/png;base64,{base64.b64encode(image).decode()}" if image else ""


def say(ax: Axes, words: str) -> None:
    """Give an Axes the words that `words_of` tells, where labels, lines and bars do not say it all."""
    ax.course_words = words


def words_of(figure: Figure) -> str:
    """Return what a figure shows: of each Axes its title, and the words it was given or else what is drawn in it."""
    parts = [figure.get_suptitle(), *(_words_of_axes(ax) for ax in figure.axes if ax.get_visible())]
    lines = [" ".join(line.split()).rstrip(".") for part in parts for line in part.splitlines()]
    words = "; ".join(line for line in lines if line)
    return words if len(words) <= LONGEST else words[:LONGEST].rpartition(" ")[0] + " …"


def _words_of_axes(ax: Axes) -> str:
    title = ax.get_title("left") or ax.get_title()
    given = getattr(ax, "course_words", "")
    return "\n".join([title, given] if given else [title, *_drawn(ax)])


def _drawn(ax: Axes) -> list[str]:
    """Return the names of the axes, the points of named lines, the lengths of named bars, and the words inside."""
    names = " over ".join(name for name in (ax.get_ylabel(), ax.get_xlabel()) if name)
    lines = [f"{line.get_label()}{_points(line)}" for line in ax.lines if not line.get_label().startswith("_")]
    bars = [f"{bars.get_label()}: {', '.join(_length(bars, bar) for bar in bars)}"
            for bars in ax.containers if not bars.get_label().startswith("_")]
    rows = ", ".join(filter(None, _names(ax.containers[0]))) if bars else ""
    rows = f"from first to last: {rows}" if rows else ""
    return [names, rows, *lines, *bars, *(text.get_text() for text in ax.texts)]


def _points(line) -> str:
    if line.get_transform() != line.axes.transData:  # from side to side, at what its label says
        return ""
    points = [(_number(line.axes.xaxis, x), _number(line.axes.yaxis, y)) for x, y in line.get_xydata()]
    told = points if len(points) <= MOST else [points[0], points[-1]]
    return ": " + (", " if len(points) <= MOST else " to ").join(f"{y} at {x}" for x, y in told)


def _number(axis, value: float) -> str:
    """Return a number as the axis writes it, with its unit."""
    formatter = axis.get_major_formatter()
    written = formatter(value) if isinstance(formatter, FuncFormatter) else ""  # also "" where ticks are given by hand
    return str(written) or f"{value:.4g}"


def _names(bars) -> list[str]:
    axis = bars[0].axes.xaxis if bars.orientation == "vertical" else bars[0].axes.yaxis
    return [" ".join(label.get_text().split()) for label in axis.get_ticklabels()]


def _length(bars, bar) -> str:
    return f"{bar.get_height() if bars.orientation == 'vertical' else bar.get_width():.3g}"
