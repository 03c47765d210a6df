"""The whole system in one folder: orders are sent, the broker dies, some orders fail and are sent again.

    python examples/orders_survive_a_crash.py [FOLDER]

A name server and a broker run as one process (``pyromq up``), with short delays between attempts. Two groups consume.
Halfway through, the process is killed with SIGKILL and started again. Some orders fail in billing at first and are
retried; a few fail for good and become dead letters, which are listed and, when billing is repaired, sent again, with
the commands that an operator would type. At the end a table shows what became of every order that was acknowledged.
With a FOLDER the broker's data stays there, for ``orders_on_spark.py``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pyromq.aio import Admin, Message, MQError, Producer, PushConsumer, ReceivedMessage
from pyromq.settings import PushConsumerSettings

ORDERS = 6_000
IN_FLIGHT = 64
PAUSE_S = 0.03  # between two orders of the same sender
TOPIC = "orders"
BROKEN = frozenset((777, 1_999, 3_141, 4_242, 5_555))  # billing cannot read these until it is repaired
BUSY_BANK = 101  # one order in so many: the bank does not answer the first time
LADDER = "broker.store.delay_ladder_ms=" + ";".join(["300"] * 18)  # instead of 1 s, 5 s, 10 s, 30 s, …
SETTINGS = PushConsumerSettings(attempts_max=2, persist_ms=500, rebalance_ms=1_000)
WAYS = ("at once", "after retries", "redriven")
SECONDS_MAX = 60


class Servers:
    """``pyromq up`` on ports that stay the same over a restart."""

    def __init__(self, folder: Path) -> None:
        names, broker = _free_ports(2)
        ports = ("--nameserver-port", str(names), "--broker-port", str(broker))
        self._command = [sys.executable, "-m", "pyromq", "up", "--no-console", "--data", str(folder), *ports]
        self._command += ["--set", LADDER, "--log", "error"]  # what recovery finds after the crash is no surprise here
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
    """A consumer group that remembers how often it finished each order, and which way the order came the first time."""

    def __init__(self, name: str, nameserver: str) -> None:
        self.name, self.seen, self.ways = name, Counter[int](), dict[int, str]()
        self.consumer = PushConsumer(
            nameserver, group=name, listener=self.consume, topics=TOPIC, trace=True, settings=SETTINGS
        )

    async def consume(self, message: ReceivedMessage) -> None:
        number = int(message.body)
        self.seen[number] += 1
        self.ways.setdefault(number, WAYS[2] if message.get("REDRIVEN_FROM") else WAYS[message.is_retry])

    @property
    def twice(self) -> int:
        return sum(self.seen.values()) - len(self.seen)


class Billing(Group):
    """Fails with some orders: for a moment, or until it is repaired."""

    is_repaired = False
    failures = 0

    async def consume(self, message: ReceivedMessage) -> None:
        number = int(message.body)
        if (number in BROKEN and not self.is_repaired) or (number % BUSY_BANK == 0 and not message.is_retry):
            self.failures += 1
            raise ValueError(f"order {number} cannot be billed")
        await super().consume(message)


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
            await asyncio.sleep(PAUSE_S)
            if len(acknowledged) >= ORDERS // 2:
                halfway.set()

    await asyncio.gather(*(send_some() for _ in range(IN_FLIGHT)))
    return acknowledged


class Demo:
    """The story, scene by scene."""

    def __init__(self, servers: Servers, console: Console) -> None:
        self._servers, self._console = servers, console
        self.billing, self.shipping = Billing("billing", servers.nameserver), Group("shipping", servers.nameserver)

    async def run(self) -> set[int]:
        async with Producer(self._servers.nameserver, group="shop") as producer:
            async with Admin(self._servers.nameserver) as admin:
                await admin.topics.create(TOPIC, queues=4)
            async with self.billing.consumer, self.shipping.consumer:
                self._scene(f"{ORDERS:,} orders, and a crash")
                acknowledged = await self._send_and_crash(producer)
                self._scene("Orders that billing cannot use")
                await self._see_dead_letters()
                self._scene("Repaired, and sent again")
                await self._redrive()
                await _until(lambda: all(len(group.seen) == ORDERS for group in (self.billing, self.shipping)))
        return acknowledged

    async def _send_and_crash(self, producer: Producer) -> set[int]:
        halfway = asyncio.Event()
        sending = asyncio.create_task(send_orders(producer, halfway))
        await halfway.wait()
        self._console.print("half of the orders are acknowledged: [bold red]kill -9[/]")
        self._servers.kill()
        begin = time.perf_counter()
        await asyncio.to_thread(self._servers.start)
        self._console.print(f"back after {time.perf_counter() - begin:.2f} s; clients find it again by themselves")
        return await sending

    async def _see_dead_letters(self) -> None:
        await _until(lambda: len(self.shipping.seen) == ORDERS and len(self.billing.seen) == ORDERS - len(BROKEN))
        async with Admin(self._servers.nameserver) as admin:
            while {key for letter in await admin.dead_letters.list("billing") for key in letter.keys} != _keys(BROKEN):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            letter = (await admin.dead_letters.list("billing"))[0]
        self._console.print(f"billing failed {self.billing.failures} times; most orders came again and are done")
        await self._type("dlq", "ls", "billing")
        await self._type("dlq", "ls", "billing", "--messages")
        await self._type("message", "explain", letter.message_id, "--topic", TOPIC)

    async def _redrive(self) -> None:
        self.billing.is_repaired = True
        self._console.print("billing is repaired: its dead letters go to it alone, shipping is done")
        await self._type("dlq", "redrive", "billing", "--only-group")

    async def _type(self, *words: str) -> None:
        """A command of the operator's, with its own output."""
        self._console.print(f"\n[dim]$[/] [bold]pyromq {' '.join(words)}[/]")
        sys.stdout.flush()
        environment = {**os.environ, "PYROMQ_NAMESERVER": self._servers.nameserver}
        command = (sys.executable, "-m", "pyromq", *words, "-o", "table")
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        assert await process.wait() == 0, f"{words} failed"

    def _scene(self, title: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{title}[/]", align="left")


def show(console: Console, acknowledged: set[int], groups: list[Group]) -> int:
    """The table in which every acknowledged order has its place; returns how many have none."""
    table = Table(title=f"{len(acknowledged):,} acknowledged orders, consumed", title_justify="left")
    table.add_column("group")
    for column in (*WAYS, "lost", "twice"):
        table.add_column(column, justify="right")
    lost = 0
    for group in groups:
        ways = Counter(way for number, way in group.ways.items() if number in acknowledged)
        missing = len(acknowledged) - ways.total()
        lost += missing
        table.add_row(group.name, *(f"{number:,}" for number in (*(ways[way] for way in WAYS), missing, group.twice)))
    console.print()
    console.print(table)
    console.print("[green]Every order is accounted for.[/]" if not lost else f"[bold red]{lost} ORDERS WERE LOST.[/]")
    return lost


def main() -> int:
    logging.getLogger("pyromq").setLevel(logging.ERROR)  # else every failure is told, with the place where it happened
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as passing:
        servers = Servers(Path(sys.argv[1] if sys.argv[1:] else passing) / "data")
        console.print(servers.start())
        try:
            demo = Demo(servers, console)
            acknowledged = asyncio.run(demo.run())
        finally:
            servers.stop()
    return 1 if show(console, acknowledged, [demo.billing, demo.shipping]) else 0


def _keys(numbers: frozenset[int]) -> set[str]:
    return {f"order-{number}" for number in numbers}


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110 - listeners count, they do not signal
            await asyncio.sleep(0.05)


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
