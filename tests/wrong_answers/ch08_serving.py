"""Wrong answers to chapter 8 as learners write them, and right ones written differently.

Each wrong answer names the code that its check gives, words that the sentence holds, and the points it still earns.
"""

from __future__ import annotations

import numpy as np
import torch

from course_lib import serving
from course_lib.models import parameter_count
from course_lib.serving.caches import KVCache
from solutions import ch08_serving as solutions
from wrong_answers import Wrong

# kv_cache_bytes


def kv_all_heads(config, tokens):
    return 2 * config.layers * config.hidden * tokens * 2


def kv_once(config, tokens):
    return config.layers * config.kv_heads * (config.hidden // config.heads) * tokens * 2


def kv_one_layer(config, tokens):
    return 2 * config.kv_heads * (config.hidden // config.heads) * tokens * 2


def kv_fp32(config, tokens):
    return 2 * solutions.kv_cache_bytes(config, tokens)


def kv_nan(config, tokens):
    return float("nan")


def kv_whole_hidden(config, tokens):
    """Takes all heads together for one."""
    return 2 * config.layers * config.kv_heads * config.hidden * tokens * 2


def kv_printed(config, tokens):
    """Forgets to return."""


def kv_as_float(config, tokens):
    return 4.0 * config.layers * config.hidden / (config.heads / config.kv_heads) * tokens


def kv_one_byte(config, tokens):
    """Takes a number for a byte."""
    return solutions.kv_cache_bytes(config, tokens) // 2


def kv_shared_out(config, tokens):
    """Shares the hidden numbers out among the KV heads."""
    return 2 * config.layers * config.kv_heads * (config.hidden // config.kv_heads) * tokens * 2


def kv_of_numpy(config, tokens):
    return np.prod([2, config.layers, config.kv_heads, config.hidden // config.heads, tokens, 2], dtype=np.int64)


# generate_with_cache


def generate_tensor(model, prompt, tokens):
    return torch.tensor(solutions.generate_with_cache(model, prompt, tokens))


def generate_drawing(model, prompt, tokens):
    """Draws the next token, as a chatbot does."""
    cache, answer, new = KVCache(), [], prompt
    draw = torch.Generator().manual_seed(1)
    for _ in range(tokens):
        scores = model(torch.tensor([new]), cache)[0, -1]
        new = [torch.multinomial(scores.softmax(-1), 1, generator=draw).item()]
        answer += new
    return answer


def generate_last_twice(model, prompt, tokens):
    """Fills the cache with the whole prompt, and begins with its last token again."""
    cache, answer, new = KVCache(), [], prompt[-1:]
    model(torch.tensor([prompt]), cache)
    for _ in range(tokens):
        new = [model(torch.tensor([new]), cache)[0, -1].argmax().item()]
        answer += new
    return answer


def generate_numpy(model, prompt, tokens):
    """Right: whole numbers of NumPy's."""
    return [np.int64(token) for token in solutions.generate_with_cache(model, prompt, tokens)]


def generate_recomputing(model, prompt, tokens):
    """No cache at all."""
    answer = []
    for _ in range(tokens):
        answer.append(model(torch.tensor([prompt + answer]))[0, -1].argmax().item())
    return answer


def generate_new_cache(model, prompt, tokens):
    """A cache that is thrown away after every step."""
    answer = []
    for _ in range(tokens):
        answer.append(model(torch.tensor([prompt + answer]), KVCache())[0, -1].argmax().item())
    return answer


def generate_feeding_all(model, prompt, tokens):
    """Feeds everything again into a cache that has it."""
    cache, answer = KVCache(), []
    for _ in range(tokens):
        answer.append(model(torch.tensor([prompt + answer]), cache)[0, -1].argmax().item())
    return answer


def generate_with_prompt(model, prompt, tokens):
    return prompt + solutions.generate_with_cache(model, prompt, tokens)


def generate_one_by_one(model, prompt, tokens):
    cache, answer = KVCache(), []
    for token in prompt:
        logits = model(torch.tensor([[token]]), cache)
    for _ in range(tokens):
        answer.append(logits[0, -1].argmax().item())
        logits = model(torch.tensor([answer[-1:]]), cache)
    return answer


def generate_at_least_one(model, prompt, tokens):
    cache = KVCache()
    answer = [model(torch.tensor([prompt]), cache)[0, -1].argmax().item()]
    while len(answer) < tokens:
        answer.append(model(torch.tensor([answer[-1:]]), cache)[0, -1].argmax().item())
    return answer


def generate_first_logits(model, prompt, tokens):
    """Takes the logits of the first token it fed, not of the last."""
    cache, answer, new = KVCache(), [], prompt
    for _ in range(tokens):
        new = [model(torch.tensor([new]), cache)[0, 0].argmax().item()]
        answer += new
    return answer


def generate_forgetting(model, prompt, tokens):
    """Feeds the newest token alone, into a cache that knows nothing."""
    answer, new = [], prompt
    for _ in range(tokens):
        new = [model(torch.tensor([new]), KVCache())[0, -1].argmax().item()]
        answer += new
    return answer


def generate_tensors(model, prompt, tokens):
    return [torch.tensor(token) for token in solutions.generate_with_cache(model, prompt, tokens)]


def generate_into_the_prompt(model, prompt, tokens):
    """Appends to the caller's list."""
    answer = solutions.generate_with_cache(model, prompt, tokens)
    prompt += answer
    return answer


def generate_without_sequences(model, prompt, tokens):
    """Feeds a row of tokens, not a batch of one row."""
    return [int(model(torch.tensor(prompt), KVCache())[-1].argmax()) for _ in range(tokens)]


def generate_feeding_the_last(model, prompt, tokens):
    """Feeds the last token too, whose logits nobody needs."""
    cache, made = KVCache(), []
    logits = model(torch.tensor([prompt]), cache, last=True)
    for _ in range(tokens):
        made.append(int(logits[0, -1].argmax()))
        logits = model(torch.tensor([[made[-1]]]), cache)
    return made


def generate_prompt_first(model, prompt, tokens):
    """Right: reads the prompt before the loop, and feeds a token only if another one is wanted."""
    cache, made = KVCache(), []
    logits = model(torch.tensor([prompt]), cache, last=True)
    while len(made) < tokens:
        made.append(int(logits[0, -1].argmax()))
        if len(made) < tokens:
            logits = model(torch.tensor([[made[-1]]]), cache)
    return made


# decode_lower_bound


def bound_with_lookup(config, gpu, batch, context):
    return (2 * parameter_count(config) + batch * solutions.kv_cache_bytes(config, context)) / gpu.memory_bandwidth


def bound_cache_once(config, gpu, batch, context):
    return solutions.decode_lower_bound(config, gpu, 1, context)


def bound_weights_each(config, gpu, batch, context):
    return batch * solutions.decode_lower_bound(config, gpu, 1, context)


def bound_no_cache(config, gpu, batch, context):
    lookup = 0 if config.tied else config.vocabulary * config.hidden
    return 2 * (parameter_count(config) - lookup) / gpu.memory_bandwidth


def bound_flops(config, gpu, batch, context):
    return 2 * batch * (parameter_count(config) - config.vocabulary * config.hidden) / gpu.bf16


def bound_without_tied_head(config, gpu, batch, context):
    weights = 2 * (parameter_count(config) - config.vocabulary * config.hidden)
    return (weights + batch * solutions.kv_cache_bytes(config, context)) / gpu.memory_bandwidth


def bound_each(config, gpu, batch, context):
    """Divides by the batch, as if the question were seconds per token."""
    return solutions.decode_lower_bound(config, gpu, batch, context) / batch


def bound_in_milliseconds(config, gpu, batch, context):
    return 1e3 * solutions.decode_lower_bound(config, gpu, batch, context)


def bound_with_all_heads(config, gpu, batch, context):
    """Right but for a kv_cache_bytes that counts all query heads."""
    kept = solutions.kv_cache_bytes(config, context)
    more = batch * (kept * config.heads // config.kv_heads - kept) / gpu.memory_bandwidth
    return solutions.decode_lower_bound(config, gpu, batch, context) + more


def bound_with_half_the_cache(config, gpu, batch, context):
    """Right but for a kv_cache_bytes without the factor for keys and values."""
    less = batch * solutions.kv_cache_bytes(config, context) / 2 / gpu.memory_bandwidth
    return solutions.decode_lower_bound(config, gpu, batch, context) - less


def bound_printed(config, gpu, batch, context):
    """Forgets to return."""


def bound_with_rows(config, gpu, batch, context):
    """Right: counts the rows that the lookup reads, and the key and value that are written."""
    rows = 2 * batch * config.hidden + batch * solutions.kv_cache_bytes(config, 1)
    return solutions.decode_lower_bound(config, gpu, batch, context) + rows / gpu.memory_bandwidth


# BlockManager


class Leaking(solutions.BlockManager):
    """Forgets to give the blocks back."""

    def free(self, request):
        del self.tables[request], self.tokens[request]


class LeakingRefusals(solutions.BlockManager):
    """Takes what there is, and keeps it when that is too little."""

    def allocate(self, request, tokens):
        need = -(-tokens // self.size)
        taken = [self.spare.pop() for _ in range(min(need, len(self.spare)))]
        if len(taken) < need:
            return None
        self.tables[request], self.tokens[request] = taken, tokens
        return taken


class LeakingAppends(solutions.BlockManager):
    """An append that is refused keeps the blocks that it found."""

    def append(self, request, tokens=1):
        table, total = self.tables[request], self.tokens[request] + tokens
        while len(table) * self.size < total:
            if not self.spare:
                return None
            table.append(self.spare.pop())
        self.tokens[request] = total
        return table


class AlwaysNew(solutions.BlockManager):
    """A block for every token that comes."""

    def append(self, request, tokens=1):
        before = len(self.tables[request])
        if super().append(request, tokens) is None:
            return None
        if len(self.tables[request]) == before and self.spare:
            self.tables[request].append(self.spare.pop())
        return self.tables[request]


class OneTooMany(solutions.BlockManager):
    """tokens // size + 1: one block too many when the size divides the tokens."""

    def allocate(self, request, tokens):
        if tokens // self.size + 1 > len(self.spare):
            return None
        self.tables[request] = [self.spare.pop() for _ in range(tokens // self.size + 1)]
        self.tokens[request] = tokens
        return self.tables[request]


class Rounded(solutions.BlockManager):
    """tokens // size: the last tokens have no place."""

    def allocate(self, request, tokens):
        self.tables[request], self.tokens[request] = [self.spare.pop() for _ in range(tokens // self.size)], tokens
        return self.tables[request]


class SameForAll(solutions.BlockManager):
    """Numbers each request's blocks from 0."""

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return table and list(range(len(table)))

    def append(self, request, tokens=1):
        table = super().append(request, tokens)
        return table and list(range(len(table)))


class Raising(solutions.BlockManager):
    """Raises where None is asked for."""

    def allocate(self, request, tokens):
        if -(-tokens // self.size) > len(self.spare):
            raise MemoryError("no blocks")
        return super().allocate(request, tokens)


class OneSpare(solutions.BlockManager):
    """Refuses what just fits."""

    def append(self, request, tokens=1):
        total = self.tokens[request] + tokens
        if -(-total // self.size) - len(self.tables[request]) == len(self.spare) > 0:
            return None
        return super().append(request, tokens)


class Silent(solutions.BlockManager):
    """Forgets to return the table."""

    def append(self, request, tokens=1):
        super().append(request, tokens)

    def allocate(self, request, tokens):
        self.tables[request], self.tokens[request] = [], 0
        return super().append(request, tokens)


class Moving(solutions.BlockManager):
    """Puts new blocks in front."""

    def append(self, request, tokens=1):
        before = len(self.tables[request])
        table = super().append(request, tokens)
        if table is not None:
            table[:] = table[before:] + table[:before]
        return table


class TablesInTheClassBody:
    """Keeps tables and tokens in the class body, where all managers share them."""

    tables, tokens = {}, {}

    def __init__(self, blocks, size):
        self.spare, self.size = list(range(blocks)), size

    allocate, append, free = (vars(solutions.BlockManager)[name] for name in ("allocate", "append", "free"))


class SpareOnTheClass(solutions.BlockManager):
    """Sets the list of spare blocks on the class: the last manager that is made gives its own to all."""

    def __init__(self, blocks, size):
        super().__init__(blocks, size)
        del self.spare
        SpareOnTheClass.spare = list(range(blocks))


class CountsRefusedTokens(solutions.BlockManager):
    """Counts tokens before it knows whether they find room."""

    def append(self, request, tokens=1):
        self.tokens[request] += tokens
        more = -(-self.tokens[request] // self.size) - len(self.tables[request])
        if more > len(self.spare):
            return None
        self.tables[request] += [self.spare.pop() for _ in range(more)]
        return self.tables[request]


class ComparesAll(solutions.BlockManager):
    """Wants as many spare blocks as the request has in all."""

    def append(self, request, tokens=1):
        if -(-(self.tokens[request] + tokens) // self.size) > len(self.spare):
            return None
        return super().append(request, tokens)


class SaysWhether(solutions.BlockManager):
    def allocate(self, request, tokens):
        return super().allocate(request, tokens) is not None


class BlockManagerAsSets:
    """Right: a set of free blocks, and tables handed out as copies."""

    def __init__(self, blocks, size):
        self.free_blocks, self.size, self.held = set(range(blocks)), size, {}

    def allocate(self, request, tokens):
        if len(self.free_blocks) * self.size < tokens:
            return None
        self.held[request] = (tokens, [self.free_blocks.pop() for _ in range((tokens - 1) // self.size + 1)])
        return tuple(self.held[request][1])

    def append(self, request, tokens=1):
        total, table = self.held[request]
        need = (total + tokens - 1) // self.size + 1 - len(table)
        if need > len(self.free_blocks):
            return None
        table = table + [self.free_blocks.pop() for _ in range(need)]
        self.held[request] = (total + tokens, table)
        return tuple(table)

    def free(self, request):
        self.free_blocks.update(self.held.pop(request)[1])


# SharingBlockManager


class WritingWhileShared(solutions.SharingBlockManager):
    """Appends into a block that others read."""

    def append(self, request):
        table = serving.BlockManager.append(self, request)
        return None if table is None else (table, None)


class FreeingWhileShared(solutions.SharingBlockManager):
    """Gives all blocks back with the first owner."""

    def free(self, request):
        serving.BlockManager.free(self, request)


class CopyingForks(solutions.SharingBlockManager):
    """A fork takes blocks of its own."""

    def fork(self, parent, child):
        return self.allocate(child, self.tokens[parent])


class NeverFreeing(solutions.SharingBlockManager):
    """Counts down, and never hands the block back."""

    def free(self, request):
        del self.tables[request], self.tokens[request]


class CopyingAlways(solutions.SharingBlockManager):
    """Copies although nobody shares the block."""

    def append(self, request):
        table = self.tables[request]
        if self.tokens[request] % self.size == 0:
            return super().append(request)
        if not self.spare:
            return None
        self.tokens[request] += 1
        old = table.pop()
        table.append(self.spare.pop())
        return table, (old, table[-1])


class SameList(solutions.SharingBlockManager):
    """A fork shares the list itself, not only the blocks in it."""

    def fork(self, parent, child):
        self.tables[child], self.tokens[child] = self.tables[parent], self.tokens[parent]
        return self.tables[child]


class NewThenOld(solutions.SharingBlockManager):
    """Says (new, old)."""

    def append(self, request):
        found = super().append(request)
        return found and (found[0], found[1] and found[1][::-1])


class SilentForks(solutions.SharingBlockManager):
    """Forgets to return the child's table."""

    def fork(self, parent, child):
        super().fork(parent, child)


class CopyingFull(solutions.SharingBlockManager):
    """Copies a shared block that is full, beside taking a new one."""

    def append(self, request):
        last, full = self.tables[request][-1], self.tokens[request] == len(self.tables[request]) * self.size
        shared, found = self.owners(last) > 1, super().append(request)
        return (found[0], (last, found[0][-1])) if found and full and shared else found


class CountingRefused(solutions.SharingBlockManager):
    """Counts the token, and then refuses it."""

    def append(self, request):
        found = super().append(request)
        if found is None:
            self.tokens[request] += 1
        return found


class NoneWhereNoneIsSpare(solutions.SharingBlockManager):
    """Refuses whenever no block is spare, even where none is needed."""

    def append(self, request):
        return super().append(request) if self.spare else None


class SharingByCounts(serving.BlockManager):
    """Right: a count of owners for each block."""

    def __init__(self, blocks, size):
        super().__init__(blocks, size)
        self.count = [0] * blocks

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        for block in table or []:
            self.count[block] = 1
        return table

    def fork(self, parent, child):
        self.tables[child], self.tokens[child] = self.tables[parent][:], self.tokens[parent]
        for block in self.tables[child]:
            self.count[block] += 1
        return self.tables[child]

    def append(self, request):
        table, copy = self.tables[request], None
        if self.tokens[request] % self.size and self.count[table[-1]] == 1:
            self.tokens[request] += 1
            return table, None
        if not self.spare:
            return None
        new = self.spare.pop()
        self.count[new] = 1
        if self.tokens[request] % self.size:
            copy = [table[-1], new]
            self.count[table[-1]] -= 1
            table[-1] = new
        else:
            table.append(new)
        self.tokens[request] += 1
        return table, copy

    def free(self, request):
        for block in self.tables.pop(request):
            self.count[block] -= 1
            if not self.count[block]:
                self.spare.append(block)
        del self.tokens[request]


class CountsOnTheClass(SharingByCounts):
    """Sets the counts of owners on the class, where all managers share them."""

    def __init__(self, blocks, size):
        super().__init__(blocks, size)
        del self.count
        CountsOnTheClass.count = [0] * blocks


# fill_row


def prompts_before_answers(running, budget):
    row = []
    for prompt, read, made in running:
        row.append(0 if made else min(prompt - read, budget - sum(row)))
    return [min(1, budget - sum(row)) if made else n for n, (_, _, made) in zip(row, running, strict=True)]


def in_one_pass(running, budget):
    """Goes along the list, so that a prompt takes the places of answers behind it."""
    row = []
    for prompt, read, made in running:
        row.append(min(1 if made else prompt - read, budget - sum(row)))
    return row


def answers_not_counted(running, budget):
    """Gives the whole budget to the prompts."""
    row = solutions.fill_row([one for one in running if not one[2]], budget)
    return [1 if made else row.pop(0) for _, _, made in running]


def each_the_whole_room(running, budget):
    """Does not take away what the prompts before have got."""
    room = budget - sum(made > 0 for _, _, made in running)
    return [1 if made else min(room, prompt - read) for prompt, read, made in running]


def shortest_prompts_first(running, budget):
    order = sorted(range(len(running)), key=lambda n: running[n][0] - running[n][1])
    row = dict(zip(order, solutions.fill_row([running[n] for n in order], budget), strict=True))
    return [row[n] for n in range(len(running))]


def in_equal_parts(running, budget):
    """Divides the places among the prompts."""
    answers = sum(made > 0 for _, _, made in running)
    part = (budget - answers) // max(1, len(running) - answers)
    return [1 if made else min(part, prompt - read) for prompt, read, made in running]


def whole_prompts_only(running, budget):
    """Never cuts a prompt."""
    room, row = budget - sum(made > 0 for _, _, made in running), []
    for prompt, read, made in running:
        piece = prompt - read if not made and prompt - read <= room else 0
        room -= piece
        row.append(1 if made else piece)
    return row


def read_from_the_beginning(running, budget):
    """Forgets what has been read."""
    return solutions.fill_row([(prompt, 0, made) for prompt, _, made in running], budget)


def one_place_unused(running, budget):
    return solutions.fill_row(running, budget - 1)


def every_answer_so_far(running, budget):
    """Sends all tokens made so far."""
    return [made or n for (_, _, made), n in zip(running, solutions.fill_row(running, budget), strict=True)]


def tokens_in_the_row(running, budget):
    return sum(solutions.fill_row(running, budget))


def fill_row_in_two_passes(running, budget):
    """Right: answers first, and then the prompts."""
    row = [int(made > 0) for _, _, made in running]
    for n, (prompt, read, made) in enumerate(running):
        if not made:
            row[n] = min(prompt - read, budget - sum(row))
    return row


def fill_row_of_numpy(running, budget):
    """Right: sums of all that come before, cut at the budget."""
    table = np.array(running)
    left = np.where(table[:, 2] > 0, 0, table[:, 0] - table[:, 1])
    ends = np.minimum(left.cumsum(), budget - (table[:, 2] > 0).sum())
    return np.diff(ends, prepend=0) + (table[:, 2] > 0)


# continuous_batches


def need(request, size):
    return -(-(request.prompt + request.limit) // size)


def passing_over(waiting, running, slots, blocks, block_size):
    """Starts whoever fits, so that a long prompt never does."""
    started, room = [], blocks - sum(need(request, block_size) for request in running)
    for request in waiting:
        if len(running) + len(started) < slots and need(request, block_size) <= room:
            started.append(request)
            room -= need(request, block_size)
    return started


def shortest_first(waiting, running, slots, blocks, block_size):
    return passing_over(sorted(waiting, key=lambda request: request.prompt), running, slots, blocks, block_size)


def batch_by_batch(waiting, running, slots, blocks, block_size):
    return [] if running else solutions.continuous_batches(waiting, running, slots, blocks, block_size)


def forgets_running(waiting, running, slots, blocks, block_size):
    """Counts only the blocks of those that start."""
    return solutions.continuous_batches(waiting, [], slots - len(running), blocks, block_size)


def prompts_only(waiting, running, slots, blocks, block_size):
    """Forgets that an answer needs blocks too."""
    started, room = [], blocks - sum(-(-request.prompt // block_size) for request in running)
    for request in waiting[: slots - len(running)]:
        room -= -(-request.prompt // block_size)
        if room < 0:
            break
        started.append(request)
    return started


def reads_the_future(waiting, running, slots, blocks, block_size):
    """Reserves for the tokens that will be made, which nobody knows."""
    started = []
    room = blocks - sum(-(-(request.prompt + request.output) // block_size) for request in running)
    for request in waiting[: slots - len(running)]:
        room -= -(-(request.prompt + request.output) // block_size)
        if room < 0:
            break
        started.append(request)
    return started


def ignores_slots(waiting, running, slots, blocks, block_size):
    return solutions.continuous_batches(waiting, running, 10**9, blocks, block_size)


def never_more_than_two(waiting, running, slots, blocks, block_size):
    return solutions.continuous_batches(waiting, running, min(slots, 2), blocks, block_size)


def first_two_swapped(waiting, running, slots, blocks, block_size):
    """Lets the second in line go first."""
    return solutions.continuous_batches(waiting[1::-1] + waiting[2:], running, slots, blocks, block_size)


def every_second(waiting, running, slots, blocks, block_size):
    """Passes over every second one."""
    return solutions.continuous_batches(waiting[::2], running, slots, blocks, block_size)


def removes_while_iterating(waiting, running, slots, blocks, block_size):
    """Takes requests out of the list that it walks along, and so skips the one behind each."""
    started, room = [], blocks - sum(need(request, block_size) for request in running)
    for request in waiting:
        room -= need(request, block_size)
        if len(running) + len(started) == slots or room < 0:
            break
        started.append(request)
        waiting.remove(request)
    return started


def in_reverse_order(waiting, running, slots, blocks, block_size):
    """Starts the right ones, and says so backwards."""
    return solutions.continuous_batches(waiting, running, slots, blocks, block_size)[::-1]


def numbers_of_requests(waiting, running, slots, blocks, block_size):
    return [request.id for request in solutions.continuous_batches(waiting, running, slots, blocks, block_size)]


def refusing_what_just_fits(waiting, running, slots, blocks, block_size):
    return solutions.continuous_batches(waiting, running, slots, blocks - 1, block_size)


def with_those_that_run(waiting, running, slots, blocks, block_size):
    """Returns all that run then."""
    return running + solutions.continuous_batches(waiting, running, slots, blocks, block_size)


def rounds_the_sum(waiting, running, slots, blocks, block_size):
    started, tokens = [], sum(request.prompt + request.limit for request in running)
    for request in waiting:
        tokens += request.prompt + request.limit
        if len(running) + len(started) == slots or -(-tokens // block_size) > blocks:
            break
        started.append(request)
    return started


def limits_only(waiting, running, slots, blocks, block_size):
    room, started = blocks - sum(-(-request.limit // block_size) for request in running), []
    for request in waiting[: slots - len(running)]:
        room -= -(-request.limit // block_size)
        if room < 0:
            break
        started.append(request)
    return started


def notes_the_promise(waiting, running, slots, blocks, block_size):
    started = solutions.continuous_batches(waiting, running, slots, blocks, block_size)
    for request in started:
        request.blocks = -(-(request.prompt + request.limit) // block_size)
    return started


def taken_out_of_waiting(waiting, running, slots, blocks, block_size):
    """Right: takes those that start out of the list, which is its own."""
    started, room = [], blocks - sum(need(request, block_size) for request in running)
    while waiting and len(running) + len(started) < slots and need(waiting[0], block_size) <= room:
        started.append(waiting.pop(0))
        room -= need(started[-1], block_size)
    return started


def one_at_a_time(waiting, running, slots, blocks, block_size):
    """Right: at most one each time it is asked."""
    used = sum(need(request, block_size) for request in running)
    if len(running) < slots and waiting and used + need(waiting[0], block_size) <= blocks:
        return [waiting[0]]
    return []


# adaptive_batches


def restarting(arrivals, max_size, max_wait):
    """The timer starts anew with every request."""
    batches = []
    for number, arrival in enumerate(arrivals):
        if batches and len(batches[-1][1]) < max_size and arrival <= batches[-1][0]:
            batches[-1][1].append(number)
            batches[-1][0] = arrival if len(batches[-1][1]) == max_size else arrival + max_wait
        else:
            batches.append([arrival if max_size == 1 else arrival + max_wait, [number]])
    return batches


def only_full(arrivals, max_size, max_wait):
    """Drops what does not fill a batch."""
    groups = [list(range(at, at + max_size)) for at in range(0, len(arrivals) - max_size + 1, max_size)]
    return [(arrivals[group[-1]], group) for group in groups]


def only_timer(arrivals, max_size, max_wait):
    return solutions.adaptive_batches(arrivals, 10**9, max_wait)


def full_ones_wait(arrivals, max_size, max_wait):
    batches = solutions.adaptive_batches(arrivals, max_size, max_wait)
    return [(arrivals[batch[0]] + max_wait, batch) for _, batch in batches]


def last_at_once(arrivals, max_size, max_wait):
    """Starts every batch when its last request comes, as if it knew that no other one will."""
    return [(arrivals[batch[-1]], batch) for _, batch in solutions.adaptive_batches(arrivals, max_size, max_wait)]


def closed_at_the_last_moment(arrivals, max_size, max_wait):
    """Leaves out who comes exactly when the timer ends."""
    batches, first = [], 0
    while first < len(arrivals):
        closes = arrivals[first] + max_wait
        batch = [first] + [n for n in range(first + 1, len(arrivals)) if arrivals[n] < closes][: max_size - 1]
        batches.append((arrivals[batch[-1]] if len(batch) == max_size else closes, batch))
        first += len(batch)
    return batches


def adaptive_as_a_loop(arrivals, max_size, max_wait):
    """Right: one request after the other."""
    batches, current = [], []
    for number, arrival in enumerate(arrivals):
        if current and arrival > arrivals[current[0]] + max_wait:
            batches.append([arrivals[current[0]] + max_wait, current])
            current = []
        current.append(number)
        if len(current) == max_size:
            batches.append([arrival, current])
            current = []
    if current:
        batches.append([arrivals[current[0]] + max_wait, current])
    return batches


def adaptive_pairs(arrivals, max_size, max_wait):
    """Pairs of requests, where a start and a list are asked for."""
    return [[0, 1]]


def adaptive_of_numpy(arrivals, max_size, max_wait):
    """Right: all in numbers of NumPy's, in tuples."""
    batches = solutions.adaptive_batches(arrivals, max_size, max_wait)
    return tuple((np.float64(start), tuple(map(np.int64, batch))) for start, batch in batches)


WRONG = [
    Wrong("kv_cache_bytes", kv_all_heads, "all-heads", ("Llama-3-8B", "524,288 bytes; it is 131,072", "KV heads"), 1),
    Wrong("kv_cache_bytes", kv_once, "half", ("262,144 bytes; it is 524,288", "a key and a value"), 0),
    Wrong("kv_cache_bytes", kv_one_layer, "one-layer", ("every layer",), 0),
    Wrong("kv_cache_bytes", kv_fp32, "fp32", ("bf16 has 2 bytes",), 0),
    Wrong("kv_cache_bytes", kv_nan, "value", ("nan bytes",), 0),
    Wrong("kv_cache_bytes", kv_whole_hidden, "whole-head", ("one head is hidden // heads",), 0),
    Wrong("kv_cache_bytes", kv_printed, "form", ("it returns nothing; return a number of bytes",), 0),
    Wrong("kv_cache_bytes", kv_one_byte, "half", ("a number has 2 bytes", "one of these twos is missing"), 0),
    Wrong("kv_cache_bytes", kv_shared_out, "all-heads", ("hidden // heads numbers long",), 1),
    Wrong("generate_with_cache", generate_tensor, "form", ("it returns a Tensor; return a list",), 0),
    Wrong("generate_with_cache", generate_drawing, "tokens", ("the largest of the scores", "draw none"), 0),
    Wrong("generate_with_cache", generate_last_twice, "tokens", ("the prompt's last token", "is fed twice"), 0),
    Wrong("BlockManager", CountsRefusedTokens, "leak", ("takes 0 more", "neither blocks nor the count of tokens"), 3),
    Wrong("BlockManager", ComparesAll, "counts-held", ("only the 0 more that it takes", "it holds 3"), 2),
    Wrong("BlockManager", SaysWhether, "form", ("returned a bool; return the request's table",), 0),
    Wrong("SharingBlockManager", CopyingFull, "needless-copy", ("which is full", "nothing is copied"), 0),
    Wrong("SharingBlockManager", CountingRefused, "refuses", ("it takes none", "the count of tokens neither"), 3),
    Wrong("SharingBlockManager", NoneWhereNoneIsSpare, "refuses", ("has room, and nobody shares it",), 3),
    Wrong("adaptive_batches", adaptive_pairs, "form", ("return a list of (start, [numbers of requests])",), 0),
    Wrong("generate_with_cache", generate_recomputing, "recomputes", ("given 45 tokens in all; 10 are enough",), 2),
    Wrong("generate_with_cache", generate_new_cache, "recomputes", ("You recompute what the cache holds",), 2),
    Wrong("generate_with_cache", generate_feeding_all, "fed-twice", ("feed only the newest token",), 0),
    Wrong("generate_with_cache", generate_with_prompt, "prompt-too", ("the prompt is returned too",), 0),
    Wrong("generate_with_cache", generate_feeding_the_last, "feeds-the-last",
          ("7 calls of the model; 6 are enough", "after the last new token"), 2),
    Wrong("generate_with_cache", generate_one_by_one, "prompt-in-pieces", ("read the whole prompt in one call",), 2),
    Wrong("generate_with_cache", generate_at_least_one, "count", ("0 tokens after a prompt of 3: it returns 1",), 0),
    Wrong("generate_with_cache", generate_first_logits, "tokens", ("token 0 is", "without a cache it is"), 0),
    Wrong("generate_with_cache", generate_forgetting, "tokens", ("token 1 is", "all calls need one cache"), 0),
    Wrong("generate_with_cache", generate_tensors, "form", ("a list with a Tensor in it", ".item()"), 0),
    Wrong("generate_with_cache", generate_into_the_prompt, "changes-prompt", ("has changed `prompt`",), 0),
    Wrong("generate_with_cache", generate_without_sequences, "raised", ("takes (sequences, tokens)",), 0),
    Wrong("decode_lower_bound", bound_with_lookup, "with-lookup", ("the least is 4.481 ms", "one row a token"), 0),
    Wrong("decode_lower_bound", bound_cache_once, "cache-once", ("every sequence of the batch",), 2),
    Wrong("decode_lower_bound", bound_weights_each, "weights-per-sequence", ("serves the whole batch",), 2),
    Wrong("decode_lower_bound", bound_no_cache, "no-cache", ("keys and values of the context",), 1),
    Wrong("decode_lower_bound", bound_flops, "flops", ("decoding waits for memory",), 0),
    Wrong("decode_lower_bound", bound_without_tied_head, "without-tied-head", ("as the head",), 0),
    Wrong("decode_lower_bound", bound_with_all_heads, "all-heads", ("kv_cache_bytes counts all query heads",), 1),
    Wrong("decode_lower_bound", bound_with_half_the_cache, "half", ("mend kv_cache_bytes first",), 1),
    Wrong("decode_lower_bound", bound_each, "per-token", ("do not divide",), 2),
    Wrong("decode_lower_bound", bound_in_milliseconds, "milliseconds", ("return seconds",), 0),
    Wrong("decode_lower_bound", bound_printed, "form", ("it returns nothing; return seconds",), 0),
    Wrong("BlockManager", Leaking, "leak", ("allocate(0, 8), free(0), allocate(1, 8)", "do not come back"), 3),
    Wrong("BlockManager", LeakingRefusals, "leak", ("a refusal changes nothing, neither blocks nor",), 2),
    Wrong("BlockManager", LeakingAppends, "leak", (": allocate(0, 4), append(0, 12), allocate(1, 8) returned",), 2),
    Wrong("BlockManager", AlwaysNew, "waste", ("3 blocks for 6 tokens; it takes 2: waste less",), 0),
    Wrong("BlockManager", OneTooMany, "waste", ("2 blocks for 4 tokens; it takes 1: waste less",), 0),
    Wrong("BlockManager", Rounded, "too-few", ("1 block for 5 tokens; it takes 2, or the last has no place",), 0),
    Wrong("BlockManager", SameForAll, "given-twice", ("which request 0 holds",), 0),
    Wrong("BlockManager", Raising, "raised", ("allocate(0, 13) raised MemoryError: no blocks",), 2),
    Wrong("BlockManager", Moving, "moved", ("stay where they are",), 0),
    Wrong("BlockManager", OneSpare, "refuses", ("it takes 3 more and 3 of 3 blocks", "None is for too few blocks"), 2),
    Wrong("BlockManager", TablesInTheClassBody, "shared-by-managers", ("two managers", "3 blocks for 8 tokens"), 3),
    Wrong("BlockManager", SpareOnTheClass, "shared-by-managers", ("two managers", "class body", "in __init__"), 3),
    Wrong("BlockManager", Silent, "refuses", ("append(0) returned None, though it takes 0 more",), 0),
    Wrong("SharingBlockManager", WritingWhileShared, "written-while-shared", ("copy it first", "reads a token of"), 1),
    Wrong("SharingBlockManager", FreeingWhileShared, "freed-while-shared", ("when its last owner has left",), 3),
    Wrong("SharingBlockManager", CopyingForks, "fork-copies", ("takes no block",), 0),
    Wrong("SharingBlockManager", NeverFreeing, "leak", ("in nobody's table",), 3),
    Wrong("SharingBlockManager", CopyingAlways, "needless-copy", ("which nobody shares",), 1),
    Wrong("SharingBlockManager", SameList, "same-list", ("both append to the same list",), 0),
    Wrong("SharingBlockManager", NewThenOld, "pair-reversed", ("returned the pair [2, 1]; (old, new) is [1, 2]",), 1),
    Wrong("SharingBlockManager", CountsOnTheClass, "shared-by-managers", ("two managers", "in __init__"), 3),
    Wrong("SharingBlockManager", SilentForks, "fork-copies", ("returned None; return the child's table",), 0),
    Wrong("fill_row", prompts_before_answers, "prompts-first", ("prompts take 8 of the 8 places",), 0),
    Wrong("fill_row", in_one_pass, "prompts-first", ("brings 0 tokens", "Answers come before prompts"), 0),
    Wrong("fill_row", answers_not_counted, "above", ("has 10 tokens; the budget is 8", "2 answers take a place"), 0),
    Wrong("fill_row", each_the_whole_room, "above", ("the budget is 8", "leave fewer places to the next"), 1),
    Wrong("fill_row", shortest_prompts_first, "overtakes", ("request 1, which came later, has places",), 3),
    Wrong("fill_row", in_equal_parts, "empty", ("and could bring 6, and 2 places of 8",), 1),
    Wrong("fill_row", whole_prompts_only, "not-cut", ("6 places of 8 stay empty", "is cut"), 0),
    Wrong("fill_row", read_from_the_beginning, "read-again", ("6 of its prompt's 9 are read, so 3 are left",), 1),
    Wrong("fill_row", one_place_unused, "empty", ("1 place of 8",), 0),
    Wrong("fill_row", every_answer_so_far, "one-each", ("brings 2 tokens", "so it brings exactly one"), 0),
    Wrong("fill_row", tokens_in_the_row, "form", ("return a list of 2 numbers",), 0),
    Wrong("continuous_batches", passing_over, "starves", ("overtake it", "Stop at the first in the queue"), 1),
    Wrong("continuous_batches", shortest_first, "starves", ("a prompt of 150 tokens waits",), 1),
    Wrong("continuous_batches", first_two_swapped, "overtakes", ("starts before request", "which came first"), 1),
    Wrong("continuous_batches", every_second, "overtakes", ("starts before request", "in order"), 1),
    Wrong("continuous_batches", removes_while_iterating, "overtakes", ("which came first",), 1),
    Wrong("continuous_batches", in_reverse_order, "overtakes", ("return the first of `waiting`, in order",), 1),
    Wrong("continuous_batches", batch_by_batch, "waits-for-the-batch", ("as soon as a slot is free",), 2),
    Wrong("continuous_batches", forgets_running, "above-budget", ("Those that run count, too",), 0),
    Wrong("continuous_batches", prompts_only, "above-budget", ("Count prompt and limit, not prompts alone",), 0),
    Wrong("continuous_batches", rounds_the_sum, "above-budget", ("Round each request up to whole blocks, not the",), 0),
    Wrong("continuous_batches", limits_only, "above-budget", ("Count prompt and limit, not limits alone",), 0),
    Wrong("continuous_batches", notes_the_promise, "changes-requests", ("blocks of request 0 was 0 and is 1",), 0),
    Wrong("continuous_batches", reads_the_future, "above-budget", ("there are 8. Count the limit",), 0),
    Wrong("continuous_batches", ignores_slots, "above-slots", ("and there is 1 slot",), 0),
    Wrong("continuous_batches", never_more_than_two, "idle-slots", ("slots stand empty",), 2),
    Wrong("continuous_batches", numbers_of_requests, "not-waiting", ("an int that is not in `waiting`",), 0),
    Wrong("continuous_batches", with_those_that_run, "not-waiting", ("a Request that is not in `waiting`",), 0),
    Wrong("continuous_batches", refusing_what_just_fits, "starts-nobody", ("may need 10 of 10 blocks",), 1),
    Wrong("adaptive_batches", restarting, "timer-restarts", ("the timer runs from its first request",), 1),
    Wrong("adaptive_batches", only_full, "lost", ("is in no batch",), 1),
    Wrong("adaptive_batches", only_timer, "too-big", ("a batch of 4",), 0),
    Wrong("adaptive_batches", full_ones_wait, "full-waits", ("do not wait for the timer",), 0),
    Wrong("adaptive_batches", closed_at_the_last_moment, "too-small", ("[0, 1, 2] come by 1 s, or just then",), 1),
    Wrong("adaptive_batches", last_at_once, "start", ("so it starts at 1 s",), 1),
]

RIGHT = [
    ("kv_cache_bytes", kv_as_float),
    ("kv_cache_bytes", kv_of_numpy),
    ("generate_with_cache", generate_numpy),
    ("adaptive_batches", adaptive_of_numpy),
    ("generate_with_cache", generate_prompt_first),
    ("decode_lower_bound", bound_with_rows),
    ("BlockManager", BlockManagerAsSets),
    ("SharingBlockManager", SharingByCounts),
    ("fill_row", fill_row_in_two_passes),
    ("fill_row", fill_row_of_numpy),
    ("continuous_batches", one_at_a_time),
    ("continuous_batches", taken_out_of_waiting),
    ("adaptive_batches", adaptive_as_a_loop),
]
