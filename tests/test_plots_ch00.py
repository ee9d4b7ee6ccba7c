"""The pictures of chapter 0: bands where messages travel, drawings that name everything, letters to be read."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
import torch
from legible import assert_legible
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle

from course_lib import Cluster, run, work
from course_lib.plots import (
    COMPUTE,
    RECEIVED,
    SENT,
    WAITING,
    many_copies,
    message_cost,
    messages,
    one_model,
    ring_pieces,
    separate_memories,
    traces,
    who_to_whom,
    words_of,
)
from course_lib.plots.messages import DONE
from course_lib.plots.small_ring import pieces
from course_lib.plots.traces import CALLS, PASSES, SKETCHES

LINK = Cluster(bandwidth=1e9, latency=2e-6)


def pass_on(dist, tensor):
    if dist.get_rank() == 0:
        dist.send(tensor, dst=1)
    else:
        dist.recv(torch.empty_like(tensor), src=0)


def both_ways(dist, tensor):
    peer = 1 - dist.get_rank()
    sending = dist.isend(tensor, peer)
    dist.recv(torch.empty_like(tensor), peer)
    sending.wait()


def overlapped(dist, tensor):
    if dist.get_rank() == 0:
        sending = dist.isend(tensor, dst=1)
        work(10e-6)
        sending.wait()
    else:
        dist.recv(torch.empty_like(tensor), src=0)


def bars(ax, colour: str) -> list[tuple[float, float]]:
    """Return (start, end) of the bars of a colour."""
    found = [box for box in ax.patches if isinstance(box, Rectangle) and to_hex(box.get_facecolor()) == colour.lower()]
    return [(round(box.get_x(), 6), round(box.get_x() + box.get_width(), 6)) for box in found]


def bands(ax) -> list[list[tuple[float, float]]]:
    found = [band for band in ax.patches if isinstance(band, Polygon)]
    return [[(round(x, 6), round(y, 2)) for x, y in band.get_xy()[:4]] for band in found]


# Messages


def test_a_message_leaves_while_its_bytes_last_and_arrives_a_latency_later():
    ax = messages(run(pass_on, torch.ones(1000), ranks=2, on=LINK), LINK, title="One message")
    assert bars(ax, SENT) == [(0, 4)] and bars(ax, RECEIVED) == [(2, 6)]
    assert sorted(bars(ax, "#ffffff")) == [(0, 2), (4, 6)]
    (band,) = bands(ax)
    assert [x for x, _ in band] == [0, 4, 6, 2] and band[0][1] < band[2][1]
    assert "rank 0 sends 4 kB to rank 1 from 0 to 6 µs, of which 2 µs are latency" in words_of(ax.figure)
    assert ax.get_title("left") == "One message: 6 µs"
    assert_legible(ax.figure)


def test_two_messages_that_face_each_other_cross():
    ax = messages(run(both_ways, torch.ones(1000), ranks=2, on=LINK), LINK)
    down, up = sorted(bands(ax), key=lambda band: band[0][1])
    assert [x for x, _ in down] == [x for x, _ in up] == [0, 4, 6, 2]
    assert down[0][1] == up[2][1] and down[2][1] == up[0][1]
    assert WAITING.lower() not in [to_hex(key.get_facecolor()) for key in ax.figure.legends[0].get_patches()]


def test_runs_below_each_other_share_one_axis_and_are_compared_with_the_first():
    runs = {name: run(pass_on, torch.ones(count), ranks=2, on=LINK) for name, count in (("4 kB", 1000), ("4 B", 1))}
    long, short = messages(runs, LINK, title="Two sizes")
    assert long.get_xlim() == short.get_xlim() == (0, pytest.approx(6))
    assert long.get_title("left") == "4 kB: 6 µs" and short.get_title("left") == "4 B: 2 µs, 0.334 times as long"
    drawn = [text.get_text() for text in short.texts]
    assert "1 message of 4 B: 2 µs of latency,\nnext to no time for the bytes" in drawn
    assert not any("less" in words for words in drawn), "they are not the same job"
    assert words_of(long.figure).startswith("Two sizes; 4 kB: 6 µs")
    assert_legible(long.figure)
    assert_legible(short.figure)


def test_of_the_same_job_the_shorter_run_says_how_much_less_it_takes():
    def twice(dist, tensor):
        pass_on(dist, tensor[:500])
        pass_on(dist, tensor[500:])

    one, two = (run(function, torch.ones(1000), ranks=2, on=LINK) for function in (pass_on, twice))
    slow, quick = messages({"two": two, "one": one}, Cluster(bandwidth=1e9, latency=2e-6), title="One job")
    assert [text.get_text() for text in slow.texts if "less" in text.get_text()] == []
    assert [text.get_text() for text in quick.texts if "less" in text.get_text()] == ["2 µs less"]


def test_without_a_title_two_runs_of_one_job_say_which_is_quicker():
    one, other = (run(pass_on, torch.ones(1000), ranks=2, on=link) for link in (LINK, Cluster(1e9, 6e-6)))
    slow, _ = messages({"far": other, "near": one}, LINK)
    assert slow.figure.get_suptitle() == "6 µs instead of 10 µs for the same job: near"
    assert slow.figure._suptitle.get_position()[0] == slow.get_position().x0
    same, _ = messages({"one": one, "again": one}, LINK)
    assert same.figure.get_suptitle() == "The same job, and the same time: 6 µs"
    assert_legible(slow.figure)


def test_a_message_lies_beside_its_band_and_work_away_from_it():
    def send_up(dist):
        if dist.get_rank() == 1:
            sending = dist.isend(torch.ones(1000), dst=0)
            work(10e-6)
            sending.wait()
        else:
            dist.recv(torch.empty(1000), src=1)

    for function, below in ((lambda dist: overlapped(dist, torch.ones(1000)), True), (send_up, False)):
        ax = messages(run(function, ranks=2, on=LINK), LINK)
        (sent,), (worked,) = ([box.get_y() for box in ax.patches if isinstance(box, Rectangle)
                               and to_hex(box.get_facecolor()) == colour.lower()] for colour in (SENT, COMPUTE))
        assert (sent > worked) == below, "the axis points down"


def test_a_rank_that_is_done_looks_otherwise_than_one_that_waits():
    def wait_then_work(dist):
        if dist.get_rank() == 0:
            dist.send(torch.ones(1000), dst=1)
            work(10e-6)
        else:
            work(3e-6)
            dist.recv(torch.empty(1000), src=0)

    ax = messages(run(wait_then_work, ranks=2, on=LINK), LINK)
    assert (0, 19) in bars(ax, WAITING) and (9, 19) in bars(ax, DONE)
    names = [key.get_text() for key in ax.figure.legends[0].get_texts()]
    assert names[-2:] == ["waits", "is done"]
    assert_legible(ax.figure)


def test_bytes_that_take_no_time_are_not_in_the_legend():
    ax = messages(run(pass_on, torch.ones(1), ranks=2, on=Cluster()), Cluster())
    assert [key.get_text() for key in ax.figure.legends[0].get_texts()] == ["latency"]


def test_a_bar_too_short_for_its_words_says_who_the_other_is():
    def star(dist):
        for other in (1, 2, 3, 4, 5):
            if dist.get_rank() == 0:
                dist.recv(torch.empty(1000), other)
            elif dist.get_rank() == other:
                dist.send(torch.ones(1000), 0)

    ax = messages(run(star, ranks=6, on=LINK), LINK)
    written = [text.get_text() for text in ax.texts]
    assert "from 3" in written and written.count("to 0") == 5
    assert_legible(ax.figure)


def test_bars_that_share_a_row_have_their_words():
    ax = messages(run(overlapped, torch.ones(1000), ranks=2, on=LINK), LINK)
    written = [text.get_text() for text in ax.texts]
    assert "work 10 µs" in written and "sends 4 kB: 4 µs" in written
    assert_legible(ax.figure)


def test_work_beside_a_message_shares_the_row_and_is_told():
    ax = messages(run(overlapped, torch.ones(1000), ranks=2, on=LINK), LINK)
    assert bars(ax, COMPUTE) == [(0, 10)] and bars(ax, SENT) == [(0, 4)]
    assert "rank 0 works from 0 to 10 µs" in words_of(ax.figure)


def test_many_messages_are_told_together():
    def star(dist):
        for other in range(1, dist.get_world_size()):
            if dist.get_rank() == 0:
                dist.recv(torch.empty(1000), other)
            elif dist.get_rank() == other:
                dist.send(torch.ones(1000), 0)

    ax = messages(run(star, ranks=12, on=LINK), LINK)
    assert "11 messages of 4 kB: 22 µs of latency, 44 µs of bytes in all" in words_of(ax.figure)
    assert_legible(ax.figure)


def test_on_a_cluster_of_nodes_each_message_has_the_latency_of_its_link():
    nodes = Cluster(nodes=2, gpus_per_node=1, bandwidth=1e9, latency=1e-6, nic_bandwidth=1e9, nic_latency=3e-6)
    ax = messages(run(pass_on, torch.ones(1000), ranks=2, on=nodes), nodes)
    assert bars(ax, RECEIVED) == [(3, 7)]


def test_measured_runs_are_refused():
    class Measured(list):
        events, seconds, simulated = [], 1.0, False

    with pytest.raises(ValueError, match="only the simulator knows"):
        messages(Measured([None]), LINK)


# Drawings


def test_many_copies_names_every_noun():
    ax = many_copies()
    drawn = " ".join(text.get_text() for text in ax.texts)
    machines = ("laptop", "process", "memory", "GPU", "NVLink", "network", "NIC", "node", "gloo", "NCCL")
    for noun in (*machines, "starts", "rank 3", "16,383"):
        assert noun in drawn, noun
    assert "own memory" in words_of(ax.figure)
    assert_legible(ax.figure)


def test_ranks_of_an_earlier_run_are_crossed_out():
    ax = separate_memories([], [["rank 0 was here"], ["rank 1 was here"]], ended=2)
    assert len(ax.lines) == 2 * 2 and "The 2 ranks of the first run have ended" in words_of(ax.figure)
    assert_legible(ax.figure)


def test_separate_memories_show_what_each_process_holds():
    ax = separate_memories([], [["rank 0 was here"], ["rank 1 was here"]])
    words = words_of(ax.figure)
    assert "In the notebook's process notes = []" in words and "on rank 1 notes = ['rank 1 was here']" in words
    assert "Three processes, three lists" in words
    assert_legible(ax.figure)
    with pytest.raises(ValueError, match="1 to 4"):
        separate_memories([], [[]] * 5)


def test_who_to_whom_tells_each_message():
    ax = who_to_whom({"in": [(1, 0), (2, 0)], "out": [(0, 1), (0, 2)]}, 3, star=True, title="A star")
    told = words_of(ax.figure)
    assert "in: rank 1 sends to rank 0, rank 2 sends to rank 0" in told
    assert "out: rank 0 sends to rank 1" in told and told.startswith("A star; ")
    assert sum(bool(getattr(text, "arrow_patch", None)) for text in ax.texts) == 4
    assert_legible(ax.figure)


def test_what_a_message_carries_is_written_on_it_and_told():
    for star in (True, False):
        ax = who_to_whom({"in": [(1, 0, "2")]}, 2, star=star, title="A message with a value")
        assert "2" in [text.get_text() for text in ax.texts]
        assert "rank 1 sends 2 to rank 0" in words_of(ax.figure)
        assert_legible(ax.figure)


def test_a_rank_without_messages_waits_and_a_stuck_message_never_starts():
    ax = who_to_whom({"": [(0, 2)]}, 3, under={1: "takes no part"})
    assert [to_hex(box.get_facecolor()) for box in ax.patches].count(WAITING.lower()) == 1
    assert "under rank 1: takes no part" in words_of(ax.figure)
    stuck = who_to_whom({"circle": [(0, 1), (1, 0)]}, 2, stuck=["circle"])
    assert "rank 0 waits to send to rank 1" in words_of(stuck.figure)
    assert_legible(ax.figure)


def test_one_model_tells_where_each_rank_ends():
    alone = [[0.0, 1.0, end] for end in (2.0, 2.01, 4.0, 3.99)]
    ax = one_model(alone, [[0.0, 1.0, 3.0]] * 4, goal=3)
    assert "rank 2 alone 4.00" in words_of(ax.figure) and "with the sum every rank has 3.00" in words_of(ax.figure)
    assert "the data were made with 3" in words_of(ax.figure)
    assert len(ax.lines) == 9 + 4  # and from each end that stands alone a line to its name
    assert ax.spines["bottom"].get_bounds() == (0, 2)
    assert_legible(ax.figure)


def test_the_ring_of_three_ends_with_all_pieces_everywhere():
    held, new = pieces(2)
    assert [[piece for piece in range(3) if len(held[rank][piece]) == 3] for rank in range(3)] == [[0], [1], [2]]
    assert new == [{0}, {1}, {2}], "what came last completes the sums"
    assert all(len(piece) == 3 for row in pieces(4)[0] for piece in row)
    ax = ring_pieces()
    assert "after round 1: rank 0 has a, a+c, a" in words_of(ax.figure)
    assert "after round 4: rank 0 has a+b+c, a+b+c, a+b+c" in words_of(ax.figure)
    assert sum(bool(getattr(text, "arrow_patch", None)) for text in ax.texts) == 3 * 4, "three messages a round"
    assert_legible(ax.figure)


def test_the_cost_of_a_message_is_drawn_with_its_bend_and_what_was_measured():
    named = {"one number": 4, "a token": 16384, "a bucket": 25e6, "a gradient": 4e9}
    for quick in (1, 10):
        ax = message_cost(Cluster(), named, {4: 50e-6 / quick, 4_000_000: 2e-3})
        assert_legible(ax.figure)
    words = words_of(ax.figure)
    assert "a token, 16.4 kB: 5.33 µs" in words and "a gradient, 4 GB: 80 ms" in words
    assert "measured on another link, 4 MB: 2 ms; its bend is at 10 kB" in words  # 4 MB * 5 / (2000 - 5)
    assert len([line for line in ax.lines if line.get_marker() == "D"]) == 2
    assert "At 250 kB bytes and latency take equally long" in words
    (line,) = (line for line in ax.lines if len(line.get_xdata()) > 100)
    assert line.get_ydata()[0] == pytest.approx(5e-6, rel=0.01)
    assert_legible(message_cost(Cluster(), named).figure)


def test_the_sketched_traces_have_the_calls_of_their_strategies():
    tensor, pipeline, data, experts, sharded = ([bar.kind for bar in SKETCHES[number]()] for number in range(1, 6))
    layers = 2
    assert tensor.count("all_reduce") == 2 * layers * 2 and data.count("all_reduce") == layers
    assert pipeline.count("send") == pipeline.count("recv") == pipeline.count("F") * 2
    assert experts.count("all_to_all") == 2 * layers * 2
    assert sharded.count("all_gather") == 2 * layers - 1, "the last layer is not fetched again for backward"
    assert sharded.count("reduce_scatter") == layers
    assert {kind for kinds in (tensor, pipeline, data, experts, sharded) for kind in kinds} == {*CALLS, *PASSES}


@pytest.mark.parametrize("number", SKETCHES)
def test_in_a_sketch_no_two_bars_of_a_row_overlap(number):
    for computes in (True, False):
        bars_ = [bar for bar in SKETCHES[number]() if (bar.kind in PASSES) == computes]
        row = sorted((bar.start, bar.start + bar.length) for bar in bars_)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in zip(row, row[1:], strict=False))


def test_backward_of_experts_is_forward_from_its_end_and_that_of_tensor_parallelism_too():
    """The way back of a call that ended forward begins backward; where forward began by computing, backward ends so."""
    for number, around in ((4, "all_to_all"), (1, "all_reduce")):
        order = [bar.kind for bar in sorted(SKETCHES[number](), key=lambda bar: bar.start)]
        turn = order.index("B")
        assert order[0] == "F" and order[turn - 1] == around
        assert order[-1] == ("B" if number == 4 else "all_reduce")
    experts = sorted(SKETCHES[4](), key=lambda bar: bar.start)
    mirrored = [(bar.kind.replace("B", "F"), bar.name) for bar in experts[::-1]]
    assert mirrored == [(bar.kind.replace("B", "F"), bar.name) for bar in experts]


def test_in_fsdp_a_layer_computes_only_after_its_gather_and_then_without_a_gap():
    bars_ = SKETCHES[5]()
    gathers = sorted(bar.start + bar.length for bar in bars_ if bar.kind == "all_gather")
    layers = sorted((bar.start, bar.start + bar.length) for bar in bars_ if bar.kind in PASSES)
    fetched = [start for place, (start, _) in enumerate(layers) if place != 2]  # backward begins with what is there
    assert all(gathered <= start for gathered, start in zip(gathers, fetched, strict=True))
    assert all(end == pytest.approx(start) for (_, end), (start, _) in zip(layers, layers[1:], strict=False))


def test_the_traces_are_numbered_and_named_only_when_told():
    ax = traces()
    assert "FSDP" not in words_of(ax.figure) and "sketch 5: computes from F1 1.2" in words_of(ax.figure)
    assert_legible(ax.figure)
    named = traces(named=True)
    assert "sketch 2: pipeline" in [text.get_text() for text in named.texts]
    assert "sketch 5, FSDP (AG ahead of each layer" in words_of(named.figure)
    framed = [box for box in named.patches if isinstance(box, Rectangle) and box.get_linewidth() > 1]
    gaps = [text for text in named.texts if text.get_text() == "gap"]  # of the pipeline, framed as well
    assert len(gaps) == 5 and len(framed) == 2 * 5 + len(gaps)
    assert not [box for box in ax.patches if box.get_linewidth() > 1]
    assert_legible(named.figure)
    alike = traces(3, 5, named=True, title="Two")
    assert words_of(alike.figure).startswith("Two; ") and "sketch 1" not in words_of(alike.figure)
    assert_legible(alike.figure)
