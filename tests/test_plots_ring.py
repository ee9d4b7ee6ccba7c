"""The pictures of chapter 3: star and ring on one axis, a chunk's journey, the ring step by step, time over ranks."""

from __future__ import annotations

import matplotlib
import pytest
import torch
from legible import assert_legible
from matplotlib.colors import to_hex

from course_lib import Cluster, algorithms, plots, run
from course_lib.lessons.ring import (
    ring_steps,
    steps_of,
    whole_tensors_around,
    with_chunk_numbers,
    with_partners,
)
from course_lib.plots.ring import ring_messages, star_and_ring_times
from solutions.ch03_ring_all_reduce import all_gather_ring, reduce_scatter_ring, ring_all_reduce

matplotlib.use("Agg")


def panels():
    times = {name: {4: factor, 8: 2.1 * factor, 512: 30 * factor} for name, factor in (("star", 2e-3), ("ring", 1e-4))}
    return plots.seconds_over_ranks({"large": times, "small": {"star": times["ring"], "ring": times["ring"]}},
                                    title="two sizes")[0]  # fmt: skip


RATES = {"first": {4e3: 1e7, 4e5: 2e8, 4e6: 5e8}, "second": {4e3: 2e7, 4e5: 1e9, 4e6: 4e8}}


def strips():
    return plots.chunk_strips({"ring": ring_steps(4), "relay": steps_of(whole_tensors_around, 4)}, title="both")


DRAWN = {
    "strips": strips,
    "all steps": lambda: plots.chunk_strips({"": ring_steps(4)}, per_row=3, title="six"),
    "rates": lambda: plots.rates_over_size(RATES, title="rates"),
    "rates, marked": lambda: plots.rates_over_size(RATES, title="rates", marks={"first wins": 1e5}),
    "star_and_ring": plots.star_and_ring,
    "star_and_ring_times": star_and_ring_times,
    "chunk_journey": plots.chunk_journey,
    "tree_rounds": plots.tree_rounds,
    "orders": plots.orders_of_adding,
    "arrivals": lambda: came_in(),
    "latency": lambda: plots.timelines({"one message": _one_message()}, halves=True, latency=5e-6)[0],
    **{f"step {step}": lambda step=step: plots.ring_step(ring_steps(4), step) for step in range(7)},
    "panels": panels,
    "split": lambda: plots.latency_and_bytes({"ring": (10e-3, 1e-6), "tree": (1e-4, 3e-6)}, title="two ways"),
}


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_legible(name):
    assert_legible(DRAWN[name]().figure)


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_the_messages_drawn_are_those_of_the_built_in_ring(ranks):
    sizes = list(range(1, ranks + 1))  # a message's size tells its chunk
    for rank in range(ranks):
        built_in = [size - 1 for rounds in algorithms.all_reduce(rank, sizes) for kind, _, size in rounds if
                    kind == "send"]  # fmt: skip
        assert built_in == [chunk for sender, _, _, chunk in ring_messages(ranks) if sender == rank]


def test_star_and_ring_share_one_axis_and_the_ratio_is_written_on_it():
    star, star_time, ring, ring_time = plots.star_and_ring().figure.axes
    assert star_time.get_xlim() == ring_time.get_xlim()
    assert "done after 1.5 instead of 6:\n4 times as fast" in words(ring_time)
    assert "Star: every message passes rank 0's port" in plots.words_of(star.figure)
    assert [text for text in words(ring) if text.startswith("chunk")] == ["chunk 3", "chunk 0", "chunk 1", "chunk 2"]


def test_on_its_journey_a_chunk_gathers_every_part_once_and_ends_complete_on_all_ranks():
    said = plots.words_of(plots.chunk_journey().figure)
    assert "rank 1 holds 1, rank 2 holds 1+2, rank 3 holds 1+2+3, rank 0 holds 0+1+2+3, rank 1 holds 0+1+2+3" in said
    drawn = words(plots.chunk_journey())
    assert (drawn.count("add"), drawn.count("copy")) == (3, 3)


def framed(ax) -> int:
    pink = plots.SENT.upper()
    return sum(to_hex(patch.get_edgecolor()).upper() == pink and patch.get_linewidth() == 3 for patch in ax.patches)


