"""What the pictures show: bars where the events are, cells that say what they hold, axes with units."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import to_hex

from course_lib import Cluster, Event, plots, run, work
from course_lib.plots.memory import PARTS
from course_lib.plots.time import look


class Ranks(list):
    """A result made by hand: so many ranks, these events."""

    def __init__(self, ranks: int, events=(), seconds: float = 0.0, simulated: bool = True) -> None:
        super().__init__([None] * ranks)
        self.events, self.seconds, self.simulated = list(events), seconds, simulated


def bars(ax, kind: str) -> list[tuple[float, float, float, float]]:
    """Return (left, right, top, bottom) of each bar of a kind, in the order drawn."""
    found = [box for drawn in ax.collections if drawn.get_label() == kind for box in drawn.get_paths()]
    corners = [box.vertices for box in found]
    return [(c[:, 0].min(), c[:, 0].max(), c[:, 1].min(), c[:, 1].max()) for c in corners]


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def legend(ax) -> list[str]:
    return [text.get_text() for found in ax.figure.legends for text in found.get_texts()]


def sizes(ax) -> list[float]:
    ax.figure.canvas.draw()
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax.xaxis.label, ax.yaxis.label]
    legends = [*ax.figure.legends, *([ax.get_legend()] if ax.get_legend() else [])]
    return [text.get_fontsize() for text in [*texts, *(text for found in legends for text in found.get_texts())]]


def ring(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(tensor, (rank + 1) % ranks)
    dist.recv(torch.empty_like(tensor), (rank - 1) % ranks)
    sending.wait()


# timeline


def test_a_bar_per_event_in_the_row_of_its_rank_from_start_to_end():
    ax = plots.timeline(Ranks(2, [Event(1, "work", 2.0, 5.0, 2.0)], 6.0))
    ((left, right, top, bottom),) = bars(ax, "work")
    assert (left, right) == (2.0, 5.0)
    assert 0.5 < top < bottom < 1.5
    assert ax.get_xlim() == (0.0, 6.0)


def test_send_and_receive_at_the_same_time_share_the_row_the_send_above():
    ax = plots.timeline(run(ring, torch.zeros(1000), ranks=3, on=Cluster()))
    sends, receives = bars(ax, "send"), bars(ax, "recv")
    assert len(sends) == len(receives) == 3
    for send, receive in zip(sends, receives, strict=True):
        assert send[:2] == receive[:2]
        assert send[3] <= receive[2] + 1e-9  # the y axis points down


def test_what_does_not_overlap_takes_the_whole_height():
    events = [Event(0, "send", 0.0, 1.0, 0.0), Event(0, "recv", 1.0, 2.0, 1.0)]
    ax = plots.timeline(Ranks(1, events, 2.0))
    assert bars(ax, "send")[0][2:] == bars(ax, "recv")[0][2:]


def test_two_sends_at_the_same_time_lie_in_two_lanes():
    events = [Event(0, "send", 0.0, 2.0, 0.0, peer=1), Event(0, "send", 1.0, 3.0, 1.0, peer=2)]
    first, second = bars(plots.timeline(Ranks(1, events, 3.0)), "send")
    assert first[3] <= second[2] + 1e-9


def test_computation_that_overlaps_a_collective_is_seen_beside_it():
    def overlapping(dist):
        handle = dist.all_reduce(torch.ones(100_000), async_op=True)
        work(1e-6)
        handle.wait()

    ax = plots.timeline(run(overlapping, ranks=2, on=Cluster()))
    assert len(bars(ax, "work")) == len(bars(ax, "all_reduce")) == 2
    assert bars(ax, "work")[0][3] <= bars(ax, "all_reduce")[0][2] + 1e-9


def test_a_rank_is_idle_behind_its_bars_from_the_first_moment_to_the_last():
    ax = plots.timeline(Ranks(2, [Event(0, "recv", 3.0, 4.0, 1.0)], 5.0), until=9.0)
    assert [bar[:2] for bar in bars(ax, "idle")] == [(0.0, 5.0), (0.0, 5.0)]


def test_the_legend_holds_only_what_occurs_in_a_fixed_order():
    events = [Event(0, "barrier", 3.0, 4.0, 2.5), Event(0, "my own", 1.0, 2.0, 1.0), Event(0, "send", 0.0, 1.0, 0.0)]
    assert legend(plots.timeline(Ranks(1, events, 4.0))) == ["send", "barrier", "my own", "idle"]


@pytest.mark.parametrize(
    ("seconds", "unit", "right"), [(5.0, "s", 5.0), (0.02, "ms", 20.0), (3e-5, "µs", 30.0), (0.0, "µs", 1.0)]
)
def test_the_time_axis_has_a_unit_that_fits(seconds, unit, right):
    ax = plots.timeline(Ranks(1, [], seconds))
    assert ax.get_xlabel() == f"virtual time in {unit}"
    assert ax.get_xlim()[1] == pytest.approx(right)


def test_the_title_says_which_engine_it_was():
    assert plots.timeline(Ranks(4, [], 0.002)).get_title("left") == "simulated: 4 ranks, 2 ms"
    ax = plots.timeline(Ranks(2, [], 0.5, simulated=False), title="exchange")
    assert ax.get_title("left") == "exchange (measured: 2 ranks, 500 ms)"
    assert ax.get_xlabel() == "wall time in ms"


def test_pictures_with_one_end_have_one_scale_and_unit_and_tell_their_own_time():
    slow, fast = (plots.timeline(Ranks(2, [], seconds), until=2e-3) for seconds in (2e-3, 8e-4))
    assert slow.get_xlim() == fast.get_xlim() == (0, 2.0)
    assert fast.get_title("left") == "simulated: 2 ranks, 0.8 ms"


def test_real_ranks_can_be_drawn():
    ax = plots.timeline(run(ring, torch.zeros(8), ranks=2))
    assert len(bars(ax, "send")) == len(bars(ax, "recv")) == 2
    assert "measured" in ax.get_title("left")


def test_no_events_are_said_in_words():
    ax = plots.timeline(Ranks(3))
    assert words(ax) == ["no events"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2"]


def test_of_many_ranks_the_first_and_last_are_drawn_and_the_others_counted():
    events = [Event(rank, "work", 0.0, 1.0, 0.0) for rank in range(512)]
    ax = plots.timeline(Ranks(512, events, 1.0))
    assert len(bars(ax, "work")) == 16
    assert "… 496 more ranks …" in words(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(r) for r in (*range(8), *range(504, 512))]


def test_named_ranks_only_are_drawn():
    events = [Event(rank, "work", 0.0, 1.0, 0.0) for rank in range(9)]
    ax = plots.timeline(Ranks(9, events, 1.0), ranks=[7, 2])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["7", "2"]
    assert len(bars(ax, "work")) == 2


def test_what_takes_no_time_is_a_hairline_not_nothing():
    ((left, right, *_),) = bars(plots.timeline(Ranks(1, [Event(0, "barrier", 1.0, 1.0, 1.0)], 2.0)), "barrier")
    assert 0 < right - left < 0.01


def test_labels_are_written_where_they_fit():
    events = [Event(0, "work", 0.0, 5.0, 0.0, label="F0"), Event(0, "work", 5.0, 5.01, 5.0, label="F1")]
    assert words(plots.timeline(Ranks(1, events, 10.0))) == ["F0"]


def test_no_letter_is_smaller_than_nine_points_at_notebook_width():
    ring_steps = [Event(r, "send", s, s + 1.0, s - 0.5, label="to right") for r in range(512) for s in range(1, 30)]
    for ax in (
        plots.timeline(Ranks(512, ring_steps, 30.0)),
        plots.shards([[{0, 1}] * 12] * 12, title="much"),
        plots.bandwidth({"one": {1e3: 1e9}}, limit=1e9, title="line"),
    ):
        assert min(sizes(ax)) >= 9
        assert ax.figure.get_size_inches()[0] <= 9.5


def test_a_timeline_can_be_put_into_an_axes_of_ones_own():
    _, (upper, lower) = plt.subplots(2)
    assert plots.timeline(Ranks(1, [Event(0, "work", 0.0, 1.0, 0.0)], 1.0), ax=lower) is lower
    assert not upper.collections


def test_what_was_received_has_a_frame_in_pink_because_it_is_nearly_as_pale_as_what_is_idle():
    ax = plots.timeline(run(ring, torch.ones(4), ranks=2, on=Cluster()))
    edges = {drawn.get_label(): to_hex(drawn.get_edgecolor()[0]).upper() for drawn in ax.collections}
    assert edges["recv"] == plots.SENT and edges["send"] == "#FFFFFF"


# shards


def test_each_cell_says_whose_parts_it_holds_and_shows_a_bar_for_each():
    ax = plots.shards([[{0}, {0, 1}], [[], {1}]], title="after step 1")
    assert words(ax) == ["0", "all 2", "", "1"]
    parts = [patch.get_label() for patch in ax.patches if patch.get_label().startswith("from")]
    assert sorted(parts) == ["from rank 0", "from rank 0", "from rank 1", "from rank 1"]
    assert ax.get_title("left") == "after step 1"


def test_rows_are_ranks_and_columns_chunks():
    ax = plots.shards([[{0}, {1}, {2}], [{0}, {1}, {2}]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["chunk 0", "chunk 1", "chunk 2"]
    assert [text.get_position() for text in ax.texts[:2]] == [(0, -0.18), (1, -0.18)]


def test_a_part_that_was_added_twice_stands_there_twice():
    assert words(plots.shards([[[0, 0, 1], [0]], [[1], [1]]]))[0] == "0+0+1"


@pytest.mark.parametrize(("complete", "dashed"), [("own", [(0, 0), (1, 1)]), ("all", [(0, 0), (1, 0), (0, 1), (1, 1)])])
def test_where_a_chunk_must_be_complete_a_frame_is_dashed_and_the_title_says_so(complete, dashed):
    ax = plots.shards([[{0}, {0, 1}], [[], {1}]], complete=complete)
    frames = [patch.get_xy() for patch in ax.patches if patch.get_linestyle() in ("--", "dashed")]
    assert [(round(x + 0.49), round(y + 0.49)) for x, y in frames] == dashed
    assert "must hold the parts of all 2 ranks" in ax.get_title("left")


def test_complete_cells_have_a_frame_of_their_own():
    ax = plots.shards([[{0, 1}, {0}], [{1}, {1}]])
    frames = [patch.get_linewidth() for patch in ax.patches if not patch.get_label().startswith("from")]
    assert frames[0] > frames[1] == frames[2]


def test_cells_may_be_words_and_columns_may_have_names():
    ax = plots.shards([["W[0:2]", "all"], ["W[2:4]", "all"]], columns=["weights", "bias"])
    assert words(ax) == ["W[0:2]", "all", "W[2:4]", "all"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["weights", "bias"]


def test_beyond_eight_ranks_a_cell_is_darker_the_more_it_holds():
    ax = plots.shards([[set(range(column + 1)) for column in range(10)]] * 10)
    brightness = [sum(patch.get_facecolor()[:3]) for patch in ax.patches[:10]]
    assert brightness == sorted(brightness, reverse=True)
    assert "all 10" in words(ax)
    assert "5 of 10" in words(ax)


def test_beyond_sixteen_chunks_there_are_no_letters():
    assert words(plots.shards([[{0}] * 64] * 64)) == []


def test_nothing_to_hold_is_no_error():
    assert words(plots.shards([])) == []


def test_the_text_twin_has_a_line_per_rank():
    text = plots.shards_text([[[0], [0, 1]], [[], "?"]])
    assert text == "rank 0 |   0   | all 2\nrank 1 |   –   |   ?  "


# bandwidth


def test_each_series_is_a_line_through_its_points_in_order_of_size():
    ax = plots.bandwidth({"ring": {1e6: 2e9, 1e3: 1e7}, "tree": {1e3: 3e7}}, limit=5e9)
    first, second, limit = ax.lines
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([1e3, 1e6], [1e7, 2e9])
    assert list(second.get_xdata()) == [1e3]
    assert set(limit.get_ydata()) == {5e9}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ring", "tree", "link: 5 GB/s"]


def test_series_differ_in_more_than_colour():
    ax = plots.bandwidth({str(number): {1e3: 1e6, 1e4: 1e7} for number in range(5)})
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}
    assert len({line.get_marker() for line in ax.lines}) == len(looks) == 5


def test_both_axes_are_logarithmic_and_have_units():
    ax = plots.bandwidth({"ring": {1e3: 1e6, 1e9: 1e9}})
    ax.figure.canvas.draw()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "1 MB" in [label.get_text() for label in ax.get_xticklabels()]
    assert "10 MB/s" in [label.get_text() for label in ax.get_yticklabels()]


def test_sizes_without_bytes_are_left_out_and_no_series_is_no_error():
    assert list(plots.bandwidth({"ring": {0: 1e6, 10: 1e6}}).lines[0].get_xdata()) == [10]
    assert not plots.bandwidth({}).lines


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (4e3, "4 kB"), (1.5e6, "1.5 MB"), (8e12, "8 TB")]
)
def test_bytes_are_written_with_decimal_units(size, text):
    assert plots.bytes_text(size) == text


def test_what_forward_backward_and_messages_do_has_one_colour_in_time_and_in_memory():
    assert look("F")[0] == look("forward")[0] == look("prefill")[0] == PARTS["activations"][0]
    assert look("B")[0] == look("backward")[0] == PARTS["gradients"][0]
    assert look("send")[0] == look("reduce_scatter")[0]


def test_colours_of_kinds_are_told_apart():
    one_way, all_ways = ("broadcast", "reduce", "gather", "scatter"), ("all_reduce", "all_gather", "reduce_scatter")
    kinds = ("send", "recv", "work", *one_way, *all_ways, "all_to_all", "barrier", "idle", "another")
    looks = [look(kind) for kind in kinds]
    assert len(set(looks)) == len(looks)


def test_a_result_of_any_kind_with_events_can_be_drawn():
    class Played(SimpleNamespace):
        def __len__(self):
            return 2

    ax = plots.timeline(Played(events=[Event(0, "work", 0.0, 1.0, 0.0)], seconds=1.0, simulated=True))
    assert len(bars(ax, "work")) == 1
