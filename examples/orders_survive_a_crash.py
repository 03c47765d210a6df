"""The whole system in a temporary folder: orders are sent, consumed by two groups, and the broker dies in the middle.

    python examples/orders_survive_a_crash.py

A name server and a broker run as one process (``pyromq up``). Halfway through it is killed with SIGKILL and started
again. At the end a table shows what was acknowledged, what each group consumed, how often twice, and what was lost.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pyromq.aio import Message, MQError, Producer, PushConsumer, ReceivedMessage

ORDERS = 6_000
IN_FLIGHT = 64
TOPIC = "orders"
GROUPS = ("billing", "shipping")
SECONDS_MAX = 90


class Servers:
    """``pyromq up`` on ports that stay the same over a restart."""

    def __init__(self, folder: Path) -> None:
        names, broker = _free_ports(2)
        ports = ("--nameserver-port", str(names), "--broker-port", str(broker))
        self._command = [sys.executable, "-m", "pyromq", "up", "--data", str(folder), "--no-console", *ports]
        self.nameserver = f"127.0.0.1:{names}"

    def start(self) -> str:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


class Group:
    """A consumer group that counts how often it saw each order."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, Counter[int]()

    async def consume(self, message: ReceivedMessage) -> None:
        self.seen[int(message.body)] += 1

    @property
    def twice(self) -> int:
        return sum(self.seen.values()) - len(self.seen)


async def send_orders(producer: Producer, halfway: asyncio.Event) -> set[int]:
    """Send all orders, some at a time, each until it is acknowledged; returns those that were."""
    waiting, acknowledged = iter(range(ORDERS)), set[int]()

    async def send_some() -> None:
        for number in waiting:
            while number not in acknowledged:
                try:
                    await producer.send(Message(TOPIC, b"%d" % number, keys=f"order-{number}"))
                except MQError:
                    await asyncio.sleep(0.05)  # the broker is gone for a moment
                    continue
                acknowledged.add(number)
            if len(acknowledged) >= ORDERS // 2:
                halfway.set()

    await asyncio.gather(*(send_some() for _ in range(IN_FLIGHT)))
    return acknowledged


async def run(servers: Servers, console: Console) -> tuple[set[int], list[Group]]:
    groups, halfway = [Group(name) for name in GROUPS], asyncio.Event()
    consumers = [PushConsumer(servers.nameserver, group=group.name, listener=group.consume) for group in groups]
    async with Producer(servers.nameserver, group="shop") as producer:
        await producer.send(Message(TOPIC, b"0"))  # makes the topic
        for consumer in consumers:
            consumer.subscribe(TOPIC)
            await consumer.open()
        sending = asyncio.create_task(send_orders(producer, halfway))
        await halfway.wait()
        console.print("half of the orders are acknowledged: kill -9")
        servers.kill()
        begin = time.perf_counter()
        await asyncio.to_thread(servers.start)
        console.print(f"back after {time.perf_counter() - begin:.2f} s; clients find it again by themselves")
        acknowledged = await sending
        async with asyncio.timeout(SECONDS_MAX):
            while any(len(group.seen) < ORDERS for group in groups):  # noqa: ASYNC110 - listeners count, they do not signal
                await asyncio.sleep(0.05)
        for consumer in consumers:
            await consumer.close()
    return acknowledged, groups


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        servers = Servers(Path(folder) / "data")
        console.print(servers.start())
        try:
            acknowledged, groups = asyncio.run(run(servers, console))
        finally:
            servers.stop()
    table = Table(title=f"{ORDERS:,} orders, one crash")
    for column in ("group", "acknowledged", "consumed", "lost", "consumed twice"):
        table.add_column(column, justify="left" if column == "group" else "right")
    lost = 0
    for group in groups:
        missing = len(acknowledged - group.seen.keys())
        lost += missing
        numbers = (len(acknowledged), len(group.seen), missing, group.twice)
        table.add_row(group.name, *(f"{number:,}" for number in numbers))
    console.print(table)
    console.print("Nothing was lost." if not lost else f"{lost} ORDERS WERE LOST.")
    return 1 if lost else 0


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


if __name__ == "__main__":
    sys.exit(main())
