"""Bodies for people, by the schema of their topic: what one says, whether it fits, and texts that become one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import MessageRefusedError, MQError, printable
from pyromq.operate.reading.message_rows import body_of
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA
from pyromq.typed.encoding import Encoded
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.topic_bodies import TopicBodies


class DecodedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body by the schema of its topic: its value as plain JSON values, or the ``problem`` why it has none.

    ``schema`` says which one: ``version 2 (avro)``.
    """

    schema: str
    value: Any = None
    problem: str = ""

    @property
    def text(self) -> str:
        """The value as one line of JSON; empty where there is none."""
        return msgspec.json.encode(self.value).decode() if not self.problem else ""


async def decoded_body(client: Client, topic: str, message: ReceivedMessage) -> DecodedBody | None:
    """What a message says by the schema of its topic; None where that has none, or the message is of another format."""
    bodies = await client.schemas.find(topic)
    if bodies is None:
        return None
    return await asyncio.to_thread(decoded_by, bodies, message) if bodies.is_framed else decoded_by(bodies, message)


def decoded_by(bodies: TopicBodies, message: ReceivedMessage) -> DecodedBody | None:
    """Decode a body where the schema is at hand; a registry may be asked, which is waited for."""
    body, problem = body_of(message)
    if problem or not bodies.is_of(message.get(CONTENT_TYPE)):
        return None
    number = f"id {bodies.version} of the registry" if bodies.is_framed else f"version {bodies.version}"
    schema = f"{number} ({bodies.payload.value})"
    try:
        found = bodies.decode(body, message.get(SCHEMA) or "")
        return DecodedBody(schema=schema, value=msgspec.to_builtins(found))
    except (ValueError, TypeError, MQError) as error:
        return DecodedBody(schema=schema, problem=printable(str(error)))


def body_of_text(bodies: TopicBodies, text: bytes) -> Encoded:
    """The body that a text stands for: JSON that fits the schema, or the text itself. Raises MessageRefusedError."""
    if bodies.payload is PayloadFormat.TEXT:
        return bodies.encode(text.decode("utf-8", "surrogateescape"))
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"topic {bodies.topic} has a schema, and the body is no JSON: {error}"
        raise MessageRefusedError(f"{reason}; --raw sends it as it is") from error
    return bodies.encode(value)
