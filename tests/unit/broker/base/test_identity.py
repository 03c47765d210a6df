from __future__ import annotations

from ipaddress import ip_address

import pytest

from pyromq.broker.base.identity import advertised_host, resolved
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import ConfigError


def test_clients_are_never_told_an_address_that_means_all_of_a_machines() -> None:
    assert advertised_host(BrokerSettings(host="10.0.0.7")) == "10.0.0.7"
    assert advertised_host(BrokerSettings(host="0.0.0.0", advertised_host="mq.example")) == "mq.example"
    on_this_machine = BrokerSettings(host="0.0.0.0", nameservers=("127.0.0.1:9876",))
    assert advertised_host(on_this_machine) == "127.0.0.1"
    for host in ("0.0.0.0", "::"):
        assert not ip_address(advertised_host(BrokerSettings(host=host))).is_unspecified


async def test_a_name_has_an_address_for_message_ids() -> None:
    assert str(await resolved("10.0.0.7")) == "10.0.0.7"
    assert (await resolved("localhost")).is_loopback
    with pytest.raises(ConfigError, match=r"has no address.*set advertised_host"):
        await resolved("x" * 64)  # too long for a name, so no name server is asked
