"""Chapter 10: numbers that no check may fall for, lines to see a mistake, and the formulas against the simulator."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from wrong_answers.ch10_the_network import hierarchy_flat

from course_lib import Cluster, costs, run
from course_lib.hardware import DGX_H100, GB200_NVL72, H100, Link
from course_lib.measured import BUS_BANDWIDTHS, all_reduce_dgx, all_reduce_h100
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


def test_numbers_that_the_text_says_are_those_of_the_data_and_of_the_table():
    two_h100s = dict(all_reduce_h100("nccl", 2))
    rates = [size / two_h100s[size] / 1e9 for size in (2**29, 2**26)]
    assert shown("two H100s reach {:.0f} GB/s instead of {:.0f}".format(*rates))
    far = {row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 2, 1)}
    a_byte = far[2**26] / 2**26
    parts = [1e6 * far[2048], 1e6 * 2**20 * a_byte, 1e6 * (far[2048] + 2**20 * a_byte)]
    assert shown(f"11.4 ms / 64 MiB = {1e9 * a_byte:.2f} ns")
    assert shown("that makes {:.0f} + {:.0f} = {:.0f} µs".format(*parts))
    near = {row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 2, 2)}
    assert shown(f"2 KiB took {1e6 * near[2048]:.0f} µs, and 10 KiB took {1e6 * near[10240]:.0f}")
    four = {row.bytes: row.seconds for row in all_reduce_dgx("a100_dgx", 4, 2)}
    assert four[2**25] > four[2**26] and shown("32 MiB on 2 + 2 GPUs: that took *longer* than 64")
    assert round(2**17 / 10e-6 / 1e9) == 13 and shown("131,072 bytes in 10 µs are 13 GB/s")


def test_the_hops_that_the_text_counts_are_those_of_the_table():
    simple = H100.link.protocol("Simple")
    ring = costs.nccl_seconds(DGX_H100, 2, 8, 4)["Ring", "Simple"] - simple.start
    assert 1e6 * ring == pytest.approx(28 * 3.4 + 2 * 14, abs=0.5)
    assert shown("28 of 3.4 µs and 2 long ones of 14, 123 µs")
    assert round(14 * 3.4 + 2 * 14) == 76 and shown("14 short and 2 long hops, 76 µs")


def test_between_nodes_with_all_ports_costs_half_as_long_again():
    inside, between = (2 * (ranks - 1) / ranks / bus for ranks, bus in BUS_BANDWIDTHS.items())
    assert between / inside == pytest.approx(1.49, abs=0.005) and shown("One and a half times as long, not 27 times.")
    assert shown("430 GB/s on one node and 320 on four") and list(BUS_BANDWIDTHS.values()) == [430e9, 320e9]


def test_one_port_cannot_carry_what_the_owner_measured():
    assert math.ceil(BUS_BANDWIDTHS[32] / DGX_H100.nic.bandwidth) == 7 and shown("a ring would need at least seven")


def test_what_the_table_gives_trees_and_switches_is_as_the_text_says():
    for way, count, rate in (("Tree", 2, 39), ("Ring", 2 * 15 / 16, 46)):
        empty, full = (costs.nccl_seconds(DGX_H100, 16, 1, size)[way, "LL128"] for size in (4, 64e6))
        assert round(count * 64e6 / (full - empty) / 1e9) == rate
    assert shown("two trees get 39 of a port's 50 GB/s and a ring 46")
    seconds = min(costs.nccl_seconds(DGX_H100, 1, 8, 1e9).values())
    assert costs.bus_bandwidth("all_reduce", 8, 1e9, seconds) == pytest.approx(586e9, rel=1e-3)
    assert shown("its 3.0 ms on one node would be 586 GB/s")
    assert shown("371 · 1.75 = 649") and round(371 * 1.75) == 649 and round(371 * 1.75 / 1.125) == 577
    assert GB200_NVL72.gpu.peak("bf16") / H100.peak("bf16") == pytest.approx(2.5, abs=0.05)
    assert shown("2.5 times as fast as an H100")

