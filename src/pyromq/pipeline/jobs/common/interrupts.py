"""Deferred interrupts: Ctrl-C during a call to Spark is noted at once, and heeded between two calls.

An exception in the middle of a call to the JVM leaves connections to it broken, also those that other threads have.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interrupt:
    is_wanted: bool = False


@contextmanager
def noted_interrupts() -> Iterator[Interrupt]:
    """The first Ctrl-C is noted, the next is a KeyboardInterrupt as ever.

    Python gives signals to its first thread: elsewhere, and where they are ignored, nothing is changed.
    """
    found = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield found
        return

    def note(number: int, frame: FrameType | None) -> None:
        if found.is_wanted:
            raise KeyboardInterrupt
        found.is_wanted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
