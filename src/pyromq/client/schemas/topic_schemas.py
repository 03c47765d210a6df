"""The schema of a topic, for everybody who writes or reads its bodies: looked up once, kept, and renewed.

    source      topic (default)       what the cluster keeps with the topic (``pyromq topic schema set``)
                none                  nothing is looked up
                registry:URL          the newest version of subject TOPIC-value in a schema registry
    kept        namespace PYROMQ_TOPIC_SCHEMAS of the name servers' key-value table: key orders@3, value in base 64 of
                {"payload": "json", "text": "id bigint, …", "compatibility": "backward", "set_ms": …}

The text of a kept schema may be ``registry:URL#SUBJECT`` itself. Nothing is asked for before somebody sends a value or
reads by schema; from then on the client renews what is known each time that it polls its routes. Lookups by ``known``
are reads of a dict, from any thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from pyromq.client.schemas.registry import PREFIX, RegistryError, SchemaRegistry, subject_of
from pyromq.clock import Clock
from pyromq.errors import ConfigError, MQError
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.compatibility import Compatibility
from pyromq.typed.schemas.fields import TEXT_FIELDS, ddl_of
from pyromq.typed.schemas.given import BodySchema, schema_given
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.topic_bodies import TopicBodies

logger = logging.getLogger(__name__)

NAMESPACE: Final = "PYROMQ_TOPIC_SCHEMAS"
TOPIC, NONE = "topic", "none"
AGAIN_MS: Final = 1_000  # a value that does not fit asks for a newer schema, at most so often

AskTable = Callable[[], Awaitable[Mapping[str, str]]]
"""What a name server keeps under ``NAMESPACE``; nothing where it keeps nothing. Raises MQError."""


class TopicSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a topic's schema: ``text`` as it was given, ``payload`` how bodies are written."""

    topic: str
    version: int
    payload: str
    text: str
    compatibility: Compatibility = Compatibility.BACKWARD
    set_ms: int = 0

    @property
    def schema(self) -> BodySchema:
        """The fields; a registry is asked for its own. Raises ConfigError where a class that it names is not there."""
        return self.read(imports=True)

    def read(self, *, imports: bool) -> BodySchema:
        """The fields, as ``schema`` has them; without ``imports`` no module is imported for a class that it names."""
        if self.text.startswith(PREFIX):
            url, subject = subject_of(self.text, self.topic)
            return registry_at(url).body_schema(subject)[1]
        is_text = self.payload == PayloadFormat.TEXT.value
        return BodySchema(TEXT_FIELDS) if is_text else schema_given(self.text, imports=imports)

    @property
    def ddl(self) -> str:
        """The fields in SQL's words."""
        return ddl_of(self.schema.fields)

    @property
    def options(self) -> dict[str, str]:
        """Options of Spark's source and sink that read and write bodies by it."""
        return {"payload": self.payload, "schema": self.text}


def versions_in(table: Mapping[str, str], topic: str, wire_name: str) -> list[TopicSchema]:
    """All versions of a topic's schema in a name server's table, the newest first. Raises ConfigError."""
    found = []
    for key, text in table.items():
        owner, _, number = key.rpartition("@")
        if owner == wire_name and number.isdigit():
            try:
                kept = msgspec.json.decode(base64.b64decode(text), type=dict[str, object])
                found.append(msgspec.convert({**kept, "topic": topic, "version": int(number)}, TopicSchema))
            except (binascii.Error, msgspec.MsgspecError) as error:
                raise ConfigError(f"version {number} of the schema of topic {topic} cannot be read: {error}") from error
    return sorted(found, key=lambda each: -each.version)


_registries: dict[str, SchemaRegistry] = {}


def registry_at(url: str) -> SchemaRegistry:
    """The registry at a URL: one for the process, which remembers schemas by id. Raises ConfigError."""
    found = _registries.get(url)
    if found is None:
        found = _registries[url] = SchemaRegistry(url)
    return found


def bodies_of(kept: list[TopicSchema], *, imports: bool) -> TopicBodies:
    """How bodies are written by the newest of some versions; it may ask a registry, and wait. Raises MQError."""
    newest = kept[0]
    if newest.text.startswith(PREFIX):
        return bodies_by_registry(newest.text, newest.topic)
    payload = PayloadFormat(newest.payload)
    older = list(_older_avro(kept[1:], imports)) if payload is PayloadFormat.AVRO else ()
    return TopicBodies(newest.topic, newest.version, payload, newest.read(imports=imports), older=older)


