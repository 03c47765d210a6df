from __future__ import annotations

from selectors import DefaultSelector
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

from pyromq.net import Connection
from pyromq.testing.bytes_under_way import BytesUnderWay


class End:
    """A transport and its connection."""

    def __init__(self, here: int, there: int) -> None:
        self._names = {"sockname": ("127.0.0.1", here), "peername": ("127.0.0.1", there)}
        self.connection = Mock(spec=Connection)
        self.connection.bytes_in = self.connection.bytes_out = 0

    def get_protocol(self) -> Any:
        return self.connection

    def get_extra_info(self, name: str) -> Any:
        return self._names[name]


def test_bytes_count_until_the_other_end_has_them() -> None:
    client, server = End(1, 2), End(2, 1)
    transports = {3: client, 4: server}
    under_way = BytesUnderWay(cast(Any, SimpleNamespace(_transports=transports)), DefaultSelector())
    assert not under_way.any()
    client.connection.bytes_out = 100
    assert under_way.any()
    server.connection.bytes_in = 60
    assert under_way.any()
    server.connection.bytes_in = 100
    assert not under_way.any()
    del transports[4]  # its end has not been heard of by the other
    assert under_way.any()


def test_a_peer_that_does_not_read_is_given_up_until_something_changes() -> None:
    client, server = End(1, 2), End(2, 1)
    under_way = BytesUnderWay(cast(Any, SimpleNamespace(_transports={3: client, 4: server})), DefaultSelector())
    client.connection.bytes_out = 100
    assert under_way.any()
    under_way.give_up()
    assert not under_way.any()
    client.connection.bytes_out = 101
    assert under_way.any()
