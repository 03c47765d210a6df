"""PyroMQ beside Redis Streams, NATS JetStream and RabbitMQ, each with its usual asyncio client, in one run.

    make compare ARGUMENTS=others              needs redis-server, nats-server and rabbitmq-server (Debian's), and
                                               the clients: pip install redis nats-py aio-pika

One client process each: 1 KiB messages that the server keeps in files and confirms, 64 outstanding; then a consumer
that acknowledges what it read. CPU is user and system time for each message, of the server and of both; servers take
turns, the least of the rounds counts. What a confirmation means differs, so it is printed with the name.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compare_lines import Line, less, more, print_lines
from benchmarks.generator import cpu_s, resident_mb
from benchmarks.measure import machine
from benchmarks.our_broker import MODES, our_broker
from pyromq.compiled_core import SWITCH
from pyromq.testing import free_port

MESSAGES = 40_000
OUTSTANDING = 64
BODY = b"x" * 1024
WAIT_S = 120


@dataclass
class Rival:
    """A server that runs, and how often each of its rounds took what."""

    name: str
    means: str  # what a confirmation says
    port: int
    pids: list[int]
    pure: bool = False
    memory_mb: float = 0.0
    taken: dict[str, list[Taken]] = field(default_factory=dict)


@dataclass(frozen=True)
class Taken:
    """One round, for each message."""

    server_us: float
    client_us: float
    rate: float


def main(rounds: str = "3") -> None:
    missing = [name for name in ("redis", "nats", "aio_pika") if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f"clients are missing ({', '.join(missing)}): pip install redis nats-py aio-pika")
    print(machine())
    print(f"{MESSAGES:,} messages of {len(BODY):,} bytes, {OUTSTANDING} outstanding, least of {rounds} rounds")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pyromq-others-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ours = [stack.enter_context(_pyromq(mode, flush)) for mode in MODES for flush in ("async", "sync")]
        others = [
            stack.enter_context(_redis(folder / "redis-everysec", "everysec")),
            stack.enter_context(_redis(folder / "redis-always", "always")),
            stack.enter_context(_nats(folder / "nats")),
            stack.enter_context(_rabbitmq(folder / "rabbitmq")),
        ]
        for _ in range(int(rounds)):
            for each in (*ours, *others):
                for step in ("publish", "consume"):
                    each.taken.setdefault(step, []).append(_measured(each, step))
        for each in (*ours, *others):
            each.memory_mb = sum(map(resident_mb, _family(each.pids)))
            print(f"{each.name}: confirmed means {each.means}; {each.memory_mb:,.0f} MB at the end")
        for mine in ours:
            for theirs in others:
                print_lines(list(_lines(mine, theirs)), mine.name, theirs.name)


def _lines(mine: Rival, theirs: Rival) -> Iterator[Line]:
    for step in ("publish", "consume"):
        best, other = (min(each.taken[step], key=lambda taken: taken.server_us) for each in (mine, theirs))
        yield more(step, "per second", best.rate, other.rate)
        yield less(step, "CPU µs, server", best.server_us, other.server_us)
        yield less(step, "CPU µs, both", best.server_us + best.client_us, other.server_us + other.client_us)


def _measured(server: Rival, step: str) -> Taken:
    """A client process does one step; it prints its own CPU and wall time."""
    pids = _family(server.pids)
    before = sum(map(cpu_s, pids))
    kind = server.name.partition(" ")[0].lower()
    command = [sys.executable, "-m", "benchmarks.compare_others", "client", kind, step, str(server.port)]
    environment = {**os.environ, SWITCH: "1" if server.pure else ""}
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=environment).stdout
    client_s, wall_s = json.loads(said)
    server_s = sum(map(cpu_s, pids)) - before
    return Taken(server_s / MESSAGES * 1e6, client_s / MESSAGES * 1e6, MESSAGES / wall_s)


def _family(pids: list[int]) -> list[int]:
    """These processes and their children."""
    found = list(pids)
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split() if int(child) not in found]
    return found


# Servers


@contextmanager
def _pyromq(mode: str, flush: str) -> Iterator[Rival]:
    means = "on disk" if flush == "sync" else "with the kernel, on disk within half a second"
    with our_broker(flush, mode) as broker:
        port = int(broker.nameserver.rpartition(":")[2])
        yield Rival(f"PyroMQ {mode} {flush}", means, port, [broker.pid], mode == "pure")


@contextmanager
def _redis(folder: Path, fsync: str) -> Iterator[Rival]:
    port = free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "yes"]
    means = {"always": "on disk", "everysec": "with the kernel, on disk within a second"}[fsync]
    with _process(folder, ["redis-server", *words, "--appendfsync", fsync], port) as pid:
        yield Rival(f"Redis {fsync}", means, port, [pid])


@contextmanager
def _nats(folder: Path) -> Iterator[Rival]:
    port = free_port()
    words = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    with _process(folder, ["nats-server", *words], port) as pid:
        yield Rival("NATS", "with the kernel, on disk within two minutes", port, [pid])


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Rival]:
    port, distribution, names = free_port(), free_port(), free_port()
    environment = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"pyromq{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
    }
    binary = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # the one in /usr/sbin wants Debian's own user
    with (
        _process(
            folder / "epmd", ["epmd", "-address", "127.0.0.1", "-port", str(names)], names
        ),  # else it stays behind
        _process(folder / "broker", [binary], port, environment) as pid,
    ):
        yield Rival("RabbitMQ", "on disk (a durable queue, persistent messages)", port, [pid])


@contextmanager
def _process(folder: Path, command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[int]:
    folder.mkdir(parents=True)
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is missing: apt install redis-server nats-server rabbitmq-server")
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # so that its children end with it
        )
    try:
        _wait_until_open(port, process, folder / "output")
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait_until_open(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"it ended at its start: {output.read_text()[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nobody listened on port {port} within {WAIT_S} seconds")


# Clients: each publishes MESSAGES with OUTSTANDING at a time, or consumes and acknowledges as many


async def _publish_all(publish: Callable[[], Awaitable[Any]]) -> None:
    left = iter(range(MESSAGES))

    async def one_by_one() -> None:
        for _ in left:
            await publish()

    await asyncio.gather(*(one_by_one() for _ in range(OUTSTANDING)))


async def _pyromq_publish(port: int) -> None:
    from pyromq.aio import Message, Producer

    async with Producer(f"127.0.0.1:{port}", group="others") as producer:
        await _publish_all(lambda: producer.send(Message("others", BODY)))


async def _pyromq_consume(port: int) -> None:
    from pyromq.aio import PushConsumer

    done, seen = asyncio.Event(), 0

    async def listen(message: Any) -> None:
        nonlocal seen
        assert len(message.body) == len(BODY)
        seen += 1
        if seen == MESSAGES:
            done.set()

    where = f"127.0.0.1:{port}"
    async with PushConsumer(where, group="readers", listener=listen, topics="others", start="earliest"):
        await asyncio.wait_for(done.wait(), WAIT_S)


async def _redis_publish(port: int) -> None:
    from redis.asyncio import Redis

    async with Redis(port=port, max_connections=OUTSTANDING) as redis:
        await redis.delete("others")
        await _publish_all(lambda: redis.xadd("others", {"body": BODY}))


async def _redis_consume(port: int) -> None:
    from redis.asyncio import Redis

    async with Redis(port=port) as redis:
        await redis.xgroup_create("others", "readers", "0")
        seen = 0
        while seen < MESSAGES:
            ((_, entries),) = await redis.xreadgroup("readers", "one", {"others": ">"}, count=OUTSTANDING)
            assert all(len(fields[b"body"]) == len(BODY) for _, fields in entries)
            await redis.xack("others", "readers", *(entry for entry, _ in entries))
            seen += len(entries)


async def _nats_publish(port: int) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = client.jetstream()
    try:
        await stream.delete_stream("others")
    except nats.js.errors.NotFoundError:
        pass
    await stream.add_stream(name="others", subjects=["others"])
    await _publish_all(lambda: stream.publish("others", BODY))
    await client.close()


async def _nats_consume(port: int) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    reader = await client.jetstream().pull_subscribe("others", durable="readers")
    seen = 0
    while seen < MESSAGES:
        for message in await reader.fetch(OUTSTANDING, timeout=WAIT_S):
            assert len(message.data) == len(BODY)
            await message.ack()
            seen += 1
    await client.close()


async def _rabbitmq_publish(port: int) -> None:
    import aio_pika

    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.declare_queue("others", durable=True)
        exchange, kept = channel.default_exchange, aio_pika.DeliveryMode.PERSISTENT
        await _publish_all(lambda: exchange.publish(aio_pika.Message(BODY, delivery_mode=kept), routing_key="others"))


async def _rabbitmq_consume(port: int) -> None:
    import aio_pika

    done, seen = asyncio.Event(), 0

    async def listen(message: Any) -> None:
        nonlocal seen
        assert len(message.body) == len(BODY)
        await message.ack()
        seen += 1
        if seen == MESSAGES:
            done.set()

    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=4 * OUTSTANDING)
        queue = await channel.declare_queue("others", durable=True)
        await queue.consume(listen)
        await asyncio.wait_for(done.wait(), WAIT_S)


def client(kind: str, step: str, port: str) -> None:
    import uvloop

    run = globals()[f"_{kind}_{step}"]
    cpu, wall = time.process_time(), time.perf_counter()
    uvloop.run(run(int(port)))
    print(json.dumps((time.process_time() - cpu, time.perf_counter() - wall)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
