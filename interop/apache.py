"""Apache RocketMQ's own name server and broker as child processes on loopback, with small heaps and small files."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.asking import answers, signed
from interop.jars import Jars
from interop.process import Child
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode

_READY_TIMEOUT_S: Final = 480  # a second on a free machine, minutes on a crowded one
_JVM_FLAGS: Final = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # tests are over before the second compiler pays off
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)

SEGMENT_BYTES: Final = 256 * 1024
QUEUE_FILE_ENTRIES: Final = 1_000
INDEX_SLOTS: Final = 1_000
INDEX_ENTRIES: Final = 4_000

BROKER_DEFAULTS: Final[dict[str, str]] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": str(QUEUE_FILE_ENTRIES * 20),
    "maxHashSlotNum": str(INDEX_SLOTS),
    "maxIndexNum": str(INDEX_ENTRIES),
    "maxMessageSize": str(64 * 1024),
    "diskMaxUsedSpaceRatio": "95",
    "autoCreateTopicEnable": "true",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "2000",
    "transactionTimeOut": "2000",
    "waitTimeMillsInSendQueue": "5000",  # a busy machine is not an overloaded broker
    "osPageCacheBusyTimeOutMills": "5000",
}


def java_command(jars: Jars, home: Path, main_class: str, *arguments: str) -> list[str]:
    where = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", f"-Drocketmq.client.logRoot={home / 'logs'}"]
    return ["java", *_JVM_FLAGS, *where, "-cp", jars.class_path, main_class, *arguments]


@dataclass
class ApacheNameServer:
    """``with ApacheNameServer(jars, folder) as server``: listens on ``server.address`` inside the block."""

    jars: Jars
    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "namesrv.conf"
        config.write_text(f"listenPort={self.port}\nkvConfigPath={self.folder / 'kvConfig.json'}\n")
        command = java_command(self.jars, self.folder, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(config))
        self._child = Child("namesrv", command, self.folder)
        self._child.wait_ready(lambda: answers(self.address, RequestCode.GET_BROKER_CLUSTER_INFO), _READY_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop()


@dataclass
class ApacheBroker:
    """A broker on the store in ``folder / 'store'``; ready once the name server knows it."""

    jars: Jars
    folder: Path
    nameserver: str
    options: dict[str, str] = field(default_factory=dict)
    store: Path | None = None
    user: tuple[str, str] | None = None  # who asks whether it is ready, where users are asked for
    port: int = field(default_factory=lambda: free_port(neighbours=(-2, 1)))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def store_folder(self) -> Path:
        return self.store or self.folder / "store"

    def start(self) -> None:
        self._child = Child("broker", self._command(self._write_config()), self.folder)
        self._child.wait_ready(self._is_ready, _READY_TIMEOUT_S)

    def _write_config(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "broker.conf"
        own = {
            "listenPort": str(self.port),
            "fastListenPort": str(self.port - 2),
            "haListenPort": str(self.port + 1),
            "namesrvAddr": self.nameserver,
            "storePathRootDir": str(self.store_folder),
        }
        values = {**BROKER_DEFAULTS, **own, **self.options}
        config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return config

    def _command(self, config: Path) -> list[str]:
        return java_command(self.jars, self.folder, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config))

    def _is_ready(self) -> bool:
        header = signed(None, *self.user) if self.user else None
        return answers(self.address, RequestCode.GET_BROKER_RUNTIME_INFO, header=header) and answers(
            self.nameserver, RequestCode.GET_BROKER_CLUSTER_INFO, self.address.encode()
        )

    def stop(self) -> None:
        self._child.stop()

    def kill(self) -> None:
        self._child.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@dataclass
class ApacheProxy(ApacheBroker):
    """Apache's proxy with its broker in one process (its local mode); ``endpoint`` is where gRPC clients connect."""

    grpc_port: int = field(default_factory=free_port)
    remoting_port: int = field(default_factory=free_port)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def _command(self, config: Path) -> list[str]:
        proxy = self.folder / "proxy.json"
        ports = {"grpcServerPort": self.grpc_port, "remotingListenPort": self.remoting_port}
        proxy.write_text(json.dumps({"rocketMQClusterName": "DefaultCluster", "namesrvAddr": self.nameserver, **ports}))
        words = ["-pm", "local", "-pc", str(proxy), "-bc", str(config), "-n", self.nameserver]
        return java_command(self.jars, self.folder, "org.apache.rocketmq.proxy.ProxyStartup", *words)

    def _is_ready(self) -> bool:
        return super()._is_ready() and listens(self.endpoint)


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False
