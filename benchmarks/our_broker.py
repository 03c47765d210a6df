"""Our broker as a process: with the compiled core or without, of this checkout or of another one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyromq.compiled_core import SWITCH, core
from pyromq.testing import ServerProcess

MODES = ("core", "pure") if core else ("pure",)
STOP_S = 30


@dataclass(frozen=True, slots=True)
class OurBroker:
    pid: int
    nameserver: str
    port: int
    ready_s: float  # from its start


@contextmanager
def our_broker(flush: str, mode: str, *, source: str = "") -> Iterator[OurBroker]:
    """Broker and name server on free ports, with a folder that is gone afterwards; ``source`` is another ``src``."""
    environment = {SWITCH: "1" if mode == "pure" else "", **({"PYTHONPATH": source} if source else {})}
    started = time.perf_counter()
    with ServerProcess("up", "--flush", flush, env=environment) as server:
        port = int(server.broker.rpartition(":")[2])
        yield OurBroker(server.pid, server.nameserver, port, time.perf_counter() - started)
        server.stop()
