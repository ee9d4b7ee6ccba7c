"""Where keys and values are kept: in one piece that grows, or in blocks of a pool that many requests share."""

from __future__ import annotations

import torch

from course_lib.models import ModelShape


class KVCache:
    """The keys and values of all tokens so far, layer by layer, for a batch of sequences of one length."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def positions(self, new: int) -> torch.Tensor:
        """Return where the next `new` tokens stand: (1, new)."""
        start = self.kept[0][0].shape[1] if self.kept else 0
        return torch.arange(start, start + new)[None]

    def add(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep new keys and values (batch, new, kv heads, head size); return those of all tokens so far."""
        if layer in self.kept:
            keys, values = (torch.cat(pair, 1) for pair in zip(self.kept[layer], (keys, values), strict=True))
        self.kept[layer] = keys, values
        return keys, values


class BlockPool:
    """Memory for keys and values, cut into blocks of `size` tokens each; who owns which block is not its business."""

    def __init__(self, shape: ModelShape, blocks: int, size: int, ranks: int = 1) -> None:
        one = (shape.layers, blocks * size, shape.kv_heads // ranks, shape.head_size)
        self.keys, self.values, self.size = torch.zeros(one), torch.zeros(one), size

    def of(self, tables: list[list[int]], lengths: list[int]) -> PagedCache:
        """Return the cache of one batch: `tables[i]` are the blocks of sequence i, which holds `lengths[i]` tokens."""
        return PagedCache(self, tables, lengths)

    def copy(self, source: int, target: int) -> None:
        """Copy one block into another."""
        here, there = (slice(block * self.size, (block + 1) * self.size) for block in (source, target))
        self.keys[:, there], self.values[:, there] = self.keys[:, here], self.values[:, here]


class PagedCache:
    """The cache of a batch of sequences of different lengths whose tokens lie scattered over a pool's blocks."""

    def __init__(self, pool: BlockPool, tables: list[list[int]], lengths: list[int]) -> None:
        widest = max(map(len, tables))
        blocks = torch.tensor([[*table, *[0] * (widest - len(table))] for table in tables])
        places = blocks[..., None] * pool.size + torch.arange(pool.size)
        self.pool, self.places, self.lengths = pool, places.flatten(1), torch.tensor(lengths)

    def positions(self, new: int) -> torch.Tensor:
        """Return where the next `new` tokens of each sequence stand: (batch, new)."""
        self.where = self.lengths[:, None] + torch.arange(new)
        self.slots = self.places.gather(1, self.where)
        self.seen = self.places[:, : int(self.where.max()) + 1]  # beyond a sequence's end the model's mask hides it
        return self.where

    def add(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values (batch, new, kv heads, head size) into the pool; return all so far."""
        self.pool.keys[layer, self.slots], self.pool.values[layer, self.slots] = keys, values
        return self.pool.keys[layer, self.seen], self.pool.values[layer, self.seen]
