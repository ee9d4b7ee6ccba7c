"""Chapter 8's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")


from legible import assert_legible

from course_lib import plots
from course_lib.hardware import H100
from course_lib.models import MODELS
from course_lib.plots.waiting import longest_gap
from course_lib.serving import Engine, Request, Roofline, chunked, continuous, static_batches, synthetic_trace

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


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_legible(name):
    assert_legible(PICTURES[name]().figure)


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


# What users wait for

CROWD = synthetic_trace("chat", 300, seed=1, rate=20)


def a_stall() -> dict:
    worker = Roofline(MODELS["Llama-3-8B"], H100)
    users = [Request(n, 0.0, 1000, 40) for n in range(3)] + [Request(3, 0.1, 8000, 12)]
    return {"whole": Engine(worker, continuous, slots=4, blocks=worker.blocks(), record=True).run(users),
            "chunked": chunked(worker, users, budget=512)}


def curves() -> tuple:
    found = {"one": [(1, 0.004, 250), (16, 0.005, 3200), (50, 0.008, 6250), (99, 0.012, 8250)]}
    return found, {"one": 50}


PICTURES |= {
    "slots and a queue": lambda: plots.slots_in_time(engines())[0],
    "a stall": lambda: plots.stall(a_stall(), title="a long prompt")[0],
    "knees": lambda: plots.knees({"one": {2: 0.1, 9: 3.0}, "other": {2: 0.1, 9: 0.2}}, {"one": 5, "other": 8},
                                 objective=1, ylabel="seconds", title="two knees"),
    "a bill": lambda: plots.bill({"busy": {"in line": 0.01, "own prompt": 0.1, "own tokens": 0.5,
                                           "others' prompts": 0.4}}, title="one answer"),
    "batches": lambda: plots.batch_gain(*curves(), title="more for all, slower for each"),
    "latencies": lambda: plots.latencies(engines(), "ttft", limit=1, title="first tokens"),
}


@pytest.mark.parametrize("name", list(PICTURES)[5:])
def test_letters_of_what_users_wait_for_are_large_enough(name):
    test_every_picture_is_legible(name)


def test_a_long_prompt_stops_the_others_and_in_chunks_it_does_not():
    whole, pieces = a_stall().values()
    stopped, slowed = (end - start for start, end in map(longest_gap, (whole, pieces)))
    assert stopped > 0.13 and slowed < 0.011
    words = plots.words_of(plots.stall({"whole": whole, "chunked": pieces}, title="a long prompt")[0].figure)
    assert "slot 0: 138 ms without a token" in words and "slot 0: never more than 10 ms" in words


def test_the_queue_is_empty_when_the_last_request_starts():
    served = engines()
    for ax, result in zip(plots.slots_in_time(served), served.values(), strict=True):
        (line,) = ax.lines
        started = min(event.start for event in result.events if event.label == "11")
        assert line.get_xdata()[0] == pytest.approx(1e3 * started)


def test_latencies_tell_the_percentiles_and_the_objective():
    words = plots.words_of(plots.latencies({"one": engines()["static"]}, "ttft", limit=1).figure)
    assert "one: 50% wait at most" in words and "a line at the objective of 1 s" in words and "inf" not in words


# Chunked prefill


def test_chunked_prefill_makes_all_tokens_within_the_budget():
    served = chunked(Roofline(MODELS["Llama-3-8B"], H100), CROWD[:20], budget=256)
    assert [request.made for request in served.requests] == [request.output for request in CROWD[:20]]
    assert all(request.arrival < request.first <= request.end for request in served.requests)
    steps = {event.start for event in served.events}
    assert sum(event.end - event.start for event in {e.start: e for e in served.events}.values()) == pytest.approx(
        served.busy)
    assert len(steps) >= sum(request.prompt for request in CROWD[:20]) / 256


def test_a_budget_that_leaves_no_room_for_a_prompt_is_refused():
    with pytest.raises(ValueError, match="must be above the 20 requests"):
        chunked(Roofline(MODELS["Llama-3-8B"], H100), CROWD[:20], budget=20)
