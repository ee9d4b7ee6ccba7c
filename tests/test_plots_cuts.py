"""The picture of a product whose matrix is cut: what each rank holds of it, in its colour."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from course_lib.plots import FACES, cut_product, words_of


def boxes(ax, rank: int) -> list[tuple[float, float]]:
    """Return width and height of what the picture shows of one rank, from left to right."""
    of_rank = [box for box in ax.patches if to_hex(box.get_facecolor()).upper() == FACES[rank]]
    return [(box.get_width(), box.get_height()) for box in sorted(of_rank, key=lambda box: box.get_x())]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_columns_give_columns_and_rows_give_summands(ranks):
    by_columns, by_rows = cut_product(ranks)
    for rank in range(ranks):
        w, y = boxes(by_columns, rank)  # x is white: every rank has all of it
        assert w == (1 / ranks, 1) and y[0] == 1 / ranks
        x, w, y = boxes(by_rows, rank)
        assert x[0] == 1 / ranks and w == (1, 1 / ranks) and y[0] == 1
    copies = [box for box in by_columns.patches if to_hex(box.get_facecolor()) == "#ffffff"]
    assert [box.get_width() for box in copies] == [1] * ranks
    assert sum(text.get_text() == "+" for text in by_rows.texts) == ranks - 1
    assert not any(text.get_text() == "+" for text in by_columns.texts)


def test_the_picture_has_words():
    words = words_of(cut_product(4)[0].figure)
    assert words.startswith("By columns: a rank gets columns of y; 4 ranks: x on every rank")
    assert words.endswith("a summand of all of y")


def test_more_ranks_than_colours_are_refused():
    with pytest.raises(ValueError, match="1 to 8"):
        cut_product(9)
