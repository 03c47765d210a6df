"""Running info: what a consumer says about itself when a tool asks through the broker (307 GET_CONSUMER_RUNNING_INFO).

Everything is looked up on the loop; the response is RocketMQ's ConsumerRunningInfo, word for word (its
``droped`` too). Java's ``jstack`` becomes a text with the stacks of all threads and tasks. Options are shown as they
are handed in, so credentials must not be among them.

What RocketMQ has no field for stands among the properties, where its tools show it and pass on:

    pyromq.head.<topic>@<broker>@<queue>   JSON: the message that holds up the offset of a queue (``HeadOfLine``)
    pyromq.flow.<rule>                     how often flow control held a pull back by that rule (``Hold``)

``heads_of_line`` and ``flow_counts`` read them from a response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.rules.buffer_state import Head, Stage
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import RemoteProtocolError
from pyromq.model.failure import FailureStory
from pyromq.model.queue import QueueId
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import ConsumeType, Subscription

MIB: Final = 1 << 20
_HEAD_PREFIX: Final = "pyromq.head."
_FLOW_PREFIX: Final = "pyromq.flow."


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue (RocketMQ: ProcessQueueInfo); times are wall-clock milliseconds, 0 for never."""

    commit_offset: int = -1
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: int = 0  # taken by an orderly listener, not yet committed
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = msgspec.field(name="droped", default=False)  # sic
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class PopQueueInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    wait_ack_count: int = 0
    dropped: bool = msgspec.field(name="droped", default=False)  # sic
    last_pop_timestamp: int = 0


class HeadOfLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The first unfinished message of a queue: nothing behind it is committed before it is finished."""

    topic: str  # of the queue, so a retry topic for messages that come again
    broker_name: str
    queue_id: int
    offset: int
    message_id: str
    keys: tuple[str, ...] = ()
    age_ms: int = 0  # since a broker stored it
    attempt: int = 0  # failed deliveries before this one
    stage: Stage = Stage.WAITING
    since_ms: int = 0  # when its listener began, by the wall clock; 0 when none has it
    stack: str | None = None  # where that listener is
    story: FailureStory | None = None  # why it failed before, also what no broker knows: an orderly queue is held up


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """The whole response, before it is written."""

    name_servers: str
    consume_type: ConsumeType
    orderly: bool
    threads: int
    client_version: str
    started_ms: int
    subscriptions: Iterable[Subscription] = ()
    queues: Mapping[QueueId, QueueInfo] = field(default_factory=dict)
    pop_queues: Mapping[QueueId, PopQueueInfo] = field(default_factory=dict)
    rates: Mapping[str, TopicRates] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    user_info: Mapping[str, str] = field(default_factory=dict)
    heads: Iterable[HeadOfLine] = ()
    flow: Mapping[Hold, int] = field(default_factory=dict)
    stacks: str | None = None


def encode_running_info(info: RunningInfo) -> bytes:
    """The body of the response, as Java writes it."""
    properties = {
        **info.options,
        **{f"{_FLOW_PREFIX}{reason.name}": str(count) for reason, count in info.flow.items()},
        **{_head_name(head): msgspec.json.encode(head).decode() for head in info.heads},
        "PROP_NAMESERVER_ADDR": info.name_servers,
        "PROP_CONSUME_TYPE": info.consume_type.name,
        "PROP_CONSUMEORDERLY": "true" if info.orderly else "false",
        "PROP_THREADPOOL_CORE_SIZE": str(info.threads),
        "PROP_CLIENT_VERSION": info.client_version,
        "PROP_CONSUMER_START_TIMESTAMP": str(info.started_ms),
    }
    body = {
        "properties": properties,
        "subscriptionSet": sorted(info.subscriptions, key=lambda subscription: subscription.topic),
        "mqTable": dict(sorted(info.queues.items())),
        "mqPopTable": dict(sorted(info.pop_queues.items())),
        "statusTable": dict(info.rates),
        "userConsumerInfo": dict(info.user_info),
        "jstack": info.stacks,
    }
    return java_json.dumps(body)


def queue_info(
    owned: OwnedQueue, *, commit_offset: int | None, orderly: bool, wall_minus_monotonic_ms: int
) -> QueueInfo:
    """A queue of ours; its times are monotonic, and the last argument turns them into wall-clock time.

    What is taken is reported of orderly consumers only, as RocketMQ does: there it is taken and not yet committed.
    """
    state = owned.settle().state()
    return QueueInfo(
        commit_offset=-1 if commit_offset is None else commit_offset,
        cached_msg_min_offset=state.first_offset,
        cached_msg_max_offset=state.last_offset,
        cached_msg_count=state.message_count,
        cached_msg_size_in_mib=state.size_bytes // MIB,
        transaction_msg_min_offset=state.taken_first_offset if orderly else 0,
        transaction_msg_max_offset=state.taken_last_offset if orderly else 0,
        transaction_msg_count=state.taken_count if orderly else 0,
        locked=owned.lock.locked,
        try_unlock_times=owned.unlocks_tried,
        last_lock_timestamp=owned.lock.granted_ms + wall_minus_monotonic_ms,
        dropped=owned.is_released,
        last_pull_timestamp=owned.pull.last_pull_ms + wall_minus_monotonic_ms,
        last_consume_timestamp=owned.buffer.last_consumed_ms + wall_minus_monotonic_ms,
    )


def head_of_line(
    queue: QueueId,
    head: Head[ReceivedMessage],
    *,
    now_ms: int,
    wall_minus_monotonic_ms: int,
    stack: str | None,
    has_story: bool,
) -> HeadOfLine:
    """The first message of a buffer, in words for an operator."""
    message = head.message
    return HeadOfLine(
        topic=queue.topic,
        broker_name=queue.broker,
        queue_id=queue.number,
        offset=message.offset,
        message_id=message.message_id,
        keys=message.keys,
        age_ms=max(0, now_ms - message.stored_ms),
        attempt=message.delivery_attempt,
        stage=head.stage,
        since_ms=head.taken_ms + wall_minus_monotonic_ms if head.stage is Stage.CONSUMING else 0,
        stack=stack,
        story=message.failure_story if has_story else None,
    )


def _head_name(head: HeadOfLine) -> str:
    return f"{_HEAD_PREFIX}{head.topic}@{head.broker_name}@{head.queue_id}"


# --- reading a response --------------------------------------------------------------------------------------------


def heads_of_line(body: bytes) -> list[HeadOfLine]:
    """Which messages hold up a consumer, longest-running listener first; none for clients that do not say.

    Raises RemoteProtocolError for a body that is no running info.
    """
    found = [_read_head(text) for name, text in _properties(body).items() if name.startswith(_HEAD_PREFIX)]
    return sorted(found, key=lambda head: (head.since_ms or 1 << 62, head.topic, head.broker_name, head.queue_id))


def flow_counts(body: bytes) -> dict[Hold, int]:
    """How often each rule of flow control applied; empty for clients that do not say. Raises RemoteProtocolError."""
    properties, rules = _properties(body), Hold.__members__
    names = {
        name.removeprefix(_FLOW_PREFIX): text for name, text in properties.items() if name.startswith(_FLOW_PREFIX)
    }
    return {rules[name]: int(text) for name, text in names.items() if name in rules and text.isdecimal()}


def _read_head(text: str) -> HeadOfLine:
    try:
        return msgspec.json.decode(text, type=HeadOfLine)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the head of a queue cannot be read: {error}") from error


def _properties(body: bytes) -> dict[str, str]:
    found = java_json.parse(body)
    properties = found.get("properties", {}) if isinstance(found, dict) else None
    if not isinstance(properties, dict) or not all(isinstance(text, str) for text in properties.values()):
        raise RemoteProtocolError("a running info without a table of properties")
    return properties
