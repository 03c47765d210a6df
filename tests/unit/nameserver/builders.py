"""Registrations and requests for the tests here, short to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.nameserver.members import BrokerProcess, Registration
from pyromq.wire.command import Command, decode_command, encode_command
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.json.registration import BrokerRegistration, RegisteredTopics, encode_registration
from pyromq.wire.received import Received, decode_received

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


def member(broker: str = "broker-a", broker_id: int = 0, address: str = A, cluster: str = "c1") -> BrokerProcess:
    return BrokerProcess(cluster=cluster, broker=broker, broker_id=broker_id, address=address)


def version(counter: int = 1, state: int = 0) -> DataVersion:
    return DataVersion(counter=counter, state_version=state, timestamp=1_700_000_000_000)


def topics(*names: str, **fields: Any) -> dict[str, TopicConfig]:
    settings = {"read_queue_nums": 4, "write_queue_nums": 4, **fields}
    return {name: TopicConfig(topic_name=name, **settings) for name in names}


def registration(
    who: BrokerProcess | None = None, *names: str, table: Mapping[str, TopicConfig] | None = None, **fields: Any
) -> Registration:
    """A member with those topics, T1 and T2 unless told otherwise."""
    given = topics(*(names or ("T1", "T2"))) if table is None else table
    return Registration(member=who or member(), topics=given, **{"data_version": version(), **fields})


def register_ext(who: BrokerProcess | None = None, **ext: str) -> dict[str, str]:
    who = who or member()
    return {
        "brokerName": who.broker,
        "brokerAddr": who.address,
        "clusterName": who.cluster,
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": str(who.broker_id),
        **ext,
    }


def register_body(*names: str, compressed: bool = False, peer_version: int = 479, counter: int = 1) -> bytes:
    table = RegisteredTopics(data_version=version(counter), topic_config_table=topics(*(names or ("T1", "T2"))))
    return encode_registration(BrokerRegistration(topics=table), compressed=compressed, version=peer_version)


def request(
    code: int,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    peer_version: int = 479,
    oneway: bool = False,
    serialize_type: SerializeType = SerializeType.JSON,
) -> Received[Any]:
    """A request as it arrives: encoded and decoded again. Raises HeaderFieldError like a connection would."""
    command = Command(
        code=code,
        correlation_id=7,
        flag=2 if oneway else 0,
        version=peer_version,
        ext=dict(ext or {}),
        body=body,
        serialize_type=serialize_type,
    )
    return decode_received(frame_of(encode_command(command)))


def answer_of(data: bytes | None) -> Command:
    assert data is not None, "no response"
    return decode_command(frame_of(data))


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame
