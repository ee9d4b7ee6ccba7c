"""Checks of chapter 8: what a cache costs, who owns which block, and which request starts when."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from course_lib.hardware import GPUS
from course_lib.llama import tiny_llama
from course_lib.models import MODELS, ModelShape, parameter_count
from course_lib.serving import Engine, Request, blocks_for, continuous, static_batches
from course_lib.serving.chunked import fill_row
from course_lib.serving.workers import ModelWorker
from exercises_tests.judging import Case, Mistake, alone, called, check
from exercises_tests.seeds import course_seed, drawn
from exercises_tests.values import amount, close, count, equal, is_number, plain, shown

# Keys and values in bytes


@check(value=1, grouped_queries=1)
def check_kv_cache_bytes(answer: Any, part: Any) -> str:
    odd = ModelShape("a model of 3 layers", 96, 128, 3, 6, 6, 100)
    part("value")
    _kv_bytes(answer, [(MODELS["Llama-2-7B"], 1), (odd, 7), (MODELS["OPT-13B"], 2048)])
    part("grouped queries")
    cases = [(MODELS["Llama-3-8B"], 1), (MODELS["Llama-3-70B"], 8192), (MODELS["SmolLM2-135M"], 100)]
    own = drawn("kv_cache_bytes")
    _kv_bytes(answer, [*cases, (MODELS["Llama-3-8B"], own.randint(200, 9000))])
    return "131,072 bytes a token for Llama-3-8B · KV heads counted, not query heads · keys and values"


def _kv_bytes(answer: Any, cases: list[tuple[ModelShape, int]]) -> None:
    for (shape, tokens), got in zip(cases, alone(called, answer, cases), strict=True):
        see = f'kv_cache_bytes(MODELS["{shape.name}"], {tokens})' if shape.name in MODELS else ""
        case = Case(label=f"{shape.name}, {count(tokens, 'token')}:", see=see)
        got = plain(got)
        case.expect(is_number(got), f"it returns {_kind(got)}; return a number of bytes", "form")
        want, queries = 4.0 * shape.layers * shape.kv_heads * shape.head_size * tokens, shape.heads / shape.kv_heads
        every = "as much as if each query head had a key and a value; KV heads have, each hidden // heads numbers long"
        both = "a key and a value are kept for each token, and a number has 2 bytes: one of these twos is missing"
        mistakes = (
            Mistake("all-heads", want * queries, every),
            Mistake("half", want / 2, both),
            Mistake("fp32", want * 2, "bf16 has 2 bytes"),
            Mistake("elements", want / 4, "these are neither both keys and values nor bytes"),
            Mistake("one-layer", want / shape.layers, "every layer has its own keys and values"),
            Mistake("head-size", want / shape.head_size, "a key is head_size numbers long"),
            Mistake("whole-head", want * shape.heads, "one head is hidden // heads numbers long, all together hidden"),
            Mistake("all-heads", want * queries / 2, "all query heads are counted, and not both keys and values"),
            Mistake("value", True, "what does one token keep in one layer?"),
        )
        case.same(got, want, f"{amount(got)} bytes; it is {want:,.0f}:", *mistakes, tolerance=1e-9)


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
        self._model, self.calls, self.fed = model, [], []

    def __call__(self, tokens: torch.Tensor, cache: Any = None, last: bool = False) -> torch.Tensor:
        self.calls.append(tuple(tokens.shape))
        self.fed.append(tokens.flatten().tolist())
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
            found.append((made, model.calls, given, model.fed))
    return found


@check(tokens=2, cost=2)
def check_generate_with_cache(answer: Any, part: Any) -> str:
    draw = random.Random(course_seed())
    sizes = ((5, 6), (1, 1), (20, 9), (3, 0))
    cases = [([draw.randrange(256) for _ in range(prompt)], tokens) for prompt, tokens in sizes]
    wanted = [_greedy(prompt, tokens) for prompt, tokens in cases]
    found = alone(generate, answer, cases, course_seed())
    see = "generate_with_cache(model, prompt, 5), generate(model, prompt, 5)"
    on = [Case(label=f"{count(tokens, 'token')} after a prompt of {prompt}:", see=see) for prompt, tokens in sizes]
    reads = [sum(shape[-1] for shape in calls) for _, calls, *_ in found]
    part("tokens")
    for case, (prompt, tokens), want, (got, calls, given, every), read in zip(
        on, cases, wanted, found, reads, strict=True
    ):
        case.expect(isinstance(got, list), f"it returns {_kind(got)}; return a list of token numbers", "form")
        got = [plain(token) if isinstance(token, np.generic) else token for token in got]
        for token in got:
            words = f"it returns a list with {_kind(token)} in it; .item() makes a number of a tensor"
            case.expect(type(token) is int, words, "form")
        case.expect(got != prompt + want, "the prompt is returned too", "prompt-too")
        case.expect(len(got) == len(want), f"it returns {len(got)}", "count")
        if got != want:
            first = next(place for place in range(tokens) if got[place] != want[place])
            fed = f"token {first} is another one than without a cache, and the model was given {{seen}} tokens"
            once = "the cache holds what was read, so feed only the newest token"
            case.at_most(read, len(prompt) + tokens, f"{fed}: {once}", "fed-twice")
            why = ""
            if every[1:2] == [prompt[-1:]] and len(calls) > tokens and every[0] == prompt:
                why = f": the prompt's last token, {prompt[-1]}, is fed twice. Its scores came with the whole prompt"
            elif first == 0 and prompt == cases[0][0]:
                why = ": take the largest of the scores after the prompt's last token, logits[0, -1], and draw none"
            elif first == 0:
                why = ": the cases before came out right; does every answer begin with an empty cache?"
            elif all(shape[-1] == 1 for shape in calls[1:]):
                why = ": only the newest token is fed, so all calls need one cache, which holds those before it"
            case.refuse(f"token {first} is {got[first]}; without a cache it is {want[first]}{why}", "tokens")
        grown = f"your function has changed `prompt`, which now has {len(given)}: leave the caller's list alone"
        case.expect(equal(given, prompt), grown, "changes-prompt")
    part("cost")
    for case, (prompt, tokens), (_, calls, *_), read in zip(on, cases, found, reads, strict=True):
        if calls[:1] == [(1, len(prompt))] and len(calls) == tokens + 1 and tokens:
            words = f"{{seen}} calls of the model; {tokens} are enough: nobody needs scores after the last new token"
            case.at_most(len(calls), tokens, words, "feeds-the-last")
        least = len(prompt) + max(tokens - 1, 0)
        enough = f"{least} are enough, each once. You recompute what the cache holds"
        case.at_most(read, least + 1, f"the model was given {{seen}} tokens in all; {enough}", "recomputes")
        enough = f"{max(tokens, 1)} are enough: read the whole prompt in one call"
        case.at_most(len(calls), tokens + 1, f"{{seen}} calls of the model; {enough}", "prompt-in-pieces")
    return "the same tokens as without a cache · every token is read once · one call for the prompt"


def _greedy(prompt: list[int], tokens: int) -> list[int]:
    model, known = tiny_llama(seed=course_seed()), list(prompt)
    with one_thread():
        for _ in range(tokens):
            known.append(model(torch.tensor([known]), last=True)[0, -1].argmax().item())
    return known[len(prompt) :]


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
    own = drawn("decode_lower_bound")
    drawn_for = MODELS["Llama-3-8B"], h100, own.randint(2, 60), own.randint(200, 9000)
    _bounds(answer, [(MODELS["Llama-3-8B"], h100, 64, 4096), (MODELS["Granite-3.0-2B"], a100, 16, 1000), drawn_for])
    return "4.48 ms for Llama-3-8B on an H100 · weights once a batch · keys and values once a sequence"


def _bounds(answer: Any, cases: list) -> None:
    for (shape, gpu, batch, context), got in zip(cases, alone(called, answer, cases), strict=True):
        table, shared = 2 * shape.vocabulary * shape.hidden, shape.heads / shape.kv_heads
        every, kept = 2 * parameter_count(shape), 4 * shape.layers * shape.kv_heads * shape.head_size * context
        weights = every - (0 if shape.tied else table)
        read = weights + batch * kept
        want = read / gpu.memory_bandwidth
        see = f'decode_lower_bound(MODELS["{shape.name}"], GPUS["{gpu.name}"], {batch}, {context})'
        case = Case(label=f"{shape.name} on {gpu.name}, batch {batch}, context {context:,}:", see=see)
        got = plain(got)
        case.expect(is_number(got), f"it returns {_kind(got)}; return seconds", "form")
        moved = {
            "with-lookup": (every + batch * kept, "of the input embedding one row a token is read: leave it out"),
            "without-tied-head": (every - table + batch * kept, "a tied embedding is read whole, as the head"),
            "weights-per-sequence": (batch * (weights + kept), "one reading of the weights serves the whole batch"),
            "no-cache": (weights, "the keys and values of the context are read too"),
            "cache-once": (weights + kept, "every sequence of the batch reads its own keys and values"),
            "parameters": (weights / 2 + batch * kept, "bf16 weights have 2 bytes each"),
            "per-token": (read / batch, "the step makes a token for every sequence; do not divide"),
            "all-heads": (weights + batch * kept * shared, "kv_cache_bytes counts all query heads"),
            "half": (weights + batch * kept / 2, "keys and values are both read: mend kv_cache_bytes first"),
            "milliseconds": (1e3 * read, "return seconds; these are milliseconds"),
        }
        flops = weights * batch / gpu.peak("bf16") / want
        case.same(  # as a share of what is right: other bytes that are read besides, a thousandth of all, are right too
            got / want,
            1.0,
            f"{1e3 * got:,.4g} ms; the least is {1e3 * want:,.4g} ms:",
            *[Mistake(code, wrong / read, says) for code, (wrong, says) in moved.items()],
            Mistake("flops", flops, "that is FLOPs over peak; decoding waits for memory"),
            Mistake("value", True, "divide the bytes that one step reads by the bandwidth"),
            tolerance=1e-3,
        )


# Blocks


def operate(answer: Any, histories: list) -> list:
    """Beside the answer: for each history, what each operation returned to a new manager and to two that take turns."""
    return [(*_operate(answer, 1, *history), *_operate(answer, 2, *history)) for history in histories]


def _operate(answer: Any, managers: int, blocks: int, size: int, operations: list) -> list:
    """Return for each manager what each operation returned, as plain data; ends with a dict at the first exception."""
    found: list = [[] for _ in range(managers)]
    at = 0
    try:
        made = [answer(blocks, size) for _ in range(managers)]
        for name, *words in operations:
            for at, manager in enumerate(made):
                found[at].append(_plain(getattr(manager, name)(*words)))
    except Exception as error:
        found[at].append({"error": type(error).__name__, "message": str(error)})
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    value = plain(value)
    return value if value is None or type(value) is int else _kind(value)


def _script(operations: list, most: int = 9) -> str:
    shown = [f"{name}({', '.join(map(str, words))})" for name, *words in operations]
    return ("..., " if len(shown) > most else "") + ", ".join(shown[-most:])


def _steps(blocks: int, size: int, operations: list, found: list) -> Iterator[tuple]:
    """Yield (operation, what it returned, the case), and refuse what is unwritten or raises."""
    for place, (operation, returned) in enumerate(zip(operations, found, strict=False)):
        case = Case(label=f"{blocks} blocks of {size} tokens: {_script(operations[: place + 1])}")
        if isinstance(returned, dict):
            if returned["error"] == "NotImplementedError":
                Case().refuse("not written yet", "not-written")
            case.refuse(f"raised {returned['error']}: {returned['message']}", "raised")
        yield operation, returned, case


def _judge_table(returned: Any, case: Case, blocks: int) -> None:
    fine = isinstance(returned, list) and all(type(block) is int for block in returned)
    form = "return the request's table, a list of block numbers, or None"
    case.expect(fine, f"returned {returned}; {form}", "form")
    for block in returned:
        words = f"gave block {block}; blocks are numbered from 0 to {blocks - 1}"
        case.expect(0 <= block < blocks, words, "no-such-block")
    case.expect(len(set(returned)) == len(returned), f"gave a block twice: {returned}", "given-twice")


def _judge_blocks(blocks: int, size: int, operations: list, found: list) -> None:
    tables: dict[int, list[int]] = {}
    tokens: dict[int, int] = {}
    freed, refused = False, ""
    for (name, request, *more), returned, case in _steps(blocks, size, operations, found):
        if name == "free":
            freed, _, _ = True, tables.pop(request), tokens.pop(request)
            continue
        total, before = tokens.get(request, 0) + (more[0] if more else 1), tables.get(request, [])
        need, spare = blocks_for(total, size), blocks - sum(map(len, tables.values()))
        takes = need - len(before)
        if takes > spare:
            words = f"returned {returned}; it takes {takes} more and {count(spare, 'block')} can be had: None is right"
            case.expect(returned is None, words, "over-budget")
            refused = _script([(name, request, *more)])
            continue
        why = "None is for too few blocks; return the table"
        if refused:
            nothing = "a refusal changes nothing, neither blocks nor the count of tokens"
            why = f"{refused} was refused, and {nothing}"
        why = "blocks of a request that was freed do not come back" if freed and not (refused and takes == 0) else why
        held = f"only the {takes} more that it takes must be spare, for it holds {len(before)} already"
        code = "leak" if freed or refused else "refuses"
        counts_all = before and spare < need and not (freed or refused)
        why, code = (held, "counts-held") if counts_all else (why, code)
        nobody = f"{spare} of {count(blocks, 'block')} {'is' if spare == 1 else 'are'} in nobody's table"
        case.expect(
            returned is not None,
            f"returned None, though it takes {takes} more and {nobody}: {why}",
            code,
        )
        _judge_table(returned, case, blocks)
        moved = f"returned {returned}, and the table was {before}: blocks that hold tokens stay where they are"
        case.expect(returned[: len(before)] == before, moved, "moved")
        words = f"returned {count(len(returned), 'block')} for {count(total, 'token')}; it takes {need}"
        case.expect(len(returned) >= need, f"{words}, or the last has no place", "too-few")
        case.expect(len(returned) <= need, f"{words}: waste less than one block", "waste")
        for block in returned:
            owner = next((other for other, table in tables.items() if other != request and block in table), None)
            words = f"gave request {request} block {block}, which request {owner} holds"
            case.expect(owner is None, words, "given-twice")
        tables[request], tokens[request] = list(returned), total


def _random_operations(draw: random.Random, blocks: int, size: int, length: int) -> list:
    tokens: dict[int, int] = {}
    operations: list = []
    while len(operations) < length:
        request, number = draw.randrange(6), draw.randrange(1, 3 * size)
        spare = blocks - sum(blocks_for(total, size) for total in tokens.values())
        if request not in tokens:
            operations.append(("allocate", request, number))
            if blocks_for(number, size) <= spare:
                tokens[request] = number
        elif draw.random() < 0.3:
            operations.append(("free", request))
            del tokens[request]
        else:
            many = 1 if draw.random() < 0.7 else number
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
                turns = Case(label="two managers take turns with the same requests:")
                turns.refuse(f"{wrong}. {words}", "shared-by-managers")


@check(tables=2, budget=1, no_leak=2)
def check_BlockManager(answer: Any, part: Any) -> str:  # noqa: N802 - named after the exercise
    tables = [
        (10, 4, [("allocate", 0, 5), ("append", 0), ("append", 0), ("append", 0), ("append", 0)]),
        (10, 4, [("allocate", 0, 4), ("allocate", 1, 1), ("append", 0), ("append", 1, 9)]),
    ]
    budget = [
        (3, 4, [("allocate", 0, 9), ("append", 0)]),
        (3, 4, [("allocate", 0, 12)]),
        (3, 4, [("allocate", 0, 13), ("allocate", 1, 12), ("append", 1)]),
        (3, 4, [("allocate", 0, 8), ("allocate", 1, 5), ("allocate", 2, 4), ("append", 0, 1)]),
        (3, 4, [("allocate", 0, 4), ("append", 0, 12), ("allocate", 1, 8)]),
    ]
    draw = random.Random(course_seed() + 1)
    histories = [
        (2, 4, [("allocate", 0, 8), ("free", 0), ("allocate", 1, 8)]),
        (3, 4, [("allocate", 0, 13), ("allocate", 0, 5), ("free", 0), ("allocate", 1, 12)]),
        (2, 4, [("allocate", 0, 4), ("allocate", 1, 4), ("append", 0), ("free", 1), ("append", 0), ("append", 0, 3)]),
    ]
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
    memory, tables, texts, refused = Memory(size), {}, {}, False
    for clock, ((name, request, *more), returned, case) in enumerate(_steps(blocks, size, operations, found)):
        used = len({block for table in tables.values() for block in table})
        if name == "free":
            del tables[request], texts[request]
        elif name == "allocate":
            fits = blocks_for(more[0], size) <= blocks - used
            words = f"returned {returned}; {blocks - used} of {count(blocks, 'block')} are in nobody's table"
            words += ". A refusal changes nothing" if refused else ""
            case.expect((returned is not None) == fits, words, "leak" if fits else "over-budget")
            if not fits:
                continue
            _judge_table(returned, case, blocks)
            for block in returned:
                owner = next((other for other, table in tables.items() if block in table), None)
                words = f"gave block {block}, which request {owner} still holds"
                spare = "a block is spare when its last owner has left"
                case.expect(owner is None, f"{words}: {spare}", "freed-while-shared")
            tables[request], texts[request] = returned, [(request, clock, n) for n in range(more[0])]
            for place, token in enumerate(texts[request]):
                memory.write(returned, place, token)
        elif name == "fork":
            right = f"return the child's table, which is as its parent's, {tables[request]}: a fork takes no block"
            case.expect(returned == tables[request], f"returned {returned}; {right}", "fork-copies")
            tables[more[0]], texts[more[0]] = list(returned), list(texts[request])
        else:
            before, total = tables[request], len(texts[request]) + 1
            need = blocks_for(total, size)
            full = need > len(before)
            sharers = [other for other, table in tables.items() if other != request and before[-1] in table]
            if (full or sharers) and used == blocks:
                words = f"returned {returned}; no block is left, so None is right"
                case.expect(returned is None, words, "over-budget")
                refused = True
                continue
            room = "it takes none: the last one has room, and nobody shares it"
            room = f"{blocks - used} of {count(blocks, 'block')} are spare" if full or sharers else room
            room += ". A refusal changes nothing, the count of tokens neither" if refused else ""
            code = "leak" if full or sharers else "refuses"
            case.expect(returned is not None, f"returned None, though {room}", code)
            form = f"returned {returned}; return the table, and (old, new) or None for the block to copy"
            case.expect(isinstance(returned, list) and len(returned) == 2, form, "form")
            table, copied = returned
            case.expect(copied is None or isinstance(copied, list) and len(copied) == 2, form, "form")
            _judge_table(table, case, blocks)
            for other, longer in tables.items():
                grown = len(longer) > len(before) and longer[: len(before)] == before
                case.expect(
                    other == request or not grown or longer[-1] not in (table[-1], (copied or [None])[0]),
                    f"gave request {request} block {longer[-1]}, which request {other} took after the fork: both "
                    "append to the same list. Give the child a list of its own",
                    "same-list",
                )
            words = f"returned {count(len(table), 'block')} for {count(total, 'token')}; it takes {need}"
            words += ". A refusal changes nothing, the count of tokens neither" if refused else ""
            case.expect(len(table) == need, words, "waste")
            if copied is not None:
                why = f"block {copied[0]}, which is full: the token goes into a new block, and nothing is copied"
                why = why if full else f"block {copied[0]}, which nobody shares"
                case.expect(bool(sharers) and not full, f"copies {why}", "needless-copy")
                old, new = before[-1], table[-1]
                turned = f"returned the pair {copied}; (old, new) is [{old}, {new}]"
                case.expect(copied != [new, old], turned, "pair-reversed")
                memory.copy(*copied)
            token = (request, clock, "appended")
            memory.write(table, total - 1, token)
            tables[request], texts[request] = table, [*texts[request], token]
            owners = " and ".join(map(str, sorted({*sharers, request})))
            for other, kept in tables.items():
                which = f"request {other} now reads a token of request {request}"
                which = which if other != request else f"request {request} no longer reads what it wrote"
                case.expect(
                    memory.read(kept, len(texts[other])) == texts[other],
                    f"overwrites a token: {which}. Block {table[-1]} is shared by {owners}, and one of them writes "
                    "into it: copy it first",
                    "written-while-shared",
                )


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
        (2, 4, [("allocate", 0, 6), ("append", 0), ("append", 0), ("append", 0)]),
        (2, 4, [("allocate", 0, 6), ("fork", 0, 1), ("append", 1), ("free", 0), ("append", 1), ("append", 1)]),
    ]
    draw = random.Random(course_seed() + 2)
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


def _schedule(answer: Any, rows: list, slots: int, blocks: int) -> list:
    decisions: list = []

    def asking(waiting: list, running: list, *room: int) -> list:
        known = {id(request): request.id for request in waiting}
        before = [(request, _fields(request)) for request in (*waiting, *running)]
        started = answer(waiting, running, *room)
        if changed := next((_changed(request, was) for request, was in before if _fields(request) != was), ""):
            decisions.append(changed)
            raise ValueError(changed)
        listed = isinstance(started, (list, tuple))
        decisions.append([known.get(id(request), _kind(request)) for request in started] if listed else None)
        if not listed or len(set(decisions[-1]) & set(known.values())) < len(started):
            raise ValueError("no list of waiting requests")
        return list(started)

    try:
        _serve(asking, rows, slots, blocks)
    except ValueError:
        if not decisions:
            raise
    return decisions


def _fields(request: Request) -> dict:
    return {field.name: getattr(request, field.name) for field in fields(request)}


def _changed(request: Request, was: dict) -> str:
    """Return in words what of a request is no longer as it was."""
    name = next(name for name, value in _fields(request).items() if was[name] is not value and was[name] != value)
    return f"{name} of request {was['id']} was {was[name]!r} and is {getattr(request, name)!r}"


BUDGETS = {  # what is added up for a request, and whether those that run count, by what to say of it
    "Count prompt and limit, not prompts alone": (lambda r, size: blocks_for(r.prompt, size), True),
    "Count prompt and limit, not limits alone": (lambda r, size: blocks_for(r.limit, size), True),
    "Count the limit: what a request will really make nobody knows yet":
        (lambda r, size: blocks_for(r.prompt + r.output, size), True),
    "Those that run count, too": (lambda r, size: blocks_for(r.prompt + r.limit, size), False),
    "Each request takes whole blocks: round up": (lambda r, size: (r.prompt + r.limit) // size, True),
    "Round each request up to whole blocks, not the sum of all": (lambda r, size: (r.prompt + r.limit) / size, True),
}  # fmt: skip


def _started(says: str, waiting: list, running: list, slots: int, blocks: int, size: int) -> int:
    """Return how many a scheduler with this mistake starts."""
    need, too = BUDGETS[says]
    room, starts = blocks - sum(need(request, size) for request in running if too), 0
    for request in waiting[: slots - len(running)]:
        room -= need(request, size)
        if room < 0:
            break
        starts += 1
    return starts


class Replay:
    """A scheduler that repeats decisions, and judges each before it is carried out."""

    def __init__(self, decisions: list, case: Case) -> None:
        self.decisions, self.case, self.order, self.joined = iter(decisions), case, [], False
        self.mistakes = list(BUDGETS)  # those that would have decided as it did, until now
        self.overtaken: tuple[int, int] | None = None  # who starts before whom, though later

    def __call__(self, waiting: list, running: list, slots: int, blocks: int, block_size: int) -> list:
        numbers = next(self.decisions, None)
        changed = f"it changes a request: {numbers}. You may change the lists, but the requests are the engine's"
        self.case.expect(not isinstance(numbers, str), changed, "changes-requests")
        form = "return a list, those of `waiting` that start now"
        self.case.expect(isinstance(numbers, list), form, "form")
        known = {request.id: request for request in waiting}
        for number in numbers:
            words = f"in what it returns is {number} that is not in `waiting`; return those of `waiting` themselves"
            self.case.expect(number in known, f"{words} that start now", "not-waiting")
            self.case.expect(numbers.count(number) == 1, f"request {number} is started twice", "twice")
        there = f"there {'is' if slots == 1 else 'are'} {count(slots, 'slot')}"
        words = f"it starts {len(numbers)} beside {len(running)} that run, and {there}"
        self.case.at_most(len(running) + len(numbers), slots, words, "above-slots")
        now = waiting, running, slots, blocks, block_size
        self.mistakes = [says for says in self.mistakes if _started(says, *now) == len(numbers)]
        promised = [blocks_for(r.prompt + r.limit, block_size) for r in (*running, *(known[n] for n in numbers))]
        self.case.at_most(
            sum(promised),
            blocks,
            "those that run and start may grow to {seen} blocks; there are {bound}. "
            + (self.mistakes or ["Count prompt and limit, of all that run and start, each rounded up to blocks"])[0],
            "above-budget",
        )
        least = blocks_for(waiting[0].prompt + waiting[0].limit, block_size)
        waits = f"request {waiting[0].id} waits, which may need {least} of {count(blocks, 'block')}"
        self.case.expect(bool(numbers or running), f"nobody runs, {waits}, and it starts nobody", "starts-nobody")
        first = [request.id for request in waiting][: len(numbers)]
        if numbers != first and self.overtaken is None:
            self.overtaken = next(pair for pair in zip(numbers, first, strict=True) if pair[0] != pair[1])
        self.order += numbers
        self.joined = self.joined or bool(numbers and running)
        return [known[number] for number in numbers]


def _serve(scheduler: Callable, rows: list, slots: int, blocks: int) -> Any:
    return Engine(Steps(), scheduler, slots=slots, blocks=blocks).run(Request(*row) for row in rows)


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
    draw = random.Random(course_seed() + 3)
    rows = _load(draw, 120, 60.0)
    best, static = (_serve(scheduler, rows, 8, 40) for scheduler in (continuous, static_batches))
    prompts = [[draw.randrange(256) for _ in range(draw.randrange(3, 20))] for _ in range(5)]
    wanted = {number: _greedy(prompt, 2 + 2 * number) for number, prompt in enumerate(prompts)}

    stream = [(n, 0.01 * n, 4, 4) for n in range(200)]
    stream.insert(10, (1000, 0.1 - 1e-6, 150, 10))
    cases = {
        "one slot, room enough:": ([(n, 0.0, 8, 4) for n in range(4)], 1, 100),
        # 4 fit; each of BUDGETS, which leaves out something else, begins with another number: 5, 6, 7, 8 or 9
        "16 slots, 8 blocks of 16 tokens:": ([(n, 0.0, 6 + 2 * n, 5, 9) for n in range(10)], 16, 8),
        "120 requests, 8 slots, 40 blocks:": (rows, 8, 40),
        "a prompt of 150 tokens in a stream of short ones:": (stream, 4, 10),
    }
    made = alone(schedules, answer, list(cases.values()))
    replays = [Replay(decisions, Case(label=label)) for label, decisions in zip(cases, made, strict=True)]

    part("budget")
    *_, served = [_serve(replay, *case) for replay, case in list(zip(replays, cases.values(), strict=True))[:3]]

    part("no starvation")
    _serve(replays[3], stream, 4, 10)
    order = replays[3].order
    place = order.index(1000) if 1000 in order else len(order)
    Case(label="a prompt of 150 tokens").at_most(
        sum(number >= 10 for number in order[:place]),
        16,
        "waits while {seen} requests that came later overtake it: it needs all 10 blocks, and they are never free at "
        "once. Stop at the first in the queue that does not fit",
        "starves",
    )
    for replay in replays:
        late, early = replay.overtaken or (None, None)
        replay.case.expect(
            replay.overtaken is None,
            f"request {late} starts before request {early}, which came first: return the first of `waiting`, in order",
            "overtakes",
        )

    part("throughput")
    case, fast = replays[2].case, f"{served.throughput:,.0f} tokens/s"
    late = "start a request as soon as a slot is free, not when all are"
    possible = f"{best.throughput:,.0f} are possible"
    reaches = f"the static scheduler reaches {static.throughput:,.0f}, and {possible}"
    case.expect(replays[2].joined, f"{fast}; {reaches}: {late}", "waits-for-the-batch")
    empty = f"{fast}; {possible}: slots stand empty though the first in the queue fits"
    case.expect(served.throughput >= 0.9 * best.throughput, empty, "idle-slots")
    slow, good, wait = (one.percentile("latency", 99) for one in (served, best, static))
    said = f"{fast}, but p99 of the latency is {slow:.1f} s; {good:.1f} s are possible"
    case.at_most(slow, 1.5 * good, said, "latency")

    part("tokens")
    rows = [(n, 0.0, len(prompt), 2 + 2 * n, -1, float("inf"), prompt) for n, prompt in enumerate(prompts)]
    made = alone(with_a_model, answer, rows, 2, 8, course_seed())
    for number, want in wanted.items():
        Case(label=f"request {number}").expect(equal(made.get(number), want), "got other tokens than alone", "tokens")
    gain = f"99 % of the answers within {slow:.1f} s, with static batches within {wait:.1f} s"
    return f"slots are refilled at once · {gain} · within slots and blocks"


# What goes into a row


@check(answers=1, pieces=2, first_come=1)
def check_fill_row(answer: Any, part: Any) -> str:
    part("answers")
    _rows(answer, [([(5, 5, 2), (9, 9, 1)], 8), ([(3, 0, 0), (4, 4, 1)], 8), ([(9, 0, 0), (4, 4, 1), (2, 2, 3)], 8)])
    part("pieces")
    _rows(answer, [([(9, 6, 0), (4, 4, 1)], 8), ([(3, 3, 1), (4, 4, 1), (9, 0, 0)], 8), ([(3, 1, 0), (9, 0, 0)], 8)])
    part("first come")
    draw, cases = drawn("fill_row"), []
    for _ in range(30):
        prompts = [draw.randint(1, 12) for _ in range(draw.randint(1, 6))]
        read = [draw.choice((prompt, draw.randrange(prompt))) for prompt in prompts]
        running = [(p, r, draw.randint(1, 5) if r == p else 0) for p, r in zip(prompts, read, strict=True)]
        cases.append((running, draw.randint(len(running) + 1, 20)))
    _rows(answer, [([(20, 0, 0), (2, 0, 0)], 8), ([(6, 0, 0), (4, 0, 0), (2, 0, 0), (3, 3, 1)], 8), *cases])
    return "a place for each answer · prompts in pieces, first come, first served · never above the budget"


def _rows(answer: Any, cases: list) -> None:
    for case, got in zip(cases, alone(called, answer, [(list(running), b) for running, b in cases]), strict=True):
        got = got.tolist() if isinstance(got, (np.ndarray, torch.Tensor)) else got
        _judge_row(*case, [plain(one) for one in got] if isinstance(got, (list, tuple)) else got)


def _judge_row(running: list[tuple[int, int, int]], budget: int, got: Any) -> None:
    want = fill_row(running, budget)
    case = Case(label=f"running {running}, budget {budget}:", see=f"fill_row({running}, {budget})")
    fine = isinstance(got, (list, tuple)) and len(got) == len(running) and all(type(n) is int and n >= 0 for n in got)
    each = f"return a list of {count(len(running), 'number')}, the tokens of each request"
    case.expect(fine, f"{each}, not {shown(got)}", "form")
    got, makers = list(got), [n for n, (_, _, made) in enumerate(running) if made]
    places = f"request {{}} brings {{}} of the row {got}"
    for n in makers:
        brings = places.format(n, count(got[n], "token"))
        prompts = sum(got) - sum(got[one] for one in makers)
        first = f"{brings}, and prompts take {prompts} of the {budget} places. Answers come before prompts"
        case.expect(bool(got[n]) or not prompts, first, "prompts-first")
        case.expect(got[n] == 1, f"{brings}; its answer is under way, so it brings exactly one", "one-each")
    for n, (prompt, read, made) in enumerate(running):
        left = f"{read} of its prompt's {prompt} are read, so {prompt - read} are left"
        brings = places.format(n, count(got[n], "token"))
        case.expect(bool(made) or got[n] <= prompt - read, f"{brings}; {left}", "read-again")
    answers = f"Does each of the {count(len(makers), 'answer')} take a place from the prompts?" if makers else (
        "Does each prompt leave fewer places to the next?")  # fmt: skip
    case.at_most(sum(got), budget, f"the row {got} has {{seen}} tokens; the budget is {{bound}}. {answers}", "above")
    for n, (brings, right) in enumerate(zip(got, want, strict=True)):
        behind = [late for late in range(n + 1, len(got)) if got[late] and late not in makers]
        more = f"{places.format(n, count(brings, 'token'))} and could bring {right}"
        later = f"{more}, but request {(behind or [0])[0]}, which came later, has places: first come, first served"
        case.expect(brings >= right or not behind, later, "overtakes")
        empty = f"{more}, and {count(budget - sum(got), 'place')} of {budget} stay empty"
        case.expect(brings >= right or bool(brings), f"{empty}: a prompt that does not fit is cut", "not-cut")
        case.expect(brings >= right, empty, "empty")
    case.expect(got == want, f"the row is {got}; it is {want}", "row")


# Size or timer


@check(size=1, timer=1, any_arrivals=1)
def check_adaptive_batches(answer: Any, part: Any) -> str:
    draw = random.Random(course_seed() + 4)
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
    found = alone(called, answer, [(list(arrivals), size, wait) for arrivals, size, wait in cases])
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
    told = f"{[round(arrival, 2) for arrival in arrivals[:6]]}{' ...' if len(arrivals) > 6 else ''}"
    case = Case(label=f"arrivals {told}, max_size {size}, max_wait {wait:g}:")
    got = plain(got)
    pairs = isinstance(got, (list, tuple)) and all(isinstance(b, (tuple, list)) and len(b) == 2 for b in got)
    fine = pairs and all(isinstance(members, (list, tuple)) for _, members in got)
    fine = fine and all(is_number(start) and all(type(n) is int for n in members) for start, members in got)
    case.expect(fine, f"return a list of (start, [numbers of requests]), not {shown(got)}", "form")
    members = [list(batch) for _, batch in got]
    everyone = [number for batch in members for number in batch]
    for number in range(len(arrivals)):
        lost = f"request {number} is in no batch; nobody may be lost, the last ones neither"
        case.expect(number in everyone, lost, "lost")
    case.expect(everyone == list(range(len(arrivals))), f"{members[:4]}: each request once, in order", "order")
    case.at_most(max(map(len, members), default=0), size, "a batch of {seen}; at most {bound} go into one", "too-big")
    for place, ((start, _), batch, (begins, right)) in enumerate(zip(got, members, want, strict=False)):
        first = case.also(f"batch {place}")
        has = f"has requests {batch[:6]}"
        timer = f"the timer runs from its first request, so it closes at {begins:.4g} s with {right[:6]}"
        first.at_most(len(batch), len(right), f"{has}; {timer}", "timer-restarts")
        come = f"{right[:6]} come by {begins:.4g} s, or just then, and find room"
        first.expect(batch == right, f"{has}; {come}", "too-small")
        first.expect(
            isinstance(start, (int, float)) and (start <= begins + 1e-9 or len(right) < size),
            f"is full at {begins:.4g} s and starts at {start}: do not wait for the timer",
            "full-waits",
        )
        came = f"its first request came at {arrivals[right[0]]:.4g} s, so it starts at {begins:.4g} s"
        first.expect(close(start, begins, absolute=1e-9), f"starts at {start}; {came}", "start")
