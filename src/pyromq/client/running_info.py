"""What a consumer tells about itself when a tool asks through the broker (307 GET_CONSUMER_RUNNING_INFO).

Everything comes in as plain values, taken on the loop; the answer is RocketMQ's ConsumerRunningInfo, word for word (its
``droped`` too). Java's ``jstack`` becomes a text with the stacks of all threads and tasks. Options are shown as they
are handed in, so credentials must not be among them.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

import msgspec

from pyromq.client.queue_buffer import BufferState
from pyromq.model.queue import QueueId
from pyromq.wire import java_json
from pyromq.wire.heartbeat import ConsumeType, Subscription

MIB: Final = 1 << 20
STACK_DEPTH_MAX: Final = 64
TASKS_MAX: Final = 1_000


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


class TopicRates(msgspec.Struct, frozen=True, kw_only=True):
    """Averages of one topic (RocketMQ: ConsumeStatus): milliseconds, messages a second, failures of the last hour."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_messages: int = msgspec.field(name="consumeFailedMsgs", default=0)


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """The whole answer, before it is written."""

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
    stacks: str | None = None


def encode_running_info(info: RunningInfo) -> bytes:
    """The body of the answer, as Java writes it."""
    properties = {
        **info.options,
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
    state: BufferState,
    *,
    commit_offset: int | None,
    orderly: bool,
    locked: bool,
    unlocks_tried: int,
    dropped: bool,
    locked_ms: int,
    pulled_ms: int,
    consumed_ms: int,
    wall_minus_monotonic_ms: int,
) -> QueueInfo:
    """A queue from its buffer; times come monotonic, and the last argument turns them into wall-clock time.

    What is taken is told of orderly consumers only, as RocketMQ does: there it is taken and not yet committed.
    """
    return QueueInfo(
        commit_offset=-1 if commit_offset is None else commit_offset,
        cached_msg_min_offset=state.first_offset,
        cached_msg_max_offset=state.last_offset,
        cached_msg_count=state.message_count,
        cached_msg_size_in_mib=state.size_bytes // MIB,
        transaction_msg_min_offset=state.taken_first_offset if orderly else 0,
        transaction_msg_max_offset=state.taken_last_offset if orderly else 0,
        transaction_msg_count=state.taken_count if orderly else 0,
        locked=locked,
        try_unlock_times=unlocks_tried,
        last_lock_timestamp=locked_ms + wall_minus_monotonic_ms,
        dropped=dropped,
        last_pull_timestamp=pulled_ms + wall_minus_monotonic_ms,
        last_consume_timestamp=consumed_ms + wall_minus_monotonic_ms,
    )


def dump_stacks(loop: asyncio.AbstractEventLoop | None = None) -> str:
    """Where every thread is, and every task of a loop; call it on the loop's thread.

    The text is for people: a name and a state per thread, then its calls, the innermost last.
    """
    threads = {thread.ident: thread for thread in threading.enumerate()}
    parts = [_thread_text(threads.get(ident), ident, frame) for ident, frame in sys._current_frames().items()]
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()) if loop else []
    parts += [_task_text(task) for task in tasks[:TASKS_MAX]]
    if len(tasks) > TASKS_MAX:
        parts.append(f"… {len(tasks) - TASKS_MAX} more tasks\n")
    return "\n".join(parts)


def _thread_text(thread: threading.Thread | None, ident: int, frame: FrameType) -> str:
    name, kind = (thread.name, " daemon" if thread.daemon else "") if thread else ("unknown", "")
    stack = traceback.format_stack(frame)[-STACK_DEPTH_MAX:]
    return f'thread "{name}" id={ident}{kind}\n' + "".join(stack)


def _task_text(task: asyncio.Task[object]) -> str:
    text = io.StringIO()
    task.print_stack(limit=STACK_DEPTH_MAX, file=text)
    return f'task "{task.get_name()}"\n{text.getvalue()}'
