"""Canary: whether a group consumed the first messages that were sent again, and whether one of them came back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyromq.errors import TopicNotFoundError
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.model.queue import QueueId
from pyromq.operate.resend.outcomes import ItemOutcome
from pyromq.operate.resend.outgoing import REDRIVEN_FROM

if TYPE_CHECKING:
    from pyromq.operate.admin import Admin


async def are_consumed(admin: Admin, group: str, sent: Sequence[ItemOutcome]) -> bool:
    """Whether the group has passed all of them. Raises MQError."""
    for each in sent:
        broker, _, number = each.to_queue.rpartition(":")
        if each.to_offset is None:
            return False
        committed = await admin.offsets.committed(
            group, QueueId(admin.client.wire_name(each.to_topic), broker, int(number))
        )
        if committed is None or committed <= each.to_offset:
            return False
    return True


async def came_back(admin: Admin, group: str, sent: Sequence[ItemOutcome], since_ms: int) -> bool:
    """Whether the retry or dead-letter topic of the group got one of them since then. Raises MQError."""
    places = {each.offset_message_id for each in sent}
    for topic in (retry_topic(group), dead_letter_topic(group)):
        try:
            ends = await admin.offsets.ends(topic)
        except TopicNotFoundError:
            continue
        for queue, end in ends.items():
            begin = await admin.offsets.at(queue, since_ms)
            async for message in admin.messages.walk(queue, begin, end):
                is_first = topic == retry_topic(group) and not message.delivery_attempt  # sent to this group alone
                if not is_first and message.get(REDRIVEN_FROM) in places:
                    return True
    return False
