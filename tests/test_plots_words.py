"""Every picture brings words: its alternative text says what is drawn."""

from __future__ import annotations

import ast
import base64
import re
from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from course_lib import Event, plots
from course_lib.plots import Picture, as_html, say, words_of
from course_lib.plots.canvas import READABLE
from course_lib.plots.png_files import png
from exercises_tests.tools.chapters import ROOT


def axes():
    return plt.subplots(FigureClass=Picture)[1]


def test_a_notebook_gets_an_image_with_words():
    ax = axes()
    ax.set_title('a "title"', loc="left")
    shown = ax.figure._repr_html_()
    assert shown.startswith('<img alt="a &quot;title&quot;" width="')


def test_an_image_is_shown_at_half_of_its_pixels_and_shrinks_only_as_long_as_its_letters_can_be_read():
    figure = axes().figure
    width = int.from_bytes(png(figure)[16:20], "big")
    least = f"min-width: {min(width // 2, READABLE)}px; --own: {width // 2}px"
    looks = f'width="{width // 2}" style="max-width: 100%; {least}"'
    assert looks in figure._repr_html_()
    assert width > 1.5 * 100 * figure.get_figwidth()


def test_in_jupyterlab_a_picture_is_seen_whole_beside_the_list_of_files_as_long_as_it_can_be_read():
    assert "{ .jp-OutputArea .course-drawn { min-width: min(550px, var(--own)) " in axes().figure._repr_html_()


def test_in_jupyterlab_code_in_a_hint_stands_on_one_ground():
    assert "details pre code { background: none; }" in axes().figure._repr_html_()


def test_in_jupyterlab_what_is_drawn_in_letters_keeps_its_columns():
    assert ":is(pre, pre code) { white-space: pre; overflow-x: auto; }" in axes().figure._repr_html_()


def test_in_jupyterlabs_dark_theme_its_twin_is_seen_and_has_the_same_words(monkeypatch):
    monkeypatch.setenv("COURSE_DARK", "on")
    ax = axes()
    ax.set_title("title")
    shown = ax.figure._repr_html_()
    assert [alt == "title" for alt in re.findall(r'alt="([^"]*)"', shown)] == [True, True]
    assert 'class="course-drawn course-light"' in shown and 'class="course-drawn course-dark"' in shown
    assert '[data-jp-theme-light="false"] .course-light { display: none; }' in shown


def test_the_image_is_the_one_that_is_given():
    image = bytes(16) + (80).to_bytes(4, "big")
    assert as_html(image, "<words>").startswith('<img alt="&lt;words&gt;" width="40" ')
    assert base64.b64encode(image).decode() in as_html(image, "")


def test_words_that_are_given_take_the_place_of_those_found():
    ax = axes()
    ax.set_title("title")
    ax.plot([1, 2], [3, 4], label="line")
    say(ax, "first line\nsecond   line.")
    assert words_of(ax.figure) == "title; first line; second line"


def test_a_line_is_told_point_by_point_and_a_long_one_by_its_ends():
    ax = axes()
    ax.plot([1, 2], [3, 4], label="short")
    ax.plot(range(100), range(100), label="long")
    ax.plot([1, 2], [3, 4])  # no name, no words
    ax.set(xlabel="ranks", ylabel="seconds")
    told = words_of(ax.figure).split("; ")
    assert told[0] == "seconds over ranks"
    assert told[1].startswith("short: 3") and told[1].count(" at ") == 2
    assert told[2].startswith("long: 0") and told[2].count(" at ") == 2
    assert len(told) == 3


def test_numbers_are_written_as_on_their_axis():
    ax = axes()
    ax.plot([2000, 4000, 8000], [1, 1.5, 2], label="line")
    ax.xaxis.set_major_formatter(lambda value, _: plots.bytes_text(value))
    ax.set_yticks([1, 2], [10, 20])
    assert words_of(ax.figure) == "line: 10 at 2 kB, 1.5 at 4 kB, 20 at 8 kB"


def test_a_line_from_side_to_side_is_its_label():
    ax = axes()
    ax.axvline(3, label="limit: 3 GB")
    assert words_of(ax.figure) == "limit: 3 GB"


def test_bars_are_told_by_row_and_length():
    ax = axes()
    ax.barh([0, 1], [10, 20.5], label="weights")
    ax.set_yticks([0, 1], ["GPT\nsmall", "Llama"])
    assert words_of(ax.figure) == "from first to last: GPT small, Llama; weights: 10, 20.5"


def test_long_words_are_cut_at_a_space():
    ax = axes()
    say(ax, "word " * 1000)
    words = words_of(ax.figure)
    assert len(words) <= 2002 and words.endswith("word …")


def result(*events, ranks=2):
    made = SimpleNamespace(events=events, seconds=max(event.end for event in events), simulated=True)
    return type("Ranks", (list,), vars(made))([None] * ranks)


def event(rank, kind, start, end, posted=None, **more):
    return Event(rank=rank, kind=kind, posted=start if posted is None else posted, start=start, end=end, **more)


def test_a_timeline_tells_few_events_one_by_one():
    ax = plots.timeline(result(event(0, "send", 0.0, 2.0), event(1, "recv", 1.0, 2.0, posted=0.0)))
    assert words_of(ax.figure) == (
        "simulated: 2 ranks, 2 s; rank 0: send from 0 to 2 s; rank 1: recv from 1 to 2 s, after waiting from 0")


def test_a_timeline_tells_many_events_by_their_share():
    many = [event(0, "work", 2.0 * turn, 2.0 * turn + 1) for turn in range(5)] + [event(0, "send", 9.0, 10.0, 8.0)]
    ax = plots.timeline(result(*many, ranks=1))
    assert "rank 0: work 50% of the time, send 10% of the time, idle 40% of the time" in words_of(ax.figure)


def test_what_overlaps_is_told_once_and_no_share_is_above_the_whole():
    ax = plots.timeline(result(*[event(0, "all_reduce", 0.0, 4.0, posted=-9.0) for _ in range(9)], ranks=1))
    assert words_of(ax.figure).endswith("rank 0: all_reduce 100% of the time")


def test_a_timeline_of_many_ranks_says_how_many_are_left_out():
    ax = plots.timeline(result(*(event(rank, "work", 0.0, 1.0) for rank in range(40)), ranks=40))
    words = words_of(ax.figure)
    assert "rank 0: work" in words and "rank 39: work" in words and "24 more ranks" in words


@pytest.mark.parametrize("draw", [plots.star_and_ring])
def test_a_drawing_has_words(draw):
    assert len(words_of(draw().figure)) > 100


def test_shards_and_collectives_have_their_text_twins():
    held = [[{0}, {0, 1}], [{1}, set()]]
    assert words_of(plots.shards(held, title="now").figure) == "now; rank 0 | 0 | all 2; rank 1 | 1 | –"
    pair = {"sum": [([1, 2], [3]), ([3], [])], "max": [([1], [2]), ([2], [2])]}
    assert words_of(plots.before_after(pair).figure) == (
        "sum; rank 0 | 1 2 -> 3; rank 1 | 3 -> –; max; rank 0 | 1 -> 2; rank 1 | 2 -> 2")


def test_every_figure_of_the_library_is_a_picture():
    """A figure made by plt.subplots without FigureClass would have no words."""
    bare = []
    for path in (ROOT / "course_lib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            opens = isinstance(node, ast.Call) and ast.unparse(node.func) in ("plt.subplots", "plt.figure")
            if opens and "FigureClass" not in [keyword.arg for keyword in node.keywords]:
                bare.append(f"{path.name}:{node.lineno}")
    assert bare == []
