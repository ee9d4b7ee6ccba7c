"""Checks of chapter 8: what a cache costs, who owns which block, and which request starts when."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from course_lib.hardware import GPUS
from course_lib.llama import tiny_llama
from course_lib.models import MODELS, ModelShape, parameter_count
from course_lib.serving import Engine, Request, blocks_for, continuous, static_batches
from course_lib.serving.real import ModelWorker
from exercises_tests.judging import alone, check, expect
from exercises_tests.values import close, equal

SEED = int(os.environ.get("COURSE_SEED", "0"))


def each(answer: Any, cases: list) -> list:
    """Beside the answer: what it returns for each case."""
    return [answer(*case) for case in cases]


# Keys and values in bytes


@check(value=1, grouped_queries=1)
def check_kv_cache_bytes(answer: Any, part: Any) -> str:
    odd = ModelShape("a model of 3 layers", 96, 128, 3, 6, 6, 100)
    part("value")
    _kv_bytes(answer, [(MODELS["Llama-2-7B"], 1), (odd, 7), (MODELS["OPT-13B"], 2048)])
    part("grouped queries")
    _kv_bytes(answer, [(MODELS["Llama-3-8B"], 1), (MODELS["Llama-3-70B"], 8192), (MODELS["SmolLM2-135M"], 100)])
    return "131,072 bytes a token for Llama-3-8B · KV heads counted, not query heads · keys and values"


def _kv_bytes(answer: Any, cases: list[tuple[ModelShape, int]]) -> None:
    for (shape, tokens), got in zip(cases, alone(each, answer, cases), strict=True):
        want = 4 * shape.layers * shape.kv_heads * shape.head_size * tokens
        case = f"{shape.name}, {_count(tokens, 'token')}"
        see = f'kv_cache_bytes(MODELS["{shape.name}"], {tokens})' if shape.name in MODELS else ""
        number = isinstance(got, (int, float)) and not isinstance(got, bool)
        expect(number, f"{case}: it returns {_kind(got)}; return a number of bytes", "form", see)
        said = f"{case}: {_number(got)} bytes; it is {want:,}"
        mistakes = {
            "all-heads": (shape.heads / shape.kv_heads, "all query heads are counted; only the KV heads are kept"),
            "half": (1 / 2, "a key and a value are kept for each token, so twice as much"),
            "fp32": (2, "bf16 has 2 bytes"),
            "elements": (1 / 2 / 2, "these are neither both keys and values nor bytes"),
            "one-layer": (1 / shape.layers, "every layer has its own keys and values"),
            "head-size": (shape.head_size**-1, "a key is head_size numbers long"),
            "whole-head": (shape.heads, "one head is hidden // heads numbers long, all of them together hidden"),
        }
        for code, (factor, sentence) in mistakes.items():
            expect(factor == 1 or not close(got, want * factor), f"{said}: {sentence}", code, see)
        both = shape.heads / shape.kv_heads / 2
        words = f"{said}: all query heads are counted, and not both keys and values"
        expect(both == 1 or not close(got, want * both), words, "all-heads", see)
        expect(close(got, want), said, "value", see)


def _number(value: float) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"


def _count(number: int, thing: str) -> str:
    """Return "1 block", "2 blocks"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _are(number: int, thing: str) -> str:
    return f"{'is' if number == 1 else 'are'} {_count(number, thing)}"


