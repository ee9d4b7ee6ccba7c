"""The frames under a picture's controls: what each control can be set to, and the picture for each setting."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import math
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from course_lib.plots.canvas import embedded, words_of
from course_lib.plots.png_files import drawn, in_few_colours

FEW = 24  # frames of which all keep the same axes, unless the chapter says otherwise

Key = tuple[int, ...]
"""One setting of all controls: the place of each one's value."""


@dataclass(frozen=True)
class Control:
    """What a learner moves: a name, the values it runs through, and how it looks."""

    name: str
    values: list
    start: int

    @property
    def kind(self) -> str:
        """Return buttons for two values or a few named ones, a choice for many names, steps that play, or a slider."""
        named = all(isinstance(value, str) for value in self.values)
        if len(self.values) == 2 or named and len(self.values) <= 4:
            return "buttons"
        return "choice" if named else "steps" if self.name.endswith("step") else "slider"

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def texts(self) -> list[str]:
        return [shown(value) for value in self.values]


@dataclass(frozen=True)
class Frame:
    """One picture with its words, what was printed while it was drawn, or else why there is none."""

    image: bytes = b""
    words: str = ""
    said: str = ""
    failed: str = ""
    dark: bytes = b""
    """The picture drawn for a dark page."""

    def told(self) -> dict[str, Any]:
        """Return all but the images as plain data; a page shows half as many pixels as there are."""
        image = self.image or self.dark
        width, height = (int.from_bytes(image[place : place + 4], "big") // 2 for place in (16, 20))
        return {"words": self.words, "said": self.said, "failed": self.failed, "width": width, "height": height}


@dataclass
class Panel:
    """A picture with its controls. `same` names those over whose values all frames have the same axes."""

    picture: Callable
    controls: list[Control]
    same: frozenset[str]
    fixed: dict[str, Any] = field(default_factory=dict)
    """Values that no control sets."""
    _made: dict[Key, tuple[Figure | None, str]] = field(default_factory=dict)
    _axes: dict[Key, list] = field(default_factory=dict)

    @property
    def start(self) -> Key:
        return tuple(control.start for control in self.controls)

    def settings(self, varied: frozenset[str] | None = None, at: Key | None = None) -> Iterator[Key]:
        """Return every setting; or those in which only the controls named by `varied` differ from `at`."""
        return itertools.product(*(
            range(len(control.values)) if varied is None or control.name in varied else [at[place]]
            for place, control in enumerate(self.controls)
        ))  # fmt: skip

    def count(self) -> int:
        return math.prod(len(control.values) for control in self.controls)

    def values(self, key: Key) -> dict[str, Any]:
        """Return what the picture is called with."""
        moved = {control.name: control.values[place] for control, place in zip(self.controls, key, strict=True)}
        return moved | self.fixed

    def frame(self, key: Key, strict: bool = False) -> Frame:
        """Draw one frame. What the picture raises is told in the frame, or raised if `strict`."""
        drawing = self.drawing(key, strict)
        while True:
            try:
                next(drawing)
            except StopIteration as end:
                return end.value

    def drawing(
        self, key: Key, strict: bool = False, dark: Sequence[bool] = (False, True)
    ) -> Generator[None, None, Frame]:  # fmt: skip
        """Draw one frame, for a light page, a dark one or both.

        It is done in steps of about the same length, so that something more urgent can come between.
        """
        try:
            with _only_new_rubbish():
                figure, said = self._figure(key)
            if figure is None:
                return Frame(said=said)
            images = {}
            for night in dark:
                yield
                with _only_new_rubbish():
                    image = drawn(figure, night, placed=bool(images))
                yield
                images[night] = in_few_colours(image)
            return Frame(images.get(False, b""), words_of(figure), said, dark=images.get(True, b""))
        except Exception as error:
            if strict:
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"\n    line {last.lineno}, in {last.name}: {last.line}"
            return Frame(failed=f"with {as_text(self.values(key))}: {type(error).__name__}: {error}{where}")

    def _figure(self, key: Key) -> tuple[Figure | None, str]:
        """Return the figure of a setting, with the axes that it shares with others, and what was printed."""
        group = tuple(-1 if c.name in self.same else place for c, place in zip(self.controls, key, strict=True))
        if self.same and group not in self._axes:
            made = []
            for other in self.settings(self.same, key):
                with contextlib.suppress(Exception):  # told when its own frame is asked for
                    self._made[other] = self._call(other)
                    made.append(self._made[other][0])
            self._axes[group] = _widest([figure for figure in made if figure is not None])
        figure, said = self._made.pop(key, None) or self._call(key)
        if figure is not None and self.same:
            for ax, limits in zip(figure.axes, self._axes[group], strict=False):
                ax.set(**limits)
        return figure, said

    def _call(self, key: Key) -> tuple[Figure | None, str]:
        printed, before = io.StringIO(), set(plt.get_fignums())
        try:
            with contextlib.redirect_stdout(printed):
                returned = self.picture(**self.values(key))
        finally:
            for number in set(plt.get_fignums()) - before:  # or the notebook would show it a second time
                plt.close(number)
        figure = getattr(returned, "figure", None) or (returned if hasattr(returned, "savefig") else None)
        text = "" if figure is not None or returned is None else str(returned)
        return figure, (printed.getvalue() + text).rstrip()

    def thinned(self, most: int) -> Panel:
        """Return this panel with at most so many frames, for a page that holds them all.

        The last controls are fixed where they start until the rest can have three values each (all of them where they
        are names); then numbers lose values, but for the first, the last and where they start.
        """
        least = [min(3, len(c.values)) if c.kind in ("slider", "steps") else len(c.values) for c in self.controls]
        kept = next((n for n in range(len(least), 0, -1) if math.prod(least[:n]) <= most), 0)
        chosen = [list(range(len(control.values))) for control in self.controls[:kept]]
        while math.prod(map(len, chosen)) > most:
            place = max((p for p in range(kept) if len(chosen[p]) > least[p]), key=lambda p: len(chosen[p]))
            control = self.controls[place]
            chosen[place] = _spread(len(control.values), len(chosen[place]) - 1, control.start)
        controls = [replace(c, values=[c.values[i] for i in places], start=places.index(c.start))
                    for c, places in zip(self.controls, chosen, strict=False)]  # fmt: skip
        rest = {control.name: control.values[control.start] for control in self.controls[kept:]}
        return Panel(self.picture, controls, self.same, self.fixed | rest)

    def look(self) -> dict[str, Any]:
        """Return the controls and where they start, as plain data for the player."""
        controls = [{"name": c.name, "label": c.label, "kind": c.kind, "texts": c.texts} for c in self.controls]
        return {"controls": controls, "start": list(self.start), "fixed": as_text(self.fixed), "frames": {}}

    def data(self) -> dict[str, Any]:
        """Return the controls and all frames as plain data."""
        frames = {_name(key): as_data(self.frame(key)) for key in self.settings()}
        return self.look() | {"frames": frames}


def panel_of(
    picture: Callable, at: dict[str, Any] | None, fixed: Sequence[str] | None, ranges: dict[str, Sequence]
) -> Panel:
    """Return the panel of a picture. Raises ValueError for a range that is none, or a start that is not in it."""
    controls = []
    for name, given in ranges.items():
        values = values_of(name, given)
        start = (at or {}).get(name, values[(len(values) - 1) // 2])
        if start not in values:
            raise ValueError(f"{name} cannot start at {start!r}: it runs through {', '.join(map(shown, values))}")
        controls.append(Control(name, values, values.index(start)))
    if unknown := [name for name in [*(at or {}), *(fixed or ())] if name not in ranges]:
        raise ValueError(f"{unknown[0]} has no range: give one, as in {unknown[0]}=(0, 10)")
    panel = Panel(picture, controls, frozenset(ranges if fixed is None else fixed))
    if fixed is None and panel.count() > FEW:
        panel.same = frozenset()
    return panel


def values_of(name: str, given: Sequence) -> list:
    """Return the values that a control runs through. Raises ValueError for a range that is none."""
    if isinstance(given, (list, range)):
        values = list(given)
    elif isinstance(given, tuple) and len(given) in (2, 3) and all(isinstance(part, (int, float)) for part in given):
        first, last = given[:2]
        whole = all(isinstance(part, int) for part in given)
        step = given[2] if len(given) == 3 else 1 if whole else (last - first) / 20
        if not step > 0 or not math.isfinite(last - first):
            raise ValueError(f"{name}={given!r}: the step must be above 0 and the ends finite")
        values = [first + place * step for place in range(math.floor((last - first) / step + 1e-9) + 1)]
    else:
        raise ValueError(f"{name}={given!r}: give (first, last), (first, last, step) or a list of choices")
    if not values:
        raise ValueError(f"{name}={given!r} holds no value")
    return values


def shown(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def as_text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} = {shown(value)}" for name, value in values.items())


def as_data(frame: Frame) -> dict[str, Any]:
    """Return a frame as plain data, its images inside."""
    return frame.told() | {"src": embedded(frame.image), "dark": embedded(frame.dark)}


def _name(key: Key) -> str:
    return ",".join(map(str, key))


def _spread(count: int, wanted: int, start: int) -> list[int]:
    """Return so many of the places 0 ... count - 1, evenly spread, the ends and `start` among them."""
    places = [round(place * (count - 1) / (wanted - 1)) for place in range(wanted)]
    if start not in places:
        inner = min(range(1, wanted - 1), key=lambda place: abs(places[place] - start))
        places[inner] = start
    return sorted(places)


def _widest(figures: list[Figure]) -> list[dict[str, tuple[float, float]]]:
    """Return for each Axes the limits that hold all figures' contents; none where the figures are not alike."""
    if not figures or len({len(figure.axes) for figure in figures}) != 1:
        return []
    limits = []
    for alike in zip(*(figure.axes for figure in figures), strict=True):
        found = {}
        for name in ("x", "y"):
            ends = [getattr(ax, f"get_{name}lim")() for ax in alike]
            if len({getattr(ax, f"get_{name}scale")() for ax in alike}) == 1 and all(ax.axison for ax in alike):
                down = ends[0][0] > ends[0][1]
                lows, highs = zip(*map(sorted, ends), strict=True)
                found[f"{name}lim"] = (max(highs), min(lows)) if down else (min(lows), max(highs))
        limits.append(found)
    return limits


@contextlib.contextmanager
def _only_new_rubbish() -> Iterator[None]:
    """Keep the garbage collector off what was there before.

    A figure is some 50,000 objects, so while one is drawn the collector would go through torch and all else that a
    kernel holds: an eighth of a frame's time on average, and half of the slowest one's. Both calls cost nothing.
    """
    ours = gc.get_freeze_count() == 0  # else somebody wants it frozen for good
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
