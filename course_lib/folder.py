"""A folder of checkpoints on a real disk: write a file, sync it, rename it, read it; what is in the files."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any

import torch


class Folder:
    """Files by name in one folder that all ranks see, with the operations that a save which survives a crash needs.

    `write` may be interrupted after any byte, and what it has written may still be lost when the machine loses power.
    After `sync` it is on the disk. `rename` happens at once or not at all: whoever reads meanwhile, or after a crash,
    finds the old file under the new name or the whole new one.

    Raises OSError in one sentence where the folder cannot be used, is full, or has no such file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def write(self, name: str, data: bytes) -> None:
        """Create the file, or replace what is in it."""
        with self._told(name, "written"):
            Path(self._of(name)).write_bytes(data)

    def sync(self, name: str) -> None:
        """Return when all bytes of the file are on the disk."""
        with self._told(name, "synced"):
            _sync(self._of(name))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, at once; a file that had this name is gone."""
        with self._told(old, "renamed"):
            os.replace(self._of(old), self._of(new))
            _sync(self.path)  # the name itself is in the folder, which is a file as well

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        with self._told(name, "read"):
            return Path(self._of(name)).read_bytes()

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        with self._told("the folder", "listed"):
            return sorted(path.name for path in self.path.iterdir())

    def _of(self, name: str) -> Path:
        if not isinstance(name, str) or name in ("", ".", "..") or os.path.basename(name) != name:
            raise ValueError(f"{name!r}: give the name of a file in {self.path}, without a folder")
        return self.path / name

    def _told(self, name: str, done: str) -> _Told:
        return _Told(f"{name} in {self.path} cannot be {done}")


class _Told:
    """Makes one sentence of what the operating system says."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise type(error)(error.errno, f"{self.words}: {error.strerror}") from None


def files_of_rank(dist: Any, shards: dict, shapes: dict, extra: dict, identity: str) -> dict[str, bytes]:
    """Return {name: bytes} of what this rank has to write: its shard, and on rank 0 the manifest, both marked."""
    pieces = {name: piece.clone() for name, piece in shards.items()}  # of a view, all it looks into would be saved
    files = {f"shard-{identity}-{dist.get_rank()}.pt": {"shards": pieces}}
    if dist.get_rank() == 0:
        files[f"manifest-{identity}.new"] = {"ranks": dist.get_world_size(), "shapes": shapes, "extra": extra}
    return {name: _packed({"identity": identity} | content) for name, content in files.items()}


def read_checkpoint(folder: Any, shapes: dict | None = None) -> tuple[dict, dict[str, dict]]:
    """Return (manifest, {name: content of a shard's file}), the shards in the order of the ranks that wrote them.

    Only shards of the manifest's identity are read. Raises ValueError that names the file which is missing or cut off.
    With the `shapes` of a model, also refuses a checkpoint of other names or shapes, and a file of another save or with
    pieces of other lengths.
    """
    name, parts = "manifest.pt", {}
    try:
        manifest = torch.load(io.BytesIO(folder.read(name)), weights_only=True)
        for rank in range(manifest["ranks"]):
            name = f"shard-{manifest['identity']}-{rank}.pt"
            parts[name] = torch.load(io.BytesIO(folder.read(name)), weights_only=True)
    except Exception as error:
        raise ValueError(f"{name} is missing or cut off: nothing was loaded") from error
    if shapes is not None:
        _judge(manifest, parts, shapes)
    return manifest, parts


def _judge(manifest: dict, parts: dict[str, dict], shapes: dict) -> None:
    for key in manifest["shapes"] | shapes:
        if manifest["shapes"].get(key) != shapes.get(key):
            raise ValueError(f"{key} is of another model: nothing was loaded")
    sizes = {key: -(-math.prod(shape) // manifest["ranks"]) for key, shape in shapes.items()}
    for name, part in parts.items():
        found = {key: len(piece) for key, piece in part["shards"].items()}
        if part["identity"] != manifest["identity"] or found != sizes:
            raise ValueError(f"{name} is of another save or has other lengths: nothing was loaded")


def _packed(thing: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
