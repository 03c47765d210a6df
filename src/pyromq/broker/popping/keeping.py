"""What keeps the in-flight table: its snapshot, and on a replica the journal that the master wrote."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.popping.pop_requests import PopHandler
from pyromq.broker.popping.pops import Pops
from pyromq.broker.state.tables import Tables
from pyromq.clock import Clock
from pyromq.model.names import POP_JOURNAL_TOPIC
from pyromq.replication.settings import Role
from pyromq.store.in_flight.snapshot import Snapshot, follow, open_table
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_SAVE_MS: Final = 30_000
_FOLLOWED_MAX: Final = 500  # records of the journal that a replica applies in one tick
JOURNAL: Final[QueueKey] = (POP_JOURNAL_TOPIC, 0)


class InFlightKeeper:
    """Saves the table now and then; what a crash finds unsaved is replayed."""

    def __init__(
        self, table: InFlightTable, snapshot: Snapshot, store: MessageStore, worker: Executor, clock: Clock
    ) -> None:
        self._table = table
        self._snapshot = snapshot
        self._store = store
        self._worker = worker
        self._clock = clock
        self._saved = table.applied
        self._started_ms = clock.monotonic_ms()
        self._busy = False
        self.is_behind = False  # on a replica: there is more to apply than one tick takes

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._busy or self._saved == self._table.applied or now_ms - self._started_ms < _SAVE_MS:
            return
        self._started_ms, self._busy = now_ms, True
        copied = self._snapshot.copy(self._table)
        future = asyncio.get_running_loop().run_in_executor(self._worker, self._snapshot.save, copied)
        future.add_done_callback(partial(self._saved_up_to, copied.applied))

    def _saved_up_to(self, applied: int, future: asyncio.Future[None]) -> None:
        self._busy = False
        if (error := future.exception()) is not None:
            logger.error("in-flight messages not saved, will be tried again: reason=%s", error)
            return
        self._saved = applied

    def follow(self) -> None:
        """Apply on a replica what the master's pops have changed."""
        self.is_behind = follow(self._store, self._table, _FOLLOWED_MAX) >= _FOLLOWED_MAX

    def save_now(self) -> None:
        """At the end, on this thread."""
        if self._saved != self._table.applied:
            try:
                self._snapshot.save(self._snapshot.copy(self._table))
            except OSError as error:
                logger.error("in-flight messages not saved, the next start replays them: reason=%s", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Popping:
    """The room as a broker has it."""

    pops: Pops
    handler: PopHandler
    keeper: InFlightKeeper
    is_replica: bool

    def is_due(self, now_ms: int, wall_ms: int) -> bool:
        """Whether the next tick has something to do, by the monotonic clock and by Unix time."""
        pops = self.pops
        if pops.waiting.is_due(now_ms):
            return True
        if self.is_replica:
            return self.keeper.is_behind
        return pops.has_revived or pops.journal.has_unwritten or pops.table.has_expired(wall_ms)

    def tick(self) -> None:
        """Make expired messages available again; called ten times a second while there are any."""
        self.pops.waiting.respond_due()
        if self.is_replica:
            self.keeper.follow()
        self.keeper.tick()

    def wake(self, queues: Touched) -> None:
        """Messages of these queues became visible."""
        if len(self.pops.waiting):
            self.pops.waiting.wake(queues.names())

    def finish(self) -> None:
        """What is under way joins the last commit."""
        self.pops.journal.write()


def open_popping(
    environment: Environment, tables: Tables, write_path: WritePath, worker: Executor, counters: Counters
) -> Popping:
    """Open the journal of popped messages and build the room. Raises OSError."""
    store, clock = write_path.store, environment.clock
    snapshot = Snapshot(environment.disk, store.layout.config)
    table = open_table(store, snapshot)
    is_replica = environment.settings.replication.role is Role.REPLICA
    pops = Pops(environment, tables, store, write_path.internal_writes, table, counters)
    if not is_replica:
        pops.adopt_offsets()
    return Popping(
        pops=pops,
        handler=PopHandler(environment, pops, counters),
        keeper=InFlightKeeper(table, snapshot, store, worker, clock),
        is_replica=is_replica,
    )
