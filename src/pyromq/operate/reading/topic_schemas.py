"""Schemas of topics: kept with the cluster, in versions, each checked against the one before it.

    namespace   PYROMQ_TOPIC_SCHEMAS of the name servers' key-value table, which PyroMQ's and Apache's have
    key         orders@3                     topic and version, from 1 on
    value       {"payload": "json", "text": "id bigint, …", "compatibility": "backward", "set_ms": …}

All name servers are written. Two who set a schema of one topic at the same moment may write the same version: the later
one stays.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.schemas.registry import PREFIX
from pyromq.client.schemas.topic_schemas import NAMESPACE, TopicSchema, bodies_by_registry, versions_in
from pyromq.errors import ConfigError, NotFoundError
from pyromq.model.names import validate_topic
from pyromq.typed.schemas.compatibility import Compatibility, breaks
from pyromq.typed.schemas.fields import Fields
from pyromq.wire.codes import ResponseCode

PAYLOADS: Final = ("json", "avro", "protobuf", "msgpack", "text")
TEXT_MAX: Final = 16_384  # a header of a request has 64 KiB


class SchemaNotFoundError(NotFoundError):
    """A topic that has no schema, or not in that version."""


class SchemaRefusedError(ConfigError):
    """A schema that would break readers; ``problems`` are the reasons."""

    def __init__(self, topic: str, promise: Compatibility, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"the schema of topic {topic} shall stay compatible ({promise}): {'; '.join(problems)}")


def _public(text: str) -> str:
    """The text. Raises ConfigError for a password in it: everybody who reads the schema would have it."""
    if "@" in text.partition("#")[0]:
        raise ConfigError("who asks the registry is not kept with the topic: clients have PYROMQ_REGISTRY for it")
    return text


class SchemaFacet:
    """``admin.schemas``: what bodies of a topic look like, by agreement."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.nameservers
        self._clock = requests.client.clock
        self._wire_name = requests.client.wire_name

    async def versions(self, topic: str) -> list[TopicSchema]:
        """Return all versions, the newest first; none where nobody set one."""
        name = self._wire_name(validate_topic(topic))
        return versions_in(await self._requests.kv(NAMESPACE), topic, name)

    async def get(self, topic: str, version: int | None = None) -> TopicSchema:
        """Return the newest version, or that one. Raises SchemaNotFoundError."""
        for each in await self.versions(topic):
            if version in (None, each.version):
                return each
        which = f"no version {version} of its schema" if version is not None else "no schema"
        remark = f"topic {topic} has {which}: pyromq topic schema set {topic} SCHEMA"
        raise SchemaNotFoundError(code=ResponseCode.QUERY_NOT_FOUND, remark=remark)

    async def check(self, topic: str, text: str, compatibility: Compatibility | None = None) -> list[str]:
        """Return what a schema would break, in words. Raises ConfigError for what is no schema."""
        known = await self.versions(topic)
        new = await self._fields(
            TopicSchema(topic=topic, version=0, payload=known[0].payload if known else "", text=text)
        )
        if not known:
            return []
        promise = compatibility if compatibility is not None else known[0].compatibility
        return breaks(await self._fields(known[0]), new, promise)

    async def _fields(self, schema: TopicSchema) -> Fields:
        """Those of a version; a registry is asked on a thread. Raises ConfigError, RegistryError."""
        is_remote = schema.text.startswith(PREFIX)
        return (await asyncio.to_thread(lambda: schema.schema) if is_remote else schema.schema).fields

    async def set(
        self, topic: str, text: str, *, payload: str = "", compatibility: Compatibility | None = None
    ) -> TopicSchema:
        """Keep a schema as the next version; the same text again makes none. What is not given stays as it was.

        Raises SchemaRefusedError, ConfigError.
        """
        known = await self.versions(topic)
        before = known[0] if known else None
        promise = compatibility or (before.compatibility if before else Compatibility.BACKWARD)
        kind = payload or (before.payload if before else "json")
        if text.startswith(PREFIX):
            kind = payload or (await asyncio.to_thread(bodies_by_registry, _public(text), topic)).payload.value
        if kind not in PAYLOADS:
            raise ConfigError(f"payload {kind!r} is not one of {', '.join(PAYLOADS)}")
        if len(text) > TEXT_MAX:
            raise ConfigError(f"the schema has {len(text):,} characters, more than {TEXT_MAX:,}: name a class instead")
        if problems := await self.check(topic, text, promise):
            raise SchemaRefusedError(topic, promise, problems)
        if before and kind != before.payload and promise is not Compatibility.NONE:
            raise SchemaRefusedError(topic, promise, [f"bodies were {before.payload}, and would be {kind}"])
        if before and (before.text, before.payload, before.compatibility) == (text, kind, promise):
            return before
        new = TopicSchema(
            topic=topic, version=before.version + 1 if before else 1, payload=kind, text=text, compatibility=promise,
            set_ms=self._clock.now_ms(),
        )  # fmt: skip
        kept = {name: value for name, value in msgspec.to_builtins(new).items() if name not in ("topic", "version")}
        key = f"{self._wire_name(topic)}@{new.version}"
        await self._requests.put_kv(NAMESPACE, key, base64.b64encode(msgspec.json.encode(kept)).decode())
        return new

    async def delete(self, topic: str) -> int:
        """Forget all versions; return how many there were."""
        known = await self.versions(topic)
        for each in known:
            await self._requests.delete_kv(NAMESPACE, f"{self._wire_name(topic)}@{each.version}")
        return len(known)
