"""Bodies for listeners that an annotation alone does not decode: by the schema of their topic, then to the annotation.

JSON, MessagePack, text                         the annotation decodes them, whatever schema the topic has
Avro, Protobuf, for a class without a codec     schema ──▶ dict ──▶ annotation
with an id of a registry before them            the same; JSON without its id is what the annotation decodes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from pyromq.typed.body_errors import body_error
from pyromq.typed.codecs import DATA_ERRORS, codec_of
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA
from pyromq.typed.decoding import decoder_for
from pyromq.typed.hooks import dec_hook
from pyromq.typed.kinds import RAW, is_protobuf, is_pydantic, parts, without_annotated, without_none
from pyromq.typed.schemas.framing import indexed
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.rows import without_id
from pyromq.typed.schemas.topic_bodies import TopicBodies

RuleOf = Callable[[str], TopicBodies | None]
"""The schema of a topic, as far as it is known."""
_ALONE: Final = (PayloadFormat.JSON, PayloadFormat.MSGPACK, PayloadFormat.TEXT)


class MessageWithTopic(Protocol):
    """What is asked of a message."""

    @property
    def topic(self) -> str: ...

    def get(self, name: str, /) -> str | None: ...


def decoder_by_schema(annotation: Any, rule_of: RuleOf) -> Callable[[bytes, Any], Any]:
    """Makes values of a type from bodies, with the schema where it takes one. Raises ConfigError.

    What it returns raises BodyError, and what a registry raises that cannot be asked.
    """
    plain, single = decoder_for(annotation), without_none(annotation)
    if without_annotated(annotation) in RAW:
        return plain
    is_own = is_protobuf(single) or codec_of(single) is not None
    convert = _converter(annotation)

    def decode(body: bytes, message: MessageWithTopic) -> Any:
        rule, content_type = rule_of(message.topic), message.get(CONTENT_TYPE)
        if rule is None or not rule.is_of(content_type):
            return plain(body, message)
        if not rule.is_framed and (is_own or rule.payload in _ALONE):
            return plain(body, message)
        try:
            if rule.payload is PayloadFormat.JSON:
                return plain(without_id(body), message)
            if is_protobuf(single):
                return plain(body[indexed(body)[1] :], message)
            return convert(rule.decode(body, message.get(SCHEMA) or ""))
        except DATA_ERRORS as error:
            raise body_error(annotation, body, error, content_type) from error

    return decode


def _converter(annotation: Any) -> Callable[[Any], Any]:
    if any(map(is_pydantic, parts(annotation))):
        from pydantic import TypeAdapter

        validate: Callable[[Any], Any] = TypeAdapter(annotation).validate_python
        return validate
    return lambda value: msgspec.convert(value, annotation, dec_hook=dec_hook)
