"""Wrong answers to chapter 9 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it earns.
"""

from __future__ import annotations

import numpy as np

from course_lib import schedules
from solutions import ch09_more_schedules as solutions
from wrong_answers import collect

WRONG, RIGHT, wrong, right = collect()


def plain(schedule) -> list:
    """Return one of the library's schedules as a learner would write it."""
    return [[tuple(action[:3]) for action in row] for row in schedule.actions]


# interleaved


@wrong("interleaved", "one-chunk", "the chunks used are [0]", "0 to 1", earned=0)
def one_chunk(stages, microbatches, chunks):
    return plain(schedules.one_f_one_b(stages, microbatches))


@wrong("interleaved", "all-forwards", "All forwards run before the first backward", earned=3)
def all_forwards_first(stages, microbatches, chunks):
    rows = solutions.interleaved(stages, microbatches, chunks)
    return [[a for a in row if a[0] == "F"] + [a for a in row if a[0] == "B"] for row in rows]


@wrong("interleaved", "chunk-order", "rank 0 runs B(0) of chunk 0 before B(0) of chunk 1",
       "from last to first", earned=0)
def back_through_the_first_chunk_first(stages, microbatches, chunks):
    rows = solutions.interleaved(stages, microbatches, chunks)
    return [[(kind, i, chunks - 1 - c if kind == "B" else c) for kind, i, c in row] for row in rows]


def _ahead(stages, microbatches, chunks, more):
    order = solutions.interleaved(stages, microbatches, chunks)
    rows = []
    for rank, row in enumerate(order):
        forwards, backwards = ([a for a in row if a[0] == kind] for kind in "FB")
        ahead = min(2 * (stages - 1 - rank) + (chunks - 1) * stages + more, len(forwards))
        mixed = forwards[:ahead]
        for k, back in enumerate(backwards):
            mixed += [*forwards[ahead + k : ahead + k + 1], back]
        rows.append(mixed)
    return rows


@wrong("interleaved", "too-much-memory", "rank 0 holds 12 chunks' activations at once; 11 will do", "warm-up", earned=3)
def warm_up_too_long(stages, microbatches, chunks):
    return _ahead(stages, microbatches, chunks, 1)


@wrong("interleaved", "too-slow", "57 s will do", earned=1)
def backwards_in_two_orders(stages, microbatches, chunks):
    forwards = [("F", i, c) for c in range(chunks) for i in range(microbatches)]
    up, down = ([("B", i, c) for c in reversed(range(chunks)) for i in order] for order in _both_ways(microbatches))
    return [forwards + (up if rank < stages - 1 else down) for rank in range(stages)]


def _both_ways(microbatches):
    return range(microbatches), range(microbatches - 1, -1, -1)


@wrong("interleaved", "deadlock", "goes through chunk 0, then through chunk 1", earned=0)
def one_microbatch_through_all_chunks(stages, microbatches, chunks):
    forwards = [("F", i, c) for i in range(microbatches) for c in range(chunks)]
    backwards = [("B", i, c) for i in range(microbatches) for c in reversed(range(chunks))]
    rows = []
    for rank in range(stages):
        ahead = 2 * (stages - 1 - rank) + (chunks - 1) * stages
        row = forwards[:ahead]
        for k, back in enumerate(backwards):
            row += [*forwards[ahead + k : ahead + k + 1], back]
        rows.append(row)
    return rows


@wrong("interleaved", "backward-missing", "is lost", earned=0)
def forgets_the_cool_down(stages, microbatches, chunks):
    rows = solutions.interleaved(stages, microbatches, chunks)
    return [row[:-1] for row in rows]


@wrong("interleaved", "not-yours", "write the lists yourself", earned=0)
def the_librarys(stages, microbatches, chunks):
    return schedules.interleaved(stages, microbatches, chunks).actions


@right("interleaved")
def with_a_shorter_warm_up(stages, microbatches, chunks):
    rows = []
    for rank, row in enumerate(solutions.interleaved(stages, microbatches, chunks)):
        forwards, backwards = ([a for a in row if a[0] == kind] for kind in "FB")
        ahead = stages - 1 - rank + (chunks - 1) * stages
        rows.append(forwards[:ahead])
        for k, back in enumerate(backwards):
            rows[-1] += [*forwards[ahead + k : ahead + k + 1], back]
    return rows


