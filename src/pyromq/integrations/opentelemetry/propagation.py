"""Contexts in messages: the configured propagators write them into properties, and read them there."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from pyromq.aio import Message, ReceivedMessage
from pyromq.errors import MQError

logger = logging.getLogger(__name__)

_PROPERTIES_BYTES_MAX: Final = 30_000  # a record has room for 32 767, some of it for what clients and brokers add


class _Properties(Getter[ReceivedMessage]):
    def get(self, carrier: ReceivedMessage, key: str) -> list[str] | None:
        return None if (value := carrier.get(key)) is None else [value]

    def keys(self, carrier: ReceivedMessage) -> list[str]:
        return list(carrier.properties)


_PROPERTIES: Final = _Properties()
_NO_CONTEXT: Final = Context()


def with_context(message: Message, context: Context | None = None) -> Message:
    """The message with a context, the current one unless set otherwise; one that has a context keeps it.

    For messages that are sent later, and elsewhere: an outbox keeps it with the message. When there is no room among
    the properties, or nothing to write, it is the message itself.
    """
    if creation_context(message) is not None:
        return message
    written: dict[str, str] = {}
    propagate.inject(written, context)
    written = {name: value for name, value in written.items() if value}
    if not written:
        return message
    properties = {**message.properties, **written}
    if sum(len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items()) > _PROPERTIES_BYTES_MAX:
        logger.warning("no room for a trace context among the properties of a message: topic=%s", message.topic)
        return message
    try:
        return msgspec.structs.replace(message, properties=properties)
    except MQError as error:  # what a propagator wrote is no property
        logger.warning("trace context left out of a message: topic=%s error=%s", message.topic, error)
        return message


def creation_context(message: Message) -> trace.SpanContext | None:
    """That of the span in which a message was made, if it carries one."""
    return _valid(propagate.extract(message.properties, _NO_CONTEXT))


def context_of(message: ReceivedMessage) -> Context:
    """What travelled with a message: parent of the spans about it, ``tracer.start_span(…, context=context_of(m))``."""
    return propagate.extract(message, _NO_CONTEXT, _PROPERTIES)


def span_context_of(message: ReceivedMessage) -> trace.SpanContext | None:
    """That of the span in which it was sent, if it carries one."""
    return _valid(context_of(message))


def _valid(context: Context) -> trace.SpanContext | None:
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None
