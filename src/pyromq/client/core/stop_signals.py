"""Ctrl-C and SIGTERM as a request to stop: for programs whose main thread waits while a consumer works."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call ``stop`` instead of what they did; then everything is as before.

    Only the main thread hears signals; a block on another thread is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