@pytest.mark.parametrize("step", range(1, 7))
def test_what_moved_in_a_step_is_framed_and_says_where_it_came_from(step):
    ax = plots.ring_step(ring_steps(4), step)
    assert framed(ax) == 4
    assert sum("from rank" in part for part in plots.words_of(ax.figure).split(";")) == 4
    for rank in range(4):
        assert f"rank {rank} got chunk {(rank - 1 - step) % 4} from rank {(rank - 1) % 4}" in plots.words_of(ax.figure)
    assert ax.get_title("left").endswith("added" if step <= 3 else "copied")


@pytest.mark.parametrize("step", [1, 2, -1])
def test_of_one_lap_every_step_is_named_for_what_it_does(step):
    adds = plots.ring_step(steps_of(reduce_scatter_ring, 3), step).get_title("left")
    assert adds == f"step {step % 3} of 2: framed in pink is what just came in and was added"
    copies = plots.ring_step(steps_of(all_gather_ring, 3, only_own=True), step).get_title("left")
    assert copies == f"step {step % 3} of 2: framed in pink is what just came in and was copied"


def test_a_frame_is_explained_once_pink_in_the_title_and_thick_below():
    drawn = [plots.ring_step(ring_steps(4), step) for step in (0, 1, 3)]
    assert [words(ax)[-1] for ax in drawn] == ["", "", "thick frame: the sum is complete"]
    assert ["framed in pink" in ax.get_title("left") for ax in drawn] == [False, True, True]


def test_a_step_without_a_change_says_so():
    assert plots.ring_step([[[[0]]]] * 2, 1).get_title("left") == "step 1 of 1: nothing changed"


def test_before_the_first_message_nothing_is_framed():
    ax = plots.ring_step(ring_steps(4), 0, "yours: ")
    assert framed(ax) == 0
    assert ax.get_title("left") == "yours: before the first message"


def test_a_ring_to_the_left_has_its_arrows_from_the_right():
    def leftward(dist, tensor):
        ranks = dist.get_world_size()
        ring_all_reduce(_Mirrored(dist, ranks), tensor)

    said = plots.words_of(plots.ring_step(steps_of(leftward, 4), 1).figure)
    assert "rank 2 got chunk 0 from rank 3" in said


class _Mirrored:
    """A `dist` whose ranks are numbered the other way round."""

    def __init__(self, dist, ranks):
        self._dist, self._ranks = dist, ranks

    def get_rank(self):
        return -self._dist.get_rank() % self._ranks

    def get_world_size(self):
        return self._ranks

    def isend(self, tensor, peer):
        return self._dist.isend(tensor, -peer % self._ranks)

    def recv(self, tensor, peer):
        return self._dist.recv(tensor, -peer % self._ranks)


def test_a_cell_that_is_no_sum_of_parts_is_drawn_as_its_text():
    steps = [[[[0], [0]], [[1], [1]]], [["?", [0]], [[1], [0, 1]]]]
    ax = plots.ring_step(steps, 1)
    assert "?" in words(ax) and framed(ax) == 2


def test_all_steps_have_one_size():
    sizes = set()
    for step in range(7):
        figure = plots.ring_step(ring_steps(4), step).figure
        figure.canvas.draw()
        sizes.add(tuple(figure.get_size_inches()))
    assert len(sizes) == 1


def test_panels_share_the_axis_of_time_and_tell_the_ratio_at_the_most_ranks():
    large, small = panels().figure.axes
    assert large.get_ylim() == small.get_ylim()
    assert "ring 20\ntimes as fast" in words(large) and "ring 1\ntimes as fast" in words(small)
    assert "star: 2 ms at 4, 4.2 ms at 8, 60 ms at 512" in plots.words_of(large.figure)


def test_a_name_has_one_colour_in_all_panels():
    line = {4: 1.0, 1024: 700.0}
    panels = {"many bytes": {"star": line, "ring": {4: 0.5, 1024: 0.6}},
              "few": {"ring": line, "trees": {4: 1.0, 1024: 2.0}}}  # fmt: skip
    many, few = plots.seconds_over_ranks(panels)
    colours = [{drawn.get_label(): drawn.get_color() for drawn in ax.lines} for ax in (many, few)]
    assert colours[0]["ring"] == colours[1]["ring"] and len({*colours[0].values(), *colours[1].values()}) == 3
    assert "ring 1,167\ntimes as fast" in words(many) and "trees 350\ntimes as fast" in words(few)