@right("interleaved")
def by_two_sorted_lists(stages, microbatches, chunks):
    def key(action):
        kind, i, chunk = action
        return i // stages, chunk if kind == "F" else -chunk, i

    rows = []
    for rank in range(stages):
        every = [(i, c) for i in range(microbatches) for c in range(chunks)]
        forwards = sorted((("F", *one) for one in every), key=key)
        backwards = sorted((("B", *one) for one in every), key=key)
        row, held = [], 0
        most = 2 * (stages - 1 - rank) + (chunks - 1) * stages + 1
        while backwards:
            if forwards and held < most:
                row.append(forwards.pop(0))
                held += 1
            else:
                row.append(backwards.pop(0))
                held -= 1
        rows.append(row)
    return rows


# zero_bubble


@wrong("zero_bubble", "not-split", "split every one into I", earned=0)
def plain_1f1b(stages, microbatches):
    return plain(schedules.one_f_one_b(stages, microbatches))


@wrong("zero_bubble", "w-at-once", "let W wait", earned=2)
def w_right_after_its_i(stages, microbatches):
    rows = plain(schedules.one_f_one_b(stages, microbatches))
    return [
        [new for kind, i, _ in row for new in ([("F", i)] if kind == "F" else [("I", i), ("W", i)])] for row in rows
    ]  # fmt: skip


@wrong("zero_bubble", "weight-missing", "never W(0)", earned=0)
def w_skipped(stages, microbatches):
    return [[a for a in row if a[0] != "W"] for row in solutions.zero_bubble(stages, microbatches)]


@wrong("zero_bubble", "weight-before-input", "W(0) before I(0)", earned=0)
def w_before_its_i(stages, microbatches):
    swap = {"I": "W", "W": "I", "F": "F"}
    return [[(swap[kind], i) for kind, i in row] for row in solutions.zero_bubble(stages, microbatches)]


@wrong("zero_bubble", "too-slow", "27 s will do", "After I(0) of rank 0 a W is missing", earned=2)
def every_w_at_the_end(stages, microbatches):
    rows = solutions.zero_bubble(stages, microbatches)
    late = [[a for a in row if a[0] != "W"] + [a for a in row if a[0] == "W"] for row in rows]
    return late if stages > 1 else rows


@wrong("zero_bubble", "too-slow", "a W is missing", earned=2)
def no_w_once_no_f_is_left(stages, microbatches):
    rows = []
    for rank in range(stages):
        ahead, done = min(stages - 1 - rank, microbatches), 0
        row = [("F", i) for i in range(ahead)]
        for i in range(microbatches):
            row += [("F", ahead + i)] * (ahead + i < microbatches) + [("I", i)]
            if stages <= ahead + i + 1 <= microbatches:
                row.append(("W", done))
                done += 1
        rows.append(row + [("W", i) for i in range(done, microbatches)])
    return rows


@wrong("zero_bubble", "too-much-memory",
       "rank 0 holds 7 micro-batches' activations at once; rank 0 of 1F1B holds 4", earned=4)
def zb_h2(stages, microbatches):
    if microbatches < 2 * stages:
        return solutions.zero_bubble(stages, microbatches)
    return plain(schedules.zb_h2(stages, microbatches))


@wrong("zero_bubble", "newest-weight-first", "the oldest W that is open comes first", earned=4)
def newest_weight_first(stages, microbatches):
    rows = solutions.zero_bubble(stages, microbatches)
    found = []
    for row in rows:
        first = len(row) - next(n for n, action in enumerate(row[::-1]) if action[0] != "W")
        found.append(row[:first] + row[first:][::-1])
    return found


@wrong("zero_bubble", "not-split", "there are B and W", "here B is the whole backward", "the input part is I", earned=0)
def with_the_letters_of_papers(stages, microbatches):
    letters = {"F": "F", "I": "B", "W": "W"}
    return [[(letters[kind], i) for kind, i in row] for row in solutions.zero_bubble(stages, microbatches)]


@wrong("zero_bubble", "form", "rank 0 has the action ('F', '0')", earned=0)
def with_numbers_in_words(stages, microbatches):
    return [[(kind, str(i)) for kind, i in row] for row in solutions.zero_bubble(stages, microbatches)]


@wrong("zero_bubble", "microbatches", "('F', 8)", "only micro-batches 0 to 7", earned=0)
def counts_micro_batches_from_1(stages, microbatches):
    return [[(kind, i + 1) for kind, i in row] for row in solutions.zero_bubble(stages, microbatches)]


