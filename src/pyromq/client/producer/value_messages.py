"""Messages of values: written by the schema of their topic, if it has one.

Where the schema is known, and the value fits it, nothing is waited for. A value that does not fit makes the client look
for a newer version once, before it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyromq.client.core.client import Client
from pyromq.errors import SchemaMismatchError
from pyromq.model.message import Message
from pyromq.typed.messages import BodyRule, MessageOptions, as_message, as_messages, is_by_schema


class ValueMessages:
    """Makes the messages of one client's producers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def made_now(self, given: Any, value: object, options: MessageOptions) -> Message | None:
        """What a way of sending was called with as a message; None where ``made`` has to wait for a schema.

        From any thread. Raises MessageRefusedError, TypeError.
        """
        if not isinstance(given, str) or not is_by_schema(value, options) or not self._client.is_open:
            return as_message(given, value, options)
        schemas = self._client.schemas
        if not schemas.is_known(given):
            return None
        try:
            return as_message(given, value, options, schemas.known(given))
        except SchemaMismatchError:
            return None

    async def made(self, given: Any, value: object, options: MessageOptions) -> Message:
        """The message of a topic and a value. Raises SchemaMismatchError, MessageRefusedError, TypeError."""
        made = self.made_now(given, value, options)
        if made is not None:
            return made
        rule = await self._client.schemas.find(given)
        try:
            return as_message(given, value, options, rule)
        except SchemaMismatchError:
            newer = await self._newer(given, rule)
            if newer is None:
                raise
            return as_message(given, value, options, newer)

    async def made_batch(self, given: Any, values: object, options: MessageOptions) -> Any:
        """Make the messages of a topic and several values. Raises as ``made`` does."""
        if not isinstance(given, str) or options.get("content_type") is not None:
            return as_messages(given, values, options)
        if not isinstance(values, str | bytes | Mapping) and isinstance(values, Iterable):
            values = list(values)  # it may have to be gone through twice
        rule = await self._client.schemas.find(given)
        try:
            return as_messages(given, values, options, rule)
        except SchemaMismatchError:
            newer = await self._newer(given, rule)
            if newer is None:
                raise
            return as_messages(given, values, options, newer)

    async def _newer(self, topic: str, rule: Any) -> BodyRule | None:
        return await self._client.schemas.renewed(topic, rule)
