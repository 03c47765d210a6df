"""The name server as a process: ``pyromq nameserver``."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings


def run(settings: NameServerSettings) -> None:
    """Serve until SIGTERM or SIGINT, then stop in order.

    Prints one line when ready. Raises ConfigError, CorruptFileError, OSError when it cannot start.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(settings: NameServerSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with NameServer(settings) as server:
        sys.stdout.write(f"ready nameserver={server.address}\n")
        sys.stdout.flush()
        await stop.wait()
