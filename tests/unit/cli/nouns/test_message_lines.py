"""``consume -o jsonl | send --jsonl``: a message comes out as it went in."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq import Message
from pyromq.cli.nouns.message_lines import message_of_line
from pyromq.cli.output.tables import write_json
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.errors import MessageRefusedError
from pyromq.model import property_names as names
from pyromq.operate.reading.message_rows import row_of
from pyromq.wire.message_id import Host
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, encode_record
from tests.unit.received import received

HOST = Host.parse("127.0.0.1:10911").encode()

texts = st.text('aZ0 \n\r\t\0\x1f\x7f"\\/=|@%é漢🎉\u2028\u200b\ufeff\uffff', min_size=1, max_size=20)
words = texts.filter(lambda text: not any(each.isspace() for each in text))
own_names = texts.filter(lambda name: name not in names.RESERVED)


def as_received(message: Message) -> ReceivedMessage:
    """As a broker stores it and a consumer gets it."""
    properties = {
        **message.properties,
        names.UNIQUE_KEY: "ID-1",
        names.TAGS: message.tags,
        names.KEYS: " ".join(message.keys),
        names.SHARDING_KEY: message.sharding_key,
        names.CLUSTER: "DefaultCluster",
        names.REGION: "DefaultRegion",
        names.CHECKSUM: "0123456789",
    }
    draft = Draft(
        topic=message.topic,
        queue_id=3,
        body=message.body,
        properties=encode_properties({name: value for name, value in properties.items() if value}),
        born_ms=1_700_000_000_000,
        born_host=HOST,
        flag=message.flag,
    )
    record = encode_record(draft, offset=7, position=0, stored_ms=1_700_000_000_005, store_host=HOST, checksum=False)
    return split_messages(record, "broker-a")[0]


def line_of(row: object) -> bytes:
    out = io.StringIO()
    write_json(out, row)
    assert out.getvalue().count("\n") == 1, "a message is a line"
    return out.getvalue().encode()


messages = st.builds(
    Message,
    st.just("orders"),
    st.one_of(st.binary(min_size=1, max_size=200), texts.map(str.encode)),
    tags=st.one_of(st.just(""), texts.filter(lambda text: "|" not in text)),
    keys=st.lists(words, max_size=3).map(tuple),
    properties=st.dictionaries(own_names, texts, max_size=4),
    sharding_key=st.one_of(st.just(""), texts),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
)


@given(messages)
def test_a_message_survives_the_way_through_a_line(message: Message) -> None:
    assert message_of_line(line_of(row_of(as_received(message)))) == message


def test_a_line_says_where_a_message_was() -> None:
    row = json.loads(line_of(row_of(received(b"\xff\x00", keys="a b", tags="new", colour="red"))))
    assert row["keys"] == ["a", "b"] and row["body_base64"] == "/wA=" and "body" not in row
    assert row["properties"]["colour"] == "red" and (row["broker"], row["queue"], row["offset"]) == ("broker-a", 0, 0)


def test_another_topic_may_be_given() -> None:
    line = line_of(row_of(received(b"x", topic="orders")))
    assert (message_of_line(line).topic, message_of_line(line, "copy").topic) == ("orders", "copy")


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ({"delay": "10m"}, "delay_ms", 600_000),
        ({"delay_ms": 5}, "delay_ms", 5),
        ({"deliver_at_ms": 1_800_000_000_000}, "deliver_at_ms", 1_800_000_000_000),
        ({"delay_level": 3}, "delay_level", 3),
        ({"order_key": "o-1"}, "sharding_key", "o-1"),
        ({"keys": "a b"}, "keys", ("a", "b")),
        ({"keys": None, "tags": None, "properties": None}, "keys", ()),
        ({"body": {"id": 1}}, "body", b'{"id":1}'),
        ({"body": "ignored", "body_base64": "/wA="}, "body", b"\xff\x00"),
        ({"properties": {"UNIQ_KEY": "x", "own": "1"}}, "properties", {"own": "1"}),
    ],
)
def test_lines_that_people_write_may_say_more(more: dict[str, object], field: str, value: object) -> None:
    line = json.dumps({"topic": "orders", "body": "x", **more}).encode()
    assert getattr(message_of_line(line), field) == value


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "not a message as JSON"),
        (b"{", "not a message as JSON"),
        (b"\xff", "not a message as JSON"),
        (b"[]", "an object, not a list"),
        (b"5", "an object, not a number"),
        (b"null", "an object, not null"),
        (b'{"body":"x"}', "no topic"),
        (b'{"topic":5,"body":"x"}', "no topic"),
        (b'{"topic":"t"}', "no body"),
        (b'{"topic":"t","body":""}', "empty body"),
        (b'{"topic":"t","body_base64":"!"}', "not base64"),
        (b'{"topic":"t","body_base64":5}', "not base64"),
        (b'{"topic":"t","body":"x","tags":[]}', '"tags" is text, not a list'),
        (b'{"topic":"t","body":"x","keys":5}', '"keys" are text'),
        (b'{"topic":"t","body":"x","keys":[5]}', "key must be text"),
        (b'{"topic":"t","body":"x","properties":[1]}', '"properties" are an object'),
        (b'{"topic":"t","body":"x","properties":{"a":1}}', "must be text"),
        (b'{"topic":"t","body":"x","delay":"soon"}', "a span such as 10m"),
        (b'{"topic":"t","body":"x","delay_ms":true}', "whole number, not true or false"),
        (b'{"topic":"t","body":"x","delay_ms":1,"delay_level":1}', "delayed in one way"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(line: bytes, text: str) -> None:
    with pytest.raises(MessageRefusedError, match=text):
        message_of_line(line)
