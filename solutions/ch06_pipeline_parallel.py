"""Answers to the exercises of chapter 6."""

from course_lib.schedules import play


def bubble_fraction(stages, microbatches):
    """Count rounds: a rank works in `microbatches` of them and waits in `stages - 1`, to fill and to drain."""
    waiting = stages - 1
    return {"share_of_total": waiting / (microbatches + waiting), "relative_to_ideal": waiting / microbatches}


def gpipe(stages, microbatches):
    """Give every rank the same list: the stages differ in when they can start, not in what they do."""
    forwards, backwards = ([(kind, i) for i in range(microbatches)] for kind in "FB")
    return [forwards + backwards[::-1] for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    """Run ahead only as far as there are stages behind: a backward frees what the next forward takes."""
    schedule = []
    for rank in range(stages):
        ahead = min(stages - 1 - rank, microbatches)
        actions = [("F", i) for i in range(ahead)]
        for i in range(microbatches):
            if ahead + i < microbatches:
                actions.append(("F", ahead + i))
            actions.append(("B", i))
        schedule.append(actions)
    return schedule


def stage_forward(dist, module, x, previous, following, tag):
    """Receive, compute, hand on; x must remember its gradient, and y its graph."""
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
        x.requires_grad_()
    y = module(x)
    sending = None
    if following is not None:
        sending = dist.isend(y.detach(), following, tag=tag)  # a blocking send would stop here until it is received
    return y, sending


def stage_backward(dist, x, y, grad, previous, following, tag):
    """Go on where autograd stopped at the next rank, and let the previous one go on with x.grad."""
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward(grad)  # adds to the weights' gradients and frees the activations
    if previous is not None:
        return dist.isend(x.grad, previous, tag=tag)
    return None


def why_one_f_one_b(stages, microbatches):
    """Play both: the bubble is the same, what differs is how many activations a rank holds."""
    old, new = play(gpipe(stages, microbatches)), play(one_f_one_b(stages, microbatches))
    return {
        "bubble_gpipe": old.bubble_share,
        "bubble_1f1b": new.bubble_share,
        "peak_gpipe": max(old.peak_activations),
        "peak_1f1b": max(new.peak_activations),
    }


def split_layers(costs, stages):
    """Ask of every cost from small to large whether stages of at most that cost suffice; the first yes is the best."""
    sums = {sum(costs[i:j]) for i in range(len(costs)) for j in range(i + 1, len(costs) + 1)}
    for limit in sorted(total for total in sums if total >= max(costs)):
        counts, room = [], 0
        for place, cost in enumerate(costs):
            full = not counts or cost > room
            needed = stages - len(counts) >= len(costs) - place  # every stage that is left needs a layer
            if full or needed:
                counts.append(0)
                room = limit
            counts[-1] += 1
            room -= cost
        if len(counts) <= stages:
            return counts
