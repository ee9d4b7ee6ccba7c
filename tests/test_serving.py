"""The serving library: traces, blocks, engines on the virtual clock, a real model behind the same engine, a fleet."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.hardware import GPUS
from course_lib.llama import tiny_llama
from course_lib.models import MODELS
from course_lib.plots import latencies, timeline
from course_lib.serving import (
    BlockManager,
    Engine,
    Fitted,
    PaddedEngine,
    Request,
    Roofline,
    Served,
    bench,
    blocks_for,
    chunked,
    continuous,
    least_loaded,
    on_demand,
    round_robin,
    serve_fleet,
    static_batches,
    synthetic_trace,
    table,
    workers,
)  # fmt: skip
from course_lib.serving.workers import ModelWorker, PaddedModel

H100, LLAMA = GPUS["H100 SXM"], MODELS["Llama-3-8B"]
SCHEDULERS = [static_batches, continuous, on_demand]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices are slow, and erratic, on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Steady:
    """A worker for which a prompt takes 10 s and a token 1 s, whatever the batch."""

    simulated = True

    def prefill(self, request, table):
        return 10.0, False

    def decode(self, running, held, tables):
        return 1.0, ()


def engine(scheduler=continuous, **settings) -> Engine:
    return Engine(Steady(), scheduler, **{"slots": 2, "blocks": 100, "block_size": 4} | settings)


# Traces


@pytest.mark.parametrize(("kind", "rate", "cv", "prompt", "output"), [
    ("chat", 5.53, 1.09, (1020, 4142), (129, 601)), ("code", 2.45, 13.2, (1469, 7436), (13, 252)),
])  # fmt: skip
def test_a_trace_has_the_statistics_of_the_real_one(kind, rate, cv, prompt, output):
    trace = synthetic_trace(kind, 60_000, context=100_000)
    gaps = np.diff([request.arrival for request in trace])
    assert 1 / gaps.mean() == pytest.approx(rate, rel=0.1)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.15)
    for part, published in (("prompt", prompt), ("output", output)):
        lengths = [getattr(request, part) for request in trace]
        assert np.percentile(lengths, [50, 99]) == pytest.approx(published, rel=0.05)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    assert synthetic_trace("chat", 50, seed=3) == synthetic_trace("chat", 50, seed=3)
    assert synthetic_trace("chat", 50, seed=3) != synthetic_trace("chat", 50, seed=4)


def test_an_unknown_kind_of_trace_is_refused():
    with pytest.raises(ValueError, match="kind = 'poem': must be one of 'chat', 'code'"):
        synthetic_trace("poem", 1)


# Blocks

OPERATIONS = st.lists(st.tuples(st.sampled_from(["allocate", "append", "free"]), st.integers(0, 5), st.integers(1, 20)))


@given(OPERATIONS, st.integers(1, 12), st.integers(1, 5))
def test_no_block_leaks_none_is_given_twice_and_less_than_one_is_wasted(operations, blocks, size):
    manager, tokens = BlockManager(blocks, size), {}
    for name, request, count in operations:
        spare = blocks - sum(blocks_for(total, size) for total in tokens.values())
        if name == "allocate" and request not in tokens:
            fits = blocks_for(count, size) <= spare
            assert (manager.allocate(request, count) is not None) == fits
            tokens |= {request: count} if fits else {}
        elif name == "append" and request in tokens:
            more = blocks_for(tokens[request] + count, size) - blocks_for(tokens[request], size)
            assert (manager.append(request, count) is not None) == (more <= spare)
            tokens[request] += count if more <= spare else 0
        elif name == "free" and request in tokens:
            manager.free(request)
            del tokens[request]
        owned = [block for table in manager.tables.values() for block in table]
        assert sorted(owned + manager.spare) == list(range(blocks))
        assert {r: len(manager.tables[r]) for r in manager.tables} == {r: blocks_for(tokens[r], size) for r in tokens}


# The engine on the virtual clock


def test_continuous_batching_fills_a_slot_as_soon_as_it_is_free():
    served = engine().run([Request(0, 0, 4, 3), Request(1, 0, 4, 11), Request(2, 0, 4, 2)])
    # prompts 0 and 1 until 20; request 0 ends after two steps at 22; prompt 2 until 32, then one step
    assert [request.first for request in served.requests] == [10, 20, 32]
    assert [request.end for request in served.requests] == [22, 40, 33]


def test_static_batching_waits_for_the_longest():
    served = engine(static_batches).run([Request(0, 0, 4, 3), Request(1, 0, 4, 11), Request(2, 0, 4, 2)])
    assert [request.end for request in served.requests] == [22, 30, 41]


def test_a_window_lets_an_idle_engine_wait_for_a_full_batch():
    late = [Request(number, arrival, 4, 1) for number, arrival in enumerate((0, 3, 100, 150, 400))]
    served = engine(static_batches, window=20).run(late)
    # full at 3; then the timer at 120 and at 170; the last one does not wait: nobody comes after it
    assert [request.first for request in served.requests] == [13, 23, 130, 180, 410]


def test_an_idle_engine_jumps_to_the_next_arrival():
    served = engine().run([Request(0, 1000, 4, 1), Request(1, 5000, 4, 1)])
    assert (served.seconds, served.busy) == (5010, 20)


def test_metrics_are_those_of_vllms_benchmark():
    served = engine(slots=1).run([Request(0, 0, 4, 6), Request(1, 5, 4, 1)])
    first, second = served.requests
    assert (first.ttft, first.latency, first.tpot) == (10, 15, 1)
    assert (second.ttft, second.latency, second.tpot) == (20, 20, 0)
    assert served.throughput == 7 / 25
    assert served.goodput(ttft=10) == 1 / 25
    assert served.goodput(ttft=20, tpot=1) == 2 / 25
    assert served.goodput(ttft=20, tpot=0.5) == 1 / 25
    assert (first.gap, second.gap) == (1, 0) and served.goodput(gap=0.5) == 1 / 25
    assert "2 requests answered: 7 tokens in 25.0 s, 0.3 tokens/s" in str(served)
    with pytest.raises(ValueError, match="objectives are ttft, tpot, gap and latency"):
        served.goodput(speed=1)


@pytest.mark.parametrize("record", ["steps", False])
@pytest.mark.parametrize("budget", [0, 8])
def test_the_longest_gap_is_that_between_two_recorded_tokens(budget, record):
    asked = [Request(0, 0, 4, 9), Request(1, 6, 30, 3), Request(2, 6, 30, 3), Request(3, 7, 4, 20)]
    worker = Roofline(LLAMA, H100)
    if budget:
        kept, served = (chunked(worker, asked, budget, 4, how) for how in ("steps", record))
    else:
        kept, served = (Engine(worker, continuous, slots=4, blocks=100, record=how).run(asked)
                        for how in ("steps", record))  # fmt: skip
    for request in served.requests:
        tokens = [request.first, *(event.end for event in kept.events if event.kind == "decode"
                                   and event.label == str(request.id) and event.end > request.first)]  # fmt: skip
        assert len(tokens) == request.output
        assert request.gap == pytest.approx(max(map(float.__sub__, tokens[1:], tokens)))


def test_a_gap_spans_a_preemption():
    served = engine(scheduler=on_demand, slots=4, blocks=6).run([Request(n, 0, 4, 12) for n in range(3)])
    again = [request for request in served.requests if request.preempted]
    assert again and all(request.gap > 1 for request in again)  # a step takes one second, a prompt more
    assert min(request.gap for request in served.requests) >= 1


def test_a_prompt_longer_than_the_context_is_refused_with_the_numbers():
    (request,) = engine(context=100).run([Request(0, 0, 101, 5)]).requests
    assert request.state == "refused"
    assert request.reason == "the prompt has 101 tokens, and prompt and answer together may have 100"


def test_an_answer_is_cut_at_the_context_and_says_so():
    (request,) = engine(context=100).run([Request(0, 0, 97, 50)]).requests
    assert (request.state, request.made, request.reason) == ("done", 3, "cut at the context of 100 tokens")


def test_an_empty_prompt_is_refused():
    (request,) = engine().run([Request(0, 0, 0, 5)]).requests
    assert (request.state, request.reason) == ("refused", "the prompt is empty")


def test_zero_tokens_are_answered_at_once_with_nothing():
    served = engine().run([Request(0, 3, 10, 0), Request(1, 4, 10_000, 7, limit=0)])
    assert [(r.state, r.made, r.latency) for r in served.requests] == [("done", 0, 0), ("done", 0, 0)]
    assert str(served).startswith("2 requests answered: 0 tokens")


def test_a_block_budget_too_small_for_one_request_refuses_it_and_serves_the_others():
    served = engine(blocks=5).run([Request(0, 0, 16, 5), Request(1, 0, 16, 4)])
    assert [request.state for request in served.requests] == ["refused", "done"]
    assert served.requests[0].reason == "it may need 6 blocks of 4 tokens; the cache has 5"


@pytest.mark.parametrize(("cancel", "made"), [(5, 0), (13.5, 5), (0, 0)])
def test_a_request_cancelled_waiting_or_in_the_middle_frees_its_place(cancel, made):
    here = engine(slots=1)
    served = here.run([Request(0, 0, 4, 50, cancel=cancel), Request(1, 0, 4, 2)])
    gone, other = served.requests
    assert (gone.state, gone.reason, other.state) == ("cancelled", "its user went away", "done")
    assert gone.made == made or cancel == 5
    assert len(here.manager.spare) == 100
    assert served.tokens == 2


def test_a_request_that_waits_can_be_cancelled():
    served = engine(slots=1).run([Request(0, 0, 4, 50), Request(1, 0, 4, 2, cancel=20)])
    assert [(r.state, r.made, r.end) for r in served.requests] == [("done", 50, 59), ("cancelled", 0, 20)]


def test_when_blocks_run_out_the_youngest_is_computed_again():
    here = engine(on_demand, blocks=6)
    served = here.run([Request(0, 0, 8, 10), Request(1, 0, 8, 10)])
    assert [(r.state, r.made, r.preempted) for r in served.requests] == [("done", 10, 0), ("done", 10, 1)]
    assert len(here.manager.spare) == 6


def test_a_scheduler_that_starts_too_many_is_named():
    with pytest.raises(ValueError, match="starts 3 beside 0 that run, and there are 2 slots"):
        engine(lambda waiting, *rest: list(waiting)).run([Request(n, 0, 4, 3) for n in range(3)])


def test_a_scheduler_that_starts_nobody_is_named():
    with pytest.raises(ValueError, match="starts nobody, though nobody runs and request 0 waits"):
        engine(lambda *view: []).run([Request(0, 0, 4, 3)])


def test_a_scheduler_above_the_block_budget_is_named():
    with pytest.raises(ValueError, match="request 1 is started, and too few of the 4 blocks are left"):
        engine(lambda waiting, *rest: list(waiting), blocks=4).run([Request(n, 0, 12, 3) for n in range(2)])


SMALL = st.integers(0, 40)
REQUESTS = st.lists(st.tuples(st.floats(0, 50), SMALL, SMALL, SMALL, st.none() | st.floats(0, 99)), max_size=25)


@settings(max_examples=150)
@given(REQUESTS, st.sampled_from(SCHEDULERS), st.integers(1, 5), st.integers(1, 30), st.sampled_from([0.0, 7.0]))
def test_every_request_ends_with_its_tokens_or_a_reason_and_no_block_is_lost(drawn, scheduler, slots, blocks, window):
    here = engine(scheduler, slots=slots, blocks=blocks, context=50, window=window, record=True)
    most, decode = [0], here.worker.decode

    def watching(running, held, tables):
        most[0] = max(most[0], len(running))
        assert held == sum(r.prompt + here._made(r) - 1 for r in running)
        assert all(len(tables[r.id]) * 4 >= r.prompt + here._made(r) for r in running)
        assert sum(map(len, tables.values())) <= blocks
        return decode(running, held, tables)

    here.worker.decode = watching
    served = here.run(
        Request(n, a, p, o, limit, math.inf if c is None else a + c) for n, (a, p, o, limit, c) in enumerate(drawn)
    )
    assert len(served.requests) == len(drawn) and here.load == 0 and most[0] <= slots
    assert sorted(here.manager.spare) == list(range(blocks)) and here.manager.tables == {}
    for request in served.requests:
        assert request.state in ("done", "refused", "cancelled")
        if request.state == "done":
            assert request.made == min(request.output, request.limit, max(50 - request.prompt, 0))
        else:
            assert request.reason
    for slot in range(slots):  # a slot serves one request at a time
        spans = sorted((event.start, event.end) for event in served.events if event.rank == slot)
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))


def test_100_000_requests_are_simulated_within_30_seconds_of_one_core_and_repeatably():
    worker, trace = Roofline(LLAMA, H100), synthetic_trace("chat", 100_000, rate=12)

    def serve():
        return Engine(worker, continuous, slots=64, blocks=worker.blocks()).run(trace)

    begin = time.process_time()
    served = serve()
    assert time.process_time() - begin <= 30
    assert len(served.done) == 100_000
    few = trace[:5000]
    again = [Engine(worker, continuous, slots=64, blocks=worker.blocks()).run(few).row() for _ in range(2)]
    assert again[0] == again[1]


def test_continuous_batching_beats_static_in_throughput_and_p99_under_load():
    worker, trace = Roofline(LLAMA, H100), synthetic_trace("chat", 2000, seed=1, rate=20)
    both = (static_batches, continuous)
    static, better = (Engine(worker, one, slots=64, blocks=worker.blocks()).run(trace) for one in both)
    assert better.throughput > 1.3 * static.throughput
    assert better.percentile("latency", 99) < static.percentile("latency", 99) / 2


def test_events_are_bars_of_what_a_slot_did_without_a_pause():
    served = engine(record=True).run([Request(0, 0, 4, 3), Request(1, 0, 4, 11), Request(2, 0, 4, 2)])
    bars = [(event.rank, event.kind, event.label, event.start, event.end) for event in served.events]
    assert bars == [
        (0, "prefill", "0", 0, 10), (1, "prefill", "1", 10, 20), (0, "decode", "0", 20, 22), (1, "decode", "1", 20, 22),
        (0, "prefill", "2", 22, 32), (1, "decode", "1", 32, 40), (0, "decode", "2", 32, 33),
    ]  # fmt: skip
    ax = timeline(served, row="slot")
    assert ax.get_ylabel() == "slot" and ax.get_title(loc="left") == "simulated: 2 slots, 40 s"


def test_steps_can_be_recorded_one_by_one():
    requests = [Request(0, 0, 4, 3), Request(1, 0, 4, 5)]
    joined, apart = (engine(record=record).run(requests).events for record in (True, "steps"))
    decode = [event for event in apart if event.kind == "decode" and event.label == "1"]
    assert len(decode) == 4 and len([e for e in joined if e.kind == "decode" and e.label == "1"]) < 4
    assert max(event.end for event in apart) == max(event.end for event in joined)


def test_of_a_prompt_only_the_last_token_needs_logits():
    worker = Roofline(LLAMA, H100)
    every, last = (worker.seconds(2000, 0, 0, scored) for scored in (None, 1))
    logits = 2 * LLAMA.vocabulary * LLAMA.hidden * 1999 / H100.peak("bf16")
    assert every - last == pytest.approx(logits)
    assert worker.prefill(Request(0, 0, 2000, 1), [])[0] == worker.seconds(2000, 2000 * 2001 // 2, 0, 1)


def test_a_picture_of_latencies_names_its_axes():
    served = engine().run([Request(n, 0, 4, 3 + n) for n in range(5)])
    ax = latencies({"one": served, "other": served}, "ttft")
    assert ax.get_xlabel() == "time to the first token in seconds (logarithmic)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "other"]
    plt.close("all")


# Costs


def test_a_decode_step_reads_the_weights_and_the_cache():
    worker = Roofline(LLAMA, H100)
    read = 2 * (8_030_261_248 - 128256 * 4096)
    assert worker.seconds(1, 1, 0) == pytest.approx((read + 131_072) / 3.35e12)
    assert worker.seconds(8, 8000, 8000) == pytest.approx((read + 8008 * 131_072) / 3.35e12)


def test_a_long_prompt_is_bound_by_compute():
    worker = Roofline(LLAMA, H100)
    flops = 2000 * 2 * (8_030_261_248 - 128256 * 4096) + 2001 * 1000 * 2 * 32 * 32 * 256
    assert worker.seconds(2000, 2001 * 1000, 0) == pytest.approx(flops / 989e12)


def test_two_gpus_halve_what_is_read_and_pay_for_all_reduces():
    one, two = Roofline(LLAMA, H100), Roofline(LLAMA, H100, tp=2)
    assert one.seconds(1, 1000, 1000) / 2 < two.seconds(1, 1000, 1000) < one.seconds(1, 1000, 1000)
    assert two.blocks() > 2 * one.blocks()


def test_a_model_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="Llama-3-70B on 1 x H100 SXM: no room for keys and values"):
        Roofline(MODELS["Llama-3-70B"], H100).blocks()


def test_a_fitted_worker_goes_through_what_was_measured_and_between():
    worker = Fitted({10: 1.1, 100: 2.0}, {1: 5.0, 2: 8.0, 8: 9.2})
    assert [worker.prefill(Request(0, 0, n, 1), [])[0] for n in (10, 50, 200)] == pytest.approx([1.1, 1.5, 3.0])
    assert [worker.decode([None] * n, 0, {})[0] for n in (1, 2, 5, 8)] == pytest.approx([5.0, 8.0, 8.6, 9.2])


def test_a_table_has_a_line_for_each_engine_and_names_the_objectives():
    served = engine(slots=1).run([Request(0, 0, 4, 6), Request(1, 5, 4, 1)])
    lines = table({"one": served}, ttft=10).splitlines()
    assert len(lines) == 3 and lines[1].startswith("one") and lines[1].endswith("0.04")
    assert lines[2] == "good: ttft <= 10 s; requests per second"


# A real model behind the same engine


def real_requests() -> list[Request]:
    prompts = [list(f"request {n} ".encode()) * (1 + n % 3) for n in range(7)]
    return [Request(n, 0.0, len(p), 3 + 5 * n, tokens=p) for n, p in enumerate(prompts)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("blocks", [14, 100])
def test_a_real_model_gives_the_same_tokens_alone_batched_paged_and_preempted(scheduler, blocks):
    model, requests = tiny_llama(), real_requests()
    want = {}
    for request in requests:
        tokens = list(request.tokens)
        for _ in range(request.output):
            tokens.append(model(torch.tensor([tokens]), last=True)[0, -1].argmax().item())
        want[request.id] = tokens[request.prompt :]
    worker, come = ModelWorker(model, blocks, 8), []
    worker.on_token = lambda number, token: come.append((number, token))
    served = Engine(worker, scheduler, slots=3, blocks=blocks, block_size=8, context=512).run(requests)
    assert worker.answers == want
    assert {n: [token for number, token in come if number == n] for n in want} == want
    assert not served.simulated and served.tokens == sum(request.output for request in requests)
    if scheduler is on_demand and blocks == 14:
        assert sum(request.preempted for request in served.requests) > 0


class Clocked:
    """A model whose calls take 40 ms and more for each sequence and token, on a machine whose speed comes and goes."""

    def __init__(self):
        self.model, self.seconds, self.calls = tiny_llama(), 0.0, 0

    def __call__(self, tokens, *rest, **named):
        self.calls += 1
        speed = 1 + 0.3 * math.sin(self.calls / 40) + 0.05 * math.sin(7 * self.calls)
        self.seconds += (0.04 + 0.004 * len(tokens) + 0.001 * tokens.numel()) / speed
        return self.model(tokens, *rest, **named)

    def __getattr__(self, name):
        return getattr(self.model, name)


@pytest.fixture
def clocked(monkeypatch):
    model = Clocked()
    for module in (bench, workers):
        monkeypatch.setattr(module, "now", lambda: model.seconds)
    return model


def twenty_requests() -> list[Request]:
    """The lengths of chapter 8."""
    return [Request(n, 0.0, 3 + n % 3, [3, 24, 5, 4][n % 4], tokens=[5 * n + i for i in range(3 + n % 3)])
            for n in range(20)]


def test_six_measured_iterations_predict_the_gain_of_continuous_batching_within_10_percent(clocked):
    requests = twenty_requests()
    both = bench.serve_in_turns(clocked, requests, {"static": static_batches, "continuous": continuous})
    static, better = (served for served, _ in both.values())
    fitted = Fitted(*bench.iteration_seconds(clocked, prefill=(3, 8), decode=(1, 2, 4, 8), context=16))
    rates = [Engine(fitted, one, slots=8, blocks=32).run(requests).throughput for one in (static_batches, continuous)]
    seen = better.throughput / static.throughput
    assert seen > 1.3
    assert rates[1] / rates[0] == pytest.approx(seen, rel=0.1)


def test_engines_that_take_turns_serve_as_each_alone(clocked):
    requests = twenty_requests()
    together = bench.serve_in_turns(clocked, requests, {"static": static_batches, "continuous": continuous})
    for scheduler, (served, answers) in zip((static_batches, continuous), together.values(), strict=True):
        alone, alone_answers = bench.serve_for_real(clocked, requests, scheduler)
        assert answers == alone_answers and len(answers) == 20
        assert [r.made for r in served.requests] == [r.made for r in alone.requests] == [r.output for r in requests]
        assert [(e.rank, e.kind, e.label) for e in served.events] == [(e.rank, e.kind, e.label) for e in alone.events]
    assert all(request.state == "new" for request in requests)


def test_what_is_measured_has_a_number_for_each_length_and_batch(clocked):
    prefill, decode = bench.iteration_seconds(clocked, prefill=(3, 8), decode=(1, 4), context=16)
    assert list(prefill) == [3, 8] and list(decode) == [1, 4]
    assert bench.prefill_seconds(clocked, 200) > bench.prefill_seconds(clocked, 1) > 0
    assert bench.decode_seconds(clocked, 8, 64) > bench.decode_seconds(clocked, 1, 8) > 0


def test_an_answer_ends_with_the_stop_token():
    model, (request, *_) = tiny_llama(), real_requests()
    free = ModelWorker(model, 50)
    asked = [Request(0, 0.0, request.prompt, 20, tokens=request.tokens)]
    Engine(free, continuous, slots=1, blocks=50).run(asked)
    stop = free.answers[0][7]
    worker = ModelWorker(model, 50, stop=stop)
    served = Engine(worker, continuous, slots=1, blocks=50).run(asked)
    assert worker.answers[0] == free.answers[0][: free.answers[0].index(stop)]
    assert served.requests[0].state == "done"


# A fleet


def test_round_robin_takes_turns_and_least_loaded_takes_the_idle_one():
    requests = [Request(0, 0, 4, 100), Request(1, 1, 4, 1), Request(2, 50, 4, 1), Request(3, 51, 4, 1)]
    turns = serve_fleet(requests, [engine(slots=1) for _ in range(2)], round_robin())
    loads = serve_fleet(requests, [engine(slots=1) for _ in range(2)], least_loaded)
    assert [request.replica for request in turns.requests] == [0, 1, 0, 1]
    assert [request.replica for request in loads.requests] == [0, 1, 1, 1]
    assert loads.percentile("latency", 99) < turns.percentile("latency", 99)
    assert len(loads.done) == 4 and loads.slots == 2


def test_a_fleet_of_one_serves_as_the_engine_alone():
    worker, trace = Roofline(LLAMA, H100), synthetic_trace("chat", 300, seed=5)
    alone = Engine(worker, continuous, slots=16, blocks=500).run(trace)
    fleet = serve_fleet(trace, [Engine(worker, continuous, slots=16, blocks=500)], round_robin())
    assert fleet.row() == alone.row()


def test_rows_of_the_real_model_give_every_request_the_tokens_that_it_gets_elsewhere():
    model = tiny_llama(seed=3)
    requests = [Request(n, 0.0, 3 + n % 4, 2 + 3 * (n % 3), tokens=[7 * n + i for i in range(3 + n % 4)])
                for n in range(7)]
    ways = {"continuous": continuous, "padded": PaddedEngine}
    found = bench.serve_in_turns(model, requests, ways, slots=3, budget=5)
    (_, answers), (rows, same), (padded, too) = found["continuous"], found["in chunks"], found["padded"]
    batches = [requests[n : n + 3] for n in (0, 3, 6)]
    assert too == answers and padded.passes == sum(max(r.output for r in batch) for batch in batches)
    assert same == answers and [request.made for request in rows.requests] == [request.output for request in requests]
    assert not rows.simulated and rows.passes < found["continuous"][0].passes
    assert all(before.end <= after.start for slot in range(3)  # a bar for each stretch without a pause
               for before, after in pairwise([e for e in rows.events if e.rank == slot]))


def test_a_rectangle_is_as_wide_as_its_widest_line_and_keeps_the_lines_of_those_who_are_done():
    long, short = requests = [Request(0, 0.0, 5, 4, tokens=[1, 2, 3, 4, 5]), Request(1, 0.0, 2, 1, tokens=[6, 7])]
    worker = PaddedModel(tiny_llama(seed=3))
    assert PaddedEngine(worker, requests, slots=2).run().passes == 4
    assert worker.padded == (long.prompt - short.prompt) + 3 and [len(worker.answers[n]) for n in (0, 1)] == [4, 1]


def test_what_a_server_carries_leaves_out_its_beginning_and_its_end():
    requests = [Request(n, 0.0, 1, 1) for n in range(8)]
    for request, end in zip(requests, (5, 10, 11, 12, 13, 14, 15, 99), strict=True):
        request.state, request.made, request.first, request.end = "done", 1, end, end
    served = Served(requests, 99.0, 99.0, 1, [])
    assert served.carried == 1.0
    assert served.share(ttft=12) == 0.5 and served.goodput(ttft=12) == 4 / 99
    assert Served([], 0.0, 0.0, 1, []).carried == Served([], 0.0, 0.0, 1, []).share(ttft=1) == 0.0
