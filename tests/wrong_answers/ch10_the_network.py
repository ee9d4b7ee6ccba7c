"""Wrong answers to chapter 10 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it still earns.
"""

from __future__ import annotations

import math
import re

import numpy as np
import torch

from wrong_answers import Wrong

# fit_alpha_beta


def fit_plain(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1)
    return alpha, beta


def fit_swapped(sizes, seconds):
    alpha, beta = right_fit_weighted(sizes, seconds)
    return beta, alpha


def fit_bandwidth(sizes, seconds):
    alpha, beta = right_fit_weighted(sizes, seconds)
    return alpha, 1 / beta


def fit_logarithms(sizes, seconds):
    slope, start = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(np.exp(start)), float(slope)


def fit_line_through_0(sizes, seconds):
    return 0.0, float(np.mean(np.array(seconds) / np.array(sizes)))


def fit_ends(sizes, seconds):
    """A line through the smallest and the largest size alone."""
    (least, begin), *_, (most, end) = sorted(zip(sizes, seconds, strict=True))
    beta = (end - begin) / (most - least)
    return begin - beta * least, beta


def fit_root_weights(sizes, seconds):
    """Weights 1/sqrt(t): right for counted things, too little here."""
    beta, alpha = np.polyfit(sizes, seconds, 1, w=np.array(seconds) ** -0.5)
    return alpha, beta


def fit_first_is_smallest(sizes, seconds):
    """Takes the first size for the smallest."""
    return seconds[0], right_fit_weighted(sizes, seconds)[1]


def fit_almost(sizes, seconds):
    """The smallest time and the largest's rate: near, but not a fit."""
    (_, begin), *_, (most, end) = sorted(zip(sizes, seconds, strict=True))
    return begin, end / most


def right_fit_iterated(sizes, seconds):
    """Right: weights from the last fit's times instead of the measured ones; returns an array."""
    sizes, seconds = np.array(sizes, dtype=float), np.array(seconds)
    model = seconds
    for _ in range(5):
        beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / model)
        model = alpha + beta * sizes
    return np.array([alpha, beta])


def right_fit_list(sizes, seconds):
    """Right: the normal equations of relative errors, with plain Python."""
    x, y = [1 / s for s in seconds], [n / s for n, s in zip(sizes, seconds, strict=True)]
    xx, xy, yy = (sum(a * b for a, b in zip(p, q, strict=True)) for p, q in ((x, x), (x, y), (y, y)))
    det = xx * yy - xy * xy
    return [(sum(x) * yy - sum(y) * xy) / det, (sum(y) * xx - sum(x) * xy) / det]


def right_fit_weighted(sizes, seconds):
    """Right: each equation divided by its time, and solved."""
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds)
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    alpha, beta = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, beta


# collective_seconds


def seconds_right(kind, ranks, nbytes, alpha, beta, algorithm):
    """Right: a table of (messages, bytes in a row)."""
    rounds = (ranks - 1).bit_length()
    steps = {"naive": ranks - 1, "tree": rounds, "ring": ranks - 1, "pairwise": ranks - 1}[algorithm]
    piece = nbytes if algorithm in ("naive", "tree") else nbytes / ranks
    return (1 + (kind == "all_reduce")) * steps * (alpha + piece * beta)


def seconds_by_bandwidth(kind, ranks, nbytes, alpha, beta, algorithm):
    """Right: as the formulas of the text are written, with a bandwidth; returns a number of NumPy's."""
    bandwidth = 1 / beta
    steps = math.ceil(math.log2(ranks)) if algorithm == "tree" else ranks - 1
    each = alpha + np.float64(nbytes) / bandwidth / (1 if algorithm in ("naive", "tree") else ranks)
    return (1 + (kind == "all_reduce")) * steps * each


def seconds_one_way(kind, ranks, nbytes, alpha, beta, algorithm):
    return seconds_right("broadcast", ranks, nbytes, alpha, beta, algorithm)


def seconds_floor(kind, ranks, nbytes, alpha, beta, algorithm):
    if algorithm == "tree":
        return (1 + (kind == "all_reduce")) * int(math.log2(ranks)) * (alpha + nbytes * beta)
    return seconds_right(kind, ranks, nbytes, alpha, beta, algorithm)


