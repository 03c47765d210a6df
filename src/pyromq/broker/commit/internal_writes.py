"""Messages that the broker writes by itself: due ones, committed ones, dead ones."""

from __future__ import annotations

from pyromq.broker.commit.group_commit import GroupCommit, Then
from pyromq.store.message_store import MessageStore, Placed
from pyromq.wire.record import Draft


class InternalWrites:
    """Stages them into the turn that is open, beside what clients send."""

    def __init__(self, store: MessageStore, group_commit: GroupCommit) -> None:
        self._store = store
        self._group_commit = group_commit

    def put(self, draft: Draft, then: Then) -> Placed:
        """Raises StoreError when it cannot be taken; later ``then`` hears whether it is as safe as the store promises.

        ``then`` runs on the loop after the commit, and after the fsync where the store flushes synchronously.
        """
        placed = self._store.stage(draft)
        self._group_commit.staged_by_broker((draft.topic, draft.queue_id), then)
        return placed
