"""What a heartbeat says of the roles of a client."""

from __future__ import annotations

from pyromq.client.core.roles import ClientRole, ProducerRole, heartbeat_of
from pyromq.wire.json.heartbeat import ProducerData, decode_heartbeat, encode_heartbeat
from tests.unit.client.core.doubles import Consumer


def test_a_heartbeat_tells_every_group_once() -> None:
    roles: list[ClientRole] = [ProducerRole("p2"), Consumer("c"), ProducerRole("p1"), ProducerRole("p1")]
    heartbeat = heartbeat_of("id", roles)
    assert heartbeat is not None
    assert heartbeat.producer_data_set == (ProducerData(group_name="p1"), ProducerData(group_name="p2"))
    assert [data.group_name for data in heartbeat.consumer_data_set] == ["c"]
    assert decode_heartbeat(encode_heartbeat(heartbeat)) == heartbeat
    assert heartbeat_of("id", []) is None
