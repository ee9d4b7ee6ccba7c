"""What a GGUF file holds of a language model: its weights, and the tables of its tokenizer."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import torch


class Reader(gguf.GGUFReader):
    """gguf's reader, several times as fast with long tables of words: it need not make three arrays of each word."""

    @property
    def data(self) -> np.ndarray:
        return self._plain

    @data.setter
    def data(self, file: np.memmap) -> None:
        self._plain = np.asarray(file)  # pieces of a memmap take much longer

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, list[int], list]:
        kinds, start = gguf.GGUFValueType, orig_offs + 12  # behind the kind of what is listed, and how many there are
        if raw_type != kinds.ARRAY or self._get(orig_offs, np.uint32)[0] != kinds.STRING:
            return super()._get_field_parts(orig_offs, raw_type)
        words, at, held = [], start, memoryview(self._plain)
        for _ in range(int(self._get(orig_offs + 4, np.uint64)[0])):
            first = at + 8
            at = first + int.from_bytes(held[at:first], sys.byteorder)
            words.append(held[first:at])
        return at - orig_offs, words, list(range(len(words))), [kinds.ARRAY, kinds.STRING]


def read(path: Path) -> tuple[dict[str, torch.Tensor], list[str], list[str]]:
    """Return the weights by name, in float32; the tokens, in the order of their numbers; the merges, in their order."""
    file = Reader(path)
    weights = {part.name: torch.tensor(gguf.dequantize(part.data, part.tensor_type)) for part in file.tensors}
    tokens, merges = (file.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    return weights, tokens, merges
