"""Group commit (one event loop iteration): what arrives together is written, flushed and answered together.

    requests of this loop iteration ─▶ stage, stage, … ─▶ end of the turn: one ``Commit`` ─▶ ``DiskStage``

While a single connection sends, waiting for others only costs time: its group is committed as soon as its requests are
staged (``commit_early``). Owner of what is staged and not written yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.commit import Commit, OnStored, PendingSend, SendOrigin, SendsOfOneRead
from pyromq.broker.commit.disk_stage import DiskStage
from pyromq.broker.commit.touched import NO_QUEUES, Touched
from pyromq.clock import Clock
from pyromq.errors import MQError, StoreError
from pyromq.store.derived.queue_tail import QueueTail
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_NOBODY: Final[list[OnStored]] = []  # stays empty, as the next one
_NO_SENDS: Final[list[PendingSend]] = []
_ALONE_COMMITS = 16  # after so many groups in a row with sends of one connection, it counts as the only one


class GroupCommit:
    """Commits at the end of each turn in which something was staged, and hands it to the disk stage."""

    __slots__ = (
        "_acknowledger",
        "_alone_commits",
        "_before_commit",
        "_clock",
        "_disk",
        "_hasty",
        "_internal",
        "_loop",
        "_more",
        "_scheduled",
        "_sender",
        "_sends",
        "_store",
        "_times",
        "_touched",
    )

    def __init__(
        self, store: MessageStore, disk: DiskStage, acknowledger: Acknowledger, clock: Clock, times: RequestTimes
    ) -> None:
        self._store = store
        self._disk = disk
        self._acknowledger = acknowledger
        self._clock = clock
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._sends: list[PendingSend] = []
        self._more = 0  # sends in these, beyond one for each
        self._hasty: list[PendingSend] = []  # others wait for the disk or for replicas; these do not want to
        self._internal: list[OnStored] = []  # internal writes
        self._before_commit: list[Callable[[], None]] = []  # want to stage something behind everything else
        self._touched = Touched()  # queues of all of these
        self._scheduled = False  # a commit at the end of this loop iteration
        self._sender: SendOrigin | None = None  # of the last groups, as long as it was only one
        self._alone_commits = 0  # how many these were

    def staged(self, pending: PendingSend, queue: QueueKey, *, wait: bool = True) -> None:
        """Something was staged: it is committed when everything that arrived with it is staged too."""
        if wait or not self._disk.waits:
            self._sends.append(pending)
        else:
            self._hasty.append(pending)
        self._touched.keys[queue] = None
        if pending[0] is not self._sender:
            self._sender, self._alone_commits = pending[0], 0
        if not self._scheduled and self._alone_commits < _ALONE_COMMITS:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def staged_together(
        self, connection: SendOrigin, sends: SendsOfOneRead, responses: bytes, queues: list[QueueTail]
    ) -> None:
        """``staged`` of what the send lane took of one read, and ``commit_early``."""
        self._sends.append((connection, sends, responses))
        self._more += sends.sends - 1
        self._touched.add_together(queues)
        if connection is not self._sender:
            self._sender, self._alone_commits = connection, 0
        if not self._scheduled:
            if self._alone_commits < _ALONE_COMMITS:
                self._scheduled = True
                self._loop.call_soon(self._commit)
            else:
                self._commit()

    def staged_internally(self, queue: QueueKey, on_stored: OnStored) -> None:
        """An internal write was staged; it shares the commit, and the fsync, with what clients send."""
        self._internal.append(on_stored)
        self._touched.keys[queue] = None
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def before_commit(self, work: Callable[[], None]) -> None:
        """``work`` runs once, before the next commit; what it stages lies behind all else that was staged by then."""
        self._before_commit.append(work)

    def with_commit(self, work: Callable[[], None]) -> None:
        """``before_commit`` of a commit that comes in any case, at the end of this loop iteration at the latest."""
        self._before_commit.append(work)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def commit_early(self) -> None:
        """All requests of one read are staged: no other connection sends, so none is waited for."""
        if (self._sends or self._hasty) and not self._scheduled:
            self._commit()

    def commit_now(self) -> None:
        """Commit what is staged at once, for a caller that needs the store as it will be after this group."""
        if self._sends or self._hasty or self._internal:
            self._commit()

    def _commit(self) -> None:
        if self._before_commit:
            self._run_before_commit()
        if self._scheduled and not (self._sends or self._hasty or self._internal):  # committed before its time came
            self._scheduled = False
            return
        self._scheduled = False
        self._alone_commits += 1
        sends, internal, hasty, count = self._sends, _NOBODY, _NO_SENDS, len(self._sends) + self._more
        self._sends, self._more = [], 0
        if self._internal:
            internal, self._internal = self._internal, []
        if self._hasty:
            hasty, self._hasty = self._hasty, []
        commit = Commit(0, sends, count, internal, self._touched)
        self._touched = Touched()
        total = count + len(hasty) + len(internal)
        try:
            commit.end = self._store.commit()
        except Exception as error:  # also a defect: a sender without a response would wait for ever
            refusal = error if isinstance(error, MQError) else StoreError(f"{type(error).__name__}: {error}")
            is_defect = refusal is not error
            logger.error("group commit refused: messages=%d reason=%s", total, refusal, exc_info=is_defect)
            commit.sends = hasty + commit.sends
            self._acknowledger.refuse(refusal, commit)
            return
        self._times.commits.observe(total)
        if hasty:
            self._acknowledger.release(Commit(commit.end, hasty, len(hasty), [], NO_QUEUES))
        if self._disk.waits:
            commit.since_ms = self._clock.monotonic_ms()
        self._disk.take(commit)

    def _run_before_commit(self) -> None:
        self._scheduled = True  # what they stage belongs to this group
        works, self._before_commit = self._before_commit, []
        for work in works:
            try:
                work()
            except Exception:  # a defect of one must not keep this group, and all that follow, from being committed
                logger.exception("what should be staged before a commit failed")

    async def drain(self) -> None:
        """Everything staged up to now is written and answered, and no flush runs; with sync flush all is on disk."""
        await self._disk.drain()
        while self._scheduled:  # whoever was answered may have staged more
            await asyncio.sleep(0)
            await self._disk.drain()
