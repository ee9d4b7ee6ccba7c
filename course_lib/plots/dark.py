"""Draws a figure for a dark page: paper, ink and greys change places, and colours stay, because the text names them.

It is the same drawing with the same layout, done by another renderer. For each piece that is drawn the renderer looks
at what already lies below: ink on dark paper becomes light, ink on a coloured box stays dark.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

PAPER = 17 / 255  # JupyterLab's own dark ground, #111111
NEUTRAL = 0.07  # how far apart red, green and blue of a grey may be
COLOURED, BRIGHT = 0.25, 0.5  # from here on what lies below is a fill, and keeps what stands on it
READABLE = 0.5  # of letters in colour on dark paper


def swapped(colour: Any) -> tuple[float, ...]:
    """Return a grey as dark as it was bright, ink and paper included, and any colour unchanged."""
    *rgb, alpha = to_rgba(colour)
    if max(rgb) - min(rgb) > NEUTRAL:
        return (*rgb, alpha)
    return (*[min(1.0, PAPER + (1 - value) * 0.96) for value in rgb], alpha)


def readable(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Return the colour of letters on dark paper: as it is, or with as much white in it as they need."""
    *rgb, alpha = colour
    bright = _bright(np.array(rgb))
    white = max(0.0, (READABLE - bright) / (1 - bright))
    return (*[value + white * (1 - value) for value in rgb], alpha)


def exchanged(words: str) -> str:
    """Return words about a picture with black called white and white called black."""
    return re.sub(r"\b(?:black|white)\b", lambda found: "white" if found[0] == "black" else "black", words)


def _bright(rgb: np.ndarray) -> np.ndarray:
    return rgb @ [0.299, 0.587, 0.114]


class DarkRenderer(RendererAgg):
    def _update_methods(self) -> None:
        super()._update_methods()
        markers, collection = self._renderer.draw_markers, self._renderer.draw_path_collection

        def draw_markers(gc, marker, marker_transform, path, transform, face=None):
            lit = self._lit(path.transformed(transform).vertices)
            markers(self._turned(gc, lit), marker, marker_transform, path, transform, self._face(face, lit))

        def draw_path_collection(gc, *given, **named):
            given = list(given)
            for place in (5, 6):  # the colours of faces and of edges
                given[place] = np.array([swapped(colour) for colour in given[place]]).reshape(-1, 4)
            lit = len(given[5]) > 0 and _is_lit(given[5][:, :3])
            turned = self._turned(gc, False)
            _hatch(turned, gc, lit)
            collection(turned, *given, **named)

        self.draw_markers, self.draw_path_collection = draw_markers, draw_path_collection

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:  # noqa: N803 - matplotlib's name
        points = path.transformed(transform)
        if rgbFace is None:
            lit = self._lit(points.interpolated(8).vertices if len(points) < 50 else points.vertices)
        else:
            (left, low), (right, high) = points.get_extents().get_points()
            lit = self._lit(_grid(left, low, right, high))
        face = self._face(rgbFace, lit)
        turned = self._turned(gc, lit)
        if face is not None and _is_lit(np.array([face[:3]])):
            _hatch(turned, gc, True)
        super().draw_path(turned, path, transform, face)

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:
        wide, high, _ = self.get_text_width_height_descent(s, prop, ismath)
        y_up = self.height - y
        corner = (x - high, y_up, x, y_up + wide) if 45 < angle % 180 < 135 else (x, y_up, x + wide, y_up + high)
        below = self._below(_grid(*corner))
        colour, lit = to_rgba(gc.get_rgb()), _is_lit(below)
        if not lit or not _coloured(below).mean() > 0.5:  # on paper or on a grey: whichever is farther from that
            ground = _bright(below).mean() if len(below) else PAPER
            colour = max(colour, swapped(colour), key=lambda one: abs(_bright(np.array(one[:3])) - ground))
        turned = self._turned(gc, lit)
        turned.set_foreground(colour if lit else readable(colour), isRGBA=True)
        super().draw_text(turned, x, y, exchanged(s), prop, angle, ismath, mtext)

    def _lit(self, points: np.ndarray) -> bool:
        return _is_lit(self._below(points))

    def _below(self, points: np.ndarray) -> np.ndarray:
        """Return the colours that are already drawn at these points, whose y goes upwards."""
        seen = np.asarray(self._renderer)
        xs, ys = points[np.isfinite(points).all(axis=1)].T
        inside = (xs >= 0) & (xs < self.width) & (ys > 0) & (ys <= self.height)
        rows, columns = (self.height - ys[inside]).astype(int), xs[inside].astype(int)
        rows, columns = np.minimum(rows, seen.shape[0] - 1), np.minimum(columns, seen.shape[1] - 1)
        below = seen[rows, columns] / 255
        return below[:, :3] * below[:, 3:]

    def _turned(self, gc, lit: bool):
        turned = self.new_gc()
        turned.copy_properties(gc)
        if not lit:
            turned.set_foreground(swapped(gc.get_rgb()), isRGBA=True)
            _hatch(turned, gc, False)
        return turned

    @staticmethod
    def _face(face, lit: bool):
        return face if face is None or lit else swapped(face)


def _hatch(turned, gc, lit: bool) -> None:
    if (colour := gc.get_hatch_color()) is not None:
        turned.set_hatch_color(colour if lit else swapped(colour))


def _grid(left: float, low: float, right: float, high: float) -> np.ndarray:
    xs, ys = np.linspace(left, right, 9)[1:-1], np.linspace(low, high, 5)[1:-1]
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _coloured(rgb: np.ndarray) -> np.ndarray:
    return rgb.max(axis=1, initial=0) - rgb.min(axis=1, initial=1) > COLOURED


def _is_lit(rgb: np.ndarray) -> bool:
    """Return whether most of these colours are those of a fill, coloured or bright."""
    return len(rgb) > 0 and bool((_coloured(rgb) | (_bright(rgb) > BRIGHT)).mean() > 0.5)


class DarkCanvas(FigureCanvasAgg):
    """A canvas that saves and draws its figure for a dark page."""

    def get_renderer(self) -> DarkRenderer:
        size = (*self.get_width_height(physical=True), self.figure.dpi)
        if getattr(self, "_size", None) != size:
            self.renderer, self._size = DarkRenderer(*size), size
        return self.renderer


def canvas_of(figure: Figure, dark: bool) -> FigureCanvasAgg:
    return (DarkCanvas if dark else FigureCanvasAgg)(figure)
