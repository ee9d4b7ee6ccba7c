"""torchrun: start a script as a cluster would, on this machine, and show its lines as they come."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from course_lib.results import Interrupted

LOOPBACK = "lo" if sys.platform == "linux" else "lo0"  # stay on this machine, as run does


def torchrun(script: str, ranks: int = 2, name: str = "plain.py") -> None:
    """Save `script` as `name`, start it on `ranks` ranks with torchrun, and print the lines in which a rank speaks.

    Each comes with the seconds so far; before the first, every 5 seconds a line says what is waited for. Raises
    RuntimeError, with what was printed, when the script fails.
    """
    begun, lines, quiet = time.time(), [], 0
    said = f"torchrun --standalone --nproc-per-node={ranks} {name}"
    print(f"{0:5.1f} s   $ {said}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(script)
        command = [sys.executable, "-m", "torch.distributed.run", *said.split()[1:3], "--local-addr=localhost", name]
        env = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": folder, "GLOO_SOCKET_IFNAME": LOOPBACK}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=folder, start_new_session=True
        )
        try:
            for line in _lines(process.stdout):
                if line is None:
                    quiet += 1
                    if not lines and quiet % 5 == 0:
                        print(f"{time.time() - begun:5.1f} s   (Python starts and imports torch)", flush=True)
                    continue
                lines.append(line)
                for told in re.findall(r"rank \d.*?(?=rank \d|$)", line):  # what two ranks say may meet on one line
                    print(f"{time.time() - begun:5.1f} s   {told}", flush=True)
            process.wait()
        except KeyboardInterrupt:
            raise Interrupted(f"{said} was interrupted after {time.time() - begun:.0f} s, and its ranks end") from None
        finally:  # also when interrupted: torchrun and its ranks are one group
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
    if process.returncode:
        raise RuntimeError("\n".join([f"{said} failed:", *lines]))


def _lines(pipe) -> Iterator[str | None]:
    """Yield the lines that come through a pipe until it is closed, and None after every second without one."""
    rest = b""
    while True:
        if not select.select([pipe], [], [], 1.0)[0]:
            yield None
            continue
        news = os.read(pipe.fileno(), 65536)
        *whole, rest = (rest + news).split(b"\n")
        yield from (line.decode(errors="replace") for line in (whole if news else [*whole, rest]))
        if not news:
            return
