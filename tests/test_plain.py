"""Plain data travels as bytes that can name nothing, and whatever bytes come, little is built and nothing is called."""

from __future__ import annotations

import struct
import time

import attacked_course
import numpy as np
import pytest
import torch
import traffic
from hypothesis import given, settings
from hypothesis import strategies as some

from course_lib.engine import plain
from exercises_tests.grading import broker, grader

LEAVES = (
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text() | some.binary()
    | some.complex_numbers(allow_nan=False)
)
THINGS = some.recursive(
    LEAVES,
    lambda inner: some.lists(inner) | some.lists(inner).map(tuple) | some.dictionaries(some.text(), inner),
    max_leaves=30,
)


@given(THINGS)
@settings(deadline=None)
def test_what_is_packed_comes_back_with_its_types(thing):
    found = plain.unpack(plain.pack(thing))
    assert repr(found) == repr(thing)


@pytest.mark.parametrize("dtype", plain.DTYPES, ids=str)
def test_tensors_of_every_dtype_come_back(dtype):
    for shape in ((), (3,), (2, 0, 5), (2, 3)):
        tensor = torch.ones(shape).to(dtype)
        found = plain.unpack(plain.pack(tensor))
        assert found.dtype is dtype and found.shape == tensor.shape
        assert torch.equal(found.view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8))


@pytest.mark.parametrize("dtype", plain.ARRAYS, ids=str)
def test_arrays_and_their_numbers_come_back(dtype):
    for array in (np.ones((2, 3), dtype), np.zeros((0, 2), dtype), np.array(1, dtype)):
        found = plain.unpack(plain.pack(array))
        assert found.dtype == dtype and np.array_equal(found, array) and found.shape == array.shape
    number = plain.unpack(plain.pack(dtype.type(1)))
    assert type(number) is dtype.type and number == 1


def test_that_a_tensor_wants_a_gradient_comes_back():
    assert plain.unpack(plain.pack(torch.ones(2, requires_grad=True))).requires_grad


class Subclass(torch.Tensor):
    pass


ENDLESS: list = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("thing", "words"),
    [(object(), "builtins.object cannot be sent"), (Subclass(), "Subclass cannot be sent"), (len, "cannot be sent"),
     (torch.ones(2).to_sparse(), "cannot be sent"), (torch.zeros(2, dtype=torch.bits8), "cannot be sent"),
     (np.array(["a"]), "cannot be sent"), (np.array([object()]), "cannot be sent"), (10**5000, "at most 12,000"),
     (ENDLESS, "holds itself"), ([0] * 1_000_001, "more than 1,000,000 parts"), (torch.float32, "cannot be sent"),
     (torch.ones((1,) * 33), "33 dimensions"), (type("Loud", (int,), {})(1), "Loud cannot be sent")],
    ids=range(13),
)  # fmt: skip
def test_what_is_not_plain_is_refused_in_a_sentence(thing, words):
    with pytest.raises(plain.NotPlain, match=words):
        plain.pack(thing)


def test_a_tree_that_shares_its_branches_is_counted_as_whoever_walks_through_it_would():
    twice: list = []
    for _ in range(60):
        twice = [twice, twice]
    with pytest.raises(plain.NotPlain, match="1,000,000 parts"):
        plain.pack(twice)


def size(number: int) -> bytes:
    return struct.pack("<I", number)


def tensor(dtype: int, *shape: int, data: bytes = b"", grad: int = 0, kind: bytes = b"t") -> bytes:
    return kind + struct.pack(f"<BBB{len(shape)}Q", dtype, grad, len(shape), *shape) + data


