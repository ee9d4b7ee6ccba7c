"""The messages of each built-in collective: every send meets a receive, and the bytes are those of the textbooks."""

from __future__ import annotations

from collections import Counter

import pytest

from course_lib import algorithms

RINGS = ("all_reduce", "all_gather", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
KINDS = (*RINGS, *ROOTED, "all_to_all", "barrier")
WORLDS = (1, 2, 3, 4, 5, 7, 8, 16)


def everything(kind, ranks, elements=24, itemsize=4, root=0):
    """Return each rank's rounds."""
    return [list(algorithms.messages(kind, rank, ranks, elements, itemsize, root)) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_send_meets_a_receive_of_its_size_in_order(kind, ranks):
    for root in range(ranks) if kind in ROOTED else (0,):
        sent, received = {}, {}
        for rank, rounds in enumerate(everything(kind, ranks, 25, 4, root)):
            for way, peer, size in (message for messages in rounds for message in messages):
                if way == "send":
                    sent.setdefault((rank, peer), []).append(size)
                else:
                    received.setdefault((peer, rank), []).append(size)
        assert sent == received


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_messages_can_be_carried_out_without_a_deadlock(kind, ranks):
    todo = everything(kind, ranks)
    going = True
    while going:
        posted = Counter()
        for rank, rounds in enumerate(todo):
            for way, peer, _ in rounds[0] if rounds else ():
                posted[(rank, peer) if way == "send" else (peer, rank), way] += 1
        going = False
        for rank, rounds in enumerate(todo):
            pairs = [(rank, peer) if way == "send" else (peer, rank) for way, peer, _ in rounds[0]] if rounds else []
            if rounds and all(posted[pair, "send"] and posted[pair, "recv"] for pair in pairs):
                rounds[0] = []
                going = True
        todo = [rounds[1:] if rounds and not rounds[0] else rounds for rounds in todo]
    assert not any(todo)


@pytest.mark.parametrize("ranks", WORLDS)
def test_nobody_sends_to_itself(ranks):
    for kind in KINDS:
        for rank, rounds in enumerate(everything(kind, ranks)):
            assert all(peer != rank for messages in rounds for _, peer, _ in messages)


@pytest.mark.parametrize("ranks", WORLDS)
def test_a_ring_all_reduce_sends_twice_what_is_not_ones_own(ranks):
    elements = 10 * ranks
    sent, received, count = algorithms.charge("all_reduce", 0, ranks, elements, 4)
    assert sent == received == 2 * (ranks - 1) * elements * 4 // ranks
    assert count == 2 * (ranks - 1)


@pytest.mark.parametrize("ranks", WORLDS)
def test_reduce_scatter_and_all_gather_send_every_piece_but_one(ranks):
    for kind in ("reduce_scatter", "all_gather"):
        assert algorithms.charge(kind, 0, ranks, 10, 4) == (40 * (ranks - 1), 40 * (ranks - 1), ranks - 1)


@pytest.mark.parametrize("ranks", WORLDS)
def test_a_broadcast_reaches_all_in_as_few_rounds_as_doubling_allows(ranks):
    per_rank = everything("broadcast", ranks)
    assert sum(way == "send" for rounds in per_rank for messages in rounds for way, _, _ in messages) == ranks - 1
    assert len(per_rank[0]) == (ranks - 1).bit_length()


@pytest.mark.parametrize("ranks", WORLDS)
def test_a_reduce_is_a_broadcast_backwards(ranks):
    other = {"send": "recv", "recv": "send"}
    for forward, backward in zip(everything("broadcast", ranks), everything("reduce", ranks), strict=True):
        mirrored = [[(other[way], peer, size) for way, peer, size in messages] for messages in forward[::-1]]
        assert backward == mirrored


@pytest.mark.parametrize("ranks", WORLDS)
def test_all_to_all_meets_every_other_rank_once(ranks):
    for rank, rounds in enumerate(everything("all_to_all", ranks)):
        sends = [peer for messages in rounds for way, peer, _ in messages if way == "send"]
        assert sorted(sends) == [other for other in range(ranks) if other != rank]


@pytest.mark.parametrize("ranks", WORLDS)
def test_a_barrier_moves_no_bytes_and_lets_everyone_hear_of_all(ranks):
    heard = [{rank} for rank in range(ranks)]
    rounds_of = everything("barrier", ranks)
    for number in range(len(rounds_of[0])):
        before = [set(known) for known in heard]
        for rank, rounds in enumerate(rounds_of):
            for way, peer, size in rounds[number]:
                assert size == 0
                if way == "recv":
                    heard[rank] |= before[peer]
    assert all(len(known) == ranks for known in heard)


def test_pieces_are_as_equal_as_they_can_be_larger_ones_first():
    assert algorithms.split_sizes(7, 3) == [3, 2, 2]
    assert algorithms.split_sizes(2, 4) == [1, 1, 0, 0]


def test_uneven_all_to_all_is_charged_for_what_leaves():
    assert algorithms.total(algorithms.all_to_all(0, [1, 2, 4], [1, 3, 5])) == (6, 8, 2)
