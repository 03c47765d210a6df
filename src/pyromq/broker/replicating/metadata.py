"""Metadata: a replica takes over its master's topics, groups, offsets, delays, timers and users, in rounds.

    the master's log end ─▶ all tables ─▶ its log end again ─▶ wait until the log here is on disk that far ─▶ take over

The wait is what makes the tables true here: an offset, or the cursor of a delay level, never speaks of a record that
this replica does not have. Should it become the master a moment later, nothing is skipped.

A topic that has queues here and that the master's table does not list was deleted there, now or while this replica was
away. Its queues go, unless one of them has a record from behind the first of the two log ends: then the topic may have
been made again since, and the next round knows more. A table whose version went back was lost and begun anew: what it
lacks is no deletion.

Each table is taken over by itself: one that fails is logged, and keeps none of the others back. A round counts when all
were taken over. Of a master under a failover agent topics, groups and users are asked for when their number has grown,
and of the other tables those travel that have changed (``MasterCalls``).

Offsets that clients committed here while the master was away are kept apart; each round brings the master those that
are ahead of its own. A silent copy keeps them to itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.replicating.master_calls import MasterCalls, MasterRefusedError, MasterTables
from pyromq.broker.state.progress import Commits, ReplicaProgress
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
from pyromq.model.topic import DataVersion
from pyromq.replication.follower import Follower
from pyromq.security import handover
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.config_table import ConfigTable
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.tables.owners import OwnerTable
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.store.timers.check import parse_timer_check, save_timer_check
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_COMMITS: Final = "offsets committed here"
_TIMER_CHECK: Final = "timercheck"


class MetadataSync:
    """Owned by a replica: ``run`` in a task."""

    def __init__(
        self,
        environment: Environment,
        store: MessageStore,
        tables: Tables,
        owners: OwnerTable,
        follower: Follower,
        master: MasterCalls,
        saver: Executor,
        on_delay_offsets: Callable[[DelayOffsets], None] = lambda offsets: None,
    ) -> None:
        """``on_delay_offsets`` hears how far the master has come with its delay levels."""
        self._settings = environment.settings.replication
        self._disk = environment.disk
        self._store = store
        self._tables = tables
        self._owners = owners
        self._follower = follower
        self._master = master
        self._saver = saver
        access = environment.access
        self._book = access.guard.book if isinstance(access, GuardedAccess) else None
        self._inner = environment.settings.access.inner
        is_managed = environment.lease is not None  # then it is so from the beginning: its master may just have changed
        self.has_masters_users = is_managed and self._inner is not None  # users are the master's, and changed there
        self._taken: dict[str, tuple[bytes, DataVersion | None]] = {}  # what was taken over last, with its version here
        self._undecided = False  # topics that are gone wait for another round
        self._kept: set[str] = set()  # topics that the master has lost rather than deleted
        self.troubles: dict[str, str] = {}  # what was not taken over, and why
        self._on_delay_offsets = on_delay_offsets
        self.rounds = 0
        self.log_end = 0  # the master's, when the tables of the last round were asked for
        self._has = "", 0, 0  # which master, its lease, and how many changes it had made when the last round began
        self._turn = asyncio.Lock()  # held while a round is under way

    async def run(self) -> None:
        """Until cancelled: a round whenever the master is followed, every ``metadata_interval_ms``."""
        while True:
            await self._follower.attached.wait()
            await self._guarded("tables of the master", self._round)
            await asyncio.sleep(_RETRY_S if self.troubles else self._settings.metadata_interval_ms / 1_000)

    async def _guarded(self, name: str, take: Callable[[], Awaitable[object]]) -> bool:
        """Whether it went well; if not, ``troubles`` and the log say why, the log once."""
        try:
            await take()
        except (MQError, OSError, ValueError) as error:
            self._note_trouble(name, str(error) or type(error).__name__)
        except Exception as error:  # a defect must not end it for good
            if name not in self.troubles:
                logger.exception("not taken over: table=%s", name)
            self.troubles[name] = f"{type(error).__name__}: {error}"
        else:
            self.troubles.pop(name, None)
        return name not in self.troubles

    def _note_trouble(self, name: str, reason: str) -> None:
        if self.troubles.get(name) != reason:
            logger.warning("not taken over, will be tried again: table=%s reason=%s", name, reason)
        self.troubles[name] = reason

    async def refresh(self) -> None:
        """A round now, besides those that come by themselves. Raises MQError, OSError, ValueError."""
        await self._round()

    async def _round(self) -> None:
        async with self._turn:
            await self._one_round()

    async def _one_round(self) -> None:
        tables = await self._master.tables(self._known())
        if not await self._has_log(tables.log_end) or not self._follower.attached.is_set():
            return  # too far behind, or cut off: the next round brings newer tables
        if await self._take_over(tables):
            self.rounds += 1
            self.log_end = tables.log_end
            self._has = self._master.address, tables.lease, tables.number

    async def _has_log(self, end: int) -> bool:
        """Wait until the log here is on disk that far, but not for long."""
        if self._store.flushed_position >= end:
            return True
        reached = asyncio.ensure_future(self._follower.reached(end))
        try:
            done, _ = await asyncio.wait((reached,), timeout=self._settings.silence_ms_max / 1_000)
        finally:
            reached.cancel()
        return bool(done)

    def number_under(self, lease: int) -> int:
        """Changes of the present master under that lease that are all here; 0 before the first round.

        Numbers of two masters cannot be compared: what one had changed last the other may never have heard of.
        """
        return self._has[2] if self._has[:2] == (self._master.address, lease) else 0

    def _known(self) -> tuple[int, int]:
        """Lease and number under which topics, groups and users need not be asked for again."""
        versions = {"topics": self._tables.topics.table.version, "groups": self._tables.groups.table.version}
        are_as_taken = all(name in self._taken and self._taken[name][1] == now for name, now in versions.items())
        is_same = are_as_taken and not self._undecided and self._has[0] == self._master.address
        return self._has[1:] if is_same else (0, 0)

    async def _take_over(self, tables: MasterTables) -> bool:
        """Whether all were."""
        if tables.topics is None and not self.troubles and self._are_as_before(tables):
            return True
        parts: dict[str, Callable[[], Awaitable[object]]] = {}
        if tables.topics is not None and tables.groups is not None:
            parts = {
                "topics": partial(self._take_topics, tables.topics, tables.log_start),
                "groups": partial(self._take_groups, tables.groups),
                "users": self._take_users,
            }
        parts |= {
            "offsets": partial(self._take_offsets, tables.offsets),
            "delay offsets": partial(self._take_delays, tables.delay_offsets),
            "timer metrics": partial(self._save, TimerMetrics, tables.timer_metrics),
            "request modes": partial(self._save, RequestModeTable, tables.request_modes),
            "timer check": partial(self._take_timer_check, tables.timer_check),
        }
        return all([await self._guarded(name, take) for name, take in parts.items()])

    def _are_as_before(self, tables: MasterTables) -> bool:
        """Whether the small tables are those that were taken over last, and nothing was committed here since."""
        progress = self._tables.progress
        assert isinstance(progress, ReplicaProgress)
        small = {
            "offsets": tables.offsets,
            DelayOffsets.file_name: tables.delay_offsets,
            TimerMetrics.file_name: tables.timer_metrics,
            RequestModeTable.file_name: tables.request_modes,
            _TIMER_CHECK: tables.timer_check,
        }
        is_any_new = any(text and self._is_new(name, text) for name, text in small.items())
        return not is_any_new and not progress.has_commits

    # --- tables that are used here ---

    async def _take_topics(self, text: bytes, log_start: int) -> None:
        topics = self._tables.topics
        if not self._undecided and not self._is_new("topics", text, topics.table.version):
            return
        _, before = self._taken.get("topics", (b"", None))
        topics.adopt(text)
        gone = {topic for topic, _ in self._store.queues if topics.get(topic) is None and not topics.is_system(topic)}
        if before is not None and topics.table.version.counter < before.counter and gone - self._kept:
            self._kept |= gone
            logger.error("topics lost by the master are kept, its table went back: topics=%s", ", ".join(sorted(gone)))
        self._undecided = self._delete_topics(gone - self._kept, log_start)
        self._remember("topics", text, topics.table.version)

    def _delete_topics(self, gone: set[str], log_start: int) -> bool:
        """Whether some may have been made again, and wait for another round."""
        wait = False
        for topic in sorted(gone):
            newest = self._store.copies.newest_listed(topic)
            if newest is not None and newest >= log_start:
                wait = True
                continue
            self._store.delete_topic(topic)
            self._tables.progress.begin_anew(topic, ())
            logger.info("topic deleted, as the master did: topic=%s", topic)
        return wait

    async def _take_groups(self, text: bytes) -> None:
        table = self._tables.groups.table
        if self._is_new("groups", text, table.version):
            table.adopt(text)
            self._remember("groups", text, table.version)

    async def _take_offsets(self, text: bytes) -> None:
        progress = self._tables.progress
        assert isinstance(progress, ReplicaProgress)
        here = progress.take_commits()
        if not here:
            self.troubles.pop(_COMMITS, None)
        if not here and not self._is_new("offsets", text):
            return
        try:
            progress.table.adopt(text)
        except ValueError:
            progress.put_back(here)
            raise
        self._remember("offsets", text)
        ahead: Commits = {}
        for key, offset in here.items():
            known = progress.table.get(*key)
            if known is None or offset > known:
                ahead[key] = offset
                progress.table.put(*key, offset)
        await self._bring(progress, ahead)

    async def _bring(self, progress: ReplicaProgress, commits: Commits) -> None:
        """To the master. What it refuses is tried again as long as it has the topic. Raises MQError."""
        if self._settings.silent:  # a copy leaves no trace at its master; what is read here counts here
            progress.put_back(commits)
            return
        left, refusal = dict(commits), ""
        try:
            for (topic, group, queue_id), offset in commits.items():
                header = UpdateConsumerOffsetHeader(
                    consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
                )
                try:
                    await self._master.commit(header)
                except MasterRefusedError as error:
                    if self._tables.topics.get(topic) is not None:
                        refusal = str(error)
                        continue
                del left[topic, group, queue_id]
        finally:
            progress.put_back(left)
        if refusal:
            self._note_trouble(_COMMITS, refusal)
        else:
            self.troubles.pop(_COMMITS, None)

    async def _take_users(self) -> None:
        """Asked for here: they speak of nothing in the log, and travel when they have changed."""
        if self._book is None or self._inner is None:
            return
        known = handover.version_of(handover.Texts(self._book.text(), self._owners.text()), self._inner)
        try:
            texts = await self._master.users(known, self._inner)
        except MasterRefusedError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self.has_masters_users = False  # it is Apache's, or has none: those of this broker are its own
            return
        if texts is not None:
            handover.adopt(self._book, texts)
            self._owners.adopt(texts.owners)
            logger.info("users taken over: users=%d", len(self._book.rules.users))
        self.has_masters_users = True

    # --- tables that nothing here uses before this broker is a master: their files alone ---

    async def _take_delays(self, text: bytes) -> None:
        delays = await self._save(DelayOffsets, text)
        if isinstance(delays, DelayOffsets):
            self._on_delay_offsets(delays)

    async def _take_timer_check(self, text: bytes) -> None:
        if text and self._is_new(_TIMER_CHECK, text):
            check, path = parse_timer_check(text), self._store.layout.config / _TIMER_CHECK
            await self._elsewhere(partial(save_timer_check, self._disk, path, check))
            self._remember(_TIMER_CHECK, text)

    async def _save(self, kind: type[ConfigTable], text: bytes) -> ConfigTable | None:
        """None when the table is as before."""
        if not text or not self._is_new(kind.file_name, text):
            return None
        table = kind.load(self._disk, self._store.layout.root)
        table.adopt(text)
        await self._elsewhere(table.save_job())
        self._remember(kind.file_name, text)
        return table

    async def _elsewhere(self, job: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._saver, job)

    # --- what was taken over before ---

    def _is_new(self, name: str, text: bytes, version: DataVersion | None = None) -> bool:
        """Whether the master's text is another one, or the table here was changed since."""
        return self._taken.get(name) != (text, version)

    def _remember(self, name: str, text: bytes, version: DataVersion | None = None) -> None:
        """Once it was taken over, not before."""
        self._taken[name] = text, version
