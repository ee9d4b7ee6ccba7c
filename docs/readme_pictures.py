"""Draws the README's pictures again: python docs/readme_pictures.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch

from course_lib import Cluster, run
from course_lib.plots import timeline
from solutions.ch00_start_here import sum_on_every_rank
from solutions.ch03_ring_all_reduce import ring_all_reduce


def star(dist, tensor):
    sum_on_every_rank(dist, tensor)


def ring(dist, tensor):
    ring_all_reduce(dist, tensor)


cluster = Cluster(bandwidth=50e9, latency=5e-6)
traces = {name: run(name, torch.ones(1_000_000), ranks=8, on=cluster) for name in (star, ring)}
longest = max(trace.seconds for trace in traces.values())
for function, trace in traces.items():
    figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
    timeline(trace, ax=axis, title=f"{function.__name__}: 4 MB from each rank, summed on every rank")
    axis.set_xlim(0, axis.get_xlim()[1] * longest / trace.seconds)
    figure.savefig(Path(__file__).with_name(f"{function.__name__}.png"), dpi=110)