# The same tokens, each read once


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Small models are fastest, and steady, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Watched:
    """A model that writes down the shape of what it is given."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model, self.calls = model, []

    def __call__(self, tokens: torch.Tensor, cache: Any = None, last: bool = False) -> torch.Tensor:
        self.calls.append(tuple(tokens.shape))
        if tokens.dim() != 2:
            words = f"tokens of shape {self.calls[-1]}; the model takes (sequences, tokens), as torch.tensor([new]) has"
            raise ValueError(words)
        return self._model(tokens, cache, last)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def generate(answer: Any, cases: list, seed: int) -> list:
    """Beside the answer: what it returns for each case, the shape of each call of the model, the prompt afterwards."""
    found = []
    with one_thread():
        for prompt, tokens in cases:
            model, given = Watched(tiny_llama(seed=seed)), list(prompt)
            made = answer(model, given, tokens)
            found.append((made.tolist() if isinstance(made, torch.Tensor) else made, model.calls, given))
    return found


@check(tokens=2, cost=2)
def check_generate_with_cache(answer: Any, part: Any) -> str:
    draw = random.Random(SEED)
    sizes = ((5, 6), (1, 1), (20, 9), (3, 0))
    cases = [([draw.randrange(256) for _ in range(prompt)], tokens) for prompt, tokens in sizes]
    wanted = [_greedy(prompt, tokens) for prompt, tokens in cases]
    found = alone(generate, answer, cases, SEED)
    see = "generate_with_cache(model, prompt, 5), generate(model, prompt, 5)"
    part("tokens")
    for (prompt, tokens), want, (got, calls, given) in zip(cases, wanted, found, strict=True):
        case = f"{_count(tokens, 'token')} after a prompt of {len(prompt)}"
        expect(isinstance(got, list), f"{case}: it returns {_kind(got)}; return a list of token numbers", "form", see)
        strange = [_kind(token) for token in got if type(token) is not int]
        words = f"{case}: it returns a list with {(strange or [''])[0]} in it; .item() makes a number of a tensor"
        expect(not strange, words, "form", see)
        expect(got[: len(prompt)] != prompt or got == want, f"{case}: the prompt is returned too", "prompt-too", see)
        expect(len(got) == len(want), f"{case}: it returns {len(got)}", "count", see)
        read, first = sum(shape[-1] for shape in calls), _first(got, want)
        expect(
            equal(got, want) or read <= len(prompt) + tokens,
            f"{case}: token {first} is another one than without a cache, and the model was given {read} "
            f"tokens: the cache holds what was read, so feed only the newest token",
            "fed-twice", see,
        )  # fmt: skip
        singly = first > 0 and all(shape[-1] == 1 for shape in calls[1:])
        why = "only the newest token is fed, so all calls need one cache, which holds those before it" if singly else ""
        if first == 0:
            again = "the cases before came out right; does every answer begin with an empty cache?"
            why = again if prompt != cases[0][0] else "take the scores after the prompt's last token, logits[0, -1]"
        expect(
            equal(got, want),
            f"{case}: token {first} is {got[first]}; without a cache it is {want[first]}{': ' * bool(why)}{why}",
            "tokens", see,
        ) if want else None  # fmt: skip
        grown = f"{case}: your function has changed `prompt`, which now has {len(given)}: leave the caller's list alone"
        expect(equal(given, prompt), grown, "changes-prompt", see)
    part("cost")
    for (prompt, tokens), (_, calls, _) in zip(cases, found, strict=True):
        read, least = sum(shape[-1] for shape in calls), len(prompt) + max(tokens - 1, 0)
        case = f"{_count(tokens, 'token')} after a prompt of {len(prompt)}"
        expect(
            read <= least + 1,
            f"{case}: the model was given {read} tokens in all; {least} are enough, each once. You recompute what the "
            "cache holds",
            "recomputes", see,
        )  # fmt: skip
        expect(
            len(calls) <= tokens + 1,
            f"{case}: {len(calls)} calls of the model; {max(tokens, 1)} are enough: read the whole prompt in one call",
            "prompt-in-pieces", see,
        )  # fmt: skip
    return "the same tokens as without a cache · every token is read once · one call for the prompt"


def _greedy(prompt: list[int], tokens: int) -> list[int]:
    model, known = tiny_llama(seed=SEED), list(prompt)
    with one_thread():
        for _ in range(tokens):
            known.append(model(torch.tensor([known]), last=True)[0, -1].argmax().item())
    return known[len(prompt) :]


def _first(got: list, want: list) -> int:
    return next((place for place, pair in enumerate(zip(got, want, strict=False)) if pair[0] != pair[1]), 0)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


# Bytes over bandwidth


@check(weights=1, cache=1, batch=1)
def check_decode_lower_bound(answer: Any, part: Any) -> str:
    h100, a100 = GPUS["H100 SXM"], GPUS["A100 SXM 80GB"]
    part("weights")
    _bounds(answer, [(MODELS["Llama-3-8B"], h100, 1, 1), (MODELS["SmolLM2-135M"], a100, 1, 1)])
    part("cache")
    _bounds(answer, [(MODELS["Llama-3-8B"], h100, 1, 8192), (MODELS["Llama-2-7B"], a100, 1, 4096)])
    part("batch")
    _bounds(answer, [(MODELS["Llama-3-8B"], h100, 64, 4096), (MODELS["Granite-3.0-2B"], a100, 16, 1000)])
    return "4.48 ms for Llama-3-8B on an H100 · weights once a batch · keys and values once a sequence"


def _bounds(answer: Any, cases: list) -> None:
    for (shape, gpu, batch, context), got in zip(cases, alone(each, answer, cases), strict=True):
        table, shared = 2 * shape.vocabulary * shape.hidden, shape.heads / shape.kv_heads
        every, kept = 2 * parameter_count(shape), 4 * shape.layers * shape.kv_heads * shape.head_size * context
        weights = every - (0 if shape.tied else table)
        want = (weights + batch * kept) / gpu.memory_bandwidth
        see = f'decode_lower_bound(MODELS["{shape.name}"], GPUS["{gpu.name}"], {batch}, {context})'
        said = f"{shape.name} on {gpu.name}, batch {batch}, context {context:,}: "
        expect(isinstance(got, (int, float)), f"{said}it returns {_kind(got)}; return seconds", "form", see)
        said += f"{1e3 * got:,.4g} ms; the least is {1e3 * want:,.4g} ms"
        mistakes = {
            "with-lookup": (every + batch * kept, "of the input embedding one row a token is read: leave it out"),
            "without-tied-head": (every - table + batch * kept, "a tied embedding is read whole, as the head"),
            "weights-per-sequence": (batch * (weights + kept), "one reading of the weights serves the whole batch"),
            "no-cache": (weights, "the keys and values of the context are read too"),
            "cache-once": (weights + kept, "every sequence of the batch reads its own keys and values"),
            "parameters": (weights / 2 + batch * kept, "bf16 weights have 2 bytes each"),
            "per-token": ((weights + batch * kept) / batch, "the step makes a token for every sequence; do not divide"),
            "all-heads": (weights + batch * kept * shared, "kv_cache_bytes counts all query heads"),
            "half": (weights + batch * kept / 2, "keys and values are both read: mend kv_cache_bytes first"),
            "milliseconds": (1e3 * (weights + batch * kept), "return seconds; these are milliseconds"),
        }
        for code, (moved, sentence) in mistakes.items():
            wrong = moved / gpu.memory_bandwidth
            expect(close(wrong, want, 2e-3) or not close(got, wrong, 1e-6), f"{said}: {sentence}", code, see)
        flops = weights * batch / gpu.peak("bf16")
        expect(not close(got, flops, 1e-2), f"{said}: that is FLOPs over peak; decoding waits for memory", "flops", see)
        expect(close(got, want, 1e-3), said, "value", see)


# Blocks


def operate(answer: Any, histories: list) -> list:
    """Beside the answer: for each history, what each operation returned to a new manager and to two that take turns."""
    return [(*_operate(answer, 1, *history), *_operate(answer, 2, *history)) for history in histories]


def _operate(answer: Any, managers: int, blocks: int, size: int, operations: list) -> list:
    """Return for each manager what each operation returned, as plain data; ends at the first exception."""
    found: list = [[] for _ in range(managers)]
    at = 0
    try:
        made = [answer(blocks, size) for _ in range(managers)]
        for name, *words in operations:
            for at, manager in enumerate(made):
                found[at].append(_plain(getattr(manager, name)(*words)))
    except NotImplementedError:
        found[at].append(("unwritten",))
    except Exception as error:
        found[at].append(("raised", f"{type(error).__name__}: {error}"))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value if value is None or type(value) is int else ("other", type(value).__name__)


def _script(operations: list, most: int = 9) -> str:
    shown = [f"{name}({', '.join(map(str, words))})" for name, *words in operations]
    return ("..., " if len(shown) > most else "") + ", ".join(shown[-most:])


def _steps(blocks: int, size: int, operations: list, found: list) -> Any:
    """Yield (operation, what it returned, the words for this case), and refuse what is unwritten or raises."""
    for place, returned in enumerate(found):
        case = f"{blocks} blocks of {size} tokens: {_script(operations[: place + 1])}"
        if isinstance(returned, (tuple, list)) and returned and returned[0] == "unwritten":
            expect(False, "not written yet", "not-written")
        if isinstance(returned, (tuple, list)) and returned and returned[0] == "raised":
            expect(False, f"{case} raised {returned[1]}", "raised")
        if place < len(operations):
            yield operations[place], returned, case


def _numbers(returned: Any, case: str, blocks: int) -> None:
    fine = isinstance(returned, list) and all(type(block) is int for block in returned)
    expect(fine, f"{case} returned {returned!r}; return the request's table, a list of block numbers, or None", "form")
    strange = [block for block in returned if not 0 <= block < blocks]
    expect(not strange, f"{case} gave block {strange[:1]}; blocks are numbered from 0 to {blocks - 1}", "no-such-block")
    expect(len(set(returned)) == len(returned), f"{case} gave a block twice: {returned}", "given-twice")


def _judge_blocks(blocks: int, size: int, operations: list, found: list) -> None:
    tables: dict[int, list[int]] = {}
    tokens: dict[int, int] = {}
    freed = refused = False
    for (name, request, *count), returned, case in _steps(blocks, size, operations, found):
        if name == "free":
            freed, _, _ = True, tables.pop(request), tokens.pop(request)
            continue
        total, before = tokens.get(request, 0) + (count or [1])[0], tables.get(request, [])
        need, spare = blocks_for(total, size), blocks - sum(map(len, tables.values()))
        if need - len(before) > spare:
            more, left = need - len(before), _count(spare, "block")
            words = f"{case}: it takes {more} more and {left} can be had, so None is right"
            expect(returned is None, f"{words}; it returned {returned}", "over-budget")
            refused = True
            continue
        why = "None is for too few blocks; return the table"
        why = "a request that was refused has kept blocks" if refused else why
        why = "blocks of a request that was freed do not come back" if freed else why
        here = f"{spare} of {_count(blocks, 'block')} {'is' if spare == 1 else 'are'} in nobody's table"
        expect(
            returned is not None,
            f"{case} returned None, though it takes {need - len(before)} more and {here}: {why}",
            "leak" if freed or refused else "refuses",
        )
        _numbers(returned, case, blocks)
        expect(
            returned[: len(before)] == before,
            f"{case} returned {returned}, and the table was {before}: blocks that hold tokens stay where they are",
            "moved",
        )
        words = f"{case} returned {_count(len(returned), 'block')} for {_count(total, 'token')}; it takes {need}"
        expect(len(returned) >= need, f"{words}, or the last has no place", "too-few")
        expect(len(returned) <= need, f"{words}: waste less than one block", "waste")
        for other, table in tables.items():
            both = set(table) & set(returned)
            expect(
                other == request or not both,
                f"{case} gave request {request} block {min(both or [0])}, which request {other} holds",
                "given-twice",
            )
        tables[request], tokens[request] = list(returned), total


def _random_operations(draw: random.Random, blocks: int, size: int, length: int) -> list:
    tokens: dict[int, int] = {}
    operations: list = []
    while len(operations) < length:
        request, count = draw.randrange(6), draw.randrange(1, 3 * size)
        spare = blocks - sum(blocks_for(total, size) for total in tokens.values())
        if request not in tokens:
            operations.append(("allocate", request, count))
            if blocks_for(count, size) <= spare:
                tokens[request] = count
        elif draw.random() < 0.3:
            operations.append(("free", request))
            del tokens[request]
        else:
            many = 1 if draw.random() < 0.7 else count
            operations.append(("append", request) if many == 1 else ("append", request, many))
            if blocks_for(tokens[request] + many, size) - blocks_for(tokens[request], size) <= spare:
                tokens[request] += many
    return operations


def _judge_all(answer: Any, part: Any, judge: Callable, parts: dict[str, list]) -> None:
    """Judge the histories of all parts, which the answer goes through in one process; at the end, in turns."""
    every = [history for histories in parts.values() for history in histories]
    found = alone(operate, answer, every)
    results = iter(found)
    for name, histories in parts.items():
        part(name)
        for history in histories:
            judge(*history, next(results)[0])
    for history, (_, *both) in zip(every, found, strict=True):
        for returned in both:
            try:
                judge(*history, returned)
            except Exception as wrong:  # what was right alone
                words = "Each alone is right, so they share what they keep: make it in __init__, not in the class body"
                expect(False, f"two managers take turns with the same requests: {wrong}. {words}", "shared-by-managers")


@check(tables=2, budget=1, no_leak=2)
def check_BlockManager(answer: Any, part: Any) -> str:  # noqa: N802 - named after the exercise
    tables = [
        (10, 4, [("allocate", 0, 5), ("append", 0), ("append", 0), ("append", 0), ("append", 0)]),
        (10, 4, [("allocate", 0, 4), ("allocate", 1, 1), ("append", 0), ("append", 1, 9)]),
    ]
    budget = [
        (3, 4, [("allocate", 0, 12)]),
        (3, 4, [("allocate", 0, 13), ("allocate", 1, 12), ("append", 1)]),
        (3, 4, [("allocate", 0, 8), ("allocate", 1, 5), ("allocate", 2, 4), ("append", 0, 1)]),
    ]
    histories, draw = [(2, 4, [("allocate", 0, 8), ("free", 0), ("allocate", 1, 8)])], random.Random(SEED + 1)
    for length in range(3, 60):
        blocks, size = draw.randrange(2, 12), draw.randrange(1, 6)
        histories.append((blocks, size, _random_operations(draw, blocks, size, length)))
    _judge_all(answer, part, _judge_blocks, {"tables": tables, "budget": budget, "no leak": histories})
    return "57 random histories: no block given twice, none lost, less than one block a request wasted, None when short"


# Blocks that several share


class Memory:
    """What stands in each block; the judge writes, as the engine would, where the tables say."""

    def __init__(self, size: int) -> None:
        self.size, self.cells = size, {}

    def write(self, table: list[int], place: int, token: tuple) -> None:
        self.cells[table[place // self.size], place % self.size] = token

    def copy(self, old: int, new: int) -> None:
        for place in range(self.size):
            self.cells[new, place] = self.cells.get((old, place))

    def read(self, table: list[int], tokens: int) -> list:
        return [self.cells.get((table[place // self.size], place % self.size)) for place in range(tokens)]


def _judge_sharing(blocks: int, size: int, operations: list, found: list) -> None:
    memory, tables, texts = Memory(size), {}, {}
    clock = 0
    for (name, request, *more), returned, case in _steps(blocks, size, operations, found):
        used = len({block for table in tables.values() for block in table})
        clock += 1
        if name == "free":
            del tables[request], texts[request]
        elif name == "allocate":
            fits = blocks_for(more[0], size) <= blocks - used
            words = f"{case}: {blocks - used} of {_count(blocks, 'block')} are in nobody's table"
            expect((returned is None) != fits, f"{words}; it returned {returned}", "leak" if fits else "over-budget")
            if fits:
                _numbers(returned, case, blocks)
                held = {block: other for other, table in tables.items() for block in table}
                lost = [block for block in returned if block in held]
                expect(
                    not lost,
                    f"{case} gave block {lost[:1]}, which request {held.get((lost or [0])[0])} still holds: a block is "
                    "spare when its last owner has left",
                    "freed-while-shared",
                )
                tables[request], texts[request] = returned, [(request, clock, n) for n in range(more[0])]
                for place, token in enumerate(texts[request]):
                    memory.write(returned, place, token)
        elif name == "fork":
            (child,) = more
            expect(
                returned == tables[request],
                f"{case} returned {returned}; return the child's table, which is as its parent's, {tables[request]}: a "
                "fork takes no block",
                "fork-copies",
            )
            tables[child], texts[child] = list(returned), list(texts[request])
        else:
            table, total = tables[request], len(texts[request]) + 1
            sharers = [r for r, other in tables.items() if r != request and table and table[-1] in other]
            full = blocks_for(total, size) > len(table)
            needs = full or bool(sharers)
            if needs and used == blocks:
                words = f"{case}: no block is left, so None is right; it returned {returned}"
                expect(returned is None, words, "over-budget")
                continue
            expect(returned is not None, f"{case} returned None, though {blocks - used} blocks are spare", "leak")
            fine = isinstance(returned, list) and len(returned) == 2
            words = "return the table, and (old, new) or None for the block to copy"
            expect(fine, f"{case} returned {returned}; {words}", "form")
            table, copied = returned
            _numbers(table, case, blocks)
            before, need = tables[request], blocks_for(total, size)
            for other, longer in tables.items():
                grown = len(longer) > len(before) and longer[: len(before)] == before and longer[-1] in (
                    table[-1], copied[0] if isinstance(copied, list) and copied else None
                )  # fmt: skip
                expect(
                    other == request or not grown,
                    f"{case}: request {request} has block {longer[-1]}, which request {other} took after the fork: "
                    "both append to the same list. Give the child a list of its own",
                    "same-list",
                )
            count = f"{case} returned {_count(len(table), 'block')} for {_count(total, 'token')}; it takes {need}"
            expect(len(table) == need, count, "waste")
            if copied is not None:
                expect(isinstance(copied, list) and len(copied) == 2, f"{case} returned {copied}; {words}", "form")
                expect(needs and not full, f"{case} copies block {copied[0]}, which nobody shares", "needless-copy")
                old, new = before[-1], table[-1]
                turned = f"{case} returned the pair {copied}; (old, new) is [{old}, {new}]"
                expect(copied != [new, old], turned, "pair-reversed")
                memory.copy(*copied)
            memory.write(table, total - 1, (request, clock, "appended"))
            tables[request] = table
            texts[request] = [*texts[request], (request, clock, "appended")]
            for other, kept in tables.items():
                if memory.read(kept, len(texts[other])) != texts[other]:
                    which = f"request {other} now reads a token of request {request}" if other != request else (
                        f"request {request} no longer reads what it wrote"
                    )  # fmt: skip
                    owners = " and ".join(map(str, sorted({*sharers, request})))
                    words = f"Block {table[-1]} is shared by {owners}, and one of them writes into it: copy it first"
                    expect(False, f"{case}: {which}. {words}", "written-while-shared")


@check(fork=1, copy_on_write=2, no_leak=1)
def check_SharingBlockManager(answer: Any, part: Any) -> str:  # noqa: N802 - named after the exercise
    fork = [
        (2, 4, [("allocate", 0, 6), ("fork", 0, 1)]),
        (4, 4, [("allocate", 0, 8), ("fork", 0, 1), ("append", 0), ("append", 1)]),
    ]
    write = [
        (4, 4, [("allocate", 0, 6), ("fork", 0, 1), ("append", 1), ("append", 0), ("append", 1)]),
        (2, 4, [("allocate", 0, 6), ("fork", 0, 1), ("append", 1)]),
    ]
    histories = [
        (3, 4, [("allocate", 0, 6), ("fork", 0, 1), ("free", 0), ("append", 1), ("allocate", 2, 4)]),
        (2, 4, [("allocate", 0, 6), ("fork", 0, 1), ("free", 0), ("free", 1), ("allocate", 2, 8)]),
    ]
    draw = random.Random(SEED + 2)
    histories += [(12, 3, _random_forks(draw, 12, 3, length)) for length in range(5, 40)]
    _judge_all(answer, part, _judge_sharing, {"fork": fork, "copy on write": write, "no leak": histories})
    return "35 random histories: a fork takes no block, writing into a shared one copies it, the last owner frees it"


def _random_forks(draw: random.Random, blocks: int, size: int, length: int) -> list:
    """Return operations that always make sense, whatever an answer does: requests are freed before the pool is full."""
    tokens: dict[int, int] = {}
    operations: list = []
    fresh = 0
    while len(operations) < length:
        worst = sum(blocks_for(total, size) + 1 for total in tokens.values())
        if not tokens or (worst + 4 < blocks and draw.random() < 0.4):
            tokens[fresh] = draw.randrange(1, 3 * size)
            operations.append(("allocate", fresh, tokens[fresh]))
            fresh += 1
            continue
        request = draw.choice(sorted(tokens))
        chance = draw.random()
        if worst + 4 >= blocks and chance < 0.5:
            del tokens[request]
            operations.append(("free", request))
        elif chance < 0.3 and worst + blocks_for(tokens[request], size) + 1 < blocks:
            tokens[fresh] = tokens[request]
            operations.append(("fork", request, fresh))
            fresh += 1
        elif worst < blocks:
            tokens[request] += 1
            operations.append(("append", request))
    return operations


# Who starts when


class Steps:
    """A worker for which a prompt takes 2 ms a token, and a decoding step 10 ms and a little for each request."""

    simulated = True

    def prefill(self, request: Request, table: list[int]) -> tuple[float, bool]:
        return 0.002 * (request.prompt + request.made), False

    def decode(self, running: Any, held: int, tables: Any) -> tuple[float, tuple]:
        return 0.01 + 0.0005 * len(running), ()


def schedules(answer: Any, cases: list) -> list:
    """Beside the answer: serve the requests of each case with it; return whom it started each time it was asked."""
    return [_schedule(answer, *case) for case in cases]


def _schedule(answer: Any, rows: list, slots: int, blocks: int, block_size: int) -> list:
    decisions: list = []

    def asking(waiting: list, running: list, *room: int) -> list:
        known = {id(request): request.id for request in waiting}
        started = answer(waiting, running, *room)
        listed = isinstance(started, (list, tuple))
        decisions.append([known.get(id(request), _kind(request)) for request in started] if listed else None)
        if not listed or len(set(decisions[-1]) & set(known.values())) < len(started):
            raise ValueError("no list of waiting requests")
        return list(started)

    try:
        Engine(Steps(), asking, slots=slots, blocks=blocks, block_size=block_size).run(Request(*row) for row in rows)
    except ValueError:
        if not decisions:
            raise
    return decisions


class Replay:
    """A scheduler that repeats decisions, and judges each before it is carried out."""

    def __init__(self, decisions: list, case: str) -> None:
        self.decisions, self.case, self.order, self.place, self.joined = decisions, case, [], 0, False

    def __call__(self, waiting: list, running: list, slots: int, blocks: int, block_size: int) -> list:
        expect(self.place < len(self.decisions), f"{self.case}: it gave no answer", "form")
        numbers = self.decisions[self.place]
        self.place += 1
        expect(isinstance(numbers, list), f"{self.case}: return a list, those of `waiting` that start now", "form")
        known = {request.id: request for request in waiting}
        strange = [number for number in numbers if number not in known]
        words = f"{self.case}: in what it returns is {(strange or [''])[0]} that is not in `waiting`; return those of "
        expect(not strange, f"{words}`waiting` themselves that start now", "not-waiting")
        twice = [number for number in numbers if numbers.count(number) > 1]
        expect(not twice, f"{self.case}: request {twice[:1]} is started twice", "twice")
        expect(
            len(running) + len(numbers) <= slots,
            f"{self.case}: it starts {len(numbers)} beside {len(running)} that run, and there {_are(slots, 'slot')}",
            "above-slots",
        )
        promised = [blocks_for(r.prompt + r.limit, block_size) for r in (*running, *(known[n] for n in numbers))]
        expect(
            sum(promised) <= blocks,
            f"{self.case}: those that run and start may grow to {sum(promised)} blocks; there {_are(blocks, 'block')}. "
            "Count prompt and limit, of those that run too, each request rounded up to whole blocks",
            "above-budget",
        )
        least = blocks_for(waiting[0].prompt + waiting[0].limit, block_size)
        expect(
            bool(numbers) or bool(running),
            f"{self.case}: nobody runs, request {waiting[0].id} waits, which may need {least} of "
            f"{_count(blocks, 'block')}, and it starts nobody",
            "starts-nobody",
        )
        self.order += numbers
        self.joined = self.joined or bool(numbers and running)
        return [known[number] for number in numbers]


def _served(case: str, rows: list, slots: int, blocks: int, decisions: list, size: int = 16) -> tuple:
    """Return what was served, whom the answer started in order, and whether anyone ever joined a running batch."""
    replay = Replay(decisions, case)
    served = Engine(Steps(), replay, slots=slots, blocks=blocks, block_size=size).run(Request(*row) for row in rows)
    return served, replay.order, replay.joined


def with_a_model(answer: Any, rows: list, slots: int, blocks: int, seed: int) -> dict:
    """Beside the answer: the tokens that a real model makes when the answer says who starts."""
    worker = ModelWorker(tiny_llama(seed=seed), blocks, 16)
    with one_thread():
        Engine(worker, answer, slots=slots, blocks=blocks, context=512).run(Request(*row) for row in rows)
    return worker.answers


def _load(draw: random.Random, requests: int, rate: float) -> list:
    """Return rows for Request whose limits lie above what is made, as users set them."""
    clock, rows = 0.0, []
    for number in range(requests):
        clock += draw.expovariate(rate)
        output = int(draw.lognormvariate(2.6, 0.9)) + 1
        rows.append((number, clock, draw.randrange(2, 30), output, output + draw.randrange(40)))
    return rows


@check(budget=1, no_starvation=1, throughput=2, tokens=1)
def check_continuous_batches(answer: Any, part: Any) -> str:
    draw = random.Random(SEED + 3)
    rows = _load(draw, 120, 60.0)
    budget: Callable = _engine(rows, 8, 40)
    best, static = budget(continuous), budget(static_batches)
    prompts = [[draw.randrange(256) for _ in range(draw.randrange(3, 20))] for _ in range(5)]
    wanted = {number: _greedy(prompt, 2 + 2 * number) for number, prompt in enumerate(prompts)}

    stream = [(n, 0.01 * n, 4, 4) for n in range(200)]
    stream.insert(10, (1000, 0.1 - 1e-6, 150, 10))
    cases = [
        ("one slot, room enough", [(n, 0.0, 8, 4) for n in range(4)], 1, 100),
        ("8 slots, 5 blocks of 16 tokens", [(n, 0.0, 10 + n, 3, 20) for n in range(6)], 8, 5),
        ("8 slots, 40 blocks, 120 requests", rows, 8, 40),
        ("a prompt of 150 tokens in a stream of short ones", stream, 4, 10),
    ]
    made = alone(schedules, answer, [(*case[1:], 16) for case in cases])

    part("budget")
    *_, (served, _, joined) = [_served(*case, made[place]) for place, case in enumerate(cases[:3])]

    part("no starvation")
    _, order, _ = _served(*cases[3], made[3])
    place = order.index(1000) if 1000 in order else len(order)
    passed = sum(number >= 10 for number in order[:place])
    expect(
        passed <= 16,
        f"a prompt of 150 tokens waits while {passed} requests that came later overtake it: it needs all 10 blocks, "
        "and they are never free at once. Stop at the first in line that does not fit",
        "starves",
    )

    part("throughput")
    fast = served.throughput
    words = f"120 requests, 8 slots, 40 blocks: {fast:,.0f} tokens/s"
    expect(
        joined,
        f"{words}; the static scheduler reaches {static.throughput:,.0f}, and {best.throughput:,.0f} are possible: "
        "start a request as soon as a slot is free, not when all are",
        "waits-for-the-batch",
    )
    expect(
        fast >= 0.9 * best.throughput,
        f"{words}; {best.throughput:,.0f} are possible: slots stand empty though the first in line fits",
        "idle-slots",
    )
    slow, good = served.percentile("latency", 99), best.percentile("latency", 99)
    expect(slow <= 1.5 * good, f"{words}, but p99 of the latency is {slow:.1f} s; {good:.1f} s are possible", "latency")

    part("tokens")
    rows = [(n, 0.0, len(prompt), 2 + 2 * n, -1, float("inf"), prompt) for n, prompt in enumerate(prompts)]
    made = alone(with_a_model, answer, rows, 2, 8, SEED)
    for number, want in wanted.items():
        expect(equal(made.get(number), want), f"request {number} got other tokens than alone", "tokens")
    gain = f"{served.throughput / static.throughput:.2f} times the static scheduler's throughput"
    return f"{gain} · p99 {slow:.1f} s against {static.percentile('latency', 99):.1f} s · within slots and blocks"


def _engine(rows: list, slots: int, blocks: int) -> Callable:
    return lambda scheduler: Engine(Steps(), scheduler, slots=slots, blocks=blocks).run(Request(*row) for row in rows)


# Size or timer


@check(size=1, timer=1, any_arrivals=1)
def check_adaptive_batches(answer: Any, part: Any) -> str:
    draw = random.Random(SEED + 4)
    several = []
    for _ in range(6):
        clock, arrivals = 0.0, []
        for _ in range(40):
            clock += draw.expovariate(1.0)
            arrivals.append(clock)
        several.append((arrivals, draw.randrange(1, 6), draw.choice([0.01, 0.5, 2.0])))
    part("size")
    _batches(answer, [([0.0, 0.1, 0.2, 0.3], 2, 10.0), ([0.0] * 6, 3, 1.0)])
    part("timer")
    _batches(answer, [([0.0, 0.4, 0.8, 1.2, 5.0], 100, 1.0), ([3.0], 4, 0.25), ([0.0, 0.5, 1.0, 1.25], 4, 1.0)])
    part("any arrivals")
    _batches(answer, [([], 4, 1.0), *several])
    return "a batch starts when it is full, or when its first request has waited long enough"


def _batches(answer: Any, cases: list) -> None:
    found = alone(each, answer, [(list(arrivals), size, wait) for arrivals, size, wait in cases])
    for case, got in zip(cases, found, strict=True):
        _judge_batches(*case, got)


def _judge_batches(arrivals: list[float], size: int, wait: float, got: Any) -> None:
    want: list[tuple[float, list[int]]] = []
    for number, arrival in enumerate(arrivals):
        if not want or len(want[-1][1]) == size or arrival > want[-1][0]:
            want.append((arrival + wait, []))
        want[-1][1].append(number)
        if len(want[-1][1]) == size:
            want[-1] = (arrival, want[-1][1])
    shown = [round(arrival, 2) for arrival in arrivals[:6]]
    case = f"arrivals {shown}{' ...' if len(arrivals) > 6 else ''}, max_size {size}, max_wait {wait:g}"
    fine = isinstance(got, list) and all(isinstance(b, (tuple, list)) and len(b) == 2 for b in got)
    expect(fine, f"{case}: return a list of (start, [numbers of requests]), not {str(got)[:60]}", "form")
    members = [list(batch) for _, batch in got]
    everyone = [number for batch in members for number in batch]
    lost = sorted(set(range(len(arrivals))) - set(everyone))
    expect(not lost, f"{case}: request {lost[:1]} is in no batch; nobody may be lost, the last ones neither", "lost")
    expect(everyone == list(range(len(arrivals))), f"{case}: {members[:4]}: each request once, in order", "order")
    big = [batch for batch in members if len(batch) > size]
    expect(not big, f"{case}: a batch of {len((big or [[]])[0])}; at most {size} go into one", "too-big")
    for place, ((start, batch), (begins, right)) in enumerate(zip(got, want, strict=False)):
        first = f"{case}: batch {place}"
        expect(
            len(batch) <= len(right),
            f"{first} has requests {list(batch)[:6]}; the timer runs from its first request, so it closes at "
            f"{begins:.4g} s with {right[:6]}",
            "timer-restarts",
        )
        expect(
            list(batch) == right,
            f"{first} has requests {list(batch)[:6]}; {right[:6]} come by {begins:.4g} s, or just then, and find room",
            "too-small",
        )
        expect(
            isinstance(start, (int, float)) and (start <= begins + 1e-9 or len(right) < size),
            f"{first} is full at {begins:.4g} s and starts at {start}: do not wait for the timer",
            "full-waits",
        )
        expect(
            close(start, begins, absolute=1e-9),
            f"{first} starts at {start}; its first request came at {arrivals[right[0]]:.4g} s, so it starts at "
            f"{begins:.4g} s",
            "start",
        )
