"""Members of groups as several brokers know them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.errors import BrokerError, ConnectFailedError, GroupOfflineError
from pyromq.operate.consumers.members import MemberFacet
from pyromq.wire.json.heartbeat import ClientConnection, ConsumerConnections

ONE = ClientConnection(client_id="c1", client_addr="10.0.0.9:1", language="PYTHON", version=1)
KNOWN = ConsumerConnections(connection_set=(ONE,))
OFFLINE = GroupOfflineError(code=206, remark="no consumer")
AWAY = ConnectFailedError("refused")


def facet(*answers: ConsumerConnections | Exception) -> MemberFacet:
    """The answer of each broker, by its address."""
    table = {f"broker-{number}:10911": answer for number, answer in enumerate(answers)}

    async def masters() -> list[str]:
        return list(table)

    async def consumer_connections(address: str, group: str) -> ConsumerConnections:
        answer = table[address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    requests = SimpleNamespace(
        client=SimpleNamespace(wire_name=lambda name: name),
        directory=SimpleNamespace(masters=masters),
        brokers=SimpleNamespace(consumer_connections=consumer_connections),
    )
    return MemberFacet(cast("Any", requests), cast("Any", None))


@pytest.mark.parametrize("answers", [(AWAY, KNOWN), (KNOWN, AWAY), (OFFLINE, AWAY, KNOWN)])
async def test_a_broker_that_is_away_is_not_missed_while_another_knows_the_members(
    answers: tuple[ConsumerConnections | Exception, ...],
) -> None:
    assert await facet(*answers).connections_if_any("billing") == KNOWN


async def test_a_group_may_be_connected_to_the_broker_that_is_away() -> None:
    assert await facet(OFFLINE, OFFLINE).connections_if_any("billing") is None
    with pytest.raises(ConnectFailedError):
        await facet(OFFLINE, AWAY).connections_if_any("billing")
    with pytest.raises(BrokerError, match="not for you"):
        await facet(KNOWN, BrokerError(code=16, remark="not for you")).connections_if_any("billing")
