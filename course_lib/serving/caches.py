"""Where keys and values are kept: in one piece that grows, or in the blocks of a pool; and who owns which block."""

from __future__ import annotations

import torch

from course_lib.models import ModelShape

# Blocks: the page table of paged attention


def blocks_for(tokens: int, size: int) -> int:
    """Return how many blocks of `size` tokens hold `tokens` tokens."""
    return -(-tokens // size)


class BlockManager:
    """Hands out blocks; invariant: every block is spare or in exactly one table, and a table has no block too many."""

    def __init__(self, blocks: int, size: int) -> None:
        if blocks < 1 or size < 1:
            raise ValueError(f"blocks = {blocks}, size = {size}: both must be at least 1")
        self.size, self.spare = size, list(range(blocks - 1, -1, -1))
        self.tables: dict[int, list[int]] = {}
        self.tokens: dict[int, int] = {}

    def allocate(self, request: int, tokens: int) -> list[int] | None:
        """Give a new request blocks for its tokens and return its table; None, and nothing changed, if short."""
        if request in self.tables:
            raise ValueError(f"request {request} has blocks already: append to it")
        need = blocks_for(tokens, self.size)
        if need > len(self.spare):
            return None
        self.tables[request], self.tokens[request] = [self.spare.pop() for _ in range(need)], tokens
        return self.tables[request]

    def append(self, request: int, tokens: int = 1) -> list[int] | None:
        """Make room for more tokens and return the table; None, and nothing changed, if short."""
        table, total = self.tables[request], self.tokens[request] + tokens
        more = blocks_for(total, self.size) - len(table)
        if more > len(self.spare):
            return None
        table.extend(self.spare.pop() for _ in range(more))
        self.tokens[request] = total
        return table

    def free(self, request: int) -> None:
        """Take all blocks of a request back."""
        self.spare += self.tables.pop(request)
        del self.tokens[request]


# Keys and values


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


class RowCache(KVCache):
    """The keys and values of several requests whose tokens pass in one row; a token sees its own request only."""

    def __init__(self) -> None:
        super().__init__()
        self.owners = torch.empty(0, dtype=torch.long)
        self.row = self.owners

    def of(self, owners: list[int]) -> RowCache:
        """Return this cache for a row of tokens: `owners[i]` is the request whose token stands at place i."""
        self.row = torch.tensor(owners)
        return self

    def positions(self, new: int) -> torch.Tensor:
        """Return where each token of the row stands in its own request: (1, new)."""
        if new != len(self.row):
            raise ValueError(f"a row of {new} tokens, and `of` was told the owners of {len(self.row)}")
        self.owners = torch.cat((self.owners, self.row))
        return self.mask().sum(-1).flatten()[None] - 1

    def mask(self) -> torch.Tensor:
        """Return which of all tokens so far each token of the row sees: (1, 1, new, all)."""
        own = self.row[:, None] == self.owners
        return own.tril(len(self.owners) - len(self.row))[None, None]  # and none that stands after it


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
