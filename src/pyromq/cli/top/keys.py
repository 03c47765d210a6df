"""Keys as they are pressed, from a terminal that no longer waits for the end of a line."""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_READ_BYTES: Final = 64


@contextmanager
def pressed_keys(descriptor: int) -> Iterator[asyncio.Queue[str]]:
    """On the running loop. The terminal is as it was when the block ends, however it ends.

    A sequence such as that of an arrow key comes as one text. At the end of the input the key is Ctrl-D.
    """
    loop, keys = asyncio.get_running_loop(), asyncio.Queue[str]()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            loop.remove_reader(descriptor)
        text = data.decode("utf-8", "ignore") or "\x04"
        for key in [text] if text.startswith("\x1b") else text:
            keys.put_nowait(key)

    tty.setcbreak(descriptor, termios.TCSANOW)
    loop.add_reader(descriptor, read)
    try:
        yield keys
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
