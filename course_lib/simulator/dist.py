"""The object that a simulated rank gets as `dist`: the names, arguments and in-place semantics of torch.distributed.

Where gloo fills a buffer in part, returns garbage or aborts the process, this refuses in a sentence.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib import algorithms
from course_lib.meter import Event, P2POp, describe, size_of
from course_lib.simulator.engine import Agent, Engine, Posting, Rank
from course_lib.simulator.meeting import Arrival, Group, Meeting

ReduceOp = torch_dist.ReduceOp


class Handle:
    """What an operation under way returns. Results appear at `wait`; its buffers must stay untouched until then."""

    def __init__(self, dist: SimulatedDist, thing: Any, name: str, buffers: list[torch.Tensor], finish: Any) -> None:
        self._dist, self._thing, self.name, self._finish = dist, thing, name, finish
        self._buffers = [(tensor, _version(tensor), tensor.detach().clone()) for tensor in buffers]
        self._waited = False
        dist._open[id(self)] = self

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        if self._waited:
            return True
        self._dist._engine.wait(self._dist._me, [self._thing])
        for tensor, version, before in self._buffers:
            if _version(tensor) != version and not _same_bits(tensor, before):
                raise RuntimeError(f"the buffer of {self.name} was changed before its wait(): wait first, then change it")
        self._waited = True
        del self._dist._open[id(self)]
        self._finish()
        return True

    def is_completed(self) -> bool:
        """Return whether the operation has ended by this rank's clock; results still need `wait`."""
        return self._waited or self._dist._engine.poll(self._dist._me, self._thing)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    one = one.detach()
    return torch.equal(one, other) or torch.equal(
        one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8)
    )


def _copy(into: torch.Tensor, value: torch.Tensor) -> None:
    into.detach().view(-1).copy_(value.reshape(-1))


