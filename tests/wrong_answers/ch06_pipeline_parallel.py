"""Wrong answers to chapter 6 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it earns.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch

from course_lib.schedules import one_f_one_b as library_one_f_one_b
from solutions import ch06_pipeline_parallel as solutions
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


# bubble_fraction


def _both(share, ideal):
    return {"share_of_total": share, "relative_to_ideal": ideal}


@wrong("bubble_fraction", "misprint", "0.2727", "never negative", earned=0)
def as_misprinted(stages, microbatches):
    return _both((1 - microbatches) / (microbatches + stages - 1), (stages - 1) / microbatches)


@wrong("bubble_fraction", "swapped", "share_of_total is 0.2727, not 0.375", "that is relative_to_ideal", earned=0)
def the_two_swapped(stages, microbatches):
    return _both((stages - 1) / microbatches, (stages - 1) / (microbatches + stages - 1))


@wrong("bubble_fraction", "swapped", "relative_to_ideal is 0.375, not 0.2727", earned=1)
def one_meaning_for_both(stages, microbatches):
    share = (stages - 1) / (microbatches + stages - 1)
    return _both(share, share)


@wrong("bubble_fraction", "percent", "not percent", earned=0)
def in_percent(stages, microbatches):
    return _both(100 * (stages - 1) / (microbatches + stages - 1), 100 * (stages - 1) / microbatches)


@wrong("bubble_fraction", "one-too-many", "p-1 rounds, not p", earned=0)
def p_rounds(stages, microbatches):
    return _both(stages / (microbatches + stages), stages / microbatches)


@wrong("bubble_fraction", "both-ways", "together", earned=0)
def filling_and_draining(stages, microbatches):
    return _both(2 * (stages - 1) / (microbatches + 2 * (stages - 1)), 2 * (stages - 1) / microbatches)


@wrong("bubble_fraction", "form", "return a dict", earned=0)
def only_one_number(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)


@wrong("bubble_fraction", "value", "not nan", earned=0)
def not_a_number(stages, microbatches):
    return _both(float("nan"), float("nan"))


@right("bubble_fraction")
def by_tensors(stages, microbatches):
    idle = torch.tensor(stages - 1.0, dtype=torch.float64)
    return _both(idle / (microbatches + idle), np.float64(stages - 1) / microbatches)


@right("bubble_fraction")
def by_complement(stages, microbatches):
    working = microbatches / (microbatches + stages - 1)
    return _both(1 - working, 1 / working - 1)


# gpipe


@wrong("gpipe", "not-gpipe", "before the first backward", earned=1)
def one_at_a_time(stages, microbatches):
    return [[(kind, i) for i in range(microbatches) for kind in "FB"] for _ in range(stages)]


@wrong("gpipe", "backward-missing", "the gradient of micro-batch 0 is lost", earned=0)
def only_forwards(stages, microbatches):
    return [[("F", i) for i in range(microbatches)] for _ in range(stages)]


@wrong("gpipe", "backward-before-forward", "B(0) before F(0)", earned=0)
def backwards_first(stages, microbatches):
    return [[(kind, i) for kind in "BF" for i in range(microbatches)] for _ in range(stages)]


@wrong("gpipe", "microbatches", "they are 0 to 7", earned=0)
def one_too_few(stages, microbatches):
    return solutions.gpipe(stages, max(1, microbatches - 1))


@wrong("gpipe", "too-slow", "Ranks 0 and 3 run the backwards in different orders", earned=2)
def other_orders_on_other_ranks(stages, microbatches):
    rows = solutions.gpipe(stages, microbatches)
    rows[-1] = [("F", i) for i in range(microbatches)] + [("B", i) for i in range(microbatches)]
    return rows


@wrong("gpipe", "form", "a list with 4 lists", earned=0)
def one_list_for_all(stages, microbatches):
    return solutions.gpipe(1, microbatches)[0]


@wrong("gpipe", "form", "'F0'", earned=0)
def as_text(stages, microbatches):
    return [[f"F{i}" for i in range(microbatches)] for _ in range(stages)]


@right("gpipe")
def in_ascending_order(stages, microbatches):
    return [[(kind, i) for kind in "FB" for i in range(microbatches)] for _ in range(stages)]


@wrong("gpipe", "microbatches", "numbers micro-batches from 1", "only micro-batches 0 to 7", earned=0)
def from_1(stages, microbatches):
    return [[(kind, i + 1) for kind in "FB" for i in range(microbatches)] for _ in range(stages)]


@wrong("gpipe", "form", "rank 0 has the action ('F', '0')", earned=0)
def with_numbers_in_words(stages, microbatches):
    return [[(kind, str(i)) for kind in "FB" for i in range(microbatches)] for _ in range(stages)]


@right("gpipe")
def as_lists_of_numpy_numbers(stages, microbatches):
    return [[[kind, i] for kind in "FB" for i in np.arange(microbatches)] for _ in range(stages)]


@right("gpipe")
def as_tuples(stages, microbatches):
    return tuple(tuple(row) for row in in_ascending_order(stages, microbatches))


# one_f_one_b


@wrong("one_f_one_b", "gpipe", "that is GPipe", "8 activations", earned=2)
def gpipe_handed_in(stages, microbatches):
    return solutions.gpipe(stages, microbatches)


def _ahead(stages, microbatches, warm_up):
    rows = []
    for rank in range(stages):
        first = min(warm_up(rank), microbatches)
        row = [("F", i) for i in range(first)]
        for i in range(microbatches):
            row += [("F", first + i)] * (first + i < microbatches) + [("B", i)]
        rows.append(row)
    return rows


@wrong("one_f_one_b", "warm-up-too-long", "rank 0 holds 5 activations at once; 4 will do",
       "warm-up is too long", earned=2)
def warm_up_too_long(stages, microbatches):
    return _ahead(stages, microbatches, lambda rank: stages - rank)


@wrong("one_f_one_b", "warm-up", "takes 69 s",
       "Rank 1 runs 4 forwards before its first backward; it should run 3", earned=1)
def the_same_warm_up_everywhere(stages, microbatches):
    return _ahead(stages, microbatches, lambda rank: stages - 1)


@wrong("one_f_one_b", "warm-up", "Rank 0 runs 1 forward before its first backward; it should run 4", earned=1)
def no_warm_up(stages, microbatches):
    return _ahead(stages, microbatches, lambda rank: 0)


@wrong("one_f_one_b", "deadlock", "rank 1 stands at F(1)", earned=0)
def ranks_the_wrong_way_round(stages, microbatches):
    return _ahead(stages, microbatches, lambda rank: rank)


@wrong("one_f_one_b", "backward-missing", "B(5)", earned=0)
def without_cool_down(stages, microbatches):
    rows = solutions.one_f_one_b(stages, microbatches)
    return [[a for n, a in enumerate(row) if n < 2 * microbatches - (stages - 1 - r)] for r, row in enumerate(rows)]


@wrong("one_f_one_b", "microbatches", "with 4 stages and 1 micro-batch rank 0 runs F(1)",
       "only micro-batch 0", earned=0)
def without_min(stages, microbatches):
    rows = []
    for rank in range(stages):
        ahead = stages - 1 - rank
        row = [("F", i) for i in range(ahead)]
        for i in range(microbatches):
            row += [("F", ahead + i)] * (ahead + i < microbatches) + [("B", i)]
        rows.append(row)
    return rows


@wrong("one_f_one_b", "not-yours", "write the lists yourself", earned=0)
def the_librarys(stages, microbatches):
    return library_one_f_one_b(stages, microbatches).actions


@wrong("one_f_one_b", "backward-before-forward", "rank 3 runs B(0) before F(0)", earned=0)
def backward_before_its_forward_on_the_last_stage(stages, microbatches):
    rows = solutions.one_f_one_b(stages, microbatches)
    rows[-1][0], rows[-1][1] = rows[-1][1], rows[-1][0]
    return rows


@right("one_f_one_b")
def by_counting_what_is_held(stages, microbatches):
    rows = []
    for rank in range(stages):
        row, forwards, backwards = [], 0, 0
        while backwards < microbatches:
            if forwards < microbatches and forwards - backwards < stages - rank:
                row.append(("F", forwards))
                forwards += 1
            else:
                row.append(("B", backwards))
                backwards += 1
        rows.append(row)
    return rows


# stage_forward


@wrong("stage_forward", "no-grad", "rank 0 waits for it", "requires_grad_", earned=1)
def forgets_requires_grad(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


@wrong("stage_forward", "no-handle", "with a blocking send", earned=2)
def sends_and_blocks(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.recv(x, previous, tag=tag)
        x.requires_grad_()
    y = module(x)
    if following is not None:
        dist.send(y.detach(), following, tag=tag)
    return y, None


@wrong("stage_forward", "dropped-handle", "returns the handle of its isend", earned=0)
def drops_the_handle(dist, module, x, previous, following, tag):
    y, _ = solutions.stage_forward(dist, module, x, previous, following, tag)
    return y, None


@wrong("stage_forward", "new-buffer", "receive into the x that it is given", earned=0)
def receives_into_another_tensor(dist, module, x, previous, following, tag):
    received = torch.empty_like(x) if previous is not None else x
    return solutions.stage_forward(dist, module, received, previous, following, tag)


@wrong("stage_forward", "detached", "detach what you send, not what you return", earned=1)
def returns_what_it_sends(dist, module, x, previous, following, tag):
    y, handle = solutions.stage_forward(dist, module, x, previous, following, tag)
    return y.detach(), handle


@wrong("stage_forward", "x", "Is it sent y", earned=0)
def sends_its_own_input(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
        x.requires_grad_()
    return module(x), None if following is None else dist.isend(x.detach(), following, tag=tag)


@wrong("stage_forward", "last-microbatch", "the last micro-batch only", earned=3)
def zeroes_gradients_each_time(dist, module, x, previous, following, tag):
    if hasattr(module, "zero_grad"):
        module.zero_grad()
    return solutions.stage_forward(dist, module, x, previous, following, tag)


@wrong("stage_forward", "form", "return (y, handle)", earned=0)
def returns_only_y(dist, module, x, previous, following, tag):
    y, handle = solutions.stage_forward(dist, module, x, previous, following, tag)
    if handle is not None:
        handle.wait()
    return y


@wrong("stage_forward", "deadlock", "deadlock", "rank 0", earned=0)
def waits_for_the_rank_after_it(dist, module, x, previous, following, tag):
    if following is not None:
        dist.irecv(x, following, tag=tag).wait()
    return module(x), None


@wrong("stage_forward", "waits", "rank 0 waits for its own isend", "return the handle without waiting", earned=3)
def waits_for_its_isend(dist, module, x, previous, following, tag):
    y, handle = solutions.stage_forward(dist, module, x, previous, following, tag)
    if handle is not None:
        handle.wait()
    return y, handle


@wrong("stage_forward", "tag", "pass tag=tag", earned=3)
def without_a_tag(dist, module, x, previous, following, tag):
    return solutions.stage_forward(dist, module, x, previous, following, 0)


@wrong("stage_forward", "deadlock", "Do isend and irecv both have tag=tag?", earned=0)
def receives_without_a_tag(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous).wait()
        x.requires_grad_()
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


@wrong("stage_forward", "rank-zero", "`if previous is not None`", "rank 1 does not receive from rank 0", earned=0)
def takes_rank_0_for_none(dist, module, x, previous, following, tag):
    return solutions.stage_forward(dist, module, x, previous or None, following, tag)


@wrong("stage_forward", "no-grad", "on rank 1 y does not depend on x", "pass x itself", earned=1)
def hands_the_module_a_detached_x(dist, module, x, previous, following, tag):
    return solutions.stage_forward(dist, lambda x: module(x.detach()), x, previous, following, tag)


@wrong("stage_forward", "no-grad", "before the module uses it", earned=1)
def asks_for_the_gradient_too_late(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
    y = module(x)
    if previous is not None:
        x.requires_grad_()
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


@wrong("stage_forward", "no-grad", "no gradient to retain", "requires_grad_", earned=0)
def retains_what_is_not_tracked(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
        x.retain_grad()
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


@wrong("stage_forward", "first-stage", "which are whole numbers", "only where `previous` is a rank", earned=1)
def tracks_x_on_the_first_stage_too(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.irecv(x, previous, tag=tag).wait()
    x.requires_grad_()
    y = module(x)
    return y, None if following is None else dist.isend(y.detach(), following, tag=tag)


@wrong("stage_forward", "neighbours", "stages 0, 1 and 2 stand on ranks 2, 0 and 1", "not always rank - 1", earned=2)
def takes_the_ranks_beside_it(dist, module, x, previous, following, tag):
    rank = dist.get_rank()
    before, after = previous if previous is None else rank - 1, following if following is None else rank + 1
    return solutions.stage_forward(dist, module, x, before, after, tag)


@wrong("stage_forward", "neighbours", "both may be 0, which is not None", earned=2)
def takes_a_following_rank_0_for_none(dist, module, x, previous, following, tag):
    return solutions.stage_forward(dist, module, x, previous, following or None, tag)


@right("stage_forward")
def with_a_blocking_receive(dist, module, x, previous, following, tag):
    if previous is not None:
        dist.recv(x, previous, tag=tag)
        x.requires_grad = True
    y = module(x)
    if following is None:
        return y, None
    return y, dist.isend(y.detach().clone(), following, tag=tag)


# stage_backward


@wrong("stage_backward", "no-weight-gradient", "autograd.grad(y, x) only x", earned=0)
def only_the_input(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    if previous is None:
        return None
    (x.grad,) = torch.autograd.grad(y, x, grad)
    return dist.isend(x.grad, previous, tag=tag)


@wrong("stage_backward", "ignores-gradient", "as if it were the loss", earned=0)
def as_if_it_were_the_loss(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.sum().backward()
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


@wrong("stage_backward", "without-gradient", "only the last stage's y is a loss", "y.backward(grad)", earned=0)
def starts_without_what_has_arrived(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward()
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


@wrong("stage_backward", "kept", "retain_graph", earned=2)
def keeps_the_activations(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward(grad, retain_graph=True)
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


@wrong("stage_backward", "value", "Does the rank after it send x.grad", earned=0)
def passes_on_what_arrived(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward(grad)
    going = x.detach() if grad is None else grad
    return None if previous is None else dist.isend(going, previous, tag=tag)


@wrong("stage_backward", "dropped-handle", "returns the handle of its isend", earned=0)
def drops_the_handle_of_a_gradient(dist, x, y, grad, previous, following, tag):
    solutions.stage_backward(dist, x, y, grad, previous, following, tag)


@wrong("stage_backward", "not-received", "gradients of zero", earned=0)
def goes_back_before_it_has_arrived(dist, x, y, grad, previous, following, tag):
    arriving = None if following is None else dist.irecv(torch.empty_like(grad), following, tag=tag)
    y.backward(grad)
    if arriving is not None:
        arriving.wait()
    return None if previous is None else dist.isend(x.grad, previous, tag=tag)


@wrong("stage_backward", "no-handle", "Return what isend returned", earned=0)
def sends_a_gradient_and_blocks(dist, x, y, grad, previous, following, tag):
    handle = solutions.stage_backward(dist, x, y, grad, previous, following, tag)
    if handle is not None:
        handle.wait()


@wrong("stage_backward", "waits", "rank 1 waits for its own isend", "return the handle without waiting", earned=3)
def waits_for_its_gradient_to_leave(dist, x, y, grad, previous, following, tag):
    handle = solutions.stage_backward(dist, x, y, grad, previous, following, tag)
    if handle is not None:
        handle.wait()
    return handle


@wrong("stage_backward", "tag", "pass tag=tag", earned=3)
def a_gradient_without_a_tag(dist, x, y, grad, previous, following, tag):
    return solutions.stage_backward(dist, x, y, grad, previous, following, 0)


@wrong("stage_backward", "rank-zero", "`if previous is not None`", "rank 1 does not send to rank 0", earned=0)
def sends_nothing_to_rank_0(dist, x, y, grad, previous, following, tag):
    return solutions.stage_backward(dist, x, y, grad, previous or None, following, tag)


@wrong("stage_backward", "sends-none", "rank 2 sends None", "until y.backward has run", earned=0)
def sends_before_it_goes_back(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    handle = None if previous is None else dist.isend(x.grad, previous, tag=tag)
    y.backward(grad)
    return handle


@wrong("stage_backward", "sends-none", "`grad` is None on the last stage: send x.grad", earned=0)
def sends_what_it_was_given(dist, x, y, grad, previous, following, tag):
    if following is not None:
        dist.irecv(grad, following, tag=tag).wait()
    y.backward(grad)
    return None if previous is None else dist.isend(grad, previous, tag=tag)


@wrong("stage_backward", "neighbours", "stages 0, 1 and 2 stand on ranks 2, 0 and 1", "not always rank - 1", earned=3)
def goes_back_to_the_ranks_beside_it(dist, x, y, grad, previous, following, tag):
    rank = dist.get_rank()
    before, after = previous if previous is None else rank - 1, following if following is None else rank + 1
    return solutions.stage_backward(dist, x, y, grad, before, after, tag)


@right("stage_backward")
def with_a_buffer_of_its_own(dist, x, y, grad, previous, following, tag):
    if following is None:
        y.backward()
    else:
        arrived = torch.empty_like(y)
        dist.recv(arrived, following, tag=tag)
        torch.autograd.backward(y, arrived)
    if previous is not None:
        return dist.isend(x.grad, previous, tag=tag)


# why_one_f_one_b


@wrong("why_one_f_one_b", "bubble", "bubble_1f1b is 0.1364", "does not make the bubble smaller", earned=0)
def believes_it_is_faster(stages, microbatches):
    found = solutions.why_one_f_one_b(stages, microbatches)
    return found | {"bubble_1f1b": found["bubble_1f1b"] / 2}


@wrong("why_one_f_one_b", "relative", "relative to the ideal time", earned=0)
def relative_to_ideal(stages, microbatches):
    found = solutions.why_one_f_one_b(stages, microbatches)
    return found | dict.fromkeys(("bubble_gpipe", "bubble_1f1b"), (stages - 1) / microbatches)


@wrong("why_one_f_one_b", "peak", "peak_1f1b is 1", earned=1)
def of_the_last_rank(stages, microbatches):
    return solutions.why_one_f_one_b(stages, microbatches) | {"peak_1f1b": 1}


@wrong("why_one_f_one_b", "form", "return a dict", earned=0)
def as_a_sentence(stages, microbatches):
    return "less memory, same bubble"


@wrong("why_one_f_one_b", "swapped", "with 8 stages and 4 micro-batches", "take the stages first", earned=0)
def with_swapped_arguments(stages, microbatches):
    return solutions.why_one_f_one_b(microbatches, stages)


@wrong("why_one_f_one_b", "percent", "bubble_gpipe is 27.27, in percent", "0.2727", earned=0)
def bubbles_in_percent(stages, microbatches):
    found = solutions.why_one_f_one_b(stages, microbatches)
    return found | {name: 100 * found[name] for name in ("bubble_gpipe", "bubble_1f1b")}


@right("why_one_f_one_b")
def with_numbers_of_numpy(stages, microbatches):
    return {name: np.float32(value) if "peak" in name else np.float64(value)
            for name, value in solutions.why_one_f_one_b(stages, microbatches).items()}  # fmt: skip


@right("why_one_f_one_b")
def by_formula(stages, microbatches):
    bubble = (stages - 1) / (microbatches + stages - 1)
    peaks = {"peak_gpipe": microbatches, "peak_1f1b": min(stages, microbatches)}
    return {"bubble_gpipe": bubble, "bubble_1f1b": bubble, **peaks}


# split_layers


@wrong("split_layers", "equal-counts", "[4, 4, 3, 3]", "Equal numbers of layers", earned=1)
def equal_numbers(costs, stages):
    return [len(costs) // stages + (stage < len(costs) % stages) for stage in range(stages)]


@wrong("split_layers", "sum", "are 12 layers", earned=0)
def without_the_rest(costs, stages):
    return [len(costs) // stages] * stages


@wrong("split_layers", "not-best", "the slowest costs", "Every stage waits for the slowest one", earned=1)
def all_on_the_last(costs, stages):
    return [1] * (stages - 1) + [len(costs) - stages + 1]


@wrong("split_layers", "empty", "leaves a stage without a layer", earned=0)
def nothing_for_the_last(costs, stages):
    return [len(costs)] + [0] * (stages - 1)


@wrong("split_layers", "form", "a list of 4 whole numbers", earned=0)
def as_lists_of_costs(costs, stages):
    return [costs[stage::stages] for stage in range(stages)]


@wrong("split_layers", "every-cut", "still running after", "do not try every cut", "341,149,446", earned=1)
def tries_every_cut(costs, stages):
    best, found = float("inf"), None
    for cuts in itertools.combinations(range(1, len(costs)), stages - 1):
        ends = [0, *cuts, len(costs)]
        slowest = max(sum(costs[begin:end]) for begin, end in itertools.pairwise(ends))
        if slowest < best:
            best, found = slowest, [end - begin for begin, end in itertools.pairwise(ends)]
    return found


@wrong("split_layers", "average", "[4, 3, 3, 4]", "up to the average leaves too much for the last one", earned=1)
def fills_up_to_the_average(costs, stages):
    counts, first = [], 0
    for left in range(stages - 1, 0, -1):
        last = first + 1
        while last < len(costs) - left and sum(costs[first : last + 1]) <= sum(costs) / stages:
            last += 1
        counts.append(last - first)
        first = last
    return [*counts, len(costs) - first]


def _greedily(costs, stages, limits):
    """Return the counts of the first limit that suffices, filling one stage after the other."""
    for limit in limits:
        counts, room = [], 0
        for place, cost in enumerate(costs):
            if not counts or cost > room or stages - len(counts) >= len(costs) - place:
                counts.append(0)
                room = limit
            counts[-1] += 1
            room -= cost
        if len(counts) <= stages:
            return counts


@wrong("split_layers", "not-best", "and 175 is possible", earned=1)
def takes_the_first_limit_that_fits(costs, stages):
    sums = {sum(costs[i:j]) for i in range(len(costs)) for j in range(i + 1, len(costs) + 1)}
    return _greedily(costs, stages, [total for total in sums if total >= max(costs)])


@wrong("split_layers", "not-best", "and 56 is possible", earned=1)
def thinks_no_stage_has_one_layer(costs, stages):
    sums = {sum(costs[i:j]) for i in range(len(costs)) for j in range(i + 2, len(costs) + 1)} | {costs[-1]}
    return _greedily(costs, stages, sorted(total for total in sums if total >= max(costs)))


@right("split_layers")
def as_an_array(costs, stages):
    return np.array(solutions.split_layers(costs, stages))


@right("split_layers")
def as_a_tuple_of_numpy_numbers(costs, stages):
    return tuple(map(np.int64, solutions.split_layers(costs, stages)))


@right("split_layers")
def by_dynamic_programming(costs, stages):
    best = {(0, 0): (0, [])}
    for stage in range(1, stages + 1):
        for end in range(stage, len(costs) + 1):
            options = []
            for begin in range(stage - 1, end):
                if (stage - 1, begin) in best:
                    most, counts = best[stage - 1, begin]
                    options.append((max(most, sum(costs[begin:end])), [*counts, end - begin]))
            best[stage, end] = min(options)
    return best[stages, len(costs)][1]
