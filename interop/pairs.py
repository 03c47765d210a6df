"""A master and a replica of either make, as processes that start, stop and die alike."""

from __future__ import annotations

import sys
from pathlib import Path

from interop.apache import ApacheBroker
from interop.asking import answers
from interop.jars import Jars
from interop.process import Child, python_path
from interop.pyromq_server import SMALL_STORE
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode

_READY_S = 60


class OurBroker:
    """``pyromq broker`` with the interface of ``ApacheBroker``."""

    def __init__(self, folder: Path, nameserver: str, options: dict[str, str]) -> None:
        self.folder, self.nameserver, self.options = folder, nameserver, options
        self.port = free_port(neighbours=(-2, 1))
        self._child: Child | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        store = SMALL_STORE
        settings = {
            "store.segment_bytes": store.segment_bytes,
            "store.queue_file_entries": store.queue_file_entries,
            "store.full_percent": 100,
            "metrics.enabled": "false",
            **self.options,
        }
        sets = [word for name, value in settings.items() for word in ("--set", f"broker.{name}={value}")]
        command = [sys.executable, "-m", "pyromq", "broker", "--data", str(self.folder / "store")]
        command += ["--port", str(self.port), "--nameserver", self.nameserver, *sets]
        self._child = child = Child("broker", command, self.folder, env={"PYTHONPATH": python_path()})
        child.wait_ready(lambda: answers(self.address, RequestCode.GET_BROKER_RUNTIME_INFO), _READY_S)

    def stop(self) -> None:
        assert self._child is not None
        self._child.stop()

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()


def a_broker(make: str, jars: Jars, folder: Path, nameserver: str, *, master: bool) -> ApacheBroker | OurBroker:
    options = role_of(make, master=master)
    return (
        ApacheBroker(jars, folder, nameserver, options) if make == "apache" else OurBroker(folder, nameserver, options)
    )


def role_of(make: str, *, master: bool) -> dict[str, str]:
    """Settings of a master that has replicas and does not wait for them, or of a replica; clients may read it."""
    if make == "apache":
        role = {"brokerRole": "ASYNC_MASTER", "brokerId": "0"} if master else {"brokerRole": "SLAVE", "brokerId": "1"}
        return role | {"slaveReadEnable": "true"}
    role = {"replication.role": "async-master" if master else "replica", "broker_id": "0" if master else "1"}
    return role | {"replication.replica_reads": "true"}
