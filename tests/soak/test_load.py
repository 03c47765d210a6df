"""What the load makes of acknowledgements of pops that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.aio import MQError
from pyromq.errors import ConnectionLostError, LeaseLostError
from tests.soak.book import DeliveryBook
from tests.soak.load import BATCH, EXPECTED, POPPERS, Recent, SoakLoad, Waits


class Consumer:
    """Its acknowledgements end in this way."""

    def __init__(self, error: MQError | None) -> None:
        self._error = error

    async def ack(self, message: Any) -> None:
        if self._error is not None:
            raise self._error


def lease_lost() -> MQError:
    error: MQError = LeaseLostError.__new__(LeaseLostError)
    return error


@pytest.mark.parametrize(
    ("make", "is_outstanding"),
    [(lambda: None, False), (lambda: ConnectionLostError("reset"), False), (lease_lost, True)],
)
async def test_only_a_lost_lease_brings_a_popped_message_again(
    make: Callable[[], MQError | None], is_outstanding: bool
) -> None:
    book, error = DeliveryBook(EXPECTED), make()
    load = SoakLoad("127.0.0.1:1", Path(), 1.0, Random(1), book, Waits())
    book.acknowledge(BATCH, "a")
    consumer: Any = Consumer(error)
    message: Any = SimpleNamespace(message_id="a")
    if error is None:
        await load._acknowledge(consumer, message)
    else:
        with pytest.raises(type(error)):
            await load._acknowledge(consumer, message)
    assert any(each.group == POPPERS for each in book.outstanding()) == is_outstanding


def test_a_table_of_recent_things_keeps_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.soak.load._KEPT", 3)
    table = Recent[str, int]()
    for number in range(5):
        table.put(f"{number}", number)
    assert table == {"2": 2, "3": 3, "4": 4}
