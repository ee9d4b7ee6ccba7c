"""The folder that a sandbox sees of the course: copies of its two packages, and nothing beside them."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

ROOM = "course-room-"


def make(root: Path | None = None) -> dict[str, str]:
    """Return the environment of a template: the folder stands in PYTHONPATH; whoever asked for it deletes it.

    The checks of a course elsewhere are in `root/exercises_tests`.
    """
    base = "/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()  # a sandbox puts a new /tmp in place
    _tidy(Path(base))
    folder = tempfile.mkdtemp(prefix=f"{ROOM}{os.getpid()}-", dir=base)
    here = Path(__file__).resolve().parents[2]
    for package in ("course_lib", "exercises_tests"):
        shutil.copytree(here / package, Path(folder, package), ignore=shutil.ignore_patterns("__pycache__"))
    for check in (root / "exercises_tests").glob("ch*.py") if root else ():
        shutil.copy(check, Path(folder, "exercises_tests"))
    os.chmod(folder, 0o755)  # a sandbox reads it as another user
    return os.environ | {"PYTHONPATH": folder, "PYTHONSAFEPATH": "1", "MALLOC_ARENA_MAX": "2"}


def digest(folder: str, chapter: str) -> str:
    """Return what tells this library and this chapter's check from others."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.py")):
        if path.parent.name != "exercises_tests" or not path.name.startswith("ch") or path.stem == chapter:
            found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def imported(cell: str) -> list[str]:
    """Return the modules that a chapter's own imports cell names; for `from a import b` also a.b, which may be one."""
    nodes = list(ast.walk(ast.parse(cell)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    names += [node.module for node in froms]
    return names + [f"{node.module}.{alias.name}" for node in froms for alias in node.names]


def _tidy(base: Path) -> None:
    """Delete the rooms of graders that were killed and could not do so themselves."""
    for folder in base.glob(f"{ROOM}*-*"):
        with contextlib.suppress(OSError, ValueError):
            owner = int(folder.name.removeprefix(ROOM).partition("-")[0])
            if folder.stat().st_uid == os.getuid() and not _alive(owner):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
