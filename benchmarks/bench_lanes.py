"""The broker without sockets: bytes as they would be read, responses thrown away, files on disk.

    python -m benchmarks.bench_lanes [ROUNDS]

A process with the compiled core and one without take turns, for so many rounds; the least CPU time of all rounds
counts. What sockets cost is left out, and what other processes do hardly shows: for ratios, and to see what a change
brings.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measure import machine
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.compiled_core import SWITCH
from pyromq.net import Address, Connection
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.idle import IdleWatch
from pyromq.net.settings import ConnectionSettings
from pyromq.net.stalls import StallWatch
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.batch import BatchItem, encode_batch

BODY = Random(1).randbytes(1024)
ROUNDS, TRIES = 3, 25
TOPICS = 1_024
_CHILD = "--one"


class NoServer:
    """Takes the place of ``Server``: nothing listens."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.addresses = [Address("127.0.0.1", 10911)]
        self.connections: frozenset[Connection] = frozenset()
        self.stalls = StallWatch()
        self.half_read = HalfReadFrames(1 << 20)

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return


class Nowhere:
    """A transport that throws away what is written; ``last`` has the end of it."""

    last = b""

    def write(self, data: bytes) -> None:
        self.last = data

    def writelines(self, parts: list[bytes]) -> None:
        self.last = parts[0]

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 1), "socket": self}.get(name, default)

    def setsockopt(self, *_: int) -> None:
        return

    def set_write_buffer_limits(self, **_: int) -> None:
        return

    def close(self) -> None:
        return

    abort = pause_reading = resume_reading = close


class Client:
    def __init__(self, broker: Broker, number: int) -> None:
        clock = SystemClock()
        remote = Address("127.0.0.1", 4_000 + number)
        watch, half_read = IdleWatch(clock, 0), HalfReadFrames(1 << 20)
        settings = ConnectionSettings(idle_ms=0)
        stalls = StallWatch()
        self.connection = Connection(
            broker.dispatcher, clock, settings, watch, remote, is_server=True, half_read=half_read, stalls=stalls
        )
        self.transport = Nowhere()
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def arrive(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))


# --- what clients send ---


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return (len(text) + len(body) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def request(code: int, ext: dict[str, str], number: int, body: bytes = b"") -> bytes:
    end = {"flag": 0, "language": "JAVA", "opaque": number, "serializeTypeCurrentRPC": "JSON", "version": 479}
    return frame({"code": code, "extFields": ext, **end}, body)


def send(number: int, topic: str = "load", *, items: int = 0) -> bytes:
    text = "" if items else f"UNIQ_KEY\x017F00000100002A9F18B4AAC2{number:08X}\x02WAIT\x01true\x02TAGS\x01TagA"
    ext = {"a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0", "g": "1718000000000"}
    ext |= {"h": "0", "i": text, "j": "0", "k": "false", "m": "true" if items else "false", "n": "broker-a"}
    body = encode_batch([BatchItem(BODY, b"", 0)] * items) if items else BODY
    return request(320 if items else 310, ext, number, body)


def pull(number: int, offset: int, subscription: str = "*") -> bytes:
    ext = {"consumerGroup": "load", "topic": "load", "queueId": str(number % 4), "queueOffset": str(offset)}
    ext |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    ext |= {"subscription": subscription, "subVersion": "0", "expressionType": "TAG"}
    return request(11, ext, number)


# --- scenarios: each arrives, and says how many messages these were ---


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Scenarios:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clients = [Client(broker, number) for number in range(16)]
        self._number = 0

    def _next(self, count: int) -> range:
        self._number += count
        return range(self._number - count, self._number)

    async def sends(self, reads: int, connections: int, frames: int, topics: int = 1) -> Callable[[], Any]:
        """``frames`` a read; the reads of all connections arrive in one loop iteration."""
        names = ["load"] if topics == 1 else [f"many-{number}" for number in range(topics)]
        data = [
            b"".join(send(number, names[number % topics]) for number in self._next(frames))
            for _ in range(reads * connections)
        ]

        async def run() -> int:
            for start in range(0, len(data), connections):
                for client, each in zip(self._clients, data[start : start + connections], strict=False):
                    client.arrive(each)
                await turns(1)
            await turns()
            return reads * connections * frames

        return run

    async def batches(self, reads: int) -> Callable[[], Any]:
        data = [send(number, items=32) for number in self._next(reads * 4)]

        async def run() -> int:
            for start in range(0, len(data), 4):
                for client, each in zip(self._clients, data[start : start + 4], strict=False):
                    client.arrive(each)
                await turns(1)
            return len(data) * 32

        return run

    async def pulls(self, reads: int, subscription: str = "*") -> Callable[[], Any]:
        data = [pull(number, number % 20 * 32, subscription) for number in range(reads)]

        async def run() -> int:
            for number, each in enumerate(data):
                self._clients[number % 4].arrive(each)
            await turns(1)
            return reads * 32

        return run


async def measure_all(broker: Broker) -> dict[str, float]:
    all_of = Scenarios(broker)
    await (await all_of.sends(20, 4, 48))()
    many = await all_of.sends(11, 4, 96, TOPICS)
    await many()
    found = {
        "48 frames a read, 4 connections": await all_of.sends(4, 4, 48),
        "1 frame a read, 16 connections": await all_of.sends(16, 16, 1),
        "1 frame a read, 1 connection": await all_of.sends(128, 1, 1),
        "batches of 32, 4 connections": await all_of.batches(3),
        "pulls of 32": await all_of.pulls(80),
        "pulls of 32 with a tag": await all_of.pulls(80, "TagA"),
        "1 topic, 96 frames a read": await all_of.sends(5, 4, 96),
        f"{TOPICS:,} topics, 96 frames a read": await all_of.sends(11, 4, 96, TOPICS),
    }
    least: dict[str, float] = {}
    for _ in range(TRIES):
        for name, run in found.items():
            began_s = time.thread_time()
            count = await run()
            took_us = (time.thread_time() - began_s) / count * 1e6
            least[name] = min(took_us, least.get(name, took_us))
    return least


async def one() -> None:
    """One round in this process, with the core or without."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-lanes-"))
    settings = BrokerSettings(port=0, store=StoreSettings(flush=Flush.ASYNC))
    broker = Broker(settings, folder, new_server=NoServer)  # type: ignore[arg-type]
    try:
        await broker.start()
        gc.collect()
        gc.freeze()
        gc.disable()
        print(json.dumps(await measure_all(broker)))
        await broker.stop()
    finally:
        shutil.rmtree(folder)


def _child(mode: str) -> dict[str, float]:
    environment = {**os.environ, SWITCH: "1" if mode == "pure" else ""}
    command = [sys.executable, "-m", "benchmarks.bench_lanes", _CHILD]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    least: dict[str, dict[str, float]] = {"pure": {}, "core": {}}
    for _ in range(rounds):
        for mode, known in least.items():
            for name, took_us in _child(mode).items():
                known[name] = min(took_us, known.get(name, took_us))
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}; CPU µs a message, least of {rounds} × {TRIES}")
    print(f"{'':44} {'pure':>8} {'core':>8} {'ratio':>8}")
    for name, pure in least["pure"].items():
        core = least["core"][name]
        print(f"  {name:42} {pure:8.2f} {core:8.2f} {pure / core:7.1f}×")


if __name__ == "__main__":
    if _CHILD in sys.argv:
        import uvloop

        uvloop.run(one())
    else:
        main()
