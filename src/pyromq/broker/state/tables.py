"""Everything a broker knows about topics, groups and clients, each table with one owner."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyromq.broker.base.environment import Environment
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.groups import Groups
from pyromq.broker.state.locks import QueueLocks
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress
from pyromq.broker.state.topics import Topics
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.filter_table import FilterTable
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import OffsetTable
from pyromq.store.tables.topics import TopicTable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The first four are saved in the store's folder; connected clients and their locks live in memory only."""

    topics: Topics
    groups: Groups
    progress: Progress
    filters: Filters
    members: Members[Connection]
    locks: QueueLocks


def open_tables(environment: Environment, store: MessageStore) -> Tables:
    """Load what was saved, and complete what a crash cost. Raises CorruptFileError, OSError."""
    settings, clock, disk = environment.settings, environment.clock, environment.disk
    root = store.layout.root
    tables = Tables(
        topics=Topics(TopicTable.load(disk, root), settings, clock),
        groups=Groups(GroupTable.load(disk, root), settings, clock),
        progress=Progress(OffsetTable.load(disk, root, clock.now_ms()), clock),
        filters=Filters(FilterTable.load(disk, root), clock),
        members=Members(clock, settings.client_expiry_ms),
        locks=QueueLocks(clock, settings.lock_expiry_ms),
    )
    tables.topics.create_system_topics()
    if not store.recovered.clean:
        _recover(tables, store)
    tables.groups.create_preset_groups()
    return tables


def _recover(tables: Tables, store: MessageStore) -> None:
    """Bring the tables in line with the queues that the crash has left."""

    def end_of(topic: str, queue_id: int) -> int:
        known = store.reader.range_of(topic, queue_id)
        return known.end if known else 0

    if restored := tables.topics.restore(store.queues):
        logger.warning("topics restored from their queues: topics=%s", ", ".join(restored))
    if ahead := tables.progress.bring_back(end_of):
        logger.warning("committed offsets beyond the end of shortened queues, set back to it: queues=%d", ahead)
