"""Apache RocketMQ's broker or proxy as a process, with the heap and the compilers that servers have."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.jars import Jars

from pyromq.aio import Admin
from pyromq.testing import free_port

_JVM = (
    "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)  # fmt: skip
_NAMES, _BROKER = "org.apache.rocketmq.namesrv.NamesrvStartup", "org.apache.rocketmq.broker.BrokerStartup"
_PROXY = "org.apache.rocketmq.proxy.ProxyStartup"


@dataclass(frozen=True, slots=True)
class ApacheServer:
    """Running, and ready for the topics that were asked for."""

    nameserver: str
    port: int  # of the broker
    grpc_port: int  # of the proxy, 0 without
    pid: int
    names_pid: int
    ready_s: float  # from its start


@contextmanager
def apache_server(
    folder: Path, flush: str, jars: Jars, topics: dict[str, int], *, proxy: bool = False
) -> Iterator[ApacheServer]:
    """A name server and a broker, or the proxy with its broker in one process (local mode); topics and their queues."""
    folder.mkdir()
    names_port, port = free_port(), free_port(neighbours=(-2, 1))
    grpc_port = free_port() if proxy else 0
    nameserver = f"127.0.0.1:{names_port}"
    values = {
        "brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1",
        "listenPort": port, "namesrvAddr": nameserver, "storePathRootDir": folder / "store",
        "flushDiskType": "SYNC_FLUSH" if flush == "sync" else "ASYNC_FLUSH",
    }  # fmt: skip
    (folder / "names.conf").write_text(f"listenPort={names_port}\n")
    (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    names_words, broker_words = (["-c", str(folder / name)] for name in ("names.conf", "broker.conf"))
    if proxy:
        ports = {"grpcServerPort": grpc_port, "remotingListenPort": free_port()}
        own = {"rocketMQClusterName": "DefaultCluster", "namesrvAddr": nameserver, **ports}
        (folder / "proxy.json").write_text(json.dumps(own))
        where = ["-pm", "local", "-pc", str(folder / "proxy.json"), "-bc", str(folder / "broker.conf")]
        main, words = _PROXY, [*where, "-n", nameserver]
    else:
        main, words = _BROKER, broker_words
    started = time.perf_counter()
    with (folder / "log").open("w") as log:
        processes = [
            subprocess.Popen(_java(jars, folder, *each), stdout=log, stderr=log)
            for each in ((_NAMES, *names_words), (main, *words))
        ]
    try:
        asyncio.run(until_topics_are_made(nameserver, topics))
        ready_s = time.perf_counter() - started
        names, server = (process.pid for process in processes)
        yield ApacheServer(nameserver, port, grpc_port, server, names, ready_s)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _java(jars: Jars, folder: Path, main_class: str, *words: str) -> list[str]:
    where = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
    return ["java", *_JVM, *where, "-cp", jars.class_path, main_class, *words]


async def until_topics_are_made(nameserver: str, topics: dict[str, int]) -> None:
    """Started means: a client that knows only the name server can make a topic."""
    deadline = time.monotonic() + 120
    host, _, port = nameserver.partition(":")
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            async with Admin(nameserver) as admin:
                for topic, queues in topics.items():
                    await admin.topics.create(topic, queues=queues)
                return
        except Exception:
            await asyncio.sleep(0.02)
    raise SystemExit(f"no broker was ready at {nameserver} within two minutes")
