"""What one step of a wrapped model does, seen from outside: its collectives, the weights that are whole, what is saved.

For torch's own wrappers, whose collectives bypass `dist`: CommDebugMode counts them, storages tell the bytes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.distributed.tensor.debug import CommDebugMode

from course_lib import bytes_held
from course_lib.lessons.running_table import Saved

KINDS = {"allgather": "all_gather", "reduce_scatter": "reduce_scatter", "allreduce": "all_reduce"}
QUIET = ("Full backward hook", "FSDP2-wrapped module .* returned a view tensor")  # said of every model, and harmless


@dataclass(frozen=True)
class Observed:
    """One forward and backward: collectives by kind, and the most bytes of whole weights and of saved activations."""

    loss: float
    forward: dict[str, int]
    backward: dict[str, int]
    whole_forward: int
    """Bytes of weights that are not sharded, or gathered just now: the most while a layer computes."""
    whole_between: int
    whole_backward: int
    saved: int

    def count(self, kind: str) -> int:
        """Return how many collectives of a kind the step takes."""
        return self.forward.get(kind, 0) + self.backward.get(kind, 0)


def bytes_whole(model: torch.nn.Module) -> int:
    """Return the bytes of the weights of `model` that this rank has whole at this moment, gathered or never cut."""
    return bytes_held([p.detach() for p in model.parameters() if not hasattr(p, "_local_tensor")])


def observe(model: torch.nn.Module, loss_of: Callable[[torch.nn.Module], torch.Tensor]) -> Observed:
    """Return what `loss_of(model)` and its backward do on this rank; gradients are left in place."""
    for words in QUIET:
        warnings.filterwarnings("ignore", words)
    saved, whole = Saved(), {"forward": [0], "backward": [0]}
    places = ["forward"]

    def look(*_: object) -> None:
        whole[places[-1]].append(bytes_whole(model))

    def unpack(kept: object) -> torch.Tensor:
        look()
        return kept.tensor

    hooks = [module.register_forward_pre_hook(look) for module in model.modules() if not list(module.children())]
    with CommDebugMode() as seen, torch.autograd.graph.saved_tensors_hooks(saved.pack, unpack):
        loss = loss_of(model)
        forward, between = _counts(seen), bytes_whole(model)
        places.append("backward")
        loss.backward()
    for hook in hooks:
        hook.remove()
    return Observed(
        loss.item(), dict(forward), dict(_counts(seen) - forward), max(whole["forward"]), between,
        max(whole["backward"]), saved.most,
    )  # fmt: skip


def told(found: dict[str, tuple[Observed, int]]) -> str:
    """Return a table of steps by name, each with the bytes of shards that a rank keeps."""
    heads = ("kB kept", "kB whole at once", "kB saved")
    lines = [f"{'':<19}" + "".join(f"{head:>18}" for head in heads) + "   gathers reduce-scatters all-reduces"]
    for name, (seen, kept) in found.items():
        sizes = "".join(f"{size / 1e3:>18,.0f}" for size in (kept, seen.whole_backward, seen.saved))
        kinds = zip(("all_gather", "reduce_scatter", "all_reduce"), (10, 16, 12), strict=True)
        lines.append(f"{name:<19}{sizes}" + "".join(f"{seen.count(kind):>{wide}}" for kind, wide in kinds))
    return "\n".join(lines)


def _counts(seen: CommDebugMode) -> Counter:
    """Return the collectives counted so far, under the names that `dist` gives them."""
    counts: Counter = Counter()
    for kind, count in seen.get_comm_counts().items():
        name = str(kind).split(".")[-1].strip("_")
        counts[next((ours for theirs, ours in KINDS.items() if name.startswith(theirs)), name)] += count
    return counts
