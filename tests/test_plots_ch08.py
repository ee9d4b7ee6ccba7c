"""Chapter 8's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.text import Text

from course_lib import plots
from course_lib.hardware import H100
from course_lib.models import MODELS
from course_lib.serving import Engine, Request, Roofline, continuous, static_batches

REQUESTS = [Request(n, 0.0, 4, length) for n, length in enumerate([3, 24, 5, 4] * 3)]


def engines() -> dict:
    worker = Roofline(MODELS["Llama-3-8B"], H100)
    return {name: Engine(worker, scheduler, slots=4, blocks=64, record=True).run(REQUESTS)
            for name, scheduler in (("static", static_batches), ("continuous", continuous))}


PICTURES = {
    "an answer": lambda: plots.one_answer(),
    "an answer inside": lambda: plots.one_answer(inside=True),
    "passes": lambda: plots.token_passes()[0],
    "blocks": lambda: plots.block_tables()[0],
    "slots": lambda: plots.timelines(engines(), row="slot")[0],
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", PICTURES)
def test_letters_are_large_enough_and_no_picture_is_wider_than_the_page(name):
    figure = PICTURES[name]().figure
    figure.canvas.draw()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in shown) >= plots.SMALLEST
    assert figure.get_tightbbox().width <= 1.03 * plots.WIDTH


def test_an_answer_takes_the_seconds_of_the_roofline():
    worker, words = Roofline(MODELS["Llama-3-8B"], H100), plots.words_of(plots.one_answer(inside=True).figure)
    prefill, step = worker.seconds(2000, 2000 * 2001 // 2, 0), worker.seconds(1, 2001, 2001)
    assert f"read in {1e3 * prefill:.1f} ms, then a token comes every {1e3 * step:.2f} ms" in words
    assert "for a token the memory is busy 100% of the time, arithmetic 0.4%" in words


def test_passes_are_counted_as_they_are_drawn():
    plain, cached = plots.token_passes(prompt=3, new=4)
    passing = [sum(patch.get_facecolor()[:3] in (matplotlib.colors.to_rgb(plots.FORWARD),
                                                 matplotlib.colors.to_rgb(plots.COMPUTE)) for patch in ax.patches)
               for ax in (plain, cached)]
    assert passing == [3 + 4 + 5 + 6, 3 + 3]
    assert [ax.get_title("left") for ax in (plain, cached)] == ["without a cache: 18 token passes", "with a cache: 6"]


def test_no_block_is_in_two_tables_and_each_request_has_as_many_as_it_needs():
    words = plots.words_of(plots.block_tables(answers=(19, 7, 12), size=4)[0].figure)
    tables = words.rpartition("tables ")[2]
    numbers = [int(word.strip(",")) for word in tables.split() if word.strip(",").isdigit()]
    assert len(numbers) == len(set(numbers)) == 5 + 2 + 3


def test_two_engines_share_the_axis_of_time_and_the_gain_is_written():
    served = engines()
    top, low = plots.timelines(served, row="slot")
    assert top.get_xlim() == low.get_xlim()
    gain = served["static"].seconds / served["continuous"].seconds
    assert f"{gain:.2f} times as fast" in low.get_title("left") and "times" not in top.get_title("left")
