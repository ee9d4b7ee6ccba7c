"""An interrupt is noted, not raised, while processes are being started and ended, so that none is forgotten halfway."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from course_lib.ranks.results import Interrupted


class Interrupts:
    """Defers a first SIGINT until the block ends; `bell` is a file that wakes a select. A second SIGINT is passed on.

    At the end the handler that was there before gets the signal; where it raises KeyboardInterrupt, as Python's and a
    notebook's do, that becomes an `Interrupted` with `words` and `printed`, which whoever waited has filled in.
    Python delivers signals to the main thread only; entered anywhere else, this does nothing and `bell` is None.
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
