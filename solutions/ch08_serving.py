"""Answers to the exercises of chapter 8."""

import torch

from course_lib import serving
from course_lib.models import parameter_count
from course_lib.serving.caches import KVCache


def kv_cache_bytes(config, tokens):
    """Count one key and one value per layer and KV head: queries are not kept, and KV heads may be few."""
    head_size = config.hidden // config.heads
    return 2 * config.layers * config.kv_heads * head_size * tokens * 2


def generate_with_cache(model, prompt, tokens):
    """Read the prompt once; from then on feed only the token that was made last."""
    cache, answer, new = KVCache(), [], prompt
    for _ in range(tokens):
        logits = model(torch.tensor([new]), cache)
        new = [logits[0, -1].argmax().item()]
        answer += new
    return answer


def decode_lower_bound(config, gpu, batch, context):
    """Divide what must be read by the bandwidth: the weights once for all, the keys and values once for each."""
    lookup = 0 if config.tied else config.vocabulary * config.hidden
    weights = 2 * (parameter_count(config) - lookup)
    return (weights + batch * kv_cache_bytes(config, context)) / gpu.memory_bandwidth


class BlockManager:
    """Hands out blocks of a KV cache; every block is spare or in exactly one table."""

    def __init__(self, blocks, size):
        self.size, self.spare, self.tables, self.tokens = size, list(range(blocks)), {}, {}

    def allocate(self, request, tokens):
        self.tables[request], self.tokens[request] = [], 0
        table = self.append(request, tokens)
        if table is None:
            self.free(request)  # a refused request leaves nothing behind
        return table

    def append(self, request, tokens=1):
        table, total = self.tables[request], self.tokens[request] + tokens
        more = -(-total // self.size) - len(table)
        if more > len(self.spare):
            return None
        table += [self.spare.pop() for _ in range(more)]
        self.tokens[request] = total
        return table

    def free(self, request):
        self.spare += self.tables.pop(request)
        del self.tokens[request]


class SharingBlockManager(serving.BlockManager):
    """A fork shares all blocks of its parent; whoever writes into a shared one takes a copy first."""

    def owners(self, block):
        return sum(block in table for table in self.tables.values())

    def fork(self, parent, child):
        self.tables[child], self.tokens[child] = list(self.tables[parent]), self.tokens[parent]
        return self.tables[child]

    def append(self, request):
        table, copied = self.tables[request], None
        full = self.tokens[request] == len(table) * self.size
        if full or self.owners(table[-1]) > 1:
            if not self.spare:
                return None
            copied = None if full else (table.pop(), self.spare[-1])
            table.append(self.spare.pop())
        self.tokens[request] += 1
        return table, copied

    def free(self, request):
        del self.tokens[request]
        self.spare += [block for block in self.tables.pop(request) if not self.owners(block)]


def fill_row(running, budget):
    """Give each answer its place first, and what is left of the budget to the prompts, in order."""
    room, row = budget - sum(made > 0 for _, _, made in running), []
    for prompt, read, made in running:
        piece = 0 if made else min(room, prompt - read)
        room -= piece
        row.append(1 if made else piece)
    return row


def continuous_batches(waiting, running, slots, blocks, block_size):
    """Start whoever is first in the queue while a slot is free and blocks are left for the longest answer allowed."""

    def need(request):
        return -(-(request.prompt + request.limit) // block_size)

    started, room = [], blocks - sum(need(request) for request in running)
    for request in waiting:
        room -= need(request)
        if len(running) + len(started) == slots or room < 0:
            break  # passing over whoever does not fit would let long prompts wait forever
        started.append(request)
    return started


def adaptive_batches(arrivals, max_size, max_wait):
    """Close a batch when it is full, or when its first request has waited long enough."""
    batches, first = [], 0
    while first < len(arrivals):
        closes = arrivals[first] + max_wait
        batch = [n for n in range(first, min(first + max_size, len(arrivals))) if arrivals[n] <= closes]
        if len(batch) == max_size:
            closes = arrivals[batch[-1]]
        batches.append((closes, batch))
        first += len(batch)
    return batches
