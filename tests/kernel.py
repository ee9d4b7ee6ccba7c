"""A kernel that runs cells as JupyterLab does, which sends the id of each cell with its source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_client.manager import start_new_kernel

SECONDS = 60


class Kernel:
    def __init__(self, client) -> None:
        self.client = client

    def run(self, source: str, cell: str = "") -> str:
        """Run a cell and return all that it shows as text."""
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {},
                   "allow_stdin": False, "stop_on_error": False}  # fmt: skip
        asked = self.client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else None)
        self.client.shell_channel.send(asked)
        shown: list[str] = []
        while True:
            told = self.client.get_iopub_msg(timeout=SECONDS)
            if told["parent_header"].get("msg_id") != asked["header"]["msg_id"]:
                continue
            if told["content"].get("execution_state") == "idle":
                return "\n".join(shown)
            shown += told["content"].get("traceback", [])
            shown += [told["content"].get("text", ""), told["content"].get("data", {}).get("text/plain", "")]


@contextmanager
def kernel(folder: Path) -> Iterator[Kernel]:
    manager, client = start_new_kernel(cwd=str(folder))
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
