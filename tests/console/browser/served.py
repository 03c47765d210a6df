"""A broker with a busy shop in it, or a master with its replica, and the console, in this process."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn

from pyromq import Message
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import SystemClock
from pyromq.console.app import create_app
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.operate.query_reports import FOLDER_VARIABLE, QueryBatch, QueryReport, SourceReport
from pyromq.security.secret import Secret
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from tests.integration.replication_pair import a_pair

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
PASSWORD: Final = "correct horse battery"
QUICK_SCRYPT: Final = ScryptCost(n=1 << 4, r=1, p=1)
START_S_MAX: Final = 180
PIPELINE: Final = "7f3d2c1e-52b7-4a0f-9a55-6d3a4be0c001"


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
        stack.enter_context(_on_a_thread(_open_shop(shop, broker.nameserver, trades)))
        stack.enter_context(_pipelines(folder / "pipelines", broker.nameserver))
        url = stack.enter_context(served_console(_settings(broker.nameserver)))
        yield Served(url, broker.nameserver, shop)


@contextmanager
def served_pair(folder: Path) -> Iterator[Served]:
    """A console on a broker that has a replica."""
    with _on_a_thread(_open_pair(folder)) as nameserver, served_console(_settings(nameserver)) as url:
        yield Served(url, nameserver, None)


def _settings(nameserver: str) -> ConsoleSettings:
    return ConsoleSettings(nameservers=nameserver, password=Secret(PASSWORD), scrypt=QUICK_SCRYPT, refresh_ms=300)


async def _open_shop(module: Any, nameserver: str, trades: bool) -> AsyncIterator[str]:
    async with module.BusyShop(nameserver) as shop:
        await shop.fill()
        trading = [asyncio.create_task(shop.trade())] if trades else []
        yield nameserver
        for task in trading:
            task.cancel()


async def _open_pair(folder: Path) -> AsyncIterator[str]:
    async with a_pair(folder) as pair:
        await pair.start_master()
        await pair.start_replica()
        async with pair.producer() as producer:
            for number in range(20):
                await producer.send(Message("orders", b"x" * 500, keys=[f"order-{number}"]))
        await pair.caught_up()
        yield pair.nameserver


@contextmanager
def _on_a_thread(life: AsyncIterator[str]) -> Iterator[str]:
    """What ``life`` opens, on a loop of its own; it is closed at the end of the block."""
    ready, stop, failed, given = threading.Event(), threading.Event(), list[BaseException](), list[str]()

    async def run() -> None:
        try:
            async for each in life:
                given.append(each)
                ready.set()
                await asyncio.to_thread(stop.wait)
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="served")
    thread.start()
    try:
        assert ready.wait(START_S_MAX) and not failed, f"it did not open: {failed}"
        yield given[0]
    finally:
        stop.set()
        thread.join(START_S_MAX)


@contextmanager
def _pipelines(folder: Path, nameserver: str) -> Iterator[None]:
    """Reports of two queries of Spark, one that runs and one that failed; those of this machine are not shown."""
    folder.mkdir()
    now_ms = SystemClock().now_ms()
    batches = tuple(QueryBatch(now_ms - 5_000 * (40 - n), 180 + 60 * (n % 5), 900 + 120 * (n % 7)) for n in range(40))
    orders = QueryReport(
        id=PIPELINE,
        name="orders-to-lake",
        batch=40,
        batches=batches,
        rows=12_000,
        rows_per_s=61.5,
        sources=(SourceReport(group="analytics", nameserver=nameserver, topics=("orders",)),),
        sink="parquet",
        host="spark-1",
        pid=4_711,
        started_ms=now_ms - 200_000,
        told_ms=now_ms,
    )
    payments = msgspec.structs.replace(
        orders,
        id="0b4c6c44-11c3-4c9e-8f0a-2f6e0a9a3c11",
        name="payments-report",
        batches=batches[:12],
        sources=(SourceReport(group="ledger", nameserver=nameserver, topics=("payments",)),),
        ended_ms=now_ms - 60_000,
        error="ValueError: amount is not a number: 'n/a'",
    )
    for report in (orders, payments):
        (folder / f"{report.id}.json").write_bytes(msgspec.json.encode(report))
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(FOLDER_VARIABLE)
        if before is not None:
            os.environ[FOLDER_VARIABLE] = before
