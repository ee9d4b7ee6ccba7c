"""Chapter 8's pictures: what they draw, what they tell, and that their letters can be read."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")


from legible import assert_legible

from course_lib import plots
from course_lib.hardware import H100
from course_lib.models import MODELS
from course_lib.plots.rows import filled_rows
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
    prefill, step = worker.seconds(2000, 2000 * 2001 // 2, 0, 1), worker.seconds(1, 2001, 2001)
    assert f"takes {1e3 * prefill:.1f} ms, then a token comes every {1e3 * step:.2f} ms" in words
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
    return {"whole": Engine(worker, continuous, slots=4, blocks=worker.blocks(), record="steps").run(users),
            "chunked": chunked(worker, users, budget=512, record="steps")}


def curves() -> tuple:
    found = {"one": [(1, 0.004, 250), (16, 0.005, 3200), (50, 0.008, 6250), (99, 0.012, 8250)]}
    return found, {"one": 50}


BILL = {"busy": {"until the first token": 0.11, "own tokens": 0.5, "others in its steps": 0.2,
                 "others' prompts": 0.4}}
PICTURES |= {
    "a stall": lambda: plots.stall(a_stall(), title="a long prompt")[0],
    "a bill": lambda: plots.bill(BILL, title="one answer", strips={"busy": [(1.0, 1.01), (1.1, 1.11)]})[0],
    "goodput": lambda: plots.goodput_over_rate({"one": {2: 2, 9: 1.5}, "other": {2: 2, 9: 9}}, title="answered well"),
    "promises": lambda: plots.promised_blocks({"all": [(10, 50), (20, 50)], "none": [(9, 9)] * 9}, 100, title="blocks"),
    "batches": lambda: plots.batch_gain(*curves(), title="more for all, slower for each"),
    "latencies": lambda: plots.latencies(engines(), "ttft", limit=1, title="first tokens"),
}


@pytest.mark.parametrize("name", list(PICTURES)[5:])
def test_letters_of_what_users_wait_for_are_large_enough(name):
    test_every_picture_is_legible(name)


def test_a_long_prompt_stops_the_others_and_in_chunks_it_does_not():
    whole, pieces = a_stall().values()
    stopped, slowed = (end - start for start, end in map(plots.longest_gap, (whole, pieces)))
    assert 0.134 < stopped < 0.136 and slowed < 0.011  # the document's 130 ms and the step after it
    words = plots.words_of(plots.stall({"whole": whole, "chunked": pieces}, title="a long prompt")[0].figure)
    assert "slot 0: 135 ms from token to token" in words and "slot 0: never more than 9 ms" in words


def test_a_row_outlines_the_request_to_follow_and_an_end_cuts_both_timelines():
    outlined = [patch for patch in plots.rows_of_steps().patches if patch.get_linewidth() > 1]
    assert [round(patch.get_y()) + 1 for patch in outlined] == [2, 2, 3, 4]
    assert {ax.get_xlim() for ax in plots.stall(a_stall(), title="", begin=0.08, until=0.25)} == {(80, 250)}


def test_slots_are_hatched_while_another_ones_prompt_passes():
    whole, pieces = plots.stall(a_stall(), title="a long prompt")
    (start,) = [event.start for event in a_stall()["whole"].events if event.label == "3" and event.kind == "prefill"]
    hatched = [bar for bar in whole.patches if bar.get_hatch() and bar.get_x() == pytest.approx(1e3 * start)]
    assert {round(bar.get_y() + bar.get_height() / 2) for bar in hatched} == {0, 1, 2}
    assert not [bar for bar in pieces.patches if bar.get_hatch() and bar.get_x() >= 80]


def test_a_bill_tells_its_parts_and_how_many_tokens_came():
    strips = {"busy": [(0.8, 0.81), (0.9, 0.91), (0.95, 0.96), (1.0, 1.01), (1.01, 1.02), (1.1, 1.11), (1.3, 1.31)]}
    words = plots.words_of(plots.bill(BILL, title="one answer", strips=strips)[0].figure)
    assert "own tokens 500 ms, others in its steps 200 ms, others' prompts 400 ms" in words
    assert "busy: 3 tokens in 200 ms" in words


def test_promises_tell_what_is_used_and_what_is_taken():
    words = plots.words_of(plots.promised_blocks({"all": [(10, 50), (20, 50)]}, 100, title="blocks").figure)
    assert "2 requests run, 30% of the cache is used, 100 of 100 blocks are taken" in words


def test_the_goodput_of_a_server_is_named_by_its_most():
    ax = plots.goodput_over_rate({"one": {2: 2, 9: 1.5}, "other": {2: 2, 9: 8.75}}, title="answered well")
    assert {"one: at most 2.0", "other: at most 8.8"} <= {text.get_text() for text in ax.texts}


def test_latencies_tell_the_percentiles_and_the_objective():
    words = plots.words_of(plots.latencies({"one": engines()["static"]}, "ttft", limit=1).figure)
    assert "one: 50% wait at most" in words and "a line at the objective of 1 s" in words and "inf" not in words


# How requests share a step

PICTURES |= {"rows": plots.rows_of_steps, "static": plots.static_batch, "rectangle": plots.rectangle_and_row}


@pytest.mark.parametrize("name", list(PICTURES)[-3:])
def test_letters_of_how_requests_share_a_step_are_large_enough(name):
    test_every_picture_is_legible(name)


def test_rows_hold_the_budget_at_most_and_every_token_of_every_request():
    requests = [(3, 2), (4, 16), (5, 4), (3, 2)] * 3
    rows = filled_rows(requests, budget=8, slots=4)
    assert len(rows) == 25 and all(len(row) <= 8 and len(dict(row)) <= 4 for row in rows)
    for number, (prompt, answer) in enumerate(requests):
        mine = [(step, kind) for step, row in enumerate(rows, start=1) for n, kind in row if n == number]
        kinds = [kind for _, kind in mine]
        assert kinds == ["prompt"] * prompt + ["answer"] * (answer - 1)
        steps = [step for step, kind in mine if kind == "answer"]
        assert steps == list(range(steps[0], steps[0] + answer - 1))  # none without a token


# Chunked prefill


def test_chunked_prefill_makes_all_tokens_within_the_budget():
    served = chunked(Roofline(MODELS["Llama-3-8B"], H100), CROWD[:20], budget=256, record="steps")
    assert [request.made for request in served.requests] == [request.output for request in CROWD[:20]]
    assert all(request.arrival < request.first <= request.end for request in served.requests)
    steps = {event.start for event in served.events}
    assert sum(event.end - event.start for event in {e.start: e for e in served.events}.values()) == pytest.approx(
        served.busy)
    assert len(steps) >= sum(request.prompt for request in CROWD[:20]) / 256


def test_chunked_prefill_runs_no_more_at_once_than_it_has_slots():
    served = chunked(Roofline(MODELS["Llama-3-8B"], H100), CROWD, budget=256, slots=3, record="steps")
    assert {event.rank for event in served.events} == {0, 1, 2}
    spans = {request.id: (min(e.start for e in served.events if e.label == str(request.id)), request.end)
             for request in served.requests[:40]}
    for start, _ in spans.values():
        assert sum(begin <= start < end for begin, end in spans.values()) <= 3


def test_what_is_left_of_a_budget_reads_the_next_prompt():
    served = chunked(Roofline(MODELS["Llama-3-8B"], H100), [Request(n, 0.0, 100, 2) for n in range(4)], budget=256)
    first = [request.first for request in served.requests]
    assert first[0] == first[1] < first[2] == first[3]


def test_a_budget_that_leaves_no_room_for_a_prompt_is_refused():
    with pytest.raises(ValueError, match="must be above the 20 requests"):
        chunked(Roofline(MODELS["Llama-3-8B"], H100), CROWD[:20], budget=20)


def test_a_batch_that_nobody_joins_says_how_many_of_its_places_are_for_nobody():
    words = plots.words_of(plots.static_batch(answers=(2, 5)).figure)
    assert "3 of 10 places" in words and "A: 2 tokens, then 3 steps for nobody" in words


def test_a_rectangle_has_padding_and_the_row_beside_it_has_none():
    ax = plots.rectangle_and_row()
    assert "5 of 12 places are of use" in plots.words_of(ax.figure)
    assert [text.get_text() for text in ax.texts if len(text.get_text()) == 1] == list("EEEBC" + "BCEEE")
