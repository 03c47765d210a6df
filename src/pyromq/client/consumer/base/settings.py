"""Settings of consumers: typed and frozen. RocketMQ's defaults where they mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyromq.client.consumer.rules.assign import Assign, assign_evenly
from pyromq.client.consumer.rules.assignment import REBALANCE_MS
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.consumer.rules.offset_store import PERSIST_MS
from pyromq.client.consumer.rules.orderly_outcome import SUSPEND_MS
from pyromq.client.consumer.rules.outcome import SEND_BACK_AGAIN_MS
from pyromq.client.consumer.rules.queue_buffer import BATCH_MAX
from pyromq.client.consumer.rules.queue_lock import RENEW_MS
from pyromq.client.core.options import ClientOptions
from pyromq.client.core.settings import require_number
from pyromq.errors import ConfigError, require
from pyromq.model.failure import TRACEBACK_BYTES_MAX
from pyromq.model.times import Span, moment_ms
from pyromq.wire.json.heartbeat import ConsumeFromWhere, MessageModel

if TYPE_CHECKING:
    from pyromq.client.consumer.base.listeners import BatchListener, SyncBatchListener
    from pyromq.client.consumer.base.offset_store import OffsetStore
    from pyromq.client.consumer.base.rebalance_listener import QueueListener
    from pyromq.client.core.hooks import ConsumeHook

Start: TypeAlias = Literal["earliest", "latest"] | datetime
"""Where a group begins in a queue that it has no offset of: at an end, or at a time (a datetime with time zone)."""

PULL_BATCH_MAX: Final = 1024
THREADS_MAX: Final = 1_000
POP_BATCH_MAX: Final = 32  # messages of one pop
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
_STARTS: Final = {
    "earliest": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "latest": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """What push and pull consumers have in common. Raises ConfigError for what cannot work.

    ``start`` counts for queues in which the group has no offset yet. ``broadcast`` gives every member every message,
    and offsets are kept in a file of this machine.
    """

    start: Start = (
        "latest"  # "earliest", "latest": what comes once it is open, or what was stored at this time or later
    )
    broadcast: bool = False
    assign: Assign = assign_evenly
    pull_batch: int = 32
    limits: FlowLimits = field(default_factory=FlowLimits)
    suspend_ms: int = 15_000  # how long a broker may hold a pull that finds nothing
    pull_timeout_ms: int = 30_000
    error_wait_ms: int = 1_000  # after a pull that failed
    rebalance_ms: int = REBALANCE_MS
    persist_ms: int = PERSIST_MS
    offsets_folder: Path | None = None  # of broadcasting; PYROMQ_OFFSETS_FOLDER or the user's home when None
    offset_store: OffsetStore | None = None  # of the application's own, instead of broker or file
    close_timeout_ms: int = 30_000  # how long closing waits for listeners
    model: MessageModel = field(init=False, repr=False, compare=False)  # RocketMQ's word for ``broadcast``
    from_where: ConsumeFromWhere = field(init=False, repr=False, compare=False)  # RocketMQ's words for ``start``
    from_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require(isinstance(self.broadcast, bool), f"broadcast must be True or False, not {self.broadcast!r}")
        if self.offset_store is not None:
            is_store = all(callable(getattr(self.offset_store, name, None)) for name in ("load", "save"))
            require(is_store, f"offset_store must have load(queue) and save(offsets): {self.offset_store!r}")
        from_where, from_ms = _start_of(self.start)
        object.__setattr__(self, "from_where", from_where)
        object.__setattr__(self, "from_ms", from_ms)
        object.__setattr__(self, "model", MessageModel.BROADCASTING if self.broadcast else MessageModel.CLUSTERING)
        require_number("pull_batch", self.pull_batch, 1, PULL_BATCH_MAX)
        for name in ("suspend_ms", "error_wait_ms", "rebalance_ms", "persist_ms", "close_timeout_ms"):
            require_number(name, getattr(self, name), 1)
        require(self.pull_timeout_ms > self.suspend_ms, "pull_timeout_ms must be longer than suspend_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerSettings(MemberSettings):
    """How a push consumer consumes."""

    mode: Literal["pull", "pop"] = "pull"  # pop: members share messages, not queues, and the broker knows each one
    invisible_ms: int = 60_000  # pop: how long a message is this member's; renewed while a listener has it
    orderly: bool = False
    batch_max: int = 1  # messages that a listener gets at once
    threads: int = 20  # for listeners that are functions
    concurrency_max: int = 64  # for listeners that are coroutines: how many run at once
    pull_interval_ms: int = 0
    attempts_max: int = -1  # failures before a message is dead; −1: as its group says (16), or no limit when orderly
    retry_levels: Mapping[int, int] = field(default_factory=dict, hash=False)  # failures → delay level; −1: dead
    skip_when_behind: int = 0  # skip messages of a queue until at most so many are to come; 0: skip none
    consume_timeout_ms: int = 15 * 60_000  # a listener that takes longer has failed; not when orderly
    exit_timeout_ms: int = 10_000  # how long the interpreter's exit waits for listeners on threads
    retry_wait_ms: int = SEND_BACK_AGAIN_MS  # before a message that no broker takes back is tried here again
    rest_ms: int = SUSPEND_MS  # orderly: how long a queue rests after a failure
    auto_commit: bool = True  # orderly: False leaves it to the listener's COMMIT and ROLLBACK
    lock_ms: int = RENEW_MS  # orderly: how often locks are renewed
    code_version: str = ""  # of the application, in the story of a failure; PYROMQ_CODE_VERSION when empty
    failure_stories: bool = True  # failed messages say why (``pyromq.model.failure``)
    traceback_bytes: int = 0  # of the listener's traceback that travel with a failed message, at most 3072; 0: none

    def __post_init__(self) -> None:
        MemberSettings.__post_init__(self)
        for name in ("orderly", "failure_stories"):
            value = getattr(self, name)
            require(isinstance(value, bool), f"{name} must be True or False, not {value!r}")
        require(isinstance(self.code_version, str), f"code_version must be text, not {self.code_version!r}")
        text = "orderly and broadcast exclude each other: order needs a queue lock, and each queue has one owner then"
        require(not (self.orderly and self.broadcast), text)
        self._check_mode()
        require_number("batch_max", self.batch_max, 1, BATCH_MAX)
        require_number("threads", self.threads, 1, THREADS_MAX)
        for name in ("concurrency_max", "consume_timeout_ms", "retry_wait_ms", "rest_ms", "lock_ms"):
            require_number(name, getattr(self, name), 1)
        require_number("pull_interval_ms", self.pull_interval_ms, 0)
        require_number("exit_timeout_ms", self.exit_timeout_ms, 0)
        require_number("attempts_max", self.attempts_max, -1)
        require_number("skip_when_behind", self.skip_when_behind, 0)
        require_number("traceback_bytes", self.traceback_bytes, 0, TRACEBACK_BYTES_MAX)
        for failures, level in self.retry_levels.items():
            require(failures >= 1, "retry_levels counts failures from 1")
            require(level >= -1, "the levels of retry_levels must be −1 (dead), 0 (the broker chooses) or more")

    def _check_mode(self) -> None:
        require(self.mode in ("pull", "pop"), f"mode={self.mode!r}: write 'pull' or 'pop'")
        require_number("invisible_ms", self.invisible_ms, 1_000, INVISIBLE_MS_MAX)
        if self.mode == "pop":
            for name in ("orderly", "broadcast", "offset_store", "skip_when_behind"):
                text = (
                    f"{name} is for queues that belong to a member, which pop mode does not have; leave out one of both"
                )
                require(not getattr(self, name), text)
            require(self.start in _STARTS, f"start={self.start!r}: brokers begin pops at 'earliest' or 'latest'")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(MemberSettings):
    """How a pull consumer fetches ahead and commits."""

    poll_batch: int = 32  # messages that ``poll`` returns at most
    poll_timeout_ms: int = 5_000  # how long ``poll`` waits for a message
    auto_commit: bool = True
    messages_max: int = 10_000  # fetched ahead, over all queues

    def __post_init__(self) -> None:
        MemberSettings.__post_init__(self)
        require_number("poll_batch", self.poll_batch, 1, BATCH_MAX)
        require_number("poll_timeout_ms", self.poll_timeout_ms, 0)
        require_number("messages_max", self.messages_max, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerSettings:
    """How a simple consumer receives. Raises ConfigError for what cannot work."""

    start: Start = "latest"  # or "earliest": of a group that never received
    invisible_ms: int = 60_000  # how long a received message is this consumer's
    wait_ms: int = 15_000  # how long ``receive`` waits for a message
    receive_batch: int = POP_BATCH_MAX  # messages that ``receive`` returns at most
    orderly: bool = False  # no message before the one ahead of it in its message group is settled
    renew: bool = True  # ``with message:`` keeps a message this consumer's while the block runs
    release_ms: int = 0  # after how long a message comes again whose block has failed
    from_where: ConsumeFromWhere = field(init=False, repr=False, compare=False)  # RocketMQ's word for ``start``

    def __post_init__(self) -> None:
        require(self.start in _STARTS, f"start={self.start!r}: brokers begin pops at 'earliest' or 'latest'")
        object.__setattr__(self, "from_where", _STARTS[str(self.start)])
        for name in ("orderly", "renew"):
            require(isinstance(getattr(self, name), bool), f"{name} must be True or False")
        require_number("invisible_ms", self.invisible_ms, 1, INVISIBLE_MS_MAX)
        require_number("wait_ms", self.wait_ms, 0)
        require_number("receive_batch", self.receive_batch, 1, POP_BATCH_MAX)
        require_number("release_ms", self.release_ms, 0, INVISIBLE_MS_MAX)


class SimpleConsumerOptions(ClientOptions, total=False):
    """Those of a simple consumer: ``invisible`` and ``wait`` are ``invisible_ms`` and ``wait_ms`` as timedelta or
    seconds, the others are fields of ``SimpleConsumerSettings``."""

    invisible: Span | None
    invisible_ms: int | None
    wait: Span | None
    wait_ms: int | None
    receive_batch: int | None
    orderly: bool | None
    renew: bool | None


class ConsumerOptions(ClientOptions, total=False):
    """What both consumers take besides: ``broadcast`` gives every member of the group every message; ``offset_store``
    keeps offsets where the application wants them (``pyromq.offsets.OffsetStore``). ``on_assigned(queues)`` is called
    with queues that the consumer has got, before their first message; ``on_revoked(queues)`` with those that it is
    about to lose, before their offsets are committed and another member gets them. Functions run on a thread."""

    broadcast: bool | None
    offset_store: OffsetStore | None
    on_assigned: QueueListener | None
    on_revoked: QueueListener | None


class _PushConsumerOptions(ConsumerOptions, total=False):
    mode: Literal["pull", "pop"] | None
    invisible: Span | None
    invisible_ms: int | None
    orderly: bool | None
    threads: int | None
    batch_max: int | None
    attempts_max: int | None
    skip_when_behind: int | None
    consume_timeout_ms: int | None
    consume_timeout: Span | None
    code_version: str | None
    traceback_bytes: int | None
    hooks: Sequence[ConsumeHook]
    trace: bool | str


class PushConsumerOptions(_PushConsumerOptions, total=False):
    """Those of a push consumer.

    ``batch_listener`` takes the place of ``listener`` and gets up to ``batch_max`` messages at once. ``hooks`` look on
    while listeners are called; ``trace`` writes what they do to RocketMQ's trace topic, or to the topic that it names.
    ``skip_when_behind=100_000`` skips what stands further back in a queue than that, as if it had been consumed.
    ``code_version`` names the version of the application in what failed messages say; ``traceback_bytes=2_000`` adds
    the last lines of the listener's traceback.
    ``consume_timeout`` is ``consume_timeout_ms`` as timedelta or seconds. ``mode="pop"`` shares messages instead of
    queues between the members of the group; ``invisible`` (``invisible_ms``, 60 s) is how long one of them is hidden
    from the others, and is renewed while a listener has it. The others are fields of ``PushConsumerSettings``.
    """

    batch_listener: BatchListener | None


class SyncPushConsumerOptions(_PushConsumerOptions, total=False):
    """Options of a push consumer without asyncio: ``batch_listener`` is a function, not a coroutine."""

    batch_listener: SyncBatchListener | None


class PullConsumerOptions(ConsumerOptions, total=False):
    """Those of a pull consumer: ``hooks`` look on while messages are polled, ``poll_timeout`` is ``poll_timeout_ms`` as
    timedelta or seconds, the others are fields of ``PullConsumerSettings``."""

    auto_commit: bool | None
    poll_batch: int | None
    poll_timeout_ms: int | None
    poll_timeout: Span | None
    hooks: Sequence[ConsumeHook]


def _start_of(start: object) -> tuple[ConsumeFromWhere, int]:
    """RocketMQ's words for a start, and the time in milliseconds. Raises ConfigError."""
    if isinstance(start, datetime):
        return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, moment_ms("start", start)
    if not isinstance(start, str) or start not in _STARTS:
        raise ConfigError(f"start={start!r}: write 'earliest', 'latest' or a datetime with a time zone")
    return _STARTS[start], 0
