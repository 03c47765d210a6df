"""A broker with a busy shop in it and the console, in this process: for browser tests and screenshots."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import uvicorn

from pyromq.broker.base.settings import BrokerSettings
from pyromq.console.app import create_app
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.security.secret import Secret
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
PASSWORD: Final = "correct horse battery"
QUICK_SCRYPT: Final = ScryptCost(n=1 << 4, r=1, p=1)
START_S_MAX: Final = 180


@dataclass(frozen=True)
class Served:
    """``shop`` is the module of the example, with its numbers."""

    url: str
    nameserver: str
    shop: Any


def busy_shop() -> Any:
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module("busy_shop")


@contextmanager
def served_console(settings: ConsoleSettings) -> Iterator[str]:
    """A console on a free port, on a thread of its own; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(settings), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="console")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(START_S_MAX)
        listening.close()


@contextmanager
def served_shop(folder: Path, *, trades: bool = False) -> Iterator[Served]:
    """Everything there is to see until the end of the block; with ``trades`` orders go on coming."""
    shop = busy_shop()
    settings = BrokerSettings(store=replace(SMALL_FILES, segment_bytes=256 << 10), transaction_timeout_ms=1_000)
    with ExitStack() as stack:
        broker = stack.enter_context(LoopbackBroker(settings, folder=folder, delay_levels_ms=(50,) * 18))
        stack.enter_context(_open_shop(shop, broker.nameserver, trades))
        console = ConsoleSettings(
            nameservers=broker.nameserver, password=Secret(PASSWORD), scrypt=QUICK_SCRYPT, refresh_ms=300
        )
        url = stack.enter_context(served_console(console))
        yield Served(url, broker.nameserver, shop)


@contextmanager
def _open_shop(module: Any, nameserver: str, trades: bool) -> Iterator[None]:
    """Its consumers live on a loop of their own."""
    ready, stop, failed = threading.Event(), threading.Event(), list[BaseException]()

    async def run() -> None:
        try:
            async with module.BusyShop(nameserver) as shop:
                await shop.fill()
                ready.set()
                trading = [asyncio.create_task(shop.trade())] if trades else []
                await asyncio.to_thread(stop.wait)
                for task in trading:
                    task.cancel()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="busy-shop")
    thread.start()
    try:
        assert ready.wait(START_S_MAX) and not failed, f"the shop did not open: {failed}"
        yield
    finally:
        stop.set()
        thread.join(START_S_MAX)