EQUAL_HASHES = b"S" + size(30_000) + b"".join(
    b"I" + size(10) + (n * (2**61 - 1)).to_bytes(10, "little", signed=True) for n in range(30_000)
)
FRAMES = {
    "nothing": b"",
    "a pickle": b"\x80\x04cposix\nsystem\n(S'true'\ntR.",
    "a pickle that changes an object by BUILD": b"\x80\x04ccourse_lib.engine.packing\ntensor_from_bytes\nN}b.",
    "a kind that is none": b"?",
    "a text that is not there": b"s" + size(2**32 - 1),
    "a text that is not UTF-8": b"s" + size(2) + b"\xff\xfe",
    "bytes of which some are missing": b"b" + size(9) + b"x",
    "4,294,967,295 parts": b"l" + size(2**32 - 1) + b"N" * 9,
    "a million parts that are not there": b"l" + size(1_000_000),
    "lists in lists": (b"l" + size(1)) * 100_000 + b"N",
    "many lists that announce all that is left": b"".join(b"l" + size(1000 - 9 * n) for n in range(90)) + b"N" * 200,
    "a key that is a list": b"d" + size(1) + b"l" + size(0) + b"N",
    "a set of lists": b"S" + size(1) + b"l" + size(0),
    "keys of equal hashes": EQUAL_HASHES,
    "a slice of one part": b"x" + size(1) + b"N",
    "a whole number of a megabyte": b"I" + size(1 << 20) + bytes(1 << 20),
    "half a number": b"f" + bytes(4),
    "two things": b"NN",
    "a tensor that is not there": tensor(8, 1000),
    "a tensor of fewer bytes": tensor(8, 4, data=bytes(15)),
    "a tensor of more bytes": tensor(8, 4, data=bytes(17)),
    "a tensor of 2**64 elements": tensor(8, 2**63, 2),
    "a tensor without elements as large as an address": tensor(8, 0, 2**64 - 1),
    "a tensor of no dtype": tensor(255, 1, data=bytes(8)),
    "a tensor of 400,000 dimensions": b"t" + bytes([8, 0, 255]) + b"\1" * 400_000,
    "a tensor with an odd flag": tensor(8, 1, data=bytes(4), grad=2),
    "an array of objects": tensor(200, 1, data=bytes(8), kind=b"a"),
    "a number that is an array": tensor(8, 2, data=bytes(16), kind=b"n"),
    "16,000 tensors without elements": b"l" + size(16_000) + tensor(8, 0) * 16_000,
    "1,000,001 empty lists": b"l" + size(1_000_001) + (b"l" + size(0)) * 1_000_001,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_forged_frame_is_refused_at_once(frame):
    begun = time.process_time()
    with pytest.raises(plain.NotPlain):
        plain.unpack(FRAMES[frame])
    assert time.process_time() - begun < 5


def test_a_truth_value_of_255_is_one_like_any_other():
    found = plain.unpack(tensor(0, 2, data=b"\xff\x00"))
    assert found.tolist() == [True, False] and found.view(torch.uint8).tolist() == [1, 0]
    assert plain.unpack(tensor(0, data=b"\xff", kind=b"n")) == True  # noqa: E712 - numpy's


def test_a_whole_number_that_wants_a_gradient_does_without():
    assert not plain.unpack(tensor(5, 1, data=bytes(8), grad=1)).requires_grad


@given(some.binary(max_size=200))
@settings(deadline=None, max_examples=500)
def test_any_bytes_are_plain_data_or_refused(data):
    try:
        thing = plain.unpack(data)
    except plain.NotPlain:
        return
    plain.pack(thing)


@given(some.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_a_believable_end_or_a_damaged_one(data):
    assert type(broker.believed(data, 1)).__name__ in ("Returned", "Failed")


@given(some.binary(max_size=100), some.integers(0, 50))
@settings(deadline=None, max_examples=300)
def test_a_recorded_frame_with_any_bytes_put_in_does_no_harm(data, at):
    target = traffic.Target()
    try:
        for frame in CALLS:
            target.ask(frame[:at] + data + frame[at:])
        assert target.works()
    finally:
        target.close()


CALLS, ENDS = traffic.recorded()


def test_the_recorded_traffic_is_all_that_a_rank_may_ask_for():
    assert {plain.unpack(frame)[0] for frame in CALLS} > {"recv", "irecv", "all_reduce", "new_group", "wait", "work"}
    assert [type(broker.believed(frame, 0)).__name__ for frame in ENDS] == ["Returned", "Returned", "Failed"]


@pytest.mark.parametrize("seed", range(3))
def test_mutated_traffic_neither_breaks_the_judges_side_nor_turns_its_clock_back(seed):
    told = traffic.fuzz_frames(4000, seed)
    assert sum(told.values()) == 4000 and told["done"] > 20


def test_mutated_verdicts_are_refused_or_within_their_bounds():
    assert traffic.fuzz_verdicts(3000) > 10


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    made = grader.Grading(attacked_course.make(tmp_path_factory.mktemp("fuzz") / "course"), "fuzz", unprotected=True)
    yield made
    made.close()


def test_mutated_notebooks_are_taken_or_refused_in_a_sentence(group, tmp_path):
    told = traffic.fuzz_notebooks(400, group, tmp_path)
    assert told["taken"] > 50 and told["refused"] > 50
