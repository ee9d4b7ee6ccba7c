"""Draws a figure for a dark page: paper, ink and greys change places, and strong colours stay, as the text names them.

A pale face becomes a dark one of the same hue: what is weak beside a strong colour on white must not shine on black.

It is the same drawing with the same layout, done by another renderer. Strokes, marks and frames become light, and so do
letters on dark paper. For each piece the renderer looks at what already lies below and beside it: only what stands
wholly on a bright or strong fill stays as it is, where that can be seen better.
"""

from __future__ import annotations

import re
from colorsys import hls_to_rgb, rgb_to_hls
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image, ImageFilter

PAPER = 17 / 255  # JupyterLab's own dark ground, #111111
NEUTRAL = 0.07  # how far apart red, green and blue of a grey may be
COLOURED, BRIGHT, STRONG = 0.25, 0.5, 0.55  # from here on what lies below is a fill, and may keep what stands on it
BESIDE = 8  # pixels away from a stroke, where it must be seen
WHOLLY = 0.9  # of what is below and beside it
SMALL = 40  # pixels
NOTHING = np.zeros((0, 3))
READABLE, SEEN, HATCHED = 0.6, 0.46, 0.78  # how bright letters, lines and dots, and hatches are on dark paper
FAINT, OUTLINE = 0.42, 0.55  # a grey line that is brighter than the first is at least as bright as the second
PALE, MIXED = 0.64, 0.45  # from here on a colour is bright, and has so much white in it, that it is a tint
GLARING = 0.84  # brighter than the text of a dark page


def _is_grey(colour: Any) -> bool:
    rgb = to_rgba(colour)[:3]
    return max(rgb) - min(rgb) <= NEUTRAL


def _is_ink(colour: Any) -> bool:
    return _is_grey(colour) and _bright(np.array(to_rgba(colour)[:3])) < BRIGHT


def swapped(colour: Any) -> tuple[float, ...]:
    """Return a grey as dark as it was bright, ink and paper included, and any colour unchanged."""
    *rgb, alpha = to_rgba(colour)
    if not _is_grey(rgb):
        return (*rgb, alpha)
    return (*[min(1.0, PAPER + (1 - value) * 0.96) for value in rgb], alpha)


def dimmed(colour: Any) -> tuple[float, ...]:
    """Return a pale colour as a dark one of its hue, the darker the paler it was, and any other as `swapped` does."""
    *rgb, alpha = to_rgba(colour)
    if _is_grey(rgb) or _bright(np.array(rgb)) < PALE or min(rgb) < MIXED * max(rgb):
        return swapped(colour)
    hue, light, strong = rgb_to_hls(*rgb)
    return (*hls_to_rgb(hue, 0.07 + 0.8 * (1 - light), strong), alpha)


def readable(colour: tuple[float, ...], least: float = READABLE) -> tuple[float, ...]:
    """Return the colour of letters on dark paper: as it is, or with as much white in it as they need, and no more."""
    *rgb, alpha = colour
    bright = _bright(np.array(rgb))
    if bright > GLARING and _is_grey(rgb):
        return (GLARING, GLARING, GLARING, alpha)
    white = max(0.0, (least - bright) / (1 - bright))
    return (*[value + white * (1 - value) for value in rgb], alpha)


