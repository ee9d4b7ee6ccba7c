"""The tiny GPT that every chapter trains, shards, splits and pipelines.

Built so that each later cut is short: q, k and v are separate matrices and heads are counted from what a rank holds
(tensor parallelism), a block is a module (sharding), the head is not the embedding (pipelines), and keys have no bias
(its gradient is zero but for rounding, which Adam turns into full steps).
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from course_lib.models import TINY_GPT, ModelShape


class Embed(nn.Module):
    """Tokens (batch, sequence) to vectors (batch, sequence, hidden): what the token is, plus where it stands."""

    def __init__(self, shape: ModelShape, dropout: float) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.hidden)
        self.position = nn.Embedding(shape.positions, shape.hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        where = torch.arange(tokens.shape[1], device=tokens.device)
        if len(where) > self.position.num_embeddings:
            raise ValueError(f"sequence = {len(where)}: at most positions = {self.position.num_embeddings}")
        return self.dropout(self.token(tokens) + self.position(where))


class Attention(nn.Module):
    """Causal attention, written out (no fused kernel), so that its FLOPs and its saved tensors can be counted."""

    def __init__(self, shape: ModelShape, dropout: float) -> None:
        super().__init__()
        self.head_size = shape.head_size
        bias = shape.bias in ("qkv", "all")
        self.q, self.k, self.v = (nn.Linear(shape.hidden, shape.hidden, bias=bias) for _ in range(3))
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=shape.bias == "all")
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # (batch, sequence, hidden) -> (batch, heads, sequence, head_size); -1: as many heads as this rank holds
        q, k, v = (linear(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2) for linear in (self.q, self.k, self.v))
        future = q.new_full((x.shape[1], x.shape[1]), float("-inf")).triu(1)  # added, not masked: adding saves nothing
        weights = (q @ k.transpose(-2, -1) * self.head_size**-0.5 + future).softmax(-1)
        return self.out((self.dropout(weights) @ v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Up to `ffn`, GELU, and down again."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.ffn, bias=shape.bias in ("mlp", "all"))
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=shape.bias in ("mlp", "all"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """One layer: attention, then the MLP, each added to the stream that it reads through a norm."""

    def __init__(self, shape: ModelShape, dropout: float) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(shape.hidden), Attention(shape, dropout)
        self.norm2, self.mlp = nn.LayerNorm(shape.hidden), MLP(shape)
        self.drop1, self.drop2 = nn.Dropout(dropout), nn.Dropout(dropout)  # CommDebugMode fails on a module used twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop1(self.attention(self.norm1(x)))
        return x + self.drop2(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Tokens (batch, sequence) in, logits (batch, sequence, vocabulary) out; ValueError for a shape of another kind."""

    def __init__(self, shape: ModelShape = TINY_GPT, dropout: float = 0.0) -> None:
        super().__init__()
        plain = shape.positions and shape.layer_norm and shape.kv_heads == shape.heads
        if not plain or shape.gated or shape.tied or shape.experts:
            raise ValueError(f"shape = {shape.name!r}: must be of GPT-2's kind, with tied=False (the head on its own)")
        self.shape = shape
        self.embed = Embed(shape, dropout)
        self.blocks = nn.ModuleList(Block(shape, dropout) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)  # as GPT-2: the first loss is about log(vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in (self.embed, *self.blocks, self.norm, self.head):
            x = module(x)
        return x


def next_token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy in nats; logits (batch, sequence, vocabulary), targets (batch, sequence)."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def pipeline_stage(model: GPT, index: int, stages: int) -> GPT:
    """Return a copy of `model` with nn.Identity for what other stages hold, so parameters keep their names.

    Stage 0 takes tokens, the last returns logits. ValueError unless 0 <= index < stages <= layers.
    """
    layers = len(model.blocks)
    if not 0 <= index < stages <= layers:
        raise ValueError(f"index = {index}, stages = {stages}: must be 0 <= index < stages <= layers = {layers}")
    part = copy.deepcopy(model)
    for layer in range(layers):
        part.blocks[layer] = part.blocks[layer] if layer * stages // layers == index else nn.Identity()
    part.embed = part.embed if index == 0 else nn.Identity()
    part.norm, part.head = (part.norm, part.head) if index == stages - 1 else (nn.Identity(), nn.Identity())
    return part
