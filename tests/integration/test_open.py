"""``open()`` gives what was opened, of every client alike: ``producer = Producer(…).open()``."""

from __future__ import annotations

from typing import Any

import pytest

import pyromq
from pyromq import TransactionOutcome, aio
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration

OPENED: list[tuple[str, dict[str, Any]]] = [
    ("Client", {}),
    ("Admin", {}),
    ("Producer", {"group": "g"}),
    ("PullConsumer", {"group": "g", "topics": "orders"}),
    ("PushConsumer", {"group": "g", "topics": "orders", "listener": lambda message: None}),
    ("TransactionProducer", {"group": "g", "topics": "orders", "check": lambda message: TransactionOutcome.COMMIT}),
]


@pytest.mark.parametrize(("name", "options"), OPENED)
def test_open_returns_what_it_opened(name: str, options: dict[str, Any]) -> None:
    with LoopbackBroker() as broker:
        made = getattr(pyromq, name)(broker.nameserver, **options)
        assert made.open() is made
        made.close()


@pytest.mark.parametrize(("name", "options"), OPENED)
async def test_open_returns_what_it_opened_on_asyncio(name: str, options: dict[str, Any]) -> None:
    async with LoopbackBroker() as broker:
        made = getattr(aio, name)(broker.nameserver, **options)
        assert await made.open() is made
        await made.close()


def test_a_broker_for_tests_does_so_too() -> None:
    broker = LoopbackBroker()
    assert broker.open() is broker
    broker.close()
