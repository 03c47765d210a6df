"""Metadata: a replica takes over its master's topics, groups, offsets, delays and timers, in rounds.

    all tables, then the master's log end ─▶ wait until the log here is on disk that far ─▶ take over, save

The wait is what makes the tables true here: an offset, or the cursor of a delay level, never speaks of a record that
this replica does not have. Should it become the master a moment later, nothing is skipped.

Offsets that clients committed here while the master was away are kept apart; the next round brings the master those
that are ahead of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.replicating.master_calls import MasterCalls, MasterTables
from pyromq.broker.state.progress import ReplicaProgress
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
from pyromq.replication.follower import Follower
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.config_table import ConfigTable
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.store.timers.check import parse_timer_check, save_timer_check
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class MetadataSync:
    """Owned by a replica: ``run`` in a task."""

    def __init__(
        self,
        environment: Environment,
        store: MessageStore,
        tables: Tables,
        follower: Follower,
        master: MasterCalls,
        saver: Executor,
    ) -> None:
        self._settings = environment.settings.replication
        self._disk = environment.disk
        self._clock = environment.clock
        self._store = store
        self._tables = tables
        self._follower = follower
        self._master = master
        self._saver = saver
        self._known: frozenset[str] = frozenset()  # topics that the master had in the last round
        self._topics_version = tables.topics.table.version  # of the tables that were taken over last
        self._groups_version = tables.groups.table.version
        self._texts: dict[str, bytes] = {}  # of tables that only their files keep; what was saved last
        self.on_delay_offsets: Callable[[DelayOffsets], None] = lambda offsets: None  # the master has come so far
        self.rounds = 0
        self.log_end = 0  # the master's, when the tables of the last round were asked for
        self._turn = asyncio.Lock()  # held while a round is under way

    async def run(self) -> None:
        """Until cancelled: a round whenever the master is followed, every ``metadata_interval_ms``."""
        failed = False
        while True:
            await self._follower.attached.wait()
            try:
                await self._round()
                failed = False
            except (MQError, OSError, ValueError) as error:
                if not failed:
                    logger.warning("tables of the master not taken over, will be tried again: reason=%s", error)
                failed = True
            except Exception:  # a defect must not end it for good
                logger.exception("tables of the master not taken over")
                failed = True
            await asyncio.sleep(_RETRY_S if failed else self._settings.metadata_interval_ms / 1_000)

    async def refresh(self) -> None:
        """A round now, besides those that come by themselves. Raises MQError, OSError, ValueError."""
        await self._round()

    async def _round(self) -> None:
        async with self._turn:
            await self._one_round()

    async def _one_round(self) -> None:
        tables = await self._master.tables()
        reached = asyncio.ensure_future(self._follower.reached(tables.log_end))
        try:
            done, _ = await asyncio.wait((reached,), timeout=self._settings.silence_ms_max / 1_000)
        finally:
            reached.cancel()
        if not done or not self._follower.attached.is_set():
            return  # too far behind, or cut off: the next round brings newer tables
        await self._take_over(tables)
        self.rounds += 1
        self.log_end = tables.log_end

    async def _take_over(self, tables: MasterTables) -> None:
        """Raises ValueError for a text that is no table."""
        self._take_topics(tables.topics)
        groups = self._tables.groups.table
        if self._is_new("groups", tables.groups) or groups.version != self._groups_version:
            groups.adopt(tables.groups)
            self._groups_version = groups.version
        await self._take_offsets(tables.offsets)
        delays = await self._save(DelayOffsets, tables.delay_offsets)
        if isinstance(delays, DelayOffsets):
            self.on_delay_offsets(delays)
        await self._save(TimerMetrics, tables.timer_metrics)
        await self._save(RequestModeTable, tables.request_modes)
        if tables.timer_check and self._is_new("timercheck", tables.timer_check):
            check, path = parse_timer_check(tables.timer_check), self._store.layout.config / "timercheck"
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._saver, save_timer_check, self._disk, path, check)

    def _take_topics(self, text: bytes) -> None:
        topics = self._tables.topics
        if not self._is_new("topics", text) and topics.table.version == self._topics_version:
            return
        topics.adopt(text)
        self._topics_version = topics.table.version
        now = frozenset(name for name, _ in topics.items())
        for gone in self._known - now:
            self._store.delete_topic(gone)
            self._tables.progress.begin_anew(gone, ())
            logger.info("topic deleted, as the master did: topic=%s", gone)
        self._known = now

    async def _take_offsets(self, text: bytes) -> None:
        progress = self._tables.progress
        assert isinstance(progress, ReplicaProgress)
        here = progress.take_commits()
        if not here and not self._is_new("offsets", text):
            return
        progress.table.adopt(text)
        for (topic, group, queue_id), offset in here.items():
            known = progress.committed(group, topic, queue_id)
            if known is None or offset > known:
                header = UpdateConsumerOffsetHeader(
                    consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
                )
                progress.table.put(topic, group, queue_id, offset)
                try:
                    await self._master.commit(header)
                except MQError:
                    progress.put_back(here)
                    raise

    async def _save(self, kind: type[ConfigTable], text: bytes) -> ConfigTable | None:
        """A table that nothing here uses before this broker is a master: its file alone. None when it is as before."""
        if not text or not self._is_new(kind.file_name, text):
            return None
        table = kind.load(self._disk, self._store.layout.root)
        table.adopt(text)
        await asyncio.get_running_loop().run_in_executor(self._saver, table.save_job())
        return table

    def _is_new(self, name: str, text: bytes) -> bool:
        is_new = self._texts.get(name) != text
        self._texts[name] = text
        return is_new