@pytest.mark.parametrize("ranks", [5, 8])
def test_the_arrows_of_the_trees_are_the_messages_of_the_built_in_reduce_and_broadcast(ranks):
    drawn = plots.words_of(plots.tree_rounds(ranks).figure).partition("; broadcast")
    for algorithm, said in ((algorithms.reduce, drawn[0]), (algorithms.broadcast, drawn[2])):
        built_in = [(rank, peer) for rank in range(ranks) for messages in algorithm(rank, ranks, 1, 0)
                    for kind, peer, _ in messages if kind == "send"]  # fmt: skip
        assert sorted(built_in) == [(one, other) for one in range(ranks) for other in range(ranks)
                                    if f" {one} sends to {other}" in said]  # fmt: skip
    assert f"{ranks} of {ranks} have the tensor" in drawn[2]


# The learner's own ring on the timeline


@pytest.mark.parametrize("answer", ["plain", "batched"])
def test_messages_of_a_ring_are_labelled_with_the_chunk_they_carry(answer):
    trace = with_chunk_numbers(ring_all_reduce if answer == "plain" else batched, 1024, 4, Cluster())
    for rank in range(4):
        sent = [(rank - 1 - step) % 4 for step in range(6)]
        assert [event.label for event in trace.of(rank, "send")] == list(map(str, sent))
        assert [event.label for event in trace.of(rank, "recv")] == [str((chunk - 1) % 4) for chunk in sent]
    assert trace.simulated and trace.seconds > 0 and trace.bytes_sent == [6 * 1024] * 4


