"""Pictures of chapter 2: who talks to whom, runs on one axis, nodes and places, sizes, and traces to be read."""

from __future__ import annotations

import matplotlib
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, Rectangle

matplotlib.use("Agg")


from legible import assert_legible

from course_lib import Cluster, plots, run, work
from course_lib.plots import FACES, INK, LIMIT, words_of
from course_lib.plots.kernel_traces import HALVES, STRATEGIES, TRACES
from course_lib.plots.late_rank import NAME, SLOW, barrier_messages
from course_lib.plots.patterns import rounds_of


def to_all(dist, tensor):
    if dist.get_rank():
        dist.recv(tensor, 0)
    else:
        for other in range(1, dist.get_world_size()):
            dist.send(tensor, other)


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


def two_runs() -> dict:
    near = run(to_all, torch.zeros(250_000), ranks=4, on=Cluster())
    far = run(to_all, torch.zeros(250_000), ranks=4, on=Cluster(latency=30e-6))
    return {"near": near, "far": far}


DRAWN = {
    "who_talks": plots.who_talks,
    "doubling": plots.doubling,
    "owners": plots.owners,
    "call_order": lambda: plots.call_order([["loss", "gradient"], ["gradient", "loss"]]),
    "node_groups": plots.node_groups,
    "two_levels": plots.two_levels,
    "kernel_traces": plots.kernel_traces,
    "late_barrier": plots.late_barrier,
    "four_ranks": plots.four_ranks,
    "late_rank": plots.late_rank,
    "late_rank, cause": lambda: plots.late_rank(cause=True),
    "message_sizes": lambda: plots.message_sizes({"a": 4, "b": 2e9}, 5e-6, 50e9),
    "message_sizes, inside": lambda: plots.message_sizes({"a": 4, "b": 2e9}, 5e-6, 50e9, inside=(3.4e-6, 450e9)),
    "race": lambda: plots.race(two_runs(), per_node=[4, 2]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


# Who talks to whom


def test_rounds_are_those_of_the_messages():
    assert rounds_of("broadcast", 4) == [(1, 0, 1), (2, 0, 2), (2, 1, 3)]
    assert rounds_of("gather", 4) == [(1, 1, 0), (2, 2, 0), (3, 3, 0)]
    assert {one[1:] for one in rounds_of("all_gather", 4)} == {(0, 1), (1, 2), (2, 3), (3, 0)}
    everybody = rounds_of("all_to_all", 4)
    assert len(everybody) == len({one[1:] for one in everybody}) == 12 and max(everybody)[0] == 3


@pytest.mark.parametrize("ranks", [2, 5, 8, 16])
def test_a_tree_has_as_many_rounds_as_the_simulator_takes(ranks):
    steps = Cluster(bandwidth=float("inf"), latency=1)
    seconds = run(lambda dist: dist.broadcast(torch.ones(1), 0), ranks=ranks, on=steps).seconds
    assert max(rounds_of("broadcast", ranks))[0] == seconds


def test_each_pattern_says_how_many_messages_and_rounds_it_takes():
    ax = plots.who_talks()
    counts = [text for text in texts(ax) if "messages" in text]
    assert counts == ["3 messages, 2 rounds", "3 messages, 3 rounds", "12 messages, 3 rounds", "12 messages, 3 rounds"]
    assert "gather: round 1: 1 to 0; round 2: 2 to 0; round 3: 3 to 0. rank 0 receives one" in words_of(ax.figure)


def test_who_has_the_tensor_is_coloured_and_who_has_just_received_it_has_a_thick_frame():
    ax = plots.doubling(8)
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    have = [circle for circle in circles if to_hex(circle.get_facecolor()).upper() == FACES[0]]
    assert (len(circles), len(have)) == (32, 1 + 2 + 4 + 8)
    assert sum(circle.get_linewidth() > 2 for circle in circles) == 1 + 2 + 4
    assert ax.get_title("left").endswith("1, 2, 4, 8")


def test_each_rank_ends_with_the_sum_of_its_column():
    ax = plots.owners(4)
    assert [text for text in texts(ax) if text.startswith("rank") and ":" in text] == [
        "rank 0: 60", "rank 1: 64", "rank 2: 68", "rank 3: 72"]  # fmt: skip
    stay = [patch for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_linewidth() > 2]
    assert len(stay) == 4


def test_calls_that_meet_the_wrong_ones_stand_in_a_red_frame():
    mixed = plots.call_order([["loss", "gradient"], ["gradient", "loss"]])
    right = plots.call_order([["loss"], ["loss"]])
    for ax, colour in ((mixed, LIMIT), (right, INK)):
        assert {to_hex(box.get_edgecolor()).upper() for box in ax.patches if isinstance(box, Rectangle)} == {colour}
    assert "loss of rank 0\n+ gradient of rank 1" in texts(mixed)


# Runs on one axis


def test_runs_share_one_axis_and_say_how_many_times_as_long_they_take():
    ax = plots.race(two_runs(), title="a title")
    assert [text for text in texts(ax) if ":" in text] == ["near: 75 µs", "far: 150 µs, 2 times as long"]
    assert ax.get_xlim()[1] == pytest.approx(150, rel=0.01)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2", "3"] * 2
    assert "near: 4 ranks, 75 µs; the ranks are idle for 50% of it; far: 4 ranks, 150 µs" in words_of(ax.figure)


def test_messages_from_node_to_node_are_framed_and_nodes_named():
    ax = plots.race(two_runs(), per_node=[4, 2])
    framed = [bar for bar in ax.patches if to_hex(bar.get_edgecolor()).upper() == INK and bar.get_linewidth() > 1]
    assert len(framed) == 4  # two messages of the second run, each sent and received
    assert [text for text in texts(ax) if text.startswith("node")] == ["node 0", "node 0", "node 1"]


# Nodes and places


def test_the_grid_names_every_rank_in_its_row():
    ax = plots.node_groups(nodes=2, per_node=4)
    ranks = [text for text in ax.texts if text.get_text().startswith("rank")]
    assert [text.get_text() for text in ranks] == [f"rank {rank}" for rank in range(8)]
    assert len({round(text.get_position()[1], 3) for text in ranks}) == 2
    assert "place 3: ranks 3, 7, sum 10" in words_of(ax.figure)
    assert {"0 + 4 = 4", "3 + 7 = 10"} <= set(texts(ax))


def test_a_link_inside_a_node_is_as_many_times_as_thick_as_it_is_fast():
    ax = plots.node_groups(nodes=2, per_node=4)
    wide = [line.get_linewidth() for line in ax.lines]
    assert (len(wide), max(wide) / min(wide)) == (6, pytest.approx(9))  # two nodes, four places
    assert "450 GB/s" in words_of(ax.figure) and "50 GB/s" in words_of(ax.figure)
    assert {text.split(":")[0] for text in texts(ax) if "GB/s" in text} == {"row, 450 GB/s", "column, 50 GB/s"}


def test_a_sum_on_two_levels_has_three_phases_and_pairs_of_equal_places():
    ax = plots.two_levels()
    assert [text for text in texts(ax) if text.startswith("phase")] == [
        "phase 1: inside", "phase 2: on the rails", "phase 3: inside"]  # fmt: skip
    assert words_of(ax.figure).endswith("The pairs that talk across are 0 and 4, 1 and 5, 2 and 6, 3 and 7")


# Sizes and traces


def test_a_size_stands_on_its_side_of_the_line():
    ax = plots.message_sizes({"small": 1e3, "large": 1e9}, 5e-6, 50e9)
    (edge,) = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2]
    assert edge == pytest.approx(250e3)
    assert ax.figure.get_suptitle() == "From 1 kB to 1 GB: small tensors pay latency, large ones bytes"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["small", "large"]


def test_faster_links_have_a_line_of_their_own():
    ax = plots.message_sizes({"small": 1e3, "large": 1e9}, 5e-6, 50e9, inside=(3.4e-6, 450e9))
    edges = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2]
    assert edges == pytest.approx([250e3, 1.53e6])
    assert "the border inside\na node: 1.53 MB" in texts(ax) and "inside a node at 1.53 MB" in words_of(ax.figure)


