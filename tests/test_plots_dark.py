"""A picture for a dark page: the same drawing and colours, with paper, ink and greys changed places."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib.colors import to_rgb
from PIL import Image

from course_lib.plots import (
    BLUE,
    FACES,
    GREEN,
    INK,
    ORANGE,
    RECEIVED,
    SENT,
    SKY,
    WAITING,
    as_html,
    box,
    new_axes,
    sheet,
)
from course_lib.plots.dark import PAPER, dimmed, lifted, luminance, readable, swapped
from course_lib.plots.png_files import drawn, png


def pixels(figure, dark=True) -> np.ndarray:
    return np.asarray(drawn(figure, dark).convert("RGB")) / 255


def commonest(seen: np.ndarray, but: list) -> list[float]:
    """Return the commonest colour that is none of these."""
    colours, counts = np.unique(seen.reshape(-1, 3), axis=0, return_counts=True)
    far = [min((np.abs(colour - to_rgb(other)).max() for other in but), default=1) > 0.02 for colour in colours]
    return list(colours[far][counts[far].argmax()])


def is_near(colour, other) -> bool:
    return bool(np.abs(np.array(colour) - to_rgb(other)).max() < 0.02)


def test_paper_is_dark_and_as_large_as_the_light_one():
    figure = new_axes(None, 2).figure
    light, dark = pixels(figure, dark=False), pixels(figure)
    assert is_near(light[0, 0], "white") and is_near(dark[0, 0], (PAPER,) * 3)
    assert light.shape == dark.shape
    assert is_near(pixels(figure, dark=False)[0, 0], "white")  # and the figure is as it was


@pytest.mark.parametrize("colour", [BLUE, SKY, SENT, ORANGE])
def test_a_strong_colour_stays(colour):
    ax = sheet(1, 10, 10)
    box(ax, 0, 0, 10, 10, colour)
    middle = pixels(ax.figure)[90:110, 700:900]
    assert is_near(commonest(middle, []), colour)


def brightness(colour) -> float:
    return to_rgb(colour[:3] if isinstance(colour, tuple) else colour) @ np.array([0.299, 0.587, 0.114])


@pytest.mark.parametrize("colour", [RECEIVED, "#BFDDF0", *FACES])
def test_a_pale_face_is_dark_with_letters_that_stand_out_from_it(colour):
    ax = sheet(1, 10, 10)
    box(ax, 0, 0, 10, 10, colour, "MMMM")
    middle = pixels(ax.figure)[60:140, 60:-60]
    face = dimmed(colour)[:3]
    assert is_near(commonest(middle, []), face) and PAPER + 0.04 < brightness(face) < 0.45
    assert brightness(commonest(middle, [face])) > brightness(face) + 0.35


def test_a_message_received_is_less_bright_than_one_sent():
    assert brightness(dimmed(RECEIVED)) < brightness(SENT) / 2


def test_the_faces_of_eight_ranks_can_be_told_apart():
    dark = [np.array(dimmed(colour)[:3]) for colour in FACES]
    assert min(np.abs(one - other).max() for place, one in enumerate(dark) for other in dark[:place]) > 0.07


def test_ink_is_light_on_paper_and_on_a_face_that_was_pale():
    ax = sheet(1, 10, 10)
    box(ax, 5, 0, 5, 10, FACES[1], "MMMM")
    ax.text(1, 5, "MMMM", color=INK, va="center")
    seen = pixels(ax.figure)
    half = seen.shape[1] // 2
    for part, ground in ((seen[:, : half - 60], (PAPER,) * 3), (seen[:, half + 60 :], dimmed(FACES[1])[:3])):
        assert is_near(commonest(part[60:140, 60:-60], [ground]), readable(swapped(INK))[:3])


def test_white_letters_stay_on_a_strong_colour_and_what_waits_stays_a_grey_beside_the_paper():
    ax = new_axes(None, 2)
    ax.barh([0, 1], [1, 1], color=[BLUE, WAITING])
    ax.text(0.5, 0, "MMMM", color="white", size=30, ha="center", va="center")
    seen = pixels(ax.figure)
    assert is_near(commonest(seen, [(PAPER,) * 3, swapped(WAITING)[:3]]), BLUE)
    assert is_near(commonest(seen, [(PAPER,) * 3, BLUE]), swapped(WAITING)[:3])
    assert (np.abs(seen - 1).max(axis=2) < 0.02).sum() > 100  # white is left
    assert PAPER + 0.08 < swapped(WAITING)[0] < 0.4


def test_letters_in_a_colour_are_bright_enough_to_be_read():
    assert readable((*to_rgb(SKY), 1)) == (*to_rgb(SKY), 1)
    red, green, blue, _ = readable((*to_rgb(BLUE), 1))
    assert 0.299 * red + 0.587 * green + 0.114 * blue == pytest.approx(0.6)
    assert blue > green > red


def test_a_blue_line_and_a_grey_outline_have_a_contrast_of_4_5_on_dark_paper():
    paper = luminance(np.full(3, PAPER)) + 0.05
    for colour in (BLUE, swapped("#999999")):
        assert (luminance(np.array(lifted((*to_rgb(colour)[:3], 1))[:3])) + 0.05) / paper > 4.5
    ax = new_axes(None, 2)
    ax.plot([0, 1], [0, 0], color=BLUE, linewidth=20)
    assert is_near(commonest(pixels(ax.figure), [(PAPER,) * 3]), lifted((*to_rgb(BLUE), 1))[:3])


def test_letters_on_green_are_ink_in_the_dark_too():
    ax = sheet(1, 10, 10)
    box(ax, 0, 0, 10, 10, GREEN)
    ax.text(5, 5, "MMMM", color=INK, size=30, ha="center", va="center")
    assert is_near(commonest(pixels(ax.figure)[60:140, 400:1200], [GREEN]), INK)


def test_lines_hatches_and_what_comes_in_collections_are_drawn_too():
    ax = new_axes(None, 2)
    ax.broken_barh([(0, 1), (2, 1)], (0, 1), facecolors=[SKY, WAITING], hatch="//", edgecolor="white")
    ax.scatter([0.5], [2], color="white", edgecolor=INK)
    ax.plot([0, 3], [2.5, 2.5], "D-", color=INK, markerfacecolor="white", linewidth=20)
    assert is_near(commonest(pixels(ax.figure), [(PAPER,) * 3, SKY, swapped(WAITING)[:3]]), swapped(INK)[:3])


def test_the_file_of_a_dark_picture_is_as_large_as_that_of_the_light_one():
    figure = new_axes(None, 2).figure
    light, dark = (Image.open(io.BytesIO(png(figure, dark))).convert("RGB") for dark in (False, True))
    assert light.size == dark.size and light.getpixel((0, 0)) == (255, 255, 255)
    assert dark.getpixel((0, 0)) == (17, 17, 17)


@pytest.mark.parametrize("dark", [False, True])
def test_in_few_colours_a_pale_ground_can_still_be_told_from_the_paper(dark):
    ax = sheet(1, 10, 10)
    box(ax, 5, 0, 5, 10, "#F4F4F4")
    seen = np.asarray(Image.open(io.BytesIO(png(ax.figure, dark))).convert("RGB")) / 255
    middle, half = seen.shape[0] // 2, seen.shape[1] // 2
    paper, pale = ("white", "#F4F4F4") if not dark else ((PAPER,) * 3, swapped("#F4F4F4")[:3])
    assert is_near(seen[middle, half // 2], paper) and np.abs(seen[middle, half // 2 * 3] - to_rgb(pale)).max() < 0.005


def test_white_letters_on_ink_become_dark_ones_on_what_is_light_then():
    ax = sheet(1, 10, 10)
    box(ax, 0, 0, 10, 10, INK)
    ax.text(5, 5, "MMMM", color="white", size=30, ha="center", va="center")
    assert is_near(commonest(pixels(ax.figure)[60:140, 400:1200], [swapped(INK)[:3]]), (PAPER,) * 3)


def test_what_a_picture_calls_black_is_called_white_where_it_is():
    image = bytes(16) + (80).to_bytes(4, "big")
    assert 'alt="black: whole; blackboard"' in (shown := as_html(image, "black: whole; blackboard", image))
    assert 'alt="white: whole; blackboard"' in shown
