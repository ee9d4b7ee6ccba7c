"""Pictures of chapter 10: the way between GPUs, rails, switches that add, and protocols."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib.patches import Rectangle

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import plots
from course_lib.costs import protocol_changes
from course_lib.costs.two_trees import broadcast_slots, first_chunks
from course_lib.hardware import DGX_A100, DGX_H100, H100
from course_lib.measured import all_reduce_dgx, all_reduce_h100
from course_lib.plots import words_of

MEASURED = dict(all_reduce_h100("nccl", 8))
DRAWN = {
    "way_between_gpus": plots.way_between_gpus,
    "way_between_gpus, H100": lambda: plots.way_between_gpus(node=DGX_H100),
    "rails": plots.rails,
    "switch_adds": plots.switch_adds,
    "protocol_flags": plots.protocol_flags,
    "protocol_lines": lambda: plots.protocol_lines(MEASURED),
    "hops_in_chunks": plots.hops_in_chunks,
    "two_trees": plots.two_trees,
    "two_trees, more": lambda: plots.two_trees(16),
    "hops_in_chunks, more": lambda: plots.hops_in_chunks(4, 8),
    "one_shot_times": lambda: plots.one_shot_times(MEASURED, dict(all_reduce_h100("one-shot", 8))),
    "protocol_lines, not measured": plots.protocol_lines,
}


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


def test_the_way_has_the_numbers_of_the_machine_and_of_the_file():
    near, far = (all_reduce_dgx("a100_dgx", 2, per_node)[-1].seconds for per_node in (2, 1))
    ax = plots.way_between_gpus()
    said = " ".join(texts(ax))
    assert f"NVLink: {DGX_A100.gpu.link.bandwidth / 1e9:g} GB/s" in said
    assert f"{DGX_A100.nic.bandwidth / 1e9:g} GB/s" in said
    assert f"{far * 1e3:.3g} ms, {far / near:.0f} times as long" in said and f"{near * 1e3:.3g} ms" in said
    assert "27 times as long" in words_of(ax.figure)


def test_a_wider_piece_of_the_way_is_drawn_thicker():
    widths = {round(line.get_linewidth(), 2) for line in plots.way_between_gpus().lines}
    assert max(widths) / min(widths) >= 9


def test_on_the_left_two_ports_of_four_stand_idle_and_on_the_right_none():
    ports = [patch for patch in plots.rails().patches if type(patch) is Rectangle]
    idle = [patch for patch in ports if matplotlib.colors.to_hex(patch.get_facecolor()).upper() == plots.WAITING]
    assert len(ports) == 16 and len(idle) == 4
    assert all(patch.get_x() < 20 for patch in idle)


def test_the_switch_says_what_each_gpu_sends():
    said = texts(plots.switch_adds())
    assert "each GPU sends 2·3/4 S = 1.5 S" in said and "each GPU sends S" in said


def test_the_flags_take_their_share_of_what_is_sent():
    ax = plots.protocol_flags()
    flags = [patch for patch in ax.patches
             if matplotlib.colors.to_hex(patch.get_facecolor()).upper() == plots.LIMIT and patch.get_height() > 1]
    rows = {}
    for patch in flags:
        rows.setdefault(round(patch.get_y(), 1), []).append(patch.get_width())
    shares = [sum(rows[y]) / 27 for y in sorted(rows, reverse=True)]
    assert shares[:2] == pytest.approx([1 / 2, 8 / 128])
    assert len(rows[min(rows)]) == 1


def test_the_envelope_changes_where_the_library_says():
    changes = protocol_changes("all_reduce", 8, H100.link)
    ax = plots.protocol_lines(MEASURED)
    broad = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 6]
    assert [line[0] for line in broad[1:]] == pytest.approx([size for size, _ in changes[1:]])
    assert "from 3.52 MB\nLL128" in texts(ax)
    assert "measured: 15.59 µs at 512 B" in words_of(ax.figure)


def test_in_chunks_the_hops_overlap():
    ax = plots.hops_in_chunks(3, 6)
    assert "whole: 18 slots" in texts(ax) and "in 6 chunks: 8 slots" in texts(ax)
    assert texts(ax).count("the whole tensor") == 3 and texts(ax).count("5") == 3


@pytest.mark.parametrize(("ranks", "down"), [(8, 5), (16, 7)])
def test_the_two_trees_say_in_which_slot_the_first_chunk_comes(ranks, down):
    slots = [first_chunks(ranks, tree) for tree in (0, 1)]
    assert max(slot for _, slot in slots[0].values()) == down
    assert broadcast_slots(ranks, 23) == down + 22
    said = texts(plots.two_trees(ranks))
    numbers = [str(slot) for tree in slots for _, slot in tree.values()]
    assert all(said.count(number) >= numbers.count(number) for number in set(numbers))


def test_few_ranks_are_leaves_in_both_trees():
    inner = [{above for above, _ in first_chunks(16, tree).values()} for tree in (0, 1)]
    assert set(range(16)) - inner[0] - inner[1] == {1}


def test_where_the_receiver_may_read_is_marked():
    ax = plots.protocol_flags()
    marks = [len(line.get_xdata()) for line in ax.lines if line.get_marker() == "^"]
    assert marks[:3] == [12, 3, 1]
    assert "not to scale" in " ".join(texts(ax))


def test_the_words_of_the_text_are_in_the_picture_of_rails():
    said = texts(plots.rails())
    assert {"port", "these ports stand idle", "leaf\nswitch", *(f"rail {place}" for place in range(4))} <= set(said)


def test_a_place_in_a_measured_curve_can_be_named():
    ax = plots.seconds_over_size({"measured": {8: 1e-5, 1e6: 1e-3}}, notes={"here": (1e6, 1e-3)}, title="t")
    assert "here" in texts(ax)


def test_the_last_dot_is_compared_with_the_best_ring():
    assert "537 MB: 2.11 ms,\n18% below the best ring" in texts(plots.protocol_lines(MEASURED))


def test_one_shot_is_told_beside_nccl_at_the_size_of_a_token():
    said = texts(plots.one_shot_times(MEASURED, dict(all_reduce_h100("one-shot", 8))))
    assert "19.0 µs" in said and "5.3 µs" in said
