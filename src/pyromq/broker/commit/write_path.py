"""The write path of a broker: the store, and what stands between a request and a message on disk."""

from __future__ import annotations

from dataclasses import dataclass

from pyromq.broker.commit.group_commit import GroupCommit
from pyromq.broker.commit.internal_writes import InternalWrites
from pyromq.broker.commit.send_gate import SendGate
from pyromq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePath:
    """For handlers that write; those that only read take the store."""

    store: MessageStore
    group_commit: GroupCommit
    gate: SendGate
    internal_writes: InternalWrites