def batched(dist, tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(2 * (ranks - 1)):
        coming = chunks[(rank - 2 - step) % ranks]
        arrived = coming.clone()
        going = dist.P2POp(dist.isend, chunks[(rank - 1 - step) % ranks].clone(), (rank + 1) % ranks)
        for handle in dist.batch_isend_irecv([going, dist.P2POp(dist.irecv, arrived, (rank - 1) % ranks)]):
            handle.wait()
        coming.copy_(coming + arrived if step < ranks - 1 else arrived)


def test_messages_that_are_no_chunk_have_no_label():
    def whole(dist, tensor):
        sending = dist.isend(tensor, (dist.get_rank() + 1) % dist.get_world_size())
        dist.recv(tensor.clone(), (dist.get_rank() - 1) % dist.get_world_size())
        sending.wait()

    assert {event.label for event in with_chunk_numbers(whole, 64).events} == {""}


def test_messages_say_with_whom():
    trace = with_partners(_one_message())
    assert [(event.rank, event.label) for event in trace.events] == [(0, "to 1"), (1, "from 0")]
    assert trace.simulated and trace.seconds == _one_message().seconds


def _one_message():
    def one(dist):
        return dist.recv(torch.empty(1), 0) if dist.get_rank() else dist.send(torch.ones(1), 1)

    return run(one, ranks=2, on=Cluster())


# In which order parts are added


@pytest.mark.parametrize("ranks", [3, 4])
def test_the_orders_drawn_are_those_of_the_ring_and_of_the_false_ring(ranks):
    said = plots.words_of(plots.orders_of_adding(ranks).figure)
    ring, false = ring_steps(ranks), steps_of(whole_tensors_around, ranks)
    for row in range(ranks):
        at = [(row + 1 + hop) % ranks for hop in range(ranks)]  # where the chunk is after each hop
        assert f"chunk {row} is " + " + ".join(map(str, _joined(ring, at, row))) in said
        assert f"rank {row} is " + " + ".join(map(str, _joined(false, [row] * ranks, 0))) in said


def _joined(steps, at, chunk) -> list[int]:
    """Return the parts of a chunk in the order in which they join it, where it is `at[step]` after each step."""
    held = [set(steps[step][rank][chunk]) for step, rank in enumerate(at)]
    return [(now - was).pop() for was, now in zip([set(), *held], held, strict=False)]


# All steps beside one another, and rates


def frames(ax, colour) -> int:
    return sum(to_hex(patch.get_edgecolor()) == colour.lower() and to_hex(patch.get_facecolor(), True).endswith("00")
               for patch in ax.patches)  # fmt: skip


def test_strips_frame_what_came_in_and_what_is_complete():
    ring = plots.chunk_strips({"": ring_steps(4)})
    assert frames(ring, plots.SENT) == 6 * 4
    assert frames(ring, "#222222") == 4 + 8 + 12 + 16
    assert "step 3: add; 4 of 16 chunks are complete; step 4: copy; 8 of 16" in plots.words_of(ring.figure)


def test_strips_say_how_much_each_rank_receives_but_only_in_words():
    assert not [text for text in words(strips()) if "receives" in text]  # a reader of the picture counts frames
    said = plots.words_of(strips().figure)
    assert "ring: each rank receives 1.5 tensors" in said and "relay: each rank receives 3 tensors" in said


def came_in():
    return plots.arrivals({"ring": ring_steps(4), "relay": steps_of(whole_tensors_around, 4)}, title="both")


def test_a_ring_brings_sums_and_a_false_ring_brings_single_parts():
    ring, _, relay = plots.words_of(came_in().figure).partition("relay")
    assert "step 2: chunk 1 with the parts of 2+3; step 3: chunk 0 with the parts of 1+2+3; step 4: chunk 3" in ring
    assert ring.count("chunk") == 6 and relay.count("chunk") == 12
    assert all(f"chunk {chunk} with the parts of {4 - step}" in relay for chunk in range(4) for step in (1, 2, 3))
    assert relay.count("+") == 0


def test_a_message_is_hatched_as_long_as_its_latency_at_the_end_of_its_send_and_the_beginning_of_its_receive():
    (ax,) = plots.timelines({"one message": _one_message()}, halves=True, latency=5e-6)
    boxes = {bars.get_label(): [] for bars in ax.collections}
    for bars in ax.collections:
        boxes[bars.get_label()] += [path.get_extents() for path in bars.get_paths()]
    assert [late.width for late in boxes["latency"]] == pytest.approx([5, 5])
    (sent,), (received,) = boxes["send"], boxes["recv"]
    upper, lower = sorted(boxes["latency"], key=lambda box: box.y0 % 1, reverse=True)
    assert (upper.x1, lower.x0) == pytest.approx((sent.x1, received.x0))


def test_latency_has_one_hatch_and_one_colour_in_every_picture():
    (ax,) = plots.timelines({"one message": _one_message()}, halves=True, latency=5e-6)
    (mine,) = [key for key in ax.figure.legends[0].legend_handles if key.get_label() == "latency"]
    fast = Cluster(bandwidth=50e9, latency=5e-6)
    (theirs,) = [key for key in plots.messages({"one": _one_message()}, fast).figure.legends[0].legend_handles
                 if key.get_label() == "latency"]
    one, other = ((key.get_hatch(), key.get_edgecolor(), key.get_facecolor()) for key in (mine, theirs))
    assert one == other


def test_rates_have_their_names_on_the_lines():
    ax = plots.rates_over_size(RATES)
    assert set(words(ax)) == {"first", "second"}
    assert ax.get_legend() is None
    assert "first: 10 MB/s at 4 kB" in plots.words_of(ax.figure)


def test_names_stand_beside_the_ends_of_lines_that_end_apart():
    apart = {"first": {4e3: 1e7, 4e6: 5e8}, "second": {4e3: 2e7, 4e6: 4e9}}
    ax = plots.rates_over_size(apart)
    assert {text.xy[0] for text in ax.texts} == {4e6} and ax.get_xlim()[1] > 2e7


def test_in_halves_sends_lie_above_receives_also_where_they_do_not_overlap():
    (ax,) = plots.timelines({"one message": _one_message()}, halves=True)
    tops = {bars.get_label(): bars.get_paths()[0].vertices[:, 1].min() % 1 for bars in ax.collections}
    assert tops["send"] == pytest.approx(0.6) and tops["recv"] == pytest.approx(0.0)  # rows reach from -0.4 to 0.4


def test_a_marked_size_is_named():
    ax = plots.rates_over_size(RATES, marks={"first wins": 898e3})
    assert " first wins:\n 898 kB" in words(ax) and "a line at 898 kB: first wins" in plots.words_of(ax.figure)


def test_of_two_ways_the_faster_is_named_and_each_says_what_of_it_is_latency():
    words = plots.latency_and_bytes({"ring": (10e-3, 0), "tree": (1e-4, 3e-4)}).course_words
    assert words == "ring: 10 ms, of which latency 100%\ntree: 400 µs, of which latency 25%\nthe faster: tree"
