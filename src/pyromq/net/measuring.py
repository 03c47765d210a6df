"""The metrics that every listening server has."""

from __future__ import annotations

from pyromq.metrics.process_table import CONNECTIONS, HALF_READ, LOOP_STALL_WORST, LOOP_STALLS
from pyromq.metrics.samples import Family
from pyromq.net.server import Server


def server_families(name: str, server: Server) -> list[Family]:
    labels, stalls = (name,), server.stalls
    return [
        Family(CONNECTIONS, [(labels, server.connection_count)]),
        Family(HALF_READ, [(labels, server.half_read.bytes)]),
        Family(LOOP_STALLS, [(labels, stalls.count)]),
        Family(LOOP_STALL_WORST, [(labels, stalls.worst_ms / 1000)]),
    ]
