"""The object that a simulated rank gets as `dist`: the names, arguments and in-place semantics of torch.distributed.

Where it differs from torch.distributed on gloo, by intent:

- A receive buffer of another dtype or size, other shapes or arguments of one collective on different ranks, a send to
  oneself, and a collective on a group by a rank outside it are refused in a sentence: gloo fills the buffer in part,
  returns garbage, aborts the process, hangs, or warns and does nothing.
- all_to_all takes pieces of unequal sizes, as NCCL does; gloo takes them in all_to_all_single only.
- Tensors must be contiguous everywhere; gloo refuses only some of the others.
- Results of irecv and of async_op=True appear at wait(). On gloo they appear some time before it.
- is_completed() is refused: asking takes no virtual time, so a loop that asks would never end.
- Buffers must not be changed before wait(), and every handle must be waited for; gloo sends what is there, or hangs.
- `reduce` leaves the tensor of every rank but dst as it was; gloo leaves partial sums in it.
- Reductions add in rank order; gloo's order depends on its algorithm. Integers in floating point come out alike.
- A deadlock is reported at once; gloo hangs until the run's timeout.
- What a process has only once is shared by all ranks: imported modules, os.environ, torch.set_default_dtype.

Why not a custom backend of torch.distributed itself? torch has one default process group and one rank per process, and
here all ranks are threads of one process. An object per rank needs no such global.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as torch_dist

from course_lib.engine.meter import P2POp
from course_lib.engine.simulated.clock import Clock
from course_lib.engine.simulated.collectives import Collectives
from course_lib.engine.simulated.groups import Arrival, Group, Meeting
from course_lib.engine.simulated.messages import Messages
from course_lib.engine.simulated.turns import Rank


class SimulatedDist(Collectives):
    """torch.distributed for one simulated rank: its identity and groups here, the rest in Messages and Collectives."""

    ReduceOp, P2POp = torch_dist.ReduceOp, P2POp
    GroupMember = torch_dist.GroupMember

    def __init__(self, clock: Clock, me: Rank, meetings: dict[tuple, Meeting], events: list) -> None:
        self.clock, self.me, self.meetings, self.events = clock, me, meetings, events
        self.world = Group(tuple(clock.places), 0, me.index, clock.places)
        self.group = type("group", (), {"WORLD": self.world})
        messages = Messages(self, clock, me)
        self.send, self.recv = messages.send, messages.recv
        self.isend, self.irecv, self.batch_isend_irecv = messages.isend, messages.irecv, messages.batch_isend_irecv
        self.calls: dict[Any, int] = {}
        """Number of collectives this rank has called on each group."""

    def __getattr__(self, name: str) -> Any:
        if hasattr(torch_dist, name):
            raise AttributeError(f"dist.{name} is not simulated; run it on real ranks: leave out on=Cluster(...)")
        meant = f"get_{name}"
        hint = f": dist.{meant}() returns it" if hasattr(torch_dist, meant) else ""
        raise AttributeError(f"torch.distributed has no {name}{hint}", name=name, obj=torch_dist)

    # Who am I?

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def get_backend(self, group=None) -> str:
        return "simulated"

    def get_rank(self, group=None) -> int:
        return self.me.index if group is None else self._group(group, member=False).rank()

    def get_world_size(self, group=None) -> int:
        chosen = self._group(group, member=False)
        return chosen.size() if chosen.rank() >= 0 else -1

    def get_process_group_ranks(self, group=None) -> list[int]:
        return list(self._group(group, member=False).ranks)

    def get_global_rank(self, group, group_rank: int) -> int:
        return self._rank_at(self._group(group, member=False), group_rank, "group_rank")

    def get_group_rank(self, group, global_rank: int) -> int:
        return self._group(group, member=False).place_of(global_rank)

    def _group(self, group: Any, member: bool = True) -> Group:
        """Return the group of a `group=` argument. With `member`, raises ValueError if this rank is not in it."""
        if group is None:
            return self.world
        if group is self.GroupMember.NON_GROUP_MEMBER:
            if member:
                raise ValueError(f"rank {self.me.index} is not in this group and cannot use it")
            return Group((), -1, self.me.index, {})
        if not isinstance(group, Group):
            raise TypeError(f"group={group!r} is not a group: use what dist.new_group returned")
        return group

    @staticmethod
    def _rank_at(group: Group, place: Any, name: str) -> int:
        if type(place) is not int or not 0 <= place < group.size():
            raise ValueError(f"{name}={place!r}: places in this group go from 0 to {group.size() - 1}")
        return group.ranks[place]

    def _rank_in(self, group: Group, rank: Any, place: Any, name: str) -> int | None:
        """Return the rank that `name=rank` or `group_<name>=place` means, None if neither is given."""
        if place is not None:
            return self._rank_at(group, place, f"group_{name}")
        if rank is not None and (type(rank) is not int or rank not in group.places):
            raise ValueError(f"{name}={rank!r}: there is no such rank; ranks are {group.text()}")
        return rank

    # Groups

    def new_group(self, ranks=None, *_: Any, use_local_synchronization: bool = False, **__: Any) -> Any:
        """Every rank of the world calls this, for every group and in the same order, as torch demands."""
        if use_local_synchronization:
            raise ValueError("new_group with use_local_synchronization is not simulated: let every rank call new_group")
        everyone = self.world.ranks
        members = everyone if ranks is None else tuple(sorted(ranks))
        if not members or len(set(members)) != len(members) or not set(members) <= set(everyone):
            raise ValueError(f"new_group({list(members)}): give different ranks out of {self.world.text()}")
        meeting = self._meet(self.world, f"new_group({list(members)})")
        if meeting.created is None:
            self.clock.groups += 1
            meeting.created = (members, self.clock.groups, {rank: place for place, rank in enumerate(members)})
        arrival = Arrival("new_group", meeting)
        meeting.arrivals.append(arrival)
        if meeting.complete():  # the last one: all go on from its time, as at torch's store
            for waiting in meeting.arrivals:
                waiting.end = self.me.now
                if waiting.waiter is not None:
                    self.clock.notify(waiting)
        self.clock.wait(self.me, arrival)
        self._leave(meeting)
        if self.me.index not in members:
            return self.GroupMember.NON_GROUP_MEMBER
        _, number, places = meeting.created
        return Group(members, number, self.me.index, places)

    def _meet(self, group: Group, signature: str) -> Meeting:
        """Register this call and return its Meeting: the n-th calls of all members of a group are one collective."""
        self.clock.turn(self.me)
        number = self.calls[group.number] = self.calls.get(group.number, 0) + 1
        meeting = self.meetings.setdefault((group.number, number), Meeting(group, number))
        meeting.arrive(self.me.index, signature)
        return meeting

    def _leave(self, meeting: Meeting) -> None:
        """Count this rank out; after the last one the meeting and its tensors are dropped."""
        meeting.left += 1
        if meeting.left == meeting.group.size():
            del self.meetings[meeting.group.number, meeting.number]
