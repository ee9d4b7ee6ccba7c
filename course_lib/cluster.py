"""The same function on simulated ranks with a virtual clock: same names, same results, and exact costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real

from course_lib.events import Event
from course_lib.hardware import GPU, GPUS, NODES
from course_lib.results import Deadlock, in_a_sentence

__all__ = ["Cluster", "Deadlock", "Event"]


@dataclass(frozen=True)
class Cluster:
    """Simulated ranks and the links between them: equal ones, or fast ones inside nodes and slow ones between them.

    `Cluster(bandwidth, latency)`: every pair is joined by an equal, full-duplex link. `bandwidth` is in bytes per
    second and direction, `latency` in seconds per message, `flops` in floating-point operations per second (what
    `work(flops=...)` divides by).

    `Cluster(nodes=2, gpus_per_node=8, gpu=H100)`: ranks fill one node after the other. What is not given comes from
    `course_lib.hardware`: inside a node the GPU's own link, between nodes the `nics` ports of a node with such GPUs,
    each of `nic_bandwidth` and `nic_latency`; neighbouring GPUs share a port where there are fewer ports than GPUs.
    `gpu` is a GPU or its name; without one, give `nic_bandwidth` and `nic_latency`.

    `in_network=True`: switches add. An all-reduce, all-gather or reduce-scatter of ranks that are all at one switch (on
    equal links, in one node, or each in a node of its own) goes once through it, as NVLS and SHARP do.

    The cost model stands in `course_lib.engine.simulated.clock`.
    """

    bandwidth: float | None = None
    latency: float | None = None
    flops: float | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    gpu: GPU | str | None = None
    nics: int | None = None
    nic_bandwidth: float | None = None
    nic_latency: float | None = None
    in_network: bool = False

    def __post_init__(self) -> None:
        with in_a_sentence():
            self._complete()

    def _complete(self) -> None:
        """Fill in what was not given. Raises ValueError for what makes no sense."""
        gpu = self._gpu()
        peak = gpu and next(gpu.peak(dtype) for dtype in ("bf16", "fp16", "fp32") if dtype in gpu.dtypes)
        self._default(
            bandwidth=gpu.link.bandwidth if gpu else 50e9, latency=gpu.link.latency if gpu else 5e-6, flops=peak or 1e12
        )
        if self.nodes is not None:
            self._fill_nodes(gpu)
        elif given := [name for name in _OF_NODES if getattr(self, name) is not None]:
            raise ValueError(f"{given[0]}={getattr(self, given[0])} makes sense only with nodes: Cluster(nodes=2, ...)")
        for name in ("bandwidth", "nic_bandwidth"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and value > 0):
                raise ValueError(f"{name}={value!r}: give bytes per second, more than 0 (math.inf is allowed)")
        for name in ("latency", "nic_latency"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 <= value < math.inf):
                raise ValueError(f"{name}={value!r}: give seconds, 0 or more")
        if not isinstance(self.in_network, bool):
            raise ValueError(f"in_network={self.in_network!r}: give True (switches add) or False")
        if not (isinstance(self.flops, Real) and 0 < self.flops < math.inf):
            raise ValueError(f"flops={self.flops!r}: give floating-point operations per second, more than 0")

    def _default(self, **values: float | None) -> None:
        for name, value in values.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _gpu(self) -> GPU | None:
        if self.gpu is None or isinstance(self.gpu, GPU):
            return self.gpu
        if not isinstance(self.gpu, str) or self.gpu not in GPUS:
            names = {name.lower(): repr(name) for name in GPUS}
            asked = str(self.gpu).lower()
            near = [name for name in names if name.startswith(asked)] or get_close_matches(asked, names, 1)
            hint = f"; did you mean {' or '.join(names[name] for name in near)}?" if near else ""
            raise ValueError(f"gpu={self.gpu!r}: course_lib.hardware has {', '.join(GPUS)}{hint}")
        return GPUS[self.gpu]

    def _fill_nodes(self, gpu: GPU | None) -> None:
        node = next((node for node in NODES.values() if gpu is not None and node.gpu.name == gpu.name), None)
        if node is not None:
            self._default(gpus_per_node=node.gpus, nic_bandwidth=node.nic.bandwidth, nic_latency=node.nic.latency)
            self._default(nics=max(1, min(self.gpus_per_node, node.nics * self.gpus_per_node // node.gpus)))
        self._default(nics=self.gpus_per_node)
        for name in ("nodes", "gpus_per_node", "nics"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r}: give a whole number, at least 1")
        if self.nics > self.gpus_per_node:
            raise ValueError(f"nics={self.nics}: a node of {self.gpus_per_node} GPUs uses at most as many ports")
        if self.nic_bandwidth is None or self.nic_latency is None:
            known = ", ".join(node.gpu.name for node in NODES.values())
            raise ValueError(
                f"nodes={self.nodes}: give nic_bandwidth and nic_latency of the links between nodes, or a gpu whose "
                f"node is in course_lib.hardware: {known}"
            )

    def link(self, src: int, dst: int) -> tuple[float, float]:
        """Return (latency in seconds, bandwidth in bytes per second) from one rank to another."""
        if self.nodes is None or src // self.gpus_per_node == dst // self.gpus_per_node:
            return self.latency, self.bandwidth
        return self.nic_latency, self.nic_bandwidth

    def nics_between(self, src: int, dst: int) -> tuple[int, int] | None:
        """Return the network ports that a message leaves and enters by; None inside a node, and on equal links."""
        if self.nodes is None or src // self.gpus_per_node == dst // self.gpus_per_node:
            return None
        return self._nic_of(src), self._nic_of(dst)

    def switch(self, ranks: tuple[int, ...]) -> tuple[float, float] | None:
        """Return (latency, bandwidth) of the links to the switch that adds for these ranks; None where none does."""
        places = {rank // self.gpus_per_node for rank in ranks} if self.nodes is not None else ()
        if not self.in_network or len(ranks) < 2 or 1 < len(places) < len(ranks):
            return None
        return self.link(ranks[0], ranks[1])

    def _nic_of(self, rank: int) -> int:
        node, place = divmod(rank, self.gpus_per_node)
        return node * self.nics + place * self.nics // self.gpus_per_node

    def check(self, ranks: int) -> None:
        """Raise ValueError when this cluster cannot hold so many ranks. Equal links hold any number."""
        if self.nodes is not None and ranks > self.nodes * self.gpus_per_node:
            places = self.nodes * self.gpus_per_node
            raise ValueError(
                f"ranks={ranks}: {self.nodes} nodes of {self.gpus_per_node} GPUs hold {places} ranks; add nodes"
            )

    def describe(self) -> dict[str, float]:
        """Return the cluster as plain numbers, for the process that simulates it."""
        names = ("bandwidth", "latency", "flops", *(() if self.nodes is None else ("nodes", *_OF_NODES)))
        return {name: getattr(self, name) for name in names} | ({"in_network": True} if self.in_network else {})


_OF_NODES = ("gpus_per_node", "nics", "nic_bandwidth", "nic_latency")
