"""Which connection a send waits for, and for how long."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.model.queue import QueueId
from pyromq.settings import ProducerSettings

QUEUE = QueueId("orders", "broker-a", 0)


@pytest.mark.parametrize(("is_silent", "waits_ms"), [(False, 15_000), (True, 200)])
async def test_a_silent_broker_is_given_a_moment_to_connect_and_others_all_the_time(
    is_silent: bool, waits_ms: int
) -> None:
    link: Any = Mock(ready=None, address="127.0.0.1:10911", connection=AsyncMock())
    client: Any = Mock()
    client.silence.is_silent.side_effect = lambda address: is_silent and address == "127.0.0.1:10911"
    sender = RetryingSender(client, ProducerSettings(), Mock(), "makers")
    await sender.connection(Mock(links={"broker-a": link}), QUEUE, 15_000)
    link.connection.assert_awaited_once_with(timeout_ms=waits_ms)
