"""Chapter 10: numbers that no check may fall for, lines to see a mistake, and the formulas against the simulator."""

from __future__ import annotations

import math
from itertools import combinations
from types import SimpleNamespace

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from wrong_answers.ch10_the_network import hierarchy_flat

from course_lib import Cluster, costs, run
from course_lib.costs import nccl
from course_lib.hardware import DGX_A100, DGX_H100, H100, Link
from course_lib.measured import (
    BUS_BANDWIDTHS,
    RING_BUS_BANDWIDTH,
    all_reduce_dgx,
    all_reduce_h100,
)
from course_lib.models import MODELS, parameter_count
from course_lib.plots.port_rates import FAULTS, pair_rate
from exercises_tests import ch02_collectives as chapter_2
from exercises_tests import ch10_the_network as checks
from exercises_tests.grading.grader import Grading
from exercises_tests.judging import CheckFailed
from exercises_tests.tools.chapters import find
from solutions import ch10_the_network as solutions


def judged(exercise: str, answer):
    return getattr(checks, f"check_{exercise}").outcome(answer)


def test_a_nan_in_the_result_does_not_pass():
    nan = float("nan")
    assert judged("fit_alpha_beta", lambda sizes, seconds: (nan, nan)).code == "form"
    assert judged("collective_seconds", lambda *_: nan).code != ""
    assert judged("crossover_bytes", lambda *_: nan).code == "form"
    assert judged("rails_seconds", lambda *_: nan).code != ""
    assert judged("congested", lambda traffic, links: ("port a", nan)).code != ""
    assert judged("choose_protocol", lambda bytes, ranks, protocols: None).code == "form"


@pytest.mark.parametrize("seed", range(1, 8))
def test_the_fit_passes_with_every_noise(seed, monkeypatch):
    monkeypatch.setenv("COURSE_SEED", str(seed))
    assert judged("fit_alpha_beta", solutions.fit_alpha_beta).code == ""


