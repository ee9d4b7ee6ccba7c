"""Chapter 11: numbers that no check may fall for, gradients and bytes on many ranks, and what its lessons refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from course_lib import Cluster, RankFailed, compare, each, run
from course_lib.costs import (
    combine_bytes,
    dropped_share,
    expert_bytes,
    expert_parameters,
    experts_per_rank,
)
from course_lib.hardware import H100, H200
from course_lib.lessons.balance import recorded
from course_lib.lessons.exchange import exchange
from course_lib.lessons.expert_strategy import expert_parallel
from course_lib.lessons.node_trips import crossing, limited
from course_lib.lessons.running_table import measure
from course_lib.lessons.wide_groups import room_and_step
from course_lib.measured import DEEPEP
from course_lib.memory import kv_cache_bytes
from course_lib.models import MODELS, active_parameters, attention_weights, parameter_count, parameters_by_part
from course_lib.served import SERVED
from exercises_tests import ch11_expert_parallel as checks
from solutions import ch11_expert_parallel as solutions


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def test_a_nan_in_the_result_does_not_pass():
    nan = float("nan")
    assert judged("balance_bias", lambda bias, load, speed: bias * nan).code
    assert judged("auxiliary_loss", lambda scores, chosen: scores.sum() * nan).code
    assert judged("all_to_all_bytes", lambda *_: nan).code
    assert judged("which_layout", lambda *_: nan).code == "form"

    def routes(scores, k, capacity):
        chosen, weights, kept = solutions.route_tokens(scores, k, capacity)
        return chosen, weights * nan, kept

    assert judged("route_tokens", routes).code

    def shared_out(scores, k, capacity):
        chosen, weights, kept = solutions.route_tokens(scores, k, capacity)
        return chosen, weights * kept / (weights * kept).sum(-1, keepdim=True), kept

    assert judged("route_tokens", shared_out).code == "after-drop", "0 / 0 where a token lost all of its pairs"
    layer = solutions.expert_parallel_layer
    assert judged("expert_parallel_layer", lambda *given: layer(*given) * nan).code


@pytest.mark.parametrize("exercise", ["route_tokens", "balance_bias", "node_limited_routing", "dispatch", "combine"])
def test_nothing_returned_is_told(exercise):
    assert judged(exercise, lambda *_: None).code == "form"


def test_a_guess_that_someone_has_computed_is_not_told_that_a_few_get_nothing(capsys):
    chosen = torch.rand(128, 256, generator=torch.Generator().manual_seed(9)).topk(8).indices
    busy = 100 * len(chosen.unique()) / 256
    assert abs(256 * (busy / 100 - (1 - (1 - 8 / 256) ** 128))) < 1.5, "an expert or two"
    for guess, said in ((97, "Very near"), (98, "Very near"), (98.3, "Very near"), (99, "Very near"),
                        (99.5, "everybody gets something"), (100, "everybody gets something")):  # fmt: skip
        compare(guess, busy, "%", because="ch11.touched")
        assert said in capsys.readouterr().out, guess


# A layer on many ranks


def trained(dist, tokens, router, weights, capacity, name):
    tokens, router = tokens.clone().requires_grad_(), router.clone().requires_grad_()
    mine = [matrix.clone().requires_grad_() for matrix in weights]
    experts = [lambda rows, matrix=matrix: torch.tanh(rows @ matrix) for matrix in mine]
    y = getattr(solutions, name)(dist, tokens, router, experts, 2, capacity)
    (y**2).sum().backward()
    return y.detach(), tokens.grad, router.grad, [matrix.grad for matrix in mine]


def problem(ranks, tokens=24, width=5, experts=16):
    generator = torch.Generator().manual_seed(ranks)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)  # noqa: E731
    every = [draw(tokens, width) for _ in range(ranks)]
    return every, draw(width, experts), [draw(width, width) for _ in range(experts)]


@pytest.mark.parametrize(("ranks", "capacity"), [(2, math.inf), (4, math.inf), (4, 2), (16, math.inf), (16, 1)])
def test_gradients_are_those_of_one_device(ranks, capacity):
    tokens, router, weights = problem(ranks)
    share = len(weights) // ranks
    mine = [weights[rank * share : (rank + 1) * share] for rank in range(ranks)]
    trace = run(trained, each(tokens), router, each(mine), capacity, "expert_parallel_layer", ranks=ranks, on=Cluster())
    alone = [run(trained, one, router, weights, capacity, "expert_parallel_layer", ranks=1, on=Cluster())[0]
             for one in tokens]  # fmt: skip
    off = [0.0]
    for got, want in zip(trace, alone, strict=True):
        off += [(got[place] - want[place]).abs().max().item() for place in (0, 1, 2)]
    for expert in range(len(weights)):
        want = sum(one[3][expert] for one in alone)
        off.append((trace[expert // share][3][expert % share] - want).abs().max().item())
    assert max(off) <= 1e-9, max(off)


@pytest.mark.parametrize(("ranks", "real"), [(2, True), (4, True), (16, False)])
def test_bytes_of_each_pair_of_ranks(ranks, real):
    """The meter: k copies of each token there and back, without those that stay; and the counts."""
    tokens, router, weights = problem(ranks, tokens=40, width=8)
    share = len(weights) // ranks
    mine = [weights[rank * share : (rank + 1) * share] for rank in range(ranks)]
    trace = run(trained, each(tokens), router, each(mine), math.inf, "expert_parallel_layer", ranks=ranks,
                on=None if real else Cluster())  # fmt: skip
    owners = [((one @ router).topk(2).indices // share).flatten() for one in tokens]
    pairs = [[int((mine == rank).sum()) for rank in range(ranks)] for mine in owners]
    for rank in range(ranks):
        out = sum(pairs[rank]) - pairs[rank][rank]
        home = sum(line[rank] for line in pairs) - pairs[rank][rank]
        assert trace.bytes_sent[rank] == 2 * (out + home) * 8 * 8 + (ranks - 1) * share * 8


# What the lessons refuse


@pytest.mark.parametrize(
    ("to_each", "from_each", "words"),
    [
        ([1], [1, 1], "to_each = .1.: must be 2 sizes"),
        ([1, 1], [-1, 1], "from_each = .-1, 1.: must be 2 sizes, 0 or more"),
        ([1, 2], [1, 1], "sums to 3, but there are 2 rows"),
    ],
)
def test_sizes_that_do_not_fit(to_each, from_each, words):
    with pytest.raises(RankFailed, match=words):
        run(lambda dist: exchange(dist, torch.ones(2, 3), to_each, from_each), ranks=2, on=Cluster())


def test_empty_pieces_go_there_and_back():
    def nothing(dist):
        rows = torch.zeros(0, 3, requires_grad=True)
        came = exchange(dist, rows, [0, 0], [0, 0])
        came.sum().backward()
        return came.shape, rows.grad.shape

    assert list(run(nothing, ranks=2, on=Cluster())) == [((0, 3), (0, 3))] * 2


def test_experts_that_ranks_do_not_divide():
    routes = [torch.zeros(1, 8, dtype=torch.int64)] * 6
    with pytest.raises(ValueError, match="experts = 256: must be divisible by the 6 ranks"):
        crossing(routes, 3, 2)
    with pytest.raises(ValueError, match="chosen has 6 tensors: must be one for each of the 8 ranks"):
        crossing(routes, 4, 2)
    with pytest.raises(RankFailed, match="experts = 16: must be divisible by the 3 ranks"):
        measure("experts", expert_parallel(solutions.expert_parallel_layer), ranks=3)


def test_one_copy_for_each_node_and_four_nodes_at_most():
    scores = [torch.rand(32, 256, generator=torch.Generator().manual_seed(rank)) for rank in range(16)]
    free = [one.topk(8).indices for one in scores]
    four = [solutions.node_limited_routing(one, 8, 8, 4) for one in scores]
    cross = [crossing(routes, 8, 2, once=once)[0] for routes, once in ((free, False), (free, True), (four, True))]
    assert cross[0] == pytest.approx(7, abs=0.1)
    assert cross[1] == pytest.approx(5.29 * 7 / 8, abs=0.1)
    assert 3.2 < cross[2] <= 3.6
    assert crossing(four, 8, 2, once=False)[0] > 6.8, "the limit alone saves nothing"
    assert all(torch.equal(limited(one, 8, 8, 4), routes) for one, routes in zip(scores, four, strict=True))


# Numbers of the text


def test_a_fair_router_drops_as_many_as_the_formula_says():
    loads = [torch.bincount(torch.rand(2048, 256, generator=torch.Generator().manual_seed(seed)).topk(8)
                            .indices.flatten(), minlength=256) for seed in range(20)]  # fmt: skip
    for factor, says in ((1.0, 4.98), (1.25, 0.13)):
        assert 100 * dropped_share(64, factor) == pytest.approx(says, abs=0.005)
        seen = sum((load - int(64 * factor)).clamp(min=0).sum().item() for load in loads) / 20 / 163.84
        assert seen == pytest.approx(says, rel=0.15)


def test_counts_of_six_real_models():
    counts = {
        "Mixtral-8x7B": (46_702_792_704, 12_879_925_248),
        "DeepSeek-V3": (671_026_419_200, 37_552_297_472),
        "Kimi-K2": (1_026_408_232_448, 32_861_500_928),
        "Qwen3-235B-A22B": (235_093_634_560, 22_190_763_520),
        "gpt-oss-120b": (116_829_156_672, 5_711_982_912),
        "Llama-4-Maverick": (400_711_848_960, 17_184_691_200),
    }
    for name, (total, active) in counts.items():
        shape = {**MODELS, **SERVED}[name]
        assert (parameter_count(shape), active_parameters(shape)) == (total, active), name


def test_a_training_step_of_qwen3_moves_25_mb_for_a_token():
    qwen = SERVED["Qwen3-235B-A22B"]
    assert 4 * qwen.moe_layers * combine_bytes(qwen) == pytest.approx(24.6e6, rel=2e-3)
    assert expert_parameters(MODELS["DeepSeek-V3"], 8) > 80e9


def test_the_fastest_layer_is_in_the_middle_and_has_too_little_room():
    v3 = MODELS["DeepSeek-V3"]
    assert round(H100.peak("fp8") / (2 * H100.memory_bandwidth)) == 295
    expert = 3 * v3.hidden * v3.expert_ffn
    assert expert == pytest.approx(44.0e6, rel=1e-3)
    arithmetic = 128 * v3.experts_per_token * 2 * expert / H100.peak("fp8")
    reads = [experts_per_rank(v3, row.ranks) * expert / H100.memory_bandwidth for row in DEEPEP]
    layer = [round(1e6 * (max(read, arithmetic) + row.dispatch + row.combine))
             for read, row in zip(reads, DEEPEP, strict=True)]  # fmt: skip
    assert layer == [612, 523, 533, 540, 607, 600] and round(1e6 * arithmetic) == 46
    assert [(round(1e6 * reads[at]), round(1e6 * (DEEPEP[at].dispatch + DEEPEP[at].combine))) for at in (1, 3)] == [
        (210, 313), (53, 487)]  # fmt: skip
    request, other = kv_cache_bytes(v3, 5000), parameter_count(v3) - expert_parameters(v3)
    assert request == 61 * 576 * 2 * 5000 and round(request / 1e6, 1) == 351.4 and round(other / 1e9, 1) == 17.1
    room = [H100.memory - other - expert_bytes(v3, row.ranks, width=1) for row in DEEPEP]
    assert [math.floor(free / request) for free in room] == [-54, 62, 120, 149, 164, 171]
    assert [round(free / 1e9, 1) for free in room[1:4]] == [22.0, 42.4, 52.7] and round(room[0] / 1e9) == -19
    shares = [expert_bytes(v3, row.ranks, width=1) / 1e9 for row in DEEPEP]
    assert [round(share, 1) for share in shares[:4]] == [81.7, 40.9, 20.4, 10.2]
    assert round(shares[0] + other / 1e9) == 99
    assert [experts_per_rank(v3, ranks) for ranks in (16, 64)] == [16, 4]


def test_what_decides_is_tokens_per_second_at_the_batch_that_fits():
    v3 = MODELS["DeepSeek-V3"]
    served = {row.ranks: room_and_step(v3, H100, row, 5000) for row in DEEPEP}
    assert [requests for requests, _ in served.values()] == [0, 62, 120, 149, 164, 171]
    steps = {ranks: sum(parts.values()) for ranks, (_, parts) in served.items()}
    rates = {ranks: requests / steps[ranks] for ranks, (requests, _) in served.items()}
    assert {ranks: round(rate, -1) for ranks, rate in rates.items()} == {
        8: 0, 16: 1710, 32: 2490, 64: 2630, 128: 2450, 256: 2490}  # fmt: skip
    assert rates[64] / rates[16] == pytest.approx(1.54, abs=0.005) and max(rates, key=rates.get) == 64
    assert [round(rates[ranks]) for ranks in (32, 64, 128, 256)] == [2495, 2634, 2450, 2487]
    assert 8 * served[32][0] == 960 and round(8 * rates[32], -3) == 20_000, "the eight, as a quarter of EP32"
    assert steps[64] / steps[16] == pytest.approx(1.56, abs=0.005)
    assert [round(1e3 * steps[ranks]) for ranks in (16, 32, 64)] == [36, 48, 57]
    parts = [[round(1e3 * seconds) for seconds in served[ranks][1].values()] for ranks in (16, 64)]
    assert parts == [[17, 7, 13], [7, 16, 33]]
    cache = kv_cache_bytes(v3, 5000) / 61 / H100.memory_bandwidth  # each request's, in a layer
    assert [round(1e6 * requests * cache) for requests in (62, 149)] == [107, 256]


def rates_of(gpu, context, row):
    requests, parts = room_and_step(MODELS["DeepSeek-V3"], gpu, row, context)
    return requests, parts, requests / sum(parts.values())


def test_each_width_has_lengths_at_which_it_leads():
    short = {row.ranks: rates_of(H100, 1000, row) for row in DEEPEP}
    assert short[64][0] / short[16][0] == pytest.approx(2.4, abs=0.01), "the reply's, at either context"
    parts = short[16][1]
    assert short[16][0] == 313 and [round(1e3 * parts[part]) for part in ("weights", "trips")] == [17, 37]
    assert round(1e3 * sum(parts.values())) == 61
    each_trips = {ranks: found["trips"] / requests for ranks, (requests, found, _) in short.items() if requests}
    assert each_trips[16] < each_trips[32] < each_trips[64], "a request's trips"
    leads = {length: max((16, 32, 64), key={row.ranks: rates_of(H100, length, row)[2] for row in DEEPEP}.get)
             for length in range(1000, 10_001, 250)}  # fmt: skip
    assert [length for length in leads if leads[length] == 16] == [1000, 1250]
    assert [length for length in leads if leads[length] == 32] == list(range(1500, 3501, 250))


def test_with_50_ms_for_a_step_ep32_is_as_good_as_ep64():
    v3, found = MODELS["DeepSeek-V3"], {}
    for row in (DEEPEP[2], DEEPEP[3]):
        fit = room_and_step(v3, H100, row, 5000)[0]
        for fewer in range(fit):  # memory of that many requests less
            less = replace(H100, memory=H100.memory - fewer * kv_cache_bytes(v3, 5000))
            requests, _, rate = rates_of(less, 5000, row)
            if requests / rate <= 0.05:
                found[row.ranks] = requests, round(rate)
                break
    assert found == {32: (120, 2495), 64: (126, 2521)} and 1 / 0.05 == 20


def test_the_best_width_makes_the_weights_a_small_part_of_the_step():
    for gpu, context, best in ((H100, 5000, 64), (H100, 1000, 16)):
        served = {row.ranks: rates_of(gpu, context, row) for row in DEEPEP}
        assert max(served, key=lambda ranks: served[ranks][2]) == best
        assert served[best][1]["weights"] / sum(served[best][1].values()) < 0.3


def test_a_hot_expert_weighs_more_where_a_gpu_has_few():
    loads = {ranks: (256 // ranks - 1 + 4) / (256 // ranks) for ranks in (16, 64)}
    assert {ranks: round(load, 2) for ranks, load in loads.items()} == {16: 1.19, 64: 1.75}


def test_four_idle_experts_come_back_without_balancing_and_eight_have_nothing_at_the_end():
    loads = recorded("none", 0)[0].loads
    assert [expert for expert in range(16) if loads[-1][expert] == 0] == [2, 3, 4, 5, 8, 10, 13, 15]
    idle = [expert for expert in range(16) if not any(load[expert] for load in loads[2:4])]
    assert {0, 1, 7, 12} <= set(idle) and all(load[expert] for load in loads[-12:] for expert in (0, 1, 7, 12))


def test_an_expert_gets_four_tokens_of_one_gpu_and_more_of_a_group():
    v3 = MODELS["DeepSeek-V3"]
    tokens = {ranks: 128 * ranks * v3.experts_per_token // v3.experts for ranks in (1, 16, 64, 128)}
    assert tokens == {1: 4, 16: 64, 64: 256, 128: 512} and tokens[64] < 295 < tokens[128]
    assert (math.comb(8, 2), round(math.comb(32, 8) / 1e6, 1)) == (28, 10.5)
    assert round(expert_bytes(v3, 1, width=1) / 1e9) == 654
    copies = 8 * 63 / 64
    assert 63 / copies == 8 and 8 * 7 / 8 == 7, "an all-gather's copies of a token, over the dispatch's"


def test_a_layer_of_eight_h200s():
    requests, parts = room_and_step(MODELS["DeepSeek-V3"], H200, DEEPEP[0], 5000)
    step = sum(parts.values())
    assert requests == 119 and 1e6 * step / 61 == pytest.approx(694.6, abs=0.5)
    assert round(8 * requests / step, -3) == 22_000


def test_where_37_billion_parameters_are():
    v3 = MODELS["DeepSeek-V3"]
    parts = parameters_by_part(v3)
    routed = parts["experts"] * 8 // 256
    tables = parts["token embedding"] + parts["head"]
    rest = parts["router"] + parts["norms"]
    listed = routed, parts["shared experts"], parts["attention"], parts["mlp"], tables, rest
    assert [round(part / 1e9, 1) for part in listed] == [20.4, 2.6, 11.4, 1.2, 1.9, 0.1]
    assert sum(listed) == active_parameters(v3)


def test_reading_hides_behind_computing_on_the_hot_rank_and_on_the_others():
    mixtral = MODELS["Mixtral-8x7B"]
    matrices = 3 * mixtral.hidden * mixtral.expert_ffn
    reading, a_row = 4 * 2 * matrices / H100.memory_bandwidth, 2 * matrices / H100.peak("bf16")
    assert round(1e6 * reading) == 421 and 4 * 1024 * a_row > 4 * 546 * a_row > reading
    assert 1e6 * attention_weights(MODELS["DeepSeek-V3"]) / H100.memory_bandwidth == pytest.approx(56, abs=0.5)


def test_sending_a_token_through_a_port_takes_about_as_long_as_computing_it():
    v3 = MODELS["DeepSeek-V3"]
    moved = 2 * v3.moe_layers * combine_bytes(v3)  # bf16 on both ways
    assert moved == 58 * 8 * 7168 * (2 + 2) == pytest.approx(13e6, rel=0.03)
    assert round(1e3 * moved / 50e9, 2) == 0.27 and round(1e3 * 2 * 37e9 / (0.4 * H100.peak("bf16")), 2) == 0.19
    assert round(moved / 2e6, 2) == 6.65


def mean_loss(dist, tokens, router, matrices):
    matrices = [matrix.clone().requires_grad_() for matrix in matrices]
    experts = [lambda rows, matrix=matrix: torch.tanh(rows @ matrix) for matrix in matrices]
    solutions.expert_parallel_layer(dist, tokens, router, experts, 2, math.inf).square().mean().backward()
    return matrices[0].grad


def test_with_a_mean_loss_on_each_rank_an_experts_gradient_is_too_large_by_the_number_of_ranks():
    tokens, router, matrices = torch.randn(64, 8).double(), torch.randn(8, 4).double(), torch.randn(4, 8, 8).double()
    want = run(mean_loss, tokens, router, matrices, ranks=1, on=Cluster())[0]
    four = run(mean_loss, each(tokens.chunk(4)), router, each(matrices.split(1)), ranks=4, on=Cluster())
    torch.testing.assert_close(four[0], 4 * want)
