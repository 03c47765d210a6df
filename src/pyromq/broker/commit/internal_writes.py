"""Internal writes: messages that the broker writes by itself, such as due, committed and dead ones."""

from __future__ import annotations

from collections.abc import Callable

from pyromq.broker.commit.commit import OnStored
from pyromq.broker.commit.group_commit import GroupCommit
from pyromq.store.message_store import MessageStore, Placed
from pyromq.wire.record import Draft


class InternalWrites:
    """Stages them beside what clients send, for the same group commit."""

    def __init__(self, store: MessageStore, group_commit: GroupCommit) -> None:
        self._store = store
        self._group_commit = group_commit

    def put(self, draft: Draft, on_stored: OnStored) -> Placed:
        """Stage a message; raises StoreError when it cannot be taken.

        ``on_stored`` runs on the loop after the commit, and after the fsync where the store flushes synchronously.
        """
        placed = self._store.stage(draft)
        self._group_commit.staged_internally((draft.topic, draft.queue_id), on_stored)
        return placed

    def soon(self, work: Callable[[], None]) -> None:
        """``work`` runs once, right before the commit of this loop iteration, and may ``put`` something into it."""
        self._group_commit.with_commit(work)

    def with_others(self, work: Callable[[], None]) -> None:
        """``work`` runs once, right before the next commit, whoever brings that about."""
        self._group_commit.before_commit(work)
