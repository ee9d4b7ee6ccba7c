"""Built-in collectives of simulated ranks: a Meeting holds the tensors, the algorithm's messages take the time.

Why not run each collective as sends and receives on the rank's own thread? It would switch threads for every message,
and `async_op=True` would need a second thread per rank. An Agent posts the messages of course_lib.algorithms on the
same ports, without tensors, and the reduction is computed once per group, in rank order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib import algorithms
from course_lib.engine.simulated.groups import Group, Meeting, name_of
from course_lib.engine.simulated.messages import NO_POLLING, check_tensor, copy, same_bits, snapshot, version
from course_lib.engine.simulated.turns import Agent, Rank
from course_lib.events import Event, describe, size_of

SUM = torch_dist.ReduceOp.SUM


class CollectiveHandle:
    """The handle of an async collective: `buffers` are tensors and their snapshots, `fill` writes the results."""

    def __init__(
        self, rank: Rank, agent: Agent, buffers: list[tuple[torch.Tensor, torch.Tensor]], fill: Callable[[], None]
    ) -> None:
        self.rank, self.name = rank, agent.name
        self._agent: Agent | None = agent
        self._fill: Callable[[], None] | None = fill
        self._buffers = [(tensor, version(tensor), before) for tensor, before in buffers]
        rank.open_handles[self] = None

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        if self not in self.rank.open_handles:
            return True
        self.rank.clock.wait(self.rank, self._agent)
        if any(version(tensor) != was and not same_bits(tensor, before) for tensor, was, before in self._buffers):
            raise RuntimeError(f"the buffer of {self.name} was changed before its wait(): wait first, then change it")
        del self.rank.open_handles[self]
        self._agent = None
        fill, self._fill, self._buffers = self._fill, None, []
        fill()
        return True

    def is_completed(self) -> bool:
        raise RuntimeError(NO_POLLING)


class Collectives:
    """The half of SimulatedDist that holds the built-in collectives."""

    def _collective(
        self, kind: str, signature: str, group: Group, async_op: bool, brings: list, changes: list,
        fill: Callable[[Meeting], None], like: torch.Tensor | None = None, root: int = 0, rounds: list | None = None,
    ) -> CollectiveHandle | None:  # fmt: skip
        """Hand in snapshots of `brings`, run the algorithm's messages, then let `fill(meeting)` write the results.

        `like` is the tensor whose size the algorithm is charged for; `changes` are the output buffers.
        """
        meeting = self._meet(group, f"{kind}({signature})")
        copies = meeting.inputs[self.me.index] = [snapshot(tensor) for tensor in brings]
        elements, itemsize = (like.numel(), like.element_size()) if like is not None else (0, 1)
        asked = (kind, group.rank(), group.size(), elements, itemsize, root)
        if kind in algorithms.IN_NETWORK and self.clock.switch and self.clock.switch(group.ranks):
            rounds = list(algorithms.in_network(kind, group.size(), elements * itemsize))
        spent = algorithms.charge(*asked) if rounds is None else algorithms.total(iter(rounds))
        messages = algorithms.messages(*asked) if rounds is None else iter(rounds)
        agent = Agent(self.me.index, self.me.now, kind, messages, group.ranks, meeting)
        self.clock.start(agent, (self.me.index, group.number))
        peer = group.ranks[root] if kind in ("broadcast", "reduce", "scatter", "gather") else None

        def finish() -> None:
            fill(meeting)
            self._leave(meeting)
            self.events.append(
                Event(self.me.index, kind, agent.begin, agent.end, agent.posted, *spent, peer, charged=True)
            )

        if async_op:
            unchanged = [*zip(brings, copies, strict=True), *((tensor, snapshot(tensor)) for tensor in changes)]
            return CollectiveHandle(self.me, agent, unchanged, finish)
        self.clock.wait(self.me, agent)
        finish()
        return None

    def _rooted(self, root: int | None, group: Any, place: int | None, name: str) -> tuple[Group, int, bool]:
        """Return the group, the root's place in it, and whether this rank is the root, which is rank 0 by default."""
        chosen = self._group(group)
        root = self._rank_in(chosen, 0 if root is None and place is None else root, place, name)
        return chosen, chosen.places[root], root == self.me.index

    def all_reduce(self, tensor, op=SUM, group=None, async_op=False):
        check_tensor(tensor, "all_reduce")
        return self._collective(
            "all_reduce", f"{describe(tensor)}, {name_of(op)}", self._group(group), async_op, [tensor], [],
            lambda meeting: copy(tensor, meeting.reduced(op)[0]), tensor,
        )  # fmt: skip

    def reduce(self, tensor, dst=None, op=SUM, group=None, async_op=False, group_dst=None):
        check_tensor(tensor, "reduce")
        chosen, root, mine = self._rooted(dst, group, group_dst, "dst")

        def fill(meeting: Meeting) -> None:
            if mine:
                copy(tensor, meeting.reduced(op)[0])

        signature = f"{describe(tensor)}, {name_of(op)}, dst={chosen.ranks[root]}"
        return self._collective("reduce", signature, chosen, async_op, [tensor], [], fill, tensor, root)

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        check_tensor(tensor, "broadcast")
        chosen, root, mine = self._rooted(src, group, group_src, "src")

        def fill(meeting: Meeting) -> None:
            if not mine:
                copy(tensor, meeting.inputs[chosen.ranks[root]][0])

        signature = f"{describe(tensor)}, src={chosen.ranks[root]}"
        return self._collective("broadcast", signature, chosen, async_op, [tensor], [], fill, tensor, root)

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        chosen = self._group(group)
        into = _one_each(tensor_list, tensor, chosen, "all_gather", "tensor_list")

        def fill(meeting: Meeting) -> None:
            for place, rank in enumerate(chosen.ranks):
                copy(into[place], meeting.inputs[rank][0])

        return self._collective("all_gather", describe(tensor), chosen, async_op, [tensor], into, fill, tensor)

    def gather(self, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
        chosen, root, mine = self._rooted(dst, group, group_dst, "dst")
        into = _roots_list(gather_list, tensor, chosen, root, mine, "gather", "gather_list")

        def fill(meeting: Meeting) -> None:
            for place, buffer in enumerate(into):
                copy(buffer, meeting.inputs[chosen.ranks[place]][0])

        signature = f"{describe(tensor)}, dst={chosen.ranks[root]}"
        return self._collective("gather", signature, chosen, async_op, [tensor], into, fill, tensor, root)

    def scatter(self, tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
        chosen, root, mine = self._rooted(src, group, group_src, "src")
        pieces = _roots_list(scatter_list, tensor, chosen, root, mine, "scatter", "scatter_list")
        signature = f"{describe(tensor)}, src={chosen.ranks[root]}"
        return self._collective(
            "scatter", signature, chosen, async_op, pieces, [tensor],
            lambda meeting: copy(tensor, meeting.inputs[chosen.ranks[root]][chosen.rank()]), tensor, root,
        )  # fmt: skip

    def reduce_scatter(self, output, input_list, op=SUM, group=None, async_op=False):
        chosen = self._group(group)
        pieces = _one_each(input_list, output, chosen, "reduce_scatter", "input_list")
        return self._collective(
            "reduce_scatter", f"{describe(output)}, {name_of(op)}", chosen, async_op, pieces, [output],
            lambda meeting: copy(output, meeting.reduced(op)[chosen.rank()]), output,
        )  # fmt: skip

    def all_to_all(self, output_tensor_list, input_tensor_list, group=None, async_op=False):
        chosen = self._group(group)
        into = _for_all(output_tensor_list, chosen, "all_to_all", "output_tensor_list")
        pieces = _for_all(input_tensor_list, chosen, "all_to_all", "input_tensor_list")

        def fill(meeting: Meeting) -> None:
            for place, rank in enumerate(chosen.ranks):
                piece = meeting.inputs[rank][chosen.rank()]
                if piece.numel() != into[place].numel() or piece.dtype != into[place].dtype:
                    raise ValueError(
                        f"all_to_all: rank {rank} sends {describe(piece)} to rank {self.me.index}, "
                        f"which receives into {describe(into[place])}"
                    )
                copy(into[place], piece)

        rounds = algorithms.all_to_all(chosen.rank(), [size_of(t) for t in pieces], [size_of(t) for t in into])
        return self._collective("all_to_all", "", chosen, async_op, pieces, into, fill, rounds=list(rounds))

    def barrier(self, group=None, async_op=False, device_ids=None):
        return self._collective("barrier", "", self._group(group), async_op, [], [], lambda meeting: None)

    # The forms on one flat tensor

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        pieces = _cut(output_tensor, self._group(group), "all_gather_into_tensor")
        return self.all_gather(pieces, input_tensor, group, async_op)

    all_gather_single = all_gather_into_tensor

    def reduce_scatter_tensor(self, output, input, op=SUM, group=None, async_op=False):
        pieces = _cut(input, self._group(group), "reduce_scatter_tensor")
        return self.reduce_scatter(output, pieces, op, group, async_op)

    reduce_scatter_single = reduce_scatter_tensor

    def all_to_all_single(
        self, output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
    ):  # fmt: skip
        ranks = self._group(group).size()
        pieces = []
        for name, tensor, sizes in (("output", output, output_split_sizes), ("input", input, input_split_sizes)):
            check_tensor(tensor, "all_to_all_single")
            rows = len(tensor)
            if not sizes and rows % ranks or sizes and (len(sizes) != ranks or sum(sizes) != rows):
                parts = f"{sizes}" if sizes else f"{ranks} equal parts"
                raise ValueError(f"all_to_all_single: {name} has {rows} rows, which cannot be cut into {parts}")
            pieces.append(list(tensor.split(sizes or [rows // ranks] * ranks)))
        return self.all_to_all(*pieces, group, async_op)


def _for_all(tensors: Any, group: Group, name: str, what: str) -> list[torch.Tensor]:
    """Return the tensors of an argument that holds one for each rank of the group."""
    tensors = list(tensors)
    if len(tensors) != group.size():
        raise ValueError(f"{name}: {what} has {len(tensors)} tensors; it needs one for each of {group.size()} ranks")
    for tensor in tensors:
        check_tensor(tensor, name)
    return tensors


def _one_each(tensors: Any, one: torch.Tensor, group: Group, name: str, what: str) -> list[torch.Tensor]:
    """Return the tensors of an argument that holds one for each rank of the group, each like `one`."""
    check_tensor(one, name)
    tensors = _for_all(tensors, group, name, what)
    for tensor in tensors:
        if tensor.dtype != one.dtype or tensor.numel() != one.numel():
            raise ValueError(f"{name}: {what} holds {describe(tensor)}, which does not fit {describe(one)}")
    return tensors


def _roots_list(tensors, one, group, root, mine, name, what) -> list[torch.Tensor]:
    """Check the list that only the root passes, and return it; empty on other ranks."""
    check_tensor(one, name)
    if mine and tensors is None:
        raise ValueError(f"{name}: rank {group.ranks[root]} is the root and needs {what}, one tensor for each rank")
    if not mine and tensors:
        raise ValueError(f"{name}: only the root, rank {group.ranks[root]}, brings {what}; leave it out on other ranks")
    return _one_each(tensors, one, group, name, what) if mine else []


def _cut(tensor: torch.Tensor, group: Group, name: str) -> list[torch.Tensor]:
    """Return a flat tensor's equal pieces, one for each rank of the group."""
    check_tensor(tensor, name)
    if tensor.numel() % group.size():
        raise ValueError(f"{name}: {describe(tensor)} cannot be cut into {group.size()} equal pieces")
    return list(tensor.view(-1).tensor_split(group.size()))
