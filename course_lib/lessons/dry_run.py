"""A dry run: one training step of a large model on thousands of fake ranks, to see what a rank holds and sends.

    python -m course_lib.lessons.dry_run --layers 126     # all of Llama-3-405B: about 50 CPU seconds and 1.2 GB

torch's FSDP2 and tensor parallelism shard a model whose tensors have no numbers: it is built on the device "meta",
parallelized there, and then run with fake tensors in a process group that sends nothing. Rank 0 of 16,384 does all that
a real one would, but it neither computes nor waits. Why not parallelize under fake tensors, too? FSDP2 then looks into
storages that do not exist.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections import Counter
from typing import Any

from course_lib.models import MODELS, ModelShape


def dry_run(name: str = "Llama-3-405B", ranks: int = 16384, tp: int = 8, layers: int = 8, tokens: int = 128) -> dict:
    """Return what `report` measures, from a process of its own: a process group is made once in a process.

    Raises ValueError for a number of ranks or heads that `tp` does not divide.
    """
    shape = MODELS[name]
    if ranks % tp or shape.heads % tp or shape.kv_heads % tp:
        heads = f"heads = {shape.heads} and kv_heads = {shape.kv_heads}"
        raise ValueError(f"tp = {tp}: must divide ranks = {ranks:,}, {heads}")
    options = {"name": name, "ranks": ranks, "tp": tp, "layers": layers, "tokens": tokens}
    command = [sys.executable, "-m", "course_lib.lessons.dry_run", "--json"]
    command += [part for key, value in options.items() for part in (f"--{key}", str(value))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the dry run failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def report(name: str, ranks: int, tp: int, layers: int, tokens: int) -> dict:
    """Return what rank 0 holds (bytes by part, 16-bit weights, fp32 optimizer) and calls (collectives by kind)."""
    import torch
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    warnings.filterwarnings("ignore")
    begin = time.process_time()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks // tp, tp), mesh_dim_names=("dp", "tp"))
    model = _model(MODELS[name], layers)
    _parallelize(model, mesh)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with CommDebugMode() as seen:
            loss = model(torch.zeros(1, tokens, dtype=torch.long)).float().mean()
            forward = Counter({str(kind): count for kind, count in seen.get_comm_counts().items()})
            loss.backward()
        both = Counter({str(kind): count for kind, count in seen.get_comm_counts().items()})
        optimizer.step()
        held = _bytes(optimizer, model)
    dist.destroy_process_group()
    return {
        "held": held,
        "forward": _named(forward),
        "backward": _named(both - forward),
        "layers": layers,
        "seconds": time.process_time() - begin,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6),
    }


def _model(shape: ModelShape, layers: int) -> Any:
    """Return a Llama of so many layers whose tensors have shapes and no numbers, in 16 bits."""
    import torch
    from torch import nn
    from torch.nn import functional

    wide, inner, head = shape.hidden, shape.ffn, shape.head_size

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(wide), nn.RMSNorm(wide)
            sizes = {"q": (wide, shape.heads * head), "k": (wide, shape.kv_heads * head), "out": (wide, wide),
                     "v": (wide, shape.kv_heads * head), "gate": (wide, inner), "up": (wide, inner),
                     "down": (inner, wide)}  # fmt: skip
            for name, (width, height) in sizes.items():
                setattr(self, name, nn.Linear(width, height, bias=False))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm1(x)
            q, k, v = (part(y).unflatten(-1, (-1, head)).transpose(1, 2) for part in (self.q, self.k, self.v))
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            y = self.norm2(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(shape.vocabulary, wide)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = nn.RMSNorm(wide), nn.Linear(wide, shape.vocabulary, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.embed(x)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    with torch.device("meta"):
        return Model()


def _parallelize(model: Any, mesh: Any) -> None:
    """Cut a model along "tp", and shard what is left along "dp", layer by layer: bf16 to compute, fp32 to keep."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = ("q", "k", "v", "gate", "up"), ("out", "down")
    kinds = dict.fromkeys(columns, ColwiseParallel()) | dict.fromkeys(rows, RowwiseParallel())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], kinds)
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
    parallelize_module(
        model, mesh["tp"], {"embed": RowwiseParallel(input_layouts=Replicate()), "head": ColwiseParallel()}
    )
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)


def _bytes(optimizer: Any, model: Any) -> dict[str, int]:
    """Return the bytes of this rank's own pieces, by part."""
    mine = [parameter.to_local() for parameter in model.parameters()]
    values = [value for one in optimizer.state.values() for value in one.values()]
    state = [value.to_local() for value in values if hasattr(value, "to_local")]
    weights = sum(piece.numel() * piece.element_size() for piece in mine)
    return {"weights": weights, "gradients": weights, "moments": sum(one.numel() * one.element_size() for one in state)}


NAMES = {"allgather": "all_gather", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter"}


def _named(counts: Counter) -> dict[str, int]:
    found: Counter = Counter()
    for kind, count in counts.items():
        word = kind.split(".")[-1].strip("_")
        found[next((ours for theirs, ours in NAMES.items() if word.startswith(theirs)), "all_reduce")] += count
    return dict(found)


def main() -> None:
    """Run with options, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="Llama-3-405B", choices=list(MODELS))
    for option, default in (("ranks", 16384), ("tp", 8), ("layers", 126), ("tokens", 128)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    found = report(**given)
    print(json.dumps(found) if as_json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