def lifted(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Return the colour of a line or a dot: ink and a faint grey as they are, others bright enough to be seen."""
    if _is_grey(colour):
        return readable(colour, OUTLINE) if FAINT < _bright(np.array(colour[:3])) < OUTLINE else colour
    return readable(colour, SEEN)


def exchanged(words: str) -> str:
    """Return words about a picture with black called white and white called black."""
    return re.sub(r"\b(?:black|white)\b", lambda found: "white" if found[0] == "black" else "black", words)


def _bright(rgb: np.ndarray) -> np.ndarray:
    return rgb @ [0.299, 0.587, 0.114]


class DarkRenderer(RendererAgg):
    def _update_methods(self) -> None:
        super()._update_methods()
        markers, collection = self._renderer.draw_markers, self._renderer.draw_path_collection
        image = self._renderer.draw_image

        def draw_markers(gc, marker, marker_transform, path, transform, face=None):
            reach = np.abs(marker.transformed(marker_transform).vertices).max(initial=0) + gc.get_linewidth() / 2
            below = self._below(_around(path.transformed(transform).vertices, reach + BESIDE))
            face = None if face is None else lifted(self._on(below, face))
            markers(self._turned(gc, below), marker, marker_transform, path, transform, face)

        def draw_path_collection(gc, *given, **named):
            given = list(given)
            for place in (5, 6):  # the colours of faces and of edges
                given[place] = np.array([dimmed(colour) for colour in given[place]]).reshape(-1, 4)
            turned = self._turned(gc, NOTHING)
            _hatch(turned, gc, len(given[5]) > 0 and _is_filled(given[5][:, :3]).mean() > 0.5)
            collection(turned, *given, **named)

        def draw_image(gc, x, y, pixels):
            pixels = np.array(pixels)
            pixels[(pixels[..., :3] == 255).all(axis=-1), :3] = round(255 * PAPER)  # where no value is shown
            image(gc, x, y, pixels)

        self.draw_markers, self.draw_path_collection, self.draw_image = draw_markers, draw_path_collection, draw_image

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:  # noqa: N803 - matplotlib's name
        points = path.transformed(transform)
        line = points.interpolated(8).vertices if len(points) < 50 else points.vertices
        below = self._below(_around(line, gc.get_linewidth() / 2 + BESIDE))
        coloured = rgbFace is not None and not _is_grey(rgbFace)
        turned = self._turned(gc, below, lit=not coloured)  # the edge of a coloured fill belongs to it
        crosses = len(below) > 0 and 0.4 < _is_filled(below).mean() <= WHOLLY
        if crosses and rgbFace is None and _is_ink(gc.get_rgb()):
            self._draw_parted(gc, turned, path, transform, line)
            return
        if rgbFace is not None:
            (left, low), (right, high) = points.get_extents().get_points()
            small = min(right - left, high - low) < SMALL  # as the head of an arrow, which lies on its line
            inside = self._below(_around(line, BESIDE) if small else _grid(left, low, right, high))
            rgbFace = self._on(inside, dimmed(rgbFace) if coloured else rgbFace, WHOLLY if small else 0.5)
            _hatch(turned, gc, bool(_is_filled(np.array([rgbFace[:3]]))[0]))
        super().draw_path(turned, path, transform, rgbFace)

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:
        wide, high, _ = self.get_text_width_height_descent(s, prop, ismath)
        y_up = self.height - y
        corner = (x - high, y_up, x, y_up + wide) if 45 < angle % 180 < 135 else (x, y_up, x + wide, y_up + high)
        below = self._below(_grid(*corner))
        on_fill = len(below) > 0 and _is_filled(below).mean() > 0.5
        colour = (_clearer if on_fill else _farther)(to_rgba(gc.get_rgb()), below)
        turned = self.new_gc()
        turned.copy_properties(gc)
        turned.set_foreground(colour if on_fill else readable(colour), isRGBA=True)
        super().draw_text(turned, x, y, exchanged(s), prop, angle, ismath, mtext)

    def _below(self, points: np.ndarray) -> np.ndarray:
        """Return the colours that are already drawn at these points, whose y goes upwards."""
        seen = np.asarray(self._renderer)
        xs, ys = points[np.isfinite(points).all(axis=1)].T
        inside = (xs >= 0) & (xs < self.width) & (ys > 0) & (ys <= self.height)
        rows, columns = (self.height - ys[inside]).astype(int), xs[inside].astype(int)
        rows, columns = np.minimum(rows, seen.shape[0] - 1), np.minimum(columns, seen.shape[1] - 1)
        below = seen[rows, columns] / 255
        return below[:, :3] * below[:, 3:]

    def _turned(self, gc, below: np.ndarray, lit: bool = True):
        """Return how a stroke is drawn with these colours below and beside it."""
        turned = self.new_gc()
        turned.copy_properties(gc)
        colour = self._on(below, to_rgba(gc.get_rgb()))
        turned.set_foreground(lifted(colour) if lit else colour, isRGBA=True)
        _hatch(turned, gc, False)
        return turned

    def _draw_parted(self, gc, turned, path, transform, line) -> None:
        """Draw a stroke that crosses fills: as it is well inside them, and turned everywhere else."""
        seen, line = np.asarray(self._renderer), line[np.isfinite(line).all(axis=1)]
        reach = gc.get_linewidth() + 2 * BESIDE  # so that what is beside it is in the part, too
        (left, low), (right, high) = line.min(axis=0) - reach, line.max(axis=0) + reach
        rows = slice(max(0, int(self.height - high)), max(0, int(self.height - low)))
        part = seen[rows, max(0, int(left)) : max(0, int(right))]
        before = part.copy()
        super().draw_path(gc, path, transform, None)
        kept = part.copy()
        part[:] = before
        super().draw_path(turned, path, transform, None)
        filled = _is_filled(before[..., :3].reshape(-1, 3) / 255).reshape(before.shape[:2])
        if filled.size:
            closed = Image.fromarray(filled).convert("L").filter(ImageFilter.MaxFilter(7))  # over lines on the fill
            inside = closed.filter(ImageFilter.MinFilter(2 * BESIDE + 7))
            part[:] = np.where(np.asarray(inside)[..., None] > 0, kept, part)

    @staticmethod
    def _on(below: np.ndarray, colour, most: float = WHOLLY) -> tuple[float, ...]:
        """Return a colour for what has these colours below and beside it: light ink, unless that is all fill."""
        if len(below) == 0 or _is_filled(below).mean() <= most:
            return swapped(colour)
        return _farther(to_rgba(colour), below)


def _farther(colour: tuple[float, ...], below: np.ndarray) -> tuple[float, ...]:
    """Return the colour or what it is swapped to, whichever stands out more from these colours."""
    ground = _bright(below).mean() if len(below) else PAPER
    return max(colour, swapped(colour), key=lambda one: abs(_bright(np.array(one[:3])) - ground))


def _clearer(colour: tuple[float, ...], below: np.ndarray) -> tuple[float, ...]:
    """Return which of the two has more contrast with these colours, as the eye sees it: on a green that is ink."""
    ground = luminance(below.mean(axis=0)) + 0.05
    contrast = {one: (luminance(np.array(one[:3])) + 0.05) / ground for one in (colour, swapped(colour))}
    return max(contrast, key=lambda one: max(contrast[one], 1 / contrast[one]))


def luminance(rgb: np.ndarray) -> float:
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    return float(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def _hatch(turned, gc, lit: bool) -> None:
    if (colour := gc.get_hatch_color()) is not None:
        turned.set_hatch_color(colour if lit else readable(swapped(colour), HATCHED))


def _grid(left: float, low: float, right: float, high: float) -> np.ndarray:
    xs, ys = np.linspace(left, right, 9)[1:-1], np.linspace(low, high, 5)[1:-1]
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _around(points: np.ndarray, reach: float) -> np.ndarray:
    """Return points this far away from each of these, in eight directions."""
    turns = np.linspace(0, 2 * np.pi, 9)[:-1]
    circle = reach * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return (points[:, None] + circle).reshape(-1, 2)


def _is_filled(rgb: np.ndarray) -> np.ndarray:
    """Return of each of these colours whether it is that of an opaque fill: bright, or strong and coloured."""
    most = rgb.max(axis=1, initial=0)
    return (_bright(rgb) > BRIGHT) | ((most > STRONG) & (most - rgb.min(axis=1, initial=1) > COLOURED))


class DarkCanvas(FigureCanvasAgg):
    """A canvas that saves and draws its figure for a dark page."""

    def get_renderer(self) -> DarkRenderer:
        size = (*self.get_width_height(physical=True), self.figure.dpi)
        if getattr(self, "_size", None) != size:
            self.renderer, self._size = DarkRenderer(*size), size
        return self.renderer


def canvas_of(figure: Figure, dark: bool) -> FigureCanvasAgg:
    return (DarkCanvas if dark else FigureCanvasAgg)(figure)
