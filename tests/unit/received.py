"""Messages as they arrive from a broker, without one."""

from __future__ import annotations

from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.model import property_names as names
from pyromq.wire.message_id import Host
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, encode_record

_HOST = Host.parse("127.0.0.1:10911").encode()


def received(
    body: bytes = b"x",
    *,
    topic: str = "orders",
    unique_id: str = "ID-1",
    keys: str = "",
    tags: str = "",
    born_ms: int = 1_700_000_000_000,
    **properties: str,
) -> ReceivedMessage:
    given = {names.UNIQUE_KEY: unique_id, names.KEYS: keys, names.TAGS: tags, **properties}
    draft = Draft(
        topic=topic,
        queue_id=0,
        body=body,
        properties=encode_properties({name: value for name, value in given.items() if value}),
        born_ms=born_ms,
        born_host=_HOST,
    )
    record = encode_record(draft, offset=0, position=0, stored_ms=born_ms, store_host=_HOST, checksum=False)
    return split_messages(record, "broker-a")[0]
