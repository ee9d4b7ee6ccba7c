"""Figures as PNG files: on white paper, or drawn for a dark page."""

from __future__ import annotations

import io

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image

from course_lib.plots.dark import canvas_of

SHARP = 200  # pixels an inch that are drawn; a page shows half as many, so letters stay sharp when it is enlarged
COMMON = 64  # colours of a picture that are kept as they are


def png(figure: Figure, dark: bool = False) -> bytes:
    """Return a figure, cut where its contents end, as a PNG file of SHARP pixels an inch."""
    return in_few_colours(*_cut(figure, dark))


def twins(figure: Figure) -> tuple[bytes, bytes]:
    """Return `png` of a figure for a light page and for a dark one; it is laid out once."""
    light, dark = map(in_few_colours, _cut(figure, False, True))
    return light, dark


def drawn(figure: Figure, dark: bool = False, placed: bool = False, sharp: int = SHARP) -> Image.Image:
    """Return a figure as an image, as large as it is, whatever stands in it: frames must not jump.

    `placed`: it has been drawn before, and everything stays where it is. `sharp`: its pixels an inch.
    """
    if figure.get_layout_engine() is None:
        return _cut(figure, dark)[0]
    before, layout = figure.canvas, figure.get_layout_engine()
    try:
        figure.set_dpi(sharp)  # all that it holds is inside it
        if placed:
            figure.set_layout_engine(None)
        canvas = canvas_of(figure, dark)
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba()))
    finally:
        figure.set_canvas(before)
        figure.set_layout_engine(layout)


def plain_png(figure: Figure) -> bytes:
    """Return the same as `png` with all its colours: three times the bytes, in two thirds of the time."""
    buffer, before = io.BytesIO(), figure.canvas
    try:
        canvas_of(figure, False).print_figure(buffer, format="png", dpi=SHARP, bbox_inches="tight")
    finally:
        figure.set_canvas(before)
    return buffer.getvalue()


def _cut(figure: Figure, *dark: bool) -> list[Image.Image]:
    """Return images of a figure, cut where its contents end. To find where they do takes longer than to draw them."""
    before, layout, dpi = figure.canvas, figure.get_layout_engine(), figure.dpi
    images = []
    try:
        figure.dpi = SHARP
        figure.draw_without_rendering()
        contents = figure.get_tightbbox().padded(rcParams["savefig.pad_inches"])
        figure.set_layout_engine(None)  # everything is in its place
        for night in dark:
            buffer = io.BytesIO()
            canvas_of(figure, night).print_figure(buffer, format="png", dpi=SHARP, bbox_inches=contents,
                                                  pil_kwargs={"compress_level": 0})  # fmt: skip
            images.append(Image.open(buffer).convert("RGBA"))
    finally:
        figure.set_canvas(before)
        figure.set_layout_engine(layout)
        figure.dpi = dpi
    return images


def in_few_colours(drawn: Image.Image) -> bytes:
    """Return a PNG file in 256 colours, of which pictures need fewer: a third of the bytes, and sooner written.

    COMMON of them are exact, so that white stays white and a pale ground can be told from it.
    """
    small = io.BytesIO()
    white = Image.new("RGB", drawn.size, "white")
    white.paste(drawn, mask=drawn.getchannel("A"))
    some = Image.fromarray(np.ascontiguousarray(np.asarray(white)[::4, ::4]))  # one pixel of 16 tells as much
    octree = some.quantize(256 - COMMON, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette = Image.new("P", (1, 1))  # the octree does not tell a pale ground from the paper
    palette.putpalette(_commonest(white) + octree.getpalette()[: 3 * (256 - COMMON)])
    few = white.quantize(palette=palette, dither=Image.Dither.NONE)
    few.putpalette(_exact(few, white))
    few.save(small, format="png", dpi=(SHARP, SHARP))
    return small.getvalue()


def _commonest(image: Image.Image) -> list[int]:
    colours, counts = np.unique(np.asarray(image)[::4, ::4].reshape(-1, 3).astype(np.int64) @ [2**16, 2**8, 1],
                                return_counts=True)  # fmt: skip
    most = colours[np.argsort(-counts)][:COMMON]
    most = np.concatenate([most, np.repeat(most[:1], COMMON - len(most))])
    return np.stack([most >> 16 & 255, most >> 8 & 255, most & 255], axis=1).ravel().tolist()


def _exact(few: Image.Image, many: Image.Image) -> list[int]:
    """Return the palette of `few` with the commonest colour of each entry in place of their mean: white stays white."""
    places = np.asarray(few)[::4, ::4].ravel().astype(np.int64)
    seen = np.asarray(many)[::4, ::4].reshape(-1, 3).astype(np.int64)
    pairs, counts = np.unique(places * 2**24 + seen @ [2**16, 2**8, 1], return_counts=True)
    pairs = pairs[np.argsort(counts)]  # of one place the commonest comes last, and stays
    palette = np.array(few.getpalette()).reshape(-1, 3)
    palette[pairs >> 24] = np.stack([pairs >> 16 & 255, pairs >> 8 & 255, pairs & 255], axis=1)
    return palette.ravel().tolist()
