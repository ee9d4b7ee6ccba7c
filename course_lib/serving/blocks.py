"""Who owns which block of the KV cache: the page table of paged attention."""

from __future__ import annotations


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
