"""Chapter 8: what unusual classes and schedulers are told, and the numbers in the text are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib import serving
from course_lib.costs import ridge_point
from course_lib.hardware import GPUS
from course_lib.memory import kv_cache_bytes
from course_lib.models import MODELS, parameter_count, parameters_by_part
from course_lib.serving import answer_bill
from course_lib.serving.traffic import arrivals, traffic
from exercises_tests import ch08_serving as checks
from exercises_tests.tools.chapters import find
from solutions import ch08_serving as solutions

EXERCISES = (
    "kv_cache_bytes", "generate_with_cache", "decode_lower_bound", "fill_row", "continuous_batches",
    "adaptive_batches", "BlockManager", "SharingBlockManager",
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


def test_a_scheduler_that_changes_requests_is_told_so():
    def cheating(waiting, running, slots, blocks, block_size):
        for request in waiting:
            request.limit = request.prompt = 1
        return solutions.continuous_batches(waiting, running, slots, blocks, block_size)

    assert judged("continuous_batches", cheating).code == "changes-requests"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_check_holds_for_other_seeds(exercise, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "4711")
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
PROMISE = {"ttft": 1, "gap": 0.05}


CHUNKS = 512


def good(way, rate, slots=256) -> float:
    return rate * traffic(way, rate, slots).share(**PROMISE)


def test_how_many_requests_each_server_finishes_in_a_flood():
    carried = [round(traffic(way, 60).carried) for way in (serving.static_batches, serving.continuous, CHUNKS)]
    assert carried == [24, 35, 37]
    text = text_of_the_chapter()
    assert "the server with whole prompts finishes 35 a second" in text
    crowd = arrivals(10)
    assert len(crowd) / crowd[-1].arrival == pytest.approx(10)
    prompts = [WORKER.prefill(request, [])[0] for request in crowd]
    answers = [(r.output - 1) * WORKER.token_flops + sum(range(r.prompt + 1, r.prompt + r.output)) * WORKER.score_flops
              for r in crowd]
    each = [sum(values) / len(crowd) for values in (prompts, [flops / WORKER.gpu.bf16 for flops in answers])]
    tokens = sum(request.prompt + request.output for request in crowd) / len(crowd)
    lengths = [sum(getattr(request, name) for request in crowd) / len(crowd) for name in ("prompt", "output")]
    assert f"a prompt of {lengths[0]:,.0f} tokens and an answer of {lengths[1]:.0f}, because" in text
    assert f"So {100 * each[0] / sum(each):.0f} % of the server's arithmetic is prefill" in text
    cells = "\n".join(cell.source for cell in find("ch08_serving").notebook.cells)
    assert f"about {round(16 * WORKER.blocks() / tokens, -1):.0f} average requests would fit" in cells


def test_in_chunks_the_server_has_hardly_more_throughput_than_with_whole_prompts_and_seven_times_the_goodput():
    static, whole = serving.static_batches, serving.continuous
    assert 1 < traffic(CHUNKS, 60).carried / traffic(whole, 60).carried < 1.05
    best = [max(good(way, rate) for rate in rates)
            for way, rates in ((static, (2, 4, 6, 10)), (whole, (6, 10, 15)), (CHUNKS, (34, 36, 38)))]
    assert [f"{most:.2g}" for most in best] == ["1.6", "5", "35"] and best[2] / best[1] == pytest.approx(7, abs=0.1)
    for gap, kept, rates in ((0.1, 10, (10, 15)), (0.2, 18, (15, 20, 25))):
        most = max(rate * traffic(whole, rate).share(ttft=1, gap=gap) for rate in rates)
        assert f"{most:.0f}" == str(kept) and f"at most {kept}" in text_of_the_chapter()
        assert 36 * traffic(CHUNKS, 36).share(ttft=1, gap=gap) == pytest.approx(best[2], abs=0.1)
    assert good(CHUNKS, 34) > 33.9 and good(CHUNKS, 36) == best[2]
    assert good(static, 4) == best[0] and good(whole, 10) == best[1]
    asked = traffic(whole, 10)
    assert max(asked.values("ttft")) < 1 and asked.share(gap=0.05) == pytest.approx(0.5, abs=0.01)  # freezes alone
    crowd = arrivals(10)
    prompt = sum(WORKER.prefill(request, [])[0] for request in crowd) / len(crowd)
    assert f"An average prompt takes {1e3 * prompt:.0f} ms" in text_of_the_chapter()


def test_prompts_hide_behind_reading_of_weights_but_not_of_the_cache():
    whole = WORKER.seconds(64, 64000, 64000)
    assert WORKER.seconds(64 + 200, 64000 + 20100, 64000, 65) == pytest.approx(whole, rel=0.01)  # weights take longer
    prompt = WORKER.seconds(2000, 2000 * 2001 // 2, 0, 1)
    both = WORKER.seconds(2000 + 64, 2000 * 2001 // 2 + 64000, 64000, 65)
    assert both > prompt + 0.5 * (whole - WORKER.seconds(64, 0, 0))  # reading the cache is added


def test_a_small_budget_is_best_for_tpot_and_a_large_one_for_the_first_token():
    late = {budget: [1e3 * traffic(budget, 30).percentile(name, 99) for name in ("ttft", "tpot", "gap")]
            for budget in (512, 1024, 2048, 8192)}
    assert [round(tpot, 1) for _, tpot, _ in late.values()] == [10.5, 17.6, 23.7, 25.4]
    assert [int(ttft) for ttft, _, _ in late.values()] == [478, 275, 206, 197] and int(late[8192][2]) == 122


def test_a_budget_of_8192_breaks_the_promise_and_one_of_2048_keeps_it():
    budgets = (CHUNKS, 2048, 8192)
    kept = {budget: [traffic(budget, rate).share(**PROMISE) for rate in (10, 20, 30)] for budget in budgets}
    assert kept[CHUNKS] == kept[2048] == [1, 1, 1] and [f"{share:.0%}" for share in kept[8192]] == ["74%", "46%", "9%"]
    limit = 0.05 / (WORKER.token_flops / WORKER.gpu.bf16)
    assert limit == pytest.approx(3300, rel=0.02) and f"{1e6 * 0.05 / limit:.0f}" == "15"
    assert traffic(3300, 30).share(**PROMISE) < 0.5  # "stay well below"
    assert all(request.limit == request.output for request in arrivals(10))  # "no booked block stays empty"


def test_the_bill_of_an_ordinary_user():
    whole, chunks = (traffic(way, 25, record="steps") for way in (serving.continuous, CHUNKS))
    user = answer_bill.ordinary(whole.requests, (900, 1100), (120, 140))
    assert [round(1e3 * one.requests[user.id].tpot, 1) for one in (whole, chunks)] == [12.4, 6.7]
    assert [round(answer_bill.company(one, user.id)) for one in (whole, chunks)] == [35, 21]
    bills = [answer_bill.spent(one, user.id, 0.575) for one in (whole, chunks)]
    assert sum(bills[0].values()) == pytest.approx(user.latency) and bills[1]["others' prompts"] == pytest.approx(0)
    assert round(100 * bills[0]["others' prompts"] / user.latency) == 46
    assert [round(1e3 * bill["others in its steps"]) for bill in bills] == [231, 272]
    assert [round(1e3 * one.requests[user.id].gap) for one in (whole, chunks)] == [147, 9]
    assert [round(1e3 * one.requests[user.id].ttft) for one in (whole, chunks)] == [86, 115]
    text, freeze = text_of_the_chapter(), bills[0]["others' prompts"]
    assert f"**In chunks the freezes are gone**, {1e3 * freeze:.0f} ms of them" in text
    assert "grows only from 231 to 272 ms" in text
    row = sum(r.prompt + r.output - 1 for r in chunks.requests) / chunks.passes  # tokens, on average
    assert f"An average row has about {round(row, -1):.0f} tokens" in text and row < ridge_point(WORKER.gpu)
    assert f"Their arithmetic takes {1e3 * row * WORKER.token_flops / WORKER.gpu.bf16:.1f} ms" in text
    assert f"the {1e3 * WORKER.read_bytes / WORKER.gpu.memory_bandwidth:.1f} ms in which the weights are read" in text
    assert "25 prompts of 18 ms still take 450 ms of arithmetic" in text and 25 * 18 == 450
    full = WORKER.seconds(CHUNKS, 0, 0, 1)
    assert f"the matrix products of {CHUNKS} tokens take {1e3 * full:.0f} ms, longer than a reading" in text
    late = [round(1e3 * one.percentile("ttft", 99)) for one in (whole, chunks)]
    assert "grows from 86 to 115 ms" in text and f"longer than {late[1]} ms instead of {late[0]}" in text
    steps = answer_bill.steps(whole, user.id)
    assert f"{1e3 * sum(end - start for start, end in steps) / len(steps):.1f}" == "6.3"


class OnePass:
    """A worker for which each pass through the model takes a second."""

    simulated = True

    def prefill(self, request, table):
        return 1.0, False

    def decode(self, running, held, tables):
        return 1.0, ()

    def row(self, parts):
        return 1.0


def test_the_trace_has_the_medians_that_microsoft_published():
    trace = serving.synthetic_trace("chat", 2000, seed=1)
    prompts, answers = (sorted(getattr(request, part) for request in trace) for part in ("prompt", "output"))
    assert prompts[1000] == pytest.approx(1020, rel=0.01) and answers[1000] == pytest.approx(130, rel=0.02)
    told = "half of the prompts have more than about 1,020 tokens and half of the answers more than about 130"
    assert told in text_of_the_chapter()


def test_twelve_requests_take_48_passes_in_padded_batches_32_with_whole_prompts_and_25_in_rows():
    requests = [serving.Request(n, 0.0, [3, 4, 5, 3][n % 4], [2, 16, 4, 2][n % 4]) for n in range(12)]
    padded = serving.PaddedEngine(OnePass(), requests, slots=4).run()
    assert padded.passes == padded.seconds == 48 and "takes 48 steps" in text_of_the_chapter()
    whole = serving.Engine(OnePass(), serving.continuous, slots=4, blocks=32).run(requests)
    assert whole.passes == whole.seconds == 32
    assert serving.chunked(OnePass(), requests, budget=8, slots=4).passes == 25


def test_four_guesses_cost_a_single_user_nothing_and_256_users_much():
    def step(users, guesses):
        new = users * (1 + guesses)
        return WORKER.seconds(new, new * 1000, users * 1000)

    assert [step(users, 4) / step(users, 0) < 1.06 for users in (1, 64, 256)] == [True, True, False]
    assert sum(0.8**n for n in range(5)) / (step(1, 4) / step(1, 0) + 0.4) > 2  # "more than twice as fast"
    products, reading = WORKER.seconds(5 * 256, 0, 0), WORKER.read_bytes / WORKER.gpu.memory_bandwidth
    assert ridge_point(WORKER.gpu) < 5 * 256 and products / reading == pytest.approx(4.3, abs=0.1)  # "four times"
    flops, moved = 1280 * WORKER.token_flops / WORKER.gpu.bf16, (256000 + 1280) * WORKER.token_bytes
    asked = f"each with four guesses and 1,000 tokens in the cache, took {1e3 * step(256, 4):.1f} ms"
    answer = f"billion FLOPs: {1e3 * flops:.1f} ms, longer than the {1e3 * reading:.1f} ms"
    cache = f"{moved / 1e9:.1f} GB, so {1e3 * moved / WORKER.gpu.memory_bandwidth:.1f} ms"
    assert all(words in text_of_the_chapter() for words in (asked, answer, cache))
    attention = [WORKER.seconds(n * 256, n * 256000, 256000) - WORKER.seconds(n * 256, 0, 0) for n in (1, 5)]
    assert attention[1] == pytest.approx(attention[0], rel=0.01)  # "checking reads hardly more of them"
    longer = WORKER.seconds(1280, 1280 * 8000, 256 * 8000) / WORKER.seconds(256, 256 * 8000, 256 * 8000)
    assert longer < step(256, 4) / step(256, 0)  # "with longer contexts more of the gain stays"


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


def test_a_batch_of_a_mixture_shares_less_of_its_weights_when_tokens_choose_at_random():
    shape = MODELS["DeepSeek-V3"]
    parts = parameters_by_part(shape)
    rest = sum(parts.values()) - parts["experts"] - parts["token embedding"]

    def read(users):
        return rest + parts["experts"] * (1 - (1 - shape.experts_per_token / shape.experts) ** users)

    def rate(users):
        return users / (2 * read(users) + users * 1000 * kv_cache_bytes(shape, 1))

    text, whole = text_of_the_chapter(), rest + parts["experts"]
    assert f"only {shape.experts_per_token} of the {shape.experts} experts in each layer" in text
    assert f"step reads {100 * read(1) / whole:.0f} % of the weights" in text
    assert f"if they choose at random, need {100 * read(64) / whole:.0f} % of the experts" in text
    assert f"That is {read(64) / read(1):.0f} times as many bytes for 64 times as many tokens" in text
    assert f"throughput grows only {rate(64) / rate(1):.0f} times" in text
    assert rate(512) / rate(128) > 3  # "more users add little to read"


# The numbers that the text states


def text_of_the_chapter() -> str:
    return "\n".join(cell.source for cell in find("ch08_serving").notebook.cells if cell.cell_type == "markdown")


def test_numbers_in_the_text_and_in_the_paper_problems_are_right():
    llama, h100, text = MODELS["Llama-3-8B"], GPUS["H100 SXM"], text_of_the_chapter()
    small = solutions.kv_cache_bytes(llama, 1)
    kept = solutions.kv_cache_bytes(llama, 8000)
    read = parameter_count(llama) - llama.vocabulary * llama.hidden
    scores = 4 * llama.layers * llama.hidden * 8000
    intensity = (2 * read + scores) / kept
    assert f"Llama-3-8B must come out at {small:,} bytes a token" in text
    assert f"8,000 · {small:,} bytes are {kept / 1e9:.2f} GB, so {kept / 50e6:.0f} ms" in text
    assert f"from about {ridge_point(h100):.0f} sequences on" in text
    assert f"the ridge, about {ridge_point(h100):.0f} tokens in a step" in text
    one = WORKER.token_bytes * 1000
    assert f"share the weights, {2 * read / 1e9:.0f} GB, but each brings {one / 1e9:.3f} GB" in text
    assert f"approx {64 * (2 * read + one) / (2 * read + 64 * one):.0f}$$" in text
    assert f"reads {kept / 1e9:.2f} GB of keys and values" in text
    assert f"2 · {read / 1e9:.1f} billion FLOPs" in text
    assert f"= {scores / 1e9:.1f} billion." in text and f"= {intensity:.0f} FLOPs per byte" in text
    promised, used = (serving.blocks_for(1000 + tokens, 16) for tokens in (4096, 130))
    assert f"books {promised} blocks and fills {used}" in text
    a100 = next(gpu for name, gpu in GPUS.items() if name.startswith("A100"))
    bound = solutions.decode_lower_bound(MODELS["Llama-2-7B"], a100, 1, 100)  # gpt-fast's answers are short
    assert f"one every {1e3 / 104.9:.1f} ms. Your bound says {1e3 * bound:.1f} ms, about 70 % of that" in text
    assert 104.9 * bound == pytest.approx(0.7, abs=0.02)
    alone, eight = (solutions.decode_lower_bound(llama, a100, users, 1000) for users in (1, 8))
    assert f"Your formula says {8 * alone / eight:.1f}" in text
    document = WORKER.prefill(serving.Request(0, 0.0, 8000, 1), [])[0]
    assert f"keeps the GPU for {1e3 * document:.0f} ms" in text
