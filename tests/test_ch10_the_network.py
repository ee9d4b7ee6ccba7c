"""Chapter 10: numbers that no check may fall for, lines to see a mistake, and the formulas against the simulator."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from wrong_answers.ch10_the_network import hierarchy_flat

from course_lib import Cluster, costs, run
from course_lib.hardware import DGX_A100, H100, Link
from course_lib.measured import BUS_BANDWIDTHS, all_reduce_dgx
from course_lib.models import MODELS, parameter_count
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
    assert judged("choose_protocol", lambda bytes, protocols: None).code == "form"


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
        new_code_cell("def choose_protocol(bytes, protocols):\n    raise NotImplementedError", id="choose_protocol"),
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
    assert shown(f"2 KiB took {1e6 * near[2048]:.0f} µs, and 10 KiB took {1e6 * near[10240]:.0f}")
    assert round(far[2**26] / near[2**26]) == 27 and shown("The 12 is in the hardware") and shown("the other 2.2")
    assert DGX_A100.gpu.link.bandwidth / DGX_A100.nic.bandwidth == 12
    assert far[2**26] / near[2**26] / 12 == pytest.approx(2.2, abs=0.05)
    assert round(2**26 / far[2**26] / 1e9, 1) == 5.9 and shown("5.9 GB/s is not what the network can carry")
    sixteen = {row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 16, 8)}
    assert sixteen[2**25] < sixteen[2**24] and shown("twice the bytes took *less* time")
    assert round(2**17 / 10e-6 / 1e9) == 13 and shown(r"\frac{131{,}072 \text{ bytes}}{10 \text{ µs}} = 13")


def test_each_pair_that_joins_adds_its_rate_and_the_time_falls():
    rows = [all_reduce_dgx("a100_dgx", 2 * pairs, pairs)[-1] for pairs in (1, 2, 4, 8)]
    rates = [costs.bus_bandwidth("all_reduce", row.gpus, row.bytes, row.seconds) for row in rows]
    assert rows[2].seconds < rows[0].seconds / 2 and shown("More work, in less than half the time")
    assert [rate / rates[0] for rate in rates[1:3]] == pytest.approx([2, 4], rel=0.06) and rates[3] < rates[2]


def test_the_start_and_the_steps_that_the_text_counts_are_those_of_the_table():
    for name, start, step in (("Simple", 8.4, 3.4), ("LL", 6.6, 0.6)):
        one = H100.link.protocol(name)
        assert 1e6 * one.start == pytest.approx(start, abs=0.05) and 1e6 * one.latency == pytest.approx(step, abs=0.05)
    assert shown("8.4 µs to start and 3.4 µs for each step") and shown("6.6 µs to start, and 14 steps of 0.6 µs")
    simple = costs.protocol_seconds("all_reduce", 8, 2**14, H100.link, protocol="Simple")
    assert round(1e6 * simple) == 56 and round(160e3 * simple) == 9 and shown("the 160 of a token take 9 ms")


def test_the_time_on_nvlink_is_as_the_text_derives_it():
    by_nvlink = 3 * 7 / 8 * 2 * parameter_count(MODELS["Llama-3-70B"]) / H100.link.bandwidth
    assert round(by_nvlink, 2) == 0.82 and shown(r"\frac{141\text{ GB}}{450\text{ GB/s}} = 0.82")


def test_all_ports_bring_the_same_sum_to_one_and_a_half_times():
    inside, between = (2 * (ranks - 1) / ranks / bus for ranks, bus in BUS_BANDWIDTHS.items())
    assert between / inside == pytest.approx(1.49, abs=0.005) and shown("One and a half times, not 27 times.")
    assert shown("430 GB/s on one node of eight H100s, and 320 GB/s on four")
    assert list(BUS_BANDWIDTHS.values()) == [430e9, 320e9]