def _older_avro(kept: list[TopicSchema], imports: bool) -> Iterator[str]:
    """Avro schemas of earlier versions, which messages in the topic may be written with."""
    for each in kept:
        try:
            schema = each.read(imports=imports)
        except ConfigError as error:  # its class is gone
            logger.debug("an older schema is not read: topic=%s version=%d error=%s", each.topic, each.version, error)
            continue
        yield schema.avro or msgspec.json.encode(avro_of_fields(schema.fields)).decode()


def bodies_by_registry(text: str, topic: str) -> TopicBodies:
    """How bodies are written by ``registry:URL#SUBJECT``; it asks and waits. Raises MQError."""
    url, subject = subject_of(text, topic)
    registry = registry_at(url)
    payload, schema = registry.body_schema(subject)
    return TopicBodies(topic, schema.registry_id, payload, schema, writer_of=registry.writer_of)


class TopicSchemas:
    """The schemas of a client's topics, by its ``source``; on the client's loop, but for ``known``."""

    def __init__(self, source: str, ask: AskTable, wire_name: Callable[[str], str], clock: Clock) -> None:
        self._source = source
        self._ask = ask
        self._wire_name = wire_name
        self._clock = clock
        self._known: dict[str, TopicBodies | None] = {}
        self._kept_as: dict[str, list[TopicSchema]] = {}
        self._renewed_ms = -AGAIN_MS
        self._is_refused = False
        self._lock = asyncio.Lock()

    @property
    def is_off(self) -> bool:
        return self._source == NONE

    def is_known(self, topic: str) -> bool:
        """Whether ``known`` says what there is, without asking."""
        return topic in self._known or self._source == NONE

    def known(self, topic: str) -> TopicBodies | None:
        """What is known of the schema of a topic; None where it has none, or nobody asked yet."""
        return self._known.get(topic)

    async def find(self, topic: str) -> TopicBodies | None:
        """The schema of a topic, or None. One that cannot be looked up or read is none, with a line in the log."""
        if not self.is_known(topic):
            async with self._lock:
                if topic not in self._known:
                    await self._renew([topic])
        return self._known.get(topic)

    async def get(self, topic: str) -> TopicBodies | None:
        """The schema of a topic as it is now, or None. Raises MQError where it cannot be looked up or read."""
        if self._source.startswith(PREFIX):
            return await self._by_registry(topic)
        return None if self._source == NONE else await self.kept(topic)

    async def kept(self, topic: str) -> TopicBodies | None:
        """The schema that the cluster keeps with a topic now, whatever the source; or None. Raises MQError."""
        return await self._made(topic, await self._ask(), imports=True)

    async def renew(self) -> None:
        """Look again for the schemas of all topics that somebody asked for."""
        if self._known:
            async with self._lock:
                await self._renew(list(self._known))

    async def renewed(self, topic: str, before: TopicBodies) -> TopicBodies | None:
        """What there is now in the place of a schema that a value does not fit; None where it is the same."""
        if self._clock.monotonic_ms() - self._renewed_ms >= AGAIN_MS:
            await self.renew()
        now = self._known.get(topic)
        return now if now is not None and now.version != before.version else None

    async def _renew(self, topics: list[str]) -> None:
        self._renewed_ms = self._clock.monotonic_ms()
        table: Mapping[str, str] = {}
        try:
            if self._source == TOPIC:
                table = await self._ask()
        except MQError as error:  # sends do not wait for the schema of a name server that is away
            level = logging.DEBUG if self._is_refused else logging.INFO  # once is enough
            self._is_refused = True
            logger.log(level, "schemas of topics not looked up: error=%s", error)
            for topic in topics:
                self._known.setdefault(topic, None)
            return
        for topic in topics:
            try:
                is_registry = self._source.startswith(PREFIX)
                made = self._by_registry(topic) if is_registry else self._made(topic, table, imports=False)
                self._known[topic] = await made
            except Exception as error:  # also a class of the application that cannot be looked at
                expected = isinstance(error, MQError)
                logger.warning("schema of a topic not used: topic=%s error=%s", topic, error, exc_info=not expected)
                self._known.setdefault(topic, None)

    async def _made(self, topic: str, table: Mapping[str, str], *, imports: bool) -> TopicBodies | None:
        kept = versions_in(table, topic, self._wire_name(topic))
        if not kept:
            self._kept_as.pop(topic, None)
            return None
        before = self._known.get(topic)
        if before is not None and self._kept_as.get(topic) == kept and not kept[0].text.startswith(PREFIX):
            return before
        make = partial(bodies_of, kept, imports=imports)
        made = await asyncio.to_thread(make) if kept[0].text.startswith(PREFIX) else make()
        self._kept_as[topic] = kept
        return made

    async def _by_registry(self, topic: str) -> TopicBodies | None:
        try:
            return await asyncio.to_thread(bodies_by_registry, self._source, topic)
        except RegistryError as error:
            if error.status == 404:
                return None
            raise