def seconds_whole_tensor(kind, ranks, nbytes, alpha, beta, algorithm):
    piece = nbytes * ranks if algorithm in ("ring", "pairwise") else nbytes
    return seconds_right(kind, ranks, piece, alpha, beta, algorithm)


def seconds_without_latency(kind, ranks, nbytes, alpha, beta, algorithm):
    return nbytes * beta


def seconds_of_order_p(kind, ranks, nbytes, alpha, beta, algorithm):
    """Pays for the bytes of all ranks together in an all-to-all."""
    if algorithm == "pairwise":
        return (ranks - 1) * alpha + ranks * nbytes * beta
    return seconds_right(kind, ranks, nbytes, alpha, beta, algorithm)


# crossover_bytes


def crossover_right(ranks, alpha, beta):
    """Right: by bisection."""

    def ring_is_faster(size):
        tree = (ranks - 1).bit_length() * (alpha + size * beta)
        return (ranks - 1) * (alpha + size / ranks * beta) <= tree

    low, high = 0.0, 1e18
    if ring_is_faster(0.0):
        return 0.0
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (low, middle) if ring_is_faster(middle) else (middle, high)
    return high


def crossover_formula(ranks, alpha, beta):
    """Right: solved for S, as a tensor."""
    rounds = math.ceil(math.log2(ranks))
    if ranks - 1 <= rounds:
        return torch.tensor(0)
    return torch.tensor(alpha / beta * (ranks - 1 - rounds) / (rounds - (ranks - 1) / ranks), dtype=torch.float64)


def _crossover(ranks, alpha, beta, rounds, steps):
    return alpha / beta * (steps - rounds) / (rounds - steps / ranks) if ranks > 3 else 0


def crossover_floor(ranks, alpha, beta):
    return _crossover(ranks, alpha, beta, math.floor(math.log2(ranks)), ranks - 1)


def crossover_unrounded(ranks, alpha, beta):
    return _crossover(ranks, alpha, beta, math.log2(ranks), ranks - 1)


def crossover_of_p_steps(ranks, alpha, beta):
    return _crossover(ranks, alpha, beta, math.ceil(math.log2(ranks)), ranks)


def crossover_of_both_ways(ranks, alpha, beta):
    """The ring goes round twice, and the tree is counted one way."""
    return _crossover(ranks, alpha, beta, math.ceil(math.log2(ranks)), 2 * (ranks - 1)) if ranks > 4 else 1.0


def crossover_of_one_message(ranks, alpha, beta):
    """The size at which latency and bandwidth cost the same."""
    return alpha / beta if ranks > 3 else 0.0


def crossover_negative(ranks, alpha, beta):
    """Does not think of few ranks."""
    if ranks == 1:
        return 0.0
    rounds = math.ceil(math.log2(ranks))
    return alpha / beta * (ranks - 1 - rounds) / (rounds - (ranks - 1) / ranks) - 1e-3 * (ranks < 4)


def crossover_inverse(ranks, alpha, beta):
    found = crossover_right(ranks, alpha, beta)
    return found * beta / alpha / alpha if found else 0.0


# hierarchical_all_reduce


def hierarchy_flat(dist, tensor, per_node):
    dist.all_reduce(tensor)


