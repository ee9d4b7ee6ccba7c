"""What a GGUF file holds of a language model: its weights, and the tables of its tokenizer."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch


class Reader(gguf.GGUFReader):
    """gguf's reader on a plain array: it cuts its file into 250,000 pieces, and pieces of a memmap take much longer."""

    @property
    def data(self) -> np.ndarray:
        return self._plain

    @data.setter
    def data(self, file: np.memmap) -> None:
        self._plain = np.asarray(file)


def read(path: Path) -> tuple[dict[str, torch.Tensor], list[str], list[str]]:
    """Return the weights by name, in float32; the tokens, in the order of their numbers; the merges, in their order."""
    file = Reader(path)
    weights = {part.name: torch.tensor(gguf.dequantize(part.data, part.tensor_type)) for part in file.tensors}
    tokens, merges = (file.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    return weights, tokens, merges
