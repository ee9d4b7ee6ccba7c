"""Measures what is drawn in ink, white or grey: how far its brightness is from what lies around it, light and dark."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from course_lib.plots.dark import NEUTRAL, DarkRenderer

AROUND = 3  # pixels
DPI = 100


class Seen(NamedTuple):
    what: str
    place: tuple[int, int, int, int]
    """Left, top, right, bottom in pixels."""
    contrast: float
    """By how much its brightness differs from that of half of its neighbourhood at least; 0 where it cannot be seen."""
    pixels: int


def _neutral(colour) -> bool:
    if colour is None:
        return False
    *rgb, alpha = to_rgba(colour)
    return max(rgb) - min(rgb) <= NEUTRAL and alpha > 0.5


def _brightness(buffer) -> np.ndarray:
    return np.asarray(buffer)[..., :3] @ np.array([0.299, 0.587, 0.114]) / 255


def _wider(mask: np.ndarray, by: int) -> np.ndarray:
    for _ in range(by):
        wider = mask.copy()
        wider[1:] |= mask[:-1]
        wider[:-1] |= mask[1:]
        mask = wider.copy()
        mask[:, 1:] |= wider[:, :-1]
        mask[:, :-1] |= wider[:, 1:]
    return mask


def _watched(base: type) -> type:
    """Return a renderer that notes what it has drawn in `seen`."""

    class Watched(base):
        def __init__(self, *size):
            self.seen, self.inner = [], 0
            super().__init__(*size)

        def _update_methods(self):
            super()._update_methods()
            markers = self.draw_markers

            def draw_markers(gc, marker, place, path, transform, face=None):
                line = gc.get_rgb() if gc.get_linewidth() else None
                self._note("marker", line if face is None else face,
                           lambda: markers(gc, marker, place, path, transform, face))

            self.draw_markers = draw_markers

        def draw_path(self, gc, path, transform, rgbFace=None):  # noqa: N803
            what, colour = ("stroke", gc.get_rgb()) if rgbFace is None else ("face", rgbFace)
            if rgbFace is not None and min(to_rgba(rgbFace)) > 0.97:
                what, colour = "frame", gc.get_rgb()  # of a box that is as white as the page
            self._note(what, colour, lambda: super(Watched, self).draw_path(gc, path, transform, rgbFace))

        def draw_text(self, gc, x, y, s, *more, **named):
            self._note(f"text {s!r}", gc.get_rgb(), lambda: super(Watched, self).draw_text(gc, x, y, s, *more, **named))

        def _note(self, what, colour, draw):
            if self.inner or not _neutral(colour):
                self.inner += 1
                draw()
                self.inner -= 1
                if not self.inner:
                    self.seen.append(None)
                return
            before = np.array(self._renderer)
            self.inner += 1
            draw()
            self.inner -= 1
            self.seen.append(_seen(what, before, np.asarray(self._renderer)))

    return Watched


def _seen(what: str, before: np.ndarray, after: np.ndarray) -> Seen:
    other = (before.view(np.uint32) != after.view(np.uint32))[..., 0]
    rows = np.flatnonzero(other.any(axis=1))
    if not len(rows):
        return Seen(what, (0, 0, 0, 0), 0.0, 0)
    top, bottom = rows[0], rows[-1]
    left, *_, right = np.flatnonzero(other[top : bottom + 1].any(axis=0)).repeat(2)
    part = np.s_[max(0, top - 5) : bottom + 6, max(0, left - 5) : right + 6]
    was, now = _brightness(before[part]), _brightness(after[part])
    changed = np.abs(now - was)
    mask = changed > 0.03
    core = mask & (changed >= 0.6 * changed.max())
    around = _wider(mask, AROUND) & ~_wider(mask, 1)
    if not core.any() or not around.any():
        return Seen(what, (int(left), int(top), int(right), int(bottom)), 0.0, int(mask.sum()))
    contrast = float(np.median(np.abs(now[around] - np.median(now[core]))))
    return Seen(what, (int(left), int(top), int(right), int(bottom)), contrast, int(mask.sum()))


def seen(figure: Figure, dark: bool) -> list[Seen | None]:
    """Draw a figure and return what was seen of each piece, in the order of drawing; None for what is in colour."""
    kind = _watched(DarkRenderer if dark else RendererAgg)

    class Canvas(FigureCanvasAgg):
        def get_renderer(self):
            size = (*self.get_width_height(physical=True), self.figure.dpi)
            if getattr(self, "_size", None) != size:
                self.renderer, self._size = kind(*size), size
            return self.renderer

    before = figure.canvas
    try:
        figure.set_dpi(DPI)
        canvas = Canvas(figure)
        renderer = canvas.get_renderer()
        renderer.inner = 1  # the first drawing only puts things in their places
        canvas.draw()
        renderer.inner = 0
        renderer.clear()
        figure.draw(renderer)
        return renderer.seen
    finally:
        figure.set_canvas(before)


def lost(figure: Figure, clear: float = 0.3, least: float = 0.145) -> list[str]:
    """Return what is clear in the light picture and lost in the dark one, with its place in pixels."""
    pairs = zip(seen(figure, dark=False), seen(figure, dark=True), strict=True)
    both = [pair for pair in pairs if None not in pair and pair[0].contrast > clear and pair[0].pixels > 6]
    return [f"{light.what} at {light.place}: {light.contrast:.2f}, dark {dark.contrast:.2f}"
            for light, dark in both if dark.contrast < least]
