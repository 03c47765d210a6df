"""A master that hands over answers questions about itself until it is a replica."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.clock import SystemClock
from pyromq.replication.leader import Leader
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.testing import FaultyDisk

pytestmark = pytest.mark.integration


async def test_no_address_is_named_while_replicas_get_the_rest_and_nobody_can_connect_any_more() -> None:
    with MessageStore.open(Path("/store"), disk=FaultyDisk()) as store:
        leader = Leader(store, ReplicationSettings(role=Role.SYNC_MASTER), SystemClock())
        assert not leader.is_listening
        await leader.start(0)
        assert leader.is_listening and leader.address.port
        seen: list[bool] = []

        async def send_all() -> None:
            await asyncio.sleep(0)
            seen.append(leader.is_listening)

        leader._send_all = send_all  # type: ignore[method-assign]
        await leader.stop()
        assert seen == [False], "its port is closed already: whoever asks for the status gets an answer all the same"
