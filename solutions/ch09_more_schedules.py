"""Answers to the exercises of chapter 9."""


def interleaved(stages, microbatches, chunks):
    """Take micro-batches in groups of as many as there are ranks, each group through one chunk after the other."""
    groups = [range(first, first + stages) for first in range(0, microbatches, stages)]
    forwards = [("F", i, chunk) for group in groups for chunk in range(chunks) for i in group]
    backwards = [("B", i, chunk) for group in groups for chunk in reversed(range(chunks)) for i in group]
    schedule = []
    for rank in range(stages):
        ahead = 2 * (stages - 1 - rank) + (chunks - 1) * stages
        actions = forwards[:ahead]
        for k, backward in enumerate(backwards):
            actions += [*forwards[ahead + k : ahead + k + 1], backward]  # no forward when none is left
        schedule.append(actions)
    return schedule


def zero_bubble(stages, microbatches):
    """Split B: the rank before waits for I only, and W fills the gaps, as late as memory allows."""
    schedule = []
    for rank in range(stages):
        ahead = min(stages - 1 - rank, microbatches)
        actions, done = [("F", i) for i in range(ahead)], 0
        for i in range(microbatches):
            if ahead + i < microbatches:
                actions.append(("F", ahead + i))
            actions.append(("I", i))
            if ahead + i + 1 >= stages:  # it holds as many as rank 0 of 1F1B: from now on a W in every round
                actions.append(("W", done))
                done += 1
        actions += [("W", i) for i in range(done, microbatches)]
        schedule.append(actions)
    return schedule


def chimera(stages, microbatches):
    """Give every action a slot: down and up take turns, so that no two meet on one rank."""
    schedule = []
    for rank in range(stages):
        slots = {}
        for chunk, stage in enumerate((rank, stages - 1 - rank)):
            for i in range(microbatches // 2):
                unit, place = divmod(i, stages // 2)
                begin = 2 * stages * unit + 2 * place
                microbatch = stages * unit + chunk * stages // 2 + place
                slots[begin + stage] = ("F", microbatch, chunk)
                slots[begin + 2 * stages - 1 - stage] = ("B", microbatch, chunk)
        actions = [slots[slot] for slot in sorted(slots)]
        order = (0, 1) if rank < stages // 2 else (1, 0)  # the lower stage first, on both of its ranks
        schedule.append(actions + [("SYNC", None, chunk) for chunk in order])
    return schedule


def read_the_table(table, most_activations):
    """Ask each column one question."""

    def best(names):
        return min(names, key=lambda name: table[name]["bubble"])

    waiting = [name for name in table if table[name]["synchronous"]]
    fits = [name for name in waiting if table[name]["weights"] == 1 and table[name]["activations"] <= most_activations]
    zero = [name for name, row in table.items() if abs(row["span_bubble"]) < 1e-9 < row["bubble"]]
    return {
        "stale": [name for name in table if not table[name]["synchronous"]],
        "fastest": best(waiting),
        "fastest_that_fits": best(fits),
        "zero_only_by_span": zero,
    }
