"""Cleaning on demand: what maintenance would do at its hour, now."""

from __future__ import annotations

import logging

from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.tables import Tables
from pyromq.net.connection import Connection
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import QUEUES_AT_ONCE
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)


class CleaningHandler:
    """Requests 306, 316 and 329."""

    def __init__(self, write_path: WritePath, tables: Tables, maintenance: Maintenance) -> None:
        self._store = write_path.store
        self._topics = tables.topics
        self._progress = tables.progress
        self._group_commit = write_path.group_commit
        self._maintenance = maintenance

    def clean_queues(self, connection: Connection, request: Received[None]) -> None:
        """306: queue files whose messages the log has lost; they go by themselves, and this speeds it up."""
        self._store.removal.trim_queues(QUEUES_AT_ONCE)

    def clean_topics(self, connection: Connection, request: Received[None]) -> None:
        """316: queues of topics that are not configured any more, with the progress of groups in them."""
        self._group_commit.commit_now()
        stored = {topic for topic, _ in self._store.queues}
        for topic in sorted(stored):
            if self._topics.get(topic) is None and not self._topics.is_system(topic):
                self._store.delete_topic(topic)
                self._progress.forget_topic(topic)
                logger.info("unused topic removed: topic=%s", topic)
        self._progress.save()

    def delete_expired(self, connection: Connection, request: Received[None]) -> None:
        """329: log files that have expired, at any hour."""
        self._maintenance.delete_expired(at_any_hour=True)
