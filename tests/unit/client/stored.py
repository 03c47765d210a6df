"""Received messages for tests, made from stored bytes."""

from __future__ import annotations

from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.wire.message_id import Host
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, encode_record

HOST = Host.parse("10.0.0.1:10911").encode()


def received(
    *,
    topic: str = "orders",
    unique_key: str = "ID",
    offset: int = 7,
    position: int = 4096,
    queue: int = 3,
    stored_ms: int = 22,
    attempt: int = 0,
    broker: str = "broker-a",
    body: bytes = b"hello",
    **properties: str,
) -> ReceivedMessage:
    draft = Draft(
        topic=topic,
        body=body,
        queue_id=queue,
        born_ms=11,
        flag=0,
        delivery_attempt=attempt,
        properties=encode_properties({"UNIQ_KEY": unique_key, **properties}),
    )
    data = encode_record(draft, offset=offset, position=position, stored_ms=stored_ms, store_host=HOST)
    (message,) = split_messages(data, broker)
    return message
