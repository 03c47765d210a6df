"""Apache's proxy with its broker, and our broker, as gRPC clients see them; on fixed ports, so both can restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interop.apache import ApacheNameServer, ApacheProxy
from interop.jars import Jars
from interop.pyromq_server import PyroMQServer
from interop.world import Cluster
from pyromq.testing import free_port

MAKES: Final = ("apache", "pyromq")
GrpcServer = ApacheProxy | PyroMQServer
_OPTIONS: Final = {
    "recallMessageEnable": "true",
    "timerPrecisionMs": "100",
    "autoCreateTopicEnable": "false",
    "flushDiskType": "SYNC_FLUSH",  # an acknowledgement says that it is durable, as ours does
}


@contextmanager
def grpc_server(make: str, jars: Jars, folder: Path) -> Iterator[tuple[Cluster, GrpcServer]]:
    """A running server, and how to reach it."""
    if make == "pyromq":
        with PyroMQServer(folder, grpc_port=free_port()) as ours:
            yield Cluster(make, ours.nameserver, ours.address, ours.endpoint), ours
        return
    with ApacheNameServer(jars, folder / "namesrv") as names:
        theirs = ApacheProxy(jars, folder / "proxy", names.address, options=_OPTIONS)
        theirs.start()
        try:
            yield Cluster(make, names.address, theirs.address, theirs.endpoint), theirs
        finally:
            theirs.kill()
