"""Between a supervisor and one worker: a socket on which the worker says how it is, once a second.

    worker ──{"state":"running",…}\\n──▶ supervisor          a worker whose loop is stuck says nothing
    worker ◀──end of the stream──────── supervisor died     the worker drains and ends, too

One line is one ``Run.report``. Lines that cannot be read are passed over: the other side may be of another version.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from pyromq.app.run import AppRunState, Run

logger = logging.getLogger(__name__)

FD_VARIABLE: Final = "PYROMQ_WORKER_FD"
BEAT_S: Final = 1.0
LINE_BYTES_MAX: Final = 1 << 20


def own_link() -> socket.socket | None:
    """That of this process, if a supervisor has started it; its own children do not inherit it."""
    number = os.environ.pop(FD_VARIABLE, "")
    if not number.isdigit():
        return None
    os.set_inheritable(int(number), False)
    found = socket.socket(fileno=int(number))
    found.setblocking(False)
    return found


async def report_to(link: socket.socket, run: Run, stop: Callable[[], None]) -> None:
    """Until it is cancelled; ``stop()`` is called when the supervisor is gone."""
    reader, writer = await asyncio.open_unix_connection(sock=link)
    try:
        while run.state is not AppRunState.STOPPED:
            writer.write(msgspec.json.encode(run.report()) + b"\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    if not await reader.read(1):
                        raise ConnectionError
    except OSError:
        logger.warning("the supervisor is gone: draining")
        stop()
    finally:
        writer.close()


def read_report(line: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
    return found
