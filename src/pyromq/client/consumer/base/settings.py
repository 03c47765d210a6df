"""Settings of consumers: typed and frozen. RocketMQ's defaults where they mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyromq.client.consumer.rules.assign import Assign, assign_evenly
from pyromq.client.consumer.rules.assignment import REBALANCE_MS
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.consumer.rules.offset_store import PERSIST_MS
from pyromq.client.consumer.rules.orderly_outcome import SUSPEND_MS
from pyromq.client.consumer.rules.outcome import SEND_BACK_AGAIN_MS
from pyromq.client.consumer.rules.queue_buffer import BATCH_MAX
from pyromq.client.consumer.rules.queue_lock import RENEW_MS
from pyromq.errors import ConfigError
from pyromq.model.names import validate_group
from pyromq.wire.json.heartbeat import ConsumeFromWhere, MessageModel

PULL_BATCH_MAX: Final = 1024
THREADS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """What push and pull consumers have in common. Raises ConfigError or InvalidNameError for what cannot work."""

    group: str = "PYROMQ_CONSUMER"
    model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    from_ms: int = 0  # for CONSUME_FROM_TIMESTAMP; 0: half an hour before the consumer was made
    assign: Assign = assign_evenly
    pull_batch: int = 32
    limits: FlowLimits = field(default_factory=FlowLimits)
    suspend_ms: int = 15_000  # how long a broker may hold a pull that finds nothing
    pull_timeout_ms: int = 30_000
    error_wait_ms: int = 1_000  # after a pull that failed
    rebalance_ms: int = REBALANCE_MS
    persist_ms: int = PERSIST_MS
    offsets_folder: Path | None = None  # of broadcasting; the user's home when None
    close_timeout_ms: int = 30_000  # how long closing waits for listeners

    def __post_init__(self) -> None:
        validate_group(self.group)
        require(1 <= self.pull_batch <= PULL_BATCH_MAX, f"pull_batch must be 1 to {PULL_BATCH_MAX}")
        for name in ("suspend_ms", "error_wait_ms", "rebalance_ms", "persist_ms", "close_timeout_ms"):
            require(getattr(self, name) > 0, f"{name} must be positive")
        require(self.pull_timeout_ms > self.suspend_ms, "pull_timeout_ms must be longer than suspend_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerSettings(MemberSettings):
    """How a push consumer consumes."""

    orderly: bool = False
    batch_max: int = 1  # messages that a listener gets at once
    threads: int = 20  # for listeners that are functions
    concurrency_max: int = 64  # for listeners that are coroutines: how many run at once
    pull_interval_ms: int = 0
    attempts_max: int = -1  # failures before a message is dead; −1: 16, or no limit when orderly
    retry_levels: Mapping[int, int] = field(default_factory=dict, hash=False)  # failures → delay level; −1: dead
    consume_timeout_ms: int = 15 * 60_000  # a listener that takes longer has failed; not when orderly
    retry_wait_ms: int = SEND_BACK_AGAIN_MS  # before a message that no broker takes back is tried here again
    rest_ms: int = SUSPEND_MS  # orderly: how long a queue rests after a failure
    auto_commit: bool = True  # orderly: False leaves it to the listener's COMMIT and ROLLBACK
    lock_ms: int = RENEW_MS  # orderly: how often locks are renewed

    def __post_init__(self) -> None:
        MemberSettings.__post_init__(self)
        require(1 <= self.batch_max <= BATCH_MAX, f"batch_max must be 1 to {BATCH_MAX}")
        require(1 <= self.threads <= THREADS_MAX, f"threads must be 1 to {THREADS_MAX}")
        for name in ("concurrency_max", "consume_timeout_ms", "retry_wait_ms", "rest_ms", "lock_ms"):
            require(getattr(self, name) > 0, f"{name} must be positive")
        require(self.pull_interval_ms >= 0, "pull_interval_ms must not be negative")
        require(self.attempts_max >= -1, "attempts_max must be −1 or more")
        for failures, level in self.retry_levels.items():
            require(failures >= 1, "retry_levels counts failures from 1")
            require(level >= -1, "the levels of retry_levels must be −1 (dead), 0 (the broker chooses) or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(MemberSettings):
    """How a pull consumer fetches ahead and commits."""

    poll_batch: int = 32  # messages that ``poll`` returns at most
    auto_commit: bool = True
    messages_max: int = 10_000  # fetched ahead, over all queues

    def __post_init__(self) -> None:
        MemberSettings.__post_init__(self)
        require(1 <= self.poll_batch <= BATCH_MAX, f"poll_batch must be 1 to {BATCH_MAX}")
        require(self.messages_max > 0, "messages_max must be positive")


def require(holds: bool, text: str) -> None:
    if not holds:
        raise ConfigError(text)
