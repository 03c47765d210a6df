"""Facts about a message: its copies in the logs of brokers, the groups of its topic, its trace."""

from __future__ import annotations

import msgspec

from pyromq.model.failure import FailureStory
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.trace import TraceRecord


class StoredCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the message in the log of a broker. ``topic`` is that of the queue it lies in.

    ``committed`` is where the group that the queue is for stands in it; ``due_ms`` is when a delayed one is delivered.
    """

    topic: str
    broker: str
    queue: int
    offset: int
    stored_ms: int
    offset_message_id: str = ""
    attempt: int = 0
    real_topic: str = ""
    due_ms: int = 0
    is_pending: bool = False
    committed: int | None = None
    failure: FailureStory | None = None  # what it tells of the attempts before it


class PoppedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What a group that pops has done with the message: delivered so often, invisible to others until then."""

    attempts: int
    invisible_until_ms: int
    is_settled: bool


class RedrivenCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a dead letter became, what the same group has done with it, and what is traced of it."""

    message_id: str
    place: StoredCopy
    group: GroupFacts
    trace: tuple[TraceRecord, ...] = ()


class MessageOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy was made from: a dead letter of ``group``, or with ``group`` empty a message that was sent again.

    ``topic`` and ``message_id`` are those of the message that was there first.
    """

    topic: str
    message_id: str
    group: str = ""
    place: StoredCopy | None = None  # None where it has expired


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group of the topic: where it stands in the queue of the message, what it subscribes, copies of its own."""

    group: str
    committed: int | None = None
    popped: PoppedCopy | None = None  # None: the group does not pop, or never got it
    is_online: bool = False
    is_broadcasting: bool = False
    subscription: Subscription | None = None
    retries: tuple[StoredCopy, ...] = ()  # in its retry topic
    waiting: tuple[StoredCopy, ...] = ()  # in a delay topic, on the way to its retry topic
    dead: tuple[StoredCopy, ...] = ()
    head: BlockedQueue | None = None  # the message itself, where it holds up its queue
    redriven: tuple[RedrivenCopy, ...] = ()  # copies that its dead letters became


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a message."""

    topic: str
    message_id: str
    now_ms: int
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: bytes = b""  # as stored, for filters
    born_ms: int = 0
    visible: tuple[StoredCopy, ...] = ()  # in its topic
    delayed: tuple[StoredCopy, ...] = ()  # in a delay topic, on the way to its topic
    prepared: tuple[StoredCopy, ...] = ()  # still prepared: pending until its transaction ends
    discarded: tuple[StoredCopy, ...] = ()  # checked too often
    groups: tuple[GroupFacts, ...] = ()
    origin: MessageOrigin | None = None  # of a copy
    trace: tuple[TraceRecord, ...] = ()
