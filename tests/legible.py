"""What every picture owes its reader: letters large enough and apart, no wider than the page, and told in words."""

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from course_lib.plots import SMALLEST, WIDTH, words_of


def assert_legible(figure: Figure) -> None:
    """No letter is below SMALLEST, no text lies on another, and the picture, which fits the page, is told in words."""
    figure.canvas.draw()
    letters = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    small = {text.get_text() for text in letters if text.get_fontsize() < SMALLEST}
    assert not small, f"below {SMALLEST} points: {small}"
    width = figure.get_tightbbox().width  # a notebook shows this, also what leaves the figure
    assert width <= 1.04 * WIDTH, f"{width:.2f} inches wide; a page has {WIDTH}"
    assert not (crossing := on_each_other(figure, letters)), f"written on each other: {crossing}"
    assert len(words_of(figure)) > 30, "whoever cannot see it is told nothing"


def on_each_other(figure: Figure, letters: list[Text]) -> list[tuple[str, str]]:
    """Return the pairs of texts whose boxes, without the air around letters, have a part in common."""
    hidden = {id(label) for ax in figure.axes if not ax.axison for label in ax.findobj(Text)} - {
        id(text) for ax in figure.axes for text in (*ax.texts, ax.title, ax._left_title, ax._right_title)}  # fmt: skip
    ticks = {id(label) for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels()}
    boxes = [(text.get_text(), text.get_window_extent()) for text in letters if id(text) not in hidden | ticks]
    air = 0.22 * SMALLEST * figure.dpi / 72  # above and below a line, for letters that other words have
    boxes = [(words, Bbox([[box.x0 + 1, box.y0 + air], [box.x1 - 1, box.y1 - air]])) for words, box in boxes]
    return [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]
