"""Groups that have not read what the store deletes: who they are, and how they are reported.

A group reads a topic if it has committed an offset there, or if members that subscribe to it are connected; where it
has committed nothing, it has read nothing. Broadcasting groups keep their offsets themselves and are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyromq.broker.base.stats import Counters
from pyromq.broker.state.tables import Tables
from pyromq.store.unread import Readers, Unread
from pyromq.wire.json.heartbeat import MessageModel

logger = logging.getLogger(__name__)

_NAMED_MAX: Final = 20  # of one deletion; the others are counted


class UnreadWatch:
    """Implements ``store.unread.Groups`` for a broker."""

    def __init__(self, tables: Tables, counters: Counters) -> None:
        self._tables = tables
        self._counters = counters

    def readers(self) -> Readers:
        groups: dict[str, dict[str, Mapping[int, int]]] = {}  # by topic: next offset by queue, of each group
        for (topic, group), queues in self._tables.progress.items():
            groups.setdefault(topic, {})[group] = queues
        for live in self._tables.members.consumer_groups():
            if live.model is not MessageModel.BROADCASTING:
                for topic in live.subscriptions:
                    groups.setdefault(topic, {}).setdefault(live.name, {})
        is_system = self._tables.topics.is_system

        def of_queue(topic: str, queue_id: int) -> Mapping[str, int] | None:
            found = groups.get(topic)
            if found is None:
                return None if is_system(topic) else {}
            return {group: queues.get(queue_id, 0) for group, queues in found.items()}

        return of_queue

    def deleted(self, unread: list[Unread], *, forced: bool) -> None:
        """At ERROR what some group has not read; what no group reads only when it did not expire."""
        named = [each for each in unread if each.group or forced]
        reason = "the disk is too full" if forced else "they expired"
        for each in named[:_NAMED_MAX]:
            group = each.group or "(none reads it)"
            text = "unread messages deleted: topic=%s group=%s messages=%d reason=%s"
            logger.error(text, each.topic, group, each.messages, reason)
        if len(named) > _NAMED_MAX:
            messages = sum(each.messages for each in named[_NAMED_MAX:])
            more = len(named) - _NAMED_MAX
            logger.error("unread messages deleted, more: topics_of_groups=%d messages=%d", more, messages)
        self._counters.unread_deleted += sum(each.messages for each in named)

    def kept(self, unread: list[Unread], file: str) -> None:
        text = "file kept until a group has read it, or is deleted: file=%s topic=%s group=%s messages=%d"
        for each in unread[:_NAMED_MAX]:
            logger.error(text, file, each.topic, each.group, each.messages)
