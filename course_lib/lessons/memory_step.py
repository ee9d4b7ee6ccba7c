"""The bytes alive during one real training step, told apart by what they are: `measure_step`, `saved_for_backward`.

Torch's profiler says when each block of memory came and went; which block was a gradient, a moment of Adam or a tensor
saved for backward is found by its address at the end of the phase that made it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from course_lib.memory import readable

PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "working")
MOMENTS = {
    "forward": "at the end of forward", "backward": "inside backward", "step": "in the optimizer step",
}  # fmt: skip
PHASES = (*MOMENTS, "zero_grad")
TINY_GPU = 5e6  # bytes: of a GPU on which the tiny GPT passes its first step of 4 x 32 tokens, and not the second
MARK = "phase of the step: "


@dataclass(frozen=True, repr=False)
class MeasuredStep:
    """The bytes of each part over one step, with the names of a `Breakdown`, so that the two can be held together.

    `alive[part][i]` are the bytes of a part after the i-th block came or went; `ends[phase]` is the last such i of a
    phase. "working" is what no other part claims: results that nothing saves, gradients on their way, the optimizer's
    temporaries. Nothing is counted that was alive before but weights, gradients and the optimizer's state.
    """

    alive: dict[str, list[int]]
    ends: dict[str, int]

    @property
    def totals(self) -> list[int]:
        """Return the bytes of all parts after each block came or went."""
        return [sum(now) for now in zip(*self.alive.values(), strict=True)]

    @property
    def parts(self) -> dict[str, int]:
        """Return the bytes of each part at its own largest, "working" left out."""
        return {part: max(sizes) for part, sizes in self.alive.items() if part != "working"}

    @property
    def moments(self) -> dict[str, dict[str, int]]:
        """Return the bytes of each part at the end of forward, and where backward and the step hold most."""
        totals, found, begin = self.totals, {}, 0
        for phase, moment in MOMENTS.items():
            end = self.ends[phase]
            most = end if phase == "forward" else max(range(begin, end + 1), key=totals.__getitem__)
            found[moment] = {part: sizes[most] for part, sizes in self.alive.items()}
            begin = end
        return found

    @property
    def peak(self) -> int:
        """Return the most bytes alive at once."""
        return max(self.totals)

    @property
    def peak_moment(self) -> str:
        """Return the name of the moment at which most bytes are alive."""
        moments = self.moments
        return max(moments, key=lambda moment: sum(moments[moment].values()))

    def __str__(self) -> str:
        lines = [f"{'':<14}" + "".join(f"{moment:>24}" for moment in self.moments)]
        for part in self.alive:
            lines.append(f"{part:<14}" + "".join(f"{readable(now[part]):>24}" for now in self.moments.values()))
        lines.append(f"{'alive':<14}" + "".join(f"{readable(sum(now.values())):>24}" for now in self.moments.values()))
        return "\n".join([*lines, f"most at once: {readable(self.peak)}, {self.peak_moment}"])

    __repr__ = __str__


def measure_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[torch.nn.Module], torch.Tensor]
) -> MeasuredStep:
    """Train one step, and return what was alive when: forward `loss_of(model)`, backward, step, zero_grad.

    What the model saves for backward counts as activations, what the loss saves after it as logits. Counted is the
    memory of the device that the model is on; tried on CPUs only.
    """
    before = {
        "weights": _storages(model.parameters()),
        "gradients": _storages(p.grad for p in model.parameters()),
        "optimizer": _storages(_state(optimizer)),
    }
    made: dict[str, dict[str, Iterable[int]]] = {}  # by phase: the addresses that a part holds when it ends
    saved: dict[str, list[int]] = {"activations": [], "logits": []}
    place = ["activations"]
    hook = model.register_forward_hook(lambda *_: place.append("logits"))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[place[-1]].append(tensor.untyped_storage().data_ptr())
        return tensor.detach()  # the tensor itself would be held in a circle with its graph

    with _profiling(next(model.parameters()).device) as events:
        with record_function(MARK + "forward"), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_of(model)
        hook.remove()
        made["forward"] = {part: set(saved[part]) for part in ("logits", "activations")}
        with record_function(MARK + "backward"):
            loss.backward()
            del loss
        made["backward"] = {"gradients": _storages(p.grad for p in model.parameters())}
        with record_function(MARK + "step"):
            optimizer.step()
        made["step"] = {"optimizer": _storages(_state(optimizer))}
        with record_function(MARK + "zero_grad"):
            optimizer.zero_grad()
    return _replay(events, before, made)


def saved_for_backward(forward: Callable[[], torch.Tensor], *known: torch.Tensor) -> tuple[int, torch.Tensor]:
    """Return the bytes that `forward()` saves for backward, each storage once, and what it returned.

    Tensors in `known`, parameters for instance, were there before and are left out; so are whole numbers (tokens).
    """
    saved: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.detach())
        return saved[-1]

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = forward()
    there = _storages(known)
    found = _storages(tensor for tensor in saved if tensor.is_floating_point())
    return sum(size for address, size in found.items() if address not in there), out


def _storages(tensors: Iterable[torch.Tensor | None]) -> dict[int, int]:
    """Return the bytes of each storage under these tensors by its address, once, however many views share it."""
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t is not None}


def _state(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]


@contextlib.contextmanager
def _profiling(device: torch.device):
    """Fill the yielded list with (time, address or phase that ended, bytes) in order of time, when the block ends."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes its own log below the cell
    wanted = 1 if device.type == "cuda" else 0
    events: list[tuple[float, int | str, int]] = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield events
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/trace.json")
        trace = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    for event in trace:
        if event["name"] == "[memory]" and event["args"]["Device Type"] == wanted:
            events.append((event["ts"], event["args"]["Addr"], event["args"]["Bytes"]))
        elif event["name"].startswith(MARK):
            events.append((event["ts"] + event["dur"], event["name"].removeprefix(MARK), 0))
    events.sort(key=lambda event: event[0])


def _replay(events: list, before: dict[str, dict[int, int]], made: dict) -> MeasuredStep:
    """Return the step that these events tell: first who each block belongs to, then how much each part has when."""
    blocks = [(address, size, part) for part, held in before.items() for address, size in held.items()]
    owner = [part for _, _, part in blocks]
    at = {address: block for block, (address, _, _) in enumerate(blocks)}  # address: the block that is there now
    sizes = [size for _, size, _ in blocks]
    changes: list[tuple[int, int]] = []  # (block, bytes more or less)
    ends: dict[str, int] = {}
    for _, what, change in events:
        if isinstance(what, str):
            for part, addresses in made.get(what, {}).items():
                for address in addresses:
                    block = at.get(address)
                    if block is not None and owner[block] == "working":
                        owner[block] = part
            ends[what] = len(changes)
            if what == PHASES[-1]:
                break
        elif change > 0:
            at[what] = len(owner)
            owner.append("working")
            sizes.append(change)
            changes.append((at[what], change))
        elif what in at:  # else it came before the step, and was none of the parts
            block = at.pop(what)
            changes.append((block, -sizes[block]))
    now = {part: sum(before.get(part, {}).values()) for part in PARTS}
    alive = {part: [now[part]] for part in PARTS}
    for block, change in changes:
        now[owner[block]] += change
        for part in PARTS:
            alive[part].append(now[part])
    return MeasuredStep(alive, ends)
