"""Everything a broker knows about topics, groups and clients, each table with one owner."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyromq.broker.base.environment import Environment
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.groups import Groups
from pyromq.broker.state.locks import QueueLocks
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress, ReplicaProgress
from pyromq.broker.state.topics import Topics
from pyromq.net.connection import Connection
from pyromq.replication.settings import Role
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.config_table import ConfigTable
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
    """Load what was saved, and complete what a crash or a damaged table cost. Raises CorruptFileError, OSError."""
    settings, clock, disk = environment.settings, environment.clock, environment.disk
    root = store.layout.root
    tables = Tables(
        topics=Topics(TopicTable.load(disk, root), settings, clock),
        groups=Groups(GroupTable.load(disk, root), settings, clock),
        progress=_progress(environment, OffsetTable.load(disk, root, clock.now_ms())),
        filters=Filters(FilterTable.load(disk, root), clock),
        members=Members(clock, settings.client_expiry_ms),
        locks=QueueLocks(clock, settings.lock_expiry_ms),
    )
    saved = (tables.topics.table, tables.groups.table, tables.progress.table, tables.filters.table)
    is_damaged = bool([table for table in saved if _is_damaged(table, store)])
    tables.topics.create_system_topics()
    was_replica = settings.replication.role.has_port  # perhaps: its log may have been ahead of the tables it took over
    if is_damaged or was_replica or not store.recovered.clean:
        _recover(tables, store, is_expected=was_replica or not store.recovered.clean)
    tables.groups.create_preset_groups()
    return tables


def _progress(environment: Environment, table: OffsetTable) -> Progress:
    is_replica = environment.settings.replication.role is Role.REPLICA
    return (ReplicaProgress if is_replica else Progress)(table, environment.clock)


def _is_damaged(table: ConfigTable, store: MessageStore) -> bool:
    """Whether it may lack something; says so where loading it could not know."""
    if table.found or table.trouble:  # loading it has told the trouble
        return bool(table.trouble)
    if not store.queues or not store.recovered.clean:
        return False
    is_lost = store.recovered.sealed or isinstance(table, TopicTable)  # our clean stop saves all, RocketMQ's not
    if is_lost:
        logger.error("table missing after a clean stop, it starts anew: file=%s", table.file_name)
    return is_lost


def _recover(tables: Tables, store: MessageStore, *, is_expected: bool) -> None:
    """Bring the tables in line with the queues that a crash, a master, or another program, has left."""

    def end_of(topic: str, queue_id: int) -> int:
        known = store.reader.range_of(topic, queue_id)
        return known.end if known else 0

    if restored := tables.topics.restore(store.queues):
        level = logging.WARNING if is_expected else logging.ERROR  # after a crash the newest may be unsaved
        logger.log(level, "topics restored from their queues: topics=%s", ", ".join(restored))
    if ahead := tables.progress.bring_back(end_of):
        logger.warning("committed offsets beyond the end of shortened queues, set back to it: queues=%d", ahead)