@right("zero_bubble")
def as_tuples_of_numpy_numbers(stages, microbatches):
    return tuple(tuple((kind, np.int64(i)) for kind, i in row) for row in solutions.zero_bubble(stages, microbatches))


@right("zero_bubble")
def by_what_is_held(stages, microbatches):
    rows = []
    for rank in range(stages):
        row, f, i, w = [], 0, 0, 0
        while w < microbatches:
            if f < microbatches and f - i < stages - rank and f - w < stages:
                row.append(("F", f))
                f += 1
            elif i < microbatches and i - w <= rank:
                row.append(("I", i))
                i += 1
            else:
                row.append(("W", w))
                w += 1
        rows.append(row)
    return rows


# chimera


@wrong("chimera", "sync-missing", "its other copy has gradients too", earned=0)
def gradients_of_the_copies_not_summed(stages, microbatches):
    return [[a for a in row if a[0] != "SYNC"] for row in solutions.chimera(stages, microbatches)]


@wrong("chimera", "deadlock", "SYNC of chunk 0", earned=0)
def sync_in_the_same_order_everywhere(stages, microbatches):
    rows = solutions.chimera(stages, microbatches)
    return [[*row[:-2], ("SYNC", None, 0), ("SYNC", None, 1)] for row in rows]


@wrong("chimera", "sync-early", "once all of them are there", earned=0)
def sync_first(stages, microbatches):
    return [[*row[-2:], *row[:-2]] for row in solutions.chimera(stages, microbatches)]


@wrong("chimera", "one-way", "4 of them go down the ranks and 0 up", earned=2)
def all_of_them_down(stages, microbatches):
    rows = plain(schedules.one_f_one_b(stages, microbatches))
    ends = [row[-2:] for row in solutions.chimera(stages, microbatches)]
    return [row + end for row, end in zip(rows, ends, strict=True)]


@wrong("chimera", "too-slow", "10 s will do", earned=3)
def all_forwards_first_both_ways(stages, microbatches):
    rows = solutions.chimera(stages, microbatches)
    return [[*(a for a in row if a[0] == "F"), *(a for a in row if a[0] == "B"), *row[-2:]] for row in rows]


@wrong("chimera", "copies", "enters 2 copies", earned=0)
def every_microbatch_both_ways(stages, microbatches):
    rows = solutions.chimera(stages, microbatches)
    twice = [(k, i, c) for k in "FB" for c in (0, 1) for i in range(microbatches)]
    return [twice + row[-2:] for row in rows]


