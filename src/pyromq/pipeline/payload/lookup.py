"""Schemas that are not given but looked up, on the driver when a query starts: workers get what was found.

schema = topic                  what the cluster keeps with the topic (``pyromq topic schema set``)
         registry:URL           the newest version of subject TOPIC-value in a schema registry
         registry:URL#SUBJECT   of that subject
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyromq.client.schemas.topic_schemas import bodies_by_registry
from pyromq.errors import ConfigError
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.option_texts import OF_TOPIC, is_looked_up
from pyromq.pipeline.core.options import SourceOptions
from pyromq.typed.schemas.fields import ddl_of
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.topic_bodies import TopicBodies

logger = logging.getLogger(__name__)


def with_schema(options: SourceOptions) -> SourceOptions:
    """The options with the schema that they say is elsewhere. Raises OptionError, and what asking raises."""
    payload, found = looked_up(options, options.payload, options.schema, options.topics)
    return options if found is None else replace(options, payload=payload, body_schema=found)


def looked_up(
    reaching: SourceOptions, payload: PayloadFormat | None, schema: str, topics: Sequence[str]
) -> tuple[PayloadFormat | None, BodySchema | None]:
    """How bodies of topics are written, and their schema where it has to be looked up, else None. Raises as
    ``with_schema`` does.
    """
    if not is_looked_up(schema):
        return payload, None
    found = [_of_topic(reaching, schema, topic) for topic in topics or ("",)]
    first, *others = found
    if unlike := [
        each for each in others if (each.payload, each.schema.fields) != (first.payload, first.schema.fields)
    ]:
        text = f"topics {first.topic} and {unlike[0].topic} have different schemas: read them one by one"
        raise OptionError("schema", f"{text} ({ddl_of(first.schema.fields)}; {ddl_of(unlike[0].schema.fields)})")
    if payload is not None and payload is not first.payload:
        text = f"bodies of topic {first.topic} are {first.payload.value} by its schema, not {payload.value}"
        raise OptionError("payload", f"{text}: leave this option out")
    logger.info("schema looked up: topic=%s version=%d payload=%s", first.topic, first.version, first.payload.value)
    return first.payload, first.schema


def _of_topic(reaching: SourceOptions, schema: str, topic: str) -> TopicBodies:
    try:
        if schema != OF_TOPIC:
            return bodies_by_registry(schema, topic)
        connected = connect(reaching)
        found = connected.call(connected.client.schemas.kept(topic))
    except ConfigError as error:
        raise OptionError("schema", str(error)) from error
    if found is None:
        raise OptionError("schema", f"topic {topic} has none: pyromq topic schema set {topic} SCHEMA")
    return found
