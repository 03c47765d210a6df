"""Large tables are written by msgspec alone: the bytes are those of ``java_json``, in the order of Java."""

from __future__ import annotations

import pytest

from pyromq.model.topic import DataVersion, TopicConfig, TopicFilterType
from pyromq.nameserver.kv_file import KvTable, encode_kv
from pyromq.wire.codes import VERSION
from pyromq.wire.frame import Frame, SerializeType
from pyromq.wire.header_errors import UndecodableHeaderError
from pyromq.wire.json import java_json
from pyromq.wire.json.registration import BrokerRegistration, RegisteredTopics, encode_registration
from pyromq.wire.json.route import TopicList, encode_topics
from pyromq.wire.received import HEADER_BYTES_DECODED_MAX, decode_received

NAMES = ["b", "%RETRY%a", "a|b", "Z", 'quo"te', "grün", "back\\slash", "sl/ash", "\u2028"]


@pytest.mark.parametrize("version", [VERSION, 36])
def test_a_registration(version: int) -> None:
    configs = {
        name: TopicConfig(
            topic_name=name, topic_filter_type=TopicFilterType.MULTI_TAG, attributes={"z": name, "a": "1"}, order=True
        )
        for name in NAMES
    }
    topics = RegisteredTopics(data_version=DataVersion(counter=3, timestamp=5), topic_config_table=configs)
    registration = BrokerRegistration(topics=topics, filter_server_list=["s:1"])
    value = registration if version == VERSION else topics
    assert encode_registration(registration, version=version) == java_json.dumps(value)


@pytest.mark.parametrize("address", [None, "10.0.0.1:10911"])
def test_a_list_of_topics(address: str | None) -> None:
    topics = TopicList(topic_list=NAMES, broker_addr=address)
    assert encode_topics(topics) == java_json.dumps(topics)


def test_key_value_configuration() -> None:
    table = KvTable(config_table={name: {"z": "1", "a": name} for name in NAMES})
    assert encode_kv(table) == java_json.dumps(table)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_headers_that_are_decoded_field_by_field_are_bounded(serialize_type: SerializeType) -> None:
    with pytest.raises(UndecodableHeaderError, match="field by field"):
        decode_received(Frame(serialize_type, bytes(HEADER_BYTES_DECODED_MAX + 1)))
