"""Pictures of chapter 10: the way between GPUs, rails, switches that add, and protocols."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import Rectangle

matplotlib.use("Agg")

from legible import assert_legible

from course_lib import plots
from course_lib.costs import nccl, protocol_changes
from course_lib.hardware import DGX_A100, DGX_H100, H100
from course_lib.measured import all_reduce_dgx, all_reduce_h100
from course_lib.plots import words_of
from course_lib.plots.canvas import NETWORK, NVLINK
from course_lib.plots.twin_trees import parents
from course_lib.plots.ways import ROUNDS
from course_lib.plots.winners import ring_and_trees

MEASURED = dict(all_reduce_h100("nccl", 8))
BY_RINGS = {size: taken for size, taken in MEASURED.items() if size <= 2**20}
TOKENS = {"rings": {8: 8100, 64: 8000, 256: 3600}, "units": {8: 7800, 64: 7700, 256: 7600}}
TIMES = {"1 + 1 GPUs": {"measured here": 26.6, "by the links' rates": 12},
         "8 + 8 GPUs": {"measured here": 10.7, "by the links' rates": 1.6}}  # fmt: skip
FOUND = {1: 11, 2: 22, 4: 44, 8: 60}
GROUPS = [["detour"], ["card"], ["detour", "cable"], ["detour", "uplink"]]
DRAWN = {
    "way_between_gpus": plots.way_between_gpus,
    "way_between_gpus, H100": lambda: plots.way_between_gpus(node=DGX_H100),
    "rails": plots.rails,
    "rings_and_ports": plots.rings_and_ports,
    "switch_adds": plots.switch_adds,
    "flags_beside_data": plots.flags_beside_data,
    "protocol_flags": plots.protocol_flags,
    "protocol_lines": lambda: plots.protocol_lines(MEASURED),
    "two_trees": plots.two_trees,
    "two_trees, more": lambda: plots.two_trees(16),
    "times_between_nodes": lambda: plots.times_between_nodes(TIMES),
    "suspects": lambda: plots.suspects(FOUND, GROUPS),
    "faulty_network": lambda: plots.faulty_network(FOUND, ["detour", "uplink"]),
    "faulty_network, healthy": lambda: plots.faulty_network(FOUND),
    "walk_round_nodes": plots.walk_round_nodes,
    "seconds_over_nodes": plots.seconds_over_nodes,
    "two_levels": plots.two_levels,
    "link_over_time": lambda: plots.link_over_time({"1 layer": 0.5e9, "4 layers": 2e9}),
    "tokens_over_nodes": lambda: plots.tokens_over_nodes(TOKENS, 8200, "H100s; Llama-3-8B"),
    "one_shot_times": lambda: plots.one_shot_times(MEASURED, dict(all_reduce_h100("one-shot", 8))),
    "protocol_lines, by rings": lambda: plots.protocol_lines(BY_RINGS),
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


def test_a_link_has_one_colour_in_all_pictures_of_a_way():
    for draw in (plots.way_between_gpus, plots.rings_and_ports, plots.rails, plots.walk_round_nodes, plots.two_levels):
        ax = draw()
        pieces = [line.get_color() for line in ax.lines] + [text.get_color() for text in ax.texts]
        pieces += [text.arrow_patch.get_edgecolor() for text in ax.texts if getattr(text, "arrow_patch", None)]
        assert all(any(same_color(piece, colour) for piece in pieces) for colour in (NVLINK, NETWORK)), draw


def test_four_rings_send_what_one_does_by_four_ports():
    said = texts(plots.rings_and_ports())
    assert {"out by port 3, back by port 0", "out by port 1, back by port 2"} <= set(said)
    assert "so 4 · 0.44 S = 1.75 S leave node 0 by four ports. A single ring would send as much by one." in said
    assert 4 * round(2 * 7 / 8 / 4, 2) == pytest.approx(1.75, abs=0.02)
    told = words_of(plots.rings_and_ports().figure)
    assert "ring A passes the GPUs 0 1 2 3 7 6 5 4" in told and "ring B passes the GPUs 2 3 0 1 5 4 7 6" in told


def test_each_ring_crosses_at_two_ports_that_are_marked_at_both_ends():
    ax = plots.rings_and_ports()
    marked = [patch for patch in ax.patches if same_color(patch.get_edgecolor(), NETWORK)]
    assert len(marked) == 2 * 2 * 2 and all(texts(ax).count(f"port {place}") == 2 * 2 for place in range(4))


def test_two_rings_pass_all_gpus_and_share_no_port():
    assert all(sorted(order) == [0, 1, 2, 3] for order in ROUNDS)
    assert sorted(order[end] for order in ROUNDS for end in (0, -1)) == [0, 1, 2, 3]


def test_the_switch_lets_the_reader_count_what_each_gpu_sends():
    said = texts(plots.switch_adds())
    assert said.count("6 · S/4") == 4 and said.count("S") == 8 and not any("1.5" in one for one in said)


def test_the_fence_decides_a_small_step_and_the_bytes_a_large_one():
    ax = plots.protocol_flags()
    said = texts(ax)
    assert [one for one in said if "+" in one and "µs" in one] == [
        "0.6 + 0.015 = 0.615 µs, the fastest", "1.9 + 0.006 = 1.906 µs", "3.4 + 0.006 = 3.406 µs",
        "0.6 + 59.5 = 60.1 µs", "1.9 + 24.6 = 26.5 µs", "3.4 + 22.6 = 26.0 µs, the fastest"]  # fmt: skip
    bars = [patch.get_width() for patch in ax.patches if patch.get_height() == pytest.approx(0.7)]
    assert [sum(bars[row : row + 4]) for row in (8, 12)] == pytest.approx([0.74, 0.74], rel=1e-6)  # each half's longest
    assert bars[13] == pytest.approx(bars[14]) and bars[15] > 0.1  # LL's data, its flags, and what NCCL caps
    assert bars[19] < 0.01 and bars[23] == 0  # the others are hardly capped


def test_the_envelope_changes_where_the_library_says():
    changes = protocol_changes("all_reduce", 8, H100.link)
    ax = plots.protocol_lines(MEASURED)
    broad = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 6]
    assert [line[0] for line in broad[1:]] == pytest.approx([size for size, _ in changes[1:]])
    assert "from 3.52 MB\nLL128" in texts(ax)
    assert "measured: 15.59 µs at 512 B" in words_of(ax.figure)


@pytest.mark.parametrize("ranks", [2, 6, 8, 12, 16])
def test_every_rank_is_a_leaf_in_exactly_one_of_the_two_trees(ranks):
    inner = [set(parents(ranks, tree).values()) for tree in (0, 1)]
    assert inner[0] | inner[1] == set(range(ranks)) and not inner[0] & inner[1]
    assert set(range(ranks)) - set(parents(ranks, 1)) == {ranks - 1}  # the second tree's root
    filled = [patch for patch in plots.two_trees(ranks).patches
              if matplotlib.colors.to_hex(patch.get_facecolor()) != "#ffffff"]
    assert len(filled) == 2 * ranks  # in a tree and in the strip


def test_the_two_trees_are_those_of_nccl():
    """As drawn in src/graph/trees.cc for 12 ranks."""
    below = [{up: sorted(rank for rank, above in parents(12, tree).items() if above == up) for up in range(12)}
             for tree in (0, 1)]
    assert below[0] == {0: [8], 8: [4, 10], 4: [2, 6], 2: [1, 3], 6: [5, 7], 10: [9, 11]} | dict.fromkeys(
        range(1, 12, 2), [])
    assert below[1] == {11: [3], 3: [1, 7], 1: [0, 2], 7: [5, 9], 5: [4, 6], 9: [8, 10]} | dict.fromkeys(
        range(0, 12, 2), [])
    with pytest.raises(ValueError, match="even"):
        parents(7, 0)


def test_each_group_of_suspects_stands_beside_what_was_found():
    panels = plots.suspects(FOUND, GROUPS).figure.axes[:4]
    titles = ["1 · detour", "2 · card", "1 · detour and 3 · cable", "1 · detour and 4 · uplink"]
    assert [ax.get_title("left") for ax in panels] == titles
    would = [[11, 22, 44, 88], [24] * 4, [11, 22, 44, 60], [11, 22, 44, 60]]
    assert [list(ax.lines[0].get_ydata()) for ax in panels] == would
    assert all(list(ax.lines[1].get_ydata()) == [11, 22, 44, 60] for ax in panels)


def test_a_panel_says_where_its_suspects_miss_and_by_how_much():
    figure = plots.suspects(FOUND, GROUPS).figure
    said = [text for ax in figure.axes for text in texts(ax)]
    assert said == ["8 pairs: 88, but 60 was found", "8 pairs: 24, but 60 was found", *["fits all 4 rates"] * 2]
    assert "would get 11, 22, 44, 60 GB/s; fits all 4 rates" in words_of(figure)


def test_the_picture_of_a_faulty_network_says_what_holds_each_number_of_pairs_back():
    ax = plots.faulty_network(FOUND, ["detour", "uplink"])
    assert texts(ax) == ["healthy", "11, detour", "22, detour", "44, detour", "60\nuplink"]
    assert ax.get_title("left") == "With detour and uplink: eight pairs get 60 GB/s, one pair 11"
    assert texts(plots.faulty_network(FOUND))[-1] == "192\nports"


def test_a_piece_walks_through_each_node_and_then_to_the_next():
    ax = plots.walk_round_nodes()
    assert ax.get_title("left") == "Round 256 nodes a piece takes 2,047 hops: 1,792 inside nodes, 255 between"
    said = texts(ax)
    assert said.count("7 short hops") == 3 and {"one long hop", "5.9 ms"} <= set(said)
    assert "All 2,048 GPUs do this at the same time, each with a piece of its own." in said
    assert any("7 · 1.9 + 4.0 = 17.3 µs" in one for one in said)
    assert {"hops inside nodes\n3.4 ms", "between\n1.0 ms", "bytes\n1.5 ms"} <= set(said)
    bars = [patch.get_width() for patch in ax.patches if patch.get_height() == 1.3]
    assert len(bars) == 3 and bars[0] / bars[1] == pytest.approx(1792 * 1.9 / (255 * 4.0))  # to one scale
    assert (nccl.INSIDE["Ring"][1], nccl.BETWEEN["Ring"][1]) == (1.9, 4.0)


def test_a_flag_beside_the_data_takes_room_and_lets_the_receiver_read_at_once():
    ax = plots.flags_beside_data()
    strips = [patch for patch in ax.patches if patch.get_height() == 1.5]
    data, flags = (sum(strip.get_width() for strip in strips if same_color(strip.get_facecolor(), colour))
                   for colour in (NVLINK, plots.LIMIT))  # fmt: skip
    byte = data / 360
    assert flags == pytest.approx((120 + 8) * byte + 1.2)  # LL, LL128, and one flag of Simple
    marks = [line for line in ax.lines if line.get_marker() == "^"]
    assert len(marks) == 30 + 1 + 1 + 1  # and the one that is explained
    assert "30 words of 8 bytes:\n240 bytes to send" in texts(ax) and "1 line: 128 bytes" in texts(ax)


def test_the_bend_of_the_ring_has_its_reason():
    assert "the ring changes to LL" in texts(plots.seconds_over_nodes())
    assert "from 512 nodes on the ring uses LL" in words_of(plots.seconds_over_nodes().figure)


def test_a_link_of_a_long_ring_is_busy_for_a_quarter_of_the_time():
    layer = 501891328  # bytes, as the chapter has them
    ax = plots.link_over_time({"1 layer": layer, "4 layers": 4 * layer})
    assert texts(ax) == ["0.7", "2.2", "busy 25 %", "2.9", "2.2", "busy 57 %"]
    assert "1 layer, a piece of 0.25 MB: 0.72 µs of bytes, then 2.16 µs of latency" in words_of(ax.figure)


def test_the_tokens_of_each_way_stand_below_those_of_computing_alone():
    ax = plots.tokens_over_nodes(TOKENS, 8200, "a model")
    assert texts(ax) == ["3,600, rings", "7,600, units", "computing alone: 8,200"]
    assert ax.get_title("left") == "On 256 nodes a GPU keeps 44 to 93 % of its tokens per second"
    assert "units: 7,800 on 8, 7,700 on 64, 7,600 on 256" in words_of(ax.figure)


def test_a_scale_of_two_decades_has_more_than_one_number():
    ax = plots.seconds_over_size({"measured": {8: 1.3e-4, 1e6: 6e-3}}, title="t")
    low, high = ax.get_ylim()
    assert sum(low <= tick <= high for tick in ax.get_yticks()) >= 4


def test_the_winner_changes_where_nccl_says():
    ax = plots.seconds_over_nodes()
    assert "from 41 nodes on\nthe trees win" in texts(ax)
    assert ring_and_trees(40, 64e6)[0] < ring_and_trees(40, 64e6)[2]
    assert ring_and_trees(41, 64e6)[0] > ring_and_trees(41, 64e6)[2]
    assert f"two trees, in chunks\n{1e3 * ring_and_trees(1024, 64e6)[2]:.1f} ms" in texts(ax)
    assert "ring: 2.05 ms on 4 nodes, 2.88 ms on 16 nodes" in words_of(ax.figure)


def test_the_words_of_the_text_are_in_the_picture_of_rails():
    said = texts(plots.rails())
    assert "grey: leaf switches" in said and {f"rail {place}" for place in range(8)} <= set(said)
    assert {"126 hops: 269 µs\n= 112 · 1.9 + 14 · 4 µs", "28 hops: 146 µs\n= 14 · 1.9 + 14 · 8.5 µs"} <= set(said)


def test_the_hops_on_rails_are_drawn_in_turn_on_one_axis_of_time():
    bars = [patch.get_width() for patch in plots.rails().patches if type(patch) is Rectangle]
    ring, levels = bars[:28], bars[28:]
    assert sum(levels) / sum(ring) == pytest.approx(145.6 / 268.8)
    assert ring[:2] == pytest.approx([8 * 1.9 * ring[1] / 4, ring[1]])
    assert levels[1] / levels[0] == pytest.approx(119 / 13.3)
    assert [hops[1] for hops in (nccl.INSIDE["Ring"], nccl.BETWEEN["Ring"], nccl.BETWEEN["Tree"])] == [1.9, 4.0, 8.5]
    assert {"phase 1", "phase 2", "phase 3"} <= set(texts(plots.rails()))


def test_the_nodes_that_are_drawn_with_rails_are_those_that_are_counted():
    said = texts(plots.rails())
    assert {"node 0", "node 1", "node 7", "0", "8", "63", "8 nodes of 8 GPUs;\nthree are drawn"} <= set(said)


def test_a_place_in_a_measured_curve_can_be_named():
    ax = plots.seconds_over_size({"measured": {8: 1e-5, 1e6: 1e-3}}, notes={"here": (1e6, 1e-3)}, title="t")
    assert "here" in texts(ax)


def test_each_dot_is_compared_with_the_best_ring():
    above = plots.protocol_lines(MEASURED)
    below = above.figure.axes[1]
    assert set(texts(below)) == {"25% above", "on grey: probably\nnot by a ring"}
    dots = [line for line in below.lines if line.get_marker() == "o"]
    assert list(dots[0].get_ydata())[-1] == pytest.approx(0.815, abs=0.001) and len(dots[0].get_xdata()) == 21
    assert "measured at 16.4 kB: 25% above the lowest line" in words_of(above.figure)


def test_without_sizes_that_leave_the_ring_nothing_is_said_of_them():
    ax = plots.protocol_lines(BY_RINGS)
    assert len(ax.figure.axes) == 1 and ax.get_title("left").endswith("NCCL takes the lowest line")
    assert "not by a ring" not in words_of(ax.figure) and "measured: 25.4" in words_of(ax.figure)


def test_one_shot_is_told_beside_nccl_at_the_size_of_a_token():
    said = texts(plots.one_shot_times(MEASURED, dict(all_reduce_h100("one-shot", 8))))
    assert "19.0 µs" in said and "5.3 µs" in said


def test_the_answer_is_drawn_as_times():
    ax = plots.times_between_nodes(TIMES)
    assert [patch.get_width() for patch in ax.patches] == [26.6, 12, 10.7, 1.6]
    assert {"27, measured here", "1.6, by the links' rates"} <= set(texts(ax))
    assert ax.get_title("left") == "27 times as long where the links allow 12, and 11 where they allow 1.6"


def test_all_lines_begin_with_four_nodes():
    lines = plots.seconds_over_nodes().lines
    assert [line.get_xdata()[0] for line in lines[:3]] == [4, 4, 4]
