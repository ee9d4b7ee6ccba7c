"""Draws the README's picture again: python docs/readme_pictures.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch

from course_lib import Cluster, run
from course_lib.plots import race
from solutions.ch00_start_here import sum_on_every_rank
from solutions.ch03_ring_all_reduce import ring_all_reduce


def star(dist, tensor):
    sum_on_every_rank(dist, tensor)


def ring(dist, tensor):
    ring_all_reduce(dist, tensor)


cluster = Cluster(bandwidth=50e9, latency=5e-6)
traces = {name: run(name, torch.ones(1_000_000), ranks=8, on=cluster) for name in (star, ring)}
names = {"Through rank 0": traces[star], "Around a ring": traces[ring]}
axis = race(names, on=cluster, title="Eight ranks add up 4 MB: rank 0 does all the work, or everybody an eighth")
axis.figure.savefig(Path(__file__).with_name("race.png"), dpi=110)