class SimulatedDist:
    """torch.distributed as one simulated rank sees it."""

    ReduceOp, P2POp = ReduceOp, P2POp
    GroupMember = torch_dist.GroupMember

    def __init__(self, engine: Engine, me: Rank, meetings: dict[tuple, Meeting], events: list[tuple]) -> None:
        self._engine, self._me, self._meetings, self._events = engine, me, meetings, events
        self._world = Group(tuple(range(len(engine.ranks))), 0, me.index)
        self.group = type("group", (), {"WORLD": self._world})
        self._open: dict[int, Handle] = {}
        self._calls: dict[tuple, int] = {}

    def __getattr__(self, name: str) -> Any:
        if hasattr(torch_dist, name):
            raise AttributeError(f"dist.{name} is not simulated; run it on real ranks: leave out on=Cluster(...)")
        raise AttributeError(f"torch.distributed has no {name}")

    # Who am I?

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def get_backend(self, group=None) -> str:
        return "simulated"

    def get_rank(self, group=None) -> int:
        return self._group(group, member=False).rank()

    def get_world_size(self, group=None) -> int:
        chosen = self._group(group, member=False)
        return chosen.size() if chosen.rank() >= 0 else -1

    def get_process_group_ranks(self, group=None) -> list[int]:
        return list(self._group(group, member=False).ranks)

    def get_global_rank(self, group, group_rank: int) -> int:
        return self._group(group, member=False).ranks[group_rank]

    def get_group_rank(self, group, global_rank: int) -> int:
        return self._group(group, member=False).place_of(global_rank)

    def _group(self, group: Any, member: bool = True) -> Group:
        if group is None:
            return self._world
        if group is self.GroupMember.NON_GROUP_MEMBER:
            if member:
                raise ValueError(f"rank {self._me.index} is not in this group and cannot use it")
            return Group((), -1, self._me.index)
        if not isinstance(group, Group):
            raise TypeError(f"group={group!r} is not a group: use what dist.new_group returned")
        return group

    # Point-to-point

    def _peer(self, peer: int | None, group: Group, group_peer: int | None, name: str) -> int | None:
        if group_peer is not None:
            peer = group.ranks[group_peer]
        if peer is None:
            return None
        if isinstance(peer, bool) or not isinstance(peer, int) or peer not in group.ranks:
            raise ValueError(f"{name}={peer!r}: there is no such rank; ranks are {group.text()}")
        if peer == self._me.index:
            raise ValueError(f"{name}={peer}: a rank cannot send to or receive from itself")
        return peer

    def _post(self, kind: str, tensor: Any, peer: int | None, group: Group, tag: int, blocking: bool) -> Posting:
        _check_tensor(tensor, kind)
        self._engine.turn(self._me)
        posting = Posting(
            kind, self._me.index, peer, tag, group.number, size_of(tensor), tensor, self._me.clock, blocking
        )
        return self._engine.post(posting)

    def send(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> None:
        chosen = self._group(group)
        peer = self._peer(dst, chosen, group_dst, "dst")
        if peer is None:
            raise ValueError("send needs dst, the rank that receives")
        self._engine.wait(self._me, [self._post("send", tensor, peer, chosen, tag, True)])

    def recv(self, tensor, src=None, group=None, tag=0, group_src=None) -> int:
        chosen = self._group(group)
        posting = self._post("recv", tensor, self._peer(src, chosen, group_src, "src"), chosen, tag, True)
        self._engine.wait(self._me, [posting])
        if posting.stash is not None:
            _copy(tensor, posting.stash)
        return posting.peer

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> Handle:
        chosen = self._group(group)
        peer = self._peer(dst, chosen, group_dst, "dst")
        if peer is None:
            raise ValueError("isend needs dst, the rank that receives")
        posting = self._post("send", tensor, peer, chosen, tag, False)
        return Handle(self, posting, f"isend to rank {peer}", [tensor], lambda: None)

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None) -> Handle:
        chosen = self._group(group)
        peer = self._peer(src, chosen, group_src, "src")
        posting = self._post("recv", tensor, peer, chosen, tag, False)
        name = "irecv" if peer is None else f"irecv from rank {peer}"
        return Handle(self, posting, name, [tensor], lambda: _copy(tensor, posting.stash))

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[Handle]:
        return [
            getattr(self, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer)
            for op in p2p_op_list
        ]  # fmt: skip

    # Groups

    def new_group(self, ranks=None, **_: Any) -> Any:
        """Every rank of the world calls this, for every group and in the same order, as torch demands."""
        everyone = self._world.ranks
        members = everyone if ranks is None else tuple(sorted(ranks))
        if not members or len(set(members)) != len(members) or not set(members) <= set(everyone):
            raise ValueError(f"new_group({list(members)}): give different ranks out of {self._world.text()}")
        meeting = self._meet(self._world, f"new_group({list(members)})")
        if not meeting.created:
            meeting.created = 1 + max(met.created for met in self._meetings.values())
        arrival = Arrival()
        meeting.arrivals.append(arrival)
        if not meeting.absent():  # the last one has come: all go on from here, as they do at torch's store
            for waiting in meeting.arrivals:
                waiting.end = self._me.clock
                self._engine.notify(waiting)
        self._block(arrival, "new_group", meeting)
        if self._me.index not in members:
            return self.GroupMember.NON_GROUP_MEMBER
        return Group(members, meeting.created, self._me.index)

    # Built-in collectives

    def _meet(self, group: Group, signature: str) -> Meeting:
        """Return the meeting that this call belongs to: the n-th calls of all members of a group are one collective."""
        self._engine.turn(self._me)
        number = self._calls[group.number] = self._calls.get(group.number, 0) + 1
        meeting = self._meetings.setdefault((group.number, number), Meeting(group, number))
        meeting.arrive(self._me.index, signature)
        return meeting

    def _block(self, thing: Any, name: str, meeting: Meeting) -> None:
        thing.name, thing.meeting = name, meeting
        self._engine.wait(self._me, [thing])

    def _collective(
        self, kind, signature, group, async_op, brings, changes, finish, elements=0, itemsize=1, root=0, rounds=None
    ) -> Handle | None:  # fmt: skip
        """Bring copies of `brings`, run the algorithm's messages, then let `finish(meeting)` fill `changes`."""
        meeting = self._meet(group, f"{kind}({signature})")
        meeting.inputs[self._me.index] = [tensor.detach().clone() for tensor in brings]
        if rounds is None:
            rounds = algorithms.messages(kind, group.rank(), group.size(), elements, itemsize, root)
            spent = algorithms.charge(kind, group.rank(), group.size(), elements, itemsize, root)
        else:
            rounds = list(rounds)
            spent = algorithms.total(iter(rounds))
        key = ("collective", group.number, meeting.number)
        agent = Agent(self._me.index, self._me.clock, kind, iter(rounds), list(group.ranks), key)
        agent.meeting = meeting
        self._engine.start(agent, (self._me.index, group.number))

        def end() -> None:
            finish(meeting)
            sent, received, messages = spent
            peer = group.ranks[root] if kind in ("broadcast", "reduce", "scatter", "gather") else None
            self._events.append(
                Event(
                    self._me.index, kind, agent.begin, agent.end, agent.posted, sent, received, messages, peer, True
                )
            )  # fmt: skip

        if async_op:
            return Handle(self, agent, kind, [*brings, *changes], end)
        self._engine.wait(self._me, [agent])
        end()
        return None

    def _root(self, root: int | None, group: Group, group_root: int | None, name: str) -> int:
        root = group.ranks[group_root] if group_root is not None else 0 if root is None else root
        if isinstance(root, bool) or not isinstance(root, int) or root not in group.ranks:
            raise ValueError(f"{name}={root!r}: there is no such rank; ranks are {group.text()}")
        return group.place_of(root)

    def all_reduce(self, tensor, op=ReduceOp.SUM, group=None, async_op=False):
        chosen = self._group(group)
        _check_tensor(tensor, "all_reduce")

        def finish(meeting: Meeting) -> None:
            _copy(tensor, meeting.reduced(op)[0])

        return self._collective(
            "all_reduce", f"{describe(tensor)}, {_name(op)}", chosen, async_op, [tensor], [], finish,
            tensor.numel(), tensor.element_size(),
        )  # fmt: skip

    def reduce(self, tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
        chosen = self._group(group)
        root = self._root(dst, chosen, group_dst, "dst")
        _check_tensor(tensor, "reduce")

        def finish(meeting: Meeting) -> None:
            if chosen.rank() == root:
                _copy(tensor, meeting.reduced(op)[0])

        return self._collective(
            "reduce", f"{describe(tensor)}, {_name(op)}, dst={chosen.ranks[root]}", chosen, async_op, [tensor], [],
            finish, tensor.numel(), tensor.element_size(), root,
        )  # fmt: skip

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        chosen = self._group(group)
        root = self._root(src, chosen, group_src, "src")
        _check_tensor(tensor, "broadcast")

        def finish(meeting: Meeting) -> None:
            if chosen.rank() != root:
                _copy(tensor, meeting.inputs[chosen.ranks[root]][0])

        return self._collective(
            "broadcast", f"{describe(tensor)}, src={chosen.ranks[root]}", chosen, async_op, [tensor], [], finish,
            tensor.numel(), tensor.element_size(), root,
        )  # fmt: skip

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        chosen = self._group(group)
        _check_list(tensor_list, tensor, chosen.size(), "all_gather", "tensor_list")

        def finish(meeting: Meeting) -> None:
            for place, rank in enumerate(chosen.ranks):
                _copy(tensor_list[place], meeting.inputs[rank][0])

        return self._collective(
            "all_gather", describe(tensor), chosen, async_op, [tensor], list(tensor_list), finish,
            tensor.numel(), tensor.element_size(),
        )  # fmt: skip

    def gather(self, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
        chosen = self._group(group)
        root = self._root(dst, chosen, group_dst, "dst")
        mine = chosen.rank() == root
        into = _rooted_list(gather_list, tensor, mine, chosen, "gather", "gather_list", root)

        def finish(meeting: Meeting) -> None:
            for place, buffer in enumerate(into):
                _copy(buffer, meeting.inputs[chosen.ranks[place]][0])

        return self._collective(
            "gather", f"{describe(tensor)}, dst={chosen.ranks[root]}", chosen, async_op, [tensor], into, finish,
            tensor.numel(), tensor.element_size(), root,
        )  # fmt: skip

    def scatter(self, tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
        chosen = self._group(group)
        root = self._root(src, chosen, group_src, "src")
        pieces = _rooted_list(scatter_list, tensor, chosen.rank() == root, chosen, "scatter", "scatter_list", root)

        def finish(meeting: Meeting) -> None:
            _copy(tensor, meeting.inputs[chosen.ranks[root]][chosen.rank()])

        return self._collective(
            "scatter", f"{describe(tensor)}, src={chosen.ranks[root]}", chosen, async_op, pieces, [tensor], finish,
            tensor.numel(), tensor.element_size(), root,
        )  # fmt: skip

    def reduce_scatter(self, output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
        chosen = self._group(group)
        _check_list(input_list, output, chosen.size(), "reduce_scatter", "input_list")

        def finish(meeting: Meeting) -> None:
            _copy(output, meeting.reduced(op)[chosen.rank()])

        return self._collective(
            "reduce_scatter", f"{describe(output)}, {_name(op)}", chosen, async_op, list(input_list), [output], finish,
            output.numel(), output.element_size(),
        )  # fmt: skip

    def all_to_all(self, output_tensor_list, input_tensor_list, group=None, async_op=False):
        chosen = self._group(group)
        outputs, inputs = list(output_tensor_list), list(input_tensor_list)
        for name, tensors in (("output_tensor_list", outputs), ("input_tensor_list", inputs)):
            if len(tensors) != chosen.size():
                raise ValueError(f"all_to_all: {name} has {len(tensors)} tensors; it needs one for each of {chosen.size()} ranks")
            for tensor in tensors:
                _check_tensor(tensor, "all_to_all")

        def finish(meeting: Meeting) -> None:
            for place, rank in enumerate(chosen.ranks):
                piece = meeting.inputs[rank][chosen.rank()]
                if piece.numel() != outputs[place].numel() or piece.dtype != outputs[place].dtype:
                    raise ValueError(
                        f"all_to_all: rank {rank} sends {describe(piece)} to rank {self._me.index}, "
                        f"which receives into {describe(outputs[place])}"
                    )
                _copy(outputs[place], piece)

        rounds = algorithms.all_to_all(chosen.rank(), [size_of(t) for t in inputs], [size_of(t) for t in outputs])
        return self._collective("all_to_all", "", chosen, async_op, inputs, outputs, finish, rounds=rounds)

    def barrier(self, group=None, async_op=False, device_ids=None):
        return self._collective("barrier", "", self._group(group), async_op, [], [], lambda meeting: None)

    # The forms on one flat tensor, and on Python objects

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        pieces = _pieces(output_tensor, self.get_world_size(group), "all_gather_into_tensor")
        return self.all_gather(pieces, input_tensor.reshape(-1), group, async_op)

    def reduce_scatter_tensor(self, output, input, op=ReduceOp.SUM, group=None, async_op=False):
        pieces = _pieces(input, self.get_world_size(group), "reduce_scatter_tensor")
        return self.reduce_scatter(output.view(-1), pieces, op, group, async_op)

    def all_to_all_single(
        self, output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
    ):  # fmt: skip
        ranks = self.get_world_size(group)
        outputs = output.split(output_split_sizes or [len(output) // ranks] * ranks)
        inputs = input.split(input_split_sizes or [len(input) // ranks] * ranks)
        return self.all_to_all(list(outputs), list(inputs), group, async_op)

    def all_gather_object(self, object_list, obj, group=None):
        chosen = self._group(group)
        data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.long) for _ in chosen.ranks]
        self.all_gather(sizes, torch.tensor([len(data)]), group)
        longest = int(max(sizes))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(data)] = data
        everything = [torch.empty(longest, dtype=torch.uint8) for _ in chosen.ranks]
        self.all_gather(everything, padded, group)
        for place, (size, piece) in enumerate(zip(sizes, everything, strict=True)):
            object_list[place] = pickle.loads(piece[: int(size)].numpy().tobytes())

    def broadcast_object_list(self, object_list, src=None, group=None, device=None, group_src=None):
        chosen = self._group(group)
        root = self._root(src, chosen, group_src, "src")
        data = torch.frombuffer(bytearray(pickle.dumps(list(object_list))), dtype=torch.uint8)
        size = torch.tensor([len(data)])
        self.broadcast(size, chosen.ranks[root], group)
        buffer = data if chosen.rank() == root else torch.empty(int(size), dtype=torch.uint8)
        self.broadcast(buffer, chosen.ranks[root], group)
        object_list[:] = pickle.loads(buffer.numpy().tobytes())


def _name(op: Any) -> str:
    return str(getattr(op, "op", op)).split(".")[-1]


def _check_tensor(tensor: Any, name: str) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} takes a tensor, not {type(tensor).__name__}: torch.tensor([...])")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} was given a tensor that is not contiguous (a slice of columns?): use .contiguous()")


def _check_list(tensors: Any, one: torch.Tensor, ranks: int, name: str, what: str) -> None:
    _check_tensor(one, name)
    if len(tensors) != ranks:
        raise ValueError(f"{name}: {what} has {len(tensors)} tensors; it needs one for each of {ranks} ranks")
    for tensor in tensors:
        _check_tensor(tensor, name)
        if tensor.dtype != one.dtype or tensor.numel() != one.numel():
            raise ValueError(f"{name}: {what} holds {describe(tensor)}, which does not fit {describe(one)}")


def _rooted_list(tensors, one, mine, group, name, what, root) -> list[torch.Tensor]:
    """Return the list that only the root brings; torch refuses one from anybody else."""
    if mine:
        if tensors is None:
            raise ValueError(f"{name}: rank {group.ranks[root]} is the root and needs {what}, one tensor for each rank")
        _check_list(tensors, one, group.size(), name, what)
        return list(tensors)
    _check_tensor(one, name)
    if tensors:
        raise ValueError(f"{name}: only the root, rank {group.ranks[root]}, brings {what}; leave it out on other ranks")
    return []


def _pieces(tensor: torch.Tensor, ranks: int, name: str) -> list[torch.Tensor]:
    _check_tensor(tensor, name)
    if tensor.numel() % ranks:
        raise ValueError(f"{name}: {describe(tensor)} cannot be cut into {ranks} equal pieces")
    return list(tensor.view(-1).split(tensor.numel() // ranks)) if tensor.numel() else [tensor.view(-1)] * ranks