def test_the_traces_tell_the_strategies_apart():
    calls = {number: [bar[0] for bar in bars if bar[1]] for number, bars in TRACES.items()}
    assert calls == {
        1: ["AllReduce"] * 2, 2: ["AllReduce"] * 8, 3: ["AllGather"] * 4 + ["ReduceScatter"] * 2, 4: ["SendRecv"] * 8,
        5: ["SendRecv"] * 4}
    forward = max(start + length for kernel, _, start, length in TRACES[1] if kernel == "F")
    assert all(start >= forward for kernel, stream, start, _ in TRACES[1] if stream)


def test_traces_with_two_kernels_of_a_kind_in_a_layer_say_so():
    forward = {number: sum(bar[0] == "F" for bar in bars) for number, bars in TRACES.items()}
    assert [number for number, count in forward.items() if count == 4] == list(HALVES)
    assert sum(text.startswith("a layer is two F") for text in texts(plots.kernel_traces())) == len(HALVES)


def test_weights_are_gathered_again_only_after_forward():
    forward = max(start + length for kernel, _, start, length in TRACES[3] if kernel == "F")
    assert sum(start >= forward for kernel, _, start, _ in TRACES[3] if kernel == "AllGather") == 2


def test_the_trace_of_the_experts_sends_and_receives_four_times_in_forward():
    bars = TRACES[plots.trace_of("experts")]
    assert [kernel for kernel, *_ in bars[:8]] == ["F", "SendRecv"] * 4 and set(STRATEGIES) == set(TRACES)


