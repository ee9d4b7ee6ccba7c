"""Defers the first Ctrl-C while processes are being started and ended, so that none is left behind halfway.

Why not `try: ... except KeyboardInterrupt`? Python raises it between any two bytecodes, also between a fork and the
line that keeps its pid, or in the middle of cleaning up. Why not block the signal (pthread_sigmask)? Then a hung run
could not be interrupted. A handler that sets a flag and writes to a pipe wakes the select loop, which ends the run in
order.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from course_lib.results import Interrupted


class Interrupts:
    """Defers the first SIGINT until the block ends; `bell` is a pipe that wakes select. A second SIGINT is delivered.

    At the end the previous handler gets the signal; where it raises KeyboardInterrupt, as Python's and a notebook's do,
    that becomes an `Interrupted` with `words` and `printed`, which the caller has filled in. Signal handlers run in the
    main thread only; in any other thread this does nothing and `bell` is None.
    """

    def __init__(self) -> None:
        self.noted = False
        self.words, self.printed = "interrupted", []
        self.bell: int | None = None
        self._ring: int | None = None
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self.bell, self._ring = os.pipe()
            self._before = before
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        if self.noted:
            self._before(number, frame)
        self.noted = True
        os.write(self._ring, b"!")

    def __exit__(self, *_: Any) -> None:
        if self._before is None:
            return
        signal.signal(signal.SIGINT, self._before)
        os.close(self.bell)
        os.close(self._ring)
        if self.noted:
            try:
                self._before(signal.SIGINT, None)
            except KeyboardInterrupt:
                raise Interrupted(self.words, self.printed) from None
