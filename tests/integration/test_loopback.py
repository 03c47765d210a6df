from __future__ import annotations

import socket

import pytest

from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json.route import decode_route

pytestmark = pytest.mark.integration


def test_a_broker_may_be_opened_and_closed_without_a_block() -> None:
    broker = LoopbackBroker(delay_levels_ms=(20,) * 18)
    broker.open()
    try:
        socket.create_connection(Address.parse(broker.address), 5).close()
        assert broker.broker.store.settings.delay_ladder_ms == (20,) * 18
    finally:
        broker.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(Address.parse(broker.address), 5)


def test_a_broker_in_a_thread_listens_inside_the_block_only() -> None:
    with LoopbackBroker() as broker:
        address = Address.parse(broker.address)
        socket.create_connection(address, 5).close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(address, 5)


async def test_a_broker_on_the_running_loop_is_registered_with_its_name_server() -> None:
    async with LoopbackBroker() as broker:
        connection = await open_connection(Address.parse(broker.nameserver), clock=SystemClock())
        answer = await connection.request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicHeader(topic="TBW102"), timeout_ms=3_000
        )
        served_by = decode_route(answer.body).broker("broker-a")
        assert served_by is not None and served_by.master_addr == broker.address
        connection.close()
