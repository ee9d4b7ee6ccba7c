"""Answers to the exercises of chapter 10."""

import math

import numpy as np
import torch


def fit_alpha_beta(sizes, seconds):
    """Least squares of relative errors: dividing by what was measured gives every size the same say."""
    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.asarray(seconds))
    return float(alpha), float(beta)


def choose_protocol(bytes, ranks, protocols):
    """The lower envelope of straight lines: an all-reduce goes twice round the ring, by pieces of bytes / ranks."""

    def seconds(name):
        start, step, bandwidth = protocols[name]
        return start + 2 * (ranks - 1) * (step + bytes / ranks / bandwidth)

    return min(protocols, key=seconds)


def hierarchical_all_reduce(dist, tensor, per_node):
    """Add up inside each node first, so that only one node's worth of data leaves it; each rank carries one piece."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group(list(range(first, first + per_node))) for first in range(0, ranks, per_node)]
    places = [dist.new_group(list(range(place, ranks, per_node))) for place in range(per_node)]
    inside, across = nodes[rank // per_node], places[rank % per_node]
    pieces = list(tensor.view(-1).chunk(per_node))  # views: filling them fills the tensor
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    dist.all_reduce(mine, group=across)
    dist.all_gather(pieces, mine, group=inside)


def rails_seconds(nodes, per_node, bytes, fast, slow):
    """Two laps of a ring in each node, and between them a ring on every rail, over a piece of the tensor."""
    inside = 2 * (per_node - 1) * (fast.latency + bytes / per_node / fast.bandwidth)
    across = 2 * (nodes - 1) * (slow.latency + bytes / per_node / nodes / slow.bandwidth)
    return inside + across


def diagnose(log, pair, sixteen):
    """Read the log first, because a fault in it explains the rates; one bad channel is enough."""
    lines = log.splitlines()
    network = [line for line in lines if "via NET/" in line]
    cards = {word for line in lines if "Using" in line for word in line.split() if ":1/" in word}
    if any("via NET/Socket" in line for line in network):
        return "tcp"
    if any("GDRDMA" not in line for line in network):
        return "detour"
    if len(cards) < 8:
        return "missing ports"
    if pair < 40:
        return "network"
    return "shared links" if sixteen < 320 else "healthy"


def collective_seconds(kind, ranks, nbytes, alpha, beta, algorithm):
    """Count the messages that follow one another, and how large each is; an all-reduce goes there and back."""
    ways = 2 if kind == "all_reduce" else 1
    if algorithm == "naive":
        return ways * (ranks - 1) * (alpha + nbytes * beta)
    if algorithm == "tree":
        return ways * math.ceil(math.log2(ranks)) * (alpha + nbytes * beta)
    return ways * (ranks - 1) * (alpha + nbytes / ranks * beta)  # ring and pairwise


def crossover_bytes(ranks, alpha, beta):
    """A ring has more messages and a tree more bytes, so set both times equal; up to 3 ranks messages are as many."""
    rounds = math.ceil(math.log2(ranks))
    return alpha / beta * (ranks - 1 - rounds) / (rounds - (ranks - 1) / ranks) if ranks > 3 else 0.0


def in_network_seconds(kind, ranks, bytes, latency, bandwidth):
    """Once to the switch and back; of a gather or a scatter, a rank's own piece stays where it is."""
    if ranks == 1:
        return 0.0
    crossing = bytes if kind == "all_reduce" else (ranks - 1) / ranks * bytes
    return latency + crossing / bandwidth


def congested(traffic, links):
    """Add up what goes over each link; the one that needs the longest for its bytes holds up the rest."""
    seconds = dict.fromkeys(links, 0.0)
    for route, size in traffic:
        for link in route:
            seconds[link] += size / links[link]
    busiest = max(seconds, key=seconds.get)
    return busiest, seconds[busiest]
