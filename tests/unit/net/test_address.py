from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.net import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("[::1]:9876", "::1", 9876),
        ("fe80::1:9876", "fe80::1", 9876),
        (" broker-a.example:0 ", "broker-a.example", 0),
    ],
)
def test_an_address_splits_at_its_last_colon(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert address == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "9876", ":9876", "host:", "host:-1", "host:65536", "host:٣", "host:1x"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        Address.parse(text)