def test_a_line_to_see_the_edge_of_a_node_counts_its_bytes():
    outcome = judged("hierarchical_all_reduce", hierarchy_flat)
    names = {"run": run, "torch": torch, "Cluster": Cluster, "math": math, "hierarchical_all_reduce": hierarchy_flat}
    assert eval(outcome.see, names) == 448


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 4), (4, 2), (3, 3), (1, 4), (4, 1)])
def test_the_price_of_two_levels_is_what_the_simulator_takes(nodes, per_node):
    ranks, size = nodes * per_node, 4 * 5040
    slow = Link("port", 50e9, 14e-6, "of this test")
    on = Cluster(nodes=nodes, gpus_per_node=per_node, gpu=H100, nic_bandwidth=50e9, nic_latency=14e-6, nics=per_node)
    taken = run(solutions.hierarchical_all_reduce, torch.ones(size // 4), per_node, ranks=ranks, on=on).seconds
    assert solutions.rails_seconds(nodes, per_node, size, H100.link, slow) == pytest.approx(taken, rel=1e-9)


def test_a_copy_of_an_earlier_chapter_2_still_finds_the_checks_that_moved():
    for name in chapter_2.MOVED:
        assert getattr(chapter_2, f"check_{name}") is getattr(checks, f"check_{name}")
    with pytest.raises(AttributeError, match="check_nothing"):
        chapter_2.check_nothing  # noqa: B018


def test_a_grader_says_where_an_answer_to_a_moved_exercise_belongs():
    now = find("ch03")
    old = new_notebook(cells=[
        new_code_cell("def fit_alpha_beta(sizes, seconds):\n    return 1, 2", id="fit_alpha_beta"),
        new_code_cell("def ring_all_reduce(dist, tensor):\n    pass", id="ring_all_reduce"),
        new_code_cell("def choose_protocol(bytes):\n    raise NotImplementedError", id="choose_protocol"),
    ])
    for cell in old.cells:
        cell.metadata["tags"] = ["exercise"]
    homes = {one.id: chapter.name for chapter in (now, find("ch10")) for one in chapter.exercises}
    course = SimpleNamespace(_homes=homes)
    assert Grading.moved(course, old, now) == (
        "fit_alpha_beta is an exercise of ch10_the_network now: not graded here; make update moves the answer there")


def test_a_check_raises_one_sentence(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    with pytest.raises(CheckFailed, match="✗ fit_alpha_beta"):
        checks.check_fit_alpha_beta(lambda sizes, seconds: None)


def shown(text: str) -> bool:
    """Whether the chapter's text says this."""
    cells = find("ch10").notebook.cells
    return any(text in " ".join(cell.source.split()) for cell in cells if cell.cell_type == "markdown")


def test_numbers_that_the_text_says_are_those_of_the_data():
    near, far = ({row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 2, each)} for each in (2, 1))
    small = [seconds for size, seconds in near.items() if size < 1e6]
    assert (round(1e6 * min(small)), round(1e6 * max(small), -1)) == (10, 60) and small != sorted(small)
    assert shown("Inside the node a sum below 1 MB took from 10 to 60 µs, in no order")
    alpha, beta = solutions.fit_alpha_beta(list(far), list(far.values()))
    assert round(1e-9 / beta, 1) == 5.5
    assert shown("67.1 MB / 0.43 ms = 156 of NVLink's 300 GB/s,")
    assert round(2**26 / near[2**26] / 1e9) == 156
    assert near[2**26] < 1.9 * near[2**25]  # inside, the rate still rises
    assert round(1e6 * far[2048]) == 43 and shown("So the 43 µs are nearly all **latency**")
    assert round(far[2**26] / near[2**26]) == 27 and shown("But the sum took 27 times as long. Where is the rest?")
    assert shown("67.1 MB / 11.44 ms = 5.87 GB/s") and shown("At 5.9 GB/s, the rate of the 64 MiB")
    large = [size / far[size] / 1e9 for size in far if size >= 2**23]
    assert min(large) > 5.65
    assert DGX_A100.gpu.link.bandwidth / DGX_A100.nic.bandwidth == 12
    assert far[2**26] / near[2**26] / 12 == pytest.approx(2.2, abs=0.05)
    gave = far[2**26] / (2**26 / DGX_A100.nic.bandwidth)
    assert round(gave, 1) == 4.3 and shown("- 4.3, because this way out gave only 5.87 of its 25 GB/s;")
    assert round(12 * 4.3 / 1.9) == 27 and shown("So the 27 is 12 · 4.3 / 1.9:") and round(300 / 156, 1) == 1.9
    assert shown("- 1.9, because inside the node, too, the sum got only")
    assert far[2**26] / near[2**26] == pytest.approx(12 * gave * 156 / 300, rel=0.01)
    assert round(1e3 * far[2**26], 1) == 11.4
    assert round(2**26 / far[2**26] / 1e9, 1) == 5.9 and shown("24 GB/s from each port, and neither row")
    assert round(100 * 2**26 / near[2**26] / DGX_A100.gpu.link.bandwidth, 1) == 52.0
    assert far[2048] * 2**26 / far[2**26] == pytest.approx(250e3, rel=0.02)
    assert shown("43 µs · 5.9 GB/s, about 250 kB")


def test_a_line_through_two_dots_may_be_far_off_and_a_fit_is_nearer_but_for_two_nodes():
    off = {}
    for which in (("h100_dgx", 4, 4), ("a100_dgx", 8, 8), ("a100_dgx", 2, 1)):
        times = {row.bytes: row.seconds for row in all_reduce_dgx(*which)}
        fit = solutions.fit_alpha_beta(list(times), list(times.values()))
        lines = (times[min(times)], times[max(times)] / max(times)), fit
        off[which] = [sum(abs((alpha + beta * size) / taken - 1) for size, taken in times.items()) / len(times)
                      for alpha, beta in lines]  # fmt: skip
    by_hand, by_fit = off["a100_dgx", 8, 8]
    assert round(by_hand, 2) == 0.58 and shown("For eight A100s in one node it is 58 % off on average")
    assert by_fit < by_hand / 3 and off["h100_dgx", 4, 4][1] < 0.7 * off["h100_dgx", 4, 4][0]
    assert off["a100_dgx", 2, 1][1] > off["a100_dgx", 2, 1][0]


def test_four_pairs_take_less_time_than_one():
    one, four = (all_reduce_dgx("a100_dgx", 2 * pairs, pairs)[-1].seconds for pairs in (1, 4))
    assert four < one / 2 and shown("More work, in less than half the time")
    eight = all_reduce_dgx("a100_dgx", 16, 8)[-1].seconds
    assert four < round(eight, 5) == 7.19e-3 and shown("Eight do: their sum takes 7.19 ms.")


def test_between_nodes_small_sums_take_longer_middling_ones_equally_long_and_large_ones_longer_again():
    near, far = ({row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 2, each)} for each in (2, 1))
    times = {size: far[size] / near[size] for size in near}
    assert round(times[2048]) == 4 and all(0.7 < times[size] < 1.3 for size in times if 1e4 < size < 7e4)
    assert shown("With 2 kB the sum takes 4 times") and shown("and from 10 to 70 kB about equally long.")
    large = [times[2**power] for power in range(20, 27)]
    assert large == sorted(large) and [round(large[place]) for place in (0, 2, 6)] == [5, 12, 27]
    assert shown("From 1 MB on, the gap opens steadily: 5 times, then 12 with 4 MB, and 27 with 64 MiB.")


FOUND = {1: 11, 2: 22, 4: 44, 8: 60}  # GB/s by pairs, as the text says


def fits(*faults: str) -> bool:
    return all(pair_rate(pairs, faults)[0] == rate for pairs, rate in FOUND.items())


def test_the_rates_of_the_made_up_cluster_acquit_one_card_and_convict_the_detour():
    assert shown("| found, GB/s | " + " | ".join(map(str, FOUND.values())) + " |")
    assert [pair_rate(pairs)[0] for pairs in FOUND] == [24, 48, 96, 192] and shown("GB/s | 24 | 48 | 96 | 192 |")
    every = [group for size in range(5) for group in combinations(FAULTS, size)]
    assert [group for group in every if fits(*group)] == [("detour", "cable"), ("detour", "uplink"),
                                                         ("detour", "cable", "uplink")]  # fmt: skip
    assert shown("One card has only 24 GB/s, and four pairs got 44, eight even 60. So suspect 2 is innocent.")
    assert all(pair_rate(1, [name])[0] == 24 for name in FAULTS if name != "detour")
    assert shown("Suspect 1 is guilty, because nothing else slows the first pair.")
    assert pair_rate(8, ["detour"])[0] == 88 and shown("eight pairs would get 8 · 11 = 88 GB/s, and they got 60")
    assert 60 / 8 == 7.5 and shown("and so does a cable of 60 / 8 = 7.5.")


def test_a_cured_detour_makes_one_pair_faster_and_eight_not_and_four_tell_what_is_left():
    for left in ("cable", "uplink"):
        assert [pair_rate(pairs, [left])[0] for pairs in (1, 8)] == [24, 60]
    assert [pair_rate(4, [left])[0] for left in ("cable", "uplink")] == [96, 60]
    assert shown("| with a bad cable | 24 | 96 | 60 | | with a narrow uplink | 24 | 60 | 60 |")


def test_the_rates_of_the_real_cluster_are_those_of_the_table():
    last = {row.per_node: costs.bus_bandwidth("all_reduce", row.gpus, row.bytes, row.seconds) / 1e9
            for row in all_reduce_dgx("a100_dgx") if row.nodes == 2 and row.bytes == 2**26}  # fmt: skip
    rates = [round(last[pairs], 1) for pairs in (1, 2, 4, 8)]
    assert rates == [5.9, 11.9, 22.4, 17.5] and shown("Its 1, 2, 4 and 8 pairs got 5.9, 11.9, 22.4 and 17.5 GB/s.")
    assert max(rates) < 24 and shown("Not for certain: nothing exceeded one card's 24.")
    assert [pairs * 5.9 for pairs in (1, 2, 4)] == pytest.approx(rates[:3], rel=0.06) and rates[3] < rates[2]
    assert shown("| one pair | 67.1 MB / 11.44 ms = 5.87 GB/s | 25 |")
    assert shown("| four pairs | 1.75 · 67.1 MB / 5.24 ms = 22.4 GB/s | 4 · 25 = 100 |")


def test_the_sum_of_a_token_is_that_of_the_table():
    simple, ll = (costs.protocol_seconds("all_reduce", 8, 2**14, H100.link, protocol=name) for name in ("Simple", "LL"))
    assert round(1e6 * simple) == 56
    assert round(1e6 * ll) == 15 and shown("look for a forgotten `NCCL_PROTO=Simple` in a job's script")
    assert ll == min(costs.protocol_seconds("all_reduce", 8, 2**14, H100.link, protocol=one.name)
                     for one in H100.link.protocols)  # fmt: skip
    assert shown("For our small tensor the latency decides, so LL is the fastest")
    assert round(H100.link.protocol("Simple").bandwidth / 1e9) == 371
    assert H100.link.bandwidth == 450e9
    assert round(160e3 * ll, 1) == 2.4
    assert round(160e3 * dict(all_reduce_h100("one-shot", 8))[2**14], 2) == 0.85
    assert shown("The 160 take 0.85 ms")
    measured = dict(all_reduce_h100("nccl", 8))[2**14]
    near = sorted(abs(costs.protocol_seconds("all_reduce", 8, 2**14, H100.link, protocol=one.name) - measured)
                  for one in H100.link.protocols)  # fmt: skip
    assert round(160e3 * measured, 1) == 3.0
    bytes_alone = 1.75 * 2**14 / H100.link.bandwidth
    assert round(1e6 * bytes_alone, 2) == 0.06 and shown("NVLink carries these bytes in 0.06 µs")
    assert round(measured / bytes_alone, -2) == 300
    assert shown("These 19 µs are about 300 times what NVLink needs for the bytes")
    assert near[0] == abs(ll - measured) and shown("the measured 19 µs are nearest to its line")
    assert round(H100.link.protocol("LL").bandwidth / 1e9) == 141
    assert shown("and half of what LL sends are flags")


def test_on_many_nodes_rings_take_longer_than_the_computing_and_two_levels_do_not():
    model = MODELS["Llama-3-8B"]
    layer, port = 2 * parameter_count(model) / 32, DGX_H100.nic
    inside = min(costs.nccl_seconds(DGX_H100, 1, 8, layer, "all_gather").values())
    assert model.layers == 32 and round(layer / 1e9, 1) == 0.5 and shown("bytes of each, in bf16 | 0.5 GB |")

    def rings(nodes):
        return 96 * min(costs.nccl_seconds(DGX_H100, nodes, 8, layer, "all_gather").values())

    def best(nodes):
        rails = costs.nccl_seconds(DGX_H100, nodes, 1, layer / 8)
        assert nodes < 64 or min(rails, key=rails.get) == ("Tree", "LL128")
        return 32 * (inside + max(2 * inside, min(rails.values())))

    computing = costs.step_flops(model, 1, 2048) / (0.4 * H100.peak("bf16"))
    assert round(computing, 2) == 0.25
    assert shown("computing, 2,048 tokens at 40 % of the peak | 0.25 s |")
    assert round(rings(256), 2) == 0.57 and round(2048 / rings(256), -2) == 3600
    ends = {unit: 2 * min(costs.nccl_seconds(DGX_H100, 256, 8, unit * layer, "all_gather").values())
            for unit in (1, 4, 8)}  # fmt: skip
    assert round(1e3 * ends[1]) == 12 and shown("| computing alone | | | 0.25 | 8,200 | |")
    assert shown("| rings, one layer in a unit | 0.57 | 12 | 0.57 | 3,600 |")
    for unit, name, told in ((4, "four", (0.25, 21, 0.27, 7600)), (8, "eight", (0.19, 32, 0.28, 7300))):
        messages = 48 / unit * ends[unit]
        step = max(messages, computing + ends[unit])
        assert (round(messages, 2), round(1e3 * ends[unit]), round(step, 2), round(2048 / step, -2)) == told
        assert shown(f"| rings, {name} layers | {told[0]} | {told[1]} | {told[2]} | {told[3]:,} |")
    assert 2048 / max(rings(64), computing + rings(64) / 48) > 8000
    assert rings(64) > 0.99 * computing > rings(32) and shown("On 64 they are at the edge")
    assert round(16 * parameter_count(model) / 2048 / 1e9, 2) == 0.06
    assert rings(256) > 2 * computing and shown("All 96 collectives take 0.57 s, more than twice as long")
    assert round(rings(8), 2) == 0.15 and shown("On 8 nodes they take 0.15 s")
    assert round(1 - computing / rings(256), 2) == 0.56 and rings(16) < computing
    assert round(best(256), 2) == 0.15 and round(2048 / computing, -2) == 8200
    across = min(costs.nccl_seconds(DGX_H100, 256, 1, layer / 8).values())
    step = max(best(256), computing + 2 * inside + across)
    assert (round(step, 2), round(2048 / step, -2), round(1e3 * (2 * inside + across))) == (0.26, 8000, 6)
    assert shown("| two levels (HSDP) | 0.15 | 6 | 0.26 | 8,000 | 16 | 1.5 |")
    gather, scatter = (min(costs.nccl_seconds(DGX_H100, 256, 8, times * 4 * layer, "all_gather").values())
                       for times in (1, 2))  # fmt: skip
    assert round(2048 / (8 * (2 * gather + scatter)), -2) == 6900  # fp32 gradients, units of four
    gather, scatter = (min(costs.nccl_seconds(DGX_H100, 256, 8, times * layer, "all_gather").values())
                       for times in (1, 2))  # fmt: skip
    assert round(2048 / (32 * (2 * gather + scatter)), -2) == 3300
    twice = min(costs.nccl_seconds(DGX_H100, 1, 8, 2 * layer, "all_gather").values())
    across = min(costs.nccl_seconds(DGX_H100, 256, 1, 2 * layer / 8).values())
    step = max(32 * (inside + max(inside + twice, across)), computing + inside + twice + across)
    assert round(2048 / step, -2) == 7900
    assert shown("units of four or eight layers fall to about 7,000, and plain rings to 3,300.")
    assert [[round(1e3 * one, 1) for one in (2 * rings(nodes) / 96, 2 * inside + min(costs.nccl_seconds(
        DGX_H100, nodes, 1, layer / 8).values()))] for nodes in (8, 256)] == [[3.2, 4.9], [11.8, 5.8]]  # fmt: skip
    assert shown("| 0.5 GB on 256 nodes | 11.8 ms | 9.5 ms; 5.8 with a tree on each rail |")
    by_ring = min(taken for (way, _), taken in costs.nccl_seconds(DGX_H100, 256, 1, layer / 8).items() if way == "Ring")
    assert round(1e3 * (2 * inside + by_ring), 1) == 9.5 and shown("| 0.5 GB on 8 nodes | 3.2 ms | 4.9 ms |")
    units = [1e3 * 96 / unit * min(costs.nccl_seconds(DGX_H100, 256, 8, unit * layer, "all_gather").values())
             for unit in (1, 2, 4, 8)]  # fmt: skip
    assert [round(one) for one in units] == [567, 354, 248, 194]
    assert shown("messages of a training step, ms | 567 | 354 | 248 | 194 |")
    assert round(4 * layer / 1e9, 1) == 2.0 and shown("Four layers are 2 GB of gathered weights")
    assert round(units[2] / 1e3, 2) == 0.25 and units[2] < 1e3 * computing
    assert round(computing - units[3] / 1e3, 2) == 0.06 and round(24 * layer / 1e9) == 12
    assert costs.rail_protocol(DGX_H100, 256, "LL128").latency == 8.5e-6
    assert shown("charges 8.5 µs for a hop and not 4.0, because nothing hides the latency there.")
    table = costs.nccl_seconds(DGX_H100, 256, 8, layer, "all_gather")
    assert min(table, key=table.get) == ("Ring", "LL128")
    assert (nccl.INSIDE["Ring"][1], nccl.BETWEEN["Ring"][1]) == (1.9, 4)
    assert (256 * 7, 255, 256 * 8 - 1) == (1792, 255, 2047)
    assert shown("so a collective has 2,047 hops, one after another:")
    assert [round(one, 1) for one in (1792 * 1.9e-3, 255 * 4e-3)] == [3.4, 1.0]
    assert shown("| 1,792 | 1.9 µs | 3.4 ms |") and shown("| 255 | 4.0 µs | 1.0 ms |")
    assert round(1792 * 1.9e-3 + 255 * 4e-3, 1) == 4.4
    mean = (1792 * 1.9e-6 + 255 * 4e-6) / 2047
    assert round(1e6 * mean, 1) == 2.2 and round(2048 * mean * 341e9 / 1e9, 1) == 1.5
    assert shown("2,048 · 2.2 µs · 341 GB/s = 1.5 GB, three times our layer") and 2048 * mean * 341e9 > 2.9 * layer
    assert round(1e3 * rings(256) / 96, 1) == 5.9
    assert round(1e3 * table["Ring", "Simple"]) == 11
    assert shown("each collective of section 5 would take 11 ms by Simple, and takes 5.9 by LL128.")
    assert table["Ring", "LL"] > table["Ring", "Simple"] and round(nccl.LL_BETWEEN["Intel"][1]) == 20
    assert shown("These 4.4 ms are most of a collective's 5.9.")
    assert round(1e3 * layer / 341e9, 1) == 1.5 and 1e3 * layer / 341e9 == pytest.approx(1.5, rel=0.02)  # as drawn
    assert 8 * port.bandwidth == 400e9 and round(H100.link.protocol("LL128").bandwidth / 1e9) == 341
    assert round(rings(256) * 2048 / computing, -2) == 4700 and shown("With 4,700 tokens on each GPU")
    assert 9.5e6 < 4700 * 2048 < 10e6
    rises = [unit * layer / (ends[unit] / 2) / 1e9 for unit in (1, 4)]
    assert [round(one) for one in rises] == [85, 195] and shown("from 85 GB/s with 0.5 GB to 195 with 2 GB")
    piece = layer / 2048 / 341e9
    assert (round(layer / 2048 / 1e6, 2), round(1e6 * piece, 2), round(piece / (piece + mean), 2)) == (0.25, 0.72, 0.25)
    assert shown("= 0.25 MB passes in 0.72 µs.") and shown("Three quarters of the time the link is empty.")
    assert round(96 * 1.5e-3, 2) == round(96 * layer / 341e9, 2) == 0.14 and shown("96 · 1.5 ms = 0.14 s")
    user = 2e9 * 255 / 256 / min(costs.nccl_seconds(DGX_H100, 32, 8, 2e9, "all_gather").values())
    rate = 2e9 * 255 / 256 / (2e9 * 255 / 256 / 200e9 - (224 * 1.9e-6 + 31 * 4e-6))  # without what the hops take
    assert round(rate / 1e9) == 212 and 96 * (224 * 1.9e-6 + 31 * 4e-6 + layer / rate) > computing
    assert round(2048 / (24 * (4.4e-3 + 4 * layer / rate)), -2) == 6100 and shown("would keep 6,100 on 256.")
    assert round(311 / 200, 1) == 1.6
    assert round(user / 1e9) == 311 and shown("in a single run, where the table expects 311.")
    assert pytest.approx(4e6, rel=0.05) == 2048 * 2048 and shown("the batch is real: 2,048 times 2,048 make 4 million")
    assert round(16 * parameter_count(model) / 8 / 1e9) == 16
    assert shown("each GPU holds 16 GB of weights, gradients and AdamW's numbers")
    assert round(16 * parameter_count(MODELS["Llama-3-70B"]) / 8 / 1e9) == 141 and shown("A 70B model would need 141")


def test_the_table_is_as_near_to_the_small_sizes_as_the_text_says():
    off = {size: taken / costs.protocol_seconds("all_reduce", 8, size, H100.link)
           for size, taken in all_reduce_h100("nccl", 8)}  # fmt: skip
    assert all(abs(off[size] - 1) < 0.251 for size in off if size <= 2**20)
    assert shown("Up to 1 MB all dots stay within 25 % of it")
    assert all(off[size] < 1 for size in off if size > 2**21 * 0.75)
    assert costs.protocol_changes("all_reduce", 8, H100.link)[1][0] > 2**20
    assert all((off[size] < 1) == (size >= 2**19) for size in off)


def test_four_nodes_take_one_and_a_half_times_as_long_as_one_and_less_if_gpus_add():
    assert (RING_BUS_BANDWIDTH, BUS_BANDWIDTHS) == (330e9, {8: 430e9, 32: 320e9})
    ring, inside, between = (2 * (ranks - 1) / ranks / bus for ranks, bus in
                             ((8, RING_BUS_BANDWIDTH), *BUS_BANDWIDTHS.items()))  # fmt: skip
    assert between / inside == pytest.approx(1.49, abs=0.005) and round(between / ring, 1) == 1.1
    assert shown("330 GB/s by rings inside a node, and 320 out of each of four nodes.")


def test_two_healthy_nodes_take_hardly_longer_than_one():
    ill = [all_reduce_dgx("a100_dgx", gpus, 8)[-1] for gpus in (8, 16)]
    assert {one.bytes for one in ill} == {2**26} and round(ill[1].seconds / ill[0].seconds) == 11
    assert shown(r"\frac{300}{200} \cdot \frac{1.875}{1.75} = 1.6") and round(300 / 200 * 1.875 / 1.75, 1) == 1.6
    assert DGX_A100.gpu.link.bandwidth == 300e9 and 8 * DGX_A100.nic.bandwidth == 200e9
    assert round(DGX_A100.gpu.link.protocol("Simple").bandwidth / 1e9) == 240
    assert shown("which carry 8 · 25 = 200 GB/s together")
    assert shown("8/9 with H100s: 8 · 50 = 400 of 450 GB/s.")
    table = {size: [min(costs.nccl_seconds(DGX_A100, nodes, 8, size).values()) for nodes in (1, 2)]
             for size in (2**26, 2**33)}  # fmt: skip
    assert [round(two / one, 1) for one, two in table.values()] == [1.4, 1.3] and shown("Only 1.6 times.")
    assert shown("needed 11 times as long with 8 + 8 GPUs as with eight.")


def test_a_switch_that_adds_prints_more_than_its_link_carries():
    assert int(2 * 7 / 8 * H100.link.bandwidth / 1e9 + 0.5) == 788 and shown("so it prints 1.75 · 450 = 788")
    assert int(1.75 * 371 / 1.125) == 577 and shown("1.75 · 371 / 1.125 = 577")


def test_two_levels_take_fewer_steps_than_a_ring_and_so_does_the_tree_of_nccl():
    size, kinds = 2**22, ("reduce_scatter", "all_gather")
    table = costs.nccl_seconds(DGX_H100, 8, 8, size)
    inside = [costs.nccl_seconds(DGX_H100, 1, 8, size, kind)["Ring", "LL128"] for kind in kinds]
    levels = 1e6 * (sum(inside) + costs.nccl_seconds(DGX_H100, 8, 1, size / 8)["Ring", "LL128"])
    ring = 1e6 * min(table["Ring", name] for name in nccl.PROTOCOLS)
    assert [round(one) for one in (ring, levels, 1e6 * min(table.values()))] == [307, 229, 115]
    assert min(table, key=table.get) == ("Tree", "LL128")
    assert ring == 1e6 * table["Ring", "LL128"]
    assert shown("A ring through all 64 GPUs takes 307 µs by the table.")
    assert not any(way == "Tree" for way, _ in costs.nccl_seconds(DGX_H100, 8, 8, size, "all_gather"))
    rail, link = costs.rail_protocol(DGX_H100, 8, "LL128"), H100.link.protocol("LL128")
    on_rails = Cluster(nodes=8, gpu=H100, latency=link.latency, bandwidth=link.bandwidth,
                       nic_latency=rail.latency, nic_bandwidth=rail.bandwidth)  # fmt: skip
    taken = run(solutions.hierarchical_all_reduce, torch.ones(2**20), 8, ranks=64, on=on_rails).seconds
    assert 1e6 * taken + 3 * 14 == pytest.approx(levels, rel=0.005)
    assert shown("| 4 MiB on 8 nodes | 307 µs | 229 µs (yours, all by LL128) | 115 µs |")
    trees = [min(costs.nccl_seconds(DGX_H100, nodes, 8, 501891328).values()) for nodes in (8, 256)]
    plain = [costs.nccl_seconds(DGX_H100, nodes, 8, 501891328)["Tree", "LL128"] for nodes in (8, 256)]
    assert [[round(1e3 * one, 1) for one in row] for row in (plain, trees)] == [[3.2, 3.3], [2.6, 2.9]]
    assert shown("| 0.5 GB on 8 nodes | 3.2 ms | 4.9 ms | 3.2 ms | 2.6 ms |") and shown("| 3.3 ms | 2.9 ms |")
    assert (nccl.START["Ring"][1], nccl.START["Tree"][1], nccl.BETWEEN["Tree"][1]) == (14.0, 14.0, 8.5)
    assert (nccl.INSIDE["Ring"][1], nccl.BETWEEN["Ring"][1], nccl.BETWEEN["Tree"][1]) == (1.9, 4.0, 8.5)
    hops = 112 * 1.9 + 14 * 4.0, 14 * 1.9 + 14 * 8.5
    rests = ring - 14 - hops[0], levels - 3 * 14 - hops[1]
    assert [int(one + 0.49) for one in hops] == [269, 146] and [round(one) for one in rests] == [24, 41]


def test_two_levels_take_fewer_hops_than_a_ring():
    assert (2 * 63, 4 * 7) == (126, 28) and shown("because two levels have 28 hops and the ring has 126.")


def test_a_ring_on_a_rail_is_priced_as_the_table_prices_it():
    for name in ("LL", "LL128"):
        for nodes in (2, 3, 64):
            rail, size = costs.rail_protocol(DGX_H100, nodes, name), 1e8
            steps = 2 * (nodes - 1)
            seconds = rail.start + steps * (rail.latency + size / nodes / rail.bandwidth)
            assert seconds == pytest.approx(costs.nccl_seconds(DGX_H100, nodes, 1, size)["Ring", name], rel=1e-9)
    with pytest.raises(ValueError, match="name"):
        costs.rail_protocol(DGX_H100, 8, "Simple")


def test_the_cap_of_ll_is_that_of_the_source():
    assert nccl.LL_INSIDE[4] == 141 < 371 / 2


def test_a_latency_that_is_far_off_is_told_as_a_factor():
    from exercises_tests.ch10_the_network import _far

    assert (_far(3e-2, 1e-6), _far(1e-6, 5e-6)) == ("30,000 times too large", "5 times too small")
    assert (_far(1.5, 1), _far(-1, 1)) == ("50 % off", "200 % off")
