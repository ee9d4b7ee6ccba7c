"""Chapter 8: what unusual classes and schedulers are told, and the numbers in the text are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib import serving
from course_lib.costs import ridge_point
from course_lib.hardware import GPUS
from course_lib.models import MODELS, parameter_count
from exercises_tests import ch08_serving as checks
from exercises_tests.tools.chapters import find
from solutions import ch08_serving as solutions

EXERCISES = (
    "kv_cache_bytes", "generate_with_cache", "decode_lower_bound", "continuous_batches", "adaptive_batches",
    "BlockManager", "SharingBlockManager",
)  # fmt: skip


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def test_the_stubs_of_classes_are_not_written_yet():
    class BlockManager:
        def __init__(self, blocks, size):
            raise NotImplementedError

    class SharingBlockManager(serving.BlockManager):
        def fork(self, parent, child):
            raise NotImplementedError

    for stub in (BlockManager, SharingBlockManager):
        outcome = judged(stub.__name__, stub)
        assert (outcome.code, outcome.sentence, outcome.earned) == ("not-written", "not written yet", 0)


def test_a_class_without_a_method_is_told_which():
    class BlockManager:
        def __init__(self, blocks, size):
            pass

    outcome = judged("BlockManager", BlockManager)
    assert (outcome.code, outcome.earned) == ("raised", 0)
    assert "has no attribute 'allocate'" in outcome.sentence


def test_a_scheduler_that_returns_nothing_is_told_what_to_return():
    outcome = judged("continuous_batches", lambda waiting, running, slots, blocks, block_size: None)
    assert outcome.code == "form" and "return a list" in outcome.sentence


def test_a_scheduler_that_changes_requests_changes_nothing_that_is_judged():
    def cheating(waiting, running, slots, blocks, block_size):
        for request in waiting:
            request.limit = request.prompt = 1
        return solutions.continuous_batches(waiting, running, slots, blocks, block_size)

    assert judged("continuous_batches", cheating).code.startswith("above-")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_check_holds_for_other_seeds(exercise, monkeypatch):
    monkeypatch.setattr(checks, "SEED", 4711)
    outcome = judged(exercise, getattr(solutions, exercise))
    assert (outcome.code, outcome.earned) == ("", outcome.total), str(outcome)


# What the chapter shows on its simulated engine


def test_a_longer_window_buys_tokens_per_second_with_seconds_per_answer():
    """An idle engine that waits for company: both grow with every step, and by more than a half from end to end."""
    worker = serving.Roofline(MODELS["Llama-3-8B"], GPUS["H100 SXM"])
    trace, found = serving.synthetic_trace("chat", 2000, seed=1)[:1000], []
    for window in (0, 2, 4, 6, 8):
        engine = serving.Engine(worker, serving.static_batches, slots=64, blocks=worker.blocks(), window=window)
        served = engine.run(trace)
        found.append((served.percentile("latency", 50), served.tokens / served.busy))
    for values in zip(*found, strict=True):
        assert list(values) == sorted(set(values)) and values[-1] > 1.5 * values[0], values


def test_near_saturation_least_loaded_takes_a_quarter_off_the_p99_of_first_tokens_and_at_half_load_nothing():
    pair = serving.Roofline(MODELS["Llama-3-70B"], GPUS["H200 SXM"], tp=2)
    late = {}
    for rate in (12, 20):
        trace = serving.synthetic_trace("chat", 2000, seed=1, rate=rate)
        for balancer in (serving.round_robin(), serving.least_loaded):
            replicas = [serving.Engine(pair, serving.continuous, slots=64, blocks=pair.blocks()) for _ in range(3)]
            late.setdefault(rate, []).append(serving.serve_fleet(trace, replicas, balancer).percentile("ttft", 99))
    assert late[12][1] == pytest.approx(late[12][0], rel=0.05)
    assert 0.7 < late[20][1] / late[20][0] < 0.8


WORKER = serving.Roofline(MODELS["Llama-3-8B"], GPUS["H100 SXM"])
DAY = {"ttft": 1, "tpot": 0.05}


def a_day(rate, scheduler=serving.continuous):
    engine = serving.Engine(WORKER, scheduler, slots=64, blocks=WORKER.blocks())
    return engine.run(serving.synthetic_trace("chat", 2000, 1, rate))


def a_day_in_chunks(rate, budget=512):
    return serving.chunked(WORKER, serving.synthetic_trace("chat", 2000, 1, rate), budget, slots=64)


def test_the_two_schedulers_fall_over_at_14_and_at_26_requests_a_second():
    answer = sum(request.output for request in serving.synthetic_trace("chat", 2000, 1)) / 2000
    most = [a_day(60, scheduler).throughput / answer for scheduler in (serving.static_batches, serving.continuous)]
    assert [round(rate) for rate in most] == [14, 26] and f"{most[1] / most[0]:.1f}" == "1.9"
    assert a_day(24).percentile("ttft", 50) < 0.1 and a_day(30).goodput(**DAY) < 3
    static = {rate: a_day(rate, serving.static_batches).goodput(**DAY) for rate in (5, 10, 20)}
    assert max(static.values()) < 3 and static[10] == pytest.approx(10 / 6, rel=0.05)
    assert a_day(20).goodput(**DAY) > 100 * static[20]


def test_in_chunks_the_cliff_lies_beyond_40_requests_a_second_and_512_is_the_best_budget_at_30():
    assert a_day_in_chunks(40).goodput(**DAY) > 38
    late = {budget: [1e3 * a_day_in_chunks(30, budget).percentile(name, 99) for name in ("ttft", "tpot")]
            for budget in (256, 512, 1024, 2048)}
    assert [round(value, 1) for value in late[512]] == [191.7, 7.6]
    assert late[256][0] == pytest.approx(1500, rel=0.02) and late[1024][1] == pytest.approx(13, rel=0.02)
    assert min(late, key=lambda budget: late[budget][0]) == 512 and late[1024][0] > late[512][0]


def test_the_bill_of_an_ordinary_user():
    whole, chunks = a_day(24), a_day_in_chunks(24)
    ordinary = [r for r in whole.requests if 900 < r.prompt < 1100 and 120 < r.output < 140]
    user = sorted(ordinary, key=lambda request: request.latency)[len(ordinary) // 2]
    assert [round(1e3 * one.requests[user.id].tpot, 1) for one in (whole, chunks)] == [13.0, 6.8]
    crowd = serving.synthetic_trace("chat", 2000, 1, 20)
    mean = sum(WORKER.prefill(request, [])[0] for request in crowd) / len(crowd)
    assert round(1e3 * mean, 1) == 17.5


def test_with_promises_6_requests_fill_the_cache_and_on_demand_23():
    careless, running, ends = serving.synthetic_trace("chat", 1000, seed=1, rate=20, limit=4096), [], []
    for scheduler in (serving.continuous, serving.on_demand):
        engine = serving.Engine(WORKER, scheduler, slots=256, blocks=2000)
        for request in careless:
            engine.submit(replace(request))
        engine.advance(until=20)
        running.append(len(engine.running))
        engine.advance()
        ends.append(engine.served())
    assert running == [6, 23]
    assert sum(request.preempted for request in ends[1].requests) == 130
    assert f"{ends[1].throughput / ends[0].throughput:.1f}" == "2.5"


# The numbers that the text states


def text_of_the_chapter() -> str:
    return "\n".join(cell.source for cell in find("ch08_serving").notebook.cells if cell.cell_type == "markdown")


def test_numbers_in_the_text_and_in_the_paper_problems_are_right():
    llama, h100, text = MODELS["Llama-3-8B"], GPUS["H100 SXM"], text_of_the_chapter()
    small, large = (solutions.kv_cache_bytes(MODELS[name], 1) for name in ("Llama-3-8B", "Llama-2-7B"))
    kept = solutions.kv_cache_bytes(llama, 8000)
    read = parameter_count(llama) - llama.vocabulary * llama.hidden
    scores = 4 * llama.layers * llama.hidden * 8000
    intensity = (2 * read + scores) / kept
    assert f"Llama-3-8B must come out at {small:,} bytes a token" in text
    assert f"Llama-2-7B keeps {large:,} bytes a token, Llama-3-8B {small:,}" in text
    assert f"a factor of {large // small}." in text
    assert f"from about {ridge_point(h100):.0f} sequences on" in text
    assert f"The weights, {2 * read / 1e9:.0f} GB, are read once for everybody" in text
    assert f"reads {kept / 1e9:.2f} GB of keys and values" in text
    assert f"2 · {read / 1e9:.1f} billion FLOPs" in text
    assert f"= {scores / 1e9:.1f} billion: {intensity:.0f} FLOPs per byte" in text
    promised, used = (serving.blocks_for(1000 + tokens, 16) for tokens in (4096, 130))
    assert f"books {promised} blocks and fills {used}" in text
    document = WORKER.prefill(serving.Request(0, 0.0, 8000, 1), [])[0]
    assert f"keeps the GPU for {1e3 * document:.0f} ms" in text
    assert f"which must read {2 * (parameter_count(MODELS['Llama-3-70B']) - 128256 * 8192) / 1e9:.0f} GB" in text