@wrong("chimera", "too-slow", "the next unit may begin before the last one has ended", earned=5)
def one_unit_after_the_other(stages, microbatches):
    unit, rows = solutions.chimera(stages, stages), []
    for row in unit:
        body = [
            (kind, stages * k + i, c) for k in range(microbatches // stages) for kind, i, c in row[:-2]
        ]  # fmt: skip
        rows.append(body + row[-2:])
    return rows


@wrong("chimera", "form", "rank 0 has the action ('SYNC', 0)", "('SYNC', None, 1)", earned=0)
def syncs_without_a_chunk(stages, microbatches):
    rows = solutions.chimera(stages, microbatches)
    return [[*row[:-2], *(("SYNC", chunk) for _, _, chunk in row[-2:])] for row in rows]


@wrong("chimera", "form", "rank 0 has the action ('SYNC', None, None)", earned=0)
def syncs_of_no_chunk(stages, microbatches):
    return [[*row[:-2], ("SYNC", None, None)] for row in solutions.chimera(stages, microbatches)]


@right("chimera")
def with_another_numbering_of_the_microbatches(stages, microbatches):
    rows = solutions.chimera(stages, microbatches)
    return [[(kind, i if i is None else microbatches - 1 - i, c) for kind, i, c in row] for row in rows]


# read_the_table


@wrong("read_the_table", "fastest", "fastest is ZB-V, not 'PipeDream'", "synchronous", earned=1)
def takes_the_smallest_bubble_of_all(table, most_activations):
    found = solutions.read_the_table(table, most_activations)
    return found | {"fastest": min(table, key=lambda name: table[name]["bubble"])}


@wrong("read_the_table", "fastest", "until the last rank is done", "'ZB-H2'", earned=1)
def takes_the_span_for_the_makespan(table, most_activations):
    found = solutions.read_the_table(table, most_activations)
    return found | {"fastest": min(table, key=lambda name: table[name]["span_bubble"])}


@wrong("read_the_table", "zero_only_by_span", "only_by_span is not []", "2 names missing", earned=3)
def believes_the_name(table, most_activations):
    return solutions.read_the_table(table, most_activations) | {"zero_only_by_span": []}


@wrong("read_the_table", "stale", "stale is ['PipeDream']", earned=0)
def nothing_is_stale(table, most_activations):
    return solutions.read_the_table(table, most_activations) | {"stale": []}


@wrong("read_the_table", "zero_only_by_span", "2e-16 and `bubble`", "below 1e-9 counts as zero", earned=3)
def compares_with_zero(table, most_activations):
    zero = [name for name, row in table.items() if row["span_bubble"] <= 0 < row["bubble"]]
    return solutions.read_the_table(table, most_activations) | {"zero_only_by_span": zero}


@wrong("read_the_table", "zero_only_by_span", "Chimera has no bubble at all", earned=3)
def without_a_look_at_the_bubble(table, most_activations):
    zero = [name for name, row in table.items() if abs(row["span_bubble"]) < 1e-9]
    return solutions.read_the_table(table, most_activations) | {"zero_only_by_span": zero}


@wrong("read_the_table", "zero_only_by_span", "GPipe has idle time in its own span, 27.3%", earned=3)
def all_that_have_a_bubble(table, most_activations):
    zero = [name for name, row in table.items() if row["bubble"] > 1e-9]
    return solutions.read_the_table(table, most_activations) | {"zero_only_by_span": zero}


@wrong("read_the_table", "fastest_that_fits", '"At most 4" includes 4', earned=2)
def less_than_the_bound(table, most_activations):
    lighter = {name: row for name, row in table.items() if row["activations"] < most_activations}
    found = solutions.read_the_table(table, most_activations)
    fits = [name for name, row in lighter.items() if row["synchronous"] and row["weights"] == 1]
    return found | {"fastest_that_fits": min(fits, key=lambda name: table[name]["bubble"], default=None)}


@wrong("read_the_table", "form", "return a dict", earned=0)
def only_a_name(table, most_activations):
    return "ZB-V"


@right("read_the_table")
def with_loops(table, most_activations):
    stale, zero, fastest, fits = [], [], None, None
    for name, row in table.items():
        if row["bubble"] > 1e-6 and row["span_bubble"] < 1e-6:
            zero.append(name)
        if not row["synchronous"]:
            stale.append(name)
            continue
        if fastest is None or row["bubble"] <= table[fastest]["bubble"]:
            fastest = name
        small = row["weights"] < 2 and row["activations"] <= most_activations
        if small and (fits is None or row["bubble"] <= table[fits]["bubble"]):
            fits = name
    return {"stale": stale, "fastest": fastest, "fastest_that_fits": fits, "zero_only_by_span": zero}


@wrong("read_the_table", "fastest_that_fits", "fastest_that_fits is C, not 'B'", "B holds 6 activations", earned=2)
def forgets_the_bound(table, most_activations):
    return solutions.read_the_table(table, 10**9)


@wrong("read_the_table", "fastest_that_fits", "Chimera has 2 copies of the weights", earned=2)
def forgets_the_weights(table, most_activations):
    one = {name: row | {"weights": 1} for name, row in table.items()}
    fits = solutions.read_the_table(one, most_activations)["fastest_that_fits"]
    return solutions.read_the_table(table, most_activations) | {"fastest_that_fits": fits}


@wrong("read_the_table", "zero_only_by_span", "is not ['A']", "not synchronous count, too", earned=3)
def looks_for_zero_among_the_synchronous(table, most_activations):
    waiting = {name: row for name, row in table.items() if row["synchronous"]}
    zero = solutions.read_the_table(waiting, most_activations)["zero_only_by_span"]
    return solutions.read_the_table(table, most_activations) | {"zero_only_by_span": zero}


@wrong("read_the_table", "order", "they come in the order of the table, ['D', 'A2']", earned=0)
def sorts_the_names(table, most_activations):
    found = solutions.read_the_table(table, most_activations)
    return found | {name: sorted(found[name]) for name in ("stale", "zero_only_by_span")}


@wrong("read_the_table", "fastest", "fastest is J, not 'I'", earned=1)
def leaves_out_the_last_row(table, most_activations):
    found = solutions.read_the_table(dict(list(table.items())[:-1]), most_activations)
    return found | {"stale": solutions.read_the_table(table, most_activations)["stale"]}