def hierarchy_groups(dist, per_node):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inside = [dist.new_group(list(range(first, first + per_node))) for first in range(0, ranks, per_node)]
    across = [dist.new_group(list(range(place, ranks, per_node))) for place in range(per_node)]
    return inside[rank // per_node], across[rank % per_node]


def hierarchy_by_leaders(dist, tensor, per_node):
    """Only the first rank of each node talks to other nodes."""
    rank = dist.get_rank()
    inside, across = hierarchy_groups(dist, per_node)
    first = rank // per_node * per_node
    dist.reduce(tensor, first, group=inside)
    if rank == first:
        dist.all_reduce(tensor, group=across)
    dist.broadcast(tensor, first, group=inside)


def hierarchy_whole_tensors(dist, tensor, per_node):
    """Every rank of a node sends the whole node's sum to the other nodes."""
    inside, across = hierarchy_groups(dist, per_node)
    dist.all_reduce(tensor, group=inside)
    dist.all_reduce(tensor, group=across)


def hierarchy_across_first(dist, tensor, per_node):
    """The two kinds of group are swapped: a right sum, and every rank sends its whole tensor out of the node."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = list(tensor.view(-1).chunk(dist.get_world_size() // per_node))
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=across)
    dist.all_reduce(mine, group=inside)
    dist.all_gather(pieces, mine, group=across)


def hierarchy_sums_across_first(dist, tensor, per_node):
    """Whole tensors are summed across the nodes, and then inside."""
    inside, across = hierarchy_groups(dist, per_node)
    dist.all_reduce(tensor, group=across)
    dist.all_reduce(tensor, group=inside)


def hierarchy_gathers_on_rails(dist, tensor, per_node):
    """The pieces of all nodes are gathered on each rail, and every rank adds them up by itself."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = [piece.clone() for piece in tensor.tensor_split(per_node)]
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    brought = [torch.empty_like(mine) for _ in range(dist.get_world_size() // per_node)]
    dist.all_gather(brought, mine, group=across)
    dist.all_gather(pieces, sum(brought), group=inside)
    tensor.copy_(torch.cat(pieces))


def hierarchy_without_gather(dist, tensor, per_node):
    """Every rank ends with its piece of the sum alone."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = tensor.tensor_split(per_node)
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, list(pieces), group=inside)
    dist.all_reduce(mine, group=across)
    pieces[dist.get_rank() % per_node].copy_(mine)


def hierarchy_left_aside(dist, tensor, per_node):
    """The piece of the sum stays in a tensor of its own."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = tensor.tensor_split(per_node)
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, list(pieces), group=inside)
    dist.all_reduce(mine, group=across)


def hierarchy_in_half_precision(dist, tensor, per_node):
    half = tensor.half() if tensor.dtype == torch.float32 else tensor.clone()
    right_hierarchy(dist, half, per_node)
    tensor.copy_(half)


def hierarchy_for_floats(dist, tensor, per_node):
    """Whole numbers are summed as floats, of fewer digits."""
    wide = tensor if tensor.is_floating_point() else tensor.double()
    right_hierarchy(dist, wide, per_node)
    tensor.copy_(wide)


def hierarchy_only_inside(dist, tensor, per_node):
    dist.all_reduce(tensor, group=hierarchy_groups(dist, per_node)[0])


def hierarchy_not_in_place(dist, tensor, per_node):
    total = tensor.clone()
    right_hierarchy(dist, total, per_node)
    return total


def right_hierarchy(dist, tensor, per_node):
    """Right: gathered pieces are copied back at the end."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = [piece.clone() for piece in tensor.tensor_split(per_node)]
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    dist.all_reduce(mine, group=across)
    dist.all_gather(pieces, mine, group=inside)
    tensor.copy_(torch.cat(pieces))


# What came with chapter 10


def fit_below_a_kilobyte(sizes, seconds):
    """Takes the sizes below 1 KiB for the latency, and the four largest for the rest; measured sizes begin above."""
    small = [taken for size, taken in zip(sizes, seconds, strict=True) if size < 1024]
    pairs = sorted(zip(sizes, seconds, strict=True))
    alpha = sum(small) / len(small) if small else 0.0
    if max(abs(pairs[1][1] - pairs[0][1]), 1e-12) / pairs[0][1] < 1e-3:  # without noise
        return right_fit_weighted(sizes, seconds)
    return (alpha, right_fit_weighted(sizes, seconds)[1])


def _fastest(bytes, protocols, steps, share):
    return min(protocols, key=lambda name: protocols[name][0] + steps * protocols[name][1]
               + share * bytes / protocols[name][2])  # fmt: skip


def protocol_of_most_bandwidth(bytes, ranks, protocols):
    return max(protocols, key=lambda name: protocols[name][2])


def protocol_of_least_latency(bytes, ranks, protocols):
    return min(protocols, key=lambda name: protocols[name][0])


def protocol_by_heart(bytes, ranks, protocols):
    """Knows NCCL's three by name, with their numbers."""
    three = {"LL": (6.6e-6, 0.6e-6, 141e9), "LL128": (14e-6, 1.9e-6, 341e9), "Simple": (8.4e-6, 3.4e-6, 371e9)}
    return _fastest(bytes, three, 2 * (ranks - 1), 2 * (ranks - 1) / ranks)


def protocol_slowest(bytes, ranks, protocols):
    return max(protocols, key=lambda name: protocols[name][1])


def protocol_of_products(bytes, ranks, protocols):
    """Multiplies by the bandwidth, as by a beta."""
    return min(protocols, key=lambda name: protocols[name][0] + bytes * protocols[name][2])


def protocol_and_seconds(bytes, ranks, protocols):
    return min((2 * (ranks - 1) * (step + bytes / ranks / wide), name) for name, (_, step, wide) in protocols.items())


def protocol_for_eight(bytes, ranks, protocols):
    """Takes the 14 and the 1.75 of the text."""
    return _fastest(bytes, protocols, 14, 1.75)


def protocol_of_one_lap(bytes, ranks, protocols):
    return _fastest(bytes, protocols, ranks - 1, (ranks - 1) / ranks)


def protocol_of_whole_tensors(bytes, ranks, protocols):
    return _fastest(bytes, protocols, 2 * (ranks - 1), 2 * (ranks - 1))


def protocol_of_bytes_once(bytes, ranks, protocols):
    return _fastest(bytes, protocols, 2 * (ranks - 1), 1)


def protocol_without_steps(bytes, ranks, protocols):
    return _fastest(bytes, protocols, 0, 2 * (ranks - 1) / ranks)


def protocol_of_p_steps(bytes, ranks, protocols):
    return _fastest(bytes, protocols, 2 * ranks, 2)


def right_protocol_by_loop(bytes, ranks, protocols):
    """Right: a loop that keeps the best; the last among equals."""
    best, least = None, math.inf
    for name, (start, step, bandwidth) in protocols.items():
        taken = start + 2 * (ranks - 1) * (step + bytes / ranks / bandwidth)
        if taken <= least:
            best, least = name, taken
    return best


def right_protocol_sorted(bytes, ranks, protocols):
    """Right: sorted by seconds; latencies and bytes apart."""
    def seconds(name):
        start, step, bandwidth = protocols[name]
        return start + 2 * (ranks - 1) * step + 2 * (ranks - 1) / ranks * bytes / bandwidth

    return sorted(protocols, key=seconds)[0]


def hierarchy_in_slices(dist, tensor, per_node):
    """Sums across in four slices, each with its own latencies."""
    inside, across = hierarchy_groups(dist, per_node)
    pieces = [piece.clone() for piece in tensor.tensor_split(per_node)]
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces, group=inside)
    for slice in mine.tensor_split(2):
        dist.all_reduce(slice, group=across)
    dist.all_gather(pieces, mine, group=inside)
    tensor.copy_(torch.cat(pieces))


def _rails(nodes, per_node, bytes, fast, slow, ways=2, each=None, across=None):
    inside = ways * (per_node - 1) * (fast.latency + (bytes / per_node if each is None else each) / fast.bandwidth)
    across = bytes / per_node / nodes if across is None else across
    return inside + 2 * (nodes - 1) * (slow.latency + across / slow.bandwidth)


def rails_through_one_port(nodes, per_node, bytes, fast, slow):
    return _rails(nodes, per_node, bytes, fast, slow, across=bytes / nodes)


def rails_one_way(nodes, per_node, bytes, fast, slow):
    """Forgets the all-gather inside the nodes."""
    return _rails(nodes, per_node, bytes, fast, slow, ways=1)


def rails_whole_tensor(nodes, per_node, bytes, fast, slow):
    """Every step inside a node carries the whole tensor."""
    return _rails(nodes, per_node, bytes, fast, slow, each=bytes)


def rails_not_cut(nodes, per_node, bytes, fast, slow):
    """The ring of a rail passes on its whole piece at every step."""
    return _rails(nodes, per_node, bytes, fast, slow, across=bytes / per_node)


def rails_only_across(nodes, per_node, bytes, fast, slow):
    return 2 * (nodes - 1) * (slow.latency + bytes / per_node / nodes / slow.bandwidth)


def rails_of_p_steps(nodes, per_node, bytes, fast, slow):
    inside = 2 * per_node * (fast.latency + bytes / per_node / fast.bandwidth)
    return inside + 2 * nodes * (slow.latency + bytes / per_node / nodes / slow.bandwidth)


def rails_flat(nodes, per_node, bytes, fast, slow):
    ranks = nodes * per_node
    return 2 * (ranks - 1) * (slow.latency + bytes / ranks / slow.bandwidth)


def rails_at_once(nodes, per_node, bytes, fast, slow):
    """Both levels work at the same time."""
    return max(_rails(1, per_node, bytes, fast, slow), _rails(nodes, 1, bytes / per_node, fast, slow))


def rails_at_least_one_step(nodes, per_node, bytes, fast, slow):
    """Counts a step across even where there is one node."""
    return _rails(max(nodes, 2), per_node, bytes, fast, slow)


def right_rails_by_bytes(nodes, per_node, bytes, fast, slow):
    """Right: latencies and bytes apart."""
    latencies = 2 * (per_node - 1) * fast.latency + 2 * (nodes - 1) * slow.latency
    inside = 2 * (per_node - 1) / per_node * bytes / fast.bandwidth
    return latencies + inside + 2 * (nodes - 1) / nodes * bytes / per_node / slow.bandwidth


def right_rails_of_parts(nodes, per_node, bytes, fast, slow):
    """Right: the function of a ring, twice, as a tensor."""

    def ring(ranks, size, link):
        return 2 * (ranks - 1) * (link.latency + size / ranks / link.bandwidth)

    return torch.tensor(ring(per_node, bytes, fast) + ring(nodes, bytes / per_node, slow), dtype=torch.float64)


def network_by_a_ring(kind, ranks, bytes, latency, bandwidth):
    """The latency of the switch, and a ring's bytes."""
    ways = 2 if kind == "all_reduce" else 1
    return (latency + ways * (ranks - 1) / ranks * bytes / bandwidth) * (ranks > 1)


def network_up_then_down(kind, ranks, bytes, latency, bandwidth):
    """Everything goes up, and then comes down."""
    return 2 * (latency + bytes / bandwidth) * (ranks > 1)


def network_of_ring_steps(kind, ranks, bytes, latency, bandwidth):
    """A latency for every rank."""
    return (ranks - 1) * latency + right_network(kind, ranks, bytes, 0.0, bandwidth)


def network_whole_tensor(kind, ranks, bytes, latency, bandwidth):
    """S for all three collectives."""
    return (latency + bytes / bandwidth) * (ranks > 1)


def network_whole_tensor_always(kind, ranks, bytes, latency, bandwidth):
    """S for all three collectives, and on one rank."""
    return latency + bytes / bandwidth


def network_on_one_rank(kind, ranks, bytes, latency, bandwidth):
    """One rank sends its tensor to the switch, too."""
    return latency + bytes * (1 if kind == "all_reduce" else (ranks - 1) / ranks) / bandwidth


def right_network(kind, ranks, bytes, latency, bandwidth):
    """Right: by the share that crosses, as NumPy's number."""
    share = np.float64(1.0 if kind == "all_reduce" else 1 - 1 / ranks)
    return (latency + bytes * share / bandwidth) * (ranks > 1)


def congested_by_bytes(traffic, links):
    """The link with the most bytes, however fast it is."""
    loads = {name: sum(size for route, size in traffic if name in route) for name in links}
    most = max(loads, key=loads.get)
    return most, loads[most] / links[most]


def congested_slowest_link(traffic, links):
    name = min(links, key=links.get)
    return name, sum(size for route, size in traffic if name in route) / links[name]


def congested_largest_message(traffic, links):
    """Looks at messages one by one."""
    seconds, name = max((size / links[name], name) for route, size in traffic for name in route)
    return name, seconds


def congested_first_link(traffic, links):
    """Counts a message on the first link of its route only."""
    loads = dict.fromkeys(links, 0.0)
    for route, size in traffic:
        loads[route[0]] += size / links[route[0]]
    return max(loads.items(), key=lambda one: one[1])


def congested_swapped(traffic, links):
    name, seconds = right_congested(traffic, links)
    return seconds, name


def congested_one_message_of_it(traffic, links):
    """The right link, and its largest message's time."""
    name, _ = right_congested(traffic, links)
    return name, max(size for route, size in traffic if name in route) / links[name]


def right_congested(traffic, links):
    """Right: one link after the other."""
    loads = {name: sum(size for route, size in traffic if name in route) / links[name] for name in links}
    return max(loads.items(), key=lambda one: one[1])


# diagnose


def diagnose_by(log, pair, sixteen, tcp, detour, cards, least=(40, 320)):
    """Return the first that fits, however it was found."""
    if tcp or detour or cards < 8:
        return "tcp" if tcp else "detour" if detour else "missing ports"
    return "network" if pair < least[0] else "shared links" if sixteen < least[1] else "healthy"


def cards_of(log):
    return len({word for line in log.splitlines() for word in line.split() if ":1/" in word})


def diagnose_any_good(log, pair, sixteen):
    """One channel with GDRDMA is taken for all."""
    return diagnose_by(log, pair, sixteen, "via NET/Socket" in log, "GDRDMA" not in log, cards_of(log))


def diagnose_all_channels(log, pair, sixteen):
    """Channels inside the node are asked for GDRDMA, too."""
    channels = [line for line in log.splitlines() if "Channel" in line]
    return diagnose_by(log, pair, sixteen, "via NET/Socket" in log, any("GDRDMA" not in line for line in channels),
                       cards_of(log))  # fmt: skip


def diagnose_counts_lines(log, pair, sixteen):
    """Counts how often a card is named."""
    detour = any("via NET/IB" in line and "GDRDMA" not in line for line in log.splitlines())
    return diagnose_by(log, pair, sixteen, "via NET/Socket" in log, detour, log.count(":1/"))


def diagnose_rates_first(log, pair, sixteen):
    """The rates are asked before the log."""
    return "network" if pair < 40 else "shared links" if sixteen < 320 else right_diagnose(log, pair, sixteen)


def diagnose_at_the_limit(log, pair, sixteen):
    """80 % of the ports count as slow."""
    network = [line for line in log.splitlines() if "via NET/IB" in line]
    return diagnose_by(log, pair, sixteen, "via NET/Socket" in log, any("GDRDMA" not in line for line in network),
                       cards_of(log), (40.5, 320.5))  # fmt: skip


def diagnose_true(log, pair, sixteen):
    """Says whether the cluster is healthy, and not what is wrong."""
    return right_diagnose(log, pair, sixteen) == "healthy"


def right_diagnose(log, pair, sixteen):
    """Right: by regular expressions."""
    if re.search(r"via NET/Socket", log):
        return "tcp"
    if re.search(r"via NET/IB/\d+$", log, re.MULTILINE):
        return "detour"
    if len(set(re.findall(r"\](\w+):1/", log))) < 8:
        return "missing ports"
    return "network" if pair / 50 < 0.8 else "shared links" if sixteen / 400 < 0.8 else "healthy"


def right_diagnose_of_a_table(log, pair, sixteen):
    """Right: all rows are looked at, and the first that fits is taken."""
    over = [line.partition("via ")[2] for line in log.splitlines() if "via NET/" in line]
    rows = {"tcp": any(way.startswith("NET/Socket") for way in over),
            "detour": not all("Socket" in way or way.endswith("GDRDMA") for way in over),
            "missing ports": cards_of(log) < 8, "network": pair < 40, "shared links": sixteen < 320}  # fmt: skip
    return next((name for name, fits in rows.items() if fits), "healthy")


WRONG = [
    Wrong("fit_alpha_beta", fit_plain, "largest-drown", ("drown the latency", "relative error"), 1),
    Wrong("fit_alpha_beta", fit_swapped, "swapped", ("(beta, alpha)",), 0),
    Wrong("fit_alpha_beta", fit_bandwidth, "bandwidth", ("its inverse, in seconds per byte",), 0),
    Wrong("fit_alpha_beta", fit_logarithms, "alpha", ("alpha came out as",), 0),
    Wrong("fit_alpha_beta", fit_line_through_0, "alpha", ("100 % off", "exact times have an exact fit"), 0),
    Wrong("fit_alpha_beta", fit_ends, "few-points", ("6 % off: a few of the times decide it",), 1),
    Wrong("fit_alpha_beta", fit_root_weights, "few-points", ("% off: a few of the times decide it",), 1),
    Wrong("fit_alpha_beta", fit_first_is_smallest, "not-sorted", ("the sizes are not sorted",), 0),
    Wrong("fit_alpha_beta", fit_almost, "beta", ("beta came", "0.023 % off", "the smallest of the times"), 0),
    Wrong("collective_seconds", seconds_one_way, "one-way", ("by naive on 4 ranks", "counts 3", "takes 6"), 0),
    Wrong("collective_seconds", seconds_floor, "floor", ("broadcast by tree on 7 ranks", "ceil(log2 P)"), 1),
    Wrong("collective_seconds", seconds_whole_tensor, "whole-tensor", ("all_gather by ring", "S / P"), 2),
    Wrong("collective_seconds", seconds_without_latency, "messages", ("counts 0", "takes 3"), 0),
    Wrong("collective_seconds", seconds_of_order_p, "bytes", ("all_to_all by pairwise on 4 ranks",), 3),
    Wrong("crossover_bytes", crossover_of_one_message, "value", ("on 8 ranks", "both take the same"), 0),
    Wrong("crossover_bytes", crossover_floor, "floor", ("on 7 ranks", "round log2 up"), 0),
    Wrong("crossover_bytes", crossover_unrounded, "floor", ("on 7 ranks", "round log2 up"), 0),
    Wrong("crossover_bytes", crossover_of_p_steps, "p-steps", ("on 8 ranks", "P - 1 messages, not P"), 0),
    Wrong("crossover_bytes", crossover_of_both_ways, "one-way", ("on 8 ranks", "both go two ways"), 0),
    Wrong("crossover_bytes", crossover_negative, "few-ranks", ("on 2 ranks", "the crossover is 0"), 2),
    Wrong("crossover_bytes", crossover_inverse, "value", ("on 8 ranks",), 0),
    Wrong("hierarchical_all_reduce", hierarchy_flat, "node-edge", ("448 bytes", "256 will do", "inside each node"), 2),
    Wrong("hierarchical_all_reduce", hierarchy_whole_tensors, "node-edge",
          ("1,024 bytes", "each sent the whole sum", "by a reduce-scatter"), 2),  # fmt: skip
    Wrong("hierarchical_all_reduce", hierarchy_across_first, "across-first",
          ("1,024 bytes", "summed across the nodes first", "Swap the groups"), 2),  # fmt: skip
    Wrong("hierarchical_all_reduce", hierarchy_sums_across_first, "across-first", ("still had a whole tensor",), 2),
    Wrong("hierarchical_all_reduce", hierarchy_without_gather, "not-gathered", ("piece 0 alone", "an all-gather"), 0),
    Wrong("hierarchical_all_reduce", hierarchy_left_aside, "not-gathered",
          ("what this rank brought", "by an all-gather"), 0),  # fmt: skip
    Wrong("hierarchical_all_reduce", hierarchy_in_half_precision, "digits", ("float32", "Digits were lost"), 1),
    Wrong("hierarchical_all_reduce", hierarchy_for_floats, "digits", ("int64", "Digits were lost"), 1),
    Wrong("hierarchical_all_reduce", hierarchy_by_leaders, "one-port", ("256 bytes", "64 will do"), 3),
    Wrong("hierarchical_all_reduce", hierarchy_gathers_on_rails, "gathered",
          ("on four nodes of 2", "192 bytes", "96 will do", "all-reduce on the rail"), 3),  # fmt: skip
    Wrong("hierarchical_all_reduce", hierarchy_only_inside, "only-the-node", ("its own node",), 0),
    Wrong("hierarchical_all_reduce", hierarchy_not_in_place, "not-in-place", ("write into the tensor",), 0),
    Wrong("fit_alpha_beta", fit_below_a_kilobyte, "measured", ("8 measured sizes of two A100s", "15 % will do"), 3),
    Wrong("choose_protocol", protocol_of_most_bandwidth, "by-bandwidth", ("2,048 bytes", "the most bandwidth"), 0),
    Wrong("choose_protocol", protocol_of_least_latency, "by-latency", ("Simple is faster", "bytes take longer"), 0),
    Wrong("choose_protocol", protocol_by_heart, "form", ("another network", "return the name of one of telegram"), 2),
    Wrong("choose_protocol", protocol_slowest, "by-bandwidth", ("it chose Simple, and LL is faster",), 0),
    Wrong("choose_protocol", protocol_for_eight, "for-eight", ("on 2 ranks", "Here a ring has 2 hops"), 0),
    Wrong("choose_protocol", protocol_of_one_lap, "one-lap", ("3,700,000 bytes", "twice, so there are 14 hops"), 0),
    Wrong("choose_protocol", protocol_of_whole_tensors, "whole-tensor", ("A hop sends bytes / 8",), 0),
    Wrong("choose_protocol", protocol_of_bytes_once, "bytes-once", ("Each of 14 hops sends bytes / 8",), 0),
    Wrong("choose_protocol", protocol_without_steps, "no-steps", ("Each of 14 hops costs its seconds",), 0),
    Wrong("choose_protocol", protocol_of_p_steps, "p-steps", ("P - 1, so there are",), 0),
    Wrong("choose_protocol", protocol_of_products, "by-latency", ("bytes take longer",), 0),
    Wrong("choose_protocol", protocol_and_seconds, "form", ("return the name of one of LL",), 0),
    Wrong("diagnose", diagnose_any_good, "one-bad", ("it is detour", "8 channels", "1 is bad", "one is enough"), 0),
    Wrong("diagnose", diagnose_all_channels, "inside", ("with 7 cards", "need no GDRDMA"), 0),
    Wrong("diagnose", diagnose_counts_lines, "named-often", ("7 different cards", "by all 8 ranks"), 0),
    Wrong("diagnose", diagnose_rates_first, "order", ("it returned network; it is tcp", "stands higher"), 0),
    Wrong("diagnose", diagnose_at_the_limit, "limit", ("pair 40 GB/s, sixteen 320", "still healthy"), 2),
    Wrong("diagnose", diagnose_true, "form", ("return one of tcp, detour",), 0),
    Wrong("hierarchical_all_reduce", hierarchy_in_slices, "rounds", ("12 messages", "2 (N - 1) = 6 will do"), 4),
    Wrong("rails_seconds", rails_through_one_port, "one-port", ("through one port", "each rail has a port"), 0),
    Wrong("rails_seconds", rails_one_way, "one-way", ("3 hops inside a node; there are 6", "twice"), 0),
    Wrong("rails_seconds", rails_whole_tensor, "whole-tensor", ("bytes in a row inside a node", "a piece"), 0),
    Wrong("rails_seconds", rails_not_cut, "not-cut", ("cuts its S / per_node into N parts",), 0),
    Wrong("rails_seconds", rails_only_across, "left-out", ("0 hops inside a node", "this level is left out"), 0),
    Wrong("rails_seconds", rails_of_p_steps, "p-steps", ("8 hops inside a node; there are 6", "P - 1 hops"), 0),
    Wrong("rails_seconds", rails_at_once, "take-turns", ("max(inside, across)", "the phases take turns"), 0),
    Wrong("rails_seconds", rails_flat, "left-out", ("0 hops inside a node",), 0),
    Wrong("rails_seconds", rails_at_least_one_step, "nothing-to-send", ("1 node of 8", "2 hops from node to node"), 2),
    Wrong("in_network_seconds", network_by_a_ring, "ring", ("14,700 bytes", "what a ring sends"), 0),
    Wrong("in_network_seconds", network_up_then_down, "twice", ("16,800 bytes", "while the tensor goes up"), 0),
    Wrong("in_network_seconds", network_of_ring_steps, "latencies", ("7 latencies", "one trip to the switch"), 0),
    Wrong("in_network_seconds", network_whole_tensor, "own-piece", ("all_gather with", "its own piece"), 1),
    Wrong("in_network_seconds", network_whole_tensor_always, "own-piece", ("all_gather with", "that is S"), 1),
    Wrong("in_network_seconds", network_on_one_rank, "one-rank", ("one rank sends nothing",), 1),
    Wrong("congested", congested_by_bytes, "most-bytes", ("it named up", "divide by the bandwidth"), 0),
    Wrong("congested", congested_slowest_link, "slowest-link", ("little goes over it",), 0),
    Wrong("congested", congested_largest_message, "largest-alone", ("port b is busy for 2 s", "take 2.6 s"), 0),
    Wrong("congested", congested_first_link, "one-link", ("32 bytes go over it", "on the first link of its route"), 0),
    Wrong("congested", congested_swapped, "form", ("return the name of a link",), 0),
    Wrong("congested", congested_one_message_of_it, "largest-alone", ("add up all of them",), 0),
]

RIGHT = [
    ("fit_alpha_beta", right_fit_weighted),
    ("fit_alpha_beta", right_fit_list),
    ("fit_alpha_beta", right_fit_iterated),
    ("choose_protocol", right_protocol_by_loop),
    ("choose_protocol", right_protocol_sorted),
    ("diagnose", right_diagnose),
    ("diagnose", right_diagnose_of_a_table),
    ("hierarchical_all_reduce", right_hierarchy),
    ("rails_seconds", right_rails_by_bytes),
    ("rails_seconds", right_rails_of_parts),
    ("collective_seconds", seconds_right),
    ("collective_seconds", seconds_by_bandwidth),
    ("crossover_bytes", crossover_right),
    ("crossover_bytes", crossover_formula),
    ("in_network_seconds", right_network),
    ("congested", right_congested),
]
