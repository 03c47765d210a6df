"""Watched connections."""

from __future__ import annotations

from pyromq.net import Address
from pyromq.net.client import RefusingHandler
from pyromq.net.idle import IdleWatch
from pyromq.net.settings import ConnectionSettings
from pyromq.testing import ManualClock
from pyromq.testing.traffic.watched_server import WatchedConnection


async def test_no_fast_path_takes_requests_before_the_watcher_has_seen_them() -> None:
    clock = ManualClock()
    remote = Address("10.0.0.1", 4000)
    settings = ConnectionSettings(idle_ms=0)
    connection = WatchedConnection(RefusingHandler(), clock, settings, IdleWatch(clock, 0), remote, is_server=True)
    connection.use_fast_path(lambda connection, data: len(data))
    assert not connection.has_fast_path