def test_names_of_strategies_are_shown_only_when_they_are_given():
    assert "trace 4" in texts(plots.kernel_traces())
    assert "trace 4: experts" in texts(plots.kernel_traces({1: "a", 2: "b", 3: "c", 4: "experts"}))


# A rank that comes late


@pytest.mark.parametrize("arrivals", [(0, 40, 80, 120), (7, 0, 3), (0, 0, 0, 0, 50)])
def test_the_messages_of_a_barrier_end_when_the_simulator_says(arrivals):
    def come_late(dist):
        work(seconds=arrivals[dist.get_rank()] * 1e-6)
        dist.barrier()

    late = run(come_late, ranks=len(arrivals), on=Cluster())
    assert max(move[-1] for move in barrier_messages(arrivals, 5)) == pytest.approx(late.seconds * 1e6)


def test_the_last_rank_hears_of_three_others_in_two_messages():
    ax = plots.late_barrier()
    assert ax.get_title("left") == "All wait for rank 3, and even rank 3 waits 10 µs"
    near = ax.figure.axes[1]
    heard = [text for text in texts(near) if "round" in text]
    assert heard == ["round 1: hears of rank 2", "round 2: hears of ranks 0 and 1"]
    assert texts(ax)[-2:] == ["works 120 µs", "waits 10 µs"]


def test_the_late_rank_is_shown_only_when_it_is_asked_for():
    ax, told = plots.late_rank(), plots.late_rank(cause=True)
    assert any(NAME in text for text in texts(ax)) and "compute" not in texts(ax)
    assert not {"AllReduce", "sum"} & set(texts(ax))  # a label that only long bars have room for would tell
    late = plots.slow_rank()
    assert SLOW[late] == max(SLOW.values())
    assert told.get_title("left").startswith(f"Rank {late} is late")
    framed = [bar for bar in told.patches if to_hex(bar.get_edgecolor()).upper() == LIMIT]
    assert len(framed) == 4


# What every rank holds


def test_cells_of_panels_that_stand_under_each_other_are_equally_wide():
    wide = [([0.0, 1.0, 2.0, 3.0], [0.0, 1.0])] * 2
    narrow = [([0.0], [1.0])] * 2
    ax = plots.before_after({"a": wide, "b": wide, "c": narrow, "d": wide}, most=2, across=["x", "y"], down=["u", "v"])
    panels = ax.figure.axes
    assert len({panel.get_xlim() for panel in panels[::2]}) == 1
    assert "x" in texts(panels[0]) and panels[2].get_ylabel() == "v"


def test_the_root_is_named():
    ax = plots.before_after({"a": [([1.0], [1.0])] * 3}, root=1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "root: rank 1", "rank 2"]


def test_grids_can_say_above_them_what_all_of_them_show():
    figure = plots.before_after({"a": [([1.0], [1.0])] * 3}, title="each keeps its own").figure
    assert figure.get_suptitle() == "each keeps its own"
    assert_legible(figure)


def test_each_pattern_says_what_it_is_used_for():
    ax = plots.who_talks()
    assert "used for:\ntokens to the experts\nin DeepSeek-V3" in texts(ax)
    assert "Used for: tokens to the experts in DeepSeek-V3" in words_of(ax.figure)
