"""PyroMQ's own name server and broker as one child process, with the same small files as Apache's in these tests."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop import apache
from interop.asking import answers, signed
from interop.process import Child, python_path
from pyromq.broker.base.settings import BrokerSettings, GrpcSettings
from pyromq.compiled_core import SWITCH
from pyromq.model.delay_levels import parse_ladder
from pyromq.nameserver.settings import NameServerSettings
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.standalone import run_up
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode

_READY_TIMEOUT_S: Final = 90

SMALL_STORE: Final = StoreSettings(
    segment_bytes=apache.SEGMENT_BYTES,
    queue_file_entries=apache.QUEUE_FILE_ENTRIES,
    index_slots=apache.INDEX_SLOTS,
    index_entries=apache.INDEX_ENTRIES,
    body_bytes_max=64 * 1024,
    flush=Flush.ASYNC,
)


@dataclass
class PyroMQServer:
    """``with PyroMQServer(folder) as server``: both listen inside the block."""

    folder: Path
    port: int = field(default_factory=lambda: free_port(neighbours=(-2, 1)))
    nameserver_port: int = field(default_factory=free_port)
    ladder: str = ""
    user: tuple[str, str] | None = None  # with one there is access control, and this is its super user
    grpc_port: int | None = None  # None: 8081, or another one
    is_pure: bool = False  # without the compiled core
    check_ms: int = 2_000  # when, and how often, the end of a transaction is asked for

    @property
    def nameserver(self) -> str:
        return f"127.0.0.1:{self.nameserver_port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def store_folder(self) -> Path:
        return self.folder / "store"

    def start(self) -> None:
        ports = [str(self.nameserver_port), str(self.port)]
        command = [sys.executable, "-m", "interop.pyromq_server", *ports, str(self.store_folder), self.ladder]
        command += [str(self.grpc_port or ""), str(self.check_ms), *(self.user or ())]
        environment = {"PYTHONPATH": python_path()} | ({SWITCH: "1"} if self.is_pure else {})
        self._child = Child("pyromq", command, self.folder, env=environment)
        self._child.wait_ready(self._is_ready, _READY_TIMEOUT_S)

    def _is_ready(self) -> bool:
        header = signed(None, *self.user) if self.user else None
        return answers(self.nameserver, RequestCode.GET_BROKER_CLUSTER_INFO, self.address.encode(), header=header)

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


def main(nameserver_port: str, port: str, folder: str, ladder: str, grpc_port: str, check_ms: str, *user: str) -> None:
    access = AccessSettings()
    if user:
        first = json.dumps({"username": user[0], "password": user[1]})
        access = AccessSettings(enabled=True, initial_user=Secret(first))
    names = NameServerSettings(port=int(nameserver_port), access=access)
    store = replace(SMALL_STORE, delay_ladder_ms=parse_ladder(ladder)) if ladder else SMALL_STORE
    broker = BrokerSettings(
        port=int(port),
        access=access,
        store=store,
        trace_topic=bool(ladder),
        grpc=GrpcSettings(port=int(grpc_port) if grpc_port else None),
        transaction_timeout_ms=int(check_ms),
        transaction_check_interval_ms=int(check_ms),
    )
    run_up(names, broker, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
