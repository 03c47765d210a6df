"""Copies of stored messages, sent again: to their topic, to another one, or to one group alone.

A copy has an id that follows from the message and from where it goes (``copy_id``). So a send whose response got lost
can be looked up: what is stored under that id is the copy. Redrives of dead letters use the same send, with ids of
their own (``original_messages``).
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from pyromq.client.admin.dead_letters import DeadLetterAdmin, application_properties
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model import property_names as names
from pyromq.model.message import SendStatus
from pyromq.model.names import DEAD_LETTER_PREFIX, retry_topic
from pyromq.model.system_names import TOOL_PRODUCER
from pyromq.wire.property_text import join_items

COPIED_FROM: Final = "COPIED_FROM"


class SentCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Where a copy went. Every ``status`` means that the broker has it; only SEND_OK that it is as safe as demanded."""

    topic: str
    message_id: str
    status: SendStatus = SendStatus.SEND_OK


class CopyAdmin(DeadLetterAdmin):
    """Of ``Admin``: messages sent again."""

    async def send_copy(
        self, message: ReceivedMessage, *, topic: str = "", group: str = "", run_id: str = ""
    ) -> SentCopy:
        """Sends a stored message again: to its own topic, to ``topic``, or to ``group`` alone (its retry topic).

        With the same ``run_id`` the copy has the same id, so that ``copy_exists`` can tell whether it arrived; other
        runs make other copies. Raises TopicNotFoundError, BrokerError when it was refused, TransportError when it is
        not known whether it was stored (``dead_letters.leaves_doubt``).
        """
        home = topic or self.first_topic(message)
        target = retry_topic(group) if group else home
        own = {names.UNIQUE_KEY: copy_id(message, target, run_id), COPIED_FROM: message.offset_message_id}
        if group:
            own[names.RETRY_TOPIC] = self.client.wire_name(home)
        kept = [(name, value) for name, value in application_properties(message.properties) if name not in own]
        status = await self._send_stored(message, target, join_items([*own.items(), *kept]), TOOL_PRODUCER)
        return SentCopy(topic=target, message_id=own[names.UNIQUE_KEY], status=status)

    async def copy_exists(self, message: ReceivedMessage, sent_to: str, run_id: str) -> bool:
        """Whether a topic has the copy of a run. Raises TransportError, BrokerError."""
        return bool(await self._copies(self.client.wire_name(sent_to), copy_id(message, sent_to, run_id)))

    def first_topic(self, message: ReceivedMessage) -> str:
        """The topic that a message was sent to, also of a dead letter; without namespace."""
        if message.stored_topic.startswith(DEAD_LETTER_PREFIX):
            first = message.get(names.RETRY_TOPIC) or message.get(names.DLQ_ORIGIN_TOPIC) or message.stored_topic
            return self.client.plain_name(first)
        return self.client.plain_name(message.topic)


def copy_id(message: ReceivedMessage, target: str, run_id: str) -> str:
    """The id of a copy: always the same for a message, a topic and a run, and no other message has it."""
    text = f"{message.offset_message_id} {target} {run_id}"
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"copied").hexdigest().upper()
